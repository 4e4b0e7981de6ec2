//! The limits of a transaction's time and stage, its numbers, and that the scripts of transactions can fail.

use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, ErrorKind, IndexModel, PlantedFault, TRANSIENT_TRANSACTION_ERROR};

use crate::transactions::{Store, assert_code};

#[test]
fn a_transaction_has_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    for refused in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(86_401)] {
        let opened = Client::builder().transaction_lifetime(refused).open(&path);
        assert!(matches!(opened.expect_err("no such time").kind(), ErrorKind::InvalidArgument { .. }));
    }
    let client = Client::builder().transaction_lifetime(Duration::from_secs(3)).open(&path).expect("made");
    let things = client.database("app").collection::<Document>("things");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let begin = || {
        let mut session = client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        let update = things.update_one(doc! { "_id": 1 }, doc! { "$set": { "seen": true } });
        update.session(&mut session).run().map(|_| session)
    };
    let mut session = begin().expect("staged");
    // No call of the session, and its claim is gone all the same.
    let asked = Instant::now();
    let mut other = loop {
        match begin() {
            Ok(other) => break other,
            Err(error) => assert!(error.is_write_conflict(), "{error:?}"),
        }
        assert!(asked.elapsed() < Duration::from_secs(30), "it is not ended");
        std::thread::park_timeout(Duration::from_millis(20));
    };
    let error = assert_code(session.commit_transaction().run(), 251);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR) && error.to_string().contains("time"));
    other.commit_transaction().run().expect("committed");
}

#[test]
fn a_transaction_stages_only_so_much() {
    let store = Store::with(&[]);
    let mut session = store.begin();
    let large = "x".repeat(1 << 20);
    let refused = (0..100).find_map(|id| {
        let insert = store.things.insert_one(doc! { "_id": id, "text": &large });
        insert.session(&mut session).run().err().map(|error| (id, error))
    });
    let (id, error) = refused.expect("100 MiB are too many");
    assert_eq!((error.code(), id), (Some(257), 63), "{error:?}");
    assert_code(session.commit_transaction().run(), 251);
    assert_eq!(store.things.count_documents(doc! {}).run().expect("counted"), 0);
    // The numbers that it had are free for others.
    let mut session = store.begin();
    store.things.insert_one(doc! { "_id": 0 }).session(&mut session).run().expect("staged");
    session.commit_transaction().run().expect("committed");
}

#[test]
fn numbers_of_a_transaction_are_below_the_watermark_only_when_it_has_ended() {
    let store = Store::with(&[]);
    let numbered = store.client.database("app").collection::<Document>("numbered");
    numbered.create_auto_increment(cairndb::AutoIncrement::builder().field("n").build()).run().expect("made");
    let watermark = || numbered.auto_increment("n").safe_watermark().expect("read");
    numbered.insert_one(doc! {}).run().expect("stored");
    let first = watermark();
    let mut session = store.begin();
    let inserted = numbered.insert_one(doc! {}).session(&mut session).run().expect("staged");
    assert!(inserted.last_generate_id.is_some());
    numbered.insert_one(doc! {}).run().expect("stored");
    assert_eq!(watermark(), first, "what is not committed yet is not passed");
    session.commit_transaction().run().expect("committed");
    assert_eq!(watermark(), first.map(|first| first + 2));
}

/// The scripts above rest on this: without notes, or without looking at them, an update is lost.
#[test]
fn planted_transactions_that_miss_a_conflict_are_seen() {
    for fault in [PlantedFault::NotesLeftOut, PlantedFault::NotesNotAsked, PlantedFault::UniqueNotClaimed] {
        let client = Client::builder().in_memory(true).planted_fault(fault).open("").expect("made");
        let things = client.database("app").collection::<Document>("things");
        things.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
        let unique = cairndb::IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build();
        things.create_index(index).run().expect("made");
        let mut session = client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        if fault == PlantedFault::UniqueNotClaimed {
            things.insert_one(doc! { "_id": 2, "n": 2 }).session(&mut session).run().expect("staged");
            things.insert_one(doc! { "_id": 3, "n": 2 }).run().expect("stored");
        } else {
            let add = doc! { "$inc": { "n": 10 } };
            things.update_one(doc! { "_id": 1 }, add.clone()).session(&mut session).run().expect("staged");
            things.update_one(doc! { "_id": 1 }, add).run().expect("written");
        }
        session.commit_transaction().run().expect("the conflict is missed");
        let twice =
            things.count_documents(doc! { "n": 2 }).hint(cairndb::Hint::Keys(doc! { "_id": 1 })).run();
        let lost = things.find_one(doc! { "_id": 1 }).run().expect("read");
        let is_seen = twice.expect("counted") == 2 || lost == Some(doc! { "_id": 1, "n": 11 });
        assert!(is_seen, "{fault:?}");
    }
}
