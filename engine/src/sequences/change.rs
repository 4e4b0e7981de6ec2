//! The verbs that change a sequence: `alter`, `set_current_value` and `restart`.

use base::error::Result;

use crate::auto_increment::SequenceOptions;
use crate::sequences::handle::Sequence;

impl Sequence {
    /// Changes attributes and the current value in one step. What is not given stays as it is. All blocks are
    /// given up, so no value from before the change is handed out after it. A change to the same attributes
    /// gives up nothing.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) for the first rule that is broken; nothing changes then.
    ///
    /// ```
    /// use cairndb::{Client, SequenceOptions};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// tickets.alter(SequenceOptions::builder().increment(10).build()).run()?;
    /// assert_eq!(tickets.snapshot().run()?.increment, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter(&self, options: impl Into<SequenceOptions>) -> AlterSequence<'_> {
        AlterSequence { sequence: self, options: options.into() }
    }

    /// Moves the sequence forward: the next value of every acquirer lies beyond `value`. If `value` is the
    /// last possible value, the sequence is exhausted.
    ///
    /// Fails with -361 (`SDB_SEQUENCE_VALUE_USED`) if `value` does not lie ahead. As in SequoiaDB, a sequence
    /// that was never used counts as used after such a failure.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// tickets.set_current_value(500).run()?;
    /// assert_eq!(tickets.next_value().run()?, 501);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_current_value(&self, value: i64) -> SetCurrentValue<'_> {
        SetCurrentValue { sequence: self, value }
    }

    /// Starts the sequence again: `value` is its next value. Values that were handed out before may be handed
    /// out again.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) if `value` is not within `MinValue` and `MaxValue`.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// assert_eq!(tickets.next_value().run()?, 1);
    /// tickets.restart(1).run()?;
    /// assert_eq!(tickets.next_value().run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart(&self, value: i64) -> RestartSequence<'_> {
        RestartSequence { sequence: self, value }
    }
}

/// The options of [`Sequence::alter`], which is done by [`run`](Self::run).
#[must_use = "the sequence is changed by run()"]
pub struct AlterSequence<'a> {
    sequence: &'a Sequence,
    options: SequenceOptions,
}

/// The options of [`Sequence::set_current_value`], which is done by [`run`](Self::run).
#[must_use = "the value is set by run()"]
pub struct SetCurrentValue<'a> {
    sequence: &'a Sequence,
    value: i64,
}

/// The options of [`Sequence::restart`], which is done by [`run`](Self::run).
#[must_use = "the sequence is restarted by run()"]
pub struct RestartSequence<'a> {
    sequence: &'a Sequence,
    value: i64,
}

impl AlterSequence<'_> {
    /// Changes the sequence.
    pub fn run(self) -> Result<()> {
        self.sequence.on_state(|state, storage| {
            // Asked first: a sequence in memory must not change in a store that rejects writes.
            storage.store.admit_write()?;
            state.sequence.alter(&self.options.options, &state.store(storage))?;
            storage.store.sync_written(storage.database)
        })
    }
}

impl SetCurrentValue<'_> {
    /// Moves the sequence.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// # db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// tickets.set_current_value(500).run()?;
    /// assert!(tickets.set_current_value(400).run().is_err(), "500 was passed already");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<()> {
        let acquirer = self.sequence.handle.caller.acquirer.as_deref();
        self.sequence.on_state(|state, storage| {
            storage.store.admit_write()?;
            // Journaled, whatever the durability of the store: after a power failure the sequence must not
            // fall back to used values.
            state.sequence.set_current_value(&state.slot(acquirer), self.value, &state.store(storage))?;
            storage.store.sync_written(storage.database)
        })
    }
}

impl RestartSequence<'_> {
    /// Restarts the sequence.
    pub fn run(self) -> Result<()> {
        self.sequence.on_state(|state, storage| {
            storage.store.admit_write()?;
            // A restart is for all acquirers, so unlike `set_current_value` it needs no slot.
            state.sequence.restart(self.value, &state.store(storage))?;
            storage.store.sync_written(storage.database)
        })
    }
}
