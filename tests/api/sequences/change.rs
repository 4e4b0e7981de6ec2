//! `alter`, `set_current_value` and `restart`: what the next values are, and what changes nothing.

use cairndb::bson::{Document, doc};

use super::{Numbers, sequence_refuses};

/// A sequence of which some values are drawn, is altered, and gives these values next.
#[track_caller]
fn altered((options, taken): (Document, usize), change: Document, next: &[i64]) -> Numbers {
    let numbers = Numbers::with(options);
    numbers.take(taken);
    let version = numbers.snapshot().version;
    numbers.alter(change);
    assert_eq!(numbers.snapshot().version, version + 1);
    assert_eq!(numbers.take(next.len()), next);
    numbers
}

fn tens() -> Document {
    doc! { "AcquireSize": 10, "CacheSize": 100 }
}

fn singles() -> Document {
    doc! { "AcquireSize": 1, "CacheSize": 1 }
}

#[test]
fn another_increment_goes_on_from_the_last_block() {
    let numbers = altered((tens(), 30), doc! { "Increment": 2 }, &[32]);
    let [second, third] = numbers.acquirers();
    assert_eq!(second.next_value().run().unwrap(), 52);
    assert_eq!(third.next_value().run().unwrap(), 72);
    altered((singles(), 3), doc! { "Increment": 10 }, &[13, 23]);
}

#[test]
fn an_increment_of_the_other_sign_turns_the_sequence() {
    let numbers = altered((doc! {}, 3), doc! { "Increment": -1 }, &[999, 998, 997]);
    numbers.shows(doc! { "CurrentValue": 1_i64, "MinValue": 1_i64 });
    numbers.take(996);
    numbers.is_used_up();
    altered(
        (doc! { "Increment": -1, "AcquireSize": 100, "CacheSize": 1000, "MaxValue": 50 }, 3),
        doc! { "Increment": 1 },
        &[-99, -98],
    );
}

#[test]
fn another_start_counts_only_while_nothing_was_taken() {
    let numbers = altered((doc! {}, 0), doc! { "StartValue": 50 }, &[50, 51]);
    numbers.shows(doc! { "StartValue": 50_i64 });
    let numbers = altered((singles(), 3), doc! { "StartValue": 50 }, &[4]);
    numbers.shows(doc! { "StartValue": 50_i64 });
    let numbers = Numbers::with(doc! {});
    numbers.sequence.restart(700).run().unwrap();
    numbers.alter(doc! { "StartValue": 50 });
    assert_eq!(numbers.next(), 50, "a new start overrides the value that restart set");
}

#[test]
fn a_greater_limit_brings_an_exhausted_sequence_back() {
    let numbers = Numbers::with(doc! { "MaxValue": 3, "CacheSize": 3, "AcquireSize": 3 });
    numbers.take(3);
    numbers.is_used_up();
    numbers.alter(doc! { "MaxValue": 5 });
    assert_eq!(numbers.take(2), [4, 5]);
    numbers.is_used_up();
}

#[test]
fn a_limit_behind_the_last_value_exhausts_or_starts_over() {
    altered((singles(), 5), doc! { "MaxValue": 3 }, &[]).is_used_up();
    altered((singles(), 5), doc! { "MaxValue": 3, "Cycled": true }, &[1, 2, 3, 1]);
    let descending = doc! { "Increment": -1, "AcquireSize": 1, "CacheSize": 1 };
    altered((descending.clone(), 5), doc! { "MinValue": -3 }, &[]).is_used_up();
    altered((descending, 5), doc! { "MinValue": -3, "Cycled": true }, &[-1, -2, -3, -1]);
}

#[test]
fn a_least_value_above_the_last_one_exhausts_instead_of_jumping() {
    let numbers = altered((singles(), 5), doc! { "MinValue": 10, "StartValue": 20 }, &[]);
    numbers.is_used_up();
    numbers.alter(doc! { "CurrentValue": 10 });
    assert_eq!(numbers.next(), 11);
    altered((singles(), 5), doc! { "MinValue": 10, "StartValue": 20, "Cycled": true }, &[10, 11]);
}

