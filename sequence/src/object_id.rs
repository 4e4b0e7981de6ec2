//! The twelve bytes of an `ObjectId`, as bytes, text and parts.
//!
//! [`Generator`](crate::generator::Generator) makes new ones. The invariant: bytes, text and [`Ord`] sort
//! alike, because every part is big-endian and lower-case hexadecimal digits sort as their values.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::error::{Error, shorten};

/// Length of an id in bytes.
pub const OBJECT_ID_BYTES: usize = 12;

/// Length of an id as text, in characters.
pub(crate) const OBJECT_ID_DIGITS: usize = 2 * OBJECT_ID_BYTES;

/// Length in bytes of the part that names the maker of an id.
pub(crate) const ORIGIN_BYTES: usize = 5;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The content of the five bytes between the seconds and the counter of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// Three bytes hashed from the host's identity, then the low 16 bits of the process id.
    #[default]
    MachineProcess,
    /// Five random bytes, chosen once per generator, as MongoDB's drivers do.
    Random,
}

/// A document's identity: 4 bytes of seconds, 5 bytes naming the maker, 3 bytes of counter, all big-endian.
///
/// Ids compare as their bytes do, so ids from one generator sort by the order in which they were made.
///
/// ```
/// use cairndb_sequence::object_id::ObjectId;
///
/// let id: ObjectId = "65A1B2C3d4e5f60718293a4b".parse()?;
/// assert_eq!(id.timestamp(), 0x65a1_b2c3);
/// assert_eq!(id.to_string(), "65a1b2c3d4e5f60718293a4b");
/// # Ok::<(), cairndb_sequence::error::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; OBJECT_ID_BYTES]);

impl ObjectId {
    /// The id with exactly these bytes.
    pub const fn from_bytes(bytes: [u8; OBJECT_ID_BYTES]) -> ObjectId {
        ObjectId(bytes)
    }

    /// The id's bytes, in the order in which they are stored and compared.
    pub const fn bytes(self) -> [u8; OBJECT_ID_BYTES] {
        self.0
    }

    /// Parses 24 hexadecimal digits of either case.
    ///
    /// # Errors
    /// [`Error::ObjectIdLength`] or [`Error::ObjectIdDigit`] for any other text.
    pub fn parse(text: &str) -> Result<ObjectId, Error> {
        // Characters, not bytes: a text of other characters must be rejected for what the user sees.
        let characters = text.chars().count();
        if characters != OBJECT_ID_DIGITS {
            return Err(Error::ObjectIdLength { value: shorten(text), characters });
        }
        let mut bytes = [0_u8; OBJECT_ID_BYTES];
        // Two digits are shifted into each byte, so the first digit ends up in its upper half.
        for (position, character) in text.chars().enumerate() {
            let digit = digit_value(character).ok_or_else(|| Error::ObjectIdDigit {
                value: shorten(text),
                character: character.escape_debug().to_string(),
                position: position + 1,
            })?;
            if let Some(byte) = bytes.get_mut(position / 2) {
                *byte = (*byte << 4) | digit;
            }
        }
        Ok(ObjectId(bytes))
    }

    /// The time of the id, in whole seconds since 1970. Wraps to zero in February 2106.
    pub const fn timestamp(self) -> u32 {
        let [s0, s1, s2, s3, ..] = self.0;
        u32::from_be_bytes([s0, s1, s2, s3])
    }

    /// The time of the id, from its [`timestamp`](Self::timestamp).
    pub fn system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(self.timestamp()))
    }

    /// The five bytes that name the maker, in either [`Layout`].
    pub const fn origin(self) -> [u8; 5] {
        let [_, _, _, _, o0, o1, o2, o3, o4, ..] = self.0;
        [o0, o1, o2, o3, o4]
    }

    /// The hash of the host's identity. Only meaningful for an id made with [`Layout::MachineProcess`].
    pub const fn machine(self) -> [u8; 3] {
        let [m0, m1, m2, ..] = self.origin();
        [m0, m1, m2]
    }

    /// The low 16 bits of the maker's process id. Only meaningful for an id made with
    /// [`Layout::MachineProcess`].
    pub const fn process(self) -> u16 {
        let [_, _, _, p0, p1] = self.origin();
        u16::from_be_bytes([p0, p1])
    }

    /// The counter within one second: 24 bits.
    pub const fn counter(self) -> u32 {
        let [.., c0, c1, c2] = self.0;
        u32::from_be_bytes([0, c0, c1, c2])
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; OBJECT_ID_DIGITS];
        let nibbles = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
        for (digit, nibble) in text.iter_mut().zip(nibbles) {
            *digit = DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?');
        }
        formatter.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ObjectId(\"{self}\")")
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<ObjectId, Error> {
        ObjectId::parse(text)
    }
}

impl From<[u8; OBJECT_ID_BYTES]> for ObjectId {
    fn from(bytes: [u8; OBJECT_ID_BYTES]) -> ObjectId {
        ObjectId(bytes)
    }
}

impl From<ObjectId> for [u8; OBJECT_ID_BYTES] {
    fn from(id: ObjectId) -> [u8; OBJECT_ID_BYTES] {
        id.0
    }
}

