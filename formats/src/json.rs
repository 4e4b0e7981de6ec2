//! Extended JSON into raw BSON in one pass: what the JSON parser reads is written at once, field by field in their
//! order, so that neither a tree is built nor a field that stands twice is lost.

use std::fmt;

use bson::RawDocument;
use bson::spec::ElementType;
use index::number::parse_exact_decimal;
use index::validate::{DOCUMENT_BYTES_MAX, NESTING_MAX};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::element::{Frame, TypeByte, push_text, push_whole};
use crate::large::{LargeIntegers, LargeNumber, LargeNumbers, is_large, large_numbers};
use crate::notation::meant;
use crate::refusal::{Refusal, shown};
use crate::typed::{NamedPart, PartSeed, Typed, regular_expression};

/// The limit of brackets: that of a store, and some for the values that have brackets in this format alone.
const LEVELS_MAX: usize = NESTING_MAX + 4;

/// The names of an old regular expression.
const REGEX: &str = "$regex";
const OPTIONS: &str = "$options";

/// The name of a value that is alone.
const VALUE: &str = "value";

/// Appends the document that `text` is.
pub(crate) fn parse(text: &[u8], out: &mut Vec<u8>, meaning: Meaning) -> Result<(), Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // Levels are counted by the visitors, with an error that says so.
    deserializer.disable_recursion_limit();
    let limit = out.len() + DOCUMENT_BYTES_MAX;
    let mut large = Large { meaning, numbers: large_numbers(text) };
    let state = State { out, limit, levels: LEVELS_MAX, large: &mut large };
    let parsed = Whole(state).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    parsed.map_err(|error| refusal(text, &error))
}

/// The error, with what was probably meant.
fn refusal(text: &[u8], error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    let meant = if error.is_syntax() { meant(text, line, column) } else { None };
    let (whole, place) = (error.to_string(), format!(" at line {line} column {column}"));
    let told = whole.strip_suffix(&place).map_or_else(
        || whole.clone(),
        // The record has a line of the file, beside which another number would be a riddle.
        |reason| match line {
            0 | 1 => format!("{reason} at column {column}"),
            line => format!("{reason} in line {line} of the record, column {column}"),
        },
    );
    Refusal::not_parsed(meant.map_or_else(|| told.clone(), |meant| format!("{told}: {meant}")))
}

/// Appends a document with the value that `text` is, under the name [`VALUE`].
pub(crate) fn parse_value(text: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let limit = out.len() + DOCUMENT_BYTES_MAX;
    let frame = Frame::begin(out);
    let kind = TypeByte::begin(out, VALUE);
    let mut large = Large { meaning: Meaning::default(), numbers: large_numbers(text) };
    let value = Value { state: State { out: &mut *out, limit, levels: LEVELS_MAX, large: &mut large }, kind };
    let parsed = value.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    frame.end_document(out);
    parsed.map_err(|error| refusal(text, &error))
}

/// The treatment of values that JSON cannot express.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meaning {
    pub(crate) large_integers: LargeIntegers,
    /// Whether `{"$regex": "…", "$options": "…"}` is a regular expression, as in version 1 of Extended JSON, and not the
    /// operator of a filter.
    pub(crate) has_old_patterns: bool,
}

/// The target of values, and the rest of the limits.
struct State<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
    levels: usize,
    large: &'a mut Large,
}

/// Integers that 64 bits do not hold and are still to come, and what becomes of them.
struct Large {
    meaning: Meaning,
    numbers: LargeNumbers,
}

impl Large {
    /// The text of the next large number, if it is an integer.
    ///
    /// Of a value that a name with a dollar represents none is asked: it is rejected, and the record with it.
    fn next(&mut self) -> Option<String> {
        match self.numbers.pop_front()? {
            LargeNumber::Integer(text) => Some(text),
            LargeNumber::Double => None,
        }
    }
}

