//! The fixed column families and typed access to them.
//!
//! Adding one changes the format version: RocksDB refuses to open a folder whose families are not all named.

use rocksdb::{ColumnFamily, DB, DBPinnableSlice, Range, ReadOptions, WriteBatch};

use crate::error::Result;
use crate::storage::folder::FolderLock;
use crate::storage::format::{FAMILY_ENTRIES, FAMILY_META, FAMILY_RECORDS, LogStamp, StoreId};
use crate::storage::{fork, translate};

/// A column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Format stamp, catalog entries, counters.
    Meta,
    /// Documents by collection and `_id`.
    Records,
    /// Secondary index entries.
    Entries,
}

impl Family {
    pub(crate) const ALL: [Self; 3] = [Self::Meta, Self::Records, Self::Entries];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Meta => FAMILY_META,
            Self::Records => FAMILY_RECORDS,
            Self::Entries => FAMILY_ENTRIES,
        }
    }
}

/// The open RocksDB database.
pub(crate) struct Database {
    // Dropped before the lock: nobody may have the folder while RocksDB still does. There until the drop.
    raw: Option<DB>,
    reads: ReadOptions,
    id: StoreId,
    lock: Option<FolderLock>,
}

impl Database {
    /// Without a lock, for reading only.
    pub(super) fn new(raw: DB, id: StoreId) -> Self {
        Self { raw: Some(raw), reads: ReadOptions::default(), id, lock: None }
    }

    /// Keeps the folder's lock for as long as anything, a cursor for one, keeps the database open.
    pub(super) fn holding(mut self, lock: FolderLock) -> Self {
        self.lock = Some(lock);
        self
    }

    pub(super) fn raw(&self) -> &DB {
        self.raw.as_ref().expect("only the drop takes it out")
    }

    pub(super) fn family(&self, family: Family) -> &ColumnFamily {
        self.raw().cf_handle(family.name()).expect("all families were opened")
    }

    /// The value at `key`, without copying it out of the block cache.
    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>> {
        self.raw().get_pinned_cf_opt(self.family(family), key, &self.reads).map_err(translate::read)
    }

    /// About how many bytes the table files hold between two keys; what only the log and memory hold is not in it.
    pub(crate) fn file_bytes(&self, family: Family, (start, end): (Vec<u8>, Vec<u8>)) -> u64 {
        let ranges = [Range::new(&start, &end)];
        self.raw().get_approximate_sizes_cf(self.family(family), &ranges).into_iter().sum()
    }

    /// What tells this store from all others: made with it, and kept by backups.
    pub(crate) fn identity(&self) -> Result<Vec<u8>> {
        self.raw().get_db_identity().map_err(translate::read)
    }

    /// The name by which its logs are told from others'.
    pub(super) fn id(&self) -> StoreId {
        self.id
    }

    /// What a commit notes in the log when writes up to `synced` are on stable storage.
    pub(super) fn stamp(&self, synced: u64) -> LogStamp {
        LogStamp { store: self.id, synced }
    }

    /// Notes in the log that writes up to `synced` are on stable storage. The note itself is not, nor has it a number.
    pub(super) fn write_stamp(&self, synced: u64) -> std::result::Result<(), rocksdb::Error> {
        let mut batch = WriteBatch::default();
        batch.put_log_data(self.stamp(synced).bytes());
        self.raw().write(batch)
    }

    /// The number of the newest write.
    pub(crate) fn latest_sequence(&self) -> u64 {
        self.raw().latest_sequence_number()
    }
}

impl Drop for Database {
    /// In a forked child RocksDB would wait for threads that are not there, and remove files that its parent uses.
    fn drop(&mut self) {
        if fork::is_child() {
            std::mem::forget(self.raw.take());
            std::mem::forget(self.lock.take());
        }
    }
}
