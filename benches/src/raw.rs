//! RocksDB's side. [`Raw::create`] opens it with the very options that CairnDB wrote into its own folder, so that only
//! the engine's work makes the difference; [`Raw::best`] with what is best for this work, so that CairnDB's choice of
//! options counts too.
//!
//! It promises as much: CairnDB syncs buffered writes within 100 ms, so the WAL is synced as often here. Against a
//! RocksDB that never syncs, inserts come out lower, those of two threads most.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb::bson::RawDocumentBuf;
use cairndb::bson::oid::ObjectId;
use index::key::{self, Direction};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, Env, Options, WriteBufferManager, WriteOptions,
};
use tempfile::TempDir;

use crate::documents;
use crate::ours::Ours;

/// CairnDB's default memory budget, which is divided as `store/src/tuning.rs` does.
const MEMORY_BUDGET: usize = 256 << 20;

/// As often as CairnDB's default durability asks for.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// The time that a write may be in memory alone, where that is what is compared.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_millis(5);

/// An open RocksDB database with CairnDB's families and options.
pub struct Raw {
    sync: Option<(Sender<()>, JoinHandle<()>)>,
    db: Arc<DB>,
    /// Reused, as anyone who cares for speed would.
    pub writes: WriteOptions,
    opponent: Opponent,
    // Dropped after the database.
    folder: TempDir,
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.sync.take() {
            drop(stop);
            thread.join().expect("the sync thread ends");
        }
    }
}

/// The way in which RocksDB is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opponent {
    /// With CairnDB's options, families and keys.
    Alike,
    /// With RocksDB's own options but for its cache, one family, and the bare ids as keys.
    Best,
}

/// A key and a value as CairnDB stores them.
pub type Record = (Vec<u8>, Vec<u8>);

impl Raw {
    /// Makes one with the options found in a CairnDB folder.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn create() -> Self {
        Self::like(&Ours::create(), SYNC_INTERVAL)
    }

    /// Makes one whose writes are acknowledged in memory, and handed to the system and synced as often as CairnDB's.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn delayed() -> Self {
        Self::like(&Ours::delayed(), WRITE_INTERVAL)
    }

    fn like(model: &Ours, interval: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let db = open_alike(&model.path(), &folder.path().join("db"));
        Self::synced(db, folder, Opponent::Alike, interval)
    }

    /// Makes one with the options that are best for writing documents and reading them by id. It has the same memory.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn best() -> Self {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_hyper_clock_cache(MEMORY_BUDGET / 2, 0));
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.create_if_missing(true);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let db = DB::open_cf_with_opts(&options, folder.path().join("db"), families).expect("a new database");
        Self::synced(db, folder, Opponent::Best, SYNC_INTERVAL)
    }

    /// Makes one for that opponent.
    ///
    /// # Panics
    /// If the temporary folder cannot hold it.
    pub fn of(opponent: Opponent) -> Self {
        match opponent {
            Opponent::Alike => Self::create(),
            Opponent::Best => Self::best(),
        }
    }

    /// Hands the log over once in an interval, and syncs it as often as CairnDB does.
    fn synced(db: DB, folder: TempDir, opponent: Opponent, interval: Duration) -> Self {
        let db = Arc::new(db);
        let (stop, stopped) = channel();
        let synced = Arc::clone(&db);
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let is_due = last.elapsed() >= SYNC_INTERVAL;
                synced.flush_wal(is_due).expect("handed over, and synced");
                if is_due {
                    last = Instant::now();
                }
            }
        });
        Self { sync: Some((stop, thread)), db, writes: WriteOptions::default(), opponent, folder }
    }

    /// The folder that the database is in, for files that are moved into it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The options of a table file as CairnDB's builds write it, by `store/src/tuning.rs`.
    pub fn table_options(&self) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_size(16 << 10);
        table.set_bloom_filter(10.0, false);
        table.set_whole_key_filtering(true);
        table.set_format_version(5);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        options
    }

    /// The database.
    pub fn db(&self) -> &DB {
        &self.db
    }

    /// The family of documents.
    ///
    /// # Panics
    /// Never: the database has it.
    pub fn records(&self) -> &ColumnFamily {
        let name = match self.opponent {
            Opponent::Alike => "records",
            Opponent::Best => DEFAULT_COLUMN_FAMILY_NAME,
        };
        self.db.cf_handle(name).expect("the family of documents")
    }

    /// The record of a document without `_id`, under a new id.
    pub fn record(&self, document: &RawDocumentBuf) -> Record {
        self.record_with_id(document, ObjectId::new())
    }

    /// The record of a document under that id.
    pub fn record_with_id(&self, document: &RawDocumentBuf, id: ObjectId) -> Record {
        let (key, value) = record_with_id(document, id);
        match self.opponent {
            Opponent::Alike => (key, value),
            Opponent::Best => (id.bytes().to_vec(), value),
        }
    }

    /// The family of index entries.
    ///
    /// # Panics
    /// If it is the best one, which has no such family.
    pub fn entries(&self) -> &ColumnFamily {
        self.db.cf_handle("entries").expect("CairnDB's families")
    }
}

