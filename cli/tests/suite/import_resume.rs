//! `cairn import --resume`, killed at random moments until it is done: what is there then is what an undisturbed import
//! leaves. `CAIRNDB_IMPORT_KILLS` sets how many imports are killed in each case, and `make tool KILLS=200` as many in all.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "counts of a few thousand"
)]

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};

use crate::fixture::dice::{self, Dice};
use crate::fixture::{Fixture, complains, read};

const LINES: usize = 2_000;

/// How often each case is killed.
fn kills() -> u64 {
    dice::kills("CAIRNDB_IMPORT_KILLS", 5, 4)
}

/// What is imported.
#[expect(clippy::struct_excessive_bools, reason = "each is a case of its own")]
struct Case {
    name: &'static str,
    has_ids: bool,
    is_gzip: bool,
    is_served: bool,
    is_numbered: bool,
}

impl Case {
    fn input(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for line in 0..LINES {
            // Bad lines and taken keys are rejected once each, however often they are read.
            let written = match line % 500 {
                7 => writeln!(text, "bad {line}"),
                9 if self.has_ids => writeln!(text, "{{\"_id\":0,\"other\":{line}}}"),
                _ if self.has_ids => {
                    writeln!(text, "{{\"_id\":{line},\"text\":\"{}\"}}", "x".repeat(line % 50))
                }
                _ => writeln!(text, "{{\"line\":{line},\"text\":\"{}\"}}", "x".repeat(line % 50)),
            };
            written.expect("it works");
        }
        if !self.is_gzip {
            return text;
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&text).expect("it works");
        encoder.finish().expect("it works")
    }

    fn fixture(&self) -> Fixture {
        let mut fixture = Fixture::new(&[], false);
        if self.is_numbered {
            let client = Client::open(fixture.path("db")).expect("it works");
            let number = doc! { "Field": "number", "Contract": "gapless" };
            let create = doc! { "create": "orders", "autoIncrement": number };
            client.database("shop").run_command(create).run().expect("it works");
            client.close().expect("it works");
        }
        if self.is_served {
            fixture.serve();
        }
        std::fs::write(fixture.path("a.ndjson"), self.input()).expect("it works");
        fixture
    }

