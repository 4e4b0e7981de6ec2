//! Indexes with a collation: what they are used for, what they reject, and that they stay what they are.

use std::sync::Barrier;
use std::thread;

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{
    Collation, CollationStrength, ErrorKind, Hint, IndexModel, IndexOptions, WriteFailure, salvage,
};
use cairndb_tests::scratch::things;

use crate::collation::{any_case, ids, words};
use crate::{Fixture, refused, verify_clean};

fn model(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

#[track_caller]
fn index(fixture: &Fixture, keys: Document, options: IndexOptions) {
    fixture.things.create_index(model(keys, options)).run().expect("an index");
}

fn collated() -> IndexOptions {
    IndexOptions::builder().collation(any_case()).build()
}

/// The plan of a `find` with other fields, as text.
fn plan(fixture: &Fixture, fields: Document) -> String {
    let mut find = doc! { "find": fixture.things.name() };
    find.extend(fields);
    let explained = fixture.client.database(&fixture.things.namespace().db);
    let explained = explained.run_command(doc! { "explain": find, "verbosity": "queryPlanner" }).run();
    explained.expect("explained").get_document("queryPlanner").expect("it is told").to_string()
}

fn any_case_document() -> Document {
    doc! { "locale": "en", "strength": 2 }
}

#[test]
fn texts_are_searched_by_the_same_collation_only() {
    let fixture = words(&["Ada", "bob", "ADA", "Zoe", "ada"]);
    index(&fixture, doc! { "w": 1 }, collated());
    let found = fixture.things.find(doc! { "w": "aDA" }).collation(any_case()).run();
    assert_eq!(ids(found), [0, 2, 4]);
    let same = plan(&fixture, doc! { "filter": { "w": "ada" }, "collation": any_case_document() });
    assert!(same.contains("IXSCAN") && same.contains("[CollationKey(0x"), "{same}");
    assert!(same.contains("\"indexName\": \"w_1\", \"collation\": { \"locale\": \"en\""), "{same}");
    let simple = plan(&fixture, doc! { "filter": { "w": "ada" } });
    assert!(!simple.contains("CollationKey"), "{simple}");
    assert_eq!(ids(fixture.things.find(doc! { "w": "ada" }).run()), [4]);
    // With a hint all texts are read, and the filter has the last word.
    let hinted = fixture.things.find(doc! { "w": "ada" }).hint(Hint::Name("w_1".to_owned())).run();
    assert_eq!(ids(hinted), [4]);
    let other = fixture.things.find(doc! { "w": "ada" }).collation(Collation::with_locale("en"));
    assert_eq!(ids(other.hint(Hint::Keys(doc! { "w": 1 })).run()), [4]);
    // Neighbors in the order of bytes are not neighbors here.
    let pattern = fixture.things.find(doc! { "w": { "$regex": "^A" } }).collation(any_case());
    assert_eq!(ids(pattern.hint(Hint::Name("w_1".to_owned())).run()), [0, 2]);
    fixture.verify_clean();
}

#[test]
fn values_without_texts_are_searched_by_any() {
    let fixture =
        Fixture::with([doc! { "_id": 0, "w": 5 }, doc! { "_id": 1, "w": 7 }, doc! { "_id": 2, "w": "5" }]);
    index(&fixture, doc! { "w": 1 }, collated());
    for collation in [Collation::simple(), any_case(), Collation::with_locale("sv")] {
        let found = fixture.things.find(doc! { "w": { "$gt": 4, "$lt": 7 } }).collation(collation);
        assert_eq!(ids(found.run()), [0]);
    }
    let told = plan(&fixture, doc! { "filter": { "w": { "$gt": 4, "$lt": 7 } } });
    assert!(told.contains("IXSCAN") && told.contains("(4, 7)"), "{told}");
}

#[test]
fn a_sort_needs_the_same_collation() {
    let fixture = words(&["b", "A", "a", "B"]);
    index(&fixture, doc! { "w": 1 }, collated());
    let sorted = |collation: Collation| {
        ids(fixture.things.find(doc! {}).sort(doc! { "w": 1 }).collation(collation).run())
    };
    assert_eq!(sorted(any_case()), [1, 2, 0, 3]);
    assert_eq!(sorted(Collation::simple()), [1, 3, 2, 0]);
    assert_eq!(sorted(Collation::with_locale("en")), [2, 1, 0, 3]);
    let by = |collation: Document| plan(&fixture, doc! { "sort": { "w": 1 }, "collation": collation });
    assert!(!by(any_case_document()).contains("\"SORT\""));
    for other in
        [doc! { "locale": "simple" }, doc! { "locale": "en" }, doc! { "locale": "sv", "strength": 2 }]
    {
        assert!(by(other.clone()).contains("\"SORT\""), "{other}");
    }
}

#[test]
fn an_index_with_sort_keys_tells_no_texts() {
    let fixture = words(&["Ada", "ADA", "bob"]);
    index(&fixture, doc! { "w": 1 }, collated());
    let shown = fixture.things.find(doc! { "w": "ada" }).projection(doc! { "w": 1, "_id": 0 });
    let shown: Vec<Document> = shown.collation(any_case()).run().unwrap().map(Result::unwrap).collect();
    assert_eq!(shown, [doc! { "w": "Ada" }, doc! { "w": "ADA" }]);
    // They are counted by their entries all the same.
    assert_eq!(fixture.things.count_documents(doc! { "w": "ADA" }).collation(any_case()).run().unwrap(), 2);
    let counted =
        doc! { "explain": { "count": "things", "query": { "w": "ADA" }, "collation": any_case_document() } };
    let database = fixture.client.database(&fixture.things.namespace().db);
    let counted = database.run_command(counted).run().unwrap().to_string();
    assert!(counted.contains("COUNT_SCAN"), "{counted}");
    let distinct = |collation: Collation| {
        let values =
            fixture.things.distinct("w", doc! {}).collation(collation).hint(Hint::Name("w_1".to_owned()));
        values.run().unwrap().len()
    };
    assert_eq!((distinct(any_case()), distinct(Collation::simple())), (2, 3));
}

#[test]
fn texts_within_arrays_and_objects_have_sort_keys() {
    let fixture = Fixture::with([
        doc! { "_id": 0, "tags": ["Red", { "in": "Blue" }] },
        doc! { "_id": 1, "tags": "RED" },
        doc! { "_id": 2, "tags": { "in": "blue" } },
        doc! { "_id": 3, "tags": [["red"]] },
    ]);
    index(&fixture, doc! { "tags": 1 }, collated());
    index(
        &fixture,
        doc! { "$**": 1 },
        IndexOptions::builder().name("all".to_owned()).collation(any_case()).build(),
    );
    for name in ["tags_1", "all"] {
        let found = |filter: Document| {
            let find = fixture.things.find(filter).collation(any_case()).sort(doc! { "_id": 1 });
            ids(find.hint(Hint::Name(name.to_owned())).run())
        };
        assert_eq!(found(doc! { "tags": "red" }), [0, 1], "{name}");
        assert_eq!(found(doc! { "tags": { "in": "BLUE" } }), [0, 2], "{name}");
        assert_eq!(found(doc! { "tags": ["RED"] }), [3], "{name}");
        assert_eq!(found(doc! { "tags": { "$in": ["RED", 5] } }), [0, 1], "{name}");
        // Names of fields are not texts.
        assert_eq!(found(doc! { "tags": { "IN": "blue" } }), [] as [i32; 0], "{name}");
    }
    fixture.verify_clean();
}

#[test]
fn a_unique_index_refuses_what_is_equal_to_the_language() {
    let fixture = words(&["Ada"]);
    let unique = IndexOptions::builder().unique(true).collation(any_case()).build();
    index(&fixture, doc! { "w": 1 }, unique);
    let error = fixture.things.insert_one(doc! { "_id": 9, "w": "ADA" }).run().expect_err("taken");
    let text = error.to_string();
    let namespace = fixture.things.namespace();
    assert!(
        text.contains(&format!(
            "E11000 duplicate key error collection: {namespace} index: w_1 collation: {{ "
        )),
        "{text}"
    );
    assert!(text.contains("locale: \"en\"") && text.contains("dup key: { w: \"0x"), "{text}");
    let ErrorKind::Write(WriteFailure::WriteError(refused)) = error.kind() else { panic!("{error:?}") };
    let details = refused.details.as_ref().expect("details");
    assert_eq!(details.get_document("keyPattern").unwrap(), &doc! { "w": 1 });
    assert!(details.get_document("keyValue").unwrap().get_str("w").unwrap().starts_with("0x"));
    assert_eq!(details.get_document("collation").unwrap().get_i32("strength").unwrap(), 2);
    // Numbers are shown as they are.
    fixture.things.insert_one(doc! { "_id": 3, "w": 5 }).run().unwrap();
    let text = fixture.things.insert_one(doc! { "_id": 4, "w": 5.0 }).run().expect_err("taken").to_string();
    assert!(text.contains("dup key: { w: 5.0 }"), "{text}");
    fixture.things.insert_one(doc! { "_id": 5, "w": "Ádá" }).run().expect("another accent");
    let changed = fixture.things.update_one(doc! { "_id": 5 }, doc! { "$set": { "w": "aDa" } }).run();
    assert!(changed.expect_err("taken").is_duplicate_key());
    // The index cannot be made where documents are equal already.
    let plain = words(&["bob", "Bob"]);
    let unique = IndexOptions::builder().unique(true).collation(any_case()).build();
    let made = plain.things.create_index(model(doc! { "w": 1 }, unique)).run();
    assert!(made.expect_err("two are equal").to_string().contains("collation: { "), "the message names it");
    fixture.verify_clean();
}

#[test]
fn of_threads_that_insert_equal_texts_one_wins() {
    let fixture = Fixture::new();
    let unique = IndexOptions::builder().unique(true).collation(any_case()).build();
    index(&fixture, doc! { "w": 1 }, unique);
    let spellings = ["älteste", "ÄLTESTE", "Älteste", "a\u{308}lteste"];
    for round in 0..50 {
        let barrier = Barrier::new(spellings.len());
        let stored: usize = thread::scope(|scope| {
            let threads: Vec<_> = spellings
                .iter()
                .map(|spelling| {
                    let (things, barrier) = (&fixture.things, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        match things.insert_one(doc! { "w": format!("{spelling} {round}") }).run() {
                            Ok(_) => 1,
                            Err(error) if error.is_duplicate_key() => 0,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        // The last one is spelled with a combining mark.
        assert_eq!(stored, 1, "round {round}");
    }
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), 50);
    fixture.verify_clean();
}

#[test]
fn upserts_that_race_find_the_other_document() {
    let fixture = Fixture::new();
    index(&fixture, doc! { "w": 1 }, IndexOptions::builder().unique(true).collation(any_case()).build());
    for round in 0..30 {
        let barrier = Barrier::new(3);
        thread::scope(|scope| {
            for spelling in ["ada", "ADA", "Ada"] {
                let (things, barrier) = (&fixture.things, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let filter = doc! { "w": format!("{spelling} {round}") };
                    let counted = things.update_one(filter, doc! { "$inc": { "n": 1 } }).upsert(true);
                    counted.collation(any_case()).run().expect("inserted or changed");
                });
            }
        });
        let found = fixture.things.find_one(doc! { "w": format!("ada {round}") }).collation(any_case()).run();
        assert_eq!(found.unwrap().unwrap().get_i32("n").unwrap(), 3);
    }
    // By its bytes another text: the filter does not find the document that has the key.
    let other =
        fixture.things.update_one(doc! { "w": "ADA 0" }, doc! { "$inc": { "n": 1 } }).upsert(true).run();
    let spelled = fixture.things.count_documents(doc! { "w": "ADA 0" }).run().unwrap();
    assert_eq!(other.is_ok(), spelled == 1, "{other:?}");
}

#[test]
fn partial_indexes_compare_their_filter_as_their_keys() {
    let fixture = Fixture::with([
        doc! { "_id": 0, "state": "Open", "n": 1 },
        doc! { "_id": 1, "state": "open", "n": 2 },
        doc! { "_id": 2, "state": "paid", "n": 1 },
    ]);
    let options =
        IndexOptions::builder().collation(any_case()).partial_filter_expression(doc! { "state": "OPEN" });
    index(&fixture, doc! { "n": 1 }, options.build());
    let filter = doc! { "state": "open", "n": { "$gte": 1 } };
    let same = plan(&fixture, doc! { "filter": filter.clone(), "collation": any_case_document() });
    assert!(same.contains("IXSCAN"), "{same}");
    assert_eq!(ids(fixture.things.find(filter.clone()).collation(any_case()).run()), [0, 1]);
    // By bytes "open" is narrower, but nothing proves it.
    assert!(!plan(&fixture, doc! { "filter": filter.clone() }).contains("IXSCAN"));
    assert_eq!(ids(fixture.things.find(filter).run()), [1]);
    fixture.verify_clean();
}

#[test]
fn indexes_of_one_field_may_differ_in_their_collation() {
    let fixture = words(&["b", "A"]);
    index(&fixture, doc! { "w": 1 }, IndexOptions::default());
    // Without a name both have the same one.
    let same_name = fixture.things.create_index(model(doc! { "w": 1 }, collated())).run();
    refused(same_name, 86, "w_1");
    let named = IndexOptions::builder().name("any_case".to_owned()).collation(any_case()).build();
    index(&fixture, doc! { "w": 1 }, named.clone());
    index(&fixture, doc! { "w": 1 }, named);
    let third = IndexOptions::builder().name("third".to_owned()).collation(any_case()).build();
    refused(fixture.things.create_index(model(doc! { "w": 1 }, third)).run(), 85, "any_case");
    // A hint by keys means the one that can be used.
    let hint = |collation: Document| {
        plan(&fixture, doc! { "hint": { "w": 1 }, "sort": { "w": 1 }, "collation": collation })
    };
    assert!(hint(any_case_document()).contains("\"any_case\""));
    assert!(hint(doc! { "locale": "simple" }).contains("\"w_1\""));
    let simple = IndexOptions::builder().name("simple".to_owned()).collation(Collation::simple()).build();
    refused(fixture.things.create_index(model(doc! { "w": 1 }, simple)).run(), 85, "w_1");
}

#[test]
fn ranges_of_keys_with_texts_need_the_collation_of_the_index() {
    let fixture = words(&["Ada", "bob", "CARL", "dora"]);
    index(&fixture, doc! { "w": 1 }, collated());
    let range = || fixture.things.find(doc! {}).min(doc! { "w": "BOB" }).max(doc! { "w": "DORA" });
    let hint = || Hint::Name("w_1".to_owned());
    assert_eq!(ids(range().hint(hint()).collation(any_case()).run()), [1, 2]);
    refused(range().hint(hint()).run().map(drop), 51_174, "collation");
    refused(
        range().hint(hint()).collation(Collation::with_locale("sv")).run().map(drop),
        51_174,
        "collation",
    );
    let numbers = fixture.things.find(doc! {}).min(doc! { "w": 1 }).max(doc! { "w": 2 });
    assert!(ids(numbers.hint(hint()).run()).is_empty());
    let keys = fixture.things.find(doc! { "w": "ada" }).collation(any_case()).return_key(true);
    let keys: Vec<Document> = keys.hint(hint()).run().unwrap().map(Result::unwrap).collect();
    assert!(keys[0].get_str("w").unwrap().starts_with("0x"), "{keys:?}");
}

#[test]
fn it_is_listed_and_can_be_made_again_from_its_description() {
    let fixture = words(&["Ada"]);
    let unique = IndexOptions::builder().unique(true).collation(any_case()).build();
    index(&fixture, doc! { "w": 1 }, unique);
    let listed: Vec<IndexModel> = fixture.things.list_indexes().run().unwrap().map(Result::unwrap).collect();
    assert_eq!(listed.len(), 2);
    let collation = listed[1].options.as_ref().unwrap().collation.clone().unwrap();
    assert_eq!((collation.locale.as_str(), collation.strength), ("en", Some(CollationStrength::Secondary)));
    let database = fixture.client.database("other");
    let raw: Vec<Document> =
        fixture.things.list_indexes().run().unwrap().with_type().map(Result::unwrap).collect();
    assert_eq!(raw[1].get_document("collation").unwrap().get_str("version").unwrap(), "57.1");
    let created = database.run_command(doc! { "createIndexes": "copy", "indexes": [raw[1].clone()] }).run();
    assert_eq!(created.unwrap().get_i32("numIndexesAfter").unwrap(), 2);
    let copy = database.collection::<Document>("copy");
    copy.insert_one(doc! { "w": "x" }).run().unwrap();
    assert!(copy.insert_one(doc! { "w": "X" }).run().unwrap_err().is_duplicate_key());
    copy.create_index(listed[1].clone()).run().expect("it is the same");
}

#[test]
fn it_is_the_same_after_a_reopening_and_a_salvage() {
    let fixture = words(&["Ada", "ADA", "zoe"]);
    index(&fixture, doc! { "w": -1 }, collated());
    let Fixture { client, things: opened, scratch } = fixture;
    drop(opened);
    let killed = scratch.killed();
    client.close().expect("closed");
    let after_a_kill = killed.open();
    let check = |client: &cairndb::Client| {
        let things = things(client);
        let found =
            things.find(doc! { "w": "ada" }).collation(any_case()).hint(Hint::Name("w_-1".to_owned()));
        assert_eq!(ids(found.run()), [0, 1]);
        verify_clean(client);
    };
    check(&after_a_kill);
    let client = scratch.open();
    check(&client);
    client.close().expect("closed");
    let salvaged = scratch.folder().join("salvaged");
    let report = salvage(scratch.path(), &salvaged).run().expect("salvaged");
    assert_eq!(report.collections[0].indexes, ["w_-1"]);
    check(&cairndb_tests::scratch::small().open(&salvaged).expect("opened"));
}

#[test]
fn what_is_wrong_with_a_collation_of_an_index_is_named() {
    let fixture = words(&["a"]);
    let database = fixture.client.database(&fixture.things.namespace().db);
    let create = |collation: Bson| {
        let index = doc! { "key": { "w": 1 }, "name": "i", "collation": collation };
        database.run_command(doc! { "createIndexes": "things", "indexes": [index] }).run().map(drop)
    };
    refused(create(bson!({ "locale": "elvish" })), 2, "elvish");
    refused(create(bson!({ "strength": 1 })), 40_414, "locale");
    refused(create(bson!({ "locale": "en", "strong": 1 })), 40_415, "strong");
    refused(create(bson!({ "locale": "en", "strength": 9 })), 2, "strength");
    refused(create(bson!({ "locale": "en", "version": "58" })), 161, "58");
    refused(create(bson!({ "locale": "simple", "strength": 1 })), 9, "strength");
    refused(create(bson!("en")), 14, "collation");
    refused(create(bson!({ "locale": { "a": 1 } })), 14, "locale");
    // Nothing was made on the way, and an empty document is none.
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_"]);
    create(bson!({})).expect("no collation");
    // Records are stored by the bytes of their `_id`s.
    let of_id = doc! { "key": { "_id": 1 }, "name": "_id_", "collation": { "locale": "en" } };
    let of_id = database.run_command(doc! { "createIndexes": "things", "indexes": [of_id] }).run();
    refused(of_id, 2, "_id index must have the same collation");
    refused(fixture.things.create_index(model(doc! { "_id": 1 }, collated())).run(), 2, "_id index");
}

#[test]
fn documents_expire_and_merge_by_such_an_index() {
    let fixture = Fixture::with([
        doc! { "_id": 0, "at": cairndb::bson::DateTime::from_millis(0), "w": "a" },
        doc! { "_id": 1, "at": "never" },
    ]);
    let expiring =
        IndexOptions::builder().expire_after(std::time::Duration::from_secs(1)).collation(any_case());
    index(&fixture, doc! { "at": 1 }, expiring.build());
    fixture.client.expire_documents().run().expect("expired");
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), 1);
    // `$merge` finds by the fields of `on` as the unique index has them, and needs one with its collation.
    let database = fixture.client.database(&fixture.things.namespace().db);
    let target = database.collection::<Document>("target");
    target
        .create_index(model(
            doc! { "w": 1 },
            IndexOptions::builder().unique(true).collation(any_case()).build(),
        ))
        .run()
        .unwrap();
    target.insert_one(doc! { "_id": 7, "w": "ADA" }).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 2, "w": "ada", "n": 1 }).run().unwrap();
    let merge = |collation: Collation| {
        let stages = [
            doc! { "$match": { "n": 1 } },
            doc! { "$project": { "_id": 0 } },
            doc! { "$merge": { "into": "target", "on": "w" } },
        ];
        fixture.things.aggregate(stages).collation(collation).run().map(drop)
    };
    refused(merge(Collation::simple()), 51_183, "Cannot find index");
    merge(any_case()).expect("merged");
    assert_eq!(target.find_one(doc! {}).run().unwrap(), Some(doc! { "_id": 7, "w": "ada", "n": 1 }));
    fixture.verify_clean();
}
