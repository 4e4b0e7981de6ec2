//! What a transaction is about to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use index::multikey::ArrayComponents;
use store::Family;
use store::keys::CollectionId;
use store::latch::Hashes;
use store::overlay::Overlay;

use crate::catalog::collection::{CollectionState, Definition};
use crate::transaction::numbers::Numbers;
use crate::transaction::reads::Reads;

/// About how many bytes a collection or an index has in memory beside its declaration.
const MADE_BYTES: usize = 8 << 10;

/// The changes and claims of a transaction.
#[derive(Default)]
pub(crate) struct Stage {
    overlay: Arc<Overlay>,
    /// Hashes of the keys that it has claimed.
    claims: Hashes,
    /// In boxes: a node of the map has room for eleven, and most transactions write to one.
    collections: BTreeMap<CollectionId, Box<Touched>>,
    /// The memory of collections and indexes that it makes.
    made_bytes: usize,
    numbers: Numbers,
    /// Events for the log of changes, in the order of the statements.
    events: Vec<Vec<u8>>,
    events_bytes: usize,
    /// What was read, if the transaction is to be serializable.
    reads: Option<Reads>,
}

/// A collection that the transaction has written to.
pub(crate) struct Touched {
    pub(crate) state: Arc<CollectionState>,
    /// What it is declared to be. It stays so until the commit, or that fails.
    pub(crate) definition: Definition,
    /// How many more documents it will have.
    pub(crate) documents: i64,
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    /// Arrays and shortened keys that the catalog does not know of, by the position of their index. `None` stands for the `_id`s.
    pub(crate) arrays: BTreeMap<Option<usize>, Vec<Vec<ArrayComponents>>>,
}

impl Stage {
    /// The stage of a transaction that remembers what it reads.
    pub(super) fn remembering() -> Self {
        Self { reads: Some(Reads::default()), ..Self::default() }
    }

    /// What was read. `None` if that is not remembered.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        self.reads.as_ref()
    }

    pub(super) fn reads_mut(&mut self) -> Option<&mut Reads> {
        self.reads.as_mut()
    }

    /// The changed keys.
    pub(crate) fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// Stages the value of a key.
    pub(crate) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        // A copy if a cursor still reads what was staged before.
        Arc::make_mut(&mut self.overlay).put(family, key, value);
    }

    /// Stages the removal of a key.
    pub(crate) fn delete(&mut self, family: Family, key: &[u8]) {
        Arc::make_mut(&mut self.overlay).delete(family, key);
    }

    /// Stages an event for the log of changes, if there is one.
    pub(crate) fn add_event(&mut self, event: Option<Vec<u8>>) {
        if let Some(event) = event {
            self.events_bytes += event.len() + size_of::<Vec<u8>>();
            self.events.push(event);
        }
    }

    /// The events.
    pub(crate) fn events(&self) -> &[Vec<u8>] {
        &self.events
    }

    /// About how many bytes of memory the changes use.
    pub(crate) fn bytes(&self) -> usize {
        self.overlay.bytes()
            + self.made_bytes
            + self.events_bytes
            + self.reads.as_ref().map_or(0, Reads::bytes)
    }

    /// Counts the memory of a collection or an index that the transaction makes, as declared by `declared` bytes.
    pub(crate) fn add_made(&mut self, declared: usize) {
        // Locks, filters and counters, and what is parsed of the declaration.
        self.made_bytes += MADE_BYTES + 4 * declared;
    }

    pub(super) fn has_claimed(&self, hash: u64) -> bool {
        self.claims.contains(&hash)
    }

    pub(super) fn add_claim(&mut self, hash: u64) {
        self.claims.insert(hash);
    }

    /// The hashes of the claimed keys.
    pub(crate) fn claims(&self) -> impl Iterator<Item = u64> + '_ {
        self.claims.iter().copied()
    }

    /// The claims, for who gives them back.
    pub(crate) fn take_claims(&mut self) -> Hashes {
        std::mem::take(&mut self.claims)
    }

    /// What is noted of a collection that is written to.
    pub(crate) fn touch(&mut self, state: &Arc<CollectionState>, definition: &Definition) -> &mut Touched {
        self.collections.entry(state.id).or_insert_with(|| {
            Box::new(Touched {
                state: Arc::clone(state),
                definition: definition.clone(),
                documents: 0,
                inserted: 0,
                updated: 0,
                deleted: 0,
                arrays: BTreeMap::new(),
            })
        })
    }

    /// Whether a collection is written to.
    pub(crate) fn has_touched(&self, collection: CollectionId) -> bool {
        self.collections.contains_key(&collection)
    }

    /// The collections that are written to, ascending by their ids.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &Touched> {
        self.collections.values().map(|touched| &**touched)
    }

    /// What it holds of sequences.
    pub(crate) fn numbers(&mut self) -> &mut Numbers {
        &mut self.numbers
    }
}
