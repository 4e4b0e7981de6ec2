//! Filters compared with a naive model over decoded documents, and properties of every filter.
//!
//! The model reads the filter document itself and shares only the order of values with the crate.

#![expect(clippy::wildcard_enum_match_arm, reason = "a naive model tells apart only what its rules speak of")]

use std::cmp::Ordering;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, bson, doc};
use cairndb_query::filter::Filter;
use index::order::{TypeClass, type_class};
use proptest::prelude::*;

use crate::filter::{binary, decimal, raw, regex};

/// A value at a path, or `None` for a missing field.
struct Reached {
    value: Option<Bson>,
    expands: bool,
}

fn with_raw<T>(value: &Bson, read: impl FnOnce(bson::RawBsonRef<'_>) -> T) -> T {
    let owned = RawBson::try_from(value.clone()).expect("a value that can be written");
    read(owned.as_raw_bson_ref())
}

fn class(value: &Bson) -> TypeClass {
    with_raw(value, type_class)
}

fn compare(left: &Bson, right: &Bson) -> Ordering {
    with_raw(left, |left| with_raw(right, |right| index::order::compare(left, right)))
}

fn is_nan(value: &Bson) -> bool {
    compare(value, &Bson::Double(f64::NAN)).is_eq()
}

fn walk(value: &Bson, path: &[&str]) -> Vec<Reached> {
    let Some((name, rest)) = path.split_first() else { unreachable!("paths have a component") };
    match value {
        Bson::Document(document) => match (document.get(name), rest) {
            (None, _) => vec![Reached { value: None, expands: false }],
            (Some(found), []) => vec![Reached { value: Some(found.clone()), expands: true }],
            (Some(found), rest) => walk(found, rest),
        },
        Bson::Array(elements) => {
            let mut reached = Vec::new();
            for (index, element) in elements.iter().enumerate() {
                if matches!(element, Bson::Document(_)) {
                    reached.extend(walk(element, path));
                }
                if *name != index.to_string() {
                    continue;
                }
                match (element, rest) {
                    (element, []) => reached.push(Reached { value: Some(element.clone()), expands: false }),
                    (Bson::Document(_) | Bson::Array(_), rest) => reached.extend(walk(element, rest)),
                    _ => {}
                }
            }
            reached
        }
        _ => vec![Reached { value: None, expands: false }],
    }
}

fn relates(relation: &str, operand: &Bson, value: Option<&Bson>) -> bool {
    let inclusive = matches!(relation, "$eq" | "$gte" | "$lte");
    let nothing = |value: &Bson| matches!(value, Bson::Null | Bson::Undefined);
    if nothing(operand) && value.is_none_or(nothing) {
        return inclusive;
    }
    match operand {
        Bson::MaxKey if matches!(relation, "$lt" | "$lte") && value != Some(&Bson::MaxKey) => return true,
        Bson::MinKey if matches!(relation, "$gt" | "$gte") && value != Some(&Bson::MinKey) => return true,
        _ => {}
    }
    let Some(value) = value else { return false };
    if class(value) != class(operand) {
        return false;
    }
    match compare(value, operand) {
        Ordering::Equal => inclusive,
        _ if is_nan(value) || is_nan(operand) => false,
        Ordering::Greater => matches!(relation, "$gt" | "$gte"),
        Ordering::Less => matches!(relation, "$lt" | "$lte"),
    }
}

/// The model knows patterns of an optional `^` and letters.
fn matches_pattern(pattern: &Bson, value: Option<&Bson>) -> bool {
    let Bson::RegularExpression(regex) = pattern else { return false };
    let fold = |text: &str| {
        if regex.options.as_str().contains('i') { text.to_lowercase() } else { text.to_owned() }
    };
    match value {
        Some(Bson::String(text) | Bson::Symbol(text)) => match regex.pattern.as_str().strip_prefix('^') {
            Some(start) => fold(text).starts_with(&fold(start)),
            None => fold(text).contains(&fold(regex.pattern.as_str())),
        },
        Some(value) => value == pattern,
        None => false,
    }
}

fn is_member(members: &[Bson], value: Option<&Bson>) -> bool {
    members.iter().any(|member| match member {
        Bson::RegularExpression(_) => matches_pattern(member, value),
        _ => relates("$eq", member, value),
    })
}

fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Decimal128(_) => "decimal",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Null => "null",
        Bson::Boolean(_) => "bool",
        Bson::Undefined => "undefined",
        _ => "other",
    }
}

