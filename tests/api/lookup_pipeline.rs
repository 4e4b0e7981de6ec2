//! `$lookup` by a pipeline: which documents it finds, with an index and without one, and what bounds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Database, IndexModel};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::small;

fn database(client: &Client, local: Vec<Document>, foreign: Vec<Document>) -> Database {
    let database = client.database("app");
    for (name, documents) in [("local", local), ("foreign", foreign)] {
        let numbered = documents.into_iter().zip(0..).map(|(document, position)| {
            let mut numbered = doc! { "_id": position };
            numbered.extend(document);
            numbered
        });
        database.collection::<Document>(name).insert_many(numbered).run().expect("documents");
    }
    database
}

fn results(local: &Collection<Document>, stage: &Document) -> Vec<Document> {
    results_of(local, vec![stage.clone()])
}

fn results_of(collection: &Collection<Document>, stages: Vec<Document>) -> Vec<Document> {
    let cursor = collection.aggregate(stages).run().expect("a pipeline");
    cursor.map(|document| document.expect("a document")).collect()
}

/// The `_id`s that each document finds.
fn found(local: &Collection<Document>, stage: &Document) -> Vec<Vec<i32>> {
    let ids = |document: Document| {
        let found = document.get_array("found").expect("an array").iter();
        let id = |found: &Bson| found.as_document().expect("a document").get_i32("_id").expect("an _id");
        let mut ids: Vec<i32> = found.map(id).collect();
        ids.sort_unstable();
        ids
    };
    results(local, stage).into_iter().map(ids).collect()
}

fn values() -> Vec<Bson> {
    vec![
        Bson::Int32(1),
        Bson::Double(1.0),
        Bson::Int32(2),
        Bson::Null,
        Bson::from("1"),
        Bson::from(vec![1, 2]),
        Bson::from(vec![Bson::Null]),
        Bson::from(doc! { "x": 1 }),
        Bson::MinKey,
        Bson::Undefined,
    ]
}

/// Documents with each value in `field`, and one without it.
fn documents(field: &str) -> Vec<Document> {
    let documents = values().into_iter().map(|value| doc! { field: value });
    documents.chain([Document::new()]).collect()
}

/// The result of an `$expr` depends neither on an index nor on the hash table: `$filter` over all documents, which
/// uses neither, finds the same.
#[track_caller]
fn check_equality(condition: &Document, foreign: Vec<Document>) {
    let client = small().in_memory(true).open("").expect("made");
    let database = database(&client, documents("a"), foreign);
    let local = database.collection::<Document>("local");
    let by = |pipeline: Vec<Document>| {
        doc! { "$lookup": { "from": "foreign", "let": { "v": "$a" }, "pipeline": pipeline, "as": "found" } }
    };
    let select = doc! { "$match": { "$expr": condition } };
    // After another stage neither an index nor a table is used.
    let plain = found(&local, &by(vec![doc! { "$set": { "z": 1 } }, select.clone()]));
    assert!(plain.iter().any(|found| !found.is_empty()), "the condition finds nothing");
    assert_eq!(found(&local, &by(vec![select.clone()])), plain, "without an index");
    let index = IndexModel::builder().keys(doc! { "b": 1 }).build();
    database.collection::<Document>("foreign").create_index(index).run().expect("an index");
    assert_eq!(found(&local, &by(vec![select.clone()])), plain, "with an index");
    let path = IndexModel::builder().keys(doc! { "b.x": 1 }).build();
    database.collection::<Document>("foreign").create_index(path).run().expect("an index");
    assert_eq!(found(&local, &by(vec![select])), plain, "with an index of the path");
}

#[test]
fn an_equality_of_an_expression_finds_the_same_by_index_and_by_table() {
    check_equality(&doc! { "$eq": ["$b", "$$v"] }, documents("b"));
    check_equality(&doc! { "$eq": ["$$v", "$b"] }, documents("b"));
    check_equality(&doc! { "$and": [{ "$eq": ["$b", "$$v"] }, { "$gte": ["$_id", 1] }] }, documents("b"));
    check_equality(&doc! { "$eq": ["$b", 1] }, documents("b"));
    check_equality(&doc! { "$or": [{ "$eq": ["$b", "$$v"] }, { "$eq": ["$_id", 0] }] }, documents("b"));
}

