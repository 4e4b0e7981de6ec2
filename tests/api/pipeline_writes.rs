//! `$out` and `$merge`: what they keep, what they reject, and what others see meanwhile. What each mode writes is in the
//! conformance corpus.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{AutoIncrement, CancellationToken, Client, Collection, Database, IndexModel, IndexOptions};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{Scratch, small};

fn client() -> Client {
    small().in_memory(true).open("").expect("made")
}

/// A database with numbered documents in `source`.
fn shop(client: &Client, count: i32) -> Database {
    let shop = client.database("shop");
    let documents = (0..count).map(|n| doc! { "_id": n, "n": n });
    shop.collection::<Document>("source").insert_many(documents).run().expect("inserted");
    shop
}

fn collection(database: &Database, name: &str) -> Collection<Document> {
    database.collection(name)
}

/// Runs a pipeline over `source`. One that writes gives nothing.
fn run(database: &Database, stages: Vec<Document>) -> cairndb::Result<()> {
    assert_eq!(
        collection(database, "source").aggregate(stages).run()?.count(),
        0,
        "results of a writing stage"
    );
    Ok(())
}

fn refused(database: &Database, stages: Vec<Document>) -> cairndb::Error {
    run(database, stages).expect_err("a refusal")
}

fn found(database: &Database, name: &str) -> Vec<Document> {
    let cursor = collection(database, name).find(doc! {}).run().expect("a search");
    cursor.collect::<Result<_, _>>().expect("documents")
}

fn names(database: &Database) -> Vec<String> {
    database.list_collection_names().run().expect("names")
}

/// Nothing is left of what was gathered, and all that is stored agrees.
#[track_caller]
fn check_nothing_is_left(client: &Client, collections: u64) {
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(report.collections, collections, "collections, hidden ones too");
}

fn divide_by_zero_at(n: i32) -> Document {
    doc! { "$set": { "x": { "$divide": [1, { "$subtract": ["$n", n] }] } } }
}

/// A database with a `target` that accepts only documents with `n` below 3.
fn checked(client: &Client) -> Database {
    let shop = shop(client, 5);
    let below = doc! { "n": { "$lt": 3 } };
    shop.create_collection("target").validator(below).run().expect("made");
    collection(&shop, "target").insert_one(doc! { "_id": "old", "n": 0 }).run().expect("valid");
    shop
}

#[test]
fn what_out_gathers_is_checked_by_the_validator_of_its_target_which_stays() {
    let client = client();
    let shop = checked(&client);
    let error = refused(&shop, vec![doc! { "$out": "target" }]);
    assert_eq!(error.code(), Some(121), "{error}");
    assert_eq!(found(&shop, "target"), [doc! { "_id": "old", "n": 0 }]);

    run(&shop, vec![doc! { "$match": { "n": 1 } }, doc! { "$out": "target" }]).expect("valid");
    assert_eq!(found(&shop, "target"), [doc! { "_id": 1, "n": 1 }]);
    let later = collection(&shop, "target").insert_one(doc! { "n": 4 }).run();
    assert_eq!(later.expect_err("the validator is still there").code(), Some(121));

    let source = collection(&shop, "source");
    let unchecked = source.aggregate([doc! { "$out": "target" }]).bypass_document_validation(true);
    unchecked.run().expect("not checked");
    assert_eq!(found(&shop, "target").len(), 5);
    check_nothing_is_left(&client, 2);
}

#[test]
fn what_merge_writes_is_checked_by_the_validator_of_its_target() {
    let client = client();
    let shop = checked(&client);
    for mode in ["replace", "merge", "keepExisting", "fail"] {
        let merge = doc! { "$merge": { "into": "target", "whenMatched": mode } };
        let error = refused(&shop, vec![doc! { "$match": { "n": 4 } }, merge]);
        assert_eq!(error.code(), Some(121), "{mode}: {error}");
    }
    assert_eq!(found(&shop, "target"), [doc! { "_id": "old", "n": 0 }]);
    let source = collection(&shop, "source");
    for (mode, n) in [("fail", 3), ("replace", 4)] {
        let merge = doc! { "$merge": { "into": "target", "whenMatched": mode } };
        let unchecked = source.aggregate([doc! { "$match": { "n": n } }, merge]);
        unchecked.bypass_document_validation(true).run().expect("not checked");
    }
    assert_eq!(found(&shop, "target").len(), 3);
}

