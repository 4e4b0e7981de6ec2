//! Looking after the searches of one question to a filter, which answers yes or no and cannot fail by itself.

use std::cell::RefCell;

use pcre::error::MatchError;

use crate::pattern::Pattern;
use crate::value::shorten;

/// What happened while one document was asked.
#[derive(Debug, Default)]
pub(crate) struct Watch<'w> {
    /// Whether the request is over.
    is_over: Option<IsOver<'w>>,
    failure: RefCell<Option<Unanswered>>,
}

/// A search that found no answer within its limits.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The pattern, shortened.
    pub(crate) pattern: String,
    /// Why there is no answer.
    pub(crate) error: MatchError,
}

/// Asks whether a request is over.
#[derive(Clone, Copy)]
struct IsOver<'w>(&'w dyn Fn() -> bool);

impl std::fmt::Debug for IsOver<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("IsOver")
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
        let is_over = self.is_over;
        search(&|| is_over.is_some_and(|is_over| (is_over.0)())).unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(Unanswered { pattern: shorten(pattern.text()), error });
            false
        })
    }

    /// What was answered, unless a search had no answer.
    pub(crate) fn outcome<T>(self, answer: T) -> Result<T, Unanswered> {
        self.failure.into_inner().map_or(Ok(answer), Err)
    }
}
