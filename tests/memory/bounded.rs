//! S9: whatever a request asks for, it ends with an error or an answer, in a process that has no more memory than requests
//! may take and on a thread with a small stack.
//!
//! The requests and their ends are in `child/bounded.rs`. Memory that RocksDB takes for keys of megabytes is not shown here;
//! see the known limits in `docs/reliability.md`.

use std::process::{Command, Output};

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
