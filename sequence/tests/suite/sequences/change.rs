//! Changes of a sequence: attributes, current value, restart, truncation, name, and what they reject.

use std::sync::Arc;

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::store::Cause;

use crate::sequences::memory::{Failure, Rig, code, sized};

const EXCEEDED: Result<i64, i32> = Err(-325);

#[track_caller]
fn next(rig: &Rig, acquirer: usize) -> Result<i64, i32> {
    rig.take(acquirer).map_err(|error| code(&error))
}

/// A sequence with sizes 1000 and 10 of which `used` values are used, after a change.
#[track_caller]
fn altered(options: &Options, used: usize, change: &Options) -> Rig {
    let rig = Rig::new(options);
    rig.take_many(used);
    rig.alter(change).expect("altered");
    rig
}

fn tens() -> Options {
    sized(1, 1000, 10)
}

fn none() -> Options {
    Options::default()
}

#[test]
fn a_change_that_changes_nothing_is_none() {
    for change in [none(), tens(), Options { start_value: Some(1), cycled: Some(false), ..none() }] {
        let rig = altered(&tens(), 3, &change);
        assert_eq!(rig.snapshot().version, 0);
        assert_eq!(next(&rig, 0), Ok(4), "blocks stay");
        assert_eq!(rig.memory.stored().writes, 1);
    }
}

#[test]
fn every_change_counts_the_version_and_drops_blocks() {
    let rig = altered(&tens(), 3, &Options { cache_size: Some(500), ..none() });
    assert_eq!(rig.snapshot().version, 1);
    assert_eq!(next(&rig, 0), Ok(11));
    let gaps: Vec<(i64, u64, Cause)> =
        rig.gaps().iter().map(|gap| (gap.run.first(), gap.run.count(), gap.cause)).collect();
    assert_eq!(gaps, [(4, 7, Cause::Alter)]);
}

#[test]
fn options_are_applied_together_or_not_at_all() {
    let rig = Rig::new(&tens());
    let change = Options { increment: Some(5), min_value: Some(2), ..none() };
    assert_eq!(rig.alter(&change).map_err(|error| code(&error)), Err(-6), "the start lies below");
    assert_eq!((rig.snapshot().version, next(&rig, 0), next(&rig, 0)), (0, Ok(1), Ok(2)));
    rig.alter(&Options { start_value: Some(2), ..change }).expect("altered");
    assert_eq!(next(&rig, 0), Ok(15));
}

#[test]
fn increment_goes_on_from_what_acquirers_got() {
    let rig = altered(&tens(), 3, &Options { increment: Some(5), ..none() });
    assert_eq!([next(&rig, 0), next(&rig, 0)], [Ok(15), Ok(20)]);
}

/// SequoiaDB keeps the stored reserve of the old direction, so that a crash skips to its end.
#[test]
fn turning_round_goes_on_from_there_after_a_crash_too() {
    let change = Options { min_value: Some(-100), start_value: Some(-100), ..sized(1, 100, 100) };
    let descending = sized(-1, 1000, 100);
    assert_eq!(next(&altered(&descending, 3, &change), 0), Ok(-99));
    let mut rig = altered(&descending, 3, &change);
    assert_eq!(rig.snapshot().current_value, -100, "the reserve of the other direction is given up");
    rig.crash();
    assert_eq!(next(&rig, 0), Ok(-99));
}

#[test]
fn start_value_moves_an_unused_sequence_only() {
    let change = Options { start_value: Some(50), ..none() };
    let rig = altered(&tens(), 0, &change);
    assert_eq!((rig.snapshot().current_value, next(&rig, 0)), (50, Ok(50)));
    let rig = altered(&tens(), 3, &change);
    assert_eq!((rig.snapshot().current_value, next(&rig, 0)), (1000, Ok(11)));
    rig.truncate().expect("truncated");
    assert_eq!(next(&rig, 0), Ok(50), "it matters at the next truncation");
    let rig = Rig::new(&tens());
    rig.restart(7).expect("restarted");
    rig.alter(&change).expect("altered");
    assert_eq!(next(&rig, 0), Ok(50), "it overrides a restart");
}

