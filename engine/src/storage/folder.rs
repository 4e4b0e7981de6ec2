//! The folder: who may use it, and how it comes to be without ever destroying anything.
//!
//! A database is a folder with the marker file. The marker is written last, as the rename of a file that
//! says "being made", so a killed creation leaves a folder that provably holds nothing acknowledged and may be
//! made again. Any other folder is refused: RocksDB itself would make a new database around foreign files, and
//! delete table files that its missing CURRENT does not name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::format::{CREATING_FILE, FORMAT_VERSION, MARKER_FILE, marker_text, parse_marker};

/// Exclusive use of a folder, for as long as it lives. The operating system frees it when the process dies.
pub(super) struct FolderLock {
    file: File,
}

impl Drop for FolderLock {
    /// Closing the file is not enough: a process that is being started by another thread has a copy of it until it
    /// runs its own program, and the copy would keep the lock.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the folder's lock could not be given back before its file is closed");
        }
    }
}

/// What was found at the path.
pub(super) enum Found {
    /// A complete database.
    Complete(FolderLock),
    /// A folder that is ours to fill: RocksDB is to be created in it, then [`publish`] called.
    Fresh(FolderLock),
}

/// Locks the folder at `path` for writing, making an empty one if `create` is asked for.
pub(super) fn claim(path: &Path, create: bool) -> Result<Found> {
    if let Some(lock) = lock_marker(path)? {
        return Ok(Found::Complete(lock));
    }
    refuse_foreign(path, create)?;
    if !create {
        return Err(Error::new(ErrorKind::NotFound { path: path.to_owned() }));
    }
    create_folder(path)?;
    let creating = path.join(CREATING_FILE);
    let mut file = OpenOptions::new().create(true).append(true).open(&creating)?;
    lock_exclusively(&file, path)?;
    // Another opener may have finished the creation meanwhile. His marker came by an atomic rename, so it is seen
    // here whether the file that was locked is his, renamed, or a new one beside his marker.
    if !creating.exists() || path.join(MARKER_FILE).exists() {
        drop(file);
        return lock_marker(path)?
            .map(Found::Complete)
            .ok_or_else(|| Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() }));
    }
    clear_unfinished(path)?;
    file.set_len(0)?;
    file.write_all(marker_text().as_bytes())?;
    file.sync_all()?;
    sync_folder(path)?;
    Ok(Found::Fresh(FolderLock { file }))
}

/// Declares the folder complete. The marker is the locked file itself, so the lock stays.
pub(super) fn publish(path: &Path) -> Result<()> {
    sync_folder(path)?;
    fs::rename(path.join(CREATING_FILE), path.join(MARKER_FILE))?;
    sync_folder(path)?;
    Ok(())
}

/// Checks that `path` is a complete database, without locking it.
pub(super) fn inspect(path: &Path) -> Result<()> {
    match File::open(path.join(MARKER_FILE)) {
        Ok(file) => check_marker(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_foreign(path, false)?;
            Err(Error::new(ErrorKind::NotFound { path: path.to_owned() }))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes the marker into a folder that was made complete by other means, a checkpoint.
pub(super) fn mark_copy(path: &Path) -> Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path.join(MARKER_FILE))?;
    file.write_all(marker_text().as_bytes())?;
    file.sync_all()?;
    sync_folder(path)?;
    sync_parent(path)?;
    Ok(())
}

fn lock_marker(path: &Path) -> Result<Option<FolderLock>> {
    let marker = path.join(MARKER_FILE);
    let file = match OpenOptions::new().read(true).append(true).open(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_database(path, "it is a file, not a folder"));
        }
        Err(error) => return Err(error.into()),
    };
    lock_exclusively(&file, path)?;
    check_marker(path, &file)?;
    Ok(Some(FolderLock { file }))
}

fn lock_exclusively(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() })),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn check_marker(path: &Path, file: impl Read) -> Result<()> {
    let mut text = String::new();
    // A marker is 17 bytes today; the bound keeps a foreign file from being read whole.
    if file.take(64).read_to_string(&mut text).is_err() {
        return Err(not_a_database(path, "its marker file is not text"));
    }
    let Some(found) = parse_marker(&text) else {
        return Err(not_a_database(path, "its marker file has another content"));
    };
    if found != FORMAT_VERSION.to_string() {
        return Err(Error::new(ErrorKind::UnsupportedFormat {
            found: found.to_owned(),
            supported: FORMAT_VERSION,
        }));
    }
    Ok(())
}

/// A folder without the marker must be absent, empty, or one whose creation was cut short.
fn refuse_foreign(path: &Path, create: bool) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_database(path, "it is a file, not a folder"));
        }
        Err(error) => return Err(error.into()),
    };
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    let unfinished = names.iter().any(|name| name == CREATING_FILE);
    let foreign = names.iter().find(|name| !unfinished || !is_ours(&name.to_string_lossy()));
    match foreign {
        None => Ok(()),
        Some(_) if path.join(MARKER_FILE).exists() => Ok(()),
        Some(name) => {
            let advice = if create { "choose an absent or empty folder" } else { "nothing was touched" };
            Err(not_a_database(
                path,
                &format!("it has no {MARKER_FILE} file but holds {}; {advice}", name.to_string_lossy()),
            ))
        }
    }
}

fn create_folder(path: &Path) -> Result<()> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .map(Path::to_owned)
        .collect();
    fs::create_dir_all(path)?;
    // A new folder is durable only once the folder that names it is synced, all the way up.
    for folder in missing.iter().rev() {
        sync_parent(folder)?;
    }
    Ok(())
}

/// Removes what a killed creation left. Only called under the lock, and only on files that RocksDB names.
fn clear_unfinished(path: &Path) -> Result<()> {
    if path.join(MARKER_FILE).exists() {
        return Err(not_a_database(path, "it is complete, yet was taken for unfinished"));
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() != CREATING_FILE {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether RocksDB or we make files of this name during a creation.
fn is_ours(name: &str) -> bool {
    let fixed = [CREATING_FILE, "CURRENT", "IDENTITY", "LOCK", "LOG"];
    let prefixed = ["MANIFEST-", "OPTIONS-", "LOG.old."];
    let numbered = [".log", ".sst", ".dbtmp"];
    fixed.contains(&name)
        || prefixed.iter().any(|prefix| name.starts_with(prefix))
        || numbered.iter().any(|suffix| {
            name.strip_suffix(suffix).is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

fn not_a_database(path: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::NotADatabase { path: path.to_owned(), reason: reason.to_owned() })
}
