//! Tables that are made outside of RocksDB's memtables: sorted keys are written to table files, and RocksDB ingests the files
//! as they are.
//!
//! Nothing of it is in the log, so a table gets no sequence number either: the preflight would miss the write that has
//! it. Without a number of its own a table must lie below everything that RocksDB has in its range of keys. So the caller
//! chooses keys that no reader and no writer uses yet, and RocksDB rejects the tables while a compaction runs across
//! them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::error::Result;
use base::sync;
use rocksdb::{IngestExternalFileOptions, SstFileWriter};

use crate::families::{Database, Family};
use crate::paused::PausedCompactions;
use crate::scratch::BuildFolder;
use crate::translate;

/// The number of bytes of a table that may be written before the folder's quota is asked again.
const UNPAID_BYTES: usize = 64 << 10;
/// The time that tables that RocksDB rejects are offered again before compactions are paused.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two offers.
const OFFER_INTERVAL: Duration = Duration::from_millis(20);

/// Writes ascending keys of one family to table files.
pub struct Tables<'a> {
    database: &'a Database,
    folder: &'a BuildFolder,
    family: Family,
    writer: Option<SstFileWriter<'a>>,
    files: Vec<PathBuf>,
    /// The bytes that were added since the folder's quota was asked.
    unpaid: usize,
}

impl<'a> Tables<'a> {
    /// Tables in the folder of an index build, for keys of the family.
    pub fn new(database: &'a Database, folder: &'a BuildFolder, family: Family) -> Self {
        Self { database, folder, family, writer: None, files: Vec::new(), unpaid: 0 }
    }

    /// Adds a key, which must be higher than the one before.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.unpaid += key.len() + value.len();
        if self.unpaid >= UNPAID_BYTES {
            self.database.make_room_for_file(std::mem::take(&mut self.unpaid))?;
        }
        let full = |writer: &SstFileWriter<'_>| writer.file_size() >= self.database.table_bytes();
        if self.writer.as_ref().is_some_and(full) {
            self.finish_file()?;
        }
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin_file()?,
        };
        let added = writer.put(key, value).map_err(translate::read);
        self.writer = Some(writer);
        added
    }

    fn begin_file(&mut self) -> Result<SstFileWriter<'a>> {
        let path = self.folder.file(&format!("{}.table", self.files.len()));
        let writer = SstFileWriter::create(self.database.table_options());
        writer.open(&path).map_err(translate::read)?;
        self.files.push(path);
        Ok(writer)
    }

    /// Ends the last file, and lets RocksDB ingest all of them in one step. `look` says whether to go on waiting.
    pub fn ingest(mut self, look: impl Fn() -> Result<()>) -> Result<()> {
        self.finish_file()?;
        if self.files.is_empty() {
            return Ok(());
        }
        // One at a time, because compactions may be paused, and the first to end would let them go on for both.
        let _ingesting = self.database.ingesting.lock();
        let began = Instant::now();
        let mut paused = None;
        loop {
            if self.offer()? {
                return Ok(());
            }
            look()?;
            // Compactions that cover the keys end, but others may begin: then no new ones are let begin.
            if began.elapsed() > PATIENCE && paused.is_none() {
                paused = Some(PausedCompactions::of(self.database, self.family)?);
            }
            sync::sleep(OFFER_INTERVAL);
        }
    }

    fn finish_file(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer.finish().map_err(translate::read),
            None => Ok(()),
        }
    }

    /// Offers the files to RocksDB. Returns `false` if it would have to give them a sequence number.
    fn offer(&self) -> Result<bool> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        // No open snapshot has to be kept from the keys, because no reader asks for them.
        options.set_snapshot_consistency(false);
        options.set_allow_global_seqno(false);
        options.set_allow_blocking_flush(false);
        let family = self.database.family(self.family);
        match self.database.raw().ingest_external_file_cf_opts(family, &options, self.files.clone()) {
            Ok(()) => Ok(true),
            // RocksDB gives no kind for it, only this text.
            Err(error) if error.as_ref().contains("Global seqno is required") => Ok(false),
            Err(error) => Err(translate::read(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use base::error::{Error, ErrorKind};

    use super::*;
    use crate::fixture::Fixture;
    use crate::handles::Storage;
    use crate::keys::IndexId;
    use crate::write::{Batch, CommitLevel};

    const BUILD: IndexId = IndexId(77);

    fn key(number: u32) -> Vec<u8> {
        [BUILD.prefix(), number.to_be_bytes()].concat()
    }

    fn put(storage: Storage<'_>, number: u32) {
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Entries, &key(number), b"old");
        storage.store.commit(batch, CommitLevel::Buffered).expect("committed");
    }

    fn offer(storage: Storage<'_>, look: impl Fn() -> Result<()>) -> Result<()> {
        let folder = BuildFolder::make(storage.database, BUILD).expect("made");
        let mut tables = Tables::new(storage.database, &folder, Family::Entries);
        for number in 0..1000 {
            tables.add(&key(number), b"new").expect("added");
        }
        tables.ingest(look)
    }

    /// The log has no record of a table. If a table got a number, the preflight would miss the write that has it.
    #[test]
    fn a_table_is_read_and_takes_no_sequence_number() {
        let fixture = Fixture::new();
        let storage = fixture.storage();
        let snapshot = crate::snapshot::Snapshot::take(storage.database);
        let before = storage.database.latest_sequence();
        offer(storage, || Ok(())).expect("taken over");
        assert_eq!(storage.database.latest_sequence(), before);
        let found = storage.database.get(Family::Entries, &key(999)).expect("read");
        assert_eq!(found.as_deref(), Some(&b"new"[..]));
        drop(snapshot);
    }

    #[test]
    fn a_table_across_stored_keys_waits_until_the_caller_gives_up() {
        let fixture = Fixture::new();
        let storage = fixture.storage();
        put(storage, 500);
        storage.store.flush(storage.database).expect("flushed");
        let began = Instant::now();
        let looks = Cell::new(0);
        // Longer than is needed to pause compactions.
        let look = || {
            looks.set(looks.get() + 1);
            if began.elapsed() < PATIENCE + 3 * OFFER_INTERVAL {
                Ok(())
            } else {
                Err(Error::invalid_argument("enough"))
            }
        };
        let refused = offer(storage, look).expect_err("it is never taken over");
        assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }) && looks.get() > 2, "{refused}");
        let found = storage.database.get(Family::Entries, &key(500)).expect("read");
        assert_eq!(found.as_deref(), Some(&b"old"[..]));
        assert_eq!(storage.database.get(Family::Entries, &key(501)).expect("read").as_deref(), None);
    }

    /// Such keys would be hidden by the table. It is an error, and not a flush that writers wait for.
    #[test]
    fn a_table_across_keys_of_memtables_is_refused() {
        let fixture = Fixture::new();
        let storage = fixture.storage();
        put(storage, 500);
        let refused = offer(storage, || Ok(())).expect_err("it is not taken over");
        assert!(refused.to_string().contains("flush"), "{refused}");
    }
}
