//! Validators: which documents a collection accepts, what is said about the others, and which writes are not checked.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{
    AutoIncrement, CancellationToken, Client, Collection, Error, ErrorKind, InsertManyError, InsertOneModel,
    Namespace, UpdateOneModel, ValidationAction, ValidationLevel, WriteFailure, WriteModel,
};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::Scratch;

use crate::{Fixture, all, refused};

const INVALID: i32 = 121;

/// A database with a collection whose documents need a positive `n`.
fn fixture() -> (Fixture, Collection<Document>) {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    app.create_collection("checked").validator(positive()).run().expect("made");
    let checked = app.collection("checked");
    (fixture, checked)
}

fn positive() -> Document {
    doc! { "n": { "$gt": 0 } }
}

#[track_caller]
fn refuse<T: std::fmt::Debug>(result: Result<T, Error>) -> Document {
    let error = refused(result, INVALID, "Document failed validation");
    let details = if let ErrorKind::Write(WriteFailure::WriteError(error)) = error.kind() {
        error.details.clone()
    } else if let ErrorKind::Command(error) = error.kind() {
        error.details.clone()
    } else {
        panic!("{error:?}")
    };
    details.expect("details")
}

fn told(id: impl Into<Bson>, n: i32) -> Document {
    let rule = doc! {
        "operatorName": "$gt", "specifiedAs": positive(), "reason": "comparison failed", "consideredValue": n,
    };
    doc! { "failingDocumentId": id, "details": rule }
}

fn modify(client: &Client, command: Document) -> Result<Document, Error> {
    client.database("app").run_command(command).run()
}

/// The options that `listCollections` returns for a collection.
#[track_caller]
fn options(client: &Client, name: &str) -> Document {
    let list = doc! { "listCollections": 1, "filter": { "name": name } };
    let reply = client.database("app").run_command(list).run().expect("listed");
    let batch =
        reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let found = batch.first().and_then(Bson::as_document).expect("the collection");
    found.get_document("options").expect("options").clone()
}

#[test]
fn every_write_of_an_invalid_document_is_refused() {
    let (fixture, checked) = fixture();
    checked.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("valid");
    assert_eq!(refuse(checked.insert_one(doc! { "_id": 2, "n": -1 }).run()), told(2, -1));
    let below = doc! { "$set": { "n": -5 } };
    assert_eq!(refuse(checked.update_one(doc! { "_id": 1 }, below.clone()).run()), told(1, -5));
    assert_eq!(refuse(checked.update_many(doc! {}, below.clone()).run()), told(1, -5));
    assert_eq!(refuse(checked.replace_one(doc! { "_id": 1 }, doc! { "n": -6 }).run()), told(1, -6));
    assert_eq!(refuse(checked.find_one_and_update(doc! { "_id": 1 }, below.clone()).run()), told(1, -5));
    assert_eq!(refuse(checked.find_one_and_replace(doc! { "_id": 1 }, doc! { "n": -6 }).run()), told(1, -6));
    assert_eq!(refuse(checked.update_one(doc! { "_id": 7 }, below.clone()).upsert(true).run()), told(7, -5));
    let upsert = checked.find_one_and_update(doc! { "_id": 7 }, below).upsert(true);
    assert_eq!(refuse(upsert.run()), told(7, -5));
    let pipeline = vec![doc! { "$set": { "n": { "$subtract": ["$n", 9] } } }];
    assert_eq!(refuse(checked.update_one(doc! { "_id": 1 }, pipeline).run()), told(1, -8));
    assert_eq!(all(&checked), [doc! { "_id": 1, "n": 1 }]);
    checked.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 2 } }).run().expect("valid");
    checked.delete_one(doc! { "_id": 1 }).run().expect("a delete is not checked");
    fixture.verify_clean();
}

