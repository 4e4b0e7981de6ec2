//! Extended JSON: writing documents in both modes as they are stored, field by field in their order, and reading
//! those that a command line names. A name that a reader would mistake for a type is found by [`is_wrapper`].

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::raw::RawJavaScriptCodeWithScopeRef;
use cairndb::bson::{Bson, DateTime, Document, RawArray, RawBsonRef, RawDocument};

use formats::dates::date_text;
use formats::parse::json_value;

use crate::argument::shown;
use crate::failure::Failure;
use crate::look::{Look, Part};

/// Deeper documents are rejected: MongoDB stores up to 200 levels, and each needs some of the stack.
const DEPTH_MAX: usize = 250;
/// Milliseconds of 1970 to 9999, the years that relaxed mode writes as text.
const WRITTEN_DATES: std::ops::Range<i64> = 0..253_402_300_800_000;

/// The notation of values whose type JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every type comes back.
    Canonical,
    /// Numbers and dates as people write them; int32, int64 and double of equal value look the same.
    Relaxed,
}

/// Whether a reader of Extended JSON reads a document with this field as a value of another type.
pub(crate) fn is_wrapper(name: &str) -> bool {
    matches!(
        name,
        "$oid"
            | "$symbol"
            | "$numberInt"
            | "$numberLong"
            | "$numberDouble"
            | "$numberDecimal"
            | "$numberDecimalBytes"
            | "$binary"
            | "$uuid"
            | "$code"
            | "$scope"
            | "$timestamp"
            | "$regularExpression"
            | "$dbPointer"
            | "$date"
            | "$minKey"
            | "$maxKey"
            | "$undefined"
    )
}

/// The layout of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) mode: Mode,
    /// The level of a document, if each field has a line of its own.
    pub(crate) indent: Option<usize>,
    pub(crate) look: Look,
}

impl Layout {
    /// All on one line, as in a file.
    pub(crate) fn line(mode: Mode) -> Self {
        Self { mode, indent: None, look: Look::default() }
    }
}

/// Appends a document on one line.
pub(crate) fn write_document(out: &mut Vec<u8>, document: &RawDocument, mode: Mode) -> Result<(), Failure> {
    lay_out_document(out, document, Layout::line(mode))
}

/// Appends a value on one line.
pub(crate) fn write_value(out: &mut Vec<u8>, value: RawBsonRef<'_>, mode: Mode) -> Result<(), Failure> {
    lay_out_value(out, value, Layout::line(mode))
}

/// Appends a document.
pub(crate) fn lay_out_document(
    out: &mut Vec<u8>,
    document: &RawDocument,
    layout: Layout,
) -> Result<(), Failure> {
    Writer { out, layout, depth: 0 }.document(document)
}

/// Appends a value.
pub(crate) fn lay_out_value(out: &mut Vec<u8>, value: RawBsonRef<'_>, layout: Layout) -> Result<(), Failure> {
    Writer { out, layout, depth: 0 }.value(value)
}

/// The number as Extended JSON names it.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        // The shortest text that reads as the same number, and never without a point or an exponent.
        format!("{number:?}")
    }
}

/// Parses a document of the command line; `option` is named in errors.
pub(crate) fn parse_document(option: &str, text: &str) -> Result<Document, Failure> {
    let wrong = || Failure::usage(format!("{option} must be a document: {}", shown(text)));
    parse(option, text)?.as_document().cloned().ok_or_else(wrong)
}

/// Parses an array of documents of the command line.
pub(crate) fn parse_array(option: &str, text: &str) -> Result<Vec<Bson>, Failure> {
    let wrong = || Failure::usage(format!("{option} must be an array: {}", shown(text)));
    parse(option, text)?.as_array().cloned().ok_or_else(wrong)
}

fn parse(option: &str, text: &str) -> Result<Bson, Failure> {
    json_value(text)
        .map_err(|error| Failure::usage(format!("{option} is not Extended JSON: {error}: {}", shown(text))))
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    layout: Layout,
    depth: usize,
}

