//! Collations: texts compared by the rules of a language, by every verb.

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{Collation, CollationCaseFirst, CollationStrength, Hint, IndexModel, ReturnDocument};

use crate::{Fixture, refused};

/// English without a difference of case.
pub(crate) fn any_case() -> Collation {
    Collation::with_locale("en").strength(CollationStrength::Secondary)
}

pub(crate) fn words(words: &[&str]) -> Fixture {
    Fixture::with((0_i32..).zip(words).map(|(id, word)| doc! { "_id": id, "w": *word }))
}

pub(crate) fn ids(found: cairndb::Result<cairndb::Cursor<Document>>) -> Vec<i32> {
    found
        .expect("a cursor")
        .map(|found| found.expect("a document").get_i32("_id").expect("a number"))
        .collect()
}

fn found(fixture: &Fixture, filter: Document, collation: &Collation) -> Vec<i32> {
    ids(fixture.things.find(filter).collation(collation.clone()).run())
}

fn sorted(words: &[&str], collation: Collation) -> Vec<String> {
    let fixture = self::words(words);
    let found =
        fixture.things.find(doc! {}).sort(doc! { "w": 1 }).collation(collation).run().expect("a cursor");
    found.map(|found| found.expect("a document").get_str("w").expect("a text").to_owned()).collect()
}

#[test]
fn filters_compare_by_the_rules() {
    let fixture = Fixture::with([
        doc! { "_id": 0, "w": "Ada" },
        doc! { "_id": 1, "w": "ADA", "tags": ["Red", "blue"] },
        doc! { "_id": 2, "w": "bob", "in": { "a": "X" } },
        doc! { "_id": 3, "w": 5 },
    ]);
    let check = |filter: Document, expected: &[i32]| {
        assert_eq!(found(&fixture, filter.clone(), &any_case()), expected, "{filter}");
    };
    check(doc! { "w": "ada" }, &[0, 1]);
    check(doc! { "w": { "$ne": "ada" } }, &[2, 3]);
    check(doc! { "w": { "$in": ["BOB", 5] } }, &[2, 3]);
    check(doc! { "w": { "$nin": ["BOB", 5] } }, &[0, 1]);
    check(doc! { "w": { "$gt": "adA" } }, &[2]);
    check(doc! { "w": { "$gte": "adA", "$lt": "B" } }, &[0, 1]);
    check(doc! { "tags": { "$all": ["RED", "BLUE"] } }, &[1]);
    check(doc! { "tags": { "$elemMatch": { "$eq": "BLUE" } } }, &[1]);
    check(doc! { "tags": ["RED", "BLUE"] }, &[1]);
    check(doc! { "in": { "a": "x" } }, &[2]);
    // Names of fields are not texts.
    check(doc! { "in": { "A": "x" } }, &[]);
    check(doc! { "w": { "$regex": "^a" } }, &[]);
    check(doc! { "$expr": { "$eq": ["$w", "ada"] } }, &[0, 1]);
    check(doc! { "$expr": { "$in": ["RED", { "$ifNull": ["$tags", []] }] } }, &[1]);
    check(doc! { "w": { "$not": { "$eq": "ada" } } }, &[2, 3]);
    assert!(ids(fixture.things.find(doc! { "w": "ada" }).run()).is_empty());
}

#[test]
fn ids_are_found_by_the_rules() {
    let fixture = Fixture::with([
        doc! { "_id": "Ada" },
        doc! { "_id": "ada" },
        doc! { "_id": "bob" },
        doc! { "_id": 7 },
    ]);
    let count =
        |filter: Document| fixture.things.count_documents(filter).collation(any_case()).run().unwrap();
    assert_eq!(count(doc! { "_id": "ADA" }), 2);
    assert_eq!(count(doc! { "_id": { "$in": ["ADA", "BOB", 7] } }), 4);
    assert_eq!(count(doc! { "_id": { "$gt": "ADA" } }), 1);
    assert_eq!(count(doc! { "_id": 7 }), 1);
    let one = fixture.things.find_one(doc! { "_id": "BOB" }).collation(any_case()).run().unwrap();
    assert_eq!(one, Some(doc! { "_id": "bob" }));
    let order = fixture.things.find(doc! { "_id": { "$type": "string" } }).sort(doc! { "_id": -1 });
    let order: Vec<_> =
        order.collation(Collation::with_locale("en")).run().unwrap().map(Result::unwrap).collect();
    assert_eq!(order, [doc! { "_id": "bob" }, doc! { "_id": "Ada" }, doc! { "_id": "ada" }]);
}

