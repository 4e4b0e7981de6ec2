//! The charge of a write: the most bytes that it adds to the folder.

use rocksfile::batch::Batch;
use rocksfile::table::ChangeKind;

use crate::disk_room::DiskCharge;
use crate::families::{Database, Family};

/// The bytes of a record of the log beside the changes of its batch.
const RECORD_BYTES: u64 = 128;

/// The charge of a write.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    pub(super) bytes: u64,
    /// Whether the write only deletes, which makes room in the end.
    pub(crate) is_delete: bool,
    /// Whether it puts nothing but what describes collections.
    is_of_definitions: bool,
}

impl Charge {
    /// The charge of a write that puts `bytes` bytes of keys and values.
    pub(crate) fn put(bytes: usize) -> Self {
        // Once in the log, and once in a table with its index and filters.
        let bytes = bytes as u64;
        Self { bytes: 2 * bytes + bytes / 8 + RECORD_BYTES, is_delete: false, is_of_definitions: false }
    }

    /// The charge of a file of that many bytes that is not RocksDB's own.
    pub(crate) fn file(bytes: usize) -> Self {
        Self { bytes: bytes as u64, is_delete: false, is_of_definitions: false }
    }

    /// The request where there is no quota.
    pub(crate) fn on_disk(self) -> DiskCharge {
        let Self { bytes, is_delete, is_of_definitions } = self;
        DiskCharge { bytes, is_delete, is_of_definitions }
    }

    /// The charge of a batch in RocksDB's format.
    pub(crate) fn batch(database: &Database, batch: &[u8]) -> Self {
        let (is_delete, is_of_definitions) = kinds(database, batch);
        Self { is_delete, is_of_definitions, ..Self::put(batch.len()) }
    }
}

/// Whether a batch deletes documents, entries or definitions, and puts no document and no entry. And whether it puts none, whatever
/// it deletes.
fn kinds(database: &Database, batch: &[u8]) -> (bool, bool) {
    let small = [Family::Meta, Family::Outcomes, Family::Changes].map(|family| database.number(family));
    let mut deletes = false;
    for change in Batch::parse(batch).into_iter().flat_map(|batch| batch.changes()) {
        match change.kind {
            ChangeKind::Deletion | ChangeKind::RangeDeletion => deletes = true,
            // A put beside a deletion is small: a definition without the index that is dropped, or the answer to a
            // repetition. What the log of changes has of a deletion goes with the oldest changes.
            ChangeKind::Value if small.contains(&change.family) => {}
            ChangeKind::Value | ChangeKind::Other(_) => return (false, false),
        }
    }
    (deletes, true)
}
