//! `cairn migrate` as a process. There is no MongoDB here: the cluster is a server of CairnDB, reached by MongoDB's driver,
//! whose sequences the tool does not use.

#![cfg(feature = "remote")]
#![allow(clippy::indexing_slicing, reason = "reports whose fields are known")]

use std::process::{Output, Stdio};

use cairndb::Client;
use cairndb::bson::{Document, doc};
use cairndb_counters::{Numbered, Numbers};
use serde_json::Value;

use crate::fixture::content::{Content, of_store};
use crate::fixture::migrating::{cluster, migrate, plan, refusing, uri, with_fault, without_numbers};
use crate::fixture::restoring::{are_same, dumped, succeeds};
use crate::fixture::rich::{fill, kinds, next_numbers, run};
use crate::fixture::{Fixture, complains, number, report};

fn source(is_served: bool) -> Fixture {
    let mut source = Fixture::new(&[], false);
    fill(&source.path("db"));
    if is_served {
        source.serve();
    }
    source
}

/// All types, all kinds of indexes, validators, views and hostile names, from a folder and from a server.
#[test]
fn a_migrated_store_is_the_source() {
    for (is_served, jobs) in [(false, "1"), (true, "3")] {
        let (source, target) = (source(is_served), cluster());
        let report = report(&migrate(&source, &target, &["-j", jobs, "--json"]));
        let expected = without_numbers(dumped(&source));
        let mut moved = without_numbers(dumped(&target));
        let counters = moved.keys().filter(|(_, name)| name == "counters").count();
        moved.retain(|(_, name), _| name != "counters");
        are_same(&moved, &expected);
        assert_eq!((counters, number(&report, "sequences")), (2, 19));
        let documents: u64 = expected.values().map(|(bytes, _)| formats_count(bytes)).sum();
        assert_eq!(number(&report, "documents"), documents);
        assert_eq!((number(&report, "differences"), number(&report, "leftOut")), (0, 0));
        assert_eq!(source.files(), [] as [&str; 0], "no state is left");
    }
}

fn formats_count(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(len) = bytes.first_chunk::<4>() {
        bytes = &bytes[usize::try_from(i32::from_le_bytes(*len)).expect("it is a length")..];
        count += 1;
    }
    count
}

/// There and back: every field and every sequence numbers on as if it had never left.
#[test]
fn numbers_go_on_there_and_back() {
    for is_served in [false, true] {
        let (source, middle) = (source(false), cluster());
        succeeds(&migrate(&source, &middle, &[]));
        let mut target = Fixture::new(&[], false);
        if is_served {
            target.serve();
        }
        let back = back(&target, &middle, &[]);
        succeeds(&back);
        if is_served {
            target.kill_in_order();
        }
        let (first, second) =
            (Client::open(source.path("db")).unwrap(), Client::open(target.path("db")).unwrap());
        assert_eq!(next_numbers(&second, ""), next_numbers(&first, ""));
        assert!(second.verify().unwrap().is_clean());
        first.close().unwrap();
        second.close().unwrap();
    }
}

/// A migration from the cluster, with all fields and sequences of the fixture.
fn back(target: &Fixture, middle: &Fixture, more: &[&str]) -> Output {
    let mut command = target.run("migrate", &["--from", &uri(middle)]);
    for (name, _, _) in kinds() {
        command.args(["--number", &format!("numbers.{name}:n.value=counters/{name}.n.value")]);
        command.args(["--sequence", &format!("tickets.{name}=tickets.counters/{name}")]);
    }
    command
        .args(["--sequence", "tickets.restarted=counters/restarted"])
        .args(more)
        .output()
        .expect("it works")
}

/// A program that goes on by `cairndb-counters` gets the numbers that it would have got from the store. The two contracts that
/// a standalone has no counterpart for are left out.
#[test]
fn an_application_numbers_on_in_the_cluster() {
    let (source, target) = (source(false), cluster());
    succeeds(&migrate(&source, &target, &[]));
    let store = Client::open(source.path("db")).unwrap();
    let mut expected = next_numbers(&store, "");
    store.close().unwrap();
    expected.retain(|(name, _)| !name.ends_with("ordered") && !name.ends_with("gapless"));
    let client = cairndb_counters::cluster::Client::with_uri_str(uri(&target)).unwrap();
    let (numbers, tickets) = (client.database("numbers"), client.database("tickets"));
    let told = |number: cairndb_counters::Result<i64>| match number {
        Ok(number) => number.to_string(),
        Err(error) => format!("{:?}", error.sequoia_code()),
    };
    let next = expected.iter().map(|(name, _)| {
        let one = |_| match name.split_once(' ').unwrap() {
            ("field", collection) => {
                let inserted = numbers.collection::<Document>(collection).insert_one_numbered(doc! {});
                told(inserted.map(|inserted| inserted.generated["n.value"]))
            }
            (_, sequence) => told(tickets.next_value(sequence)),
        };
        (name.clone(), (0..3).map(one).collect::<Vec<_>>())
    });
    assert_eq!(next.collect::<Vec<_>>(), expected);
}

