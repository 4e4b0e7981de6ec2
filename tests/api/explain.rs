//! `explain`: the plan is the one that the operation follows, and explaining a write changes nothing.

use cairndb::bson::{Bson, Document, bson, doc};

use crate::{Fixture, refused};

/// A hundred documents `{_id, n, kind}` in `shop.a`.
fn hundred() -> Fixture {
    let fixture = Fixture::new();
    let documents = (0..100).map(|id| doc! { "_id": id, "n": id * 10, "kind": id % 4 });
    fixture.client.database("shop").collection("a").insert_many(documents).run().expect("they are new");
    fixture
}

fn explain(fixture: &Fixture, command: Document, verbosity: &str) -> Document {
    let explain = doc! { "explain": command.clone(), "verbosity": verbosity };
    let run = fixture.client.database("shop").run_command(explain).run();
    run.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The stages of a plan, the last one first, as `NAME < NAME`.
fn names(plan: &Document) -> String {
    let own = plan.get_str("stage").expect("a stage").to_owned();
    match plan.get_document("inputStage") {
        Ok(input) => format!("{own} < {}", names(input)),
        Err(_) => own,
    }
}

fn numbers(statistics: &Document) -> [i32; 3] {
    ["nReturned", "totalKeysExamined", "totalDocsExamined"]
        .map(|name| statistics.get_i32(name).expect("a number"))
}

/// The stages, and how many rows came of how many keys and documents looked at.
#[track_caller]
fn check(command: Document, stages: &str, expected: [i32; 3]) {
    let fixture = hundred();
    let before =
        fixture.client.database("shop").collection::<Document>("a").find(doc! {}).run().expect("a cursor");
    let before: Vec<Document> = before.collect::<Result<_, _>>().expect("documents");
    let reply = explain(&fixture, command.clone(), "executionStats");
    assert_eq!(reply.get_str("explainVersion").ok(), Some("1"));
    let planner = reply.get_document("queryPlanner").expect("a plan");
    assert_eq!(planner.get_str("namespace").ok(), Some("shop.a"));
    assert_eq!(planner.get_array("rejectedPlans").ok(), Some(&Vec::new()));
    let winning = planner.get_document("winningPlan").expect("one wins");
    let statistics = reply.get_document("executionStats").expect("it was run");
    assert_eq!(names(winning), stages, "{command}");
    let executed = statistics.get_document("executionStages").expect("stages");
    assert_eq!(names(executed), stages, "{command}");
    assert_eq!(numbers(statistics), expected, "{command}: {statistics}");
    let only_planned = explain(&fixture, command.clone(), "queryPlanner");
    assert_eq!(only_planned.get_document("queryPlanner").ok(), Some(planner), "{command}");
    assert!(!only_planned.contains_key("executionStats"));
    let after =
        fixture.client.database("shop").collection::<Document>("a").find(doc! {}).run().expect("a cursor");
    assert_eq!(
        after.collect::<Result<Vec<Document>, _>>().expect("documents"),
        before,
        "{command} changed something"
    );
    fixture.verify_clean();
}

#[test]
fn one_id_is_looked_up_and_a_range_of_ids_is_walked() {
    check(doc! { "find": "a", "filter": { "_id": 7 } }, "IDHACK", [1, 1, 1]);
    check(doc! { "find": "a", "filter": { "_id": 7, "n": 1 } }, "IDHACK", [0, 1, 1]);
    check(doc! { "find": "a", "filter": { "_id": 700 } }, "IDHACK", [0, 0, 0]);
    check(doc! { "find": "a", "filter": { "_id": { "$gte": 90 } } }, "CLUSTERED_IXSCAN", [10, 0, 10]);
    let within = doc! { "$gte": 10, "$lt": 20 };
    check(
        doc! { "find": "a", "filter": { "_id": within, "n": { "$gt": 150 } } },
        "CLUSTERED_IXSCAN",
        [4, 0, 10],
    );
    check(doc! { "find": "a", "filter": { "_id": { "$in": [1, 5, 500] } } }, "CLUSTERED_IXSCAN", [2, 0, 2]);
    check(doc! { "find": "a", "filter": { "_id": { "$in": [] } } }, "EOF", [0, 0, 0]);
    check(doc! { "find": "a" }, "COLLSCAN", [100, 0, 100]);
    check(doc! { "find": "a", "filter": { "n": 50 } }, "COLLSCAN", [1, 0, 100]);
    check(doc! { "find": "a", "limit": 3, "skip": 2 }, "LIMIT < SKIP < COLLSCAN", [3, 0, 5]);
}

#[test]
fn sorts_limits_and_projections_are_told_where_they_take_place() {
    let sorted = doc! { "find": "a", "sort": { "n": -1 }, "skip": 5, "limit": 10, "projection": { "n": 1 } };
    check(sorted.clone(), "PROJECTION_DEFAULT < SKIP < SORT < COLLSCAN", [10, 0, 100]);
    check(doc! { "find": "a", "sort": { "_id": -1 }, "limit": 1 }, "LIMIT < COLLSCAN", [1, 0, 1]);
    let reply = explain(&hundred(), sorted, "executionStats");
    let path = ["executionStats", "executionStages", "inputStage", "inputStage"];
    let sort = path.into_iter().fold(&reply, |inside, name| inside.get_document(name).expect(name));
    assert_eq!(sort.get_document("sortPattern").ok(), Some(&doc! { "n": -1 }));
    assert_eq!((sort.get_i32("limitAmount").ok(), sort.get_i32("nReturned").ok()), (Some(15), Some(15)));
    assert_eq!(sort.get_document("inputStage").unwrap().get_i32("nReturned").ok(), Some(100));
    let backward = explain(&hundred(), doc! { "find": "a", "sort": { "_id": -1 } }, "queryPlanner");
    let plan = backward.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    assert_eq!(plan, &doc! { "stage": "COLLSCAN", "direction": "backward" });
}

#[test]
fn bounds_and_filters_are_shown_unless_they_are_long() {
    let fixture = hundred();
    let plan = |filter: Document| {
        let reply = explain(&fixture, doc! { "find": "a", "filter": filter }, "queryPlanner");
        reply.get_document("queryPlanner").unwrap().clone()
    };
    let filter = doc! { "_id": { "$gt": 5, "$lte": 9 } };
    let shown = plan(filter.clone());
    assert_eq!(shown.get_document("parsedQuery").ok(), Some(&filter));
    let winning = shown.get_document("winningPlan").unwrap();
    assert_eq!(winning.get_array("recordIdBounds").ok(), Some(&vec![Bson::from("(5, 9]")]));
    assert_eq!(winning.get_document("filter").ok(), Some(&filter));
    assert!(!plan(doc! { "_id": 5 }).get_document("winningPlan").unwrap().contains_key("filter"));
    let many = plan(doc! { "_id": { "$in": (0..200).collect::<Vec<i32>>() } });
    let bounds = many.get_document("winningPlan").unwrap().get_array("recordIdBounds").unwrap().clone();
    assert_eq!((bounds.len(), bounds.last()), (101, Some(&Bson::from("100 more"))));
    let long = plan(doc! { "_id": { "$gt": "x".repeat(2 << 20) } });
    assert!(long.get_document("parsedQuery").unwrap().contains_key("$truncated"));
    assert!(cairndb::bson::serialize_to_vec(&long).expect("bytes").len() < 4096);
}

#[test]
fn counts_and_distinct_values_are_explained() {
    check(doc! { "count": "a", "query": { "kind": 1 } }, "COUNT < COLLSCAN", [0, 0, 100]);
    check(
        doc! { "count": "a", "query": { "_id": { "$lt": 4 } }, "skip": 1 },
        "COUNT < SKIP < CLUSTERED_IXSCAN",
        [0, 0, 4],
    );
    check(doc! { "count": "a" }, "RECORD_STORE_FAST_COUNT", [0, 0, 0]);
    check(doc! { "distinct": "a", "key": "kind", "query": { "_id": 1 } }, "IDHACK", [1, 1, 1]);
    check(doc! { "distinct": "a", "key": "kind" }, "COLLSCAN", [100, 0, 100]);
    let reply = explain(&hundred(), doc! { "count": "a", "query": { "kind": 1 } }, "allPlansExecution");
    let statistics = reply.get_document("executionStats").unwrap();
    assert_eq!(statistics.get_document("executionStages").unwrap().get_i32("nCounted").ok(), Some(25));
    assert_eq!(statistics.get_array("allPlansExecution").ok(), Some(&Vec::new()));
}

#[test]
fn the_search_at_the_front_of_a_pipeline_is_its_cursor() {
    let front = bson!([{ "$match": { "_id": { "$lt": 10 } } }, { "$limit": 5 }]);
    check(doc! { "aggregate": "a", "pipeline": front, "cursor": {} }, "LIMIT < CLUSTERED_IXSCAN", [5, 0, 5]);
    let group = doc! { "$group": { "_id": "$kind", "n": { "$sum": 1 } } };
    let pipeline = bson!([{ "$match": { "_id": { "$lt": 10 } } }, group.clone(), { "$limit": 2 }]);
    let command = doc! { "aggregate": "a", "pipeline": pipeline, "cursor": {} };
    let fixture = hundred();
    let reply = explain(&fixture, command.clone(), "executionStats");
    let stages = reply.get_array("stages").expect("stages");
    let [Bson::Document(cursor), Bson::Document(grouped), Bson::Document(last)] = stages.as_slice() else {
        panic!("{reply}");
    };
    let cursor = cursor.get_document("$cursor").expect("the search");
    assert_eq!(numbers(cursor.get_document("executionStats").unwrap()), [10, 0, 10]);
    assert_eq!(grouped, &group);
    assert_eq!(last, &doc! { "$limit": 2, "nReturned": 2, "usedDisk": false, "spills": 0 });
    let mut by_field = command.clone();
    by_field.remove("cursor");
    by_field.insert("explain", true);
    let db = fixture.client.database("shop");
    let told = db.run_command(by_field).run().expect("told");
    let planned = explain(&fixture, command, "queryPlanner");
    assert_eq!(told.get_array("stages").ok(), planned.get_array("stages").ok());
    refused(
        db.run_command(doc! { "explain": { "aggregate": "a", "pipeline": [], "explain": true } }).run(),
        9,
        "explain",
    );
    refused(
        db.run_cursor_command(doc! { "aggregate": "a", "pipeline": [], "cursor": {}, "explain": true })
            .run()
            .map(drop),
        9,
        "run_command",
    );
    let documents = doc! { "aggregate": 1, "pipeline": [{ "$documents": [{ "a": 1 }] }], "cursor": {} };
    let reply = explain(&fixture, documents, "executionStats");
    assert_eq!(reply.get_array("stages").unwrap().len(), 1);
}

#[test]
fn an_explained_write_changes_nothing_and_tells_what_it_would() {
    let updates = bson!([{ "q": { "kind": 1 }, "u": { "$min": { "n": 100 } }, "multi": true }]);
    let update = doc! { "update": "a", "updates": updates };
    check(update.clone(), "UPDATE < COLLSCAN", [0, 0, 100]);
    let foretold = |command: Document| {
        let reply = explain(&hundred(), command, "executionStats");
        let stage =
            reply.get_document("executionStats").unwrap().get_document("executionStages").unwrap().clone();
        ["nMatched", "nWouldModify", "nWouldUpsert"].map(|name| stage.get_i32(name).expect("a number"))
    };
    assert_eq!(foretold(update), [25, 22, 0]);
    let one = |q: Document, u: Document, upsert: bool| doc! { "update": "a", "updates": [{ "q": q, "u": u, "upsert": upsert }] };
    check(one(doc! { "kind": 3 }, doc! { "kind": 0 }, false), "UPDATE < COLLSCAN", [0, 0, 4]);
    assert_eq!(foretold(one(doc! { "_id": 3 }, doc! { "kind": 0 }, true)), [1, 1, 0]);
    assert_eq!(foretold(one(doc! { "_id": 300 }, doc! { "kind": 0 }, true)), [0, 0, 1]);
    check(
        doc! { "delete": "a", "deletes": [{ "q": { "kind": 3 }, "limit": 1 }] },
        "DELETE < COLLSCAN",
        [0, 0, 4],
    );
    check(
        doc! { "delete": "a", "deletes": [{ "q": { "_id": { "$lt": 3 } }, "limit": 0 }] },
        "DELETE < CLUSTERED_IXSCAN",
        [0, 0, 3],
    );
    let modify = doc! { "findAndModify": "a", "query": { "kind": 2 }, "sort": { "n": -1 }, "update": { "$inc": { "n": 1 } }, "fields": { "n": 1 } };
    check(modify, "PROJECTION_DEFAULT < UPDATE < SORT < COLLSCAN", [1, 0, 100]);
    check(doc! { "findAndModify": "a", "query": { "_id": 2 }, "remove": true }, "DELETE < IDHACK", [1, 1, 1]);
}

#[test]
fn what_a_write_is_refused_for_its_explanation_is_refused_for() {
    let fixture = hundred();
    let db = fixture.client.database("shop");
    let refuse = |command: Document, code: i32, words: &str| {
        refused(db.run_command(doc! { "explain": command }).run(), code, words);
    };
    let update =
        |q: Document, u: Document| doc! { "update": "a", "updates": [{ "q": q, "u": u, "upsert": true }] };
    refuse(update(doc! {}, doc! { "$bogus": { "a": 1 } }), 9, "$bogus");
    refuse(update(doc! { "$bogus": 1 }, doc! { "$set": { "a": 1 } }), 2, "$bogus");
    refuse(update(doc! { "_id": 5 }, doc! { "$inc": { "_id": 1 } }), 66, "_id");
    refuse(update(doc! { "_id": 500 }, doc! { "$set": { "_id": 1 } }), 66, "_id");
    refuse(
        doc! { "update": "b", "updates": [{ "q": { "_id": { "$gt": [1] } }, "u": { "_id": [1] }, "upsert": true }] },
        53,
        "_id",
    );
    refuse(doc! { "update": "a", "updates": [{ "q": {}, "u": {} }, { "q": {}, "u": {} }] }, 16, "size 1");
    refuse(doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 5 }] }, 9, "limit");
    refuse(doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 0 }], "writeConcern": { "w": 5 } }, 2, "");
    refuse(doc! { "findAndModify": "a", "remove": true, "new": true }, 9, "remove");
    assert_eq!(db.list_collection_names().run().expect("names"), ["a"]);
}

