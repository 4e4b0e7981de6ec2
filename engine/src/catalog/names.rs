//! The catalog in memory: every collection, every view and every sequence by its name.
//!
//! Readers acquire the lock of the map for a lookup alone. A change holds `next_ids` from its first check to the
//! change of the map, so two changes never see each other half done.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::error::Result;
use base::lock_order::{self, Held, Place};
use base::namespace::Namespace;
use base::sync::{self, AtomicU64, Mutex, MutexGuard, RwLock};
use store::Database;

use crate::catalog::collection::CollectionState;
use crate::catalog::sequences::Sequences;
use crate::catalog::views::{View, ViewSet};
use crate::changes::log::ChangeLog;

/// All collections, views and sequences, and the one lock of all changes to them.
pub(crate) struct Catalog {
    databases: RwLock<HashMap<String, BTreeMap<String, Named>>>,
    pub(crate) sequences: Sequences,
    /// The log of the changes of those collections that are logged.
    pub(crate) log: Arc<ChangeLog>,
    /// Held while changes of a scope begin to be logged.
    pub(super) switching: Mutex<()>,
    /// Held by every change that adds, removes or renames, and acquired before the gate of a collection.
    next_ids: Mutex<NextIds>,
    /// A sequence number not below that of the last change of a view, or of the last removal of a name. The highest of all while such a
    /// change is made.
    names_since: AtomicU64,
    /// Whether the last write before the catalog was loaded was that of a close in order.
    pub(crate) was_closed_in_order: bool,
}

/// An object with a name in a database.
#[derive(Clone)]
pub(crate) enum Named {
    Collection(Arc<CollectionState>),
    View(Arc<View>),
}

/// The next free ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextIds {
    /// Of collections and indexes.
    pub(crate) id: u32,
    /// Of sequences.
    pub(crate) sequence: u64,
}

/// The lock of all changes of the catalog, and the next ids.
#[must_use]
pub(crate) struct Ids<'a> {
    held: MutexGuard<'a, NextIds>,
    _place: Held,
}

impl Deref for Ids<'_> {
    type Target = NextIds;

    fn deref(&self) -> &NextIds {
        &self.held
    }
}

impl DerefMut for Ids<'_> {
    fn deref_mut(&mut self) -> &mut NextIds {
        &mut self.held
    }
}

impl Catalog {
    /// A catalog without any name.
    pub(super) fn empty(next_ids: NextIds, log: ChangeLog) -> Self {
        Self {
            databases: RwLock::default(),
            sequences: Sequences::default(),
            log: Arc::new(log),
            switching: Mutex::new(()),
            next_ids: Mutex::new(next_ids),
            names_since: AtomicU64::new(0),
            was_closed_in_order: false,
        }
    }

    /// The collection with this name. Returns `None` if it does not exist.
    pub(crate) fn find(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        match self.databases.read().get(&namespace.db)?.get(&namespace.coll)? {
            Named::Collection(collection) => Some(Arc::clone(collection)),
            Named::View(_) => None,
        }
    }

    /// The object that has this name. Returns `None` if nothing has.
    pub(crate) fn occupant(&self, namespace: &Namespace) -> Option<Named> {
        self.databases.read().get(&namespace.db)?.get(&namespace.coll).cloned()
    }

    /// The view with this name. Returns `None` if it does not exist.
    pub(crate) fn find_view(&self, namespace: &Namespace) -> Option<Arc<View>> {
        match self.occupant(namespace)? {
            Named::View(view) => Some(view),
            Named::Collection(_) => None,
        }
    }