#[test]
fn limits_exhaust_and_revive() {
    let small = Options { max_value: Some(10), ..sized(1, 10, 10) };
    let rig = altered(&small, 10, &Options { max_value: Some(12), ..none() });
    assert_eq!([next(&rig, 0), next(&rig, 0), next(&rig, 0)], [Ok(11), Ok(12), EXCEEDED]);
    let lowered = Options { max_value: Some(5), cache_size: Some(5), acquire_size: Some(5), ..none() };
    let rig = altered(&small, 3, &lowered);
    assert_eq!(next(&rig, 0), EXCEEDED, "the acquirer had values up to 10");
    let rig = altered(&Options { cycled: Some(true), ..small.clone() }, 3, &lowered);
    assert_eq!((next(&rig, 0), rig.snapshot().cycled_count), (Ok(1), 1));
    let raised = Options { min_value: Some(20), start_value: Some(20), max_value: Some(40), ..none() };
    let rig = altered(&small, 3, &raised);
    assert_eq!(next(&rig, 0), EXCEEDED, "it does not jump to the least value");
    rig.alter(&Options { current_value: Some(20), ..none() }).expect("altered");
    assert_eq!(next(&rig, 0), Ok(21));
}

#[test]
fn a_lowered_limit_is_never_passed() {
    let rig = altered(&tens(), 3, &Options { max_value: Some(1005), ..none() });
    for value in 11..=1005 {
        assert_eq!(next(&rig, 0), Ok(value));
    }
    assert_eq!(next(&rig, 0), EXCEEDED);
    let rig = altered(
        &tens(),
        3,
        &Options { max_value: Some(1003), cache_size: Some(7), acquire_size: Some(7), ..none() },
    );
    assert_eq!(rig.take_many(993).last(), Some(&1003));
    assert_eq!(next(&rig, 0), EXCEEDED);
}

#[test]
fn a_restart_value_outside_of_new_limits_is_not_handed_out() {
    let rig = Rig::new(&sized(1, 5, 5));
    rig.restart(3).expect("restarted");
    rig.alter(&Options { min_value: Some(10), start_value: Some(10), max_value: Some(90), ..none() })
        .expect("altered");
    assert_eq!((next(&rig, 0), rig.snapshot().remaining), (Ok(10), 80), "a new start overrides the restart");
    let rig = Rig::new(&Options { start_value: Some(10), ..sized(100, 5, 5) });
    rig.restart(3).expect("restarted");
    rig.alter(&Options { min_value: Some(10), ..none() }).expect("altered");
    assert_eq!((next(&rig, 0), rig.snapshot().remaining), (EXCEEDED, 0));
}

#[test]
fn cycled_wraps_an_exhausted_sequence_and_resets_its_count() {
    let small = Options { max_value: Some(3), ..sized(1, 3, 3) };
    let rig = altered(&small, 3, &Options { cycled: Some(true), ..none() });
    assert_eq!((next(&rig, 0), rig.snapshot().cycled_count), (Ok(1), 1));
    rig.alter(&Options { cycled: Some(false), ..none() }).expect("altered");
    assert_eq!((rig.snapshot().cycled_count, next(&rig, 0)), (0, EXCEEDED));
}

#[test]
fn the_edge_and_not_the_start_follows_a_wrap() {
    let options =
        Options { start_value: Some(10), max_value: Some(35), cycled: Some(true), ..sized(10, 2, 2) };
    assert_eq!(Rig::new(&options).take_many(8), [10, 20, 30, 1, 11, 21, 31, 1]);
}

#[test]
fn current_value_counts_as_used() {
    let rig = altered(&tens(), 3, &Options { current_value: Some(500), ..none() });
    assert_eq!((rig.snapshot().current_value, next(&rig, 0), rig.snapshot().version), (500, Ok(501), 1));
    rig.alter(&Options { current_value: Some(2), ..none() }).expect("altered");
    assert_eq!(next(&rig, 0), Ok(3), "backwards too");
    rig.alter(&Options { current_value: Some(i64::MAX), ..none() }).expect("altered");
    assert_eq!(next(&rig, 0), EXCEEDED);
    let outside = Options { current_value: Some(0), ..none() };
    assert_eq!(rig.alter(&outside).map_err(|error| code(&error)), Err(-6));
}

/// SequoiaDB makes no change if the value is the one that the snapshot shows.
#[test]
fn current_value_takes_effect_where_it_equals_the_reserve() {
    let rig = altered(&tens(), 3, &Options { current_value: Some(1000), ..none() });
    assert_eq!(next(&rig, 0), Ok(1001));
    let rig = altered(&tens(), 0, &Options { current_value: Some(1), ..none() });
    assert_eq!((rig.snapshot().initial, next(&rig, 0)), (false, Ok(2)));
}

#[test]
fn a_current_value_is_checked_against_the_limits_of_the_same_call() {
    let rig = Rig::new(&tens());
    let change = Options { max_value: Some(5000), current_value: Some(6000), ..none() };
    assert_eq!(rig.alter(&change).map_err(|error| code(&error)), Err(-6));
    rig.alter(&Options { max_value: Some(7000), ..change }).expect("altered");
    assert_eq!(next(&rig, 0), Ok(6001));
}