impl State<'_> {
    fn below(&mut self) -> Option<State<'_>> {
        let levels = self.levels.checked_sub(1)?;
        Some(State { out: self.out, limit: self.limit, levels, large: self.large })
    }

    /// A small text may represent a large document: an array of ones needs six times its text.
    fn check<E: Error>(&self) -> Result<(), E> {
        if self.out.len() > self.limit {
            return Err(E::custom("the document is larger than 16 MiB"));
        }
        Ok(())
    }

    /// Writes the fields of a document, of which the first name was read, and ends it.
    fn fields<'de, A: MapAccess<'de>>(
        &mut self,
        frame: Frame,
        first: Option<Named>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let mut next = first;
        while let Some(name) = next {
            self.field(name, map)?;
            next = map.next_key_seed(Name { out: self.out })?;
        }
        frame.end_document(self.out);
        Ok(())
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, name: Named, map: &mut A) -> Result<(), A::Error> {
        self.check()?;
        let state = self.below().ok_or_else(too_deep::<A::Error>)?;
        map.next_value_seed(Value { state, kind: name.kind })
    }
}

fn too_deep<E: Error>() -> E {
    E::custom(format!("the document has more than {NESTING_MAX} levels"))
}

/// The document as a whole.
struct Whole<'a>(State<'a>);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let frame = Frame::begin(self.0.out);
        let first = map.next_key_seed(Name { out: self.0.out })?;
        if let Some(typed) = first.as_ref().and_then(|first| first.typed) {
            let name = typed.name();
            return Err(A::Error::custom(format!("{name} is a value that is not a document")));
        }
        self.0.fields(frame, first, &mut map)
    }
}

/// A field's name, written before its value is known.
#[derive(Clone, Copy)]
struct Named {
    kind: TypeByte,
    typed: Option<Typed>,
    /// Whether it may be that of an old regular expression.
    is_of_pattern: bool,
}

struct Name<'a> {
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Named;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Named, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Named;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
        if name.contains('\0') {
            return Err(E::custom(format!("the name {} has a NUL", shown(name))));
        }
        let is_of_pattern = name == REGEX || name == OPTIONS;
        Ok(Named { kind: TypeByte::begin(self.out, name), typed: Typed::of(name), is_of_pattern })
    }
}

/// A value, whose type byte is set once it is known.
struct Value<'a> {
    state: State<'a>,
    kind: TypeByte,
}

