//! Streams of documents, in which the one stood on is borrowed from wherever it lies.

use std::sync::LazyLock;

use bson::{RawDocument, RawDocumentBuf};

/// What a stream did when it was asked to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It stands on the next document.
    Document,
    /// It has no document now and may have one later.
    Pause,
    /// There are no more.
    End,
}

/// Documents, one after the other. A stream stands before the first until it is asked to go on.
pub trait Stream<E> {
    /// Goes on to the next document. After an error or the end it is not asked again.
    fn advance(&mut self) -> Result<Step, E>;

    /// The document stood on; an empty one where there is none.
    fn current(&self) -> &RawDocument;

    /// Lets go of what can be had again, until the stream is asked to go on.
    fn rest(&mut self) {}
}

impl<E, S: Stream<E> + ?Sized> Stream<E> for Box<S> {
    fn advance(&mut self) -> Result<Step, E> {
        (**self).advance()
    }

    fn current(&self) -> &RawDocument {
        (**self).current()
    }

    fn rest(&mut self) {
        (**self).rest();
    }
}

/// What a stage reads: the stages before it, as one stream.
pub(super) type StageInput<'i, E> = Box<dyn Stream<E> + Send + Sync + 'i>;

/// An iterator as a stream.
#[derive(Clone, Debug)]
pub struct Given<I> {
    documents: I,
    current: RawDocumentBuf,
}

impl<I> Given<I> {
    /// The documents that an iterator gives.
    pub fn new(documents: I) -> Self {
        Self { documents, current: RawDocumentBuf::new() }
    }
}

impl<E, I: Iterator<Item = Result<RawDocumentBuf, E>>> Stream<E> for Given<I> {
    fn advance(&mut self) -> Result<Step, E> {
        match self.documents.next().transpose()? {
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
}

/// The document without fields.
pub(super) fn nothing() -> &'static RawDocument {
    static EMPTY: LazyLock<RawDocumentBuf> = LazyLock::new(RawDocumentBuf::new);
    &EMPTY
}
