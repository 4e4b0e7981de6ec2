//! Magnitudes: the distance of a number from zero, in parts that sort as the values do.
//!
//! Conversions from integers, doubles and decimals to the parts and back. All are exact: the one step
//! that rounds, parsing a decimal as a double, is corrected by an exact comparison.

use std::cmp::Ordering;

use super::decimal::{COEFFICIENT_MAX, strip_zeros};
use super::wide::{self, BinaryFloat};

/// The digits that [`Digits::aligned`] has room for: 34, rounded up to whole groups of nine.
pub(crate) const DIGITS_ALIGNED: u32 = 36;

const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i32 = 1075;
const TWO_TO_63: u64 = 1 << 63;
/// The bits of the doubles 2^53 and 2^63. Between them, not all integers are doubles.
const UNITS_FIRST: u64 = (1023 + 53) << MANTISSA_BITS;
const UNITS_END: u64 = (1023 + 63) << MANTISSA_BITS;

/// The distance of a number from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Magnitude {
    /// The bits of the largest double that is not larger; zero below the smallest double.
    pub(crate) double: u64,
    /// Whole units beyond that double, counted only from 2^53 up to 2^63, else zero.
    pub(crate) units: u16,
    /// All digits, if the value is not the double plus the units.
    pub(crate) digits: Option<Digits>,
}

/// The digits of a decimal: its value is `aligned` * 10^(`exponent` - 35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digits {
    /// The decimal exponent of the first digit.
    pub(crate) exponent: i32,
    /// The digits as one integer of exactly [`DIGITS_ALIGNED`] digits, the first of them not zero.
    pub(crate) aligned: u128,
}

impl Magnitude {
    pub(super) const ZERO: Self = Self::from_double(0);

    #[inline]
    pub(super) const fn from_double(double: u64) -> Self {
        Self { double, units: 0, digits: None }
    }

    /// The magnitude of an integer of at most 2^63.
    #[inline]
    pub(super) fn from_integer(value: u64) -> Self {
        let (double, units) = split_integer(value);
        Self { double, units, digits: None }
    }

    pub(super) fn from_decimal(coefficient: u128, exponent: i32) -> Self {
        if coefficient == 0 {
            return Self::ZERO;
        }
        let (coefficient, exponent, _) = strip_zeros(coefficient, exponent);
        if let Some(integer) = small_integer(coefficient, exponent) {
            return Self::from_integer(integer);
        }
        let (double, exact) = truncate_to_double(coefficient, exponent);
        if exact {
            return Self::from_double(double);
        }
        // Integers up to 2^63 were handled above, so a value in the range of the units has a fraction.
        let units = if is_counted_in_units(double) { units_beyond(double, coefficient, exponent) } else { 0 };
        Self { double, units, digits: Some(Digits::new(coefficient, exponent)) }
    }

    /// Whether a number has exactly these parts. Parts that were read from damaged bytes may have none.
    pub(crate) fn is_canonical(&self) -> bool {
        // A number's parts are a function of its value: converting there and back must give the same parts.
        match self.digits {
            Some(digits) => {
                let (coefficient, exponent, _) = strip_zeros(digits.aligned, digits.last_exponent());
                coefficient <= COEFFICIENT_MAX && Self::from_decimal(coefficient, exponent) == *self
            }
            None if self.units == 0 => (1..=f64::INFINITY.to_bits()).contains(&self.double),
            None => {
                let integer = self.to_integer().filter(|&integer| integer <= TWO_TO_63);
                integer.map(Self::from_integer) == Some(*self)
            }
        }
    }

    pub(super) fn to_double(self) -> Option<f64> {
        (self.units == 0 && self.digits.is_none()).then_some(f64::from_bits(self.double))
    }

    /// The magnitude as an integer. Canonical parts give at most 2^63.
    pub(super) fn to_integer(self) -> Option<u64> {
        let whole = integer_double(self.double)?;
        self.digits.is_none().then_some(whole + u64::from(self.units))
    }

    /// The coefficient, without trailing zeros, and the exponent of the value as a decimal.
    pub(super) fn to_decimal(self) -> Option<(u128, i32)> {
        if let Some(digits) = self.digits {
            let (coefficient, exponent, _) = strip_zeros(digits.aligned, digits.last_exponent());
            return Some((coefficient, exponent));
        }
        if let Some(integer) = self.to_integer() {
            let (coefficient, exponent, _) = strip_zeros(u128::from(integer), 0);
            return Some((coefficient, exponent));
        }
        double_to_decimal(self.double)
    }
}

impl Digits {
    /// The digits of a decimal other than zero.
    fn new(coefficient: u128, exponent: i32) -> Self {
        let following = coefficient.ilog10();
        let aligned = coefficient * 10_u128.pow(DIGITS_ALIGNED - 1 - following);
        let following = i32::try_from(following).expect("a u128 has at most 39 digits");
        Self { exponent: exponent + following, aligned }
    }

    /// The exponent of the last of the [`DIGITS_ALIGNED`] digits.
    fn last_exponent(self) -> i32 {
        self.exponent - 35
    }
}

