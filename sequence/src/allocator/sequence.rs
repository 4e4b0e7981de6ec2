//! Handing out a sequence's values to many threads, each value once.
//!
//! While a block lasts, values are taken from it without a lock ([`Slot::take_one`]). Everything else goes through
//! one lock, in one order: compute the next state, make it durable, then show it. A block that is to be dropped
//! is closed before the write, so that what is lost is known exactly, and put back if the write fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::allocator::held::{Held, Taken};
use crate::allocator::ledger::Ledger;
use crate::attributes::{Attributes, Contract};
use crate::error::SequenceError;
use crate::in_flight::{InFlight, Pass};
use crate::slot::Slot;
use crate::state::{Mark, State};
use crate::store::{Cause, Gap, Record, Store};
use crate::sync::Mutex;

/// A sequence in memory, shared by all threads.
pub struct Sequence {
    pub(super) held: Mutex<Held>,
    /// Held by a writer of an ordered or gapless sequence until its commit is visible, and by every change.
    pub(super) turns: Mutex<()>,
    pub(super) shared: Arc<Slot>,
    /// The block of an ordered sequence; only whoever has the turn takes from it.
    pub(super) ordered: Arc<Slot>,
    in_flight: InFlight,
    pub(super) contract: AtomicU8,
    pub(super) retired: AtomicBool,
    /// A value was written with its document, and it is not known whether that succeeded. Whoever has the turn looks.
    pub(super) in_doubt: AtomicBool,
}

/// What is known of a sequence at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it was declared to be.
    pub attributes: Attributes,
    /// How often attributes, name or content were reset.
    pub version: i64,
    /// The end of the durable reserve; while `initial`, the value to start with.
    pub current_value: i64,
    /// Whether no value was taken yet.
    pub initial: bool,
    /// How often the sequence has started over.
    pub cycled_count: i32,
    /// The last value that the shared acquirer handed out or skipped, as far as it is known.
    pub last_used: Option<i64>,
    /// How many values are left, in blocks too, before the sequence ends or starts over.
    pub remaining: u64,
    /// How many reserves were written.
    pub reservations: u64,
    /// How many values are listed as lost.
    pub lost: u64,
}

impl Sequence {
    /// A new sequence, which nobody has used.
    pub fn new(attributes: Attributes) -> Self {
        Self::with_state(State::new(attributes), 0, 0, 0)
    }

    /// A sequence that stands somewhere already.
    pub fn of_state(state: State) -> Self {
        Self::with_state(state, 0, 0, 0)
    }

    /// A stored sequence. What was reserved and not given back counts as used, and is listed as lost.
    pub fn restore(record: Record) -> Self {
        let mark = record.mark;
        let state = State::restore(record.attributes, record.version, &mark);
        let crashed =
            mark.open_from.filter(|_| !mark.clean).and_then(|first| state.reserve_from(first.into()));
        let sequence = Self::with_state(state, mark.reservations, mark.lost, mark.next_gap);
        if let Some(run) = crashed {
            sequence.held.lock().ledger.push(Gap { run, cause: Cause::Crash });
        }
        sequence
    }

    pub(super) fn with_state(state: State, reservations: u64, lost: u64, next_gap: u64) -> Self {
        let contract = AtomicU8::new(number_of(state.attributes().contract()));
        let (shared, ordered) = (Arc::default(), Arc::default());
        let held = Held {
            state,
            reservations,
            ledger: Ledger::new(lost, next_gap),
            receipt: 0,
            ahead: None,
            next_ordinal: 0,
            slots: vec![Arc::downgrade(&shared), Arc::downgrade(&ordered)],
            touched: false,
        };
        Self {
            held: Mutex::new(held),
            turns: Mutex::new(()),
            shared,
            ordered,
            in_flight: InFlight::default(),
            contract,
            retired: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
        }
    }

    /// The slot of the acquirer that all threads share.
    pub fn shared(&self) -> &Arc<Slot> {
        &self.shared
    }

    /// What the sequence promises. It can change with the attributes.
    #[inline]
    pub fn contract(&self) -> Contract {
        match self.contract.load(Ordering::Acquire) {
            1 => Contract::Ordered,
            2 => Contract::Gapless,
            _ => Contract::Fast,
        }
    }

    /// Dropped or renamed: whoever holds it must look the name up again.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes one value.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`], [`SequenceError::Retired`], and what the store fails with; nothing is taken then.
    pub fn take_one<S: Store>(&self, slot: &Slot, store: &S) -> Result<i64, S::Error> {
        match slot.take_one() {
            Some(value) => Ok(value),
            None => Ok(self.take(slot, 1, store)?.run.first()),
        }
    }

