//! Secondary indexes: what they reject, what conflicts, and that a failed build leaves nothing.

use cairndb::bson::{Document, bson, doc};
use cairndb::{IndexModel, IndexOptions};
use cairndb_tests::scratch::things;

use crate::{Fixture, refused};

fn plain(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).build()
}

fn unique(keys: Document) -> IndexModel {
    IndexModel::builder().keys(keys).options(IndexOptions::builder().unique(true).build()).build()
}

fn sparse_unique(keys: Document) -> IndexModel {
    let options = IndexOptions::builder().unique(true).sparse(true).build();
    IndexModel::builder().keys(keys).options(options).build()
}

fn named(keys: Document, name: &str) -> IndexModel {
    IndexModel::builder().keys(keys).options(IndexOptions::builder().name(name.to_owned()).build()).build()
}

/// The index accepts the first document and, on an empty collection and a filled one, rejects the second.
#[track_caller]
fn clash(index: IndexModel, first: Document, second: Document, shown: &str) {
    let fixture = Fixture::new();
    fixture.things.create_index(index.clone()).run().expect("an index");
    fixture.things.insert_one(&first).run().expect("stored");
    refused(fixture.things.insert_one(&second).run(), 11000, shown);
    fixture.verify_clean();

    let fixture = Fixture::with([first, second]);
    refused(fixture.things.create_index(index).run(), 11000, shown);
    assert_eq!(fixture.things.list_index_names().run().expect("names"), ["_id_"]);
    let report = fixture.client.verify().expect("a report");
    assert!(report.is_clean() && report.entries == 0 && report.documents == 2, "{report:?}");
}

/// The index accepts both documents, on an empty collection and on a filled one.
#[track_caller]
fn fits(index: IndexModel, first: Document, second: Document, entries: u64) {
    let fixture = Fixture::new();
    fixture.things.create_index(index.clone()).run().expect("an index");
    fixture.things.insert_many([&first, &second]).run().expect("stored");
    let before = fixture.client.verify().expect("a report");
    assert!(before.is_clean() && before.entries == entries, "{before:?}");
    let fixture = Fixture::with([first, second]);
    fixture.things.create_index(index).run().expect("an index");
    let after = fixture.client.verify().expect("a report");
    assert!(after.is_clean() && after.entries == entries, "{after:?}");
}

#[track_caller]
fn refused_definition(index: IndexModel, code: i32, words: &str) {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    refused(fixture.things.create_index(index).run(), code, words);
    assert_eq!(fixture.things.list_index_names().run().expect("names"), ["_id_"]);
}

#[test]
fn a_unique_index_refuses_equal_keys() {
    clash(
        unique(doc! { "k": 1 }),
        doc! { "_id": 1, "k": "x" },
        doc! { "_id": 2, "k": "x" },
        "index: k_1 dup key: { k: \"x\" }",
    );
    clash(
        unique(doc! { "k": -1 }),
        doc! { "_id": 1, "k": 1 },
        doc! { "_id": 2, "k": 1.0 },
        "index: k_-1 dup key: { k: 1.0 }",
    );
    clash(
        unique(doc! { "n.k": 1 }),
        doc! { "_id": 1, "n": { "k": 1 } },
        doc! { "_id": 2, "n": { "k": 1 } },
        "{ n.k: 1 }",
    );
    clash(unique(doc! { "k": 1 }), doc! { "_id": 1 }, doc! { "_id": 2, "k": null }, "{ k: null }");
    clash(
        unique(doc! { "a": 1, "b": -1 }),
        doc! { "_id": 1, "a": 1, "b": "x" },
        doc! { "_id": 2, "b": "x", "a": 1 },
        "index: a_1_b_-1 dup key: { a: 1, b: \"x\" }",
    );
}

#[test]
fn an_array_has_a_key_for_each_element() {
    clash(
        unique(doc! { "k": 1 }),
        doc! { "_id": 1, "k": [1, 2, 3] },
        doc! { "_id": 2, "k": [9, 3] },
        "{ k: 3 }",
    );
    clash(
        unique(doc! { "k.x": 1 }),
        doc! { "_id": 1, "k": [{ "x": 1 }] },
        doc! { "_id": 2, "k": { "x": 1 } },
        "{ k.x: 1 }",
    );
    fits(unique(doc! { "k": 1 }), doc! { "_id": 1, "k": [1, 1, 1.0] }, doc! { "_id": 2, "k": [2, 3] }, 3);
    fits(unique(doc! { "k": 1 }), doc! { "_id": 1, "k": [] }, doc! { "_id": 2, "k": null }, 2);
    fits(plain(doc! { "a": 1, "k": 1 }), doc! { "_id": 1, "a": 1, "k": [1, 2, 3] }, doc! { "_id": 2 }, 4);
}

