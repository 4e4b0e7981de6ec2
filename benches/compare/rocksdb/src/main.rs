//! The work of the comparison in plain RocksDB: BSON bytes under a counter that the runner keeps.
//!
//! No uniqueness is checked and no id is made: this is the floor on which CairnDB stands. The options
//! are the ones that a careful user of RocksDB would set: Bloom filters, LZ4, a 64 MiB memtable.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rocksdb::{BlockBasedOptions, DB, DBCompressionType, IteratorMode, Options, WriteBatch, WriteOptions};
use workload::{Durability, Order, Result, Seen, Store};

/// As often as CairnDB does it.
const WRITE_INTERVAL: Duration = Duration::from_millis(5);

struct Rocks {
    db: Arc<DB>,
    next: u64,
    commit: WriteOptions,
    /// Hands the log to the operating system again and again, until the sender is gone.
    flusher: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Hands the log over at every interval.
fn start_flusher(db: &Arc<DB>) -> (Sender<()>, JoinHandle<()>) {
    let (end, ended) = channel();
    let db = Arc::clone(db);
    let thread = std::thread::spawn(move || {
        while ended.recv_timeout(WRITE_INTERVAL) == Err(RecvTimeoutError::Timeout)
            && db.flush_wal(false).is_ok()
        {}
    });
    (end, thread)
}

impl Drop for Rocks {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.flusher.take() {
            drop(end);
            // A thread that has panicked has flushed nothing more, and the run is over.
            let _ = thread.join();
        }
    }
}

impl Store for Rocks {
    type Document = Vec<u8>;
    type Id = u64;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_manual_wal_flush(durability == Durability::Delayed);
        let mut commit = WriteOptions::default();
        commit.set_sync(durability == Durability::Synced);
        let db = Arc::new(DB::open(&options, folder)?);
        let flusher = (durability == Durability::Delayed).then(|| start_flusher(&db));
        Ok(Self { db, next: 0, commit, flusher })
    }

    fn prepare(order: &Order) -> Result<Vec<u8>> {
        Ok(bson::serialize_to_vec(order)?)
    }

    fn insert_one(&mut self, document: Vec<u8>) -> Result<u64> {
        let id = self.next;
        self.db.put_opt(id.to_be_bytes(), document, &self.commit)?;
        self.next += 1;
        Ok(id)
    }

    fn insert_many(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let mut batch = WriteBatch::default();
        let mut ids = Vec::with_capacity(documents.len());
        for document in documents {
            batch.put(self.next.to_be_bytes(), document);
            ids.push(self.next);
            self.next += 1;
        }
        self.db.write_opt(batch, &self.commit)?;
        Ok(ids)
    }

    fn read(&self, id: &u64, seen: &mut Seen) -> Result<()> {
        if let Some(document) = self.db.get_pinned(id.to_be_bytes())? {
            seen.bytes(&document);
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        for entry in self.db.iterator(IteratorMode::Start) {
            seen.bytes(&entry?.1);
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run::<Rocks>()
}
