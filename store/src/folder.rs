//! The folder of a database: who may use it, and how it is created without destroying anything.
//!
//! A database is a folder with the marker file. The marker is created last, by renaming a file that marks a creation.
//! A creation that was killed therefore leaves a folder without acknowledged writes, and can be done again. Any other
//! folder is rejected: RocksDB would create a new database around foreign files, and delete table files that a missing
//! CURRENT does not name.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};

use crate::format::{
    COPYING_FILE, CREATING_FILE, FORMAT_VERSION, FORMAT_VERSION_OLDEST, MARKER_FILE, WITNESS_FILE,
    is_readable, marker_text, parse_marker,
};
use crate::options::PlantedFault;
use crate::private;

/// The number of bytes of a marker that are read. It has 17 bytes today, and a foreign file of that name may be
/// large.
const MARKER_BYTES_MAX: u64 = 64;

/// Exclusive use of a folder until it is dropped. The operating system releases it when the process dies.
pub(super) struct FolderLock {
    file: File,
}

impl FolderLock {
    /// Makes the marker name the current format. Does nothing if it does so already.
    pub(super) fn upgrade(&self) -> io::Result<()> {
        let mut file = &self.file;
        let mut text = String::new();
        file.rewind()?;
        file.take(MARKER_BYTES_MAX).read_to_string(&mut text)?;
        if text == marker_text() {
            return Ok(());
        }
        // In place, because the lock is one of this file. All versions have one digit, so the texts differ in one byte:
        // a crash leaves the one or the other.
        file.rewind()?;
        file.write_all(marker_text().as_bytes())?;
        file.sync_all()
    }
}

impl Drop for FolderLock {
    /// Unlocks the file before it is closed. Closing is not enough: a child process that another thread starts has a
    /// copy of the open file until it runs its own program, and the copy would keep the lock.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the folder's lock could not be released before its file is closed");
        }
    }
}

/// A folder that was locked, and what it holds.
pub(super) enum Claim {
    /// A complete database.
    Complete(FolderLock),
    /// An empty folder. The caller creates RocksDB in it and then calls [`publish`].
    Fresh(FolderLock),
}

/// Locks the folder at `path` for writing. With `create`, an absent folder is created.
pub(super) fn claim(path: &Path, create: bool, fault: PlantedFault) -> Result<Claim> {
    refuse_irregular(path)?;
    if let Some(lock) = lock_marker(path)? {
        return Ok(Claim::Complete(lock));
    }
    // Checked before anything is created: a foreign folder stays as it is.
    refuse_foreign(path, create)?;
    if !create {
        return Err(Error::new(ErrorKind::NotFound { path: path.to_owned() }));
    }
    create_folder(path, fault)?;
    let creating = path.join(CREATING_FILE);
    let opened = private::file_options().create(true).append(true).open(&creating);
    let mut file = opened.map_err(failed("make the file", &creating))?;
    lock_exclusively(&file, path)?;
    // Another process may have completed the creation before our lock. Its marker was renamed atomically, so it is seen
    // here whether we locked the file that it renamed or a new one.
    if !creating.exists() || path.join(MARKER_FILE).exists() {
        drop(file);
        return lock_marker(path)?
            .map(Claim::Complete)
            .ok_or_else(|| Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() }));
    }
    clear_unfinished(path)?;
    if let Err(error) = private::restrict(path) {
        // This fails if another user owns the folder. The owner has decided then who may enter it, so we go on.
        tracing::warn!(%error, path = %path.display(), "the folder cannot be kept from other users");
    }
    // Durable before RocksDB creates files: without it the next open would mistake them for foreign ones.
    write_marker(&mut file).map_err(failed("write the file", &creating))?;
    sync_folder(path)?;
    Ok(Claim::Fresh(FolderLock { file }))
}

