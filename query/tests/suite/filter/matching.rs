//! The matches of filters, rule by rule: type brackets, null and missing, arrays, paths, and each operator.

use bson::{Bson, Document, bson, doc};

use crate::filter::{binary, decimal, parse, raw, regex};

#[track_caller]
fn check(filter: &Document, matching: &[Document], others: &[Document]) {
    let parsed = parse(filter);
    for document in matching {
        assert!(parsed.matches(&raw(document)), "{filter} must match {document}");
    }
    for document in others {
        assert!(!parsed.matches(&raw(document)), "{filter} must not match {document}");
    }
}

/// Checks values of the field `a`: which match, and which do not.
#[track_caller]
fn check_values(condition: impl Into<Bson>, matching: &[Bson], others: &[Bson]) {
    let documents = |values: &[Bson]| values.iter().map(|value| doc! { "a": value }).collect::<Vec<_>>();
    check(&doc! { "a": condition.into() }, &documents(matching), &documents(others));
}

const NAN: f64 = f64::NAN;
const INFINITY: f64 = f64::INFINITY;

// Comparison.

#[test]
fn the_empty_filter_matches_everything() {
    check(&doc! {}, &[doc! {}, doc! { "a": 1 }], &[]);
    assert!(parse(&doc! {}).is_empty());
    assert!(parse(&doc! { "$comment": "why", "$and": [{}] }).is_empty());
    assert!(!parse(&doc! { "a": 1 }).is_empty());
}

#[test]
fn equal_numbers_of_all_types_match() {
    let ones = [bson!(1), bson!(1_i64), bson!(1.0), decimal("1.00")];
    for one in &ones {
        check_values(one.clone(), &ones, &[bson!(1.5), bson!("1"), bson!(true), Bson::Null]);
    }
}

#[test]
fn large_integers_are_not_rounded() {
    check_values(
        9_007_199_254_740_993_i64,
        &[bson!(9_007_199_254_740_993_i64)],
        &[bson!(9_007_199_254_740_992.0)],
    );
    check_values(doc! { "$gt": 9_007_199_254_740_992.0 }, &[bson!(9_007_199_254_740_993_i64)], &[]);
}

#[test]
fn decimal_and_double_tenths_differ() {
    check_values(0.1, &[bson!(0.1)], &[decimal("0.1")]);
}

#[test]
fn greater_matches_the_class_of_the_operand_only() {
    check_values(
        doc! { "$gt": 5 },
        &[bson!(6), bson!(5.5), bson!(6_i64), decimal("5.1"), bson!(INFINITY), bson!([1, 9])],
        &[
            bson!(5),
            bson!("6"),
            bson!({ "x": 9 }),
            bson!([]),
            bson!([[9]]),
            Bson::Null,
            bson!(true),
            bson!(NAN),
        ],
    );
}

#[test]
fn less_matches_the_class_of_the_operand_only() {
    check_values(
        doc! { "$lt": 5 },
        &[bson!(4), bson!(-INFINITY), decimal("-3"), bson!([9, 1])],
        &[bson!(5), Bson::Null, Bson::Undefined, bson!("4"), bson!(false), Bson::MinKey, bson!(NAN)],
    );
    check(&doc! { "a": { "$lt": 5 } }, &[], &[doc! {}]);
}

#[test]
fn bounds_are_included_when_asked_for() {
    check_values(doc! { "$gte": 5 }, &[bson!(5), bson!(5.0), bson!(6)], &[bson!(4.999)]);
    check_values(doc! { "$lte": 5 }, &[bson!(5), bson!(5.0), bson!(4)], &[bson!(5.001)]);
}

#[test]
fn strings_compare_by_bytes_and_with_symbols() {
    check_values(
        doc! { "$gt": "b" },
        &[bson!("ba"), bson!("é"), Bson::Symbol("c".into())],
        &[bson!("B"), bson!("b")],
    );
    check_values("x", &[Bson::Symbol("x".into())], &[bson!("X")]);
}

