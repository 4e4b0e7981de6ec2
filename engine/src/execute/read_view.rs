//! The view of a reader: a collection's id, its indexes and a read state of the store, all of one moment.
//!
//! Catalog and store do not change at the same instant. So a reader could find a collection in the catalog, and then make
//! a snapshot from which it has been removed. This order excludes it: look up the name, get the read state, and then
//! check whether a drop or a rename of the collection, or the removal of an index, was announced. Every such change is
//! announced before its commit, so a reader who can see the commit sees the announcement too. Only if one was announced
//! is the snapshot itself searched for the collection. No reader waits for a commit, and a lookup of one record costs one
//! atomic load more than a lookup alone.
//!
//! No other file takes a snapshot for a reader.

use std::borrow::Cow;
use std::sync::Arc;

use base::error::{Error, Result};
use base::metrics::notes;
use base::sync;
use index::collation::Collation;
use query::code::Code;
use store::keys::{CollectionId, OrderId};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::collection::{Changes, CollectionState};
use crate::catalog::entry;
use crate::catalog::indexes::Index;
use crate::catalog::record_keys::RecordKeys;
use crate::options::PlantedFault;
use crate::plan::selector::{PointKey, Selector};

/// The number of times that a reader with an injected fault lets other threads go first.
const PLANTED_YIELDS: u32 = 50;

/// A collection at one moment.
pub(crate) struct ReadView {
    collection: CollectionId,
    record_keys: RecordKeys,
    /// Those that searches may use. Hidden ones are not among them.
    indexes: Arc<[Index]>,
    /// The insertion order, if the collection is capped.
    order: Option<OrderId>,
    state: ReadState,
}

/// The read state of the store.
pub(crate) enum ReadState {
    /// The whole store.
    Snapshot(Arc<Snapshot>),
    /// The only record that the filter can match. The bytes are absent if no such record exists.
    Record { key: PointKey, bytes: Option<Vec<u8>> },
}

/// A record that was looked up.
pub(crate) struct FoundRecord<K> {
    pub(crate) key: K,
    /// Absent if no such record exists.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A collection that was looked up by its name. Borrowed if a handle keeps it.
pub(crate) type FoundCollection<'a> = Cow<'a, Arc<CollectionState>>;

impl ReadView {
    /// Looks up a collection by `find` and takes a snapshot. Returns `None` if the collection does not exist.
    pub(crate) fn take<'a>(
        database: &Arc<Database>,
        find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    ) -> Result<Option<(FoundCollection<'a>, Self)>> {
        loop {
            let Some(found) = find()? else { return Ok(None) };
            if let Some(view) = Self::of_found(database, &found)? {
                return Ok(Some((found, view)));
            }
            // The snapshot has the commit of a drop or a rename. The map of names follows at once, so this loop is short.
            sync::yield_now();
        }
    }

