//! Aggregation pipelines: stages that turn a stream of documents into another one.
//!
//! [`Pipeline::parse`] checks everything that can be checked without a document; [`Pipeline::run`] connects the stages
//! to a [`Stream`]. A stage that handles one document after the other holds only the current one. A stage that must see
//! all documents first (`$sort`, `$group` and the like) holds at most [`STAGE_BYTES_MAX`] bytes. Beyond, sorts, groups and joins
//! go on in temporary files, and others fail.
//!
//! What a stage means is in the file of its family, the names of all stages are one table in `stage`. Not here: reading
//! the documents. A pipeline names its [`Source`], and [`take_leading`](Pipeline::take_leading) hands the caller those
//! stages that a search does faster.

mod accumulator;
mod bucket;
mod bucket_auto;
mod collect;
mod constant_prefix;
mod correlation;
mod count;
mod densify;
mod descend;
pub mod error;
mod executed;
mod facet;
mod fill;
pub mod foreign;
mod foreign_files;
mod foreign_search;
mod foreign_table;
mod granularity;
mod graph_lookup;
mod group;
mod group_table;
mod grouping;
mod joining;
pub mod joins;
mod lookup;
mod memory;
pub mod merge;
mod needed;
mod optimize;
mod options;
mod put_path;
mod quantiles;
mod ranked;
mod redact;
mod run;
mod sample;
mod saved_state;
mod shape;
mod sort;
mod source;
mod stage;
pub mod stream;
mod union;
mod unwind;
mod window;
pub mod write_target;
pub mod writer;

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use index::path::FieldPath;
use index::validate::validate;

pub use self::memory::STAGE_BYTES_MAX;
pub use self::optimize::Leading;
pub use self::run::Running;
pub(crate) use self::shape::Shape;
pub use self::source::Source;
pub(crate) use self::stage::{NamedStage, named};
use crate::expression::{Variables, reads_metadata};
use crate::pipeline::correlation::reads_unset;
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::foreign::{Foreign, NoForeign};
use crate::pipeline::joins::ForeignJoin;
use crate::pipeline::lookup::LookupArgument;
use crate::pipeline::stage::{FacetPipeline, Join, Nesting, ParsedStage, PlacedStage, Stage, Union};
use crate::pipeline::stream::Stream;
use crate::pipeline::union::UnionArgument;
use crate::pipeline::writer::WritingStage;

/// The limit of stages in a pipeline. This is MongoDB's limit.
pub const STAGES_MAX: usize = 1_000;

/// A pipeline, parsed once and run over any number of streams.
///
/// ```
/// use bson::{RawDocumentBuf, rawdoc};
/// use cairndb_query::expression::Variables;
/// use cairndb_query::pipeline::Pipeline;
/// use cairndb_query::pipeline::error::Error;
/// use cairndb_query::pipeline::stream::Given;
///
/// let stages = [
///     rawdoc! { "$match": { "paid": true } },
///     rawdoc! { "$group": { "_id": "$item", "sold": { "$sum": "$count" } } },
///     rawdoc! { "$sort": { "sold": -1 } },
/// ];
/// let pipeline = Pipeline::parse(&stages, &Variables::default())?;
/// let orders = [
///     rawdoc! { "item": "pen", "count": 2, "paid": true },
///     rawdoc! { "item": "ink", "count": 1, "paid": true },
///     rawdoc! { "item": "ink", "count": 5, "paid": true },
///     rawdoc! { "item": "ink", "count": 9, "paid": false },
/// ];
/// let input = Given::new(orders.into_iter().map(Ok::<_, Error>));
/// let sold: Vec<RawDocumentBuf> = pipeline.run(input).collect::<Result<_, _>>()?;
/// assert_eq!(sold, [rawdoc! { "_id": "ink", "sold": 6 }, rawdoc! { "_id": "pen", "sold": 2 }]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pipeline {
    source: Source,
    stages: Vec<PlacedStage>,
    writer: Option<WritingStage>,
    variables: Variables,
}

impl Pipeline {
    /// Parses stages. Expressions may use `variables`.
    ///
    /// # Errors
    /// If a stage does not exist, exists in MongoDB and is not supported here, or has a wrong argument. The error has
    /// the position of the stage.
    pub fn parse(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        Self::parse_in(Nesting::TopLevel, stages, variables)
    }

    /// The source of the documents.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The stage that writes what comes out of the others. Returns `None` if the pipeline only reads.
    pub fn writer(&self) -> Option<&WritingStage> {
        self.writer.as_ref()
    }

    /// The variables that expressions use.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Whether stages read metadata of the documents, which their stream then has to provide.
    pub fn reads_metadata(&self) -> bool {
        self.variables.has_metadata()
    }

