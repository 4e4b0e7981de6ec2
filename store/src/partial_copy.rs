//! A copy of a database that shares no file with it, while it is made: in a folder that has its name only once the copy is
//! whole and verified. A table that an earlier copy has already is linked from there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};
use twox_hash::xxhash3_128;

use crate::copy;
use crate::families::Database;
use crate::folder::{failed, sync_folder, sync_parent};
use crate::fork;
use crate::held_files::{HeldFile, HeldFiles};
use crate::open::StoreOptions;
use crate::private;
use crate::removable::Removable;

/// The number of bytes that are read and written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The ending of the name of a copy while it is made.
const SUFFIX: &str = ".partial";

/// The length and the hash of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The length.
    pub bytes: u64,
    /// The hash of all bytes.
    pub hash: u128,
}

/// Tables of an earlier copy, by their names.
#[derive(Clone, Debug, Default)]
pub struct EarlierTables {
    /// The folder of that copy.
    pub folder: PathBuf,
    /// The tables that the copy has.
    pub tables: BTreeMap<String, Content>,
}

/// The copied files.
#[derive(Clone, Debug, Default)]
pub struct CopiedFiles {
    /// All tables of the copy.
    pub tables: BTreeMap<String, Content>,
    /// The bytes of all files of the copy.
    pub bytes: u64,
    /// The bytes of files that an earlier copy has too.
    pub bytes_linked: u64,
    /// The number of those files.
    pub files_linked: u64,
}

/// The calls of a copy while it is made.
pub struct CopyCalls<'a> {
    /// Says whether to go on.
    pub look: &'a dyn Fn() -> Result<()>,
    /// Receives how many bytes of files are done, and of how many.
    pub tell: &'a mut dyn FnMut(u64, u64),
}

/// A copy that is being made. Dropping it removes it, unless it was kept or published.
pub struct PartialCopy {
    path: PathBuf,
    target: PathBuf,
    /// Absent once the copy was kept or published. Locked as long as the copy is made, so that no other process mistakes it for
    /// what a killed one left.
    folder: Option<Removable>,
}

