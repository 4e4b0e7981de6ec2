//! A store whose insides the engine's unit tests look at: filled through the public API, then opened below it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::namespace::Namespace;
use sequence::object_id::Layout;
use store::{Database, OpenMode, SpillOptions, StoreOptions};
use tempfile::TempDir;

use crate::catalog::collection::CollectionState;
use crate::client::Client;
use crate::metrics::recorder::RecorderOptions;
use crate::options::{Compression, Durability, PlantedFault};
use crate::shared::Shared;
use crate::transaction::registry::Limits;

pub(crate) struct Fixture {
    pub(crate) shared: Shared,
    pub(crate) database: Arc<Database>,
    // Dropped last: the store is in it.
    _folder: TempDir,
}

/// Options of a test, which opens the folder `path`.
pub(crate) fn options(path: PathBuf, mode: OpenMode) -> StoreOptions {
    StoreOptions {
        path,
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

/// A client whose store is synced once a second, in a folder that is to outlive it.
pub(crate) fn syncing_late(fault: PlantedFault) -> (TempDir, Client) {
    let folder = tempfile::tempdir().expect("a folder");
    let durability = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    let builder = Client::builder().planted_fault(fault).durability(durability);
    let client = builder.open(folder.path().join("db")).expect("opened");
    (folder, client)
}

impl Fixture {
    /// The store that `fill` leaves behind.
    #[track_caller]
    pub(crate) fn filled(fill: impl FnOnce(&Client)) -> Self {
        Self::with_fault(PlantedFault::None, fill)
    }

    /// The same with a fault.
    #[track_caller]
    pub(crate) fn with_fault(fault: PlantedFault, fill: impl FnOnce(&Client)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let client = Client::open(&path).expect("made");
        fill(&client);
        client.close().expect("closed");
        let options = StoreOptions { fault, ..options(path, OpenMode::MustExist) };
        let shared =
            Shared::open(options, Layout::MachineProcess, None, RecorderOptions::OFF, Limits::default())
                .expect("opened");
        let database = Arc::clone(&shared.store.enter().expect("open"));
        Self { shared, database, _folder: folder }
    }

    /// Closes the store. Returns its folder, which has the name `db` in it.
    #[track_caller]
    pub(crate) fn closed(self) -> TempDir {
        let Self { shared, database, _folder: folder } = self;
        drop(database);
        shared.close().expect("closed");
        folder
    }

    /// The collection of that name in the database `test`.
    pub(crate) fn collection(&self, name: &str) -> Option<Arc<CollectionState>> {
        self.shared.catalog.find(&Namespace::parse("test", name).expect("a name"))
    }
}
