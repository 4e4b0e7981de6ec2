//! Calls that last long, and what others do meanwhile.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, CancellationToken, Collection, Contract, Error, IndexModel};
use cairndb_tests::race::{pause, race, wait_until};

use crate::Fixture;
use crate::cancellation::{endless, wide};

const INTERRUPTED: i32 = 11_601;
/// More than the engine has latches, so that each is met several times.
const MANY: i32 = 5000;
/// Calls that must not wait for a call without an end are done within this time, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for another thread to be in the middle of its call.
const WHILE: Duration = Duration::from_millis(100);

type Call = fn(&Collection<Document>) -> Result<(), Error>;

/// Does the work of others while an endless call runs, which is ended afterwards.
#[track_caller]
fn beside(
    things: &Collection<Document>,
    slow: impl Fn(&Collection<Document>) -> Result<(), Error> + Sync,
    others: impl FnOnce() + Send,
) {
    let token = CancellationToken::new();
    let (things, (done, is_done)) = (things.with_cancellation(&token), channel());
    thread::scope(|scope| {
        let running = scope.spawn(|| slow(&things));
        scope.spawn(move || {
            others();
            done.send(()).expect("it is waited for");
        });
        let in_time = is_done.recv_timeout(PATIENCE);
        let is_running = !running.is_finished();
        token.cancel();
        let ended = running.join().expect("it does not panic").expect_err("it is endless");
        assert_eq!(ended.code(), Some(INTERRUPTED), "{ended}");
        assert!(in_time.is_ok() && is_running, "others have waited");
    });
}

fn slow_update(things: &Collection<Document>) -> Result<(), Error> {
    things.update_one(doc! { "_id": 0 }, vec![doc! { "$set": { "s": endless() } }]).run().map(drop)
}

/// Waits as long as another thread needs to be in the middle of its call.
fn wait_a_while() {
    let started = Instant::now();
    while started.elapsed() < WHILE {
        pause();
    }
}

/// It once computed with the latch of its document, which one in a thousand others shares; and whatever wanted all latches
/// kept all others while it waited for that one.
#[test]
fn an_update_that_takes_long_holds_up_no_other_document() {
    let fixture = Fixture::new();
    fixture.things.insert_one(wide()).run().expect("it is new");
    let others = fixture.client.database("other").collection::<Document>("others");
    beside(&fixture.things, slow_update, || {
        wait_a_while();
        for id in 0..MANY {
            others.insert_one(doc! { "_id": id, "n": id }).run().expect("it is new");
        }
        for id in 1..MANY {
            fixture.things.insert_one(doc! { "_id": id }).run().expect("it is new");
        }
        let raised = fixture.things.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).run();
        assert_eq!(raised.expect("changed").modified_count, 1);
        assert_eq!(others.delete_many(doc! { "n": { "$lt": 10 } }).run().expect("deleted").deleted_count, 10);
        assert!(fixture.client.verify().expect("verified").is_clean());
        others.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("built");
    });
    // Not even a part of it was done.
    assert_eq!(fixture.things.find_one(doc! { "_id": 0 }).run().expect("read"), Some(wide()));
}

/// A drop and a rename wait for the writers of their collection. They once held the lock of all collections meanwhile.
#[test]
fn a_drop_that_waits_for_a_writer_holds_up_no_other_collection() {
    let fixture = Fixture::new();
    let changes: [Call; 2] = [|things| things.drop().run(), |things| things.rename("renamed").run()];
    for (round, change) in changes.into_iter().enumerate() {
        fixture.things.insert_one(wide()).run().expect("it is new");
        let database = fixture.client.database("other");
        thread::scope(|scope| {
            let mut changing = None;
            beside(&fixture.things, slow_update, || {
                wait_a_while();
                changing = Some(scope.spawn(|| change(&fixture.things)));
                for number in 0..50 {
                    database.create_collection(format!("made_{round}_{number}")).run().expect("made");
                    let by_insert = database.collection::<Document>(&format!("new_{round}_{number}"));
                    by_insert.insert_one(doc! { "n": number }).run().expect("stored");
                    assert!(
                        !fixture
                            .client
                            .database("test")
                            .list_collection_names()
                            .run()
                            .expect("listed")
                            .is_empty()
                    );
                }
            });
            changing.expect("started").join().expect("it does not panic").expect("the writer has ended");
        });
        assert_eq!(fixture.things.count_documents(doc! {}).run().expect("counted"), 0);
    }
}

