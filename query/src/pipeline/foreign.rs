//! The collections that a pipeline reads besides its own. Reading them is the caller's task.

use bson::RawDocument;

use crate::expression::Variables;
use crate::pipeline::stream::Stream;

/// The documents of another collection.
pub type Documents<E> = Box<dyn Stream<E> + Send + Sync>;

/// The other collections of a pipeline, all of one moment: that at which its own documents are read.
///
/// A collection that does not exist is an empty one.
pub trait Foreign<E> {
    /// The documents of `collection` that match `filter`. Returns `None` if every document would have to be read to
    /// find them.
    ///
    /// # Errors
    /// If the collection cannot be read.
    fn find(
        &self,
        collection: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<E>>, E>;

    /// All documents of `collection`.
    ///
    /// # Errors
    /// If the collection cannot be read.
    fn scan(&self, collection: &str, variables: &Variables) -> Result<Documents<E>, E>;
}

/// No other collections: each is an empty one.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoForeign;

/// The stream without documents.
struct Empty;

impl<E> Foreign<E> for NoForeign {
    fn find(&self, _: &str, _: &RawDocument, _: &Variables) -> Result<Option<Documents<E>>, E> {
        Ok(Some(Box::new(Empty)))
    }

    fn scan(&self, _: &str, _: &Variables) -> Result<Documents<E>, E> {
        Ok(Box::new(Empty))
    }
}

impl<E> Stream<E> for Empty {
    fn advance(&mut self) -> Result<crate::pipeline::stream::Step, E> {
        Ok(crate::pipeline::stream::Step::End)
    }

    fn current(&self) -> &RawDocument {
        crate::pipeline::stream::nothing()
    }
}
