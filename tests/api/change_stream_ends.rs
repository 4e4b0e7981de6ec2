//! Change streams that are idle, that end, and that meet what is not theirs.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{
    ChangeStreamPreAndPostImages, Client, FullDocumentBeforeChangeType, FullDocumentType, IndexModel,
    IndexOptions, LiveChange, OperationType, WriteConcern,
};

use cairndb_tests::race::wait_until;

use crate::change_streams::{Stream, next, orders, watch};
use crate::{Fixture, refused};

/// Closing ends a stream, whether it waits already or not.
#[track_caller]
pub(crate) fn is_ended_by_closing(client: &Client, mut stream: Stream) {
    let (end, ended) = std::sync::mpsc::channel();
    thread::spawn(move || end.send(stream.next()).is_ok());
    client.clone().close().expect("closed");
    let ended = ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
    let ended = ended.expect("an error").expect_err("closed");
    assert!(matches!(ended.kind(), cairndb::ErrorKind::Closed), "{ended}");
}

#[test]
fn a_stream_that_has_shown_all_keeps_nothing_open() {
    let Fixture { client, things, scratch: _scratch } = Fixture::new();
    let orders = orders(&client);
    let mut stream = watch(&orders);
    orders.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    assert_eq!([1, 2].map(|_| next(&mut stream).full_document), [1, 2].map(|id| Some(doc! { "_id": id })));
    drop((things, orders));
    // Else it fails with the number of open cursors.
    client.close().expect("closed");
}

#[test]
fn events_of_others_are_passed_however_many_there_are() {
    let fixture = Fixture::new();
    let client = &fixture.client;
    let (orders, others) = (orders(client), client.database("shop").collection::<Document>("others"));
    let everything: Stream = client.watch().run().expect("opened");
    let token = watch(&orders).resume_token().expect("a token");
    // More than a stream passes before it lets its reader look up.
    others.insert_many((0..70_000).map(|id| doc! { "_id": id })).run().expect("stored");
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    drop(everything);
    let after = || orders.watch().resume_after(token.clone()).max_await_time(Duration::ZERO);
    wait_until(|| {
        let mut stream = after().run().expect("opened");
        // Not one that was passed.
        stream
            .next_if_any()
            .expect("looked at")
            .is_some_and(|event| event.document_key == Some(doc! { "_id": 1 }))
    });
    let mut stopped = after().run().expect("opened");
    stopped.wake_handle().stop();
    assert!(stopped.next().is_some_and(|event| event.is_ok()) && stopped.next().is_none());
}

/// A step passes a number of them at once, and the event at which it stops may be one of them or not.
#[test]
fn an_event_among_others_is_met_wherever_it_is() {
    let fixture = Fixture::new();
    let client = &fixture.client;
    let (orders, others) = (orders(client), client.database("shop").collection::<Document>("others"));
    let everything: Stream = client.watch().run().expect("opened");
    let mut stream = watch(&orders);
    let counts = [1, 63, 64, 65, 66, 127, 130];
    for (id, count) in (0..).zip(counts) {
        others.insert_many((0..count).map(|_| doc! {})).run().expect("stored");
        orders.insert_one(doc! { "_id": id }).run().expect("stored");
        let event = next(&mut stream);
        assert_eq!(event.document_key, Some(doc! { "_id": id }), "after {count}");
    }
    let all = everything.take(counts.iter().sum::<usize>() + counts.len());
    let of_orders = all.filter(|event| {
        let event = event.as_ref().expect("read");
        event.ns.as_ref().is_some_and(|ns| ns.coll.as_deref() == Some("orders"))
    });
    assert_eq!(of_orders.count(), counts.len());
}

/// The stream lasts longer than the command that opens it, as in MongoDB.
#[test]
fn the_limit_of_time_of_a_command_is_none_of_its_stream() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let orders = orders(&fixture.client);
    let _logged = watch(&orders);
    let command = doc! {
        "aggregate": "orders", "pipeline": [{ "$changeStream": {} }], "cursor": {}, "maxTimeMS": 20,
    };
    // A busy machine may need longer for the opening itself.
    let mut opened = std::iter::repeat_with(|| shop.run_cursor_command(command.clone()).run());
    let stream = opened.find_map(Result::ok).expect("there is no end");
    orders.insert_many((0..50_000).map(|id| doc! { "_id": id })).run().expect("stored");
    assert!(stream.take(50_000).all(|event| event.is_ok()));
}

