//! `$serializeEJSON` and `$deserializeEJSON`: values as the objects that represent them in Extended JSON, and back.
//!
//! Both ends are BSON; the text of such an object is JSON, which `json` writes and reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::oid::ObjectId;
use bson::raw::CString;
use bson::spec::{BinarySubtype, ElementType};
use bson::{
    Binary, DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, RawJavaScriptCodeWithScope, Regex,
    Timestamp,
};
use index::number::parse_decimal;
use index::writer::Writer;

use crate::code::Code;
use crate::decimal;
use crate::expression::binary::{UUID_BYTES, write_uuid};
use crate::expression::date::{format_utc, parse_text};
use crate::expression::error::Error;
use crate::expression::identity::parse_uuid;
use crate::expression::node::Arguments;
use crate::expression::scalar::{self, Pointer, double_text};
use crate::expression::signature::Signature;
use crate::expression::tree::{Container, Failure, LEVELS_MAX, TOO_DEEP, Tree};
use crate::expression::value::Value;
use crate::operation::OperationContext;
use crate::raw::Fields;
use crate::registry::Registry;
use crate::value::{content_bytes, document_or_array};

/// The arguments of `$serializeEJSON`.
pub(super) const SERIALIZE: Signature = Signature {
    names: &["input", "relaxed", "onError"],
    required: 1,
    not_object: Code::FAILED_TO_PARSE,
    unknown: Code::FAILED_TO_PARSE,
    missing: &[Code::FAILED_TO_PARSE],
};

/// The arguments of `$deserializeEJSON`.
pub(super) const DESERIALIZE: Signature = Signature { names: &["input", "onError"], ..SERIALIZE };

/// The first date that MongoDB writes as a number again: the first of 3001.
const DATE_END: i64 = 32_535_216_000_000;

/// Which of both forms numbers and dates have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Each type has an object of its own.
    Canonical,
    /// Numbers stay what they are, and dates are texts.
    Relaxed,
}

pub(super) fn serialize<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    let style = match arguments.given(1)? {
        None => Style::Relaxed,
        Some(relaxed) => match relaxed.or_null().as_bool() {
            Some(true) => Style::Relaxed,
            Some(false) => Style::Canonical,
            None => return Err(arguments.wrong_type(Code::BAD_VALUE, "relaxed", "a bool", &relaxed)),
        },
    };
    if input.is_missing() {
        return Ok(Value::NULL);
    }
    let written = write(input.or_null(), style, arguments.operation());
    written.or_else(|failure| on_error(arguments, 2, failure, &input))
}

pub(super) fn deserialize<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_missing() {
        return Ok(Value::NULL);
    }
    let read = read(input.or_null(), arguments.operation(), 0);
    read.or_else(|failure| on_error(arguments, 1, failure, &input))
}

/// The value of `onError` for a value that cannot be converted, or the error.
fn on_error<'d>(
    arguments: &Arguments<'_, 'd>,
    position: usize,
    failure: Failure,
    input: &Value<'d>,
) -> Result<Value<'d>, Error> {
    let target = if position == 1 { "BSON" } else { "Extended JSON" };
    if matches!(failure, Failure::Refused(_)) && arguments.is_given(position) {
        return arguments.value(position);
    }
    Err(failure.into_error(arguments, input, target))
}

/// A container of which the values that follow are not written yet.
struct Level<'v> {
    fields: Fields<'v>,
    style: Style,
    /// The number of containers that end with it: an object of code ends with its scope.
    ends: usize,
}

/// Writes a value as Extended JSON. Containers that are open wait on a list, so that no nesting overflows the stack.
fn write<'d>(
    value: RawBsonRef<'_>,
    style: Style,
    operation: &OperationContext,
) -> Result<Value<'d>, Failure> {
    let mut tree = Tree::new(operation);
    let mut open: Vec<Level<'_>> = Vec::new();
    open.extend(write_start(&mut tree, "", value, style)?);
    while let Some(level) = open.last_mut() {
        let Some(field) = level.fields.next() else {
            for _ in 0..level.ends {
                tree.close();
            }
            open.pop();
            continue;
        };
        let (field, style) = (field?, level.style);
        open.extend(write_start(&mut tree, field.name(), field.value()?, style)?);
    }
    tree.finish()
}

