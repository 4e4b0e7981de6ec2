//! A store in memory that can be asked to fail, and a sequence over it that can be crashed and closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cairndb_sequence::acquirer::Acquirer;
use cairndb_sequence::allocator::{Sequence, Snapshot};
use cairndb_sequence::attributes::{Attributes, Options};
use cairndb_sequence::error::SequenceError;
use cairndb_sequence::slot::Slot;
use cairndb_sequence::state::{Mark, State};
use cairndb_sequence::store::{Cause, Change, Gap, Record, Store};

/// The failure of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The rejection of the sequence.
    Sequence(SequenceError),
    /// The write that was asked to fail.
    Disk,
}

/// Durable storage of one sequence.
pub(crate) struct Memory {
    stored: Mutex<Stored>,
    /// Whether marks are checked against the ledger.
    checked: bool,
}

/// The content of the store.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) ledger: Vec<Gap>,
    pub(crate) writes: u64,
    /// The number of writes that succeed before one fails.
    pub(crate) failing_after: Option<u64>,
}

/// A sequence, its store, and two acquirers with blocks of their own.
pub(crate) struct Rig {
    pub(crate) memory: Memory,
    pub(crate) sequence: Arc<Sequence>,
    own: [Acquirer; 2],
}

impl From<SequenceError> for Failure {
    fn from(error: SequenceError) -> Self {
        Self::Sequence(error)
    }
}

impl Memory {
    pub(crate) fn new(attributes: Attributes) -> Self {
        let mark = State::new(attributes.clone()).mark();
        let record = Record { attributes, version: 0, mark };
        let stored = Stored { record, ledger: Vec::new(), writes: 0, failing_after: None };
        Self { stored: Mutex::new(stored), checked: true }
    }

    /// A store that accepts counters which do not fit the ledger.
    pub(crate) fn unchecked(attributes: Attributes) -> Self {
        Self { checked: false, ..Self::new(attributes) }
    }

    pub(crate) fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mark(&self) -> Mark {
        self.stored().record.mark
    }

    /// Writes a mark with its gaps, as gapless writers and a clean close do.
    pub(crate) fn write(&self, mark: &Mark, gaps: &[Gap]) -> Result<u64, Failure> {
        self.reserve(&Change { mark, definition: None, gaps })
    }
}

impl Store for Memory {
    type Error = Failure;

    fn reserve(&self, change: &Change<'_>) -> Result<u64, Failure> {
        let mut stored = self.stored();
        if let Some(left) = &mut stored.failing_after {
            let Some(fewer) = left.checked_sub(1) else { return Err(Failure::Disk) };
            *left = fewer;
        }
        if let Some((attributes, version)) = change.definition {
            stored.record.attributes = attributes.clone();
            stored.record.version = version;
        }
        stored.record.mark = *change.mark;
        stored.writes += 1;
        if !self.checked {
            return Ok(stored.writes);
        }
        stored.ledger.extend_from_slice(change.gaps);
        let lost: u64 = stored.ledger.iter().map(|gap| gap.run.count()).sum();
        assert_eq!(change.mark.next_gap, stored.ledger.len() as u64, "gaps are numbered without a hole");
        assert_eq!(change.mark.lost, lost, "the mark counts what the ledger lists");
        Ok(stored.writes)
    }

    fn is_durable(&self, receipt: u64) -> bool {
        receipt <= self.stored().writes
    }

    fn make_durable(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }
}

impl Rig {
    #[track_caller]
    pub(crate) fn new(options: &Options) -> Self {
        let memory = Memory::new(Attributes::create(options).expect("allowed"));
        let sequence = Arc::new(Sequence::restore(memory.stored().record.clone()));
        Self { memory, sequence, own: Default::default() }
    }

    /// The slot of the shared acquirer (0), or of one with blocks of its own.
    pub(crate) fn slot(&self, acquirer: usize) -> Arc<Slot> {
        match acquirer.checked_sub(1).and_then(|own| self.own.get(own)) {
            None => Arc::clone(self.sequence.shared()),
            Some(own) => own.slot(1, &self.sequence),
        }
    }

