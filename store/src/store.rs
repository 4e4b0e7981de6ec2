//! The open store: its gate, which `close` waits at, and what an operation does with the store as a whole.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use base::sync::{Mutex, ShardedLock, ShardedLockReadGuard};
use crossbeam::channel::bounded;

use crate::disk_room::DiskRoom;
use crate::durability::CommitLevel;
use crate::durable_mark::SyncWatcher;
use crate::families::{Database, Family};
use crate::fork;
use crate::latch::{Latched, Latches};
use crate::record_cache::ReadRecord;
use crate::recovery::RecoveryReport;
use crate::sync::{Background, Errands};
use crate::write::{Batch, Commits, RecordBytes};

/// The longest wait of closing for RocksDB after a full disk.
const RELEASE_MAX: Duration = Duration::from_secs(30);

/// An open database folder.
pub struct Store {
    /// Every operation holds it shared. `close` holds it exclusively and moves the database out.
    pub(super) gate: ShardedLock<Option<Arc<Database>>>,
    pub(super) commits: Arc<Commits>,
    /// The latches of keys.
    pub latches: Arc<Latches>,
    /// `None` in a store that is opened for reading.
    pub(super) errands: Option<Errands>,
    pub(super) background: Mutex<Option<Background>>,
    pub(super) recovery: RecoveryReport,
    /// The version of the format that the folder had before this opening has upgraded it.
    pub upgraded_from: Option<u32>,
}

/// Shared use of the open database during one operation. `close` waits until it is dropped.
pub struct InUse<'a> {
    guard: ShardedLockReadGuard<'a, Option<Arc<Database>>>,
}

