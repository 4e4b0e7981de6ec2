//! Stages that must see every document before they give the first result.
//!
//! The file of each family implements [`Collector`]; [`Collected`] makes a stream of it.

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Metadata;
use crate::operation::OperationContext;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::stream::{StageInput, Step, Stream};

/// A stage that reads all documents first and then gives its results. The calls come in the order of the methods.
pub(super) trait Collector {
    /// Whether it keeps what is known of documents besides their fields.
    fn keeps_metadata(&self) -> bool {
        false
    }

    /// Gets what is known of the document that is pushed next, if it keeps that.
    fn tell(&mut self, _metadata: Option<Metadata>) {}

    /// Accepts a document.
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault>;

    /// Prepares the results, after the last document.
    fn finish(&mut self) -> Result<(), Fault>;

    /// The next result. Returns `None` after the last.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault>;

    /// The metadata of the result that was returned last.
    fn metadata(&self) -> Option<Metadata> {
        None
    }

    /// Lets go of memory until the next result is asked for, which may be never.
    fn rest(&mut self) {}
}

/// The stream of a collector's results.
pub(super) struct Collected<'i, E> {
    /// Absent after its last document.
    input: Option<StageInput<'i, E>>,
    collector: Box<dyn Collector + Send + Sync>,
    position: usize,
    operation: OperationContext,
    current: RawDocumentBuf,
}

impl<'i, E> Collected<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        collector: Box<dyn Collector + Send + Sync>,
        position: usize,
        operation: OperationContext,
    ) -> Self {
        Self { input: Some(input), collector, position, operation, current: RawDocumentBuf::new() }
    }
}

impl<E: From<Error>> Stream<E> for Collected<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let at = at::<E>(self.position);
        while let Some(input) = &mut self.input {
            match input.advance()? {
                Step::Document => {
                    let document = input.current();
                    // Counted here for all collectors: each reads every document in full.
                    let counted = self.operation.pass(document.as_bytes().len());
                    counted.map_err(|reason| at(reason.into()))?;
                    if self.collector.keeps_metadata() {
                        self.collector.tell(input.metadata());
                    }
                    self.collector.push(document).map_err(&at)?;
                }
                // The documents so far stay in the collector.
                Step::Pause => return Ok(Step::Pause),
                Step::End => {
                    // The memory of the input is freed before the results reserve their own.
                    self.input = None;
                    self.collector.finish().map_err(&at)?;
                }
            }
        }
        // Results count too: there can be as many groups as documents.
        self.operation.step().map_err(|reason| at(reason.into()))?;
        match self.collector.next().map_err(&at)? {
            Some(document) => {
                self.current = document;
                Ok(Step::Document)
            }
            None => Ok(Step::End),
        }
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn metadata(&self) -> Option<Metadata> {
        self.collector.metadata()
    }

    fn rest(&mut self) {
        if let Some(input) = &mut self.input {
            input.rest();
        }
        self.collector.rest();
    }
}