#[test]
fn refused_documents_of_a_batch_are_told_by_position() {
    let (fixture, checked) = fixture();
    let documents = || [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": -1 }, doc! { "_id": 3, "n": 3 }];
    let positions = |error: &Error| {
        let ErrorKind::InsertMany(InsertManyError { write_errors, .. }) = error.kind() else {
            panic!("{error}")
        };
        let errors = write_errors.as_ref().expect("errors");
        errors.iter().map(|error| (error.index, error.code, error.details.clone())).collect::<Vec<_>>()
    };
    let error = checked.insert_many(documents()).run().expect_err("one is invalid");
    assert_eq!(positions(&error), [(1, INVALID, Some(told(2, -1)))]);
    assert_eq!(all(&checked), documents()[..1]);
    let error =
        checked.insert_many(documents()).ordered(false).run().expect_err("one is invalid, one a duplicate");
    let found: Vec<_> = positions(&error).into_iter().map(|(index, code, _)| (index, code)).collect();
    assert_eq!(found, [(0, 11000), (1, INVALID)]);
    assert_eq!(all(&checked).len(), 2);
    // By a command the details are in `errInfo`.
    let insert = doc! { "insert": "checked", "documents": [{ "_id": 4, "n": -4 }] };
    let reply = modify(&fixture.client, insert).expect("run");
    let error = reply.get_array("writeErrors").expect("errors")[0].as_document().expect("an error").clone();
    assert_eq!(
        (error.get_i32("code").ok(), error.get_document("errInfo").ok()),
        (Some(INVALID), Some(&told(4, -4)))
    );
    let update = doc! { "update": "checked", "updates": [
        { "q": { "_id": 1 }, "u": { "$set": { "n": -1 } } },
        { "q": { "_id": 3 }, "u": { "$set": { "n": 33 } } },
    ], "ordered": false };
    let reply = modify(&fixture.client, update).expect("run");
    assert_eq!(
        (reply.get_i32("nModified").ok(), reply.get_array("writeErrors").expect("errors").len()),
        (Some(1), 1)
    );
    fixture.verify_clean();
}

#[test]
fn a_bulk_write_goes_on_or_stops_at_an_invalid_document() {
    let (fixture, checked) = fixture();
    let namespace = || Namespace::new("app", "checked");
    let insert = |id: i32, n: i32| -> WriteModel {
        InsertOneModel::builder().namespace(namespace()).document(doc! { "_id": id, "n": n }).build().into()
    };
    let update = |id: i32, n: i32| -> WriteModel {
        let update = doc! { "$set": { "n": n } };
        UpdateOneModel::builder()
            .namespace(namespace())
            .filter(doc! { "_id": id })
            .update(update)
            .build()
            .into()
    };
    let models = || vec![insert(1, 1), update(1, -1), insert(2, -2), insert(3, 3)];
    let errors = |error: &Error| {
        let ErrorKind::BulkWrite(error) = error.kind() else { panic!("{error}") };
        let mut found: Vec<_> = error.write_errors.iter().map(|(at, error)| (*at, error.code)).collect();
        found.sort_unstable();
        found
    };
    let error = fixture.client.bulk_write(models()).run().expect_err("two are invalid");
    assert_eq!(errors(&error), [(1, INVALID)]);
    assert_eq!(all(&checked), [doc! { "_id": 1, "n": 1 }]);
    let rest = vec![update(1, -1), insert(2, -2), insert(3, 3)];
    let error = fixture.client.bulk_write(rest).ordered(false).run().expect_err("two are invalid");
    assert_eq!(errors(&error), [(0, INVALID), (1, INVALID)]);
    assert_eq!(all(&checked).len(), 2);
    fixture.client.bulk_write([update(1, -1)]).bypass_document_validation(true).run().expect("bypassed");
    assert_eq!(all(&checked)[0], doc! { "_id": 1, "n": -1 });
}

#[test]
fn a_write_that_bypasses_validation_stores_anything() {
    let (fixture, checked) = fixture();
    let bad = |id: i32| doc! { "_id": id, "n": -1 };
    checked.insert_one(bad(1)).bypass_document_validation(true).run().expect("stored");
    checked.insert_many([bad(2), bad(3)]).bypass_document_validation(true).run().expect("stored");
    let update = doc! { "$inc": { "n": -1 } };
    checked
        .update_one(doc! { "_id": 1 }, update.clone())
        .bypass_document_validation(true)
        .run()
        .expect("done");
    checked.update_many(doc! {}, update.clone()).bypass_document_validation(true).run().expect("done");
    checked.replace_one(doc! { "_id": 2 }, bad(2)).bypass_document_validation(true).run().expect("done");
    let upsert = checked.update_one(doc! { "_id": 4 }, update.clone()).upsert(true);
    upsert.bypass_document_validation(true).run().expect("done");
    checked
        .find_one_and_update(doc! { "_id": 3 }, update.clone())
        .bypass_document_validation(true)
        .run()
        .expect("done");
    checked
        .find_one_and_replace(doc! { "_id": 3 }, bad(3))
        .bypass_document_validation(true)
        .run()
        .expect("done");
    for command in [
        doc! { "insert": "checked", "documents": [bad(5)] },
        doc! { "update": "checked", "updates": [{ "q": { "_id": 5 }, "u": update.clone() }] },
        doc! { "findAndModify": "checked", "query": { "_id": 5 }, "update": update },
    ] {
        let mut bypassing = command.clone();
        bypassing.insert("bypassDocumentValidation", true);
        let reply = modify(&fixture.client, bypassing).expect("run");
        assert!(!reply.contains_key("writeErrors"), "{reply}");
    }
    assert_eq!(all(&checked).len(), 5);
    refuse(checked.insert_one(bad(9)).run());
    fixture.verify_clean();
}

#[test]
fn documents_are_checked_as_they_are_stored() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let schema = doc! { "$jsonSchema": {
        "required": ["_id", "number", "at"],
        "properties": { "_id": { "bsonType": "objectId" }, "number": { "minimum": 2 } },
    } };
    let number = AutoIncrement::builder().field("number").build();
    app.create_collection("numbered").auto_increment(number).validator(schema).run().expect("made");
    let numbered = app.collection::<Document>("numbered");
    // The first value is rejected, the second one stored: the `_id` and the number are made by the engine.
    let now = DateTime::now();
    let details = refuse(numbered.insert_one(doc! { "at": now }).run());
    assert!(details.get_object_id("failingDocumentId").is_ok(), "{details}");
    let stored = numbered.insert_one(doc! { "at": now }).run().expect("valid");
    assert_eq!(stored.generated.get("number"), Some(2));
    refuse(numbered.insert_one(doc! { "_id": 1, "at": now }).run());
    fixture.verify_clean();
}