#[test]
fn sorts_have_the_order_of_the_language() {
    let english = Collation::with_locale("en");
    assert_eq!(sorted(&["b", "a", "B", "A"], english.clone()), ["a", "A", "b", "B"]);
    assert_eq!(sorted(&["a", "A"], english.clone().case_first(CollationCaseFirst::Upper)), ["A", "a"]);
    assert_eq!(sorted(&["a10", "a2"], english.clone()), ["a10", "a2"]);
    assert_eq!(sorted(&["a10", "a2"], english.numeric_ordering(true)), ["a2", "a10"]);
    assert_eq!(sorted(&["z", "ö", "o"], Collation::with_locale("de")), ["o", "ö", "z"]);
    assert_eq!(sorted(&["z", "ö", "o"], Collation::with_locale("sv")), ["o", "z", "ö"]);
    let french = Collation::with_locale("fr").backwards(true);
    assert_eq!(sorted(&["côté", "coté", "côte", "cote"], french), ["cote", "côte", "coté", "côté"]);
}

#[test]
fn an_index_in_the_order_of_bytes_changes_no_answer() {
    let texts = ["Ada", "ada", "ÁDA", "bob", "Bob", "", "a-da", "zoe", "Z"];
    let plain = words(&texts);
    let indexed = words(&texts);
    for keys in [doc! { "w": 1 }, doc! { "w": 1, "_id": -1 }] {
        indexed.things.create_index(IndexModel::builder().keys(keys).build()).run().expect("an index");
    }
    for strength in [CollationStrength::Primary, CollationStrength::Secondary, CollationStrength::Tertiary] {
        let collation = Collation::with_locale("en").strength(strength);
        for filter in [
            doc! { "w": "ADA" },
            doc! { "w": { "$gte": "ADA", "$lt": "c" } },
            doc! { "w": { "$in": ["BOB", "Zoe"] } },
            doc! { "w": { "$ne": "ada" } },
            doc! { "w": { "$not": { "$lt": "B" } } },
            doc! { "$or": [{ "w": "BOB" }, { "w": "" }] },
            doc! { "w": { "$regex": "^A" } },
        ] {
            let of = |fixture: &Fixture| {
                let find = fixture.things.find(filter.clone()).sort(doc! { "w": 1, "_id": 1 });
                ids(find.collation(collation.clone()).run())
            };
            assert_eq!(of(&plain), of(&indexed), "{filter} {collation:?}");
            let hinted = indexed.things.find(filter.clone()).sort(doc! { "w": 1, "_id": 1 });
            let hinted = hinted.hint(Hint::Name("w_1".to_owned())).collation(collation.clone());
            assert_eq!(of(&plain), ids(hinted.run()), "{filter}");
            let count = |fixture: &Fixture| {
                fixture.things.count_documents(filter.clone()).collation(collation.clone()).run().unwrap()
            };
            assert_eq!(count(&plain), count(&indexed), "{filter}");
        }
        let values = |fixture: &Fixture| {
            fixture.things.distinct("w", doc! {}).collation(collation.clone()).run().unwrap().len()
        };
        assert_eq!(values(&plain), values(&indexed), "{collation:?}");
    }
}

#[test]
fn distinct_values_differ_by_the_rules() {
    let fixture = words(&["Ada", "ADA", "bob", "Bob"]);
    let values = fixture.things.distinct("w", doc! {}).collation(any_case()).run().unwrap();
    assert_eq!(values, [bson!("Ada"), bson!("bob")]);
}

