//! Filters: which documents a query selects.
//!
//! [`Filter::parse`] checks everything once; [`Filter::matches`] then cannot fail and decodes nothing. What an operator
//! means for one value stands in the module of its family, and how a path reaches values in the `index` crate.

mod array;
mod bits;
mod bounds;
mod compare;
mod element;
mod evaluate;
mod operator;
mod parse;
mod pattern;
mod translate;

use bson::RawDocument;
use index::interval::Intervals;

use crate::error::Error;
use crate::filter::evaluate::Node;

/// A filter, parsed once and matched against any number of documents from any number of threads.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
///
/// let filter = Filter::parse(&rawdoc! { "tags": { "$in": ["red", "blue"] }, "size.h": { "$gt": 10 } })?;
/// assert!(filter.matches(&rawdoc! { "tags": ["blue", "plain"], "size": { "h": 14.5 } }));
/// assert!(!filter.matches(&rawdoc! { "tags": "blue" }));
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
}

/// Whether values of a field may be arrays or lie in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// No document has an array at the path or on the way to it, as for `_id` and every index that is not multikey.
    Absent,
    /// Some document may have one.
    Possible,
}

impl Filter {
    /// Reads a filter and checks all its operators and arguments.
    pub fn parse(filter: &RawDocument) -> Result<Self, Error> {
        Ok(Self { root: parse::parse(filter)? })
    }

    /// Whether a document matches.
    pub fn matches(&self, document: &RawDocument) -> bool {
        self.root.matches(document)
    }

    /// Whether the filter asks nothing, so that every document matches.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::All(nodes) if nodes.is_empty())
    }

    /// Values of the dotted `path`, at least one of which every matching document has; perhaps more than needed,
    /// and all values if nothing is known.
    ///
    /// A document "has" what an index on the path holds for it: the value, null for a missing field, and for an
    /// array its elements, or undefined if it is empty. Where arrays are absent there is only one value, and the
    /// conditions of the filter narrow it together; otherwise each may be met by another element, and the
    /// narrowest is taken.
    ///
    /// ```
    /// use bson::{RawBsonRef, rawdoc};
    /// use cairndb_query::filter::{Arrays, Filter};
    ///
    /// let filter = Filter::parse(&rawdoc! { "_id": { "$gt": 5, "$lte": 9 }, "color": "red" })?;
    /// let ids = filter.intervals("_id", Arrays::Absent);
    /// assert!(ids.contains(RawBsonRef::Int32(9)) && !ids.contains(RawBsonRef::Int32(5)));
    /// # Ok::<(), cairndb_query::error::Error>(())
    /// ```
    pub fn intervals(&self, path: &str, arrays: Arrays) -> Intervals {
        bounds::intervals(&self.root, path, arrays)
    }
}
