//! Changes of the catalog: a collection is created, dropped or renamed, and its indexes change.
//!
//! Every change is one synced batch, and then a change of the map. The order matters: what the map contains
//! must be on disk, or a crash would leave records that belong to no collection. A change that hides a
//! collection or an index from readers announces it before its batch is committed. All changes exclude
//! each other; a change of a collection also excludes its writers by the collection's gate. The gate is acquired first: what
//! waits for it may wait as long as the slowest writer of one collection, and all others must not wait with it.

use std::sync::Arc;

use base::error::{Error, Result};
use base::namespace::Namespace;
use index::collation::Collation;
use query::code::Code;
use query::operation::OperationContext;
use sequence::auto_increment::FieldOptions;
use store::Family;
use store::handles::Storage;
use store::keys::{CollectionId, IndexId, META_NEXT_ID, OrderId};
use store::write::Batch;

use crate::catalog::capped::{Capped, CappedLimits, OrderState};
use crate::catalog::clustered::Clustered;
use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::definition_events::{
    Changed, IndexModification, commit_change, stage_created, stage_indexes, stage_modified,
    stage_modified_index,
};
use crate::catalog::fields::{parse_fields, stage_fields};
use crate::catalog::gate::Alone;
use crate::catalog::indexes::Index;
use crate::catalog::names::{Catalog, Named, NextIds};
use crate::catalog::record_keys::RecordKeys;
use crate::catalog::record_removal::RecordRange;
use crate::catalog::sequences::{AutoField, AutoFields, end_sequences};
use crate::catalog::stage::{
    stage_build_removal, stage_collection_removal, stage_entry, stage_event, stage_rename,
};
use crate::catalog::validation::{Validation, ValidationChange};
use crate::catalog::views::is_a_view;
use crate::changes::event::EventKind;
use crate::options::PlantedFault;

/// The ids that an index build uses. Both are marked as being built until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildIds {
    /// Of the notes that writers leave for the build.
    pub(crate) log: IndexId,
    /// Of the index.
    pub(crate) index: IndexId,
}

/// What a new collection is declared to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewCollection {
    pub(crate) fields: Vec<FieldOptions>,
    pub(crate) validation: ValidationChange,
    /// Present for a capped collection.
    pub(crate) capped: Option<CappedLimits>,
    /// How it compares texts by default.
    pub(crate) collation: Collation,
    /// Present for one that is declared to be clustered.
    pub(crate) clustered: Option<Clustered>,
    /// Whether the log of changes has its documents as they were before and after their changes.
    pub(crate) keeps_images: bool,
}

impl NewCollection {
    /// What the collection is declared to be, without its auto-increment fields.
    pub(super) fn definition(
        &self,
        namespace: &Namespace,
        capped: Option<Capped>,
        fault: PlantedFault,
    ) -> Result<Definition> {
        let validation = Validation::default().changed(namespace, &self.validation, &self.collation)?;
        let empty = Definition::of_indexes(Vec::new()).with_validation(validation).with_capped(capped);
        let empty = empty.with_collation(self.collation.clone()).with_clustered(self.clustered.clone());
        Ok(empty.with_record_keys(RecordKeys::new(fault)).with_images(self.keeps_images))
    }
}

/// The result of creating a collection.
pub(crate) enum Created {
    New(Arc<CollectionState>),
    Existing(Arc<CollectionState>),
}

