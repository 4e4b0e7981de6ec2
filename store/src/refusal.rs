//! Folders that RocksDB does not open, with the damaged file.
//!
//! The preflight has found the MANIFEST and the logs whole by then. What is left is what RocksDB reads of every table first: its
//! footer, its list of meta blocks and its properties. If one of them is damaged RocksDB says that the MANIFEST may be
//! corrupted, in which there is nothing wrong, and of some damages it does not name the table.

use std::path::Path;

use base::error::{Error, ErrorKind, Result};
use rocksfile::names::FileName;
use rocksfile::table::Table;

use crate::checksums::tables_in;
use crate::raw_file::RawFile;
use crate::translate::{self, Failure};

/// Translates an error of opening the folder `path`.
pub(super) fn refusal(path: &Path, error: rocksdb::Error) -> Error {
    if translate::classify(&error) != Failure::Corruption {
        return translate::read(error);
    }
    let named = named_table(error.as_ref());
    // The one that RocksDB names, or the first that is damaged.
    let tables = named.map_or_else(|| tables_in(path).unwrap_or_default(), |number| vec![number]);
    let damaged = tables.into_iter().find_map(|number| damage_of(path, number));
    let by_rocksdb = || named.map(|number| told_by_rocksdb(path, number, error.as_ref()));
    match damaged.or_else(by_rocksdb) {
        Some(kind) => Error::new(kind),
        None => translate::read(error),
    }
}

/// Fails if one of the tables is damaged in what RocksDB reads first of it.
pub(super) fn refuse_damaged_tables(path: &Path, tables: &[u64]) -> Result<()> {
    let damaged = tables.iter().find_map(|number| damage_of(path, *number));
    damaged.map_or(Ok(()), |kind| Err(Error::new(kind)))
}

/// Translates an error of the first write, which is the engine's own. If a compaction has met damage by then, RocksDB rejects
/// that write: nothing of the caller's is in doubt, and what it has to know is the damage.
pub(super) fn met_while_opening(path: &Path, error: Error) -> Error {
    let ErrorKind::CommitUnknown { message } = error.kind() else { return error };
    if !message.starts_with("Corruption: ") {
        return error;
    }
    let named = named_table(message).map(|number| Error::new(told_by_rocksdb(path, number, message)));
    named.unwrap_or_else(|| Error::corruption("storage", &[], message.clone()))
}

/// The table that a message names, whatever folder is before the name and whatever sign after it.
fn named_table(message: &str) -> Option<u64> {
    message.split_whitespace().find_map(|word| {
        let name = word.rsplit(['/', '\\']).next()?;
        match FileName::parse(name.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()))? {
            FileName::Table(number) => Some(number),
            FileName::Log(_) | FileName::Manifest(_) => None,
        }
    })
}

/// The damage of a table in the parts that lead to its blocks.
fn damage_of(folder: &Path, number: u64) -> Option<ErrorKind> {
    let path = folder.join(FileName::Table(number).to_string());
    let table = Table::open(RawFile::open(&path).ok()?).ok()?;
    let damage = table.damages().first()?;
    let place = damage.kind.map_or_else(|| "a part of the file".to_owned(), |kind| format!("the {kind}"));
    let reason = format!("{place}: {}", damage.fault);
    Some(ErrorKind::DamagedFile { path, offset: damage.handle.offset, reason })
}

/// RocksDB is stricter than our reader in something, and its words are all that is known.
fn told_by_rocksdb(folder: &Path, number: u64, message: &str) -> ErrorKind {
    let path = folder.join(FileName::Table(number).to_string());
    // Its words about the MANIFEST are not repeated.
    let said = message.split_once("  The file ").map_or(message, |(said, _)| said);
    ErrorKind::DamagedFile { path, offset: 0, reason: format!("RocksDB says: {}", said.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_a_compaction_met_is_not_a_commit_in_doubt() {
        let met = |message: &str| {
            let error = Error::new(ErrorKind::CommitUnknown { message: message.to_owned() });
            met_while_opening(Path::new("/d"), error)
        };
        let damaged = met(
            "Corruption: block checksum mismatch: stored = 1, computed = 2 in /d/000012.sst offset 9 size 8",
        );
        assert!(damaged.is_corruption() && damaged.to_string().contains("000012.sst"), "{damaged}");
        assert!(met("Corruption: bad block").is_corruption());
        assert!(met("IO error: While fdatasync: Input/output error").is_commit_unknown());
    }

    #[test]
    fn a_table_is_named_and_the_manifest_is_not_blamed() {
        let footer = "Corruption: Bad table magic number: expected 1, found 2 in /d b/000014.sst  The file /d b/MANIFEST-000011 \
                      may be corrupted.";
        assert_eq!(named_table(footer), Some(14));
        let ErrorKind::DamagedFile { path, offset, reason } = told_by_rocksdb(Path::new("/d b"), 14, footer)
        else {
            panic!("another kind")
        };
        assert_eq!((path.as_path(), offset), (Path::new("/d b/000014.sst"), 0));
        assert_eq!(
            reason,
            "RocksDB says: Corruption: Bad table magic number: expected 1, found 2 in /d b/000014.sst"
        );
        let meta = "Corruption: block checksum mismatch: stored = 3, computed = 4, type = 4  in C:\\d\\000340.sst offset 3 size \
                    11, block_type = Properties  The file C:\\d\\MANIFEST-000011 may be corrupted.";
        assert_eq!(named_table(meta), Some(340));
        assert_eq!(
            named_table("Corruption: properties unsorted  The file /d/MANIFEST-000011 may be corrupted."),
            None
        );
    }
}
