//! The duplicate key error: code 11000 with MongoDB's text and details, made and split.

use base::error::{Error, ErrorKind};
use base::namespace::Namespace;
use base::write_error::{Refusal, WriteError, WriteFailure};
use bson::{Bson, Document, doc};
use index::key::{self, FIELD_BYTES_MAX};
use query::code::Code;
use store::keys::ID_BYTES;

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::catalog::settings::COLLATION;
use crate::document::print;

/// MongoDB's names of the error's details.
const KEY_PATTERN: &str = "keyPattern";
const KEY_VALUE: &str = "keyValue";

/// The rejection of a document whose `_id` another document has.
#[cold]
pub(crate) fn of_id(namespace: &Namespace, id: &Bson) -> Refusal {
    error(namespace, ID_INDEX_NAME, doc! { "_id": 1 }, doc! { "_id": id.clone() }, None)
}

/// The rejection of a document whose key in a unique secondary index another document has. `entry_key` is the whole key
/// of the entry, `types` its type bytes.
#[cold]
pub(crate) fn of_entry(namespace: &Namespace, index: &Index, entry_key: &[u8], types: &[u8]) -> Refusal {
    let mut bytes = entry_key.get(ID_BYTES..).unwrap_or_default();
    let mut types = types;
    let is_collated = index.spec.collation().document().is_some();
    let values = index.spec.fields().iter().map(|field| {
        // A key that cannot be decoded must not hide the duplicate: its value is shown as undefined.
        let value = key::decode(&mut bytes, field.direction, &mut types).unwrap_or(Bson::Undefined);
        // A sort key does not give its text. As in MongoDB it is shown as a number.
        let value = if is_collated { print::with_sort_keys_shown(value) } else { value };
        (field.path.as_str().to_owned(), value)
    });
    error_of(namespace, index, values.collect())
}

/// The same, by the values themselves. In an index with a collation texts are sort keys.
#[cold]
pub(crate) fn of_values(namespace: &Namespace, index: &Index, values: Document) -> Refusal {
    let is_collated = !index.spec.collation().is_simple();
    let shown = |value: Bson| if is_collated { print::with_sort_keys_shown(value) } else { value };
    error_of(namespace, index, values.into_iter().map(|(name, value)| (name, shown(value))).collect())
}

/// The rejection of a document whose shortened key in an index is that of a document with another value.
#[cold]
pub(crate) fn of_other_value(namespace: &Namespace, index: &str, values: &Document) -> Refusal {
    let shown = print::print_fields(values.iter().map(|(name, value)| (name.as_str(), value)));
    WriteError::boxed(
        Code::KEY_TOO_LONG,
        format!(
            "the unique index {index} of {namespace} cannot distinguish {shown} from the value of another document: their keys have \
             the same first {FIELD_BYTES_MAX} bytes and the same digest"
        ),
    )
}

fn error_of(namespace: &Namespace, index: &Index, values: Document) -> Refusal {
    let collation = index.spec.collation().document();
    let collation = collation.and_then(|collation| Document::try_from(collation).ok());
    error(namespace, &index.name, index.key_pattern(), values, collation)
}

/// A key that another document has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenKey<'a> {
    /// The fields of the index.
    pub(crate) pattern: &'a Document,
    /// The values. In the place of texts there are sort keys if the index has a collation.
    pub(crate) value: &'a Document,
    /// The index's comparison of strings. Absent if by their bytes.
    pub(crate) collation: Option<&'a Document>,
}

/// The key that is in use, if the error is a duplicate key.
pub(crate) fn taken_key(error: &Error) -> Option<TakenKey<'_>> {
    let ErrorKind::Write(WriteFailure::WriteError(WriteError { code, details, .. })) = error.kind() else {
        return None;
    };
    if Code::DUPLICATE_KEY != *code {
        return None;
    }
    let details = details.as_ref()?;
    Some(TakenKey {
        pattern: key_pattern(Some(details))?,
        value: details.get_document(KEY_VALUE).ok()?,
        collation: details.get_document(COLLATION).ok(),
    })
}

/// The fields of the index, from the details of a duplicate key.
pub(crate) fn key_pattern(details: Option<&Document>) -> Option<&Document> {
    details?.get_document(KEY_PATTERN).ok()
}

fn error(
    namespace: &Namespace,
    index: &str,
    key_pattern: Document,
    key_value: Document,
    collation: Option<Document>,
) -> Refusal {
    let print =
        |fields: &Document| print::print_fields(fields.iter().map(|(name, value)| (name.as_str(), value)));
    let by = collation.as_ref().map(|collation| format!(" collation: {}", print(collation)));
    let (by, shown) = (by.unwrap_or_default(), print(&key_value));
    let mut error = WriteError::boxed(
        Code::DUPLICATE_KEY,
        format!("E11000 duplicate key error collection: {namespace} index: {index}{by} dup key: {shown}"),
    );
    let mut details = doc! { KEY_PATTERN: key_pattern, KEY_VALUE: key_value };
    details.extend(collation.map(|collation| (COLLATION.to_owned(), collation.into())));
    error.details = Some(details);
    error
}
