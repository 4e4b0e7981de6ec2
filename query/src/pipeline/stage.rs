//! The names of all stages in one sorted table, and what one stage is after it has been read.
//!
//! A name that is not in the table is unknown. A name that is there as [`StageKind::Unsupported`] exists in MongoDB
//! and not here. What a stage means is in the file of its family. Some stages are defined by others (`$bucket`,
//! `$sortByCount`): they are translated into those here, so that each meaning is implemented once.
//!
//! A stage can hold pipelines (`$facet`, `$lookup`, `$unionWith`), so this file holds the whole recursion of the types. Reading the stages of
//! such a pipeline is left to `mod.rs`, running them to `run.rs`: no file of a stage imports either.

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::code::Code;
use crate::expression::Variables;
use crate::filter::Filter;
use crate::pipeline::bucket;
use crate::pipeline::bucket_auto::BucketAuto;
use crate::pipeline::count;
use crate::pipeline::densify::Densify;
use crate::pipeline::error::Fault;
use crate::pipeline::facet;
use crate::pipeline::fill::Fill;
use crate::pipeline::graph_lookup::GraphLookup;
use crate::pipeline::group::Group;
use crate::pipeline::lookup::{self, Lookup, LookupArgument};
use crate::pipeline::merge::Merge;
use crate::pipeline::options::{object, options};
use crate::pipeline::redact::Redaction;
use crate::pipeline::sample;
use crate::pipeline::shape::{self, Shape};
use crate::pipeline::sort::SortOrder;
use crate::pipeline::source::Source;
use crate::pipeline::union::{self, UnionArgument, UnionInput};
use crate::pipeline::unwind::Unwind;
use crate::pipeline::window::WindowFields;
use crate::pipeline::writer::{WritingStage, parse_out};
use crate::raw::Fields;
use crate::registry::Registry;
use crate::value::{describe, integer};

/// A stage and where it was given.
#[derive(Clone, Debug)]
pub(super) struct PlacedStage {
    /// The position among the stages that were given, counted from 0. One given stage can become several.
    pub(super) position: usize,
    /// The name under which it was given.
    pub(super) name: &'static str,
    pub(super) stage: Stage,
}

/// The action of one stage.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Match(Selection),
    Shape(Shape),
    Sort(SortOrder),
    Skip(u64),
    Limit(u64),
    /// The field that gets the count.
    Count(CString),
    Group(Group),
    BucketAuto(BucketAuto),
    Windows(Box<WindowFields>),
    Densify(Box<Densify>),
    Redact(Redaction),
    Unwind(Unwind),
    Lookup(Box<Join>),
    GraphLookup(Box<GraphLookup>),
    /// The number of documents.
    Sample(usize),
    /// The pipelines that each read all documents.
    Facet(Vec<FacetPipeline>),
    Union(Union),
}

/// A `$unionWith`: what its pipeline reads, and its stages.
#[derive(Clone, Debug)]
pub(super) struct Union {
    pub(super) input: UnionInput,
    pub(super) stages: Vec<PlacedStage>,
}

/// A `$lookup` and the stages of its pipeline.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) lookup: Lookup,
    pub(super) stages: Vec<PlacedStage>,
    /// The stages that were joined with it. Absent if the array of the documents that are found is needed.
    pub(super) unwound: Option<Unwound>,
}

/// The stages after a `$lookup` that became part of it.
#[derive(Clone, Debug)]
pub(super) struct Unwound {
    /// The `$unwind` of the array, and its position.
    pub(super) unwind: Unwind,
    pub(super) position: usize,
    /// The filter of the documents that are found, and the positions of the stages that it comes from as a whole.
    pub(super) matching: Option<Selection>,
    pub(super) matches: Vec<usize>,
}

/// One pipeline of `$facet`.
#[derive(Clone, Debug)]
pub(super) struct FacetPipeline {
    /// The field that its results are put into.
    pub(super) name: CString,
    pub(super) stages: Vec<PlacedStage>,
}

/// The filter of a `$match`, parsed and as it was given: several are joined as documents.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) filter: Filter,
    pub(super) given: RawDocumentBuf,
}

/// The meaning of a name of the table.
#[derive(Clone, Copy)]
enum StageKind {
    /// A stage that makes one document out of each.
    Shape(ParseShape),
    /// A stage that is read as one or more stages.
    Stages(ParseStages),
    /// A first stage that gives documents in place of the collection.
    Source(ParseSource),
    /// `$facet`, the stage that holds pipelines.
    Facet,
    /// `$lookup`, which reads another collection, by a pipeline or by two fields.
    Lookup,
    /// `$unionWith`, which reads another collection by a pipeline.
    Union,
    /// `$out`, which writes to a collection.
    Out,
    /// `$merge`, which does too.
    Merge,
    /// A stage of MongoDB that CairnDB does not have.
    Unsupported,
}

