//! The rejections: unknown operators, operators that are not supported, and malformed arguments.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, bson, cstr, doc};
use cairndb_query::error::{Error, Fault};
use cairndb_query::filter::Filter;

use crate::filter::{decimal, raw, regex};

#[track_caller]
fn refuse(filter: &Document) -> Error {
    match Filter::parse(&raw(filter)) {
        Ok(_) => panic!("{filter} is accepted"),
        Err(error) => error,
    }
}

/// Checks code and text; that both path and operator are named shows in the text.
#[track_caller]
fn check(filter: &Document, code: i32, text: &str) {
    let error = refuse(filter);
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text), "{filter}");
}

#[track_caller]
fn check_operand(operator: &str, operand: impl Into<Bson>, code: i32, fault: &str) {
    check(
        &doc! { "a.b": { operator: operand.into() } },
        code,
        &format!("malformed {operator} of 'a.b': {fault}"),
    );
}

#[test]
fn unknown_unsupported_and_malformed_are_three_errors() {
    let unknown = refuse(&doc! { "a": { "$foo": 1 } });
    assert!(matches!(&unknown, Error::UnknownOperator { .. }));
    let unsupported = refuse(&doc! { "a": { "$near": [0, 0] } });
    assert!(matches!(&unsupported, Error::UnsupportedOperator { .. }));
    let malformed = refuse(&doc! { "a": { "$in": 1 } });
    assert!(matches!(&malformed, Error::Malformed { fault: Fault::WrongType { .. }, .. }));
    let named = [&unknown, &unsupported, &malformed].map(|error| (error.path(), error.operator()));
    assert_eq!(named, [("a", Some("$foo")), ("a", Some("$near")), ("a", Some("$in"))]);
}

#[test]
fn unknown_operators_are_named_with_their_path() {
    check(&doc! { "$foo": 1 }, 2, "unknown top level operator: $foo");
    check(&doc! { "$gt": 1 }, 2, "unknown top level operator: $gt");
    check(&doc! { "a.b": { "$foo": 1 } }, 2, "unknown operator: $foo of 'a.b'");
    check(&doc! { "a": { "$gt": 1, "b": 2 } }, 2, "unknown operator: b of 'a'");
    check(&doc! { "a": { "$and": [] } }, 2, "unknown operator: $and of 'a'");
    check(&doc! { "a": { "$not": { "b": 1 } } }, 2, "unknown operator: b of 'a'");
    check(&doc! { "a": { "$elemMatch": { "b": { "$foo": 1 } } } }, 2, "unknown operator: $foo of 'a.b'");
    check(&doc! { "a": { "$elemMatch": { "$foo": 1 } } }, 2, "unknown operator: $foo of 'a'");
    check(
        &doc! { "a": { "$ref": 1, "$id": 2, "$gt": 1, "$db": "x" } , "b": { "$id": 1 } },
        2,
        "unknown operator: $id of 'b'",
    );
}

#[test]
fn operators_of_mongodb_that_are_not_here_are_refused_by_name() {
    for clause in ["$expr", "$text", "$where"] {
        check(&doc! { clause: 1 }, 238, &format!("operator {clause} is not supported"));
    }
    for operator in [
        "$geoIntersects",
        "$geoNear",
        "$geoWithin",
        "$maxDistance",
        "$minDistance",
        "$near",
        "$nearSphere",
        "$within",
    ] {
        check(&doc! { "a": { operator: 1 } }, 238, &format!("operator {operator} of 'a' is not supported"));
    }
}

#[test]
fn lists_of_filters_must_hold_objects() {
    for clause in ["$and", "$or", "$nor"] {
        check(&doc! { clause: 1 }, 2, &format!("malformed {clause}: an array is needed, not 1"));
        check(&doc! { clause: [] }, 2, &format!("malformed {clause}: the array must not be empty"));
        check(
            &doc! { clause: [{}, "x"] },
            2,
            &format!("malformed {clause}: member 1 must be an object, not \"x\""),
        );
    }
}

