//! The duplicate key error: code 11000 with MongoDB's text and details, made and taken apart.

use bson::{Bson, Document, doc};
use index::key;
use query::code::Code;

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::document::print;
use crate::error::{Error, ErrorKind, Refusal, WriteError, WriteFailure};
use crate::namespace::Namespace;
use crate::storage::keys::ID_BYTES;

/// MongoDB's names of the error's details.
const KEY_PATTERN: &str = "keyPattern";
const KEY_VALUE: &str = "keyValue";

/// The refusal of a document whose `_id` another document has.
#[cold]
pub(crate) fn of_id(namespace: &Namespace, id: &Bson) -> Refusal {
    error(namespace, ID_INDEX_NAME, doc! { "_id": 1 }, doc! { "_id": id.clone() })
}

/// The refusal of a document whose key in a unique secondary index another document has. `entry_key` is the whole key
/// of the entry, `types` its type bytes.
#[cold]
pub(crate) fn of_entry(namespace: &Namespace, index: &Index, entry_key: &[u8], types: &[u8]) -> Refusal {
    let mut bytes = entry_key.get(ID_BYTES..).unwrap_or_default();
    let mut types = types;
    let values = index.spec.fields().iter().map(|field| {
        // A key that cannot be decoded must not hide the duplicate: its value is shown as undefined.
        let value = key::decode(&mut bytes, field.direction, &mut types).unwrap_or(Bson::Undefined);
        (field.path.as_str().to_owned(), value)
    });
    let values: Document = values.collect();
    error(namespace, &index.name, index.key_pattern(), values)
}

/// The fields of the index and the values that are taken, if the error is a duplicate key.
pub(crate) fn taken_key(error: &Error) -> Option<(&Document, &Document)> {
    let ErrorKind::Write(WriteFailure::WriteError(WriteError { code, details, .. })) = error.kind() else {
        return None;
    };
    if Code::DUPLICATE_KEY != *code {
        return None;
    }
    Some((key_pattern(details.as_ref())?, details.as_ref()?.get_document(KEY_VALUE).ok()?))
}

/// The fields of the index, from the details of a duplicate key.
pub(crate) fn key_pattern(details: Option<&Document>) -> Option<&Document> {
    details?.get_document(KEY_PATTERN).ok()
}

fn error(namespace: &Namespace, index: &str, key_pattern: Document, key_value: Document) -> Refusal {
    let shown = print::print_fields(key_value.iter().map(|(name, value)| (name.as_str(), value)));
    let mut error = WriteError::boxed(
        Code::DUPLICATE_KEY,
        format!("E11000 duplicate key error collection: {namespace} index: {index} dup key: {shown}"),
    );
    error.details = Some(doc! { KEY_PATTERN: key_pattern, KEY_VALUE: key_value });
    error
}
