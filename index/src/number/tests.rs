//! Numbers against an independent reference: their full decimal expansions as text.

use bson::Bson;
use proptest::prelude::*;

use super::*;
use crate::proptest_support::{Raw, any_number};

/// A finite number written out in full: sign, digits before the point, digits after it.
#[derive(Debug, PartialEq, Eq)]
struct Expansion {
    negative: bool,
    whole: String,
    fraction: String,
}

/// The value of a number of any type, by printing it.
enum Printed {
    Nan,
    Infinity { negative: bool },
    Finite(Expansion),
}

fn print(value: &Bson) -> Printed {
    let text = if let Some(value) = value.as_f64() {
        // No double has more digits behind the point.
        if value.is_finite() { format!("{value:.1074}") } else { value.to_string() }
    } else if let Bson::Decimal128(value) = value {
        value.to_string()
    } else {
        value.as_i64().or(value.as_i32().map(i64::from)).unwrap().to_string()
    };
    let negative = text.starts_with('-');
    match text.trim_start_matches('-') {
        "NaN" => Printed::Nan,
        "inf" | "Infinity" => Printed::Infinity { negative },
        digits => Printed::Finite(expand(negative, digits)),
    }
}

fn expand(negative: bool, digits: &str) -> Expansion {
    let (mantissa, exponent) = digits.split_once('E').unwrap_or((digits, "0"));
    let exponent: i32 = exponent.parse().unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeros = "0".repeat(exponent.unsigned_abs() as usize);
    let (whole, fraction) = if exponent >= 0 {
        let all = format!("{fraction}{zeros}");
        let (moved, fraction) = all.split_at(exponent.unsigned_abs() as usize);
        (format!("{whole}{moved}"), fraction.to_owned())
    } else {
        let all = format!("{zeros}{whole}");
        let (whole, moved) = all.split_at(all.len() - zeros.len());
        (whole.to_owned(), format!("{moved}{fraction}"))
    };
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = fraction.trim_end_matches('0').to_owned();
    let negative = negative && !(whole.is_empty() && fraction.is_empty());
    Expansion { negative, whole, fraction }
}

