//! The comparison of handing out numbers: single values, a thousand at once, and inserts whose key is such a value,
//! at both levels of durability, with one thread and with two.
//!
//! A runner is called `numbers-STORE`. How much it is asked to do depends on the store too: what is done in a
//! process is a thousand times faster than what waits for a server, and each must run long enough to be measured.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::measure::{self, Figures, Level, Plan};
use crate::report;

/// The stores that hand out numbers.
pub(crate) const STORES: [&str; 3] = ["cairndb", "postgres", "sqlite"];

const THREADS: [u64; 2] = [1, 2];

/// The rows of the table: store, figure, and what it is.
const ROWS: [(&str, &str, &str); 7] = [
    ("cairndb", "next_value", "CairnDB, `next_value`"),
    ("postgres", "next_value", "PostgreSQL, `select nextval`"),
    ("cairndb", "fetch", "CairnDB, `fetch(1000)`"),
    ("postgres", "fetch", "PostgreSQL, `select nextval … generate_series(1, 1000)`"),
    ("cairndb", "insert", "CairnDB, `insert_one`, `_id` auto-increment"),
    ("postgres", "insert", "PostgreSQL, `insert`, identity key"),
    ("sqlite", "insert", "SQLite, `INSERT`, AUTOINCREMENT key"),
];

/// The measured values, by threads, and why a store is missing.
#[derive(Debug, Default)]
struct Outcome {
    figures: BTreeMap<u64, Figures>,
    left_out: BTreeMap<&'static str, String>,
}

/// Runs all rounds and writes `compare-sequences.csv` into `out`; the table.
pub(crate) fn compare(plan: &Plan, out: &Path) -> Result<String, Box<dyn Error>> {
    let outcome = run(plan)?;
    fs::write(out.join("compare-sequences.csv"), csv(&outcome))?;
    let measured = plan.stores.iter().filter(|store| !outcome.left_out.contains_key(*store));
    let versions: Vec<String> = measured.filter_map(|store| version(store)).collect();
    Ok(format!("{}\n\n{}", report::machine(&versions), table(&outcome)))
}

/// A store that fails is left out of everything from then on; it is an error only when every store fails.
fn run(plan: &Plan) -> Result<Outcome, Box<dyn Error>> {
    let mut outcome = Outcome::default();
    let settings = Level::SURVIVING.into_iter().flat_map(|level| THREADS.map(|threads| (level, threads)));
    for (level, threads) in settings {
        for round in 1..=plan.rounds {
            for store in &plan.stores {
                if !outcome.left_out.contains_key(store) {
                    eprintln!(
                        "compare: sequences, {}, threads {threads}, round {round} of {}, {store}",
                        level.name(),
                        plan.rounds
                    );
                    measure(&mut outcome, plan, Setting { level, threads, store });
                }
            }
        }
    }
    if outcome.left_out.len() == plan.stores.len() {
        let reasons: Vec<String> = outcome.left_out.into_values().collect();
        return Err(format!("no store could be measured: {}", reasons.join("; ")).into());
    }
    Ok(outcome)
}

/// The setting of one measurement.
#[derive(Clone, Copy)]
struct Setting {
    level: Level,
    threads: u64,
    store: &'static str,
}

fn measure(outcome: &mut Outcome, plan: &Plan, setting: Setting) {
    let Setting { level, threads, store } = setting;
    let mut work = vec![threads.to_string()];
    work.extend(counts(store, level).map(|count| (count * plan.scale).div_ceil(100).to_string()));
    match measure::start(&format!("numbers-{store}"), &plan.folder, level, &work) {
        Ok(rates) => {
            let figures = outcome.figures.entry(threads).or_default();
            for (figure, rate) in rates {
                figures.add(level, store, &figure, rate);
            }
        }
        Err(error) => {
            eprintln!("compare: {store} is left out: {error}");
            outcome.left_out.insert(store, error.to_string());
        }
    }
}

/// Values, batches of 1,000 and documents for each thread: a second or less of work for each figure.
fn counts(store: &str, level: Level) -> [u64; 3] {
    match (store, level) {
        ("cairndb", Level::Synced) => [1_000_000, 1_000, 1_000],
        ("cairndb", _) => [10_000_000, 20_000, 100_000],
        ("postgres", Level::Synced) => [20_000, 1_000, 1_000],
        ("postgres", _) => [20_000, 1_000, 20_000],
        (_, Level::Synced) => [0, 0, 1_000],
        (_, _) => [0, 0, 20_000],
    }
}

/// From the lock files; PostgreSQL is in none, and says it itself.
fn version(store: &str) -> Option<String> {
    if store != "postgres" {
        return report::version(store);
    }
    let output =
        Command::new(measure::runner_file("numbers-postgres").ok()?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The Markdown table, and a line for each store that is missing from it.
fn table(outcome: &Outcome) -> String {
    let settings: Vec<(Level, u64)> =
        Level::SURVIVING.into_iter().flat_map(|level| THREADS.map(|threads| (level, threads))).collect();
    let mut text = "| values a second, median round |".to_owned();
    for (level, threads) in &settings {
        let unit = if *threads == 1 { "thread" } else { "threads" };
        // Writing into a String cannot fail.
        let _ = write!(text, " {}, {threads} {unit} |", level.name());
    }
    text += "\n|---|";
    text += &"---:|".repeat(settings.len());
    text.push('\n');
    for (store, figure, name) in ROWS {
        let rates: Vec<Option<f64>> = settings
            .iter()
            .map(|(level, threads)| outcome.figures.get(threads)?.median(*level, store, figure))
            .collect();
        if rates.iter().any(Option::is_some) && !outcome.left_out.contains_key(store) {
            let cells = rates.into_iter().map(|rate| rate.map_or("–".to_owned(), report::grouped));
            let _ = writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
    for (store, reason) in &outcome.left_out {
        let _ = writeln!(text, "\n{store} is left out: {reason}");
    }
    text
}

/// Every round: `level,threads,store,figure,round,values_per_second`, rounds from slow to fast.
fn csv(outcome: &Outcome) -> String {
    let mut text = "level,threads,store,figure,round,values_per_second\n".to_owned();
    for (level, (threads, figures)) in
        Level::SURVIVING.into_iter().flat_map(|level| outcome.figures.iter().map(move |entry| (level, entry)))
    {
        for (store, figure, _) in ROWS {
            for (round, rate) in figures.rounds(level, store, figure).into_iter().flatten().enumerate() {
                let _ = writeln!(text, "{},{threads},{store},{figure},{},{rate:.1}", level.name(), round + 1);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let mut outcome = Outcome::default();
        let figures = outcome.figures.entry(2).or_default();
        figures.add(Level::Synced, "sqlite", "insert", 1_500.0);
        outcome.left_out.insert("postgres", "it is not installed".to_owned());
        outcome
    }

    #[test]
    fn a_row_appears_when_it_was_measured_and_a_missing_store_with_its_reason() {
        let text = table(&outcome());
        let end = "| SQLite, `INSERT`, AUTOINCREMENT key | – | 1,500 | – | – |\n\n\
                   postgres is left out: it is not installed\n";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("CairnDB"), "{text}");
    }

    #[test]
    fn csv_has_a_line_for_each_round() {
        assert_eq!(csv(&outcome()).lines().nth(1), Some("synced,2,sqlite,insert,1,1500.0"));
    }

    #[test]
    fn every_store_of_the_lock_file_has_a_version() {
        assert!(["cairndb", "sqlite"].into_iter().all(|store| version(store).is_some()));
    }
}
