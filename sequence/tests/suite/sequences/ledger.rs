//! The ledger: every value that was not handed out is listed with its cause, and nothing else is.

use std::collections::BTreeMap;

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::store::{Cause, Gap};
use proptest::prelude::*;

use crate::sequences::memory::{Rig, sized};

/// The ledger as first value, last value and cause.
fn listed(rig: &Rig) -> Vec<(i64, i64, Cause)> {
    rig.gaps().iter().map(|gap| (gap.run.first(), gap.run.last(), gap.cause)).collect()
}

#[test]
fn a_crash_lists_what_it_may_have_lost() {
    let mut rig = Rig::new(&sized(1, 25, 10));
    rig.take_many(13);
    rig.crash();
    assert_eq!(listed(&rig), [(1, 25, Cause::Crash)], "from the write on: some of them were taken");
    rig.crash();
    assert_eq!(listed(&rig), [(1, 25, Cause::Crash)], "once, however often the process ends");
    assert_eq!(rig.take(0), Ok(26));
    assert_eq!(rig.memory.stored().ledger.len(), 1, "the next write lists it for good");
    rig.crash();
    assert_eq!(listed(&rig), [(1, 25, Cause::Crash), (26, 50, Cause::Crash)]);
}

/// The loss of a crash was counted from the newest block on, without the values that other acquirers still
/// had.
#[test]
fn a_crash_lists_what_other_acquirers_had() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(11), Ok(21)]);
    rig.crash();
    assert_eq!(listed(&rig), [(2, 30, Cause::Crash)]);
}

#[test]
fn a_clean_close_is_no_reservation() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(13);
    assert_eq!(rig.snapshot().reservations, 2);
    rig.reopen().expect("closed");
    assert_eq!(rig.snapshot().reservations, 2);
}

#[test]
fn every_cause_is_listed_under_its_name() {
    let mut rig = Rig::new(&sized(1, 100, 5));
    assert_eq!(rig.take(0), Ok(1));
    rig.sequence.give_up(&rig.slot(0));
    assert_eq!([rig.take(1), rig.take(0)], [Ok(6), Ok(11)]);
    rig.close_acquirer(1);
    rig.alter(&Options { cycled: Some(true), ..Options::default() }).expect("altered");
    assert_eq!(rig.take(0), Ok(16));
    rig.announce(0, 20).expect("announced");
    assert_eq!(rig.take(0), Ok(21));
    rig.restart(1).expect("restarted");
    let expected = [
        (2, 5, Cause::Conflict),
        (7, 10, Cause::AcquirerClosed),
        (12, 15, Cause::Alter),
        (17, 19, Cause::ExplicitValue),
        (22, 25, Cause::Restart),
    ];
    assert_eq!(listed(&rig), expected);
    assert_eq!(rig.snapshot().lost, 19);
}

#[test]
fn a_closed_acquirer_gives_its_values_back_where_the_store_goes_on() {
    let mut rig = Rig::new(&sized(1, 100, 5));
    assert_eq!([rig.take(0), rig.take(1)], [Ok(1), Ok(6)]);
    rig.close_acquirer(1);
    assert_eq!(listed(&rig), []);
    assert_eq!(rig.take(2), Ok(7));
}

/// A block of the previous cycle ends where a block of this cycle does. It was taken for the last block of
/// all acquirers, and values of this cycle came twice.
#[test]
fn values_of_an_earlier_cycle_are_not_given_back() {
    let mut rig = Rig::new(&Options { max_value: Some(6), cycled: Some(true), ..sized(1, 2, 2) });
    assert_eq!([0, 0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(2), Ok(3), Ok(5)]);
    assert_eq!([0, 0, 0, 0, 0].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(2), Ok(3), Ok(4), Ok(5)]);
    rig.close_acquirer(2);
    assert_eq!(rig.take(0), Ok(6), "the shared acquirer has the end");
    assert_eq!(rig.take(0), Ok(1));
    assert_eq!(listed(&rig), [(6, 6, Cause::AcquirerClosed)]);
}

#[test]
fn a_clean_close_gives_back_what_hangs_together() {
    let mut rig = Rig::new(&sized(1, 100, 5));
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(6), Ok(11)]);
    rig.reopen().expect("closed");
    assert_eq!((rig.snapshot().current_value, rig.take(0)), (11, Ok(12)));
    let mut lost = listed(&rig);
    lost.sort_unstable_by_key(|gap| gap.0);
    assert_eq!(lost, [(2, 5, Cause::AcquirerClosed), (7, 10, Cause::AcquirerClosed)]);
}

#[test]
fn counters_of_a_damaged_mark_do_not_overflow() {
    let rig = Rig::new(&sized(1, 100, 5));
    let mut record = rig.memory.stored().record.clone();
    record.mark.reservations = u64::MAX;
    record.mark.lost = u64::MAX;
    record.mark.next_gap = u64::MAX;
    record.mark.cycled_count = i32::MAX;
    record.version = i64::MAX;
    let sequence = cairndb_sequence::allocator::Sequence::restore(record);
    let changing = sequence.change(Cause::Alter, |state| Ok(Some(state.truncated()))).expect("changing");
    let mark = *changing.expect("a change").change().mark;
    assert_eq!((mark.reservations, mark.lost, mark.next_gap), (u64::MAX, u64::MAX, u64::MAX));
}

