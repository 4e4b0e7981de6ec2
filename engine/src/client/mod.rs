//! A client: an open database folder. `handle` is the struct `Client`; how it is opened, what it lists, its durability, and
//! verifying it, copying it, compacting it, deleting what has expired and damage for tests are in files beside it.

mod builder;
mod compact;
mod copy;
mod durability;
mod expire;
mod handle;
mod independent_backup;
mod lists;
mod metrics;
mod open;
mod planted;
mod verify;
mod versions;
mod watch;

pub use self::builder::{ClientBuilder, ObjectIdLayout};
pub use self::expire::ExpireDocuments;
pub use self::handle::Client;
pub use self::independent_backup::{IndependentBackup, IndependentBackupReport};
pub use self::lists::{ListDatabaseNames, ListDatabases};
pub use self::verify::Verification;
pub use self::versions::Versions;
