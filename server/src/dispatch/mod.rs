//! From a command to its answer: one table of names, one file for each family of commands.
//!
//! Nothing here knows what documents mean: commands that concern them go to the engine as they came. What the table
//! does not name is the engine's to refuse, which tells what is unknown from what is left out.

mod call;
mod cursor;
mod diagnostic;
mod engine;
mod fields;
mod hello;
mod host;
mod operation;
mod parameter;
mod sequence;
mod session;

pub(crate) use self::call::{Call, Command};

use std::sync::atomic::AtomicU64;

use crate::dispatch::call::Run;
use crate::failure::Failure;
use crate::limits::{DOCUMENT_BYTES_MAX, Reserved};
use crate::reply::Reply;
use crate::shared::{Counters, count};

/// An answer, and what it holds of the budget until it is sent.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) reserved: Reserved,
}

/// A command that is known.
#[derive(Clone, Copy)]
struct Entry {
    run: Run,
    access: Access,
}

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Also who has not yet proven who it is.
    Anyone,
    /// Whoever the server admits.
    Admitted,
}

/// Ascending by name.
const COMMANDS: &[(&str, Entry)] = &[
    ("abortTransaction", here(session::without_transaction)),
    ("aggregate", batch(cursor::open)),
    ("alterAutoIncrement", pool(engine::forward)),
    ("alterSequence", pool(engine::forward)),
    ("buildInfo", open(diagnostic::build)),
    ("buildinfo", open(diagnostic::build)),
    ("collMod", pool(engine::forward)),
    ("collStats", pool(engine::forward)),
    ("collstats", pool(engine::forward_collstats)),
    ("commitTransaction", here(session::without_transaction)),
    ("connectionStatus", open(diagnostic::connection_status)),
    ("count", pool(engine::forward)),
    ("create", pool(engine::forward)),
    ("createAutoIncrement", pool(engine::forward)),
    ("createIndexes", pool(engine::forward)),
    ("createSequence", pool(engine::forward)),
    ("currentOp", pool(operation::current)),
    ("dbStats", pool(engine::forward)),
    ("dbstats", pool(engine::forward_dbstats)),
    ("delete", pool(engine::forward)),
    ("deleteIndexes", pool(engine::forward)),
    ("distinct", pool(engine::forward)),
    ("drop", pool(engine::forward)),
    ("dropAutoIncrement", pool(engine::forward)),
    ("dropDatabase", pool(engine::forward)),
    ("dropIndexes", pool(engine::forward)),
    ("dropSequence", pool(engine::forward)),
    ("endSessions", open(session::end)),
    ("explain", pool(engine::forward)),
    ("find", batch(cursor::open)),
    ("findAndModify", pool(engine::forward)),
    ("findandmodify", pool(engine::forward)),
    ("fsync", pool(diagnostic::fsync)),
    ("getCmdLineOpts", here(diagnostic::command_line)),
    ("getLog", here(diagnostic::log)),
    ("getMore", batch(cursor::get_more)),
    ("getParameter", here(parameter::get)),
    ("hello", open(hello::hello)),
    ("hostInfo", here(host::host)),
    ("insert", pool(engine::forward)),
    ("isMaster", open(hello::is_master)),
    ("ismaster", open(hello::is_master)),
    ("killAllSessions", pool(session::kill_all)),
    ("killCursors", pool(cursor::kill)),
    ("killSessions", pool(session::kill)),
    ("listAutoIncrements", pool(engine::forward)),
    ("listCollections", batch(cursor::open)),
    ("listCommands", here(list)),
    ("listDatabases", pool(engine::forward)),
    ("listIndexes", batch(cursor::open)),
    ("listSequences", pool(engine::forward)),
    ("ping", open(diagnostic::ping)),
    ("profile", here(diagnostic::profile)),
    ("refreshSessions", here(session::refresh)),
    ("renameCollection", pool(engine::forward)),
    ("renameSequence", pool(engine::forward)),
    ("replSetGetStatus", here(diagnostic::no_replication)),
    ("rolesInfo", here(diagnostic::roles)),
    ("sequenceCurrent", pool(engine::forward)),
    ("sequenceNext", pool(engine::forward)),
    ("sequenceRestart", pool(engine::forward)),
    ("sequenceSetCurrent", pool(engine::forward)),
    ("sequenceSnapshot", pool(engine::forward)),
    ("serverStatus", here(host::status)),
    ("setAcquirer", here(sequence::set_acquirer)),
    ("startSession", here(session::start)),
    ("truncate", pool(engine::forward)),
    ("update", pool(engine::forward)),
    ("usersInfo", here(diagnostic::users)),
    ("whatsmyuri", open(diagnostic::address)),
];

