//! The knowledge about a folder before its files are read, and the result of reading them.

use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind};

use crate::format::StoreId;
use crate::recovery::TornEnd;

/// A number in a file's name, and a length of that file in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    /// The number.
    pub number: u64,
    /// The length.
    pub bytes: u64,
}

/// The writes that are known to be on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncedState {
    /// The database whose stamps in the logs are believed. `None` believes every stamp.
    pub store: Option<StoreId>,
    /// The sequence number of the newest write that was synced.
    pub sequence: u64,
    /// The MANIFEST that was in use, and how much of it was synced.
    pub manifest: Option<Length>,
    /// The log that was written to, and how much of it was synced. All older logs were synced completely.
    pub log: Option<Length>,
}

/// The findings in a folder that may be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The sequence number of the newest write. RocksDB must have it after it opened the folder.
    pub sequence: u64,
    /// The number of bytes of logs that were read.
    pub log_bytes: u64,
    /// The ends of files that are left out. A crash can leave such ends.
    pub torn: Vec<TornEnd>,
    /// Logs, the MANIFEST, and the offsets at which they must be cut before RocksDB reads them. Without the cut RocksDB
    /// would replay what follows the part that is left out, reject it, or loop for ever.
    pub cuts: Vec<(PathBuf, u64)>,
    /// The numbers of the tables that the MANIFEST names.
    pub tables: Vec<u64>,
}

/// The error for a file of the database that does not hold what was written to it.
pub(super) fn damaged(path: &Path, offset: u64, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::DamagedFile { path: path.to_owned(), offset, reason: reason.into() })
}
