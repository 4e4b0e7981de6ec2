//! A dump as a directory. It is made as `NAME.partial`, and has its name once all of it is on stable storage.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cairndb::bson::Document;
use flate2::write::GzEncoder;
use formats::dump::names::file_name;
use formats::dump::prelude::Prelude;
use rustix::fs::{FlockOperation, flock};

use crate::dump::catalog::{Found, text};
use crate::dump::work::{Documents, Dump};
use crate::dumped::DumpedKind;
use crate::extended_json::Mode;
use crate::failure::{Exit, Failure};
use crate::output::Written;
use crate::store::{Store, refuse_absent_server};

/// The number of bytes that are collected before the system is asked to write.
const BUFFER_BYTES: usize = 256 << 10;

/// A directory that is being made.
pub(super) struct Directory<'a> {
    store: &'a dyn Store,
    name: PathBuf,
    partial: PathBuf,
    may_replace: bool,
    is_compressed: bool,
    /// Locked, so that no other process makes the same dump.
    _lock: File,
    is_finished: bool,
}

impl<'a> Directory<'a> {
    pub(super) fn begin(
        store: &'a dyn Store,
        name: &Path,
        may_replace: bool,
        is_compressed: bool,
    ) -> Result<Self, Failure> {
        refuse_absent_server(name)?;
        check_name(name, may_replace)?;
        let Some(file_name) = name.file_name() else {
            return Err(Failure::usage(format!("{} is not a name for a directory", name.display())));
        };
        let mut partial_name = file_name.to_owned();
        partial_name.push(".partial");
        let partial = name.with_file_name(partial_name);
        let failed = |error: std::io::Error| failed(&partial, &error);
        match std::fs::create_dir(&partial) {
            // The leftover of a killed process.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && is_dump(&partial) => {}
            made => made.map_err(failed)?,
        }
        let lock = File::open(&partial).map_err(failed)?;
        // Another process may have finished and renamed the directory between the opening and the lock.
        let is_same = |lock: &File| {
            let (named, locked) = (std::fs::metadata(&partial).ok()?, lock.metadata().ok()?);
            Some(named.ino() == locked.ino() && named.dev() == locked.dev())
        };
        let is_locked = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_locked || is_same(&lock) != Some(true) {
            let message = format!("{} is being written by another process", partial.display());
            return Err(Failure::new(Exit::Failed, message));
        }
        empty(&partial).map_err(failed)?;
        Ok(Self {
            store,
            name: name.to_owned(),
            partial,
            may_replace,
            is_compressed,
            _lock: lock,
            is_finished: false,
        })
    }

    /// Writes the last file and gives the directory its name.
    pub(super) fn finish(mut self, prelude: &Prelude) -> Result<(), Failure> {
        let text = text(&prelude.to_document(), Mode::Relaxed)?;
        self.write_whole(&self.partial, "prelude.json", text.as_bytes())?;
        self.place().map_err(|error| failed(&self.name, &error))?;
        self.is_finished = true;
        Ok(())
    }

    fn place(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.partial)? {
            let path = entry?.path();
            if path.is_dir() {
                sync(&path)?;
            }
        }
        sync(&self.partial)?;
        let mut old = self.partial.clone().into_os_string();
        old.push(".replaced");
        let is_there = std::fs::symlink_metadata(&self.name).is_ok();
        if is_there {
            // Asked again: somebody may have put something there meanwhile.
            let refused = |failure: Failure| std::io::Error::other(failure.message);
            check_name(&self.name, self.may_replace).map_err(refused)?;
            // The leftover of a process that was killed between the two renames below.
            if is_dump(Path::new(&old)) {
                std::fs::remove_dir_all(&old)?;
            }
            std::fs::rename(&self.name, &old)?;
        }
        std::fs::rename(&self.partial, &self.name)?;
        let parent = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))?;
        if is_there { std::fs::remove_dir_all(&old) } else { Ok(()) }
    }

    /// Opens a file of the dump, in a directory of its database.
    fn open(&self, folder: &Path, name: &str) -> Result<Body, Failure> {
        let name = if self.is_compressed { format!("{name}.gz") } else { name.to_owned() };
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, file.map_err(|error| failed(&path, &error))?);
        Ok(if self.is_compressed {
            Body::Gzip(path, GzEncoder::new(buffered, flate2::Compression::default()))
        } else {
            Body::Plain(path, buffered)
        })
    }

    fn write_whole(&self, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = self.open(folder, name)?;
        file.write(bytes)?;
        file.finish()
    }
}

