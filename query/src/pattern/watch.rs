//! The errors of regular expressions during one evaluation of a filter, whose functions return only `bool`.

use std::cell::RefCell;

use pcre::error::MatchError;

use crate::operation::{Interruption, OperationContext};
use crate::value::shorten;

/// Collects the first failure while a filter is applied to one document.
#[derive(Debug)]
pub(crate) struct Watch<'w> {
    operation: &'w OperationContext,
    failure: RefCell<Option<Unanswered>>,
}

/// The reason why an evaluation has no result.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The operation is to end.
    Interrupted(Interruption),
    /// A search exceeded its limits.
    Search {
        /// The pattern, shortened.
        pattern: String,
        /// Which limit it exceeded.
        error: MatchError,
    },
}

impl Default for Watch<'static> {
    /// A watch for an evaluation without limits.
    fn default() -> Self {
        // A watch borrows its operation, so the unlimited one lives in a static.
        static UNLIMITED: OperationContext = OperationContext::unlimited();
        Self::of(&UNLIMITED)
    }
}

impl<'w> Watch<'w> {
    /// A watch for an evaluation that belongs to `operation`.
    pub(crate) fn of(operation: &'w OperationContext) -> Self {
        Self { operation, failure: RefCell::new(None) }
    }

    /// Counts one step. Returns `false` if the evaluation is to end.
    ///
    /// Its result is meaningless then, and [`outcome`](Self::outcome) returns an error instead.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.operation.goes_on()
    }

    /// Counts the reading of `bytes` bytes. Returns `false` if the evaluation is to end.
    #[inline]
    pub(crate) fn passes(&self, bytes: usize) -> bool {
        self.operation.passes(bytes)
    }

    /// The result of a search with a pattern of this text. If the search fails, the result is `false`.
    pub(super) fn answer(
        &self,
        pattern: &str,
        search: impl FnOnce(&dyn Fn() -> bool) -> Result<bool, MatchError>,
    ) -> bool {
        // After a failure no result counts. Skipping the other searches keeps a document from exceeding many
        // limits in turn.
        if self.failure.borrow().is_some() {
            return false;
        }
        let operation = self.operation;
        search(&|| !operation.works_on()).unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(Unanswered::Search { pattern: shorten(pattern), error });
            false
        })
    }

    /// Returns `answer`, unless the operation is to end or a search failed.
    #[inline]
    pub(crate) fn outcome<T>(self, answer: T) -> Result<T, Unanswered> {
        // A search that was stopped with the operation has failed too. The operation's own reason comes
        // first.
        self.operation.verdict().map_err(Unanswered::Interrupted)?;
        self.failure.into_inner().map_or(Ok(answer), Err)
    }
}
