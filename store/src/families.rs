//! The fixed column families and typed access to them.
//!
//! A new family needs a new format version: RocksDB does not open a folder if not all its families are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::error::Result;
use base::metrics::timing::SequenceMeters;
use base::sync::{AtomicUsize, Mutex};
use rocksdb::{ColumnFamily, DB, DBPinnableSlice, Options, Range, ReadOptions, WriteBatch};
use rocksfile::batch::Batch;

use crate::disk_room::{DiskCharge, DiskRoom};
use crate::filter_space::{FilterBytes, FilterSpace};
use crate::folder::FolderLock;
pub use crate::format::Family;
use crate::format::{LogStamp, SPILL_FOLDER, StoreId};
use crate::keys::CollectionId;
use crate::leaf_switch::LeafSwitch;
use crate::leaves::{ChangingLeaves, Leaves, number_of};
use crate::live_starts::LiveStarts;
use crate::options::PlantedFault;
use crate::quota::state::Quota;
use crate::record_cache::{Changes, LookedUp, ReadRecord, RecordCache};
use crate::spill_space::SpillSpace;
use crate::{fork, translate};

/// The size at which RocksDB ends a table file, if nothing else is asked for.
const TABLE_BYTES: u64 = 64 << 20;
/// Collections share so many switches for their leaves, by their ids.
const RECORD_SWITCHES: usize = 64;
/// The number of a family that a folder of an older format lacks. RocksDB counts up from 0.
const ABSENT: u32 = u32::MAX;

/// The open RocksDB database.
pub struct Database {
    // Dropped before the lock, because no other process may use the folder while RocksDB does. `Some` until the drop.
    raw: Option<DB>,
    reads: ReadOptions,
    /// RocksDB's numbers of the families in its batches, in the order of [`Family::ALL`]. [`ABSENT`] for one that it
    /// lacks.
    numbers: [u32; Family::ALL.len()],
    id: StoreId,
    /// The options of a family, for table files that are not made by a flush or a compaction.
    tables: Options,
    /// Held while RocksDB ingests tables.
    pub(super) ingesting: Mutex<()>,
    /// The number of callers that keep the compactions of a family paused, in the order of [`Family::ALL`].
    pauses: [Mutex<u32>; Family::ALL.len()],
    fault: PlantedFault,
    /// Counts of what sequences have written.
    pub sequences: SequenceMeters,
    /// Whether RocksDB's files are in memory.
    is_in_memory: bool,
    quota: Option<Quota>,
    /// The space that is kept free on the disk, if no quota does it.
    disk_room: Option<DiskRoom>,
    records: RecordCache,
    entry_leaves: Leaves,
    record_leaves: Leaves,
    record_switches: [Arc<LeafSwitch>; RECORD_SWITCHES],
    filters: Arc<FilterSpace>,
    /// The space of temporary files. Shared with them, because they may outlive the database.
    spill_space: Arc<SpillSpace>,
    /// The folder of temporary files, if it is not one within this one.
    spills_into: Option<PathBuf>,
    keepers: AtomicUsize,
    live_starts: LiveStarts,
    /// Bytes after which a table file that is made here ends.
    table_bytes: u64,
    lock: Option<FolderLock>,
}

impl Database {
    /// A database without a lock on its folder.
    pub(super) fn new(raw: DB, id: StoreId, tables: Options) -> Self {
        let ingesting = Mutex::new(());
        let numbers = Family::ALL.map(|family| number(&raw, family).unwrap_or(ABSENT));
        let (reads, fault) = (ReadOptions::default(), PlantedFault::None);
        Self {
            raw: Some(raw),
            reads,
            numbers,
            id,
            tables,
            ingesting,
            pauses: Family::ALL.map(|_| Mutex::new(0)),
            fault,
            sequences: SequenceMeters::default(),
            is_in_memory: false,
            quota: None,
            disk_room: None,
            records: RecordCache::new(0),
            entry_leaves: Leaves::new(0),
            record_leaves: Leaves::new(0),
            record_switches: std::array::from_fn(|_| Arc::new(LeafSwitch::off())),
            filters: Arc::new(FilterSpace::none()),
            spill_space: Arc::new(SpillSpace::new(0)),
            spills_into: None,
            keepers: AtomicUsize::new(0),
            live_starts: LiveStarts::default(),
            table_bytes: TABLE_BYTES,
            lock: None,
        }
    }

