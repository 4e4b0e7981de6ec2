//! `replace_one`, with and without upsert.

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{IndexModel, IndexOptions};

use crate::{Fixture, refused};

fn three() -> Fixture {
    let fixture = Fixture::with([
        doc! { "_id": 1, "k": "a" },
        doc! { "_id": 2, "k": "b" },
        doc! { "_id": 3, "k": "c" },
    ]);
    let unique = IndexOptions::builder().unique(true).build();
    let by_k = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    fixture.things.create_index(by_k).run().expect("an index");
    fixture
}

/// Replaces without upsert: matched, modified, and what is under `_id` 2 then.
#[track_caller]
fn check(filter: Document, replacement: Document, counts: (u64, u64), second: Document) {
    let fixture = three();
    let result = fixture.things.replace_one(filter, replacement).run().expect("a replacement");
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (counts.0, counts.1, None));
    assert_eq!(fixture.things.find_one(doc! { "_id": 2 }).run().expect("a read"), Some(second));
    assert_eq!(fixture.stored().len(), 3);
    fixture.verify_clean();
}

/// Replaces with upsert where nothing matches.
#[track_caller]
fn upserted(filter: Document, replacement: Document, expected: Document) {
    let fixture = three();
    let result = fixture.things.replace_one(filter, replacement).upsert(true).run().expect("an upsert");
    assert_eq!((result.matched_count, result.modified_count), (0, 0));
    assert_eq!(result.upserted_id.as_ref(), expected.get("_id"));
    assert!(fixture.stored().contains(&expected), "{:?}", fixture.stored());
    fixture.verify_clean();
}

#[test]
fn the_first_match_is_replaced_and_keeps_its_id() {
    check(doc! { "_id": 2 }, doc! { "x": 1 }, (1, 1), doc! { "_id": 2, "x": 1 });
    check(doc! { "k": "b" }, doc! { "k": "z", "_id": 2 }, (1, 1), doc! { "_id": 2, "k": "z" });
    check(doc! { "_id": { "$gt": 1 } }, doc! {}, (1, 1), doc! { "_id": 2 });
    check(doc! { "_id": 9 }, doc! { "x": 1 }, (0, 0), doc! { "_id": 2, "k": "b" });
}

#[test]
fn the_same_document_is_matched_but_not_modified() {
    check(doc! { "_id": 2 }, doc! { "k": "b" }, (1, 0), doc! { "_id": 2, "k": "b" });
    check(doc! { "_id": 2 }, doc! { "k": "b", "_id": 2 }, (1, 0), doc! { "_id": 2, "k": "b" });
}

#[test]
fn the_stored_id_keeps_its_type() {
    check(doc! { "_id": 2 }, doc! { "_id": 2.0, "x": 1 }, (1, 1), doc! { "_id": 2, "x": 1 });
}

#[test]
fn an_equal_number_of_another_type_is_a_change() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    fixture.things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().unwrap();
    let result = fixture.things.replace_one(doc! { "_id": 1 }, doc! { "a": 1.0 }).run().unwrap();
    assert_eq!((result.matched_count, result.modified_count), (1, 1));
    assert_eq!(fixture.stored()[0].get("a"), Some(&Bson::Double(1.0)));
    fixture.verify_clean();
}

#[test]
fn another_id_is_refused() {
    let fixture = three();
    refused(fixture.things.replace_one(doc! { "_id": 2 }, doc! { "_id": 9 }).run(), 66, "_id: 9");
    refused(fixture.things.replace_one(doc! { "k": "b" }, doc! { "_id": "2" }).run(), 66, "immutable");
    let upsert = fixture.things.replace_one(doc! { "_id": 8 }, doc! { "_id": 9 }).upsert(true);
    refused(upsert.run(), 66, "_id: 9");
    assert_eq!(fixture.stored().len(), 3);
}

#[test]
fn operators_are_no_replacement() {
    let fixture = three();
    refused(fixture.things.replace_one(doc! {}, doc! { "$set": { "a": 1 } }).run(), 52, "$set");
    refused(fixture.things.replace_one(doc! {}, doc! { "a": 1, "$b": 1 }).upsert(true).run(), 52, "$b");
    fixture.things.replace_one(doc! { "_id": 2 }, doc! { "a": { "$b": 1 }, "c.d": 1 }).run().unwrap();
    assert_eq!(fixture.stored()[1], doc! { "_id": 2, "a": { "$b": 1 }, "c.d": 1 });
}

