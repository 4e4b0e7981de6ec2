//! The size of replies to writes: short commands can compute large values, which errors and upserted `_id`s contain.

use cairndb::bson::{Bson, Document, doc};

use crate::Fixture;

const MIB: usize = 1 << 20;

/// An expression for a string of 1 MiB.
fn large() -> Document {
    doc! { "$reduce": {
        "input": { "$range": [0, 20] },
        "initialValue": "x",
        "in": { "$concat": ["$$value", "$$value"] },
    } }
}

fn documents<'a>(reply: &'a Document, field: &str) -> Vec<&'a Document> {
    let values = reply.get_array(field).map(Vec::as_slice).unwrap_or_default();
    values.iter().filter_map(Bson::as_document).collect()
}

fn batch(reply: &Document) -> Vec<&Document> {
    documents(reply.get_document("cursor").expect("a cursor"), "firstBatch")
}

fn bytes(reply: &Document) -> usize {
    reply.to_vec().expect("bytes").len()
}

fn message(error: &Document) -> &str {
    error.get_str("errmsg").expect("a message")
}

/// Checks errors of duplicate keys, whose positions are in `position`.
#[track_caller]
fn check_errors(errors: &[&Document], position: &str) {
    for (index, error) in errors.iter().enumerate() {
        let found = (error.get_i32(position).ok(), error.get_i32("code").ok());
        assert_eq!(found, (i32::try_from(index).ok(), Some(11000)));
    }
    let first = errors.first().expect("an error");
    assert!(message(first).starts_with("E11000 duplicate key error collection: shop.c index: k_1"));
    assert!(message(first).len() < 17 << 10);
    let value = first.get_document("keyValue").and_then(|values| values.get_str("k"));
    assert_eq!(value.expect("the key").len(), MIB);
    // The first messages use up their space, the first details another one.
    let last = errors.last().expect("an error");
    assert_eq!(message(last), "");
    assert!(!last.contains_key("keyValue") && !last.contains_key("keyPattern"));
    assert!(errors.iter().map(|error| message(error).len()).sum::<usize>() < MIB + (17 << 10));
}

// Each error had the whole key twice, in its message and in its details: 51 KB of a request with keys of 4 MiB needed 6.7 GB, and
// the reply, longer than a message can be, was a panic.
#[test]
fn errors_with_large_keys_are_cut() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let run = |command: Document| shop.run_command(command).run().expect("a reply");
    run(doc! { "insert": "c", "documents": [{ "_id": 1, "k": 1 }, { "_id": 2, "k": 2 }] });
    run(doc! { "createIndexes": "c", "indexes": [{ "key": { "k": 1 }, "name": "k_1", "unique": true }] });
    let set = || vec![doc! { "$set": { "k": large() } }];
    let first = run(doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": set() }] });
    assert_eq!(first.get_i32("nModified").ok(), Some(1), "{first}");

    let updates: Vec<_> = (0..300).map(|_| doc! { "q": { "_id": 2 }, "u": set() }).collect();
    let reply = run(doc! { "update": "c", "ordered": false, "updates": updates });
    let errors = documents(&reply, "writeErrors");
    assert_eq!((reply.get_i32("n").ok(), errors.len()), (Some(0), 300));
    check_errors(&errors, "index");
    assert!(bytes(&reply) < 6 * MIB, "{}", bytes(&reply));

    let ops: Vec<_> =
        (0..300).map(|_| doc! { "update": 0, "filter": { "_id": 2 }, "updateMods": set() }).collect();
    let bulk = doc! { "bulkWrite": 1, "ordered": false, "ops": ops, "nsInfo": [{ "ns": "shop.c" }] };
    let reply = fixture.client.database("admin").run_command(bulk).run().expect("a reply");
    let errors = batch(&reply);
    assert_eq!((reply.get_i32("nErrors").ok(), errors.len()), (Some(300), 300));
    check_errors(&errors, "idx");
    assert!(bytes(&reply) < 6 * MIB, "{}", bytes(&reply));
    fixture.verify_clean();
}

/// A pipeline that gives the document with the number `number` an `_id` of 1 MiB.
fn with_large_id(number: i32) -> Vec<Document> {
    vec![doc! { "$set": { "_id": { "$concat": [number.to_string(), large()] } } }]
}

// Sixty computed `_id`s of 2 MiB were a reply of 126 MB.
#[test]
fn updates_are_rejected_once_the_upserted_ids_fill_the_reply() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let update = |collection: &str, is_ordered: bool| {
        let statement = |number: i32| {
            let (q, u) = (doc! { "n": number }, with_large_id(number));
            doc! { "q": q, "u": u, "upsert": true }
        };
        let updates: Vec<_> = (0..20).map(statement).collect();
        let command = doc! { "update": collection, "ordered": is_ordered, "updates": updates };
        shop.run_command(command).run().expect("a reply")
    };
    let stored = |collection: &str| {
        shop.collection::<Document>(collection).count_documents(doc! {}).run().expect("a count")
    };
    for (collection, is_ordered, rejected) in [("ordered", true, 1), ("unordered", false, 4)] {
        let reply = update(collection, is_ordered);
        // Every document that was stored is listed, and every statement that was not executed.
        let upserted = documents(&reply, "upserted");
        assert_eq!((reply.get_i32("n").ok(), upserted.len(), stored(collection)), (Some(16), 16, 16));
        let errors = documents(&reply, "writeErrors");
        let found: Vec<_> =
            errors.iter().map(|error| (error.get_i32("index").ok(), error.get_i32("code").ok())).collect();
        let expected: Vec<_> = (16..16 + rejected).map(|index| (Some(index), Some(10334))).collect();
        assert_eq!(found, expected);
        assert!(bytes(&reply) < 17 * MIB, "{}", bytes(&reply));
    }

    let bulk = |errors_only: bool, collection: &str| {
        let operation = |number: i32| {
            let (filter, modifications) = (doc! { "n": number }, with_large_id(number));
            doc! { "update": 0, "filter": filter, "updateMods": modifications, "upsert": true }
        };
        let ops: Vec<_> = (0..20).map(operation).collect();
        let ns = format!("shop.{collection}");
        let bulk = doc! { "bulkWrite": 1, "ordered": false, "errorsOnly": errors_only, "ops": ops, "nsInfo": [{ "ns": ns }] };
        fixture.client.database("admin").run_command(bulk).run().expect("a reply")
    };
    let sums = |reply: &Document| (reply.get_i32("nUpserted").ok(), reply.get_i32("nErrors").ok());
    let reply = bulk(false, "bulk");
    assert_eq!((sums(&reply), batch(&reply).len(), stored("bulk")), ((Some(16), Some(4)), 20, 16));
    assert!(bytes(&reply) < 17 * MIB, "{}", bytes(&reply));
    // Results that are left out need no space.
    let reply = bulk(true, "errors_only");
    assert_eq!((sums(&reply), batch(&reply).len(), stored("errors_only")), ((Some(20), Some(0)), 0, 20));
    fixture.verify_clean();
}