    /// The number of callers that keep the compactions of a family paused.
    pub(super) fn pauses(&self, family: Family) -> &Mutex<u32> {
        let [meta, records, entries, outcomes, changes] = &self.pauses;
        match family {
            Family::Meta => meta,
            Family::Records => records,
            Family::Entries => entries,
            Family::Outcomes => outcomes,
            Family::Changes => changes,
        }
    }

    /// The number of copies that are being made, each of which keeps all files.
    pub(super) fn keepers(&self) -> &AtomicUsize {
        &self.keepers
    }

    /// The first live keys of ranges whose first keys were deleted.
    #[inline]
    pub(super) fn live_starts(&self) -> &LiveStarts {
        &self.live_starts
    }

    /// Plants a fault.
    pub(super) fn planting(mut self, fault: PlantedFault) -> Self {
        self.fault = fault;
        self.records.plant(fault);
        self
    }

    /// The fault that is planted.
    #[inline]
    pub fn fault(&self) -> PlantedFault {
        self.fault
    }

    /// Notes that the files are in memory.
    pub(super) fn in_memory(mut self) -> Self {
        self.is_in_memory = true;
        self
    }

    /// Whether the files are in memory.
    #[inline]
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Sets a quota, and how long tables may be that are made here.
    pub(super) fn with_quota(mut self, quota: Quota, table_bytes: u64) -> Self {
        self.quota = Some(quota);
        self.table_bytes = table_bytes;
        self
    }

    /// Keeps room on the disk for deletes and compactions.
    pub(super) fn keeping_disk_room(mut self) -> Self {
        self.disk_room = Some(DiskRoom::new(self.path()));
        self
    }

    /// Keeps records that are looked up often in `bytes` of memory.
    pub(super) fn with_record_cache(mut self, bytes: usize) -> Self {
        self.records = RecordCache::new(bytes);
        self
    }

    /// Keeps leaves of indexes in `entries` bytes of memory, and leaves of collections in `records` bytes.
    pub(super) fn with_leaves(mut self, entries: usize, records: usize) -> Self {
        (self.entry_leaves, self.record_leaves) = (Leaves::new(entries), Leaves::new(records));
        self
    }

    /// The leaves of collections, or those of indexes.
    #[inline]
    pub(super) fn leaves(&self, family: Family) -> &Leaves {
        if family == Family::Records { &self.record_leaves } else { &self.entry_leaves }
    }

    /// Limits leaves of collections to what filters and memtables leave them, and makes the block cache smaller by what they have.
    pub(super) fn fit_record_leaves(&self) {
        if self.record_leaves.has_room() {
            self.record_leaves.limit_to(self.filters.room_of_leaves());
            let bytes = usize::try_from(self.record_leaves.bytes()).unwrap_or(usize::MAX);
            self.filters.lend_to_leaves(bytes, self.record_leaves.capacity());
        }
    }

    /// Whether leaves of a collection are kept. Several collections may share it.
    #[inline]
    pub(super) fn record_switch(&self, collection: CollectionId) -> &Arc<LeafSwitch> {
        let [first, ..] = &self.record_switches;
        // There is always one of that number.
        self.record_switches.get(collection.0 as usize % RECORD_SWITCHES).unwrap_or(first)
    }

    /// Whether a write must note that it adds, changes or removes a record. A latch is held from here until the write has ended,
    /// whichever: that is how it is known that no write from before the switch is under way.
    #[inline]
    pub(super) fn notes_records(&self, key: &[u8]) -> bool {
        self.record_switch(CollectionId(number_of(key))).notes(self.fault)
    }

