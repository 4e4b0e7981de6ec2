//! The only way to the disk: a batch of puts and deletes, committed as a whole.

use std::sync::atomic::Ordering;
use std::time::Instant;

use base::error::{Error, ErrorKind, Result};
use base::metrics::notes;
use base::sync::{AtomicBool, AtomicU64};
use rocksdb::{ColumnFamily, WriteBatch, WriteOptions};

pub use crate::batch::Batch;
pub use crate::durability::CommitLevel;
use crate::durable_mark::DurableMark;
use crate::families::{Database, Family};
use crate::health::{Admission, Health};
use crate::latch::Latched;
use crate::log_flush::LogFlush;
use crate::log_turns::LogTurns;
use crate::options::PlantedFault;
use crate::planted;
use crate::quota::charge::Charge;
use crate::stall::{Stalled, Stalls, WriteResult};
use crate::witness::Keeper;
use crate::write_group::{Record, WriteGroup};

/// The path of every commit and sync. The background thread shares it.
pub struct Commits {
    pub(super) health: Health,
    pub(super) durable: DurableMark,
    turns: LogTurns,
    group: WriteGroup,
    /// Created once, because each creation crosses into C++.
    write_options: WriteOptions,
    pub(super) stalls: Stalls,
    /// `None` in a store that is opened for reading, and in one in memory.
    keeper: Option<Keeper>,
    /// `None` where RocksDB hands each write to the operating system by itself.
    log_flush: Option<LogFlush>,
    /// The sequence number in the newest stamp of the log.
    stamped: AtomicU64,
    /// Set before `close` waits for operations: those that last for hours end then, and the writes of closing wait for room.
    pub(super) is_closing: AtomicBool,
    fault: PlantedFault,
}

impl Commits {
    pub(super) fn new(
        health: Health,
        durable: DurableMark,
        keeper: Option<Keeper>,
        fault: PlantedFault,
    ) -> Self {
        let (write_options, stalls) = (write_options(), Stalls::default());
        let (turns, group, log_flush) = (LogTurns::new(), WriteGroup::new(fault), None);
        // The log of an earlier opening describes the writes before, or the witness does.
        let stamped = AtomicU64::new(durable.sequence());
        let is_closing = AtomicBool::new(false);
        Self {
            health,
            durable,
            turns,
            group,
            write_options,
            stalls,
            keeper,
            log_flush,
            stamped,
            is_closing,
            fault,
        }
    }

    /// The commits of a store whose log ends in memory.
    pub(super) fn delaying_log(self) -> Self {
        // RocksDB gives up a log of which a part in memory could not be written.
        Self { health: self.health.without_healing(), log_flush: Some(LogFlush::default()), ..self }
    }

    /// The commits of a store whose writes go into no log.
    pub(super) fn without_log(health: Health, durable: DurableMark, fault: PlantedFault) -> Self {
        let mut write_options = write_options();
        write_options.disable_wal(true);
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

    /// Whether the folder is a copy whose log of changes goes by the id of the original's.
    pub(super) fn is_of_copy(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_of_copy)
    }