/// Opens the database in `path`, or makes it, with the options that CairnDB wrote into the folder `model`.
///
/// # Panics
/// If the options cannot be read, or the folder cannot be opened.
pub fn open_alike(model: &Path, path: &Path) -> DB {
    let cache = Cache::new_hyper_clock_cache(MEMORY_BUDGET, 0);
    let manager =
        WriteBufferManager::new_write_buffer_manager_with_cache(MEMORY_BUDGET / 2, false, cache.clone());
    let (mut options, families) = load_options(model, cache);
    options.set_write_buffer_manager(&manager);
    DB::open_cf_descriptors(&options, path, families).expect("it opens")
}

/// Adds records to the log of the CairnDB folder `path`, as a process leaves it that dies before they are in tables, until all its
/// logs have `bytes` bytes.
///
/// # Panics
/// If the folder cannot be opened, or cannot hold them.
pub fn lengthen_log(path: &Path, bytes: u64) {
    let (options, families) = load_options(path, Cache::new_hyper_clock_cache(MEMORY_BUDGET, 0));
    let database = DB::open_cf_descriptors(&options, path, families).expect("it opens");
    let family = database.cf_handle("records").expect("the family of documents");
    // Larger than the log, so that nothing is flushed.
    let memtable = (4 * bytes).to_string();
    database
        .set_options_cf(family, &[("write_buffer_size", &memtable)])
        .expect("an option that can be changed");
    let mut number = 0;
    while log_bytes(path) < bytes {
        for _ in 0..10_000 {
            let (key, value) = record(&documents::raw_order(number));
            database.put_cf(family, key, value).expect("written");
            number += 1;
        }
    }
    database.flush_wal(true).expect("synced");
}

/// The bytes of all logs in a folder.
fn log_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry"));
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    logs.map(|entry| entry.metadata().expect("its length").len()).sum()
}

/// The options that CairnDB wrote into a folder.
fn load_options(model: &Path, cache: Cache) -> (Options, Vec<ColumnFamilyDescriptor>) {
    let env = Env::new().expect("the default environment");
    let (mut options, families) = Options::load_latest(model, env, false, cache).expect("CairnDB's options");
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // CairnDB sets it while it makes a folder.
    options.set_error_if_exists(false);
    (options, families)
}

/// The bytes that CairnDB stores for a document without `_id`, under an id of its kind.
pub fn record(document: &RawDocumentBuf) -> Record {
    record_with_id(document, ObjectId::new())
}

/// The bytes that CairnDB stores for a document under that id.
///
/// # Panics
/// If the document is not well-formed.
pub fn record_with_id(document: &RawDocumentBuf, id: ObjectId) -> Record {
    let mut stored = RawDocumentBuf::new();
    stored.append(cairndb::bson::cstr!("_id"), id);
    for element in document.iter_elements().flatten() {
        let value = element.value().expect("the document was just made");
        stored.append(element.key(), value);
    }
    let mut key = 1_u32.to_be_bytes().to_vec();
    key::encode(cairndb::bson::RawBsonRef::ObjectId(id), Direction::Ascending, &mut key);
    (key, stored.into_bytes())
}

/// The bytes of a unique index's entry for a 64-bit value.
pub fn unique_entry(value: i64, record_key: &[u8]) -> Record {
    let mut key = 2_u32.to_be_bytes().to_vec();
    let mut types = Vec::new();
    key::encode_with_types(
        cairndb::bson::RawBsonRef::Int64(value),
        Direction::Ascending,
        &mut key,
        &mut types,
    );
    (key, [record_key.get(4..).unwrap_or_default(), &types].concat())
}
