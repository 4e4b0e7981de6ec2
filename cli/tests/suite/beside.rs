//! Commands that read a folder while another process writes to it at full speed, flushes and compacts: each sees one moment,
//! and none complains.
//!
//! `CAIRNDB_BESIDE_SECONDS` says for how long: `make tool SECONDS=3600`.

#![cfg(unix)]

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, RawDocument, doc};
use cairndb::{Client, Collection, IndexModel};
use formats::dump::stream::DocumentStream;

use crate::fixture::{Fixture, cairn, read, report};

/// The documents of a batch, which one commit writes and another deletes.
const BATCH: i64 = 100;
/// How many batches there are at a time.
const KEPT: i64 = 60;
const SECONDS_DEFAULT: u64 = 8;

/// Writes batches into `first` and then into `second`, and deletes old ones from `first` and then from `second`.
fn write(client: &Client, is_over: &AtomicBool) -> i64 {
    let shop = client.database("shop");
    let [first, second] = ["first", "second"].map(|name| shop.collection::<Document>(name));
    let mut batch = 0;
    while !is_over.load(Ordering::Relaxed) {
        for collection in [&first, &second] {
            insert(collection, batch);
        }
        for collection in [&first, &second] {
            let old = doc! { "batch": batch - KEPT };
            collection.delete_many(old).run().expect("deleted");
        }
        if batch % 40 == 39 {
            client.flush().expect("flushed");
        }
        if batch % 200 == 199 {
            client.compact().run().expect("compacted");
        }
        batch += 1;
    }
    batch
}

fn insert(collection: &Collection<Document>, batch: i64) {
    let text = format!("{:0500}", batch * 7919);
    let documents =
        (0..BATCH).map(|n| doc! { "_id": batch * BATCH + n, "batch": batch, "n": n, "text": &text });
    collection.insert_many(documents).run().expect("inserted");
}

/// Checks that the batches are whole and without a hole between them. Gives the newest, if there is one.
fn newest(batches: impl Iterator<Item = i64>, what: &str) -> Option<i64> {
    let mut counts = std::collections::BTreeMap::new();
    batches.for_each(|batch| *counts.entry(batch).or_insert(0) += 1);
    let (oldest, newest) = (counts.keys().next().copied()?, counts.keys().next_back().copied()?);
    assert!(counts.values().all(|count| *count == BATCH), "{what}: a part of a batch: {counts:?}");
    assert_eq!(i64::try_from(counts.len()), Ok(newest - oldest + 1), "{what}: a hole: {counts:?}");
    assert!(newest - oldest <= KEPT, "{what}: {oldest} to {newest}");
    Some(newest)
}

/// Checks that both collections are those of one moment: `first` has a batch before `second` has it.
fn check_moment(first: Option<i64>, second: Option<i64>) {
    let [first, second] = [first, second].map(|newest| newest.unwrap_or(-1));
    assert!(first == second || first == second + 1, "not of one moment: {first} and {second}");
}

fn batches_of(file: &Path) -> Vec<i64> {
    let bytes = read(file);
    let mut stream = DocumentStream::new(&*bytes);
    let (mut document, mut batches) = (Vec::new(), Vec::new());
    while stream.next(&mut document).expect("it is whole") {
        batches
            .push(RawDocument::from_bytes(&document).expect("a document").get_i64("batch").expect("a batch"));
    }
    batches
}

fn succeeded(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

fn run(fixture: &Fixture, command: &str, more: &[&str]) -> Output {
    succeeded(fixture.run(command, more).output().expect("it runs"))
}

fn dump(fixture: &Fixture) {
    run(fixture, "dump", &["dumped", "--overwrite", "--quiet"]);
    let [first, second] = ["first", "second"].map(|name| {
        newest(batches_of(&fixture.path(&format!("dumped/shop/{name}.bson"))).into_iter(), "dump")
    });
    check_moment(first, second);
}

fn stats(fixture: &Fixture) {
    let told = report(&run(fixture, "stats", &["--json"]));
    assert_eq!(told.get("ok"), Some(&serde_json::Value::Bool(true)), "{told}");
}

fn query(fixture: &Fixture) {
    let groups = "db.first.aggregate([{$group: {_id: '$batch', n: {$sum: 1}}}, {$sort: {_id: 1}}])";
    let joined = "db.second.aggregate([{$lookup: {from: 'first', localField: '_id', foreignField: '_id', as: 'own'}}, \
                  {$match: {own: {$size: 0}}}, {$sort: {_id: 1}}, {$project: {batch: 1}}])";
    let lines = |expression: &str| -> Vec<serde_json::Value> {
        let output = run(fixture, "query", &[expression, "--db", "shop"]);
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
    };
    let number = |line: &serde_json::Value, name: &str| line.get(name).and_then(serde_json::Value::as_i64);
    let batches = lines(groups).into_iter().flat_map(|group| {
        let (batch, count) = (number(&group, "_id").expect("a batch"), number(&group, "n").expect("a count"));
        (0..count).map(move |_| batch)
    });
    newest(batches, "query");
    // The oldest batch may be gone from `first` and not yet from `second`: all of it, and no other.
    let gone: Vec<_> = lines(joined).iter().map(|line| number(line, "batch").expect("a batch")).collect();
    let is_one = gone.iter().all(|batch| gone.first() == Some(batch));
    assert!(
        is_one && (gone.is_empty() || i64::try_from(gone.len()) == Ok(BATCH)),
        "in second and not in first: {gone:?}"
    );
}

fn verify(fixture: &Fixture) {
    run(fixture, "verify", &["--quiet"]);
}

#[test]
fn readers_beside_a_writer_see_one_moment() {
    let seconds = std::env::var("CAIRNDB_BESIDE_SECONDS")
        .map_or(SECONDS_DEFAULT, |seconds| seconds.parse().expect("CAIRNDB_BESIDE_SECONDS is a number"));
    let fixture = Fixture::new(&[], false);
    // This process is the writer. Small memtables make for many flushes.
    let client = Client::builder().memory_budget(16 << 20).open(fixture.path("db")).expect("opened");
    for name in ["first", "second"] {
        let by_batch = IndexModel::builder().keys(doc! { "batch": 1 }).build();
        client.database("shop").collection::<Document>(name).create_index(by_batch).run().expect("made");
    }
    let (is_over, started) = (AtomicBool::new(false), Instant::now());
    let mut rounds = 0;
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&client, &is_over));
        // The writer ends, whatever a reader says.
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while rounds == 0 || started.elapsed() < Duration::from_secs(seconds) {
                for command in [dump, stats, query, verify] {
                    command(&fixture);
                }
                rounds += 1;
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().expect("no panic");
        read.unwrap_or_else(|fault| std::panic::resume_unwind(fault));
        written
    });
    let mut said = std::io::stderr().lock();
    let line = format!("beside: {rounds} rounds of 4 commands beside {written} batches in {seconds} s");
    std::io::Write::write_all(&mut said, format!("{line}\n").as_bytes()).expect("said");
    assert!(written > KEPT, "the writer hardly wrote: {written}");
    let output =
        cairn().arg("dump").arg(fixture.path("db")).arg(fixture.path("last")).output().expect("it runs");
    succeeded(output);
}