#[test]
fn a_range_of_an_expression_finds_the_same_by_index() {
    for operator in ["$gt", "$gte", "$lt", "$lte"] {
        check_equality(&doc! { operator: ["$b", "$$v"] }, documents("b"));
        check_equality(&doc! { operator: ["$$v", "$b"] }, documents("b"));
        check_equality(&doc! { operator: ["$b.x", "$$v"] }, documents("b"));
        let without =
            documents("b").into_iter().filter(|document| !matches!(document.get("b"), Some(Bson::Array(_))));
        check_equality(&doc! { operator: ["$b", "$$v"] }, without.collect());
    }
    check_equality(&doc! { "$and": [{ "$gte": ["$b", "$$v"] }, { "$lt": ["$b", "q"] }] }, documents("b"));
    check_equality(&doc! { "$and": [{ "$gte": ["$b", "$$v"] }, { "$eq": ["$b", "$$v"] }] }, documents("b"));
    check_equality(&doc! { "$or": [{ "$gte": ["$b", "$$v"] }, { "$eq": ["$_id", 3] }] }, documents("b"));
}

#[test]
fn a_list_of_an_expression_finds_the_same_by_index_and_by_table() {
    check_equality(&doc! { "$in": ["$b", ["$$v", 2]] }, documents("b"));
    check_equality(&doc! { "$in": ["$b", [1, Bson::Null, "1"]] }, documents("b"));
    check_equality(&doc! { "$in": ["$b", { "$cond": [{ "$isArray": "$$v" }, "$$v", [2]] }] }, documents("b"));
    check_equality(&doc! { "$and": [{ "$in": ["$b", ["$$v"]] }, { "$gt": ["$_id", 1] }] }, documents("b"));
}

#[test]
fn an_equality_of_a_path_finds_the_same_by_index_and_by_table() {
    let nested = values().into_iter().map(|value| doc! { "b": { "x": value } });
    let in_arrays = values().into_iter().map(|value| doc! { "b": [{ "x": value }, { "x": 2 }, 3] });
    let foreign = nested.chain(in_arrays).chain([doc! { "b": 5 }, doc! { "b": [] }, doc! {}]).collect();
    check_equality(&doc! { "$eq": ["$b.x", "$$v"] }, foreign);
}

/// An index reads for each document just the range of that document.
#[test]
fn an_index_is_used_for_a_range_that_a_variable_bounds() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign: Vec<Document> = (0..500).map(|number| doc! { "b": number }).collect();
    let database = database(&client, vec![doc! { "a": 490 }, doc! { "a": 495 }, doc! { "a": 5 }], foreign);
    let index = IndexModel::builder().keys(doc! { "b": 1 }).build();
    database.collection::<Document>("foreign").create_index(index).run().expect("an index");
    let lookup = |condition: Document| {
        doc! { "$lookup": {
            "from": "foreign", "let": { "v": "$a" }, "as": "found", "pipeline": [{ "$match": { "$expr": condition } }],
        } }
    };
    let examined = |condition: Document| {
        let command = doc! { "aggregate": "local", "pipeline": [lookup(condition)], "cursor": {} };
        let read = || client.metrics().expect("metrics").searches.documents_examined;
        let before = read();
        database.run_command(command).run().expect("a pipeline");
        read() - before
    };
    // Three documents of its own, and those found.
    assert_eq!(examined(doc! { "$gte": ["$b", { "$max": ["$$v", 480] }] }), 3 + 10 + 5 + 20);
    let few = doc! { "$and": [{ "$gte": ["$b", "$$v"] }, { "$lt": ["$b", { "$add": ["$$v", 3] }] }] };
    assert_eq!(examined(few), 3 + 3 * 3);
}

