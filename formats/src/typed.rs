//! Values of Extended JSON whose type a name with a dollar says: `{"$oid": "…"}` and the others, in version 2 and, where
//! that is no other value there, in version 1 as older tools wrote it.
//!
//! Such a document is small but for texts, so it is read into a little tree, and then checked and written.

use std::fmt;

use bson::spec::ElementType;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use index::number::parse_exact_decimal;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::dates::milliseconds;
use crate::element::{push_binary, push_c_text, push_text};
use crate::refusal::shown;

/// Which value a document with this name represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    ObjectId,
    Symbol,
    Int,
    Long,
    Double,
    Decimal,
    Binary,
    Uuid,
    Code,
    Scope,
    Timestamp,
    RegularExpression,
    DbPointer,
    Date,
    MinKey,
    MaxKey,
    Undefined,
}

/// The deepest that the tree of a value goes: `{"$dbPointer": {"$id": {"$oid": "…"}}}`.
const LEVELS_MAX: usize = 3;
/// No value has more fields.
const FIELDS_MAX: usize = 4;

impl Typed {
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "$oid" => Self::ObjectId,
            "$symbol" => Self::Symbol,
            "$numberInt" => Self::Int,
            "$numberLong" => Self::Long,
            "$numberDouble" => Self::Double,
            "$numberDecimal" => Self::Decimal,
            "$binary" => Self::Binary,
            "$uuid" => Self::Uuid,
            "$code" => Self::Code,
            "$scope" => Self::Scope,
            "$timestamp" => Self::Timestamp,
            "$regularExpression" => Self::RegularExpression,
            "$dbPointer" => Self::DbPointer,
            "$date" => Self::Date,
            "$minKey" => Self::MinKey,
            "$maxKey" => Self::MaxKey,
            "$undefined" => Self::Undefined,
            _ => return None,
        })
    }

    /// The name that represents the value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ObjectId => "$oid",
            Self::Symbol => "$symbol",
            Self::Int => "$numberInt",
            Self::Long => "$numberLong",
            Self::Double => "$numberDouble",
            Self::Decimal => "$numberDecimal",
            Self::Binary => "$binary",
            Self::Uuid => "$uuid",
            Self::Code => "$code",
            Self::Scope => "$scope",
            Self::Timestamp => "$timestamp",
            Self::RegularExpression => "$regularExpression",
            Self::DbPointer => "$dbPointer",
            Self::Date => "$date",
            Self::MinKey => "$minKey",
            Self::MaxKey => "$maxKey",
            Self::Undefined => "$undefined",
        }
    }

    /// Writes the value of the name, and of the name that came beside it. Returns the type. `None` if they make none.
    ///
    /// Code is not written here, because its scope is a document.
    pub(crate) fn write(
        self,
        out: &mut Vec<u8>,
        value: &Part,
        beside: Option<&NamedPart>,
    ) -> Option<ElementType> {
        match (self, beside) {
            (Self::Binary, Some(beside)) => old_binary(out, value, beside),
            (_, Some(_)) => None,
            (_, None) => self.write_alone(out, value),
        }
    }

    fn write_alone(self, out: &mut Vec<u8>, value: &Part) -> Option<ElementType> {
        match self {
            Self::ObjectId => {
                out.extend_from_slice(&object_id(value.text()?)?);
                Some(ElementType::ObjectId)
            }
            Self::Symbol => {
                push_text(out, value.text()?);
                Some(ElementType::Symbol)
            }
            Self::Int => {
                out.extend_from_slice(&value.text()?.parse::<i32>().ok()?.to_le_bytes());
                Some(ElementType::Int32)
            }
            Self::Long => {
                out.extend_from_slice(&value.text()?.parse::<i64>().ok()?.to_le_bytes());
                Some(ElementType::Int64)
            }
            Self::Double => {
                out.extend_from_slice(&value.text().and_then(double)?.to_le_bytes());
                Some(ElementType::Double)
            }
            Self::Decimal => {
                out.extend_from_slice(&parse_exact_decimal(value.text()?)?.bytes());
                Some(ElementType::Decimal128)
            }
            Self::Binary => {
                let [bytes, subtype] = value.fields(["base64", "subType"])?;
                binary(out, bytes.text()?, subtype.text()?)
            }
            Self::Uuid => {
                push_binary(out, UUID, &uuid(value.text()?)?);
                Some(ElementType::Binary)
            }
            Self::Timestamp => {
                let [time, increment] = value.fields(["t", "i"])?;
                let (time, increment) = (time.stamp()?, increment.stamp()?);
                // The increment is the lower half, so it comes first.
                out.extend_from_slice(&increment.to_le_bytes());
                out.extend_from_slice(&time.to_le_bytes());
                Some(ElementType::Timestamp)
            }
            Self::RegularExpression => {
                let [pattern, options] = value.fields(["pattern", "options"])?;
                regular_expression(out, pattern.text()?, options.text()?)
            }
            Self::DbPointer => {
                let [namespace, id] = value.fields(["$ref", "$id"])?;
                let [id] = id.fields(["$oid"])?;
                push_text(out, namespace.text()?);
                out.extend_from_slice(&object_id(id.text()?)?);
                Some(ElementType::DbPointer)
            }
            Self::Date => {
                out.extend_from_slice(&value.date()?.to_le_bytes());
                Some(ElementType::DateTime)
            }
            Self::MinKey => (value.whole()? == 1).then_some(ElementType::MinKey),
            Self::MaxKey => (value.whole()? == 1).then_some(ElementType::MaxKey),
            Self::Undefined => matches!(value, Part::Flag(true)).then_some(ElementType::Undefined),
            Self::Code | Self::Scope => None,
        }
    }
}