/// A number, which here is always small enough for a double.
fn as_number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Decimal128(value) => value.to_string().parse().ok(),
        value => value
            .as_f64()
            .or_else(|| value.as_i32().map(f64::from))
            .or_else(|| value.as_i64().and_then(|value| i32::try_from(value).ok()).map(f64::from)),
    }
}

/// A finite number without its fraction.
fn as_integer(value: &Bson) -> Option<i64> {
    let number = as_number(value).filter(|number| number.is_finite())?;
    Some(format!("{:.0}", number.trunc()).parse().expect("digits"))
}

/// Whether one value, unexpanded, meets one operator.
fn meets(operator: &str, operand: &Bson, value: Option<&Bson>) -> bool {
    let list = |operand: &Bson| operand.as_array().cloned().unwrap_or_default();
    match operator {
        "$eq" | "$gt" | "$gte" | "$lt" | "$lte" => relates(operator, operand, value),
        "$regex" => matches_pattern(operand, value),
        "$in" => is_member(&list(operand), value),
        "$exists" => value.is_some(),
        "$type" => value.is_some_and(|value| {
            let name = type_name(value);
            let is_number = matches!(name, "double" | "int" | "long" | "decimal");
            list(operand)
                .iter()
                .any(|wanted| wanted.as_str() == Some(name) || is_number && wanted == &bson!("number"))
        }),
        "$mod" => {
            let parts = list(operand).iter().filter_map(as_integer).collect::<Vec<_>>();
            let [divisor, remainder] = parts.as_slice() else { unreachable!("two integers are generated") };
            value.and_then(as_integer).is_some_and(|value| value % divisor == *remainder)
        }
        "$bitsAnySet" => {
            let whole = value.filter(|value| as_number(value).is_some_and(|number| number.fract() == 0.0));
            whole.and_then(as_integer).is_some_and(|value| {
                list(operand).iter().any(|at| value >> at.as_i32().expect("a position").min(63) & 1 == 1)
            }) || matches!(value, Some(Bson::Binary(data)) if list(operand).iter().any(|at| {
                let at = at.as_i32().and_then(|at| usize::try_from(at).ok()).expect("a position");
                data.bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            }))
        }
        "$size" => {
            let length =
                value.and_then(Bson::as_array).map(|array| i64::try_from(array.len()).expect("short"));
            length.is_some() && length == as_integer(operand)
        }
        "$elemMatch" => {
            let Some(Bson::Array(elements)) = value else { return false };
            let condition = operand.as_document().expect("an object");
            let is_operators =
                condition.keys().next().is_some_and(|name| name.starts_with('$') && name != "$or");
            elements.iter().any(|element| {
                if is_operators {
                    return all_meet(condition, Some(element));
                }
                match element {
                    Bson::Document(document) => selects(condition, document),
                    Bson::Array(list) => {
                        let names =
                            list.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone()));
                        selects(condition, &names.collect())
                    }
                    _ => false,
                }
            })
        }
        other => unreachable!("{other} is not generated"),
    }
}

/// Whether one value meets all operators, without looking into it.
fn all_meet(operators: &Document, value: Option<&Bson>) -> bool {
    operators.iter().all(|(operator, operand)| {
        decide(operator, operand, &|operator, operand| meets(operator, operand, value))
    })
}

