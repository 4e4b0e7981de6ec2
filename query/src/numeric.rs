//! A number together with its type: arithmetic of updates and of expressions starts from it.
//!
//! What an overflow gives, and which type a result has, is decided by the callers: updates and expressions differ.

use bson::spec::ElementType;
use bson::{Decimal128, RawBson, RawBsonRef};

use crate::decimal::{self, Precision, Rounding};

/// A number of one of the four types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numeric {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
}

impl Numeric {
    /// The number that a value is. Returns `None` for a value of another type.
    pub(crate) fn of(value: RawBsonRef<'_>) -> Option<Self> {
        // The common types first: this is asked for every number of every sum.
        if let Some(value) = value.as_i32() {
            return Some(Self::Int32(value));
        }
        if let Some(value) = value.as_i64() {
            return Some(Self::Int64(value));
        }
        if let Some(value) = value.as_f64() {
            return Some(Self::Double(value));
        }
        if let RawBsonRef::Decimal128(value) = value { Some(Self::Decimal(value)) } else { None }
    }

    /// The type of the number.
    pub(crate) fn kind(self) -> ElementType {
        match self {
            Self::Int32(_) => ElementType::Int32,
            Self::Int64(_) => ElementType::Int64,
            Self::Double(_) => ElementType::Double,
            Self::Decimal(_) => ElementType::Decimal128,
        }
    }

    /// Hands the number's bytes, as they are stored, to `take`.
    pub(crate) fn with_bytes(self, take: impl FnOnce(&[u8])) {
        match self {
            Self::Int32(value) => take(&value.to_le_bytes()),
            Self::Int64(value) => take(&value.to_le_bytes()),
            Self::Double(value) => take(&value.to_le_bytes()),
            Self::Decimal(value) => take(&value.bytes()),
        }
    }

    /// The number as a value of its type.
    pub(crate) fn into_raw(self) -> RawBson {
        match self {
            Self::Int32(value) => RawBson::Int32(value),
            Self::Int64(value) => RawBson::Int64(value),
            Self::Double(value) => RawBson::Double(value),
            Self::Decimal(value) => RawBson::Decimal128(value),
        }
    }

    /// The number as a double; long integers and decimals are rounded.
    #[expect(clippy::cast_precision_loss, reason = "MongoDB rounds long integers that meet doubles")]
    pub(crate) fn to_double(self) -> f64 {
        match self {
            Self::Int32(value) => f64::from(value),
            Self::Int64(value) => value as f64,
            Self::Double(value) => value,
            Self::Decimal(value) => decimal::to_double(value),
        }
    }

    /// The number as a decimal; of a double the first 15 digits, which are those it is sure of.
    pub(crate) fn to_decimal(self) -> Decimal128 {
        match self {
            Self::Int32(value) => decimal::from_integer(i64::from(value)),
            Self::Int64(value) => decimal::from_integer(value),
            Self::Double(value) => decimal::from_double(value, Precision::Double),
            Self::Decimal(value) => value,
        }
    }

    /// The value of an int32 or int64. Returns `None` for a double or decimal, even for one without a fraction.
    pub(crate) fn to_integer(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(i64::from(value)),
            Self::Int64(value) => Some(value),
            Self::Double(_) | Self::Decimal(_) => None,
        }
    }

    /// The number as an integer of 64 bits: the fraction is cut off, a number beyond the range becomes the nearest
    /// bound, and NaN becomes 0.
    #[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
    pub(crate) fn to_long(self) -> i64 {
        match self {
            Self::Int32(value) => i64::from(value),
            Self::Int64(value) => value,
            Self::Double(value) => value as i64,
            Self::Decimal(value) => {
                // A double holds too few digits for a large integer, so it is used only for what is beyond
                // the range or not finite.
                let exact = decimal::to_integer(value, Rounding::TowardZero);
                exact.unwrap_or(decimal::to_double(value) as i64)
            }
        }
    }
}
