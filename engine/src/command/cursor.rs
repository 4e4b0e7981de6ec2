//! The cursor that a command opens: the caller reads it, or one reply has all its documents.

use std::time::Duration;

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::cursor::Cursor;

/// The most bytes of documents in one reply.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A cursor that a command opened.
pub(crate) struct Opened {
    pub(crate) cursor: Cursor<RawDocumentBuf>,
    /// The namespace as replies show it, which for a list is none of a collection.
    pub(crate) namespace: String,
}

impl Opened {
    /// Reads all documents into the only batch of a reply. Fails when they need more than [`REPLY_BYTES_MAX`] bytes.
    pub(super) fn drain(mut self) -> Result<Document> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        // The documents that a tailable cursor has now: nothing could ask for more.
        while self.cursor.advance_within(Duration::ZERO)? {
            // Counted before the document is decoded, which needs several times its bytes.
            bytes += self.cursor.current().as_bytes().len();
            if bytes > REPLY_BYTES_MAX {
                return Err(refused(
                    Code::BSON_OBJECT_TOO_LARGE,
                    format!(
                        "the documents take more than the {REPLY_BYTES_MAX} bytes of one reply, and getMore belongs to a server: use a limit, or run_cursor_command"
                    ),
                ));
            }
            batch.push(Bson::Document(Document::try_from(self.cursor.current())?));
        }
        // The id 0 means that the cursor is exhausted: clients send no `getMore`.
        Ok(doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": self.namespace } })
    }
}
