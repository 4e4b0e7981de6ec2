//! `distinct`.

use std::time::Duration;

use cairndb::IndexModel;
use cairndb::bson::{Bson, Document, bson, doc};

use crate::{Fixture, refused};

#[track_caller]
fn check(field: &str, filter: Document, expected: &[Bson]) {
    let fixture = Fixture::with([
        doc! { "_id": 1, "a": 1, "tags": ["x", "y"] },
        doc! { "_id": 2, "a": 1.0, "tags": ["y"], "b": { "c": 5 } },
        doc! { "_id": 3, "a": "one", "b": [{ "c": 6 }, { "c": 5 }] },
    ]);
    let found =
        fixture.things.distinct(field, filter).max_time(Duration::from_secs(60)).run().expect("values");
    assert_eq!(found, expected);
}

#[test]
fn each_value_comes_once() {
    check("a", doc! {}, &[bson!(1), bson!("one")]);
    check("a", doc! { "_id": { "$gt": 1 } }, &[bson!(1.0), bson!("one")]);
    check("tags", doc! {}, &[bson!("x"), bson!("y")]);
    check("b.c", doc! {}, &[bson!(5), bson!(6)]);
    check("_id", doc! { "_id": 2 }, &[bson!(2)]);
    check("missing", doc! {}, &[]);
}

// Null and a missing field have the same key in an index: going on after the first of them would miss the other.
#[test]
fn null_is_a_value_behind_a_missing_field() {
    let fixture = Fixture::with([
        doc! { "_id": 1, "a": 1 },
        doc! { "_id": 2, "a": 1, "b": null },
        doc! { "_id": 3, "a": 1, "b": 2 },
    ]);
    let keys = IndexModel::builder().keys(doc! { "a": 1, "b": 1 }).build();
    fixture.things.create_index(keys).run().expect("made");
    let found = fixture.things.distinct("b", doc! { "a": 1 }).run().expect("values");
    assert_eq!(found, [Bson::Null, bson!(2)]);
}

#[test]
fn an_absent_collection_has_no_values() {
    assert!(Fixture::new().things.distinct("a", doc! {}).run().expect("values").is_empty());
}

#[test]
fn names_and_filters_are_checked() {
    let fixture = Fixture::new();
    refused(fixture.things.distinct("", doc! {}).run(), 40352, "");
    refused(fixture.things.distinct("a", doc! { "$bogus": 1 }).run(), 2, "$bogus");
}
