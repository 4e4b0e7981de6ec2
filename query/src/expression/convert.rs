//! Types and conversions: `$convert`, its short forms such as `$toInt`, `$type` and `$isNumber`.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef, Timestamp};
use index::number::parse_decimal;

use crate::code::Code;
use crate::decimal::{self, Rounding};
use crate::expression::binary::{self, ByteOrder, Format};
use crate::expression::date::parse_text;
use crate::expression::error::Error;
use crate::expression::json;
use crate::expression::node::Arguments;
use crate::expression::scalar::{self, Radix};
use crate::expression::signature::Signature;
use crate::expression::tree::{Container, Failure};
use crate::expression::value::{Value, field};
use crate::expression::vector;
use crate::numeric::Numeric;
use crate::registry::Registry;
use crate::value::{integer, is_true};

pub(super) const CONVERT: Signature = Signature {
    names: &["input", "to", "onError", "onNull", "format", "byteOrder", "base"],
    required: 2,
    not_object: Code::FAILED_TO_PARSE,
    unknown: Code::FAILED_TO_PARSE,
    missing: &[Code::FAILED_TO_PARSE],
};

/// The notation of binary data and numbers.
#[derive(Clone, Copy, Debug)]
struct Notation {
    /// Binary data as a text. Absent if it was not said.
    format: Option<Format>,
    /// Binary data as a number.
    order: ByteOrder,
    /// Numbers as texts. Absent if it was not said.
    base: Option<Radix>,
}

/// A type that `to` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetType {
    Array,
    /// Binary data of a subtype.
    Binary(BinarySubtype),
    Bool,
    Date,
    Decimal,
    Double,
    Int,
    Long,
    Object,
    ObjectId,
    String,
    /// Any other type of BSON. No value can be converted to it.
    Other(&'static str),
}

/// The names of types, with their numbers.
const TYPES: Registry<(i64, TargetType)> = Registry::new(&[
    ("array", (4, TargetType::Array)),
    ("bool", (8, TargetType::Bool)),
    ("date", (9, TargetType::Date)),
    ("dbPointer", (12, TargetType::Other("dbPointer"))),
    ("decimal", (19, TargetType::Decimal)),
    ("double", (1, TargetType::Double)),
    ("int", (16, TargetType::Int)),
    ("javascript", (13, TargetType::Other("javascript"))),
    ("javascriptWithScope", (15, TargetType::Other("javascriptWithScope"))),
    ("long", (18, TargetType::Long)),
    ("maxKey", (127, TargetType::Other("maxKey"))),
    ("minKey", (-1, TargetType::Other("minKey"))),
    ("missing", (0, TargetType::Other("missing"))),
    ("null", (10, TargetType::Other("null"))),
    ("object", (3, TargetType::Object)),
    ("objectId", (7, TargetType::ObjectId)),
    ("regex", (11, TargetType::Other("regex"))),
    ("string", (2, TargetType::String)),
    ("symbol", (14, TargetType::Other("symbol"))),
    ("timestamp", (17, TargetType::Other("timestamp"))),
    ("undefined", (6, TargetType::Other("undefined"))),
]);
const BINARY: (&str, i64) = ("binData", 5);

pub(super) fn type_of<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::text(arguments.value(0)?.type_name()))
}

/// `$subtype`: the number of the kind of binary data.
pub(super) fn subtype_of<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let RawBsonRef::Binary(binary) = value.or_null() else {
        return Err(arguments.wrong_type(Code::SUBTYPE_TYPE, "the argument", "binary data", &value));
    };
    Ok(Value::int(i32::from(u8::from(binary.subtype))))
}

pub(super) fn is_number<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::boolean(arguments.value(0)?.is_number()))
}

pub(super) fn to_array<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Array)
}

pub(super) fn to_bool<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Bool)
}

pub(super) fn to_date<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Date)
}

pub(super) fn to_decimal<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Decimal)
}

pub(super) fn to_double<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Double)
}

pub(super) fn to_int<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Int)
}

pub(super) fn to_long<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Long)
}

pub(super) fn to_object<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::Object)
}

pub(super) fn to_object_id<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::ObjectId)
}

pub(super) fn to_string<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    only(arguments, TargetType::String)
}

