//! The values of a command, and their allowed nesting. That is checked before they are decoded, because decoding is
//! recursive.

use base::codes::refused;
use base::error::{Error, Result};
use bson::RawBsonRef;
use index::validate::{DOCUMENT_BYTES_MAX, validate_up_to};
use query::code::Code;

/// The most bytes of one value in a command: a document, and 16 KiB for the statement around it.
const VALUE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// The bytes of the values inside a value: a document, an array or the scope of code. Returns `None` for values that hold
/// none.
pub(crate) fn content(value: RawBsonRef<'_>) -> Option<&[u8]> {
    // All types are named, so that a new one breaks the build.
    match value {
        RawBsonRef::Document(document) => Some(document.as_bytes()),
        RawBsonRef::Array(array) => Some(array.as_bytes()),
        RawBsonRef::JavaScriptCodeWithScope(code) => Some(code.scope.as_bytes()),
        RawBsonRef::Double(_)
        | RawBsonRef::String(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::Undefined
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Null
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::DbPointer(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::MinKey
        | RawBsonRef::MaxKey => None,
    }
}

/// Rejects the value of a command's field that is nested too deeply, because decoding is recursive.
pub(crate) fn check_nesting(name: &str, value: RawBsonRef<'_>) -> Result<()> {
    // Other values hold no values, so they are decoded without recursion.
    if let Some(bytes) = content(value) {
        // Wider than the limit of a stored document, which a statement may hold together with its own fields.
        validate_up_to(bytes, VALUE_BYTES_MAX).map_err(|error| refused_value(name, &error))?;
    }
    Ok(())
}

/// The error for a value that cannot be decoded. Bytes that are nested too deeply are valid BSON, so their error differs.
fn refused_value(name: &str, error: &index::error::Error) -> Error {
    if matches!(error, index::error::Error::DocumentTooDeep { .. }) {
        return refused(
            Code::OVERFLOW,
            format!("the field '{name}' of the command is nested too deeply: {error}"),
        );
    }
    refused(Code::INVALID_BSON, format!("the command is malformed: {error}"))
}
