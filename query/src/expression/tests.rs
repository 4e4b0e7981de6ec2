//! Expressions as a whole: paths, variables, objects, binding operators, folding, and properties of any expression.

use bson::oid::ObjectId;
use bson::{
    Bson, DateTime, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, bson, doc, rawdoc,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::expression::cases::{
    binary, check, check_error, check_missing, decimal, document, evaluate, millis, regex,
};
use crate::expression::error::Error;
use crate::expression::operator::OPERATORS;
use crate::expression::{ComputedFields, Expression, Metadata, Variables, reads_metadata, reads_sort_key};

fn raw(value: Bson) -> RawBson {
    RawBson::try_from(value).unwrap()
}

fn parse(expression: Bson) -> Result<Expression, Error> {
    Expression::parse(raw(expression).as_raw_bson_ref(), &Variables::default())
}

#[test]
fn paths_go_through_objects_and_map_arrays() {
    check("$n", 5);
    check("$object.c.d", bson!([1, 2]));
    check("$$ROOT.n", 5);
    check("$$CURRENT.object.a", 1);
    check("$items.price", bson!([2, 3]));
    check("$items.tags", bson!([["x", "y"]]));
    check("$list.x", bson!([]));
    check_missing("$missing");
    check_missing("$n.x");
    check("$list.0", bson!([]));
    check_missing("$object.x.y");
    check_missing("$a.b");
}

#[test]
fn paths_have_names() {
    check_error("$", 16_872);
    check_error("$a.", 40_353);
    check_error("$a..b", 15_998);
    check_error("$a.$b", 16_410);
    check_error("$a\0", 16_411);
    check_error("$$", 9);
    check_error("$$ROOT.", 40_353);
    check_error(format!("${}", vec!["a"; 201].join(".")), 15);
}

#[test]
fn variables_must_be_defined() {
    check("$$NOW", millis(1_000));
    check_missing("$$REMOVE");
    check_missing("$$REMOVE.a");
    check_error("$$nothing", 17_276);
    check_error("$$NOWHERE", 17_276);
    check_error("$$CLUSTER_TIME", 238);
    check_error("$$USER_ROLES.x", 238);
    check_error("$$1", 9);
    check_error("$$a-b", 9);
}

#[test]
fn objects_and_arrays_are_computed() {
    check(bson!({ "a": "$n", "b": ["$n", "$missing"] }), bson!({ "a": 5, "b": [5, null] }));
    check(bson!({ "a": "$missing", "b": { "c": "$missing" } }), bson!({ "b": {} }));
    check(bson!({}), bson!({}));
    check(bson!([]), bson!([]));
    check(regex("a", "i"), regex("a", "i"));
    check_error(bson!({ "$add": [1], "b": 1 }), 15_983);
    check_error(bson!({ "a": 1, "$add": [1] }), 16_410);
    check_error(bson!({ "a.b": 1 }), 16_412);
    check_error(bson!({ "": 1 }), 15_998);
    let twice =
        rawdoc! { "a": 1, "b": 2 }.into_bytes().iter().map(|b| if *b == b'b' { b'a' } else { *b }).collect();
    let twice = RawDocumentBuf::from_bytes(twice).unwrap();
    let error = Expression::parse(RawBsonRef::Document(&twice), &Variables::default()).unwrap_err();
    assert_eq!(error.code(), 16_406);
}

#[test]
fn unknown_unsupported_and_malformed_are_three_errors() {
    check_error(bson!({ "$nothing": 1 }), 168);
    check_error(bson!({ "$function": { "body": "f", "args": [], "lang": "js" } }), 238);
    check_error(bson!({ "$meta": "textScore" }), 238);
    check_error(bson!({ "$subtract": 1 }), 16_020);
    assert_eq!(
        parse(bson!({ "$nothing": 1 })).unwrap_err().to_string(),
        "Unrecognized expression '$nothing'"
    );
    assert_eq!(parse(bson!({ "$nothing": 1 })).unwrap_err().operator(), Some("$nothing"));
}

#[test]
fn let_defines_variables_for_its_body() {
    let bind = |vars: Bson, body: Bson| bson!({ "$let": { "vars": vars, "in": body } });
    check(bind(bson!({ "x": 1, "y": "$n" }), bson!({ "$add": ["$$x", "$$y"] })), 6);
    check(bind(bson!({ "x": "$object" }), bson!("$$x.c.d")), bson!([1, 2]));
    check(bind(bson!({ "x": { "a": { "b": 7 } } }), bson!("$$x.a.b")), 7);
    check(bind(bson!({ "x": 1 }), bind(bson!({ "y": "$$x" }), bson!(["$$x", "$$y"]))), bson!([1, 1]));
    check(bind(bson!({ "x": 1 }), bind(bson!({ "x": { "$add": ["$$x", 1] } }), bson!("$$x"))), 2);
    check(bind(bson!({ "CURRENT": "$object" }), bson!("$a")), 1);
    check(bind(bson!({ "CURRENT": "$object" }), bson!("$$ROOT.n")), 5);
    check(bind(bson!({}), bson!(1)), 1);
    check(bind(bson!({ "é": 1 }), bson!("$$é")), 1);
    check_missing(bind(bson!({ "x": "$missing" }), bson!("$$x")));
    check_error(bind(bson!({ "x": 1, "y": "$$x" }), bson!(1)), 17_276);
    check_error(bind(bson!({ "X": 1 }), bson!(1)), 9);
    check_error(bind(bson!({ "": 1 }), bson!(1)), 9);
    check_error(bind(bson!({ "a.b": 1 }), bson!(1)), 9);
    check_error(bind(bson!(1), bson!(1)), 10_065);
    check_error(bson!({ "$let": 1 }), 16_874);
    check_error(bson!({ "$let": { "x": 1 } }), 16_875);
    check_error(bson!({ "$let": { "in": 1 } }), 16_876);
    check_error(bson!({ "$let": { "vars": {} } }), 16_877);
}

#[test]
fn map_and_filter_go_over_elements() {
    let double = bson!({ "input": "$list", "in": { "$multiply": ["$$this", 2] } });
    check(bson!({ "$map": double }), bson!([6, 2, 4]));
    check(bson!({ "$map": { "input": "$items", "as": "i", "in": "$$i.price" } }), bson!([2, 3, null, [9]]));
    check(bson!({ "$map": { "input": "$missing", "in": 1 } }), Bson::Null);
    check(bson!({ "$map": { "input": [], "in": { "$divide": [1, 0] } } }), bson!([]));
    check_error(bson!({ "$map": { "input": 1, "in": 1 } }), 16_883);
    check_error(bson!({ "$map": 1 }), 16_878);
    check_error(bson!({ "$map": { "x": 1 } }), 16_879);
    check_error(bson!({ "$map": { "in": 1 } }), 16_880);
    check_error(bson!({ "$map": { "input": 1 } }), 16_882);
    check_error(bson!({ "$map": { "input": 1, "in": 1, "as": 1 } }), 9);
    let filter = |limit: Bson| bson!({ "$filter": { "input": "$list", "as": "x", "cond": { "$gt": ["$$x", 1] }, "limit": limit } });
    check(filter(Bson::Null), bson!([3, 2]));
    check(filter(bson!(1)), bson!([3]));
    check(bson!({ "$filter": { "input": null, "cond": 1 } }), Bson::Null);
    check_error(filter(bson!(0)), 327_392);
    check_error(filter(bson!("x")), 327_391);
    check_error(bson!({ "$filter": { "input": 1, "cond": 1 } }), 28_651);
    check_error(bson!({ "$filter": 1 }), 28_646);
    check_error(bson!({ "$filter": { "x": 1 } }), 28_647);
    check_error(bson!({ "$filter": { "cond": 1 } }), 28_648);
    check_error(bson!({ "$filter": { "input": 1 } }), 28_650);
}

#[test]
fn reduce_carries_a_value_along() {
    let reduce = |input: Bson, initial: Bson, body: Bson| bson!({ "$reduce": { "input": input, "initialValue": initial, "in": body } });
    check(
        reduce(bson!("$list"), bson!(""), bson!({ "$concat": ["$$value", { "$toString": "$$this" }] })),
        "312",
    );
    check(reduce(bson!([]), bson!("$n"), bson!(1)), 5);
    check(reduce(Bson::Null, bson!(1), bson!(1)), Bson::Null);
    check_error(reduce(bson!(1), bson!(1), bson!(1)), 40_080);
    check_error(bson!({ "$reduce": 1 }), 40_075);
    check_error(bson!({ "$reduce": { "x": 1 } }), 40_076);
    check_error(bson!({ "$reduce": { "initialValue": 1, "in": 1 } }), 40_077);
    check_error(bson!({ "$reduce": { "input": 1, "in": 1 } }), 40_078);
    check_error(bson!({ "$reduce": { "input": 1, "initialValue": 1 } }), 40_079);
}

#[test]
fn random_numbers_lie_between_zero_and_one_and_differ() {
    let number = || match evaluate(&bson!({ "$rand": {} })).unwrap() {
        Some(RawBson::Double(number)) => number,
        other => panic!("{other:?}"),
    };
    let numbers = (0..100).map(|_| number()).collect::<Vec<_>>();
    assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
    assert!(
        numbers.windows(2).any(|pair| pair[0] < pair[1]) && numbers.windows(2).any(|pair| pair[0] > pair[1])
    );
    check_error(bson!({ "$rand": 1 }), 3_040_501);
}

#[test]
fn what_is_constant_is_folded_and_fails_only_when_it_is_asked() {
    let constant =
        |expression: Bson| parse(expression).unwrap().constant().map(|value| value.map(RawBson::from));
    assert_eq!(constant(bson!({ "$add": [1, { "$size": [[1, 2]] }] })), Some(Some(RawBson::Int32(3))));
    assert_eq!(constant(bson!("$$REMOVE")), Some(None));
    assert_eq!(constant(bson!({ "$add": [1, "$n"] })), None);
    assert_eq!(constant(bson!({ "$divide": [1, 0] })), None);
    assert_eq!(constant(bson!({ "$rand": {} })), None);
    assert_eq!(constant(bson!("$$NOW")), None);
    assert_eq!(constant(bson!({ "$range": [0, 100_000] })), None);
    let kept = bson!({ "input": [1], "in": { "$let": { "vars": { "x": 2 }, "in": 3 } } });
    assert_eq!(constant(bson!({ "$map": kept })), Some(Some(raw(bson!([3])))));
}

#[test]
fn a_constant_pattern_is_refused_while_parsing() {
    assert_eq!(parse(bson!({ "$regexMatch": { "input": "$a", "regex": "(" } })).unwrap_err().code(), 51_111);
}

#[test]
fn nesting_is_bounded() {
    let nest = |levels: usize| (0..levels).fold(bson!(true), |inner, _| bson!({ "$not": inner }));
    assert!(parse(nest(100)).is_ok());
    assert_eq!(parse(nest(101)).unwrap_err().code(), 15);
    let arrays = (0..101).fold(bson!(1), |inner, _| bson!([inner]));
    assert_eq!(parse(arrays).unwrap_err().code(), 15);
    let maps = (0..50).fold(bson!("$$this"), |inner, _| bson!({ "$map": { "input": [1], "in": inner } }));
    assert!(evaluate(&maps).is_ok());
}

#[test]
fn variables_of_a_command_are_constants() {
    let let_document = rawdoc! { "x": { "$add": [1, 2] }, "y": { "$literal": "$a" }, "t": "$$NOW" };
    let variables = Variables::new(DateTime::from_millis(7)).with_let(&let_document).unwrap();
    assert_eq!(variables.names().collect::<Vec<_>>(), ["x", "y", "t"]);
    let sum = raw(bson!(["$$x", "$$y", "$$t"]));
    let sum = Expression::parse(sum.as_raw_bson_ref(), &variables).unwrap();
    let expected = raw(bson!([3, "$a", (millis(7))]));
    assert_eq!(sum.evaluate(&document(), &variables).unwrap(), Some(expected));
    let other = variables.clone().with("x", None).unwrap().with("y", Some(RawBson::Null)).unwrap();
    assert_eq!(sum.evaluate(&document(), &other).unwrap(), Some(raw(bson!([null, null, (millis(7))]))));
    let code = |document: RawDocumentBuf| Variables::default().with_let(&document).unwrap_err().code();
    assert_eq!(code(rawdoc! { "x": "$a" }), 4_890_500);
    assert_eq!(code(rawdoc! { "x": { "$add": ["$$ROOT", 1] } }), 4_890_500);
    assert_eq!(code(rawdoc! { "X": 1 }), 9);
    assert_eq!(code(rawdoc! { "x": { "$divide": [1, 0] } }), 2);
    assert_eq!(sum.evaluate(&document(), &Variables::default()).unwrap_err().code(), 17_276);
}

#[test]
fn truth_is_that_of_values() {
    assert!(Expression::is_true(Some(RawBsonRef::String(""))));
    assert!(!Expression::is_true(Some(RawBsonRef::Double(-0.0))));
    assert!(!Expression::is_true(None));
    let expression = parse(bson!({ "$gt": ["$n", 4] })).unwrap();
    assert!(expression.matches(&document(), &Variables::default()).unwrap());
}

fn any_scalar() -> impl Strategy<Value = Bson> {
    let id = ObjectId::from_bytes([7; 12]);
    let special = vec![
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        bson!(true),
        bson!(false),
        Bson::ObjectId(id),
        Bson::Timestamp(Timestamp { time: 5, increment: 1 }),
        Bson::Symbol("s".into()),
        Bson::JavaScriptCode("c".into()),
        binary(&[1, 2]),
        regex("a.", "i"),
        decimal("1.50"),
        decimal("-1E+6000"),
        decimal("NaN"),
        decimal("Infinity"),
        millis(1_582_979_696_789),
        millis(i64::MIN),
        millis(i64::MAX),
    ];
    let texts = vec![
        "",
        "a",
        "é",
        "abc",
        "$n",
        "$text",
        "$list",
        "$object",
        "$items.price",
        "$missing",
        "$$this",
        "$$value",
        "$$ROOT",
        "$$NOW",
        "$$REMOVE",
        "$",
        "$$",
        "2020-02-29",
        "day",
        "week",
        "month",
        "+02:00",
        "UTC",
        "Europe/Berlin",
        "%Y-%m",
        "int",
        "string",
        "(a)|b",
        "\u{0}",
        "sun",
    ];
    prop_oneof![
        2 => select(special),
        4 => select(texts).prop_map(|text| Bson::String(text.to_owned())),
        3 => (-3..12_i32).prop_map(Bson::Int32),
        1 => select(vec![i64::MIN, i64::MAX, 1 << 53]).prop_map(Bson::Int64),
        1 => select(vec![0.5, -0.0, 1e300, f64::NAN, f64::INFINITY, 2.0, 100.0]).prop_map(Bson::Double),
    ]
}

/// Calls of all operators with lists of arguments and with named ones, right and wrong ones.
fn any_expression() -> impl Strategy<Value = Bson> {
    const NAMES: [&str; 30] = [
        "input",
        "in",
        "as",
        "cond",
        "vars",
        "initialValue",
        "n",
        "sortBy",
        "date",
        "unit",
        "amount",
        "startDate",
        "endDate",
        "timezone",
        "format",
        "dateString",
        "onNull",
        "onError",
        "to",
        "if",
        "then",
        "else",
        "regex",
        "find",
        "replacement",
        "field",
        "value",
        "year",
        "isoWeekYear",
        "binSize",
    ];
    any_scalar().prop_recursive(5, 40, 6, |inner| {
        let operator = select(OPERATORS.names().collect::<Vec<_>>());
        let call = |arguments: BoxedStrategy<Bson>| {
            (operator.clone(), arguments).prop_map(|(name, arguments)| bson!({ name: arguments })).boxed()
        };
        let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Bson::Array).boxed();
        let named = prop::collection::vec((select(NAMES.to_vec()), inner.clone()), 0..5);
        let named = named.prop_map(|fields| {
            Bson::Document(
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Document>(),
            )
        });
        prop_oneof![
            4 => call(list.clone()),
            2 => call(inner.boxed()),
            4 => call(named.clone().boxed()),
            2 => binding(list.clone()),
            1 => list,
            1 => named,
        ]
    })
}