pub(super) fn convert<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    let target = target(arguments, &arguments.value(1)?)?;
    if input.is_nullish() {
        // A wrong type is an error even for null, so it was read first. `onNull` is evaluated only if it is
        // needed.
        return Ok(arguments.given(3)?.unwrap_or(Value::NULL));
    }
    let Some(target) = target else { return Ok(Value::NULL) };
    // Checked also where the conversion has no use for it, as in MongoDB.
    let base = arguments.given(6)?.map_or(Ok(None), |given| base(arguments, &given))?;
    let format = arguments.given(4)?.map_or(Ok(None), |given| binary::format(arguments, &given))?;
    let order = arguments
        .given(5)?
        .map_or(Ok(ByteOrder::default()), |given| binary::byte_order(arguments, &given))?;
    match converted(arguments, &input, target, Notation { format, order, base }) {
        // `onError` catches values that cannot be converted, and no fault of the expression itself.
        Err(error) if error.is_conversion() && arguments.is_given(2) => arguments.value(2),
        result => result,
    }
}

fn only<'d>(arguments: &Arguments<'_, 'd>, target: TargetType) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    // As in MongoDB, the short forms write binary data as it suits it.
    let notation = Notation { format: Some(Format::Auto), order: ByteOrder::default(), base: None };
    converted(arguments, &input, target, notation)
}

/// Reads the option `base`. Returns `None` for null.
fn base(arguments: &Arguments<'_, '_>, given: &Value<'_>) -> Result<Option<Radix>, Error> {
    if given.is_nullish() {
        return Ok(None);
    }
    let refuse = |code, expected| arguments.wrong_value(code, "base", expected, given);
    let number = integer(given.or_null()).filter(|number| i32::try_from(*number).is_ok());
    let number = number.ok_or_else(|| refuse(Code::CONVERT_BASE_TYPE, "an integer"))?;
    Radix::of(number).map(Some).ok_or_else(|| refuse(Code::CONVERT_BASE_VALUE, "2, 8, 10 or 16"))
}

/// The type that `to` names, alone or as `{type: …}`. Returns `None` for null.
fn target(arguments: &Arguments<'_, '_>, to: &Value<'_>) -> Result<Option<TargetType>, Error> {
    let (named, subtype) = match to.or_null().as_document() {
        Some(document) => (Value::found(field(document, "type")), Value::found(field(document, "subtype"))),
        None => (to.clone(), Value::Missing),
    };
    let binary = || {
        let subtype =
            if subtype.is_nullish() { BinarySubtype::Generic } else { binary::subtype(arguments, &subtype)? };
        Ok(Some(TargetType::Binary(subtype)))
    };
    if named.is_nullish() {
        return Ok(None);
    }
    let value = named.or_null();
    if let Some(name) = value.as_str() {
        if name == BINARY.0 {
            return binary();
        }
        let found = TYPES.get(name).map(|(_, target)| *target);
        let unknown = || arguments.wrong_value(Code::BAD_VALUE, "to", "the name of a type", &named);
        return found.map(Some).ok_or_else(unknown);
    }
    if !named.is_number() {
        let expected = "a string or a number";
        return Err(arguments.wrong_type(Code::FAILED_TO_PARSE, "to", expected, &named));
    }
    let number = integer(value);
    if number == Some(BINARY.1) {
        return binary();
    }
    let found = TYPES.entries().iter().find(|(_, (known, _))| Some(*known) == number);
    let unknown = || arguments.wrong_value(Code::FAILED_TO_PARSE, "to", "the number of a type", &named);
    found.map(|(_, (_, target))| Some(*target)).ok_or_else(unknown)
}

