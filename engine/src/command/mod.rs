//! Commands: documents that call the verbs. Most are MongoDB's; those of sequences are CairnDB's own.
//!
//! The first field of a command is its name. The reply is a document with `ok: 1`. A rejected statement of a write is
//! listed in `writeErrors`; every other failure is an error of the call. Commands that open a cursor have a table of their
//! own: the caller gets the cursor, or `firstBatch` has all documents. `getMore` belongs to a server.
//!
//! An unknown command, a command that only MongoDB has, and an unknown field of a command are three different errors.

mod aggregate;
mod arguments;
mod batch;
mod bulk_write;
mod change_stream;
mod collections;
mod compact;
mod context;
mod cursor;
mod databases;
mod delete;
mod explain;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
mod modify;
mod nesting;
mod plan;
mod repeated;
mod request;
mod sequences;
mod unsupported;
mod update;
mod validate;
mod write_errors;

pub use self::arguments::GENERIC_COMMAND_FIELDS;
pub(crate) use self::context::CommandContext;
pub(crate) use self::cursor::Opened;
pub(crate) use self::request::{Body, Request};
pub use self::unsupported::{
    UNSUPPORTED_COMMANDS, UNSUPPORTED_OPTIONS, UnsupportedCommands, UnsupportedOption, UnsupportedOptions,
};

use base::codes::{refused, unsupported as not_supported};
use base::error::{Error, Result};
use bson::{Document, doc};
use query::code::Code;
use query::registry::Registry;

use crate::command::arguments::Arguments;
use crate::transaction::refused_within;

/// Commands that can be statements of a transaction.
const STATEMENTS: [&str; 11] = [
    "aggregate",
    "bulkWrite",
    "create",
    "createIndexes",
    "delete",
    "distinct",
    "find",
    "findAndModify",
    "findandmodify",
    "insert",
    "update",
];

/// Runs a command. Of a command that opens a cursor, the reply has all documents.
pub(crate) fn run(context: &CommandContext<'_>, request: &Request<'_>) -> Result<Document> {
    // Before anything is decoded: a small request may need very much memory once it is.
    let held = context.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    let arguments = Arguments::of(name, &body).with(&batch);
    // Before the command runs: a concern that cannot be met must leave nothing written.
    arguments.check_write_concern()?;
    check_statement(context, name, &arguments)?;
    // The clock starts here: whatever the command calls shares one limit of time.
    let context = &context.begin(arguments.max_time()?);
    context.keep(held);
    let mut reply = if let Some(run) = COMMANDS.get(name) {
        context.once(name, &arguments, || {
            repeated::run(context, (name, &body), &arguments, |context, body| {
                run(context, &Arguments::of(name, body).with(&batch))
            })
        })?
    } else if name == "aggregate" && aggregate::asks_for_plan(&arguments)? {
        // Before the table of cursors: an `aggregate` with `explain: true` opens none.
        explain::of_aggregate(context, &arguments, &body)?
    } else if let Some(open) = CURSOR_COMMANDS.get(name) {
        change_stream::refuse_one_reply(name, &arguments)?;
        // The documents that are read here are outside of the statement, which ended when the cursor was open.
        open(context, &arguments)?.drain().inspect_err(|_| context.abort_transaction())?
    } else {
        return Err(missing(name));
    };
    // A double, as MongoDB sends it.
    reply.insert("ok", 1.0);
    Ok(reply)
}

/// Runs a command that opens a cursor.
pub(crate) fn open(context: &CommandContext<'_>, request: &Request<'_>) -> Result<Opened> {
    let held = context.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    match CURSOR_COMMANDS.get(name) {
        Some(open) => {
            let arguments = Arguments::of(name, &body).with(&batch);
            arguments.check_write_concern()?;
            check_statement(context, name, &arguments)?;
            let context = context.begin(arguments.max_time()?);
            // The cursor's operation is the command's: what was parsed is held, and counted, until the cursor is dropped.
            context.keep(held);
            open(&context, &arguments)
        }
        // Distinguished from an unknown command: the caller has only made the wrong call for it.
        None if has_command(name) => {
            Err(Error::invalid_argument(format!("the command '{name}' opens no cursor: use run_command")))
        }
        None => Err(missing(name)),
    }
}

