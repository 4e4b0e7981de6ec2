//! What every handle of one client shares: the store, the catalog and the id generator.

use std::sync::Arc;

use sequence::generator::Generator;
use sequence::object_id::Layout;

use crate::catalog::Catalog;
use crate::catalog::change::{Created, Storage};
use crate::catalog::collection::CollectionState;
use crate::catalog::load::discard_unfinished_builds;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::options::WriteConcern;
use crate::storage::fork;
use crate::storage::write::CommitLevel;
use crate::storage::{Database, Store, StoreOptions};

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) generator: Generator,
    pub(crate) options: StoreOptions,
}

impl Shared {
    pub(crate) fn open(options: StoreOptions, layout: Layout) -> Result<Self> {
        let store = Store::open(&options)?;
        let catalog = {
            let database = store.enter()?;
            let catalog = Catalog::load(&database)?;
            if !options.mode.is_read_only() {
                discard_unfinished_builds(&store, &database)?;
            }
            catalog
        };
        Ok(Self { store, catalog, generator: Generator::new(layout), options })
    }

    /// Ends all use: waits for running operations, syncs, and releases the folder. Repeating it is harmless.
    pub(crate) fn close(&self) -> Result<()> {
        fork::refuse_child()?;
        let closed = self.store.close(|database| self.catalog.save(&self.store, database));
        // Also where nothing could be written: what is left in blocks is handed out no more.
        self.catalog.sequences.all().iter().for_each(|state| state.sequence.retire());
        closed
    }

    /// When a write with this write concern returns.
    pub(crate) fn commit_level(&self, concern: Option<&WriteConcern>) -> Result<CommitLevel> {
        CommitLevel::of(concern, self.options.durability)
    }

    /// The collection of that name, made if it does not exist: MongoDB's rule for writes.
    pub(crate) fn find_or_create(
        &self,
        database: &Arc<Database>,
        namespace: &Namespace,
    ) -> Result<Arc<CollectionState>> {
        if let Some(collection) = self.catalog.find(namespace) {
            return Ok(collection);
        }
        match self.catalog.create(self.storage(database), namespace, &[])? {
            Created::New(collection) | Created::Existing(collection) => Ok(collection),
        }
    }

    pub(crate) fn storage<'a>(&'a self, database: &'a Arc<Database>) -> Storage<'a> {
        Storage { store: &self.store, database }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child leaves everything to its parent.
        if !fork::is_child()
            && let Err(error) = self.close()
        {
            tracing::error!(%error, "the database could not be closed in order; what was synced is safe");
        }
    }
}