/// Writes a value without what is in it. Returns what is, for a container.
fn write_start<'v>(
    tree: &mut Tree,
    name: &str,
    value: RawBsonRef<'v>,
    style: Style,
) -> Result<Option<Level<'v>>, Failure> {
    let is_relaxed = style == Style::Relaxed;
    match value {
        RawBsonRef::Array(_) | RawBsonRef::Document(_) => {
            let kind = if value.as_array().is_some() { Container::Array } else { Container::Object };
            tree.open(name, kind)?;
            let level = |document| Level { fields: Fields::of(document), style, ends: 1 };
            return Ok(document_or_array(value).map(level));
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            tree.open(name, Container::Object)?;
            tree.append("$code", RawBsonRef::String(code.code))?;
            tree.open("$scope", Container::Object)?;
            // A scope is always canonical.
            return Ok(Some(Level { fields: Fields::of(code.scope), style: Style::Canonical, ends: 2 }));
        }
        RawBsonRef::String(_) | RawBsonRef::Boolean(_) | RawBsonRef::Null => tree.append(name, value)?,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) if is_relaxed => tree.append(name, value)?,
        RawBsonRef::Double(double) if is_relaxed && double.is_finite() => tree.append(name, value)?,
        RawBsonRef::Int32(number) => write_text(tree, name, "$numberInt", &number.to_string())?,
        RawBsonRef::Int64(number) => write_text(tree, name, "$numberLong", &number.to_string())?,
        RawBsonRef::Double(double) => write_text(tree, name, "$numberDouble", &double_text(double))?,
        RawBsonRef::Decimal128(decimal) => write_text(tree, name, "$numberDecimal", &decimal.to_string())?,
        RawBsonRef::DateTime(date) => {
            let millis = date.timestamp_millis();
            if is_relaxed && (0..DATE_END).contains(&millis) {
                write_text(tree, name, "$date", &format_utc(millis))?;
            } else {
                let millis = millis.to_string();
                write_parts(tree, (name, "$date"), &[("$numberLong", RawBsonRef::String(&millis))])?;
            }
        }
        other @ (RawBsonRef::RegularExpression(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_)) => write_special(tree, name, other)?,
    }
    Ok(None)
}

