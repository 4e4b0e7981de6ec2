//! Making the insertion order of a collection whose documents are there already: when a collection is converted to a capped
//! one, and when documents were salvaged.
//!
//! Positions that are stored are kept if their documents exist. All other documents come after them, in the order of their
//! `_id`s, which is what the order of a collection that is not capped is.

use std::collections::HashSet;

use base::error::Result;
use query::operation::OperationContext;
use store::Family;
use store::handles::Storage;
use store::keys::{CollectionId, OrderId, position_of};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::catalog::capped::{CappedLimits, OrderState};
use crate::write::prepare::encoded_id;

/// The bytes of keys and values after which they are committed.
const BATCH_BYTES: usize = 1 << 20;

/// A collection that gets an order. No write to it runs.
#[derive(Clone, Copy)]
pub(crate) struct OrderBuild<'a> {
    pub(crate) storage: Storage<'a>,
    pub(crate) collection: CollectionId,
    pub(crate) order: OrderId,
    pub(crate) operation: &'a OperationContext,
    /// Looks whether to stop.
    pub(crate) look: &'a dyn Fn() -> Result<()>,
}

/// The documents that a collection keeps when it is converted.
pub(crate) struct Kept {
    /// The record key of the first of them. The first key of the collection if it keeps all.
    pub(crate) first: Vec<u8>,
    pub(crate) documents: u64,
}

impl OrderBuild<'_> {
    /// Finds the documents that have room, from the highest `_id` down.
    pub(crate) fn kept(&self, limits: CappedLimits) -> Result<Kept> {
        // Backwards, because the newest documents stay, and the highest `_id`s are those.
        let snapshot = Snapshot::take(self.storage.database);
        let bounds = (self.collection.prefix().to_vec(), Some(self.collection.end()));
        let scan = Scan::open(&snapshot, Family::Records, bounds, CacheUse::Bypass, self.operation);
        let mut scan = scan.towards(index::key::Direction::Descending);
        let (mut documents, mut bytes) = (0, 0);
        let mut first = self.collection.end();
        while scan.advance()? {
            (self.look)()?;
            bytes += scan.value().len() as u64;
            // The first that has no room ends it: a smaller one before it is older.
            if limits.are_exceeded(documents + 1, bytes) {
                return Ok(Kept { first, documents });
            }
            documents += 1;
            scan.key().clone_into(&mut first);
        }
        Ok(Kept { first: self.collection.prefix().to_vec(), documents })
    }

    /// Stores the positions of all documents from a record key on. Returns the state, which the caller stores.
    pub(crate) fn run(&self, first: Vec<u8>) -> Result<OrderState> {
        // First those that are known, so that all others come after them.
        let last = self.keep_positions()?;
        let Storage { store, database } = self.storage;
        let snapshot = Snapshot::take(database);
        let mut state = OrderState { next: last.map_or(1, |last| last + 1), ..OrderState::empty() };
        let mut batch = Batch::new(database);
        let bounds = (first, Some(self.collection.end()));
        let mut scan = Scan::open(&snapshot, Family::Records, bounds, CacheUse::Bypass, self.operation);
        while scan.advance()? {
            (self.look)()?;
            state.documents += 1;
            state.bytes += scan.value().len() as u64;
            let id = encoded_id(scan.key());
            let document_key = self.order.document_key(id);
            // Without a stored position there is nothing to look up.
            if last.is_some() && snapshot.get(Family::Entries, &document_key)?.is_some() {
                continue;
            }
            batch.put(Family::Entries, &self.order.position_key(state.next), id);
            batch.put(Family::Entries, &document_key, &state.next.to_be_bytes());
            state.next += 1;
            if batch.bytes() >= BATCH_BYTES {
                store
                    .commit(std::mem::replace(&mut batch, Batch::new(database)), CommitLevel::INDEX_BUILD)?;
            }
        }
        if !batch.is_empty() {
            store.commit(batch, CommitLevel::INDEX_BUILD)?;
        }
        Ok(state)
    }

    /// Gives documents the positions that are stored, and removes all others. Of a document with several positions the highest
    /// is kept. Returns the highest of all.
    fn keep_positions(&self) -> Result<Option<u64>> {
        let Storage { store, database } = self.storage;
        let snapshot = Snapshot::take(database);
        let (start, end) = self.order.positions_from(0);
        let scan =
            Scan::open(&snapshot, Family::Entries, (start, Some(end)), CacheUse::Bypass, self.operation);
        let mut scan = scan.towards(index::key::Direction::Descending);
        let (mut batch, mut last) = (Batch::new(database), None);
        // The documents whose positions are in the batch; those before are in the store.
        let mut placed: HashSet<Vec<u8>> = HashSet::new();
        while scan.advance()? {
            (self.look)()?;
            let (key, id) = (scan.key(), scan.value());
            let document_key = self.order.document_key(id);
            let record_key = [&self.collection.prefix()[..], id].concat();
            // Backwards again: the highest position of a document is met first.
            let is_known = placed.contains(id) || database.get(Family::Entries, &document_key)?.is_some();
            match position_of(key) {
                Some(position) if !is_known && snapshot.get(Family::Records, &record_key)?.is_some() => {
                    batch.put(Family::Entries, &document_key, &position.to_be_bytes());
                    placed.insert(id.to_vec());
                    last = last.max(Some(position));
                }
                Some(_) | None => batch.delete(Family::Entries, key),
            }
            if batch.bytes() >= BATCH_BYTES {
                store
                    .commit(std::mem::replace(&mut batch, Batch::new(database)), CommitLevel::INDEX_BUILD)?;
                placed.clear();
            }
        }
        if !batch.is_empty() {
            store.commit(batch, CommitLevel::INDEX_BUILD)?;
        }
        Ok(last)
    }
}