#[test]
fn undefined_and_patterns_are_not_compared() {
    for relation in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"] {
        check_operand(relation, Bson::Undefined, 2, "cannot compare to undefined");
    }
    for relation in ["$ne", "$gt", "$gte", "$lt", "$lte"] {
        check_operand(relation, regex("x", ""), 2, "cannot compare to a regular expression");
    }
    check(&doc! { "a": Bson::Undefined }, 2, "malformed $eq of 'a': cannot compare to undefined");
    check_operand("$in", bson!([Bson::Undefined]), 2, "cannot compare to undefined");
    check_operand("$all", bson!([Bson::Undefined]), 2, "cannot compare to undefined");
}

#[test]
fn lists_of_values_hold_no_operators() {
    for operator in ["$in", "$nin", "$all"] {
        check_operand(operator, 5, 2, "an array is needed, not 5");
        check_operand(operator, doc! {}, 2, "an array is needed, not an object");
        let fault = "member 1 holds $gt, and operators are not allowed there";
        check_operand(operator, bson!([1, { "$gt": 1 }]), 2, fault);
    }
}

#[test]
fn members_of_all_are_element_matches_or_none_is() {
    let fault = "either all members or none must be $elemMatch, and member 1 differs";
    check_operand("$all", bson!([{ "$elemMatch": { "x": 1 } }, 5]), 2, fault);
    check_operand("$all", bson!([5, { "$elemMatch": { "x": 1 } }]), 2, fault);
}

#[test]
fn not_needs_operators_or_a_pattern() {
    let expected = "an object of operators or a regular expression is needed";
    check_operand("$not", 5, 2, &format!("{expected}, not 5"));
    check_operand("$not", "x", 2, &format!("{expected}, not \"x\""));
    check_operand("$not", doc! {}, 2, "the object of operators must not be empty");
    check_operand("$elemMatch", 5, 2, "an object is needed, not 5");
    check_operand("$elemMatch", bson!([]), 2, "an object is needed, not an array");
}

#[test]
fn lengths_are_integers_of_zero_or_more() {
    for (operand, found) in
        [(bson!(-1), "-1"), (bson!(1.5), "1.5"), (bson!("1"), "\"1\""), (bson!(f64::NAN), "NaN")]
    {
        check_operand("$size", operand, 2, &format!("a length of 0 or more is needed, not {found}"));
    }
}

#[test]
fn mod_needs_two_numbers_within_64_bits() {
    check_operand("$mod", 5, 2, "an array is needed, not 5");
    check_operand("$mod", bson!([]), 2, "a divisor and a remainder are needed, not 0 values");
    check_operand("$mod", bson!([1]), 2, "a divisor and a remainder are needed, not 1 values");
    check_operand("$mod", bson!([1, 2, 3]), 2, "a divisor and a remainder are needed, not 3 values");
    check_operand("$mod", bson!([0, 1]), 2, "divisor cannot be 0");
    check_operand("$mod", bson!([0.9, 1]), 2, "divisor cannot be 0");
    check_operand("$mod", bson!([f64::NAN, 1]), 2, "the divisor must be a number within 64 bits, not NaN");
    check_operand("$mod", bson!([1, "x"]), 2, "the remainder must be a number within 64 bits, not \"x\"");
    check_operand("$mod", bson!([1, 1e300]), 2, "the remainder must be a number within 64 bits, not 1e300");
}

#[test]
fn types_are_known_names_or_numbers() {
    check_operand("$type", "integer", 2, "\"integer\" is not the name of a type");
    check_operand("$type", 0, 2, "0 is not the number of a type");
    check_operand("$type", 20, 2, "20 is not the number of a type");
    check_operand("$type", 255, 2, "255 is not the number of a type");
    check_operand("$type", 1.5, 2, "1.5 is not the number of a type");
    check_operand("$type", decimal("1E+40"), 2, "the decimal 1E+40 is not the number of a type");
    check_operand("$type", bson!([]), 9, "at least one type is needed");
    check_operand("$type", true, 14, "a type is a number or a name, not true");
    check_operand("$type", bson!([1, null]), 14, "a type is a number or a name, not null");
}