#[test]
fn plain_indexes_take_equal_keys() {
    fits(plain(doc! { "k": 1 }), doc! { "_id": 1, "k": 1 }, doc! { "_id": 2, "k": 1.0 }, 2);
    fits(plain(doc! { "k": 1 }), doc! { "_id": 1 }, doc! { "_id": 2 }, 2);
}

#[test]
fn a_sparse_index_leaves_out_what_lacks_the_field() {
    fits(sparse_unique(doc! { "k": 1 }), doc! { "_id": 1 }, doc! { "_id": 2 }, 0);
    fits(sparse_unique(doc! { "a": 1, "b": 1 }), doc! { "_id": 1 }, doc! { "_id": 2, "b": 1 }, 1);
    clash(
        sparse_unique(doc! { "k": 1 }),
        doc! { "_id": 1, "k": null },
        doc! { "_id": 2, "k": null },
        "{ k: null }",
    );
}

#[test]
fn parallel_arrays_are_refused() {
    let fixture = Fixture::new();
    fixture.things.create_index(plain(doc! { "a": 1, "b": 1 })).run().unwrap();
    refused(fixture.things.insert_one(doc! { "a": [1], "b": [2] }).run(), 171, "a");
    fixture.things.insert_one(doc! { "_id": 1, "a": [1], "b": 2 }).run().unwrap();
    refused(fixture.things.replace_one(doc! { "_id": 1 }, doc! { "a": [1], "b": [2] }).run(), 171, "a");
    assert_eq!(fixture.stored(), [doc! { "_id": 1, "a": [1], "b": 2 }]);
    fixture.verify_clean();

    let fixture = Fixture::with([doc! { "_id": 1, "a": [1], "b": [2] }]);
    refused(fixture.things.create_index(plain(doc! { "a": 1, "b": 1 })).run(), 171, "");
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_"]);
    fixture.verify_clean();
}

#[test]
fn a_duplicate_secondary_key_has_its_details() {
    let fixture = Fixture::new();
    fixture.things.create_index(unique(doc! { "a": 1, "b": -1 })).run().unwrap();
    fixture.things.insert_one(doc! { "a": 1_i64, "b": "x" }).run().unwrap();
    let error = fixture.things.insert_one(doc! { "a": 1_i64, "b": "x" }).run().expect_err("refused");
    let cairndb::ErrorKind::Write(cairndb::WriteFailure::WriteError(error)) = error.kind() else {
        panic!("{error:?}")
    };
    let details = doc! { "keyPattern": { "a": 1, "b": -1 }, "keyValue": { "a": 1_i64, "b": "x" } };
    assert_eq!(error.details.as_ref(), Some(&details));
}

#[test]
fn the_same_index_again_changes_nothing() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    for _ in 0..2 {
        assert_eq!(
            fixture.things.create_index(plain(doc! { "a": 1, "b": -1 })).run().unwrap().index_name,
            "a_1_b_-1"
        );
    }
    assert_eq!(fixture.things.create_index(plain(doc! { "_id": 1 })).run().unwrap().index_name, "_id_");
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_", "a_1_b_-1"]);
}

/// Drivers send the index on `_id` under the name that they make of its keys. It was rejected for not being `_id_`.
#[test]
fn the_index_on_id_is_asked_for_under_any_name_and_in_any_number() {
    for (id, name) in [(bson!(1), "_id_1"), (bson!(1_i64), "_id_"), (bson!(1.0), "mine"), (bson!(1), "*")] {
        let fixture = Fixture::with([doc! { "_id": 1 }]);
        let made = fixture.things.create_index(named(doc! { "_id": id }, name)).run().expect("nothing to do");
        assert_eq!(made.index_name, "_id_");
        assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_"]);
        fixture.verify_clean();
    }
}

/// Names of more than 127 bytes were rejected, which needed six dotted fields and no name of one's own.
#[test]
fn names_of_indexes_may_be_long() {
    let Fixture { client, things, scratch } = Fixture::with([doc! { "_id": 1 }]);
    let keys: Document =
        (0..6).map(|field| (format!("customer.address.country.f{field}"), bson!(1))).collect();
    let name = things.create_index(plain(keys)).run().expect("made").index_name;
    assert!(name.len() > 127, "{name}");
    let own = "n".repeat(100_000);
    assert_eq!(things.create_index(named(doc! { "a": 1 }, &own)).run().expect("made").index_name, own);
    client.close().expect("closed");
    let client = scratch.open();
    let things = cairndb_tests::scratch::things(&client);
    assert_eq!(things.list_index_names().run().unwrap(), ["_id_".to_owned(), name, own.clone()]);
    things.drop_index(own).run().expect("removed");
    crate::verify_clean(&client);
}

