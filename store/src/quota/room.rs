//! The bytes of the folder, and those about to be added to it.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use base::error::Result;
use base::sync::AtomicU64;
use rocksdb::LiveFile;

use crate::families::{Database, Family};
use crate::folder::failed;
use crate::folder_files::{each_file, on_disk};
use crate::translate;

/// The most bytes of one compaction, in memtables. RocksDB's options bound it by that.
pub(crate) const COMPACTION_MEMTABLES: u64 = 8;
/// The number of the largest tables that a compaction may have beside that.
const LARGE_TABLES: u64 = 4;
/// For how many compactions room is kept free. While a cursor keeps what they replace, it is not given back: then the one
/// that runs when the cursor is opened uses that room, and the one that finds it out when it is about to begin.
const KEPT_COMPACTIONS: u64 = 2;
/// The space that a new log and a new MANIFEST reserve on the disk, in memtables.
const NEW_FILES: u64 = 2;
/// The number of times that the folder is read again because files of it went meanwhile.
const READS_MAX: u32 = 10;

const COMPACTING: &str = "rocksdb.num-running-compactions";
const FLUSHING: [&str; 2] = ["rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending"];
/// Compactions that are due, whether they are paused or not.
const COMPACTIONS_DUE: &str = "rocksdb.compaction-pending";
/// RocksDB's name for the number of states of a family's tables that something reads. More than the newest are kept
/// by iterators and compactions.
const VERSIONS: &str = "rocksdb.num-live-versions";
/// RocksDB's name for the number of snapshots of the database. Every cursor has one.
const SNAPSHOTS: &str = "rocksdb.num-snapshots";
const OLDEST_SNAPSHOT: &str = "rocksdb.oldest-snapshot-sequence";

/// Whether RocksDB does something that may make room, or is about to.
pub(super) fn is_busy(database: &Database, are_compactions_paused: bool) -> bool {
    is_compacting(database)
        || FLUSHING.into_iter().any(|name| database.sum(name) > 0)
        || (!are_compactions_paused && database.sum(COMPACTIONS_DUE) > 0)
}

pub(super) fn is_compacting(database: &Database) -> bool {
    database.sum(COMPACTING) > 0
}

/// Whether a cursor may keep tables that were replaced.
pub(super) fn may_be_pinned(database: &Database) -> bool {
    let has_old_version = |family| database.number_of(family, VERSIONS) > 1;
    database.number_of(Family::Meta, SNAPSHOTS) > 0 && Family::ALL.into_iter().any(has_old_version)
}

/// The sequence number of the oldest snapshot.
pub(super) fn oldest_snapshot(database: &Database) -> Option<u64> {
    // Between the two the only snapshot can go, and then the number is 0.
    let oldest = database.number_of(Family::Meta, OLDEST_SNAPSHOT);
    (database.number_of(Family::Meta, SNAPSHOTS) > 0 && oldest > 0).then_some(oldest)
}

/// A measurement, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The bytes of the files.
    pub(super) files: u64,
    /// The bytes that are in memtables and will be in tables, or are being written.
    coming: u64,
    /// The bytes that the next compaction may need until it deletes its input.
    pub(super) compactions: u64,
    /// The bytes of replaced tables that something still reads, and of tables that are being written.
    pub(super) replaced: u64,
}

impl Room {
    /// Measures, with memtables of `memtable` bytes.
    pub(super) fn measure(database: &Database, memtable: u64, pending: &AtomicU64) -> Result<Self> {
        // In this order: what moves on meanwhile is counted twice, and never left out.
        let pending = pending.load(Ordering::Acquire);
        let memtables = database.sum("rocksdb.cur-size-all-mem-tables");
        let tables = database.raw().live_files().map_err(translate::read)?;
        let compactions = compaction_bytes(database, &tables, memtable);
        let files = folder_bytes(database.path())?;
        // Temporary files have no names in the folder.
        let temporary = database.spill_space().used();
        let live: u64 = tables.iter().map(|table| table.size as u64).sum();
        let replaced = files.tables.saturating_sub(live);
        // A backup keeps all files, and must not be a reason to reject writes.
        let kept = if database.keepers().load(Ordering::Acquire) > 0 { replaced } else { 0 };
        let files = files.all.saturating_sub(kept) + temporary;
        Ok(Self { files, coming: pending + memtables, compactions, replaced: replaced - kept })
    }

    /// The bytes that are kept free for compactions.
    pub(super) fn kept(self) -> u64 {
        KEPT_COMPACTIONS * self.compactions
    }

    /// The bytes that are in use, or will be.
    pub(super) fn taken(self) -> u64 {
        self.files + self.coming
    }
}

/// The most that a compaction writes before it deletes what it has read.
fn compaction_bytes(database: &Database, files: &[LiveFile], memtable: u64) -> u64 {
    let mut most = COMPACTION_MEMTABLES * memtable;
    for family in database.families() {
        let base = database.number_of(family, "rocksdb.base-level");
        let (mut first_levels, mut largest, mut all) = (0, 0, 0);
        for file in files.iter().filter(|file| file.column_family_name == family.name()) {
            let bytes = file.size as u64;
            largest = bytes.max(largest);
            all += bytes;
            // All tables of level 0 are compacted with all of the next one.
            if file.level == 0 || u64::try_from(file.level).is_ok_and(|level| level == base) {
                first_levels += bytes;
            }
        }
        // No more than there is, and what is flushed before it begins.
        let between_levels = COMPACTION_MEMTABLES * memtable + (LARGE_TABLES * largest).min(all);
        most = most.max(first_levels).max(between_levels);
    }
    most + NEW_FILES * memtable
}

/// The bytes of a folder's files.
#[derive(Clone, Copy, Default)]
struct FolderBytes {
    /// Those of all files, with the files of the folders in it.
    all: u64,
    /// Those of RocksDB's tables.
    tables: u64,
}

/// The bytes of the files of a folder.
fn folder_bytes(path: &Path) -> Result<FolderBytes> {
    for _ in 0..READS_MAX {
        if let (bytes, false) = read_once(path).map_err(failed("look at the folder", path))? {
            return Ok(bytes);
        }
    }
    // Files come and go all the time. What went by now is counted by what came for it.
    Ok(read_once(path).map_err(failed("look at the folder", path))?.0)
}

/// The bytes of a folder's files, and whether one of them went meanwhile. Then what came for it may be missing.
fn read_once(path: &Path) -> io::Result<(FolderBytes, bool)> {
    let mut bytes = FolderBytes::default();
    let has_gone = each_file(path, |file, metadata| {
        bytes.all += on_disk(metadata);
        if file.parent() == Some(path) && file.extension().is_some_and(|extension| extension == "sst") {
            bytes.tables += metadata.len();
        }
    })?;
    Ok((bytes, has_gone))
}
