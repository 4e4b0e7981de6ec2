//! The key by which a document was found, as a row: the fields of the index, with the values of the entry.

use base::error::{Error, Result};
use bson::raw::CString;
use bson::{Bson, RawBson, RawDocument, RawDocumentBuf};
use index::extract::{ExtractedKeys, extract, key_values};
use index::key;
use index::spec::IndexSpec;
use store::Family;

use crate::catalog::indexes::Index;
use crate::document::print::with_sort_keys_shown;
use crate::plan::bounds::ID_FIELD;

/// The field that an `_id` is shown in beside a row.
const RECORD_ID: &str = "$recordId";

/// The key of the entry whose bytes are `entry`. `document` is the document that it names, or one that was made of it.
pub(super) fn of_entry(index: &Index, entry: &[u8], document: &RawDocument) -> Result<RawDocumentBuf> {
    let damaged = || Error::corruption(Family::Entries.name(), entry, "the document has no such key");
    let mut keys = ExtractedKeys::default();
    extract(&index.spec, document, &mut keys).map_err(|_| damaged())?;
    // An entry may have the `_id` after its fields. No key is the start of another one, so this finds the only one.
    let (mut key, mut types) = keys.iter().find(|(key, _)| entry.starts_with(key)).ok_or_else(damaged)?;
    // Decoded where that is possible: of equal values in an array an entry has the lowest type.
    let values = if keys.array_components().iter().any(|marks| marks.has_shortened()) {
        key_values(&index.spec, document, key).map_err(|_| damaged())?
    } else {
        decoded(&index.spec, &mut key, &mut types)
    };
    let (mut row, mut path) = (RawDocumentBuf::new(), None);
    for (field, value) in index.spec.fields().iter().zip(values.ok_or_else(damaged)?) {
        let value = Bson::try_from(value)?;
        let name = path.take().unwrap_or_else(|| field.path.as_str().to_owned());
        // In a wildcard index the first field gives the name of the second, and is not a text that has a sort key.
        let is_path = index.spec.wildcard().is_some() && row.is_empty();
        if is_path {
            path = value.as_str().map(str::to_owned);
        }
        let is_collated = !is_path && !index.spec.collation().is_simple();
        let value = if is_collated { with_sort_keys_shown(value) } else { value };
        row.append(CString::try_from(name)?, RawBson::try_from(value)?);
    }
    Ok(row)
}

/// The values of the fields of a key.
fn decoded(spec: &IndexSpec, key: &mut &[u8], types: &mut &[u8]) -> Option<Vec<RawBson>> {
    let fields = spec.fields().iter();
    let values = fields.map(|field| key::decode(key, field.direction, types).ok());
    values.map(|value| RawBson::try_from(value?).ok()).collect()
}

/// The key of a record, which is its `_id`.
pub(super) fn of_record(document: &RawDocument) -> Result<RawDocumentBuf> {
    with_id(RawDocumentBuf::new(), ID_FIELD, document)
}

/// A row with the `_id` of its document as `$recordId`.
pub(crate) fn with_record_id(row: RawDocumentBuf, document: &RawDocument) -> Result<RawDocumentBuf> {
    with_id(row, RECORD_ID, document)
}

fn with_id(mut row: RawDocumentBuf, name: &str, document: &RawDocument) -> Result<RawDocumentBuf> {
    if let Some(id) = document.get(ID_FIELD)? {
        row.append(CString::try_from(name)?, id);
    }
    Ok(row)
}
