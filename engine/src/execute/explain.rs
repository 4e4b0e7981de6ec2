//! Explaining a search: the stages of its plan, and what each of them has read.
//!
//! Nothing is decided here. `plan` is evaluated for the same plans as for a search, and the search itself counts its work.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use base::error::Result;
use bson::{Document, RawDocument, doc};
use index::key::Direction;
use query::planner::{Access, Plan};

use crate::execute::choose::{CountedPlan, counted_plans};
use crate::execute::examined::Examined;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Rows, SORT_BYTES_MAX, Search, Work, WorkReport};
use crate::execute::stages::{PlanStage, nested, note, of_lookup, of_plan, shown};
use crate::results::number;

/// The depth of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Its plan. The operation is not run.
    Plan,
    /// Its plan and its work. The operation is run.
    Execution,
}

/// The explanation of a search.
#[derive(Clone, Debug)]
pub(crate) struct Explained {
    /// The comparison of strings, if not by their bytes.
    collation: Option<Document>,
    filter: Document,
    /// The stages of the plan. The one that reads comes first.
    stages: Vec<PlanStage>,
    /// The stages of the plans that were not chosen.
    rejected: Vec<Vec<PlanStage>>,
    /// The plans whose keys were counted to choose one of them.
    counted: Vec<Counted>,
    execution: Option<Execution>,
}

/// A plan whose keys were counted.
#[derive(Clone, Debug)]
struct Counted {
    stages: Vec<PlanStage>,
    keys: u64,
    documents: u64,
}

/// The work of all stages together.
#[derive(Clone, Copy, Debug, Default)]
struct Execution {
    rows: u64,
    keys: u64,
    documents: u64,
    elapsed: Duration,
}

impl Explained {
    /// Explains the plan of a search.
    pub(crate) fn of(filter: &Document, search: &Search, view: &ReadView) -> Result<Self> {
        // A filter that is nothing but an `_id` is not evaluated: the lookup has answered it.
        let evaluated = search.selector.filter().is_some_and(|parsed| !parsed.is_empty()).then_some(filter);
        let plans =
            if search.selector.point().is_some() { Vec::new() } else { counted_plans(search.asked(), view)? };
        let counted = plans.iter().filter_map(|plan| Counted::of(plan, evaluated, view)).collect();
        let mut plans = plans.into_iter().map(|counted| counted.plan);
        // The search uses the first plan as well.
        let winning = plans.next();
        let mut stages = match &winning {
            Some(plan) => of_plan(plan, evaluated, view.indexes()),
            None => of_lookup(evaluated),
        };
        let sort = search.order.sort().filter(|_| winning.as_ref().is_some_and(|plan| !plan.is_sorted));
        // A collection scan is always possible, so it is not reported as a rejected plan.
        let is_choice = |plan: &Plan| !matches!(&plan.access, Access::Records(scan) if scan.ids.is_all());
        let rejected =
            plans.filter(is_choice).map(|plan| of_plan(&plan, evaluated, view.indexes())).collect();
        let add = |stages: &mut Vec<PlanStage>, name, about| stages.push(PlanStage::new(name, about));
        // From here on the stages follow in the order in which rows pass them.
        let kept = search.limit.map(|limit| limit.saturating_add(search.skip));
        if let Some(sort) = sort {
            let direction = |direction| if direction == Direction::Ascending { 1 } else { -1 };
            let pattern: Document = sort
                .fields()
                .map(|(path, towards)| (path.as_str().to_owned(), direction(towards).into()))
                .collect();
            let limit = search.selector.variables().operation().stage_bytes_max(SORT_BYTES_MAX);
            let mut about = doc! { "sortPattern": pattern, "memLimit": number(limit as u64) };
            about.extend(kept.map(|kept| ("limitAmount".to_owned(), number(kept))));
            add(&mut stages, "SORT", about);
        }
        if search.skip > 0 {
            add(&mut stages, "SKIP", doc! { "skipAmount": number(search.skip) });
        }
        // A sort applies the limit itself, as its `limitAmount`.
        if let (Some(limit), None) = (search.limit, sort) {
            add(&mut stages, "LIMIT", doc! { "limitAmount": number(limit) });
        }
        if search.extras.keys {
            add(&mut stages, "RETURN_KEY", doc! {});
        } else if search.projection.as_ref().is_some_and(|projection| !projection.is_empty()) {
            let is_covered = winning.as_ref().is_some_and(|plan| plan.access.is_covered());
            add(&mut stages, if is_covered { "PROJECTION_COVERED" } else { "PROJECTION_DEFAULT" }, doc! {});
        }
        // As MongoDB shows it: with every option, and not at all if it is simple.
        let collation = search.selector.variables().collation().document();
        let collation = collation.map(Document::try_from).transpose()?;
        Ok(Self { filter: shown(filter), collation, stages, rejected, counted, execution: None })
    }