#[test]
fn out_notices_a_validator_that_was_changed_meanwhile() {
    let client = client();
    let shop = checked(&client);
    let changed = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ended = SetWhenDropped(&changed);
        let change = scope.spawn(|| {
            let mut level = ["moderate", "strict"].into_iter().cycle();
            while !changed.load(Ordering::Relaxed) {
                let command =
                    doc! { "collMod": "target", "validationLevel": level.next().expect("it goes on") };
                shop.run_command(command).run().expect("changed");
            }
        });
        let mut refusals = 0;
        for _ in 0..200 {
            match run(&shop, vec![doc! { "$match": { "n": { "$lt": 3 } } }, doc! { "$out": "target" }]) {
                Ok(()) => {}
                Err(error) => {
                    assert!(
                        error.code() == Some(125) && error.to_string().contains("options of target"),
                        "{error}"
                    );
                    refusals += 1;
                }
            }
        }
        changed.store(true, Ordering::Relaxed);
        change.join().expect("no change fails");
        println!("out: {refusals} of 200 met a changed validator");
    });
    check_nothing_is_left(&client, 2);
}

#[test]
fn views_are_read_and_not_written_to() {
    let client = client();
    let shop = shop(&client, 5);
    let large = doc! { "$match": { "n": { "$gte": 3 } } };
    shop.create_collection("large").view_on("source").pipeline([large]).run().expect("made");
    for write in [doc! { "$out": "large" }, doc! { "$merge": "large" }] {
        let error = refused(&shop, vec![write]);
        assert_eq!(error.code(), Some(166), "{error}");
    }
    for write in [doc! { "$out": "copy" }, doc! { "$merge": "merged" }] {
        let results = collection(&shop, "large").aggregate([write]).run().expect("written").count();
        assert_eq!(results, 0);
    }
    let expected = [doc! { "_id": 3, "n": 3 }, doc! { "_id": 4, "n": 4 }];
    assert_eq!(found(&shop, "copy"), expected);
    assert_eq!(found(&shop, "merged"), expected);
    check_nothing_is_left(&client, 3);
}

#[test]
fn out_keeps_the_indexes_and_their_settings() {
    let client = client();
    let shop = shop(&client, 20);
    let target = collection(&shop, "target");
    let options = [
        (doc! { "n": 1 }, IndexOptions::builder().unique(true).build()),
        (doc! { "a": -1, "b": 1 }, IndexOptions::builder().sparse(true).name("own".to_owned()).build()),
        (doc! { "t": 1 }, IndexOptions::builder().expire_after(Duration::from_secs(9_000)).build()),
        (doc! { "h": 1 }, IndexOptions::builder().hidden(true).build()),
        (
            doc! { "p": 1 },
            IndexOptions::builder().partial_filter_expression(doc! { "n": { "$gt": 3 } }).build(),
        ),
        (doc! { "w.$**": 1 }, IndexOptions::default()),
    ];
    for (keys, options) in options {
        target
            .create_index(IndexModel::builder().keys(keys).options(options).build())
            .run()
            .expect("an index");
    }
    target.insert_one(doc! { "_id": 99, "n": 99, "a": [1, 2] }).run().expect("inserted");
    let indexes = |target: &Collection<Document>| {
        let listed = target.list_indexes().run().expect("a list");
        let described = listed.map(|index| format!("{:?}", index.expect("an index")));
        described.collect::<Vec<_>>()
    };
    let before = indexes(&target);
    run(&shop, vec![doc! { "$set": { "a": ["$n", 7] } }, doc! { "$out": "target" }]).expect("written");
    assert_eq!(indexes(&target), before);
    // They have the new documents, arrays too, and no entry of an old one.
    for (filter, count) in [(doc! { "n": 5 }, 1), (doc! { "a": 7 }, 20), (doc! { "n": 99 }, 0)] {
        assert_eq!(target.find(filter.clone()).run().expect("a search").count(), count, "{filter}");
    }
    assert!(target.insert_one(doc! { "n": 5 }).run().expect_err("taken").is_duplicate_key());
    check_nothing_is_left(&client, 2);
}

#[test]
fn out_replaces_the_collection_that_it_reads() {
    let client = client();
    let shop = shop(&client, 3);
    for round in 1..4 {
        run(&shop, vec![doc! { "$set": { "n": { "$add": ["$n", 10] } } }, doc! { "$out": "source" }])
            .expect("written");
        let numbers: Vec<i32> =
            found(&shop, "source").iter().map(|found| found.get_i32("n").expect("n")).collect();
        assert_eq!(numbers, [10 * round, 10 * round + 1, 10 * round + 2]);
    }
    check_nothing_is_left(&client, 1);
}

