//! The end of the log in memory, and its way to the operating system: delayed durability.
//!
//! RocksDB then keeps what it appends to the log in a buffer. It hands the buffer over when it is full, before a memtable is
//! replaced, at each sync, and when it is asked to: by a thread (`log_thread`), once in an interval, and by a write that asks for it. What is
//! handed over is always a beginning of the log, so that a process that dies loses an end of its writes and nothing between.
//!
//! Threads share this as they share syncs: one that finds its write handed over by another returns.
//!
//! If the buffer cannot be written, RocksDB drops it, and accepts no write any more: memtables hold what the log has not, and
//! if it wrote them to tables one by one and the process died between two, half of a write would come back. So the disk may
//! not be full even once: see `health`.

use std::sync::atomic::Ordering;

use base::error::Result;
use base::sync::{AtomicU64, Mutex};

use crate::families::Database;
use crate::health::Health;

/// The part of the log that was handed to the operating system.
#[derive(Default)]
pub(super) struct LogFlush {
    /// The newest write that was, by RocksDB's sequence number.
    sequence: AtomicU64,
    /// Held by the thread that hands over.
    turn: Mutex<()>,
}

impl LogFlush {
    /// Returns once the operating system has every write that was finished before the call.
    pub(super) fn run(&self, database: &Database, health: &Health) -> Result<()> {
        let wanted = database.latest_sequence();
        if self.covers(wanted) {
            return Ok(());
        }
        let _turn = self.turn.lock();
        // The thread that had the turn may have handed this write over.
        if self.covers(wanted) {
            return Ok(());
        }
        // After a failure RocksDB would say yes for an empty buffer.
        let _admission = health.admit_write()?;
        // Read before: a write that arrives meanwhile may not be covered.
        let covered = database.latest_sequence();
        database.raw().flush_wal(false).map_err(|error| health.failed(&error))?;
        self.sequence.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }

    fn covers(&self, sequence: u64) -> bool {
        self.sequence.load(Ordering::Acquire) >= sequence
    }
}