impl Value<'_> {
    fn set(self, kind: ElementType) {
        self.kind.set(self.state.out, kind);
    }

    /// A document whose first name represents a value.
    fn typed<'de, A: MapAccess<'de>>(self, typed: Typed, map: &mut A) -> Result<(), A::Error> {
        let Self { state, kind } = self;
        let value = map.next_value_seed(PartSeed::new())?;
        let mut beside = None;
        while let Some(name) = map.next_key::<String>()? {
            if beside.is_some() {
                return Err(A::Error::custom(format!("{} has too many names beside it", typed.name())));
            }
            beside = Some(NamedPart { name, part: map.next_value_seed(PartSeed::new())? });
        }
        let wrong = || match &beside {
            None => format!("{} cannot have {value}", typed.name()),
            Some(beside) => {
                format!("{} cannot be beside {}", typed.name(), shown(&beside.name))
            }
        };
        let written = typed.write(state.out, &value, beside.as_ref());
        kind.set(state.out, written.ok_or_else(|| A::Error::custom(wrong()))?);
        Ok(())
    }

    /// Code, with its scope before or after it.
    fn code<'de, A: MapAccess<'de>>(self, first: Typed, map: &mut A) -> Result<(), A::Error> {
        let Self { mut state, kind } = self;
        let start = state.out.len();
        let (mut code, mut scope) = (None, None);
        let mut next = Some(first);
        while let Some(typed) = next {
            let is_code = typed == Typed::Code;
            if if is_code { code.is_some() } else { scope.is_some() } {
                return Err(A::Error::custom(format!("{} appears twice", typed.name())));
            }
            if is_code {
                code = Some(map.next_value::<String>()?);
            } else {
                let below = state.below().ok_or_else(too_deep::<A::Error>)?;
                map.next_value_seed(Whole(below))?;
                // Kept aside, because the code comes before it.
                scope = Some(state.out.split_off(start));
            }
            let Some(name) = map.next_key::<String>()? else { break };
            next = Typed::of(&name).filter(|typed| matches!(typed, Typed::Code | Typed::Scope));
            if next.is_none() {
                return Err(A::Error::custom(format!("$code cannot be beside {}", shown(&name))));
            }
        }
        let code = code.ok_or_else(|| A::Error::custom("$scope needs a $code"))?;
        let Some(scope) = scope else {
            push_text(state.out, &code);
            kind.set(state.out, ElementType::JavaScriptCode);
            return Ok(());
        };
        let frame = Frame::begin(state.out);
        push_text(state.out, &code);
        state.out.extend_from_slice(&scope);
        frame.end(state.out);
        kind.set(state.out, ElementType::JavaScriptCodeWithScope);
        state.check()
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<(), E> {
        self.state.out.push(u8::from(flag));
        self.set(ElementType::Boolean);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        let kind = push_whole(self.state.out, number);
        self.set(kind);
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            #[expect(clippy::cast_precision_loss, reason = "what is lost is asked for by the text")]
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        let integer = if is_large(number) { self.state.large.next() } else { None };
        if let Some(integer) = integer {
            match self.state.large.meaning.large_integers {
                LargeIntegers::Double => {}
                LargeIntegers::Refuse if format!("{number:.0}") == integer => {}
                LargeIntegers::Refuse => {
                    return Err(E::custom(format!(
                        "the number {} has more than 64 bits: write {{\"$numberDecimal\": \"…\"}} or {{\"$numberDouble\": \"…\"}}",
                        shown(&integer)
                    )));
                }
                LargeIntegers::Decimal => {
                    let Some(decimal) = parse_exact_decimal(&integer) else {
                        let shown = shown(&integer);
                        return Err(E::custom(format!("the number {shown} has more than 34 digits")));
                    };
                    self.state.out.extend_from_slice(&decimal.bytes());
                    self.set(ElementType::Decimal128);
                    return Ok(());
                }
            }
        }
        self.state.out.extend_from_slice(&number.to_le_bytes());
        self.set(ElementType::Double);
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        push_text(self.state.out, text);
        self.set(ElementType::String);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.set(ElementType::Null);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        let frame = Frame::begin(self.state.out);
        for position in 0_u32.. {
            self.state.check()?;
            let before = self.state.out.len();
            let kind = TypeByte::begin_at(self.state.out, position);
            let state = self.state.below().ok_or_else(too_deep::<A::Error>)?;
            if sequence.next_element_seed(Value { state, kind })?.is_none() {
                self.state.out.truncate(before);
                break;
            }
        }
        frame.end_document(self.state.out);
        self.set(ElementType::Array);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let start = self.state.out.len();
        let frame = Frame::begin(self.state.out);
        let first = map.next_key_seed(Name { out: self.state.out })?;
        if let Some(typed) = first.as_ref().and_then(|first| first.typed) {
            // It is not a document after all.
            self.state.out.truncate(start);
            return if matches!(typed, Typed::Code | Typed::Scope) {
                self.code(typed, &mut map)
            } else {
                self.typed(typed, &mut map)
            };
        }
        let may_be_pattern = self.state.large.meaning.has_old_patterns
            && first.as_ref().is_some_and(|first| first.is_of_pattern);
        self.state.fields(frame, first, &mut map)?;
        if may_be_pattern && let Some([pattern, options]) = old_pattern(self.state.out.get(start..)) {
            self.state.out.truncate(start);
            let written = regular_expression(self.state.out, &pattern, &options);
            let kind = written.ok_or_else(|| A::Error::custom("$regex cannot have a string with a NUL"))?;
            self.set(kind);
            return Ok(());
        }
        self.set(ElementType::EmbeddedDocument);
        Ok(())
    }
}

