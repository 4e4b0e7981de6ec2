//! Histories: 2 to 16 threads work on one store, which is closed and opened again meanwhile, and note every answer
//! with the moments of call and return. Then it is decided whether any order of the calls explains all answers.
//!
//! The checkers are judged by histories made by hand, beside each of them, and by faults that are planted in the engine.
//!
//! `CAIRNDB_HISTORIES` says how many, `CAIRNDB_SEED` replays their choices: `make histories`. Which thread runs when is the
//! system's choice, so the same seed may need several runs to find the same again.

mod actor;
mod history;
mod lists;
mod order;
mod places;
mod planted;
mod register;
mod run;
mod store;
mod transactions;
mod values;

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::PlantedFault;
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, part, seed};

use crate::histories::run::{Tally, run};

/// Histories of a normal run.
const HISTORIES_DEFAULT: u64 = 30;
/// A history lasts less than a second. One that lasts this long does not end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the history of a seed.
fn run_bounded(seed: u64, fault: PlantedFault) -> Result<Tally, String> {
    bounded(move || run(seed, fault))
}

/// Runs a history on a thread of its own, so that one that hangs is noticed.
fn bounded<T: Send + 'static>(run: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(run()));
    is_done
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|error| Err(format!("the history hangs or panicked: {error}")))
}

#[test]
fn an_order_of_the_calls_explains_every_answer() {
    let histories = number_from_environment("CAIRNDB_HISTORIES", HISTORIES_DEFAULT);
    let (seed, started) = (seed(), Instant::now());
    let mut tally = Tally::default();
    for number in 0..histories {
        match run_bounded(part(seed, number), PlantedFault::None) {
            Ok(one) => tally.add(one),
            Err(found) => panic!("{SEED_VARIABLE}={seed}: history {number}: {found}"),
        }
    }
    let _ = writeln!(
        io::stderr(),
        "histories: {} operations and {} snapshots in {histories} histories, {} threads met a close, {} were quiet, in {:.0} s; {SEED_VARIABLE}={seed}",
        tally.operations,
        tally.snapshots,
        tally.closings,
        tally.quiet,
        started.elapsed().as_secs_f64()
    );
    // A suite that is never closed while threads work would not show what it says.
    assert!(tally.operations > 100 * histories && tally.snapshots > 10 * histories, "{tally:?}");
    assert!(histories < 10 || (tally.closings > 0 && tally.quiet > 0), "{tally:?}");
}
