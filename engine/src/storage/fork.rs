//! Forks of the process: a child gets a copy of an open store, and must leave it alone.
//!
//! The copy is of no use. RocksDB's threads and the one in the background are not there, locks that they held at the
//! moment of the fork stay locked, and files and sequences belong to the parent as well. So every call refuses in the
//! child before it touches a lock, and what is dropped there is left as it is: not closed, not flushed, not unlocked.
//! A store cannot be opened there either, for the threads of RocksDB are shared by all stores of a process.

use std::sync::OnceLock;

use sequence::fork::Process;

use crate::error::{Error, ErrorKind, Result};

/// The process that opened a store first.
static OPENED_IN: OnceLock<Process> = OnceLock::new();

/// Notes that a store is opened here; fails in a child of a process that opened one.
pub(super) fn open_here() -> Result<()> {
    OPENED_IN.get_or_init(Process::current);
    refuse_child()
}

/// Fails in a forked child of the process that opened the store.
#[inline]
pub(crate) fn refuse_child() -> Result<()> {
    if is_child() { Err(Error::new(ErrorKind::Forked)) } else { Ok(()) }
}

/// Whether this is a forked child of the process that opened the store.
#[inline]
pub(crate) fn is_child() -> bool {
    OPENED_IN.get().is_some_and(|process| !process.is_current())
}