/// Marks the folder as a complete database. The marker is the file that is locked, so the lock stays.
pub(super) fn publish(path: &Path) -> Result<()> {
    // The names of all files must be durable before the marker is.
    sync_folder(path)?;
    let (creating, marker) = (path.join(CREATING_FILE), path.join(MARKER_FILE));
    fs::rename(&creating, &marker).map_err(failed("rename the file", &creating))?;
    // RocksDB has created its files now, readable to every user.
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

/// Creates a folder for a copy. No other user can read the copy while it is written.
pub(super) fn make_private(path: &Path) -> Result<()> {
    private::create_folder(path).map_err(failed("make the folder", path))
}

/// Moves a copy from the folder `made_in` to `target`, and removes that folder.
pub(super) fn move_copy(copy: &Path, made_in: &Path, target: &Path) -> Result<()> {
    // Restricted before the move: at `target` other users could reach it.
    private::restrict(copy).map_err(failed("keep other users from", copy))?;
    fs::rename(copy, target).map_err(failed("move the copy to", target))?;
    fs::remove_dir(made_in).map_err(failed("remove the folder", made_in))
}

/// Checks that `path` is a complete database, without locking it.
pub(super) fn inspect(path: &Path) -> Result<()> {
    refuse_irregular(path)?;
    match File::open(path.join(MARKER_FILE)) {
        Ok(file) => check_marker(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_foreign(path, false)?;
            Err(Error::new(ErrorKind::NotFound { path: path.to_owned() }))
        }
        Err(error) => Err(refused_below("open the file", &path.join(MARKER_FILE), path, error)),
    }
}

/// The version of the format of a complete database.
pub(super) fn format_version(path: &Path) -> Result<u32> {
    let marker = path.join(MARKER_FILE);
    let file = File::open(&marker).map_err(failed("read the file", &marker))?;
    let bytes = marker_bytes(path, file)?;
    // It was a version that this library reads when the folder was opened.
    parse_marker(&bytes).ok_or_else(|| malformed_marker(path, &bytes))
}

/// Writes the marker into the folder of a checkpoint.
pub(super) fn mark_copy(path: &Path) -> Result<()> {
    let marker = path.join(MARKER_FILE);
    let opened = private::file_options().create_new(true).write(true).open(&marker);
    let mut file = opened.map_err(failed("make the file", &marker))?;
    write_marker(&mut file).map_err(failed("write the file", &marker))?;
    sync_folder(path)?;
    sync_parent(path)
}

/// Whether only the beginning of the marker was written. No database was ever opened with such a one.
pub(super) fn is_marker_cut(path: &Path) -> Result<bool> {
    let marker = path.join(MARKER_FILE);
    let file = match File::open(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("open the file", &marker)(error)),
    };
    let bytes = marker_bytes(path, file)?;
    Ok(marker_text().as_bytes().strip_prefix(&*bytes).is_some_and(|rest| !rest.is_empty()))
}

/// Locks the marker file. Returns `None` if the folder has none.
pub(super) fn lock_marker(path: &Path) -> Result<Option<FolderLock>> {
    let marker = path.join(MARKER_FILE);
    let file = match File::options().read(true).write(true).open(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused_below("open the file", &marker, path, error)),
    };
    // Locked before it is read, so that a database in use is reported as such whatever its format.
    lock_exclusively(&file, path)?;
    check_marker(path, &file)?;
    Ok(Some(FolderLock { file }))
}

/// Keeps writers from opening the database, for as long as the file is open. Returns `None` if one has it open.
pub(super) fn lock_out_writers(path: &Path) -> Result<Option<File>> {
    let marker = path.join(MARKER_FILE);
    let file = File::open(&marker).map_err(failed("open the file", &marker))?;
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed("lock the marker file in", path)(error)),
    }
}

fn lock_exclusively(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() })),
        Err(TryLockError::Error(error)) => Err(failed("lock the marker file in", path)(error)),
    }
}

/// The content of the marker of a folder, as far as it can be one.
fn marker_bytes(path: &Path, file: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(MARKER_BYTES_MAX).read_to_end(&mut bytes);
    // That the disk could not read it says nothing about what the folder is.
    read.map_err(failed("read the file", &path.join(MARKER_FILE)))?;
    Ok(bytes)
}

fn check_marker(path: &Path, file: impl Read) -> Result<()> {
    let bytes = marker_bytes(path, file)?;
    let Some(version) = parse_marker(&bytes) else { return Err(malformed_marker(path, &bytes)) };
    if !is_readable(version) {
        return Err(Error::new(ErrorKind::UnsupportedFormat {
            path: path.to_owned(),
            found: version.to_string(),
            oldest: FORMAT_VERSION_OLDEST,
            supported: FORMAT_VERSION,
        }));
    }
    Ok(())
}

/// The error for a marker that no version has written. Beside a file that RocksDB makes it is a damaged one: a caller who learns
/// that the folder is not a database may write over it, or look for another one.
fn malformed_marker(path: &Path, bytes: &[u8]) -> Error {
    if !path.join("CURRENT").exists() {
        return not_a_database(path, &format!("its file {MARKER_FILE} is not the marker of a database"));
    }
    let expected = marker_text();
    let same = expected.bytes().zip(bytes).take_while(|(expected, found)| expected == *found).count();
    Error::new(ErrorKind::DamagedFile {
        path: path.join(MARKER_FILE),
        offset: u64::try_from(same).unwrap_or(u64::MAX),
        reason: format!("it is not the text '{}' and a line feed", expected.trim_end()),
    })
}

