//! `$lookup` by equality, with an index on the foreign field and without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Database};
use cairndb_tests::race::SetWhenDropped;

fn lookup(local: &str, foreign: &str) -> Document {
    doc! { "$lookup": { "from": "foreign", "localField": local, "foreignField": foreign, "as": "found" } }
}

/// A database with these documents in `local` and `foreign`. Missing `_id`s are the documents' positions.
fn database(client: &Client, local: &[Document], foreign: &[Document]) -> Database {
    let database = client.database("app");
    for (name, documents) in [("local", local), ("foreign", foreign)] {
        let numbered = documents.iter().zip(0..).map(|(document, position)| {
            let mut numbered = doc! { "_id": position };
            numbered.extend(document.clone());
            numbered
        });
        database.collection::<Document>(name).insert_many(numbered).run().expect("documents");
    }
    database
}

/// The `_id`s that each document finds.
fn found(local: &Collection<Document>, stage: &Document) -> Vec<Vec<Bson>> {
    let cursor = local.aggregate([stage.clone(), doc! { "$sort": { "_id": 1 } }]).run().expect("a pipeline");
    let ids = |document: Document| {
        let found = document.get_array("found").expect("an array").iter();
        let id = |found: &Bson| found.as_document().and_then(|found| found.get("_id")).cloned();
        let mut ids: Vec<Bson> = found.map(|found| id(found).expect("an _id")).collect();
        ids.sort_by_key(Bson::as_i32);
        ids
    };
    cursor.map(|document| ids(document.expect("a document"))).collect()
}

/// Checks which foreign documents are found for one local document, by a hash table and by an index.
#[track_caller]
fn check(local: &Document, [local_field, foreign_field]: [&str; 2], foreign: &[Document], expected: &[i32]) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let database = database(&client, std::slice::from_ref(local), foreign);
    let stage = lookup(local_field, foreign_field);
    let expected = vec![expected.iter().map(|id| Bson::Int32(*id)).collect::<Vec<_>>()];
    assert_eq!(found(&database.collection("local"), &stage), expected, "without an index");
    let index = cairndb::IndexModel::builder().keys(doc! { foreign_field: 1 }).build();
    database.collection::<Document>("foreign").create_index(index).run().expect("an index");
    assert_eq!(found(&database.collection("local"), &stage), expected, "with an index");
}

fn numbers() -> Vec<Document> {
    vec![doc! { "b": 1 }, doc! { "b": 1.0 }, doc! { "b": [1, 2] }, doc! { "b": [[1], 2] }, doc! { "b": "1" }]
}

fn nulls() -> Vec<Document> {
    vec![doc! {}, doc! { "b": Bson::Null }, doc! { "b": [Bson::Null, 1] }, doc! { "b": [] }, doc! { "b": 2 }]
}

#[test]
fn a_scalar_finds_values_that_compare_as_equal_and_arrays_with_them() {
    check(&doc! { "a": 1 }, ["a", "b"], &numbers(), &[0, 1, 2]);
}

#[test]
fn an_array_finds_by_its_elements_and_not_as_a_whole() {
    check(&doc! { "a": [2, "1"] }, ["a", "b"], &numbers(), &[2, 3, 4]);
    check(&doc! { "a": [1, 2] }, ["a", "b"], &[doc! { "b": [[1, 2]] }], &[]);
}

#[test]
fn an_array_in_an_array_is_a_value() {
    check(&doc! { "a": [[1]] }, ["a", "b"], &numbers(), &[3]);
    check(&doc! { "a": [[1, 2]] }, ["a", "b"], &numbers(), &[2]);
}

#[test]
fn null_a_missing_field_and_an_empty_array_find_null_and_missing_fields() {
    for local in [doc! { "a": Bson::Null }, doc! {}, doc! { "a": [] }, doc! { "a": [Bson::Null] }] {
        check(&local, ["a", "b"], &nulls(), &[0, 1, 2]);
    }
}

#[test]
fn a_path_goes_through_arrays_on_both_sides() {
    let foreign = [doc! { "b": [{ "y": 3 }, { "y": 4 }] }, doc! { "b": { "y": [5] } }, doc! { "b": 3 }];
    check(&doc! { "a": [{ "x": 4 }, { "x": [5] }] }, ["a.x", "b.y"], &foreign, &[0, 1]);
    // One of the objects has a value, so the missing field of the other asks for nothing.
    check(&doc! { "a": [{}, { "x": 3 }] }, ["a.x", "b.y"], &foreign, &[0]);
}

#[test]
fn a_regular_expression_is_a_value() {
    let pattern = cairndb::bson::Regex {
        pattern: "^x".try_into().expect("no zero byte"),
        options: "".try_into().expect("no zero byte"),
    };
    let foreign = [doc! { "b": "xy" }, doc! { "b": pattern.clone() }];
    check(&doc! { "a": pattern.clone() }, ["a", "b"], &foreign, &[1]);
    check(&doc! { "a": [pattern, 5] }, ["a", "b"], &foreign, &[1]);
}

