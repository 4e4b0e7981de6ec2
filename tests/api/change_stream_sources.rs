//! Events of writes that no write verb asks for: those of `$merge` and `$out`, and of buckets. And those that are rejected, which leave
//! none.

use std::io::Write;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Database, IndexModel, IndexOptions, OperationType};

use crate::Fixture;
use crate::change_streams::{Event, Stream, next};

/// An event, in short: the kind, the namespace, the key, the document, and what an update has changed, where fields that are gone are
/// undefined.
#[derive(Debug, PartialEq)]
struct Told {
    kind: OperationType,
    ns: String,
    key: Document,
    full: Option<Document>,
    changed: Option<Document>,
}

fn told(event: Event) -> Told {
    let ns = event.ns.expect("a namespace");
    let changed = event.update_description.map(|update| {
        let mut changed = update.updated_fields;
        changed.extend(update.removed_fields.into_iter().map(|path| (path, Bson::Undefined)));
        changed
    });
    Told {
        kind: event.operation_type,
        ns: format!("{}.{}", ns.db, ns.coll.unwrap_or_default()),
        key: event.document_key.unwrap_or_default(),
        full: event.full_document,
        changed,
    }
}

fn insert(ns: &str, document: Document) -> Told {
    let key = doc! { "_id": document.get("_id").cloned().expect("an _id") };
    Told { kind: OperationType::Insert, ns: ns.to_owned(), key, full: Some(document), changed: None }
}

fn replace(ns: &str, document: Document) -> Told {
    Told { kind: OperationType::Replace, ..insert(ns, document) }
}

fn update(ns: &str, id: impl Into<Bson>, changed: Document) -> Told {
    let key = doc! { "_id": id };
    Told { kind: OperationType::Update, ns: ns.to_owned(), key, full: None, changed: Some(changed) }
}

fn delete(ns: &str, id: impl Into<Bson>) -> Told {
    let key = doc! { "_id": id };
    Told { kind: OperationType::Delete, ns: ns.to_owned(), key, full: None, changed: None }
}

/// The events up to a write that marks the end, in a collection of its own.
fn through(database: &Database, stream: &mut Stream) -> Vec<Told> {
    database.collection("marks").insert_one(doc! {}).run().expect("stored");
    let is_mark = |event: &Event| event.ns.as_ref().is_some_and(|ns| ns.coll.as_deref() == Some("marks"));
    std::iter::repeat_with(|| next(stream)).take_while(|event| !is_mark(event)).map(told).collect()
}

/// The events of a merge of `{ _id: 1, n: 1 }` and `{ _id: 2, n: 2 }` into `{ _id: 1, n: 5, old: true }`, and its error.
#[track_caller]
fn check_merge(matched: impl Into<Bson>, not_matched: &str, error: Option<i32>, expected: &[Told]) {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let (source, target) = (shop.collection::<Document>("source"), shop.collection::<Document>("target"));
    source.insert_many([doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }]).run().expect("stored");
    target.insert_one(doc! { "_id": 1, "n": 5, "old": true }).run().expect("stored");
    let mut stream = shop.watch().run().expect("opened");
    let merge = doc! { "into": "target", "whenMatched": matched, "whenNotMatched": not_matched };
    // The one without a match comes first.
    let merged = source.aggregate([doc! { "$sort": { "_id": -1 } }, doc! { "$merge": merge }]).run();
    assert_eq!(merged.map(drop).map_err(|error| error.code()).err(), error.map(Some));
    assert_eq!(through(&shop, &mut stream), expected);
    fixture.verify_clean();
}

#[test]
fn each_way_to_merge_has_its_events() {
    let ns = "shop.target";
    let new = || insert(ns, doc! { "_id": 2, "n": 2 });
    let replaced = || replace(ns, doc! { "_id": 1, "n": 1 });
    let merged = || update(ns, 1, doc! { "n": 1 });
    check_merge("replace", "insert", None, &[new(), replaced()]);
    check_merge("replace", "discard", None, &[replaced()]);
    check_merge("replace", "fail", Some(13_113), &[]);
    check_merge("merge", "insert", None, &[new(), merged()]);
    check_merge("merge", "discard", None, &[merged()]);
    check_merge("merge", "fail", Some(13_113), &[]);
    check_merge("keepExisting", "insert", None, &[new()]);
    // It stops at the document that is there, behind the one that is not.
    check_merge("fail", "insert", Some(11_000), &[new()]);
    let sum = || Bson::from(vec![doc! { "$set": { "n": { "$add": ["$n", "$$new.n"] } } }]);
    let summed = || update(ns, 1, doc! { "n": 6 });
    check_merge(sum(), "insert", None, &[new(), summed()]);
    check_merge(sum(), "discard", None, &[summed()]);
    check_merge(sum(), "fail", Some(13_113), &[]);
    let unset = vec![doc! { "$unset": "old" }, doc! { "$set": { "m": "$$new.n" } }];
    let changed = doc! { "m": 1, "old": Bson::Undefined };
    check_merge(unset, "discard", None, &[update(ns, 1, changed)]);
    // The same document again is no change.
    check_merge(vec![doc! { "$set": { "n": "$n" } }], "discard", None, &[]);
}

