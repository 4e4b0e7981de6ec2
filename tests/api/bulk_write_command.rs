//! The command `bulkWrite`: operations on several collections, what becomes of each, and what is rejected before the first is run.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, RetryableWrite};
use cairndb_tests::scratch::Scratch;

/// Runs operations on `app.a` and `app.b`.
fn bulk(client: &Client, ops: impl Into<Bson>, options: Document) -> cairndb::Result<Document> {
    client.database("admin").run_command(command(ops, options)).run()
}

fn command(ops: impl Into<Bson>, options: Document) -> Document {
    let mut command =
        doc! { "bulkWrite": 1, "ops": ops.into(), "nsInfo": [{ "ns": "app.a" }, { "ns": "app.b" }] };
    command.extend(options);
    command
}

fn store() -> (Scratch, Client) {
    let scratch = Scratch::new();
    let client = scratch.open();
    let a = client.database("app").collection::<Document>("a");
    a.insert_many((1..4).map(|id| doc! { "_id": id, "n": 0 })).run().expect("stored");
    (scratch, client)
}

fn results(reply: &Document) -> Vec<Document> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.expect("a batch").iter().filter_map(Bson::as_document).cloned().collect()
}

/// The results: the position, the code of an error or 0, `n`, and `nModified` where there is one.
fn shown(reply: &Document) -> Vec<(i32, i32, i32, Option<i32>)> {
    let number = |result: &Document, field: &str| result.get_i32(field).ok();
    let shown = |result: &Document| {
        let code = number(result, "code").unwrap_or_default();
        assert_eq!(result.get_f64("ok").ok(), Some(if code == 0 { 1.0 } else { 0.0 }), "{result}");
        (
            number(result, "idx").expect("a position"),
            code,
            number(result, "n").expect("a count"),
            number(result, "nModified"),
        )
    };
    results(reply).iter().map(shown).collect()
}

/// The sums: errors, and documents that were inserted, matched, modified, upserted and deleted.
fn sums(reply: &Document) -> [i32; 6] {
    ["nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"]
        .map(|field| reply.get_i32(field).unwrap_or_else(|_| panic!("{field} in {reply}")))
}

fn count(client: &Client, collection: &str) -> u64 {
    client.database("app").collection::<Document>(collection).count_documents(doc! {}).run().expect("counted")
}

fn all_kinds() -> Bson {
    Bson::from(vec![
        doc! { "insert": 1, "document": { "_id": 7 } },
        doc! { "insert": 0, "document": { "_id": 8 } },
        doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$inc": { "n": 1 } } },
        doc! { "update": 0, "filter": { "n": 0 }, "updateMods": { "$set": { "m": 1 } }, "multi": true },
        doc! { "update": 1, "filter": { "_id": 9 }, "updateMods": { "x": 1 }, "upsert": true },
        doc! { "update": 1, "filter": { "_id": 7 }, "updateMods": [{ "$set": { "k": "$$c" } }], "constants": { "c": 5 } },
        doc! { "delete": 1, "filter": { "_id": 7 } },
        doc! { "delete": 0, "filter": { "_id": { "$gte": 2 } }, "multi": true },
    ])
}

#[test]
fn operations_on_several_collections_are_run_in_order() {
    let (_scratch, client) = store();
    let reply = bulk(&client, all_kinds(), doc! {}).expect("done");
    assert_eq!(sums(&reply), [0, 2, 4, 4, 1, 4]);
    let expected = [
        (0, 0, 1, None),
        (1, 0, 1, None),
        (2, 0, 1, Some(1)),
        (3, 0, 2, Some(2)),
        (4, 0, 1, Some(0)),
        (5, 0, 1, Some(1)),
        (6, 0, 1, None),
        (7, 0, 3, None),
    ];
    assert_eq!(shown(&reply), expected);
    assert_eq!(results(&reply)[4].get_document("upserted").ok(), Some(&doc! { "_id": 9 }));
    let cursor = reply.get_document("cursor").expect("a cursor");
    assert_eq!(
        (cursor.get_i64("id").ok(), cursor.get_str("ns").ok()),
        (Some(0), Some("admin.$cmd.bulkWrite"))
    );
    assert_eq!((count(&client, "a"), count(&client, "b")), (1, 1));
    let brief = bulk(&client, all_kinds(), doc! { "errorsOnly": true }).expect("done");
    assert!(results(&brief).is_empty() && sums(&brief)[0] == 0, "{brief}");
}

