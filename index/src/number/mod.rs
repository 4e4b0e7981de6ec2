//! One exact order over int32, int64, double and decimal128, by mathematical value.
//!
//! A [`Number`] is a value without its type. It is the largest double that is not beyond the value
//! (toward zero), and what is left of the value beyond that double: nothing for a double, a count of
//! units for an integer, all decimal digits for a decimal that is no double.
//!
//! Why that is exact: cutting toward zero to a double never reverses an order, so two values with
//! different doubles are ordered by these; among values with one double the units beyond it, and
//! then the digits, order them. Equal values have equal parts, because every part is a function of
//! the value alone. All NaNs are one number below the others, and both zeros are one number.

mod decimal;
mod magnitude;
mod wide;

use std::cmp::Ordering;

use bson::{Decimal128, RawBsonRef};

use self::decimal::strip_zeros;
pub use self::decimal::{COEFFICIENT_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN, pack, unpack};
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

/// A number by its parts. The derived order is the order of the numbers.
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
    /// The number that a BSON value is, or nothing for a value of another class.
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

    /// The value of an integer.
    #[inline]
    pub fn from_i64(value: i64) -> Self {
        Self::new(value < 0, Magnitude::from_integer(value.unsigned_abs()))
    }

    /// The value of a double.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        if value.is_nan() {
            return Self { parts: Parts::Nan };
        }
        let bits = value.to_bits();
        Self::new(bits & SIGN_BIT != 0, Magnitude::from_double(bits & !SIGN_BIT))
    }

    /// The value of a decimal.
    pub fn from_decimal128(value: Decimal128) -> Self {
        match unpack(value) {
            Decimal::Nan => Self { parts: Parts::Nan },
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
        let parts = if magnitude == Magnitude::ZERO {
            Parts::Zero
        } else if negative {
            Parts::Negative(std::cmp::Reverse(magnitude))
        } else {
            Parts::Positive(magnitude)
        };
        Self { parts }
    }

    /// The number as an integer, if it is one within 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.parts {
            Parts::Nan => None,
            Parts::Zero => Some(0),
            Parts::Positive(magnitude) => i64::try_from(magnitude.to_integer()?).ok(),
            Parts::Negative(std::cmp::Reverse(magnitude)) => {
                0_i64.checked_sub_unsigned(magnitude.to_integer()?)
            }
        }
    }

    /// The number as a double, if it is one. NaN has the usual bits, and zero no sign.
    pub fn to_f64(&self) -> Option<f64> {
        match self.parts {
            Parts::Nan => Some(f64::NAN),
            Parts::Zero => Some(0.0),
            Parts::Positive(magnitude) => magnitude.to_double(),
            Parts::Negative(std::cmp::Reverse(magnitude)) => magnitude.to_double().map(|value| -value),
        }
    }

    /// The number as a finite decimal whose coefficient ends in `zeros` zeros, if there is one.
    /// Zero itself is not among them: its exponent is not part of its value.
    pub(crate) fn to_decimal128(self, zeros: u8) -> Option<Decimal128> {
        let (negative, magnitude) = match self.parts {
            Parts::Nan | Parts::Zero => return None,
            Parts::Positive(magnitude) => (false, magnitude),
            Parts::Negative(std::cmp::Reverse(magnitude)) => (true, magnitude),
        };
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
    if let (RawBsonRef::Int32(left), RawBsonRef::Int32(right)) = (left, right) {
        return left.cmp(&right);
    }
    if let (RawBsonRef::Int64(left), RawBsonRef::Int64(right)) = (left, right) {
        return left.cmp(&right);
    }
    if let (RawBsonRef::Double(left), RawBsonRef::Double(right)) = (left, right)
        && let Some(ordering) = left.partial_cmp(&right)
    {
        return ordering;
    }
    Number::of(left).cmp(&Number::of(right))
}

/// How many trailing zeros a finite decimal's coefficient carries.
pub(crate) fn trailing_zeros(coefficient: u128) -> u8 {
    strip_zeros(coefficient, 0).2
}

#[cfg(test)]
mod tests;
