//! What a reader reads: a collection's id, its indexes and a read state of the store, all of one moment.
//!
//! Catalog and store change one after the other, so a reader who took them one after the other could look in a new
//! snapshot for a collection that is gone from it. The order that excludes this: look the name up, take the read state,
//! and look then whether an end of the collection, or the removal of an index, was announced. It is announced before
//! its commit, so that a reader who can see the commit sees the announcement too. Only where an end was announced is the
//! snapshot itself asked whether the collection is in it. No reader waits for a commit, and a lookup of one record costs
//! one atomic load more than a lookup by itself.
//!
//! A snapshot is taken nowhere else on behalf of a reader.

use std::borrow::Cow;
use std::sync::Arc;
use std::thread;

use crate::catalog::collection::CollectionState;
use crate::catalog::entry;
use crate::catalog::indexes::Index;
use crate::error::Result;
use crate::plan::selector::{PointKey, Selector};
use crate::storage::keys::CollectionId;
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

/// A collection at one moment.
pub(crate) struct ReadView {
    collection: CollectionId,
    indexes: Arc<[Index]>,
    state: ReadState,
}

/// What was taken of the store.
pub(crate) enum ReadState {
    /// All of it.
    Snapshot(Arc<Snapshot>),
    /// The only record that a filter can match, and its bytes if it is there.
    Record { key: PointKey, bytes: Option<Vec<u8>> },
}

/// A record that was looked up.
pub(crate) struct Record<K> {
    pub(crate) key: K,
    /// Absent if there is no such record.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A collection as it was found, borrowed where a handle keeps it.
pub(crate) type Found<'a> = Cow<'a, Arc<CollectionState>>;

impl ReadView {
    /// The collection that `find` finds, with a snapshot; `None` if there is none.
    pub(crate) fn take<'a>(
        database: &Arc<Database>,
        find: impl Fn() -> Result<Option<Found<'a>>>,
    ) -> Result<Option<(Found<'a>, Self)>> {
        loop {
            let Some(found) = find()? else { return Ok(None) };
            if let Some(view) = Self::of_found(database, &found)? {
                return Ok(Some((found, view)));
            }
            // The commit of a drop or a rename is visible, and the map of names follows at once.
            thread::yield_now();
        }
    }

    /// The collection that `find` finds, with what a search by `selector` reads: one record, if the filter fixes the
    /// `_id`, or a snapshot.
    pub(crate) fn for_search<'a>(
        database: &Arc<Database>,
        find: impl Fn() -> Result<Option<Found<'a>>>,
        selector: &Selector,
    ) -> Result<Option<(Found<'a>, Self)>> {
        let Some(point) = selector.point() else { return Self::take(database, find) };
        let key = |collection| point.record_key(collection);
        let Some((found, Record { key, bytes })) = look_up(database, find, key)? else { return Ok(None) };
        let view =
            Self { collection: found.id, indexes: found.indexes(), state: ReadState::Record { key, bytes } };
        Ok(Some((found, view)))
    }

    /// What a search by `selector` reads, for a caller who holds the collection's gate: nothing can be taken from the
    /// collection meanwhile.
    pub(crate) fn under_gate(
        database: &Arc<Database>,
        collection: &CollectionState,
        selector: &Selector,
    ) -> Result<Self> {
        let state = match selector.record_key(collection.id) {
            Some(key) => {
                let bytes = database.get(Family::Records, &key)?.map(|bytes| bytes.to_vec());
                ReadState::Record { key, bytes }
            }
            None => ReadState::Snapshot(Snapshot::take(database)),
        };
        Ok(Self { collection: collection.id, indexes: collection.indexes(), state })
    }

    pub(crate) fn collection(&self) -> CollectionId {
        self.collection
    }

    /// The indexes that can be read: each has its entries in the snapshot.
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The same list, to be kept.
    pub(crate) fn shared_indexes(&self) -> Arc<[Index]> {
        Arc::clone(&self.indexes)
    }

    /// The same view once more, if it has a snapshot.
    pub(crate) fn again(&self) -> Option<Self> {
        let state = ReadState::Snapshot(Arc::clone(self.snapshot()?));
        Some(Self { collection: self.collection, indexes: self.shared_indexes(), state })
    }

    /// The snapshot, unless only one record was looked up.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match &self.state {
            ReadState::Snapshot(snapshot) => Some(snapshot),
            ReadState::Record { .. } => None,
        }
    }

    /// What was taken of the store, to be walked.
    pub(crate) fn into_state(self) -> ReadState {
        self.state
    }

    /// The collection with a snapshot, unless the snapshot lacks what was found before it: look it up again then.
    pub(crate) fn of_found(database: &Arc<Database>, found: &CollectionState) -> Result<Option<Self>> {
        // In this order: see the header, and `CollectionState::withdraw_indexes`.
        let before = found.changes();
        let indexes = found.indexes();
        let snapshot = Snapshot::take(database);
        let after = found.changes();
        if after.has_withdrawn_since(before) || (after.is_ending() && !is_stored(&snapshot, found)?) {
            return Ok(None);
        }
        Ok(Some(Self { collection: found.id, indexes, state: ReadState::Snapshot(snapshot) }))
    }
}

/// Looks up one record of the collection that `find` finds; `None` if there is no collection.
#[inline]
pub(crate) fn look_up<'a, K: AsRef<[u8]>>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<Found<'a>>>,
    key_in: impl Fn(CollectionId) -> K,
) -> Result<Option<(Found<'a>, Record<K>)>> {
    let Some(found) = find()? else { return Ok(None) };
    let key = key_in(found.id);
    let bytes = database.get(Family::Records, key.as_ref())?.map(|bytes| bytes.to_vec());
    if found.changes().is_ending() {
        return look_up_beside_change(database, find, key_in);
    }
    Ok(Some((found, Record { key, bytes })))
}

/// Looks up the record in a snapshot, which tells whether it has the collection.
#[cold]
fn look_up_beside_change<'a, K: AsRef<[u8]>>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<Found<'a>>>,
    key_in: impl Fn(CollectionId) -> K,
) -> Result<Option<(Found<'a>, Record<K>)>> {
    let Some((found, view)) = ReadView::take(database, find)? else { return Ok(None) };
    let key = key_in(found.id);
    let bytes = match view.state {
        ReadState::Snapshot(snapshot) => snapshot.get(Family::Records, key.as_ref())?,
        ReadState::Record { bytes, .. } => bytes,
    };
    Ok(Some((found, Record { key, bytes })))
}

/// Whether the collection is in the snapshot under the name that it was found by.
fn is_stored(snapshot: &Snapshot, found: &CollectionState) -> Result<bool> {
    let Some(value) = snapshot.get(Family::Meta, &found.id.catalog_key())? else { return Ok(false) };
    Ok(entry::decode(found.id, &value)?.namespace == found.namespace)
}
