//! JavaScript's values as BSON, as MongoDB's driver for Node.js encodes them: a number is an int32 if it is whole and fits,
//! else a double; a `BigInt` is an int64; a function is its code, but one of the shell or of the language is rejected; symbols
//! are left out; `undefined` is null.
//!
//! What an object is, is asked by the two hidden properties that `values.js` gives to each class. A small value of a script can
//! be endless in BSON, where an object that is in two places is written twice: bytes are counted before they are written,
//! and a conversion ends by a signal as a script does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::raw::CString;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{
    Binary, DateTime, RawArrayBuf, RawBson, RawDocumentBuf, RawJavaScriptCodeWithScope, Regex, Timestamp,
};
use index::number::parse_exact_decimal;
use rquickjs::object::Filter;
use rquickjs::{Array, Ctx, Error, Exception, FromJs, Function, Object, Result, Value};

use crate::script::shared::{IS_TO_STOP, cairn};

/// Names that no field of a document can have, so that they do not get in the way of any.
const KIND: &str = "\0kind";
const PARTS: &str = "\0parts";
/// The mark of a function of the shell.
const CALL: &str = "\0call";
/// The mark by which a collection shows itself: it is a function, so that the error of an unknown method has its
/// name.
const DISPLAY: &str = "\0display";
/// The replacement for the code of a function of the language itself.
const NO_CODE: &str = "[native code]";
pub(super) const ORDER: &str = "\0order";
/// Deeper values are rejected: each level needs some of the stack, and MongoDB stores 200.
const DEPTH_MAX: usize = 250;

/// After how many values it is asked whether scripts are to end.
const VALUES_BEFORE_LOOK: u32 = 4096;
/// The type and the NUL after the name, of which each element of a document or an array has one.
const ELEMENT_BYTES: usize = 2;
/// The length and the NUL of a text, and the length and the subtype of what is binary.
const TEXT_BYTES: usize = 5;
/// An element of an array has at least one digit for a name.
const ARRAY_ELEMENT_BYTES_MIN: usize = ELEMENT_BYTES + 1;

/// The purpose of a value, which decides its largest size as BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A filter and the like, as large as a document that is stored.
    Clause,
    /// A command, as large as a message of MongoDB's wire protocol. The store knows how large documents may be.
    Command,
    /// The result of an expression, for printing.
    Result,
}

impl Purpose {
    fn bytes_max(self) -> usize {
        match self {
            Self::Clause => 16 << 20,
            Self::Command => 48_000_000,
            Self::Result => 64 << 20,
        }
    }

    /// The limit, and what else can be done.
    fn told(self) -> &'static str {
        match self {
            Self::Clause => "is larger than 16 MiB as BSON",
            Self::Command => "is larger than 48,000,000 bytes as BSON, which a command may have",
            Self::Result => {
                "is larger than 64 MiB as BSON: what a cursor gives is printed document by document and may be larger"
            }
        }
    }
}

/// The value as a document of a command.
pub(crate) fn document<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<RawDocumentBuf> {
    match self::value(ctx, value, Purpose::Command)? {
        Some(RawBson::Document(document)) => Ok(document),
        Some(_) | None => Err(Exception::throw_type(ctx, "a document is needed, and not another value")),
    }
}

/// The value, which is not a document necessarily. Returns `None` for what BSON leaves out, as a function.
pub(crate) fn value<'js>(ctx: &Ctx<'js>, value: &Value<'js>, purpose: Purpose) -> Result<Option<RawBson>> {
    Writer::new(ctx, purpose).value(value)
}

struct Writer<'a, 'js> {
    ctx: &'a Ctx<'js>,
    purpose: Purpose,
    /// The number of bytes that are left.
    bytes_left: usize,
    /// The number of values until the next check for signals.
    values_left: u32,
    /// The names above the current value, for errors and for the depth.
    path: Vec<String>,
}

impl<'a, 'js> Writer<'a, 'js> {
    fn new(ctx: &'a Ctx<'js>, purpose: Purpose) -> Self {
        let bytes_left = purpose.bytes_max();
        Self { ctx, purpose, bytes_left, values_left: VALUES_BEFORE_LOOK, path: Vec::new() }
    }

