//! Metrics: each is read, the thing is done, and it is read again. And what the log says of slow operations.

use std::io::Write;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, deserialize_from_document, doc, serialize_to_document};
use cairndb::{
    AutoIncrement, Client, Collection, Error, IndexModel, IndexOptions, Metrics, OperationMetrics,
    StoreState, UpdateOneModel, WriteConcern,
};
use cairndb_tests::race::race;
use tracing_subscriber::fmt::MakeWriter;

use crate::Fixture;

/// A fixture with three documents and a unique index.
fn filled() -> Fixture {
    let fixture = Fixture::with((0..3).map(|id| doc! { "_id": id, "k": id, "n": 0 }));
    let unique = IndexOptions::builder().unique(true).build();
    let by_k = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    fixture.things.create_index(by_k).run().expect("made");
    fixture
}

/// The metrics before and after `work`.
#[track_caller]
fn around(fixture: &Fixture, work: impl FnOnce()) -> (Metrics, Metrics) {
    let before = fixture.client.metrics().expect("metrics");
    work();
    (before, fixture.client.metrics().expect("metrics"))
}

fn calls(metrics: &Metrics, verb: &str) -> (u64, u64) {
    metrics.operations.get(verb).map_or((0, 0), |operation| (operation.times.count, operation.failed))
}

/// A filter, which is rejected if the call is to fail.
fn filter(fails: bool) -> Document {
    if fails {
        doc! { "n": { "$nonsense": 1 } }
    } else {
        doc! { "_id": 1 }
    }
}

fn call(fixture: &Fixture, verb: &str, fails: bool) -> Result<(), Error> {
    let (things, filter) = (&fixture.things, filter(fails));
    let db = fixture.client.database("test");
    // No collection has this name, and no command can be run on it.
    let named: Collection<Document> = db.collection(if fails { "" } else { "things" });
    let (update, new) = (doc! { "$inc": { "n": 1 } }, doc! { "k": 50 });
    match verb {
        "aggregate" => things.aggregate([doc! { "$match": filter }]).run()?.try_for_each(|row| row.map(drop)),
        "bulk_write" => {
            let model = UpdateOneModel::builder().namespace(things.namespace()).filter(filter).update(update);
            fixture.client.bulk_write([model.build()]).run().map(drop)
        }
        "count_documents" => things.count_documents(filter).run().map(drop),
        "create_collection" => {
            let create = db.create_collection(if fails { "things" } else { "made" });
            let field = AutoIncrement::builder().field("number").build();
            create.auto_increment(field).run()
        }
        "create_indexes" => {
            let keys = if fails {
                doc! { "a": "nonsense" }
            } else {
                doc! { "a": 1 }
            };
            things.create_index(IndexModel::builder().keys(keys).build()).run().map(drop)
        }
        "delete_many" => things.delete_many(filter).run().map(drop),
        "delete_one" => things.delete_one(filter).run().map(drop),
        "distinct" => things.distinct("k", filter).run().map(drop),
        "drop" => named.drop().run(),
        "drop_indexes" if fails => things.drop_index("none").run(),
        "drop_indexes" => things.drop_indexes().run(),
        "estimated_document_count" => named.estimated_document_count().run().map(drop),
        "find" => things.find(filter).run()?.try_for_each(|row| row.map(drop)),
        "find_one" => things.find_one(filter).run().map(drop),
        "find_one_and_delete" => things.find_one_and_delete(filter).run().map(drop),
        "find_one_and_replace" => things.find_one_and_replace(filter, new).run().map(drop),
        "find_one_and_update" => things.find_one_and_update(filter, update).run().map(drop),
        "insert_many" => {
            things.insert_many([doc! { "_id": if fails { 1 } else { 9 }, "k": 9 }]).run().map(drop)
        }
        "insert_one" => things.insert_one(doc! { "_id": if fails { 1 } else { 9 }, "k": 9 }).run().map(drop),
        "list_indexes" => named.list_indexes().run().map(drop),
        "rename" => things.rename(if fails { "" } else { "renamed" }).run(),
        "replace_one" => things.replace_one(filter, new).run().map(drop),
        "truncate" => named.truncate().run().map(drop),
        "update_many" => things.update_many(filter, update).run().map(drop),
        "update_one" => things.update_one(filter, update).run().map(drop),
        other => panic!("no such verb: {other}"),
    }
}

