//! Values that are longer than a key may be: they are unique, sorted and found like all others, and only their keys are short.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, IndexModel, IndexOptions, PlantedFault, ReturnDocument, salvage};
use cairndb_tests::scratch::{Scratch, small, things};

use crate::{Fixture, all, refused, verify_clean};

/// A text that only its last letters distinguish from others of its length.
fn long(last: &str) -> String {
    format!("{}{last}", "x".repeat(3000))
}

fn index(things: &Collection<Document>, keys: Document, is_unique: bool) {
    let options = IndexOptions::builder().unique(is_unique).build();
    things.create_index(IndexModel::builder().keys(keys).options(options).build()).run().expect("made");
}

fn ids(found: cairndb::action::Find<'_, Document>) -> Vec<Bson> {
    found
        .run()
        .expect("a cursor")
        .map(|found| found.expect("read").get("_id").expect("an _id").clone())
        .collect()
}

#[test]
fn documents_with_long_ids_are_stored_found_changed_and_removed() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    let text = "x".repeat(8 << 20);
    for last in ["b", "a", "c"] {
        things.insert_one(doc! { "_id": format!("{text}{last}"), "n": 1 }).run().expect("stored");
    }
    let id = |last: &str| format!("{text}{last}");
    refused(things.insert_one(doc! { "_id": id("a") }).run(), 11_000, "_id");
    refused(things.insert_many([doc! { "_id": id("d") }, doc! { "_id": id("d") }]).run(), 11_000, "_id");
    assert_eq!(
        things.find_one(doc! { "_id": id("b") }).run().expect("read").expect("there").get_i32("n").ok(),
        Some(1)
    );
    assert!(things.find_one(doc! { "_id": id("e") }).run().expect("read").is_none());
    let replaced = things.replace_one(doc! { "_id": id("b") }, doc! { "n": 2 }).run().expect("replaced");
    assert_eq!((replaced.matched_count, replaced.modified_count), (1, 1));
    let upsert = |last: &str| {
        let update = things.update_one(doc! { "_id": id(last) }, doc! { "$inc": { "n": 5 } });
        update.upsert(true).run().expect("done").upserted_id.is_some()
    };
    assert!(upsert("e") && !upsert("e") && !upsert("b"));
    let after = things.find_one_and_update(doc! { "_id": id("b") }, doc! { "$set": { "m": 1 } });
    let after = after.return_document(ReturnDocument::After).run().expect("done").expect("there");
    assert_eq!((after.get_i32("n").ok(), after.get_i32("m").ok()), (Some(7), Some(1)));
    assert_eq!(things.delete_one(doc! { "_id": id("c") }).run().expect("done").deleted_count, 1);
    let expected = ["a", "b", "d", "e"].map(|last| Bson::from(id(last)));
    assert_eq!(ids(things.find(doc! {}).sort(doc! { "_id": 1 })), expected);
    assert_eq!(
        ids(things.find(doc! { "_id": { "$gt": id("a"), "$lt": id("e") } }).sort(doc! { "_id": 1 })),
        expected[1..3]
    );
    assert_eq!(
        things.count_documents(doc! { "_id": { "$in": [id("a"), id("z")] } }).run().expect("counted"),
        1
    );
    fixture.verify_clean();
}

#[test]
fn long_values_are_unique_by_all_of_them() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    index(things, doc! { "a": 1, "b": -1 }, true);
    let document = |id: i32, a: &str, b: &str| doc! { "_id": id, "a": long(a), "b": long(b) };
    things
        .insert_many([document(1, "a", "a"), document(2, "a", "b"), document(3, "b", "a")])
        .run()
        .expect("stored");
    let error = refused(things.insert_one(document(4, "a", "b")).run(), 11_000, "a_1_b_-1");
    assert!(error.to_string().contains(&long("b")), "the error shows the value of the document");
    let change = things.update_one(doc! { "_id": 3 }, doc! { "$set": { "a": long("a") } });
    refused(change.run(), 11_000, "a_1_b_-1");
    things.update_one(doc! { "_id": 3 }, doc! { "$set": { "a": long("c") } }).run().expect("another value");
    things.delete_one(doc! { "_id": 2 }).run().expect("deleted");
    things.insert_one(document(4, "a", "b")).run().expect("free again");
    index(things, doc! { "a": 1 }, false);
    assert_eq!(
        things.find_one(doc! { "a": long("c") }).run().expect("read").expect("there").get_i32("_id").ok(),
        Some(3)
    );
    let unique = IndexOptions::builder().unique(true).name("twice".to_owned()).build();
    let model = IndexModel::builder().keys(doc! { "a": -1 }).options(unique).build();
    let error = refused(things.create_index(model).run(), 11_000, "twice");
    assert!(error.to_string().contains(&long("a")), "the error shows the value of a document");
    fixture.verify_clean();
}

