//! Indexes that are made, dropped and changed in kind while others read by them: no reader sees fewer documents than
//! there are.

use std::sync::atomic::{AtomicBool, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{Collection, Hint, IndexModel, IndexOptions};
use cairndb_tests::race::{SetWhenDropped, race};

use crate::Fixture;

const DOCUMENTS: i32 = 300;
const ROUNDS: i32 = 15;

fn index(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).build()
}

/// Questions whose answers never change, whatever the writers do.
fn read(things: &Collection<Document>) {
    let count = |filter: Document| things.count_documents(filter).run().expect("counted");
    assert_eq!(count(doc! { "a": 3 }), 30);
    assert_eq!(count(doc! { "t": { "$gte": 0 } }), 300);
    assert_eq!(count(doc! { "$or": [{ "a": 3 }, { "t": 500 }] }), 31);
    let sorted = things.find(doc! { "a": { "$lte": 4 } }).sort(doc! { "a": 1 }).run().expect("a cursor");
    let values: Vec<i32> =
        sorted.map(|document| document.expect("a document").get_i32("a").expect("a number")).collect();
    assert!(values.len() == 150 && values.is_sorted(), "{values:?}");
}

#[test]
fn no_reader_loses_a_document_while_indexes_come_and_go() {
    let fixture =
        Fixture::with((0..DOCUMENTS).map(|id| doc! { "_id": id, "a": id % 10, "t": [id, 500 + id] }));
    let things = &fixture.things;
    let is_over = AtomicBool::new(false);
    // One makes and drops, eight write, four read.
    race(0..13, |role| match role {
        0 => {
            let _ended = SetWhenDropped(&is_over);
            for _ in 0..ROUNDS {
                things.create_index(index(doc! { "a": 1 })).run().expect("made");
                things.create_index(index(doc! { "t": 1, "a": -1 })).run().expect("made");
                things.drop_index("a_1").run().expect("dropped");
                things.drop_index("t_1_a_-1").run().expect("dropped");
            }
        }
        1..=8 => {
            while !is_over.load(Ordering::Acquire) {
                let moved = doc! { "$inc": { "z": 1 }, "$push": { "t": -role } };
                things.update_many(doc! { "a": role }, moved).run().expect("changed");
                things
                    .update_many(doc! { "a": role }, doc! { "$pull": { "t": -role } })
                    .run()
                    .expect("changed");
            }
        }
        _ => {
            while !is_over.load(Ordering::Acquire) {
                read(things);
            }
        }
    });
    read(things);
    fixture.verify_clean();
}

/// A look-up by a unique index reads an entry and then its record, without a snapshot. Between the two the index can go, and
/// the value can move to another document.
#[test]
fn a_look_up_finds_its_document_while_the_index_goes_and_the_value_moves() {
    let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "a": id, "b": id }));
    let things = &fixture.things;
    let unique = |field: &str| {
        let options = IndexOptions::builder().unique(true).build();
        IndexModel::builder().keys(doc! { field: 1 }).options(options).build()
    };
    things.create_index(unique("b")).run().expect("made");
    let is_over = AtomicBool::new(false);
    race(0..4, |role| match role {
        0 => {
            let _ended = SetWhenDropped(&is_over);
            for _ in 0..ROUNDS * 4 {
                things.create_index(unique("a")).run().expect("made");
                things.drop_index("a_1").run().expect("dropped");
            }
        }
        // The value 5 goes from one document to another and back, and one of them has it all the time, except between the
        // two updates, when none has.
        1 => {
            while !is_over.load(Ordering::Acquire) {
                for (from, to) in [(5, 6), (6, 5)] {
                    let set = |id: i32, value: i32| {
                        things
                            .update_one(doc! { "_id": id }, doc! { "$set": { "b": value } })
                            .run()
                            .expect("updated");
                    };
                    set(from, 100 + from);
                    set(to, 5);
                }
            }
        }
        _ => {
            while !is_over.load(Ordering::Acquire) {
                let found = things.find_one(doc! { "a": 7 }).run().expect("read").expect("it is never gone");
                assert_eq!(found.get_i32("_id").ok(), Some(7));
                if let Some(found) = things.find_one(doc! { "b": 5 }).run().expect("read") {
                    assert_eq!(found.get_i32("b").ok(), Some(5), "{found}");
                }
            }
        }
    });
    fixture.verify_clean();
}

/// A reader who plans as if no document had an array, and then sees one that has, misses it: its elements meet the two
/// conditions apart.
#[test]
fn the_first_document_with_an_array_is_found_by_every_later_reader() {
    for _ in 0..ROUNDS {
        let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "a": id % 3 }));
        let things = &fixture.things;
        things.create_index(index(doc! { "a": 1 })).run().expect("made");
        let is_over = AtomicBool::new(false);
        race(0..3, |role| {
            if role == 0 {
                let _ended = SetWhenDropped(&is_over);
                things.insert_one(doc! { "_id": 100, "a": [0, 9] }).run().expect("stored");
            }
            loop {
                let ends = is_over.load(Ordering::Acquire);
                let apart = doc! { "a": { "$gt": 5, "$lt": 1 } };
                let natural = Hint::Keys(doc! { "$natural": 1 });
                let before = things.count_documents(apart.clone()).hint(natural).run().expect("counted");
                let by_index = things.count_documents(apart).run().expect("counted");
                assert!(by_index >= before, "{before} were there, the index shows {by_index}");
                if ends {
                    assert_eq!(by_index, 1);
                    break;
                }
            }
        });
        fixture.verify_clean();
    }
}
