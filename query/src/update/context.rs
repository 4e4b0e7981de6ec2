//! The context of an update besides the document: why it is applied, and the values of the clock.
//!
//! All other files of the folder may import these types, errors included, so this file imports none of them.

use bson::{DateTime, Timestamp};

use crate::operation::OperationContext;

/// The reason why an update is applied to a document.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::update::{Context, Phase, Update};
///
/// let update = Update::parse(&rawdoc! { "$setOnInsert": { "created": true } }, &[])?;
/// let context = |phase| {
///     let timestamp = bson::Timestamp { time: 0, increment: 1 };
///     Context::new(phase, bson::DateTime::from_millis(0), timestamp)
/// };
/// let document = rawdoc! { "_id": 1 };
/// assert_eq!(update.apply(&document, &context(Phase::Modify))?, None);
/// let inserted = update.apply(&document, &context(Phase::Insert))?;
/// assert_eq!(inserted, Some(rawdoc! { "_id": 1, "created": true }));
/// # Ok::<(), cairndb_query::update::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The document is stored and is changed.
    Modify,
    /// The document is about to be inserted by an upsert, so `$setOnInsert` has effect.
    Insert,
}

/// The context of an update besides the document.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) phase: Phase,
    pub(super) now: DateTime,
    pub(super) timestamp: Timestamp,
    pub(super) position: Option<usize>,
    pub(super) operation: OperationContext,
}

impl Context {
    /// Creates a context. `$currentDate` writes `now` or `timestamp`.
    pub fn new(phase: Phase, now: DateTime, timestamp: Timestamp) -> Self {
        Self { phase, now, timestamp, position: None, operation: OperationContext::default() }
    }

    /// Sets the position of the array element that the positional operator `$` represents. It is what
    /// [`array_position`](crate::filter::Filter::array_position) of the filter returns for this document.
    pub fn with_position(self, position: Option<usize>) -> Self {
        Self { position, ..self }
    }

    /// Makes the update count its steps in `operation`, which may interrupt it.
    pub fn within(self, operation: OperationContext) -> Self {
        Self { operation, ..self }
    }
}
