//! Which values a sequence gives: its blocks and reserves, both ends of its range, and starting over.

use cairndb::bson::{Document, doc};

use super::{Numbers, sequence_refuses};

/// Blocks that are acquired one after the other, each with the `CurrentValue` behind it.
#[track_caller]
fn blocks(options: Document, expected: &[(i64, i32, i64)]) -> Numbers {
    let numbers = Numbers::with(options);
    for (first, count, current_value) in expected {
        assert_eq!(numbers.block(), (*first, *count));
        numbers.shows(doc! { "CurrentValue": *current_value, "Initial": false });
    }
    numbers
}

#[test]
fn a_reserve_is_written_every_thousand_values() {
    let numbers = Numbers::with(doc! {});
    assert_eq!(numbers.next(), 1);
    numbers.shows(doc! { "CurrentValue": 1000_i64, "Initial": false, "Reservations": 1_i64 });
    assert_eq!(numbers.take(999), (2..=1000).collect::<Vec<_>>());
    numbers.shows(doc! { "CurrentValue": 1000_i64, "Reservations": 1_i64 });
    assert_eq!(numbers.next(), 1001);
    numbers.shows(doc! { "CurrentValue": 2000_i64, "Reservations": 2_i64 });
}

#[test]
fn the_first_reserve_of_single_values_is_the_first_value() {
    let numbers = Numbers::with(doc! { "AcquireSize": 1 });
    for (value, current_value) in [(1, 1_i64), (2, 1001), (3, 1001)] {
        assert_eq!(numbers.next(), value);
        numbers.shows(doc! { "CurrentValue": current_value });
    }
}

#[test]
fn a_block_may_straddle_two_reserves() {
    let expected = [(1, 10, 25), (11, 10, 25), (21, 10, 50), (31, 10, 50), (41, 10, 50), (51, 10, 75)];
    blocks(doc! { "AcquireSize": 10, "CacheSize": 25 }, &expected);
}

#[test]
fn the_last_block_is_cut_at_the_limit() {
    let options = doc! { "Increment": 7, "MaxValue": 100, "CacheSize": 15, "AcquireSize": 4 };
    let numbers = blocks(options, &[(1, 4, 99), (29, 4, 99), (57, 4, 99), (85, 3, 99)]);
    numbers.is_used_up();
    numbers.is_used_up();
    numbers.shows(doc! { "Exhausted": true, "Remaining": 0_i64 });
    let options =
        doc! { "Increment": -1000, "StartValue": i64::MIN + 2500, "CacheSize": 3, "AcquireSize": 2 };
    blocks(options, &[(i64::MIN + 2500, 2, i64::MIN + 500), (i64::MIN + 500, 1, i64::MIN + 500)])
        .is_used_up();
}

#[test]
fn starting_over_begins_at_the_other_end() {
    let options = doc! { "Increment": 2, "StartValue": 4, "MaxValue": 10, "CacheSize": 4, "AcquireSize": 3, "Cycled": true };
    let numbers = blocks(options, &[(4, 3, 10), (10, 1, 10), (1, 3, 7)]);
    numbers.shows(doc! { "CycledCount": 1 });
    assert_eq!(numbers.block(), (7, 2));
    numbers.shows(doc! { "CurrentValue": 9_i64, "CycledCount": 1 });
    assert_eq!(numbers.block(), (1, 3));
    numbers.shows(doc! { "CycledCount": 2 });
    let options = doc! { "StartValue": 10, "Increment": 10, "MaxValue": 35, "CacheSize": 1, "AcquireSize": 1, "Cycled": true };
    assert_eq!(Numbers::with(options).take(7), [10, 20, 30, 1, 11, 21, 31]);
    let options = doc! { "Increment": -10, "StartValue": 25, "MinValue": 1, "MaxValue": 35, "CacheSize": 1, "AcquireSize": 1, "Cycled": true };
    assert_eq!(Numbers::with(options).take(7), [25, 15, 5, 35, 25, 15, 5]);
    let numbers = Numbers::with(doc! { "MaxValue": 6, "CacheSize": 2, "AcquireSize": 2, "Cycled": true });
    assert_eq!(numbers.next(), 1);
    numbers.shows(doc! { "CurrentValue": 2_i64 });
    assert_eq!(numbers.take(6), [2, 3, 4, 5, 6, 1]);
    numbers.shows(doc! { "CurrentValue": 2_i64 });
    assert_eq!(numbers.sequence.current_value().run().unwrap(), 1);
}

#[test]
fn the_ends_of_64_bits_are_ordinary_limits() {
    let numbers = Numbers::with(doc! { "StartValue": i64::MAX });
    assert_eq!(numbers.next(), i64::MAX);
    numbers.is_used_up();
    let numbers = Numbers::with(doc! { "StartValue": i64::MIN, "Increment": -1 });
    assert_eq!(numbers.next(), i64::MIN);
    numbers.is_used_up();
    let numbers =
        Numbers::with(doc! { "MinValue": i64::MIN, "MaxValue": i64::MAX, "Increment": 2_147_483_647 });
    assert_eq!(numbers.take(2), [1, 2_147_483_648]);
    let fetched = numbers.sequence.fetch(800).run().unwrap();
    assert_eq!(fetched.values().last(), Some(1 + 2_147_483_647 * 801));
    numbers.alter(doc! { "CurrentValue": i64::MAX });
    numbers.is_used_up();
    numbers.alter(doc! { "CurrentValue": i64::MAX - 2_147_483_647 });
    assert_eq!(numbers.next(), i64::MAX);
    numbers.is_used_up();
}