    /// Begins to change leaves.
    pub(super) fn changing_leaves(&self, changes: &Changes) -> [ChangingLeaves<'_>; 2] {
        let changing = |family, changed| self.leaves(family).changing(changed);
        [changing(Family::Entries, &changes.entries), changing(Family::Records, &changes.records_in_leaves)]
    }

    /// Begins a write of one record, whose latch is held, where leaves of its collection are kept.
    #[inline]
    pub(super) fn changing_record_leaf(&self, key: &[u8]) -> Option<ChangingLeaves<'_>> {
        self.notes_records(key).then(|| self.record_leaves.changing_one(key))
    }

    /// Allows filters of given keys to use memory from the block cache.
    pub(super) fn with_filters(mut self, space: FilterSpace) -> Self {
        self.filters = Arc::new(space);
        self
    }

    /// Reserves memory for a filter of given keys. Returns `None` if not as much is left.
    pub fn filter_bytes(&self, bytes: u64) -> Option<FilterBytes> {
        let filter = self.filters.take(bytes);
        self.fit_record_leaves();
        filter
    }

    /// The bytes of filters of given keys.
    pub fn filters_used(&self) -> usize {
        self.filters.used()
    }

    /// The records that are looked up often.
    #[inline]
    pub(super) fn record_cache(&self) -> &RecordCache {
        &self.records
    }

    /// Allows temporary files of sorts, groups and joins, of `limit` bytes together.
    pub(super) fn with_spill_space(mut self, limit: u64) -> Self {
        self.spill_space = Arc::new(SpillSpace::new(limit));
        self
    }

    /// The space of temporary files of sorts, groups and joins.
    pub(super) fn spill_space(&self) -> &Arc<SpillSpace> {
        &self.spill_space
    }

    /// Puts temporary files into another folder, which exists.
    pub(super) fn spilling_into(mut self, folder: PathBuf) -> Self {
        self.spills_into = Some(folder);
        self
    }

    /// The folder of temporary files, if it is not one within this one.
    pub(super) fn spills_into(&self) -> Option<&Path> {
        self.spills_into.as_deref()
    }

    /// The quota of the folder.
    pub(super) fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// Whether a quota rejects writes because most of it is used, and not only one that is too large.
    pub fn is_at_quota(&self) -> bool {
        self.quota.as_ref().is_some_and(|quota| quota.is_full() && quota.is_mostly_used(self))
    }

    /// The space that is kept free on the disk, if no quota does it.
    pub(super) fn disk_room(&self) -> Option<&DiskRoom> {
        self.disk_room.as_ref()
    }

    /// Admits a write without a quota. Fails if the disk has no room for it.
    #[inline]
    pub(super) fn admit_to_disk(&self, charge: impl FnOnce() -> Result<DiskCharge>) -> Result<()> {
        match &self.disk_room {
            Some(room) if room.is_scarce() => room.admit(self.path(), charge()?),
            Some(_) | None => Ok(()),
        }
    }

    /// Bytes after which a table file that is not made by RocksDB ends: as many as RocksDB's own tables have.
    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Acquires the folder's lock. It is kept as long as anything, for example a cursor, keeps the database open.
    pub(super) fn holding(mut self, lock: FolderLock) -> Self {
        self.lock = Some(lock);
        self
    }

    #[inline]
    pub(super) fn raw(&self) -> &DB {
        self.raw.as_ref().expect("only the drop takes it out")
    }

    /// The folder of the database.
    pub(super) fn path(&self) -> &Path {
        self.raw().path()
    }

    /// The options of table files.
    pub(super) fn table_options(&self) -> &Options {
        &self.tables
    }

    #[inline]
    pub(super) fn family(&self, family: Family) -> &ColumnFamily {
        self.raw().cf_handle(family.name()).expect("all families were opened")
    }

    /// The families that it has. A folder of an older format that is opened for reading lacks those that were added since.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        let numbers = self.numbers;
        Family::ALL.into_iter().zip(numbers).filter(|(_, number)| *number != ABSENT).map(|(family, _)| family)
    }

    /// Whether it has a family.
    pub fn has(&self, family: Family) -> bool {
        self.number(family) != ABSENT
    }

    /// Creates the families that it lacks.
    pub(super) fn create_missing(&mut self, options: impl Fn(Family) -> Options) -> Result<()> {
        for family in Family::ALL {
            if !self.has(family) {
                let raw = self.raw.as_mut().expect("only the drop takes it out");
                raw.create_cf(family.name(), &options(family)).map_err(translate::read)?;
                self.numbers = Family::ALL.map(|family| number(self.raw(), family).unwrap_or(ABSENT));
            }
        }
        Ok(())
    }

    /// RocksDB's number of the family in its batches.
    #[inline]
    pub(super) fn number(&self, family: Family) -> u32 {
        let [meta, records, entries, outcomes, changes] = self.numbers;
        match family {
            Family::Meta => meta,
            Family::Records => records,
            Family::Entries => entries,
            Family::Outcomes => outcomes,
            Family::Changes => changes,
        }
    }

    /// The value at `key`, which is not copied from the block cache.
    #[inline]
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>> {
        self.get_by(family, key, &self.reads)
    }

    /// The value at `key`, looked up by options of the caller's.
    #[inline]
    pub(super) fn get_by(
        &self,
        family: Family,
        key: &[u8],
        reads: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>> {
        self.raw().get_pinned_cf_opt(self.family(family), key, reads).map_err(translate::read)
    }

    /// The newest state of a record.
    #[inline]
    pub fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut record = Vec::new();
        let place = match self.records.look_up(key, &mut record) {
            LookedUp::Record => return Ok(Some(record)),
            LookedUp::Nothing(place) => place,
        };
        let record = self.get(Family::Records, key)?.map(|record| record.to_vec());
        if let (Some(place), Some(bytes)) = (place, &record) {
            self.records.keep(&place, ReadRecord { key, bytes }, || self.latest_sequence());
        }
        Ok(record)
    }

    /// Estimates how many bytes the table files hold from `start` (included) to `end` (excluded). Writes that are
    /// only in the log and in memtables are not counted.
    pub fn file_bytes(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let ranges = [Range::new(start, end)];
        self.raw().get_approximate_sizes_cf(self.family(family), &ranges).into_iter().sum()
    }

    /// RocksDB's identity of this store. Backups keep it.
    pub fn identity(&self) -> Result<Vec<u8>> {
        self.raw().get_db_identity().map_err(translate::read)
    }

    /// The id that the stamps in this database's logs carry. Its backups have the same.
    #[inline]
    pub fn id(&self) -> StoreId {
        self.id
    }

    /// The stamp that says that writes up to `synced` are on stable storage.
    pub(super) fn stamp(&self, synced: u64) -> LogStamp {
        LogStamp { store: self.id, synced }
    }

    /// The sequence number of the newest write.
    #[inline]
    pub fn latest_sequence(&self) -> u64 {
        self.raw().latest_sequence_number()
    }
}

/// RocksDB's number of the family in its batches. The crate `rocksdb` does not say, so a batch is built and read.
/// `None` if the family was not opened.
fn number(raw: &DB, family: Family) -> Option<u32> {
    let mut batch = WriteBatch::default();
    batch.put_cf(raw.cf_handle(family.name())?, b"", b"");
    let bytes = batch.data();
    let change = Batch::parse(bytes).and_then(|batch| batch.changes().next());
    Some(change.expect("RocksDB's batch has the change that was put into it").family)
}

impl Drop for Database {
    /// Removes the folder of temporary files, while the lock is held. It leaves everything as it is in a forked child: there
    /// RocksDB would wait for threads that do not exist, and remove files that the parent uses.
    fn drop(&mut self) {
        if fork::is_child() {
            std::mem::forget(self.raw.take());
            std::mem::forget(self.lock.take());
        } else if self.spill_space.made() > 0 && self.spills_into.is_none() {
            // Its files have no names. One that has keeps the folder, which is removed at the next open.
            let _ = fs::remove_dir(self.path().join(SPILL_FOLDER));
        }
    }
}