#[test]
fn the_id_of_the_foreign_collection_needs_no_index() {
    check(&doc! { "a": [2, 0, 9] }, ["a", "_id"], &numbers(), &[0, 2]);
}

#[test]
fn the_array_takes_the_place_of_a_field_and_makes_the_objects_of_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let database = database(&client, &[doc! { "a": 7, "found": "old" }], &[doc! { "b": 7 }]);
    let local = database.collection::<Document>("local");
    let joined = local.aggregate([lookup("a", "b")]).run().expect("a pipeline").next();
    let expected = doc! { "_id": 0, "a": 7, "found": [{ "_id": 0, "b": 7 }] };
    assert_eq!(joined.expect("a document").expect("a document"), expected);
    let inside = doc! { "$lookup": { "from": "none", "localField": "a", "foreignField": "b", "as": "x.y" } };
    let joined = local.aggregate([inside]).run().expect("a pipeline").next();
    let expected = doc! { "_id": 0, "a": 7, "found": "old", "x": { "y": [] } };
    assert_eq!(joined.expect("a document").expect("a document"), expected);
}

/// Checks the code with which a stage is rejected.
#[track_caller]
fn refused(stages: &[Document], code: i32, named: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let database = client.database("admin");
    let opened = database.collection::<Document>("local").aggregate(stages.iter().cloned()).run();
    let error = opened.map(drop).expect_err("a refusal");
    assert_eq!(error.code(), Some(code), "{error}");
    assert!(error.to_string().contains(named), "{error}");
}

#[test]
fn what_is_wrong_or_not_supported_is_named() {
    refused(&[doc! { "$lookup": 1 }], 9, "$lookup");
    refused(&[doc! { "$lookup": { "localField": "a", "foreignField": "b", "as": "c" } }], 9, "from");
    refused(
        &[doc! { "$lookup": { "from": { "db": "x" }, "localField": "a", "foreignField": "b", "as": "c" } }],
        9,
        "from",
    );
    refused(&[doc! { "$lookup": { "from": "x", "let": {}, "as": "c" } }], 9, "foreignField");
    refused(&[doc! { "$lookup": { "pipeline": [], "as": "c" } }], 9, "from");
    refused(&[doc! { "$lookup": { "from": "x", "on": 1, "as": "c" } }], 9, "'on'");
}

#[test]
fn a_collection_that_holds_users_cannot_be_joined() {
    let stage =
        doc! { "$lookup": { "from": "system.users", "localField": "a", "foreignField": "b", "as": "c" } };
    refused(&[stage], 73, "system.users");
}

#[test]
fn documents_that_are_too_large_together_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let large = doc! { "b": 1, "text": "x".repeat(9 << 20) };
    let database = database(&client, &[doc! { "a": 1 }], &[large.clone(), large]);
    let local = database.collection::<Document>("local");
    let first = local.aggregate([lookup("a", "b")]).run().expect("a pipeline").next();
    let error = first.expect("an error").expect_err("more than a document may have");
    assert_eq!(error.code(), Some(4568), "{error}");
}

#[test]
fn a_cross_product_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let same: Vec<Document> = (0..2_000).map(|_| doc! { "a": 1, "b": 1 }).collect();
    let database = database(&client, &same, &same);
    let unwind = doc! { "$unwind": "$found" };
    let again = doc! { "$lookup": { "from": "foreign", "localField": "found.b", "foreignField": "b", "as": "again" } };
    let stages = [lookup("a", "b"), unwind, again, doc! { "$unwind": "$again" }, doc! { "$count": "n" }];
    let local = database.collection::<Document>("local");
    // On a busy machine the time may be over before there is a cursor.
    let cursor = local.aggregate(stages).max_time(Duration::from_millis(300)).run();
    let first = cursor.and_then(|mut cursor| cursor.next().expect("an error"));
    assert_eq!(first.expect_err("too late").code(), Some(50));
}

#[test]
fn a_collection_that_is_replaced_meanwhile_is_read_as_the_old_or_the_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let same: Vec<Document> = (0..20).map(|_| doc! { "b": 1 }).collect();
    let database = database(&client, &[doc! { "a": 1 }], &same);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&is_done);
            for _ in 0..60 {
                let next = database.collection::<Document>("next");
                next.insert_many((0..20).map(|_| doc! { "b": 1 })).run().expect("documents");
                next.rename("foreign").drop_target(true).run().expect("a rename");
            }
        });
        let local = database.collection::<Document>("local");
        while !is_done.load(Ordering::Relaxed) {
            let joined = local.aggregate([lookup("a", "b")]).run().expect("a pipeline").next();
            let joined = joined.expect("a document").expect("a document");
            assert_eq!(joined.get_array("found").expect("an array").len(), 20);
        }
    });
}