#[test]
fn an_ordered_command_ends_at_the_first_refusal_and_another_goes_on() {
    let ops = || {
        vec![
            doc! { "insert": 0, "document": { "_id": 10 } },
            doc! { "insert": 0, "document": { "_id": 1 } },
            doc! { "insert": 0, "document": { "_id": 11 } },
            doc! { "update": 0, "filter": { "_id": 2 }, "updateMods": { "$set": { "_id": 5 } } },
            doc! { "delete": 0, "filter": { "$wrong": 1 } },
            doc! { "update": 0, "filter": { "_id": 2 }, "updateMods": { "$set": { "n": 5 } } },
        ]
    };
    let (_scratch, client) = store();
    let reply = bulk(&client, ops(), doc! {}).expect("done");
    assert_eq!(shown(&reply), [(0, 0, 1, None), (1, 11000, 0, None)]);
    assert_eq!(sums(&reply), [1, 1, 0, 0, 0, 0]);
    let error = &results(&reply)[1];
    assert_eq!(error.get_document("keyPattern").ok(), Some(&doc! { "_id": 1 }), "{error}");
    assert!(
        error.get_str("errmsg").is_ok_and(|text| text.starts_with("E11000")) && !error.contains_key("index")
    );
    let (_scratch, client) = store();
    let reply = bulk(&client, ops(), doc! { "ordered": false }).expect("done");
    let expected = [
        (0, 0, 1, None),
        (1, 11000, 0, None),
        (2, 0, 1, None),
        (3, 66, 0, Some(0)),
        (4, 2, 0, None),
        (5, 0, 1, Some(1)),
    ];
    assert_eq!(shown(&reply), expected);
    assert_eq!(sums(&reply), [3, 2, 1, 1, 0, 0]);
    let (_scratch, client) = store();
    let brief = bulk(&client, ops(), doc! { "ordered": false, "errorsOnly": true }).expect("done");
    assert_eq!(shown(&brief).iter().map(|(position, ..)| *position).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(sums(&brief), [3, 2, 1, 1, 0, 0]);
}

#[track_caller]
fn refused(client: &Client, command: Document, code: i32) {
    let error = client.database("admin").run_command(command.clone()).run().expect_err("it is refused");
    assert_eq!(error.code(), Some(code), "{command}: {error}");
    assert_eq!(count(client, "a"), 3, "{command}");
}

#[test]
fn a_wrong_operation_anywhere_leaves_nothing_written() {
    let (_scratch, client) = store();
    let good = || doc! { "insert": 0, "document": { "_id": 100 } };
    for (wrong, code) in [
        (doc! { "insert": 2, "document": {} }, 2),
        (doc! { "insert": -1, "document": {} }, 51_024),
        (doc! { "insert": "a", "document": {} }, 14),
        (doc! { "insert": 0.5, "document": {} }, 2),
        (doc! { "insert": 0, "document": 1 }, 14),
        (doc! { "insert": 0 }, 40_414),
        (doc! { "insert": 0, "document": {}, "x": 1 }, 40_415),
        (doc! { "document": {}, "insert": 0 }, 40_415),
        (doc! { "replace": 0, "document": {} }, 40_415),
        (doc! {}, 40_415),
        (doc! { "update": 0, "filter": {} }, 40_414),
        (doc! { "update": 0, "updateMods": {} }, 40_414),
        (doc! { "update": 0, "filter": {}, "updateMods": 1 }, 14),
        (doc! { "update": 0, "filter": {}, "updateMods": {}, "multi": 1 }, 14),
        (doc! { "update": 0, "filter": {}, "updateMods": {}, "arrayFilters": [1] }, 14),
        (doc! { "update": 0, "filter": {}, "updateMods": {}, "upsertSupplied": true }, 238),
        (doc! { "delete": 0, "filter": {}, "hint": 1 }, 14),
        (doc! { "delete": 0, "filter": {}, "limit": 1 }, 40_415),
    ] {
        refused(&client, command(vec![good(), wrong], doc! {}), code);
    }
    let none: Vec<Bson> = Vec::new();
    refused(&client, command(none, doc! {}), 16);
    refused(&client, command("ops", doc! {}), 14);
    refused(&client, command(vec![good()], doc! { "x": 1 }), 40_415);
    refused(&client, command(vec![good()], doc! { "cursor": { "batchSize": -1 } }), 51_024);
    refused(&client, command(vec![good()], doc! { "cursor": { "x": 1 } }), 40_415);
    refused(&client, doc! { "bulkWrite": 1, "nsInfo": [{ "ns": "app.a" }] }, 40_414);
    refused(&client, doc! { "bulkWrite": 1, "ops": [good()] }, 40_414);
    for (entry, code) in [
        (doc! {}, 40_414),
        (doc! { "ns": 1 }, 14),
        (doc! { "ns": "app" }, 73),
        (doc! { "ns": ".a" }, 73),
        (doc! { "ns": "app." }, 73),
        (doc! { "ns": "admin.system.users" }, 73),
        (doc! { "ns": "app.a", "x": 1 }, 40_415),
        (doc! { "ns": "app.a", "encryptionInformation": {} }, 238),
    ] {
        refused(&client, doc! { "bulkWrite": 1, "ops": [good()], "nsInfo": [entry] }, code);
    }
    refused(&client, doc! { "bulkWrite": 1, "ops": [good()], "nsInfo": [] }, 2);
    let elsewhere = client.database("app").run_command(command(vec![good()], doc! {})).run();
    assert_eq!(elsewhere.expect_err("of another database").code(), Some(13));
}

#[test]
fn a_collection_that_takes_no_documents_refuses_each() {
    let (_scratch, client) = store();
    client.database("app").run_command(doc! { "create": "b", "viewOn": "a" }).run().expect("made");
    let ops = vec![
        doc! { "insert": 1, "document": { "_id": 1 } },
        doc! { "insert": 1, "document": { "_id": 2 } },
        doc! { "insert": 0, "document": { "_id": 7 } },
    ];
    let reply = bulk(&client, ops.clone(), doc! { "ordered": false }).expect("done");
    assert_eq!(shown(&reply), [(0, 166, 0, None), (1, 166, 0, None), (2, 0, 1, None)]);
    let reply = bulk(&client, ops, doc! {}).expect("done");
    assert_eq!(shown(&reply), [(0, 166, 0, None)]);
}

#[test]
fn validators_and_variables_hold_as_in_single_writes() {
    let (_scratch, client) = store();
    let validator = doc! { "create": "b", "validator": { "n": { "$type": "int" } } };
    client.database("app").run_command(validator).run().expect("made");
    let wrong = || vec![doc! { "insert": 1, "document": { "_id": 1, "n": "x" } }];
    let reply = bulk(&client, wrong(), doc! {}).expect("done");
    assert_eq!(shown(&reply), [(0, 121, 0, None)]);
    assert!(results(&reply)[0].get_document("errInfo").is_ok(), "{reply}");
    let reply = bulk(&client, wrong(), doc! { "bypassDocumentValidation": true }).expect("done");
    assert_eq!(shown(&reply), [(0, 0, 1, None)]);
    let filter = doc! { "$expr": { "$eq": ["$_id", "$$wanted"] } };
    let ops = vec![
        doc! { "update": 0, "filter": filter.clone(), "updateMods": { "$set": { "n": 7 } } },
        doc! { "delete": 0, "filter": filter },
    ];
    let reply = bulk(&client, ops, doc! { "let": { "wanted": 2 } }).expect("done");
    assert_eq!(sums(&reply), [0, 0, 1, 1, 0, 1]);
    let sorted =
        doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "last": true } }, "sort": { "_id": -1 } };
    bulk(&client, vec![sorted], doc! {}).expect("done");
    let a = client.database("app").collection::<Document>("a");
    let last = a.find_one(doc! { "last": true }).run().expect("read").expect("there is one");
    assert_eq!(last.get_i32("_id").ok(), Some(3));
}