const VERBS: [&str; 24] = [
    "aggregate",
    "bulk_write",
    "count_documents",
    "create_collection",
    "create_indexes",
    "delete_many",
    "delete_one",
    "distinct",
    "drop",
    "drop_indexes",
    "estimated_document_count",
    "find",
    "find_one",
    "find_one_and_delete",
    "find_one_and_replace",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "list_indexes",
    "rename",
    "replace_one",
    "truncate",
    "update_many",
    "update_one",
];

#[test]
fn each_verb_is_counted_with_its_failures() {
    for verb in VERBS {
        for fails in [false, true] {
            let fixture = filled();
            let (before, after) = around(&fixture, || {
                assert_eq!(call(&fixture, verb, fails).is_err(), fails, "{verb}");
            });
            let (count, failed) = calls(&before, verb);
            assert_eq!(calls(&after, verb), (count + 1, failed + u64::from(fails)), "{verb}");
            let times = &after.operations[verb].times;
            assert_eq!(times.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), times.count);
            // The writes of a bulk write are counted by their own verbs as well, and no other verb was called.
            let others =
                after.operations.iter().filter(|(other, _)| *other != verb && *other != "update_one");
            for (other, operation) in others {
                assert_eq!(before.operations.get(other), Some(operation), "{verb} counted as {other}");
            }
        }
    }
}

#[test]
fn documents_are_counted_as_they_pass() {
    let fixture = filled();
    let things = &fixture.things;
    let (before, after) = around(&fixture, || {
        things.insert_many((10..14).map(|id| doc! { "_id": id, "k": id })).run().unwrap();
        things.update_one(doc! { "_id": 99 }, doc! { "$set": { "k": 99 } }).upsert(true).run().unwrap();
        assert_eq!(
            things.update_many(doc! { "n": 0 }, doc! { "$inc": { "n": 1 } }).run().unwrap().modified_count,
            3
        );
        // Matched and not changed.
        things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 1 } }).run().unwrap();
        things.delete_many(doc! { "_id": { "$gte": 12 } }).run().unwrap();
        assert_eq!(things.find(doc! {}).run().unwrap().count(), 5);
        assert!(things.find_one(doc! { "_id": 1 }).run().unwrap().is_some());
        assert!(things.find_one(doc! { "n": 1 }).run().unwrap().is_some());
        assert!(things.find_one(doc! { "_id": 1000 }).run().unwrap().is_none());
    });
    let (before, after) = (before.documents, after.documents);
    assert_eq!(after.inserted - before.inserted, 5);
    assert_eq!(after.updated - before.updated, 3);
    assert_eq!(after.deleted - before.deleted, 3);
    assert_eq!(after.returned - before.returned, 7);
    assert!(after.bytes_returned - before.bytes_returned > 7 * 20);
    assert!(after.bytes_written - before.bytes_written > 11 * 20);
}

#[test]
fn what_expires_is_counted_as_deleted() {
    let fixture = filled();
    let past = cairndb::bson::DateTime::from_millis(0);
    fixture.things.insert_one(doc! { "k": 60, "at": past }).run().unwrap();
    let expiry = IndexOptions::builder().expire_after(Duration::ZERO).build();
    let by_at = IndexModel::builder().keys(doc! { "at": 1 }).options(expiry).build();
    fixture.things.create_index(by_at).run().unwrap();
    let (before, after) = around(&fixture, || {
        assert_eq!(fixture.client.expire_documents().run().unwrap().deleted_count, 1);
    });
    assert_eq!(after.documents.deleted - before.documents.deleted, 1);
}

