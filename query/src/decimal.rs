//! Arithmetic of decimal128: exact, then rounded half to even to 34 digits, as IEEE 754 and MongoDB have it.
//!
//! A number is split by [`index::number`]; here are the operations on the parts. Exact sums and products have
//! up to 68 digits, so they are kept as two numbers of 34 digits. A result that is too large becomes infinite,
//! one that is too small loses digits at its end. Nothing here fails: what has no value is NaN.

use bson::Decimal128;
use index::number::{COEFFICIENT_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN, pack, unpack};

/// The rounding of digits that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest value; of two that are equally near, to the one with an even last digit.
    HalfEven,
    /// Toward zero: the digits are cut off.
    TowardZero,
    /// Toward negative infinity.
    Floor,
    /// Toward positive infinity.
    Ceiling,
}

/// The number of digits of a double that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// 15, as MongoDB converts doubles: digits after these are noise of the binary form.
    Double,
    /// All 34 that a decimal holds, without trailing zeros of the fraction.
    Full,
}

/// The most digits that a coefficient has.
const DIGITS_MAX: u32 = 34;
/// Ten to the power of [`DIGITS_MAX`].
const LIMB: u128 = 10_u128.pow(DIGITS_MAX);
const NAN: u128 = 0x7c << 120;
const INFINITY: u128 = 0x78 << 120;
const SIGN: u128 = 1 << 127;

pub(crate) fn nan() -> Decimal128 {
    Decimal128::from_bytes(NAN.to_le_bytes())
}

pub(crate) fn infinity(negative: bool) -> Decimal128 {
    let sign = if negative { SIGN } else { 0 };
    Decimal128::from_bytes((INFINITY | sign).to_le_bytes())
}

pub(crate) fn is_nan(value: Decimal128) -> bool {
    unpack(value) == Decimal::Nan
}

pub(crate) fn is_zero(value: Decimal128) -> bool {
    matches!(unpack(value), Decimal::Finite { coefficient: 0, .. })
}

/// Whether it has the sign of negative numbers, which zeros and infinities have too.
pub(crate) fn is_negative(value: Decimal128) -> bool {
    u128::from_le_bytes(value.bytes()) & SIGN != 0
}

/// The number with as few digits as it has, and without an exponent where it is whole and has room for its zeros.
pub(crate) fn shortest(value: Decimal128) -> Decimal128 {
    let Decimal::Finite { negative, mut coefficient, mut exponent } = unpack(value) else { return value };
    if coefficient == 0 {
        return finish(negative, Limbs { high: 0, low: 0 }, 0);
    }
    // At most 34 rounds.
    while coefficient % 10 == 0 {
        (coefficient, exponent) = (coefficient / 10, exponent + 1);
    }
    // A whole number is written with its zeros where they fit.
    let scale = u32::try_from(exponent).ok().and_then(|zeros| 10_u128.checked_pow(zeros));
    if let Some(whole) = scale.and_then(|scale| coefficient.checked_mul(scale)).filter(|whole| *whole < LIMB)
    {
        (coefficient, exponent) = (whole, 0);
    }
    finish(negative, Limbs { high: 0, low: coefficient }, exponent)
}

pub(crate) fn is_finite(value: Decimal128) -> bool {
    matches!(unpack(value), Decimal::Finite { .. })
}

pub(crate) fn absolute(value: Decimal128) -> Decimal128 {
    Decimal128::from_bytes((u128::from_le_bytes(value.bytes()) & !SIGN).to_le_bytes())
}

pub(crate) fn negate(value: Decimal128) -> Decimal128 {
    Decimal128::from_bytes((u128::from_le_bytes(value.bytes()) ^ SIGN).to_le_bytes())
}

pub(crate) fn from_integer(value: i64) -> Decimal128 {
    // An i64 has at most 19 digits, so nothing is rounded.
    finish(value < 0, Limbs { high: 0, low: u128::from(value.unsigned_abs()) }, 0)
}

