//! Random histories, run through the allocator and through the reference: values, errors, snapshots and
//! ledgers are the same, and the invariants hold.
//!
//! Beside each history a naive ledger notes what was handed out, and every verdict on a value must be true by it.
//!
//! A history stays within a window of some hundred terms, which may lie at either end of the 64-bit integers,
//! so that limits, wraps and exhaustion occur often and the reference can go term by term.

use std::collections::HashSet;

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::error::SequenceError;
use cairndb_sequence::store::{Cause, Gap};
use cairndb_sequence::trace::{Reach, Verdict};
use proptest::prelude::*;

use crate::sequences::memory::{Failure, Rig};
use crate::sequences::reference::{Declared, Handed, ORDERED, Reference, Refused};

/// The window of a history: values are `base + step * unit + odd`.
#[derive(Clone, Copy, Debug)]
struct Window {
    base: i128,
    unit: i128,
}

/// The number of steps that a window has.
const STEPS: i128 = 120;

/// A value of a history: a step and a remainder, or one of the ends of all integers.
#[derive(Clone, Copy, Debug)]
enum Value {
    Step(i128, i128),
    Least,
    Greatest,
    /// The term at this distance from the last one that was handed to an acquirer.
    Near(i128),
}

#[derive(Clone, Debug)]
enum Operation {
    Take(usize),
    Fetch(usize, usize),
    Announce(usize, Value),
    GiveUp(usize),
    SetCurrentValue(usize, Value),
    Restart(Value),
    Truncate,
    Rename,
    Alter(Box<Change>),
    CloseAcquirer(usize),
    Number(Vec<Option<Value>>, bool),
    Crash,
    Reopen,
}

/// The options that make or change a sequence, in terms of a window.
#[derive(Clone, Debug, Default)]
struct Change {
    increment: Option<i128>,
    start: Option<Value>,
    min: Option<Value>,
    max: Option<Value>,
    current: Option<Value>,
    cache: Option<i64>,
    acquire: Option<i64>,
    cycled: Option<bool>,
    contract: Option<Contract>,
}

/// The allocator and the reference, side by side.
struct Pair {
    window: Window,
    rig: Rig,
    reference: Reference,
    seen: HashSet<Handed>,
}

fn narrow(value: i128) -> i64 {
    i64::try_from(value.clamp(i64::MIN.into(), i64::MAX.into())).expect("clamped")
}

impl Window {
    fn value(self, value: Value, reference: Option<&Reference>) -> i64 {
        let own = match value {
            Value::Step(step, odd) => self.base + step * self.unit + odd.min(self.unit - 1),
            Value::Least => i64::MIN.into(),
            Value::Greatest => i64::MAX.into(),
            Value::Near(terms) => {
                reference.map_or(self.base, |reference| reference.used + terms * reference.declared.increment)
            }
        };
        narrow(own)
    }

    fn options(self, change: &Change, reference: Option<&Reference>) -> Options {
        let value = |value: Option<Value>| value.map(|value| self.value(value, reference));
        let increment = change.increment.map(|steps| steps * self.unit);
        Options {
            increment: increment.map(|increment| narrow(increment.clamp(-2_147_483_647, 2_147_483_647))),
            start_value: value(change.start),
            min_value: value(change.min),
            max_value: value(change.max),
            current_value: value(change.current),
            cache_size: change.cache,
            acquire_size: change.acquire,
            cycled: change.cycled,
            contract: change.contract,
            used_up_to: None,
        }
    }
}

impl Pair {
    fn new(window: Window, change: &Change) -> Option<Self> {
        let options = window.options(change, None);
        let reference = Reference::new(Declared::create(&options).ok()?);
        Some(Self { window, rig: Rig::new(&options), reference, seen: HashSet::new() })
    }

    fn value(&self, value: Value) -> i64 {
        self.window.value(value, Some(&self.reference))
    }

