//! Answers: BSON documents with room in front for the header of their message, so that no answer is copied
//! when it is sent.

use std::time::Duration;

use cairndb::bson::spec::{BinarySubtype, ElementType};
use cairndb::bson::{Binary, Bson, Document, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use index::element::field;
use index::writer::{Mark, Writer};
use query::code::Code;
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::frame::MESSAGE_BYTES_MAX;
use crate::frame::header::HEADER_BYTES;
use crate::frame::message::{ANSWER_FRONT_BYTES, finish_answer};
use crate::limits::{Budget, DOCUMENT_BYTES_MAX, Reserved, UNCHARGED_BYTES};

/// The most bytes of an answer. The rest of a message is for the times of a replica set, which are added when it is sent.
const REPLY_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1_024;
/// The bytes that a growing batch reserves at a time.
const BATCH_STEP_BYTES: usize = 256 << 10;
/// The time that a batch waits for memory for its first document. It blocks a thread meanwhile.
const FIRST_DOCUMENT_PATIENCE: Duration = Duration::from_millis(100);

/// A document after room for the beginning of an `OP_MSG`, and the memory of the budget that it holds until
/// it is sent.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    reserved: Reserved,
}

impl Reply {
    pub(crate) fn of(document: &Document) -> Self {
        let encoded = RawDocumentBuf::try_from(document).map(RawDocumentBuf::into_bytes);
        let encoded = encoded.unwrap_or_else(|error| {
            // Cannot happen: names in replies come from the server and the engine, and none has a NUL.
            tracing::error!(%error, "a reply could not be encoded");
            vec![5, 0, 0, 0, 0]
        });
        Self { bytes: [vec![0; ANSWER_FRONT_BYTES], encoded].concat(), reserved: Reserved::nothing() }
    }

    /// The bytes of the document.
    pub(crate) fn document(&self) -> &[u8] {
        self.bytes.get(ANSWER_FRONT_BYTES..).unwrap_or_default()
    }

    /// Replaces a reply that is longer than a message may be by an error, because no client accepts such a message. Commands limit their
    /// replies themselves; this is the last check.
    pub(crate) fn within_message(self) -> Self {
        let bytes = self.bytes.len();
        if bytes <= REPLY_BYTES_MAX {
            return self;
        }
        let message = format!(
            "the command was executed, but its reply needs {bytes} bytes, more than the {REPLY_BYTES_MAX} of one message"
        );
        Failure::new(Code::BSON_OBJECT_TOO_LARGE, message).into()
    }

    /// Adds a field at the end of the document.
    pub(crate) fn with_field(self, field: &str, value: impl Into<Bson>) -> Self {
        // Decoded and encoded again: only rare replies get another field, and the buffer stays a plain
        // document otherwise.
        let document = RawDocument::from_bytes(self.document()).map(Document::try_from);
        let Ok(Ok(mut document)) = document else { return self };
        document.insert(field, value);
        Self { reserved: self.reserved, ..Self::of(&document) }
    }

    /// Adds the times that every reply of a replica set has: `$clusterTime`, without a signature, and `operationTime`.
    pub(crate) fn with_times(mut self, time: Timestamp) -> Self {
        self.append(&rawdoc! {
            "$clusterTime": {
                "clusterTime": time,
                "signature": { "hash": Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] }, "keyId": 0_i64 },
            },
            "operationTime": time,
        });
        self
    }

    /// Adds the fields of `added` at the end of the document.
    pub(crate) fn with_fields(mut self, added: &RawDocument) -> Self {
        self.append(added);
        self
    }

    /// Writes fields behind the others: a batch of a cursor may have many bytes, which are not to be copied.
    fn append(&mut self, added: &RawDocument) {
        // Without the length in front and the end behind.
        let fields = added.as_bytes().get(4..).unwrap_or_default();
        self.bytes.pop();
        self.bytes.extend_from_slice(fields);
        let length = i32::try_from(self.bytes.len() - ANSWER_FRONT_BYTES).unwrap_or(i32::MAX);
        if let Some(front) = self.bytes.get_mut(ANSWER_FRONT_BYTES..).and_then(<[u8]>::first_chunk_mut) {
            *front = length.to_le_bytes();
        }
    }

    /// Whether the reply reports success.
    pub(crate) fn is_ok(&self) -> bool {
        let document = RawDocument::from_bytes(self.document());
        document.is_ok_and(|document| document.get_f64("ok").is_ok_and(|ok| ok > 0.0))
    }

    /// Whether the reply lists rejected writes, or counts them.
    pub(crate) fn lists_errors(&self) -> bool {
        let Ok(document) = RawDocument::from_bytes(self.document()) else { return false };
        let lists = document.get("writeErrors").is_ok_and(|errors| errors.is_some());
        lists || document.get_i32("nErrors").is_ok_and(|errors| errors > 0)
    }

    /// Whether the reply is to a write that was sent before, and done then.
    pub(crate) fn is_of_repetition(&self) -> bool {
        let document = RawDocument::from_bytes(self.document());
        document.is_ok_and(|document| document.get("retriedStmtIds").is_ok_and(|repeated| repeated.is_some()))
    }

    /// The bytes of the whole message, and the memory that they hold.
    pub(crate) fn into_message(mut self, request_id: i32, response_to: i32) -> (Vec<u8>, Reserved) {
        debug_assert!(self.bytes.len() > HEADER_BYTES, "room was left in front");
        finish_answer(&mut self.bytes, request_id, response_to);
        (self.bytes, self.reserved)
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

/// Which batch of a cursor a reply contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchName {
    First,
    Next,
}

