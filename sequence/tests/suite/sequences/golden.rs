//! The golden vectors of SequoiaDB's generation, G1 to G12: blocks as the store hands them out, values as an
//! acquirer does, and what a crash or a clean close leaves.
//!
//! A vector on which CairnDB differs from SequoiaDB says so.

use cairndb_sequence::attributes::{Attributes, Options};
use cairndb_sequence::state::State;

use crate::sequences::memory::{Rig, code, sized};

/// A block and the state after it: first value, count, `CurrentValue`, `CycledCount`.
type Block = (i64, u64, i64, i32);

/// Takes blocks as the store hands them out. With `then_exceeded`, no value is left afterwards.
#[track_caller]
fn check(options: &Options, blocks: &[Block], end: End) {
    let mut state = State::new(Attributes::create(options).expect("allowed"));
    for expected in blocks {
        let acquired = state.acquire(state.sizes()).expect("a block is left");
        state = acquired.state;
        let block = (acquired.run.first(), acquired.run.count(), state.current_value(), state.cycled_count());
        assert_eq!(block, *expected);
        assert!(!state.is_initial());
    }
    let next = state.acquire(state.sizes()).map(|_| ()).map_err(|error| error.sequoia_code());
    assert_eq!(next, if end == End::Exceeded { Err(-325) } else { Ok(()) });
    assert_eq!(state.is_exhausted() && !state.attributes().is_cycled(), end == End::Exceeded);
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Exceeded,
    GoesOn,
}

/// Uses `used` values of the shared acquirer, ends by a crash and by a clean close, and takes the next value.
#[track_caller]
fn check_ends(options: &Options, used: usize, after_crash: i64, after_close: i64) {
    let mut crashed = Rig::new(options);
    crashed.take_many(used);
    crashed.crash();
    assert_eq!(crashed.take(0), Ok(after_crash), "after a crash");
    let mut closed = Rig::new(options);
    closed.take_many(used);
    closed.reopen().expect("closed");
    assert_eq!(closed.snapshot().current_value, after_close - 1, "CurrentValue is what was used");
    assert_eq!(closed.take(0), Ok(after_close), "after a clean close");
    assert_eq!(closed.gaps(), [], "a clean close leaves no gap");
}

#[test]
fn g1_defaults_reserve_a_thousand() {
    check(&Options::default(), &[(1, 1000, 1000, 0), (1001, 1000, 2000, 0)], End::GoesOn);
    let rig = Rig::new(&Options::default());
    assert!(rig.snapshot().initial);
    assert_eq!(rig.snapshot().current_value, 1, "unused, it shows the value to start with");
    assert_eq!(rig.take_many(1000), (1..=1000).collect::<Vec<_>>());
    assert_eq!((rig.snapshot().current_value, rig.snapshot().initial), (1000, false));
    assert_eq!(rig.take(0), Ok(1001));
    assert_eq!(rig.snapshot().current_value, 2000);
}

#[test]
fn g2_the_first_value_alone_does_not_extend_the_reserve() {
    check(&sized(1, 1000, 1), &[(1, 1, 1, 0), (2, 1, 1001, 0), (3, 1, 1001, 0)], End::GoesOn);
}

#[test]
fn g3_a_block_straddles_two_reserves() {
    let blocks =
        [(1, 10, 25, 0), (11, 10, 25, 0), (21, 10, 50, 0), (31, 10, 50, 0), (41, 10, 50, 0), (51, 10, 75, 0)];
    check(&sized(1, 25, 10), &blocks, End::GoesOn);
}

#[test]
fn g4_the_tail_before_the_limit_is_handed_out() {
    let options = Options { max_value: Some(100), ..sized(7, 15, 4) };
    check(&options, &[(1, 4, 99, 0), (29, 4, 99, 0), (57, 4, 99, 0), (85, 3, 99, 0)], End::Exceeded);
}

