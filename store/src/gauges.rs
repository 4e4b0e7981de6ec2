//! Metrics of the open store: its state, its waits, and the sizes that RocksDB knows.

use std::time::{SystemTime, UNIX_EPOCH};

use base::metrics::report::{Metrics, StorageMetrics, StoreState};

use crate::disk_room::DiskRoom;
use crate::families::{Database, Family};
use crate::store::Store;

/// The rows of RocksDB's statistics of flushes and compactions, by the priority of their thread.
const PRIORITIES: [&str; 4] = ["User", "High", "Low", "Bottom"];
/// The column with how many there were.
const COUNT_COLUMN: &str = "Comp(cnt)";

impl Store {
    /// Adds to `metrics` what the store knows.
    pub fn measure(&self, database: &Database, metrics: &mut Metrics) {
        metrics.state = match (self.commits.health.reported(), database.quota()) {
            (StoreState::Open, Some(quota)) if quota.is_full() => StoreState::Full,
            (StoreState::Open, None) if database.disk_room().is_some_and(DiskRoom::is_low) => {
                StoreState::Full
            }
            (state, _) => state,
        };
        metrics.waits.latches = self.latches.waits.times();
        metrics.waits.stalls = self.commits.stalls.waits.times();
        metrics.waits.syncs = self.commits.durable.syncs.times();
        let meters = &database.sequences;
        metrics.sequences.reserves = meters.reserves.get();
        metrics.sequences.gaps = meters.gaps.get();
        metrics.cursors.snapshots = database.property("rocksdb.num-snapshots");
        // In seconds since 1970, and 0 without snapshots.
        let oldest = database.property("rocksdb.oldest-snapshot-time");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        metrics.cursors.oldest_snapshot_seconds = (oldest > 0).then(|| now.saturating_sub(oldest));
        metrics.storage = database.sizes();
    }
}

impl Database {
    /// A number of the whole database. It is 0 if RocksDB does not know it.
    fn property(&self, property: &str) -> u64 {
        self.raw().property_int_value(property).ok().flatten().unwrap_or(0)
    }

    /// The oldest log that was kept by the MANIFEST that RocksDB read last. All before it may be deleted.
    pub(super) fn oldest_log_kept(&self) -> u64 {
        self.property("rocksdb.min-log-number-to-keep")
    }

    /// The sum of a number over all families.
    pub(super) fn sum(&self, property: &str) -> u64 {
        self.families().map(|family| self.number_of(family, property)).sum()
    }

    /// A number of one family. It is 0 if RocksDB does not know it.
    pub(super) fn number_of(&self, family: Family, property: &str) -> u64 {
        self.raw().property_int_value_cf(self.family(family), property).ok().flatten().unwrap_or(0)
    }

    /// The number of keys and deletions of a family that are in memtables, and in no table file yet.
    pub fn keys_in_memory(&self, family: Family) -> u64 {
        ["rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables"]
            .into_iter()
            .map(|property| self.number_of(family, property))
            .sum()
    }

    fn sizes(&self) -> StorageMetrics {
        let records = self.record_cache().sizes();
        let mut sizes = StorageMetrics::default();
        sizes.memtable_bytes = self.sum("rocksdb.size-all-mem-tables");
        // One cache for all families.
        sizes.cache_bytes = self.property("rocksdb.block-cache-usage");
        sizes.cache_capacity_bytes = self.property("rocksdb.block-cache-capacity");
        let leaves = [Family::Entries, Family::Records].map(|family| self.leaves(family).bytes());
        sizes.record_cache_bytes = records.bytes + leaves.iter().sum::<u64>();
        sizes.record_cache_hits = records.hits;
        sizes.record_cache_misses = records.misses;
        sizes.key_filter_bytes = self.filters_used() as u64;
        // Without those that only a snapshot or a backup keeps.
        sizes.table_bytes = self.sum("rocksdb.live-sst-files-size");
        sizes.table_files = self.table_files();
        sizes.flushes_and_compactions = self.flushes_and_compactions();
        sizes.running =
            self.property("rocksdb.num-running-flushes") + self.property("rocksdb.num-running-compactions");
        sizes.pending_compaction_bytes = self.sum("rocksdb.estimate-pending-compaction-bytes");
        sizes.background_errors = self.property("rocksdb.background-errors");
        sizes.temporary_bytes = self.spill_space().used();
        sizes.temporary_files = self.spill_space().made();
        sizes.temporary_bytes_written = self.spill_space().written();
        sizes.quota = self.quota().map(|quota| quota.measure(self));
        sizes
    }

    fn table_files(&self) -> u64 {
        let of = |family, level| {
            let property = format!("rocksdb.num-files-at-level{level}");
            let value = self.raw().property_value_cf(self.family(family), &property).ok().flatten()?;
            value.parse::<u64>().ok()
        };
        // It gives the number of each level by a text.
        // RocksDB has seven levels.
        self.families().flat_map(|family| (0..7).filter_map(move |level| of(family, level))).sum()
    }

    /// The number of finished flushes and compactions. RocksDB reports it in a text alone.
    fn flushes_and_compactions(&self) -> u64 {
        let of = |family| {
            let text = self.raw().property_value_cf(self.family(family), "rocksdb.cfstats-no-file-histogram");
            Some(ended_in(&text.ok().flatten()?))
        };
        self.families().filter_map(of).sum()
    }
}

