//! Live queries: what bad input gets, and where they begin and end.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use cairndb::{
    Client, Collation, CollationStrength, Collection, CursorType, ErrorKind, Hint, IndexModel, LiveChange,
    LiveQuery, WriteConcern,
};
use cairndb_tests::race::wait_until;
use serde::Deserialize;

use crate::Fixture;

fn orders(client: &Client) -> Collection<Document> {
    client.database("shop").collection("orders")
}

fn next<T: serde::de::DeserializeOwned + 'static>(query: &mut LiveQuery<T>) -> Vec<LiveChange<T>> {
    query.next().expect("it has no end").expect("a batch")
}

#[test]
fn what_no_live_query_can_have_is_refused_by_name() {
    let fixture = Fixture::new();
    let database = fixture.client.database("shop");
    let things = orders(&fixture.client);
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    database.create_collection("seen").view_on("orders").run().expect("made");
    let find = || things.find(doc! {});
    let by_id = || Hint::Keys(doc! { "_id": 1 });
    for (words, refused) in [
        ("a tailable cursor", find().cursor_type(CursorType::Tailable).live()),
        ("return_key", find().return_key(true).live()),
        ("min and max", find().hint(by_id()).min(doc! { "_id": 1 }).live()),
        ("min and max", find().hint(by_id()).max(doc! { "_id": 1 }).live()),
        ("a skip without a limit", find().skip(1).live()),
        ("1000 documents, and not 1001", find().limit(1001).live()),
        ("1000 documents, and not 1001", find().limit(-1).skip(1000).live()),
        ("metadata", find().sort(doc! { "a": 1 }).projection(doc! { "k": { "$meta": "sortKey" } }).live()),
        ("shop.seen is a view", database.collection::<Document>("seen").find(doc! {}).live()),
    ] {
        let error = refused.map(drop).expect_err(words);
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{words}: {error:?}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    for (code, refused) in [
        (2, find().hint(Hint::Name("none".to_owned())).live()),
        (2, things.find(doc! { "a": { "$unknown": 1 } }).live()),
        (73, database.collection::<Document>("system.views").find(doc! {}).live()),
        (73, fixture.client.database("config").collection::<Document>("a").find(doc! {}).live()),
    ] {
        let error = refused.map(drop).expect_err("refused");
        assert_eq!(error.code(), Some(code), "{error}");
    }
    // The limits themselves are allowed.
    for mut allowed in [find().limit(1000).live(), find().limit(999).skip(1).live(), find().limit(0).live()] {
        assert!(allowed.as_mut().is_ok_and(|query| query.next().is_some()));
    }
}

#[test]
fn a_store_that_is_only_read_switches_no_log_on() {
    let fixture = Fixture::new();
    orders(&fixture.client).insert_one(doc! { "_id": 1 }).run().expect("stored");
    let Fixture { client, things, scratch } = fixture;
    drop(things);
    client.close().expect("closed");
    let client = Client::builder().read_only(true).open(scratch.path()).expect("opened");
    let error = orders(&client).find(doc! {}).live().map(drop).expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::ReadOnly), "{error:?}");
}

#[test]
fn it_ends_when_its_collection_does() {
    let fixture = Fixture::new();
    let client = &fixture.client;
    for (name, end) in [
        ("dropped", (|things: &Collection<Document>| things.drop().run()) as fn(&_) -> _),
        ("renamed", |things| things.rename("elsewhere").run()),
        ("replaced", |things| things.aggregate([doc! { "$out": things.name() }]).run().map(drop)),
    ] {
        let things = client.database("shop").collection::<Document>(name);
        things.insert_one(doc! { "_id": 1 }).run().expect("stored");
        let mut all = things.find(doc! {}).live().expect("opened");
        assert_eq!(next(&mut all), [LiveChange::Entered(doc! { "_id": 1 })]);
        end(&things).expect("done");
        assert_eq!(next(&mut all), [LiveChange::Invalidated], "{name}");
        assert!(!all.is_alive() && all.next().is_none());
        client.database("shop").collection::<Document>("elsewhere").drop().run().expect("dropped");
    }
}

