//! Commands that give a cursor: whoever runs them holds it, or has it drained into one reply.

use bson::{Bson, Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::codes::refused;
use crate::cursor::Cursor;
use crate::error::Result;

/// How many bytes of documents one reply holds.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A cursor that a command opened.
pub(crate) struct Opened {
    pub(crate) cursor: Cursor<RawDocumentBuf>,
    /// What replies call its namespace.
    pub(crate) namespace: String,
}

impl Opened {
    /// All documents as the only batch of a reply.
    pub(super) fn drain(mut self) -> Result<Document> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while self.cursor.advance()? {
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
        Ok(doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": self.namespace } })
    }
}
