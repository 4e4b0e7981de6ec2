//! `explain`, and the field of `aggregate` that asks for the same: what a command would do, and what it looks at.
//!
//! The plan is asked of the verb that the command is, by the same reading of its fields. So what the command would be
//! refused for, its explanation is refused for.

use bson::{Bson, Document, doc};
use query::code::Code;
use query::registry::Registry;

use crate::codes::refused;
use crate::collection::{Collection, ExplainedPipeline};
use crate::command::arguments::{Arguments, GENERIC_COMMAND_FIELDS};
use crate::command::{Place, aggregate, delete, find, find_and_modify, has_command, missing, update};
use crate::error::Result;
use crate::execute::explain::{Depth, Explained};
use crate::execute::stages::shown;
use crate::results::number;

/// What a command explained says in a reply.
pub(super) struct Plan {
    namespace: String,
    search: Option<Explained>,
    /// The stages of a pipeline behind the search.
    stages: Vec<Document>,
    rows: Option<u64>,
}

type Explain = fn(&Place<'_>, &Arguments<'_>, Depth) -> Result<Plan>;

const EXPLAINED: Registry<Explain> = Registry::new(&[
    ("aggregate", aggregate::explain),
    ("count", find::explain_count),
    ("delete", delete::explain),
    ("distinct", find::explain_distinct),
    ("find", find::explain_find),
    ("findAndModify", find_and_modify::explain),
    ("findandmodify", find_and_modify::explain),
    ("update", update::explain),
]);

/// How much is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    /// There is never more than one plan.
    AllPlansExecution,
}

impl Plan {
    pub(super) fn of<T>(collection: &Collection<T>, explained: Explained) -> Self {
        let namespace = collection.namespace().to_string();
        Self { namespace, search: Some(explained), stages: Vec::new(), rows: None }
    }

    pub(super) fn of_pipeline(namespace: String, explained: ExplainedPipeline) -> Self {
        let ExplainedPipeline { search, stages, rows } = explained;
        Self { namespace, search, stages, rows }
    }

    fn into_reply(self, verbosity: Verbosity) -> Document {
        let Self { namespace, search, stages, rows } = self;
        let mut reply = doc! { "explainVersion": "1" };
        let search = search.map(|search| told(&search, &namespace, verbosity));
        if stages.is_empty() {
            reply.extend(search.unwrap_or_default());
            return reply;
        }
        let mut all: Vec<Document> = search.into_iter().map(|search| doc! { "$cursor": search }).collect();
        all.extend(stages.iter().map(shown));
        if let (Some(last), Some(rows)) = (all.last_mut(), rows) {
            last.insert("nReturned", number(rows));
        }
        reply.insert("stages", all);
        reply
    }
}

fn told(search: &Explained, namespace: &str, verbosity: Verbosity) -> Document {
    let mut told = doc! { "queryPlanner": search.planner(namespace) };
    if let Some(mut statistics) = search.statistics() {
        if verbosity == Verbosity::AllPlansExecution {
            statistics.insert("allPlansExecution", Vec::<Bson>::new());
        }
        told.insert("executionStats", statistics);
    }
    told
}

pub(super) fn explain(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["verbosity"])?;
    let command = arguments.document("explain")?.ok_or_else(|| arguments.missing("explain"))?;
    let verbosity = verbosity(arguments)?;
    let name = command.keys().next().map(String::as_str).unwrap_or_default();
    let Some(explain) = EXPLAINED.get(name) else {
        return Err(if has_command(name) {
            refused(Code::ILLEGAL_OPERATION, format!("Cannot explain cmd: {name}"))
        } else {
            missing(name)
        });
    };
    if let Some(db) = command.get("$db")
        && db.as_str() != Some(place.db)
    {
        let expected = place.db;
        return Err(refused(
            Code::INVALID_NAMESPACE,
            format!("Mismatched $db in explain command. Expected {expected} but got {db}"),
        ));
    }
    if command.get_bool("explain").unwrap_or(false) {
        return Err(refused(
            Code::FAILED_TO_PARSE,
            "the field 'explain' contradicts the command 'explain' around it",
        ));
    }
    let explained = Arguments::of(name, command);
    // The time of the explanation counts, and without one that of the command; both are checked.
    let own = explained.max_time()?;
    let timed = arguments.max_time()?.is_none().then(|| place.begin_anew(own));
    let plan = explain(timed.as_ref().unwrap_or(place), &explained, depth(verbosity))?;
    Ok(reply(place, plan, verbosity, command))
}

/// The reply to an aggregation that asks to be explained by a field of its own.
pub(super) fn of_aggregate(
    place: &Place<'_>,
    arguments: &Arguments<'_>,
    command: &Document,
) -> Result<Document> {
    let plan = aggregate::explain(place, arguments, Depth::Plan)?;
    Ok(reply(place, plan, Verbosity::QueryPlanner, command))
}

fn reply(place: &Place<'_>, plan: Plan, verbosity: Verbosity, command: &Document) -> Document {
    let mut told = plan.into_reply(verbosity);
    let own = |name: &str| !GENERIC_COMMAND_FIELDS.contains(&name);
    let fields = command.iter().filter(|(name, _)| own(name.as_str()));
    let mut repeated = shown(&fields.map(|(name, value)| (name.clone(), value.clone())).collect());
    repeated.insert("$db", place.db);
    told.insert("command", repeated);
    told
}

fn verbosity(arguments: &Arguments<'_>) -> Result<Verbosity> {
    let names = ["queryPlanner", "executionStats", "allPlansExecution"];
    Ok(match arguments.one_of("verbosity", &names)? {
        Some("queryPlanner") => Verbosity::QueryPlanner,
        Some("executionStats") => Verbosity::ExecutionStats,
        Some(_) | None => Verbosity::AllPlansExecution,
    })
}

fn depth(verbosity: Verbosity) -> Depth {
    match verbosity {
        Verbosity::QueryPlanner => Depth::Plan,
        Verbosity::ExecutionStats | Verbosity::AllPlansExecution => Depth::Execution,
    }
}