    /// Notes that the log of changes of a copy has an id of its own, which is on stable storage.
    pub(super) fn settle_copy(&self) -> Result<()> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.settle_copy(&self.health))
    }

    /// Writes a stamp into the log: what is on stable storage now.
    pub(super) fn stamp(&self, database: &Database) -> Result<()> {
        let written = self.write_now(&mut self.stamp_batch(database))?;
        written.map_err(|refused| refused.error)
    }

    /// A batch with nothing but a stamp. It is not synced, and has no sequence number.
    fn stamp_batch<'a>(&self, database: &'a Database) -> Batch<'a> {
        let mut batch = Batch::new(database);
        self.add_stamp(&mut batch);
        batch
    }

    fn add_stamp(&self, batch: &mut Batch<'_>) {
        let synced = self.durable.sequence();
        batch.stamp(batch.database.stamp(synced));
        self.stamped.fetch_max(synced, Ordering::Relaxed);
    }

    /// Whether something was synced that no stamp shows yet. The next write does, whatever its level: if what was synced is
    /// damaged later, nothing else says that from a write that a crash cut short. A write that was made before the sync had
    /// ended cannot determine it, and neither can the preflight: a power failure leaves the one without the other as well.
    #[inline]
    fn has_unstamped(&self) -> bool {
        self.durable.sequence() > self.stamped.load(Ordering::Relaxed)
    }

    /// Writes the batch as a whole, or not at all, and returns once it has reached `level`.
    ///
    /// On an I/O error the outcome is unknown until the next open, and the error says so.
    #[inline]
    pub fn commit(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        let database = batch.database;
        self.write_for(batch, level)?;
        self.reach(database, level)
    }

    /// Commits, as [`commit`](Self::commit) does, what is written to keys that are latched, and leaves notes of them for transactions.
    #[inline]
    pub(super) fn commit_latched(
        &self,
        batch: Batch<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let database = batch.database;
        self.write_latched(batch, level, latched)?;
        self.reach(database, level)
    }

    /// Writes a batch to keys that are latched, and leaves notes of them.
    #[inline]
    pub(super) fn write_latched(
        &self,
        batch: Batch<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let database = batch.database;
        let written = self.write_for(batch, level);
        self.note(database, latched);
        written
    }

    /// Leaves notes of a write that has returned, whether it succeeded or not. Before any sync: a transaction must not find a key
    /// unchanged once its new value can be read.
    #[inline]
    fn note(&self, database: &Database, latched: &mut Latched<'_>) {
        if self.fault != PlantedFault::NotesLeftOut {
            latched.written(|| database.latest_sequence());
        }
    }

    /// Writes a batch that is to reach a level.
    #[inline]
    pub(super) fn write_for(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        match level {
            CommitLevel::Delayed | CommitLevel::Buffered => self.write_stamped_if_new(batch),
            CommitLevel::Journaled => self.write_unsynced(batch),
        }
    }

    /// Returns once what the caller has written has reached a level.
    #[inline]
    pub(super) fn reach(&self, database: &Database, level: CommitLevel) -> Result<()> {
        match level {
            CommitLevel::Delayed => Ok(()),
            CommitLevel::Buffered => self.hand_over_written(database),
            CommitLevel::Journaled => self.sync_written(database),
        }
    }

    /// Writes a batch that is synced afterwards, by [`sync_written`](Self::sync_written), and is seen before that.
    pub(super) fn write_unsynced(&self, mut batch: Batch<'_>) -> Result<()> {
        // The stamp costs no sync of its own here. Without one the preflight could not distinguish a damaged write from one
        // that a crash cut short.
        self.add_stamp(&mut batch);
        self.write(batch)
    }

    fn write_stamped_if_new(&self, mut batch: Batch<'_>) -> Result<()> {
        if self.has_unstamped() {
            self.add_stamp(&mut batch);
        }
        self.write(batch)
    }

    fn write(&self, mut batch: Batch<'_>) -> Result<()> {
        let admission = self.health.admit_write()?;
        let database = batch.database;
        let charged = if let Some(quota) = database.quota() {
            Some((quota, quota.admit(database, Charge::batch(database, batch.finish()?.bytes()))?))
        } else {
            database.admit_to_disk(|| Ok(Charge::batch(database, batch.finish()?.bytes()).on_disk()))?;
            None
        };
        let written = self.write_now(&mut batch)?;
        if written.as_ref().is_err_and(|refused| met_full_disk(&refused.error)) {
            return self.write_on_full_disk(batch, written);
        }
        if let Some((quota, _charged)) = charged {
            // After the write: noted earlier, it could be mistaken for compacted away before it is there.
            quota.deleted.note(batch.finish()?.bytes());
        }
        self.settle(written, admission)
    }

    /// Goes on with a write that found no space. What is kept for deletes is given up; a delete is tried again until RocksDB has
    /// recovered by it, and so is a write of closing, which no caller can try again. It is the same write, under the same
    /// latches, so it may be in a log twice.
    #[cold]
    fn write_on_full_disk(&self, mut batch: Batch<'_>, mut written: WriteResult) -> Result<()> {
        let (database, began) = (batch.database, Instant::now());
        let Some(room) = database.disk_room() else { return written.map_err(|refused| refused.error) };
        let is_tried_again = Charge::batch(database, batch.finish()?.bytes()).is_delete
            || self.is_closing.load(Ordering::Relaxed);
        while written.as_ref().is_err_and(|refused| met_full_disk(&refused.error))
            && room.recovers(database.path(), began)
            && is_tried_again
        {
            let admission = self.health.admit_write()?;
            written = self.write_now(&mut batch)?;
            if written.is_ok() {
                self.health.succeeded(admission);
            }
        }
        written.map_err(|refused| refused.error)
    }

    /// Gives a batch to RocksDB, and waits as long as it has no room. Fails if the batch is too large for its format.
    fn write_now(&self, batch: &mut Batch<'_>) -> Result<WriteResult> {
        let (database, options) = (batch.database, &self.write_options);
        let finished = batch.finish()?;
        // Until the end of the function, because RocksDB shows the changes at some moment before it.
        let changing = database.record_cache().changing(finished.changes());
        let _leaves = database.changing_leaves(finished.changes());
        notes::wrote(finished.len());
        let write = || {
            let raw = finished.for_rocksdb();
            self.turns.write(&self.health, || {
                if self.fault == PlantedFault::EntriesApart {
                    planted::write_apart(database, raw, options)
                } else if self.fault == PlantedFault::EntriesLeftOut {
                    planted::write_without_entries(database, raw, options)
                } else {
                    database.raw().write_opt(raw, options)
                }
            })
        };
        let stalled = Stalled { database, health: &self.health, bytes: finished.len() };
        let written = self.stalls.outlast(write(), stalled, write);
        if written.is_ok() && changing.has_kept() {
            changing.end(finished.records(database.number(Family::Records)), database.latest_sequence());
        }
        Ok(written)
    }

    /// Writes one record without building a batch. It is new, or the caller has informed the record cache.
    #[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
    #[inline(always)]
    pub(super) fn commit_record(
        &self,
        database: &Database,
        record: RecordBytes<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let RecordBytes { key, document } = record;
        if level == CommitLevel::Journaled || self.has_unstamped() {
            return self.commit_stamped(database, record, level, latched);
        }
        let admission = self.health.admit_write()?;
        let _charged = if let Some(quota) = database.quota() {
            Some(quota.admit(database, Charge::put(key.len() + document.len()))?)
        } else {
            database.admit_to_disk(|| Ok(Charge::put(key.len() + document.len()).on_disk()))?;
            None
        };
        database.live_starts().lower(database.number(Family::Records), key, self.fault);
        let leaf = database.changing_record_leaf(key);
        let (family, options) = (database.family(Family::Records), &self.write_options);
        let bytes = key.len() + document.len();
        let put = Put { database, family, key, document, options };
        notes::wrote(bytes);
        let written = self.turns.write(&self.health, || self.group.write(&put));
        // Tried again alone: what waits for room is as large as it says.
        let again = || self.turns.write(&self.health, || put.put());
        let written = self.stalls.outlast(written, Stalled { database, health: &self.health, bytes }, again);
        drop(leaf);
        self.note(database, latched);
        let settled = self.settle(written, admission);
        settled.inspect_err(|error| give_way(database, error))?;
        if level == CommitLevel::Buffered { self.hand_over_written(database) } else { Ok(()) }
    }

    /// Writes one record with a stamp. The stamp needs a batch, whose cost is small compared with the sync before or after it.
    #[inline(never)]
    fn commit_stamped(
        &self,
        database: &Database,
        record: RecordBytes<'_>,
        level: CommitLevel,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let mut batch = Batch::with_capacity(database, record.key.len() + record.document.len());
        batch.put_new_record(record.key, record.document);
        self.commit_latched(batch, level, latched)
    }

    /// Returns once everything written before the call is on stable storage.
    pub fn sync(&self, database: &Database) -> Result<()> {
        self.durable.sync(database, &self.health, &self.turns)
    }

    /// Syncs what the caller has written. RocksDB could do so within the write. But if it fails then, after the write is in the
    /// log, the write is in no memtable; RocksDB recovers from a full disk by writing the memtables of one family after the
    /// other to tables; and if the process dies between two of them, the log is replayed for the others alone: half a write
    /// comes back, such as an entry of an index without its document.
    pub(super) fn sync_written(&self, database: &Database) -> Result<()> {
        if self.fault == PlantedFault::CommitsNotSynced {
            return Ok(());
        }
        self.sync(database).map_err(outcome_unknown)
    }

    /// Returns once the operating system has what the caller has written.
    #[inline]
    fn hand_over_written(&self, database: &Database) -> Result<()> {
        // Nearly every store has none: its writes were handed over by RocksDB.
        if self.log_flush.is_none() || self.fault == PlantedFault::WritesNotHandedOver {
            return Ok(());
        }
        self.hand_over(database).map_err(outcome_unknown)
    }

    /// Returns once the operating system has everything that was written before the call.
    #[cold]
    pub(super) fn hand_over(&self, database: &Database) -> Result<()> {
        self.log_flush.as_ref().map_or(Ok(()), |flush| flush.run(database, &self.health))
    }

    /// Whether a sequence's reserve, written up to `sequence`, is on stable storage.
    #[inline]
    pub fn is_reserve_durable(&self, sequence: u64) -> bool {
        self.fault == PlantedFault::ReserveNotSynced || self.durable.sequence() >= sequence
    }

    /// The newest write known to be on stable storage.
    #[inline]
    pub fn durable_sequence(&self) -> u64 {
        self.durable.sequence()
    }

    /// Waits until everything up to `sequence` is on stable storage, or until a moment. Returns whether it is. It begins no sync.
    pub fn wait_until_durable(&self, sequence: u64, moment: Instant) -> bool {
        self.durable.wait_until(sequence, moment)
    }

    #[inline]
    fn settle(&self, result: WriteResult, admission: Admission) -> Result<()> {
        match result {
            Ok(()) => {
                self.health.succeeded(admission);
                Ok(())
            }
            Err(refused) => Err(refused.error),
        }
    }
}

