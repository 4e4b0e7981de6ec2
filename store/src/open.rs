//! Opens a store: claims the folder, checks its files, opens or creates RocksDB in it, checks the format stamp, starts
//! the background thread.
//!
//! The order is the invariant: nothing in an existing database is changed before the preflight has passed, and no write
//! is accepted before the witness describes this opening.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::error::{Error, ErrorKind, Result};
use base::sync::{HAS_BACKGROUND, Mutex, ShardedLock};
use rocksdb::{ColumnFamilyDescriptor, DB, Options, WriteOptions};

use crate::durable_mark::DurableMark;
use crate::families::{Database, Family};
use crate::filter_space::Memory;
use crate::folder::{self, Claim, FolderLock};
use crate::format::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, StoreId, is_readable};
use crate::health::Health;
use crate::keys::META_FORMAT;
use crate::latch::Latches;
use crate::options::{Compression, Durability, PlantedFault};
use crate::preflight::{self, Passed, SyncedState};
use crate::recovery::{RecoveryReport, TornEnd};
use crate::refusal::{met_while_opening, refusal, refuse_damaged_tables};
use crate::store::Store;
use crate::sync::Background;
use crate::tuning::{MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, Tuning};
use crate::witness::{self, FoundWitness, Keeper};
use crate::write::Commits;
use crate::{fork, processor, scratch, translate};

/// The way in which a folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading and writing; an absent or empty folder becomes a database.
    CreateIfMissing,
    /// For reading and writing; the folder must be a database.
    MustExist,
    /// For reading, also while another process writes. The store shows the state of the moment of opening.
    ReadOnly,
    /// For reading and writing in memory. The path is only a name.
    InMemory,
    /// For reading a checkpoint that has no marker yet.
    ReadOnlyCopy,
}

impl OpenMode {
    /// Whether the store has no folder.
    pub fn is_in_memory(self) -> bool {
        self == Self::InMemory
    }

    /// Whether the store accepts no writes.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadOnlyCopy)
    }

    /// Whether the folder has neither a marker nor a witness yet.
    pub fn is_unmarked(self) -> bool {
        self == Self::ReadOnlyCopy
    }
}

/// The choices of a caller that opens a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The folder.
    pub path: PathBuf,
    /// The way of opening it.
    pub mode: OpenMode,
    /// Bytes for the block cache and the memtables together.
    pub memory_budget: usize,
    /// Bytes of them for records and leaves of indexes that are looked up often, if a suite says so. Otherwise the budget decides.
    pub record_cache: Option<usize>,
    /// The compression of tables.
    pub compression: Compression,
    /// The limit of the folder, in bytes.
    pub disk_quota: Option<u64>,
    /// Bytes in which an index build sorts its keys.
    pub index_build_memory: usize,
    /// The limits of sorts, groups and joins beyond their memory.
    pub spilling: SpillOptions,
    /// The durability of writes without a write concern.
    pub durability: Durability,
    /// Whether the witness is kept, and whether its statement is checked.
    pub witness: bool,
    /// Whether a folder of an older format is upgraded when it is opened for writing. Otherwise it is rejected.
    pub upgrade: bool,
    /// The fault that a suite plants.
    pub fault: PlantedFault,
}

/// The limits of sorts, groups and joins beyond their memory.
#[derive(Clone, Copy, Debug)]
pub struct SpillOptions {
    /// Bytes that a sort, or a stage of a pipeline, may hold in memory.
    pub stage_memory: usize,
    /// Bytes that all temporary files together may have. With 0 there are none.
    pub space: u64,
}

impl Default for SpillOptions {
    fn default() -> Self {
        Self { stage_memory: 100 << 20, space: 10 << 30 }
    }
}

impl StoreOptions {
    /// The values from which RocksDB's options are computed.
    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            memory_budget: self.memory_budget,
            record_cache: self.record_cache,
            compression: self.compression,
            disk_quota: self.disk_quota,
            gate: Arc::default(),
            files: None,
            delays_log: self.durability.write_interval().is_some(),
        }
    }
}

