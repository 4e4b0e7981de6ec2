//! JSON: the text of arrays and objects, as `$toString` writes it, and arrays and objects from such texts, for `$toArray` and
//! `$toObject`.
//!
//! It is plain JSON: what it has no type for is a string, and no object represents another type. Extended JSON is in `extended_json`.

use std::borrow::Cow;
use std::fmt::Write as _;

use bson::RawBsonRef;

use crate::expression::binary::{Format, binary_text};
use crate::expression::scalar;
use crate::expression::tree::{Container, Failure, LEVELS_MAX, TOO_DEEP, TOO_LARGE, Tree};
use crate::expression::value::{VALUE_BYTES_MAX, Value};
use crate::operation::{OperationContext, Reservation};
use crate::raw::Fields;
use crate::value::{content_bytes, document_or_array};

/// The text of an array, an object, or code with a scope.
pub(super) fn write(value: RawBsonRef<'_>, operation: &OperationContext) -> Result<String, Failure> {
    if let RawBsonRef::JavaScriptCodeWithScope(_) = value {
        return code_with_scope(value, operation, 0);
    }
    let mut writer = JsonWriter { text: String::new(), reservation: Reservation::of(operation) };
    writer.write(value, 0)?;
    Ok(writer.text)
}

/// The text of code with its scope. The scope may hold such a value again.
fn code_with_scope(
    value: RawBsonRef<'_>,
    operation: &OperationContext,
    levels: usize,
) -> Result<String, Failure> {
    let RawBsonRef::JavaScriptCodeWithScope(code) = value else { return Ok(String::new()) };
    if levels == LEVELS_MAX {
        return Err(Failure::Refused(TOO_DEEP));
    }
    let mut writer = JsonWriter { text: String::new(), reservation: Reservation::of(operation) };
    writer.push("CodeWScope(\"")?;
    writer.push(code.code)?;
    writer.push("\", ")?;
    writer.write(RawBsonRef::Document(code.scope), levels + 1)?;
    writer.push(")")?;
    Ok(writer.text)
}

/// A text that is being written, whose bytes are reserved.
struct JsonWriter {
    text: String,
    reservation: Reservation,
}

/// A container whose end is not written yet.
struct Opened<'v> {
    fields: Fields<'v>,
    kind: Container,
    is_first: bool,
}

impl JsonWriter {
    /// Writes a value and all that is in it. Containers that are open wait on a list, so that no nesting overflows the stack.
    fn write(&mut self, value: RawBsonRef<'_>, levels: usize) -> Result<(), Failure> {
        let mut open: Vec<Opened<'_>> = Vec::new();
        open.extend(self.start(value, levels)?);
        while let Some(innermost) = open.last_mut() {
            let Some(field) = innermost.fields.next() else {
                self.push(if innermost.kind == Container::Array { "]" } else { "}" })?;
                open.pop();
                continue;
            };
            let field = field?;
            if !std::mem::replace(&mut innermost.is_first, false) {
                self.push(",")?;
            }
            if innermost.kind == Container::Object {
                self.string(field.name())?;
                self.push(":")?;
            }
            if open.len() == LEVELS_MAX {
                return Err(Failure::Refused(TOO_DEEP));
            }
            open.extend(self.start(field.value()?, levels + open.len())?);
        }
        Ok(())
    }