    /// Runs an operation on both. Writes fail after the given number.
    fn run(&mut self, operation: &Operation, failing_after: Option<u64>) {
        self.rig.memory.stored().failing_after = failing_after;
        self.reference.failing_after = failing_after;
        match operation {
            Operation::Take(acquirer) => self.take(*acquirer, 1),
            Operation::Fetch(acquirer, count) => self.take(*acquirer, *count),
            Operation::Announce(acquirer, value) => self.announce(*acquirer, self.value(*value)),
            Operation::Number(steps, published) => self.number(steps, *published),
            Operation::Crash => self.crash(),
            Operation::Reopen => self.reopen(),
            Operation::GiveUp(acquirer) => {
                match self.rig.sequence.contract() {
                    Contract::Ordered => self.rig.sequence.turn().give_up(),
                    Contract::Fast | Contract::Gapless => {
                        self.rig.sequence.give_up(&self.rig.slot(*acquirer));
                    }
                }
                self.reference.give_up(*acquirer);
            }
            Operation::CloseAcquirer(acquirer) => {
                self.rig.close_acquirer(*acquirer);
                self.reference.close_acquirer(*acquirer);
            }
            Operation::SetCurrentValue(acquirer, value) => {
                let value = self.value(*value);
                let real = self.rig.set_current_value(*acquirer, value);
                same(real, &self.reference.set_current_value(*acquirer, value.into()));
            }
            Operation::Restart(value) => {
                let value = self.value(*value);
                same(self.rig.restart(value), &self.reference.restart(value.into()));
            }
            Operation::Alter(change) => {
                let options = self.window.options(change, Some(&self.reference));
                same(self.rig.alter(&options), &self.reference.alter(&options));
            }
            Operation::Truncate => same(self.rig.truncate(), &self.reference.truncate()),
            Operation::Rename => same(self.rig.rename(), &self.reference.rename()),
        }
        self.rig.memory.stored().failing_after = None;
        self.reference.failing_after = None;
        self.compare();
    }

    fn take(&mut self, acquirer: usize, count: usize) {
        let real = self.rig.fetch(acquirer, count as u64).map_err(|failure| refused(&failure));
        let expected = self.reference.take(acquirer, count);
        let increment = self.reference.declared.increment;
        let real = real.map(|(first, count)| {
            (0..i128::from(count)).map(|step| i128::from(first) + step * increment).collect()
        });
        self.hand_out(&real, expected);
    }

    /// Checks that the values handed out are the expected ones, within the limits, new, and covered by the
    /// durable mark.
    fn hand_out(&mut self, real: &Result<Vec<i128>, Refused>, expected: Result<Vec<Handed>, Refused>) {
        let values = expected.clone().map(|handed| handed.into_iter().map(|(_, value)| value).collect());
        assert_eq!(*real, values);
        let mark = self.rig.memory.mark();
        for (era, value) in expected.unwrap_or_default() {
            assert!(self.reference.declared.holds(value), "{value} is outside of the limits");
            assert!(self.seen.insert((era, value)), "{value} was handed out twice");
            assert!(self.reference.covers((era, value)), "{value} would come again after a crash");
        }
        assert_eq!(
            (i128::from(mark.current_value), mark.initial),
            (self.reference.durable().high_water, self.reference.durable().initial),
            "what is durable"
        );
    }

    fn announce(&mut self, acquirer: usize, value: i64) {
        let era = self.reference.era;
        let real = self.rig.announce(acquirer, value);
        let expected = self.reference.announce(acquirer, value.into());
        same(real, &expected);
        let takes_note = self.reference.era == era && self.reference.takes_note(acquirer, value.into());
        if expected.is_ok() && takes_note {
            // From now on the value counts as handed out.
            self.seen.insert((era, value.into()));
        }
    }

    fn number(&mut self, steps: &[Option<Value>], published: bool) {
        let steps: Vec<Option<i64>> = steps.iter().map(|step| step.map(|value| self.value(value))).collect();
        let real = self.number_really(&steps, published).map_err(|failure| refused(&failure));
        let steps: Vec<Option<i128>> = steps.into_iter().map(|step| step.map(i128::from)).collect();
        let expected = self.reference.number(&steps, published);
        self.hand_out(&real, expected);
    }

