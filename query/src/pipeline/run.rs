//! Running stages: each becomes a stream that reads from the one before it.
//!
//! Stages that handle one document after the other are here; those that must see all first are collectors, in the files
//! of their families.

use std::cmp::min;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::{Metadata, Variables};
use crate::filter::Filter;
use crate::pipeline::bucket_auto::BucketingAuto;
use crate::pipeline::collect::{Collected, Collector};
use crate::pipeline::count::Counting;
use crate::pipeline::densify::Densifying;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::facet::{Aside, Faceted, Faceting, ForeignAside, Inbox};
use crate::pipeline::foreign::Foreign;
use crate::pipeline::foreign_search::{ForeignSearch, RunStages};
use crate::pipeline::graph_lookup::GraphSearching;
use crate::pipeline::grouping::Grouping;
use crate::pipeline::joining::{Joining, JoiningUnwound};
use crate::pipeline::redact::Redaction;
use crate::pipeline::sample::Sampling;
use crate::pipeline::shape::Shape;
use crate::pipeline::sort::Sorting;
use crate::pipeline::stage::{
    FacetPipeline, Join, PlacedStage, Selection, Stage, Union, Unwound, keep_tables,
};
use crate::pipeline::stream::{Given, StageInput, Step, Stream, nothing};
use crate::pipeline::union::{UnionInput, Uniting};
use crate::pipeline::unwind::Unwinding;
use crate::pipeline::window::Windowing;

/// The results of a pipeline: a stream, and an iterator over copies. After an error it is at its end.
pub struct Running<'i, E> {
    /// The last stage. Absent at the end.
    last: Option<StageInput<'i, E>>,
}

impl<E> Stream<E> for Running<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let Some(last) = &mut self.last else { return Ok(Step::End) };
        let step = last.advance();
        // Stages must not be advanced after their end. Dropping them also frees their memory at once.
        if matches!(step, Ok(Step::End) | Err(_)) {
            self.last = None;
        }
        step
    }

    fn current(&self) -> &RawDocument {
        match &self.last {
            Some(last) => last.current(),
            None => nothing(),
        }
    }

    fn rest(&mut self) {
        if let Some(last) = &mut self.last {
            last.rest();
        }
    }
}

impl<E> Iterator for Running<'_, E> {
    type Item = Result<RawDocumentBuf, E>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(Step::Document) => Some(Ok(self.current().to_owned())),
            // Only the input of a `$facet` pauses, and its results are read as a stream.
            Ok(Step::Pause | Step::End) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<E> std::fmt::Debug for Running<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("open", &self.last.is_some()).finish_non_exhaustive()
    }
}

/// Connects the stages to the input.
pub(super) fn run<'i, E>(
    stages: Vec<PlacedStage>,
    variables: &Variables,
    input: StageInput<'i, E>,
    foreign: &Arc<dyn Foreign<E> + Send + Sync>,
) -> Running<'i, E>
where
    E: From<Error> + Send + 'static,
{
    let mut last = input;
    for placed in stages {
        last = connect(last, placed, variables.clone(), foreign);
    }
    Running { last: Some(last) }
}

