//! A command as it comes: a body, and the documents of a batch beside it.
//!
//! A body in raw bytes is decoded into a `Document`, after its nesting was checked, because decoding is recursive. The
//! documents that `insert` stores are not: they stay bytes from here to the write batch, whether they stand in the
//! body or beside it.

use std::borrow::Cow;

use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use index::validate::{DOCUMENT_BYTES_MAX, validate_up_to};

use crate::codes::refused;
use crate::command::arguments::{STATEMENTS_MAX, check_batch_size};
use crate::error::{Error, Result};

/// Commands with the field whose documents stay bytes.
const RAW_BATCHES: [(&str, &str); 1] = [("insert", "documents")];

/// The largest value in a command. A statement is larger than the document that it brings.
const VALUE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// A command that was not read yet.
pub(crate) struct Request<'a> {
    pub(crate) body: Body,
    /// Documents that stand beside the body, one behind the other, by the name of the field that they are.
    pub(crate) sequences: Vec<(String, Cow<'a, [u8]>)>,
}

/// A command's document.
pub(crate) enum Body {
    Decoded(Document),
    Raw(RawDocumentBuf),
}

/// The documents of a batch, in raw bytes.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) documents: Vec<Cow<'a, RawDocument>>,
}

impl Request<'_> {
    /// A command without documents beside it.
    pub(crate) fn of(body: Body) -> Self {
        Self { body, sequences: Vec::new() }
    }

    /// Reads the command: its body without the documents that stay bytes, and these.
    pub(super) fn read(&self) -> Result<(Cow<'_, Document>, Batch<'_>)> {
        let mut batch = Batch::default();
        let (mut body, raw_field) = match &self.body {
            Body::Decoded(body) => (Cow::Borrowed(body), raw_field(body.keys().next().map(String::as_str))),
            Body::Raw(raw) => {
                let first = raw.iter().next().transpose()?.map(|(name, _)| name.as_str());
                let raw_field = raw_field(first);
                (Cow::Owned(decode(raw, raw_field, &mut batch)?), raw_field)
            }
        };
        for (field, documents) in &self.sequences {
            let is_raw = raw_field == Some(field.as_str());
            if body.contains_key(field) || is_raw && !batch.documents.is_empty() {
                return Err(refused(
                    40_433,
                    format!("the field '{field}' stands both in the body and beside it, or twice beside it"),
                ));
            }
            let documents = split(documents)?;
            if is_raw && documents.is_empty() {
                // As in the body: an empty batch is there, and the command's to refuse.
                body.to_mut().insert(field, Bson::Array(Vec::new()));
            } else if is_raw {
                batch.documents = documents.into_iter().map(Cow::Borrowed).collect();
            } else {
                let decoded = documents.into_iter().map(|document| decode_value(field, document.into()));
                body.to_mut().insert(field, decoded.collect::<Result<Vec<Bson>>>()?);
            }
        }
        Ok((body, batch))
    }
}

fn raw_field(command: Option<&str>) -> Option<&'static str> {
    RAW_BATCHES.into_iter().find(|(name, _)| Some(*name) == command).map(|(_, field)| field)
}

fn decode<'a>(body: &'a RawDocument, raw_field: Option<&str>, batch: &mut Batch<'a>) -> Result<Document> {
    let mut decoded = Document::new();
    for field in body {
        let (name, value) = field?;
        if raw_field == Some(name.as_str())
            && let RawBsonRef::Array(documents) = value
        {
            batch.documents = elements(documents)?;
            if !batch.documents.is_empty() {
                continue;
            }
            // What a batch without documents is refused for is the command's to say.
        }
        decoded.insert(name.as_str(), decode_value(name.as_str(), value)?);
    }
    Ok(decoded)
}

/// Decodes the value of a command's field; one that is nested too deeply is refused before.
fn decode_value(name: &str, value: RawBsonRef<'_>) -> Result<Bson> {
    let nested = match value {
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
    };
    if let Some(bytes) = nested {
        validate_up_to(bytes, VALUE_BYTES_MAX).map_err(|error| refused_value(name, &error))?;
    }
    Ok(Bson::try_from(value)?)
}