#[test]
fn a_drop_that_is_ended_while_it_waits_drops_nothing() {
    let fixture = Fixture::new();
    fixture.things.insert_one(wide()).run().expect("it is new");
    let token = CancellationToken::new();
    let dropping = fixture.things.with_cancellation(&token);
    thread::scope(|scope| {
        let mut waiting = None;
        beside(&fixture.things, slow_update, || {
            wait_a_while();
            waiting = Some(scope.spawn(|| dropping.drop().run()));
            wait_a_while();
            token.cancel();
        });
        let ended = waiting.expect("started").join().expect("it does not panic").expect_err("it was ended");
        assert_eq!(ended.code(), Some(INTERRUPTED), "{ended}");
    });
    assert_eq!(fixture.things.count_documents(doc! {}).run().expect("counted"), 1);
}

/// Needs more steps than a write may compute under its latch.
fn long(field: &str) -> Document {
    let numbers = || doc! { "$range": [0, 300] };
    let inner = doc! { "$map": { "input": numbers(), "as": "y", "in": { "$add": ["$$x", "$$y", field] } } };
    doc! { "$sum": { "$map": { "input": numbers(), "as": "x", "in": { "$sum": inner } } } }
}

/// A computation without the latch counts only if the document is still the same.
#[test]
fn updates_that_take_long_lose_no_other_one() {
    const EACH: i32 = 8;
    let fixture = Fixture::new();
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("built");
    fixture.things.insert_one(doc! { "_id": 0, "n": 0, "m": 0 }).run().expect("it is new");
    race(0..4, |thread| {
        for _ in 0..EACH {
            let raise = vec![doc! { "$set": { "s": long("$n"), "n": { "$add": ["$n", 1] } } }];
            let quick = doc! { "$inc": { "m": 1 } };
            let filter = doc! { "_id": 0 };
            let changed = if thread % 2 == 0 {
                fixture.things.update_one(filter, raise).run()
            } else {
                fixture.things.update_one(filter, quick).run()
            };
            assert_eq!(changed.expect("changed").modified_count, 1);
        }
    });
    let found = fixture.things.find_one(doc! { "_id": 0 }).run().expect("read").expect("there");
    assert_eq!((found.get_i32("n").ok(), found.get_i32("m").ok()), (Some(2 * EACH), Some(2 * EACH)));
    assert!(fixture.client.verify().expect("verified").is_clean());
}

#[test]
fn deletes_whose_filter_takes_long_remove_what_matches_and_nothing_else() {
    let fixture = Fixture::new();
    let documents = (0..40).map(|id| doc! { "_id": id, "n": id % 2 });
    fixture.things.insert_many(documents).run().expect("they are new");
    // Each odd one, slowly.
    let filter = || doc! { "$expr": { "$and": [{ "$gte": [long("$n"), 0] }, { "$eq": ["$n", 1] }] } };
    let deleted = fixture.things.find_one_and_delete(filter()).run().expect("deleted").expect("one matches");
    assert_eq!(deleted.get_i32("n").ok(), Some(1));
    assert_eq!(fixture.things.delete_one(filter()).run().expect("deleted").deleted_count, 1);
    assert_eq!(fixture.things.delete_many(filter()).run().expect("deleted").deleted_count, 18);
    assert_eq!(fixture.things.count_documents(doc! { "n": 1 }).run().expect("counted"), 0);
    assert_eq!(fixture.things.count_documents(doc! {}).run().expect("counted"), 20);
}

