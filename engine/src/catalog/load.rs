//! Reading the catalog at open, and writing at close what the next open would otherwise have to compute.

use std::collections::HashMap;
use std::sync::Arc;

use base::error::{Error, Result};
use query::operation::OperationContext;
use sequence::store::Record;
use store::keys::{
    self, CollectionId, IndexId, META_BUILDING, META_CLEAN_CLOSE, META_COLLECTION, META_MARK, META_NEXT_ID,
    META_NEXT_SEQUENCE, META_SEQUENCE, SequenceId,
};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::Batch;
use store::{Database, Family, OpenMode, Store};

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::entry::{self, CollectionEntry, Entry, ViewEntry};
use crate::catalog::names::{Catalog, Named, NextIds};
use crate::catalog::sequence_entry::{decode_definition, decode_mark};
use crate::catalog::sequences::{AutoField, AutoFields, SequenceState, Sequences};
use crate::catalog::stage::{stage_build_removal, stage_mark};
use crate::catalog::views::View;
use crate::changes::kept::LogLimits;
use crate::changes::log::ChangeLog;

impl Catalog {
    /// Reads every entry. A damaged entry is an error: a collection that cannot be named must not be
    /// forgotten.
    pub(crate) fn load(database: &Arc<Database>, log: LogLimits, mode: OpenMode) -> Result<Self> {
        let next_ids = NextIds { id: load_next_id(database)?, sequence: load_next_sequence(database)? };
        let mut catalog = Self::empty(next_ids, ChangeLog::load(database, log, mode)?);
        let snapshot = Snapshot::take(database);
        // Sequences first: collections are bound to them.
        let sequences = load_sequences(&snapshot, &catalog.sequences)?;
        // Only after a clean close do the stored counters agree with the documents.
        let clean = closed_cleanly(database)?;
        catalog.was_closed_in_order = clean;
        for (id, value) in tagged_entries(&snapshot, META_COLLECTION)? {
            let entry = match entry::decode(CollectionId(id), &value)? {
                Entry::Collection(entry) => entry,
                Entry::View(ViewEntry { namespace, definition }) => {
                    // It has no documents to count and no sequences to be bound to.
                    let view = View::new(CollectionId(id), namespace, definition);
                    catalog.insert(Named::View(Arc::new(view)));
                    continue;
                }
            };
            // A collection that no name covers any more: the log was about to be switched off.
            let is_logged = entry.is_logged && catalog.log.covers(&entry.namespace);
            let log = is_logged.then(|| Arc::clone(&catalog.log));
            catalog.log.note_collection(&entry.namespace, log.is_some());
            let collection = bind(CollectionId(id), entry.with_fault(database.fault()), &sequences, log)?;
            if clean && let Some(documents) = load_count(database, collection.id)? {
                collection.count.set(documents);
            }
            catalog.insert(Named::Collection(Arc::new(collection)));
        }
        Ok(catalog)
    }

    /// Ends the use of sequences, and writes their marks and every known counter. The next open continues
    /// without a gap and need not count.
    pub(crate) fn save(&self, store: &Store, database: &Database) -> Result<()> {
        let mut batch = Batch::new(database);
        for state in self.sequences.all() {
            // `None`: the mark on disk is right, or the outcome of its last write is unknown.
            if let Some((mark, gaps)) = state.sequence.close() {
                stage_mark(&mut batch, &state.identity, &mark, &gaps);
            }
        }
        for collection in self.collections() {
            match collection.count.known() {
                Some(documents) => {
                    batch.put(Family::Meta, &collection.id.count_key(), &documents.to_be_bytes());
                }
                // An old counter must not become valid again by the number that is written below.
                None => batch.delete(Family::Meta, &collection.id.count_key()),
            }
        }
        self.log.save(&mut batch);
        // The counters hold for exactly this state: every later write has a higher sequence number.
        let sequence = database.latest_sequence() + batch.len() + 1;
        batch.put(Family::Meta, META_CLEAN_CLOSE, &sequence.to_be_bytes());
        store.commit_definition(batch)
    }
}

/// Removes the entries of index builds that were cut short: they belong to no index.
pub(crate) fn discard_unfinished_builds(store: &Store, database: &Arc<Database>) -> Result<()> {
    let mut batch = Batch::new(database);
    for (id, _) in tagged_entries(&Snapshot::take(database), META_BUILDING)? {
        stage_build_removal(&mut batch, IndexId(id));
    }
    // Opening a store that was closed well writes nothing here.
    if batch.is_empty() { Ok(()) } else { store.commit_definition(batch) }
}

