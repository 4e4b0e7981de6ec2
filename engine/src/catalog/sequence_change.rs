//! Changes to sequences and auto-increment fields: create, alter, drop, rename, truncate.
//!
//! As with every change of the catalog, one synced batch comes first and the map after. Fields are changed with the
//! collection's gate held alone, so no insert holds a value of the state that was before.

use std::sync::Arc;

use bson::oid::ObjectId;
use crossbeam::sync::ShardedLockWriteGuard;
use sequence::allocator::{Changing, Sequence};
use sequence::attributes::{Attributes, Options};
use sequence::auto_increment::{Field, FieldOptions, OnTruncate, check_name};
use sequence::error::SequenceError;
use sequence::state::State;
use sequence::store::{Cause, Change};

use crate::catalog::change::{Storage, namespace_not_found};
use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::sequence_entry::Identity;
use crate::catalog::sequences::{
    AutoField, AutoFields, SequenceState, internal_name, stage_change, stage_removal,
};
use crate::catalog::{Catalog, NextIds, entry};
use crate::document::complete::check_depth;
use crate::error::{Error, ErrorKind, Result};
use crate::namespace::validate_database;
use crate::storage::Family;
use crate::storage::keys::{CollectionId, META_NEXT_SEQUENCE, SequenceId};
use crate::storage::write::{Batch, CommitLevel};

/// Finds the value furthest along a new field's sequence that the collection's documents have in the field.
pub(crate) type Furthest<'a> = dyn Fn(&CollectionState, &str, &Attributes) -> Result<Option<i64>> + 'a;

impl Catalog {
    /// Makes a sequence.
    pub(crate) fn create_sequence(
        &self,
        storage: Storage<'_>,
        db: &str,
        name: &str,
        options: &Options,
    ) -> Result<()> {
        validate_database(db)?;
        check_name(name)?;
        let attributes = Attributes::create(options)?;
        let mut ids = self.next_ids.lock();
        if self.sequences.find(db, name).is_some() {
            return Err(SequenceError::Exists { name: name.to_owned() }.into());
        }
        let mut batch = Batch::new(storage.database);
        let mut next = *ids;
        let state = stage_new(&mut batch, &mut next, (db, name, None), State::new(attributes))?;
        storage.store.commit(batch, CommitLevel::Journaled)?;
        *ids = next;
        self.sequences.insert(&state);
        Ok(())
    }

    /// Removes a sequence that a user made.
    pub(crate) fn drop_sequence(&self, storage: Storage<'_>, db: &str, name: &str) -> Result<()> {
        check_name(name)?;
        let _changes = self.next_ids.lock();
        let state = self.named(db, name)?;
        // Held still from before the write, or a reserve that is made meanwhile would be written behind the removal.
        let Some(changing) = state.sequence.change(Cause::Alter, |state| Ok(Some(state.clone())))? else {
            return Ok(());
        };
        let mut batch = Batch::new(storage.database);
        stage_removal(&mut batch, &state.identity);
        storage.store.commit(batch, CommitLevel::Journaled)?;
        self.sequences.remove(&state.identity);
        // Nobody gets the successor: the sequence ends.
        drop(changing.succeed(storage.database.latest_sequence()));
        Ok(())
    }

    /// Gives a sequence another name. It keeps its id and its values; blocks are given up.
    pub(crate) fn rename_sequence(&self, storage: Storage<'_>, db: &str, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let _changes = self.next_ids.lock();
        let state = self.named(db, from)?;
        if self.sequences.find(db, to).is_some() {
            return Err(SequenceError::Exists { name: to.to_owned() }.into());
        }
        let identity = Identity { name: to.to_owned(), ..state.identity.clone() };
        let Some(changing) = state.sequence.change(Cause::Alter, |state| Ok(Some(state.renamed())))? else {
            return Ok(());
        };
        let mut batch = Batch::new(storage.database);
        stage_change(&mut batch, &identity, &changing.change())?;
        storage.store.commit(batch, CommitLevel::Journaled)?;
        let sequence = Arc::new(changing.succeed(storage.database.latest_sequence()));
        self.sequences.exchange(&state.identity, &Arc::new(SequenceState { identity, sequence }));
        Ok(())
    }