#[test]
fn objects_compare_by_fields_in_order() {
    check_values(
        doc! { "b": 1, "c": 2 },
        &[bson!({ "b": 1, "c": 2 }), bson!({ "b": 1.0, "c": 2_i64 })],
        &[bson!({ "c": 2, "b": 1 }), bson!({ "b": 1 }), bson!({ "b": 1, "c": 2, "d": 3 })],
    );
    check_values(
        doc! { "$gt": { "b": 1 } },
        &[bson!({ "b": 2 }), bson!({ "b": 1, "c": 1 })],
        &[bson!({ "b": 1 })],
    );
    check_values(doc! {}, &[bson!({})], &[bson!({ "b": 1 }), bson!([])]);
}

#[test]
fn nan_equals_nan_and_is_ordered_with_nothing() {
    let nans = [bson!(NAN), decimal("NaN")];
    for relation in ["$eq", "$gte", "$lte"] {
        check_values(doc! { relation: NAN }, &nans, &[bson!(0), bson!(-INFINITY), Bson::Null]);
    }
    for relation in ["$gt", "$lt"] {
        check_values(doc! { relation: NAN }, &[], &[bson!(NAN), bson!(0), decimal("NaN"), bson!(INFINITY)]);
        check_values(doc! { relation: 0 }, &[], &nans);
    }
    check_values(doc! { "$gte": -INFINITY }, &[bson!(-INFINITY)], &nans);
    check_values(doc! { "$ne": NAN }, &[bson!(1)], &nans);
    check_values(doc! { "$in": [NAN] }, &nans, &[bson!(1)]);
}

#[test]
fn least_and_greatest_key_compare_with_everything() {
    let all = [bson!(1), Bson::Null, bson!("x"), bson!({}), Bson::Undefined, bson!(NAN)];
    check_values(doc! { "$gt": Bson::MinKey }, &all, &[Bson::MinKey]);
    check_values(doc! { "$lt": Bson::MaxKey }, &all, &[Bson::MaxKey]);
    check_values(doc! { "$gte": Bson::MinKey }, &[Bson::MinKey, Bson::MaxKey], &[]);
    check_values(doc! { "$lte": Bson::MaxKey }, &[Bson::MinKey, Bson::MaxKey], &[]);
    check_values(doc! { "$lt": Bson::MinKey }, &[], &all);
    check_values(Bson::MinKey, &[Bson::MinKey], &all);
    check(&doc! { "a": { "$gt": Bson::MinKey } }, &[doc! {}], &[]);
    check(&doc! { "a": { "$lt": Bson::MaxKey } }, &[doc! {}], &[]);
}

#[test]
fn false_is_less_than_true() {
    check_values(doc! { "$lt": true }, &[bson!(false)], &[bson!(true), bson!(0), Bson::Null]);
}

#[test]
fn equality_with_a_regular_expression_is_of_values() {
    check_values(doc! { "$eq": regex("x", "") }, &[regex("x", "")], &[bson!("x"), regex("x", "i")]);
}

// Null, missing and undefined.

#[test]
fn null_matches_null_undefined_missing_and_arrays_with_null() {
    for filter in [doc! { "a": null }, doc! { "a": { "$eq": null } }, doc! { "a": { "$in": [null] } }] {
        check(
            &filter,
            &[doc! {}, doc! { "a": null }, doc! { "a": Bson::Undefined }, doc! { "a": [1, null] }],
            &[
                doc! { "a": [] },
                doc! { "a": [[]] },
                doc! { "a": {} },
                doc! { "a": 0 },
                doc! { "a": [[null]] },
            ],
        );
    }
}

#[test]
fn bounds_of_null_are_equality_or_nothing() {
    for relation in ["$gte", "$lte"] {
        check(
            &doc! { "a": { relation: null } },
            &[doc! {}, doc! { "a": null }, doc! { "a": Bson::Undefined }],
            &[doc! { "a": 1 }, doc! { "a": [] }, doc! { "a": Bson::MinKey }],
        );
    }
    for relation in ["$gt", "$lt"] {
        let others = [doc! {}, doc! { "a": null }, doc! { "a": Bson::Undefined }, doc! { "a": 1 }];
        check(&doc! { "a": { relation: null } }, &[], &others);
    }
}

