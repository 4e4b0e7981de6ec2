//! A sequence in memory, which all threads share.
//!
//! While a block lasts, values are drawn from it without a lock ([`Slot::take_one`]). Everything else uses
//! one lock and keeps one order: compute the next state, make it durable, then show it. A block that is to be
//! dropped is closed before the write, so that the lost values are known exactly, and put back if the write
//! fails.
//!
//! Two locks, always in this order: first the turn, then what is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use crate::allocator::held::{Held, Taken};
use crate::allocator::ledger::Ledger;
use crate::attributes::{Attributes, Contract};
use crate::block::SequencePosition;
use crate::error::SequenceError;
use crate::in_flight::{InFlight, Kept, Pass};
use crate::run::Run;
use crate::slot::Slot;
use crate::state::{Mark, State};
use crate::store::{Cause, Gap, Record, Store};
use crate::sync::{self, Mutex, MutexGuard};
use crate::turn_lock::{TurnGuard, TurnLock};

/// The interval in which a waiter for a turn checks whether it is kept.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A sequence in memory, shared by all threads.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::store::Volatile;
///
/// let tens = Options { increment: Some(10), start_value: Some(10), ..Options::default() };
/// let sequence = Sequence::new(Attributes::create(&tens)?);
/// let store = Volatile::default();
/// assert_eq!(sequence.take_one(sequence.shared(), &store)?, 10);
/// assert_eq!(sequence.take_one(sequence.shared(), &store)?, 20);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
pub struct Sequence {
    pub(super) held: Mutex<Held>,
    /// Held by a writer of an ordered or gapless sequence until its commit is visible, and by every change.
    pub(super) turns: TurnLock,
    /// Whether the turn is kept by a writer that has registered: see [`Sequence::settled`].
    pub(super) is_kept: sync::AtomicBool,
    pub(super) shared: Arc<Slot>,
    /// The block of an ordered sequence. Only the writer that has the turn draws from it.
    pub(super) ordered: Arc<Slot>,
    pub(super) in_flight: InFlight,
    pub(super) contract: AtomicU8,
    pub(super) retired: AtomicBool,
    /// A value was written with its document, and it is not known whether the write succeeded. Read only by
    /// the writer that has the turn.
    pub(super) in_doubt: AtomicBool,
}

/// The state of a sequence at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The attributes that the sequence was declared with.
    pub attributes: Attributes,
    /// The number of times that attributes, name or content were reset.
    pub version: i64,
    /// The end of the durable reserve; while `initial`, the value to start with.
    pub current_value: i64,
    /// Whether no value was drawn yet.
    pub initial: bool,
    /// The number of times that the sequence has started over.
    pub cycled_count: i32,
    /// The last value that the shared acquirer handed out or skipped. `None` if no such value exists.
    pub last_used: Option<i64>,
    /// The value up to which all values count as used if the sequence is closed now: a copy of it has to start after
    /// that value. `None` if no such value exists.
    pub used_up_to: Option<i64>,
    /// The number of values that are left, in blocks too, before the sequence ends or starts over.
    pub remaining: u64,
    /// The number of reserves that were written.
    pub reservations: u64,
    /// The number of values that are listed as lost.
    pub lost: u64,
}

impl Sequence {
    /// A new sequence of which no value was drawn.
    pub fn new(attributes: Attributes) -> Self {
        Self::with_state(State::new(attributes), 0, 0, 0)
    }

    /// A sequence that continues from a state.
    pub fn of_state(state: State) -> Self {
        Self::with_state(state, 0, 0, 0)
    }

    /// A stored sequence. Values that were reserved and not given back count as used and are listed as lost.
    pub fn restore(record: Record) -> Self {
        let mark = record.mark;
        let state = State::restore(record.attributes, record.version, &mark);
        let crashed =
            mark.open_from.filter(|_| !mark.clean).and_then(|first| state.reserve_from(first.into()));
        let sequence = Self::with_state(state, mark.reservations, mark.lost, mark.next_gap);
        // The gap is only noted here: opening writes nothing, and the next reserve lists it.
        if let Some(run) = crashed {
            sequence.held.lock().ledger.push(Gap { run, cause: Cause::Crash });
        }
        sequence
    }

