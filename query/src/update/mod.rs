//! Updates: what becomes of a document by operators or by a pipeline.
//!
//! [`Update::parse`] checks everything that can be known without a document. [`Update::apply`] then copies a document
//! and changes what the operators name on the way; what lies between goes over as bytes. A replacement is not an
//! update: [`is_replacement`] tells them apart, and the caller writes it as it is.

mod action;
mod arithmetic;
mod array_filter;
mod bits;
mod context;
pub mod error;
mod leaf;
mod members;
mod operator;
mod parse;
mod path;
mod pipeline;
mod push;
mod rename;
mod replacement;
mod tree;
mod upsert;
mod walk;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Variables;
use crate::update::error::Error;
use crate::update::parse::Operators;
use crate::update::pipeline::UpdatePipeline;

pub use crate::update::context::{Context, Phase};
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
    Operators(Operators),
    Pipeline(UpdatePipeline),
}

impl Update {
    /// Reads an update of operators, and the array filters of its `$[name]`.
    ///
    /// # Errors
    /// What is wrong with an operator, a path, an argument or an array filter; [`Error::Replacement`] if there are no
    /// operators.
    pub fn parse(update: &RawDocument, array_filters: &[RawDocumentBuf]) -> Result<Self, Error> {
        Ok(Self { body: UpdateBody::Operators(Operators::parse(update, array_filters)?) })
    }

    /// Reads an update that is a pipeline of `$set`, `$unset`, `$project` and `$replaceWith`, or what else these are
    /// called. Its expressions may use `variables`, with these values.
    ///
    /// # Errors
    /// What is wrong with a stage; [`Error::ArrayFiltersOfPipeline`] if there are array filters.
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

    /// Whether a path has the positional operator `$`, so that the context must tell its position.
    pub fn is_positional(&self) -> bool {
        match &self.body {
            UpdateBody::Operators(operators) => operators.is_positional,
            UpdateBody::Pipeline(_) => false,
        }
    }

    /// The document as the update leaves it, or nothing if that is the same bytes.
    ///
    /// # Errors
    /// What the update cannot do with this document. Nothing is changed then.
    pub fn apply(&self, document: &RawDocument, context: &Context) -> Result<Option<RawDocumentBuf>, Error> {
        let bytes = match &self.body {
            UpdateBody::Operators(operators) => operators.apply(document, context)?,
            UpdateBody::Pipeline(pipeline) => pipeline.apply(document, context.phase)?,
        };
        if bytes == document.as_bytes() {
            return Ok(None);
        }
        let changed = RawDocumentBuf::from_bytes(bytes);
        changed.map(Some).map_err(|error| Error::InvalidBson { reason: error.to_string() })
    }
}