impl Catalog {
    /// Creates the collection as it is declared, unless it exists. Fails with code 166 if a view has the name.
    pub(crate) fn create(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        new: &NewCollection,
    ) -> Result<Created> {
        let mut ids = self.lock_ids();
        match self.occupant(namespace) {
            None => {}
            Some(Named::Collection(existing)) => return Ok(Created::Existing(existing)),
            Some(Named::View(_)) => return Err(is_a_view(namespace)),
        }
        self.refuse_case_clash(&namespace.db)?;
        // A copy: the ids are used up only by a commit that succeeds.
        let mut next = *ids;
        let id = CollectionId(next.id);
        next.id = following_id(next.id)?;
        let mut batch = Batch::new(storage.database);
        let capped = new.capped.map(|limits| stage_order(&mut batch, &mut next, limits)).transpose()?;
        let empty = new.definition(namespace, capped, storage.database.fault())?;
        let empty = empty.with_log(self.log_of(namespace));
        let unnumbered = CollectionState::new(id, namespace.clone(), empty.clone());
        // A new collection has no documents whose values the sequence would have to skip.
        let fields = parse_fields(&new.fields, &empty.fields)?;
        let added = stage_fields(&mut batch, &mut next, &unnumbered, fields)?;
        let definition = empty.with_fields(AutoFields::new(added.clone()));
        stage_entry(&mut batch, id, namespace, &definition)?;
        batch.put(Family::Meta, META_NEXT_ID, &next.id.to_be_bytes());
        stage_created(&mut batch, &unnumbered, &definition)?;
        commit_change(storage, &definition, batch)?;
        *ids = next;
        for field in &added {
            self.sequences.insert(&field.state);
        }
        let collection = Arc::new(CollectionState::new(id, namespace.clone(), definition));
        collection.note_change(storage.database);
        // Known from the beginning, so that the first count need not scan.
        collection.count.set(0);
        self.insert(Named::Collection(Arc::clone(&collection)));
        Ok(Created::New(collection))
    }

    /// Removes the collection with its documents, indexes and entries, or the view. Returns `false` if neither exists. `operation`
    /// may end it until then.
    pub(crate) fn drop_collection(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        operation: &OperationContext,
    ) -> Result<bool> {
        loop {
            let found = self.find(namespace);
            let alone = found.as_ref().map(|collection| collection.enter_alone(operation)).transpose()?;
            let _changes = self.lock_ids();
            // The wait may have been long.
            operation.look()?;
            let (collection, alone) = match (self.occupant(namespace), &found, alone) {
                (None, ..) => return Ok(false),
                (Some(Named::View(view)), ..) => {
                    self.end_view(storage, &view)?;
                    return Ok(true);
                }
                (Some(Named::Collection(now)), Some(found), Some(alone)) if Arc::ptr_eq(&now, found) => {
                    (now, alone)
                }
                // Another collection has got the name meanwhile.
                (Some(Named::Collection(_)), ..) => continue,
            };
            let mut batch = Batch::new(storage.database);
            stage_collection_removal(&mut batch, &collection, &alone);
            stage_event(&mut batch, &collection, &alone, EventKind::Drop);
            let fields: Vec<AutoField> = alone.fields.iter().cloned().collect();
            // Nested: readers are warned, then the sequences are held, and only then is the removal committed.
            let commit = || {
                collection.remove_records(RecordRange::Whole, batch, |batch| {
                    self.log.commit_definition(storage, batch)
                })
            };
            self.announce(storage.database, || {
                collection.end(|| end_sequences(&fields, Box::new(commit)))?;
                self.forget(&fields);
                self.remove(namespace);
                Ok(())
            })?;
            // Handles may keep the state for long, and filters of keys are large.
            collection.forget_keys(&alone);
            return Ok(true);
        }
    }

    /// Gives a collection another name. `operation` may end it until then.
    pub(crate) fn rename(
        &self,
        storage: Storage<'_>,
        rename: Rename<'_>,
        operation: &OperationContext,
    ) -> Result<()> {
        while !self.rename_found(storage, rename, operation)? {}
        Ok(())
    }

