//! The values that a filter can match: a superset of those that it matches.

use bson::{Bson, Document, bson, doc};
use cairndb_query::filter::Arrays;
use index::extract::{ExtractedKeys, extract};
use index::range::key_ranges;
use index::spec::{IndexSpec, SpecOptions};
use proptest::prelude::*;

use crate::filter::model::{document, filter, path};
use crate::filter::{decimal, parse, raw, regex};

#[track_caller]
fn check_in(filter: &Document, arrays: Arrays, inside: &[Bson], outside: &[Bson]) {
    let set = parse(filter).intervals("a", arrays);
    for (values, expected) in [(inside, true), (outside, false)] {
        for value in values {
            let owned = bson::RawBson::try_from(value.clone()).expect("a value that can be written");
            assert_eq!(set.contains(owned.as_raw_bson_ref()), expected, "{value} for {filter}");
        }
    }
}

#[track_caller]
fn check(condition: impl Into<Bson>, inside: &[Bson], outside: &[Bson]) {
    let filter = doc! { "a": condition.into() };
    check_in(&filter, Arrays::Absent, inside, outside);
    check_in(&filter, Arrays::Possible, inside, outside);
}

#[test]
fn equality_is_a_point() {
    check(5, &[bson!(5), bson!(5.0), decimal("5")], &[bson!(4), bson!(6), bson!("5"), Bson::Null]);
    assert!(parse(&doc! { "a": 5 }).intervals("a", Arrays::Absent).is_points());
}

#[test]
fn null_stands_for_missing_and_undefined() {
    for condition in [Bson::Null, bson!({ "$gte": null }), bson!({ "$in": [null, 5] })] {
        check(condition, &[Bson::Null, Bson::Undefined], &[bson!(0), Bson::MinKey]);
    }
    check(doc! { "$gt": null }, &[], &[Bson::Null, Bson::Undefined, bson!(0)]);
}

#[test]
fn relations_stay_within_their_class() {
    check(doc! { "$gt": 5 }, &[bson!(6), bson!(f64::INFINITY)], &[bson!(5), bson!("6"), bson!(f64::NAN)]);
    check(doc! { "$lte": "m" }, &[bson!("m"), bson!("")], &[bson!("n"), bson!(5)]);
    check(doc! { "$gte": Bson::MinKey }, &[Bson::MinKey, Bson::Null, bson!("x"), Bson::MaxKey], &[]);
}

#[test]
fn sets_are_the_points_of_their_members() {
    check(doc! { "$in": [3, 1, 1.0, "x"] }, &[bson!(1), bson!(3), bson!("x")], &[bson!(2), bson!("y")]);
    check(doc! { "$in": [] }, &[], &[bson!(1), Bson::Null]);
}

#[test]
fn patterns_with_a_fixed_start_are_narrow() {
    check(regex("^ab", ""), &[bson!("ab"), bson!("abz")], &[bson!("ac"), bson!("a"), bson!("AB"), bson!(1)]);
    check(regex("^ab", "i"), &[bson!("ab"), bson!("AB"), bson!("zz")], &[bson!(1)]);
    check(regex("^ab*", ""), &[bson!("a"), bson!("ac"), bson!("abb")], &[bson!("b")]);
    check(regex("^a|b", ""), &[bson!("a"), bson!("b")], &[bson!(1)]);
    check(regex("^ab", ""), &[regex("^ab", "")], &[regex("^ac", "")]);
    check(regex("^\u{10ffff}", ""), &[bson!("\u{10ffff}x")], &[bson!("a")]);
    check(regex("^a\u{d7ff}", ""), &[bson!("a\u{d7ff}x")], &[bson!("a\u{e000}"), bson!("b")]);
}

#[test]
fn conditions_narrow_together_if_arrays_are_absent() {
    let filter = doc! { "a": { "$gt": 5, "$lt": 9 }, "b": 1 };
    check_in(&filter, Arrays::Absent, &[bson!(6)], &[bson!(5), bson!(9), bson!(100)]);
    let wide = parse(&filter).intervals("a", Arrays::Possible);
    assert_eq!(wide.as_slice().len(), 1);
    assert!(!wide.is_all());
}