    /// Writes a value without what is in it. Returns what is, for an array or object.
    fn start<'v>(&mut self, value: RawBsonRef<'v>, levels: usize) -> Result<Option<Opened<'v>>, Failure> {
        self.reservation.operation().step()?;
        match value {
            RawBsonRef::Array(_) | RawBsonRef::Document(_) => {
                let is_array = value.as_array().is_some();
                self.push(if is_array { "[" } else { "{" })?;
                let kind = if is_array { Container::Array } else { Container::Object };
                let opened = |document| Opened { fields: Fields::of(document), kind, is_first: true };
                return Ok(document_or_array(value).map(opened));
            }
            RawBsonRef::Null | RawBsonRef::Undefined => self.push("null")?,
            RawBsonRef::Boolean(value) => self.push(if value { "true" } else { "false" })?,
            RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => {
                self.number(&scalar::text(value).unwrap_or_default())?;
            }
            RawBsonRef::Binary(binary) => {
                // Its text has at most twice its bytes.
                self.reserve(binary.bytes.len().saturating_mul(2))?;
                self.string(&binary_text(binary, Format::Auto)?)?;
            }
            RawBsonRef::JavaScriptCodeWithScope(_) => {
                let text = code_with_scope(value, self.reservation.operation(), levels)?;
                self.string(&text)?;
            }
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
                self.string(text)?;
            }
            RawBsonRef::ObjectId(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Timestamp(_)
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::DbPointer(_)
            | RawBsonRef::MinKey
            | RawBsonRef::MaxKey => {
                self.reserve(content_bytes(value))?;
                self.string(&scalar::text(value).unwrap_or_default())?;
            }
        }
        Ok(None)
    }

    /// Writes a number. What is not a number of JSON is a string.
    fn number(&mut self, text: &str) -> Result<(), Failure> {
        if text.ends_with(|last: char| last.is_ascii_digit()) { self.push(text) } else { self.string(text) }
    }

    /// Writes a string with its quotes.
    fn string(&mut self, text: &str) -> Result<(), Failure> {
        self.reservation.operation().pass_within(text.len())?;
        self.push("\"")?;
        let mut rest = text;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_escaped(*letter)) {
            let (plain, after) = rest.split_at_checked(at).unwrap_or_default();
            self.push(plain)?;
            self.escape(letter)?;
            rest = after.get(letter.len_utf8()..).unwrap_or_default();
        }
        self.push(rest)?;
        self.push("\"")
    }

    fn escape(&mut self, letter: char) -> Result<(), Failure> {
        match letter {
            '"' => self.push("\\\""),
            '\\' => self.push("\\\\"),
            '\u{8}' => self.push("\\b"),
            '\t' => self.push("\\t"),
            '\n' => self.push("\\n"),
            '\u{c}' => self.push("\\f"),
            '\r' => self.push("\\r"),
            letter => {
                self.reserve(6)?;
                // Writing to a text does not fail.
                write!(self.text, "\\u{:04x}", u32::from(letter)).map_err(|_| Failure::Refused(TOO_LARGE))
            }
        }
    }

    fn push(&mut self, part: &str) -> Result<(), Failure> {
        self.reserve(part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    /// Makes sure of room for `bytes` bytes more.
    fn reserve(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = self.text.len().saturating_add(bytes);
        if bytes > VALUE_BYTES_MAX {
            return Err(Failure::Refused(TOO_LARGE));
        }
        self.reservation.grow_by_doubling(bytes)?;
        Ok(())
    }
}

/// Whether a character stands as an escape sequence: quotes, backslashes and control characters.
fn is_escaped(letter: char) -> bool {
    matches!(letter, '"' | '\\' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

const INVALID: &str = "it is no JSON";
const STANDALONE: &str = "it is JSON, and neither an array nor an object";

/// The array or object that a text is.
pub(super) fn read<'d>(
    text: &str,
    wanted: Container,
    operation: &OperationContext,
) -> Result<Value<'d>, Failure> {
    operation.pass(text.len())?;
    // A mark of the order of bytes may be first.
    let mut reader = JsonReader { rest: text.strip_prefix('\u{feff}').unwrap_or(text) };
    let mut tree = Tree::new(operation);
    let mut name = Cow::Borrowed("");
    let mut outermost = None;
    loop {
        if let Some(opened) = reader.value(&name, &mut tree)? {
            outermost.get_or_insert(opened);
            match reader.first_name(opened)? {
                Some(first) => {
                    name = first;
                    continue;
                }
                None => tree.close(),
            }
        }
        match reader.next_name(&mut tree)? {
            Some(next) => name = next,
            None => break,
        }
    }
    match outermost {
        Some(kind) if kind == wanted => tree.finish(),
        Some(Container::Array) => Err(Failure::Refused("it is an array")),
        Some(Container::Object) => Err(Failure::Refused("it is an object")),
        None => Err(Failure::Refused(STANDALONE)),
    }
}

/// The part of a text that is not read yet.
struct JsonReader<'t> {
    rest: &'t str,
}

