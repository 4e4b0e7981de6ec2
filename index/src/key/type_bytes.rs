//! Type bytes: the types that a key leaves out, because equal values have equal keys.
//!
//! A number or a text has one byte, which names the type and, for a decimal, the number of zeros at the
//! end of its coefficient. Rare values have a few more bytes. All other values have none. Type bytes
//! come in the order of the key, and only a reader of that key can say where each belongs.

use bson::spec::ElementType;
use bson::{Decimal128, RawBsonRef};

use super::layout::{
    TYPE_DECIMAL, TYPE_DECIMAL_BYTES, TYPE_DECIMAL_ZERO, TYPE_DOUBLE, TYPE_DOUBLE_NAN,
    TYPE_DOUBLE_NEGATIVE_ZERO, TYPE_INT32, TYPE_INT64, TYPE_STRING, TYPE_SYMBOL,
};
use crate::error::Error;
use crate::number::{Decimal, EXPONENT_MIN, Number, pack, trailing_zeros, unpack};

/// The target of an encoder's type bytes.
pub(super) trait Types {
    /// Appends type bytes.
    fn note(&mut self, bytes: &[u8]);

    /// Appends the type bytes of a number. Does nothing for any other value.
    fn note_number(&mut self, value: RawBsonRef<'_>);
}

/// Drops all type bytes, for keys that are only compared.
pub(super) struct NoTypes;

impl Types for NoTypes {
    #[inline]
    fn note(&mut self, _bytes: &[u8]) {}

    #[inline]
    fn note_number(&mut self, _value: RawBsonRef<'_>) {}
}

impl Types for Vec<u8> {
    #[inline]
    fn note(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn note_number(&mut self, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Int32(_) => self.push(TYPE_INT32),
            RawBsonRef::Int64(_) => self.push(TYPE_INT64),
            RawBsonRef::Double(value) => note_double(value, self),
            RawBsonRef::Decimal128(value) => note_decimal(value, self),
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
            | RawBsonRef::DbPointer(_) => {}
        }
    }
}

fn note_double(value: f64, types: &mut Vec<u8>) {
    // All NaNs share one key and so do both zeros; the bits distinguish them.
    if value.is_nan() {
        types.push(TYPE_DOUBLE_NAN);
        types.extend_from_slice(&value.to_le_bytes());
    } else if value == 0.0 && value.is_sign_negative() {
        types.push(TYPE_DOUBLE_NEGATIVE_ZERO);
    } else {
        types.push(TYPE_DOUBLE);
    }
}

fn note_decimal(value: Decimal128, types: &mut Vec<u8>) {
    // Only the canonical form of a finite decimal can be rebuilt from its parts. All others are kept as
    // bytes.
    if let Decimal::Finite { negative, coefficient, exponent } = unpack(value)
        && pack(negative, coefficient, exponent) == Some(value)
    {
        if coefficient != 0 {
            types.push(TYPE_DECIMAL + trailing_zeros(coefficient));
            return;
        }
        // The exponent of a zero is not a part of its value, so the key does not hold it.
        if let Ok(biased) = u16::try_from(exponent - EXPONENT_MIN) {
            types.push(TYPE_DECIMAL_ZERO);
            types.extend_from_slice(&(u16::from(negative) << 15 | biased).to_be_bytes());
            return;
        }
    }
    types.push(TYPE_DECIMAL_BYTES);
    types.extend_from_slice(&value.bytes());
}

/// Appends the BSON bytes of a number, in the type that its type bytes name. Without type bytes it is the
/// smallest type that holds the number.
pub(super) fn restore_number(
    number: Number,
    types: Option<&mut &[u8]>,
    document: &mut Vec<u8>,
) -> Result<ElementType, Error> {
    // Without type bytes the caller wants some value that is equal, for an index that stores none.
    let Some(types) = types else { return restore_smallest(number, document) };
    let [kind] = take(types)?;
    match kind {
        TYPE_INT32 => {
            let value = number.to_i64().and_then(|value| i32::try_from(value).ok());
            document.extend(fits(value, "an int32")?.to_le_bytes());
            Ok(ElementType::Int32)
        }
        TYPE_INT64 => {
            document.extend(fits(number.to_i64(), "an int64")?.to_le_bytes());
            Ok(ElementType::Int64)
        }
        TYPE_DOUBLE | TYPE_DOUBLE_NEGATIVE_ZERO | TYPE_DOUBLE_NAN => {
            document.extend(restore_double(number, kind, types)?.to_le_bytes());
            Ok(ElementType::Double)
        }
        _ => {
            document.extend(restore_decimal(number, kind, types)?.bytes());
            Ok(ElementType::Decimal128)
        }
    }
}

/// Appends the BSON bytes of a number other than zero that is a double, if it is of one of the common types. Otherwise appends
/// nothing, and returns `None`.
#[inline]
pub(super) fn restore_common(number: f64, kind: u8, document: &mut Vec<u8>) -> Option<ElementType> {
    // 2^53. Up to here every integer is a double, so that converting there and back says whether the number is one.
    const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
    // The number is not zero, so that no two equal doubles have different bits here.
    let is_same = |double: f64| double.to_bits() == number.to_bits();
    match kind {
        TYPE_INT32 => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a number that is cut off differs from the result"
            )]
            let value = number as i32;
            is_same(f64::from(value)).then(|| document.extend_from_slice(&value.to_le_bytes()))?;
            Some(ElementType::Int32)
        }
        TYPE_INT64 if number.abs() <= INTEGER_MAX => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the range was tested, and a fraction is found out"
            )]
            let value = number as i64;
            #[expect(clippy::cast_precision_loss, reason = "so small an integer is a double")]
            let double = value as f64;
            is_same(double).then(|| document.extend_from_slice(&value.to_le_bytes()))?;
            Some(ElementType::Int64)
        }
        TYPE_DOUBLE => {
            document.extend_from_slice(&number.to_le_bytes());
            Some(ElementType::Double)
        }
        _ => None,
    }
}