/// Correct calls of the operators that define variables.
fn binding(list: BoxedStrategy<Bson>) -> BoxedStrategy<Bson> {
    let operator = select(vec!["$map", "$filter", "$reduce", "$let", "$switch", "$zip", "$sortArray"]);
    (operator, list.clone(), list)
        .prop_map(|(operator, input, body)| match operator {
            "$map" => bson!({ "$map": { "input": input, "in": body } }),
            "$filter" => bson!({ "$filter": { "input": input, "cond": body } }),
            "$reduce" => bson!({ "$reduce": { "input": input, "initialValue": 1, "in": body } }),
            "$let" => bson!({ "$let": { "vars": { "this": input }, "in": body } }),
            "$switch" => bson!({ "$switch": { "branches": [{ "case": input, "then": body }] } }),
            "$zip" => bson!({ "$zip": { "inputs": [input, body] } }),
            _ => bson!({ "$sortArray": { "input": input, "sortBy": 1 } }),
        })
        .boxed()
}

/// The result of an evaluation must be well-formed BSON to its last byte.
fn check_value(value: Option<RawBson>) {
    let Some(value) = value else { return };
    let whole = RawDocumentBuf::from_iter([(bson::raw::cstr!("v"), value)]);
    Document::try_from(whole).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_expression_panics(expression in any_expression(), other in any_expression()) {
        if let Ok(value) = evaluate(&expression) {
            check_value(value);
        }
        let fields = RawDocumentBuf::try_from(&doc! { "list": expression, "object.b": other }).unwrap();
        let variables = Variables::default();
        if let Ok(computed) = ComputedFields::parse(&fields, &variables)
            && let Ok(document) = computed.apply(&document(), &variables)
        {
            Document::try_from(document).unwrap();
        }
    }

    #[test]
    fn malformed_expressions_and_documents_do_not_panic(
        expression in any_expression(),
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = RawDocumentBuf::try_from(&doc! { "e": expression }).unwrap().into_bytes();
        let inside = bytes.len() - 5;
        for (place, byte) in faults {
            bytes[4 + place.index(inside)] = byte;
        }
        let broken = RawDocument::from_bytes(&bytes).unwrap();
        let variables = Variables::default();
        if let Ok(Some(value)) = broken.get("e") && let Ok(parsed) = Expression::parse(value, &variables) {
            let _ = parsed.evaluate(&document(), &variables);
            let _ = parsed.evaluate(broken, &variables);
        }
        let copy = parse(bson!({ "$mergeObjects": ["$$ROOT", "$e", { "x": { "$objectToArray": "$e" } }] })).unwrap();
        let _ = copy.evaluate(broken, &variables);
        let _ = ComputedFields::parse(broken, &variables);
        let into = ComputedFields::parse(&rawdoc! { "e.a.b": 1, "e.c": "$e" }, &variables).unwrap();
        let _ = into.apply(broken, &variables);
    }

    #[test]
    fn folding_changes_no_value(values in prop::collection::vec(any_scalar(), 1..4), name in select(plain_operators())) {
        // The same arguments as constants, and as fields of a document. A text must not be a path.
        let without_dollar = |text: &str| Bson::String(text.replace('$', ""));
        let plain = |value: &Bson| value.as_str().map_or_else(|| value.clone(), without_dollar);
        let values = values.iter().map(plain).collect::<Vec<_>>();
        let stored = values.iter().enumerate().map(|(at, value)| (format!("f{at}"), value.clone()));
        let stored = RawDocumentBuf::try_from(&stored.collect::<Document>()).unwrap();
        let paths = (0..values.len()).map(|at| Bson::String(format!("$f{at}"))).collect::<Vec<_>>();
        let of = |arguments: Vec<Bson>| {
            let value = parse(bson!({ name: arguments })).and_then(|parsed| parsed.evaluate(&stored, &Variables::default()));
            value.map(|value| format!("{value:?}")).map_err(|error| error.code().number())
        };
        prop_assert_eq!(of(values), of(paths));
    }
}

