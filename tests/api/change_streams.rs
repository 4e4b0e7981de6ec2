//! Change streams: what they show and in which order, where they begin and end, and what bad input gets.

use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, Document, Timestamp, doc};
use cairndb::{
    ChangeLogging, ChangeStream, ChangeStreamEvent, ChangeStreamPreAndPostImages, Client, Collection,
    FullDocumentBeforeChangeType, FullDocumentType, IndexModel, NON_RESUMABLE_CHANGE_STREAM_ERROR,
    OperationType, ResumeToken, WriteConcern,
};

use cairndb_tests::race::wait_until;
use cairndb_tests::scratch::{Scratch, small};

use crate::Fixture;

pub(crate) type Stream = ChangeStream<ChangeStreamEvent<Document>>;
pub(crate) type Event = ChangeStreamEvent<Document>;

pub(crate) fn orders(client: &Client) -> Collection<Document> {
    client.database("shop").collection("orders")
}

pub(crate) fn watch(collection: &Collection<Document>) -> Stream {
    collection.watch().run().expect("opened")
}

#[track_caller]
fn refused<T>(result: cairndb::Result<T>, code: i32) {
    let error = result.map(drop).expect_err("refused");
    assert_eq!(error.code(), Some(code), "{error}");
}

pub(crate) fn next(stream: &mut Stream) -> Event {
    stream.next().expect("a stream has no end").expect("an event")
}

/// The events up to a document with this `_id`, which is inserted to mark the end.
pub(crate) fn through(collection: &Collection<Document>, stream: &mut Stream) -> Vec<Event> {
    collection.insert_one(doc! { "_id": "end" }).run().expect("stored");
    let mut events = Vec::new();
    loop {
        let event = next(stream);
        if event.document_key == Some(doc! { "_id": "end" }) {
            collection.delete_one(doc! { "_id": "end" }).run().expect("deleted");
            assert_eq!(next(stream).operation_type, OperationType::Delete);
            return events;
        }
        events.push(event);
    }
}

/// The parts of an event, in short.
pub(crate) fn told(event: &Event) -> (&'static str, Bson, Document) {
    let kinds = [
        (OperationType::Insert, "insert"),
        (OperationType::Update, "update"),
        (OperationType::Replace, "replace"),
        (OperationType::Delete, "delete"),
    ];
    let known = kinds.into_iter().find(|(kind, _)| *kind == event.operation_type);
    let kind = known.map_or("other", |(_, name)| name);
    let id = event.document_key.as_ref().and_then(|key| key.get("_id")).cloned().unwrap_or(Bson::Null);
    let update = || {
        let update = event.update_description.as_ref()?;
        let mut told = update.updated_fields.clone();
        told.extend(update.removed_fields.iter().map(|path| (path.clone(), Bson::Undefined)));
        Some(told)
    };
    (kind, id, event.full_document.clone().or_else(update).unwrap_or_default())
}

#[track_caller]
fn check(events: &[Event], expected: &[(&'static str, i32, Document)]) {
    let found: Vec<_> = events.iter().map(told).collect();
    let expected: Vec<_> =
        expected.iter().map(|(kind, id, told)| (*kind, Bson::Int32(*id), told.clone())).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_kind_of_write_is_shown() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
    orders.insert_many([doc! { "_id": 2 }, doc! { "_id": 3 }]).run().expect("stored");
    orders
        .update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 }, "$set": { "a.b": 1 } })
        .run()
        .expect("updated");
    orders.update_one(doc! { "_id": 1 }, doc! { "$unset": { "n": 1 } }).run().expect("updated");
    orders.update_many(doc! { "_id": { "$gt": 1 } }, doc! { "$set": { "x": 1 } }).run().expect("updated");
    orders.replace_one(doc! { "_id": 2 }, doc! { "y": 2 }).run().expect("replaced");
    orders.update_one(doc! { "_id": 4 }, doc! { "$set": { "u": 1 } }).upsert(true).run().expect("upserted");
    orders.find_one_and_update(doc! { "_id": 3 }, doc! { "$set": { "x": 2 } }).run().expect("updated");
    orders.find_one_and_delete(doc! { "_id": 4 }).run().expect("deleted");
    orders.delete_one(doc! { "_id": 1 }).run().expect("deleted");
    orders.delete_many(doc! {}).run().expect("deleted");
    check(
        &through(&orders, &mut stream),
        &[
            ("insert", 1, doc! { "_id": 1, "n": 1 }),
            ("insert", 2, doc! { "_id": 2 }),
            ("insert", 3, doc! { "_id": 3 }),
            ("update", 1, doc! { "n": 2, "a": { "b": 1 } }),
            ("update", 1, doc! { "n": Bson::Undefined }),
            ("update", 2, doc! { "x": 1 }),
            ("update", 3, doc! { "x": 1 }),
            ("replace", 2, doc! { "_id": 2, "y": 2 }),
            ("insert", 4, doc! { "_id": 4, "u": 1 }),
            ("update", 3, doc! { "x": 2 }),
            ("delete", 4, doc! {}),
            ("delete", 1, doc! {}),
            ("delete", 2, doc! {}),
            ("delete", 3, doc! {}),
        ],
    );
    fixture.verify_clean();
}

