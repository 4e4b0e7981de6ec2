//! The background thread: it syncs what writes have not synced, raises the witness and runs errands.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::error::{Error, Result};
use base::sync::HAS_BACKGROUND;
use crossbeam::channel::{Receiver, Sender, bounded, select, tick};

use crate::families::Database;
use crate::fork;
use crate::log_thread::LogThread;
use crate::options::Durability;
use crate::quota::watch::QuotaThreads;
use crate::write::Commits;

/// Work that should be done soon, and that no caller waits for.
pub type Errand = Box<dyn FnOnce(&Commits, &Arc<Database>) + Send>;

/// The limit of waiting background jobs. More are dropped: the thread that needs the work does it, or leaves it
/// again.
const ERRANDS_MAX: usize = 256;

/// The queue of errands.
#[derive(Clone)]
pub struct Errands {
    sender: Sender<Errand>,
}

impl Errands {
    /// Queues an errand and returns at once. The errand is dropped if too many wait, or if the store closes before it
    /// runs.
    pub fn leave(&self, errand: Errand) {
        // No error: each user of errands does the work itself when it finds that it was not done, or leaves it again.
        let _ = self.sender.try_send(errand);
    }
}

/// The handle of the background thread. Dropping it stops the thread.
pub(super) struct Background {
    errands: Errands,
    /// Emptied by the drop: closing this channel stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Dropped, and so stopped, after this thread.
    _quota: Option<QuotaThreads>,
    _log: Option<LogThread>,
}

impl Background {
    /// Starts the thread, which syncs as often as `durability` says. Returns `None` where a store has no threads.
    pub(super) fn start(
        database: &Arc<Database>,
        commits: &Arc<Commits>,
        durability: Durability,
    ) -> Result<Option<Self>> {
        if !HAS_BACKGROUND {
            return Ok(None);
        }
        let quota = QuotaThreads::start_if_needed(database)?;
        let log = LogThread::start_if_needed(database, commits, durability)?;
        // Nothing is ever sent on `stop`; the thread sees that it was closed.
        let (stop, stopped) = bounded(0);
        let (sender, errands) = bounded(ERRANDS_MAX);
        let work = SyncThread {
            database: Arc::clone(database),
            commits: Arc::clone(commits),
            interval: durability.sync_interval(),
            stopped,
            errands,
        };
        let thread = std::thread::Builder::new()
            .name("cairndb-sync".to_owned())
            .spawn(move || work.run())
            .map_err(|error| Error::io("start the thread of the background sync", None, error))?;
        let errands = Errands { sender };
        Ok(Some(Self { errands, stop: Some(stop), thread: Some(thread), _quota: quota, _log: log }))
    }

    pub(super) fn errands(&self) -> Errands {
        self.errands.clone()
    }
}

impl Drop for Background {
    /// Waits for the errand that is running. Those that wait are dropped.
    fn drop(&mut self) {
        if fork::is_child() {
            // A forked child has a copy of the channels but not the thread, which may have held a lock of theirs.
            // Dropping their last ends would wait for that lock for ever.
            std::mem::forget((self.stop.take(), self.thread.take(), self.errands.clone()));
            return;
        }
        // Dropping the sender is the signal. The thread drops its handle of the database before it ends, so after the
        // join the caller can close the database.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the background thread ended by a panic");
        }
    }
}

/// The shortest time between two raises of the witness. Each costs two syncs.
const WITNESS_INTERVAL: Duration = Duration::from_secs(1);

/// Says when the witness is to be raised.
struct Schedule {
    last: Instant,
}

impl Schedule {
    fn starting_now() -> Self {
        Self { last: Instant::now() }
    }

    /// Returns whether the interval is over. If so, the next one begins.
    fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= WITNESS_INTERVAL;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// The state of the background thread.
struct SyncThread {
    database: Arc<Database>,
    commits: Arc<Commits>,
    interval: Duration,
    stopped: Receiver<()>,
    errands: Receiver<Errand>,
}

impl SyncThread {
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
                    // A store that rejects writes never accepts them again while it is open: nothing is left to do.
                    if self.commits.health.admit_write().is_err() {
                        return;
                    }
                    if let Some(room) = self.database.disk_room() {
                        room.look_from_time_to_time(self.database.path());
                    }
                    // Memtables have grown since, or filters.
                    self.database.fit_record_leaves();
                    // On a full disk there is no sync until a commit has succeeded.
                    if self.commits.health.admit_sync().is_ok() {
                        self.sync();
                        self.raise_witness(&mut witness_due);
                    }
                }
            }
        }
    }

    fn sync(&self) {
        if self.commits.durable.sequence() >= self.database.latest_sequence() {
            return;
        }
        // Buffered commits write no stamp, which would cost time. So each sync here is followed by one.
        let synced = self.commits.sync(&self.database).and_then(|()| self.commits.stamp(&self.database));
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
