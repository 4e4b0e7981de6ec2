//! Dumps of legacy servers, in small: what of them was refused as a whole, or told to differ though it is the same.

use std::process::Output;

use cairndb::bson::{Document, doc};

use crate::fixture::restoring::target;
use crate::fixture::{Fixture, complains};

/// Writes a collection of a dump.
fn describe(fixture: &Fixture, name: &str, metadata: &str, documents: &[Document]) {
    let folder = fixture.path("d/shop");
    std::fs::create_dir_all(&folder).expect("it works");
    let bytes: Vec<u8> =
        documents.iter().flat_map(|one| cairndb::bson::serialize_to_vec(one).expect("it works")).collect();
    std::fs::write(folder.join(format!("{name}.bson")), bytes).expect("it works");
    if !metadata.is_empty() {
        std::fs::write(folder.join(format!("{name}.metadata.json")), metadata).expect("it works");
    }
}

fn restored(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("restore", &[&["d", "--drop"], more].concat()).output().expect("it works")
}

fn indexes(fixture: &Fixture) -> Vec<Document> {
    let output = fixture.run("dump", &["o", "--overwrite"]).output().expect("it works");
    complains(&output, 0, "");
    let text = std::fs::read(fixture.path("o/shop/orders.metadata.json")).expect("it works");
    let metadata = formats::dump::metadata::Metadata::parse(&text).expect("it is one");
    let mut indexes = metadata.indexes;
    indexes.retain(|index| index.get_str("name").is_ok_and(|name| name != "_id_"));
    indexes
}

/// Every document and three indexes were told to differ.
#[test]
fn what_is_the_same_is_no_difference() {
    for is_served in [false, true] {
        let target = target(is_served);
        let documents =
            [doc! { "a": 1, "_id": 1, "b": { "c": 2, "_id": 3 } }, doc! { "a": 2, "b": [], "_id": 2 }];
        let metadata = r#"{"options":{},"indexes":[{"v":1,"key":{"_id":1},"name":"_id_","ns":"shop.orders"},
            {"v":1,"key":{"a":1},"name":"a_1","ns":"shop.orders","sparse":1,"unique":false,"background":true},
            {"v":1,"key":{"b":1},"name":"b_1","ns":"shop.orders","unique":1,"hidden":false},
            {"v":2,"key":{"c":1.0},"name":"c_1","collation":{"locale":"de"}}]}"#;
        describe(&target, "orders", metadata, &documents);
        complains(&restored(&target, &["--verify"]), 0, "");
        assert_eq!(indexes(&target).len(), 3);
        // What differs is still found.
        describe(&target, "orders", &metadata.replace("\"unique\":1", "\"unique\":0"), &documents);
        complains(&restored(&target, &["--verify"]), 0, "");
    }
}

#[test]
fn an_index_that_was_left_out_by_name_is_no_difference() {
    let target = target(false);
    let metadata = r#"{"options":{},"indexes":[{"v":2,"key":{"t":"text"},"name":"words"},{"v":2,"key":{"a":1},"name":"a_1"}]}"#;
    describe(&target, "orders", metadata, &[doc! { "_id": 1, "a": 1 }]);
    let output = restored(&target, &["--verify"]);
    complains(&output, 3, "shop.orders, index words: ");
    complains(&output, 3, "1 other thing was not restored");
}

/// Servers up to 2.6 kept whatever a driver sent with an index; the whole dump was refused for it.
#[test]
fn an_option_that_no_index_has_is_left_out_and_named() {
    let target = target(false);
    let metadata = r#"{"options":{},"indexes":[{"v":1,"key":{"a":1},"name":"a_1","w":1,"cache_for":300,"unique":true}]}"#;
    describe(&target, "orders", metadata, &[doc! { "_id": 1, "a": 1 }]);
    let output = restored(&target, &["--verify"]);
    complains(&output, 3, "shop.orders, index a_1, option w: no index has it");
    complains(&output, 3, "shop.orders, index a_1, option cache_for: no index has it");
    let made = indexes(&target);
    let [index] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(index.get_bool("unique").ok(), Some(true));
    assert!(!index.contains_key("w"));
}