/// An index is seen to be used: without one the documents before would have to be read, and one of them fails.
#[test]
fn an_index_is_used_for_a_variable() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign: Vec<Document> = (0..50).map(|number| doc! { "b": number, "n": number % 7 }).collect();
    let database = database(&client, vec![doc! { "a": 3 }, doc! { "a": 4 }], foreign);
    let foreign = database.collection::<Document>("foreign");
    let index = IndexModel::builder().keys(doc! { "b": 1 }).build();
    foreign.create_index(index).run().expect("an index");
    let uses = || {
        let usage = foreign.aggregate([doc! { "$indexStats": {} }]).run().expect("usage");
        let of_b = usage
            .map(|usage| usage.expect("usage"))
            .find(|usage| usage.get_str("name").is_ok_and(|name| name == "b_1"));
        of_b.expect("the index").get_document("accesses").expect("accesses").get_i64("ops").expect("a count")
    };
    let before = uses();
    let stage = doc! { "$lookup": {
        "from": "foreign", "let": { "v": "$a" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$b", "$$v"] } } }, { "$project": { "n": 1 } }],
    } };
    let local = database.collection::<Document>("local");
    let expected = [
        doc! { "_id": 0, "a": 3, "found": [{ "_id": 3, "n": 3 }] },
        doc! { "_id": 1, "a": 4, "found": [{ "_id": 4, "n": 4 }] },
    ];
    assert_eq!(results(&local, &stage), expected);
    assert_eq!(uses() - before, 2);
}

#[test]
fn fields_and_a_pipeline_are_both_applied() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign = (0..20).map(|number| doc! { "b": [number % 3, 7], "n": number }).collect();
    let database =
        database(&client, vec![doc! { "a": 1, "most": 8 }, doc! { "a": [0, 2], "most": 3 }], foreign);
    let stage = doc! { "$lookup": {
        "from": "foreign", "localField": "a", "foreignField": "b", "let": { "most": "$most" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$lt": ["$n", "$$most"] } } }, { "$sort": { "n": -1 } }],
    } };
    let local = database.collection::<Document>("local");
    for is_indexed in [false, true] {
        if is_indexed {
            let index = IndexModel::builder().keys(doc! { "b": 1 }).build();
            database.collection::<Document>("foreign").create_index(index).run().expect("an index");
        }
        assert_eq!(found(&local, &stage), [vec![1, 4, 7], vec![0, 2]], "with an index: {is_indexed}");
    }
}

#[test]
fn an_inner_lookup_sees_the_variables_around_it() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign = (0..6).map(|number| doc! { "b": number }).collect();
    let database = database(&client, vec![doc! { "a": 1 }, doc! { "a": 4 }], foreign);
    let inner = doc! { "$lookup": {
        "from": "foreign", "let": { "b": "$b" }, "as": "sum",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$b", { "$add": ["$$a", "$$b"] }] } } }],
    } };
    let stage = doc! { "$lookup": {
        "from": "foreign", "let": { "a": "$a" }, "as": "found",
        "pipeline": [inner, { "$match": { "sum": { "$ne": [] } } }],
    } };
    let local = database.collection::<Document>("local");
    assert_eq!(found(&local, &stage), [vec![0, 1, 2, 3, 4], vec![0, 1]]);
    // Within a union, the variables of the lookup around it.
    let union = doc! { "$unionWith": {
        "coll": "local", "pipeline": [{ "$match": { "$expr": { "$eq": ["$a", "$$a"] } } }],
    } };
    let stage = doc! { "$lookup": {
        "from": "none", "let": { "a": "$a" }, "as": "found", "pipeline": [union],
    } };
    assert_eq!(found(&local, &stage), [vec![0], vec![1]]);
}

