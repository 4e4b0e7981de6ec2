//! `$unionWith`: the documents of several collections at one moment, one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, IndexModel};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{Scratch, small};

/// A client with collections `a` and `b` of documents that are numbered from these numbers on.
fn two(client: &Client, counts: [(&str, std::ops::Range<i32>); 2]) -> Collection<Document> {
    let database = client.database("app");
    for (name, numbers) in counts {
        let documents = numbers.map(|number| doc! { "_id": number, "n": number });
        database.collection::<Document>(name).insert_many(documents).run().expect("inserted");
    }
    database.collection("a")
}

fn ids(a: &Collection<Document>, stages: Vec<Document>) -> Vec<i32> {
    let cursor = a.aggregate(stages).run().expect("a pipeline");
    cursor.map(|document| document.expect("a document").get_i32("_id").expect("a number")).collect()
}

#[test]
fn another_collection_follows_in_its_order() {
    let client = small().in_memory(true).open("").expect("made");
    let a = two(&client, [("a", 0..3), ("b", 10..13)]);
    assert_eq!(ids(&a, vec![doc! { "$unionWith": "b" }]), [0, 1, 2, 10, 11, 12]);
    let joined =
        doc! { "$lookup": { "from": "a", "localField": "twin", "foreignField": "_id", "as": "twins" } };
    let inner = vec![
        doc! { "$match": { "n": { "$gte": 11 } } },
        doc! { "$set": { "twin": { "$subtract": ["$n", 10] } } },
        joined,
    ];
    let cursor =
        a.aggregate([doc! { "$unionWith": { "coll": "b", "pipeline": inner } }]).run().expect("a pipeline");
    let last = cursor.last().expect("documents").expect("a document");
    assert_eq!(last, doc! { "_id": 12, "n": 12, "twin": 2, "twins": [{ "_id": 2, "n": 2 }] });
    // The collection of the pipeline itself, and one that does not exist.
    assert_eq!(ids(&a, vec![doc! { "$limit": 1 }, doc! { "$unionWith": "a" }]), [0, 0, 1, 2]);
    let none = client.database("app").collection::<Document>("none");
    assert_eq!(ids(&none, vec![doc! { "$unionWith": "b" }]), [10, 11, 12]);
}

/// More documents than a batch has: the second part rests between batches, and goes on where it was.
#[test]
fn a_cursor_goes_through_both_in_batches() {
    let client = small().in_memory(true).open("").expect("made");
    let a = two(&client, [("a", 0..500), ("b", 1000..3000)]);
    let mut cursor = a.aggregate([doc! { "$unionWith": "b" }]).batch_size(7).run().expect("a pipeline");
    let mut found = Vec::new();
    while cursor.advance().expect("read") {
        found.push(cursor.current().get_i32("_id").expect("a number"));
    }
    assert_eq!(found, (0..500).chain(1000..3000).collect::<Vec<_>>());
    // By commands, whose cursors rest between two batches.
    let opened = client
        .database("app")
        .run_cursor_command(
            doc! { "aggregate": "a", "pipeline": [{ "$unionWith": "b" }], "cursor": { "batchSize": 3 } },
        )
        .run()
        .expect("opened");
    assert_eq!(opened.count(), 2500);
}

#[test]
fn a_filter_at_the_start_of_its_pipeline_uses_an_index() {
    let client = small().in_memory(true).open("").expect("made");
    let a = two(&client, [("a", 0..1), ("b", 0..2000)]);
    let b = client.database("app").collection::<Document>("b");
    let stages = vec![
        doc! { "$unionWith": { "coll": "b", "pipeline": [{ "$match": { "n": { "$gte": 1990 } } }] } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let without = ids(&a, stages.clone());
    b.create_index(IndexModel::builder().keys(doc! { "n": -1 }).build()).run().expect("an index");
    assert_eq!(ids(&a, stages), without);
    let stats = b.aggregate([doc! { "$indexStats": {} }, doc! { "$match": { "name": "n_-1" } }]).run();
    let stats = stats.expect("statistics").next().expect("the index").expect("read");
    let uses = stats.get_document("accesses").and_then(|accesses| accesses.get_i64("ops"));
    assert_eq!(uses.expect("a count"), 1);
    assert_eq!(without, [0].into_iter().chain(1990..2000).collect::<Vec<_>>());
}

#[test]
fn pipelines_lie_in_each_other_up_to_a_limit() {
    let client = small().in_memory(true).open("").expect("made");
    let a = two(&client, [("a", 0..1), ("b", 1..2)]);
    let nested = |depth: usize| {
        (0..depth).fold(vec![], |inner: Vec<Document>, _| {
            vec![doc! { "$unionWith": { "coll": "b", "pipeline": inner } }]
        })
    };
    assert_eq!(ids(&a, nested(20)).len(), 21);
    let refused = a.aggregate(nested(21)).run().map(drop).expect_err("too deep");
    assert_eq!(refused.code(), Some(232), "{refused}");
    let users = a.aggregate([doc! { "$unionWith": "system.users" }]).run().map(drop).expect_err("users");
    assert_eq!(users.code(), Some(73), "{users}");
}

#[test]
fn both_parts_are_of_one_moment() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let a = two(&client, [("a", 0..50), ("b", 50..100)]);
    let b = client.database("app").collection::<Document>("b");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each number is moved by an insert and then a delete: at every moment there are 100 of them, or one twice.
        scope.spawn(|| {
            let _ended = SetWhenDropped(&done);
            for number in (0..50).cycle().take(400) {
                b.insert_one(doc! { "_id": number, "n": number }).run().expect("inserted");
                a.delete_one(doc! { "_id": number }).run().expect("deleted");
                a.insert_one(doc! { "_id": number, "n": number }).run().expect("inserted");
                b.delete_one(doc! { "_id": number }).run().expect("deleted");
            }
        });
        while !done.load(Ordering::Acquire) {
            let mut found = ids(&a, vec![doc! { "$unionWith": "b" }]);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 100);
        }
    });
}

#[test]
fn a_union_ends_at_its_time_limit() {
    let client = small().in_memory(true).open("").expect("made");
    let a = two(&client, [("a", 0..1), ("b", 0..20_000)]);
    let stages = (0..200).map(|_| doc! { "$unionWith": { "coll": "b", "pipeline": [{ "$sort": { "n": -1 } }, { "$match": { "n": -1 } }] } });
    let limited = a.aggregate(stages).max_time(std::time::Duration::from_millis(20)).run();
    let error = limited.and_then(Iterator::collect::<Result<Vec<_>, _>>).expect_err("it takes longer");
    assert_eq!(error.code(), Some(50), "{error}");
}