    /// Takes up to `count` values, at least one, from one block.
    ///
    /// # Errors
    /// As [`take_one`](Self::take_one).
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn take<S: Store>(&self, slot: &Slot, count: u64, store: &S) -> Result<Taken, S::Error> {
        assert!(count > 0, "at least one value is taken");
        if let Some((run, receipt)) = slot.take(count) {
            return Ok(Taken { run, receipt });
        }
        if let Some(taken) = self.take_from_store(slot, count, store)? {
            return Ok(taken);
        }
        self.turn().take(slot, count, store)
    }

    /// Registers a writer whose values may still become visible until the pass is dropped.
    #[inline]
    pub fn enter(&self, slot: &Slot) -> Pass<'_> {
        if let Some(position) = slot.position() {
            return self.in_flight.enter(position);
        }
        // Under the lock, so that no value in front of the place is taken back before the writer is seen.
        let held = self.held.lock();
        let position = slot.block().and_then(|block| block.position()).unwrap_or_else(|| held.position());
        self.in_flight.enter(position)
    }

    /// Registers a writer, and takes its first value if a block lasts, with one look at the block.
    #[inline]
    pub fn enter_taking(&self, slot: &Slot) -> (Pass<'_>, Option<i64>) {
        slot.position_then_take(|position| self.in_flight.enter(position))
            .unwrap_or_else(|| (self.enter(slot), None))
    }

    /// Makes the next reserve ahead of need: writes and syncs it, so that no taker waits for either. Does nothing where
    /// there is one already, and where none can be made. No value of it leaves before the sync succeeded.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], and what the store fails with.
    pub fn reserve_ahead<S: Store>(&self, store: &S) -> Result<(), S::Error> {
        let written = {
            let mut held = self.held.lock();
            self.refuse_retired()?;
            held.reserve_ahead(store)?
        };
        // Takers go on meanwhile: they have half a block, and the lock is free.
        written.map_or(Ok(()), |receipt| store.make_durable(receipt))
    }

    /// Takes note of a value that a document brings: no block hands it out, or one before it, any more, and the
    /// sequence goes on strictly beyond it. A value that lies behind changes nothing; neither does one that comes
    /// to an exhausted sequence. For an ordered or gapless sequence this waits for the turn.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], and what the store fails with; no acquirer skips the value then.
    pub fn announce<S: Store>(&self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        let mut held = self.held.lock();
        self.refuse_retired()?;
        if held.state.attributes().contract() == Contract::Fast {
            return held.announce(slot, value, store);
        }
        drop(held);
        self.turn().announce(value, store)
    }

    /// Gives up the rest of an acquirer's block, because a value of it was in use.
    pub fn give_up(&self, slot: &Slot) {
        let mut held = self.held.lock();
        if let Some(block) = slot.block() {
            held.ledger.list(block.close(), Cause::Conflict);
            slot.clear();
        }
    }

    /// The last value that was taken through `slot`; where there is none, the end of the durable reserve.
    ///
    /// # Errors
    /// [`SequenceError::NeverUsed`], [`SequenceError::Retired`].
    pub fn current_value(&self, slot: &Slot) -> Result<i64, SequenceError> {
        let held = self.held.lock();
        self.refuse_retired()?;
        let slot = self.slot_in_use(&held, slot);
        if held.state.is_initial() {
            return Err(SequenceError::NeverUsed);
        }
        let taken = slot.block().and_then(|block| block.last_taken());
        Ok(taken.unwrap_or_else(|| held.state.current_value()))
    }

    /// The highest value, in the sequence's order, such that no value up to it can still become visible. Nothing
    /// while even the first value can.
    ///
    /// Values that inserts take are watched until their commit; a value that was handed to the application counts
    /// as visible at once. A document that brings a value which lies behind is outside of the promise.
    pub fn safe_watermark(&self) -> Option<i64> {
        let turn = (self.contract() != Contract::Fast).then(|| self.turns.lock());
        let held = self.held.lock();
        let in_blocks =
            held.blocks().filter(|block| !block.rest().is_empty()).filter_map(|block| block.position());
        let next = in_blocks.chain([held.position()]).min_by_key(|position| position.ordinal);
        // Read after the blocks: see `in_flight`.
        let lowest = self.in_flight.lowest();
        drop(turn);
        next.into_iter()
            .chain(lowest)
            .min_by_key(|position| position.ordinal)
            .and_then(|position| position.before)
    }

    /// What is known at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let held = self.held.lock();
        let state = &held.state;
        let in_blocks: u64 = held.blocks().map(|block| block.rest().count()).sum();
        let slot = self.slot_in_use(&held, &self.shared);
        Snapshot {
            attributes: state.attributes().clone(),
            version: state.version(),
            current_value: state.current_value(),
            initial: state.is_initial(),
            cycled_count: state.cycled_count(),
            last_used: slot.block().and_then(|block| block.last_taken()).or(state.used()),
            remaining: state.remaining().saturating_add(in_blocks),
            reservations: held.reservations,
            lost: held.ledger.lost(),
        }
    }

    /// The value up to which all count as used, if the sequence were closed now: what a copy of it has to start behind.
    /// Nothing if no value was used yet.
    pub fn used_up_to(&self) -> Option<i64> {
        self.held.lock().used_up_to()
    }

    /// Whether `value` and all values before it count as used.
    pub fn has_used(&self, value: i64) -> bool {
        let held = self.held.lock();
        held.used_up_to().is_some_and(|used| !held.state.is_beyond(value.into(), used.into()))
    }

    /// Gaps that no write has listed yet: those since the last one, and what a crash left behind. If there are more than
    /// a ledger keeps, the newest.
    pub fn pending_gaps(&self) -> Vec<Gap> {
        self.held.lock().ledger.pending().to_vec()
    }

    /// Ends all use, when no writer has the turn: from now on everything answers [`SequenceError::Retired`].
    pub fn retire(&self) {
        let Ok(()) = self.end(|| Ok::<(), std::convert::Infallible>(()));
    }

    /// Ends all use by `commit`, which removes the sequence from the store: nothing is written of it while the commit
    /// runs, and nothing after it. If it fails, the sequence goes on.
    ///
    /// # Errors
    /// What `commit` fails with.
    pub fn end<E>(&self, commit: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _turn = self.turns.lock();
        let held = self.held.lock();
        // A reserve that is made ahead takes this lock: it is written before the removal or not at all.
        commit()?;
        self.retired.store(true, Ordering::Release);
        for block in held.blocks() {
            block.close();
        }
        Ok(())
    }

    /// Ends all use at a clean close, and gives what to write so that the next open goes on without a gap: the mark,
    /// and the gaps to list. Nothing if the store holds it already, and if the outcome of its last write is unknown: then
    /// the store knows better.
    pub fn close(&self) -> Option<(Mark, Vec<Gap>)> {
        let _turn = self.turns.lock();
        let mut held = self.held.lock();
        let is_written = self.is_in_doubt() || !held.touched;
        if self.retired.swap(true, Ordering::AcqRel) || is_written {
            return None;
        }
        let slots: Vec<Arc<Slot>> = held.slots().collect();
        held.take_back(&slots, None);
        held.state = held.state.without_reserve();
        let reservations = held.reservations;
        let mark = Mark { clean: true, reservations, ..held.mark_of(&held.state, &held.ledger) };
        let written = Ledger::new(mark.lost, mark.next_gap);
        Some((mark, std::mem::replace(&mut held.ledger, written).into_pending()))
    }

    pub(crate) fn open_slot(&self) -> Arc<Slot> {
        let slot = Arc::default();
        let mut held = self.held.lock();
        held.slots.retain(|slot| slot.strong_count() > 0);
        held.slots.push(Arc::downgrade(&slot));
        slot
    }

    pub(crate) fn close_slot(&self, slot: &Arc<Slot>) {
        let mut held = self.held.lock();
        if !self.is_retired() {
            held.take_back(std::slice::from_ref(slot), self.in_flight.highest());
        }
    }

    /// Refills the slot and takes from it; nothing if the sequence's writers take turns.
    fn take_from_store<S: Store>(
        &self,
        slot: &Slot,
        count: u64,
        store: &S,
    ) -> Result<Option<Taken>, S::Error> {
        let mut held = self.held.lock();
        self.refuse_retired()?;
        if held.state.attributes().contract() != Contract::Fast {
            return Ok(None);
        }
        held.take_through(slot, count, store).map(Some)
    }

    /// Where an acquirer's values come from: an ordered sequence has one block for all of them.
    pub(super) fn slot_in_use<'s>(&'s self, held: &Held, own: &'s Slot) -> &'s Slot {
        if held.state.attributes().contract() == Contract::Ordered { &self.ordered } else { own }
    }

    pub(super) fn refuse_retired(&self) -> Result<(), SequenceError> {
        if self.is_retired() { Err(SequenceError::Retired) } else { Ok(()) }
    }

    /// For whoever has the turn: others find writes under way that are no doubt yet.
    pub(super) fn refuse_doubt(&self) -> Result<(), SequenceError> {
        if self.is_in_doubt() { Err(SequenceError::InDoubt) } else { Ok(()) }
    }

    fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }
}

pub(super) fn number_of(contract: Contract) -> u8 {
    match contract {
        Contract::Fast => 0,
        Contract::Ordered => 1,
        Contract::Gapless => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Options;

    /// Each was looked at by every write, so they must not pile up.
    #[test]
    fn slots_of_closed_acquirers_are_forgotten() {
        let sequence = Sequence::new(Attributes::create(&Options::default()).unwrap());
        for _ in 0..10 {
            let slot = sequence.open_slot();
            sequence.close_slot(&slot);
        }
        let kept = sequence.open_slot();
        assert_eq!(sequence.held.lock().slots.len(), 3, "the shared one, the ordered one, and the last");
        drop(kept);
    }
}
