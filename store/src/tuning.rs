//! RocksDB's options, from one memory budget.
//!
//! An eighth of the budget keeps records that are looked up often, and a sixteenth leaves of indexes that are searched often. Of the
//! rest, filters of given keys may use an eighth, and leaves of collections three sixteenths, less where filters and memtables have most: what
//! they have, the block cache gives up. The block cache has index and filter blocks too, and the write-buffer manager charges it with the
//! memtables, which may need half of the budget, so that the whole stays within the budget.
//!
//! The charge of the memtables cannot be evicted and is spread over the cache's shards by chance, and the filter of one
//! table file may have a megabyte. So shards must be large: a small one may have no room left for a filter, and the
//! filter is then read from the file again for each absent key.

use std::sync::Arc;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DBRecoveryMode, Env, LogLevel,
    Options, WriteBufferManager,
};

use crate::families::Family;
use crate::filter_space::{FilterSpace, Memory};
use crate::options::Compression;
use crate::quota;
use crate::quota::COMPACTION_MEMTABLES;
use crate::quota::gate::{AtTheGate, Gate};

/// The smallest memory budget that is accepted, in bytes.
pub(crate) const MEMORY_BUDGET_MIN: usize = 8 << 20;

/// The largest memory budget that is accepted, in bytes. RocksDB reserves address space for the cache's table in
/// proportion to it, and ends the process if there is not enough.
pub(crate) const MEMORY_BUDGET_MAX: u64 = 1 << 40;

/// Gives about one false positive in a hundred lookups of absent keys.
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Share of a memtable given to its bloom filter, which answers most uniqueness checks. For records of 200 bytes it has 17
/// bits a key. A larger filter does not fit the processor's cache, and then each write waits for memory.
const MEMTABLE_BLOOM_RATIO: f64 = 0.01;
/// Lets the cache's table grow with its entries, whose sizes differ widely, from blocks to filters.
const ENTRY_CHARGE_UNKNOWN: usize = 0;
const BLOCK_BYTES: usize = 16 << 10;
/// The size at which the memtable of the family `outcomes` is written to a table: its rows are small, and are
/// replaced.
const OUTCOMES_BUFFER_BYTES: usize = 8 << 20;
/// The same of the family `changes`: its rows come in the order of their keys, and go as a range.
const CHANGES_BUFFER_BYTES: usize = 16 << 20;
const WAL_FILE_COUNT: u64 = 4;
/// The number of files of the first level that start a compaction. The check whether a random `_id` is absent reads
/// the filter of each of them, so the number is low. RocksDB's default is 4.
const LEVEL_0_FILE_COUNT: i32 = 2;

/// The length at which RocksDB's text file LOG ends and another one begins.
const TEXT_LOG_BYTES: usize = 4 << 20;
/// The least length at which a MANIFEST ends under a quota.
const MANIFEST_BYTES_MIN: usize = 1 << 20;
/// The size of the first level after level 0 under a quota, in memtables.
const LEVEL_MEMTABLES: u64 = 4;
/// The number of files of level 0 that slow writes down under a quota, and the number that stop them. RocksDB's
/// defaults are 20 and 36.
const LEVEL_0_SLOWDOWN: i32 = 8;
const LEVEL_0_STOP: i32 = 12;

/// The values from which RocksDB's options are computed.
pub(super) struct Tuning {
    /// In bytes.
    pub(super) memory_budget: usize,
    /// Bytes of it for records that are looked up often, if they are not an eighth.
    pub(super) record_cache: Option<usize>,
    pub(super) compression: Compression,
    /// The limit of the folder, in bytes.
    pub(super) disk_quota: Option<u64>,
    /// The gate at which compactions wait before they begin, under a quota.
    pub(super) gate: Arc<Gate>,
    /// The environment of RocksDB's files. Absent for those of the operating system.
    pub(super) files: Option<Env>,
    /// Whether the end of the log stays in memory until it is handed to the operating system by a call.
    pub(super) delays_log: bool,
}

impl Tuning {
    /// The block cache, and what charges it with the memtables. Lookups in the cache acquire no lock, so its shards can be few and large, 32 MiB
    /// and more. An LRU cache would split the default budget into 64 shards of 4 MiB.
    pub(super) fn memory(&self) -> Memory {
        let cache = Cache::new_hyper_clock_cache(self.cache_bytes(), ENTRY_CHARGE_UNKNOWN);
        let memtables = WriteBufferManager::new_write_buffer_manager_with_cache(
            self.memory_budget / 2,
            false,
            cache.clone(),
        );
        Memory { cache, memtables }
    }