impl Writer<'_> {
    fn document(&mut self, document: &RawDocument) -> Result<(), Failure> {
        self.open(b'{')?;
        let mut is_first = true;
        for field in document {
            let (name, value) = field.map_err(|error| damaged(&error))?;
            self.separate(&mut is_first);
            self.part(Part::Name, |writer| writer.text(name.as_str()));
            self.out.push(b':');
            if self.layout.indent.is_some() {
                self.out.push(b' ');
            }
            self.value(value)?;
        }
        self.close(b'}', is_first);
        Ok(())
    }

    fn array(&mut self, array: &RawArray) -> Result<(), Failure> {
        self.open(b'[')?;
        let mut is_first = true;
        for value in array {
            self.separate(&mut is_first);
            self.value(value.map_err(|error| damaged(&error))?)?;
        }
        self.close(b']', is_first);
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<(), Failure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Failure::new(
                crate::failure::Exit::Failed,
                format!("a document has more than {DEPTH_MAX} levels"),
            ));
        }
        self.out.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: u8, is_empty: bool) {
        self.depth -= 1;
        if !is_empty {
            self.line();
        }
        self.out.push(bracket);
    }

    fn separate(&mut self, is_first: &mut bool) {
        if !std::mem::take(is_first) {
            self.out.push(b',');
        }
        self.line();
    }

    fn line(&mut self) {
        if let Some(levels) = self.layout.indent {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * (levels + self.depth), b' ');
        }
    }

    /// Appends a part in its color.
    fn part<T>(&mut self, part: Part, write: impl FnOnce(&mut Self) -> T) -> T {
        self.layout.look.begin(part, self.out);
        let written = write(self);
        self.layout.look.end(part, self.out);
        written
    }

    fn value(&mut self, value: RawBsonRef<'_>) -> Result<(), Failure> {
        match part_of(value, self.layout.mode) {
            Some(part) => self.part(part, |writer| writer.uncolored(value)),
            None => self.uncolored(value),
        }
    }

    /// Code with its variables, which may be documents.
    fn scoped(&mut self, code: RawJavaScriptCodeWithScopeRef<'_>) -> Result<(), Failure> {
        self.raw("{\"$code\":");
        self.part(Part::Typed, |writer| writer.text(code.code));
        self.raw(",\"$scope\":");
        self.document(code.scope)?;
        self.raw("}");
        Ok(())
    }

    fn uncolored(&mut self, value: RawBsonRef<'_>) -> Result<(), Failure> {
        match value {
            RawBsonRef::Double(number) => self.double(number),
            RawBsonRef::String(text) => self.text(text),
            RawBsonRef::Document(document) => self.document(document)?,
            RawBsonRef::Array(array) => self.array(array)?,
            RawBsonRef::JavaScriptCodeWithScope(code) => self.scoped(code)?,
            RawBsonRef::Boolean(value) => self.raw(if value { "true" } else { "false" }),
            RawBsonRef::Null => self.raw("null"),
            RawBsonRef::Int32(number) => self.whole("$numberInt", i64::from(number)),
            RawBsonRef::Int64(number) => self.whole("$numberLong", number),
            RawBsonRef::DateTime(date) => self.date(date),
            RawBsonRef::ObjectId(id) => self.wrapped("$oid", &id.to_hex()),
            RawBsonRef::Decimal128(number) => self.wrapped("$numberDecimal", &number.to_string()),
            RawBsonRef::Symbol(text) => self.wrapped("$symbol", text),
            RawBsonRef::JavaScriptCode(code) => self.wrapped("$code", code),
            RawBsonRef::Binary(binary) => {
                let (text, subtype) = (STANDARD.encode(binary.bytes), u8::from(binary.subtype));
                self.raw(&format!("{{\"$binary\":{{\"base64\":\"{text}\",\"subType\":\"{subtype:02x}\"}}}}"));
            }
            RawBsonRef::RegularExpression(expression) => {
                self.raw("{\"$regularExpression\":{\"pattern\":");
                self.text(expression.pattern.as_str());
                self.raw(",\"options\":");
                self.text(expression.options.as_str());
                self.raw("}}");
            }
            RawBsonRef::Timestamp(stamp) => {
                let (time, increment) = (stamp.time, stamp.increment);
                self.raw(&format!("{{\"$timestamp\":{{\"t\":{time},\"i\":{increment}}}}}"));
            }
            // The parts of this legacy type are public to serde alone.
            RawBsonRef::DbPointer(_) => {
                let pointer = Bson::try_from(value).map_err(|error| damaged(&error))?;
                self.raw(&serde_json::to_string(&pointer).map_err(|error| damaged(&error))?);
            }
            RawBsonRef::Undefined => self.raw("{\"$undefined\":true}"),
            RawBsonRef::MinKey => self.raw("{\"$minKey\":1}"),
            RawBsonRef::MaxKey => self.raw("{\"$maxKey\":1}"),
        }
        Ok(())
    }

    fn double(&mut self, number: f64) {
        let text = double_text(number);
        if self.layout.mode == Mode::Relaxed && number.is_finite() {
            self.raw(&text);
        } else {
            self.wrapped("$numberDouble", &text);
        }
    }

    fn whole(&mut self, wrapper: &str, number: i64) {
        match self.layout.mode {
            Mode::Relaxed => self.raw(&number.to_string()),
            Mode::Canonical => self.wrapped(wrapper, &number.to_string()),
        }
    }

    fn date(&mut self, date: DateTime) {
        let milliseconds = date.timestamp_millis();
        if self.layout.mode == Mode::Relaxed && WRITTEN_DATES.contains(&milliseconds) {
            self.wrapped("$date", &date_text(milliseconds));
        } else {
            self.raw(&format!("{{\"$date\":{{\"$numberLong\":\"{milliseconds}\"}}}}"));
        }
    }

    fn wrapped(&mut self, wrapper: &str, text: &str) {
        self.raw("{\"");
        self.raw(wrapper);
        self.raw("\":");
        self.text(text);
        self.raw("}");
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A JSON string: quotes, backslashes and control characters are escaped, all else stays UTF-8. The control characters
    /// beyond ASCII stay as well in a file, and are commands to some terminals.
    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut rest = text;
        if self.layout.look.is_seen() {
            while let Some((at, control)) = rest.char_indices().find(|(_, one)| is_control_beyond_ascii(*one))
            {
                let (before, after) = rest.split_at(at);
                self.ascii_escaped(before);
                // Writing to a vector cannot fail.
                let _ = write!(self.out, "\\u{:04x}", u32::from(control));
                rest = after.get(control.len_utf8()..).unwrap_or_default();
            }
        }
        self.ascii_escaped(rest);
        self.out.push(b'"');
    }

    fn ascii_escaped(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            match byte {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.raw("\\n"),
                b'\r' => self.raw("\\r"),
                b'\t' => self.raw("\\t"),
                // Writing to a vector cannot fail.
                0..=0x1f | 0x7f => drop(write!(self.out, "\\u{byte:04x}")),
                _ => self.out.push(byte),
            }
        }
    }
}

