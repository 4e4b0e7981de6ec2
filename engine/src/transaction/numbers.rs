//! What a transaction holds of sequences: it is registered with fast ones, keeps the turns of ordered and gapless ones, and
//! remembers which values it has acquired.
//!
//! All of it lasts to the end of the transaction. Values of a gapless sequence are counted on a copy of its state, which is written
//! with the documents: if the transaction aborts, the sequence is as it was. Other values are lost then.

use std::sync::Arc;
use std::time::Instant;

use base::error::{Error, Result};
use sequence::acquirer::Acquirer;
use sequence::allocator::{KeptTurn, Numbering, Turn};
use sequence::in_flight::Kept;
use sequence::run::Run;
use sequence::store::Cause;
use store::keys::SequenceId;
use store::write::Batch;

use crate::catalog::sequences::SequenceState;
use crate::catalog::stage::stage_mark;

/// The sequences that a transaction numbers by.
#[derive(Default)]
pub(crate) struct Numbers {
    registered: Vec<Registered>,
    turns: Vec<HeldTurn>,
    /// The time when it got the first turn.
    turn_since: Option<Instant>,
    taken: Vec<Taken>,
}

/// A fast sequence that values come from. Its safe watermark waits for the end of the transaction.
struct Registered {
    sequence: Arc<SequenceState>,
    /// The address of the acquirer whose block they are of, which may stand before that of others. 0 for the shared one.
    acquirer: usize,
    kept: Kept,
}

/// An ordered or gapless sequence. Other writers of it wait.
struct HeldTurn {
    sequence: Arc<SequenceState>,
    turn: KeptTurn,
    /// The state of a gapless one after all documents that are staged. Absent if none is numbered yet.
    numbering: Option<Numbering>,
}

/// Values that no other writer will get.
struct Taken {
    sequence: Arc<SequenceState>,
    runs: Vec<Run>,
}

impl Numbers {
    /// Keeps the safe watermark of a sequence, from which a value is to be acquired, until the transaction ends.
    pub(crate) fn keep_watermark(
        &mut self,
        sequence: &Arc<SequenceState>,
        acquirer: Option<*const Acquirer>,
        enter: impl FnOnce() -> Kept,
    ) {
        let acquirer = acquirer.map_or(0, <*const Acquirer>::addr);
        let is_kept = |own: &Registered| Arc::ptr_eq(&own.sequence, sequence) && own.acquirer == acquirer;
        if !self.registered.iter().any(is_kept) {
            self.registered.push(Registered { sequence: Arc::clone(sequence), acquirer, kept: enter() });
        }
    }

    /// The turn of a sequence, if it is kept.
    pub(super) fn turn_of<'s>(&self, sequence: &'s Arc<SequenceState>) -> Option<Turn<'s>> {
        self.held(sequence).map(|held| held.turn.turn_of(&sequence.sequence))
    }

    /// Whether the turn of a sequence may be waited for: only in the order of their ids, in which all writers wait.
    pub(super) fn may_wait_for(&self, id: SequenceId) -> bool {
        self.turns.iter().all(|held| held.sequence.identity.id < id)
    }

    /// Keeps a turn.
    pub(super) fn keep_turn(&mut self, sequence: &Arc<SequenceState>, turn: KeptTurn) {
        self.turn_since.get_or_insert_with(Instant::now);
        self.turns.push(HeldTurn { sequence: Arc::clone(sequence), turn, numbering: None });
    }

    /// Since when others may be waiting for a turn.
    pub(super) fn turn_since(&self) -> Option<Instant> {
        self.turn_since
    }

    /// The state of a gapless sequence after the documents that are staged. `None` if it is as all others see it.
    pub(crate) fn numbering_of(&self, sequence: &Arc<SequenceState>) -> Option<&Numbering> {
        self.held(sequence)?.numbering.as_ref()
    }

    /// Goes on from the state of a gapless sequence after documents that were staged.
    pub(crate) fn go_on_from(&mut self, sequence: &Arc<SequenceState>, numbering: Numbering) {
        let held = self.turns.iter_mut().find(|held| Arc::ptr_eq(&held.sequence, sequence));
        if let Some(held) = held {
            held.numbering = Some(numbering);
        }
    }

    /// Remembers values that were acquired.
    pub(crate) fn note_taken(&mut self, sequence: &Arc<SequenceState>, run: Run) {
        let at = self.taken.iter().position(|taken| Arc::ptr_eq(&taken.sequence, sequence));
        let Some(taken) = at.and_then(|at| self.taken.get_mut(at)) else {
            self.taken.push(Taken { sequence: Arc::clone(sequence), runs: vec![run] });
            return;
        };
        let joined = taken.runs.last().and_then(|last| last.joined(&run));
        match (taken.runs.last_mut(), joined) {
            (Some(last), Some(joined)) => *last = joined,
            (Some(_) | None, None | Some(_)) => taken.runs.push(run),
        }
    }

    /// Puts the marks of gapless sequences into the batch of the commit.
    pub(crate) fn stage_marks(&self, batch: &mut Batch<'_>) {
        for (held, numbering) in self.numberings() {
            stage_mark(batch, &held.sequence.identity, &numbering.mark(), numbering.gaps());
        }
    }

    /// To be called right before the batch is written. From here on gapless sequences are in doubt, until
    /// [`end_write`](Self::end_write): the batch may be on disk whatever becomes of the process.
    pub(crate) fn begin_write(&self) {
        for (held, _) in self.numberings() {
            held.turn.turn_of(&held.sequence.sequence).stage();
        }
    }

    /// To be called when the write has returned. `receipt` covers the marks. If its outcome is unknown, gapless sequences stay in
    /// doubt, and no value counts as lost.
    pub(crate) fn end_write(&mut self, written: &Result<()>, receipt: u64) {
        if written.as_ref().is_err_and(Error::is_commit_unknown) {
            self.taken.clear();
            return;
        }
        for held in &mut self.turns {
            let Some(numbering) = held.numbering.take() else { continue };
            let turn = held.turn.turn_of(&held.sequence.sequence);
            match written {
                Ok(()) => turn.publish(numbering, receipt),
                Err(_) => turn.unstage(),
            }
        }
        if written.is_ok() {
            self.taken.clear();
        }
    }

    fn held(&self, sequence: &Arc<SequenceState>) -> Option<&HeldTurn> {
        self.turns.iter().find(|held| Arc::ptr_eq(&held.sequence, sequence))
    }

    fn numberings(&self) -> impl Iterator<Item = (&HeldTurn, &Numbering)> {
        self.turns.iter().filter_map(|held| Some((held, held.numbering.as_ref()?)))
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // A forked child waits for no lock of its parent's.
        if store::fork::is_child() {
            return;
        }
        // First the gaps: the next writer of an ordered sequence then writes them with its own mark.
        for Taken { sequence, runs } in &self.taken {
            for run in runs {
                sequence.sequence.list_lost(*run, Cause::Aborted);
            }
        }
        for Registered { sequence, kept, .. } in &self.registered {
            sequence.sequence.release(kept);
        }
    }
}
