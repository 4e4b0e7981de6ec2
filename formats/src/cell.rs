//! The value of a cell: by the type of its column, or by what the text looks like.

use bson::spec::ElementType;
use data_encoding::{BASE32, BASE64, Encoding, HEXLOWER_PERMISSIVE};
use index::number::parse_exact_decimal;

use crate::dates::{FOREIGN, check_format, exact_milliseconds, formatted, translated};
use crate::element::{push_binary, push_text, push_whole};
use crate::refusal::{Refusal, shown};
use crate::typed::{UUID, object_id, uuid};

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellType {
    Auto,
    /// Of a column whose cells were looked at before: those of one kind alone, and empty texts.
    Seen(Kind),
    Text,
    Int32,
    Int64,
    Double,
    Decimal,
    Boolean,
    Binary(TextCode),
    /// In this format of `strftime`.
    Date(String),
    ObjectId,
    Uuid,
}

/// The notation of bytes in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextCode {
    Base64,
    Base32,
    Hex,
}

impl TextCode {
    fn encoding(self) -> Encoding {
        match self {
            Self::Base64 => BASE64,
            Self::Base32 => BASE32,
            Self::Hex => HEXLOWER_PERMISSIVE,
        }
    }
}

impl CellType {
    /// The type that `name` and `argument` represent, as in `date(%Y-%m-%d)`.
    pub(crate) fn of(name: &str, argument: Option<&str>) -> Result<Self, Refusal> {
        if FOREIGN.contains(&name) {
            let format = argument.unwrap_or_default();
            let meant = translated(name, format);
            return Err(Refusal::wrong_type(format!("write date({meant}) for {name}({format})")));
        }
        let plain = match name {
            "auto" => Self::Auto,
            "string" => Self::Text,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "decimal" => Self::Decimal,
            "boolean" => Self::Boolean,
            "objectId" => Self::ObjectId,
            "uuid" => Self::Uuid,
            "binary" | "date" => return Self::with_argument(name, argument.unwrap_or_default()),
            _ => return Err(Refusal::wrong_type(format!("there is no type {}", shown(name)))),
        };
        match argument {
            None | Some("") => Ok(plain),
            Some(argument) => {
                Err(Refusal::wrong_type(format!("the type {name} accepts no {}", shown(argument))))
            }
        }
    }

    fn with_argument(name: &str, argument: &str) -> Result<Self, Refusal> {
        if name == "date" {
            return match check_format(argument) {
                Ok(()) => Ok(Self::Date(argument.to_owned())),
                Err(reason) => Err(Refusal::wrong_type(format!("date({argument}): {reason}"))),
            };
        }
        Ok(Self::Binary(match argument {
            "base64" => TextCode::Base64,
            "base32" => TextCode::Base32,
            "hex" => TextCode::Hex,
            _ => {
                let shown = shown(argument);
                return Err(Refusal::wrong_type(format!("binary is base64, base32 or hex, not {shown}")));
            }
        }))
    }

