//! Commands: MongoDB's documents for what the verbs do, and CairnDB's own for sequences.
//!
//! A command is a document whose first field names it. It is answered by a document with `ok: 1`; what single
//! statements of a write were refused for stands in `writeErrors`, everything else is an error of the call. Commands that
//! give a cursor have a table of their own: the cursor is the caller's, or `firstBatch` holds all of it. `getMore`
//! belongs to a server.
//!
//! Unknown commands, commands that are MongoDB's but not here, and fields that a command does not know are three
//! different errors.

mod aggregate;
mod arguments;
mod collections;
mod cursor;
mod databases;
mod delete;
mod explain;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
mod modify;
mod request;
mod sequences;
mod unsupported;
mod update;
mod validate;
mod write_errors;

pub use self::arguments::GENERIC_COMMAND_FIELDS;
pub(crate) use self::cursor::Opened;
pub(crate) use self::request::{Body, Request};
pub use self::unsupported::{
    UNSUPPORTED_COMMANDS, UNSUPPORTED_OPTIONS, UnsupportedCommands, UnsupportedOption, UnsupportedOptions,
};

use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::{OperationContext, Reservation};
use query::registry::Registry;

use crate::codes::{refused, unsupported as not_supported};
use crate::collection::Collection;
use crate::command::arguments::Arguments;
use crate::error::{Error, Result};
use crate::sequences::Sequence;
use crate::shared::{Caller, Shared};

/// The database that a command is run on.
pub(crate) struct Place<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: Caller,
    pub(crate) db: &'a str,
}

/// Runs a command; a cursor that it gives is drained.
pub(crate) fn run(place: &Place<'_>, request: &Request<'_>) -> Result<Document> {
    let held = place.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    let arguments = Arguments::of(name, &body).with(&batch);
    arguments.check_write_concern()?;
    let place = &place.begin(arguments.max_time()?);
    place.keep(held);
    let mut reply = if let Some(run) = COMMANDS.get(name) {
        run(place, &arguments)?
    } else if name == "aggregate" && aggregate::asks_for_plan(&arguments)? {
        explain::of_aggregate(place, &arguments, &body)?
    } else if let Some(open) = CURSOR_COMMANDS.get(name) {
        open(place, &arguments)?.drain()?
    } else {
        return Err(missing(name));
    };
    reply.insert("ok", 1.0);
    Ok(reply)
}

/// Runs a command that gives a cursor.
pub(crate) fn open(place: &Place<'_>, request: &Request<'_>) -> Result<Opened> {
    let held = place.shared.reserve_for_request(request.check()?)?;
    let (body, batch) = request.read()?;
    let name = name(&body)?;
    match CURSOR_COMMANDS.get(name) {
        Some(open) => {
            let arguments = Arguments::of(name, &body).with(&batch);
            arguments.check_write_concern()?;
            let place = place.begin(arguments.max_time()?);
            // The cursor's operation is the command's: what was parsed is held, and counted, until the cursor is dropped.
            place.keep(held);
            open(&place, &arguments)
        }
        None if has_command(name) => {
            Err(Error::invalid_argument(format!("the command '{name}' gives no cursor: use run_command")))
        }
        None => Err(missing(name)),
    }
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

/// Whether [`Database::run_command`](crate::Database::run_command) has a command of that name: any other is refused,
/// whoever sends it.
///
/// ```
/// assert!(cairndb::has_command("find"));
/// assert!(!cairndb::has_command("mapReduce"));
/// ```
pub fn has_command(name: &str) -> bool {
    COMMANDS.contains(name) || CURSOR_COMMANDS.contains(name)
}

fn missing(name: &str) -> Error {
    if unsupported::is_command(name) {
        not_supported(format!("the command '{name}' is not supported"))
    } else {
        refused(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
    }
}

impl Place<'_> {
    /// The place of a command that begins now: all that is done for it is one operation.
    fn begin(&self, max_time: Option<Duration>) -> Self {
        let operation = self.shared.operation(&self.caller, max_time);
        Self { caller: self.caller.within(&operation), ..*self }
    }

    /// The place with an operation of its own, which begins now.
    fn begin_anew(&self, max_time: Option<Duration>) -> Self {
        let caller = Caller { operation: None, ..self.caller.clone() };
        Self { caller, ..*self }.begin(max_time)
    }

    /// Counts the memory of the decoded request as the operation's.
    fn keep(&self, request: Option<Reservation>) {
        if let Some(request) = request {
            self.operation().keep(request);
        }
    }

    /// What the command may use.
    fn operation(&self) -> OperationContext {
        self.shared.operation(&self.caller, None)
    }

    fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        Collection::new(Arc::clone(self.shared), self.caller.clone(), self.db, name)
    }

    fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(self.shared), self.caller.clone(), self.db, name)
    }
}

type Command = fn(&Place<'_>, &Arguments<'_>) -> Result<Document>;
type CursorCommand = fn(&Place<'_>, &Arguments<'_>) -> Result<Opened>;

const CURSOR_COMMANDS: Registry<CursorCommand> = Registry::new(&[
    ("aggregate", aggregate::aggregate),
    ("find", find::find),
    ("listCollections", collections::list),
    ("listIndexes", indexes::list),
]);

const COMMANDS: Registry<Command> = Registry::new(&[
    ("alterAutoIncrement", sequences::alter_auto_increment),
    ("alterSequence", sequences::alter_sequence),
    ("collMod", modify::modify),
    ("collStats", databases::collection_stats),
    ("count", find::count),
    ("create", collections::create),
    ("createAutoIncrement", sequences::create_auto_increment),
    ("createIndexes", indexes::create),
    ("createSequence", sequences::create_sequence),
    ("dbStats", databases::stats),
    ("delete", delete::delete),
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
    ("sequenceNext", sequences::next),
    ("sequenceRestart", sequences::restart),
    ("sequenceSetCurrent", sequences::set_current),
    ("sequenceSnapshot", sequences::snapshot),
    ("truncate", collections::truncate),
    ("update", update::update),
    ("validate", validate::validate),
]);

fn ping(_place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
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