/// As many documents as need about a minute: no test waits for the end of a write to all of them.
const LONG: i32 = 60_000;
/// As many documents as need about a second.
const SHORT: i32 = 1000;

/// A pipeline that needs about a millisecond for a document.
fn slowly() -> Vec<Document> {
    let numbers = doc! { "$range": [0, 3000] };
    let sum =
        doc! { "$reduce": { "input": numbers, "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } };
    vec![doc! { "$set": { "sum": sum } }]
}

/// A caller that wanted to be alone in a collection waited for the whole of a long write, and every other writer with
/// it, whatever the limits of their times were.
#[track_caller]
fn nobody_waits_for_a_long_write(write: impl Fn(&Collection<Document>) -> Result<u64, Error> + Sync) {
    let fixture = Fixture::new();
    let collection = |name: &str, count: i32| {
        let things = fixture.client.database("test").collection::<Document>(name);
        things.insert_many((0..count).map(|id| doc! { "_id": id, "n": id % 7 })).run().expect("stored");
        things
    };
    let index = || IndexModel::builder().keys(doc! { "n": 1 }).build();
    let things = collection("long", LONG);
    beside(
        &things,
        |things| write(things).map(drop),
        || {
            wait_a_while();
            thread::scope(|scope| {
                let building = scope.spawn(|| things.create_index(index()).run());
                while !building.is_finished() {
                    // It fails if it waits for longer.
                    let insert = things.insert_one(doc! { "other": true }).max_time(PATIENCE);
                    insert.run().expect("stored");
                    pause();
                }
                building.join().expect("it does not panic").expect("built");
            });
        },
    );
    // A write that is interrupted by others does all that it has to do.
    let things = collection("short", SHORT);
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&things).expect("written"));
        wait_a_while();
        things.create_index(index()).run().expect("built");
        assert_eq!(writing.join().expect("it does not panic"), u64::try_from(SHORT).expect("a number"));
    });
    assert!(fixture.client.verify().expect("verified").is_clean());
}

#[test]
fn nobody_waits_for_an_update_of_many_documents() {
    nobody_waits_for_a_long_write(|things| {
        Ok(things.update_many(doc! { "_id": { "$gte": 0 } }, slowly()).run()?.modified_count)
    });
}

#[test]
fn nobody_waits_for_a_delete_of_many_documents() {
    let slow = slowly().remove(0).remove("$set").expect("set");
    let sum = slow.as_document().expect("a document").get("sum").expect("a sum").clone();
    nobody_waits_for_a_long_write(move |things| {
        let filter = doc! { "_id": { "$gte": 0 }, "$expr": { "$gt": [sum.clone(), 1] } };
        Ok(things.delete_many(filter).run()?.deleted_count)
    });
}

/// A search that finds nothing holds up no other either.
#[test]
fn nobody_waits_for_a_write_that_searches_long() {
    let slow = slowly().remove(0).remove("$set").expect("set");
    let sum = slow.as_document().expect("a document").get("sum").expect("a sum").clone();
    nobody_waits_for_a_long_write(move |things| {
        let filter = doc! { "_id": { "$gte": 0 }, "$expr": { "$lt": [sum.clone(), 1] } };
        let updated = things.update_one(filter, doc! { "$set": { "n": 8 } }).run()?;
        assert_eq!(updated.matched_count, 0);
        Ok(u64::try_from(SHORT).expect("a number"))
    });
}

