//! `cairn restore --rename`: what views read, and names that no store takes.

use std::process::Output;

use cairndb::Client;
use cairndb::bson::{Document, doc};

use crate::fixture::restoring::{path, refused, restore, succeeds, target};
use crate::fixture::rich::run;
use crate::fixture::{Fixture, complains};

/// A store with views that read other collections in every way there is.
fn source() -> Fixture {
    let source = Fixture::new(&[], false);
    let client = Client::open(source.path("db")).expect("it works");
    for (name, document) in
        [("a", doc! { "_id": 1, "b": 7 }), ("b", doc! { "_id": 7 }), ("c", doc! { "_id": 1, "up": 1 })]
    {
        client.database("shop").collection::<Document>(name).insert_one(document).run().expect("it works");
    }
    let lookup = doc! { "from": "b", "localField": "b", "foreignField": "_id", "as": "x", "pipeline": [{ "$unionWith": "c" }] };
    let graph = doc! { "from": "c", "startWith": "$_id", "connectFromField": "up", "connectToField": "_id", "as": "y" };
    let pipeline = [
        doc! { "$lookup": lookup },
        doc! { "$facet": { "one": [{ "$graphLookup": graph }] } },
        doc! { "$unionWith": { "coll": "c", "pipeline": [] } },
    ];
    run(&client, "shop", doc! { "create": "all", "viewOn": "a", "pipeline": pipeline.to_vec() });
    run(&client, "shop", doc! { "create": "again", "viewOn": "all", "pipeline": [] });
    client.close().expect("it works");
    succeeds(&source.run("dump", &["d"]).output().expect("it works"));
    source
}

fn exported(fixture: &Fixture, namespace: &str) -> Vec<u8> {
    let output = fixture.export(&[namespace, "--canonical"]);
    succeeds(&output);
    output.stdout
}

/// They kept the old names, under which there is nothing.
#[test]
fn views_read_what_was_renamed_with_them() {
    let source = source();
    let expected = exported(&source, "shop.again");
    assert!(expected.len() > 100);
    let dump = source.path("d");
    for is_served in [false, true] {
        let target = target(is_served);
        restore(&target, &[path(&dump), "--verify", "--rename", "shop.*=arch.old_*"]);
        for name in ["arch.old_all", "arch.old_again"] {
            assert_eq!(exported(&target, name), expected, "{name}");
        }
        // A name alone, in the same database.
        restore(&target, &[path(&dump), "--rename", "shop.c=shop.other", "--verify"]);
        assert_eq!(exported(&target, "shop.again"), expected);
    }
}

#[test]
fn a_view_without_what_it_reads_is_left_out() {
    let source = source();
    let target = target(false);
    let dump = source.path("d");
    let restored = |more: &[&str]| -> Output {
        let words = [&[path(&dump), "--drop"], more].concat();
        target.run("restore", &words).output().unwrap()
    };
    let output = restored(&["--rename", "shop.c=arch.c"]);
    complains(&output, 3, "shop.all: the view would be in shop, and shop.c, which it reads, in arch");
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("the view would be").count(), 1);
    let output = restored(&["--rename", "shop.all=arch.all"]);
    complains(&output, 3, "shop.again: the view would be in shop, and shop.all, which it reads, in arch");
    complains(&output, 3, "shop.all: the view would be in arch, and shop.a, which it reads, in shop");
}

/// They were found when six collections were made.
#[test]
fn new_names_that_no_store_takes_are_refused_before_anything_is_made() {
    let source = source();
    let dump = source.path("d");
    let target = Fixture::new(&[doc! { "_id": 1 }], false);
    for (rule, reason) in [
        ("shop.c=admin.system.users", "system collections are reserved"),
        ("shop.c=shop.a$b", "it has a $"),
        ("shop.c=a b.c", "it has one of"),
        ("shop.c=shop.c.", "starts or ends with a dot"),
        ("shop.*=shop.system.*", "system collections are reserved"),
    ] {
        refused(&target, &[path(&dump), "--drop", "--rename", rule], 2, reason);
        refused(&target, &[path(&dump), "--dry-run", "--rename", rule], 2, reason);
    }
    let long = format!("shop.*=shop.{}*", "x".repeat(250));
    refused(&target, &[path(&dump), "--rename", &long], 2, "longer than 255 bytes");
    let client = Client::open(target.path("db")).unwrap();
    assert_eq!(client.list_database_names().run().unwrap(), ["shop"]);
    assert_eq!(client.database("shop").list_collection_names().run().unwrap(), ["orders"]);
    client.close().unwrap();
}
