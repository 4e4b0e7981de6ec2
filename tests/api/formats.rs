//! Folders with everything that a format can hold: `folders/format_4` and `folders/format_4_options` open with all that they have,
//! and a library of a later format finds them here.
//!
//! They were made by [`fill`] and [`fill_options`], closed, and are copied before they are opened. With `CAIRNDB_FOLDER=path` the
//! tests of this file make such folders in that one; those of a released format are never made again. A library with other rules
//! of languages rejects the second one, and then says so here.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{DateTime, Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Database, IndexModel, IndexOptions};
use cairndb_tests::scratch::{Scratch, small};

use crate::collation::any_case;

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

/// The content of a folder, as text.
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

/// The declarations that collections can have: a validator, a collation with an index that has sort keys, views, a
/// capped collection, and sequences in order and without gaps.
fn fill_options(client: &Client) {
    let shop = client.database("shop");
    let gapless = AutoIncrement::builder().field("number").contract(Contract::Gapless).build();
    let adult = doc! { "age": { "$gte": 0 } };
    let people = shop.create_collection("people").collation(any_case()).validator(adult);
    people.auto_increment(gapless).run().expect("made");
    let people = shop.collection::<Document>("people");
    people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).build()).run().expect("made");
    let grown = [doc! { "$match": { "age": { "$gte": 18 } } }];
    shop.create_collection("grown")
        .view_on("people")
        .collation(any_case())
        .pipeline(grown)
        .run()
        .expect("made");
    let names = [doc! { "$project": { "_id": 0, "name": 1 } }];
    shop.create_collection("names")
        .view_on("grown")
        .collation(any_case())
        .pipeline(names)
        .run()
        .expect("made");
    shop.create_collection("log").capped(true).size(4096).max(3).run().expect("made");
    let log = shop.collection::<Document>("log");
    let ordered = AutoIncrement::builder().field("number").contract(Contract::Ordered).build();
    shop.create_collection("invoices").auto_increment(ordered).run().expect("made");
    let invoices = shop.collection::<Document>("invoices");
    for (id, (name, age)) in
        (1..).zip([("Ada", 36), ("ADA", 12), ("Édith", 71), ("edith", 18), ("Grace", 85)])
    {
        people.insert_one(doc! { "_id": id, "name": name, "age": age }).run().expect("stored");
        log.insert_one(doc! { "_id": -id, "text": name }).run().expect("stored");
        invoices.insert_one(doc! { "_id": name }).run().expect("stored");
        // Some of it is in tables, and some in the log.
        if id == 3 {
            client.flush().expect("flushed");
        }
    }
    people.delete_one(doc! { "_id": 5 }).run().expect("deleted");
}

fn documents(database: &Database, name: &str, filter: Document) -> Vec<String> {
    let collection: Collection<Document> = database.collection(name);
    let found = collection.find(filter).run().expect("a cursor");
    found.map(|document| document.expect("a document").to_string()).collect()
}

/// The content of a folder of [`fill_options`], as text.
fn described_options(client: &Client) -> Vec<String> {
    let shop = client.database("shop");
    let mut lines = Vec::new();
    for name in ["people", "grown", "names", "log", "invoices"] {
        lines.extend(documents(&shop, name, doc! {}));
    }
    lines.extend(documents(&shop, "people", doc! { "name": "ada" }));
    lines.extend(documents(&shop, "grown", doc! { "name": "EDITH" }));
    let mut listed = shop.run_command(doc! { "listCollections": 1 }).run().expect("listed");
    let listed = listed.remove("cursor").expect("a cursor").to_string();
    // Each collection has a random id.
    let is_known = |part: &&str| !part.contains("uuid") && !part.contains("==)");
    lines.extend(listed.split(',').filter(is_known).map(str::to_owned));
    let mut indexes = shop.run_command(doc! { "listIndexes": "people" }).run().expect("listed");
    lines.push(indexes.remove("cursor").expect("a cursor").to_string());
    lines
}

/// Makes a folder by that name, if one is asked for.
fn make_if_asked(name: &str, fill: impl Fn(&Client)) {
    if let Some(folder) = std::env::var_os("CAIRNDB_FOLDER") {
        let client = small().open(Path::new(&folder).join(name)).expect("made");
        fill(&client);
        client.close().expect("closed");
    }
}

/// A copy of a folder that is kept.
fn copied(name: &str) -> Scratch {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/folders").join(name);
    let copy = Scratch::new();
    fs::create_dir(copy.path()).expect("a new folder");
    for entry in fs::read_dir(kept).expect("the folder is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
    }
    copy
}

/// A reader and writers find in the copy of a kept folder what a new one has.
#[track_caller]
fn check_kept(
    copy: &Scratch,
    fill: impl Fn(&Client),
    described: impl Fn(&Client) -> Vec<String>,
) -> Vec<String> {
    let scratch = Scratch::new();
    let client = scratch.open();
    fill(&client);
    let expected = described(&client);
    client.close().expect("closed");
    for options in [small().read_only(true), small(), small()] {
        let client = options.open(copy.path()).expect("opened");
        assert_eq!(described(&client), expected);
        let report = client.verify().expect("verified");
        assert!(report.is_clean(), "{report:?}");
        client.close().expect("closed");
    }
    expected
}

#[test]
fn a_folder_of_format_4_has_all_that_was_put_into_it() {
    make_if_asked("format_7", fill);
    let copy = copied("format_4");
    let expected = check_kept(&copy, fill, described);
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
fn a_folder_of_format_4_keeps_to_what_its_collections_are_declared_to_be() {
    make_if_asked("format_7_options", fill_options);
    let copy = copied("format_4_options");
    let expected = check_kept(&copy, fill_options, described_options);
    let new = Scratch::new();
    assert!(cairndb::salvage(copy.path(), new.path()).run().expect("salvaged").is_complete());
    for scratch in [&copy, &new] {
        let client = scratch.open();
        assert_eq!(described_options(&client), expected);
        let shop = client.database("shop");
        let people = shop.collection::<Document>("people");
        let refused = people.insert_one(doc! { "name": "none", "age": -1 }).run().expect_err("not valid");
        assert_eq!(refused.code(), Some(121), "{refused}");
        // Without gaps: five had numbers, and the rejected one used none.
        people.insert_one(doc! { "_id": 9, "name": "ADÀ", "age": 1 }).run().expect("stored");
        let stored = people.find_one(doc! { "_id": 9 }).run().expect("read").expect("there");
        assert_eq!(stored.get_i64("number").expect("a number"), 6);
        let invoices = shop.collection::<Document>("invoices");
        invoices.insert_one(doc! { "_id": "new" }).run().expect("stored");
        let stored = invoices.find_one(doc! { "_id": "new" }).run().expect("read").expect("there");
        assert!(stored.get_i64("number").expect("a number") > 5, "{stored}");
        let log = shop.collection::<Document>("log");
        log.insert_one(doc! { "_id": 0, "text": "new" }).run().expect("stored");
        assert_eq!(documents(&shop, "log", doc! {}).len(), 3, "the oldest goes");
        assert_eq!(log.count_documents(doc! { "_id": -3 }).run().expect("counted"), 0);
        assert!(client.verify().expect("verified").is_clean());
    }
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let scratch = Scratch::new();
    scratch.open().close().expect("closed");
    fs::write(scratch.path().join("CAIRNDB"), "CairnDB format 8\n").expect("written");
    for options in [small(), small().read_only(true)] {
        let refused = options.open(scratch.path()).expect_err("refused").to_string();
        assert!(refused.contains('8') && refused.contains('7'), "{refused}");
    }
}