    /// Gives a collection another name. Returns `false` if one of the two names has got another collection meanwhile.
    fn rename_found(
        &self,
        storage: Storage<'_>,
        rename: Rename<'_>,
        operation: &OperationContext,
    ) -> Result<bool> {
        let Rename { from, to, replace } = rename;
        let collection = self.find(from).ok_or_else(|| self.absent(from))?;
        let target = self.find(to);
        self.refuse_rename(rename, target.is_some())?;
        // Both gates before the batch: neither collection may change between its entry and the commit.
        let (definition, replaced) = enter_both(&collection, target.as_deref(), operation)?;
        let _changes = self.lock_ids();
        // The wait may have been long.
        operation.look()?;
        let is_same = |found: Option<&Arc<CollectionState>>, name| match (found, self.find(name)) {
            (None, None) => true,
            (Some(found), Some(now)) => Arc::ptr_eq(found, &now),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_same(Some(&collection), from) || !is_same(target.as_ref(), to) {
            return Ok(false);
        }
        // Once more: a view may have got the name.
        self.refuse_rename(rename, target.is_some())?;
        // A build writes under the collection's name. As in MongoDB the rename is refused, and can be tried again.
        [Some(&collection), target.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|collection| refuse_builds(collection))?;
        // Under both gates: what is checked here is what the batch removes.
        if let Replace::Same(copied) = replace {
            check_replaced(to, replaced.as_deref(), copied)?;
        }
        let mut batch = Batch::new(storage.database);
        if let (Some(target), Some(definition)) = (&target, &replaced) {
            stage_collection_removal(&mut batch, target, definition);
        }
        let renamed = definition.with_log(self.log_of(to));
        stage_entry(&mut batch, collection.id, to, &renamed)?;
        if definition.log.is_some() || renamed.log.is_some() {
            stage_rename(&mut batch, &collection, to, target.as_ref().map(|target| target.id));
        }
        let fields: Vec<AutoField> =
            replaced.iter().flat_map(|definition| definition.fields.iter().cloned()).collect();
        let commit = |batch| self.log.commit_definition(storage, batch);
        // The collection keeps its id, its records and its sequences. Only the state in memory is a new one,
        // so that handles to the old name look it up again.
        self.announce(storage.database, || {
            collection.end(|| match &target {
                Some(target) => {
                    let commit = || target.remove_records(RecordRange::Whole, batch, commit);
                    target.end(|| end_sequences(&fields, Box::new(commit)))
                }
                None => commit(batch),
            })?;
            self.forget(&fields);
            let renamed = collection.renamed(to.clone(), &renamed);
            renamed.note_change(storage.database);
            self.exchange(from, Arc::new(renamed));
            Ok(())
        })?;
        // As after a drop.
        if let (Some(target), Some(definition)) = (&target, &replaced) {
            target.forget_keys(definition);
        }
        Ok(true)
    }

    fn refuse_rename(&self, rename: Rename<'_>, has_target: bool) -> Result<()> {
        let Rename { from, to, replace } = rename;
        if from == to {
            return Err(Error::command(Code::ILLEGAL_OPERATION, format!("cannot rename {from} to itself")));
        }
        // Not even to be replaced: a view holds nothing that a collection could replace.
        if self.find_view(to).is_some() {
            let message = format!("a view already exists with that name: {to}");
            return Err(Error::command(Code::NAMESPACE_EXISTS, message));
        }
        if has_target && matches!(replace, Replace::Refuse) {
            return Err(Error::command(Code::NAMESPACE_EXISTS, format!("target namespace {to} exists")));
        }
        self.refuse_case_clash(&to.db)
    }

    /// Reserves the ids of an index build and marks them as being built. After a crash the next open removes the
    /// entries of such ids.
    pub(crate) fn begin_index(&self, storage: Storage<'_>) -> Result<BuildIds> {
        let mut next = self.lock_ids();
        // The index gets the higher id. So nothing is stored after its entries, and a compaction of what writers
        // store meanwhile does not reach over them: see `store::tables`.
        let log = IndexId(next.id);
        let index = IndexId(following_id(log.0)?);
        let following = following_id(index.0)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &log.building_key(), &[]);
        batch.put(Family::Meta, &index.building_key(), &[]);
        batch.put(Family::Meta, META_NEXT_ID, &following.to_be_bytes());
        storage.store.commit_definition(batch)?;
        next.id = following;
        Ok(BuildIds { log, index })
    }

    /// Reserves the id of an insertion order that is to be made, and marks it as being made. After a crash the next open removes
    /// what is stored under it.
    pub(crate) fn begin_order(&self, storage: Storage<'_>) -> Result<OrderId> {
        let mut next = self.lock_ids();
        let order = OrderId(next.id);
        let following = following_id(order.0)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &order.building_key(), &[]);
        batch.put(Family::Meta, META_NEXT_ID, &following.to_be_bytes());
        storage.store.commit_definition(batch)?;
        next.id = following;
        Ok(order)
    }

    /// Refuses a database whose name differs from that of another one only in case. On some file systems, and
    /// in MongoDB, the two would be the same.
    pub(super) fn refuse_case_clash(&self, db: &str) -> Result<()> {
        let clash =
            self.database_names().into_iter().find(|name| name != db && name.eq_ignore_ascii_case(db));
        clash.map_or(Ok(()), |existing| {
            Err(Error::command(
                Code::DATABASE_DIFFER_CASE,
                format!(
                    "db already exists with different case already have: [{existing}] trying to create [{db}]"
                ),
            ))
        })
    }
}