impl Store {
    /// Opens the store in the folder that `options` name.
    pub fn open(options: &StoreOptions) -> Result<Self> {
        // Before the first call of RocksDB, which would end the process on a processor that is too old.
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
        let tuning = options.tuning();
        match options.mode {
            OpenMode::ReadOnly => {
                folder::inspect(&options.path)?;
                // The checks and the opening are one step, which is repeated as a whole.
                preflight::retry_while_changing(&options.path, || {
                    let (known, found) = known(options, witness::read(&options.path))?;
                    let id = found.map(|found| found.slot.store).unwrap_or_default();
                    if options.fault == PlantedFault::PreflightOff {
                        return Self::open_read_only(options, &tuning, Passed::default(), id);
                    }
                    let passed = preflight::inspect_for_reading(&options.path, &known)?;
                    let store = Self::open_read_only(options, &tuning, passed, id)?;
                    let kept = store.enter()?.oldest_log_kept();
                    preflight::check_logs_were_kept(&options.path, &known, kept)?;
                    Ok(store)
                })
            }
            OpenMode::ReadOnlyCopy => {
                folder::refuse_irregular(&options.path)?;
                // A checkpoint has no witness before it was verified, and no process writes to it.
                let passed = preflight::inspect(&options.path, &SyncedState::default())?;
                Self::open_read_only(options, &tuning, passed, StoreId::default())
            }
            OpenMode::InMemory => Self::make_in_memory(options),
            OpenMode::MustExist => Self::open_for_writing(options, &tuning, false),
            OpenMode::CreateIfMissing => Self::open_for_writing(options, &tuning, true),
        }
    }

    fn open_for_writing(options: &StoreOptions, tuning: &Tuning, create: bool) -> Result<Self> {
        let path = &options.path;
        let opened = match folder::claim(path, create, options.fault)? {
            Claim::Complete(lock) => {
                if !options.upgrade {
                    refuse_older(path)?;
                }
                open_complete(options, tuning, lock)?
            }
            Claim::Fresh(lock) => {
                // The marker is published last. If the process is killed before, the next open finds a creation that
                // is incomplete and starts again.
                let id = witness::new_store_id()?;
                let database = create_rocksdb(path, tuning, id)?;
                let found = witness::create(path, id)?;
                folder::publish(path)?;
                let (database, passed) = (database.holding(lock), Passed::default());
                OpenedDatabase { database, found, passed, upgraded_from: None }
            }
        };
        let OpenedDatabase { database, found, passed, upgraded_from } = opened;
        let database = database.planting(options.fault).with_spill_space(options.spilling.space);
        let database = Arc::new(match options.disk_quota {
            Some(quota) => {
                let memtable = tuning.write_buffer_bytes() as u64;
                database.limited_to(quota, memtable, Arc::clone(&tuning.gate))?
            }
            // Its thread looks at the disk.
            None if HAS_BACKGROUND => database.keeping_disk_room(),
            None => database,
        });
        let durable = DurableMark::starting_at(database.latest_sequence(), options.fault);
        let keeper = Keeper::start(path, found, options.witness, options.fault)?;
        let mut commits = Commits::new(Health::open(), durable, Some(keeper), options.fault);
        if tuning.delays_log {
            commits = commits.delaying_log();
        }
        let commits = Arc::new(commits);
        // Before the first write: from now on the witness reveals if the files are replaced by older ones.
        commits.raise_witness(&database).map_err(|error| met_while_opening(path, error))?;
        let background = Background::start(&database, &commits, options.durability)?;
        Ok(Self { upgraded_from, ..Self::assemble(database, commits, background, passed) })
    }

    fn open_read_only(options: &StoreOptions, tuning: &Tuning, passed: Passed, id: StoreId) -> Result<Self> {
        let memory = tuning.memory();
        let database_options = tuning.database_options(&memory);
        let families = families_of(&database_options, &options.path)?;
        let raw = DB::open_cf_descriptors_read_only(
            &database_options,
            &options.path,
            tuning.families(&memory, families),
            false,
        )
        .map_err(|error| refusal(&options.path, error))?;
        let database = database_of(raw, id, tuning, &memory).planting(options.fault);
        // A reader may sort as much as a writer.
        let database = database.with_spill_space(options.spilling.space).spilling_into(std::env::temp_dir());
        refuse_lost_writes(&options.path, &database, &passed)?;
        stamped_version(&options.path, &database)?;
        let durable = DurableMark::starting_at(database.latest_sequence(), options.fault);
        // No witness and no background thread: a reader changes nothing in the folder, which may be another process's.
        let commits = Arc::new(Commits::new(Health::read_only(), durable, None, options.fault));
        Ok(Self::assemble(Arc::new(database), commits, None, passed))
    }

