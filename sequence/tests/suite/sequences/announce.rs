//! Values that documents bring, and what they change in the sequence.
//!
//! One rule, independent of block sizes: the next value is the first term strictly beyond the value, for
//! every acquirer.

use cairndb_sequence::attributes::Options;
use cairndb_sequence::store::Cause;

use crate::sequences::memory::{Failure, Rig, code, sized};

/// A step of the shared acquirer.
enum Step {
    /// The next value, or the number of the error.
    Next(Result<i64, i32>),
    /// A document brings a value.
    Brings(i64),
    /// `CurrentValue` in a snapshot.
    Shows(i64),
}

use Step::{Brings, Next, Shows};

#[track_caller]
fn check(options: &Options, steps: &[Step]) {
    let rig = Rig::new(options);
    for (position, step) in steps.iter().enumerate() {
        match step {
            Next(expected) => {
                assert_eq!(rig.take(0).map_err(|error| code(&error)), *expected, "step {position}");
            }
            Brings(value) => assert_eq!(rig.announce(0, *value), Ok(()), "step {position}"),
            Shows(expected) => assert_eq!(rig.snapshot().current_value, *expected, "step {position}"),
        }
    }
}

fn defaults() -> Options {
    Options::default()
}

fn descending() -> Options {
    Options { increment: Some(-1), ..defaults() }
}

const EXCEEDED: Step = Next(Err(-325));

#[test]
fn a_value_ahead_moves_a_fresh_sequence() {
    check(&defaults(), &[Brings(5000), Shows(6000), Next(Ok(5001))]);
    check(&defaults(), &[Brings(1), Next(Ok(2))]);
}

#[test]
fn a_value_behind_changes_nothing() {
    check(&defaults(), &[Brings(-5), Next(Ok(1))]);
    check(&defaults(), &[Brings(i64::MIN), Next(Ok(1))]);
    check(&defaults(), &[Next(Ok(1)), Next(Ok(2)), Brings(2), Next(Ok(3)), Brings(1), Next(Ok(4))]);
}

#[test]
fn a_first_value_that_lies_behind_still_marks_the_sequence_used() {
    let rig = Rig::new(&defaults());
    rig.announce(0, -5).expect("announced");
    assert_eq!((rig.snapshot().initial, rig.snapshot().current_value), (false, 1000));
}

#[test]
fn the_end_of_a_block() {
    check(&defaults(), &[Brings(999), Shows(1000), Next(Ok(1000))]);
    check(&defaults(), &[Brings(1000), Shows(2000), Next(Ok(1001))]);
    check(&defaults(), &[Next(Ok(1)), Brings(1000), Next(Ok(1001))]);
}

#[test]
fn descending_sequences_react_to_smaller_values() {
    check(&descending(), &[Next(Ok(-1)), Brings(-5000), Next(Ok(-5001)), Brings(-10), Next(Ok(-5002))]);
    check(&descending(), &[Next(Ok(-1)), Brings(5000), Next(Ok(-2))]);
}

#[test]
fn values_between_terms_inside_a_block() {
    check(&sized(3, 1000, 1000), &[Next(Ok(1)), Brings(3), Next(Ok(4))]);
    check(&sized(3, 1000, 1000), &[Next(Ok(1)), Brings(4), Next(Ok(7))]);
    check(&sized(10, 1000, 1000), &[Next(Ok(1)), Brings(15), Next(Ok(21)), Brings(31), Next(Ok(41))]);
}

/// SequoiaDB rounds the value up to a term and uses that up, but only when the block ends before it: 31 after
/// 15 with blocks of one value. Here the result does not depend on the size of blocks.
#[test]
fn the_next_value_does_not_depend_on_the_block_size() {
    for acquire in [1, 2, 3, 1000] {
        let tens = sized(10, 1000, acquire);
        check(&tens, &[Next(Ok(1)), Brings(15), Next(Ok(21))]);
        check(&tens, &[Next(Ok(1)), Brings(21), Next(Ok(31))]);
    }
    check(&sized(10, 1, 1), &[Next(Ok(1)), Brings(15), Shows(21), Next(Ok(21))]);
}