/// Writes a value of a type that has the same object in both styles.
fn write_special(tree: &mut Tree, name: &str, value: RawBsonRef<'_>) -> Result<(), Failure> {
    match value {
        RawBsonRef::ObjectId(id) => write_text(tree, name, "$oid", &id.to_hex()),
        RawBsonRef::Symbol(text) => write_text(tree, name, "$symbol", text),
        RawBsonRef::JavaScriptCode(code) => write_text(tree, name, "$code", code),
        RawBsonRef::Undefined => write_object(tree, name, "$undefined", RawBsonRef::Boolean(true)),
        RawBsonRef::MinKey => write_object(tree, name, "$minKey", RawBsonRef::Int32(1)),
        RawBsonRef::MaxKey => write_object(tree, name, "$maxKey", RawBsonRef::Int32(1)),
        RawBsonRef::Binary(binary)
            if binary.subtype == BinarySubtype::Uuid && binary.bytes.len() == UUID_BYTES =>
        {
            write_text(tree, name, "$uuid", &write_uuid(binary.bytes))
        }
        RawBsonRef::Binary(binary) => {
            let text =
                tree.encoded(binary.bytes.len().saturating_mul(2), || STANDARD.encode(binary.bytes))?;
            let subtype = format!("{:x}", u8::from(binary.subtype));
            let parts = [("base64", RawBsonRef::String(&text)), ("subType", RawBsonRef::String(&subtype))];
            write_parts(tree, (name, "$binary"), &parts)
        }
        RawBsonRef::RegularExpression(regex) => {
            let (pattern, options) = (regex.pattern.as_str(), regex.options.as_str());
            let parts = [("pattern", RawBsonRef::String(pattern)), ("options", RawBsonRef::String(options))];
            write_parts(tree, (name, "$regularExpression"), &parts)
        }
        RawBsonRef::Timestamp(Timestamp { time, increment }) => {
            let parts = [("t", i64::from(time)), ("i", i64::from(increment))];
            let parts = parts.map(|(part, number)| (part, RawBsonRef::Int64(number)));
            write_parts(tree, (name, "$timestamp"), &parts)
        }
        RawBsonRef::DbPointer(_) => {
            let pointer = Pointer::of(value).ok_or("its parts cannot be read")?;
            let id = pointer.id.to_hex();
            let parts = [("$ref", RawBsonRef::String(&pointer.namespace)), ("$id", RawBsonRef::String(&id))];
            write_parts(tree, (name, "$dbPointer"), &parts)
        }
        // The caller writes them by their style.
        RawBsonRef::Double(_)
        | RawBsonRef::String(_)
        | RawBsonRef::Array(_)
        | RawBsonRef::Document(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Decimal128(_) => tree.append(name, value),
    }
}

/// Writes `name: {key: text}`.
fn write_text(tree: &mut Tree, name: &str, key: &str, text: &str) -> Result<(), Failure> {
    write_object(tree, name, key, RawBsonRef::String(text))
}

/// Writes `name: {key: value}`.
fn write_object(tree: &mut Tree, name: &str, key: &str, value: RawBsonRef<'_>) -> Result<(), Failure> {
    tree.open(name, Container::Object)?;
    tree.append(key, value)?;
    tree.close();
    Ok(())
}

/// Writes an object of parts within an object: `{"$timestamp": {"t": 1, "i": 2}}`.
fn write_parts(
    tree: &mut Tree,
    names: (&str, &str),
    parts: &[(&str, RawBsonRef<'_>)],
) -> Result<(), Failure> {
    tree.open(names.0, Container::Object)?;
    tree.open(names.1, Container::Object)?;
    for (name, value) in parts {
        tree.append(name, *value)?;
    }
    tree.close();
    tree.close();
    Ok(())
}

/// Reads the value that Extended JSON represents. `scopes` is how many scopes of code are around it.
fn read<'d>(
    value: RawBsonRef<'_>,
    operation: &OperationContext,
    scopes: usize,
) -> Result<Value<'d>, Failure> {
    let mut tree = Tree::new(operation);
    let mut open: Vec<Fields<'_>> = Vec::new();
    open.extend(read_start(&mut tree, "", value, scopes)?);
    while let Some(fields) = open.last_mut() {
        let Some(field) = fields.next() else {
            tree.close();
            open.pop();
            continue;
        };
        let field = field?;
        if tree.innermost() == Some(Container::Object) && is_reserved(field.name()) {
            return Err(Failure::Refused("a name of Extended JSON must be the first of its object"));
        }
        open.extend(read_start(&mut tree, field.name(), field.value()?, scopes)?);
    }
    tree.finish()
}

/// Reads a value without what is in it. Returns what is, for an array, or an object that represents itself.
fn read_start<'v>(
    tree: &mut Tree,
    name: &str,
    value: RawBsonRef<'v>,
    scopes: usize,
) -> Result<Option<Fields<'v>>, Failure> {
    if let Some(document) = value.as_document() {
        if let Some(meant) = meant(document, tree.operation(), scopes)? {
            tree.append(name, meant.as_raw_bson_ref())?;
            return Ok(None);
        }
        tree.open(name, Container::Object)?;
        return Ok(Some(Fields::of(document)));
    }
    if value.as_array().is_some() {
        tree.open(name, Container::Array)?;
        return Ok(document_or_array(value).map(Fields::of));
    }
    let is_json = matches!(
        value,
        RawBsonRef::String(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::Null
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
    );
    if !is_json {
        return Err(Failure::Refused("it has a value of a type that JSON does not have"));
    }
    tree.append(name, value)?;
    Ok(None)
}