#[test]
fn truncating_and_expiring_documents_leave() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let mut all = things.find(doc! { "a": { "$gt": 0 } }).live().expect("opened");
    // There is no collection yet.
    assert_eq!(next(&mut all), []);
    things.insert_many((0..3).map(|id| doc! { "_id": id, "a": id })).run().expect("stored");
    let mut entered = Vec::new();
    while entered.len() < 2 {
        entered.extend(next(&mut all));
    }
    things.truncate().run().expect("removed");
    let mut left = next(&mut all);
    left.sort_by_key(|change| format!("{change:?}"));
    assert_eq!(left, [LiveChange::Left(1.into()), LiveChange::Left(2.into())]);
}

#[test]
fn rows_are_those_of_the_projection() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    things.insert_one(doc! { "_id": 1, "a": 1, "b": 1 }).run().expect("stored");
    let raw = things.clone_with_type::<RawDocumentBuf>();
    let mut shown = raw.find(doc! {}).projection(doc! { "_id": 0, "a": 1 }).live().expect("opened");
    assert_eq!(next(&mut shown), [LiveChange::Entered(rawdoc! { "a": 1 })]);
    // What is not shown has not changed.
    things.update_one(doc! { "_id": 1 }, doc! { "$set": { "b": 2 } }).run().expect("changed");
    things.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 2 } }).run().expect("changed");
    assert_eq!(next(&mut shown), [LiveChange::Changed(rawdoc! { "a": 2 })]);
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    _id: i32,
    item: String,
}

/// The caller cannot know what the batch has changed beside it.
#[test]
fn a_document_of_another_type_ends_it() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let typed = things.clone_with_type::<Order>();
    let mut all = typed.find(doc! {}).live().expect("opened");
    assert_eq!(next(&mut all), []);
    things.insert_one(doc! { "_id": 1, "item": "lamp" }).run().expect("stored");
    assert_eq!(next(&mut all), [LiveChange::Entered(Order { _id: 1, item: "lamp".to_owned() })]);
    things.insert_one(doc! { "_id": 2, "item": 7 }).run().expect("stored");
    assert!(all.next().is_some_and(|batch| batch.is_err()));
    assert!(all.next().is_none() && !all.is_alive());
}

#[test]
fn a_result_that_is_too_large_is_refused() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    // 40 rows of 8 MiB, out of small documents.
    let many = || things.insert_many((0..40).map(|id| doc! { "_id": id })).run().expect("stored");
    let large = || {
        let large = things.find(doc! {}).projection(doc! { "large": "$$large" });
        large.let_vars(doc! { "large": "x".repeat(8 << 20) }).live()
    };
    many();
    let error = large().map(drop).expect_err("refused");
    assert_eq!(error.code(), Some(146), "{error}");
    // Also one that becomes so, and the query is over then.
    things.truncate().run().expect("removed");
    let mut all = large().expect("opened");
    assert_eq!(next(&mut all), []);
    many();
    let ended = all.by_ref().find_map(Result::err).expect("an error");
    assert_eq!(ended.code(), Some(146), "{ended}");
    assert!(!all.is_alive());
}

#[test]
fn a_collection_that_is_made_with_other_rules_ends_it() {
    let fixture = Fixture::new();
    let database = fixture.client.database("shop");
    let any_case = || Collation::with_locale("en").strength(CollationStrength::Secondary);
    let things = orders(&fixture.client);
    let find = || things.find(doc! { "name": "ada" });
    let mut inherits = find().live().expect("opened");
    let mut given = find().collation(any_case()).live().expect("opened");
    assert_eq!((next(&mut inherits), next(&mut given)), (Vec::new(), Vec::new()));
    database.create_collection("orders").collation(any_case()).run().expect("made");
    let ada = doc! { "_id": 1, "name": "ADA" };
    things.insert_one(ada.clone()).run().expect("stored");
    let error = inherits.next().expect("it waits").expect_err("other rules");
    assert_eq!(error.code(), Some(175), "{error}");
    assert_eq!(next(&mut given), [LiveChange::Entered(ada)]);
}

