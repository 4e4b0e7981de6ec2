//! A run: threads on one store, which is closed and opened again in between, and the judgment of what they noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{mem, thread};

use cairndb::bson::Document;
use cairndb::{ErrorKind, PlantedFault};
use cairndb_tests::choices::{Choices, mix};
use cairndb_tests::scratch::Scratch;

use crate::histories::actor::{Actor, Notes, Shared, Stop, list_of};
use crate::histories::history::Record;
use crate::histories::lists::{Lists, check_lists};
use crate::histories::order::check_order;
use crate::histories::register::check_register;
use crate::histories::store::{COUNTERS, KEYS, Opening, SESSIONS, Store, all};
use crate::histories::values::{check_counter, check_polls, check_sequence};

/// The threads of a run.
const THREADS_MIN: u64 = 2;
const THREADS_MAX: u64 = 16;
/// Operations of all threads until the store is closed.
const OPERATIONS: u64 = 1200;
/// The number of times that the store is opened in a run.
const OPENINGS_MAX: u64 = 3;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) snapshots: u64,
    /// Threads that were at work when their store was closed.
    pub(crate) closings: u64,
    /// Stores that were closed when no thread worked any more.
    pub(crate) quiet: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.snapshots += other.snapshots;
        self.closings += other.closings;
        self.quiet += other.quiet;
    }
}

/// The way in which the store of one opening ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is closed while the threads work.
    Closed,
    /// It is closed once the threads have ended.
    Quiet,
}

/// Runs the history of a seed. What is returned as an error is a broken promise.
pub(crate) fn run(seed: u64, fault: PlantedFault) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let shared = Shared::default();
    let scratch = Scratch::new();
    let mut notes = Vec::new();
    let mut tally = Tally::default();
    let threads = THREADS_MIN + choices.below(THREADS_MAX - THREADS_MIN + 1);
    for number in 0..=choices.below(OPENINGS_MAX) {
        let opening = Opening { is_journaled: choices.one_in(3), fault, number: seed };
        let store = Store::open(&scratch, opening).map_err(|error| format!("does not open: {error:?}"))?;
        if number == 0 {
            store.fill().map_err(|error| format!("cannot be filled: {error:?}"))?;
        }
        let end = if choices.one_in(3) { End::Quiet } else { End::Closed };
        let actors = (0..threads).map(|thread| {
            let number = usize::try_from(thread).expect("few threads");
            Actor::new(number, &shared, &store, Choices::seeded(mix(choices.number())))
        });
        let (of_threads, ended) = work(&shared, &store, actors.collect(), end);
        notes.extend(of_threads);
        ended?;
        tally.quiet += u64::from(end == End::Quiet);
        drop(store);
    }
    for noted in &notes {
        tally.operations += noted.operations;
        tally.snapshots += noted.cuts.len() as u64;
        tally.closings += noted.closings;
    }
    judge(&scratch, fault, merged(notes))?;
    Ok(tally)
}

/// Lets the actors work, and ends it. The notes of all threads are returned even where one found something.
fn work(
    shared: &Shared,
    store: &Store,
    actors: Vec<Actor<'_>>,
    end: End,
) -> (Vec<Notes>, Result<(), String>) {
    /// Counts a thread out, also where it panics.
    struct AtWork<'a>(&'a AtomicUsize);
    impl Drop for AtWork<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Release);
        }
    }

    let at_work = AtomicUsize::new(actors.len());
    let each = OPERATIONS / actors.len() as u64;
    // Each operation uses two ticks, so the store is closed at about half of what is done where the threads end by themselves.
    let closes_at = shared.clock.now() + OPERATIONS;
    thread::scope(|scope| {
        let at_work = &at_work;
        let operations = if end == End::Closed { u64::MAX } else { each };
        let mut threads = Vec::new();
        for actor in actors {
            let out = AtWork(at_work);
            threads.push(scope.spawn(move || {
                let _out = out;
                actor.work(operations)
            }));
        }
        let mut closed = Ok(());
        if end == End::Closed {
            while shared.clock.now() < closes_at && at_work.load(Ordering::Acquire) > 0 {
                thread::yield_now();
            }
            closed = match store.client.clone().close() {
                // Threads keep cursors. They go on, and the folder is free when they have ended.
                Err(error) if matches!(error.kind(), ErrorKind::CursorsOpen { .. }) => Ok(()),
                closed => closed.map_err(|error| format!("does not close: {error:?}")),
            };
        }
        let mut notes = Vec::new();
        for thread in threads {
            let worked = thread.join().map_err(|_| "a thread panicked".to_owned());
            let found = match worked {
                Ok((of_thread, found)) => {
                    notes.push(of_thread);
                    found
                }
                Err(panicked) => Err(Stop::Found(panicked)),
            };
            closed = closed.and(match found {
                Ok(()) => Ok(()),
                Err(Stop::Closed) => Err("a store that was not closed says so".to_owned()),
                Err(Stop::Found(found)) => Err(found),
            });
        }
        (notes, closed)
    })
}