/// Reads what a name of Extended JSON represents.
type Read = fn(RawBsonRef<'_>) -> Result<RawBson, &'static str>;

/// The names that an object has alone.
const NAMES: Registry<Read> = Registry::new(&[
    ("$binary", binary),
    ("$date", date),
    ("$dbPointer", pointer),
    ("$maxKey", |value| constant(RawBsonRef::Int32(1), value, RawBson::MaxKey)),
    ("$minKey", |value| constant(RawBsonRef::Int32(1), value, RawBson::MinKey)),
    ("$numberDecimal", number_decimal),
    ("$numberDouble", number_double),
    ("$numberInt", number_int),
    ("$numberLong", |value| number_long(value).map(RawBson::Int64)),
    ("$oid", |value| object_id(value).map(RawBson::ObjectId)),
    ("$regularExpression", regular_expression),
    ("$symbol", |value| text(value).map(|text| RawBson::Symbol(text.to_owned()))),
    ("$timestamp", timestamp),
    ("$undefined", |value| constant(RawBsonRef::Boolean(true), value, RawBson::Undefined)),
    ("$uuid", uuid),
]);

/// Whether a name represents a type or a part of one, so that no other object may have it.
fn is_reserved(name: &str) -> bool {
    NAMES.get(name).is_some() || ["$code", "$id", "$ref", "$scope"].contains(&name)
}

/// The meaning of an object. Returns `None` if it represents itself.
fn meant(
    document: &RawDocument,
    operation: &OperationContext,
    scopes: usize,
) -> Result<Option<RawBson>, Failure> {
    let mut fields = Fields::of(document);
    let Some(first) = fields.next().transpose()? else { return Ok(None) };
    let second = fields.next().transpose()?;
    if let Some(read) = NAMES.get(first.name()) {
        // A copy of it is made, and dropped once it is written.
        let value = first.value()?;
        let _held = operation.reserve(content_bytes(value))?;
        operation.pass_within(content_bytes(value))?;
        let value = read(value)?;
        return if second.is_none() { Ok(Some(value)) } else { Err(Failure::Refused(OTHER_FIELDS)) };
    }
    match (first.name(), second) {
        ("$code", None) => Ok(Some(RawBson::JavaScriptCode(text(first.value()?)?.to_owned()))),
        ("$code", Some(second)) if second.name() == "$scope" => {
            let is_more = fields.next().is_some();
            with_scope([first.value()?, second.value()?], is_more, operation, scopes).map(Some)
        }
        ("$scope", Some(second)) if second.name() == "$code" => {
            let is_more = fields.next().is_some();
            with_scope([second.value()?, first.value()?], is_more, operation, scopes).map(Some)
        }
        _ => Ok(None),
    }
}

/// Code and its scope, which is Extended JSON itself.
fn with_scope(
    parts: [RawBsonRef<'_>; 2],
    has_other_fields: bool,
    operation: &OperationContext,
    scopes: usize,
) -> Result<RawBson, Failure> {
    if has_other_fields {
        return Err(Failure::Refused(OTHER_FIELDS));
    }
    // Each scope is read by a call of its own.
    if scopes == LEVELS_MAX {
        return Err(Failure::Refused(TOO_DEEP));
    }
    let [code, scope] = parts;
    let code = text(code)?.to_owned();
    let scope = read(scope, operation, scopes + 1)?;
    let document = scope.get().and_then(RawBsonRef::as_document).ok_or("a scope must be an object")?;
    let scope = document.to_owned();
    Ok(RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code, scope }))
}

const OTHER_FIELDS: &str = "an object of Extended JSON has other fields";
const NOT_TEXT: &str = "a value of Extended JSON must be a string";