    /// Explains an operation that reads nothing: there is no collection, or no need to read it. `name` is its only stage.
    pub(crate) fn without_reading(filter: &Document, name: &'static str, depth: Depth) -> Self {
        // A run would use no time either, so its result is known.
        let mut stage = PlanStage::new(name, doc! {});
        let execution = (depth == Depth::Execution).then(|| {
            stage.done.insert("nReturned", number(0));
            Execution::default()
        });
        let (rejected, counted) = (Vec::new(), Vec::new());
        Self { filter: shown(filter), collation: None, stages: vec![stage], rejected, counted, execution }
    }

    /// Removes the limit. A write stops by itself after its documents, so MongoDB shows no such stage for it.
    pub(crate) fn without_limit(mut self) -> Self {
        self.stages.retain(|stage| stage.name != "LIMIT");
        self
    }

    /// Runs the search if `depth` asks for it, and calls `on_row` for each row.
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
        let (start, skip, report) = (Instant::now(), search.skip, WorkReport::default());
        let mut rows = Rows::open(view, search)?.reporting_to(&report);
        while rows.advance()? {
            on_row(RawDocument::from_bytes(rows.bytes())?)?;
        }
        // The drop fills the report.
        drop(rows);
        let work = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(self.executed(&work, skip, start.elapsed()))
    }

    /// Adds the work of a run of the search, which has skipped `skip` documents.
    pub(crate) fn executed(mut self, work: &Work, skip: u64, elapsed: Duration) -> Self {
        note(&mut self.stages, work, skip);
        let (keys, documents) = (work.examined.keys, work.examined.documents);
        self.execution = Some(Execution { rows: work.rows, keys, documents, elapsed });
        self
    }

    /// Adds a last stage, which turns the rows of the search into `rows` rows of its own.
    pub(crate) fn under(mut self, name: &'static str, rows: u64, done: Document) -> Self {
        let mut stage = PlanStage::new(name, doc! {});
        if let Some(execution) = &mut self.execution {
            execution.rows = rows;
            stage.done.insert("nReturned", number(rows));
            stage.done.extend(done);
        }
        self.stages.push(stage);
        self
    }

    /// The index that the search reads. Returns `None` if it reads all documents.
    pub(crate) fn index_name(&self) -> Option<String> {
        self.stages.iter().find_map(PlanStage::index_name).map(str::to_owned)
    }

    /// The number of returned rows. 0 if the search was not run.
    pub(crate) fn rows(&self) -> u64 {
        self.execution.map_or(0, |execution| execution.rows)
    }

    /// The `queryPlanner` of a reply.
    pub(crate) fn planner(&self, namespace: &str) -> Document {
        let about = |stage: &PlanStage| stage.about.clone();
        let mut told = doc! { "namespace": namespace, "parsedQuery": self.filter.clone() };
        told.extend(self.collation.clone().map(|collation| ("collation".to_owned(), collation.into())));
        told.extend(doc! {
            "winningPlan": nested(&self.stages, &about),
            "rejectedPlans": self.rejected.iter().map(|stages| nested(stages, &about)).collect::<Vec<_>>(),
        });
        told
    }

    /// The `executionStats` of a reply. Returns `None` if the search was not run.
    pub(crate) fn statistics(&self) -> Option<Document> {
        let Execution { rows, keys, documents, elapsed } = self.execution?;
        Some(doc! {
            "executionSuccess": true,
            "nReturned": number(rows),
            "executionTimeMillis": number(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
            "totalKeysExamined": number(keys),
            "totalDocsExamined": number(documents),
            "executionStages": nested(&self.stages, &about_and_done),
        })
    }

    /// The `allPlansExecution` of a reply: each plan that was counted, the chosen one first. Counting returns nothing.
    pub(crate) fn all_plans(&self) -> Vec<Document> {
        let told = |plan: &Counted| {
            doc! {
                "nReturned": number(0),
                "totalKeysExamined": number(plan.keys),
                "totalDocsExamined": number(plan.documents),
                "executionStages": nested(&plan.stages, &about_and_done),
            }
        };
        self.counted.iter().map(told).collect()
    }
}

impl Counted {
    /// The counts of a plan. Returns `None` if the rules have decided without counting.
    fn of(counted: &CountedPlan, filter: Option<&Document>, view: &ReadView) -> Option<Self> {
        let parts = counted.counted.clone()?;
        let mut stages = of_plan(&counted.plan, filter, view.indexes());
        let examined = Examined::sum(&parts);
        note(&mut stages, &Work { examined, parts, ..Work::default() }, 0);
        Some(Self { stages, keys: examined.keys, documents: examined.documents })
    }
}

/// The description of a stage and its work: MongoDB repeats the description in the statistics.
fn about_and_done(stage: &PlanStage) -> Document {
    stage.about.clone().into_iter().chain(stage.done.clone()).collect()
}