/// Converts a value that is neither null nor missing.
fn converted<'d>(
    arguments: &Arguments<'_, 'd>,
    input: &Value<'d>,
    target: TargetType,
    notation: Notation,
) -> Result<Value<'d>, Error> {
    let value = input.or_null();
    // No fault of the value, so `onError` does not catch it.
    let is_text_of_bytes = matches!(
        (value, target),
        (RawBsonRef::String(_), TargetType::Binary(_)) | (RawBsonRef::Binary(_), TargetType::String)
    );
    if is_text_of_bytes && notation.format.is_none() {
        let expected = "given for a conversion between a string and binary data";
        return Err(arguments.wrong_value(Code::CONVERT_FORMAT_MISSING, "format", expected, &Value::NULL));
    }
    let result = match (value, target) {
        (RawBsonRef::Binary(binary), target) => of_binary(arguments, binary, target, notation),
        (RawBsonRef::String(text), target) => of_text(arguments, text, target, notation),
        (RawBsonRef::Array(array), TargetType::Binary(_)) => {
            vector::from_array(array, notation.order, arguments.operation())
        }
        (
            RawBsonRef::Array(_) | RawBsonRef::Document(_) | RawBsonRef::JavaScriptCodeWithScope(_),
            TargetType::String,
        ) => json::write(value, arguments.operation()).map(Value::text),
        (number, TargetType::Binary(subtype)) => {
            binary::from_number(number, notation.order, subtype).map_err(Failure::from)
        }
        (value, target) => plain(value, target, notation.base).map_err(Failure::from),
    };
    result.map_err(|failure| failure.into_error(arguments, input, target.name()))
}

/// Converts binary data.
fn of_binary<'d>(
    arguments: &Arguments<'_, 'd>,
    binary: RawBinaryRef<'_>,
    target: TargetType,
    notation: Notation,
) -> Result<Value<'d>, Failure> {
    let order = notation.order;
    let converted = match target {
        TargetType::Array => return vector::to_array(arguments, binary, order),
        TargetType::Binary(subtype) => binary::same(binary, subtype),
        TargetType::Bool => Ok(Value::boolean(true)),
        TargetType::Double => binary::to_double(binary.bytes, order).map(Value::double),
        TargetType::Int => binary::to_integer(binary.bytes, order, 4)
            .and_then(|number| i32::try_from(number).map(Value::int).map_err(|_| "it overflows")),
        TargetType::Long => binary::to_integer(binary.bytes, order, 8).map(Value::long),
        TargetType::String => binary::to_text(binary, notation.format.unwrap_or(Format::Auto)),
        TargetType::Date
        | TargetType::Decimal
        | TargetType::Object
        | TargetType::ObjectId
        | TargetType::Other(_) => Err(UNSUPPORTED),
    };
    converted.map_err(Failure::from)
}

/// Converts a text.
fn of_text<'d>(
    arguments: &Arguments<'_, 'd>,
    text: &str,
    target: TargetType,
    notation: Notation,
) -> Result<Value<'d>, Failure> {
    let converted = match target {
        TargetType::Array => return json::read(text, Container::Array, arguments.operation()),
        TargetType::Object => return json::read(text, Container::Object, arguments.operation()),
        TargetType::Binary(subtype) => {
            binary::from_text(text, notation.format.unwrap_or(Format::Auto), subtype)
        }
        TargetType::Bool
        | TargetType::Date
        | TargetType::Decimal
        | TargetType::Double
        | TargetType::Int
        | TargetType::Long
        | TargetType::ObjectId
        | TargetType::String
        | TargetType::Other(_) => match notation.base {
            Some(base) => in_base(text, target, base),
            None => plain(RawBsonRef::String(text), target, None),
        },
    };
    converted.map_err(Failure::from)
}

/// Converts a text to a number whose digits it has in a base, and to other types as without one.
fn in_base<'d>(text: &str, target: TargetType, base: Radix) -> Result<Value<'d>, &'static str> {
    let number = || base.read(text).ok_or("it is not an integer of 64 bits in this base");
    match target {
        TargetType::Decimal => number().map(|number| Value::decimal(decimal::from_integer(number))),
        TargetType::Double => number().map(|number| Value::double(Numeric::Int64(number).to_double())),
        TargetType::Int => {
            number().and_then(|number| i32::try_from(number).map(Value::int).map_err(|_| "it overflows"))
        }
        TargetType::Long => number().map(Value::long),
        TargetType::Array
        | TargetType::Binary(_)
        | TargetType::Bool
        | TargetType::Date
        | TargetType::Object
        | TargetType::ObjectId
        | TargetType::String
        | TargetType::Other(_) => plain(RawBsonRef::String(text), target, None),
    }
}

