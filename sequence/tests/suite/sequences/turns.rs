//! Ordered and gapless sequences: turns, and numberings that are published or given up.

use std::time::Duration;

use cairndb_sequence::allocator::Sequence;
use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::error::SequenceError;
use cairndb_sequence::store::{Cause, Gap, Store};

use crate::sequences::memory::{Failure, Rig, code, sized};

fn with(contract: Contract) -> Options {
    Options { contract: Some(contract), ..sized(1, 100, 10) }
}

fn gapless() -> Rig {
    Rig::new(&with(Contract::Gapless))
}

/// Numbers `count` documents, writes them and publishes the numbering.
#[track_caller]
fn number(rig: &Rig, count: usize) -> Vec<i64> {
    let turn = rig.sequence.turn();
    let mut numbering = turn.number().expect("a gapless sequence");
    let values = (0..count).map(|_| numbering.take().expect("a value is left")).collect();
    let receipt = rig.memory.write(&numbering.mark(), numbering.gaps()).expect("written");
    turn.publish(numbering, receipt);
    values
}

#[test]
fn a_published_numbering_is_written_with_its_documents() {
    let mut rig = gapless();
    assert_eq!(number(&rig, 3), [1, 2, 3]);
    assert_eq!(rig.snapshot().current_value, 3, "nothing is reserved ahead");
    rig.crash();
    assert_eq!(number(&rig, 2), [4, 5]);
    assert_eq!((rig.gaps(), rig.snapshot().reservations), (vec![], 2));
}

#[test]
fn an_abandoned_numbering_leaves_no_trace() {
    let rig = gapless();
    number(&rig, 2);
    let before = rig.snapshot();
    {
        let turn = rig.sequence.turn();
        let mut numbering = turn.number().expect("a gapless sequence");
        assert_eq!((numbering.take(), numbering.take()), (Ok(3), Ok(4)));
        numbering.announce(50);
        assert_eq!(numbering.take(), Ok(51));
        assert_eq!(numbering.gaps().len(), 1);
    }
    assert_eq!(rig.snapshot(), before);
    assert_eq!((number(&rig, 1), rig.gaps()), (vec![3], vec![]));
}

#[test]
fn a_numbering_may_go_back_to_a_copy_of_itself() {
    let rig = gapless();
    let turn = rig.sequence.turn();
    let mut numbering = turn.number().expect("a gapless sequence");
    assert_eq!(numbering.take(), Ok(1));
    let accepted = numbering.clone();
    assert_eq!(numbering.take(), Ok(2), "its document is refused");
    let receipt = rig.memory.write(&accepted.mark(), accepted.gaps()).expect("written");
    turn.publish(accepted, receipt);
    assert_eq!(turn.number().expect("again").take(), Ok(2));
}

#[test]
fn a_numbering_lists_what_a_brought_value_passes() {
    let mut rig = gapless();
    {
        let turn = rig.sequence.turn();
        let mut numbering = turn.number().expect("a gapless sequence");
        assert_eq!(numbering.take(), Ok(1));
        for behind in [1, 0, -7, i64::MIN] {
            numbering.announce(behind);
        }
        numbering.announce(2);
        numbering.announce(10);
        assert_eq!(numbering.take(), Ok(11));
        let receipt = rig.memory.write(&numbering.mark(), numbering.gaps()).expect("written");
        turn.publish(numbering, receipt);
    }
    let gaps = rig.gaps();
    let [gap] = gaps.as_slice() else { panic!("one gap: {gaps:?}") };
    assert_eq!((gap.run.first(), gap.run.last(), gap.cause), (3, 9, Cause::ExplicitValue));
    assert_eq!(rig.snapshot().lost, 7);
    rig.crash();
    assert_eq!(number(&rig, 1), [12]);
}

/// The number may be on disk with its document, so it must not be given to another one.
#[test]
fn a_failed_write_of_a_number_stops_the_sequence_until_it_is_loaded_again() {
    let mut rig = Rig::new(&Options { contract: Some(Contract::Gapless), ..Options::default() });
    assert_eq!(rig.take(0), Ok(1));
    let turn = rig.sequence.turn();
    let mut numbering = turn.number().expect("gapless");
    assert_eq!(numbering.take(), Ok(2));
    turn.stage();
    // The write fails, but its mark is on disk.
    rig.memory.write(&numbering.mark(), numbering.gaps()).expect("written");
    drop(turn);
    let in_doubt = Err(Failure::Sequence(SequenceError::InDoubt));
    assert_eq!(rig.take(0), in_doubt);
    assert_eq!(rig.announce(0, 50), in_doubt.clone().map(|_: i64| ()));
    assert_eq!(rig.restart(1), in_doubt.clone().map(|_: i64| ()));
    assert_eq!(
        rig.alter(&Options { contract: Some(Contract::Fast), ..Options::default() }),
        in_doubt.map(|_| ())
    );
    assert_eq!(rig.sequence.turn().number().err(), Some(SequenceError::InDoubt));
    assert_eq!(rig.snapshot().last_used, Some(1), "looking is allowed");
    assert!(rig.sequence.close().is_none(), "the mark on disk is not replaced");
    rig.crash();
    assert_eq!(rig.take(0), Ok(3));
}

