//! The thread that hands the log to the operating system once in an interval, with delayed durability: see `log_flush`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::error::{Error, Result};
use crossbeam::channel::{Receiver, Sender, bounded, select, tick};

use crate::families::Database;
use crate::fork;
use crate::options::Durability;
use crate::write::Commits;

/// The thread that hands the log over. Dropping it stops it.
pub(super) struct LogThread {
    /// Emptied by the drop: closing this channel stops the thread.
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
                // A store that rejects writes never accepts them again while it is open.
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
