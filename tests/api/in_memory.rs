//! Databases in memory: everything works as in a folder, nothing reaches a disk, and all of it is freed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Document, doc};
use cairndb::{AutoIncrement, Client, ClientBuilder, Durability, ErrorKind, IndexModel, IndexOptions};
use cairndb_tests::choices::{Choices, seed};
use cairndb_tests::scratch::{Scratch, small, things};

/// So that each test of a program can have its own, on a busy machine too.
const OPENING_MAX: Duration = Duration::from_millis(100);

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

/// Not in the folder for temporary files, not in the one that the process works in, and in no file without a name.
#[test]
fn nothing_is_written_while_it_is_used() {
    if !is_alone("nothing_is_written_while_it_is_used") {
        return;
    }
    let client = in_memory().index_build_memory(1 << 20).open("name").expect("made");
    let documents =
        (0..20_000).map(|number| doc! { "_id": number, "code": -number, "text": "x".repeat(200) });
    things(&client).insert_many(documents).run().expect("inserted");
    client.flush().expect("flushed");
    let by_code = IndexModel::builder().keys(doc! { "code": 1, "text": 1 }).build();
    things(&client).create_index(by_code).run().expect("built");
    client.flush().expect("flushed");
    let sorted = things(&client).find(doc! {}).sort(doc! { "text": 1, "code": 1 }).run().expect("sorted");
    assert_eq!(sorted.count(), 20_000);
    client.sync().expect("a sync has nothing to do");
    for folder in [std::env::temp_dir(), std::env::current_dir().expect("a folder")] {
        assert_eq!(names(&folder), [""; 0], "{}", folder.display());
    }
    assert_eq!(open_files(), [""; 0].map(PathBuf::from));
    client.close().expect("closed");
}

/// Tables beside it, which are files in memory, are not a part of the budget.
#[test]
fn the_budget_bounds_memtables_and_cache() {
    let client = in_memory().open("").expect("made");
    let (mut choices, mut most) = (Choices::seeded(seed()), 0);
    // No compression makes fewer of these bytes.
    let mut content = move || {
        let bytes = (0..250).flat_map(|_| choices.number().to_le_bytes()).collect();
        Binary { subtype: BinarySubtype::Generic, bytes }
    };
    for batch in 0..60 {
        let documents = (0..500).map(|number| doc! { "_id": batch * 500 + number, "content": content() });
        things(&client).insert_many(documents).run().expect("inserted");
        most = most.max(client.metrics().expect("metrics").storage.memtable_bytes);
    }
    // Sixty megabytes were written, under a budget of sixteen.
    assert!(most > 1 << 20 && most < 16 << 20, "{most}");
    for number in (0..30_000).step_by(10) {
        assert_eq!(count(&client, doc! { "_id": number }), 1);
    }
    let storage = client.metrics().expect("metrics").storage;
    // An eighth is for records that are looked up often, and a sixteenth for leaves of indexes.
    assert_eq!(storage.cache_capacity_bytes, 13 << 20);
    assert!(storage.cache_bytes > 1 << 20 && storage.cache_bytes <= 13 << 20, "{storage:?}");
    assert!(storage.record_cache_bytes <= 3 << 20, "{storage:?}");
    assert!(storage.table_bytes > 20 << 20, "{storage:?}");
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

/// The parent of the folder does not exist, or a file is in its place.
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

/// A thousand of them, one after the other, as the tests of a program make them. Half of them are closed, and half dropped.
#[test]
fn a_thousand_leave_nothing_behind() {
    if !is_alone("a_thousand_leave_nothing_behind") {
        return;
    }
    let cycle = |round: u32| {
        let began = Instant::now();
        let client = in_memory().open("").expect("made");
        let opened = began.elapsed();
        let document: Document = doc! { "_id": 1, "text": "x".repeat(1000) };
        things(&client).insert_one(document).run().expect("inserted");
        if round.is_multiple_of(2) {
            client.close().expect("closed");
        }
        opened
    };
    (0..50).map(cycle).for_each(|_| {});
    let before = Process::now();
    // The machine may do something else at any time, so the best of ten means counts.
    let mean = |_| (0..100).map(cycle).sum::<Duration>() / 100;
    let best = (0..10).map(mean).min().expect("there are ten");
    let after = Process::now();
    println!("opened in {:.2} ms; {before:?}, {after:?}", best.as_secs_f64() * 1000.0);
    assert!(best < OPENING_MAX, "{best:?}");
    assert!(after.files < before.files + 10, "{before:?} {after:?}");
    assert!(after.threads < before.threads + 10, "{before:?} {after:?}");
    assert!(after.kilobytes < before.kilobytes + (100 << 10), "{before:?} {after:?}");
}

/// The tables that a build makes are files of RocksDB's in memory, and one that it did not adopt cannot be deleted. So each build that failed used as
/// much memory as its entries, until the database was closed. In memory a build makes none.
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
/// process holds can only be compared where nothing else runs. It works in a folder of its own, and has another one for
/// temporary files; both must be empty when it has ended.
#[track_caller]
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "CAIRNDB_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let suite = std::env::current_exe().expect("a test is a file");
    let test = format!("in_memory::{name}");
    let [work, temporary] = [(); 2].map(|()| Scratch::new());
    let mut command = Command::new(suite);
    command
        .args(["--exact", &test])
        .env(ALONE, "1")
        .current_dir(work.folder())
        .env("TMPDIR", temporary.folder());
    let ran = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    for folder in [work.folder(), temporary.folder()] {
        assert_eq!(names(folder), [""; 0], "{name} has left them");
    }
    false
}

/// The names of what is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("listed").file_name());
    entries.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The files that this process has open, those included that have no name any more.
fn open_files() -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("of this process");
    // That of the listing itself is closed by now.
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.expect("listed").path()).ok());
    targets
        .filter(|target| target.is_absolute() && !["/dev", "/proc"].iter().any(|of| target.starts_with(of)))
        .collect()
}

/// The memory and files of this process.
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
