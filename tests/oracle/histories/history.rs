//! The notes of the threads of a run: operations with the moments of their calls and returns, by one clock for all of
//! them.
//!
//! The clock is a counter. If one call returned before another began, its end is the lower number; nothing else is
//! concluded from the numbers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock of a run.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// A number above all that were returned before.
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// The number that the next call of [`Self::tick`] returns, or a lower one.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The time at which a call was under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.begun, self.ended)
    }
}

/// An operation that was acknowledged or rejected. One that was not begun, because the store was closed, is not noted: it
/// must not have done anything.
#[derive(Clone, Debug)]
pub(crate) struct Record<E> {
    pub(crate) span: Span,
    pub(crate) event: E,
}

impl<E> Record<E> {
    pub(crate) fn new(span: Span, event: E) -> Self {
        Self { span, event }
    }

    /// The same moment, for another description of what happened.
    pub(crate) fn with<F>(&self, event: F) -> Record<F> {
        Record { span: self.span, event }
    }
}

/// A record by hand, for the tests of the checkers.
#[cfg(test)]
pub(crate) fn at<E>(begun: u64, ended: u64, event: E) -> Record<E> {
    assert!(begun < ended, "a call returns after it began");
    Record { span: Span { begun, ended }, event }
}
