//! Commands: MongoDB's documents for what the verbs do, and CairnDB's own for sequences.
//!
//! A command is a document whose first field names it. It is answered by a document with `ok: 1`; what single
//! statements of a write were refused for stands in `writeErrors`, everything else is an error of the call. There are
//! no cursors to come back to: `firstBatch` holds all, and `getMore` belongs to a server.
//!
//! Unknown commands, commands that are MongoDB's but not here, and fields that a command does not know are three
//! different errors.

mod aggregate;
mod arguments;
mod collections;
mod delete;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
mod sequences;
mod update;
mod write_errors;

use std::sync::Arc;

use bson::{Document, RawDocumentBuf, doc};
use sequence::acquirer::Acquirer;

use crate::codes::{refused, unsupported};
use crate::collection::Collection;
use crate::command::arguments::Arguments;
use crate::error::Result;
use crate::sequences::Sequence;
use crate::shared::Shared;

/// The database that a command is run on.
pub(crate) struct Place<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) acquirer: Option<&'a Arc<Acquirer>>,
    pub(crate) db: &'a str,
}

/// Runs a command.
pub(crate) fn run(place: &Place<'_>, command: &Document) -> Result<Document> {
    let Some(name) = command.keys().next() else {
        return Err(refused(9, "a command is a document with its name as the first field, not an empty one"));
    };
    let known = COMMANDS.binary_search_by_key(&name.as_str(), |&(known, _)| known);
    let Some((_, run)) = known.ok().and_then(|position| COMMANDS.get(position)) else {
        return Err(if ELSEWHERE.binary_search(&name.as_str()).is_ok() {
            unsupported(format!("the command '{name}' is not supported"))
        } else {
            refused(59, format!("no such command: '{name}'"))
        });
    };
    let mut reply = run(place, &Arguments::of(name, command))?;
    reply.insert("ok", 1.0);
    Ok(reply)
}

impl Place<'_> {
    fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        Collection::new(Arc::clone(self.shared), self.acquirer.cloned(), self.db, name)
    }

    fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(self.shared), self.acquirer.cloned(), self.db, name)
    }
}

type Command = fn(&Place<'_>, &Arguments<'_>) -> Result<Document>;

/// Ascending by name.
const COMMANDS: &[(&str, Command)] = &[
    ("aggregate", aggregate::aggregate),
    ("alterAutoIncrement", sequences::alter_auto_increment),
    ("alterSequence", sequences::alter_sequence),
    ("count", find::count),
    ("create", collections::create),
    ("createAutoIncrement", sequences::create_auto_increment),
    ("createIndexes", indexes::create),
    ("createSequence", sequences::create_sequence),
    ("delete", delete::delete),
    ("deleteIndexes", indexes::drop),
    ("distinct", find::distinct),
    ("drop", collections::drop),
    ("dropAutoIncrement", sequences::drop_auto_increment),
    ("dropIndexes", indexes::drop),
    ("dropSequence", sequences::drop_sequence),
    ("find", find::find),
    ("findAndModify", find_and_modify::find_and_modify),
    ("findandmodify", find_and_modify::find_and_modify),
    ("insert", insert::insert),
    ("listAutoIncrements", sequences::list_auto_increments),
    ("listCollections", collections::list),
    ("listIndexes", indexes::list),
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
];

/// Commands of MongoDB that are not here, ascending: some are a server's, others are missing.
const ELSEWHERE: &[&str] = &[
    "abortTransaction",
    "buildInfo",
    "bulkWrite",
    "collMod",
    "collStats",
    "commitTransaction",
    "connectionStatus",
    "convertToCapped",
    "currentOp",
    "dbStats",
    "dropDatabase",
    "endSessions",
    "explain",
    "getLog",
    "getMore",
    "getParameter",
    "hello",
    "hostInfo",
    "isMaster",
    "ismaster",
    "killCursors",
    "killOp",
    "killSessions",
    "listCommands",
    "listDatabases",
    "mapReduce",
    "reIndex",
    "serverStatus",
    "setParameter",
    "shutdown",
    "startSession",
    "validate",
];

fn ping(_place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    Ok(doc! {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_ascend() {
        assert!(COMMANDS.is_sorted_by(|(left, _), (right, _)| left < right));
        assert!(ELSEWHERE.is_sorted_by(|left, right| left < right));
        assert!(COMMANDS.iter().all(|(name, _)| ELSEWHERE.binary_search(name).is_err()));
    }
}