/// An index answers as a scan of all documents does.
#[test]
fn every_plan_finds_what_a_scan_finds() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    let texts = ["", "a", "b", "ab"].into_iter().flat_map(|last| {
        [1018, 1020, 1021, 1022, 1023, 1024, 1026, 2000].map(|len| format!("{}{last}", "x".repeat(len)))
    });
    let texts: Vec<Bson> =
        texts.map(Bson::from).chain([Bson::Null, 5.into(), "w".into(), "y".into()]).collect();
    let documents = texts.iter().enumerate().map(|(at, text)| {
        let n = i32::try_from(at % 3).expect("small");
        doc! { "_id": text.clone(), "a": text.clone(), "n": n, "list": [text.clone(), n] }
    });
    things.insert_many(documents).run().expect("stored");
    for keys in [
        doc! { "a": 1 },
        doc! { "a": -1, "n": 1 },
        doc! { "n": 1, "a": 1 },
        doc! { "list": 1 },
        doc! { "$**": 1 },
    ] {
        index(things, keys, false);
    }
    let hints = ["_id_", "a_1", "a_-1_n_1", "n_1_a_1", "list_1", "$**_1"];
    let mut filters = Vec::new();
    for text in &texts {
        for path in ["_id", "a", "list"] {
            filters.push(doc! { path: text.clone() });
            for operator in ["$gt", "$gte", "$lt", "$lte", "$ne"] {
                filters.push(doc! { path: { operator: text.clone() } });
            }
        }
    }
    filters.push(doc! { "a": { "$in": texts.iter().step_by(3).cloned().collect::<Vec<_>>() } });
    filters.push(doc! { "n": 1, "a": { "$nin": texts.iter().step_by(3).cloned().collect::<Vec<_>>() } });
    for filter in filters {
        for sort in [doc! { "a": 1, "_id": 1 }, doc! { "n": 1, "a": -1 }, doc! { "_id": -1 }] {
            let natural = cairndb::Hint::Keys(doc! { "$natural": 1 });
            let expected = ids(things.find(filter.clone()).sort(sort.clone()).hint(natural));
            assert_eq!(ids(things.find(filter.clone()).sort(sort.clone())), expected, "{sort}");
            for hint in hints {
                let found =
                    things.find(filter.clone()).sort(sort.clone()).hint(cairndb::Hint::Name(hint.to_owned()));
                assert_eq!(ids(found), expected, "{hint} {sort}");
            }
            let counted = things.count_documents(filter.clone()).run().expect("counted");
            assert_eq!(counted, expected.len() as u64);
        }
    }
    let distinct = things.distinct("a", doc! {}).run().expect("read");
    assert_eq!(distinct.len(), texts.len());
    fixture.verify_clean();
}

#[test]
fn a_short_range_of_an_index_with_a_long_value_is_still_narrow() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    index(things, doc! { "a": 1 }, false);
    things.insert_many((0..100).map(|n| doc! { "_id": n, "a": format!("t{n:03}") })).run().expect("stored");
    things.insert_one(doc! { "_id": 100, "a": long("a") }).run().expect("stored");
    let filter = doc! { "a": { "$gt": "t010", "$lt": "t020" } };
    let count = doc! { "explain": { "count": "things", "query": filter }, "verbosity": "executionStats" };
    let reply = fixture.client.database("test").run_command(count).run().expect("explained");
    let statistics = reply.get_document("executionStats").expect("run");
    assert_eq!(
        (statistics.get_i32("totalKeysExamined").ok(), statistics.get_i32("totalDocsExamined").ok()),
        (Some(9), Some(0))
    );
    assert!(!reply.to_string().contains("\"isMultiKey\": true"), "{reply}");
}