    /// Whether the pipeline has no stage besides its source and its writer. All documents then come out unchanged.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The name of the first stage besides the source. Returns `None` if there is none.
    pub fn first_stage(&self) -> Option<&'static str> {
        self.stages.first().map(|placed| placed.name)
    }

    /// The position of [`first_stage`](Self::first_stage) among the parsed stages, counted from 0. Returns `None` if
    /// there is none.
    pub fn first_position(&self) -> Option<usize> {
        self.stages.first().map(|placed| placed.position)
    }

    /// Removes the first stages as far as they only select, sort, skip and limit documents, and returns them as one
    /// search. The remaining stages, run over the result of this search, give what the whole pipeline gives.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::expression::Variables;
    /// use cairndb_query::pipeline::Pipeline;
    ///
    /// let stages = [
    ///     rawdoc! { "$match": { "paid": true } },
    ///     rawdoc! { "$limit": 10 },
    ///     rawdoc! { "$count": "orders" },
    /// ];
    /// let mut pipeline = Pipeline::parse(&stages, &Variables::default())?;
    /// let leading = pipeline.take_leading();
    /// assert_eq!((leading.filter, leading.limit), (rawdoc! { "paid": true }, Some(10)));
    /// assert_eq!(pipeline.first_stage(), Some("$count"));
    /// # Ok::<(), cairndb_query::pipeline::error::Error>(())
    /// ```
    pub fn take_leading(&mut self) -> Leading {
        optimize::take_leading(&mut self.stages, &self.variables)
    }

    /// The fields that the stages read of the documents, and nothing else of them. Returns `None` if they may read any
    /// field, or return the documents themselves.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::expression::Variables;
    /// use cairndb_query::pipeline::Pipeline;
    ///
    /// let by_city = rawdoc! { "$group": { "_id": "$city", "oldest": { "$max": "$age" } } };
    /// let pipeline = Pipeline::parse(&[by_city], &Variables::default())?;
    /// let fields = pipeline.needed_fields().unwrap();
    /// assert_eq!(fields.iter().map(|path| path.as_str()).collect::<Vec<_>>(), ["city", "age"]);
    /// # Ok::<(), cairndb_query::pipeline::error::Error>(())
    /// ```
    pub fn needed_fields(&self) -> Option<Vec<FieldPath>> {
        needed::needed_fields(&self.stages)
    }

    /// The stage that was given at a position, as it is executed, for an explanation: a `$lookup` has the fields `unwinding` and
    /// `matching` for the stages that became part of it, with the names that MongoDB gives them. Returns `None` for such a stage
    /// itself.
    pub fn executed_stage(&self, position: usize, given: &RawDocument) -> Option<RawDocumentBuf> {
        executed::stage(&self.stages, position, given)
    }

    /// The searches of the `$lookup` stages that are not within others.
    pub fn joins(&self) -> Vec<ForeignJoin<'_>> {
        joins::of(&self.stages, &self.variables.without_metadata())
    }

    /// Runs the stages over a stream of documents. The stream is not read before the first result is requested. Other
    /// collections that stages name are empty: [`run_with`](Self::run_with) gives their documents.
    pub fn run<'i, E>(self, input: impl Stream<E> + Send + Sync + 'i) -> Running<'i, E>
    where
        E: From<Error> + Send + 'static,
    {
        let foreign: Arc<dyn Foreign<E> + Send + Sync> = Arc::new(NoForeign);
        self.run_with(input, &foreign)
    }

    /// Runs the stages like [`run`](Self::run), with the collections that they read besides their own.
    pub fn run_with<'i, E>(
        self,
        input: impl Stream<E> + Send + Sync + 'i,
        foreign: &Arc<dyn Foreign<E> + Send + Sync>,
    ) -> Running<'i, E>
    where
        E: From<Error> + Send + 'static,
    {
        run::run(self.stages, &self.variables, Box::new(input), foreign)
    }

    /// The collections that the stages read besides their own, each once.
    pub fn foreign_collections(&self) -> Vec<&str> {
        let mut names = Vec::new();
        stage::collect_foreign(&self.stages, &mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Parses the stages of a whole pipeline, or of one inside a stage.
    fn parse_in(nesting: Nesting, stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        // Before anything is parsed: the limit bounds the work of parsing as well.
        if stages.len() > STAGES_MAX {
            return Err(Error::TooLong { count: stages.len(), limit: STAGES_MAX });
        }
        // Documents of other collections come without metadata, and so do those of a `$facet`.
        let reads_metadata = nesting == Nesting::TopLevel && stages.iter().any(|stage| reads_metadata(stage));
        let plain = variables.without_metadata();
        let shaping = if reads_metadata { plain.clone().with_metadata() } else { plain.clone() };
        let variables = &plain;
        let mut pipeline =
            Self { source: Source::Collection, stages: Vec::new(), writer: None, variables: shaping.clone() };
        for (position, stage) in stages.iter().enumerate() {
            let at = |fault| Error::Stage { position, fault };
            // Everything after this reads the bytes unchecked.
            validate(stage.as_bytes())
                .map_err(|error| at(Fault::InvalidBson { reason: error.to_string() }))?;
            match stage::parse(stage, variables, &shaping).map_err(at)? {
                ParsedStage::Stages(name, stages) => {
                    // All stages that one was translated into keep its position and name, for errors.
                    let placed = stages.into_iter().map(|stage| PlacedStage { position, name, stage });
                    pipeline.stages.extend(placed);
                }
                ParsedStage::Source(name, source) => {
                    nesting.check_source(name, position).map_err(at)?;
                    // Documents are computed here, once, before any variable of a `$lookup` around them has a value.
                    if matches!(source, Source::Documents(_)) && reads_unset(stage, variables) {
                        let stage = "$documents with variables of $lookup".to_owned();
                        return Err(at(Fault::Unsupported { stage }));
                    }
                    pipeline.source = source;
                }
                ParsedStage::Lookup(argument) => {
                    let inside = nesting.deeper(lookup::STAGE).map_err(at)?;
                    let stage = parse_lookup(inside, *argument).map_err(at)?;
                    pipeline.stages.push(PlacedStage { position, name: lookup::STAGE, stage });
                }
                ParsedStage::Union(argument) => {
                    let inside = nesting.deeper(union::NAME).map_err(at)?;
                    let stage = parse_union(inside, &argument, variables).map_err(at)?;
                    pipeline.stages.push(PlacedStage { position, name: union::NAME, stage });
                }
                ParsedStage::Writer(writer) => {
                    // The first stage that is wrong is named, and what follows was not read yet.
                    let following = stages.len() - position - 1;
                    nesting.check_writer(writer.stage(), following).map_err(at)?;
                    pipeline.writer = Some(writer);
                }
                ParsedStage::Facet(operand) => {
                    let inside = nesting.in_facet().map_err(at)?;
                    let stage = parse_facet(inside, &operand, variables).map_err(at)?;
                    pipeline.stages.push(PlacedStage { position, name: facet::NAME, stage });
                }
            }
        }
        // Only now is it known which stages follow each other.
        optimize::join_unwinds(&mut pipeline.stages, variables);
        optimize::bound_sorts(&mut pipeline.stages);
        Ok(pipeline)
    }
}

/// Parses the pipeline of a `$unionWith`, which may contain others up to a limit.
fn parse_union(nesting: Nesting, argument: &UnionArgument, variables: &Variables) -> Result<Stage, Fault> {
    let pipeline = Pipeline::parse_in(nesting, &argument.stages, variables).map_err(union::inside)?;
    let input = argument.input(pipeline.source)?;
    Ok(Stage::Union(Union { input, stages: pipeline.stages }))
}

/// Parses the pipeline of a `$lookup`, which may contain others up to a limit.
fn parse_lookup(nesting: Nesting, argument: LookupArgument) -> Result<Stage, Fault> {
    let pipeline = Pipeline::parse_in(nesting, &argument.stages, &argument.variables);
    let Pipeline { source, stages, .. } = pipeline.map_err(lookup::inside)?;
    // The lookup may hand this filter to an index, and then leaves the stage out.
    let first = match stages.first() {
        Some(PlacedStage { stage: Stage::Match(first), .. }) => Some(&*first.given),
        Some(_) | None => None,
    };
    let lookup = argument.finish(source, first)?;
    Ok(Stage::Lookup(Box::new(Join { lookup, stages, unwound: None })))
}

/// Parses the pipelines of a `$facet`. Another one lies in them only within a pipeline of `$lookup` or `$unionWith`, and
/// those have a limit.
fn parse_facet(nesting: Nesting, operand: &RawDocument, variables: &Variables) -> Result<Stage, Fault> {
    let parse_stages = |stages: &[RawDocumentBuf]| {
        let pipeline = Pipeline::parse_in(nesting, stages, variables)?;
        // Only the stages are kept: a nested pipeline reads what the outer one does, with the same variables.
        Ok(pipeline.stages)
    };
    let pipelines = facet::parse(operand, parse_stages)?;
    let pipelines = pipelines.into_iter().map(|(name, stages)| FacetPipeline { name, stages });
    Ok(Stage::Facet(pipelines.collect()))
}
