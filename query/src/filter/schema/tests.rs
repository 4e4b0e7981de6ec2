//! Every keyword at its limits, and every rejection with its number.

use bson::{Bson, Document, RawDocumentBuf, bson, doc};

use crate::error::{Error, Fault};
use crate::filter::Filter;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

#[track_caller]
fn check_document(schema: &Document, document: &Document, is_match: bool) {
    let filter = Filter::parse(&raw(&doc! { "$jsonSchema": schema.clone() })).unwrap();
    assert_eq!(filter.matches(&raw(document)), is_match, "{document} by {schema}");
}

/// Checks which values of one property are valid by a schema.
#[track_caller]
fn check(schema: &Document, valid: &[Bson], refused: &[Bson]) {
    let schema = doc! { "properties": { "a": schema.clone() } };
    for (values, is_match) in [(valid, true), (refused, false)] {
        for value in values {
            check_document(&schema, &doc! { "a": value.clone() }, is_match);
        }
    }
    check_document(&schema, &doc! {}, true);
}

#[track_caller]
fn refuse(schema: impl Into<Bson>) -> Error {
    Filter::parse(&raw(&doc! { "$jsonSchema": schema.into() })).map(drop).unwrap_err()
}

#[track_caller]
fn check_refused(schema: impl Into<Bson>, code: i32, text: &str) {
    let error = refuse(schema);
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text));
}

#[test]
fn types_are_named_in_two_ways() {
    check(
        &doc! { "type": "number" },
        &[bson!(1), bson!(1.5), bson!(2_i64), decimal("1")],
        &[bson!("1"), Bson::Null],
    );
    check(&doc! { "type": ["null", "boolean"] }, &[Bson::Null, bson!(true)], &[bson!(0), Bson::Undefined]);
    check(&doc! { "type": "object" }, &[bson!({})], &[bson!([]), bson!(1)]);
    check(&doc! { "type": "array" }, &[bson!([])], &[bson!({})]);
    check(&doc! { "type": "string" }, &[bson!("")], &[Bson::Symbol(String::new())]);
    check(&doc! { "bsonType": "int" }, &[bson!(1)], &[bson!(1.0), bson!(1_i64)]);
    check(
        &doc! { "bsonType": ["objectId", "number"] },
        &[bson!(1_i64), bson::oid::ObjectId::new().into()],
        &[bson!("")],
    );
    check_document(&doc! { "type": "object" }, &doc! {}, true);
    check_document(&doc! { "type": "string" }, &doc! {}, false);
}

#[test]
fn numbers_have_bounds() {
    let others = [bson!("x"), Bson::Null, bson!([0])];
    check(
        &doc! { "minimum": 3 },
        &[bson!(3), bson!(3.5), decimal("3.0")],
        &[bson!(2), bson!(2.9), bson!(f64::NAN)],
    );
    check(&doc! { "minimum": 3 }, &others, &[]);
    check(&doc! { "minimum": 3, "exclusiveMinimum": true }, &[bson!(3.1)], &[bson!(3)]);
    check(&doc! { "minimum": 3, "exclusiveMinimum": false }, &[bson!(3)], &[bson!(2)]);
    check(&doc! { "maximum": 3_i64 }, &[bson!(3), bson!(f64::NEG_INFINITY)], &[bson!(3.1), bson!(4)]);
    check(&doc! { "maximum": 3, "exclusiveMaximum": true }, &[bson!(2)], &[bson!(3), decimal("3")]);
}

#[test]
fn multiples_are_divided_as_decimals() {
    check(&doc! { "multipleOf": 3 }, &[bson!(9), bson!(0), bson!(-6.0), bson!("x")], &[bson!(1), bson!(4.5)]);
    check(
        &doc! { "multipleOf": 0.1 },
        &[bson!(0.3), bson!(7), decimal("0.7")],
        &[bson!(0.35), bson!(f64::INFINITY)],
    );
    check(&doc! { "multipleOf": decimal("1E+6000") }, &[bson!(0), decimal("3E+6001")], &[bson!(5)]);
    check(&doc! { "multipleOf": decimal("1E-6000") }, &[bson!(5)], &[decimal("1E-6001")]);
}

#[test]
fn strings_are_counted_in_characters() {
    check(&doc! { "minLength": 2 }, &[bson!("ab"), bson!("äö"), bson!(5)], &[bson!("a"), bson!("ä")]);
    check(&doc! { "maxLength": 2 }, &[bson!(""), bson!("äö")], &[bson!("abc")]);
    check(&doc! { "pattern": "^a.c" }, &[bson!("abcd"), bson!(1)], &[bson!("xabc"), bson!("")]);
    check(&doc! { "minLength": 1_i64, "maxLength": 1.0 }, &[bson!("a")], &[bson!(""), bson!("ab")]);
}

