//! From stored bytes to the caller's type.

use std::any::Any;

use base::error::{Error, Result};
use bson::{Document, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;
use store::Family;

/// A document without fields.
pub(crate) const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

/// Views a stored record as a document.
///
/// # Errors
/// Corruption, which names the record's key, if the bytes are not document.
#[inline]
pub(crate) fn stored<'a>(record_key: &[u8], bytes: &'a [u8]) -> Result<&'a RawDocument> {
    RawDocument::from_bytes(bytes).map_err(|error| {
        Error::corruption(
            Family::Records.name(),
            record_key,
            format!("the record is not a document: {error}"),
        )
    })
}

/// Whether bytes have the length and the closing zero byte of a document. This is what `RawDocument::from_bytes` checks,
/// without a call.
#[inline]
pub(crate) fn is_framed(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    bytes.len() >= 5
        && length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len())
        && bytes.last() == Some(&0)
}

/// Decodes a document as a `T`.
///
/// `Document` and `RawDocumentBuf` are decoded without serde. That is faster, and serde would read a field with a name of
/// extended JSON (`{"$oid": ".."}`) as the value that it means there.
pub(crate) fn decode<T: DeserializeOwned + 'static>(document: &RawDocument) -> Result<T> {
    // By `Any`, because stable Rust has no other way to ask whether `T` is a certain type.
    let mut decoded: Option<T> = None;
    let slot: &mut dyn Any = &mut decoded;
    if let Some(slot) = slot.downcast_mut::<Option<RawDocumentBuf>>() {
        *slot = Some(document.to_owned());
    } else if let Some(slot) = slot.downcast_mut::<Option<Document>>() {
        *slot = Some(Document::try_from(document)?);
    }
    match decoded {
        Some(decoded) => Ok(decoded),
        None => Ok(bson::deserialize_from_slice(document.as_bytes())?),
    }
}

/// Decodes an owned document as a `T`. A `RawDocumentBuf` is handed on without a copy.
pub(crate) fn decode_owned<T: DeserializeOwned + 'static>(document: RawDocumentBuf) -> Result<T> {
    // In an `Option`, so that it can be moved into the branch that needs it and is left for the other.
    let mut given: Option<RawDocumentBuf> = Some(document);
    let mut decoded: Option<T> = None;
    let slot: &mut dyn Any = &mut decoded;
    if let Some(slot) = slot.downcast_mut::<Option<RawDocumentBuf>>() {
        *slot = given.take();
    }
    match (decoded, given) {
        (Some(decoded), _) => Ok(decoded),
        (None, Some(document)) => decode(&document),
        (None, None) => unreachable!("a document that was given away was decoded"),
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Named {
        name: String,
    }

    #[test]
    fn every_kind_of_type_gets_the_same_document() {
        let stored = rawdoc! { "name": "Ada" };
        assert_eq!(decode::<RawDocumentBuf>(&stored).expect("decoded"), stored);
        assert_eq!(decode::<Document>(&stored).expect("decoded"), doc! { "name": "Ada" });
        assert_eq!(decode::<Named>(&stored).expect("decoded"), Named { name: "Ada".to_owned() });
    }

    #[test]
    fn names_of_extended_json_stay_names() {
        let stored = rawdoc! { "a": { "$oid": "0123456789abcdef01234567" }, "b": { "$oid": "no id" } };
        let decoded = decode::<Document>(&stored).expect("decoded");
        assert_eq!(decoded, doc! { "a": { "$oid": "0123456789abcdef01234567" }, "b": { "$oid": "no id" } });
    }
}