    pub(super) fn with_state(state: State, reservations: u64, lost: u64, next_gap: u64) -> Self {
        let contract = AtomicU8::new(number_of(state.attributes().contract()));
        let (shared, ordered) = (Arc::default(), Arc::default());
        // Both slots stay registered for ever: a write must find every block whose values a crash would lose.
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
            turns: TurnLock::default(),
            is_kept: sync::AtomicBool::new(false),
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

    /// The promise of the sequence. It can change with the attributes.
    #[inline]
    pub fn contract(&self) -> Contract {
        // Only a hint of which way to go: every way checks again under the lock, because an alteration may
        // come between.
        match self.contract.load(Ordering::Acquire) {
            1 => Contract::Ordered,
            2 => Contract::Gapless,
            _ => Contract::Fast,
        }
    }

    /// Whether the sequence was dropped or renamed. The caller must then look its name up again.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Draws one value.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`], [`SequenceError::Retired`], and the store's errors. No value is drawn
    /// then.
    pub fn take_one<S: Store>(&self, slot: &Slot, store: &S) -> Result<i64, S::Error> {
        match slot.take_one() {
            Some(value) => Ok(value),
            None => Ok(self.take(slot, 1, store)?.run.first()),
        }
    }

    /// Draws up to `count` values, at least one, from one block.
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
        // Ordered or gapless. The lock was given back above: the turn is always taken before it.
        self.turn().take(slot, count, store)
    }