    /// The sequence of that name.
    pub(crate) fn named(&self, db: &str, name: &str) -> Result<Arc<SequenceState>> {
        self.sequences.find(db, name).ok_or_else(|| SequenceError::NotFound { name: name.to_owned() }.into())
    }

    /// Adds auto-increment fields to a collection, all or none.
    pub(crate) fn add_fields(
        &self,
        storage: Storage<'_>,
        collection: &CollectionState,
        options: &[FieldOptions],
        furthest: &Furthest<'_>,
    ) -> Result<()> {
        let mut ids = self.next_ids.lock();
        let mut definition = enter_present(collection)?;
        let mut batch = Batch::new(storage.database);
        let mut next = *ids;
        let added = stage_fields(&mut batch, &mut next, (collection, &definition.fields), options, furthest)
            .map_err(as_conflict)?;
        let all = definition.fields.iter().cloned().chain(added.iter().cloned()).collect();
        let changed = definition.with_fields(AutoFields::new(all));
        stage_entry(&mut batch, collection, &changed)?;
        storage.store.commit(batch, CommitLevel::Journaled)?;
        *ids = next;
        for field in &added {
            self.sequences.insert(&field.state);
        }
        *definition = changed;
        Ok(())
    }

    /// Takes auto-increment fields off a collection, all or none; stored values stay.
    pub(crate) fn drop_fields(
        &self,
        storage: Storage<'_>,
        collection: &CollectionState,
        paths: &[String],
    ) -> Result<()> {
        if paths.is_empty() {
            return Err(SequenceError::MissingOption { option: "Field" }.into());
        }
        let _changes = self.next_ids.lock();
        let mut definition = enter_present(collection)?;
        for path in paths {
            if path.is_empty() {
                let reason = "a name in it is empty";
                return Err(SequenceError::Field { field: String::new(), reason }.into());
            }
            definition.fields.find(path).ok_or_else(|| not_found(path))?;
        }
        let (dropped, kept): (Vec<AutoField>, Vec<AutoField>) = definition
            .fields
            .iter()
            .cloned()
            .partition(|field| paths.iter().any(|path| path == field.field.path()));
        let changed = definition.with_fields(AutoFields::new(kept));
        let mut batch = Batch::new(storage.database);
        stage_entry(&mut batch, collection, &changed)?;
        for field in &dropped {
            stage_removal(&mut batch, &field.state.identity);
        }
        end_sequences(&dropped, Box::new(|| storage.store.commit(batch, CommitLevel::Journaled)))?;
        self.forget(&dropped);
        *definition = changed;
        Ok(())
    }

    /// Forgets the sequences of fields, whose use was ended.
    pub(crate) fn forget<'a>(&self, fields: impl IntoIterator<Item = &'a AutoField>) {
        for field in fields {
            self.sequences.remove(&field.state.identity);
        }
    }
}

/// Ends the use of the fields' sequences by `commit`, which removes them from the disk. The caller excludes writers; the
/// background may be about to write a reserve of one of them, which must not land behind the removal.
pub(crate) fn end_sequences(
    fields: &[AutoField],
    commit: Box<dyn FnOnce() -> Result<()> + '_>,
) -> Result<()> {
    match fields.split_first() {
        None => commit(),
        Some((first, rest)) => first.state.sequence.end(|| end_sequences(rest, commit)),
    }
}