    /// Looks up a collection by `find` and gets the read state for a search: one record if the filter fixes the `_id`,
    /// otherwise a snapshot. Returns `None` if the collection does not exist.
    pub(crate) fn for_search<'a>(
        database: &Arc<Database>,
        find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
        selector: &Selector,
    ) -> Result<Option<(FoundCollection<'a>, Self)>> {
        // One read is consistent by itself, so a lookup needs no snapshot.
        let Some(point) = selector.point() else {
            let taken = Self::take(database, find)?;
            if let Some((found, _)) = &taken {
                check_default(selector.variables().collation(), found)?;
            }
            return Ok(taken);
        };
        let key = |found: &CollectionState| point.record_key(found.id, found.record_keys.long_keys);
        let Some((found, FoundRecord { key, bytes })) = look_up(database, find, key)? else {
            return Ok(None);
        };
        check_default(selector.variables().collation(), &found)?;
        let view = Self {
            collection: found.id,
            record_keys: found.record_keys.clone(),
            indexes: found.visible_indexes(),
            order: order_of(&found),
            state: ReadState::Record { key, bytes },
        };
        Ok(Some((found, view)))
    }

    /// Gets the read state for a search by a caller who holds the collection's gate. The gate keeps the collection and its
    /// indexes from being dropped, so no announcement has to be checked.
    pub(crate) fn under_gate(
        database: &Arc<Database>,
        collection: &CollectionState,
        selector: &Selector,
    ) -> Result<Self> {
        check_default(selector.variables().collation(), collection)?;
        let record_keys = collection.record_keys.clone();
        let state = match selector.record_key(collection.id, record_keys.long_keys) {
            Some(key) => {
                notes::looked_up();
                let bytes = database.record(&key)?;
                ReadState::Record { key, bytes }
            }
            None => ReadState::Snapshot(Snapshot::take(database)),
        };
        let (indexes, order) = (collection.visible_indexes(), order_of(collection));
        Ok(Self { collection: collection.id, record_keys, indexes, order, state })
    }

    /// The read state for a search within a transaction. The caller checks afterwards that the collection is still what it was when the
    /// snapshot was taken.
    pub(crate) fn at(
        snapshot: Arc<Snapshot>,
        collection: &CollectionState,
        selector: &Selector,
    ) -> Result<Self> {
        check_default(selector.variables().collation(), collection)?;
        let view = Self::of_snapshot(snapshot, collection);
        let long_keys = collection.record_keys.long_keys;
        let Some(key) = selector.record_key(collection.id, long_keys) else { return Ok(view) };
        notes::looked_up();
        // Not by the cache of records, which has the newest state.
        let bytes = match &view.state {
            ReadState::Snapshot(snapshot) => snapshot.get(Family::Records, &key)?,
            ReadState::Record { .. } => None,
        };
        Ok(Self { state: ReadState::Record { key, bytes }, ..view })
    }

    /// A collection in a snapshot that was taken before. The caller checks as for [`at`](Self::at).
    pub(crate) fn of_snapshot(snapshot: Arc<Snapshot>, collection: &CollectionState) -> Self {
        let (indexes, order) = (collection.visible_indexes(), order_of(collection));
        let (record_keys, state) = (collection.record_keys.clone(), ReadState::Snapshot(snapshot));
        Self { collection: collection.id, record_keys, indexes, order, state }
    }

    /// Makes a snapshot for a search by one index, whether it is hidden or not. The caller holds the collection's gate.
    pub(crate) fn of_index(database: &Arc<Database>, collection: &CollectionState, index: &Index) -> Self {
        let state = ReadState::Snapshot(Snapshot::take(database));
        let (order, record_keys) = (order_of(collection), collection.record_keys.clone());
        Self { collection: collection.id, record_keys, indexes: Arc::new([index.clone()]), order, state }
    }

    pub(crate) fn collection(&self) -> CollectionId {
        self.collection
    }

    /// The form of the records' keys.
    pub(crate) fn record_keys(&self) -> &RecordKeys {
        &self.record_keys
    }

    /// The indexes that can be read: the snapshot has all their entries.
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The indexes that can be read, for a caller who keeps them.
    pub(crate) fn shared_indexes(&self) -> Arc<[Index]> {
        Arc::clone(&self.indexes)
    }

    /// A second view of the same snapshot. Returns `None` if the view has no snapshot.
    pub(crate) fn again(&self) -> Option<Self> {
        let state = ReadState::Snapshot(Arc::clone(self.snapshot()?));
        let (collection, record_keys, order) = (self.collection, self.record_keys.clone(), self.order);
        Some(Self { collection, record_keys, indexes: self.shared_indexes(), order, state })
    }

    /// The insertion order that the snapshot has. Returns `None` if the collection is not capped.
    pub(crate) fn order(&self) -> Option<OrderId> {
        self.order
    }

    /// The same view for a reader to whom the order of documents means nothing.
    pub(crate) fn without_order(self) -> Self {
        Self { order: None, ..self }
    }

    /// The snapshot. Returns `None` if only one record was looked up.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match &self.state {
            ReadState::Snapshot(snapshot) => Some(snapshot),
            ReadState::Record { .. } => None,
        }
    }

    /// The key of the only record that was looked up. Returns `None` if the view has a snapshot.
    pub(crate) fn record_key(&self) -> Option<&[u8]> {
        match &self.state {
            ReadState::Snapshot(_) => None,
            ReadState::Record { key, .. } => Some(key),
        }
    }

    /// The read state, for a walk.
    pub(crate) fn into_state(self) -> ReadState {
        self.state
    }

    /// Looks up `count` collections by `find`, which gets their positions, and makes one snapshot of all of them. Each is
    /// absent if it does not exist.
    pub(crate) fn take_together<'a>(
        database: &Arc<Database>,
        count: usize,
        find: impl Fn(usize) -> Result<Option<FoundCollection<'a>>>,
    ) -> Result<Vec<Option<(FoundCollection<'a>, Self)>>> {
        loop {
            let found = (0..count).map(&find).collect::<Result<Vec<_>>>()?;
            // In this order: see the header.
            let before = found.iter().flatten();
            let before = before.map(|found| (found.changes(), (found.visible_indexes(), order_of(found))));
            let before: Vec<_> = before.collect();
            let snapshot = Snapshot::take(database);
            let mut is_current = true;
            for (found, (changes, _)) in found.iter().flatten().zip(&before) {
                is_current &= shows(&snapshot, found, *changes)?;
            }
            // One that was made in between may be in the snapshot, beside what was written of it to the others.
            let mut absent = (0..count).zip(&found).filter(|(_, found)| found.is_none());
            is_current &= absent.try_fold(true, |absent, (position, _)| {
                Ok::<_, Error>(absent && find(position)?.is_none())
            })?;
            if is_current {
                let mut before = before.into_iter();
                let viewed = found.into_iter().map(|found| {
                    let found = found?;
                    let (_, (indexes, order)) = before.next()?;
                    let state = ReadState::Snapshot(Arc::clone(&snapshot));
                    let record_keys = found.record_keys.clone();
                    let view = Self { collection: found.id, record_keys, indexes, order, state };
                    Some((found, view))
                });
                return Ok(viewed.collect());
            }
            sync::yield_now();
        }
    }

    /// Makes a snapshot of a collection that was looked up. Returns `None` if the snapshot does not have the collection or
    /// one of its indexes any more: the caller must look it up again.
    pub(crate) fn of_found(database: &Arc<Database>, found: &CollectionState) -> Result<Option<Self>> {
        if database.fault() == PlantedFault::SnapshotsTakenEarly {
            let state = ReadState::Snapshot(Snapshot::take(database));
            // So that others do something in between.
            (0..PLANTED_YIELDS).for_each(|_| sync::yield_now());
            let (indexes, order) = (found.visible_indexes(), order_of(found));
            let record_keys = found.record_keys.clone();
            return Ok(Some(Self { collection: found.id, record_keys, indexes, order, state }));
        }
        // In this order: see the header, and `CollectionState::withdraw_indexes`.
        let before = found.changes();
        let (indexes, order) = (found.visible_indexes(), order_of(found));
        let snapshot = Snapshot::take(database);
        if !shows(&snapshot, found, before)? {
            return Ok(None);
        }
        let (record_keys, state) = (found.record_keys.clone(), ReadState::Snapshot(snapshot));
        Ok(Some(Self { collection: found.id, record_keys, indexes, order, state }))
    }
}

