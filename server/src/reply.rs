//! Answers: documents with room in front, so that none is copied on its way out.

use cairndb::bson::spec::ElementType;
use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf};

use crate::failure::Failure;
use crate::frame::header::HEADER_BYTES;
use crate::frame::message::{ANSWER_FRONT_BYTES, finish_answer};
use crate::limits::DOCUMENT_BYTES_MAX;

/// A document behind room for what an `OP_MSG` begins with.
pub(crate) struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn of(document: &Document) -> Self {
        let encoded = RawDocumentBuf::try_from(document).map(RawDocumentBuf::into_bytes);
        let encoded = encoded.unwrap_or_else(|error| {
            // Replies are made here and by the engine, from names without NUL.
            tracing::error!(%error, "a reply could not be encoded");
            vec![5, 0, 0, 0, 0]
        });
        Self { bytes: [vec![0; ANSWER_FRONT_BYTES], encoded].concat() }
    }

    /// The document.
    pub(crate) fn document(&self) -> &[u8] {
        self.bytes.get(ANSWER_FRONT_BYTES..).unwrap_or_default()
    }

    /// The same with another field at its end.
    pub(crate) fn beside(self, field: &str, value: impl Into<Bson>) -> Self {
        let document = RawDocument::from_bytes(self.document()).map(Document::try_from);
        let Ok(Ok(mut document)) = document else { return self };
        document.insert(field, value);
        Self::of(&document)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The whole message.
    pub(crate) fn into_message(mut self, request_id: i32, response_to: i32) -> Vec<u8> {
        debug_assert!(self.bytes.len() > HEADER_BYTES, "room was left in front");
        finish_answer(&mut self.bytes, request_id, response_to);
        self.bytes
    }
}

impl From<Document> for Reply {
    fn from(mut document: Document) -> Self {
        if !document.contains_key("ok") {
            document.insert("ok", 1.0);
        }
        Self::of(&document)
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Self::of(&failure.into_document())
    }
}

/// Which batch of a cursor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchName {
    First,
    Next,
}

/// A batch of a cursor, written as it is read: `{cursor: {firstBatch: [..], id: .., ns: ..}, ok: 1}`.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    cursor_at: usize,
    documents_at: usize,
    len: u64,
    document_bytes: usize,
}

impl Batch {
    pub(crate) fn new(name: BatchName) -> Self {
        let mut bytes = vec![0; ANSWER_FRONT_BYTES + 4];
        push_name(&mut bytes, ElementType::EmbeddedDocument, "cursor");
        let cursor_at = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        let name = match name {
            BatchName::First => "firstBatch",
            BatchName::Next => "nextBatch",
        };
        push_name(&mut bytes, ElementType::Array, name);
        let documents_at = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes, cursor_at, documents_at, len: 0, document_bytes: 0 }
    }

    /// How many documents it has.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether a document of this length still belongs into it. The first always does.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.len == 0 || self.document_bytes + bytes <= DOCUMENT_BYTES_MAX
    }

    pub(crate) fn push(&mut self, document: &RawDocument) {
        push_name(&mut self.bytes, ElementType::EmbeddedDocument, &self.len.to_string());
        self.bytes.extend_from_slice(document.as_bytes());
        self.len += 1;
        self.document_bytes += document.as_bytes().len();
    }

    /// The reply, with the number of the cursor (0 at its end) and its namespace.
    pub(crate) fn finish(self, id: i64, namespace: &str) -> Reply {
        let Self { mut bytes, cursor_at, documents_at, .. } = self;
        close(&mut bytes, documents_at);
        push_name(&mut bytes, ElementType::Int64, "id");
        bytes.extend_from_slice(&id.to_le_bytes());
        push_name(&mut bytes, ElementType::String, "ns");
        bytes.extend_from_slice(&length(namespace.len() + 1));
        bytes.extend_from_slice(namespace.as_bytes());
        bytes.push(0);
        close(&mut bytes, cursor_at);
        push_name(&mut bytes, ElementType::Double, "ok");
        bytes.extend_from_slice(&1.0_f64.to_le_bytes());
        close(&mut bytes, ANSWER_FRONT_BYTES);
        Reply { bytes }
    }
}

fn push_name(bytes: &mut Vec<u8>, element: ElementType, name: &str) {
    bytes.push(element as u8);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
}

/// Ends the document that starts at `start`.
fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let length = length(bytes.len() - start);
    if let Some(front) = bytes.get_mut(start..start + 4) {
        front.copy_from_slice(&length);
    }
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("a reply is shorter than 2 GiB").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{bson, doc, rawdoc};

    use super::*;

    #[test]
    fn a_batch_is_the_document_that_it_stands_for() {
        let mut batch = Batch::new(BatchName::Next);
        for n in 0..11 {
            batch.push(&rawdoc! { "n": n });
        }
        let reply = batch.finish(7, "a.b");
        let documents: Vec<_> = (0..11).map(|n| bson!({ "n": n })).collect();
        let expected = doc! { "cursor": { "nextBatch": documents, "id": 7_i64, "ns": "a.b" }, "ok": 1.0 };
        let document = RawDocument::from_bytes(reply.document()).expect("a document");
        assert_eq!(Document::try_from(document).expect("decoded"), expected);
    }

    #[test]
    fn the_first_document_always_fits() {
        let mut batch = Batch::new(BatchName::First);
        assert!(batch.has_room(DOCUMENT_BYTES_MAX + 1));
        batch.push(&rawdoc! {});
        assert!(batch.has_room(DOCUMENT_BYTES_MAX - 5));
        assert!(!batch.has_room(DOCUMENT_BYTES_MAX - 4));
    }
}
