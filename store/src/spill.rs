//! Temporary files of sorts, groups and joins that need more memory than they may have.
//!
//! A file loses its name at once, while it is open: so nothing is left of it when the process dies, whatever it was doing,
//! and no other process that opens the folder can meet it. Its bytes are counted, because the folder does not show them. Only
//! a system that does not allow this keeps the name until the file is dropped.
//!
//! A store that is open for reading changes nothing in its folder, so its files are in the system's folder for temporary files.
//!
//! The invariant: a file holds no open database, because a cursor over sorted documents may outlive its client.

use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, Seek, SeekFrom, Write};
use std::path::PathBuf;
// A plain atomic: it gives names and decides nothing.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base::error::{Error, ErrorKind, Result};
use base::sync::Mutex;

use crate::families::Database;
use crate::folder::failed;
use crate::format::SPILL_FOLDER;
use crate::run::{RunFile, read_at};
use crate::scratch::create_file;
use crate::spill_space::SpillSpace;
use crate::{fork, private};

/// Makes the temporary files of a store.
#[derive(Clone)]
pub struct SpillFiles {
    /// The database must not be kept open by an operation that may never need a file.
    database: Weak<Database>,
    space: Arc<SpillSpace>,
}

/// A file that gets its bytes from the space of the store until it is dropped, with all its runs. Cheap to clone.
#[derive(Clone)]
pub struct SpillFile {
    shared: Arc<SharedFile>,
}

struct SharedFile {
    file: File,
    path: PathBuf,
    /// Whether the file still has its name.
    is_named: bool,
    /// The number of written bytes. Held while more are.
    end: Mutex<u64>,
    files: SpillFiles,
}

impl SpillFiles {
    /// The temporary files of an open database.
    pub fn of(database: &Arc<Database>) -> Self {
        Self { database: Arc::downgrade(database), space: Arc::clone(database.spill_space()) }
    }

    /// Makes a file, and removes its name.
    pub fn create(&self) -> Result<SpillFile> {
        // Only while the file is made: what follows needs no open database.
        let database = self.database()?;
        let number = self.space.count_file()?;
        let path = Self::place(&database, number).inspect_err(|_| self.space.free(0))?;
        let file = create_file(&path).inspect_err(|_| self.space.free(0))?;
        // If open files cannot be removed, the drop does it.
        let is_named = fs::remove_file(&path).is_err();
        let shared = SharedFile { file, path, is_named, end: Mutex::new(0), files: self.clone() };
        Ok(SpillFile { shared: Arc::new(shared) })
    }

    /// The path of a new file.
    fn place(database: &Database, number: u64) -> Result<PathBuf> {
        if let Some(shared) = database.spills_into() {
            // Others use that folder too, this process with other stores among them.
            static MADE: AtomicU64 = AtomicU64::new(0);
            let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
            return Ok(shared.join(format!("cairndb-{process}-{made}.run")));
        }
        let folder = database.path().join(SPILL_FOLDER);
        // Made with the first file. An embedding program may clear a folder of that name.
        match private::create_folder(&folder) {
            Err(error) if error.kind() != IoErrorKind::AlreadyExists => {
                Err(failed("make the folder", &folder)(error))
            }
            Ok(()) | Err(_) => Ok(folder.join(format!("{number}.run"))),
        }
    }

    fn database(&self) -> Result<Arc<Database>> {
        fork::refuse_child()?;
        self.database.upgrade().ok_or_else(|| Error::new(ErrorKind::Closed))
    }
}

impl std::fmt::Debug for SpillFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillFiles").field("space", &self.space).finish_non_exhaustive()
    }
}

impl RunFile for SpillFile {
    fn path(&self) -> PathBuf {
        self.shared.path.clone()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let SharedFile { file, path, end, files, .. } = &*self.shared;
        let mut end = end.lock();
        // Counted before the quota is asked: a measurement between the two counts the bytes once too often, never too seldom.
        files.space.take(bytes.len() as u64)?;
        // The end of what others have written, which is why the lock is held until the bytes are there.
        let start = *end;
        // Also if writing them fails: they are given back with the file.
        *end += bytes.len() as u64;
        files.database()?.make_room_for_file(bytes.len())?;
        let mut at_end = file;
        let written = at_end.seek(SeekFrom::Start(start)).and_then(|_| at_end.write_all(bytes));
        written.map_err(|error| Error::io("write the file", Some(path), error))?;
        Ok(start)
    }

    fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> Result<()> {
        let read = read_at(&self.shared.file, offset, bytes, into);
        read.map_err(|error| Error::io("read the file", Some(&self.shared.path), error))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        self.files.space.free(*self.end.lock());
        // The files of a forked child are its parent's.
        if self.is_named && !fork::is_child() {
            // Whatever cannot be removed now is removed at the next open.
            let _ = fs::remove_file(&self.path);
        }
    }
}
