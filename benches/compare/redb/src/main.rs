//! The work of the comparison in redb: BSON bytes under a counter that the runner keeps.
//!
//! Without syncs, redb keeps commits in its own memory until a synced one follows, so the death of the process
//! loses them. It has nothing between that and a sync, so it is left out of unsynced runs.

use std::path::Path;
use std::process::ExitCode;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use workload::{Durability, Order, Result, Seen, Store};

const DOCUMENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("documents");

struct Redb {
    db: Database,
    next: u64,
    durability: redb::Durability,
}

impl Redb {
    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(self.durability)?;
        Ok(transaction)
    }
}

impl Store for Redb {
    type Document = Vec<u8>;
    type Id = u64;
    // `insert_many` is one already.
    const HAS_TRANSACTIONS: bool = true;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let durability = match durability {
            Durability::Synced => redb::Durability::Immediate,
            Durability::Unsynced => return Err("redb's unsynced commits stay in its own memory".into()),
            Durability::Delayed => redb::Durability::None,
        };
        let db = Database::create(folder.join("documents.redb"))?;
        Ok(Self { db, next: 0, durability })
    }

    fn prepare(order: &Order) -> Result<Vec<u8>> {
        Ok(bson::serialize_to_vec(order)?)
    }

    fn insert_one(&mut self, document: Vec<u8>) -> Result<u64> {
        let id = self.next;
        let transaction = self.begin()?;
        transaction.open_table(DOCUMENTS)?.insert(id, document.as_slice())?;
        transaction.commit()?;
        self.next += 1;
        Ok(id)
    }

    fn insert_many(&mut self, documents: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let transaction = self.begin()?;
        let mut ids = Vec::with_capacity(documents.len());
        {
            let mut table = transaction.open_table(DOCUMENTS)?;
            for document in documents {
                table.insert(self.next, document.as_slice())?;
                ids.push(self.next);
                self.next += 1;
            }
        }
        transaction.commit()?;
        Ok(ids)
    }

    fn read(&self, id: &u64, seen: &mut Seen) -> Result<()> {
        let table = self.db.begin_read()?.open_table(DOCUMENTS)?;
        if let Some(document) = table.get(id)? {
            seen.bytes(document.value());
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        let table = self.db.begin_read()?.open_table(DOCUMENTS)?;
        for entry in table.iter()? {
            seen.bytes(entry?.1.value());
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run::<Redb>()
}