/// What a name outside of the table gets: the engine's refusal.
const UNKNOWN: Entry = pool(engine::forward);

/// Answers a command.
pub(crate) async fn answer(call: Call) -> Answer {
    let counters = std::sync::Arc::clone(&call.shared);
    count(operation(&counters.counters, call.command.name()));
    let _running = call.shared.operations.begin(call.operation());
    let answered = run(call).await;
    answered.unwrap_or_else(|failure| {
        count(&counters.counters.refusals);
        tracing::debug!(code = failure.code(), "refused a command");
        Answer { reply: failure.into(), reserved: Reserved::nothing() }
    })
}

async fn run(call: Call) -> Result<Answer, Failure> {
    let entry = entry(call.command.name());
    admit(&call, entry)?;
    call.check()?;
    let pool = call.shared.pool.clone();
    match entry.run {
        Run::Here(run) => Ok(Answer { reply: run(&call)?, reserved: Reserved::nothing() }),
        Run::Pool(run) => {
            let reply = pool.run(move || run(&call)).await??;
            Ok(Answer { reply, reserved: Reserved::nothing() })
        }
        Run::Batch(run) => {
            // A batch is as long as a document at most, but for what its frame takes.
            let mut reserved = call.shared.answers.reserve(DOCUMENT_BYTES_MAX).await;
            let reply = pool.run(move || run(&call)).await??;
            reserved.shrink_to(reply.len());
            Ok(Answer { reply, reserved })
        }
    }
}

fn entry(name: &str) -> Entry {
    let place = COMMANDS.binary_search_by_key(&name, |&(known, _)| known).ok();
    place.and_then(|place| COMMANDS.get(place)).map_or(UNKNOWN, |&(_, entry)| entry)
}

/// Whether the connection may run the command: everyone may until users must prove who they are.
fn admit(call: &Call, entry: Entry) -> Result<(), Failure> {
    if entry.access == Access::Anyone || !call.shared.settings.requires_user || call.peer.user().is_some() {
        return Ok(());
    }
    let name = call.command.name();
    Err(Failure::new(13, "Unauthorized", format!("Command {name} requires authentication")))
}

fn operation<'a>(counters: &'a Counters, name: &str) -> &'a AtomicU64 {
    match name {
        "insert" => &counters.inserts,
        "find" => &counters.queries,
        "update" => &counters.updates,
        "delete" => &counters.deletes,
        "getMore" => &counters.get_mores,
        _ => &counters.commands,
    }
}

fn list(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let commands = COMMANDS.iter().map(|&(name, entry)| {
        let about = cairndb::bson::doc! { "requiresAuth": entry.access == Access::Admitted };
        (name.to_owned(), cairndb::bson::Bson::Document(about))
    });
    Ok(cairndb::bson::doc! { "commands": commands.collect::<cairndb::bson::Document>() }.into())
}

const fn here(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Admitted }
}

const fn open(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Here(run), access: Access::Anyone }
}

const fn pool(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Pool(run), access: Access::Admitted }
}

const fn batch(run: fn(&Call) -> Result<Reply, Failure>) -> Entry {
    Entry { run: Run::Batch(run), access: Access::Admitted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(COMMANDS.is_sorted_by(|(left, _), (right, _)| left < right));
    }
}
