//! The work of the comparison in fjall: BSON bytes under a counter that the runner keeps.
//!
//! A commit reaches the operating system as it returns; synced runs add fsync (`SyncAll`). In delayed runs it stays in the
//! journal's buffer, as fjall allows.

use std::path::Path;
use std::process::ExitCode;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use workload::{Durability, Order, Result, Seen, Store};

struct Fjall {
    db: Database,
    documents: Keyspace,
    next: u64,
    /// How far each commit is brought. `None` leaves it in the journal's buffer.
    persist: Option<PersistMode>,
}

impl Store for Fjall {
    type Document = Vec<u8>;
    type Id = u64;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let persist = match durability {
            Durability::Synced => Some(PersistMode::SyncAll),
            Durability::Unsynced => Some(PersistMode::Buffer),
            Durability::Delayed => None,
        };
        let db = Database::builder(folder).manual_journal_persist(persist.is_none()).open()?;
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
        self.documents.insert(id.to_be_bytes(), document)?;
        // An insert alone has reached the operating system already.
        if self.persist == Some(PersistMode::SyncAll) {
            self.db.persist(PersistMode::SyncAll)?;
        }
        self.next += 1;
        Ok(id)
    }

    fn insert_many(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let mut batch = self.db.batch().durability(self.persist);
        let mut ids = Vec::with_capacity(documents.len());
        for document in documents {
            batch.insert(&self.documents, self.next.to_be_bytes(), document);
            ids.push(self.next);
            self.next += 1;
        }
        batch.commit()?;
        Ok(ids)
    }

    fn read(&self, id: &u64, seen: &mut Seen) -> Result<()> {
        if let Some(document) = self.documents.get(id.to_be_bytes())? {
            seen.bytes(&document);
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        for entry in self.documents.iter() {
            seen.bytes(&entry.value()?);
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run::<Fjall>()
}
