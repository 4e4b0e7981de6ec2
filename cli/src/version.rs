//! `cairn version`: the versions of the tool and of what it is made of.

use std::time::{Duration, Instant};

use cairndb::Client;
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
    /// Print one line of JSON: `tool`, `format`, `rocksdb`, `pcre2`, `collationRules` and `wireVersion`.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = Instant::now();
    let text = if arguments.json { line(started.elapsed()) } else { lines() };
    print(text.as_bytes()).map(drop)
}

fn lines() -> String {
    let versions = Client::versions();
    let rows = [
        ("format of folders", versions.format.to_string()),
        ("RocksDB", versions.rocksdb.to_owned()),
        ("PCRE2", versions.pcre2.to_owned()),
        ("rules of collations", rules(versions.collation_rules).to_owned()),
        ("wire protocol", cairndb_server::WIRE_VERSION_MAX.to_string()),
    ];
    let rows = rows.iter().map(|row| format!("{}: {}", row.0, row.1)).collect::<Vec<_>>().join("\n");
    format!("cairn {}\n{rows}\n", tool())
}

fn line(elapsed: Duration) -> String {
    let versions = Client::versions();
    let report = Report {
        command: "version",
        elapsed,
        counts: vec![("format", versions.format.into())],
        names: vec![
            ("tool", tool().to_owned()),
            ("rocksdb", versions.rocksdb.to_owned()),
            ("pcre2", versions.pcre2.to_owned()),
            ("collationRules", rules(versions.collation_rules).to_owned()),
        ],
        found: vec![("wireVersion", Bson::Int32(cairndb_server::WIRE_VERSION_MAX))],
        failure: None,
    };
    report.line() + "\n"
}

fn rules(named: Option<&'static str>) -> &'static str {
    named.unwrap_or("none")
}

fn tool() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
