//! `cairn version`: the versions of the tool and of what it is made of.

use std::time::{Duration, Instant};

use cairndb::bson::Bson;

use crate::failure::Failure;
use crate::output::print;
use crate::talk::Report;

/// Prints the versions of the tool and of what it is made of.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn version
  cairn version --json
      for scripts, one line of JSON")]
pub(crate) struct Arguments {
    /// Print one line of JSON: `tool`, `format`, `rocksdb` and `wireVersion`.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = Instant::now();
    let text = if arguments.json { line(started.elapsed()) } else { lines() };
    print(text.as_bytes()).map(drop)
}

fn lines() -> String {
    let (tool, format, rocksdb) = (tool(), cairndb::FORMAT_VERSION, cairndb::ROCKSDB_VERSION);
    let wire = cairndb_server::WIRE_VERSION_MAX;
    format!("cairn {tool}\nformat of folders: {format}\nRocksDB: {rocksdb}\nwire protocol: {wire}\n")
}

fn line(elapsed: Duration) -> String {
    let report = Report {
        command: "version",
        elapsed,
        counts: vec![("format", cairndb::FORMAT_VERSION.into())],
        names: vec![("tool", tool().to_owned()), ("rocksdb", cairndb::ROCKSDB_VERSION.to_owned())],
        found: vec![("wireVersion", Bson::Int32(cairndb_server::WIRE_VERSION_MAX))],
        failure: None,
    };
    report.line() + "\n"
}

fn tool() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
