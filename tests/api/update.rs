//! `update_one` and `update_many`: what is changed, what is counted, and what is rejected.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Collation, ErrorKind, Hint, IndexModel, IndexOptions, UpdateModifications};

use crate::{Fixture, refused};

fn three() -> Fixture {
    let fixture = Fixture::with([
        doc! { "_id": 1, "k": "a", "n": 10, "tags": [1, 2] },
        doc! { "_id": 2, "k": "b", "n": 20, "tags": [2, 3] },
        doc! { "_id": 3, "k": "c", "n": 30, "tags": [] },
    ]);
    let unique = IndexOptions::builder().unique(true).build();
    let by_k = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    fixture.things.create_index(by_k).run().expect("an index");
    fixture
        .things
        .create_index(IndexModel::builder().keys(doc! { "tags": 1 }).build())
        .run()
        .expect("an index");
    fixture
}

/// Updates one: matched, modified, and what of `n` is in the documents then.
#[track_caller]
fn check(filter: Document, update: impl Into<UpdateModifications>, counts: (u64, u64), numbers: [i32; 3]) {
    check_all(three(), filter, update, (counts, numbers));
}

#[track_caller]
fn check_all(
    fixture: Fixture,
    filter: Document,
    update: impl Into<UpdateModifications>,
    (counts, numbers): ((u64, u64), [i32; 3]),
) {
    let result = fixture.things.update_one(filter, update).run().expect("an update");
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (counts.0, counts.1, None));
    let stored: Vec<i32> =
        fixture.stored().iter().map(|document| document.get_i32("n").expect("it is there")).collect();
    assert_eq!(stored, numbers);
    fixture.verify_clean();
}

#[test]
fn the_first_match_is_changed() {
    let add = || doc! { "$inc": { "n": 1 } };
    check(doc! { "_id": 2 }, add(), (1, 1), [10, 21, 30]);
    check(doc! {}, add(), (1, 1), [11, 20, 30]);
    check(doc! { "_id": 2, "k": "b" }, add(), (1, 1), [10, 21, 30]);
    check(doc! { "_id": 2, "k": "a" }, add(), (0, 0), [10, 20, 30]);
    check(doc! { "_id": 9 }, add(), (0, 0), [10, 20, 30]);
    check(doc! { "n": { "$gt": 15 } }, add(), (1, 1), [10, 21, 30]);
    check(doc! { "$expr": { "$eq": ["$n", 30] } }, add(), (1, 1), [10, 20, 31]);
}

#[test]
fn a_change_that_changes_nothing_is_matched_but_not_modified() {
    check(doc! { "_id": 2 }, doc! { "$set": { "n": 20 } }, (1, 0), [10, 20, 30]);
    check(doc! { "n": 20 }, doc! { "$unset": { "missing": 1 } }, (1, 0), [10, 20, 30]);
    check(doc! { "_id": 2 }, doc! { "$set": {} }, (1, 0), [10, 20, 30]);
}

#[test]
fn a_pipeline_computes_from_the_document() {
    let twice = vec![doc! { "$set": { "n": { "$multiply": ["$n", 2] } } }];
    check(doc! { "_id": 3 }, twice, (1, 1), [10, 20, 60]);
}

#[test]
fn a_sort_decides_which_document_is_first() {
    let fixture = three();
    let last = fixture.things.update_one(doc! {}, doc! { "$set": { "n": 0 } }).sort(doc! { "n": -1 });
    assert_eq!(last.run().unwrap().modified_count, 1);
    assert_eq!(fixture.stored()[2].get_i32("n").ok(), Some(0));
    let last = fixture.things.update_one(doc! {}, doc! { "$set": { "n": 1 } }).sort(doc! { "_id": -1 });
    assert_eq!(last.run().unwrap().modified_count, 1);
    assert_eq!(fixture.stored()[2].get_i32("n").ok(), Some(1));
    let many = fixture.things.update_many(doc! {}, doc! { "$set": { "n": 0 } }).sort(doc! { "n": -1 });
    refused(many.run(), 9, "sort");
}

#[test]
fn the_positional_operators_name_elements() {
    let fixture = three();
    let update = |filter, update| fixture.things.update_one(filter, update).run();
    update(doc! { "tags": 2, "_id": 1 }, doc! { "$set": { "tags.$": 9 } }).expect("an update");
    assert_eq!(fixture.stored()[0].get_array("tags").unwrap(), &vec![Bson::from(1), Bson::from(9)]);
    let raised = fixture.things.update_many(doc! {}, doc! { "$inc": { "tags.$[large]": 100 } });
    raised.array_filters(vec![doc! { "large": { "$gt": 2 } }]).run().expect("an update");
    assert_eq!(fixture.stored()[1].get_array("tags").unwrap(), &vec![Bson::from(2), Bson::from(103)]);
    refused(update(doc! { "_id": 1 }, doc! { "$set": { "tags.$": 9 } }), 2, "");
    fixture.verify_clean();
}

