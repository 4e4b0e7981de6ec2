//! A consistent read state that owns its database handle, so that cursors carry no lifetime. It may have a transaction's staged changes
//! over it.
//!
//! RocksDB's snapshot and iterator types borrow the database. Here the borrow is extended to `'static`, and an `Arc` in
//! the same struct keeps the database alive. This is the only unsafe code of the engine. The invariants that must
//! survive edits: in both structs the borrowing field is declared before the `Arc` and never leaves the struct; the
//! iterator moves in one place only, which reads its value again. In a forked child neither is released: see `fork`.

use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

use base::error::Result;
use rocksdb::{DB, DBPinnableSlice, DBRawIterator, ReadOptions, SnapshotWithThreadMode};

use crate::families::{Database, Family};
use crate::fork;
use crate::options::PlantedFault;
use crate::overlay::{Overlay, StagedValue};
use crate::record_cache::{LookedUp, ReadRecord};

/// A read state. Later writes do not change it.
pub struct Snapshot {
    state: StoredState,
    /// The staged changes of a transaction.
    overlay: Option<Arc<Overlay>>,
}

/// The stored part of a read state.
enum StoredState {
    Own(Stored),
    /// That of another read state, which has no staged changes.
    Shared(Arc<Snapshot>),
}

/// A snapshot of RocksDB.
struct Stored {
    // Dropped before `database`: fields drop in the order of declaration.
    raw: ManuallyDrop<SnapshotWithThreadMode<'static, DB>>,
    /// The options of look-ups, which name the snapshot. Made when they are first needed: most snapshots are only walked through.
    reads: OnceLock<ReadOptions>,
    database: Arc<Database>,
}