/// Whether units are counted beyond a double, given its bits.
#[inline]
pub(crate) fn is_counted_in_units(double: u64) -> bool {
    (UNITS_FIRST..UNITS_END).contains(&double)
}

/// The bits of the largest double that is not larger than an integer of at most 2^63, and the units
/// beyond it.
#[inline]
pub(crate) fn split_integer(value: u64) -> (u64, u16) {
    assert!(value <= TWO_TO_63, "integers beyond 2^63 are decimals");
    // A double has 53 bits of precision, so of an integer with n leading zeros the low 11 - n bits are lost.
    let excess = 11_u32.saturating_sub(value.leading_zeros());
    let mask = (1 << excess) - 1;
    #[expect(clippy::cast_possible_truncation, reason = "at most eleven bits are masked")]
    let units = (value & mask) as u16;
    #[expect(clippy::cast_precision_loss, reason = "the lost bits are those kept as units")]
    let double = (value & !mask) as f64;
    (double.to_bits(), units)
}

/// `coefficient` * 10^`exponent` if that is an integer of at most 2^63.
fn small_integer(coefficient: u128, exponent: i32) -> Option<u64> {
    let power = 10_u64.checked_pow(u32::try_from(exponent).ok()?)?;
    let value = u64::try_from(coefficient).ok()?.checked_mul(power)?;
    (value <= TWO_TO_63).then_some(value)
}

/// The bits of the largest double that is not larger than a decimal other than zero, and whether
/// the two are equal.
fn truncate_to_double(coefficient: u128, exponent: i32) -> (u64, bool) {
    // The standard library's parser is correctly rounded, so its result is at most one double too large.
    let text = format!("{coefficient}e{exponent}");
    let nearest: f64 = text.parse().expect("digits, an e and an integer form a number");
    // A decimal is finite: beyond the largest double it still sorts below infinity.
    if nearest.is_infinite() {
        return (f64::MAX.to_bits(), false);
    }
    if nearest == 0.0 {
        return (0, false);
    }
    let bits = nearest.to_bits();
    // If the nearest double is larger than the decimal, the double before it is smaller.
    match wide::compare_decimal_with_binary(coefficient, exponent, finite_parts(bits)) {
        Ordering::Less => (bits - 1, false),
        Ordering::Equal => (bits, true),
        Ordering::Greater => (bits, false),
    }
}

/// The number of whole units between a double from 2^53 up to 2^63 and a decimal with a fraction.
fn units_beyond(double: u64, coefficient: u128, exponent: i32) -> u16 {
    // A value with a fraction has a negative exponent, so dividing cuts the fraction off.
    let whole = 10_u128.checked_pow(exponent.unsigned_abs()).map_or(0, |power| coefficient / power);
    let base = integer_double(double).map_or(0, u128::from);
    u16::try_from(whole - base).expect("fewer units than two neighboring doubles are apart")
}

/// The parts of the finite double with the given bits.
fn finite_parts(bits: u64) -> BinaryFloat {
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    let biased = i32::try_from(bits >> MANTISSA_BITS).expect("eleven bits without the sign");
    // Subnormal doubles have the smallest exponent and no implied leading one.
    if biased == 0 {
        BinaryFloat { mantissa: fraction, power: 1 - EXPONENT_BIAS }
    } else {
        BinaryFloat { mantissa: fraction | 1 << MANTISSA_BITS, power: biased - EXPONENT_BIAS }
    }
}

/// The double with the given bits as an integer, if it is one of at most 2^63.
fn integer_double(bits: u64) -> Option<u64> {
    let BinaryFloat { mantissa, power } = finite_parts(bits);
    if bits > UNITS_END {
        None
    } else if power >= 0 {
        Some(mantissa << power)
    } else {
        let shift = power.unsigned_abs();
        // An integer only if the bits that are shifted out are zeros.
        let value = mantissa.checked_shr(shift).unwrap_or(0);
        (value.checked_shl(shift) == Some(mantissa)).then_some(value)
    }
}

/// The double with the given bits as a decimal without trailing zeros, if it has at most 34 digits.
fn double_to_decimal(bits: u64) -> Option<(u128, i32)> {
    if bits >= f64::INFINITY.to_bits() || bits == 0 {
        return None;
    }
    let BinaryFloat { mantissa, power } = finite_parts(bits);
    let twos = mantissa.trailing_zeros();
    let mut odd = u128::from(mantissa >> twos);
    let mut power = power + i32::try_from(twos).ok()?;
    if power < 0 {
        // odd / 2^n is odd * 5^n / 10^n, and the product of odd numbers has no trailing zero.
        let coefficient = odd.checked_mul(5_u128.checked_pow(power.unsigned_abs())?)?;
        return (coefficient <= COEFFICIENT_MAX).then_some((coefficient, power));
    }
    let mut exponent = 0;
    // Pairs of a two and a five become tens, which keeps large doubles like 1e30 within 34 digits.
    while power > 0 && odd.is_multiple_of(5) {
        odd /= 5;
        power -= 1;
        exponent += 1;
    }
    let coefficient = odd.checked_mul(1_u128.checked_shl(power.unsigned_abs())?)?;
    (coefficient <= COEFFICIENT_MAX).then_some((coefficient, exponent))
}
