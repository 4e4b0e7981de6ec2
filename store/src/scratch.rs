//! Folders for the files of index builds: sorted runs, and tables before RocksDB ingests them.
//!
//! Each build has a folder of its own within that of the database, so that RocksDB can move its tables instead of copying
//! them. Nothing in it is needed once the build has ended, so what a crash left is removed when the database is opened.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use base::error::{Error, Result};

use crate::families::Database;
use crate::folder::failed;
use crate::format::{BACKUP_PREFIX, BUILD_PREFIX, SPILL_FOLDER};
use crate::keys::IndexId;
use crate::removable::{Found, Removable};
use crate::run::{RunFile, read_at};
use crate::{fork, private};

/// The folder of one build. Dropping it removes it.
pub struct BuildFolder {
    path: PathBuf,
}

impl BuildFolder {
    /// Makes the folder for the build of an index. Ids are never used twice, so no other build has it.
    pub fn make(database: &Database, build: IndexId) -> Result<Self> {
        let path = database.path().join(format!("{BUILD_PREFIX}{build}"));
        private::create_folder(&path).map_err(failed("make the folder", &path))?;
        Ok(Self { path })
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a file for a run.
    pub fn create<'a>(&self, database: &'a Database, name: &str) -> Result<BuildFile<'a>> {
        let path = self.file(name);
        let file = create_file(&path)?;
        Ok(BuildFile { database, path, file, bytes: 0 })
    }
}

/// The file of a run. Dropping it removes it.
pub struct BuildFile<'a> {
    database: &'a Database,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl RunFile for BuildFile<'_> {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        self.database.make_room_for_file(bytes.len())?;
        self.file.write_all(bytes).map_err(|error| Error::io("write the file", Some(&self.path), error))?;
        self.bytes += bytes.len() as u64;
        Ok(self.bytes - bytes.len() as u64)
    }

    fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> Result<()> {
        let read = read_at(&self.file, offset, bytes, into);
        read.map_err(|error| Error::io("read the file", Some(&self.path), error))
    }
}

impl Drop for BuildFile<'_> {
    fn drop(&mut self) {
        // Whatever cannot be removed now goes with the folder. The files of a forked child are its parent's.
        if !fork::is_child() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a file that can be written and then read again, by its owner only.
pub(super) fn create_file(path: &Path) -> Result<File> {
    let opened = private::file_options().create_new(true).read(true).write(true).open(path);
    opened.map_err(failed("make the file", path))
}

impl Drop for BuildFolder {
    fn drop(&mut self) {
        // The files of a forked child are its parent's.
        if !fork::is_child()
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "files of an index build stay until the next open");
        }
    }
}

/// Removes the folders of builds that were cut short, of sorts, groups and joins, and what killed backups left. The caller holds the lock of the database's folder.
pub(super) fn remove_all(database: &Path) {
    let entries = fs::read_dir(database).into_iter().flatten().flatten();
    // Exactly the names that are given here: what else a user has put there stays.
    let is_id = |id: &str| id.parse::<u32>().is_ok_and(|number| number.to_string() == id);
    let is_left = |name: &str| name.strip_prefix(BUILD_PREFIX).is_some_and(is_id) || name == SPILL_FOLDER;
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_of_backup = |name: &str| name.strip_prefix(BACKUP_PREFIX).is_some_and(is_id);
    for folder in entries.filter(is_folder) {
        let (name, folder) = (folder.file_name(), folder.path());
        let removed = match &*name.to_string_lossy() {
            name if is_left(name) => {
                fs::remove_dir_all(&folder).map_err(failed("remove the folder", &folder))
            }
            name if is_of_backup(name) => remove_links(&folder),
            _ => Ok(()),
        };
        // They use space and do no harm, so they are not a reason not to open.
        if let Err(error) = removed {
            tracing::warn!(%error, path = %folder.display(), "temporary files could not be removed");
        }
    }
}

/// Removes the links of a backup, unless it is still being made by a process that reads the store.
fn remove_links(folder: &Path) -> Result<()> {
    match Removable::left_over(folder)? {
        Found::Removable(left) => left.remove(),
        Found::Kept(_) | Found::Absent => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything in the folder of a database that was called like a folder of ours was removed, whatever it was.
    #[test]
    fn only_folders_with_the_names_that_are_given_here_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = [
            "CAIRNDB.build-7",
            "CAIRNDB.spill",
            "CAIRNDB.backup-9",
            "CAIRNDB.backup-10",
            "CAIRNDB.build-notes",
            "CAIRNDB.build-07",
            "CAIRNDB.builds",
        ];
        for name in names {
            fs::create_dir(folder.path().join(name)).expect("made");
            fs::write(folder.path().join(name).join("file"), b"mine").expect("written");
        }
        fs::write(folder.path().join("CAIRNDB.build-8"), b"mine").expect("written");
        // Links to files have the mark of a backup, and go if no process holds it.
        fs::write(folder.path().join("CAIRNDB.backup-9/CAIRNDB.copying"), b"").expect("written");
        remove_all(folder.path());
        let left = fs::read_dir(folder.path()).expect("listed");
        let mut left: Vec<_> = left.map(|entry| entry.expect("listed").file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "CAIRNDB.backup-10",
                "CAIRNDB.build-07",
                "CAIRNDB.build-8",
                "CAIRNDB.build-notes",
                "CAIRNDB.builds"
            ]
        );
    }
}