#[test]
fn searches_are_counted_by_their_plan() {
    let fixture = filled();
    let things = &fixture.things;
    let changes = |work: &dyn Fn()| {
        let (before, after) = around(&fixture, work);
        let (before, after) = (before.searches, after.searches);
        (
            after.lookups - before.lookups,
            after.index_scans - before.index_scans,
            after.collection_scans - before.collection_scans,
            after.keys_examined - before.keys_examined,
            after.documents_examined - before.documents_examined,
        )
    };
    let found = |filter: Document| things.find(filter).run().unwrap().for_each(drop);
    assert_eq!(changes(&|| drop(things.find_one(doc! { "_id": 1 }).run())), (1, 0, 0, 0, 0));
    assert_eq!(changes(&|| drop(things.find_one(doc! { "k": 1 }).run())), (1, 0, 0, 0, 0));
    assert_eq!(changes(&|| found(doc! { "n": 0 })), (0, 0, 1, 0, 3));
    assert_eq!(changes(&|| found(doc! { "k": { "$gte": 1 } })), (0, 1, 0, 2, 2));
    // A union is one search.
    let either = || doc! { "$or": [{ "k": 1 }, { "_id": 2 }] };
    let (lookups, indexes, all, ..) = changes(&|| found(either()));
    assert_eq!((lookups, indexes, all), (0, 1, 0));
    // Those of writes count too.
    let update = || things.update_many(doc! { "n": 0 }, doc! { "$set": { "n": 2 } }).run();
    assert_eq!(changes(&|| drop(update().unwrap())), (0, 0, 1, 0, 3));
}

/// The second read finds in the cache what the first has read.
#[test]
fn blocks_are_counted_where_they_were_found() {
    let fixture = filled();
    if cairndb_tests::scratch::in_memory() {
        return;
    }
    fixture.client.flush().unwrap();
    // A look-up: scans put nothing into the cache.
    let read = || assert!(fixture.things.find_one(doc! { "_id": 1 }).run().unwrap().is_some());
    let (before, after) = around(&fixture, read);
    assert!(after.searches.cache_misses > before.searches.cache_misses, "{after:?}");
    let (before, after) = around(&fixture, read);
    assert_eq!(after.searches.cache_misses, before.searches.cache_misses);
    assert!(after.searches.cache_hits > before.searches.cache_hits);
    let storage = after.storage;
    assert!(storage.table_files > 0 && storage.table_bytes > 0 && storage.flushes_and_compactions > 0);
    assert!(storage.cache_bytes > 0 && storage.cache_capacity_bytes >= storage.cache_bytes);
    // The first operation of a thread counts as any other. (Of the document that was read twice there is a copy by now.)
    let other = || assert!(fixture.things.find_one(doc! { "_id": 2 }).run().unwrap().is_some());
    let (before, after) = around(&fixture, || {
        std::thread::scope(|scope| scope.spawn(other).join().unwrap());
    });
    assert!(after.searches.cache_hits > before.searches.cache_hits, "{after:?}");
}

/// The third look-up finds the copy that the second has made, whatever it is asked by; and a change is seen at once.
#[test]
fn documents_that_are_looked_up_again_are_kept() {
    let fixture = filled();
    let things = &fixture.things;
    let look_up = |filter: Document| things.find_one(filter).run().unwrap();
    let (before, after) = around(&fixture, || {
        assert!((0..2).all(|_| look_up(doc! { "_id": 1 }).is_some()));
    });
    let hits = |metrics: &Metrics| metrics.storage.record_cache_hits;
    assert_eq!(hits(&after), hits(&before));
    assert_eq!(after.storage.record_cache_misses, before.storage.record_cache_misses + 2);
    let bytes = after.storage.record_cache_bytes;
    assert!(bytes > before.storage.record_cache_bytes, "{after:?}");
    let (before, after) = around(&fixture, || {
        for filter in [doc! { "_id": 1 }, doc! { "_id": 1.0 }, doc! { "k": 1 }] {
            assert_eq!(look_up(filter), Some(doc! { "_id": 1, "k": 1, "n": 0 }));
        }
    });
    assert_eq!(hits(&after), hits(&before) + 3);
    assert_eq!(after.storage.record_cache_misses, before.storage.record_cache_misses);

    // Each change removes the copy, by whichever way it comes.
    let seen = |n: i32| {
        for _ in 0..3 {
            assert_eq!(look_up(doc! { "_id": 1 }), Some(doc! { "_id": 1, "k": 1, "n": n }));
        }
    };
    let one = || doc! { "_id": 1 };
    seen(0);
    things.update_one(one(), doc! { "$inc": { "n": 1 } }).run().unwrap();
    seen(1);
    things.update_many(doc! {}, doc! { "$inc": { "n": 1 } }).run().unwrap();
    seen(2);
    things.replace_one(one(), doc! { "k": 1, "n": 3 }).run().unwrap();
    seen(3);
    things.find_one_and_update(doc! { "k": 1 }, doc! { "$inc": { "n": 1 } }).run().unwrap();
    seen(4);
    let merge = vec![
        doc! { "$match": one() },
        doc! { "$set": { "n": 5 } },
        doc! { "$merge": { "into": things.name() } },
    ];
    assert_eq!(things.aggregate(merge).run().unwrap().count(), 0);
    seen(5);
    things.delete_one(one()).run().unwrap();
    assert_eq!(look_up(one()), None);
    things.insert_one(doc! { "_id": 1, "k": 1, "n": 6 }).run().unwrap();
    seen(6);
    things.truncate().run().unwrap();
    assert_eq!(look_up(one()), None);
    things.insert_one(doc! { "_id": 1, "k": 1, "n": 7 }).run().unwrap();
    seen(7);
    things.delete_many(doc! {}).run().unwrap();
    assert_eq!(look_up(one()), None);
    things.insert_one(doc! { "_id": 1, "k": 1, "n": 8 }).run().unwrap();
    seen(8);
    things.drop().run().unwrap();
    assert_eq!(look_up(one()), None);
}

