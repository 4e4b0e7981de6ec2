//! The collections that a transaction makes. They are in no catalog, so no other caller finds them, until its commit.

use std::sync::Arc;

use base::namespace::Namespace;
use base::sync::Mutex;

use crate::catalog::collection::CollectionState;

/// The collections that a transaction has made. Its handles look names up here first.
#[derive(Default)]
pub(crate) struct MadeCollections {
    list: Mutex<Vec<Arc<CollectionState>>>,
}

impl MadeCollections {
    /// The collection with this name, if the transaction has made it.
    pub(crate) fn find(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        self.list.lock().iter().find(|made| made.namespace == *namespace).cloned()
    }

    /// Whether the transaction has made a collection.
    pub(crate) fn has(&self, collection: &Arc<CollectionState>) -> bool {
        self.list.lock().iter().any(|made| Arc::ptr_eq(made, collection))
    }

    /// Whether the transaction has made a collection in a database whose name differs from this one only in case.
    pub(crate) fn has_case_clash(&self, db: &str) -> bool {
        let clashes = |own: &str| own != db && own.eq_ignore_ascii_case(db);
        self.list.lock().iter().any(|made| clashes(&made.namespace.db))
    }

    pub(crate) fn add(&self, collection: Arc<CollectionState>) {
        self.list.lock().push(collection);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<CollectionState>> {
        self.list.lock().clone()
    }
}