#[test]
fn expressions_see_the_clock_and_the_whole_document() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let ordered = doc! { "$expr": { "$and": [{ "$lt": ["$low", "$high"] }, { "$lte": ["$at", "$$NOW"] }] } };
    app.create_collection("checked").validator(ordered).run().expect("made");
    let checked = app.collection::<Document>("checked");
    let past = DateTime::from_millis(1);
    checked.insert_one(doc! { "low": 1, "high": 2, "at": past }).run().expect("valid");
    checked.insert_one(doc! { "low": 1, "high": 2, "at": DateTime::now() }).run().expect("valid");
    let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    refuse(checked.insert_one(doc! { "low": 1, "high": 2, "at": later }).run());
    refuse(checked.insert_one(doc! { "low": 3, "high": 2, "at": past }).run());
    // One that fails for a document does not accept it, and says why.
    modify(
        &fixture.client,
        doc! { "collMod": "checked", "validator": { "$expr": { "$divide": [1, "$n"] } } },
    )
    .expect("changed");
    let details = refuse(checked.insert_one(doc! { "n": 0 }).run());
    let reason = details.get_document("details").expect("details").get_str("reason").ok();
    assert_eq!(reason, Some("failed to evaluate aggregation expression"));
}

#[test]
fn a_moderate_level_lets_invalid_documents_change() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let things = app.collection::<Document>("checked");
    things.insert_many([doc! { "_id": 1, "n": -1 }, doc! { "_id": 2, "n": 1 }]).run().expect("stored");
    app.modify_collection("checked").validator(positive()).run().expect("changed");
    let decrease = |id: i32| things.update_one(doc! { "_id": id }, doc! { "$inc": { "n": -3 } });
    refuse(decrease(1).run());
    app.modify_collection("checked").validation_level(ValidationLevel::Moderate).run().expect("changed");
    decrease(1).run().expect("it was invalid before");
    refuse(decrease(2).run());
    refuse(things.insert_one(doc! { "_id": 3, "n": -1 }).run());
    refuse(things.update_one(doc! { "_id": 3 }, doc! { "$set": { "n": -1 } }).upsert(true).run());
    app.modify_collection("checked").validation_level(ValidationLevel::Off).run().expect("changed");
    decrease(2).run().expect("nothing is checked");
    let expected = doc! { "validator": positive(), "validationLevel": "off" };
    assert_eq!(options(&fixture.client, "checked"), expected);
}

#[test]
fn a_warning_stores_the_document() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let create = app.create_collection("checked").validator(positive());
    create.validation_action(ValidationAction::Warn).run().expect("made");
    let checked = app.collection::<Document>("checked");
    checked.insert_one(doc! { "_id": 1, "n": -1 }).run().expect("stored");
    checked.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": -1 } }).run().expect("changed");
    app.modify_collection("checked").validation_action(ValidationAction::ErrorAndLog).run().expect("changed");
    refuse(checked.insert_one(doc! { "_id": 2, "n": -1 }).run());
    assert_eq!(all(&checked), [doc! { "_id": 1, "n": -2 }]);
}

