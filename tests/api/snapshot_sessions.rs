//! Snapshot sessions: all reads are of one moment, and nothing else can be done.

use cairndb::bson::{Bson, Document, Timestamp, doc};
use cairndb::{Client, ClientSession, Collection, ErrorKind, IndexModel, Result};

use crate::transactions::{Store, assert_code};

fn begin(client: &Client) -> ClientSession {
    client.start_session().snapshot(true).run().expect("started")
}

fn count(things: &Collection<Document>, session: &mut ClientSession) -> Result<u64> {
    things.count_documents(doc! {}).session(session).run()
}

#[test]
fn all_reads_are_of_the_first_one() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let others = store.client.database("app").collection::<Document>("others");
    others.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let mut session = begin(&store.client);
    // It has read nothing yet.
    store.things.insert_one(doc! { "_id": 3, "n": 30 }).run().expect("stored");
    assert_eq!((session.snapshot_time(), session.in_transaction()), (None, false));
    let first = store.things.find_one(doc! { "_id": 3 }).session(&mut session).run().expect("read");
    assert!(first.is_some() && session.snapshot_time().is_some());
    store.things.insert_one(doc! { "_id": 4, "n": 40 }).run().expect("stored");
    store.things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 11 } }).run().expect("written");
    store.things.delete_one(doc! { "_id": 2 }).run().expect("deleted");
    others.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let mut cursor =
        store.things.find(doc! {}).sort(doc! { "n": -1 }).session(&mut session).run().expect("opened");
    let found: Vec<i32> =
        cursor.iter(&mut session).map(|found| found.expect("read").get_i32("n").expect("a number")).collect();
    assert_eq!(found, [30, 20, 10]);
    let distinct = store.things.distinct("n", doc! {}).session(&mut session).run().expect("read");
    assert_eq!(distinct, [10, 20, 30].map(Bson::Int32));
    let joined = doc! { "$lookup": { "from": "others", "pipeline": [], "as": "o" } };
    let mut cursor = store.things.aggregate([joined]).session(&mut session).run().expect("opened");
    let joined: Vec<Document> = cursor.iter(&mut session).collect::<Result<_>>().expect("read");
    assert!(joined.len() == 3 && joined.iter().all(|found| found.get_array("o").is_ok_and(|o| o.len() == 1)));
    assert_eq!(count(&others, &mut session).expect("counted"), 1);
    // An error of a read leaves it as it is.
    store.things.find_one(doc! { "$nothing": 1 }).session(&mut session).run().expect_err("no such operator");
    assert_eq!(count(&store.things, &mut session).expect("counted"), 3);
    // The next session reads what is there by now.
    assert_eq!(count(&others, &mut begin(&store.client)).expect("counted"), 2);
    // A cursor is read with its own session.
    let mut cursor = store.things.find(doc! {}).session(&mut session).run().expect("opened");
    assert_code(cursor.advance(&mut begin(&store.client)), 43);
}

/// The work in a session.
type Call<'a> = &'a dyn Fn(&mut ClientSession) -> Result<()>;

