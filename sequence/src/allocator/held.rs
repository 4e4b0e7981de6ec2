//! The state that a sequence's lock protects (state, ledger, the acquirers' blocks), and the steps that only its
//! holder makes.

use std::sync::{Arc, Weak};

use crate::allocator::ledger::Ledger;
use crate::block::{Block, Origin, SequencePosition};
use crate::run::Run;
use crate::slot::Slot;
use crate::state::{Acquired, Mark, State};
use crate::store::{Cause, Change, Store};

/// Values that were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The values.
    pub run: Run,
    /// The receipt of the write that reserved them.
    pub receipt: u64,
}

/// The state that a sequence's lock protects.
pub(super) struct Held {
    pub(super) state: State,
    pub(super) reservations: u64,
    pub(super) ledger: Ledger,
    /// The receipt of the last write.
    pub(super) receipt: u64,
    /// The next reserve, if it is written already. Any other write replaces it.
    pub(super) ahead: Option<Ahead>,
    /// The number of values that were handed to acquirers since the sequence was loaded.
    pub(super) next_ordinal: u64,
    /// Every slot that may hold a block: the shared one, the ordered one, and those of acquirers with blocks
    /// of their own. Weak, because a slot lives as long as its acquirer.
    pub(super) slots: Vec<Weak<Slot>>,
    /// Whether anything was drawn or written since the sequence was loaded.
    pub(super) touched: bool,
}

/// A reserve that was written ahead of need. No block of it is acquired yet.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// The end of the reserve.
    current_value: i64,
    receipt: u64,
}

/// The reason why no block was acquired.
enum Refused<E> {
    Exceeded,
    Store(E),
}