#[test]
fn exists_sees_explicit_null() {
    let present = [doc! { "a": null }, doc! { "a": Bson::Undefined }, doc! { "a": [] }, doc! { "a": 0 }];
    check(&doc! { "a": { "$exists": true } }, &present, &[doc! {}, doc! { "b": 1 }]);
    check(&doc! { "a": { "$exists": false } }, &[doc! {}, doc! { "b": 1 }], &present);
    check(&doc! { "a": { "$exists": "no" } }, &present, &[doc! {}]);
    check(&doc! { "a": { "$exists": 0.0 } }, &[doc! {}], &present);
    check(&doc! { "a": { "$exists": null } }, &[doc! {}], &present);
}

#[test]
fn a_dotted_path_to_null_needs_an_object_that_lacks_it() {
    check(
        &doc! { "a.b": null },
        &[
            doc! {},
            doc! { "a": 5 },
            doc! { "a": null },
            doc! { "a": {} },
            doc! { "a": { "b": null } },
            doc! { "a": [{ "b": 1 }, {}] },
            doc! { "a": [5, { "b": null }] },
            doc! { "a": { "b": [null] } },
        ],
        &[
            doc! { "a": [] },
            doc! { "a": [[]] },
            doc! { "a": [5, "x"] },
            doc! { "a": [null] },
            doc! { "a": [{ "b": 1 }, { "b": 2 }] },
            doc! { "a": { "b": 1 } },
            doc! { "a": { "b": [] } },
        ],
    );
    check(
        &doc! { "a.b": { "$exists": false } },
        &[doc! { "a": [] }, doc! { "a": [5] }],
        &[doc! { "a": [{ "b": 1 }, {}] }],
    );
}

#[test]
fn element_match_looks_at_an_inner_array_as_an_object() {
    check(
        &doc! { "a": { "$elemMatch": { "b": null } } },
        &[doc! { "a": [[]] }, doc! { "a": [{}] }, doc! { "a": [{ "b": 1 }, { "b": null }] }],
        &[
            doc! { "a": [] },
            doc! { "a": { "b": null } },
            doc! {},
            doc! { "a": [null] },
            doc! { "a": [{ "b": 1 }] },
        ],
    );
    check(&doc! { "a": { "$elemMatch": { "0": 5 } } }, &[doc! { "a": [[5]] }], &[doc! { "a": [5] }]);
}

#[test]
fn negations_are_complements_over_the_whole_document() {
    check(
        &doc! { "a": { "$ne": 1 } },
        &[doc! {}, doc! { "a": [2, 3] }, doc! { "a": "1" }],
        &[doc! { "a": [2, 1] }],
    );
    check(
        &doc! { "a": { "$ne": null } },
        &[doc! { "a": [] }, doc! { "a": 1 }],
        &[doc! {}, doc! { "a": [null] }],
    );
    check(
        &doc! { "a": { "$nin": [1, null] } },
        &[doc! { "a": 2 }, doc! { "a": [] }],
        &[doc! {}, doc! { "a": [5, 1] }],
    );
    check(
        &doc! { "a": { "$not": { "$gt": 5 } } },
        &[doc! {}, doc! { "a": "x" }, doc! { "a": 5 }],
        &[doc! { "a": [1, 9] }],
    );
    check(
        &doc! { "$nor": [{ "a": 1 }, { "b": 1 }] },
        &[doc! {}, doc! { "a": 2 }],
        &[doc! { "b": 1 }, doc! { "a": 1 }],
    );
}

// Paths and arrays.

#[test]
fn several_conditions_may_be_met_by_different_elements() {
    check(
        &doc! { "a": { "$gt": 5, "$lt": 3 } },
        &[doc! { "a": [1, 9] }],
        &[doc! { "a": [4] }, doc! { "a": 4 }],
    );
    check(
        &doc! { "a": { "$elemMatch": { "$gt": 3, "$lt": 5 } } },
        &[doc! { "a": [1, 4, 9] }],
        &[doc! { "a": [1, 9] }, doc! { "a": 4 }, doc! { "a": [[4]] }],
    );
}

