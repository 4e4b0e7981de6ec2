//! Scalars as texts, as MongoDB writes them, and numbers that texts are; and the bases in which integers are written.

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::{RawBsonRef, RawDocumentBuf, Timestamp};

use crate::expression::date::format_utc;
use crate::raw::{Field, Fields};
use crate::value::integer;

/// The text of a scalar. Returns `None` for null and undefined, which have none, for binary data, whose text depends on a format, and
/// for what holds other values.
pub(super) fn text(value: RawBsonRef<'_>) -> Option<String> {
    Some(match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            text.to_owned()
        }
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::DateTime(date) => date_text(date.timestamp_millis()),
        RawBsonRef::Double(double) => double_text(double),
        RawBsonRef::Decimal128(decimal) => decimal.to_string(),
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Timestamp(Timestamp { time, increment }) => format!("Timestamp({time}, {increment})"),
        RawBsonRef::RegularExpression(regex) => {
            format!("/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        RawBsonRef::DbPointer(_) => {
            let pointer = Pointer::of(value)?;
            format!("DBRef(\"{}\", {})", pointer.namespace, pointer.id.to_hex())
        }
        RawBsonRef::MinKey => "MinKey".to_owned(),
        RawBsonRef::MaxKey => "MaxKey".to_owned(),
        RawBsonRef::Null
        | RawBsonRef::Undefined
        | RawBsonRef::Binary(_)
        | RawBsonRef::Array(_)
        | RawBsonRef::Document(_)
        | RawBsonRef::JavaScriptCodeWithScope(_) => return None,
    })
}

/// A reference of the deprecated type `DbPointer`.
#[derive(Debug)]
pub(super) struct Pointer {
    pub(super) namespace: String,
    pub(super) id: ObjectId,
}

impl Pointer {
    /// The parts of a pointer. Returns `None` for a value of another type.
    pub(super) fn of(value: RawBsonRef<'_>) -> Option<Self> {
        value.as_db_pointer()?;
        // Written once more, because a value by itself does not give its parts: a length, a text with a zero byte, and the id.
        let mut document = RawDocumentBuf::new();
        document.append(cstr!(""), value);
        let field = Fields::of(&document).next()?.ok()?;
        let (_, text) = Field::bytes(&field).split_at_checked(4)?;
        let (text, id) = text.split_last_chunk::<12>()?;
        let namespace = str::from_utf8(text).ok()?.trim_end_matches('\0').to_owned();
        Some(Self { namespace, id: ObjectId::from_bytes(*id) })
    }
}

/// A base in which integers are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Radix(u32);

impl Radix {
    /// Returns `None` for a number that is none of MongoDB's bases.
    pub(super) fn of(number: i64) -> Option<Self> {
        u32::try_from(number).ok().filter(|number| [2, 8, 10, 16].contains(number)).map(Self)
    }

    /// The integer that a text is in the base: digits, with one sign or without.
    pub(super) fn read(self, text: &str) -> Option<i64> {
        // A prefix such as `0x` is none of the digits.
        i64::from_str_radix(text, self.0).ok()
    }

    /// The digits of a number that is an integer.
    pub(super) fn write(self, number: RawBsonRef<'_>) -> Result<String, &'static str> {
        let value = integer(number).ok_or("it is not an integer")?;
        // MongoDB asks of doubles and decimals that they are integers of 32 bits.
        let is_wide = matches!(number, RawBsonRef::Double(_) | RawBsonRef::Decimal128(_));
        if is_wide && i32::try_from(value).is_err() {
            return Err("it is not an integer of 32 bits");
        }
        let sign = if value < 0 { "-" } else { "" };
        let size = value.unsigned_abs();
        Ok(match self.0 {
            2 => format!("{sign}{size:b}"),
            8 => format!("{sign}{size:o}"),
            16 => format!("{sign}{size:X}"),
            _ => format!("{sign}{size}"),
        })
    }
}

/// The integer that a text is: digits, with one sign or without.
pub(super) fn parse_long(text: &str) -> Option<i64> {
    // The parser of the standard library is asked only for what MongoDB reads as an integer: digits with one
    // sign.
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The double that a text is. Returns `None` also if it is beyond the range of doubles.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let value = text.parse::<f64>().ok()?;
    // The parser of the standard library rounds what is too large to an infinity and what is too small to
    // zero. MongoDB rejects both, but reads the names of infinities.
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let has_digit = |digits: &[char]| mantissa.contains(digits);
    let is_lost = (value.is_infinite() && has_digit(&['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']))
        || (value == 0.0 && has_digit(&['1', '2', '3', '4', '5', '6', '7', '8', '9']));
    if is_lost { None } else { Some(value) }
}

/// The text of a date in UTC, as MongoDB writes it.
pub(super) fn date_text(millis: i64) -> String {
    format_utc(millis)
}

/// The text of a double, as MongoDB writes it: the fewest digits that distinguish it from all other doubles, with an
/// exponent if it is below 0.0001 or has more than 16 digits before the point.
pub(super) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity".to_owned() } else { "Infinity".to_owned() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    // Within these bounds the standard library writes the same digits without an exponent.
    if (-4..16).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    // MongoDB writes a sign and at least two digits: 1e+16.
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}
