//! `delete_one` and `delete_many`.

use cairndb::bson::{Document, doc};

use crate::Fixture;

fn five() -> Vec<Document> {
    (1..=5).map(|id| doc! { "_id": id, "a": id % 2 }).collect()
}

#[track_caller]
fn check(filter: Document, one_leaves: &[i32], many_leave: &[i32]) {
    let left = |fixture: &Fixture| -> Vec<i32> {
        fixture.stored().iter().map(|stored| stored.get_i32("_id").expect("an id")).collect()
    };
    let one = Fixture::with(five());
    let deleted = one.things.delete_one(filter.clone()).run().expect("a delete").deleted_count;
    assert_eq!((left(&one).as_slice(), deleted), (one_leaves, 5 - one_leaves.len() as u64));
    let many = Fixture::with(five());
    let deleted = many.things.delete_many(filter).run().expect("a delete").deleted_count;
    assert_eq!((left(&many).as_slice(), deleted), (many_leave, 5 - many_leave.len() as u64));
}

#[test]
fn the_first_match_or_all_of_them_go() {
    check(doc! { "_id": 3 }, &[1, 2, 4, 5], &[1, 2, 4, 5]);
    check(doc! { "a": 1 }, &[2, 3, 4, 5], &[2, 4]);
    check(doc! {}, &[2, 3, 4, 5], &[]);
    check(doc! { "a": 9 }, &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]);
    check(doc! { "_id": { "$gte": 4 } }, &[1, 2, 3, 5], &[1, 2, 3]);
}

#[test]
fn deleting_from_an_absent_collection_does_not_make_it() {
    let fixture = Fixture::new();
    assert_eq!(fixture.things.delete_many(doc! {}).run().unwrap().deleted_count, 0);
    assert_eq!(fixture.things.delete_one(doc! { "_id": 1 }).run().unwrap().deleted_count, 0);
    assert!(fixture.client.database("test").list_collection_names().run().unwrap().is_empty());
}

#[test]
fn more_documents_than_one_commit_holds_are_deleted() {
    let fixture = Fixture::with((0..2500).map(|id| doc! { "_id": id }));
    let deleted = fixture.things.delete_many(doc! { "_id": { "$gte": 100 } }).run().unwrap();
    assert_eq!(deleted.deleted_count, 2400);
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), 100);
    fixture.verify_clean();
}

#[test]
fn keys_of_a_deleted_document_are_free_again() {
    let fixture = Fixture::with([doc! { "_id": 1, "k": "x" }]);
    let options = cairndb::IndexOptions::builder().unique(true).build();
    let unique = cairndb::IndexModel::builder().keys(doc! { "k": 1 }).options(options).build();
    fixture.things.create_index(unique).run().unwrap();
    fixture.things.delete_one(doc! { "_id": 1 }).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 2, "k": "x" }).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 1, "k": "y" }).run().unwrap();
    fixture.verify_clean();
}

/// A write adds at most 64 MiB of entries for one document. Indexes that are made later add to what a document has: it could
/// neither be changed nor removed then.
#[test]
fn a_document_with_more_entries_than_a_write_may_add_is_changed_and_removed() {
    let document = |id: i32| {
        let many = || (0..9000).collect::<Vec<i32>>();
        // Each field of a key has about a thousand bytes at most.
        let text = "x".repeat(1000);
        doc! { "_id": id, "n": 0, "w": &text, "x": &text, "y": &text, "z": &text, "a": many(), "b": many() }
    };
    let fixture = Fixture::with([document(1)]);
    for name in ["a", "b"] {
        let keys = doc! { "w": 1, "x": 1, "y": 1, "z": 1, name: 1 };
        fixture.things.create_index(cairndb::IndexModel::builder().keys(keys).build()).run().unwrap();
    }
    let refused = |error: cairndb::Error| {
        assert!(error.to_string().contains("index entries of the document take"), "{error}");
    };
    refused(fixture.things.insert_one(document(2)).run().unwrap_err());
    let long = doc! { "$set": { "w": "y".repeat(1000) } };
    refused(fixture.things.update_one(doc! { "_id": 1 }, long).run().unwrap_err());
    let update = |update: Document| fixture.things.update_one(doc! { "_id": 1 }, update).run().unwrap();
    assert_eq!(update(doc! { "$inc": { "n": 1 } }).modified_count, 1);
    assert_eq!(update(doc! { "$set": { "a.5": 70_000, "b.5": 70_000 } }).modified_count, 1);
    // The fields behind it have other places now, but the same entries.
    assert_eq!(update(doc! { "$unset": { "n": "" } }).modified_count, 1);
    fixture.verify_clean();
    assert_eq!(fixture.things.delete_one(doc! { "_id": 1 }).run().unwrap().deleted_count, 1);
    fixture.verify_clean();
}