#[test]
fn sizes_count_from_the_next_reserve_and_block() {
    let numbers = altered((doc! {}, 3), doc! { "AcquireSize": 5, "CacheSize": 50 }, &[1001]);
    numbers.shows(doc! { "CurrentValue": 1050_i64 });
    assert_eq!(numbers.block(), (1002, 4));
    assert_eq!(numbers.block(), (1006, 5));
}

#[test]
fn cycled_starts_an_exhausted_sequence_over() {
    let numbers = Numbers::with(doc! { "MaxValue": 2, "CacheSize": 1, "AcquireSize": 1 });
    numbers.take(2);
    numbers.is_used_up();
    numbers.alter(doc! { "Cycled": true });
    assert_eq!(numbers.take(3), [1, 2, 1]);
    numbers.shows(doc! { "CycledCount": 2 });
    numbers.alter(doc! { "Cycled": true });
    numbers.shows(doc! { "CycledCount": 2 });
    numbers.alter(doc! { "Cycled": false });
    numbers.shows(doc! { "CycledCount": 0 });
    assert_eq!(numbers.next(), 2);
    numbers.is_used_up();
}

#[test]
fn a_current_value_counts_as_used() {
    altered((doc! {}, 3), doc! { "CurrentValue": 500 }, &[501, 502]);
    altered((doc! {}, 30), doc! { "CurrentValue": 7 }, &[8, 9]);
    altered((doc! { "Increment": 10 }, 3), doc! { "CurrentValue": 15 }, &[25, 35]);
    altered((doc! {}, 0), doc! { "CurrentValue": 1 }, &[2]);
    altered((doc! {}, 0), doc! { "CurrentValue": i64::MAX }, &[]).is_used_up();
    altered((doc! { "Increment": -1 }, 2), doc! { "CurrentValue": -100 }, &[-101]);
    let cycled = doc! { "MaxValue": 9, "CacheSize": 1, "AcquireSize": 1, "Cycled": true };
    altered((cycled, 2), doc! { "CurrentValue": 9 }, &[1, 2]);
}

#[test]
fn a_current_value_equal_to_the_stored_one_takes_effect() {
    let options = doc! { "AcquireSize": 10 };
    let numbers = Numbers::with(options);
    numbers.take(3);
    numbers.shows(doc! { "CurrentValue": 1000_i64 });
    numbers.alter(doc! { "CurrentValue": 1000 });
    assert_eq!(numbers.next(), 1001);
}

#[test]
fn every_change_gives_up_all_blocks() {
    let numbers = Numbers::with(tens());
    let [other] = numbers.acquirers();
    assert_eq!((numbers.next(), other.next_value().run().unwrap()), (1, 11));
    numbers.alter(doc! { "CacheSize": 99 });
    assert_eq!((numbers.next(), other.next_value().run().unwrap()), (21, 31));
}

#[test]
fn options_of_one_call_change_together_or_not_at_all() {
    let numbers = Numbers::with(tens());
    numbers.take(3);
    let before = numbers.snapshot();
    sequence_refuses(numbers.try_alter(doc! { "Increment": 5, "MaxValue": 0 }), -6, "MinValue must");
    sequence_refuses(numbers.try_alter(doc! { "CurrentValue": 0, "Increment": 5 }), -6, "CurrentValue must");
    assert_eq!(numbers.snapshot(), before);
    assert_eq!(numbers.next(), 4, "the block was kept");
    numbers.alter(doc! { "Increment": 5, "MaxValue": 500, "CurrentValue": 490 });
    assert_eq!(numbers.take(2), [495, 500]);
}