/// The key of a record, and the document that it is to have.
#[derive(Clone, Copy)]
pub struct RecordBytes<'a> {
    /// The key in the family of records.
    pub key: &'a [u8],
    /// The bytes of the document.
    pub document: &'a [u8],
}

/// A record as it is given to RocksDB.
struct Put<'a> {
    database: &'a Database,
    family: &'a ColumnFamily,
    key: &'a [u8],
    document: &'a [u8],
    options: &'a WriteOptions,
}

impl Record for Put<'_> {
    #[inline]
    fn bytes(&self) -> usize {
        self.key.len() + self.document.len()
    }

    #[inline]
    fn put(&self) -> std::result::Result<(), rocksdb::Error> {
        self.database.raw().put_cf_opt(self.family, self.key, self.document, self.options)
    }

    fn add_to(&self, batch: &mut WriteBatch) {
        batch.put_cf(self.family, self.key, self.document);
    }

    fn write_batch(&self, batch: WriteBatch) -> std::result::Result<(), rocksdb::Error> {
        self.database.raw().write_opt(batch, self.options)
    }
}

/// The options of all writes. No write waits inside RocksDB: see [`Stalls`].
fn write_options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_no_slowdown(true);
    options
}

/// Whether the disk itself had no space, and not RocksDB's memory.
fn met_full_disk(error: &Error) -> bool {
    error.is_no_space() && error.is_commit_unknown()
}