#[test]
fn every_term_up_to_the_limit_is_given_once() {
    let options =
        doc! { "Increment": 13, "AcquireSize": 11, "CacheSize": 33, "MinValue": -1333, "MaxValue": 13001 };
    let numbers = Numbers::with(options);
    assert_eq!(numbers.take(1001), (0..1001).map(|term| 1 + 13 * term).collect::<Vec<_>>());
    numbers.is_used_up();
    numbers.alter(doc! { "Cycled": true });
    let acquirers = numbers.acquirers::<3>();
    let firsts = acquirers.each_ref().map(|acquirer| acquirer.next_value().run().unwrap());
    assert_eq!(firsts, [-1333, -1190, -1047]);
}

#[test]
fn fetch_gives_at_most_the_rest_of_a_block() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10, "CacheSize": 100, "Increment": 5 });
    let fetch = |count| {
        let fetched = numbers.sequence.fetch(count).run().unwrap();
        assert_eq!(fetched.increment, 5);
        fetched.values().collect::<Vec<_>>()
    };
    assert_eq!(fetch(3), [1, 6, 11]);
    assert_eq!(fetch(1), [16]);
    assert_eq!(fetch(100), [21, 26, 31, 36, 41, 46]);
    assert_eq!(fetch(100).len(), 10);
    assert_eq!(numbers.next(), 101);
}

#[test]
fn fetch_asks_for_one_value_at_least() {
    let numbers = Numbers::with(doc! {});
    for count in [0, -1, i64::MIN, 2_147_483_648] {
        let words = format!("count must be within 1 and 2147483647, not {count}");
        sequence_refuses(numbers.sequence.fetch(count).run(), -6, &words);
    }
    numbers.shows(doc! { "Initial": true });
}

#[test]
fn the_current_value_is_the_last_one_taken() {
    let numbers = Numbers::with(doc! {});
    let current = || numbers.sequence.current_value().run();
    sequence_refuses(current(), -362, "has not been used yet");
    numbers.next();
    assert_eq!(current().unwrap(), 1);
    numbers.sequence.fetch(10).run().unwrap();
    assert_eq!(current().unwrap(), 11);
    let [other] = numbers.acquirers();
    assert_eq!(
        other.current_value().run().unwrap(),
        1000,
        "it took none, so the end of the reserve is shown"
    );
    assert_eq!(other.next_value().run().unwrap(), 1001);
    assert_eq!(other.current_value().run().unwrap(), 1001);
    assert_eq!(current().unwrap(), 11);
}

#[test]
fn an_acquirer_has_blocks_of_its_own() {
    let numbers = Numbers::with(doc! { "AcquireSize": 100, "CacheSize": 1000 });
    let [first, second] = numbers.acquirers();
    let next = |sequence: &cairndb::Sequence| sequence.next_value().run().unwrap();
    assert_eq!([next(&first), next(&second), numbers.next()], [1, 101, 201]);
    assert_eq!([next(&first), next(&second), numbers.next()], [2, 102, 202]);
    numbers.shows(doc! { "CurrentValue": 1000_i64, "Reservations": 1_i64 });
    assert_eq!(next(&first.clone()), 3, "a clone is the same acquirer");
}

#[test]
fn handles_of_one_client_share_a_block() {
    let numbers = Numbers::with(doc! {});
    let other = numbers.client.clone().database("test").sequence("numbers");
    assert_eq!((numbers.next(), other.next_value().run().unwrap(), numbers.next()), (1, 2, 3));
}

#[test]
fn an_exhausted_sequence_stays_so_until_it_is_changed() {
    let numbers = Numbers::with(doc! { "MaxValue": 3, "CacheSize": 1, "AcquireSize": 1 });
    assert_eq!(numbers.take(3), [1, 2, 3]);
    numbers.is_used_up();
    let numbers = numbers.reopened();
    numbers.is_used_up();
    let before = numbers.snapshot();
    numbers.is_used_up();
    assert_eq!(numbers.snapshot(), before, "a refusal changes nothing");
    numbers.alter(doc! { "MaxValue": 4 });
    assert_eq!(numbers.next(), 4);
    numbers.is_used_up();
}

#[test]
fn a_value_that_was_handed_out_counts_as_visible() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10 });
    let watermark = || numbers.sequence.safe_watermark().run().unwrap();
    assert_eq!(watermark(), None);
    numbers.take(3);
    assert_eq!(watermark(), Some(3));
    let [other] = numbers.acquirers();
    other.next_value().run().unwrap();
    assert_eq!(watermark(), Some(3), "4 to 10 lie in the block of the first");
    numbers.take(7);
    assert_eq!(watermark(), Some(11));
    numbers.sequence.restart(1).run().unwrap();
    assert_eq!(watermark(), None);
}