#[test]
fn an_array_operand_matches_the_array_or_an_element() {
    check_values(
        bson!([1, 2]),
        &[bson!([1, 2]), bson!([[1, 2], 3]), bson!([1.0, 2_i64])],
        &[bson!([2, 1]), bson!([1, 2, 3]), bson!(1), bson!([[[1, 2]]])],
    );
    check_values(bson!([]), &[bson!([]), bson!([[]])], &[bson!([1]), Bson::Null]);
    check_values(doc! { "$gt": [1, 2] }, &[bson!([1, 3]), bson!([1, 2, 0])], &[bson!([1, 2]), bson!(9)]);
}

#[test]
fn paths_enter_objects_of_arrays_once() {
    check(
        &doc! { "a.b": 1 },
        &[doc! { "a": { "b": 1 } }, doc! { "a": [{ "b": 1 }] }, doc! { "a": [5, { "b": [0, 1] }] }],
        &[doc! { "a": [[{ "b": 1 }]] }, doc! { "a": { "b": [[1]] } }, doc! { "a.b": 1 }],
    );
}

#[test]
fn a_number_in_a_path_is_a_position_and_a_name() {
    check(
        &doc! { "a.0": 10 },
        &[doc! { "a": [10] }, doc! { "a": { "0": 10 } }, doc! { "a": [7, { "0": 10 }] }],
        &[doc! { "a": [[10]] }, doc! { "a": [9, 10] }, doc! { "a": 10 }],
    );
    check(
        &doc! { "a.0.b": 1 },
        &[doc! { "a": [{ "b": 1 }] }, doc! { "a": [{ "0": { "b": 1 } }] }],
        &[doc! { "a": [0, { "b": 1 }] }],
    );
    check(&doc! { "a.0": [10] }, &[doc! { "a": [[10]] }], &[doc! { "a": [10] }]);
}

#[test]
fn a_position_beyond_the_end_is_not_null() {
    check(
        &doc! { "a.1": null },
        &[doc! { "a": [5, null] }, doc! { "a": {} }],
        &[doc! { "a": [5] }, doc! { "a": [] }],
    );
    check(&doc! { "a.1": { "$exists": false } }, &[doc! { "a": [5] }], &[doc! { "a": [5, 6] }]);
}

#[test]
fn empty_names_are_names() {
    check(&doc! { "": 1 }, &[doc! { "": 1 }], &[doc! { "a": 1 }]);
    check(&doc! { "a..b": 1 }, &[doc! { "a": { "": { "b": 1 } } }], &[doc! { "a": { "b": 1 } }]);
}

// Operators.

#[test]
fn in_takes_values_patterns_and_null() {
    check_values(
        doc! { "$in": [1, "x", regex("^ab", ""), [7]] },
        &[bson!(1.0), bson!("x"), bson!("abc"), bson!([5, 1]), bson!([7]), bson!([[7]]), regex("^ab", "")],
        &[bson!(2), bson!("xab"), Bson::Null, bson!(7), bson!([])],
    );
    check(&doc! { "a": { "$in": [] } }, &[], &[doc! {}, doc! { "a": [] }]);
    check(&doc! { "a": { "$nin": [] } }, &[doc! {}, doc! { "a": 1 }], &[]);
    check_values(doc! { "$nin": [regex("^a", "")] }, &[bson!("b")], &[bson!("a")]);
}

#[test]
fn logical_clauses_combine_whole_filters() {
    check(&doc! { "$and": [{ "a": 1 }, { "b": 2 }] }, &[doc! { "a": 1, "b": 2 }], &[doc! { "a": 1 }]);
    check(
        &doc! { "$or": [{ "a": 1 }, { "b": 2 }], "c": 3 },
        &[doc! { "b": 2, "c": 3 }],
        &[doc! { "b": 2 }, doc! { "c": 3 }],
    );
    check(&doc! { "$or": [{}] }, &[doc! {}], &[]);
    check(&doc! { "$nor": [{}] }, &[], &[doc! {}]);
    check(&doc! { "$alwaysTrue": 1 }, &[doc! {}], &[]);
    check(&doc! { "$alwaysFalse": 1.0 }, &[], &[doc! {}]);
    check(&doc! { "$comment": { "any": "thing" }, "a": 1 }, &[doc! { "a": 1 }], &[doc! {}]);
}