#[test]
fn documents_without_an_id_get_one_from_both_stages() {
    let client = client();
    let shop = shop(&client, 3);
    for stage in [doc! { "$out": "target" }, doc! { "$merge": "target" }] {
        run(&shop, vec![doc! { "$project": { "_id": 0, "n": 1 } }, stage]).expect("written");
        for document in found(&shop, "target") {
            assert!(document.get_object_id("_id").is_ok(), "{document}");
        }
    }
    assert_eq!(found(&shop, "target").len(), 6);
}

#[test]
fn a_pipeline_that_fails_leaves_the_old_documents_and_nothing_else() {
    let client = client();
    let shop = shop(&client, 2_000);
    collection(&shop, "target").insert_one(doc! { "_id": "old" }).run().expect("inserted");
    let text = "x".repeat(9_000);
    // More than one insert before the document that fails.
    let large = doc! { "$set": { "text": text } };
    let error = refused(&shop, vec![large.clone(), divide_by_zero_at(1_990), doc! { "$out": "target" }]);
    assert_eq!(error.code(), Some(2), "{error}");
    assert_eq!(found(&shop, "target"), [doc! { "_id": "old" }]);
    let twice = doc! { "$set": { "_id": { "$mod": ["$n", 1_999] } } };
    let error = refused(&shop, vec![large, twice, doc! { "$out": "target" }]);
    assert!(error.is_duplicate_key(), "{error}");
    assert!(error.to_string().contains("shop.target"), "{error}");
    assert!(!error.to_string().contains("system.out"), "{error}");
    assert_eq!(found(&shop, "target"), [doc! { "_id": "old" }]);
    // A database that would have been new is not there.
    refused(&shop, vec![divide_by_zero_at(5), doc! { "$out": { "db": "fresh", "coll": "target" } }]);
    assert_eq!(client.list_database_names().run().expect("names"), ["shop"]);
    check_nothing_is_left(&client, 2);
}

#[test]
fn a_cancelled_pipeline_leaves_the_old_documents_and_nothing_else() {
    let client = client();
    let shop = shop(&client, 400);
    collection(&shop, "target").insert_one(doc! { "_id": "old" }).run().expect("inserted");
    let token = CancellationToken::new();
    let source = collection(&shop, "source").with_cancellation(&token);
    token.cancel();
    let error = source.aggregate([doc! { "$out": "target" }]).run().map(drop).expect_err("it was cancelled");
    assert_eq!(error.code(), Some(11_601), "{error}");
    // In the middle: pairs of all documents would need much longer than this.
    let pairs = doc! { "$lookup": { "from": "source", "pipeline": [], "as": "all" } };
    let unwind = doc! { "$unwind": "$all" };
    // Without `_id`s, which would come again and end the pipeline before its time is over.
    let stages = vec![
        pairs.clone(),
        unwind.clone(),
        pairs,
        unwind,
        doc! { "$unset": "_id" },
        doc! { "$out": "target" },
    ];
    let late = collection(&shop, "source").aggregate(stages).max_time(Duration::from_millis(20)).run();
    assert_eq!(late.map(drop).expect_err("it was late").code(), Some(50));
    assert_eq!(found(&shop, "target"), [doc! { "_id": "old" }]);
    check_nothing_is_left(&client, 2);
}

#[test]
fn out_does_not_replace_a_collection_that_numbers_its_documents() {
    let client = client();
    let shop = shop(&client, 3);
    let target = collection(&shop, "target");
    target.create_auto_increment(AutoIncrement::builder().field("number").build()).run().expect("a field");
    target.insert_one(doc! { "_id": "old" }).run().expect("inserted");
    let error = refused(&shop, vec![doc! { "$out": "target" }]);
    assert_eq!(error.code(), Some(20), "{error}");
    assert!(error.to_string().contains("'number'") && error.to_string().contains("$merge"), "{error}");
    // The other stage numbers what it inserts, and keeps the number of what it replaces.
    run(&shop, vec![doc! { "$merge": { "into": "target", "whenMatched": "replace" } }]).expect("merged");
    run(&shop, vec![doc! { "$merge": { "into": "target", "whenMatched": "replace" } }])
        .expect("merged again");
    let numbers: Vec<i64> =
        found(&shop, "target").iter().map(|found| found.get_i64("number").expect("one")).collect();
    assert_eq!(numbers, [2, 3, 4, 1]);
    check_nothing_is_left(&client, 2);
}