fn reference(left: &Bson, right: &Bson) -> Ordering {
    match (print(left), print(right)) {
        (Printed::Nan, Printed::Nan) => Ordering::Equal,
        (Printed::Nan, _) => Ordering::Less,
        (_, Printed::Nan) => Ordering::Greater,
        (Printed::Infinity { negative: left }, Printed::Infinity { negative: right }) => right.cmp(&left),
        (Printed::Infinity { negative }, _) => {
            if negative {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (_, Printed::Infinity { negative }) => {
            if negative {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (Printed::Finite(left), Printed::Finite(right)) => {
            let magnitudes = left.whole.len().cmp(&right.whole.len());
            let magnitudes = magnitudes.then_with(|| left.whole.cmp(&right.whole));
            let magnitudes = magnitudes.then_with(|| left.fraction.cmp(&right.fraction));
            match (left.negative, right.negative) {
                (false, false) => magnitudes,
                (true, true) => magnitudes.reverse(),
                (left, right) => right.cmp(&left),
            }
        }
    }
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

#[track_caller]
fn check(left: impl Into<Bson>, right: impl Into<Bson>, expected: Ordering) {
    let (left, right) = (left.into(), right.into());
    let (left_raw, right_raw) = (Raw::new(&left), Raw::new(&right));
    assert_eq!(compare(left_raw.value(), right_raw.value()), expected, "{left:?} and {right:?}");
    assert_eq!(compare(right_raw.value(), left_raw.value()), expected.reverse(), "{right:?} and {left:?}");
    assert_eq!(reference(&left, &right), expected, "the reference on {left:?} and {right:?}");
}

#[test]
fn types_compare_by_value() {
    check(1, 1.0, Ordering::Equal);
    check(1_i64, decimal("1.000"), Ordering::Equal);
    check(0.5, decimal("5E-1"), Ordering::Equal);
    check(2, 10.0, Ordering::Less);
    check(-2, -10_i64, Ordering::Greater);
    check(decimal("1.10"), decimal("1.1"), Ordering::Equal);
}

#[test]
fn nothing_is_rounded() {
    assert_eq!((Number::from_f64(7.5).to_i64(), Number::from_i64((1 << 53) + 1).to_f64()), (None, None));
    check(9_007_199_254_740_993_i64, 9_007_199_254_740_992.0, Ordering::Greater);
    check(-9_007_199_254_740_993_i64, -9_007_199_254_740_992.0, Ordering::Less);
    check(i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less);
    check(i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal);
    check(i64::MAX, decimal("9223372036854775807"), Ordering::Equal);
    check(decimal("9223372036854775807.5"), i64::MAX, Ordering::Greater);
    check(decimal("0.1"), 0.1, Ordering::Less);
    check(decimal("0.3"), 0.3, Ordering::Greater);
    check(decimal("9007199254740992.5"), 9_007_199_254_740_992_i64, Ordering::Greater);
    check(decimal("9007199254740993.5"), 9_007_199_254_740_993_i64, Ordering::Greater);
    check(decimal("1E-6176"), f64::from_bits(1), Ordering::Less);
    check(decimal("1E-6176"), 0, Ordering::Greater);
    check(decimal("9E6144"), f64::MAX, Ordering::Greater);
}

#[test]
fn zeros_are_one_number() {
    check(0, -0.0, Ordering::Equal);
    check(decimal("-0.00"), 0.0, Ordering::Equal);
    check(decimal("0E+6111"), decimal("0E-6176"), Ordering::Equal);
}

#[test]
fn nan_is_one_number_below_all_others() {
    check(f64::NAN, decimal("NaN"), Ordering::Equal);
    check(f64::from_bits(0xfff8_0000_0000_0123), f64::NAN, Ordering::Equal);
    check(f64::NAN, f64::NEG_INFINITY, Ordering::Less);
    check(decimal("NaN"), decimal("-Infinity"), Ordering::Less);
}

#[test]
fn infinities_are_shared() {
    check(f64::INFINITY, decimal("Infinity"), Ordering::Equal);
    check(f64::NEG_INFINITY, decimal("-Infinity"), Ordering::Equal);
    check(f64::INFINITY, decimal("9999999999999999999999999999999999E+6111"), Ordering::Greater);
    check(f64::NEG_INFINITY, i64::MIN, Ordering::Less);
}

proptest! {
    #[test]
    fn the_order_is_that_of_the_printed_digits(left in any_number(), right in any_number()) {
        let (left_raw, right_raw) = (Raw::new(&left), Raw::new(&right));
        prop_assert_eq!(compare(left_raw.value(), right_raw.value()), reference(&left, &right));
    }

    #[test]
    fn parts_give_the_value_back(value in any_number()) {
        let raw = Raw::new(&value);
        let number = Number::of(raw.value()).unwrap();
        for back in [number.to_i64().map(Bson::Int64), number.to_f64().map(Bson::Double)].into_iter().flatten() {
            prop_assert_eq!(reference(&back, &value), Ordering::Equal);
        }
        if let Bson::Int64(value) = value {
            prop_assert_eq!(number.to_i64(), Some(value));
        }
        if let Bson::Double(value) = value {
            prop_assert!(number.to_f64().is_some_and(|back| back.total_cmp(&(value + 0.0)).is_eq() || back.is_nan() && value.is_nan()));
        }
        if let Bson::Decimal128(decimal) = value && matches!(number.parts, Parts::Positive(_) | Parts::Negative(_))
            && number.to_f64().is_none_or(f64::is_finite)
        {
            let back = number.to_any_decimal128().unwrap();
            prop_assert_eq!(reference(&Bson::Decimal128(back), &Bson::Decimal128(decimal)), Ordering::Equal);
        }
    }
}

#[test]
fn a_text_is_no_number() {
    assert_eq!(Number::of(RawBsonRef::String("2")), None);
}
