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

use crate::error::Result;
use crate::storage::preflight::files::Files;
use crate::storage::preflight::known::damaged;

pub(super) use self::aside::set_aside;
pub(super) use self::files::{Lengths, lengths};
pub(super) use self::known::{Known, Length, Passed};

/// How often a folder is read anew that changes meanwhile, because another process writes to it.
const ATTEMPTS: usize = 16;

/// Reads a folder to which no process writes.
pub(super) fn inspect(path: &Path, known: &Known) -> Result<Passed> {
    let files = Files::read(path, known)?;
    replay::judge(path, &files, known)
}

/// Reads a folder that another process may be writing to: what seems wrong while files come and go is looked at again.
pub(super) fn inspect_beside_writer(path: &Path, known: impl Fn() -> Result<Known>) -> Result<Passed> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let before = files::picture(path);
        let inspected = known().and_then(|known| inspect(path, &known)).and_then(|passed| match passed.cuts.first() {
            None => Ok(passed),
            Some((log, offset)) => Err(damaged(
                log,
                *offset,
                "a crash left records after a torn one; opening the database for writing once sets them aside",
            )),
        });
        if inspected.is_ok() || attempts == ATTEMPTS || files::picture(path) == before {
            return inspected;
        }
    }
}
