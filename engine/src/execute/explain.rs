//! What a search does, told instead of given: its stages, each over the one before it, and what they looked at.
//!
//! Nothing is decided here. The way to the records is asked of `plan`, whose answer a search follows; what was looked
//! at is counted by the search itself.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bson::{Document, RawDocument, doc};
use index::key::Direction;
use query::planner::{Access, Plan};

use crate::error::Result;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Report, Rows, SORT_BYTES_MAX, Search, Work};
use crate::execute::stages::{Stage, nested, note, of_lookup, of_plan, shown};
use crate::plan::access::plans;
use crate::results::number;

/// Whether an explained operation is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only its plan is told.
    Plan,
    /// It is run, and what it did is told as well.
    Execution,
}

/// A search explained.
#[derive(Clone, Debug)]
pub(crate) struct Explained {
    filter: Document,
    /// The one that reads comes first.
    stages: Vec<Stage>,
    /// What else was thought of.
    rejected: Vec<Vec<Stage>>,
    execution: Option<Execution>,
}

/// What was done in all.
#[derive(Clone, Copy, Debug, Default)]
struct Execution {
    rows: u64,
    keys: u64,
    documents: u64,
    elapsed: Duration,
}

impl Explained {
    /// A search, before it is run.
    pub(crate) fn of(filter: &Document, search: &Search, view: &ReadView) -> Result<Self> {
        // What is nothing but an `_id` is not asked of the record that was looked up.
        let asked = search.selector.filter().is_some_and(|parsed| !parsed.is_empty()).then_some(filter);
        let mut plans = match search.selector.point() {
            Some(_) => Vec::new().into_iter(),
            None => plans(&search.selector, &search.order, view.indexes())?.into_iter(),
        };
        let winning = plans.next();
        let mut stages = match &winning {
            Some(plan) => of_plan(plan, asked, view.indexes()),
            None => of_lookup(asked),
        };
        let sort = search.order.sort().filter(|_| winning.as_ref().is_some_and(|plan| !plan.is_sorted));
        // A look at everything is no plan that one would choose between.
        let is_choice = |plan: &Plan| !matches!(&plan.access, Access::Records(scan) if scan.ids.is_all());
        let rejected = plans.filter(is_choice).map(|plan| of_plan(&plan, asked, view.indexes())).collect();
        let add = |stages: &mut Vec<Stage>, name, about| stages.push(Stage::new(name, about));
        let kept = search.limit.map(|limit| limit.saturating_add(search.skip));
        if let Some(sort) = sort {
            let direction = |direction| if direction == Direction::Ascending { 1 } else { -1 };
            let pattern: Document = sort
                .fields()
                .map(|(path, towards)| (path.as_str().to_owned(), direction(towards).into()))
                .collect();
            let mut about = doc! { "sortPattern": pattern, "memLimit": number(SORT_BYTES_MAX as u64) };
            about.extend(kept.map(|kept| ("limitAmount".to_owned(), number(kept))));
            add(&mut stages, "SORT", about);
        }
        if search.skip > 0 {
            add(&mut stages, "SKIP", doc! { "skipAmount": number(search.skip) });
        }
        if let (Some(limit), None) = (search.limit, sort) {
            add(&mut stages, "LIMIT", doc! { "limitAmount": number(limit) });
        }
        if search.projection.as_ref().is_some_and(|projection| !projection.is_empty()) {
            add(&mut stages, "PROJECTION_DEFAULT", doc! {});
        }
        Ok(Self { filter: shown(filter), stages, rejected, execution: None })
    }

    /// One stage that looks at no document: there is no collection, or no need to read it.
    pub(crate) fn without_reading(filter: &Document, name: &'static str, depth: Depth) -> Self {
        let mut stage = Stage::new(name, doc! {});
        let execution = (depth == Depth::Execution).then(|| {
            stage.done.insert("nReturned", number(0));
            Execution::default()
        });
        Self { filter: shown(filter), stages: vec![stage], rejected: Vec::new(), execution }
    }

    /// The same of a write, which takes the first documents by itself.
    pub(crate) fn without_limit(mut self) -> Self {
        self.stages.retain(|stage| stage.name != "LIMIT");
        self
    }

    /// Runs the search if it is to be run; every row is shown to `on_row`.
    pub(crate) fn run(
        self,
        view: ReadView,
        search: Search,
        depth: Depth,
        mut on_row: impl FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Self> {
        if depth == Depth::Plan {
            return Ok(self);
        }
        let (start, skip, report) = (Instant::now(), search.skip, Report::default());
        let mut rows = Rows::open(view, search)?.reporting_to(&report);
        while rows.advance()? {
            on_row(RawDocument::from_bytes(rows.bytes())?)?;
        }
        drop(rows);
        let work = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(self.executed(&work, skip, start.elapsed()))
    }

    /// The same with what a run of the search did, which passed over `skip` documents.
    pub(crate) fn executed(mut self, work: &Work, skip: u64, elapsed: Duration) -> Self {
        note(&mut self.stages, work, skip);
        let (keys, documents) = (work.looks.keys, work.looks.documents);
        self.execution = Some(Execution { rows: work.rows, keys, documents, elapsed });
        self
    }

    /// The same under a stage that does something with the rows and gives other ones, or none.
    pub(crate) fn under(mut self, name: &'static str, rows: u64, done: Document) -> Self {
        let mut stage = Stage::new(name, doc! {});
        if let Some(execution) = &mut self.execution {
            execution.rows = rows;
            stage.done.insert("nReturned", number(rows));
            stage.done.extend(done);
        }
        self.stages.push(stage);
        self
    }

    /// How many rows came out; none if nothing was run.
    pub(crate) fn rows(&self) -> u64 {
        self.execution.map_or(0, |execution| execution.rows)
    }

    /// `queryPlanner` of a reply.
    pub(crate) fn planner(&self, namespace: &str) -> Document {
        let about = |stage: &Stage| stage.about.clone();
        doc! {
            "namespace": namespace,
            "parsedQuery": self.filter.clone(),
            "winningPlan": nested(&self.stages, &about),
            "rejectedPlans": self.rejected.iter().map(|stages| nested(stages, &about)).collect::<Vec<_>>(),
        }
    }

    /// `executionStats` of a reply, if it was run.
    pub(crate) fn statistics(&self) -> Option<Document> {
        let Execution { rows, keys, documents, elapsed } = self.execution?;
        let both = |stage: &Stage| stage.about.clone().into_iter().chain(stage.done.clone()).collect();
        Some(doc! {
            "executionSuccess": true,
            "nReturned": number(rows),
            "executionTimeMillis": number(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
            "totalKeysExamined": number(keys),
            "totalDocsExamined": number(documents),
            "executionStages": nested(&self.stages, &both),
        })
    }
}