    fn number_really(&self, steps: &[Option<i64>], published: bool) -> Result<Vec<i128>, Failure> {
        let turn = self.rig.sequence.turn();
        let mut numbering = turn.number()?;
        let mut values = Vec::new();
        for step in steps {
            match step {
                Some(value) => numbering.announce(*value),
                None => values.push(numbering.take()?.into()),
            }
        }
        if !published {
            return Ok(Vec::new());
        }
        let receipt = self.rig.memory.write(&numbering.mark(), numbering.gaps())?;
        turn.publish(numbering, receipt);
        Ok(values)
    }

    fn crash(&mut self) {
        let lost = self.reference.lost_by_a_crash();
        self.rig.crash();
        self.reference.crash();
        self.adopt_crash(&lost);
    }

    fn reopen(&mut self) {
        let lost = self.reference.lost_by_a_crash();
        same(self.rig.reopen(), &self.reference.reopen());
        self.adopt_crash(if self.rig.memory.mark().clean { &[] } else { &lost });
    }

    /// Checks that a crash lists at least the values it lost. The reference cannot know which others are
    /// listed, so it takes over the list.
    fn adopt_crash(&mut self, lost: &[i128]) {
        let gaps = self.rig.sequence.pending_gaps();
        assert!(gaps.iter().all(|gap| gap.cause == Cause::Crash));
        let listed: HashSet<i128> = flatten(&gaps).into_iter().map(|(value, _)| value).collect();
        let missing: Vec<&i128> = lost.iter().filter(|value| !listed.contains(value)).collect();
        assert!(missing.is_empty(), "lost by a crash, and not listed: {missing:?}");
        assert!(!self.rig.memory.mark().clean || listed.is_empty(), "a clean close loses nothing");
        self.reference.adopt(listed.into_iter());
    }

    fn compare(&self) {
        let (real, expected) = (self.rig.snapshot(), &self.reference);
        let declared = &expected.declared;
        let attributes = &real.attributes;
        assert_eq!(
            [
                attributes.increment(),
                attributes.start_value(),
                attributes.min_value(),
                attributes.max_value()
            ]
            .map(i128::from),
            [declared.increment, declared.start, declared.min, declared.max]
        );
        assert_eq!((attributes.is_cycled(), attributes.contract()), (declared.cycled, declared.contract));
        assert_eq!(i128::from(real.version), expected.version, "Version");
        assert_eq!(i128::from(real.current_value), expected.high_water, "CurrentValue");
        assert_eq!(real.initial, expected.initial, "Initial");
        assert_eq!(i128::from(real.cycled_count), expected.cycled_count, "CycledCount");
        assert_eq!(i128::from(real.remaining), expected.remaining(), "Remaining");
        for acquirer in 0..ORDERED {
            let current = self.rig.current_value(acquirer).map(i128::from);
            let current = current.map_err(|error| refused(&Failure::Sequence(error)));
            assert_eq!(current, expected.current_value(acquirer), "current value");
        }
        let lost = expected.listed.iter().chain(&expected.pending);
        let mut lost: Vec<(i128, u8)> = lost.map(|lost| (lost.value, lost.cause.number())).collect();
        let mut gaps = flatten(&self.rig.gaps());
        lost.sort_unstable();
        gaps.sort_unstable();
        assert_eq!(gaps, lost, "the ledger");
        assert_eq!(real.lost, lost.len() as u64, "Lost");
    }
}

/// The knowledge of a naive ledger since the sequence was last restarted or changed: a list of what was handed out.
#[derive(Default)]
struct Noted {
    handed: HashSet<i64>,
    /// Values that documents brought, or that were set.
    brought: HashSet<i64>,
    /// The values that were handed out before.
    before_change: HashSet<Handed>,
    /// Whether it was restarted or changed at all.
    is_changed: bool,
    /// Whether the process died since: the sequence then goes on from the end of its reserve.
    has_crashed: bool,
}

