//! A command as a caller sends it: a body, and document sequences next to it.
//!
//! A raw body is decoded into a `Document` after its nesting was checked, because decoding is recursive. The documents of
//! an `insert` are not decoded: they stay bytes until they are stored. Statements of updates and deletes are decoded one by
//! one, as they are run.

use std::borrow::Cow;

use base::codes::refused;
use base::error::{Error, Result};
use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use query::code::Code;
use query::operation::{OperationContext, Reservation};

use crate::arguments::batch::{Batch, STATEMENTS_MAX, check_batch_size};
use crate::arguments::nesting::{check_nesting, content};

/// Commands whose documents are not decoded with the body, with the field that has them. The statements of updates and
/// deletes, and the operations of a `bulkWrite`, are decoded one by one.
const RAW_BATCHES: [(&str, &str); 4] =
    [("bulkWrite", "ops"), ("delete", "deletes"), ("insert", "documents"), ("update", "updates")];

/// The decoded part of a request counts as no memory up to this length.
const UNWEIGHED_BYTES: usize = 4096;
// The memory of decoded values that are then parsed to a filter, an expression or an update: measured with a million
// of each in one command, and rounded up.
/// An element of an array.
const ELEMENT_MEMORY: usize = 256;
/// A field of a document, which has a name and an entry in a table of names.
const FIELD_MEMORY: usize = 768;
/// A document or an array, besides what is in it.
const CONTAINER_MEMORY: usize = 512;

/// A command that is not decoded yet.
pub(crate) struct Request<'a> {
    pub(crate) body: Body,
    /// Document sequences: the name of a field, and its documents one after another.
    pub(crate) sequences: Vec<(String, Cow<'a, [u8]>)>,
}

/// A command's document.
pub(crate) enum Body {
    Decoded(Document),
    Raw(RawDocumentBuf),
}

impl Request<'_> {
    /// A command without document sequences.
    pub(crate) fn of(body: Body) -> Self {
        Self { body, sequences: Vec::new() }
    }

    /// The field whose documents are not decoded with the body, if the command has one.
    fn raw_field(&self) -> Result<Option<&'static str>> {
        let command = match &self.body {
            Body::Decoded(body) => body.keys().next().map(String::as_str),
            Body::Raw(raw) => raw.iter().next().transpose()?.map(|(name, _)| name.as_str()),
        };
        Ok(RAW_BATCHES.into_iter().find(|(name, _)| Some(*name) == command).map(|(_, field)| field))
    }

    /// Checks the nesting of what will be decoded, and estimates how many bytes of memory that needs; 0 for a small
    /// request. A request of 13 MB can need a gigabyte when it is decoded, so that is asked for first.
    pub(super) fn check(&self) -> Result<usize> {
        let raw_field = self.raw_field()?;
        let (mut bytes, mut memory) = (0, 0);
        // A decoded body is in memory already, so nothing is left to check or to reserve.
        if let Body::Raw(raw) = &self.body {
            bytes += raw.as_bytes().len();
            for field in raw {
                let (name, value) = field?;
                // Each document of a raw batch is checked by itself, by the command that reads it.
                if raw_field == Some(name.as_str())
                    && let RawBsonRef::Array(documents) = value
                {
                    bytes = bytes.saturating_sub(documents.as_bytes().len());
                    continue;
                }
                check_nesting(name.as_str(), value)?;
                memory += FIELD_MEMORY + weigh(value);
            }
        }
        for (field, documents) in self.sequences.iter().filter(|(field, _)| raw_field != Some(field.as_str()))
        {
            bytes += documents.len();
            // Each of these is decoded into the body, so none may be left out.
            for document in split(documents)? {
                check_nesting(field, document.into())?;
                memory += ELEMENT_MEMORY + weigh(document.into());
            }
        }
        // By all that is decoded together: many small values need as much as a large one.
        Ok(if bytes > UNWEIGHED_BYTES { bytes + memory } else { 0 })
    }

    /// Decodes the command. The documents of an `insert` come apart from the body, as bytes. [`check`](Self::check) comes first.
    pub(super) fn read(&self) -> Result<(Cow<'_, Document>, Batch<'_>)> {
        let mut batch = Batch::default();
        let raw_field = self.raw_field()?;
        let mut body = match &self.body {
            Body::Decoded(body) => Cow::Borrowed(body),
            Body::Raw(raw) => Cow::Owned(decode(raw, raw_field, &mut batch)?),
        };
        for (field, documents) in &self.sequences {
            let is_raw = raw_field == Some(field.as_str());
            // A raw batch was removed from the body, so the body alone does not describe it.
            if body.contains_key(field) || is_raw && !batch.documents.is_empty() {
                return Err(refused(
                    Code::MESSAGE_FIELD_TWICE,
                    format!("the field '{field}' appears more than once in the command"),
                ));
            }
            let documents = split(documents)?;
            if is_raw && documents.is_empty() {
                // So that the command rejects it with the error of an empty array, as it does one in the body.
                body.to_mut().insert(field, Bson::Array(Vec::new()));
            } else if is_raw {
                batch.documents = documents.into_iter().map(Cow::Borrowed).collect();
            } else {
                // Safe only because `check` has rejected what is nested too deeply.
                let decoded =
                    documents.into_iter().map(|document| Bson::try_from(RawBsonRef::from(document)));
                body.to_mut().insert(field, decoded.collect::<bson::error::Result<Vec<Bson>>>()?);
            }
        }
        Ok((body, batch))
    }
}

