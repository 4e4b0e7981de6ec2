//! Which blocks of files a thread has read.
//!
//! RocksDB counts them for each thread, at no further cost: its counters are on by default.

use std::cell::RefCell;

use rocksdb::perf::{PerfContext, PerfMetric};

/// RocksDB's counters of a thread, and what they were when they were last read.
struct Reads {
    context: PerfContext,
    hits: u64,
    misses: u64,
}

thread_local! {
    static READS: RefCell<Reads> = RefCell::new(Reads { context: PerfContext::default(), hits: 0, misses: 0 });
}

/// Begins to count for this thread, if that was not done. What it has read before is not counted: RocksDB may set its counters to
/// zero when a thread first asks for them.
pub fn begin() {
    // Nothing is counted while the thread ends.
    let _ = READS.try_with(|_| ());
}

/// The number of deleted keys that RocksDB has stepped over for this thread, since some moment.
pub(crate) fn skipped() -> u64 {
    READS
        .try_with(|reads| reads.borrow().context.metric(PerfMetric::InternalDeleteSkippedCount))
        .unwrap_or_default()
}

/// Returns how many blocks this thread has found in the cache, and how many it has read from files, since the last call.
pub fn take() -> (u64, u64) {
    let taken = READS.try_with(|reads| {
        let mut reads = reads.borrow_mut();
        let hits = reads.context.metric(PerfMetric::BlockCacheHitCount);
        let misses = reads.context.metric(PerfMetric::BlockReadCount);
        // They belong to RocksDB, and a program may reset them.
        let new = (hits.wrapping_sub(reads.hits), misses.wrapping_sub(reads.misses));
        (reads.hits, reads.misses) = (hits, misses);
        new
    });
    // Nothing is counted while the thread ends.
    taken.unwrap_or_default()
}
