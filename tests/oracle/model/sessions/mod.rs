//! Random histories of sessions: 2 to 4 sessions and plain calls in turns, with searches by indexes, cursors, changes of
//! collections, transactions that outlive their time, and reopening while transactions are open. Every answer is compared with a
//! model's, which has a copy of everything for each transaction and short rules of what conflicts.
//!
//! All calls are of one thread, so each answer has one reason. Threads are the matter of the histories.

mod model;
mod run;
mod statement;
mod tables;

use std::io::{self, Write};
use std::time::Instant;

use cairndb::PlantedFault;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::scratch::in_memory;

use crate::model::sessions::run::{Tally, run};

const RUNS_DEFAULT: u64 = 400;
const WORKERS: u64 = 2;
const OPERATIONS: usize = 200;
/// Histories in which a planted fault must be found.
const PLANTED_MAX: u64 = 100;

fn history(seed: u64, number: u64, fault: PlantedFault) -> Result<Tally, String> {
    run(Choices::seeded(part(seed, number)), OPERATIONS, fault)
}

#[test]
fn sessions_agree_with_the_model() {
    let runs = number_from_environment("CAIRNDB_MODEL_RUNS", RUNS_DEFAULT);
    let (seed, started) = (seed(), Instant::now());
    let tally = std::thread::scope(|scope| {
        let work = |worker| {
            let mut tally = Tally::default();
            for number in (0..runs).filter(|number| number % WORKERS == worker) {
                match history(seed, number, PlantedFault::None) {
                    Ok(one) => tally.add(one),
                    Err(found) => panic!("{SEED_VARIABLE}={seed}: history {number}: {found}"),
                }
            }
            tally
        };
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        let mut tally = Tally::default();
        for worker in workers {
            tally.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        tally
    });
    let Tally { operations, committed, conflicts, duplicates, changed, expired, closed } = tally;
    let _ = writeln!(
        io::stderr(),
        "model: {runs} histories of sessions, {operations} operations; {committed} committed, {conflicts} conflicts, \
         {duplicates} taken keys, {changed} changed collections, {expired} expired, {closed} closed in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    );
    // A suite in which sessions do not meet would not show what it says.
    let is_met = committed > runs && conflicts > runs && duplicates > runs;
    assert!(runs < 30 || is_met, "{tally:?}");
    assert!(runs < 100 || tally.changed > 0, "{tally:?}");
    // A store in memory is gone when it is closed.
    assert!(runs < 100 || tally.closed > 0 || in_memory(), "{tally:?}");
    assert!(runs < 1000 || tally.expired > 0, "{tally:?}");
}

#[test]
fn the_same_seed_makes_the_same_history() {
    let seed = seed();
    for number in 0..5 {
        let once = history(seed, number, PlantedFault::None);
        // The clock decides when the time of a transaction is over.
        if once.as_ref().is_ok_and(|tally| tally.expired > 0) {
            continue;
        }
        assert_eq!(
            once,
            history(seed, number, PlantedFault::None),
            "{SEED_VARIABLE}={seed}, history {number}"
        );
    }
}

/// One of a few histories with the fault has another answer than the model.
#[track_caller]
fn is_found(fault: PlantedFault) {
    let seed = seed();
    let number =
        (0..PLANTED_MAX).find(|number| history(seed, *number, fault).is_err()).unwrap_or_else(|| {
            panic!("{SEED_VARIABLE}={seed}: {fault:?} went unnoticed in {PLANTED_MAX} histories")
        });
    if let Err(found) = history(seed, number, PlantedFault::None) {
        panic!("{SEED_VARIABLE}={seed}: history {number} by itself: {found}");
    }
}

#[test]
fn plain_writes_that_leave_no_notes_are_found() {
    is_found(PlantedFault::NotesLeftOut);
}

#[test]
fn notes_that_no_commit_asks_for_are_found() {
    is_found(PlantedFault::NotesNotAsked);
}

#[test]
fn unique_keys_that_no_transaction_claims_are_found() {
    is_found(PlantedFault::UniqueNotClaimed);
}

#[test]
fn searches_that_no_commit_looks_at_are_found() {
    is_found(PlantedFault::SearchesNotChecked);
}

#[test]
fn staged_changes_that_scans_of_indexes_miss_are_found() {
    is_found(PlantedFault::StagedMissedByScans);
}

#[test]
fn staged_changes_that_scans_miss_backwards_are_found() {
    is_found(PlantedFault::StagedMissedBackwards);
}

#[test]
fn staged_removals_that_scans_show_are_found() {
    is_found(PlantedFault::StagedDeletesShown);
}

#[test]
fn collections_that_were_changed_since_and_are_read_are_found() {
    is_found(PlantedFault::SinceNotCompared);
}

#[test]
fn arrays_that_are_announced_late_are_found() {
    is_found(PlantedFault::ArraysAnnouncedLate);
}

#[test]
fn arrays_that_writes_do_not_note_are_found() {
    is_found(PlantedFault::ArraysNotNoted);
}