    /// The name for people.
    fn name(&self) -> &'static str {
        match self {
            Self::Auto => "value",
            Self::Seen(kind) => kind.name(),
            Self::Text => "string",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Decimal => "decimal of at most 34 digits",
            Self::Boolean => "boolean",
            Self::Binary(TextCode::Base64) => "binary(base64)",
            Self::Binary(TextCode::Base32) => "binary(base32)",
            Self::Binary(TextCode::Hex) => "binary(hex)",
            Self::Date(_) => "date in the format of its column",
            Self::ObjectId => "objectId",
            Self::Uuid => "uuid",
        }
    }

    /// Appends the value of a cell. Returns its type.
    pub(crate) fn write(&self, out: &mut Vec<u8>, text: &str) -> Result<ElementType, Refusal> {
        self.try_write(out, text)
            .ok_or_else(|| Refusal::wrong_type(format!("{} is no {}", shown(text), self.name())))
    }

    fn try_write(&self, out: &mut Vec<u8>, text: &str) -> Option<ElementType> {
        match self {
            Self::Auto => Some(push_auto(out, text)),
            Self::Seen(_) if text.is_empty() => {
                push_text(out, text);
                Some(ElementType::String)
            }
            Self::Seen(kind) => kind.push(out, text),
            Self::Text => {
                push_text(out, text);
                Some(ElementType::String)
            }
            Self::Int32 => push(out, &text.parse::<i32>().ok()?.to_le_bytes(), ElementType::Int32),
            Self::Int64 => push(out, &text.parse::<i64>().ok()?.to_le_bytes(), ElementType::Int64),
            Self::Double => push(out, &double(text)?.to_le_bytes(), ElementType::Double),
            Self::Decimal => push(out, &parse_exact_decimal(text)?.bytes(), ElementType::Decimal128),
            Self::Boolean => push(out, &[u8::from(boolean(text)?)], ElementType::Boolean),
            Self::Binary(code) => {
                push_binary(out, 0, &code.encoding().decode(text.as_bytes()).ok()?);
                Some(ElementType::Binary)
            }
            Self::Date(format) => push(out, &formatted(format, text)?.to_le_bytes(), ElementType::DateTime),
            Self::ObjectId => push(out, &object_id(text)?, ElementType::ObjectId),
            Self::Uuid => {
                push_binary(out, UUID, &uuid(text)?);
                Some(ElementType::Binary)
            }
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the other values may be refused")]
fn push(out: &mut Vec<u8>, bytes: &[u8], kind: ElementType) -> Option<ElementType> {
    out.extend_from_slice(bytes);
    Some(kind)
}

/// A number that overflows is not a double, unless infinity was written.
fn double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    (!has_digit || number.is_finite()).then_some(number)
}

fn boolean(text: &str) -> Option<bool> {
    if text == "1" || text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text == "0" || text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// The longest text of a double.
const DOUBLE_BYTES_MAX: usize = 32;

/// The type that a string looks like. A number is one only if it is written for this number again, so that nothing is
/// lost: `007`, `+1`, `1.50` and `1e400` stay texts. Of a date the moment is kept, and not its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    Double,
    Boolean,
    Date,
    /// A date without a time, which is one only if all of its column are.
    Day,
    Text,
}

impl Kind {
    pub(crate) fn of(text: &str) -> Self {
        match text.as_bytes() {
            b"true" | b"false" => Self::Boolean,
            [b'0'..=b'9' | b'-' | b'+', ..] => {
                if exact_whole(text).is_some() {
                    Self::Whole
                } else if exact_double(text).is_some() {
                    Self::Double
                } else if exact_date(text).is_some() {
                    Self::Date
                } else if exact_day(text).is_some() {
                    Self::Day
                } else {
                    Self::Text
                }
            }
            _ => Self::Text,
        }
    }

    /// The kind of a column with cells of both kinds; `None` if there is none.
    pub(crate) fn with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Whole | Self::Double, Self::Whole | Self::Double) if self != other => Some(Self::Double),
            _ => (self == other).then_some(self),
        }
    }

    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "integer as those before",
            Self::Double => "number as those before",
            Self::Boolean => "true or false as those before",
            Self::Date => "date by RFC 3339 as those before",
            Self::Day => "date without a time as those before",
            Self::Text => "text",
        }
    }

    /// Several of them, for people.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Whole => "integers",
            Self::Double => "numbers",
            Self::Boolean => "truth values",
            Self::Date => "dates",
            Self::Day => "dates without a time",
            Self::Text => "texts",
        }
    }

    /// Appends a text as a value of this kind. Returns its type; `None` if the text is of another kind.
    fn push(self, out: &mut Vec<u8>, text: &str) -> Option<ElementType> {
        match self {
            Self::Whole => Some(push_whole(out, exact_whole(text)?)),
            Self::Double => push(out, &exact_number(text)?.to_le_bytes(), ElementType::Double),
            Self::Boolean => match text {
                "true" => push(out, &[1], ElementType::Boolean),
                "false" => push(out, &[0], ElementType::Boolean),
                _ => None,
            },
            Self::Date => push(out, &exact_date(text)?.to_le_bytes(), ElementType::DateTime),
            Self::Day => push(out, &exact_day(text)?.to_le_bytes(), ElementType::DateTime),
            Self::Text => {
                push_text(out, text);
                Some(ElementType::String)
            }
        }
    }
}

