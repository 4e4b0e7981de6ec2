//! The collections that a pipeline reads besides its own. Reading them is the caller's task.

use bson::{RawBsonRef, RawDocument};
use index::path::FieldPath;

use crate::expression::Variables;
use crate::pipeline::stream::Stream;

/// The documents of another collection.
pub type Documents<E> = Box<dyn Stream<E> + Send + Sync>;

/// The documents of another collection by the value of one field: an index that is asked again and again.
///
/// It is before the first document of a value after [`find`](Self::find).
pub trait FieldIndex<E> {
    /// Asks for the documents whose field equals `value` in the sense of a filter. Returns `false` if the index cannot determine for
    /// this value, and they have to be searched for.
    ///
    /// # Errors
    /// If the collection cannot be read.
    fn find(&mut self, value: RawBsonRef<'_>) -> Result<bool, E>;

    /// Advances to the next document. Returns `false` if there is no more, as long as no other value is asked for.
    ///
    /// # Errors
    /// If the collection cannot be read.
    fn advance(&mut self) -> Result<bool, E>;

    /// The current document.
    fn current(&self) -> &RawDocument;

    /// Releases resources that the index can get again. The current document stays.
    fn rest(&mut self);
}

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

    /// An index of `collection` on one field, which is asked without a plan for each value. Returns `None` if there is none, as
    /// by default: then everything is searched for.
    ///
    /// # Errors
    /// If the collection cannot be read.
    fn field_index(
        &self,
        _collection: &str,
        _field: &FieldPath,
        _variables: &Variables,
    ) -> Result<Option<Box<dyn FieldIndex<E> + Send + Sync>>, E> {
        Ok(None)
    }
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
