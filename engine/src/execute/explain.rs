//! What a search does, told instead of given: its stages, each over the one before it, and what they looked at.
//!
//! Nothing is decided here. The way to the records is asked of `plan`, whose answer a search follows; what was looked
//! at is counted by the search itself. Stages have MongoDB's names where they do what MongoDB's do: `IDHACK` looks up
//! one record, `CLUSTERED_IXSCAN` walks ranges of them, `COLLSCAN` all.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use index::interval::{Intervals, Limit};
use index::key::Direction;

use crate::document::shell::print_value;
use crate::error::Result;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Report, Rows, SORT_BYTES_MAX, Search, Work};
use crate::plan::access::Access;
use crate::plan::order::Order;
use crate::results::number;
use crate::storage::keys::CollectionId;

/// How many bounds are shown, and how much of each.
const BOUNDS_MAX: usize = 100;
const BOUND_CHARS_MAX: usize = 100;
/// How long a filter that is shown may be.
const SHOWN_BYTES_MAX: usize = 1 << 20;

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
    execution: Option<Execution>,
}

#[derive(Clone, Debug)]
struct Stage {
    name: &'static str,
    about: Document,
    /// What it did.
    done: Document,
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
    pub(crate) fn of(filter: &Document, search: &Search, collection: CollectionId) -> Result<Self> {
        let direction = match &search.order {
            Order::Walk(direction) => *direction,
            Order::Sort(_) => Direction::Ascending,
        };
        let way = Access::of(&search.selector, collection)?;
        let mut stages = vec![reading(filter, search, (&way, direction))];
        let add = |stages: &mut Vec<Stage>, name, about| stages.push(Stage::new(name, about));
        let kept = search.limit.map(|limit| limit.saturating_add(search.skip));
        if let Order::Sort(sort) = &search.order {
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
        if let (Some(limit), Order::Walk(_)) = (search.limit, &search.order) {
            add(&mut stages, "LIMIT", doc! { "limitAmount": number(limit) });
        }
        if search.projection.as_ref().is_some_and(|projection| !projection.is_empty()) {
            add(&mut stages, "PROJECTION_DEFAULT", doc! {});
        }
        Ok(Self { filter: shown(filter), stages, execution: None })
    }

    /// One stage that looks at no document: there is no collection, or no need to read it.
    pub(crate) fn without_reading(filter: &Document, name: &'static str, depth: Depth) -> Self {
        let mut stage = Stage::new(name, doc! {});
        let execution = (depth == Depth::Execution).then(|| {
            stage.done.insert("nReturned", number(0));
            Execution::default()
        });
        Self { filter: shown(filter), stages: vec![stage], execution }
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
        let work = *report.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.executed(work, skip, start.elapsed()))
    }

    /// The same with what a run of the search did, which passed over `skip` documents.
    pub(crate) fn executed(mut self, work: Work, skip: u64, elapsed: Duration) -> Self {
        let mut returned = work.looks.matched;
        for (place, stage) in self.stages.iter_mut().enumerate() {
            returned = match stage.name {
                "SORT" => work.sorted.unwrap_or(returned),
                "SKIP" => returned.saturating_sub(skip),
                "LIMIT" => work.rows,
                _ => returned,
            };
            stage.done.insert("nReturned", number(returned));
            if place == 0 {
                stage.done.insert("keysExamined", number(work.looks.keys));
                stage.done.insert("docsExamined", number(work.looks.documents));
            }
        }
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
        doc! {
            "namespace": namespace,
            "parsedQuery": self.filter.clone(),
            "winningPlan": self.nested(|stage| stage.about.clone()),
            "rejectedPlans": [],
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
            "executionStages": self.nested(both),
        })
    }

    /// The stages, each with the one below it as its input.
    fn nested(&self, tell: impl Fn(&Stage) -> Document) -> Document {
        let mut plan: Option<Document> = None;
        for stage in &self.stages {
            let mut next = doc! { "stage": stage.name };
            next.extend(tell(stage));
            next.extend(plan.take().map(|input| ("inputStage".to_owned(), Bson::Document(input))));
            plan = Some(next);
        }
        plan.unwrap_or_default()
    }
}

impl Stage {
    fn new(name: &'static str, about: Document) -> Self {
        Self { name, about, done: Document::new() }
    }
}

/// The stage that reads.
fn reading(filter: &Document, search: &Search, (way, direction): (&Access, Direction)) -> Stage {
    let mut about = Document::new();
    // What is nothing but an `_id` is not asked of the record that was looked up.
    if search.selector.filter().is_some_and(|filter| !filter.is_empty()) {
        about.insert("filter", shown(filter));
    }
    let towards = if direction == Direction::Ascending { "forward" } else { "backward" };
    match way {
        Access::Point(_) => Stage::new("IDHACK", about),
        Access::Bounded { ranges, .. } if ranges.is_empty() => Stage::new("EOF", Document::new()),
        Access::Bounded { ids, .. } => {
            about.insert("direction", towards);
            about.insert("recordIdBounds", bounds(ids));
            Stage::new("CLUSTERED_IXSCAN", about)
        }
        Access::Everything(_) => {
            about.insert("direction", towards);
            Stage::new("COLLSCAN", about)
        }
    }
}

/// Intervals as texts, the first of them if there are many.
fn bounds(ids: &Intervals) -> Vec<String> {
    let all = ids.as_slice();
    let texts = all.iter().take(BOUNDS_MAX).map(|interval| {
        let ((lower, from), (upper, to)) = (interval.lower(), interval.upper());
        let open = if from == Limit::Inclusive { '[' } else { '(' };
        let close = if to == Limit::Inclusive { ']' } else { ')' };
        format!("{open}{}, {}{close}", value(lower), value(upper))
    });
    let more = all.len().saturating_sub(BOUNDS_MAX);
    texts.chain((more > 0).then(|| format!("{more} more"))).collect()
}

/// A document that is repeated in a reply, unless it is so long that a reply might not hold it.
pub(crate) fn shown(document: &Document) -> Document {
    match RawDocumentBuf::try_from(document).map(|raw| raw.as_bytes().len()) {
        Ok(length) if length > SHOWN_BYTES_MAX => {
            doc! { "$truncated": format!("{length} bytes are not repeated") }
        }
        Ok(_) | Err(_) => document.clone(),
    }
}

/// A bound as the shell writes it; only the front of a long one.
fn value(value: RawBsonRef<'_>) -> String {
    let text = Bson::try_from(value).map(|value| print_value(&value)).unwrap_or_default();
    match text.char_indices().nth(BOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