/// Operators whose arguments are all values.
fn plain_operators() -> Vec<&'static str> {
    const OTHERS: [&str; 7] =
        ["$const", "$getField", "$literal", "$rand", "$setField", "$sortArray", "$unsetField"];
    OPERATORS.names().filter(|name| !OTHERS.contains(name)).collect()
}

#[test]
fn metadata_is_found_in_an_operand() {
    let key = rawdoc! { "a": [{ "key": { "$meta": "indexKey" } }] };
    assert!(reads_metadata(&key) && !reads_sort_key(&key));
    let sort = rawdoc! { "key": { "$meta": "sortKey" } };
    assert!(reads_metadata(&sort) && reads_sort_key(&sort));
    assert!(!reads_metadata(&rawdoc! { "meta": 1 }));
}

#[test]
fn metadata_comes_back_from_a_document() {
    for metadata in [
        Metadata::default(),
        Metadata { rand_val: Some(0.5), ..Metadata::default() },
        Metadata { record_id: Some(RawBson::Int32(7)), ..Metadata::default() },
    ] {
        assert_eq!(Metadata::restore(&metadata.stored()), metadata);
    }
}

#[cfg(feature = "collation")]
#[test]
fn a_collation_compares_the_texts_of_an_expression() {
    let english = index::collation::Collation::parse(&rawdoc! { "locale": "en", "strength": 2 }).unwrap();
    let variables = Variables::default().with_collation(english);
    let same = raw(bson!({ "$eq": ["$name", "ada"] }));
    let same = Expression::parse(same.as_raw_bson_ref(), &variables).unwrap();
    assert!(same.matches(&rawdoc! { "name": "ADA" }, &variables).unwrap());
}

