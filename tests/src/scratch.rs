//! Folders to work in: in memory where the system has such a place, and gone when they are dropped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cairndb::bson::Document;
use cairndb::{Client, ClientBuilder, Collection};
use tempfile::TempDir;

/// The number of times that a copy is tried while files come and go.
const COPIES_MAX: usize = 100;
/// The variable of the environment that has databases made in memory.
const IN_MEMORY_VARIABLE: &str = "CAIRNDB_IN_MEMORY";
/// Bytes in which a record or two of each part of the cache have room.
const TINY_CACHE: usize = 256 << 10;
/// A place in memory on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";

/// Which kind of storage a folder lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Memory, if the system offers a folder there: a sync costs nothing.
    Memory,
    /// The system's temporary folder: a sync is one.
    Disk,
}

/// A folder for one test.
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// An empty folder in memory.
    pub fn new() -> Self {
        Self::on(Medium::Memory)
    }

    /// An empty folder.
    pub fn on(place: Medium) -> Self {
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("cairndb-test-");
            builder
        };
        let in_memory = match place {
            Medium::Memory => builder().tempdir_in(MEMORY_FOLDER).ok(),
            Medium::Disk => None,
        };
        let folder = in_memory.map_or_else(|| builder().tempdir(), Ok);
        Self { folder: folder.expect("a temporary folder can be made") }
    }

    /// The folder itself, which exists.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The place where a database may be made; nothing is there yet.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    /// A copy of the database as it is on disk now, open or not: what would be left if its process were killed. No thread
    /// may write meanwhile.
    #[track_caller]
    pub fn killed(&self) -> Self {
        for _ in 0..COPIES_MAX {
            let copy = Self::new();
            let copied = copy_files(&self.path(), &copy.path());
            match copied.and_then(|()| Ok(names(&self.path())? == names(&copy.path())?)) {
                Ok(true) => return copy,
                // An open database makes files and removes those that it needs no more, also while no thread writes. One that
                // is copied may name one that is not.
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => panic!("{}: {error}", self.path().display()),
            }
        }
        panic!("files of {} come and go again and again", self.path().display())
    }

    /// Opens, or makes, the database.
    #[track_caller]
    pub fn open(&self) -> Client {
        self.open_with(small())
    }

    /// Opens, or makes, the database with options.
    #[track_caller]
    pub fn open_with(&self, options: ClientBuilder) -> Client {
        // A backup in the folder, for example, is opened there.
        let options = options.in_memory(in_memory() && !self.path().exists());
        options.open(self.path()).unwrap_or_else(|error| panic!("{}: {error:?}", self.path().display()))
    }
}

/// Whether databases are made in memory where they would be made in a folder. Suites run both ways.
pub fn in_memory() -> bool {
    std::env::var_os(IN_MEMORY_VARIABLE).is_some()
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // An index build that is running has a folder of its own.
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The names of the files of a folder and of its folders.
fn names(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(names(&entry.path())?.into_iter().map(|below| name.join(below)));
        }
        found.insert(name);
    }
    Ok(found)
}

/// Options with little memory, because tests run side by side.
pub fn small() -> ClientBuilder {
    Client::builder().memory_budget(16 << 20)
}

/// As [`small`], with as much memory for what is looked up often as the budget gives, so little that nearly everything is driven out, or
/// none.
pub fn small_with_cache(number: u64) -> ClientBuilder {
    let bytes = [None, Some(TINY_CACHE), Some(0)];
    let chosen = bytes.get(usize::try_from(number % 3).unwrap_or(0)).copied().flatten();
    chosen.map_or_else(small, |bytes| small().record_cache(bytes))
}

/// The collection that most tests work on.
pub fn things(client: &Client) -> Collection<Document> {
    client.database("test").collection("things")
}