/// A killed process has said of no value that it was used up to there. What it may have used is skipped.
#[test]
fn numbers_of_a_killed_store_do_not_come_again() {
    let (mut source, middle) = (source(false), cluster());
    source.serve();
    let client = mongodb::sync::Client::with_uri_str(uri(&source)).unwrap();
    let mut used = Vec::new();
    for _ in 0..5 {
        let command = mongodb::bson::doc! { "sequenceNext": "fast" };
        let reply = client.database("tickets").run_command(command).run().unwrap();
        used.push(reply.get_i64("NextValue").unwrap());
    }
    source.kill();
    succeeds(&migrate(&source, &middle, &[]));
    let target = Fixture::new(&[], false);
    succeeds(&back(&target, &middle, &[]));
    let client = Client::open(target.path("db")).unwrap();
    let next = client.database("tickets").sequence("fast").next_value().run().unwrap();
    assert!(used.iter().all(|used| *used < next), "{used:?}, {next}");
    client.close().unwrap();
}

/// A counter stands beyond what documents have, and never goes back.
#[test]
fn a_counter_is_beyond_every_value_used_on_either_side() {
    let (source, target) = (Fixture::new(&[], false), cluster());
    let client = Client::open(source.path("db")).unwrap();
    run(&client, "shop", doc! { "create": "bills", "autoIncrement": { "Field": "n" } });
    let bills = client.database("shop").collection::<Document>("bills");
    bills.insert_one(doc! {}).run().unwrap();
    bills.insert_one(doc! { "n": 70 }).run().unwrap();
    run(&client, "shop", doc! { "createSequence": "tickets" });
    run(&client, "shop", doc! { "sequenceNext": "tickets" });
    client.close().unwrap();
    let there = mongodb::sync::Client::with_uri_str(uri(&target)).unwrap();
    let counters = there.database("shop").collection::<mongodb::bson::Document>("counters");
    counters.insert_one(mongodb::bson::doc! { "_id": "tickets", "seq": 900_i64, "mine": 1 }).run().unwrap();
    succeeds(&migrate(&source, &target, &[]));
    let counter = |id: &str| counters.find_one(mongodb::bson::doc! { "_id": id }).run().unwrap().unwrap();
    assert_eq!(counter("bills.n").get_i64("seq").unwrap(), 70);
    let expected = mongodb::bson::doc! {
        "_id": "bills.n", "seq": 70_i64, "inc": 1_i64, "min": 1_i64, "max": i64::MAX, "cycled": false, "contract": "fast",
        "block": 1000_i64, "database": "shop", "collection": "bills", "field": "n", "generated": "default", "generateOnNull": false,
    };
    let sorted = |document: mongodb::bson::Document| {
        document.into_iter().collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(sorted(counter("bills.n")), sorted(expected));
    assert_eq!(
        (counter("tickets").get_i64("seq").unwrap(), counter("tickets").get_i32("mine").unwrap()),
        (900, 1)
    );
}

#[test]
fn a_plan_says_all_and_writes_nothing() {
    for is_served in [false, true] {
        let (source, target) = (source(is_served), cluster());
        let output = plan(&source, &target, &[]);
        succeeds(&output);
        let text = String::from_utf8(output.stdout).unwrap();
        for words in [
            "  shop.orders: about 301 documents, indexes sku, tags_1_total_-1, maybe, at, large, secret, all, some, a validator",
            "  shop.newest: a view",
            "  odd.a\\nb: about 1 document",
            "note: numbers.gapless, field n.value: its contract gapless needs transactions",
            "note: tickets, sequence ordered: its contract ordered has no counterpart",
            "it becomes the counter tickets.counters/descending, at -15",
            "note: users and roles: they are never moved",
            "note: shop.orders: the cluster removes documents by its index at",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let report = report(&plan(&source, &target, &["--json"]));
        assert_eq!(report["moved"].as_array().unwrap().len(), dumped(&source).len());
        assert!(report["cluster"].as_str().unwrap().starts_with("MongoDB 8.0"), "{report}");
        assert_eq!(dumped(&target), Content::new());
        assert_eq!(source.files(), [] as [&str; 0]);
    }
}

#[test]
fn what_is_there_keeps_a_migration_from_beginning() {
    let (source, mut target) = (source(false), Fixture::new(&[], false));
    let client = Client::open(target.path("db")).unwrap();
    let shop = client.database("shop");
    shop.collection::<Document>("types").insert_one(doc! { "_id": 1 }).run().unwrap();
    run(&client, "shop", doc! { "create": "newest" });
    run(&client, "shop", doc! { "create": "again", "viewOn": "other", "pipeline": [] });
    run(&client, "shop", doc! { "createIndexes": "orders", "indexes": [{ "key": { "x": 1 }, "name": "x" }] });
    run(&client, "shop", doc! { "create": "empty", "validator": { "a": 1 } });
    run(&client, "NUMBERS", doc! { "create": "a" });
    client.close().unwrap();
    target.serve();
    let before = dumped(&target);
    for more in [&["--json", "--plan"][..], &["--json"]] {
        let output = migrate(&source, &target, more);
        complains(&output, 4, "does not begin: 6 things");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let plan = report["plan"].as_array().unwrap().iter();
        let lines: Vec<String> = plan
            .filter(|remark| remark["level"] == "blocker")
            .map(|remark| format!("{}: {}", remark["subject"], remark["what"]).replace('"', ""))
            .collect();
        for words in [
            "shop.types: it has documents in the target",
            "shop.newest: the target has a collection of this name",
            "the target: shop.again: other option viewOn in the target",
            "the target: shop.orders, index x: it is not in the source",
            "the target: shop.empty: other options",
            "numbers: the target has a database NUMBERS",
        ] {
            assert!(lines.iter().any(|line| line.contains(words)), "{words}: {lines:?}");
        }
    }
    assert_eq!(dumped(&target), before);
    assert_eq!(source.files(), [] as [&str; 0]);
    let elsewhere = ["--rename", "shop.*=shop2.*", "--rename", "numbers.*=n.*"];
    succeeds(&migrate(&source, &target, &elsewhere));
}

#[test]
fn an_empty_collection_that_is_the_same_is_used() {
    let (source, mut target) = (source(false), Fixture::new(&[], false));
    let client = Client::open(target.path("db")).unwrap();
    let sku = doc! { "key": { "sku": 1 }, "name": "sku", "unique": true };
    run(&client, "shop", doc! { "createIndexes": "orders", "indexes": [sku] });
    run(&client, "shop", doc! { "create": "again", "viewOn": "newest", "pipeline": [] });
    client.close().unwrap();
    target.serve();
    succeeds(&migrate(&source, &target, &[]));
}

#[test]
fn counters_of_two_sequences_are_never_one() {
    let source = Fixture::new(&[], false);
    let client = Client::open(source.path("db")).unwrap();
    run(&client, "a", doc! { "create": "x.y", "autoIncrement": { "Field": "z" } });
    run(&client, "a", doc! { "create": "x", "autoIncrement": { "Field": "y.z" } });
    run(&client, "b", doc! { "createSequence": "s" });
    run(&client, "c", doc! { "createSequence": "s" });
    run(&client, "c", doc! { "create": "counters" });
    client.close().unwrap();
    let target = cluster();
    let blocked = |more: &[&str], words: &str| {
        let output = plan(&source, &target, more);
        complains(&output, 4, "does not begin");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(words), "{words}: {text}");
    };
    blocked(&["--include", "a.*"], "would both be the counter a.counters/x.y.z");
    blocked(&["--exclude", "a.*", "--counters", "d.numbers"], "would both be the counter d.numbers/s");
    let none = plan(&source, &target, &["--include", "e.*"]);
    complains(&none, 2, "--include e.*: the store has no collection");
    let neither = source.run("migrate", &["--plan"]).output().unwrap();
    complains(&neither, 2, "<--to <URI>|--from <URI>>");
    blocked(&["--include", "c.*"], "c.counters: it is a collection of the store");
    succeeds(&migrate(&source, &target, &["--include", "c.*", "--counters", "d.numbers"]));
    let content = dumped(&target);
    assert!(content.contains_key(&("d".to_owned(), "numbers".to_owned())), "{:?}", content.keys());
}

/// The target is changed after the copy and before the comparison, which finds and names each difference.
#[test]
fn planted_differences_are_found_and_named() {
    let (source, mut target) = (source(false), Fixture::new(&[], false));
    target.serve_with(&["--enable-test-commands"]);
    // Indexes come after the documents.
    with_fault(&target, "createIndexes", || {
        complains(&migrate(&source, &target, &[]), 1, "give the same command again to continue");
    });
    assert_eq!(source.files(), ["db.cairn-migrate"]);
    target.kill_in_order();
    let client = Client::open(target.path("db")).unwrap();
    let shop = client.database("shop");
    let orders = shop.collection::<Document>("orders");
    orders.update_one(doc! { "_id": 7 }, doc! { "$set": { "sku": "s8" } }).run().unwrap();
    orders.delete_one(doc! { "_id": 8 }).run().unwrap();
    orders.insert_one(doc! { "_id": "more" }).run().unwrap();
    let hidden = doc! { "key": { "maybe": 1 }, "name": "maybe", "sparse": true, "hidden": true };
    run(&client, "shop", doc! { "createIndexes": "orders", "indexes": [hidden] });
    run(&client, "shop", doc! { "create": "newest", "viewOn": "types", "pipeline": [] });
    client.close().unwrap();
    target.serve();
    let output = migrate(&source, &target, &["--json"]);
    for words in [
        "shop.orders, _id 7: it is not the same as in the source",
        "shop.orders, _id 8: it is not in the target",
        "shop.orders, _id \"more\": it is not in the source",
        "shop.orders, index maybe: it is another one in the target",
        "shop.newest: other options pipeline, viewOn in the target",
    ] {
        complains(&output, 4, words);
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&report, "differingDocuments"), 3);
    assert_eq!(source.files(), ["db.cairn-migrate"], "it can be compared again");
    // The same again, until the target is corrected.
    complains(&migrate(&source, &target, &[]), 4, "_id 7");
    target.kill_in_order();
    let client = Client::open(target.path("db")).unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    orders.delete_one(doc! { "_id": "more" }).run().unwrap();
    orders.update_one(doc! { "_id": 7 }, doc! { "$set": { "sku": "s7" } }).run().unwrap();
    orders.insert_one(doc! { "_id": 8, "sku": "s8", "tags": ["a", 8], "total": 8 }).run().unwrap();
    run(&client, "shop", doc! { "dropIndexes": "orders", "index": "maybe" });
    run(&client, "shop", doc! { "drop": "newest" });
    client.close().unwrap();
    target.serve();
    succeeds(&migrate(&source, &target, &[]));
    assert_eq!(source.files(), [] as [&str; 0]);
}

