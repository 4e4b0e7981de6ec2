//! `explain`, and the field `explain` of `aggregate`: which plan a command would follow, and what it would read.
//!
//! Each command reads its fields with one function, both to run and to be explained. So an explanation is rejected for
//! whatever the command itself would be rejected for.

use base::codes::refused;
use base::error::Result;
use bson::Document;
use query::code::Code;

use crate::arguments::{Arguments, GENERIC_COMMAND_FIELDS};
use crate::command::context::CommandContext;
use crate::command::plan::{Plan, Verbosity};
use crate::command::{COMMANDS, aggregate, missing};
use crate::execute::explain::Depth;
use crate::execute::stages::shown;

pub(super) fn explain(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["verbosity"])?;
    let command = arguments.document("explain")?.ok_or_else(|| arguments.missing("explain"))?;
    let verbosity = verbosity(arguments)?;
    let name = command.keys().next().map(String::as_str).unwrap_or_default();
    // As in `run`: a command that cannot be explained, one that only MongoDB has and an unknown one differ.
    let explained = COMMANDS.get(name).ok_or_else(|| missing(name))?;
    let explain = explained
        .explain
        .ok_or_else(|| refused(Code::ILLEGAL_OPERATION, format!("Cannot explain cmd: {name}")))?;
    // As in MongoDB: the explained command may repeat `$db`, and must then name the same database.
    if let Some(db) = command.get("$db")
        && db.as_str() != Some(context.db)
    {
        let expected = context.db;
        return Err(refused(
            Code::INVALID_NAMESPACE,
            format!("Mismatched $db in explain command. Expected {expected} but got {db}"),
        ));
    }
    // The flag and the command around it have a verbosity each, and a reply can have one only.
    if command.get_bool("explain").unwrap_or(false) {
        return Err(refused(
            Code::FAILED_TO_PARSE,
            "the field 'explain' contradicts the command 'explain' around it",
        ));
    }
    // Without a batch: the explained command is a field of the body, and so was decoded with it.
    let explained = Arguments::of(name, command);
    // The limit of `explain` itself wins. Without one the limit of the explained command holds, from now on; it is read in
    // both cases, because a bad value is rejected in both.
    let own = explained.max_time()?;
    let timed = arguments.max_time()?.is_none().then(|| context.begin_anew(own));
    let plan = explain(timed.as_ref().unwrap_or(context), &explained, depth(verbosity))?;
    Ok(reply(context, plan, verbosity, command))
}

/// The reply to an `aggregate` with `explain: true`.
pub(super) fn of_aggregate(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    command: &Document,
) -> Result<Document> {
    // In MongoDB the flag of `aggregate` means `queryPlanner`, so nothing is run.
    let plan = aggregate::explain(context, arguments, Depth::Plan)?;
    Ok(reply(context, plan, Verbosity::QueryPlanner, command))
}

fn reply(context: &CommandContext<'_>, plan: Plan, verbosity: Verbosity, command: &Document) -> Document {
    let mut told = plan.into_reply(verbosity);
    // MongoDB repeats the command in the reply, without the fields that every command may have.
    let own = |name: &str| !GENERIC_COMMAND_FIELDS.contains(&name);
    let fields = command.iter().filter(|(name, _)| own(name.as_str()));
    let mut repeated = shown(&fields.map(|(name, value)| (name.clone(), value.clone())).collect());
    // It went with the generic fields above, and MongoDB shows it.
    repeated.insert("$db", context.db);
    told.insert("command", repeated);
    told
}

fn verbosity(arguments: &Arguments<'_>) -> Result<Verbosity> {
    let names = ["queryPlanner", "executionStats", "allPlansExecution"];
    Ok(match arguments.one_of("verbosity", &names)? {
        Some("queryPlanner") => Verbosity::QueryPlanner,
        Some("executionStats") => Verbosity::ExecutionStats,
        // MongoDB's default. No other text gets here, because `one_of` has rejected it.
        Some(_) | None => Verbosity::AllPlansExecution,
    })
}

fn depth(verbosity: Verbosity) -> Depth {
    match verbosity {
        Verbosity::QueryPlanner => Depth::Plan,
        Verbosity::ExecutionStats | Verbosity::AllPlansExecution => Depth::Execution,
    }
}