/// The pattern and the options, if these are what a document has, as texts and nothing else.
fn old_pattern(document: Option<&[u8]>) -> Option<[String; 2]> {
    let document = RawDocument::from_bytes(document?).ok()?;
    let text = |name: &str| document.get_str(name).ok().map(str::to_owned);
    if document.iter().count() == 2 { Some([text(REGEX)?, text(OPTIONS)?]) } else { None }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn parse(text: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        super::parse(text, out, Meaning::default())
    }

    #[track_caller]
    fn check(text: &str, expected: &Document) {
        let mut out = Vec::new();
        parse(text.as_bytes(), &mut out).unwrap();
        assert_eq!(out, bson::serialize_to_vec(expected).unwrap(), "{:?}", RawDocument::from_bytes(&out));
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let refusal = parse(text.as_bytes(), &mut Vec::new()).unwrap_err();
        assert!(refusal.reason.contains(words), "{refusal}");
    }

    #[test]
    fn numbers_have_the_smallest_type_that_holds_them() {
        check(
            r#"{"a":1,"b":2147483648,"c":1.0,"d":-0,"e":1e3}"#,
            &doc! {
                "a": 1, "b": 2_147_483_648_i64, "c": 1.0, "d": -0.0, "e": 1000.0
            },
        );
        check(r#"{"a":1e30,"b":1e-30}"#, &doc! { "a": 1e30, "b": 1e-30 });
    }

    /// 18446744073709551615 became 18446744073709552000 without a word.
    #[test]
    fn an_integer_beyond_64_bits_is_never_rounded_in_silence() {
        let text = r#"{"a":[1e19,18446744073709551615,-9223372036854775809],"b":1}"#;
        refused(text, "the number \"18446744073709551615\" has more than 64 bits");
        refused(r#"{"a":123456789012345678901234567890}"#, "has more than 64 bits");
        refused(r#"{"a":{"$code":"f","$scope":{"b":18446744073709551615}}}"#, "has more than 64 bits");
        // These are doubles, to the last digit.
        check(
            r#"{"a":18446744073709551616,"b":9223372036854775808}"#,
            &doc! {
                "a": 18_446_744_073_709_551_616.0, "b": 9_223_372_036_854_775_808.0,
            },
        );
        let of = |text: &str, large_integers| {
            let mut out = Vec::new();
            super::parse(text.as_bytes(), &mut out, Meaning { large_integers, ..Meaning::default() })
                .map(|()| Document::try_from(RawDocument::from_bytes(&out).unwrap()).unwrap())
        };
        let decimal = |text: &str| text.parse::<bson::Decimal128>().unwrap();
        assert_eq!(
            of(text, LargeIntegers::Decimal).unwrap(),
            doc! { "a": [1e19, decimal("18446744073709551615"), decimal("-9223372036854775809")], "b": 1 }
        );
        assert_eq!(
            of(text, LargeIntegers::Double).unwrap(),
            doc! { "a": [1e19, 18_446_744_073_709_551_615.0, -9_223_372_036_854_775_809.0], "b": 1 }
        );
        let refusal = of(r#"{"a":12345678901234567890123456789012345}"#, LargeIntegers::Decimal).unwrap_err();
        assert!(refusal.reason.contains("has more than 34 digits"), "{refusal}");
    }

    #[test]
    fn every_type_is_read_as_bson_reads_it() {
        for text in [
            r#"{"$oid":"507f1f77bcf86cd799439011"}"#,
            r#"{"$symbol":"s"}"#,
            r#"{"$numberInt":"-7"}"#,
            r#"{"$numberLong":"7"}"#,
            r#"{"$numberDouble":"-Infinity"}"#,
            r#"{"$numberDouble":"1.0"}"#,
            r#"{"$numberDecimal":"1.50"}"#,
            r#"{"$binary":{"base64":"AQI=","subType":"00"}}"#,
            r#"{"$binary":{"subType":"80","base64":""}}"#,
            r#"{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#,
            r#"{"$code":"f()"}"#,
            r#"{"$code":"f()","$scope":{"a":{"$numberInt":"1"}}}"#,
            r#"{"$timestamp":{"t":4294967295,"i":2}}"#,
            r#"{"$regularExpression":{"pattern":"a","options":"im"}}"#,
            r#"{"$dbPointer":{"$ref":"a.b","$id":{"$oid":"507f1f77bcf86cd799439011"}}}"#,
            r#"{"$date":"2024-02-29T12:00:00.5Z"}"#,
            r#"{"$date":{"$numberLong":"-1"}}"#,
            r#"{"$minKey":1}"#,
            r#"{"$maxKey":1}"#,
            r#"{"$undefined":true}"#,
            r#"[1,[true,null],{"a":"\u00fc\n"},{}]"#,
        ] {
            let text = format!(r#"{{"x":{text}}}"#);
            check(&text, &serde_json::from_str(&text).unwrap());
        }
    }

    #[test]
    fn the_old_dialect_is_read_where_it_is_no_other_value() {
        let date = doc! { "a": bson::DateTime::from_millis(1) };
        check(r#"{"a":{"$date":1}}"#, &date);
        check(r#"{"a":{"$date":"1970-01-01T01:00:00.001+0100"}}"#, &date);
        let bytes = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] };
        check(r#"{"a":{"$binary":"AQ==","$type":"00"}}"#, &doc! { "a": bytes });
        check(
            r#"{"a":{"$scope":{},"$code":"f"}}"#,
            &doc! {
                "a": bson::JavaScriptCodeWithScope { code: "f".into(), scope: doc! {} }
            },
        );
        check(r#"{"a":{"$regex":"a","$options":""}}"#, &doc! { "a": { "$regex": "a", "$options": "" } });
        check(r#"{"a":{"$ref":"b","$id":1}}"#, &doc! { "a": { "$ref": "b", "$id": 1 } });
    }

    #[test]
    fn a_field_that_stands_twice_stays_twice() {
        let mut out = Vec::new();
        parse(br#"{"a":1,"a":2}"#, &mut out).unwrap();
        assert_eq!(RawDocument::from_bytes(&out).unwrap().iter().count(), 2);
    }

    /// The parse errors of Extended JSON that the BSON corpus lists, and what the parser of `bson` read as 0, 1 and -32.4.
    #[test]
    fn values_that_are_none_are_refused() {
        for text in [
            r#"{"$numberDecimal":""}"#,
            r#"{"$numberDecimal":"."}"#,
            r#"{"$numberDecimal":"E01"}"#,
            r#"{"$numberDecimal":"-+32.4"}"#,
            r#"{"$numberDecimal":"++1"}"#,
            r#"{"$numberDecimal":"100000000000000000000000000000000000000000000000000000000001"}"#,
            r#"{"$numberDecimal":"1E-6177"}"#,
            r#"{"$numberDecimal":1}"#,
            r#"{"$numberDecimal":"1","unrelated":true}"#,
            r#"{"$numberInt":"1","unrelated":true}"#,
            r#"{"$numberInt":""}"#,
            r#"{"$numberInt":"1.0"}"#,
            r#"{"$numberLong":42}"#,
            r#"{"$numberLong":""}"#,
            r#"{"$numberLong":"9223372036854775808"}"#,
            r#"{"$numberDouble":42.1}"#,
            r#"{"$numberDouble":""}"#,
            r#"{"$numberDouble":"inf"}"#,
            r#"{"$numberDouble":"infinity"}"#,
            r#"{"$numberDouble":"."}"#,
            r#"{"$numberDouble":"1e400"}"#,
            r#"{"$binary":"x"}"#,
            r#"{"$binary":{"base64":1,"subType":"00"}}"#,
            r#"{"$binary":{"base64":"AQ==","subType":0}}"#,
            r#"{"$binary":{"base64":"AQ=","subType":"00"}}"#,
            r#"{"$binary":{"subType":"00"}}"#,
            r#"{"$binary":{"base64":"AQ==","subType":"00","extra":1}}"#,
            r#"{"$uuid":{"data":"73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}}"#,
            r#"{"$uuid":"73ffd264-44b3-4c69-90e8-e7d1dfc035d4-extra"}"#,
            r#"{"$uuid":"73ffd264-44b3-4c69-90e8e7d1dfc035d4"}"#,
            r#"{"$code":1}"#,
            r#"{"$code":"f","unrelated":true}"#,
            r#"{"$code":"f","$scope":"x"}"#,
            r#"{"$timestamp":"x"}"#,
            r#"{"$timestamp":{"t":"123456789","i":"42"}}"#,
            r#"{"$timestamp":{"t":123456789,"i":42},"extra":1}"#,
            r#"{"$timestamp":{"t":4294967296,"i":0}}"#,
            r#"{"$timestamp":{"t":-1,"i":0}}"#,
            r#"{"$regularExpression":{"pattern":42,"options":"i"}}"#,
            r#"{"$regularExpression":{"pattern":"a"}}"#,
            r#"{"$regularExpression":{"pattern":"a\u0000b","options":"i"}}"#,
            r#"{"$dbPointer":{"$ref":1,"$id":{"$oid":"507f1f77bcf86cd799439011"}}}"#,
            r#"{"$dbPointer":{"$ref":"a","$id":"x"}}"#,
            r#"{"$date":{"$numberLong":1}}"#,
            r#"{"$date":"2024-02-29T12:00:00Z","unrelated":true}"#,
            r#"{"$oid":42}"#,
            r#"{"$oid":"507f1f77bcf86cd79943901z"}"#,
            r#"{"$symbol":1}"#,
            r#"{"$minKey":true}"#,
            r#"{"$maxKey":2}"#,
            r#"{"$undefined":1}"#,
        ] {
            let text = format!(r#"{{"x":{text}}}"#);
            assert!(parse(text.as_bytes(), &mut Vec::new()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_document_is_refused_with_the_reason() {
        refused("[1]", "expected a document");
        refused("1", "expected a document");
        refused(r#"{"$oid":"507f1f77bcf86cd799439011"}"#, "$oid is a value that is not a document");
        refused(r#"{"a":1} x"#, "trailing characters");
        refused(r#"{"a":{"$oid":"x"}}"#, "$oid cannot have \"x\"");
        refused(r#"{"a":{"$numberInt":"2147483648"}}"#, "$numberInt cannot have");
        refused(r#"{"a":{"$numberInt":1}}"#, "$numberInt cannot have 1");
        refused(r#"{"a":{"$date":"yesterday"}}"#, "$date cannot have");
        refused(r#"{"a":{"$oid":"507f1f77bcf86cd799439011","b":1}}"#, "$oid cannot be beside \"b\"");
        refused(r#"{"a":{"$timestamp":{"t":1}}}"#, "$timestamp cannot have a document with \"t\"");
        refused(r#"{"a":{"$code":"x","$code":"y"}}"#, "$code appears twice");
        refused(r#"{"a":{"$scope":{}}}"#, "$scope needs a $code");
        refused(r#"{"a\u0000":1}"#, "has a NUL");
        refused("{\"a\":\"\u{1}\"}", "control character");
        parse(b"{\"a\":\"\xff\"}", &mut Vec::new()).unwrap_err();
    }

    #[test]
    fn small_texts_that_stand_for_much_are_refused() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
        refused(&deep, "more than 180 levels");
        refused(&format!("{{\"a\":{}", "[".repeat(100_000)), "more than 180 levels");
        refused(&format!("{{\"a\":{{\"$oid\":{}", "[".repeat(100_000)), "has no array");
        refused(&format!("{{\"a\":{}", r#"{"$date":"#.repeat(1_000)), "is not as deep");
        refused(
            &format!("{{\"a\":{}", r#"{"$code":"x","$scope":{"a":"#.repeat(1_000)),
            "more than 180 levels",
        );
        refused(&format!("{{\"a\":[{}1]}}", "1,".repeat(2 << 20)), "larger than 16 MiB");
    }
}