#[test]
fn one_that_waits_is_woken_and_does_not_keep_the_client_open() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let mut first = things.find(doc! {}).live().expect("opened");
    let mut second = things.find(doc! {}).live().expect("opened");
    assert_eq!((next(&mut first), next(&mut second)), (Vec::new(), Vec::new()));
    let waker = first.wake_handle();
    thread::scope(|scope| {
        let stopped = scope.spawn(|| first.next().is_none());
        waker.stop();
        assert!(stopped.join().expect("no panic"));
        let closed = scope.spawn(|| second.next());
        fixture.client.clone().close().expect("closed");
        let error = closed.join().expect("no panic").expect("an error").expect_err("the client is closed");
        assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
    });
}

/// With an index on the sort the search reads few documents again.
#[test]
fn a_limited_result_takes_in_what_comes_up() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    things.insert_many((0..100).map(|id| doc! { "_id": id, "points": id })).run().expect("stored");
    things.create_index(IndexModel::builder().keys(doc! { "points": -1 }).build()).run().expect("made");
    let mut best = things.find(doc! {}).sort(doc! { "points": -1 }).limit(3).live().expect("opened");
    assert_eq!(next(&mut best).len(), 3);
    things.delete_one(doc! { "_id": 98 }).run().expect("deleted");
    let mut changes = next(&mut best);
    changes.sort_by_key(|change| format!("{change:?}"));
    let entered = LiveChange::Entered(doc! { "_id": 96, "points": 96 });
    assert_eq!(changes, [entered, LiveChange::Left(98.into())]);
    // Nothing for one that is not among the best, and that is not waited for.
    things.insert_one(doc! { "_id": 1000, "points": 0 }).run().expect("stored");
    fixture.client.sync().expect("synced");
    let began = Instant::now();
    assert_eq!(best.next_if_any().expect("read"), None);
    assert!(began.elapsed() < Duration::from_secs(30));
}

/// It went on with what was written after the log was on again, and never showed what was written before.
#[test]
fn a_reader_whose_log_was_off_for_a_while_is_lost() {
    let fixture = Fixture::new();
    let database = fixture.client.database("shop");
    let things = orders(&fixture.client);
    things.insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut all = things.find(doc! {}).live().expect("opened");
    assert_eq!(next(&mut all).len(), 1);
    let mut stream = things.watch().run().expect("opened");
    let switch = |is_on| {
        database.run_command(doc! { "collMod": "orders", "changeLog": is_on }).run().expect("switched");
    };
    switch(false);
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    switch(true);
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    for error in [all.next().map(|batch| batch.map(drop)), stream.next().map(|event| event.map(drop))] {
        let error = error.expect("it waits").expect_err("lost");
        assert_eq!(error.code(), Some(286), "{error}");
    }
}

/// The store was entered twice, and the second time waited for the one who closes it, who waited for the first.
#[test]
fn the_log_is_switched_beside_a_close() {
    for _ in 0..20 {
        let fixture = Fixture::new();
        let client = fixture.client.clone();
        let database = client.database("shop");
        thread::scope(|scope| {
            let making = scope.spawn(|| {
                (0..50).try_for_each(|number| {
                    let made = database.create_collection(format!("c{number}")).change_log(true).run();
                    made.map(drop)
                })
            });
            let closed = fixture.client.clone().close();
            let made = making.join().expect("no panic");
            assert!(closed.is_ok(), "{closed:?}");
            let is_closed = |error: &cairndb::Error| matches!(error.kind(), ErrorKind::Closed);
            assert!(made.as_ref().err().is_none_or(is_closed), "{made:?}");
        });
    }
}

