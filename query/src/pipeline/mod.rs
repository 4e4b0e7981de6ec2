//! Aggregation pipelines: stages that turn a stream of documents into another one.
//!
//! [`Pipeline::parse`] checks everything that can be checked without a document; [`Pipeline::run`] puts the stages
//! behind a [`Stream`]. A stage that can work on one document after the other holds no other; one that must see all
//! first (`$sort`, `$group` and the like) holds at most [`STAGE_BYTES_MAX`] bytes and gives up beyond.
//!
//! What a stage means stands in the file of its family, their names in one table in `stage`. Not here: where documents
//! come from. A pipeline tells its [`Source`], and by [`take_leading`](Pipeline::take_leading) what whoever reads the
//! documents can do better.

mod accumulator;
mod bucket;
mod collect;
mod count;
pub mod error;
mod facet;
mod group;
mod memory;
mod optimize;
mod options;
mod ranked;
mod run;
mod sample;
mod shape;
mod sort;
mod source;
mod stage;
pub mod stream;
mod unwind;

use bson::{RawDocument, RawDocumentBuf};
use index::validate::validate;

pub use self::memory::STAGE_BYTES_MAX;
pub use self::optimize::Leading;
pub use self::run::Running;
pub(crate) use self::shape::Shape;
pub use self::source::Source;
pub(crate) use self::stage::{NamedStage, named};
use crate::expression::Variables;
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::stage::{FacetPipeline, Nesting, ParsedStage, PlacedStage, Stage};
use crate::pipeline::stream::Stream;

/// How many stages a pipeline may have.
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
    variables: Variables,
}

impl Pipeline {
    /// Reads stages. Expressions may use the variables.
    ///
    /// # Errors
    /// What is wrong with a stage, and which one it is: a name that does not exist, one that exists in MongoDB and not
    /// here, and an argument that is wrong are three different faults.
    pub fn parse(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        Self::parse_in(Nesting::TopLevel, stages, variables)
    }

    /// Where the documents come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The variables that expressions see.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Whether no stage is left behind the source, so that every document comes out as it came in.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The name of the first stage that works on documents.
    pub fn first_stage(&self) -> Option<&'static str> {
        self.stages.first().map(|placed| placed.name)
    }

    /// Where among the stages that were read the first one stood that works on documents.
    pub fn first_position(&self) -> Option<usize> {
        self.stages.first().map(|placed| placed.position)
    }

    /// Takes what the stages at the front select, sort, skip and limit out of the pipeline, for whoever reads the
    /// documents to do it.
    ///
    /// The rest, run over documents that were selected and sorted so, gives what the whole would have.
    pub fn take_leading(&mut self) -> Leading {
        optimize::take_leading(&mut self.stages, &self.variables)
    }

    /// Puts the stages behind a stream of documents. Nothing is read before the first document is asked for.
    pub fn run<'i, E>(self, input: impl Stream<E> + Send + Sync + 'i) -> Running<'i, E>
    where
        E: From<Error> + 'i,
    {
        run::run(self.stages, &self.variables, Box::new(input))
    }

    /// Reads the stages of a whole pipeline, or of one inside a `$facet`.
    fn parse_in(nesting: Nesting, stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        if stages.len() > STAGES_MAX {
            return Err(Error::TooLong { count: stages.len(), limit: STAGES_MAX });
        }
        let mut pipeline =
            Self { source: Source::Collection, stages: Vec::new(), variables: variables.clone() };
        for (position, stage) in stages.iter().enumerate() {
            let at = |fault| Error::Stage { position, fault };
            validate(stage.as_bytes())
                .map_err(|error| at(Fault::InvalidBson { reason: error.to_string() }))?;
            match stage::parse(stage, variables).map_err(at)? {
                ParsedStage::Stages(name, stages) => {
                    let placed = stages.into_iter().map(|stage| PlacedStage { position, name, stage });
                    pipeline.stages.extend(placed);
                }
                ParsedStage::Source(name, source) => {
                    nesting.check_source(name, position).map_err(at)?;
                    pipeline.source = source;
                }
                ParsedStage::Facet(operand) => {
                    nesting.check_facet().map_err(at)?;
                    let stage = parse_facet(&operand, variables).map_err(at)?;
                    pipeline.stages.push(PlacedStage { position, name: facet::NAME, stage });
                }
            }
        }
        // Only now is it known which stages follow each sort.
        optimize::bound_sorts(&mut pipeline.stages);
        Ok(pipeline)
    }
}

/// Reads the pipelines of a `$facet`. They cannot hold another one, so this recursion is one level deep.
fn parse_facet(operand: &RawDocument, variables: &Variables) -> Result<Stage, Fault> {
    let parse_stages = |stages: &[RawDocumentBuf]| {
        let pipeline = Pipeline::parse_in(Nesting::InFacet, stages, variables)?;
        // A pipeline that is nested has no source of its own, and the variables of the outer one.
        Ok(pipeline.stages)
    };
    let pipelines = facet::parse(operand, parse_stages)?;
    let pipelines = pipelines.into_iter().map(|(name, stages)| FacetPipeline { name, stages });
    Ok(Stage::Facet(pipelines.collect()))
}