/// Fails if a pipe, a socket or a device has the name of a file of a database. Opening one, or reading it, would wait without end,
/// and a folder may come from others.
pub(super) fn refuse_irregular(path: &Path) -> Result<()> {
    // That the folder is absent, or cannot be read, is reported where it is opened.
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_named_so = [MARKER_FILE, COPYING_FILE].contains(&&*name) || is_ours(&name);
        if !is_named_so || entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Links are followed, as they are where the file is opened.
        let found = fs::metadata(entry.path());
        if found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let reason =
                format!("its file {name} is a pipe, a socket or a device, and must be a regular file");
            return Err(not_a_database(path, &reason));
        }
    }
    Ok(())
}

/// Fails if a folder without the marker holds anything but files of a creation that did not complete.
fn refuse_foreign(path: &Path, create: bool) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused_below("read the folder", path, path, error)),
    };
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    let names = names.map_err(failed("read the folder", path))?;
    let unfinished = names.iter().any(|name| name == CREATING_FILE);
    // Without the file that marks a creation, RocksDB's own names count as foreign too: they may be another program's
    // database.
    let foreign = names.iter().find(|name| !unfinished || !is_ours(&name.to_string_lossy()));
    match foreign {
        None => Ok(()),
        // Another process has completed its creation since the caller looked for the marker.
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

/// A file in the folder of a database that neither RocksDB nor we make there. Returns `None` if there is none.
pub(super) fn foreign_file(path: &Path) -> Result<Option<String>> {
    let entries = || fs::read_dir(path)?.collect::<io::Result<Vec<_>>>();
    let entries = entries().map_err(failed("read the folder", path))?;
    let mut names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.find(|name| !is_ours(name) && ![MARKER_FILE, COPYING_FILE].contains(&name.as_str())))
}

/// Creates the folder and its parents, and makes them durable.
fn create_folder(path: &Path, fault: PlantedFault) -> Result<()> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .map(Path::to_owned)
        .collect();
    if let Some(parent) = path.parent().filter(|_| !missing.is_empty()) {
        fs::create_dir_all(parent).map_err(failed("make the folder", parent))?;
        match private::create_folder(path) {
            // Another process created it first. The lock decides which one fills it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed("make the folder", path))?,
        }
    }
    // A new folder is durable only after its parent is synced, so all parents of new folders are.
    for folder in missing.iter().rev().filter(|_| fault != PlantedFault::FolderNotSynced) {
        sync_parent(folder)?;
    }
    Ok(())
}

/// Removes the files of a creation that was killed. The caller holds the lock, and [`refuse_foreign`] has found no
/// other files.
fn clear_unfinished(path: &Path) -> Result<()> {
    // The last guard before files are deleted: a complete database must never get here.
    if path.join(MARKER_FILE).exists() {
        return Err(not_a_database(path, "it is complete, yet was mistaken for unfinished"));
    }
    let entries = || fs::read_dir(path)?.collect::<io::Result<Vec<_>>>();
    for entry in entries().map_err(failed("read the folder", path))? {
        if entry.file_name() != CREATING_FILE {
            fs::remove_file(entry.path()).map_err(failed("remove the file", &entry.path()))?;
        }
    }
    Ok(())
}

/// Whether a creation makes files of this name, RocksDB's or ours.
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

/// The path beside `path` whose name is longer by `ending`. A slash at the end of `path` is not a part of its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Makes the names of a folder's files durable.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder", path))
}

pub(super) fn sync_parent(path: &Path) -> Result<()> {
    match path.parent() {
        // The parent of a relative path of one name is the empty path, which cannot be opened.
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// Makes the error of a failed `operation` on a file.
pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::io(operation, Some(path), error)
}

/// The error for something at or below `folder` that cannot be reached. If `folder` is a file, the error says so.
fn refused_below(operation: &'static str, path: &Path, folder: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotADirectory && folder.exists() {
        return not_a_database(folder, "it is a file, not a folder");
    }
    Error::io(operation, Some(path), error)
}

fn not_a_database(path: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::NotADatabase { path: path.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that cannot be read.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("input/output error"))
        }
    }

    #[test]
    fn a_marker_that_cannot_be_read_does_not_make_a_folder_foreign() {
        let path = Path::new("folder");
        let error = check_marker(path, Broken).expect_err("not read");
        assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error:?}");
        let error = check_marker(path, [0xff_u8, 0xfe].as_slice()).expect_err("not text");
        assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
        assert!(check_marker(path, marker_text().as_bytes()).is_ok());
    }
}
