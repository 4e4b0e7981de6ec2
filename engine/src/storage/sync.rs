//! How far writes are on stable storage, and the thread that pushes them there and runs errands.
//!
//! A sync is shared: whoever waits behind a running one finds his write covered when his turn comes, and
//! returns without another. The mark only rises, and only after the operating system said that the sync
//! succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, bounded, select, tick};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::storage::families::Database;
use crate::storage::fork;
use crate::storage::health::Health;
use crate::storage::write::Commits;

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
        self.sync_now(database, health)
    }

    /// Returns once every byte of the log that was written before the call is on stable storage, also if nothing in it has
    /// a number.
    pub(super) fn sync_log(&self, database: &Database, health: &Health) -> Result<()> {
        let _running = self.running.lock();
        self.sync_now(database, health)
    }

    /// One at a time: the caller holds the lock.
    fn sync_now(&self, database: &Database, health: &Health) -> Result<()> {
        let admission = health.admit_sync()?;
        let covered = database.latest_sequence();
        database.raw().flush_wal(true).map_err(|error| health.failed(&error))?;
        health.confirm_sync(admission)?;
        self.raise(covered);
        Ok(())
    }
}

/// Something that others need done soon, and do not wait for.
pub(crate) type Errand = Box<dyn FnOnce(&Commits, &Arc<Database>) + Send>;

/// How many errands may wait; more are refused, and whoever needs them done does them.
const ERRANDS_MAX: usize = 256;

/// Where errands are left.
#[derive(Clone)]
pub(crate) struct Errands {
    sender: Sender<Errand>,
}

impl Errands {
    /// Leaves an errand, without waiting. It may be forgotten: when too many wait, and when the store closes.
    pub(crate) fn leave(&self, errand: Errand) {
        // An errand that is not taken is one that whoever needs it does by itself.
        let _ = self.sender.try_send(errand);
    }
}

/// The thread in the background: it syncs what buffered writes left behind, once an interval, and runs errands.
pub(super) struct Background {
    errands: Errands,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(
        database: &Arc<Database>,
        commits: &Arc<Commits>,
        interval: Duration,
    ) -> Result<Self> {
        let (stop, stopped) = bounded(0);
        let (sender, errands) = bounded(ERRANDS_MAX);
        let work =
            Work { database: Arc::clone(database), commits: Arc::clone(commits), interval, stopped, errands };
        let thread = std::thread::Builder::new()
            .name("cairndb-sync".to_owned())
            .spawn(move || work.run())
            .map_err(|error| Error::io("start the thread of the background sync", None, error))?;
        Ok(Self { errands: Errands { sender }, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn errands(&self) -> Errands {
        self.errands.clone()
    }
}

impl Drop for Background {
    /// Waits for the errand that runs; the others are forgotten.
    fn drop(&mut self) {
        if fork::is_child() {
            // The thread is not there, and may hold a lock of the channels: their last ends must never be dropped.
            std::mem::forget((self.stop.take(), self.thread.take(), self.errands.clone()));
            return;
        }
        // Dropping the sender is the signal; the thread releases its hold on the database before it ends.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the background thread ended by a panic");
        }
    }
}

/// How often the witness is raised at most.
const WITNESS_INTERVAL: Duration = Duration::from_secs(1);

/// When the witness is to be raised next.
struct Schedule {
    last: Instant,
}

impl Schedule {
    fn starting_now() -> Self {
        Self { last: Instant::now() }
    }

    /// Whether the time has come, which is then the start of the next interval.
    fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= WITNESS_INTERVAL;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// What the thread has.
struct Work {
    database: Arc<Database>,
    commits: Arc<Commits>,
    interval: Duration,
    stopped: Receiver<()>,
    errands: Receiver<Errand>,
}

impl Work {
    fn run(self) {
        let ticks = tick(self.interval);
        let mut witness_due = Schedule::starting_now();
        loop {
            select! {
                recv(self.stopped) -> _ => return,
                recv(self.errands) -> errand => {
                    if let Ok(errand) = errand {
                        errand(&self.commits, &self.database);
                    }
                }
                recv(ticks) -> _ => {
                    if self.commits.health.admit_write().is_err() {
                        return;
                    }
                    if self.commits.health.admit_sync().is_ok() {
                        self.sync();
                        self.raise_witness(&mut witness_due);
                    }
                }
            }
        }
    }

    fn sync(&self) {
        let Commits { health, durable, .. } = &*self.commits;
        if durable.sequence() >= self.database.latest_sequence() {
            return;
        }
        // Buffered commits have no stamp of their own, so that they cost nothing: one follows each sync.
        let synced = durable.sync(&self.database, health).and_then(|()| self.commits.stamp(&self.database));
        if let Err(error) = synced {
            tracing::warn!(%error, "the background sync failed");
        }
    }

    fn raise_witness(&self, due: &mut Schedule) {
        if due.is_due()
            && let Err(error) = self.commits.raise_witness(&self.database)
        {
            tracing::warn!(%error, "the witness of what is on stable storage could not be written");
        }
    }
}
