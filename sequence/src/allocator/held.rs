//! What stands under a sequence's lock, and the steps that only its holder takes: state, ledger, blocks of acquirers.

use std::sync::{Arc, Weak};

use crate::allocator::ledger::Ledger;
use crate::block::{Block, Origin, SequencePosition};
use crate::run::Run;
use crate::slot::Slot;
use crate::state::{Acquired, Mark, State};
use crate::store::{Cause, Change, Store};

/// Values that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The values.
    pub run: Run,
    /// The receipt of the write that reserved them.
    pub receipt: u64,
}

/// What stands under the lock.
pub(super) struct Held {
    pub(super) state: State,
    pub(super) reservations: u64,
    pub(super) ledger: Ledger,
    /// The receipt of the last write.
    pub(super) receipt: u64,
    /// The next reserve, if it is written already. Any other write replaces it.
    pub(super) ahead: Option<Ahead>,
    /// How many values were handed to acquirers since the sequence was loaded.
    pub(super) next_ordinal: u64,
    /// Every slot that may hold a block: the shared one, the ordered one, and those of acquirers with blocks of their own.
    pub(super) slots: Vec<Weak<Slot>>,
    /// Whether anything was taken or written since the sequence was loaded.
    pub(super) touched: bool,
}

/// A reserve that was written ahead of need, and of which no block is acquired yet.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Where it ends.
    current_value: i64,
    receipt: u64,
}

/// Why no block was acquired.
enum Refused<E> {
    Exceeded,
    Store(E),
}

