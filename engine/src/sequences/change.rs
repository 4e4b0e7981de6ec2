//! `alter`, `set_current_value` and `restart`.

use crate::auto_increment::SequenceOptions;
use crate::error::Result;
use crate::sequences::handle::Sequence;
use crate::storage::write::CommitLevel;

impl Sequence {
    /// Changes attributes, and the current value, as one; what is not given stays. All blocks are given up, so no value
    /// of the state that was before is handed out any more. A change that changes nothing gives up nothing.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) for the first rule that is broken; nothing changes then.
    pub fn alter(&self, options: impl Into<SequenceOptions>) -> AlterSequence<'_> {
        AlterSequence { sequence: self, options: options.into() }
    }

    /// Moves forward: the next value of every acquirer is strictly beyond `value`. Beyond the last possible value the
    /// sequence is exhausted.
    ///
    /// Fails with -361 (`SDB_SEQUENCE_VALUE_USED`) when `value` does not lie ahead. A sequence that was never used
    /// then counts as used nevertheless, as in SequoiaDB.
    pub fn set_current_value(&self, value: i64) -> SetCurrentValue<'_> {
        SetCurrentValue { sequence: self, value }
    }

    /// Starts again with `value`, which is the next one. Values may come again: that is what it is for.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) when it lies outside of the least and greatest value.
    pub fn restart(&self, value: i64) -> RestartSequence<'_> {
        RestartSequence { sequence: self, value }
    }
}

/// An `alter` that is done by [`run`](Self::run).
#[must_use = "the sequence is changed by run()"]
pub struct AlterSequence<'a> {
    sequence: &'a Sequence,
    options: SequenceOptions,
}

/// A `set_current_value` that is done by [`run`](Self::run).
#[must_use = "the value is set by run()"]
pub struct SetCurrentValue<'a> {
    sequence: &'a Sequence,
    value: i64,
}

/// A `restart` that is done by [`run`](Self::run).
#[must_use = "the sequence is restarted by run()"]
pub struct RestartSequence<'a> {
    sequence: &'a Sequence,
    value: i64,
}

impl AlterSequence<'_> {
    /// Changes the sequence.
    pub fn run(self) -> Result<()> {
        self.sequence.on_state(|state, storage| {
            storage.store.admit_write()?;
            state.sequence.alter(&self.options.options, &state.store(storage, CommitLevel::Journaled))
        })
    }
}

impl SetCurrentValue<'_> {
    /// Moves the sequence.
    pub fn run(self) -> Result<()> {
        let acquirer = self.sequence.handle.caller.acquirer.as_deref();
        self.sequence.on_state(|state, storage| {
            storage.store.admit_write()?;
            let store = state.store(storage, CommitLevel::Journaled);
            state.sequence.set_current_value(&state.slot(acquirer), self.value, &store)
        })
    }
}

impl RestartSequence<'_> {
    /// Restarts the sequence.
    pub fn run(self) -> Result<()> {
        self.sequence.on_state(|state, storage| {
            storage.store.admit_write()?;
            state.sequence.restart(self.value, &state.store(storage, CommitLevel::Journaled))
        })
    }
}