#[test]
fn masks_and_positions_are_not_negative() {
    for test in ["$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"] {
        let mask = "a mask must be an integer from 0 to 9223372036854775807";
        check_operand(test, -1, 9, &format!("{mask}, not -1"));
        check_operand(test, 0.5, 9, &format!("{mask}, not 0.5"));
        let position = "bit position 1 of the list must be an integer from 0 to 2147483647";
        check_operand(test, bson!([0, -1]), 2, &format!("{position}, not -1"));
        check_operand(test, bson!([0, 2_147_483_648_i64]), 2, &format!("{position}, not 2147483648"));
        check_operand(test, bson!([0, "x"]), 2, &format!("{position}, not \"x\""));
        let expected = "a number, binary data or an array of positions is needed";
        check_operand(test, "x", 2, &format!("{expected}, not \"x\""));
    }
}

#[test]
fn constants_take_one() {
    check(&doc! { "$alwaysTrue": true }, 9, "malformed $alwaysTrue: the argument must be 1, not true");
    check(&doc! { "$alwaysFalse": 0 }, 9, "malformed $alwaysFalse: the argument must be 1, not 0");
}

#[test]
fn options_stand_once_and_beside_a_pattern() {
    let twice = "malformed $regex of 'a': options are set in both $regex and $options";
    check(&doc! { "a": { "$regex": regex("x", "i"), "$options": "m" } }, 51_075, twice);
    check(&doc! { "a": { "$options": "m", "$regex": regex("x", "i") } }, 51_074, twice);
    check(&doc! { "a": { "$options": "i" } }, 2, "malformed $options of 'a': $options needs a $regex");
    check(
        &doc! { "a": { "$regex": "x", "$options": 5 } },
        2,
        "malformed $options of 'a': a string is needed, not 5",
    );
    check(
        &doc! { "a": { "$regex": "x", "$options": "iz" } },
        51_108,
        "malformed $regex of 'a': 'z' is not an option of a regular expression",
    );
    check_operand("$regex", 5, 2, "a string or a regular expression is needed, not 5");
    check_operand("$regex", "a\0", 2, "a regular expression cannot hold a zero character");
    let fault = "a regular expression of 32765 bytes is longer than the limit of 32764";
    check_operand("$regex", "x".repeat(32_765), 51_091, fault);
}

#[test]
fn broken_patterns_are_malformed() {
    for pattern in ["(", "a)", "[a", "*a", "a{3,2}", "[b-a]", "\\", r"\y", r"\u0041"] {
        let error = refuse(&doc! { "a": { "$in": [regex(pattern, "")] } });
        assert!(
            matches!(&error, Error::Malformed { fault: Fault::PatternInvalid { .. }, .. }),
            "{pattern}: {error}"
        );
        assert_eq!(error.code(), 51_091);
    }
}

#[test]
fn what_pcre_knows_is_read() {
    let patterns = [
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        r"(a)\1",
        "(?>a)",
        "a++",
        "a*+",
        "a{2}+",
        r"\h",
        r"\R",
        r"\Qa.b\E",
        r"\Z",
        r"\K",
        "(*UCP)a",
        "(?#x)",
        "a{",
        "a{,3}",
        "{a}",
        "[a[b]]",
        "[a&&b]",
        "[[a]",
        r"\p{Greek}",
        "a$b",
        "(a$)+",
        r"\b{start}a",
        "(?|a)",
        r"[\b]",
    ];
    for pattern in patterns {
        assert!(Filter::parse(&raw(&doc! { "a": regex(pattern, "") })).is_ok(), "{pattern}");
    }
    for (pattern, options) in [("a^b", "m"), (r"^a\z", "m"), ("[ a]", "x"), (r"[\wé]", "i"), (r"\p{Lu}", "i")]
    {
        assert!(Filter::parse(&raw(&doc! { "a": regex(pattern, options) })).is_ok(), "{pattern}");
    }
}

