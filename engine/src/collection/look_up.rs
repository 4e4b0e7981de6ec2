//! Searches that need no plan: for an `_id`, and for a value of one field that has an index of its own.

use std::time::Duration;

use base::error::Result;
use base::metrics::notes;
use bson::{Document, RawBsonRef, RawDocumentBuf};
use index::collation::has_text;
use index::key::FIELD_BYTES_MAX;

use crate::catalog::collection::CollectionState;
use crate::collection::handle::Handle;
use crate::execute::listed::{
    DOCUMENTS_BYTES_MAX, FoundByIndex, FoundDocuments, document_of, find_listed, look_up_by_index,
};
use crate::execute::read_view::{FoundRecord, look_up as look_up_record};
use crate::options::FindOptions;
use crate::plan::bounds::{Equality, ID_FIELD, only_equality};
use crate::write::prepare::{encoded_id, record_key};

/// The result of a lookup without a search.
pub(super) enum LookedUp {
    Document(RawDocumentBuf),
    Nothing,
    /// Only a search can determine.
    Unknown,
}

/// Looks a document up for `find_one`, if its filter is just an `_id`, or one field with an index: such a one needs neither a parsed filter
/// nor a plan, and in most cases no snapshot.
pub(super) fn look_up(collection: &Handle, filter: &Document, options: &FindOptions) -> Result<LookedUp> {
    if !is_plain(options) {
        return Ok(LookedUp::Unknown);
    }
    let Some(equality) = only_equality(filter) else { return Ok(LookedUp::Unknown) };
    let Equality { field, value } = equality;
    let found = if field == ID_FIELD {
        // Without a collection it may be a view, which is for the search to say.
        collection.look_up(value)?.map_or(FoundByIndex::Unknown, FoundByIndex::Record)
    } else {
        collection.look_up_by_index(field, value)?
    };
    let found = match found {
        FoundByIndex::Record(FoundRecord { key, bytes: Some(bytes) }) => Some(document_of(&key, bytes)?),
        FoundByIndex::Record(FoundRecord { bytes: None, .. }) | FoundByIndex::Nothing => None,
        FoundByIndex::Unknown if field == ID_FIELD => return Ok(LookedUp::Unknown),
        FoundByIndex::Unknown => match collection.find_listed(equality, Some(1), options.max_time)? {
            Some(mut found) => found.documents.pop(),
            None => return Ok(LookedUp::Unknown),
        },
    };
    let Some(document) = found else { return Ok(LookedUp::Nothing) };
    notes::returned(1, document.as_bytes().len() as u64);
    Ok(LookedUp::Document(document))
}

/// Looks all documents up for `find`, as [`look_up`] does for `find_one`. Returns `None` if only a search finds them.
pub(super) fn look_up_all(
    collection: &Handle,
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
) -> Result<Option<FoundDocuments>> {
    if !is_plain(options) {
        return Ok(None);
    }
    let Some(equality) = only_equality(filter) else { return Ok(None) };
    let Equality { field, value } = equality;
    if field != ID_FIELD {
        return collection.find_listed(equality, limit, options.max_time);
    }
    let operation = collection.begin_plain(options.max_time);
    operation.look()?;
    // Without a collection it may be a view, which is for the search to say.
    let Some(FoundRecord { key, bytes }) = collection.look_up(value)? else { return Ok(None) };
    // A cursor that rests must not hold a large document.
    if bytes.as_ref().is_some_and(|bytes| bytes.len() > DOCUMENTS_BYTES_MAX) {
        return Ok(None);
    }
    let examined = u64::from(bytes.is_some());
    notes::examined(examined, examined);
    let mut found = FoundDocuments::none(&operation);
    bytes.map_or(Ok(()), |bytes| found.add(&key, bytes))?;
    Ok(Some(found))
}

/// Whether no option changes the result. Every field is named, so that a new option cannot be forgotten here.
fn is_plain(options: &FindOptions) -> bool {
    // Those with `_` change no answer, or the caller knows of them.
    let FindOptions {
        allow_disk_use: _,
        batch_size: _,
        collation: None,
        comment: _,
        // Only `find` has it.
        cursor_type: _,
        hint: None,
        let_vars: None,
        limit: _,
        max: None,
        max_await_time: _,
        max_time: _,
        min: None,
        projection: None,
        return_key: None | Some(false),
        show_record_id: None | Some(false),
        skip: None | Some(0),
        sort: None,
    } = options
    else {
        return false;
    };
    true
}

impl Handle {
    /// Reads the record with this `_id`, without planning a search. Returns `None` if the collection does not exist, or if it
    /// compares the `_id` by the rules of a language.
    #[inline]
    pub(super) fn look_up(&self, id: RawBsonRef<'_>) -> Result<Option<FoundRecord<Vec<u8>>>> {
        if let Some(transaction) = self.transaction() {
            return self.look_up_within(transaction, id);
        }
        let database = self.shared().store.enter()?;
        let found = look_up_record(&database, || self.find_state(), |collection| record_key(collection, id));
        // The given name: after an error there is no state that could determine it.
        let found = found.map_err(|error| error.in_namespace(&self.given))?;
        Ok(found.filter(|(state, record)| is_by_key(state, id, &record.key)).map(|(_, record)| record))
    }

    /// Reads a record whose field has this value by an index, without planning a search.
    #[inline]
    pub(super) fn look_up_by_index(&self, field: &str, value: RawBsonRef<'_>) -> Result<FoundByIndex> {
        if self.transaction().is_some() {
            return Ok(FoundByIndex::Unknown);
        }
        let database = self.shared().store.enter()?;
        let found = look_up_by_index(&database, || self.find_state(), field, value);
        found.map_err(|error| error.in_namespace(&self.given))
    }

    /// Reads all documents whose field has this value, `limit` of them at most, without planning a search. Returns `None` if only a search
    /// finds them.
    pub(super) fn find_listed(
        &self,
        wanted: Equality<'_>,
        limit: Option<u64>,
        max_time: Option<Duration>,
    ) -> Result<Option<FoundDocuments>> {
        if self.transaction().is_some() {
            return Ok(None);
        }
        let database = self.shared().store.enter()?;
        let operation = self.begin_plain(max_time);
        let found = find_listed(&database, || self.find_state(), wanted, limit, &operation);
        found.map_err(|error| error.in_namespace(&self.given))
    }
}

/// Whether the record with a key is the only one that can have an `_id`, and has it.
pub(super) fn is_by_key(collection: &CollectionState, id: RawBsonRef<'_>, record_key: &[u8]) -> bool {
    // To a language several `_id`s may be equal to a text, and records are found by bytes. Whether a record with a shortened
    // key has the `_id` is for a search to say.
    (collection.collation.is_simple() || !has_text(id)) && encoded_id(record_key).len() <= FIELD_BYTES_MAX
}
