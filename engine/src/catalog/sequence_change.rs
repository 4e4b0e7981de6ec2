//! Changes of sequences and auto-increment fields: create, alter, drop, rename, truncate.
//!
//! As with every change of the catalog, one synced batch comes first and the map after it. Fields change
//! while the collection's gate is held exclusively, so no insert holds a value from before the change.

use std::sync::Arc;

use base::error::{Error, Result};
use base::lock_order::{self, Place};
use base::names::validate_database;
use query::operation::OperationContext;
use sequence::allocator::Changing;
use sequence::attributes::Options;
use sequence::auto_increment::{FieldOptions, OnTruncate, check_name};
use sequence::error::SequenceError;
use sequence::state::State;
use sequence::store::Cause;
use store::Family;
use store::handles::Storage;
use store::write::Batch;

use crate::catalog::capped::OrderState;
use crate::catalog::change::namespace_not_found;
use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::definition_events::commit_change;
use crate::catalog::fields::{NewFields, as_conflict, find_existing, parse_fields, stage_fields};
use crate::catalog::gate::Alone;
use crate::catalog::names::Catalog;
use crate::catalog::record_removal::RecordRange;
use crate::catalog::sequence_entry::Identity;
use crate::catalog::sequences::{AutoField, AutoFields, SequenceState, end_sequences};
use crate::catalog::stage::{
    NewSequence, stage_entry, stage_event, stage_new_sequence, stage_sequence_change, stage_sequence_removal,
};
use crate::changes::event::EventKind;

impl Catalog {
    /// Creates a sequence for a user.
    pub(crate) fn create_sequence(
        &self,
        storage: Storage<'_>,
        db: &str,
        name: &str,
        options: &Options,
    ) -> Result<()> {
        validate_database(db)?;
        check_name(name)?;
        let state = State::create(options)?;
        let mut ids = self.lock_ids();
        if self.sequences.find(db, name).is_some() {
            return Err(SequenceError::Exists { name: name.to_owned() }.into());
        }
        let mut batch = Batch::new(storage.database);
        let mut next = *ids;
        let new = NewSequence { db, name, owner: None, state };
        let state = stage_new_sequence(&mut batch, &mut next, new)?;
        storage.store.commit_definition(batch)?;
        *ids = next;
        self.sequences.insert(&state);
        Ok(())
    }

    /// Removes a sequence that a user created.
    pub(crate) fn drop_sequence(&self, storage: Storage<'_>, db: &str, name: &str) -> Result<()> {
        check_name(name)?;
        let _changes = self.lock_ids();
        let state = self.named(db, name)?;
        // The sequence is held from before the write. Otherwise a reserve that is made meanwhile could be
        // written after the removal.
        let _place = lock_order::take(Place::Sequence);
        let Some(changing) = state.sequence.change(Cause::Alter, |state| Ok(Some(state.clone())))? else {
            return Ok(());
        };
        let mut batch = Batch::new(storage.database);
        stage_sequence_removal(&mut batch, &state.identity);
        storage.store.commit_definition(batch)?;
        self.sequences.remove(&state.identity);
        // The successor is dropped: the sequence ends, and its handles find out by its retirement.
        drop(changing.succeed(storage.database.latest_sequence()));
        Ok(())
    }

    /// Gives a sequence another name. It keeps its id and its values, but blocks are given up.
    pub(crate) fn rename_sequence(&self, storage: Storage<'_>, db: &str, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let _changes = self.lock_ids();
        let state = self.named(db, from)?;
        if self.sequences.find(db, to).is_some() {
            return Err(SequenceError::Exists { name: to.to_owned() }.into());
        }
        // A new state with the same id: handles to the old name must not find the sequence by what they have
        // resolved.
        let identity = Identity { name: to.to_owned(), ..state.identity.clone() };
        let _place = lock_order::take(Place::Sequence);
        let Some(changing) = state.sequence.change(Cause::Alter, |state| Ok(Some(state.renamed())))? else {
            return Ok(());
        };
        let mut batch = Batch::new(storage.database);
        stage_sequence_change(&mut batch, &identity, &changing.change())?;
        storage.store.commit_definition(batch)?;
        let sequence = Arc::new(changing.succeed(storage.database.latest_sequence()));
        self.sequences.exchange(&state.identity, &Arc::new(SequenceState { identity, sequence }));
        Ok(())
    }

    /// The sequence with this name.
    pub(crate) fn named(&self, db: &str, name: &str) -> Result<Arc<SequenceState>> {
        self.sequences.find(db, name).ok_or_else(|| SequenceError::NotFound { name: name.to_owned() }.into())
    }

    /// Adds auto-increment fields to a collection, all or none.
    pub(crate) fn add_fields(
        &self,
        storage: Storage<'_>,
        collection: &CollectionState,
        operation: &OperationContext,
        new: NewFields<'_>,
    ) -> Result<()> {
        let NewFields { options, furthest } = new;
        // The gate first and the lock of all changes after it, as everywhere.
        let mut definition = enter_present(collection, operation)?;
        let mut new = parse_fields(options, &definition.fields).map_err(as_conflict)?;
        find_existing(collection, &mut new, furthest)?;
        let mut ids = self.lock_ids();
        let mut batch = Batch::new(storage.database);
        let mut next = *ids;
        let added = stage_fields(&mut batch, &mut next, collection, new)?;
        let all = definition.fields.iter().cloned().chain(added.iter().cloned()).collect();
        // A copy: the definition that writers use changes only after the commit.
        let changed = definition.with_fields(AutoFields::new(all));
        stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
        storage.store.commit_definition(batch)?;
        *ids = next;
        for field in &added {
            self.sequences.insert(&field.state);
        }
        collection.publish(storage.database, &mut definition, changed);
        Ok(())
    }

