//! Ending what runs from another thread, and what a command may use.

use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{CancellationToken, Collection, DeleteManyModel, Error, IndexModel, Interruption, WriteModel};

use crate::Fixture;

const INTERRUPTED: i32 = 11_601;
const MAX_TIME_EXPIRED: i32 = 50;

/// An array of small numbers, over which expressions can loop for as long as a test lives.
pub(crate) fn wide() -> Document {
    doc! { "_id": 0, "a": (0..2_000).collect::<Vec<i32>>() }
}

/// An expression that goes through the array once for each of its elements, and each of those.
pub(crate) fn endless() -> Document {
    let inner = doc! { "$map": { "input": "$a", "as": "z", "in": { "$add": ["$$x", "$$y", "$$z"] } } };
    let middle = doc! { "$map": { "input": "$a", "as": "y", "in": { "$sum": inner } } };
    doc! { "$sum": { "$map": { "input": "$a", "as": "x", "in": { "$sum": middle } } } }
}

fn code(outcome: Result<(), Error>) -> Option<i32> {
    outcome.expect_err("it is ended").code()
}

/// Runs a call with a limit of time, which is over in the middle of it, and on a handle whose token another thread cancels
/// meanwhile. A limit of zero is none.
#[track_caller]
fn check_ended(call: impl Fn(&Collection<Document>, Duration) -> Result<(), Error> + Sync) {
    let fixture = Fixture::new();
    fixture.things.insert_one(wide()).run().expect("it is new");
    // No call looks at nothing but its beginning, when most of its time is left: it would never end.
    let late = call(&fixture.things, Duration::from_millis(20));
    assert_eq!(code(late), Some(MAX_TIME_EXPIRED));
    let token = CancellationToken::new();
    let things = fixture.things.with_cancellation(&token);
    thread::scope(|scope| {
        let running = scope.spawn(|| code(call(&things, Duration::ZERO)));
        token.cancel();
        assert_eq!(running.join().expect("it does not panic"), Some(INTERRUPTED));
    });
    assert_eq!(fixture.things.count_documents(doc! {}).run().expect("others go on"), 1);
}

#[test]
fn reads_end_wherever_they_are() {
    let filter = || doc! { "$expr": { "$gt": [endless(), 0] } };
    check_ended(|things, limit| {
        things.find(filter()).max_time(limit).run()?.try_for_each(|document| document.map(drop))
    });
    check_ended(|things, limit| things.find_one(filter()).max_time(limit).run().map(drop));
    check_ended(|things, limit| {
        let rows = things.find(doc! {}).projection(doc! { "s": endless() }).max_time(limit);
        rows.run()?.try_for_each(|row| row.map(drop))
    });
    check_ended(|things, limit| things.count_documents(filter()).max_time(limit).run().map(drop));
    check_ended(|things, limit| things.distinct("a", filter()).max_time(limit).run().map(drop));
    let stages = || [doc! { "$group": { "_id": Bson::Null, "s": { "$sum": endless() } } }];
    check_ended(|things, limit| {
        things.aggregate(stages()).max_time(limit).run()?.try_for_each(|document| document.map(drop))
    });
}

#[test]
fn writes_end_wherever_they_are() {
    let filter = || doc! { "$expr": { "$gt": [endless(), 0] } };
    let set = || doc! { "$set": { "b": 1 } };
    check_ended(|things, limit| things.update_many(filter(), set()).max_time(limit).run().map(drop));
    check_ended(|things, limit| {
        things.update_one(doc! {}, vec![doc! { "$set": { "s": endless() } }]).max_time(limit).run().map(drop)
    });
    check_ended(|things, limit| things.replace_one(filter(), doc! {}).max_time(limit).run().map(drop));
    check_ended(|things, limit| things.delete_one(filter()).max_time(limit).run().map(drop));
    check_ended(|things, limit| things.delete_many(filter()).max_time(limit).run().map(drop));
    check_ended(|things, limit| things.find_one_and_delete(filter()).max_time(limit).run().map(drop));
    check_ended(|things, limit| things.find_one_and_update(filter(), set()).max_time(limit).run().map(drop));
    check_ended(|things, limit| {
        things.find_one_and_replace(filter(), doc! {}).max_time(limit).run().map(drop)
    });
    let model = |things: &Collection<Document>| {
        let model = DeleteManyModel::builder().namespace(things.namespace()).filter(filter());
        WriteModel::from(model.build())
    };
    check_ended(|things, limit| things.bulk_write([model(things)]).max_time(limit).run().map(drop));
}