fn is_control_beyond_ascii(character: char) -> bool {
    character.is_control() && !character.is_ascii()
}

/// The color of a value. Returns `None` for what has others in it, each with its own color.
pub(crate) fn part_of(value: RawBsonRef<'_>, mode: Mode) -> Option<Part> {
    match value {
        RawBsonRef::Document(_) | RawBsonRef::Array(_) | RawBsonRef::JavaScriptCodeWithScope(_) => None,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) if mode == Mode::Relaxed => {
            Some(Part::Number)
        }
        RawBsonRef::String(_) => Some(Part::Text),
        RawBsonRef::Boolean(_) => Some(Part::Truth),
        RawBsonRef::Null => Some(Part::Nothing),
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::DbPointer(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MinKey
        | RawBsonRef::MaxKey => Some(Part::Typed),
    }
}

fn damaged(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(crate::failure::Exit::Failed, format!("a document is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{Binary, RawDocumentBuf, Timestamp, doc, oid::ObjectId, spec::BinarySubtype};

    use super::*;

    #[track_caller]
    fn check(document: &Document, canonical: &str, relaxed: &str) {
        let raw = RawDocumentBuf::try_from(document).unwrap();
        for (mode, expected) in [(Mode::Canonical, canonical), (Mode::Relaxed, relaxed)] {
            let mut out = Vec::new();
            write_document(&mut out, &raw, mode).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn numbers_keep_their_types_in_canonical_mode() {
        check(
            &doc! { "a": 1, "b": 2_i64 },
            r#"{"a":{"$numberInt":"1"},"b":{"$numberLong":"2"}}"#,
            r#"{"a":1,"b":2}"#,
        );
        check(
            &doc! { "a": 1.0, "b": -0.0 },
            r#"{"a":{"$numberDouble":"1.0"},"b":{"$numberDouble":"-0.0"}}"#,
            r#"{"a":1.0,"b":-0.0}"#,
        );
        check(
            &doc! { "a": f64::NAN },
            r#"{"a":{"$numberDouble":"NaN"}}"#,
            r#"{"a":{"$numberDouble":"NaN"}}"#,
        );
        check(
            &doc! { "a": f64::NEG_INFINITY },
            r#"{"a":{"$numberDouble":"-Infinity"}}"#,
            r#"{"a":{"$numberDouble":"-Infinity"}}"#,
        );
    }

    #[test]
    fn dates_are_text_between_1970_and_9999() {
        let date = |milliseconds| doc! { "a": DateTime::from_millis(milliseconds) };
        check(
            &date(0),
            r#"{"a":{"$date":{"$numberLong":"0"}}}"#,
            r#"{"a":{"$date":"1970-01-01T00:00:00Z"}}"#,
        );
        check(
            &date(-1),
            r#"{"a":{"$date":{"$numberLong":"-1"}}}"#,
            r#"{"a":{"$date":{"$numberLong":"-1"}}}"#,
        );
        check(
            &date(i64::MAX),
            r#"{"a":{"$date":{"$numberLong":"9223372036854775807"}}}"#,
            r#"{"a":{"$date":{"$numberLong":"9223372036854775807"}}}"#,
        );
    }

    #[test]
    fn other_types_are_wrapped_in_both_modes() {
        let both = |document: &Document, text: &str| check(document, text, text);
        both(&doc! { "a": Timestamp { time: 1, increment: 2 } }, r#"{"a":{"$timestamp":{"t":1,"i":2}}}"#);
        both(
            &doc! { "a": Binary { subtype: BinarySubtype::Uuid, bytes: vec![255] } },
            r#"{"a":{"$binary":{"base64":"/w==","subType":"04"}}}"#,
        );
        both(&doc! { "a": ObjectId::from_bytes([7; 12]) }, r#"{"a":{"$oid":"070707070707070707070707"}}"#);
        both(
            &doc! { "a": [true, Bson::Null, Bson::MinKey, Bson::MaxKey] },
            r#"{"a":[true,null,{"$minKey":1},{"$maxKey":1}]}"#,
        );
        both(&doc! { "q\"\\": "\u{1}\n\u{7f}ü" }, r#"{"q\"\\":"\u0001\n\u007fü"}"#);
    }

    #[test]
    fn what_is_written_is_read_again_in_its_order() {
        let document = doc! { "z": 1, "a": { "y": 1.5, "b": [1_i64, "x"] } };
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        for indent in [None, Some(0)] {
            let mut out = Vec::new();
            let layout = Layout { indent, ..Layout::line(Mode::Canonical) };
            lay_out_document(&mut out, &raw, layout).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(parse_document("--filter", &text).unwrap(), document);
            assert_eq!(text.contains('\n'), indent.is_some());
        }
    }

    /// Control characters are escaped at a terminal, and written as they are to a file.
    #[test]
    fn at_a_terminal_parts_have_colors_and_controls_are_escapes() {
        let raw =
            RawDocumentBuf::try_from(&doc! { "\u{9b}n": "\u{1b}\u{9b}ü", "o": [1, Bson::Null] }).unwrap();
        let shown = |look| {
            let mut out = Vec::new();
            lay_out_document(&mut out, &raw, Layout { look, ..Layout::line(Mode::Relaxed) }).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(Look::default()), "{\"\u{9b}n\":\"\\u001b\u{9b}ü\",\"o\":[1,null]}");
        let seen = Look { is_terminal: true, is_colored: false };
        assert_eq!(shown(seen), "{\"\\u009bn\":\"\\u001b\\u009bü\",\"o\":[1,null]}");
        let colored = shown(Look { is_colored: true, ..seen });
        assert!(colored.contains("\u{1b}[36m1\u{1b}[0m"), "{colored:?}");
        let plain = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[34m", "\u{1b}[32m", "\u{1b}[36m", "\u{1b}[90m"]
            .into_iter()
            .fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(plain, shown(seen));
    }

    #[test]
    fn options_that_are_no_document_are_refused() {
        assert_eq!(
            parse_document("--filter", "[1]").unwrap_err().to_string(),
            "--filter must be a document: [1]"
        );
        assert_eq!(
            parse_array("--pipeline", "{}").unwrap_err().to_string(),
            "--pipeline must be an array: {}"
        );
        assert!(parse_document("--filter", "{a: 1}").is_err());
    }
}