fn restore_double(number: Number, kind: u8, types: &mut &[u8]) -> Result<f64, Error> {
    let value = match kind {
        TYPE_DOUBLE_NAN => f64::from_le_bytes(take(types)?),
        TYPE_DOUBLE_NEGATIVE_ZERO => -0.0,
        _ => fits(number.to_f64().filter(|value| !value.is_nan()), "a double")?,
    };
    // Type bytes of another key would restore a value that this key does not represent.
    fits((Number::from_f64(value) == number).then_some(value), "a double of equal value")
}

fn restore_decimal(number: Number, kind: u8, types: &mut &[u8]) -> Result<Decimal128, Error> {
    let value = match kind {
        TYPE_DECIMAL_ZERO => {
            let bits = u16::from_be_bytes(take(types)?);
            let exponent = i32::from(bits & 0x7fff) + EXPONENT_MIN;
            fits(pack(bits >> 15 == 1, 0, exponent), "a decimal zero")?
        }
        TYPE_DECIMAL_BYTES => Decimal128::from_bytes(take(types)?),
        _ => {
            // A coefficient has at most 34 digits, of which at least one is not zero.
            let zeros = kind.checked_sub(TYPE_DECIMAL).filter(|&zeros| zeros <= 33);
            return fits(number.to_decimal128(fits(zeros, "a type of number")?), "a decimal");
        }
    };
    fits((Number::from_decimal128(value) == number).then_some(value), "a decimal of equal value")
}

fn restore_smallest(number: Number, document: &mut Vec<u8>) -> Result<ElementType, Error> {
    // Integers first, since every small integer is a double and a decimal too.
    if let Some(value) = number.to_i64() {
        if let Ok(value) = i32::try_from(value) {
            document.extend(value.to_le_bytes());
            return Ok(ElementType::Int32);
        }
        document.extend(value.to_le_bytes());
        return Ok(ElementType::Int64);
    }
    if let Some(value) = number.to_f64() {
        document.extend(value.to_le_bytes());
        return Ok(ElementType::Double);
    }
    let value = number.to_any_decimal128().ok_or(Error::KeyNumberUnrepresentable)?;
    document.extend(value.bytes());
    Ok(ElementType::Decimal128)
}

/// The type of a text, as its type bytes name it. Without type bytes it is a string.
pub(super) fn restore_text_type(types: Option<&mut &[u8]>) -> Result<ElementType, Error> {
    let Some(types) = types else { return Ok(ElementType::String) };
    match take(types)? {
        [TYPE_STRING] => Ok(ElementType::String),
        [TYPE_SYMBOL] => Ok(ElementType::Symbol),
        [_] => Err(Error::TypesMalformed { expected: "string or symbol" }),
    }
}

fn take<const N: usize>(types: &mut &[u8]) -> Result<[u8; N], Error> {
    let (taken, rest) =
        types.split_first_chunk().ok_or(Error::TypesMalformed { expected: "more of them" })?;
    *types = rest;
    Ok(*taken)
}

fn fits<T>(value: Option<T>, expected: &'static str) -> Result<T, Error> {
    value.ok_or(Error::TypesMalformed { expected })
}
