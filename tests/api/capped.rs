//! Capped collections: what is removed when, the order of their documents, what is rejected, conversions, and folders that
//! were killed or damaged.

use std::collections::VecDeque;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Hint, IndexModel, IndexOptions, WriteConcern, salvage};
use cairndb_tests::files::{change, contents, is_table};
use cairndb_tests::race::race;
use cairndb_tests::scratch::Scratch;

use crate::{Fixture, all, refused, verify_clean};

/// An empty capped collection.
struct Capped {
    fixture: Fixture,
    log: Collection<Document>,
}

fn capped(size: u64, max: u64) -> Capped {
    let fixture = Fixture::new();
    fixture
        .client
        .database("test")
        .create_collection("log")
        .capped(true)
        .size(size)
        .max(max)
        .run()
        .expect("made");
    let log = fixture.client.database("test").collection("log");
    Capped { fixture, log }
}

fn ids(collection: &Collection<Document>) -> Vec<i32> {
    all(collection).iter().map(|document| document.get_i32("_id").expect("a number")).collect()
}

fn numbered(ids: impl IntoIterator<Item = i32>) -> Vec<Document> {
    ids.into_iter().map(|id| doc! { "_id": id }).collect()
}

fn stats(client: &Client, name: &str) -> Document {
    client.database("test").run_command(doc! { "collStats": name }).run().expect("told")
}

#[test]
fn documents_come_in_the_order_of_their_inserts() {
    let Capped { fixture, log } = capped(4096, 0);
    log.insert_many(numbered([5, 3, 9])).run().expect("stored");
    log.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_eq!(ids(&log), [5, 3, 9, 1]);
    let found = |find: cairndb::action::Find<'_, Document>| {
        find.run()
            .expect("found")
            .map(|found| found.expect("read").get_i32("_id").expect("a number"))
            .collect()
    };
    let backwards: Vec<i32> = found(log.find(doc! {}).sort(doc! { "$natural": -1 }));
    assert_eq!(backwards, [1, 9, 3, 5]);
    let hinted: Vec<i32> = found(log.find(doc! {}).hint(Hint::Keys(doc! { "$natural": -1 })));
    assert_eq!(hinted, [1, 9, 3, 5]);
    let sorted: Vec<i32> = found(log.find(doc! {}).sort(doc! { "_id": 1 }));
    assert_eq!(sorted, [1, 3, 5, 9]);
    let both: Vec<i32> =
        found(log.find(doc! {}).sort(doc! { "_id": 1 }).hint(Hint::Keys(doc! { "$natural": 1 })));
    assert_eq!(both, [1, 3, 5, 9]);
    let by_id: Vec<i32> = found(log.find(doc! {}).hint(Hint::Keys(doc! { "_id": 1 })));
    assert_eq!(by_id, [1, 3, 5, 9]);
    let ranged: Vec<i32> =
        found(log.find(doc! { "_id": { "$gt": 2 } }).sort(doc! { "$natural": 1 }).skip(1).limit(1));
    assert_eq!(ranged, [3]);
    // Writes that choose one of several documents choose the oldest.
    assert_eq!(log.find_one_and_delete(doc! {}).run().expect("deleted"), Some(doc! { "_id": 5 }));
    let first = log.aggregate([doc! { "$group": { "_id": null, "first": { "$first": "$_id" } } }]).run();
    let first: Vec<Document> = first.expect("run").collect::<Result<_, _>>().expect("read");
    assert_eq!(first, [doc! { "_id": null, "first": 3 }]);
    fixture.verify_clean();
}

#[test]
fn the_oldest_documents_go_when_there_are_too_many() {
    let Capped { fixture, log } = capped(1 << 20, 3);
    for id in 0..10 {
        log.insert_one(doc! { "_id": -id }).run().expect("stored");
        let expected: Vec<i32> = ((id - 2).max(0)..=id).map(|id| -id).collect();
        assert_eq!(ids(&log), expected);
    }
    log.insert_many(numbered(100..150)).run().expect("stored");
    assert_eq!(ids(&log), [147, 148, 149]);
    assert_eq!(log.estimated_document_count().run().expect("counted"), 3);
    fixture.verify_clean();
}