pub(crate) type ParseShape = fn(&'static str, RawBsonRef<'_>, &Variables) -> Result<Shape, Fault>;
type ParseStages = fn(RawBsonRef<'_>, &Variables) -> Result<Vec<Stage>, Fault>;
type ParseSource = fn(RawBsonRef<'_>, &Variables) -> Result<Source, Fault>;

/// A name of the table, for updates: they only use stages that make one document out of one.
pub(crate) enum NamedStage {
    /// A stage that an update may have.
    Shape(&'static str, ParseShape),
    /// A stage that is unsupported, or supported in aggregations only.
    Other(&'static str),
}

/// A stage that was read.
pub(super) enum ParsedStage {
    Stages(&'static str, Vec<Stage>),
    Source(&'static str, Source),
    /// The argument of `$facet`, whose pipelines are not read yet.
    Facet(RawDocumentBuf),
    /// The argument of `$lookup`, whose pipeline is not read yet.
    Lookup(Box<LookupArgument>),
    /// The argument of `$unionWith`, whose pipeline is not read yet.
    Union(UnionArgument),
    Writer(WritingStage),
}

/// The container of a pipeline. Some stages are not allowed in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nesting {
    TopLevel,
    /// In a `$facet` within as many pipelines of `$unionWith` and `$lookup`.
    InFacet(usize),
    /// In the pipeline of this stage, which is the innermost of as many of `$unionWith` and `$lookup`.
    InStages(&'static str, usize),
}

impl Nesting {
    /// Rejects a stage that gives documents anywhere but at the start of a whole pipeline.
    pub(super) fn check_source(self, stage: &'static str, position: usize) -> Result<(), Fault> {
        match self {
            Self::InFacet(_) => Err(Fault::InFacet { stage }),
            Self::TopLevel | Self::InStages(..) if position > 0 => Err(Fault::NotFirst { stage }),
            Self::TopLevel | Self::InStages(..) => Ok(()),
        }
    }

    /// Rejects a stage that writes anywhere but at the end of a whole pipeline. `following` stages come after it.
    pub(super) fn check_writer(self, stage: &'static str, following: usize) -> Result<(), Fault> {
        match self {
            Self::TopLevel if following > 0 => Err(Fault::NotLast { stage }),
            Self::TopLevel => Ok(()),
            Self::InFacet(_) => Err(Fault::InFacet { stage }),
            Self::InStages(lookup::STAGE, _) => Err(Fault::InLookup { stage }),
            Self::InStages(..) => Err(Fault::InUnion { stage }),
        }
    }

    /// The nesting of the pipeline of `stage`. Rejects one that lies too deep.
    pub(super) fn deeper(self, stage: &'static str) -> Result<Self, Fault> {
        match self.depth() {
            depth if depth >= union::DEPTH_MAX => {
                Err(Fault::TooManyNested { stage, limit: union::DEPTH_MAX })
            }
            depth => Ok(Self::InStages(stage, depth + 1)),
        }
    }

    /// The nesting of the pipelines of a `$facet`. Rejects one that is a stage of another.
    pub(super) fn in_facet(self) -> Result<Self, Fault> {
        match self {
            Self::InFacet(_) => Err(Fault::InFacet { stage: facet::NAME }),
            Self::TopLevel | Self::InStages(..) => Ok(Self::InFacet(self.depth())),
        }
    }

    /// The number of pipelines of `$unionWith` and `$lookup` around it.
    fn depth(self) -> usize {
        match self {
            Self::TopLevel => 0,
            Self::InFacet(depth) | Self::InStages(_, depth) => depth,
        }
    }
}

const STAGES: Registry<StageKind> = Registry::new(&[
    ("$addFields", StageKind::Shape(shape::set)),
    ("$bucket", StageKind::Stages(bucket_stage)),
    ("$bucketAuto", StageKind::Stages(bucket_auto_stage)),
    ("$changeStream", StageKind::Unsupported),
    ("$changeStreamSplitLargeEvent", StageKind::Unsupported),
    ("$collStats", StageKind::Source(coll_stats)),
    ("$count", StageKind::Stages(count_stage)),
    ("$currentOp", StageKind::Source(current_op)),
    ("$densify", StageKind::Stages(densify_stages)),
    ("$documents", StageKind::Source(documents)),
    ("$facet", StageKind::Facet),
    ("$fill", StageKind::Stages(fill_stages)),
    ("$geoNear", StageKind::Unsupported),
    ("$graphLookup", StageKind::Stages(graph_lookup)),
    ("$group", StageKind::Stages(group)),
    ("$indexStats", StageKind::Source(index_stats)),
    ("$limit", StageKind::Stages(limit)),
    ("$listClusterCatalog", StageKind::Unsupported),
    ("$listLocalSessions", StageKind::Source(list_local_sessions)),
    ("$listSampledQueries", StageKind::Unsupported),
    ("$listSearchIndexes", StageKind::Unsupported),
    ("$listSessions", StageKind::Unsupported),
    ("$lookup", StageKind::Lookup),
    ("$match", StageKind::Stages(match_stage)),
    ("$merge", StageKind::Merge),
    ("$out", StageKind::Out),
    ("$planCacheStats", StageKind::Source(plan_cache_stats)),
    ("$project", StageKind::Shape(shape::project)),
    ("$querySettings", StageKind::Unsupported),
    ("$queryStats", StageKind::Unsupported),
    ("$rankFusion", StageKind::Unsupported),
    ("$redact", StageKind::Stages(redact)),
    ("$replaceRoot", StageKind::Shape(shape::replace_root)),
    ("$replaceWith", StageKind::Shape(shape::replace_with)),
    ("$sample", StageKind::Stages(sample_stage)),
    ("$score", StageKind::Unsupported),
    ("$scoreFusion", StageKind::Unsupported),
    ("$search", StageKind::Unsupported),
    ("$searchMeta", StageKind::Unsupported),
    ("$set", StageKind::Shape(shape::set)),
    ("$setWindowFields", StageKind::Stages(window_stages)),
    ("$shardedDataDistribution", StageKind::Unsupported),
    ("$skip", StageKind::Stages(skip)),
    ("$sort", StageKind::Stages(sort)),
    ("$sortByCount", StageKind::Stages(sort_by_count)),
    ("$unionWith", StageKind::Union),
    ("$unset", StageKind::Shape(shape::unset)),
    ("$unwind", StageKind::Stages(unwind)),
    ("$vectorSearch", StageKind::Unsupported),
]);

/// The part of a stage that updates may use. Returns `None` if MongoDB has no stage of this name either.
pub(crate) fn named(name: &str) -> Option<NamedStage> {
    Some(match row(name)? {
        (stage, StageKind::Shape(parse)) => NamedStage::Shape(stage, parse),
        (
            stage,
            StageKind::Stages(_)
            | StageKind::Source(_)
            | StageKind::Facet
            | StageKind::Lookup
            | StageKind::Union
            | StageKind::Out
            | StageKind::Merge
            | StageKind::Unsupported,
        ) => NamedStage::Other(stage),
    })
}

/// Lets stages that are run again and again keep what they have read of other collections.
pub(super) fn keep_tables(stages: &mut [PlacedStage]) {
    for placed in stages {
        match &mut placed.stage {
            Stage::GraphLookup(graph) => graph.keep_table(),
            // Theirs are run as often.
            Stage::Lookup(join) => keep_tables(&mut join.stages),
            Stage::Union(union) => keep_tables(&mut union.stages),
            Stage::Facet(pipelines) => {
                for pipeline in pipelines {
                    keep_tables(&mut pipeline.stages);
                }
            }
            Stage::Match(_)
            | Stage::Shape(_)
            | Stage::Sort(_)
            | Stage::Skip(_)
            | Stage::Limit(_)
            | Stage::Count(_)
            | Stage::Group(_)
            | Stage::BucketAuto(_)
            | Stage::Windows(_)
            | Stage::Densify(_)
            | Stage::Redact(_)
            | Stage::Unwind(_)
            | Stage::Sample(_) => {}
        }
    }
}

/// Adds the collections that stages read besides their own.
pub(super) fn collect_foreign<'s>(stages: &'s [PlacedStage], names: &mut Vec<&'s str>) {
    for placed in stages {
        if let Stage::Lookup(join) = &placed.stage {
            names.extend(join.lookup.from.as_deref());
            collect_foreign(&join.stages, names);
        }
        if let Stage::GraphLookup(graph) = &placed.stage {
            names.push(&graph.from);
        }
        if let Stage::Facet(pipelines) = &placed.stage {
            for pipeline in pipelines {
                collect_foreign(&pipeline.stages, names);
            }
        }
        if let Stage::Union(union) = &placed.stage {
            if let UnionInput::Collection(from) = &union.input {
                names.push(from);
            }
            collect_foreign(&union.stages, names);
        }
    }
}

/// The row of the table for a name.
fn row(name: &str) -> Option<(&'static str, StageKind)> {
    STAGES.entry(name).copied()
}

/// Parses one stage. Only those that make one document out of one can give its metadata, by `shaping`.
pub(super) fn parse(
    stage: &RawDocument,
    variables: &Variables,
    shaping: &Variables,
) -> Result<ParsedStage, Fault> {
    let fields = Fields::of(stage).collect::<Result<Vec<_>, _>>()?;
    let [field] = fields.as_slice() else { return Err(Fault::FieldCount) };
    let operand = field.value()?;
    let Some((name, kind)) = row(field.name()) else {
        // The name can have any length, and an error is to stay readable.
        return Err(Fault::Unknown { stage: crate::value::shorten(field.name()) });
    };
    // Shapes get the name, because several names share one function: `$set` and `$addFields`.
    Ok(match kind {
        StageKind::Shape(parse) => {
            ParsedStage::Stages(name, vec![Stage::Shape(parse(name, operand, shaping)?)])
        }
        StageKind::Stages(parse) => ParsedStage::Stages(name, parse(operand, variables)?),
        StageKind::Source(parse) => ParsedStage::Source(name, parse(operand, variables)?),
        // Its pipelines are read by the caller, which reads stages through this function.
        StageKind::Facet => ParsedStage::Facet(facet::operand(operand)?.to_owned()),
        StageKind::Lookup => ParsedStage::Lookup(Box::new(LookupArgument::parse(operand, variables)?)),
        StageKind::Union => ParsedStage::Union(UnionArgument::parse(operand)?),
        StageKind::Out => ParsedStage::Writer(WritingStage::Out(parse_out(operand)?)),
        StageKind::Merge => {
            ParsedStage::Writer(WritingStage::Merge(Box::new(Merge::parse(operand, variables)?)))
        }
        StageKind::Unsupported => return Err(Fault::Unsupported { stage: name.to_owned() }),
    })
}

/// Parses `$match`. The filter is kept as given as well, for the search that may include it.
fn match_stage(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let given = object("$match", operand, Code::MATCH_NOT_OBJECT)?;
    let filter = Filter::parse_with(given, variables)?;
    Ok(vec![Stage::Match(Selection { filter, given: given.to_owned() })])
}

/// `$bucket` gives its groups in the order of their lower boundaries.
fn bucket_stage(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let group = bucket::parse(operand, variables)?;
    Ok(vec![Stage::Group(group), Stage::Sort(SortOrder::of(&rawdoc! { "_id": 1 })?)])
}

fn bucket_auto_stage(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::BucketAuto(BucketAuto::parse(operand, variables)?)])
}

/// `$setWindowFields`: the sort that it needs, and the windows over its result.
fn window_stages(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let (order, windows) = WindowFields::parse(operand, variables)?;
    Ok(order.map(Stage::Sort).into_iter().chain([Stage::Windows(Box::new(windows))]).collect())
}

/// `$fill`: windows for the methods, and after them the values.
fn fill_stages(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let Fill { windows, values } = Fill::parse(operand, variables)?;
    let windows = windows.into_iter().flat_map(|(order, windows)| {
        order.map(Stage::Sort).into_iter().chain([Stage::Windows(Box::new(windows))])
    });
    Ok(windows.chain(values.map(|values| Stage::Shape(Shape::Set(values)))).collect())
}

/// `$densify`: the sort that it needs, and the documents between those of its result.
fn densify_stages(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let (order, densify) = Densify::parse(operand, variables)?;
    Ok(vec![Stage::Sort(order), Stage::Densify(Box::new(densify))])
}

fn redact(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Redact(Redaction::parse(operand, variables)?)])
}

fn sort(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Sort(SortOrder::parse(operand)?)])
}

