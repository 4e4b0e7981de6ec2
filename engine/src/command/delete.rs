//! `delete`.

use base::codes::refused;
use base::error::Result;
use bson::{DateTime, Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::collection::{Collection, Delete};
use crate::command::context::CommandContext;
use crate::command::plan::Plan;
use crate::command::repeated::report_replay;
use crate::command::request::decode_statement;
use crate::command::write_errors::{Repeated, WriteErrors, refuse_many};
use crate::execute::explain::Depth;
use crate::options::DeleteOptions;
use crate::options::declare::Options;
use crate::outcomes::token::Token;
use crate::results::number;

const KNOWN: [&str; 4] = ["deletes", TOKEN_FIELD, "let", "ordered"];

/// Runs `delete`. If the time is over, the whole command fails, and what was removed until then stays removed.
pub(super) fn delete(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    let is_ordered = arguments.boolean("ordered")?.unwrap_or(true);
    let mut shared = shared(arguments)?;
    // One `$$NOW` for all statements of the command.
    let now = DateTime::now();
    let collection = context.collection(arguments.target()?);
    let (mut deleted, mut was_replayed) = (0, false);
    let token = arguments.read::<Token>(TOKEN_FIELD)?;
    let mut errors = WriteErrors::of(context);
    // The operation of the command, so that all statements share one limit of time and of memory.
    let operation = context.operation();
    let statements = arguments.raw_statements("deletes")?;
    if context.retryable().is_some() {
        refuse_many(&statements, "limit", "Cannot use retryable writes with limit=0")?;
    }
    let mut repeated = Repeated::default();
    let sync = context.one_sync(&mut shared.write_concern, statements.len())?;
    for (index, statement) in statements.iter().enumerate() {
        // A statement that finds nothing needs few steps, so without this the limit would be seen late.
        operation.look()?;
        // Reserved for one statement at a time: all of a large batch together might not be allowed.
        let (statement, _held) = decode_statement(statement, &operation)?;
        let done = context.retryable().and_then(|retryable| retryable.enter(index));
        // A token decides before the number of the session does.
        if token.is_none() && done.is_some() {
            repeated.add(index);
            deleted += 1;
            continue;
        }
        // A statement that cannot be read is listed like one that fails, and with `ordered: false` those
        // after it still run.
        let delete = read(&collection, &Arguments::of("deletes", &statement), &shared);
        let delete = delete.map(|delete| match &token {
            None => delete.at(now),
            Some(token) => delete.at(now).exactly_once(token),
        });
        match delete.and_then(Delete::run) {
            Ok(result) => {
                deleted += result.deleted_count;
                was_replayed |= result.was_replayed;
            }
            Err(error) => {
                errors.push(index, error)?;
                // As in MongoDB: an ordered command stops at the first rejection.
                if is_ordered || errors.end_command() {
                    break;
                }
            }
        }
    }
    sync.end(context.shared)?;
    if !repeated.is_empty() {
        context.secure_repeated(arguments.write_concern()?.as_ref())?;
    }
    let mut reply = doc! { "n": number(deleted) };
    repeated.report(&mut reply);
    report_replay(&mut reply, was_replayed);
    errors.report(&mut reply);
    Ok(reply)
}

/// Explains the only statement: a reply has room for one plan.
pub(super) fn explain(context: &CommandContext<'_>, arguments: &Arguments<'_>, depth: Depth) -> Result<Plan> {
    arguments.allow(&KNOWN)?;
    // Read only to be checked: what the command rejects, its explanation rejects too.
    arguments.boolean("ordered")?;
    let statement = Arguments::of("deletes", arguments.only_statement("deletes")?);
    let collection = context.collection(arguments.target()?);
    let delete = read(&collection, &statement, &shared(arguments)?)?;
    Ok(Plan::of(&collection, delete.explain(depth)?))
}

/// The options that all statements of the command share.
fn shared(arguments: &Arguments<'_>) -> Result<DeleteOptions> {
    Ok(DeleteOptions {
        let_vars: arguments.document("let")?.cloned(),
        write_concern: arguments.write_concern()?,
        ..DeleteOptions::default()
    })
}

/// Reads a statement into a call of the verb.
pub(super) fn read<'a>(
    collection: &'a Collection<RawDocumentBuf>,
    statement: &Arguments<'_>,
    shared: &DeleteOptions,
) -> Result<Delete<'a>> {
    statement.allow_options_in_statement(DeleteOptions::FIELDS, &["limit", "q"])?;
    let filter = statement.document("q")?.ok_or_else(|| statement.missing("q"))?.clone();
    let DeleteOptions { let_vars, write_concern, .. } = shared.clone();
    let options = DeleteOptions { let_vars, write_concern, ..DeleteOptions::read(statement)? };
    // MongoDB has no default here: a forgotten limit must not remove more than was meant.
    let delete = match statement.integer("limit")?.ok_or_else(|| statement.missing("limit"))? {
        0 => collection.delete_many(filter),
        1 => collection.delete_one(filter),
        other => {
            return Err(refused(
                Code::FAILED_TO_PARSE,
                format!("The limit field in delete objects must be 0 or 1. Got {other}"),
            ));
        }
    };
    Ok(delete.with_options(options))
}