#[test]
fn options_of_other_versions_are_told_in_plain_words() {
    let target = target(false);
    describe(&target, "orders", r#"{"options":{"flags":1},"indexes":[]}"#, &[doc! { "_id": 1 }]);
    let output = restored(&target, &[]);
    complains(
        &output,
        3,
        "shop.orders, option flags: it is of another version of MongoDB, and means nothing here",
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("40415"), "{output:?}");
}

#[test]
fn the_list_of_indexes_of_an_old_server_is_passed_over() {
    let target = target(false);
    describe(&target, "orders", r#"{"options":{},"indexes":[]}"#, &[doc! { "_id": 1 }]);
    describe(
        &target,
        "system.indexes",
        "",
        &[doc! { "v": 1, "key": { "_id": 1 }, "ns": "shop.orders", "name": "_id_" }],
    );
    complains(&restored(&target, &["--verify"]), 0, "");
}

#[test]
fn directions_of_old_servers_are_converted_if_that_is_asked_for() {
    let target = target(false);
    let metadata = r#"{"options":{},"indexes":[{"v":1,"key":{"a":true},"name":"a_true"},
        {"v":1,"key":{"b":"1"},"name":"b_1"},{"v":1,"key":{"c":"","d":-1},"name":"c_d"}]}"#;
    describe(&target, "orders", metadata, &[doc! { "_id": 1, "a": 1 }]);
    complains(&restored(&target, &[]), 3, "; --convert-legacy-indexes makes it");
    for option in ["--convert-legacy-indexes", "--convertLegacyIndexes"] {
        complains(&restored(&target, &[option, "--verify"]), 0, "");
        let keys: Vec<Document> =
            indexes(&target).iter().map(|index| index.get_document("key").unwrap().clone()).collect();
        assert_eq!(keys, [doc! { "a": 1 }, doc! { "b": 1 }, doc! { "c": 1, "d": -1 }]);
    }
}

/// A dump that lacks a file, or has one name that is none, was refused as a whole, also where that one was excluded.
#[test]
fn what_is_whole_of_a_dump_is_restored() {
    for is_served in [false, true] {
        let target = target(is_served);
        let restored =
            |more: &[&str]| target.run("restore", &[&["d"], more].concat()).output().expect("it works");
        describe(&target, "orders", r#"{"options":{},"indexes":[]}"#, &[doc! { "_id": 1 }]);
        describe(&target, "lost", r#"{"options":{},"indexes":[{"v":2,"key":{"a":1},"name":"a_1"}]}"#, &[]);
        std::fs::remove_file(target.path("d/shop/lost.bson")).expect("it works");
        describe(&target, "%zz", "", &[doc! { "_id": 1 }]);
        describe(&target, "a$b", "", &[doc! { "_id": 1 }]);
        describe(&target, "torn", "{\"options\":", &[doc! { "_id": 1 }]);
        // mongodump writes it into the folder of the database, if it dumps one.
        std::fs::write(
            target.path("d/shop/prelude.json"),
            r#"{"ServerVersion":"7.0.1","ToolVersion":"100.9.4"}"#,
        )
        .expect("it works");
        complains(&restored(&[]), 1, "torn.metadata.json");
        complains(&restored(&[]), 1, "with --exclude 'shop.torn' the rest is restored");
        let torn = ["--exclude", "shop.torn"];
        let output = restored(&torn);
        complains(
            &output,
            3,
            "shop.lost: the file lost.bson with its documents is missing: it is made without them",
        );
        complains(&output, 3, "d/shop/%zz is not an escaped name");
        complains(&output, 3, "shop.a$b: ");
        complains(&output, 3, "1 document");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("prelude.json"), "{output:?}");
        assert_eq!(target.documents(), [doc! { "_id": 1 }]);
        let rest = ["--exclude", "shop.lost", "--exclude", "shop.%zz", "--exclude", "shop.a$b", "--drop"];
        complains(&restored(&[&torn[..], &rest].concat()), 0, "");
        // What is there is not replaced by a collection that has lost its documents.
        describe(&target, "mine", "", &[doc! { "_id": "mine" }]);
        complains(&restored(&["--include", "shop.mine"]), 0, "");
        std::fs::remove_file(target.path("d/shop/mine.bson")).expect("it works");
        describe(&target, "mine", r#"{"options":{},"indexes":[]}"#, &[]);
        std::fs::remove_file(target.path("d/shop/mine.bson")).expect("it works");
        let output = restored(&["--include", "shop.mine", "--drop"]);
        complains(&output, 3, "shop.mine: the file mine.bson with its documents is missing");
        let exported = target.export(&["shop.mine"]);
        assert_eq!(String::from_utf8_lossy(&exported.stdout), "{\"_id\":\"mine\"}\n");
    }
}

/// What `mongodump --db` has written, given as mongorestore takes it.
#[test]
fn a_folder_of_one_database_is_restored_by_its_name() {
    let target = target(false);
    describe(&target, "orders", r#"{"options":{},"indexes":[]}"#, &[doc! { "_id": 1 }]);
    let run = |more: &[&str]| target.run("restore", more).output().expect("it works");
    complains(&run(&["d/shop"]), 2, "has files of collections: give the directory above it, or --db NAME");
    complains(&run(&["d/shop", "--db", "shop", "--verify"]), 0, "restored 1 collection");
    assert_eq!(target.documents(), [doc! { "_id": 1 }]);
    complains(&run(&["d/shop", "--db", "other"]), 0, "restored 1 collection");
    complains(&run(&["d/shop", "--db", "a.b"]), 2, "a.b");
    complains(&run(&["d", "--db", "shop"]), 2, "has no files of collections");
    complains(&run(&["d/shop/orders.bson"]), 2, "cairn import STORE DB.COLLECTION");
}
