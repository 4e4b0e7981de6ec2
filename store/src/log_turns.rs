//! Writes and syncs of the log take turns where the disk is nearly full.
//!
//! A write that fails makes RocksDB reject every later use of that log ("Writer has previous error") until it has replaced the
//! log, and when it learns of a full disk it recovers by itself. But if a sync meets the log between the failure and its
//! report, or a write meets it while a sync fails, RocksDB mistakes the rejection for a failing disk, which is worse than a full one:
//! it ends all writes until the folder is opened again. So where a write may fail for want of space, no sync begins while one
//! runs, and none before its failure is known here. Elsewhere writes pay for one look at a flag.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::sync::{AtomicBool, ShardedLock, ShardedLockWriteGuard};

use crate::disk::free_bytes;
use crate::health::Health;
use crate::stall::{Refused, WriteResult};

/// With fewer free bytes than this a disk is nearly full: more than is written in the moment between a look at the disk and a
/// sync.
const SCARCE_BYTES: u64 = 256 << 20;

/// The turns of a store. Writes share one, a sync has one alone.
pub(super) struct LogTurns {
    /// Whether the disk was nearly full at the last sync. Until the first one it counts as nearly full.
    is_scarce: AtomicBool,
    lock: ShardedLock<()>,
}

/// The turn of a sync, where it needs one.
pub(super) struct SyncTurn<'a> {
    _lock: Option<ShardedLockWriteGuard<'a, ()>>,
}

impl LogTurns {
    pub(super) fn new() -> Self {
        Self { is_scarce: AtomicBool::new(true), lock: ShardedLock::new(()) }
    }

    /// The turns of a store without a log: none is used.
    pub(super) fn without_log() -> Self {
        // No sync comes that would look at the disk, so this stays.
        Self { is_scarce: AtomicBool::new(false), lock: ShardedLock::new(()) }
    }

    /// Runs a write of the log, and notes what comes of it.
    #[inline]
    pub(super) fn write(
        &self,
        health: &Health,
        write: impl FnOnce() -> Result<(), rocksdb::Error>,
    ) -> WriteResult {
        // A panic under the guard leaves nothing half done: it guards no value.
        let is_scarce = self.is_scarce.load(Ordering::Relaxed);
        let _turn = is_scarce.then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner));
        // Noted within the turn, so that no sync begins without knowing of a failure.
        write().map_err(|error| Refused::noted(health, &error))
    }

    /// Waits for the turn of a sync of the store in `folder`.
    pub(super) fn before_sync(&self, folder: &Path, health: &Health) -> SyncTurn<'_> {
        // Once it was full it may be full again, and a quota of the file system is not seen in its free bytes.
        let is_scarce = health.may_recover() || free_bytes(folder).is_some_and(|free| free < SCARCE_BYTES);
        self.is_scarce.store(is_scarce, Ordering::Relaxed);
        let lock = is_scarce.then(|| self.lock.write().unwrap_or_else(PoisonError::into_inner));
        SyncTurn { _lock: lock }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool as Flag;
    use std::thread;

    use super::*;

    /// The order that made RocksDB mistake a full disk for a failing one.
    #[track_caller]
    fn sync_waits_for_a_write_that_fails(has_looked: bool) {
        let (turns, health, is_writing) = (&LogTurns::new(), &Health::open(), &Flag::new(false));
        health.failed_io(&std::io::ErrorKind::StorageFull.into());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        if has_looked {
            drop(turns.before_sync(folder, health));
        }
        let admission = health.admit_write().expect("a full disk is tried again");
        health.succeeded(admission);
        thread::scope(|scope| {
            let fails = || {
                is_writing.store(true, Ordering::SeqCst);
                // The sync that waits for its turn is most probably waiting by now; if not, it finds the same.
                (0..1000).for_each(|_| thread::yield_now());
                let opened = rocksdb::DB::open_for_read_only(&rocksdb::Options::default(), folder, false);
                Err(opened.expect_err("there is no database"))
            };
            let writer = scope.spawn(move || turns.write(health, fails));
            while !is_writing.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let _turn = turns.before_sync(folder, health);
            assert!(health.admit_sync().is_err(), "the sync began before the failure was known");
            assert!(writer.join().expect("it does not panic").is_err());
        });
    }

    #[test]
    fn no_sync_begins_before_a_write_that_fails_has_told_so() {
        sync_waits_for_a_write_that_fails(true);
    }

    /// A store that was just opened on a full disk.
    #[test]
    fn the_first_sync_waits_too() {
        sync_waits_for_a_write_that_fails(false);
    }
}
