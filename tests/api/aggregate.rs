//! `aggregate`: pipelines on a collection and on a database, their options, and what they are read from.

use std::time::Duration;

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb::{AggregateOptions, Collation, Cursor, Hint, IndexModel, IndexOptions, Result};
use serde::Deserialize;

use crate::{Fixture, refused};

/// Documents `_id` 1 to 9 with `a` counting down and three values of `k`.
fn nine() -> Fixture {
    Fixture::with((1..=9).map(|id| doc! { "_id": id, "a": 10 - id, "k": id % 3 }))
}

fn all(cursor: Result<Cursor<Document>>) -> Vec<Document> {
    cursor.expect("a cursor").collect::<Result<_>>().expect("documents")
}

#[track_caller]
fn check(pipeline: &[Document], expected: &[Document]) {
    let fixture = nine();
    assert_eq!(all(fixture.things.aggregate(pipeline.to_vec()).run()), expected, "{pipeline:?}");
    let command = doc! { "aggregate": fixture.things.name(), "pipeline": pipeline, "cursor": {} };
    let reply = fixture.client.database(&fixture.things.namespace().db).run_command(command).run();
    let reply = reply.expect("a reply");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch: Vec<Bson> = expected.iter().cloned().map(Bson::Document).collect();
    assert_eq!(cursor.get_array("firstBatch").expect("a batch"), &batch, "{pipeline:?}");
    assert_eq!(cursor.get_str("ns").expect("a name"), fixture.things.namespace().to_string());
}

#[test]
fn the_front_is_a_search_and_the_rest_goes_on() {
    let shown = doc! { "$project": { "a": 0, "k": 0 } };
    let id = |id: i32| doc! { "_id": id };
    let between = doc! { "$match": { "_id": { "$gt": 3, "$lte": 7 } } };
    check(&[between.clone(), shown.clone()], &[id(4), id(5), id(6), id(7)]);
    check(
        &[between.clone(), doc! { "$sort": { "a": 1 } }, doc! { "$limit": 2 }, shown.clone()],
        &[id(7), id(6)],
    );
    check(&[doc! { "$sort": { "_id": -1 } }, doc! { "$skip": 8 }, shown.clone()], &[id(1)]);
    check(&[doc! { "$limit": 3 }, doc! { "$skip": 2 }, shown.clone()], &[id(3)]);
    check(&[doc! { "$limit": 2 }, doc! { "$skip": 3 }, shown.clone()], &[]);
    check(&[doc! { "$match": { "_id": 5 } }, shown], &[id(5)]);
    check(&[doc! { "$match": { "_id": 5 } }], &[doc! { "_id": 5, "a": 5, "k": 2 }]);
    check(&[between, doc! { "$count": "n" }], &[doc! { "n": 4 }]);
}

#[test]
fn groups_come_in_the_order_of_their_first_documents() {
    let group = doc! { "$group": { "_id": "$k", "n": { "$sum": 1 }, "least": { "$min": "$a" } } };
    let expected = [
        doc! { "_id": 1, "n": 3, "least": 3 },
        doc! { "_id": 2, "n": 3, "least": 2 },
        doc! { "_id": 0, "n": 3, "least": 1 },
    ];
    check(&[group], &expected);
}

#[test]
fn a_missing_collection_has_no_documents() {
    let fixture = Fixture::new();
    assert_eq!(all(fixture.things.aggregate([]).run()), [] as [Document; 0]);
    assert_eq!(all(fixture.things.aggregate([doc! { "$count": "n" }]).run()), [] as [Document; 0]);
    let facet = doc! { "$facet": { "n": [{ "$count": "n" }] } };
    assert_eq!(all(fixture.things.aggregate([facet]).run()), [doc! { "n": [] }]);
    assert_eq!(all(fixture.things.aggregate([doc! { "$indexStats": {} }]).run()), [] as [Document; 0]);
    refused(fixture.things.aggregate([doc! { "$collStats": { "count": {} } }]).run().map(drop), 26, "things");
}

#[test]
fn a_pipeline_reads_what_was_there_when_it_was_run() {
    let fixture = nine();
    let cursor =
        fixture.things.aggregate([doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 } } }]).run();
    fixture.things.delete_many(doc! {}).run().expect("a deletion");
    assert_eq!(all(cursor), [doc! { "_id": Bson::Null, "n": 9 }]);
}