/// Why a field's value is not read. One that is nested too deeply is well-formed.
fn refused_value(name: &str, error: &index::error::Error) -> Error {
    if matches!(error, index::error::Error::DocumentTooDeep { .. }) {
        return refused(15, format!("the field '{name}' of the command is nested too deeply: {error}"));
    }
    refused(22, format!("the command is malformed: {error}"))
}

fn elements<'a>(documents: &'a RawArray) -> Result<Vec<Cow<'a, RawDocument>>> {
    let document = |element: bson::error::Result<RawBsonRef<'a>>| {
        let element = element?;
        element.as_document().map(Cow::Borrowed).ok_or_else(|| {
            let found = format!("{:?}", element.element_type()).to_lowercase();
            refused(14, format!("a document of a batch is the wrong type: {found} instead of object"))
        })
    };
    // Counted before they are kept: what is kept of an empty one takes more than it does.
    check_count(documents.into_iter().take(STATEMENTS_MAX + 1).count())?;
    documents.into_iter().map(document).collect()
}

/// Refuses more documents than a write may have. That there are none is the command's to refuse.
fn check_count(count: usize) -> Result<()> {
    if count == 0 { Ok(()) } else { check_batch_size(count) }
}

/// Documents that stand one behind the other.
fn split(mut bytes: &[u8]) -> Result<Vec<&RawDocument>> {
    let mut documents = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok()).filter(|&length| length >= 5);
        let Some((document, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return Err(refused(22, "the documents beside a command do not end where their lengths say"));
        };
        documents.push(RawDocument::from_bytes(document)?);
        check_count(documents.len())?;
        bytes = rest;
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    fn beside(field: &str, documents: &[RawDocumentBuf]) -> (String, Cow<'static, [u8]>) {
        let bytes: Vec<u8> = documents.iter().flat_map(|document| document.as_bytes().to_vec()).collect();
        (field.to_owned(), Cow::Owned(bytes))
    }

    #[test]
    fn documents_of_an_insert_stay_bytes_wherever_they_stand() {
        let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
        let inside = rawdoc! { "insert": "a", "documents": [documents[0].clone(), documents[1].clone()] };
        let mut command = Request::of(Body::Raw(inside));
        let check = |command: &Request<'_>| {
            let (body, batch) = command.read().expect("a command");
            assert_eq!(*body, doc! { "insert": "a" });
            let found: Vec<RawDocumentBuf> = batch.documents.into_iter().map(Cow::into_owned).collect();
            assert_eq!(found, documents);
        };
        check(&command);
        command.body = Body::Raw(rawdoc! { "insert": "a" });
        command.sequences = vec![beside("documents", &documents)];
        check(&command);
    }

    #[test]
    fn other_documents_become_an_array_of_the_body() {
        let mut command = Request::of(Body::Raw(rawdoc! { "delete": "a" }));
        command.sequences = vec![beside("deletes", &[rawdoc! { "q": {}, "limit": 0 }])];
        let (body, batch) = command.read().expect("a command");
        assert_eq!(*body, doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 0 }] });
        assert!(batch.documents.is_empty());
    }

    #[track_caller]
    fn refuse(body: RawDocumentBuf, sequences: Vec<(String, Cow<'static, [u8]>)>, code: i32) {
        let command = Request { body: Body::Raw(body), sequences };
        assert_eq!(command.read().err().and_then(|error| error.code()), Some(code));
    }

    #[test]
    fn a_field_that_stands_twice_is_refused() {
        let one = || beside("documents", &[rawdoc! { "_id": 1 }]);
        refuse(rawdoc! { "insert": "a", "documents": [{ "_id": 2 }] }, vec![one()], 40_433);
        refuse(rawdoc! { "insert": "a" }, vec![one(), one()], 40_433);
    }

    #[test]
    fn lengths_that_lie_and_deep_nesting_are_refused() {
        let mut short = rawdoc! { "_id": 1 }.into_bytes();
        short.pop();
        refuse(rawdoc! { "insert": "a" }, vec![("documents".to_owned(), Cow::Owned(short))], 22);
        let mut deep = rawdoc! {};
        for _ in 0..2000 {
            let mut outer = RawDocumentBuf::new();
            outer.append(bson::cstr!("a"), deep);
            deep = outer;
        }
        refuse(rawdoc! { "find": "a", "filter": deep }, Vec::new(), 15);
    }
}
