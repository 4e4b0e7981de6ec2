//! How far writes are on stable storage, and the sync that gets them there.
//!
//! A sync is shared: a thread that waits for a running sync finds that its write is covered when its turn comes, and
//! returns without another. The mark only rises, and only after the operating system reported that the sync succeeded.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::error::Result;
use crate::metrics::timing::Timing;
use crate::options::PlantedFault;
use crate::storage::families::Database;
use crate::storage::health::Health;
use crate::storage::log_turns::LogTurns;
use crate::sync::{AtomicU64, Mutex};

/// The newest write known to be on stable storage, by RocksDB's sequence number.
pub(super) struct DurableMark {
    sequence: AtomicU64,
    fault: PlantedFault,
    /// Held by the sync that is running.
    running: Mutex<()>,
    /// The syncs of the log, and those of journaled writes.
    pub(super) syncs: Timing,
}

impl DurableMark {
    pub(super) fn starting_at(sequence: u64, fault: PlantedFault) -> Self {
        let (running, syncs) = (Mutex::new(()), Timing::default());
        Self { sequence: AtomicU64::new(sequence), fault, running, syncs }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Notes that everything up to `sequence` is synced.
    fn raise(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns once every write that was finished before the call is on stable storage.
    pub(super) fn sync(&self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let wanted = database.latest_sequence();
        if self.sequence() >= wanted {
            return Ok(());
        }
        let _running = self.running.lock();
        // The sync that was waited for may have covered this write.
        if self.sequence() >= wanted {
            return Ok(());
        }
        self.sync_now(database, health, turns)
    }

    /// Returns once every byte of the log that was written before the call is on stable storage. Unlike
    /// [`Self::sync`] it also covers notes without a sequence number.
    pub(super) fn sync_log(&self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let _running = self.running.lock();
        self.sync_now(database, health, turns)
    }

    /// Syncs without a look at the mark. The caller holds the lock: one sync runs at a time.
    fn sync_now(&self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let _turn = (!database.is_in_memory()).then(|| turns.before_sync(database.path(), health));
        // Once it has the turn: a write that has failed before it is known then.
        let admission = health.admit_sync()?;
        // Read before the sync: writes that arrive while it runs may not be covered.
        let covered = database.latest_sequence();
        // A store in memory has no log.
        if self.fault != PlantedFault::MarkNotSynced && !database.is_in_memory() {
            // Timed whether it succeeds or not: a sync that fails has often taken long.
            let begin = Instant::now();
            let synced = database.raw().flush_wal(true);
            self.syncs.record_since(begin);
            synced.map_err(|error| health.failed(&error))?;
        }
        // The mark stays if another write failed meanwhile: the kernel reports a page that it could not write only
        // once, so the success of this sync may not be believed.
        health.confirm_sync(admission)?;
        self.raise(covered);
        Ok(())
    }
}
