//! The sequences behind a collection's fields during one insert: turns, values, and what is written beside documents.
//!
//! Whoever numbers by a fast sequence registers before it takes a value and leaves after the commit, so that the safe
//! watermark never passes a value that may still become visible. An ordered or gapless sequence is held from the
//! first value to the commit. Turns are taken in one order, ascending by sequence.

use bson::Document;
use sequence::allocator::{Numbering, Turn};
use sequence::attributes::Contract;
use sequence::in_flight::Pass;
use sequence::run::Run;
use smallvec::SmallVec;

use crate::catalog::sequence_store::SequenceStore;
use crate::catalog::sequences::{AutoField, SlotOf};
use crate::catalog::stage::stage_mark;
use crate::document::complete::{Completion, Event, Wanted};
use crate::document::draft::Drafts;
use crate::error::Result;
use crate::generated::GeneratedValues;
use crate::storage::write::{Batch, CommitLevel};
use crate::write::Target;
use crate::write::insert::Beside;

/// One insert's hold on the sequences of a collection.
pub(super) struct Writers<'a> {
    target: Target<'a>,
    /// In the order of the collection's turns.
    writers: SmallVec<[Writer<'a>; 1]>,
}

/// One insert's hold on the sequence of one field.
pub(super) struct Writer<'a> {
    position: usize,
    field: &'a AutoField,
    way: Way<'a>,
}

enum Way<'a> {
    Fast { slot: SlotOf<'a>, _pass: Pass<'a> },
    Ordered { turn: Turn<'a> },
    Gapless { turn: Turn<'a>, state: Box<Gapless> },
}

/// A gapless sequence during an insert: where it stood before each document, and where it stands behind all.
struct Gapless {
    now: Numbering,
    /// Behind so many documents; the first is before any. Empty where all are stored or none.
    after: Vec<Numbering>,
    /// How many values were passed, and not written yet.
    passed: usize,
}

/// What may be refused of the documents that are numbered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusable {
    /// All or none: it is a single one.
    Whole,
    /// All from one of them on.
    Rest,
}

impl<'a> Writers<'a> {
    /// Waits for the turns and registers.
    pub(super) fn enter(target: Target<'a>) -> Result<Self> {
        let enter = |&position| Writer::enter(target, position);
        let writers = target.fields.turns().iter().map(enter).collect::<Result<_>>()?;
        Ok(Self { target, writers })
    }

    /// Whether other writers wait for this one.
    pub(super) fn takes_turns(&self) -> bool {
        self.writers.iter().any(Writer::takes_turns)
    }

    /// Whether a sequence is written with the documents.
    pub(super) fn is_gapless(&self) -> bool {
        self.writers.iter().any(Writer::is_gapless)
    }

    /// Takes all values that the documents lack, and takes note of those that they bring.
    pub(super) fn fill(&mut self, completion: &mut Completion, refusable: Refusable) -> Result<()> {
        let Completion { drafts, events } = completion;
        if let [only] = &mut *self.writers {
            return only.fill(self.target, (events, refusable), drafts);
        }
        for writer in &mut self.writers {
            let own = events.iter().copied().filter(|event| event.field == writer.position);
            let own: SmallVec<[Event; 2]> = own.collect();
            writer.fill(self.target, (&own, refusable), drafts)?;
        }
        Ok(())
    }

    /// Gives up the rest of the blocks of fields that an index holds, because a generated value was in use there.
    pub(super) fn give_up(&self, index: &Document) {
        let held = |writer: &&Writer<'_>| index.contains_key(writer.field.field.path());
        self.writers.iter().filter(held).for_each(Writer::give_up);
    }

    /// What was committed with the documents is in force now, and numbering goes on.
    pub(super) fn publish(&mut self) -> Result<()> {
        self.writers.iter_mut().try_for_each(|writer| writer.publish(self.target))
    }

    /// Goes back to where the gapless sequences stood before a document that was numbered by itself.
    pub(super) fn begin_again(&mut self) -> Result<()> {
        for writer in &mut self.writers {
            if let Way::Gapless { turn, state } = &mut writer.way {
                state.now = turn.number()?;
                for _ in 0..state.passed {
                    state.now.take()?;
                }
            }
        }
        Ok(())
    }

    /// Goes back to where the gapless sequences stood behind so many of the documents.
    pub(super) fn back_to(&mut self, documents: usize) {
        for writer in &mut self.writers {
            if let Way::Gapless { state, .. } = &mut writer.way {
                state.back_to(documents);
            }
        }
    }

    /// Passes the values that a refused document was given and that another document has, as the fields of the index
    /// tell. Says whether there are any.
    pub(super) fn pass(
        &mut self,
        completion: &Completion,
        document: usize,
        fields: Option<&Document>,
    ) -> bool {
        let mut passed = false;
        for writer in &mut self.writers {
            let Way::Gapless { state, .. } = &mut writer.way else { continue };
            let made = completion.events.iter().any(|event| {
                let own = event.document == document && event.field == writer.position;
                own && matches!(event.wanted, Wanted::Value { .. })
            });
            if made && fields.is_some_and(|fields| fields.contains_key(writer.field.field.path())) {
                let is_passed = state.now.take().is_ok();
                state.passed += usize::from(is_passed);
                passed |= is_passed;
            }
        }
        passed
    }

