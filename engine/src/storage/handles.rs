//! The store together with its open database: what an operation that reads and writes is given.

use std::sync::Arc;

use crate::storage::{Database, Store};

/// The store, and the database that the caller keeps open for the length of the operation.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
}
