//! Which index answers what: for each rule of the planner a question, its stages, and exactly how many keys and
//! documents it looks at.

use cairndb::bson::{Bson, Document, Regex, bson, doc};
use cairndb::{Hint, IndexModel, IndexOptions};

use crate::{Fixture, refused};

/// A hundred documents in `shop.a`, and six indexes on them.
pub(crate) fn hundred() -> Fixture {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop").collection("a");
    let documents = (0..100).map(|id| {
        let mut document = doc! {
            "_id": id,
            "n": id * 10,
            "kind": id % 4,
            "tags": [id % 5, id % 5 + 1],
            "s": format!("k{}", id % 10),
            "m": id % 3,
        };
        if id % 10 == 0 {
            document.insert("e", id / 10);
        }
        document
    });
    shop.insert_many(documents).run().expect("they are new");
    let indexes = [
        (doc! { "n": 1 }, "n", true, false),
        (doc! { "kind": 1, "n": -1 }, "kind", false, false),
        (doc! { "tags": 1 }, "tags", false, false),
        (doc! { "e": 1 }, "e", false, true),
        (doc! { "s": 1, "m": 1 }, "s", false, false),
        (doc! { "tags": 1, "kind": 1 }, "tags_kind", false, false),
    ];
    for (keys, name, unique, sparse) in indexes {
        let options = IndexOptions::builder().name(name.to_owned()).unique(unique).sparse(sparse).build();
        shop.create_index(IndexModel::builder().keys(keys).options(options).build()).run().expect("made");
    }
    fixture
}

