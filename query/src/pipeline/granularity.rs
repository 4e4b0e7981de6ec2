//! The boundaries that `$bucketAuto` may be asked to use: series of preferred numbers, and powers of two.
//!
//! A series is one decade; multiplied by powers of ten it covers all numbers. A number of the series is rounded to the
//! next one, up or down: boundaries lie strictly beyond the values that they bound.

use std::cmp::Ordering;

use bson::{Decimal128, RawBson, RawBsonRef, rawdoc};
use index::number::parse_decimal;
use index::order::compare;

use crate::decimal::{self, Precision, Rounding};
use crate::expression::{Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::error::Fault;
use crate::registry::Registry;

/// The most steps from an estimate of a power of two to the power.
const STEPS_MAX: usize = 16;

/// The series to which boundaries are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Granularity {
    /// The numbers of one decade.
    Series(&'static [u16]),
    PowersOfTwo,
}

/// The direction of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toward {
    Lower,
    Higher,
}

const GRANULARITIES: Registry<Granularity> = Registry::new(&[
    ("1-2-5", Granularity::Series(&[10, 20, 50])),
    ("E12", Granularity::Series(&[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82])),
    ("E192", Granularity::Series(&E192)),
    (
        "E24",
        Granularity::Series(&[
            10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91,
        ]),
    ),
    ("E48", Granularity::Series(&every::<48>(4))),
    ("E6", Granularity::Series(&[10, 15, 22, 33, 47, 68])),
    ("E96", Granularity::Series(&every::<96>(2))),
    ("POWERSOF2", Granularity::PowersOfTwo),
    ("R10", Granularity::Series(&[100, 125, 160, 200, 250, 315, 400, 500, 630, 800])),
    (
        "R20",
        Granularity::Series(&[
            100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800,
            900,
        ]),
    ),
    (
        "R40",
        Granularity::Series(&[
            100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280,
            300, 315, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850, 900,
            950,
        ]),
    ),
    ("R5", Granularity::Series(&[10, 16, 25, 40, 63])),
    (
        "R80",
        Granularity::Series(&[
            103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258, 272, 290,
            307, 325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690, 730, 775, 825, 875,
            925, 975,
        ]),
    ),
]);

/// The series of 192 numbers a decade. Every second of them is one of E96, every fourth one of E48.
const E192: [u16; 192] = [
    100, 101, 102, 104, 105, 106, 107, 109, 110, 111, 113, 114, 115, 117, 118, 120, 121, 123, 124, 126, 127,
    129, 130, 132, 133, 135, 137, 138, 140, 142, 143, 145, 147, 149, 150, 152, 154, 156, 158, 160, 162, 164,
    165, 167, 169, 172, 174, 176, 178, 180, 182, 184, 187, 189, 191, 193, 196, 198, 200, 203, 205, 208, 210,
    213, 215, 218, 221, 223, 226, 229, 232, 234, 237, 240, 243, 246, 249, 252, 255, 258, 261, 264, 267, 271,
    274, 277, 280, 284, 287, 291, 294, 298, 301, 305, 309, 312, 316, 320, 324, 328, 332, 336, 340, 344, 348,
    352, 357, 361, 365, 370, 374, 379, 383, 388, 392, 397, 402, 407, 412, 417, 422, 427, 432, 437, 442, 448,
    453, 459, 464, 470, 475, 481, 487, 493, 499, 505, 511, 517, 523, 530, 536, 542, 549, 556, 562, 569, 576,
    583, 590, 597, 604, 612, 619, 626, 634, 642, 649, 657, 665, 673, 681, 690, 698, 706, 715, 723, 732, 741,
    750, 759, 768, 777, 787, 796, 806, 816, 825, 835, 845, 856, 866, 876, 887, 898, 909, 920, 931, 942, 953,
    965, 976, 988,
];

/// Every `step`-th number of [`E192`].
#[expect(clippy::indexing_slicing, reason = "computed by the compiler, which refuses a wrong index")]
const fn every<const N: usize>(step: usize) -> [u16; N] {
    let mut chosen = [0; N];
    let mut at = 0;
    while at < N {
        chosen[at] = E192[at * step];
        at += 1;
    }
    chosen
}

/// The granularity of a name. Returns `None` for an unknown name.
pub(super) fn named(name: &str) -> Option<Granularity> {
    GRANULARITIES.get(name).copied()
}

