//! The folder: who may use it, and how it comes to be without ever destroying anything.
//!
//! A database is a folder with the marker file. The marker is written last, as the rename of a file that
//! says "being made", so a killed creation leaves a folder that provably holds nothing acknowledged and may be
//! made again. Any other folder is refused: RocksDB itself would make a new database around foreign files, and
//! delete table files that its missing CURRENT does not name.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::format::{
    CREATING_FILE, FORMAT_VERSION, MARKER_FILE, WITNESS_FILE, marker_text, parse_marker,
};
use crate::storage::private;

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
    let opened = private::file_options().create(true).append(true).open(&creating);
    let mut file = opened.map_err(failed("make the file", &creating))?;
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
    if let Err(error) = private::restrict(path) {
        // The owner of the folder, who is another user then, has decided who may enter it.
        tracing::warn!(%error, path = %path.display(), "the folder cannot be kept from other users");
    }
    write_marker(&mut file).map_err(failed("write the file", &creating))?;
    sync_folder(path)?;
    Ok(Found::Fresh(FolderLock { file }))
}

/// Declares the folder complete. The marker is the locked file itself, so the lock stays.
pub(super) fn publish(path: &Path) -> Result<()> {
    sync_folder(path)?;
    let (creating, marker) = (path.join(CREATING_FILE), path.join(MARKER_FILE));
    fs::rename(&creating, &marker).map_err(failed("rename the file", &creating))?;
    // RocksDB's files are there now.
    if let Err(error) = private::restrict(path) {
        tracing::warn!(%error, path = %path.display(), "files cannot be kept from other users");
    }
    sync_folder(path)
}

fn write_marker(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(marker_text().as_bytes())?;
    file.sync_all()
}

/// Makes a folder for a copy, which no other user can look into while it is filled.
pub(super) fn make_private(path: &Path) -> Result<()> {
    private::create_folder(path).map_err(failed("make the folder", path))
}

/// Gives a copy that was made in the folder `made_in` its place.
pub(super) fn move_copy(copy: &Path, made_in: &Path, target: &Path) -> Result<()> {
    private::restrict(copy).map_err(failed("keep other users from", copy))?;
    fs::rename(copy, target).map_err(failed("move the copy to", target))?;
    fs::remove_dir(made_in).map_err(failed("remove the folder", made_in))
}

/// Checks that `path` is a complete database, without locking it.
pub(super) fn inspect(path: &Path) -> Result<()> {
    match File::open(path.join(MARKER_FILE)) {
        Ok(file) => check_marker(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_foreign(path, false)?;
            Err(Error::new(ErrorKind::NotFound { path: path.to_owned() }))
        }
        Err(error) => Err(failed("open the file", &path.join(MARKER_FILE))(error)),
    }
}

/// Writes the marker into a folder that was made complete by other means, a checkpoint.
pub(super) fn mark_copy(path: &Path) -> Result<()> {
    let marker = path.join(MARKER_FILE);
    let opened = private::file_options().create_new(true).write(true).open(&marker);
    let mut file = opened.map_err(failed("make the file", &marker))?;
    write_marker(&mut file).map_err(failed("write the file", &marker))?;
    sync_folder(path)?;
    sync_parent(path)
}

fn lock_marker(path: &Path) -> Result<Option<FolderLock>> {
    let marker = path.join(MARKER_FILE);
    let file = match File::options().read(true).append(true).open(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused_below("open the file", &marker, path, error)),
    };
    lock_exclusively(&file, path)?;
    check_marker(path, &file)?;
    Ok(Some(FolderLock { file }))
}

fn lock_exclusively(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() })),
        Err(TryLockError::Error(error)) => Err(failed("lock the marker file in", path)(error)),
    }
}

fn check_marker(path: &Path, file: impl Read) -> Result<()> {
    let mut text = String::new();
    // A marker is 17 bytes today; the bound keeps a foreign file from being read whole.
    if file.take(64).read_to_string(&mut text).is_err() {
        return Err(not_a_database(path, &format!("its marker file {MARKER_FILE} is not text")));
    }
    let Some(found) = parse_marker(&text) else {
        return Err(not_a_database(path, &format!("its marker file {MARKER_FILE} has another content")));
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
        Err(error) => return Err(refused_below("read the folder", path, path, error)),
    };
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    let names = names.map_err(failed("read the folder", path))?;
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
    if let Some(parent) = path.parent().filter(|_| !missing.is_empty()) {
        fs::create_dir_all(parent).map_err(failed("make the folder", parent))?;
        match private::create_folder(path) {
            // Another opener was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed("make the folder", path))?,
        }
    }
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
    let entries = || fs::read_dir(path)?.collect::<io::Result<Vec<_>>>();
    for entry in entries().map_err(failed("read the folder", path))? {
        if entry.file_name() != CREATING_FILE {
            fs::remove_file(entry.path()).map_err(failed("remove the file", &entry.path()))?;
        }
    }
    Ok(())
}

/// Whether RocksDB or we make files of this name during a creation.
fn is_ours(name: &str) -> bool {
    let fixed = [CREATING_FILE, WITNESS_FILE, "CURRENT", "IDENTITY", "LOCK", "LOG"];
    let prefixed = ["MANIFEST-", "OPTIONS-", "LOG.old."];
    let numbered = [".log", ".sst", ".dbtmp"];
    fixed.contains(&name)
        || prefixed.iter().any(|prefix| name.starts_with(prefix))
        || numbered.iter().any(|suffix| {
            name.strip_suffix(suffix).is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

pub(super) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder", path))
}

fn sync_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::io(operation, Some(path), error)
}

/// What to say where something at or below `folder` cannot be reached: the folder may be a file, or lie below one.
fn refused_below(operation: &'static str, path: &Path, folder: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotADirectory && folder.exists() {
        return not_a_database(folder, "it is a file, not a folder");
    }
    Error::io(operation, Some(path), error)
}

fn not_a_database(path: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::NotADatabase { path: path.to_owned(), reason: reason.to_owned() })
}
