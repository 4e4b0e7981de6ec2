//! `cairn stats` as a process, on a folder and through a server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::rich::{fill, hostile_names, kinds, next_numbers};
use crate::fixture::signals::send;
use crate::fixture::{Fixture, complains, on_both};

/// A store with all types, kinds of indexes and sequences, and hostile names.
fn rich(is_served: bool) -> Fixture {
    let mut fixture = Fixture::new(&[], false);
    std::fs::remove_dir_all(fixture.path("db")).expect("it works");
    fill(&fixture.path("db"));
    if is_served {
        fixture.serve();
    }
    fixture
}

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("stats", more).output().expect("it works")
}

#[track_caller]
fn report(fixture: &Fixture, more: &[&str]) -> Value {
    let output = run(fixture, &[more, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("it works").lines().map(str::to_owned).collect()
}

fn list<'a>(report: &'a Value, name: &str) -> &'a Vec<Value> {
    report[name].as_array().expect("a list")
}

fn named<'a>(list: &'a [Value], name: &str) -> &'a Value {
    list.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} is missing: {list:?}"))
}

#[test]
fn everything_in_a_store_is_shown() {
    for is_served in [false, true] {
        let fixture = rich(is_served);
        let report = report(&fixture, &[]);
        let collections = list(&report, "collections");
        let names: Vec<_> = collections
            .iter()
            .filter(|one| one["database"] == "odd")
            .map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect();
        let mut hostile = hostile_names();
        hostile.sort();
        assert_eq!(names, hostile);
        let orders = named(collections, "orders");
        assert_eq!((&orders["documents"], &orders["type"]), (&301.into(), &"collection".into()));
        assert_eq!(named(collections, "types")["documents"], 2);
        assert_eq!(named(collections, "empty")["documents"], 0);
        let view = named(collections, "newest");
        assert_eq!((&view["type"], view.get("documents")), (&"view".into(), None));
        let indexes: Vec<_> = list(orders, "indexes").iter().map(|index| &index["name"]).collect();
        assert_eq!(
            indexes,
            ["_id_", "sku", "tags_1_total_-1", "maybe", "at", "large", "secret", "all", "some"]
        );
        assert!(list(orders, "indexes").iter().all(|index| index["bytes"].as_u64() >= Some(4096)));
        let documents: u64 = collections.iter().filter_map(|one| one["documents"].as_u64()).sum();
        assert_eq!((&report["documents"], &report["views"]), (&documents.into(), &2.into()));
        assert_eq!(report["collections"].as_array().map(Vec::len), Some(collections.len()));
        let unanswered = if is_served { "folder" } else { "indexUses" };
        assert_eq!(report["notAnswered"], serde_json::json!([unanswered]));
        assert_eq!(report.get("folder").is_some(), !is_served);
    }
}

/// The value that is shown as the next one is the one that is given next, for each contract and each direction.
#[test]
fn what_a_killed_replacement_has_left_is_named() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let left = "cairn-loading.a5a5a5a5a5a5a5a5a5a5a5a5.orders";
    for name in [left, "cairn-loading.plans"] {
        let collection = client.database("shop").collection::<Document>(name);
        collection.insert_one(doc! {}).run().expect("it works");
    }
    client.close().expect("it works");
    let output = run(&fixture, &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(told.matches("was to replace another collection").count(), 1, "{told}");
    assert!(told.contains(&format!("shop.{left} was")), "{told}");
    let report = report(&fixture, &[]);
    assert_eq!(list(&report, "warnings").len(), 1, "{report}");
}

#[test]
fn the_next_value_of_a_sequence_is_the_one_that_comes() {
    for is_served in [false, true] {
        let mut fixture = rich(is_served);
        let report = report(&fixture, &[]);
        if is_served {
            fixture.kill_in_order();
        }
        let shown: BTreeMap<String, Option<i64>> = list(&report, "sequences")
            .iter()
            .map(|one| {
                let name = match (one["field"].as_str(), one["name"].as_str()) {
                    (Some("n.value"), _) => {
                        format!("field {}", one["collection"].as_str().expect("it works"))
                    }
                    (_, name) => format!("sequence {}", name.expect("it works")),
                };
                assert_eq!(one["exhausted"].as_bool(), Some(one.get("next").is_none()), "{one}");
                (name, one["next"].as_i64())
            })
            .collect();
        assert_eq!(shown.len(), 2 * kinds().len() + 1);
        let client = Client::open(fixture.path("db")).expect("it works");
        for (name, values) in next_numbers(&client, "") {
            let first = values.first().and_then(|value| value.parse::<i64>().ok());
            assert_eq!(shown.get(&name), Some(&first), "{name}: {values:?}");
        }
        client.close().expect("it works");
    }
}