#[test]
fn a_numbering_that_is_staged_and_published_goes_on() {
    let rig = Rig::new(&Options { contract: Some(Contract::Gapless), ..Options::default() });
    for value in 1..=3 {
        let turn = rig.sequence.turn();
        let mut numbering = turn.number().expect("gapless");
        assert_eq!(numbering.take(), Ok(value));
        turn.stage();
        let receipt = rig.memory.write(&numbering.mark(), numbering.gaps()).expect("written");
        turn.publish(numbering, receipt);
    }
    assert_eq!(rig.take(0), Ok(4));
}

#[test]
fn numberings_end_and_wrap_as_the_sequence_does() {
    let small = Options { max_value: Some(3), ..with(Contract::Gapless) };
    let small = Options { cache_size: Some(3), acquire_size: Some(3), ..small };
    let rig = Rig::new(&small);
    number(&rig, 3);
    let refused = rig.sequence.turn().number().expect("a gapless sequence").take();
    assert_eq!(refused.map_err(|error| error.sequoia_code()), Err(-325));
    let rig = Rig::new(&Options { cycled: Some(true), ..small });
    assert_eq!(number(&rig, 5), [1, 2, 3, 1, 2]);
    assert_eq!(rig.snapshot().cycled_count, 1);
}

#[test]
fn values_taken_one_by_one_are_written_one_by_one() {
    let mut rig = gapless();
    assert_eq!([rig.take(0), rig.take(1), rig.take(0)], [Ok(1), Ok(2), Ok(3)], "no acquirer has a block");
    assert_eq!(rig.memory.stored().writes, 3);
    assert_eq!(rig.fetch(0, 1_000), Ok((4, 10)), "up to AcquireSize values");
    assert_eq!(rig.memory.mark().current_value, 13);
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.take(0), Err(Failure::Disk));
    rig.crash();
    assert_eq!((rig.take(0), rig.gaps()), (Ok(14), vec![]));
}

/// A value that a document brings made a block of one value, which no writer took.
#[test]
fn a_brought_value_takes_nothing_from_a_gapless_sequence() {
    let rig = gapless();
    rig.announce(0, -5).expect("announced");
    assert!(rig.snapshot().initial);
    rig.announce(0, 3).expect("announced");
    assert_eq!(rig.take(0), Ok(4));
    rig.memory.stored().failing_after = Some(0);
    assert_eq!(rig.announce(0, 20), Err(Failure::Disk));
    rig.memory.stored().failing_after = None;
    rig.sequence.turn().announce(4, &rig.memory).expect("announced");
    assert_eq!(rig.take(0), Ok(5));
    assert_eq!(rig.snapshot().lost, 2, "1 and 2");
}

/// A numbering works on a copy of the state. In the other contracts values can be taken meanwhile, and the
/// copy would hand them out again.
#[test]
fn only_a_gapless_sequence_is_numbered() {
    for contract in [Contract::Fast, Contract::Ordered] {
        let rig = Rig::new(&with(contract));
        let refused = rig.sequence.turn().number().map(|_| ());
        assert_eq!(refused.map_err(|error| error.sequoia_code()), Err(-324));
    }
    let rig = gapless();
    rig.sequence.retire();
    assert!(rig.sequence.turn().number().is_err());
}

#[test]
fn an_ordered_sequence_has_one_block_for_all_acquirers() {
    let rig = Rig::new(&with(Contract::Ordered));
    assert_eq!([0, 1, 2, 0].map(|acquirer| rig.take(acquirer)), [Ok(1), Ok(2), Ok(3), Ok(4)]);
    assert_eq!([rig.current_value(0), rig.current_value(2)], [Ok(4), Ok(4)]);
    assert_eq!(rig.snapshot().last_used, Some(4));
    rig.announce(2, 8).expect("announced");
    assert_eq!(rig.take(1), Ok(9));
    rig.set_current_value(1, 9).expect_err("it is handed out");
    rig.sequence.turn().give_up();
    assert_eq!(rig.take(1), Ok(11));
}