/// A cluster may refuse what this project's server takes: it is named, the rest is carried, and both sides differ.
#[test]
fn what_the_cluster_refuses_is_named() {
    for (command, code, words, difference) in [
        ("createIndexes", 67, "shop.orders, index sku: ", "shop.orders, index sku: it is not in the target"),
        ("collMod", 40_415, "shop.orders, the validator: ", "shop.orders: other options validat"),
        (
            "insert",
            8_000,
            "shop.orders, _id 7: ",
            "shop.orders: 0 documents in the target, and 301 in the source",
        ),
    ] {
        let (source, mut target) = (source(false), Fixture::new(&[], false));
        target.serve_with(&["--enable-test-commands"]);
        refusing(&target, command, code, || {
            let output = migrate(&source, &target, &["--include", "shop.*"]);
            complains(&output, 4, words);
            complains(&output, 4, difference);
            if command == "insert" {
                complains(&output, 4, "more of this kind are counted and not named");
                complains(&output, 4, "shop.orders: 301 documents differ in all");
            }
        });
    }
}

/// What came by an attempt whose answer was lost is left if it is the same, and replaced otherwise.
#[test]
fn documents_that_are_there_already_are_looked_at() {
    let (source, mut target) = (source(false), Fixture::new(&[], false));
    target.serve_with(&["--enable-test-commands"]);
    with_fault(&target, "insert", || {
        complains(&migrate(&source, &target, &[]), 1, "");
    });
    target.kill_in_order();
    let client = Client::open(target.path("db")).unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 5, "sku": "s5", "tags": ["a", 5], "total": 5 }).run().unwrap();
    // The key is that of the integer, and the document is another one.
    orders.insert_one(doc! { "_id": 6.0, "sku": "s6" }).run().unwrap();
    client.close().unwrap();
    target.serve();
    let report = report(&migrate(&source, &target, &["--json"]));
    assert_eq!(number(&report, "alreadyThere"), 1);
    let expected = of_store(&source.path("db"));
    target.kill_in_order();
    let moved = of_store(&target.path("db"));
    let orders = ("shop".to_owned(), "orders".to_owned());
    assert_eq!(moved[&orders], expected[&orders]);
}

