//! The constants of the key layout, and the classes that the first bytes represent.
//!
//! Every constant in this file is on disk. None of them may ever change its value; a new layout gets a new
//! [`KEY_VERSION`]. `docs/format.md` shows the layout byte by byte.

use std::ops::RangeInclusive;

use crate::order::TypeClass;

/// The version of the layout. Never reused for another one.
pub const KEY_VERSION: u8 = 2;

/// The most bytes that the encoding of a value has in a stored key. Of a longer one these are the beginning; a digest follows.
pub const FIELD_BYTES_MAX: usize = 1024;
/// The length of the digest: SHA-256 of the whole encoding, in its direction.
pub(super) const DIGEST_BYTES: usize = 32;

// The first byte of an encoded value. The high five bits are its class. Neither 0x00 nor 0xff is ever a first
// byte or the complement of one, so no field can be mistaken for the end of a text or of a document.
pub(super) const TAG_MIN_KEY: u8 = 0x08;
pub(super) const TAG_UNDEFINED: u8 = 0x10;
pub(super) const TAG_NULL: u8 = 0x18;
pub(super) const TAG_NAN: u8 = 0x20;
pub(super) const TAG_NEGATIVE: u8 = 0x21;
pub(super) const TAG_ZERO: u8 = 0x22;
pub(super) const TAG_POSITIVE: u8 = 0x23;
pub(super) const TAG_STRING: u8 = 0x28;
pub(super) const TAG_OBJECT: u8 = 0x30;
pub(super) const TAG_ARRAY: u8 = 0x38;
pub(super) const TAG_BINARY: u8 = 0x40;
pub(super) const TAG_OBJECT_ID: u8 = 0x48;
pub(super) const TAG_FALSE: u8 = 0x50;
pub(super) const TAG_TRUE: u8 = 0x51;
pub(super) const TAG_DATE: u8 = 0x58;
pub(super) const TAG_TIMESTAMP: u8 = 0x60;
pub(super) const TAG_REGULAR_EXPRESSION: u8 = 0x68;
pub(super) const TAG_DB_POINTER: u8 = 0x70;
pub(super) const TAG_CODE: u8 = 0x78;
pub(super) const TAG_CODE_WITH_SCOPE: u8 = 0x80;
pub(super) const TAG_MAX_KEY: u8 = 0xf0;
/// The bits of a tag that give the class. Before the name of a field, they are a byte of their own.
pub(super) const CLASS_MASK: u8 = 0xf8;

/// Ends a text, a document and an array. Smaller than any other byte that may follow there.
pub(super) const END: u8 = 0x00;
/// Comes before a byte of 0 or 1 in a text; that byte is written one higher.
pub(super) const ESCAPE: u8 = 0x01;
/// A length below this is one byte; otherwise this byte and four bytes of length follow.
pub(super) const LONG_LENGTH: u8 = 0xff;
/// Added to the decimal exponent of a number's first digit.
pub(super) const DECIMAL_EXPONENT_BIAS: i32 = 6176;
/// Decimal digits are written in groups of nine, as an integer below this.
pub(super) const DIGIT_GROUP: u32 = 1_000_000_000;

// Type bytes: one for each number and each text, in the order of the key. Other values have none.
pub(super) const TYPE_INT32: u8 = 0x00;
pub(super) const TYPE_INT64: u8 = 0x01;
pub(super) const TYPE_DOUBLE: u8 = 0x02;
/// The double -0.0.
pub(super) const TYPE_DOUBLE_NEGATIVE_ZERO: u8 = 0x03;
/// A double NaN; its eight bytes follow, little-endian.
pub(super) const TYPE_DOUBLE_NAN: u8 = 0x04;
/// A decimal zero; two big-endian bytes follow: the sign bit, a zero bit, the biased exponent.
pub(super) const TYPE_DECIMAL_ZERO: u8 = 0x05;
/// Any other decimal that the number does not determine; its sixteen bytes follow as in BSON.
pub(super) const TYPE_DECIMAL_BYTES: u8 = 0x06;
/// A finite decimal; the number of its coefficient's trailing zeros, at most 33, is added.
pub(super) const TYPE_DECIMAL: u8 = 0x10;
pub(super) const TYPE_STRING: u8 = 0x40;
pub(super) const TYPE_SYMBOL: u8 = 0x41;

/// The deepest nesting that is decoded, in documents, arrays and scopes. No value that may be
/// stored is nested more deeply; encoding has no limit.
pub(super) const DECODE_DEPTH_MAX: usize = 200;

/// Whether a field's keys sort as its values do, or in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smaller values have smaller keys.
    Ascending,
    /// Smaller values have larger keys: every byte is complemented.
    Descending,
}

/// The first bytes that ascending keys of a class have, from the smallest to the largest. The keys of every
/// other class lie completely below or above them.
pub(super) fn first_bytes(class: TypeClass) -> RangeInclusive<u8> {
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
