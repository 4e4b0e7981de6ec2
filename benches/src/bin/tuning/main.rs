//! Prints what RocksDB's options cost and give, on raw RocksDB alone: the ground of `store/src/tuning.rs`.
//!
//! `tuning writes` says what a document of a batch costs under each set of options, `tuning tables` how small
//! documents get in tables and how fast they are found and scanned there, and `tuning loads` how long many documents
//! in the order of their keys need by batches and as tables that are ingested. Without arguments it prints all three.
//!
//! The variants of a table run in alternation, and each figure is the median of the rounds. Absolute times differ from machine to
//! machine and from day to day, so each row is also shown as a ratio to the first row of its table.

mod loads;
mod options;
mod table;
mod tables;
mod writes;

use std::process::ExitCode;

type Part = (&'static str, fn());

const PARTS: [Part; 3] = [("writes", writes::print), ("tables", tables::print), ("loads", loads::print)];

#[expect(clippy::print_stderr, reason = "a word that is no part's name is told where the tables do not go")]
fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|word| PARTS.iter().all(|(name, _)| name != word)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("tuning: '{unknown}' is none of {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    for (name, print) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            print();
        }
    }
    ExitCode::SUCCESS
}
