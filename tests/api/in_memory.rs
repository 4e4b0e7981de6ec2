//! Databases in memory: everything works as in a folder, nothing reaches a disk, and all of it is freed.

use std::process::Command;
use std::time::Instant;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, ClientBuilder, Durability, ErrorKind, IndexModel, IndexOptions};
use cairndb_tests::choices::{Choices, seed};
use cairndb_tests::scratch::{Scratch, small, things};

fn in_memory() -> ClientBuilder {
    small().in_memory(true)
}

fn count(client: &Client, filter: Document) -> u64 {
    things(client).count_documents(filter).run().expect("counted")
}

#[test]
fn nothing_is_left_of_it_and_no_folder_is_made() {
    let scratch = Scratch::new();
    let client = in_memory().open(scratch.path()).expect("made");
    things(&client).insert_one(doc! { "_id": 1 }).run().expect("inserted");
    client.flush().expect("flushed");
    assert!(!scratch.path().exists());
    client.close().expect("closed");
    let again = in_memory().open(scratch.path()).expect("made again");
    assert_eq!(count(&again, doc! {}), 0);
}

#[test]
fn two_know_nothing_of_each_other() {
    let [one, other] = [(); 2].map(|()| in_memory().open("same name").expect("made"));
    things(&one).insert_one(doc! { "_id": 1 }).run().expect("inserted");
    assert_eq!(count(&other, doc! {}), 0);
    assert_eq!(count(&one, doc! {}), 1);
}

#[test]
fn indexes_are_built_over_what_is_there_and_used() {
    let client = in_memory().open("").expect("made");
    let documents = (0..30_000)
        .map(|number| doc! { "_id": number, "code": number * 7 % 30_011, "text": "x".repeat(100) });
    things(&client).insert_many(documents).run().expect("inserted");
    let options = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "code": 1 }).options(options).build();
    things(&client).create_index(model).run().expect("built");
    let found = things(&client).find_one(doc! { "code": 7 * 1000 }).run().expect("found");
    assert_eq!(found.expect("a document").get_i32("_id").expect("a number"), 1000);
    let taken = things(&client).insert_one(doc! { "code": 7 }).run().expect_err("taken");
    assert!(taken.is_duplicate_key(), "{taken}");
    let duplicate =
        IndexModel::builder().keys(doc! { "text": 1 }).options(IndexOptions::builder().unique(true).build());
    let refused =
        things(&client).create_index(duplicate.build()).run().expect_err("the same text everywhere");
    assert!(refused.is_duplicate_key(), "{refused}");
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.documents, report.files), (30_000, 0));
}

#[test]
fn what_is_flushed_and_compacted_is_read() {
    let client = in_memory().open("").expect("made");
    for round in 0..6 {
        for number in 0..2000 {
            let (filter, update) =
                (doc! { "_id": number }, doc! { "$set": { "round": round, "pad": "y".repeat(200) } });
            things(&client).update_one(filter, update).upsert(true).run().expect("updated");
        }
        client.flush().expect("flushed");
    }
    assert_eq!(count(&client, doc! { "round": 5 }), 2000);
}

#[test]
fn auto_increment_fields_are_filled_in() {
    let client = in_memory().durability(Durability::Journaled).open("").expect("made");
    things(&client)
        .create_auto_increment(AutoIncrement::builder().field("number").build())
        .run()
        .expect("created");
    let documents = (0..2500).map(|_| doc! {});
    things(&client).insert_many(documents).run().expect("inserted");
    let values = things(&client).distinct("number", doc! {}).run().expect("values");
    assert_eq!(values.len(), 2500);
    client.sync().expect("a sync has nothing to do");
}

#[test]
fn a_backup_is_a_database_on_disk() {
    let scratch = Scratch::new();
    let client = in_memory().open("").expect("made");
    things(&client)
        .create_index(IndexModel::builder().keys(doc! { "a": 1 }).build())
        .run()
        .expect("an index");
    things(&client)
        .create_auto_increment(AutoIncrement::builder().field("number").build())
        .run()
        .expect("created");
    let documents = (0..3000).map(|number| doc! { "_id": number, "a": number % 10 });
    things(&client).insert_many(documents).run().expect("inserted");
    let report = client.backup(scratch.path()).expect("copied");
    assert_eq!((report.verified.documents, report.verified.findings.len()), (3000, 0));
    assert!(report.verified.files > 0);
    // It is what it was when it was copied.
    things(&client).delete_many(doc! {}).run().expect("deleted");
    let last = |client: &Client| {
        let newest = things(client).find_one(doc! {}).sort(doc! { "number": -1 }).run().expect("found");
        newest.map(|newest| newest.get_i64("number").expect("a number"))
    };
    let copy = scratch.open();
    assert_eq!(count(&copy, doc! { "a": 3 }), 300);
    let before = last(&copy).expect("numbers");
    things(&copy).insert_one(doc! { "_id": 5000 }).run().expect("inserted");
    assert!(last(&copy).expect("numbers") > before);
    assert!(copy.verify().expect("verified").is_clean());
    copy.close().expect("closed");
    assert_eq!(count(&scratch.open(), doc! {}), 3001);
    let exists = client.backup(scratch.path()).expect_err("it exists");
    assert!(matches!(exists.kind(), ErrorKind::InvalidArgument { .. }), "{exists}");
}

