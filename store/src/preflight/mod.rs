//! The conditions for a folder's files before RocksDB may open them.
//!
//! RocksDB repairs files while it opens a database: it leaves out what it cannot read, deletes files that its MANIFEST
//! does not name, and reports neither. So its files are read first. A folder that is rejected stays byte for byte what
//! it was; only [`set_aside`] writes, after the checks have passed.
//!
//! A log ends where its last complete record ends. What follows is either a write that a crash cut short, or damage.
//! It is damage if it is a part of what was on stable storage before. Two sources say what was:
//! - lengths of files, from the witness and from the MANIFEST, which notes the length of a log before the next log
//!   begins;
//! - sequence numbers, from the witness and from the stamps of commits, which say what had been synced before them.
//!
//! The invariant: RocksDB opens a folder that passes with at least the writes up to [`Passed::sequence`].

mod aside;
mod files;
mod replay;
mod synced;

use std::path::Path;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};

use crate::preflight::synced::damaged;

pub(super) use self::aside::set_aside;
pub(super) use self::files::{Files, Lengths, all_logs, lengths};
pub(super) use self::synced::{Length, Passed, SyncedState};

/// For how long the reading of a folder is repeated while another process writes to it. Each time lasts a fraction of a second, on a
/// machine that is busy with other things seconds.
const RETRY_TIME_MAX: Duration = Duration::from_secs(30);

/// Checks a folder that no other process writes to.
pub(super) fn inspect(path: &Path, known: &SyncedState) -> Result<Passed> {
    let files = Files::read(path, known)?;
    replay::judge(path, &files, known)
}

/// Checks a folder that is opened for reading only. It fails if a log would have to be cut, because a reader must not
/// change the folder.
pub(super) fn inspect_for_reading(path: &Path, known: &SyncedState) -> Result<Passed> {
    let passed = inspect(path, known)?;
    match passed.cuts.first() {
        None => Ok(passed),
        Some((log, offset)) => Err(damaged(
            log,
            *offset,
            "a crash left records after a torn one; opening the database for writing once sets them aside",
        )),
    }
}

/// Reads the MANIFEST and the lengths of the logs of a folder that another thread or process may write to.
pub(super) fn list(path: &Path, known: &SyncedState) -> Result<Files> {
    retry_while_changing(path, || Files::list(path, known))
}

/// Fails if a log may have been deleted while RocksDB opened the folder, which another process may write to. `kept` is the
/// oldest log that was kept by the MANIFEST that RocksDB read.
///
/// RocksDB reads the MANIFEST, lists the logs, and replays one after the other. If the writer puts the content of a log into a
/// table in between and deletes the log, the reader has neither, and RocksDB does not notice: later logs are replayed all the
/// same. The writer deletes a log only after the MANIFEST says that it is kept no longer. So if the oldest log that is kept is
/// still the same, all of them were there.
pub(super) fn check_logs_were_kept(path: &Path, known: &SyncedState, kept: u64) -> Result<()> {
    if Files::list(path, known)?.manifest.oldest_log_kept() == kept {
        return Ok(());
    }
    let path = path.display();
    let message = format!(
        "a log in {path} was deleted while it was opened: another process writes faster than the folder can be read"
    );
    Err(Error::new(ErrorKind::Storage { message }))
}

/// Runs `read` on a folder that another process may write to, and repeats it as long as it fails and the folder
/// changes.
pub(super) fn retry_while_changing<T>(path: &Path, read: impl Fn() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        // The writer creates and deletes files between any two of our reads, so a failure may only show that they do
        // not fit together. In a folder that did not change meanwhile, a failure is a real one.
        let before = files::picture(path);
        let done = read();
        if done.is_ok() || started.elapsed() > RETRY_TIME_MAX || files::picture(path) == before {
            return done;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fixture::{self, insert};
    use crate::open::OpenMode;
    use crate::store::Store;

    #[test]
    fn a_folder_whose_log_is_deleted_while_it_is_opened_is_opened_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let store = fixture::open(&path).expect("made");
        let keys = Cell::new(0_u32);
        let insert = || insert(&store, &keys.replace(keys.get() + 1).to_be_bytes());
        let flush = || insert().and_then(|()| store.flush(&*store.enter()?));
        let known = SyncedState::default();
        let kept = || Files::list(&path, &known).expect("whole").manifest.oldest_log_kept();
        flush().expect("flushed");
        let before = kept();
        check_logs_were_kept(&path, &known, before).expect("nothing happens meanwhile");
        insert().expect("inserted");
        check_logs_were_kept(&path, &known, before).expect("the log is longer than before");
        flush().expect("flushed");
        let error = check_logs_were_kept(&path, &known, before).expect_err("the log is gone");
        assert!(error.to_string().contains("was deleted while it was opened"), "{error}");
        let tries = Cell::new(0);
        let opened = retry_while_changing(&path, || {
            let before = kept();
            tries.set(tries.get() + 1);
            if tries.get() < 3 {
                flush()?;
            }
            check_logs_were_kept(&path, &known, before)
        });
        opened.expect("the third time nothing happens");
        assert_eq!(tries.get(), 3);
    }

    /// A reader's RocksDB gives the log that its MANIFEST kept.
    #[test]
    fn rocksdb_tells_what_the_manifest_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let writer = fixture::open(&path).expect("made");
        for round in 0..3_u32 {
            insert(&writer, &round.to_be_bytes()).expect("inserted");
            writer.flush(&writer.enter().expect("open")).expect("flushed");
            let kept = Files::list(&path, &SyncedState::default()).expect("whole").manifest.oldest_log_kept();
            let store = Store::open(&fixture::options(&path, OpenMode::ReadOnly)).expect("opened");
            assert!(kept > 0);
            assert_eq!(store.enter().expect("open").oldest_log_kept(), kept);
        }
    }
}
