//! `cairn verify` and `cairn salvage` as processes.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, IndexModel};

use crate::fixture::{Fixture, SetWhenDropped, cairn, complains, every_type, read};

/// Their text does not compress, so the largest table is theirs and not the index's.
fn documents() -> Vec<Document> {
    let text = |n: u64| -> String {
        let part = |part: u64| format!("{:016x}", (12 * n + part).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (1..=12).map(part).collect::<Vec<_>>().concat()
    };
    (0_u32..500).map(|n| doc! { "_id": n, "n": n % 7, "text": text(n.into()) }).collect()
}

fn orders(client: &Client) -> Collection<Document> {
    client.database("shop").collection("orders")
}

/// A folder with documents in tables and an index.
fn filled() -> Fixture {
    let fixture = Fixture::new(&documents(), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    orders(&client).create_index(index).run().expect("it works");
    client.database("shop").create_sequence("tickets").run().expect("it works");
    client.close().expect("it works");
    fixture
}

fn run(fixture: &Fixture, command: &str, more: &[&str]) -> Output {
    fixture.run(command, more).output().expect("it works")
}

fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("it works");
    let paths = entries.map(|entry| entry.expect("it works").path());
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect();
    found.sort_by_key(|path| std::fs::metadata(path).expect("it works").len());
    found
}

/// Flips a bit in the middle of the largest table.
fn damage_table(folder: &Path) -> PathBuf {
    let table = files(folder, "sst").pop().expect("there is one");
    let mut bytes = read(&table);
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).expect("it is there") ^= 1;
    std::fs::write(&table, bytes).expect("it works");
    table
}

fn flushed() -> Fixture {
    let fixture = filled();
    let client = Client::open(fixture.path("db")).expect("it works");
    // Opening and closing again leaves tables alone, with nothing in the log.
    client.close().expect("it works");
    assert!(!files(&fixture.path("db"), "sst").is_empty());
    fixture
}

#[test]
fn a_whole_folder_is_verified_and_counted() {
    let fixture = filled();
    let output = run(&fixture, "verify", &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("500 documents in 1 collection,") && told.contains("nothing is wrong"), "{told}");
    let output =
        run(&fixture, "verify", &["--json", "--bytes-per-second", "100000000", "--memory", "16777216"]);
    let report = report(&output);
    let number = |name: &str| report.get(name).and_then(serde_json::Value::as_u64);
    assert_eq!(report.get("ok"), Some(&serde_json::Value::Bool(true)), "{report}");
    assert_eq!((number("documents"), number("indexes"), number("entries")), (Some(500), Some(1), Some(500)));
    assert_eq!((number("sequences"), number("findingsOmitted")), (Some(1), Some(0)));
    assert_eq!(report.get("findings"), Some(&serde_json::json!([])));
    assert!(number("files").is_some_and(|files| files > 0));
}

#[test]
fn damage_of_a_table_is_a_line_with_its_file_and_its_place_and_exit_4() {
    let fixture = flushed();
    let table = damage_table(&fixture.path("db"));
    let name = table.file_name().expect("it has one").to_str().expect("it is text").to_owned();
    let output = run(&fixture, "verify", &[]);
    complains(&output, 4, "findings");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(found.lines().any(|line| line.contains(&name) && line.contains(" at byte ")), "{found}");
    let report = report(&run(&fixture, "verify", &["--json"]));
    assert_eq!(report.pointer("/error/kind"), Some(&serde_json::json!("different")));
    let findings = report.get("findings").and_then(serde_json::Value::as_array).expect("a list");
    let is_table = |finding: &serde_json::Value| {
        let file = finding.get("file").and_then(serde_json::Value::as_str);
        file.is_some_and(|file| file.ends_with(&name)) && finding.get("offset").is_some()
    };
    assert!(findings.iter().any(is_table), "{findings:?}");
}

#[test]
fn a_folder_that_does_not_open_for_its_damage_is_damaged() {
    let fixture = filled();
    std::fs::remove_file(fixture.path("db").join("CURRENT")).expect("it works");
    complains(&run(&fixture, "verify", &[]), 4, "CURRENT");
}

/// It was called no database, or one of another format, which is looked for elsewhere than in a backup.
#[test]
fn a_damaged_marker_is_damage_and_another_format_is_not() {
    let fixture = filled();
    let marker = fixture.path("db").join("CAIRNDB");
    let whole = std::fs::read(&marker).expect("it works");
    for (damaged, words) in [
        (&b""[..], "damaged at byte 0"),
        (b"CairnDB form", "damaged at byte 12"),
        (b"\xff\xfe\xfd", "damaged at byte 0"),
        (b"CairnDB format 7x\n", "damaged at byte 16"),
        (b"CairnDB format 04\n", "damaged at byte 15"),
    ] {
        std::fs::write(&marker, damaged).expect("it works");
        complains(&run(&fixture, "verify", &[]), 4, words);
        complains(&run(&fixture, "export", &["shop.orders"]), 1, words);
    }
    std::fs::write(&marker, b"CairnDB format 77\n").expect("it works");
    complains(&run(&fixture, "verify", &[]), 6, "77");
    // A file of that name alone makes no store.
    std::fs::write(&marker, whole).expect("it works");
    std::fs::create_dir(fixture.path("other")).expect("it works");
    std::fs::write(fixture.path("other").join("CAIRNDB"), b"mine").expect("it works");
    let other = cairn().arg("verify").arg(fixture.path("other")).output().expect("it works");
    complains(&other, 6, "CAIRNDB");
    assert_eq!(run(&fixture, "verify", &[]).status.code(), Some(0));
}

