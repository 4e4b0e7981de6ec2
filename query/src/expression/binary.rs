//! Conversions of `$convert` from and to binary data: texts in a format, and numbers in an order of bytes.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bson::spec::BinarySubtype;
use bson::{Binary, RawBinaryRef, RawBson, RawBsonRef};

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::identity::parse_uuid;
use crate::expression::node::Arguments;
use crate::expression::value::Value;
use crate::registry::Registry;
use crate::value::integer;

/// The representation of bytes in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// That of a UUID if the bytes are one, else `Base64`.
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Big,
    #[default]
    Little,
}

const FORMATS: Registry<Format> = Registry::new(&[
    ("auto", Format::Auto),
    ("base64", Format::Base64),
    ("base64url", Format::Base64Url),
    ("hex", Format::Hex),
    ("utf8", Format::Utf8),
    ("uuid", Format::Uuid),
]);
const ORDERS: Registry<ByteOrder> = Registry::new(&[("big", ByteOrder::Big), ("little", ByteOrder::Little)]);

/// Written without padding, and read with it or without it.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a UUID.
pub(super) const UUID_BYTES: usize = 16;

const INVALID_LENGTH: &str = "its length is none of such a number";

/// Reads the option `format`. Returns `None` for null.
pub(super) fn format(arguments: &Arguments<'_, '_>, given: &Value<'_>) -> Result<Option<Format>, Error> {
    if given.is_nullish() {
        return Ok(None);
    }
    let name = given.or_null().as_str();
    let name =
        name.ok_or_else(|| arguments.wrong_type(Code::CONVERT_FORMAT_TYPE, "format", "a string", given))?;
    let unknown = || {
        arguments.wrong_value(
            Code::CONVERT_FORMAT_VALUE,
            "format",
            "the name of a format of binary data",
            given,
        )
    };
    FORMATS.get(name).copied().map(Some).ok_or_else(unknown)
}

/// Reads the option `byteOrder`.
pub(super) fn byte_order(arguments: &Arguments<'_, '_>, given: &Value<'_>) -> Result<ByteOrder, Error> {
    if given.is_nullish() {
        return Ok(ByteOrder::default());
    }
    let name = given.or_null().as_str();
    let name = name
        .ok_or_else(|| arguments.wrong_type(Code::CONVERT_BYTE_ORDER_TYPE, "byteOrder", "a string", given))?;
    let unknown =
        || arguments.wrong_value(Code::CONVERT_BYTE_ORDER_VALUE, "byteOrder", "'big' or 'little'", given);
    ORDERS.get(name).copied().ok_or_else(unknown)
}

/// Reads the option `subtype` of a type.
pub(super) fn subtype(arguments: &Arguments<'_, '_>, given: &Value<'_>) -> Result<BinarySubtype, Error> {
    if !given.is_number() {
        return Err(arguments.wrong_type(Code::CONVERT_SUBTYPE_TYPE, "subtype", "a number", given));
    }
    let number = integer(given.or_null());
    let number = number.ok_or_else(|| {
        arguments.wrong_value(Code::CONVERT_SUBTYPE_FRACTION, "subtype", "an integer", given)
    })?;
    // The types that MongoDB has defined, and those of users.
    let known = u8::try_from(number).ok().filter(|number| *number <= 9 || *number >= 128);
    let unknown =
        || arguments.wrong_value(Code::CONVERT_SUBTYPE_VALUE, "subtype", "a type of binary data", given);
    known.map(BinarySubtype::from).ok_or_else(unknown)
}

/// The bytes that a text represents.
pub(super) fn from_text<'d>(
    text: &str,
    format: Format,
    subtype: BinarySubtype,
) -> Result<Value<'d>, &'static str> {
    // A text of a UUID is never other bytes, and these are written in no other way.
    if (format == Format::Uuid) != (subtype == BinarySubtype::Uuid) {
        return Err("only the format 'uuid' is allowed with the subtype of UUIDs, and for no other one");
    }
    let bytes = match format {
        Format::Auto => return Err("the format 'auto' is only for writing strings"),
        Format::Base64 => STANDARD.decode(text).map_err(|_| "it is not base64")?,
        Format::Base64Url => BASE64_URL.decode(text).map_err(|_| "it is not base64 of URLs")?,
        Format::Hex => read_hex(text).ok_or("it does not consist of pairs of hexadecimal digits")?,
        Format::Utf8 => text.as_bytes().to_vec(),
        Format::Uuid => parse_uuid(text).ok_or("it is not written as a UUID")?,
    };
    Ok(value(subtype, bytes))
}

