//! The commit of a transaction: gates, latches, a look at the notes, one batch, one write.
//!
//! Nothing is waited for in front of the latches. Who holds a gate alone may wait for this transaction, so a gate that is not free is
//! a conflict.

use std::collections::HashMap;
use std::sync::Arc;

use base::error::{Error, Result};
use base::lock_order::{self, Place};
use base::metrics::notes;
use query::operation::OperationContext;
use sequence::generator::Generator;
use store::handles::Storage;
use store::keys::split_id;
use store::latch::{Latched, ReadKeys};
use store::write::{Batch, CommitLevel};
use store::{Database, Family};

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::entry;
use crate::catalog::gate::Shared;
use crate::catalog::given_keys::steps::KeySpace;
use crate::catalog::names::Catalog;
use crate::changes::event::Event;
use crate::options::PlantedFault;
use crate::outcomes::once::Once;
use crate::outcomes::retryable::session_of_row;
use crate::transaction::numbers::Numbers;
use crate::transaction::reads::Reads;
use crate::transaction::stage::{Stage, Touched};
use crate::transaction::{Open, conflict};
use crate::write::Target;

/// What a commit needs beside the transaction.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) storage: Storage<'a>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) generator: &'a Generator,
    pub(crate) level: CommitLevel,
    pub(crate) operation: &'a OperationContext,
    /// The row of its session, if a client may ask for the commit again after a crash: key and value.
    pub(crate) row: Option<(&'a [u8], &'a [u8])>,
    /// The token of the transaction, whose row is stored with it.
    pub(crate) once: Option<&'a Once>,
}

/// A collection whose gate is held.
struct Entered<'a> {
    touched: &'a Touched,
    definition: Shared<'a, Definition>,
}

impl Entered<'_> {
    fn target<'t>(&'t self, terms: Terms<'t>) -> Target<'t> {
        let Terms { storage, generator, level, operation, .. } = terms;
        Target::within(storage, &self.touched.state, &self.definition, generator, (level, operation))
    }
}

/// Stores what a transaction has staged, all of it or nothing. Fails with code 112 if a key of it was written since the transaction
/// began, or one of its collections is being changed.
pub(crate) fn commit(open: &Open, terms: Terms<'_>) -> Result<()> {
    let made = open.made.all();
    // A collection that is there is on stable storage, as after a plain call that makes one.
    let level = if made.is_empty() { terms.level } else { CommitLevel::Journaled };
    let terms = Terms { level, ..terms };
    let stored = store_staged(open, made, terms)?;
    if stored {
        // After the latches: other writers do not wait for the sync.
        terms.storage.store.reach(terms.storage.database, terms.level)?;
    }
    Ok(())
}

