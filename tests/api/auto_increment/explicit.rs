//! Values that documents bring: how far they move the sequence.

use cairndb::Contract;
use cairndb::bson::{Document, doc};

use super::{Numbered, sequence_refuses};

/// Inserts documents with these values, `None` for a generated one; all values in their order.
#[track_caller]
fn numbers(options: Document, brought: &[Option<i64>], expected: &[i64]) -> Numbered {
    let numbered = Numbered::n(options);
    for value in brought {
        numbered.insert(value.map_or(doc! {}, |value| doc! { "n": value }));
    }
    assert_eq!(numbered.numbers(), expected);
    numbered
}

const GENERATED: Option<i64> = None;

#[test]
fn a_value_ahead_moves_the_sequence_behind_it() {
    numbers(doc! {}, &[Some(5000), GENERATED], &[5000, 5001]).shows(doc! { "CurrentValue": 6000_i64 });
    numbers(doc! {}, &[Some(1), GENERATED], &[1, 2]);
    numbers(doc! {}, &[Some(999), GENERATED], &[999, 1000]);
    numbers(doc! {}, &[Some(1000), GENERATED], &[1000, 1001]);
    numbers(doc! {}, &[Some(1001), GENERATED], &[1001, 1002]);
    numbers(doc! {}, &[GENERATED, Some(500), GENERATED], &[1, 500, 501]);
}

#[test]
fn a_value_behind_moves_nothing() {
    numbers(doc! {}, &[Some(-5), GENERATED], &[-5, 1]);
    numbers(doc! {}, &[GENERATED, GENERATED, Some(1), GENERATED], &[1, 2, 1, 3]);
    numbers(doc! {}, &[Some(5000), Some(4000), GENERATED], &[5000, 4000, 5001]);
    numbers(doc! { "MinValue": 10, "StartValue": 10 }, &[Some(3), GENERATED], &[3, 10]);
}

#[test]
fn a_descending_sequence_reacts_to_smaller_values() {
    let down = || doc! { "Increment": -1 };
    numbers(
        down(),
        &[GENERATED, Some(-5000), GENERATED, Some(-10), GENERATED],
        &[-1, -5000, -5001, -10, -5002],
    );
    numbers(down(), &[Some(5), GENERATED], &[5, -1]);
    numbers(down(), &[Some(-1000), GENERATED], &[-1000, -1001]);
}

#[test]
fn the_next_value_is_the_first_term_strictly_beyond() {
    for sizes in [
        doc! {},
        doc! { "AcquireSize": 1 },
        doc! { "AcquireSize": 1, "CacheSize": 1 },
        doc! { "AcquireSize": 7, "CacheSize": 20 },
    ] {
        for contract in Contract::ALL {
            let steps = |increment: i32| {
                let base = doc! { "Increment": increment, "Contract": contract.name() };
                base.into_iter().chain(sizes.clone()).collect::<Document>()
            };
            numbers(steps(10), &[GENERATED, Some(15), GENERATED], &[1, 15, 21]);
            numbers(steps(10), &[GENERATED, Some(21), GENERATED], &[1, 21, 31]);
            numbers(steps(10), &[GENERATED, Some(20), GENERATED], &[1, 20, 21]);
            numbers(steps(3), &[Some(3), GENERATED], &[3, 4]);
            numbers(steps(3), &[Some(4), GENERATED], &[4, 7]);
            numbers(steps(10), &[GENERATED, Some(123_456), GENERATED], &[1, 123_456, 123_461]);
            numbers(steps(-10), &[GENERATED, Some(-15), GENERATED], &[-1, -15, -21]);
        }
    }
}

