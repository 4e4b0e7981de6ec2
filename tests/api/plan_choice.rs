//! Between indexes that the rules of the planner do not distinguish, the one with the fewest keys is read.

use cairndb::bson::{Document, doc};
use cairndb::{Collection, IndexModel};

use crate::Fixture;
use crate::index_plans::explain;

/// `shop.a` with `count` documents, of which all but ten are done, and one of twenty is of each kind. The indexes are made
/// in this order, so that without counting the first one would be read.
fn skewed(count: i32) -> (Fixture, Collection<Document>) {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop").collection("a");
    for keys in [doc! { "state": 1 }, doc! { "kind": 1 }, doc! { "n": 1 }, doc! { "rank": 1 }] {
        shop.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
    }
    let documents = (0..count).map(|id| {
        let state = if id < 10 { "open" } else { "done" };
        doc! { "_id": id, "state": state, "kind": id % 20, "n": id, "rank": count - id }
    });
    shop.insert_many(documents).run().expect("they are new");
    (fixture, shop)
}

/// The name of the index that is read, and how many keys and documents of it.
#[track_caller]
fn check(fixture: &Fixture, command: &Document, index: &str, expected: [i32; 2]) {
    let reply = explain(fixture, command);
    let statistics = reply.get_document("executionStats").expect("it was run");
    let told =
        ["totalKeysExamined", "totalDocsExamined"].map(|name| statistics.get_i32(name).expect("a number"));
    assert_eq!(told, expected, "{command}: {reply}");
    let planner = reply.get_document("queryPlanner").expect("it was planned");
    let mut stage = planner.get_document("winningPlan").expect("a plan");
    while let Ok(input) = stage.get_document("inputStage") {
        stage = input;
    }
    assert_eq!(stage.get_str("indexName").ok(), Some(index), "{command}: {reply}");
}

#[test]
fn the_index_with_the_fewest_keys_is_read() {
    let (fixture, _) = skewed(2000);
    let find = |filter: Document| doc! { "find": "a", "filter": filter };
    check(&fixture, &find(doc! { "state": "open", "kind": 3 }), "state_1", [10, 10]);
    check(&fixture, &find(doc! { "state": "done", "kind": 3 }), "kind_1", [100, 100]);
    check(&fixture, &find(doc! { "state": "done", "kind": 3, "n": { "$lt": 50 } }), "n_1", [50, 50]);
    check(
        &fixture,
        &find(doc! { "state": "done", "kind": { "$in": [1, 2] }, "n": { "$gte": 900 } }),
        "kind_1",
        [200, 200],
    );
}

#[test]
fn every_verb_takes_the_index_with_the_fewest_keys() {
    let (fixture, _) = skewed(2000);
    let filter = doc! { "state": "done", "kind": 3 };
    let update = doc! { "q": filter.clone(), "u": { "$set": { "seen": true } }, "multi": true };
    check(&fixture, &doc! { "update": "a", "updates": [update] }, "kind_1", [100, 100]);
    let delete = doc! { "q": filter.clone(), "limit": 0 };
    check(&fixture, &doc! { "delete": "a", "deletes": [delete] }, "kind_1", [100, 100]);
    check(&fixture, &doc! { "count": "a", "query": filter.clone() }, "kind_1", [100, 100]);
    // A reader who stops early stops in the index with the fewest keys too.
    check(&fixture, &doc! { "find": "a", "filter": filter.clone(), "limit": 1 }, "kind_1", [2, 2]);
    check(&fixture, &doc! { "findAndModify": "a", "query": filter, "remove": true }, "kind_1", [2, 2]);
}

#[test]
fn an_order_is_worth_its_keys_to_a_reader_who_stops() {
    let (fixture, _) = skewed(2000);
    let filter = doc! { "n": { "$lt": 1990 } };
    let all = doc! { "find": "a", "filter": { "n": { "$lt": 5 } }, "sort": { "rank": 1 } };
    check(&fixture, &all, "n_1", [5, 5]);
    let first = doc! { "find": "a", "filter": filter, "sort": { "rank": 1 }, "limit": 3 };
    check(&fixture, &first, "rank_1", [13, 13]);
}

#[test]
fn plans_that_were_not_chosen_are_told() {
    let (fixture, _) = skewed(200);
    let reply = explain(&fixture, &doc! { "find": "a", "filter": { "state": "done", "kind": 3 } });
    let rejected = reply.get_document("queryPlanner").and_then(|planner| planner.get_array("rejectedPlans"));
    let rejected = format!("{:?}", rejected.expect("plans"));
    assert!(rejected.contains("state_1") && !rejected.contains("kind_1"), "{rejected}");
}

/// The counting of a plan, as `allPlansExecution` shows it.
#[track_caller]
fn check_counted(command: Document, expected: &[(&str, [i32; 2])]) {
    let (fixture, _) = skewed(2000);
    let explain = doc! { "explain": command, "verbosity": "allPlansExecution" };
    let reply = fixture.client.database("shop").run_command(explain).run().expect("explained");
    let all = reply.get_document("executionStats").and_then(|told| told.get_array("allPlansExecution"));
    let told = all.expect("plans").iter().map(|plan| {
        let plan = plan.as_document().expect("a plan");
        assert_eq!(plan.get_i32("nReturned").ok(), Some(0));
        let mut stage = plan.get_document("executionStages").expect("stages");
        while let Ok(input) = stage.get_document("inputStage") {
            stage = input;
        }
        let counts =
            ["totalKeysExamined", "totalDocsExamined"].map(|name| plan.get_i32(name).expect("a number"));
        let own = stage.get_i32("keysExamined").expect("a number");
        assert_eq!(own, counts.iter().copied().find(|count| *count > 0).unwrap_or(own), "{plan}");
        (stage.get_str("indexName").expect("an index").to_owned(), counts)
    });
    let expected: Vec<(String, [i32; 2])> =
        expected.iter().map(|(name, counts)| ((*name).to_owned(), *counts)).collect();
    assert_eq!(told.collect::<Vec<_>>(), expected, "{reply}");
}

#[test]
fn what_was_counted_of_each_plan_is_told() {
    let find = |filter: Document| doc! { "find": "a", "filter": filter };
    // A key whose document is read costs 4, and the plans are counted up to a cost of 512 in turn. One of them ends before.
    check_counted(find(doc! { "state": "done", "kind": 3 }), &[("kind_1", [100, 0]), ("state_1", [128, 0])]);
    check_counted(find(doc! { "state": "open", "kind": 3 }), &[("state_1", [10, 0]), ("kind_1", [10, 0])]);
    // One plan is not counted: there is nothing to choose.
    check_counted(find(doc! { "kind": 3 }), &[]);
    check_counted(find(doc! { "_id": 3 }), &[]);
}

/// With too many keys to count them, the tables say which index has fewer.
#[test]
fn many_keys_are_compared_by_their_size_in_tables() {
    let (fixture, shop) = skewed(40_000);
    shop.update_many(doc! { "n": { "$gte": 32_000 } }, doc! { "$set": { "kind": 3 } })
        .run()
        .expect("updated");
    // All tables are compressed then. New ones are not, and look larger than old ones with more keys.
    fixture.client.compact().run().expect("compacted");
    let filter = doc! { "state": "done", "kind": 3 };
    let matching = shop.count_documents(filter.clone()).run().expect("counted");
    let keys = i32::try_from(matching).expect("few");
    // More than are counted, and far fewer than those of the other index.
    assert!(keys > 8192 && keys < 10_000);
    check(&fixture, &doc! { "count": "a", "query": filter }, "kind_1", [keys + 1, keys + 1]);
}
