//! `cairn sequences`: attributes and positions of all sequences.

use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::{Bson, Document};

use crate::failure::{Exit, Failure};
use crate::grid::{Grid, or_nothing};
use crate::listing::{collections, databases, is_cairndb};
use crate::output::print;
use crate::plain::plain;
use crate::positions::{Position, positions};
use crate::signals::Signals;
use crate::store::{Access, Store, open_for_reading};
use crate::talk::{Report, Talk, warn};

/// The columns with numbers, each with the field of the snapshot that it shows.
const NUMBERS: [(&str, &str); 9] = [
    ("left", "Remaining"),
    ("lost", "Lost"),
    ("step", "Increment"),
    ("start", "StartValue"),
    ("min", "MinValue"),
    ("max", "MaxValue"),
    ("cache", "CacheSize"),
    ("acquire", "AcquireSize"),
    ("rounds", "CycledCount"),
];

/// Lists sequences with their attributes and positions.
///
/// Those of auto-increment fields are listed too. The store is a folder, a Unix socket or a URI. A folder may be open in another process meanwhile: the next value of a
/// sequence is then the one after all that the process has reserved. `rounds` is how often a cycled sequence has started
/// again.
///
/// The report of `--json` has the whole snapshot of each sequence.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn sequences shop-data
      the sequences of all databases
  cairn sequences shop.sock shop --json
      those of one database of a running server, with all of their snapshots")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// The database, if not all are meant.
    #[arg(value_name = "DB")]
    database: Option<String>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut found = Vec::new();
    let done = Signals::watch().and_then(|signals| {
        let done = list(arguments, &signals, &mut found);
        signals.judge(done, "interrupted: not all databases were looked at")
    });
    let lost = found.iter().filter_map(|position| u64::try_from(position.number("Lost")?).ok());
    let mut report = Report {
        command: "sequences",
        elapsed: started.elapsed(),
        counts: vec![("lost", lost.fold(0, u64::saturating_add))],
        names: Vec::new(),
        found: vec![("sequences", found.iter().map(document).collect::<Bson>())],
        failure: done.err(),
    };
    arguments.talk.report(&mut report, false);
    report.failure.map_or(Ok(()), Err)
}

fn list(arguments: &Arguments, signals: &Signals, found: &mut Vec<Position>) -> Result<(), Failure> {
    if let Some(database) = arguments.database.as_deref()
        && (database.is_empty() || database.contains('.'))
    {
        return Err(Failure::usage(format!("{database:?} is not a DB")));
    }
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut warn)?;
    let names = match &arguments.database {
        Some(database) => vec![database.clone()],
        None => databases(&*store)?,
    };
    for database in names {
        if signals.received().is_some() {
            return Ok(());
        }
        found.append(&mut of_database(&*store, &database, arguments.database.is_some())?);
    }
    if !arguments.talk.json {
        print(text(found).as_bytes())?;
    }
    if found.is_empty() && !is_cairndb(&*store)? {
        warn(
            "the server is MongoDB's, which has no sequences: cairn migrate makes a collection of counters of them",
        );
    }
    Ok(())
}

/// The sequences of a database. One that the user named must be there.
fn of_database(store: &dyn Store, database: &str, is_named: bool) -> Result<Vec<Position>, Failure> {
    let listed = collections(store, database, None)?;
    let found = positions(store, database, &listed)?;
    if is_named && listed.is_empty() && found.is_empty() {
        return Err(Failure::new(Exit::Failed, format!("there is no database {database}")));
    }
    Ok(found)
}

fn text(found: &[Position]) -> String {
    let head: Vec<&str> =
        ["sequence", "contract", "next"].into_iter().chain(NUMBERS.map(|(head, _)| head)).collect();
    let mut grid = Grid::new(2, &head);
    for position in found {
        let mut cells =
            vec![plain(&position.owner()), position.contract().to_owned(), or_nothing(position.next())];
        cells.extend(NUMBERS.map(|(_, field)| or_nothing(position.number(field))));
        grid.row(cells);
    }
    let mut out = String::new();
    grid.write(&mut out);
    if out.is_empty() {
        out.push_str("no sequences\n");
    }
    out
}

/// A sequence in the report: whose it is, its next value, and the snapshot.
fn document(position: &Position) -> Document {
    let mut document = position.identity();
    if let Some(next) = position.next() {
        document.insert("next", next);
    }
    document.insert("snapshot", position.snapshot.clone());
    document
}