/// Fails if indexes of the collection are being built.
pub(crate) fn refuse_builds(collection: &CollectionState) -> Result<()> {
    if collection.builds.is_idle() {
        return Ok(());
    }
    let namespace = &collection.namespace;
    let message =
        format!("cannot perform operation: an index build is currently running for collection {namespace}");
    Err(Error::command(Code::BACKGROUND_OPERATION_IN_PROGRESS, message).in_namespace(namespace))
}

/// Fails if the collection that is to be replaced is not as it was when its definition was copied.
fn check_replaced(to: &Namespace, replaced: Option<&Definition>, copied: &Definition) -> Result<()> {
    let described = |indexes: &[Index]| indexes.iter().map(Index::describe).collect::<Vec<_>>();
    let current = replaced.map_or_else(Vec::new, |definition| described(&definition.indexes));
    let changed = if current != described(&copied.indexes) {
        Some("indexes")
    } else if !copied.is_validated_like(replaced)
        || replaced.is_some_and(|definition| definition.capped.is_some())
        || replaced.map_or(!copied.collation.is_simple(), |replaced| replaced.collation != copied.collation)
    {
        Some("options")
    } else {
        None
    };
    if let Some(what) = changed {
        let message = format!("{what} of target collection {to} changed during processing.");
        return Err(Error::command(Code::COMMAND_FAILED, message).in_namespace(to));
    }
    match replaced {
        Some(definition) => refuse_fields(to, definition),
        None => Ok(()),
    }
}

/// Refuses to replace a collection with auto-increment fields: their sequences would be lost with it.
pub(crate) fn refuse_fields(namespace: &Namespace, definition: &Definition) -> Result<()> {
    let Some(field) = definition.fields.iter().next() else { return Ok(()) };
    let message = format!(
        "$out cannot replace {namespace}, whose field '{}' is an auto-increment field; $merge writes to such a collection",
        field.field.path()
    );
    Err(Error::command(Code::ILLEGAL_OPERATION, message).in_namespace(namespace))
}

/// Acquires the gates of a collection and of the one that it replaces in the order of their ids, like every
/// operation that acquires several gates.
fn enter_both<'a>(
    collection: &'a CollectionState,
    target: Option<&'a CollectionState>,
    operation: &OperationContext,
) -> Result<(Alone<'a, Definition>, Option<Alone<'a, Definition>>)> {
    Ok(match target {
        Some(target) if target.id < collection.id => {
            let replaced = target.enter_alone(operation)?;
            (collection.enter_alone(operation)?, Some(replaced))
        }
        Some(target) => {
            let definition = collection.enter_alone(operation)?;
            (definition, Some(target.enter_alone(operation)?))
        }
        None => (collection.enter_alone(operation)?, None),
    })
}

/// Adds a built index to the collection. The caller holds the gate exclusively.
pub(crate) fn finish_index(
    storage: Storage<'_>,
    collection: &CollectionState,
    definition: &mut Definition,
    index: &Index,
    ids: BuildIds,
) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    // In one batch with the entry: after a crash the index is either there or still marked as being built.
    batch.delete(Family::Meta, &ids.index.building_key());
    stage_build_removal(&mut batch, ids.log);
    let list: Vec<Index> = definition.indexes.iter().cloned().chain([index.clone()]).collect();
    stage_entry(&mut batch, collection.id, &collection.namespace, &definition.with_indexes(list))?;
    let changed = Changed { collection, definition, kind: EventKind::CreateIndexes };
    stage_indexes(&mut batch, changed, std::iter::once(index))?;
    commit_change(storage, definition, batch)?;
    collection.add_index(storage.database, definition, index.clone());
    Ok(())
}