impl Granularity {
    /// The next boundary beyond a number that is neither negative nor NaN. Zero and infinity are boundaries themselves.
    pub(super) fn round(self, value: RawBsonRef<'_>, toward: Toward) -> Result<RawBson, Fault> {
        // The stage has rejected everything else before.
        let Some(number) = Numeric::of(value) else { return Ok(value.into()) };
        let double = number.to_double();
        if let Numeric::Decimal(decimal) = number {
            if decimal::is_zero(decimal) || !decimal::is_finite(decimal) {
                return Ok(value.into());
            }
            return Ok(RawBson::Decimal128(match self {
                Self::Series(series) => round_decimal(decimal, series, toward),
                Self::PowersOfTwo => power_beside(decimal, toward),
            }));
        }
        if double == 0.0 || !double.is_finite() {
            return Ok(value.into());
        }
        match self {
            Self::Series(series) => Ok(RawBson::Double(round_double(double, series, toward))),
            Self::PowersOfTwo => power_of_two(exponent(number, toward)),
        }
    }
}

/// The next number of a series beyond `number`. Multipliers are made by steps of ten, as MongoDB makes them: it decides
/// the last digit of a result.
fn round_double(number: f64, series: &[u16], toward: Toward) -> f64 {
    let (first, last) = ends(series);
    let mut multiplier = 1.0;
    // At most some 330 steps: a double has no more powers of ten.
    // The first number of the next decade can be nearer than the last one of this: the loops below look for it.
    match toward {
        Toward::Higher => {
            while number >= last * multiplier {
                multiplier *= 10.0;
            }
            while number < first * multiplier {
                let lowest = first * multiplier;
                multiplier /= 10.0;
                if number >= last * multiplier {
                    return lowest;
                }
            }
            let beyond = series.iter().map(|&step| f64::from(step) * multiplier);
            beyond.into_iter().find(|&step| number < step).unwrap_or(number)
        }
        Toward::Lower => {
            while number <= first * multiplier && multiplier > 0.0 {
                multiplier /= 10.0;
            }
            // Too small for any multiplier: only zero is below.
            if multiplier == 0.0 {
                return 0.0;
            }
            while number > last * multiplier {
                let highest = last * multiplier;
                multiplier *= 10.0;
                if number <= first * multiplier {
                    return highest;
                }
            }
            let beyond = series.iter().rev().map(|&step| f64::from(step) * multiplier);
            beyond.into_iter().find(|&step| step < number).unwrap_or(number)
        }
    }
}

fn ends(series: &[u16]) -> (f64, f64) {
    let end = |step: Option<&u16>| step.map_or(1.0, |&step| f64::from(step));
    (end(series.first()), end(series.last()))
}

/// The next number of a series beyond a decimal.
fn round_decimal(number: Decimal128, series: &[u16], toward: Toward) -> Decimal128 {
    // Powers of ten are exact, so the right decade is found from the digits. The decades beside it are tried as well: the
    // first number of one can be the next after the last of another.
    let near =
        magnitude(number) - magnitude(decimal::from_integer(i64::from(series.first().copied().unwrap_or(1))));
    // From the lowest decade to the highest, so the steps ascend.
    let steps = (near - 1..=near + 1).flat_map(|power| series.iter().map(move |&step| (power, step)));
    let value = |(power, step): (i32, u16)| {
        decimal::multiply(decimal::from_double(f64::from(step), Precision::Double), power_of_ten(power))
    };
    let is_beyond = |step: &Decimal128, order| {
        compare(RawBsonRef::Decimal128(*step), RawBsonRef::Decimal128(number)) == order
    };
    let found = match toward {
        Toward::Higher => steps.map(value).find(|step| is_beyond(step, Ordering::Greater)),
        Toward::Lower => steps.rev().map(value).find(|step| is_beyond(step, Ordering::Less)),
    };
    found.unwrap_or(number)
}

/// The power of ten of a decimal's first digit.
fn magnitude(number: Decimal128) -> i32 {
    match index::number::unpack(number) {
        index::number::Decimal::Finite { coefficient, exponent, .. } => {
            exponent + coefficient.checked_ilog10().map_or(0, |digits| i32::try_from(digits).unwrap_or(0))
        }
        index::number::Decimal::Infinity { .. } | index::number::Decimal::Nan => 0,
    }
}

/// A power of ten, written with its zeros as far as a decimal has digits for them.
fn power_of_ten(power: i32) -> Decimal128 {
    let zeros = power.clamp(0, 33);
    let text = format!("1{}E{}", "0".repeat(usize::try_from(zeros).unwrap_or(0)), power - zeros);
    parse_decimal(&text).unwrap_or_else(|| decimal::from_integer(1))
}

