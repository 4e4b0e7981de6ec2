//! What must hold of a folder's files before RocksDB may open them.
//!
//! RocksDB repairs while it opens: it leaves out what it cannot read, deletes what its MANIFEST does not name, and says
//! neither. So its files are read first. Nothing is written here: a folder that is refused is byte for byte what it
//! was.
//!
//! A log ends where its last whole record does. What is torn off after that is either a write that a crash cut short,
//! or damage. It is damage if it reaches below what is known to have been on stable storage:
//! - by the length of a file, from the witness and from the MANIFEST, which notes how long a log was when it was left;
//! - by number, from the witness and from the stamps of commits, which say what had been synced before them.
//!
//! The invariant: whatever passes is opened by RocksDB with at least the writes up to [`Passed::sequence`].

mod aside;
mod files;
mod known;
mod replay;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::storage::preflight::files::Files;
use crate::storage::preflight::known::damaged;

pub(super) use self::aside::set_aside;
pub(super) use self::files::{Lengths, lengths};
pub(super) use self::known::{Known, Length, Passed};

/// How long a folder is read anew that changes meanwhile, because another process writes to it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a folder to which no process writes.
pub(super) fn inspect(path: &Path, known: &Known) -> Result<Passed> {
    let files = Files::read(path, known)?;
    replay::judge(path, &files, known)
}

/// Reads a folder for reading only, in which nothing can be cut.
pub(super) fn inspect_for_reading(path: &Path, known: &Known) -> Result<Passed> {
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

/// Does what reads a folder to which another process may write, and does it again if it fails while files come and go.
pub(super) fn beside_writer<T>(path: &Path, read: impl Fn() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        let before = files::picture(path);
        let done = read();
        if done.is_ok() || started.elapsed() > PATIENCE || files::picture(path) == before {
            return done;
        }
    }
}
