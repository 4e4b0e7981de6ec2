//! The conditions of `$expr` on single fields: bounds that lose no match, and those that are expected.

use bson::{Bson, Document, RawBson, RawBsonRef, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::filter::entries::{EntryBounds, IndexedField};
use index::collation::SIMPLE;
use index::interval::Intervals;
use index::multikey::ArrayComponents;
use index::path::FieldPath;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::filter::entries::{check_found_with, dense_document, dense_fields, dense_path, fields};
use crate::filter::model::{document, path, value};
use crate::filter::{binary, decimal, raw, regex};

/// A path as an expression names it.
fn named(path: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (path, select(vec!["$", "$", "$", "$$ROOT.", "$$CURRENT."]))
        .prop_map(|(path, start)| format!("{start}{path}"))
}

/// An operand: a value as it is, a variable with a value, or one without.
fn operand(value: impl Strategy<Value = Bson>) -> impl Strategy<Value = Bson> {
    prop_oneof![
        8 => value.prop_map(|value| bson!({ "$literal": value })),
        1 => Just(bson!("$$set")),
        1 => Just(bson!("$$unset")),
    ]
}

/// Expressions that compare a field with an operand, on either side, and `$and`s and `$or`s of them.
pub(crate) fn expression(
    path: impl Strategy<Value = String> + 'static,
    value: impl Strategy<Value = Bson> + 'static,
) -> impl Strategy<Value = Bson> {
    let (path, value) = (path.boxed(), value.boxed());
    let operators = select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne", "$cmp"]);
    let compared = (operators, named(path.clone()), operand(value.clone()), any::<bool>());
    let compared = compared.prop_map(|(operator, path, operand, is_left)| {
        bson!({ operator: if is_left { [bson!(path), operand] } else { [operand, bson!(path)] } })
    });
    let member = (named(path.clone()), vec(value, 0..4));
    let member = member.prop_map(|(path, list)| bson!({ "$in": [path, { "$literal": list }] }));
    let two = (named(path.clone()), named(path)).prop_map(|(left, right)| bson!({ "$lte": [left, right] }));
    let other = select(vec![bson!(true), bson!(false), bson!({ "$lt": [{ "$rand": {} }, 2] })]);
    prop_oneof![12 => compared, 3 => member, 1 => two, 1 => other].prop_recursive(3, 10, 3, |inner| {
        let clauses = select(vec!["$and", "$and", "$or", "$not"]);
        (clauses, vec(inner, 1..4)).prop_map(|(clause, mut parts)| {
            parts.truncate(if clause == "$not" { 1 } else { 4 });
            bson!({ clause: parts })
        })
    })
}

fn variables(set: &Bson) -> Variables {
    let set = RawBson::try_from(set.clone()).expect("a value that can be written");
    let variables = Variables::default().with("set", Some(set)).expect("a name");
    variables.with("unset", None).expect("a name")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_match_of_an_expression_has_an_entry_within_the_bounds(
        expression in expression(path(), value()),
        set in value(),
        fields in fields(),
        documents in vec(document(), 32),
        more in (0..8_u64).prop_map(ArrayComponents::from_bits),
    ) {
        check_found_with(&doc! { "$expr": expression }, &variables(&set), &fields, &documents, more)?;
    }

    #[test]
    fn expressions_on_paths_that_share_arrays_lose_no_match(
        (first, second) in (expression(dense_path(), value()), expression(dense_path(), value())),
        set in value(),
        fields in dense_fields(),
        documents in vec(dense_document(), 24),
        more in (0..8_u64).prop_map(ArrayComponents::from_bits),
        clause in select(vec!["$and", "$or", "$nor"]),
    ) {
        let filter = doc! { clause: [{ "$expr": first }, { "$expr": second }] };
        check_found_with(&filter, &variables(&set), &fields, &documents, more)?;
    }
}

/// The bounds on an index on `a` for an expression. `set` is 5, and `unset` has no value.
fn bounds_on(expression: &Bson, path: &str, arrays: ArrayComponents) -> EntryBounds {
    let filter = doc! { "$expr": expression.clone() };
    let filter = Filter::parse_with(&raw(&filter), &variables(&bson!(5))).expect("a filter");
    let path = FieldPath::parse(path).expect("a path");
    filter.entry_bounds(&[IndexedField { path: &path, arrays, collation: &SIMPLE }])
}

/// Values of all classes, ascending.
fn ascending() -> Vec<Bson> {
    vec![
        Bson::MinKey,
        Bson::Undefined,
        Bson::Null,
        bson!(f64::NAN),
        bson!(-1),
        bson!(5_i64),
        decimal("6"),
        bson!("5"),
        bson!({}),
        bson!([]),
        bson!([5]),
        binary(&[5]),
        bson!(true),
        Bson::DateTime(bson::DateTime::from_millis(5)),
        Bson::Timestamp(bson::Timestamp { time: 5, increment: 0 }),
        regex("5", ""),
        Bson::MaxKey,
    ]
}

fn set_of(bounds: &EntryBounds) -> &Intervals {
    bounds.sets.first().expect("the field")
}

fn holds(bounds: &EntryBounds, value: &Bson) -> bool {
    let value = RawBson::try_from(value.clone()).expect("a value that can be written");
    set_of(bounds).contains(value.as_raw_bson_ref())
}

/// Checks which values the bounds on an index on `a` without arrays have, and whether a match has a value there.
#[track_caller]
fn check(expression: impl Into<Bson>, expected: &[Bson], has_value: bool) {
    let expression = expression.into();
    let bounds = bounds_on(&expression, "a", ArrayComponents::NONE);
    let found: Vec<Bson> = ascending().into_iter().filter(|value| holds(&bounds, value)).collect();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{expression}");
    assert_eq!(bounds.has_value, has_value, "{expression}");
}

#[track_caller]
fn check_unbounded(expression: impl Into<Bson>, arrays: ArrayComponents) {
    let expression = expression.into();
    let bounds = bounds_on(&expression, "a", arrays);
    assert!(set_of(&bounds).is_all() && !bounds.has_value, "{expression}: {bounds:?}");
}

#[test]
fn values_of_all_types_compare() {
    let all = ascending();
    check(bson!({ "$gte": ["$a", 5] }), &all[5..], true);
    check(bson!({ "$gt": ["$a", 5] }), &all[6..], true);
    check(bson!({ "$lt": ["$a", 5] }), &all[..5], false);
    check(bson!({ "$lte": ["$a", 5.0] }), &all[..6], false);
    check(bson!({ "$eq": ["$a", (decimal("5.0"))] }), &all[5..6], true);
    check(bson!({ "$gte": ["$a", (f64::NAN)] }), &all[3..], true);
    check(bson!({ "$lt": ["$a", (f64::NAN)] }), &all[..3], false);
    check(
        bson!({ "$gte": ["$a", (Bson::Timestamp(bson::Timestamp { time: 0, increment: 0 }))] }),
        &all[14..],
        true,
    );
    check(bson!({ "$lte": ["$a", (Bson::Symbol("5".into()))] }), &all[..8], false);
    check(bson!({ "$eq": ["$a", (regex("5", ""))] }), &all[15..16], true);
    check(bson!({ "$gt": ["$a", [1]] }), &all[10..], true);
    check(bson!({ "$lt": ["$a", (Bson::MaxKey)] }), &all[..16], false);
}

#[test]
fn a_missing_field_lies_between_min_key_and_undefined() {
    let all = ascending();
    // Only the bounds with a missing field need the null that an index has for it.
    check(bson!({ "$eq": ["$a", null] }), &all[2..3], true);
    check(bson!({ "$eq": ["$a", "$$unset"] }), &all[2..3], false);
    check(bson!({ "$gt": ["$a", null] }), &all[3..], true);
    check(bson!({ "$lt": ["$a", null] }), &all[..3], false);
    check(bson!({ "$lte": ["$a", "$$unset"] }), &[Bson::MinKey, Bson::Null], false);
    check(bson!({ "$lt": ["$a", "$$unset"] }), &[Bson::MinKey], true);
    check(bson!({ "$gt": ["$a", "$$unset"] }), &all[1..], true);
    check(bson!({ "$gte": ["$a", "$$REMOVE"] }), &all[1..], false);
    check(bson!({ "$lt": ["$a", (Bson::Undefined)] }), &[Bson::MinKey, Bson::Null], false);
    check(bson!({ "$lte": ["$a", (Bson::MinKey)] }), &all[..1], true);
    check(bson!({ "$lt": ["$a", (Bson::MinKey)] }), &[], true);
    check(bson!({ "$gt": ["$a", (Bson::MinKey)] }), &all[1..], false);
    check(bson!({ "$in": ["$a", [null, 5]] }), &[Bson::Null, bson!(5_i64)], true);
}

#[test]
fn operands_may_be_whatever_no_document_changes() {
    let all = ascending();
    check(bson!({ "$gte": [5, "$a"] }), &all[..6], false);
    check(bson!({ "$lt": ["$$set", "$a"] }), &all[6..], true);
    check(bson!({ "$eq": ["$a", { "$add": [2, 3] }] }), &all[5..6], true);
    check(bson!({ "$eq": ["$$ROOT.a", { "$subtract": ["$$set", 0] }] }), &all[5..6], true);
    check(bson!({ "$eq": ["$$CURRENT.a", { "$literal": "5" }] }), &all[7..8], true);
    check(bson!({ "$in": ["$a", ["$$set", "5"]] }), &[bson!(5_i64), bson!("5")], true);
    check(bson!({ "$in": ["$a", []] }), &[], true);
    check(bson!({ "$lte": ["$a", { "$let": { "vars": { "a": 5 }, "in": "$$a" } }] }), &all[..6], false);
}

#[test]
fn clauses_join_what_their_parts_say() {
    let all = ascending();
    let above = || bson!({ "$gt": ["$a", -1] });
    let below = || bson!({ "$lt": ["$a", "5"] });
    check(bson!({ "$and": [above(), below()] }), &all[5..7], true);
    check(bson!({ "$and": [{ "$and": [above()] }, "$b", { "$and": below() }] }), &all[5..7], true);
    check(
        bson!({ "$or": [{ "$eq": ["$a", 5] }, { "$eq": ["$a", true] }] }),
        &[bson!(5_i64), bson!(true)],
        true,
    );
    check(bson!({ "$and": [true, { "$or": [false, { "$eq": ["$a", 5] }] }] }), &all[5..6], true);
    check(bson!({ "$or": [] }), &[], true);
    check(bson!(0), &[], true);
    check_unbounded(bson!({ "$or": [above(), "$b"] }), ArrayComponents::NONE);
}

#[test]
fn what_says_nothing_gives_no_bounds() {
    for expression in [
        bson!("$a"),
        bson!(["$a"]),
        bson!({ "$ne": ["$a", 5] }),
        bson!({ "$not": { "$eq": ["$a", 5] } }),
        bson!({ "$eq": ["$a", "$b"] }),
        bson!({ "$eq": ["$a", { "$add": ["$b", 1] }] }),
        bson!({ "$lt": ["$a", { "$rand": {} }] }),
        bson!({ "$eq": ["$a", { "$createObjectId": {} }] }),
        bson!({ "$eq": ["$a", { "$currentDate": {} }] }),
        bson!({ "$lt": ["$a", { "$divide": [1, 0] }] }),
        bson!({ "$in": [5, "$a"] }),
        bson!({ "$in": ["$a", "$$set"] }),
        bson!({ "$eq": [{ "$abs": "$a" }, 5] }),
        bson!({ "$eq": ["$$ROOT", { "a": 5 }] }),
        bson!({ "$let": { "vars": { "CURRENT": "$b" }, "in": { "$eq": ["$a", 5] } } }),
        bson!({ "$let": { "vars": { "CURRENT": "$b" }, "in": { "$eq": ["$$CURRENT.a", 5] } } }),
        bson!({ "$eq": ["$a.b", 5] }),
    ] {
        check_unbounded(expression, ArrayComponents::NONE);
    }
}

/// An array is compared as a whole, and an index has its elements.
#[test]
fn arrays_leave_only_bounds_that_no_array_meets() {
    let all = ArrayComponents::ALL;
    for expression in [
        bson!({ "$gte": ["$a", 5] }),
        bson!({ "$gt": ["$a", "$$unset"] }),
        bson!({ "$gt": ["$a", {}] }),
        bson!({ "$eq": ["$a", [5]] }),
        bson!({ "$lte": ["$a", [5]] }),
        bson!({ "$gt": ["$a", [5]] }),
        bson!({ "$lt": ["$a", true] }),
        bson!({ "$in": ["$a", [5, [5]]] }),
    ] {
        check_unbounded(expression, all);
    }
    let is_bounded = |expression: Bson| !bounds_on(&expression, "a", all).sets[0].is_all();
    assert!(is_bounded(bson!({ "$eq": ["$a", 5] })));
    assert!(is_bounded(bson!({ "$eq": ["$a", { "x": 1 }] })));
    assert!(is_bounded(bson!({ "$in": ["$a", [5, "5"]] })));
    assert!(is_bounded(bson!({ "$lt": ["$a", "5"] })));
    assert!(is_bounded(bson!({ "$lte": ["$a", null] })));
    assert!(is_bounded(bson!({ "$gte": ["$a", true] })));
    assert!(is_bounded(bson!({ "$gt": ["$a", (binary(&[]))] })));
    // Below 9 there is no array, so above 5 there is none either.
    let between = bson!({ "$and": [{ "$gte": ["$a", 5] }, { "$lt": ["$a", 9] }] });
    let bounds = bounds_on(&between, "a", all);
    assert!(holds(&bounds, &bson!(5)) && !holds(&bounds, &bson!(4)) && !holds(&bounds, &bson!("5")));
    assert!(bounds.has_value);
}

#[test]
fn positions_are_names_to_an_expression_and_elements_to_an_index() {
    let zero = bson!({ "$eq": ["$a.0", 5] });
    assert!(!bounds_on(&zero, "a.0", ArrayComponents::NONE).sets[0].is_all());
    assert!(bounds_on(&zero, "a.0", ArrayComponents::ALL).sets[0].is_all());
}

#[test]
fn an_operand_of_many_megabytes_is_not_kept() {
    let list = bson!({ "$in": ["$a", { "$range": [0, 200_000] }] });
    check_unbounded(list, ArrayComponents::NONE);
    let list: Vec<Bson> = (0..20_000).map(Bson::Int32).collect();
    let bounds = bounds_on(&bson!({ "$in": ["$a", list] }), "a", ArrayComponents::NONE);
    assert_eq!(bounds.sets[0].as_slice().len(), 20_000);
}

#[test]
fn a_range_of_an_expression_is_not_that_of_a_filter() {
    let implies = |expression: Bson, partial: Document| {
        let filter = Filter::parse_with(&raw(&doc! { "$expr": expression }), &variables(&bson!(5)));
        filter.expect("a filter").implies(&Filter::parse(&raw(&partial)).expect("a filter"), &SIMPLE)
    };
    assert!(implies(bson!({ "$eq": ["$a", 5] }), doc! { "a": { "$gte": 5 } }));
    assert!(implies(bson!({ "$in": ["$a", ["$$set", 6]] }), doc! { "a": { "$gte": 5 } }));
    // Texts are above 5 too, and a filter's `$gte` has numbers only.
    assert!(!implies(bson!({ "$gte": ["$a", 5] }), doc! { "a": { "$gte": 5 } }));
    assert!(!implies(bson!({ "$lt": ["$a", 5] }), doc! { "a": { "$lt": 5 } }));
    let between = || bson!({ "$and": [{ "$gte": ["$a", 5] }, { "$lt": ["$a", 9] }] });
    assert!(implies(between(), doc! { "a": { "$gte": 5 } }));
    assert!(!implies(between(), doc! { "a": { "$gt": 5 } }));
    // NaN is below 9, and in no range of a filter.
    let above = bson!({ "$and": [{ "$gt": ["$a", null] }, { "$lt": ["$a", 9] }] });
    assert!(!implies(above, doc! { "a": { "$lt": 9 } }));
    assert!(implies(bson!({ "$gt": ["$a", null] }), doc! { "a": { "$exists": true } }));
    assert!(implies(bson!({ "$eq": ["$a", null] }), doc! { "a": { "$exists": true } }));
    assert!(!implies(bson!({ "$lt": ["$a", 5] }), doc! { "a": { "$exists": true } }));
    // The path gathers an empty array from objects without the field.
    assert!(!implies(bson!({ "$gt": ["$a.b", null] }), doc! { "a.b": { "$exists": true } }));
    assert!(implies(bson!({ "$gte": ["$a.b", true] }), doc! { "a.b": { "$exists": true } }));
    assert!(implies(
        bson!({ "$or": [{ "$eq": ["$a", 5] }, { "$eq": ["$a", 7] }] }),
        doc! { "a": { "$gt": 3 } }
    ));
    assert!(!implies(bson!({ "$or": [{ "$eq": ["$a", 5] }, "$b"] }), doc! { "a": { "$gt": 3 } }));
    assert!(!implies(bson!({ "$not": { "$eq": ["$a", 5] } }), doc! { "a": 5 }));
}

#[test]
fn an_expression_is_decided_by_its_document() {
    let path = FieldPath::parse("a").expect("a path");
    let fields = [IndexedField { path: &path, arrays: ArrayComponents::NONE, collation: &SIMPLE }];
    let filter = doc! { "a": { "$lt": 9 }, "$expr": { "$eq": ["$a", 5] } };
    let filter = Filter::parse_with(&raw(&filter), &Variables::default()).expect("a filter");
    let tests = filter.entry_tests(&fields);
    assert!(!tests.is_whole && tests.residual.is_none());
    assert!(filter.intervals("a", cairndb_query::filter::Arrays::Absent).contains(RawBsonRef::Int32(5)));
}