#[test]
fn keys_of_long_values_are_shown_whole_and_bound_by_all_of_them() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    index(things, doc! { "a": 1, "n": 1 }, false);
    let documents = ["c", "a", "b"].into_iter().enumerate();
    let documents = documents.map(
        |(at, last)| doc! { "_id": long(last), "a": long(last), "n": i32::try_from(at).expect("small") },
    );
    things.insert_many(documents).run().expect("stored");
    let keyed = things.find(doc! { "a": long("b") }).return_key(true).run().expect("a cursor");
    let keyed: Vec<Document> = keyed.map(|row| row.expect("a row")).collect();
    assert_eq!(keyed, [doc! { "a": long("b"), "n": 2 }]);
    let by_index = || things.find(doc! {}).hint(cairndb::Hint::Name("a_1_n_1".to_owned()));
    let bound = |last: &str| doc! { "a": long(last), "n": 0 };
    assert_eq!(
        ids(by_index().min(bound("b")).sort(doc! { "_id": 1 })),
        [long("b").into(), Bson::from(long("c"))]
    );
    assert_eq!(ids(by_index().max(bound("b"))), [Bson::from(long("a"))]);
    let by_id = || things.find(doc! {}).hint(cairndb::Hint::Name("_id_".to_owned()));
    let found = by_id().min(doc! { "_id": long("b") }).max(doc! { "_id": long("c") });
    assert_eq!(ids(found), [Bson::from(long("b"))]);
}

#[test]
fn capped_collections_and_copies_keep_long_ids() {
    let fixture = Fixture::new();
    let database = fixture.client.database("test");
    database.create_collection("log").capped(true).size(1 << 20).max(2).run().expect("made");
    let log = database.collection::<Document>("log");
    log.insert_many(["b", "a", "c"].map(|last| doc! { "_id": long(last) })).run().expect("stored");
    assert_eq!(ids(log.find(doc! {})), ["a", "c"].map(|last| Bson::from(long(last))));
    refused(log.insert_one(doc! { "_id": long("a") }).run(), 11_000, "_id");
    log.insert_one(doc! { "_id": long("b") }).run().expect("it went");
    log.aggregate([doc! { "$out": "copy" }]).run().expect("copied");
    let copy = database.collection::<Document>("copy");
    assert_eq!(
        ids(copy.find(doc! {}).sort(doc! { "_id": 1 })),
        ["b", "c"].map(|last| Bson::from(long(last)))
    );
    fixture.verify_clean();
    let path = fixture.scratch.path();
    fixture.client.close().expect("closed");
    let new = Scratch::new();
    let report = salvage(&path, new.path()).run().expect("salvaged");
    assert!(report.is_complete() && report.verified.is_clean(), "{report:?}");
    let client = new.open();
    let log = client.database("test").collection::<Document>("log");
    assert_eq!(ids(log.find(doc! {})), ["c", "b"].map(|last| Bson::from(long(last))));
    assert_eq!(ids(log.find(doc! {}).sort(doc! { "_id": 1 })), ["b", "c"].map(|last| Bson::from(long(last))));
}

#[test]
fn what_is_known_of_long_values_outlives_the_process() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let stored = things(&client);
    index(&stored, doc! { "a": 1 }, false);
    let documents = ["c", "a", "b"].map(|last| doc! { "_id": long(last), "a": long(last) });
    stored.insert_many(documents).run().expect("stored");
    drop(stored);
    client.close().expect("closed");
    for options in [small().read_only(true), small()] {
        let client = options.open(scratch.path()).expect("opened");
        let stored = things(&client);
        for sort in ["_id", "a"] {
            let found = stored.find(doc! { sort: { "$gte": "x" } }).sort(doc! { sort: 1 });
            assert_eq!(ids(found), ["a", "b", "c"].map(|last| Bson::from(long(last))), "{sort}");
        }
        verify_clean(&client);
        drop(stored);
        client.close().expect("closed");
    }
}

/// A store in which the digests of all values are the same.
fn colliding() -> (Scratch, Client, Collection<Document>) {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().planted_fault(PlantedFault::DigestsCollide));
    let things = things(&client);
    (scratch, client, things)
}

