//! The part of the writes that is on stable storage, and the sync that extends it.
//!
//! A sync is shared: one runs at a time, and when it ends all that waited for it look at the mark. Those whose writes it
//! covers return, and one of the others begins the next, which covers them all. The mark only rises, and only after the
//! operating system reported that the sync succeeded.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use base::error::Result;
use base::metrics::timing::Timing;
use base::sync::{AtomicU64, Condvar, Mutex};

use crate::families::Database;
use crate::health::Health;
use crate::log_turns::LogTurns;
use crate::options::PlantedFault;

/// The newest write known to be on stable storage, by RocksDB's sequence number.
pub(super) struct DurableMark {
    sequence: AtomicU64,
    fault: PlantedFault,
    /// The lock is held for a look, and not for the sync: threads that wait for a lock are let go one after the other, and each
    /// that went on writing would get ahead of them with a sync of its own.
    turns: Mutex<Turns>,
    ended: Condvar,
    /// The syncs of the log, and those of journaled writes.
    pub(super) syncs: Timing,
    /// Learns of the syncs.
    watcher: OnceLock<Arc<dyn SyncWatcher>>,
}

/// Learns of the syncs of a store, of which one runs at a time.
pub trait SyncWatcher: Send + Sync {
    /// A sync begins: what is written by now is on stable storage once it has succeeded.
    fn sync_begins(&self);

    /// The sync has ended.
    fn sync_ended(&self, has_succeeded: bool);
}

/// Which syncs there were, by numbers from 1.
#[derive(Default)]
struct Turns {
    is_running: bool,
    begun: u64,
    /// The newest that succeeded.
    succeeded: u64,
}

impl DurableMark {
    pub(super) fn starting_at(sequence: u64, fault: PlantedFault) -> Self {
        let (turns, ended, syncs) = (Mutex::default(), Condvar::default(), Timing::default());
        Self { sequence: AtomicU64::new(sequence), fault, turns, ended, syncs, watcher: OnceLock::new() }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Lets a watcher learn of the syncs. There is one at most: a second one is not kept.
    pub(super) fn watch(&self, watcher: Arc<dyn SyncWatcher>) {
        let _ = self.watcher.set(watcher);
    }

    /// Notes that everything up to `sequence` is synced.
    fn raise(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns once every write that was finished before the call is on stable storage.
    pub(super) fn sync(&self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let wanted = database.latest_sequence();
        // The sync that is waited for may cover this write.
        self.begin(|_| self.sequence() >= wanted).map_or(Ok(()), |sync| sync.run(database, health, turns))
    }

    /// Returns once every byte of the log that was written before the call is on stable storage. Unlike
    /// [`Self::sync`] it also covers notes without a sequence number.
    pub(super) fn sync_log(&self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let begun = self.turns.lock().begun;
        // One that begins after this call covers every byte, also if it is for another caller.
        let is_covered = |turns: &Turns| turns.succeeded > begun;
        self.begin(is_covered).map_or(Ok(()), |sync| sync.run(database, health, turns))
    }

    /// Waits until everything up to `sequence` is on stable storage, or until a moment. Returns whether it is. It begins no sync.
    pub(super) fn wait_until(&self, sequence: u64, moment: Instant) -> bool {
        let mut turns = self.turns.lock();
        // The mark is raised before the end of its sync is reported, under this lock.
        while self.sequence() < sequence {
            let patience = moment.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut turns, patience);
        }
        true
    }

    /// Waits for the turn to sync, as long as there is need for one.
    fn begin(&self, is_covered: impl Fn(&Turns) -> bool) -> Option<Running<'_>> {
        let mut turns = self.turns.lock();
        while !is_covered(&turns) {
            if !turns.is_running {
                turns.is_running = true;
                turns.begun += 1;
                return Some(Running { mark: self, number: turns.begun, has_succeeded: false });
            }
            self.ended.wait(&mut turns);
        }
        None
    }
}

/// The sync that runs, until it is dropped.
struct Running<'a> {
    mark: &'a DurableMark,
    number: u64,
    has_succeeded: bool,
}

impl Running<'_> {
    /// Syncs without a look at the mark.
    fn run(mut self, database: &Database, health: &Health, turns: &LogTurns) -> Result<()> {
        let mark = self.mark;
        let _turn = (!database.is_in_memory()).then(|| turns.before_sync(database.path(), health));
        // Once it has the turn: a write that has failed before it is known then.
        let admission = health.admit_sync()?;
        // Read before the sync: writes that arrive while it runs may not be covered. And before the watcher looks: what it does not see
        // is not covered, so another sync comes for it.
        let covered = database.latest_sequence();
        if let Some(watcher) = mark.watcher.get() {
            watcher.sync_begins();
        }
        // A store in memory has no log.
        if mark.fault != PlantedFault::MarkNotSynced && !database.is_in_memory() {
            // Timed whether it succeeds or not: a sync that fails has often lasted long.
            let begin = Instant::now();
            let synced = database.raw().flush_wal(true);
            mark.syncs.record_since(begin);
            synced.map_err(|error| health.failed(&error))?;
        }
        // The mark stays if another write failed meanwhile: the kernel reports a page that it could not write only
        // once, so the success of this sync may not be believed.
        health.confirm_sync(admission)?;
        mark.raise(covered);
        self.has_succeeded = true;
        Ok(())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Before another one may begin: the watcher knows one sync at a time.
        if let Some(watcher) = self.mark.watcher.get() {
            watcher.sync_ended(self.has_succeeded);
        }
        let mut turns = self.mark.turns.lock();
        turns.is_running = false;
        if self.has_succeeded {
            turns.succeeded = self.number;
        }
        drop(turns);
        self.mark.ended.notify_all();
    }
}
