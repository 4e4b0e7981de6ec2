//! The ledger: every value that no caller will get, and why.

use cairndb::ValueVerdict;
use cairndb::bson::{Document, doc, serialize_to_document};

use super::Numbers;

/// First, last, how many, and why.
type Lost<'a> = (i64, i64, u64, &'a str);

#[track_caller]
fn lists(numbers: &Numbers, expected: &[Lost<'_>]) {
    let gaps = numbers.sequence.gaps().run().expect("a list");
    let seen: Vec<Lost<'_>> =
        gaps.iter().map(|gap| (gap.first, gap.last, gap.count, gap.cause.as_str())).collect();
    assert_eq!(seen, expected);
    let lost: u64 = gaps.iter().map(|gap| gap.count).sum();
    assert_eq!(numbers.snapshot().lost.cast_unsigned(), lost);
}

fn tens() -> Document {
    doc! { "AcquireSize": 10, "CacheSize": 100 }
}

#[test]
fn a_new_sequence_has_lost_nothing() {
    let numbers = Numbers::with(doc! {});
    lists(&numbers, &[]);
    numbers.take(1500);
    lists(&numbers, &[]);
    lists(&numbers.reopened(), &[]);
}

#[test]
fn a_change_lists_the_rest_of_the_block() {
    let numbers = Numbers::with(tens());
    numbers.take(3);
    numbers.alter(doc! { "Increment": 5 });
    lists(&numbers, &[(4, 10, 7, "alter")]);
    assert_eq!(numbers.next(), 15);
    numbers.sequence.restart(1).run().unwrap();
    lists(&numbers, &[(4, 10, 7, "alter"), (20, 60, 9, "restart")]);
}

#[test]
fn a_kill_lists_what_may_be_lost() {
    let numbers = Numbers::with(tens());
    numbers.take(3);
    let numbers = numbers.killed();
    lists(&numbers, &[(1, 100, 100, "crash")]);
    assert_eq!(numbers.next(), 101);
    lists(&numbers, &[(1, 100, 100, "crash")]);
    lists(&numbers.reopened(), &[(1, 100, 100, "crash")]);
}

#[test]
fn two_kills_list_every_value_once() {
    let numbers = Numbers::with(tens());
    numbers.take(25);
    let numbers = numbers.killed();
    let numbers = numbers.killed();
    numbers.take(1);
    let numbers = numbers.killed();
    let gaps = numbers.sequence.gaps().run().unwrap();
    assert!(gaps.is_sorted_by(|a, b| a.last < b.first), "{gaps:?}");
    assert!(gaps.iter().all(|gap| gap.cause == "crash" && gap.increment == 1), "{gaps:?}");
}

#[test]
fn an_announced_value_lists_what_it_jumps_over() {
    let numbers = Numbers::with(tens());
    numbers.take(3);
    numbers.sequence.set_current_value(6).run().unwrap();
    lists(&numbers, &[(4, 5, 2, "explicitValue")]);
    numbers.sequence.set_current_value(50).run().unwrap();
    assert_eq!(numbers.next(), 51);
    let gaps = numbers.sequence.gaps().run().unwrap();
    let lost: Vec<i64> = gaps.iter().flat_map(|gap| gap.first..=gap.last).collect();
    assert_eq!(lost, (4..=5).chain(7..=49).collect::<Vec<_>>());
    assert!(gaps.iter().all(|gap| gap.cause == "explicitValue"), "{gaps:?}");
}

#[test]
fn a_closed_acquirer_lists_what_cannot_be_handed_out_again() {
    let numbers = Numbers::with(tens());
    let [other] = numbers.acquirers();
    other.fetch(4).run().unwrap();
    numbers.next();
    drop(other);
    lists(&numbers, &[(5, 10, 6, "acquirerClosed")]);
    let [other] = numbers.acquirers();
    other.fetch(4).run().unwrap();
    drop(other);
    lists(&numbers, &[(5, 10, 6, "acquirerClosed")]);
}

#[test]
fn a_gap_that_is_not_written_yet_has_no_time() {
    let numbers = Numbers::with(tens());
    let [other] = numbers.acquirers();
    other.next_value().run().unwrap();
    numbers.next();
    drop(other);
    let gap = numbers.sequence.gaps().run().unwrap().remove(0);
    assert_eq!(gap.at, None);
    let shown = serialize_to_document(&gap).unwrap();
    let expected = doc! { "first": 2_i64, "last": 10_i64, "increment": 1_i64, "count": 9_i64, "cause": "acquirerClosed", "at": null };
    assert_eq!(shown, expected);
    numbers.alter(doc! { "CacheSize": 101 });
    let gaps = numbers.sequence.gaps().run().unwrap();
    assert!(gaps.len() == 2 && gaps.iter().all(|gap| gap.at.is_some()), "{gaps:?}");
}

#[test]
fn the_ledger_keeps_the_newest_thousand_entries() {
    let numbers = Numbers::with(doc! { "AcquireSize": 2, "CacheSize": 2 });
    for _ in 0..1010 {
        numbers.next();
        numbers.sequence.restart(1).run().unwrap();
    }
    let gaps = numbers.sequence.gaps().run().unwrap();
    assert_eq!(gaps.len(), 1000);
    assert!(gaps.iter().all(|gap| (gap.first, gap.last, gap.cause.as_str()) == (2, 2, "restart")));
    numbers.shows(doc! { "Lost": 1010_i64 });
    let numbers = numbers.reopened();
    assert_eq!(numbers.sequence.gaps().run().unwrap().len(), 1000);
    numbers.shows(doc! { "Lost": 1010_i64 });
    crate::verify_clean(&numbers.client);
}

#[test]
fn gaps_that_are_not_written_yet_count_among_the_thousand() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10_000, "CacheSize": 10_000 });
    numbers.next();
    for step in 1..=1010 {
        numbers.sequence.set_current_value(1 + 3 * step).run().unwrap();
    }
    let gaps = numbers.sequence.gaps().run().unwrap();
    assert_eq!(gaps.len(), 1000);
    assert_eq!(gaps.last().map(|gap| (gap.first, gap.last)), Some((3 * 1010 - 1, 3 * 1010)));
    let numbers = numbers.reopened();
    assert_eq!(numbers.sequence.gaps().run().unwrap().len(), 1000);
    numbers.shows(doc! { "Lost": 2020_i64 });
    crate::verify_clean(&numbers.client);
}

