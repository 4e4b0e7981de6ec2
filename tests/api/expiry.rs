//! TTL indexes: what expires and when, passes by hand and by the thread, and races with those who move dates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairndb::bson::{Bson, DateTime, Document, bson, doc};
use cairndb::{Client, Collection, IndexModel, IndexOptions};
use cairndb_tests::race::{race, wait_until};
use cairndb_tests::scratch::{Scratch, things};

use crate::{Fixture, refused};

/// The moment of all passes by hand, in milliseconds.
const NOW: i64 = 1_000_000_000;

fn date(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}

fn ttl(keys: Document, seconds: u64) -> IndexModel {
    let options = IndexOptions::builder().expire_after(Duration::from_secs(seconds)).build();
    IndexModel::builder().keys(keys).options(options).build()
}

fn pass(client: &Client) -> u64 {
    client.expire_documents().now(DateTime::from_millis(NOW)).run().expect("a pass").deleted_count
}

/// With an index on `at` that expires after 10 seconds, a document with the value is deleted, or it stays.
#[track_caller]
fn check(value: Option<Bson>, is_deleted: bool) {
    let mut document = doc! { "_id": 1 };
    document.extend(value.clone().map(|value| ("at".to_owned(), value)));
    let fixture = Fixture::with([document]);
    fixture.things.create_index(ttl(doc! { "at": 1 }, 10)).run().expect("made");
    assert_eq!(pass(&fixture.client), u64::from(is_deleted), "{value:?}");
    assert_eq!(fixture.stored().len(), usize::from(!is_deleted), "{value:?}");
    fixture.verify_clean();
}

#[test]
fn a_document_expires_some_time_after_its_date() {
    check(Some(date(NOW - 10_000)), true);
    check(Some(date(NOW - 9_999)), false);
    check(Some(date(NOW + 5)), false);
    check(Some(date(i64::MIN)), true);
    check(Some(date(0)), true);
}

#[test]
fn what_is_no_date_never_expires() {
    for value in
        [bson!(5), bson!(0_i64), bson!("1970-01-01"), Bson::Null, bson!({ "at": date(0) }), bson!([])]
    {
        check(Some(value), false);
    }
    check(Some(Bson::Timestamp(cairndb::bson::Timestamp { time: 1, increment: 1 })), false);
    check(None, false);
}

#[test]
fn the_lowest_date_of_an_array_decides() {
    check(Some(bson!([date(NOW), date(0)])), true);
    check(Some(bson!([date(NOW), 5])), false);
    check(Some(bson!([5, date(NOW - 10_000)])), true);
    check(Some(bson!([[date(0)]])), false);
}

#[test]
fn an_expiry_is_whole_seconds_on_one_field() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let create = |model: IndexModel| fixture.things.create_index(model).run();
    refused(create(ttl(doc! { "a": 1, "b": 1 }, 5)), 67, "compound indexes do not support TTL");
    refused(create(ttl(doc! { "_id": 1 }, 5)), 197, "expireAfterSeconds");
    refused(create(ttl(doc! { "a": 1 }, 1 << 31)), 67, "2147483648");
    create(ttl(doc! { "a": 1 }, (1 << 31) - 1)).expect("the limit");
    create(ttl(doc! { "b": 1 }, 0)).expect("at once");
    refused(create(ttl(doc! { "b": 1 }, 1)), 85, "different options");
    create(ttl(doc! { "b": 1 }, 0)).expect("the same");
    let listed = fixture.things.list_indexes().run().expect("a list").last().expect("one").expect("read");
    assert_eq!(listed.options.and_then(|options| options.expire_after), Some(Duration::ZERO));
    let db = fixture.client.database(&fixture.things.namespace().db);
    let command = |seconds: Bson| {
        let index = doc! { "key": { "c": 1 }, "name": "c", "expireAfterSeconds": seconds };
        db.run_command(doc! { "createIndexes": fixture.things.name(), "indexes": [index] }).run()
    };
    assert!(command(bson!(-1)).is_err() && command(bson!("5")).is_err());
    command(bson!(5.0)).expect("a number");
}