/// Does not read a collection by the default collation of another one, which had the name when the operation began.
pub(crate) fn check_default(collation: &Collation, found: &CollectionState) -> Result<()> {
    if !collation.is_default() || *collation == found.collation {
        return Ok(());
    }
    let message = format!(
        "the collection {} was created again with another collation while the operation began",
        found.namespace
    );
    Err(Error::command(Code::QUERY_PLAN_KILLED, message))
}

/// The insertion order of a capped collection. It is asked for before a snapshot is made, which then has it: a collection
/// becomes a capped one in memory after its commit.
fn order_of(found: &CollectionState) -> Option<OrderId> {
    found.order().map(|order| order.id)
}

/// Looks up a collection by `find`, and one record of it. Returns `None` if the collection does not exist.
#[inline]
pub(crate) fn look_up<'a, K: AsRef<[u8]>>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    key_in: impl Fn(&CollectionState) -> K,
) -> Result<Option<(FoundCollection<'a>, FoundRecord<K>)>> {
    let Some(found) = find()? else { return Ok(None) };
    let key = key_in(&found);
    notes::looked_up();
    let bytes = database.record(key.as_ref())?;
    // After the read, as the header says. A rename is an end too: the record may have moved with it.
    if found.changes().is_ending() {
        return look_up_beside_change(database, find, key_in);
    }
    Ok(Some((found, FoundRecord { key, bytes })))
}

/// Looks up the record in a snapshot, which can be searched for the collection as well.
#[cold]
fn look_up_beside_change<'a, K: AsRef<[u8]>>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    key_in: impl Fn(&CollectionState) -> K,
) -> Result<Option<(FoundCollection<'a>, FoundRecord<K>)>> {
    let Some((found, view)) = ReadView::take(database, find)? else { return Ok(None) };
    let key = key_in(&found);
    let bytes = match view.state {
        ReadState::Snapshot(snapshot) => snapshot.get(Family::Records, key.as_ref())?,
        // `take` always makes a snapshot.
        ReadState::Record { bytes, .. } => bytes,
    };
    Ok(Some((found, FoundRecord { key, bytes })))
}

/// Whether a snapshot that was taken after `before` shows the collection and its indexes.
fn shows(snapshot: &Snapshot, found: &CollectionState, before: Changes) -> Result<bool> {
    let after = found.changes();
    // A collection that is being dropped can still be read if the snapshot is older than the drop.
    Ok(!after.has_withdrawn_since(before) && (!after.is_ending() || is_stored(snapshot, found)?))
}

/// Whether the collection is in the snapshot under the name that it was found by.
fn is_stored(snapshot: &Snapshot, found: &CollectionState) -> Result<bool> {
    // The id is never used again, so the entry under it can only have another name, or be gone.
    let Some(value) = snapshot.get(Family::Meta, &found.id.catalog_key())? else { return Ok(false) };
    Ok(*entry::decode(found.id, &value)?.namespace() == found.namespace)
}
