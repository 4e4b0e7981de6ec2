//! How long an operation may work. The time between two calls of a cursor is the caller's and does not count.

use std::time::{Duration, Instant};

use crate::codes::refused;
use crate::error::{Error, MAX_TIME_EXPIRED, Result};

/// Records looked at between two looks at the clock.
const RECORDS_PER_CLOCK: u32 = 128;

/// What is left of the time that an operation was given.
pub(crate) struct TimeLimit {
    left: Duration,
    /// Since when the operation is working; absent between two calls.
    since: Option<Instant>,
    countdown: u32,
}

impl TimeLimit {
    /// A limit of zero is none.
    pub(crate) fn of(limit: Option<Duration>) -> Option<Self> {
        let left = limit.filter(|limit| !limit.is_zero())?;
        Some(Self { left, since: None, countdown: RECORDS_PER_CLOCK })
    }

    /// Work goes on.
    pub(crate) fn resume(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Work rests.
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    /// Counts one record, and fails once the time is over.
    #[inline]
    pub(crate) fn check(&mut self) -> Result<()> {
        self.countdown -= 1;
        if self.countdown > 0 {
            return Ok(());
        }
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        self.countdown = RECORDS_PER_CLOCK;
        let spent = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        if spent < self.left {
            return Ok(());
        }
        Err(expired())
    }
}

/// When an operation is to give up that nobody interrupts: a write, whose time runs from its beginning to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now; without a limit, or with one of zero, never.
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        let limit = limit.filter(|limit| !limit.is_zero());
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Whether there is any.
    pub(crate) fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// Fails once the time is over.
    pub(crate) fn check(self) -> Result<()> {
        if self.0.is_some_and(|end| Instant::now() >= end) { Err(expired()) } else { Ok(()) }
    }

    /// The time that is left, as the limit of what is done within it: never zero, which would be none.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0?.saturating_duration_since(Instant::now());
        Some(left.max(Duration::from_nanos(1)))
    }
}

fn expired() -> Error {
    refused(MAX_TIME_EXPIRED, "operation exceeded time limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn runs_out(limit: &mut TimeLimit) -> bool {
        (0..RECORDS_PER_CLOCK).any(|_| limit.check().is_err())
    }

    #[test]
    fn only_time_at_work_counts() {
        let mut limit = TimeLimit::of(Some(Duration::from_secs(3600))).expect("a limit");
        limit.resume();
        assert!(!runs_out(&mut limit));
        limit.pause();
        assert!(limit.left > Duration::from_secs(3000));
        limit.left = Duration::ZERO;
        limit.resume();
        assert!(runs_out(&mut limit));
    }

    #[test]
    fn a_deadline_passes_once() {
        let now = Deadline(Some(Instant::now()));
        assert_eq!(now.check().expect_err("it is over").code(), Some(MAX_TIME_EXPIRED));
        assert_eq!(now.left(), Some(Duration::from_nanos(1)));
        let later = Deadline::after(Some(Duration::from_secs(3600)));
        assert!(later.check().is_ok() && later.left() > Some(Duration::from_secs(3000)));
        for never in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
            assert!(!Deadline::after(never).is_set());
        }
    }

    #[test]
    fn no_time_is_no_limit() {
        assert!(TimeLimit::of(None).is_none());
        assert!(TimeLimit::of(Some(Duration::ZERO)).is_none());
    }
}
