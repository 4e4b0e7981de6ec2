//! Collections that are made before they are in the catalog: those of a transaction, until its commit.
//!
//! A collection's ids are reserved at once, and are lost if it is never published. The name is claimed at the end: it must be free then,
//! and stays so from the check until the collection is in the map, because the lock of all changes is held.
//!
//! That lock is not waited for long: who has it may wait for a turn that the transaction keeps.

use std::sync::Arc;
use std::time::Duration;

use base::error::Result;
use base::namespace::Namespace;
use store::handles::Storage;
use store::keys::{CollectionId, IndexId, META_NEXT_ID};
use store::write::Batch;
use store::{Database, Family};

use crate::catalog::change::{NewCollection, following_id};
use crate::catalog::collection::CollectionState;
use crate::catalog::definition_events::stage_created;
use crate::catalog::names::{Catalog, Ids, Named};
use crate::catalog::stage::stage_entry;

/// How long the lock of all changes is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Collections whose names are free, and stay so until they are published or this is dropped.
#[must_use]
pub(crate) struct Publishing<'a> {
    catalog: &'a Catalog,
    ids: Ids<'a>,
    collections: Vec<Arc<CollectionState>>,
}

impl Catalog {
    /// Makes a collection that is in the catalog once it is published. Returns `None` if something has its name, or another change
    /// lasts too long.
    pub(crate) fn make_unpublished(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        new: &NewCollection,
    ) -> Result<Option<Arc<CollectionState>>> {
        let Some(mut ids) = self.try_lock_ids(PATIENCE) else { return Ok(None) };
        if self.occupant(namespace).is_some() {
            return Ok(None);
        }
        self.refuse_case_clash(&namespace.db)?;
        let definition = new.definition(namespace, None, storage.database.fault())?;
        let definition = definition.with_log(self.log_of(namespace));
        let id = CollectionId(ids.id);
        ids.id = following_id(ids.id)?;
        let collection = CollectionState::new(id, namespace.clone(), definition);
        // Known from the beginning, so that the first count need not scan.
        collection.count.set(0);
        Ok(Some(Arc::new(collection)))
    }

    /// Reserves the id of an index of an unpublished collection. Returns `None` if another change lasts too long.
    pub(crate) fn take_index_id(&self) -> Result<Option<IndexId>> {
        let Some(mut ids) = self.try_lock_ids(PATIENCE) else { return Ok(None) };
        let id = IndexId(ids.id);
        ids.id = following_id(ids.id)?;
        Ok(Some(id))
    }

    /// Begins to publish collections. Returns `None` if the name of one is not free any more, or another change is being made.
    pub(crate) fn try_publish(&self, collections: Vec<Arc<CollectionState>>) -> Option<Publishing<'_>> {
        let ids = self.try_lock_ids(Duration::ZERO)?;
        let is_free = |collection: &Arc<CollectionState>| {
            let namespace = &collection.namespace;
            // Its changes may be logged since it was made, and those that are staged are not.
            let is_logged_as_made = collection.definition().log.is_some() == self.log.covers(namespace);
            self.occupant(namespace).is_none()
                && self.refuse_case_clash(&namespace.db).is_ok()
                && is_logged_as_made
        };
        collections.iter().all(is_free).then_some(Publishing { catalog: self, ids, collections })
    }
}

impl Publishing<'_> {
    /// Stages the entries of the collections.
    pub(crate) fn stage(&self, batch: &mut Batch<'_>) -> Result<()> {
        for collection in &self.collections {
            let definition = collection.definition();
            stage_entry(batch, collection.id, &collection.namespace, &definition)?;
            stage_created(batch, collection, &definition)?;
        }
        batch.put(Family::Meta, META_NEXT_ID, &self.ids.id.to_be_bytes());
        Ok(())
    }

    /// Puts the collections into the catalog. What was staged is committed.
    pub(crate) fn finish(self, database: &Database) {
        for collection in self.collections {
            collection.note_change(database);
            self.catalog.insert(Named::Collection(collection));
        }
    }
}
