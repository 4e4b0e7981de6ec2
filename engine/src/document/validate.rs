//! The rules that a document must keep to be stored, beyond being well-formed BSON.
//!
//! `index::validate` decides what well-formed means. This file has the rules of an insert and a replacement: the types
//! that an `_id` may have, the names inside it, and MongoDB's numbers and texts for each rejection.

use base::write_error::{Refusal, WriteError};
use bson::{RawBsonRef, RawDocument};
use index::error::Error as IndexError;
use index::validate::{DOCUMENT_BYTES_MAX, ValidDocument};
use query::code::Code;

use crate::document::draft::HEADROOM;

/// Checks `bytes` as a document that may be stored, but for its final size.
#[inline]
pub(crate) fn validate(bytes: &[u8]) -> Result<ValidDocument<'_>, Refusal> {
    validate_each(bytes, |_| {})
}

/// Checks `bytes` as [`validate`] does, and shows each top-level element, from its type byte to the end of its value.
#[inline]
pub(crate) fn validate_each(bytes: &[u8], show: impl FnMut(&[u8])) -> Result<ValidDocument<'_>, Refusal> {
    let document = index::validate::validate_each(bytes, show).map_err(|error| refusal(&error))?;
    if let Some(id) = document.id() {
        validate_id(id)?;
    }
    Ok(document)
}

/// Checks everything that an insert checks, without making an `_id`.
pub(crate) fn validate_insert(bytes: &[u8]) -> Result<(), Refusal> {
    let document = validate(bytes)?;
    // The size that counts is that of the stored document, with the `_id` that will be made.
    let made_id = if document.id().is_some() { 0 } else { HEADROOM };
    validate_size(bytes.len() + made_id)
}

/// Checks the size of the final bytes.
#[inline]
pub(crate) fn validate_size(bytes: usize) -> Result<(), Refusal> {
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    Err(too_large(bytes))
}

/// Checks the type of an `_id`, and the names inside it when it is a document.
#[inline]
pub(crate) fn validate_id(id: RawBsonRef<'_>) -> Result<(), Refusal> {
    match id {
        RawBsonRef::Array(_) => Err(bad_id("array")),
        RawBsonRef::RegularExpression(_) => Err(bad_id("regex")),
        RawBsonRef::Undefined => Err(bad_id("undefined")),
        RawBsonRef::Document(document) => validate_names(document),
        RawBsonRef::Double(_)
        | RawBsonRef::String(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_) => Ok(()),
    }
}

/// Rejects a replacement with a top-level name that starts with `$`.
pub(crate) fn validate_replacement_names(document: &RawDocument) -> Result<(), Refusal> {
    // Names of nested documents may start with a dollar sign, as in MongoDB since 5.0.
    match document.iter_elements().flatten().find(|element| element.key().as_str().starts_with('$')) {
        None => Ok(()),
        Some(element) => Err(WriteError::boxed(
            Code::DOLLAR_PREFIXED_FIELD_NAME,
            format!(
                "the dollar ($) prefixed field '{}' in '{0}' is not allowed in the context of a replacement document",
                element.key()
            ),
        )),
    }
}

fn validate_names(id: &RawDocument) -> Result<(), Refusal> {
    // Iterative: the depth of an `_id` is bounded by the document's, not by the stack.
    let mut pending = vec![id];
    while let Some(document) = pending.pop() {
        for element in document.iter_elements().flatten() {
            let name = element.key().as_str();
            if name.starts_with('$') {
                return Err(WriteError::boxed(
                    Code::DOLLAR_PREFIXED_FIELD_NAME,
                    format!(
                        "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage"
                    ),
                ));
            }
            pending.extend(element.value().ok().and_then(nested));
        }
    }
    Ok(())
}

/// The document inside a value. An array counts as a document whose names are its positions.
fn nested(value: RawBsonRef<'_>) -> Option<&RawDocument> {
    if let Some(array) = value.as_array() {
        return RawDocument::from_bytes(array.as_bytes()).ok();
    }
    value.as_document()
}

fn bad_id(kind: &str) -> Refusal {
    WriteError::boxed(Code::INVALID_ID_FIELD, format!("The '_id' value cannot be of type {kind}"))
}

fn too_large(bytes: usize) -> Refusal {
    WriteError::boxed(
        Code::BAD_VALUE,
        format!("object to insert too large. size in bytes: {bytes}, max size: {DOCUMENT_BYTES_MAX}"),
    )
}

#[cold]
fn refusal(error: &IndexError) -> Refusal {
    if let IndexError::DocumentTooLarge { size, .. } = error {
        return too_large(*size);
    }
    WriteError::boxed(code_of(error), error.to_string())
}

/// The pure crate's kinds are open-ended; whatever is not about size or depth is a malformed document.
fn code_of(error: &IndexError) -> Code {
    if matches!(error, IndexError::DocumentTooDeep { .. }) {
        Code::OVERFLOW
    } else if matches!(error, IndexError::DocumentTooLarge { .. } | IndexError::DuplicateId { .. }) {
        Code::BAD_VALUE
    } else {
        Code::INVALID_BSON
    }
}
