//! Changes to the catalog: create, drop, rename, and the indexes of a collection.
//!
//! Every change is one synced batch, then a change of the map. The order matters: what the map shows must be
//! on disk, or a crash would leave records that no collection owns. All changes exclude each other; a change to
//! a collection also excludes its writers by the collection's gate.

use std::sync::Arc;

use crate::catalog::collection::{CollectionState, Indexes};
use crate::catalog::indexes::Index;
use crate::catalog::{Catalog, entry};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::storage::keys::{CollectionId, IndexId, META_NEXT_ID};
use crate::storage::write::{Batch, CommitLevel};
use crate::storage::{Database, Family, Store};

/// What a change needs to reach the disk.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
}

/// What an explicit creation found.
pub(crate) enum Created {
    New(Arc<CollectionState>),
    Existing(Arc<CollectionState>),
}

impl Catalog {
    /// Makes the collection unless it exists.
    pub(crate) fn create(&self, storage: Storage<'_>, namespace: &Namespace) -> Result<Created> {
        let mut next_id = self.next_id.lock();
        if let Some(existing) = self.find(namespace) {
            return Ok(Created::Existing(existing));
        }
        self.refuse_case_clash(&namespace.db)?;
        let id = CollectionId(*next_id);
        let following = following_id(*next_id)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &id.catalog_key(), &entry::encode(namespace, &[])?);
        batch.put(Family::Meta, META_NEXT_ID, &following.to_be_bytes());
        storage.store.commit(batch, CommitLevel::Journaled)?;
        *next_id = following;
        let collection = Arc::new(CollectionState::new(id, namespace.clone(), Vec::new()));
        collection.count.set(0);
        self.insert(Arc::clone(&collection));
        Ok(Created::New(collection))
    }

    /// Removes the collection with its documents, indexes and entries; `false` if there was none.
    pub(crate) fn drop_collection(&self, storage: Storage<'_>, namespace: &Namespace) -> Result<bool> {
        let _changes = self.next_id.lock();
        let Some(collection) = self.find(namespace) else { return Ok(false) };
        let alone = collection.enter_alone();
        let mut batch = Batch::new(storage.database);
        stage_removal(&mut batch, &collection, &alone);
        storage.store.commit(batch, CommitLevel::Journaled)?;
        collection.retire();
        self.remove(namespace);
        Ok(true)
    }

    /// Gives the collection another name. With `replace`, a collection of that name is dropped in the same step.
    pub(crate) fn rename(
        &self,
        storage: Storage<'_>,
        from: &Namespace,
        to: &Namespace,
        replace: Replace,
    ) -> Result<()> {
        let _changes = self.next_id.lock();
        let collection = self.find(from).ok_or_else(|| namespace_not_found(from))?;
        if from == to {
            return Err(Error::command(20, "IllegalOperation", format!("cannot rename {from} to itself")));
        }
        let target = self.find(to);
        if target.is_some() && replace == Replace::Refuse {
            return Err(Error::command(48, "NamespaceExists", format!("target namespace {to} exists")));
        }
        self.refuse_case_clash(&to.db)?;
        let indexes = collection.enter_alone();
        let target_indexes = target.as_ref().map(|target| target.enter_alone());
        let mut batch = Batch::new(storage.database);
        if let (Some(target), Some(indexes)) = (&target, &target_indexes) {
            stage_removal(&mut batch, target, indexes);
        }
        batch.put(Family::Meta, &collection.id.catalog_key(), &entry::encode(to, &indexes.0)?);
        storage.store.commit(batch, CommitLevel::Journaled)?;
        if let Some(target) = &target {
            target.retire();
        }
        collection.retire();
        self.exchange(from, Arc::new(collection.renamed(to.clone(), &indexes)));
        Ok(())
    }

    /// Takes an id for an index and marks it as being built, so that a crash leaves no orphaned entries.
    pub(crate) fn begin_index(&self, storage: Storage<'_>) -> Result<IndexId> {
        let mut next_id = self.next_id.lock();
        let id = IndexId(*next_id);
        let following = following_id(*next_id)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &id.building_key(), &[]);
        batch.put(Family::Meta, META_NEXT_ID, &following.to_be_bytes());
        storage.store.commit(batch, CommitLevel::Journaled)?;
        *next_id = following;
        Ok(id)
    }

    /// Database names that differ only in case are one name on some file systems and in MongoDB.
    fn refuse_case_clash(&self, db: &str) -> Result<()> {
        let clash =
            self.database_names().into_iter().find(|name| name != db && name.eq_ignore_ascii_case(db));
        clash.map_or(Ok(()), |existing| {
            Err(Error::command(
                13297,
                "DatabaseDifferCase",
                format!(
                    "db already exists with different case already have: [{existing}] trying to create [{db}]"
                ),
            ))
        })
    }
}

/// Makes a built index part of the collection. The caller holds the gate exclusively.
pub(crate) fn finish_index(
    storage: Storage<'_>,
    collection: &CollectionState,
    indexes: &mut Indexes,
    index: Index,
) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    batch.delete(Family::Meta, &index.id.building_key());
    let list: Vec<Index> = indexes.0.iter().cloned().chain([index]).collect();
    batch.put(Family::Meta, &collection.id.catalog_key(), &entry::encode(&collection.namespace, &list)?);
    storage.store.commit(batch, CommitLevel::Journaled)?;
    collection.set_indexes(indexes, list);
    Ok(())
}

/// Removes what an abandoned build wrote.
pub(crate) fn abandon_index(storage: Storage<'_>, id: IndexId) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    batch.delete_range(Family::Entries, &id.prefix(), &id.end());
    batch.delete(Family::Meta, &id.building_key());
    storage.store.commit(batch, CommitLevel::Journaled)
}

/// Removes those indexes of the collection that `keep` does not keep; says how many.
pub(crate) fn drop_indexes(
    storage: Storage<'_>,
    collection: &CollectionState,
    keep: impl Fn(&Index) -> bool,
) -> Result<usize> {
    let mut indexes = collection.enter_alone();
    if collection.is_retired() {
        return Err(namespace_not_found(&collection.namespace));
    }
    let (kept, dropped): (Vec<Index>, Vec<Index>) = indexes.0.iter().cloned().partition(keep);
    if dropped.is_empty() {
        return Ok(0);
    }
    let mut batch = Batch::new(storage.database);
    for index in &dropped {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
    batch.put(Family::Meta, &collection.id.catalog_key(), &entry::encode(&collection.namespace, &kept)?);
    storage.store.commit(batch, CommitLevel::Journaled)?;
    collection.set_indexes(&mut indexes, kept);
    Ok(dropped.len())
}

/// What a rename does with a collection that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    Refuse,
    DropTarget,
}

pub(crate) fn namespace_not_found(namespace: &Namespace) -> Error {
    Error::command(26, "NamespaceNotFound", format!("ns not found: {namespace}")).in_namespace(namespace)
}

fn stage_removal(batch: &mut Batch<'_>, collection: &CollectionState, indexes: &Indexes) {
    batch.delete(Family::Meta, &collection.id.catalog_key());
    batch.delete(Family::Meta, &collection.id.count_key());
    batch.delete_range(Family::Records, &collection.id.prefix(), &collection.id.end());
    for index in indexes.0.iter() {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
}

fn following_id(id: u32) -> Result<u32> {
    id.checked_add(1).ok_or_else(|| {
        Error::command(67, "CannotCreateIndex", "all 4294967295 ids of collections and indexes were used")
    })
}