#[test]
fn a_write_that_changes_nothing_is_not_shown() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 1 } }).run().expect("matched");
    orders.replace_one(doc! { "_id": 1 }, doc! { "n": 1 }).run().expect("matched");
    orders.delete_one(doc! { "_id": 2 }).run().expect("nothing");
    orders.insert_one(doc! { "_id": 1 }).run().expect_err("a duplicate");
    let batch = [doc! { "_id": 5 }, doc! { "_id": 1 }, doc! { "_id": 6 }];
    orders.insert_many(batch).ordered(false).run().expect_err("a duplicate");
    check(
        &through(&orders, &mut stream),
        &[
            ("insert", 1, doc! { "_id": 1, "n": 1 }),
            ("insert", 5, doc! { "_id": 5 }),
            ("insert", 6, doc! { "_id": 6 }),
        ],
    );
}

#[test]
fn indexes_capped_collections_and_tokens_leave_events_too() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let options = cairndb::IndexOptions::builder().unique(true).build();
    orders
        .create_index(IndexModel::builder().keys(doc! { "n": 1 }).options(options).build())
        .run()
        .expect("made");
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1, "n": 1 }).exactly_once("first").run().expect("stored");
    orders.insert_one(doc! { "_id": 1, "n": 1 }).exactly_once("first").run().expect("replayed");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 7 } }).run().expect("updated");
    orders.delete_one(doc! { "n": 7 }).exactly_once("second").run().expect("deleted");
    check(
        &through(&orders, &mut stream),
        &[("insert", 1, doc! { "_id": 1, "n": 1 }), ("update", 1, doc! { "n": 7 }), ("delete", 1, doc! {})],
    );
    let db = fixture.client.database("shop");
    db.create_collection("log").capped(true).size(1 << 20).max(2).run().expect("made");
    let log = db.collection::<Document>("log");
    let mut stream = watch(&log);
    log.insert_many((0..4).map(|id| doc! { "_id": id })).run().expect("stored");
    let mut kinds: Vec<_> = (0..6).map(|_| told(&next(&mut stream))).collect();
    kinds.sort_by_key(|(kind, id, _)| (*kind, id.as_i32()));
    let ids: Vec<_> = kinds.iter().map(|(kind, id, _)| (*kind, id.as_i32().expect("a number"))).collect();
    assert_eq!(
        ids,
        [("delete", 0), ("delete", 1), ("insert", 0), ("insert", 1), ("insert", 2), ("insert", 3)]
    );
}

#[test]
fn a_transaction_is_shown_as_one_and_an_aborted_one_is_not() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    orders.insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut stream = watch(&orders);
    let mut session = fixture.client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    orders.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    orders.insert_one(doc! { "_id": 9 }).run().expect("stored");
    orders
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 1 } })
        .session(&mut session)
        .run()
        .expect("staged");
    orders.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("staged");
    orders.delete_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    session.commit_transaction().run().expect("committed");
    session.start_transaction().run().expect("begun");
    orders.insert_one(doc! { "_id": 3 }).session(&mut session).run().expect("staged");
    session.abort_transaction().run().expect("aborted");
    let events = through(&orders, &mut stream);
    check(
        &events,
        &[
            ("insert", 9, doc! { "_id": 9 }),
            ("insert", 1, doc! { "_id": 1 }),
            ("update", 1, doc! { "n": 1 }),
            ("insert", 2, doc! { "_id": 2 }),
            ("delete", 1, doc! {}),
        ],
    );
    assert!(events[1..].iter().all(|event| event.cluster_time == events[1].cluster_time));
    assert!(events[0].cluster_time < events[1].cluster_time);
}

