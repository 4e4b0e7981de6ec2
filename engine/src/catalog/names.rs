//! The catalog in memory: every collection and every sequence by its name.
//!
//! Readers take the lock of the map for a lookup alone. A change holds `next_ids` from its first check to the
//! change of the map, so two changes never see each other half done.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::catalog::collection::CollectionState;
use crate::catalog::sequences::Sequences;
use crate::namespace::Namespace;
use crate::sync::{Mutex, RwLock};

/// All collections and sequences, and the one lock of all changes to them.
pub(crate) struct Catalog {
    pub(super) databases: RwLock<HashMap<String, BTreeMap<String, Arc<CollectionState>>>>,
    pub(crate) sequences: Sequences,
    /// Held by every change that adds, removes or renames, and taken before the gate of a collection.
    pub(super) next_ids: Mutex<NextIds>,
}

/// The next free ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextIds {
    /// Of collections and indexes.
    pub(crate) id: u32,
    /// Of sequences.
    pub(crate) sequence: u64,
}

impl Catalog {
    /// The collection with this name. Returns `None` if it does not exist.
    pub(crate) fn find(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        self.databases.read().get(&namespace.db)?.get(&namespace.coll).cloned()
    }

    /// The names of the databases that have a collection, ascending.
    pub(crate) fn database_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.databases.read().keys().cloned().collect();
        // The map of databases is not sorted, the map of collections below is.
        names.sort_unstable();
        names
    }

    /// The names of a database's collections, ascending.
    pub(crate) fn collection_names(&self, db: &str) -> Vec<String> {
        self.databases
            .read()
            .get(db)
            .map(|collections| collections.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Every collection, ascending by id.
    pub(crate) fn collections(&self) -> Vec<Arc<CollectionState>> {
        let mut all: Vec<_> =
            self.databases.read().values().flat_map(|collections| collections.values().cloned()).collect();
        // The one order in which several collections are locked.
        all.sort_unstable_by_key(|collection| collection.id);
        all
    }

    /// Keeps the set of collections, indexes and sequences as it is until the guard is dropped.
    pub(crate) fn freeze(&self) -> impl Drop + '_ {
        self.next_ids.lock()
    }

    pub(super) fn insert(&self, collection: Arc<CollectionState>) {
        let Namespace { db, coll } = collection.namespace.clone();
        self.databases.write().entry(db).or_default().insert(coll, collection);
    }

    pub(super) fn remove(&self, namespace: &Namespace) {
        Self::remove_from(&mut self.databases.write(), namespace);
    }

    /// Replaces a collection by the renamed one, in one step for readers: they find it by one of the two
    /// names.
    pub(super) fn exchange(&self, old: &Namespace, renamed: Arc<CollectionState>) {
        let mut databases = self.databases.write();
        Self::remove_from(&mut databases, old);
        let Namespace { db, coll } = renamed.namespace.clone();
        databases.entry(db).or_default().insert(coll, renamed);
    }

    fn remove_from(
        databases: &mut HashMap<String, BTreeMap<String, Arc<CollectionState>>>,
        namespace: &Namespace,
    ) {
        if let Some(collections) = databases.get_mut(&namespace.db) {
            collections.remove(&namespace.coll);
            // A database without collections does not exist, as in MongoDB.
            if collections.is_empty() {
                databases.remove(&namespace.db);
            }
        }
    }
}