    /// The part of the block cache that filters of given keys may use: an eighth of the budget.
    pub(super) fn filter_space(&self, memory: &Memory) -> FilterSpace {
        FilterSpace::within(memory.clone(), self.cache_bytes(), self.memory_budget / 8)
    }

    fn cache_bytes(&self) -> usize {
        self.memory_budget - self.record_cache_bytes() - self.entry_leaves_bytes()
    }

    /// The bytes for records that are looked up often.
    pub(super) fn record_cache_bytes(&self) -> usize {
        self.record_cache.unwrap_or(self.memory_budget / 8)
    }

    /// The bytes for leaves of indexes.
    pub(super) fn entry_leaves_bytes(&self) -> usize {
        self.record_cache_bytes() / 2
    }

    /// The bytes for leaves of collections.
    pub(super) fn record_leaves_bytes(&self) -> usize {
        self.entry_leaves_bytes() * 3
    }

    pub(super) fn database_options(&self, memory: &Memory) -> Options {
        let mut options = self.named_options();
        // RocksDB must never create a database in a folder that was not claimed as empty.
        options.create_if_missing(false);
        options.create_missing_column_families(false);
        options.set_paranoid_checks(true);
        // The stricter modes reject what a power failure may leave, and still accept some damage. The preflight distinguishes
        // the two before RocksDB opens.
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        // The MANIFEST then notes how long each log was, which the preflight relies on.
        options.set_track_and_verify_wals_in_manifest(true);
        options.set_write_buffer_manager(&memory.memtables);
        options.set_manual_wal_flush(self.delays_log);
        // Both are RocksDB's defaults, and must stay. Syncing a log in parts can leave a newer log on the disk without the end of
        // the one before, and a log that is written over an old one ends in old records: recovery has gone on past the
        // hole in both cases (RocksDB's pull requests 12489 and 12918).
        options.set_wal_bytes_per_sync(0);
        options.set_recycle_log_file_num(0);
        // Without a limit, a family that is seldom written would keep old logs from being deleted.
        options.set_max_total_wal_size(WAL_FILE_COUNT * self.write_buffer_bytes() as u64);
        if let Some(files) = &self.files {
            options.set_env(files);
        }
        options.set_max_background_jobs(2);
        // From here on `log` means RocksDB's text file LOG, not the WAL.
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(4);
        options.set_max_log_file_size(TEXT_LOG_BYTES);
        if self.disk_quota.is_some() {
            let bytes = self.write_buffer_bytes();
            options.set_max_log_file_size(bytes.min(TEXT_LOG_BYTES));
            // It begins again before it is long.
            options.set_max_manifest_file_size(bytes.max(MANIFEST_BYTES_MIN));
        }
        options
    }

    /// The options that the binding has no functions for.
    fn named_options(&self) -> Options {
        // RocksDB would reserve space for each file that it writes, a tenth more than it needs. While `fallocate` finds that there
        // is not enough, it holds all that is free, and another file's write fails. On btrfs the space is not given back.
        let mut named = "allow_fallocate=false".to_owned();
        if self.files.is_some() {
            // The files are gone when the database is closed, so that memtables need not be written to them.
            named.push_str(";avoid_flush_during_shutdown=true");
        }
        // Without them little is lost, so that it is not an error if RocksDB does not know a name.
        Options::default().get_options_from_string(named).unwrap_or_default()
    }

    pub(super) fn families(
        &self,
        memory: &Memory,
        families: impl IntoIterator<Item = Family>,
    ) -> Vec<ColumnFamilyDescriptor> {
        // RocksDB always has a default family and does not open without it. We store nothing there.
        let ours = families
            .into_iter()
            .map(|family| ColumnFamilyDescriptor::new(family.name(), self.options_of(family, memory)));
        std::iter::once(ColumnFamilyDescriptor::new(
            rocksdb::DEFAULT_COLUMN_FAMILY_NAME,
            self.family_options(memory),
        ))
        .chain(ours)
        .collect()
    }