#[test]
fn results_have_the_type_that_is_asked_for() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Counted {
        n: i32,
    }
    let fixture = nine();
    let counted = fixture.things.aggregate([doc! { "$count": "n" }]).with_type::<Counted>().run();
    let counted: Vec<Counted> = counted.expect("a cursor").collect::<Result<_>>().expect("documents");
    assert_eq!(counted, [Counted { n: 9 }]);
    let raw = fixture.things.aggregate([doc! { "$limit": 1 }]).with_type::<RawDocumentBuf>().run();
    assert_eq!(raw.expect("a cursor").count(), 1);
}

#[test]
fn options_are_taken_or_refused() {
    let fixture = nine();
    let run = |options: AggregateOptions| {
        fixture.things.aggregate([doc! { "$count": "n" }]).with_options(options).run().map(drop)
    };
    assert!(run(AggregateOptions::default()).is_ok());
    let accepted = fixture.things.aggregate([doc! { "$match": { "$expr": { "$eq": ["$a", "$$wanted"] } } }]);
    let accepted = accepted.let_vars(doc! { "wanted": 3 }).allow_disk_use(true).batch_size(2);
    let accepted =
        accepted.bypass_document_validation(true).comment(Bson::Null).collation(Collation::simple());
    let accepted = accepted.max_time(Duration::from_secs(60)).hint(Hint::Name("_id_".to_owned()));
    assert_eq!(all(accepted.run()), [doc! { "_id": 7, "a": 3, "k": 1 }]);
    let pipeline = || fixture.things.aggregate([doc! { "$set": { "a": 1 } }]);
    refused(pipeline().collation(Collation::with_locale("elvish")).run().map(drop), 2, "'elvish'");
    refused(pipeline().hint(Hint::Name("none".to_owned())).run().map(drop), 2, "none");
    let natural = pipeline().hint(Hint::Keys(doc! { "$natural": -1 })).run();
    assert_eq!(all(natural).first(), Some(&doc! { "_id": 9, "a": 1, "k": 0 }));
}

#[test]
fn a_limit_of_time_is_kept() {
    let fixture = Fixture::with((0..2_000).map(|id| doc! { "_id": id }));
    let group = || fixture.things.aggregate([doc! { "$group": { "_id": "$_id" } }]);
    // The time may be over when the reads are planned, or with the first of them.
    let first = group().max_time(Duration::from_nanos(1)).run().and_then(|mut cursor| cursor.advance());
    refused(first, 50, "time limit");
    assert_eq!(group().max_time(Duration::from_secs(3_600)).run().expect("a cursor").count(), 2_000);
    let numbers =
        doc! { "$documents": { "$map": { "input": { "$range": [0, 2_000] }, "in": { "n": "$$this" } } } };
    let db = fixture.client.database("shop");
    // The documents of the stage are computed when the cursor is opened.
    let opened = db.aggregate([numbers, doc! { "$count": "n" }]).max_time(Duration::from_nanos(1)).run();
    refused(opened, 50, "time limit");
}

#[test]
fn errors_name_the_stage() {
    let fixture = nine();
    let run = |stage: Document| fixture.things.aggregate([doc! { "$match": {} }, stage]).run().map(drop);
    refused(run(doc! { "$nothing": 1 }), 40_324, "stage 1: Unrecognized pipeline stage name: '$nothing'");
    refused(run(doc! { "$geoNear": {} }), 238, "stage 1: stage $geoNear is not supported");
    refused(run(doc! { "$limit": 0 }), 15_958, "stage 1");
    let mut cursor = fixture
        .things
        .aggregate([doc! { "$set": { "q": { "$divide": [1, "$k"] } } }])
        .run()
        .expect("a cursor");
    assert_eq!(cursor.by_ref().take(2).flatten().count(), 2);
    let error = cursor.next().expect("an error").expect_err("an error");
    assert!(error.to_string().contains("divide by zero"), "{error}");
    assert!(cursor.next().is_none());
}

#[test]
fn a_database_gives_documents_of_its_own() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let documents = doc! { "$documents": [{ "a": 1 }, { "a": 2 }] };
    let found = db.aggregate([documents.clone(), doc! { "$match": { "a": 2 } }]).run();
    assert_eq!(all(found), [doc! { "a": 2 }]);
    let reply = db
        .run_command(doc! { "aggregate": 1, "pipeline": [documents.clone()], "cursor": { "batchSize": 1 } });
    let expected = doc! { "firstBatch": [{ "a": 1 }, { "a": 2 }], "id": 0_i64, "ns": "shop.$cmd.aggregate" };
    assert_eq!(reply.run().expect("a reply"), doc! { "cursor": expected, "ok": 1.0 });
    refused(db.aggregate([doc! { "$match": {} }]).run().map(drop), 73, "a collection is required");
    refused(db.aggregate([]).run().map(drop), 73, "an empty pipeline");
    refused(db.aggregate([doc! { "$indexStats": {} }]).run().map(drop), 73, "'$indexStats'");
    refused(db.aggregate([doc! { "$planCacheStats": {} }]).run().map(drop), 73, "'$planCacheStats'");
    refused(fixture.things.aggregate([documents]).run().map(drop), 73, "a database is required");
    refused(fixture.client.database("a b").aggregate([]).run().map(drop), 73, "a b");
}

