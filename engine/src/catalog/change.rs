//! Changes to the catalog: create, drop, rename, and the indexes of a collection.
//!
//! Every change is one synced batch, then a change of the map. The order matters: what the map shows must be
//! on disk, or a crash would leave records that no collection owns. What takes a collection or an index away is
//! announced to readers before its batch is committed. All changes exclude each other; a change to a collection also
//! excludes its writers by the collection's gate.

use std::sync::Arc;

use crossbeam::sync::ShardedLockWriteGuard;
use sequence::attributes::Attributes;
use sequence::auto_increment::FieldOptions;

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::fields::{parse_fields, stage_fields};
use crate::catalog::indexes::Index;
use crate::catalog::names::Catalog;
use crate::catalog::sequences::{AutoField, AutoFields, end_sequences};
use crate::catalog::stage::{stage_collection_removal, stage_entry};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::storage::Family;
use crate::storage::handles::Storage;
use crate::storage::keys::{CollectionId, IndexId, META_NEXT_ID};
use crate::storage::write::{Batch, CommitLevel};

/// What an explicit creation found.
pub(crate) enum Created {
    New(Arc<CollectionState>),
    Existing(Arc<CollectionState>),
}

impl Catalog {
    /// Makes the collection with its auto-increment fields unless it exists.
    pub(crate) fn create(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        fields: &[FieldOptions],
    ) -> Result<Created> {
        let mut ids = self.next_ids.lock();
        if let Some(existing) = self.find(namespace) {
            return Ok(Created::Existing(existing));
        }
        self.refuse_case_clash(&namespace.db)?;
        let mut next = *ids;
        let id = CollectionId(next.id);
        next.id = following_id(next.id)?;
        let mut batch = Batch::new(storage.database);
        let empty = Definition::of_indexes(Vec::new());
        let unnumbered = CollectionState::new(id, namespace.clone(), empty.clone());
        // A new collection has no values to start behind.
        let nothing = |_: &CollectionState, _: &str, _: &Attributes| Ok(None);
        let new = parse_fields(fields, &empty.fields)?;
        let added = stage_fields(&mut batch, &mut next, &unnumbered, new, &nothing)?;
        let definition = empty.with_fields(AutoFields::new(added.clone()));
        stage_entry(&mut batch, id, namespace, &definition.indexes, &definition.fields)?;
        batch.put(Family::Meta, META_NEXT_ID, &next.id.to_be_bytes());
        storage.store.commit(batch, CommitLevel::Journaled)?;
        *ids = next;
        for field in &added {
            self.sequences.insert(&field.state);
        }
        let collection = Arc::new(CollectionState::new(id, namespace.clone(), definition));
        collection.count.set(0);
        self.insert(Arc::clone(&collection));
        Ok(Created::New(collection))
    }

    /// Removes the collection with its documents, indexes and entries; `false` if there was none.
    pub(crate) fn drop_collection(&self, storage: Storage<'_>, namespace: &Namespace) -> Result<bool> {
        let _changes = self.next_ids.lock();
        let Some(collection) = self.find(namespace) else { return Ok(false) };
        let alone = collection.enter_alone();
        let mut batch = Batch::new(storage.database);
        stage_collection_removal(&mut batch, &collection, &alone);
        let fields: Vec<AutoField> = alone.fields.iter().cloned().collect();
        let commit = || storage.store.commit(batch, CommitLevel::Journaled);
        collection.end(|| end_sequences(&fields, Box::new(commit)))?;
        self.forget(&fields);
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
        let _changes = self.next_ids.lock();
        let collection = self.find(from).ok_or_else(|| namespace_not_found(from))?;
        if from == to {
            return Err(Error::command(20, format!("cannot rename {from} to itself")));
        }
        let target = self.find(to);
        if target.is_some() && replace == Replace::Refuse {
            return Err(Error::command(48, format!("target namespace {to} exists")));
        }
        self.refuse_case_clash(&to.db)?;
        let (definition, replaced) = enter_both(&collection, target.as_deref());
        let mut batch = Batch::new(storage.database);
        if let (Some(target), Some(definition)) = (&target, &replaced) {
            stage_collection_removal(&mut batch, target, definition);
        }
        stage_entry(&mut batch, collection.id, to, &definition.indexes, &definition.fields)?;
        let replaced: Vec<AutoField> =
            replaced.iter().flat_map(|definition| definition.fields.iter().cloned()).collect();
        let commit = || storage.store.commit(batch, CommitLevel::Journaled);
        collection.end(|| match &target {
            Some(target) => target.end(|| end_sequences(&replaced, Box::new(commit))),
            None => commit(),
        })?;
        self.forget(&replaced);
        self.exchange(from, Arc::new(collection.renamed(to.clone(), &definition)));
        Ok(())
    }

