//! With any stored mark and any limits there is no panic, and no value outside of the limits.

use cairndb_sequence::allocator::Sequence;
use cairndb_sequence::attributes::{Attributes, Contract, Options};
use cairndb_sequence::state::Mark;
use cairndb_sequence::store::Record;
use proptest::prelude::*;

use crate::sequences::memory::Memory;

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u64),
    Announce(i64),
    SetCurrentValue(i64),
    Restart(i64),
    Truncate,
    Alter(Option<i64>, Option<i64>, Option<Contract>),
}

/// Any integer, and more often one near 0 or an end.
fn integers() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => any::<i64>(),
        2 => -3..4_i64,
        1 => (0..4_i64).prop_map(|from| i64::MAX - from),
        1 => (0..4_i64).prop_map(|from| i64::MIN + from),
    ]
}

fn attributes() -> impl Strategy<Value = Options> {
    let increments = prop_oneof![
        (-3..4_i64).prop_filter("a step", |increment| *increment != 0),
        Just(2_147_483_647),
        Just(-2_147_483_647)
    ];
    let sizes = prop_oneof![1..5_i64, Just(1000), Just(2_147_483_647)];
    let limits = (integers(), integers(), integers());
    (increments, limits, sizes, any::<bool>(), contracts()).prop_map(
        |(increment, (one, other, start), size, cycled, contract)| {
            let (min, max) = (one.min(other), one.max(other));
            let values = (i128::from(max) - i128::from(min)) / i128::from(increment).abs() + 1;
            let size = size.min(i64::try_from(values).unwrap_or(i64::MAX));
            Options {
                increment: Some(increment),
                start_value: Some(start.clamp(min, max)),
                min_value: Some(min),
                max_value: Some(max),
                current_value: None,
                cache_size: Some(size),
                acquire_size: Some(size),
                cycled: Some(cycled),
                contract: Some(contract),
                used_up_to: None,
            }
        },
    )
}

fn contracts() -> impl Strategy<Value = Contract> {
    prop_oneof![Just(Contract::Fast), Just(Contract::Ordered), Just(Contract::Gapless)]
}

fn marks() -> impl Strategy<Value = Mark> {
    let flags = (any::<bool>(), any::<bool>());
    let counters = (any::<i32>(), any::<u64>(), any::<u64>(), any::<u64>());
    (integers(), prop::option::of(integers()), flags, counters).prop_map(
        |(current_value, open_from, (initial, clean), (cycled_count, reservations, lost, next_gap))| Mark {
            current_value,
            open_from,
            initial,
            cycled_count,
            reservations,
            lost,
            next_gap,
            clean,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let option = || prop::option::of(integers());
    prop_oneof![
        6 => any::<u64>().prop_map(|count| Step::Take(count.max(1))),
        3 => integers().prop_map(Step::Announce),
        2 => integers().prop_map(Step::SetCurrentValue),
        1 => integers().prop_map(Step::Restart),
        1 => Just(Step::Truncate),
        2 => (option(), option(), prop::option::of(contracts()))
            .prop_map(|(increment, current, contract)| Step::Alter(increment, current, contract)),
    ]
}

/// A call may be rejected; a value that is handed out is within the limits.
fn run(sequence: &Sequence, memory: &Memory, step: Step) {
    let slot = sequence.shared();
    match step {
        Step::Take(count) => {
            if let Ok(taken) = sequence.take(slot, count, memory) {
                let attributes = sequence.snapshot().attributes;
                let limits = attributes.min_value()..=attributes.max_value();
                assert!(limits.contains(&taken.run.first()) && limits.contains(&taken.run.last()));
            }
        }
        Step::Announce(value) => sequence.announce(slot, value, memory).expect("never refused"),
        Step::SetCurrentValue(value) => drop(sequence.set_current_value(slot, value, memory)),
        Step::Restart(value) => drop(sequence.restart(value, memory)),
        Step::Truncate => {
            let truncated =
                sequence.change(cairndb_sequence::store::Cause::Restart, |state| Ok(Some(state.truncated())));
            truncated.expect("a change").expect("a change").publish(0);
        }
        Step::Alter(increment, current_value, contract) => {
            let options = Options { increment, current_value, contract, ..Options::default() };
            drop(sequence.alter(&options, memory));
        }
    }
    let _ = (sequence.safe_watermark(), sequence.snapshot(), sequence.current_value(slot));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stored_mark_is_survived(
        options in attributes(),
        mark in marks(),
        version in any::<i64>(),
        history in prop::collection::vec(steps(), 1..20),
    ) {
        let Ok(attributes) = Attributes::create(&options) else { return Ok(()) };
        let memory = Memory::unchecked(attributes.clone());
        let sequence = Sequence::restore(Record { attributes, version, mark });
        for step in history {
            run(&sequence, &memory, step);
        }
        let _ = sequence.close();
    }
}
