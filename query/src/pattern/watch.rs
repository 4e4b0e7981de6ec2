//! Looking after the searches of one question to a filter, which answers yes or no and cannot fail by itself.

use std::cell::RefCell;

use pcre::error::MatchError;

use crate::operation::{Interruption, OperationContext};
use crate::pattern::Pattern;
use crate::value::shorten;

/// What happened while one document was asked for an operation.
#[derive(Debug)]
pub(crate) struct Watch<'w> {
    operation: &'w OperationContext,
    failure: RefCell<Option<Unanswered>>,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The operation is to end.
    Interrupted(Interruption),
    /// A search found none within its limits.
    Search {
        /// The pattern, shortened.
        pattern: String,
        /// What the search met.
        error: MatchError,
    },
}

impl Default for Watch<'static> {
    /// For a question without limits.
    fn default() -> Self {
        static UNLIMITED: OperationContext = OperationContext::unlimited();
        Self::of(&UNLIMITED)
    }
}

impl<'w> Watch<'w> {
    /// For a question of an operation.
    pub(crate) fn of(operation: &'w OperationContext) -> Self {
        Self { operation, failure: RefCell::new(None) }
    }

    /// Counts one step; `false` if the question is to end. Its answer means nothing then, which
    /// [`outcome`](Self::outcome) tells.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.operation.goes_on()
    }

    /// Counts looking at `bytes` bytes; `false` if the question is to end.
    #[inline]
    pub(crate) fn passes(&self, bytes: usize) -> bool {
        self.operation.passes(bytes)
    }
}

impl Watch<'_> {
    /// The answer of a search, `false` if it has none. After one without answer no further search is begun.
    pub(super) fn answer(
        &self,
        pattern: &Pattern,
        search: impl FnOnce(&dyn Fn() -> bool) -> Result<bool, MatchError>,
    ) -> bool {
        if self.failure.borrow().is_some() {
            return false;
        }
        let operation = self.operation;
        search(&|| operation.look().is_err()).unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(Unanswered::Search { pattern: shorten(pattern.text()), error });
            false
        })
    }

    /// What was answered, unless the operation is to end or a search had no answer.
    #[inline]
    pub(crate) fn outcome<T>(self, answer: T) -> Result<T, Unanswered> {
        self.operation.verdict().map_err(Unanswered::Interrupted)?;
        self.failure.into_inner().map_or(Ok(answer), Err)
    }
}