/// SequoiaDB has one value fewer here, because it uses up the term at or past the value.
#[test]
fn values_before_the_limit() {
    let fives = Options { max_value: Some(10_001), ..sized(5, 1000, 1000) };
    check(&fives, &[Brings(9_996), Next(Ok(10_001)), EXCEEDED]);
    check(&fives, &[Brings(10_000), Next(Ok(10_001)), EXCEEDED]);
    check(&fives, &[Brings(10_001), EXCEEDED]);
    check(&fives, &[Brings(10_002), Shows(10_001), EXCEEDED]);
    check(&Options { cycled: Some(true), ..fives }, &[Brings(10_000), Next(Ok(10_001)), Next(Ok(1))]);
    let to_the_end = sized(5, 1000, 1000);
    assert_eq!((i64::MAX - 6) % 5, 1, "a term of 1, 6, 11 and so on");
    check(&to_the_end, &[Brings(i64::MAX - 6), Next(Ok(i64::MAX - 1)), EXCEEDED]);
}

#[test]
fn the_ends_of_the_integers() {
    check(&defaults(), &[Brings(i64::MAX), Shows(i64::MAX), EXCEEDED]);
    check(&defaults(), &[Brings(i64::MAX - 1), Next(Ok(i64::MAX)), EXCEEDED]);
    check(&descending(), &[Brings(i64::MIN), Shows(i64::MIN), EXCEEDED]);
    check(&descending(), &[Brings(i64::MIN + 1), Next(Ok(i64::MIN)), EXCEEDED]);
}

#[test]
fn a_value_beyond_the_limit_uses_the_sequence_up_or_wraps_it() {
    let small = Options { max_value: Some(10), ..sized(1, 3, 3) };
    check(&small, &[Next(Ok(1)), Brings(50), Shows(10), EXCEEDED, Brings(60), EXCEEDED]);
    let rig = Rig::new(&Options { cycled: Some(true), ..small });
    rig.announce(0, 50).expect("announced");
    assert_eq!(rig.snapshot().cycled_count, 1);
    assert_eq!(rig.take(0), Ok(1));
}

/// SequoiaDB rejects the document when the acquirer has no block, and takes it otherwise.
#[test]
fn a_value_that_comes_to_an_exhausted_sequence_is_accepted_warm_and_cold() {
    let mut rig = Rig::new(&Options { max_value: Some(3), ..sized(1, 3, 3) });
    rig.take_many(3);
    assert_eq!(rig.announce(0, 50), Ok(()), "with a used-up block");
    assert_eq!(rig.announce(1, 51), Ok(()), "without a block");
    rig.crash();
    assert_eq!(rig.announce(0, 52), Ok(()), "after a new start");
    assert_eq!(rig.take(0).map_err(|error| code(&error)), Err(-325));
}

#[test]
fn a_batch_mixes_brought_and_generated_values() {
    check(&defaults(), &[Next(Ok(1)), Brings(5000), Next(Ok(5001))]);
}

/// SequoiaDB informs no other acquirer, whose block then hands the value out again.
#[test]
fn every_acquirer_hears_of_a_value() {
    let rig = Rig::new(&sized(1, 1000, 10));
    assert_eq!([0, 1, 2].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(11), Ok(21)]);
    rig.announce(2, 15).expect("announced");
    assert_eq!(rig.take(1), Ok(16), "the block that holds the value skips it and what is before it");
    assert_eq!([0, 2].map(|acquirer| rig.take(acquirer)), [Ok(2), Ok(22)], "other blocks stay");
}

