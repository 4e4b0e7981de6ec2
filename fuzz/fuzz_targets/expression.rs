//! No expression and no document panics; a value is well-formed; what is constant is folded to what it evaluates to;
//! and a filter asks an expression for the truth of its value.

#![no_main]

use bson::raw::{RawDocumentBuf, cstr};
use bson::{Bson, Document, RawBson, RawDocument, doc};
use cairndb_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use query::expression::{ComputedFields, Expression, Variables};
use query::filter::Filter;

const OPERATORS: [&str; 168] = [
    "$abs",
    "$acos",
    "$acosh",
    "$add",
    "$allElementsTrue",
    "$and",
    "$anyElementTrue",
    "$arrayElemAt",
    "$arrayToObject",
    "$asin",
    "$asinh",
    "$atan",
    "$atan2",
    "$atanh",
    "$avg",
    "$binarySize",
    "$bitAnd",
    "$bitNot",
    "$bitOr",
    "$bitXor",
    "$bsonSize",
    "$ceil",
    "$cmp",
    "$concat",
    "$concatArrays",
    "$cond",
    "$const",
    "$convert",
    "$cos",
    "$cosh",
    "$dateAdd",
    "$dateDiff",
    "$dateFromParts",
    "$dateFromString",
    "$dateSubtract",
    "$dateToParts",
    "$dateToString",
    "$dateTrunc",
    "$dayOfMonth",
    "$dayOfWeek",
    "$dayOfYear",
    "$degreesToRadians",
    "$divide",
    "$eq",
    "$exp",
    "$filter",
    "$first",
    "$firstN",
    "$floor",
    "$getField",
    "$gt",
    "$gte",
    "$hour",
    "$ifNull",
    "$in",
    "$indexOfArray",
    "$indexOfBytes",
    "$indexOfCP",
    "$isArray",
    "$isNumber",
    "$isoDayOfWeek",
    "$isoWeek",
    "$isoWeekYear",
    "$last",
    "$lastN",
    "$let",
    "$literal",
    "$ln",
    "$log",
    "$log10",
    "$lt",
    "$lte",
    "$ltrim",
    "$map",
    "$max",
    "$maxN",
    "$mergeObjects",
    "$millisecond",
    "$min",
    "$minN",
    "$minute",
    "$mod",
    "$month",
    "$multiply",
    "$ne",
    "$not",
    "$objectToArray",
    "$or",
    "$pow",
    "$radiansToDegrees",
    "$rand",
    "$range",
    "$reduce",
    "$regexFind",
    "$regexFindAll",
    "$regexMatch",
    "$replaceAll",
    "$replaceOne",
    "$reverseArray",
    "$round",
    "$rtrim",
    "$second",
    "$setDifference",
    "$setEquals",
    "$setField",
    "$setIntersection",
    "$setIsSubset",
    "$setUnion",
    "$sin",
    "$sinh",
    "$size",
    "$slice",
    "$sortArray",
    "$split",
    "$sqrt",
    "$stdDevPop",
    "$stdDevSamp",
    "$strLenBytes",
    "$strLenCP",
    "$strcasecmp",
    "$substr",
    "$substrBytes",
    "$substrCP",
    "$subtract",
    "$sum",
    "$switch",
    "$tan",
    "$tanh",
    "$toBool",
    "$toDate",
    "$toDecimal",
    "$toDouble",
    "$toInt",
    "$toLong",
    "$toLower",
    "$toObjectId",
    "$toString",
    "$toUpper",
    "$trim",
    "$trunc",
    "$tsIncrement",
    "$tsSecond",
    "$type",
    "$unsetField",
    "$week",
    "$year",
    "$zip",
    "$bottom",
    "$bottomN",
    "$createObjectId",
    "$toObject",
    "$toArray",
    "$subtype",
    "$serializeEJSON",
    "$hexHash",
    "$hash",
    "$deserializeEJSON",
    "$currentDate",
    "$median",
    "$percentile",
    "$sigmoid",
    "$similarityCosine",
    "$similarityDotProduct",
    "$similarityEuclidean",
    "$toHashedIndexKey",
    "$toUUID",
    "$top",
    "$topN",
];
/// Names of arguments.
const NAMES: [&str; 53] = [
    "algorithm",
    "arrayIndexAs",
    "base",
    "byteOrder",
    "relaxed",
    "valueAs",
    "input",
    "in",
    "as",
    "cond",
    "vars",
    "initialValue",
    "limit",
    "n",
    "sortBy",
    "branches",
    "case",
    "then",
    "default",
    "if",
    "else",
    "inputs",
    "useLongestLength",
    "defaults",
    "date",
    "unit",
    "amount",
    "startDate",
    "endDate",
    "startOfWeek",
    "timezone",
    "format",
    "dateString",
    "onNull",
    "onError",
    "to",
    "regex",
    "options",
    "find",
    "replacement",
    "chars",
    "field",
    "value",
    "year",
    "month",
    "isoWeekYear",
    "second",
    "binSize",
    "iso8601",
    "method",
    "p",
    "score",
    "vectors",
];
/// Paths, variables, and texts that mean something to some operator.
const TEXTS: [&str; 41] = [
    "$$IDX",
    "array",
    "object",
    "sha256",
    "[1, {\"a\": [null, \"\\u00e9\"]}]",
    "{\"$numberLong\": \"5\", \"b\": 1e3}",
    "$a",
    "$b",
    "$a.b",
    "$$this",
    "$$value",
    "$$ROOT",
    "$$NOW",
    "$$REMOVE",
    "$$x",
    "$$CURRENT.a",
    "",
    "a",
    "é",
    "abcabc",
    "day",
    "week",
    "month",
    "year",
    "hour",
    "+02:00",
    "UTC",
    "Europe/Berlin",
    "%Y-%m-%d",
    "2020-02-29",
    "2020-02-29T12:34:56.789Z",
    "int",
    "string",
    "date",
    "decimal",
    "(a)|b$",
    "imsx",
    "mon",
    "approximate",
    "continuous",
    "00112233-4455-6677-8899-aabbccddeeff",
];
const DEPTH_MAX: u32 = 6;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        return check_malformed(input.rest());
    }
    let expression = expression(&mut input, 0);
    let target = raw(&doc! { "a": plain(&mut input), "b": plain(&mut input) });
    check(expression, &target);
});

