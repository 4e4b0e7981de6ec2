//! The threads of a quota. One looks whether compactions must pause, because a cursor keeps the tables that they replace and
//! there is no room for both: from time to time, and for each compaction that is about to begin.

use std::sync::Arc;
use std::time::Duration;

use base::error::Result;
use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};

use crate::families::Database;
use crate::paused::PausedCompactions;
use crate::quota::reclaim::Reclaimer;
use crate::quota::room;
use crate::quota::state::Quota;
use crate::quota::worker::Worker;

/// The interval of checks whether compactions must pause: while something writes, and while nothing does.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// The threads of a quota. Dropping it stops them.
pub(crate) struct QuotaThreads {
    // Stopped first: compactions that it began wait for the other one.
    _reclaimer: Worker,
    _watcher: Worker,
}

impl QuotaThreads {
    /// Starts the threads, if the database has a quota.
    pub(crate) fn start_if_needed(database: &Arc<Database>) -> Result<Option<Self>> {
        let Some(quota) = database.quota() else { return Ok(None) };
        let watcher = Watcher::start(database, quota)?;
        Ok(Some(Self { _reclaimer: Reclaimer::start(database, quota)?, _watcher: watcher }))
    }
}

/// The thread that looks.
struct Watcher {
    database: Arc<Database>,
}

impl Watcher {
    fn start(database: &Arc<Database>, quota: &Quota) -> Result<Worker> {
        let (wake, woken) = bounded(1);
        quota.gate.guard(wake);
        let work = Self { database: Arc::clone(database) };
        let end = |quota: &Quota| quota.gate.leave_open();
        Worker::start("cairndb-quota", database, move || work.run(&woken), Box::new(end))
    }

    fn run(&self, woken: &Receiver<()>) {
        let Some(quota) = self.database.quota() else { return };
        let mut paused = None;
        let mut sequence = 0;
        loop {
            let now = self.database.latest_sequence();
            // A cursor that is opened while compactions run keeps what they replace, though nothing is written any more.
            let is_idle = now == sequence && paused.is_none() && !room::is_busy(&self.database, false);
            sequence = now;
            let interval = if is_idle { IDLE_INTERVAL } else { LOOK_INTERVAL };
            if let Err(RecvTimeoutError::Disconnected) = woken.recv_timeout(interval) {
                return;
            }
            // Before the look: what arrives meanwhile needs another one.
            let arrived = quota.gate.arrived();
            if let Err(error) = self.look(quota, &mut paused) {
                tracing::warn!(%error, "it could not be seen whether there is room for compactions");
            }
            quota.gate.let_pass(arrived);
        }
    }

    /// Pauses compactions, or lets them go on.
    fn look<'a>(&'a self, quota: &Quota, paused: &mut Option<Vec<PausedCompactions<'a>>>) -> Result<()> {
        if !quota.must_pause(&self.database)? {
            *paused = None;
        } else if paused.is_none() {
            let pause = |family| PausedCompactions::of(&self.database, family);
            *paused = Some(self.database.families().map(pause).collect::<Result<_>>()?);
        }
        Ok(())
    }
}

impl Drop for Watcher {
    /// Nothing waits for a thread that has ended, by a panic too.
    fn drop(&mut self) {
        if let Some(quota) = self.database.quota() {
            quota.gate.leave_open();
        }
    }
}
