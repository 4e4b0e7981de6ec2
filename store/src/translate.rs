//! Translates RocksDB's errors.
//!
//! The crate `rocksdb` gives text only. The kind is the part before the first colon. A full disk differs from other I/O
//! errors only in the operating system's message.

use base::error::{Error, ErrorKind};
use rocksdb::ErrorKind as RocksKind;

/// The families of storage failures that the engine reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NoSpace,
    /// A write that does not wait found no room in memory. Nothing was written.
    Stall,
    Io,
    Corruption,
    /// RocksDB rejected the call before it did anything.
    Argument,
    Other,
}

/// The family that an error belongs to.
pub(super) fn classify(error: &rocksdb::Error) -> Failure {
    match error.kind() {
        RocksKind::Corruption => Failure::Corruption,
        RocksKind::Incomplete if is_stall(error) => Failure::Stall,
        RocksKind::IOError | RocksKind::Incomplete | RocksKind::TimedOut => {
            if is_no_space(error.as_ref()) {
                Failure::NoSpace
            } else {
                Failure::Io
            }
        }
        RocksKind::NotSupported | RocksKind::InvalidArgument => Failure::Argument,
        // None of these is expected. In a commit they count as I/O errors, because nothing is known of the outcome.
        RocksKind::NotFound
        | RocksKind::MergeInProgress
        | RocksKind::ShutdownInProgress
        | RocksKind::Aborted
        | RocksKind::Busy
        | RocksKind::Expired
        | RocksKind::TryAgain
        | RocksKind::CompactionTooLarge
        | RocksKind::ColumnFamilyDropped
        | RocksKind::Unknown => Failure::Other,
    }
}

/// Translates an error of a read or of opening.
#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
pub(super) fn read(error: rocksdb::Error) -> Error {
    let message = String::from(error.as_ref());
    match classify(&error) {
        Failure::NoSpace | Failure::Stall => Error::new(ErrorKind::NoSpace { message, during_commit: false }),
        Failure::Io => Error::io("read the store", None, std::io::Error::other(message)),
        Failure::Corruption => Error::corruption("storage", &[], message),
        Failure::Argument | Failure::Other => Error::new(ErrorKind::Storage { message }),
    }
}

/// Whether an iterator has stopped because it has passed as many deleted keys as it may in one call.
pub(super) fn is_cut_short(error: &rocksdb::Error) -> bool {
    error.kind() == RocksKind::Incomplete && !is_stall(error)
}

/// Whether an error says no more than that there was one before.
pub(super) fn repeats_an_error(message: &str) -> bool {
    message.contains("Writer has previous error") || message.contains("Seen error")
}

/// Whether a write that does not wait found no room in memory.
pub(super) fn is_stall(error: &rocksdb::Error) -> bool {
    error.as_ref().contains("Write stall")
}

fn is_no_space(message: &str) -> bool {
    message.contains("No space left on device") || message.contains("Disk quota exceeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_io_errors() {
        assert!(is_no_space("IO error: No space left on device: While appending to file: /d/000004.log"));
        assert!(!is_no_space("IO error: While fdatasync: /d/000004.log: Input/output error"));
    }
}