    /// Writes where the gapless sequences stand, without documents: values that were found in use are passed for good.
    pub(super) fn write_alone(&mut self, level: CommitLevel) -> Result<()> {
        let target = self.target;
        if commit_staged(target, level, |batch| self.stage_now(batch))? { self.publish() } else { Ok(()) }
    }

    fn stage_now(&self, batch: &mut Batch<'_>) {
        self.writers.iter().for_each(|writer| writer.stage_now(batch));
    }
}

impl Beside for Writers<'_> {
    fn is_empty(&self) -> bool {
        !self.is_gapless()
    }

    fn stage(&mut self, batch: &mut Batch<'_>, accepted: usize) {
        self.back_to(accepted);
        self.stage_now(batch);
    }
}

impl<'a> Writer<'a> {
    /// Waits for the turn of the field at `position`, or registers.
    fn enter(target: Target<'a>, position: usize) -> Result<Self> {
        let field = target.fields.at(position);
        let sequence = &field.state.sequence;
        let way = match sequence.contract() {
            Contract::Fast => {
                let slot = field.state.slot(target.acquirer);
                let pass = sequence.enter(&slot);
                Way::Fast { slot, _pass: pass }
            }
            Contract::Ordered => Way::Ordered { turn: sequence.turn() },
            Contract::Gapless => {
                let turn = sequence.turn();
                let now = turn.number()?;
                Way::Gapless { turn, state: Box::new(Gapless { now, after: Vec::new(), passed: 0 }) }
            }
        };
        Ok(Self { position, field, way })
    }

    /// The same, and takes the first value.
    #[inline]
    pub(super) fn enter_taking(target: Target<'a>, position: usize) -> Result<(Self, i64)> {
        let field = target.fields.at(position);
        let (mut writer, value) = if field.state.sequence.contract() == Contract::Fast {
            let slot = field.state.slot(target.acquirer);
            let (pass, value) = field.state.sequence.enter_taking(&slot);
            (Self { position, field, way: Way::Fast { slot, _pass: pass } }, value)
        } else {
            (Self::enter(target, position)?, None)
        };
        let value = value.map_or_else(|| writer.next(target), Ok)?;
        Ok((writer, value))
    }

    /// Whether other writers wait for this one.
    pub(super) fn takes_turns(&self) -> bool {
        !matches!(self.way, Way::Fast { .. })
    }

    fn is_gapless(&self) -> bool {
        matches!(self.way, Way::Gapless { .. })
    }

    /// Takes the next value.
    pub(super) fn next(&mut self, target: Target<'_>) -> Result<i64> {
        if let Way::Gapless { state, .. } = &mut self.way {
            return Ok(state.now.take()?);
        }
        Ok(self.take(1, &self.store(target))?.first())
    }

    /// Gives up the rest of the block, because a generated value was in use.
    pub(super) fn give_up(&self) {
        match &self.way {
            Way::Fast { slot, .. } => self.field.state.sequence.give_up(slot),
            Way::Ordered { turn } => turn.give_up(),
            // The value that was in use is skipped by numbering on.
            Way::Gapless { .. } => {}
        }
    }

    /// What was committed with the document is in force now, and the sequence is let go.
    #[inline]
    pub(super) fn finish(self, target: Target<'_>) {
        if let Way::Gapless { turn, state } = self.way {
            turn.publish(state.now, target.database.latest_sequence());
        }
    }

    /// What was committed with the documents is in force now, and numbering goes on.
    fn publish(&mut self, target: Target<'_>) -> Result<()> {
        if let Way::Gapless { turn, state } = &mut self.way {
            turn.publish(state.now.clone(), target.database.latest_sequence());
            state.now = turn.number()?;
            state.after.clear();
            state.passed = 0;
        }
        Ok(())
    }

    /// Writes where a gapless sequence stands, without documents: values that were found in use are passed for good.
    pub(super) fn write_alone(&mut self, target: Target<'_>, level: CommitLevel) -> Result<()> {
        if commit_staged(target, level, |batch| self.stage_now(batch))? {
            self.publish(target)
        } else {
            Ok(())
        }
    }

    fn stage_now(&self, batch: &mut Batch<'_>) {
        if let Way::Gapless { turn, state } = &self.way {
            let mark = state.now.mark();
            turn.stage();
            stage_mark(batch, &self.field.state.identity, &mark, state.now.gaps());
        }
    }

    fn store<'s>(&'s self, target: Target<'s>) -> SequenceStore<'s> {
        self.field.state.store(target.storage(), CommitLevel::RESERVE)
    }

