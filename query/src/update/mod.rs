//! Updates: what becomes of a document by operators or by a pipeline.
//!
//! [`Update::parse`] checks everything that can be known without a document. [`Update::apply`] then copies a document
//! and changes what the operators name on the way; what lies between goes over as bytes. A replacement is not an
//! update: [`is_replacement`] tells them apart, and the caller writes it as it is.

mod action;
mod arithmetic;
mod array_filter;
mod bits;
pub mod error;
mod leaf;
mod members;
mod operator;
mod parse;
mod path;
mod pipeline;
mod push;
mod rename;
mod tree;
mod upsert;
mod walk;

use bson::{DateTime, RawDocument, RawDocumentBuf, Timestamp};

use crate::expression::Variables;
use crate::operation::OperationContext;
use crate::raw::Fields;
use crate::update::error::Error;
use crate::update::parse::Operators;
use crate::update::pipeline::Pipeline;

pub use crate::update::pipeline::unknown_stage;
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
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Operators(Operators),
    Pipeline(Pipeline),
}

/// What a document is updated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is stored, and changed.
    Modify,
    /// It is about to be inserted by an upsert: `$setOnInsert` counts.
    Insert,
}

/// What an update needs to know beside the document.
#[derive(Clone, Debug)]
pub struct Context {
    phase: Phase,
    now: DateTime,
    timestamp: Timestamp,
    position: Option<usize>,
    operation: OperationContext,
}

impl Context {
    /// A context with the clock's values for `$currentDate`.
    pub fn new(phase: Phase, now: DateTime, timestamp: Timestamp) -> Self {
        Self { phase, now, timestamp, position: None, operation: OperationContext::default() }
    }

    /// With the element that the positional operator `$` stands for: the filter's
    /// [`array_position`](crate::filter::Filter::array_position) in this document.
    pub fn with_position(self, position: Option<usize>) -> Self {
        Self { position, ..self }
    }

    /// With what the operation that updates may use.
    pub fn within(self, operation: OperationContext) -> Self {
        Self { operation, ..self }
    }
}

impl Update {
    /// Reads an update of operators, and the array filters of its `$[name]`.
    ///
    /// # Errors
    /// What is wrong with an operator, a path, an argument or an array filter; [`Error::Replacement`] if there are no
    /// operators.
    pub fn parse(update: &RawDocument, array_filters: &[RawDocumentBuf]) -> Result<Self, Error> {
        Ok(Self { body: Body::Operators(Operators::parse(update, array_filters)?) })
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
        Ok(Self { body: Body::Pipeline(Pipeline::parse(stages, variables)?) })
    }

    /// Whether a path has the positional operator `$`, so that the context must tell its position.
    pub fn is_positional(&self) -> bool {
        match &self.body {
            Body::Operators(operators) => operators.is_positional,
            Body::Pipeline(_) => false,
        }
    }

    /// The document as the update leaves it, or nothing if that is the same bytes.
    ///
    /// # Errors
    /// What the update cannot do with this document. Nothing is changed then.
    pub fn apply(&self, document: &RawDocument, context: &Context) -> Result<Option<RawDocumentBuf>, Error> {
        let bytes = match &self.body {
            Body::Operators(operators) => operators.apply(document, context)?,
            Body::Pipeline(pipeline) => pipeline.apply(document, context.phase)?,
        };
        if bytes == document.as_bytes() {
            return Ok(None);
        }
        let changed = RawDocumentBuf::from_bytes(bytes);
        changed.map(Some).map_err(|error| Error::InvalidBson { reason: error.to_string() })
    }
}

/// Whether a document that stands for an update is a replacement: its first name is no operator.
///
/// # Errors
/// [`Error::DollarField`] if an operator follows a plain field, [`Error::UnknownOperator`] if it is the other way round.
pub fn is_replacement(update: &RawDocument) -> Result<bool, Error> {
    let mut is_replacement = true;
    for (at, field) in Fields::of(update).enumerate() {
        let name = field?.name();
        let is_operator = name.starts_with('$');
        if at == 0 {
            is_replacement = !is_operator;
        } else if is_replacement && is_operator && !matches!(name, "$ref" | "$id" | "$db") {
            return Err(Error::DollarField { name: name.to_owned() });
        } else if !is_replacement && !is_operator {
            return Err(Error::UnknownOperator { operator: name.to_owned() });
        }
    }
    Ok(is_replacement)
}

/// What is wrong with bytes, in the words of an update.
fn malformed(error: &index::error::Error) -> Error {
    if let index::error::Error::DocumentTooDeep { limit, .. } = error {
        return Error::TooDeep { limit: *limit };
    }
    Error::InvalidBson { reason: error.to_string() }
}
