//! Keys of long values: the beginning of the encoding, and a digest of all of it.
//!
//! The invariant: no encoding is a proper prefix of another one, so an encoding that is kept as it is differs from every longer
//! one within its own length, and all of that is kept of the longer one. So a shortened field sorts as its value does among all
//! values but those whose encodings begin with the same bytes. Equal values have equal fields. Whether two values with
//! one shortened field are equal only their documents can determine.

use bson::RawBsonRef;
use sha2::{Digest, Sha256};

use super::layout::{DIGEST_BYTES, Direction, FIELD_BYTES_MAX};
use super::{decode, encode};
use crate::error::Error;

/// The length of a shortened field.
pub(crate) const SHORTENED_BYTES: usize = FIELD_BYTES_MAX + DIGEST_BYTES;

/// A buffer that has held a long value keeps memory for a multiple of what is in it, and is made smaller from this size on.
const KEPT_BYTES: usize = 64 << 10;

/// The form in keys of a value whose encoding is longer than [`FIELD_BYTES_MAX`] bytes.
///
/// ```
/// use bson::RawBsonRef;
/// use cairndb_index::key::{Direction, FIELD_BYTES_MAX, LongKeys};
///
/// let text = "x".repeat(1 << 20);
/// let mut key = Vec::new();
/// LongKeys::Shortened.encode(RawBsonRef::String(&text), Direction::Ascending, &mut key);
/// assert_eq!(LongKeys::Shortened.skip(&key, Direction::Ascending)?, key.len());
/// assert!(key.len() < FIELD_BYTES_MAX + 100);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LongKeys {
    /// The first [`FIELD_BYTES_MAX`] bytes of the encoding, and the SHA-256 of the whole encoding.
    Shortened,
    /// The whole encoding, as in collections that were made under format versions 3 and 4.
    Whole,
    /// As `Shortened`, with one digest for all values. A test can see by it that no promise rests on the digest.
    Colliding,
}

impl LongKeys {
    /// Appends the key bytes of one field. Returns whether they were shortened.
    #[inline]
    pub fn encode(self, value: RawBsonRef<'_>, direction: Direction, key: &mut Vec<u8>) -> bool {
        let start = key.len();
        encode(value, direction, key);
        self.shorten(start, key)
    }

    /// Shortens the encoding of one field, which is all of `key` from `start` on, if it is too long. Returns whether it was.
    #[inline]
    pub fn shorten(self, start: usize, key: &mut Vec<u8>) -> bool {
        // One comparison for nearly all fields.
        key.len() > start.saturating_add(FIELD_BYTES_MAX) && self.replace_end(start, key)
    }

    /// The digest that a key has of the encoding of one field, after its first [`FIELD_BYTES_MAX`] bytes. Returns `None` if the key has
    /// the whole encoding.
    pub fn digest(self, encoded: &[u8]) -> Option<[u8; DIGEST_BYTES]> {
        if encoded.len() <= FIELD_BYTES_MAX {
            return None;
        }
        match self {
            Self::Whole => None,
            Self::Shortened => Some(Sha256::digest(encoded).into()),
            Self::Colliding => Some([0; DIGEST_BYTES]),
        }
    }

    /// Whether a field with this many bytes is shortened.
    #[inline]
    pub fn is_shortened(self, field_bytes: usize) -> bool {
        field_bytes > FIELD_BYTES_MAX && self != Self::Whole
    }

    /// The length in bytes of the first field of `key`. Checks the structure only, not the values.
    #[inline]
    pub fn skip(self, key: &[u8], direction: Direction) -> Result<usize, Error> {
        // Only what is longer than this may be shortened.
        match key.get(..FIELD_BYTES_MAX) {
            Some(front) if self != Self::Whole => skip_long(key, front, direction),
            Some(_) | None => decode::skip(key, direction),
        }
    }

    #[cold]
    fn replace_end(self, start: usize, key: &mut Vec<u8>) -> bool {
        let Some(digest) = self.digest(key.get(start..).unwrap_or_default()) else { return false };
        key.truncate(start + FIELD_BYTES_MAX);
        key.extend_from_slice(&digest);
        // A buffer is used for many values, and must not keep the size of the longest one.
        if key.capacity() / 4 > key.len().max(KEPT_BYTES) {
            key.shrink_to(2 * key.len());
        }
        true
    }
}

