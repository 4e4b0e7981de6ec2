//! The store with its open database: what an operation gets that reads and writes.

use std::sync::Arc;

use crate::families::Database;
use crate::store::Store;

/// The store and its open database. The caller keeps the database open during the operation.
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    /// The store.
    pub store: &'a Store,
    /// Its open database.
    pub database: &'a Arc<Database>,
}
