//! The bytes and the memory of the `_id`s of upserted documents in the reply to a command.
//!
//! A pipeline can compute an `_id` of nearly 16 MiB, so a short command could ask for a reply of gigabytes. The reply must list every
//! document that was stored. Therefore the limit is checked before a statement is executed, and an `_id` is always added.

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, RawDocumentBuf};
use query::code::Code;
use query::operation::{OperationContext, Reservation};

use crate::command::request::weigh;

/// Beyond this many bytes in the reply, no further update is executed: MongoDB's replies have room for as many. With one more `_id` of
/// 16 MiB, and with as many errors as a command has statements, the reply still fits in a message, which has at most 48,000,000 bytes.
const IDS_BYTES_MAX: usize = 16 << 20;

/// The size of the `_id`s in one reply.
pub(super) struct UpsertedIds {
    /// The bytes of the entries in the reply.
    bytes: usize,
    /// The memory of the entries until the reply is sent.
    memory: usize,
    held: Reservation,
}

impl UpsertedIds {
    pub(super) fn of(operation: &OperationContext) -> Self {
        Self { bytes: 0, memory: 0, held: Reservation::of(operation) }
    }

    /// Reserves the memory of the entries so far. Called before each statement: the size of an `_id` is known only after the document
    /// was stored.
    pub(super) fn reserve(&mut self) -> Result<()> {
        Ok(self.held.grow_by_steps(self.memory)?)
    }

    /// Rejects a statement, which is not executed, if the reply may have no space for another `_id`.
    pub(super) fn check(&self) -> Result<()> {
        if self.bytes <= IDS_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the _ids of upserted documents need more than {IDS_BYTES_MAX} bytes of the reply: the update was not executed, and can be sent in another command"
        );
        Err(refused(Code::BSON_OBJECT_TOO_LARGE, message))
    }

    /// Counts an entry that has the `_id` of an upserted document, and returns it as a value of the reply.
    pub(super) fn add(&mut self, entry: Document) -> Bson {
        // Encoding does not fail: the document with this `_id` was stored.
        if let Ok(encoded) = RawDocumentBuf::try_from(&entry) {
            let bytes = encoded.as_bytes().len();
            let decoded = encoded.get("_id").ok().flatten().map_or(0, weigh);
            self.bytes = self.bytes.saturating_add(bytes);
            self.memory = self.memory.saturating_add(bytes).saturating_add(decoded);
        }
        entry.into()
    }
}
