//! Changes to a sequence as a whole: attributes, current value, restart, truncation, name.
//!
//! A change stops all use of the sequence from the computation of the new state until it is published or
//! dropped. So the caller can change several sequences, and other data, by one write.

use std::sync::Arc;

use crate::allocator::held::{Frozen, Held};
use crate::allocator::ledger::Ledger;
use crate::allocator::sequence::{Sequence, number_of};
use crate::attributes::Options;
use crate::error::SequenceError;
use crate::slot::Slot;
use crate::state::{Mark, State};
use crate::store::{Cause, Change, Store};
use crate::sync::MutexGuard;
use crate::turn_lock::TurnGuard;

/// A change that is computed and not yet in force. No thread gets a value in the meantime. Dropping it undoes
/// it.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::store::{Cause, Store, Volatile};
///
/// let sequence = Sequence::new(Attributes::create(&Options::default())?);
/// let store = Volatile::default();
/// let changing = sequence.change(Cause::Restart, |state| state.restarted(500).map(Some))?;
/// let changing = changing.expect("the state differs");
/// let receipt = store.reserve(&changing.change())?;
/// changing.publish(receipt);
/// assert_eq!(sequence.take_one(sequence.shared(), &store)?, 500);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[must_use = "a change comes into force by publish()"]
pub struct Changing<'a> {
    sequence: &'a Sequence,
    _turn: TurnGuard<'a>,
    held: MutexGuard<'a, Held>,
    frozen: Vec<(Arc<Slot>, Frozen)>,
    state: State,
    mark: Mark,
    ledger: Ledger,
    published: bool,
}

impl Sequence {
    /// Computes a change by `step`, which returns the new state, or `None` if there is nothing to change. All
    /// blocks are given up; the values left in them are listed as lost by `cause`.
    ///
    /// # Errors
    /// The error of `step`, [`SequenceError::Retired`], and [`SequenceError::InDoubt`].
    pub fn change(
        &self,
        cause: Cause,
        step: impl FnOnce(&State) -> Result<Option<State>, SequenceError>,
    ) -> Result<Option<Changing<'_>>, SequenceError> {
        // The turn before the lock, as everywhere: so no ordered or gapless writer is under way.
        let turn = self.turns.lock();
        let mut held = self.held.lock();
        self.refuse_retired()?;
        self.refuse_doubt()?;
        let Some(state) = step(&held.state)? else { return Ok(None) };
        let before = held.ledger.clone();
        let mut frozen = Vec::new();
        // Takers need no lock, so every block is closed before its rest can be counted.
        let slots: Vec<Arc<Slot>> = held.slots().collect();
        for slot in slots {
            if let Some(block) = Frozen::of(&slot) {
                held.ledger.list(block.rest, cause);
                frozen.push((slot, block));
            }
        }
        // A sequence that starts again loses no values by its new start; one that moves forward loses those
        // between. A current value that is set counts as used, so it is not lost.
        let jumped = held.state.jumped_to(&state);
        let lost = if cause == Cause::Alter { jumped.but_last(state.current_value()) } else { jumped };
        held.ledger.list(lost, Cause::ExplicitValue);
        // Until the change is published the ledger stays as it was.
        let ledger = std::mem::replace(&mut held.ledger, before);
        let mark = held.mark_of(&state, &ledger);
        Ok(Some(Changing {
            sequence: self,
            _turn: turn,
            held,
            frozen,
            state,
            mark,
            ledger,
            published: false,
        }))
    }

    /// Changes attributes and current value in one write. If all of them stay the same, the blocks stay too.
    ///
    /// # Errors
    /// The first rule that is broken, [`SequenceError::Retired`], and the store's errors. Nothing changes
    /// then.
    pub fn alter<S: Store>(&self, options: &Options, store: &S) -> Result<(), S::Error> {
        self.apply(Cause::Alter, |state| state.altered(options), store)
    }

    /// Starts again with `value`, which is the next value.
    ///
    /// # Errors
    /// [`SequenceError::OptionRange`] outside of `MinValue` and `MaxValue`, else as [`alter`](Self::alter).
    pub fn restart<S: Store>(&self, value: i64, store: &S) -> Result<(), S::Error> {
        self.apply(Cause::Restart, |state| state.restarted(value).map(Some), store)
    }

    /// Moves forward, so that the next value of every acquirer is strictly beyond `value`. A sequence that
    /// was never used makes its first reserve before that, and keeps it even if the move is rejected.
    ///
    /// # Errors
    /// [`SequenceError::ValueUsed`] if the sequence has passed `value`, else as [`alter`](Self::alter).
    pub fn set_current_value<S: Store>(&self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        // A write of its own, so that the reserve stays even if the move below is rejected.
        let pretend = |state: &State| Ok(state.is_initial().then(|| state.pretend_first_reserve()));
        self.apply(Cause::ExplicitValue, pretend, store)?;
        if self.move_within_block(slot, value)? {
            return Ok(());
        }
        let changing = self.change(Cause::ExplicitValue, |state| state.moved_to(value).map(Some))?;
        changing.map_or(Ok(()), |changing| changing.sparing(value).write(store))
    }

    fn apply<S: Store>(
        &self,
        cause: Cause,
        step: impl FnOnce(&State) -> Result<Option<State>, SequenceError>,
        store: &S,
    ) -> Result<(), S::Error> {
        self.change(cause, step)?.map_or(Ok(()), |changing| changing.write(store))
    }

    /// Moves within the acquirer's block. Returns `false` if the block is used up or ends before `value`.
    fn move_within_block(&self, slot: &Slot, value: i64) -> Result<bool, SequenceError> {
        let mut held = self.held.lock();
        self.refuse_retired()?;
        let slot = self.slot_in_use(&held, slot);
        let Some(own) = slot.block().filter(|block| !block.rest().is_empty()) else { return Ok(false) };
        if !held.state.is_beyond(own.following(), value.into())
            && !held.state.is_beyond(own.run().last().into(), value.into())
        {
            return Ok(false);
        }
        let skipped = own.skip_to(value);
        if skipped.is_empty() {
            let reason = "the acquirer's next value is beyond it".to_owned();
            return Err(SequenceError::ValueUsed { value, reason });
        }
        held.ledger.list(skipped.but_last(value), Cause::ExplicitValue);
        // Blocks of other acquirers that start before the value would still hand out smaller ones, so they
        // end.
        let others: Vec<Arc<Slot>> = held.slots().collect();
        for other in others {
            let Some(block) = other.block().filter(|block| !Arc::ptr_eq(block, &own)) else { continue };
            if !held.state.is_beyond(block.following(), value.into()) {
                held.ledger.list(block.close(), Cause::ExplicitValue);
                other.clear();
            }
        }
        Ok(true)
    }
}