#[test]
fn memory_fills_until_it_is_flushed() {
    let fixture = filled();
    let wide = |id: i32| doc! { "_id": id, "k": id, "pad": "x".repeat(3000) };
    let (before, after) = around(&fixture, || {
        fixture.things.insert_many((100..900).map(wide)).run().unwrap();
    });
    let (before, filled) = (before.storage, after.storage);
    // Memory is allocated in blocks, and that of a block before it is used.
    assert!(filled.memtable_bytes > before.memtable_bytes + 1_500_000, "{before:?} {filled:?}");
    let (_, after) = around(&fixture, || fixture.client.flush().unwrap());
    let after = after.storage;
    assert!(after.memtable_bytes + 1_500_000 < filled.memtable_bytes, "{filled:?} {after:?}");
    // The number of flushes follows a moment later.
    assert!(after.table_files > filled.table_files, "{filled:?} {after:?}");
}

#[test]
fn a_cursor_is_open_until_its_end_and_counted_then() {
    let fixture = filled();
    let metrics = || fixture.client.metrics().unwrap();
    let cursors = || metrics().cursors;
    assert_eq!((cursors().open, cursors().snapshots, cursors().oldest_snapshot_seconds), (0, 0, None));
    let mut cursor = fixture.things.find(doc! {}).run().unwrap();
    assert_eq!((cursors().open, cursors().snapshots), (1, 1));
    assert!(cursors().oldest_snapshot_seconds.is_some_and(|seconds| seconds < 600));
    assert_eq!(calls(&metrics(), "find"), (0, 0));
    assert_eq!(cursor.by_ref().count(), 3);
    assert_eq!((cursors().open, cursors().snapshots, calls(&metrics(), "find")), (0, 0, (1, 0)));
    drop(cursor);
    assert_eq!((cursors().open, calls(&metrics(), "find")), (0, (1, 0)));
    // Of another type, dropped in the middle, and ended by an error.
    drop(fixture.things.find(doc! {}).run().unwrap().with_type::<OperationMetrics>());
    let mut dropped = fixture.things.aggregate([doc! { "$sort": { "n": 1 } }]).run().unwrap();
    dropped.advance().unwrap();
    drop(dropped);
    let divide = doc! { "$project": { "x": { "$divide": [1, "$n"] } } };
    assert!(fixture.things.aggregate([divide]).run().unwrap().any(|row| row.is_err()));
    assert_eq!(cursors().open, 0);
    assert_eq!((calls(&metrics(), "find"), calls(&metrics(), "aggregate")), ((2, 0), (2, 1)));
}

/// A database in memory has no log, and so nothing to sync.
#[test]
fn syncs_are_counted() {
    let fixture = filled();
    let (before, after) = around(&fixture, || {
        let insert = fixture.things.insert_one(doc! { "k": 70 });
        insert.write_concern(WriteConcern::journaled()).run().unwrap();
    });
    assert!(after.waits.syncs.count > before.waits.syncs.count);
}

/// A call that commits each document by itself would wait for a sync of each.
#[test]
fn documents_of_one_call_are_one_commit() {
    let fixture = filled();
    let (before, after) = around(&fixture, || {
        let documents = (0..500).map(|n| doc! { "_id": 1000 + n, "k": 1000 + n, "text": "x".repeat(100) });
        fixture.things.insert_many(documents).write_concern(WriteConcern::journaled()).run().unwrap();
    });
    let syncs = after.waits.syncs.count - before.waits.syncs.count;
    assert!((1..=3).contains(&syncs), "{syncs}");
    let written = after.documents.bytes_written - before.documents.bytes_written;
    assert!(written > 500 * 100, "{written}");
}