#[test]
fn names_are_one_line_each() {
    for is_served in [false, true] {
        let lines = lines(&run(&rich(is_served), &["odd"]));
        assert_eq!(lines.iter().filter(|line| line.starts_with("odd.a\\nb ")).count(), 2, "{lines:?}");
        let of = |start: &str| lines.iter().position(|line| line.starts_with(start)).expect(start);
        assert!(of("collection") < of("index of"), "{lines:?}");
        assert_eq!(of("index of"), hostile_names().len() + 2, "{lines:?}");
    }
}

#[test]
fn a_part_of_a_store_is_shown_alone() {
    for is_served in [false, true] {
        let fixture = rich(is_served);
        let names = |report: &Value, of: &str| -> Vec<String> {
            list(report, of).iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
        };
        let shop = report(&fixture, &["shop"]);
        assert_eq!(names(&shop, "collections"), ["again", "empty", "newest", "orders", "types"]);
        assert!(names(&shop, "sequences").is_empty());
        // A name may have dots of its own.
        assert_eq!(names(&report(&fixture, &["odd.a/../../b"]), "collections"), ["a/../../b"]);
        let numbered = report(&fixture, &["numbers.gapless"]);
        assert_eq!(names(&numbered, "collections"), ["gapless"]);
        let sequences = list(&numbered, "sequences");
        assert_eq!(sequences.len(), 1, "{numbered}");
        assert_eq!(
            (&sequences[0]["field"], &sequences[0]["contract"]),
            (&"n.value".into(), &"gapless".into())
        );
        // It has sequences alone.
        let tickets = report(&fixture, &["tickets"]);
        assert_eq!((names(&tickets, "collections").len(), names(&tickets, "sequences").len()), (0, 10));
        complains(&run(&fixture, &["shop.absent"]), 1, "there is no collection shop.absent");
        complains(&run(&fixture, &["absent"]), 1, "there is no database absent");
    }
}

/// Documents that compress well: in the log they have no ratio, and in tables a high one.
#[test]
fn the_ratio_is_that_of_compressed_tables() {
    let documents: Vec<_> = (0..2000).map(|id| doc! { "_id": id, "text": "the same ".repeat(30) }).collect();
    let fixture = Fixture::new(&documents, false);
    let orders =
        |fixture: &Fixture| named(list(&report(fixture, &["shop"]), "collections"), "orders").clone();
    let before = orders(&fixture);
    assert_eq!((before.get("ratio"), &before["diskBytes"]), (None, &0.into()), "{before}");
    let client = Client::open(fixture.path("db")).expect("it works");
    client.flush().expect("it works");
    client.close().expect("it works");
    let after = orders(&fixture);
    let number = |name: &str| after[name].as_f64().expect(name);
    let whole = |name: &str| after[name].as_u64().expect(name);
    assert_eq!(whole("dataBytes"), whole("documents") * whole("meanBytes"));
    assert!(number("ratio") > 3.0, "{after}");
    assert!((number("ratio") - number("dataBytes") / number("diskBytes")).abs() < 0.01, "{after}");
    // Many documents that are in the log alone: the tables do not tell of all.
    let client = Client::open(fixture.path("db")).expect("it works");
    let collection: Collection<Document> = client.database("shop").collection("orders");
    collection
        .insert_many((5000..6000).map(|id| doc! { "_id": id, "text": "x" }).collect::<Vec<_>>())
        .run()
        .expect("it works");
    client.close().expect("it works");
    assert_eq!(orders(&fixture).get("ratio"), None);
}

#[test]
fn a_folder_tells_its_files_and_how_it_was_left() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let folder = |fixture: &Fixture| report(fixture, &[])["folder"].clone();
    let before = folder(&fixture);
    assert_eq!((&before["format"], &before["wasClosedInOrder"]), (&7.into(), &true.into()), "{before}");
    let kind = |folder: &Value, kind: &str| {
        let files = list(folder, "files").iter().find(|one| one["kind"] == kind).cloned();
        files.map_or((0, 0), |one| (one["files"].as_u64().expect("n"), one["bytes"].as_u64().expect("n")))
    };
    assert_eq!((kind(&before, "tables").0, kind(&before, "other").0), (0, 0), "{before}");
    assert!(kind(&before, "logs").1 > 0 && kind(&before, "control").0 >= 4, "{before}");
    std::fs::write(fixture.path("db/mine.txt"), "four").expect("it works");
    let client = Client::open(fixture.path("db")).expect("it works");
    client.flush().expect("it works");
    // This process has it open and has written nothing since: what the last close left is still the newest write.
    let open = folder(&fixture);
    assert_eq!(open["openIn"], std::process::id(), "{open}");
    let orders: Collection<Document> = client.database("shop").collection("orders");
    orders.insert_one(doc! { "_id": 2 }).run().expect("it works");
    let written = folder(&fixture);
    assert_eq!(written["wasClosedInOrder"], false, "{written}");
    assert_eq!((kind(&written, "tables").0 > 0, kind(&written, "other")), (true, (1, 4)), "{written}");
    drop(orders);
    client.close().expect("it works");
    let closed = folder(&fixture);
    assert_eq!((&closed["wasClosedInOrder"], closed.get("openIn")), (&true.into(), None), "{closed}");
    let text = lines(&run(&fixture, &[]));
    assert_eq!(text.last().map(String::as_str), Some("format 7, closed in order"), "{text:?}");
}

