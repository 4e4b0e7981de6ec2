//! A gapless sequence during an insert: its values are computed on a copy of its state, so that what is not stored
//! leaves no trace.

use sequence::allocator::{Numbering, Turn};
use sequence::error::SequenceError;

use crate::document::complete::{FieldValue, ValueSource};
use crate::document::draft::Drafts;

/// Which of the documents that are numbered together may turn out to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// All or none of them: it is a single document.
    AllOrNone,
    /// Any number of them from the first on.
    Prefix,
}

/// A copy of a gapless sequence's state, on which an insert numbers.
pub(super) struct Gapless {
    now: Numbering,
    /// The state after each number of documents, from 0 on. Empty where all of them are stored or none.
    after: Vec<Numbering>,
    /// The number of passed values that no commit has written yet.
    passed: usize,
    /// The state after what a transaction has staged. Absent if it is that of the sequence.
    staged: Option<Numbering>,
}

impl Gapless {
    pub(super) fn begin(turn: &Turn<'_>) -> Result<Self, SequenceError> {
        Ok(Self { now: turn.number()?, after: Vec::new(), passed: 0, staged: None })
    }

    /// Goes on from the state after what a transaction has staged.
    pub(super) fn begin_after(staged: Numbering) -> Self {
        Self { now: staged.clone(), after: Vec::new(), passed: 0, staged: Some(staged) }
    }

    /// The state after all documents.
    pub(super) fn now(&self) -> &Numbering {
        &self.now
    }

    /// The state after all documents, to be published.
    pub(super) fn into_now(self) -> Numbering {
        self.now
    }

    /// Acquires the next value.
    pub(super) fn take(&mut self) -> Result<i64, SequenceError> {
        self.now.take()
    }

    /// Numbers documents one by one, so that any of them may turn out to be the last.
    pub(super) fn fill(
        &mut self,
        values: &[FieldValue],
        acceptance: Acceptance,
        drafts: &mut Drafts,
    ) -> Result<(), SequenceError> {
        self.after.clear();
        if acceptance == Acceptance::Prefix {
            self.after.push(self.now.clone());
        }
        let mut values = values.iter().peekable();
        // Documents without a value count too: positions in `after` are numbers of documents.
        for document in 0..drafts.len() {
            while let Some(value) = values.next_if(|value| value.document == document) {
                match value.source {
                    ValueSource::Explicit { integer: Some(integer) } => self.now.announce(integer),
                    ValueSource::Explicit { integer: None } => {}
                    ValueSource::Generated { offset } => drafts.write_value(offset, self.now.take()?),
                }
            }
            if acceptance == Acceptance::Prefix {
                self.after.push(self.now.clone());
            }
        }
        Ok(())
    }

    /// Goes back to the state after the first `documents` of them.
    pub(super) fn back_to(&mut self, documents: usize) {
        if let Some(numbering) = self.after.get(documents) {
            self.now = numbering.clone();
        }
    }

    /// Goes back to the state before a document that is inserted alone. Values that were passed stay passed.
    pub(super) fn begin_again(&mut self, turn: &Turn<'_>) -> Result<(), SequenceError> {
        self.now = self.staged.clone().map_or_else(|| turn.number(), Ok)?;
        // Passed values are not written yet, so a fresh copy of the state does not know of them.
        for _ in 0..self.passed {
            self.now.take()?;
        }
        Ok(())
    }

    /// Passes a value that another document has. Returns whether there was one to pass.
    pub(super) fn pass(&mut self) -> bool {
        // An exhausted sequence has no value to pass, and then there is nothing to remember.
        let is_passed = self.now.take().is_ok();
        self.passed += usize::from(is_passed);
        is_passed
    }
}