#[test]
fn arrays_have_lengths_and_schemas_for_their_elements() {
    check(
        &doc! { "minItems": 1, "maxItems": 2 },
        &[bson!([1]), bson!([1, 2]), bson!({})],
        &[bson!([]), bson!([1, 2, 3])],
    );
    check(
        &doc! { "uniqueItems": true },
        &[bson!([1, 2]), bson!([])],
        &[bson!([1, 1.0]), bson!([{ "a": 1, "b": 2 }, { "b": 2, "a": 1 }])],
    );
    check(&doc! { "uniqueItems": false }, &[bson!([1, 1])], &[]);
    check(
        &doc! { "items": { "type": "string" } },
        &[bson!([]), bson!(["a"]), bson!(5)],
        &[bson!([1]), bson!(["a", 1])],
    );
    let pair = doc! { "items": [{ "type": "string" }, { "type": "number" }] };
    check(&pair, &[bson!(["a", 1]), bson!(["a"]), bson!(["a", 1, "more"])], &[bson!([1]), bson!(["a", "b"])]);
    let mut closed = pair.clone();
    closed.insert("additionalItems", false);
    check(&closed, &[bson!(["a", 1]), bson!([])], &[bson!(["a", 1, 2])]);
    closed.insert("additionalItems", doc! { "type": "null" });
    check(&closed, &[bson!(["a", 1, Bson::Null])], &[bson!(["a", 1, 2])]);
    // Without a list of schemas there are no additional elements.
    check(&doc! { "additionalItems": false }, &[bson!([1, 2])], &[]);
    check(&doc! { "items": {}, "additionalItems": false }, &[bson!([1, 2])], &[]);
}

#[test]
fn objects_have_required_and_allowed_fields() {
    check(
        &doc! { "required": ["b"] },
        &[bson!({ "b": Bson::Null }), bson!(5)],
        &[bson!({}), bson!({ "c": 1 })],
    );
    check(
        &doc! { "minProperties": 1, "maxProperties": 2 },
        &[bson!({ "b": 1 })],
        &[bson!({}), bson!({ "b": 1, "c": 1, "d": 1 })],
    );
    let schema = doc! {
        "properties": { "b": { "type": "number" } },
        "patternProperties": { "^x": { "type": "string" } },
        "additionalProperties": false,
    };
    check(
        &schema,
        &[bson!({ "b": 1, "x1": "s" }), bson!({})],
        &[bson!({ "b": "s" }), bson!({ "x1": 1 }), bson!({ "c": 1 })],
    );
    let schema = doc! { "additionalProperties": { "type": "number" }, "properties": { "b": {} } };
    check(&schema, &[bson!({ "b": "s", "c": 1 })], &[bson!({ "c": "s" })]);
    let both =
        doc! { "properties": { "b": { "minimum": 1 } }, "patternProperties": { "b": { "maximum": 2 } } };
    check(&both, &[bson!({ "b": 1 }), bson!({ "b": 2 })], &[bson!({ "b": 0 }), bson!({ "b": 3 })]);
    check_document(&doc! { "required": ["a", "b"] }, &doc! { "a": 1 }, false);
    check_document(&doc! { "required": ["a.b"] }, &doc! { "a": { "b": 1 } }, false);
}

#[test]
fn dependencies_ask_for_more_where_a_field_is() {
    let fields = doc! { "dependencies": { "b": ["c", "d"] } };
    check(
        &fields,
        &[bson!({}), bson!({ "c": 1 }), bson!({ "b": 1, "c": 1, "d": 1 }), bson!(1)],
        &[bson!({ "b": 1, "c": 1 })],
    );
    let schema = doc! { "dependencies": { "b": { "required": ["c"] } } };
    check(&schema, &[bson!({}), bson!({ "b": 1, "c": 1 })], &[bson!({ "b": 1 })]);
    check_document(&fields, &doc! { "b": 1 }, false);
}

#[test]
fn schemas_are_combined() {
    let (low, high) = (doc! { "maximum": 5 }, doc! { "minimum": 3 });
    check(&doc! { "allOf": [low.clone(), high.clone()] }, &[bson!(4), bson!("x")], &[bson!(2), bson!(6)]);
    check(&doc! { "anyOf": [{ "maximum": 3 }, { "minimum": 5 }] }, &[bson!(2), bson!(6)], &[bson!(4)]);
    check(&doc! { "oneOf": [low, high] }, &[bson!(2), bson!(6)], &[bson!(4), bson!("x")]);
    check(&doc! { "not": { "type": "string" } }, &[bson!(1)], &[bson!("x")]);
    check(&doc! { "not": {} }, &[], &[bson!(1)]);
}

#[test]
fn enumerations_hold_values_whatever_the_order_of_fields() {
    let schema = doc! { "enum": [1, "a", Bson::Null, { "b": 1, "c": 2 }, [1, 2]] };
    let valid = [bson!(1.0), bson!("a"), Bson::Null, bson!({ "c": 2, "b": 1 }), bson!([1, 2])];
    check(&schema, &valid, &[bson!(2), bson!([2, 1]), bson!([1]), Bson::Undefined]);
    check_document(&doc! { "enum": [{ "a": 1 }, 5] }, &doc! { "a": 1 }, true);
    check_document(&doc! { "enum": [5] }, &doc! { "a": 1 }, false);
}