/// Changes auto-increment fields of a collection, all or none.
pub(crate) fn alter_fields(
    storage: Storage<'_>,
    collection: &CollectionState,
    options: &[FieldOptions],
) -> Result<()> {
    let mut definition = enter_present(collection)?;
    let mut fields: Vec<AutoField> = definition.fields.iter().cloned().collect();
    let mut wanted: Vec<(Arc<SequenceState>, &Options)> = Vec::new();
    for options in options {
        let path = options.path()?;
        let own =
            fields.iter_mut().find(|field| field.field.path() == path).ok_or_else(|| not_found(path))?;
        own.field = own.field.altered(options)?;
        if wanted.iter().any(|(other, _)| Arc::ptr_eq(other, &own.state)) {
            return Err(SequenceError::FieldTwice { field: path.to_owned(), other: path.to_owned() }.into());
        }
        wanted.push((Arc::clone(&own.state), &options.sequence));
    }
    let mut batch = Batch::new(storage.database);
    let mut pending = Vec::new();
    // In the order in which writers take turns, so that two calls never wait for each other.
    wanted.sort_by_key(|(state, _)| state.identity.id);
    for (state, options) in &wanted {
        if let Some(change) = state.sequence.change(Cause::Alter, |state| state.altered(options))? {
            stage_change(&mut batch, &state.identity, &change.change())?;
            pending.push(change);
        }
    }
    let changed = definition.with_fields(AutoFields::new(fields));
    stage_entry(&mut batch, collection, &changed)?;
    storage.store.commit(batch, CommitLevel::Journaled)?;
    publish_all(pending, storage);
    *definition = changed;
    Ok(())
}

/// Removes a collection's documents and starts its sequences again; says how many documents there were. `None`, and
/// nothing is done, if that is not known: the caller counts them, and tries again.
pub(crate) fn truncate(storage: Storage<'_>, collection: &CollectionState) -> Result<Option<u64>> {
    let definition = enter_present(collection)?;
    let Some(documents) = collection.count.known() else { return Ok(None) };
    let mut batch = Batch::new(storage.database);
    batch.delete_range(Family::Records, &collection.id.prefix(), &collection.id.end());
    for index in definition.indexes.iter() {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
    let mut changing = Vec::new();
    for field in definition.fields.turns().iter().map(|position| definition.fields.at(*position)) {
        if field.field.on_truncate == OnTruncate::Continue {
            continue;
        }
        let truncated = |state: &State| Ok(Some(state.truncated()));
        if let Some(change) = field.state.sequence.change(Cause::Restart, truncated)? {
            stage_change(&mut batch, &field.state.identity, &change.change())?;
            changing.push(change);
        }
    }
    collection.count.clear(|| storage.store.commit(batch, CommitLevel::Journaled))?;
    publish_all(changing, storage);
    collection.admission.forget();
    Ok(Some(documents))
}

/// Exclusive use of a collection that may have been dropped or renamed since it was looked up: what is written of it
/// then would bring it back, or its old name.
fn enter_present(collection: &CollectionState) -> Result<ShardedLockWriteGuard<'_, Definition>> {
    let definition = collection.enter_alone();
    if collection.is_retired() {
        return Err(namespace_not_found(&collection.namespace));
    }
    Ok(definition)
}

/// Stages new fields beside the present ones, with their sequences. Nothing is in force yet.
pub(crate) fn stage_fields(
    batch: &mut Batch<'_>,
    ids: &mut NextIds,
    (collection, present): (&CollectionState, &AutoFields),
    options: &[FieldOptions],
    furthest: &Furthest<'_>,
) -> Result<Vec<AutoField>> {
    let mut added: Vec<AutoField> = Vec::new();
    for (options, (field, attributes)) in options.iter().zip(parse_fields(options, present)?) {
        let path = field.path();
        let existing = if options.start_from_existing == Some(true) {
            furthest(collection, path, &attributes)?
        } else {
            None
        };
        let new = State::new(attributes);
        let start = options.used_up_to.map_or_else(|| Ok(new.clone()), |value| new.used_up_to(value))?;
        let start = existing.map_or_else(|| start.clone(), |value| start.beyond(value));
        let name = internal_name(collection.id, path);
        let state = stage_new(batch, ids, (&collection.namespace.db, &name, Some(collection.id)), start)?;
        added.push(AutoField::new(field, state));
    }
    Ok(added)
}