/// Rejects a command that cannot be a statement of its transaction.
fn check_statement(context: &CommandContext<'_>, name: &str, arguments: &Arguments<'_>) -> Result<()> {
    if !context.is_in_transaction() {
        return Ok(());
    }
    if !can_be_statement(name) {
        return Err(refused_within(&format!("the command '{name}'")));
    }
    if arguments.given("readConcern").is_some() {
        let message = "a read concern is given when a transaction is started, and not to its statements";
        return Err(Error::invalid_argument(message));
    }
    if name == "aggregate" && aggregate::asks_for_plan(arguments)? {
        return Err(refused_within("an explanation"));
    }
    Ok(())
}

fn name(body: &Document) -> Result<&str> {
    let name = body.keys().next().map(String::as_str);
    name.ok_or_else(|| {
        refused(
            Code::FAILED_TO_PARSE,
            "a command is a document with its name as the first field, not an empty one",
        )
    })
}

/// Whether [`Database::run_command`](crate::Database::run_command) has a command of that name. It rejects all others.
///
/// ```
/// assert!(cairndb::has_command("find"));
/// assert!(!cairndb::has_command("mapReduce"));
/// ```
pub fn has_command(name: &str) -> bool {
    COMMANDS.contains(name) || CURSOR_COMMANDS.contains(name)
}

/// Whether a command of that name can be a statement of a transaction.
///
/// ```
/// assert!(cairndb::can_be_statement("find"));
/// assert!(!cairndb::can_be_statement("drop"));
/// ```
pub fn can_be_statement(name: &str) -> bool {
    STATEMENTS.contains(&name)
}

/// The error for a command that is in no table.
fn missing(name: &str) -> Error {
    if unsupported::is_command(name) {
        not_supported(format!("the command '{name}' is not supported"))
    } else {
        refused(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
    }
}

type Command = fn(&CommandContext<'_>, &Arguments<'_>) -> Result<Document>;
type CursorCommand = fn(&CommandContext<'_>, &Arguments<'_>) -> Result<Opened>;

const CURSOR_COMMANDS: Registry<CursorCommand> = Registry::new(&[
    ("aggregate", aggregate::aggregate),
    ("find", find::find),
    ("listCollections", collections::list),
    ("listIndexes", indexes::list),
]);

const COMMANDS: Registry<Command> = Registry::new(&[
    ("alterAutoIncrement", sequences::alter_auto_increment),
    ("alterSequence", sequences::alter_sequence),
    ("bulkWrite", bulk_write::bulk_write),
    ("cloneCollectionAsCapped", collections::clone_as_capped),
    ("collMod", modify::modify),
    ("collStats", databases::collection_stats),
    ("compact", compact::compact),
    ("convertToCapped", collections::convert_to_capped),
    ("count", find::count),
    ("create", collections::create),
    ("createAutoIncrement", sequences::create_auto_increment),
    ("createIndexes", indexes::create),
    ("createSequence", sequences::create_sequence),
    ("dbStats", databases::stats),
    ("delete", delete::delete),
    // A legacy name in MongoDB, which old clients still send, as they do `findandmodify`.
    ("deleteIndexes", indexes::drop),
    ("distinct", find::distinct),
    ("drop", collections::drop),
    ("dropAutoIncrement", sequences::drop_auto_increment),
    ("dropDatabase", databases::drop),
    ("dropIndexes", indexes::drop),
    ("dropSequence", sequences::drop_sequence),
    ("explain", explain::explain),
    ("findAndModify", find_and_modify::find_and_modify),
    ("findandmodify", find_and_modify::find_and_modify),
    ("insert", insert::insert),
    ("listAutoIncrements", sequences::list_auto_increments),
    ("listDatabases", databases::list),
    ("listSequences", sequences::list_sequences),
    ("ping", ping),
    ("renameCollection", collections::rename),
    ("renameSequence", sequences::rename_sequence),
    ("sequenceCurrent", sequences::current),
    ("sequenceGaps", sequences::gaps),
    ("sequenceNext", sequences::next),
    ("sequenceRestart", sequences::restart),
    ("sequenceSetCurrent", sequences::set_current),
    ("sequenceSnapshot", sequences::snapshot),
    ("sequenceTrace", sequences::trace),
    ("truncate", collections::truncate),
    ("update", update::update),
    ("validate", validate::validate),
]);

fn ping(_context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    // It reads no field, but a misspelt one is rejected as in every command.
    arguments.allow(&[])?;
    Ok(doc! {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_in_one_table_only() {
        assert!(COMMANDS.names().chain(CURSOR_COMMANDS.names()).all(|name| !unsupported::is_command(name)));
        assert!(CURSOR_COMMANDS.names().all(|name| !COMMANDS.contains(name)));
    }
}