#[test]
fn what_merge_wrote_before_an_error_stays() {
    let client = client();
    let shop = shop(&client, 10);
    let stages = vec![doc! { "$sort": { "_id": 1 } }, divide_by_zero_at(4), doc! { "$merge": "target" }];
    assert_eq!(refused(&shop, stages).code(), Some(2));
    assert_eq!(found(&shop, "target").len(), 4);
    collection(&shop, "target").delete_one(doc! { "_id": 0 }).run().expect("deleted");
    let fail = doc! { "$merge": { "into": "target", "whenMatched": "fail" } };
    let error = refused(&shop, vec![doc! { "$sort": { "_id": 1 } }, fail]);
    assert!(error.is_duplicate_key(), "{error}");
    assert_eq!(found(&shop, "target").len(), 4, "the first is there again, and none after the second");
}

#[test]
fn both_write_to_another_database() {
    let client = client();
    let shop = shop(&client, 3);
    run(&shop, vec![doc! { "$out": { "db": "reports", "coll": "out" } }]).expect("written");
    run(&shop, vec![doc! { "$merge": { "into": { "db": "reports", "coll": "merged" } } }]).expect("merged");
    let reports = client.database("reports");
    assert_eq!(names(&reports), ["merged", "out"]);
    assert_eq!(found(&reports, "out"), found(&shop, "source"));
    assert_eq!(found(&reports, "merged"), found(&shop, "source"));
    // From a pipeline on a database as well.
    let numbers = doc! { "$documents": [{ "_id": 7 }] };
    let written =
        client.database("fresh").aggregate([numbers, doc! { "$out": "numbers" }]).run().expect("written");
    assert_eq!(written.count(), 0);
    assert_eq!(found(&client.database("fresh"), "numbers"), [doc! { "_id": 7 }]);
    // Names of databases that differ in case alone are rejected, as for every new collection.
    let error = refused(&shop, vec![doc! { "$out": { "db": "Reports", "coll": "x" } }]);
    assert_eq!(error.code(), Some(13_297), "{error}");
}

#[test]
fn a_store_that_is_open_for_reading_refuses_both() {
    let scratch = Scratch::new();
    let client = scratch.open();
    shop(&client, 3);
    client.close().expect("closed");
    let reader = scratch.open_with(Client::builder().read_only(true));
    let shop = reader.database("shop");
    let insert = collection(&shop, "target").insert_one(doc! {}).run().expect_err("a reader");
    // One that would write nothing is rejected too.
    for stage in [doc! { "$out": "target" }, doc! { "$merge": "target" }] {
        for filter in [doc! {}, doc! { "n": 99 }] {
            let error = refused(&shop, vec![doc! { "$match": filter }, stage.clone()]);
            assert_eq!(error.to_string(), insert.to_string());
        }
    }
}

#[test]
fn an_explanation_shows_the_stage_and_writes_nothing() {
    let client = client();
    let shop = shop(&client, 3);
    let explain = |stage: Document, verbosity: &str| {
        let aggregate =
            doc! { "aggregate": "source", "pipeline": [{ "$match": { "n": 1 } }, stage], "cursor": {} };
        shop.run_command(doc! { "explain": aggregate, "verbosity": verbosity }).run()
    };
    for (stage, code) in [(doc! { "$out": "target" }, 51_029), (doc! { "$merge": "target" }, 51_184)] {
        let explained = explain(stage.clone(), "queryPlanner").expect("explained");
        let stages = explained.get_array("stages").expect("stages");
        assert_eq!(stages.last().and_then(Bson::as_document), Some(&stage), "{explained}");
        for verbosity in ["executionStats", "allPlansExecution"] {
            assert_eq!(explain(stage.clone(), verbosity).expect_err("refused").code(), Some(code));
        }
    }
    // It is rejected for what the pipeline itself would be rejected for.
    let merge = doc! { "$merge": { "into": "target", "on": "n" } };
    assert_eq!(explain(merge, "queryPlanner").expect_err("refused").code(), Some(51_183));
    assert_eq!(
        explain(doc! { "$out": "system.x" }, "queryPlanner").expect_err("refused").code(),
        Some(17_385)
    );
    assert_eq!(names(&shop), ["source"]);
}