/// Makes a stream of one stage that reads from `input`.
fn connect<'i, E>(
    input: StageInput<'i, E>,
    placed: PlacedStage,
    variables: Variables,
    foreign: &Arc<dyn Foreign<E> + Send + Sync>,
) -> StageInput<'i, E>
where
    E: From<Error> + Send + 'static,
{
    let PlacedStage { position, name, stage } = placed;
    let operation = variables.operation().clone();
    // Stages that are streams themselves return; the others only collect, and become streams at the end.
    let collector: Box<dyn Collector + Send + Sync> = match stage {
        Stage::Match(selection) => {
            return Box::new(Matching { input, filter: selection.filter, variables, position });
        }
        Stage::Shape(shape) => {
            let shown = RawDocumentBuf::new();
            return Box::new(Shaped { input, shape, name, variables, position, shown });
        }
        Stage::Skip(left) => return Box::new(Skipping { input, left }),
        Stage::Limit(left) => return Box::new(Limited { input, left }),
        Stage::Unwind(unwind) => return Box::new(Unwinding::new(input, unwind, position, &operation)),
        Stage::Sort(order) => Box::new(Sorting::new(order, variables)),
        Stage::Lookup(join) => {
            return connect_join(input, *join, position, variables, foreign);
        }
        Stage::GraphLookup(graph) => {
            let foreign = Arc::clone(foreign);
            return Box::new(GraphSearching::new(input, *graph, position, variables, foreign));
        }
        Stage::Union(union) => {
            let foreign = Arc::clone(foreign);
            let open = move || open_union(union, position, &variables, &foreign);
            return Box::new(Uniting::new(input, Box::new(open)));
        }
        Stage::Count(field) => Box::new(Counting::new(field)),
        Stage::Redact(redaction) => {
            let shown = RawDocumentBuf::new();
            return Box::new(Redacting { input, redaction, variables, position, shown });
        }
        Stage::Windows(windows) => {
            return Box::new(Windowing::new(input, position, name, *windows, variables));
        }
        Stage::Densify(densify) => {
            return Box::new(Densifying::new(input, position, *densify, variables));
        }
        Stage::BucketAuto(stage) => Box::new(BucketingAuto::new(stage, variables)),
        Stage::Group(group) => Box::new(Grouping::new(name, group, variables)),
        Stage::Sample(size) => Box::new(Sampling::new(size, &variables)),
        Stage::Facet(pipelines) => {
            let aside = Aside::default();
            // The pipelines have errors of this crate, and the collections that they read those of the caller.
            let within = ForeignAside { foreign: Arc::clone(foreign), aside: aside.clone() };
            let within: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(within);
            let faceting = faceting(pipelines, &variables, &within);
            return Box::new(Faceted::new(input, faceting, aside, position, operation));
        }
    };
    Box::new(Collected::new(input, collector, position, operation))
}

/// Makes a stream of a `$lookup`, or of one that became one stage with the `$unwind` after it.
fn connect_join<'i, E>(
    input: StageInput<'i, E>,
    join: Join,
    position: usize,
    variables: Variables,
    foreign: &Arc<dyn Foreign<E> + Send + Sync>,
) -> StageInput<'i, E>
where
    E: From<Error> + Send + 'static,
{
    let Join { lookup, stages, unwound } = join;
    // A filter of what is found selects the same before stages that only select.
    let selects_only = stages.iter().all(|placed| matches!(placed.stage, Stage::Match(_)));
    // A stage that was given can be several by now.
    let kept = stages.iter().take_while(|placed| placed.position < lookup.kept_stages()).count();
    // Without stages the documents need not pass through another stream.
    let run = (!stages.is_empty()).then(|| nested(stages, Arc::clone(foreign)));
    let mut search = ForeignSearch::new(lookup, run, position, variables, Arc::clone(foreign)).keeping(kept);
    let Some(Unwound { unwind, position, matching, .. }) = unwound else {
        return Box::new(Joining::new(input, search));
    };
    if let Some(Selection { filter, given }) = matching {
        search = search.matching(filter, selects_only.then_some(given));
    }
    Box::new(JoiningUnwound::new(input, search, unwind, position))
}

/// Runs the stages of a `$lookup`, once or for each document.
fn nested<'i, E>(mut stages: Vec<PlacedStage>, foreign: Arc<dyn Foreign<E> + Send + Sync>) -> RunStages<'i, E>
where
    E: From<Error> + Send + 'static,
{
    // Before the first run: all clones of a stage share what one of them has kept.
    keep_tables(&mut stages);
    Box::new(move |documents, variables, range| {
        // Stages are used up by a run, and the next document needs them again.
        let stages = stages.iter().take(range.end).skip(range.start).cloned().collect();
        Box::new(run(stages, variables, documents, &foreign))
    })
}

/// Opens the pipeline of a `$unionWith`. Its filter may find what it wants by an index.
fn open_union<'i, E>(
    union: Union,
    position: usize,
    variables: &Variables,
    foreign: &Arc<dyn Foreign<E> + Send + Sync>,
) -> Result<StageInput<'i, E>, E>
where
    E: From<Error> + Send + 'static,
{
    let Union { input, mut stages } = union;
    let documents: StageInput<'i, E> = match input {
        UnionInput::Documents(documents) => {
            // Rows are counted where they are read, and nothing else counts these documents.
            let operation = variables.operation().clone();
            Box::new(Given::new(documents.into_iter().map(move |document| {
                operation.pass(document.as_bytes().len()).map_err(Fault::from).map_err(at::<E>(position))?;
                Ok(document)
            })))
        }
        UnionInput::Collection(from) => {
            let found = if let Some(PlacedStage { stage: Stage::Match(first), .. }) = stages.first() {
                foreign.find(&from, &first.given, variables)?
            } else {
                None
            };
            match found {
                Some(found) => {
                    // These match already.
                    stages.remove(0);
                    found
                }
                None => foreign.scan(&from, variables)?,
            }
        }
    };
    Ok(Box::new(run(stages, variables, documents, foreign)))
}

