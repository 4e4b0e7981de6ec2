//! A client: an open database folder. `handle` is the struct `Client`; how it is opened, what it lists, its durability, and
//! verifying and copying it are in files beside it.

mod builder;
mod copy;
mod durability;
mod handle;
mod lists;

pub use self::builder::{ClientBuilder, ObjectIdLayout};
pub use self::durability::DurabilityTicket;
pub use self::handle::Client;
pub use self::lists::{ListDatabaseNames, ListDatabases};