pub(crate) fn explain(fixture: &Fixture, command: &Document) -> Document {
    let explain = doc! { "explain": command.clone(), "verbosity": "executionStats" };
    let run = fixture.client.database("shop").run_command(explain).run();
    run.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The stages of a plan, the last one first, as `NAME < NAME`; an index scan with the name of its index.
fn names(plan: &Document) -> String {
    let mut own = plan.get_str("stage").expect("a stage").to_owned();
    if let Ok(index) = plan.get_str("indexName") {
        own = format!("{own} {index} {}", plan.get_str("direction").expect("a direction"));
    }
    if let Ok(inputs) = plan.get_array("inputStages") {
        let inputs: Vec<String> =
            inputs.iter().map(|input| names(input.as_document().expect("a stage"))).collect();
        return format!("{own} ({})", inputs.join(", "));
    }
    match plan.get_document("inputStage") {
        Ok(input) => format!("{own} < {}", names(input)),
        Err(_) => own,
    }
}

/// The stages, and how many rows came of how many keys and documents.
#[track_caller]
pub(crate) fn check_command(command: &Document, stages: &str, expected: [i32; 3]) {
    let fixture = hundred();
    check_statistics(&explain(&fixture, command), stages, expected);
}

/// Checks the statistics of an explanation.
#[track_caller]
pub(crate) fn check_statistics(explained: &Document, stages: &str, expected: [i32; 3]) {
    let statistics = explained.get_document("executionStats").expect("it was run");
    let executed = statistics.get_document("executionStages").expect("stages");
    let told = ["nReturned", "totalKeysExamined", "totalDocsExamined"]
        .map(|name| statistics.get_i32(name).expect("a number"));
    assert_eq!((names(executed).as_str(), told), (stages, expected), "{explained}");
}

#[track_caller]
fn check(filter: Document, stages: &str, expected: [i32; 3]) {
    check_command(&doc! { "find": "a", "filter": filter }, stages, expected);
}

#[test]
fn equality_finds_just_what_it_asks_for() {
    check(doc! { "n": 50 }, "FETCH < IXSCAN n forward", [1, 1, 1]);
    check(doc! { "n": 55 }, "FETCH < IXSCAN n forward", [0, 0, 0]);
    check(doc! { "kind": 1 }, "FETCH < IXSCAN kind forward", [25, 25, 25]);
    check(doc! { "kind": { "$in": [1, 2] }, "n": { "$lt": 100 } }, "FETCH < IXSCAN kind forward", [5, 5, 5]);
    check(doc! { "kind": 1, "s": "k1" }, "FETCH < IXSCAN s forward", [5, 10, 10]);
    check(doc! { "kind": 1, "s": "k1", "m": 1 }, "FETCH < IXSCAN s forward", [2, 4, 4]);
    check(
        doc! { "$and": [{ "kind": 1 }, { "n": { "$gt": 500 } }] },
        "FETCH < IXSCAN kind forward",
        [12, 12, 12],
    );
}

#[test]
fn ranges_types_and_patterns_bound_an_index() {
    check(doc! { "n": { "$gte": 100, "$lt": 200 } }, "FETCH < IXSCAN n forward", [10, 10, 10]);
    check(doc! { "kind": { "$ne": 1 } }, "FETCH < IXSCAN kind forward", [75, 75, 75]);
    check(doc! { "kind": { "$nin": [1, 2] } }, "FETCH < IXSCAN kind forward", [50, 50, 50]);
    check(doc! { "kind": { "$not": { "$lt": 3 } } }, "FETCH < IXSCAN kind forward", [25, 25, 25]);
    check(doc! { "n": { "$mod": [500, 0] } }, "FETCH < IXSCAN n forward", [2, 100, 2]);
    check(doc! { "n": { "$type": "string" } }, "FETCH < IXSCAN n forward", [0, 0, 0]);
    let text = |text: &str| cairndb::bson::raw::CString::try_from(text).expect("no zero byte");
    let pattern = Bson::RegularExpression(Regex { pattern: text("^k1"), options: text("") });
    check(doc! { "s": pattern }, "FETCH < IXSCAN s forward", [10, 10, 10]);
    check(doc! { "n": { "$gt": 500, "$lt": 500 } }, "EOF", [0, 0, 0]);
}

#[test]
fn later_fields_are_asked_of_the_key_before_a_document_is_read() {
    check(doc! { "s": { "$gte": "k8" }, "m": 0 }, "FETCH < IXSCAN s forward", [7, 20, 7]);
}

#[test]
fn arrays_are_found_by_any_element_and_once() {
    check(doc! { "tags": 3 }, "FETCH < IXSCAN tags forward", [40, 40, 40]);
    check(doc! { "tags": { "$gte": 4 } }, "FETCH < IXSCAN tags forward", [40, 60, 40]);
    // Two elements may meet the two conditions, so that one of them bounds the scan; one element must meet both here.
    check(doc! { "tags": { "$gt": 1, "$lt": 3 } }, "FETCH < IXSCAN tags forward", [40, 140, 80]);
    let one = doc! { "tags": { "$elemMatch": { "$gt": 1, "$lt": 3 } } };
    check(one, "FETCH < IXSCAN tags forward", [40, 40, 40]);
    check(doc! { "tags": [3, 4] }, "FETCH < IXSCAN tags forward", [20, 40, 40]);
    check(doc! { "tags": 3, "kind": 2 }, "FETCH < IXSCAN tags_kind forward", [10, 10, 10]);
}

#[test]
fn a_sparse_index_answers_only_what_it_holds() {
    check(doc! { "e": { "$exists": true } }, "FETCH < IXSCAN e forward", [10, 10, 10]);
    check(doc! { "e": 3 }, "FETCH < IXSCAN e forward", [1, 1, 1]);
    check(doc! { "e": null }, "COLLSCAN", [90, 0, 100]);
    check(doc! { "e": { "$ne": 3 } }, "COLLSCAN", [99, 0, 100]);
    let hinted = doc! { "find": "a", "filter": { "e": null }, "hint": "e" };
    check_command(&hinted, "COLLSCAN", [90, 0, 100]);
}

#[test]
fn branches_are_joined_and_a_document_is_read_once() {
    let either = doc! { "$or": [{ "n": 50 }, { "e": 3 }] };
    check(either, "OR (FETCH < IXSCAN n forward, FETCH < IXSCAN e forward)", [2, 2, 2]);
    let same = doc! { "$or": [{ "n": 300 }, { "e": 3 }, { "_id": { "$gte": 98 } }] };
    check(same, "OR (FETCH < IXSCAN n forward, FETCH < IXSCAN e forward, CLUSTERED_IXSCAN)", [3, 2, 3]);
    check(doc! { "$or": [{ "n": 50 }, { "z": 3 }] }, "COLLSCAN", [1, 0, 100]);
}

#[test]
fn an_index_gives_its_order_either_way() {
    let sorted = |filter: Document, sort: Document, limit: i32| doc! { "find": "a", "filter": filter, "sort": sort, "limit": limit };
    let check = |command: Document, stages: &str, expected| check_command(&command, stages, expected);
    check(sorted(doc! {}, doc! { "n": 1 }, 2), "LIMIT < FETCH < IXSCAN n forward", [2, 2, 2]);
    check(sorted(doc! {}, doc! { "n": -1 }, 2), "LIMIT < FETCH < IXSCAN n backward", [2, 2, 2]);
    check(sorted(doc! { "kind": 2 }, doc! { "n": -1 }, 3), "LIMIT < FETCH < IXSCAN kind forward", [3, 3, 3]);
    check(sorted(doc! { "kind": 2 }, doc! { "n": 1 }, 3), "LIMIT < FETCH < IXSCAN kind backward", [3, 3, 3]);
    check(sorted(doc! {}, doc! { "kind": 1, "n": -1 }, 4), "LIMIT < FETCH < IXSCAN kind forward", [4, 4, 4]);
    check(sorted(doc! { "kind": 1 }, doc! { "s": 1 }, 3), "SORT < FETCH < IXSCAN kind forward", [3, 25, 25]);
    // Arrays have no one place, so that no index on them gives an order.
    check(sorted(doc! {}, doc! { "tags": 1 }, 3), "SORT < COLLSCAN", [3, 0, 100]);
    check(
        sorted(doc! { "tags": 3 }, doc! { "_id": -1 }, 3),
        "LIMIT < FETCH < IXSCAN tags backward",
        [3, 3, 3],
    );
}

#[test]
fn a_hint_is_followed_by_name_and_by_keys() {
    let hinted = |hint: Bson| doc! { "find": "a", "filter": { "kind": 1 }, "hint": hint };
    check_command(&hinted("n".into()), "FETCH < IXSCAN n forward", [25, 100, 100]);
    check_command(&hinted(bson!({ "n": 1.0 })), "FETCH < IXSCAN n forward", [25, 100, 100]);
    check_command(&hinted(bson!({ "$natural": 1 })), "COLLSCAN", [25, 0, 100]);
    check_command(&hinted("_id_".into()), "COLLSCAN", [25, 0, 100]);
    let fixture = hundred();
    let shop = fixture.client.database("shop");
    for hint in [bson!("none"), bson!({ "n": -1 }), bson!({ "kind": 1 })] {
        let text = "hint provided does not correspond to an existing index";
        refused(shop.run_command(hinted(hint.clone())).run(), 2, text);
        let delete = doc! { "q": { "kind": 1 }, "limit": 0, "hint": hint.clone() };
        let reply = shop.run_command(doc! { "delete": "a", "deletes": [delete] }).run().expect("a reply");
        assert_eq!(reply.get_array("writeErrors").map(Vec::len).ok(), Some(1), "{reply}");
        let count = doc! { "count": "a", "query": {}, "hint": hint };
        refused(shop.run_command(count).run(), 2, text);
    }
}

#[test]
fn every_verb_uses_the_index() {
    let scan = "FETCH < IXSCAN n forward";
    let few = doc! { "n": { "$lt": 30 } };
    let check = |command: Document, stage: &str, expected| {
        check_command(&command, &format!("{stage}{scan}"), expected);
    };
    check(doc! { "distinct": "a", "key": "kind", "query": few.clone() }, "", [3, 3, 3]);
    check(doc! { "aggregate": "a", "pipeline": [{ "$match": few.clone() }], "cursor": {} }, "", [3, 3, 3]);
    let update = doc! { "q": few.clone(), "u": { "$set": { "z": 1 } }, "multi": true };
    check(doc! { "update": "a", "updates": [update] }, "UPDATE < ", [0, 3, 3]);
    check(doc! { "delete": "a", "deletes": [{ "q": few.clone(), "limit": 0 }] }, "DELETE < ", [0, 3, 3]);
    let modify = doc! { "findAndModify": "a", "query": { "n": 50 }, "remove": true };
    check_command(&modify, &format!("DELETE < {scan}"), [1, 1, 1]);
}

#[test]
fn a_scan_tells_its_index_and_bounds() {
    let fixture = hundred();
    let filter = doc! { "tags": { "$gt": 3, "$lte": 5 }, "kind": { "$in": [1, 2] } };
    let reply = explain(&fixture, &doc! { "find": "a", "filter": filter, "hint": "tags_kind" });
    let plan = reply.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    let expected = doc! {
        "stage": "IXSCAN",
        "keyPattern": { "tags": 1, "kind": 1 },
        "indexName": "tags_kind",
        "isMultiKey": true,
        "multiKeyPaths": { "tags": ["tags"], "kind": [] },
        "isUnique": false,
        "isSparse": false,
        "isPartial": false,
        "indexVersion": 2,
        "direction": "forward",
    };
    let scan = plan.get_document("inputStage").expect("the scan");
    let bounds = scan.get_document("indexBounds").expect("bounds");
    assert_eq!(bounds.get_array("kind").ok(), Some(&vec![bson!("[1, 1]"), bson!("[2, 2]")]));
    let without_bounds = |plan: &Document| {
        let mut plan = plan.clone();
        plan.remove("indexBounds");
        plan
    };
    assert_eq!(without_bounds(scan), expected);
    let sorted =
        doc! { "find": "a", "filter": { "kind": 1, "n": { "$gt": 20, "$lt": 90 } }, "sort": { "n": 1 } };
    let reply = explain(&fixture, &sorted);
    let plan = reply.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    let bounds = plan.get_document("inputStage").unwrap().get_document("indexBounds").unwrap();
    assert_eq!(bounds, &doc! { "kind": ["[1, 1]"], "n": ["(20, 90)"] });
    let executed = reply.get_document("executionStats").unwrap().get_document("executionStages").unwrap();
    assert_eq!(executed.get_i32("docsExamined").ok(), Some(1), "{executed}");
    assert_eq!(executed.get_document("inputStage").unwrap().get_i32("keysExamined").ok(), Some(1));
}

#[test]
fn other_usable_indexes_are_told_as_rejected() {
    let fixture = hundred();
    let reply = explain(&fixture, &doc! { "find": "a", "filter": { "kind": 1, "n": { "$gt": 900 } } });
    let planner = reply.get_document("queryPlanner").unwrap();
    let rejected: Vec<String> = planner
        .get_array("rejectedPlans")
        .unwrap()
        .iter()
        .map(|plan| names(plan.as_document().unwrap()))
        .collect();
    assert_eq!(rejected, ["FETCH < IXSCAN n forward"]);
}

#[test]
fn a_document_that_moves_within_the_index_is_changed_once() {
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let done =
        shop.update_many(doc! { "n": { "$gte": 0 } }, doc! { "$inc": { "n": 10_000 } }).run().expect("done");
    assert_eq!((done.matched_count, done.modified_count), (100, 100));
    let done = shop.update_many(doc! { "tags": { "$gte": 0 } }, doc! { "$push": { "tags": 50 } }).run();
    assert_eq!(done.expect("done").matched_count, 100);
    let numbers = shop.distinct("n", doc! {}).run().expect("values");
    assert!(
        numbers.len() == 100
            && numbers.iter().all(|n| n.as_i32().is_some_and(|n| (10_000..11_000).contains(&n)))
    );
    fixture.verify_clean();
}

// A sort that begins with `_id` was answered from the records' order without an index, and rejected with one: the fields
// after `_id` lay in different arrays, and only a plan that sorts looked at them.
#[test]
fn what_follows_the_id_in_a_sort_is_not_asked_for() {
    let fixture = Fixture::new();
    let arrays = fixture.client.database("shop").collection::<Document>("arrays");
    arrays.insert_many((0..4).map(|id| doc! { "_id": id, "a": [id, 1], "b": [2, id] })).run().unwrap();
    arrays.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().unwrap();
    let sort = doc! { "_id": -1, "a": 1, "b": 1 };
    let plain: Vec<Document> =
        arrays.find(doc! {}).sort(sort.clone()).run().unwrap().map(Result::unwrap).collect();
    let hint = Hint::Keys(doc! { "a": 1 });
    let hinted: Vec<Document> =
        arrays.find(doc! {}).sort(sort).hint(hint).run().unwrap().map(Result::unwrap).collect();
    assert_eq!(plain.len(), 4);
    assert_eq!(hinted, plain);
}