impl Store {
    /// Keeps the database open until the guard is dropped.
    #[inline]
    pub fn enter(&self) -> Result<InUse<'_>> {
        // Before the lock: in a forked child it may be held by a thread that does not exist there.
        fork::refuse_child()?;
        // A panic under the guard leaves nothing half done in an `Option`, so poisoning is ignored.
        let guard = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(Error::new(ErrorKind::Closed));
        }
        Ok(InUse { guard })
    }

    /// Fails once the store is being closed. It acquires no lock, so it can be asked while the database is in use.
    #[inline]
    pub fn refuse_closing(&self) -> Result<()> {
        if self.commits.is_closing.load(Ordering::Relaxed) {
            Err(Error::new(ErrorKind::Closed))
        } else {
            Ok(())
        }
    }

    /// The path of every commit and sync.
    #[inline]
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// The queue of the background thread. Returns `None` in a store that is opened for reading.
    #[inline]
    pub fn errands(&self) -> Option<&Errands> {
        self.errands.as_ref()
    }

    /// Closes the store: waits for running operations, syncs, and releases the folder.
    ///
    /// `ends` runs when no operation can run any more and the database is still open, and after it `last`, unless the store rejects writes.
    pub fn close(&self, ends: impl FnOnce(), last: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        fork::refuse_child()?;
        self.commits.is_closing.store(true, Ordering::Relaxed);
        // Operations end before the background thread does: until then it syncs what they write and runs their errands.
        let taken = self.gate.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.background.lock().take());
        let Some(database) = taken else { return Ok(()) };
        ends();
        // The database is released even if its end could not be written; the error is returned after that.
        let finished = self.finish(&database, last);
        // The remaining owners of the database are open cursors: operations have ended, and the thread has too.
        let cursors = Arc::strong_count(&database) - 1;
        let released = self.release(database);
        finished.and(released)?;
        if cursors > 0 {
            return Err(Error::new(ErrorKind::CursorsOpen { cursors }));
        }
        Ok(())
    }

    /// Closes RocksDB, if no cursor shares the database.
    fn release(&self, database: Arc<Database>) -> Result<()> {
        if !self.commits.health.may_recover() {
            drop(database);
            return Ok(());
        }
        // Closing waits for the recovery, and the recovery for flushes that closing may keep from beginning. Warned first, the
        // recovery gives up. The log has what it would have flushed.
        database.raw().cancel_all_background_work(false);
        // Should it wait all the same, the caller must not wait with it.
        let (done, is_done) = bounded(1);
        let thread = std::thread::Builder::new().name("cairndb-close".to_owned()).spawn(move || {
            drop(database);
            // No error: the caller has given up waiting.
            let _ = done.send(());
        });
        thread.map_err(|error| Error::io("start the thread that closes RocksDB", None, error))?;
        is_done.recv_timeout(RELEASE_MAX).map_err(|_| {
            let message =
                "RocksDB does not end its recovery from a full disk; the folder stays locked until the \
                           process ends"
                    .to_owned();
            Error::new(ErrorKind::NoSpace { message, during_commit: false })
        })
    }

    fn finish(&self, database: &Database, last: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        if self.commits.health.is_read_only() {
            return Ok(());
        }
        self.admit_write()?;
        // The witness comes last, so that it covers the last write.
        last(database)?;
        self.sync(database)?;
        self.commits.raise_witness(database)
    }

    /// The ends of files that were left out when the store was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Writes the batch as a whole, or not at all.
    ///
    /// On an I/O error the outcome is unknown until the next open, and the error says so.
    #[inline]
    pub fn commit(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        self.commits.commit(batch, level)
    }

    /// Writes a batch of documents, whose latches are held, as a whole, or not at all.
    #[inline]
    pub fn commit_latched(
        &self,
        batch: Batch<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        self.commits.commit_latched(batch, level, latched)
    }

    /// Writes a batch of documents, as [`commit_latched`](Self::commit_latched) does, that is to reach `level` afterwards, by
    /// [`reach`](Self::reach). Readers see it before.
    pub fn write_latched(
        &self,
        batch: Batch<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        self.commits.write_latched(batch, level, latched)
    }

    /// Returns once what the caller has written has reached a level.
    pub fn reach(&self, database: &Database, level: CommitLevel) -> Result<()> {
        self.commits.reach(database, level)
    }

    /// Writes a change of what exists: collections, indexes, definitions of sequences. Once it has changed what is in memory
    /// too, the caller syncs it by [`sync_written`](Self::sync_written): if that fails, the change was made all the same.
    pub fn commit_definition(&self, batch: Batch<'_>) -> Result<()> {
        self.commits.write_unsynced(batch)
    }

    /// Returns once what the caller has written is on stable storage. If it fails, the outcome is unknown until the next open,
    /// and the error says so.
    pub fn sync_written(&self, database: &Database) -> Result<()> {
        self.commits.sync_written(database)
    }

    /// Writes the new state of one record, whose latch is held, without building a batch.
    #[inline]
    pub fn commit_changed_record(
        &self,
        database: &Database,
        record: RecordBytes<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let changing = database.record_cache().changing_one(record.key);
        self.commits.commit_record(database, record, level, latched)?;
        let read = ReadRecord { key: record.key, bytes: record.document };
        changing.end(read, || database.latest_sequence());
        Ok(())
    }

    /// Writes one new record without building a batch.
    #[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
    #[inline(always)]
    pub fn commit_new_record(
        &self,
        database: &Database,
        record: RecordBytes<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        self.commits.commit_record(database, record, level, latched)
    }

    /// Whether the folder is a copy that goes its own way from now on, and its log of changes has the id of the original's still.
    pub fn is_of_copy(&self) -> bool {
        self.commits.is_of_copy()
    }

    /// Notes that the log of changes of such a copy has an id of its own, which is on stable storage.
    pub fn settle_copy(&self) -> Result<()> {
        self.commits.settle_copy()
    }

    /// Lets a watcher learn of all syncs from now on. A store has one at most.
    pub fn watch_syncs(&self, watcher: Arc<dyn SyncWatcher>) {
        self.commits.durable.watch(watcher);
    }

    /// Returns once everything written before the call is on stable storage.
    pub fn sync(&self, database: &Database) -> Result<()> {
        self.commits.sync(database)
    }

    /// Fails where a write would fail: in a store that is read-only, poisoned or damaged, and in a forked child.
    #[inline]
    pub fn admit_write(&self) -> Result<()> {
        fork::refuse_child()?;
        self.commits.health.admit_write().map(|_admission| ())
    }

    /// Whether the disk is not full, as far as the last commit or sync shows.
    pub fn has_space(&self) -> bool {
        self.commits.health.admit_sync().is_ok()
    }

    /// The newest write known to be on stable storage.
    #[inline]
    pub fn durable_sequence(&self) -> u64 {
        self.commits.durable_sequence()
    }

    /// Waits until everything up to `sequence` is on stable storage, or until a moment. Returns whether it is. It begins no sync.
    pub fn wait_until_durable(&self, sequence: u64, moment: Instant) -> bool {
        // In a forked child the lock may be held by a thread that does not exist there.
        if fork::is_child() {
            return self.durable_sequence() >= sequence;
        }
        self.commits.wait_until_durable(sequence, moment)
    }

    /// Writes memtables to table files, so that RocksDB can delete logs.
    pub fn flush(&self, database: &Database) -> Result<()> {
        self.admit_write()?;
        if let Some(room) = database.disk_room() {
            // The ballast is given up now, and not once the flush has failed.
            room.look(database.path());
        }
        for family in database.families() {
            self.flush_family(database, family)?;
        }
        Ok(())
    }

    /// Writes the memtable of a family. With what is kept for deletes, if there is no other room.
    fn flush_family(&self, database: &Database, family: Family) -> Result<()> {
        let began = Instant::now();
        loop {
            let Err(error) = database.raw().flush_cf(database.family(family)) else { return Ok(()) };
            let error = self.commits.health.failed(&error);
            let recovers = |room: &DiskRoom| error.is_no_space() && room.recovers(database.path(), began);
            if !database.disk_room().is_some_and(recovers) {
                return Err(error);
            }
            self.admit_write()?;
        }
    }
}

