//! The only way to the disk: a batch of puts and deletes, committed as a whole.

use std::time::{Duration, Instant};

use rocksdb::WriteOptions;

use crate::error::{Error, Result};
use crate::metrics::notes;
use crate::options::PlantedFault;
pub(crate) use crate::storage::batch::Batch;
pub(crate) use crate::storage::durability::CommitLevel;
use crate::storage::durable_mark::DurableMark;
use crate::storage::families::{Database, Family};
use crate::storage::health::{Admission, Health};
use crate::storage::log_turns::LogTurns;
use crate::storage::planted;
use crate::storage::quota::charge::Charge;
use crate::storage::stall::{Stalled, Stalls, WriteResult};
use crate::storage::witness::Keeper;
use crate::sync;

/// How long closing waits before it looks again whether RocksDB has recovered.
const RECOVERY_NAP: Duration = Duration::from_millis(1);
/// How long closing waits for RocksDB's recovery.
const RECOVERY_MAX: Duration = Duration::from_secs(3);

/// RocksDB's write options, created once because each creation crosses into C++. No write waits inside RocksDB: see
/// [`Stalls`].
struct WriteOptionSet {
    buffered: WriteOptions,
    journaled: WriteOptions,
}

impl WriteOptionSet {
    fn new(has_log: bool, fault: PlantedFault) -> Self {
        let options = |is_synced| {
            let mut options = WriteOptions::default();
            options.disable_wal(!has_log);
            options.set_sync(has_log && is_synced && fault != PlantedFault::CommitsNotSynced);
            options.set_no_slowdown(true);
            options
        };
        Self { buffered: options(false), journaled: options(true) }
    }

    #[inline]
    fn at(&self, level: CommitLevel) -> &WriteOptions {
        match level {
            CommitLevel::Buffered => &self.buffered,
            CommitLevel::Journaled => &self.journaled,
        }
    }
}

/// What every commit and sync goes through. The background thread shares it.
pub(crate) struct Commits {
    pub(super) health: Health,
    pub(super) durable: DurableMark,
    turns: LogTurns,
    write_options: WriteOptionSet,
    pub(super) stalls: Stalls,
    /// `None` in a store that is opened for reading, and in one in memory.
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
        let (write_options, stalls) = (WriteOptionSet::new(true, fault), Stalls::default());
        Self { health, durable, turns: LogTurns::new(), write_options, stalls, keeper, fault }
    }

    /// The commits of a store whose writes go into no log.
    pub(super) fn without_log(health: Health, durable: DurableMark, fault: PlantedFault) -> Self {
        let write_options = WriteOptionSet::new(false, fault);
        Self { write_options, turns: LogTurns::without_log(), ..Self::new(health, durable, None, fault) }
    }

    /// Updates the witness to what is on stable storage now.
    pub(super) fn raise_witness(&self, database: &Database) -> Result<()> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.raise(self.durable.sequence(), &self.health, || {
            self.durable.sync_log(database, &self.health, &self.turns)?;
            // The write of the stamp fails if RocksDB met an error in the background, for example with its MANIFEST.
            // Then the witness must not be raised.
            self.stamp(database)?;
            Ok(self.durable.sequence())
        })
    }

    /// Writes a stamp into the log: what is on stable storage now.
    pub(super) fn stamp(&self, database: &Database) -> Result<()> {
        let written = self.write_now(&mut self.stamp_batch(database), CommitLevel::Buffered)?;
        written.map_err(|refused| refused.error)
    }

    /// A batch with nothing but a stamp. It is not synced, and has no sequence number.
    fn stamp_batch<'a>(&self, database: &'a Database) -> Batch<'a> {
        let mut batch = Batch::new(database);
        batch.stamp(database.stamp(self.durable.sequence()));
        batch
    }

    /// Waits for a while until RocksDB has recovered from a full disk, if it may be about to: closed in the middle of that, it
    /// would wait for itself.
    pub(super) fn await_recovery(&self, database: &Database) {
        let started = Instant::now();
        while self.health.may_recover() && started.elapsed() < RECOVERY_MAX {
            // RocksDB accepts writes again once it has flushed what it had in memory.
            let mut batch = self.stamp_batch(database);
            let tried = batch.finish().is_ok_and(|finished| {
                database.raw().write_opt(finished.for_rocksdb(), &self.write_options.buffered).is_ok()
            });
            if tried {
                return;
            }
            sync::sleep(RECOVERY_NAP);
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

    fn write(&self, mut batch: Batch<'_>, level: CommitLevel, doubt: Doubt) -> Result<()> {
        let admission = self.health.admit_write()?;
        let (database, changes) = (batch.database, batch.len());
        let charged = match database.quota() {
            Some(quota) => {
                Some((quota, quota.admit(database, Charge::batch(database, batch.finish()?.bytes()))?))
            }
            None => None,
        };
        // Read before the write: others may commit meanwhile, so this commit has at least the number `before +
        // changes`.
        let before = database.latest_sequence();
        // The stamp costs no sync of its own here. Without one the preflight could not tell a damaged write from one
        // that a crash cut short.
        if level == CommitLevel::Journaled {
            batch.stamp(database.stamp(self.durable.sequence()));
        }
        let written = self.write_now(&mut batch, level)?;
        if let Some((quota, _charged)) = charged {
            // After the write: noted earlier, it could be taken for compacted away before it is there.
            quota.deleted.note(batch.finish()?.bytes());
        }
        self.settle(written, admission, Written { level, sequence: before + changes, doubt })
    }

    /// Gives a batch to RocksDB, and waits as long as it has no room. Fails if the batch is too large for its format.
    fn write_now(&self, batch: &mut Batch<'_>, level: CommitLevel) -> Result<WriteResult> {
        let (database, options) = (batch.database, self.write_options.at(level));
        let finished = batch.finish()?;
        notes::wrote(finished.len());
        // A buffered write is too fast to be timed by itself.
        let begin = (level == CommitLevel::Journaled).then(Instant::now);
        let write = || {
            let raw = finished.for_rocksdb();
            self.turns.write(&self.health, || {
                if self.fault == PlantedFault::EntriesApart {
                    planted::write_apart(database, raw, options)
                } else {
                    database.raw().write_opt(raw, options)
                }
            })
        };
        let stalled = Stalled { database, health: &self.health, bytes: finished.len() };
        let written = self.stalls.outlast(write(), stalled, write);
        // The sync is a part of RocksDB's write, and nearly all of its time.
        if let Some(begin) = begin {
            self.durable.syncs.record_since(begin);
        }
        Ok(written)
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
        let _charged = match database.quota() {
            Some(quota) => Some(quota.admit(database, Charge::put(key.len() + document.len()))?),
            None => None,
        };
        let (family, options) = (database.family(Family::Records), self.write_options.at(level));
        let put = || database.raw().put_cf_opt(family, key, document, options);
        let write = || self.turns.write(&self.health, put);
        let bytes = key.len() + document.len();
        notes::wrote(bytes);
        let written = self.stalls.outlast(write(), Stalled { database, health: &self.health, bytes }, write);
        // A buffered write raises no mark, so its number is not read.
        self.settle(written, admission, Written { level, sequence: 0, doubt: Doubt::IsTold })
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
        self.durable.sync(database, &self.health, &self.turns)
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
    fn settle(&self, result: WriteResult, admission: Admission, written: Written) -> Result<()> {
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
            Err(refused) => Err(refused.error),
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