impl<'t> JsonReader<'t> {
    /// Reads a value, or the start of an array or object, which it returns.
    fn value(&mut self, name: &str, tree: &mut Tree) -> Result<Option<Container>, Failure> {
        self.skip_space();
        let opened = match self.rest.as_bytes().first() {
            Some(b'{') => Some(Container::Object),
            Some(b'[') => Some(Container::Array),
            _ => None,
        };
        if let Some(kind) = opened {
            self.advance(1);
            tree.open(name, kind)?;
            return Ok(Some(kind));
        }
        let text;
        let value = match self.rest.as_bytes().first() {
            Some(b'"') => {
                text = self.string()?;
                RawBsonRef::String(&text)
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        // Read in full first, so that what is not JSON at all is reported as that.
        if tree.innermost().is_none() {
            return Err(Failure::Refused(STANDALONE));
        }
        tree.append(name, value)?;
        Ok(None)
    }

    /// Reads after the start of a container: its end, which has no name, or the name of its first value.
    fn first_name(&mut self, kind: Container) -> Result<Option<Cow<'t, str>>, Failure> {
        self.skip_space();
        let end = if kind == Container::Array { ']' } else { '}' };
        if self.take(end) {
            return Ok(None);
        }
        self.name(kind).map(Some)
    }

    /// Reads after a value: the ends of containers, and the name of the next value. Returns `None` at the end of the
    /// text.
    fn next_name(&mut self, tree: &mut Tree) -> Result<Option<Cow<'t, str>>, Failure> {
        while let Some(kind) = tree.innermost() {
            self.skip_space();
            if self.take(',') {
                return self.name(kind).map(Some);
            }
            if !self.take(if kind == Container::Array { ']' } else { '}' }) {
                return Err(Failure::Refused(INVALID));
            }
            tree.close_without_duplicates()?;
        }
        self.skip_space();
        if self.rest.is_empty() { Ok(None) } else { Err(Failure::Refused(INVALID)) }
    }

    /// The name of the next value: empty in an array.
    fn name(&mut self, kind: Container) -> Result<Cow<'t, str>, Failure> {
        if kind == Container::Array {
            return Ok(Cow::Borrowed(""));
        }
        self.skip_space();
        let name = self.string()?;
        if name.contains('\0') {
            return Err(Failure::Refused("a name in it has a zero character"));
        }
        self.skip_space();
        if self.take(':') { Ok(name) } else { Err(Failure::Refused(INVALID)) }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, Failure> {
        if !self.take('"') {
            return Err(Failure::Refused(INVALID));
        }
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        let mut text = Cow::Borrowed("");
        loop {
            let at = self.rest.bytes().position(|byte| special(&byte)).ok_or(INVALID)?;
            let plain = self.advance(at);
            if text.is_empty() {
                text = Cow::Borrowed(plain);
            } else {
                text.to_mut().push_str(plain);
            }
            if self.take('"') {
                return Ok(text);
            }
            if !self.take('\\') {
                return Err(Failure::Refused(INVALID));
            }
            let letter = self.escaped()?;
            text.to_mut().push(letter);
        }
    }

    /// The character that an escape sequence represents.
    fn escaped(&mut self) -> Result<char, Failure> {
        let kind = self.advance(1);
        Ok(match kind {
            "\"" | "\\" | "/" => kind.chars().next().unwrap_or_default(),
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => self.unicode()?,
            _ => return Err(Failure::Refused(INVALID)),
        })
    }

