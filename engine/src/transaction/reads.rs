//! What a serializable transaction has read: its commit makes sure that all of it is still so.
//!
//! A read by an `_id` is remembered as the key of the record, whether it was there or not. Every other read counts as one of the whole
//! collection: which documents it would find is known only by searching again.
//!
//! Writers wait while a commit looks at all this, so there are bounds to it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use base::namespace::Namespace;
use store::keys::CollectionId;

use crate::catalog::collection::CollectionState;
use crate::catalog::names::Catalog;

/// How many keys of a collection are remembered, and of all together. After that a collection counts as read as a whole.
const KEYS_MAX: usize = 1 << 12;
const ALL_KEYS_MAX: usize = 1 << 14;
/// About how many bytes of memory a key and a collection use.
const KEY_COST: usize = 16;
const COLLECTION_COST: usize = 64;
/// The bytes that the name of an absent collection counts as. Far more than it uses: each is one more look-up while writers wait.
const ABSENT_COST: usize = 16 << 10;

/// What was read.
#[derive(Default)]
pub(crate) struct Reads {
    collections: BTreeMap<CollectionId, Read>,
    /// Names that no collection and no view had.
    absent: HashSet<Namespace>,
    /// Whether a view was read, which must be what it was.
    has_views: bool,
    /// How many keys there are of all collections.
    keys: usize,
    bytes: usize,
}

/// What was read of a collection.
struct Read {
    state: Arc<CollectionState>,
    /// Hashes of record keys. Empty if the whole collection was read.
    keys: HashSet<u64>,
    is_searched: bool,
}

impl Reads {
    /// Remembers the read of a record key.
    pub(super) fn add_key(&mut self, collection: &Arc<CollectionState>, hash: u64) {
        let is_full = self.keys >= ALL_KEYS_MAX;
        let read = self.read(collection);
        if read.is_searched || read.keys.contains(&hash) {
            return;
        }
        if is_full || read.keys.len() >= KEYS_MAX {
            self.add_search(collection);
            return;
        }
        read.keys.insert(hash);
        self.keys += 1;
        self.bytes += KEY_COST;
    }

    /// Remembers a search.
    pub(super) fn add_search(&mut self, collection: &Arc<CollectionState>) {
        let read = self.read(collection);
        read.is_searched = true;
        let keys = std::mem::take(&mut read.keys).len();
        self.keys -= keys;
        self.bytes -= keys * KEY_COST;
    }

    /// Remembers that nothing has a name.
    pub(super) fn add_absent(&mut self, namespace: &Namespace) {
        if !self.absent.contains(namespace) {
            self.bytes += ABSENT_COST;
            self.absent.insert(namespace.clone());
        }
    }

    /// Remembers that a view was read.
    pub(super) fn add_view(&mut self) {
        self.has_views = true;
    }

    /// About how many bytes of memory all this uses.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The collections that were read.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &Arc<CollectionState>> {
        self.collections.values().map(|read| &read.state)
    }

    /// The hashes of the record keys that were read one by one.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.collections.values().flat_map(|read| read.keys.iter().copied())
    }

    /// Whether a search is among them: then no writer may be between its write and the update of memory that follows.
    pub(crate) fn has_searches(&self) -> bool {
        !self.absent.is_empty() || self.collections.values().any(|read| read.is_searched)
    }

    /// Whether what was read besides single keys is what it was at a sequence number. All latches are held.
    pub(crate) fn are_as_of(&self, sequence: u64, catalog: &Catalog) -> bool {
        let is_same = |read: &Read| {
            read.state.is_as_of(sequence) && (!read.is_searched || read.state.newest() <= sequence)
        };
        self.collections.values().all(is_same)
            && self.absent.iter().all(|name| catalog.occupant(name).is_none())
            && (!self.has_views || catalog.names_are_as_of(sequence))
    }

    fn read(&mut self, collection: &Arc<CollectionState>) -> &mut Read {
        if !self.collections.contains_key(&collection.id) {
            self.bytes += COLLECTION_COST;
        }
        self.collections.entry(collection.id).or_insert_with(|| Read {
            state: Arc::clone(collection),
            keys: HashSet::new(),
            is_searched: false,
        })
    }
}