    /// The options of a family.
    pub(super) fn options_of(&self, family: Family, memory: &Memory) -> Options {
        let mut options = self.family_options(memory);
        match family {
            Family::Outcomes => {
                options.set_write_buffer_size(self.write_buffer_bytes().min(OUTCOMES_BUFFER_BYTES));
            }
            Family::Changes => {
                options.set_write_buffer_size(self.write_buffer_bytes().min(CHANGES_BUFFER_BYTES));
            }
            Family::Meta | Family::Records | Family::Entries => {}
        }
        options
    }

    /// The options of families of much data. Tables that an index build makes have them too.
    pub(super) fn family_options(&self, memory: &Memory) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&memory.cache);
        table.set_block_size(BLOCK_BYTES);
        table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
        // Uniqueness checks look up whole keys, so filters over prefixes would not help.
        table.set_whole_key_filtering(true);
        // In the cache these blocks are part of the memory budget. Those of the first level are pinned, because every
        // lookup reads them.
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_format_version(5);

        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(self.write_buffer_bytes());
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO);
        options.set_memtable_whole_key_filtering(true);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_level_zero_file_num_compaction_trigger(LEVEL_0_FILE_COUNT);
        if self.disk_quota.is_some() {
            self.bound_compactions(&mut options);
        }
        self.set_compression(&mut options);
        options
    }

    /// Bounds what a compaction uses on the disk while it runs, which the quota keeps free for it.
    fn bound_compactions(&self, options: &mut Options) {
        let bytes = self.write_buffer_bytes() as u64;
        options.set_target_file_size_base(bytes);
        // All tables of the first two levels may be compacted at once.
        options.set_max_bytes_for_level_base(LEVEL_MEMTABLES * bytes);
        options.set_max_compaction_bytes(COMPACTION_MEMTABLES * bytes);
        options.set_compaction_filter_factory(AtTheGate(Arc::clone(&self.gate)));
        options.set_level_zero_slowdown_writes_trigger(LEVEL_0_SLOWDOWN);
        options.set_level_zero_stop_writes_trigger(LEVEL_0_STOP);
    }

    /// Sets the compression of the upper levels and of the last one, which holds most of the data.
    fn set_compression(&self, options: &mut Options) {
        let (upper, last) = match self.compression {
            Compression::None => (DBCompressionType::None, DBCompressionType::None),
            Compression::Lz4ThenZstd => (DBCompressionType::Lz4, DBCompressionType::Zstd),
            Compression::Lz4 => (DBCompressionType::Lz4, DBCompressionType::Lz4),
            Compression::Zstd => (DBCompressionType::Zstd, DBCompressionType::Zstd),
        };
        options.set_compression_type(upper);
        options.set_bottommost_compression_type(last);
    }

    /// The size of one memtable in bytes: a quarter of the budget, within limits, and a small part of a quota.
    pub(super) fn write_buffer_bytes(&self) -> usize {
        let bytes = (self.memory_budget / 4).clamp(1 << 20, 64 << 20);
        let of_quota = self.disk_quota.map(quota::memtable_bytes);
        of_quota.and_then(|most| usize::try_from(most).ok()).map_or(bytes, |most| bytes.min(most))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use crate::fixture;
    use crate::open::OpenMode;
    use crate::options::Durability;
    use crate::store::Store;

    /// The options that RocksDB wrote down.
    #[track_caller]
    fn written_options(folder: &Path) -> String {
        let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
        let is_options = |path: &Path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("OPTIONS-"))
        };
        let newest = files.filter(|path| is_options(path)).max().expect("a file of options");
        fs::read_to_string(newest).expect("text")
    }

    #[track_caller]
    fn check_log(durability: Durability) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let mut options = fixture::options(&path, OpenMode::CreateIfMissing);
        options.durability = durability;
        Store::open(&options).expect("made").close(|| (), |_| Ok(())).expect("closed");
        let options = written_options(&path);
        for option in [
            "wal_bytes_per_sync=0",
            "recycle_log_file_num=0",
            "wal_recovery_mode=kPointInTimeRecovery",
            "track_and_verify_wals_in_manifest=true",
        ] {
            assert!(
                options.lines().any(|line| line.trim() == option),
                "{option} with {durability:?}: {options}"
            );
        }
    }

    /// Either option has let recovery pass over records that a power failure had destroyed.
    #[test]
    fn the_log_is_neither_synced_in_parts_nor_written_over_an_old_one() {
        check_log(Durability::Journaled);
        check_log(Durability::default());
        check_log(Durability::Delayed {
            write_interval: Duration::from_millis(5),
            sync_interval: Duration::from_millis(100),
        });
    }
}