/// Converts what is not binary data to something else than it.
fn plain<'d>(
    value: RawBsonRef<'_>,
    target: TargetType,
    base: Option<Radix>,
) -> Result<Value<'d>, &'static str> {
    match target {
        TargetType::Bool => Ok(Value::boolean(is_true(value))),
        TargetType::Date => as_date(value),
        TargetType::Decimal => as_decimal(value),
        TargetType::Double => as_double(value),
        TargetType::Int => as_long(value).and_then(|long| match i32::try_from(long) {
            // MongoDB converts no date to an int32, even if its milliseconds would fit.
            Ok(int) if value.as_datetime().is_none() => Ok(Value::int(int)),
            Ok(_) => Err(UNSUPPORTED),
            Err(_) => Err("it overflows"),
        }),
        TargetType::Long => as_long(value).map(Value::long),
        TargetType::ObjectId => as_object_id(value),
        TargetType::String => match base.filter(|_| Numeric::of(value).is_some()) {
            Some(base) => base.write(value).map(Value::text),
            None => scalar::text(value).map(Value::text).ok_or(UNSUPPORTED),
        },
        TargetType::Array | TargetType::Binary(_) | TargetType::Object | TargetType::Other(_) => {
            Err(UNSUPPORTED)
        }
    }
}

const UNSUPPORTED: &str = "there is no such conversion";

impl TargetType {
    fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Binary(_) => "binData",
            Self::Bool => "bool",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Int => "int",
            Self::Long => "long",
            Self::Object => "object",
            Self::ObjectId => "objectId",
            Self::String => "string",
            Self::Other(name) => name,
        }
    }
}

fn as_date<'d>(value: RawBsonRef<'_>) -> Result<Value<'d>, &'static str> {
    if let Some(date) = value.as_datetime() {
        return Ok(Value::date(date.timestamp_millis()));
    }
    if let Some(Timestamp { time, .. }) = value.as_timestamp() {
        return Ok(Value::date(i64::from(time) * 1_000));
    }
    if let Some(id) = value.as_object_id() {
        return Ok(Value::date(id.timestamp().timestamp_millis()));
    }
    if let Some(text) = value.as_str() {
        return parse_text(text).map(Value::date);
    }
    // MongoDB reads an int64, double or decimal as milliseconds, and rejects an int32 or a boolean as a mistake.
    if value.as_i32().is_some() || value.as_bool().is_some() {
        return Err(UNSUPPORTED);
    }
    as_long(value).map(Value::date)
}

fn as_decimal<'d>(value: RawBsonRef<'_>) -> Result<Value<'d>, &'static str> {
    if let Some(text) = value.as_str() {
        return parse_decimal(text).map(Value::decimal).ok_or("it is not a number within a decimal's range");
    }
    match Numeric::of(value) {
        Some(number) => Ok(Value::decimal(number.to_decimal())),
        None => as_long(value).map(|long| Value::decimal(decimal::from_integer(long))),
    }
}

fn as_double<'d>(value: RawBsonRef<'_>) -> Result<Value<'d>, &'static str> {
    if let Some(text) = value.as_str() {
        return scalar::parse_double(text)
            .map(Value::double)
            .ok_or("it is not a number within a double's range");
    }
    if let RawBsonRef::Decimal128(value) = value {
        let double = decimal::to_double(value);
        // An infinity converts to an infinity; a finite decimal must not become one.
        let is_lost = double.is_infinite() && decimal::is_finite(value);
        return if is_lost { Err("it overflows") } else { Ok(Value::double(double)) };
    }
    match Numeric::of(value) {
        Some(number) => Ok(Value::double(number.to_double())),
        None => as_long(value).map(|long| Value::double(Numeric::Int64(long).to_double())),
    }
}

