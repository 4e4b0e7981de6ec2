//! Reserves that are made before they are needed, and what counts as used if the sequence ends now.

use cairndb_sequence::error::SequenceError;

use crate::sequences::memory::{Failure, Rig, code, sized};

/// The number of writes that the store has seen, and up to which value it knows values as reserved.
fn written(rig: &Rig) -> (u64, i64) {
    let stored = rig.memory.stored();
    (stored.writes, stored.record.mark.current_value)
}

fn reserve_ahead(rig: &Rig) {
    assert_eq!(rig.sequence.reserve_ahead(&rig.memory), Ok(()));
}

#[test]
fn nothing_is_reserved_ahead_of_the_first_value() {
    let rig = Rig::new(&sized(1, 20, 10));
    reserve_ahead(&rig);
    assert_eq!(rig.memory.stored().writes, 0);
}

#[test]
fn the_next_reserve_is_made_only_when_no_further_block_is_left() {
    let rig = Rig::new(&sized(1, 20, 10));
    rig.take_many(10);
    reserve_ahead(&rig);
    assert_eq!(written(&rig), (1, 20), "11 to 20 are a block of the first reserve");
    rig.take_many(1);
    reserve_ahead(&rig);
    assert_eq!(written(&rig), (2, 40));
}

#[test]
fn a_reserve_that_was_made_ahead_is_taken_without_a_write() {
    let rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(5);
    reserve_ahead(&rig);
    reserve_ahead(&rig);
    assert_eq!(written(&rig), (2, 20), "once");
    assert_eq!(rig.snapshot().reservations, 1, "no block of it is acquired yet");
    assert_eq!(rig.take_many(15), (6..=20).collect::<Vec<_>>());
    assert_eq!(written(&rig), (2, 20));
    assert_eq!(rig.snapshot().reservations, 2);
    rig.take_many(1);
    assert_eq!(written(&rig), (3, 30));
}

#[test]
fn a_crash_after_a_reserve_ahead_gives_no_value_twice() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(5);
    reserve_ahead(&rig);
    rig.crash();
    assert_eq!(rig.take(0), Ok(21));
    assert_eq!(rig.gaps().iter().map(|gap| gap.run.count()).sum::<u64>(), 15, "6 to 20");
    assert_eq!(rig.snapshot().lost, 15);
}

#[test]
fn a_close_after_a_reserve_ahead_loses_nothing() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(5);
    reserve_ahead(&rig);
    rig.reopen().expect("written");
    assert_eq!(rig.take(0), Ok(6));
}

#[test]
fn a_reserve_ahead_that_fails_is_made_when_it_is_needed() {
    let rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(5);
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.sequence.reserve_ahead(&rig.memory), Err(Failure::Disk));
    rig.memory.stored().failing_after = None;
    assert_eq!(rig.take_many(6), [6, 7, 8, 9, 10, 11]);
    assert_eq!(written(&rig), (2, 20));
}

#[test]
fn a_retired_sequence_reserves_nothing_ahead() {
    let mut rig = Rig::new(&sized(1, 10, 10));
    rig.take_many(5);
    let retired = rig.sequence.clone();
    rig.rename().expect("renamed");
    let refused = retired.reserve_ahead(&rig.memory).expect_err("it has a successor");
    assert_eq!(refused, Failure::Sequence(SequenceError::Retired));
    assert_ne!(code(&refused), 0);
}

#[test]
fn what_is_left_in_a_block_does_not_count_as_used() {
    let rig = Rig::new(&sized(1, 20, 10));
    assert_eq!(rig.sequence.used_up_to(), None);
    assert!(!rig.sequence.has_used(1));
    rig.take_many(3);
    assert_eq!(rig.sequence.used_up_to(), Some(3));
    assert_eq!([2, 3, 4].map(|value| rig.sequence.has_used(value)), [true, true, false]);
    rig.take_many(7);
    assert_eq!(rig.sequence.used_up_to(), Some(10));
}

/// A block can be given back only if nothing after it was taken.
#[test]
fn what_is_left_before_the_block_of_another_counts_as_used() {
    let rig = Rig::new(&sized(1, 100, 10));
    assert_eq!([rig.take(0), rig.take(1)], [Ok(1), Ok(11)]);
    assert_eq!(rig.sequence.used_up_to(), Some(11));
}

#[test]
fn entering_takes_the_next_value_of_a_block_only() {
    let rig = Rig::new(&sized(1, 2, 2));
    let slot = rig.slot(0);
    assert_eq!(rig.sequence.enter_taking(&slot).1, None, "there is no block");
    assert_eq!(rig.take(0), Ok(1));
    let (pass, value) = rig.sequence.enter_taking(&slot);
    assert_eq!(value, Some(2));
    assert_eq!(rig.sequence.safe_watermark(), Some(1), "2 is under way");
    drop(pass);
    assert_eq!(rig.sequence.safe_watermark(), Some(2));
    assert_eq!(rig.sequence.enter_taking(&slot).1, None, "the block is used up");
}