impl Held {
    /// The position of the next value that goes to an acquirer.
    pub(super) fn position(&self) -> SequencePosition {
        SequencePosition { ordinal: self.next_ordinal, before: self.state.used() }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Arc<Slot>> {
        self.slots.iter().filter_map(Weak::upgrade)
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Arc<Block>> {
        self.slots().filter_map(|slot| slot.block())
    }

    /// Draws from the slot's block, which is replaced if it has no value left.
    pub(super) fn take_through<S: Store>(
        &mut self,
        slot: &Slot,
        count: u64,
        store: &S,
    ) -> Result<Taken, S::Error> {
        loop {
            // Another thread may have refilled the slot while this one waited for the lock.
            if let Some((run, receipt)) = slot.take(count) {
                return Ok(Taken { run, receipt });
            }
            // A block is put in unsynced, and synced on the next pass of the loop: so a block that an earlier
            // failed sync left behind is synced again before anything of it leaves.
            let Some(block) = slot.unsynced() else {
                let acquired = self.state.acquire(self.state.sizes())?;
                self.write_reserve(store, &acquired)?;
                self.install(slot, acquired, store);
                continue;
            };
            self.sync(store, block.receipt())?;
            // Drawn before the block is shown: other threads could empty it at once, and this one would start
            // over.
            let own = block.take(count);
            slot.show();
            if let Some(run) = own {
                return Ok(Taken { run, receipt: block.receipt() });
            }
        }
    }

    /// Makes a reserve durable before its first value leaves, so that a power failure cannot bring a value
    /// back.
    fn sync<S: Store>(&self, store: &S, receipt: u64) -> Result<(), S::Error> {
        // A reserve of one value is as durable as the document that gets it: the caller waits for both with
        // one sync, if it asked for durability.
        if self.state.sizes().cache == 1 || store.is_durable(receipt) {
            return Ok(());
        }
        store.make_durable(receipt)
    }

    /// Writes the next reserve before it is needed, if the current one covers no further block. Returns its
    /// receipt.
    pub(super) fn reserve_ahead<S: Store>(&mut self, store: &S) -> Result<Option<u64>, S::Error> {
        if self.ahead.is_some() || !self.is_last_block() {
            return Ok(None);
        }
        let Some(state) = self.state.reserved_further() else { return Ok(None) };
        let mut mark = self.mark_of(&state, &self.ledger);
        mark.open_from = self.first_open(&state, mark.open_from);
        let receipt =
            store.reserve(&Change { mark: &mark, definition: None, gaps: self.ledger.pending() })?;
        // Only the ledger is settled. State and counters move when a block of this reserve is acquired; until
        // then any other write may replace it.
        self.ledger.settle(&mark);
        self.touched = true;
        self.ahead = Some(Ahead { current_value: state.current_value(), receipt });
        Ok(Some(receipt))
    }

    /// Whether the current reserve covers no further block.
    fn is_last_block(&self) -> bool {
        let wanted = self.state.sizes().acquire.unsigned_abs();
        self.state.open_reserve().is_none_or(|rest| rest.count() < wanted)
    }

    /// Puts a new block into the slot, and draws no value of it.
    fn acquire_into<S: Store>(&mut self, slot: &Slot, store: &S) -> Result<(), Refused<S::Error>> {
        let acquired = self.state.acquire(self.state.sizes()).map_err(|_| Refused::Exceeded)?;
        self.write_reserve(store, &acquired).map_err(Refused::Store)?;
        self.install(slot, acquired, store);
        Ok(())
    }

    /// Announces a value that a document brings; see
    /// [`Sequence::announce`](crate::allocator::Sequence::announce).
    pub(super) fn announce<S: Store>(&mut self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        // The step that can fail comes first: other acquirers skip the value only if it is accepted here.
        self.announce_through(slot, value, store)?;
        let others: Vec<Arc<Slot>> =
            self.slots().filter(|other| !std::ptr::eq(Arc::as_ptr(other), slot)).collect();
        for block in others.iter().filter_map(|other| other.block()) {
            if block.rest().reaches(value) {
                self.ledger.list(block.skip_to(value).but_last(value), Cause::ExplicitValue);
            }
        }
        Ok(())
    }

    fn announce_through<S: Store>(&mut self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        if slot.block().is_none() {
            match self.acquire_into(slot, store) {
                Ok(()) => {}
                Err(Refused::Exceeded) => return Ok(()),
                Err(Refused::Store(error)) => return Err(error),
            }
        }
        let Some(own) = slot.block() else { return Ok(()) };
        // Three cases: the block has passed the value, the block holds it, or the value lies beyond the
        // block.
        if self.state.is_beyond(own.following(), value.into()) {
            return Ok(());
        }
        if self.state.is_beyond(own.run().last().into(), value.into()) {
            self.ledger.list(own.skip_to(value).but_last(value), Cause::ExplicitValue);
            return Ok(());
        }
        self.move_beyond(slot, value, store)
    }

    /// Gives up the slot's block and continues strictly beyond `value`, with a new block if a value is left.
    fn move_beyond<S: Store>(&mut self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        // Closed before the write, so that no value leaves the block while the write lists its rest as lost.
        let frozen = Frozen::of(slot);
        let moved = self.state.beyond(value);
        let next = moved.acquire(moved.sizes());
        let ledger = self.ledger.clone();
        // The value itself is in the document that brings it, so it is not lost.
        if let Some(frozen) = &frozen {
            self.ledger.list(frozen.rest.but_last(value), Cause::ExplicitValue);
        }
        let jumped = self.state.jumped_to(&moved).but_last(value);
        self.ledger.list(jumped, Cause::ExplicitValue);
        let (state, open_from) = match &next {
            Ok(acquired) => (&acquired.state, Some(acquired.run.first())),
            Err(_) => (&moved, None),
        };
        if let Err(error) = self.write(store, state, open_from) {
            self.ledger = ledger;
            if let Some(frozen) = frozen {
                frozen.thaw(slot);
            }
            return Err(error);
        }
        // Before `install`, which reads the block's origin in the state: values that are returned later go
        // back to just after the announced value, not to the block that was given up.
        self.state = moved;
        match next {
            Ok(acquired) => self.install(slot, acquired, store),
            Err(_) => slot.clear(),
        }
        Ok(())
    }

    fn write_reserve<S: Store>(&mut self, store: &S, acquired: &Acquired) -> Result<(), S::Error> {
        if !acquired.durable {
            return Ok(());
        }
        let is_same = |ahead: &mut Ahead| ahead.current_value == acquired.state.current_value();
        // The reserve was written ahead, with the same end: acquiring its first block costs no write.
        if let Some(ahead) = self.ahead.take_if(is_same) {
            self.reservations = self.reservations.saturating_add(1);
            self.receipt = ahead.receipt;
            return Ok(());
        }
        self.write(store, &acquired.state, Some(acquired.run.first()))
    }

    /// Puts an acquired block into the slot. No thread draws from it before [`sync`](Self::sync).
    fn install<S: Store>(&mut self, slot: &Slot, acquired: Acquired, store: &S) {
        let origin = Origin { progress: self.state.progress(), cycled_count: acquired.state.cycled_count() };
        let mut block = Block::new(acquired.run, self.position(), origin, self.receipt);
        self.next_ordinal += acquired.run.count();
        self.touched = true;
        self.state = acquired.state;
        // Only the last block of a reserve asks for the next one: an earlier block is followed by one without
        // a write.
        if self.is_last_block()
            && self.state.reserved_further().is_some()
            && let Some(provider) = store.provider()
        {
            block = block.asking(provider);
        }
        slot.put(block);
    }

    /// Writes `state` and lists the pending gaps. If the write succeeds, the counters in memory follow; the
    /// state in memory is the caller's to change.
    pub(super) fn write<S: Store>(
        &mut self,
        store: &S,
        state: &State,
        open_from: Option<i64>,
    ) -> Result<(), S::Error> {
        let mut mark = self.mark_of(state, &self.ledger);
        mark.open_from = self.first_open(state, open_from.or(mark.open_from));
        // Also if the write fails: it may be on disk nevertheless, after the reserve that was made ahead, and
        // at the next open the last mark counts.
        self.ahead = None;
        let receipt =
            store.reserve(&Change { mark: &mark, definition: None, gaps: self.ledger.pending() })?;
        self.settle(&mark, receipt);
        Ok(())
    }

    /// The first value that a crash would lose: the first that an acquirer still has, or the next one. Values
    /// that acquirers have from before the sequence started over come again, so they do not count.
    fn first_open(&self, state: &State, next: Option<i64>) -> Option<i64> {
        let of_this_cycle = |block: &Arc<Block>| block.cycled_count() == state.cycled_count();
        let rests = self.blocks().filter(of_this_cycle).map(|block| block.rest());
        let firsts = rests.filter(|rest| !rest.is_empty()).map(|rest| rest.first()).chain(next);
        firsts.reduce(|a, b| if state.is_beyond(a.into(), b.into()) { b } else { a })
    }

    /// The mark that one more write leaves.
    pub(super) fn mark_of(&self, state: &State, ledger: &Ledger) -> Mark {
        Mark {
            reservations: self.reservations.saturating_add(1),
            lost: ledger.lost(),
            next_gap: ledger.next_gap(),
            ..state.mark()
        }
    }

    pub(super) fn settle(&mut self, mark: &Mark, receipt: u64) {
        self.reservations = mark.reservations;
        self.ledger.settle(mark);
        self.receipt = receipt;
        self.ahead = None;
        self.touched = true;
    }

    /// Closes the blocks in the slots. The values after all that other acquirers hold are returned; the
    /// rest is lost.
    ///
    /// No value before `highest`, the highest position that a writer registered, is returned: that writer
    /// would draw such a value next, and the safe watermark would not see it.
    pub(super) fn take_back(&mut self, slots: &[Arc<Slot>], highest: Option<SequencePosition>) {
        let mut rests = Vec::new();
        for slot in slots {
            if let Some(frozen) = Frozen::of(slot) {
                rests.push(frozen);
                slot.clear();
            }
        }
        rests.retain(|frozen| !frozen.rest.is_empty());
        let is_watched = |frozen: &Frozen| {
            highest.is_some_and(|position| {
                position.ordinal > frozen.block.position_after(frozen.taken()).ordinal
            })
        };
        // Returning one block can make the block before it the last one, so the search starts again.
        while let Some(last) = rests.iter().position(|frozen| self.is_tail(frozen) && !is_watched(frozen)) {
            let frozen = rests.swap_remove(last);
            self.state = self.state.returned(frozen.block.progress_after(frozen.taken()));
        }
        for frozen in rests {
            self.ledger.list(frozen.rest, Cause::AcquirerClosed);
        }
    }

    /// The last used value after a [`take_back`](Self::take_back) of all blocks. Changes nothing.
    pub(super) fn used_up_to(&self) -> Option<i64> {
        let mut state = self.state.clone();
        let mut rests: Vec<(Arc<Block>, Run)> =
            self.blocks().map(|block| (Arc::clone(&block), block.rest())).collect();
        rests.retain(|(_, rest)| !rest.is_empty());
        while let Some(last) = rests.iter().position(|(block, rest)| {
            state.used() == Some(rest.last()) && state.cycled_count() == block.cycled_count()
        }) {
            let (block, rest) = rests.swap_remove(last);
            state = state.returned(block.progress_after(block.run().count() - rest.count()));
        }
        state.used()
    }

    fn is_tail(&self, frozen: &Frozen) -> bool {
        self.state.used() == Some(frozen.rest.last())
            && self.state.cycled_count() == frozen.block.cycled_count()
    }
}

/// A closed block that can be put back.
pub(super) struct Frozen {
    block: Arc<Block>,
    pub(super) rest: Run,
}

impl Frozen {
    /// Closes the slot's block. The slot keeps it, closed, until it gets another.
    pub(super) fn of(slot: &Slot) -> Option<Self> {
        let block = slot.block()?;
        let rest = block.close();
        Some(Self { block, rest })
    }

    /// Replaces the closed block by an equal one that is open. The next taker syncs and shows it.
    pub(super) fn thaw(self, slot: &Slot) {
        slot.put(self.block.reopened(self.taken()));
    }

    fn taken(&self) -> u64 {
        self.block.run().count() - self.rest.count()
    }
}
