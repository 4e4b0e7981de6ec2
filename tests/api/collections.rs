//! Collections as a whole: create, list, drop, rename, and the rules for names.

use cairndb::bson::{Document, doc};
use cairndb_tests::scratch::{Scratch, things};

use crate::{Fixture, all, refused};

fn names(fixture: &Fixture) -> Vec<String> {
    fixture.client.database("test").list_collection_names().run().expect("names")
}

/// Every verb of a collection with a bad name fails the same way.
#[track_caller]
fn bad_name(database: &str, name: &str) {
    let fixture = Fixture::new();
    let collection = fixture.client.database(database).collection::<Document>(name);
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    refused(collection.insert_one(doc! {}).run(), 73, "invalid");
    refused(collection.find(doc! {}).run(), 73, "invalid");
    refused(collection.find_one(doc! { "_id": 1 }).run(), 73, "invalid");
    refused(collection.delete_many(doc! {}).run(), 73, "invalid");
    refused(collection.estimated_document_count().run(), 73, "invalid");
    refused(collection.create_index(by_a).run(), 73, "invalid");
    refused(collection.drop().run(), 73, "invalid");
    refused(fixture.client.database(database).create_collection(name).run(), 73, "invalid");
    assert!(fixture.client.list_database_names().run().expect("names").is_empty());
}

#[test]
fn a_collection_is_made_once() {
    let fixture = Fixture::new();
    let database = fixture.client.database("test");
    database.create_collection("b").run().unwrap();
    database.create_collection("a").run().unwrap();
    // Again, and it is the one that is wanted.
    database.create_collection("a").run().unwrap();
    database.run_command(doc! { "create": "a" }).run().unwrap();
    let other = || cairndb::AutoIncrement::builder().field("n").build();
    let error =
        refused(database.create_collection("a").auto_increment(other()).run(), 48, "different options");
    assert_eq!(error.namespace().unwrap().to_string(), "test.a");
    let numbered = || database.create_collection("c").auto_increment(other());
    numbered().run().unwrap();
    numbered().run().unwrap();
    let field = |options: Document| doc! { "create": "c", "autoIncrement": options };
    database.run_command(field(doc! { "Field": "n" })).run().unwrap();
    for differs in [
        doc! { "Field": "m" },
        doc! { "Field": "n", "Generated": "always" },
        doc! { "Field": "n", "Increment": 2 },
    ] {
        refused(database.run_command(field(differs)).run(), 48, "different options");
    }
    refused(database.run_command(doc! { "create": "c" }).run(), 48, "different options");
    database.collection::<Document>("c").drop().run().unwrap();
    assert_eq!(names(&fixture), ["a", "b"]);
}

#[test]
fn a_write_makes_the_collection() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    assert_eq!(names(&fixture), ["things"]);
    assert_eq!(fixture.client.list_database_names().run().unwrap(), ["test"]);
}

#[test]
fn a_dropped_collection_is_gone_with_its_indexes() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(by_a).run().unwrap();
    fixture.things.drop().run().unwrap();
    fixture.things.drop().run().unwrap();
    assert!(names(&fixture).is_empty());
    assert!(fixture.stored().is_empty());
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && (report.documents, report.entries) == (0, 0), "{report:?}");
    fixture.things.insert_one(doc! { "_id": 1 }).run().unwrap();
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_"]);
}

#[test]
fn a_dropped_database_is_gone() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    fixture.client.database("test").create_collection("more").run().unwrap();
    fixture.client.database("other").create_collection("c").run().unwrap();
    fixture.client.database("test").drop().run().unwrap();
    assert_eq!(fixture.client.list_database_names().run().unwrap(), ["other"]);
    fixture.verify_clean();
}

#[test]
fn a_renamed_collection_keeps_documents_and_indexes() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    let unique = cairndb::IndexOptions::builder().unique(true).build();
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).options(unique).build();
    fixture.things.create_index(by_a).run().unwrap();
    fixture.things.rename("others").run().unwrap();
    let others = fixture.client.database("test").collection::<Document>("others");
    assert_eq!(names(&fixture), ["others"]);
    assert_eq!(all(&others), [doc! { "_id": 1, "a": 1 }]);
    let error = refused(others.insert_one(doc! { "_id": 2, "a": 1 }).run(), 11000, "test.others index: a_1");
    assert_eq!(error.namespace().unwrap().coll, "others");
    assert_eq!(others.estimated_document_count().run().unwrap(), 1);
    assert!(fixture.stored().is_empty());
    fixture.things.insert_one(doc! { "_id": 1 }).run().unwrap();
    assert_eq!(names(&fixture), ["others", "things"]);
    fixture.verify_clean();
}

#[test]
fn a_rename_refuses_a_taken_name_unless_it_is_dropped() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let target = fixture.client.database("test").collection::<Document>("target");
    refused(
        fixture.client.database("test").collection::<Document>("none").rename("x").run(),
        26,
        "test.none",
    );
    target.insert_one(doc! { "_id": 2 }).run().unwrap();
    refused(fixture.things.rename("target").run(), 48, "test.target");
    refused(fixture.things.rename("things").run(), 20, "test.things");
    refused(fixture.things.rename("bad$name").run(), 73, "bad$name");
    fixture.things.rename("target").drop_target(true).run().unwrap();
    assert_eq!(all(&target), [doc! { "_id": 1 }]);
    assert_eq!(names(&fixture), ["target"]);
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && report.documents == 1, "{report:?}");
}

#[test]
fn drops_and_renames_survive_a_reopen() {
    let Fixture { client, things: first, scratch } = Fixture::with([doc! { "_id": 1 }]);
    client.database("test").create_collection("gone").run().unwrap();
    client.database("test").collection::<Document>("gone").drop().run().unwrap();
    first.rename("others").run().unwrap();
    drop((client, first));
    let client = scratch.open();
    assert_eq!(client.database("test").list_collection_names().run().unwrap(), ["others"]);
    assert_eq!(all(&client.database("test").collection("others")), [doc! { "_id": 1 }]);
    crate::verify_clean(&client);
}

#[test]
fn bad_names_are_refused_by_every_verb() {
    bad_name("test", "");
    bad_name("test", "a$b");
    bad_name("test", ".a");
    bad_name("test", "a.");
    bad_name("test", "system.users");
    bad_name("test", "a\u{0}b");
    bad_name("test", &"c".repeat(251));
    bad_name("", "c");
    bad_name("a.b", "c");
    bad_name("a b", "c");
    bad_name(&"d".repeat(64), "c");
}

#[test]
fn the_longest_names_work() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let (database, name) = ("d".repeat(63), "c".repeat(191));
    let collection = client.database(&database).collection::<Document>(&name);
    collection.insert_one(doc! { "_id": 1 }).run().unwrap();
    assert_eq!(client.database(&database).list_collection_names().run().unwrap(), [name]);
}

#[test]
fn many_collections_are_cheap_and_apart() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let at = |number: i32| client.database("test").collection::<Document>(&format!("c{number:04}"));
    for number in 0..300 {
        at(number).insert_one(doc! { "_id": 1, "number": number }).run().unwrap();
    }
    for number in [0, 150, 299] {
        assert_eq!(all(&at(number)), [doc! { "_id": 1, "number": number }]);
    }
    assert_eq!(client.verify().unwrap().collections, 300);
    assert!(things(&client).find_one(doc! {}).run().unwrap().is_none());
}
