//! Faults that are planted in the engine must turn the suite red: each is looked for in a small search that is sure to meet it.

use cairndb_tests::choices::{Choices, SEED_VARIABLE, part, seed};
use cairndb_tests::journal::Record;

use crate::power::cuts::{cut_lives, stop_at};
use crate::power::disk::{Aftermath, Image};
use crate::power::life::{Level, Task, judge, live};
use crate::power::mount::is_possible;
use crate::power::oracle::Oracle;
use crate::power::say;

/// Searches before a fault counts as not found. One in forty finds the rarest.
const SEARCHES: u64 = 400;
/// Lives of one search.
const LIVES: u64 = 3;

/// Looks for a fault by lives that are cut. What is found must say one of the words, and without the fault there is
/// nothing to be found in the same search.
#[track_caller]
fn check(fault: &'static str, like: impl Fn(Task) -> Task, words: &[&str]) {
    if !is_possible() {
        return;
    }
    let seed = seed();
    let search = |fault, number: u64| {
        cut_lives(part(seed, number << 8), LIVES, |task| Task { fault, ..like(task) }).err()
    };
    // A search in which threads ran in another order may meet something else first, and counts for nothing.
    let tells = |number: u64| {
        let found = search(fault, number).filter(|found| words.iter().any(|word| found.contains(word)))?;
        search("none", number).is_none().then_some((number, found))
    };
    let (searches, found) = (1..=SEARCHES)
        .find_map(tells)
        .unwrap_or_else(|| panic!("{SEED_VARIABLE}={seed}: {fault} was not found in {SEARCHES} searches"));
    let first: String = found.chars().take(160).collect();
    say(&format!("power: planted: {fault} found by search {searches}: {first}"));
}

#[test]
fn an_insert_that_is_acknowledged_before_it_is_made_is_found() {
    check("acknowledged-first", journaled, &["lost"]);
}

#[test]
fn a_commit_that_is_acknowledged_before_it_is_synced_is_found() {
    check("commits-not-synced", journaled, &["lost", "does not open"]);
}

/// A sync that is said to be done, by a child that did not ask for it.
#[test]
fn a_sync_or_a_ticket_that_is_answered_without_a_sync_is_found() {
    check("syncs-left-out", buffered, &["a sync after it was answered"]);
}

/// A sync that the engine leaves out, of writes that the operating system has and of those in memory.
#[test]
fn a_sync_that_is_left_out_by_the_engine_is_found() {
    let words = ["a sync after it was answered"];
    check("mark-not-synced", buffered, &words);
    check("mark-not-synced", |task| Task { level: Level::Delayed, ..task }, &words);
}

#[test]
fn an_event_that_is_shown_before_the_sync_is_found() {
    check("events-shown-early", buffered, &["a stream had shown it"]);
}

#[test]
fn a_row_of_a_token_in_a_batch_of_its_own_is_found() {
    check("tokens-apart", buffered, &["made again"]);
}

#[test]
fn a_mark_that_is_raised_without_a_sync_is_found() {
    check("mark-not-synced", taking_values, &["twice", "does not open"]);
}

#[test]
fn a_reserve_that_is_not_synced_is_found() {
    check("reserve-not-synced", taking_values, &["twice"]);
}

#[test]
fn entries_in_a_batch_of_their_own_are_found() {
    check("entries-apart", buffered, &["verify found"]);
}

#[test]
fn an_ignored_sync_of_a_new_folder_is_found() {
    check("folder-not-synced", buffered, &["lost"]);
}

/// The process dies, and the system lives on: what it was given is there.
#[test]
fn a_write_that_stays_in_memory_and_should_not_is_found() {
    if !is_possible() {
        return;
    }
    let seed = seed();
    let die = |fault, number: u64| {
        let like = Task::small(&mut Choices::seeded(part(seed, number)));
        let task = Task { level: Level::HandedOver, fault, ..like };
        let lived = live(&Image::default(), &task, Some(stop_at(60 + part(seed, number) % 60)))?;
        lived.judge(&mut Oracle::new(true), &Aftermath::Killed).map(|_| ())
    };
    let is_lost = |number| die("writes-not-handed-over", number).is_err_and(|found| found.contains("lost"));
    let found = (1..=SEARCHES).find(|number| is_lost(*number) && die("none", *number).is_ok());
    assert!(found.is_some(), "{SEED_VARIABLE}={seed}: not found in {SEARCHES} searches");
}

fn journaled(task: Task) -> Task {
    Task { level: Level::Journaled, ..task }
}

fn buffered(task: Task) -> Task {
    Task { level: Level::Buffered, ..task }
}

fn taking_values(task: Task) -> Task {
    Task { values: Some(1), ..task }
}

/// A database that was closed, on a disk that confirmed syncs of the log and lost them; whether opening it refused.
fn is_loss_refused(seed: u64, fault: &'static str) -> Result<bool, String> {
    // Without flushes, so that what was written is in the log alone.
    let task = Task { threads: 1, operations: 4, fault, ..Task::small(&mut Choices::seeded(seed)) };
    let lived = live(&Image::default(), &task, None)?;
    assert!(lived.records.contains(&Record::Closed), "the child closes");
    let mut oracle = task.oracle();
    lived.records.iter().try_for_each(|record| oracle.hear(*record))?;
    match judge(&mut oracle, &lived.state.disk.left(&Aftermath::Lying { suffix: ".log" })) {
        Ok(()) => Err("nothing was lost".to_owned()),
        Err(found) if found.contains("DamagedFile") || found.contains("DataLoss") => Ok(true),
        Err(found) if found.contains("does not open") => Err(found),
        Err(_) => Ok(false),
    }
}

/// The witness is for disks that confirm and lose. With it, opening refuses; without it, documents are missing in silence.
#[test]
fn a_witness_that_is_not_raised_is_found() {
    if !is_possible() {
        return;
    }
    let seed = seed();
    // A flush may have put everything into tables before the end, and then nothing is lost.
    let is_found = (0..20).map(|number| part(seed, number)).any(|seed| {
        is_loss_refused(seed, "none") == Ok(true) && is_loss_refused(seed, "witness-not-raised") == Ok(false)
    });
    assert!(is_found, "{SEED_VARIABLE}={seed}");
    // A cut is no loss for a disk that keeps its word, with a witness or without.
    let task = Task { fault: "witness-not-raised", ..Task::small(&mut Choices::seeded(seed)) };
    let lived = live(&Image::default(), &task, Some(stop_at(150))).expect("lived");
    lived.judge(&mut task.oracle(), &Aftermath::Synced).expect("nothing durable is lost");
}
