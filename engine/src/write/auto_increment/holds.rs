//! One insert's hold on the sequences of a collection: turns, values, and the marks that are written with documents.
//!
//! A writer that numbers by a fast sequence registers before it acquires a value and leaves after the commit, so that the
//! safe watermark never passes a value that may still become visible. An ordered or gapless sequence is held from the
//! first value to the commit. Turns are taken in one order, ascending by sequence.

use base::error::{Error, Result};
use bson::Document;
use smallvec::SmallVec;
use store::write::Batch;

use crate::document::complete::{CopiedDrafts, FieldValue};
use crate::write::Target;
use crate::write::auto_increment::gapless::Acceptance;
use crate::write::auto_increment::hold::SequenceHold;

/// One insert's hold on the sequences of a collection, in the order of the collection's turns. It is empty where the
/// collection has no auto-increment field.
#[derive(Default)]
pub(in crate::write) struct SequenceHolds<'a> {
    holds: SmallVec<[SequenceHold<'a>; 1]>,
}

impl<'a> SequenceHolds<'a> {
    /// Registers with all sequences, and waits for the turns of those that have some.
    pub(super) fn enter(target: Target<'a>) -> Result<Self> {
        let enter = |&position| SequenceHold::enter(target, position);
        Ok(Self { holds: target.fields.turns().iter().map(enter).collect::<Result<_>>()? })
    }

    /// Enters the sequence of the collection's only field, and acquires its first value.
    #[inline]
    pub(super) fn enter_only(target: Target<'a>) -> Result<(Self, i64)> {
        let (hold, value) = SequenceHold::enter_taking(target, 0)?;
        Ok((Self { holds: SmallVec::from_buf([hold]) }, value))
    }

    /// Whether other writers wait for this one.
    #[inline]
    pub(in crate::write) fn takes_turns(&self) -> bool {
        self.holds.iter().any(SequenceHold::takes_turns)
    }

    /// Whether the mark of a sequence is written with the documents.
    #[inline]
    pub(in crate::write) fn is_gapless(&self) -> bool {
        self.holds.iter().any(SequenceHold::is_gapless)
    }

    /// Stages the marks of the gapless sequences after the first `accepted` documents.
    pub(in crate::write) fn stage(&mut self, batch: &mut Batch<'_>, accepted: usize) {
        // The documents after the accepted ones were rejected, so their numbers are free again.
        self.back_to(accepted);
        self.holds.iter().for_each(|hold| hold.stage(batch));
    }

    /// Acquires all values that the documents lack, and announces those that they bring to the sequences.
    pub(super) fn fill(
        &mut self,
        target: Target<'_>,
        copies: &mut CopiedDrafts,
        acceptance: Acceptance,
    ) -> Result<()> {
        let CopiedDrafts { drafts, values } = copies;
        // All values are the only field's, so they need not be sorted out by field.
        if let [only] = &mut *self.holds {
            let filled = only.fill(target, values, acceptance, drafts);
            return filled.inspect_err(|_| only.back_to(0));
        }
        for at in 0..self.holds.len() {
            let Some(hold) = self.holds.get_mut(at) else { break };
            // Field by field and not document by document: a field's values are acquired in one step.
            let own = values.iter().copied().filter(|value| value.field == hold.position);
            let own: SmallVec<[FieldValue; 2]> = own.collect();
            let filled = hold.fill(target, &own, acceptance, drafts);
            if filled.is_err() {
                // None of the documents is stored, so what was acquired for them must not reach a mark that is written later.
                self.holds.iter_mut().take(at + 1).for_each(|hold| hold.back_to(0));
                return filled;
            }
        }
        Ok(())
    }

    /// Acquires the next value of the collection's only field, and gives up the rest of the block before it: the value that
    /// was acquired last is in use. A gapless sequence has passed it by acquiring it.
    pub(super) fn next_of_only(&mut self, target: Target<'_>) -> Result<i64> {
        let only = self.holds.first_mut().expect("the only field's sequence was entered");
        only.give_up();
        only.next(target)
    }

    /// Gives up the rest of the blocks of fields that an index holds, because a generated value was in use there.
    pub(super) fn give_up(&self, index: &Document) {
        self.holds.iter().filter(|hold| hold.is_held_by(index)).for_each(SequenceHold::give_up);
    }

    /// To be called with the error of what stores documents. If that says that nothing was written, gapless sequences are in no
    /// doubt, and their numbers are free again.
    #[cold]
    pub(super) fn failed(&self, error: &Error) {
        if !error.is_commit_unknown() {
            self.holds.iter().for_each(SequenceHold::unstage);
        }
    }

    /// Makes the states that were committed with the documents the sequences' own. Numbering goes on.
    pub(super) fn publish(&mut self, target: Target<'_>) -> Result<()> {
        self.holds.iter_mut().try_for_each(|hold| hold.publish(target))
    }

    /// Makes the states that were committed with the document the sequences' own, and ends the hold.
    #[inline]
    pub(super) fn finish(self, target: Target<'_>) {
        self.holds.into_iter().for_each(|hold| hold.finish(target));
    }

    /// Goes back to the states of the gapless sequences before a document that is inserted alone.
    pub(super) fn begin_again(&mut self) -> Result<()> {
        self.holds.iter_mut().try_for_each(SequenceHold::begin_again)
    }

    /// Goes back to the states of the gapless sequences after the first `documents` of them.
    pub(in crate::write) fn back_to(&mut self, documents: usize) {
        self.holds.iter_mut().for_each(|hold| hold.back_to(documents));
    }

    /// Passes the gapless values that a rejected document was given and that another document has, as the fields of the
    /// index show. Returns whether there are any.
    pub(super) fn pass(&mut self, copies: &CopiedDrafts, document: usize, index: Option<&Document>) -> bool {
        let mut passed = false;
        for hold in &mut self.holds {
            // A value that the document brought is not passed: it is not the sequence's.
            let is_generated = copies.values.iter().any(|value| {
                value.document == document && value.field == hold.position && value.source.is_generated()
            });
            if is_generated
                && index.is_some_and(|index| hold.is_held_by(index))
                && let Some(state) = hold.gapless_mut()
            {
                passed |= state.pass();
            }
        }
        passed
    }

    /// Writes the marks of the gapless sequences without documents: values that were found in use are passed for good.
    pub(super) fn write_passed(&mut self, target: Target<'_>) -> Result<()> {
        // A document that a transaction has staged may have the value, or a number before it, and will never be there if that
        // aborts. Without such a one the values are in use by documents that are stored.
        if target.staging.is_some_and(|staging| !staging.open.stage().overlay().is_empty()) {
            return Ok(());
        }
        // Whatever becomes of the transaction: the rejection aborts it.
        let target = Target { staging: None, ..target };
        let mut batch = Batch::new(target.database);
        self.holds.iter().for_each(|hold| hold.stage(&mut batch));
        // Fast and ordered sequences pass a value by acquiring it.
        if batch.is_empty() {
            return Ok(());
        }
        target.store.commit(batch, target.level).inspect_err(|error| self.failed(error))?;
        self.publish(target)
    }
}