/// The state before an operation.
struct Before {
    seen: usize,
    version: i128,
    era: u64,
    /// The values that the operation brings.
    brought: Vec<i64>,
}

impl Before {
    fn of(pair: &Pair, operation: &Operation) -> Self {
        let mut brought = Vec::new();
        if let Operation::Announce(_, value) | Operation::SetCurrentValue(_, value) = operation {
            brought.push(pair.value(*value));
        } else if let Operation::Number(steps, _) = operation {
            brought.extend(steps.iter().flatten().map(|value| pair.value(*value)));
        }
        Self { seen: pair.seen.len(), version: pair.reference.version, era: pair.reference.era, brought }
    }
}

impl Noted {
    /// Notes what an operation did.
    fn note(&mut self, pair: &Pair, before: Before, operation: &Operation) {
        let Before { seen, version, era, brought } = before;
        // A restart that was rejected has changed nothing.
        let is_restart = matches!(operation, Operation::Restart(_)) && pair.reference.era != era;
        if is_restart || pair.reference.version != version {
            *self = Self { is_changed: true, before_change: pair.seen.clone(), ..Self::default() };
        }
        self.has_crashed |= matches!(operation, Operation::Crash);
        self.brought.extend(brought);
        if seen < pair.seen.len() {
            let of_era =
                pair.seen.difference(&self.before_change).filter(|(era, _)| *era == pair.reference.era);
            let values = of_era.map(|(_, value)| narrow(*value));
            self.handed.extend(values.filter(|value| !self.brought.contains(value)));
        }
    }

    /// Checks the verdict on a value.
    fn check(&self, pair: &Pair, value: i64) {
        let declared = &pair.reference.declared;
        // The effect of a change of the current value and of a restart on the steps is remembered as long as the
        // sequence goes on from there: not once it has started over or ended, and a restart before the start value
        // not at all. A value after which none is left ends the sequence, which then is at the limit, whether that is
        // a term or not.
        let after = |brought: i64| i128::from(brought) + declared.increment;
        let is_ended = self.brought.iter().any(|brought| declared.beyond(after(*brought), declared.limit()))
            || self.has_crashed && pair.rig.snapshot().remaining == 0;
        if self.is_changed && (is_ended || declared.cycled || declared.beyond(declared.start, value.into())) {
            return;
        }
        let trace = pair.rig.sequence.trace(value);
        let is_listed = pair.rig.gaps().iter().any(|gap| gap.run.contains(value));
        let verdict = trace.verdict(is_listed, 0);
        assert!(trace.is_settled, "no insert is under way");
        assert_eq!(trace.lost, pair.rig.snapshot().lost);
        if self.handed.contains(&value) && !declared.cycled {
            let expected = if is_listed { Verdict::Lost } else { Verdict::Used };
            assert_eq!(verdict, expected, "{value} was handed out");
        }
        let is_exact = !self.is_changed && !self.brought.contains(&value) && !declared.cycled && !is_ended;
        if verdict == Verdict::Used && is_exact {
            assert!(self.handed.contains(&value), "{value} was never handed out");
        }
        if verdict == Verdict::Never {
            assert!(!self.handed.contains(&value) && !is_listed, "{value} was handed out, or lost");
        }
        if let Reach::Passed { round } = trace.reach {
            assert!((0..=pair.reference.cycled_count).contains(&round.into()), "{round}");
        }
    }
}

