//! `close`: everything is kept, every handle fails from then on, and repeating it is harmless.

use cairndb::bson::doc;
use cairndb::{Error, ErrorKind};
use cairndb_tests::scratch::things;

use crate::Fixture;

#[track_caller]
fn closed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the client is closed");
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
}

#[test]
fn every_handle_of_a_closed_client_fails() {
    let Fixture { client, things, scratch } = Fixture::with([doc! { "_id": 1 }]);
    let (handle, database) = (client.clone(), client.database("test"));
    let ticket = client.durability_ticket().unwrap();
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    client.close().unwrap();
    closed(things.insert_one(doc! {}).run());
    closed(things.insert_many([doc! {}]).run());
    closed(things.find(doc! {}).run());
    closed(things.find_one(doc! { "_id": 1 }).run());
    closed(things.count_documents(doc! {}).run());
    closed(things.estimated_document_count().run());
    closed(things.replace_one(doc! {}, doc! {}).run());
    closed(things.delete_one(doc! {}).run());
    closed(things.create_index(by_a).run());
    closed(things.drop_indexes().run());
    closed(things.list_indexes().run());
    closed(things.drop().run());
    closed(things.rename("others").run());
    closed(database.create_collection("c").run());
    closed(database.list_collection_names().run());
    closed(database.drop().run());
    closed(handle.list_database_names().run());
    closed(handle.verify());
    closed(handle.backup(scratch.folder().join("copy")));
    closed(handle.written_seq());
    closed(handle.sync());
    closed(handle.flush());
    ticket.wait().unwrap();
    handle.close().unwrap();
    assert!(!scratch.folder().join("copy").exists());
}

#[test]
fn closing_keeps_everything_and_frees_the_folder() {
    let Fixture { client, things: first, scratch } = Fixture::with((0..100).map(|id| doc! { "_id": id }));
    client.close().unwrap();
    let again = scratch.open();
    assert_eq!(things(&again).count_documents(doc! {}).run().unwrap(), 100);
    closed(first.insert_one(doc! {}).run());
    crate::verify_clean(&again);
}

#[test]
fn dropping_every_handle_closes() {
    let Fixture { client, things: first, scratch } = Fixture::with([doc! { "_id": 1 }]);
    drop(client);
    first.insert_one(doc! { "_id": 2 }).run().unwrap();
    drop(first);
    assert_eq!(things(&scratch.open()).count_documents(doc! {}).run().unwrap(), 2);
}

#[test]
fn closing_waits_for_writers() {
    let Fixture { client, things: first, scratch } = Fixture::new();
    let (started, is_started) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let mut stored = 0;
        loop {
            match first.insert_one(doc! { "_id": stored }).run() {
                Ok(_) => stored += 1,
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
                    return stored;
                }
            }
            if stored == 100 {
                started.send(()).expect("the test waits");
            }
        }
    });
    is_started.recv().unwrap();
    client.close().unwrap();
    let stored: i32 = writer.join().unwrap();
    let again = scratch.open();
    assert_eq!(things(&again).count_documents(doc! {}).run().unwrap(), u64::try_from(stored).unwrap());
    crate::verify_clean(&again);
}