fn merged(all: Vec<Notes>) -> Notes {
    let mut sum = Notes::default();
    for notes in all {
        sum.lists.extend(notes.lists);
        sum.cuts.extend(notes.cuts);
        sum.counters.extend(notes.counters);
        sum.keys.extend(notes.keys);
        sum.ids.extend(notes.ids);
        sum.sessions.extend(notes.sessions);
        sum.sister.extend(notes.sister);
        sum.ordered.extend(notes.ordered);
        sum.gapless.extend(notes.gapless);
        sum.tickets.extend(notes.tickets);
        sum.own.extend(notes.own);
        sum.polls_ordered.extend(notes.polls_ordered);
        sum.polls_gapless.extend(notes.polls_gapless);
    }
    sum
}

/// Opens the folder a last time, and checks what is there and what was noted.
fn judge(scratch: &Scratch, fault: PlantedFault, mut notes: Notes) -> Result<(), String> {
    let opening = Opening { is_journaled: false, fault, number: 0 };
    let failed = |error: cairndb::Error| format!("at the end: {error:?}");
    let store = Store::open(scratch, opening).map_err(failed)?;
    let report = store.client.verify().map_err(failed)?;
    if !report.is_clean() {
        return Err(format!("verify found {:?}", report.findings));
    }
    let end: BTreeMap<i32, Vec<i64>> =
        all(&store.lists).map_err(failed)?.iter().map(list_of).collect::<Result<_, _>>()?;
    let (calls, cuts) = (mem::take(&mut notes.lists), mem::take(&mut notes.cuts));
    check_lists(&Lists { calls, cuts, end })?;
    for document in all(&store.counters).map_err(failed)? {
        let (key, sum) = (document.get_i32("_id"), document.get_i64("n"));
        let (Ok(key @ 0..COUNTERS), Ok(sum)) = (key, sum) else {
            return Err(format!("{document} is no counter"));
        };
        check_counter(&format!("counter {key}"), &of(&notes.counters, key), sum.unsigned_abs())?;
    }
    for key in 0..KEYS {
        check_register(&format!("unique key {key}"), None, &of(&notes.keys, key))?;
        check_register(&format!("_id {key}"), None, &of(&notes.ids, key))?;
    }
    for key in 0..SESSIONS {
        check_register(&format!("session {key}"), None, &of(&notes.sessions, key))?;
    }
    check_order("the renamed collection", &notes.sister)?;
    check_numbers(&store, &notes).map_err(failed)??;
    check_sequence("tickets", &notes.tickets)?;
    let mut own = BTreeSet::new();
    for values in &notes.own {
        check_sequence("an acquirer", values)?;
        if let Some(again) = values.iter().find(|call| !own.insert(call.event)) {
            return Err(format!("two acquirers got {}", again.event));
        }
    }
    store.client.close().map_err(failed)
}

/// Documents with numbers: those that calls returned, those that are stored and those that readers saw.
fn check_numbers(store: &Store, notes: &Notes) -> cairndb::Result<Result<(), String>> {
    let number = |document: &Document| document.get_i64("n").ok();
    let stored = |found: Vec<Document>| found.iter().filter_map(number).collect::<BTreeSet<i64>>();
    let (ordered, gapless) = (stored(all(&store.ordered)?), stored(all(&store.gapless)?));
    let returned = |calls: &[Record<i64>]| calls.iter().map(|call| call.event).collect::<BTreeSet<i64>>();
    let checked = || {
        for (what, calls, end) in
            [("ordered", &notes.ordered, &ordered), ("gapless", &notes.gapless, &gapless)]
        {
            check_sequence(what, calls)?;
            if returned(calls) != *end {
                return Err(format!("{what}: {:?} were returned, and {end:?} are stored", returned(calls)));
            }
        }
        if gapless.iter().copied().ne((1..).take(gapless.len())) {
            return Err(format!("a gapless field has gaps: {gapless:?}"));
        }
        check_polls("ordered", &notes.polls_ordered, &ordered)?;
        check_polls("gapless", &notes.polls_gapless, &gapless)
    };
    Ok(checked())
}

/// The calls on one key.
fn of<E: Clone>(calls: &[(i32, Record<E>)], key: i32) -> Vec<Record<E>> {
    calls.iter().filter(|(on, _)| *on == key).map(|(_, call)| call.clone()).collect()
}