#[test]
fn validators_are_listed_compared_and_taken_away() {
    let (fixture, checked) = fixture();
    let app = fixture.client.database("app");
    assert_eq!(options(&fixture.client, "checked"), doc! { "validator": positive() });
    app.create_collection("checked").validator(positive()).run().expect("declared alike");
    refused(app.create_collection("checked").run(), 48, "different options");
    let moderate =
        app.create_collection("checked").validator(positive()).validation_level(ValidationLevel::Moderate);
    refused(moderate.run(), 48, "different options");
    let change = doc! { "collMod": "checked", "validationLevel": "moderate", "validationAction": "warn" };
    modify(&fixture.client, change).expect("changed");
    let expected =
        doc! { "validator": positive(), "validationLevel": "moderate", "validationAction": "warn" };
    assert_eq!(options(&fixture.client, "checked"), expected);
    modify(&fixture.client, doc! { "collMod": "checked", "validator": {} }).expect("taken away");
    checked.insert_one(doc! { "n": -1 }).run().expect("nothing is checked");
    assert!(!options(&fixture.client, "checked").contains_key("validator"));
    fixture.verify_clean();
}

#[test]
fn what_cannot_be_a_validator_is_refused_and_changes_nothing() {
    let (fixture, checked) = fixture();
    let bad = [
        (doc! { "n": { "$above": 1 } }, 2),
        (doc! { "$where": "true" }, 238),
        (doc! { "$text": { "$search": "x" } }, 238),
        (doc! { "n": { "$near": [0, 0] } }, 238),
        (doc! { "$expr": { "$function": { "body": "", "args": [], "lang": "js" } } }, 238),
        (doc! { "$expr": "$$unknown" }, 17276),
        (doc! { "$jsonSchema": { "bsonType": 5 } }, 14),
    ];
    for (validator, code) in bad {
        let command = doc! { "collMod": "checked", "validator": validator.clone() };
        refused(modify(&fixture.client, command), code, "");
        let create = doc! { "create": "other", "validator": validator };
        refused(modify(&fixture.client, create), code, "");
    }
    for db in ["admin", "local", "config"] {
        let database = fixture.client.database(db);
        refused(database.create_collection("c").validator(positive()).run(), 72, "not allowed");
        let names = database.list_collection_names().run().expect("listed");
        assert!(names.is_empty(), "{names:?}");
    }
    let app = fixture.client.database("app");
    assert_eq!(app.list_collection_names().run().expect("listed"), ["checked"]);
    refused(modify(&fixture.client, doc! { "collMod": "none", "validator": {} }), 26, "");
    refused(modify(&fixture.client, doc! { "collMod": "checked", "validationLevel": "high" }), 2, "");
    refuse(checked.insert_one(doc! { "n": -1 }).run());
    // Nested more deeply than the catalog can store it: it would be rejected by the next open.
    let deep = (0..170).fold(doc! { "a": 1 }, |inner, _| doc! { "a": inner });
    let change = app.modify_collection("checked").validator(doc! { "n": { "$ne": deep } });
    if let Err(error) = change.run() {
        assert!(error.to_string().contains("cannot be stored"), "{error}");
    }
    fixture.verify_clean();
}

#[test]
fn a_validator_is_there_after_an_open_a_rename_and_a_kill() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let app = client.database("app");
    app.create_collection("checked").validator(positive()).run().expect("made");
    let checked = app.collection::<Document>("checked");
    checked.insert_one(doc! { "_id": 1, "n": 1, "tags": ["a"] }).run().expect("stored");
    let index = cairndb::IndexModel::builder().keys(doc! { "tags": 1 }).build();
    checked.create_index(index).run().expect("made");
    checked.rename("renamed").run().expect("renamed");
    let killed = scratch.killed();
    client.close().expect("closed");
    for scratch in [&scratch, &killed] {
        for _ in 0..2 {
            let client = scratch.open();
            let renamed = client.database("app").collection::<Document>("renamed");
            refuse(renamed.insert_one(doc! { "n": -1 }).run());
            assert_eq!(renamed.find(doc! { "tags": "a" }).run().expect("a cursor").count(), 1);
            assert_eq!(options(&client, "renamed"), doc! { "validator": positive() });
            crate::verify_clean(&client);
            client.close().expect("closed");
        }
    }
    // A collection that is rescued from a damaged folder has its validator too.
    let new = Scratch::new();
    let report = cairndb::salvage(scratch.path(), new.path()).run().expect("salvaged");
    assert!(report.is_complete(), "{report:?}");
    let client = new.open();
    let renamed = client.database("app").collection::<Document>("renamed");
    refuse(renamed.insert_one(doc! { "n": -1 }).run());
    assert_eq!(renamed.list_index_names().run().expect("listed"), ["_id_", "tags_1"]);
}