#[test]
fn a_writer_takes_its_values_within_its_turn() {
    let rig = Rig::new(&with(Contract::Ordered));
    let turn = rig.sequence.turn();
    let taken = turn.take(rig.sequence.shared(), 3, &rig.memory).expect("values");
    assert_eq!((taken.run.first(), taken.run.count()), (1, 3));
    turn.announce(20, &rig.memory).expect("announced");
    assert_eq!(turn.take(rig.sequence.shared(), 3, &rig.memory).map(|taken| taken.run.first()), Ok(21));
    assert!(rig.memory.is_durable(taken.receipt));
}

#[test]
fn a_turn_takes_from_the_slot_of_a_fast_sequence() {
    let rig = Rig::new(&with(Contract::Fast));
    let slot = rig.slot(1);
    let turn = rig.sequence.turn();
    assert_eq!(turn.take(&slot, 2, &rig.memory).map(|taken| taken.run.first()), Ok(1));
    drop(turn);
    assert_eq!([rig.take(1), rig.take(0)], [Ok(3), Ok(11)]);
}

#[test]
fn the_contract_changes_with_the_attributes() {
    let rig = Rig::new(&with(Contract::Fast));
    rig.take_many(3);
    let mut next = Vec::new();
    for contract in [Contract::Ordered, Contract::Gapless, Contract::Fast] {
        rig.alter(&Options { contract: Some(contract), ..Options::default() }).expect("altered");
        assert_eq!(rig.sequence.contract(), contract);
        next.push(rig.take(0).expect("a value is left"));
    }
    assert_eq!(next, [11, 21, 22], "blocks are dropped");
}

#[test]
fn a_clean_close_gives_the_ordered_block_back() {
    let mut rig = Rig::new(&with(Contract::Ordered));
    rig.take_many(3);
    rig.reopen().expect("closed");
    assert_eq!((rig.take(0), rig.gaps()), (Ok(4), vec![]));
}

#[test]
fn after_a_close_nothing_is_taken() {
    let rig = Rig::new(&with(Contract::Fast));
    rig.take_many(3);
    assert!(rig.sequence.close().is_some_and(|(mark, gaps)| mark.clean && gaps.is_empty()));
    assert_eq!(rig.sequence.close(), None, "once");
    let refused = [rig.take(0), rig.take(1)].map(|result| result.map_err(|error| code(&error)));
    assert_eq!(refused, [Err(-324), Err(-324)]);
    assert_eq!(
        Rig::new(&with(Contract::Fast)).sequence.close(),
        None,
        "the store holds an unused one already"
    );
}

#[test]
fn a_kept_turn_is_waited_for_and_the_watermark_is_not() {
    let rig = Rig::new(&with(Contract::Ordered));
    let kept = Sequence::keep_turn(&rig.sequence, Duration::ZERO).expect("no writer has it");
    let taken = kept.turn_of(&rig.sequence).take(rig.sequence.shared(), 2, &rig.memory).expect("values");
    assert_eq!(taken.run.values().collect::<Vec<_>>(), [1, 2]);
    assert!(rig.sequence.turn_within(Duration::from_millis(1)).is_none());
    assert!(Sequence::keep_turn(&rig.sequence, Duration::ZERO).is_none());
    assert_eq!(rig.sequence.safe_watermark(), None);
    assert!(!rig.sequence.trace(2).is_settled);
    std::thread::spawn(move || drop(kept)).join().expect("it ends in any thread");
    assert_eq!((rig.sequence.safe_watermark(), rig.sequence.trace(2).is_settled), (Some(2), true));
    assert!(Sequence::keep_turn(&rig.sequence, Duration::ZERO).is_some());
}

#[test]
fn values_of_an_aborted_writer_are_listed() {
    let mut rig = Rig::new(&with(Contract::Ordered));
    let kept = Sequence::keep_turn(&rig.sequence, Duration::ZERO).expect("no writer has it");
    let taken = kept.turn_of(&rig.sequence).take(rig.sequence.shared(), 2, &rig.memory).expect("values");
    rig.sequence.list_lost(taken.run, Cause::Aborted);
    drop(kept);
    let lost = Gap { run: taken.run, cause: Cause::Aborted };
    assert_eq!(rig.sequence.pending_gaps(), [lost]);
    rig.reopen().expect("closed in order");
    assert_eq!((rig.gaps(), rig.take(0)), (vec![lost], Ok(3)));
}

#[test]
fn a_write_that_was_refused_leaves_no_doubt() {
    let rig = gapless();
    {
        let turn = rig.sequence.turn();
        assert_eq!(turn.number().expect("a gapless sequence").take(), Ok(1));
        turn.stage();
        turn.unstage();
    }
    assert_eq!(number(&rig, 1), [1]);
}
