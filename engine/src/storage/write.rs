//! The only way to the disk: a batch of puts and deletes, committed as a whole.

use std::time::{Duration, Instant};

use rocksdb::{WriteBatch, WriteOptions};

use crate::error::{Error, Result};
use crate::options::PlantedFault;
pub(crate) use crate::storage::durability::CommitLevel;
use crate::storage::durable_mark::DurableMark;
use crate::storage::families::{Database, Family};
use crate::storage::health::{Admission, Health};
use crate::storage::witness::Keeper;
use crate::storage::{planted, translate};

/// How long a write waits before it is tried again.
const STALL: Duration = Duration::from_millis(1);
/// How long closing waits for RocksDB's recovery.
const RECOVERY_MAX: Duration = Duration::from_secs(3);

/// Pending changes. No reader sees them before [`Commits::commit`].
pub(crate) struct Batch<'a> {
    database: &'a Database,
    raw: WriteBatch,
}

/// RocksDB's write options, created once because each creation crosses into C++.
pub(super) struct WriteOptionSet {
    buffered: WriteOptions,
    journaled: WriteOptions,
    /// The same, of writes that fail and do not wait if there is no room in memory.
    buffered_at_once: WriteOptions,
    journaled_at_once: WriteOptions,
}

impl WriteOptionSet {
    pub(super) fn new(fault: PlantedFault) -> Self {
        let options = |is_synced, at_once| {
            let mut options = WriteOptions::default();
            options.set_sync(is_synced && fault != PlantedFault::CommitsNotSynced);
            options.set_no_slowdown(at_once);
            options
        };
        Self {
            buffered: options(false, false),
            journaled: options(true, false),
            buffered_at_once: options(false, true),
            journaled_at_once: options(true, true),
        }
    }

    #[inline]
    fn at(&self, level: CommitLevel, admission: Admission) -> &WriteOptions {
        match (level, admission.never_waits()) {
            (CommitLevel::Buffered, false) => &self.buffered,
            (CommitLevel::Journaled, false) => &self.journaled,
            (CommitLevel::Buffered, true) => &self.buffered_at_once,
            (CommitLevel::Journaled, true) => &self.journaled_at_once,
        }
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(database: &'a Database) -> Self {
        Self { database, raw: WriteBatch::default() }
    }

    /// An empty batch with room for `bytes` bytes of keys and values.
    pub(crate) fn with_capacity(database: &'a Database, bytes: usize) -> Self {
        Self { database, raw: WriteBatch::with_capacity_bytes(bytes) }
    }

    #[inline]
    pub(crate) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.raw.put_cf(self.database.family(family), key, value);
    }

    pub(crate) fn delete(&mut self, family: Family, key: &[u8]) {
        self.raw.delete_cf(self.database.family(family), key);
    }

    /// Deletes every key from `start` (included) to `end` (excluded).
    pub(crate) fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        self.raw.delete_range_cf(self.database.family(family), start, end);
    }

    /// How many changes the batch holds.
    pub(crate) fn len(&self) -> u64 {
        self.raw.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Bytes that the batch holds so far.
    pub(crate) fn bytes(&self) -> usize {
        self.raw.size_in_bytes()
    }
}

/// What every commit and sync goes through. The background thread shares it.
pub(crate) struct Commits {
    pub(super) health: Health,
    pub(super) durable: DurableMark,
    write_options: WriteOptionSet,
    /// `None` in a store that is opened for reading.
    keeper: Option<Keeper>,
    fault: PlantedFault,
}

impl Commits {
    pub(super) fn new(
        health: Health,
        durable: DurableMark,
        keeper: Option<Keeper>,
        fault: PlantedFault,
    ) -> Self {
        Self { health, durable, write_options: WriteOptionSet::new(fault), keeper, fault }
    }