/// Returns `false` if nothing is staged, and the transaction has no token.
fn store_staged(open: &Open, made: Vec<Arc<CollectionState>>, terms: Terms<'_>) -> Result<bool> {
    let mut stage = open.stage();
    if stage.overlay().is_empty() && made.is_empty() && terms.once.is_none() {
        return Ok(false);
    }
    let Terms { storage, catalog, operation, .. } = terms;
    let mut numbers = std::mem::take(stage.numbers());
    // Ascending by their ids, as for all that acquire several gates.
    let entered = stage.collections().map(|touched| enter(open, touched)).collect::<Result<Vec<_>>>()?;
    // Those that were only read: none of them is being changed until the commit has returned.
    let read = stage.reads().map(|reads| reads.collections().filter(|read| !stage.has_touched(read.id)));
    let read = read.into_iter().flatten().filter(|read| !open.made.has(read));
    let read = read.map(|read| read.try_enter().ok_or_else(conflict)).collect::<Result<Vec<_>>>()?;
    // Kept to the end: the names stay free until the collections have them.
    let publishing =
        if made.is_empty() { None } else { Some(catalog.try_publish(made).ok_or_else(conflict)?) };
    let mut latches = storage.store.latches.set();
    stage.claims().for_each(|hash| latches.add_hash(hash));
    if let Some(once) = terms.once {
        latches.add_hash(once.hash());
    }
    let reads = stage.reads().filter(|_| storage.database.fault() != PlantedFault::SearchesNotChecked);
    let read_keys: ReadKeys = reads.into_iter().flat_map(Reads::keys).collect();
    latches.add_read(&read_keys);
    let mut held = if reads.is_some_and(Reads::has_searches) {
        storage.store.latches.lock_all_for(latches, operation)?
    } else {
        storage.store.latches.lock(&latches, operation)?
    };
    // First of all: the call that came first has left a note of the token too.
    terms.once.map_or(Ok(()), |once| once.refuse_second(storage.database))?;
    // No look-up: what has no note was not written since the transaction began.
    let is_asked = storage.database.fault() != PlantedFault::NotesNotAsked;
    if is_asked && held.is_written_since(open.sequence()) {
        return Err(conflict());
    }
    // Nothing lies between this and the write, so the commit is where the transaction is in the order of all.
    if let Some(reads) = reads
        && (held.are_written_since(&read_keys, open.sequence()) || !reads.are_as_of(open.sequence(), catalog))
    {
        return Err(conflict());
    }
    let mut batch = batch_of(&stage, &entered, terms)?;
    if let Some((key, row)) = terms.row {
        batch.put(Family::Outcomes, key, row);
    }
    publishing.as_ref().map_or(Ok(()), |publishing| publishing.stage(&mut batch))?;
    add_events(&mut batch, stage.events(), terms);
    operation.look()?;
    let committed = write(&entered, batch, terms, &mut numbers, &mut held);
    count(open, &stage, &entered, storage.database, committed)?;
    if let Some(publishing) = publishing {
        publishing.finish(storage.database);
    }
    if let Some(owner) = open.owner {
        held.release(owner);
    }
    drop((held, read, entered));
    // Before the sync: writers that wait for a turn do not wait for that too.
    drop(numbers);
    // They were withdrawn under the latches.
    drop(stage.take_claims());
    Ok(true)
}

/// Adds the events of the transaction, with the session of a driver that commits it.
fn add_events(batch: &mut Batch<'_>, events: &[Vec<u8>], terms: Terms<'_>) {
    let session =
        terms.row.filter(|_| !events.is_empty()).and_then(|(key, value)| session_of_row(key, value));
    for event in events {
        let mut event = event.clone();
        if let Some(session) = &session {
            Event::add_session(&mut event, session);
        }
        batch.add_event(event);
    }
}

/// Enters a collection, and makes sure that it is what it was when documents were staged.
fn enter<'a>(open: &Open, touched: &'a Touched) -> Result<Entered<'a>> {
    let definition = touched.state.try_enter().ok_or_else(conflict)?;
    if !touched.state.is_as_of(open.sequence()) || !touched.definition.is_same(&definition) {
        return Err(conflict());
    }
    Ok(Entered { touched, definition })
}

fn batch_of<'a>(stage: &Stage, entered: &[Entered<'_>], terms: Terms<'a>) -> Result<Batch<'a>> {
    let overlay = stage.overlay();
    let database = terms.storage.database;
    let mut batch = Batch::with_capacity(database, overlay.bytes());
    let admits = database.fault() != PlantedFault::KeysNotAdmitted;
    // Both are in the order of the collections' ids.
    let mut collections = entered.iter().peekable();
    for (key, value) in overlay.changes(Family::Records) {
        let id = split_id(key).map_or(0, |(id, _)| id);
        while collections.next_if(|entered| entered.touched.state.id.0 < id).is_some() {}
        let Some(entered) = collections.peek().filter(|entered| entered.touched.state.id.0 == id) else {
            return Err(misplaced(key));
        };
        if value.is_some() && entered.touched.inserted > 0 && admits {
            // Here and not when it was claimed: a filter of keys that was begun since does not have it, and would call it absent.
            // One that is updated is stored, and the filter has it.
            entered.target(terms).admit_record(key)?;
        }
        stage_change(&mut batch, Family::Records, key, value);
        entered.touched.state.builds.note(&mut batch, key, value.map_or(0, <[u8]>::len));
        if database.fault() == PlantedFault::CommittedApart {
            let apart = std::mem::replace(&mut batch, Batch::with_capacity(database, overlay.bytes()));
            terms.storage.store.commit(apart, terms.level)?;
        }
    }
    let mut by_id = HashMap::new();
    for entered in entered {
        by_id.extend(entered.definition.indexes.iter().map(|index| (index.id.0, (entered, index))));
    }
    for (key, value) in overlay.changes(Family::Entries) {
        if let Some((entered, index)) = split_id(key).and_then(|(id, _)| by_id.get(&id)) {
            if value.is_some() && admits && index.spec.is_unique() {
                entered.target(terms).admit(&index.given_keys, key, || KeySpace::of_entries(index.id))?;
            }
            index.leaves.note(&mut batch, key);
        }
        stage_change(&mut batch, Family::Entries, key, value);
    }
    Ok(batch)
}