#[test]
fn collmod_changes_an_expiry_and_gives_one() {
    let fixture = Fixture::with([doc! { "_id": 1, "at": date(NOW - 60_000) }]);
    fixture.things.create_index(IndexModel::builder().keys(doc! { "at": 1 }).build()).run().expect("made");
    let db = fixture.client.database(&fixture.things.namespace().db);
    let modify = |name: &str, seconds: i64| {
        let index = doc! { "name": name, "expireAfterSeconds": seconds };
        db.run_command(doc! { "collMod": fixture.things.name(), "index": index }).run()
    };
    let reply = modify("at_1", 100).expect("a TTL index now");
    assert_eq!(reply.get_i64("expireAfterSeconds_new").ok(), Some(100));
    assert!(!reply.contains_key("expireAfterSeconds_old"));
    assert_eq!(pass(&fixture.client), 0);
    let reply = modify("at_1", 30).expect("changed");
    assert_eq!(reply.get_i64("expireAfterSeconds_old").ok(), Some(100));
    assert_eq!(reply.get_i64("expireAfterSeconds_new").ok(), Some(30));
    refused(modify("at_1", -1), 72, "cannot be less than 0");
    refused(modify("at_1", 1 << 40), 72, "2147483647");
    refused(modify("_id_", 5), 72, "does not support TTL");
    assert_eq!(pass(&fixture.client), 1);
    fixture
        .things
        .create_index(IndexModel::builder().keys(doc! { "a": 1, "b": 1 }).build())
        .run()
        .expect("made");
    refused(modify("a_1_b_1", 5), 72, "compound");
}

#[test]
fn a_partial_ttl_index_deletes_what_is_in_it_and_a_hidden_one_as_well() {
    let fixture = Fixture::with((0..10).map(|id| doc! { "_id": id, "at": date(0), "done": id < 4 }));
    let options = IndexOptions::builder()
        .expire_after(Duration::from_secs(5))
        .partial_filter_expression(doc! { "done": true })
        .hidden(true)
        .build();
    let model = IndexModel::builder().keys(doc! { "at": -1 }).options(options).build();
    fixture.things.create_index(model).run().expect("made");
    assert_eq!(pass(&fixture.client), 4);
    assert_eq!(fixture.stored().len(), 6);
    fixture.verify_clean();
}

#[test]
fn a_pass_is_made_in_rounds_over_all_collections() {
    let fixture = Fixture::with((0..45_000).map(|id| doc! { "_id": id, "at": date(i64::from(id % 7)) }));
    fixture.things.create_index(ttl(doc! { "at": 1 }, 0)).run().expect("made");
    let other = fixture.client.database("other").collection::<Document>("things");
    other
        .insert_many([doc! { "_id": 1, "till": date(5) }, doc! { "_id": 2, "till": date(2 * NOW) }])
        .run()
        .unwrap();
    other.create_index(ttl(doc! { "till": 1 }, 0)).run().expect("made");
    assert_eq!(pass(&fixture.client), 45_001);
    assert_eq!(fixture.things.estimated_document_count().run().expect("counted"), 0);
    assert_eq!(other.count_documents(doc! {}).run().expect("counted"), 1);
    fixture.verify_clean();
}

#[test]
fn a_pass_ends_by_its_time_limit_and_in_a_store_that_refuses_writes() {
    let fixture = Fixture::with((0..100).map(|id| doc! { "_id": id, "at": date(0) }));
    fixture.things.create_index(ttl(doc! { "at": 1 }, 0)).run().expect("made");
    let limited = fixture.client.expire_documents().max_time(Duration::from_nanos(1)).run();
    refused(limited, 50, "time limit");
    let reader = fixture.scratch.open_with(Client::builder().read_only(true));
    assert!(reader.expire_documents().run().is_err());
}

fn is_empty(things: &Collection<Document>) -> bool {
    things.count_documents(doc! {}).run().expect("counted") == 0
}