#[test]
fn many_are_changed_once_each() {
    let fixture = Fixture::with((0..500).map(|id| doc! { "_id": id, "n": id }));
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().unwrap();
    // Every document moves to where the walk has not been yet.
    let result = fixture.things.update_many(doc! { "n": { "$gte": 100 } }, doc! { "$inc": { "n": 1000 } });
    let result = result.run().unwrap();
    assert_eq!((result.matched_count, result.modified_count), (400, 400));
    let stored = fixture.stored();
    assert!(stored.iter().all(|document| document.get_i32("n").unwrap() < 1500));
    let again = fixture.things.update_many(doc! {}, doc! { "$max": { "n": 1200 } }).run().unwrap();
    assert_eq!((again.matched_count, again.modified_count), (500, 200));
    fixture.verify_clean();
}

#[test]
fn an_error_ends_an_update_of_many_and_what_was_done_stays() {
    let fixture =
        Fixture::with([doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": "x" }, doc! { "_id": 3, "n": 3 }]);
    let error = fixture.things.update_many(doc! {}, doc! { "$inc": { "n": 1 } }).run();
    let error = refused(error, 14, "Cannot apply $inc to a value of non-numeric type");
    assert!(matches!(error.kind(), ErrorKind::Write(_)), "{error:?}");
    let stored = fixture.stored();
    assert_eq!((stored[0].get_i32("n").ok(), stored[2].get_i32("n").ok()), (Some(2), Some(3)));
}

#[test]
fn entries_follow_the_document() {
    let fixture = three();
    let things = &fixture.things;
    things
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "k": "z" }, "$push": { "tags": 7 } })
        .run()
        .unwrap();
    fixture.verify_clean();
    things.insert_one(doc! { "_id": 4, "k": "a" }).run().expect("the key was given up");
    refused(things.insert_one(doc! { "_id": 5, "k": "z" }).run(), 11000, "dup key: { k: \"z\" }");
    things.update_one(doc! { "_id": 2 }, doc! { "$unset": { "tags": 1 } }).run().unwrap();
    things.update_one(doc! { "_id": 2 }, doc! { "$set": { "tags": 1.0 } }).run().unwrap();
    things.update_one(doc! { "_id": 2 }, doc! { "$set": { "tags": 1_i64 } }).run().unwrap();
    fixture.verify_clean();
}

#[test]
fn a_taken_unique_key_is_refused() {
    let fixture = three();
    let taken = fixture.things.update_one(doc! { "_id": 2 }, doc! { "$set": { "k": "c", "n": 0 } }).run();
    refused(taken, 11000, "index: k_1 dup key: { k: \"c\" }");
    assert_eq!(fixture.stored()[1].get_i32("n").ok(), Some(20));
    let upsert =
        fixture.things.update_one(doc! { "_id": 9 }, doc! { "$set": { "k": "c" } }).upsert(true).run();
    refused(upsert, 11000, "index: k_1");
    fixture.verify_clean();
}

#[test]
fn the_id_stays() {
    let fixture = three();
    let update = |update| fixture.things.update_one(doc! { "_id": 2 }, update).run();
    refused(update(doc! { "$set": { "_id": 9 } }), 66, "_id");
    refused(update(doc! { "$unset": { "_id": 1 } }), 66, "_id");
    assert_eq!(update(doc! { "$set": { "_id": 2 } }).unwrap().modified_count, 0);
    let pipeline = fixture.things.update_one(doc! { "_id": 2 }, vec![doc! { "$set": { "_id": 9 } }]).run();
    refused(pipeline, 66, "_id");
}

#[test]
fn a_result_that_is_too_large_is_refused() {
    let fixture = Fixture::with([doc! { "_id": 1, "text": "x".repeat(9 << 20) }]);
    let more = doc! { "$set": { "more": "x".repeat(9 << 20) } };
    refused(fixture.things.update_one(doc! { "_id": 1 }, more).run(), 17419, "");
    assert!(!fixture.stored()[0].contains_key("more"));
}

#[test]
fn malformed_updates_are_refused_and_make_no_collection() {
    let fixture = Fixture::new();
    let absent = fixture.client.database("elsewhere").collection::<Document>("things");
    let upsert = |filter, update| absent.update_one(filter, update).upsert(true).run();
    refused(upsert(doc! {}, doc! { "a": 1 }), 9, "");
    refused(upsert(doc! {}, doc! { "$bogus": { "a": 1 } }), 9, "$bogus");
    refused(upsert(doc! { "$bogus": 1 }, doc! { "$set": { "a": 1 } }), 2, "$bogus");
    refused(upsert(doc! { "$expr": true }, doc! { "$set": { "a": 1 } }), 224, "$expr");
    refused(upsert(doc! { "a": 1, "a.b": 2 }, doc! { "$set": { "c": 1 } }), 54, "");
    refused(absent.replace_one(doc! { "_id.a": 1 }, doc! { "c": 1 }).upsert(true).run(), 111, "_id.a");
    refused(absent.update_one(doc! {}, vec![doc! { "$group": {} }]).run(), 72, "$group");
    let elvish = absent.update_one(doc! {}, doc! { "$set": { "a": 1 } });
    refused(elvish.collation(Collation::with_locale("elvish")).run(), 2, "'elvish'");
    let hinted = absent.update_one(doc! {}, doc! { "$set": { "a": 1 } }).hint(Hint::Name("none".to_owned()));
    refused(hinted.upsert(true).run(), 2, "none");
    assert!(fixture.client.list_database_names().run().expect("names").is_empty());
}

