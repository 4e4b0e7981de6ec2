//! Memcomparable keys: bytes whose plain order is the order of the values they encode.
//!
//! For any two values `a` and `b`, comparing `encode(a)` with `encode(b)` as bytes gives what
//! [`compare`](crate::order::compare) gives, reversed for a descending field. No encoding is a
//! proper prefix of another, so concatenated fields sort field by field. Equal values have equal
//! bytes, even if their types differ; separate type bytes restore the exact value.
//!
//! The encodings of long values are shortened where they are stored: see [`LongKeys`].
//!
//! The layout's constants, all of them on disk, are in `layout.rs`; `docs/format.md` shows the layout byte by
//! byte.

mod bytes;
mod decode;
mod encode;
mod layout;
mod long;
mod number;
mod type_bytes;

use bson::spec::ElementType;
use bson::{Bson, RawBsonRef};

pub use self::layout::{Direction, FIELD_BYTES_MAX, KEY_VERSION};
pub use self::long::LongKeys;
pub(crate) use self::long::SHORTENED_BYTES;
use self::type_bytes::NoTypes;
use crate::error::Error;

/// Appends the key bytes of one field, however long they are.
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

/// Appends the key bytes of an integer in ascending order, the same as [`encode`] does, but faster.
#[inline]
pub fn encode_integer(value: i64, key: &mut Vec<u8>) {
    number::write_integer(value, key);
}

/// Appends the same key bytes as [`encode`], and to `types` the bytes that restore the exact value.
///
/// ```
/// use bson::RawBsonRef;
/// use cairndb_index::key::{Direction, encode_with_types};
///
/// let (mut keys, mut types) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
/// encode_with_types(RawBsonRef::Int32(1), Direction::Ascending, &mut keys[0], &mut types[0]);
/// encode_with_types(RawBsonRef::Double(1.0), Direction::Ascending, &mut keys[1], &mut types[1]);
/// assert_eq!(keys[0], keys[1]);
/// assert_ne!(types[0], types[1]);
/// ```
#[inline]
pub fn encode_with_types(
    value: RawBsonRef<'_>,
    direction: Direction,
    key: &mut Vec<u8>,
    types: &mut Vec<u8>,
) {
    encode::encode_field(value, direction, key, types);
}

/// Reads and removes one field at the front of `key` and its type bytes at the front of `types`, and returns
/// the exact value that was encoded. On an error both stay as they are.
///
/// A [`Bson`] document holds one value for each name: of two fields with one name it keeps the last.
/// Where that matters, [`decode_bytes`] keeps both.
pub fn decode(key: &mut &[u8], direction: Direction, types: &mut &[u8]) -> Result<Bson, Error> {
    decode::decode_value(key, direction, Some(types))
}

/// Reads and removes one field at the front of `key` without its type bytes, and returns a value that compares
/// equal to the encoded one: the smallest type that holds a number (int32, int64, double,
/// decimal128, in this order), and a string for a symbol. On an error `key` stays as it is.
///
/// ```
/// use bson::{Bson, RawBsonRef};
/// use cairndb_index::key::{Direction, decode_canonical, encode};
///
/// let mut key = Vec::new();
/// encode(RawBsonRef::Double(7.0), Direction::Ascending, &mut key);
/// assert_eq!(decode_canonical(&mut &key[..], Direction::Ascending)?, Bson::Int32(7));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn decode_canonical(key: &mut &[u8], direction: Direction) -> Result<Bson, Error> {
    decode::decode_value(key, direction, None)
}

/// Reads and removes one field as [`decode`] does, but appends the value's BSON bytes, without type and name, to
/// `document`, and returns the type. On an error `document` stays as it was.
pub fn decode_bytes(
    key: &mut &[u8],
    direction: Direction,
    types: &mut &[u8],
    document: &mut Vec<u8>,
) -> Result<ElementType, Error> {
    decode::decode_typed(key, direction, types, document)
}

/// The length in bytes of the first field of `key`, which is not shortened. Checks the structure only, not the values.
pub fn skip(key: &[u8], direction: Direction) -> Result<usize, Error> {
    decode::skip(key, direction)
}

#[cfg(test)]
mod tests;