    /// Uses bytes of what is left.
    fn count(&mut self, bytes: usize) -> Result<()> {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(self.too_large("the value")),
        }
    }

    fn too_large(&mut self, what: &str) -> Error {
        // Which of all values was one too many says little.
        self.path.clear();
        Exception::throw_range(self.ctx, &format!("{what} {}", self.purpose.told()))
    }

    /// Counts an element without its value, and ends the conversion if scripts are to end.
    fn begin_element(&mut self, name_len: usize) -> Result<()> {
        self.count(ELEMENT_BYTES + name_len)?;
        self.values_left = self.values_left.saturating_sub(1);
        if self.values_left > 0 {
            return Ok(());
        }
        self.values_left = VALUES_BEFORE_LOOK;
        if cairn(self.ctx)?.get::<_, Function>(IS_TO_STOP)?.call(())? {
            // A script that catches it is ended by the engine.
            return Err(Exception::throw_message(self.ctx, "interrupted"));
        }
        Ok(())
    }

    /// A value, whose bytes are counted.
    fn value(&mut self, value: &Value<'js>) -> Result<Option<RawBson>> {
        let converted = self.converted(value)?;
        self.count(converted.as_ref().map_or(0, own_bytes))?;
        Ok(converted)
    }

    fn converted(&mut self, value: &Value<'js>) -> Result<Option<RawBson>> {
        if let Some(number) = value.as_number() {
            return Ok(Some(number_bson(number)));
        }
        if value.is_string() {
            return Ok(Some(RawBson::String(self.text(value)?)));
        }
        if let Some(flag) = value.as_bool() {
            return Ok(Some(RawBson::Boolean(flag)));
        }
        if value.is_null() || value.is_undefined() {
            return Ok(Some(RawBson::Null));
        }
        if value.is_big_int() {
            return self.whole(value).map(|number| Some(RawBson::Int64(number)));
        }
        match value.as_object() {
            Some(object) if value.is_function() => self.function(object),
            Some(object) => self.object(object),
            None => Ok(None),
        }
    }

    /// A string as UTF-8.
    fn text(&self, value: &Value<'js>) -> Result<String> {
        let Some(text) = value.as_string() else { return Ok(String::new()) };
        text.to_string().or_else(|error| self.mended(value, error))
    }

    /// A text with half of a surrogate pair, which UTF-8 does not have, with a mark in its place.
    fn mended(&self, value: &Value<'js>, error: Error) -> Result<String> {
        if !matches!(error, Error::Utf8(_)) {
            return Err(error);
        }
        let text: Object = self.ctx.globals().get::<_, Function>("Object")?.call((value.clone(),))?;
        text.get::<_, Function>("toWellFormed")?.call((rquickjs::function::This(text),))
    }

    /// A `BigInt` in 64 bits.
    fn whole(&self, value: &Value<'js>) -> Result<i64> {
        let text = string(value)?;
        text.parse().map_err(|_| self.refused(&format!("{text} needs more than 64 bits")))
    }

    /// A function is its code. Those of the shell are meant to be called, but for two whose names alone are values.
    fn function(&mut self, function: &Object<'js>) -> Result<Option<RawBson>> {
        let kind: Value = function.get(KIND)?;
        if kind.is_string() {
            return self.typed(&string(&kind)?, function);
        }
        let call: Value = function.get(CALL)?;
        if call.is_string() {
            return Err(self.refused(&format!("it is a function of the shell: write {}", string(&call)?)));
        }
        if function.get::<_, Value>(DISPLAY)?.is_function() {
            return Err(self.refused("it is a collection of the shell, and not a value"));
        }
        let code = string(function.as_value())?;
        if code.contains(NO_CODE) {
            let name: String = function.get("name")?;
            return Err(self.refused(&format!("it is the function {name}, whose code is not JavaScript")));
        }
        Ok(Some(RawBson::JavaScriptCode(code)))
    }

    fn object(&mut self, object: &Object<'js>) -> Result<Option<RawBson>> {
        if self.path.len() > DEPTH_MAX {
            // A value within itself has no end, and is reported in the same words.
            let words = format!("it has more than {DEPTH_MAX} levels, or is within itself");
            self.path.truncate(3);
            return Err(self.refused(&words));
        }
        if let Some(array) = object.as_array() {
            return self.array(array).map(Some);
        }
        let kind: Value = object.get(KIND)?;
        if kind.is_string() {
            return self.typed(&string(&kind)?, object);
        }
        let convert: Value = object.get("toBSON")?;
        if let Some(convert) = convert.as_function() {
            let converted: Value = convert.call((rquickjs::function::This(object.clone()),))?;
            // Only once, because what gives itself would be asked for ever.
            return match converted.as_object() {
                Some(inner) if !converted.is_array() && !inner.get::<_, Value>(KIND)?.is_string() => {
                    self.fields(inner).map(|document| Some(RawBson::Document(document)))
                }
                Some(_) | None => self.converted(&converted),
            };
        }
        Ok(Some(RawBson::Document(self.fields(object)?)))
    }

    fn array(&mut self, array: &Array<'js>) -> Result<RawBson> {
        let mut out = RawArrayBuf::new();
        for position in self.positions(array)? {
            let name = position.to_string();
            self.begin_element(name.len())?;
            self.path.push(name);
            // As in JSON: an array keeps its length.
            out.push(self.value(&array.get(position)?)?.unwrap_or(RawBson::Null));
            self.path.pop();
        }
        Ok(RawBson::Array(out))
    }

    /// The positions of an array, unless it has more than there are bytes. Its own iterator panics where the length has more
    /// than 31 bits.
    fn positions(&mut self, array: &Array<'js>) -> Result<std::ops::Range<usize>> {
        let len: f64 = array.as_object().get("length")?;
        match usize::try_from(whole(len)) {
            Ok(len) if len <= self.bytes_left / ARRAY_ELEMENT_BYTES_MIN => Ok(0..len),
            Ok(_) | Err(_) => Err(self.too_large(&format!("an array of {len} elements"))),
        }
    }

    fn fields(&mut self, object: &Object<'js>) -> Result<RawDocumentBuf> {
        let mut names = Vec::new();
        for name in object.own_keys::<rquickjs::String>(Filter::new().string().enum_only()) {
            let name = name?;
            names.push(name.to_string().or_else(|error| self.mended(name.as_value(), error))?);
        }
        let order: Value = object.get(ORDER)?;
        if let Some(order) = order.as_array() {
            let order = self.positions(order)?.map(|position| order.get(position)).collect::<Result<_>>()?;
            names = ordered(&names, order);
        }
        let mut out = RawDocumentBuf::new();
        for name in names {
            let inner: Value = object.get(name.as_str())?;
            self.append(&mut out, name, &inner)?;
        }
        Ok(out)
    }

    fn append(&mut self, out: &mut RawDocumentBuf, name: String, value: &Value<'js>) -> Result<()> {
        self.begin_element(name.len())?;
        self.path.push(name);
        if let Some(value) = self.value(value)? {
            let name = self.path.last().cloned().unwrap_or_default();
            let name = CString::try_from(name).map_err(|_| self.refused("its name has a NUL"))?;
            out.append(name, value);
        }
        self.path.pop();
        Ok(())
    }

    fn typed(&mut self, kind: &str, object: &Object<'js>) -> Result<Option<RawBson>> {
        let parts: Value = object.get(PARTS)?;
        let ctx = self.ctx.clone();
        Ok(Some(match kind {
            // A value that is not an object has nothing within it, and ends the way down.
            "Primitive" if !parts.is_object() => return self.converted(&parts),
            "Int32" => RawBson::Int32(part(&ctx, &parts)?),
            "Double" => RawBson::Double(part(&ctx, &parts)?),
            "Long" => RawBson::Int64(self.whole(&parts)?),
            "Date" if parts.is_big_int() => RawBson::DateTime(DateTime::from_millis(self.whole(&parts)?)),
            "Date" => self.date(part(&ctx, &parts)?)?,
            "ObjectId" => {
                let text: String = part(&ctx, &parts)?;
                RawBson::ObjectId(
                    ObjectId::parse_str(&text).map_err(|error| self.refused(&error.to_string()))?,
                )
            }
            "Decimal128" => {
                let text: String = part(&ctx, &parts)?;
                let number = parse_exact_decimal(&text);
                RawBson::Decimal128(
                    number.ok_or_else(|| self.refused(&format!("{text} is not a decimal128")))?,
                )
            }
            "Binary" => {
                let [subtype, text]: [Value; 2] = pair(&ctx, &parts)?;
                self.binary(part(&ctx, &subtype)?, &part::<String>(&ctx, &text)?)?
            }
            "Bytes" => self.binary(0, &part::<String>(&ctx, &parts)?)?,
            "Timestamp" => {
                let [time, increment] = pair(&ctx, &parts)?;
                let number = |value| part::<f64>(&ctx, &value).map(whole);
                let (time, increment) = (u32::try_from(number(time)?), u32::try_from(number(increment)?));
                match (time, increment) {
                    (Ok(time), Ok(increment)) => RawBson::Timestamp(Timestamp { time, increment }),
                    (_, _) => return Err(self.refused("a part of the timestamp has more than 32 bits")),
                }
            }
            "RegExp" | "BSONRegExp" => self.pattern(&parts)?,
            "Code" => self.code(&parts)?,
            "BSONSymbol" => RawBson::Symbol(part(&ctx, &parts)?),
            "MinKey" => RawBson::MinKey,
            "MaxKey" => RawBson::MaxKey,
            "Map" => {
                let mut out = RawDocumentBuf::new();
                let entries = Array::from_js(&ctx, parts)?;
                for position in self.positions(&entries)? {
                    let [name, inner] = pair(&ctx, &entries.get(position)?)?;
                    self.append(&mut out, part(&ctx, &name)?, &inner)?;
                }
                RawBson::Document(out)
            }
            other => return Err(self.refused(&format!("a {other} has no form in BSON"))),
        }))
    }

    fn date(&self, milliseconds: f64) -> Result<RawBson> {
        if !milliseconds.is_finite() {
            return Err(self.refused("the date is invalid"));
        }
        // JavaScript's dates are whole, and reach less far than 64 bits.
        Ok(RawBson::DateTime(DateTime::from_millis(whole(milliseconds))))
    }

    fn binary(&self, subtype: i32, text: &str) -> Result<RawBson> {
        let bytes = STANDARD.decode(text).map_err(|error| self.refused(&error.to_string()))?;
        let subtype = u8::try_from(subtype).map_err(|_| self.refused("the subtype has more than 8 bits"))?;
        Ok(RawBson::Binary(Binary { subtype: BinarySubtype::from(subtype), bytes }))
    }

    fn pattern(&self, parts: &Value<'js>) -> Result<RawBson> {
        let [pattern, options] = pair(self.ctx, parts)?;
        let nul = || self.refused("a pattern has a NUL");
        Ok(RawBson::RegularExpression(Regex {
            pattern: CString::try_from(part::<String>(self.ctx, &pattern)?).map_err(|_| nul())?,
            options: CString::try_from(part::<String>(self.ctx, &options)?).map_err(|_| nul())?,
        }))
    }

    fn code(&mut self, parts: &Value<'js>) -> Result<RawBson> {
        let [code, scope] = pair(self.ctx, parts)?;
        let code = part(self.ctx, &code)?;
        let Some(scope) = scope.as_object() else { return Ok(RawBson::JavaScriptCode(code)) };
        let scope = self.fields(scope)?;
        Ok(RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code, scope }))
    }

    /// An exception that says which value cannot be stored.
    fn refused(&self, words: &str) -> Error {
        // A NUL would end the message.
        let path = self.path.join(".").replace('\0', "\\0");
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        Exception::throw_type(self.ctx, &format!("{place}{words}"))
    }
}