#[test]
fn a_merge_by_another_key_and_into_another_database_names_the_documents_that_it_changes() {
    let fixture = Fixture::new();
    let (shop, archive) = (fixture.client.database("shop"), fixture.client.database("archive"));
    let (source, target) = (shop.collection::<Document>("source"), archive.collection::<Document>("target"));
    source.insert_many([doc! { "_id": 1, "k": 10 }, doc! { "_id": 2, "k": 20 }]).run().expect("stored");
    target.insert_one(doc! { "_id": "ten", "k": 10 }).run().expect("stored");
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    target.create_index(index).run().expect("made");
    let mut all: Stream = fixture.client.watch().run().expect("opened");
    let into = doc! { "db": "archive", "coll": "target" };
    let merge = doc! { "$merge": { "into": into, "on": "k" } };
    let stages = [doc! { "$sort": { "k": 1 } }, doc! { "$project": { "_id": 0, "k": 1, "m": "$k" } }, merge];
    source.aggregate(stages).run().expect("merged");
    let events = through(&shop, &mut all);
    let made = target.find_one(doc! { "k": 20 }).run().expect("found").expect("it is there");
    let ns = "archive.target";
    assert_eq!(events, [update(ns, "ten", doc! { "m": 10 }), insert(ns, made)]);
    fixture.verify_clean();
}

#[test]
fn out_is_one_rename_for_its_database_whether_it_replaces_or_not() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let source = shop.collection::<Document>("source");
    source.insert_many((0..5).map(|id| doc! { "_id": id, "n": 1 })).run().expect("stored");
    let mut stream = shop.watch().run().expect("opened");
    let target = shop.collection::<Document>("target");
    for _ in 0..2 {
        source.aggregate([doc! { "$out": "target" }]).run().expect("written");
        target.update_one(doc! { "_id": 4 }, doc! { "$set": { "n": 2 } }).run().expect("updated");
        let renamed = next(&mut stream);
        assert_eq!(renamed.operation_type, OperationType::Rename);
        let to = renamed.to.clone().map(|to| (to.db, to.coll));
        assert_eq!(to, Some(("shop".to_owned(), Some("target".to_owned()))));
        // From a name that no caller has given.
        let from = renamed.ns.expect("a name");
        assert!(from.db == "shop" && from.coll.is_some_and(|name| name != "target" && name != "source"));
        assert_eq!((renamed.document_key, renamed.full_document), (None, None));
        // What is written to it later is shown.
        assert_eq!(through(&shop, &mut stream), [update("shop.target", 4, doc! { "n": 2 })]);
    }
    // One that fails halfway has no event.
    let divided = doc! { "$set": { "n": { "$divide": [1, { "$subtract": ["$_id", 3] }] } } };
    source.aggregate([divided, doc! { "$out": "target" }]).run().map(drop).expect_err("a division by zero");
    assert_eq!(through(&shop, &mut stream), []);
    fixture.verify_clean();
}

#[test]
fn files_of_a_bucket_have_events_of_their_chunks_and_of_themselves() {
    let fixture = Fixture::new();
    let media = fixture.client.database("media");
    let bucket = media.gridfs_bucket(None);
    let mut stream = media.watch().run().expect("opened");
    let mut upload =
        bucket.open_upload_stream("digits").id("file".into()).chunk_size_bytes(4).run().expect("opened");
    upload.write_all(b"0123456789").expect("written");
    upload.close().expect("closed");
    let chunks = media.collection::<Document>("fs.chunks");
    let chunks = chunks.find(doc! { "files_id": "file" }).sort(doc! { "n": 1 }).run().expect("found");
    let chunks: Vec<Document> = chunks.collect::<Result<_, _>>().expect("read");
    let file =
        media.collection::<Document>("fs.files").find_one(doc! { "_id": "file" }).run().expect("found");
    assert_eq!(chunks.len(), 3);
    // The file comes when all of it is there.
    let mut expected: Vec<_> = chunks.iter().map(|chunk| insert("media.fs.chunks", chunk.clone())).collect();
    expected.push(insert("media.fs.files", file.expect("it is there")));
    assert_eq!(through(&media, &mut stream), expected);

    bucket.rename("file".into(), "numbers").run().expect("renamed");
    let renamed = update("media.fs.files", "file", doc! { "filename": "numbers" });
    assert_eq!(through(&media, &mut stream), [renamed]);

    bucket.delete("file".into()).run().expect("deleted");
    let mut expected = vec![delete("media.fs.files", "file")];
    let id = |chunk: &Document| chunk.get("_id").cloned().expect("an _id");
    expected.extend(chunks.iter().map(|chunk| delete("media.fs.chunks", id(chunk))));
    assert_eq!(through(&media, &mut stream), expected);

    // Of an upload that is given up, all that was stored is removed, and there was never a file.
    let mut upload = bucket.open_upload_stream("large").chunk_size_bytes(1 << 20).run().expect("opened");
    upload.write_all(&vec![7; 9 << 20]).expect("written");
    upload.abort().expect("given up");
    let (mut stored, mut removed) = (Vec::new(), Vec::new());
    for event in through(&media, &mut stream) {
        assert_eq!(event.ns, "media.fs.chunks");
        if event.kind == OperationType::Insert {
            stored.push(event.key);
        } else {
            assert_eq!(event.kind, OperationType::Delete, "{event:?}");
            removed.push(event.key);
        }
    }
    assert!(stored.len() >= 4 && stored == removed, "{stored:?} and {removed:?}");

    bucket.drop().run().expect("dropped");
    let dropped = through(&media, &mut stream);
    let mut dropped: Vec<_> = dropped.iter().map(|told| (told.kind.clone(), told.ns.as_str())).collect();
    dropped.sort_by_key(|(_, ns)| *ns);
    assert_eq!(dropped, [(OperationType::Drop, "media.fs.chunks"), (OperationType::Drop, "media.fs.files")]);
    fixture.verify_clean();
}