#[test]
fn a_command_gives_an_empty_first_batch() {
    let client = client();
    let shop = shop(&client, 3);
    for stage in [doc! { "$out": "target" }, doc! { "$merge": "target" }] {
        let command = doc! {
            "aggregate": "source", "pipeline": [stage], "cursor": {}, "writeConcern": { "w": 1, "j": true },
            "bypassDocumentValidation": true, "allowDiskUse": true,
        };
        let reply = shop.run_command(command).run().expect("written");
        let cursor = reply.get_document("cursor").expect("a cursor");
        assert_eq!(cursor.get_array("firstBatch").expect("a batch"), &Vec::new());
        assert_eq!(cursor.get_str("ns").expect("a name"), "shop.source");
    }
    assert_eq!(found(&shop, "target").len(), 3);
}

/// Replaces the target again and again, each time by documents of one generation, while others use it. Returns what `check`
/// gives of the generations that a reader finds, until all replacements are done.
fn replace_beside(shop: &Database, rounds: i64, meddle: impl Fn() + Sync, check: impl Fn(&[i64])) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&is_done);
            for generation in 1..=rounds {
                let stages = vec![doc! { "$set": { "generation": generation } }, doc! { "$out": "target" }];
                run(shop, stages).expect("written");
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                meddle();
            }
        });
        while !is_done.load(Ordering::Acquire) {
            let generations: Vec<i64> =
                found(shop, "target").iter().map(|found| found.get_i64("generation").unwrap_or(0)).collect();
            check(&generations);
        }
    });
}

#[test]
fn readers_see_the_old_documents_or_the_new_ones() {
    let client = client();
    let shop = shop(&client, 300);
    let counted = AtomicUsize::new(0);
    replace_beside(&shop, 60, thread::yield_now, |generations| {
        assert!(matches!(generations.len(), 0 | 300), "{} documents", generations.len());
        assert!(generations.windows(2).all(|pair| pair[0] == pair[1]), "{generations:?}");
        counted.fetch_add(1, Ordering::Relaxed);
    });
    assert!(counted.into_inner() > 0, "no reader came between");
    check_nothing_is_left(&client, 2);
}

#[test]
fn a_target_that_is_dropped_renamed_and_written_to_meanwhile_is_whole_or_absent() {
    let client = client();
    let shop = shop(&client, 200);
    let target = collection(&shop, "target");
    let meddle = || {
        // Each may come when no such collection exists.
        drop(target.rename("moved").drop_target(true).run());
        target.insert_one(doc! { "generation": -1_i64 }).run().expect("inserted");
        target.drop().run().expect("dropped");
    };
    replace_beside(&shop, 60, meddle, |generations| {
        // A document of a writer is in the old collection or in the new one, and never among the documents of a call.
        let own = generations.iter().filter(|generation| **generation >= 0).count();
        assert!(matches!(own, 0 | 200), "{own} documents of a call");
    });
    check_nothing_is_left(
        &client,
        client.database("shop").list_collection_names().run().expect("names").len() as u64,
    );
}

#[test]
fn out_fails_if_the_indexes_of_its_target_change_meanwhile() {
    let client = client();
    let shop = shop(&client, 500);
    let target = collection(&shop, "target");
    target.insert_one(doc! { "_id": "old", "n": -1 }).run().expect("inserted");
    let is_done = AtomicBool::new(false);
    let mut refusals = 0;
    thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                target.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().ok();
                target.drop_index("n_1").run().ok();
            }
        });
        for _ in 0..2_000 {
            match run(&shop, vec![doc! { "$out": "target" }]) {
                Ok(()) => {}
                // An index that is being built, or one that came or went.
                Err(error) => {
                    assert!(matches!(error.code(), Some(125 | 12_587)), "{error}");
                    refusals += usize::from(error.code() == Some(125));
                }
            }
            if refusals > 2 {
                break;
            }
        }
        is_done.store(true, Ordering::Release);
    });
    assert!(refusals > 0, "no change of the indexes fell within a call");
    check_nothing_is_left(&client, 2);
}

#[test]
fn a_database_that_is_dropped_meanwhile_takes_the_gathered_documents_with_it() {
    let client = client();
    let shop = shop(&client, 300);
    let reports = client.database("reports");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                reports.drop().run().expect("dropped");
            }
        });
        for _ in 0..150 {
            match run(&shop, vec![doc! { "$out": { "db": "reports", "coll": "target" } }]) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.code(), Some(26), "{error}"),
            }
        }
        is_done.store(true, Ordering::Release);
    });
    reports.drop().run().expect("dropped");
    assert_eq!(client.list_database_names().run().expect("names"), ["shop"]);
    check_nothing_is_left(&client, 1);
}

