//! Forks of the process: a child gets a copy of an open store and must not use it.
//!
//! The threads of RocksDB and our background thread do not exist in the child, locks that they held at the moment of
//! the fork stay locked, and the parent uses the same files and sequences. So in the child every call fails before it
//! acquires a lock, and what is dropped is left as it is: not closed, not flushed, not unlocked. A store cannot be
//! opened there either, because all stores of a process share the threads of RocksDB.

use std::sync::OnceLock;

use base::error::{Error, ErrorKind, Result};
use sequence::fork::Process;

/// The first process that opened a store.
static OPENED_IN: OnceLock<Process> = OnceLock::new();

/// Notes that this process opens a store. Fails in a forked child of a process that opened one.
pub(super) fn open_here() -> Result<()> {
    OPENED_IN.get_or_init(Process::current);
    refuse_child()
}

/// Fails in a forked child of the process that opened the store.
#[inline]
pub fn refuse_child() -> Result<()> {
    if is_child() { Err(Error::new(ErrorKind::Forked)) } else { Ok(()) }
}

/// Whether this is a forked child of the process that opened the store.
#[inline]
pub fn is_child() -> bool {
    OPENED_IN.get().is_some_and(|process| !process.is_current())
}