#[test]
fn a_write_that_is_refused_has_no_event() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let rule = doc! { "n": { "$not": { "$gt": 99 } } };
    shop.create_collection("orders").validator(rule).run().expect("made");
    let orders = shop.collection::<Document>("orders");
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    orders.create_index(index).run().expect("made");
    let first = doc! { "_id": 1, "k": 1, "n": 1, "text": "x".repeat(9 << 20) };
    orders.insert_many([first, doc! { "_id": 2, "k": 2, "n": "two" }]).run().expect("stored");
    let mut stream = shop.watch().run().expect("opened");
    let bytes = || fixture.client.metrics().expect("open").change_log.bytes;
    let before = bytes();
    let one = || doc! { "_id": 1 };
    let change = |update: Document| orders.update_one(one(), update).run().map(drop);
    let large = || "x".repeat(17 << 20);
    for (code, refused) in [
        (11_000, orders.insert_one(doc! { "_id": 1, "k": 3 }).run().map(drop)),
        (11_000, orders.insert_one(doc! { "_id": 3, "k": 2 }).run().map(drop)),
        (11_000, change(doc! { "$set": { "k": 2 } })),
        (11_000, orders.replace_one(one(), doc! { "k": 2 }).run().map(drop)),
        (
            11_000,
            orders.update_one(doc! { "_id": 3 }, doc! { "$set": { "k": 2 } }).upsert(true).run().map(drop),
        ),
        (11_000, orders.find_one_and_update(one(), doc! { "$set": { "k": 2 } }).run().map(drop)),
        (121, orders.insert_one(doc! { "_id": 3, "k": 3, "n": 100 }).run().map(drop)),
        (121, change(doc! { "$set": { "n": 100 } })),
        (121, orders.replace_one(one(), doc! { "n": 100 }).run().map(drop)),
        (14, orders.update_one(doc! { "_id": 2 }, doc! { "$inc": { "n": 1 } }).run().map(drop)),
        (66, change(doc! { "$set": { "_id": 3 } })),
        (2, orders.insert_one(doc! { "_id": 3, "text": large() }).run().map(drop)),
        (17_419, change(doc! { "$set": { "more": "x".repeat(8 << 20) } })),
        (22, change(doc! { "$set": { "more": large() } })),
    ] {
        let error = refused.expect_err("refused");
        assert_eq!(error.code(), Some(code), "{error}");
        assert_eq!(bytes(), before, "{error}");
    }
    // A transaction in which one write is refused is aborted.
    let mut session = fixture.client.start_session().run().expect("open");
    session.start_transaction().run().expect("none is in progress");
    orders.insert_one(doc! { "_id": 3, "k": 3 }).session(&mut session).run().expect("staged");
    orders.insert_one(doc! { "_id": 4, "k": 3 }).session(&mut session).run().expect_err("a duplicate");
    session.commit_transaction().run().expect_err("aborted");
    assert_eq!(through(&shop, &mut stream), []);
    fixture.verify_clean();
}

/// Of several writes in one call those have events that came before the one that was refused.
#[test]
fn what_was_done_before_a_refusal_is_shown() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let orders = shop.collection::<Document>("orders");
    let mut stream = shop.watch().run().expect("opened");
    let documents =
        [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }, doc! { "_id": 1 }, doc! { "_id": 3 }];
    orders.insert_many(documents).run().expect_err("a duplicate");
    let ns = "shop.orders";
    let stored = [insert(ns, doc! { "_id": 1, "n": 1 }), insert(ns, doc! { "_id": 2, "n": 2 })];
    assert_eq!(through(&shop, &mut stream), stored);
    orders.insert_one(doc! { "_id": 3, "n": "three" }).run().expect("stored");
    orders.update_many(doc! {}, doc! { "$inc": { "n": 10 } }).run().expect_err("a text");
    let expected = [
        insert(ns, doc! { "_id": 3, "n": "three" }),
        update(ns, 1, doc! { "n": 11 }),
        update(ns, 2, doc! { "n": 12 }),
    ];
    assert_eq!(through(&shop, &mut stream), expected);
    fixture.verify_clean();
}
