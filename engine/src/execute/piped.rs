//! A pipeline over the rows of a search, or over given documents.

use bson::{RawDocument, RawDocumentBuf};
use query::operation::OperationContext;
use query::pipeline::stream::{Given, Step, Stream};
use query::pipeline::{Pipeline, Running};

use crate::error::{Error, Result};
use crate::execute::rows::Rows;

/// The results of a pipeline. They are before the first document until `advance` is called.
pub(crate) struct Piped {
    running: Running<'static, Error>,
    operation: OperationContext,
}

impl Piped {
    /// Runs a pipeline over rows. `rows` are absent if there is no collection, which is like an empty one.
    pub(crate) fn over_rows(pipeline: Pipeline, rows: Option<Rows>) -> Self {
        let operation = pipeline.variables().operation().clone();
        Self { running: pipeline.run(RowStream { rows }), operation }
    }

    /// Runs a pipeline over given documents.
    pub(crate) fn over_documents(pipeline: Pipeline, documents: Vec<RawDocumentBuf>) -> Self {
        // Rows are counted where they are read. Nothing else counts these documents.
        let operation = pipeline.variables().operation().clone();
        let counted = operation.clone();
        let input = documents.into_iter().map(move |document| {
            counted.pass(document.as_bytes().len())?;
            Ok(document)
        });
        Self { running: pipeline.run(Given::new(input)), operation }
    }

    /// Steps to the next document; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        Ok(self.running.advance()? == Step::Document)
    }

    /// The operation that the pipeline belongs to.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Releases what the storage holds for the pipeline until it is advanced again.
    pub(crate) fn rest(&mut self) {
        self.running.rest();
    }

    /// The bytes of the current document.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.running.current().as_bytes()
    }
}

/// Rows as the input of a pipeline.
struct RowStream {
    /// Absent if there is no collection.
    rows: Option<Rows>,
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl Stream<Error> for RowStream {
    fn advance(&mut self) -> Result<Step> {
        // Without a collection the pipeline still runs: a `$facet` over nothing gives one document.
        let Some(rows) = &mut self.rows else { return Ok(Step::End) };
        Ok(if rows.advance()? { Step::Document } else { Step::End })
    }

    fn rest(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.rest();
        }
    }

    fn current(&self) -> &RawDocument {
        let bytes = self.rows.as_ref().map(Rows::bytes).filter(|bytes| !bytes.is_empty());
        // `advance` has made a document of these bytes already, so this cannot fail.
        RawDocument::from_bytes(bytes.unwrap_or(EMPTY_DOCUMENT)).expect("advance() looked at the bytes")
    }
}