/// A value of the kind that the text looks like by itself.
fn push_auto(out: &mut Vec<u8>, text: &str) -> ElementType {
    // A date without a time may be anything, unless all of its column are.
    let kind = Some(Kind::of(text)).filter(|kind| *kind != Kind::Day).unwrap_or(Kind::Text);
    if let Some(written) = kind.push(out, text) {
        return written;
    }
    push_text(out, text);
    ElementType::String
}

fn exact_whole(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// An integer or another number as a double, if no digit is lost.
fn exact_number(text: &str) -> Option<f64> {
    match exact_whole(text) {
        Some(number) => exact_integer(number),
        None => exact_double(text),
    }
}

/// The integer as a double, if a double has all its digits.
fn exact_integer(number: i64) -> Option<f64> {
    /// Doubles have this many bits, and so every integer up to it.
    const LARGEST: u64 = 1 << f64::MANTISSA_DIGITS;
    #[expect(clippy::cast_precision_loss, reason = "integers up to this one have all their digits")]
    (number.unsigned_abs() <= LARGEST).then_some(number as f64)
}

fn exact_double(text: &str) -> Option<f64> {
    if text.len() > DOUBLE_BYTES_MAX {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite() && format!("{number:?}") == text)
}

fn exact_date(text: &str) -> Option<i64> {
    // Asked first because most texts that begin with a digit are not dates.
    let may_be = text.len() >= "2024-01-01T00:00:00Z".len();
    if may_be { exact_milliseconds(text) } else { None }
}

/// Midnight in UTC of a day: `2024-02-29`.
fn exact_day(text: &str) -> Option<i64> {
    if text.len() == "2024-02-29".len() { exact_milliseconds(&format!("{text}T00:00:00Z")) } else { None }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Decimal128, RawDocument};

    use crate::element::{Frame, TypeByte};

    use super::*;

    fn value(of: &CellType, text: &str) -> Result<Bson, Refusal> {
        let mut out = Vec::new();
        let frame = Frame::begin(&mut out);
        let kind = TypeByte::begin(&mut out, "a");
        let written = of.write(&mut out, text)?;
        kind.set(&mut out, written);
        frame.end_document(&mut out);
        let raw = RawDocument::from_bytes(&out).unwrap().get("a").unwrap().unwrap();
        Ok(raw.try_into().unwrap())
    }

    #[track_caller]
    fn check(of: &CellType, text: &str, expected: impl Into<Bson>) {
        assert_eq!(value(of, text).unwrap(), expected.into());
    }

    #[test]
    fn auto_takes_what_would_be_written_the_same() {
        let auto = |text: &str, expected: Bson| check(&CellType::Auto, text, expected);
        auto("0", 0.into());
        auto("-7", (-7).into());
        auto("2147483648", 2_147_483_648_i64.into());
        auto("-9223372036854775808", i64::MIN.into());
        auto("1.5", 1.5.into());
        auto("-0.0", (-0.0).into());
        auto("1e21", 1e21.into());
        auto("true", true.into());
        auto("2024-02-29T12:00:00Z", DateTime::parse_rfc3339_str("2024-02-29T12:00:00Z").unwrap().into());
        auto("9999-12-31T23:59:59.999Z", DateTime::from_millis(253_402_300_799_999).into());
        auto("+010000-01-01T00:00:00Z", DateTime::from_millis(253_402_300_800_000).into());
        auto("-000001-12-31T00:00:00Z", DateTime::from_millis(-62_167_305_600_000).into());
        for text in [
            "",
            "007",
            "+1",
            "-0",
            "1e400",
            "12345678901234567890",
            "1.50",
            "1.",
            ".5",
            "1E5",
            "NaN",
            "Infinity",
            "True",
            " 1",
            "1 ",
            "2024-02-29",
            "2024-02-30T12:00:00Z",
            "2024-02-29T12:00:00",
            "0x10",
            "1_000",
            "-000000-01-01T00:00:00Z",
            "+1.5",
            "+2024-01-01T00:00:00Z",
            "null",
        ] {
            auto(text, text.into());
        }
    }

    #[test]
    fn types_take_their_values_and_nothing_else() {
        let of = |name: &str, argument: Option<&str>| CellType::of(name, argument).unwrap();
        check(&of("int32", None), "+007", 7);
        check(&of("int64", None), "7", 7_i64);
        check(&of("double", None), "7", 7.0);
        check(&of("double", None), "-inf", f64::NEG_INFINITY);
        check(&of("decimal", None), "1.50", "1.50".parse::<Decimal128>().unwrap());
        check(&of("boolean", None), "TRUE", true);
        check(&of("boolean", None), "0", false);
        check(&of("string", None), "7", "7");
        check(&of("auto", None), "7", 7);
        let id = "507f1f77bcf86cd799439011";
        check(&of("objectId", None), id, bson::oid::ObjectId::parse_str(id).unwrap());
        check(&of("date", Some("%d.%m.%Y")), "01.01.1970", DateTime::from_millis(0));
        let bytes = |bytes: &[u8]| bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        };
        check(&of("binary", Some("hex")), "01Ff", bytes(&[1, 255]));
        check(&of("binary", Some("base64")), "AQI=", bytes(&[1, 2]));
        check(&of("binary", Some("base32")), "AEBA====", bytes(&[1, 2]));
        for (name, argument, text) in [
            ("int32", None, "2147483648"),
            ("int64", None, "1.0"),
            ("double", None, "1e400"),
            ("decimal", None, "x"),
            ("boolean", None, "yes"),
            ("binary", Some("hex"), "0"),
            ("binary", Some("base64"), "AQI"),
            ("date", Some("%Y"), "x"),
            ("objectId", None, "507f"),
            ("uuid", None, "c8edabc3f7384ca3b68dab92a91478a3"),
        ] {
            if let Ok(of) = CellType::of(name, argument) {
                value(&of, text).unwrap_err();
            }
        }
    }

    /// An empty cell was 0, and so was a lone sign or point: the parser of `bson` accepts them.
    #[test]
    fn a_number_has_a_digit() {
        let numbers = ["int32", "int64", "double", "decimal"];
        for (name, text) in numbers.iter().flat_map(|name| {
            [
                "", " ", "-", "+", ".", "-.", "E01", "e5", "-+32.4", "++1", "--1", "1.2.3", "1 ", " 1",
                "0x1F", "1,5", "1_0",
            ]
            .map(|text| (*name, text))
        }) {
            let refusal = value(&CellType::of(name, None).unwrap(), text).unwrap_err();
            assert!(refusal.reason.contains(&format!("{text:?} is no {name}")), "{refusal}");
        }
        // Of a decimal as well no digit is lost.
        value(&CellType::Decimal, "1234567890123456789012345678901234.5").unwrap_err();
    }

    #[test]
    fn types_that_are_not_there_are_named() {
        let refused = |name: &str, argument: Option<&str>| CellType::of(name, argument).unwrap_err().reason;
        assert_eq!(refused("integer", None), "there is no type \"integer\"");
        assert_eq!(refused("int32", Some("x")), "the type int32 accepts no \"x\"");
        assert_eq!(refused("binary", None), "binary is base64, base32 or hex, not \"\"");
        assert_eq!(refused("date_go", Some("2006-01-02")), "write date(%Y-%m-%d) for date_go(2006-01-02)");
    }
}