impl PartialCopy {
    /// Makes the folder of a copy that is to be called `target`, which must not exist. What a killed process left of such a copy
    /// is removed.
    pub fn begin(target: &Path) -> Result<Self> {
        if target.symlink_metadata().is_ok() {
            return Err(Error::invalid_argument(format!(
                "the backup folder {} exists already",
                target.display()
            )));
        }
        let path = with_suffix(target, SUFFIX)?;
        let folder = Some(Removable::make_anew(&path)?);
        Ok(Self { path, target: target.to_owned(), folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the present state of the database. All of it is on stable storage then.
    pub fn fill(
        &self,
        database: &Database,
        options: &StoreOptions,
        earlier: &EarlierTables,
        calls: CopyCalls<'_>,
    ) -> Result<CopiedFiles> {
        if database.is_in_memory() {
            return self.fill_from_memory(database, options, calls);
        }
        let held = HeldFiles::of(database, options, calls.look)?;
        self.fill_from(&held, earlier, calls)
    }

    /// Copies what a store in memory has, whose tables are never those of an earlier copy.
    fn fill_from_memory(
        &self,
        database: &Database,
        options: &StoreOptions,
        calls: CopyCalls<'_>,
    ) -> Result<CopiedFiles> {
        let CopyCalls { look, tell } = calls;
        let made = self.path.join("copy");
        copy::make(database, &made, options, look)?;
        let mut copied = CopiedFiles::default();
        let listed = || fs::read_dir(&made)?.collect::<io::Result<Vec<_>>>();
        for entry in listed().map_err(failed("list the folder", &made))? {
            let file = entry.path();
            copied.bytes += entry.metadata().map_err(failed("look at the file", &file))?.len();
            fs::rename(&file, self.path.join(entry.file_name())).map_err(failed("move the file", &file))?;
        }
        fs::remove_dir(&made).map_err(failed("remove the folder", &made))?;
        tell(copied.bytes, copied.bytes);
        sync_folder(&self.path)?;
        Ok(copied)
    }

    fn fill_from(
        &self,
        held: &HeldFiles<'_>,
        earlier: &EarlierTables,
        calls: CopyCalls<'_>,
    ) -> Result<CopiedFiles> {
        let CopyCalls { look, tell } = calls;
        let total = held.files.iter().map(|file| file.bytes).sum();
        let mut copied = CopiedFiles::default();
        tell(0, total);
        let mut done = 0_u64;
        for file in &held.files {
            let source = held.folder.join(&file.name);
            let mut watch = |bytes: u64| {
                look()?;
                // A file that is read to see its hash, and has another one, is read once more.
                tell((done + bytes).min(total), total);
                Ok(())
            };
            let known = earlier.tables.get(&file.name).filter(|known| known.bytes == file.bytes);
            // By content and not by name: a store that was restored gives the numbers of its tables again.
            let is_linked = match known {
                Some(known) if content(&source, file.bytes, &mut watch)? == *known => {
                    self.link(&file.name, earlier)
                }
                Some(_) | None => false,
            };
            let content = match known {
                Some(known) if is_linked => *known,
                Some(_) | None => self.copy(&source, file, &mut watch)?,
            };
            done += file.bytes;
            copied.bytes += content.bytes;
            if is_linked {
                copied.bytes_linked += content.bytes;
                copied.files_linked += 1;
            }
            if file.is_table {
                copied.tables.insert(file.name.clone(), content);
            }
        }
        sync_folder(&self.path)?;
        Ok(copied)
    }

    /// Links a table of an earlier copy. Returns `false` if that copy has it no more, or the file system has no such links.
    fn link(&self, name: &str, earlier: &EarlierTables) -> bool {
        fs::hard_link(earlier.folder.join(name), self.path.join(name)).is_ok()
    }

    /// Copies a file, and returns what it has. It is on stable storage then, but for its name.
    fn copy(
        &self,
        source: &Path,
        file: &HeldFile,
        watch: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Content> {
        let target = self.path.join(&file.name);
        let opened = private::file_options().create_new(true).write(true).open(&target);
        let mut copy = opened.map_err(|error| not_written(&target, error))?;
        let mut take = |piece: &[u8], so_far: u64| {
            watch(so_far)?;
            copy.write_all(piece).map_err(|error| not_written(&target, error))
        };
        let content = match &file.content {
            Some(known) => read(known.as_slice(), source, file.bytes, &mut take)?,
            None => read(open(source)?, source, file.bytes, &mut take)?,
        };
        // Now, and not when the copy gets its name: the system has less to write then.
        copy.sync_all().map_err(|error| not_written(&target, error))?;
        Ok(content)
    }

    /// Leaves the folder as it is, without a marker: it cannot be opened as a database.
    pub fn keep(mut self) -> PathBuf {
        self.folder = None;
        self.path.clone()
    }

    /// Gives the copy its marker and its name.
    pub fn publish(mut self, database: &Database) -> Result<()> {
        copy::publish(database, &self.path)?;
        if self.target.symlink_metadata().is_ok() {
            let target = self.target.display();
            return Err(Error::invalid_argument(format!("the backup folder {target} was made meanwhile")));
        }
        // The marker is there already, so what has the name can be opened.
        let Some(mut folder) = self.folder.take() else { return Ok(()) };
        if let Err(error) = folder.rename(&self.target) {
            // The drop removes it.
            self.folder = Some(folder);
            return Err(error);
        }
        sync_parent(&self.target)?;
        // Last: until it has its name, the mark is what the folder is known by. A copy that is complete may have it.
        folder.unmark()
    }
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        // A forked child has this value too, and must remove nothing.
        if let Some(folder) = self.folder.take().filter(|_| !fork::is_child())
            && let Err(error) = folder.remove()
        {
            tracing::warn!(%error, path = %self.path.display(), "an unfinished backup could not be removed");
        }
    }
}

/// Reads the first bytes of a file, and returns what they are.
fn content(path: &Path, bytes: u64, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<Content> {
    read(open(path)?, path, bytes, &mut |_, so_far| watch(so_far))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(failed("open the file", path))
}

/// Reads at most `bytes` bytes, piece by piece. `take` gets each piece, and how many bytes were read with it.
fn read(
    source: impl Read,
    path: &Path,
    bytes: u64,
    take: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<Content> {
    let mut source = source.take(bytes);
    let mut piece = vec![0; PIECE_BYTES];
    let (mut hasher, mut bytes) = (xxhash3_128::Hasher::new(), 0);
    loop {
        let length = match source.read(&mut piece) {
            Ok(0) => return Ok(Content { bytes, hash: hasher.finish_128() }),
            Ok(length) => length,
            // A signal to the process came before anything was read.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed("read the file", path)(error)),
        };
        let read = piece.get(..length).unwrap_or_default();
        hasher.write(read);
        bytes += length as u64;
        take(read, bytes)?;
    }
}

/// The path with something after its name, also where a slash follows the name.
fn with_suffix(path: &Path, suffix: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid_argument(format!("{} is not a name of a folder", path.display())));
    };
    let mut name = name.to_owned();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

/// The error of a file that cannot be written.
fn not_written(path: &Path, error: io::Error) -> Error {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if is_full {
        let message = format!("{}: {error}", path.display());
        return Error::new(ErrorKind::NoSpace { message, during_commit: false });
    }
    failed("write the file", path)(error)
}