/// The ids and values of all keys in `meta` that begin with `tag`.
pub(crate) fn tagged_entries(snapshot: &Arc<Snapshot>, tag: u8) -> Result<Vec<(u32, Vec<u8>)>> {
    let bounds = (vec![tag], Some(vec![tag + 1]));
    let mut scan = Scan::open(snapshot, Family::Meta, bounds, CacheUse::Fill, &OperationContext::unlimited());
    let mut entries = Vec::new();
    while scan.advance()? {
        let id = keys::tagged_id(scan.key()).ok_or_else(|| {
            Error::corruption(Family::Meta.name(), scan.key(), "the key is not a tag and a 4-byte id")
        })?;
        entries.push((id, scan.value().to_vec()));
    }
    Ok(entries)
}

fn load_next_id(database: &Database) -> Result<u32> {
    let Some(value) = database.get(Family::Meta, META_NEXT_ID)? else { return Ok(1) };
    <[u8; 4]>::try_from(&*value)
        .map(u32::from_be_bytes)
        .map_err(|_| Error::corruption(Family::Meta.name(), META_NEXT_ID, "the next id is not 4 bytes long"))
}

fn load_next_sequence(database: &Database) -> Result<u64> {
    let Some(value) = database.get(Family::Meta, META_NEXT_SEQUENCE)? else { return Ok(1) };
    <[u8; 8]>::try_from(&*value).map(u64::from_be_bytes).map_err(|_| {
        Error::corruption(Family::Meta.name(), META_NEXT_SEQUENCE, "the next sequence id is not 8 bytes long")
    })
}

/// Reads every sequence. Returns them by id.
fn load_sequences(
    snapshot: &Arc<Snapshot>,
    sequences: &Sequences,
) -> Result<HashMap<SequenceId, Arc<SequenceState>>> {
    let mut marks = HashMap::new();
    for (id, value) in sequence_entries(snapshot, META_MARK)? {
        marks.insert(id, decode_mark(id, &value)?);
    }
    let mut loaded = HashMap::new();
    for (id, value) in sequence_entries(snapshot, META_SEQUENCE)? {
        let (identity, attributes, version) = decode_definition(id, &value)?;
        // Without a mark the sequence would start again and hand out its values a second time.
        let mark = marks.remove(&id).ok_or_else(|| {
            Error::corruption(Family::Meta.name(), &id.mark_key(), "the mark of a sequence is missing")
        })?;
        let state = Arc::new(SequenceState::restore(identity, Record { attributes, version, mark }));
        sequences.insert(&state);
        loaded.insert(id, state);
    }
    Ok(loaded)
}

/// The ids and values of all keys in `meta` that are `tag` and the id of a sequence.
pub(crate) fn sequence_entries(snapshot: &Arc<Snapshot>, tag: u8) -> Result<Vec<(SequenceId, Vec<u8>)>> {
    let mut scan = Scan::open(
        snapshot,
        Family::Meta,
        (vec![tag], Some(vec![tag + 1])),
        CacheUse::Fill,
        &OperationContext::unlimited(),
    );
    let mut entries = Vec::new();
    while scan.advance()? {
        let (id, _) =
            keys::split_sequence(scan.key()).filter(|(_, rest)| rest.is_empty()).ok_or_else(|| {
                Error::corruption(Family::Meta.name(), scan.key(), "the key is not a tag and an 8-byte id")
            })?;
        entries.push((id, scan.value().to_vec()));
    }
    Ok(entries)
}

/// The collection of an entry, with its fields bound to their sequences.
fn bind(
    id: CollectionId,
    entry: CollectionEntry,
    sequences: &HashMap<SequenceId, Arc<SequenceState>>,
    log: Option<Arc<ChangeLog>>,
) -> Result<CollectionState> {
    let mut fields = Vec::with_capacity(entry.fields.len());
    for (field, sequence) in entry.fields {
        let state =
            sequences.get(&sequence).filter(|state| state.identity.owner == Some(id)).ok_or_else(|| {
                let reason = format!("the sequence of the auto-increment field {} is missing", field.path());
                Error::corruption(Family::Meta.name(), &id.catalog_key(), reason)
            })?;
        fields.push(AutoField::new(field, Arc::clone(state)));
    }
    let definition = Definition::of_indexes(entry.indexes)
        .with_fields(AutoFields::new(fields))
        .with_validation(entry.validation)
        .with_capped(entry.capped)
        .with_collation(entry.collation)
        .with_clustered(entry.clustered)
        .with_record_keys(entry.record_keys)
        .with_log(log)
        .with_images(entry.keeps_images);
    Ok(CollectionState::new(id, entry.namespace, definition))
}

fn closed_cleanly(database: &Database) -> Result<bool> {
    let stamp = database.get(Family::Meta, META_CLEAN_CLOSE)?;
    // Any write after the close has raised the number, also one of a crashed process.
    Ok(stamp.is_some_and(|value| *value == database.latest_sequence().to_be_bytes()))
}

fn load_count(database: &Database, id: CollectionId) -> Result<Option<u64>> {
    let value = database.get(Family::Meta, &id.count_key())?;
    Ok(value.and_then(|value| <[u8; 8]>::try_from(&*value).ok()).map(u64::from_be_bytes))
}
