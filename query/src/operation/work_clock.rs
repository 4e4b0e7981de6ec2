//! The time that an operation has worked, without its pauses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::operation::looks::nanos;

/// A limit of time and what was used of it, in nanoseconds.
pub(super) struct WorkClock {
    base: Instant,
    limit: u64,
    /// The time at work before the last pause.
    spent: AtomicU64,
    /// The time at which work was resumed: nanoseconds after `base`, plus 1. It is 0 during a pause.
    since: AtomicU64,
}

impl WorkClock {
    /// A clock of an operation that may work for `limit` from now on.
    pub(super) fn starting_now(limit: Duration) -> Self {
        let (spent, since) = (AtomicU64::new(0), AtomicU64::new(1));
        Self { base: Instant::now(), limit: nanos(limit), spent, since }
    }

    /// Lets time count again.
    pub(super) fn resume(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    /// Lets time not count.
    pub(super) fn pause(&self) {
        self.spent.store(self.total(), Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
    }

    /// Whether the limit is reached.
    pub(super) fn is_over(&self) -> bool {
        self.total() >= self.limit
    }

    fn now(&self) -> u64 {
        nanos(self.base.elapsed()).saturating_add(1)
    }

    /// The time at work until now, pauses left out.
    pub(super) fn total(&self) -> u64 {
        let since = self.since.load(Ordering::Relaxed);
        // `since` is counted from 1, because 0 represents a pause.
        let running = if since == 0 { 0 } else { self.now().saturating_sub(since) };
        self.spent.load(Ordering::Relaxed).saturating_add(running)
    }
}
