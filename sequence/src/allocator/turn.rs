//! Turns: writers of an ordered or gapless sequence, one at a time.
//!
//! An ordered writer holds the turn from drawing its values until its commit is visible, so values become
//! visible in their order. A gapless writer computes its values on a copy of the state, writes that copy with
//! its documents, and publishes it afterwards. If it gives up before, the sequence is as it was.
//!
//! A writer whose commit comes later, such as a transaction, keeps the turn. It registers besides, so that the
//! watermark need not wait for its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::allocator::held::{Held, Taken};
use crate::allocator::ledger::Ledger;
use crate::allocator::sequence::Sequence;
use crate::attributes::Contract;
use crate::error::SequenceError;
use crate::fork::Process;
use crate::in_flight::Kept;
use crate::run::Run;
use crate::slot::Slot;
use crate::state::{Mark, Sizes, State};
use crate::store::{Cause, Gap, Store};
use crate::turn_lock::TurnGuard;

/// The right to number the next documents. Other writers wait until it is dropped.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Contract, Options};
/// use cairndb_sequence::store::Volatile;
///
/// let ordered = Options { contract: Some(Contract::Ordered), ..Options::default() };
/// let sequence = Sequence::new(Attributes::create(&ordered)?);
/// let turn = sequence.turn();
/// let taken = turn.take(sequence.shared(), 2, &Volatile::default())?;
/// assert_eq!(taken.run.values().collect::<Vec<_>>(), [1, 2]);
/// drop(turn); // once the documents are committed
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[must_use = "the turn lasts for as long as this lives"]
pub struct Turn<'a> {
    sequence: &'a Sequence,
    /// Absent if the turn is kept: then it ends with that.
    _turn: Option<TurnGuard<'a>>,
}

/// The right to number the next documents, for a writer whose commit comes later and perhaps in another thread. Other
/// writers wait until it is dropped. The watermark does not: it stays before the values that are drawn meanwhile.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Contract, Options};
/// use cairndb_sequence::store::Volatile;
///
/// let ordered = Options { contract: Some(Contract::Ordered), ..Options::default() };
/// let sequence = Arc::new(Sequence::new(Attributes::create(&ordered)?));
/// let kept = Sequence::keep_turn(&sequence, Duration::ZERO).expect("no writer has it");
/// let taken = kept.turn_of(&sequence).take(sequence.shared(), 1, &Volatile::default())?;
/// assert!(sequence.turn_within(Duration::ZERO).is_none());
/// assert_eq!(sequence.safe_watermark(), None);
/// std::thread::spawn(|| drop(kept)).join().unwrap();
/// assert!(sequence.turn_within(Duration::ZERO).is_some());
/// assert_eq!(sequence.safe_watermark(), Some(taken.run.first()));
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[must_use = "the turn lasts for as long as this lives"]
pub struct KeptTurn {
    sequence: Arc<Sequence>,
    registered: Kept,
    process: Process,
}

/// Values of a gapless sequence for documents that are not written yet. They count as drawn after
/// [`Turn::publish`].
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Contract, Options};
///
/// let gapless = Options { contract: Some(Contract::Gapless), ..Options::default() };
/// let sequence = Sequence::new(Attributes::create(&gapless)?);
/// let turn = sequence.turn();
/// let mut numbering = turn.number()?;
/// assert_eq!((numbering.take()?, numbering.take()?), (1, 2));
/// turn.stage();
/// let receipt = 1; // of the write that holds the documents and `numbering.mark()`
/// turn.publish(numbering, receipt);
/// assert_eq!(turn.number()?.take()?, 3);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
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
        Turn { sequence: self, _turn: Some(self.turns.lock()) }
    }

    /// Waits for the turn no longer than `patience`.
    pub fn turn_within(&self, patience: Duration) -> Option<Turn<'_>> {
        Some(Turn { sequence: self, _turn: Some(self.turns.try_lock_for(patience)?) })
    }

    /// Waits for the turn no longer than `patience`, to keep it beyond this call. With no patience it gets only a turn that
    /// is free.
    pub fn keep_turn(this: &Arc<Self>, patience: Duration) -> Option<KeptTurn> {
        let turn = if patience.is_zero() { this.turns.try_lock() } else { this.turns.try_lock_for(patience) };
        let turn = turn?;
        // Registered before any value is drawn, and before readers learn that they need not wait.
        let registered = this.keep(&this.ordered);
        this.is_kept.store(true, Ordering::Release);
        turn.keep();
        Some(KeptTurn { sequence: Arc::clone(this), registered, process: Process::current() })
    }
}

impl KeptTurn {
    /// The turn, for one step of its writer.
    ///
    /// # Panics
    /// If it is the turn of another sequence.
    pub fn turn_of<'a>(&self, sequence: &'a Sequence) -> Turn<'a> {
        assert!(std::ptr::eq(&raw const *self.sequence, sequence), "a turn is of one sequence");
        Turn { sequence, _turn: None }
    }
}

impl Drop for KeptTurn {
    fn drop(&mut self) {
        // A forked child leaves the turn to its parent: a lock may be held by a thread that exists only there.
        if !self.process.is_current() {
            return;
        }
        // In this order: readers that still find the turn kept find the registration, or what was committed by it.
        self.sequence.is_kept.store(false, Ordering::Release);
        self.sequence.release(&self.registered);
        self.sequence.turns.give_back();
    }
}

