//! The only place that names `rocksdb`: opening, reading, writing and keeping the folder safe.
//!
//! Above this module nothing knows of column families' handles, WAL or checkpoints; it sees a [`Store`],
//! keys, snapshots, scans and batches. A RocksDB error is translated once, here.

mod durability;
mod families;
mod folder;
mod health;
mod open;
mod preflight;
mod private;
mod processor;
mod translate;
mod tuning;
mod witness;

pub(crate) mod fork;
pub(crate) mod format;
pub(crate) mod handles;
pub(crate) mod keys;
pub(crate) mod latch;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod sync;
pub(crate) mod write;

#[cfg(test)]
mod tests;

pub(crate) use self::families::{Database, Family};
pub(crate) use self::open::{OpenMode, StoreOptions};

use std::sync::{Arc, PoisonError};

use crossbeam::sync::{ShardedLock, ShardedLockReadGuard};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::results::RecoveryReport;
use crate::storage::latch::Latches;
use crate::storage::sync::{Background, Errands};
use crate::storage::write::Commits;

/// An open database folder.
pub(crate) struct Store {
    /// Held shared by every operation and exclusively by `close`, which takes the database out.
    gate: ShardedLock<Option<Arc<Database>>>,
    commits: Arc<Commits>,
    pub(crate) latches: Latches,
    /// Nothing in a store that is opened for reading.
    errands: Option<Errands>,
    background: Mutex<Option<Background>>,
    recovery: RecoveryReport,
}

/// Shared use of the open database for the length of one operation; `close` waits for it.
pub(crate) struct InUse<'a> {
    guard: ShardedLockReadGuard<'a, Option<Arc<Database>>>,
}

impl Store {
    /// Keeps the database open until the guard is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> Result<InUse<'_>> {
        fork::refuse_child()?;
        let guard = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(Error::new(ErrorKind::Closed));
        }
        Ok(InUse { guard })
    }

    /// What every commit and sync goes through.
    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Where work for the background is left.
    pub(crate) fn errands(&self) -> Option<&Errands> {
        self.errands.as_ref()
    }

    /// Takes the database out of use: waits for running operations, syncs, and releases the folder.
    ///
    /// `before_release` runs when no operation can run any more and the database is still there.
    pub(crate) fn close(&self, before_release: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        fork::refuse_child()?;
        // Operations first: what they write until then is still synced in the background, and their errands run.
        let taken = self.gate.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.background.lock().take());
        let Some(database) = taken else { return Ok(()) };
        let finished = self.finish(&database, before_release);
        let cursors = Arc::strong_count(&database) - 1;
        drop(database);
        finished?;
        if cursors > 0 {
            return Err(Error::new(ErrorKind::CursorsOpen { cursors }));
        }
        Ok(())
    }

    fn finish(&self, database: &Database, last: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        if self.commits.health.is_read_only() {
            return Ok(());
        }
        self.admit_write()?;
        last(database)?;
        self.sync(database)?;
        self.commits.raise_witness(database)
    }

    /// What opening left out.
    pub(crate) fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }
}

impl std::ops::Deref for InUse<'_> {
    type Target = Arc<Database>;

    fn deref(&self) -> &Arc<Database> {
        self.guard.as_ref().expect("enter() checked that the database is open")
    }
}
