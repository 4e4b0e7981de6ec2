//! Folders for the files of index builds: sorted runs, and tables before RocksDB takes them over.
//!
//! Each build has a folder of its own within that of the database, so that RocksDB can move its tables instead of copying
//! them. Nothing in it is needed once the build has ended, so what a crash left is removed when the database is opened.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::storage::families::Database;
use crate::storage::folder::failed;
use crate::storage::format::BUILD_PREFIX;
use crate::storage::keys::IndexId;
use crate::storage::{fork, private};

/// The folder of one build. Dropping it removes it.
pub(crate) struct BuildFolder {
    path: PathBuf,
}

impl BuildFolder {
    /// Makes the folder for the build of an index. Ids are never used twice, so no other build has it.
    pub(crate) fn make(database: &Database, build: IndexId) -> Result<Self> {
        let path = database.path().join(format!("{BUILD_PREFIX}{build}"));
        private::create_folder(&path).map_err(failed("make the folder", &path))?;
        Ok(Self { path })
    }

    /// The path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a file that can be written and then read again.
    pub(crate) fn create(&self, name: &str) -> Result<(PathBuf, File)> {
        let path = self.file(name);
        let opened = private::file_options().create_new(true).read(true).write(true).open(&path);
        let file = opened.map_err(failed("make the file", &path))?;
        Ok((path, file))
    }
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

/// Removes the folders of builds that were cut short. The caller holds the lock of the database's folder.
pub(super) fn remove_all(database: &Path) {
    let entries = fs::read_dir(database).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(BUILD_PREFIX));
    for folder in folders.map(|entry| entry.path()) {
        // They take space and do no harm, so they are no reason not to open.
        if let Err(error) = fs::remove_dir_all(&folder) {
            tracing::warn!(%error, path = %folder.display(), "files of an index build could not be removed");
        }
    }
}
