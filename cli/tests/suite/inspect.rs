//! `cairn inspect` as a process, on a folder and through a server.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, IndexModel, PlantedFault};
use serde_json::{Value, json};

use crate::fixture::examples::{SOURCES, printed};
use crate::fixture::{Fixture, cairn, complains, rich};

fn orders(client: &Client) -> Collection<Document> {
    client.database("shop").collection("orders")
}

/// A store that `fill` has filled, whose orders number themselves in blocks of ten.
fn numbered(is_served: bool, contract: Contract, fill: impl Fn(&Client)) -> Fixture {
    let mut fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let number = AutoIncrement::builder().field("number").increment(10).start_value(101).max_value(200_000);
    let number = number.cache_size(10).acquire_size(10).contract(contract).build();
    orders(&client).create_auto_increment(number).run().expect("it works");
    fill(&client);
    client.close().expect("it works");
    if is_served {
        fixture.serve();
    }
    fixture
}

fn insert(client: &Client, document: Document) {
    orders(client).insert_one(document).run().expect("it works");
}

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("inspect", more).output().expect("it works")
}

/// A field of a report.
fn of<'a>(report: &'a Value, name: &str) -> &'a Value {
    report.get(name).unwrap_or(&Value::Null)
}

/// A text in a report.
#[track_caller]
fn text<'a>(report: &'a Value, name: &str) -> &'a str {
    of(report, name).as_str().unwrap_or_else(|| panic!("{name} is no text: {report}"))
}

/// The report about a number of the orders.
#[track_caller]
fn asked(fixture: &Fixture, number: i64) -> Value {
    crate::fixture::report(&run(fixture, &["shop.orders", "--number", &format!("number={number}"), "--json"]))
}

