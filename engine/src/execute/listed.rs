//! Finds the documents with a value in one field without a plan, by an index on this field alone.

use std::sync::Arc;

use base::error::{Error, Result};
use base::metrics::notes;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;
use index::order::compare;
use index::path::FieldPath;
use index::range::KeyRange;
use query::operation::{OperationContext, Reservation};
use store::{Database, Family};

use crate::catalog::indexes::{Index, whole_on};
use crate::document::decode::stored;
use crate::execute::field_lookup::has;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::read_view::{FoundCollection, FoundRecord, ReadView};
use crate::execute::record_fetch::RecordFetch;
use crate::plan::bounds::{Equality, KeySpan, KeySpans};

/// The most bytes of documents that are found at once. More of them are read one by one.
pub(crate) const DOCUMENTS_BYTES_MAX: usize = 64 << 10;

/// The most entries that are read for them.
const ENTRIES_MAX: usize = 128;

/// The result of a lookup by an index.
pub(crate) enum FoundByIndex {
    /// The record that matches.
    Record(FoundRecord<Vec<u8>>),
    /// No record matches.
    Nothing,
    /// It has to be searched for: there is no collection or no index can be asked, or something changed meanwhile.
    Unknown,
}

/// Looks up a record whose field has a value, by a unique index on this field alone, or by a leaf in memory of any other
/// index on it. Without a snapshot: the record is tested after its entry was read, and one that does not match says that it was
/// changed in between.
pub(crate) fn look_up_by_index<'a>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    field: &str,
    value: RawBsonRef<'_>,
) -> Result<FoundByIndex> {
    let Some(found) = find()? else { return Ok(FoundByIndex::Unknown) };
    // The keys of such indexes, and the test below, are about bytes.
    if !found.collation.is_simple() {
        return Ok(FoundByIndex::Unknown);
    }
    // Before the indexes, as in `of_found`.
    let before = found.changes();
    let indexes = found.indexes();
    let Some((index, direction)) = whole_on(&indexes, field) else { return Ok(FoundByIndex::Unknown) };
    let mut key = index.id.prefix().to_vec();
    index.spec.long_keys().encode(value, direction, &mut key);
    let Some(entry) = first_entry(database, index, &key)? else { return Ok(FoundByIndex::Unknown) };
    index.uses.note();
    let mut record = None;
    if let Some(id) = entry.id {
        let record_key = [&found.id.prefix()[..], &id].concat();
        let bytes = database.record(&record_key)?;
        record = Some(FoundRecord { key: record_key, bytes });
    }
    let after = found.changes();
    if after.is_ending() || after.has_withdrawn_since(before) {
        return Ok(FoundByIndex::Unknown);
    }
    let document = record.as_ref().and_then(|record| RawDocument::from_bytes(record.bytes.as_deref()?).ok());
    let stored = document.and_then(|document| document.get(field).ok().flatten());
    // An array of which an element has the value matches too, but that is for the filter to say.
    let is_match = stored.is_some_and(|stored| compare(stored, value).is_eq());
    if record.is_some() && !is_match {
        return Ok(FoundByIndex::Unknown);
    }
    if index.spec.is_unique() {
        // One look-up for the two reads: it finds one document.
        notes::looked_up();
    } else {
        note_search(index, u64::from(record.is_some()));
    }
    Ok(record.map_or(FoundByIndex::Nothing, FoundByIndex::Record))
}

/// The first entry of an index with some values.
struct FirstEntry {
    /// The encoded `_id` of its document. Absent if there is no entry.
    id: Option<Vec<u8>>,
}

/// The first entry with the values that `key` has. Returns `None` if only a scan finds it.
fn first_entry(database: &Arc<Database>, index: &Index, key: &[u8]) -> Result<Option<FirstEntry>> {
    let Some(leaf) = database.newest_leaf(index.id, key, &index.leaves) else {
        if !index.spec.is_unique() {
            return Ok(None);
        }
        let value = database.get(Family::Entries, key)?;
        let id = value.map(|value| id_of_unique(index, key, &value).map(<[u8]>::to_vec)).transpose()?;
        return Ok(Some(FirstEntry { id }));
    };
    let at = leaf.first_from(key);
    let id = match leaf.key(at).strip_prefix(key) {
        Some(_) if index.spec.is_unique() => Some(id_of_unique(index, key, leaf.value(at))?.to_vec()),
        Some(id) => Some(id.to_vec()),
        // There may be one in the next leaf.
        None if at == leaf.len() && leaf.end().starts_with(key) => return Ok(None),
        None => None,
    };
    Ok(Some(FirstEntry { id }))
}

