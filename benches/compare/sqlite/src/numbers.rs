//! Numbers from SQLite: an AUTOINCREMENT key, each insert a commit, WAL mode, prepared statements. SQLite has no
//! sequences of their own, so single values and batches are left out.
//!
//! `synchronous=FULL` syncs the WAL at every commit, `NORMAL` at checkpoints only. There is one writer at a time;
//! another connection waits by SQLite's busy timeout, which sleeps and tries again.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rusqlite::Connection;
use workload::numbers::{Runs, Work, race, run};
use workload::{Durability, Order, Result};

const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

fn perform(work: &Work) -> Result<()> {
    let file = work.folder.join("documents.sqlite");
    connect(&file, work.durability)?
        .execute("CREATE TABLE documents (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)", ())?;
    let workers = (0..work.threads)
        .map(|thread| {
            let connection = connect(&file, work.durability)?;
            let orders = (thread * work.inserts..(thread + 1) * work.inserts).map(Order::nth);
            let bodies = orders
                .map(|order| serde_json::to_string(&order))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(move || insert(&connection, &bodies))
        })
        .collect::<Result<Vec<_>>>()?;
    race("insert", work.threads * work.inserts, workers)
}

fn connect(file: &Path, durability: Durability) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Synced => "FULL",
        Durability::Unsynced => "NORMAL",
        Durability::Delayed => return Err("SQLite hands each commit to the operating system".into()),
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    Ok(connection)
}

fn insert(connection: &Connection, bodies: &[String]) -> Result<Runs> {
    let mut statement = connection.prepare("INSERT INTO documents (body) VALUES (?1)")?;
    let mut runs = Runs::default();
    for body in bodies {
        statement.execute([body])?;
        runs.push(connection.last_insert_rowid());
    }
    Ok(runs)
}

fn main() -> ExitCode {
    run(perform)
}
