//! Faults that are planted in the engine must be found, each within a bounded number of histories.

use cairndb::PlantedFault;
use cairndb_tests::choices::{SEED_VARIABLE, part, seed};

use crate::histories::run_bounded;

/// Histories in which a fault must be found. Most are found by the first.
const HISTORIES_MAX: u64 = 200;

/// One of a few histories with the fault breaks a promise, and says one of the words. Without the fault the same decisions
/// break none.
#[track_caller]
fn is_found(fault: PlantedFault, words: &[&str]) {
    let seed = seed();
    let finds = |number: &u64| {
        run_bounded(part(seed, *number), fault)
            .is_err_and(|found| words.iter().any(|word| found.contains(word)))
    };
    let found = (0..HISTORIES_MAX).find(finds);
    let number = found.unwrap_or_else(|| {
        panic!("{SEED_VARIABLE}={seed}: {fault:?} went unnoticed in {HISTORIES_MAX} histories")
    });
    if let Err(found) = run_bounded(part(seed, number), PlantedFault::None) {
        panic!("{SEED_VARIABLE}={seed}: history {number} by itself: {found}");
    }
}

#[test]
fn updates_that_read_before_they_latch_are_found() {
    is_found(PlantedFault::UpdatesReadEarly, &["lost", "was never", "was added", "came twice", "overlaps"]);
}

#[test]
fn unique_checks_outside_of_the_latch_are_found() {
    is_found(PlantedFault::UniqueNotLatched, &["unique key", "verify found"]);
}

#[test]
fn snapshots_that_are_taken_before_the_indexes_are_found() {
    is_found(PlantedFault::SnapshotsTakenEarly, &["did not find", "had been there", "not whole"]);
}

#[test]
fn documents_from_after_the_snapshot_are_found() {
    is_found(
        PlantedFault::DocumentsReadLate,
        &["is no cut", "none of them is older", "had been there", "too short", "twice"],
    );
}

#[test]
fn deletes_that_do_not_look_again_are_found() {
    is_found(PlantedFault::DeletesNotChecked, &["session", "unique key"]);
}

#[test]
fn copies_that_are_older_than_a_write_are_found() {
    // Whatever is found: an old copy of a document can break each of the promises.
    is_found(PlantedFault::CopiesKeptLate, &[""]);
}

#[test]
fn entries_that_an_update_leaves_are_found() {
    is_found(PlantedFault::OldEntriesKept, &["verify found", "too short", "twice", "no order explains"]);
}