fn check(expression: Bson, target: &RawDocument) {
    let variables = Variables::default();
    let fields = raw(&doc! { "e": expression.clone(), "a.b": "$b" });
    if let Ok(fields) = ComputedFields::parse(&fields, &variables) {
        if let Ok(computed) = fields.apply(target, &variables) {
            assert!(Document::try_from(computed).is_ok());
        }
    }
    let Ok(raw_expression) = RawBson::try_from(expression.clone()) else { return };
    let parsed = match Expression::parse(raw_expression.as_raw_bson_ref(), &variables) {
        Ok(parsed) => parsed,
        Err(error) => return check_error(&error),
    };
    let text = expression.to_string();
    let is_random = ["$rand", "$createObjectId", "$currentDate"].iter().any(|name| text.contains(name));
    let value = parsed.evaluate(target, &variables);
    match &value {
        Ok(Some(value)) => {
            let whole = RawDocumentBuf::from_iter([(cstr!("v"), value.clone())]);
            assert!(Document::try_from(whole).is_ok());
        }
        Ok(None) => {}
        Err(error) => check_error(error),
    }
    if is_random {
        return;
    }
    let filter = Filter::parse_with(&raw(&doc! { "$nor": [{ "$expr": expression }] }), &variables);
    let Ok(filter) = filter else { panic!("the expression was read before") };
    let is_match = filter.try_matches(target, &variables).map_err(|error| error.code());
    let expected = value.map(|value| !Expression::is_true(value.as_ref().map(RawBson::as_raw_bson_ref)));
    assert_eq!(is_match, expected.map_err(|error| error.code()));
}

fn check_error(error: &query::expression::error::Error) {
    assert!(error.code().number() > 0);
    assert!(error.to_string().len() < 4_000, "{error}");
}

/// Bytes as expression and as document at once, framed so that the outside is whole.
fn check_malformed(elements: &[u8]) {
    let Ok(length) = i32::try_from(elements.len() + 5) else { return };
    let bytes = [length.to_le_bytes().as_slice(), elements, &[0]].concat();
    let Ok(document) = RawDocument::from_bytes(&bytes) else { return };
    let variables = Variables::default();
    for value in document.iter().map_while(Result::ok).map(|(_, value)| value) {
        if let Ok(parsed) = Expression::parse(value, &variables) {
            let _ = parsed.evaluate(document, &variables);
        }
    }
    let merge = raw(
        &doc! { "m": { "$mergeObjects": ["$$ROOT", "$a", { "x": { "$objectToArray": "$$ROOT" } }] }, "a.b": "$a.b" },
    );
    let _ = ComputedFields::parse(&merge, &variables).expect("computed fields").apply(document, &variables);
    if let Ok(fields) = ComputedFields::parse(document, &variables) {
        let _ = fields.apply(document, &variables);
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

fn pick(input: &mut Input<'_>, list: &[&str]) -> String {
    list.get(usize::from(input.byte()) % list.len()).copied().unwrap_or_default().to_owned()
}

fn expression(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 16 {
        0..=4 if depth < DEPTH_MAX => {
            let count = input.byte() % 5;
            let list = (0..count).map(|_| expression(input, depth + 1)).collect();
            call(input, Bson::Array(list))
        }
        5 | 6 if depth < DEPTH_MAX => {
            let argument = expression(input, depth + 1);
            call(input, argument)
        }
        7..=9 if depth < DEPTH_MAX => {
            let named = named(input, depth);
            call(input, named)
        }
        10 if depth < DEPTH_MAX => named(input, depth),
        11 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| expression(input, depth + 1)).collect())
        }
        12 => plain(input),
        13 => Bson::Int32(i32::from(input.byte()) - 8),
        _ => Bson::String(pick(input, &TEXTS)),
    }
}

fn call(input: &mut Input<'_>, argument: Bson) -> Bson {
    Bson::Document(Document::from_iter([(pick(input, &OPERATORS), argument)]))
}

fn named(input: &mut Input<'_>, depth: u32) -> Bson {
    let count = input.byte() % 5;
    Bson::Document((0..count).map(|_| (pick(input, &NAMES), expression(input, depth + 1))).collect())
}

fn plain(input: &mut Input<'_>) -> Bson {
    Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null)
}