/// The text that represents bytes, as a value.
pub(super) fn to_text<'d>(binary: RawBinaryRef<'_>, format: Format) -> Result<Value<'d>, &'static str> {
    binary_text(binary, format).map(Value::text)
}

/// The text that represents bytes.
pub(super) fn binary_text(binary: RawBinaryRef<'_>, format: Format) -> Result<String, &'static str> {
    let RawBinaryRef { subtype, bytes } = binary;
    // The subtype alone is not a proof: stored bytes may have any length.
    let is_uuid = subtype == BinarySubtype::Uuid && bytes.len() == UUID_BYTES;
    Ok(match format {
        Format::Auto | Format::Uuid if is_uuid => write_uuid(bytes),
        Format::Uuid => return Err("it is not a UUID"),
        Format::Auto | Format::Base64 => STANDARD.encode(bytes),
        Format::Base64Url => BASE64_URL.encode(bytes),
        Format::Hex => upper_hex(bytes),
        Format::Utf8 => std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?.to_owned(),
    })
}

/// The bytes as they are, which must be of the same type.
pub(super) fn same<'d>(binary: RawBinaryRef<'_>, wanted: BinarySubtype) -> Result<Value<'d>, &'static str> {
    if binary.subtype != wanted {
        return Err("it has another subtype");
    }
    Ok(value(wanted, binary.bytes.to_vec()))
}

/// The bytes of a number: as many as its type has.
pub(super) fn from_number<'d>(
    number: RawBsonRef<'_>,
    order: ByteOrder,
    subtype: BinarySubtype,
) -> Result<Value<'d>, &'static str> {
    // A decimal has no such conversion in MongoDB either.
    let bytes = if let Some(number) = number.as_i32() {
        number.to_le_bytes().to_vec()
    } else if let Some(number) = number.as_i64() {
        number.to_le_bytes().to_vec()
    } else if let Some(number) = number.as_f64() {
        number.to_le_bytes().to_vec()
    } else {
        return Err("there is no such conversion");
    };
    let mut bytes = bytes;
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    Ok(value(subtype, bytes))
}

/// The integer that bytes are: one, two, four or, at most `length_max`, eight.
pub(super) fn to_integer(bytes: &[u8], order: ByteOrder, length_max: usize) -> Result<i64, &'static str> {
    let bytes = little(bytes, order);
    let number = match bytes.len() {
        1 => bytes.first_chunk().map(|bytes| i64::from(i8::from_le_bytes(*bytes))),
        2 => bytes.first_chunk().map(|bytes| i64::from(i16::from_le_bytes(*bytes))),
        4 => bytes.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
        // An int32 is made of four bytes at most.
        8 if length_max == 8 => bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        _ => None,
    };
    number.ok_or(INVALID_LENGTH)
}

/// The number that the bytes of a float or a double are.
pub(super) fn to_double(bytes: &[u8], order: ByteOrder) -> Result<f64, &'static str> {
    let bytes = little(bytes, order);
    let number = match bytes.len() {
        // Of half the length it is a float.
        4 => bytes.first_chunk().map(|bytes| f64::from(f32::from_le_bytes(*bytes))),
        8 => bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
        _ => None,
    };
    number.ok_or(INVALID_LENGTH)
}

/// The bytes of a number with the lowest one first. What is too long for a number is cut off behind it.
fn little(bytes: &[u8], order: ByteOrder) -> Vec<u8> {
    // One more than a number has, so that its length is still seen to be wrong.
    let mut bytes = bytes.iter().take(9).copied().collect::<Vec<u8>>();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

/// Binary data as a value.
pub(super) fn value<'d>(subtype: BinarySubtype, bytes: Vec<u8>) -> Value<'d> {
    Value::computed(RawBson::Binary(Binary { subtype, bytes }))
}

fn read_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Two digits for each byte, the letters large.
pub(super) fn upper_hex(bytes: &[u8]) -> String {
    write_hex(bytes, b"0123456789ABCDEF")
}

fn write_hex(bytes: &[u8], digits: &[u8; 16]) -> String {
    let digit = |half: u8| digits.get(usize::from(half)).copied().map_or('0', char::from);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A UUID in groups of 8, 4, 4, 4 and 12 digits.
pub(super) fn write_uuid(bytes: &[u8]) -> String {
    let mut digits = write_hex(bytes, b"0123456789abcdef");
    // From the end, so that the places before it stay what they are.
    for place in [20, 16, 12, 8] {
        digits.insert(place, '-');
    }
    digits
}