/// Gives up what is kept for deletes, once a write has met a full disk.
#[cold]
fn give_way(database: &Database, error: &Error) {
    if let Some(room) = database.disk_room().filter(|_| met_full_disk(error)) {
        room.give_up(database.path());
    }
}

/// The error for a write that was made and did not get as far as it should.
#[cold]
fn outcome_unknown(error: Error) -> Error {
    if error.is_commit_unknown() {
        return error;
    }
    if let ErrorKind::NoSpace { message, .. } = error.kind() {
        return Error::new(ErrorKind::NoSpace { message: message.clone(), during_commit: true });
    }
    Error::new(ErrorKind::CommitUnknown { message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The disk that was full when another write was tried, or that failed since, says nothing of this write.
    #[test]
    fn whatever_refuses_the_sync_of_a_write_leaves_its_outcome_unknown() {
        let message = || "full".to_owned();
        for kind in [
            ErrorKind::NoSpace { message: message(), during_commit: false },
            ErrorKind::Poisoned { cause: message() },
            ErrorKind::Damaged { cause: message() },
            ErrorKind::CommitUnknown { message: message() },
        ] {
            let was_full = matches!(kind, ErrorKind::NoSpace { .. });
            let error = outcome_unknown(Error::new(kind));
            assert!(error.is_commit_unknown() && error.is_no_space() == was_full, "{error:?}");
        }
    }
}
