//! The documents or statements of a write, and how many a command may bring.

use std::borrow::Cow;

use base::codes::refused;
use base::error::Result;
use bson::RawDocument;
use query::code::Code;

/// The limit of statements or documents in a write: MongoDB's limit.
pub(crate) const STATEMENTS_MAX: usize = 100_000;

/// The documents of an `insert`, or the statements of an update or a delete, in raw bytes.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) documents: Vec<Cow<'a, RawDocument>>,
}

/// Rejects a write of no statements, and one of more than [`STATEMENTS_MAX`].
pub(crate) fn check_batch_size(count: usize) -> Result<()> {
    if count == 0 || count > STATEMENTS_MAX {
        return Err(refused(
            Code::INVALID_LENGTH,
            format!("Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {count} operations."),
        ));
    }
    Ok(())
}