    /// Takes an id for an index and marks it as being built, so that a crash leaves no orphaned entries.
    pub(crate) fn begin_index(&self, storage: Storage<'_>) -> Result<IndexId> {
        let mut ids = self.next_ids.lock();
        let id = IndexId(ids.id);
        let following = following_id(ids.id)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &id.building_key(), &[]);
        batch.put(Family::Meta, META_NEXT_ID, &following.to_be_bytes());
        storage.store.commit(batch, CommitLevel::Journaled)?;
        ids.id = following;
        Ok(id)
    }

    /// Database names that differ only in case are one name on some file systems and in MongoDB.
    fn refuse_case_clash(&self, db: &str) -> Result<()> {
        let clash =
            self.database_names().into_iter().find(|name| name != db && name.eq_ignore_ascii_case(db));
        clash.map_or(Ok(()), |existing| {
            Err(Error::command(
                13297,
                format!(
                    "db already exists with different case already have: [{existing}] trying to create [{db}]"
                ),
            ))
        })
    }
}

/// The gates of a collection and of the one that it replaces, taken in the order of their ids, as everyone does who
/// takes several.
fn enter_both<'a>(
    collection: &'a CollectionState,
    target: Option<&'a CollectionState>,
) -> (ShardedLockWriteGuard<'a, Definition>, Option<ShardedLockWriteGuard<'a, Definition>>) {
    match target {
        Some(target) if target.id < collection.id => {
            let replaced = target.enter_alone();
            (collection.enter_alone(), Some(replaced))
        }
        Some(target) => {
            let definition = collection.enter_alone();
            (definition, Some(target.enter_alone()))
        }
        None => (collection.enter_alone(), None),
    }
}

/// Makes a built index part of the collection. The caller holds the gate exclusively.
pub(crate) fn finish_index(
    storage: Storage<'_>,
    collection: &CollectionState,
    definition: &mut Definition,
    index: Index,
) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    batch.delete(Family::Meta, &index.id.building_key());
    let list: Vec<Index> = definition.indexes.iter().cloned().chain([index.clone()]).collect();
    stage_entry(&mut batch, collection.id, &collection.namespace, &list, &definition.fields)?;
    storage.store.commit(batch, CommitLevel::Journaled)?;
    collection.add_index(definition, index);
    Ok(())
}

/// Removes what an abandoned build wrote.
pub(crate) fn abandon_index(storage: Storage<'_>, id: IndexId) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    batch.delete_range(Family::Entries, &id.prefix(), &id.end());
    batch.delete(Family::Meta, &id.building_key());
    storage.store.commit(batch, CommitLevel::Journaled)
}

/// Removes those indexes of the collection that `keep` does not keep; says how many. Nothing is said of a collection
/// that was dropped or renamed meanwhile: whoever asks must look the name up again.
pub(crate) fn drop_indexes(
    storage: Storage<'_>,
    collection: &CollectionState,
    keep: impl Fn(&Index) -> bool,
) -> Result<Option<usize>> {
    let mut definition = collection.enter_alone();
    if collection.is_retired() {
        return Ok(None);
    }
    let (kept, dropped): (Vec<Index>, Vec<Index>) = definition.indexes.iter().cloned().partition(keep);
    if dropped.is_empty() {
        return Ok(Some(0));
    }
    let mut batch = Batch::new(storage.database);
    for index in &dropped {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
    stage_entry(&mut batch, collection.id, &collection.namespace, &kept, &definition.fields)?;
    collection
        .withdraw_indexes(&mut definition, kept, || storage.store.commit(batch, CommitLevel::Journaled))?;
    Ok(Some(dropped.len()))
}

/// What a rename does with a collection that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    Refuse,
    DropTarget,
}

pub(crate) fn namespace_not_found(namespace: &Namespace) -> Error {
    Error::command(26, format!("ns not found: {namespace}")).in_namespace(namespace)
}

fn following_id(id: u32) -> Result<u32> {
    id.checked_add(1)
        .ok_or_else(|| Error::command(67, "all 4294967295 ids of collections and indexes were used"))
}
