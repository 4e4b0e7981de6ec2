//! Folders of backups that may be removed: those that have our mark, whose locks we hold, and that were not written to
//! since they were made. A name alone never makes a folder one of them.
//!
//! The mark is the file that a copy is known by while it is made. It goes last, and the marker of a database first: what a
//! kill leaves of a removal cannot be opened, and is known again.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use base::error::{Error, Result};

use crate::folder::{self, FolderLock, failed, sync_folder};
use crate::format::{COPYING_FILE, MARKER_FILE, StoreId};
use crate::private;
use crate::witness;

/// A folder that may be removed. Both locks are held until then.
pub(super) struct Removable {
    path: PathBuf,
    copying: File,
    /// Present if the folder is a complete database.
    _database: Option<FolderLock>,
}

/// The meaning of a folder for a caller that would remove it.
pub(super) enum Found {
    Removable(Removable),
    /// It stays, for this reason.
    Kept(String),
    Absent,
}

impl Removable {
    /// Makes a folder, which must not exist, with the mark that allows its removal.
    pub(super) fn make(path: &Path) -> Result<Self> {
        private::create_folder(path).map_err(failed("make the folder", path))?;
        let copying = marked(path)?;
        Ok(Self { path: path.to_owned(), copying, _database: None })
    }

    /// Makes a folder after removing what a killed backup left under its name. Anything else of that name is rejected.
    pub(super) fn make_anew(path: &Path) -> Result<Self> {
        match Self::left_over(path)? {
            Found::Absent => {}
            Found::Removable(left) => left.remove()?,
            Found::Kept(reason) => {
                return Err(Error::invalid_argument(format!("the folder {} {reason}", path.display())));
            }
        }
        Self::make(path)
    }

    /// Looks at what a backup may have left that was killed.
    pub(super) fn left_over(path: &Path) -> Result<Found> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
            Err(error) => return Err(failed("look at the folder", path)(error)),
            Ok(found) if !found.is_dir() => return Ok(Found::Kept("is not a folder".to_owned())),
            Ok(_) => {}
        }
        let mark = path.join(COPYING_FILE);
        let copying = match File::open(&mark) {
            Ok(copying) => copying,
            // The mark is the first thing in such a folder. Without it only an empty one is known to hold nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(match fs::remove_dir(path) {
                    Ok(()) => Found::Absent,
                    Err(_) => Found::Kept("is in the way, and is not what a backup left".to_owned()),
                });
            }
            Err(error) => return Err(failed("open the file", &mark)(error)),
        };
        if !is_locked(&copying, &mark)? {
            return Ok(Found::Kept("is being made by another backup".to_owned()));
        }
        // A kill before it got its name has left a database that can be opened, but for one while its marker was written.
        let opened = if folder::is_marker_cut(path)? { Ok(None) } else { unwritten(path, None) };
        let database = match opened {
            Ok(database) => database,
            Err(reason) => return Ok(Found::Kept(reason)),
        };
        Ok(Found::Removable(Self { path: path.to_owned(), copying, _database: database }))
    }

    /// Looks at a complete copy of the store.
    pub(super) fn copy(path: &Path, store: StoreId) -> Result<Found> {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(Found::Kept("is a link".to_owned())),
            Err(error) => return Err(failed("look at the folder", path)(error)),
        }
        let database = match unwritten(path, Some(store)) {
            Ok(Some(database)) => database,
            Ok(None) => return Ok(Found::Kept("has no marker".to_owned())),
            Err(reason) => return Ok(Found::Kept(reason)),
        };
        if let Some(foreign) = folder::foreign_file(path)? {
            return Ok(Found::Kept(format!("holds {foreign}, which no backup has put there")));
        }
        // Marked only now, when it is to go. A kill that came before it got its name may have left the mark.
        let copying = match File::open(path.join(COPYING_FILE)) {
            Ok(copying) if is_locked(&copying, &path.join(COPYING_FILE))? => copying,
            Ok(_) => return Ok(Found::Kept("is being made by another backup".to_owned())),
            Err(_) => marked(path)?,
        };
        Ok(Found::Removable(Self { path: path.to_owned(), copying, _database: Some(database) }))
    }

    /// Gives the folder another name, which no other has.
    pub(super) fn rename(&mut self, to: &Path) -> Result<()> {
        fs::rename(&self.path, to).map_err(failed("rename the folder", &self.path))?;
        to.clone_into(&mut self.path);
        Ok(())
    }

    /// Removes the mark and leaves the rest, which is a complete copy by now.
    pub(super) fn unmark(self) -> Result<()> {
        let mark = self.path.join(COPYING_FILE);
        fs::remove_file(&mark).map_err(failed("remove the file", &mark))
    }

    /// Removes the folder and all that is in it.
    pub(super) fn remove(self) -> Result<()> {
        // Another process may have put a folder of its own in place of ours.
        if !self.is_in_place() {
            return Ok(());
        }
        let path = &self.path;
        let unremovable = |error| failed("remove the folder", path)(error);
        match fs::remove_file(path.join(MARKER_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unremovable(error)),
            Ok(()) | Err(_) => {}
        }
        sync_folder(path)?;
        for entry in fs::read_dir(path).map_err(unremovable)? {
            let entry = entry.map_err(unremovable)?;
            if entry.file_name() == COPYING_FILE {
                continue;
            }
            let is_folder = entry.file_type().map_err(unremovable)?.is_dir();
            let remove =
                if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            remove.map_err(unremovable)?;
        }
        fs::remove_file(path.join(COPYING_FILE)).map_err(unremovable)?;
        fs::remove_dir(path).map_err(unremovable)
    }

    /// Whether the mark at the path is the file that is locked.
    #[cfg(unix)]
    fn is_in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let there = self.path.join(COPYING_FILE).symlink_metadata();
        let locked = self.copying.metadata();
        there
            .ok()
            .zip(locked.ok())
            .is_some_and(|(there, locked)| (there.dev(), there.ino()) == (locked.dev(), locked.ino()))
    }

    /// Other systems do not let go of a name while the file is open.
    #[cfg(not(unix))]
    fn is_in_place(&self) -> bool {
        self.path.join(COPYING_FILE).exists()
    }
}

/// Puts the mark into a folder, and locks it.
fn marked(path: &Path) -> Result<File> {
    let mark = path.join(COPYING_FILE);
    let made = private::file_options().create_new(true).write(true).open(&mark);
    let made = made.map_err(failed("make the file", &mark))?;
    made.try_lock().map_err(|error| failed("lock the file", &mark)(error.into()))?;
    Ok(made)
}

fn is_locked(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed("lock the file", path)(error)),
    }
}

/// Locks a database that no process has opened for writing since a backup made it. Returns `None` if the folder has no
/// marker of one, and why the folder must stay if it was opened, or cannot be read.
fn unwritten(path: &Path, store: Option<StoreId>) -> std::result::Result<Option<FolderLock>, String> {
    let lock = folder::lock_marker(path).map_err(|error| format!("cannot be locked: {error}"))?;
    let Some(lock) = lock else { return Ok(None) };
    let found = witness::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if !found.is_of_untouched_copy() {
        return Err("was opened for writing since it was made".to_owned());
    }
    if store.is_some_and(|store| store != found.store()) {
        return Err("is a copy of another store".to_owned());
    }
    Ok(Some(lock))
}