/// Removes the entries and the marks of an abandoned index build.
pub(crate) fn abandon_index(storage: Storage<'_>, ids: BuildIds) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    stage_build_removal(&mut batch, ids.log);
    stage_build_removal(&mut batch, ids.index);
    storage.store.commit_definition(batch)
}

/// Changes the settings of an index by `modify`, which returns `false` if nothing is to change. Returns `None` if the
/// collection was dropped or renamed meanwhile: the caller must look the name up again.
pub(crate) fn modify_index(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    find: impl Fn(&[Index]) -> Result<usize>,
    modify: impl FnOnce(&mut Index) -> Result<bool>,
) -> Result<Option<()>> {
    let mut definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    let mut indexes: Vec<Index> = definition.indexes.to_vec();
    // Found under the gate: another thread may have changed the list since the caller looked at it.
    let position = find(&indexes)?;
    let index = indexes.get_mut(position).expect("it was found at this position");
    let before = index.clone();
    if modify(index)? {
        refuse_expiry(collection, index.settings.expire_after_seconds)?;
        let mut batch = Batch::new(storage.database);
        let event = Changed { collection, definition: &definition, kind: EventKind::Modify };
        stage_modified_index(&mut batch, event, IndexModification { before: &before, after: index })?;
        let changed = definition.with_indexes(indexes);
        stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
        commit_change(storage, &definition, batch)?;
        collection.publish(storage.database, &mut definition, changed);
    }
    Ok(Some(()))
}

/// Stages the empty order of a new capped collection, which gets the next id.
pub(super) fn stage_order(batch: &mut Batch<'_>, next: &mut NextIds, limits: CappedLimits) -> Result<Capped> {
    let order = OrderId(next.id);
    next.id = following_id(next.id)?;
    OrderState::empty().stage(batch, order);
    Ok(Capped { limits, order })
}

/// Changes how large a capped collection may become, by a function of what it may be now. Returns `None` if the collection was
/// dropped or renamed meanwhile: the caller must look the name up again.
pub(crate) fn modify_limits(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    change: impl FnOnce(Option<CappedLimits>) -> Result<CappedLimits>,
) -> Result<Option<()>> {
    let mut definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    // Under the gate: a conversion may have made it a capped one since the caller looked.
    let limits = change(definition.capped.map(|capped| capped.limits))?;
    let capped = definition.capped.map(|capped| Capped { limits, ..capped });
    // Nothing is removed here: the next insert does, in its turn.
    if capped != definition.capped {
        let changed = definition.with_capped(capped);
        let mut batch = Batch::new(storage.database);
        stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
        let event = Changed { collection, definition: &definition, kind: EventKind::Modify };
        stage_modified(&mut batch, event, &changed)?;
        commit_change(storage, &definition, batch)?;
        collection.publish(storage.database, &mut definition, changed);
    }
    Ok(Some(()))
}

/// Refuses an expiry of documents that are removed by their order.
pub(crate) fn refuse_expiry(collection: &CollectionState, expire_after_seconds: Option<u32>) -> Result<()> {
    if collection.order().is_some() && expire_after_seconds.is_some() {
        let message = "Cannot create TTL index on a capped collection";
        return Err(Error::command(Code::CANNOT_CREATE_INDEX, message));
    }
    Ok(())
}

/// Changes how the collection checks its documents. Returns `None` if the collection was dropped or renamed meanwhile: the
/// caller must look the name up again.
pub(crate) fn modify_validation(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    change: &ValidationChange,
) -> Result<Option<()>> {
    // Alone: no write that began by the old rules commits after this has returned.
    let mut definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    // What is not part of the change stays, so it starts from what is there under the gate.
    let before = definition.validation.as_deref().cloned().unwrap_or_default();
    let changed =
        definition.with_validation(before.changed(&collection.namespace, change, &collection.collation)?);
    let mut batch = Batch::new(storage.database);
    stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
    let event = Changed { collection, definition: &definition, kind: EventKind::Modify };
    stage_modified(&mut batch, event, &changed)?;
    commit_change(storage, &definition, batch)?;
    collection.publish(storage.database, &mut definition, changed);
    Ok(Some(()))
}

