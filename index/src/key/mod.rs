//! Memcomparable keys: bytes whose plain order is the order of the values they encode.
//!
//! For any two values `a` and `b`, comparing `encode(a)` with `encode(b)` as bytes gives what
//! [`compare`](crate::order::compare) gives, reversed for a descending field. No encoding is a
//! proper prefix of another, so concatenated fields order field by field. Equal values have equal
//! bytes whatever their types; what restores the exact value is kept aside, in type bytes.
//!
//! Every constant in this file is on disk. None of them may ever change its value; a new layout
//! gets a new [`KEY_VERSION`]. `docs/format.md` shows the layout byte by byte.

mod bytes;
mod decode;
mod encode;
mod number;
mod type_bytes;

use std::ops::RangeInclusive;

use bson::spec::ElementType;
use bson::{Bson, RawBsonRef};

use self::type_bytes::NoTypes;
use crate::error::Error;
use crate::order::TypeClass;

/// The version of the layout. Never reused for another one.
pub const KEY_VERSION: u8 = 1;

// The first byte of an encoded value. The high five bits are its class. Neither 0x00 nor 0xff is
// ever a first byte, nor is one of them the complement of a first byte.
const TAG_MIN_KEY: u8 = 0x08;
const TAG_UNDEFINED: u8 = 0x10;
const TAG_NULL: u8 = 0x18;
const TAG_NAN: u8 = 0x20;
const TAG_NEGATIVE: u8 = 0x21;
const TAG_ZERO: u8 = 0x22;
const TAG_POSITIVE: u8 = 0x23;
const TAG_STRING: u8 = 0x28;
const TAG_OBJECT: u8 = 0x30;
const TAG_ARRAY: u8 = 0x38;
const TAG_BINARY: u8 = 0x40;
const TAG_OBJECT_ID: u8 = 0x48;
const TAG_FALSE: u8 = 0x50;
const TAG_TRUE: u8 = 0x51;
const TAG_DATE: u8 = 0x58;
const TAG_TIMESTAMP: u8 = 0x60;
const TAG_REGULAR_EXPRESSION: u8 = 0x68;
const TAG_DB_POINTER: u8 = 0x70;
const TAG_CODE: u8 = 0x78;
const TAG_CODE_WITH_SCOPE: u8 = 0x80;
const TAG_MAX_KEY: u8 = 0xf0;
/// The bits of a tag that tell the class; in front of a name, they stand alone.
const CLASS_MASK: u8 = 0xf8;

/// Ends a text, a document and an array. Smaller than any byte that may stand in its place.
const END: u8 = 0x00;
/// In a text, stands before a byte of 0 or 1, which is written one higher.
const ESCAPE: u8 = 0x01;
/// A length below this is one byte; otherwise this byte and four bytes of length follow.
const LONG_LENGTH: u8 = 0xff;
/// Added to the decimal exponent of a number's first digit.
const DECIMAL_EXPONENT_BIAS: i32 = 6176;
/// Decimal digits are written in groups of nine, as an integer below this.
const DIGIT_GROUP: u32 = 1_000_000_000;

// Type bytes: one for each number and each text, in the order of the key; none for other values.
const TYPE_INT32: u8 = 0x00;
const TYPE_INT64: u8 = 0x01;
const TYPE_DOUBLE: u8 = 0x02;
/// The double -0.0.
const TYPE_DOUBLE_NEGATIVE_ZERO: u8 = 0x03;
/// A double NaN; its eight bytes follow, little-endian.
const TYPE_DOUBLE_NAN: u8 = 0x04;
/// A decimal zero; two big-endian bytes follow: the sign bit, a zero bit, the biased exponent.
const TYPE_DECIMAL_ZERO: u8 = 0x05;
/// Any other decimal that the number does not determine; its sixteen bytes follow as in BSON.
const TYPE_DECIMAL_BYTES: u8 = 0x06;
/// A finite decimal; the number of its coefficient's trailing zeros, at most 33, is added.
const TYPE_DECIMAL: u8 = 0x10;
const TYPE_STRING: u8 = 0x40;
const TYPE_SYMBOL: u8 = 0x41;

/// The deepest nesting that is decoded, in documents, arrays and scopes. No value that may be
/// stored is nested more deeply; encoding has no limit.
pub const DECODE_DEPTH_MAX: usize = 200;

/// Whether a field's keys sort as its values do, or the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smaller values have smaller keys.
    Ascending,
    /// Smaller values have larger keys: every byte is complemented.
    Descending,
}