/// A bypass changes how a write numbers documents. The catalog entry, which is written again when the first array
/// comes to an index, must not keep that.
#[test]
fn a_bypass_with_the_first_array_leaves_the_declared_fields() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let app = client.database("app");
    let number = AutoIncrement::builder().field("number").generated(cairndb::Generated::Always).build();
    app.create_collection("checked").auto_increment(number).validator(positive()).run().expect("made");
    let checked = app.collection::<Document>("checked");
    let index = cairndb::IndexModel::builder().keys(doc! { "tags": 1 }).build();
    checked.create_index(index).run().expect("made");
    let restored = doc! { "_id": 1, "number": 100, "tags": ["a", "b"] };
    checked.insert_one(restored).bypass_document_validation(true).run().expect("stored");
    crate::verify_clean(&client);
    let before = checked.auto_increments().run().expect("listed");
    client.close().expect("closed");
    let client = scratch.open();
    let checked = client.database("app").collection::<Document>("checked");
    assert_eq!(checked.auto_increments().run().expect("listed"), before);
    refuse(checked.insert_one(doc! { "n": -1 }).run());
}

/// Writes documents of both kinds until it is over. What is rejected is rejected for its rule.
fn write_both_kinds(checked: &Collection<Document>, writer: usize, is_over: &AtomicBool) {
    let mut at = 0;
    while !is_over.load(Ordering::Relaxed) {
        at += 1;
        let sign = if at % 2 == 0 { 1 } else { -1 };
        let id = format!("{writer}-{at}");
        let written = match at % 3 {
            0 => checked.insert_one(doc! { "_id": &id, "n": sign }).run().map(drop),
            1 => {
                let both = [doc! { "_id": &id, "n": sign }, doc! { "n": -sign }];
                checked.insert_many(both).ordered(false).run().map(drop)
            }
            _ => {
                let set = doc! { "$set": { "n": sign } };
                checked.update_one(doc! { "_id": &id }, set).upsert(true).run().map(drop)
            }
        };
        if let Err(error) = written {
            assert_eq!(error.code(), Some(INVALID), "{error}");
        }
    }
}

/// While seven threads write documents of both kinds, the rule is changed again and again. Whatever was stored after a
/// change is valid by it.
#[test]
fn no_invalid_document_is_stored_after_its_rule_is_changed() {
    const WRITERS: usize = 7;
    const ROUNDS: usize = 30;
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    app.create_collection("checked").run().expect("made");
    let (barrier, is_over) = (Barrier::new(WRITERS + 1), AtomicBool::new(false));
    let invalid = thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        for writer in 0..WRITERS {
            let checked = app.collection::<Document>("checked");
            let (barrier, is_over) = (&barrier, &is_over);
            scope.spawn(move || {
                barrier.wait();
                write_both_kinds(&checked, writer, is_over);
            });
        }
        barrier.wait();
        let checked = app.collection::<Document>("checked");
        let mut invalid = Vec::new();
        for round in 0..ROUNDS {
            let (sign, other) = if round % 2 == 0 { ("$gt", "$lt") } else { ("$lt", "$gt") };
            app.modify_collection("checked").validator(doc! { "n": { sign: 0 } }).run().expect("changed");
            checked.delete_many(doc! { "n": { other: 0 } }).run().expect("deleted");
            invalid.push(checked.count_documents(doc! { "n": { other: 0 } }).run().expect("counted"));
        }
        is_over.store(true, Ordering::Relaxed);
        invalid
    });
    assert_eq!(invalid, [0; ROUNDS]);
    fixture.verify_clean();
}

