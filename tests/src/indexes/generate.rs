//! Random documents, indexes and questions, from pools that are small enough for them to meet.

use cairndb::bson::{Bson, Document, Regex, bson, doc};
use cairndb::{Collation, CollationStrength, IndexModel, IndexOptions};

use crate::choices::Choices;

/// Fields that share their first parts, so that arrays lie on the way to several of them.
const PATHS: [&str; 12] = ["a", "a", "b", "b", "c", "a.x", "a.x", "a.y", "b.x", "a.x.y", "c.x", "_id"];
/// Paths with a position, which may be a field's name as well.
const POSITIONS: [&str; 3] = ["a.0", "b.0.x", "a.x.1"];
const DEPTH_MAX: u32 = 3;

/// Whether documents have arrays. An index on a path with arrays covers nothing, so a store needs to be without any for plans
/// that read entries alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrays {
    Some,
    None,
}

/// Operators whose operands are not values that documents have, and the field that is always a number.
const NOT_COMPARED: [&str; 6] = ["$exists", "$mod", "$regex", "$size", "$type", "_id"];

/// A collation of a store with texts. Some are the same to a language and others are not.
pub(super) fn collation(choices: &mut Choices) -> Collation {
    let strength = CollationStrength::Secondary;
    match choices.below(5) {
        0 | 1 => Collation::with_locale("en").strength(strength),
        2 => Collation::with_locale("sv").strength(CollationStrength::Primary),
        3 => Collation::with_locale("en").numeric_ordering(true),
        _ => Collation::simple(),
    }
}

/// The same value or filter with texts in place of some numbers: most values are numbers, and few texts would meet.
pub(super) fn with_texts(value: Bson) -> Bson {
    // One for each of the numbers 3 and 4, in each of the three types.
    let texts = [["p", "P"], ["Pq", "pQ"], ["\u{e4}", "a\u{308}"]];
    let numbers = [
        [Bson::Int32(3), Bson::Int32(4)],
        [Bson::Int64(3), Bson::Int64(4)],
        [Bson::Double(3.0), Bson::Double(4.0)],
    ];
    let pairs = numbers.iter().flatten().zip(texts.iter().flatten());
    if let Some((_, text)) = pairs.into_iter().find(|(number, _)| **number == value) {
        return (*text).into();
    }
    if let Bson::Document(fields) = value {
        return Bson::Document(fields_with_texts(fields));
    }
    if let Bson::Array(items) = value {
        return Bson::Array(items.into_iter().map(with_texts).collect());
    }
    value
}

/// The same filter, document or update with texts in place of some numbers.
pub(super) fn fields_with_texts(fields: Document) -> Document {
    let compared = |(name, value): (String, Bson)| {
        let value = if NOT_COMPARED.contains(&name.as_str()) { value } else { with_texts(value) };
        (name, value)
    };
    fields.into_iter().map(compared).collect()
}

/// The same filter, document or update with long texts in place of some numbers. Two for each type of number: of the integers
/// they differ after what a key has of them, and of the others just before.
pub(super) fn fields_with_long_texts(fields: Document) -> Document {
    let compared = |(name, value): (String, Bson)| {
        let value = match name.as_str() {
            "_id" => with_long_ids(value),
            other if NOT_COMPARED.contains(&other) => value,
            _ => with_long_texts(value),
        };
        (name, value)
    };
    fields.into_iter().map(compared).collect()
}

fn with_long_texts(value: Bson) -> Bson {
    let numbers: [(Bson, usize, &str); 6] = [
        (3.into(), 1100, "a"),
        (4.into(), 1100, "b"),
        (3_i64.into(), 1021, "a"),
        (4_i64.into(), 1021, "b"),
        (3.0.into(), 1022, "a"),
        (4.0.into(), 1022, "b"),
    ];
    if let Some((_, bytes, last)) = numbers.iter().find(|(number, ..)| *number == value) {
        return Bson::String(format!("{}{last}", "x".repeat(*bytes)));
    }
    if let Bson::Document(fields) = value {
        return Bson::Document(fields_with_long_texts(fields));
    }
    if let Bson::Array(items) = value {
        return Bson::Array(items.into_iter().map(with_long_texts).collect());
    }
    value
}

