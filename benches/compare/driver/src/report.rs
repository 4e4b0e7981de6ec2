//! The figures as text: Markdown tables for people, CSV for programs, and the machine they hold for.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::measure::{FIGURES, Figures, INDEXED, Level, PIPELINES, STORES};

/// One line on the machine and the versions.
pub(crate) fn machine(versions: &[String]) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let system = Command::new("uname")
        .arg("-sr")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| std::env::consts::OS.to_owned(), |text| text.trim().to_owned());
    format!("Machine: {processor}, {cores} cores, {system}. Versions: {}.", versions.join(", "))
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A store's version, from the lock files that the runners were built with.
pub(crate) fn version(store: &str) -> Option<String> {
    let (package, name) = match store {
        "cairndb" => ("cairndb", "CairnDB"),
        "rocksdb" => ("librocksdb-sys", "RocksDB crate"),
        "polodb" => ("polodb_core", "PoloDB"),
        "sqlite" => ("rusqlite", "SQLite by rusqlite"),
        "redb" => ("redb", "redb"),
        "fjall" => ("fjall", "fjall"),
        "lmdb" => ("heed", "LMDB by heed"),
        "lmdb-master3" => ("heed3", "LMDB's branch for 1.0 by heed3"),
        _ => return None,
    };
    let locked = [include_str!("../../Cargo.lock"), include_str!("../../polodb/Cargo.lock")];
    locked.iter().find_map(|lock| locked_version(lock, package)).map(|version| format!("{name} {version}"))
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\"")).skip(1);
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// One level's table, stores as rows: median operations a second, a dash where a store did not participate.
pub(crate) fn table(level: Level, stores: &[&str], figures: &Figures) -> String {
    let heading = match level {
        Level::Synced => "Every commit synced (operations a second, median round)",
        Level::Unsynced => {
            "No commit waits for a sync; the operating system has it (operations a second, median round)"
        }
        Level::Delayed => {
            "A commit stays in the store's own memory for a moment (operations a second, median round)"
        }
    };
    let rows = stores.iter().map(|store| (*store, *store, level));
    rows_of(heading, &FIGURES, rows, figures)
}

/// The table of the reads by an index.
pub(crate) fn table_of_index(stores: &[&str], figures: &Figures) -> String {
    table_of("By an index on one field (documents a second, median round)", &INDEXED, stores, figures)
}

/// The table of what is worked out of many documents.
pub(crate) fn table_of_pipelines(stores: &[&str], figures: &Figures) -> String {
    table_of("Worked out of all orders (orders a second, median round)", &PIPELINES, stores, figures)
}

/// A table with a row for each store and level at which any of the columns was measured.
fn table_of(heading: &str, columns: &[&str], stores: &[&str], figures: &Figures) -> String {
    let rows: Vec<(String, &str, Level)> = stores
        .iter()
        .flat_map(|store| Level::ALL.map(|level| (format!("{store}, {}", level.name()), *store, level)))
        .filter(|(_, store, level)| columns.iter().any(|name| figures.median(*level, store, name).is_some()))
        .collect();
    let rows = rows.iter().map(|(name, store, level)| (name.as_str(), *store, *level));
    rows_of(heading, columns, rows, figures)
}

fn rows_of<'a>(
    heading: &str,
    columns: &[&str],
    rows: impl Iterator<Item = (&'a str, &'a str, Level)>,
    figures: &Figures,
) -> String {
    let mut text = format!("\n{heading}\n\n| store | {} |\n|---|", columns.join(" | "));
    text += &"---:|".repeat(columns.len());
    text.push('\n');
    for (name, store, level) in rows {
        let cell = |figure: &&str| figures.median(level, store, figure).map_or("–".to_owned(), grouped);
        let cells: Vec<String> = columns.iter().map(cell).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

/// Every round of every figure: `level,store,figure,round,operations_per_second`, rounds from slow to fast.
pub(crate) fn csv(figures: &Figures) -> String {
    let mut text = "level,store,figure,round,operations_per_second\n".to_owned();
    for level in Level::ALL {
        for (store, figure) in STORES.iter().flat_map(|store| {
            FIGURES.iter().chain(&INDEXED).chain(&PIPELINES).map(move |figure| (store, figure))
        }) {
            for (round, rate) in figures.rounds(level, store, figure).into_iter().flatten().enumerate() {
                let _ = writeln!(text, "{},{store},{figure},{},{rate:.1}", level.name(), round + 1);
            }
        }
    }
    text
}

/// A rate without decimals, its thousands set apart: `1,234,567`.
pub(crate) fn grouped(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let check = |rate: f64, expected: &str| assert_eq!(grouped(rate), expected);
        check(0.4, "0");
        check(999.0, "999");
        check(1_000.0, "1,000");
        check(1_234_567.8, "1,234,568");
    }

    #[test]
    fn a_table_has_a_row_for_each_store_and_a_dash_for_what_is_missing() {
        let mut figures = Figures::default();
        figures.add(Level::Synced, "redb", "scan", 1_500.0);
        let text = table(Level::Synced, &["redb", "lmdb"], &figures);
        assert!(
            text.ends_with(
                "| redb | – | – | – | – | – | 1,500 | – | – |\n| lmdb | – | – | – | – | – | – | – | – |\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_table_of_the_index_has_a_row_for_what_was_measured() {
        let mut figures = Figures::default();
        figures.add(Level::Unsynced, "sqlite", "covered", 1_500.0);
        let text = table_of_index(&["redb", "sqlite"], &figures);
        assert!(text.ends_with("---:|\n| sqlite, unsynced | – | – | – | – | – | – | 1,500 |\n"), "{text}");
    }

    #[test]
    fn csv_has_a_line_for_each_round() {
        let mut figures = Figures::default();
        figures.add(Level::Unsynced, "lmdb", "scan", 2.0);
        figures.add(Level::Unsynced, "lmdb", "scan", 1.0);
        let lines: Vec<String> = csv(&figures).lines().skip(1).map(str::to_owned).collect();
        assert_eq!(lines, ["unsynced,lmdb,scan,1,1.0", "unsynced,lmdb,scan,2,2.0"]);
    }

    #[test]
    fn every_store_has_a_locked_version() {
        for store in STORES {
            assert!(version(store).is_some(), "{store} is in neither lock file");
        }
    }
}
