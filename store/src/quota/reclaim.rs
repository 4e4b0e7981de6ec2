//! Makes the room of deleted keys free: RocksDB keeps what was deleted until compactions meet it, and without new writes
//! that may be never.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::Result;
use base::sync::{self, AtomicBool};
use crossbeam::channel::{Receiver, bounded};
use rocksdb::BottommostLevelCompaction;

use crate::compaction::{self, CompactedRange};
use crate::families::Database;
use crate::quota::room;
use crate::quota::state::{Quota, Span};
use crate::quota::worker::Worker;
use crate::translate;

/// The longest wait for readers that began before something was deleted, and the pause between two checks.
const READERS_PATIENCE: Duration = Duration::from_millis(100);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The thread that reclaims.
pub(super) struct Reclaimer {
    database: Arc<Database>,
    stop: Arc<AtomicBool>,
}

impl Reclaimer {
    /// Starts the thread.
    pub(super) fn start(database: &Arc<Database>, quota: &Quota) -> Result<Worker> {
        let (wake, woken) = bounded(1);
        *quota.deleted.wake.lock() = Some(wake);
        let stop = Arc::new(AtomicBool::new(false));
        let work = Self { database: Arc::clone(database), stop: Arc::clone(&stop) };
        let end = move |quota: &Quota| {
            stop.store(true, Ordering::Relaxed);
            drop(quota.deleted.wake.lock().take());
        };
        Worker::start("cairndb-reclaim", database, move || work.run(&woken), Box::new(end))
    }

    fn run(&self, woken: &Receiver<()>) {
        let Some(quota) = self.database.quota() else { return };
        while woken.recv().is_ok() {
            let asked = quota.deleted.asked.load(Ordering::Acquire);
            if let Err(error) = self.reclaim(quota) {
                tracing::warn!(%error, "the room of deleted documents could not be made free");
            }
            quota.deleted.done.store(asked, Ordering::Release);
        }
    }

    /// Waits for readers that may see what was deleted by now, which compactions keep for them. Returns `false` if one of them
    /// lasts long.
    fn outlives_readers(&self) -> bool {
        let (deleted, began) = (self.database.latest_sequence(), Instant::now());
        while room::oldest_snapshot(&self.database).is_some_and(|oldest| oldest < deleted) {
            if began.elapsed() > READERS_PATIENCE || self.stop.load(Ordering::Relaxed) {
                return false;
            }
            sync::sleep(LOOK_INTERVAL);
        }
        true
    }

    fn reclaim(&self, quota: &Quota) -> Result<()> {
        if quota.are_compactions_paused() {
            quota.is_kept.store(quota.is_pinned(), Ordering::Release);
            return Ok(());
        }
        if !self.outlives_readers() {
            quota.is_kept.store(true, Ordering::Release);
            return Ok(());
        }
        quota.is_kept.store(false, Ordering::Release);
        let raw = self.database.raw();
        let mut spans = std::mem::take(&mut *quota.deleted.spans.lock());
        // Deletions in memtables are not met by compactions. And the logs go, which only memtables need.
        for family in self.database.families() {
            raw.flush_cf(self.database.family(family)).map_err(translate::read)?;
        }
        while let Some(((number, whose), span)) = spans.pop_first() {
            let mut families = self.database.families();
            let Some(family) = families.find(|family| self.database.number(*family) == number) else {
                continue;
            };
            let range = CompactedRange { family, first: span.first.clone(), last: Some(span.last.clone()) };
            // Small steps, because RocksDB does not end one, though a cursor was opened meanwhile.
            for step in compaction::steps(&self.database, &range)? {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if quota.are_compactions_paused() {
                    let rest = Span { first: step.first, last: span.last };
                    spans.insert((number, whose), rest);
                    quota.deleted.put_back(spans);
                    quota.is_kept.store(quota.is_pinned(), Ordering::Release);
                    return Ok(());
                }
                // The others may make room all the same.
                if let Err(error) =
                    step.run(&self.database, BottommostLevelCompaction::IfHaveCompactionFilter)
                {
                    tracing::warn!(%error, "a part of the room of deleted documents could not be made free");
                }
            }
        }
        Ok(())
    }
}