fn decode<'a>(body: &'a RawDocument, raw_field: Option<&str>, batch: &mut Batch<'a>) -> Result<Document> {
    let mut decoded = Document::new();
    for field in body {
        let (name, value) = field?;
        let is_raw = raw_field == Some(name.as_str());
        // Its first array is not in the body, which alone would describe any other field.
        if is_raw && (!batch.documents.is_empty() || decoded.contains_key(name.as_str())) {
            return Err(twice(body, name.as_str()));
        }
        // An array alone: any other value is decoded, and the command rejects its type.
        if is_raw && let RawBsonRef::Array(documents) = value {
            batch.documents = elements(documents)?;
            if !batch.documents.is_empty() {
                continue;
            }
            // An empty array stays in the body, where the command rejects it.
        }
        if decoded.insert(name.as_str(), Bson::try_from(value)?).is_some() {
            return Err(twice(body, name.as_str()));
        }
    }
    Ok(decoded)
}

/// The error for a field that a command has twice, which MongoDB rejects as well: a reader that uses the first and one that uses
/// the last would see two commands.
#[cold]
fn twice(body: &RawDocument, field: &str) -> Error {
    let first = body.iter().next().and_then(bson::error::Result::ok);
    let command = first.map_or("", |(name, _)| name.as_str());
    refused(Code::IDL_DUPLICATE_FIELD, format!("BSON field '{command}.{field}' is a duplicate field"))
}

/// Decodes a statement of a batch, which `operation` holds until what is returned is dropped.
pub(super) fn decode_statement(
    statement: &RawDocument,
    operation: &OperationContext,
) -> Result<(Document, Reservation)> {
    let bytes = statement.as_bytes().len();
    // Most statements are small, so they are not walked for this.
    let memory = if bytes > UNWEIGHED_BYTES { bytes + weigh(statement.into()) } else { 0 };
    // First: a decoded statement needs many times its bytes.
    let held = operation.reserve(memory)?;
    Ok((Document::try_from(statement)?, held))
}

/// The memory of all that is in a value whose nesting was checked; 0 for one that holds no values.
pub(super) fn weigh(value: RawBsonRef<'_>) -> usize {
    // The bytes were checked. If not, they would weigh nothing here and fail when they are decoded.
    let Some(document) = content(value).and_then(|bytes| RawDocument::from_bytes(bytes).ok()) else {
        return 0;
    };
    let each = if matches!(value, RawBsonRef::Array(_)) { ELEMENT_MEMORY } else { FIELD_MEMORY };
    let values = document.iter_elements().map_while(|element| element.ok()?.value().ok());
    CONTAINER_MEMORY + values.map(|value| each + weigh(value)).sum::<usize>()
}

fn elements<'a>(documents: &'a RawArray) -> Result<Vec<Cow<'a, RawDocument>>> {
    let document = |element: bson::error::Result<RawBsonRef<'a>>| {
        let element = element?;
        element.as_document().map(Cow::Borrowed).ok_or_else(|| {
            let found = format!("{:?}", element.element_type()).to_lowercase();
            refused(
                Code::TYPE_MISMATCH,
                format!("a document of a batch is the wrong type: {found} instead of object"),
            )
        })
    };
    // Counted first: what is kept for a document uses more memory than an empty document does, so a message of empty ones
    // could need many times its own size.
    check_count(documents.into_iter().take(STATEMENTS_MAX + 1).count())?;
    documents.into_iter().map(document).collect()
}

/// Rejects more documents than a write may have. No documents at all are rejected by the command.
fn check_count(count: usize) -> Result<()> {
    if count == 0 { Ok(()) } else { check_batch_size(count) }
}

