//! Histories of transactions: 2 to 8 threads append to lists and read them, one by one and by ranges, in transactions and
//! by plain calls beside them; transactions are aborted and outlive their time, and the store is closed and opened again
//! meanwhile. Then it is decided whether the snapshots were kept, or the transactions were serializable.
//!
//! The checker is judged by histories made by hand, one of each anomaly and one that is nearly it, and by faults that are
//! planted in the engine.

mod actor;
mod cycles;
mod run;
mod store;

use std::io::{self, Write};
use std::time::Instant;

use cairndb::PlantedFault;
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, part, seed};

use crate::histories::bounded;
use crate::histories::transactions::run::{Tally, run};

/// Histories of a normal run.
const HISTORIES_DEFAULT: u64 = 2000;
/// Histories in which a planted fault must be found.
const HISTORIES_MAX: u64 = 300;

#[test]
fn transactions_are_isolated_as_they_say() {
    let histories = number_from_environment("CAIRNDB_HISTORIES", HISTORIES_DEFAULT);
    let (seed, started) = (seed(), Instant::now());
    let mut tally = Tally::default();
    for number in 0..histories {
        let part = part(seed, number);
        match bounded(move || run(part, PlantedFault::None)) {
            Ok(one) => tally.add(one),
            Err(found) => panic!("{SEED_VARIABLE}={seed}: history {number}: {found}"),
        }
    }
    let _ = writeln!(
        io::stderr(),
        "histories of transactions: {tally:?} in {histories} histories, in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    );
    // A suite in which no transactions meet would not show what it says.
    assert!(tally.committed > 100 * histories, "{tally:?}");
    assert!(histories < 30 || (tally.conflicts > 0 && tally.closings > 0 && tally.skewed > 0), "{tally:?}");
}

/// One of a few histories with the fault breaks a promise, and says one of the words. Without the fault the same decisions
/// break none.
#[track_caller]
fn is_found(fault: PlantedFault, words: &[&str]) {
    let seed = seed();
    let finds = |number: &u64| {
        let part = part(seed, *number);
        bounded(move || run(part, fault)).is_err_and(|found| words.iter().any(|word| found.contains(word)))
    };
    let number = (0..HISTORIES_MAX).find(finds).unwrap_or_else(|| {
        panic!("{SEED_VARIABLE}={seed}: {fault:?} went unnoticed in {HISTORIES_MAX} histories")
    });
    let part = part(seed, number);
    if let Err(found) = bounded(move || run(part, PlantedFault::None)) {
        panic!("{SEED_VARIABLE}={seed}: history {number} by itself: {found}");
    }
}

#[test]
fn plain_writes_that_leave_no_notes_are_found() {
    is_found(PlantedFault::NotesLeftOut, &["G-single", "was lost", "was never"]);
}

#[test]
fn notes_that_no_commit_asks_for_are_found() {
    is_found(PlantedFault::NotesNotAsked, &["G-single", "was lost", "was never"]);
}

#[test]
fn unique_keys_that_no_transaction_claims_are_found() {
    is_found(PlantedFault::UniqueNotClaimed, &["took the name"]);
}

#[test]
fn documents_that_cursors_read_late_are_found() {
    is_found(PlantedFault::DocumentsReadLate, &["G-single", "G1", "was never", "was lost"]);
}

#[test]
fn searches_that_no_commit_looks_at_are_found() {
    is_found(PlantedFault::SearchesNotChecked, &["Serializable: G2"]);
}

#[test]
fn turns_that_are_let_go_early_are_found() {
    is_found(PlantedFault::TurnsLetGoEarly, &["were numbered"]);
}