/// Reduces negations and `$all` to whether some value meets an operator.
fn decide(operator: &str, operand: &Bson, exists: &dyn Fn(&str, &Bson) -> bool) -> bool {
    match operator {
        "$ne" => !exists("$eq", operand),
        "$nin" => !exists("$in", operand),
        "$exists" if operand == &Bson::Boolean(false) => !exists("$exists", operand),
        "$not" => match operand {
            Bson::Document(operators) => {
                !operators.iter().all(|(operator, operand)| decide(operator, operand, exists))
            }
            pattern => !exists("$regex", pattern),
        },
        "$all" => {
            let members = operand.as_array().expect("an array");
            !members.is_empty()
                && members.iter().all(|member| match member {
                    Bson::RegularExpression(_) => exists("$regex", member),
                    _ => exists("$eq", member),
                })
        }
        _ => exists(operator, operand),
    }
}

fn selects_field(path: &str, condition: &Bson, document: &Document) -> bool {
    let reached = walk(&Bson::Document(document.clone()), &path.split('.').collect::<Vec<_>>());
    let exists = |operator: &str, operand: &Bson| {
        reached.iter().any(|reached| {
            let expands = reached.expands && !matches!(operator, "$size" | "$elemMatch");
            let elements = match &reached.value {
                Some(Bson::Array(elements)) if expands => elements.as_slice(),
                _ => &[],
            };
            meets(operator, operand, reached.value.as_ref())
                || elements.iter().any(|element| meets(operator, operand, Some(element)))
        })
    };
    match condition {
        Bson::Document(operators) if operators.keys().next().is_some_and(|name| name.starts_with('$')) => {
            operators.iter().all(|(operator, operand)| decide(operator, operand, &exists))
        }
        Bson::RegularExpression(_) => exists("$regex", condition),
        value => exists("$eq", value),
    }
}

fn selects(filter: &Document, document: &Document) -> bool {
    filter.iter().all(|(name, operand)| {
        let each =
            || operand.as_array().into_iter().flatten().map(|part| part.as_document().expect("an object"));
        match name.as_str() {
            "$and" => each().all(|part| selects(part, document)),
            "$or" => each().any(|part| selects(part, document)),
            "$nor" => !each().any(|part| selects(part, document)),
            path => selects_field(path, operand, document),
        }
    })
}

pub(crate) fn scalar() -> impl Strategy<Value = Bson> {
    let values = [
        bson!(0),
        bson!(1),
        bson!(1.0),
        bson!(2.5),
        bson!(-3_i64),
        bson!(f64::NAN),
        bson!(f64::NAN),
        decimal("1"),
        bson!("ab"),
        bson!("Abc"),
        Bson::Symbol("ab".into()),
        Bson::Null,
        Bson::Null,
        Bson::Undefined,
        bson!(true),
        Bson::MinKey,
        Bson::MaxKey,
        binary(&[5]),
    ];
    prop::sample::select(values.to_vec())
}

pub(crate) fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            2 => prop::collection::vec((name(), inner), 0..3)
                .prop_map(|pairs| Bson::Document(pairs.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "b", "c", "0"]).prop_map(str::to_owned)
}

/// Few paths, and short ones more often, so that filters and documents meet.
pub(crate) fn path() -> impl Strategy<Value = String> {
    let paths = vec!["a", "a", "a", "a", "a.b", "a.b", "a.0", "a.1", "a.b.c", "a.0.b", "a.b.0", "a.0.0", "b"];
    prop::sample::select(paths).prop_map(str::to_owned)
}

/// Nearly always with a field `a`, mostly an array or an object.
pub(crate) fn document() -> impl Strategy<Value = Document> {
    let pairs = prop::collection::vec((name(), value()), 0..3);
    (prop::option::weighted(0.9, value()), pairs).prop_map(|(a, pairs)| {
        let mut document: Document = pairs.into_iter().collect();
        document.extend(a.map(|a| ("a".to_owned(), a)));
        document
    })
}

fn pattern() -> impl Strategy<Value = Bson> {
    prop::sample::select(vec![regex("^a", ""), regex("b", ""), regex("AB", "i"), regex("^Ab", "")])
}

/// A value that may be compared with.
fn operand() -> impl Strategy<Value = Bson> {
    value().prop_filter("undefined is refused", |value| value != &Bson::Undefined)
}