/// Changes that were staged before the log was switched on would be missing in it.
#[test]
fn a_transaction_that_began_before_the_log_is_tried_again() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    orders.insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut session = fixture.client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    orders.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    let mut stream = watch(&orders);
    let refused = session.commit_transaction().run().expect_err("a conflict");
    assert!(refused.is_write_conflict(), "{refused}");
    let mut session = fixture.client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    fixture
        .client
        .database("shop")
        .collection("new")
        .insert_one(doc! {})
        .session(&mut session)
        .run()
        .expect("staged");
    fixture.client.database("shop").watch().run().expect("opened");
    let refused = session.commit_transaction().run().expect_err("a conflict");
    assert!(refused.is_write_conflict(), "{refused}");
    check(&through(&orders, &mut stream), &[]);
}

#[test]
fn streams_on_databases_and_clients_show_their_collections() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    shop.collection("old").insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut of_shop = shop.watch().run().expect("opened");
    let mut of_all = fixture.client.watch().run().expect("opened");
    for (db, coll) in [("shop", "old"), ("other", "things"), ("shop", "new")] {
        let collection = fixture.client.database(db).collection(coll);
        collection.insert_one(doc! { "_id": coll }).run().expect("stored");
    }
    let names = |stream: &mut Stream, count: usize| {
        let ns = (0..count).map(|_| next(stream).ns.expect("a name"));
        ns.map(|ns| format!("{}.{}", ns.db, ns.coll.expect("a name"))).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut of_shop, 2), ["shop.old", "shop.new"]);
    assert_eq!(names(&mut of_all, 3), ["shop.old", "other.things", "shop.new"]);
}

#[test]
fn a_database_that_is_dropped_ends_its_streams() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    shop.collection("orders").insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut of_shop = shop.watch().run().expect("opened");
    let mut of_all = fixture.client.watch().run().expect("opened");
    shop.drop().run().expect("dropped");
    for stream in [&mut of_shop, &mut of_all] {
        assert_eq!(next(stream).operation_type, OperationType::Drop);
        let dropped = next(stream);
        assert_eq!(dropped.operation_type, OperationType::DropDatabase);
        assert_eq!(dropped.ns.map(|ns| (ns.db, ns.coll)), Some(("shop".to_owned(), None)));
    }
    assert_eq!(next(&mut of_shop).operation_type, OperationType::Invalidate);
    assert!(of_shop.next().is_none() && of_all.is_alive());
    // It is dropped already: nothing happens.
    shop.drop().run().expect("nothing");
    shop.collection("orders").insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_eq!(next(&mut of_all).full_document, Some(doc! { "_id": 1 }));
}

