//! Opening: claim the folder, open or create RocksDB in it, check the stamp, start the background sync.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam::sync::ShardedLock;
use parking_lot::Mutex;
use rocksdb::{Cache, DB, Options, WriteOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::options::{Compression, Durability};
use crate::storage::Store;
use crate::storage::families::{Database, Family};
use crate::storage::folder::{self, Found};
use crate::storage::format::FORMAT_VERSION;
use crate::storage::health::Health;
use crate::storage::keys::META_FORMAT;
use crate::storage::latch::Latches;
use crate::storage::sync::{Background, DurableMark};
use crate::storage::tuning::{MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, Tuning};
use crate::storage::write::Commits;
use crate::storage::{fork, processor, translate};

/// How a folder is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// For reading and writing; an absent or empty folder becomes a database.
    CreateIfMissing,
    /// For reading and writing; the folder must be a database.
    MustExist,
    /// For reading; may be done while another process writes, and sees the state of the moment.
    ReadOnly,
    /// For reading a checkpoint that has no marker yet.
    ReadOnlyCopy,
}

impl OpenMode {
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadOnlyCopy)
    }
}

/// Everything that opening needs to know.
#[derive(Clone, Debug)]
pub(crate) struct StoreOptions {
    pub(crate) path: PathBuf,
    pub(crate) mode: OpenMode,
    pub(crate) memory_budget: usize,
    pub(crate) compression: Compression,
    pub(crate) durability: Durability,
}

impl Store {
    pub(crate) fn open(options: &StoreOptions) -> Result<Self> {
        processor::check()?;
        if options.memory_budget < MEMORY_BUDGET_MIN {
            return Err(Error::invalid_argument(format!(
                "memory_budget of {} bytes is below the least that works, {MEMORY_BUDGET_MIN} bytes",
                options.memory_budget
            )));
        }
        if u64::try_from(options.memory_budget).is_ok_and(|bytes| bytes > MEMORY_BUDGET_MAX) {
            return Err(Error::invalid_argument(format!(
                "memory_budget of {} bytes is above the most that is possible, {MEMORY_BUDGET_MAX} bytes",
                options.memory_budget
            )));
        }
        fork::open_here()?;
        let tuning = Tuning { memory_budget: options.memory_budget, compression: options.compression };
        match options.mode {
            OpenMode::ReadOnly => {
                folder::inspect(&options.path)?;
                Self::open_read_only(&options.path, &tuning)
            }
            OpenMode::ReadOnlyCopy => Self::open_read_only(&options.path, &tuning),
            OpenMode::MustExist => Self::open_for_writing(options, &tuning, false),
            OpenMode::CreateIfMissing => Self::open_for_writing(options, &tuning, true),
        }
    }

    fn open_for_writing(options: &StoreOptions, tuning: &Tuning, create: bool) -> Result<Self> {
        let path = &options.path;
        let (lock, database) = match folder::claim(path, create)? {
            Found::Complete(lock) => (lock, open_rocksdb(path, tuning)?),
            Found::Fresh(lock) => {
                let database = create_rocksdb(path, tuning)?;
                folder::publish(path)?;
                (lock, database)
            }
        };
        check_stamp(&database)?;
        let database = Arc::new(database.holding(lock));
        let durable = DurableMark::starting_at(database.latest_sequence());
        let commits = Arc::new(Commits::new(Health::open(), durable));
        let sync_interval = match options.durability {
            Durability::Buffered { sync_interval } => sync_interval,
            Durability::Journaled => Durability::SYNC_INTERVAL_MAX,
        };
        let background = Background::start(&database, &commits, sync_interval)?;
        Ok(Self::assemble(database, commits, Some(background)))
    }

    fn open_read_only(path: &Path, tuning: &Tuning) -> Result<Self> {
        let cache = tuning.cache();
        let raw = DB::open_cf_descriptors_read_only(
            &tuning.database_options(&cache),
            path,
            tuning.families(&cache),
            false,
        )
        .map_err(translate::read)?;
        let database = Database::new(raw);
        check_stamp(&database)?;
        let durable = DurableMark::starting_at(database.latest_sequence());
        let commits = Arc::new(Commits::new(Health::read_only(), durable));
        Ok(Self::assemble(Arc::new(database), commits, None))
    }

    fn assemble(database: Arc<Database>, commits: Arc<Commits>, background: Option<Background>) -> Self {
        Self {
            gate: ShardedLock::new(Some(database)),
            commits,
            latches: Latches::new(),
            errands: background.as_ref().map(Background::errands),
            background: Mutex::new(background),
        }
    }
}

fn open_rocksdb(path: &Path, tuning: &Tuning) -> Result<Database> {
    let cache = tuning.cache();
    open_with(&tuning.database_options(&cache), path, tuning, &cache)
}

fn create_rocksdb(path: &Path, tuning: &Tuning) -> Result<Database> {
    let cache = tuning.cache();
    let mut options = tuning.database_options(&cache);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_error_if_exists(true);
    let database = open_with(&options, path, tuning, &cache)?;
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    database
        .raw()
        .put_cf_opt(database.family(Family::Meta), META_FORMAT, FORMAT_VERSION.to_be_bytes(), &synced)
        .map_err(translate::read)?;
    Ok(database)
}

fn open_with(options: &Options, path: &Path, tuning: &Tuning, cache: &Cache) -> Result<Database> {
    DB::open_cf_descriptors(options, path, tuning.families(cache)).map(Database::new).map_err(|error| {
        if error.as_ref().contains("lock file") || error.as_ref().contains("lock hold by current process") {
            return Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() });
        }
        translate::read(error)
    })
}

fn check_stamp(database: &Database) -> Result<()> {
    let stamp = database.get(Family::Meta, META_FORMAT)?;
    let stamp: Option<&[u8]> = stamp.as_deref();
    let Some(bytes) = stamp.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) else {
        return Err(Error::corruption(
            Family::Meta.name(),
            META_FORMAT,
            "the format stamp is missing or is not 4 bytes long",
        ));
    };
    let found = u32::from_be_bytes(bytes);
    if found != FORMAT_VERSION {
        return Err(Error::new(ErrorKind::UnsupportedFormat {
            found: found.to_string(),
            supported: FORMAT_VERSION,
        }));
    }
    Ok(())
}
