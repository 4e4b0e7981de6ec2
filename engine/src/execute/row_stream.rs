//! Rows as the input of a pipeline.

use base::error::{Error, Result};
use bson::RawDocument;
use query::expression::Metadata;
use query::operation::{OperationContext, Reservation};
use query::pipeline::stream::{Step, Stream};

use crate::document::decode::EMPTY;
use crate::execute::rest::Rest;
use crate::execute::rows::Rows;

/// Rows as the input of a pipeline.
pub(super) struct RowStream {
    /// Absent if the collection does not exist.
    rows: Option<Rows>,
    operation: OperationContext,
    /// The memory of the current row while the pipeline rests.
    held: Option<Reservation>,
    /// The reason why there was no memory for it. The rows are gone then.
    refused: Option<Error>,
    /// That of the current row, kept because a walk that rests does not know it any more.
    metadata: Option<Metadata>,
}

impl RowStream {
    /// A stream of rows. They are absent if the collection does not exist, which is like an empty one.
    pub(super) fn new(rows: Option<Rows>, operation: OperationContext) -> Self {
        Self { rows, operation, held: None, refused: None, metadata: None }
    }
}

impl Stream<Error> for RowStream {
    fn advance(&mut self) -> Result<Step> {
        self.held = None;
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        // Without a collection the pipeline still runs: a `$facet` over nothing gives one document.
        let Some(rows) = &mut self.rows else { return Ok(Step::End) };
        if !rows.advance()? {
            return Ok(Step::End);
        }
        self.metadata = rows.metadata()?;
        Ok(Step::Document)
    }

    fn metadata(&self) -> Option<Metadata> {
        self.metadata.clone()
    }

    fn rest(&mut self) {
        let Some(rows) = &mut self.rows else { return };
        // A stage such as `$unwind` may be in the middle of the row.
        rows.rest(Rest::Keep);
        self.held = None;
        match self.operation.reserve(rows.bytes().len()) {
            Ok(held) => self.held = Some(held),
            Err(refused) => (self.rows, self.refused) = (None, Some(refused.into())),
        }
    }

    fn current(&self) -> &RawDocument {
        let bytes = self.rows.as_ref().map(Rows::bytes).filter(|bytes| !bytes.is_empty());
        // `advance` has made a document of these bytes already, so this cannot fail.
        RawDocument::from_bytes(bytes.unwrap_or(EMPTY)).expect("advance() looked at the bytes")
    }
}