/// The same `_id`, or condition on one, with a long text in place of every third number.
fn with_long_ids(value: Bson) -> Bson {
    let integer = value.as_i32().map(f64::from).or(value.as_f64());
    let number = integer.or(value.as_i64().and_then(|number| i32::try_from(number).ok()).map(f64::from));
    if let Some(number) = number.filter(|number| number % 3.0 == 0.0) {
        return Bson::String(format!("{}{number:05}", "x".repeat(1100)));
    }
    let condition = |(name, value): (String, Bson)| {
        let value = if NOT_COMPARED.contains(&name.as_str()) { value } else { with_long_ids(value) };
        (name, value)
    };
    if let Bson::Document(fields) = value {
        return Bson::Document(fields.into_iter().map(condition).collect());
    }
    if let Bson::Array(items) = value {
        return Bson::Array(items.into_iter().map(with_long_ids).collect());
    }
    value
}

/// A document with the `_id`, a number of any type. Its fields come in any order.
pub(super) fn document(choices: &mut Choices, id: i32, arrays: Arrays) -> Document {
    let id: Bson = match choices.below(4) {
        0 => f64::from(id).into(),
        1 => i64::from(id).into(),
        _ => id.into(),
    };
    let mut document = doc! { "_id": id };
    let mut names = vec!["a", "b", "c"];
    while !names.is_empty() {
        let name = names.remove(if choices.one_in(2) { 0 } else { choices.index(names.len()) });
        if !choices.one_in(4) {
            document.insert(name, value(choices, 0, arrays));
        }
    }
    document
}

/// A projection: mostly of a few fields, which an index may have.
pub(super) fn projection(choices: &mut Choices) -> Document {
    if choices.one_in(6) {
        return doc! { "b": 0 };
    }
    let paths: Vec<String> = (0..=choices.below(3)).map(|_| path(choices).to_owned()).collect();
    shown(choices, &paths)
}

/// A projection of those of `paths` that do not exclude each other, with the `_id` or without.
pub(super) fn shown(choices: &mut Choices, paths: &[String]) -> Document {
    let mut projection = Document::new();
    for path in paths {
        // A path and a part of it exclude each other.
        let collides = |other: &String| path.starts_with(other.as_str()) || other.starts_with(path.as_str());
        if path != "_id" && !projection.keys().any(collides) {
            projection.insert(path.clone(), 1);
        }
    }
    if projection.is_empty() {
        projection.insert("a", 1);
    }
    if choices.one_in(2) {
        projection.insert("_id", i32::from(choices.one_in(3)));
    }
    projection
}

/// A value: mostly a small number, else an object, an array of any of these, or something of another type.
pub(super) fn value(choices: &mut Choices, depth: u32, arrays: Arrays) -> Bson {
    match choices.below(16) {
        10 | 11 if depth < DEPTH_MAX => Bson::Document(object(choices, depth, arrays)),
        12 if depth < DEPTH_MAX && arrays == Arrays::Some => {
            let count = choices.below(4);
            Bson::Array((0..count).map(|_| Bson::Document(object(choices, depth + 1, arrays))).collect())
        }
        13 | 14 if depth < DEPTH_MAX && arrays == Arrays::Some => {
            let count = choices.below(4);
            Bson::Array((0..count).map(|_| value(choices, depth + 1, arrays)).collect())
        }
        15 => other(choices),
        _ => number(choices),
    }
}

fn object(choices: &mut Choices, depth: u32, arrays: Arrays) -> Document {
    let count = choices.below(3);
    let names = ["x", "y", "x", "0"];
    (0..count).map(|_| ((*choices.pick(&names)).to_owned(), value(choices, depth + 1, arrays))).collect()
}

fn number(choices: &mut Choices) -> Bson {
    let number = i32::try_from(choices.below(5)).expect("small");
    match choices.below(6) {
        0 => f64::from(number).into(),
        1 => i64::from(number).into(),
        _ => number.into(),
    }
}

fn other(choices: &mut Choices) -> Bson {
    match choices.below(9) {
        0 | 1 => Bson::Null,
        2 => (*choices.pick(&["", "p", "pq", "q", "pqr"])).into(),
        3 => choices.one_in(2).into(),
        4 => f64::NAN.into(),
        5 => Bson::Undefined,
        6 => Bson::MinKey,
        7 => Bson::MaxKey,
        _ => 2.5.into(),
    }
}

pub(super) fn path(choices: &mut Choices) -> &'static str {
    let paths: &[&'static str] = if choices.one_in(12) { &POSITIONS } else { &PATHS };
    choices.pick::<&'static str>(paths)
}

/// An index on one to three fields, with a name of its own.
pub(super) fn index(choices: &mut Choices, number: usize) -> IndexModel {
    if choices.one_in(7) {
        return wildcard(choices, number);
    }
    let mut keys = Document::new();
    for _ in 0..=choices.below(3) {
        keys.insert(path(choices), if choices.one_in(3) { -1 } else { 1 });
    }
    let filter = choices.one_in(3).then(|| partial(choices));
    let options = IndexOptions::builder()
        .name(format!("index{number}"))
        .unique(choices.one_in(8))
        .sparse(filter.is_none() && choices.one_in(4))
        .partial_filter_expression(filter)
        .hidden(choices.one_in(12))
        .build();
    IndexModel::builder().keys(keys).options(options).build()
}