/// Checks at the end of a history that what is told to come is what comes.
fn check_future(pair: &mut Pair, candidates: &[i64]) {
    let rounds = pair.rig.snapshot().cycled_count;
    let is_to_come = |value: &&i64| pair.rig.sequence.trace(**value).reach == Reach::NotYet;
    let told: HashSet<i64> = candidates.iter().filter(is_to_come).copied().collect();
    let was_passed = |value: i64| matches!(pair.rig.sequence.trace(value).reach, Reach::Passed { .. });
    let passed: HashSet<i64> = candidates.iter().copied().filter(|value| was_passed(*value)).collect();
    let mut came = HashSet::new();
    // Every acquirer, because each may hold values. A range of all integers has no end to wait for.
    for acquirer in 0..3 {
        for _ in 0..2 * STEPS {
            let Ok(value) = pair.rig.take(acquirer) else { break };
            if pair.rig.snapshot().cycled_count != rounds {
                break;
            }
            came.insert(value);
        }
    }
    for value in candidates.iter().filter(|value| came.contains(value)) {
        // In a round after the first one it was passed in the one before.
        assert!(
            told.contains(value) || rounds > 0 && passed.contains(value),
            "{value} came, and was not told"
        );
    }
    if !pair.reference.declared.cycled && pair.rig.snapshot().remaining == 0 {
        let missing: Vec<&i64> = told.difference(&came).collect();
        assert!(missing.is_empty(), "told, and did not come: {missing:?}");
    }
}

/// Every lost value with the number of its cause.
fn flatten(gaps: &[Gap]) -> Vec<(i128, u8)> {
    gaps.iter()
        .flat_map(|gap| gap.run.values().map(|value| (i128::from(value), gap.cause.number())))
        .collect()
}

#[track_caller]
fn same(real: Result<(), Failure>, expected: &Result<(), Refused>) {
    assert_eq!(real.map_err(|failure| refused(&failure)), *expected);
}

fn refused(failure: &Failure) -> Refused {
    match failure {
        Failure::Disk => Refused::Disk,
        Failure::Sequence(SequenceError::Exceeded { .. }) => Refused::Exceeded,
        Failure::Sequence(SequenceError::ValueUsed { .. }) => Refused::ValueUsed,
        Failure::Sequence(SequenceError::NeverUsed) => Refused::NeverUsed,
        Failure::Sequence(SequenceError::Retired) => Refused::Retired,
        Failure::Sequence(SequenceError::OptionRange { option, .. }) => Refused::Range(option),
        Failure::Sequence(other) => panic!("{other}"),
    }
}

fn windows() -> impl Strategy<Value = Window> {
    let units = prop_oneof![4 => Just(1), 2 => Just(3), 1 => Just(1000), 1 => Just(2_147_483_647_i128)];
    (units, 0..3_u8).prop_map(|(unit, end)| {
        let width = STEPS * unit;
        let base = match end {
            0 => i128::from(i64::MIN),
            1 => i128::from(i64::MAX) - width + 1,
            _ => -width / 2,
        };
        Window { base, unit }
    })
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => (-2_i128..30).prop_map(Value::Near),
        5 => (0..STEPS, 0..3_i128).prop_map(|(step, odd)| Value::Step(step, odd)),
        1 => Just(Value::Least),
        1 => Just(Value::Greatest),
    ]
}

fn contracts() -> impl Strategy<Value = Contract> {
    prop_oneof![4 => Just(Contract::Fast), 1 => Just(Contract::Ordered), 1 => Just(Contract::Gapless)]
}

fn increments() -> impl Strategy<Value = i128> {
    prop_oneof![6 => Just(1), 3 => Just(-1), 1 => Just(2), 1 => Just(-3), 1 => Just(7)]
}

/// New sequences: consistent, most of them narrow enough to be exhausted.
fn declarations() -> impl Strategy<Value = Change> {
    let sizes = (1..12_i64, 1..25_i64, increments());
    let steps = (0..STEPS - 1, 1..STEPS, 0..STEPS);
    (sizes, steps, any::<bool>(), contracts()).prop_map(
        |((acquire, more, increment), steps, cycled, contract)| {
            let (min, span, start) = steps;
            let max = (min + span).min(STEPS - 1);
            let fits = narrow((max - min) / increment.abs() + 1);
            let cache = (acquire + more - 1).min(fits);
            Change {
                increment: Some(increment),
                start: Some(Value::Step(min + start % (max - min + 1), 0)),
                min: Some(Value::Step(min, 0)),
                max: Some(Value::Step(max, 0)),
                current: None,
                cache: Some(cache),
                acquire: Some(acquire.min(cache)),
                cycled: Some(cycled),
                contract: Some(contract),
            }
        },
    )
}

