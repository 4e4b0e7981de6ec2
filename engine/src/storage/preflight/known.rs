//! What is known before the files are read, and what is found in them.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::results::TornEnd;
use crate::storage::format::StoreId;

/// A file by its number, and how much of it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// What is known to have been on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whose stamps count.
    pub(crate) store: Option<StoreId>,
    /// The newest write.
    pub(crate) sequence: u64,
    pub(crate) manifest: Option<Length>,
    /// The log that was written to. All older ones were whole.
    pub(crate) log: Option<Length>,
}

/// What was found in a folder that may be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The newest write that RocksDB must have after it opened the folder.
    pub(crate) sequence: u64,
    /// Bytes of logs that were read.
    pub(crate) log_bytes: u64,
    /// What is left out, as a crash may leave it.
    pub(crate) torn: Vec<TornEnd>,
    /// Where logs must be cut before RocksDB reads them, because it would read on after what is left out, or never end.
    pub(crate) cuts: Vec<(PathBuf, u64)>,
}

/// A file of the database that is not what was written.
pub(super) fn damaged(path: &Path, offset: u64, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::DamagedFile { path: path.to_owned(), offset, reason: reason.into() })
}
