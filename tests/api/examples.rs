//! The examples of the engine, each included and run: they compile, and none returns an error.

use cairndb::Result;

#[path = "../../engine/examples/counters.rs"]
mod counters;
#[path = "../../engine/examples/files.rs"]
mod files;
#[path = "../../engine/examples/numbering.rs"]
mod numbering;
#[path = "../../engine/examples/optimistic.rs"]
mod optimistic;
#[path = "../../engine/examples/parallel_tests.rs"]
mod parallel_tests;
#[path = "../../engine/examples/resilient.rs"]
mod resilient;

#[track_caller]
fn check(example: fn() -> Result<()>) {
    if let Err(error) = example() {
        panic!("the example fails: {error}");
    }
}

#[test]
fn counters_of_threads_are_all_counted() {
    check(counters::main);
}

#[test]
fn files_are_archived() {
    check(files::main);
}

#[test]
fn documents_are_numbered() {
    check(numbering::main);
}

#[test]
fn the_optimistic_loop_ends() {
    check(optimistic::main);
}

#[test]
fn names_are_taken_once() {
    check(parallel_tests::main);
}

#[test]
fn visits_are_counted_once() {
    check(resilient::main);
}