/// A wildcard index, on all paths or on some.
fn wildcard(choices: &mut Choices, number: usize) -> IndexModel {
    let name = *choices.pick(&["$**", "$**", "$**", "a.$**", "a.x.$**", "b.$**"]);
    let projection = if name == "$**" && choices.one_in(2) {
        let flag = i32::from(choices.one_in(2));
        let mut projection = Document::new();
        for _ in 0..=choices.below(2) {
            let path = *choices.pick(&["a", "b", "c", "a.x", "b.x", "a.x.y"]);
            // A path and one below it could contradict each other.
            if !projection.keys().any(|other| other.starts_with(path) || path.starts_with(other.as_str())) {
                projection.insert(path, flag);
            }
        }
        if choices.one_in(3) {
            projection.insert("_id", 1);
        }
        Some(projection)
    } else {
        None
    };
    let filter = choices.one_in(5).then(|| partial(choices));
    let options = IndexOptions::builder()
        .name(format!("index{number}"))
        .partial_filter_expression(filter)
        .wildcard_projection(projection)
        .build();
    let keys = doc! { name: if choices.one_in(3) { -1 } else { 1 } };
    IndexModel::builder().keys(keys).options(options).build()
}

/// The filter of a partial index: one or two conditions, of which many documents meet some.
fn partial(choices: &mut Choices) -> Document {
    let mut filter = Document::new();
    for _ in 0..=choices.below(2) {
        let condition = match choices.below(6) {
            0 => operand(choices),
            1 => bson!({ "$exists": true }),
            2 => bson!({ "$type": *choices.pick(&["number", "string", "array", "object", "int"]) }),
            3 => bson!({ "$in": (0..=choices.below(3)).map(|_| operand(choices)).collect::<Vec<_>>() }),
            _ => {
                let name = *choices.pick(&["$gt", "$gte", "$gte", "$lt", "$lte"]);
                bson!({ name: operand(choices) })
            }
        };
        if choices.one_in(5) {
            let other = bson!({ path(choices): operand(choices) });
            filter.insert("$or", vec![bson!({ path(choices): condition }), other]);
        } else {
            filter.insert(path(choices), condition);
        }
    }
    filter
}

/// A filter that contains the filter of a partial index, with a condition on its first field, so that a plan may use it.
pub(super) fn within(choices: &mut Choices, model: &IndexModel) -> Option<Document> {
    let partial = model.options.as_ref()?.partial_filter_expression.clone()?;
    let field = model.keys.keys().next().filter(|field| !field.ends_with("$**"))?.clone();
    let narrowed = bson!({ field: condition(choices, 0) });
    Some(doc! { "$and": [partial, narrowed] })
}

/// A filter of one to three conditions, clauses included.
pub(super) fn filter(choices: &mut Choices, depth: u32) -> Document {
    let mut filter = Document::new();
    for _ in 0..=choices.below(if depth == 0 { 3 } else { 2 }) {
        if depth < 2 && choices.one_in(3) {
            let clause = *choices.pick(&["$and", "$or", "$or", "$nor"]);
            let parts = 1 + choices.below(3);
            let parts = (0..parts).map(|_| Bson::Document(self::filter(choices, depth + 1)));
            filter.insert(clause, parts.collect::<Vec<_>>());
        } else if choices.one_in(5) {
            filter.insert("$expr", expression(choices, 0));
        } else {
            filter.insert(path(choices), condition(choices, 0));
        }
    }
    filter
}

/// A filter of one or two simple conditions on some of `paths`.
pub(super) fn few(choices: &mut Choices, paths: &[String]) -> Document {
    let mut filter = Document::new();
    for _ in 0..=choices.below(2) {
        let condition = match choices.below(4) {
            0 => number(choices),
            1 => bson!({ "$in": [number(choices), number(choices), operand(choices)] }),
            2 => bson!({ "$gte": number(choices) }),
            _ => bson!({ "$ne": number(choices) }),
        };
        filter.insert(choices.pick(paths).clone(), condition);
    }
    filter
}