/// Parses `$skip`: 0 is accepted.
fn skip(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Skip(whole("$skip", operand, Code::SKIP_OPERAND)?)])
}

/// Parses `$limit`, which must be above 0.
fn limit(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    match whole("$limit", operand, Code::LIMIT_OPERAND)? {
        0 => Err(wrong("$limit", "an integer above 0", operand, Code::LIMIT_NOT_POSITIVE)),
        limit => Ok(vec![Stage::Limit(limit)]),
    }
}

/// Parses a count of documents. A double without a fraction is one.
fn whole(stage: &'static str, operand: RawBsonRef<'_>, code: Code) -> Result<u64, Fault> {
    let whole = integer(operand).and_then(|value| u64::try_from(value).ok());
    whole.ok_or_else(|| wrong(stage, "an integer of 0 or more", operand, code))
}

fn count_stage(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Count(count::parse(operand)?)])
}

fn group(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Group(Group::parse(operand, variables)?)])
}

fn graph_lookup(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::GraphLookup(Box::new(GraphLookup::parse(operand, variables)?))])
}

fn unwind(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Unwind(Unwind::parse(operand)?)])
}

fn sample_stage(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Sample(sample::parse(operand)?)])
}

/// `$sortByCount`: groups with the number of their documents, the largest group first.
fn sort_by_count(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    // A `$group` accepts a constant as its `_id`, `$sortByCount` does not: MongoDB's rule.
    let refuse = |expected, code| Err(wrong("$sortByCount", expected, operand, code));
    if let Some(document) = operand.as_document() {
        // An object without operators would be a constant, or an object of paths.
        let first = Fields::of(document).next().transpose()?;
        if !first.is_some_and(|field| field.name().starts_with('$')) {
            return refuse("an expression inside the object", Code::SORT_BY_COUNT_OBJECT);
        }
    } else if let Some(text) = operand.as_str() {
        if !text.starts_with('$') {
            return refuse("a path that starts with a dollar sign", Code::SORT_BY_COUNT_TEXT);
        }
    } else {
        return refuse("a path or an expression", Code::SORT_BY_COUNT_TYPE);
    }
    let group = Group::by(operand, &rawdoc! { "count": { "$sum": 1 } }, variables)?;
    Ok(vec![Stage::Group(group), Stage::Sort(SortOrder::of(&rawdoc! { "count": -1 })?)])
}