#[test]
fn drops_and_renames_end_a_stream_and_it_can_be_started_after() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    orders.drop().run().expect("dropped");
    assert_eq!(next(&mut stream).operation_type, OperationType::Insert);
    let dropped = next(&mut stream);
    assert_eq!(dropped.operation_type, OperationType::Drop);
    let end = next(&mut stream);
    assert_eq!(end.operation_type, OperationType::Invalidate);
    assert!(!stream.is_alive() && stream.next().is_none());
    assert_eq!(stream.resume_token(), Some(end.id.clone()));
    // A stream that is resumed after the drop is at its end.
    let mut again = orders.watch().resume_after(dropped.id).run().expect("opened");
    assert_eq!(next(&mut again).operation_type, OperationType::Invalidate);
    assert!(again.next().is_none());
    refused(orders.watch().resume_after(end.id.clone()).run(), 260);
    // The new collection of that name is logged from its first document on.
    orders.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let mut later = orders.watch().start_after(end.id).run().expect("opened");
    assert_eq!(next(&mut later).full_document, Some(doc! { "_id": 2 }));
    let mut of_target = watch(&fixture.client.database("shop").collection("sold"));
    orders.rename("sold").run().expect("renamed");
    for stream in [&mut later, &mut of_target] {
        let renamed = next(stream);
        assert_eq!(renamed.operation_type, OperationType::Rename);
        assert_eq!(renamed.to.and_then(|to| to.coll).as_deref(), Some("sold"));
        assert_eq!(next(stream).operation_type, OperationType::Invalidate);
    }
    // It is logged under its new name too.
    let sold = fixture.client.database("shop").collection::<Document>("sold");
    let mut stream = watch(&sold);
    sold.delete_one(doc! { "_id": 2 }).run().expect("deleted");
    assert_eq!(next(&mut stream).operation_type, OperationType::Delete);
    sold.insert_one(doc! {}).run().expect("stored");
    sold.truncate().run().expect("truncated");
    assert_eq!(next(&mut stream).operation_type, OperationType::Insert);
    assert_eq!(next(&mut stream).operation_type, OperationType::Other("truncate".to_owned()));
}

#[test]
fn what_out_gathers_is_no_event_and_its_rename_is_one() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    orders.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    let copies = fixture.client.database("shop").collection::<Document>("copies");
    let mut stream = watch(&copies);
    orders.aggregate([doc! { "$out": "copies" }]).run().expect("written");
    assert_eq!(next(&mut stream).operation_type, OperationType::Rename);
    assert_eq!(next(&mut stream).operation_type, OperationType::Invalidate);
    let mut stream = watch(&copies);
    copies.delete_one(doc! { "_id": 2 }).run().expect("deleted");
    assert_eq!(next(&mut stream).operation_type, OperationType::Delete);
}

#[test]
fn documents_of_updates_are_looked_up() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    orders.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    let mut stream = orders.watch().full_document(FullDocumentType::UpdateLookup).run().expect("opened");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 1 } }).run().expect("updated");
    assert_eq!(next(&mut stream).full_document, Some(doc! { "_id": 1, "n": 1 }));
    orders.update_many(doc! {}, doc! { "$set": { "n": 2 } }).run().expect("updated");
    orders.delete_one(doc! { "_id": 2 }).write_concern(WriteConcern::journaled()).run().expect("deleted");
    assert_eq!(next(&mut stream).full_document, Some(doc! { "_id": 1, "n": 2 }));
    let gone = next(&mut stream);
    assert_eq!(gone.operation_type, OperationType::Update);
    assert!(gone.full_document.is_none() || gone.full_document == Some(doc! { "_id": 2, "n": 2 }));
    let mut stream = orders.watch().full_document(FullDocumentType::Required).run().expect("opened");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 3 } }).run().expect("updated");
    refused(stream.next().expect("an error"), 47);
    assert!(!stream.is_alive() && stream.next().is_none());
    let before = FullDocumentBeforeChangeType::Required;
    let mut stream = orders.watch().full_document_before_change(before).run().expect("opened");
    orders.delete_one(doc! { "_id": 1 }).run().expect("deleted");
    refused(stream.next().expect("an error"), 47);
}

