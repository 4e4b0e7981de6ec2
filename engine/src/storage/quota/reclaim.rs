//! Makes the room of deleted keys free: RocksDB keeps what was deleted until compactions meet it, and without new writes
//! that may be never. And pauses compactions as long as a cursor keeps the tables that they replace, and there is no room for
//! both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use rocksdb::CompactOptions;

use crate::error::{Error, Result};
use crate::storage::families::{Database, Family};
use crate::storage::fork;
use crate::storage::paused::PausedCompactions;
use crate::storage::quota::room;
use crate::storage::quota::state::{Quota, Span};
use crate::storage::translate;
use crate::sync::{self, AtomicBool};

/// How many tables of the last level one step compacts, after which it is looked whether to go on.
const TABLES_IN_STEP: usize = 8;
/// How often is looked whether compactions must pause: while something writes, and while nothing does.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// How long is waited for readers that began before something was deleted.
const READERS_PATIENCE: Duration = Duration::from_millis(100);

/// The handle of the thread that reclaims. Dropping it stops the thread.
pub(crate) struct Reclaimer {
    database: Arc<Database>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reclaimer {
    /// Starts the thread, if the database has a quota.
    pub(crate) fn start_if_needed(database: &Arc<Database>) -> Result<Option<Self>> {
        let Some(quota) = database.quota() else { return Ok(None) };
        let (wake, woken) = bounded(1);
        *quota.deleted.wake.lock() = Some(wake);
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work { database: Arc::clone(database), stop: Arc::clone(&stop) };
        let thread = std::thread::Builder::new()
            .name("cairndb-reclaim".to_owned())
            .spawn(move || work.run(&woken))
            .map_err(|error| Error::io("start the thread that makes room under a quota", None, error))?;
        Ok(Some(Self { database: Arc::clone(database), stop, thread: Some(thread) }))
    }
}

impl Drop for Reclaimer {
    /// Waits for the step that is running.
    fn drop(&mut self) {
        if fork::is_child() {
            // The thread does not exist here, and may have held a lock.
            std::mem::forget((Arc::clone(&self.database), self.thread.take()));
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        if let Some(quota) = self.database.quota() {
            drop(quota.deleted.wake.lock().take());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that makes room under a quota ended by a panic");
        }
    }
}

/// What the thread works on.
struct Work {
    database: Arc<Database>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(&self, woken: &Receiver<()>) {
        let Some(quota) = self.database.quota() else { return };
        let mut paused = None;
        let mut sequence = 0;
        loop {
            let now = self.database.latest_sequence();
            // A cursor that is opened while compactions run keeps what they replace, though nothing is written any more.
            let is_idle = now == sequence && paused.is_none() && !room::is_busy(&self.database, false);
            sequence = now;
            let is_asked = match woken.recv_timeout(if is_idle { IDLE_INTERVAL } else { LOOK_INTERVAL }) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = self.look(quota, &mut paused, is_asked) {
                tracing::warn!(%error, "the room of deleted documents could not be made free");
            }
        }
    }

    /// Pauses compactions or lets them go on, and reclaims what was deleted if that was asked for.
    fn look<'a>(
        &'a self,
        quota: &Quota,
        paused: &mut Option<Vec<PausedCompactions<'a>>>,
        is_asked: bool,
    ) -> Result<()> {
        let asked = quota.deleted.asked.load(Ordering::Acquire);
        if quota.must_pause(&self.database)? {
            if paused.is_none() {
                let pause = |family| PausedCompactions::of(&self.database, family);
                *paused = Some(Family::ALL.into_iter().map(pause).collect::<Result<_>>()?);
            }
        } else {
            *paused = None;
        }
        if !is_asked {
            return Ok(());
        }
        let reclaimed = if paused.is_some() {
            quota.is_kept.store(quota.is_pinned(), Ordering::Release);
            Ok(())
        } else {
            self.reclaim(quota)
        };
        quota.deleted.done.store(asked, Ordering::Release);
        reclaimed
    }

    /// Waits for readers that may see what was deleted by now, which compactions keep for them. Returns `false` if one of them
    /// takes long.
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
        if !self.outlives_readers() {
            quota.is_kept.store(true, Ordering::Release);
            return Ok(());
        }
        quota.is_kept.store(false, Ordering::Release);
        let raw = self.database.raw();
        let mut spans = std::mem::take(&mut *quota.deleted.spans.lock());
        // Deletions in memtables are not met by compactions. And the logs go, which only memtables need.
        for family in Family::ALL {
            raw.flush_cf(self.database.family(family)).map_err(translate::read)?;
        }
        let mut options = CompactOptions::default();
        // RocksDB's own compactions go on beside it.
        options.set_exclusive_manual_compaction(false);
        while let Some(((number, whose), span)) = spans.pop_first() {
            let mut families = Family::ALL.into_iter();
            let Some(family) = families.find(|family| self.database.number(*family) == number) else {
                continue;
            };
            for Span { first, last } in self.steps(family, &span)? {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if quota.must_pause(&self.database)? {
                    let rest = Span { first, last: span.last };
                    spans.insert((number, whose), rest);
                    quota.deleted.put_back(spans);
                    quota.is_kept.store(quota.is_pinned(), Ordering::Release);
                    return Ok(());
                }
                raw.compact_range_cf_opt(
                    self.database.family(family),
                    Some(first.as_slice()),
                    Some(last.as_slice()),
                    &options,
                );
            }
        }
        Ok(())
    }

    /// Cuts a span where tables of the last level begin.
    fn steps(&self, family: Family, span: &Span) -> Result<Vec<Span>> {
        let files = self.database.raw().live_files().map_err(translate::read)?;
        let files = files.into_iter().filter(|file| file.column_family_name == family.name());
        let mut starts: Vec<_> = files.filter_map(|file| Some((file.level, file.start_key?))).collect();
        let last_level = starts.iter().map(|(level, _)| *level).max().unwrap_or(0);
        starts.retain(|(level, start)| *level == last_level && *start > span.first && *start < span.last);
        // RocksDB lists a level by its keys, but does not promise it.
        starts.sort();
        let cuts =
            starts.into_iter().skip(TABLES_IN_STEP - 1).step_by(TABLES_IN_STEP).map(|(_, start)| start);
        let mut first = span.first.clone();
        let mut steps = Vec::new();
        for cut in cuts {
            steps.push(Span { first: std::mem::replace(&mut first, cut.clone()), last: cut });
        }
        steps.push(Span { first, last: span.last.clone() });
        Ok(steps)
    }
}