/// Whether a collection numbers just the fields that are asked for, in the way that is asked for, and has used the
/// values that are to count as used.
pub(crate) fn has_fields(present: &AutoFields, options: &[FieldOptions]) -> Result<bool> {
    let asked = parse_fields(options, &AutoFields::default()).map_err(as_conflict)?;
    let is_asked_for = |existing: &AutoField| {
        let sequence = &existing.state.sequence;
        asked.iter().zip(options).any(|((field, attributes), options)| {
            *field == existing.field
                && *attributes == sequence.snapshot().attributes
                && options.used_up_to.is_none_or(|value| sequence.has_used(value))
        })
    };
    Ok(present.iter().count() == asked.len() && present.iter().all(is_asked_for))
}

/// Refuses fields that no collection can be given, whatever it has.
pub(crate) fn check_fields(options: &[FieldOptions]) -> Result<()> {
    parse_fields(options, &AutoFields::default()).map(|_| ()).map_err(as_conflict)
}

/// New fields and their attributes, checked against those that are present and against each other.
fn parse_fields(options: &[FieldOptions], present: &AutoFields) -> Result<Vec<(Field, Attributes)>> {
    let mut parsed: Vec<(Field, Attributes)> = Vec::new();
    for options in options {
        let field = Field::create(options)?;
        check_depth(&field)?;
        let path = field.path();
        if let Some(existing) = present.iter().find(|existing| existing.field.conflicts_with(path)) {
            let existing = existing.field.path().to_owned();
            return Err(SequenceError::FieldConflict { field: path.to_owned(), existing }.into());
        }
        if let Some((other, _)) = parsed.iter().find(|(other, _)| other.conflicts_with(path)) {
            let other = other.path().to_owned();
            return Err(SequenceError::FieldTwice { field: path.to_owned(), other }.into());
        }
        let attributes = Attributes::create(&options.sequence)?;
        if let Some(value) = options.used_up_to {
            State::new(attributes.clone()).used_up_to(value)?;
        }
        parsed.push((field, attributes));
    }
    Ok(parsed)
}

/// Fields are added to a collection one by one, so a second of the same path conflicts with the first.
fn as_conflict(error: Error) -> Error {
    if let ErrorKind::Sequence(SequenceError::FieldTwice { field, other }) = error.kind() {
        return SequenceError::FieldConflict { field: field.clone(), existing: other.clone() }.into();
    }
    error
}

/// Stages a new sequence and takes its id.
fn stage_new(
    batch: &mut Batch<'_>,
    ids: &mut NextIds,
    (db, name, owner): (&str, &str, Option<CollectionId>),
    state: State,
) -> Result<Arc<SequenceState>> {
    let identity = Identity {
        id: SequenceId(ids.sequence),
        object_id: ObjectId::new(),
        db: db.to_owned(),
        name: name.to_owned(),
        owner,
    };
    ids.sequence += 1;
    let definition = Some((state.attributes(), state.version()));
    stage_change(batch, &identity, &Change { mark: &state.mark(), definition, gaps: &[] })?;
    batch.put(Family::Meta, META_NEXT_SEQUENCE, &ids.sequence.to_be_bytes());
    Ok(Arc::new(SequenceState { identity, sequence: Arc::new(Sequence::of_state(state)) }))
}

fn stage_entry(batch: &mut Batch<'_>, collection: &CollectionState, definition: &Definition) -> Result<()> {
    if collection.is_retired() {
        return Err(namespace_not_found(&collection.namespace));
    }
    let value = entry::encode(&collection.namespace, &definition.indexes, &definition.fields)?;
    batch.put(Family::Meta, &collection.id.catalog_key(), &value);
    Ok(())
}

fn publish_all(changes: Vec<Changing<'_>>, storage: Storage<'_>) {
    let receipt = storage.database.latest_sequence();
    for change in changes {
        change.publish(receipt);
    }
}

fn not_found(path: &str) -> Error {
    SequenceError::FieldNotFound { field: path.to_owned() }.into()
}