#[test]
fn documents_before_and_after_are_kept_where_that_is_declared() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let images = |enabled| ChangeStreamPreAndPostImages { enabled };
    db.create_collection("orders").change_stream_pre_and_post_images(images(true)).run().expect("made");
    db.create_collection("orders").change_stream_pre_and_post_images(images(true)).run().expect("alike");
    refused(db.create_collection("orders").run(), 48);
    let listed = db.run_command(doc! { "listCollections": 1 }).run().expect("listed").to_string();
    assert!(listed.contains(r#""changeStreamPreAndPostImages": { "enabled": true }"#), "{listed}");
    let orders = orders(&fixture.client);
    let watch = || {
        let stream = orders.watch().full_document_before_change(FullDocumentBeforeChangeType::Required);
        stream.full_document(FullDocumentType::Required).run().expect("opened")
    };
    let (mut stream, mut plain) = (watch(), orders.watch().run().expect("opened"));
    orders.insert_one(doc! { "_id": 1, "n": 1, "t": "a long text" }).run().expect("stored");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 2 } }).run().expect("updated");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 3 } }).run().expect("updated");
    orders.replace_one(doc! { "_id": 1 }, doc! { "x": 1 }).run().expect("replaced");
    orders.delete_one(doc! { "_id": 1 }).run().expect("deleted");
    let state = |n: i32| Some(doc! { "_id": 1, "n": n, "t": "a long text" });
    let replaced = Some(doc! { "_id": 1, "x": 1 });
    for (before, after) in [
        (None, state(1)),
        (state(1), state(2)),
        (state(2), state(3)),
        (state(3), replaced.clone()),
        (replaced, None),
    ] {
        let event = next(&mut stream);
        assert_eq!((event.full_document_before_change, event.full_document), (before, after));
    }
    // A reader that does not ask is shown as much as ever.
    let events: Vec<_> = (0..5).map(|_| next(&mut plain)).collect();
    assert!(events.iter().all(|event| event.full_document_before_change.is_none()));
    assert!(events[1].full_document.is_none() && events[1].update_description.is_some());
    db.modify_collection("orders").change_stream_pre_and_post_images(images(false)).run().expect("changed");
    let mut stream = watch();
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 2 } }).run().expect("updated");
    assert_eq!(next(&mut stream).operation_type, OperationType::Insert);
    refused(stream.next().expect("an error"), 47);
    fixture.verify_clean();
}

#[test]
fn pipelines_choose_and_change_events() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let stages = [
        doc! { "$match": { "operationType": "insert", "fullDocument.n": { "$gt": 1 } } },
        doc! { "$set": { "twice": { "$multiply": ["$fullDocument.n", 2] } } },
        doc! { "$unset": "wallTime" },
        doc! { "$project": { "twice": 1 } },
    ];
    let stream = orders.watch().pipeline(stages).run().expect("opened");
    let mut stream = stream.with_type::<Document>();
    orders.insert_many((0..5).map(|n| doc! { "_id": n, "n": n })).run().expect("stored");
    let twice: Vec<_> =
        stream.by_ref().take(3).map(|event| event.expect("an event").get_i32("twice").ok()).collect();
    assert_eq!(twice, [Some(4), Some(6), Some(8)]);
    for (stage, code) in [
        (doc! { "$group": { "_id": 1 } }, 20),
        (doc! { "$sort": { "n": 1 } }, 20),
        (doc! { "$lookup": { "from": "a", "as": "b" } }, 20),
        (doc! { "$limit": 1 }, 20),
        (doc! { "$fly": 1 }, 40324),
        (doc! { "$changeStream": {} }, 40602),
    ] {
        refused(orders.watch().pipeline([stage]).run(), code);
    }
    for stage in
        [doc! { "$project": { "_id": 0 } }, doc! { "$set": { "_id": 5 } }, doc! { "$unset": "_id._data" }]
    {
        let mut stream = orders.watch().pipeline([stage]).run().expect("opened").with_type::<Document>();
        orders.insert_one(doc! {}).run().expect("stored");
        refused(stream.next().expect("an error"), 280);
        assert!(stream.next().is_none());
    }
}

#[test]
fn streams_begin_after_tokens_and_at_times() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    orders.insert_many((0..5).map(|n| doc! { "_id": n })).run().expect("stored");
    let events = through(&orders, &mut stream);
    for (at, event) in events.iter().enumerate().take(4) {
        let mut after = orders.watch().resume_after(event.id.clone()).run().expect("opened");
        assert_eq!(next(&mut after).document_key, events[at + 1].document_key);
    }
    let time = events[0].cluster_time.expect("a time");
    let mut at = orders.watch().start_at_operation_time(time).run().expect("opened");
    assert_eq!(next(&mut at).document_key, events[0].document_key);
    // A token survives its store, and serde.
    let stored = cairndb::bson::serialize_to_vec(&events[2].id).expect("stored");
    let token: ResumeToken = cairndb::bson::deserialize_from_slice(&stored).expect("read");
    drop((stream, at));
    let Fixture { client, things, scratch } = fixture;
    drop((things, orders));
    client.close().expect("closed");
    let client = scratch.open();
    let orders = client.database("shop").collection::<Document>("orders");
    let mut after = orders.watch().resume_after(token).run().expect("opened");
    assert_eq!(next(&mut after).document_key, events[3].document_key);
}

