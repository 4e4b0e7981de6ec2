//! A database: a named set of collections and sequences. `handle` is the struct `Database` with its verbs on collections;
//! its verbs on sequences and its commands are in files beside it.

mod commands;
mod handle;
mod sequences;

pub use self::commands::{RunCommand, RunCursorCommand};
pub use self::handle::{CreateCollection, Database, DropDatabase, ListCollectionNames};
pub use self::sequences::{CreateSequence, DropSequence, ListSequences, RenameSequence, SnapshotSequences};