    /// The documents without what differs from import to import.
    fn content(&self, fixture: &Fixture) -> Vec<Document> {
        let output = fixture.export(&["shop.orders", "--canonical", "--sort", r#"{"_id":1}"#]);
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        let parse = |line: &str| -> Document { serde_json::from_str(line).expect("it is Extended JSON") };
        let mut documents: Vec<Document> = text.lines().map(parse).collect();
        if !self.has_ids {
            for document in &mut documents {
                document.remove("_id");
            }
        }
        documents
    }
}

const ARGUMENTS: [&str; 5] = ["shop.orders", "a.ndjson", "--resume", "--batch", "10"];

fn import(fixture: &Fixture, more: &[&str]) -> Output {
    let arguments: Vec<&str> = ARGUMENTS.iter().copied().chain(more.iter().copied()).collect();
    fixture.run("import", &arguments).stdin(Stdio::null()).output().expect("it works")
}

/// What an import leaves that nothing disturbs, and how long it took.
fn undisturbed(fixture: &Fixture) -> Duration {
    let started = Instant::now();
    complains(&import(fixture, &[]), 3, " rejected: ");
    started.elapsed()
}

/// Starts an import and kills it at a random moment of the time that one `takes`. Returns its status if it ended before.
fn killed(fixture: &Fixture, dice: &mut Dice, takes: Duration) -> Option<i32> {
    let mut command = fixture.run("import", &ARGUMENTS);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it works");
    let (_held, never) = channel::<()>();
    // Longer at times, because the machine may be busier than it was.
    let reach = takes * if dice.below(3) == 0 { 3 } else { 1 };
    let delay = Duration::from_micros(dice.below(u64::try_from(reach.as_micros()).expect("it is short")));
    assert!(never.recv_timeout(delay).is_err());
    child.kill().expect("it works");
    child.wait().expect("it works").code()
}

fn check(case: &Case) {
    let mut dice = Dice::new(case.name);
    let fixture = case.fixture();
    let takes = undisturbed(&fixture);
    let expected = case.content(&fixture);
    let rejects = read(&fixture.path("a.ndjson.rejects.ndjson"));
    drop(fixture);
    for _ in 0..kills() {
        let fixture = case.fixture();
        let mut deaths = 0;
        // Until one gets through; a few kills are enough, as there is no end to bad luck.
        while deaths < 8 && killed(&fixture, &mut dice, takes).is_none() {
            deaths += 1;
        }
        // On a busy machine all kills may have come before anything was imported.
        let is_untouched = !fixture.path("a.ndjson.rejects.ndjson").exists();
        if is_untouched || fixture.path("a.ndjson.cairn-import").exists() {
            complains(&import(&fixture, &[]), 3, " rejected: ");
        }
        assert_eq!(case.content(&fixture).len(), expected.len(), "{}: {deaths} kills", case.name);
        assert_eq!(case.content(&fixture), expected, "{}: {deaths} kills", case.name);
        assert_eq!(read(&fixture.path("a.ndjson.rejects.ndjson")), rejects, "{}: {deaths} kills", case.name);
        let left: Vec<String> = fixture.files();
        assert_eq!(left, ["a.ndjson", "a.ndjson.rejects.ndjson"], "{}: {deaths} kills", case.name);
    }
}

#[test]
fn a_killed_import_of_lines_with_ids_goes_on_exactly_once() {
    let case = Case { name: "ids", has_ids: true, is_gzip: false, is_served: false, is_numbered: false };
    check(&case);
}

#[test]
fn a_killed_import_of_lines_without_ids_goes_on_exactly_once() {
    let case = Case { name: "no ids", has_ids: false, is_gzip: true, is_served: false, is_numbered: false };
    check(&case);
}

#[test]
fn a_killed_import_leaves_no_hole_in_a_gapless_field() {
    let case = Case { name: "gapless", has_ids: false, is_gzip: false, is_served: false, is_numbered: true };
    check(&case);
    let fixture = case.fixture();
    complains(&import(&fixture, &[]), 3, "");
    let numbers: Vec<i64> =
        case.content(&fixture).iter().map(|document| document.get_i64("number").unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
}

#[test]
fn a_killed_import_into_a_server_goes_on_exactly_once() {
    for has_ids in [true, false] {
        let case = Case { name: "served", has_ids, is_gzip: false, is_served: true, is_numbered: !has_ids };
        check(&case);
    }
}

/// A power cut takes back what was not synced: of the lines after the durable mark any number from the end on.
#[test]
fn lines_that_a_power_cut_took_back_are_imported_again() {
    let case = Case { name: "power", has_ids: true, is_gzip: false, is_served: false, is_numbered: false };
    let mut dice = Dice::new(case.name);
    let fixture = case.fixture();
    let takes = undisturbed(&fixture);
    let expected = case.content(&fixture);
    let input = String::from_utf8(case.input()).unwrap();
    for _ in 0..kills() {
        let fixture = case.fixture();
        while killed(&fixture, &mut dice, takes).is_some() || !fixture.path("a.ndjson.cairn-import").exists()
        {
            // Killed too late, or too early: again from the beginning.
            for name in fixture.files() {
                if name != "a.ndjson" {
                    std::fs::remove_file(fixture.path(&name)).unwrap();
                }
            }
            std::fs::remove_dir_all(fixture.path("db")).unwrap();
            let client = Client::open(fixture.path("db")).unwrap();
            client.close().unwrap();
        }
        let state: serde_json::Value =
            serde_json::from_slice(&read(&fixture.path("a.ndjson.cairn-import"))).unwrap();
        let durable = match state["durable"]["input"].as_u64() {
            Some(0) => state["durable"]["offset"].as_u64().unwrap() as usize,
            // The input is done, and the state was about to be removed.
            _ => input.len(),
        };
        let first = input[..durable].lines().count() as i32;
        let client = Client::open(fixture.path("db")).unwrap();
        let orders: Collection<Document> = client.database("shop").collection("orders");
        let from = first + dice.below((LINES as i32 - first + 1).unsigned_abs().into()) as i32;
        orders.delete_many(doc! { "_id": { "$gte": from } }).run().unwrap();
        drop(orders);
        client.close().unwrap();
        complains(&import(&fixture, &[]), 3, " rejected: ");
        assert_eq!(case.content(&fixture), expected, "durable up to line {first}, cut from line {from}");
    }
}

#[test]
fn an_interrupted_import_goes_on_and_counts_what_is_there() {
    let fixture = Fixture::new(&[], false);
    let text: String = (0..500).map(|id| ["{\"_id\":", &id.to_string(), "}\n"].concat()).collect();
    std::fs::write(fixture.path("a.ndjson"), &text).unwrap();
    std::fs::write(fixture.path("b.ndjson"), "{\"_id\":1000}\nx\n").unwrap();
    // The limit of rejects stops it within the second file.
    let run = |more: &[&str]| {
        let arguments: Vec<&str> = ["shop.orders", "a.ndjson", "b.ndjson", "--resume", "--json"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        fixture.run("import", &arguments).output().unwrap()
    };
    complains(&run(&["--max-rejects", "0"]), 3, "stopped at b.ndjson, line 2");
    assert!(fixture.path("a.ndjson.cairn-import").exists());
    complains(&run(&["--max-rejects", "0", "--mode", "upsert"]), 2, "is of other options");
    let output = run(&["--max-rejects", "5"]);
    complains(&output, 3, "1 of 502 records was rejected");
    let report: Document = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| report.get_i32(name).unwrap();
    assert_eq!((count("read"), count("inserted") + count("alreadyThere"), count("rejected")), (502, 501, 1));
    assert!(!fixture.path("a.ndjson.cairn-import").exists());
    assert_eq!(String::from_utf8(read(&fixture.path("b.ndjson.rejects.ndjson"))).unwrap().lines().count(), 1);
}

#[test]
fn a_drop_is_not_repeated_and_another_input_is_refused() {
    let fixture = Fixture::new(&[doc! { "_id": "old" }], false);
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":1}\nx\n").unwrap();
    let run = || {
        fixture
            .run("import", &["shop.orders", "a.ndjson", "--resume", "--drop", "--max-rejects", "0"])
            .output()
            .unwrap()
    };
    complains(&run(), 3, "stopped at a.ndjson, line 2");
    let add =
        fixture.run("import", &["shop.orders", "-", "--format", "ndjson"]).stdin(Stdio::piped()).spawn();
    let mut add = add.unwrap();
    add.stdin.take().unwrap().write_all(b"{\"_id\":\"kept\"}\n").unwrap();
    assert!(add.wait().unwrap().success());
    complains(&run(), 3, "1 record was rejected already");
    // Nothing is replaced before all is in.
    let output = fixture.export(&["shop.orders"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"_id\":\"kept\"}\n{\"_id\":\"old\"}\n");
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":1}\n{\"_id\":2}\n").unwrap();
    complains(&run(), 2, "is of another input");
    std::fs::write(fixture.path("a.ndjson.cairn-import"), "{}").unwrap();
    complains(&run(), 2, "is not the state of an import");
}

#[test]
fn what_cannot_be_resumed_is_refused() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).unwrap();
    let create = doc! { "create": "numbered", "autoIncrement": { "Field": "_id" } };
    client.database("shop").run_command(create).run().unwrap();
    client.close().unwrap();
    std::fs::write(fixture.path("a.ndjson"), "{}\n").unwrap();
    let refused = |more: &[&str], words: &str| {
        let arguments: Vec<&str> = more.iter().copied().chain(["--resume"]).collect();
        complains(&fixture.run("import", &arguments).stdin(Stdio::null()).output().unwrap(), 2, words);
    };
    refused(&["shop.orders", "-", "--format", "ndjson"], "standard input cannot be resumed");
    refused(&["shop.numbered", "a.ndjson"], "_id is an auto-increment field");
    refused(&["shop.orders", "a.ndjson", "--mode", "delete", "--match", "k"], "needs --match _id");
    refused(&["shop.orders", "a.ndjson", "--dry-run"], "cannot be used with");
    let mut absent = fixture.run("import", &["shop.orders", "absent.ndjson", "--resume"]);
    complains(&absent.output().unwrap(), 1, "absent.ndjson: No such file");
    assert_eq!(fixture.files(), ["a.ndjson"]);
}

/// The state was removed before the store was closed, which takes longer than all of a small import: a kill meanwhile left
/// nothing that said that all was imported, and the same command imported it again.
#[test]
fn an_import_that_is_killed_after_its_last_line_is_not_repeated() {
    for is_served in [false, true] {
        let mut hits = 0;
        for _ in 0..200 {
            let mut fixture = Fixture::new(&[], false);
            let text = (0..5_000).map(|line| format!("{{\"line\":{line}}}\n")).collect::<Vec<_>>().concat();
            std::fs::write(fixture.path("a.ndjson"), text).unwrap();
            if is_served {
                fixture.serve();
            }
            let trail = fixture.path("a.ndjson.cairn-import");
            let run = |more: &[&str]| {
                let words = [&["shop.orders", "a.ndjson", "--resume"], more].concat();
                let mut command = fixture.run("import", &words);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                command
            };
            let is_done = || {
                std::fs::read(&trail).is_ok_and(|text| {
                    serde_json::from_slice::<serde_json::Value>(&text)
                        .is_ok_and(|state| state["done"] == true)
                })
            };
            let mut child = run(&[]).spawn().unwrap();
            while !is_done() && child.try_wait().unwrap().is_none() {}
            child.kill().unwrap();
            child.wait().unwrap();
            if !is_done() {
                // It was quicker than the kill, which is tried again.
                continue;
            }
            hits += 1;
            complains(
                &run(&["--max-rejects", "5"]).output().unwrap(),
                0,
                "everything was imported before, and nothing now: read 5,000 records",
            );
            assert!(!trail.exists());
            let output = fixture.export(&["shop.orders"]);
            assert_eq!(output.stdout.split(|byte| *byte == b'\n').count() - 1, 5_000);
            // The state is gone: this is another import.
            complains(&run(&["--json"]).output().unwrap(), 0, "");
            let output = fixture.export(&["shop.orders"]);
            assert_eq!(output.stdout.split(|byte| *byte == b'\n').count() - 1, 10_000);
            if hits == 3 {
                break;
            }
        }
        assert!(hits > 0, "no kill came in time");
    }
}

/// A report of an import that was resumed has the bytes of its files once.
#[test]
fn bytes_are_counted_once_over_all_attempts() {
    let fixture = Fixture::new(&[], false);
    let text = (0..500).map(|id| format!("{{\"_id\":{id}}}\n")).collect::<Vec<_>>().concat();
    std::fs::write(fixture.path("a.ndjson"), format!("{text}x\n")).unwrap();
    std::fs::write(fixture.path("b.ndjson"), format!("x\n{text}").replace(':', ":1")).unwrap();
    let run = |limit: &str| {
        let words = [
            "shop.orders",
            "a.ndjson",
            "b.ndjson",
            "--resume",
            "--json",
            "--batch",
            "10",
            "--max-rejects",
            limit,
        ];
        fixture.run("import", &words).output().unwrap()
    };
    complains(&run("0"), 3, "stopped at a.ndjson, line 501");
    complains(&run("1"), 3, "stopped at b.ndjson, line 1");
    let output = run("5");
    complains(&output, 3, "2 of 1,002 records were rejected");
    let report: Document = serde_json::from_slice(&output.stdout).unwrap();
    let length = |name: &str| std::fs::metadata(fixture.path(name)).unwrap().len() as i32;
    assert_eq!(report.get_i32("bytes").unwrap(), length("a.ndjson") + length("b.ndjson"), "{report}");
}

/// The state stands beside the input, and stays when a store is removed, which is how people start over: what it called imported was
/// passed over, and the import was said to be whole.
#[test]
fn what_was_imported_and_is_missing_is_not_passed_over() {
    for is_served in [false, true] {
        let mut fixture = Fixture::new(&[], is_served);
        let text = (0..500).map(|id| format!("{{\"_id\":{id}}}\n")).collect::<Vec<_>>().concat();
        std::fs::write(fixture.path("a.ndjson"), format!("{text}x\n")).unwrap();
        let trail = fixture.path("a.ndjson.cairn-import");
        let run = |fixture: &Fixture, more: &[&str]| {
            let words = [&["shop.orders", "a.ndjson", "--resume", "--batch", "10"], more].concat();
            fixture.run("import", &words).output().unwrap()
        };
        let refused = |fixture: &Fixture, words: &str| {
            let output = run(fixture, &["--max-rejects", "5"]);
            let start = "a.ndjson.cairn-import says that 501 records are imported, but ";
            complains(&output, 2, &format!("{start}{words}: remove a.ndjson.cairn-import to start over"));
        };
        complains(&run(&fixture, &["--max-rejects", "0"]), 3, "stopped at a.ndjson, line 501");
        let changed = |fixture: &mut Fixture, change: &dyn Fn(Collection<Document>)| {
            if is_served {
                fixture.kill_in_order();
            }
            let client = Client::open(fixture.path("db")).unwrap();
            change(client.database("shop").collection("orders"));
            client.close().unwrap();
            if is_served {
                fixture.serve();
            }
        };
        changed(&mut fixture, &|orders| {
            orders.delete_many(doc! {}).run().unwrap();
        });
        refused(&fixture, "the collection shop.orders is empty");
        changed(&mut fixture, &|orders| orders.drop().run().unwrap());
        refused(&fixture, "the store has no collection shop.orders");
        // Also where all was imported, and the process was killed at its end.
        let state = read(&trail);
        let mut done: serde_json::Value = serde_json::from_slice(&state).unwrap();
        done["done"] = true.into();
        std::fs::write(&trail, done.to_string()).unwrap();
        refused(&fixture, "the store has no collection shop.orders");
        std::fs::write(&trail, state).unwrap();
        changed(&mut fixture, &|orders| drop(orders.insert_one(doc! { "_id": 1 }).run().unwrap()));
        refused(&fixture, "the collection shop.orders was created again since");
        if is_served {
            continue;
        }
        std::fs::remove_dir_all(fixture.path("db")).unwrap();
        let words = format!("there is no store {}", fixture.path("db").display());
        refused(&fixture, &words);
        assert!(!fixture.path("db").exists());
        std::fs::create_dir(fixture.path("db")).unwrap();
        refused(&fixture, &words);
        assert_eq!(std::fs::read_dir(fixture.path("db")).unwrap().count(), 0);
        // As the message says.
        std::fs::remove_file(&trail).unwrap();
        complains(&run(&fixture, &["--overwrite"]), 3, "500 inserted");
    }
}

/// A delete leaves an empty collection, which is not a reason not to go on.
#[test]
fn an_import_that_deletes_goes_on_in_an_empty_collection() {
    let documents: Vec<Document> = (0..20).map(|id| doc! { "_id": id }).collect();
    let fixture = Fixture::new(&documents, false);
    let text = (0..20).map(|id| format!("{{\"_id\":{id}}}\n")).collect::<Vec<_>>().concat();
    std::fs::write(fixture.path("a.ndjson"), format!("{text}x\n")).unwrap();
    let run = |limit: &str| {
        let words = ["shop.orders", "a.ndjson", "--resume", "--mode", "delete", "--max-rejects", limit];
        fixture.run("import", &words).output().unwrap()
    };
    complains(&run("0"), 3, "20 deleted");
    complains(&run("5"), 3, "1 of 21 records was rejected");
    assert_eq!(fixture.files(), ["a.ndjson", "a.ndjson.rejects.ndjson"]);
}

/// Without its state a file of rejects says that all was imported, as the process that is killed between the two leaves it: the
/// same command must not import twice.
#[test]
fn an_import_with_a_state_does_not_replace_the_rejects_of_an_earlier_one() {
    let fixture = Fixture::new(&[], false);
    std::fs::write(fixture.path("a.ndjson"), "{\"a\":1}\nx\n").unwrap();
    complains(&import(&fixture, &[]), 3, "1 of 2 records was rejected");
    complains(&import(&fixture, &[]), 2, "a.ndjson.rejects.ndjson is there already");
    assert_eq!(fixture.documents().len(), 1);
}