#[test]
fn the_oldest_documents_go_when_they_are_too_large() {
    let Capped { fixture, log } = capped(1000, 0);
    // The size is rounded up to 1024, and a document has 14 bytes.
    log.insert_many(numbered(0..73)).run().expect("stored");
    assert_eq!(ids(&log).len(), 73);
    log.insert_one(doc! { "_id": 73 }).run().expect("stored");
    assert_eq!(ids(&log), (1..74).collect::<Vec<_>>());
    let large = doc! { "_id": 99, "x": "x".repeat(980) };
    let bytes = cairndb::bson::serialize_to_vec(&large).expect("bytes").len();
    log.insert_one(large).run().expect("stored");
    assert_eq!(bytes, 1002);
    assert_eq!(ids(&log), [73, 99]);
    let told = stats(&fixture.client, "log");
    assert_eq!(
        (told.get_bool("capped").ok(), told.get_i64("max").ok(), told.get_i64("maxSize").ok()),
        (Some(true), Some(0), Some(1024))
    );
    fixture.verify_clean();
}

#[test]
fn a_document_larger_than_the_collection_is_refused_and_removes_nothing() {
    let Capped { fixture, log } = capped(256, 0);
    log.insert_many(numbered(0..5)).run().expect("stored");
    refused(log.insert_one(doc! { "x": "x".repeat(300) }).run(), 2, "cappedMaxSize");
    let many = log.insert_many([doc! { "_id": 7 }, doc! { "x": "x".repeat(300) }, doc! { "_id": 8 }]);
    let error = many.ordered(false).run().expect_err("refused");
    assert!(error.to_string().contains("cappedMaxSize"), "{error}");
    assert_eq!(ids(&log), [0, 1, 2, 3, 4, 7, 8]);
    fixture.verify_clean();
}

#[test]
fn keys_that_made_room_are_free_within_the_same_call() {
    let Capped { fixture, log } = capped(4096, 2);
    let unique = IndexOptions::builder().unique(true).build();
    log.create_index(IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build())
        .run()
        .expect("made");
    let documents = [1, 2, 3, 1, 2].map(|n| doc! { "_id": n, "n": n });
    log.insert_many(documents).run().expect("each key was free again");
    assert_eq!(ids(&log), [1, 2]);
    // An existing key is a duplicate: a document does not make room for itself.
    refused(log.insert_one(doc! { "_id": 1, "n": 9 }).run(), 11000, "E11000");
    refused(log.insert_one(doc! { "_id": 9, "n": 2 }).run(), 11000, "E11000");
    assert_eq!(ids(&log), [1, 2]);
    fixture.verify_clean();
}

#[test]
fn documents_can_be_changed_and_removed_by_hand() {
    let Capped { fixture, log } = capped(1024, 0);
    log.create_index(IndexModel::builder().keys(doc! { "x": 1 }).build()).run().expect("made");
    log.insert_many(numbered(0..20)).run().expect("stored");
    log.delete_one(doc! { "_id": 0 }).run().expect("deleted");
    assert_eq!(
        log.delete_many(doc! { "_id": { "$in": [3, 4, 5, 19] } }).run().expect("deleted").deleted_count,
        4
    );
    // It grows beyond the size, and the next insert makes room.
    log.update_one(doc! { "_id": 7 }, doc! { "$set": { "x": "x".repeat(900) } }).run().expect("updated");
    assert_eq!(ids(&log).len(), 15);
    fixture.verify_clean();
    log.insert_one(doc! { "_id": 20 }).run().expect("stored");
    // The one that grew is the last that goes.
    assert_eq!(ids(&log), (8..19).chain([20]).collect::<Vec<_>>());
    log.replace_one(doc! { "_id": 8 }, doc! { "y": 1 }).run().expect("replaced");
    assert_eq!(log.insert_one(doc! { "_id": 0 }).run().expect("free again").inserted_id, Bson::Int32(0));
    assert_eq!(ids(&log).last(), Some(&0));
    fixture.verify_clean();
}