impl Turn<'_> {
    /// Draws up to `count` values, at least one, by the rules of the sequence's contract. Those of a gapless
    /// sequence are written by this call.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`], [`SequenceError::Retired`], [`SequenceError::InDoubt`], and the store's
    /// errors. No value is drawn then.
    pub fn take<S: Store>(&self, slot: &Slot, count: u64, store: &S) -> Result<Taken, S::Error> {
        let mut held = self.sequence.held.lock();
        self.sequence.refuse_retired()?;
        self.sequence.refuse_doubt()?;
        // All contracts: an alteration may have changed it while this writer waited for the turn.
        match held.state.attributes().contract() {
            Contract::Fast => held.take_through(slot, count, store),
            Contract::Ordered => held.take_through(&self.sequence.ordered, count, store),
            Contract::Gapless => held.take_exactly(count, store),
        }
    }

    /// Announces a value that a document brings, by the rules of the sequence's contract; see
    /// [`Sequence::announce`].
    ///
    /// # Errors
    /// [`SequenceError::Retired`], [`SequenceError::InDoubt`], and the store's errors. Nothing changes then.
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

    /// Gives up the rest of an ordered sequence's block, because one of its values is already in the
    /// collection.
    pub fn give_up(&self) {
        self.sequence.give_up(&self.sequence.ordered);
    }

    /// Starts numbering for a gapless sequence.
    ///
    /// # Errors
    /// [`SequenceError::Retired`], also if the sequence was changed and is no longer gapless; and
    /// [`SequenceError::InDoubt`].
    pub fn number(&self) -> Result<Numbering, SequenceError> {
        let held = self.sequence.held.lock();
        self.sequence.refuse_retired()?;
        self.sequence.refuse_doubt()?;
        // Takers of any other contract do not wait for the turn, so a copy of the state would be out of date.
        if held.state.attributes().contract() != Contract::Gapless {
            return Err(SequenceError::Retired);
        }
        let base = held.mark_of(&held.state, &held.ledger);
        Ok(Numbering { state: held.state.clone(), base, taken: 0, ledger: held.ledger.clone() })
    }

    /// Marks the start of the write that holds a numbering and its documents. Without a
    /// [`publish`](Self::publish) afterwards the write failed and may have left its values on disk. Then
    /// every use of the sequence is rejected, because the same values would be handed out twice.
    pub fn stage(&self) {
        // Before the write starts: a panic or an error after it must leave the flag set.
        self.sequence.in_doubt.store(true, Ordering::Release);
    }

    /// Undoes [`stage`](Self::stage), after the write was rejected before it was made.
    pub fn unstage(&self) {
        self.sequence.in_doubt.store(false, Ordering::Release);
    }

    /// Puts a numbering into force after it was written with this receipt.
    pub fn publish(&self, numbering: Numbering, receipt: u64) {
        self.sequence.in_doubt.store(false, Ordering::Release);
        let mut held = self.sequence.held.lock();
        held.settle(&numbering.mark(), receipt);
        held.next_ordinal += numbering.taken;
        held.state = numbering.state;
    }
}

impl Numbering {
    /// Draws the next value.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`].
    pub fn take(&mut self) -> Result<i64, SequenceError> {
        let acquired = self.state.acquire(Sizes { acquire: 1, cache: 1 })?;
        self.state = acquired.state;
        self.taken += 1;
        Ok(acquired.run.first())
    }

    /// Moves strictly beyond a value that a document brings, unless the numbering has passed it.
    pub fn announce(&mut self, value: i64) {
        let moved = self.state.beyond(value);
        let run = self.state.jumped_to(&moved).but_last(value);
        if moved != self.state && !run.is_empty() {
            self.ledger.push(Gap { run, cause: Cause::ExplicitValue });
        }
        self.state = moved;
    }

    /// The mark to write together with the documents.
    pub fn mark(&self) -> Mark {
        Mark {
            lost: self.ledger.lost(),
            next_gap: self.ledger.next_gap(),
            // However many values it has, a numbering is one write.
            reservations: self.base.reservations,
            ..self.state.mark()
        }
    }

    /// The gaps to list. The last one has the number before the mark's `next_gap`.
    pub fn gaps(&self) -> &[Gap] {
        self.ledger.pending()
    }
}

impl Held {
    /// Moves a gapless sequence strictly beyond a value that a document brings, unless it has passed it.
    fn announce_exactly<S: Store>(&mut self, value: i64, store: &S) -> Result<(), S::Error> {
        let moved = self.state.beyond(value);
        if moved == self.state {
            return Ok(());
        }
        // The write lists the gap, so it is noted first and removed again if the write fails.
        let ledger = self.ledger.clone();
        self.ledger.list(self.state.jumped_to(&moved).but_last(value), Cause::ExplicitValue);
        if let Err(error) = self.write(store, &moved, None) {
            self.ledger = ledger;
            return Err(error);
        }
        self.state = moved;
        Ok(())
    }

    /// Draws values of a gapless sequence: the reserve that is written ends with the last of them.
    fn take_exactly<S: Store>(&mut self, count: u64, store: &S) -> Result<Taken, S::Error> {
        let size = i64::try_from(count).unwrap_or(i64::MAX).min(self.state.attributes().acquire_size());
        // One write for all of them, and nothing beyond: a reserve would leave a gap after a crash.
        let acquired = self.state.acquire(Sizes { acquire: size, cache: size })?;
        self.write(store, &acquired.state, None)?;
        let run: Run = acquired.run;
        self.next_ordinal += run.count();
        self.state = acquired.state;
        Ok(Taken { run, receipt: self.receipt })
    }
}
