//! The safe watermark: no value up to it can still become visible.

use std::sync::atomic::{AtomicBool, Ordering};

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::trace::Reach;

use crate::sequences::memory::{Failure, Rig, sized};

fn rig() -> Rig {
    Rig::new(&sized(1, 100, 10))
}

#[test]
fn it_follows_what_the_application_takes() {
    let rig = rig();
    assert_eq!(rig.sequence.safe_watermark(), None, "even the first value can");
    rig.take_many(3);
    assert_eq!(rig.sequence.safe_watermark(), Some(3));
    rig.take_many(7);
    assert_eq!(rig.sequence.safe_watermark(), Some(10));
}

#[test]
fn it_waits_for_writers_under_way() {
    let rig = rig();
    let slot = rig.slot(0);
    let first = rig.sequence.enter(&slot);
    assert_eq!(rig.take(0), Ok(1));
    let second = rig.sequence.enter(&slot);
    assert_eq!(rig.take(0), Ok(2));
    assert_eq!(rig.sequence.safe_watermark(), None);
    drop(second);
    assert_eq!(rig.sequence.safe_watermark(), None, "2 is visible, 1 is not");
    drop(first);
    assert_eq!(rig.sequence.safe_watermark(), Some(2));
}

/// A value that was handed out to an insert which is not yet committed may still turn up.
#[test]
fn a_trace_is_settled_once_no_writer_may_have_the_value() {
    let rig = rig();
    let slot = rig.slot(0);
    let settled = || [1, 2, 3].map(|value| rig.sequence.trace(value).is_settled);
    assert_eq!(settled(), [true; 3]);
    assert_eq!(rig.take(0), Ok(1));
    let writer = rig.sequence.enter(&slot);
    assert_eq!(rig.take(0), Ok(2));
    assert_eq!(settled(), [true, false, false], "1 was taken before the writer came");
    drop(writer);
    assert_eq!(settled(), [true; 3]);
}

/// Values that an acquirer holds in its block have not been handed out.
#[test]
fn values_in_blocks_are_still_to_come() {
    let mut rig = rig();
    assert_eq!([0, 1, 0].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(11), Ok(2)]);
    let reaches = |rig: &Rig| [2, 3, 10, 11, 12, 20, 21].map(|value| rig.sequence.trace(value).reach);
    let (passed, comes) = (Reach::Passed { round: 0 }, Reach::NotYet);
    assert_eq!(reaches(&rig), [passed, comes, comes, passed, comes, comes, comes]);
    rig.close_acquirer(1);
    rig.crash();
    assert_eq!(reaches(&rig), [passed; 7], "all that was reserved");
}

/// Writers of an ordered sequence do not register: what they take becomes visible before their turn ends.
#[test]
fn it_waits_for_the_turn_of_an_ordered_writer() {
    let rig = Rig::new(&Options { contract: Some(Contract::Ordered), ..sized(1, 100, 10) });
    let (asked, visible) = (AtomicBool::new(false), AtomicBool::new(false));
    let turn = rig.sequence.turn();
    turn.take(rig.sequence.shared(), 1, &rig.memory).expect("a value");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            asked.store(true, Ordering::SeqCst);
            assert_eq!(rig.sequence.safe_watermark(), Some(1));
            assert!(visible.load(Ordering::SeqCst), "1 became visible behind the watermark");
        });
        while !asked.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // Long enough for one that does not wait to be seen.
        (0..10_000).for_each(|_| std::thread::yield_now());
        visible.store(true, Ordering::SeqCst);
        drop(turn);
    });
}

#[test]
fn it_waits_for_values_that_other_acquirers_have() {
    let mut rig = rig();
    assert_eq!([rig.take(1), rig.take(0)], [Ok(1), Ok(11)]);
    assert_eq!(rig.sequence.safe_watermark(), Some(1), "2 to 10 may come");
    rig.close_acquirer(1);
    assert_eq!(rig.sequence.safe_watermark(), Some(11), "they are lost");
}

#[test]
fn it_follows_a_descending_sequence() {
    let rig = Rig::new(&Options { increment: Some(-1), ..sized(-1, 100, 10) });
    rig.take_many(3);
    assert_eq!(rig.sequence.safe_watermark(), Some(-3));
}

#[test]
fn it_stays_before_a_brought_value_until_that_is_visible() {
    let rig = rig();
    assert_eq!(rig.take(0), Ok(1));
    let slot = rig.slot(0);
    let pass = rig.sequence.enter(&slot);
    rig.announce(0, 50).expect("announced");
    assert_eq!(rig.sequence.safe_watermark(), Some(1));
    drop(pass);
    assert_eq!(rig.sequence.safe_watermark(), Some(50));
}

/// A writer without a block registered at a position after values that another acquirer gave back a moment
/// later. It took the first of them, and the watermark passed it.
#[test]
fn values_before_a_writer_are_not_given_back() {
    let mut rig = rig();
    assert_eq!(rig.take(1), Ok(1));
    let slot = rig.slot(2);
    let sequence = std::sync::Arc::clone(&rig.sequence);
    let pass = sequence.enter(&slot);
    rig.close_acquirer(1);
    let own = rig.take(2).expect("a value is left");
    let watermark = rig.sequence.safe_watermark().expect("some are visible");
    assert!(watermark < own, "{own} is not visible yet, and the watermark is {watermark}");
    drop(pass);
}

#[test]
fn values_behind_a_writer_are_given_back() {
    let mut rig = rig();
    let slot = rig.slot(1);
    let sequence = std::sync::Arc::clone(&rig.sequence);
    let pass = sequence.enter(&slot);
    assert_eq!(rig.take(1), Ok(1));
    rig.close_acquirer(1);
    assert_eq!((rig.take(2), rig.gaps()), (Ok(2), vec![]));
    assert_eq!(rig.sequence.safe_watermark(), None);
    drop(pass);
}

#[test]
fn the_next_value_of_a_writer_is_given_back_too() {
    let mut rig = rig();
    assert_eq!(rig.take(1), Ok(1));
    let sequence = std::sync::Arc::clone(&rig.sequence);
    let pass = sequence.enter(&rig.slot(1));
    rig.close_acquirer(1);
    assert_eq!((rig.take(2), rig.gaps()), (Ok(2), vec![]));
    assert_eq!(rig.sequence.safe_watermark(), Some(1), "2 may still become visible");
    drop(pass);
}

#[test]
fn a_failed_change_leaves_it_where_it_was() {
    let rig = rig();
    rig.take_many(3);
    let slot = rig.slot(0);
    let pass = rig.sequence.enter(&slot);
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.restart(50), Err(Failure::Disk));
    rig.memory.stored().failing_after = None;
    assert_eq!(rig.take(0), Ok(4));
    assert_eq!(rig.sequence.safe_watermark(), Some(3));
    drop(pass);
}

#[test]
fn it_starts_again_with_the_sequence() {
    let rig = rig();
    rig.take_many(3);
    rig.restart(1).expect("restarted");
    assert_eq!(rig.sequence.safe_watermark(), None);
    rig.take_many(2);
    assert_eq!(rig.sequence.safe_watermark(), Some(2));
}