#[test]
fn not_takes_operators_or_a_pattern() {
    check_values(
        doc! { "$not": { "$gt": 3, "$lt": 6 } },
        &[bson!(3), bson!(6), bson!("x")],
        &[bson!(4), bson!([1, 9])],
    );
    check_values(doc! { "$not": regex("^a", "") }, &[bson!("b"), bson!(1)], &[bson!("ab")]);
    check_values(doc! { "$not": { "$not": { "$eq": 1 } } }, &[bson!(1)], &[bson!(2)]);
    check_values(doc! { "$not": { "$regex": "^A", "$options": "i" } }, &[bson!("b")], &[bson!("ab")]);
    check_values(doc! { "$not": { "$elemMatch": { "$gt": 1 } } }, &[bson!(5), bson!([1])], &[bson!([2])]);
}

#[test]
fn type_takes_names_numbers_and_lists() {
    let numbers = [bson!(1), bson!(1_i64), bson!(1.5), decimal("1")];
    check_values(doc! { "$type": "number" }, &numbers, &[bson!("1"), bson!(true), Bson::Null]);
    check_values(doc! { "$type": "int" }, &[bson!(1), bson!(["x", 1])], &[bson!(1_i64), bson!(1.0)]);
    check_values(doc! { "$type": 1 }, &[bson!(1.0)], &[bson!(1)]);
    check_values(doc! { "$type": 2.0 }, &[bson!("x")], &[Bson::Symbol("x".into())]);
    check_values(
        doc! { "$type": ["string", "null", 14] },
        &[bson!("x"), Bson::Null, Bson::Symbol("x".into())],
        &[bson!(1)],
    );
    check_values(doc! { "$type": "array" }, &[bson!([]), bson!([1]), bson!([[1]])], &[bson!(1), bson!({})]);
    check_values(doc! { "$type": -1 }, &[Bson::MinKey], &[Bson::MaxKey]);
    check_values(doc! { "$type": 127 }, &[Bson::MaxKey], &[Bson::MinKey]);
    check(
        &doc! { "a": { "$type": "null" } },
        &[doc! { "a": null }],
        &[doc! {}, doc! { "a": Bson::Undefined }],
    );
}

#[test]
fn size_counts_the_array_itself() {
    check_values(
        doc! { "$size": 2 },
        &[bson!([1, 2]), bson!([[], []])],
        &[bson!([1]), bson!([1, 2, 3]), bson!([[1, 2]]), bson!("ab")],
    );
    check_values(doc! { "$size": 0.0 }, &[bson!([])], &[bson!([1]), Bson::Null]);
    check(&doc! { "a": { "$size": 0 } }, &[], &[doc! {}]);
    check(&doc! { "a.b": { "$size": 1 } }, &[doc! { "a": [{ "b": [5] }] }], &[doc! { "a": [{ "b": 5 }] }]);
}

#[test]
fn all_needs_every_member_in_some_element() {
    check_values(doc! { "$all": [1, 2] }, &[bson!([2, 1, 3])], &[bson!([1]), bson!(1), bson!([[1, 2]])]);
    check_values(doc! { "$all": [1] }, &[bson!(1), bson!([1])], &[bson!(2)]);
    check_values(doc! { "$all": [[1, 2]] }, &[bson!([1, 2]), bson!([[1, 2]])], &[bson!([1])]);
    check_values(doc! { "$all": [regex("^a", ""), "b"] }, &[bson!(["b", "ax"])], &[bson!(["b"])]);
    check(&doc! { "a": { "$all": [] } }, &[], &[doc! {}, doc! { "a": [] }, doc! { "a": [1] }]);
    check(&doc! { "a": { "$all": [null] } }, &[doc! {}, doc! { "a": [null] }], &[doc! { "a": [] }]);
}