/// Leaves the event of a change that changes nothing, as in MongoDB, if the collection is logged. Returns `None` if the collection was
/// dropped or renamed meanwhile: the caller must look the name up again.
pub(crate) fn note_modification(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
) -> Result<Option<()>> {
    if collection.definition().log.is_none() {
        return Ok(Some(()));
    }
    let definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    let mut batch = Batch::new(storage.database);
    let event = Changed { collection, definition: &definition, kind: EventKind::Modify };
    stage_modified(&mut batch, event, &definition)?;
    if batch.has_events() {
        commit_change(storage, &definition, batch)?;
    }
    Ok(Some(()))
}

/// Changes whether the log of changes has the collection's documents as they were before and after their changes. Returns `None` if
/// the collection was dropped or renamed meanwhile: the caller must look the name up again.
pub(crate) fn modify_images(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    keeps_images: bool,
) -> Result<Option<()>> {
    let mut definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    if keeps_images != definition.keeps_images {
        let changed = definition.with_images(keeps_images);
        let mut batch = Batch::new(storage.database);
        stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
        let event = Changed { collection, definition: &definition, kind: EventKind::Modify };
        stage_modified(&mut batch, event, &changed)?;
        commit_change(storage, &definition, batch)?;
        collection.publish(storage.database, &mut definition, changed);
    }
    Ok(Some(()))
}

/// Removes the indexes of the collection for which `keep` returns `false`. Returns how many, or `None` if the
/// collection was dropped or renamed meanwhile: the caller must look the name up again.
pub(crate) fn drop_indexes(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    keep: impl Fn(&Index) -> bool,
) -> Result<Option<usize>> {
    let mut definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Ok(None);
    }
    // The sets are made under the gate: an index that was built meanwhile is among them.
    let (kept, dropped): (Vec<Index>, Vec<Index>) = definition.indexes.iter().cloned().partition(keep);
    if dropped.is_empty() {
        return Ok(Some(0));
    }
    let mut batch = Batch::new(storage.database);
    for index in &dropped {
        batch.delete_ended_entries(&index.id.prefix(), &index.id.end());
    }
    stage_entry(&mut batch, collection.id, &collection.namespace, &definition.with_indexes(kept.clone()))?;
    let event = Changed { collection, definition: &definition, kind: EventKind::DropIndexes };
    stage_indexes(&mut batch, event, dropped.iter())?;
    let before = definition.clone();
    collection.withdraw_indexes(storage.database, &mut definition, kept, || {
        commit_change(storage, &before, batch)
    })?;
    Ok(Some(dropped.len()))
}

/// A collection's new name.
#[derive(Clone, Copy)]
pub(crate) struct Rename<'a> {
    pub(crate) from: &'a Namespace,
    pub(crate) to: &'a Namespace,
    pub(crate) replace: Replace<'a>,
}

/// What a rename does if a collection has the new name already.
#[derive(Clone, Copy)]
pub(crate) enum Replace<'a> {
    Refuse,
    DropTarget,
    /// Drops it, if it still has these indexes and this validator, and no auto-increment field. If there is none, these must
    /// be none.
    Same(&'a Definition),
}

impl Catalog {
    /// The error for a collection that a call needs and that is not there: its name may be that of a view.
    pub(crate) fn absent(&self, namespace: &Namespace) -> Error {
        if self.find_view(namespace).is_some() {
            is_a_view(namespace)
        } else {
            namespace_not_found(namespace)
        }
    }

    /// Fails with code 166 if the name is that of a view.
    pub(crate) fn refuse_view(&self, namespace: &Namespace) -> Result<()> {
        if self.find_view(namespace).is_some() { Err(is_a_view(namespace)) } else { Ok(()) }
    }
}

pub(crate) fn namespace_not_found(namespace: &Namespace) -> Error {
    Error::command(Code::NAMESPACE_NOT_FOUND, format!("ns not found: {namespace}")).in_namespace(namespace)
}

pub(super) fn following_id(id: u32) -> Result<u32> {
    id.checked_add(1).ok_or_else(|| {
        Error::command(Code::CANNOT_CREATE_INDEX, "all 4294967295 ids of collections and indexes were used")
    })
}
