//! The names of all stages in one sorted table, and what one stage is once it was read.
//!
//! A name that is not in the table is unknown; one that is there as [`Known::Unsupported`] exists in MongoDB and not
//! here. What a stage means stands in the file of its family. Some stages are others in disguise: they become those
//! here, so that there is one meaning.

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::expression::Variables;
use crate::filter::Filter;
use crate::pipeline::Source;
use crate::pipeline::bucket;
use crate::pipeline::count;
use crate::pipeline::error::Fault;
use crate::pipeline::facet::Facet;
use crate::pipeline::group::Group;
use crate::pipeline::options::object;
use crate::pipeline::sample;
use crate::pipeline::shape::{self, Shape};
use crate::pipeline::sort::SortOrder;
use crate::pipeline::unwind::Unwind;
use crate::raw::Fields;
use crate::value::{describe, integer};

/// A stage with its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// Where it stands among the stages that were given.
    pub(super) position: usize,
    /// What it was given as.
    pub(super) name: &'static str,
    pub(super) stage: Stage,
}

/// What is done with documents.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Match(Selection),
    Shape(Shape),
    Sort(SortOrder),
    Skip(u64),
    Limit(u64),
    Count(CString),
    Group(Group),
    Unwind(Unwind),
    Sample(usize),
    Facet(Facet),
}

/// A filter, and how it was given.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) filter: Filter,
    pub(super) given: RawDocumentBuf,
}

/// What is known of a name.
#[derive(Clone, Copy)]
enum Known {
    /// One document is made out of one.
    Shape(ParseShape),
    Stages(ParseStages),
    /// Documents come from elsewhere.
    Source(ParseSource),
    /// Pipelines in a stage.
    Facet,
    Unsupported,
}