/// A batch of a cursor, written while it is read: `{cursor: {firstBatch: [..], id: .., ns: ..}, ok: 1}`.
///
/// It uses memory of the budget as it grows. If none is left the batch ends, and the rest follows in the
/// next batch: clients that do not receive their answers make the batches of others short, but do not make
/// them wait.
pub(crate) struct CursorBatch {
    out: Writer,
    /// The reply, the cursor in it, and the documents in that.
    opened: [Mark; 3],
    /// Where the last document begins. Without documents, where the first one will.
    last_at: Mark,
    len: usize,
    document_bytes: usize,
    /// The bytes of its documents are no more, unless one alone has more.
    bytes_max: usize,
    budget: Budget,
    reserved: Reserved,
    is_short: bool,
    /// The time of the state that is read, if the client reads several times of one.
    time: Option<Timestamp>,
    /// The token after which a change stream goes on.
    token: Option<RawDocumentBuf>,
}

impl CursorBatch {
    pub(crate) fn new(name: BatchName, budget: &Budget) -> Self {
        let mut out = Writer::after(vec![0; ANSWER_FRONT_BYTES]);
        let reply_at = out.open();
        out.header(ElementType::EmbeddedDocument, "cursor");
        let cursor_at = out.open();
        let name = match name {
            BatchName::First => "firstBatch",
            BatchName::Next => "nextBatch",
        };
        out.header(ElementType::Array, name);
        let documents_at = out.open();
        Self {
            last_at: out.mark(),
            out,
            opened: [reply_at, cursor_at, documents_at],
            len: 0,
            document_bytes: 0,
            bytes_max: DOCUMENT_BYTES_MAX,
            budget: budget.clone(),
            reserved: Reserved::nothing(),
            is_short: false,
            time: None,
            token: None,
        }
    }

    /// Adds the time of the state that is read.
    pub(crate) fn of_time(self, time: Option<Timestamp>) -> Self {
        Self { time, ..self }
    }

    /// Ends the batch before its documents have more than `bytes_max` bytes, unless the first one alone has.
    pub(crate) fn up_to(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Notes the token after which a change stream goes on.
    pub(crate) fn go_on_after(&mut self, token: RawDocumentBuf) {
        self.token = Some(token);
    }

    /// Notes that a change stream goes on after the last document of the batch, whose `_id` is its token. Without documents what was
    /// noted before stays.
    pub(crate) fn go_on_after_last(&mut self) {
        let last = RawDocument::from_bytes(self.out.since(self.last_at)).ok();
        let token = last.and_then(|last| field(last, "_id")?.as_document());
        if let Some(token) = token {
            self.token = Some(token.to_owned());
        }
    }

    /// The number of documents in the batch.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the batch ended because the budget had no memory left.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether the batch has room for another document of `bytes` bytes. The first one always fits, if there is
    /// memory for it.
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        if self.len > 0 && self.document_bytes + bytes > self.bytes_max {
            return false;
        }
        // For the document's position as a name, for the end of the reply with a token, and for the times of a replica set.
        let needed = self.out.len() + bytes + 384;
        self.is_short = needed > UNCHARGED_BYTES && !self.reserve(needed);
        !self.is_short
    }

    /// Reserves memory for a reply of `bytes` bytes in total.
    fn reserve(&mut self, bytes: usize) -> bool {
        let Self { budget, reserved, .. } = self;
        // A whole step if the budget has one left, else just what this document needs.
        for room in [bytes.next_multiple_of(BATCH_STEP_BYTES), bytes] {
            if budget.try_grow(reserved, room) {
                // A vector would double its room, beyond what was reserved in the budget.
                self.out.reserve_exact(room.saturating_sub(self.out.len()));
                return true;
            }
        }
        // Only the first document waits: an empty batch with a live cursor would make the client ask again at
        // once.
        let Some(runtime) = Handle::try_current().ok().filter(|_| self.len == 0) else { return false };
        runtime.block_on(budget.grow(reserved, bytes, FIRST_DOCUMENT_PATIENCE)).is_ok()
    }

