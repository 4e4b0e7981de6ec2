//! Folders of older formats: they open, lose nothing, and are upgraded by the first writer.
//!
//! `folders/format_3` was made by the last library of format 3: a collection of four books, whose `_id`s have four types,
//! with three indexes. `folders/format_4_long` was made by one of format 4: a collection with long `_id`s and indexed values, which are
//! whole in its keys. `folders/format_5` and `folders/format_6` are
//! the one of format 3, upgraded by libraries of those formats; that of format 6 has an answer of a retryable write. They are copied
//! before they are opened.

use std::fs;
use std::path::{Path, PathBuf};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, ErrorKind, IndexModel, RetryableWrite};
use cairndb_tests::scratch::{Scratch, small};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("api/folders").join(name)
}

/// A copy of the folder of format 3.
fn copied() -> Scratch {
    copy_of("format_3")
}

/// The folders with the books, and their markers.
const OF_BOOKS: [(&str, &str); 3] = [
    ("format_3", "CairnDB format 3\n"),
    ("format_5", "CairnDB format 5\n"),
    ("format_6", "CairnDB format 6\n"),
];

/// The row that a retryable write has left in the folder of format 6.
fn has_answer(name: &str) -> bool {
    name == "format_6"
}

fn copy_of(name: &str) -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path()).expect("a new folder");
    for entry in fs::read_dir(fixture(name)).expect("the folder is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), scratch.path().join(entry.file_name())).expect("copied");
    }
    scratch
}

fn marker(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path().join("CAIRNDB")).expect("a marker")
}

fn books(client: &Client) -> Collection<Document> {
    client.database("library").collection("books")
}

/// The plan and the number of documents that it has read.
fn explained(client: &Client, find: Document) -> (String, i32) {
    let explain = doc! { "explain": find, "verbosity": "executionStats" };
    let reply = client.database("library").run_command(explain).run().expect("explained");
    let statistics = reply.get_document("executionStats").expect("it was run");
    let plan = statistics.get_document("executionStages").expect("stages").to_string();
    (plan, statistics.get_i32("totalDocsExamined").expect("a number"))
}

#[track_caller]
fn check_books(client: &Client) {
    let books = books(client);
    let shown = books.find(doc! { "year": { "$gte": 2000 } }).projection(doc! { "year": 1 });
    let shown: Vec<Document> =
        shown.sort(doc! { "year": 1 }).run().expect("a cursor").map(|book| book.expect("a book")).collect();
    let id = ObjectId::from_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let expected = [
        doc! { "_id": 1, "year": 2000 },
        doc! { "_id": 2.0, "year": 2001 },
        doc! { "_id": 3_i64, "year": 2002 },
        doc! { "_id": id, "year": 2003 },
    ];
    assert_eq!(shown, expected);
    assert_eq!(books.count_documents(doc! { "isbn": "i2" }).run().expect("counted"), 1);
    assert_eq!(books.find(doc! { "tags": "b" }).run().expect("a cursor").count(), 4);
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_reader_leaves_an_older_folder_as_it_is() {
    for (name, old_marker) in OF_BOOKS {
        let scratch = copy_of(name);
        let client = small().read_only(true).open(scratch.path()).expect("opened");
        check_books(&client);
        // Metrics look at all families, and this folder lacks one.
        assert!(client.metrics().expect("measured").storage.cache_capacity_bytes > 0);
        // So do sessions, and questions for the last write of one.
        let write = RetryableWrite::new([1; 16], [0; 16], 1);
        assert_eq!(client.newest_retryable_write(&write).expect("looked up").is_some(), has_answer(name));
        let mut session = client.start_session().snapshot(true).run().expect("started");
        let found = books(&client).count_documents(doc! {}).session(&mut session).run();
        assert_eq!(found.expect("counted"), 4);
        drop(session);
        let copy = Scratch::new();
        client.backup(copy.path()).expect("copied");
        client.close().expect("closed");
        assert_eq!(marker(&scratch), old_marker);
        check_books(&copy.open());
    }
}

#[test]
fn a_writer_upgrades_an_older_folder_and_says_from_what() {
    for (name, old_marker) in OF_BOOKS {
        let scratch = copy_of(name);
        for opening in 0..2 {
            let client = scratch.open();
            let before = old_marker.trim_start_matches("CairnDB format ").trim_end().parse().ok();
            assert_eq!(client.upgraded_from(), if opening == 0 { before } else { None });
            assert_eq!(marker(&scratch), "CairnDB format 7\n");
            check_books(&client);
            client.close().expect("closed");
        }
    }
}

#[test]
fn an_older_folder_that_is_not_to_be_upgraded_is_rejected_and_stays() {
    let files = |scratch: &Scratch| {
        let mut files: Vec<_> = fs::read_dir(scratch.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), fs::read(path).expect("read")))
            .collect();
        files.sort();
        files
    };
    for (name, old_marker) in OF_BOOKS {
        let scratch = copy_of(name);
        let before = files(&scratch);
        let error = small().upgrade(false).open(scratch.path()).expect_err("rejected");
        let ErrorKind::NotUpgraded { found, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!(format!("CairnDB format {found}\n"), old_marker);
        assert!(error.to_string().contains("upgrade(false)"), "{error}");
        assert_eq!(files(&scratch), before);
        let reader = small().upgrade(false).read_only(true).open(scratch.path()).expect("opened");
        check_books(&reader);
        assert_eq!(reader.upgraded_from(), None);
        reader.close().expect("closed");
        // Once it is upgraded there is nothing to rule out.
        scratch.open().close().expect("closed");
        small().upgrade(false).open(scratch.path()).expect("opened").close().expect("closed");
    }
}

