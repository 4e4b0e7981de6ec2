//! The work of the comparison in SQLite: JSON text in a table with an AUTOINCREMENT key, WAL mode,
//! prepared statements. A document is handed out as its text; only SQLite's JSON functions parse it, where a filter or
//! an update asks them to. The index is on a generated column.
//!
//! `synchronous=FULL` syncs the WAL at every commit, `OFF` never.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use rusqlite::{Connection, Params};
use workload::{
    City, DocumentStore, Durability, IndexedStore, Kind, Order, Parcel, PipelineStore, Read, Result, Seen,
    Store, Wanted,
};

const INSERT: &str = "INSERT INTO documents (body) VALUES (?1)";
const FIND: &str = "SELECT body FROM documents \
    WHERE json_extract(body, '$.number') > ?1 AND json_extract(body, '$.customer.city') = ?2";
const INCREMENT: &str = "UPDATE documents \
    SET body = json_set(body, '$.placed', json_extract(body, '$.placed') + 1) WHERE id = ?1";

const INDEX: &str = "\
    ALTER TABLE documents ADD COLUMN number INTEGER GENERATED ALWAYS AS (json_extract(body, '$.number')) VIRTUAL; \
    CREATE INDEX by_number ON documents (number)";
const ONE: &str = "SELECT body FROM documents WHERE number = ?1";
const RANGE: &str = "SELECT body FROM documents WHERE number BETWEEN ?1 AND ?2 ORDER BY number";
const LAST: &str = "SELECT body FROM documents ORDER BY number DESC LIMIT ?1";
const NUMBERS: &str = "SELECT number FROM documents WHERE number BETWEEN ?1 AND ?2 ORDER BY number";

const GROUP: &str =
    "SELECT json_extract(body, '$.customer.city'), count(*), sum(number) FROM documents GROUP BY 1";
const PARCELS: &str = "CREATE TABLE IF NOT EXISTS parcels (id INTEGER PRIMARY KEY, body TEXT NOT NULL)";
const INSERT_PARCEL: &str = "INSERT INTO parcels (body) VALUES (?1)";
const INDEX_PARCELS: &str = "\
    ALTER TABLE parcels ADD COLUMN number INTEGER GENERATED ALWAYS AS (json_extract(body, '$.order')) VIRTUAL; \
    CREATE INDEX parcels_by_number ON parcels (number)";
const JOIN: &str = "SELECT documents.body, parcels.body FROM documents \
    JOIN parcels ON parcels.number = documents.number WHERE documents.number < ?1";

struct Sqlite {
    connection: Connection,
}

impl Store for Sqlite {
    type Document = String;
    type Id = i64;
    // `insert_many` is one already.
    const HAS_TRANSACTIONS: bool = true;

    fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let connection = Connection::open(folder.join("documents.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Synced => "FULL",
            Durability::Unsynced => "OFF",
            Durability::Delayed => return Err("SQLite hands each commit to the operating system".into()),
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
        self.select("SELECT body FROM documents WHERE id = ?1", [id], seen)
    }

    fn scan(&self, seen: &mut Seen) -> Result<()> {
        self.select("SELECT body FROM documents", (), seen)
    }
}

impl Sqlite {
    /// Shows the texts in the first column to `seen`.
    fn select(&self, query: &str, parameters: impl Params, seen: &mut Seen) -> Result<()> {
        let mut select = self.connection.prepare_cached(query)?;
        let mut rows = select.query(parameters)?;
        while let Some(row) = rows.next()? {
            seen.bytes(row.get_ref(0)?.as_bytes()?);
        }
        Ok(())
    }
}

impl DocumentStore for Sqlite {
    fn find(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        self.select(FIND, (wanted.above, wanted.city), seen)
    }

    fn increment(&mut self, id: &i64) -> Result<u64> {
        Ok(self.connection.prepare_cached(INCREMENT)?.execute([id])? as u64)
    }
}

impl IndexedStore for Sqlite {
    const KINDS: &'static [Kind] = &Kind::ALL;

    fn create_index(&mut self) -> Result<()> {
        Ok(self.connection.execute_batch(INDEX)?)
    }

    fn read_by_index(&self, read: Read, seen: &mut Seen) -> Result<()> {
        match read {
            Read::One(number) => self.select(ONE, [number], seen),
            Read::Range(first, last) => self.select(RANGE, (first, last), seen),
            Read::Last(count) => self.select(LAST, [i64::try_from(count)?], seen),
            Read::Numbers(first, last) => {
                let mut select = self.connection.prepare_cached(NUMBERS)?;
                let mut rows = select.query((first, last))?;
                while let Some(row) = rows.next()? {
                    seen.bytes(&row.get::<_, i64>(0)?.to_ne_bytes());
                }
                Ok(())
            }
        }
    }
}

impl PipelineStore for Sqlite {
    fn group(&self) -> Result<BTreeMap<String, City>> {
        let mut select = self.connection.prepare_cached(GROUP)?;
        let cities = select
            .query_map((), |row| Ok((row.get(0)?, City { orders: row.get(1)?, numbers: row.get(2)? })))?;
        Ok(cities.collect::<std::result::Result<_, _>>()?)
    }

    fn insert_parcels(&mut self, parcels: &[Parcel]) -> Result<()> {
        self.connection.execute(PARCELS, ())?;
        let transaction = self.connection.transaction()?;
        for parcel in parcels {
            transaction.prepare_cached(INSERT_PARCEL)?.execute([serde_json::to_string(parcel)?])?;
        }
        Ok(transaction.commit()?)
    }

    fn index_parcels(&mut self) -> Result<()> {
        Ok(self.connection.execute_batch(INDEX_PARCELS)?)
    }

    fn join(&self, end: i64, seen: &mut Seen) -> Result<()> {
        let mut select = self.connection.prepare_cached(JOIN)?;
        let mut rows = select.query([end])?;
        while let Some(row) = rows.next()? {
            let ends =
                [row.get_ref(0)?.as_bytes()?, row.get_ref(1)?.as_bytes()?].map(|body| body.last().copied());
            seen.bytes(&ends.map(Option::unwrap_or_default));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    workload::run_pipelines::<Sqlite>()
}
