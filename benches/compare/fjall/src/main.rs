//! The work of the comparison in fjall: BSON bytes under a counter that the runner keeps.
//!
//! A commit reaches the operating system as it returns; synced runs add fsync (`SyncAll`). In delayed runs it stays in the
//! journal's buffer, as fjall allows. Only the work of transactions goes through fjall's transactions of one writer.

use std::path::Path;
use std::process::ExitCode;

use fjall::{KeyspaceCreateOptions, PersistMode, SingleWriterTxDatabase, SingleWriterTxKeyspace};
use workload::{Durability, Order, Result, Seen, Store};

struct Fjall {
    db: SingleWriterTxDatabase,
    documents: SingleWriterTxKeyspace,
    next: u64,
    /// The persistence of each commit. `None` leaves it in the journal's buffer.
    persist: Option<PersistMode>,
}

impl Store for Fjall {
    type Document = Vec<u8>;
    type Id = u64;
    const HAS_TRANSACTIONS: bool = true;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let persist = match durability {
            Durability::Synced => Some(PersistMode::SyncAll),
            Durability::Unsynced => Some(PersistMode::Buffer),
            Durability::Delayed => None,
        };
        let db = SingleWriterTxDatabase::builder(folder).manual_journal_persist(persist.is_none()).open()?;
        let documents = db.keyspace("documents", || {
            KeyspaceCreateOptions::default().manual_journal_persist(persist.is_none())
        })?;
        Ok(Self { db, documents, next: 0, persist })
    }

    fn prepare(order: &Order) -> Result<Vec<u8>> {
        Ok(bson::serialize_to_vec(order)?)
    }

    fn insert_one(&mut self, document: Vec<u8>) -> Result<u64> {
        let id = self.next;
        self.documents.inner().insert(id.to_be_bytes(), document)?;
        // An insert alone has reached the operating system already.
        if self.persist == Some(PersistMode::SyncAll) {
            self.db.persist(PersistMode::SyncAll)?;
        }
        self.next += 1;
        Ok(id)
    }

    fn insert_many(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let mut batch = self.db.inner().batch().durability(self.persist);
        let mut ids = Vec::with_capacity(documents.len());
        for document in documents {
            batch.insert(self.documents.inner(), self.next.to_be_bytes(), document);
            ids.push(self.next);
            self.next += 1;
        }
        batch.commit()?;
        Ok(ids)
    }

    fn transact(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let mut transaction = self.db.write_tx().durability(self.persist);
        let mut ids = Vec::with_capacity(documents.len());
        for document in documents {
            transaction.insert(&self.documents, self.next.to_be_bytes(), document);
            ids.push(self.next);
            self.next += 1;
        }
        transaction.commit()?;
        Ok(ids)
    }

    fn read(&self, id: &u64, seen: &mut Seen) -> Result<()> {
        if let Some(document) = self.documents.inner().get(id.to_be_bytes())? {
            seen.bytes(&document);
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        for entry in self.documents.inner().iter() {
            seen.bytes(&entry.value()?);
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run::<Fjall>()
}
