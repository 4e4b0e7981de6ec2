//! The order of values, written for being obvious.

use std::cmp::Ordering;

use cairndb::bson::{Bson, Decimal128, Document};

/// A value as a key of the model's maps: equal when no order distinguishes two values.
#[derive(Clone, Debug)]
pub(super) struct Key(pub(super) Bson);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Compares two values as documents are sorted by them.
pub(super) fn compare(left: &Bson, right: &Bson) -> Ordering {
    class(left).cmp(&class(right)).then_with(|| match (left, right) {
        (Bson::String(left), Bson::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Bson::Document(left), Bson::Document(right)) => compare_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => compare_all(left.iter(), right.iter()),
        (Bson::Binary(left), Bson::Binary(right)) => {
            let parts = |binary: &cairndb::bson::Binary| (binary.bytes.len(), u8::from(binary.subtype));
            parts(left).cmp(&parts(right)).then_with(|| left.bytes.cmp(&right.bytes))
        }
        (Bson::ObjectId(left), Bson::ObjectId(right)) => left.bytes().cmp(&right.bytes()),
        (Bson::Boolean(left), Bson::Boolean(right)) => left.cmp(right),
        (Bson::DateTime(left), Bson::DateTime(right)) => {
            left.timestamp_millis().cmp(&right.timestamp_millis())
        }
        (Bson::Timestamp(left), Bson::Timestamp(right)) => {
            (left.time, left.increment).cmp(&(right.time, right.increment))
        }
        _ if is_number(left) => halves(left).cmp(&halves(right)),
        // The classes that are left have one value each.
        _ => Ordering::Equal,
    })
}

/// The place of a value's type in the order; values of one class are compared by value.
pub(super) fn class(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 2,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 3,
        Bson::String(_) => 4,
        Bson::Document(_) => 5,
        Bson::Array(_) => 6,
        Bson::Binary(_) => 7,
        Bson::ObjectId(_) => 8,
        Bson::Boolean(_) => 9,
        Bson::DateTime(_) => 10,
        Bson::Timestamp(_) => 11,
        Bson::MaxKey => 12,
        Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Symbol(_)
        | Bson::DbPointer(_) => panic!("the model makes no {value:?}"),
    }
}

pub(super) fn is_number(value: &Bson) -> bool {
    class(value) == 3
}

pub(super) fn is_nan(value: &Bson) -> bool {
    is_number(value) && halves(value).0 == NOT_A_NUMBER
}

const NOT_A_NUMBER: u8 = 0;
const BELOW: u8 = 1;
const FINITE: u8 = 2;
const ABOVE: u8 = 3;

fn compare_documents(left: &Document, right: &Document) -> Ordering {
    let pairs = left.iter().zip(right.iter());
    let first = pairs
        .map(|((left_name, left), (right_name, right))| {
            class(left)
                .cmp(&class(right))
                .then_with(|| left_name.as_bytes().cmp(right_name.as_bytes()))
                .then_with(|| compare(left, right))
        })
        .find(|order| order.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_all<'a>(
    left: impl ExactSizeIterator<Item = &'a Bson>,
    right: impl ExactSizeIterator<Item = &'a Bson>,
) -> Ordering {
    let lengths = left.len().cmp(&right.len());
    left.zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne()).unwrap_or(lengths)
}

/// A number as a count of halves, with what is not finite around it.
fn halves(value: &Bson) -> (u8, i128) {
    if let Bson::Double(number) = value {
        return halves_of_double(*number);
    }
    if let Bson::Decimal128(number) = value {
        return halves_of_decimal(number);
    }
    let whole = value.as_i32().map(i64::from).or(value.as_i64());
    (FINITE, i128::from(whole.unwrap_or_else(|| panic!("{value:?} is not a number"))) * 2)
}

fn halves_of_double(number: f64) -> (u8, i128) {
    if number.is_nan() {
        return (NOT_A_NUMBER, 0);
    }
    if number.is_infinite() {
        return (if number < 0.0 { BELOW } else { ABOVE }, 0);
    }
    let doubled = number * 2.0;
    assert!(doubled.fract() == 0.0 && doubled.abs() < 1e30, "the model makes no {number}");
    #[expect(clippy::cast_possible_truncation, reason = "asserted to be whole and small")]
    let doubled = doubled as i128;
    (FINITE, doubled)
}

fn halves_of_decimal(number: &Decimal128) -> (u8, i128) {
    let text = number.to_string();
    match text.as_str() {
        "NaN" => return (NOT_A_NUMBER, 0),
        "Infinity" => return (ABOVE, 0),
        "-Infinity" => return (BELOW, 0),
        _ => {}
    }
    let (mantissa, exponent) = text.split_once('E').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().expect("digits");
    let exponent: i32 = exponent.trim_start_matches('+').parse().expect("an exponent");
    let exponent = exponent - i32::try_from(fraction.len()).expect("few digits");
    let power = 10_i128.pow(exponent.unsigned_abs());
    let doubled = digits * 2;
    if exponent >= 0 {
        return (FINITE, doubled * power);
    }
    assert!(doubled % power == 0, "the model makes no {number}");
    (FINITE, doubled / power)
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{bson, doc};

    use super::*;

    #[track_caller]
    fn check(ascending: &[Bson]) {
        for (place, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left, right), place.cmp(&other), "{left:?} {right:?}");
            }
        }
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        check(&[
            bson!(f64::NAN),
            bson!(f64::NEG_INFINITY),
            bson!(-1.5),
            decimal("-1"),
            bson!(0),
            decimal("2.50"),
            bson!(3_i64),
        ]);
        check(&[
            bson!(9_007_199_254_740_992.0),
            bson!(9_007_199_254_740_993_i64),
            decimal("9007199254740994"),
        ]);
        assert_eq!(compare(&bson!(1), &decimal("1.0")), Ordering::Equal);
        assert_eq!(compare(&bson!(1000), &decimal("1E+3")), Ordering::Equal);
    }

    #[test]
    fn classes_are_ordered_before_values() {
        check(&[
            Bson::MinKey,
            Bson::Undefined,
            Bson::Null,
            bson!(7),
            bson!("a"),
            bson!({}),
            bson!([]),
            bson!(false),
            Bson::MaxKey,
        ]);
    }

    #[test]
    fn documents_are_ordered_by_class_then_name_then_value() {
        check(&[
            Bson::Document(doc! {}),
            Bson::Document(doc! { "b": 1 }),
            Bson::Document(doc! { "b": 1, "c": 1 }),
            Bson::Document(doc! { "b": 2 }),
            Bson::Document(doc! { "a": "x" }),
        ]);
    }
}