#[test]
fn all_takes_element_matches() {
    check_values(
        doc! { "$all": [{ "$elemMatch": { "x": 1 } }, { "$elemMatch": { "y": { "$gt": 5 } } }] },
        &[bson!([{ "x": 1 }, { "y": 6 }]), bson!([{ "x": 1, "y": 9 }])],
        &[bson!([{ "x": 1 }]), bson!({ "x": 1, "y": 6 })],
    );
}

#[test]
fn element_match_takes_operators_or_fields() {
    check_values(
        doc! { "$elemMatch": { "x": 1, "y": 2 } },
        &[bson!([{ "x": 1, "y": 2 }])],
        &[bson!([{ "x": 1 }, { "y": 2 }])],
    );
    check_values(doc! { "$elemMatch": { "$in": [1, 2] } }, &[bson!([5, 2])], &[bson!([5]), bson!(2)]);
    check_values(doc! { "$elemMatch": { "$not": { "$gt": 5 } } }, &[bson!([9, 1])], &[bson!([9]), bson!([])]);
    check_values(
        doc! { "$elemMatch": { "$or": [{ "x": 1 }, { "y": 1 }] } },
        &[bson!([{ "y": 1 }])],
        &[bson!([1])],
    );
    check_values(doc! { "$elemMatch": {} }, &[bson!([{}]), bson!([[]])], &[bson!([]), bson!([1]), bson!({})]);
    check_values(
        doc! { "$elemMatch": { "$elemMatch": { "$gt": 1 } } },
        &[bson!([[2]])],
        &[bson!([2]), bson!([[1]])],
    );
    check_values(doc! { "$elemMatch": { "$size": 1 } }, &[bson!([[2]])], &[bson!([2])]);
    check_values(doc! { "$elemMatch": { "$exists": true } }, &[bson!([null])], &[bson!([])]);
    check_values(doc! { "$elemMatch": { "$ne": 1 } }, &[bson!([1, 2])], &[bson!([1])]);
    check_values(doc! { "$elemMatch": { "$nin": [1] } }, &[bson!([1, 2])], &[bson!([1]), bson!(2)]);
}

#[test]
fn references_are_values_and_fields() {
    let reference = bson!({ "$ref": "people", "$id": 5 });
    check_values(
        reference.clone(),
        std::slice::from_ref(&reference),
        &[bson!({ "$ref": "people", "$id": 6 })],
    );
    check(&doc! { "a.$id": 5 }, &[doc! { "a": reference.clone() }], &[doc! { "a": 5 }]);
    check_values(doc! { "$elemMatch": { "$id": 5 } }, &[bson!([reference.clone()])], &[bson!([5])]);
    check_values(doc! { "$in": [reference.clone()] }, &[reference], &[bson!(5)]);
}

#[test]
fn mod_divides_toward_zero() {
    check_values(
        doc! { "$mod": [4, 1] },
        &[bson!(5), bson!(5_i64), bson!(5.9), decimal("5.9"), bson!([4, 9])],
        &[
            bson!(4),
            bson!(-5),
            bson!("5"),
            bson!(NAN),
            bson!(INFINITY),
            bson!(1e300),
            decimal("1E+40"),
            Bson::Null,
        ],
    );
    check_values(doc! { "$mod": [4.9, -1.5] }, &[bson!(-5), bson!(-1.2)], &[bson!(5)]);
    check_values(doc! { "$mod": [-1, 0] }, &[bson!(i64::MIN), bson!(7)], &[]);
    check_values(doc! { "$mod": [decimal("3.7"), 0_i64] }, &[bson!(9)], &[bson!(10)]);
}