/// Values that a new current value passes were not listed.
#[test]
fn values_before_a_new_current_value_are_listed() {
    let rig = altered(&sized(1, 10, 10), 3, &Options { current_value: Some(20), ..none() });
    let gaps: Vec<(i64, i64, Cause)> =
        rig.gaps().iter().map(|gap| (gap.run.first(), gap.run.last(), gap.cause)).collect();
    assert_eq!(gaps, [(4, 10, Cause::Alter), (11, 19, Cause::ExplicitValue)]);
}

#[test]
fn fetch_stays_within_a_block() {
    let rig = Rig::new(&sized(3, 100, 5));
    assert_eq!(rig.fetch(0, 3), Ok((1, 3)));
    assert_eq!(rig.fetch(0, 3), Ok((10, 2)));
    assert_eq!(rig.fetch(0, 1_000_000), Ok((16, 5)));
    assert_eq!(rig.current_value(0), Ok(28));
}

/// SequoiaDB multiplies increment and count in 32 bits, and goes below 0.
#[test]
fn fetch_with_a_large_increment_does_not_overflow() {
    let rig = Rig::new(&sized(3_000_000, 1000, 1000));
    assert_eq!(rig.fetch(0, 800), Ok((1, 800)));
    assert_eq!(rig.fetch(0, 800), Ok((2_400_000_001, 200)));
}

/// The position moved by any count that a caller asked for: a huge count overflowed it, and values came
/// again.
#[test]
fn fetch_of_a_huge_count_does_not_turn_the_position_round() {
    let rig = Rig::new(&sized(1, 10, 10));
    assert_eq!(rig.fetch(0, 5), Ok((1, 5)));
    assert_eq!(rig.fetch(0, u64::MAX), Ok((6, 5)));
    assert_eq!(rig.fetch(0, u64::MAX), Ok((11, 10)));
    assert_eq!(rig.take(0), Ok(21));
}

#[test]
fn the_current_value_is_the_acquirers_last() {
    let rig = Rig::new(&tens());
    assert_eq!(rig.current_value(0).map_err(|error| error.sequoia_code()), Err(-362));
    rig.take_many(3);
    assert_eq!((rig.current_value(0), rig.current_value(1)), (Ok(3), Ok(1000)));
    rig.alter(&Options { cache_size: Some(500), ..none() }).expect("altered");
    assert_eq!(rig.current_value(0), Ok(1000), "dropped blocks leave the end of the reserve");
    rig.restart(5).expect("restarted");
    assert_eq!(rig.current_value(0).map_err(|error| error.sequoia_code()), Err(-362));
}

#[test]
fn set_current_value_on_a_new_sequence_makes_the_first_reserve() {
    let rig = Rig::new(&Options::default());
    assert_eq!(rig.set_current_value(0, 1).map_err(|error| code(&error)), Err(-361));
    assert_eq!((rig.snapshot().current_value, rig.snapshot().initial), (1000, false), "it stays so");
    assert_eq!(rig.set_current_value(0, 1001), Ok(()));
    assert_eq!(next(&rig, 0), Ok(1002));
    let rig = Rig::new(&Options::default());
    assert_eq!(rig.set_current_value(0, 500), Ok(()));
    assert_eq!((rig.current_value(0), next(&rig, 0)), (Ok(1000), Ok(501)));
    assert_eq!(rig.snapshot().version, 0, "it counts no version");
}

/// SequoiaDB does not clamp the pretended reserve: 2499 is shown, and 2100 handed out.
#[test]
fn the_first_reserve_stays_within_the_limit() {
    let options = Options {
        start_value: Some(1500),
        max_value: Some(2000),
        acquire_size: Some(300),
        ..Options::default()
    };
    let rig = Rig::new(&options);
    assert_eq!(rig.set_current_value(0, 1500).map_err(|error| code(&error)), Err(-361));
    assert_eq!(rig.snapshot().current_value, 2000);
    assert_eq!(rig.fetch(0, 1000), Ok((1501, 300)));
    assert_eq!(rig.fetch(0, 1000), Ok((1801, 200)));
    assert_eq!(next(&rig, 0), EXCEEDED);
}

/// SequoiaDB forgets the restart and goes back to the start.
#[test]
fn set_current_value_after_a_restart_starts_from_there() {
    let rig = Rig::new(&Options::default());
    rig.restart(5000).expect("restarted");
    assert_eq!(rig.set_current_value(0, 10).map_err(|error| code(&error)), Err(-361));
    assert_eq!(next(&rig, 0), Ok(5001));
}