#[test]
fn other_commands_are_not_explained() {
    let fixture = hundred();
    let db = fixture.client.database("shop");
    let refuse =
        |command: Document, code: i32, words: &str| refused(db.run_command(command).run(), code, words);
    refuse(doc! { "explain": { "insert": "a", "documents": [{}] } }, 20, "insert");
    refuse(doc! { "explain": { "explain": { "find": "a" } } }, 20, "explain");
    refuse(doc! { "explain": { "bogus": 1 } }, 59, "bogus");
    refuse(doc! { "explain": {} }, 59, "");
    refuse(doc! { "explain": "a" }, 14, "explain");
    refuse(doc! { "explain": { "find": "a" }, "verbosity": "all" }, 2, "verbosity");
    refuse(doc! { "explain": { "find": "a" }, "bogus": 1 }, 40_415, "bogus");
    refuse(doc! { "explain": { "find": "a", "bogus": 1 } }, 40_415, "bogus");
    refuse(doc! { "explain": { "find": "a", "$db": "other" } }, 73, "other");
    let reply =
        explain(&fixture, doc! { "find": "none", "filter": { "a": 1 }, "comment": "c" }, "executionStats");
    let plan = reply.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    assert_eq!(plan, &doc! { "stage": "EOF" });
    assert_eq!(
        reply.get_document("command").ok(),
        Some(&doc! { "find": "none", "filter": { "a": 1 }, "$db": "shop" })
    );
}
