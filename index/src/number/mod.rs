//! One exact order over int32, int64, double and decimal128, by mathematical value.
//!
//! A [`Number`] is a value without its type: the value rounded toward zero to a double, and what that
//! double lacks. A double lacks nothing, an integer a count of units, and a decimal that is not a double has
//! all its decimal digits.
//!
//! Why that is exact: rounding toward zero never reverses an order, so values with different doubles are
//! ordered by their doubles; values with the same double are ordered by the units beyond it, then by
//! the digits. Equal values have equal parts, because every part depends on the value alone. All NaNs are
//! one number below all others, and both zeros are one number.

mod decimal;
mod decimal_text;
mod magnitude;
mod wide;

use std::cmp::Ordering;

use bson::{Decimal128, RawBsonRef};

use self::decimal::strip_zeros;
pub use self::decimal::{COEFFICIENT_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN, pack, unpack};
pub use self::decimal_text::{parse_decimal, parse_exact_decimal};
pub(crate) use self::magnitude::{DIGITS_ALIGNED, Digits, Magnitude, is_counted_in_units, split_integer};

const SIGN_BIT: u64 = 1 << 63;

/// The value of a number of any type, ordered as MongoDB orders numbers.
///
/// ```
/// use bson::RawBsonRef;
/// use cairndb_index::number::Number;
///
/// let large = Number::from_i64((1 << 53) + 1);
/// assert!(large > Number::from_f64(9_007_199_254_740_992.0));
/// assert_eq!(Number::from_f64(-0.0), Number::from_i64(0));
/// assert_eq!(Number::of(RawBsonRef::Null), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    parts: Parts,
}

/// The parts of a number. The derived order is the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Parts {
    /// Every NaN of every type.
    Nan,
    /// A value below zero: the larger the magnitude, the smaller the value.
    Negative(std::cmp::Reverse<Magnitude>),
    /// Every zero of every type.
    Zero,
    /// A value above zero.
    Positive(Magnitude),
}

impl Number {
    /// The number of a BSON value. Returns `None` if the value is not a number.
    #[inline]
    pub fn of(value: RawBsonRef<'_>) -> Option<Self> {
        match value {
            RawBsonRef::Int32(value) => Some(Self::from_i64(i64::from(value))),
            RawBsonRef::Int64(value) => Some(Self::from_i64(value)),
            RawBsonRef::Double(value) => Some(Self::from_f64(value)),
            RawBsonRef::Decimal128(value) => Some(Self::from_decimal128(value)),
            RawBsonRef::String(_)
            | RawBsonRef::Array(_)
            | RawBsonRef::Document(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::Null
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::JavaScriptCode(_)
            | RawBsonRef::JavaScriptCodeWithScope(_)
            | RawBsonRef::Timestamp(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::ObjectId(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Symbol(_)
            | RawBsonRef::Undefined
            | RawBsonRef::MaxKey
            | RawBsonRef::MinKey
            | RawBsonRef::DbPointer(_) => None,
        }
    }

    /// The number of an integer.
    #[inline]
    pub fn from_i64(value: i64) -> Self {
        Self::new(value < 0, Magnitude::from_integer(value.unsigned_abs()))
    }

    /// The number of a double.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        if value.is_nan() {
            return Self { parts: Parts::Nan };
        }
        // Without the sign bit, the bits of a double are those of its magnitude.
        let bits = value.to_bits();
        Self::new(bits & SIGN_BIT != 0, Magnitude::from_double(bits & !SIGN_BIT))
    }

    /// The number of a decimal.
    pub fn from_decimal128(value: Decimal128) -> Self {
        match unpack(value) {
            Decimal::Nan => Self { parts: Parts::Nan },
            // Equal to the infinity of doubles, as in MongoDB.
            Decimal::Infinity { negative } => {
                Self::new(negative, Magnitude::from_double(f64::INFINITY.to_bits()))
            }
            Decimal::Finite { negative, coefficient, exponent } => {
                Self::new(negative, Magnitude::from_decimal(coefficient, exponent))
            }
        }
    }

    #[inline]
    pub(crate) fn from_parts(parts: Parts) -> Self {
        Self { parts }
    }

    #[inline]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    #[inline]
    fn new(negative: bool, magnitude: Magnitude) -> Self {
        // The sign of a zero is dropped: 0.0 and -0.0 are equal in MongoDB.
        let parts = if magnitude == Magnitude::ZERO {
            Parts::Zero
        } else if negative {
            Parts::Negative(std::cmp::Reverse(magnitude))
        } else {
            Parts::Positive(magnitude)
        };
        Self { parts }
    }

    /// The number as an integer. Returns `None` if it is not an integer of 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.parts {
            Parts::Nan => None,
            Parts::Zero => Some(0),
            Parts::Positive(magnitude) => i64::try_from(magnitude.to_integer()?).ok(),
            Parts::Negative(std::cmp::Reverse(magnitude)) => {
                // Not the negation of a positive integer: the least i64 has none.
                0_i64.checked_sub_unsigned(magnitude.to_integer()?)
            }
        }
    }

    /// The number as a double. Returns `None` if no double is equal to it. NaN has the usual bits, and a
    /// zero is positive.
    pub fn to_f64(&self) -> Option<f64> {
        match self.parts {
            Parts::Nan => Some(f64::NAN),
            Parts::Zero => Some(0.0),
            Parts::Positive(magnitude) => magnitude.to_double(),
            Parts::Negative(std::cmp::Reverse(magnitude)) => magnitude.to_double().map(|value| -value),
        }
    }

    /// The number as a finite decimal whose coefficient ends in `zeros` zeros. Returns `None` if there is no
    /// such decimal, and for zero, whose exponent is not part of its value.
    pub(crate) fn to_decimal128(self, zeros: u8) -> Option<Decimal128> {
        let (negative, magnitude) = match self.parts {
            Parts::Nan | Parts::Zero => return None,
            Parts::Positive(magnitude) => (false, magnitude),
            Parts::Negative(std::cmp::Reverse(magnitude)) => (true, magnitude),
        };
        // The zeros distinguish 1.0 from 1.00, which are equal and must come back as they were.
        let (coefficient, exponent) = magnitude.to_decimal()?;
        let coefficient = coefficient.checked_mul(10_u128.checked_pow(u32::from(zeros))?)?;
        pack(negative, coefficient, exponent - i32::from(zeros))
    }

    /// Any finite decimal that equals the number, if there is one.
    pub(crate) fn to_any_decimal128(self) -> Option<Decimal128> {
        (0..34).find_map(|zeros| self.to_decimal128(zeros))
    }
}

/// Compares two numbers of BSON types exactly; without a detour where both have one type.
#[inline]
pub(crate) fn compare(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    // Fields mostly hold one type. Only mixed types, decimals and NaN need the exact parts.
    if let (RawBsonRef::Int32(left), RawBsonRef::Int32(right)) = (left, right) {
        return left.cmp(&right);
    }
    if let (RawBsonRef::Int64(left), RawBsonRef::Int64(right)) = (left, right) {
        return left.cmp(&right);
    }
    if let (RawBsonRef::Double(left), RawBsonRef::Double(right)) = (left, right)
        // NaN has no order among doubles; MongoDB puts it below all numbers, which the parts do.
        && let Some(ordering) = left.partial_cmp(&right)
    {
        return ordering;
    }
    Number::of(left).cmp(&Number::of(right))
}

/// The number of trailing zeros of a finite decimal's coefficient.
pub(crate) fn trailing_zeros(coefficient: u128) -> u8 {
    strip_zeros(coefficient, 0).2
}

#[cfg(test)]
mod tests;
