//! `$graphLookup` over stored documents: by an index or by one scan, on the snapshot of its pipeline, and what it rejects.
//! The stages that read other collections within a `$facet`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{CancellationToken, Client, Collection, IndexModel};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::small;

fn client() -> Client {
    small().in_memory(true).open("").expect("made")
}

/// A collection of links from each number to the next, and one with a document that starts at 0.
fn chain(client: &Client, length: i32) -> Collection<Document> {
    let database = client.database("app");
    let links = (0..length).map(|number| doc! { "_id": number, "at": number, "next": number + 1 });
    database.collection::<Document>("links").insert_many(links).run().expect("inserted");
    database.collection::<Document>("starts").insert_one(doc! { "_id": 1, "a": 0 }).run().expect("inserted");
    database.collection("starts")
}

fn along(to: &str) -> Document {
    doc! { "$graphLookup": {
        "from": "links", "startWith": "$a", "connectFromField": "next", "connectToField": to, "as": "found",
    } }
}

/// The number of documents that the searches of a pipeline reach, one after the other.
fn reached(starts: &Collection<Document>, stages: Vec<Document>) -> Vec<usize> {
    let cursor = starts.aggregate(stages).run().expect("a pipeline");
    let found = |document: Document| document.get_array("found").expect("an array").len();
    cursor.map(|document| found(document.expect("a document"))).collect()
}

/// The number of times that an index of the links was used.
fn uses(client: &Client, name: &str) -> i64 {
    let links = client.database("app").collection::<Document>("links");
    let stats = links.aggregate([doc! { "$indexStats": {} }]).run().expect("a pipeline");
    let mut stats = stats.map(|stats| stats.expect("a document"));
    let index =
        stats.find(|stats| stats.get_str("name").is_ok_and(|found| found == name)).expect("the index");
    index.get_document("accesses").and_then(|accesses| accesses.get_i64("ops")).expect("a number")
}

#[test]
fn an_index_is_asked_in_each_step_and_gives_what_a_scan_gives() {
    let client = client();
    let starts = chain(&client, 60);
    let scanned: Vec<Document> = starts
        .aggregate([along("at")])
        .run()
        .expect("a pipeline")
        .collect::<Result<_, _>>()
        .expect("documents");
    let links = client.database("app").collection::<Document>("links");
    links.create_index(IndexModel::builder().keys(doc! { "at": 1 }).build()).run().expect("an index");
    let found: Vec<Document> = starts
        .aggregate([along("at")])
        .run()
        .expect("a pipeline")
        .collect::<Result<_, _>>()
        .expect("documents");
    assert_eq!(found, scanned);
    assert_eq!(uses(&client, "at_1"), 61, "one question for each step, and one that finds nothing");
}

#[test]
fn an_index_of_the_restriction_alone_is_not_read_in_each_step() {
    let client = client();
    let starts = chain(&client, 60);
    let links = client.database("app").collection::<Document>("links");
    links.update_many(doc! {}, doc! { "$set": { "kind": "x" } }).run().expect("updated");
    links.create_index(IndexModel::builder().keys(doc! { "kind": 1 }).build()).run().expect("an index");
    let mut stage = along("at");
    let restriction = doc! { "kind": "x" };
    stage.get_document_mut("$graphLookup").expect("a stage").insert("restrictSearchWithMatch", restriction);
    assert_eq!(reached(&starts, vec![stage]), [60]);
    assert_eq!(uses(&client, "kind_1"), 1, "to read once what may be reached");
}

#[test]
fn a_partial_index_does_not_hide_documents() {
    let client = client();
    let starts = chain(&client, 20);
    let links = client.database("app").collection::<Document>("links");
    let options =
        cairndb::IndexOptions::builder().partial_filter_expression(doc! { "at": { "$lt": 5 } }).build();
    let index = IndexModel::builder().keys(doc! { "at": 1 }).options(options).build();
    links.create_index(index).run().expect("an index");
    assert_eq!(reached(&starts, vec![along("at")]), [20]);
}