impl Drop for Directory<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // A folder that cannot be removed keeps the ending that says what it is.
            let _ = std::fs::remove_dir_all(&self.partial);
        }
    }
}

impl Dump for Directory<'_> {
    fn begin<'a>(&'a self, found: &'a Found) -> Result<Box<dyn Documents + 'a>, Failure> {
        let folder = self.partial.join(&found.database);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(&folder, &error));
            }
            Ok(()) | Err(_) => {}
        }
        let name = file_name(&found.name);
        let body = if found.kind == DumpedKind::View {
            None
        } else {
            Some(self.open(&folder, &format!("{name}.bson"))?)
        };
        Ok(Box::new(Collection { directory: self, found, folder, name, body }))
    }
}

/// The two files of a collection.
struct Collection<'a> {
    directory: &'a Directory<'a>,
    found: &'a Found,
    folder: PathBuf,
    name: String,
    body: Option<Body>,
}

impl Documents for Collection<'_> {
    fn write(&mut self, document: &[u8]) -> Result<Written, Failure> {
        if let Some(body) = &mut self.body {
            body.write(document)?;
        }
        Ok(Written::Whole)
    }

    fn end(self: Box<Self>, numbered: Vec<Document>) -> Result<Written, Failure> {
        self.body.map_or(Ok(()), Body::finish)?;
        let metadata = self.found.metadata(self.directory.store, numbered)?;
        let name = format!("{}.metadata.json", self.name);
        self.directory.write_whole(&self.folder, &name, metadata.as_bytes())?;
        Ok(Written::Whole)
    }
}

/// An open file, with its path for messages.
enum Body {
    Plain(PathBuf, BufWriter<File>),
    Gzip(PathBuf, GzEncoder<BufWriter<File>>),
}

impl Body {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Plain(path, file) => file.write_all(bytes).map_err(|error| failed(path, &error)),
            Self::Gzip(path, file) => file.write_all(bytes).map_err(|error| failed(path, &error)),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let (path, buffered) = match self {
            Self::Plain(path, file) => (path, Ok(file)),
            Self::Gzip(path, encoder) => (path, encoder.finish()),
        };
        let synced = buffered
            .and_then(|buffered| buffered.into_inner().map_err(std::io::IntoInnerError::into_error))
            .and_then(|file| file.sync_all());
        synced.map_err(|error| failed(&path, &error))
    }
}

/// Rejects a name that is used by something else than an empty directory, or than a dump that may be replaced.
fn check_name(name: &Path, may_replace: bool) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::symlink_metadata(name) else { return Ok(()) };
    let is_empty = || std::fs::read_dir(name).is_ok_and(|mut entries| entries.next().is_none());
    let shown = name.display();
    if metadata.is_dir() && (is_empty() || may_replace && is_dump(name)) {
        return Ok(());
    }
    let message = if !metadata.is_dir() {
        format!("{shown} is there already, and no directory")
    } else if may_replace {
        format!("{shown} has more than a dump: remove it, or give another name")
    } else {
        format!("{shown} is there already, and not empty: give --overwrite to replace a dump")
    };
    Err(Failure::usage(message))
}

/// Whether a directory has nothing but what a dump has: nothing else may be removed.
fn is_dump(path: &Path) -> bool {
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let ends = |name: &str, endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let is_file_of_collection = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let endings = [".bson", ".bson.gz", ".metadata.json", ".metadata.json.gz"];
            entry.file_type().is_ok_and(|kind| kind.is_file()) && ends(&name(&entry), &endings)
        })
    };
    let is_part = |entry: std::io::Result<std::fs::DirEntry>| {
        let Ok(entry) = entry else { return false };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                std::fs::read_dir(entry.path()).is_ok_and(|mut files| files.all(is_file_of_collection))
            }
            Ok(kind) => {
                kind.is_file() && ["prelude.json", "prelude.json.gz"].contains(&name(&entry).as_str())
            }
            Err(_) => false,
        }
    };
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_part))
}

fn empty(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&path.display().to_string(), error)
}
