//! The document that an upsert starts from.

use bson::{Bson, Document, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::update::{Phase, Update, UpsertStart, upsert_base};

use crate::update::{context, filter, raw};

#[track_caller]
fn check(query: &Document, expected: &Document) {
    let base = upsert_base(&filter(query), UpsertStart::Update).expect("a document");
    assert_eq!(base, raw(expected), "{query}");
}

#[track_caller]
fn check_error(query: &Document, start: UpsertStart, code: i32, text: &str) {
    let error = upsert_base(&filter(query), start).expect_err("a query that is refused");
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text), "{query}");
}

#[test]
fn equalities_become_fields() {
    check(&doc! {}, &doc! {});
    check(&doc! { "b": 1, "a": "x", "_id": 7 }, &doc! { "_id": 7, "a": "x", "b": 1 });
    check(&doc! { "a.c": 1, "a.b": { "$eq": [1, 2] } }, &doc! { "a": { "b": [1, 2], "c": 1 } });
    check(&doc! { "a.0": 1 }, &doc! { "a": { "0": 1 } });
    check(
        &doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": 2 }] }], "c": { "$in": [3] } },
        &doc! { "a": 1, "b": 2, "c": 3 },
    );
    check(&doc! { "a": { "b": 1 }, "c": (Bson::Null) }, &doc! { "a": { "b": 1 }, "c": (Bson::Null) });
    check(&doc! { "a": { "$all": [1] } }, &doc! { "a": 1 });
}

#[test]
fn other_conditions_leave_no_field() {
    check(&doc! { "a": { "$gt": 1 }, "b": { "$in": [1, 2] }, "$or": [{ "c": 1 }, { "d": 1 }] }, &doc! {});
    check(
        &doc! { "$nor": [{ "a": 1 }], "b": { "$exists": true }, "c": { "$elemMatch": { "d": 1 } } },
        &doc! {},
    );
}

#[test]
fn a_replacement_takes_the_id_only() {
    let base = upsert_base(&filter(&doc! { "a": 1, "_id": { "x": 1 } }), UpsertStart::Replacement);
    assert_eq!(base, Ok(raw(&doc! { "_id": { "x": 1 } })));
    let base = upsert_base(&filter(&doc! { "a": 1, "a.b": 2 }), UpsertStart::Replacement);
    assert_eq!(base, Ok(raw(&doc! {})));
}

#[test]
fn a_field_has_one_value() {
    let update = UpsertStart::Update;
    let text = "cannot infer query fields to set, path 'a' is matched twice";
    check_error(&doc! { "$and": [{ "a": 1 }, { "a": 2 }] }, update, 54, text);
    check_error(&doc! { "a": { "$all": [1, 2] } }, update, 54, text);
    let text = "cannot infer query fields to set, both paths 'a.b' and 'a' are matched";
    check_error(&doc! { "a": 1, "a.b": 2 }, update, 54, text);
    check_error(&doc! { "a.b": 1, "a": 2 }, update, 54, text);
    let text = "the field '_id' must be exactly specified, and the query gives its part '_id.x'";
    let parts = upsert_base(&filter(&doc! { "_id.x": 1, "_id.y": 2 }), update);
    assert_eq!(parts, Ok(raw(&doc! { "_id": { "x": 1, "y": 2 } })));
    check_error(&doc! { "_id.x": 1 }, UpsertStart::Replacement, 111, text);
    check_error(
        &doc! { "_id": 1, "$and": [{ "_id": 2 }] },
        UpsertStart::Replacement,
        54,
        "cannot infer query fields to set, path '_id' is matched twice",
    );
}

#[test]
fn expressions_have_no_place_in_an_upsert() {
    let query = raw(&doc! { "a": 1, "$expr": { "$gt": ["$a", 0] } });
    let query = Filter::parse_with(&query, &Variables::default()).unwrap();
    for start in [UpsertStart::Update, UpsertStart::Replacement] {
        assert_eq!(upsert_base(&query, start).map_err(|error| error.code().number()), Err(224));
    }
}

#[test]
fn paths_that_are_too_long_are_refused() {
    check_error(
        &doc! { vec!["a"; 181].join("."): 1 },
        UpsertStart::Update,
        15,
        "the updated document would have more than 180 levels",
    );
    let names = vec![""; 100_000].join(".");
    check_error(
        &doc! { names: 1 },
        UpsertStart::Update,
        15,
        "the updated document would have more than 180 levels",
    );
}

#[test]
fn an_update_completes_the_document() {
    let base = upsert_base(&filter(&doc! { "_id": 1, "n": 5 }), UpsertStart::Update).unwrap();
    let update = doc! { "$inc": { "n": 1 }, "$setOnInsert": { "new": true }, "$set": { "_id": 1 } };
    let parsed = Update::parse(&raw(&update), &[]).unwrap();
    let inserted = parsed.apply(&base, &context(Phase::Insert)).unwrap();
    assert_eq!(inserted, Some(raw(&doc! { "_id": 1, "n": 6, "new": true })));
    let update = Update::parse(&raw(&doc! { "$set": { "_id": 2 } }), &[]).unwrap();
    assert_eq!(update.apply(&base, &context(Phase::Insert)).map_err(|error| error.code().number()), Err(66));
}
