//! Sequences of a database: create, drop, rename, list.

use std::sync::Arc;

use crate::auto_increment::SequenceOptions;
use crate::database::Database;
use crate::error::Result;
use crate::namespace::validate_database;
use crate::results::SequenceSnapshot;
use crate::sequences::{Sequence, snapshot_of};

impl Database {
    /// Makes a sequence. Without options it gives 1, 2, 3 and so on.
    ///
    /// Fails with -323 (`SDB_SEQUENCE_EXIST`) if there is one of that name, and with -6 (`SDB_INVALIDARG`) for a name
    /// that is not allowed (empty, or starting with `SYS`, `$`, a space or a tab) or the first rule that the options
    /// break.
    pub fn create_sequence(&self, name: impl Into<String>) -> CreateSequence<'_> {
        CreateSequence { database: self, name: name.into(), options: SequenceOptions::default() }
    }

    /// A handle to a sequence. Whether there is one of that name, the first verb tells.
    pub fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(&self.shared), self.caller.clone(), &self.name, name)
    }

    /// Removes a sequence; -324 (`SDB_SEQUENCE_NOT_EXIST`) if there is none.
    pub fn drop_sequence(&self, name: impl Into<String>) -> DropSequence<'_> {
        DropSequence { database: self, name: name.into() }
    }

    /// Gives a sequence another name; it keeps its values. Handles to the old name fail from then on.
    ///
    /// Fails with -324 if there is none, and with -323 if the new name is taken.
    pub fn rename_sequence(&self, from: impl Into<String>, to: impl Into<String>) -> RenameSequence<'_> {
        RenameSequence { database: self, from: from.into(), to: to.into() }
    }

    /// The names of all sequences, ascending; those behind auto-increment fields start with `SYS_`.
    pub fn list_sequences(&self) -> ListSequences<'_> {
        ListSequences { database: self }
    }

    /// Snapshots of all sequences, ascending by name, those behind auto-increment fields as well.
    pub fn snapshot_sequences(&self) -> SnapshotSequences<'_> {
        SnapshotSequences { database: self }
    }
}

/// A `create_sequence` that is done by [`run`](Self::run).
#[must_use = "the sequence is made by run()"]
pub struct CreateSequence<'a> {
    database: &'a Database,
    name: String,
    options: SequenceOptions,
}

/// A `drop_sequence` that is done by [`run`](Self::run).
#[must_use = "the sequence is dropped by run()"]
pub struct DropSequence<'a> {
    database: &'a Database,
    name: String,
}

/// A `rename_sequence` that is done by [`run`](Self::run).
#[must_use = "the sequence is renamed by run()"]
pub struct RenameSequence<'a> {
    database: &'a Database,
    from: String,
    to: String,
}

/// A `list_sequences` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListSequences<'a> {
    database: &'a Database,
}

/// A `snapshot_sequences` that is done by [`run`](Self::run).
#[must_use = "the snapshots are taken by run()"]
pub struct SnapshotSequences<'a> {
    database: &'a Database,
}

impl CreateSequence<'_> {
    /// Sets all options at once.
    pub fn with_options(mut self, options: impl Into<SequenceOptions>) -> Self {
        self.options = options.into();
        self
    }

    /// Distance from one value to the next: within ±2147483647 and not 0. Default 1.
    pub fn increment(mut self, increment: i64) -> Self {
        self.options.options.increment = Some(increment);
        self
    }

    /// The first value. Default 1, or -1 if the increment is negative.
    pub fn start_value(mut self, value: i64) -> Self {
        self.options.options.start_value = Some(value);
        self
    }

    /// Makes the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.catalog.create_sequence(shared.storage(&database), name, &self.name, &self.options.options)
    }
}

impl DropSequence<'_> {
    /// Drops the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.catalog.drop_sequence(shared.storage(&database), name, &self.name)
    }
}

impl RenameSequence<'_> {
    /// Renames the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.catalog.rename_sequence(shared.storage(&database), name, &self.from, &self.to)
    }
}

impl ListSequences<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        let Database { shared, name, .. } = self.database;
        validate_database(name)?;
        let _in_use = shared.store.enter()?;
        let states = shared.catalog.sequences.of_database(name);
        Ok(states.iter().map(|state| state.identity.name.clone()).collect())
    }
}

impl SnapshotSequences<'_> {
    /// Takes the snapshots.
    pub fn run(self) -> Result<Vec<SequenceSnapshot>> {
        let Database { shared, name, .. } = self.database;
        validate_database(name)?;
        let _in_use = shared.store.enter()?;
        let states = shared.catalog.sequences.of_database(name);
        Ok(states.iter().map(|state| snapshot_of(state)).collect())
    }
}