#[test]
fn set_current_value_only_moves_forward() {
    let rig = Rig::new(&tens());
    rig.take_many(3);
    for behind in [3, 1, 0, -7, i64::MIN] {
        assert_eq!(rig.set_current_value(0, behind).map_err(|error| code(&error)), Err(-361), "{behind}");
    }
    assert_eq!(rig.set_current_value(0, 7), Ok(()));
    assert_eq!(next(&rig, 0), Ok(8));
    assert_eq!(rig.set_current_value(0, 10).map_err(|error| code(&error)), Err(-361), "the end of the block");
    assert_eq!(rig.set_current_value(0, 11), Ok(()));
    assert_eq!(next(&rig, 0), Ok(12));
}

#[test]
fn set_current_value_between_terms_gives_the_next_term() {
    for acquire in [1, 1000] {
        let rig = Rig::new(&sized(10, 1000, acquire));
        assert_eq!(rig.take(0), Ok(1));
        assert_eq!(rig.set_current_value(0, 15), Ok(()));
        assert_eq!(next(&rig, 0), Ok(21), "{acquire}");
    }
}

#[test]
fn set_current_value_drops_what_other_acquirers_have_before_it() {
    let rig = Rig::new(&sized(1, 1000, 100));
    rig.set_current_value(0, 56).expect("set");
    assert_eq!([0, 1, 2].map(|acquirer| next(&rig, acquirer)), [Ok(57), Ok(157), Ok(257)]);
    assert_eq!(rig.set_current_value(1, 180), Ok(()));
    assert_eq!([1, 2, 0].map(|acquirer| next(&rig, acquirer)), [Ok(181), Ok(258), Ok(357)]);
    assert_eq!(rig.set_current_value(0, 300).map_err(|error| code(&error)), Err(-361), "another's value");
}

#[test]
fn set_current_value_beyond_the_limit_exhausts_without_an_error() {
    let small = Options { max_value: Some(10), ..sized(1, 3, 3) };
    let rig = Rig::new(&small);
    assert_eq!(rig.set_current_value(0, 11), Ok(()));
    assert_eq!((rig.snapshot().current_value, next(&rig, 0)), (10, EXCEEDED));
    assert_eq!(rig.set_current_value(0, 12).map_err(|error| code(&error)), Err(-361), "exhausted");
    let rig = Rig::new(&Options { cycled: Some(true), ..small });
    assert_eq!(rig.set_current_value(0, 11), Ok(()));
    assert_eq!(next(&rig, 0), Ok(1));
}

/// Values that the first reserve passes were not listed, nor values between terms.
#[test]
fn what_set_current_value_passes_is_listed() {
    #[track_caller]
    fn check(increment: i64, value: i64, expected: &[(i64, i64)]) {
        let rig = Rig::new(&sized(increment, 100, 10));
        rig.set_current_value(0, value).expect("set");
        let gaps = rig.gaps();
        assert!(gaps.iter().all(|gap| gap.cause == Cause::ExplicitValue));
        assert_eq!(gaps.iter().map(|gap| (gap.run.first(), gap.run.last())).collect::<Vec<_>>(), expected);
        assert_eq!(rig.snapshot().lost, gaps.iter().map(|gap| gap.run.count()).sum::<u64>());
    }
    check(1, 20, &[(1, 1), (2, 19)]);
    check(1, 2, &[(1, 1)]);
    check(10, 15, &[(1, 1), (11, 11)]);
    check(10, 21, &[(1, 1), (11, 11)]);
    check(10, 1_000, &[(1, 1), (11, 991)]);
}

#[test]
fn restart_gives_the_value_itself_next() {
    let rig = Rig::new(&Options { max_value: Some(5000), ..tens() });
    rig.take_many(3);
    rig.restart(100).expect("restarted");
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.current_value, snapshot.initial, snapshot.version), (100, true, 0));
    assert_eq!(snapshot.attributes.start_value(), 1);
    assert_eq!(next(&rig, 0), Ok(100));
    for outside in [0, 5001, i64::MIN, i64::MAX] {
        assert_eq!(rig.restart(outside).map_err(|error| code(&error)), Err(-6), "{outside}");
    }
    assert_eq!(next(&rig, 0), Ok(101));
}

#[test]
fn restart_revives_an_exhausted_sequence_and_keeps_its_cycles() {
    let rig = Rig::new(&Options { max_value: Some(3), cycled: Some(true), ..sized(1, 3, 3) });
    rig.take_many(4);
    rig.restart(2).expect("restarted");
    assert_eq!((rig.snapshot().cycled_count, next(&rig, 0)), (1, Ok(2)));
}