/// The bytes of a value but for its elements, which are counted before it.
fn own_bytes(value: &RawBson) -> usize {
    match value {
        RawBson::Document(_) | RawBson::Array(_) => TEXT_BYTES,
        RawBson::String(text) | RawBson::JavaScriptCode(text) | RawBson::Symbol(text) => {
            TEXT_BYTES + text.len()
        }
        RawBson::JavaScriptCodeWithScope(code) => 3 * TEXT_BYTES + code.code.len(),
        RawBson::Binary(binary) => TEXT_BYTES + binary.bytes.len(),
        RawBson::RegularExpression(regex) => {
            ELEMENT_BYTES + regex.pattern.as_str().len() + regex.options.as_str().len()
        }
        RawBson::Boolean(_) => 1,
        RawBson::Int32(_) => 4,
        RawBson::Double(_) | RawBson::Int64(_) | RawBson::DateTime(_) | RawBson::Timestamp(_) => 8,
        RawBson::ObjectId(_) => 12,
        RawBson::Decimal128(_) => 16,
        // No script has a pointer of the legacy type.
        RawBson::Null | RawBson::Undefined | RawBson::MinKey | RawBson::MaxKey | RawBson::DbPointer(_) => 0,
    }
}

fn number_bson(number: f64) -> RawBson {
    // The negative zero is not a whole number of BSON's.
    let is_whole =
        number.fract().abs().to_bits() == 0 && (number.abs().to_bits() != 0 || number.is_sign_positive());
    match i32::try_from(whole(number)) {
        Ok(small) if is_whole => RawBson::Int32(small),
        Ok(_) | Err(_) => RawBson::Double(number),
    }
}

