//! Values and documents, from small pools, so that keys clash and filters match.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, DateTime, Document, Timestamp, doc};
use cairndb::{Contract, Generated, OnTruncate};

use super::filter::{Bound, Filter};
use super::numbering::Wishes;
use super::state::{Cap, Index};
use crate::choices::Choices;

const DECIMALS: [&str; 9] = ["1", "1.0", "2.50", "-3", "1E+3", "NaN", "9007199254740993", "-0", "Infinity"];
const STRINGS: [&str; 7] = ["", "a", "ab", "b", "a\u{0}b", "é", "\u{10ffff}"];
/// Paths of auto-increment fields: some are always absent, some often have another type, one lies in another.
const FIELDS: [&str; 7] = ["k", "s", "s", "_id", "n.x", "n", "t.u"];
const PATHS: [&str; 5] = ["_id", "k", "v", "w", "n.x"];

/// An `_id`: any type but those that MongoDB rejects.
pub(super) fn id(choices: &mut Choices) -> Bson {
    match choices.below(12) {
        0..=5 => number(choices, 24),
        6 | 7 => string(choices),
        8 => plain(choices),
        9 => Bson::Document(doc! { "x": number(choices, 6), "y": string(choices) }),
        10 => Bson::ObjectId(object_id(choices)),
        _ => Bson::Document(doc! { "x": number(choices, 6) }),
    }
}

/// A document, with an `_id` or without, which need not are first.
pub(super) fn document(choices: &mut Choices) -> Document {
    let mut document = Document::new();
    let id_place = choices.below(4);
    if id_place < 2 {
        document.insert("_id", id(choices));
    }
    if !choices.one_in(5) {
        document.insert("k", number(choices, 40));
    }
    if !choices.one_in(3) {
        let value = if choices.one_in(3) { array(choices) } else { scalar(choices) };
        document.insert("v", value);
    }
    if id_place == 2 {
        document.insert("_id", id(choices));
    }
    match choices.below(6) {
        0 | 1 => {}
        2 => drop(document.insert("w", array(choices))),
        _ => drop(document.insert("w", scalar(choices))),
    }
    match choices.below(5) {
        0 => {}
        1 => drop(document.insert("n", scalar(choices))),
        2 => drop(document.insert("n", doc! {})),
        _ => drop(document.insert("n", doc! { "y": 1, "x": number(choices, 30) })),
    }
    if choices.one_in(4) {
        let len = if choices.one_in(8) { 20_000 } else { 10 + choices.index(200) };
        document.insert("pad", "p".repeat(len));
    }
    document
}

pub(super) fn filter(choices: &mut Choices) -> Filter {
    let path = if choices.one_in(2) { "_id" } else { *choices.pick(&PATHS) };
    match choices.below(8) {
        0 => Filter::All,
        1..=4 => Filter::Equal { path, value: operand(path, choices) },
        5 => {
            let bound = *choices.pick(&[Bound::Above, Bound::From, Bound::UpTo, Bound::Below]);
            Filter::Range { path, bounds: vec![(bound, comparable(choices))] }
        }
        _ => {
            let lower = *choices.pick(&[Bound::Above, Bound::From]);
            let upper = *choices.pick(&[Bound::UpTo, Bound::Below]);
            let bounds = vec![(lower, comparable(choices)), (upper, comparable(choices))];
            Filter::Range { path, bounds }
        }
    }
}

/// A filter with an expression in half of the cases. An upsert accepts none.
pub(super) fn filter_or_expression(choices: &mut Choices) -> Filter {
    if choices.one_in(2) {
        return filter(choices);
    }
    let path = if choices.one_in(3) { "_id" } else { *choices.pick(&PATHS) };
    let bounds = [None, Some(Bound::Above), Some(Bound::From), Some(Bound::UpTo), Some(Bound::Below)];
    let comparison = |choices: &mut Choices| (*choices.pick(&bounds), operand(path, choices));
    Filter::Expression { path, comparisons: (0..=choices.index(2)).map(|_| comparison(choices)).collect() }
}

/// One of a few definitions, some of which exclude each other.
pub(super) fn index(choices: &mut Choices) -> Index {
    let plain = |name: &str, fields: &[(&'static str, i32)]| Index {
        name: name.to_owned(),
        fields: fields.to_vec(),
        unique: false,
        sparse: false,
    };
    match choices.below(9) {
        0 => Index { unique: true, ..plain("k_1", &[("k", 1)]) },
        1 => plain("k_1", &[("k", 1)]),
        2 => plain("v_1", &[("v", 1)]),
        3 => Index { unique: true, ..plain("only_v", &[("v", 1)]) },
        4 => plain("v_1_w_-1", &[("v", 1), ("w", -1)]),
        5 => Index { unique: true, sparse: true, ..plain("n.x_-1", &[("n.x", -1)]) },
        6 => Index { unique: true, ..plain("w_-1_k_1", &[("w", -1), ("k", 1)]) },
        7 => Index { sparse: true, ..plain("w_1", &[("w", 1)]) },
        _ => Index { unique: true, ..plain("id_and_k", &[("_id", 1), ("k", -1)]) },
    }
}

/// The limits of a capped collection: often so low that most inserts push a document out.
pub(super) fn cap(choices: &mut Choices) -> Cap {
    let max = choices.one_in(2).then(|| 1 + choices.below(8));
    Cap { size: *choices.pick(&[256, 1024, 1 << 13, 1 << 20]), max }
}

pub(super) fn field(choices: &mut Choices) -> &'static str {
    choices.pick::<&str>(&FIELDS)
}

