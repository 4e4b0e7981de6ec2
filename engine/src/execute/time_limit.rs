//! How long an operation may work. The time between two calls of a cursor is the caller's and does not count.

use std::time::{Duration, Instant};

use crate::codes::refused;
use crate::error::Result;

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
        Err(refused(50, "operation exceeded time limit"))
    }
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
    fn no_time_is_no_limit() {
        assert!(TimeLimit::of(None).is_none());
        assert!(TimeLimit::of(Some(Duration::ZERO)).is_none());
    }
}
