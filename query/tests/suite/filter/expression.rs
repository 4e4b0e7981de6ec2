//! `$expr`: expressions in filters.

use bson::{Document, RawBsonRef, doc, rawdoc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::{Arrays, Filter};

use crate::filter::raw;

fn variables() -> Variables {
    Variables::default().with_let(&rawdoc! { "limit": 10 }).expect("constant variables")
}

#[track_caller]
fn check(filter: impl Into<Document>, matching: &[Document], other: &[Document]) {
    let filter = filter.into();
    let parsed = Filter::parse_with(&raw(&filter), &variables()).expect("a filter");
    assert!(parsed.has_expression());
    for (documents, expected) in [(matching, true), (other, false)] {
        for document in documents {
            let is_match = parsed.try_matches(&raw(document), &variables()).expect("an answer");
            assert_eq!(is_match, expected, "{filter} on {document}");
        }
    }
}

#[track_caller]
fn check_refused(filter: impl Into<Document>, code: i32) {
    let filter = filter.into();
    let error = Filter::parse_with(&raw(&filter), &variables()).expect_err("refused");
    assert_eq!(error.code(), code, "{filter}: {error}");
}

#[test]
fn expressions_compare_fields_with_each_other() {
    let filter = doc! { "$expr": { "$gt": ["$spent", "$budget"] } };
    check(
        filter,
        &[doc! { "spent": 5, "budget": 4 }, doc! { "spent": 1 }],
        &[doc! { "spent": 4, "budget": 4 }, doc! {}],
    );
    check(doc! { "$expr": "$a" }, &[doc! { "a": 1 }, doc! { "a": "" }], &[doc! { "a": 0 }, doc! {}]);
    check(doc! { "$expr": { "$lt": ["$a", "$$limit"] } }, &[doc! { "a": 9 }], &[doc! { "a": 10 }]);
}

#[test]
fn expressions_combine_with_other_clauses() {
    let expression = doc! { "$expr": { "$eq": ["$a", "$b"] } };
    let mut beside = expression.clone();
    beside.insert("c", 1);
    check(
        beside,
        &[doc! { "a": 1, "b": 1, "c": 1 }],
        &[doc! { "a": 1, "b": 1 }, doc! { "a": 1, "b": 2, "c": 1 }],
    );
    let inside = doc! { "$or": [{ "c": 1 }, { "$and": [expression.clone()] }] };
    check(inside, &[doc! { "c": 1, "a": 1 }, doc! { "a": 1, "b": 1 }], &[doc! { "a": 1 }]);
    check(doc! { "$nor": [expression] }, &[doc! { "a": 1 }], &[doc! { "a": 1, "b": 1 }]);
}

#[test]
fn an_expression_that_fails_is_an_error_only_if_it_is_evaluated() {
    let filter = doc! { "a": 1, "$expr": { "$divide": [1, "$zero"] } };
    let filter = Filter::parse_with(&raw(&filter), &variables()).expect("a filter");
    let error = filter.try_matches(&rawdoc! { "a": 1, "zero": 0 }, &variables()).expect_err("no answer");
    assert_eq!((error.code().number(), error.operator(), error.path()), (2, Some("$expr"), ""));
    assert!(!filter.try_matches(&rawdoc! { "a": 2, "zero": 0 }, &variables()).expect("an answer"));
}

#[test]
fn expressions_need_variables_and_a_whole_document() {
    let refused = Filter::parse(&rawdoc! { "$expr": true }).expect_err("refused");
    assert_eq!(
        (refused.code().number(), refused.to_string().as_str()),
        (238, "operator $expr is not supported")
    );
    check_refused(doc! { "a": { "$elemMatch": { "$expr": true } } }, 2);
    check_refused(doc! { "a": { "$elemMatch": { "$or": [{ "$expr": true }] } } }, 2);
    check_refused(doc! { "a": { "$expr": true } }, 2);
    check_refused(doc! { "$expr": { "$nothing": 1 } }, 168);
    check_refused(doc! { "$expr": "$$nothing" }, 17_276);
}

#[test]
fn filters_without_expressions_are_as_before() {
    let filter = Filter::parse_with(&rawdoc! { "a": { "$gt": 1 } }, &variables()).expect("a filter");
    assert!(!filter.has_expression());
    assert!(filter.matches(&rawdoc! { "a": 2 }));
    assert!(filter.try_matches(&rawdoc! { "a": 2 }, &variables()).expect("an answer"));
}

#[test]
fn expressions_give_bounds_beside_those_of_other_clauses() {
    let filter = rawdoc! { "$expr": { "$lt": ["$a", "$$limit"] }, "b": 2 };
    let filter = Filter::parse_with(&filter, &variables()).expect("a filter");
    assert!(!filter.intervals("a", Arrays::Absent).contains(RawBsonRef::Int32(10)));
    assert!(!filter.intervals("b", Arrays::Absent).contains(RawBsonRef::Int32(3)));
}

#[test]
fn an_equality_is_made_without_a_document() {
    let filter = Filter::equality("city", RawBsonRef::String("Oslo"), &variables()).expect("a filter");
    assert!(filter.matches(&raw(&doc! { "city": ["Oslo", "Rome"] })));
    assert!(!filter.matches(&raw(&doc! { "city": "Rome" })));
}

#[cfg(feature = "collation")]
#[test]
fn a_collation_compares_the_texts_of_a_filter() {
    let english = rawdoc! { "locale": "en", "strength": 2 };
    let english = index::collation::Collation::parse(&english).expect("a collation");
    let filter = Filter::parse_collated(&rawdoc! { "city": "oslo" }, &english).expect("a filter");
    assert!(filter.matches(&rawdoc! { "city": "Oslo" }));
    assert!(!filter.matches(&rawdoc! { "city": "Rome" }));
}