/// Appends the key bytes of one field.
///
/// ```
/// use bson::RawBsonRef;
/// use cairndb_index::key::{Direction, encode};
///
/// let mut small = Vec::new();
/// encode(RawBsonRef::Int32(-7), Direction::Ascending, &mut small);
/// encode(RawBsonRef::String("b"), Direction::Descending, &mut small);
/// let mut large = Vec::new();
/// encode(RawBsonRef::Double(-7.0), Direction::Ascending, &mut large);
/// encode(RawBsonRef::String("a"), Direction::Descending, &mut large);
/// assert!(small < large);
/// ```
#[inline]
pub fn encode(value: RawBsonRef<'_>, direction: Direction, key: &mut Vec<u8>) {
    encode::encode_field(value, direction, key, &mut NoTypes);
}

/// Appends the same key bytes as [`encode`] does for an integer, ascending, on a shorter way.
#[inline]
pub fn encode_integer(value: i64, key: &mut Vec<u8>) {
    number::write_integer(value, key);
}

/// Appends the same key bytes as [`encode`], and to `types` what restores the exact value.
#[inline]
pub fn encode_with_types(
    value: RawBsonRef<'_>,
    direction: Direction,
    key: &mut Vec<u8>,
    types: &mut Vec<u8>,
) {
    encode::encode_field(value, direction, key, types);
}

/// Takes one field from the front of `key` and its type bytes from the front of `types`, and gives
/// the exact value that was encoded. On an error neither is moved.
///
/// A [`Bson`] document holds one value a name: of two fields with one name it keeps the last.
/// Where that matters, [`decode_bytes`] keeps both.
///
/// ```
/// use bson::{Bson, RawBsonRef};
/// use cairndb_index::key::{Direction, decode, encode_with_types};
///
/// let (mut key, mut types) = (Vec::new(), Vec::new());
/// encode_with_types(RawBsonRef::Int64(7), Direction::Ascending, &mut key, &mut types);
/// let value = decode(&mut &key[..], Direction::Ascending, &mut &types[..])?;
/// assert_eq!(value, Bson::Int64(7));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn decode(key: &mut &[u8], direction: Direction, types: &mut &[u8]) -> Result<Bson, Error> {
    decode::decode_value(key, direction, Some(types))
}

/// Takes one field from the front of `key` without its type bytes, and gives a value that compares
/// equal to the encoded one: the smallest type that holds a number (int32, int64, double,
/// decimal128, in this order), and a string for a symbol. On an error `key` is not moved.
pub fn decode_canonical(key: &mut &[u8], direction: Direction) -> Result<Bson, Error> {
    decode::decode_value(key, direction, None)
}

/// Does what [`decode`] does, but appends the value as BSON stores it, without type and name, to
/// `document`, and gives the type. On an error `document` holds what was written before.
pub fn decode_bytes(
    key: &mut &[u8],
    direction: Direction,
    types: &mut &[u8],
    document: &mut Vec<u8>,
) -> Result<ElementType, Error> {
    decode::decode_bytes(key, direction, Some(types), document)
}

/// The length in bytes of the first field of `key`. Looks at the structure only.
pub fn skip(key: &[u8], direction: Direction) -> Result<usize, Error> {
    decode::skip(key, direction)
}

/// The first bytes that ascending keys of a class have, from the smallest to the largest. Keys of
/// other classes lie wholly below or above them.
pub fn first_bytes(class: TypeClass) -> RangeInclusive<u8> {
    match class {
        TypeClass::MinKey => TAG_MIN_KEY..=TAG_MIN_KEY,
        TypeClass::Undefined => TAG_UNDEFINED..=TAG_UNDEFINED,
        TypeClass::Null => TAG_NULL..=TAG_NULL,
        TypeClass::Number => TAG_NAN..=TAG_POSITIVE,
        TypeClass::String => TAG_STRING..=TAG_STRING,
        TypeClass::Object => TAG_OBJECT..=TAG_OBJECT,
        TypeClass::Array => TAG_ARRAY..=TAG_ARRAY,
        TypeClass::Binary => TAG_BINARY..=TAG_BINARY,
        TypeClass::ObjectId => TAG_OBJECT_ID..=TAG_OBJECT_ID,
        TypeClass::Boolean => TAG_FALSE..=TAG_TRUE,
        TypeClass::Date => TAG_DATE..=TAG_DATE,
        TypeClass::Timestamp => TAG_TIMESTAMP..=TAG_TIMESTAMP,
        TypeClass::RegularExpression => TAG_REGULAR_EXPRESSION..=TAG_REGULAR_EXPRESSION,
        TypeClass::DbPointer => TAG_DB_POINTER..=TAG_DB_POINTER,
        TypeClass::Code => TAG_CODE..=TAG_CODE,
        TypeClass::CodeWithScope => TAG_CODE_WITH_SCOPE..=TAG_CODE_WITH_SCOPE,
        TypeClass::MaxKey => TAG_MAX_KEY..=TAG_MAX_KEY,
    }
}

#[cfg(test)]
mod tests;