    pub(crate) fn take(&self, acquirer: usize) -> Result<i64, Failure> {
        self.sequence.take_one(&self.slot(acquirer), &self.memory)
    }

    /// `count` values of the shared acquirer.
    #[track_caller]
    pub(crate) fn take_many(&self, count: usize) -> Vec<i64> {
        (0..count).map(|_| self.take(0).expect("a value is left")).collect()
    }

    /// First value and count.
    pub(crate) fn fetch(&self, acquirer: usize, count: u64) -> Result<(i64, u64), Failure> {
        let taken = self.sequence.take(&self.slot(acquirer), count, &self.memory)?;
        Ok((taken.run.first(), taken.run.count()))
    }

    pub(crate) fn announce(&self, acquirer: usize, value: i64) -> Result<(), Failure> {
        self.sequence.announce(&self.slot(acquirer), value, &self.memory)
    }

    pub(crate) fn set_current_value(&self, acquirer: usize, value: i64) -> Result<(), Failure> {
        self.sequence.set_current_value(&self.slot(acquirer), value, &self.memory)
    }

    pub(crate) fn current_value(&self, acquirer: usize) -> Result<i64, SequenceError> {
        self.sequence.current_value(&self.slot(acquirer))
    }

    pub(crate) fn alter(&self, options: &Options) -> Result<(), Failure> {
        self.sequence.alter(options, &self.memory)
    }

    pub(crate) fn restart(&self, value: i64) -> Result<(), Failure> {
        self.sequence.restart(value, &self.memory)
    }

    pub(crate) fn truncate(&self) -> Result<(), Failure> {
        let Some(changing) = self.sequence.change(Cause::Restart, |state| Ok(Some(state.truncated())))?
        else {
            return Ok(());
        };
        let receipt = self.memory.reserve(&changing.change())?;
        changing.publish(receipt);
        Ok(())
    }

    /// Renames the sequence, which is another one from then on.
    pub(crate) fn rename(&mut self) -> Result<(), Failure> {
        let Some(changing) = self.sequence.change(Cause::Alter, |state| Ok(Some(state.renamed())))? else {
            return Ok(());
        };
        let receipt = self.memory.reserve(&changing.change())?;
        let successor = changing.succeed(receipt);
        self.sequence = Arc::new(successor);
        Ok(())
    }

    /// Ends without closing, and opens again.
    pub(crate) fn crash(&mut self) {
        self.memory.stored().failing_after = None;
        self.sequence = Arc::new(Sequence::restore(self.memory.stored().record.clone()));
        self.own = Default::default();
    }

    /// Closes in order, and opens again. A close whose write fails is a crash.
    pub(crate) fn reopen(&mut self) -> Result<(), Failure> {
        let written = match self.sequence.close() {
            Some((mark, gaps)) => self.memory.write(&mark, &gaps).map(|_| ()),
            None => Ok(()),
        };
        self.crash();
        written
    }

    /// Closes an acquirer with blocks of its own, and opens it again.
    pub(crate) fn close_acquirer(&mut self, acquirer: usize) {
        if let Some(own) = acquirer.checked_sub(1).and_then(|own| self.own.get_mut(own)) {
            *own = Acquirer::default();
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.sequence.snapshot()
    }

    /// The ledger, including the gaps that the next write will add.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.memory.stored().ledger.clone();
        gaps.extend(self.sequence.pending_gaps());
        gaps
    }
}

/// SequoiaDB's number of an error; 0 for a failed write.
pub(crate) fn code(failure: &Failure) -> i32 {
    match failure {
        Failure::Sequence(error) => error.sequoia_code(),
        Failure::Disk => 0,
    }
}

/// Options with sizes and increment; what is `None` keeps its default.
pub(crate) fn sized(increment: i64, cache: i64, acquire: i64) -> Options {
    Options {
        increment: Some(increment),
        cache_size: Some(cache),
        acquire_size: Some(acquire),
        ..Options::default()
    }
}