#[test]
fn a_truncate_leaves_an_empty_capped_collection() {
    let Capped { fixture, log } = capped(1 << 20, 3);
    log.insert_many(numbered(0..3)).run().expect("stored");
    assert_eq!(log.truncate().run().expect("truncated").deleted_count, 3);
    fixture.verify_clean();
    log.insert_many(numbered(5..9)).run().expect("stored");
    assert_eq!(ids(&log), [6, 7, 8]);
    fixture.verify_clean();
}

#[test]
fn limits_are_changed_and_kept_by_the_next_insert() {
    let Capped { fixture, log } = capped(1 << 20, 0);
    let db = fixture.client.database("test");
    log.insert_many(numbered(0..5000)).run().expect("stored");
    db.modify_collection("log").capped_max(10).run().expect("changed");
    assert_eq!(log.count_documents(doc! {}).run().expect("counted"), 5000);
    log.insert_one(doc! { "_id": 5000 }).run().expect("stored");
    assert_eq!(ids(&log), (4991..=5000).collect::<Vec<_>>());
    db.run_command(doc! { "collMod": "log", "cappedMax": 0, "cappedSize": 30.0 }).run().expect("changed");
    log.insert_many(numbered(0..30)).run().expect("stored");
    assert_eq!(ids(&log), (12..30).collect::<Vec<_>>());
    refused(db.modify_collection("log").capped_size(0).run(), 51024, "cappedSize");
    refused(db.modify_collection("log").capped_max(1 << 31).run(), 2, "cappedMax");
    fixture.things.insert_one(doc! {}).run().expect("stored");
    refused(db.modify_collection("things").capped_size(4096).run(), 72, "must be capped");
    fixture.verify_clean();
}

#[test]
fn what_no_capped_collection_has_is_refused() {
    let Capped { fixture, log } = capped(4096, 5);
    let db = fixture.client.database("test");
    let create = |options: Document| {
        let mut command = doc! { "create": "other" };
        command.extend(options);
        db.run_command(command).run()
    };
    refused(create(doc! { "capped": true }), 72, "'size' field is required");
    refused(create(doc! { "capped": true, "max": 5 }), 72, "'size' field is required");
    refused(create(doc! { "size": 4096 }), 72, "'capped' field needs to be true");
    refused(create(doc! { "capped": false, "max": 4 }), 72, "'capped' field needs to be true");
    refused(create(doc! { "capped": true, "size": 0 }), 51024, ">= 1");
    refused(create(doc! { "capped": true, "size": "large" }), 14, "size");
    refused(create(doc! { "capped": true, "size": (1_i64 << 50) + 1 }), 51024, "<=");
    refused(create(doc! { "capped": true, "size": 4096, "viewOn": "log" }), 72, "view");
    assert_eq!(db.list_collection_names().run().expect("listed"), ["log"]);
    let ttl = IndexOptions::builder().expire_after(std::time::Duration::from_secs(5)).build();
    let ttl = IndexModel::builder().keys(doc! { "at": 1 }).options(ttl).build();
    refused(log.create_index(ttl).run(), 67, "capped");
    log.create_index(IndexModel::builder().keys(doc! { "at": 1 }).build()).run().expect("made");
    refused(log.modify_index("at_1").expire_after(std::time::Duration::from_secs(5)).run(), 67, "capped");
    refused(log.aggregate([doc! { "$out": "log" }]).run(), 17152, "capped");
    log.aggregate([doc! { "$documents": [{ "_id": 1 }] }, doc! { "$merge": "log" }])
        .run()
        .expect_err("first stage");
    fixture.things.insert_many(numbered(0..9)).run().expect("stored");
    fixture.things.aggregate([doc! { "$merge": "log" }]).run().expect("an ordinary write");
    assert_eq!(ids(&log), [4, 5, 6, 7, 8]);
    fixture.verify_clean();
}

#[test]
fn it_is_listed_as_it_was_made_and_can_be_made_again() {
    let Capped { fixture, .. } = capped(5000, 7);
    let db = fixture.client.database("test");
    let reply = db.run_command(doc! { "listCollections": 1 }).run().expect("listed");
    let listed =
        reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let options = listed.first().and_then(Bson::as_document).expect("one").get_document("options");
    assert_eq!(options.ok(), Some(&doc! { "capped": true, "size": 5120_i64, "max": 7_i64 }));
    let again = |size: u64| db.create_collection("log").capped(true).size(size).max(7).run();
    again(5120).expect("alike");
    refused(again(6000), 48, "different options");
    refused(db.create_collection("log").run(), 48, "different options");
}