#[test]
fn a_database_tells_of_operations_and_sessions() {
    let fixture = Fixture::new();
    let (admin, shop) = (fixture.client.database("admin"), fixture.client.database("shop"));
    let itself = doc! { "$match": { "ns": "admin.$cmd.aggregate", "command.aggregate": 1, "active": true } };
    let options = doc! { "allUsers": true, "idleConnections": false };
    for options in [doc! {}, options] {
        let running = all(admin.aggregate([doc! { "$currentOp": options }, itself.clone()]).run());
        assert_eq!(running.len(), 1, "{running:?}");
    }
    refused(shop.aggregate([doc! { "$currentOp": {} }]).run().map(drop), 73, "'admin' database");
    refused(admin.aggregate([doc! { "$currentOp": 1 }]).run().map(drop), 9, "$currentOp");
    refused(admin.aggregate([doc! { "$currentOp": { "some": true } }]).run().map(drop), 9, "'some'");
    refused(admin.aggregate([doc! { "$currentOp": { "allUsers": 1 } }]).run().map(drop), 9, "'allUsers'");
    refused(fixture.things.aggregate([doc! { "$currentOp": {} }]).run().map(drop), 73, "a database");

    let sessions = |options: Document| shop.aggregate([doc! { "$listLocalSessions": options }]).run();
    let users = [doc! { "user": "ada", "db": "admin" }];
    for options in [doc! {}, doc! { "allUsers": true }, doc! { "users": users.to_vec() }] {
        assert_eq!(all(sessions(options)), Vec::<Document>::new());
    }
    // It gives documents to the stages after it, none as well.
    let counted = [doc! { "$listLocalSessions": {} }, doc! { "$facet": { "n": [{ "$count": "n" }] } }];
    assert_eq!(all(shop.aggregate(counted).run()), [doc! { "n": [] }]);
    let both = doc! { "allUsers": true, "users": users.to_vec() };
    refused(sessions(both).map(drop), 72, "at the same time");
    refused(sessions(doc! { "users": ["ada"] }).map(drop), 14, "users");
    refused(sessions(doc! { "allUsers": 1 }).map(drop), 14, "allUsers");
    refused(sessions(doc! { "all": true }).map(drop), 40415, "all");
    refused(fixture.things.aggregate([doc! { "$listLocalSessions": {} }]).run().map(drop), 73, "a database");
}

#[test]
fn an_index_build_is_among_the_operations_until_its_end() {
    let fixture = Fixture::with((0..2_000).map(|id| doc! { "_id": id, "a": id }));
    let admin = fixture.client.database("admin");
    let builds = || {
        let of = doc! { "$match": { "command.createIndexes": 1 } };
        all(admin.aggregate([doc! { "$currentOp": {} }, of]).run())
    };
    let mut seen = Vec::new();
    let model = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    let build = fixture.things.create_index(model).progress(|_| seen.extend(builds()));
    build.run().expect("built");
    let first = seen.first().expect("it was listed while it ran");
    assert!(
        first.get_str("msg").is_ok_and(|text| text.starts_with("Index Build: ") && text.ends_with("a_1"))
    );
    assert_eq!(first.get_str("ns").expect("a namespace"), fixture.things.namespace().to_string());
    assert!(first.get_document("progress").is_ok_and(|progress| progress.contains_key("total")), "{first}");
    assert!(builds().is_empty(), "it has ended");
}

#[test]
fn no_plan_is_kept_that_could_be_shown() {
    let fixture = nine();
    let things = &fixture.things;
    for options in [doc! {}, doc! { "allHosts": true }] {
        assert_eq!(
            all(things.aggregate([doc! { "$planCacheStats": options }]).run()),
            Vec::<Document>::new()
        );
    }
    refused(things.aggregate([doc! { "$planCacheStats": { "a": 1 } }]).run().map(drop), 9, "a");
    refused(things.aggregate([doc! { "$planCacheStats": { "allHosts": 1 } }]).run().map(drop), 9, "allHosts");
    refused(
        things.aggregate([doc! { "$match": {} }, doc! { "$planCacheStats": {} }]).run().map(drop),
        40602,
        "",
    );
    let missing = fixture.client.database("shop").collection::<Document>("missing");
    refused(missing.aggregate([doc! { "$planCacheStats": {} }]).run().map(drop), 50933, "shop.missing");
}