    fn fill(
        &mut self,
        target: Target<'_>,
        (events, refusable): (&[Event], Refusable),
        drafts: &mut Drafts,
    ) -> Result<()> {
        if let Way::Gapless { state, .. } = &mut self.way {
            return state.number(events, refusable, drafts);
        }
        let store = self.store(target);
        let mut rest = events;
        while let Some((first, behind)) = rest.split_first() {
            match first.wanted {
                Wanted::Nothing { brought } => {
                    brought.map_or(Ok(()), |brought| self.announce(brought, &store))?;
                    rest = behind;
                }
                Wanted::Value { .. } => {
                    let values =
                        rest.iter().take_while(|event| matches!(event.wanted, Wanted::Value { .. })).count();
                    let (wanted, behind) = rest.split_at(values);
                    self.take_all(wanted, &store, drafts)?;
                    rest = behind;
                }
            }
        }
        Ok(())
    }

    /// Takes values for consecutive events: in one step while the block lasts.
    fn take_all(&self, events: &[Event], store: &SequenceStore<'_>, drafts: &mut Drafts) -> Result<()> {
        let mut rest = events;
        while !rest.is_empty() {
            let run = self.take(rest.len() as u64, store)?;
            let (now, behind) =
                rest.split_at(rest.len().min(usize::try_from(run.count()).unwrap_or(usize::MAX)));
            for (event, value) in now.iter().zip(run.values()) {
                write(*event, value, drafts);
            }
            rest = behind;
        }
        Ok(())
    }

    fn take(&self, count: u64, store: &SequenceStore<'_>) -> Result<Run> {
        let sequence = &self.field.state.sequence;
        let taken = match &self.way {
            Way::Fast { slot, .. } => sequence.take(slot, count, store)?,
            Way::Ordered { turn } | Way::Gapless { turn, .. } => {
                turn.take(sequence.shared(), count, store)?
            }
        };
        Ok(taken.run)
    }

    fn announce(&self, value: i64, store: &SequenceStore<'_>) -> Result<()> {
        match &self.way {
            Way::Fast { slot, .. } => self.field.state.sequence.announce(slot, value, store),
            Way::Ordered { turn } | Way::Gapless { turn, .. } => turn.announce(value, store),
        }
    }
}

impl Beside for Writer<'_> {
    fn is_empty(&self) -> bool {
        !self.is_gapless()
    }

    fn stage(&mut self, batch: &mut Batch<'_>, _accepted: usize) {
        self.stage_now(batch);
    }
}

impl Gapless {
    /// Numbers documents one by one, so that any of them may turn out to be the last.
    fn number(&mut self, events: &[Event], refusable: Refusable, drafts: &mut Drafts) -> Result<()> {
        self.after.clear();
        if refusable == Refusable::Rest {
            self.after.push(self.now.clone());
        }
        let mut events = events.iter().peekable();
        for document in 0..drafts.len() {
            while let Some(event) = events.next_if(|event| event.document == document) {
                match event.wanted {
                    Wanted::Nothing { brought: Some(brought) } => self.now.announce(brought),
                    Wanted::Nothing { brought: None } => {}
                    Wanted::Value { .. } => write(*event, self.now.take()?, drafts),
                }
            }
            if refusable == Refusable::Rest {
                self.after.push(self.now.clone());
            }
        }
        Ok(())
    }

    fn back_to(&mut self, documents: usize) {
        if let Some(numbering) = self.after.get(documents) {
            self.now = numbering.clone();
        }
    }
}

/// Commits what is staged without documents; says whether there was anything.
fn commit_staged(target: Target<'_>, level: CommitLevel, stage: impl FnOnce(&mut Batch<'_>)) -> Result<bool> {
    let mut batch = Batch::new(target.database);
    stage(&mut batch);
    if batch.is_empty() {
        return Ok(false);
    }
    target.store.commit(batch, level)?;
    Ok(true)
}

/// The values that were generated for each document, by the names of the fields.
pub(super) fn generated(
    target: Target<'_>,
    completion: &Completion,
) -> SmallVec<[(usize, GeneratedValues); 1]> {
    let mut documents = SmallVec::new();
    for events in completion.events.chunk_by(|a, b| a.document == b.document) {
        let made = values_of(target, &completion.drafts, events);
        if let Some(event) = events.first().filter(|_| !made.is_empty()) {
            documents.push((event.document, made));
        }
    }
    documents
}

/// The values that were generated for one document, by the names of the fields.
pub(super) fn values_of(target: Target<'_>, drafts: &Drafts, events: &[Event]) -> GeneratedValues {
    let mut made = GeneratedValues::default();
    for event in events {
        if let Wanted::Value { place } = event.wanted {
            made.push(&target.fields.at(event.field).name, drafts.value(place));
        }
    }
    made.sort();
    made
}

fn write(event: Event, value: i64, drafts: &mut Drafts) {
    if let Wanted::Value { place } = event.wanted {
        drafts.write_value(place, value);
    }
}