#[test]
fn a_rename_keeps_the_order_and_a_drop_removes_it() {
    let Capped { fixture, log } = capped(4096, 3);
    log.insert_many(numbered([5, 1, 3])).run().expect("stored");
    log.rename("renamed").run().expect("renamed");
    let renamed = fixture.client.database("test").collection::<Document>("renamed");
    renamed.insert_one(doc! { "_id": 2 }).run().expect("stored");
    assert_eq!(ids(&renamed), [1, 3, 2]);
    fixture.verify_clean();
    renamed.drop().run().expect("dropped");
    fixture.verify_clean();
}

#[test]
fn it_is_there_after_a_reopen_and_after_a_kill() {
    let Capped { fixture, log } = capped(4096, 4);
    log.insert_many(numbered([5, 1, 3, 9, 2])).run().expect("stored");
    log.delete_one(doc! { "_id": 3 }).run().expect("deleted");
    let killed = fixture.scratch.killed();
    let Fixture { client, scratch, .. } = fixture;
    client.close().expect("closed");
    for scratch in [&killed, &scratch] {
        let client = scratch.open();
        let log = client.database("test").collection::<Document>("log");
        assert_eq!(ids(&log), [1, 9, 2]);
        log.insert_many(numbered([8, 7])).run().expect("stored");
        assert_eq!(ids(&log), [9, 2, 8, 7]);
        verify_clean(&client);
        client.close().expect("closed");
    }
}

/// Beside a list: random inserts of one and of many, updates, deletes and changes of the limits.
#[test]
fn it_is_as_a_list_that_is_cut_at_its_front() {
    let Capped { fixture, log } = capped(2048, 0);
    log.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    let mut random = 12345_u64;
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).expect("31 bits") % below
    };
    let length = |document: &Document| cairndb::bson::serialize_to_vec(document).expect("bytes").len() as u64;
    let (mut list, mut size, mut max) = (VecDeque::<Document>::new(), 2048, u64::MAX);
    for round in 0..600 {
        match draw(10) {
            0..=5 => {
                let count = [1, 1, 1, 2, 7, 40][draw(6)];
                let documents: Vec<Document> = (0..count)
                    .map(|at| doc! { "_id": format!("{}-{round}-{at}", draw(99)), "n": at, "x": "x".repeat(draw(200)) })
                    .collect();
                log.insert_many(&documents).run().expect("stored");
                for document in documents {
                    let bytes = length(&document);
                    while !list.is_empty()
                        && (list.iter().map(length).sum::<u64>() + bytes > size
                            || list.len() as u64 + 1 > max)
                    {
                        list.pop_front();
                    }
                    list.push_back(document);
                }
            }
            6 if !list.is_empty() => {
                let at = draw(list.len());
                let gone = list.remove(at).expect("there");
                log.delete_one(doc! { "_id": gone.get("_id") }).run().expect("deleted");
            }
            7 if !list.is_empty() => {
                let at = draw(list.len());
                let document = list.get_mut(at).expect("there");
                document.insert("n", "n".repeat(draw(300)));
                let set = doc! { "$set": { "n": document.get("n") } };
                log.update_one(doc! { "_id": document.get("_id") }, set).run().expect("updated");
            }
            8 => {
                size = 1024 + 256 * draw(8) as u64;
                fixture
                    .client
                    .database("test")
                    .modify_collection("log")
                    .capped_size(size)
                    .run()
                    .expect("changed");
            }
            9 => {
                max = 1 + draw(30) as u64;
                fixture
                    .client
                    .database("test")
                    .modify_collection("log")
                    .capped_max(max)
                    .run()
                    .expect("changed");
            }
            _ => {}
        }
        if round % 20 == 0 {
            fixture.verify_clean();
        }
        assert_eq!(all(&log), Vec::from(list.clone()), "round {round}");
    }
    fixture.verify_clean();
}

