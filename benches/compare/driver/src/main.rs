//! Runs the same work through CairnDB and its rivals, and draws the results.
//!
//! Every store has a runner, a program of its own beside this one: two stores that bring a RocksDB
//! each cannot be one program, and none inherits another's memory. The stores alternate, round by
//! round, so that a busy moment of the machine meets them all; what counts is the median round.
//!
//! With the word `sequences` the work is handing out numbers, instead of work on documents.

mod measure;
mod plot;
mod report;
mod sequences;

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use measure::{Level, Plan};

const USAGE: &str =
    "usage: compare [sequences] [--out FOLDER] [--rounds N] [--scale PERCENT] [--folder FOLDER] [STORE...]";

/// The work of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Store documents, read, find and change them.
    Documents,
    /// Hand out numbers.
    Sequences,
}

impl Work {
    /// The stores that participate.
    fn stores(self) -> &'static [&'static str] {
        match self {
            Self::Documents => &measure::STORES,
            Self::Sequences => &sequences::STORES,
        }
    }
}

/// The options of the command line.
struct Arguments {
    work: Work,
    /// The folder of `compare.csv` and `compare.svg`, or of `compare-sequences.csv`.
    out: PathBuf,
    /// The place where the stores live while they are measured.
    folder: PathBuf,
    rounds: usize,
    /// Percent of the usual number of operations.
    scale: u64,
    /// Only these stores; all when empty.
    stores: Vec<String>,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut parsed = Self {
            work: Work::Documents,
            out: PathBuf::from("."),
            folder: std::env::temp_dir(),
            rounds: 5,
            scale: 100,
            stores: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} lacks its value; {USAGE}"));
            match argument.as_str() {
                "--out" => parsed.out = PathBuf::from(value()?),
                "--folder" => parsed.folder = PathBuf::from(value()?),
                "--rounds" => parsed.rounds = value()?.parse()?,
                "--scale" => parsed.scale = value()?.parse()?,
                "sequences" => parsed.work = Work::Sequences,
                option if option.starts_with('-') => {
                    return Err(format!("'{option}' is not an option; {USAGE}").into());
                }
                _ => parsed.stores.push(argument),
            }
        }
        if let Some(store) =
            parsed.stores.iter().find(|store| !parsed.work.stores().contains(&store.as_str()))
        {
            return Err(format!("'{store}' is not a store that takes part; {USAGE}").into());
        }
        if parsed.rounds == 0 || parsed.scale == 0 {
            return Err("--rounds and --scale start at 1".into());
        }
        Ok(parsed)
    }
}

fn compare(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let stores = arguments.work.stores().iter().copied();
    let stores = stores
        .filter(|store| arguments.stores.is_empty() || arguments.stores.iter().any(|name| name == store))
        .collect();
    let plan =
        Plan { stores, folder: arguments.folder.clone(), rounds: arguments.rounds, scale: arguments.scale };
    fs::create_dir_all(&arguments.out)?;
    let text = match arguments.work {
        Work::Documents => documents(&plan, &arguments.out)?,
        Work::Sequences => sequences::compare(&plan, &arguments.out)?,
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Compares the work on documents; the tables.
fn documents(plan: &Plan, out: &Path) -> Result<String, Box<dyn Error>> {
    let figures = measure::run(plan)?;
    fs::write(out.join("compare.csv"), report::csv(&figures))?;
    plot::draw(&figures, &out.join("compare.svg"))?;
    let versions: Vec<String> = measure::STORES.into_iter().filter_map(report::version).collect();
    let mut text = report::machine(&versions)
        + " A dash: the store does not offer the level, or does not look into documents.\n";
    for level in Level::ALL {
        text += &report::table(level, &plan.stores, &figures);
    }
    text += &report::table_of_index(&plan.stores, &figures);
    text += &report::table_of_pipelines(&plan.stores, &figures);
    Ok(text)
}

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| compare(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, Box<dyn Error>> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_stores_are_read() {
        let arguments = parse("--out docs --rounds 3 --scale 10 redb sqlite").unwrap();
        assert_eq!(arguments.out, PathBuf::from("docs"));
        assert_eq!((arguments.rounds, arguments.scale), (3, 10));
        assert_eq!(arguments.stores, ["redb", "sqlite"]);
        assert_eq!(arguments.work, Work::Documents);
        assert_eq!(parse("postgres sequences").unwrap().work, Work::Sequences);
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let message = |line: &str| parse(line).err().unwrap().to_string();
        assert!(message("oracle").starts_with("'oracle' is not a store that takes part"));
        assert!(message("postgres").starts_with("'postgres' is not a store that takes part"));
        assert!(message("sequences redb").starts_with("'redb' is not a store that takes part"));
        assert!(message("--in docs").starts_with("'--in' is not an option"));
        assert!(message("--out").starts_with("--out lacks its value"));
        assert!(message("--rounds 0").starts_with("--rounds and --scale start at 1"));
    }
}