/// A number, boolean, date or text as an integer. A fraction is cut off.
fn as_long(value: RawBsonRef<'_>) -> Result<i64, &'static str> {
    if let Some(text) = value.as_str() {
        return scalar::parse_long(text).ok_or("it is not an integer of 64 bits");
    }
    if let Some(value) = value.as_bool() {
        return Ok(i64::from(value));
    }
    if let Some(date) = value.as_datetime() {
        return Ok(date.timestamp_millis());
    }
    match Numeric::of(value) {
        Some(Numeric::Int32(value)) => Ok(i64::from(value)),
        Some(Numeric::Int64(value)) => Ok(value),
        Some(Numeric::Double(value)) if !value.is_finite() => Err("it is not finite"),
        // The fraction goes first, so that a number whose integer part fits is within the range.
        Some(Numeric::Double(value)) => integer(RawBsonRef::Double(value.trunc())).ok_or("it overflows"),
        Some(Numeric::Decimal(value)) if !decimal::is_finite(value) => Err("it is not finite"),
        Some(Numeric::Decimal(value)) => {
            decimal::to_integer(value, Rounding::TowardZero).ok_or("it overflows")
        }
        None => Err(UNSUPPORTED),
    }
}

fn as_object_id<'d>(value: RawBsonRef<'_>) -> Result<Value<'d>, &'static str> {
    if let Some(id) = value.as_object_id() {
        return Ok(Value::Borrowed(RawBsonRef::ObjectId(id)));
    }
    let text = value.as_str().ok_or(UNSUPPORTED)?;
    let id = ObjectId::parse_str(text).map_err(|_| "it does not consist of 24 hexadecimal digits")?;
    Ok(Value::Borrowed(RawBsonRef::ObjectId(id)))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use super::*;
    use crate::expression::cases::{binary, check, check_error, decimal, millis, regex};

    #[test]
    fn types_have_names() {
        check(bson!({ "$type": "$n" }), bson!("int"));
        check(bson!({ "$type": "$missing" }), bson!("missing"));
        check(bson!({ "$type": null }), bson!("null"));
        check(bson!({ "$type": [[1]] }), bson!("array"));
        check(bson!({ "$type": (regex("a", "")) }), bson!("regex"));
        check(bson!({ "$isNumber": (decimal("1")) }), bson!(true));
        check(bson!({ "$isNumber": "1" }), bson!(false));
    }

    #[test]
    fn anything_has_a_truth() {
        check(bson!({ "$toBool": 0.0 }), bson!(false));
        check(bson!({ "$toBool": "false" }), bson!(true));
        check(bson!({ "$toBool": (decimal("0.00")) }), bson!(false));
        check(bson!({ "$toBool": [[]] }), bson!(true));
        check(bson!({ "$toBool": (binary(&[])) }), bson!(true));
        check(bson!({ "$toBool": "$missing" }), Bson::Null);
    }

    #[test]
    fn integers_are_cut_off_and_must_fit() {
        check(bson!({ "$toInt": 5.9 }), bson!(5));
        check(bson!({ "$toInt": "-12" }), bson!(-12));
        check(bson!({ "$toInt": true }), bson!(1));
        check(bson!({ "$toInt": (decimal("-5.9")) }), bson!(-5));
        check(bson!({ "$toLong": (millis(7)) }), bson!(7_i64));
        check(bson!({ "$toLong": "9223372036854775807" }), bson!(i64::MAX));
        for bad in [
            bson!("1.5"),
            bson!(""),
            bson!(" 1"),
            bson!("0x1"),
            bson!(3e9),
            bson!(f64::NAN),
            bson!({}),
            millis(1),
        ] {
            check_error(bson!({ "$toInt": bad }), 241);
        }
        check_error(bson!({ "$toLong": 1e19 }), 241);
        check_error(bson!({ "$toLong": (decimal("Infinity")) }), 241);
    }

    #[test]
    fn doubles_and_decimals_are_read() {
        check(bson!({ "$toDouble": "1e3" }), bson!(1_000.0));
        check(bson!({ "$toDouble": false }), bson!(0.0));
        check(bson!({ "$toDouble": (millis(5)) }), bson!(5.0));
        check(bson!({ "$toDouble": (decimal("0.1")) }), bson!(0.1));
        check(bson!({ "$toDecimal": "1.50" }), decimal("1.50"));
        check(bson!({ "$toDecimal": 2.5 }), decimal("2.50000000000000"));
        check(bson!({ "$toDecimal": 5 }), decimal("5"));
        check(bson!({ "$toDecimal": true }), decimal("1"));
        check_error(bson!({ "$toDouble": "1e999" }), 241);
        check_error(bson!({ "$toDouble": "1e-999" }), 241);
        check_error(bson!({ "$toDouble": (decimal("1E+999")) }), 241);
        check_error(bson!({ "$toDecimal": "x" }), 241);
        check_error(bson!({ "$toDecimal": [[1]] }), 241);
    }

    #[test]
    fn texts_are_written() {
        check(bson!({ "$toString": 1.0 }), bson!("1"));
        check(bson!({ "$toString": -0.0 }), bson!("-0"));
        check(bson!({ "$toString": 1e20 }), bson!("1e+20"));
        check(bson!({ "$toString": 0.000_012_5 }), bson!("1.25e-05"));
        check(bson!({ "$toString": 123_456.789 }), bson!("123456.789"));
        check(bson!({ "$toString": (f64::NEG_INFINITY) }), bson!("-Infinity"));
        check(bson!({ "$toString": true }), bson!("true"));
        check(bson!({ "$toString": (i64::MIN) }), bson!("-9223372036854775808"));
        check(bson!({ "$toString": (millis(1)) }), bson!("1970-01-01T00:00:00.001Z"));
        check(bson!({ "$toString": "$_id" }), bson!("64b7f0c0a1b2c3d4e5f60718"));
        check(bson!({ "$toString": [[1]] }), bson!("[1]"));
        check(bson!({ "$toString": (regex("a", "")) }), bson!("/a/"));
    }

    #[test]
    fn dates_and_object_ids_are_read() {
        check(bson!({ "$toDate": 120_000_000_000.5 }), millis(120_000_000_000));
        check(bson!({ "$toDate": 5_i64 }), millis(5));
        check(bson!({ "$toDate": "2018-03-20" }), millis(1_521_504_000_000));
        check(bson!({ "$toDate": "$_id" }), millis(1_689_776_320_000));
        check(bson!({ "$toDate": (bson::Timestamp { time: 2, increment: 9 }) }), millis(2_000));
        check(
            bson!({ "$toObjectId": "64b7f0c0a1b2c3d4e5f60718" }),
            bson!(ObjectId::parse_str("64b7f0c0a1b2c3d4e5f60718").unwrap()),
        );
        check_error(bson!({ "$toDate": 5 }), 241);
        check_error(bson!({ "$toDate": true }), 241);
        check_error(bson!({ "$toDate": "Friday" }), 241);
        check_error(bson!({ "$toObjectId": "64b7" }), 241);
        check_error(bson!({ "$toObjectId": 1 }), 241);
    }

    #[test]
    fn binary_data_is_written_and_read_in_formats() {
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        let bytes = |subtype: u8, bytes: &[u8]| {
            Bson::Binary(bson::Binary { subtype: BinarySubtype::from(subtype), bytes: bytes.to_vec() })
        };
        let of = |input: Bson, to: Bson, format: &str| bson!({ "$convert": { "input": input, "to": to, "format": format } });
        let as_uuid = bytes(4, &(0..16).map(|byte| byte * 17).collect::<Vec<u8>>());
        for (format, text, data) in [
            ("base64", "+/8=", &[0xfb, 0xff][..]),
            ("base64url", "-_8", &[0xfb, 0xff][..]),
            ("hex", "FBFF", &[0xfb, 0xff][..]),
            ("utf8", "é", "é".as_bytes()),
            ("base64", "", &[][..]),
        ] {
            check(of(bson!(text), bson!("binData"), format), bytes(0, data));
            check(of(bytes(0, data), bson!("string"), format), bson!(text));
        }
        check(of(bson!("-_8="), bson!(5), "base64url"), bytes(0, &[0xfb, 0xff]));
        check(of(bson!("fbFf"), bson!({ "type": "binData", "subtype": 5 }), "hex"), bytes(5, &[0xfb, 0xff]));
        check(of(bson!(uuid), bson!({ "type": "binData", "subtype": 4.0 }), "uuid"), as_uuid.clone());
        check(of(as_uuid.clone(), bson!("string"), "uuid"), bson!(uuid));
        check(of(as_uuid.clone(), bson!("string"), "auto"), bson!(uuid));
        check(of(bytes(4, &[1]), bson!("string"), "auto"), bson!("AQ=="));
        check(bson!({ "$toString": (as_uuid.clone()) }), bson!(uuid));
        check(bson!({ "$toString": (bytes(0, &[1])) }), bson!("AQ=="));
        let same = bson!({ "$convert": { "input": as_uuid, "to": { "type": "binData", "subtype": 4 } } });
        check(same, bytes(4, &(0..16).map(|byte| byte * 17).collect::<Vec<u8>>()));
        for (input, to, format) in [
            (bson!("x"), bson!("binData"), "base64"),
            (bson!("+/8"), bson!("binData"), "base64"),
            (bson!("+/8="), bson!("binData"), "base64url"),
            (bson!("f"), bson!("binData"), "hex"),
            (bson!("fg"), bson!("binData"), "hex"),
            (bson!("a"), bson!("binData"), "auto"),
            (bson!(uuid), bson!("binData"), "uuid"),
            (bson!("00"), bson!({ "type": "binData", "subtype": 4 }), "hex"),
            (bson!("0011"), bson!({ "type": "binData", "subtype": 4 }), "uuid"),
            (bytes(0, &[0xff]), bson!("string"), "utf8"),
            (bytes(0, &[1]), bson!("string"), "uuid"),
            (bytes(0, &[1]), bson!({ "type": "binData", "subtype": 5 }), "hex"),
            (bytes(0, &[1]), bson!("date"), "hex"),
            (decimal("1"), bson!("binData"), "hex"),
            (bson!(true), bson!("binData"), "hex"),
        ] {
            check_error(of(input.clone(), to.clone(), format), 241);
            let caught =
                bson!({ "$convert": { "input": input, "to": to, "format": format, "onError": "caught" } });
            check(caught, bson!("caught"));
        }
        let plain = |input: Bson, to: Bson| bson!({ "$convert": { "input": input, "to": to, "onError": 0 } });
        check_error(plain(bson!("a"), bson!("binData")), 4_341_115);
        check_error(plain(bytes(0, &[1]), bson!("string")), 4_341_115);
        check_error(of(bson!("a"), bson!("binData"), "base32"), 4_341_125);
        check_error(bson!({ "$convert": { "input": "a", "to": "binData", "format": 1 } }), 4_341_114);
        check_error(of(bson!("a"), bson!({ "type": "binData", "subtype": 1.5 }), "hex"), 4_341_106);
        check_error(of(bson!("a"), bson!({ "type": "binData", "subtype": 10 }), "hex"), 4_341_107);
        check_error(of(bson!("a"), bson!({ "type": "binData", "subtype": "x" }), "hex"), 4_341_108);
    }

    #[test]
    fn binary_data_is_read_and_written_as_numbers() {
        let of = |input: Bson, to: &str, order: &str| bson!({ "$convert": { "input": input, "to": to, "byteOrder": order } });
        check(of(bson!(258), "binData", "big"), binary(&[0, 0, 1, 2]));
        check(of(bson!(258), "binData", "little"), binary(&[2, 1, 0, 0]));
        check(of(bson!(-2_i64), "binData", "big"), binary(&[255, 255, 255, 255, 255, 255, 255, 254]));
        check(of(bson!(1.0), "binData", "big"), binary(&[0x3f, 0xf0, 0, 0, 0, 0, 0, 0]));
        for (bytes, number) in [(&[254][..], -2), (&[1, 2], 258), (&[0, 0, 1, 2], 258)] {
            check(of(binary(bytes), "int", "big"), bson!(number));
            check(of(binary(bytes), "long", "big"), bson!(i64::from(number)));
        }
        check(of(binary(&[0, 0, 0, 0, 0, 0, 0, 128]), "long", "little"), bson!(i64::MIN));
        check(of(binary(&[0x3f, 0x80, 0, 0]), "double", "big"), bson!(1.0));
        check(of(binary(&[0, 0, 0, 0, 0, 0, 0xf0, 0x3f]), "double", "little"), bson!(1.0));
        // Without an order the lowest byte comes first, in the short forms too.
        check(bson!({ "$toInt": (binary(&[2, 1])) }), bson!(258));
        check(bson!({ "$convert": { "input": 1, "to": "binData" } }), binary(&[1, 0, 0, 0]));
        check(bson!({ "$convert": { "input": (binary(&[2, 1])), "to": "bool" } }), bson!(true));
        for (bytes, to) in [
            (&[][..], "int"),
            (&[1, 2, 3], "int"),
            (&[1, 2, 3, 4, 5, 6, 7, 8], "int"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], "long"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "long"),
            (&[1, 2], "double"),
            (&[1, 2, 3, 4], "decimal"),
        ] {
            check_error(of(binary(bytes), to, "big"), 241);
        }
        check_error(of(bson!(1), "binData", "middle"), 9_130_002);
        check_error(bson!({ "$convert": { "input": 1, "to": "binData", "byteOrder": 1 } }), 9_130_001);
    }

    #[test]
    fn integers_are_written_and_read_in_bases() {
        let of = |input: Bson, to: &str, base: Bson| bson!({ "$convert": { "input": input, "to": to, "base": base } });
        for (number, base, text) in [
            (bson!(10), 2, "1010"),
            (bson!(-10_i64), 8, "-12"),
            (bson!(10.0), 10, "10"),
            (decimal("10"), 16, "A"),
            (bson!(i64::MIN), 2, "-1000000000000000000000000000000000000000000000000000000000000000"),
            (bson!(-0.0), 16, "0"),
        ] {
            check(of(number, "string", bson!(base)), bson!(text));
        }
        for (text, base, number) in
            [("1010", 2, 10_i64), ("-12", 8, -10), ("+a", 16, 10), ("7FFFFFFFFFFFFFFF", 16, i64::MAX)]
        {
            check(of(bson!(text), "long", bson!(base)), bson!(number));
            check(of(bson!(text), "decimal", bson!(base)), decimal(&number.to_string()));
        }
        check(of(bson!("1010"), "double", bson!(2.0)), bson!(10.0));
        check(of(bson!("10"), "int", Bson::Null), bson!(10));
        for (input, to, base) in [
            (bson!("8"), "int", 8),
            (bson!("0x1"), "int", 16),
            (bson!("-0x1"), "int", 16),
            (bson!(""), "int", 16),
            (bson!("-"), "int", 16),
            (bson!(" 1"), "int", 16),
            (bson!("80000000"), "int", 16),
            (bson!("8000000000000000"), "decimal", 16),
            (bson!(1.5), "string", 2),
            (bson!(3e9), "string", 2),
            (bson!(f64::NAN), "string", 2),
            (decimal("1.5"), "string", 2),
        ] {
            check_error(of(input, to, bson!(base)), 241);
        }
        for (base, code) in [
            (bson!(2.5), 3_501_300),
            (bson!("2"), 3_501_300),
            (bson!(1_i64 << 40), 3_501_300),
            (bson!(3), 3_501_301),
        ] {
            check_error(of(bson!("a"), "bool", base), code);
        }
    }

    #[test]
    fn binary_data_has_a_subtype() {
        check(bson!({ "$subtype": (binary(&[])) }), bson!(0));
        check(bson!({ "$subtype": "$missing" }), Bson::Null);
        check_error(bson!({ "$subtype": "text" }), 10_389_300);
    }

    #[test]
    fn convert_has_answers_for_null_and_errors() {
        let to = |input: Bson, to: Bson| bson!({ "$convert": { "input": input, "to": to } });
        check(to(bson!("7"), bson!("int")), bson!(7));
        check(to(bson!("7"), bson!(16)), bson!(7));
        check(to(bson!("7"), bson!({ "type": "long" })), bson!(7_i64));
        check(to(bson!("7"), Bson::Null), Bson::Null);
        check(to(Bson::Null, bson!("int")), Bson::Null);
        check(bson!({ "$convert": { "input": "$missing", "to": "int", "onNull": 0 } }), bson!(0));
        check(bson!({ "$convert": { "input": "x", "to": "int", "onError": "$n" } }), bson!(5));
        check(bson!({ "$convert": { "input": 1, "to": "array", "onError": 0 } }), bson!(0));
        check_error(to(bson!("x"), bson!("int")), 241);
        check_error(to(bson!(1), bson!("array")), 241);
        check_error(to(bson!(1), bson!("integer")), 2);
        check_error(to(bson!(1), bson!(true)), 9);
        check_error(to(bson!(1), bson!(99)), 9);
        check_error(bson!({ "$toInt": [1, 2] }), 50_723);
        check_error(bson!({ "$toArray": [] }), 50_723);
        check_error(bson!({ "$convert": 1 }), 9);
        check_error(bson!({ "$convert": { "input": 1 } }), 9);
        check_error(bson!({ "$convert": { "to": 1, "x": 1 } }), 9);
    }
}