/// The length of the first field of a key that may be shortened, and begins with `front`.
fn skip_long(key: &[u8], front: &[u8], direction: Direction) -> Result<usize, Error> {
    match decode::skip(front, direction) {
        // A field that is kept as it is ends within these bytes.
        Err(Error::KeyTruncated) if key.len() >= SHORTENED_BYTES => Ok(SHORTENED_BYTES),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::fmt::Write;

    use bson::Bson;
    use proptest::prelude::*;

    use super::*;
    use crate::order::compare;
    use crate::proptest_support::{Raw, any_value, value_of_any_length};

    const BOTH: [Direction; 2] = [Direction::Ascending, Direction::Descending];

    fn encoded(value: &Bson, long_keys: LongKeys, direction: Direction) -> Vec<u8> {
        let mut key = Vec::new();
        long_keys.encode(Raw::new(value).value(), direction, &mut key);
        key
    }

    #[test]
    fn only_what_is_longer_than_the_limit_is_shortened() {
        for (len, expected) in [(1021, 1023), (1022, 1024), (1023, 1056), (5000, 1056)] {
            let text = Bson::String("x".repeat(len));
            for direction in BOTH {
                let whole = encoded(&text, LongKeys::Whole, direction);
                let key = encoded(&text, LongKeys::Shortened, direction);
                assert_eq!((whole.len(), key.len()), (len + 2, expected));
                assert!(key == whole || key.starts_with(&whole[..FIELD_BYTES_MAX]));
            }
        }
    }

    /// `docs/format.md` has it too.
    #[test]
    fn the_digest_is_sha_256_of_the_encoding() {
        let key = encoded(&Bson::String("x".repeat(1023)), LongKeys::Shortened, Direction::Ascending);
        let digest = key[FIELD_BYTES_MAX..].iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        });
        assert_eq!(digest, "f4ab60943a52d3e6eb3a9dce947a5b5cd760101b5e5660890e0808c6c51cd548");
        let document =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/linked/format.md")).unwrap();
        assert!(document.contains(&digest), "docs/format.md lacks {digest}");
    }

    #[test]
    fn a_buffer_does_not_keep_the_size_of_a_long_value() {
        let mut key = vec![1, 2, 3];
        LongKeys::Shortened.encode(RawBsonRef::String(&"x".repeat(8 << 20)), Direction::Ascending, &mut key);
        assert_eq!(key.len(), 3 + SHORTENED_BYTES);
        assert!(key.capacity() < KEPT_BYTES);
    }

    #[test]
    fn a_key_that_ends_within_a_shortened_field_is_malformed() {
        let key = encoded(&Bson::String("x".repeat(5000)), LongKeys::Shortened, Direction::Ascending);
        for len in [0, 1, 1023, 1024, 1025, 1055] {
            assert_eq!(
                LongKeys::Shortened.skip(&key[..len], Direction::Ascending),
                Err(Error::KeyTruncated),
                "{len}"
            );
        }
        assert!(LongKeys::Shortened.skip(&[0xff; 2000], Direction::Ascending).is_err());
    }

    proptest! {
        #[test]
        fn keys_sort_as_values_unless_both_are_shortened_with_one_beginning(
            left in value_of_any_length(),
            right in value_of_any_length(),
        ) {
            let order = compare(Raw::new(&left).value(), Raw::new(&right).value());
            for direction in BOTH {
                let order = if direction == Direction::Ascending { order } else { order.reverse() };
                let keys = [&left, &right].map(|value| encoded(value, LongKeys::Shortened, direction));
                let [one, other] = &keys;
                let is_shared = one.len() > FIELD_BYTES_MAX && one.get(..FIELD_BYTES_MAX) == other.get(..FIELD_BYTES_MAX);
                if is_shared {
                    prop_assert_eq!(one == other, order == Ordering::Equal);
                } else {
                    prop_assert_eq!(one.cmp(other), order);
                }
                let mut colliding = [&left, &right].map(|value| encoded(value, LongKeys::Colliding, direction));
                for key in &mut colliding {
                    key.truncate(FIELD_BYTES_MAX);
                }
                prop_assert_eq!(colliding[0] == colliding[1], is_shared || order == Ordering::Equal);
            }
        }

        #[test]
        fn the_length_of_every_field_is_found(
            values in prop::collection::vec(value_of_any_length(), 1..4),
            directions in prop::collection::vec(prop::sample::select(BOTH.to_vec()), 4),
            long_keys in prop::sample::select(vec![LongKeys::Whole, LongKeys::Shortened, LongKeys::Colliding]),
        ) {
            let fields = values.iter().zip(&directions);
            let keys: Vec<_> = fields.map(|(value, direction)| encoded(value, long_keys, *direction)).collect();
            let key = keys.concat();
            let mut rest = &key[..];
            for (own, direction) in keys.iter().zip(&directions) {
                prop_assert_eq!(long_keys.skip(rest, *direction), Ok(own.len()));
                prop_assert!(!long_keys.is_shortened(own.len()) || own.len() == SHORTENED_BYTES);
                rest = &rest[own.len()..];
            }
        }

        #[test]
        fn keys_of_short_values_are_the_same_bytes(value in any_value()) {
            for direction in BOTH {
                let whole = encoded(&value, LongKeys::Whole, direction);
                if whole.len() <= FIELD_BYTES_MAX {
                    prop_assert_eq!(encoded(&value, LongKeys::Shortened, direction), whole);
                }
            }
        }
    }
}