/// `$documents`: an expression that depends on no document and gives an array of documents.
fn documents(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Source, Fault> {
    let expression = crate::expression::Expression::parse(operand, variables)?;
    // There is no document yet, so every path in the expression is missing.
    let value = expression.evaluate(&RawDocumentBuf::new(), variables)?;
    let value = value.as_ref().map_or(RawBsonRef::Null, bson::RawBson::as_raw_bson_ref);
    let array = value.as_array();
    let array =
        array.ok_or_else(|| wrong("$documents", "an array of objects", value, Code::DOCUMENTS_OPERAND))?;
    let document = |element: RawBsonRef<'_>| {
        let document = element.as_document().map(RawDocument::to_owned);
        document.ok_or_else(|| wrong("$documents", "an array of objects", element, Code::NEW_ROOT_NOT_OBJECT))
    };
    crate::value::elements(array).map(document).collect::<Result<_, _>>().map(Source::Documents)
}

/// Parses `$collStats`. Its options are the caller's to read.
fn coll_stats(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    Ok(Source::CollStats(object("$collStats", operand, Code::COLL_STATS_OPERAND)?.to_owned()))
}

/// Parses `$currentOp`. Its options are the caller's to read.
fn current_op(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    Ok(Source::CurrentOp(object("$currentOp", operand, Code::FAILED_TO_PARSE)?.to_owned()))
}