/// An expression that compares fields with values, and fails for no document.
fn expression(choices: &mut Choices, depth: u32) -> Bson {
    if depth < 2 && choices.one_in(3) {
        let clause = *choices.pick(&["$and", "$and", "$or", "$not"]);
        let count = if clause == "$not" { 1 } else { 1 + choices.below(3) };
        let parts: Vec<Bson> = (0..count).map(|_| expression(choices, depth + 1)).collect();
        return bson!({ clause: parts });
    }
    let start = *choices.pick(&["$", "$", "$$ROOT.", "$$CURRENT."]);
    let field = format!("{start}{}", path(choices));
    let literal = |value: Bson| bson!({ "$literal": value });
    match choices.below(12) {
        0 => bson!({ "$lt": [field, format!("${}", path(choices))] }),
        1 => {
            bson!({ "$in": [field, literal(Bson::Array((0..choices.below(4)).map(|_| operand(choices)).collect()))] })
        }
        kind => {
            let name = *choices.pick(&["$eq", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
            let value = if choices.one_in(12) { bson!("$$REMOVE") } else { literal(operand(choices)) };
            let sides = if kind < 4 { [value, field.into()] } else { [field.into(), value] };
            bson!({ name: sides })
        }
    }
}

fn condition(choices: &mut Choices, depth: u32) -> Bson {
    if depth == 0 && choices.one_in(3) {
        return operand(choices);
    }
    let mut operators = Document::new();
    for _ in 0..=choices.below(2) {
        operator(choices, depth, &mut operators);
    }
    Bson::Document(operators)
}

fn operator(choices: &mut Choices, depth: u32, operators: &mut Document) {
    match choices.below(16) {
        0..=6 => {
            let name = *choices.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
            operators.insert(name, operand(choices));
        }
        7 | 8 => {
            let count = choices.below(4);
            let members: Vec<Bson> = (0..count).map(|_| operand(choices)).collect();
            operators.insert(*choices.pick(&["$in", "$in", "$nin", "$all"]), members);
        }
        9 => drop(operators.insert("$exists", choices.one_in(2))),
        10 => {
            drop(operators.insert("$type", *choices.pick(&["number", "string", "array", "object", "null"])));
        }
        11 => drop(operators.insert("$mod", bson!([2, 1]))),
        12 => drop(operators.insert("$regex", *choices.pick(&["^p", "q", "^pq"]))),
        13 => drop(operators.insert("$size", i32::try_from(choices.below(3)).expect("small"))),
        14 if depth < 2 => drop(operators.insert("$not", condition(choices, 1.max(depth + 1)))),
        _ if depth < 2 => {
            let inner = if choices.one_in(2) {
                condition(choices, depth + 1)
            } else {
                let fields = 1 + choices.below(2);
                let fields = (0..fields)
                    .map(|_| ((*choices.pick(&["x", "y", "x.y"])).to_owned(), condition(choices, depth + 1)));
                Bson::Document(fields.collect())
            };
            operators.insert("$elemMatch", inner);
        }
        _ => drop(operators.insert("$gt", operand(choices))),
    }
}

/// A value that may be compared with, now and then an array, an object or a pattern.
fn operand(choices: &mut Choices) -> Bson {
    match choices.below(12) {
        0 => Bson::Null,
        1 => Bson::Array((0..choices.below(3)).map(|_| number(choices)).collect()),
        2 => Bson::Document(doc! { "x": number(choices) }),
        // A comparison with undefined is rejected.
        3 => Some(other(choices)).filter(|other| *other != Bson::Undefined).unwrap_or(Bson::Null),
        _ => number(choices),
    }
}

/// A pattern as an implicit condition, which is not a comparison.
pub(super) fn pattern(choices: &mut Choices) -> Bson {
    let pattern = (*choices.pick(&["^p", "^pq", "q"])).to_owned();
    let text = |text: String| cairndb::bson::raw::CString::try_from(text).expect("no zero byte");
    Bson::RegularExpression(Regex { pattern: text(pattern), options: text(String::new()) })
}

/// A sort by one to three fields.
pub(super) fn sort(choices: &mut Choices) -> Document {
    let mut sort = Document::new();
    for _ in 0..=choices.below(3) {
        sort.insert(path(choices), if choices.one_in(2) { -1 } else { 1 });
    }
    sort
}

/// A change that can move a document within an index, or exclude it from the filter.
pub(super) fn update(choices: &mut Choices, arrays: Arrays) -> Document {
    let field = *choices.pick(&["a", "b", "c", "a.x", "b.x"]);
    match choices.below(6) {
        0 => doc! { "$inc": { field: 1 } },
        1 => doc! { "$unset": { field: "" } },
        2 if arrays == Arrays::Some => doc! { "$push": { field: number(choices) } },
        _ => doc! { "$set": { field: value(choices, 1, arrays) } },
    }
}
