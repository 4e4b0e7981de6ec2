//! Numbers after `cairn restore`: they go on after the last one, whatever the contract, also of a store whose process was
//! killed or that others write to.

#![cfg(feature = "remote")]

use std::collections::BTreeMap;

use cairndb::Client;
use cairndb::bson::{Document, doc};

use crate::fixture::content::{Content, of_archive};
use crate::fixture::restoring::{path, restore, succeeds, target};
use crate::fixture::rich::{fill, next_numbers, run};
use crate::fixture::{Fixture, SetWhenDropped, complains, read};

/// The numbers of a store that was closed in order, and of what was restored from it, are the same; also after a second
/// dump, and under other names.
#[test]
fn numbers_go_on_after_the_last_one() {
    let source = Fixture::new(&[], false);
    fill(&source.path("db"));
    succeeds(&source.run("dump", &["d"]).output().unwrap());
    let target = target(false);
    restore(&target, &[path(&source.path("d")), "--verify"]);
    succeeds(&target.run("dump", &["--archive", "again"]).output().unwrap());
    restore(
        &target,
        &[
            "--archive",
            "again",
            "--rename",
            "numbers.*=numbers2.*",
            "--rename",
            "tickets.*=tickets2.*",
            "--include",
            "numbers.*",
            "--include",
            "tickets.*",
        ],
    );
    let first = Client::open(source.path("db")).unwrap();
    let second = Client::open(target.path("db")).unwrap();
    let expected = next_numbers(&first, "");
    assert_eq!(next_numbers(&second, ""), expected);
    assert_eq!(next_numbers(&second, "2"), expected);
    assert!(second.verify().unwrap().is_clean());
    let of = |name: &str| expected.iter().find(|(other, _)| other == name).unwrap().1.clone();
    assert_eq!(of("field fast"), ["4", "5", "6"]);
    assert_eq!(of("field unused"), ["70", "71", "72"]);
    assert_eq!(of("sequence descending"), ["-22", "-29", "-36"]);
    assert_eq!(of("field cycled"), ["3", "4", "1"]);
    assert_eq!(of("sequence exhausted"), ["Some(-325)"; 3]);
    assert_eq!(of("sequence restarted"), ["700", "701", "702"]);
    first.close().unwrap();
    second.close().unwrap();
}

/// A killed process has said of no value that it was used up to there. What it may have used is skipped.
#[test]
fn after_a_kill_no_number_comes_twice() {
    let mut source = Fixture::new(&[], false);
    fill(&source.path("db"));
    source.serve();
    let socket = path(&source.path("s.sock")).replace('/', "%2F");
    let client =
        mongodb::sync::Client::with_uri_str(format!("mongodb://{socket}/?directConnection=true")).unwrap();
    let mut used: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for name in ["fast", "ordered", "gapless", "descending"] {
        let collection = client.database("numbers").collection::<Document>(name);
        for id in 0..7 {
            collection.insert_one(doc! { "_id": format!("new{id}") }).run().unwrap();
            let document = collection.find_one(doc! { "_id": format!("new{id}") }).run().unwrap().unwrap();
            used.entry(name).or_default().push(document.get_document("n").unwrap().get_i64("value").unwrap());
            let next = client.database("tickets").run_command(doc! { "sequenceNext": name }).run().unwrap();
            used.entry(name).or_default().push(next.get_i64("NextValue").unwrap());
        }
    }
    // The server is killed, not stopped.
    source.kill();
    succeeds(&source.run("dump", &["--archive", "a"]).output().unwrap());
    let target = target(false);
    restore(&target, &["--archive", path(&source.path("a")), "--verify"]);
    let restored = Client::open(target.path("db")).unwrap();
    for (name, next) in next_numbers(&restored, "") {
        let (kind, name) = name.split_once(' ').unwrap();
        let Some(used) = used.get(name) else { continue };
        for value in next {
            let value: i64 = value.parse().unwrap();
            let is_beyond =
                used.iter().all(|used| if name == "descending" { value < *used } else { value > *used });
            assert!(is_beyond, "{kind} {name}: {value} after {used:?}");
        }
    }
    restored.close().unwrap();
}

