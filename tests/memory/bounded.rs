//! S9: whatever a request asks for, it ends with an error or an answer, in a process that has no more memory than requests
//! may use and on a thread with a small stack.
//!
//! The requests and their ends are in `child/bounded.rs`.

use std::process::{Command, Output};

use cairndb::bson::{Document, doc};
use cairndb_tests::scratch::Scratch;

fn child(doors: &str) -> Output {
    let scratch = Scratch::new();
    Command::new(env!("CARGO_BIN_EXE_child"))
        // Every thread of glibc reserves 64 MiB of address space otherwise, which is not what is measured.
        .env("MALLOC_ARENA_MAX", "1")
        .arg("bounded")
        .arg(scratch.path())
        .arg(doors)
        .output()
        .expect("the child runs")
}

/// Every request of the group ends as it must.
#[track_caller]
fn check(doors: &str) {
    let ended = child(doors);
    let (said, faults) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let last = said.lines().last().unwrap_or("nothing");
    assert!(
        ended.status.success() && last.ends_with(" doors"),
        "{doors}: {} after {last:?}: {faults}",
        ended.status
    );
}

/// The limit ends a process that exceeds it, with these words.
#[track_caller]
fn is_ended(doors: &str, words: &str) {
    let ended = child(doors);
    let faults = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && faults.contains(words), "{doors}: {}: {faults}", ended.status);
}

#[test]
fn reads_end_within_their_memory() {
    check("reads");
}

#[test]
fn expressions_end_within_their_memory() {
    check("expressions");
}

#[test]
fn writes_end_within_their_memory() {
    check("writes");
}

#[test]
fn large_and_deep_requests_end_within_their_memory() {
    check("requests");
}

#[test]
fn a_process_that_takes_more_memory_is_ended() {
    is_ended("hog", "memory allocation of");
}

#[test]
fn a_thread_that_recurses_too_deeply_is_ended() {
    is_ended("recursion", "overflowed its stack");
}

/// The process has three writers. Its folder is opened again, and has all that it had acknowledged.
#[test]
fn a_process_that_ends_for_want_of_memory_loses_nothing() {
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_child"));
    let ended = command.env("MALLOC_ARENA_MAX", "1").arg("starve").arg(scratch.path()).output();
    let ended = ended.expect("the child runs");
    let faults = String::from_utf8_lossy(&ended.stderr);
    let is_starved = !ended.status.success() && faults.contains("memory allocation of");
    assert!(is_starved, "{}: {faults}", ended.status);
    let said = String::from_utf8(ended.stdout).expect("numbers");
    // The last line counts only if it is whole.
    let acknowledged: Vec<i64> =
        said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect();
    assert!(acknowledged.len() > 400, "{} inserts", acknowledged.len());
    let client = scratch.open();
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    let starved = client.database("test").collection::<Document>("starved");
    for id in &acknowledged {
        let found = starved.find_one(doc! { "_id": id }).run().expect("read");
        assert!(found.is_some(), "{id} was acknowledged, of {}", acknowledged.len());
    }
    let stored = starved.count_documents(doc! {}).run().expect("counted");
    // Each writer may have had one on its way.
    let most = acknowledged.len() as u64 + 3;
    assert!(stored <= most, "{stored} documents, {} acknowledged", acknowledged.len());
}