pub(crate) type ParseShape = fn(&'static str, RawBsonRef<'_>, &Variables) -> Result<Shape, Fault>;
type ParseStages = fn(RawBsonRef<'_>, &Variables) -> Result<Vec<Stage>, Fault>;
/// A name of the table, for whoever has use for stages that make one document out of one and for no others.
pub(crate) enum Named {
    Shape(&'static str, ParseShape),
    Other(&'static str),
}

type ParseSource = fn(RawBsonRef<'_>, &Variables) -> Result<Source, Fault>;

/// A stage that was read.
pub(super) enum Parsed {
    Stages(&'static str, Vec<Stage>),
    Source(&'static str, Source),
    /// The argument of `$facet`, which has stages of its own.
    Facet(RawDocumentBuf),
}

/// What a pipeline stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Top,
    Facet,
}

impl Position {
    pub(super) fn admit_source(self, stage: &'static str, place: usize) -> Result<(), Fault> {
        match self {
            Self::Facet => Err(Fault::InFacet { stage }),
            Self::Top if place > 0 => Err(Fault::NotFirst { stage }),
            Self::Top => Ok(()),
        }
    }

    pub(super) fn admit_facet(self) -> Result<(), Fault> {
        match self {
            Self::Facet => Err(Fault::InFacet { stage: crate::pipeline::facet::NAME }),
            Self::Top => Ok(()),
        }
    }
}

const NOT_OBJECT_DOCUMENT: i32 = 40_228;
const MATCH_NOT_OBJECT: i32 = 15_959;
const LIMIT_ZERO: i32 = 15_958;
const INDEX_STATS_OPERAND: i32 = 28_803;
const SORT_BY_COUNT_OBJECT: i32 = 40_147;
const SORT_BY_COUNT_TEXT: i32 = 40_148;
const SORT_BY_COUNT_TYPE: i32 = 40_149;
const SKIP_OPERAND: i32 = 5_107_200;
const LIMIT_OPERAND: i32 = 5_107_201;
const COLL_STATS_OPERAND: i32 = 5_447_000;
const DOCUMENTS_OPERAND: i32 = 5_858_203;
const FAILED_TO_PARSE: i32 = 9;

/// Ascending by name.
const STAGES: &[(&str, Known)] = &[
    ("$addFields", Known::Shape(shape::set)),
    ("$bucket", Known::Stages(bucket::parse)),
    ("$bucketAuto", Known::Unsupported),
    ("$changeStream", Known::Unsupported),
    ("$changeStreamSplitLargeEvent", Known::Unsupported),
    ("$collStats", Known::Source(coll_stats)),
    ("$count", Known::Stages(count_stage)),
    ("$currentOp", Known::Source(current_op)),
    ("$densify", Known::Unsupported),
    ("$documents", Known::Source(documents)),
    ("$facet", Known::Facet),
    ("$fill", Known::Unsupported),
    ("$geoNear", Known::Unsupported),
    ("$graphLookup", Known::Unsupported),
    ("$group", Known::Stages(group)),
    ("$indexStats", Known::Source(index_stats)),
    ("$limit", Known::Stages(limit)),
    ("$listClusterCatalog", Known::Unsupported),
    ("$listLocalSessions", Known::Unsupported),
    ("$listSampledQueries", Known::Unsupported),
    ("$listSearchIndexes", Known::Unsupported),
    ("$listSessions", Known::Unsupported),
    ("$lookup", Known::Unsupported),
    ("$match", Known::Stages(match_stage)),
    ("$merge", Known::Unsupported),
    ("$out", Known::Unsupported),
    ("$planCacheStats", Known::Unsupported),
    ("$project", Known::Shape(shape::project)),
    ("$querySettings", Known::Unsupported),
    ("$queryStats", Known::Unsupported),
    ("$rankFusion", Known::Unsupported),
    ("$redact", Known::Unsupported),
    ("$replaceRoot", Known::Shape(shape::replace_root)),
    ("$replaceWith", Known::Shape(shape::replace_with)),
    ("$sample", Known::Stages(sample_stage)),
    ("$score", Known::Unsupported),
    ("$scoreFusion", Known::Unsupported),
    ("$search", Known::Unsupported),
    ("$searchMeta", Known::Unsupported),
    ("$set", Known::Shape(shape::set)),
    ("$setWindowFields", Known::Unsupported),
    ("$shardedDataDistribution", Known::Unsupported),
    ("$skip", Known::Stages(skip)),
    ("$sort", Known::Stages(sort)),
    ("$sortByCount", Known::Stages(sort_by_count)),
    ("$unionWith", Known::Unsupported),
    ("$unset", Known::Shape(shape::unset)),
    ("$unwind", Known::Stages(unwind)),
    ("$vectorSearch", Known::Unsupported),
];

/// What the stage of a name is; nothing if there is none.
pub(crate) fn named(name: &str) -> Option<Named> {
    Some(match known(name)? {
        (stage, Known::Shape(parse)) => Named::Shape(stage, parse),
        (stage, Known::Stages(_) | Known::Source(_) | Known::Facet | Known::Unsupported) => {
            Named::Other(stage)
        }
    })
}

/// The stage of a name, as it is written in the table, and what is known of it.
fn known(name: &str) -> Option<(&'static str, Known)> {
    let place = STAGES.binary_search_by_key(&name, |(known, _)| known).ok()?;
    STAGES.get(place).copied()
}

/// Reads one stage.
pub(super) fn parse(stage: &RawDocument, variables: &Variables) -> Result<Parsed, Fault> {
    let fields = Fields::of(stage).collect::<Result<Vec<_>, _>>()?;
    let [field] = fields.as_slice() else { return Err(Fault::FieldCount) };
    let operand = field.value()?;
    let Some((name, known)) = known(field.name()) else {
        return Err(Fault::Unknown { stage: crate::value::shorten(field.name()) });
    };
    Ok(match known {
        Known::Shape(parse) => Parsed::Stages(name, vec![Stage::Shape(parse(name, operand, variables)?)]),
        Known::Stages(parse) => Parsed::Stages(name, parse(operand, variables)?),
        Known::Source(parse) => Parsed::Source(name, parse(operand, variables)?),
        Known::Facet => Parsed::Facet(crate::pipeline::facet::operand(operand)?.to_owned()),
        Known::Unsupported => return Err(Fault::Unsupported { stage: name.to_owned() }),
    })
}

fn match_stage(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let given = object("$match", operand, MATCH_NOT_OBJECT)?;
    let filter = Filter::parse_with(given, variables)?;
    Ok(vec![Stage::Match(Selection { filter, given: given.to_owned() })])
}

fn sort(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Sort(SortOrder::parse(operand)?)])
}

fn skip(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Skip(whole("$skip", operand, SKIP_OPERAND)?)])
}

fn limit(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    match whole("$limit", operand, LIMIT_OPERAND)? {
        0 => Err(wrong("$limit", "an integer above 0", operand, LIMIT_ZERO)),
        limit => Ok(vec![Stage::Limit(limit)]),
    }
}

fn whole(stage: &'static str, operand: RawBsonRef<'_>, code: i32) -> Result<u64, Fault> {
    let whole = integer(operand).and_then(|value| u64::try_from(value).ok());
    whole.ok_or_else(|| wrong(stage, "an integer of 0 or more", operand, code))
}

fn count_stage(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Count(count::parse(operand)?)])
}