    /// Adds a document, for which [`has_room`](Self::has_room) found room.
    pub(crate) fn push(&mut self, document: &RawDocument) {
        self.out.indexed_header(ElementType::EmbeddedDocument, self.len);
        self.last_at = self.out.mark();
        self.out.copy(document.as_bytes());
        self.len += 1;
        self.document_bytes += document.as_bytes().len();
    }

    /// The reply. `id` is the number of the cursor, or 0 at its end.
    pub(crate) fn finish(self, id: i64, namespace: &str) -> Reply {
        let Self { mut out, opened: [reply_at, cursor_at, documents_at], mut reserved, time, token, .. } =
            self;
        out.close(documents_at);
        if let Some(token) = token {
            out.document("postBatchResumeToken", &token);
        }
        out.eight_bytes(ElementType::Int64, "id", id.to_le_bytes());
        out.string("ns", namespace);
        if let Some(Timestamp { time, increment }) = time {
            let time = u64::from(time) << u32::BITS | u64::from(increment);
            out.eight_bytes(ElementType::Timestamp, "atClusterTime", time.to_le_bytes());
        }
        out.close(cursor_at);
        out.eight_bytes(ElementType::Double, "ok", 1.0_f64.to_le_bytes());
        out.close(reply_at);
        // The last step was mostly not used up.
        reserved.shrink_to(out.len());
        Reply { bytes: out.into_bytes(), reserved }
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{bson, doc};

    use super::*;

    #[test]
    fn a_batch_is_the_document_that_it_stands_for() {
        let mut batch = CursorBatch::new(BatchName::Next, &Budget::new(1 << 30));
        for n in 0..11 {
            batch.push(&rawdoc! { "n": n });
        }
        let time = Timestamp { time: 7, increment: 9 };
        let reply = batch.of_time(Some(time)).finish(7, "a.b");
        let documents: Vec<_> = (0..11).map(|n| bson!({ "n": n })).collect();
        let cursor = doc! { "nextBatch": documents, "id": 7_i64, "ns": "a.b", "atClusterTime": time };
        let expected = doc! { "cursor": cursor, "ok": 1.0 };
        let document = RawDocument::from_bytes(reply.document()).expect("a document");
        assert_eq!(Document::try_from(document).expect("decoded"), expected);
    }

    #[test]
    fn a_reply_longer_than_a_message_becomes_an_error() {
        let code = |bytes: usize| {
            let reply = Reply::of(&doc! { "text": "x".repeat(bytes), "ok": 1.0 }).within_message();
            let document = RawDocument::from_bytes(reply.document()).expect("a document");
            (document.get_i32("code").ok(), reply.is_ok())
        };
        assert_eq!(code(MESSAGE_BYTES_MAX - 2_000), (None, true));
        assert_eq!(code(MESSAGE_BYTES_MAX), (Some(Code::BSON_OBJECT_TOO_LARGE.number()), false));
    }

    #[test]
    fn the_times_are_the_last_fields() {
        let reply = Reply::of(&doc! { "n": 1, "ok": 1.0 });
        let time = Timestamp { time: 9, increment: 2 };
        let reply = reply.with_times(time);
        let document = RawDocument::from_bytes(reply.document()).expect("a document");
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        let expected = doc! {
            "n": 1,
            "ok": 1.0,
            "$clusterTime": { "clusterTime": time, "signature": { "hash": hash, "keyId": 0_i64 } },
            "operationTime": time,
        };
        assert_eq!(Document::try_from(document).expect("decoded"), expected);
    }

    #[test]
    fn the_first_document_always_fits() {
        let mut batch = CursorBatch::new(BatchName::First, &Budget::new(1 << 30));
        assert!(batch.has_room(DOCUMENT_BYTES_MAX + 1));
        batch.push(&rawdoc! {});
        assert!(batch.has_room(DOCUMENT_BYTES_MAX - 5));
        assert!(!batch.has_room(DOCUMENT_BYTES_MAX - 4));
        assert!(!batch.is_short());
    }

    /// Each command with a cursor once held 16 MiB of 512 from its beginning, so that 32 of them stopped all
    /// others.
    #[test]
    fn a_batch_takes_memory_as_it_grows_and_ends_where_there_is_none() {
        let budget = Budget::new(20 << 20);
        let document = rawdoc! { "text": "x".repeat(1 << 20) };
        let fill = || {
            let mut batch = CursorBatch::new(BatchName::Next, &budget);
            while batch.has_room(document.as_bytes().len()) {
                batch.push(&document);
            }
            (batch.len(), batch.is_short(), batch.finish(1, "a.b"))
        };
        let ((first, is_first_short, answer), (second, is_second_short, _answer)) = (fill(), fill());
        assert_eq!((first, is_first_short, second, is_second_short), (15, false, 4, true));
        // The memory that is there without asking still suffices for small documents.
        let mut third = CursorBatch::new(BatchName::Next, &budget);
        assert!(third.has_room(1000) && !third.has_room(1 << 20));
        drop(answer);
        assert!(third.has_room(1 << 20));
    }
}
