//! The examples of the engine, each included and run: they compile, and none returns an error.

use cairndb::Result;

#[path = "../../engine/examples/counters.rs"]
mod counters;
#[expect(dead_code, reason = "its arguments and its standard input are a terminal's")]
#[path = "../../engine/examples/demo/main.rs"]
mod demo;
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

#[test]
fn the_demo_takes_in_documents_and_names_a_malformed_line() {
    let lines: &[u8] = b"{\"_id\": 1, \"name\": \"Ada\"}\nno document\n{\"_id\": 2, \"name\": \"Grace\"}\n";
    let mut shown = Vec::new();
    let source = demo::source::Source::of_lines("three lines", lines);
    demo::take_in(demo::Folder::temporary().expect("a folder"), source, &mut shown).expect("two documents");
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert!(shown.contains("three lines"), "{shown}");
    assert!(shown.contains("Ada"), "{shown}");
}