impl Changing<'_> {
    /// The change to write before it is published.
    pub fn change(&self) -> Change<'_> {
        let definition = Some((self.state.attributes(), self.state.version()));
        Change { mark: &self.mark, definition, gaps: self.ledger.pending() }
    }

    /// The state after the change.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Puts the change into force, after it was written, as a new sequence. The old sequence is retired.
    #[must_use]
    pub fn succeed(self, receipt: u64) -> Sequence {
        let mark = self.mark;
        let successor = Sequence::with_state(self.state.clone(), mark.reservations, mark.lost, mark.next_gap);
        successor.held.lock().touched = true;
        // Before `publish` gives the lock back: a taker that comes next must be rejected, or both sequences
        // would hand out the same values.
        self.sequence.retired.store(true, std::sync::atomic::Ordering::Release);
        self.publish(receipt);
        successor
    }

    /// Leaves the value that the caller set out of the lost values.
    fn sparing(mut self, value: i64) -> Self {
        self.ledger.spare(value);
        self.mark = self.held.mark_of(&self.state, &self.ledger);
        self
    }

    fn write<S: Store>(self, store: &S) -> Result<(), S::Error> {
        let receipt = store.reserve(&self.change())?;
        self.publish(receipt);
        Ok(())
    }

    /// Puts the change into force, after it was written with this receipt.
    pub fn publish(mut self, receipt: u64) {
        self.published = true;
        self.held.settle(&self.mark, receipt);
        self.held.state = self.state.clone();
        let contract = number_of(self.state.attributes().contract());
        self.sequence.contract.store(contract, std::sync::atomic::Ordering::Release);
        for (slot, _) in self.frozen.drain(..) {
            slot.clear();
        }
    }
}

impl Drop for Changing<'_> {
    /// Restores the blocks of a change that was not published.
    fn drop(&mut self) {
        for (slot, block) in self.frozen.drain(..) {
            block.thaw(&slot);
        }
        if !self.published {
            // The write may have failed with its mark on disk, after the mark of the reserve that was made
            // ahead. At the next open the last mark counts, so that reserve is no longer safe to use.
            self.held.ahead = None;
        }
    }
}
