//! Folders of the format that is written today: `folders/format_4` opens with all that it has, and a library of a later
//! format finds it here.
//!
//! It was made by [`fill`], closed, and is copied before it is opened. With `CAIRNDB_FOLDER=path` the test of this file
//! makes such a folder; that of a released format is never made anew.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{DateTime, Document, doc};
use cairndb::{AutoIncrement, Client, IndexModel, IndexOptions};
use cairndb_tests::scratch::{Scratch, small};

/// Everything that the format can hold, some of it in tables and some in the log.
fn fill(client: &Client) {
    let shop = client.database("shop");
    let orders = shop.collection::<Document>("orders");
    let plain = |keys: Document| IndexModel::builder().keys(keys).build();
    let with =
        |keys: Document, options: IndexOptions| IndexModel::builder().keys(keys).options(options).build();
    let day = Duration::from_secs(86_400);
    let indexes = [
        plain(doc! { "tags": 1, "total": -1 }),
        with(doc! { "number": 1 }, IndexOptions::builder().unique(true).sparse(true).build()),
        with(
            doc! { "total": 1 },
            IndexOptions::builder().partial_filter_expression(doc! { "total": { "$gt": 5 } }).build(),
        ),
        with(doc! { "at": 1 }, IndexOptions::builder().expire_after(day).hidden(true).build()),
        with(doc! { "$**": 1 }, IndexOptions::builder().wildcard_projection(doc! { "tags": 0 }).build()),
    ];
    for index in indexes {
        orders.create_index(index).run().expect("made");
    }
    orders.create_auto_increment(AutoIncrement::builder().field("number").build()).run().expect("made");
    shop.create_sequence("tickets").start_value(-100).increment(-10).run().expect("made");
    shop.sequence("tickets").fetch(3).run().expect("fetched");
    // So far in the future that nothing expires while there is a test to look at it.
    let at = DateTime::from_millis(32_503_680_000_000);
    let id = ObjectId::from_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    orders.insert_one(doc! { "_id": 1, "total": 3, "tags": ["a", "b"], "at": at }).run().expect("stored");
    orders.insert_one(doc! { "_id": 2.5, "total": 7_i64, "tags": "c", "at": at }).run().expect("stored");
    orders.insert_one(doc! { "_id": 9 }).run().expect("stored");
    client.flush().expect("flushed");
    orders.delete_one(doc! { "_id": 9 }).run().expect("deleted");
    orders.insert_one(doc! { "_id": id, "total": 20, "in": { "a": [1, { "b": 2 }] } }).run().expect("stored");
    shop.create_collection("empty").run().expect("made");
}

/// What a folder holds, as text.
fn described(client: &Client) -> Vec<String> {
    let shop = client.database("shop");
    let orders = shop.collection::<Document>("orders");
    let stored = orders.find(doc! {}).sort(doc! { "_id": 1 }).run().expect("a cursor");
    let mut lines: Vec<String> = stored.map(|document| document.expect("a document").to_string()).collect();
    lines.extend(shop.list_collection_names().run().expect("listed"));
    let mut listed = shop.run_command(doc! { "listIndexes": "orders" }).run().expect("listed");
    lines.push(listed.remove("cursor").expect("a cursor").to_string());
    let found = orders.find(doc! { "tags": "b" }).run().expect("a cursor").count();
    lines.push(format!("{found} with the tag b"));
    lines
}

#[test]
fn a_folder_of_this_format_has_all_that_was_put_into_it() {
    if let Some(path) = std::env::var_os("CAIRNDB_FOLDER") {
        let client = small().open(path).expect("made");
        fill(&client);
        client.close().expect("closed");
    }
    let scratch = Scratch::new();
    let client = scratch.open();
    fill(&client);
    let expected = described(&client);
    client.close().expect("closed");

    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/folders/format_4");
    let copy = Scratch::new();
    fs::create_dir(copy.path()).expect("a new folder");
    for entry in fs::read_dir(fixture).expect("the folder is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
    }
    for options in [small().read_only(true), small(), small()] {
        let client = options.open(copy.path()).expect("opened");
        assert_eq!(described(&client), expected);
        let report = client.verify().expect("verified");
        assert!(report.is_clean(), "{report:?}");
        client.close().expect("closed");
    }
    // Numbers go on, and a salvage knows the format too.
    let new = Scratch::new();
    assert!(cairndb::salvage(copy.path(), new.path()).run().expect("salvaged").is_complete());
    for scratch in [&copy, &new] {
        let client = scratch.open();
        let shop = client.database("shop");
        assert_eq!(described(&client), expected);
        assert!(shop.sequence("tickets").next_value().run().expect("a value") <= -130);
        let orders = shop.collection::<Document>("orders");
        orders.insert_one(doc! { "_id": "new" }).run().expect("stored");
        let new = orders.find_one(doc! { "_id": "new" }).run().expect("read").expect("there");
        assert!(new.get_i64("number").expect("a number") > 4, "{new}");
    }
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let scratch = Scratch::new();
    scratch.open().close().expect("closed");
    fs::write(scratch.path().join("CAIRNDB"), "CairnDB format 5\n").expect("written");
    for options in [small(), small().read_only(true)] {
        let refused = options.open(scratch.path()).expect_err("refused").to_string();
        assert!(refused.contains('5') && refused.contains('4'), "{refused}");
    }
}
