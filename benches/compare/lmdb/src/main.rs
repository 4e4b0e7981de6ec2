//! The work of the comparison in LMDB: BSON bytes under a counter that the runner keeps.
//!
//! Without syncs (`MDB_NOSYNC`) a commit reaches the operating system's cache; a power failure may
//! then damage the file, which LMDB says itself. The map is far larger than the data will be.

use std::path::Path;
use std::process::ExitCode;

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use workload::{Durability, Order, Result, Seen, Store};

const MAP_BYTES: usize = 16 << 30;

struct Lmdb {
    env: Env,
    documents: Database<'static, U64<BigEndian>, Bytes>,
    next: u64,
}

impl Store for Lmdb {
    type Document = Vec<u8>;
    type Id = u64;
    // `insert_many` is one already.
    const HAS_TRANSACTIONS: bool = true;

    #[expect(unsafe_code, reason = "LMDB maps its file, and asks its caller for exclusive use of it")]
    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        if durability == Durability::Delayed {
            return Err("LMDB hands each commit to the operating system".into());
        }
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if durability == Durability::Unsynced {
            // SAFETY: the flag risks the file's contents at a power failure, and memory never.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the folder is this run's own, and no one else writes to the mapped file.
        let env = unsafe { options.open(folder)? };
        let documents = env
            .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Self { env, documents, next: 0 })
    }

    fn prepare(order: &Order) -> Result<Vec<u8>> {
        Ok(bson::serialize_to_vec(order)?)
    }

    fn insert_one(&mut self, document: Vec<u8>) -> Result<u64> {
        Ok(self.insert_many(vec![document])?.first().copied().unwrap_or_default())
    }

    fn insert_many(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let mut transaction = self.env.write_txn()?;
        let mut ids = Vec::with_capacity(documents.len());
        for document in documents {
            self.documents.put(&mut transaction, &self.next, &document)?;
            ids.push(self.next);
            self.next += 1;
        }
        transaction.commit()?;
        Ok(ids)
    }

    fn read(&self, id: &u64, seen: &mut Seen) -> Result<()> {
        let transaction = self.env.read_txn()?;
        if let Some(document) = self.documents.get(&transaction, id)? {
            seen.bytes(document);
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for entry in self.documents.iter(&transaction)? {
            seen.bytes(entry?.1);
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run::<Lmdb>()
}