#[test]
fn g5_a_cycle_starts_over_at_the_edge() {
    let options = Options { start_value: Some(4), max_value: Some(10), cycled: Some(true), ..sized(2, 4, 3) };
    check(&options, &[(4, 3, 10, 0), (10, 1, 10, 0), (1, 3, 7, 1), (7, 2, 9, 1), (1, 3, 7, 2)], End::GoesOn);
}

#[test]
fn g6_descending_to_the_least_integer() {
    let start = i64::MIN + 2500;
    let options = Options { start_value: Some(start), ..sized(-1000, 3, 2) };
    check(&options, &[(start, 2, i64::MIN + 500, 0), (i64::MIN + 500, 1, i64::MIN + 500, 0)], End::Exceeded);
}

#[test]
fn g7_starting_at_the_greatest_integer_gives_one_value() {
    let options = Options { start_value: Some(i64::MAX), ..Options::default() };
    check(&options, &[(i64::MAX, 1, i64::MAX, 0)], End::Exceeded);
    let options = Options { start_value: Some(i64::MIN), ..sized(-1, 1000, 1000) };
    check(&options, &[(i64::MIN, 1, i64::MIN, 0)], End::Exceeded);
}

#[test]
fn g8_the_acquirers_value_after_a_wrap() {
    let options = Options { max_value: Some(6), cycled: Some(true), ..sized(1, 2, 2) };
    let rig = Rig::new(&options);
    assert_eq!(rig.take(0), Ok(1));
    assert_eq!(rig.snapshot().current_value, 2);
    assert_eq!(rig.take_many(6), [2, 3, 4, 5, 6, 1]);
    assert_eq!(rig.current_value(0), Ok(1));
    assert_eq!((rig.snapshot().current_value, rig.snapshot().cycled_count), (2, 1));
}

#[test]
fn g9_thirteens_up_to_the_limit_and_over_again() {
    let bounded = Options { min_value: Some(-1333), max_value: Some(13001), ..sized(13, 33, 11) };
    let rig = Rig::new(&bounded);
    let expected: Vec<i64> = (0..1001).map(|step| 1 + 13 * step).collect();
    assert_eq!(rig.take_many(1001), expected);
    assert_eq!(expected.last(), Some(&13001));
    assert_eq!(rig.take(0).map_err(|error| code(&error)), Err(-325));
    let rig = Rig::new(&Options { cycled: Some(true), ..bounded });
    rig.take_many(1001);
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(-1333), Ok(-1190), Ok(-1047)]);
}

#[test]
fn g10_what_a_crash_and_a_close_leave() {
    check_ends(&Options::default(), 3, 1001, 4);
    check_ends(&sized(1, 1000, 10), 3, 1001, 4);
    check_ends(&sized(1, 1000, 1), 3, 1002, 4);
    check_ends(&sized(1, 1000, 1), 1, 2, 2);
    check_ends(&sized(1, 1, 1), 3, 4, 4);
}

/// SequoiaDB's store loses the rest of a coordinator's block at a clean stop: 3 used of 1..=10, then 11. Here
/// the shared acquirer gives its rest back.
#[test]
fn g10_the_rest_of_the_shared_block_survives_a_close() {
    let mut rig = Rig::new(&sized(1, 1000, 10));
    rig.take_many(3);
    rig.reopen().expect("closed");
    assert_eq!((rig.snapshot().current_value, rig.take(0)), (3, Ok(4)));
}

#[test]
fn g11_a_new_increment_goes_on_behind_what_acquirers_got() {
    let rig = Rig::new(&sized(1, 1000, 10));
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(11), Ok(21)]);
    rig.alter(&Options { increment: Some(2), ..Options::default() }).expect("altered");
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(32), Ok(52), Ok(72)]);
}

#[test]
fn g12_turning_round() {
    let rig = Rig::new(&Options::default());
    rig.take_many(3);
    rig.alter(&Options { increment: Some(-1), ..Options::default() }).expect("altered");
    assert_eq!(rig.take_many(3), [999, 998, 997]);
    assert_eq!(rig.snapshot().current_value, 1);
    assert_eq!(rig.take_many(996).last(), Some(&1));
    assert_eq!(rig.take(0).map_err(|error| code(&error)), Err(-325));
}
