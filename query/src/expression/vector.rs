//! Vectors as binary data: `$convert` from and to arrays. The first byte says what the elements are, the second how many bits at the
//! end do not count.

use bson::spec::BinarySubtype;
use bson::{RawArray, RawBinaryRef, RawBsonRef};

use crate::code::Code;
use crate::expression::binary::{self, ByteOrder};
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::tree::Failure;
use crate::expression::value::{ArrayBuilder, Value};
use crate::operation::OperationContext;
use crate::value::{elements, integer};

/// The type of a vector's elements, from the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Element {
    Bit,
    Int8,
    Float32,
}

impl Element {
    /// The byte that represents it.
    fn byte(self) -> u8 {
        match self {
            Self::Bit => 0x10,
            Self::Int8 => 0x03,
            Self::Float32 => 0x27,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        [Self::Bit, Self::Int8, Self::Float32].into_iter().find(|element| element.byte() == byte)
    }

    /// The narrowest elements that a value can be one of.
    fn of_value(value: RawBsonRef<'_>) -> Result<Self, &'static str> {
        if value.as_bool().is_some() {
            return Ok(Self::Bit);
        }
        if let Some(number) = value.as_i32() {
            return match i8::try_from(number) {
                Ok(0 | 1) => Ok(Self::Bit),
                Ok(_) => Ok(Self::Int8),
                Err(_) => Err("it has an integer of more than 8 bits"),
            };
        }
        if value.as_f64().is_none() {
            return Err("it has what is neither an int, nor a double, nor a bool");
        }
        let small = integer(value).and_then(|number| i8::try_from(number).ok());
        Ok(small.map_or(Self::Float32, |_| Self::Int8))
    }
}

/// The vector of an array of numbers or booleans, in the narrowest elements that hold all of them.
pub(super) fn from_array<'d>(
    array: &RawArray,
    order: ByteOrder,
    operation: &OperationContext,
) -> Result<Value<'d>, Failure> {
    operation.pass(array.as_bytes().len())?;
    // An element of the array uses more bytes than one of the vector.
    let _held = operation.reserve(array.as_bytes().len())?;
    let mut kind = Element::Bit;
    let mut has_booleans = false;
    for element in elements(array) {
        kind = kind.max(Element::of_value(element)?);
        has_booleans |= element.as_bool().is_some();
    }
    if has_booleans && kind != Element::Bit {
        return Err(Failure::Refused("it has both booleans and larger numbers"));
    }
    let mut bytes = vec![kind.byte(), 0];
    match kind {
        Element::Bit => push_bits(&mut bytes, array),
        Element::Int8 => bytes.extend(elements(array).filter_map(integer).map(low_byte)),
        Element::Float32 => {
            for number in elements(array).filter_map(number) {
                bytes.extend(match order {
                    ByteOrder::Big => number.to_be_bytes(),
                    ByteOrder::Little => number.to_le_bytes(),
                });
            }
        }
    }
    Ok(binary::value(BinarySubtype::Vector, bytes))
}

/// Adds a bit for each element, the first one as the highest of its byte, and sets how many bits of the last byte do not count.
fn push_bits(bytes: &mut Vec<u8>, array: &RawArray) {
    let mut count: u8 = 0;
    for element in elements(array) {
        if count == 0 {
            bytes.push(0);
        }
        if let Some(last) = bytes.last_mut().filter(|_| crate::value::is_true(element)) {
            *last |= 0x80 >> count;
        }
        count = (count + 1) % 8;
    }
    if let Some(padding) = bytes.get_mut(1) {
        *padding = (8 - count) % 8;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the caller has seen that the number has 8 bits")]
fn low_byte(number: i64) -> u8 {
    (number as i8).cast_unsigned()
}

#[expect(clippy::cast_possible_truncation, reason = "a vector has floats of 32 bits, whatever is lost")]
fn number(value: RawBsonRef<'_>) -> Option<f32> {
    value.as_f64().or_else(|| value.as_i32().map(f64::from)).map(|double| double as f32)
}

/// The array of a vector: of booleans, int32 or doubles.
pub(super) fn to_array<'d>(
    arguments: &Arguments<'_, 'd>,
    binary: RawBinaryRef<'_>,
    order: ByteOrder,
) -> Result<Value<'d>, Failure> {
    if binary.subtype != BinarySubtype::Vector {
        return Err(Failure::Refused("it is not a vector"));
    }
    let mut array = ArrayBuilder::new(arguments.operator, arguments.operation());
    let (kind, padding, elements) = match binary.bytes {
        // Without a byte there are no elements either.
        [] => return Ok(array.finish()),
        [kind, padding, elements @ ..] => (*kind, *padding, elements),
        [_] => return Err(malformed(arguments, Code::VECTOR_LENGTH, "of two bytes or more", 1)),
    };
    let Some(kind) = Element::of_byte(kind) else {
        return Err(malformed(
            arguments,
            Code::VECTOR_ELEMENTS,
            "of bits, int8 or float32",
            usize::from(kind),
        ));
    };
    // No number of bits ends within a byte that is not there.
    if padding > 0 && (kind != Element::Bit || padding > 7 || elements.is_empty()) {
        return Err(malformed(arguments, Code::VECTOR_PADDING, "without such padding", usize::from(padding)));
    }
    match kind {
        Element::Bit => {
            let count = elements.len() * 8 - usize::from(padding);
            for place in 0..count {
                let byte = elements.get(place / 8).copied().unwrap_or_default();
                array.push(RawBsonRef::Boolean(byte & (0x80 >> (place % 8)) != 0))?;
            }
        }
        Element::Int8 => {
            for byte in elements {
                array.push(RawBsonRef::Int32(i32::from(byte.cast_signed())))?;
            }
        }
        Element::Float32 => {
            let (floats, []) = elements.as_chunks::<4>() else {
                return Err(malformed(arguments, Code::VECTOR_FLOATS, "of whole floats", elements.len()));
            };
            for float in floats {
                let float = match order {
                    ByteOrder::Big => f32::from_be_bytes(*float),
                    ByteOrder::Little => f32::from_le_bytes(*float),
                };
                array.push(RawBsonRef::Double(f64::from(float)))?;
            }
        }
    }
    Ok(array.finish())
}