fn simple() -> impl Strategy<Value = (String, Bson)> {
    let relation = prop::sample::select(vec!["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
    let members =
        || prop::collection::vec(prop_oneof![4 => operand(), 1 => pattern()], 0..4).prop_map(Bson::Array);
    let types = prop::sample::subsequence(
        vec!["number", "int", "string", "array", "object", "null", "undefined"],
        1..3,
    );
    let types = types.prop_map(|names| Bson::Array(names.into_iter().map(Bson::from).collect()));
    let modulo = (1..4_i32, -1..3_i32).prop_map(|(divisor, remainder)| bson!([divisor, remainder]));
    let positions = prop::collection::vec(prop::sample::select(vec![0, 1, 2, 70]), 0..3);
    let positions =
        positions.prop_map(|positions| Bson::Array(positions.into_iter().map(Bson::from).collect()));
    let named = |name: &'static str| move |operand: Bson| (name.to_owned(), operand);
    prop_oneof![
        4 => (relation, operand()).prop_map(|(relation, operand)| (relation.to_owned(), operand)),
        1 => members().prop_map(named("$in")),
        1 => members().prop_map(named("$nin")),
        1 => members().prop_map(named("$all")),
        1 => any::<bool>().prop_map(Bson::from).prop_map(named("$exists")),
        1 => types.prop_map(named("$type")),
        1 => modulo.prop_map(named("$mod")),
        1 => positions.prop_map(named("$bitsAnySet")),
        1 => (0..3_i32).prop_map(Bson::from).prop_map(named("$size")),
        1 => pattern().prop_map(named("$regex")),
        1 => pattern().prop_map(named("$not")),
    ]
}

/// `{operator: operand, ...}`, never empty.
pub(crate) fn operators() -> impl Strategy<Value = Document> {
    let leaf =
        prop::collection::vec(simple(), 1..3).prop_map(|pairs| pairs.into_iter().collect::<Document>());
    leaf.prop_recursive(3, 8, 2, |inner| {
        let fields = prop::collection::vec((path(), inner.clone()), 0..3);
        let fields = fields.prop_map(|pairs| {
            pairs.into_iter().map(|(path, operators)| (path, Bson::Document(operators))).collect::<Document>()
        });
        prop_oneof![
            inner.clone().prop_map(|inner| doc! { "$not": inner }),
            inner.prop_map(|inner| doc! { "$elemMatch": inner }),
            fields.prop_map(|fields| doc! { "$elemMatch": fields }),
        ]
    })
}

/// Filters. No plain value in them looks like a document of operators.
pub(crate) fn filter() -> impl Strategy<Value = Document> {
    let condition = prop_oneof![3 => operators().prop_map(Bson::Document), 1 => operand(), 1 => pattern()];
    let fields = prop::collection::vec((path(), condition), 1..3);
    let fields = fields.prop_map(|pairs| pairs.into_iter().collect::<Document>());
    fields.prop_recursive(2, 6, 3, |inner| {
        let clause = prop::sample::select(vec!["$and", "$or", "$nor"]);
        (clause, prop::collection::vec(inner, 1..3)).prop_map(|(clause, parts)| doc! { clause: parts })
    })
}

#[track_caller]
fn matches(filter: &Document, document: &Document) -> bool {
    crate::filter::parse(filter).matches(&raw(document))
}

/// Names and values that often make a filter malformed.
fn wild_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        scalar(),
        any::<i64>().prop_map(Bson::from),
        any::<f64>().prop_map(Bson::from),
        "[a-z^$(\\[\\]{}*+?.\\\\|)\\-]{0,8}".prop_map(Bson::from),
        "[(a^$\\[\\]*+\\\\dwsbBvzh|)?:i{,}1-]{0,10}".prop_map(|pattern| regex(&pattern, "im"))
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec((wild_name(), inner), 0..4)
                .prop_map(|pairs| Bson::Document(pairs.into_iter().collect())),
        ]
    })
}