#[test]
fn two_ids_with_one_key_are_told_apart_and_the_second_is_refused() {
    let (_scratch, client, things) = colliding();
    things.insert_one(doc! { "_id": long("a"), "n": 1 }).run().expect("stored");
    refused(things.insert_one(doc! { "_id": long("a") }).run(), 11_000, "_id");
    refused(things.insert_one(doc! { "_id": long("b") }).run(), 17_280, "_id");
    let error =
        things.insert_many([doc! { "_id": 5 }, doc! { "_id": long("b") }]).run().expect_err("refused");
    assert!(error.to_string().contains("digest"), "{error}");
    let upsert = things.update_one(doc! { "_id": long("b") }, doc! { "$set": { "n": 2 } }).upsert(true);
    refused(upsert.run(), 17_280, "_id");
    assert!(things.find_one(doc! { "_id": long("b") }).run().expect("read").is_none());
    for filter in [doc! { "_id": long("b") }, doc! { "_id": { "$in": [long("b"), long("c")] } }] {
        assert_eq!(things.delete_many(filter.clone()).run().expect("done").deleted_count, 0);
        assert_eq!(things.count_documents(filter.clone()).run().expect("counted"), 0);
        assert_eq!(
            things.update_many(filter, doc! { "$set": { "n": 2 } }).run().expect("done").matched_count,
            0
        );
    }
    let lookup =
        doc! { "$lookup": { "from": "things", "localField": "x", "foreignField": "_id", "as": "y" } };
    let joined = [
        doc! { "$match": { "_id": 5 } },
        doc! { "$set": { "x": long("b") } },
        lookup,
        doc! { "$project": { "y": 1 } },
    ];
    let joined = things.aggregate(joined).run().expect("a cursor").next().expect("a row").expect("read");
    assert_eq!(joined, doc! { "_id": 5, "y": [] });
    let two = [doc! { "_id": long("q") }, doc! { "_id": long("r") }].map(|mut document| {
        document.insert("_id", document.get_str("_id").expect("a text").replace('x', "z"));
        document
    });
    let error = things.insert_many(two).run().expect_err("the second of a call is refused too");
    assert!(error.to_string().contains("digest"), "{error}");
    assert_eq!(all(&things).len(), 3);
    assert_eq!(
        things.find_one(doc! { "_id": long("a") }).run().expect("read").expect("there").get_i32("n").ok(),
        Some(1)
    );
    verify_clean(&client);
}

#[test]
fn two_values_with_one_key_of_a_unique_index_are_told_apart() {
    let (_scratch, client, things) = colliding();
    index(&things, doc! { "a": 1 }, true);
    things.insert_one(doc! { "_id": 1, "a": long("a") }).run().expect("stored");
    refused(things.insert_one(doc! { "_id": 2, "a": long("a") }).run(), 11_000, "a_1");
    refused(things.insert_one(doc! { "_id": 2, "a": long("b") }).run(), 17_280, "a_1");
    things.insert_one(doc! { "_id": 2, "a": 2 }).run().expect("stored");
    refused(things.update_one(doc! { "_id": 2 }, doc! { "$set": { "a": long("b") } }).run(), 17_280, "a_1");
    assert!(things.find_one(doc! { "a": long("b") }).run().expect("read").is_none());
    assert_eq!(things.count_documents(doc! { "a": { "$gt": long("a") } }).run().expect("counted"), 0);
    // A document may have its own value changed to one with the same key.
    things.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": long("c") } }).run().expect("changed");
    assert_eq!(
        things.find_one(doc! { "a": long("c") }).run().expect("read").expect("there").get_i32("_id").ok(),
        Some(1)
    );
    things.drop_index("a_1").run().expect("dropped");
    things.update_one(doc! { "_id": 2 }, doc! { "$set": { "a": long("b") } }).run().expect("changed");
    index(&things, doc! { "a": 1 }, false);
    for (last, expected) in [("b", vec![Bson::Int32(2)]), ("c", vec![Bson::Int32(1)]), ("a", vec![])] {
        assert_eq!(ids(things.find(doc! { "a": long(last) })), expected);
    }
    assert_eq!(ids(things.find(doc! {}).sort(doc! { "a": 1 })), [Bson::Int32(2), Bson::Int32(1)]);
    assert_eq!(things.distinct("a", doc! {}).run().expect("read").len(), 2);
    things.drop_index("a_1").run().expect("dropped");
    let unique = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "a": 1 }).options(unique).build();
    refused(things.create_index(model).run(), 17_280, "a_1");
    assert_eq!(all(&things).len(), 2);
    verify_clean(&client);
}