#[test]
fn conflicting_definitions_are_refused() {
    let fixture = Fixture::new();
    fixture.things.create_index(plain(doc! { "a": 1 })).run().unwrap();
    refused(fixture.things.create_index(named(doc! { "a": 1 }, "other")).run(), 85, "a_1");
    refused(fixture.things.create_index(named(doc! { "b": 1 }, "a_1")).run(), 86, "a_1");
    refused(fixture.things.create_index(unique(doc! { "a": 1 })).run(), 86, "a_1");
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_", "a_1"]);
}

#[test]
fn bad_definitions_are_refused() {
    refused_definition(plain(doc! {}), 67, "");
    refused_definition(plain(doc! { "a": 0 }), 67, "a");
    refused_definition(plain(doc! { "a": "text" }), 67, "text");
    refused_definition(plain(doc! { "a": 1, "": 1 }), 67, "");
    refused_definition(plain(doc! { "a..b": 1 }), 67, "a..b");
    refused_definition(plain(doc! { "$a": 1 }), 67, "$a");
    refused_definition(named(doc! { "a": 1 }, ""), 67, "");
    refused_definition(named(doc! { "a": 1 }, "*"), 2, "The index name '*' is not valid.");
    refused_definition(named(doc! { "a": 1 }, "a\0b"), 67, "NUL");
    refused_definition(named(doc! { "a": 1 }, "_id_"), 2, "reserved for the _id index");
    refused_definition(named(doc! { "a": 1 }, &"n".repeat(16 << 20)), 10334, "16777216");
    refused_definition(named(doc! { "_id": 1 }, ""), 67, "index name cannot be empty");
    refused_definition(plain(doc! { "_id": -1 }), 2, "must be {_id: 1}, but got { _id: -1 }");
    let words = "The field 'unique' is not valid for an _id index specification. \
                 Specification: { key: { _id: 1 }, name: \"_id_\", unique: true, ";
    refused_definition(sparse_unique(doc! { "_id": 1 }), 197, words);
    let fields: Document = (0..33).map(|field| (format!("f{field}"), bson!(1))).collect();
    refused_definition(named(fields, "many"), 67, "32");
}

#[test]
fn a_collection_has_64_indexes_at_most() {
    let fixture = Fixture::new();
    let index = |number: usize| plain(doc! { format!("f{number}"): 1 });
    fixture.things.create_indexes((0..63).map(index)).run().unwrap();
    refused(fixture.things.create_index(index(63)).run(), 67, "64");
    fixture.things.insert_one(doc! { "f1": 1 }).run().unwrap();
    assert_eq!(fixture.client.verify().unwrap().entries, 63);
}

#[test]
fn several_indexes_are_all_checked_before_one_is_made() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let names =
        fixture.things.create_indexes([plain(doc! { "a": 1 }), unique(doc! { "b": 1 })]).run().unwrap();
    assert_eq!(names.index_names, ["a_1", "b_1"]);
    refused(fixture.things.create_indexes([plain(doc! { "c": 1 }), plain(doc! { "d": 0 })]).run(), 67, "d");
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_", "a_1", "b_1"]);
    assert!(fixture.things.create_indexes([]).run().is_err());
}

#[test]
fn dropped_indexes_refuse_nothing_any_more() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1, "b": 1 }]);
    fixture.things.create_indexes([unique(doc! { "a": 1 }), unique(doc! { "b": 1 })]).run().unwrap();
    refused(fixture.things.drop_index("_id_").run(), 72, "_id");
    refused(fixture.things.drop_index("c_1").run(), 27, "c_1");
    fixture.things.drop_index("a_1").run().unwrap();
    fixture.things.insert_one(doc! { "a": 1, "b": 2 }).run().unwrap();
    refused(fixture.things.insert_one(doc! { "a": 1, "b": 2 }).run(), 11000, "b_1");
    fixture.things.drop_indexes().run().unwrap();
    fixture.things.insert_one(doc! { "a": 1, "b": 2 }).run().unwrap();
    assert_eq!(fixture.things.list_index_names().run().unwrap(), ["_id_"]);
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && report.entries == 0, "{report:?}");
    refused(fixture.client.database("test").collection::<Document>("none").drop_indexes().run(), 26, "none");
}