/// It held the snapshot of its round until it was asked for the next batch.
#[test]
fn it_holds_no_snapshot_between_two_batches() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let mut all = things.find(doc! {}).live().expect("opened");
    assert_eq!(next(&mut all), []);
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_eq!(next(&mut all).len(), 1);
    // Else it fails with the number of open cursors.
    let Fixture { client, things: fixtures, scratch: _scratch } = fixture;
    drop((things, fixtures));
    client.close().expect("closed");
    drop(all);
}

#[test]
fn a_collection_that_gets_the_name_comes_with_its_documents() {
    let fixture = Fixture::new();
    let database = fixture.client.database("shop");
    let things = orders(&fixture.client);
    let mut all = things.find(doc! {}).live().expect("opened");
    assert_eq!(next(&mut all), []);
    let made = database.collection::<Document>("made");
    made.insert_one(doc! { "_id": 1 }).run().expect("stored");
    made.rename("orders").run().expect("renamed");
    assert_eq!(next(&mut all), [LiveChange::Entered(doc! { "_id": 1 })]);
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    assert_eq!(next(&mut all), [LiveChange::Entered(doc! { "_id": 2 })]);
    things.drop().run().expect("dropped");
    assert_eq!(next(&mut all), [LiveChange::Invalidated]);
}

/// Equal numbers are one `_id`, and a document that was stored after another with an equal one has its own.
#[test]
fn a_document_that_left_has_the_id_that_was_shown_last() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    for projection in [doc! {}, doc! { "_id": 0 }] {
        things.insert_one(doc! { "_id": 1_i32 }).run().expect("stored");
        let mut all = things.find(doc! {}).projection(projection.clone()).live().expect("opened");
        assert_eq!(next(&mut all).len(), 1);
        // At once, so that the query sees only the second one.
        let mut session = fixture.client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        things.delete_one(doc! { "_id": 1 }).session(&mut session).run().expect("deleted");
        things.insert_one(doc! { "_id": 1_i64 }).session(&mut session).run().expect("stored");
        session.commit_transaction().run().expect("stored");
        if projection.is_empty() {
            assert_eq!(next(&mut all), [LiveChange::Changed(doc! { "_id": 1_i64 })]);
        } else {
            // The rest of it is the same.
            fixture.client.durability_ticket().expect("open").wait().expect("synced");
            assert_eq!(all.next_if_any().expect("looked at"), None);
        }
        things.delete_one(doc! { "_id": 1 }).run().expect("deleted");
        assert_eq!(next(&mut all), [LiveChange::Left(Bson::Int64(1))]);
    }
}

/// The key of a long `_id` is shortened, but not the `_id`.
#[test]
fn long_ids_count_as_memory() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let long = |number: i32| doc! { "_id": format!("{number}{}", "x".repeat(4 << 20)) };
    for number in 0..70 {
        things.insert_one(long(number)).run().expect("stored");
    }
    let error = things.find(doc! {}).projection(doc! { "_id": 0 }).live().map(drop).expect_err("refused");
    assert_eq!(error.code(), Some(146), "{error}");
}

/// A search that was run again in the newest state passed the drop by, and went on in the new collection.
#[test]
fn a_limited_query_ends_with_its_collection_too() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let documents = |first: i32| (first..first + 5).map(|id| doc! { "_id": id, "n": id }).collect::<Vec<_>>();
    for round in 0..30 {
        things.insert_many(documents(0)).run().expect("stored");
        let mut best = things.find(doc! {}).sort(doc! { "n": -1 }).limit(3).live().expect("opened");
        assert_eq!(next(&mut best).len(), 3);
        thread::scope(|scope| {
            scope.spawn(|| {
                things.insert_many(documents(100)).run().expect("stored");
                things.drop().run().expect("dropped");
                things.insert_many(documents(200)).run().expect("stored");
            });
            let batches = best.by_ref().map(|batch| batch.expect("a batch"));
            let all: Vec<_> = batches.flatten().collect();
            assert_eq!(all.last(), Some(&LiveChange::Invalidated), "round {round}: {all:?}");
            let is_new = |change: &LiveChange<Document>| match change {
                LiveChange::Entered(document) => document.get_i32("n").is_ok_and(|n| n >= 200),
                LiveChange::Changed(_) | LiveChange::Left(_) | LiveChange::Invalidated => false,
            };
            assert!(!all.iter().any(is_new), "round {round}: {all:?}");
        });
        things.drop().run().expect("dropped");
    }
}