impl Held {
    /// Where the next value stands that the store will hand to an acquirer.
    pub(super) fn position(&self) -> SequencePosition {
        SequencePosition { ordinal: self.next_ordinal, before: self.state.used() }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Arc<Slot>> {
        self.slots.iter().filter_map(Weak::upgrade)
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Arc<Block>> {
        self.slots().filter_map(|slot| slot.block())
    }

    /// Takes from the slot's block, which is replaced if nothing is left of it.
    pub(super) fn take_through<S: Store>(
        &mut self,
        slot: &Slot,
        count: u64,
        store: &S,
    ) -> Result<Taken, S::Error> {
        loop {
            // Someone else may have refilled it while this thread waited for the lock.
            if let Some((run, receipt)) = slot.take(count) {
                return Ok(Taken { run, receipt });
            }
            let Some(block) = slot.unsynced() else {
                let acquired = self.state.acquire(self.state.sizes())?;
                self.write_reserve(store, &acquired)?;
                self.install(slot, acquired, store);
                continue;
            };
            self.sync(store, block.receipt())?;
            // Taken before others see the block, who could leave nothing of it.
            let own = block.take(count);
            slot.show();
            if let Some(run) = own {
                return Ok(Taken { run, receipt: block.receipt() });
            }
        }
    }

    /// What leaves must not come again, whatever a power failure takes from the log. A reserve of one value may: whoever
    /// takes it waits as for a document, if asked to.
    fn sync<S: Store>(&self, store: &S, receipt: u64) -> Result<(), S::Error> {
        if self.state.sizes().cache == 1 || store.is_durable(receipt) {
            return Ok(());
        }
        store.make_durable(receipt)
    }

    /// Writes the next reserve before it is needed, if the present one covers no further block; gives its receipt.
    pub(super) fn reserve_ahead<S: Store>(&mut self, store: &S) -> Result<Option<u64>, S::Error> {
        if self.ahead.is_some() || !self.is_last_block() {
            return Ok(None);
        }
        let Some(state) = self.state.reserved_further() else { return Ok(None) };
        let mut mark = self.mark_of(&state, &self.ledger);
        mark.open_from = self.first_open(&state, mark.open_from);
        let receipt =
            store.reserve(&Change { mark: &mark, definition: None, gaps: self.ledger.pending() })?;
        self.ledger.settle(&mark);
        self.touched = true;
        self.ahead = Some(Ahead { current_value: state.current_value(), receipt });
        Ok(Some(receipt))
    }

    /// Whether the present reserve covers no further block.
    fn is_last_block(&self) -> bool {
        let wanted = self.state.sizes().acquire.unsigned_abs();
        self.state.open_reserve().is_none_or(|rest| rest.count() < wanted)
    }

    /// Puts a new block into the slot, of which nothing is taken.
    fn acquire_into<S: Store>(&mut self, slot: &Slot, store: &S) -> Result<(), Refused<S::Error>> {
        let acquired = self.state.acquire(self.state.sizes()).map_err(|_| Refused::Exceeded)?;
        self.write_reserve(store, &acquired).map_err(Refused::Store)?;
        self.install(slot, acquired, store);
        Ok(())
    }

    /// Takes note of a value that a document brings; see [`Sequence::announce`](crate::allocator::Sequence::announce).
    pub(super) fn announce<S: Store>(&mut self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        // First what can fail: other acquirers skip the value only if it is accepted here.
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
        if self.state.is_beyond(own.following(), value.into()) {
            return Ok(());
        }
        if self.state.is_beyond(own.run().last().into(), value.into()) {
            self.ledger.list(own.skip_to(value).but_last(value), Cause::ExplicitValue);
            return Ok(());
        }
        self.move_beyond(slot, value, store)
    }

    /// Gives up the slot's block and goes on strictly beyond `value`, with a new block if a value is left.
    fn move_beyond<S: Store>(&mut self, slot: &Slot, value: i64, store: &S) -> Result<(), S::Error> {
        let frozen = Frozen::of(slot);
        let moved = self.state.beyond(value);
        let next = moved.acquire(moved.sizes());
        let ledger = self.ledger.clone();
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
        // The new block follows the value, not the block that was given up.
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
        if let Some(ahead) = self.ahead.take_if(is_same) {
            self.reservations = self.reservations.saturating_add(1);
            self.receipt = ahead.receipt;
            return Ok(());
        }
        self.write(store, &acquired.state, Some(acquired.run.first()))
    }

    /// Puts an acquired block into the slot, from which nobody takes before [`sync`](Self::sync).
    fn install<S: Store>(&mut self, slot: &Slot, acquired: Acquired, store: &S) {
        let origin = Origin { progress: self.state.progress(), cycled_count: acquired.state.cycled_count() };
        let mut block = Block::new(acquired.run, self.position(), origin, self.receipt);
        self.next_ordinal += acquired.run.count();
        self.touched = true;
        self.state = acquired.state;
        if self.is_last_block()
            && self.state.reserved_further().is_some()
            && let Some(provider) = store.provider()
        {
            block = block.asking(provider);
        }
        slot.put(block);
    }

    /// Writes `state`, and lists the pending gaps. Memory changes only if the write succeeds, and only its counters.
    pub(super) fn write<S: Store>(
        &mut self,
        store: &S,
        state: &State,
        open_from: Option<i64>,
    ) -> Result<(), S::Error> {
        let mut mark = self.mark_of(state, &self.ledger);
        mark.open_from = self.first_open(state, open_from.or(mark.open_from));
        // Even if it fails: then it may be on disk all the same, behind the reserve that was made ahead.
        self.ahead = None;
        let receipt =
            store.reserve(&Change { mark: &mark, definition: None, gaps: self.ledger.pending() })?;
        self.settle(&mark, receipt);
        Ok(())
    }

    /// The first value that a crash would lose: the first that an acquirer still has, or that is taken next. Values
    /// that acquirers have from before the sequence started over come again, and are not looked at.
    fn first_open(&self, state: &State, next: Option<i64>) -> Option<i64> {
        let of_this_cycle = |block: &Arc<Block>| block.cycled_count() == state.cycled_count();
        let rests = self.blocks().filter(of_this_cycle).map(|block| block.rest());
        let firsts = rests.filter(|rest| !rest.is_empty()).map(|rest| rest.first()).chain(next);
        firsts.reduce(|a, b| if state.is_beyond(a.into(), b.into()) { b } else { a })
    }

    /// What one more write leaves behind.
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

    /// Closes the blocks in the slots. What lies at the end of all that acquirers hold is taken back; the rest is lost.
    ///
    /// A writer that registered behind such values would take one of them next, and the safe watermark would not see
    /// it: nothing in front of `highest`, the last place that a writer registered, is taken back.
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
        while let Some(last) = rests.iter().position(|frozen| self.is_tail(frozen) && !is_watched(frozen)) {
            let frozen = rests.swap_remove(last);
            self.state = self.state.returned(frozen.block.progress_after(frozen.taken()));
        }
        for frozen in rests {
            self.ledger.list(frozen.rest, Cause::AcquirerClosed);
        }
    }

    /// Where [`take_back`](Self::take_back) of all blocks would end.
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

    /// Puts an equal block in the place of the closed one. Whoever takes from it next shows it.
    pub(super) fn thaw(self, slot: &Slot) {
        slot.put(self.block.reopened(self.taken()));
    }

    fn taken(&self) -> u64 {
        self.block.run().count() - self.rest.count()
    }
}