/// The steps of a sequence that never starts over and whose process never crashes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(usize),
    Fetch(usize, u64),
    Announce(usize, i64),
    SetCurrentValue(usize, i64),
    GiveUp(usize),
    CloseAcquirer(usize),
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    let acquirers = || 0..3_usize;
    prop_oneof![
        10 => acquirers().prop_map(Step::Take),
        6 => (acquirers(), 1..9_u64).prop_map(|(acquirer, count)| Step::Fetch(acquirer, count)),
        4 => (acquirers(), -5..60_i64).prop_map(|(acquirer, ahead)| Step::Announce(acquirer, ahead)),
        2 => (acquirers(), -5..60_i64).prop_map(|(acquirer, ahead)| Step::SetCurrentValue(acquirer, ahead)),
        2 => acquirers().prop_map(Step::GiveUp),
        2 => (1..3_usize).prop_map(Step::CloseAcquirer),
        1 => Just(Step::Reopen),
    ]
}

/// The number of times that each value was handed out, listed, or brought.
#[derive(Default)]
struct Fates {
    fates: BTreeMap<i64, Vec<&'static str>>,
}

impl Fates {
    fn add(&mut self, value: i64, fate: &'static str) {
        self.fates.entry(value).or_default().push(fate);
    }

    fn run(&mut self, rig: &mut Rig, step: Step, sign: i64) {
        let around = |rig: &Rig, ahead: i64| rig.snapshot().last_used.unwrap_or(0) + sign * ahead;
        match step {
            Step::Take(acquirer) => self.add(rig.take(acquirer).expect("a value"), "taken"),
            Step::Fetch(acquirer, count) => {
                let taken = rig.sequence.take(&rig.slot(acquirer), count, &rig.memory).expect("values");
                taken.run.values().for_each(|value| self.add(value, "taken"));
            }
            Step::Announce(acquirer, ahead) => {
                let value = around(rig, ahead);
                rig.announce(acquirer, value).expect("announced");
                self.add(value, "brought");
            }
            Step::SetCurrentValue(acquirer, ahead) => {
                let value = around(rig, ahead);
                if rig.set_current_value(acquirer, value).is_ok() {
                    self.add(value, "brought");
                }
            }
            Step::GiveUp(acquirer) => rig.sequence.give_up(&rig.slot(acquirer)),
            Step::CloseAcquirer(acquirer) => rig.close_acquirer(acquirer),
            Step::Reopen => rig.reopen().expect("closed"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// However many values were taken. What an acquirer has loses less than a block, and the store less than
    /// a reserve.
    #[test]
    fn a_crash_loses_less_than_a_reserve_and_a_block(
        increment in prop_oneof![Just(1_i64), Just(-1), Just(7), Just(-10)],
        acquire in 1..20_i64,
        more in 0..40_i64,
        taken in 0..200_usize,
    ) {
        let mut rig = Rig::new(&sized(increment, acquire + more, acquire));
        rig.take_many(taken);
        let given = i64::try_from(taken).expect("small");
        rig.crash();
        let next = rig.take(0).expect("a value");
        let lost = (next - rig.snapshot().attributes.start_value()) / increment - given;
        prop_assert!((0..acquire + more + acquire).contains(&lost), "{lost} are lost");
    }

    /// From the first value to the last one used, each term was either handed out, or brought, or is listed;
    /// once. (A document may bring a value that was handed out or lost already.)
    #[test]
    fn values_and_gaps_partition_the_progression(
        increment in prop_oneof![Just(1_i64), Just(-1), Just(7), Just(-10)],
        acquire in 1..8_i64,
        more in 0..12_i64,
        ordered in prop::bool::weighted(0.2),
        history in prop::collection::vec(steps(), 1..50),
    ) {
        let contract = if ordered { Contract::Ordered } else { Contract::Fast };
        let options = Options { contract: Some(contract), ..sized(increment, acquire + more, acquire) };
        let mut rig = Rig::new(&options);
        let mut fates = Fates::default();
        for step in history {
            fates.run(&mut rig, step, increment.signum());
        }
        rig.reopen().expect("closed");
        for Gap { run, cause } in rig.gaps() {
            run.values().for_each(|value| fates.add(value, cause.name()));
        }
        let snapshot = rig.snapshot();
        let (mut term, end) = (snapshot.attributes.start_value(), snapshot.current_value);
        let last = if snapshot.initial { term - increment } else { end };
        while (last - term) * increment.signum() >= 0 {
            let fate = fates.fates.remove(&term).unwrap_or_default();
            let own = fate.iter().filter(|fate| **fate != "brought").count();
            prop_assert!(own == 1 || own == 0 && fate.contains(&"brought"), "{term} is {fate:?}");
            term += increment;
        }
        for (value, fate) in fates.fates {
            prop_assert!(fate.iter().all(|fate| *fate == "brought"), "{value} is {fate:?}");
        }
    }
}
