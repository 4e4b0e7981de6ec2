//! Changes to a sequence as a whole: attributes, current value, restart, truncation, name.
//!
//! A change holds the sequence still from the moment at which the new state is computed until it is published or
//! dropped, so that several sequences and whatever belongs to them can be changed by one write of the caller's.

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

/// A change that is computed and not yet in force. Nobody gets a value in the meantime; dropping it undoes it.
#[must_use = "a change comes into force by publish()"]
pub struct Changing<'a> {
    sequence: &'a Sequence,
    _turn: MutexGuard<'a, ()>,
    held: MutexGuard<'a, Held>,
    frozen: Vec<(Arc<Slot>, Frozen)>,
    state: State,
    mark: Mark,
    ledger: Ledger,
    published: bool,
}

impl Sequence {
    /// Computes a change by `step`, which gives the new state or nothing if there is nothing to change. All blocks
    /// are given up; what is left of them is listed as lost by `cause`.
    ///
    /// # Errors
    /// What `step` refuses, [`SequenceError::Retired`], and [`SequenceError::InDoubt`].
    pub fn change(
        &self,
        cause: Cause,
        step: impl FnOnce(&State) -> Result<Option<State>, SequenceError>,
    ) -> Result<Option<Changing<'_>>, SequenceError> {
        let turn = self.turns.lock();
        let mut held = self.held.lock();
        self.refuse_retired()?;
        self.refuse_doubt()?;
        let Some(state) = step(&held.state)? else { return Ok(None) };
        let before = held.ledger.clone();
        let mut frozen = Vec::new();
        let slots: Vec<Arc<Slot>> = held.slots().collect();
        for slot in slots {
            if let Some(block) = Frozen::of(&slot) {
                held.ledger.list(block.rest, cause);
                frozen.push((slot, block));
            }
        }
        // A sequence that starts again loses nothing by where it starts; one that moves forward does. A current value
        // that is set counts as used.
        let jumped = held.state.jumped_to(&state);
        let lost = if cause == Cause::Alter { jumped.but_last(state.current_value()) } else { jumped };
        held.ledger.list(lost, Cause::ExplicitValue);
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

    /// Changes attributes and current value as one. A change that changes nothing is none: blocks stay.
    ///
    /// # Errors
    /// The first rule that is broken, [`SequenceError::Retired`], and what the store fails with; nothing changes then.
    pub fn alter<S: Store>(&self, options: &Options, store: &S) -> Result<(), S::Error> {
        self.apply(Cause::Alter, |state| state.altered(options), store)
    }

    /// Starts again with `value`.
    ///
    /// # Errors
    /// [`SequenceError::OptionRange`] outside of `MinValue` and `MaxValue`, else as [`alter`](Self::alter).
    pub fn restart<S: Store>(&self, value: i64, store: &S) -> Result<(), S::Error> {
        self.apply(Cause::Restart, |state| state.restarted(value).map(Some), store)
    }

    /// Moves forward, so that the next value of every acquirer is strictly beyond `value`. A sequence that was never
    /// used first counts as having made its first reserve, and that stays so even if the move is refused.
    ///
    /// # Errors
    /// [`SequenceError::ValueUsed`] when `value` does not lie ahead, else as [`alter`](Self::alter).
    pub fn set_current_value<S: Store>(&self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
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

    /// Moves within the acquirer's block; `false` if the block is used up or ends before `value`.
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
            let reason = "the acquirer's next value lies behind it".to_owned();
            return Err(SequenceError::ValueUsed { value, reason });
        }
        held.ledger.list(skipped.but_last(value), Cause::ExplicitValue);
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
    /// What is to be written before the change is published.
    pub fn change(&self) -> Change<'_> {
        let definition = Some((self.state.attributes(), self.state.version()));
        Change { mark: &self.mark, definition, gaps: self.ledger.pending() }
    }

    /// The state after the change.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Brings the change into force as another sequence, which takes the place of this one: it has been written.
    #[must_use]
    pub fn succeed(self, receipt: u64) -> Sequence {
        let mark = self.mark;
        let successor = Sequence::with_state(self.state.clone(), mark.reservations, mark.lost, mark.next_gap);
        successor.held.lock().touched = true;
        self.sequence.retired.store(true, std::sync::atomic::Ordering::Release);
        self.publish(receipt);
        successor
    }

    /// The same, but for a value that the caller brought: it is jumped over and not lost.
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

    /// Brings the change into force: it has been written.
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
    /// Without having been published, everything is as it was.
    fn drop(&mut self) {
        for (slot, block) in self.frozen.drain(..) {
            block.thaw(&slot);
        }
        if !self.published {
            // The write may have failed with its mark on disk, behind that of the next reserve.
            self.held.ahead = None;
        }
    }
}