    /// The character of four hexadecimal digits, or of two such sequences that are a pair of surrogates.
    fn unicode(&mut self) -> Result<char, Failure> {
        let first = self.digits()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            self.advance(2);
            units.push(self.digits()?);
        }
        let letter = char::decode_utf16(units).next().and_then(Result::ok);
        letter.ok_or(Failure::Refused("it has half a character"))
    }

    fn digits(&mut self) -> Result<u16, Failure> {
        let digits = self.advance(4);
        let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        number.ok_or(Failure::Refused(INVALID))
    }

    /// A number: of the narrowest integer type, or a double if it has a fraction, an exponent or more than 64 bits.
    fn number(&mut self) -> Result<RawBsonRef<'static>, Failure> {
        let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let end = self.rest.bytes().position(|byte| !is_part(byte)).unwrap_or(self.rest.len());
        let text = self.advance(end);
        if !is_number(text) {
            return Err(Failure::Refused(INVALID));
        }
        if let Ok(integer) = text.parse::<i64>() {
            return Ok(i32::try_from(integer).map_or(RawBsonRef::Int64(integer), RawBsonRef::Int32));
        }
        let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
        double.map(RawBsonRef::Double).ok_or(Failure::Refused("it has a number beyond the range of doubles"))
    }

    fn word(&mut self) -> Result<RawBsonRef<'static>, Failure> {
        let words = [
            ("null", RawBsonRef::Null),
            ("true", RawBsonRef::Boolean(true)),
            ("false", RawBsonRef::Boolean(false)),
        ];
        let found = words.into_iter().find(|(word, _)| self.rest.starts_with(word));
        let (word, value) = found.ok_or(Failure::Refused(INVALID))?;
        self.advance(word.len());
        Ok(value)
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Passes over a character if it is the next one.
    fn take(&mut self, letter: char) -> bool {
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Passes over `bytes` bytes, which it returns. Returns nothing if there are fewer, or if a character would be cut in two.
    fn advance(&mut self, bytes: usize) -> &'t str {
        let Some((passed, rest)) = self.rest.split_at_checked(bytes) else { return "" };
        self.rest = rest;
        passed
    }
}

