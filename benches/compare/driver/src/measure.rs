//! Starts the runners in turn and keeps what they print. A runner's lines are `name rate`; which
//! figures there are is decided by the runners, in `workload`, and only their order by this file.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The stores, in the order of the tables. Each has a runner `compare-NAME` beside this program.
pub(crate) const STORES: [&str; 8] =
    ["cairndb", "rocksdb", "polodb", "sqlite", "redb", "fjall", "lmdb", "lmdb-master3"];
/// The figures, in the order of the tables.
pub(crate) const FIGURES: [&str; 8] = [
    "insert_one",
    "transaction_ten",
    "insert_many",
    "find_by_id",
    "find_by_id_warm",
    "scan",
    "scan_filter",
    "update_inc",
];
/// The figures of an index, of stores that look into their documents.
pub(crate) const INDEXED: [&str; 7] = [
    "create_index",
    "find_by_index",
    "find_by_index_warm",
    "range_by_index",
    "range_by_index_warm",
    "sort_by_index",
    "covered",
];
/// The figures of what is worked out of many documents, of stores that group and join.
pub(crate) const PIPELINES: [&str; 3] = ["group", "join", "join_warm"];

/// The time at which a write counts as done. Stores are compared within a level only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// After its sync to stable storage.
    Synced,
    /// Once the operating system has it.
    Unsynced,
    /// Once the store has it in its own memory.
    Delayed,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Synced, Self::Unsynced, Self::Delayed];
    /// Those at which the death of the process loses nothing.
    pub(crate) const SURVIVING: [Self; 2] = [Self::Synced, Self::Unsynced];

    /// The word that runners and the CSV file use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Unsynced => "unsynced",
            Self::Delayed => "delayed",
        }
    }

    /// Single inserts, and as many in transactions of ten, batches of 1,000, reads, filtered scans, updates and documents read by an index: a sync costs far more than what it covers, so
    /// a synced run of the same length would measure the disk for an hour.
    fn work(self) -> [u64; 6] {
        match self {
            Self::Synced => [2_000, 50, 50_000, 5, 2_000, 100_000],
            Self::Unsynced | Self::Delayed => [100_000, 100, 100_000, 5, 100_000, 100_000],
        }
    }
}

/// The plan of a measurement.
pub(crate) struct Plan {
    pub(crate) stores: Vec<&'static str>,
    pub(crate) folder: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) scale: u64,
}

/// Operations a second of every round, by level, store and figure.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    rates: BTreeMap<(Level, String, String), Vec<f64>>,
}

impl Figures {
    pub(crate) fn add(&mut self, level: Level, store: &str, figure: &str, rate: f64) {
        self.rates.entry((level, store.to_owned(), figure.to_owned())).or_default().push(rate);
    }

    /// The rounds of one figure, slowest first; `None` when the store did not participate.
    pub(crate) fn rounds(&self, level: Level, store: &str, figure: &str) -> Option<Vec<f64>> {
        let mut rates = self.rates.get(&(level, store.to_owned(), figure.to_owned()))?.clone();
        rates.sort_by(f64::total_cmp);
        Some(rates)
    }

    /// The median round; of two middle ones, the slower.
    pub(crate) fn median(&self, level: Level, store: &str, figure: &str) -> Option<f64> {
        let rates = self.rounds(level, store, figure)?;
        rates.get((rates.len() - 1) / 2).copied()
    }
}

/// Runs all rounds. A store that cannot participate in a level is left out of it, with its reason on
/// standard error; it is an error only when no store can.
pub(crate) fn run(plan: &Plan) -> Result<Figures, Box<dyn Error>> {
    let mut figures = Figures::default();
    for level in Level::ALL {
        let mut stores = plan.stores.clone();
        for round in 1..=plan.rounds {
            stores.retain(|store| {
                eprintln!("compare: {}, round {round} of {}, {store}", level.name(), plan.rounds);
                let outcome = measure(plan, level, store);
                if let Err(error) = &outcome {
                    eprintln!("compare: {store} is left out: {error}");
                }
                let took_part = outcome.is_ok();
                for (figure, rate) in outcome.into_iter().flatten() {
                    figures.add(level, store, &figure, rate);
                }
                took_part
            });
        }
    }
    if figures.rates.is_empty() {
        return Err("no store could be measured".into());
    }
    Ok(figures)
}

fn measure(plan: &Plan, level: Level, store: &str) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let work = level.work().map(|count| (count * plan.scale / 100).max(1).to_string());
    start(&format!("compare-{store}"), &plan.folder, level, &work)
}

/// The place where a runner is: beside this program.
pub(crate) fn runner_file(runner: &str) -> Result<PathBuf, Box<dyn Error>> {
    let file = std::env::current_exe()?.with_file_name(format!("{runner}{}", std::env::consts::EXE_SUFFIX));
    if !file.is_file() {
        return Err(format!("{} is not built", file.display()).into());
    }
    Ok(file)
}

/// Starts a runner with a new folder inside of `folder`, and waits for its figures. What follows the level on its
/// command line is `work`.
pub(crate) fn start(
    runner: &str,
    folder: &Path,
    level: Level,
    work: &[String],
) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let runner = runner_file(runner)?;
    let folder = tempfile::Builder::new().prefix("compare-").tempdir_in(folder)?;
    let output =
        Command::new(runner).arg(folder.path()).arg(level.name()).args(work).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    parse(&String::from_utf8(output.stdout)?)
}

fn parse(lines: &str) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    lines
        .lines()
        .map(|line| {
            let (name, rate) = line.split_once(' ').ok_or_else(|| format!("'{line}' is not a figure"))?;
            Ok((name.to_owned(), rate.parse::<f64>().map_err(|_| format!("'{line}' has no rate"))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_round() {
        let mut figures = Figures::default();
        for rate in [5.0, 1.0, 9.0] {
            figures.add(Level::Synced, "redb", "scan", rate);
        }
        assert_eq!(figures.median(Level::Synced, "redb", "scan"), Some(5.0));
        assert_eq!(figures.median(Level::Unsynced, "redb", "scan"), None);
    }

    #[test]
    fn a_runners_lines_are_read() {
        assert_eq!(parse("scan 12.5\n").unwrap(), [("scan".to_owned(), 12.5)]);
        assert_eq!(parse("scan fast").unwrap_err().to_string(), "'scan fast' has no rate");
        assert_eq!(parse("scan").unwrap_err().to_string(), "'scan' is not a figure");
    }
}