/// Splits a sequence into its documents.
fn split(mut bytes: &[u8]) -> Result<Vec<&RawDocument>> {
    let mut documents = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
        // The shortest document: its length in four bytes, and the zero at its end.
        let length = length.and_then(|length| usize::try_from(length).ok()).filter(|&length| length >= 5);
        let Some((document, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return Err(refused(
                Code::INVALID_BSON,
                "the documents beside a command do not end where their lengths say",
            ));
        };
        documents.push(RawDocument::from_bytes(document)?);
        // Within the loop: a sequence of many tiny documents must not fill the list before it is rejected.
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
        let mut command = Request::of(Body::Raw(rawdoc! { "aggregate": "a" }));
        command.sequences = vec![beside("pipeline", &[rawdoc! { "$limit": 1 }])];
        let (body, batch) = command.read().expect("a command");
        assert_eq!(*body, doc! { "aggregate": "a", "pipeline": [{ "$limit": 1 }] });
        assert!(batch.documents.is_empty());
    }

    #[track_caller]
    fn refuse(body: RawDocumentBuf, sequences: Vec<(String, Cow<'static, [u8]>)>, code: i32) {
        let command = Request { body: Body::Raw(body), sequences };
        let refused = command.check().and_then(|_| command.read().map(|_| ()));
        assert_eq!(refused.err().and_then(|error| error.code()), Some(code));
    }

    #[test]
    fn a_field_that_comes_twice_is_refused() {
        let documents = || rawdoc! { "_id": 1 };
        for body in [
            rawdoc! { "ping": 1, "ping": 1 },
            rawdoc! { "find": "a", "filter": {}, "limit": 1, "filter": { "a": 1 } },
            rawdoc! { "insert": "a", "documents": [documents()], "documents": [documents()] },
            rawdoc! { "insert": "a", "documents": [], "documents": [documents()] },
            rawdoc! { "insert": "a", "documents": [documents()], "documents": 1 },
            rawdoc! { "insert": "a", "documents": 1, "documents": [documents()] },
        ] {
            refuse(body, Vec::new(), 40_413);
        }
    }

    #[test]
    fn what_a_request_takes_when_decoded_is_known_before() {
        let mut many = bson::RawArrayBuf::new();
        (0..1000).for_each(|_| many.push(rawdoc! { "a": 1 }));
        let inside = Request::of(Body::Raw(rawdoc! { "find": "a", "filter": { "$or": many.clone() } }));
        let expected = 1000 * (ELEMENT_MEMORY + CONTAINER_MEMORY + FIELD_MEMORY);
        let memory = inside.check().expect("well-formed");
        assert!((expected..2 * expected).contains(&memory), "{memory}");
        let mut outside = Request::of(Body::Raw(rawdoc! { "aggregate": "a" }));
        outside.sequences = vec![beside("pipeline", &[rawdoc! { "$match": { "$or": many.clone() } }])];
        assert!(outside.check().expect("well-formed") >= expected);
        // Documents and statements are weighed where they are decoded, one at a time.
        let statements = Request::of(Body::Raw(rawdoc! { "update": "a", "updates": many }));
        assert_eq!(statements.check().expect("well-formed"), 0);
        let small = Request::of(Body::Raw(rawdoc! { "find": "a", "filter": { "a": 1 } }));
        assert_eq!(small.check().expect("well-formed"), 0);
    }

    // A value of up to 4 KiB weighed nothing, however many of them a request had, and so did the scope of code.
    #[test]
    fn many_small_values_weigh_as_much_as_a_large_one() {
        #[track_caller]
        fn check(request: &Request<'_>, expected: usize) {
            let memory = request.check().expect("well-formed");
            assert!((expected..2 * expected).contains(&memory), "{memory} for {expected}");
        }
        let fields = (0..1000).map(|number| (format!("f{number}"), doc! { "a": [1, 2] }.into()));
        let fields: Document = [("find".to_owned(), "a".into())].into_iter().chain(fields).collect();
        let raw = |document: &Document| Body::Raw(RawDocumentBuf::try_from(document).expect("well-formed"));
        check(
            &Request::of(raw(&fields)),
            1000 * (2 * FIELD_MEMORY + 2 * CONTAINER_MEMORY + 2 * ELEMENT_MEMORY),
        );
        let mut stages = Request::of(Body::Raw(rawdoc! { "aggregate": "a" }));
        stages.sequences = vec![beside("pipeline", &vec![rawdoc! { "$limit": 1 }; 1000])];
        check(&stages, 1000 * (ELEMENT_MEMORY + CONTAINER_MEMORY + FIELD_MEMORY));
        let scope: Document = (0..1000).map(|number| (format!("v{number}"), number.into())).collect();
        let code = bson::JavaScriptCodeWithScope { code: String::new(), scope };
        check(&Request::of(raw(&doc! { "find": "a", "filter": { "x": code } })), 1000 * FIELD_MEMORY);
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
