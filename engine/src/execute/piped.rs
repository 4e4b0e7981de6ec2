//! The stages of a pipeline behind the rows of a search, or behind documents that are there already.

use bson::{RawDocument, RawDocumentBuf};
use query::operation::OperationContext;
use query::pipeline::stream::{Given, Step, Stream};
use query::pipeline::{Pipeline, Running};

use crate::error::{Error, Result};
use crate::execute::rows::Rows;

/// What comes out of a pipeline. It stands before the first document until `advance` is called.
pub(crate) struct Piped {
    running: Running<'static, Error>,
    operation: OperationContext,
}

impl Piped {
    /// The pipeline over rows, of which there are none if there is no collection.
    pub(crate) fn over_rows(pipeline: Pipeline, rows: Option<Rows>) -> Self {
        let operation = pipeline.variables().operation().clone();
        Self { running: pipeline.run(Input { rows }), operation }
    }

    /// The pipeline over documents.
    pub(crate) fn over_documents(pipeline: Pipeline, documents: Vec<RawDocumentBuf>) -> Self {
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

    /// What the pipeline may use.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Lets go of what the storage holds for the pipeline, until it goes on.
    pub(crate) fn rest(&mut self) {
        self.running.rest();
    }

    /// The bytes of the document stood on.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.running.current().as_bytes()
    }
}

/// Rows as the input of a pipeline.
struct Input {
    /// None if there is no collection.
    rows: Option<Rows>,
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl Stream<Error> for Input {
    fn advance(&mut self) -> Result<Step> {
        let Some(rows) = &mut self.rows else { return Ok(Step::End) };
        Ok(if rows.advance()? { Step::Document } else { Step::End })
    }

    fn rest(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.rest();
        }
    }

    fn current(&self) -> &RawDocument {
        let standing = self.rows.as_ref().map(Rows::bytes).filter(|bytes| !bytes.is_empty());
        RawDocument::from_bytes(standing.unwrap_or(EMPTY_DOCUMENT)).expect("advance() looked at the bytes")
    }
}
