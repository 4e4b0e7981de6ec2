//! The work of every store that hands out numbers: single values, batches of them, and inserts whose key is such a
//! value, by one or more threads at once.
//!
//! A runner's `main` is [`run`]; it prints its figures by [`race`], or by [`figure`] where a program of the store
//! has measured. No figure is printed before it is clear that no value came twice.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::durability::{Durability, Result};

/// The number of values that one batch asks for.
pub const BATCH_VALUES: u64 = 1_000;

/// The request of the driver to a runner, as its command line in this order. The counts hold for each thread; a
/// figure whose count is 0 is not asked for.
#[derive(Debug)]
pub struct Work {
    /// The place where the store goes.
    pub folder: PathBuf,
    /// The time at which a call that writes may return.
    pub durability: Durability,
    /// Threads, or connections.
    pub threads: u64,
    /// Values that are drawn one by one.
    pub values: u64,
    /// Batches of [`BATCH_VALUES`] values.
    pub batches: u64,
    /// Documents.
    pub inserts: u64,
}

impl Work {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (folder, durability) = crate::arguments::place(&mut arguments)?;
        let mut number = |name| crate::arguments::number(name, &mut arguments);
        let (threads, values) = (number("THREADS")?, number("VALUES")?);
        let (batches, inserts) = (number("BATCHES")?, number("INSERTS")?);
        Ok(Self { folder, durability, threads, values, batches, inserts })
    }
}

/// Values as runs without a hole: few where a thread gets neighbors, and cheap to add to.
#[derive(Debug, Default)]
pub struct Runs {
    runs: Vec<(i64, i64)>,
}

impl Runs {
    /// Adds one value.
    pub fn push(&mut self, value: i64) {
        self.push_run(value, value);
    }

    /// Adds the values from `first` to `last`.
    pub fn push_run(&mut self, first: i64, last: i64) {
        match self.runs.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            Some(_) | None => self.runs.push((first, last)),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|(first, last)| first.abs_diff(*last) + 1).sum()
    }

    fn append(&mut self, other: Self) {
        self.runs.extend(other.runs);
    }

    /// A value that is here more than once.
    fn repeated(&mut self) -> Option<i64> {
        self.runs.sort_unstable();
        let mut neighbors = self.runs.iter().zip(self.runs.iter().skip(1));
        neighbors.find(|((_, end), (first, _))| first <= end).map(|(_, (first, _))| *first)
    }
}

/// A runner's `main`: reads the command line `FOLDER synced|unsynced THREADS VALUES BATCHES INSERTS`.
pub fn run(perform: impl FnOnce(&Work) -> Result<()>) -> ExitCode {
    match Work::parse(std::env::args().skip(1)).and_then(|work| perform(&work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Lets the workers start together, each in a thread of its own, and prints how many values they drew a second.
/// An error when they did not draw `expected` values, or drew one twice.
pub fn race<W>(name: &str, expected: u64, workers: Vec<W>) -> Result<()>
where
    W: FnOnce() -> Result<Runs> + Send,
{
    let barrier = Barrier::new(workers.len());
    let laps: Vec<std::result::Result<Lap, String>> = thread::scope(|scope| {
        let threads: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(|| lap(&barrier, worker))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let mut runs = Runs::default();
    let mut spans = Vec::with_capacity(laps.len());
    for lap in laps {
        let lap = lap?;
        runs.append(lap.runs);
        spans.push((lap.start, lap.end));
    }
    if runs.count() != expected {
        return Err(format!("{name} took {} values where {expected} were asked for", runs.count()).into());
    }
    if let Some(value) = runs.repeated() {
        return Err(format!("{name} got the value {value} more than once").into());
    }
    let start = spans.iter().map(|(start, _)| *start).min();
    let end = spans.iter().map(|(_, end)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
    let rate = expected as f64 / elapsed.as_secs_f64();
    figure(name, rate);
    Ok(())
}

/// Prints a figure.
pub fn figure(name: &str, rate: f64) {
    println!("{name} {rate:.1}");
}

/// One thread's part of a race.
struct Lap {
    start: Instant,
    end: Instant,
    runs: Runs,
}

fn lap(barrier: &Barrier, worker: impl FnOnce() -> Result<Runs>) -> std::result::Result<Lap, String> {
    barrier.wait();
    let start = Instant::now();
    // An error goes to another thread, which its type does not promise to allow; its text may.
    let runs = worker().map_err(|error| error.to_string())?;
    Ok(Lap { start, end: Instant::now(), runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[i64]) -> Runs {
        let mut runs = Runs::default();
        for value in values {
            runs.push(*value);
        }
        runs
    }

    #[test]
    fn neighbors_make_one_run() {
        let mut runs = runs(&[1, 2, 3, 7]);
        runs.push_run(8, 10);
        assert_eq!(runs.runs, [(1, 3), (7, 10)]);
        assert_eq!(runs.count(), 7);
    }

    #[test]
    fn a_repeated_value_is_found() {
        assert_eq!(runs(&[5, 1, 3]).repeated(), None);
        assert_eq!(runs(&[1, 2, 3, 2]).repeated(), Some(2));
        assert_eq!(runs(&[9, 9]).repeated(), Some(9));
    }

    #[test]
    fn a_race_with_a_missing_or_repeated_value_is_an_error() {
        let race_of = |values: [&[i64]; 2], expected| {
            race("test", expected, values.map(|values| move || Ok(runs(values))).into()).err()
        };
        assert!(race_of([&[1, 2], &[3]], 3).is_none());
        let message = race_of([&[1, 2], &[3]], 4).unwrap().to_string();
        assert_eq!(message, "test took 3 values where 4 were asked for");
        let message = race_of([&[1, 2], &[2]], 3).unwrap().to_string();
        assert_eq!(message, "test got the value 2 more than once");
    }

    #[test]
    fn a_command_line_is_read_in_order() {
        let parse = |line: &str| Work::parse(line.split_whitespace().map(str::to_owned));
        let work = parse("folder synced 2 30 4 50").unwrap();
        assert_eq!((work.threads, work.values, work.batches, work.inserts), (2, 30, 4, 50));
        assert_eq!(parse("folder synced 2 x").unwrap_err().to_string(), "VALUES 'x' is not a number");
    }
}