#[test]
fn what_a_snapshot_session_cannot_do_is_refused() {
    let store = Store::with(&[(1, 10)]);
    let database = store.client.database("app");
    let mut session = begin(&store.client);
    assert_eq!(count(&store.things, &mut session).expect("counted"), 1);
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    let set = || doc! { "$set": { "n": 11 } };
    let calls: [Call<'_>; 8] = [
        &|session| store.things.insert_one(doc! {}).session(session).run().map(drop),
        &|session| store.things.insert_many([doc! {}, doc! {}]).session(session).run().map(drop),
        &|session| store.things.update_one(doc! { "_id": 1 }, set()).session(session).run().map(drop),
        &|session| store.things.delete_many(doc! {}).session(session).run().map(drop),
        &|session| store.things.find_one_and_update(doc! {}, set()).session(session).run().map(drop),
        &|session| store.things.create_index(index.clone()).session(session).run().map(drop),
        &|session| database.create_collection("new").session(session).run(),
        &|session| store.things.aggregate([doc! { "$out": "new" }]).session(session).run().map(drop),
    ];
    for call in calls {
        let error = assert_code(call(&mut session), 72);
        assert!(error.to_string().contains("snapshot session"), "{error}");
    }
    let refused = session.start_transaction().run().expect_err("no transactions");
    assert!(matches!(refused.kind(), ErrorKind::Transaction { .. }), "{refused:?}");
    assert_eq!(refused.to_string(), "Transactions are not supported in snapshot sessions");
    assert_eq!(count(&store.things, &mut session).expect("it goes on"), 1);
    let invalid = |started: Result<ClientSession>| {
        assert!(matches!(started.expect_err("refused").kind(), ErrorKind::InvalidArgument { .. }));
    };
    invalid(store.client.start_session().snapshot(true).causal_consistency(true).run());
    invalid(store.client.start_session().snapshot_time(Timestamp { time: 1, increment: 1 }).run());
    store.client.start_session().snapshot(true).causal_consistency(false).run().expect("started");
    let elsewhere = Store::with(&[]);
    let foreign = elsewhere.things.find_one(doc! {}).session(&mut session).run();
    assert!(matches!(foreign.expect_err("of another client").kind(), ErrorKind::InvalidArgument { .. }));
}

#[test]
fn a_collection_that_was_changed_since_is_not_read() {
    let store = Store::with(&[(1, 10)]);
    let others = store.client.database("app").collection::<Document>("others");
    let mut session = begin(&store.client);
    assert_eq!(count(&store.things, &mut session).expect("counted"), 1);
    others.insert_one(doc! {}).run().expect("stored");
    // It was not there, and is by now.
    assert_code(count(&others, &mut session), 246);
    store.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    assert_code(count(&store.things, &mut session), 246);
    let mut session = begin(&store.client);
    assert_eq!(count(&store.things, &mut session).expect("counted"), 1);
    others.drop().run().expect("dropped");
    assert_code(count(&others, &mut session), 246);
    assert_eq!(count(&store.things, &mut session).expect("it goes on"), 1);
}

#[test]
fn several_sessions_read_the_state_of_one_time() {
    let store = Store::with(&[(1, 10)]);
    let at = |time| store.client.start_session().snapshot(true).snapshot_time(time).run().expect("started");
    let mut one = begin(&store.client);
    assert_eq!(count(&store.things, &mut one).expect("counted"), 1);
    let time = one.snapshot_time().expect("it has read");
    store.things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let (mut two, mut three) = (at(time), at(time));
    assert_eq!(count(&store.things, &mut two).expect("counted"), 1);
    assert_eq!(two.snapshot_time(), Some(time));
    drop(one);
    assert_eq!(count(&store.things, &mut three).expect("the second one keeps it"), 1);
    drop((two, three));
    assert_code(count(&store.things, &mut at(time)), 239);
    assert_code(count(&store.things, &mut at(Timestamp { time: 1, increment: 1 })), 239);
    // Each has a time of its own, in the order of their reads.
    let mut sessions: Vec<ClientSession> = (0..100).map(|_| begin(&store.client)).collect();
    let times: Vec<Option<Timestamp>> = sessions
        .iter_mut()
        .map(|session| {
            count(&store.things, session).expect("counted");
            session.snapshot_time()
        })
        .collect();
    assert!(times.is_sorted_by(|a, b| a < b) && times.first() > Some(&Some(time)), "{times:?}");
}

/// A session keeps a state of the store, and must not keep its folder.
#[test]
fn a_store_is_closed_though_a_session_reads_it() {
    let store = Store::with(&[(1, 10)]);
    let mut session = begin(&store.client);
    assert_eq!(count(&store.things, &mut session).expect("counted"), 1);
    store.client.close().expect("closed");
    let error = count(&store.things, &mut session).expect_err("it is closed");
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
}
