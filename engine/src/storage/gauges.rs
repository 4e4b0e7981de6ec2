//! What the open store tells of itself for the metrics: its state, its waits, and the sizes that RocksDB knows.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::metrics::report::{Metrics, SequenceMetrics, StorageMetrics, StoreState, WaitMetrics};
use crate::storage::families::{Database, Family};
use crate::storage::store::Store;

/// The rows of RocksDB's statistics of flushes and compactions, by the priority of their thread.
const PRIORITIES: [&str; 4] = ["User", "High", "Low", "Bottom"];
/// The column with how many there were.
const COUNT_COLUMN: &str = "Comp(cnt)";

impl Store {
    /// Adds to `metrics` what the store knows.
    pub(crate) fn measure(&self, database: &Database, metrics: &mut Metrics) {
        metrics.state = match (self.commits.health.reported(), database.quota()) {
            (StoreState::Open, Some(quota)) if quota.is_full() => StoreState::Full,
            (state, _) => state,
        };
        metrics.waits = WaitMetrics {
            latches: self.latches.waits.times(),
            stalls: self.commits.stalls.waits.times(),
            syncs: self.commits.durable.syncs.times(),
        };
        let meters = &database.sequences;
        metrics.sequences = SequenceMetrics { reserves: meters.reserves.get(), gaps: meters.gaps.get() };
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

    /// The sum of a number over all families.
    pub(super) fn sum(&self, property: &str) -> u64 {
        Family::ALL.into_iter().map(|family| self.number_of(family, property)).sum()
    }

    /// A number of one family. It is 0 if RocksDB does not know it.
    pub(super) fn number_of(&self, family: Family, property: &str) -> u64 {
        self.raw().property_int_value_cf(self.family(family), property).ok().flatten().unwrap_or(0)
    }

    fn sizes(&self) -> StorageMetrics {
        StorageMetrics {
            memtable_bytes: self.sum("rocksdb.size-all-mem-tables"),
            // One cache for all families.
            cache_bytes: self.property("rocksdb.block-cache-usage"),
            cache_capacity_bytes: self.property("rocksdb.block-cache-capacity"),
            // Without those that only a snapshot or a backup keeps.
            table_bytes: self.sum("rocksdb.live-sst-files-size"),
            table_files: self.table_files(),
            flushes_and_compactions: self.flushes_and_compactions(),
            running: self.property("rocksdb.num-running-flushes")
                + self.property("rocksdb.num-running-compactions"),
            pending_compaction_bytes: self.sum("rocksdb.estimate-pending-compaction-bytes"),
            background_errors: self.property("rocksdb.background-errors"),
            quota: self.quota().map(|quota| quota.measure(self)),
        }
    }

    fn table_files(&self) -> u64 {
        let of = |family, level| {
            let property = format!("rocksdb.num-files-at-level{level}");
            let value = self.raw().property_value_cf(self.family(family), &property).ok().flatten()?;
            value.parse::<u64>().ok()
        };
        // It tells the number of each level by a text.
        // RocksDB has seven levels.
        Family::ALL.into_iter().flat_map(|family| (0..7).filter_map(move |level| of(family, level))).sum()
    }

    /// How many flushes and compactions have ended. RocksDB tells it in a text alone.
    fn flushes_and_compactions(&self) -> u64 {
        let of = |family| {
            let text = self.raw().property_value_cf(self.family(family), "rocksdb.cfstats-no-file-histogram");
            Some(ended_in(&text.ok().flatten()?))
        };
        Family::ALL.into_iter().filter_map(of).sum()
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
