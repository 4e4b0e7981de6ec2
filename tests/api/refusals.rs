//! A rejected write leaves no trace: everything that the public API can show is the same before and after.

use std::fmt::Write;

use cairndb::bson::{Bson, Document, RawDocumentBuf, bson, doc};
use cairndb::{Client, ErrorKind, IndexModel, IndexOptions};

use crate::{Fixture, all};

/// Everything that the API shows of a client: names, indexes, documents, counts.
fn dump(client: &Client) -> String {
    let mut dump = format!("{:?}\n", client.verify().expect("a report"));
    for name in client.list_database_names().run().expect("names") {
        let database = client.database(&name);
        for collection in database.list_collection_names().run().expect("names") {
            let collection = database.collection::<Document>(&collection);
            let counted = collection.estimated_document_count().run().expect("a count");
            let indexes = collection.list_indexes().run().expect("indexes");
            let indexes: Vec<_> = indexes.map(|index| index.expect("an index")).collect();
            let _ = writeln!(dump, "{} {counted} {indexes:?}", collection.namespace());
            let _ = writeln!(dump, "{:?}", all(&collection));
        }
    }
    dump
}

/// A collection with documents, a unique index on `k`, and one on two fields.
fn indexed() -> Fixture {
    let fixture = Fixture::with([doc! { "_id": 1, "k": 1 }, doc! { "_id": 2, "k": [2, 3] }]);
    let unique = IndexOptions::builder().unique(true).build();
    let by_k = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    let by_two = IndexModel::builder().keys(doc! { "k": 1, "m": 1 }).build();
    fixture.things.create_indexes([by_k, by_two]).run().expect("indexes");
    fixture
}

#[track_caller]
fn insert_leaves_no_trace(document: Document) {
    let fixture = indexed();
    let before = dump(&fixture.client);
    fixture.things.insert_one(&document).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before, "insert_one of {document}");
    fixture.things.insert_many([&document]).run().expect_err("refused");
    fixture.things.insert_many([&document]).ordered(false).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before, "insert_many of {document}");
}

#[track_caller]
fn replacement_leaves_no_trace(filter: Document, replacement: Document) {
    let fixture = indexed();
    let before = dump(&fixture.client);
    fixture.things.replace_one(filter.clone(), &replacement).upsert(true).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before, "{filter} by {replacement}");
}

/// A rejected insert creates no collection.
#[track_caller]
fn makes_no_collection(document: Document) {
    let fixture = Fixture::new();
    let before = dump(&fixture.client);
    fixture.things.insert_one(&document).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before, "insert_one of {document}");
    for ordered in [true, false] {
        let refused =
            fixture.things.insert_many([&document, &document]).ordered(ordered).run().expect_err("refused");
        let ErrorKind::InsertMany(refused) = refused.kind() else { panic!("{refused:?}") };
        let positions = refused.write_errors.iter().flatten().map(|error| error.index);
        assert!(positions.eq(0..if ordered { 1 } else { 2 }), "{refused:?}");
        assert_eq!(dump(&fixture.client), before, "insert_many of {document}");
    }
    fixture.things.replace_one(doc! {}, &document).upsert(true).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before, "an upsert of {document}");
}

fn too_deep() -> Bson {
    (0..200).fold(bson!({}), |inner, _| bson!({ "a": inner }))
}

#[test]
fn refused_inserts_leave_no_trace() {
    insert_leaves_no_trace(doc! { "_id": 1 });
    insert_leaves_no_trace(doc! { "_id": 9, "k": 1.0 });
    insert_leaves_no_trace(doc! { "k": [7, 8, 3] });
    insert_leaves_no_trace(doc! { "_id": 9, "k": [4], "m": [5] });
    insert_leaves_no_trace(doc! { "_id": [9], "k": 9 });
    insert_leaves_no_trace(doc! { "_id": { "$a": 9 }, "k": 9 });
    insert_leaves_no_trace(doc! { "_id": 9, "k": 9, "deep": too_deep() });
    insert_leaves_no_trace(doc! { "_id": 9, "k": 9, "pad": "x".repeat(16 << 20) });
}

#[test]
fn refused_inserts_make_no_collection() {
    makes_no_collection(doc! { "_id": [9] });
    makes_no_collection(doc! { "_id": 9, "deep": too_deep() });
    makes_no_collection(doc! { "pad": "x".repeat(16 << 20) });
}

#[test]
fn a_call_that_stores_one_document_makes_the_collection() {
    let fixture = Fixture::new();
    let documents = [doc! { "_id": [9] }, doc! { "_id": 1 }];
    fixture.things.insert_many(&documents).run().expect_err("refused");
    assert!(fixture.client.list_database_names().run().unwrap().is_empty());
    fixture.things.insert_many(&documents).ordered(false).run().expect_err("refused");
    assert_eq!(fixture.stored(), [doc! { "_id": 1 }]);
}

#[test]
fn refused_replacements_leave_no_trace() {
    replacement_leaves_no_trace(doc! { "_id": 1 }, doc! { "_id": 9 });
    replacement_leaves_no_trace(doc! { "_id": 1 }, doc! { "k": 3 });
    replacement_leaves_no_trace(doc! { "_id": 2 }, doc! { "k": [2, 1] });
    replacement_leaves_no_trace(doc! { "_id": 2 }, doc! { "k": [2], "m": [1] });
    replacement_leaves_no_trace(doc! { "_id": 9 }, doc! { "k": 3 });
    replacement_leaves_no_trace(doc! { "_id": 9 }, doc! { "$set": { "k": 4 } });
    replacement_leaves_no_trace(doc! { "_id": 1 }, doc! { "pad": "x".repeat(16 << 20) });
}

#[test]
fn refused_bytes_leave_no_trace() {
    let fixture = indexed();
    let before = dump(&fixture.client);
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    let overlong = RawDocumentBuf::from_bytes(b"\x0e\0\0\0\x02k\0\xff\0\0\0x\0\0".to_vec()).unwrap();
    raw.insert_one(&overlong).run().expect_err("refused");
    raw.replace_one(doc! { "_id": 1 }, &overlong).run().expect_err("refused");
    assert_eq!(dump(&fixture.client), before);
}