#[test]
fn pipelines_compare_by_the_rules() {
    let fixture = Fixture::with([
        doc! { "_id": 0, "w": "Ada", "n": 1 },
        doc! { "_id": 1, "w": "ADA", "n": 2 },
        doc! { "_id": 2, "w": "bob", "n": 4 },
    ]);
    let check = |stages: Vec<Document>, expected: Bson| {
        let shown = format!("{stages:?}");
        let found = fixture.things.aggregate(stages).collation(any_case()).run().expect("a cursor");
        let found: Vec<Bson> = found.map(|found| Bson::Document(found.expect("a document"))).collect();
        assert_eq!(Bson::Array(found), expected, "{shown}");
    };
    check(
        vec![doc! { "$group": { "_id": "$w", "n": { "$sum": "$n" } } }],
        bson!([{ "_id": "Ada", "n": 3 }, { "_id": "bob", "n": 4 }]),
    );
    check(
        vec![
            doc! { "$group": { "_id": null, "set": { "$addToSet": "$w" }, "max": { "$max": "$w" }, "min": { "$min": "$w" } } },
        ],
        bson!([{ "_id": null, "set": ["Ada", "bob"], "max": "bob", "min": "Ada" }]),
    );
    check(vec![doc! { "$match": { "w": "ada" } }, doc! { "$count": "n" }], bson!([{ "n": 2 }]));
    check(
        vec![doc! { "$sort": { "w": -1, "_id": 1 } }, doc! { "$project": { "_id": 1 } }],
        bson!([{ "_id": 2 }, { "_id": 0 }, { "_id": 1 }]),
    );
    check(vec![doc! { "$sortByCount": "$w" }, doc! { "$limit": 1 }], bson!([{ "_id": "Ada", "count": 2 }]));
    check(
        vec![
            doc! { "$limit": 1 },
            doc! { "$project": { "_id": 0,
            "eq": { "$eq": ["a", "A"] }, "cmp": { "$cmp": ["a", "B"] }, "at": { "$indexOfArray": [["x", "A"], "a"] },
            "in": { "$in": ["a", ["A"]] }, "union": { "$setUnion": [["a"], ["A"]] },
            "same": { "$setEquals": [["a"], ["A"]] }, "top": { "$sortArray": { "input": ["b", "A"], "sortBy": 1 } },
            "case": { "$strcasecmp": ["é", "e"] }, "bytes": { "$indexOfBytes": ["xA", "a"] },
            "replaced": { "$replaceAll": { "input": "aA", "find": "a", "replacement": "-" } } } },
        ],
        bson!([{ "eq": true, "cmp": -1, "at": 1, "in": true, "union": ["a"], "same": true, "top": ["A", "b"],
            "case": 1, "bytes": -1, "replaced": "-A" }]),
    );
    check(
        vec![
            doc! { "$match": { "_id": 0 } },
            doc! { "$lookup": { "from": "things", "localField": "w", "foreignField": "w", "as": "same" } },
            doc! { "$project": { "same": { "$size": "$same" } } },
        ],
        bson!([{ "_id": 0, "same": 2 }]),
    );
    check(
        vec![doc! { "$bucket": { "groupBy": "$w", "boundaries": ["A", "B", "C"] } }],
        bson!([{ "_id": "A", "count": 2 }, { "_id": "B", "count": 1 }]),
    );
    check(
        vec![
            doc! { "$setWindowFields": { "partitionBy": "$w", "sortBy": { "_id": 1 },
            "output": { "n": { "$sum": "$n", "window": { "documents": ["unbounded", "unbounded"] } } } } },
            doc! { "$sort": { "_id": 1 } },
            doc! { "$project": { "n": 1 } },
        ],
        bson!([{ "_id": 0, "n": 3 }, { "_id": 1, "n": 3 }, { "_id": 2, "n": 4 }]),
    );
}

#[test]
fn writes_find_and_change_by_the_rules() {
    let fixture = words(&["Ada", "ADA", "bob"]);
    let things = &fixture.things;
    let updated = things.update_many(doc! { "w": "ada" }, doc! { "$set": { "seen": true } });
    assert_eq!(updated.collation(any_case()).run().unwrap().matched_count, 2);
    // A change that the rules do not see is a change all the same.
    let renamed = things.update_one(doc! { "w": "BOB" }, doc! { "$set": { "w": "Bob" } });
    assert_eq!(renamed.collation(any_case()).run().unwrap().modified_count, 1);
    let replaced = things.replace_one(doc! { "w": "BOB" }, doc! { "w": "BOB", "tags": ["Red", "blue"] });
    assert_eq!(replaced.collation(any_case()).run().unwrap().modified_count, 1);
    let change = |update: Document, expected: Bson| {
        let changed = things.find_one_and_update(doc! { "w": "bob" }, update.clone());
        let changed = changed.collation(any_case()).return_document(ReturnDocument::After).run().unwrap();
        assert_eq!(changed.expect("a document").get("tags"), Some(&expected), "{update}");
    };
    change(doc! { "$addToSet": { "tags": { "$each": ["RED", "green"] } } }, bson!(["Red", "blue", "green"]));
    change(doc! { "$pull": { "tags": "GREEN" } }, bson!(["Red", "blue"]));
    change(doc! { "$push": { "tags": { "$each": ["Azure"], "$sort": 1 } } }, bson!(["Azure", "blue", "Red"]));
    change(doc! { "$pullAll": { "tags": ["AZURE"] } }, bson!(["blue", "Red"]));
    change(doc! { "$pull": { "tags": { "$in": ["RED"] } } }, bson!(["blue"]));
    change(doc! { "$max": { "tags": "a" } }, bson!(["blue"]));
    let filtered = things.find_one_and_update(doc! { "w": "bob" }, doc! { "$set": { "tags.$[t]": "grey" } });
    let filtered = filtered.array_filters(vec![doc! { "t": "BLUE" }]).collation(any_case());
    let filtered = filtered.return_document(ReturnDocument::After).run().unwrap().expect("a document");
    assert_eq!(filtered.get("tags"), Some(&bson!(["grey"])));
    let positional = things.update_one(doc! { "tags": "GREY" }, doc! { "$set": { "tags.$": "white" } });
    assert_eq!(positional.collation(any_case()).run().unwrap().modified_count, 1);
    let deleted = things.find_one_and_delete(doc! { "w": "ada" }).sort(doc! { "_id": -1 });
    assert_eq!(deleted.collation(any_case()).run().unwrap().unwrap().get("_id"), Some(&bson!(1)));
    assert_eq!(things.delete_many(doc! { "w": "ada" }).collation(any_case()).run().unwrap().deleted_count, 1);
    let upserted = things.update_one(doc! { "w": "BOB" }, doc! { "$set": { "n": 1 } }).upsert(true);
    assert_eq!(upserted.collation(any_case()).run().unwrap().matched_count, 1);
    let upserted = things.update_one(doc! { "w": "Zoe" }, doc! { "$set": { "n": 1 } }).upsert(true);
    assert!(upserted.collation(any_case()).run().unwrap().upserted_id.is_some());
}

