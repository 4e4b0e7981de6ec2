//! Whether a store accepts writes. Its state is open, full, poisoned, damaged or read-only.
//!
//! ```text
//! Open --no space in a commit--> Full --a commit begun after it succeeds--> Open
//! Open, with delayed durability --no space--> Poisoned              (left only by opening again)
//! Open, Full --other I/O error in a commit or sync--> Poisoned      (left only by opening again)
//! any --corruption in a commit or sync--> Damaged                   (left only by opening again)
//! ```
//! Reads work in every state. A failed sync is never tried again: the kernel may have dropped the pages that it could
//! not write, and a second sync would succeed without them. For the same reason failures are counted. A commit that
//! began before the last failure does not end Full, even if it succeeds. A sync during which another write failed
//! proves nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use base::metrics::report::StoreState;
use base::sync::{self, AtomicBool, AtomicU64, Mutex};

use crate::translate::{self, Failure};

const OPEN: u64 = 0;
const FULL: u64 = 1;
const POISONED: u64 = 2;
const DAMAGED: u64 = 3;
const READ_ONLY: u64 = 4;
/// The bits of the word that hold the state. The bits above count failures.
const STATE: u64 = 7;
const ONE_FAILURE: u64 = STATE + 1;
/// The longest time between an error and its note, if another call reports that there was one.
const FIRST_ERROR_MAX: Duration = Duration::from_millis(200);

/// The state of a store. One word holds the state and the number of failures, so that both change together.
pub(super) struct Health {
    word: AtomicU64,
    /// Whether the disk was ever full.
    knows_full: AtomicBool,
    /// Whether writes may succeed again after the disk was full.
    heals: bool,
    /// The message of the failure that led to the present state.
    cause: Mutex<String>,
}

/// The permission to try a commit or sync. It holds the word as it was before the attempt.
#[derive(Clone, Copy)]
#[must_use = "whether an attempt succeeded is judged by what was before it"]
pub(super) struct Admission {
    word: u64,
}

impl Health {
    pub(super) fn open() -> Self {
        Self {
            word: AtomicU64::new(OPEN),
            knows_full: AtomicBool::new(false),
            heals: true,
            cause: Mutex::default(),
        }
    }

    /// The same, with a full disk as bad as a failing one.
    pub(super) fn without_healing(self) -> Self {
        Self { heals: false, ..self }
    }

    pub(super) fn read_only() -> Self {
        Self { word: AtomicU64::new(READ_ONLY), ..Self::open() }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.state() == READ_ONLY
    }

    /// Fails if a write must not be tried. On a full disk writes are tried: one that succeeds ends that state.
    #[inline]
    pub(super) fn admit_write(&self) -> Result<Admission> {
        let word = self.word.load(Ordering::Acquire);
        match word & STATE {
            OPEN | FULL => Ok(Admission { word }),
            state => Err(self.refusal(state)),
        }
    }

    /// Fails if a sync must not be tried: if writes are rejected, and on a full disk. There a sync has failed, and
    /// only a commit that succeeds in a new log ends that state.
    pub(super) fn admit_sync(&self) -> Result<Admission> {
        let admission = self.admit_write()?;
        if admission.word & STATE == FULL {
            let message = "the disk was full when the last write was tried".to_owned();
            return Err(Error::new(ErrorKind::NoSpace { message, during_commit: false }));
        }
        Ok(admission)
    }