/// What is found at once, without a plan, ends like what is searched for.
#[test]
fn a_used_token_ends_searches_by_an_index() {
    let fixture = Fixture::new();
    let keys = IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(keys).run().expect("made");
    fixture.things.insert_many((0..3).map(|id| doc! { "_id": id, "a": 7 })).run().expect("inserted");
    let token = CancellationToken::new();
    let things = fixture.things.with_cancellation(&token);
    let mut open =
        [doc! { "_id": 1 }, doc! { "a": 7 }].map(|filter| things.find(filter).run().expect("a cursor"));
    assert!(open[1].advance().expect("read"));
    token.cancel();
    for cursor in &mut open {
        assert_eq!(code(cursor.advance().map(drop)), Some(INTERRUPTED));
    }
    for filter in [doc! { "_id": 1 }, doc! { "a": 7 }, doc! { "a": 8 }] {
        let all = things
            .find(filter.clone())
            .run()
            .and_then(|mut cursor| cursor.try_for_each(|found| found.map(drop)));
        assert_eq!(code(all), Some(INTERRUPTED), "{filter}");
    }
}

#[test]
fn a_used_token_ends_what_begins_later() {
    let fixture = Fixture::new();
    let token = CancellationToken::new();
    token.cancel();
    let things = fixture.client.with_cancellation(&token).database("app").collection::<Document>("things");
    let many = (0..1_000).map(|id| doc! { "_id": id });
    assert_eq!(code(things.insert_many(many.clone()).run().map(drop)), Some(INTERRUPTED));
    // One document is stored without another look at the token, and a missing collection leaves nothing to look from.
    assert_eq!(code(things.insert_one(doc! {}).run().map(drop)), Some(INTERRUPTED));
    let update = doc! { "$set": { "a": 1 } };
    assert_eq!(code(things.update_one(doc! {}, update).run().map(drop)), Some(INTERRUPTED));
    assert_eq!(code(things.delete_one(doc! {}).run().map(drop)), Some(INTERRUPTED));
    fixture.client.database("app").collection::<Document>("things").insert_many(many).run().expect("stored");
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    assert_eq!(code(things.create_index(index).run().map(drop)), Some(INTERRUPTED));
    assert_eq!(things.list_index_names().run().expect("names"), ["_id_"]);
    let plain = fixture.client.database("app").collection::<Document>("things");
    plain.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("built");
    assert_eq!(code(things.drop_index("n_1").run()), Some(INTERRUPTED));
    assert_eq!(code(things.drop_indexes().run()), Some(INTERRUPTED));
    assert_eq!(things.list_index_names().run().expect("names"), ["_id_", "n_1"]);
    fixture.verify_clean();
}

#[test]
fn the_reason_decides_the_number() {
    for (reason, expected) in [
        (Interruption::ShuttingDown, 11_600),
        (Interruption::ClientDisconnected, 279),
        (Interruption::CursorKilled, 237),
    ] {
        let fixture = Fixture::new();
        fixture.things.insert_one(wide()).run().expect("it is new");
        let token = CancellationToken::new();
        token.cancel_because(reason);
        let things = fixture.things.with_cancellation(&token);
        let outcome = things.aggregate([doc! { "$set": { "s": endless() } }]).run();
        let outcome = outcome.and_then(|mut cursor| cursor.try_for_each(|document| document.map(drop)));
        assert_eq!(code(outcome), Some(expected));
    }
}

/// An aggregation of one document ran for 12 seconds with a limit of a tenth of one: the clock was looked at between
/// documents only.
#[test]
fn a_limit_of_time_holds_within_one_document() {
    let fixture = Fixture::new();
    fixture.things.insert_one(wide()).run().expect("it is new");
    let limit = Duration::from_millis(20);
    let stages = [doc! { "$set": { "s": endless() } }];
    let outcome = fixture.things.aggregate(stages.clone()).max_time(limit).run();
    let outcome = outcome.and_then(|mut cursor| cursor.try_for_each(|document| document.map(drop)));
    assert_eq!(code(outcome), Some(MAX_TIME_EXPIRED));
    let update = fixture.things.update_many(doc! {}, stages.to_vec()).max_time(limit).run();
    assert_eq!(code(update.map(drop)), Some(MAX_TIME_EXPIRED));
    let command = doc! { "aggregate": "things", "pipeline": stages.to_vec(), "cursor": {}, "maxTimeMS": 20 };
    let database = fixture.client.database(&fixture.things.namespace().db);
    assert_eq!(code(database.run_command(command).run().map(drop)), Some(MAX_TIME_EXPIRED));
}

