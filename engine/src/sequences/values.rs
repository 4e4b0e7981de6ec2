//! The verbs that return values of a sequence: `next_value`, `fetch` and `current_value`.

use base::error::Result;
use sequence::error::SequenceError;
use store::write::CommitLevel;

use crate::options::WriteConcern;
use crate::results::FetchedValues;
use crate::sequences::handle::Sequence;

/// The highest number of values of one `fetch`.
const FETCH_MAX: i64 = 2_147_483_647;

impl Sequence {
    /// Acquires the next value. No other call, in any thread or after a crash, gets the same value, until the
    /// sequence starts over or is set back.
    ///
    /// Fails with -325 (`SDB_SEQUENCE_EXCEEDED`) if no value is left. A reserve of several values is on
    /// stable storage before the first of them is handed out. If each value is a reserve of its own
    /// (`CacheSize` 1, a gapless sequence), a value of the last moments may be handed out again after a power
    /// failure, unless the write concern asks for `journal`.
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
    /// assert_eq!(tickets.next_value().run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn next_value(&self) -> NextValue<'_> {
        NextValue { sequence: self, write_concern: None }
    }

    /// Acquires the next `count` values, or fewer if the acquirer's block has fewer left, and at least one.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) for a count below 1, else like [`next_value`](Self::next_value).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let three = db.sequence("tickets").fetch(3).run()?;
    /// assert_eq!(three.values().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fetch(&self, count: i64) -> Fetch<'_> {
        Fetch { sequence: self, count, write_concern: None }
    }

    /// The value that this handle's acquirer handed out last. If it has handed out none, the end of the
    /// durable reserve.
    ///
    /// Fails with -362 (`SDB_SEQUENCE_NEVER_USED`) before the first value.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// assert!(tickets.current_value().run().is_err());
    /// let taken = tickets.next_value().run()?;
    /// assert_eq!(tickets.current_value().run()?, taken);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current_value(&self) -> CurrentValue<'_> {
        CurrentValue { sequence: self }
    }
}

/// The options of [`Sequence::next_value`], which is done by [`run`](Self::run).
#[must_use = "the value is taken by run()"]
pub struct NextValue<'a> {
    sequence: &'a Sequence,
    write_concern: Option<WriteConcern>,
}

/// The options of [`Sequence::fetch`], which is done by [`run`](Self::run).
#[must_use = "the values are taken by run()"]
pub struct Fetch<'a> {
    sequence: &'a Sequence,
    count: i64,
    write_concern: Option<WriteConcern>,
}

/// The options of [`Sequence::current_value`], which is done by [`run`](Self::run).
#[must_use = "the value is read by run()"]
pub struct CurrentValue<'a> {
    sequence: &'a Sequence,
}

impl NextValue<'_> {
    /// With `journal`, waits until the value cannot be handed out again even after a power failure.
    ///
    /// ```
    /// use cairndb::{Client, WriteConcern};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// # db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// assert_eq!(tickets.next_value().write_concern(WriteConcern::journaled()).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.write_concern = Some(write_concern);
        self
    }

    /// Acquires the value.
    #[inline]
    pub fn run(self) -> Result<i64> {
        let handle = &*self.sequence.handle;
        let level = handle.shared.commit_level(self.write_concern.as_ref())?;
        // The short way: one atomic step in a block, without entering the store. After a failed sync the
        // reserve may be gone from the disk, so its values must not be handed out either.
        if level != CommitLevel::Journaled
            && handle.shared.store.admit_write().is_ok()
            && let Some(state) = handle.resolved.get()
            && let Some(value) = state.slot(handle.caller.acquirer.as_deref()).take_one()
        {
            return Ok(value);
        }
        self.sequence.take(1, level).map(|taken| taken.next_value)
    }
}

impl Fetch<'_> {
    /// With `journal`, waits until the values cannot be handed out again even after a power failure.
    ///
    /// ```
    /// use cairndb::{Client, WriteConcern};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// # db.create_sequence("tickets").run()?;
    /// let ten = db.sequence("tickets").fetch(10).write_concern(WriteConcern::journaled()).run()?;
    /// assert_eq!(ten.values().count(), 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.write_concern = Some(write_concern);
        self
    }

    /// Acquires the values.
    ///
    /// Fewer values than asked for come from the end of a block.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// # db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// assert!(tickets.fetch(0).run().is_err());
    /// assert_eq!(tickets.fetch(2).run()?.next_value, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<FetchedValues> {
        let level = self.sequence.handle.shared.commit_level(self.write_concern.as_ref())?;
        let count =
            u64::try_from(self.count).ok().filter(|count| (1..=FETCH_MAX.unsigned_abs()).contains(count));
        let count = count.ok_or_else(|| SequenceError::OptionRange {
            option: "count",
            expected: format!("within 1 and {FETCH_MAX}"),
            value: self.count.to_string(),
        })?;
        self.sequence.take(count, level)
    }
}

impl CurrentValue<'_> {
    /// Reads the value.
    pub fn run(self) -> Result<i64> {
        let acquirer = self.sequence.handle.caller.acquirer.as_deref();
        self.sequence.inspect(|state, _| Ok(state.sequence.current_value(&state.slot(acquirer))?))
    }
}

impl Sequence {
    fn take(&self, count: u64, level: CommitLevel) -> Result<FetchedValues> {
        // Values come from the blocks of the handle's own acquirer, or of the shared one.
        let acquirer = self.handle.caller.acquirer.as_deref();
        self.on_state(|state, storage| {
            storage.store.admit_write()?;
            let store = state.store(storage);
            let taken = state.sequence.take(&state.slot(acquirer), count, &store)?;
            // The reserve may have been written by another call that did not wait for the sync.
            if level == CommitLevel::Journaled {
                sequence::store::Store::make_durable(&store, taken.receipt)?;
            }
            // SequoiaDB returns 32 bits here, which the limits of count and increment keep these values
            // within.
            let narrow = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
            Ok(FetchedValues {
                next_value: taken.run.first(),
                return_num: narrow(taken.run.count().cast_signed()),
                increment: narrow(taken.run.increment()),
            })
        })
    }
}