    /// The views of a database that names lead to, all of one moment.
    pub(crate) fn views_among<'n>(&self, db: &str, names: impl IntoIterator<Item = &'n str>) -> ViewSet {
        // One lock for all look-ups: a definition and those below it are of the same moment.
        let databases = self.databases.read();
        let database = databases.get(db);
        ViewSet::reached(names, |name| match database?.get(name)? {
            Named::View(view) => Some(Arc::clone(view)),
            Named::Collection(_) => None,
        })
    }

    /// Every view of a database.
    pub(super) fn views_of(&self, db: &str) -> Vec<Arc<View>> {
        let databases = self.databases.read();
        let named = databases.get(db).into_iter().flat_map(BTreeMap::values);
        let views = named.filter_map(|named| match named {
            Named::View(view) => Some(Arc::clone(view)),
            Named::Collection(_) => None,
        });
        views.collect()
    }

    /// Every view.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        self.database_names().iter().flat_map(|db| self.views_of(db)).collect()
    }

    /// The names of the databases that have a collection or a view, ascending. One in which a `$out` gathers its documents is
    /// there once they are in place.
    pub(crate) fn database_names(&self) -> Vec<String> {
        let is_there =
            |named: &BTreeMap<String, Named>| named.keys().any(|name| !Namespace::is_aside_name(name));
        let databases = self.databases.read();
        let names = databases.iter().filter(|(_, collections)| is_there(collections));
        let mut names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        // The map of databases is not sorted, the map of collections below is.
        names.sort_unstable();
        names
    }

    /// The names of a database's collections and views, ascending.
    pub(crate) fn collection_names(&self, db: &str) -> Vec<String> {
        self.databases
            .read()
            .get(db)
            .map(|collections| collections.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Every collection, ascending by id.
    pub(crate) fn collections(&self) -> Vec<Arc<CollectionState>> {
        let databases = self.databases.read();
        let named = databases.values().flat_map(BTreeMap::values);
        let collections = named.filter_map(|named| match named {
            Named::Collection(collection) => Some(Arc::clone(collection)),
            Named::View(_) => None,
        });
        let mut all: Vec<_> = collections.collect();
        // The one order in which several collections are locked.
        all.sort_unstable_by_key(|collection| collection.id);
        all
    }

    /// Keeps the set of collections, views, indexes and sequences as it is until the guard is dropped.
    pub(crate) fn freeze(&self) -> Ids<'_> {
        self.lock_ids()
    }

    /// Makes a change of a view, or one that removes a name. Transactions that look a name up meanwhile, or have begun before, learn
    /// of it. The caller has the lock of all changes.
    pub(super) fn announce<R>(&self, database: &Database, change: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = self.names_since.swap(u64::MAX, Ordering::SeqCst);
        let changed = change();
        let since = database.latest_sequence().max(before);
        self.names_since.store(since, Ordering::SeqCst);
        changed
    }

    /// Whether every view is what it was at a sequence number, and every name that is absent was absent. To be asked after the names were
    /// looked up.
    pub(crate) fn names_are_as_of(&self, sequence: u64) -> bool {
        self.names_since.load(Ordering::SeqCst) <= sequence
    }

    /// Acquires the lock of all changes of the catalog.
    pub(super) fn lock_ids(&self) -> Ids<'_> {
        let place = lock_order::take(Place::Catalog);
        Ids { held: self.next_ids.lock(), _place: place }
    }

    /// Acquires that lock unless it is held for longer than `patience`.
    pub(super) fn try_lock_ids(&self, patience: Duration) -> Option<Ids<'_>> {
        let place = lock_order::take(Place::Catalog);
        let held = sync::try_lock_for(&self.next_ids, patience)?;
        Some(Ids { held, _place: place })
    }

    pub(super) fn insert(&self, named: Named) {
        let Namespace { db, coll } = match &named {
            Named::Collection(collection) => collection.namespace.clone(),
            Named::View(view) => view.namespace.clone(),
        };
        let mut databases = self.databases.write();
        databases.entry(db).or_default().insert(coll, named);
    }

    pub(super) fn remove(&self, namespace: &Namespace) {
        let mut databases = self.databases.write();
        Self::remove_from(&mut databases, namespace);
    }

    /// Replaces a collection by the renamed one, in one step for readers: they find it by one of the two
    /// names.
    pub(super) fn exchange(&self, old: &Namespace, renamed: Arc<CollectionState>) {
        let mut databases = self.databases.write();
        Self::remove_from(&mut databases, old);
        let Namespace { db, coll } = renamed.namespace.clone();
        databases.entry(db).or_default().insert(coll, Named::Collection(renamed));
    }

    fn remove_from(databases: &mut HashMap<String, BTreeMap<String, Named>>, namespace: &Namespace) {
        if let Some(collections) = databases.get_mut(&namespace.db) {
            collections.remove(&namespace.coll);
            // A database without collections and views does not exist, as in MongoDB.
            if collections.is_empty() {
                databases.remove(&namespace.db);
            }
        }
    }
}
