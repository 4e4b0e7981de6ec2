//! `next_value`, `fetch` and `current_value`.

use sequence::error::SequenceError;

use crate::error::Result;
use crate::options::WriteConcern;
use crate::results::FetchedValues;
use crate::sequences::handle::Sequence;
use crate::storage::write::CommitLevel;

/// The most values that one `fetch` can be asked for.
const FETCH_MAX: i64 = 2_147_483_647;

impl Sequence {
    /// The next value. No other call, of any thread or after any crash, gets it again, until the sequence starts over
    /// or is set back.
    ///
    /// Fails with -325 (`SDB_SEQUENCE_EXCEEDED`) when no value is left. A reserve of several values is on stable storage
    /// before the first of them is handed out. Where each value is a reserve of its own (`CacheSize` 1, a gapless
    /// sequence), one that was handed out in the last moments may come again after a power failure, unless the write
    /// concern asks for `journal`.
    #[inline]
    pub fn next_value(&self) -> NextValue<'_> {
        NextValue { sequence: self, write_concern: None }
    }

    /// The next values: `count` of them, or fewer if the acquirer's block ends before, and at least one.
    ///
    /// Fails with -6 (`SDB_INVALIDARG`) for a count below 1, else as [`next_value`](Self::next_value).
    pub fn fetch(&self, count: i64) -> Fetch<'_> {
        Fetch { sequence: self, count, write_concern: None }
    }

    /// The value that this handle's acquirer handed out last; where it has none, the end of the durable reserve.
    ///
    /// Fails with -362 (`SDB_SEQUENCE_NEVER_USED`) before the first value.
    pub fn current_value(&self) -> CurrentValue<'_> {
        CurrentValue { sequence: self }
    }
}

/// A `next_value` that is done by [`run`](Self::run).
#[must_use = "the value is taken by run()"]
pub struct NextValue<'a> {
    sequence: &'a Sequence,
    write_concern: Option<WriteConcern>,
}

/// A `fetch` that is done by [`run`](Self::run).
#[must_use = "the values are taken by run()"]
pub struct Fetch<'a> {
    sequence: &'a Sequence,
    count: i64,
    write_concern: Option<WriteConcern>,
}

/// A `current_value` that is done by [`run`](Self::run).
#[must_use = "the value is read by run()"]
pub struct CurrentValue<'a> {
    sequence: &'a Sequence,
}

impl NextValue<'_> {
    /// Whether to wait until the value cannot come again even after a power failure.
    pub fn write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.write_concern = Some(write_concern);
        self
    }

    /// Takes the value.
    #[inline]
    pub fn run(self) -> Result<i64> {
        let handle = &*self.sequence.handle;
        let level = handle.shared.commit_level(self.write_concern.as_ref())?;
        // After a failed sync the reserve may be gone from the disk, so its values must not leave either.
        if level == CommitLevel::Buffered
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
    /// Whether to wait until the values cannot come again even after a power failure.
    pub fn write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.write_concern = Some(write_concern);
        self
    }

    /// Takes the values.
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
        let acquirer = self.handle.caller.acquirer.as_deref();
        self.on_state(|state, storage| {
            storage.store.admit_write()?;
            let store = state.store(storage, level);
            let taken = state.sequence.take(&state.slot(acquirer), count, &store)?;
            if level == CommitLevel::Journaled {
                sequence::store::Store::make_durable(&store, taken.receipt)?;
            }
            let narrow = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
            Ok(FetchedValues {
                next_value: taken.run.first(),
                return_num: narrow(taken.run.count().cast_signed()),
                increment: narrow(taken.run.increment()),
            })
        })
    }
}