#[test]
fn the_narrowest_condition_is_taken_if_arrays_are_possible() {
    let filter = doc! { "a": { "$gt": 0, "$in": [3, 4], "$eq": 9 } };
    check_in(&filter, Arrays::Possible, &[bson!(9)], &[bson!(3), bson!(1)]);
    check_in(&filter, Arrays::Absent, &[], &[bson!(9), bson!(3)]);
}

#[test]
fn alternatives_are_joined() {
    check_in(
        &doc! { "$or": [{ "a": 1 }, { "a": { "$gt": 8 } }] },
        Arrays::Absent,
        &[bson!(1), bson!(9)],
        &[bson!(5)],
    );
    check_in(&doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, Arrays::Absent, &[bson!(1), bson!("x")], &[]);
    check_in(&doc! { "$alwaysFalse": 1 }, Arrays::Absent, &[], &[bson!(1)]);
}

#[test]
fn other_conditions_give_all_values() {
    for condition in [
        bson!({ "$ne": null }),
        bson!({ "$exists": true }),
        bson!({ "$size": 1 }),
        bson!({ "$not": { "$type": "number" } }),
    ] {
        assert!(parse(&doc! { "a": condition }).intervals("a", Arrays::Possible).is_all());
    }
    assert!(parse(&doc! { "a": 1 }).intervals("a.b", Arrays::Absent).is_all());
    assert!(parse(&doc! {}).intervals("a", Arrays::Possible).is_all());
}

#[test]
fn an_index_holds_no_whole_arrays() {
    let is_all = |filter: Document| parse(&filter).intervals("a", Arrays::Possible).is_all();
    assert!(is_all(doc! { "a": { "$gt": [1] } }) && is_all(doc! { "a": { "$type": "array" } }));
    // An array is found by its first element, unless it is itself an element of another one.
    check_in(&doc! { "a": [1] }, Arrays::Possible, &[bson!(1), bson!([1])], &[bson!(2), Bson::Undefined]);
    check_in(&doc! { "a": { "$in": [1, []] } }, Arrays::Possible, &[bson!(1), Bson::Undefined], &[bson!(2)]);
    check_in(&doc! { "a": [1] }, Arrays::Absent, &[bson!([1])], &[bson!(1), bson!([])]);
}

/// Two or three conditions on one field that holds numbers, or arrays of them.
fn narrow() -> impl Strategy<Value = (Document, Vec<Document>)> {
    let relation = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne"]);
    let condition = (relation, 0..6_i32).prop_map(|(relation, number)| match relation {
        "$in" => doc! { "a": { "$in": [number, number + 2] } },
        relation => doc! { "a": { relation: number } },
    });
    let filter = prop::collection::vec(condition, 2..4).prop_map(|parts| doc! { "$and": parts });
    let number = || (0..6_i32).prop_map(Bson::from);
    let value = prop_oneof![number(), prop::collection::vec(number(), 0..4).prop_map(Bson::Array)];
    (filter, prop::collection::vec(value.prop_map(|value| doc! { "a": value }), 32))
}

/// Checks that a scan of the ranges that the filter gives for an index on `path` finds every match.
fn check_scan(filter: &Document, path: &str, documents: &[Document]) -> Result<(), TestCaseError> {
    let spec = IndexSpec::parse(&raw(&doc! { path: 1 }), SpecOptions::default()).expect("an index");
    let parsed = parse(filter);
    for document in documents.iter().filter(|document| parsed.matches(&raw(document))) {
        let mut keys = ExtractedKeys::default();
        // Some documents cannot be indexed on a path with a position.
        if extract(&spec, &raw(document), &mut keys).is_err() {
            continue;
        }
        let absent = (!keys.is_multikey()).then_some(Arrays::Absent);
        for arrays in [Some(Arrays::Possible), absent].into_iter().flatten() {
            let ranges = key_ranges(&spec, &[parsed.intervals(path, arrays)]);
            let is_found = keys.iter().any(|(key, _)| ranges.iter().any(|range| range.contains(key)));
            prop_assert!(is_found, "{filter} on {document} by {path} {arrays:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_index_scan_misses_no_match(
        filter in filter(),
        path in path(),
        documents in prop::collection::vec(document(), 64),
    ) {
        check_scan(&filter, &path, &documents)?;
    }

    #[test]
    fn a_scan_of_narrow_ranges_misses_no_match((filter, documents) in narrow()) {
        check_scan(&filter, "a", &documents)?;
    }
}