#[test]
fn bits_of_integers_go_on_with_their_sign() {
    check_values(
        doc! { "$bitsAllSet": 6 },
        &[bson!(6), bson!(7_i64), bson!(14.0), bson!(-1)],
        &[bson!(4), bson!(6.5), bson!("6"), Bson::Null],
    );
    check_values(doc! { "$bitsAllSet": [1, 2] }, &[bson!(6), decimal("6")], &[bson!(2)]);
    check_values(doc! { "$bitsAllSet": [200] }, &[bson!(-5)], &[bson!(5)]);
    check_values(doc! { "$bitsAllClear": [0, 200] }, &[bson!(4), bson!(0)], &[bson!(5), bson!(-4)]);
    check_values(doc! { "$bitsAnySet": 6 }, &[bson!(2), bson!([1, 4])], &[bson!(1), bson!(8)]);
    check_values(doc! { "$bitsAnyClear": 6 }, &[bson!(2), bson!(0)], &[bson!(6), bson!(-1)]);
    check_values(doc! { "$bitsAllSet": 1 }, &[], &[bson!(1e300), bson!(NAN), decimal("1E+40")]);
}

#[test]
fn bits_of_binary_data_go_on_with_zeros() {
    check_values(doc! { "$bitsAllSet": [8, 9] }, &[binary(&[0, 3])], &[binary(&[3, 0]), binary(&[3])]);
    check_values(doc! { "$bitsAllClear": [3, 500] }, &[binary(&[7]), binary(&[])], &[binary(&[8])]);
    check_values(
        doc! { "$bitsAnyClear": binary(&[0, 0, 0, 0, 0, 0, 0, 0, 1]) },
        &[binary(&[255; 8])],
        &[binary(&[255; 9])],
    );
    check_values(doc! { "$bitsAllSet": binary(&[0, 1]) }, &[bson!(256)], &[bson!(1)]);
}

#[test]
fn no_bits_at_all_are_all_set_and_none_is() {
    for operand in [bson!(0), bson!([]), binary(&[])] {
        for test in ["$bitsAllSet", "$bitsAllClear"] {
            check_values(
                doc! { test: operand.clone() },
                &[bson!(5), binary(&[1])],
                &[bson!("x"), bson!(0.5)],
            );
        }
        for test in ["$bitsAnySet", "$bitsAnyClear"] {
            check_values(doc! { test: operand.clone() }, &[], &[bson!(5), binary(&[1])]);
        }
    }
}

// Patterns.

#[track_caller]
fn check_pattern(pattern: &str, options: &str, matching: &[&str], others: &[&str]) {
    let bson = |texts: &[&str]| texts.iter().map(|text| Bson::from(*text)).collect::<Vec<_>>();
    check_values(doc! { "$regex": pattern, "$options": options }, &bson(matching), &bson(others));
    check_values(regex(pattern, options), &bson(matching), &bson(others));
}

#[test]
fn patterns_match_strings_symbols_and_themselves() {
    check_values(
        regex("^a", "i"),
        &[bson!("abc"), bson!("ABC"), Bson::Symbol("Ax".into()), bson!(["x", "ay"]), regex("^a", "i")],
        &[bson!("ba"), bson!(1), Bson::Null, regex("^a", ""), regex("^b", "i"), bson!([["a"]])],
    );
    check(&doc! { "a": regex(".*", "") }, &[], &[doc! {}]);
    check_values(doc! { "$regex": regex("^A", ""), "$options": "i" }, &[bson!("ab")], &[bson!("ba")]);
    check_values(doc! { "$options": "i", "$regex": "^A" }, &[bson!("ab")], &[bson!("ba")]);
    check_values(doc! { "$regex": regex("^A", "i"), "$options": "" }, &[bson!("ab")], &[bson!("ba")]);
    check_values(doc! { "$regex": "^a", "$ne": "ab" }, &[bson!("ac")], &[bson!("ab")]);
}

#[test]
fn options_change_the_pattern() {
    check_pattern("a.c", "", &["abc"], &["a\nc", "ABC"]);
    check_pattern("a.c", "s", &["a\nc"], &["ac"]);
    check_pattern("a.c", "is", &["A\nC"], &["ac"]);
    check_pattern("a b # c", "x", &["ab"], &["a b"]);
    check_pattern("^b$", "m", &["a\nb\nc", "b\n", "a\nb"], &["ab", "a\nbc"]);
    check_pattern("é", "u", &["é"], &["e"]);
    check_pattern("STRASSE É", "i", &["straße strasse é"], &["straße é"]);
}