/// A server was killed: the folder was not closed, and its documents are all there.
#[test]
fn a_killed_store_says_so() {
    let mut fixture = Fixture::new(&[doc! { "_id": 1 }], true);
    assert_eq!(report(&fixture, &[])["documents"], 1);
    let import = fixture.path("more.json");
    std::fs::write(&import, "{\"_id\": 2}").expect("it works");
    let output = fixture.run("import", &["shop.orders", "more.json"]).output().expect("it works");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.kill();
    let report = report(&fixture, &[]);
    assert_eq!((&report["documents"], &report["folder"]["wasClosedInOrder"]), (&2.into(), &false.into()));
    let text = lines(&run(&fixture, &[]));
    assert!(text.last().expect("lines").contains("not closed in order"), "{text:?}");
}

#[test]
fn uses_of_indexes_are_those_of_the_server() {
    let fixture = rich(true);
    let uses = |name: &str| {
        let report = report(&fixture, &["shop.orders"]);
        named(list(named(list(&report, "collections"), "orders"), "indexes"), name).clone()
    };
    assert_eq!(uses("sku")["uses"], 0);
    assert!(uses("sku").get("since").is_some());
    // Nothing counts these.
    assert_eq!(uses("_id_").get("uses"), None);
    for _ in 0..3 {
        let found =
            fixture.export(&["shop.orders", "--filter", "{\"total\": {\"$gt\": 250}}", "--hint", "large"]);
        assert_eq!(found.stdout.split(|byte| *byte == b'\n').count(), 50, "49 lines");
    }
    assert_eq!((&uses("large")["uses"], &uses("sku")["uses"]), (&3.into(), &0.into()));
    let served = run(&fixture, &["shop", "--verbose"]);
    complains(&served, 0, "files and format are seen in the folder alone");
    let folder = rich(false);
    let text = run(&folder, &["shop", "--verbose"]);
    complains(&text, 0, "how often indexes were used is counted by the process");
    let said = run(&folder, &["shop", "--quiet"]);
    assert!(said.stderr.is_empty() && !said.stdout.is_empty());
}