/// The whole part of a number, or the nearest of 64 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the whole part is wanted, and a cast keeps to the limits"
)]
fn whole(number: f64) -> i64 {
    number as i64
}

/// The names that an object has, those of `order` first.
fn ordered(names: &[String], order: Vec<String>) -> Vec<String> {
    let mut left: std::collections::HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut sorted: Vec<String> = order.into_iter().filter(|name| left.remove(name.as_str())).collect();
    sorted.extend(names.iter().filter(|name| left.contains(name.as_str())).cloned());
    sorted
}

fn part<'js, T: FromJs<'js>>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<T> {
    T::from_js(ctx, value.clone())
}

fn pair<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<[Value<'js>; 2]> {
    let array = Array::from_js(ctx, value.clone())?;
    Ok([array.get(0)?, array.get(1)?])
}

/// The text of a value that is a string, or that JavaScript makes one of.
fn string(value: &Value<'_>) -> Result<String> {
    value.get::<rquickjs::Coerced<String>>().map(|text| text.0)
}

/// A text, or what JavaScript makes one of another value.
pub(crate) fn text<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<String> {
    // The memory of scripts is the limit of a text.
    if value.is_string() { Writer::new(ctx, Purpose::Result).text(value) } else { string(value) }
}

/// A decimal number as BSON writes it, if it is one.
pub(super) fn decimal_text(text: &str) -> Option<String> {
    let number = parse_exact_decimal(text.trim())?;
    Some(number.to_string())
}
