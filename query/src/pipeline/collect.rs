//! Stages that must see every document before they give the first, and the memory that they may take.

use bson::{RawDocument, RawDocumentBuf};

use crate::operation::{OperationContext, Reservation};
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::run::{Input, at};
use crate::pipeline::stream::{Step, Stream};

/// What becomes of all documents together.
pub(super) trait Collector {
    /// Takes a document.
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault>;

    /// There are no more documents.
    fn finish(&mut self) -> Result<(), Fault>;

    /// The next result, once finished.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault>;
}

/// A collector as a stream.
pub(super) struct Collected<'i, E> {
    /// None once it is at its end.
    input: Option<Input<'i, E>>,
    collector: Box<dyn Collector + Send + Sync>,
    position: usize,
    operation: OperationContext,
    current: RawDocumentBuf,
}

impl<'i, E> Collected<'i, E> {
    pub(super) fn new(
        input: Input<'i, E>,
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
                    let counted = self.operation.pass(document.as_bytes().len());
                    counted.map_err(|reason| at(reason.into()))?;
                    self.collector.push(document).map_err(&at)?;
                }
                Step::Pause => return Ok(Step::Pause),
                Step::End => {
                    // What the input holds is let go before the results are made.
                    self.input = None;
                    self.collector.finish().map_err(&at)?;
                }
            }
        }
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

    fn rest(&mut self) {
        if let Some(input) = &mut self.input {
            input.rest();
        }
    }
}

/// The memory that a stage takes.
#[derive(Debug)]
pub(super) struct Memory {
    stage: &'static str,
    bytes: usize,
    limit: usize,
    room: Reservation,
}

impl Memory {
    /// Memory of at most `limit` bytes, which an operation holds.
    pub(super) fn new(stage: &'static str, limit: usize, operation: &OperationContext) -> Self {
        Self { stage, bytes: 0, limit, room: Reservation::of(operation) }
    }

    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            return Err(Fault::MemoryExceeded { stage: self.stage, limit: self.limit });
        }
        Ok(self.room.grow_by_steps(self.bytes)?)
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