#[test]
fn documents_that_are_given_are_joined() {
    let client = small().in_memory(true).open("").expect("made");
    let database = database(&client, vec![doc! {}], vec![doc! { "b": 1 }, doc! { "b": 2 }]);
    let given = doc! { "$documents": [{ "a": 2 }, { "a": 3 }] };
    let stage = doc! { "$lookup": {
        "from": "foreign", "let": { "v": "$a" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$b", "$$v"] } } }],
    } };
    let run = |stages: Vec<Document>| {
        let cursor = database.aggregate(stages).run()?;
        cursor.collect::<cairndb::Result<Vec<Document>>>()
    };
    let joined = run(vec![given.clone(), stage]).expect("results");
    assert_eq!(joined, [doc! { "a": 2, "found": [{ "_id": 1, "b": 2 }] }, doc! { "a": 3, "found": [] }]);
    let united = run(vec![given.clone(), doc! { "$unionWith": "foreign" }]).expect("results");
    assert_eq!(united.len(), 4);
    let users = run(vec![given, doc! { "$unionWith": "system.users" }]).expect_err("no such name");
    assert_eq!(users.code(), Some(73), "{users}");
    // A source that describes a collection.
    let stats = vec![
        doc! { "$indexStats": {} },
        doc! { "$lookup": { "from": "foreign", "pipeline": [{ "$count": "n" }], "as": "found" } },
    ];
    let described = results_of(&database.collection("foreign"), stats);
    assert_eq!(
        described.first().expect("an index").get_array("found").expect("found"),
        &[doc! { "n": 2 }.into()]
    );
}

/// The whole command reads one moment: a document that a writer moves from one value to the other is found once.
#[test]
fn writers_beside_it_change_nothing() {
    let client = small().in_memory(true).open("").expect("made");
    let database = database(&client, vec![doc! { "a": 0 }, doc! { "a": 1 }], vec![doc! { "b": 0 }]);
    let (local, foreign) =
        (database.collection::<Document>("local"), database.collection::<Document>("foreign"));
    let index = IndexModel::builder().keys(doc! { "b": 1 }).build();
    foreign.create_index(index).run().expect("an index");
    let stage = doc! { "$lookup": {
        "from": "foreign", "let": { "v": "$a" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$b", "$$v"] } } }],
    } };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&is_done);
            for round in 0..300 {
                foreign
                    .update_one(doc! { "_id": 0 }, doc! { "$set": { "b": round % 2 } })
                    .run()
                    .expect("moved");
            }
        });
        while !is_done.load(Ordering::Acquire) {
            assert_eq!(found(&local, &stage).concat(), [0]);
        }
    });
}

#[test]
fn a_pipeline_that_multiplies_ends_at_its_bounds() {
    let client = small().in_memory(true).open("").expect("made");
    let many: Vec<Document> = (0..400).map(|_| doc! { "text": "x".repeat(1_000) }).collect();
    let database = database(&client, many.clone(), many);
    let local = database.collection::<Document>("local");
    let mut nested = doc! { "$lookup": { "from": "foreign", "pipeline": [], "as": "found" } };
    for _ in 0..3 {
        let unwind = doc! { "$unwind": "$found" };
        nested = doc! { "$lookup": { "from": "foreign", "pipeline": [nested, unwind, { "$count": "n" }], "as": "found" } };
    }
    // On a busy machine a limit may be over before there is a cursor.
    let run = |stage: &Document, limit: Duration| {
        let cursor = local.aggregate([stage.clone()]).max_time(limit).run();
        let first = cursor.and_then(|mut cursor| cursor.next().expect("an error"));
        first.expect_err("out of bounds").code()
    };
    // A text that looks like a variable makes each level run for each document.
    let mut slow = doc! { "$lookup": { "from": "foreign", "let": { "v": 1 }, "pipeline": [{ "$match": { "no": "$$v" } }], "as": "found" } };
    for _ in 0..3 {
        slow = doc! { "$lookup": { "from": "foreign", "let": { "v": 1 }, "pipeline": [{ "$match": { "no": { "$ne": "$$v" } } }, slow, { "$count": "n" }], "as": "found" } };
    }
    assert_eq!(run(&slow, Duration::from_millis(300)), Some(50));
    let large = doc! { "$lookup": { "from": "foreign", "as": "found", "pipeline": [
        { "$lookup": { "from": "foreign", "pipeline": [], "as": "all" } },
    ] } };
    // Its bound is that of bytes, which a busy machine takes long to reach.
    assert_eq!(run(&large, Duration::from_secs(60)), Some(4568));
    // The results of each level are counted once, so this is quick.
    let cursor = local.aggregate([nested, doc! { "$limit": 1 }]).run().expect("a pipeline");
    assert_eq!(cursor.count(), 1);
}