/// A transaction has made the collection: what it wrote is shown, though its name is known a moment later.
#[test]
fn a_collection_that_a_transaction_makes_is_followed() {
    let client = Client::in_memory().expect("opened");
    for number in 0..200 {
        let things = client.database("shop").collection::<Document>(&format!("c{number}"));
        let mut all = things.find(doc! {}).live().expect("opened");
        assert_eq!(next(&mut all), []);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = client.start_session().run().expect("started");
                session.start_transaction().run().expect("started");
                things.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
                session.commit_transaction().run().expect("committed");
            });
            assert_eq!(next(&mut all), [LiveChange::Entered(doc! { "_id": 1 })], "{number}");
        });
    }
}

/// A round of many events is read part by part, also by a caller who looks in from time to time.
#[test]
fn a_long_round_keeps_no_caller_waiting() {
    let fixture = Fixture::new();
    let things = orders(&fixture.client);
    let at_once = || things.find(doc! {}).max_await_time(Duration::ZERO).live().expect("opened");
    let [mut patient, mut stopped] = [at_once(), at_once()];
    for query in [&mut patient, &mut stopped] {
        assert_eq!(query.next_if_any().expect("looked at"), Some(Vec::new()));
    }
    things.insert_many((0..5000).map(|id| doc! { "_id": id, "n": 0 })).run().expect("stored");
    let last = things.insert_one(doc! { "_id": 5000, "n": 0 }).write_concern(WriteConcern::journaled());
    last.run().expect("synced");
    stopped.wake_handle().stop();
    // One that is stopped shows what is there.
    assert_eq!(next(&mut stopped).len(), 5001);
    assert!(stopped.next().is_none());
    // The first look reads a part of the round, which is given back before the next one.
    assert_eq!(patient.next_if_any().expect("looked at"), None);
    let unlogged = &fixture.things;
    wait_until(|| {
        unlogged.insert_one(doc! {}).run().expect("stored");
        fixture.client.metrics().expect("open").cursors.snapshots == 0
    });
    things.update_many(doc! { "_id": { "$lt": 10 } }, doc! { "$inc": { "n": 1 } }).run().expect("updated");
    things.delete_one(doc! { "_id": 20 }).run().expect("deleted");
    let stored: Vec<_> = things.find(doc! {}).sort(doc! { "_id": 1 }).run().expect("found").collect();
    let stored: Vec<_> = stored.into_iter().map(|document| document.expect("whole")).collect();
    let (mut known, began) = (BTreeMap::new(), Instant::now());
    while !known.values().eq(&stored) {
        assert!(began.elapsed() < Duration::from_secs(60), "it ends with {} documents", known.len());
        for change in patient.next_if_any().expect("looked at").unwrap_or_default() {
            match change {
                LiveChange::Entered(document) => assert_eq!(known.insert(id(&document), document), None),
                LiveChange::Changed(document) => assert!(known.insert(id(&document), document).is_some()),
                LiveChange::Left(id) => assert!(known.remove(&id.as_i32().expect("an id")).is_some()),
                LiveChange::Invalidated => panic!("nothing was dropped"),
            }
        }
    }
}

fn id(document: &Document) -> i32 {
    document.get_i32("_id").expect("an id")
}
