//! Updates of many threads: nothing is lost, nothing is inserted twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{Error, IndexModel, IndexOptions, ReturnDocument};
use cairndb_tests::choices::{Choices, part, seed};
use cairndb_tests::race::race;

use crate::Fixture;

const THREADS: i32 = 8;
const ROUNDS: i32 = 200;

fn unique_on(field: &str) -> IndexModel {
    let unique = IndexOptions::builder().unique(true).build();
    IndexModel::builder().keys(doc! { field: 1 }).options(unique).build()
}

#[test]
fn increments_of_all_threads_add_up() {
    let fixture = Fixture::with([doc! { "_id": 1, "n": 0 }, doc! { "_id": 2, "n": 0, "k": "x" }]);
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().unwrap();
    race(0..THREADS, |_| {
        for _ in 0..ROUNDS {
            let add = || doc! { "$inc": { "n": 1 } };
            assert_eq!(fixture.things.update_one(doc! { "_id": 1 }, add()).run().unwrap().modified_count, 1);
            assert_eq!(fixture.things.update_many(doc! { "k": "x" }, add()).run().unwrap().modified_count, 1);
        }
    });
    for document in fixture.stored() {
        assert_eq!(document.get_i32("n").ok(), Some(THREADS * ROUNDS));
    }
    fixture.verify_clean();
}

#[test]
fn increments_of_a_unique_key_add_up() {
    let fixture = Fixture::with([doc! { "_id": 1, "n": 0 }]);
    fixture.things.create_index(unique_on("n")).run().unwrap();
    race(0..THREADS, |_| {
        for _ in 0..ROUNDS {
            fixture.things.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).run().unwrap();
        }
    });
    assert_eq!(fixture.stored(), [doc! { "_id": 1, "n": THREADS * ROUNDS }]);
    fixture.verify_clean();
}

/// All threads upsert the same; one of them inserts, and every one counts.
#[track_caller]
fn upserts(key: impl Fn(i32) -> Document + Sync, index: Option<IndexModel>) {
    let fixture = Fixture::new();
    if let Some(index) = index {
        fixture.things.create_index(index).run().expect("it is there");
    }
    for round in 0..50 {
        let inserted = Mutex::new(0);
        race(0..THREADS, |_| {
            let upsert = fixture.things.update_one(key(round), doc! { "$inc": { "n": 1 } }).upsert(true);
            let result = upsert.run().expect("no conflict comes up");
            assert_eq!(result.matched_count, u64::from(result.upserted_id.is_none()));
            *inserted.lock().expect("it is there") += u64::from(result.upserted_id.is_some());
        });
        assert_eq!(inserted.into_inner().expect("it is there"), 1);
        let found: Vec<Document> =
            fixture.things.find(key(round)).run().expect("it is there").map(Result::unwrap).collect();
        let counted: Vec<i32> = found.iter().filter_map(|document| document.get_i32("n").ok()).collect();
        assert_eq!(counted, [THREADS]);
    }
    fixture.verify_clean();
}

#[test]
fn upserts_of_one_id_insert_once() {
    upserts(|round| doc! { "_id": round }, None);
    upserts(|round| doc! { "_id": { "$in": [round] } }, None);
}

#[test]
fn upserts_of_one_unique_key_insert_once() {
    upserts(|round| doc! { "k": round }, Some(unique_on("k")));
    upserts(|round| doc! { "a.b": { "$eq": round } }, Some(unique_on("a.b")));
    let two = IndexOptions::builder().unique(true).build();
    let two = IndexModel::builder().keys(doc! { "a": 1, "b": -1 }).options(two).build();
    upserts(|round| doc! { "b": "x", "a": round }, Some(two));
}

#[test]
fn a_duplicate_that_the_filter_does_not_find_is_reported() {
    let fixture = Fixture::with([doc! { "_id": 1, "version": 2 }]);
    let stale = fixture.things.update_one(doc! { "_id": 1, "version": 1 }, doc! { "$inc": { "version": 1 } });
    assert!(stale.upsert(true).run().expect_err("another version").is_duplicate_key());
}