#[test]
fn changes_survive_a_reopen() {
    let numbers = Numbers::with(tens());
    numbers.take(3);
    numbers.alter(doc! { "Increment": 5, "CurrentValue": 100, "Contract": "gapless" });
    let before = numbers.snapshot();
    assert_eq!(numbers.killed().snapshot().attributes_of(), before.attributes_of());
    let numbers = numbers.reopened();
    assert_eq!(numbers.snapshot().attributes_of(), before.attributes_of());
    assert_eq!(numbers.next(), 105);
}

/// The parts that `changes_survive_a_reopen` holds to be the same.
trait Lasting {
    fn attributes_of(&self) -> (i64, i64, i32, String);
}

impl Lasting for cairndb::SequenceSnapshot {
    fn attributes_of(&self) -> (i64, i64, i32, String) {
        (self.version, self.current_value, self.increment, self.contract.clone())
    }
}

#[test]
fn a_current_value_is_set_within_the_block() {
    let numbers = Numbers::with(doc! {});
    numbers.take(3);
    numbers.sequence.set_current_value(500).run().unwrap();
    assert_eq!(numbers.next(), 501);
    let tens = Numbers::with(doc! { "Increment": 10 });
    tens.next();
    tens.sequence.set_current_value(15).run().unwrap();
    assert_eq!(tens.next(), 21);
    tens.shows(doc! { "Version": 0_i64 });
}

#[test]
fn a_current_value_is_set_for_every_acquirer() {
    let numbers = Numbers::with(doc! { "AcquireSize": 100 });
    let [first, second, third] = numbers.acquirers();
    for acquirer in [&first, &second, &third] {
        acquirer.fetch(56).run().unwrap();
    }
    second.set_current_value(180).run().unwrap();
    let next = |sequence: &cairndb::Sequence| sequence.next_value().run().unwrap();
    assert_eq!([next(&second), next(&first), next(&third)], [181, 301, 257]);
}

#[test]
fn a_current_value_beyond_the_block_gives_up_all_blocks() {
    let numbers = Numbers::with(doc! { "AcquireSize": 100 });
    let [other] = numbers.acquirers();
    numbers.next();
    other.next_value().run().unwrap();
    numbers.sequence.set_current_value(5000).run().unwrap();
    assert_eq!((numbers.next(), other.next_value().run().unwrap()), (5001, 5101));
    let tens = Numbers::with(doc! { "Increment": 10, "AcquireSize": 1, "CacheSize": 1 });
    tens.next();
    tens.sequence.set_current_value(15).run().unwrap();
    assert_eq!(tens.next(), 21, "the first term strictly beyond, whatever the size of blocks");
}

#[test]
fn a_current_value_never_goes_back() {
    let numbers = Numbers::with(doc! { "AcquireSize": 100 });
    let [other] = numbers.acquirers();
    numbers.take(5);
    other.next_value().run().unwrap();
    let set = |value| numbers.sequence.set_current_value(value).run();
    sequence_refuses(set(5), -361, "5 is not ahead of the sequence");
    sequence_refuses(set(0), -361, "0 is not ahead of the sequence");
    sequence_refuses(set(-9), -361, "-9 is not ahead of the sequence");
    sequence_refuses(set(150), -361, "150 is not ahead of the sequence");
    assert_eq!(numbers.next(), 6);
}

#[test]
fn setting_an_unused_sequence_first_makes_its_first_reserve() {
    let numbers = Numbers::with(doc! {});
    sequence_refuses(numbers.sequence.set_current_value(1).run(), -361, "1 is not ahead");
    numbers.shows(doc! { "CurrentValue": 1000_i64, "Initial": false });
    numbers.sequence.set_current_value(1001).run().unwrap();
    assert_eq!(numbers.next(), 1002);
    let numbers = Numbers::with(doc! {});
    numbers.sequence.set_current_value(500).run().unwrap();
    assert_eq!(numbers.sequence.current_value().run().unwrap(), 1000);
    assert_eq!(numbers.next(), 501);
}