pub(crate) fn from_double(value: f64, precision: Precision) -> Decimal128 {
    if value.is_nan() {
        return nan();
    }
    if value.is_infinite() {
        return infinity(value < 0.0);
    }
    // Apart, because a negative zero keeps its sign and is not less than zero.
    if value == 0.0 {
        return finish(value.is_sign_negative(), Limbs::ZERO, 0);
    }
    // The standard library prints the exact digits of a double, correctly rounded to the number asked for.
    let text = match precision {
        // One digit before the point and 14 after it. MongoDB keeps the zeros among these.
        Precision::Double => format!("{:.14e}", value.abs()),
        Precision::Full => format!("{:.33e}", value.abs()),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut coefficient = format!("{whole}{fraction}").parse::<u128>().unwrap_or(0);
    let places = i32::try_from(fraction.len()).unwrap_or(0);
    let mut exponent = exponent.parse::<i32>().unwrap_or(0) - places;
    // Zeros at the end of a fraction would claim a precision that the double does not have.
    while precision == Precision::Full && exponent < 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    finish(value < 0.0, Limbs { high: 0, low: coefficient }, exponent)
}

/// The double that is nearest to the number.
pub(crate) fn to_double(value: Decimal128) -> f64 {
    match unpack(value) {
        Decimal::Nan => f64::NAN,
        Decimal::Infinity { negative } => {
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Decimal::Finite { negative, coefficient, exponent } => {
            // Through text: the parser of the standard library rounds correctly, which a product of doubles
            // would not.
            let magnitude = format!("{coefficient}e{exponent}").parse::<f64>().unwrap_or(f64::NAN);
            if negative { -magnitude } else { magnitude }
        }
    }
}

/// The integer that the number rounds to; `None` for NaN, an infinity, or an integer of more than 64 bits.
pub(crate) fn to_integer(value: Decimal128, rounding: Rounding) -> Option<i64> {
    let Decimal::Finite { negative, coefficient, exponent } = unpack(round(value, 0, rounding)) else {
        return None;
    };
    // Rounded to the place 0, a number has no digits of a fraction, so the exponent is at least 0.
    let unit = 10_i128.checked_pow(u32::try_from(exponent).ok()?);
    let magnitude = match (i128::try_from(coefficient).ok()?, unit) {
        // Zero is zero whatever its exponent is, also where the power of ten does not fit.
        (0, _) => 0,
        (coefficient, unit) => coefficient.checked_mul(unit?)?,
    };
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

pub(crate) fn add(left: Decimal128, right: Decimal128) -> Decimal128 {
    match (unpack(left), unpack(right)) {
        // Before the infinities: a NaN wins over everything.
        (Decimal::Nan, _) | (_, Decimal::Nan) => nan(),
        (Decimal::Infinity { negative: first }, Decimal::Infinity { negative: second }) => {
            // Infinities of two signs have no sum.
            if first == second { left } else { nan() }
        }
        (Decimal::Infinity { .. }, Decimal::Finite { .. }) => left,
        (Decimal::Finite { .. }, Decimal::Infinity { .. }) => right,
        (
            Decimal::Finite { negative: first, coefficient: a, exponent: a_exponent },
            Decimal::Finite { negative: second, coefficient: b, exponent: b_exponent },
        ) => {
            let first = Finite { negative: first, coefficient: a, exponent: a_exponent };
            let second = Finite { negative: second, coefficient: b, exponent: b_exponent };
            if a_exponent >= b_exponent { add_finite(first, second) } else { add_finite(second, first) }
        }
    }
}

pub(crate) fn subtract(left: Decimal128, right: Decimal128) -> Decimal128 {
    // Negating a NaN would give a NaN with other bytes, and there is to be only one.
    if is_nan(right) { nan() } else { add(left, negate(right)) }
}

pub(crate) fn multiply(left: Decimal128, right: Decimal128) -> Decimal128 {
    match (unpack(left), unpack(right)) {
        (Decimal::Nan, _) | (_, Decimal::Nan) => nan(),
        (Decimal::Infinity { negative: first }, Decimal::Infinity { negative: second }) => {
            infinity(first != second)
        }
        (
            Decimal::Infinity { negative: first },
            Decimal::Finite { negative: second, coefficient, exponent: _ },
        )
        | (
            Decimal::Finite { negative: first, coefficient, exponent: _ },
            Decimal::Infinity { negative: second },
        ) => {
            // Zero times an infinity has no value.
            if coefficient == 0 { nan() } else { infinity(first != second) }
        }
        // The exponents have four digits, so their sum cannot overflow.
        (
            Decimal::Finite { negative: first, coefficient: a, exponent: a_exponent },
            Decimal::Finite { negative: second, coefficient: b, exponent: b_exponent },
        ) => finish(first != second, Limbs::product(a, b), a_exponent + b_exponent),
    }
}

/// The quotient; a divisor of zero gives an infinity, or NaN for zero by zero.
pub(crate) fn divide(left: Decimal128, right: Decimal128) -> Decimal128 {
    match (unpack(left), unpack(right)) {
        (Decimal::Nan, _) | (_, Decimal::Nan) | (Decimal::Infinity { .. }, Decimal::Infinity { .. }) => nan(),
        (Decimal::Infinity { negative: first }, Decimal::Finite { negative: second, .. }) => {
            infinity(first != second)
        }
        (Decimal::Finite { negative: first, .. }, Decimal::Infinity { negative: second }) => {
            // IEEE 754 gives the quotient by an infinity the least exponent.
            finish(first != second, Limbs::ZERO, EXPONENT_MIN)
        }
        (
            Decimal::Finite { negative: first, coefficient: dividend, exponent: a_exponent },
            Decimal::Finite { negative: second, coefficient: divisor, exponent: b_exponent },
        ) => match (dividend, divisor) {
            (0, 0) => nan(),
            (_, 0) => infinity(first != second),
            (_, _) => {
                let (quotient, steps) = long_division(dividend, divisor);
                // A quotient has 35 digits, so the first may belong to the upper limb.
                let wide = Limbs { high: quotient / LIMB, low: quotient % LIMB };
                finish(first != second, wide, a_exponent - b_exponent - steps)
            }
        },
    }
}

/// The remainder of `left` after the largest whole multiple of `right`, with the sign of `left`.
pub(crate) fn remainder(left: Decimal128, right: Decimal128) -> Decimal128 {
    match (unpack(left), unpack(right)) {
        (Decimal::Nan | Decimal::Infinity { .. }, _)
        | (_, Decimal::Nan | Decimal::Finite { coefficient: 0, .. }) => nan(),
        // IEEE 754: the remainder by an infinity is the number itself.
        (Decimal::Finite { .. }, Decimal::Infinity { .. }) => left,
        (
            Decimal::Finite { negative, coefficient: dividend, exponent: a_exponent },
            Decimal::Finite { coefficient: divisor, exponent: b_exponent, .. },
        ) => {
            // Both coefficients are brought to the smaller exponent; the remainder has that one.
            if a_exponent < b_exponent {
                let unit = 10_u128.checked_pow(a_exponent.abs_diff(b_exponent));
                // A divisor beyond 128 bits is greater than any coefficient.
                let Some(divisor) = unit.and_then(|unit| divisor.checked_mul(unit)) else { return left };
                return finish(negative, Limbs { high: 0, low: dividend % divisor }, a_exponent);
            }
            // The dividend may have thousands of zeros, so its remainder is computed digit by digit, as in long
            // division by hand. With a divisor of at most 34 digits, ten times a remainder fits into 128 bits.
            let mut left_over = dividend % divisor;
            for _ in b_exponent..a_exponent {
                left_over = left_over * 10 % divisor;
            }
            finish(negative, Limbs { high: 0, low: left_over }, b_exponent)
        }
    }
}

/// Rounds the number to a multiple of 10^`exponent`.
///
/// A number without digits below that gets trailing zeros instead, as far as 34 digits hold them.
pub(crate) fn round(value: Decimal128, exponent: i32, rounding: Rounding) -> Decimal128 {
    let Decimal::Finite { negative, coefficient, exponent: own } = unpack(value) else { return value };
    if own >= exponent {
        // MongoDB shows the places that were asked for: 5 rounded to two places is 5.00.
        let padded = 10_u128
            .checked_pow(own.abs_diff(exponent))
            .and_then(|unit| coefficient.checked_mul(unit))
            .and_then(|padded| pack(negative, padded, exponent));
        // If the zeros do not fit, the number stays as it is, with the value that it has.
        return padded.unwrap_or(value);
    }
    let (kept, tail) = Limbs { high: 0, low: coefficient }.cut(own.abs_diff(exponent));
    // At most 34 digits were there and one or more is cut, so the sum fits one limb.
    let coefficient = kept.low + u128::from(tail.rounds_up(rounding, negative, kept.low));
    finish(negative, Limbs { high: 0, low: coefficient }, exponent)
}

/// A number of up to 68 digits, in two limbs of 34.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Limbs {
    /// The first 34 digits.
    high: u128,
    /// The last 34 digits.
    low: u128,
}

/// The digits that were cut off, compared with one half of the last digit that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tail {
    Zero,
    BelowHalf,
    Half,
    AboveHalf,
}

impl Tail {
    fn rounds_up(self, rounding: Rounding, negative: bool, kept: u128) -> bool {
        match rounding {
            Rounding::HalfEven => self > Self::Half || (self == Self::Half && !kept.is_multiple_of(2)),
            Rounding::TowardZero => false,
            Rounding::Floor => negative && self > Self::Zero,
            Rounding::Ceiling => !negative && self > Self::Zero,
        }
    }
}

impl Limbs {
    const ZERO: Self = Self { high: 0, low: 0 };

    /// The product of two numbers of 34 digits, by halves of 17 digits.
    fn product(left: u128, right: u128) -> Self {
        const HALF: u128 = 10_u128.pow(DIGITS_MAX / 2);
        let (left_high, left_low) = (left / HALF, left % HALF);
        let (right_high, right_low) = (right / HALF, right % HALF);
        // Each partial product has at most 34 digits, and the sum of two fits into 128 bits.
        let middle = left_high * right_low + left_low * right_high;
        let low = left_low * right_low + middle % HALF * HALF;
        Self { high: left_high * right_high + middle / HALF + low / LIMB, low: low % LIMB }
    }

    fn digits(self) -> u32 {
        let count = |limb: u128| limb.checked_ilog10().map_or(0, |log| log + 1);
        if self.high == 0 { count(self.low) } else { DIGITS_MAX + count(self.high) }
    }

    /// The number without its last `count` digits, and what those were.
    fn cut(self, count: u32) -> (Self, Tail) {
        let unit = |count: u32| 10_u128.pow(count);
        match count {
            0 => (self, Tail::Zero),
            1..=DIGITS_MAX => {
                let (kept, shift) = (unit(count), unit(DIGITS_MAX - count));
                // With all of `low` gone, `shift` is 1 and `high` moves down whole.
                let low = self.low / kept + self.high % kept * shift;
                let high = if count == DIGITS_MAX { 0 } else { self.high / kept };
                (Self { high, low }, tail_of(self.low % kept, kept, 0))
            }
            // The lower limb is gone as a whole, and matters only as digits below the cut.
            35..=68 => {
                let kept = unit(count - DIGITS_MAX);
                let low = self.high / kept;
                (Self { high: 0, low }, tail_of(self.high % kept, kept, self.low))
            }
            _ if self == Self::ZERO => (self, Tail::Zero),
            // All digits are cut: what they amount to is less than a tenth of the last place that is kept.
            _ => (Self::ZERO, Tail::BelowHalf),
        }
    }
}

/// Compares `cut` with half of `unit`.
///
/// `below` are the digits after those of `cut`, of which only matters whether they are zero.
fn tail_of(cut: u128, unit: u128, below: u128) -> Tail {
    if cut == 0 && below == 0 {
        return Tail::Zero;
    }
    match cut.cmp(&(unit / 2)) {
        std::cmp::Ordering::Less => Tail::BelowHalf,
        std::cmp::Ordering::Equal if below == 0 => Tail::Half,
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => Tail::AboveHalf,
    }
}

/// Marks a number from which digits other than zero were cut off, so that a later rounding still sees them.
///
/// Only a last digit of 0 or 5 can look like an exact value or an exact half; one more is neither.
fn sticky(number: u128, is_inexact: bool) -> u128 {
    if is_inexact && number.is_multiple_of(5) { number + 1 } else { number }
}

/// The first 35 digits of a quotient, and how many of them belong to the fraction. The divisor is not zero.
fn long_division(dividend: u128, divisor: u128) -> (u128, i32) {
    // One digit more than a decimal holds, so that the rounding sees the digit after the last; whether any
    // follow is in `sticky`.
    let (mut quotient, mut left_over) = (dividend / divisor, dividend % divisor);
    let mut steps = 0;
    while left_over != 0 && quotient < LIMB {
        left_over *= 10;
        quotient = quotient * 10 + left_over / divisor;
        left_over %= divisor;
        steps += 1;
    }
    (sticky(quotient, left_over != 0), steps)
}

/// A finite number, split.
#[derive(Clone, Copy)]
struct Finite {
    negative: bool,
    coefficient: u128,
    exponent: i32,
}

/// Adds two finite numbers, the first of which has the larger exponent.
fn add_finite(larger: Finite, smaller: Finite) -> Decimal128 {
    let Finite { negative: first, coefficient: mut a, exponent: mut a_exponent } = larger;
    let Finite { negative: second, coefficient: mut b, exponent: mut b_exponent } = smaller;
    if a == 0 {
        // Zero has a sign and an exponent too. A sum of two zeros is negative only if both are.
        let negative = if b == 0 { first && second } else { second };
        return finish(negative, Limbs { high: 0, low: b }, b_exponent);
    }
    let gap = |a_exponent: i32, b_exponent: i32| a_exponent.abs_diff(b_exponent);
    // Trailing zeros cost nothing: they bring the exponents together while the coefficient has room for them.
    while gap(a_exponent, b_exponent) > DIGITS_MAX && a <= COEFFICIENT_MAX / 10 {
        a *= 10;
        a_exponent -= 1;
    }
    // The rest of the gap is more than the 34 digits of a limb. Digits of the smaller number that lie below it cannot
    // reach the result, but whether they are zero decides how it is rounded.
    let excess = gap(a_exponent, b_exponent).saturating_sub(DIGITS_MAX);
    if excess > 0 {
        let unit = 10_u128.checked_pow(excess);
        let (kept, left_over) = unit.map_or((0, b), |unit| (b / unit, b % unit));
        b = sticky(kept, left_over != 0);
        b_exponent = a_exponent - DIGITS_MAX.cast_signed();
    }
    let shift = gap(a_exponent, b_exponent);
    let aligned =
        // Ten to the 34th is one digit too long for the product of halves, and is a move to the upper limb.
        if shift == DIGITS_MAX { Limbs { high: a, low: 0 } } else { Limbs::product(a, 10_u128.pow(shift)) };
    let other = Limbs { high: 0, low: b };
    if first == second {
        // Two limbs are less than 2 * 10^34 together, which fits into 128 bits.
        let low = aligned.low + other.low;
        return finish(first, Limbs { high: aligned.high + low / LIMB, low: low % LIMB }, b_exponent);
    }
    // The signs differ, so the sum is a difference, and has the sign of the number with the greater
    // magnitude.
    let (greater, smaller, negative) = match aligned.cmp(&other) {
        // IEEE 754: a difference of equal numbers is a positive zero.
        std::cmp::Ordering::Equal => return finish(false, Limbs::ZERO, b_exponent),
        std::cmp::Ordering::Greater => (aligned, other, first),
        std::cmp::Ordering::Less => (other, aligned, second),
    };
    // A borrow from the upper limb is worth one whole lower limb.
    let borrow = u128::from(greater.low < smaller.low);
    let low = greater.low + borrow * LIMB - smaller.low;
    finish(negative, Limbs { high: greater.high - borrow - smaller.high, low }, b_exponent)
}

/// Rounds a number to what a decimal128 holds.
fn finish(negative: bool, number: Limbs, exponent: i32) -> Decimal128 {
    let too_long = number.digits().saturating_sub(DIGITS_MAX);
    // Digits are dropped for two reasons, and rounded once: a second rounding could mistake the result of the first for
    // an exact half.
    let too_small = u32::try_from(EXPONENT_MIN.saturating_sub(exponent)).unwrap_or(0);
    let drop = too_long.max(too_small);
    let (kept, tail) = number.cut(drop);
    let mut coefficient = kept.low + u128::from(tail.rounds_up(Rounding::HalfEven, negative, kept.low));
    let mut exponent = exponent.saturating_add_unsigned(drop);
    // Rounding up 34 nines gives 35 digits, the last of which is zero.
    if coefficient > COEFFICIENT_MAX {
        coefficient /= 10;
        exponent += 1;
    }
    // A zero is never too large: its exponent is clamped.
    if coefficient == 0 {
        exponent = exponent.min(EXPONENT_MAX);
    }
    // A coefficient with few digits has room for trailing zeros, each of which makes the exponent smaller by one.
    // A number that is still too large is infinite.
    while exponent > EXPONENT_MAX && coefficient <= COEFFICIENT_MAX / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    pack(negative, coefficient, exponent).unwrap_or_else(|| infinity(negative))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use bson::RawBsonRef;
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal128 {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(operation: fn(Decimal128, Decimal128) -> Decimal128, left: &str, right: &str, expected: &str) {
        assert_eq!(operation(decimal(left), decimal(right)).to_string(), expected, "{left} and {right}");
    }

    const NINES: &str = "9999999999999999999999999999999999";

    #[test]
    fn sums_are_exact_or_rounded_half_to_even() {
        check(add, "0.1", "0.2", "0.3");
        check(add, "1.10", "2", "3.10");
        check(add, "1E+3", "1", "1001");
        check(add, "-5", "5", "0");
        check(add, "-0", "-0", "-0");
        check(add, NINES, "1", "1.000000000000000000000000000000000E+34");
        check(add, NINES, "0.5", "1.000000000000000000000000000000000E+34");
        check(add, NINES, "0.4999", NINES);
        check(add, "1E+40", "1", "1.000000000000000000000000000000000E+40");
        check(add, "1E+40", "1E-6000", "1.000000000000000000000000000000000E+40");
        check(add, "0E+3", "1.5", "1.5");
        check(add, "9.999999999999999999999999999999999E+6144", "1E+6111", "Infinity");
    }

    #[test]
    fn differences_far_below_the_last_digit_still_count() {
        let below = "9.999999999999999999999999999999999E+39";
        check(subtract, "1E+40", "1E+6", "9.999999999999999999999999999999999E+39");
        check(subtract, "1E+40", "6E+5", below);
        check(subtract, "1E+40", "5E+5", "1.000000000000000000000000000000000E+40");
        check(subtract, "1E+40", "500000.1", below);
        check(subtract, "1E+40", "1E-6000", "1.000000000000000000000000000000000E+40");
        check(subtract, "0", "0", "0");
    }

    #[test]
    fn products_have_all_their_digits_or_are_rounded() {
        check(multiply, "1.5", "2", "3.0");
        check(multiply, NINES, NINES, "9.999999999999999999999999999999998E+67");
        check(multiply, "1E-6176", "0.5", "0E-6176");
        check(multiply, "3E-6176", "0.5", "2E-6176");
        check(multiply, "1E+6111", "1E+33", "1.000000000000000000000000000000000E+6144");
        check(multiply, "1E+6111", "1E+34", "Infinity");
        check(multiply, "-2", "3", "-6");
        check(multiply, "0", "-3", "-0");
    }

    #[test]
    fn quotients_have_as_few_digits_as_they_need() {
        check(divide, "6", "2", "3");
        check(divide, "1", "8", "0.125");
        check(divide, "1", "3", "0.3333333333333333333333333333333333");
        check(divide, "2", "3", "0.6666666666666666666666666666666667");
        check(divide, "1", "-0", "-Infinity");
        check(divide, "0", "0", "NaN");
        check(divide, "1", "Infinity", "0E-6176");
        check(divide, "1E-6176", "2", "0E-6176");
        check(divide, "3E-6176", "2", "2E-6176");
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend() {
        check(remainder, "7", "3", "1");
        check(remainder, "-7", "3", "-1");
        check(remainder, "7.5", "2", "1.5");
        check(remainder, "1E+6000", "7", "1");
        check(remainder, "3", "1E+6000", "3");
        check(remainder, "3", "0", "NaN");
        check(remainder, "3", "Infinity", "3");
    }

    #[test]
    fn what_is_not_finite_follows_the_rules_of_ieee() {
        check(add, "Infinity", "-Infinity", "NaN");
        check(add, "Infinity", "5", "Infinity");
        check(subtract, "5", "Infinity", "-Infinity");
        check(multiply, "Infinity", "0", "NaN");
        check(multiply, "Infinity", "-2", "-Infinity");
        check(divide, "Infinity", "Infinity", "NaN");
        check(add, "NaN", "1", "NaN");
    }

    #[test]
    fn rounding_cuts_at_a_place() {
        let check = |value: &str, exponent, rounding, expected: &str| {
            assert_eq!(round(decimal(value), exponent, rounding).to_string(), expected, "{value}");
        };
        check("2.5", 0, Rounding::HalfEven, "2");
        check("3.5", 0, Rounding::HalfEven, "4");
        check("2.51", 0, Rounding::HalfEven, "3");
        check("-2.5", 0, Rounding::Floor, "-3");
        check("-2.5", 0, Rounding::Ceiling, "-2");
        check("2.1", 0, Rounding::Ceiling, "3");
        check("2.9", 0, Rounding::TowardZero, "2");
        check("1.23456", -2, Rounding::HalfEven, "1.23");
        check("1250", 2, Rounding::HalfEven, "1.2E+3");
        check("5", -2, Rounding::HalfEven, "5.00");
        check("1E+100", 0, Rounding::HalfEven, "1E+100");
        check("1E-100", 0, Rounding::Ceiling, "1");
        check("Infinity", 0, Rounding::Ceiling, "Infinity");
    }

    #[test]
    fn doubles_come_with_15_digits_or_all() {
        assert_eq!(from_double(0.1, Precision::Double).to_string(), "0.100000000000000");
        assert_eq!(from_double(2.5, Precision::Double).to_string(), "2.50000000000000");
        assert_eq!(from_double(0.1, Precision::Full).to_string(), "0.1000000000000000055511151231257827");
        assert_eq!(from_double(-1e300, Precision::Double).to_string(), "-1.00000000000000E+300");
        assert_eq!(from_double(-0.0, Precision::Double).to_string(), "-0");
        assert_eq!(from_double(f64::NEG_INFINITY, Precision::Full).to_string(), "-Infinity");
    }

    #[test]
    fn integers_of_64_bits_come_back() {
        let check = |text: &str, expected| {
            assert_eq!(to_integer(decimal(text), Rounding::HalfEven), expected, "{text}");
        };
        check("2.5", Some(2));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775808", None);
        check("1E+18", Some(10_i64.pow(18)));
        check("1E+6000", None);
        check("0E+6000", Some(0));
        check("NaN", None);
        assert_eq!(from_integer(i64::MIN).to_string(), "-9223372036854775808");
    }

    fn any_decimal() -> impl Strategy<Value = Decimal128> {
        let finite = (any::<bool>(), 0..=COEFFICIENT_MAX, 0..35_u32, -60..60_i32);
        let finite = finite.prop_map(|(negative, coefficient, shorter, exponent)| {
            pack(negative, coefficient / 10_u128.pow(shorter), exponent).unwrap()
        });
        prop_oneof![8 => finite, 1 => any::<[u8; 16]>().prop_map(Decimal128::from_bytes)]
    }

    fn compare(left: Decimal128, right: Decimal128) -> Ordering {
        index::order::compare(RawBsonRef::Decimal128(left), RawBsonRef::Decimal128(right))
    }

    proptest! {
        #[test]
        fn order_of_operands_does_not_matter(left in any_decimal(), right in any_decimal()) {
            prop_assert_eq!(compare(add(left, right), add(right, left)), Ordering::Equal);
            prop_assert_eq!(compare(multiply(left, right), multiply(right, left)), Ordering::Equal);
        }

        #[test]
        fn small_sums_and_products_are_those_of_integers(
            left in -(10_i64.pow(16))..10_i64.pow(16), right in -(10_i64.pow(16))..10_i64.pow(16),
        ) {
            let (a, b) = (from_integer(left), from_integer(right));
            prop_assert_eq!(to_integer(add(a, b), Rounding::HalfEven), Some(left + right));
            let product = (i128::from(left) * i128::from(right)).to_string();
            prop_assert_eq!(compare(multiply(a, b), decimal(&product)), Ordering::Equal);
            if right != 0 {
                prop_assert_eq!(to_integer(divide(a, b), Rounding::TowardZero), Some(left / right));
                prop_assert_eq!(to_integer(remainder(a, b), Rounding::TowardZero), Some(left % right));
            }
        }

        #[test]
        fn sums_of_doubles_are_close(left in -1e15..1e15_f64, right in -1e15..1e15_f64) {
            let sum = add(from_double(left, Precision::Full), from_double(right, Precision::Full));
            prop_assert!((to_double(sum) - (left + right)).abs() <= f64::EPSILON * (left.abs() + right.abs()));
        }

        #[test]
        fn nothing_panics(left in any_decimal(), right in any_decimal(), place in -7000..7000_i32) {
            let _ = (divide(left, right), remainder(left, right), subtract(left, right), to_double(left));
            let _ = (round(left, place, Rounding::Ceiling), to_integer(right, Rounding::Floor));
        }
    }
}
