//! One insert's hold on the sequence of one field, whatever the sequence's contract is.

use std::sync::Arc;

use base::error::Result;
use base::lock_order::{self, Held, Place};
use base::sync;
use bson::Document;
use sequence::allocator::{Numbering, Turn};
use sequence::attributes::Contract;
use sequence::in_flight::Pass;
use sequence::run::Run;
use store::write::Batch;

use crate::catalog::sequence_store::SequenceStore;
use crate::catalog::sequences::{AutoField, SequenceState, SlotOf};
use crate::catalog::stage::stage_mark;
use crate::document::complete::{FieldValue, ValueSource};
use crate::document::draft::Drafts;
use crate::options::PlantedFault;
use crate::transaction::{Staging, changed_since};
use crate::write::Target;
use crate::write::auto_increment::gapless::{Acceptance, Gapless};

/// Waits for the turn of a sequence, unless the operation must end before. A transaction keeps it to its end.
fn turn<'a>(target: Target<'a>, state: &'a Arc<SequenceState>) -> Result<(Turn<'a>, Held)> {
    let place = lock_order::take(Place::Sequence);
    if let Some(Staging { open, .. }) = target.staging
        && target.database.fault() != PlantedFault::TurnsLetGoEarly
    {
        let turn = open.turn(state, target.operation)?;
        // To drop or rename it needs the turn, so it stays as it is from now on.
        if state.sequence.is_retired() {
            return Err(changed_since(&format!("the sequence '{}'", state.identity.name)));
        }
        return Ok((turn, place));
    }
    let sequence = &state.sequence;
    let turn =
        sync::wait_for(target.operation, || sequence.turn(), |patience| sequence.turn_within(patience));
    Ok((turn?, place))
}

/// The copy of a gapless sequence's state: after what its transaction has staged, if there is something.
fn begin_gapless(target: Target<'_>, state: &Arc<SequenceState>, turn: &Turn<'_>) -> Result<Gapless> {
    let staged =
        target.staging.and_then(|Staging { open, .. }| open.stage().numbers().numbering_of(state).cloned());
    match staged {
        Some(staged) => Ok(Gapless::begin_after(staged)),
        None => Ok(Gapless::begin(turn)?),
    }
}

/// Lets a transaction go on from the state after documents that were staged. Its commit writes the mark.
fn go_on(staging: Staging<'_>, state: &Arc<SequenceState>, numbering: Numbering) -> Gapless {
    staging.open.stage().numbers().go_on_from(state, numbering.clone());
    Gapless::begin_after(numbering)
}

/// One insert's hold on the sequence of one field.
pub(super) struct SequenceHold<'a> {
    /// The field's position among those of the collection.
    pub(super) position: usize,
    field: &'a AutoField,
    contract: ByContract<'a>,
    /// Of the turn. Absent for a fast sequence, which no writer waits for.
    _place: Option<Held>,
}