/// Where the parent of the folder does not exist, and where a file is in its place.
#[test]
fn a_backup_that_fails_leaves_nothing() {
    let scratch = Scratch::new();
    let client = in_memory().open("").expect("made");
    things(&client).insert_one(doc! { "_id": 1 }).run().expect("inserted");
    let file = scratch.folder().join("file");
    std::fs::write(&file, "text").expect("written");
    for target in [scratch.folder().join("none").join("copy"), file.join("copy")] {
        client.backup(&target).map(drop).expect_err("there is no place for it");
    }
    let left: Vec<_> = std::fs::read_dir(scratch.folder()).expect("the folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(count(&client, doc! {}), 1);
}

#[test]
fn a_cursor_outlives_its_client() {
    let client = in_memory().open("").expect("made");
    things(&client).insert_many((0..3000).map(|number| doc! { "_id": number })).run().expect("inserted");
    let mut cursor = things(&client).find(doc! {}).run().expect("found");
    assert!(cursor.advance().expect("read"));
    drop(client);
    assert!(cursor.count() >= 1);
}

#[test]
fn options_that_need_files_are_refused() {
    for (options, named) in [
        (in_memory().read_only(true), "read_only"),
        (in_memory().create_if_missing(false), "create_if_missing"),
        (in_memory().scrub(1 << 20), "scrub"),
    ] {
        let refused = options.open("").expect_err("refused");
        assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }), "{refused}");
        assert!(refused.to_string().contains(named), "{refused}");
    }
}

/// A thousand of them, one after the other, as the tests of a program make them.
#[test]
fn a_thousand_leave_nothing_behind() {
    if !is_alone("a_thousand_leave_nothing_behind") {
        return;
    }
    let cycle = || {
        let client = in_memory().open("").expect("made");
        let document: Document = doc! { "_id": 1, "text": "x".repeat(1000) };
        things(&client).insert_one(document).run().expect("inserted");
        client.close().expect("closed");
    };
    (0..50).for_each(|_| cycle());
    let (before, started) = (Process::now(), Instant::now());
    (0..1000).for_each(|_| cycle());
    let after = Process::now();
    println!("a store in {:.1} ms; {before:?}, {after:?}", started.elapsed().as_secs_f64());
    assert!(after.files < before.files + 10, "{before:?} {after:?}");
    assert!(after.threads < before.threads + 10, "{before:?} {after:?}");
    assert!(after.kilobytes < before.kilobytes + (100 << 10), "{before:?} {after:?}");
}

/// The tables that a build makes are files of RocksDB's in memory, and one that it did not take over cannot be deleted. So each build that failed took as much memory as its entries, until the database was closed. In memory a build makes none.
#[test]
fn builds_that_fail_leave_nothing_behind() {
    if !is_alone("builds_that_fail_leave_nothing_behind") {
        return;
    }
    let client = in_memory().open("").expect("made");
    // Keys that do not compress; the last two are equal, so that a build finds out at its end.
    let mut choices = Choices::seeded(seed());
    let mut letter =
        move || char::from(*choices.pick(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    let mut text = move || (0..300).map(|_| letter()).collect::<String>();
    let documents = (0..20_000)
        .map(|number| doc! { "_id": number, "text": if number < 2 { "~".into() } else { text() } });
    things(&client).insert_many(documents).run().expect("inserted");
    let options = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "text": 1 }).options(options).build();
    let fail = || {
        let refused = things(&client).create_index(model.clone()).run().expect_err("two are equal");
        assert!(refused.is_duplicate_key(), "{refused}");
    };
    fail();
    let before = Process::now();
    (0..40).for_each(|_| fail());
    let after = Process::now();
    // The entries of 40 builds are 250 MiB.
    assert!(after.kilobytes < before.kilobytes + (120 << 10), "{before:?} {after:?}");
    assert!(client.verify().expect("verified").is_clean());
}

/// Whether the test of this name has a process of its own. If it has none, it is run in one, and must pass there: what a
/// process holds can only be compared where nothing else runs.
#[track_caller]
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "CAIRNDB_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let suite = std::env::current_exe().expect("a test is a file");
    let test = format!("in_memory::{name}");
    let ran = Command::new(suite).args(["--exact", &test]).env(ALONE, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// What this process holds.
#[derive(Debug)]
struct Process {
    files: usize,
    threads: usize,
    kilobytes: usize,
}

impl Process {
    fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).expect("of this process").count();
        let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
        let kilobytes = resident.trim().trim_end_matches(" kB").trim().parse().expect("a number");
        Self { files: count("/proc/self/fd"), threads: count("/proc/self/task"), kilobytes }
    }
}