#[test]
fn an_event_of_another_type_ends_the_stream_before_it() {
    #[derive(Debug, serde::Deserialize)]
    struct Order {
        item: String,
    }

    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut typed = orders.clone_with_type::<Order>().watch().run().expect("opened");
    for item in [Bson::from("lamp"), Bson::from(7), Bson::from("pen")] {
        orders.insert_one(doc! { "item": item }).run().expect("stored");
    }
    let first = typed.next().expect("it waits").expect("an order");
    assert_eq!(first.full_document.map(|order| order.item).as_deref(), Some("lamp"));
    assert!(typed.next().is_some_and(|event| event.is_err()));
    assert!(!typed.is_alive() && typed.next().is_none());
    let token = typed.resume_token().expect("a token");
    let mut after = orders.watch().resume_after(token).run().expect("opened");
    assert_eq!(next(&mut after).full_document.expect("stored").get("item"), Some(&Bson::from(7)));
}

#[test]
fn a_store_that_is_read_only_has_the_events_that_are_there() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let token = watch(&orders).resume_token().expect("a token");
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let Fixture { client, things, scratch } = fixture;
    drop((things, orders));
    client.close().expect("closed");
    let client = Client::builder().read_only(true).open(scratch.path()).expect("opened");
    let mut stream = self::orders(&client).watch().resume_after(token).run().expect("opened");
    assert_eq!(next(&mut stream).full_document, Some(doc! { "_id": 1 }));
    let others = client.database("shop").collection::<Document>("others");
    let refused = others.watch().run().map(drop).expect_err("it cannot be switched on");
    assert!(matches!(refused.kind(), cairndb::ErrorKind::ReadOnly), "{refused}");
    crate::verify_clean(&client);
    is_ended_by_closing(&client, stream);
}

/// A snapshot holds back everything that is deleted after it.
#[test]
fn a_stream_that_is_not_read_gives_its_snapshot_back() {
    let Fixture { client, things, scratch: _scratch } = Fixture::new();
    let orders = orders(&client);
    let mut stream = watch(&orders);
    orders.insert_many((0..10).map(|id| doc! { "_id": id })).run().expect("stored");
    let mut ids = |count| -> Vec<i32> {
        let mut id = || next(&mut stream).document_key.expect("of an insert").get_i32("_id").expect("an id");
        (0..count).map(|_| id()).collect()
    };
    assert_eq!(ids(2), [0, 1]);
    wait_until(|| {
        // The syncs of what is not logged let the newest round go.
        things.insert_one(doc! {}).run().expect("stored");
        client.metrics().expect("open").cursors.snapshots == 0
    });
    orders.delete_one(doc! { "_id": 5 }).run().expect("deleted");
    assert_eq!(ids(9), [2, 3, 4, 5, 6, 7, 8, 9, 5], "each event once");
    orders.insert_many((10..20).map(|id| doc! { "_id": id })).run().expect("stored");
    assert_eq!(ids(1), [10]);
    drop((things, orders));
    // Else it fails with the number of open cursors.
    client.close().expect("closed");
    let ended = stream.next().expect("an error").expect_err("closed");
    assert!(matches!(ended.kind(), cairndb::ErrorKind::Closed), "{ended}");
}

/// Its documents before and after the change are below the limit, and both together are not.
#[test]
fn an_event_that_is_too_large_ends_the_stream() {
    let fixture = Fixture::new();
    let images = ChangeStreamPreAndPostImages { enabled: true };
    let shop = fixture.client.database("shop");
    shop.create_collection("orders").change_stream_pre_and_post_images(images).run().expect("made");
    let orders = orders(&fixture.client);
    let watch = orders.watch().full_document_before_change(FullDocumentBeforeChangeType::Required);
    let mut stream = watch.full_document(FullDocumentType::Required).run().expect("opened");
    orders.insert_one(doc! { "_id": 1, "text": "x".repeat(9 << 20) }).run().expect("stored");
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 1 } }).run().expect("updated");
    assert_eq!(next(&mut stream).document_key, Some(doc! { "_id": 1 }));
    refused(stream.next().expect("an error"), 10334, "an event of the change stream has ");
    assert!(stream.next().is_none() && !stream.is_alive());
}