#[test]
fn what_is_no_store_or_no_folder_is_refused() {
    let fixture = filled();
    complains(&cairn().args(["verify", "nothing-here"]).output().expect("it works"), 6, "nothing-here");
    complains(
        &cairn().args(["salvage", "nothing-here", "new"]).output().expect("it works"),
        6,
        "nothing-here",
    );
    complains(
        &cairn().args(["verify", "mongodb://localhost/"]).output().expect("it works"),
        2,
        "verify reads the files",
    );
    complains(&run(&fixture, "verify", &["--bytes-per-second", "0"]), 2, "--bytes-per-second");
    let target = fixture.path("db");
    complains(&run(&fixture, "salvage", &[target.to_str().expect("it is text")]), 2, "db");
    let mut served = filled();
    served.serve();
    complains(&run(&served, "verify", &[]), 2, "give it the folder");
    complains(&run(&served, "salvage", &["new"]), 2, "give it the folder");
}

#[test]
fn a_whole_folder_is_salvaged_as_a_whole() {
    let fixture = filled();
    let output = run(&fixture, "salvage", &["new"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "shop.orders: 500 documents\n");
    let client = Client::open(fixture.path("new")).expect("it works");
    assert_eq!(orders(&client).count_documents(doc! {}).run().expect("it works"), 500);
    assert_eq!(orders(&client).list_index_names().run().expect("it works"), ["_id_", "n_1"]);
    // What is there is not replaced.
    drop(client);
    complains(&run(&fixture, "salvage", &["new"]), 2, "new");
}

/// A name could color a terminal, or be two lines of a list whose lines are collections.
#[test]
fn names_are_shown_on_one_line_and_without_control_characters() {
    let name = "a\u{1b}[31mRED\u{7}\nb";
    let shown = "a\\u{1b}[31mRED\\u{7}\\nb";
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let named: Collection<Document> = client.database("shop").collection(name);
    named.insert_one(doc! { "_id": 1 }).run().expect("it works");
    drop(named);
    client.close().expect("it works");
    let output = run(&fixture, "salvage", &["new"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("shop.{shown}: 1 document\n"));
    for command in ["compact", "export"] {
        let absent = format!("shop.no-{name}");
        complains(&run(&fixture, command, &[&absent]), 1, &format!("shop.no-{shown}"));
    }
    let output = run(&fixture, "salvage", &[name]);
    complains(&output, 0, &format!("into {shown}\n"));
    let dumped = run(&fixture, "dump", &["dumped"]);
    assert_eq!(dumped.status.code(), Some(0), "{dumped:?}");
    // The document is there already, and named with its collection.
    complains(&run(&fixture, "restore", &["dumped", "--into-existing"]), 3, &format!("shop.{shown}, _id"));
    complains(&run(&fixture, "restore", &["dumped"]), 1, &format!("shop.{shown}"));
}

#[test]
fn what_is_lost_is_told_with_exit_3_and_the_damaged_folder_is_untouched() {
    let fixture = flushed();
    let table = damage_table(&fixture.path("db"));
    let before = read(&table);
    let output = run(&fixture, "salvage", &["new"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("cannot be read"), "{told}");
    assert_eq!(read(&table), before);
    let verified = cairn().arg("verify").arg(fixture.path("new")).output().expect("it works");
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let report = report(&run(&fixture, "salvage", &["again", "--json"]));
    assert_eq!(report.pointer("/error/kind"), Some(&serde_json::json!("partly")));
    assert!(
        report.get("unreadable").and_then(serde_json::Value::as_array).is_some_and(|list| !list.is_empty())
    );
}

#[test]
fn a_folder_that_another_process_has_open_is_not_salvaged() {
    let mut fixture = filled();
    fixture.serve();
    let folder = fixture.path("db");
    let output = cairn().arg("salvage").arg(&folder).arg(fixture.path("new")).output().expect("it works");
    complains(&output, 5, "db is open in another process (pid ");
    complains(&output, 5, "give the socket");
    assert!(!fixture.path("new").exists());
}

/// No false alarm: a writer flushes, compacts and deletes files all the time.
#[test]
fn a_folder_is_verified_beside_a_process_that_writes_to_it() {
    let mut fixture = Fixture::new(&[every_type()], false);
    fixture.serve();
    let socket = fixture.path("s.sock");
    let input = fixture.path("many.ndjson");
    let lines: Vec<_> =
        (0..3000).map(|n| format!("{{\"n\": {n}, \"text\": \"{}\"}}", "y".repeat(1000))).collect();
    std::fs::write(&input, lines.join("\n")).expect("it works");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut import = cairn();
                import
                    .arg("import")
                    .arg(&socket)
                    .arg("shop.many")
                    .arg(&input)
                    .arg("--drop")
                    .stdin(Stdio::null());
                let output = import.output().expect("it works");
                assert_eq!(output.status.code(), Some(0), "{output:?}");
            }
        });
        for _ in 0..10 {
            let output = cairn().arg("verify").arg(fixture.path("db")).output().expect("it works");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("no panic");
    });
}
