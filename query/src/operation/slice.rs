//! A slice of an operation: work that others wait for, and that is given up if it lasts long.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The slice that an operation is in, if it is in one.
pub(super) struct SliceState {
    /// The step after which it is over.
    end: AtomicU64,
    /// Whether the operation was stopped for that.
    is_over: AtomicBool,
}

impl Default for SliceState {
    fn default() -> Self {
        Self { end: AtomicU64::new(u64::MAX), is_over: AtomicBool::new(false) }
    }
}

impl SliceState {
    /// Begins a slice that is over after the step `end`. `stopped` is why the operation was stopped.
    pub(super) fn begin<'a>(&'a self, end: u64, stopped: &'a AtomicU8) -> Slice<'a> {
        self.end.store(end, Ordering::Relaxed);
        Slice { state: Some((self, stopped)) }
    }

    /// Whether the operation must be stopped at this step. If so, that is noted.
    pub(super) fn is_over_at(&self, step: u64) -> bool {
        let is_over = step > self.end.load(Ordering::Relaxed);
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        is_over
    }
}

/// A part of an operation's work that may need so many steps: see [`OperationContext::slice`](super::OperationContext::slice).
#[must_use = "the slice ends when it is dropped"]
pub struct Slice<'a> {
    state: Option<(&'a SliceState, &'a AtomicU8)>,
}

impl Slice<'_> {
    /// The slice of an operation that counts no steps.
    pub(super) fn endless() -> Self {
        Self { state: None }
    }

    /// Whether it was stopped. What was computed in it is worth nothing then.
    pub fn is_over(&self) -> bool {
        self.state.is_some_and(|(slice, _)| slice.is_over.load(Ordering::Relaxed))
    }
}

impl Drop for Slice<'_> {
    fn drop(&mut self) {
        let Some((slice, stopped)) = self.state else { return };
        slice.end.store(u64::MAX, Ordering::Relaxed);
        // An operation that is to end for another reason finds it at its next look.
        if slice.is_over.swap(false, Ordering::Relaxed) {
            stopped.store(0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Slice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}