/// A move of an iterator between its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'k> {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// From the current key to the one after it.
    Next,
    /// From the current key to the one before it.
    Prev,
    /// To the first key that is not before this one.
    Seek(&'k [u8]),
    /// To the last key that is not after this one.
    SeekForPrev(&'k [u8]),
}

/// A storage iterator on a snapshot.
pub(super) struct OwnedIterator {
    // Dropped before `snapshot`.
    raw: ManuallyDrop<DBRawIterator<'static>>,
    /// The current value. It is read once a step, because each read crosses into C++ and through several iterators
    /// there.
    value: Option<&'static [u8]>,
    snapshot: Arc<Snapshot>,
}

impl Snapshot {
    /// Makes a snapshot of the present state.
    #[inline]
    #[expect(unsafe_code, reason = "extends the borrow of a database that the struct keeps alive")]
    pub fn take(database: &Arc<Database>) -> Arc<Self> {
        let database = Arc::clone(database);
        let borrowed: SnapshotWithThreadMode<'_, DB> = database.raw().snapshot();
        // SAFETY: only the lifetime changes. The snapshot refers to the `DB` inside the `Arc`'s allocation,
        // which does not move and lives until `database` is dropped; `raw` is dropped before that, because it
        // is declared first, and it is never moved out of the struct.
        let raw = unsafe {
            std::mem::transmute::<SnapshotWithThreadMode<'_, DB>, SnapshotWithThreadMode<'static, DB>>(
                borrowed,
            )
        };
        let stored = Stored { raw: ManuallyDrop::new(raw), reads: OnceLock::new(), database };
        Arc::new(Self { state: StoredState::Own(stored), overlay: None })
    }

    /// The same state with staged changes over it, in place of those that it may have.
    pub fn under(self: &Arc<Self>, overlay: Arc<Overlay>) -> Arc<Self> {
        let stored = match &self.state {
            StoredState::Own(_) => self,
            StoredState::Shared(other) => other,
        };
        Arc::new(Self { state: StoredState::Shared(Arc::clone(stored)), overlay: Some(overlay) })
    }

    #[inline]
    fn stored(&self) -> &Stored {
        match &self.state {
            StoredState::Own(stored) => stored,
            // One at most: see `under`.
            StoredState::Shared(other) => other.stored(),
        }
    }

    /// The fault that is planted in the database.
    #[inline]
    pub fn fault(&self) -> PlantedFault {
        self.database().fault()
    }

    /// The database.
    #[inline]
    pub(super) fn database(&self) -> &Arc<Database> {
        &self.stored().database
    }

    /// The staged changes over the stored state. `None` if there are none of this family.
    pub(super) fn staged(&self, family: Family) -> Option<&Arc<Overlay>> {
        self.overlay.as_ref().filter(|overlay| overlay.has(family))
    }

    /// The staged value of a key.
    #[inline]
    fn staged_value(&self, family: Family, key: &[u8]) -> Option<&StagedValue> {
        self.overlay.as_ref()?.get(family, key)
    }

    /// The sequence number of the newest write that the state has.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.stored().raw.sequence_number()
    }

    /// The value of a key. Returns `None` if the key does not exist.
    #[inline]
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(family, key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of a key. Returns `false` if the key does not exist.
    #[inline]
    pub fn get_into(&self, family: Family, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if let Some(staged) = self.staged_value(family, key) {
            value.extend_from_slice(staged.as_deref().unwrap_or_default());
            return Ok(staged.is_some());
        }
        let stored = self.stored();
        if family == Family::Records && self.fault() != PlantedFault::DocumentsReadLate {
            return stored.record_into(key, value);
        }
        let found = if self.fault() == PlantedFault::DocumentsReadLate {
            stored.database.get(family, key)?
        } else {
            stored.look_up(family, key)?
        };
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    /// Replaces the content of `record` by a record, which `read` reads from the snapshot if it is not in memory. What `read` leaves open by
    /// `None` is looked up. Returns `false` if no such record exists.
    #[inline]
    pub fn record_by(
        &self,
        key: &[u8],
        record: &mut Vec<u8>,
        read: impl FnOnce(&mut Vec<u8>) -> Result<Option<bool>>,
    ) -> Result<bool> {
        if self.overlay.is_some() || self.fault() == PlantedFault::DocumentsReadLate {
            return read(record)?.map_or_else(|| self.get_into(Family::Records, key, record), Ok);
        }
        record.clear();
        self.stored().record_by(key, record, read)
    }
}

impl Stored {
    /// The value of a key, which is not copied from the block cache.
    #[inline]
    fn look_up(&self, family: Family, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>> {
        let reads = self.reads.get_or_init(|| {
            let mut reads = ReadOptions::default();
            reads.set_snapshot(&self.raw);
            reads
        });
        self.database.get_by(family, key, reads)
    }

    /// Puts a record into `record`, which is empty. Returns `false` if there is none of that key.
    #[inline]
    fn record_into(&self, key: &[u8], record: &mut Vec<u8>) -> Result<bool> {
        self.record_by(key, record, |_| Ok(None))
    }

    /// As [`record_into`](Self::record_into); what is not in memory is read by `read`, or looked up if that gives `None`.
    #[inline]
    fn record_by(
        &self,
        key: &[u8],
        record: &mut Vec<u8>,
        read: impl FnOnce(&mut Vec<u8>) -> Result<Option<bool>>,
    ) -> Result<bool> {
        let (records, sequence) = (self.database.record_cache(), self.raw.sequence_number());
        let place = match records.look_up_at(key, sequence, record) {
            LookedUp::Record => return Ok(true),
            LookedUp::Nothing(place) => place,
        };
        let is_there = if let Some(is_there) = read(record)? {
            is_there
        } else {
            let found = self.look_up(Family::Records, key)?;
            record.extend_from_slice(found.as_deref().unwrap_or_default());
            found.is_some()
        };
        if let Some(place) = place.filter(|_| is_there) {
            let read = ReadRecord { key, bytes: record };
            records.keep_of(&place, read, sequence, || self.database.latest_sequence());
        }
        Ok(is_there)
    }
}

impl Snapshot {
    /// About how many bytes of tables have keys within ranges, each from its first key up to but without its end. What is
    /// only in memory is not counted, nor is the moment of the snapshot looked at.
    pub fn bytes_in_tables(&self, family: Family, ranges: &[(Vec<u8>, Vec<u8>)]) -> u64 {
        let bytes = ranges.iter().map(|(start, end)| self.database().file_bytes(family, start, end));
        bytes.fold(0, u64::saturating_add)
    }
}

impl OwnedIterator {
    /// Opens an iterator on a family. It has no position before the first [`Self::step`].
    #[expect(unsafe_code, reason = "extends the borrow of a snapshot that the struct keeps alive")]
    pub(super) fn open(snapshot: &Arc<Snapshot>, family: Family, reads: ReadOptions) -> Self {
        let snapshot = Arc::clone(snapshot);
        let stored = snapshot.stored();
        let borrowed: DBRawIterator<'_> =
            stored.raw.raw_iterator_cf_opt(stored.database.family(family), reads);
        // SAFETY: only the lifetime changes. The iterator refers to the `DB` and the snapshot that the `Arc`
        // keeps alive until `snapshot` is dropped, by itself or by the `Arc` in it; `raw` is dropped before that,
        // because it is declared first, and it is never moved out of the struct.
        let raw = unsafe { std::mem::transmute::<DBRawIterator<'_>, DBRawIterator<'static>>(borrowed) };
        Self { raw: ManuallyDrop::new(raw), value: None, snapshot }
    }

    pub(super) fn raw(&self) -> &DBRawIterator<'static> {
        &self.raw
    }

    /// The snapshot that it reads.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Moves the iterator. Returns `false` if it has no current key afterwards.
    #[inline]
    #[expect(unsafe_code, reason = "keeps a value that lives until the next move")]
    pub(super) fn step(&mut self, step: Step<'_>) -> bool {
        self.value = None;
        match step {
            Step::First => self.raw.seek_to_first(),
            Step::Last => self.raw.seek_to_last(),
            Step::Next => self.raw.next(),
            Step::Prev => self.raw.prev(),
            Step::Seek(key) => self.raw.seek(key),
            Step::SeekForPrev(key) => self.raw.seek_for_prev(key),
        }
        // SAFETY: only the lifetime changes. The bytes belong to the iterator, which does not change them until it
        // moves or is dropped. It moves only here, under an exclusive borrow of the struct, which ends every borrow
        // that `value` returned, and the field is replaced before it can be read again.
        self.value =
            self.raw.value().map(|value| unsafe { std::mem::transmute::<&[u8], &'static [u8]>(value) });
        self.value.is_some()
    }

    /// Whether there is a current key.
    #[inline]
    pub(super) fn has_key(&self) -> bool {
        self.value.is_some()
    }

    /// The current key, until the next step. Empty if there is none.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.raw.key().unwrap_or_default()
    }

    /// The current value, until the next step.
    #[inline]
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.value
    }
}

impl Drop for Stored {
    #[expect(unsafe_code, reason = "a snapshot is not released in a forked child")]
    fn drop(&mut self) {
        if !fork::is_child() {
            // SAFETY: this is the only place that drops it, and the struct is not used afterwards. The database still
            // exists: its field is dropped after this function.
            unsafe { ManuallyDrop::drop(&mut self.raw) }
        }
    }
}

impl Drop for OwnedIterator {
    #[expect(unsafe_code, reason = "an iterator is not released in a forked child")]
    fn drop(&mut self) {
        self.value = None;
        if !fork::is_child() {
            // SAFETY: this is the only place that drops it, and the struct is not used afterwards. No reference into it
            // is left. The snapshot still exists: its field is dropped after this function.
            unsafe { ManuallyDrop::drop(&mut self.raw) }
        }
    }
}