#[test]
fn the_thread_deletes_what_expires() {
    let scratch = Scratch::new();
    let client = scratch.open_with(Client::builder().ttl_interval(Duration::from_millis(1)));
    let things = things(&client);
    things.create_index(ttl(doc! { "at": 1 }, 0)).run().expect("made");
    things.insert_one(doc! { "_id": 1, "at": DateTime::now() }).run().expect("stored");
    wait_until(|| is_empty(&things));
    client.clone().close().expect("the thread ends");
    drop((things, client));

    // It starts with the store as well, and after `collMod` made the first TTL index.
    let client = scratch.open_with(Client::builder().ttl_interval(None));
    let things = cairndb_tests::scratch::things(&client);
    things.insert_one(doc! { "_id": 2, "at": date(0), "b": date(0) }).run().expect("stored");
    client.close().expect("closed");
    let client = scratch.open_with(Client::builder().ttl_interval(Duration::from_millis(1)));
    let things = cairndb_tests::scratch::things(&client);
    wait_until(|| is_empty(&things));
    things.drop_indexes().run().expect("dropped");
    things.insert_one(doc! { "_id": 3, "b": date(0) }).run().expect("stored");
    things.create_index(IndexModel::builder().keys(doc! { "b": 1 }).build()).run().expect("made");
    things.modify_index("b_1").expire_after(Duration::ZERO).run().expect("changed");
    wait_until(|| is_empty(&things));
}

#[test]
fn no_thread_deletes_where_it_is_switched_off_or_the_client_is_dropped() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let client = scratch.open_with(Client::builder().ttl_interval(Duration::from_micros(100)));
        let things = things(&client);
        things.create_index(ttl(doc! { "at": 1 }, 0)).run().expect("made");
        let expired = (0..50).map(|id| doc! { "_id": 100 * round + id, "at": date(0) });
        things.insert_many(expired).run().expect("stored");
        // Dropped and not closed: the folder is free at once, although the thread may be at work.
    }
    assert!(Client::builder().ttl_interval(Duration::ZERO).open(scratch.path()).is_err());
    let client = scratch.open_with(Client::builder().ttl_interval(None));
    let things = things(&client);
    things.insert_one(doc! { "_id": -1, "at": date(0) }).run().expect("stored");
    assert!(things.find_one(doc! { "_id": -1 }).run().expect("found").is_some());
    crate::verify_clean(&client);
}

/// Writers move dates from the past to the future and back, and record for each document whether it may be deleted: only one
/// that was in the past when it was deleted.
#[test]
fn a_date_that_is_moved_in_time_keeps_its_document() {
    let fixture = Fixture::with((0..200).map(|id| doc! { "_id": id, "at": date(2 * NOW), "moves": 0 }));
    let things = &fixture.things;
    things.create_index(ttl(doc! { "at": 1 }, 0)).run().expect("made");
    let is_over = AtomicBool::new(false);
    race(0..5, |role: i32| {
        if role == 0 {
            while !is_over.load(Ordering::Acquire) {
                pass(&fixture.client);
            }
            return;
        }
        // Each writer has documents of its own, half of which never have a date in the past.
        for round in 0..60 {
            for id in (role - 1) * 50..role * 50 {
                let moved = if id % 2 == 0 { 3 * NOW + i64::from(round) } else { 0 };
                let update = doc! { "$set": { "at": date(moved) }, "$inc": { "moves": 1 } };
                let done = things.update_one(doc! { "_id": id }, update).run().expect("changed");
                assert!(id % 2 == 1 || done.matched_count == 1, "document {id} was deleted before its time");
                if id % 2 == 1 {
                    let back = doc! { "$set": { "at": date(2 * NOW) } };
                    things.update_one(doc! { "_id": id }, back).upsert(true).run().expect("changed");
                }
            }
        }
        if role == 1 {
            is_over.store(true, Ordering::Release);
        }
    });
    let kept = things.count_documents(doc! { "moves": 60, "at": { "$gt": date(2 * NOW) } }).run();
    assert_eq!(kept.expect("counted"), 100);
    fixture.verify_clean();
}
