//! The files of a folder by what they hold. Nothing is opened: names and lengths show it.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use base::error::Result;
use rocksfile::names::{CURRENT, FileName};

use crate::folder::{failed, format_version};
use crate::format::{
    ASIDE_PREFIX, BACKUP_PREFIX, BUILD_PREFIX, CREATING_FILE, MARKER_FILE, SPILL_FOLDER, WITNESS_FILE,
};

/// The other files with which RocksDB says what the folder is.
const ROCKSDB_CONTROL: [&str; 2] = ["IDENTITY", "LOCK"];
/// The beginning of the names of RocksDB's files of options.
const OPTIONS_PREFIX: &str = "OPTIONS-";
/// RocksDB's messages, and how those of earlier opens begin.
const MESSAGES: &str = "LOG";
const OLD_MESSAGES_PREFIX: &str = "LOG.old.";

/// The files of one kind, a part of [`FolderStats`](struct.FolderStats.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FilesOfKind {
    /// The kind of their content.
    pub kind: FileKind,
    /// The number of files.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Their bytes on the disk. It can be more than `bytes`, because room is reserved for files that grow.
    pub disk_bytes: u64,
}

/// The content of a file in a store's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FileKind {
    /// Documents and index entries, sorted and compressed.
    Tables,
    /// The newest writes, in their order.
    Logs,
    /// Which tables and logs there are.
    Manifests,
    /// Small files that say what the folder is, and which state is the current one.
    Control,
    /// RocksDB's log of its work, as text.
    Messages,
    /// Ends of logs that a crash had cut short, kept aside when the folder was opened.
    Torn,
    /// Files of running sorts, groups, joins, index builds and backups.
    Temporary,
    /// Files that the store did not make.
    Other,
}

/// The version of the folder's format, and its files by what they hold.
pub fn look(path: &Path) -> Result<(u32, Vec<FilesOfKind>)> {
    Ok((format_version(path)?, by_kind(path)?))
}

/// Looks at all files of a folder. Files that go meanwhile are left out.
fn by_kind(path: &Path) -> Result<Vec<FilesOfKind>> {
    let mut found = BTreeMap::new();
    let count = |file: &Path, metadata: &fs::Metadata| {
        // All of a folder within it is of one kind.
        let inner = file.strip_prefix(path).unwrap_or(file).components().next();
        let kind = kind_of(&inner.map(|name| name.as_os_str().to_string_lossy()).unwrap_or_default());
        let files = found.entry(kind).or_insert(FilesOfKind { kind, files: 0, bytes: 0, disk_bytes: 0 });
        files.files += 1;
        files.bytes += metadata.len();
        files.disk_bytes += on_disk(metadata);
    };
    each_file(path, count).map_err(failed("look at the files of the folder", path))?;
    Ok(found.into_values().collect())
}

/// Calls `with` for each file of a folder, and of the folders in it. Returns whether one of them went meanwhile: RocksDB deletes
/// what a compaction has replaced, and what came for it may not have been seen.
pub(super) fn each_file(path: &Path, mut with: impl FnMut(&Path, &fs::Metadata)) -> io::Result<bool> {
    let mut has_gone = false;
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != path => {
                has_gone = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => with(&entry.path(), &metadata),
                Err(error) if error.kind() == io::ErrorKind::NotFound => has_gone = true,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(has_gone)
}

/// The content of a file, or of a whole folder, in the store's folder, by its name.
fn kind_of(name: &str) -> FileKind {
    if name == SPILL_FOLDER || name.starts_with(BUILD_PREFIX) || name.starts_with(BACKUP_PREFIX) {
        return FileKind::Temporary;
    }
    if name.starts_with(ASIDE_PREFIX) {
        return FileKind::Torn;
    }
    if name == MESSAGES || name.starts_with(OLD_MESSAGES_PREFIX) {
        return FileKind::Messages;
    }
    let is_control = [MARKER_FILE, CREATING_FILE, WITNESS_FILE, CURRENT].contains(&name)
        || ROCKSDB_CONTROL.contains(&name)
        || name.starts_with(OPTIONS_PREFIX);
    match FileName::parse(name) {
        Some(FileName::Table(_)) => FileKind::Tables,
        Some(FileName::Log(_)) => FileKind::Logs,
        Some(FileName::Manifest(_)) => FileKind::Manifests,
        None if is_control => FileKind::Control,
        None => FileKind::Other,
    }
}

/// The bytes of a file on the disk: its blocks, among them those that are reserved for more of it.
#[cfg(unix)]
pub(super) fn on_disk(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // Blocks of 512 bytes, by the manual page of `stat`.
    metadata.len().max(metadata.blocks().saturating_mul(512))
}

#[cfg(not(unix))]
pub(super) fn on_disk(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: FileKind, names: &[&str]) {
        for name in names {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn names_tell_what_a_file_holds() {
        check(FileKind::Tables, &["000012.sst"]);
        check(FileKind::Logs, &["000012.log"]);
        check(FileKind::Manifests, &["MANIFEST-000004"]);
        check(FileKind::Control, &["CAIRNDB", "CAIRNDB.witness", "CURRENT", "LOCK", "OPTIONS-000007"]);
        check(FileKind::Messages, &["LOG", "LOG.old.1700000000000000"]);
        check(FileKind::Torn, &["CAIRNDB.torn-000012.log"]);
        check(FileKind::Temporary, &["CAIRNDB.spill", "CAIRNDB.build-7-000001.sst", "CAIRNDB.backup-12"]);
        check(FileKind::Other, &["notes.txt", "x.sst", "LOGS", ""]);
    }

    #[test]
    fn files_of_inner_folders_are_of_the_kind_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for inner in [SPILL_FOLDER, "mine/deep"] {
            fs::create_dir_all(folder.path().join(inner)).expect("made");
            fs::write(folder.path().join(inner).join("000001.sst"), [7; 10]).expect("written");
        }
        fs::write(folder.path().join("000002.sst"), [7; 5]).expect("written");
        let found = by_kind(folder.path()).expect("readable");
        let told: Vec<_> = found.iter().map(|files| (files.kind, files.files, files.bytes)).collect();
        assert_eq!(told, [(FileKind::Tables, 1, 5), (FileKind::Temporary, 1, 10), (FileKind::Other, 1, 10)]);
        assert!(found.iter().all(|files| files.disk_bytes >= files.bytes));
    }
}