fn wild_name() -> impl Strategy<Value = String> {
    let names = vec![
        "$all",
        "$and",
        "$or",
        "$nor",
        "$not",
        "$in",
        "$nin",
        "$eq",
        "$ne",
        "$gt",
        "$lte",
        "$mod",
        "$size",
        "$type",
        "$regex",
        "$options",
        "$elemMatch",
        "$exists",
        "$bitsAllSet",
        "$bitsAnyClear",
        "$ref",
        "$id",
        "$db",
        "$where",
        "$foo",
        "$",
        "",
        "a",
        "a.b",
        "..",
        "0",
        "$comment",
        "$alwaysTrue",
    ];
    prop::sample::select(names).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn raw_matching_equals_the_model(filter in filter(), documents in prop::collection::vec(document(), 64)) {
        let parsed = crate::filter::parse(&filter);
        for document in documents {
            let expected = selects(&filter, &document);
            prop_assert_eq!(parsed.matches(&raw(&document)), expected, "{} on {}", filter, document);
        }
    }

    #[test]
    fn negations_are_exact_complements(
        path in path(),
        operand in operand(),
        members in prop::collection::vec(operand(), 0..4),
        operators in operators(),
        document in document(),
    ) {
        let field = |condition: Document| matches(&doc! { path.as_str(): condition }, &document);
        prop_assert_ne!(field(doc! { "$eq": operand.clone() }), field(doc! { "$ne": operand }));
        prop_assert_ne!(field(doc! { "$in": members.clone() }), field(doc! { "$nin": members }));
        prop_assert_ne!(field(operators.clone()), field(doc! { "$not": operators.clone() }));
        let filter = doc! { path.as_str(): operators };
        prop_assert_ne!(matches(&filter, &document), matches(&doc! { "$nor": [filter.clone()] }, &document));
    }

    #[test]
    fn clauses_are_what_their_parts_are(one in filter(), two in filter(), document in document()) {
        let both = (matches(&one, &document), matches(&two, &document));
        let joined = |clause: &str| matches(&doc! { clause: [one.clone(), two.clone()] }, &document);
        prop_assert_eq!(joined("$and"), both.0 && both.1);
        prop_assert_eq!(joined("$or"), both.0 || both.1);
        prop_assert_eq!(joined("$nor"), !both.0 && !both.1);
    }

    #[test]
    fn no_filter_panics(pairs in prop::collection::vec((wild_name(), wild_value()), 0..4), document in document()) {
        let filter = raw(&pairs.into_iter().collect());
        match Filter::parse(&filter) {
            Ok(parsed) => {
                parsed.matches(&raw(&document));
                parsed.matches(&filter);
                parsed.intervals("a", cairndb_query::filter::Arrays::Absent);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty() && error.to_string().len() < 1_000),
        }
    }

    #[test]
    fn broken_bytes_do_not_panic(filter in filter(), at in any::<prop::sample::Index>(), byte: u8, document in document()) {
        let whole = crate::filter::parse(&filter);
        for (bytes, is_filter) in [(raw(&filter).into_bytes(), true), (raw(&document).into_bytes(), false)] {
            let mut bytes = bytes;
            let inside = 4..bytes.len() - 1;
            if let Some(place) = bytes.get_mut(inside).filter(|inside| !inside.is_empty()) {
                place[at.index(place.len())] = byte;
            }
            let broken = RawDocument::from_bytes(&bytes).expect("the outside is whole");
            if is_filter {
                let _ = Filter::parse(broken).map(|parsed| parsed.matches(broken));
            } else {
                whole.matches(broken);
            }
        }
    }

    #[test]
    fn a_document_matches_itself(document in document()) {
        let whole = document.iter().filter(|(_, value)| !matches!(value, Bson::Undefined));
        let filter = whole.map(|(name, value)| (name.clone(), bson!({ "$eq": value.clone() }))).collect::<Document>();
        prop_assert!(matches(&filter, &document));
        let _: RawDocumentBuf = raw(&filter);
    }
}
