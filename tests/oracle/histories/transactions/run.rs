//! A run: threads with transactions on one store, which is closed and opened again in between, and the judgment of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cairndb::{ErrorKind, PlantedFault};
use cairndb_tests::choices::{Choices, mix};
use cairndb_tests::scratch::Scratch;

use crate::histories::actor::{Shared, list_of};
use crate::histories::store::{Opening, all};
use crate::histories::transactions::actor::{Actor, Notes};
use crate::histories::transactions::cycles::{Level, check_transactions};
use crate::histories::transactions::store::Store;

/// The threads of a run.
const THREADS_MIN: u64 = 2;
const THREADS_MAX: u64 = 8;
/// Transactions and plain calls of a run.
const TRANSACTIONS: u64 = 300;
/// The number of times that the store is opened in a run.
const OPENINGS_MAX: u64 = 3;
/// One run in this number has transactions that outlive their time, and needs more than a second for it.
const SLOW_RUNS: u64 = 300;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) transactions: u64,
    pub(crate) committed: u64,
    pub(crate) conflicts: u64,
    /// Transactions that were ended for their age, or by a closing store.
    pub(crate) ended: u64,
    /// Threads that were at work when their store was closed.
    pub(crate) closings: u64,
    /// Runs with snapshots that no order of the transactions explains.
    pub(crate) skewed: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        self.ended += other.ended;
        self.closings += other.closings;
        self.skewed += other.skewed;
    }
}

/// Runs the history of a seed. What is returned as an error is a broken promise.
pub(crate) fn run(seed: u64, fault: PlantedFault) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let shared = Shared::default();
    let scratch = Scratch::new();
    let level = *choices.pick(&[Level::Snapshot, Level::Serializable]);
    let threads = THREADS_MIN + choices.below(THREADS_MAX - THREADS_MIN + 1);
    let openings = 1 + choices.below(OPENINGS_MAX);
    let is_slow = choices.one_in(SLOW_RUNS);
    let mut notes = Notes::default();
    for number in 0..openings {
        let opening = Opening { is_journaled: choices.one_in(8), fault, number: seed };
        let failed = |error| format!("{level:?}: does not open: {error:?}");
        let store = Store::open(&scratch, opening, is_slow).map_err(failed)?;
        if number == 0 {
            store.fill().map_err(failed)?;
        }
        let actors: cairndb::Result<Vec<Actor<'_>>> = (0..threads)
            .map(|_| {
                let session = store.client.start_session().run()?;
                let choices = Choices::seeded(mix(choices.number()));
                let notes = Notes::default();
                Ok(Actor { shared: &shared, store: &store, choices, level, session, is_slow, notes })
            })
            .collect();
        let is_closed = !choices.one_in(3);
        work(&store, actors.map_err(failed)?, TRANSACTIONS / openings, is_closed, &mut notes)
            .map_err(|found| format!("{level:?}: {found}"))?;
    }
    let is_serial = judge(&scratch, fault, level, &notes).map_err(|found| format!("{level:?}: {found}"))?;
    let committed = notes.transactions.iter().filter(|transaction| transaction.event.is_committed);
    Ok(Tally {
        transactions: notes.transactions.len() as u64,
        committed: committed.count() as u64,
        conflicts: notes.conflicts,
        ended: notes.ended,
        closings: notes.closings,
        skewed: u64::from(!is_serial),
    })
}

/// Lets the actors do so many transactions together. The store is closed meanwhile, or when they have ended.
fn work(
    store: &Store,
    actors: Vec<Actor<'_>>,
    count: u64,
    is_closed: bool,
    notes: &mut Notes,
) -> Result<(), String> {
    /// Counts a thread out, also where it panics.
    struct AtWork<'a>(&'a AtomicUsize);
    impl Drop for AtWork<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Release);
        }
    }

    let at_work = AtomicUsize::new(actors.len());
    let each = if is_closed { u64::MAX } else { count / actors.len() as u64 };
    let Some(shared) = actors.first().map(|actor| actor.shared) else { return Ok(()) };
    // Each transaction uses two ticks.
    let closes_at = shared.clock.now() + 2 * count;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for actor in actors {
            let out = AtWork(&at_work);
            threads.push(scope.spawn(move || {
                let _out = out;
                actor.work(each)
            }));
        }
        let mut worked = Ok(());
        if is_closed {
            while shared.clock.now() < closes_at && at_work.load(Ordering::Acquire) > 0 {
                thread::yield_now();
            }
            worked = match store.client.clone().close() {
                // Threads read at this moment. The folder is free when they have ended.
                Err(error) if matches!(error.kind(), ErrorKind::CursorsOpen { .. }) => Ok(()),
                closed => closed.map_err(|error| format!("does not close: {error:?}")),
            };
        }
        for thread in threads {
            let (of_thread, found) = thread.join().map_err(|_| "a thread panicked".to_owned())?;
            notes.transactions.extend(of_thread.transactions);
            notes.names.extend(of_thread.names);
            notes.numbered += of_thread.numbered;
            notes.conflicts += of_thread.conflicts;
            notes.ended += of_thread.ended;
            notes.closings += of_thread.closings;
            worked = worked.and(found);
        }
        worked
    })
}

/// Opens the folder a last time, and checks what is there and what was answered. Says whether the run was serializable.
fn judge(scratch: &Scratch, fault: PlantedFault, level: Level, notes: &Notes) -> Result<bool, String> {
    let failed = |error: cairndb::Error| format!("at the end: {error:?}");
    let store =
        Store::open(scratch, Opening { is_journaled: false, fault, number: 0 }, false).map_err(failed)?;
    let end: BTreeMap<i32, Vec<i64>> =
        all(&store.lists).map_err(failed)?.iter().map(list_of).collect::<Result<_, _>>()?;
    let is_serial = check_transactions(&notes.transactions, &end, level)?;
    let mut names = BTreeSet::new();
    if let Some(name) = notes.names.iter().find(|name| !names.insert(**name)) {
        return Err(format!("two transactions took the name {name}"));
    }
    let numbered = all(&store.numbered).map_err(failed)?;
    let numbers: BTreeSet<i64> = numbered.iter().filter_map(|document| document.get_i64("n").ok()).collect();
    if numbers.len() != notes.numbered || numbers.iter().copied().ne((1..).take(notes.numbered)) {
        return Err(format!("{} documents were numbered, with {numbers:?}", notes.numbered));
    }
    let report = store.client.verify().map_err(failed)?;
    if !report.is_clean() {
        return Err(format!("verify found {:?}", report.findings));
    }
    store.client.close().map_err(failed)?;
    Ok(is_serial)
}
