//! The part of the ledger that is not written yet: gaps for the next write to list, and the counters of all
//! gaps.
//!
//! Explicit values within a large block, or acquirers that come and go, lose values again and again without a
//! write in between. So memory holds at most twice as many gaps as a ledger keeps. Gaps that the ledger would
//! have dropped by then are only counted.

use crate::run::Run;
use crate::state::Mark;
use crate::store::{Cause, GAPS_KEPT, Gap};

/// Gaps, and how many there were.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Values listed as lost, without the pending gaps.
    lost: u64,
    /// The number of the first pending gap.
    next_gap: u64,
    /// Gaps that the next write will list: always fewer than twice [`GAPS_KEPT`].
    pending: Vec<Gap>,
}

impl Ledger {
    pub(super) fn new(lost: u64, next_gap: u64) -> Self {
        Self { lost, next_gap, pending: Vec::new() }
    }

    /// Gaps that no write has listed.
    pub(super) fn pending(&self) -> &[Gap] {
        &self.pending
    }

    /// Values lost, those of the pending gaps included.
    pub(super) fn lost(&self) -> u64 {
        self.lost.saturating_add(count_of(&self.pending))
    }

    /// The number of the gap after the pending ones.
    pub(super) fn next_gap(&self) -> u64 {
        self.next_gap.saturating_add(self.pending.len() as u64)
    }

    /// Adds lost values. If they continue the last gap and have the same cause, both become one gap.
    pub(super) fn list(&mut self, run: Run, cause: Cause) {
        if run.is_empty() {
            return;
        }
        if let Some(last) = self.pending.last_mut()
            && last.cause == cause
            && let Some(joined) = last.run.joined(&run)
        {
            last.run = joined;
            return;
        }
        self.push(Gap { run, cause });
    }

    /// Adds a gap.
    pub(super) fn push(&mut self, gap: Gap) {
        self.pending.push(gap);
        // Half is dropped at once, so that a gap is moved only rarely: dropping one by one would move all the
        // others each time. Counters and numbers go on as if the dropped gaps had been written.
        if self.pending.len() >= 2 * GAPS_KEPT {
            let dropped = self.pending.len() - GAPS_KEPT;
            self.next_gap = self.next_gap.saturating_add(dropped as u64);
            let dropped = count_of(self.pending.drain(..dropped).as_slice());
            self.lost = self.lost.saturating_add(dropped);
        }
    }

    /// Removes the value that a caller set from the gap that it made: that value is in use and not lost.
    pub(super) fn spare(&mut self, value: i64) {
        if let Some(gap) = self.pending.last_mut().filter(|gap| gap.cause == Cause::ExplicitValue) {
            gap.run = gap.run.but_last(value);
        }
        self.pending.retain(|gap| !gap.run.is_empty());
    }

    /// Starts over after the pending gaps were written with `mark`.
    pub(super) fn settle(&mut self, mark: &Mark) {
        *self = Self::new(mark.lost, mark.next_gap);
    }

    /// The gaps for a last write to list.
    pub(super) fn into_pending(self) -> Vec<Gap> {
        self.pending
    }
}

/// The number of values that the gaps hold together.
fn count_of(gaps: &[Gap]) -> u64 {
    gaps.iter().fold(0, |sum, gap| sum.saturating_add(gap.run.count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_ledger_would_have_dropped_is_only_counted() {
        let mut ledger = Ledger::new(7, 3);
        for number in 0..1_000_000 {
            ledger.list(Run::new(10 * number, 1, 2), Cause::Conflict);
            assert!(ledger.pending().len() < 2 * GAPS_KEPT);
        }
        assert_eq!((ledger.lost(), ledger.next_gap()), (2_000_007, 1_000_003));
        assert_eq!(ledger.pending().len(), GAPS_KEPT, "half was dropped at once, just now");
        let newest = ledger.pending().get(ledger.pending().len() - GAPS_KEPT..).unwrap_or_default();
        assert_eq!(newest.first().map(|gap| gap.run.first()), Some(10 * 999_000));
        assert_eq!(newest.last().map(|gap| gap.run.first()), Some(10 * 999_999));
    }
}