#[test]
fn sequences_are_counted() {
    let fixture = filled();
    let numbered = fixture.client.database("app").collection::<Document>("numbered");
    let (before, after) = around(&fixture, || {
        numbered.create_auto_increment(AutoIncrement::builder().field("number").build()).run().unwrap();
        numbered.insert_one(doc! {}).run().unwrap();
    });
    assert!(after.sequences.reserves > before.sequences.reserves);
    let (before, after) = around(&fixture, || {
        let tickets = fixture.client.database("app");
        tickets.create_sequence("tickets").run().unwrap();
        tickets.sequence("tickets").next_value().run().unwrap();
        tickets.sequence("tickets").set_current_value(5000).run().unwrap();
    });
    assert!(after.sequences.gaps > before.sequences.gaps);
}

/// Threads that change one document wait for each other, and what they count adds up, also after their end.
#[test]
fn threads_count_by_themselves_and_add_up() {
    let fixture = filled();
    let waits = || fixture.client.metrics().expect("counted").waits.latches.count;
    let (first, began, mut rounds) = (waits(), Instant::now(), 0);
    let (before, after) = around(&fixture, || {
        // On a machine that is busy with other things the threads may run one after the other.
        while rounds < 5 || (waits() == first && began.elapsed() < Duration::from_secs(60)) {
            rounds += 1;
            let all = Barrier::new(8);
            race(0..8, |_| {
                all.wait();
                for _ in 0..100 {
                    let done =
                        fixture.things.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).run();
                    assert_eq!(done.unwrap().modified_count, 1);
                }
            });
        }
    });
    assert_eq!(calls(&after, "update_one").0 - calls(&before, "update_one").0, 800 * rounds);
    assert_eq!(after.documents.updated - before.documents.updated, 800 * rounds);
    assert!(after.waits.latches.count > before.waits.latches.count);
}

#[test]
fn the_state_is_told_and_a_closed_client_has_no_metrics() {
    let fixture = filled();
    assert_eq!(fixture.client.metrics().unwrap().state, StoreState::Open);
    let Fixture { client, things, scratch } = fixture;
    drop(things);
    client.clone().close().unwrap();
    assert!(client.metrics().is_err());
    drop(client);
    if !cairndb_tests::scratch::in_memory() {
        let reader = Client::builder().read_only(true).open(scratch.path()).unwrap();
        assert_eq!(reader.metrics().unwrap().state, StoreState::ReadOnly);
    }
}

#[test]
fn metrics_can_be_stored_and_read_again() {
    let fixture = filled();
    fixture.things.find(doc! {}).run().unwrap().for_each(drop);
    let metrics = fixture.client.metrics().unwrap();
    let document = serialize_to_document(&metrics).unwrap();
    assert_eq!(document.get_document("documents").unwrap().get_i64("returned").ok(), Some(3), "{document}");
    assert_eq!(deserialize_from_document::<Metrics>(document).unwrap(), metrics);
}

#[test]
fn nothing_is_counted_where_metrics_are_off() {
    let client = Client::builder().metrics(false).slow_threshold(None).in_memory(true).open("").unwrap();
    let things = client.database("app").collection::<Document>("things");
    things.insert_one(doc! { "_id": 1 }).run().unwrap();
    assert_eq!(things.find(doc! {}).run().unwrap().count(), 1);
    let metrics = client.metrics().unwrap();
    assert!(metrics.operations.is_empty());
    assert_eq!((metrics.documents, metrics.searches), Default::default());
}

/// The logged lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// The lines about slow operations while `work` ran.
    fn of(work: impl FnOnce()) -> Vec<String> {
        // With one subscriber in the process, `tracing` asks the one of the thread that meets an event first whether it is wanted,
        // and another test's thread has none: the answer would be kept for this one's too.
        let _ = tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::new());
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
        text.lines().filter(|line| line.contains("cairndb::slow")).map(str::to_owned).collect()
    }
}

