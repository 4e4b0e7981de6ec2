//! The one way to the disk: a batch of puts and deletes, committed as a whole.

use rocksdb::{WriteBatch, WriteOptions};

use crate::error::Result;
pub(crate) use crate::storage::durability::CommitLevel;
use crate::storage::families::{Database, Family};
use crate::storage::health::{Admission, Health};
use crate::storage::sync::DurableMark;
use crate::storage::translate;
use crate::storage::witness::Keeper;
use crate::storage::{Store, folder, fork, witness};

/// Pending changes. Nothing is visible before [`Store::commit`].
pub(crate) struct Batch<'a> {
    database: &'a Database,
    raw: WriteBatch,
}

/// RocksDB's write options, made once.
pub(super) struct WriteOptionSet {
    buffered: WriteOptions,
    journaled: WriteOptions,
}

impl WriteOptionSet {
    pub(super) fn new() -> Self {
        let mut journaled = WriteOptions::default();
        journaled.set_sync(true);
        Self { buffered: WriteOptions::default(), journaled }
    }

    fn at(&self, level: CommitLevel) -> &WriteOptions {
        match level {
            CommitLevel::Buffered => &self.buffered,
            CommitLevel::Journaled => &self.journaled,
        }
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(database: &'a Database) -> Self {
        Self { database, raw: WriteBatch::default() }
    }

    /// With room for `bytes` of keys and values.
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

/// What every commit and sync goes through; shared with the thread in the background.
pub(crate) struct Commits {
    pub(super) health: Health,
    pub(super) durable: DurableMark,
    write_options: WriteOptionSet,
    /// Absent where nothing is written.
    keeper: Option<Keeper>,
}

impl Commits {
    pub(super) fn new(health: Health, durable: DurableMark, keeper: Option<Keeper>) -> Self {
        Self { health, durable, write_options: WriteOptionSet::new(), keeper }
    }

    /// Has the witness say what is on stable storage by now.
    pub(super) fn raise_witness(&self, database: &Database) -> Result<()> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.raise(self.durable.sequence(), &self.health, || {
            self.durable.sync_log(database, &self.health)?;
            // This fails if RocksDB met an error in the background, with its MANIFEST for one.
            self.stamp(database)?;
            Ok(self.durable.sequence())
        })
    }

    /// Notes in the log what is on stable storage by now.
    pub(super) fn stamp(&self, database: &Database) -> Result<()> {
        database.write_stamp(self.durable.sequence()).map_err(|error| self.health.failed(&error))
    }

    /// Writes the batch as a whole, or not at all.
    ///
    /// On an I/O error the outcome is unknown until the next open, and the error says so.
    pub(crate) fn commit(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        let admission = self.health.admit_write()?;
        let Batch { database, mut raw } = batch;
        let changes = raw.len() as u64;
        let before = database.latest_sequence();
        if level == CommitLevel::Journaled {
            raw.put_log_data(database.stamp(self.durable.sequence()).bytes());
        }
        let written = database.raw().write_opt(raw, self.write_options.at(level));
        self.settle(written, admission, Written { level, sequence: before + changes })
    }

    /// Writes one record by itself: a batch of one without building it.
    #[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
    #[inline(always)]
    fn commit_record(
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
        let written = database.raw().put_cf_opt(family, key, document, self.write_options.at(level));
        self.settle(written, admission, Written { level, sequence: 0 })
    }

    /// Writes one record with a stamp, for which it needs a batch; beside its sync that is nothing.
    #[inline(never)]
    fn commit_stamped(&self, database: &Database, key: &[u8], document: &[u8]) -> Result<()> {
        let mut batch = Batch::with_capacity(database, key.len() + document.len());
        batch.put(Family::Records, key, document);
        self.commit(batch, CommitLevel::Journaled)
    }

    /// Returns once everything written so far is on stable storage.
    pub(crate) fn sync(&self, database: &Database) -> Result<()> {
        self.durable.sync(database, &self.health)
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
                self.health.succeeded(admission);
                if written.level == CommitLevel::Journaled {
                    self.health.confirm_sync(admission)?;
                    self.durable.raise(written.sequence);
                }
                Ok(())
            }
            Err(error) => Err(self.health.failed(&error)),
        }
    }
}

/// A write that returned.
#[derive(Clone, Copy)]
struct Written {
    level: CommitLevel,
    /// One that it is sure to have reached: sequence numbers are taken in WAL order, so a synced write covers
    /// everything numbered below it.
    sequence: u64,
}

impl Store {
    /// Writes the batch as a whole, or not at all.
    ///
    /// On an I/O error the outcome is unknown until the next open, and the error says so.
    pub(crate) fn commit(&self, batch: Batch<'_>, level: CommitLevel) -> Result<()> {
        self.commits.commit(batch, level)
    }

    /// Writes one record by itself: a batch of one without building it.
    #[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
    #[inline(always)]
    pub(crate) fn commit_record(
        &self,
        database: &Database,
        key: &[u8],
        document: &[u8],
        level: CommitLevel,
    ) -> Result<()> {
        self.commits.commit_record(database, key, document, level)
    }

    /// Returns once everything written so far is on stable storage.
    pub(crate) fn sync(&self, database: &Database) -> Result<()> {
        self.commits.sync(database)
    }

    /// Fails where a write would: read-only, poisoned, damaged, or a forked child's.
    #[inline]
    pub(crate) fn admit_write(&self) -> Result<()> {
        fork::refuse_child()?;
        self.commits.health.admit_write().map(|_admission| ())
    }

    /// The newest write known to be on stable storage.
    pub(crate) fn durable_sequence(&self) -> u64 {
        self.commits.durable_sequence()
    }

    /// Writes memtables to table files, so that the WAL can be dropped.
    pub(crate) fn flush(&self, database: &Database) -> Result<()> {
        self.admit_write()?;
        for family in Family::ALL {
            let flushed = database.raw().flush_cf(database.family(family));
            flushed.map_err(|error| self.commits.health.failed(&error))?;
        }
        Ok(())
    }

    /// Copies the state of this moment into the absent folder `target`. Files are hard-linked where possible.
    /// The copy has no marker yet: see [`Store::publish_copy`].
    pub(crate) fn checkpoint(database: &Database, target: &std::path::Path) -> Result<()> {
        let checkpoint = rocksdb::checkpoint::Checkpoint::new(database.raw()).map_err(translate::read)?;
        // RocksDB makes folders that all may enter, so the copy is made in one that they may not.
        let mut made_in = target.as_os_str().to_owned();
        made_in.push(format!(".{}.making", std::process::id()));
        let made_in = std::path::PathBuf::from(made_in);
        let copy = made_in.join("copy");
        folder::make_private(&made_in)?;
        if let Err(error) = checkpoint.create_checkpoint(&copy) {
            // Only an empty folder is removed: what RocksDB could not clean up is left for inspection.
            if let Err(error) = std::fs::remove_dir(&made_in) {
                tracing::warn!(%error, path = %made_in.display(), "what is left of a copy stays");
            }
            return Err(translate::read(error));
        }
        folder::move_copy(&copy, &made_in, target)
    }

    /// Declares a checkpoint of this database complete: from now on it can be opened.
    pub(crate) fn publish_copy(database: &Database, target: &std::path::Path) -> Result<()> {
        witness::write_for_copy(target, database.id())?;
        folder::mark_copy(target)
    }
}