#[test]
fn every_thread_gets_numbers_of_its_own() {
    let fixture = Fixture::new();
    let numbers = Mutex::new(BTreeSet::new());
    race(0..THREADS, |_| {
        for _ in 0..ROUNDS {
            let next =
                fixture.things.find_one_and_update(doc! { "_id": "counter" }, doc! { "$inc": { "n": 1 } });
            let next = next.upsert(true).return_document(ReturnDocument::After).run().unwrap().unwrap();
            assert!(numbers.lock().unwrap().insert(next.get_i32("n").unwrap()), "{next} came twice");
        }
    });
    assert_eq!(numbers.into_inner().unwrap(), (1..=THREADS * ROUNDS).collect());
}

#[test]
fn every_document_of_a_queue_is_taken_once() {
    let fixture = Fixture::with((0..THREADS * 20).map(|id| doc! { "_id": id, "rank": -id, "state": "new" }));
    let taken = Mutex::new(BTreeSet::new());
    race(0..THREADS, |thread| {
        let sorts = [doc! { "rank": 1 }, doc! { "_id": 1 }];
        let take = || {
            let set = doc! { "$set": { "state": "taken" } };
            let take = fixture.things.find_one_and_update(doc! { "state": "new" }, set);
            take.sort(sorts[usize::try_from(thread % 2).unwrap()].clone()).run().unwrap()
        };
        while let Some(task) = take() {
            assert!(taken.lock().unwrap().insert(task.get_i32("_id").unwrap()), "{task} was taken twice");
        }
    });
    assert_eq!(taken.into_inner().unwrap().len(), usize::try_from(THREADS * 20).unwrap());
}

#[test]
fn moved_unique_keys_are_never_held_twice() {
    let fixture = Fixture::with((0..THREADS).map(|id| doc! { "_id": id, "k": id }));
    fixture.things.create_index(unique_on("k")).run().unwrap();
    race(0..THREADS, |thread| {
        for round in 0..ROUNDS {
            let key = (thread + round) % (THREADS + 2);
            let moved =
                fixture.things.update_one(doc! { "_id": thread }, doc! { "$set": { "k": key } }).run();
            assert!(moved.is_ok() || moved.is_err_and(|error| error.is_duplicate_key()));
        }
    });
    let keys: BTreeSet<i32> =
        fixture.stored().iter().map(|document| document.get_i32("k").unwrap()).collect();
    assert_eq!(keys.len(), usize::try_from(THREADS).unwrap());
    fixture.verify_clean();
}

/// Of a unique key that is taken and freed in every way, no two documents ever have one, and at the end each key is either of
/// one document or free.
#[test]
fn a_unique_key_is_held_by_one_document_and_free_after_it() {
    const KEYS: i32 = 12;
    let fixture = Fixture::new();
    let things = &fixture.things;
    things.create_index(unique_on("k")).run().unwrap();
    let (writers, is_over) = (AtomicI32::new(THREADS), AtomicBool::new(false));
    race(0..THREADS + 2, |thread: i32| {
        if thread >= THREADS {
            while !is_over.load(Ordering::Acquire) {
                let found = things.find(doc! {}).run().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
                let keys: BTreeSet<i32> =
                    found.iter().map(|document| document.get_i32("k").unwrap()).collect();
                assert_eq!(keys.len(), found.len(), "a key is there twice");
            }
            return;
        }
        let mut choices = Choices::seeded(part(seed(), u64::from(thread.unsigned_abs())));
        for round in 0..ROUNDS {
            let mut key = || i32::try_from(choices.below(KEYS.unsigned_abs().into())).unwrap();
            let (key, other) = (key(), key());
            let done = match round % 4 {
                0 => things.insert_one(doc! { "k": key }).run().map(drop),
                1 => things.update_one(doc! { "k": key }, doc! { "$set": { "k": other } }).run().map(drop),
                2 => {
                    let update = doc! { "$set": { "by": thread } };
                    things.update_one(doc! { "k": key }, update).upsert(true).run().map(drop)
                }
                _ => things.delete_one(doc! { "k": key }).run().map(drop),
            };
            assert!(done.as_ref().is_ok() || done.as_ref().is_err_and(Error::is_duplicate_key), "{done:?}");
        }
        if writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            is_over.store(true, Ordering::Release);
        }
    });
    fixture.verify_clean();
    for key in 0..KEYS {
        let held = things.count_documents(doc! { "k": key }).run().unwrap();
        let inserted = things.insert_one(doc! { "k": key }).run();
        assert_eq!((held, inserted.is_ok()), if held == 0 { (0, true) } else { (1, false) }, "key {key}");
    }
}
