//! A block: a run of values that one acquirer hands out, and the atomic position in it.
//!
//! Drawing values is one `fetch_add`: every thread gets the values between the position it found and the one
//! it left. Skipping and closing are single operations on the same word. So each value is either handed out
//! once, or skipped and reported once as lost.
//!
//! The orderings serve the safe watermark. A writer registers its position and then draws a value. The draw
//! is a Release, and a reader of the position uses Acquire: a reader that sees the value drawn also sees the
//! registration.

use std::fmt;
use std::sync::Arc;

use crossbeam::utils::CachePadded;

use crate::run::Run;
use crate::state::Progress;
use crate::store::Provider;
use crate::sync::{AtomicU64, Ordering};

/// The position of a closed block: beyond any count, and far from overflowing by later attempts.
const CLOSED: u64 = 1 << 62;

/// A run with a position that many threads advance.
pub(crate) struct Block {
    run: Run,
    /// The position of the first value.
    start: SequencePosition,
    origin: Origin,
    /// The receipt of the write that made the block's reserve.
    receipt: u64,
    /// The number of drawn values at which the next reserve is requested. [`CLOSED`] means never.
    low_at: u64,
    provider: Option<Arc<dyn Provider>>,
    taken: CachePadded<AtomicU64>,
}

/// A position among all values of a sequence, in the order in which they are handed to acquirers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequencePosition {
    pub(crate) ordinal: u64,
    /// The value before the position. `None` at the first value.
    pub(crate) before: Option<i64>,
}

/// The origin of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The sequence's progress before the block was acquired.
    pub(crate) progress: Progress,
    /// The number of times that the sequence had started over once the block was drawn.
    pub(crate) cycled_count: i32,
}

impl Block {
    /// A block of which no value is drawn.
    pub(crate) fn new(run: Run, start: SequencePosition, origin: Origin, receipt: u64) -> Self {
        assert!(run.count() < CLOSED, "a block is shorter than the position of a closed one");
        let taken = CachePadded::new(AtomicU64::new(0));
        Self { run, start, origin, receipt, low_at: CLOSED, provider: None, taken }
    }

    /// Requests the next reserve when half of the block is used. For the last block of a reserve.
    pub(crate) fn asking(self, provider: Arc<dyn Provider>) -> Self {
        Self { low_at: self.run.count().div_ceil(2), provider: Some(provider), ..self }
    }

    /// An equal block that is open, with its first `taken` values drawn.
    pub(crate) fn reopened(&self, taken: u64) -> Self {
        let taken = CachePadded::new(AtomicU64::new(taken));
        Self { provider: self.provider.clone(), taken, ..*self }
    }