/// Changes, some of which break a rule.
fn changes() -> impl Strategy<Value = Change> {
    let rarely = |strategy| prop::option::weighted(0.2, strategy);
    let steps = || (0..STEPS, 0..3_i128).prop_map(|(step, odd)| Value::Step(step, odd));
    let limits =
        (rarely(steps().boxed()), rarely(steps().boxed()), rarely(steps().boxed()), rarely(values().boxed()));
    let sizes = (prop::option::weighted(0.2, 0..25_i64), prop::option::weighted(0.2, 0..15_i64));
    let kinds = (prop::option::weighted(0.2, any::<bool>()), prop::option::weighted(0.15, contracts()));
    let increments = prop::option::weighted(0.25, prop_oneof![9 => increments(), 1 => Just(0)]);
    (limits, sizes, kinds, increments).prop_map(|((start, min, max, current), sizes, kinds, increment)| {
        // A value that was set far away would make the reference count for ever.
        let current = current.filter(|value| matches!(value, Value::Step(..) | Value::Near(_)));
        let ((cache, acquire), (cycled, contract)) = (sizes, kinds);
        Change { increment, start, min, max, current, cache, acquire, cycled, contract }
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    let acquirers = || prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(2_usize)];
    let steps = prop::collection::vec(prop::option::weighted(0.3, values()), 0..5);
    prop_oneof![
        20 => acquirers().prop_map(Operation::Take),
        12 => (acquirers(), 1..9_usize).prop_map(|(acquirer, count)| Operation::Fetch(acquirer, count)),
        12 => (acquirers(), values()).prop_map(|(acquirer, value)| Operation::Announce(acquirer, value)),
        3 => acquirers().prop_map(Operation::GiveUp),
        6 => (acquirers(), values()).prop_map(|(acquirer, value)| Operation::SetCurrentValue(acquirer, value)),
        2 => values().prop_map(Operation::Restart),
        1 => Just(Operation::Truncate),
        1 => Just(Operation::Rename),
        6 => changes().prop_map(|change| Operation::Alter(Box::new(change))),
        3 => (1..3_usize).prop_map(Operation::CloseAcquirer),
        6 => (steps, any::<bool>()).prop_map(|(steps, published)| Operation::Number(steps, published)),
        2 => Just(Operation::Crash),
        2 => Just(Operation::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_that_of_the_reference(
        window in windows(),
        declaration in declarations(),
        history in prop::collection::vec((operations(), prop::option::weighted(0.1, 0..2_u64)), 1..60),
    ) {
        if let Some(mut pair) = Pair::new(window, &declaration) {
            pair.compare();
            for (operation, failing_after) in &history {
                pair.run(operation, *failing_after);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_verdict_is_true_by_a_naive_ledger(
        window in windows(),
        declaration in declarations(),
        history in prop::collection::vec((operations(), prop::option::weighted(0.1, 0..2_u64)), 1..40),
        asked in prop::collection::vec(values(), 12),
    ) {
        if let Some(mut pair) = Pair::new(window, &declaration) {
            let mut noted = Noted::default();
            for (operation, failing_after) in &history {
                let before = Before::of(&pair, operation);
                pair.run(operation, *failing_after);
                noted.note(&pair, before, operation);
                for value in asked.iter().map(|value| pair.value(*value)).chain(noted.handed.iter().copied().take(8)) {
                    noted.check(&pair, value);
                }
            }
            let candidates: Vec<i64> = asked.iter().map(|value| pair.value(*value)).chain(noted.handed).collect();
            check_future(&mut pair, &candidates);
        }
    }
}