#[test]
fn truncate_makes_everything_new_but_the_version() {
    let rig =
        Rig::new(&Options { start_value: Some(2), max_value: Some(3), cycled: Some(true), ..sized(1, 3, 3) });
    rig.take_many(4);
    rig.truncate().expect("truncated");
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.current_value, snapshot.initial, snapshot.cycled_count), (2, true, 0));
    assert_eq!((snapshot.version, next(&rig, 0)), (1, Ok(2)));
}

#[test]
fn a_renamed_sequence_goes_on_elsewhere() {
    let mut rig = Rig::new(&tens());
    rig.take_many(3);
    let old = Arc::clone(&rig.sequence);
    rig.rename().expect("renamed");
    assert_eq!((rig.snapshot().version, next(&rig, 0)), (1, Ok(11)));
    let shared = Arc::clone(old.shared());
    assert_eq!(old.take_one(&shared, &rig.memory).map_err(|error| code(&error)), Err(-324));
    assert_eq!(old.current_value(&shared).map_err(|error| error.sequoia_code()), Err(-324));
    assert!(old.is_retired() && !rig.sequence.is_retired());
}

/// An acquirer kept the slot of the old sequence under the same id. The new sequence did not have that slot
/// in its list, so no change dropped the block in it.
#[test]
fn an_acquirers_block_of_a_renamed_sequence_is_dropped_by_changes() {
    let mut rig = Rig::new(&tens());
    assert_eq!(next(&rig, 1), Ok(1));
    rig.rename().expect("renamed");
    assert_eq!(next(&rig, 1), Ok(11));
    rig.restart(500).expect("restarted");
    assert_eq!(next(&rig, 1), Ok(500));
}

#[test]
fn nothing_comes_from_a_dropped_sequence() {
    let rig = Rig::new(&tens());
    rig.take_many(3);
    rig.sequence.retire();
    assert_eq!([next(&rig, 0), next(&rig, 1)], [Err(-324), Err(-324)]);
    let refused =
        [rig.set_current_value(0, 50), rig.restart(5), rig.alter(&sized(5, 10, 10)), rig.truncate()];
    assert_eq!(refused.map(|result| result.map_err(|error| code(&error))), [Err(-324); 4]);
    assert_eq!(rig.memory.stored().writes, 1);
}

/// SequoiaDB advances its memory first: after a failed write, values come from a reserve that is on no disk.
#[test]
fn a_failed_write_hands_nothing_out() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(10);
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.take(0), Err(Failure::Disk));
    assert_eq!(rig.alter(&sized(2, 10, 10)), Err(Failure::Disk));
    assert_eq!(rig.restart(1), Err(Failure::Disk));
    assert_eq!((rig.snapshot().current_value, rig.snapshot().version), (10, 0));
    rig.memory.stored().failing_after = None;
    assert_eq!(rig.take(0), Ok(11));
    rig.crash();
    assert_eq!(rig.take(0), Ok(21));
}

#[test]
fn a_failed_change_leaves_blocks_as_they_were() {
    let rig = Rig::new(&tens());
    assert_eq!([next(&rig, 0), next(&rig, 1)], [Ok(1), Ok(11)]);
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.restart(500), Err(Failure::Disk));
    rig.memory.stored().failing_after = None;
    assert_eq!([next(&rig, 0), next(&rig, 1)], [Ok(2), Ok(12)]);
    let dropped = rig.sequence.change(Cause::Alter, |state| Ok(Some(state.truncated())));
    drop(dropped);
    assert_eq!([next(&rig, 0), next(&rig, 1)], [Ok(3), Ok(13)]);
    assert_eq!(rig.gaps(), []);
}

/// A change to this contract kept the reserve, which a crash then used up.
#[test]
fn a_sequence_that_becomes_gapless_has_no_reserve() {
    let mut rig = altered(&tens(), 3, &Options { contract: Some(Contract::Gapless), ..none() });
    assert_eq!(rig.snapshot().current_value, 10);
    assert_eq!(next(&rig, 0), Ok(11));
    rig.crash();
    assert_eq!(next(&rig, 0), Ok(12));
}

/// Setting the current value reserved for it as for any other.
#[test]
fn setting_a_gapless_sequence_reserves_nothing() {
    let gapless = Options { contract: Some(Contract::Gapless), ..Options::default() };
    let mut rig = Rig::new(&gapless);
    rig.set_current_value(0, 5).expect("set");
    assert_eq!((rig.snapshot().current_value, next(&rig, 0)), (5, Ok(6)));
    rig.crash();
    assert_eq!(next(&rig, 0), Ok(7));
}
