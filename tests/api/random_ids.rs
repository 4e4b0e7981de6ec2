//! Documents with ids in no order: filters show of most that they are new, and no answer depends on that.

use std::collections::BTreeSet;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};
use cairndb::{ErrorKind, IndexModel, IndexOptions, InsertManyError};
use cairndb_tests::choices::mix;
use cairndb_tests::race::{race, wait_until};

use crate::Fixture;

const THREADS: u64 = 4;
/// Each is tried by two threads.
const IDS: u64 = 24_000;

/// An id in no order, of one of several types.
fn id_of(number: u64) -> Bson {
    let random = mix(number);
    match number % 3 {
        0 => {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&random.to_be_bytes());
            ObjectId::from_bytes(bytes).into()
        }
        1 => format!("{random:x}@example.com").into(),
        _ => random.cast_signed().into(),
    }
}

#[test]
fn each_id_is_given_once_while_filters_come_and_grow() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    // Half of the threads insert one by one, the others in calls of a hundred; both ways meet the same ids, with duplicates
    // within a call.
    let acknowledged = race(0..THREADS, |thread| {
        let numbers = (0..IDS).filter(|number| number % 2 == thread % 2);
        if thread < 2 {
            let insert =
                |number| things.insert_one(doc! { "_id": id_of(number), "n": thread.cast_signed() }).run();
            return numbers.filter(|number| insert(*number).is_ok()).count();
        }
        let numbers: Vec<u64> = numbers.collect();
        let mut stored = 0;
        for call in numbers.chunks(100) {
            let twice = call.iter().chain(call.iter().take(3));
            let documents = twice.map(|number| doc! { "_id": id_of(*number), "n": thread.cast_signed() });
            let done = things.insert_many(documents).ordered(false).run();
            let error = done.expect_err("three are there twice");
            let ErrorKind::InsertMany(InsertManyError { inserted_ids, .. }) = error.kind() else {
                panic!("{error:?}")
            };
            stored += inserted_ids.len();
        }
        stored
    });
    assert_eq!(acknowledged.into_iter().sum::<usize>() as u64, IDS);
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), IDS);
    let bytes = || fixture.client.metrics().expect("measured").storage.key_filter_bytes;
    wait_until(|| bytes() > 0);
    // All of them are rejected now, and what was deleted is accepted again.
    for number in (0..IDS).step_by(7) {
        let again = things.insert_one(doc! { "_id": id_of(number) }).run();
        assert!(again.expect_err("it is there").is_duplicate_key());
        assert_eq!(things.delete_one(doc! { "_id": id_of(number) }).run().unwrap().deleted_count, 1);
        things.insert_one(doc! { "_id": id_of(number) }).run().expect("it is not there");
    }
    fixture.verify_clean();
}

#[test]
fn a_collection_under_another_name_knows_its_ids_and_an_empty_one_gives_the_memory_back() {
    let fixture = Fixture::new();
    let database = fixture.client.database("test");
    let storage = || fixture.client.metrics().expect("measured").storage;
    let bytes = || storage().key_filter_bytes;
    // Filters and blocks share it.
    let whole = storage().cache_capacity_bytes;
    let documents = || (0..IDS).map(|number| doc! { "_id": id_of(number) });
    let fill = |name: &str| {
        let things = database.collection::<Document>(name);
        for document in documents() {
            things.insert_one(document).run().expect("stored");
        }
        things
    };
    fill("first").rename("second").run().expect("renamed");
    let second = database.collection::<Document>("second");
    wait_until(|| bytes() > 0 && bytes() + storage().cache_capacity_bytes == whole);
    let refused = documents().filter(|document| second.insert_one(document).run().is_err());
    assert_eq!(refused.count() as u64, IDS);
    // Truncated, it accepts all of them again.
    second.truncate().run().expect("truncated");
    // A step of the background thread may have used memory a moment before.
    wait_until(|| bytes() == 0);
    // Replaced by another one.
    fill("second");
    wait_until(|| bytes() > 0);
    database.collection::<Document>("empty").insert_one(doc! {}).run().expect("stored");
    database.collection::<Document>("empty").rename("second").drop_target(true).run().expect("renamed");
    wait_until(|| bytes() == 0);
    fill("second").drop().run().expect("dropped");
    // Though there is a handle of it.
    wait_until(|| bytes() == 0 && storage().cache_capacity_bytes == whole);
    assert!(second.insert_one(doc! { "_id": id_of(1) }).run().is_ok());
}

#[test]
fn upserts_of_new_and_of_known_ids_agree_with_a_set() {
    let fixture = Fixture::new();
    let mut known = BTreeSet::new();
    for step in 0..2 * IDS {
        let number = mix(step) % IDS;
        let change = doc! { "$inc": { "n": 1 } };
        let done =
            fixture.things.update_one(doc! { "_id": id_of(number) }, change).upsert(true).run().unwrap();
        assert_eq!(done.upserted_id.is_some(), known.insert(number), "{number}");
    }
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), known.len() as u64);
    fixture.verify_clean();
}

/// The same of a unique index on values in no order, by every way that gives it a value.
#[test]
fn each_unique_value_is_given_once_by_whichever_write() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    let unique = IndexOptions::builder().unique(true).build();
    things.create_index(IndexModel::builder().keys(doc! { "u": 1 }).options(unique).build()).run().unwrap();
    // Documents for updates to give values to.
    let waiting = (0..IDS.cast_signed()).map(|number| doc! { "_id": -1 - number, "u": -1 - number });
    things.insert_many(waiting).run().expect("stored");
    let acknowledged = race(0..THREADS, |thread| {
        let numbers = (0..IDS).filter(|number| number % 2 == thread % 2);
        let one = |number: u64| {
            let (value, id) = (id_of(number), -1 - number.cast_signed());
            let set = doc! { "$set": { "u": value.clone() } };
            match number % 6 + thread / 2 {
                0 | 1 => things.insert_one(doc! { "u": value }).run().is_ok(),
                2 => things.insert_many([doc! { "u": value.clone() }, doc! { "u": value }]).ordered(false).run().is_err_and(|error| {
                    matches!(error.kind(), ErrorKind::InsertMany(InsertManyError { inserted_ids, .. }) if inserted_ids.len() == 1)
                }),
                3 => things.update_one(doc! { "u": value }, doc! { "$inc": { "n": 1 } }).upsert(true).run().is_ok_and(|done| done.upserted_id.is_some()),
                _ => things.update_one(doc! { "_id": id }, set).run().is_ok_and(|done| done.modified_count == 1),
            }
        };
        numbers.filter(|number| one(*number)).count()
    });
    assert_eq!(acknowledged.into_iter().sum::<usize>() as u64, IDS);
    // Each value is there once, and none is taken twice.
    for number in (0..IDS).step_by(5) {
        assert_eq!(things.count_documents(doc! { "u": id_of(number) }).run().unwrap(), 1, "{number}");
        let again = things.insert_one(doc! { "u": id_of(number) }).run();
        assert!(again.expect_err("it is there").is_duplicate_key());
    }
    fixture.verify_clean();
}
