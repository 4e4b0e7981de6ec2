//! A pipeline over the rows of a search, or over given documents.

use std::sync::Arc;

use base::error::{Error, Result};
use bson::RawDocumentBuf;
use query::operation::{OperationContext, Reservation};
use query::pipeline::foreign::Foreign;
use query::pipeline::stream::{Given, Step, Stream as _};
use query::pipeline::{Pipeline, Running};

use crate::execute::foreign::ForeignViews;
use crate::execute::row_stream::RowStream;
use crate::execute::rows::Rows;

/// The results of a pipeline. They are before the first document until `advance` is called.
pub(crate) struct Piped {
    running: Running<'static, Error>,
    operation: OperationContext,
    /// The memory of the current document while the pipeline rests.
    held: Option<Reservation>,
}

impl Piped {
    /// Runs a pipeline over rows. `rows` are absent if the collection does not exist, which is like an empty one.
    /// `foreign` are the other collections that it reads.
    pub(crate) fn over_rows(pipeline: Pipeline, rows: Option<Rows>, foreign: ForeignViews) -> Self {
        let operation = pipeline.variables().operation().clone();
        let rows = RowStream::new(rows, operation.clone());
        let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(foreign);
        Self { running: pipeline.run_with(rows, &foreign), operation, held: None }
    }

    /// Runs a pipeline over given documents. `foreign` are the collections that it reads.
    pub(crate) fn over_documents(
        pipeline: Pipeline,
        documents: Vec<RawDocumentBuf>,
        foreign: ForeignViews,
    ) -> Self {
        // Rows are counted where they are read. Nothing else counts these documents.
        let operation = pipeline.variables().operation().clone();
        let counted = operation.clone();
        let input = documents.into_iter().map(move |document| {
            counted.pass(document.as_bytes().len())?;
            Ok(document)
        });
        let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(foreign);
        Self { running: pipeline.run_with(Given::new(input), &foreign), operation, held: None }
    }

    /// Steps to the next document; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.held = None;
        Ok(self.running.advance()? == Step::Document)
    }

    /// The operation that the pipeline belongs to.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Releases what the storage holds for the pipeline until it is advanced again. The current document was computed and
    /// cannot be read again, so it stays, and counts as memory of the operation.
    pub(crate) fn rest(&mut self) -> Result<()> {
        self.running.rest();
        self.held = None;
        self.held = Some(self.operation.reserve(self.bytes().len())?);
        Ok(())
    }

    /// The bytes of the current document.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.running.current().as_bytes()
    }
}
