//! Consumers that read what lies above the last value they saw, while eight threads insert.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use cairndb::Contract;
use cairndb::bson::{Document, doc};
use cairndb_tests::choices::number_from_environment;
use cairndb_tests::race::SetWhenDropped;

use super::{Numbered, numbers};

const THREADS: i64 = 8;
const EACH: i64 = 60;
/// The number of times that a race is tried that should go wrong once.
const ATTEMPTS_MAX: usize = 200;

/// The acquirer of the writers' blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Acquirers {
    Shared,
    Own,
}

/// The bound of a consumer's reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    None,
    SafeWatermark,
}

/// Inserts one by one, in batches and by upserts; some documents are rejected.
fn write(numbered: &Numbered, thread: i64, acquirers: Acquirers) {
    let own = numbered.client.acquirer().database("test").collection::<Document>("things");
    let things = if acquirers == Acquirers::Own { &own } else { &numbered.things };
    for step in 0..EACH {
        let key = thread * 1000 + step;
        match step % 5 {
            0 => drop(things.insert_many([key, key + 500].map(|k| doc! { "k": k })).run().expect("stored")),
            1 => drop(things.insert_one(doc! { "k": thread * 1000 }).run().expect_err("a duplicate")),
            2 => {
                let upsert = things.replace_one(doc! { "k": key }, doc! { "k": key }).upsert(true);
                upsert.run().expect("stored");
            }
            _ => drop(things.insert_one(doc! { "k": key }).run().expect("stored")),
        }
    }
}

/// Reads until nothing comes any more; the values that it saw.
fn consume(numbered: &Numbered, bound: Bound, done: &AtomicBool) -> BTreeSet<i64> {
    let mut seen = BTreeSet::new();
    let mut last = i64::MIN;
    loop {
        let finished = done.load(Ordering::Acquire);
        let up_to = match bound {
            Bound::None => Some(i64::MAX),
            Bound::SafeWatermark => {
                numbered.things.auto_increment("n").safe_watermark().expect("a watermark")
            }
        };
        let before = seen.len();
        if let Some(up_to) = up_to {
            let found =
                numbered.things.find(doc! { "n": { "$gt": last, "$lte": up_to } }).run().expect("a cursor");
            for document in found {
                seen.insert(document.expect("a document").get_i64("n").expect("a value"));
            }
        }
        last = seen.last().copied().unwrap_or(last);
        if finished && seen.len() == before {
            return seen;
        }
    }
}

/// Values that were stored and that a consumer missed.
#[track_caller]
fn missed(contract: Contract, acquirers: Acquirers, bound: Bound) -> Vec<i64> {
    let numbered = Numbered::n(doc! { "Contract": contract.name(), "AcquireSize": 20, "CacheSize": 40 });
    numbered.unique(doc! { "k": 1 });
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&done);
        let consumer = scope.spawn(|| consume(&numbered, bound, &done));
        let numbered = &numbered;
        let writers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(numbered, thread, acquirers))).collect();
        for writer in writers {
            writer.join().expect("no writer fails");
        }
        done.store(true, Ordering::Release);
        consumer.join().expect("the consumer does not fail")
    });
    let stored = numbers(&numbered.things, "n");
    assert!(seen.len() <= stored.len());
    stored.into_iter().filter(|value| !seen.contains(value)).collect()
}

fn rounds() -> u64 {
    number_from_environment("CAIRNDB_RACE_ROUNDS", 1)
}

#[test]
fn a_consumer_of_an_ordered_sequence_misses_nothing() {
    for _ in 0..3 * rounds() {
        assert_eq!(missed(Contract::Ordered, Acquirers::Shared, Bound::None), [0; 0]);
        assert_eq!(missed(Contract::Ordered, Acquirers::Own, Bound::None), [0; 0]);
        assert_eq!(missed(Contract::Gapless, Acquirers::Own, Bound::None), [0; 0]);
    }
}

#[test]
fn a_consumer_that_keeps_to_the_watermark_misses_nothing() {
    for _ in 0..3 * rounds() {
        for contract in Contract::ALL {
            assert_eq!(missed(contract, Acquirers::Shared, Bound::SafeWatermark), [0; 0]);
            assert_eq!(missed(contract, Acquirers::Own, Bound::SafeWatermark), [0; 0]);
        }
    }
}

#[test]
fn a_consumer_of_a_fast_sequence_misses_values_without_the_watermark() {
    let misses =
        |acquirers| (0..ATTEMPTS_MAX).any(|_| !missed(Contract::Fast, acquirers, Bound::None).is_empty());
    assert!(misses(Acquirers::Own), "blocks of several acquirers become visible crosswise");
}
