//! A database: a named set of collections and sequences. `handle` is the struct `Database` with its verbs on all
//! collections; its other verbs and its commands are in files beside it.

mod commands;
mod create;
mod handle;
mod modify;
mod sequences;
mod watch;

pub use self::commands::{RunCommand, RunCursorCommand, RunSessionCursorCommand};
pub use self::create::CreateCollection;
pub use self::handle::{Database, DropDatabase, ListCollectionNames};
pub use self::modify::ModifyCollection;
pub use self::sequences::{CreateSequence, DropSequence, ListSequences, RenameSequence, SnapshotSequences};