impl std::ops::Deref for InUse<'_> {
    type Target = Arc<Database>;

    #[inline]
    fn deref(&self) -> &Arc<Database> {
        self.guard.as_ref().expect("enter() checked that the database is open")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::open::OpenMode;
    use crate::options::Durability;

    /// The time that a sync or a background job may need, however busy the machine is.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Closing once ended the background thread before it waited for operations: what they wrote meanwhile was synced by
    /// nothing, and their errands were dropped.
    #[test]
    fn the_background_thread_works_for_operations_that_closing_waits_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = fixture::options(&folder.path().join("db"), OpenMode::CreateIfMissing);
        options.durability = Durability::Buffered { sync_interval: Duration::from_millis(1) };
        let store = Store::open(&options).expect("made");
        std::thread::scope(|scope| {
            let used = store.enter().expect("open");
            let closing = scope.spawn(|| store.close(|| (), |_| Ok(())));
            while store.refuse_closing().is_ok() {
                std::thread::yield_now();
            }
            // More rounds than a thread can still do that was asked to end.
            for round in 0..50_u32 {
                let key = round.to_be_bytes();
                fixture::insert_into(&store, &used, &key).expect("written");
                let (written, began) = (used.latest_sequence(), Instant::now());
                while store.durable_sequence() < written {
                    assert!(began.elapsed() < PATIENCE, "nothing syncs the write of round {round}");
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            }
            let (done, is_done) = bounded(1);
            let errand =
                Box::new(move |_: &Commits, _: &Arc<Database>| done.send(()).expect("it is waited for"));
            store.errands().expect("it is open for writing").leave(errand);
            is_done.recv_timeout(PATIENCE).expect("the errand is run");
            drop(used);
            closing.join().expect("it does not panic").expect("closed");
        });
    }
}
