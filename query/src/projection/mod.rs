//! Projections: which fields of a document are returned, and which are computed.
//!
//! [`Projection::parse`] checks everything that needs no document. [`Projection::apply`] copies the bytes of
//! the fields that stay and decodes nothing. The projection of a find command has `$slice`, `$elemMatch` and
//! `.$` for parts of arrays. That of the stage `$project` has none of these, and `$slice` is an expression
//! there.

mod apply;
pub mod error;
mod parse;
mod slice;
mod tree;

use bson::{RawDocument, RawDocumentBuf};
use index::path::FieldPath;

use crate::expression::Variables;
use crate::filter::Filter;
use crate::projection::error::Error;
use crate::projection::parse::{Dialect, Parser};
use crate::projection::tree::{Mode, Tree};

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
    tree: Tree,
}

impl Projection {
    /// Parses the projection of a find command. `filter` is the filter of the command, which `.$` needs.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::expression::Variables;
    /// use cairndb_query::filter::Filter;
    /// use cairndb_query::projection::Projection;
    ///
    /// let variables = Variables::default();
    /// let filter = Filter::parse(&rawdoc! { "grades": { "$gte": 85 } }).unwrap();
    /// let projection = Projection::parse(&rawdoc! { "grades.$": 1 }, Some(&filter), &variables)?;
    /// let shown = projection.apply(&rawdoc! { "_id": 1, "grades": [70, 87, 90] }, &variables)?;
    /// assert_eq!(shown, rawdoc! { "_id": 1, "grades": [87] });
    /// # Ok::<(), cairndb_query::projection::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// For a path, an operator or an expression that is rejected, and for parts that exclude each other.
    pub fn parse(
        projection: &RawDocument,
        filter: Option<&Filter>,
        variables: &Variables,
    ) -> Result<Self, Error> {
        Ok(Self { tree: Parser::new(Dialect::Find(filter), variables).parse(projection)? })
    }

    /// Parses the argument of the stage `$project`.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), and for an empty projection or one with what only find commands
    /// allow.
    pub fn parse_stage(projection: &RawDocument, variables: &Variables) -> Result<Self, Error> {
        if projection.is_empty() {
            return Err(Error::Empty);
        }
        Ok(Self { tree: Parser::new(Dialect::Stage, variables).parse(projection)? })
    }

    /// Whether the projection returns every document unchanged.
    pub fn is_empty(&self) -> bool {
        self.tree.mode == Mode::Exclusion && self.tree.root.is_empty()
    }

    /// Whether the projection has `.$`. It must be applied to the document that the filter matched then, and
    /// not to what an update made of it.
    pub fn is_positional(&self) -> bool {
        self.tree.filter.is_some()
    }

    /// The paths of the fields that the projection returns, if it returns them as they are and nothing else. Returns
    /// `None` if it computes something, selects parts of arrays, or returns all fields but some.
    pub fn included_fields(&self) -> Option<Vec<FieldPath>> {
        if self.tree.mode == Mode::Exclusion {
            return None;
        }
        let mut paths = Vec::new();
        self.tree.root.collect_included("", &mut paths)?;
        paths.iter().map(|path| FieldPath::parse(path).ok()).collect()
    }

    /// Whether the projection may add fields, and not only leave some out.
    pub(crate) fn adds(&self) -> bool {
        self.tree.root.adds()
    }

    /// The projected document.
    ///
    /// `variables` must define the same names as those that the projection was parsed with. The values may
    /// differ.
    ///
    /// # Errors
    /// If an expression fails, if the filter gives no element for `.$`, or if the document is malformed.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf, Error> {
        // One copy of the whole is cheaper than a walk that copies field by field.
        if self.is_empty() {
            return Ok(document.to_owned());
        }
        apply::apply(&self.tree, document, variables)
    }
}

#[cfg(test)]
mod tests;
