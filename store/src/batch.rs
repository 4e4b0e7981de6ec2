//! Pending changes, which are committed as a whole or not at all.
//!
//! The batch is in RocksDB's own format and is given to RocksDB when it is written. A write may have to be tried again,
//! and RocksDB consumes what it is given.

use base::error::{Error, ErrorKind, Result};
use rocksdb::WriteBatch;
use rocksfile::batch::BatchBuilder;
use rocksfile::table::ChangeKind;

use crate::families::{Database, Family};
use crate::format::LogStamp;
use crate::keys::event_key;
use crate::record_cache::Changes;

/// Pending changes. No reader sees them before [`Commits::commit`](super::write::Commits::commit).
pub struct Batch<'a> {
    pub(super) database: &'a Database,
    builder: BatchBuilder,
    /// The records that are not new, and the entries and records that leaves in memory may have.
    changes: Changes,
    /// Events for the log of changes, which get their keys by [`place_events`](Self::place_events).
    events: Vec<Vec<u8>>,
    events_bytes: usize,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    #[inline]
    pub fn new(database: &'a Database) -> Self {
        Self::with_capacity(database, 0)
    }

    /// The database that the batch is for.
    #[inline]
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// An empty batch with room for `bytes` bytes of keys and values.
    #[inline]
    pub fn with_capacity(database: &'a Database, bytes: usize) -> Self {
        let (builder, changes) = (BatchBuilder::with_capacity(bytes), Changes::default());
        Self { database, builder, changes, events: Vec::new(), events_bytes: 0 }
    }

    /// Adds a key with its new value. If it is a record, a latch is held from here until the batch was written, whichever.
    #[inline]
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        if family == Family::Records {
            self.changes.note(key);
            self.note_in_leaf(key);
        }
        self.database.live_starts().lower(self.database.number(family), key, self.database.fault());
        self.builder.put(self.database.number(family), key, value);
    }

    /// Adds a record whose key is latched and known to be absent.
    #[inline]
    pub fn put_new_record(&mut self, key: &[u8], record: &[u8]) {
        self.database.live_starts().lower(self.database.number(Family::Records), key, self.database.fault());
        self.builder.put(self.database.number(Family::Records), key, record);
        self.note_in_leaf(key);
    }

    /// Notes a record that is added, changed or removed, if leaves of its collection are kept in memory.
    #[inline]
    fn note_in_leaf(&mut self, key: &[u8]) {
        if self.database.notes_records(key) {
            self.changes.note_in_leaf(key);
        }
    }

    /// Adds the deletion of a key. If it is a record, a latch is held from here until the batch was written, whichever.
    #[inline]
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        if family == Family::Records {
            self.changes.note(key);
            self.note_in_leaf(key);
        }
        self.builder.delete(self.database.number(family), key);
    }

    /// Notes that an entry is added or removed, of an index of which leaves are kept in memory.
    pub fn note_entry(&mut self, key: &[u8]) {
        self.changes.note_entry(key);
    }

    /// Deletes every key from `start` (included) to `end` (excluded). Records are removed by [`delete_records`](Self::delete_records).
    ///
    /// # Panics
    ///
    /// If `family` is that of the records.
    pub fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        assert!(family != Family::Records, "a range of records is removed where index builds learn of it");
        if family == Family::Entries {
            self.changes.note_entries(start, end);
        }
        self.builder.delete_range(self.database.number(family), start, end);
    }

    /// Deletes every entry from `start` (included) to `end` (excluded), all of indexes or orders that have ended: their ids are never used
    /// again, so no leaf of them is asked for.
    pub fn delete_ended_entries(&mut self, start: &[u8], end: &[u8]) {
        self.builder.delete_range(self.database.number(Family::Entries), start, end);
    }

    /// Deletes every record from `start` (included) to `end` (excluded). Index builds must learn of it, so only
    /// `CollectionState::remove_records` calls this.
    pub fn delete_records(&mut self, start: &[u8], end: &[u8]) {
        self.changes.note_range(start, end);
        self.builder.delete_range(self.database.number(Family::Records), start, end);
    }

    /// Adds an event for the log of changes, whose position is not known yet.
    pub fn add_event(&mut self, event: Vec<u8>) {
        self.events_bytes += event.len();
        self.events.push(event);
    }

    /// Whether there are events that have no position.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Moves the events into a batch of their own. Only a planted fault writes them apart.
    pub fn split_events(&mut self) -> Self {
        let mut apart = Self::new(self.database);
        (apart.events, apart.events_bytes) = (std::mem::take(&mut self.events), self.events_bytes);
        self.events_bytes = 0;
        apart
    }

    /// The bytes of the events without a position, with their keys.
    pub fn events_bytes(&self) -> usize {
        self.events_bytes + self.events.len() * event_key(0, 0).len()
    }

    /// Gives all events a position in the log of changes, with ordinals from 0 on.
    pub fn place_events(&mut self, position: u64) {
        let family = self.database.number(Family::Changes);
        for (ordinal, event) in (0..).zip(std::mem::take(&mut self.events)) {
            self.builder.put(family, &event_key(position, ordinal), &event);
        }
        self.events_bytes = 0;
    }

    /// Adds a stamp, which is in the log only.
    pub(super) fn stamp(&mut self, stamp: LogStamp) {
        self.builder.note(&stamp.bytes());
    }

    /// The number of changes in the batch.
    #[inline]
    pub fn len(&self) -> u64 {
        u64::from(self.builder.count())
    }

    /// Whether nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.builder.count() == 0
    }

    /// Bytes that the batch holds so far.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.builder.size() + self.events_bytes
    }

    /// The batch for RocksDB. Fails if it is beyond what its format can hold.
    pub(super) fn finish(&mut self) -> Result<Finished<'_>> {
        debug_assert!(self.events.is_empty(), "events are written under a position");
        match self.builder.bytes() {
            Some(bytes) => Ok(Finished { bytes, changes: &self.changes }),
            None => Err(Error::new(ErrorKind::Storage {
                message: "a key or a value of a write has 4 GiB or more, or the write has too many"
                    .to_owned(),
            })),
        }
    }
}