#[test]
fn a_collection_tells_of_itself() {
    let fixture = nine();
    let options = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "a": 1 }).options(options).build();
    fixture.things.create_index(model).run().expect("an index");
    let indexes = all(fixture.things.aggregate([doc! { "$indexStats": {} }]).run());
    let names: Vec<&str> = indexes.iter().map(|index| index.get_str("name").expect("a name")).collect();
    assert_eq!(names, ["_id_", "a_1"]);
    assert_eq!(indexes.last().expect("two").get_document("key").expect("keys"), &doc! { "a": 1 });
    let scans = || {
        let index = all(fixture.things.aggregate([doc! { "$indexStats": {} }]).run()).pop().expect("two");
        let accesses = index.get_document("accesses").expect("uses");
        assert!(accesses.get_datetime("since").is_ok());
        accesses.get_i64("ops").expect("a number")
    };
    assert_eq!(scans(), 0);
    assert_eq!(fixture.things.count_documents(doc! { "a": { "$gte": 0 } }).run().expect("counted"), 9);
    assert_eq!(fixture.things.count_documents(doc! { "b": 5 }).run().expect("counted"), 0);
    assert_eq!(scans(), 1);

    let stats = |options: Document| fixture.things.aggregate([doc! { "$collStats": options }]).run();
    let found = all(stats(doc! { "count": {}, "storageStats": {} })).remove(0);
    assert_eq!(found.get_i64("count").expect("a count"), 9);
    let storage = found.get_document("storageStats").expect("stats");
    let bytes = 9 * doc_bytes();
    assert_eq!((storage.get_i64("size").ok(), storage.get_i64("count").ok()), (Some(bytes), Some(9)));
    assert_eq!(
        (storage.get_i64("avgObjSize").ok(), storage.get_i32("nindexes").ok()),
        (Some(bytes / 9), Some(2))
    );
    let sizes = storage.get_document("indexSizes").expect("sizes");
    assert_eq!(sizes, &doc! { "_id_": 4096_i64, "a_1": 4096_i64 });
    assert_eq!(
        (storage.get_i64("storageSize").ok(), storage.get_i64("totalIndexSize").ok()),
        (Some(4096), Some(8192))
    );
    assert_eq!(storage.get_i64("totalSize").ok(), Some(3 * 4096));
    let scaled = all(stats(doc! { "storageStats": { "scale": 10 } })).remove(0);
    let scaled_sizes = scaled.get_document("storageStats").and_then(|stats| stats.get_document("indexSizes"));
    assert_eq!(scaled_sizes.expect("sizes").get_i64("a_1").ok(), Some(409));
    assert_eq!(scaled.get_document("storageStats").expect("stats").get_i64("size").ok(), Some(bytes / 10));
    refused(stats(doc! { "latencyStats": {} }).map(drop), 238, "latencyStats");
    refused(stats(doc! { "bogus": {} }).map(drop), 40_415, "bogus");
    refused(stats(doc! { "count": 1 }).map(drop), 9, "count");
    refused(stats(doc! { "storageStats": { "scale": 0 } }).map(drop), 9, "scale");
}

fn doc_bytes() -> i64 {
    let document = RawDocumentBuf::try_from(&doc! { "_id": 1, "a": 9, "k": 1 }).expect("a document");
    i64::try_from(document.as_bytes().len()).expect("few")
}

#[test]
fn the_command_is_checked() {
    let fixture = nine();
    let db = fixture.client.database("shop");
    let run = |command: Document| db.run_command(command).run();
    refused(run(doc! { "aggregate": "a", "pipeline": [] }), 9, "'cursor' option is required");
    refused(run(doc! { "aggregate": "a", "cursor": {} }), 40_414, "pipeline");
    refused(run(doc! { "aggregate": "a", "pipeline": {}, "cursor": {} }), 14, "pipeline");
    refused(run(doc! { "aggregate": "a", "pipeline": [], "cursor": { "x": 1 } }), 40_415, "x");
    refused(run(doc! { "aggregate": 2, "pipeline": [], "cursor": {} }), 73, "aggregate");
    refused(run(doc! { "aggregate": "a", "pipeline": [{ "$out": 1 }], "cursor": {} }), 16_990, "$out");
    let large = Fixture::with((0..3).map(|id| doc! { "_id": id, "text": "x".repeat(6 << 20) }));
    let db = large.client.database(&large.things.namespace().db);
    let command = doc! { "aggregate": large.things.name(), "pipeline": [], "cursor": {} };
    refused(db.run_command(command).run(), 10_334, "getMore");
}