#[test]
fn bad_places_are_refused() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    let token = stream.resume_token().expect("a token");
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let time = next(&mut stream).cluster_time.expect("a time");
    let both = orders.watch().resume_after(token.clone()).start_after(token.clone());
    refused(both.run(), 50865);
    refused(orders.watch().resume_after(token.clone()).start_at_operation_time(time).run(), 40674);
    refused(orders.watch().start_after(token.clone()).start_at_operation_time(time).run(), 40674);
    for (time, why) in [
        (Timestamp { time: 1, increment: 1 }, "before the log"),
        (Timestamp { time: u32::MAX, increment: 0 }, "ahead of the clock"),
    ] {
        let lost = orders.watch().start_at_operation_time(time).run().map(drop).expect_err(why);
        assert_eq!(lost.code(), Some(286), "{why}");
        assert!(lost.contains_label(NON_RESUMABLE_CHANGE_STREAM_ERROR));
    }
    let made: ResumeToken = cairndb::bson::deserialize_from_document(doc! { "_data": "82" }).expect("a text");
    refused(orders.watch().resume_after(made).run(), 260);
    let other = Fixture::new();
    refused(
        other.client.database("shop").collection::<Document>("orders").watch().resume_after(token).run(),
        260,
    );
    // Events of another collection were not logged then.
    let things = fixture.client.database("shop").collection::<Document>("things");
    refused(things.watch().start_at_operation_time(time).run(), 286);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let fixture = Fixture::new();
    let client = &fixture.client;
    let db = client.database("shop");
    db.create_collection("view").view_on("orders").run().expect("made");
    refused(db.collection::<Document>("view").watch().run(), 166);
    refused(db.collection::<Document>("system.views").watch().run(), 73);
    for name in ["admin", "config", "local"] {
        refused(client.database(name).watch().run(), 73);
        refused(client.database(name).collection::<Document>("things").watch().run(), 73);
    }
    refused(client.database("a b").watch().run(), 73);
}

#[test]
fn a_stream_waits_and_can_be_woken() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = orders.watch().max_await_time(Duration::from_millis(5)).run().expect("opened");
    assert_eq!(stream.next_if_any().expect("nothing"), None);
    assert!(stream.is_alive());
    let waker = stream.wake_handle();
    let (show, shown) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        show.send(next(&mut stream)).expect("it is waited for");
        stream.next().is_none()
    });
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let first = shown.recv().expect("an event");
    assert_eq!(first.full_document, Some(doc! { "_id": 1 }));
    waker.stop();
    assert!(reader.join().expect("no panic"));
    crate::change_stream_ends::is_ended_by_closing(&fixture.client, watch(&orders));
}

#[test]
fn a_store_in_memory_has_streams() {
    let client = Client::in_memory().expect("opened");
    let orders = orders(&client);
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_eq!(next(&mut stream).full_document, Some(doc! { "_id": 1 }));
}

#[test]
fn the_log_and_its_streams_are_counted() {
    let fixture = Fixture::new();
    let log = || fixture.client.metrics().expect("open").change_log;
    assert_eq!((log().bytes, log().streams, log().lag_seconds), (0, 0, 0));
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    assert_eq!((log().streams, log().oldest_event_seconds), (1, 0));
    let started = std::time::Instant::now();
    orders.insert_one(doc! { "_id": 1, "text": "x".repeat(1000) }).run().expect("stored");
    let bytes = log().bytes;
    assert!((1000..1400).contains(&bytes), "{bytes}");
    wait_until(|| log().oldest_event_seconds > 0);
    // Both moments are known to the second.
    assert!(log().oldest_event_seconds <= started.elapsed().as_secs() + 1);
    // All is synced by now.
    next(&mut stream);
    assert_eq!(log().lag_seconds, 0);
    drop(stream);
    assert_eq!((log().streams, log().bytes), (0, bytes));
}

