//! A store in a folder of its own, as this crate's unit tests open it.

use std::path::Path;
use std::sync::Arc;

use base::error::Result;
use query::operation::OperationContext;
use tempfile::TempDir;

use crate::families::Database;
use crate::handles::Storage;
use crate::open::{OpenMode, SpillOptions, StoreOptions};
use crate::options::{Compression, Durability, PlantedFault};
use crate::store::Store;
use crate::write::{CommitLevel, RecordBytes};

/// An open store.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) database: Arc<Database>,
    // Dropped last: the store is in it.
    folder: TempDir,
}

/// Options of a test, which opens the folder `path`.
pub(crate) fn options(path: &Path, mode: OpenMode) -> StoreOptions {
    StoreOptions {
        path: path.to_owned(),
        mode,
        memory_budget: 16 << 20,
        record_cache: None,
        compression: Compression::None,
        disk_quota: None,
        index_build_memory: 1 << 20,
        spilling: SpillOptions::default(),
        durability: Durability::default(),
        witness: true,
        upgrade: true,
        fault: PlantedFault::None,
    }
}

/// Opens a folder for writing. It is made if it does not exist.
pub(crate) fn open(path: &Path) -> Result<Store> {
    Store::open(&options(path, OpenMode::CreateIfMissing))
}

/// Stores one record.
pub(crate) fn insert(store: &Store, key: &[u8]) -> Result<()> {
    insert_into(store, &*store.enter()?, key)
}

/// Stores one record in the database of a store that was entered.
pub(crate) fn insert_into(store: &Store, database: &Database, key: &[u8]) -> Result<()> {
    let mut latched = store.latches.lock_one(key, &OperationContext::default())?;
    let record = RecordBytes { key, document: b"a record" };
    store.commit_new_record(database, record, CommitLevel::Buffered, &mut latched)
}

impl Fixture {
    /// An empty store in a new folder.
    #[track_caller]
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder.path().join("db")).expect("made");
        let database = Arc::clone(&store.enter().expect("open"));
        Self { store, database, folder }
    }

    /// The store with its database, as operations get them.
    pub(crate) fn storage(&self) -> Storage<'_> {
        Storage { store: &self.store, database: &self.database }
    }

    /// Closes the store. Returns its folder, which has the name `db` in it.
    #[track_caller]
    pub(crate) fn closed(self) -> TempDir {
        let Self { store, database, folder } = self;
        drop(database);
        store.close(|| (), |_| Ok(())).expect("closed");
        folder
    }
}
