//! Whether writes may go on: Open, Full, Poisoned, Damaged, or read-only.
//!
//! ```text
//! Open --no space in a commit--> Full --next commit that succeeds--> Open
//! Open, Full --other I/O error in a commit or sync--> Poisoned      (left only by opening again)
//! any --corruption in a commit or sync--> Damaged                   (left only by opening again)
//! ```
//! Reads go on in every state. A failed sync is never tried again: after one, the kernel may have dropped
//! the pages that it could not write.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::translate::{self, Failure};

const OPEN: u8 = 0;
const FULL: u8 = 1;
const POISONED: u8 = 2;
const DAMAGED: u8 = 3;
const READ_ONLY: u8 = 4;

pub(super) struct Health {
    state: AtomicU8,
    cause: Mutex<String>,
}

impl Health {
    pub(super) fn open() -> Self {
        Self { state: AtomicU8::new(OPEN), cause: Mutex::default() }
    }

    pub(super) fn read_only() -> Self {
        Self { state: AtomicU8::new(READ_ONLY), cause: Mutex::default() }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.state.load(Ordering::Acquire) == READ_ONLY
    }

    /// Fails where a write must not be tried. A full disk admits writes: that is how it heals.
    #[inline]
    pub(super) fn admit_write(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN | FULL => Ok(()),
            state => Err(self.refusal(state)),
        }
    }

    /// Fails where a sync must not be tried: where writes are refused, and on a full disk, whose failed sync is
    /// never tried again; only a commit that succeeds, in a fresh log, ends that state.
    pub(super) fn admit_sync(&self) -> Result<()> {
        self.admit_write()?;
        if self.state.load(Ordering::Acquire) == FULL {
            let message = "the disk was full when the last write was tried".to_owned();
            return Err(Error::new(ErrorKind::NoSpace { message, during_commit: false }));
        }
        Ok(())
    }

    /// A commit or sync succeeded.
    #[inline]
    pub(super) fn succeeded(&self) {
        if self.state.load(Ordering::Relaxed) == FULL {
            // Only Full returns to Open: a commit that raced the poisoning must not undo it.
            let _ = self.state.compare_exchange(FULL, OPEN, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// A commit or sync failed: moves the state and says what the caller must know.
    pub(super) fn failed(&self, error: &rocksdb::Error) -> Error {
        self.met(translate::classify(error), error.as_ref())
    }

    fn met(&self, failure: Failure, message: &str) -> Error {
        let message = message.to_owned();
        match self.seen_as(failure, &message) {
            Failure::NoSpace => {
                let _ = self.state.compare_exchange(OPEN, FULL, Ordering::AcqRel, Ordering::Acquire);
                Error::new(ErrorKind::NoSpace { message, during_commit: true })
            }
            Failure::Corruption => {
                self.worsen(DAMAGED, &message);
                Error::new(ErrorKind::CommitUnknown { message })
            }
            // Refused before anything was written.
            Failure::Argument => Error::new(ErrorKind::Storage { message }),
            Failure::Io | Failure::Other => {
                self.worsen(POISONED, &message);
                Error::new(ErrorKind::CommitUnknown { message })
            }
        }
    }

    /// A log that met the full disk repeats its failure as a plain I/O error until RocksDB has replaced it.
    fn seen_as(&self, failure: Failure, message: &str) -> Failure {
        let full = self.state.load(Ordering::Acquire) == FULL;
        if full && failure == Failure::Io && message.contains("Writer has previous error") {
            return Failure::NoSpace;
        }
        failure
    }

    fn worsen(&self, state: u8, message: &str) {
        let mut cause = self.cause.lock();
        let previous = self.state.fetch_max(state, Ordering::AcqRel);
        if previous < state {
            message.clone_into(&mut cause);
            tracing::error!(cause = message, "writes are refused from now on");
        }
    }

    #[cold]
    fn refusal(&self, state: u8) -> Error {
        let cause = self.cause.lock().clone();
        Error::new(match state {
            READ_ONLY => ErrorKind::ReadOnly,
            DAMAGED => ErrorKind::Damaged { cause },
            _ => ErrorKind::Poisoned { cause },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(health: &Health) -> ErrorKind {
        health.admit_write().expect_err("writes are refused").kind().clone()
    }

    #[test]
    fn a_full_disk_admits_writes_and_heals_with_the_first_that_succeeds() {
        let health = Health::open();
        assert!(health.met(Failure::NoSpace, "full").is_no_space());
        assert_eq!(health.state.load(Ordering::Acquire), FULL);
        assert!(health.admit_write().is_ok());
        health.succeeded();
        assert_eq!(health.state.load(Ordering::Acquire), OPEN);
    }

    #[test]
    fn a_log_that_met_the_full_disk_does_not_poison_by_repeating_its_error() {
        let health = Health::open();
        health.met(Failure::NoSpace, "full");
        assert!(health.admit_sync().expect_err("no sync on a full disk").is_no_space());
        assert!(health.met(Failure::Io, "IO error: Writer has previous error.").is_no_space());
        assert!(health.admit_write().is_ok());
        health.succeeded();
        assert!(health.admit_sync().is_ok());
        assert!(health.met(Failure::Io, "IO error: Writer has previous error.").is_commit_unknown());
    }

    #[test]
    fn a_refused_argument_changes_no_state() {
        let health = Health::open();
        assert!(!health.met(Failure::Argument, "too long").is_commit_unknown());
        assert!(health.admit_write().is_ok());
    }

    #[test]
    fn an_io_error_poisons_for_good_and_names_its_cause() {
        let health = Health::open();
        assert!(health.met(Failure::Io, "first").is_commit_unknown());
        health.met(Failure::Io, "second");
        health.met(Failure::NoSpace, "third");
        health.succeeded();
        assert!(matches!(refused(&health), ErrorKind::Poisoned { cause } if cause == "first"));
    }

    #[test]
    fn corruption_is_worse_than_poison_and_never_the_other_way() {
        let health = Health::open();
        health.met(Failure::Io, "disk");
        health.met(Failure::Corruption, "bits");
        health.met(Failure::Io, "disk again");
        assert!(matches!(refused(&health), ErrorKind::Damaged { cause } if cause == "bits"));
    }

    #[test]
    fn a_read_only_store_refuses_writes() {
        assert!(matches!(refused(&Health::read_only()), ErrorKind::ReadOnly));
    }
}