/// Whether changes of a collection are logged: a stream at a time before a write shows it.
fn is_logged(client: &Client, name: &str) -> bool {
    let collection = client.database("shop").collection::<Document>(name);
    let time = client.operation_time().expect("open");
    collection.insert_one(doc! {}).write_concern(WriteConcern::journaled()).run().expect("stored");
    let watch = collection.watch().start_at_operation_time(time);
    match watch.max_await_time(Duration::from_secs(5)).run() {
        Ok(mut stream) => stream.next_if_any().expect("read").is_some(),
        Err(error) => {
            assert!(matches!(error.code(), Some(20 | 286)), "{error}");
            // A refused stream has switched the log on, unless that is refused.
            drop(client.database("shop").modify_collection(name).change_log(false).run());
            false
        }
    }
}

#[test]
fn the_log_is_switched_by_hand() {
    let fixture = Fixture::new();
    let (client, shop) = (&fixture.client, fixture.client.database("shop"));
    shop.create_collection("orders").change_log(true).run().expect("made");
    shop.create_collection("orders").change_log(true).run().expect("alike");
    shop.create_collection("others").run().expect("made");
    assert!(is_logged(client, "orders") && !is_logged(client, "others"));
    // A stream that waits is lost with the log, and no token is accepted later.
    let orders = orders(client);
    let mut stream = watch(&orders);
    let token = stream.resume_token();
    let waiting = thread::spawn(move || stream.next().expect("it waits").map(drop).expect_err("lost").code());
    let off = doc! { "collMod": "orders", "changeLog": false };
    shop.run_command(off.clone()).run().expect("switched off");
    assert_eq!(waiting.join().expect("no panic"), Some(286));
    refused(orders.watch().resume_after(token).run(), 286);
    shop.run_command(off.clone()).run().expect("that stream has switched it on");
    shop.run_command(off.clone()).run().expect("no error");
    assert!(!is_logged(client, "orders"));
    shop.run_command(doc! { "collMod": "orders", "changeLog": true }).run().expect("switched on");
    assert!(is_logged(client, "orders"));
    // A database, with the collections that are made later, and all of them.
    shop.change_log(true).expect("switched on");
    shop.create_collection("later").run().expect("made");
    assert!(is_logged(client, "others") && is_logged(client, "later"));
    refused(shop.run_command(off).run(), 72);
    client.change_log(true).expect("switched on");
    refused(shop.change_log(false), 72);
    client.change_log(false).expect("switched off");
    assert!(is_logged(client, "later"));
    shop.change_log(false).expect("switched off");
    assert!(!is_logged(client, "later"));
    // By its own name it is logged still.
    assert!(is_logged(client, "orders"));

    refused(shop.create_collection("v").view_on("orders").change_log(true).run(), 72);
    shop.create_collection("v").view_on("orders").run().expect("made");
    refused(shop.modify_collection("v").change_log(true).run(), 72);
    refused(shop.modify_collection("absent").change_log(true).run(), 26);
    refused(client.database("local").change_log(true), 73);
    refused(shop.create_collection("system.views").change_log(true).run(), 73);
    let mut session = client.start_session().run().expect("open");
    session.start_transaction().run().expect("none is in progress");
    refused(shop.create_collection("t").change_log(true).session(&mut session).run(), 263);
    fixture.verify_clean();
}

#[test]
fn a_store_is_opened_to_log_everything_or_nothing() {
    let scratch = Scratch::new();
    let open = |logging| small().change_log(logging).open(scratch.path()).expect("opened");
    let client = open(ChangeLogging::Always);
    assert!(is_logged(&client, "orders"));
    client.close().expect("closed");
    let client = open(ChangeLogging::Watched);
    assert!(is_logged(&client, "orders") && is_logged(&client, "later"));
    client.close().expect("closed");
    let client = open(ChangeLogging::Never);
    refused(orders(&client).watch().run(), 20);
    refused(client.change_log(true), 20);
    assert_eq!(client.metrics().expect("open").change_log.bytes, 0);
    client.close().expect("closed");
    let client = open(ChangeLogging::Watched);
    assert!(!is_logged(&client, "orders"));
    assert!(client.verify().expect("verified").is_clean());
}