#[test]
fn a_server_tells_of_its_scrub() {
    let mut fixture = rich(false);
    fixture.serve_with(&["--scrub", "1000000000"]);
    let began = Instant::now();
    let scrub = loop {
        let scrub = report(&fixture, &[])["scrub"].clone();
        if scrub["passes"].as_u64() > Some(0) {
            break scrub;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{scrub}");
    };
    assert_eq!(scrub["findings"], 0, "{scrub}");
    assert!(scrub["bytesRead"].as_u64() > Some(0) && scrub["files"].as_u64() > Some(0), "{scrub}");
    let text = lines(&run(&fixture, &[]));
    assert!(text.iter().any(|line| line.starts_with("scrub: passes ")), "{text:?}");
    assert_eq!(report(&fixture, &["shop"]).get("scrub"), None, "it is of the whole store");
    fixture.kill_in_order();
    assert_eq!(report(&fixture, &[]).get("scrub"), None, "a folder that is looked at has none");
}

#[test]
fn a_server_tells_of_its_log_of_changes() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let shop = client.database("shop");
    shop.create_collection("orders").change_log(true).run().expect("it works");
    shop.collection("orders").insert_one(doc! { "text": "x".repeat(5000) }).run().expect("it works");
    client.close().expect("it works");
    let mut fixture = fixture;
    fixture.serve_with(&["--replica-set", "rs"]);
    let began = Instant::now();
    // The events of earlier lives are counted once the server runs.
    let log = loop {
        let log = report(&fixture, &[])["changeLog"].clone();
        if log["bytes"].as_u64() >= Some(5000) {
            break log;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{log}");
    };
    assert!(log["oldestEventSeconds"].as_u64() < Some(60), "{log}");
    assert_eq!((&log["streams"], &log["lagSeconds"]), (&0.into(), &0.into()), "{log}");
    let text = lines(&run(&fixture, &[]));
    let line = text.iter().find(|line| line.starts_with("change log: ")).expect("a line");
    assert!(line.ends_with(" s ago, 0 streams open, 0 s behind"), "{line}");
    assert_eq!(report(&fixture, &["shop"]).get("changeLog"), None, "it is of the whole store");
    fixture.kill_in_order();
}

#[test]
fn an_empty_store_has_nothing() {
    on_both(&[], |fixture| {
        let report = report(fixture, &[]);
        assert_eq!((&report["documents"], list(&report, "sequences").len()), (&0.into(), 0), "{report}");
        assert!(list(&report, "collections").is_empty());
        let text = lines(&run(fixture, &[]));
        assert_eq!(text.first().map(String::as_str), Some("no collections and no sequences"));
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    on_both(&[], |fixture| {
        for scope in ["", ".", "shop.", ".orders"] {
            complains(&run(fixture, &[scope]), 2, "is neither a DB nor a DB.COLLECTION");
        }
        for more in [
            &["--watch", "0"] as &[&str],
            &["--watch", "x"],
            &["--watch", "86401"],
            &["shop", "--watch", "1"],
            &["shop", "orders"],
            &["--absent"],
        ] {
            assert_eq!(run(fixture, more).status.code(), Some(2), "{more:?}");
        }
    });
    let fixture = Fixture::new(&[], false);
    complains(&run(&fixture, &["--watch", "1"]), 2, "--watch counts what a server does");
    let mut absent = crate::fixture::cairn();
    complains(&absent.args(["stats"]).arg(fixture.path("absent")).output().expect("it works"), 6, "absent");
    assert!(!fixture.path("absent").exists());
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    for is_served in [false, true] {
        rich(is_served).prints_to_nobody("stats");
    }
}

#[test]
fn a_server_is_watched_until_a_signal_comes() {
    let fixture = Fixture::new(&[], true);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = fixture
            .run("stats", &["--watch", "1", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it works");
        let mut out = BufReader::new(child.stdout.take().expect("it works")).lines();
        // It has looked once before this line, so what comes now is in one of the next.
        out.next().expect("a line").expect("it works");
        let documents = doc_lines(status);
        let mut import = fixture
            .run("import", &["shop.orders", "-", "--format", "ndjson"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it works");
        import.stdin.take().expect("it works").write_all(documents.as_bytes()).expect("it works");
        assert!(import.wait().expect("it works").success());
        let line = out
            .map(|line| serde_json::from_str::<Value>(&line.expect("it works")).expect("JSON"))
            .find(|line| line["inserted"].as_f64() > Some(0.0))
            .expect("a line with the documents");
        let inserted = line["inserted"].as_f64().expect("n") * line["seconds"].as_f64().expect("n");
        assert!((400.0..600.0).contains(&inserted), "{line}");
        assert!(
            line["bytesWritten"].as_f64() > Some(500.0) && line["connections"].as_u64() > Some(0),
            "{line}"
        );
        send(&child, signal);
        let mut told = String::new();
        child.stderr.take().expect("it works").read_to_string(&mut told).expect("it works");
        assert_eq!(child.wait().expect("it works").code(), Some(status), "{told}");
        let report: Value = serde_json::from_str(told.lines().next().expect("a report")).expect("JSON");
        assert_eq!((&report["command"], &report["interrupted"]), (&"stats".into(), &true.into()), "{told}");
    }
}

/// 500 documents as Extended JSON.
fn doc_lines(first: i32) -> String {
    (0..500).map(|n| format!("{{\"_id\": \"{first}-{n}\"}}")).collect::<Vec<_>>().join("\n")
}

/// What the server does is told in columns, and a reader that is gone ends it.
#[test]
fn watching_ends_with_its_reader() {
    let fixture = Fixture::new(&[], true);
    let mut child = fixture.run("stats", &["--watch", "1"]).stdout(Stdio::piped()).spawn().expect("it works");
    let mut out = BufReader::new(child.stdout.take().expect("it works"));
    let (mut head, mut line) = (String::new(), String::new());
    out.read_line(&mut head).expect("it works");
    out.read_line(&mut line).expect("it works");
    assert_eq!(head.split_whitespace().count(), line.split_whitespace().count(), "{head}{line}");
    assert_eq!(head.len(), line.len(), "{head}{line}");
    drop(out);
    assert_eq!(child.wait().expect("it works").code(), Some(0));
}