/// By a pass over TTL indexes, as by a call.
#[test]
fn documents_that_expire_are_deletes_and_leave_live_queries() {
    let Fixture { client, things: _things, scratch: _scratch } = Fixture::new();
    let orders = orders(&client);
    let options = IndexOptions::builder().expire_after(Duration::from_secs(1)).build();
    orders
        .create_index(IndexModel::builder().keys(doc! { "at": 1 }).options(options).build())
        .run()
        .expect("made");
    let mut live = orders.find(doc! {}).live().expect("opened");
    assert!(live.next().expect("a first batch").expect("read").is_empty());
    let mut stream = watch(&orders);
    let old = DateTime::from_millis(0);
    orders.insert_many([doc! { "_id": 1, "at": old }, doc! { "_id": 2 }]).run().expect("stored");
    assert_eq!(client.expire_documents().run().expect("a pass").deleted_count, 1);
    let events = [(); 3].map(|()| next(&mut stream));
    let shown = events.map(|event| (event.operation_type, event.document_key));
    assert_eq!(
        shown,
        [
            (OperationType::Insert, Some(doc! { "_id": 1 })),
            (OperationType::Insert, Some(doc! { "_id": 2 })),
            (OperationType::Delete, Some(doc! { "_id": 1 })),
        ]
    );
    let mut known = BTreeSet::new();
    while known != BTreeSet::from([2]) {
        for change in live.next().expect("it waits").expect("read") {
            let is_right = match change {
                LiveChange::Entered(document) => known.insert(document.get_i32("_id").expect("a number")),
                LiveChange::Left(id) => known.remove(&id.as_i32().expect("a number")),
                LiveChange::Changed(_) | LiveChange::Invalidated => false,
            };
            assert!(is_right, "{known:?}");
        }
    }
}

/// MongoDB's drivers compare the token after a batch with the id of its last event.
#[test]
fn the_token_of_a_stream_that_has_shown_all_is_that_of_the_last_event() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = orders.watch().max_await_time(Duration::ZERO).run().expect("opened");
    let mut last = stream.resume_token();
    for id in 0..3 {
        let insert = orders.insert_one(doc! { "_id": id }).write_concern(WriteConcern::journaled());
        insert.run().expect("stored");
        let event = stream.next_if_any().expect("read").expect("an event");
        assert!(event.document_key == Some(doc! { "_id": id }) && stream.resume_token() != last);
        assert!(stream.next_if_any().expect("read").is_none());
        assert_eq!(stream.resume_token(), Some(event.id));
        last = stream.resume_token();
    }
    // What others change moves it on.
    let others = fixture.client.database("shop").collection::<Document>("others");
    drop(others.watch().run().expect("opened"));
    others.insert_one(doc! {}).write_concern(WriteConcern::journaled()).run().expect("stored");
    assert!(stream.next_if_any().expect("read").is_none());
    assert_ne!(stream.resume_token(), last);
    // A stream that goes on there shows what comes next, and nothing twice.
    for (token, id) in [(stream.resume_token(), 3), (last, 4)] {
        let insert = orders.insert_one(doc! { "_id": id }).write_concern(WriteConcern::journaled());
        insert.run().expect("stored");
        let watch = orders.watch().resume_after(token).max_await_time(Duration::ZERO);
        let shown: Vec<_> = watch
            .run()
            .expect("opened")
            .map_while(Result::ok)
            .take(usize::try_from(id - 2).expect("small"))
            .collect();
        let keys: Vec<_> = shown.into_iter().map(|event| event.document_key).collect();
        assert_eq!(keys, (3..=id).map(|id| Some(doc! { "_id": id })).collect::<Vec<_>>());
    }
}

/// The last event of a round may be one that the stream does not show, of the same moment as one that it shows.
#[test]
fn a_stream_goes_on_after_a_transaction_of_which_it_shows_a_part() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let others = fixture.client.database("shop").collection::<Document>("others");
    drop(others.watch().run().expect("opened"));
    let mut stream = orders.watch().max_await_time(Duration::ZERO).run().expect("opened");
    for id in 0..3 {
        let mut session = fixture.client.start_session().run().expect("a session");
        session.start_transaction().write_concern(WriteConcern::journaled()).run().expect("begun");
        orders.insert_one(doc! { "_id": id }).session(&mut session).run().expect("staged");
        others.insert_one(doc! { "_id": id }).session(&mut session).run().expect("staged");
        session.commit_transaction().run().expect("committed");
        let event = stream.next_if_any().expect("read").expect("an event");
        assert_eq!(event.document_key, Some(doc! { "_id": id }));
        assert!(stream.next_if_any().expect("read").is_none());
        let watch = orders.watch().resume_after(stream.resume_token()).max_await_time(Duration::ZERO);
        stream = watch.run().expect("opened");
        assert!(stream.next_if_any().expect("read").is_none());
    }
}