/// The error for bytes that are not a vector. It is none of the conversion, so `onError` does not catch it.
fn malformed(arguments: &Arguments<'_, '_>, code: Code, expected: &'static str, found: usize) -> Failure {
    let fault = Fault::WrongValue { argument: "a binary vector", expected, found: found.to_string() };
    Failure::Error(Error::Argument { operator: arguments.operator, fault, code })
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, bson};

    use super::*;
    use crate::expression::cases::{binary, check, check_error};

    fn vector(bytes: &[u8]) -> Bson {
        Bson::Binary(Binary { subtype: BinarySubtype::Vector, bytes: bytes.to_vec() })
    }

    fn convert(input: Bson, to: &str, order: &str) -> Bson {
        bson!({ "$convert": { "input": input, "to": to, "byteOrder": order } })
    }

    #[test]
    fn vectors_are_arrays_in_the_narrowest_elements() {
        for (array, bytes) in [
            (bson!([]), &[0x10, 0][..]),
            (bson!([true, false, true]), &[0x10, 5, 0b1010_0000]),
            (bson!([true, true, true, true, true, true, true, true, false, true]), &[0x10, 6, 0xff, 0x40]),
        ] {
            check(convert(array.clone(), "binData", "little"), vector(bytes));
            check(convert(vector(bytes), "array", "big"), array);
        }
        check(convert(bson!([0, 1]), "binData", "little"), vector(&[0x10, 6, 0x40]));
        check(convert(bson!([0, 2, -128]), "binData", "little"), vector(&[3, 0, 0, 2, 0x80]));
        check(convert(bson!([1.0, 1]), "binData", "little"), vector(&[3, 0, 1, 1]));
        check(convert(vector(&[3, 0, 0, 2, 0x80]), "array", "little"), bson!([0, 2, -128]));
        check(
            convert(bson!([1.5, 1]), "binData", "little"),
            vector(&[0x27, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0x80, 0x3f]),
        );
        check(convert(bson!([1.5]), "binData", "big"), vector(&[0x27, 0, 0x3f, 0xc0, 0, 0]));
        check(convert(vector(&[0x27, 0, 0x3f, 0xc0, 0, 0]), "array", "big"), bson!([1.5]));
        check(bson!({ "$toArray": (vector(&[])) }), bson!([]));
        check(bson!({ "$toArray": (vector(&[3, 0, 7])) }), bson!([7]));
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        for array in [bson!([128]), bson!([1_i64]), bson!(["1"]), bson!([[1]]), bson!([true, 2])] {
            check_error(convert(array.clone(), "binData", "little"), 241);
            check(bson!({ "$convert": { "input": array, "to": "binData", "onError": 0 } }), bson!(0));
        }
        check_error(convert(binary(&[3, 0, 1]), "array", "little"), 241);
        for (bytes, code) in [
            (&[3][..], 10_506_601),
            (&[4, 0, 1], 10_506_600),
            (&[3, 1, 1], 10_506_606),
            (&[0x10, 8, 1], 10_506_606),
            (&[0x10, 1], 10_506_606),
            (&[0x27, 0, 1], 10_506_602),
        ] {
            check_error(
                bson!({ "$convert": { "input": (vector(bytes)), "to": "array", "onError": 0 } }),
                code,
            );
        }
    }
}