#[test]
fn namespaces_are_chosen_and_renamed() {
    let (source, target) = (source(false), cluster());
    let more = ["--include", "shop.*", "--exclude", "shop.types", "--rename", "shop.*=old.*"];
    succeeds(&migrate(&source, &target, &more));
    let names: Vec<(String, String)> = dumped(&target).into_keys().collect();
    let expected = ["again", "empty", "newest", "orders"].map(|name| ("old".to_owned(), name.to_owned()));
    assert_eq!(names, expected);
    // Views read what they read before, under its new name, or are not carried.
    let target = cluster();
    succeeds(&migrate(&source, &target, &["--include", "shop.*", "--rename", "shop.*=old.x_*"]));
    let found = dumped(&target);
    for (view, reads) in [("x_newest", "x_orders"), ("x_again", "x_newest")] {
        let (_, metadata) = &found[&("old".to_owned(), view.to_owned())];
        assert_eq!(metadata.options.get_str("viewOn").unwrap(), reads, "{view}");
    }
    let target = cluster();
    let output =
        migrate(&source, &target, &["--include", "shop.*", "--rename", "shop.orders=old.orders", "--plan"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("the view would be in shop, and shop.orders, which it reads, in old"), "{told}");
    let bad = ["--include", "shop.*", "--rename", "shop.orders=admin.system.users", "--plan"];
    complains(&migrate(&source, &target, &bad), 2, "system collections are reserved");
}

/// The cluster's own numbers, as an application keeps them by the pattern of MongoDB's manual.
#[test]
fn counters_of_an_application_become_numbers() {
    let middle = cluster();
    let there = mongodb::sync::Client::with_uri_str(uri(&middle)).unwrap();
    let shop = there.database("shop");
    let orders = shop.collection::<mongodb::bson::Document>("orders");
    orders.insert_many((1..=3).map(|n| mongodb::bson::doc! { "number": n })).run().unwrap();
    let counters = shop.collection::<mongodb::bson::Document>("counters");
    counters
        .insert_many([
            mongodb::bson::doc! { "_id": "orders", "seq": 3 },
            mongodb::bson::doc! { "_id": 7, "seq": 41.0 },
            mongodb::bson::doc! { "_id": "text", "seq": "41" },
        ])
        .run()
        .unwrap();
    let target = Fixture::new(&[], false);
    let from = uri(&middle);
    let run = |more: &[&str]| {
        let all: Vec<&str> = ["--from", &from].into_iter().chain(more.iter().copied()).collect();
        target.run("migrate", &all).output().unwrap()
    };
    complains(&run(&["--number", "shop.orders:number=counters/none"]), 4, "there is no such counter");
    complains(&run(&["--number", "shop.bills:number=counters/orders"]), 4, "no such collection is copied");
    complains(&run(&["--sequence", "shop.tickets=counters/text"]), 4, "its field seq is not a whole number");
    let all =
        ["--number", "shop.orders:number=counters/orders", "--sequence", "shop.tickets=shop.counters/7"];
    succeeds(&run(&all));
    let client = Client::open(target.path("db")).unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    let inserted = orders.insert_one(doc! {}).run().unwrap();
    assert_eq!(inserted.generated.get("number"), Some(4));
    assert_eq!(client.database("shop").sequence("tickets").next_value().run().unwrap(), 42);
    client.close().unwrap();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (source, target) = (source(false), cluster());
    let refused = |more: &[&str], status: i32, words: &str| {
        complains(&source.run("migrate", more).output().unwrap(), status, words);
    };
    let to = uri(&target);
    refused(&[], 2, "--to");
    refused(&["--to", &to, "--from", &to], 2, "cannot be used with");
    refused(&["--to", "other-folder"], 2, "--to needs a URI or a socket, and other-folder is neither");
    refused(&["--to", &to, "--counters", "numbers"], 2, "\"numbers\" is not a DB.COLLECTION");
    refused(&["--to", &to, "--number", "a.b:c=d/e"], 2, "cannot be used with");
    refused(&["--from", &to, "--number", "a.b=d/e"], 2, "it must name a field");
    refused(&["--from", &to, "--counters", "a.b"], 2, "cannot be used with");
    refused(&["--to", &to, "-j", "0"], 2, "0");
    refused(&["--to", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200"], 6, "no server can be reached");
    let absent = crate::fixture::cairn().args(["migrate", "/absent/store", "--to", &to]).output().unwrap();
    complains(&absent, 6, "/absent/store");
    let of_uri = crate::fixture::cairn().args(["migrate", &to, "--to", &to]).output().unwrap();
    complains(&of_uri, 2, "needs --state");
    std::fs::write(source.path("db.cairn-migrate"), "{}").unwrap();
    refused(&["--to", &to], 2, "db.cairn-migrate is not the state of a migration");
    let other = r#"{"version":1,"identity":"other","collections":{}}"#;
    std::fs::write(source.path("db.cairn-migrate"), other).unwrap();
    refused(&["--to", &to], 2, "other options");
    std::fs::remove_file(source.path("db.cairn-migrate")).unwrap();
    // A folder that another process writes to is not taken from it, and its plan can be made all the same.
    let client = Client::open(source.path("db")).unwrap();
    refused(&["--to", &to], 5, "is open in another process");
    succeeds(&plan(&source, &target, &[]));
    client.close().unwrap();
    assert_eq!(dumped(&target), Content::new());
}

#[test]
fn a_plan_for_a_folder_that_is_absent_makes_none() {
    let (source, target) = (cluster(), Fixture::new(&[], false));
    let new = target.path("new");
    let mut command = crate::fixture::cairn();
    command.arg("migrate").arg(&new).args(["--from", &uri(&source)]);
    succeeds(&command.arg("--plan").output().unwrap());
    assert!(!new.exists());
    let mut command = crate::fixture::cairn();
    succeeds(&command.arg("migrate").arg(&new).args(["--from", &uri(&source)]).output().unwrap());
    assert!(new.join("CAIRNDB").exists());
}

#[test]
fn a_reader_that_is_gone_is_no_error() {
    let (source, target) = (source(false), cluster());
    for more in [&["--plan"][..], &["--plan", "--json"]] {
        let mut command = source.run("migrate", &["--to", &uri(&target)]);
        let mut child = command.args(more).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_counter_that_is_refused_is_named() {
    let (source, target) = (source(false), cluster());
    let there = mongodb::sync::Client::with_uri_str(uri(&target)).unwrap();
    let counters = there.database("tickets").collection::<mongodb::bson::Document>("counters");
    let validator = mongodb::bson::doc! { "create": "counters", "validator": { "_id": { "$ne": "fast" } } };
    there.database("tickets").run_command(validator).run().unwrap();
    complains(&migrate(&source, &target, &[]), 1, "counter tickets.counters/fast");
    assert_eq!(counters.count_documents(mongodb::bson::doc! { "_id": "fast" }).run().unwrap(), 0);
}

/// 192 documents of 1 MiB go through a process that may have 64 MiB beside its cache, whatever it is at.
#[test]
fn memory_does_not_grow_with_the_documents() {
    let (source, target) = (Fixture::new(&[], false), cluster());
    let client = Client::open(source.path("db")).unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    let text = "x".repeat(1 << 20);
    for id in 0..192 {
        orders.insert_one(doc! { "_id": id, "text": &text }).run().unwrap();
    }
    drop(orders);
    // Otherwise opening reads the log into memory.
    client.flush().unwrap();
    client.close().unwrap();
    let mut command = source.run("migrate", &["--to", &uri(&target), "-j", "2"]);
    let mut child =
        command.args(["--memory", &(32_u32 << 20).to_string()]).stderr(Stdio::null()).spawn().unwrap();
    let (_held, never) = std::sync::mpsc::channel::<()>();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(kibibytes_of(child.id()).unwrap_or(0));
        assert!(never.recv_timeout(std::time::Duration::from_millis(5)).is_err());
    }
    assert!(child.wait().unwrap().success());
    assert!(most > 0 && most < (32 + 64) << 10, "{most} KiB");
}

/// What a process has in memory that is not of a file, if it is still there.
fn kibibytes_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
