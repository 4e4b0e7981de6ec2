//! Cursors: a snapshot of their own, owned for as long as they live.

use cairndb::ErrorKind;
use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb_tests::scratch::{small, things};
use serde::Deserialize;

use crate::Fixture;

#[derive(Debug, PartialEq, Deserialize)]
struct Named {
    name: String,
}

#[track_caller]
fn ids(cursor: cairndb::Cursor<Document>) -> Vec<i32> {
    cursor.map(|stored| stored.expect("a document").get_i32("_id").expect("an id")).collect()
}

#[test]
fn a_cursor_shows_the_moment_of_its_opening() {
    let fixture = Fixture::with((1..=3).map(|id| doc! { "_id": id }));
    let cursor = fixture.things.find(doc! {}).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 4 }).run().unwrap();
    fixture.things.delete_one(doc! { "_id": 2 }).run().unwrap();
    fixture.things.replace_one(doc! { "_id": 3 }, doc! { "a": 1 }).run().unwrap();
    assert_eq!(
        cursor.map(Result::unwrap).collect::<Vec<_>>(),
        [doc! { "_id": 1 }, doc! { "_id": 2 }, doc! { "_id": 3 }]
    );
    assert_eq!(ids(fixture.things.find(doc! {}).run().unwrap()), [1, 3, 4]);
}

#[test]
fn a_cursor_outlives_its_collection() {
    let fixture = Fixture::with((1..=3).map(|id| doc! { "_id": id }));
    let dropped = fixture.things.find(doc! {}).run().unwrap();
    fixture.things.drop().run().unwrap();
    fixture.things.insert_one(doc! { "_id": 9 }).run().unwrap();
    fixture.client.flush().unwrap();
    assert_eq!(ids(dropped), [1, 2, 3]);
}

#[test]
fn a_cursor_outlives_the_client_and_keeps_the_folder() {
    let Fixture { client, things, scratch } = Fixture::with((1..=3).map(|id| doc! { "_id": id }));
    let mut cursor = things.find(doc! {}).run().unwrap();
    assert!(cursor.advance().unwrap());
    drop((client, things));
    assert!(small().open(scratch.path()).expect_err("still open").is_already_open());
    assert_eq!(ids(cursor), [2, 3]);
    scratch.open();
}

#[test]
fn closing_names_the_cursors_that_are_open() {
    let Fixture { client, things: collection, scratch } = Fixture::with((1..=3).map(|id| doc! { "_id": id }));
    let cursors = [collection.find(doc! {}).run().unwrap(), collection.find(doc! {}).run().unwrap()];
    let error = client.close().expect_err("cursors are open");
    assert!(matches!(error.kind(), ErrorKind::CursorsOpen { cursors: 2 }), "{error:?}");
    let error = collection.insert_one(doc! {}).run().expect_err("closed");
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
    for cursor in cursors {
        assert_eq!(ids(cursor), [1, 2, 3]);
    }
    assert_eq!(things(&scratch.open()).count_documents(doc! {}).run().unwrap(), 3);
}

#[test]
fn a_finished_cursor_keeps_nothing_open() {
    let Fixture { client, things, scratch: _scratch } = Fixture::with([doc! { "_id": 1 }]);
    let mut cursor = things.find(doc! {}).run().unwrap();
    while cursor.advance().unwrap() {}
    client.close().unwrap();
    assert!(!cursor.advance().unwrap());
}

#[test]
fn raw_documents_are_walked_in_place() {
    let fixture = Fixture::with([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]);
    let mut cursor = fixture.things.find(doc! {}).run().unwrap();
    assert!(cursor.current().is_empty());
    // It was decoded as an empty document, which a type without required fields mistakes for a result.
    assert!(matches!(cursor.deserialize_current().unwrap_err().kind(), ErrorKind::InvalidArgument { .. }));
    let mut names = Vec::new();
    while cursor.advance().unwrap() {
        names.push(cursor.current().get_str("name").unwrap().to_owned());
    }
    assert_eq!(names, ["Ada", "Grace"]);
    assert!(cursor.current().is_empty());
    assert!(matches!(cursor.deserialize_current().unwrap_err().kind(), ErrorKind::InvalidArgument { .. }));
}

#[test]
fn a_cursor_deserializes_into_any_type() {
    let fixture = Fixture::with([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2 }]);
    let mut cursor = fixture.things.find(doc! {}).run().unwrap().with_type::<Named>();
    assert_eq!(cursor.next().unwrap().unwrap(), Named { name: "Ada".to_owned() });
    let error = cursor.next().unwrap().expect_err("no name");
    assert!(matches!(error.kind(), ErrorKind::Bson(_)), "{error:?}");
    let raw = fixture.things.find(doc! { "_id": 2 }).run().unwrap().with_type::<RawDocumentBuf>();
    assert_eq!(raw.map(|stored| stored.unwrap().as_bytes().len()).collect::<Vec<_>>(), [14]);
}

#[test]
fn a_cursor_moves_to_another_thread() {
    let fixture = Fixture::with((1..=3).map(|id| doc! { "_id": id }));
    let cursor = fixture.things.find(doc! {}).run().unwrap();
    assert_eq!(std::thread::spawn(|| ids(cursor)).join().unwrap(), [1, 2, 3]);
}

/// A cursor at rest kept its iterator, and so the memtables of its moment: forty idle ones held ten times the budget of the store.
#[test]
fn cursors_at_rest_keep_no_memtable() {
    const ROUND_BYTES: u64 = 4 * 50_000;
    let fixture = Fixture::with((0..10).map(|id| doc! { "_id": id }));
    let memtables = || fixture.client.metrics().unwrap().storage.memtable_bytes;
    // A cursor that has read one document. The memtable that it read from fills up and is written to a table.
    let open = |rests: bool| {
        let mut cursor = fixture.things.find(doc! { "_id": { "$type": "int" } }).run().unwrap();
        assert!(cursor.advance().unwrap());
        if rests {
            cursor.rest();
        }
        let large = (0..4).map(|_| doc! { "text": "x".repeat(50_000) });
        fixture.things.insert_many(large).run().unwrap();
        fixture.client.flush().unwrap();
        cursor
    };
    fixture.client.flush().unwrap();
    let empty = memtables();
    let resting: Vec<_> = (0..40).map(|_| open(true)).collect();
    assert!(memtables() < empty + 2 * ROUND_BYTES, "{} bytes, and {empty} without cursors", memtables());
    // The figure shows what cursors hold that do not rest.
    let busy: Vec<_> = (0..4).map(|_| open(false)).collect();
    assert!(memtables() > empty + 3 * ROUND_BYTES, "{} bytes, and {empty} without cursors", memtables());
    for cursor in resting.into_iter().chain(busy) {
        assert_eq!(ids(cursor), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
