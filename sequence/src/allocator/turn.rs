//! Turns: writers of an ordered or gapless sequence, one at a time.
//!
//! An ordered writer holds the turn from taking its values until its commit is visible, so values become visible in
//! their order. A gapless writer computes its values on a copy of the state, writes that with its documents, and
//! publishes it afterwards: whatever it gives up on the way leaves no trace.

use std::sync::atomic::Ordering;

use crate::allocator::held::{Held, Taken};
use crate::allocator::ledger::Ledger;
use crate::allocator::sequence::Sequence;
use crate::attributes::Contract;
use crate::error::SequenceError;
use crate::run::Run;
use crate::slot::Slot;
use crate::state::{Mark, Sizes, State};
use crate::store::{Cause, Gap, Store};
use crate::sync::{MutexGuard, lock_brief};

/// The right to number the next documents. Others wait until it is dropped.
#[must_use = "the turn lasts for as long as this lives"]
pub struct Turn<'a> {
    sequence: &'a Sequence,
    _turn: MutexGuard<'a, ()>,
}

/// Values of a gapless sequence that are not yet taken: they are once [`Turn::publish`] says that they were written.
#[derive(Clone, Debug)]
pub struct Numbering {
    state: State,
    base: Mark,
    taken: u64,
    ledger: Ledger,
}

impl Sequence {
    /// Waits for the turn.
    pub fn turn(&self) -> Turn<'_> {
        Turn { sequence: self, _turn: lock_brief(&self.turns) }
    }
}

impl Turn<'_> {
    /// Takes up to `count` values, at least one, as the sequence's contract has it; those of a gapless one are written
    /// by this call.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`], [`SequenceError::Retired`], [`SequenceError::InDoubt`], and what the store fails with;
    /// nothing is taken then.
    pub fn take<S: Store>(&self, slot: &Slot, count: u64, store: &S) -> Result<Taken, S::Error> {
        let mut held = self.sequence.held.lock();
        self.sequence.refuse_retired()?;
        self.sequence.refuse_doubt()?;
        match held.state.attributes().contract() {
            Contract::Fast => held.take_through(slot, count, store),
            Contract::Ordered => held.take_through(&self.sequence.ordered, count, store),
            Contract::Gapless => held.take_exactly(count, store),
        }
    }

    /// Takes note of a value that a document brings, as the sequence's contract has it; see [`Sequence::announce`].
    ///
    /// # Errors
    /// [`SequenceError::Retired`], [`SequenceError::InDoubt`], and what the store fails with; nothing changes then.
    pub fn announce<S: Store>(&self, value: i64, store: &S) -> Result<(), S::Error> {
        let mut held = self.sequence.held.lock();
        self.sequence.refuse_retired()?;
        self.sequence.refuse_doubt()?;
        match held.state.attributes().contract() {
            Contract::Fast => held.announce(&self.sequence.shared, value, store),
            Contract::Ordered => held.announce(&self.sequence.ordered, value, store),
            Contract::Gapless => held.announce_exactly(value, store),
        }
    }

    /// Gives up the rest of an ordered sequence's block, because a value of it was in use.
    pub fn give_up(&self) {
        self.sequence.give_up(&self.sequence.ordered);
    }

    /// Starts numbering for a gapless sequence.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], also if the sequence was changed and is not gapless any more: others then take
    /// values without waiting for the turn; [`SequenceError::InDoubt`].
    pub fn number(&self) -> Result<Numbering, SequenceError> {
        let held = self.sequence.held.lock();
        self.sequence.refuse_retired()?;
        self.sequence.refuse_doubt()?;
        if held.state.attributes().contract() != Contract::Gapless {
            return Err(SequenceError::Retired);
        }
        let base = held.mark_of(&held.state, &held.ledger);
        Ok(Numbering { state: held.state.clone(), base, taken: 0, ledger: held.ledger.clone() })
    }

    /// Says that a numbering is being written with its documents. Unless [`publish`](Self::publish) follows, the write
    /// failed and may have left its values on disk: nobody numbers any more, because the same values would come twice.
    pub fn stage(&self) {
        self.sequence.in_doubt.store(true, Ordering::Release);
    }

    /// Brings a numbering into force: it was written with this receipt.
    pub fn publish(&self, numbering: Numbering, receipt: u64) {
        self.sequence.in_doubt.store(false, Ordering::Release);
        let mut held = self.sequence.held.lock();
        held.settle(&numbering.mark(), receipt);
        held.next_ordinal += numbering.taken;
        held.state = numbering.state;
    }
}

impl Numbering {
    /// The next value.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`].
    pub fn take(&mut self) -> Result<i64, SequenceError> {
        let acquired = self.state.acquire(Sizes { acquire: 1, cache: 1 })?;
        self.state = acquired.state;
        self.taken += 1;
        Ok(acquired.run.first())
    }

    /// Goes on strictly beyond a value that a document brings, if that lies ahead.
    pub fn announce(&mut self, value: i64) {
        let moved = self.state.beyond(value);
        let run = self.state.jumped_to(&moved).but_last(value);
        if moved != self.state && !run.is_empty() {
            self.ledger.push(Gap { run, cause: Cause::ExplicitValue });
        }
        self.state = moved;
    }

    /// What is to be written with the documents.
    pub fn mark(&self) -> Mark {
        Mark {
            lost: self.ledger.lost(),
            next_gap: self.ledger.next_gap(),
            reservations: self.base.reservations,
            ..self.state.mark()
        }
    }

    /// The gaps to list, numbered upwards to the mark's `next_gap`.
    pub fn gaps(&self) -> &[Gap] {
        self.ledger.pending()
    }
}

impl Held {
    /// Goes on strictly beyond a value that a document brings, if that lies ahead.
    fn announce_exactly<S: Store>(&mut self, value: i64, store: &S) -> Result<(), S::Error> {
        let moved = self.state.beyond(value);
        if moved == self.state {
            return Ok(());
        }
        let ledger = self.ledger.clone();
        self.ledger.list(self.state.jumped_to(&moved).but_last(value), Cause::ExplicitValue);
        if let Err(error) = self.write(store, &moved, None) {
            self.ledger = ledger;
            return Err(error);
        }
        self.state = moved;
        Ok(())
    }

    /// Takes values of which each is written: the reserve ends where the values do.
    fn take_exactly<S: Store>(&mut self, count: u64, store: &S) -> Result<Taken, S::Error> {
        let size = i64::try_from(count).unwrap_or(i64::MAX).min(self.state.attributes().acquire_size());
        let acquired = self.state.acquire(Sizes { acquire: size, cache: size })?;
        self.write(store, &acquired.state, None)?;
        let run: Run = acquired.run;
        self.next_ordinal += run.count();
        self.state = acquired.state;
        Ok(Taken { run, receipt: self.receipt })
    }
}