/// Whether a text is a number of JSON: no zero before other digits, and digits on both sides of a point.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    are_digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(are_digits)
        && exponent.is_none_or(are_digits)
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, JavaScriptCodeWithScope, Timestamp, bson, doc};

    use crate::expression::cases::{check, check_error, decimal, millis, regex};

    fn text_of(value: Bson) -> Bson {
        bson!({ "$toString": { "$literal": value } })
    }

    #[test]
    fn objects_and_arrays_are_written() {
        for (value, text) in [
            (bson!({}), "{}"),
            (bson!([]), "[]"),
            (
                bson!({ "foo": [null, true, { "a": "b" }], "n": 1.5 }),
                r#"{"foo":[null,true,{"a":"b"}],"n":1.5}"#,
            ),
            (bson!(["foo", { "bar": "baz" }]), r#"["foo",{"bar":"baz"}]"#),
            (bson!([f64::NAN, (decimal("-Infinity")), (decimal("1.50"))]), r#"["NaN","-Infinity",1.50]"#),
            (bson!([(millis(1)), (regex("^\"a", "i"))]), r#"["1970-01-01T00:00:00.001Z","/^\"a/i"]"#),
            (bson!([(Bson::Timestamp(Timestamp { time: 7, increment: 1 }))]), r#"["Timestamp(7, 1)"]"#),
            (bson!(["a\0\u{1}\u{8}\t\n\u{c}\r\"\\/\u{7f}é"]), r#"["a\u0000\u0001\b\t\n\f\r\"\\/\u007fé"]"#),
            (bson!([(Bson::MinKey), (Bson::MaxKey), (Bson::Undefined)]), r#"["MinKey","MaxKey",null]"#),
        ] {
            check(text_of(value), bson!(text));
        }
        let uuid =
            Bson::Binary(Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![0x86, 0x7d, 0xdf] });
        // The options of `$convert` are those of the outermost value.
        let convert = bson!({ "input": { "$literal": { "b": uuid, "n": 10 } }, "to": "string", "base": 16, "format": "hex" });
        check(bson!({ "$convert": convert }), bson!(r#"{"b":"hn3f","n":10}"#));
        let code = JavaScriptCodeWithScope { code: "f(a)".to_owned(), scope: doc! { "a": 1 } };
        check(text_of(Bson::JavaScriptCodeWithScope(code)), bson!(r#"CodeWScope("f(a)", {"a":1})"#));
    }

    #[test]
    fn scalars_of_all_types_are_written() {
        for (value, text) in [
            (regex("B*", "is"), "/B*/is"),
            (Bson::Timestamp(Timestamp { time: 1, increment: 2 }), "Timestamp(1, 2)"),
            (Bson::JavaScriptCode("function () {}".to_owned()), "function () {}"),
            (Bson::Symbol("s".to_owned()), "s"),
            (Bson::MinKey, "MinKey"),
            (Bson::MaxKey, "MaxKey"),
        ] {
            check(text_of(value), bson!(text));
        }
    }

    #[test]
    fn deep_and_large_values_are_refused_and_caught() {
        let deep =
            bson!({ "$reduce": { "input": { "$range": [0, 5000] }, "initialValue": [], "in": ["$$value"] } });
        check_error(bson!({ "$toString": deep.clone() }), 241);
        check(bson!({ "$convert": { "input": deep, "to": "string", "onError": "deep" } }), bson!("deep"));
        // A control character uses one byte, and six in the text.
        let controls = bson!({ "$reduce": { "input": { "$range": [0, 22] }, "initialValue": "\u{1}", "in": { "$concat": ["$$value", "$$value"] } } });
        let large = bson!({ "$convert": { "input": [controls], "to": "string", "onError": "large" } });
        check(large, bson!("large"));
    }

    #[test]
    fn texts_are_read() {
        let object = |text: &str| bson!({ "$toObject": text });
        let array = |text: &str| bson!({ "$toArray": text });
        check(array(" [ ] "), bson!([]));
        check(array("\u{feff}[1]"), bson!([1]));
        check(object("\t{\n}\r"), bson!({}));
        check(array(r#"["bar", null, false, true, -999, 0]"#), bson!(["bar", null, false, true, -999, 0]));
        check(array("[2147483648, 1.5, 1e2, -0.0]"), bson!([2_147_483_648_i64, 1.5, 100.0, -0.0]));
        check(
            array("[18446744073709551615, -18446744073709551615]"),
            bson!([1.844_674_407_370_955_2e19, -1.844_674_407_370_955_2e19]),
        );
        check(
            object(r#"{"a": {"b": [[], {"c": 1}]}, "": 2}"#),
            bson!({ "a": { "b": [[], { "c": 1 }] }, "": 2 }),
        );
        check(
            array(r#"["a\u0000\b\f\n\r\t\/\\\"\u00e9\ud83d\ude0e"]"#),
            bson!(["a\0\u{8}\u{c}\n\r\t/\\\"é😎"]),
        );
        // Operators in the text are names.
        check(object(r#"{"$toString": "$missing"}"#), Bson::Document(doc! { "$toString": "$missing" }));
        // Of fields with one name the last one counts.
        check(object(r#"{"a": 1, "b": 2, "a": {"x": 1, "x": 2}}"#), bson!({ "a": { "x": 2 }, "b": 2 }));
        check(array("$missing"), Bson::Null);
        check(bson!({ "$convert": { "input": "[1]", "to": 4 } }), bson!([1]));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "[",
            "]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1]]",
            "[1] [2]",
            "[01]",
            "[1.]",
            "[.5]",
            "[+1]",
            "[1e]",
            "[--1]",
            "[nul]",
            "[NaN]",
            "['a']",
            "[\"a]",
            "[\"\\x\"]",
            "[\"\\u12\"]",
            "[\"\\u+123\"]",
            "[\"\\ud83d\"]",
            "[\"\\ud83dx\"]",
            "[\"a\tb\"]",
            "[1e999]",
            "{}",
            "1",
            "\"a\"",
            "null",
        ] {
            check_error(bson!({ "$toArray": text }), 241);
            check(bson!({ "$convert": { "input": text, "to": "array", "onError": 0 } }), bson!(0));
        }
        for text in [
            "[]",
            "{a: 1}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\": 1,}",
            "{\"a\": 1 \"b\": 2}",
            "{\"f\\u0000\": 1}",
            "{\"a\": 1}\n{}",
        ] {
            check_error(bson!({ "$toObject": text }), 241);
        }
        for value in [bson!(1), bson!([1]), bson!({ "$literal": { "a": 1 } }), millis(1)] {
            check_error(bson!({ "$toObject": [value] }), 241);
        }
    }

    #[test]
    fn levels_are_limited() {
        let nested = |levels: usize| bson!({ "$toArray": ("[".repeat(levels) + &"]".repeat(levels)) });
        check(bson!({ "$size": (nested(200)) }), bson!(1));
        check_error(nested(201), 241);
    }
}