#[test]
fn a_replacement_may_not_take_a_unique_key() {
    let fixture = three();
    let refusal = fixture.things.replace_one(doc! { "_id": 2 }, doc! { "k": "c" }).run();
    refused(refusal, 11000, "index: k_1 dup key: { k: \"c\" }");
    assert_eq!(fixture.stored()[1], doc! { "_id": 2, "k": "b" });
    fixture.verify_clean();
}

#[test]
fn an_upsert_replaces_what_matches() {
    let fixture = three();
    let result = fixture.things.replace_one(doc! { "_id": 2 }, doc! { "x": 1 }).upsert(true).run().unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (1, 1, None));
    assert_eq!(fixture.stored().len(), 3);
}

#[test]
fn an_upsert_inserts_under_the_id_of_the_filter() {
    upserted(doc! { "_id": 9 }, doc! { "k": "z" }, doc! { "_id": 9, "k": "z" });
    upserted(doc! { "_id": { "$eq": "x" } }, doc! { "k": "z" }, doc! { "_id": "x", "k": "z" });
    upserted(doc! { "_id": 9, "k": "q" }, doc! { "x": 1 }, doc! { "_id": 9, "x": 1 });
    upserted(doc! { "_id": null }, doc! { "x": 1 }, doc! { "_id": null, "x": 1 });
    upserted(doc! { "k": "q" }, doc! { "x": 1, "_id": 9 }, doc! { "_id": 9, "x": 1 });
    upserted(doc! { "_id": { "y": 1 } }, doc! { "x": 1 }, doc! { "_id": { "y": 1 }, "x": 1 });
}

#[test]
fn an_upsert_without_any_id_makes_one() {
    let fixture = three();
    let result = fixture.things.replace_one(doc! { "k": "q" }, doc! { "x": 1 }).upsert(true).run().unwrap();
    let id = result.upserted_id.unwrap();
    assert!(id.as_object_id().is_some());
    assert_eq!(fixture.things.find_one(doc! { "x": 1 }).run().unwrap(), Some(doc! { "_id": id, "x": 1 }));
}

#[test]
fn an_upsert_obeys_the_rules_of_an_insert() {
    let fixture = three();
    let upsert = |filter, replacement| fixture.things.replace_one(filter, replacement).upsert(true).run();
    refused(upsert(doc! { "_id": 9 }, doc! { "k": "a" }), 11000, "k_1");
    refused(upsert(doc! { "k": "q" }, doc! { "_id": bson!([1]) }), 53, "array");
    refused(upsert(doc! { "_id": { "$eq": { "$x": 1 } } }, doc! {}), 52, "$x");
    assert_eq!(fixture.stored().len(), 3);
}

#[test]
fn zero_timestamps_of_a_replacement_become_the_clock() {
    let zero = cairndb::bson::Timestamp { time: 0, increment: 0 };
    let fixture = three();
    fixture.things.replace_one(doc! { "_id": 2 }, doc! { "at": zero }).run().unwrap();
    assert!(fixture.stored()[1].get_timestamp("at").unwrap().time > 0);
}

#[test]
fn a_refused_upsert_makes_no_collection() {
    let fixture = Fixture::new();
    let absent = fixture.client.database("elsewhere").collection::<Document>("things");
    for filter in [doc! { "$bogus": 1 }, doc! { "_id.x": 1 }, doc! { "$and": [{ "_id": 1 }, { "_id": 2 }] }] {
        let refused = absent.replace_one(filter, doc! { "a": 1 }).upsert(true).run();
        assert!(refused.is_err());
    }
    let hint = cairndb::Hint::Name("none".to_owned());
    assert!(absent.replace_one(doc! {}, doc! { "a": 1 }).hint(hint).upsert(true).run().is_err());
    assert!(fixture.client.list_database_names().run().expect("names").is_empty());
}

#[test]
fn an_upsert_repeated_finds_its_own_document() {
    let fixture = Fixture::new();
    for filter in
        [doc! { "$and": [{ "_id": 5 }] }, doc! { "_id": { "$in": [6] } }, doc! { "$or": [{ "_id": 7 }] }]
    {
        for _ in 0..2 {
            fixture.things.replace_one(filter.clone(), doc! { "a": 1 }).upsert(true).run().expect("upserted");
        }
    }
    assert_eq!(fixture.stored(), [5, 6, 7].map(|id| doc! { "_id": id, "a": 1 }));
}