#[test]
fn more_gaps_between_two_writes_than_are_kept_replace_all_older_ones() {
    let numbers = Numbers::with(doc! { "AcquireSize": 100_000, "CacheSize": 100_000 });
    let skip = |numbers: &Numbers, steps: std::ops::RangeInclusive<i64>| {
        numbers.next();
        for step in steps {
            numbers.sequence.set_current_value(1 + 3 * step).run().unwrap();
        }
    };
    skip(&numbers, 1..=500);
    let numbers = numbers.reopened();
    skip(&numbers, 501..=4500);
    // The second `next` drew one of the values that its first step skips.
    let lost = 2 * 4500 - 1_i64;
    let check = |numbers: &Numbers| {
        let gaps = numbers.sequence.gaps().run().unwrap();
        let edge = |gap: Option<&cairndb::SequenceGap>| gap.map(|gap| (gap.first, gap.last));
        assert_eq!((gaps.len(), edge(gaps.first())), (1000, Some((3 * 3501 - 1, 3 * 3501))));
        assert_eq!(edge(gaps.last()), Some((3 * 4500 - 1, 3 * 4500)));
        numbers.shows(doc! { "Lost": lost });
        crate::verify_clean(&numbers.client);
    };
    check(&numbers);
    check(&numbers.reopened());
}

#[test]
fn a_dropped_sequence_takes_its_ledger_along() {
    let numbers = Numbers::with(tens());
    numbers.next();
    numbers.alter(doc! { "CacheSize": 101 });
    numbers.db.drop_sequence("numbers").run().unwrap();
    numbers.db.create_sequence("numbers").run().unwrap();
    lists(&numbers, &[]);
    crate::verify_clean(&numbers.client);
}

#[test]
fn a_renamed_sequence_keeps_its_ledger() {
    let numbers = Numbers::with(tens());
    numbers.next();
    numbers.alter(doc! { "CacheSize": 101 });
    numbers.next();
    numbers.db.rename_sequence("numbers", "others").run().unwrap();
    let gaps = numbers.db.sequence("others").gaps().run().unwrap();
    assert_eq!(gaps.iter().map(|gap| (gap.first, gap.last)).collect::<Vec<_>>(), [(2, 10), (12, 20)]);
}

/// A sequence that begins after values that count as used has no gap, whatever its contract, also after a kill. To set the position
/// of a new sequence instead passes over values, and those are lost.
#[test]
fn values_before_the_beginning_are_used_and_not_lost() {
    for contract in ["fast", "ordered", "gapless"] {
        for (increment, used, next) in [(1, 7, 8), (5, 11, 16), (-7, -22, -29)] {
            let mut options = doc! { "Contract": contract, "Increment": increment };
            options.extend(tens());
            options.insert("UsedUpTo", used);
            let numbers = Numbers::with(options);
            lists(&numbers, &[]);
            let killed = numbers.killed();
            lists(&killed, &[]);
            assert_eq!(killed.next(), next, "{contract} {increment}");
            let first = if increment < 0 { -1 } else { 1 };
            for value in [first, used] {
                let verdict = numbers.sequence.trace(value).run().unwrap().verdict;
                assert_eq!(verdict, ValueVerdict::Used, "{value}, {contract} {increment}");
            }
            assert_eq!(numbers.snapshot().used_up_to, Some(used));
            assert_eq!(numbers.next(), next, "{contract} {increment}");
            let again = numbers.reopened();
            lists(&again, &[]);
        }
    }
    let full = doc! { "MaxValue": 10, "CacheSize": 1, "AcquireSize": 1, "UsedUpTo": 10 };
    let full = Numbers::with(full);
    lists(&full, &[]);
    full.is_used_up();
    full.killed().is_used_up();
    lists(&full.reopened(), &[]);
}