/// Opens the pipelines of `$facet`, which all read from one inbox.
fn faceting(
    pipelines: Vec<FacetPipeline>,
    variables: &Variables,
    foreign: &Arc<dyn Foreign<Error> + Send + Sync>,
) -> Faceting {
    let inbox = Inbox::default();
    let pipelines = pipelines.into_iter().map(|FacetPipeline { name, stages }| {
        let running = run(stages, variables, Box::new(inbox.reader()), foreign);
        (name, Box::new(running) as StageInput<'static, Error>)
    });
    Faceting::new(inbox.clone(), pipelines)
}

/// `$match`: skips documents that do not match.
struct Matching<'i, E> {
    input: StageInput<'i, E>,
    filter: Filter,
    variables: Variables,
    position: usize,
}

impl<E: From<Error>> Stream<E> for Matching<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        loop {
            let step = self.input.advance()?;
            if step != Step::Document {
                return Ok(step);
            }
            let is_match = self.filter.try_matches(self.input.current(), &self.variables);
            if is_match.map_err(|error| at::<E>(self.position)(error.into()))? {
                return Ok(Step::Document);
            }
        }
    }

    fn current(&self) -> &RawDocument {
        self.input.current()
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

/// `$project`, `$set` and the like: makes one document out of each.
struct Shaped<'i, E> {
    input: StageInput<'i, E>,
    shape: Shape,
    name: &'static str,
    variables: Variables,
    position: usize,
    shown: RawDocumentBuf,
}

impl<E: From<Error>> Stream<E> for Shaped<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let step = self.input.advance()?;
        if step == Step::Document {
            if self.variables.has_metadata() {
                self.variables.set_metadata(self.input.metadata());
            }
            let shown = self.shape.apply_checked(self.name, self.input.current(), &self.variables);
            self.shown = shown.map_err(at::<E>(self.position))?;
        }
        Ok(step)
    }

    fn current(&self) -> &RawDocument {
        &self.shown
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

/// `$redact`: leaves out documents, or parts of them.
struct Redacting<'i, E> {
    input: StageInput<'i, E>,
    redaction: Redaction,
    variables: Variables,
    position: usize,
    shown: RawDocumentBuf,
}

impl<E: From<Error>> Stream<E> for Redacting<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        loop {
            let step = self.input.advance()?;
            if step != Step::Document {
                return Ok(step);
            }
            let left = self.redaction.apply(self.input.current(), &self.variables);
            if let Some(left) = left.map_err(at::<E>(self.position))? {
                self.shown = left;
                return Ok(Step::Document);
            }
        }
    }

    fn current(&self) -> &RawDocument {
        &self.shown
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

/// `$skip`: leaves out the first documents.
struct Skipping<'i, E> {
    input: StageInput<'i, E>,
    left: u64,
}

impl<E> Stream<E> for Skipping<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        // If the input pauses, `left` remembers how many are still to be left out.
        while self.left > 0 {
            let step = self.input.advance()?;
            if step != Step::Document {
                return Ok(step);
            }
            self.left -= 1;
        }
        self.input.advance()
    }

    fn current(&self) -> &RawDocument {
        self.input.current()
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

/// `$limit`: ends after a number of documents.
struct Limited<'i, E> {
    input: StageInput<'i, E>,
    left: u64,
}

impl<E> Stream<E> for Limited<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        // The input is not advanced beyond the limit: that could read the rest of a collection.
        if self.left == 0 {
            return Ok(Step::End);
        }
        let step = self.input.advance()?;
        // A pause uses up nothing of the limit.
        self.left -= min(self.left, u64::from(step == Step::Document));
        Ok(step)
    }

    fn current(&self) -> &RawDocument {
        self.input.current()
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}