    pub(super) fn assemble(
        database: Arc<Database>,
        commits: Arc<Commits>,
        background: Option<Background>,
        passed: Passed,
    ) -> Self {
        for torn in &passed.torn {
            let (file, TornEnd { offset, bytes, reason, .. }) = (torn.file.display(), torn);
            tracing::warn!(%file, offset, bytes, reason, "the end of a file was left out: it had not been synced");
        }
        let latches = Arc::new(Latches::new(database.fault()));
        database.live_starts().begin(&latches);
        Self {
            gate: ShardedLock::new(Some(database)),
            commits,
            latches,
            errands: background.as_ref().map(Background::errands),
            background: Mutex::new(background),
            recovery: RecoveryReport { log_bytes: passed.log_bytes, torn: passed.torn },
            upgraded_from: None,
        }
    }
}

fn database_of(raw: DB, id: StoreId, tuning: &Tuning, memory: &Memory) -> Database {
    Database::new(raw, id, tuning.family_options(memory))
        .with_record_cache(tuning.record_cache_bytes())
        .with_leaves(tuning.entry_leaves_bytes(), tuning.record_leaves_bytes())
        .with_filters(tuning.filter_space(memory))
}

/// An open database, and what was found in its folder before.
struct OpenedDatabase {
    database: Database,
    found: FoundWitness,
    passed: Passed,
    /// The version of its format before it was upgraded.
    upgraded_from: Option<u32>,
}

/// Opens a folder that holds a database. Nothing in it is written until the preflight has passed.
fn open_complete(options: &StoreOptions, tuning: &Tuning, lock: FolderLock) -> Result<OpenedDatabase> {
    let path = &options.path;
    let (known, found) = known(options, witness::read(path))?;
    let mut passed = if options.fault == PlantedFault::PreflightOff {
        Passed::default()
    } else {
        preflight::inspect(path, &known)?
    };
    if !passed.cuts.is_empty() {
        // RocksDB would find them too, but only after the cut, and a folder that is rejected stays as it was.
        refuse_damaged_tables(path, &passed.tables)?;
    }
    preflight::set_aside(path, &mut passed)?;
    let memory = tuning.memory();
    // A database without a readable witness gets a new id. Stamps with the old id no longer count then.
    let id = found.map_or_else(witness::new_store_id, |found| Ok(found.slot.store))?;
    let database_options = tuning.database_options(&memory);
    let families = families_of(&database_options, path)?;
    let raw = open_with(&database_options, path, tuning.families(&memory, families))?;
    let mut database = database_of(raw, id, tuning, &memory);
    refuse_lost_writes(path, &database, &passed)?;
    let upgraded_from = upgrade(path, &mut database, &lock, |family| tuning.options_of(family, &memory))?;
    let database = database.holding(lock);
    // Files of a build that was cut short. Its entries are removed once the catalog is read.
    scratch::remove_all(path);
    // Last: a folder that is rejected above keeps the witness that it had.
    let found = found.map_or_else(|| witness::renew(path, id), Ok)?;
    Ok(OpenedDatabase { database, found, passed, upgraded_from })
}

/// Returns what the witness reports as synced, and the witness if it can be read. If the options say that none is kept,
/// a missing or damaged witness is not an error.
fn known(options: &StoreOptions, found: Result<FoundWitness>) -> Result<(SyncedState, Option<FoundWitness>)> {
    match found {
        Ok(found) => {
            if found.other_is_damaged {
                tracing::warn!(
                    path = %options.path.display(),
                    "one of the witness's two slots cannot be read: a crash cut it short, or it is damaged"
                );
            }
            // The id is used even if the witness is not: the stamps in the logs are compared with it.
            let known = if options.witness { found.known() } else { found.id_only() };
            Ok((known, Some(found)))
        }
        Err(error) if !options.witness => {
            tracing::warn!(%error, "the witness cannot be read, and is not asked for");
            Ok((SyncedState::default(), None))
        }
        Err(error) => Err(error),
    }
}

