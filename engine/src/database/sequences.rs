//! The verbs of a database on its sequences: create, drop, rename, list. The verbs of one sequence are in `sequences`.

use std::sync::Arc;

use base::error::Result;
use base::names::validate_database;

use crate::auto_increment::SequenceOptions;
use crate::database::handle::Database;
use crate::results::SequenceSnapshot;
use crate::sequences::{Sequence, snapshot_of};

impl Database {
    /// Creates a sequence. Without options its values are 1, 2, 3 and so on.
    ///
    /// Fails with SequoiaDB's code -323 (`SDB_SEQUENCE_EXIST`) if a sequence has that name. Fails with SequoiaDB's
    /// code -6 (`SDB_INVALIDARG`) if the name is not allowed (it is empty, or starts with `SYS`, `$`, a space or a
    /// tab) or an option is out of range.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// assert_eq!(shop.sequence("tickets").next_value().run()?, 1);
    /// assert_eq!(shop.sequence("tickets").next_value().run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_sequence(&self, name: impl Into<String>) -> CreateSequence<'_> {
        CreateSequence { database: self, name: name.into(), options: SequenceOptions::default() }
    }

    /// Returns a handle to a sequence. If no sequence has that name, the first verb fails with SequoiaDB's code -324
    /// (`SDB_SEQUENCE_NOT_EXIST`).
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// let tickets = shop.sequence("tickets");
    /// assert_eq!(tickets.fetch(3).run()?.values().collect::<Vec<_>>(), [1, 2, 3]);
    /// assert_eq!(shop.sequence("unknown").next_value().run().unwrap_err().sequoia_code(), Some(-324));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(&self.shared), self.caller.clone(), &self.name, name)
    }

    /// Removes a sequence. Fails with SequoiaDB's code -324 (`SDB_SEQUENCE_NOT_EXIST`) if no sequence has that name.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// shop.drop_sequence("tickets").run()?;
    /// assert!(shop.list_sequences().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_sequence(&self, name: impl Into<String>) -> DropSequence<'_> {
        DropSequence { database: self, name: name.into() }
    }

    /// Gives a sequence another name. It continues after the values that it has given; values that are reserved in
    /// memory are skipped. Handles to the old name fail from then on.
    ///
    /// Fails with SequoiaDB's code -324 (`SDB_SEQUENCE_NOT_EXIST`) if no sequence has the old name, and with
    /// SequoiaDB's code -323 (`SDB_SEQUENCE_EXIST`) if the new name is in use.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// assert_eq!(shop.sequence("tickets").next_value().run()?, 1);
    /// shop.rename_sequence("tickets", "orders").run()?;
    /// assert!(shop.sequence("orders").next_value().run()? > 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename_sequence(&self, from: impl Into<String>, to: impl Into<String>) -> RenameSequence<'_> {
        RenameSequence { database: self, from: from.into(), to: to.into() }
    }

    /// Lists the names of all sequences, ascending. The names of sequences of auto-increment fields start with `SYS_`.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// shop.create_sequence("orders").run()?;
    /// assert_eq!(shop.list_sequences().run()?, ["orders", "tickets"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_sequences(&self) -> ListSequences<'_> {
        ListSequences { database: self }
    }

    /// Reads attributes and state of all sequences, ascending by name. Sequences of auto-increment fields are included.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").start_value(100).run()?;
    /// let snapshots = shop.snapshot_sequences().run()?;
    /// assert_eq!((snapshots[0].name.as_str(), snapshots[0].start_value), ("tickets", 100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_sequences(&self) -> SnapshotSequences<'_> {
        SnapshotSequences { database: self }
    }
}

/// The action that [`Database::create_sequence`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let shop = client.database("shop");
/// shop.create_sequence("tens").start_value(10).increment(10).run()?;
/// assert_eq!(shop.sequence("tens").fetch(2).run()?.values().collect::<Vec<_>>(), [10, 20]);
/// # Ok(())
/// # }
/// ```
#[must_use = "the sequence is created by run()"]
pub struct CreateSequence<'a> {
    database: &'a Database,
    name: String,
    options: SequenceOptions,
}

/// The action that [`Database::drop_sequence`] returns. [`run`](Self::run) executes it.
#[must_use = "the sequence is dropped by run()"]
pub struct DropSequence<'a> {
    database: &'a Database,
    name: String,
}

/// The action that [`Database::rename_sequence`] returns. [`run`](Self::run) executes it.
#[must_use = "the sequence is renamed by run()"]
pub struct RenameSequence<'a> {
    database: &'a Database,
    from: String,
    to: String,
}

/// The action that [`Database::list_sequences`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListSequences<'a> {
    database: &'a Database,
}

/// The action that [`Database::snapshot_sequences`] returns. [`run`](Self::run) executes it.
#[must_use = "the snapshots are taken by run()"]
pub struct SnapshotSequences<'a> {
    database: &'a Database,
}

impl CreateSequence<'_> {
    /// Sets all options at once. The builder of [`SequenceOptions`] has those that are not setters here.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let options = cairndb::SequenceOptions::builder().min_value(0).start_value(0).max_value(9_999).cycled(true);
    /// shop.create_sequence("badges").with_options(options.build()).run()?;
    /// let badges = shop.sequence("badges").fetch(3).run()?;
    /// assert_eq!(badges.values().collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_options(mut self, options: impl Into<SequenceOptions>) -> Self {
        self.options = options.into();
        self
    }

    /// The difference between a value and the next: not 0, and from -2147483647 to 2147483647. The default is 1.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tens").start_value(10).increment(10).run()?;
    /// let tens = shop.sequence("tens").fetch(3).run()?;
    /// assert_eq!(tens.values().collect::<Vec<_>>(), [10, 20, 30]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn increment(mut self, increment: i64) -> Self {
        self.options.options.increment = Some(increment);
        self
    }

    /// The first value. The default is 1, or -1 if the increment is negative.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").start_value(1000).run()?;
    /// assert_eq!(shop.sequence("tickets").next_value().run()?, 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_value(mut self, value: i64) -> Self {
        self.options.options.start_value = Some(value);
        self
    }

    /// Creates the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.define(&database, |storage| {
            shared.catalog.create_sequence(storage, name, &self.name, &self.options.options)
        })
    }
}

impl DropSequence<'_> {
    /// Drops the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.define(&database, |storage| shared.catalog.drop_sequence(storage, name, &self.name))
    }
}

impl RenameSequence<'_> {
    /// Renames the sequence.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        shared
            .define(&database, |storage| shared.catalog.rename_sequence(storage, name, &self.from, &self.to))
    }
}

impl ListSequences<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        let Database { shared, name, .. } = self.database;
        // A name that no database can have is an error, and not a database without sequences.
        validate_database(name)?;
        // A closed store rejects, though the catalog in memory could still answer.
        let _in_use = shared.store.enter()?;
        let states = shared.catalog.sequences.of_database(name);
        Ok(states.iter().map(|state| state.identity.name.clone()).collect())
    }
}

impl SnapshotSequences<'_> {
    /// Makes the snapshots.
    pub fn run(self) -> Result<Vec<SequenceSnapshot>> {
        let Database { shared, name, .. } = self.database;
        validate_database(name)?;
        // A closed store rejects, though the catalog in memory could still answer.
        let _in_use = shared.store.enter()?;
        let states = shared.catalog.sequences.of_database(name);
        Ok(states.iter().map(|state| snapshot_of(state)).collect())
    }
}