/// The verdict on a number, a part of the sentence, and what is printed for people.
#[track_caller]
fn check(fixture: &Fixture, number: i64, verdict: &str, words: &str) -> Value {
    let report = asked(fixture, number);
    assert_eq!((text(&report, "verdict"), of(&report, "value")), (verdict, &number.into()), "{report}");
    let sentence = text(&report, "sentence");
    assert!(sentence.contains(words), "{sentence}");
    let option = format!("number={number}");
    let output = run(fixture, &["shop.orders", "--number", &option, "--expect", verdict]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("it works");
    assert!(printed.starts_with(&format!("verdict   {verdict}\nbecause   {sentence}\n")), "{printed}");
    for other in ["present", "not-yet", "never", "lost", "lost-unlisted", "used"] {
        if other != verdict {
            let output = run(fixture, &["shop.orders", "--number", &option, "--expect", other]);
            complains(&output, 4, &format!("the verdict is {verdict}, and not {other}"));
        }
    }
    report
}

#[test]
fn each_verdict_is_given_with_its_reason() {
    for contract in [Contract::Fast, Contract::Ordered, Contract::Gapless] {
        for is_served in [false, true] {
            let fixture = numbered(is_served, contract, |client| {
                for id in 1..=3 {
                    insert(client, doc! { "_id": id });
                }
                // 131 to 491 are passed by.
                insert(client, doc! { "_id": 4, "number": 495 });
                insert(client, doc! { "_id": 5 });
                orders(client).delete_one(doc! { "_id": 2 }).run().expect("it works");
                insert(client, doc! { "_id": 6, "number": 7.0 });
            });
            let report = check(&fixture, 101, "present", "a document has 101: _id 1");
            assert_eq!((&report["ids"], &report["documents"]), (&json!([1]), &json!(1)), "{report}");
            assert_eq!(report["snapshot"]["Contract"], contract.name());
            check(&fixture, 111, "used", "was handed out, and no document has it");
            let report = check(&fixture, 211, "lost", "a document brought a value beyond it");
            assert_eq!(
                (&report["gaps"][0]["cause"], &report["field"]),
                (&"explicitValue".into(), &"number".into())
            );
            check(&fixture, 495, "present", "_id 4");
            check(&fixture, 501, "present", "_id 5");
            check(&fixture, 511, "not-yet", "its next value is 511");
            check(&fixture, 1001, "not-yet", "shop.orders, field number has not reached 1001");
            check(&fixture, 502, "never", "between two values");
            check(&fixture, 91, "never", "begins at 101");
            check(&fixture, 200_001, "never", "is not from 1 to 200000");
            // Numbers are equal whatever their types are, and a document may bring what is no value of the sequence.
            check(&fixture, 7, "present", "_id 6");
        }
    }
}

#[test]
fn what_the_ledger_has_dropped_is_told_apart() {
    let fixture = numbered(false, Contract::Fast, |client| {
        // Each leaves a gap of its own: two values are passed, and the third is used.
        for step in 1..=1_050 {
            insert(client, doc! { "number": 101 + 10 * (3 * step) });
            if step == 2 {
                orders(client).delete_one(doc! { "number": 131 }).run().expect("it works");
            }
        }
    });
    let report = check(&fixture, 111, "lost-unlisted", "the ledger keeps the newest thousand gaps");
    let unlisted = report["unlisted"].as_u64().expect("a count");
    assert!(
        unlisted > 0 && report["sentence"].to_string().contains(&format!("had {unlisted} values")),
        "{report}"
    );
    // Whether this one was used cannot be told any more.
    check(&fixture, 131, "lost-unlisted", "handed out or is lost");
    check(&fixture, 15_021, "lost", "a document brought");
    assert_eq!(asked(&fixture, 15_021)["gaps"].as_array().map(Vec::len), Some(1));
}

/// A copy of a folder that is open is what a kill would have left.
#[test]
fn what_a_crash_has_lost_is_told_from_what_a_process_still_has() {
    let fixture = numbered(false, Contract::Fast, |_| {});
    let client = Client::open(fixture.path("db")).expect("it works");
    insert(&client, doc! { "_id": 1 });
    client.sync().expect("it works");
    let report = asked(&fixture, 121);
    assert_eq!(
        (&report["verdict"], &report["openIn"]),
        (&"not-yet".into(), &json!(std::process::id())),
        "{report}"
    );
    let sentence = report["sentence"].as_str().expect("text");
    assert!(sentence.contains("has reserved it, and may have handed it out"), "{report}");
    assert_eq!(report["mayBeHandedOutBy"], json!(std::process::id()), "{report}");
    let text = fixture.run("inspect", &["shop.orders", "--number", "number=121"]).output().expect("it works");
    let text = String::from_utf8(text.stdout).expect("it is UTF-8");
    let process = format!("process   {}, which may have handed it out", std::process::id());
    assert!(text.lines().any(|line| line == process), "{text}");
    // Nothing is lost as long as that process lives, and nothing shall say so.
    assert_eq!(report["gaps"][0]["cause"], "reserved", "{report}");
    assert!(text.contains(", reserved, not written yet") && !text.contains("crash"), "{text}");
    // Beyond what is reserved nothing was handed out.
    let beyond = asked(&fixture, 100_001);
    assert_eq!(
        (&beyond["verdict"], &beyond["mayBeHandedOutBy"]),
        (&"not-yet".into(), &json!(null)),
        "{beyond}"
    );
    let copied = Command::new("cp").arg("-r").arg(fixture.path("db")).arg(fixture.path("copy")).status();
    assert!(copied.expect("it works").success());
    client.close().expect("it works");
    check(&fixture, 121, "not-yet", "its next value is 111");
    std::fs::rename(fixture.path("db"), fixture.path("closed")).expect("it works");
    std::fs::rename(fixture.path("copy"), fixture.path("db")).expect("it works");
    let report = check(&fixture, 121, "lost", "ended without closing the store");
    assert_eq!(
        (&report["gaps"][0]["cause"], &report["gaps"][0]["at"]),
        (&"crash".into(), &Value::Null),
        "{report}"
    );
    check(&fixture, 101, "present", "_id 1");
}

/// The values of a sequence that goes around come again: the verdict says in which round it has passed one.
#[test]
fn the_verdict_on_a_sequence_that_goes_around_names_the_round() {
    for is_served in [false, true] {
        let mut fixture = Fixture::new(&[], false);
        let client = Client::open(fixture.path("db")).expect("it works");
        let shop = client.database("shop");
        let options =
            doc! { "StartValue": 3, "MaxValue": 5, "Cycled": true, "CacheSize": 1, "AcquireSize": 1 };
        rich::run(&client, "shop", doc! { "createSequence": "a=b", "options": options });
        // 3, 4, 5, 1.
        for _ in 0..4 {
            shop.sequence("a=b").next_value().run().expect("it works");
        }
        client.close().expect("it works");
        if is_served {
            fixture.serve();
        }
        for (value, verdict, round) in
            [(1, "used", 2), (3, "used", 1), (5, "used", 1), (2, "not-yet", 0), (6, "never", 0)]
        {
            let report = crate::fixture::report(&run(
                &fixture,
                &["shop", "--sequence", &format!("a=b={value}"), "--json"],
            ));
            assert_eq!(report["verdict"], verdict, "{report}");
            let expected = if round == 0 { Value::Null } else { round.into() };
            assert_eq!(report.get("round").cloned().unwrap_or_default(), expected, "{report}");
            let words = format!("in round {round}");
            assert!(round == 0 || report["sentence"].as_str().expect("text").contains(&words), "{report}");
            assert_eq!((&report["name"], &report["ids"]), (&"a=b".into(), &json!([])), "{report}");
        }
    }
}

#[test]
fn each_cause_of_a_loss_has_its_words() {
    let fixture = numbered(false, Contract::Fast, |client| {
        let by_number = IndexModel::builder()
            .keys(doc! { "number": 1 })
            .options(cairndb::IndexOptions::builder().unique(true).build());
        orders(client).create_index(by_number.build()).run().expect("it works");
        insert(client, doc! {});
        let closed = client.acquirer();
        insert(&closed, doc! {});
        // What is after all that others hold would go back.
        let other = client.acquirer();
        insert(&other, doc! {});
        drop(closed);
        let smaller = AutoIncrement::builder().field("number").cache_size(8).acquire_size(8).build();
        orders(client).alter_auto_increment(smaller).run().expect("it works");
        insert(client, doc! {});
    });
    check(&fixture, 211, "lost", "acquirer that was closed");
    check(&fixture, 121, "lost", "attributes of the sequence were changed");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for is_served in [false, true] {
        let fixture = numbered(is_served, Contract::Fast, |client| insert(client, doc! { "_id": 1 }));
        let check = |more: &[&str], status: i32, words: &str| complains(&run(&fixture, more), status, words);
        check(&["shop.orders"], 2, "--id <VALUE>|--number <FIELD=NUMBER>|--sequence <NAME=VALUE>");
        check(&["shop.orders", "--number", "number=1", "--id", "1"], 2, "cannot be used with");
        check(&["shop.orders", "--id", "1", "--expect", "present"], 2, "cannot be used with");
        check(&["shop.orders", "--number", "number=1", "--expect", "gone"], 2, "invalid value");
        for number in ["number", "=1", "number=", "number=x", "number=9223372036854775808"] {
            check(&["shop.orders", "--number", number], 2, "--number must be NAME=NUMBER");
        }
        check(&["shop", "--number", "number=1"], 2, "\"shop\" is not a DB.COLLECTION");
        check(&["shop.orders", "--sequence", "tickets=1"], 2, "is not a DB");
        check(
            &["shop.orders", "--number", "total=1"],
            1,
            "has no auto-increment field total; these are: number",
        );
        check(&["shop.absent", "--number", "number=1"], 1, "there is no collection shop.absent");
        check(&["shop", "--sequence", "tickets=1"], 1, "tickets");
        let output =
            cairn().args(["inspect", "absent", "shop", "--sequence", "a=1"]).output().expect("it works");
        complains(&output, 6, "absent");
        if is_served {
            check(&["shop.orders", "--id", "1"], 2, "inspect --id reads the files of a store");
        } else {
            check(&["shop", "--id", "1"], 2, "\"shop\" is not a DB.COLLECTION");
            check(&["shop.orders", "--id", "abc"], 2, "--id is not a value");
            check(
                &["shop.orders", "--id", "2"],
                1,
                "shop.orders has neither a document with the _id 2 nor an entry of one",
            );
            check(&["shop.absent", "--id", "2"], 1, "there is no collection shop.absent");
        }
    }
}

/// A store with an index of each kind, in which a fault has left entries out.
fn damaged() -> Fixture {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let index = |name: &str, keys: Document, options: cairndb::IndexOptions| {
        let mut options = options;
        options.name = Some(name.to_owned());
        let index = IndexModel::builder().keys(keys).options(options).build();
        orders(&client).create_index(index).run().expect("it works");
    };
    let plain = cairndb::IndexOptions::default;
    index("tags", doc! { "tags": 1, "total": -1 }, plain());
    index("code", doc! { "code": 1 }, cairndb::IndexOptions::builder().unique(true).build());
    index(
        "large",
        doc! { "total": 1 },
        cairndb::IndexOptions::builder().partial_filter_expression(doc! { "total": { "$gt": 100 } }).build(),
    );
    index("any", doc! { "$**": 1 }, plain());
    index("hidden", doc! { "total": 1 }, cairndb::IndexOptions::builder().hidden(true).build());
    for id in 1..=3 {
        insert(&client, doc! { "_id": id, "code": id, "tags": ["a", "b"], "total": 20 });
    }
    client.close().expect("it works");
    let client = Client::builder()
        .planted_fault(PlantedFault::EntriesLeftOut)
        .open(fixture.path("db"))
        .expect("it works");
    insert(&client, doc! { "_id": 4, "code": 4, "total": 200 });
    orders(&client).delete_one(doc! { "_id": 3 }).run().expect("it works");
    orders(&client).update_one(doc! { "_id": 2 }, doc! { "$set": { "code": 9 } }).run().expect("it works");
    client.close().expect("it works");
    fixture
}

/// The states of the entries of an index in a report.
fn states(report: &Value, index: &str) -> Vec<String> {
    let indexes = of(report, "indexes").as_array().expect("a list");
    let found = indexes.iter().find(|one| text(one, "name") == index).expect("it is there");
    let entries = of(found, "entries").as_array().expect("a list");
    entries.iter().map(|entry| text(entry, "state").to_owned()).collect()
}

fn of_id(fixture: &Fixture, id: &str, status: i32) -> Value {
    let output = run(fixture, &["shop.orders", "--id", id, "--json"]);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

#[test]
fn a_document_is_shown_with_its_entries() {
    let fixture = damaged();
    let report = of_id(&fixture, "1", 0);
    assert_eq!(states(&report, "tags"), ["present", "present"]);
    assert_eq!(states(&report, "code"), ["present"]);
    assert_eq!(states(&report, "large"), [""; 0]);
    assert_eq!(states(&report, "any").len(), 4, "{report}");
    assert_eq!(states(&report, "hidden"), ["present"]);
    assert_eq!(
        (&report["missing"], &report["surplus"], &report["different"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let tags =
        &report["indexes"].as_array().expect("a list").iter().find(|one| one["name"] == "tags").expect("it")
            ["entries"][0];
    assert_eq!(tags["fields"], "{\"tags\":\"a\",\"total\":{\"$numberInt\":\"20\"}}");
    // The number of the index, the fields, and the encoded `_id` at the end.
    let key = tags["key"].as_str().expect("hexadecimal");
    let record = report["recordKey"].as_str().expect("hexadecimal");
    assert!(key.len() > 24 && key.ends_with(&record[8..]), "{key} {record}");
    let document = report["document"].as_str().expect("text");
    assert!(document.starts_with("{\"_id\":{\"$numberInt\":\"1\"},\"code\":"), "{document}");
    let output = run(&fixture, &["shop.orders", "--id", "NumberLong(1)"]);
    let text = String::from_utf8(output.stdout).expect("it works");
    let bytes = report["storedBytes"].as_u64().expect("a count");
    assert!(
        text.starts_with(&format!("record    {record}\nstored    {bytes} bytes\ndocument  {document}\n")),
        "{text}"
    );
    assert!(
        text.contains("\nindex large, 0 entries\n") && text.contains(&format!("key   {key}\n")),
        "{text}"
    );
}

#[test]
fn entries_that_are_missing_and_surplus_are_found() {
    let fixture = damaged();
    let report = of_id(&fixture, "4", 4);
    assert_eq!(states(&report, "code"), ["missing"]);
    assert_eq!(states(&report, "large"), ["missing"]);
    assert_eq!((&report["surplus"], &report["error"]["kind"]), (&json!(0), &"different".into()), "{report}");
    let report = of_id(&fixture, "2", 4);
    // The old code is still there, and the new one is not.
    assert_eq!(states(&report, "code"), ["surplus", "missing"]);
    assert_eq!(states(&report, "tags"), ["present", "present"]);
    let report = of_id(&fixture, "3", 4);
    assert_eq!((report.get("document"), report.get("storedBytes")), (None, None), "{report}");
    assert!(states(&report, "any").iter().all(|state| state == "surplus"), "{report}");
    let output = run(&fixture, &["shop.orders", "--id", "3"]);
    complains(&output, 4, "the document is not there, ");
    assert!(String::from_utf8_lossy(&output.stdout).contains("stored    nothing\n"), "{output:?}");
    // What `verify` finds is what this shows.
    let verified = fixture.run("verify", &["--json"]).output().expect("it works");
    let verified: Value = serde_json::from_slice(&verified.stdout).expect("one line of JSON");
    let keys: Vec<&str> = verified["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["key"].as_str())
        .collect();
    let missing = of_id(&fixture, "4", 4);
    let entry = &missing["indexes"][1]["entries"][0];
    assert!(keys.contains(&entry["key"].as_str().expect("text")), "{keys:?} {entry}");
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    let fixture = numbered(false, Contract::Fast, |client| insert(client, doc! { "_id": 1 }));
    for what in [["--id", "1"], ["--number", "number=1"]] {
        let more = [&["shop.orders"], &what[..]].concat();
        let mut child = fixture.run("inspect", &more).stdout(Stdio::piped()).spawn().expect("it works");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it works").code(), Some(0));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it works");
        complains(
            &fixture.run("inspect", &more).stdout(full).output().expect("it works"),
            1,
            "standard output",
        );
    }
}

/// The lines of the page and of the help, run by a shell as they are printed.
#[test]
fn examples_of_the_page_and_of_the_help_run_as_they_are_printed() {
    let fill = |client: &Client| {
        insert(client, doc! { "_id": 4711, "number": 1 });
        client.database("shop").create_sequence("tickets").run().expect("it works");
    };
    let served = numbered(true, Contract::Fast, fill);
    let folder = numbered(false, Contract::Fast, fill);
    std::fs::rename(folder.path("db"), folder.path("shop-data")).expect("it works");
    std::os::unix::fs::symlink(served.path("s.sock"), folder.path("shop.sock")).expect("it works");
    let lines: Vec<String> = SOURCES.into_iter().flat_map(|source| printed(source, "inspect")).collect();
    assert_eq!(lines.len(), 7, "{lines:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().and_then(Path::to_str).expect("it works");
    let search = format!("{program}:{}", std::env::var("PATH").expect("it works"));
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &line]).env("PATH", &search).current_dir(folder.folder.path());
        let output = shell.output().expect("it works");
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}
