//! Unsupported features are rejected by the number that MongoDB gives them, and change nothing.

use mongodb::bson::{Document, doc};

use crate::{Served, refused};

#[track_caller]
fn check(served: &Served, command: Document, code: i32, words: &str) {
    refused(served.client.database("shop").run_command(command).run(), code, words);
}

#[test]
fn refusals_have_mongodbs_numbers() {
    let served = Served::with([doc! { "_id": 1, "text": "a" }]);
    check(&served, doc! { "bogus": 1 }, 59, "no such command: 'bogus'");
    check(&served, doc! { "atlasVersion": 1 }, 59, "atlasVersion");
    check(&served, doc! { "find": "things", "bogus": 1 }, 40415, "find.bogus");
    check(&served, doc! { "find": "things", "filter": { "$bogus": 1 } }, 2, "$bogus");
    check(&served, doc! { "find": "things", "filter": { "$where": "true" } }, 238, "$where");
    check(&served, doc! { "listIndexes": "none" }, 26, "shop.none");
    check(&served, doc! { "collStats": "none" }, 26, "shop.none");
    check(&served, doc! { "dropIndexes": "things", "index": "none" }, 27, "none");
    check(&served, doc! { "dropIndexes": "things", "index": "_id_" }, 72, "_id");
    check(
        &served,
        doc! { "aggregate": "things", "pipeline": [{ "$bogus": {} }], "cursor": {} },
        40324,
        "$bogus",
    );
    check(&served, doc! { "sequenceNext": "none" }, 2, "none");
    check(&served, doc! { "replSetGetStatus": 1 }, 76, "replSet");
    refused(served.things.update_one(doc! {}, doc! { "$inc": { "text": 1 } }).run(), 14, "Cannot apply $inc");
    refused(served.things.update_one(doc! {}, doc! { "$set": { "_id": 2 } }).run(), 66, "_id");
    assert_eq!(served.stored(), [doc! { "_id": 1, "text": "a" }]);
    served.stop();
}

#[test]
fn a_transaction_is_refused_before_anything_is_written() {
    let served = Served::start();
    // The driver adds its session.
    let insert = doc! {
        "insert": "things", "documents": [{ "_id": 1 }],
        "txnNumber": 1_i64, "startTransaction": true, "autocommit": false,
    };
    // The driver has words of its own for this number.
    refused(
        served.client.database("shop").run_command(insert).run(),
        20,
        "does not support retryable writes",
    );
    assert_eq!(served.stored(), [] as [Document; 0]);
    served.stop();
}