/// Finds all documents whose field has a value, `limit` of them at most, by an index on this field alone. Returns `None` if a search must find them:
/// no such index exists, or they are many.
pub(crate) fn find_listed<'a>(
    database: &Arc<Database>,
    find: impl Fn() -> Result<Option<FoundCollection<'a>>>,
    equality: Equality<'_>,
    limit: Option<u64>,
    operation: &OperationContext,
) -> Result<Option<FoundDocuments>> {
    let Equality { field, value } = equality;
    // Without an index on the field no snapshot is needed.
    if find()?.is_none_or(|found| whole_on(&found.indexes(), field).is_none()) {
        return Ok(None);
    }
    let Some((found, view)) = ReadView::take(database, &find)? else { return Ok(None) };
    if !found.collation.is_simple() {
        return Ok(None);
    }
    let (Some((index, direction)), Some(snapshot)) = (whole_on(view.indexes(), field), view.snapshot())
    else {
        return Ok(None);
    };
    let mut key = index.id.prefix().to_vec();
    index.spec.long_keys().encode(value, direction, &mut key);
    let Ok(path) = FieldPath::parse(field) else { return Ok(None) };
    let is_unique = index.spec.is_unique();
    let span = match KeyRange::prefix(key.clone()) {
        KeyRange { start, end: Some(end) } if !is_unique => KeySpan::Between(start, end),
        KeyRange { start, .. } => KeySpan::Key(start),
    };
    let mut entries =
        KeyWalk::new(snapshot, Family::Entries, KeySpans::one(span), Direction::Ascending, operation)
            .by_leaves(index);
    let documents_max = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    // No document is read if there are too many.
    let (mut ids, mut is_whole) = (Vec::new(), false);
    while ids.len() < documents_max {
        match entries.advance()? {
            KeyStep::Scanned | KeyStep::LookedUp => {}
            KeyStep::Absent | KeyStep::End => {
                is_whole = true;
                break;
            }
        }
        if ids.len() >= ENTRIES_MAX {
            return Ok(None);
        }
        let id = if is_unique {
            id_of_unique(index, &key, entries.value())?
        } else {
            entries.key().strip_prefix(&key[..]).unwrap_or_default()
        };
        ids.push(id.to_vec());
        operation.step()?;
    }
    drop(entries);
    let mut records = RecordFetch::new(snapshot, view.collection(), operation);
    let (mut found, mut document) = (FoundDocuments::none(operation), Vec::new());
    for (examined, id) in ids.iter().enumerate() {
        let record_key = [&view.collection().prefix()[..], id].concat();
        if !records.read(&record_key, &mut document)? {
            // Both are from one snapshot and were written in one batch, so this is not a race.
            let problem = "the entry's document does not exist";
            return Err(Error::corruption(Family::Entries.name(), &key, problem));
        }
        // By the first document, so that not many are read in vain.
        let expected = if examined == 0 { document.len() * ids.len() } else { 0 };
        if expected.max(found.bytes + document.len()) > DOCUMENTS_BYTES_MAX {
            return Ok(None);
        }
        // The entry promises it, and the document has the last word.
        if has(stored(&record_key, &document)?, &path, value) {
            found.add(&record_key, std::mem::take(&mut document))?;
        }
    }
    if !is_whole && found.documents.len() < documents_max {
        // Behind the entries that were read are more.
        return Ok(None);
    }
    index.uses.note();
    note_search(index, ids.len() as u64);
    Ok(Some(found))
}

/// Documents that were found at once, and their memory.
pub(crate) struct FoundDocuments {
    pub(crate) documents: Vec<RawDocumentBuf>,
    /// The operation that they were read by.
    pub(crate) operation: OperationContext,
    pub(crate) room: Reservation,
    bytes: usize,
}

impl FoundDocuments {
    pub(crate) fn none(operation: &OperationContext) -> Self {
        let room = Reservation::of(operation);
        Self { documents: Vec::new(), operation: operation.clone(), room, bytes: 0 }
    }

    /// Adds a record.
    pub(crate) fn add(&mut self, key: &[u8], record: Vec<u8>) -> Result<()> {
        self.bytes += record.len();
        self.room.grow_to(self.bytes)?;
        self.documents.push(document_of(key, record)?);
        Ok(())
    }
}

/// The encoded `_id` in the value of an entry of a unique index.
fn id_of_unique<'v>(index: &Index, key: &[u8], value: &'v [u8]) -> Result<&'v [u8]> {
    let length = index.spec.long_keys().skip(value, Direction::Ascending).ok();
    length.and_then(|length| value.get(..length)).ok_or_else(|| {
        Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index")
    })
}

/// A record as a document that is handed out.
pub(crate) fn document_of(key: &[u8], bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    // An insert validates what it stores. So bytes that are not a document are damage, not the caller's mistake.
    RawDocumentBuf::from_bytes(bytes).map_err(|error| {
        let message = format!("the record is not a document: {error}");
        Error::corruption(Family::Records.name(), key, message)
    })
}

/// Counts what a search by an index would count, which this was done in place of.
fn note_search(index: &Index, examined: u64) {
    notes::searched(false);
    notes::scans(notes::Plan::Index(&index.name));
    notes::examined(examined, examined);
}