/// The subtype of binary data that is a UUID.
pub(crate) const UUID: u8 = 4;

fn binary(out: &mut Vec<u8>, text: &str, subtype: &str) -> Option<ElementType> {
    let is_short = (1..=2).contains(&subtype.len()) && subtype.bytes().all(|byte| byte.is_ascii_hexdigit());
    let subtype = u8::from_str_radix(subtype, 16).ok().filter(|_| is_short)?;
    push_binary(out, subtype, &BASE64.decode(text.as_bytes()).ok()?);
    Some(ElementType::Binary)
}

/// `{"$binary": "…", "$type": "00"}`, as version 1 has it.
fn old_binary(out: &mut Vec<u8>, value: &Part, beside: &NamedPart) -> Option<ElementType> {
    if beside.name == "$type" { binary(out, value.text()?, beside.part.text()?) } else { None }
}

pub(crate) fn object_id(text: &str) -> Option<[u8; 12]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The sixteen bytes of a UUID, written with its four hyphens.
pub(crate) fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
    bytes.try_into().ok().filter(|_| hyphens == [8, 13, 18, 23])
}

/// A double as Extended JSON names it. Rust's own names for infinity are not accepted.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse::<f64>().ok().filter(|number| number.is_finite()),
    }
}

pub(crate) fn regular_expression(out: &mut Vec<u8>, pattern: &str, options: &str) -> Option<ElementType> {
    if pattern.contains('\0') || options.contains('\0') {
        return None;
    }
    push_c_text(out, pattern);
    // BSON has the options in alphabetical order.
    let mut sorted: Vec<char> = options.chars().collect();
    sorted.sort_unstable();
    push_c_text(out, &sorted.into_iter().collect::<String>());
    Some(ElementType::RegularExpression)
}

/// A small JSON value.
#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    Whole(i64),
    Flag(bool),
    /// Null, an array, or a number that is not an integer: no value is made of them.
    Other,
    Fields(Vec<NamedPart>),
}

/// A field of a small JSON document.
#[derive(Debug)]
pub(crate) struct NamedPart {
    pub(crate) name: String,
    pub(crate) part: Part,
}

impl Part {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn whole(&self) -> Option<i64> {
        if let Self::Whole(number) = self { Some(*number) } else { None }
    }

    /// An unsigned number of 32 bits, in a wrapping of its own in some dialects.
    fn stamp(&self) -> Option<u32> {
        u32::try_from(self.whole()?).ok()
    }

    /// The parts of a document that has exactly these names.
    fn fields<const N: usize>(&self, names: [&str; N]) -> Option<[&Self; N]> {
        let Self::Fields(fields) = self else { return None };
        let found = names.map(|name| fields.iter().find(|field| field.name == name).map(|field| &field.part));
        if fields.len() != N || found.iter().any(Option::is_none) {
            return None;
        }
        let found: Vec<&Self> = found.into_iter().flatten().collect();
        found.try_into().ok()
    }

    /// Milliseconds: a text by RFC 3339, a number, or a number as canonical mode writes it.
    fn date(&self) -> Option<i64> {
        match self {
            Self::Text(text) => milliseconds(text),
            Self::Whole(number) => Some(*number),
            Self::Fields(_) => {
                let [number] = self.fields(["$numberLong"])?;
                number.text()?.parse().ok()
            }
            Self::Flag(_) | Self::Other => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(&shown(text)),
            Self::Whole(number) => write!(formatter, "{number}"),
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::Other => formatter.write_str("that value"),
            Self::Fields(fields) => {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                write!(formatter, "a document with {}", shown(&names.join(", ")))
            }
        }
    }
}

/// Reads a [`Part`], within so many levels.
pub(crate) struct PartSeed {
    levels: usize,
}

impl PartSeed {
    pub(crate) fn new() -> Self {
        Self { levels: LEVELS_MAX }
    }
}

impl<'de> DeserializeSeed<'de> for PartSeed {
    type Value = Part;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Part, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PartSeed {
    type Value = Part;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Part, E> {
        Ok(Part::Flag(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Part, E> {
        Ok(Part::Whole(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Part, E> {
        Ok(i64::try_from(number).map_or(Part::Other, Part::Whole))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Part, E> {
        Ok(Part::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part, E> {
        Ok(Part::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Part, E> {
        Ok(Part::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Part, A::Error> {
        Err(A::Error::custom("the value of a name with a dollar has no array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let Some(levels) = self.levels.checked_sub(1) else {
            return Err(A::Error::custom("the value of a name with a dollar is not as deep"));
        };
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.len() == FIELDS_MAX {
                return Err(A::Error::custom("the value of a name with a dollar has fewer fields"));
            }
            let part = map.next_value_seed(Self { levels })?;
            fields.push(NamedPart { name, part });
        }
        Ok(Part::Fields(fields))
    }
}