/// The exponent of the power of two beyond an integer or a double above 0.
#[expect(clippy::cast_possible_truncation, reason = "the exponent of a double has 11 bits")]
fn exponent(number: Numeric, toward: Toward) -> i32 {
    let small = |bits: u32| i32::try_from(bits).unwrap_or(0);
    if let Some(integer) = number.to_integer() {
        let floor = small(integer.checked_ilog2().unwrap_or(0));
        return match toward {
            Toward::Higher => floor + 1,
            Toward::Lower => floor - i32::from(integer.count_ones() == 1),
        };
    }
    let exponent = number.to_double().log2();
    match toward {
        Toward::Higher => exponent.floor() as i32 + 1,
        Toward::Lower => exponent.ceil() as i32 - 1,
    }
}

/// Two to the power of `exponent`, with the type that `$pow` gives it.
fn power_of_two(exponent: i32) -> Result<RawBson, Fault> {
    let power = rawdoc! { "$pow": [2, exponent] };
    let variables = Variables::default();
    let value = Expression::parse(RawBsonRef::Document(&power), &variables)?;
    Ok(value.evaluate(&rawdoc! {}, &variables)?.unwrap_or(RawBson::Null))
}

/// The power of two beyond a decimal.
fn power_beside(number: Decimal128, toward: Toward) -> Decimal128 {
    // The decade gives the exponent within a few powers; from there it is a walk. At the ends of the range a power can be
    // zero or infinite, which no step changes: the steps are counted.
    let decade = f64::from(magnitude(number)) * std::f64::consts::LOG2_10;
    let decade = decimal::from_double(decade, Precision::Double);
    let mut exponent = decimal::to_integer(decade, Rounding::Floor).unwrap_or(0);
    let order =
        |exponent| compare(RawBsonRef::Decimal128(power_of(exponent)), RawBsonRef::Decimal128(number));
    for _ in 0..STEPS_MAX {
        exponent += i64::from(order(exponent).is_lt());
    }
    for _ in 0..STEPS_MAX {
        exponent -= i64::from(order(exponent).is_ge());
    }
    // Now it is the exponent of the highest power below the number; the next power may be the number itself.
    if toward == Toward::Higher {
        exponent += 1;
        exponent += i64::from(order(exponent).is_eq());
    }
    power_of(exponent)
}

/// Two to the power of `exponent`, as a decimal.
fn power_of(exponent: i64) -> Decimal128 {
    let half = || parse_decimal("0.5").unwrap_or_else(decimal::nan);
    let base = if exponent < 0 { half() } else { decimal::from_integer(2) };
    whole_power(base, exponent.unsigned_abs())
}

/// A power with a whole exponent, by squares.
fn whole_power(base: Decimal128, exponent: u64) -> Decimal128 {
    let (mut base, mut exponent) = (base, exponent);
    let mut power = decimal::from_integer(1);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = decimal::multiply(power, base);
        }
        base = decimal::multiply(base, base);
        exponent /= 2;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_ascends_within_a_decade() {
        for (name, granularity) in GRANULARITIES.entries() {
            let Granularity::Series(series) = granularity else { continue };
            assert!(series.is_sorted_by(|one, next| one < next), "{name}");
            assert!(
                series.first().zip(series.last()).is_some_and(|(first, last)| *last < first * 10),
                "{name}"
            );
        }
        assert_eq!(every::<48>(4).last(), Some(&953));
        assert_eq!(every::<96>(2).last(), Some(&976));
    }

    #[test]
    fn numbers_of_every_size_lie_between_their_boundaries() {
        let numbers = [5e-324, 1e-300, 0.099, 0.1, 0.8, 1.0, 7.0, 63.0, 100.0, 1e22, 1.7e308];
        let decimals = ["1E-6176", "0.8", "1", "63", "64", "1E+40", "9.99E+6144"];
        let doubles = numbers.map(RawBson::Double).into_iter();
        let decimals = decimals.map(|text| RawBson::Decimal128(text.parse().unwrap())).into_iter();
        for number in doubles.chain(decimals) {
            let number = number.as_raw_bson_ref();
            for (name, granularity) in GRANULARITIES.entries() {
                let low = granularity.round(number, Toward::Lower).unwrap();
                let high = granularity.round(number, Toward::Higher).unwrap();
                assert!(compare(low.as_raw_bson_ref(), number).is_le(), "{name} {number:?} {low:?}");
                assert!(compare(number, high.as_raw_bson_ref()).is_le(), "{name} {number:?} {high:?}");
            }
        }
    }
}