fn text(value: RawBsonRef<'_>) -> Result<&str, &'static str> {
    value.as_str().ok_or(NOT_TEXT)
}

/// The value of a name that has one operand only.
fn constant(
    expected: RawBsonRef<'_>,
    found: RawBsonRef<'_>,
    value: RawBson,
) -> Result<RawBson, &'static str> {
    if expected == found {
        Ok(value)
    } else {
        Err("'$minKey' and '$maxKey' must be 1, and '$undefined' true")
    }
}

/// The values of an object that has both names and no other.
fn parts<'v>(value: RawBsonRef<'v>, names: [&str; 2]) -> Result<[RawBsonRef<'v>; 2], &'static str> {
    const WRONG: &str = "an object of Extended JSON must have two certain fields";
    let document = value.as_document().ok_or(WRONG)?;
    let mut found = [None; 2];
    for field in Fields::of(document) {
        let field = field.map_err(|_| WRONG)?;
        let position = names.iter().position(|name| *name == field.name());
        let slot = position.and_then(|position| found.get_mut(position)).filter(|slot| slot.is_none());
        *slot.ok_or(OTHER_FIELDS)? = Some(field.value().map_err(|_| WRONG)?);
    }
    let [first, second] = found;
    Ok([first.ok_or(WRONG)?, second.ok_or(WRONG)?])
}

fn object_id(value: RawBsonRef<'_>) -> Result<ObjectId, &'static str> {
    ObjectId::parse_str(text(value)?).map_err(|_| "'$oid' must be 24 hexadecimal digits")
}

fn uuid(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let bytes = parse_uuid(text(value)?).ok_or("'$uuid' is not written as a UUID")?;
    Ok(RawBson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes }))
}

fn number_int(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let number = number_long(value)?;
    i32::try_from(number).map(RawBson::Int32).map_err(|_| "'$numberInt' has more than 32 bits")
}