/// The value of one hexadecimal digit.
fn digit_value(character: char) -> Option<u8> {
    character.to_digit(16).and_then(|digit| digit.try_into().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOLDEN: ObjectId =
        ObjectId::from_bytes([0x65, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18, 0x29, 0x3a, 0x4b]);

    #[track_caller]
    fn check_rejected(text: &str, message: &str) {
        assert_eq!(ObjectId::parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn parts_are_big_endian() {
        assert_eq!(GOLDEN.timestamp(), 0x65a1_b2c3);
        assert_eq!(GOLDEN.origin(), [0xd4, 0xe5, 0xf6, 0x07, 0x18]);
        assert_eq!(GOLDEN.machine(), [0xd4, 0xe5, 0xf6]);
        assert_eq!(GOLDEN.process(), 0x0718);
        assert_eq!(GOLDEN.counter(), 0x29_3a4b);
    }

    #[test]
    fn text_is_24_lower_case_digits() {
        assert_eq!(GOLDEN.to_string(), "65a1b2c3d4e5f60718293a4b");
        assert_eq!(format!("{GOLDEN:?}"), "ObjectId(\"65a1b2c3d4e5f60718293a4b\")");
        assert_eq!(format!("{GOLDEN:>26}"), "  65a1b2c3d4e5f60718293a4b");
    }

    #[test]
    fn either_case_is_read() {
        assert_eq!(ObjectId::parse("65A1B2C3D4E5F60718293A4B").unwrap(), GOLDEN);
        assert_eq!("65a1b2c3d4e5f60718293a4b".parse::<ObjectId>().unwrap(), GOLDEN);
    }

    #[test]
    fn the_extremes_round_trip() {
        for byte in [0x00, 0x0f, 0xf0, 0xff] {
            let id = ObjectId::from_bytes([byte; OBJECT_ID_BYTES]);
            assert_eq!(ObjectId::parse(&id.to_string()).unwrap(), id);
        }
        let last = ObjectId::from_bytes([0xff; OBJECT_ID_BYTES]);
        assert_eq!(last.system_time(), SystemTime::UNIX_EPOCH + Duration::from_secs(4_294_967_295));
    }

    #[test]
    fn the_empty_text_is_rejected() {
        check_rejected("", "\"\" is not an ObjectId: it has 0 characters, not 24");
    }

    #[test]
    fn a_digit_too_few_is_rejected() {
        check_rejected(
            "65a1b2c3d4e5f60718293a4",
            "\"65a1b2c3d4e5f60718293a4\" is not an ObjectId: it has 23 characters, not 24",
        );
    }

    #[test]
    fn a_digit_too_many_is_rejected() {
        check_rejected(
            "65a1b2c3d4e5f60718293a4b0",
            "\"65a1b2c3d4e5f60718293a4b0\" is not an ObjectId: it has 25 characters, not 24",
        );
    }

    #[test]
    fn the_first_wrong_digit_is_named() {
        check_rejected(
            "65a1b2c3d4e5f60718293a4g",
            "\"65a1b2c3d4e5f60718293a4g\" is not an ObjectId: character 24 is 'g', not a hexadecimal digit",
        );
        check_rejected(
            "+5a1b2c3d4e5f60718293a4b",
            "\"+5a1b2c3d4e5f60718293a4b\" is not an ObjectId: character 1 is '+', not a hexadecimal digit",
        );
    }

    #[test]
    fn digits_of_other_scripts_are_no_digits() {
        let text = "٣".repeat(OBJECT_ID_DIGITS);
        check_rejected(
            &text,
            &format!("\"{text}\" is not an ObjectId: character 1 is '٣', not a hexadecimal digit"),
        );
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(bytes: [u8; OBJECT_ID_BYTES]) {
            let id = ObjectId::from_bytes(bytes);
            prop_assert_eq!(ObjectId::parse(&id.to_string()).unwrap(), id);
            prop_assert_eq!(ObjectId::parse(&id.to_string().to_uppercase()).unwrap(), id);
            prop_assert_eq!(<[u8; OBJECT_ID_BYTES]>::from(ObjectId::from(bytes)), bytes);
        }

        #[test]
        fn order_is_the_order_of_bytes_and_text(a: [u8; OBJECT_ID_BYTES], b: [u8; OBJECT_ID_BYTES]) {
            let (left, right) = (ObjectId::from_bytes(a), ObjectId::from_bytes(b));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left.cmp(&right), left.to_string().cmp(&right.to_string()));
        }

        #[test]
        fn the_bson_crate_sees_the_same_id(bytes: [u8; OBJECT_ID_BYTES]) {
            let ours = ObjectId::from_bytes(bytes);
            let theirs = bson::oid::ObjectId::from_bytes(bytes);
            prop_assert_eq!(ours.to_string(), theirs.to_hex());
            prop_assert_eq!(i64::from(ours.timestamp()) * 1_000, theirs.timestamp().timestamp_millis());
            prop_assert_eq!(ours.system_time(), theirs.timestamp().to_system_time());
        }

        #[test]
        fn any_text_parses_or_fails_as_the_bson_crate_says(text in "[0-9a-fA-FgG +ö]{22,26}") {
            let theirs = bson::oid::ObjectId::parse_str(&text).map(|id| id.bytes()).ok();
            prop_assert_eq!(ObjectId::parse(&text).map(ObjectId::bytes).ok(), theirs);
        }
    }
}