/// Upserts where nothing matches, and what is there then.
#[track_caller]
fn upserted(filter: Document, update: impl Into<UpdateModifications>, expected: Document) {
    let fixture = Fixture::new();
    let result = fixture.things.update_one(filter, update).upsert(true).run().expect("an upsert");
    assert_eq!((result.matched_count, result.modified_count), (0, 0));
    assert_eq!(result.upserted_id.as_ref(), expected.get("_id"));
    assert_eq!(fixture.stored(), [expected]);
}

#[test]
fn an_upsert_starts_from_the_equalities_of_the_filter() {
    let set = || doc! { "$set": { "s": 1 }, "$setOnInsert": { "i": 2 } };
    upserted(doc! { "_id": 5 }, set(), doc! { "_id": 5, "i": 2, "s": 1 });
    upserted(
        doc! { "a.b": 3, "_id": 5, "n": { "$gt": 1 } },
        set(),
        doc! { "_id": 5, "a": { "b": 3 }, "i": 2, "s": 1 },
    );
    upserted(doc! { "a": 1 }, doc! { "$set": { "_id": "x" } }, doc! { "_id": "x", "a": 1 });
    upserted(doc! { "_id": 5 }, doc! { "$inc": { "n": 2 } }, doc! { "_id": 5, "n": 2 });
    upserted(
        doc! { "_id": 5 },
        vec![doc! { "$set": { "n": { "$add": [1, 2] } } }],
        doc! { "_id": 5, "n": 3 },
    );
}

#[test]
fn an_upsert_without_an_id_makes_one() {
    let fixture = Fixture::new();
    let result =
        fixture.things.update_many(doc! { "a": 1 }, doc! { "$set": { "b": 2 } }).upsert(true).run().unwrap();
    let id = result.upserted_id.expect("an id");
    assert!(id.as_object_id().is_some());
    assert_eq!(fixture.stored(), [doc! { "_id": id, "a": 1, "b": 2 }]);
    let result =
        fixture.things.update_many(doc! { "a": 1 }, doc! { "$set": { "b": 3 } }).upsert(true).run().unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (1, 1, None));
}

#[test]
fn variables_of_let_are_seen_by_filters_and_pipelines() {
    let fixture = three();
    let pipeline = vec![doc! { "$set": { "n": "$$value" } }];
    let update = fixture.things.update_many(doc! { "$expr": { "$gt": ["$n", "$$limit"] } }, pipeline);
    let result = update.let_vars(doc! { "limit": 15, "value": 7 }).run().expect("an update");
    assert_eq!(result.modified_count, 2);
    assert_eq!(fixture.stored()[1].get_i32("n").ok(), Some(7));
}

/// An error of the query language that had a cause, such as the condition of a `$pull` that cannot be read, lost the cause on
/// its way out of the engine: the error said which update was malformed, and not by what.
#[test]
fn a_refusal_tells_what_caused_it() {
    let fixture = three();
    let pull =
        |condition: Document| fixture.things.update_one(doc! {}, doc! { "$pull": { "tags": condition } });
    refused(pull(doc! { "$foo": 1 }).run(), 2, "$foo");
    refused(pull(doc! { "$in": 1 }).run(), 2, "$in");
    refused(pull(doc! { "$expr": true }).run(), 224, "$expr");
}

/// After an update of many documents had failed, nothing said which of them it was.
#[test]
fn a_refusal_names_the_document() {
    let fixture =
        Fixture::with([doc! { "_id": 1, "n": 1, "a": [] }, doc! { "_id": { "k": "two" }, "n": "x", "a": 1 }]);
    let update = |update: Document| fixture.things.update_many(doc! {}, update).run();
    let named = "_id: { k: \"two\" }";
    refused(update(doc! { "$inc": { "n": 1 } }), 14, named);
    refused(update(doc! { "$mul": { "n": 2 } }), 14, named);
    refused(update(doc! { "$push": { "a": 1 } }), 2, named);
    refused(update(doc! { "$addToSet": { "a": 1 } }), 2, named);
    refused(update(doc! { "$pull": { "a": 1 } }), 2, named);
    refused(update(doc! { "$pop": { "a": 1 } }), 14, named);
    refused(update(doc! { "$bit": { "n": { "or": 1 } } }), 2, named);
    refused(update(doc! { "$set": { "n.x": 1 } }), 28, "_id: 1 }");
    let long = "x".repeat(1000);
    fixture.things.insert_one(doc! { "_id": &long, "b": "x" }).run().expect("an insert");
    let error = fixture.things.update_one(doc! { "b": "x" }, doc! { "$inc": { "b": 1 } }).run();
    let error = refused(error, 14, "_id: \"xxxx");
    assert!(error.to_string().chars().count() < 400, "{error}");
}