    /// Registers a writer, whose values may still become visible until the pass is dropped. Register before
    /// drawing.
    ///
    /// ```
    /// use cairndb_sequence::allocator::Sequence;
    /// use cairndb_sequence::attributes::{Attributes, Options};
    /// use cairndb_sequence::store::Volatile;
    ///
    /// let sequence = Sequence::new(Attributes::create(&Options::default())?);
    /// let pass = sequence.enter(sequence.shared());
    /// let value = sequence.take_one(sequence.shared(), &Volatile::default())?;
    /// assert_eq!(sequence.safe_watermark(), None, "the value is not committed yet");
    /// drop(pass);
    /// assert_eq!(sequence.safe_watermark(), Some(value));
    /// # Ok::<(), cairndb_sequence::error::SequenceError>(())
    /// ```
    #[inline]
    pub fn enter(&self, slot: &Slot) -> Pass<'_> {
        self.register(slot, |position| self.in_flight.enter(position))
    }

    /// Registers a writer by `enter`, at the position from which it will draw values.
    #[inline]
    fn register<R>(&self, slot: &Slot, enter: impl FnOnce(SequencePosition) -> R) -> R {
        if let Some(position) = slot.position() {
            return enter(position);
        }
        // No open block: the position comes from what is held. The lock keeps an acquirer that closes from
        // returning values before that position until this writer is registered.
        let held = self.held.lock();
        enter(slot.block().and_then(|block| block.position()).unwrap_or_else(|| held.position()))
    }

    /// Registers a writer, as [`enter`](Self::enter) does, whose commit comes later and perhaps in another thread.
    pub fn keep(&self, slot: &Slot) -> Kept {
        self.register(slot, |position| self.in_flight.keep(position))
    }

    /// Unregisters such a writer.
    pub fn release(&self, kept: &Kept) {
        self.in_flight.release(kept);
    }

    /// Registers a writer and draws its first value, if the block has one left. Reads the block once for
    /// both, which makes it faster than [`enter`](Self::enter) followed by a draw.
    #[inline]
    pub fn enter_taking(&self, slot: &Slot) -> (Pass<'_>, Option<i64>) {
        slot.position_then_take(|position| self.in_flight.enter(position))
            .unwrap_or_else(|| (self.enter(slot), None))
    }

    /// Makes the next reserve ahead of need: writes and syncs it, so that no taker waits for either. Does
    /// nothing if the next reserve exists already or cannot be made. No value of it leaves before the sync
    /// has succeeded.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], and the store's errors.
    pub fn reserve_ahead<S: Store>(&self, store: &S) -> Result<(), S::Error> {
        let written = {
            let mut held = self.held.lock();
            self.refuse_retired()?;
            held.reserve_ahead(store)?
        };
        // The sync needs milliseconds, so the lock is free again: takers go on with the half block that is
        // left.
        written.map_or(Ok(()), |receipt| store.make_durable(receipt))
    }

    /// Announces a value that a document brings: no block hands out that value or one before it any more, and
    /// the sequence continues strictly beyond it. A value that the sequence has passed changes nothing; nor
    /// does any value once the sequence is exhausted. For an ordered or gapless sequence this waits for the
    /// turn.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], and the store's errors. No acquirer skips the value then.
    ///
    /// ```
    /// use cairndb_sequence::allocator::Sequence;
    /// use cairndb_sequence::attributes::{Attributes, Options};
    /// use cairndb_sequence::store::Volatile;
    ///
    /// let sequence = Sequence::new(Attributes::create(&Options::default())?);
    /// let store = Volatile::default();
    /// sequence.announce(sequence.shared(), 41, &store)?;
    /// assert_eq!(sequence.take_one(sequence.shared(), &store)?, 42);
    /// # Ok::<(), cairndb_sequence::error::SequenceError>(())
    /// ```
    pub fn announce<S: Store>(&self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        let mut held = self.held.lock();
        self.refuse_retired()?;
        if held.state.attributes().contract() == Contract::Fast {
            return held.announce(slot, value, store);
        }
        // Waiting for the turn while holding the lock would be the wrong order: a writer that has the turn
        // needs it.
        drop(held);
        self.turn().announce(value, store)
    }

    /// Gives up the rest of an acquirer's block, because one of its values is already in the collection. The
    /// next values are probably there too, and a new block passes them at once.
    pub fn give_up(&self, slot: &Slot) {
        let mut held = self.held.lock();
        if let Some(block) = slot.block() {
            held.ledger.list(block.close(), Cause::Conflict);
            slot.clear();
        }
    }

    /// Lists values that were drawn and that no document will get.
    pub fn list_lost(&self, run: Run, cause: Cause) {
        if !self.is_retired() {
            self.held.lock().ledger.list(run, cause);
        }
    }

    /// The last value that was drawn through `slot`. If its block has none, the end of the durable reserve.
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

    /// The highest value, in the sequence's order, such that no value up to it can still become visible.
    /// Returns
    /// `None` while even the first value can.
    ///
    /// Values that inserts draw are watched until their commit. A value that was handed to the application
    /// counts as visible at once. The promise does not cover documents that bring a value which the sequence
    /// has passed.
    pub fn safe_watermark(&self) -> Option<i64> {
        let (turn, held) = self.settled();
        let in_blocks =
            held.blocks().filter(|block| !block.rest().is_empty()).filter_map(|block| block.position());
        let next = in_blocks.chain([held.position()]).min_by_key(|position| position.ordinal);
        // After the blocks, never before. A writer registers, then draws: a draw that the blocks above do not
        // show yet lies at or after `next`, and one that they show was registered before and is found here.
        // In the other order a writer could come between the two readings and be seen by neither.
        let lowest = self.in_flight.lowest();
        drop(turn);
        next.into_iter()
            .chain(lowest)
            .min_by_key(|position| position.ordinal)
            .and_then(|position| position.before)
    }

    /// The held state, at a moment at which each running writer has registered. Ordered and gapless writers do not:
    /// they hold the turn until their commit is visible, so with the turn in hand there is none of them. Only a turn
    /// that is kept is not waited for, because its writer has registered.
    pub(super) fn settled(&self) -> (Option<TurnGuard<'_>>, MutexGuard<'_, Held>) {
        let is_fast = self.contract() == Contract::Fast;
        let mut turn = if is_fast { None } else { self.turns.try_lock() };
        loop {
            let held = self.held.lock();
            // Asked with what is held in hand: should the turn pass to another writer now, that one can draw no value.
            if is_fast || turn.is_some() || self.is_kept.load(Ordering::Acquire) {
                return (turn, held);
            }
            drop(held);
            turn = self.turns.try_lock_for(LOOK_INTERVAL);
        }
    }

    /// The state at this moment.
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
            used_up_to: held.used_up_to(),
            remaining: state.remaining().saturating_add(in_blocks),
            reservations: held.reservations,
            lost: held.ledger.lost(),
        }
    }

    /// The last value that counts as used if the sequence is closed now: a copy of it has to start after that
    /// value. Returns `None` if no value was used yet.
    pub fn used_up_to(&self) -> Option<i64> {
        self.held.lock().used_up_to()
    }

    /// Whether `value` and all values before it count as used.
    pub fn has_used(&self, value: i64) -> bool {
        let held = self.held.lock();
        held.used_up_to().is_some_and(|used| !held.state.is_beyond(value.into(), used.into()))
    }

    /// Gaps that no write has listed yet: those since the last write, and those that a crash left. If there
    /// are more than a ledger keeps, only the newest.
    pub fn pending_gaps(&self) -> Vec<Gap> {
        self.held.lock().ledger.pending().to_vec()
    }

    /// Ends all use, once no writer has the turn: from then on every call fails with
    /// [`SequenceError::Retired`].
    pub fn retire(&self) {
        let Ok(()) = self.end(|| Ok::<(), std::convert::Infallible>(()));
    }

    /// Ends all use with `commit`, which removes the sequence from the store. No state of it is written while
    /// the commit runs or afterwards. If the commit fails, the sequence goes on.
    ///
    /// # Errors
    /// The error of `commit`.
    pub fn end<E>(&self, commit: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _turn = self.turns.lock();
        let held = self.held.lock();
        // A reserve that is made ahead uses the same lock, so it is written before the removal or not at
        // all. Written after it, the mark would bring a dropped sequence back at the next open.
        commit()?;
        self.retired.store(true, Ordering::Release);
        for block in held.blocks() {
            block.close();
        }
        Ok(())
    }

    /// Ends all use at a clean close. Returns what to write so that the next open continues without a gap:
    /// the mark and the gaps to list. Returns `None` if the store holds both already, and if the outcome of
    /// its last write is unknown: then the next open reads what the store has.
    pub fn close(&self) -> Option<(Mark, Vec<Gap>)> {
        let _turn = self.turns.lock();
        let mut held = self.held.lock();
        let is_written = self.is_in_doubt() || !held.touched;
        // A swap, so that of two closes only one returns the mark.
        if self.retired.swap(true, Ordering::AcqRel) || is_written {
            return None;
        }
        // No writer is under way at a clean close, so no position limits what is returned.
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
        // Every write looks at all slots, so those of acquirers that are gone are removed here.
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

    /// Refills the slot and draws from it. Returns `None` if the sequence's writers take turns.
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

    /// The slot that an acquirer's values come from. An ordered sequence has one block for all acquirers.
    pub(super) fn slot_in_use<'s>(&'s self, held: &Held, own: &'s Slot) -> &'s Slot {
        if held.state.attributes().contract() == Contract::Ordered { &self.ordered } else { own }
    }

    pub(super) fn refuse_retired(&self) -> Result<(), SequenceError> {
        if self.is_retired() { Err(SequenceError::Retired) } else { Ok(()) }
    }

    /// Fails while the outcome of the last gapless write is unknown. For the writer that has the turn only:
    /// any other thread would mistake a write that is still under way for a failed one.
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
    use std::time::Duration;

    use super::*;
    use crate::attributes::Options;
    use crate::store::Volatile;

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

    fn sequence() -> Sequence {
        Sequence::new(Attributes::create(&Options::default()).unwrap())
    }

    #[test]
    fn a_sequence_goes_on_from_a_state() {
        let state = State::create(&Options { used_up_to: Some(500), ..Options::default() }).unwrap();
        let sequence = Sequence::of_state(state);
        assert_eq!(sequence.take_one(sequence.shared(), &Volatile::default()), Ok(501));
    }

    #[test]
    fn patience_for_a_turn_ends() {
        let sequence = sequence();
        let turn = sequence.turn();
        assert!(sequence.turn_within(Duration::from_millis(1)).is_none());
        drop(turn);
        assert!(sequence.turn_within(Duration::ZERO).is_some());
    }

    #[test]
    fn a_sequence_whose_end_is_not_written_goes_on() {
        let sequence = sequence();
        assert_eq!(sequence.end(|| Err("the disk is full")), Err("the disk is full"));
        assert!(!sequence.is_retired());
        assert_eq!(sequence.end(|| Ok::<(), &str>(())), Ok(()));
        assert!(sequence.is_retired());
    }

    #[test]
    fn a_store_without_a_disk_has_everything_durable() {
        let (sequence, store) = (sequence(), Volatile::default());
        let Taken { run, receipt } = sequence.take(sequence.shared(), 10, &store).unwrap();
        assert_eq!((run.first(), run.last(), store.is_durable(receipt)), (1, 10, true));
    }
}