/// 4,097 values were widened to one range over all documents between them.
#[test]
fn many_ids_are_looked_up_one_by_one() {
    let fixture = Fixture::new();
    let ids = 0..20_000;
    fixture.things.insert_many(ids.clone().map(|id| doc! { "_id": id })).run().expect("they are new");
    let wanted: Vec<i32> = ids.step_by(4).collect();
    let database = fixture.client.database(&fixture.things.namespace().db);
    let find = doc! { "find": "things", "filter": { "_id": { "$in": &wanted } } };
    let reply =
        database.run_command(doc! { "explain": find, "verbosity": "executionStats" }).run().expect("a plan");
    let statistics = reply.get_document("executionStats").expect("it was run");
    assert_eq!(statistics.get_i32("totalDocsExamined").ok(), Some(5_000));
    assert_eq!(statistics.get_i32("nReturned").ok(), Some(5_000));

    let filter = doc! { "_id": { "$in": &wanted } };
    let backwards = fixture.things.find(filter.clone()).sort(doc! { "_id": -1 }).run().expect("a cursor");
    let found = backwards.map(|document| document.expect("a document").get_i32("_id").expect("a number"));
    assert!(found.eq(wanted.iter().rev().copied()));
    let changed =
        fixture.things.update_many(filter.clone(), doc! { "$set": { "n": 1 } }).run().expect("changed");
    assert_eq!(changed.modified_count, 5_000);
    assert_eq!(fixture.things.delete_many(filter).run().expect("removed").deleted_count, 5_000);
    assert_eq!(fixture.things.count_documents(doc! {}).run().expect("a count"), 15_000);
}

/// A cursor that rests goes on where it stood, in every direction, and on the state that it began with.
#[test]
fn a_cursor_that_rests_goes_on_where_it_stood() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    let documents = (0..30).map(|id| doc! { "_id": id, "n": id % 7, "m": [id, id + 1] });
    things.insert_many(documents).run().expect("they are new");
    for field in ["n", "m"] {
        things.create_index(IndexModel::builder().keys(doc! { field: 1 }).build()).run().expect("built");
    }
    let points: Vec<i32> = (0..30).step_by(3).collect();
    for (filter, sort) in [
        (doc! {}, doc! { "_id": 1 }),
        (doc! {}, doc! { "_id": -1 }),
        (doc! { "_id": 7 }, doc! {}),
        (doc! { "$or": [{ "n": 3 }, { "m": 4 }, { "m": { "$gt": 20 } }] }, doc! {}),
        (doc! { "_id": { "$in": &points } }, doc! { "_id": -1 }),
        (doc! { "$or": [{ "_id": { "$lt": 7 } }, { "_id": { "$gt": 20 } }] }, doc! { "_id": 1 }),
        (doc! {}, doc! { "n": 1 }),
    ] {
        let open = || things.find(filter.clone()).sort(sort.clone()).run().expect("a cursor");
        let expected: Vec<Document> = open().collect::<Result<_, _>>().expect("documents");
        let mut resting = open();
        resting.rest();
        let mut found = Vec::new();
        while resting.advance().expect("it goes on") {
            // A reader without room reads it again, however often.
            for _ in 0..found.len() % 3 {
                resting.step_back();
                resting.rest();
                assert!(resting.current().is_empty() && resting.deserialize_current().is_err());
                assert!(!resting.is_exhausted() && resting.advance().expect("it goes on"));
            }
            // Later writes are not of this state.
            things.update_many(doc! {}, doc! { "$inc": { "later": 1 } }).run().expect("changed");
            found.push(resting.deserialize_current().expect("a document"));
            resting.rest();
            resting.rest();
        }
        assert_eq!(found, expected, "{filter} by {sort}");
    }
}

/// The documents of a pipeline cannot be read again, so they are kept.
#[test]
fn a_pipeline_that_rests_goes_on_where_it_stood() {
    let fixture = Fixture::new();
    let documents = (0..10).map(|id| doc! { "_id": id, "m": [id, -id, 7] });
    fixture.things.insert_many(documents).run().expect("they are new");
    let open = || fixture.things.aggregate([doc! { "$unwind": "$m" }]).run().expect("a cursor");
    let expected: Vec<Document> = open().collect::<Result<_, _>>().expect("documents");
    let mut resting = open();
    let mut found = Vec::new();
    while resting.advance().expect("it goes on") {
        resting.step_back();
        assert!(resting.advance().expect("the same again"));
        found.push(resting.deserialize_current().expect("a document"));
        resting.rest();
    }
    assert_eq!(found, expected);
    assert_eq!(found.len(), 30);
}

/// Forty ranges in variables used half a gigabyte: the limit was a value's, and the number of values had none.
#[test]
fn what_an_operation_holds_is_bounded() {
    let fixture = Fixture::new();
    fixture.things.insert_one(doc! { "_id": 1, "n": 0 }).run().expect("it is new");
    let range = |number: i32| doc! { "$range": [{ "$add": ["$n", number] }, 1_000_000] };
    let values: Document = (0..40).map(|number| (format!("v{number}"), Bson::from(range(number)))).collect();
    let stages = [doc! { "$set": { "s": { "$let": { "vars": values, "in": { "$size": "$$v0" } } } } }];
    let outcome = fixture.things.aggregate(stages).run();
    let outcome = outcome.and_then(|mut cursor| cursor.try_for_each(|document| document.map(drop)));
    assert_eq!(code(outcome), Some(146));
}