/// A batch that gets no more changes.
#[derive(Clone, Copy)]
pub(super) struct Finished<'a> {
    bytes: &'a [u8],
    changes: &'a Changes,
}

impl Finished<'_> {
    /// The batch that RocksDB consumes in one try.
    pub(super) fn for_rocksdb(self) -> WriteBatch {
        WriteBatch::from_data(self.bytes)
    }

    /// The batch in RocksDB's format.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    pub(super) fn len(self) -> usize {
        self.bytes.len()
    }

    /// The records that it writes, in its order, each absent if it is removed. `family` is RocksDB's number of their family.
    pub(super) fn records(&self, family: u32) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let changes =
            rocksfile::batch::Batch::parse(self.bytes).into_iter().flat_map(|batch| batch.changes());
        let records = changes.filter(move |change| change.family == family);
        records.map(|change| (change.key, (change.kind == ChangeKind::Value).then_some(change.value)))
    }

    /// The records that are not new, and the entries and records that leaves in memory may have.
    pub(super) fn changes(&self) -> &Changes {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use rocksdb::{DB, Options};

    use super::*;
    use crate::format::StoreId;

    #[test]
    fn a_batch_is_what_rocksdb_builds() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let raw =
            DB::open_cf(&options, folder.path(), Family::ALL.map(Family::name)).expect("a new database");
        let database = Database::new(raw, StoreId::default(), options);
        let (mut ours, mut theirs) = (Batch::new(&database), WriteBatch::default());
        assert!(ours.is_empty());
        for (place, family) in Family::ALL.into_iter().enumerate() {
            let (handle, long) = (database.family(family), vec![7; 100 << place]);
            ours.put(family, b"key", &long);
            theirs.put_cf(handle, b"key", &long);
            ours.delete(family, &long);
            theirs.delete_cf(handle, &long);
            match family {
                Family::Records => ours.delete_records(b"", b"end"),
                Family::Meta | Family::Entries | Family::Outcomes | Family::Changes => {
                    ours.delete_range(family, b"", b"end");
                }
            }
            theirs.delete_range_cf(handle, b"".as_slice(), b"end");
        }
        let stamp = database.stamp(7);
        ours.stamp(stamp);
        theirs.put_log_data(stamp.bytes());
        assert_eq!((ours.len(), ours.is_empty(), ours.bytes()), (15, false, theirs.size_in_bytes()));
        let finished = ours.finish().expect("a small batch");
        assert_eq!(finished.for_rocksdb().data(), theirs.data());
    }
}