/// The sum of the numbers of flushes and compactions in RocksDB's text.
fn ended_in(text: &str) -> u64 {
    // The second table has a row for each priority.
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Priority"));
    let columns: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
    // From the right, because a size is two words of a row and one of the header.
    let Some(from_right) = columns.iter().rev().position(|column| *column == COUNT_COLUMN) else { return 0 };
    // Other rows are blank, or of other tables.
    let counts = lines.filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.first().filter(|first| PRIORITIES.contains(first))?;
        words.iter().rev().nth(from_right)?.parse::<u64>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rocksdb::{DB, DBCompressionType, FlushOptions, Options};

    use super::*;
    use crate::fixture::{Fixture, insert};
    use crate::format::StoreId;

    /// Who uses neither tokens nor change streams pays for their families with less than a mebibyte.
    #[test]
    fn the_families_of_tokens_and_changes_take_little_memory_while_they_are_idle() {
        let fixture = Fixture::new();
        for number in 0..20_000_u32 {
            insert(&fixture.store, &number.to_be_bytes()).expect("stored");
        }
        let bytes: u64 = [Family::Outcomes, Family::Changes]
            .into_iter()
            .flat_map(|family| {
                ["rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"]
                    .map(|property| fixture.database.number_of(family, property))
            })
            .sum();
        assert!(bytes > 0 && bytes < 1 << 20, "{bytes}");
    }

    /// A database that does not compact before it is asked to.
    struct Measured {
        database: Database,
        folder: tempfile::TempDir,
    }

    impl Measured {
        fn new(tune: impl Fn(&mut Options)) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let mut options = Options::default();
            options.create_if_missing(true);
            options.create_missing_column_families(true);
            options.set_compression_type(DBCompressionType::None);
            options.set_disable_auto_compactions(true);
            tune(&mut options);
            let families = Family::ALL.map(|family| (family.name(), options.clone()));
            let raw = DB::open_cf_with_opts(&options, folder.path(), families).expect("a new database");
            Self { database: Database::new(raw, StoreId::default(), options), folder }
        }

        fn put(&self, bytes: usize) {
            let family = self.database.family(Family::Records);
            // Two keys, because tables with one and the same key are moved to a level together, and not compacted.
            for (key, value) in [(b"a", Vec::new()), (b"z", vec![7; bytes])] {
                self.database.raw().put_cf(family, key, value).expect("written");
            }
        }

        fn flush(&self, waits: bool) -> Result<(), rocksdb::Error> {
            let mut options = FlushOptions::default();
            options.set_wait(waits);
            self.database.raw().flush_cf_opt(self.database.family(Family::Records), &options)
        }

        fn compact(&self) {
            let family = self.database.family(Family::Records);
            self.database.raw().compact_range_cf(family, None::<&[u8]>, None::<&[u8]>);
        }
    }

    #[test]
    fn flushes_and_compactions_are_counted_and_what_they_leave_to_do() {
        let measured = Measured::new(|options| options.set_level_zero_file_num_compaction_trigger(2));
        let before = measured.database.sizes();
        assert_eq!((before.flushes_and_compactions, before.table_files, before.table_bytes), (0, 0, 0));
        for tables in 1..=4 {
            measured.put(100_000);
            assert!(measured.database.sizes().memtable_bytes > before.memtable_bytes + 100_000);
            measured.flush(true).expect("flushed");
            let sizes = measured.database.sizes();
            assert_eq!((sizes.flushes_and_compactions, sizes.table_files), (tables, tables));
            assert!(sizes.table_bytes > tables * 100_000, "{sizes:?}");
            assert!(sizes.memtable_bytes < before.memtable_bytes + 100_000, "{sizes:?}");
        }
        // Four tables with the same keys are more than the two that may be there.
        assert!(measured.database.sizes().pending_compaction_bytes > 400_000);
        measured.compact();
        let sizes = measured.database.sizes();
        assert_eq!((sizes.flushes_and_compactions, sizes.table_files), (5, 1), "{sizes:?}");
        assert_eq!((sizes.pending_compaction_bytes, sizes.background_errors), (0, 0), "{sizes:?}");
        assert!(sizes.table_bytes < 200_000, "one value of each key is left: {sizes:?}");
    }

    #[test]
    fn a_flush_is_told_while_it_runs() {
        // It needs about three seconds.
        let measured = Measured::new(|options| options.set_ratelimiter(70_000, 10_000, 10));
        assert_eq!(measured.database.sizes().running, 0);
        measured.put(200_000);
        measured.flush(false).expect("it has begun");
        let began = Instant::now();
        // The first number that is not 0: a later look may find that the flush has ended.
        let running = loop {
            let running = measured.database.sizes().running;
            if running > 0 {
                break running;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no flush runs");
            std::thread::yield_now();
        };
        assert_eq!(running, 1);
    }

    /// A folder is in the way of the next table.
    #[test]
    fn a_flush_that_fails_is_counted() {
        let measured = Measured::new(|_| {});
        for number in 1..200 {
            // Some numbers are used by files that have other endings.
            std::fs::create_dir(measured.folder.path().join(format!("{number:06}.sst"))).expect("made");
        }
        measured.put(1000);
        assert_eq!(measured.database.sizes().background_errors, 0);
        measured.flush(true).expect_err("a folder is in its place");
        let sizes = measured.database.sizes();
        assert_eq!((sizes.background_errors, sizes.table_files), (1, 0), "{sizes:?}");
    }
}