#[test]
fn many_inserts_are_stored_in_their_order() {
    let (_scratch, client) = store();
    let mut ops: Vec<Document> =
        (0..2500).map(|id| doc! { "insert": 1, "document": { "_id": id } }).collect();
    ops.insert(1200, doc! { "insert": 1, "document": { "_id": 5 } });
    let reply = bulk(&client, ops.clone(), doc! {}).expect("done");
    assert_eq!((sums(&reply), count(&client, "b")), ([1, 1200, 0, 0, 0, 0], 1200));
    assert_eq!(shown(&reply).last(), Some(&(1200, 11000, 0, None)));
    let reply = bulk(&client, ops, doc! { "ordered": false }).expect("done");
    assert_eq!((sums(&reply), count(&client, "b")), ([1201, 1300, 0, 0, 0, 0], 2500));
    let positions: Vec<i32> = shown(&reply).iter().map(|(position, ..)| *position).collect();
    assert_eq!(positions, (0..2501).collect::<Vec<_>>());
}

fn numbered(client: &Client, number: i64, command: Document) -> cairndb::Result<Document> {
    let write = RetryableWrite::new([1; 16], [0; 16], number);
    client.database("admin").run_command(command).retryable(write).run()
}

#[test]
fn a_command_that_is_sent_again_takes_effect_once() {
    let (scratch, client) = store();
    let single = |ops: Bson| {
        let ops = ops.as_array().expect("a list").clone();
        let is_single = |op: &Bson| op.as_document().is_some_and(|op| !op.contains_key("multi"));
        Bson::Array(ops.into_iter().filter(is_single).collect())
    };
    let ops = single(all_kinds());
    let first = numbered(&client, 1, command(ops.clone(), doc! {})).expect("done");
    assert_eq!((sums(&first), first.contains_key("retriedStmtIds")), ([0, 2, 2, 2, 1, 1], false));
    let check = |client: &Client| {
        let mut again = numbered(client, 1, command(ops.clone(), doc! {})).expect("answered");
        let retried = again.remove("retriedStmtIds").expect("they were done before");
        assert_eq!(retried, Bson::from((0..6).collect::<Vec<i32>>()));
        assert_eq!(again, first);
    };
    check(&client);
    client.close().expect("closed");
    let client = scratch.open();
    check(&client);
    let a = client.database("app").collection::<Document>("a");
    assert_eq!(a.count_documents(doc! { "n": 1 }).run().expect("counted"), 1);
    // The part that was rejected is tried again, and is in its place.
    let ops = |id: i32| {
        vec![
            doc! { "insert": 0, "document": { "_id": 20 } },
            doc! { "insert": 0, "document": { "_id": id } },
            doc! { "insert": 0, "document": { "_id": 22 } },
        ]
    };
    let unordered = doc! { "ordered": false };
    let part = numbered(&client, 2, command(ops(1), unordered.clone())).expect("done");
    assert_eq!(shown(&part), [(0, 0, 1, None), (1, 11000, 0, None), (2, 0, 1, None)]);
    let rest = numbered(&client, 2, command(ops(21), unordered)).expect("done");
    assert_eq!(shown(&rest), [(0, 0, 1, None), (1, 0, 1, None), (2, 0, 1, None)]);
    assert_eq!(rest.get_array("retriedStmtIds").ok(), Some(&vec![0.into(), 2.into()]));
    assert!(client.verify().expect("verified").is_clean());
    // Of many documents no answer is kept.
    let many = vec![doc! { "delete": 0, "filter": {}, "multi": true }];
    let reply = numbered(&client, 3, command(many, doc! {})).expect("done");
    assert_eq!(shown(&reply), [(0, 72, 0, None)]);
    let other = doc! { "insert": "a", "documents": [{ "_id": 30 }] };
    let write = RetryableWrite::new([1; 16], [0; 16], 2);
    client.database("app").run_command(other).retryable(write).run().expect("rows of inserts are its own");
    assert!(client.verify().expect("verified").is_clean());
}