#[test]
fn an_explanation_tells_how_the_other_collection_is_read() {
    let client = Client::builder().memory_budget(16 << 20).in_memory(true).open("").expect("made");
    let database = database(&client, &[doc! { "a": 1 }], &[doc! { "b": 1, "c": 2 }]);
    let index = cairndb::IndexModel::builder().keys(doc! { "b": 1 }).build();
    database.collection::<Document>("foreign").create_index(index).run().expect("an index");
    let only = doc! { "$match": { "c": { "$gt": 0 } } };
    database.create_collection("some").view_on("foreign").pipeline([only]).run().expect("a view");
    let grouped = doc! { "$group": { "_id": "$b" } };
    database.create_collection("groups").view_on("foreign").pipeline([grouped]).run().expect("a view");
    let told = |lookup: Document, verbosity: &str| {
        let stages = [doc! { "$lookup": lookup }];
        let aggregate = doc! { "aggregate": "local", "pipeline": stages, "cursor": {} };
        let reply = database.run_command(doc! { "explain": aggregate, "verbosity": verbosity }).run();
        let reply = reply.expect("explained");
        let stage = reply.get_array("stages").expect("stages")[1].as_document().expect("a stage").clone();
        stage.into_iter().filter(|(name, _)| name != "$lookup").collect::<Document>()
    };
    let check = |lookup: Document, expected: Document| {
        assert_eq!(told(lookup.clone(), "queryPlanner"), expected, "{lookup}");
        let executed = told(lookup, "executionStats");
        assert!(expected.iter().all(|(name, value)| executed.get(name) == Some(value)), "{executed}");
    };
    let by = |from: &str, field: &str| {
        doc! { "from": from, "localField": "a", "foreignField": field, "as": "x" }
    };
    let indexed = |name: &str, from: &str| {
        doc! { "foreignCollection": format!("app.{from}"), "strategy": "IndexedLoopJoin", "indexName": name }
    };
    let hashed = |from: &str| doc! { "foreignCollection": format!("app.{from}"), "strategy": "HashJoin" };
    check(by("foreign", "b"), indexed("b_1", "foreign"));
    check(by("foreign", "_id"), indexed("_id_", "foreign"));
    check(by("foreign", "c"), hashed("foreign"));
    // A view that only filters has the indexes of its collection, and no other view has one.
    check(by("some", "b"), indexed("b_1", "some"));
    check(by("some", "c"), hashed("some"));
    check(by("groups", "_id"), hashed("groups"));
    let missing = doc! { "foreignCollection": "app.missing", "strategy": "NonExistentForeignCollection" };
    check(by("missing", "b"), missing);

    let pipeline =
        |stage: Document| doc! { "from": "foreign", "let": { "v": "$a" }, "pipeline": [stage], "as": "x" };
    let equal = |field: &str| doc! { "$match": { "$expr": { "$eq": [field, "$$v"] } } };
    check(pipeline(equal("$b")), indexed("b_1", "foreign"));
    check(pipeline(equal("$c")), hashed("foreign"));
    let compared = |expression: Document| pipeline(doc! { "$match": { "$expr": expression } });
    let nested = doc! { "foreignCollection": "app.foreign", "strategy": "NestedLoopJoin" };
    check(compared(doc! { "$gt": ["$c", "$$v"] }), nested.clone());
    check(compared(doc! { "$gt": ["$b", "$$v"] }), indexed("b_1", "foreign"));
    check(compared(doc! { "$lte": ["$$v", "$_id"] }), indexed("_id_", "foreign"));
    check(compared(doc! { "$in": ["$b", ["$$v", 2]] }), indexed("b_1", "foreign"));
    check(compared(doc! { "$in": ["$c", ["$$v", 2]] }), hashed("foreign"));
    // Bounds that come only from a document contradict neither each other nor those that are known.
    let between = doc! { "$and": [{ "$gt": ["$b", "$$v"] }, { "$lt": ["$b", { "$add": ["$$v", 5] }] }, { "$lt": ["$b", 100] }] };
    check(compared(between), indexed("b_1", "foreign"));
    // An index on a range alone would read much of the collection for each document, and a table reads it once.
    let ranged = doc! { "$and": [{ "$eq": ["$c", "$$v"] }, { "$gt": ["$b", 0] }] };
    check(compared(ranged), hashed("foreign"));
    let mut once = nested;
    once.insert("runsOnce", true);
    check(pipeline(doc! { "$match": { "c": { "$gt": 1 } } }), once);
    let part = |field: &str| {
        let first = [doc! { "$match": { field: { "$gt": 1 } } }, doc! { "$set": { "d": 1 } }];
        doc! {
            "from": "foreign", "let": { "v": "$a" }, "as": "x",
            "pipeline": [first[0].clone(), first[1].clone(), { "$match": { "$expr": { "$gt": ["$c", "$$v"] } } }],
        }
    };
    let nested =
        doc! { "foreignCollection": "app.foreign", "strategy": "NestedLoopJoin", "stagesRunOnce": 2 };
    check(part("c"), nested);
    let mut by_index = indexed("b_1", "foreign");
    by_index.insert("stagesRunOnce", 2);
    check(part("b"), by_index);
    let given = doc! { "pipeline": [{ "$documents": [{ "b": 1 }] }], "localField": "a", "foreignField": "b", "as": "x" };
    check(given, doc! { "strategy": "HashJoin" });
}