#[test]
fn merges_of_many_threads_lose_nothing() {
    const THREADS: i32 = 4;
    const ROUNDS: i32 = 25;
    let client = client();
    let shop = shop(&client, 20);
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "key": 1 }).options(unique).build();
    collection(&shop, "by_key").create_index(index).run().expect("an index");
    let add = doc! { "$set": { "sum": { "$add": ["$sum", "$$new.sum"] } } };
    // All of them insert at first: of the documents with one key one is inserted, and the others change it.
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let one = doc! { "$project": { "sum": { "$literal": 1 } } };
                    let merge = doc! { "$merge": { "into": "sums", "whenMatched": [add.clone()] } };
                    run(&shop, vec![one, merge]).expect("merged");
                    let one = doc! { "$project": { "_id": 0, "key": "$n", "sum": { "$literal": 1 } } };
                    let merge =
                        doc! { "$merge": { "into": "by_key", "on": "key", "whenMatched": [add.clone()] } };
                    run(&shop, vec![one, merge]).expect("merged by a key");
                }
            });
        }
    });
    for name in ["sums", "by_key"] {
        let sums: Vec<i32> =
            found(&shop, name).iter().map(|found| found.get_i32("sum").expect("a sum")).collect();
        assert_eq!(sums, [THREADS * ROUNDS; 20], "{name}");
    }
    check_nothing_is_left(&client, 3);
}

#[test]
fn a_target_that_is_dropped_during_a_merge_is_made_again() {
    let client = client();
    let shop = shop(&client, 200);
    let target = collection(&shop, "target");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                target.drop().run().expect("dropped");
            }
        });
        for _ in 0..20 {
            run(&shop, vec![doc! { "$merge": "target" }]).expect("merged");
        }
        is_done.store(true, Ordering::Release);
    });
    run(&shop, vec![doc! { "$merge": "target" }]).expect("merged");
    assert_eq!(found(&shop, "target"), found(&shop, "source"));
    check_nothing_is_left(&client, 2);
}

#[test]
fn an_index_that_is_partial_hidden_or_wider_does_not_identify_documents() {
    let client = client();
    let shop = shop(&client, 3);
    let target = collection(&shop, "target");
    let merge = vec![doc! { "$project": { "_id": 0 } }, doc! { "$merge": { "into": "target", "on": "n" } }];
    let partial =
        IndexOptions::builder().unique(true).partial_filter_expression(doc! { "n": { "$gt": 0 } }).build();
    let hidden = IndexOptions::builder().unique(true).hidden(true).build();
    let unique = IndexOptions::builder().unique(true).build();
    for (keys, options) in
        [(doc! { "n": 1 }, partial), (doc! { "n": 1 }, hidden), (doc! { "n": 1, "m": 1 }, unique)]
    {
        target
            .create_index(IndexModel::builder().keys(keys).options(options).build())
            .run()
            .expect("an index");
        assert_eq!(refused(&shop, merge.clone()).code(), Some(51_183));
        target.drop_indexes().run().expect("dropped");
    }
    let sparse = IndexOptions::builder().unique(true).sparse(true).build();
    target
        .create_index(IndexModel::builder().keys(doc! { "n": -1 }).options(sparse).build())
        .run()
        .expect("an index");
    run(&shop, merge).expect("merged");
    assert_eq!(found(&shop, "target").len(), 3);
}

#[test]
fn a_pipeline_that_writes_cannot_read_linearizably() {
    let client = client();
    let shop = client.database("shop");
    shop.collection::<Document>("a").insert_one(doc! { "_id": 1 }).run().expect("stored");
    for (stage, name) in [(doc! { "$out": "b" }, "$out"), (doc! { "$merge": "b" }, "$merge")] {
        let level = |level: &str| {
            let command = doc! { "aggregate": "a", "pipeline": [stage.clone()], "cursor": {} };
            let concern = doc! { "readConcern": { "level": level } };
            shop.run_command(command.into_iter().chain(concern).collect::<Document>()).run()
        };
        let refused = level("linearizable").expect_err("refused");
        assert!(refused.code() == Some(72) && refused.to_string().contains(name), "{refused}");
        assert!(!shop.list_collection_names().run().expect("listed").contains(&"b".to_owned()));
        assert!(level("majority").is_ok());
        shop.collection::<Document>("b").drop().run().expect("dropped");
    }
}