fn group(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Group(Group::parse(operand, variables)?)])
}

fn unwind(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Unwind(Unwind::parse(operand)?)])
}

fn sample_stage(operand: RawBsonRef<'_>, _: &Variables) -> Result<Vec<Stage>, Fault> {
    Ok(vec![Stage::Sample(sample::parse(operand)?)])
}

/// Groups that count, the largest first.
fn sort_by_count(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<Stage>, Fault> {
    let refuse = |expected, code| Err(wrong("$sortByCount", expected, operand, code));
    if let Some(document) = operand.as_document() {
        let first = Fields::of(document).next().transpose()?;
        if !first.is_some_and(|field| field.name().starts_with('$')) {
            return refuse("an expression inside the object", SORT_BY_COUNT_OBJECT);
        }
    } else if let Some(text) = operand.as_str() {
        if !text.starts_with('$') {
            return refuse("a path that starts with a dollar sign", SORT_BY_COUNT_TEXT);
        }
    } else {
        return refuse("a path or an expression", SORT_BY_COUNT_TYPE);
    }
    let group = Group::by(operand, &rawdoc! { "count": { "$sum": 1 } }, variables)?;
    Ok(vec![Stage::Group(group), Stage::Sort(SortOrder::of(&rawdoc! { "count": -1 })?)])
}

/// The elements of an array that depends on no document, each of which must be one.
fn documents(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Source, Fault> {
    let expression = crate::expression::Expression::parse(operand, variables)?;
    let value = expression.evaluate(&RawDocumentBuf::new(), variables)?;
    let value = value.as_ref().map_or(RawBsonRef::Null, bson::RawBson::as_raw_bson_ref);
    let array = value.as_array();
    let array = array.ok_or_else(|| wrong("$documents", "an array of objects", value, DOCUMENTS_OPERAND))?;
    let document = |element: RawBsonRef<'_>| {
        let document = element.as_document().map(RawDocument::to_owned);
        document.ok_or_else(|| wrong("$documents", "an array of objects", element, NOT_OBJECT_DOCUMENT))
    };
    crate::value::elements(array).map(document).collect::<Result<_, _>>().map(Source::Documents)
}

fn coll_stats(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    Ok(Source::CollStats(object("$collStats", operand, COLL_STATS_OPERAND)?.to_owned()))
}

fn current_op(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    Ok(Source::CurrentOp(object("$currentOp", operand, FAILED_TO_PARSE)?.to_owned()))
}

fn index_stats(operand: RawBsonRef<'_>, _: &Variables) -> Result<Source, Fault> {
    match operand.as_document() {
        Some(document) if document.is_empty() => Ok(Source::IndexStats),
        Some(_) | None => Err(wrong("$indexStats", "an empty object", operand, INDEX_STATS_OPERAND)),
    }
}

fn wrong(stage: &'static str, expected: &'static str, operand: RawBsonRef<'_>, code: i32) -> Fault {
    Fault::Operand { stage, expected, found: describe(operand), code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(STAGES.is_sorted_by(|(left, _), (right, _)| left < right));
    }

    #[test]
    fn every_name_is_found() {
        assert!(STAGES.iter().all(|(name, _)| known(name).is_some_and(|(found, _)| found == *name)));
        assert!(known("$nothing").is_none());
        assert!(known("match").is_none());
    }
}