/// A long insert into a collection whose documents are numbered was one part, and kept the collection to its end.
#[test]
fn nobody_waits_for_an_insert_of_many_numbered_documents() {
    const DOCUMENTS: i32 = 1500;
    for contract in [Contract::Fast, Contract::Gapless] {
        let fixture = Fixture::new();
        let database = fixture.client.database("test");
        let number = AutoIncrement::builder().field("number").contract(contract).build();
        database.create_collection("long").auto_increment(number).run().expect("made");
        let things = database.collection::<Document>("long");
        for keys in [doc! { "a": 1 }, doc! { "b": 1 }] {
            things.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
        }
        // Several times what one commit holds, and many entries of the index.
        let document = |id: i32| {
            let array: Vec<i32> = (0..300).map(|n| n * DOCUMENTS + id).collect();
            doc! { "_id": id, "a": array, "text": "x".repeat(20 << 10) }
        };
        let documents: Vec<Document> = (0..DOCUMENTS).map(document).collect();
        thread::scope(|scope| {
            let writing = scope.spawn(|| things.insert_many(&documents).run().expect("stored"));
            while things.estimated_document_count().run().expect("counted") == 0 && !writing.is_finished() {
                pause();
            }
            // The index stays whose many entries make the insert long.
            let dropped = things.drop_index("b_1").max_time(PATIENCE).run();
            dropped.expect("it does not wait for the whole insert");
            let stored = things.estimated_document_count().run().expect("counted");
            assert!(stored < documents.len() as u64, "{contract:?}: all {stored} were stored before");
            let result = writing.join().expect("it does not panic");
            assert_eq!(result.inserted_ids.len(), documents.len());
            assert_eq!(result.generated.len(), documents.len());
        });
        let last = things.find_one(doc! {}).sort(doc! { "number": -1 }).run().expect("read");
        let numbers = things.distinct("number", doc! {}).run().expect("read");
        assert_eq!(numbers.len(), documents.len(), "{contract:?}");
        let last = last.and_then(|last| last.get_i64("number").ok());
        assert!(contract == Contract::Fast || last == Some(i64::from(DOCUMENTS)), "{last:?}");
        assert!(fixture.client.verify().expect("verified").is_clean());
    }
}

/// Documents that were written until then stay written.
#[test]
fn a_write_whose_collection_goes_meanwhile_ends() {
    let fixture = Fixture::new();
    let things = fixture.client.database("test").collection::<Document>("long");
    things.insert_many((0..LONG).map(|id| doc! { "_id": id })).run().expect("stored");
    thread::scope(|scope| {
        let writing = scope.spawn(|| things.update_many(doc! {}, slowly()).run());
        let changed = doc! { "_id": { "$lt": 100 }, "sum": { "$exists": true } };
        wait_until(|| {
            things.find_one(changed.clone()).run().expect("read").is_some() || writing.is_finished()
        });
        things.drop().run().expect("dropped");
        let ended = writing.join().expect("it does not panic").expect_err("the collection is gone");
        assert_eq!(ended.code(), Some(175), "{ended}");
    });
    assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 0);
}

/// Changes of a collection waited for the end of a write in it, whatever ended them.
#[test]
fn a_change_that_waits_for_a_write_can_be_ended() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    things.insert_one(wide()).run().expect("stored");
    things.create_index(IndexModel::builder().keys(doc! { "b": 1 }).build()).run().expect("made");
    beside(things, slow_update, || {
        wait_a_while();
        let late = things.drop_indexes().max_time(WHILE).run().expect_err("the write goes on");
        assert_eq!(late.code(), Some(50), "{late}");
        let token = CancellationToken::new();
        token.cancel();
        let ended = things.with_cancellation(&token);
        for error in [
            ended.modify_index("b_1").hidden(true).run().expect_err("it is ended"),
            ended.convert_to_capped(1 << 20).run().expect_err("it is ended"),
            ended.drop_auto_increment("n").run().expect_err("it is ended"),
        ] {
            assert_eq!(error.code(), Some(INTERRUPTED), "{error}");
        }
    });
    assert_eq!(things.list_index_names().run().expect("listed"), ["_id_", "b_1"]);
}