#[test]
fn a_token_makes_the_command_a_transaction() {
    let (_scratch, client) = store();
    let token = doc! { "exactlyOnce": "t" };
    let mut failing = all_kinds().as_array().expect("a list").clone();
    failing.push(doc! { "insert": 0, "document": { "_id": 1 } }.into());
    let refused = bulk(&client, failing, token.clone()).expect("answered");
    assert_eq!((sums(&refused), shown(&refused)), ([1, 0, 0, 0, 0, 0], vec![(8, 11000, 0, None)]));
    assert_eq!((count(&client, "a"), count(&client, "b")), (3, 0));
    let first = bulk(&client, all_kinds(), token.clone()).expect("done");
    assert_eq!((sums(&first), first.contains_key("replayed")), ([0, 2, 4, 4, 1, 4], false));
    let mut again = bulk(&client, all_kinds(), token.clone()).expect("answered");
    assert_eq!(again.remove("replayed"), Some(true.into()));
    assert_eq!(again, first);
    assert_eq!((count(&client, "a"), count(&client, "b")), (1, 1));
    let other = bulk(&client, vec![doc! { "insert": 0, "document": {} }], token);
    assert!(other.is_err(), "the token is of another call: {other:?}");
}

#[test]
fn it_is_a_statement_of_a_transaction() {
    let (_scratch, client) = store();
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().run().expect("started");
    let admin = client.database("admin");
    let reply = admin.run_command(command(all_kinds(), doc! {})).session(&mut session).run().expect("done");
    assert_eq!(sums(&reply), [0, 2, 4, 4, 1, 4]);
    assert_eq!((count(&client, "a"), count(&client, "b")), (3, 0));
    session.abort_transaction().run().expect("aborted");
    assert_eq!((count(&client, "a"), count(&client, "b")), (3, 0));
    session.start_transaction().run().expect("started");
    admin.run_command(command(all_kinds(), doc! {})).session(&mut session).run().expect("done");
    session.commit_transaction().run().expect("committed");
    assert_eq!((count(&client, "a"), count(&client, "b")), (1, 1));
    // A rejection ends it, though the command is not ordered.
    session.start_transaction().run().expect("started");
    let ops = vec![
        doc! { "insert": 1, "document": { "_id": 50 } },
        doc! { "insert": 1, "document": { "_id": 50 } },
        doc! { "insert": 1, "document": { "_id": 51 } },
    ];
    let unordered = command(ops, doc! { "ordered": false });
    let reply = admin.run_command(unordered).session(&mut session).run().expect("answered");
    assert_eq!(sums(&reply)[0], 1, "{reply}");
    assert!(session.commit_transaction().run().is_err());
    assert_eq!(count(&client, "b"), 1);
}

#[test]
fn a_limit_of_time_is_for_all_operations() {
    let (_scratch, client) = store();
    let numbers = doc! { "$range": [0, 100_000] };
    let sum = doc! { "$reduce": { "input": numbers, "initialValue": "$n", "in": { "$add": ["$$value", "$$this"] } } };
    let slow = doc! { "$expr": { "$eq": [sum, "none"] } };
    let ops: Vec<Document> = (0..1000).map(|_| doc! { "delete": 0, "filter": slow.clone() }).collect();
    let error = bulk(&client, ops, doc! { "maxTimeMS": 100 }).expect_err("it takes longer");
    assert_eq!(error.code(), Some(50), "{error}");
}