fn stage_change(batch: &mut Batch<'_>, family: Family, key: &[u8], value: Option<&[u8]>) {
    match value {
        Some(value) => batch.put(family, key, value),
        None => batch.delete(family, key),
    }
}

/// Writes the batch, with the marks of gapless sequences and the entries of collections whose indexes have new arrays, which plans
/// know of already.
fn write(
    entered: &[Entered<'_>],
    mut batch: Batch<'_>,
    terms: Terms<'_>,
    numbers: &mut Numbers,
    latched: &mut Latched<'_>,
) -> Result<()> {
    let Terms { storage, level, .. } = terms;
    let mut noting = Vec::new();
    for Entered { touched, definition } in entered.iter().filter(|entered| !entered.touched.arrays.is_empty())
    {
        let place = lock_order::take(Place::Arrays);
        noting.push((touched.state.noting_arrays.lock(), place));
        let entry = entry::encode(&touched.state.namespace, definition)?;
        batch.put(Family::Meta, &touched.state.id.catalog_key(), &entry);
    }
    numbers.stage_marks(&mut batch);
    let mut has_begun = false;
    let mut commit = |batch| {
        has_begun = true;
        numbers.begin_write();
        let log = &terms.catalog.log;
        log.write(storage, batch, |batch| storage.store.write_latched(batch, level, latched))
    };
    let written = match terms.once {
        None => commit(batch),
        Some(once) => once.commit(batch, commit, &|apart| storage.store.commit(apart, level)),
    };
    if !has_begun {
        return written;
    }
    let newest = storage.database.latest_sequence();
    for Entered { touched, .. } in entered {
        touched.state.note_write(newest);
    }
    numbers.end_write(&written, newest);
    written?;
    for Entered { touched, definition } in entered {
        for (position, found) in &touched.arrays {
            let Some(marks) = definition.marks_of(*position) else { continue };
            for found in found {
                marks.confirm(found);
            }
        }
    }
    drop(noting);
    Ok(())
}

/// Counts what was stored and removed. The latches are held still.
fn count(
    open: &Open,
    stage: &Stage,
    entered: &[Entered<'_>],
    database: &Database,
    committed: Result<()>,
) -> Result<()> {
    // One that failed may have been made all the same, if only its sync could not be confirmed. Readers see it then.
    let is_made = match &committed {
        Ok(()) => true,
        Err(error) => error.is_commit_unknown() && is_stored(open, stage, database),
    };
    if is_made {
        for Entered { touched, .. } in entered {
            touched.state.count.add(touched.documents);
            notes::inserted(touched.inserted);
            notes::updated(touched.updated);
            notes::deleted(touched.deleted);
        }
    }
    committed
}

/// Whether a batch was written, known by one of the records that it changes. If it changes none, nothing is to be counted.
fn is_stored(open: &Open, stage: &Stage, database: &Database) -> bool {
    let is_changed =
        |key: &[u8], value: Option<&[u8]>| open.stored(key).is_ok_and(|before| before.as_deref() != value);
    let mut changes = stage.overlay().changes(Family::Records);
    changes.find(|(key, value)| is_changed(key, *value)).is_none_or(|(key, value)| {
        let stored = database.get(Family::Records, key);
        stored.is_ok_and(|stored| stored.as_deref() == value)
    })
}

/// The error of a staged record that is in none of the transaction's collections.
#[cold]
fn misplaced(key: &[u8]) -> Error {
    let (family, message) =
        (Family::Records.name(), "a staged record belongs to no collection of its transaction");
    Error::corruption(family, key, message)
}
