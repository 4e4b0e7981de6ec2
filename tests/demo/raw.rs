//! RocksDB without CairnDB, for one comparison: the same bytes under keys as long, in batches as large, with its own defaults.

use std::path::Path;
use std::time::{Duration, Instant};

use cairndb::bson::RawDocumentBuf;
use rocksdb::{DB, Options, WriteBatch};

use crate::outcome::Outcome;

pub(crate) struct Raw {
    db: DB,
    documents: u64,
    pub(crate) writing: Duration,
}

impl Raw {
    pub(crate) fn create(folder: &Path) -> Outcome<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = DB::open(&options, folder).map_err(|error| format!("RocksDB: {error}"))?;
        Ok(Self { db, documents: 0, writing: Duration::ZERO })
    }

    pub(crate) fn write(&mut self, documents: &[RawDocumentBuf]) -> Outcome<()> {
        let started = Instant::now();
        let mut batch = WriteBatch::default();
        for document in documents {
            self.documents += 1;
            // Twelve bytes and a prefix, as those of an ObjectId in a collection.
            let mut key = [0_u8; 17];
            for (place, byte) in key.iter_mut().rev().zip(self.documents.to_be_bytes().into_iter().rev()) {
                *place = byte;
            }
            batch.put(key, document.as_bytes());
        }
        self.db.write(batch).map_err(|error| format!("RocksDB: {error}"))?;
        self.writing += started.elapsed();
        Ok(())
    }
}