#[test]
fn elements_have_positions() {
    check(bson!({ "$map": { "input": ["a", "b"], "in": ["$$this", "$$IDX"] } }), bson!([["a", 0], ["b", 1]]));
    check(
        bson!({ "$map": { "input": ["a"], "as": "x", "arrayIndexAs": "i", "in": ["$$x", "$$i"] } }),
        bson!([["a", 0]]),
    );
    let nested =
        bson!({ "$map": { "input": [1, 2], "arrayIndexAs": "j", "in": { "$add": ["$$IDX", "$$j"] } } });
    check(bson!({ "$map": { "input": [1, 2], "in": nested } }), bson!([[0, 1], [1, 2]]));
    check(
        bson!({ "$filter": { "input": [5, 1, 2], "cond": { "$eq": ["$$this", "$$IDX"] } } }),
        bson!([1, 2]),
    );
    let sum = bson!({ "$add": ["$$value", { "$multiply": ["$$this", "$$IDX"] }] });
    check(bson!({ "$reduce": { "input": [1, 2, 3], "initialValue": 0, "in": sum } }), bson!(8));
    let named = bson!({ "input": [1, 2], "initialValue": 0, "as": "x", "valueAs": "sum", "arrayIndexAs": "i", "in": { "$add": ["$$sum", "$$x", "$$i"] } });
    check(bson!({ "$reduce": named }), bson!(4));
    for (wrong, code) in [
        (bson!({ "$map": { "input": [1], "arrayIndexAs": "i", "in": "$$IDX" } }), 17_276),
        (bson!({ "$map": { "input": "$$IDX", "in": 1 } }), 17_276),
        (bson!({ "$map": { "input": [1], "arrayIndexAs": "IDX", "in": 1 } }), 9),
        (bson!({ "$map": { "input": [1], "arrayIndexAs": 5, "in": 1 } }), 9),
        (bson!({ "$map": { "input": [1], "as": "i", "arrayIndexAs": "i", "in": 1 } }), 9_375_801),
        (bson!({ "$map": { "input": [1], "arrayIndexAs": "this", "in": 1 } }), 9_375_801),
        (bson!({ "$filter": { "input": [1], "as": "i", "arrayIndexAs": "i", "cond": 1 } }), 9_375_802),
        (bson!({ "$filter": { "input": [1], "cond": 1, "limit": "$$IDX" } }), 17_276),
        (
            bson!({ "$reduce": { "input": [1], "initialValue": 0, "as": "i", "valueAs": "i", "in": 1 } }),
            9_298_401,
        ),
        (bson!({ "$reduce": { "input": [1], "initialValue": 0, "as": "i", "in": "$$this" } }), 17_276),
        (bson!({ "$reduce": { "input": [1], "initialValue": "$$IDX", "in": 1 } }), 17_276),
    ] {
        check_error(wrong, code);
    }
}

/// `$$NOW` is that of the command, and `$currentDate` the clock.
#[test]
fn the_current_date_is_that_of_the_evaluation() {
    let before = bson::DateTime::now();
    let found = evaluate(&bson!({ "$currentDate": {} })).expect("evaluated").expect("a date");
    let found = found.as_datetime().expect("a date");
    assert!(before <= found && found <= bson::DateTime::now(), "{before} {found}");
    check(bson!({ "$gt": [{ "$currentDate": [] }, "$$NOW"] }), bson!(true));
    for wrong in [bson!(1), bson!({ "a": 1 }), bson!([1]), Bson::Null] {
        check_error(bson!({ "$currentDate": wrong }), 9_428_201);
    }
}
