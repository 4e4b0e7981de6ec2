//! The work of the comparison in SQLite: JSON text in a table with an AUTOINCREMENT key, WAL mode,
//! prepared statements. A document is handed out as its text; only SQLite's JSON functions parse it, where a filter or
//! an update asks them to.
//!
//! `synchronous=FULL` syncs the WAL at every commit, `OFF` never.

use std::path::Path;
use std::process::ExitCode;

use rusqlite::Connection;
use workload::{DocumentStore, Durability, Order, Result, Seen, Store, Wanted};

const INSERT: &str = "INSERT INTO documents (body) VALUES (?1)";
const FIND: &str = "SELECT body FROM documents \
    WHERE json_extract(body, '$.number') > ?1 AND json_extract(body, '$.customer.city') = ?2";
const INCREMENT: &str = "UPDATE documents \
    SET body = json_set(body, '$.placed', json_extract(body, '$.placed') + 1) WHERE id = ?1";

struct Sqlite {
    connection: Connection,
}

impl Store for Sqlite {
    type Document = String;
    type Id = i64;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let connection = Connection::open(folder.join("documents.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Synced => "FULL",
            Durability::Unsynced => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute(
            "CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)",
            (),
        )?;
        Ok(Self { connection })
    }

    fn prepare(order: &Order) -> Result<String> {
        Ok(serde_json::to_string(order)?)
    }

    fn insert_one(&mut self, document: String) -> Result<i64> {
        self.connection.prepare_cached(INSERT)?.execute([document])?;
        Ok(self.connection.last_insert_rowid())
    }

    fn insert_many(&mut self, documents: Vec<String>) -> Result<Vec<i64>> {
        let transaction = self.connection.transaction()?;
        let mut ids = Vec::with_capacity(documents.len());
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for document in documents {
                insert.execute([document])?;
                ids.push(transaction.last_insert_rowid());
            }
        }
        transaction.commit()?;
        Ok(ids)
    }

    fn read(&self, id: &i64, seen: &mut Seen) -> Result<()> {
        let mut select = self.connection.prepare_cached("SELECT body FROM documents WHERE id = ?1")?;
        let mut rows = select.query([id])?;
        while let Some(row) = rows.next()? {
            seen.bytes(row.get_ref(0)?.as_bytes()?);
        }
        Ok(())
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        let mut select = self.connection.prepare_cached("SELECT body FROM documents")?;
        let mut rows = select.query(())?;
        while let Some(row) = rows.next()? {
            seen.bytes(row.get_ref(0)?.as_bytes()?);
        }
        Ok(())
    }
}

impl DocumentStore for Sqlite {
    fn find(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let mut select = self.connection.prepare_cached(FIND)?;
        let mut rows = select.query((wanted.above, wanted.city))?;
        while let Some(row) = rows.next()? {
            seen.bytes(row.get_ref(0)?.as_bytes()?);
        }
        Ok(())
    }

    fn increment(&mut self, id: &i64) -> Result<u64> {
        Ok(self.connection.prepare_cached(INCREMENT)?.execute([id])? as u64)
    }
}

fn main() -> ExitCode {
    workload::run_documents::<Sqlite>()
}
