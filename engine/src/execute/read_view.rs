//! The view of a reader: a collection's id, its indexes and a read state of the store, all of one moment.
//!
//! Catalog and store do not change at the same instant. So a reader could find a collection in the catalog, and then take
//! a snapshot from which it has been removed. This order excludes it: look up the name, take the read state, and then
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
use bson::{RawBsonRef, RawDocument};
use index::collation::Collation;
use index::key::Direction;
use index::order::compare;
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
    /// The only record that the filter can match. The bytes are absent if there is no such record.
    Record { key: PointKey, bytes: Option<Vec<u8>> },
}

/// A record that was looked up.
pub(crate) struct FoundRecord<K> {
    pub(crate) key: K,
    /// Absent if there is no such record.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A collection that was looked up by its name. Borrowed if a handle keeps it.
pub(crate) type FoundCollection<'a> = Cow<'a, Arc<CollectionState>>;

impl ReadView {
    /// Looks up a collection by `find` and takes a snapshot. Returns `None` if there is no collection.
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

    /// Looks up a collection by `find` and takes the read state for a search: one record if the filter fixes the `_id`,
    /// otherwise a snapshot. Returns `None` if there is no collection.
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

    /// Takes the read state for a search by a caller who holds the collection's gate. The gate keeps the collection and its
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

    /// Takes a snapshot for a search by one index, whether it is hidden or not. The caller holds the collection's gate.
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

    /// Looks up `count` collections by `find`, which gets their positions, and takes one snapshot of all of them. Each is
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

    /// Takes a snapshot of a collection that was looked up. Returns `None` if the snapshot does not have the collection or
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

/// The insertion order of a capped collection. It is asked for before a snapshot is taken, which then has it: a collection
/// becomes a capped one in memory after its commit.
fn order_of(found: &CollectionState) -> Option<OrderId> {
    found.order().map(|order| order.id)
}

/// Looks up a collection by `find`, and one record of it. Returns `None` if there is no collection.
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

/// The result of a lookup by a unique index.
pub(crate) enum FoundByIndex {
    /// The record that matches.
    Record(FoundRecord<Vec<u8>>),
    /// No record matches.
    Nothing,
    /// It has to be searched for: there is no collection or no index can be asked, or something changed meanwhile.
    Unknown,
}

/// Looks up a record whose field has a value, by a unique index on this field alone, or by the list in memory of what any other
/// index on it has. Without a snapshot: the record is tested after its entry was read, and one that does not match says that it was
/// changed in between.
pub(crate) fn look_up_by_index<'a>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    field: &str,
    value: RawBsonRef<'_>,
) -> Result<FoundByIndex> {
    let Some(found) = find()? else { return Ok(FoundByIndex::Unknown) };
    // The keys of such indexes, and the test below, are about bytes.
    if !found.collation.is_simple() {
        return Ok(FoundByIndex::Unknown);
    }
    // Before the indexes, as in `of_found`.
    let before = found.changes();
    let indexes = found.indexes();
    let on_field = indexes.iter().filter_map(|index| Some((index, index.whole_on(field)?)));
    let Some((index, direction)) = on_field.max_by_key(|(index, _)| index.spec.is_unique()) else {
        return Ok(FoundByIndex::Unknown);
    };
    let mut key = index.id.prefix().to_vec();
    index.spec.long_keys().encode(value, direction, &mut key);
    let Some(entry) = first_entry(database, index, &key)? else { return Ok(FoundByIndex::Unknown) };
    index.uses.note();
    let mut record = None;
    if let Some(id) = entry.id {
        let record_key = [&found.id.prefix()[..], &id].concat();
        let bytes = database.record(&record_key)?;
        record = Some(FoundRecord { key: record_key, bytes });
    }
    let after = found.changes();
    if after.is_ending() || after.has_withdrawn_since(before) {
        return Ok(FoundByIndex::Unknown);
    }
    let document = record.as_ref().and_then(|record| RawDocument::from_bytes(record.bytes.as_deref()?).ok());
    let stored = document.and_then(|document| document.get(field).ok().flatten());
    // An array of which an element has the value matches too, but that is for the filter to say.
    let is_match = stored.is_some_and(|stored| compare(stored, value).is_eq());
    if record.is_some() && !is_match {
        return Ok(FoundByIndex::Unknown);
    }
    if index.spec.is_unique() {
        // One look-up for the two reads: it finds one document.
        notes::looked_up();
    } else {
        // Counted like the search that it replaces.
        notes::searched(false);
        notes::scans(notes::Plan::Index(&index.name));
        let examined = u64::from(record.is_some());
        notes::examined(examined, examined);
    }
    Ok(record.map_or(FoundByIndex::Nothing, FoundByIndex::Record))
}

/// The first entry of an index with some values.
struct FirstEntry {
    /// The encoded `_id` of its document. Absent if there is no entry.
    id: Option<Vec<u8>>,
}

/// The first entry with the values that `key` has. Returns `None` if only a scan finds it.
fn first_entry(database: &Arc<Database>, index: &Index, key: &[u8]) -> Result<Option<FirstEntry>> {
    let switch = index.lists.switch_of(key);
    let list = switch.and_then(|switch| database.entries_listed(key, switch));
    let id_of_unique = |value: &[u8]| {
        let length = index.spec.long_keys().skip(value, Direction::Ascending).ok();
        let id = length.and_then(|length| value.get(..length)).ok_or_else(|| {
            Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index")
        })?;
        Ok::<_, Error>(id.to_vec())
    };
    let id = match (list, index.spec.is_unique()) {
        (Some(list), true) => list.at(0).map(|(_, value, _)| id_of_unique(value)).transpose()?,
        (Some(list), false) => list.at(0).map(|(id, _, _)| id.to_vec()),
        (None, true) => {
            database.get(Family::Entries, key)?.map(|value| id_of_unique(&value)).transpose()?
        }
        (None, false) => return Ok(None),
    };
    Ok(Some(FirstEntry { id }))
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
        // `take` always takes a snapshot.
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
