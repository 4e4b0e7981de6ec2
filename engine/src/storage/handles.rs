//! The store with its open database: what an operation gets that reads and writes.

use std::sync::Arc;

use crate::storage::{Database, Store};

/// The store and its open database. The caller keeps the database open during the operation.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
}