    /// Removes auto-increment fields from a collection, all or none. Stored values stay.
    pub(crate) fn drop_fields(
        &self,
        storage: Storage<'_>,
        collection: &CollectionState,
        operation: &OperationContext,
        paths: &[String],
    ) -> Result<()> {
        if paths.is_empty() {
            return Err(SequenceError::MissingOption { option: "Field" }.into());
        }
        let mut definition = enter_present(collection, operation)?;
        let _changes = self.lock_ids();
        // All names are checked before anything is staged, so a wrong one leaves no trace.
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
        stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
        for field in &dropped {
            stage_sequence_removal(&mut batch, &field.state.identity);
        }
        end_sequences(&dropped, Box::new(|| storage.store.commit_definition(batch)))?;
        self.forget(&dropped);
        collection.publish(storage.database, &mut definition, changed);
        Ok(())
    }

    /// Removes the sequences of fields from the map, after their use was ended.
    pub(crate) fn forget<'a>(&self, fields: impl IntoIterator<Item = &'a AutoField>) {
        for field in fields {
            self.sequences.remove(&field.state.identity);
        }
    }
}

/// Changes auto-increment fields of a collection, all or none.
pub(crate) fn alter_fields(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
    options: &[FieldOptions],
) -> Result<()> {
    let mut definition = enter_present(collection, operation)?;
    let mut fields: Vec<AutoField> = definition.fields.iter().cloned().collect();
    let mut wanted: Vec<(Arc<SequenceState>, &Options)> = Vec::new();
    for options in options {
        let path = options.path()?;
        let own =
            fields.iter_mut().find(|field| field.field.path() == path).ok_or_else(|| not_found(path))?;
        own.field = own.field.altered(options)?;
        // The second change of a sequence would wait for the first one of this same call.
        if wanted.iter().any(|(other, _)| Arc::ptr_eq(other, &own.state)) {
            return Err(SequenceError::FieldTwice { field: path.to_owned(), other: path.to_owned() }.into());
        }
        wanted.push((Arc::clone(&own.state), &options.sequence));
    }
    let mut batch = Batch::new(storage.database);
    let mut pending = Vec::new();
    let _place = lock_order::take(Place::Sequence);
    // In the order in which writers take turns, so that two calls never wait for each other.
    wanted.sort_by_key(|(state, _)| state.identity.id);
    for (state, options) in &wanted {
        // `None`: the attributes stay as they are, and no block has to be given up.
        if let Some(change) = state.sequence.change(Cause::Alter, |state| state.altered(options))? {
            stage_sequence_change(&mut batch, &state.identity, &change.change())?;
            pending.push(change);
        }
    }
    let changed = definition.with_fields(AutoFields::new(fields));
    stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
    storage.store.commit_definition(batch)?;
    publish_all(pending, storage);
    collection.publish(storage.database, &mut definition, changed);
    Ok(())
}

/// Removes a collection's documents and restarts its sequences. Returns how many documents there were, or
/// `None` without doing anything if that number is not known: the caller counts them and tries again.
pub(crate) fn truncate(
    storage: Storage<'_>,
    collection: &CollectionState,
    operation: &OperationContext,
) -> Result<Option<u64>> {
    let definition = enter_present(collection, operation)?;
    let Some(documents) = collection.count.known() else { return Ok(None) };
    let mut batch = Batch::new(storage.database);
    stage_event(&mut batch, collection, &definition, EventKind::Truncate);
    // Ranges and not single keys: the cost does not depend on the number of documents.
    for index in definition.indexes.iter() {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
    let mut changing = Vec::new();
    let _place = lock_order::take(Place::Sequence);
    // In the order of turns, as in `alter_fields`.
    for field in definition.fields.turns().iter().map(|position| definition.fields.at(*position)) {
        if field.field.on_truncate == OnTruncate::Continue {
            continue;
        }
        let truncated = |state: &State| Ok(Some(state.truncated()));
        if let Some(change) = field.state.sequence.change(Cause::Restart, truncated)? {
            stage_sequence_change(&mut batch, &field.state.identity, &change.change())?;
            changing.push(change);
        }
    }
    // After the turns of sequences, as in an insert. What follows removes the state of the order too, so it is written again.
    let mut turn = collection.order().map(|order| order.turn(storage.database, operation)).transpose()?;
    if let Some(turn) = &mut turn {
        batch.delete_range(Family::Entries, &turn.id().prefix(), &turn.id().end());
        let next = turn.state.next;
        turn.make_room_below(next);
        turn.state = OrderState { first: next, documents: 0, bytes: 0, next };
    }
    // The counter is held during the commit, so that an audit never sees one without the other.
    let commit = |batch| commit_change(storage, &definition, batch);
    collection.count.reset(0, || {
        collection.remove_records(RecordRange::All, batch, |batch| match turn {
            Some(mut turn) => turn.commit(batch, commit),
            None => commit(batch),
        })
    })?;
    collection.note_change(storage.database);
    publish_all(changing, storage);
    // After the commit: all keys are free again, and lookups for them would cost every insert.
    collection.forget_keys(&definition);
    Ok(Some(documents))
}

/// Enters a collection alone, which may have been dropped or renamed since it was looked up. To write its
/// entry then would bring it back, or its old name.
fn enter_present<'a>(
    collection: &'a CollectionState,
    operation: &OperationContext,
) -> Result<Alone<'a, Definition>> {
    let definition = collection.enter_alone(operation)?;
    if collection.is_retired() {
        return Err(namespace_not_found(&collection.namespace));
    }
    Ok(definition)
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
