//! The world of a scenario: a sequence, a store whose syncs need time, and what the users saw. Also how
//! schedules are run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cairndb_sequence::acquirer::Acquirer;
use cairndb_sequence::allocator::Sequence;
use cairndb_sequence::attributes::{Attributes, Contract, Options};
use cairndb_sequence::error::SequenceError;
use cairndb_sequence::slot::Slot;
use cairndb_sequence::state::{Mark, State};
use cairndb_sequence::store::{Change, Gap, Provider, Record, Store};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::{spawn, yield_now};
use shuttle::{Config, Runner};

use crate::schedules::Schedules;

/// The number of schedules of each kind that a scenario gets, unless the variable says otherwise.
const SCHEDULES: usize = 6_000;
/// The number of threads that PCT lets overtake.
const PCT_DEPTH: usize = 3;
/// The seed of the schedules for an injected defect.
const PLANTED_SEED: u64 = 4711;

/// The errors in one schedule. Empty if all properties held.
pub(crate) type Findings = Vec<String>;

/// A lock that no schedule sees: it is never held across a switch.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    config
}

/// No schedule finds anything. The seed, which the harness prints where a test fails, tries the same ones again; a panic makes the
/// checker print the one schedule.
#[track_caller]
pub(crate) fn holds(scenario: fn() -> Findings) {
    fn run(scheduler: impl Scheduler + 'static, scenario: fn() -> Findings) {
        Runner::new(scheduler, config()).run(move || {
            let findings = scenario();
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
    let Schedules { count, seed } = Schedules::given_or(SCHEDULES);
    run(RandomScheduler::new_from_seed(seed, count), scenario);
    run(PctScheduler::new_from_seed(seed, PCT_DEPTH, count), scenario);
}

/// Some schedule finds the planted defect; the same ones are tried every time.
#[track_caller]
pub(crate) fn finds(scenario: fn() -> Findings) {
    fn run(scheduler: impl Scheduler + 'static, scenario: fn() -> Findings, found: &Arc<AtomicBool>) {
        let found = Arc::clone(found);
        Runner::new(scheduler, config()).run(move || {
            if !scenario().is_empty() {
                found.store(true, Ordering::Relaxed);
            }
        });
    }
    let found = Arc::new(AtomicBool::new(false));
    run(RandomScheduler::new_from_seed(PLANTED_SEED, SCHEDULES), scenario, &found);
    run(PctScheduler::new_from_seed(PLANTED_SEED, PCT_DEPTH, SCHEDULES), scenario, &found);
    assert!(found.load(Ordering::Relaxed), "no schedule finds the planted defect");
}

/// The way in which a store handles a write.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Diligence {
    Writes,
    /// Planted: it reports a write as done, and does it with the next call.
    WritesLate,
    /// Planted: it reports a write as being on stable storage while it is not.
    SyncsNothing,
}

/// A store whose syncs need time. A power failure loses what is written and not synced.
pub(crate) struct Disk {
    pub(crate) record: Mutex<Record>,
    /// The number of the last write, and the mark of the last one that is synced with its number.
    pub(crate) written: AtomicU64,
    pub(crate) synced: Mutex<(u64, Mark)>,
    /// Whether the next reserve was asked for.
    pub(crate) asked: Arc<Asked>,
    pub(crate) late: Mutex<Option<Mark>>,
    pub(crate) ledger: Mutex<Vec<Gap>>,
    pub(crate) diligence: Diligence,
    pub(crate) fails: AtomicBool,
    pub(crate) fails_to_sync: AtomicBool,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Sequence(SequenceError),
    Disk,
}

impl From<SequenceError> for Failure {
    fn from(error: SequenceError) -> Self {
        Self::Sequence(error)
    }
}

impl Store for Disk {
    type Error = Failure;

    fn reserve(&self, change: &Change<'_>) -> Result<u64, Failure> {
        yield_now();
        if self.fails.load(Ordering::Relaxed) {
            return Err(Failure::Disk);
        }
        lock(&self.ledger).extend_from_slice(change.gaps);
        let mark = match self.diligence {
            Diligence::Writes | Diligence::SyncsNothing => Some(*change.mark),
            Diligence::WritesLate => lock(&self.late).replace(*change.mark),
        };
        let mut receipt = self.written.load(Ordering::Relaxed);
        if let Some(mark) = mark {
            lock(&self.record).mark = mark;
            receipt = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        }
        yield_now();
        Ok(receipt)
    }

    fn is_durable(&self, receipt: u64) -> bool {
        self.diligence == Diligence::SyncsNothing || lock(&self.synced).0 >= receipt
    }

    fn make_durable(&self, _: u64) -> Result<(), Failure> {
        // Writes while a sync runs are not covered by it.
        let covered = (self.written.load(Ordering::Relaxed), lock(&self.record).mark);
        yield_now();
        if self.fails_to_sync.load(Ordering::Relaxed) {
            return Err(Failure::Disk);
        }
        let mut synced = lock(&self.synced);
        if synced.0 < covered.0 {
            *synced = covered;
        }
        Ok(())
    }

    fn provider(&self) -> Option<Arc<dyn Provider>> {
        Some(self.asked.clone())
    }
}

/// Remembers that the next reserve was requested.
#[derive(Default)]
pub(crate) struct Asked(pub(crate) AtomicBool);

impl Provider for Asked {
    fn provide(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A sequence, its store, and what its users saw.
pub(crate) struct World {
    pub(crate) sequence: Arc<Sequence>,
    pub(crate) disk: Disk,
    pub(crate) taken: Mutex<Vec<i64>>,
    pub(crate) visible: Mutex<BTreeSet<i64>>,
    pub(crate) findings: Mutex<Findings>,
}

impl World {
    pub(crate) fn new(contract: Contract, diligence: Diligence) -> Arc<Self> {
        let options = Options {
            cache_size: Some(4),
            acquire_size: Some(2),
            contract: Some(contract),
            ..Options::default()
        };
        let attributes = Attributes::create(&options).expect("allowed");
        let mark = State::new(attributes.clone()).mark();
        let record = Record { attributes: attributes.clone(), version: 0, mark };
        Arc::new(Self {
            sequence: Arc::new(Sequence::new(attributes)),
            disk: Disk {
                record: Mutex::new(record),
                written: AtomicU64::new(0),
                synced: Mutex::new((0, mark)),
                asked: Arc::default(),
                late: Mutex::default(),
                ledger: Mutex::default(),
                diligence,
                fails: AtomicBool::new(false),
                fails_to_sync: AtomicBool::new(false),
            },
            taken: Mutex::default(),
            visible: Mutex::default(),
            findings: Mutex::default(),
        })
    }

    pub(crate) fn fast() -> Arc<Self> {
        Self::new(Contract::Fast, Diligence::Writes)
    }

    pub(crate) fn find(&self, holds: bool, finding: impl FnOnce() -> String) {
        if !holds {
            lock(&self.findings).push(finding());
        }
    }

    /// Takes up to `count` values. The mark that a power failure leaves must cover them.
    pub(crate) fn take(&self, slot: &Slot, count: u64) -> Result<Vec<i64>, Failure> {
        let taken = self.sequence.take(slot, count, &self.disk)?;
        let values: Vec<i64> = taken.run.values().collect();
        self.note(&values);
        Ok(values)
    }

    pub(crate) fn take_one(&self, slot: &Slot) -> Result<i64, Failure> {
        let value = self.sequence.take_one(slot, &self.disk)?;
        self.note(&[value]);
        Ok(value)
    }

    pub(crate) fn note(&self, values: &[i64]) {
        let mark = lock(&self.disk.synced).1;
        for value in values {
            let covered = !mark.initial && *value <= mark.current_value;
            self.find(covered, || format!("{value} left before its reserve was synced"));
            lock(&self.taken).push(*value);
        }
    }

    /// Takes one value, then many, then one.
    pub(crate) fn take_some(&self, slot: &Slot) {
        let _ = self.take_one(slot);
        let _ = self.take(slot, 3);
        let _ = self.take_one(slot);
    }

    /// A writer: it registers, takes a value, makes it visible, and unregisters.
    pub(crate) fn insert(&self, slot: &Slot) {
        let pass = self.sequence.enter(slot);
        if let Ok(value) = self.take_one(slot) {
            self.show(value);
        }
        drop(pass);
    }

    /// A writer that registers and takes its value in one step, if a block lasts.
    pub(crate) fn insert_in_one_step(&self, slot: &Slot) {
        let (pass, value) = self.sequence.enter_taking(slot);
        if let Some(value) = value {
            self.note(&[value]);
            self.show(value);
        } else if let Ok(value) = self.take_one(slot) {
            self.show(value);
        }
        drop(pass);
    }

    /// A writer that keeps the turn until its value is visible.
    pub(crate) fn insert_in_turn(&self) {
        let turn = self.sequence.turn();
        let taken = turn.take(self.sequence.shared(), 1, &self.disk);
        yield_now();
        lock(&self.visible).extend(taken.iter().flat_map(|taken| taken.run.values()));
        drop(turn);
    }

    /// A writer that keeps the turn over several steps, and makes all its values visible at the end.
    pub(crate) fn insert_keeping_the_turn(&self) {
        let Some(kept) = Sequence::keep_turn(&self.sequence, Duration::from_secs(1)) else { return };
        let mut values = Vec::new();
        for _ in 0..2 {
            let turn = kept.turn_of(&self.sequence);
            let taken = turn.take(self.sequence.shared(), 1, &self.disk);
            values.extend(taken.iter().flat_map(|taken| taken.run.values()));
            yield_now();
        }
        lock(&self.visible).extend(values);
        yield_now();
        drop(kept);
    }

    pub(crate) fn show(&self, value: i64) {
        yield_now();
        lock(&self.visible).insert(value);
    }

    /// A consumer: what it reads up to the watermark is all that will ever be there.
    pub(crate) fn poll(&self) -> Option<(i64, BTreeSet<i64>)> {
        let watermark = self.sequence.safe_watermark()?;
        yield_now();
        Some((watermark, lock(&self.visible).iter().copied().filter(|value| *value <= watermark).collect()))
    }

    /// At the end: no value was taken twice.
    pub(crate) fn no_value_came_twice(&self) {
        let taken = lock(&self.taken).clone();
        let distinct: BTreeSet<i64> = taken.iter().copied().collect();
        self.find(distinct.len() == taken.len(), || format!("a value came twice: {taken:?}"));
    }

    /// At the end, after a clean close: every value up to the mark was taken, or brought, or is listed as
    /// lost.
    pub(crate) fn nothing_is_missing(&self, brought: &[i64]) {
        let Some((mark, gaps)) = self.sequence.close() else { return };
        lock(&self.disk.ledger).extend(gaps);
        let mut fates = lock(&self.taken).clone();
        fates.extend(lock(&self.disk.ledger).iter().flat_map(|gap| gap.run.values()));
        let sum = fates.len();
        let listed: BTreeSet<i64> = fates.iter().copied().collect();
        self.find(sum == listed.len(), || format!("taken and lost, or lost twice: {fates:?}"));
        let end = if mark.initial { 0 } else { mark.current_value };
        let missing: Vec<i64> =
            (1..=end).filter(|value| !listed.contains(value) && !brought.contains(value)).collect();
        self.find(missing.is_empty(), || format!("neither taken nor lost: {missing:?} of {fates:?}"));
    }

    pub(crate) fn findings(&self) -> Findings {
        lock(&self.findings).clone()
    }
}

/// Runs bodies at the same time, each in a thread of its own.
pub(crate) fn beside(bodies: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = bodies.into_iter().map(spawn).collect();
    for thread in threads {
        thread.join().expect("a thread ends");
    }
}

/// A thread over the world.
pub(crate) fn body(
    world: &Arc<World>,
    run: impl FnOnce(&World) + Send + 'static,
) -> Box<dyn FnOnce() + Send> {
    let world = Arc::clone(world);
    Box::new(move || run(&world))
}

/// A thread that takes from the shared acquirer.
pub(crate) fn taker(world: &Arc<World>) -> Box<dyn FnOnce() + Send> {
    body(world, |world| world.take_some(world.sequence.shared()))
}

/// A thread with an acquirer of its own, which it closes.
pub(crate) fn visitor(world: &Arc<World>) -> Box<dyn FnOnce() + Send> {
    body(world, |world| {
        let acquirer = Acquirer::default();
        let slot = acquirer.slot(1, &world.sequence);
        world.take_some(&slot);
        drop(acquirer);
    })
}