#[test]
fn what_pcre_refuses_is_refused_in_its_words() {
    let cases = [
        ("((a{500}){500}){500}", "regular expression is too large"),
        ("^*", "quantifier does not follow a repeatable item"),
        ("(?<n", "syntax error in subpattern name (missing terminator?)"),
    ];
    for (pattern, words) in cases {
        let error = refuse(&doc! { "a": regex(pattern, "") });
        assert_eq!((error.code().number(), error.path(), error.operator()), (51_091, "a", Some("$regex")));
        let text = error.to_string();
        assert!(text.contains(pattern) && text.contains(words), "{text}");
    }
}

#[test]
fn paths_hold_no_zero_character_but_may_be_empty() {
    assert!(Filter::parse(&raw(&doc! { "": 1, "a.": 2, ".": 3 })).is_ok());
}

/// Wraps `value` in `depth` documents or lists made by `wrap`.
fn nest(depth: usize, mut value: Document, wrap: impl Fn(Document) -> Document) -> Document {
    for _ in 0..depth {
        value = wrap(value);
    }
    value
}

#[track_caller]
fn check_depth(wrap: impl Fn(Document) -> Document, core: &Document, levels: usize) {
    assert!(Filter::parse(&raw(&nest(levels, core.clone(), &wrap))).is_ok());
    let error = refuse(&nest(levels + 1, core.clone(), &wrap));
    assert!(matches!(&error, Error::Malformed { fault: Fault::TooDeep { limit: 100 }, .. }), "{error}");
    assert_eq!(error.code(), 2);
}

#[test]
fn operators_nest_a_hundred_levels() {
    check_depth(|inner| doc! { "$and": [inner] }, &doc! { "a": 1 }, 100);
    check_depth(|inner| doc! { "$nor": [inner] }, &doc! { "a": 1 }, 100);
    check_depth(|inner| doc! { "a": { "$elemMatch": inner } }, &doc! { "a": 1 }, 50);
    let error = refuse(&doc! { "a": nest(101, doc! { "$gt": 1 }, |inner| doc! { "$not": inner }) });
    assert!(matches!(&error, Error::Malformed { fault: Fault::TooDeep { .. }, .. }), "{error}");
}

/// `{name: {name: ...}}`, built from inside out without recursion.
fn deep(levels: usize, name: &bson::raw::CStr) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for _ in 0..levels {
        let mut outer = RawDocumentBuf::new();
        outer.append(name, document);
        document = outer;
    }
    document
}

#[test]
fn no_depth_overflows_the_stack() {
    assert!(Filter::parse(&deep(10_000, cstr!("$not"))).is_err());
    let mut field = RawDocumentBuf::new();
    field.append(cstr!("a"), deep(10_000, cstr!("$not")));
    assert!(Filter::parse(&field).is_err());
    let value = deep(10_000, cstr!("a"));
    let filter = Filter::parse(&value).expect("a deep value is a value");
    assert!(filter.matches(&value));
    assert!(!filter.matches(&deep(9_999, cstr!("a"))));
}

#[test]
fn broken_bytes_are_named_by_their_field() {
    // An `$in` whose array announces a value of the unknown type 0x55.
    let bytes = b"\x1c\0\0\0\x03a\0\x14\0\0\0\x04$in\0\x0a\0\0\0\x550\0\0\0\0\0\0";
    let filter = RawDocument::from_bytes(bytes).expect("a document on the outside");
    let error = Filter::parse(filter).expect_err("broken inside");
    assert!(matches!(&error, Error::InvalidBson { path, .. } if path == "a"), "{error}");
    assert_eq!((error.code().number(), error.operator()), (22, None));
}

#[test]
fn a_partial_index_has_no_other_operators() {
    let refused = |filter: Document| Filter::parse(&raw(&filter)).unwrap().refused_in_partial_index();
    assert_eq!(
        refused(doc! { "age": { "$gte": 18 }, "$or": [{ "a": { "$exists": true } }, { "b": 1 }] }),
        None
    );
    assert_eq!(refused(doc! { "age": 5, "name": { "$regex": "^A" } }), Some("$regex"));
}