/// Options of a new field: mostly a short range, so that it ends and starts over.
pub(super) fn new_field(choices: &mut Choices) -> Wishes {
    let is_short = !choices.one_in(3);
    let start = i64::from(small(choices, 14)) - 2;
    Wishes {
        limits: is_short.then_some((-4, 30)),
        start: (is_short && choices.one_in(2)).then_some(start),
        size: (is_short || choices.one_in(2)).then(|| *choices.pick(&[1, 2, 5])),
        on_null: choices.one_in(4).then_some(true),
        on_truncate: choices.one_in(4).then_some(OnTruncate::Continue),
        from_existing: choices.one_in(4).then_some(true),
        ..changed_attributes(choices)
    }
}

/// A change of a field; it may change nothing, or ask for what is not allowed.
pub(super) fn changed_field(choices: &mut Choices) -> Wishes {
    let number = i64::from(small(choices, 40)) - 5;
    let wishes = changed_attributes(choices);
    match choices.below(8) {
        0..=2 => Wishes { current: Some(number), ..wishes },
        3 => Wishes { start: Some(number), ..wishes },
        4 => Wishes { size: Some(*choices.pick(&[1, 2, 5, 60])), ..wishes },
        5 => Wishes { limits: Some((number, 30)), ..wishes },
        6 => Wishes { on_null: Some(choices.one_in(2)), ..Wishes::default() },
        _ => Wishes {
            on_truncate: Some(*choices.pick(&[OnTruncate::Continue, OnTruncate::Restart])),
            ..wishes
        },
    }
}

fn changed_attributes(choices: &mut Choices) -> Wishes {
    let modes = [
        Generated::Default,
        Generated::Default,
        Generated::Always,
        Generated::Strict,
        Generated::AlwaysStrict,
    ];
    Wishes {
        increment: choices.one_in(3).then(|| *choices.pick(&[1, 2, -1, -3])),
        cycled: choices.one_in(2).then(|| choices.one_in(2)),
        contract: choices.one_in(2).then(|| *choices.pick(&Contract::ALL)),
        generated: choices.one_in(3).then(|| *choices.pick(&modes)),
        ..Wishes::default()
    }
}

/// The operand of an equality.
fn operand(path: &str, choices: &mut Choices) -> Bson {
    if path == "_id" {
        return id(choices);
    }
    match choices.below(6) {
        0 => array(choices),
        1 => Bson::Null,
        2 | 3 => number(choices, 40),
        _ => scalar(choices),
    }
}

/// A value that a range compares with its own class only.
fn comparable(choices: &mut Choices) -> Bson {
    match choices.below(8) {
        0 => string(choices),
        1 => Bson::Document(doc! { "x": number(choices, 6) }),
        2 => Bson::ObjectId(object_id(choices)),
        3 => Bson::Boolean(choices.one_in(2)),
        4 => Bson::DateTime(DateTime::from_millis(i64::from(small(choices, 4)) - 2)),
        _ => number(choices, 40),
    }
}

fn scalar(choices: &mut Choices) -> Bson {
    match choices.below(5) {
        0 | 1 => number(choices, 12),
        2 => string(choices),
        3 => plain(choices),
        _ => Bson::Document(doc! { "x": number(choices, 6) }),
    }
}

fn array(choices: &mut Choices) -> Bson {
    let len = choices.index(4);
    let element = |choices: &mut Choices| {
        if choices.one_in(8) { Bson::Array(vec![number(choices, 6)]) } else { scalar(choices) }
    };
    Bson::Array((0..len).map(|_| element(choices)).collect())
}

/// Types with few values each.
fn plain(choices: &mut Choices) -> Bson {
    match choices.below(9) {
        0 => Bson::Null,
        1 => Bson::Boolean(false),
        2 => Bson::Boolean(true),
        3 => Bson::DateTime(DateTime::from_millis(i64::from(small(choices, 4)) - 2)),
        4 => Bson::Timestamp(Timestamp {
            time: 1 + u32::from(choices.one_in(2)),
            increment: u32::from(choices.one_in(2)),
        }),
        5 => Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![7; choices.index(4)] }),
        6 => Bson::MinKey,
        7 => Bson::MaxKey,
        _ => Bson::ObjectId(object_id(choices)),
    }
}

fn string(choices: &mut Choices) -> Bson {
    Bson::String((*choices.pick(&STRINGS)).to_owned())
}

/// Ids that lie below or above every id that the engine makes.
fn object_id(choices: &mut Choices) -> ObjectId {
    let mut bytes = if choices.one_in(2) { [0; 12] } else { [0xff; 12] };
    if let Some(last) = bytes.last_mut() {
        *last = *choices.pick(&[0, 1, 2, 3]);
    }
    ObjectId::from_bytes(bytes)
}

/// One of about `spread` numbers, in any of the four types.
fn number(choices: &mut Choices, spread: u64) -> Bson {
    let small = small(choices, spread) - 2;
    match choices.below(16) {
        0..=7 => Bson::Int32(small),
        8 | 9 => Bson::Int64(i64::from(small)),
        10 => Bson::Double(f64::from(small)),
        11 => Bson::Double(f64::from(small) + 0.5),
        12 => Bson::Decimal128(small.to_string().parse().expect("a decimal")),
        13 => Bson::Decimal128(choices.pick(&DECIMALS).parse().expect("a decimal")),
        14 => Bson::Int64(*choices.pick(&[i64::MIN, 9_007_199_254_740_993, i64::MAX])),
        _ => Bson::Double(*choices.pick(&[f64::NAN, f64::NEG_INFINITY, -0.0, 9_007_199_254_740_992.0])),
    }
}

fn small(choices: &mut Choices, limit: u64) -> i32 {
    i32::try_from(choices.below(limit)).expect("the pools are small")
}