    /// Draws up to `count` values. Returns `None` if no value is left.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Option<Run> {
        // No attempt moves the position further than the block is long, so that it never overflows.
        let count = count.min(self.run.count());
        // A load first, so that attempts on a used-up block do not move its position on and on. Relaxed is
        // enough: the position only grows, so an old one errs towards trying, and `fetch_add` decides.
        if self.taken.load(Ordering::Relaxed) >= self.run.count() {
            return None;
        }
        // One operation, so no two threads get the same value. With a load and a store they could.
        let from = self.taken.fetch_add(count, Ordering::AcqRel);
        if from >= self.run.count() {
            return None;
        }
        // Exactly one taker crosses the mark, so the next reserve is requested once.
        if from < self.low_at && self.low_at <= from + count {
            self.ask();
        }
        Some(self.run.slice(from, from + count))
    }

    /// Draws one value. Returns `None` if no value is left.
    #[inline]
    pub(crate) fn take_one(&self) -> Option<i64> {
        // The load and the orderings are those of `take`.
        if self.taken.load(Ordering::Relaxed) >= self.run.count() {
            return None;
        }
        let position = self.taken.fetch_add(1, Ordering::AcqRel);
        if position + 1 == self.low_at {
            self.ask();
        }
        (position < self.run.count()).then(|| self.run.at(position))
    }

    #[cold]
    fn ask(&self) {
        if let Some(provider) = &self.provider {
            provider.provide();
        }
    }

    /// Skips every value up to `value`. Returns those that were skipped.
    pub(crate) fn skip_to(&self, value: i64) -> Run {
        let target = self.run.count_to(value);
        // The maximum leaves a position that takers have moved further, and a closed block closed. The values
        // from the position found up to the target belong to this call alone, so each is reported as lost
        // once.
        let from = self.taken.fetch_max(target, Ordering::AcqRel);
        self.run.slice(from, target)
    }

    /// Ends the block. Returns the values that were not drawn.
    pub(crate) fn close(&self) -> Run {
        // A swap: of two threads that close, only one gets the rest. Later takers find the position beyond
        // the end.
        let from = self.taken.swap(CLOSED, Ordering::AcqRel);
        self.run.slice(from, self.run.count())
    }

    /// The values that are not drawn yet. Without a closed block or a lock, some may be drawn at once.
    pub(crate) fn rest(&self) -> Run {
        self.run.slice(self.taken.load(Ordering::Acquire), self.run.count())
    }

    /// The last value that was drawn or skipped, or the value before the block. Returns `None` if there is
    /// neither.
    pub(crate) fn last_taken(&self) -> Option<i64> {
        self.position()?.before
    }

    /// The position of the next value. Returns `None` for a closed block, because it may be reopened where it
    /// was closed, before its end.
    #[inline]
    pub(crate) fn position(&self) -> Option<SequencePosition> {
        // Acquire pairs with the Release of a draw: see the header. With Relaxed the watermark could pass a
        // value that is drawn and not committed, because its writer's registration is not visible yet.
        let taken = self.taken.load(Ordering::Acquire);
        (taken < CLOSED).then(|| self.position_after(taken.min(self.run.count())))
    }

    /// The position after the first `taken` values.
    pub(crate) fn position_after(&self, taken: u64) -> SequencePosition {
        let before = if taken == 0 { self.start.before } else { Some(self.run.at(taken - 1)) };
        SequencePosition { ordinal: self.start.ordinal + taken, before }
    }

    /// The term after the last one that was drawn or skipped. It may lie beyond the block, and beyond 64
    /// bits.
    pub(crate) fn following(&self) -> i128 {
        let taken = self.taken.load(Ordering::Acquire).min(self.run.count());
        i128::from(self.run.first()) + i128::from(self.run.increment()) * i128::from(taken)
    }

    /// The progress of a sequence to which all but the first `taken` values are returned.
    pub(crate) fn progress_after(&self, taken: u64) -> Progress {
        match taken.checked_sub(1) {
            None => self.origin.progress,
            Some(last) => Progress::at(self.run.at(last), self.origin.cycled_count),
        }
    }

    pub(crate) fn cycled_count(&self) -> i32 {
        self.origin.cycled_count
    }

    pub(crate) fn run(&self) -> Run {
        self.run
    }

    pub(crate) fn receipt(&self) -> u64 {
        self.receipt
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("run", &self.run).field("rest", &self.rest()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The terms 11, 21, 31, 41 after the value 1, at the positions from 7 on.
    fn block() -> Block {
        let start = SequencePosition { ordinal: 7, before: Some(1) };
        Block::new(Run::new(11, 10, 4), start, Origin { progress: Progress::at(1, 0), cycled_count: 0 }, 0)
    }

    fn values(run: Run) -> Vec<i64> {
        run.values().collect()
    }

    #[test]
    fn values_are_taken_in_their_order() {
        let block = block();
        assert_eq!(block.take_one(), Some(11));
        assert_eq!(block.take(2).map(values), Some(vec![21, 31]));
        assert_eq!(values(block.rest()), [41]);
        assert_eq!(block.take(5).map(values), Some(vec![41]));
        assert_eq!((block.take(1), block.take_one(), block.last_taken()), (None, None, Some(41)));
    }

    #[test]
    fn no_count_moves_the_position_too_far() {
        let block = block();
        for _ in 0..3 {
            let _ = block.take(u64::MAX);
        }
        assert_eq!(block.taken.load(Ordering::Relaxed), 4);
    }

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Asked(AtomicU64);

    impl Provider for Asked {
        fn provide(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// After how many values the next reserve was asked for, when that number is drawn at once.
    fn asked_after(count: u64) -> u64 {
        let asked = Arc::new(Asked::default());
        let block = block().asking(asked.clone());
        let mut taken = 0;
        while let Some(run) =
            if count == 1 { block.take_one().map(|value| Run::new(value, 10, 1)) } else { block.take(count) }
        {
            taken += run.count();
            if asked.0.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        while block.take(count).is_some() {}
        assert_eq!(asked.0.load(Ordering::Relaxed), 1, "once");
        taken
    }

    #[test]
    fn the_next_reserve_is_asked_for_once_when_half_is_used() {
        assert_eq!([1, 2, 3, 4, 9].map(asked_after), [2, 2, 3, 4, 4]);
    }

    #[test]
    fn skipped_values_are_given_once() {
        let block = block();
        assert_eq!(values(block.skip_to(10)), [0; 0]);
        assert_eq!(values(block.skip_to(25)), [11, 21]);
        assert_eq!(values(block.skip_to(25)), [0; 0]);
        assert_eq!((block.take_one(), block.following()), (Some(31), 41));
        assert_eq!(values(block.skip_to(i64::MAX)), [41]);
    }

    #[test]
    fn a_closed_block_gives_its_rest_once_and_nothing_else() {
        let block = block();
        assert_eq!(block.take_one(), Some(11));
        assert_eq!(values(block.close()), [21, 31, 41]);
        assert_eq!((values(block.close()), values(block.skip_to(99))), (vec![], vec![]));
        assert_eq!((block.take(2), block.take_one(), block.position()), (None, None, None));
        assert!(block.rest().is_empty());
    }

    #[test]
    fn a_reopened_block_goes_on_where_it_was() {
        let block = block();
        block.take(3);
        let rest = block.close();
        let again = block.reopened(block.run().count() - rest.count());
        assert_eq!((values(again.rest()), again.position()), (vec![41], Some(block.position_after(3))));
    }

    #[test]
    fn positions_are_counted_from_the_start() {
        let block = block();
        assert_eq!(block.position(), Some(SequencePosition { ordinal: 7, before: Some(1) }));
        block.take(2);
        assert_eq!(block.position(), Some(SequencePosition { ordinal: 9, before: Some(21) }));
        assert_eq!(block.progress_after(0), Progress::at(1, 0));
        assert_eq!(block.progress_after(2), Progress::at(21, 0));
    }
}