/// A reader without room for a document steps back before it, and reads it again later.
#[test]
fn a_document_that_is_read_again_is_returned_once() {
    let client = Client::builder().in_memory(true).open("").unwrap();
    let things = client.database("app").collection::<Document>("things");
    things.insert_many((0..3).map(|n| doc! { "n": n })).run().unwrap();
    let returned = || {
        let documents = client.metrics().unwrap().documents;
        (documents.returned, documents.bytes_returned)
    };
    let read = |stage: Option<Document>| {
        let before = returned();
        let mut cursor = match stage {
            None => things.find(doc! {}).run().unwrap(),
            Some(stage) => things.aggregate([stage]).run().unwrap(),
        };
        assert!(cursor.advance().unwrap());
        cursor.step_back();
        assert!(cursor.advance().unwrap());
        while cursor.advance().unwrap() {}
        drop(cursor);
        (returned().0 - before.0, returned().1 - before.1)
    };
    let bytes =
        3 * doc! { "_id": cairndb::bson::oid::ObjectId::new(), "n": 1 }.to_vec().unwrap().len() as u64;
    assert_eq!(read(None), (3, bytes));
    assert_eq!(read(Some(doc! { "$match": { "n": { "$gte": 0 } } })), (3, bytes));
    assert_eq!(read(Some(doc! { "$addFields": { "n": 5 } })), (3, bytes));
}

#[test]
fn slow_operations_are_logged_with_shape_and_plan_and_without_values() {
    let client = Client::builder().slow_threshold(Duration::ZERO).in_memory(true).open("").unwrap();
    let things = client.database("app").collection::<Document>("things");
    things.insert_many((0..50).map(|n| doc! { "name": "secret", "n": n })).run().unwrap();
    things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().unwrap();

    let lines = Log::of(|| {
        things.find(doc! { "name": "secret" }).sort(doc! { "n": -1 }).limit(60).run().unwrap().for_each(drop);
        things
            .update_many(doc! { "n": { "$gte": 48 } }, doc! { "$set": { "name": "secret" } })
            .run()
            .unwrap();
        assert!(things.find_one(doc! { "name": { "$secretive": "secret" } }).run().is_err());
        things
            .aggregate([doc! { "$match": { "name": "secret" } }, doc! { "$count": "secret" }])
            .run()
            .unwrap()
            .for_each(drop);
    });
    let [find, update, refused, aggregate] = lines.as_slice() else { panic!("{lines:#?}") };
    for part in [
        r#"verb="find""#,
        "namespace=app.things",
        "documents_returned=50",
        "IXSCAN n_1",
        "filter: {name: ?} sort: {n: -1}",
    ] {
        assert!(find.contains(part), "{part}: {find}");
    }
    for part in [r#"verb="update_many""#, "IXSCAN n_1", "keys_examined=2", "filter: {n: {$gte: ?}}"] {
        assert!(update.contains(part), "{part}: {update}");
    }
    assert!(refused.contains("failed=true"), "{refused}");
    for part in [r#"verb="aggregate""#, "COLLSCAN", "pipeline: [{$match: {name: ?}}, {$count: ?}]"] {
        assert!(aggregate.contains(part), "{part}: {aggregate}");
    }
    assert!(
        !lines.iter().any(|line| line.contains(r#""secret""#) || line.contains(": secret")),
        "{lines:#?}"
    );
}

/// The second call of the cursor reads all documents that do not match. Only its looks at the limits can say how long.
#[test]
fn a_late_call_of_a_cursor_counts() {
    let client = Client::builder().slow_threshold(Duration::from_millis(1)).in_memory(true).open("").unwrap();
    let things = client.database("app").collection::<Document>("things");
    things.insert_many((0..40_000).map(|n| doc! { "_id": n, "n": n })).run().unwrap();
    let lines = Log::of(|| {
        let mut cursor = things.find(doc! { "n": { "$not": { "$gte": 1 } } }).run().unwrap();
        assert!(cursor.advance().unwrap() && !cursor.advance().unwrap());
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("documents_examined=40000"), "{lines:#?}");
}

#[test]
fn fast_operations_are_not_logged() {
    let client = Client::builder().slow_threshold(Duration::from_secs(600)).in_memory(true).open("").unwrap();
    let things = client.database("app").collection::<Document>("things");
    assert_eq!(Log::of(|| drop(things.insert_one(doc! {}).run())), [""; 0]);
}
