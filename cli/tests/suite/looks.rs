//! Commands that look at a store or a server: `schema`, `ops` and `kill`, and `restore-backup`, which only reads a backup.

#![cfg(feature = "remote")]

use std::process::{Output, Stdio};

use cairndb::Client;
use cairndb::bson::doc;

use crate::fixture::{Fixture, cairn, complains, on_both, report};

fn run(fixture: &Fixture, name: &str, more: &[&str]) -> Output {
    fixture.run(name, more).stdin(Stdio::null()).output().expect("it runs")
}

#[test]
fn a_schema_has_the_fields_with_their_types_and_shares() {
    let documents = [
        doc! { "_id": 1, "name": "Ada", "items": [{ "sku": "a", "n": 1 }, { "sku": "b", "n": 2_i64 }], "at": { "city": "Bonn" } },
        doc! { "_id": 2, "name": "Grace", "items": [], "at": { "city": null } },
        doc! { "_id": 3, "name": 7, "odd\n": true },
    ];
    on_both(&documents, |fixture| {
        let output = run(fixture, "schema", &["shop.orders"]);
        complains(&output, 0, "3 of 3 documents were looked at");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "field        types                 documents\n\
             _id          int                        100%\n\
             name         string 67%, int 33%        100%\n\
             items        array                       67%\n\
             items[]      object                      33%\n\
             items[].sku  string                      33%\n\
             items[].n    int 50%, long 50%           33%\n\
             at           object                      67%\n\
             at.city      string 50%, null 50%        67%\n\
             odd\\n        bool                        33%\n"
        );
        let report = report(&run(fixture, "schema", &["shop.orders", "--json", "--sample", "2"]));
        assert_eq!((report["documents"].as_i64(), report["sampled"].as_i64()), (Some(3), Some(2)));
        assert_eq!(report["fields"][0]["path"], "_id");
        assert_eq!(report["fields"][0]["types"][0]["type"], "int");
        complains(&run(fixture, "schema", &["shop.none"]), 1, "there is no collection shop.none");
        complains(&run(fixture, "schema", &["shop.orders", "--sample", "0"]), 2, "--sample");
    });
}

#[test]
fn what_a_server_is_at_work_on_is_listed_and_ended() {
    let fixture = Fixture::new(&(0..2_000).map(|id| doc! { "_id": id }).collect::<Vec<_>>(), true);
    complains(&run(&fixture, "ops", &[]), 0, "the server is at work on nothing else");
    complains(&run(&fixture, "kill", &["999999"]), 1, "the server is at work on no operation 999999");
    let endless = "db.orders.aggregate([{$set: {a: {$reduce: {input: {$range: [0, 500000]}, initialValue: 0, in: {$add: ['$$value', 1]}}}}}]).itcount()";
    let mut busy = fixture.run("query", &[endless]);
    let busy = busy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let number = loop {
        let found = report(&run(&fixture, "ops", &["--json"]));
        let list = found["list"].as_array().cloned().unwrap_or_default();
        let number = list.iter().find(|one| one["ns"] == "shop.orders").map(|one| one["opid"].clone());
        if let Some(number) = number {
            break number.to_string();
        }
    };
    let shown = run(&fixture, "ops", &[]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("shop.orders"), "{shown:?}");
    complains(&run(&fixture, "kill", &[&number]), 0, &format!("operation {number} was asked to end"));
    complains(&busy.wait_with_output().expect("it ends"), 1, "Interrupted");
    let folder = Fixture::new(&[], false);
    complains(&run(&folder, "ops", &[]), 2, "ops needs a URI or a socket");
}

/// A backup that is opened to restore it is no longer as it was made.
#[test]
fn a_backup_is_restored_without_a_change() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    complains(&run(&fixture, "backup", &["kept", "--generations", "3"]), 0, "");
    let generations = || {
        let entries = std::fs::read_dir(fixture.path("kept")).expect("it is there");
        let mut paths: Vec<_> =
            entries.map(|entry| entry.expect("it is one").path()).filter(|path| path.is_dir()).collect();
        paths.sort();
        paths
    };
    let first = generations()[0].clone();
    let restore = |from: &std::path::Path, to: &str| {
        cairn()
            .arg("restore-backup")
            .arg(from)
            .arg(to)
            .current_dir(fixture.folder.path())
            .output()
            .expect("it runs")
    };
    complains(
        &restore(&fixture.path("kept"), "again"),
        2,
        &format!("give one, the newest is {}", first.display()),
    );
    complains(&restore(&first, "again"), 0, "restored 1 document into again");
    let client = Client::open(fixture.path("again")).expect("it is a store");
    let orders = client.database("shop").collection("orders");
    orders.insert_one(doc! { "_id": 2 }).run().expect("it works");
    drop(orders);
    client.close().expect("it closes");
    complains(&restore(&first, "again"), 2, "again");
    complains(&restore(&fixture.path("none"), "other"), 6, "none");
    // The next backups remove it in its turn: it is as it was made.
    for _ in 0..3 {
        complains(&run(&fixture, "backup", &["kept", "--generations", "1"]), 0, "");
    }
    assert!(!generations().contains(&first));
    // A copy that is damaged is none.
    let last = generations()[0].clone();
    let table = std::fs::read_dir(&last).expect("it is there").flatten().map(|entry| entry.path());
    let table = table
        .filter(|path| path.extension().is_some_and(|ending| ending == "sst"))
        .max_by_key(|path| std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
    let table = table.expect("there is a table");
    let mut bytes = std::fs::read(&table).expect("it is read");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0xff;
    std::fs::write(&table, bytes).expect("it is written");
    let output = restore(&last, "damaged");
    assert!(matches!(output.status.code(), Some(1 | 4)), "{output:?}");
    assert!(!fixture.path("damaged").exists());
}

/// What was counted was told twice, and a dry run told what it had not done.
#[test]
fn counts_are_told_once_and_of_a_dry_run_as_what_would_be() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":1}\nx\n").expect("it is written");
    let told = |more: &[&str]| {
        let output = run(&fixture, "import", &[&["shop.orders", "a.ndjson"], more].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let once = told(&["--mode", "delete"]);
    assert_eq!(once.matches("1 of 2 records was rejected: 1 deleted, ").count(), 1, "{once}");
    assert!(!once.contains("read 2"), "{once}");
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":2}\n").expect("it is written");
    let dry = told(&["--dry-run"]);
    assert!(dry.contains("1 would be inserted"), "{dry}");
    assert!(told(&[]).contains(" 1 inserted"));
    // Only one side tells of index uses, which is said to those who ask.
    let quiet = run(&fixture, "stats", &[]);
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
    complains(&run(&fixture, "stats", &["--verbose"]), 0, "ask its socket");
}

#[cfg(feature = "shell")]
#[test]
fn words_of_the_shell_are_words_of_query() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let output = run(&fixture, "query", &["show collections"]);
    complains(&output, 0, "");
    assert_eq!(output.stdout, b"orders\n");
    complains(&run(&fixture, "query", &["show nothing"]), 1, "");
}