    /// Notes that a commit succeeded. It ends Full if the commit began after the last failure: an earlier one wrote
    /// to the log that failed.
    #[inline]
    pub(super) fn succeeded(&self, admission: Admission) {
        let Admission { word, .. } = admission;
        // If the word has changed, another write failed meanwhile, and the disk counts as full again.
        if word & STATE == FULL {
            let _ = self.word.compare_exchange(word, word - FULL, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Fails if another commit or sync failed since the admission. The kernel reports a page that it could not write
    /// only once, and the report may have gone to the other caller.
    pub(super) fn confirm_sync(&self, admission: Admission) -> Result<()> {
        let failures = |word: u64| word / ONE_FAILURE;
        if failures(self.word.load(Ordering::Acquire)) == failures(admission.word) {
            return Ok(());
        }
        let message = "another write failed while this one was synced".to_owned();
        Err(Error::new(ErrorKind::CommitUnknown { message }))
    }

    /// Notes that a commit or sync failed, and returns the error for its caller.
    pub(super) fn failed(&self, error: &rocksdb::Error) -> Error {
        self.met(translate::classify(error), error.as_ref())
    }

    /// Notes that a file of our own could not be synced. As with RocksDB's files, the sync is not tried again.
    pub(super) fn failed_io(&self, error: &std::io::Error) -> Error {
        let failure =
            if error.kind() == std::io::ErrorKind::StorageFull { Failure::NoSpace } else { Failure::Io };
        self.met(failure, &error.to_string())
    }

    fn met(&self, failure: Failure, message: &str) -> Error {
        let message = message.to_owned();
        match self.seen_as(failure, &message) {
            Failure::NoSpace => {
                self.knows_full.store(true, Ordering::Relaxed);
                self.worsen(if self.heals { FULL } else { POISONED }, &message);
                Error::new(ErrorKind::NoSpace { message, during_commit: true })
            }
            // The caller cannot know whether the write is on disk, so the error is the same as for I/O. Later writes
            // are rejected as damaged.
            Failure::Corruption => {
                self.worsen(DAMAGED, &message);
                Error::new(ErrorKind::CommitUnknown { message })
            }
            // Nothing was written, and nothing is known of the disk that was not known before.
            Failure::Stall => Error::new(ErrorKind::NoSpace { message, during_commit: false }),
            // RocksDB rejected it before it wrote anything, so the state stays.
            Failure::Argument => Error::new(ErrorKind::Storage { message }),
            Failure::Io | Failure::Other => {
                self.worsen(POISONED, &message);
                Error::new(ErrorKind::CommitUnknown { message })
            }
        }
    }

    /// The failure that an error represents. After an error RocksDB reports a plain I/O error for each write to the same
    /// log, until it has replaced the log; after a full disk these count as a full disk too.
    fn seen_as(&self, failure: Failure, message: &str) -> Failure {
        if failure != Failure::Io || !translate::repeats_an_error(message) {
            return failure;
        }
        // The call that met the error itself may not have noted it yet.
        let started = Instant::now();
        while self.state() == OPEN && started.elapsed() < FIRST_ERROR_MAX {
            sync::yield_now();
        }
        if self.state() == FULL { Failure::NoSpace } else { failure }
    }

    /// Counts a failure, and changes to `state` unless the present state is worse.
    fn worsen(&self, state: u64, message: &str) {
        // The lock comes first, so that a rejection never sees the new state with the old cause.
        let mut cause = self.cause.lock();
        let worse = |word: u64| Some((word & !STATE) + ONE_FAILURE + (word & STATE).max(state));
        let previous = sync::change(&self.word, worse).unwrap_or_default();
        // Full is left again by itself and needs no cause.
        if previous & STATE < state && state != FULL {
            message.clone_into(&mut cause);
            tracing::error!(cause = message, "writes fail from now on");
        }
    }

    /// Whether the disk was full at any time, and RocksDB has not given the database up.
    pub(super) fn may_recover(&self) -> bool {
        // Of a full disk that does not heal it is not known here whether RocksDB met it in the log, which it gives up, or in
        // another file.
        self.knows_full.load(Ordering::Relaxed) && (!self.heals || matches!(self.state(), OPEN | FULL))
    }

    /// Whether a write that found no room in memory is to be tried again: RocksDB is making some.
    pub(super) fn makes_room(&self) -> bool {
        self.state() == OPEN
    }

    /// The state, as the metrics report it.
    pub(super) fn reported(&self) -> StoreState {
        match self.state() {
            OPEN => StoreState::Open,
            FULL => StoreState::Full,
            DAMAGED => StoreState::Damaged,
            READ_ONLY => StoreState::ReadOnly,
            _ => StoreState::Poisoned,
        }
    }

    fn state(&self) -> u64 {
        self.word.load(Ordering::Acquire) & STATE
    }

    #[cold]
    fn refusal(&self, state: u64) -> Error {
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
        health.admit_write().err().expect("writes are refused").kind().clone()
    }

    #[track_caller]
    fn admitted(health: &Health) -> Admission {
        health.admit_write().expect("writes are admitted")
    }

    /// The commit went to the log that met the full disk: syncing that log again would prove nothing.
    #[test]
    fn a_commit_that_began_before_the_failure_does_not_end_it() {
        let health = Health::open();
        let early = admitted(&health);
        health.met(Failure::NoSpace, "full");
        health.succeeded(early);
        assert!(health.admit_sync().err().expect("no sync on a full disk").is_no_space());
        let between = admitted(&health);
        health.met(Failure::NoSpace, "full again");
        health.succeeded(between);
        assert!(health.admit_sync().err().expect("no sync on a full disk").is_no_space());
        health.succeeded(admitted(&health));
        assert!(health.admit_sync().is_ok());
    }

    #[test]
    fn a_sync_that_a_failure_raced_proves_nothing() {
        let health = Health::open();
        let early = health.admit_sync().expect("syncs are admitted");
        assert!(health.confirm_sync(early).is_ok());
        health.met(Failure::NoSpace, "full");
        health.succeeded(admitted(&health));
        assert!(health.confirm_sync(early).is_err_and(|error| error.is_commit_unknown()));
        let late = health.admit_sync().expect("syncs are admitted");
        assert!(health.confirm_sync(late).is_ok());
    }

    #[test]
    fn a_full_disk_admits_writes_and_heals_with_the_first_that_succeeds() {
        let health = Health::open();
        assert!(health.met(Failure::NoSpace, "full").is_no_space());
        assert_eq!(health.state(), FULL);
        health.succeeded(admitted(&health));
        assert_eq!(health.state(), OPEN);
    }

    #[test]
    fn a_log_that_met_the_full_disk_does_not_poison_by_repeating_its_error() {
        let health = Health::open();
        health.met(Failure::NoSpace, "full");
        assert!(health.admit_sync().err().expect("no sync on a full disk").is_no_space());
        for message in ["IO error: Writer has previous error.", "IO error: Seen error. Skip writing buffer."]
        {
            assert!(health.met(Failure::Io, message).is_no_space());
            assert!(health.admit_write().is_ok());
        }
        health.succeeded(admitted(&health));
        assert!(health.admit_sync().is_ok());
        assert!(health.met(Failure::Io, "IO error: Writer has previous error.").is_commit_unknown());
    }

    /// It was reported as an I/O error of a commit when the disk had got room again meanwhile, and that ended all writes.
    #[test]
    fn a_write_that_would_have_waited_changes_no_state() {
        let health = Health::open();
        assert!(health.met(Failure::Stall, "Result incomplete: Write stall").is_no_space());
        assert_eq!(health.state(), OPEN);
        assert!(health.makes_room());
        health.met(Failure::NoSpace, "full");
        assert!(!health.makes_room());
        assert!(health.met(Failure::Stall, "Result incomplete: Write stall").is_no_space());
        health.succeeded(admitted(&health));
        assert_eq!(health.state(), OPEN);
        assert!(health.makes_room());
    }

    /// The thread that met the full disk noted it after another one had heard of an error and mistaken it for one of the disk.
    #[test]
    fn an_error_that_is_repeated_before_it_is_noted_does_not_poison() {
        let health = Health::open();
        std::thread::scope(|scope| {
            let repeated =
                scope.spawn(|| health.met(Failure::Io, "IO error: Seen error. Skip writing buffer."));
            std::thread::yield_now();
            health.met(Failure::NoSpace, "full");
            assert!(repeated.join().expect("no panic").is_no_space());
        });
        assert!(health.admit_write().is_ok());
    }

    #[test]
    fn a_full_disk_that_does_not_heal_poisons_and_is_named_as_the_cause() {
        let health = Health::open().without_healing();
        let error = health.met(Failure::NoSpace, "full");
        assert!(error.is_no_space() && error.is_commit_unknown(), "{error:?}");
        assert!(health.may_recover());
        assert!(matches!(refused(&health), ErrorKind::Poisoned { cause } if cause == "full"));
    }

    #[test]
    fn each_state_is_reported() {
        let health = Health::open();
        assert_eq!(health.reported(), StoreState::Open);
        for (failure, state) in [
            (Failure::NoSpace, StoreState::Full),
            (Failure::Io, StoreState::Poisoned),
            (Failure::Corruption, StoreState::Damaged),
        ] {
            health.met(failure, "failed");
            assert_eq!(health.reported(), state);
        }
        assert_eq!(Health::read_only().reported(), StoreState::ReadOnly);
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
        let early = Health::open();
        let admission = admitted(&early);
        health.met(Failure::NoSpace, "third");
        health.succeeded(admission);
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