/// The marker is written before the stamp, so a crash between the two leaves this.
#[test]
fn an_upgrade_that_was_cut_short_goes_on() {
    let scratch = copied();
    fs::write(scratch.path().join("CAIRNDB"), "CairnDB format 7\n").expect("written");
    let reader = small().read_only(true).open(scratch.path()).expect("opened");
    check_books(&reader);
    reader.close().expect("closed");
    let client = small().upgrade(false).open(scratch.path()).expect("it was begun");
    assert_eq!(client.upgraded_from(), Some(3));
    check_books(&client);
    client.close().expect("closed");
    // The stamp says 7 now, and would be rejected below a marker that is not one of its time.
    fs::write(scratch.path().join("CAIRNDB"), "CairnDB format 8\n").expect("written");
    assert!(small().open(scratch.path()).is_err());
}

#[test]
fn entries_of_an_old_index_answer_nothing_that_they_cannot_tell() {
    let scratch = copied();
    let client = scratch.open();
    let find = doc! {
        "find": "books", "filter": { "year": { "$gt": 2000 } }, "projection": { "year": 1, "title": 1 },
    };
    assert_eq!(explained(&client, find.clone()).1, 3, "the entries do not know the types of the ids");
    books(&client)
        .insert_one(doc! { "_id": 5, "title": "t5", "isbn": "i5", "year": 2005 })
        .run()
        .expect("stored");
    assert_eq!(explained(&client, find.clone()).1, 4, "a new entry of an old index is an old one");
    // Counting needs no more than the key.
    let count = books(&client).count_documents(doc! { "year": { "$gt": 2000 } }).run().expect("counted");
    assert_eq!(count, 4);
    books(&client).drop_index("year_-1_title_1").run().expect("dropped");
    let model = IndexModel::builder().keys(doc! { "year": -1, "title": 1 }).build();
    books(&client).create_index(model).run().expect("made");
    let (plan, documents) = explained(&client, find);
    assert!(plan.contains("PROJECTION_COVERED") && documents == 0, "{documents} {plan}");
    assert!(client.verify().expect("verified").is_clean());
}

fn long(last: &str) -> String {
    format!("{}{last}", "x".repeat(1100))
}

/// The texts of the collection by a path, sorted by it.
fn texts_by(client: &Client, path: &str) -> Vec<String> {
    let texts = client.database("library").collection::<Document>("texts");
    let found = texts.find(doc! { path: { "$gte": "x" } }).sort(doc! { path: 1 }).run().expect("a cursor");
    found.map(|text| text.expect("read").get_str(path).expect("a text").to_owned()).collect()
}

#[track_caller]
fn check_texts(client: &Client, ids: &[&str], values: &[&str]) {
    let expected = |lasts: &[&str]| lasts.iter().map(|last| long(last)).collect::<Vec<_>>();
    assert_eq!((texts_by(client, "_id"), texts_by(client, "text")), (expected(ids), expected(values)));
    let texts = client.database("library").collection::<Document>("texts");
    for (path, lasts) in [("_id", ids), ("text", values)] {
        let counted = |last: &str| texts.count_documents(doc! { path: long(last) }).run().expect("counted");
        assert!(lasts.iter().all(|last| counted(last) == 1) && counted("z") == 0, "{path}");
    }
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
}

/// A collection of format 4 keeps whole keys, also in an index that is made now; one that is made now does not.
#[test]
fn long_keys_of_format_4_stay_whole() {
    let scratch = copy_of("format_4_long");
    let reader = small().read_only(true).open(scratch.path()).expect("opened");
    check_texts(&reader, &["a", "b"], &["a", "b"]);
    reader.close().expect("closed");
    assert_eq!(marker(&scratch), "CairnDB format 4\n");
    for round in 0..2 {
        let client = scratch.open();
        assert_eq!(marker(&scratch), "CairnDB format 7\n");
        let texts = client.database("library").collection::<Document>("texts");
        if round == 0 {
            let third = doc! { "_id": long("c"), "text": long("d"), "code": long("d") };
            texts.insert_one(third).run().expect("stored");
            let model = IndexModel::builder().keys(doc! { "text": -1, "code": 1 }).build();
            texts.create_index(model).run().expect("made");
            texts.aggregate([doc! { "$out": "copy" }]).run().expect("copied");
        }
        for twin in [doc! { "_id": long("c"), "code": 9 }, doc! { "_id": 9, "code": long("c") }] {
            assert_eq!(texts.insert_one(twin).run().expect_err("refused").code(), Some(11_000));
        }
        check_texts(&client, &["a", "b", "c"], &["a", "b", "d"]);
        let copy = client.database("library").collection::<Document>("copy");
        assert_eq!(copy.count_documents(doc! { "_id": long("c") }).run().expect("counted"), 1);
        client.close().expect("closed");
    }
    let new = Scratch::new();
    let report = cairndb::salvage(scratch.path(), new.path()).run().expect("salvaged");
    assert!(report.is_complete() && report.verified.is_clean(), "{report:?}");
    check_texts(&new.open(), &["a", "b", "c"], &["a", "b", "d"]);
}