/// Fails if RocksDB opened with fewer writes than the preflight had read.
fn refuse_lost_writes(path: &Path, database: &Database, passed: &Passed) -> Result<()> {
    let found = database.latest_sequence();
    if found >= passed.sequence {
        return Ok(());
    }
    let (from, to) = (found + 1, passed.sequence);
    Err(Error::new(ErrorKind::DataLoss { path: path.to_owned(), from, to }))
}

pub(super) fn create_rocksdb(path: &Path, tuning: &Tuning, id: StoreId) -> Result<Database> {
    let memory = tuning.memory();
    let mut options = tuning.database_options(&memory);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_error_if_exists(true);
    let raw = open_with(&options, path, tuning.families(&memory, Family::ALL))?;
    let database = database_of(raw, id, tuning, &memory);
    // The stamp is synced before the marker is published: a folder with the marker must have a stamp.
    write_stamp(&database)?;
    Ok(database)
}

/// Fails if the folder is of an older format. It was locked.
fn refuse_older(path: &Path) -> Result<()> {
    let found = folder::format_version(path)?;
    if found == FORMAT_VERSION {
        return Ok(());
    }
    let path = path.to_owned();
    Err(Error::new(ErrorKind::NotUpgraded { path, found }))
}

/// Makes a folder of an older format one of the current format, and returns the older one.
///
/// Versions 4 and 5 add optional things: a catalog entry and an entry of an index mean in them what they meant before. Versions 6 and 7
/// add a family each. The marker is written first, because a library that does not know the new version must not open a folder that was
/// written to under it, then the family is made, and then the stamp. A crash in between leaves an older stamp, and the next opening
/// goes on from there.
fn upgrade(
    path: &Path,
    database: &mut Database,
    lock: &FolderLock,
    options: impl Fn(Family) -> Options,
) -> Result<Option<u32>> {
    let found = stamped_version(path, database)?;
    lock.upgrade().map_err(folder::failed("name the format in the marker file of", path))?;
    database.create_missing(options)?;
    if found < FORMAT_VERSION {
        write_stamp(database)?;
        tracing::info!(path = %path.display(), found, now = FORMAT_VERSION, "the folder's format was upgraded");
    }
    Ok((found < FORMAT_VERSION).then_some(found))
}

/// Writes the format stamp, synced.
fn write_stamp(database: &Database) -> Result<()> {
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    database
        .raw()
        .put_cf_opt(database.family(Family::Meta), META_FORMAT, FORMAT_VERSION.to_be_bytes(), &synced)
        .map_err(translate::read)
}

/// The families that a folder has: one of an older format lacks those that were added since, and so does one whose upgrade was cut
/// short.
fn families_of(options: &Options, path: &Path) -> Result<Vec<Family>> {
    let names = DB::list_cf(options, path).map_err(|error| refusal(path, error))?;
    let has = |family: &Family| names.iter().any(|name| name == family.name());
    Ok(Family::ALL.into_iter().filter(has).collect())
}

fn open_with(options: &Options, path: &Path, families: Vec<ColumnFamilyDescriptor>) -> Result<DB> {
    DB::open_cf_descriptors(options, path, families).map_err(|error| {
        // RocksDB gives no kind for its own lock, only these two texts: for another process and for this one.
        if error.as_ref().contains("lock file") || error.as_ref().contains("lock hold by current process") {
            return Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() });
        }
        refusal(path, error)
    })
}

/// The version of the format stamp. Fails if this library does not read it.
fn stamped_version(path: &Path, database: &Database) -> Result<u32> {
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
    if found > FORMAT_VERSION {
        // It is written after the marker, which was read.
        return Err(Error::corruption(
            Family::Meta.name(),
            META_FORMAT,
            format!("the format stamp names version {found}, and the marker file an older one"),
        ));
    }
    if !is_readable(found) {
        return Err(Error::new(ErrorKind::UnsupportedFormat {
            path: path.to_owned(),
            found: found.to_string(),
            oldest: FORMAT_VERSION_OLDEST,
            supported: FORMAT_VERSION,
        }));
    }
    Ok(found)
}