#[test]
fn definitions_are_listed_as_they_were_given() {
    let fixture = Fixture::new();
    assert!(fixture.things.list_indexes().run().unwrap().next().is_none());
    fixture.things.create_index(sparse_unique(doc! { "a.b": -1 })).run().unwrap();
    let listed: Vec<IndexModel> = fixture.things.list_indexes().run().unwrap().map(Result::unwrap).collect();
    assert_eq!(listed[0].keys, doc! { "_id": 1 });
    assert_eq!(listed[1].keys, doc! { "a.b": -1 });
    let options = listed[1].options.as_ref().unwrap();
    assert_eq!(
        (options.name.as_deref(), options.unique, options.sparse),
        (Some("a.b_-1"), Some(true), Some(true))
    );
    // An option that is not given is not there, and a model has no version.
    let whole = fixture.things.list_indexes().run().unwrap().with_type::<Document>();
    assert_eq!(
        whole.map(Result::unwrap).collect::<Vec<_>>(),
        [
            doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
            doc! { "v": 2, "key": { "a.b": -1 }, "name": "a.b_-1", "unique": true, "sparse": true },
        ]
    );
}

#[test]
fn a_list_of_indexes_stands_still() {
    let fixture = Fixture::new();
    fixture.things.create_index(sparse_unique(doc! { "a": 1 })).run().unwrap();
    let mut listed = fixture.things.list_indexes().run().unwrap();
    assert!(listed.advance().unwrap());
    fixture.things.drop_indexes().run().unwrap();
    let second = listed.next().expect("the second index").unwrap();
    assert_eq!((second.keys, second.options.unwrap().name.as_deref()), (doc! { "a": 1 }, Some("a_1")));
    assert!(listed.is_exhausted());
}

#[test]
fn indexes_survive_a_reopen() {
    let Fixture { client, things: first, scratch } = Fixture::with([doc! { "_id": 1, "a": [1, 2] }]);
    first.create_index(unique(doc! { "a": 1 })).run().unwrap();
    drop(first);
    client.close().unwrap();
    let client = scratch.open();
    refused(things(&client).insert_one(doc! { "a": 2.0 }).run(), 11000, "{ a: 2.0 }");
    things(&client).insert_one(doc! { "a": 3 }).run().unwrap();
    let report = client.verify().unwrap();
    assert!(report.is_clean() && (report.indexes, report.entries) == (1, 3), "{report:?}");
}

#[test]
fn replacements_and_deletes_move_entries() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": [1, 2] }, doc! { "_id": 2, "a": 3 }]);
    fixture.things.create_index(unique(doc! { "a": 1 })).run().unwrap();
    fixture.things.replace_one(doc! { "_id": 1 }, doc! { "a": [2, 4] }).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 3, "a": 1 }).run().unwrap();
    refused(fixture.things.insert_one(doc! { "a": 4 }).run(), 11000, "{ a: 4 }");
    fixture.things.delete_one(doc! { "_id": 1 }).run().unwrap();
    fixture.things.insert_one(doc! { "_id": 4, "a": [2, 4] }).run().unwrap();
    assert_eq!(fixture.client.verify().unwrap().entries, 4);
    fixture.verify_clean();
}

#[test]
fn a_large_build_is_more_than_one_commit() {
    let fixture = Fixture::with((0..40_000).map(|id| doc! { "_id": id, "k": id, "pad": "0123456789" }));
    fixture.things.create_index(unique(doc! { "k": 1, "pad": 1 })).run().unwrap();
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && report.entries == 40_000, "{report:?}");
    fixture.things.insert_one(doc! { "_id": 40_000, "k": 0, "pad": "" }).run().unwrap();
    refused(fixture.things.create_index(unique(doc! { "k": 1 })).run(), 11000, "{ k: 0 }");
    let report = fixture.client.verify().unwrap();
    assert!(report.is_clean() && report.entries == 40_001, "{report:?}");
}

// Patterns were compared as documents without an order: the pattern of one index dropped the other.
#[test]
fn a_pattern_names_the_index_with_its_order_of_fields() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let index = |keys: Document, name: &str| doc! { "key": keys, "name": name };
    let indexes = [index(doc! { "a": 1, "b": 1 }, "ab"), index(doc! { "b": 1, "a": 1 }, "ba")];
    db.run_command(doc! { "createIndexes": "a", "indexes": indexes.to_vec() }).run().unwrap();
    db.run_command(doc! { "dropIndexes": "a", "index": { "b": 1.0, "a": 1_i64 } }).run().unwrap();
    let names = db.collection::<Document>("a").list_index_names().run().unwrap();
    assert_eq!(names, ["_id_", "ab"]);
    refused(
        db.run_command(doc! { "dropIndexes": "a", "index": { "b": 1, "a": 1 } }).run(),
        27,
        "can't find index",
    );
}