/// Fields and sequences that are there go on from wherever is further.
#[test]
fn positions_never_go_back_in_what_exists() {
    let source = Fixture::new(&[], false);
    fill(&source.path("db"));
    succeeds(&source.run("dump", &["d", "--include", "*.fast", "--include", "*.gapless"]).output().unwrap());
    let target = target(false);
    let client = Client::open(target.path("db")).unwrap();
    // One is behind what the dump says, one is ahead.
    for (name, used) in [("fast", 1), ("gapless", 9)] {
        let field = doc! { "Field": "n.value" };
        run(&client, "numbers", doc! { "create": name, "autoIncrement": field });
        run(&client, "tickets", doc! { "createSequence": name });
        for _ in 0..used {
            let inserted =
                client.database("numbers").collection::<Document>(name).insert_one(doc! {}).run().unwrap();
            client
                .database("numbers")
                .collection::<Document>(name)
                .delete_one(doc! { "_id": inserted.inserted_id })
                .run()
                .unwrap();
            client.database("tickets").sequence(name).next_value().run().unwrap();
        }
    }
    client.close().unwrap();
    restore(&target, &[path(&source.path("d")), "--into-existing"]);
    let client = Client::open(target.path("db")).unwrap();
    for (name, next) in [("fast", 4), ("gapless", 10)] {
        let inserted =
            client.database("numbers").collection::<Document>(name).insert_one(doc! {}).run().unwrap();
        assert_eq!(inserted.generated.get("n.value"), Some(next), "{name}");
        assert_eq!(client.database("tickets").sequence(name).next_value().run().unwrap(), next, "{name}");
    }
    client.close().unwrap();
}

