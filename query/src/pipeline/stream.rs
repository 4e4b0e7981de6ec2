//! Streams of documents. The current document is borrowed from the stream, so that stages need not copy it.

use std::sync::LazyLock;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Metadata;

/// The result of [`Stream::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next document, which is now the current one.
    Document,
    /// No document yet: the stream can be advanced again later.
    Pause,
    /// No more documents.
    End,
}

/// Documents, one after the other. A new stream is before its first document.
///
/// ```
/// use bson::{RawDocumentBuf, rawdoc};
/// use cairndb_query::pipeline::stream::{Given, Step, Stream};
///
/// let mut stream = Given::new([Ok::<RawDocumentBuf, ()>(rawdoc! { "n": 1 })].into_iter());
/// assert_eq!(stream.advance(), Ok(Step::Document));
/// assert_eq!(Stream::<()>::current(&stream), &*rawdoc! { "n": 1 });
/// assert_eq!(stream.advance(), Ok(Step::End));
/// ```
pub trait Stream<E> {
    /// Advances to the next document. It must not be called again after an error or the end.
    fn advance(&mut self) -> Result<Step, E>;

    /// The current document. It is empty before the first call of [`advance`](Self::advance).
    fn current(&self) -> &RawDocument;

    /// The metadata of the current document, or of the one that it was made of. Returns `None` if that is nothing, or
    /// if the stream does not know which document that is.
    fn metadata(&self) -> Option<Metadata> {
        None
    }

    /// Releases resources that the stream can get again when it is advanced. The current document stays.
    fn rest(&mut self) {}
}

impl<E, S: Stream<E> + ?Sized> Stream<E> for Box<S> {
    fn advance(&mut self) -> Result<Step, E> {
        // `self.advance()` would call this function again.
        (**self).advance()
    }

    fn current(&self) -> &RawDocument {
        (**self).current()
    }

    fn metadata(&self) -> Option<Metadata> {
        (**self).metadata()
    }

    fn rest(&mut self) {
        (**self).rest();
    }
}

/// The input of a stage: the stages before it, as one stream.
pub(super) type StageInput<'i, E> = Box<dyn Stream<E> + Send + Sync + 'i>;

/// A stream of the documents of an iterator.
#[derive(Clone, Debug)]
pub struct Given<I> {
    documents: I,
    current: RawDocumentBuf,
}

impl<I> Given<I> {
    /// Creates a stream of the documents of an iterator.
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

/// The empty document, for streams without a current one.
pub(super) fn nothing() -> &'static RawDocument {
    // A stream lends its current document, so the empty one must live as long as any stream.
    static EMPTY: LazyLock<RawDocumentBuf> = LazyLock::new(RawDocumentBuf::new);
    &EMPTY
}