#[test]
fn values_near_the_limit_leave_what_lies_beyond() {
    for contract in Contract::ALL {
        let fives = |max: i64| doc! { "Increment": 5, "MaxValue": max, "Contract": contract.name() };
        let numbered = numbers(fives(10_001), &[Some(9996), GENERATED], &[9996, 10_001]);
        sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
        let numbered = numbers(fives(10_001), &[Some(10_000), GENERATED], &[10_000, 10_001]);
        sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
        let numbered =
            numbers(fives(i64::MAX), &[Some(i64::MAX - 6), GENERATED], &[i64::MAX - 6, i64::MAX - 1]);
        sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
        numbers(fives(10_001), &[Some(10_001)], &[10_001]);
    }
}

#[test]
fn a_value_beyond_the_limit_uses_the_sequence_up() {
    for contract in Contract::ALL {
        let limited = doc! { "MaxValue": 2000, "Contract": contract.name() };
        let numbered = numbers(limited.clone(), &[GENERATED, Some(9999)], &[1, 9999]);
        sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
        numbered.insert(doc! { "n": 5 });
        numbered.insert(doc! { "n": 50_000 });
        let cycled = limited.into_iter().chain(doc! { "Cycled": true }).collect();
        numbers(cycled, &[GENERATED, Some(9999), GENERATED], &[1, 9999, 1]).shows(doc! { "CycledCount": 1 });
    }
}

#[test]
fn a_value_into_an_exhausted_sequence_is_stored_warm_and_cold() {
    for contract in Contract::ALL {
        let options = doc! { "MaxValue": 3, "CacheSize": 1, "AcquireSize": 1, "Contract": contract.name() };
        let numbered = numbers(options, &[GENERATED, GENERATED, GENERATED, Some(50)], &[1, 2, 3, 50]);
        let numbered = numbered.reopened();
        numbered.insert(doc! { "n": 51 });
        sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
        assert_eq!(numbered.numbers(), [1, 2, 3, 50, 51]);
    }
}

#[test]
fn the_first_value_marks_the_sequence_used() {
    let numbered = numbers(doc! {}, &[Some(-5)], &[-5]);
    numbered.shows(doc! { "Initial": false, "CurrentValue": 1000_i64 });
    assert_eq!(numbered.reopened().next(), 1);
}

#[test]
fn every_acquirer_hears_of_a_value() {
    let numbered = Numbered::n(doc! { "AcquireSize": 100 });
    let other = numbered.client.acquirer().database("test").collection::<Document>("things");
    let next = || other.insert_one(doc! {}).run().unwrap().last_generate_id;
    assert_eq!((numbered.next(), next()), (1, Some(101)));
    numbered.insert(doc! { "n": 150 });
    assert_eq!(next(), Some(151), "its block reached over the value");
    assert_eq!(numbered.next(), 201, "150 lies beyond the block");
    other.insert_one(doc! { "n": 250 }).run().unwrap();
    assert_eq!(numbered.next(), 251);
}

#[test]
fn a_value_of_the_same_acquirer_is_never_given_again() {
    let numbered = Numbered::n(doc! { "AcquireSize": 10, "CacheSize": 100 });
    numbered.unique(doc! { "n": 1 });
    let handles: Vec<_> = (0..3)
        .map(|_| numbered.client.acquirer().database("test").collection::<Document>("things"))
        .collect();
    for round in 0..200_i64 {
        for (place, handle) in (0..).zip(&handles) {
            let value = round * 7 + place * 3;
            // It may be there already; what must not happen is that a generated one is.
            let _ = handle.insert_one(doc! { "n": value }).run();
            handle.insert_one(doc! {}).run().unwrap();
        }
    }
}

#[test]
fn skipped_values_are_listed_as_explicit() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "AcquireSize": 10, "CacheSize": 10, "Contract": contract.name() });
        numbered.insert(doc! {});
        numbered.insert(doc! { "n": 100 });
        numbered.insert(doc! {});
        let gaps = numbered.things.auto_increment("n").gaps().unwrap();
        assert!(gaps.iter().all(|gap| gap.cause == "explicitValue"), "{gaps:?}");
        let lost: Vec<i64> = gaps.iter().flat_map(|gap| gap.first..=gap.last).collect();
        assert_eq!(lost, (2..100).collect::<Vec<_>>());
    }
}
