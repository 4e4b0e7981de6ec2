//! Projections: which fields of a document are shown, and which are computed.
//!
//! [`Projection::parse`] checks everything that can be checked without a document; [`Projection::apply`] copies the
//! bytes that stay and decodes nothing. What a projection may use differs between a command that finds, where
//! `$slice`, `$elemMatch` and `.$` show parts of arrays, and a stage, where `$slice` is an expression.

mod apply;
pub mod error;
mod parse;
mod slice;
mod tree;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Variables;
use crate::filter::Filter;
use crate::projection::error::Error;
use crate::projection::parse::{Parser, Place};
use crate::projection::tree::Node;

/// A projection, parsed once and applied to any number of documents from any number of threads.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::expression::Variables;
/// use cairndb_query::projection::Projection;
///
/// let variables = Variables::default();
/// let projection = rawdoc! { "_id": 0, "name": 1, "address.city": 1 };
/// let projection = Projection::parse(&projection, None, &variables)?;
/// let document = rawdoc! { "_id": 1, "address": { "city": "Ulm", "zip": 89073 }, "name": "Ada", "age": 36 };
/// let shown = projection.apply(&document, &variables)?;
/// assert_eq!(shown, rawdoc! { "address": { "city": "Ulm" }, "name": "Ada" });
/// # Ok::<(), cairndb_query::projection::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Projection {
    root: Node,
    mode: Mode,
    /// Finds the element that `.$` shows.
    filter: Option<Filter>,
}

/// What happens to the fields that a projection does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They are left out.
    Inclusion,
    /// They stay.
    Exclusion,
}

impl Projection {
    /// Reads the projection of a command that finds documents by `filter`.
    ///
    /// # Errors
    /// What is wrong with a path, an operator or an expression, or with what stands beside each other.
    pub fn parse(
        projection: &RawDocument,
        filter: Option<&Filter>,
        variables: &Variables,
    ) -> Result<Self, Error> {
        Parser::new(Place::Find(filter), variables).parse(projection)
    }

    /// Reads the argument of the stage `$project`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and if it is empty or uses what only commands can.
    pub fn parse_stage(projection: &RawDocument, variables: &Variables) -> Result<Self, Error> {
        if projection.is_empty() {
            return Err(Error::Empty);
        }
        Parser::new(Place::Stage, variables).parse(projection)
    }

    /// Whether every document is shown as it is.
    pub fn is_empty(&self) -> bool {
        self.mode == Mode::Exclusion && self.root.is_empty()
    }

    /// Whether it shows the element of an array by which a document matched, so that it needs the document that matched.
    pub fn is_positional(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether something is added to documents, rather than only left out.
    pub(crate) fn adds(&self) -> bool {
        self.root.adds()
    }

    /// What is shown of a document.
    ///
    /// `variables` must define what was defined when the projection was parsed, perhaps with other values.
    ///
    /// # Errors
    /// If an expression has no value, the filter found no element for `.$`, or the document is malformed.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf, Error> {
        if self.is_empty() {
            return Ok(document.to_owned());
        }
        apply::apply(self, document, variables)
    }
}

#[cfg(test)]
mod tests;