#[test]
fn eight_writers_leave_a_whole_order() {
    let Capped { fixture, log } = capped(1 << 20, 500);
    log.create_index(IndexModel::builder().keys(doc! { "writer": 1 }).build()).run().expect("made");
    race(0..8, |writer: i32| {
        for n in 0..300 {
            let concern = if n % 50 == 0 { WriteConcern::journaled() } else { WriteConcern::buffered() };
            log.insert_one(doc! { "writer": writer, "n": n }).write_concern(concern).run().expect("stored");
            match n % 7 {
                3 => drop(log.delete_one(doc! { "writer": writer }).run().expect("deleted")),
                5 => {
                    let grow = doc! { "$set": { "x": "x".repeat(50) } };
                    log.update_many(doc! { "writer": writer, "n": n }, grow).run().expect("updated");
                }
                _ => {}
            }
        }
    });
    fixture.verify_clean();
    let found = all(&log);
    assert!(found.len() <= 500);
    for writer in 0..8 {
        let own: Vec<i32> = found
            .iter()
            .filter(|document| document.get_i32("writer").ok() == Some(writer))
            .map(|document| document.get_i32("n").expect("a number"))
            .collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

#[test]
fn an_index_is_built_while_documents_make_room() {
    let Capped { fixture, log } = capped(1 << 20, 2000);
    log.insert_many((0..2000).map(|n| doc! { "n": n })).run().expect("stored");
    race([0, 1], |lane| {
        if lane == 0 {
            log.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("built");
        } else {
            for n in 2000..5000 {
                log.insert_one(doc! { "n": n }).run().expect("stored");
            }
        }
    });
    fixture.verify_clean();
    assert_eq!(log.count_documents(doc! { "n": { "$gte": 0 } }).run().expect("counted"), 2000);
}

#[test]
fn a_collection_is_converted_in_place() {
    let fixture = Fixture::new();
    let db = fixture.client.database("test");
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    fixture.things.insert_many((0..100).rev().map(|id| doc! { "_id": id })).run().expect("stored");
    db.run_command(doc! { "convertToCapped": "things", "size": 500 }).run().expect("converted");
    // 512 bytes, of 14 for each document.
    assert_eq!(ids(&fixture.things), (64..100).collect::<Vec<_>>());
    assert_eq!(fixture.things.list_indexes().run().expect("listed").count(), 1);
    assert_eq!(fixture.things.estimated_document_count().run().expect("counted"), 36);
    fixture.verify_clean();
    fixture.things.insert_one(doc! { "_id": 0 }).run().expect("stored");
    assert_eq!(ids(&fixture.things).first(), Some(&65));
    // Once more: it is capped already, and shrinks at once.
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    fixture.things.convert_to_capped(20).run().expect("converted");
    assert_eq!(ids(&fixture.things).len(), 18);
    assert_eq!(fixture.things.list_indexes().run().expect("listed").count(), 1);
    fixture.verify_clean();
    refused(db.run_command(doc! { "convertToCapped": "things" }).run(), 40414, "size");
    refused(db.run_command(doc! { "convertToCapped": "nothing", "size": 5 }).run(), 26, "nothing");
    refused(db.run_command(doc! { "convertToCapped": "things", "size": 0 }).run(), 51024, "size");
    db.create_collection("view").view_on("things").run().expect("made");
    refused(db.run_command(doc! { "convertToCapped": "view", "size": 5 }).run(), 166, "view");
    fixture.client.close().expect("closed");
    let client = fixture.scratch.open();
    assert_eq!(ids(&client.database("test").collection("things")).len(), 18);
    verify_clean(&client);
}

#[test]
fn a_conversion_loses_nothing_of_writers_beside_it() {
    let fixture = Fixture::with((0..3000).map(|n| doc! { "n": n }));
    let inserted = race([0, 1, 2], |lane| {
        if lane == 0 {
            fixture.things.convert_to_capped(1 << 24).run().expect("converted");
            return 0;
        }
        for n in 0..1000 {
            fixture.things.insert_one(doc! { "lane": lane, "n": n }).run().expect("stored");
        }
        1000
    });
    let inserted: u64 = inserted.into_iter().sum();
    assert_eq!(fixture.things.count_documents(doc! {}).run().expect("counted"), 3000 + inserted);
    assert_eq!(fixture.things.estimated_document_count().run().expect("counted"), 3000 + inserted);
    fixture.verify_clean();
}

#[test]
fn a_copy_is_capped_and_leaves_its_source_alone() {
    let fixture = Fixture::with(numbered(0..100));
    let db = fixture.client.database("test");
    let clone = |to: &str, size: i32| {
        db.run_command(doc! { "cloneCollectionAsCapped": "things", "toCollection": to, "size": size }).run()
    };
    clone("copy", 256).expect("copied");
    let copy = db.collection::<Document>("copy");
    assert_eq!(ids(&copy), (82..100).collect::<Vec<_>>());
    assert_eq!(ids(&fixture.things).len(), 100);
    refused(clone("copy", 256), 48, "already exists");
    refused(clone("other", -1), 51024, "size");
    let missing = doc! { "cloneCollectionAsCapped": "nothing", "toCollection": "x", "size": 256 };
    refused(db.run_command(missing).run(), 26, "nothing");
    // The order of a capped source is kept.
    copy.insert_one(doc! { "_id": 5 }).run().expect("stored");
    copy.clone_as_capped("second", 4096).run().expect("copied");
    let second = db.collection::<Document>("second");
    assert_eq!(ids(&second), (83..100).chain([5]).collect::<Vec<_>>());
    // A document that is too large leaves no copy.
    fixture.things.insert_one(doc! { "_id": 200, "x": "x".repeat(500) }).run().expect("stored");
    refused(clone("large", 256), 2, "cappedMaxSize");
    assert_eq!(db.list_collection_names().run().expect("listed"), ["copy", "second", "things"]);
    fixture.verify_clean();
}

#[test]
fn a_salvaged_folder_keeps_the_order() {
    let scratch = Scratch::new();
    let client = scratch.open();
    client
        .database("test")
        .create_collection("log")
        .capped(true)
        .size(1 << 20)
        .max(1000)
        .run()
        .expect("made");
    let log = client.database("test").collection::<Document>("log");
    log.insert_many(numbered((0..1500).rev())).run().expect("stored");
    log.delete_many(doc! { "_id": { "$mod": [3, 0] } }).run().expect("deleted");
    client.flush().expect("flushed");
    log.insert_many(numbered(5000..5010)).run().expect("stored");
    let before = ids(&log);
    client.close().expect("closed");
    let folder = Scratch::new();
    let report = salvage(scratch.path(), folder.path()).run().expect("salvaged");
    assert_eq!(report.collections.first().map(|found| found.documents), Some(before.len() as u64));
    let client = folder.open();
    let log = client.database("test").collection::<Document>("log");
    assert_eq!(ids(&log), before);
    verify_clean(&client);
    log.insert_one(doc! { "_id": 9000 }).run().expect("stored");
    assert_eq!(ids(&log).last(), Some(&9000));
    verify_clean(&client);
}

/// Whatever table is damaged, each document that is left has a position.
#[test]
fn a_damaged_folder_is_salvaged_to_a_whole_order() {
    let scratch = Scratch::new();
    let client = scratch.open();
    client.database("test").create_collection("log").capped(true).size(1 << 24).run().expect("made");
    let log = client.database("test").collection::<Document>("log");
    let documents = (0..4000).map(|id| doc! { "_id": (id * 7919) % 4001, "x": format!("{id:0100}") });
    log.insert_many(documents).run().expect("stored");
    client.flush().expect("flushed");
    client.close().expect("closed");
    let tables: Vec<String> = contents(&scratch.path()).into_keys().filter(|name| is_table(name)).collect();
    assert!(tables.len() >= 2, "{tables:?}");
    for table in tables {
        let copy = scratch.killed();
        change(&copy.path(), &table, |bytes| {
            let at = bytes.len() / 3;
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1);
        });
        let folder = Scratch::new();
        salvage(copy.path(), folder.path()).run().expect("salvaged");
        let client = folder.open();
        verify_clean(&client);
        let log = client.database("test").collection::<Document>("log");
        log.insert_one(doc! { "_id": -1 }).run().expect("stored");
        assert_eq!(ids(&log).last(), Some(&-1));
        verify_clean(&client);
    }
}
