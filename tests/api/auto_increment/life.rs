//! The treatment of fields and their sequences when collections, databases and clients come and go.

use cairndb::bson::{Document, doc};
use cairndb::{Error, ErrorKind};

use super::{Numbered, field, sequence_refuses};

fn sequences(numbered: &Numbered) -> usize {
    numbered.client.database("test").list_sequences().run().expect("a list").len()
}

#[test]
fn dropping_a_collection_drops_its_sequences() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let id = numbered.snapshot().id;
    numbered.things.drop().run().unwrap();
    assert_eq!(sequences(&numbered), 0);
    numbered.insert(doc! {});
    assert_eq!(numbered.stored(), [doc! {}], "a collection of the same name has no fields");
    numbered.things.drop().run().unwrap();
    numbered
        .client
        .database("test")
        .create_collection("things")
        .auto_increment(field(doc! { "Field": "n" }))
        .run()
        .unwrap();
    assert_eq!(numbered.next(), 1);
    assert!(numbered.snapshot().id > id);
}

#[test]
fn dropping_a_database_drops_the_sequences_of_fields() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    numbered.client.database("test").drop().run().unwrap();
    assert_eq!(sequences(&numbered), 0);
    assert_eq!(sequences(&numbered.reopened()), 0);
}

#[test]
fn renaming_a_collection_changes_nothing() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let before = numbered.snapshot();
    numbered.things.rename("others").run().unwrap();
    let others = numbered.client.database("test").collection::<Document>("others");
    assert_eq!(others.auto_increment("n").snapshot().unwrap(), before);
    let next = || others.insert_one(doc! {}).run().unwrap().last_generate_id;
    assert_eq!((next(), next()), (Some(2), Some(3)));
    sequence_refuses(
        numbered.things.auto_increment("n").snapshot(),
        -333,
        "n is not an auto-increment field",
    );
    others.rename("things").run().unwrap();
    assert_eq!(numbered.reopened().next(), 4);
}

#[test]
fn a_rename_over_a_collection_drops_the_sequences_of_that_one() {
    let numbered = Numbered::n(doc! {});
    let db = numbered.client.database("test");
    db.create_collection("others").auto_increment(field(doc! { "Field": "m" })).run().unwrap();
    assert_eq!(sequences(&numbered), 2);
    db.collection::<Document>("others").rename("things").drop_target(true).run().unwrap();
    assert_eq!(sequences(&numbered), 1);
    assert_eq!(numbered.insert(doc! {}).generated.iter().collect::<Vec<_>>(), [("m", 1)]);
}

#[test]
fn fields_are_there_after_a_reopen_and_a_kill() {
    for contract in ["fast", "ordered", "gapless"] {
        let numbered = Numbered::n(
            doc! { "Contract": contract, "Generated": "strict", "AcquireSize": 10, "CacheSize": 50 },
        );
        numbered.next();
        numbered.next();
        let killed = numbered.killed();
        assert_eq!(killed.next(), if contract == "gapless" { 3 } else { 51 });
        sequence_refuses(killed.things.insert_one(doc! { "n": "x" }).run(), -6, "not a string");
        let numbered = numbered.reopened();
        assert_eq!(numbered.next(), 3);
    }
}

#[test]
fn a_collection_is_made_by_its_first_field() {
    let numbered = Numbered::with([]);
    let later = numbered.client.database("test").collection::<Document>("later");
    later.create_auto_increment(field(doc! { "Field": "n" })).run().unwrap();
    assert_eq!(later.insert_one(doc! {}).run().unwrap().last_generate_id, Some(1));
}

#[test]
fn a_handle_sees_fields_that_are_made_and_dropped_later() {
    let numbered = Numbered::with([]);
    let handle = numbered.things.clone();
    numbered.insert(doc! {});
    numbered.things.create_auto_increment(field(doc! { "Field": "n" })).run().unwrap();
    assert_eq!(handle.insert_one(doc! {}).run().unwrap().last_generate_id, Some(1));
    numbered.things.drop_auto_increment("n").run().unwrap();
    assert_eq!(handle.insert_one(doc! {}).run().unwrap().last_generate_id, None);
}

#[test]
fn indexes_and_fields_come_and_go_beside_each_other() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "n": 1 });
    numbered.things.create_auto_increment(field(doc! { "Field": "m" })).run().unwrap();
    numbered.things.drop_indexes().run().unwrap();
    let numbered = numbered.reopened();
    numbered.unique(doc! { "m": 1 });
    assert_eq!(numbered.insert(doc! {}).generated.len(), 2);
    assert_eq!(numbered.things.list_index_names().run().unwrap(), ["_id_", "m_1"]);
}

#[test]
fn every_verb_of_fields_of_a_closed_client_fails() {
    let numbered = Numbered::n(doc! {});
    let things = numbered.things.clone();
    numbered.client.clone().close().unwrap();
    let closed = |error: Error| assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
    closed(things.insert_one(doc! {}).run().unwrap_err());
    closed(things.create_auto_increment(field(doc! { "Field": "m" })).run().unwrap_err());
    closed(things.alter_auto_increment(field(doc! { "Field": "n" })).run().unwrap_err());
    closed(things.drop_auto_increment("n").run().unwrap_err());
    closed(things.auto_increments().run().unwrap_err());
    closed(things.auto_increment("n").snapshot().unwrap_err());
    closed(things.auto_increment("n").gaps().unwrap_err());
    closed(things.auto_increment("n").safe_watermark().unwrap_err());
    closed(things.truncate().run().unwrap_err());
}

#[test]
fn a_client_that_only_reads_numbers_nothing() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let reader = cairndb_tests::scratch::small().read_only(true).open(numbered.scratch.path()).unwrap();
    let things = cairndb_tests::scratch::things(&reader);
    let read_only = |error: Error| assert!(matches!(error.kind(), ErrorKind::ReadOnly), "{error:?}");
    read_only(things.insert_one(doc! {}).run().unwrap_err());
    read_only(things.truncate().run().unwrap_err());
    read_only(things.create_auto_increment(field(doc! { "Field": "m" })).run().unwrap_err());
    read_only(things.alter_auto_increment(field(doc! { "Field": "n" })).run().unwrap_err());
    read_only(things.drop_auto_increment("n").run().unwrap_err());
    assert_eq!(things.auto_increment("n").snapshot().unwrap().current_value, 1000);
    assert_eq!(things.auto_increments().run().unwrap().len(), 1);
}

#[test]
fn a_backup_has_the_fields() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let copy = numbered.scratch.folder().join("copy");
    numbered.client.backup(&copy).unwrap();
    let client = cairndb_tests::scratch::small().open(&copy).unwrap();
    let next = cairndb_tests::scratch::things(&client).insert_one(doc! {}).run().unwrap().last_generate_id;
    assert_eq!(next, Some(1001));
}