/// The hold of an insert on a sequence, by the sequence's contract.
enum ByContract<'a> {
    /// A registration: the sequence's safe watermark waits for the commit, and other writers do not.
    Fast { slot: SlotOf<'a>, _pass: Pass<'a> },
    /// The turn: values become visible in their order.
    Ordered { turn: Turn<'a> },
    /// The turn, and a copy of the state: values are written with their documents or not at all.
    Gapless { turn: Turn<'a>, state: Box<Gapless> },
}

impl<'a> SequenceHold<'a> {
    /// Registers with the sequence of the field at `position`, or waits for its turn.
    pub(super) fn enter(target: Target<'a>, position: usize) -> Result<Self> {
        let field = target.fields.at(position);
        let sequence = &field.state.sequence;
        let (contract, place) = match sequence.contract() {
            Contract::Fast => {
                let slot = field.state.slot(target.acquirer);
                if let Some(Staging { open, .. }) = target.staging {
                    let acquirer = target.acquirer.map(std::ptr::from_ref);
                    let mut stage = open.stage();
                    stage.numbers().keep_watermark(&field.state, acquirer, || sequence.keep(&slot));
                }
                let pass = sequence.enter(&slot);
                (ByContract::Fast { slot, _pass: pass }, None)
            }
            Contract::Ordered => {
                let (turn, place) = turn(target, &field.state)?;
                (ByContract::Ordered { turn }, Some(place))
            }
            Contract::Gapless => {
                let (turn, place) = turn(target, &field.state)?;
                let state = Box::new(begin_gapless(target, &field.state, &turn)?);
                (ByContract::Gapless { turn, state }, Some(place))
            }
        };
        Ok(Self { position, field, contract, _place: place })
    }

    /// Enters as [`enter`](Self::enter) does, and acquires the first value.
    #[inline]
    pub(super) fn enter_taking(target: Target<'a>, position: usize) -> Result<(Self, i64)> {
        let field = target.fields.at(position);
        let is_short = field.state.sequence.contract() == Contract::Fast && target.staging.is_none();
        let (mut hold, value) = if is_short {
            // Registration and value by one look at the block: most inserts of a numbered document end here.
            let slot = field.state.slot(target.acquirer);
            let (pass, value) = field.state.sequence.enter_taking(&slot);
            (Self { position, field, contract: ByContract::Fast { slot, _pass: pass }, _place: None }, value)
        } else {
            (Self::enter(target, position)?, None)
        };
        let value = value.map_or_else(|| hold.next(target), Ok)?;
        Ok((hold, value))
    }

    /// Whether other writers wait for this one.
    pub(super) fn takes_turns(&self) -> bool {
        !matches!(self.contract, ByContract::Fast { .. })
    }

    pub(super) fn is_gapless(&self) -> bool {
        matches!(self.contract, ByContract::Gapless { .. })
    }

    /// Whether an index with these fields holds the numbered field.
    pub(super) fn is_held_by(&self, index: &Document) -> bool {
        index.contains_key(self.field.field.path())
    }

    /// The state of a gapless sequence.
    pub(super) fn gapless_mut(&mut self) -> Option<&mut Gapless> {
        match &mut self.contract {
            ByContract::Gapless { state, .. } => Some(state),
            ByContract::Fast { .. } | ByContract::Ordered { .. } => None,
        }
    }

    /// Goes back to a gapless sequence's state after the first `documents` of those that were numbered last. Values of
    /// other sequences are never given back.
    pub(super) fn back_to(&mut self, documents: usize) {
        if let Some(state) = self.gapless_mut() {
            state.back_to(documents);
        }
    }

    /// Acquires the next value.
    pub(super) fn next(&mut self, target: Target<'_>) -> Result<i64> {
        if let ByContract::Gapless { state, .. } = &mut self.contract {
            return Ok(state.take()?);
        }
        Ok(self.take(target, 1, &self.store(target))?.first())
    }

    /// Acquires the values that the documents lack, and announces those that they bring to the sequence, in the order of the
    /// documents.
    pub(super) fn fill(
        &mut self,
        target: Target<'_>,
        values: &[FieldValue],
        acceptance: Acceptance,
        drafts: &mut Drafts,
    ) -> Result<()> {
        if let ByContract::Gapless { state, .. } = &mut self.contract {
            return Ok(state.fill(values, acceptance, drafts)?);
        }
        let store = self.store(target);
        let mut rest = values;
        while let Some((first, others)) = rest.split_first() {
            match first.source {
                ValueSource::Explicit { integer } => {
                    integer.map_or(Ok(()), |integer| self.announce(integer, &store))?;
                    rest = others;
                }
                ValueSource::Generated { .. } => {
                    // An explicit value moves the sequence for the documents after it, so a run ends there.
                    let is_generated = |value: &&FieldValue| value.source.is_generated();
                    let (wanted, others) = rest.split_at(rest.iter().take_while(is_generated).count());
                    self.take_all(target, wanted, drafts)?;
                    rest = others;
                }
            }
        }
        Ok(())
    }

    /// Gives up the rest of the block, because a generated value was in use.
    pub(super) fn give_up(&self) {
        match &self.contract {
            ByContract::Fast { slot, .. } => self.field.state.sequence.give_up(slot),
            ByContract::Ordered { turn } => turn.give_up(),
            // It has no block: the value that was in use is passed by numbering on.
            ByContract::Gapless { .. } => {}
        }
    }

    /// Goes back to the state of a gapless sequence before a document that is inserted alone.
    pub(super) fn begin_again(&mut self) -> Result<()> {
        if let ByContract::Gapless { turn, state } = &mut self.contract {
            state.begin_again(turn)?;
        }
        Ok(())
    }

    /// Stages the mark of a gapless sequence.
    pub(super) fn stage(&self, batch: &mut Batch<'_>) {
        if let ByContract::Gapless { turn, state } = &self.contract {
            // From here on the sequence is in doubt until it is published: a commit that fails may be on disk.
            turn.stage();
            stage_mark(batch, &self.field.state.identity, &state.now().mark(), state.now().gaps());
        }
    }

    /// Undoes what [`stage`](Self::stage) announced to a gapless sequence: the commit was rejected before it was written.
    pub(super) fn unstage(&self) {
        if let ByContract::Gapless { turn, .. } = &self.contract {
            turn.unstage();
        }
    }

    /// Makes the state that was committed with the documents the sequence's own. Numbering goes on.
    pub(super) fn publish(&mut self, target: Target<'_>) -> Result<()> {
        if let ByContract::Gapless { turn, state } = &mut self.contract {
            if let Some(staging) = target.staging {
                **state = go_on(staging, &self.field.state, state.now().clone());
                return Ok(());
            }
            // The receipt is asked for after the commit, so it covers the mark.
            turn.publish(state.now().clone(), target.database.latest_sequence());
            **state = Gapless::begin(turn)?;
        }
        Ok(())
    }

    /// Makes the state that was committed with the document the sequence's own, and ends the hold.
    #[inline]
    pub(super) fn finish(self, target: Target<'_>) {
        if let ByContract::Gapless { turn, state } = self.contract {
            match target.staging {
                Some(staging) => drop(go_on(staging, &self.field.state, state.into_now())),
                None => turn.publish(state.into_now(), target.database.latest_sequence()),
            }
        }
    }

    fn store<'s>(&'s self, target: Target<'s>) -> SequenceStore<'s> {
        self.field.state.store(target.storage())
    }

    /// Acquires values for consecutive documents: in one step while the block lasts.
    fn take_all(&self, target: Target<'_>, values: &[FieldValue], drafts: &mut Drafts) -> Result<()> {
        let store = self.store(target);
        let mut rest = values;
        while !rest.is_empty() {
            let run = self.take(target, rest.len() as u64, &store)?;
            // A run ends with its block, so a long batch uses several.
            let count = rest.len().min(usize::try_from(run.count()).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(count);
            for (value, number) in now.iter().zip(run.values()) {
                if let ValueSource::Generated { offset } = value.source {
                    drafts.write_value(offset, number);
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Acquires up to `count` values, at least one.
    fn take(&self, target: Target<'_>, count: u64, store: &SequenceStore<'_>) -> Result<Run> {
        let sequence = &self.field.state.sequence;
        // A turn uses the shared slot only if the sequence was altered to the contract fast since it was entered.
        let taken = match &self.contract {
            ByContract::Fast { slot, .. } => sequence.take(slot, count, store)?,
            ByContract::Ordered { turn } | ByContract::Gapless { turn, .. } => {
                turn.take(sequence.shared(), count, store)?
            }
        };
        if let Some(Staging { open, .. }) = target.staging {
            open.stage().numbers().note_taken(&self.field.state, taken.run);
        }
        Ok(taken.run)
    }

    /// Announces a value that a document brings: the sequence goes on beyond it.
    fn announce(&self, value: i64, store: &SequenceStore<'_>) -> Result<()> {
        match &self.contract {
            ByContract::Fast { slot, .. } => self.field.state.sequence.announce(slot, value, store),
            ByContract::Ordered { turn } | ByContract::Gapless { turn, .. } => turn.announce(value, store),
        }
    }
}
