//! The value of a cell: by the type of its column, or by what the text looks like.

use bson::Decimal128;
use bson::spec::ElementType;
use data_encoding::{BASE32, BASE64, Encoding, HEXLOWER_PERMISSIVE};

use crate::dates::{FOREIGN, check_format, exact_milliseconds, formatted, translated};
use crate::element::{push_binary, push_text, push_whole};
use crate::refusal::{Refusal, shown};
use crate::typed::{UUID, object_id, uuid};

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellType {
    Auto,
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

/// How bytes are written as text.
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
    /// The type that `name` and `argument` stand for, as in `date(%Y-%m-%d)`.
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
                Err(Refusal::wrong_type(format!("the type {name} takes no {}", shown(argument))))
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
            Self::Text => "string",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Decimal => "decimal",
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
            Self::Text => {
                push_text(out, text);
                Some(ElementType::String)
            }
            Self::Int32 => push(out, &text.parse::<i32>().ok()?.to_le_bytes(), ElementType::Int32),
            Self::Int64 => push(out, &text.parse::<i64>().ok()?.to_le_bytes(), ElementType::Int64),
            Self::Double => push(out, &double(text)?.to_le_bytes(), ElementType::Double),
            Self::Decimal => push(out, &text.parse::<Decimal128>().ok()?.bytes(), ElementType::Decimal128),
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

/// A number that overflows is no double, unless infinity was written.
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

/// A number is made only of a text that is written for this number again, so that nothing is lost: `007`, `+1`, `1.50`
/// and `1e400` stay texts. Of a date the moment is kept, and not its zone.
fn push_auto(out: &mut Vec<u8>, text: &str) -> ElementType {
    let (bytes, kind): (&[u8], _) = match text.as_bytes() {
        b"true" => (&[1], ElementType::Boolean),
        b"false" => (&[0], ElementType::Boolean),
        [b'0'..=b'9' | b'-', ..] => {
            if let Some(number) = text.parse::<i64>().ok().filter(|number| number.to_string() == text) {
                return push_whole(out, number);
            }
            if let Some(number) = exact_double(text) {
                (&number.to_le_bytes(), ElementType::Double)
            } else if let Some(date) = exact_date(text) {
                (&date.to_le_bytes(), ElementType::DateTime)
            } else {
                push_text(out, text);
                return ElementType::String;
            }
        }
        _ => {
            push_text(out, text);
            return ElementType::String;
        }
    };
    out.extend_from_slice(bytes);
    kind
}

fn exact_double(text: &str) -> Option<f64> {
    if text.len() > DOUBLE_BYTES_MAX {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite() && format!("{number:?}") == text)
}

fn exact_date(text: &str) -> Option<i64> {
    // Asked first because most texts that begin with a digit are no dates.
    let may_be = text.len() >= "2024-01-01T00:00:00Z".len() && !text.starts_with('-');
    if may_be { exact_milliseconds(text) } else { None }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, RawDocument};

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
            "-000001-01-01T00:00:00Z",
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

    #[test]
    fn types_that_are_not_there_are_named() {
        let refused = |name: &str, argument: Option<&str>| CellType::of(name, argument).unwrap_err().reason;
        assert_eq!(refused("integer", None), "there is no type \"integer\"");
        assert_eq!(refused("int32", Some("x")), "the type int32 takes no \"x\"");
        assert_eq!(refused("binary", None), "binary is base64, base32 or hex, not \"\"");
        assert_eq!(refused("date_go", Some("2006-01-02")), "write date(%Y-%m-%d) for date_go(2006-01-02)");
    }
}
