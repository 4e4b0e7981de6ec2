//! Small functions of one BSON value: its truth, its integer, its elements, its size, and how an error names it.
//!
//! Comparing values and walking paths is the `index` crate's work and is never done here.

use bson::{RawArray, RawBsonRef, RawDocument};
use index::number::Number;

/// The most characters of a text that an error repeats.
const TEXT_CHARACTERS_MAX: usize = 48;

/// Whether a value counts as true: everything but false, zero of any type, null and undefined.
pub(crate) fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            // Everything that is not exactly zero is true, NaN and fractions included.
            integer(value) != Some(0)
        }
        RawBsonRef::String(_)
        | RawBsonRef::Array(_)
        | RawBsonRef::Document(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_) => true,
    }
}

/// The value of a number of any type as an integer. Returns `None` if it has a fraction or more than 64 bits.
pub(crate) fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    Number::of(value)?.to_i64()
}

/// The text of a string or symbol, which MongoDB compares alike.
pub(crate) fn text(value: RawBsonRef<'_>) -> Option<&str> {
    value.as_str().or_else(|| value.as_symbol())
}

/// The elements of an array up to the first malformed one.
pub(crate) fn elements(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array.into_iter().map_while(Result::ok)
}

/// The document that a value is. An array counts as one too: a document whose names are positions.
pub(crate) fn document_or_array(value: RawBsonRef<'_>) -> Option<&RawDocument> {
    // BSON stores both alike, so the bytes of an array are read as a document without a copy.
    value.as_document().or_else(|| RawDocument::from_bytes(value.as_array()?.as_bytes()).ok())
}

/// A value in an error's text: scalars whole or shortened, everything else by its type.
pub(crate) fn describe(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::Int32(value) => value.to_string(),
        RawBsonRef::Int64(value) => value.to_string(),
        RawBsonRef::Double(value) => format!("{value:?}"),
        RawBsonRef::Decimal128(value) => format!("the decimal {value}"),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::String(value) => format!("\"{}\"", shorten(value)),
        RawBsonRef::Symbol(value) => format!("the symbol \"{}\"", shorten(value)),
        RawBsonRef::Null => "null".to_owned(),
        RawBsonRef::Undefined => "undefined".to_owned(),
        RawBsonRef::ObjectId(value) => format!("ObjectId('{}')", value.to_hex()),
        // Containers are named by type alone: their content could be long, and could be private.
        RawBsonRef::Array(_) => "an array".to_owned(),
        RawBsonRef::Document(_) => "an object".to_owned(),
        RawBsonRef::RegularExpression(_) => "a regular expression".to_owned(),
        RawBsonRef::JavaScriptCode(_) => "code".to_owned(),
        RawBsonRef::JavaScriptCodeWithScope(_) => "code with a scope".to_owned(),
        RawBsonRef::Timestamp(_) => "a timestamp".to_owned(),
        RawBsonRef::Binary(_) => "binary data".to_owned(),
        RawBsonRef::DateTime(_) => "a date".to_owned(),
        RawBsonRef::MaxKey => "the greatest key".to_owned(),
        RawBsonRef::MinKey => "the least key".to_owned(),
        RawBsonRef::DbPointer(_) => "a pointer".to_owned(),
    }
}

/// The bytes that a value needs: exact for types that can be large, and an upper bound for scalars.
pub(crate) fn content_bytes(value: RawBsonRef<'_>) -> usize {
    /// More than any scalar, type and length need.
    const FRAME: usize = 24;
    let content = match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => text.len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Binary(binary) => binary.bytes.len(),
        RawBsonRef::RegularExpression(regex) => regex.pattern.len() + regex.options.len(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len(),
        RawBsonRef::DbPointer(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey => 0,
    };
    // Too much is safe: the sum is compared with limits of memory, and checks of the exact size follow.
    content + FRAME
}

/// The first characters of a text, with control characters escaped, for the message of an error.
pub(crate) fn shorten(text: &str) -> String {
    // An error must not carry a document of megabytes, and must stay on one line of a log.
    let mut shown = text.chars().take(TEXT_CHARACTERS_MAX).flat_map(char::escape_debug).collect::<String>();
    if text.chars().nth(TEXT_CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, rawdoc};

    use super::*;

    #[track_caller]
    fn check_truth(value: impl Into<bson::RawBson>, expected: bool) {
        assert_eq!(is_true(value.into().as_raw_bson_ref()), expected);
    }

    #[test]
    fn zero_null_and_false_are_false() {
        check_truth(0, false);
        check_truth(0_i64, false);
        check_truth(-0.0, false);
        check_truth("-0E+3".parse::<bson::Decimal128>().unwrap(), false);
        check_truth(false, false);
        check_truth(bson::RawBson::Null, false);
        check_truth(bson::RawBson::Undefined, false);
    }

    #[test]
    fn all_else_is_true() {
        check_truth(1, true);
        check_truth(f64::NAN, true);
        check_truth(0.5, true);
        check_truth("0.1".parse::<bson::Decimal128>().unwrap(), true);
        check_truth("", true);
        check_truth(rawdoc! {}, true);
        check_truth(bson::RawBson::MinKey, true);
    }

    #[test]
    fn an_array_is_a_document_with_positions() {
        let document = rawdoc! { "a": ["x", 5] };
        let array = document_or_array(document.get("a").unwrap().unwrap()).unwrap();
        assert_eq!(array.get("1").unwrap(), Some(RawBsonRef::Int32(5)));
        assert!(document_or_array(RawBsonRef::Int32(5)).is_none());
    }

    #[test]
    fn errors_show_scalars_and_name_the_rest() {
        let check = |value: Bson, expected: &str| {
            let raw: bson::RawBson = value.try_into().unwrap();
            assert_eq!(describe(raw.as_raw_bson_ref()), expected);
        };
        check(bson!(1.0), "1.0");
        check(bson!("a\n"), "\"a\\n\"");
        check(bson!({ "a": 1 }), "an object");
        check(bson!("x".repeat(60)), &format!("\"{}...\"", "x".repeat(48)));
    }
}