/// Details repeat the validator for each document. A batch of them must not use a multiple of the validator.
#[test]
fn the_details_of_a_large_batch_are_bounded() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let values: Vec<String> = (0..600).map(|at| format!("{at:01000}")).collect();
    let validator =
        doc! { "$jsonSchema": { "required": ["kind"], "properties": { "kind": { "enum": values } } } };
    app.create_collection("checked").validator(validator).run().expect("made");
    let checked = app.collection::<Document>("checked");
    let documents = (0..1_000).map(|at| doc! { "_id": at, "kind": "none" });
    let error = checked.insert_many(documents).ordered(false).run().expect_err("all are invalid");
    let ErrorKind::InsertMany(InsertManyError { write_errors: Some(errors), .. }) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(errors.len(), 1_000);
    let bytes =
        |details: &Option<Document>| details.as_ref().map_or(0, |told| told.to_vec().expect("bytes").len());
    let total: usize = errors.iter().map(|error| bytes(&error.details)).sum();
    assert!(total < 6 << 20, "{total}");
    assert!(bytes(&errors[0].details) > 600_000, "the first one is told whole");
    let last = errors[999].details.clone().expect("an _id and a note");
    assert_eq!(last.get_i32("failingDocumentId").ok(), Some(999));
    // The same by a command, statement by statement.
    let updates: Vec<Document> = (0..20)
        .map(|at| doc! { "q": { "_id": at }, "u": { "$set": { "kind": "none" } }, "upsert": true })
        .collect();
    let update = doc! { "update": "checked", "updates": updates, "ordered": false };
    let reply = modify(&fixture.client, update).expect("run");
    assert_eq!(reply.get_array("writeErrors").expect("errors").len(), 20);
    assert!(reply.to_vec().expect("bytes").len() < 6 << 20);
}

#[test]
fn a_slow_validator_ends_with_its_operation() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let sum = doc! { "$reduce": { "input": { "$range": [0, 50_000_000] }, "initialValue": 0,
    "in": { "$add": ["$$value", "$$this"] } } };
    app.create_collection("slow").validator(doc! { "$expr": { "$eq": [sum, "$n"] } }).run().expect("made");
    let token = CancellationToken::new();
    let slow = app.collection::<Document>("slow").with_cancellation(&token);
    let limited = slow.insert_one(doc! { "n": 1 }).max_time(std::time::Duration::from_millis(20)).run();
    let code = limited.expect_err("ended").code();
    // The range alone uses more memory than an operation may have; which of the two is met first is a matter of speed.
    assert!(matches!(code, Some(50 | INVALID)), "{code:?}");
    token.cancel();
    refused(slow.insert_many([doc! { "n": 1 }, doc! { "n": 2 }]).run(), 11_601, "");
    assert_eq!(all(&app.collection("slow")), Vec::<Document>::new());
}

#[test]
fn a_refused_document_takes_no_number_of_a_gapless_sequence() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let number = AutoIncrement::builder().field("number").contract(cairndb::Contract::Gapless).build();
    app.create_collection("checked").auto_increment(number).validator(positive()).run().expect("made");
    let checked = app.collection::<Document>("checked");
    checked.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("valid");
    refuse(checked.insert_one(doc! { "_id": 2, "n": -1 }).run());
    let documents = [1, -1, 2, -1, 3].into_iter().enumerate();
    let documents = documents.map(|(at, n)| doc! { "_id": 10 + i32::try_from(at).expect("small"), "n": n });
    checked.insert_many(documents).ordered(false).run().expect_err("two are invalid");
    let mut numbers = checked.distinct("number", doc! {}).run().expect("read");
    numbers.sort_by_key(|number| number.as_i64().or(number.as_i32().map(i64::from)));
    let numbers: Vec<_> =
        numbers.iter().map(|number| number.as_i64().or(number.as_i32().map(i64::from))).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3), Some(4)]);
    fixture.verify_clean();
}

/// An insert has no limits of its own. Its validator has those of every operation.
#[test]
fn an_expression_of_a_validator_takes_no_more_memory_than_an_operation_may() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let twice = doc! { "$concat": ["$text", "$text"] };
    // Each of them uses fourteen megabytes.
    let held: Document = (0..40).map(|at| (format!("v{at}"), Bson::from(twice.clone()))).collect();
    let many = doc! { "$expr": { "$let": { "vars": held, "in": { "$eq": ["$$v0", "$$v1"] } } } };
    app.create_collection("heavy").validator(many).run().expect("made");
    let heavy = app.collection::<Document>("heavy");
    let text = "x".repeat(7_000_000);
    refused(heavy.insert_one(doc! { "_id": 1, "text": &text }).run(), 146, "");
    refused(heavy.insert_many([doc! { "_id": 1, "text": text }, doc! { "_id": 2 }]).run(), 146, "");
    assert_eq!(all(&heavy), Vec::<Document>::new());
}
