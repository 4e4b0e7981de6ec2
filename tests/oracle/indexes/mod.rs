//! Random documents, indexes and questions: with indexes and without, the answers are the same. Where a fault is planted they
//! are not, or `verify` finds it.
//!
//! `CAIRNDB_INDEX_RUNS` says how many stores, `CAIRNDB_SEED` replays them.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use cairndb::PlantedFault;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::indexes::{Compared, run};
use cairndb_tests::scratch::{small, small_with_cache};

const RUNS_DEFAULT: u64 = 500;
const ROUNDS: usize = 10;
const WORKERS: u64 = 2;
/// Stores in which a planted fault must be found. A third of them or more show it.
const FAULTY_RUNS_MAX: u64 = 60;

#[test]
fn no_index_changes_an_answer() {
    let runs = number_from_environment("CAIRNDB_INDEX_RUNS", RUNS_DEFAULT);
    let (seed, started) = (seed(), Instant::now());
    let compared: Vec<Compared> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn(move || {
                    let mine = (0..runs).filter(|number| number % WORKERS == worker);
                    let one = |number| {
                        run(&mut Choices::seeded(part(seed, number)), ROUNDS, small_with_cache(number))
                    };
                    mine.map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let replay = format!("replay with {SEED_VARIABLE}={seed}");
        workers.into_iter().flat_map(|worker| worker.join().expect(&replay)).collect()
    });
    let sum = |of: fn(&Compared) -> u64| compared.iter().map(of).sum::<u64>();
    let _ = writeln!(
        io::stderr(),
        "indexes: {} questions ({} of a quarter of them covered, {} merged, {} by one entry of each group, {} by sort keys), {} ranges and {} writes in {} stores in {:.0} s; {SEED_VARIABLE}={seed}",
        sum(|compared| compared.queries),
        sum(|compared| compared.covered),
        sum(|compared| compared.merged),
        sum(|compared| compared.one_of_each),
        sum(|compared| compared.collated),
        sum(|compared| compared.ranges),
        sum(|compared| compared.writes),
        compared.len(),
        started.elapsed().as_secs_f64()
    );
    // A suite that only ever looks at everything would prove nothing.
    assert!(sum(|compared| compared.indexed) * 20 > sum(|compared| compared.queries), "{compared:?}");
    assert!(sum(|compared| compared.covered) * 500 > sum(|compared| compared.queries) / 4, "{compared:?}");
    assert!(sum(|compared| compared.merged) > 0, "{compared:?}");
    assert!(sum(|compared| compared.one_of_each) > 0, "{compared:?}");
    assert!(sum(|compared| compared.collated) * 1_000 > sum(|compared| compared.queries), "{compared:?}");
    assert!(sum(|compared| compared.ranges) * 100 > sum(|compared| compared.queries), "{compared:?}");
}

/// Nothing rests on the digests of long values: with one for all of them the answers are the same.
#[test]
fn no_answer_depends_on_a_digest() {
    let seed = seed();
    for number in 0..FAULTY_RUNS_MAX {
        let options = small().planted_fault(PlantedFault::DigestsCollide);
        let store = || run(&mut Choices::seeded(part(seed, number)), ROUNDS, options);
        let ended = catch_unwind(AssertUnwindSafe(store));
        assert!(ended.is_ok(), "{SEED_VARIABLE}={seed}: store {number}");
    }
}

#[test]
fn arrays_that_are_not_noted_are_found_out() {
    is_found_out(PlantedFault::ArraysNotNoted);
}

#[test]
fn entries_that_an_update_leaves_are_found_out() {
    is_found_out(PlantedFault::OldEntriesKept);
}

#[test]
fn entries_that_answer_for_arrays_are_found_out() {
    is_found_out(PlantedFault::ArraysCovered);
}

#[test]
fn a_partial_index_that_lacks_matches_is_found_out() {
    is_found_out(PlantedFault::PartialNotProven);
}

#[test]
fn documents_that_are_returned_twice_are_found_out() {
    is_found_out(PlantedFault::DuplicatesReturned);
}

/// One of a few stores with the fault breaks the law, and does not without it.
#[track_caller]
fn is_found_out(fault: PlantedFault) {
    let seed = seed();
    let breaks_law = |number: u64, fault: PlantedFault| {
        let options = small().planted_fault(fault);
        let store = || run(&mut Choices::seeded(part(seed, number)), ROUNDS, options);
        catch_unwind(AssertUnwindSafe(store)).is_err()
    };
    let found = (0..FAULTY_RUNS_MAX).find(|number| breaks_law(*number, fault));
    let number = found.unwrap_or_else(|| panic!("{SEED_VARIABLE}={seed}: {fault:?} went unnoticed"));
    assert!(!breaks_law(number, PlantedFault::None), "{SEED_VARIABLE}={seed}: store {number} by itself");
}