/// A dump that is made while others write has no document with a number that is given again after restoring, neither by a
/// field nor by a sequence whose values the application puts into documents. From a folder it is of one moment.
#[test]
fn a_dump_beside_a_writer_knows_every_number_that_it_has() {
    let mut source = Fixture::new(&[], false);
    let client = Client::open(source.path("db")).unwrap();
    run(
        &client,
        "shop",
        doc! { "create": "a", "autoIncrement": { "Field": "n", "CacheSize": 5, "AcquireSize": 5 } },
    );
    run(&client, "shop", doc! { "create": "b" });
    run(&client, "shop", doc! { "createSequence": "t", "options": { "Contract": "gapless" } });
    let write = |run: &dyn Fn(Document) -> Document, is_over: &dyn Fn() -> bool| {
        let mut id = 0;
        while !is_over() {
            id += 1;
            let ticket = run(doc! { "sequenceNext": "t" }).get_i64("NextValue").unwrap();
            run(doc! { "insert": "a", "documents": [{ "ticket": ticket }] });
            run(doc! { "insert": "b", "documents": [{ "_id": id, "ticket": ticket }] });
        }
    };
    let dumps = ["0", "1", "2", "3"];
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&over);
        scope.spawn(|| write(&|command| run(&client, "shop", command), &is_over));
        for name in dumps {
            succeeds(&source.run("dump", &["--archive", name]).output().unwrap());
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    client.close().unwrap();
    for name in dumps {
        let content = of_archive(&read(&source.path(name)));
        let count = |name: &str| documents_of(&content, name).len();
        assert!([0, 1].contains(&(count("a") - count("b"))), "{} {}", count("a"), count("b"));
        goes_on_beyond(&source, name);
    }
    source.serve();
    let socket = path(&source.path("s.sock")).replace('/', "%2F");
    let remote =
        mongodb::sync::Client::with_uri_str(format!("mongodb://{socket}/?directConnection=true")).unwrap();
    let shop = remote.database("shop");
    run_remote(&shop, doc! { "delete": "b", "deletes": [{ "q": {}, "limit": 0 }] });
    over.store(false, std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&over);
        scope.spawn(|| write(&|command| run_remote(&shop, command), &is_over));
        for name in dumps {
            succeeds(&source.run("dump", &["--archive", &format!("r{name}")]).output().unwrap());
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for name in dumps {
        goes_on_beyond(&source, &format!("r{name}"));
    }
}

fn run_remote(database: &mongodb::sync::Database, command: Document) -> Document {
    database.run_command(command).run().expect("it works")
}

fn documents_of(content: &Content, name: &str) -> Vec<Document> {
    let (bytes, _) = content.get(&("shop".to_owned(), name.to_owned())).expect("it works");
    let mut stream = formats::dump::stream::DocumentStream::new(&**bytes);
    let (mut document, mut documents) = (Vec::new(), Vec::new());
    while stream.next(&mut document).expect("it works") {
        documents.push(cairndb::bson::deserialize_from_slice(&document).expect("it works"));
    }
    documents
}

/// What is restored numbers beyond all that its documents have.
#[track_caller]
fn goes_on_beyond(source: &Fixture, archive: &str) {
    let content = of_archive(&read(&source.path(archive)));
    let greatest = |field: &str| {
        let all = ["a", "b"].into_iter().flat_map(|name| documents_of(&content, name));
        all.filter_map(|document| document.get_i64(field).ok()).max().unwrap_or_default()
    };
    let target = target(false);
    restore(&target, &["--archive", path(&source.path(archive)), "--verify"]);
    let client = Client::open(target.path("db")).expect("it works");
    let inserted =
        client.database("shop").collection::<Document>("a").insert_one(doc! {}).run().expect("it works");
    assert!(inserted.generated.get("n").is_some_and(|next| next > greatest("n")));
    let next = client.database("shop").sequence("t").next_value().run().expect("it works");
    assert!(next > greatest("ticket"), "{next} after {}", greatest("ticket"));
    client.close().expect("it works");
}

/// MongoDB has no such commands. A server of ours plays its part, which refuses them as unknown.
#[test]
fn a_server_without_sequences_gives_and_takes_the_rest() {
    let unknown = doc! {
        "configureFailPoint": "failCommand",
        "mode": "alwaysOn",
        "data": {
            "failCommands": ["listSequences", "sequenceSnapshot", "listAutoIncrements", "createAutoIncrement", "createSequence"],
            "errorCode": 59,
        },
    };
    let start = |fixture: &mut Fixture| {
        fixture.serve_with(&["--enable-test-commands"]);
        let socket = path(&fixture.path("s.sock")).replace('/', "%2F");
        let uri = format!("mongodb://{socket}/?directConnection=true");
        let client = mongodb::sync::Client::with_uri_str(uri).unwrap();
        run_remote(&client.database("admin"), unknown.clone());
    };
    let mut source = Fixture::new(&[], false);
    fill(&source.path("db"));
    succeeds(&source.run("dump", &["--archive", "with"]).output().unwrap());
    let expected = of_archive(&read(&source.path("with")));
    start(&mut source);
    succeeds(&source.run("dump", &["--archive", "without"]).output().unwrap());
    let content = of_archive(&read(&source.path("without")));
    assert_eq!(content.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(content.iter().all(|(name, (documents, _))| documents == &expected[name].0));
    assert!(content.values().all(|(_, metadata)| metadata.numbered.is_empty()));
    let mut target = target(false);
    start(&mut target);
    let output = target.run("restore", &["--archive", path(&source.path("with"))]).output().unwrap();
    for words in ["numbers.fast, auto-increment field n.value: ", "tickets, sequence gapless: "] {
        complains(&output, 3, words);
    }
    succeeds(&target.run("dump", &["--archive", "again"]).output().unwrap());
    let again = of_archive(&read(&target.path("again")));
    assert!(again.iter().all(|(name, (documents, _))| documents == &expected[name].0));
    assert_eq!(again.len(), expected.len());
}

/// What `sequences` says of the sequences of `tickets`, by name.
fn ledger(fixture: &Fixture) -> BTreeMap<String, (i64, Option<i64>, Option<i64>)> {
    let output = fixture.run("sequences", &["tickets", "--json"]).output().expect("it works");
    succeeds(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    let found = report.get("sequences").and_then(|found| found.as_array()).expect("sequences");
    let entry = |found: &serde_json::Value| {
        let field = |name: &str| found.get("snapshot")?.get(name).cloned();
        let number = |name: &str| field(name).and_then(|number| number.as_i64());
        let name = field("Name").and_then(|name| name.as_str().map(str::to_owned)).expect("a name");
        (name, (number("Lost").expect("a count"), number("UsedUpTo"), number("Remaining")))
    };
    found.iter().map(entry).collect()
}

/// The position was set after the sequence was made, which passes over values: the ledger called them lost, and a value of the
/// application brought by a document.
#[test]
fn a_restored_sequence_has_lost_nothing() {
    let mut source = Fixture::new(&[], false);
    fill(&source.path("db"));
    let client = Client::open(source.path("db")).unwrap();
    run(&client, "tickets", doc! { "createSequence": "t" });
    run(&client, "tickets", doc! { "sequenceNext": "t", "n": 7 });
    client.close().unwrap();
    succeeds(&source.run("dump", &["--archive", "closed"]).output().unwrap());
    let expected = ledger(&source);
    assert_eq!(expected["t"], (0, Some(7), Some(i64::MAX - 7)));
    for is_served in [false, true] {
        let target = target(is_served);
        restore(&target, &["--archive", path(&source.path("closed")), "--verify"]);
        for (name, (lost, used, left)) in ledger(&target) {
            assert_eq!(lost, 0, "{name}");
            assert_eq!((used, left), (expected[&name].1, expected[&name].2), "{name}");
        }
        for value in ["3", "7"] {
            let output =
                target.run("inspect", &["tickets", "--sequence", &format!("t={value}")]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("used") && !text.contains("lost"), "{text}");
        }
        let output = target.run("inspect", &["tickets", "--sequence", "t=8"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("lost"), "{output:?}");
    }
    // What a killed process may have used counts as used, and its own ledger alone says that it may be lost.
    source.serve();
    let socket = path(&source.path("s.sock")).replace('/', "%2F");
    let uri = format!("mongodb://{socket}/?directConnection=true");
    let remote = mongodb::sync::Client::with_uri_str(uri).unwrap();
    run_remote(&remote.database("tickets"), doc! { "sequenceNext": "t" });
    source.kill();
    succeeds(&source.run("dump", &["--archive", "killed"]).output().unwrap());
    let target = target(false);
    restore(&target, &["--archive", path(&source.path("killed")), "--verify"]);
    let (before, after) = (ledger(&source), ledger(&target));
    assert!(before["t"].0 > 0 && before["t"].1 > Some(8), "{before:?}");
    for (name, (lost, used, _)) in after {
        assert_eq!((lost, used), (0, before[&name].1), "{name}");
    }
}