#[test]
fn shorthand_classes_are_ascii() {
    check_pattern(r"^\d+$", "", &["123"], &["١٢٣", "12a"]);
    check_pattern(r"^\w+$", "i", &["aZ_9"], &["é", "\u{212a}", "\u{17f}"]);
    check_pattern(r"^\W$", "", &["é", "-"], &["a", "_"]);
    check_pattern(r"^[\w.]+$", "i", &["a.B"], &["é", "\u{17f}"]);
    check_pattern(r"^[^\w.]+$", "i", &["é", "\u{17f}"], &["k", "."]);
    check_pattern(r"^[[:alpha:]]$", "i", &["k", "K"], &["\u{212a}", "é"]);
    check_pattern(r"^\s$", "", &[" ", "\t", "\u{b}", "\n"], &["\u{a0}", "\u{2003}"]);
    check_pattern(r"^[\s\S]$", "", &["a", "\n", "é"], &["", "ab"]);
    check_pattern(r"^[\D_]$", "", &["a", "_", "é"], &["1"]);
    check_pattern(r"\bé", "", &["aé"], &["é", " é"]);
    check_pattern(r"\Bb", "", &["ab"], &["b", "éb"]);
    check_pattern(r"^\S\D$", "", &["ab"], &["a1", " b"]);
    check_pattern(r"^k$", "i", &["k", "K", "\u{212a}"], &["x"]);
    check_pattern(r"^\p{Lu}\pL\P{Nd}$", "", &["Éé-"], &["éé-", "Éé1"]);
}

#[test]
fn a_dollar_matches_before_the_last_newline() {
    check_pattern("a$", "", &["a", "ba", "a\n"], &["a\n\n", "a\nb", "ab"]);
    check_pattern("^(a|b$)", "", &["ab", "b", "b\n"], &["bc"]);
    check_pattern("(a$|^b)", "", &["xa", "bx", "xa\n"], &["xb"]);
    check_pattern(r"a\n$", "", &["a\n", "a\n\n"], &["a", "a\nb"]);
    check_pattern(r"a\z", "", &["a"], &["a\n"]);
    check_pattern("^$", "", &["", "\n"], &["a", "\n\n"]);
}

#[test]
fn no_line_starts_after_the_newline_at_the_end() {
    check_pattern("^$", "m", &["", "\n", "a\n\n", "\na"], &["a\n", "a", "a\nb\n"]);
    check_pattern("^x*$", "m", &["x\n", "a\nx\n", "a\n\nb"], &["a\n", "ax\nbx\n"]);
    check_pattern("(?m)^b", "", &["a\nb"], &["ab"]);
}

#[test]
fn vertical_space_and_angles_are_those_of_pcre() {
    check_pattern(r"^\v$", "", &["\u{b}", "\n", "\u{2028}"], &[" ", "v"]);
    check_pattern(r"^[\vx]$", "", &["\r", "x"], &["v"]);
    check_pattern(r"^\<a\>$", "", &["<a>"], &["a"]);
    check_pattern(r"^a\.b\-c\/d$", "", &["a.b-c/d"], &["axb-c/d"]);
}

#[test]
fn groups_carry_options_of_their_own() {
    check_pattern("(?i)ab", "", &["AB"], &["a"]);
    check_pattern("a(?i:b)c", "", &["aBc"], &["ABc", "aBC"]);
    check_pattern("^(?:a(?i)b|c)$", "", &["aB", "C"], &["AB"]);
    check_pattern("(?s:.)x", "", &["\nx"], &["x"]);
    check_pattern(r"(?<year>\d{4})-(?P<month>\d\d)", "", &["2024-05"], &["24-05"]);
}

#[test]
fn matching_takes_linear_time() {
    let text = "a".repeat(50_000);
    check_values(doc! { "$regex": "^(a+)+b$" }, &[bson!(format!("{text}b"))], &[bson!(text)]);
}