    /// Updates the witness to what is on stable storage now.
    pub(super) fn raise_witness(&self, database: &Database) -> Result<()> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.raise(self.durable.sequence(), &self.health, || {
            self.durable.sync_log(database, &self.health)?;
            // The write of the stamp fails if RocksDB met an error in the background, for example with its MANIFEST.
            // Then the witness must not be raised.
            self.stamp(database)?;
            Ok(self.durable.sequence())
        })
    }

    /// Writes a stamp into the log: what is on stable storage now.
    pub(super) fn stamp(&self, database: &Database) -> Result<()> {
        let (synced, options) = (self.durable.sequence(), &self.write_options.buffered_at_once);
        let written = self.try_until_room(|| database.write_stamp(synced, options));
        written.map_err(|error| self.health.failed(&error))
    }

    /// Waits for a while until RocksDB has recovered from a full disk, if it may be about to: closed in the middle of that, it
    /// would wait for itself.
    pub(super) fn await_recovery(&self, database: &Database) {
        let started = Instant::now();
        let options = &self.write_options.buffered_at_once;
        while self.health.may_recover() && started.elapsed() < RECOVERY_MAX {
            // RocksDB accepts writes again once it has flushed what it had in memory.
            if database.write_stamp(self.durable.sequence(), options).is_ok() {
                return;
            }
            std::thread::sleep(STALL);
        }
    }

    /// Writes the batch as a whole, or not at all.
    ///
    /// On an I/O error the outcome is unknown until the next open, and the error says so.
    pub(crate) fn commit(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        self.write(batch, level, Doubt::IsTold)
    }

    /// Writes a change of what exists, journaled.
    pub(super) fn commit_definition(&self, batch: Batch<'_>) -> Result<()> {
        self.write(batch, CommitLevel::Journaled, Doubt::EndsWrites)
    }

    fn write(&self, batch: Batch<'_>, level: CommitLevel, doubt: Doubt) -> Result<()> {
        let admission = self.health.admit_write()?;
        let Batch { database, mut raw } = batch;
        let changes = raw.len() as u64;
        // Read before the write: others may commit meanwhile, so this commit has at least the number `before +
        // changes`.
        let before = database.latest_sequence();
        // The stamp costs no sync of its own here. Without one the preflight could not tell a damaged write from one
        // that a crash cut short.
        if level == CommitLevel::Journaled {
            raw.put_log_data(database.stamp(self.durable.sequence()).bytes());
        }
        let options = self.write_options.at(level, admission);
        let written = if self.fault == PlantedFault::EntriesApart {
            planted::write_apart(database, raw, options)
        } else if admission.never_waits() {
            // RocksDB takes the batch, so each try has a copy.
            self.try_until_room(|| database.raw().write_opt(WriteBatch::from_data(raw.data()), options))
        } else {
            database.raw().write_opt(raw, options)
        };
        self.settle(written, admission, Written { level, sequence: before + changes, doubt })
    }

    /// Writes one record without building a batch.
    #[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
    #[inline(always)]
    pub(super) fn commit_record(
        &self,
        database: &Database,
        key: &[u8],
        document: &[u8],
        level: CommitLevel,
    ) -> Result<()> {
        if level == CommitLevel::Journaled {
            return self.commit_stamped(database, key, document);
        }
        let admission = self.health.admit_write()?;
        let family = database.family(Family::Records);
        let written =
            database.raw().put_cf_opt(family, key, document, self.write_options.at(level, admission));
        // A buffered write raises no mark, so its number is not read.
        self.settle(written, admission, Written { level, sequence: 0, doubt: Doubt::IsTold })
    }

    /// Tries a write that does not wait again and again, as long as RocksDB is making room for it.
    fn try_until_room(
        &self,
        write: impl Fn() -> std::result::Result<(), rocksdb::Error>,
    ) -> std::result::Result<(), rocksdb::Error> {
        loop {
            let written = write();
            if !written.as_ref().is_err_and(translate::is_stall) || !self.health.makes_room() {
                return written;
            }
            std::thread::sleep(STALL);
        }
    }

    /// Writes one record with a stamp. The stamp needs a batch, whose cost is small compared with the sync.
    #[inline(never)]
    fn commit_stamped(&self, database: &Database, key: &[u8], document: &[u8]) -> Result<()> {
        let mut batch = Batch::with_capacity(database, key.len() + document.len());
        batch.put(Family::Records, key, document);
        self.commit(batch, CommitLevel::Journaled)
    }

    /// Returns once everything written before the call is on stable storage.
    pub(crate) fn sync(&self, database: &Database) -> Result<()> {
        self.durable.sync(database, &self.health)
    }

    /// Whether a sequence's reserve, written up to `sequence`, is on stable storage.
    pub(crate) fn is_reserve_durable(&self, sequence: u64) -> bool {
        self.fault == PlantedFault::ReserveNotSynced || self.durable.sequence() >= sequence
    }

    /// The newest write known to be on stable storage.
    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable.sequence()
    }

    #[inline]
    fn settle(
        &self,
        result: std::result::Result<(), rocksdb::Error>,
        admission: Admission,
        written: Written,
    ) -> Result<()> {
        match result {
            Ok(()) => {
                // Before `confirm_sync`, which can fail: the write itself succeeded, and so the disk is no longer full.
                self.health.succeeded(admission);
                if written.level == CommitLevel::Journaled {
                    let confirmed = self.health.confirm_sync(admission);
                    confirmed.map_err(|error| written.doubt.meet(&self.health, error))?;
                    self.durable.raise(written.sequence);
                }
                Ok(())
            }
            Err(error) => Err(self.health.failed(&error)),
        }
    }
}

/// What a write that returned is known to have reached.
#[derive(Clone, Copy)]
struct Written {
    level: CommitLevel,
    /// A lower bound of the number of the write's last change. RocksDB assigns sequence numbers in the order of the
    /// log, so a synced write covers everything with a lower number.
    sequence: u64,
    doubt: Doubt,
}

/// What follows if a write was made, and whether it is synced is not known.
#[derive(Clone, Copy)]
enum Doubt {
    /// The caller is told.
    IsTold,
    /// The caller is told, and later writes are refused.
    EndsWrites,
}

impl Doubt {
    #[cold]
    fn meet(self, health: &Health, error: Error) -> Error {
        match self {
            Self::IsTold => error,
            Self::EndsWrites => health.doubted(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a write says whose sync was raced by one that found the disk full, and whether later writes are admitted.
    fn raced(doubt: Doubt) -> (Error, bool) {
        let fault = PlantedFault::None;
        let commits = Commits::new(Health::open(), DurableMark::starting_at(1, fault), None, fault);
        let admission = commits.health.admit_write().expect("admitted");
        commits.health.failed_io(&std::io::ErrorKind::StorageFull.into());
        let written = Written { level: CommitLevel::Journaled, sequence: 2, doubt };
        let error = commits.settle(Ok(()), admission, written).expect_err("not confirmed");
        (error, commits.health.admit_write().is_ok())
    }

    /// The catalog on disk had the change and memory had not, and writes went on.
    #[test]
    fn a_definition_in_doubt_ends_writes_and_a_document_does_not() {
        let (error, admitted) = raced(Doubt::IsTold);
        assert!(error.is_commit_unknown() && admitted, "{error:?}");
        let (error, admitted) = raced(Doubt::EndsWrites);
        assert!(error.is_commit_unknown() && !admitted, "{error:?}");
    }
}