// A sort used to end at the `_id`, because no two documents share one. To a language they may.
#[test]
fn a_sort_goes_on_after_equal_ids() {
    let fixture = Fixture::with([doc! { "_id": "A", "n": 2 }, doc! { "_id": "a", "n": 1 }]);
    let find = fixture.things.find(doc! {}).sort(doc! { "_id": 1, "n": 1 }).collation(any_case());
    let order: Vec<_> = find.run().unwrap().map(|found| found.unwrap().get_i32("n").unwrap()).collect();
    assert_eq!(order, [1, 2]);
}

#[test]
fn a_view_keeps_its_collation() {
    let fixture = words(&["a", "A"]);
    let database = fixture.client.database("test");
    database
        .run_command(doc! { "create": "view", "viewOn": "things", "pipeline": [{ "$match": { "w": "a" } }] })
        .run()
        .unwrap();
    let view = database.collection::<Document>("view");
    assert_eq!(view.count_documents(doc! {}).collation(Collation::simple()).run().unwrap(), 1);
    refused(view.count_documents(doc! {}).collation(any_case()).run(), 167, "collation");
    refused(view.find(doc! {}).collation(any_case()).run().map(drop), 167, "collation");
    let lookup = doc! { "$lookup": { "from": "view", "localField": "w", "foreignField": "w", "as": "same" } };
    refused(fixture.things.aggregate([lookup]).collation(any_case()).run().map(drop), 167, "collation");
}

#[test]
fn commands_name_what_is_wrong() {
    let fixture = words(&["a", "A"]);
    let run = |collation: Document| {
        fixture
            .client
            .database("test")
            .run_command(doc! { "find": "things", "filter": { "w": "a" }, "collation": collation })
            .run()
    };
    let found = run(doc! { "locale": "en", "strength": 2 }).unwrap();
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch.len(), 2);
    for (collation, code, part) in [
        (doc! { "strength": 1 }, 40414, "locale"),
        (doc! { "locale": "en", "bogus": 1 }, 40415, "bogus"),
        (doc! { "locale": "elvish" }, 2, "elvish"),
        (doc! { "locale": "en", "strength": 9 }, 2, "9"),
        (doc! { "locale": "en", "caseLevel": "x" }, 14, "caseLevel"),
        (doc! { "locale": "en", "version": "1" }, 161, "57.1"),
        (doc! { "locale": "sv", "backwards": true }, 238, "backwards"),
    ] {
        refused(run(collation), code, part);
    }
    let database = fixture.client.database("test");
    let explained = database.run_command(doc! {
        "explain": { "find": "things", "filter": { "w": "a" }, "collation": { "locale": "fr" } },
    });
    let explained = explained.run().unwrap();
    let planner = explained.get_document("queryPlanner").unwrap();
    let told = planner.get_document("collation").unwrap();
    assert_eq!((told.get("locale"), told.get("strength")), (Some(&bson!("fr")), Some(&bson!(3))));
}
