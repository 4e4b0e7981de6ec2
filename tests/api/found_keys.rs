//! `returnKey` and `showRecordId` of `find`: the keys by which documents are found, and the `_id`s that they are stored by.

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{IndexModel, IndexOptions};

use crate::Fixture;
use crate::index_plans::explain;

/// Three documents in `shop.a`, and indexes on them.
fn three() -> Fixture {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop").collection("a");
    let documents = [
        doc! { "_id": 1, "a": 1, "b": { "c": 3.0 }, "tags": [5, 6] },
        doc! { "_id": 2, "a": 2_i64, "b": { "c": 2 }, "tags": [5] },
        doc! { "_id": 3, "a": Bson::Null, "b": 1 },
    ];
    shop.insert_many(documents).run().expect("they are new");
    for (keys, name, unique) in [
        (doc! { "a": 1 }, "a", true),
        (doc! { "b.c": -1, "a": 1 }, "both", false),
        (doc! { "tags": 1 }, "tags", false),
        (doc! { "$**": 1 }, "wild", false),
    ] {
        let options = IndexOptions::builder().name(name.to_owned()).unique(unique).build();
        shop.create_index(IndexModel::builder().keys(keys).options(options).build()).run().expect("made");
    }
    fixture
}

/// The rows of a `find` with these fields, and how many keys and documents it looks at.
#[track_caller]
fn check(fields: Document, expected: &Bson, examined: [i32; 2]) {
    let fixture = three();
    let mut command = doc! { "find": "a" };
    command.extend(fields);
    let reply = explain(&fixture, &command);
    let statistics = reply.get_document("executionStats").expect("it was run");
    let told =
        ["totalKeysExamined", "totalDocsExamined"].map(|name| statistics.get_i32(name).expect("a number"));
    let run = fixture.client.database("shop").run_command(command.clone()).run().expect("a reply");
    let found = run.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("rows");
    assert_eq!((&Bson::Array(found.clone()), told), (expected, examined), "{command}: {reply}");
}

/// The same, of rows that are keys.
#[track_caller]
fn check_keys(fields: Document, expected: &Bson, examined: [i32; 2]) {
    check(fields.into_iter().chain(doc! { "returnKey": true }).collect(), expected, examined);
}

#[test]
fn keys_take_the_place_of_documents() {
    // The entry of null does not say whether its document has the field, so the document is read.
    check_keys(doc! { "hint": "a" }, &bson!([{ "a": null }, { "a": 1 }, { "a": 2_i64 }]), [3, 1]);
    let both = bson!([{ "b.c": 3.0, "a": 1 }, { "b.c": 2, "a": 2_i64 }]);
    check_keys(doc! { "hint": "both", "filter": { "b.c": { "$gt": 0 } } }, &both, [2, 0]);
    check_keys(doc! { "filter": { "a": 2 }, "projection": { "b": 1 } }, &bson!([{ "a": 2_i64 }]), [1, 0]);
    // A condition on another field reads the document.
    check_keys(
        doc! { "filter": { "a": { "$gt": 0 }, "x": null }, "hint": "a" },
        &bson!([{ "a": 1 }, { "a": 2_i64 }]),
        [2, 2],
    );
    check_keys(doc! { "hint": "a", "skip": 1, "limit": 1 }, &bson!([{ "a": 1 }]), [2, 1]);
}

#[test]
fn keys_are_sorted_by_their_documents() {
    check_keys(
        doc! { "hint": "a", "sort": { "a": -1 }, "limit": 2 },
        &bson!([{ "a": 2_i64 }, { "a": 1 }]),
        [2, 0],
    );
    let by_id = doc! { "hint": "a", "sort": { "_id": -1 } };
    check_keys(by_id, &bson!([{ "a": null }, { "a": 2_i64 }, { "a": 1 }]), [3, 1]);
    let by_other = doc! { "hint": "a", "sort": { "tags": -1 }, "skip": 1, "showRecordId": true };
    check_keys(by_other, &bson!([{ "a": 2_i64, "$recordId": 2 }, { "a": null, "$recordId": 3 }]), [3, 3]);
}

#[test]
fn of_arrays_the_element_that_was_found_is_shown() {
    check_keys(doc! { "filter": { "tags": { "$gt": 5 } }, "hint": "tags" }, &bson!([{ "tags": 6 }]), [1, 1]);
    let all = bson!([{ "tags": null }, { "tags": 5 }, { "tags": 5 }]);
    check_keys(doc! { "hint": "tags" }, &all, [4, 3]);
    let wild = bson!([{ "$_path": "b.c", "b.c": 2 }]);
    check_keys(doc! { "filter": { "b.c": 2 }, "hint": "wild" }, &wild, [1, 1]);
    let merged = doc! { "filter": { "$or": [{ "a": 1 }, { "tags": { "$gt": 5 } }, { "a": 2 }] } };
    check_keys(merged, &bson!([{ "a": 1 }, { "a": 2_i64 }]), [3, 2]);
}

#[test]
fn records_are_found_by_their_ids_or_by_no_key() {
    check_keys(doc! { "filter": { "_id": 2 } }, &bson!([{ "_id": 2 }]), [1, 1]);
    check_keys(doc! { "filter": { "_id": { "$gt": 1 } } }, &bson!([{ "_id": 2 }, { "_id": 3 }]), [0, 2]);
    check_keys(doc! { "hint": "_id_", "limit": 1 }, &bson!([{ "_id": 1 }]), [0, 1]);
    check_keys(doc! { "sort": { "_id": -1 }, "limit": 1 }, &bson!([{ "_id": 3 }]), [0, 1]);
    check_keys(doc! { "limit": 2 }, &bson!([{}, {}]), [0, 2]);
    check_keys(doc! { "hint": { "$natural": 1 }, "limit": 1 }, &bson!([{}]), [0, 1]);
    let within = doc! { "hint": "a", "min": { "a": 1 }, "max": { "a": 2 } };
    check_keys(within, &bson!([{ "a": 1 }]), [1, 0]);
}

#[test]
fn the_id_of_the_record_is_shown_beside_the_projection() {
    let shown = doc! { "filter": { "a": 1 }, "projection": { "_id": 0, "a": 1 }, "showRecordId": true };
    check(shown, &bson!([{ "a": 1, "$recordId": 1 }]), [1, 1]);
    let whole = doc! { "filter": { "_id": 3 }, "showRecordId": true };
    check(whole, &bson!([{ "_id": 3, "a": null, "b": 1, "$recordId": 3 }]), [1, 1]);
    let keys = doc! { "filter": { "a": 2 }, "returnKey": true, "showRecordId": true };
    check(keys, &bson!([{ "a": 2_i64, "$recordId": 2 }]), [1, 1]);
    check(
        doc! { "filter": { "_id": 3 }, "returnKey": false },
        &bson!([{ "_id": 3, "a": null, "b": 1 }]),
        [1, 1],
    );
}