/// The loop over the other acquirers was left out if the own one had no block and got none. So the value came
/// again from one of their blocks.
#[test]
fn other_acquirers_hear_of_a_value_though_the_store_is_exhausted() {
    let rig = Rig::new(&Options { max_value: Some(10), ..sized(1, 10, 10) });
    assert_eq!(rig.take(1), Ok(1));
    rig.announce(0, 5).expect("announced");
    assert_eq!(rig.take(1), Ok(6));
}

#[test]
fn the_values_between_are_listed_and_the_brought_one_is_not() {
    let rig = Rig::new(&sized(1, 100, 10));
    assert_eq!(rig.take(0), Ok(1));
    rig.announce(0, 5).expect("announced");
    rig.announce(0, 20).expect("announced");
    assert_eq!(rig.take(0), Ok(21));
    let gaps: Vec<(i64, i64, Cause)> =
        rig.gaps().iter().map(|gap| (gap.run.first(), gap.run.last(), gap.cause)).collect();
    let cause = Cause::ExplicitValue;
    assert_eq!(gaps, [(2, 4, cause), (6, 19, cause)]);
}

/// Blocks of other acquirers skipped the value before the write, which could still fail.
#[test]
fn a_failed_write_changes_nothing_anywhere() {
    let rig = Rig::new(&sized(1, 10, 10));
    assert_eq!([0, 1].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(11)]);
    let before = rig.snapshot();
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.announce(0, 15), Err(Failure::Disk));
    rig.memory.stored().failing_after = None;
    assert_eq!(rig.snapshot(), before);
    assert_eq!(rig.gaps(), []);
    assert_eq!([0, 1].map(|acquirer| rig.take(acquirer)), [Ok(2), Ok(12)]);
}

/// A new block had the origin of the values before the announced one. A clean close went back there, and the
/// sequence came to the value again.
#[test]
fn a_close_right_after_a_value_goes_on_beyond_it() {
    let mut rig = Rig::new(&defaults());
    rig.announce(0, 5000).expect("announced");
    rig.reopen().expect("closed");
    assert_eq!((rig.snapshot().current_value, rig.take(0)), (5000, Ok(5001)));
}

/// A clean close listed the first block of a sequence as lost, although no value of it was taken.
#[test]
fn a_close_after_a_value_behind_leaves_the_sequence_unused() {
    let mut rig = Rig::new(&defaults());
    rig.announce(0, -5).expect("announced");
    rig.reopen().expect("closed");
    assert!(rig.snapshot().initial);
    assert_eq!((rig.take(0), rig.gaps()), (Ok(1), vec![]));
}

/// The first block of a cycle went back to the end of the cycle before, and the reserve of the new cycle
/// stayed. The next mark held both, and after a crash the values of the new cycle had the number of the old.
#[test]
fn a_cycle_whose_first_block_goes_back_begins_again() {
    let limits =
        Options { start_value: Some(21), min_value: Some(21), max_value: Some(46), ..sized(-1, 12, 1) };
    let mut rig = Rig::new(&Options { cycled: Some(true), ..limits });
    assert_eq!(rig.take_many(3), [21, 46, 45]);
    rig.announce(1, 0).expect("announced: beyond the limit, so the next cycle begins");
    assert_eq!((rig.snapshot().current_value, rig.snapshot().cycled_count), (46, 2));
    rig.close_acquirer(1);
    assert_eq!((rig.snapshot().current_value, rig.snapshot().cycled_count), (21, 1));
    rig.rename().expect("renamed");
    rig.crash();
    assert_eq!((rig.take(0), rig.snapshot().cycled_count), (Ok(46), 2));
}

#[test]
fn a_dropped_sequence_takes_note_of_nothing() {
    let rig = Rig::new(&defaults());
    rig.sequence.retire();
    assert_eq!(rig.announce(0, 5000).map_err(|error| code(&error)), Err(-324));
    assert_eq!(rig.memory.stored().writes, 0, "nothing is written for a sequence that is gone");
}