fn number_long(value: RawBsonRef<'_>) -> Result<i64, &'static str> {
    scalar::parse_long(text(value)?).ok_or("'$numberInt' and '$numberLong' must be integers")
}

/// Whether a text is one of the names that numbers have which are not finite.
fn is_name_of_number(text: &str) -> bool {
    ["NaN", "Infinity", "-Infinity"].contains(&text)
}

fn number_double(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let text = text(value)?;
    let number = scalar::parse_double(text);
    let number = number.filter(|number| number.is_finite() || is_name_of_number(text));
    number.map(RawBson::Double).ok_or("'$numberDouble' must be a number, NaN, Infinity or -Infinity")
}

fn number_decimal(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let text = text(value)?;
    let number = parse_decimal(text);
    let number = number.filter(|number| decimal::is_finite(*number) || is_name_of_number(text));
    number.map(RawBson::Decimal128).ok_or("'$numberDecimal' must be a number, NaN, Infinity or -Infinity")
}

fn binary(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let [bytes, subtype] = parts(value, ["base64", "subType"])?;
    let subtype = text(subtype)?;
    let is_byte = (1..=2).contains(&subtype.len()) && subtype.bytes().all(|digit| digit.is_ascii_hexdigit());
    let subtype = u8::from_str_radix(subtype, 16).ok().filter(|_| is_byte);
    let subtype = subtype.ok_or("'subType' must be a byte in hexadecimal digits")?;
    let bytes = STANDARD.decode(text(bytes)?).map_err(|_| "'base64' is not base64")?;
    Ok(RawBson::Binary(Binary { subtype: BinarySubtype::from(subtype), bytes }))
}

/// A date: a text of ISO 8601 with the time and the offset from UTC, or milliseconds.
fn date(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    const WRONG: &str = "'$date' must be a date of ISO 8601, or '{$numberLong: ...}'";
    let millis = if let Some(text) = value.as_str() {
        if !is_iso(text) {
            return Err(WRONG);
        }
        parse_text(text)?
    } else {
        let mut fields = value.as_document().map(Fields::of).ok_or(WRONG)?;
        match (fields.next(), fields.next()) {
            (Some(Ok(field)), None) if field.name() == "$numberLong" => {
                number_long(field.value().map_err(|_| WRONG)?)?
            }
            _ => return Err(WRONG),
        }
    };
    Ok(RawBson::DateTime(DateTime::from_millis(millis)))
}

/// Whether a text begins as `2018-03-20T11:30` and ends with an offset. Its parts are checked where it is read.
fn is_iso(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00";
    let Some((start, rest)) = text.split_at_checked(FORM.len()) else { return false };
    let fits = |(byte, form): (u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form };
    start.bytes().zip(FORM).all(fits) && (rest.ends_with('Z') || rest.contains(['+', '-']))
}

fn timestamp(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let numbers = parts(value, ["t", "i"])?.map(|part| {
        let number = part.as_i32().map(i64::from).or_else(|| part.as_i64());
        number.and_then(|number| u32::try_from(number).ok())
    });
    match numbers {
        [Some(time), Some(increment)] => Ok(RawBson::Timestamp(Timestamp { time, increment })),
        _ => Err("'t' and 'i' must be integers of 32 bits without a sign"),
    }
}

fn regular_expression(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    let [pattern, options] = parts(value, ["pattern", "options"])?;
    let part = |value| CString::try_from(text(value)?.to_owned()).map_err(|_| "it has a zero character");
    Ok(RawBson::RegularExpression(Regex { pattern: part(pattern)?, options: part(options)? }))
}

fn pointer(value: RawBsonRef<'_>) -> Result<RawBson, &'static str> {
    const WRONG: &str = "'$dbPointer' must have a '$ref' and an '$id' that are strings";
    let [namespace, id] = parts(value, ["$ref", "$id"])?;
    let (namespace, id) = (text(namespace)?, object_id(id)?);
    let length = i32::try_from(namespace.len() + 1).map_err(|_| WRONG)?;
    // The only way to make a value of the type: as the bytes of a document.
    let mut writer = Writer::with_capacity(namespace.len() + 32);
    let document = writer.open();
    writer.header(ElementType::DbPointer, "");
    writer.copy(&length.to_le_bytes());
    writer.copy(namespace.as_bytes());
    writer.copy(&[0]);
    writer.copy(&id.bytes());
    writer.close(document);
    let document = RawDocumentBuf::from_bytes(writer.into_bytes()).map_err(|_| WRONG)?;
    let value = document.get("").ok().flatten().ok_or(WRONG)?;
    Ok(RawBson::from(value))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, JavaScriptCodeWithScope, bson, doc};

    use super::*;
    use crate::expression::cases::{binary, check, check_error, decimal, evaluate, millis, regex};

    fn serialized(value: impl Into<Bson>, relaxed: bool) -> Bson {
        bson!({ "$serializeEJSON": { "input": { "$literal": (value.into()) }, "relaxed": relaxed } })
    }

    fn deserialized(value: impl Into<Bson>) -> Bson {
        bson!({ "$deserializeEJSON": { "input": { "$literal": (value.into()) } } })
    }

    #[test]
    fn values_have_two_forms_and_are_read_from_both() {
        let id = ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap();
        for (value, canonical, relaxed) in [
            (bson!("string"), bson!("string"), bson!("string")),
            (Bson::Null, Bson::Null, Bson::Null),
            (bson!(true), bson!(true), bson!(true)),
            (bson!(1), bson!({ "$numberInt": "1" }), bson!(1)),
            (bson!(-5_i64), bson!({ "$numberLong": "-5" }), bson!(-5_i64)),
            (bson!(1.0), bson!({ "$numberDouble": "1" }), bson!(1.0)),
            (
                bson!([1, { "a": 2.5 }]),
                bson!([{ "$numberInt": "1" }, { "a": { "$numberDouble": "2.5" } }]),
                bson!([1, { "a": 2.5 }]),
            ),
            (
                millis(1_079_895_594_000),
                bson!({ "$date": { "$numberLong": "1079895594000" } }),
                bson!({ "$date": "2004-03-21T18:59:54.000Z" }),
            ),
        ] {
            check(serialized(value.clone(), false), canonical.clone());
            check(serialized(value.clone(), true), relaxed.clone());
            check(
                bson!({ "$serializeEJSON": { "input": { "$literal": (value.clone()) } } }),
                relaxed.clone(),
            );
            check(deserialized(canonical), value.clone());
            check(deserialized(relaxed), value);
        }
        let code = JavaScriptCodeWithScope { code: "f()".to_owned(), scope: doc! { "a": 1 } };
        for (value, both) in [
            (bson!(f64::INFINITY), bson!({ "$numberDouble": "Infinity" })),
            (decimal("123"), bson!({ "$numberDecimal": "123" })),
            (decimal("-Infinity"), bson!({ "$numberDecimal": "-Infinity" })),
            (millis(-1), bson!({ "$date": { "$numberLong": "-1" } })),
            (Bson::ObjectId(id), bson!({ "$oid": "507f1f77bcf86cd799439011" })),
            (regex("a", "ix"), bson!({ "$regularExpression": { "pattern": "a", "options": "ix" } })),
            (binary(&[1]), bson!({ "$binary": { "base64": "AQ==", "subType": "0" } })),
            (
                Bson::Timestamp(Timestamp { time: 7, increment: 1 }),
                bson!({ "$timestamp": { "t": 7_i64, "i": 1_i64 } }),
            ),
            (Bson::Symbol("s".to_owned()), bson!({ "$symbol": "s" })),
            (Bson::JavaScriptCode("f()".to_owned()), bson!({ "$code": "f()" })),
            (
                Bson::JavaScriptCodeWithScope(code),
                bson!({ "$code": "f()", "$scope": { "a": { "$numberInt": "1" } } }),
            ),
            (Bson::Undefined, bson!({ "$undefined": true })),
            (Bson::MinKey, bson!({ "$minKey": 1 })),
            (Bson::MaxKey, bson!({ "$maxKey": 1 })),
        ] {
            check(serialized(value.clone(), false), both.clone());
            check(serialized(value.clone(), true), both.clone());
            check(deserialized(both), value);
        }
        check(serialized(bson!(f64::NAN), true), bson!({ "$numberDouble": "NaN" }));
        let uuid = bson!({ "$uuid": "867dee52-c331-484e-92d1-c56479b8e67e" });
        check(bson!({ "$serializeEJSON": { "input": (deserialized(uuid.clone())) } }), uuid);
        let pointer = bson!({ "$dbPointer": { "$ref": "a.b", "$id": "507f1f77bcf86cd799439011" } });
        check(bson!({ "$serializeEJSON": { "input": (deserialized(pointer.clone())) } }), pointer.clone());
        check(
            bson!({ "$toString": (deserialized(pointer)) }),
            bson!("DBRef(\"a.b\", 507f1f77bcf86cd799439011)"),
        );
        check(
            deserialized(bson!({ "$scope": {}, "$code": "x" })),
            JavaScriptCodeWithScope { code: "x".to_owned(), scope: doc! {} },
        );
        check(bson!({ "$serializeEJSON": { "input": "$missing" } }), Bson::Null);
        check(bson!({ "$deserializeEJSON": { "input": "$missing" } }), Bson::Null);
    }

    #[test]
    fn what_is_no_extended_json_is_refused() {
        for wrong in [
            bson!({ "$numberInt": 1 }),
            bson!({ "$numberInt": "2147483648" }),
            bson!({ "$numberLong": "bad" }),
            bson!({ "$numberLong": "--1" }),
            bson!({ "$numberLong": "1", "x": 1 }),
            bson!({ "$numberDouble": "inf" }),
            bson!({ "$numberDecimal": "nan" }),
            bson!({ "x": 1, "$numberLong": "1" }),
            bson!({ "$oid": "12" }),
            bson!({ "$uuid": "867dee52c331484e92d1c56479b8e67e" }),
            bson!({ "$binary": { "base64": "AQ==" } }),
            bson!({ "$binary": { "base64": "AQ==", "subType": "100" } }),
            bson!({ "$binary": { "base64": "?", "subType": "0" } }),
            bson!({ "$binary": { "base64": "", "subType": "0", "x": 1 } }),
            bson!({ "$date": 5 }),
            bson!({ "$date": "2004-03-21" }),
            bson!({ "$date": "2004-03-21T18:59:54" }),
            bson!({ "$date": "2004-13-21T18:59:54Z" }),
            bson!({ "$date": { "$numberInt": "5" } }),
            bson!({ "$timestamp": { "t": 1 } }),
            bson!({ "$timestamp": { "t": 1, "i": -1 } }),
            bson!({ "$regularExpression": { "pattern": "a\0", "options": "" } }),
            bson!({ "$dbPointer": { "$ref": "a", "$id": 1 } }),
            bson!({ "$code": 1 }),
            bson!({ "$code": "a", "$scope": 1 }),
            bson!({ "$code": "a", "$scope": { "$numberInt": "1" } }),
            bson!({ "$code": "a", "$scope": {}, "x": 1 }),
            bson!({ "$code": "a", "x": 1 }),
            bson!({ "$scope": {} }),
            bson!({ "$ref": "a" }),
            bson!({ "$minKey": 2 }),
            bson!({ "$undefined": false }),
            bson!([{ "a": (millis(1)) }]),
            decimal("1"),
        ] {
            check_error(deserialized(wrong.clone()), 241);
            let caught = bson!({ "input": { "$literal": wrong }, "onError": "caught" });
            check(bson!({ "$deserializeEJSON": caught }), bson!("caught"));
        }
        // Other names with a dollar sign are names.
        check(deserialized(bson!({ "$a": 1, "b": 2 })), Bson::Document(doc! { "$a": 1, "b": 2 }));
    }

    #[test]
    fn arguments_are_checked() {
        check_error(bson!({ "$serializeEJSON": { "input": 1, "relaxed": 1 } }), 2);
        check_error(bson!({ "$serializeEJSON": { "input": "$missing", "relaxed": null } }), 2);
        for operator in ["$serializeEJSON", "$deserializeEJSON"] {
            check_error(bson!({ operator: 1 }), 9);
            check_error(bson!({ operator: { "onError": 1 } }), 9);
            check_error(bson!({ operator: { "input": 1, "x": 1 } }), 9);
        }
    }

    #[test]
    fn levels_and_bytes_are_limited_and_caught() {
        let nested = |levels: usize, inside: &str| bson!({ "$toArray": ("[".repeat(levels) + inside + &"]".repeat(levels)) });
        let to =
            |input: Bson, relaxed: bool| bson!({ "$serializeEJSON": { "input": input, "relaxed": relaxed } });
        evaluate(&to(nested(200, "1"), true)).unwrap();
        check_error(to(nested(200, "1"), false), 241);
        let deep =
            bson!({ "$reduce": { "input": { "$range": [0, 5000] }, "initialValue": [], "in": ["$$value"] } });
        check_error(to(deep.clone(), true), 241);
        check_error(bson!({ "$deserializeEJSON": { "input": deep } }), 241);
        let many = bson!({ "input": { "$range": [0, 1_000_000] }, "relaxed": false, "onError": "many" });
        check(bson!({ "$serializeEJSON": many }), bson!("many"));
    }

    #[test]
    fn scopes_within_scopes_do_not_overflow_the_stack() {
        let scope = bson!({ "$reduce": {
            "input": { "$range": [0, 5000] },
            "initialValue": {},
            "in": { "$arrayToObject": [[[{ "$literal": "$code" }, "f"], [{ "$literal": "$scope" }, "$$value"]]] },
        } });
        check_error(bson!({ "$deserializeEJSON": { "input": scope } }), 241);
    }
}