#[test]
fn titles_and_descriptions_say_nothing() {
    check_document(&doc! { "title": "t", "description": "d" }, &doc! { "a": 1 }, true);
    check_document(&doc! {}, &doc! { "a": 1 }, true);
}

#[test]
fn schemas_stand_beside_other_conditions() {
    let filter = doc! { "$or": [{ "$jsonSchema": { "required": ["a"] } }, { "b": 1 }], "c": 1 };
    let filter = Filter::parse(&raw(&filter)).unwrap();
    assert!(filter.matches(&raw(&doc! { "a": 1, "c": 1 })) && filter.matches(&raw(&doc! { "b": 1, "c": 1 })));
    assert!(!filter.matches(&raw(&doc! { "c": 1 })));
    let inside = doc! { "a": { "$elemMatch": { "$jsonSchema": { "required": ["b"] } } } };
    let inside = Filter::parse(&raw(&inside)).unwrap();
    assert!(
        inside.matches(&raw(&doc! { "a": [1, { "b": 1 }] })) && !inside.matches(&raw(&doc! { "a": [{}] }))
    );
}

#[test]
fn unknown_refused_and_unsupported_keywords_are_three_errors() {
    check_refused(doc! { "foo": 1 }, 9, "malformed $jsonSchema: keyword 'foo': it is unknown");
    for keyword in ["$ref", "$schema", "default", "definitions", "format", "id"] {
        let text = format!("malformed $jsonSchema: keyword '{keyword}': it is not supported");
        check_refused(doc! { keyword: 1 }, 9, &text);
    }
    for keyword in ["encrypt", "encryptMetadata"] {
        check_refused(
            doc! { keyword: {} },
            238,
            &format!("operator $jsonSchema: {keyword} is not supported"),
        );
    }
    let nested = doc! { "properties": { "a": { "items": [{ "properties": { "b": { "foo": 1 } } }] } } };
    check_refused(nested, 9, "malformed $jsonSchema of 'a.b': keyword 'foo': it is unknown");
}

#[test]
fn malformed_keywords_are_refused_by_number() {
    let mistyped = [
        bson!(5),
        bson!({ "properties": 1 }),
        bson!({ "properties": { "a": 1 } }),
        bson!({ "patternProperties": { "a": 1 } }),
        bson!({ "additionalProperties": 1 }),
        bson!({ "additionalItems": 1 }),
        bson!({ "items": 1 }),
        bson!({ "items": [1] }),
        bson!({ "required": "a" }),
        bson!({ "required": [1] }),
        bson!({ "type": 1 }),
        bson!({ "type": [1] }),
        bson!({ "minimum": "1" }),
        bson!({ "minimum": 1, "exclusiveMinimum": 1 }),
        bson!({ "multipleOf": "1" }),
        bson!({ "pattern": 1 }),
        bson!({ "uniqueItems": 1 }),
        bson!({ "allOf": {} }),
        bson!({ "anyOf": [1] }),
        bson!({ "not": [] }),
        bson!({ "enum": 1 }),
        bson!({ "dependencies": 1 }),
        bson!({ "dependencies": { "a": 1 } }),
        bson!({ "dependencies": { "a": [1] } }),
        bson!({ "title": 1 }),
        bson!({ "description": {} }),
    ];
    for schema in mistyped {
        assert_eq!(refuse(schema.clone()).code(), 14, "{schema}");
    }
    let unreadable = [
        bson!({ "minLength": -1 }),
        bson!({ "maxItems": 1.5 }),
        bson!({ "minProperties": "1" }),
        bson!({ "required": [] }),
        bson!({ "required": ["a", "a"] }),
        bson!({ "type": [] }),
        bson!({ "type": "integer" }),
        bson!({ "bsonType": ["int", "integer"] }),
        bson!({ "type": ["null", "null"] }),
        bson!({ "type": "null", "bsonType": "null" }),
        bson!({ "exclusiveMaximum": true }),
        bson!({ "exclusiveMinimum": true, "maximum": 1 }),
        bson!({ "multipleOf": 0 }),
        bson!({ "multipleOf": -0.5 }),
        bson!({ "enum": [] }),
        bson!({ "enum": [1, 1.0] }),
        bson!({ "dependencies": { "a": [] } }),
        bson!({ "dependencies": { "a": ["b", "b"] } }),
    ];
    for schema in unreadable {
        assert_eq!(refuse(schema.clone()).code(), 9, "{schema}");
    }
    for schema in [bson!({ "type": "int" }), bson!({ "bsonType": "x" }), bson!({ "allOf": [] })] {
        assert_eq!(refuse(schema.clone()).code(), 2, "{schema}");
    }
    assert_eq!(refuse(bson!({ "pattern": "(" })).code(), 51_091);
}

#[test]
fn schemas_are_not_nested_too_deeply() {
    let nest = |levels: usize| (0..levels).fold(doc! {}, |schema, _| doc! { "not": schema });
    check_document(&nest(100), &doc! {}, true);
    let error = refuse(nest(101));
    assert!(matches!(error, Error::Malformed { fault: Fault::TooDeep { limit: 100 }, .. }));
}
