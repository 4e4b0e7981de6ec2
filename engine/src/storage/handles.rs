//! The store together with its open database: what an operation that reads and writes is given.

use std::sync::Arc;

use crate::storage::{Database, Store};

/// The store and its open database. The caller keeps the database open for the length of the operation.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
}