#[test]
fn the_first_reserve_of_an_unused_sequence_stays_within_the_limit() {
    let numbers = Numbers::with(doc! { "StartValue": 1500, "MaxValue": 2000, "AcquireSize": 300 });
    sequence_refuses(numbers.sequence.set_current_value(1500).run(), -361, "1500 is not ahead");
    numbers.shows(doc! { "CurrentValue": 2000_i64 });
    assert_eq!([numbers.block(), numbers.block()], [(1501, 300), (1801, 200)]);
    numbers.is_used_up();
}

#[test]
fn a_restarted_sequence_is_set_from_where_it_was_restarted() {
    let numbers = Numbers::with(doc! {});
    numbers.sequence.restart(5000).run().unwrap();
    sequence_refuses(numbers.sequence.set_current_value(10).run(), -361, "10 is not ahead");
    assert_eq!(numbers.next(), 5001);
}

#[test]
fn a_current_value_beyond_the_limit_uses_the_sequence_up() {
    let limited = doc! { "MaxValue": 2000, "AcquireSize": 10 };
    let numbers = Numbers::with(limited.clone());
    numbers.next();
    numbers.sequence.set_current_value(9999).run().unwrap();
    numbers.is_used_up();
    sequence_refuses(numbers.sequence.set_current_value(10_000).run(), -361, "no value is left up to 2000");
    let cycled = limited.into_iter().chain(doc! { "Cycled": true }).collect();
    let numbers = Numbers::with(cycled);
    numbers.next();
    numbers.sequence.set_current_value(2000).run().unwrap();
    assert_eq!(numbers.next(), 1);
}

#[test]
fn a_restart_gives_its_value_next() {
    let numbers = Numbers::with(doc! {});
    numbers.take(30);
    numbers.sequence.restart(7).run().unwrap();
    numbers.shows(doc! { "CurrentValue": 7_i64, "Initial": true, "StartValue": 1_i64, "Version": 0_i64, "Exhausted": false });
    sequence_refuses(numbers.sequence.current_value().run(), -362, "has not been used yet");
    assert_eq!(numbers.take(2), [7, 8]);
    sequence_refuses(numbers.sequence.restart(0).run(), -6, "value must be within MinValue 1 and MaxValue");
    assert_eq!(numbers.next(), 9);
}

#[test]
fn a_restart_brings_an_exhausted_sequence_back_and_keeps_how_often_it_started_over() {
    let numbers = Numbers::with(doc! { "MaxValue": 3, "CacheSize": 3, "AcquireSize": 3, "Cycled": true });
    numbers.take(4);
    numbers.sequence.restart(2).run().unwrap();
    numbers.shows(doc! { "CycledCount": 1 });
    assert_eq!(numbers.take(3), [2, 3, 1]);
    let numbers = Numbers::with(doc! { "StartValue": i64::MAX });
    numbers.next();
    numbers.is_used_up();
    numbers.sequence.restart(i64::MAX).run().unwrap();
    assert_eq!(numbers.next(), i64::MAX);
}

#[test]
fn a_restart_gives_up_all_blocks() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10 });
    let [other] = numbers.acquirers();
    numbers.next();
    other.next_value().run().unwrap();
    numbers.sequence.restart(1).run().unwrap();
    assert_eq!((other.next_value().run().unwrap(), numbers.next()), (1, 11));
}

#[test]
fn the_contract_changes_like_any_attribute() {
    let numbers = Numbers::with(doc! {});
    assert_eq!(numbers.take(2), [1, 2]);
    numbers.alter(doc! { "Contract": "gapless" });
    assert_eq!(numbers.take(2), [1001, 1002]);
    numbers.alter(doc! { "Contract": "ordered" });
    assert_eq!(numbers.take(2), [1003, 1004]);
    numbers.alter(doc! { "Contract": "fast" });
    assert_eq!(numbers.next(), 2003);
}
