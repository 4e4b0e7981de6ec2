//! How far writes are on stable storage, and the thread that pushes them there.
//!
//! A sync is shared: whoever waits behind a running one finds his write covered when his turn comes, and
//! returns without another. The mark only rises, and only after the operating system said that the sync
//! succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::error::Result;
use crate::storage::families::Database;
use crate::storage::health::Health;

/// The newest write known to be on stable storage, by RocksDB's sequence number.
pub(super) struct DurableMark {
    sequence: AtomicU64,
    running: Mutex<()>,
}

impl DurableMark {
    pub(super) fn starting_at(sequence: u64) -> Self {
        Self { sequence: AtomicU64::new(sequence), running: Mutex::new(()) }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Everything up to `sequence` was synced by a commit of its own.
    pub(super) fn raise(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns once every write that was finished before the call is on stable storage.
    pub(super) fn sync(&self, database: &Database, health: &Health) -> Result<()> {
        let wanted = database.latest_sequence();
        if self.sequence() >= wanted {
            return Ok(());
        }
        let _running = self.running.lock();
        if self.sequence() >= wanted {
            return Ok(());
        }
        health.admit_sync()?;
        let covered = database.latest_sequence();
        match database.raw().flush_wal(true) {
            Ok(()) => {
                health.succeeded();
                self.raise(covered);
                Ok(())
            }
            Err(error) => Err(health.failed(&error)),
        }
    }
}

/// Syncs what buffered writes left behind, once an interval, for as long as it lives.
pub(super) struct SyncThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start(
        database: &Arc<Database>,
        health: &Arc<Health>,
        durable: &Arc<DurableMark>,
        interval: Duration,
    ) -> Result<Self> {
        let (stop, stopped) = bounded(0);
        let (database, health, durable) = (Arc::clone(database), Arc::clone(health), Arc::clone(durable));
        let thread = std::thread::Builder::new()
            .name("cairndb-sync".to_owned())
            .spawn(move || run(&database, &health, &durable, interval, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        // Dropping the sender is the signal; the thread releases its hold on the database before it ends.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the background sync ended by a panic");
        }
    }
}

fn run(
    database: &Database,
    health: &Health,
    durable: &DurableMark,
    interval: Duration,
    stopped: &Receiver<()>,
) {
    while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        if health.admit_write().is_err() {
            return;
        }
        if durable.sequence() < database.latest_sequence()
            && health.admit_sync().is_ok()
            && let Err(error) = durable.sync(database, health)
        {
            tracing::warn!(%error, "the background sync failed");
        }
    }
}