/// Parses `$listLocalSessions`. Its options are the caller's to read.
fn list_local_sessions(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    Ok(Source::ListLocalSessions(object("$listLocalSessions", operand, Code::FAILED_TO_PARSE)?.to_owned()))
}

/// Parses `$planCacheStats`. All hosts are the only one.
fn plan_cache_stats(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    const STAGE: &str = "$planCacheStats";
    let code = Code::FAILED_TO_PARSE;
    let [all_hosts] = options(STAGE, ["allHosts"], operand, code, code)?;
    match all_hosts {
        None | Some(RawBsonRef::Boolean(_)) => Ok(Source::PlanCacheStats),
        Some(other) => Err(wrong(STAGE, "a boolean as 'allHosts'", other, code)),
    }
}

/// Parses `$indexStats`, which has no options.
fn index_stats(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    match operand.as_document() {
        Some(document) if document.is_empty() => Ok(Source::IndexStats),
        Some(_) | None => Err(wrong("$indexStats", "an empty object", operand, Code::INDEX_STATS_OPERAND)),
    }
}

/// The error for a wrong argument.
fn wrong(stage: &'static str, expected: &'static str, operand: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage, expected, found: describe(operand), code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        assert!(STAGES.entries().iter().all(|(name, _)| row(name).is_some_and(|(found, _)| found == *name)));
        assert!(row("$nothing").is_none());
        assert!(row("match").is_none());
    }
}
