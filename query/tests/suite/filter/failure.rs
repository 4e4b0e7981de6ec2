//! The reason why a document does not match: the details that MongoDB has for a validator, part by part.

use bson::{Bson, DateTime, Document, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::filter::failure::{describe_briefly, describe_failure};
use cairndb_query::operation::{Allowance, CancellationToken, OperationContext};

use proptest::prelude::*;

use crate::filter::model;
use crate::filter::raw;

#[track_caller]
fn told(validator: &Document, document: &Document) -> Document {
    let variables = Variables::new(DateTime::from_millis(86_400_000));
    let filter = Filter::parse_with(&raw(validator), &variables).expect("a validator");
    let is_match = filter.try_matches(&raw(document), &variables);
    assert!(!matches!(is_match, Ok(true)), "{document} matches {validator}");
    describe_failure(&raw(validator), &raw(document), &variables, 1 << 20).expect("described")
}

#[track_caller]
fn check(validator: &Document, document: &Document, details: &Document) {
    let mut told = told(validator, document);
    assert_eq!(told.remove("failingDocumentId"), document.get("_id").cloned());
    assert_eq!(told, doc! { "details": details.clone() }, "{document} by {validator}");
}

/// Checks the only rule of a schema that a document breaks.
#[track_caller]
fn check_rule(schema: &Document, document: &Document, rule: &Document) {
    let details = doc! { "operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [rule.clone()] };
    check(&doc! { "$jsonSchema": schema.clone() }, document, &details);
}

/// Checks the only rule of a property `a` that a value breaks.
#[track_caller]
fn check_property(schema: &Document, value: Bson, rule: &Document) {
    let property = doc! { "propertyName": "a", "details": [rule.clone()] };
    let rule = doc! { "operatorName": "properties", "propertiesNotSatisfied": [property] };
    check_rule(&doc! { "properties": { "a": schema.clone() } }, &doc! { "_id": 1, "a": value }, &rule);
}

/// Checks an operator of the field `a`. `rest` is what follows its name and how it was given.
#[track_caller]
fn check_operator(operators: &Document, value: Option<Bson>, rest: &Document) {
    let validator = doc! { "a": operators.clone() };
    let document: Document = [("_id".to_owned(), bson!(1))]
        .into_iter()
        .chain(value.map(|value| ("a".to_owned(), value)))
        .collect();
    let mut details = doc! { "operatorName": operators.keys().next().expect("an operator"), "specifiedAs": validator.clone() };
    details.extend(rest.clone());
    check(&validator, &document, &details);
}

#[test]
fn a_short_description_has_no_values() {
    let (validator, document) = (raw(&doc! { "age": { "$gte": 18 } }), raw(&doc! { "_id": 1, "age": 7 }));
    let told = describe_briefly(&validator, &document, &Variables::default()).expect("described");
    let details = doc! { "operatorName": "$gte", "reason": "comparison failed" };
    assert_eq!(told, doc! { "failingDocumentId": 1, "details": details });
}

#[test]
fn an_operator_tells_its_reason_and_the_values_it_looked_at() {
    let failed = |value: Bson| doc! { "reason": "comparison failed", "consideredValue": value };
    for operator in ["$gt", "$gte", "$eq"] {
        check_operator(&doc! { operator: 5 }, Some(bson!(1)), &failed(bson!(1)));
    }
    for operator in ["$lt", "$lte"] {
        check_operator(&doc! { operator: 5 }, Some(bson!(9)), &failed(bson!(9)));
    }
    let several = doc! { "reason": "comparison failed", "consideredValues": [1, 2] };
    check_operator(&doc! { "$gt": 5 }, Some(bson!([1, 2])), &several);
    check_operator(&doc! { "$gt": 5 }, None, &doc! { "reason": "field was missing" });
    let none = doc! { "reason": "no matching value found in array", "consideredValue": 3 };
    check_operator(&doc! { "$in": [1, 2] }, Some(bson!(3)), &none);
    let remainder = doc! { "reason": "$mod did not evaluate to expected remainder", "consideredValue": 5 };
    check_operator(&doc! { "$mod": [4, 0] }, Some(bson!(5)), &remainder);
    let length = doc! { "reason": "array length was not equal to given size", "consideredValue": [1] };
    check_operator(&doc! { "$size": 2 }, Some(bson!([1])), &length);
    let bits = doc! { "reason": "bitwise operator failed to match", "consideredValue": 1 };
    check_operator(&doc! { "$bitsAllSet": 6 }, Some(bson!(1)), &bits);
    let all = doc! { "reason": "array did not contain all specified values", "consideredValue": [1] };
    check_operator(&doc! { "$all": [1, 2] }, Some(bson!([1])), &all);
    let element = doc! { "reason": "array did not satisfy the child predicate", "consideredValue": [1] };
    check_operator(&doc! { "$elemMatch": { "$gt": 2 } }, Some(bson!([1])), &element);
    check_operator(&doc! { "$exists": true }, None, &doc! { "reason": "path does not exist" });
    let pattern = doc! { "reason": "regular expression did not match", "consideredValue": "b" };
    check_operator(&doc! { "$regex": "^a", "$options": "i" }, Some(bson!("b")), &pattern);
}

#[test]
fn a_type_that_cannot_match_is_the_reason() {
    let of_type = |considered: &str, value: Bson, rest: Document| {
        let mut told = doc! { "reason": "type did not match", "consideredType": considered };
        told.extend(rest);
        told.insert("consideredValue", value);
        told
    };
    let numbers = doc! { "expectedTypes": ["decimal", "double", "int", "long"] };
    check_operator(&doc! { "$mod": [4, 0] }, Some(bson!("x")), &of_type("string", bson!("x"), numbers));
    let array = doc! { "expectedType": "array" };
    check_operator(&doc! { "$size": 2 }, Some(bson!(1)), &of_type("int", bson!(1), array));
    let told = doc! { "reason": "type did not match", "consideredValue": 1, "consideredType": "int" };
    check_operator(&doc! { "$type": "string" }, Some(bson!(1)), &told);
    let several = doc! {
        "reason": "type did not match", "consideredValues": [1, true], "consideredTypes": ["bool", "int"],
    };
    check_operator(&doc! { "$type": "string" }, Some(bson!([1, true])), &several);
}

#[test]
fn negations_tell_what_was_met() {
    let met = |reason: &str| doc! { "reason": reason, "consideredValue": 1 };
    check_operator(&doc! { "$ne": 1 }, Some(bson!(1)), &met("comparison succeeded"));
    check_operator(&doc! { "$nin": [1] }, Some(bson!(1)), &met("matching value found in array"));
    check_operator(&doc! { "$exists": false }, Some(bson!(1)), &doc! { "reason": "path does exist" });
    let inner = doc! {
        "operatorName": "$gt", "specifiedAs": { "a": { "$gt": 0 } },
        "reason": "comparison succeeded", "consideredValue": 1,
    };
    let validator = doc! { "a": { "$not": { "$gt": 0 } } };
    check(&validator, &doc! { "_id": 1, "a": 1 }, &doc! { "operatorName": "$not", "details": inner.clone() });
    let nor = doc! { "$nor": [{ "a": 5 }, { "a": { "$gt": 0 } }] };
    let clauses = [doc! { "index": 1_i64, "details": inner }];
    check(&nor, &doc! { "_id": 1, "a": 1 }, &doc! { "operatorName": "$nor", "clausesNotSatisfied": clauses });
    // In a negation all parts of an `$and` have matched, and of an `$or` those that did are reported.
    let equal = |path: &str, reason: &str, value: i32| {
        doc! {
            "operatorName": "$eq", "specifiedAs": { path: value }, "reason": reason, "consideredValue": value,
        }
    };
    let met = |path, value| equal(path, "comparison succeeded", value);
    let both = doc! { "$nor": [{ "a": 1, "b": 2 }] };
    let clauses =
        [doc! { "index": 0_i64, "details": met("a", 1) }, doc! { "index": 1_i64, "details": met("b", 2) }];
    let and = doc! { "operatorName": "$and", "clausesSatisfied": clauses };
    let expected =
        doc! { "operatorName": "$nor", "clausesNotSatisfied": [{ "index": 0_i64, "details": and }] };
    check(&both, &doc! { "_id": 1, "a": 1, "b": 2 }, &expected);
    let either = doc! { "$nor": [{ "$or": [{ "a": 7 }, { "b": 2 }] }] };
    let or = doc! { "operatorName": "$or", "clausesSatisfied": [{ "index": 1_i64, "details": met("b", 2) }] };
    let expected =
        doc! { "operatorName": "$nor", "clausesNotSatisfied": [{ "index": 0_i64, "details": or }] };
    check(&either, &doc! { "_id": 1, "a": 1, "b": 2 }, &expected);
}

#[test]
fn clauses_are_told_by_their_position() {
    let failed = |path: &str, wanted: i32, value: i32| {
        doc! {
            "operatorName": "$eq", "specifiedAs": { path: wanted },
            "reason": "comparison failed", "consideredValue": value,
        }
    };
    let document = doc! { "_id": 1, "a": 1, "b": 1, "c": 1 };
    let implicit = doc! { "a": 1, "b": 2, "c": 3 };
    let clauses = [
        doc! { "index": 1_i64, "details": failed("b", 2, 1) },
        doc! { "index": 2_i64, "details": failed("c", 3, 1) },
    ];
    check(&implicit, &document, &doc! { "operatorName": "$and", "clausesNotSatisfied": clauses.clone() });
    let explicit = doc! { "$and": [{ "a": 1 }, { "b": 2 }, { "c": 3 }] };
    check(&explicit, &document, &doc! { "operatorName": "$and", "clausesNotSatisfied": clauses });
    let or = doc! { "$or": [{ "b": 2 }, { "c": 3 }] };
    let clauses = [
        doc! { "index": 0_i64, "details": failed("b", 2, 1) },
        doc! { "index": 1_i64, "details": failed("c", 3, 1) },
    ];
    check(&or, &document, &doc! { "operatorName": "$or", "clausesNotSatisfied": clauses });
    let always = doc! { "$alwaysFalse": 1 };
    let reason = "expression always evaluates to false";
    check(
        &always,
        &document,
        &doc! { "operatorName": "$alwaysFalse", "specifiedAs": always.clone(), "reason": reason },
    );
}

#[test]
fn an_expression_tells_its_value_or_its_error() {
    let validator = doc! { "$expr": { "$gt": ["$a", "$b"] } };
    let details = doc! {
        "operatorName": "$expr", "specifiedAs": validator.clone(),
        "reason": "expression did not match", "expressionResult": false,
    };
    check(&validator, &doc! { "_id": 1, "a": 1, "b": 2 }, &details);
    let now = doc! { "$expr": { "$lt": ["$at", "$$NOW"] } };
    let later = doc! { "_id": 1, "at": DateTime::from_millis(i64::MAX) };
    assert_eq!(
        told(&now, &later).get_document("details").unwrap().get_bool("expressionResult").ok(),
        Some(false)
    );
    let divides = doc! { "$expr": { "$divide": ["$a", "$b"] } };
    let details = told(&divides, &doc! { "_id": 1, "a": 1, "b": 0 });
    let details = details.get_document("details").unwrap();
    assert_eq!(details.get_str("reason").ok(), Some("failed to evaluate aggregation expression"));
    assert!(details.get_document("details").unwrap().get_i32("code").is_ok(), "{details}");
}

#[test]
fn rules_of_one_value_are_told_with_it() {
    let rule = |keyword: &str, value: Bson, rest: Document| {
        let mut rule = doc! { "operatorName": keyword, "specifiedAs": { keyword: value } };
        rule.extend(rest);
        rule
    };
    let told = |reason: &str, value: Bson| doc! { "reason": reason, "consideredValue": value };
    let minimum = rule("minimum", bson!(5), told("comparison failed", bson!(1)));
    check_property(&doc! { "minimum": 5 }, bson!(1), &minimum);
    let exclusive = doc! { "maximum": 5, "exclusiveMaximum": true };
    let maximum = doc! {
        "operatorName": "maximum", "specifiedAs": exclusive.clone(),
        "reason": "comparison failed", "consideredValue": 5,
    };
    check_property(&exclusive, bson!(5), &maximum);
    let multiple = told("considered value is not a multiple of the specified value", bson!(4));
    check_property(&doc! { "multipleOf": 3 }, bson!(4), &rule("multipleOf", bson!(3), multiple));
    let length = told("specified string length was not satisfied", bson!("ab"));
    check_property(&doc! { "minLength": 3 }, bson!("ab"), &rule("minLength", bson!(3), length.clone()));
    check_property(&doc! { "maxLength": 1 }, bson!("ab"), &rule("maxLength", bson!(1), length));
    let pattern = told("regular expression did not match", bson!("ab"));
    check_property(&doc! { "pattern": "^x" }, bson!("ab"), &rule("pattern", bson!("^x"), pattern));
    let found = told("value was not found in enum", bson!(3));
    check_property(&doc! { "enum": [1, 2] }, bson!(3), &rule("enum", bson!([1, 2]), found));
    let mut of_type = told("type did not match", bson!("x"));
    of_type.insert("consideredType", "string");
    let named = bson!(["int", "double"]);
    check_property(
        &doc! { "bsonType": named.clone() },
        bson!("x"),
        &rule("bsonType", named, of_type.clone()),
    );
    check_property(&doc! { "type": "number" }, bson!("x"), &rule("type", bson!("number"), of_type));
    let mut items = told("array did not match specified length", bson!([1]));
    items.insert("numberOfItems", 1);
    check_property(&doc! { "minItems": 2 }, bson!([1]), &rule("minItems", bson!(2), items));
    let mut unique = told("found a duplicate item", bson!([1, 2, 1.0]));
    unique.insert("duplicatedValue", 1.0);
    check_property(
        &doc! { "uniqueItems": true },
        bson!([1, 2, 1.0]),
        &rule("uniqueItems", bson!(true), unique),
    );
    let properties =
        doc! { "reason": "specified number of properties was not satisfied", "numberOfProperties": 1 };
    check_property(
        &doc! { "minProperties": 2 },
        bson!({ "x": 1 }),
        &rule("minProperties", bson!(2), properties),
    );
}

#[test]
fn rules_of_a_document_name_its_fields() {
    let required = doc! { "required": ["b", "a", "c"] };
    let rule = doc! {
        "operatorName": "required", "specifiedAs": required.clone(), "missingProperties": ["b", "c"],
    };
    check_rule(&required, &doc! { "_id": 1, "a": 1 }, &rule);
    let schema = doc! { "properties": { "_id": {} }, "additionalProperties": false };
    let rule = doc! {
        "operatorName": "additionalProperties", "specifiedAs": { "additionalProperties": false },
        "additionalProperties": ["a", "b"],
    };
    check_rule(&schema, &doc! { "_id": 1, "a": 1, "b": 1 }, &rule);
    let typed = doc! {
        "operatorName": "bsonType", "specifiedAs": { "bsonType": "int" },
        "reason": "type did not match", "consideredValue": "x", "consideredType": "string",
    };
    let schema = doc! { "additionalProperties": { "bsonType": "int" } };
    let rule = doc! {
        "operatorName": "additionalProperties",
        "reason": "at least one additional property did not match the subschema",
        "failingProperty": "a", "details": [typed.clone()],
    };
    check_rule(&schema, &doc! { "_id": 1, "a": "x", "b": "y" }, &rule);
    let schema = doc! { "patternProperties": { "^a": { "bsonType": "int" } } };
    let matched = doc! { "propertyName": "ab", "regexMatched": "^a", "details": [typed] };
    let rule = doc! { "operatorName": "patternProperties", "details": [matched] };
    check_rule(&schema, &doc! { "_id": 1, "ab": "x" }, &rule);
    let schema = doc! { "dependencies": { "a": ["b", "c"], "d": { "required": ["e"] } } };
    let inner =
        doc! { "operatorName": "required", "specifiedAs": { "required": ["e"] }, "missingProperties": ["e"] };
    let failing = [
        doc! { "conditionalProperty": "a", "missingProperties": ["c"] },
        doc! { "conditionalProperty": "d", "details": [inner] },
    ];
    let rule = doc! { "operatorName": "dependencies", "failingDependencies": failing };
    check_rule(&schema, &doc! { "_id": 1, "a": 1, "b": 1, "d": 1 }, &rule);
}

#[test]
fn rules_of_elements_and_alternatives_name_the_position() {
    let typed = |value: Bson, name: &str| {
        doc! {
            "operatorName": "bsonType", "specifiedAs": { "bsonType": "int" },
            "reason": "type did not match", "consideredValue": value, "consideredType": name,
        }
    };
    let int = doc! { "bsonType": "int" };
    let rule = doc! {
        "operatorName": "items", "reason": "At least one item did not match the sub-schema",
        "itemIndex": 1_i64, "details": [typed(bson!("x"), "string")],
    };
    check_property(&doc! { "items": int.clone() }, bson!([1, "x", "y"]), &rule);
    let item = doc! { "itemIndex": 0_i64, "details": [typed(bson!("x"), "string")] };
    let rule = doc! { "operatorName": "items", "details": [item] };
    check_property(&doc! { "items": [int.clone()] }, bson!(["x", 2]), &rule);
    let rule = doc! {
        "operatorName": "additionalItems", "specifiedAs": { "additionalItems": false },
        "reason": "found additional items", "additionalItems": [2, 3],
    };
    check_property(&doc! { "items": [int.clone()], "additionalItems": false }, bson!([1, 2, 3]), &rule);
    let rule = doc! {
        "operatorName": "additionalItems", "reason": "At least one additional item did not match the sub-schema",
        "itemIndex": 2_i64, "details": [typed(bson!("x"), "string")],
    };
    check_property(&doc! { "items": [{}], "additionalItems": int.clone() }, bson!([1, 2, "x"]), &rule);
    let failed = doc! { "index": 1_i64, "title": "whole", "details": [typed(bson!(1.5), "double")] };
    let titled = doc! { "bsonType": "int", "title": "whole" };
    let all = doc! { "operatorName": "allOf", "schemasNotSatisfied": [failed.clone()] };
    check_property(&doc! { "allOf": [{}, titled.clone()] }, bson!(1.5), &all);
    for keyword in ["anyOf", "oneOf"] {
        let first = doc! { "index": 0_i64, "details": [typed(bson!(1.5), "double")] };
        let rule = doc! { "operatorName": keyword, "schemasNotSatisfied": [first, failed.clone()] };
        check_property(&doc! { keyword: [int.clone(), titled.clone()] }, bson!(1.5), &rule);
    }
    let rule = doc! {
        "operatorName": "oneOf", "reason": "more than one subschema matched", "matchingSchemaIndexes": [0, 2],
    };
    check_property(&doc! { "oneOf": [{}, { "type": "string" }, int.clone()] }, bson!(1), &rule);
    check_property(
        &doc! { "not": int },
        bson!(1),
        &doc! { "operatorName": "not", "reason": "child expression matched" },
    );
}

#[test]
fn titles_and_descriptions_stand_beside_what_they_describe() {
    let schema = doc! {
        "title": "Person", "description": "of a list",
        "properties": { "age": { "bsonType": "int", "description": "must be whole" } },
    };
    let rule = doc! {
        "operatorName": "bsonType", "specifiedAs": { "bsonType": "int" },
        "reason": "type did not match", "consideredValue": "x", "consideredType": "string",
    };
    let property = doc! { "propertyName": "age", "description": "must be whole", "details": [rule] };
    let details = doc! {
        "operatorName": "$jsonSchema", "title": "Person", "description": "of a list",
        "schemaRulesNotSatisfied": [{ "operatorName": "properties", "propertiesNotSatisfied": [property] }],
    };
    check(&doc! { "$jsonSchema": schema.clone() }, &doc! { "_id": 1, "age": "x" }, &details);
    let inner = doc! { "operatorName": "$jsonSchema", "reason": "schema matched" };
    let clauses = [doc! { "index": 0_i64, "details": inner }];
    let expected = doc! { "operatorName": "$nor", "clausesNotSatisfied": clauses };
    check(&doc! { "$nor": [{ "$jsonSchema": schema }] }, &doc! { "_id": 1, "age": 1 }, &expected);
    let none = doc! {
        "operatorName": "bsonType", "specifiedAs": { "bsonType": "array" },
        "reason": "expression always evaluates to false",
    };
    check_rule(&doc! { "bsonType": "array" }, &doc! { "_id": 1 }, &none);
}

#[test]
fn at_most_ten_values_are_told() {
    let values: Vec<i32> = (0..11).collect();
    let details = told(&doc! { "a": { "$gt": 99 } }, &doc! { "_id": 1, "a": values });
    let details = details.get_document("details").unwrap();
    assert_eq!(details.get_array("consideredValues").unwrap().len(), 10);
    assert_eq!(details.get_bool("consideredValuesTruncated").ok(), Some(true));
}

#[test]
fn details_that_are_too_large_leave_out_what_they_repeat() {
    let long = "x".repeat(10_000);
    let validator = doc! { "a": { "$lt": long.clone() }, "$jsonSchema": { "required": ["b"] } };
    let document = raw(&doc! { "_id": 1, "a": format!("{long}y") });
    let describe = |bytes| {
        describe_failure(&raw(&validator), &document, &Variables::default(), bytes).expect("described")
    };
    assert!(describe(100_000).get("truncated").is_none());
    let shortened = describe(10_000);
    assert_eq!(shortened.get_bool("truncated").ok(), Some(true));
    let text = shortened.to_string();
    assert!(text.contains("comparison failed") && text.contains("missingProperties"), "{text}");
    assert!(!text.contains("specifiedAs") && text.len() < 1_000, "{text}");
    assert_eq!(describe(10), doc! { "failingDocumentId": 1, "note": "detailed error was too large" });
}

#[test]
fn deep_schemas_are_told_without_their_levels() {
    let deep = |levels: usize| {
        let inner = doc! { "bsonType": "int" };
        let schema = (0..levels).fold(inner, |inner, _| doc! { "properties": { "a": inner } });
        let document = (0..levels).fold(bson!("x"), |inner, _| bson!({ "a": inner }));
        let Bson::Document(mut document) = document else { unreachable!("an object was made") };
        document.insert("_id", 1);
        told(&doc! { "$jsonSchema": schema }, &document)
    };
    assert!(deep(10).to_string().contains("type did not match"));
    let expected = doc! { "reason": "generated error was too deeply nested", "truncated": true };
    assert_eq!(deep(95), expected);
}

#[test]
fn a_name_that_is_there_twice_is_looked_at_twice() {
    let schema = raw(&doc! { "$jsonSchema": { "properties": { "a": { "bsonType": "int" } } } });
    let mut document = raw(&doc! { "_id": 1, "a": 1 });
    document.append(bson::raw::cstr!("a"), "x");
    let told = describe_failure(&schema, &document, &Variables::default(), 1 << 20).expect("described");
    assert!(told.to_string().contains("type did not match"), "{told}");
}

#[test]
fn telling_ends_with_the_operation() {
    let token = CancellationToken::new();
    let operation = OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
    let variables = Variables::default().within(operation);
    token.cancel();
    let validator =
        raw(&doc! { "$jsonSchema": { "properties": { "a": { "items": { "bsonType": "int" } } } } });
    let values: Vec<Bson> = (0..50_000).map(Bson::Int32).chain([bson!("x")]).collect();
    // The operation is asked now and then, and a telling of one step would be over before.
    let told = describe_failure(&validator, &raw(&doc! { "_id": 1, "a": values }), &variables, 1 << 20);
    assert!(told.is_err(), "{told:?}");
}

/// A schema of a few keywords, nested a few levels.
fn schema() -> impl Strategy<Value = Document> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let leaf = prop_oneof![
        prop::sample::select(vec!["int", "string", "array", "object", "number"])
            .prop_map(|name| doc! { "bsonType": name }),
        (-3..3_i32).prop_map(|least| doc! { "minimum": least }),
        (-3..3_i32).prop_map(|most| doc! { "maximum": most, "exclusiveMaximum": true }),
        (0..3_i32).prop_map(|count| doc! { "minItems": count, "uniqueItems": true }),
        (0..3_i32).prop_map(|count| doc! { "maxLength": count, "maxProperties": count }),
        model::scalar().prop_map(|value| doc! { "enum": [value] }),
        name().prop_map(|name| doc! { "required": [name] }),
        name().prop_map(|name| doc! { "properties": { name: {} }, "additionalProperties": false }),
        (name(), name()).prop_map(|(one, other)| doc! { "dependencies": { one: [other] } }),
    ];
    leaf.prop_recursive(3, 16, 3, move |inner| {
        let name = || prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            (name(), inner.clone()).prop_map(|(name, schema)| doc! { "properties": { name: schema } }),
            (name(), inner.clone()).prop_map(|(name, schema)| doc! { "dependencies": { name: schema } }),
            inner.clone().prop_map(|schema| doc! { "items": schema }),
            inner.clone().prop_map(|schema| doc! { "items": [{}], "additionalItems": schema }),
            inner.clone().prop_map(|schema| doc! { "items": [schema], "additionalItems": false }),
            inner.clone().prop_map(|schema| doc! { "patternProperties": { "^[ab]": schema } }),
            inner.clone().prop_map(|schema| doc! { "additionalProperties": schema }),
            inner.clone().prop_map(|schema| doc! { "not": schema }),
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf"]), prop::collection::vec(inner, 1..3))
                .prop_map(|(keyword, schemas)| doc! { keyword: schemas }),
        ]
    })
}

/// The verdict and the telling are two walks, which must not disagree: what is rejected has a reason, and what is told is
/// rejected.
#[track_caller]
fn check_agreement(validator: &Document, document: &Document) {
    let (validator, document) = (raw(validator), raw(document));
    let filter = Filter::parse(&validator).expect("a validator");
    let told = describe_failure(&validator, &document, &Variables::default(), 1 << 20).expect("described");
    let is_told = told.get_document("details").is_ok_and(|details| details.contains_key("operatorName"));
    assert_eq!(is_told, !filter.matches(&document), "{document:?} by {validator:?}: {told}");
}

proptest! {
    #[test]
    fn what_a_filter_refuses_is_told(filter in model::filter(), documents in prop::collection::vec(model::document(), 16)) {
        for document in &documents {
            check_agreement(&filter, document);
        }
    }

    #[test]
    fn what_a_schema_refuses_is_told(schema in schema(), documents in prop::collection::vec(model::document(), 16)) {
        for document in &documents {
            check_agreement(&doc! { "$jsonSchema": schema.clone() }, document);
            check_agreement(&doc! { "$nor": [{ "$jsonSchema": schema.clone() }] }, document);
        }
    }
}
