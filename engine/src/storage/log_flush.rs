//! The end of the log in memory, and its way to the operating system: delayed durability.
//!
//! RocksDB then keeps what it appends to the log in a buffer. It hands the buffer over when it is full, before a memtable is
//! replaced, at each sync, and when it is told to: by a thread, once in an interval, and by a write that asks for it. What is
//! handed over is always a beginning of the log, so that a process that dies loses an end of its writes and nothing between.
//!
//! Threads share this as they share syncs: one that finds its write handed over by another returns.
//!
//! If the buffer cannot be written, RocksDB drops it, and accepts no write any more: memtables hold what the log has not, and
//! if it wrote them to tables one by one and the process died between two, half of a write would come back. So the disk may
//! not be full even once: see `health`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, bounded, select, tick};

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::storage::families::Database;
use crate::storage::fork;
use crate::storage::health::Health;
use crate::storage::write::Commits;
use crate::sync::{AtomicU64, Mutex};

/// How far the log was handed to the operating system.
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

/// The thread that hands the log over. Dropping it stops it.
pub(super) struct LogThread {
    /// Taken by the drop: closing this channel stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Starts the thread where the log ends in memory.
    pub(super) fn start_if_needed(
        database: &Arc<Database>,
        commits: &Arc<Commits>,
        durability: Durability,
    ) -> Result<Option<Self>> {
        let Some(interval) = durability.write_interval() else { return Ok(None) };
        // A store in memory has no log.
        if database.is_in_memory() {
            return Ok(None);
        }
        let (stop, stopped) = bounded(0);
        let (database, commits) = (Arc::clone(database), Arc::clone(commits));
        let thread = std::thread::Builder::new()
            .name("cairndb-log".to_owned())
            .spawn(move || hand_over_at_times(&database, &commits, interval, &stopped))
            .map_err(|error| Error::io("start the thread that writes the log", None, error))?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        if fork::is_child() {
            // The thread does not exist here, and may have held a lock of the channel.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the log ended by a panic");
        }
    }
}

/// Hands the log over once in `interval`, until the channel is closed. What is left then, the last sync hands over.
fn hand_over_at_times(database: &Database, commits: &Commits, interval: Duration, stopped: &Receiver<()>) {
    let ticks = tick(interval);
    loop {
        select! {
            recv(stopped) -> _ => return,
            recv(ticks) -> _ => {
                // A store that refuses writes never accepts them again while it is open.
                if commits.health.admit_write().is_err() {
                    return;
                }
                if let Err(error) = commits.hand_over(database) {
                    tracing::warn!(%error, "the log could not be written");
                }
            }
        }
    }
}
