//! Updates: how operators or a pipeline change a document.
//!
//! [`Update::parse`] checks everything that can be known without a document. [`Update::apply`] then copies a document
//! and changes the fields that the operators name; all other fields are copied as bytes. A replacement is not an
//! update: [`is_replacement`] distinguishes them, and the caller stores it as it is.
//!
//! Imports go one way: `parse` and `upsert` build a tree of actions and have `walk` apply it, which uses `tree`, the
//! actions and their operands, and at the bottom `error` and `context`. No file of this folder imports this one.

mod action;
mod arithmetic;
mod array_filter;
mod bits;
mod context;
mod describe;
pub mod error;
mod leaf;
mod members;
mod memo;
mod operator;
mod parse;
mod patch;
mod path;
mod pipeline;
mod push;
mod rename;
mod replacement;
mod tree;
mod upsert;
mod walk;

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use index::collation::Collation;

use crate::expression::Variables;
use crate::update::error::Error;
use crate::update::parse::Operators;
use crate::update::pipeline::UpdatePipeline;

pub use crate::update::context::{Context, Phase};
pub use crate::update::describe::describe;
pub use crate::update::pipeline::unknown_stage;
pub use crate::update::replacement::is_replacement;
pub use crate::update::upsert::{UpsertStart, upsert_base};

/// An update, parsed once and applied to any number of documents from any number of threads.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::update::{Context, Phase, Update};
///
/// let update = Update::parse(&rawdoc! { "$inc": { "count": 1 }, "$push": { "tags": "new" } }, &[])?;
/// let now = bson::DateTime::from_millis(0);
/// let context = Context::new(Phase::Modify, now, bson::Timestamp { time: 0, increment: 1 });
/// let changed = update.apply(&rawdoc! { "_id": 1, "count": 2 }, &context)?;
/// assert_eq!(changed, Some(rawdoc! { "_id": 1, "count": 3, "tags": ["new"] }));
/// # Ok::<(), cairndb_query::update::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Update {
    body: UpdateBody,
}

#[derive(Clone, Debug)]
enum UpdateBody {
    Operators(Arc<Operators>),
    Pipeline(UpdatePipeline),
}

impl Update {
    /// Parses an update of operators, and the array filters that its paths refer to by `$[name]`.
    ///
    /// # Errors
    /// If an operator, a path, an argument or an array filter is malformed; [`Error::Replacement`] if the document has
    /// no operators.
    pub fn parse(update: &RawDocument, array_filters: &[RawDocumentBuf]) -> Result<Self, Error> {
        Self::parse_collated(update, array_filters, &Collation::simple())
    }

    /// Parses an update as [`parse`](Self::parse) does, with texts compared by a collation: by array filters, `$pull`,
    /// `$pullAll`, `$addToSet`, `$min`, `$max` and the `$sort` of `$push`.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_collated(
        update: &RawDocument,
        array_filters: &[RawDocumentBuf],
        collation: &Collation,
    ) -> Result<Self, Error> {
        let parse = || Ok(Arc::new(Operators::parse(update, array_filters, collation)?));
        let is_plain = array_filters.is_empty() && collation.is_simple();
        let operators = if is_plain { memo::remembered(update, parse)? } else { parse()? };
        Ok(Self { body: UpdateBody::Operators(operators) })
    }

    /// Parses an update that is a pipeline. Its stages are `$set`, `$unset`, `$project` and `$replaceWith`, or their
    /// aliases. Expressions may use `variables`.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::expression::Variables;
    /// use cairndb_query::update::{Context, Phase, Update};
    ///
    /// let stages = [rawdoc! { "$set": { "total": { "$add": ["$a", "$b"] } } }];
    /// let update = Update::parse_pipeline(&stages, &[], &Variables::default())?;
    /// let timestamp = bson::Timestamp { time: 0, increment: 1 };
    /// let context = Context::new(Phase::Modify, bson::DateTime::from_millis(0), timestamp);
    /// let changed = update.apply(&rawdoc! { "_id": 1, "a": 2, "b": 3 }, &context)?;
    /// assert_eq!(changed, Some(rawdoc! { "_id": 1, "a": 2, "b": 3, "total": 5 }));
    /// # Ok::<(), cairndb_query::update::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a stage is malformed; [`Error::ArrayFiltersOfPipeline`] if there are array filters.
    pub fn parse_pipeline(
        stages: &[RawDocumentBuf],
        array_filters: &[RawDocumentBuf],
        variables: &Variables,
    ) -> Result<Self, Error> {
        if !array_filters.is_empty() {
            return Err(Error::ArrayFiltersOfPipeline);
        }
        Ok(Self { body: UpdateBody::Pipeline(UpdatePipeline::parse(stages, variables)?) })
    }

    /// The same update with other values of its variables, which only a pipeline has. The variables must have the names that
    /// it was parsed with. Nothing is parsed again, and the stages are shared.
    #[must_use]
    pub fn with_variables(&self, variables: &Variables) -> Self {
        let body = match &self.body {
            UpdateBody::Operators(operators) => UpdateBody::Operators(Arc::clone(operators)),
            UpdateBody::Pipeline(pipeline) => UpdateBody::Pipeline(pipeline.with_variables(variables)),
        };
        Self { body }
    }

    /// Whether a path has the positional operator `$`. If so, the context must have a position.
    pub fn is_positional(&self) -> bool {
        match &self.body {
            UpdateBody::Operators(operators) => operators.is_positional,
            UpdateBody::Pipeline(_) => false,
        }
    }

    /// Applies the update to a copy of the document. Returns `None` if the result has the same bytes, so the caller
    /// need not write it.
    ///
    /// # Errors
    /// If the update cannot be applied to this document, for example [`Error::Mismatch`] for an `$inc` of a text, or
    /// if the result would be no valid document.
    pub fn apply(&self, document: &RawDocument, context: &Context) -> Result<Option<RawDocumentBuf>, Error> {
        let bytes = match &self.body {
            UpdateBody::Operators(operators) => operators.apply(document, context)?,
            UpdateBody::Pipeline(pipeline) => pipeline.apply(document, context.phase)?,
        };
        // MongoDB counts such a document as matched and not as modified.
        if bytes == document.as_bytes() {
            return Ok(None);
        }
        let changed = RawDocumentBuf::from_bytes(bytes);
        changed.map(Some).map_err(|error| Error::InvalidBson { reason: error.to_string() })
    }
}