#[test]
fn a_hundred_thousand_documents_are_reached() {
    let client = client();
    let starts = chain(&client, 100_000);
    let counted = doc! { "$project": { "n": { "$size": "$found" } } };
    for to in ["_id", "at"] {
        let mut cursor = starts.aggregate([along(to), counted.clone()]).run().expect("a pipeline");
        let found = cursor.next().expect("a document").expect("a document");
        assert_eq!(found, doc! { "_id": 1, "n": 100_000 }, "{to}");
    }
}

/// A writer moves the end of the chain on, one link at a time, and cuts it off behind: at each moment it has ten links, one
/// after the other. A search that read two moments would find a gap.
#[test]
fn a_search_reads_one_moment() {
    let client = client();
    let database = client.database("app");
    let links = database.collection::<Document>("links");
    links.insert_one(doc! { "_id": 0, "at": 0, "next": 0 }).run().expect("inserted");
    links.create_index(IndexModel::builder().keys(doc! { "at": 1 }).build()).run().expect("an index");
    let starts = database.collection::<Document>("starts");
    starts.insert_one(doc! { "_id": 1, "a": 0 }).run().expect("inserted");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&is_done);
            for round in 1..400 {
                // In this order: the way from the root to the last link is whole at each moment.
                links.insert_one(doc! { "_id": round, "at": round, "next": 0 }).run().expect("inserted");
                links
                    .update_one(doc! { "_id": round - 1 }, doc! { "$set": { "next": round } })
                    .run()
                    .expect("updated");
            }
        });
        let mut last = 0;
        while !is_done.load(Ordering::Acquire) {
            let found = reached(&starts, vec![along("at")])[0];
            assert!(found >= last, "{found} links after {last}");
            last = found;
        }
    });
    assert_eq!(reached(&starts, vec![along("at")]), [400]);
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let client = client();
    let starts = chain(&client, 2);
    let refusal = |from: &str| {
        let mut stage = along("at");
        stage.get_document_mut("$graphLookup").expect("a stage").insert("from", from);
        let opened = starts.aggregate([doc! { "$facet": { "f": [stage.clone()] } }]).run();
        let within = opened.map(drop).expect_err("refused within a facet too");
        let error = starts.aggregate([stage]).run().map(drop).expect_err("a refusal");
        assert_eq!(within.to_string(), error.to_string());
        error
    };
    for name in ["system.users", "a$b", ""] {
        let error = refusal(name);
        assert_eq!(error.code(), Some(73), "{name}: {error}");
    }
}

#[test]
fn a_cancelled_search_ends() {
    let client = client();
    chain(&client, 50_000);
    let token = CancellationToken::new();
    let starts = client.database("app").collection::<Document>("starts").with_cancellation(&token);
    let mut cursor = starts.aggregate([along("at")]).run().expect("a pipeline");
    token.cancel();
    assert_eq!(cursor.next().expect("an answer").expect_err("it was cancelled").code(), Some(11_601));
}

#[test]
fn stages_in_a_facet_read_the_same_moment_as_its_input() {
    let client = client();
    let database = client.database("app");
    let pairs = database.collection::<Document>("pairs");
    pairs.insert_one(doc! { "_id": 0, "n": 0 }).run().expect("inserted");
    let counted = |n: &str| doc! { "$group": { "_id": Bson::Null, "n": { "$sum": n } } };
    let facet = doc! { "$facet": {
        "own": [counted("$n")],
        "joined": [
            { "$lookup": { "from": "pairs", "localField": "_id", "foreignField": "_id", "as": "same" } },
            { "$unwind": "$same" },
            counted("$same.n"),
        ],
        "twice": [{ "$unionWith": "pairs" }, counted("$n")],
    } };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&is_done);
            for _ in 0..500 {
                pairs.update_one(doc! { "_id": 0 }, doc! { "$inc": { "n": 1 } }).run().expect("updated");
            }
        });
        while !is_done.load(Ordering::Acquire) {
            let mut cursor = pairs.aggregate([facet.clone()]).run().expect("a pipeline");
            let found = cursor.next().expect("a document").expect("a document");
            let sum = |field: &str| {
                let sums = found.get_array(field).expect("an array");
                sums[0].as_document().and_then(|sum| sum.get_i32("n").ok()).expect("a number")
            };
            assert_eq!((sum("joined"), sum("twice")), (sum("own"), 2 * sum("own")));
        }
    });
}
