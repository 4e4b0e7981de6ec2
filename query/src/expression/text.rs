//! Texts: joining, cutting, trimming, replacing, case and length.
//!
//! Operators on bytes do not cut a character in two. Only ASCII letters change case, as in MongoDB.

use std::cmp::Ordering;
use std::collections::HashSet;

use bson::{DateTime, RawBsonRef};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::scalar::{date_text, double_text};
use crate::expression::signature::Signature;
use crate::expression::value::{ArrayBuilder, Value, check_bytes};
use crate::numeric::Numeric;

/// The arguments of `$trim`, `$ltrim` and `$rtrim`.
pub(super) const TRIM: Signature = Signature {
    names: &["input", "chars"],
    required: 1,
    not_object: Code::TRIM_NOT_OBJECT,
    unknown: Code::TRIM_UNKNOWN_ARGUMENT,
    missing: &[Code::TRIM_INPUT_MISSING],
};

/// The arguments of `$replaceOne` and `$replaceAll`.
pub(super) const REPLACE: Signature = Signature {
    names: &["input", "find", "replacement"],
    required: 3,
    not_object: Code::REPLACE_NOT_OBJECT,
    unknown: Code::REPLACE_UNKNOWN_ARGUMENT,
    missing: &[Code::REPLACE_INPUT_MISSING, Code::REPLACE_FIND_MISSING, Code::REPLACE_REPLACEMENT_MISSING],
};

/// The characters that are trimmed by default: the spaces that MongoDB lists, and the zero character.
const SPACES: &str = "\0 \t\n\u{b}\u{c}\r\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\
    \u{2007}\u{2008}\u{2009}\u{200a}";

pub(super) fn concat<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut joined = String::new();
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        let text = value.get().and_then(RawBsonRef::as_str);
        let text =
            text.ok_or_else(|| arguments.wrong_type(Code::CONCAT_TYPE, "an argument", "a string", &value))?;
        // Checked before it is copied, so that no text beyond the limit is ever built.
        check_bytes(arguments.operator, joined.len().saturating_add(text.len()))?;
        joined.push_str(text);
    }
    Ok(Value::text(joined))
}

pub(super) fn to_lower<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::text(coerced(arguments, &arguments.value(0)?)?.to_ascii_lowercase()))
}

pub(super) fn to_upper<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::text(coerced(arguments, &arguments.value(0)?)?.to_ascii_uppercase()))
}

pub(super) fn compare_without_case<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    // Upper case, because characters between both cases (`_` for one) then sort as in MongoDB.
    let left = coerced(arguments, &arguments.value(0)?)?.to_ascii_uppercase();
    let right = coerced(arguments, &arguments.value(1)?)?.to_ascii_uppercase();
    Ok(Value::int(match left.cmp(&right) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

pub(super) fn length_in_bytes<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    let text = value.get().and_then(RawBsonRef::as_str);
    let text = text
        .ok_or_else(|| arguments.wrong_type(Code::STR_LEN_BYTES_TYPE, "the argument", "a string", &value))?;
    Ok(Value::count(text.len()))
}

pub(super) fn length_in_characters<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    let text = value.get().and_then(RawBsonRef::as_str);
    let text =
        text.ok_or_else(|| arguments.wrong_type(Code::STR_LEN_CP_TYPE, "the argument", "a string", &value))?;
    Ok(Value::count(text.chars().count()))
}

pub(super) fn binary_size<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let bytes = value.or_null().as_str().map(str::len);
    let bytes = bytes.or_else(|| value.or_null().as_binary().map(|binary| binary.bytes.len()));
    let expected = "a string or binary data";
    let bytes = bytes
        .ok_or_else(|| arguments.wrong_type(Code::BINARY_SIZE_TYPE, "the argument", expected, &value))?;
    Ok(Value::count(bytes))
}

pub(super) fn part_in_bytes<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let text = coerced(arguments, &arguments.value(0)?)?;
    let number = |at, code, name| {
        let value = arguments.value(at)?;
        // Fractions are cut off, unlike in `$substrCP`, which rejects them.
        let number = Numeric::of(value.or_null()).map(Numeric::to_long);
        number.ok_or_else(|| arguments.wrong_type(code, name, "a number", &value))
    };
    let (start, length) = (
        number(1, Code::SUBSTR_BYTES_START_TYPE, "the start")?,
        number(2, Code::SUBSTR_BYTES_LENGTH_TYPE, "the length")?,
    );
    let wrong = |code, argument, expected| {
        let fault = Fault::WrongValue { argument, expected, found: start.to_string() };
        arguments.fault(code, fault)
    };
    let start = usize::try_from(start)
        .map_err(|_| wrong(Code::SUBSTR_BYTES_START_NEGATIVE, "the start", "0 or more"))?;
    // A negative length means the rest of the text.
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(text.len());
    // A start or an end after the text cuts nothing.
    if start < text.len() && !text.is_char_boundary(start) {
        return Err(wrong(Code::SUBSTR_BYTES_START_IN_CHARACTER, "the start", "between two characters"));
    }
    if end < text.len() && !text.is_char_boundary(end) {
        return Err(wrong(Code::SUBSTR_BYTES_END_IN_CHARACTER, "the end", "between two characters"));
    }
    Ok(Value::text(text.get(start..end).unwrap_or_default()))
}

pub(super) fn part_in_characters<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let text = coerced(arguments, &arguments.value(0)?)?;
    let start = arguments.value(1)?;
    let start_number =
        arguments.int((Code::SUBSTR_CP_START_TYPE, Code::SUBSTR_CP_START_VALUE), "the start", &start)?;
    let length = arguments.value(2)?;
    let length_number =
        arguments.int((Code::SUBSTR_CP_LENGTH_TYPE, Code::SUBSTR_CP_LENGTH_VALUE), "the length", &length)?;
    let count = usize::try_from(length_number).map_err(|_| {
        arguments.wrong_value(Code::SUBSTR_CP_LENGTH_NEGATIVE, "the length", "0 or more", &length)
    })?;
    let skipped = usize::try_from(start_number).map_err(|_| {
        arguments.wrong_value(Code::SUBSTR_CP_START_NEGATIVE, "the start", "0 or more", &start)
    })?;
    Ok(Value::text(text.chars().skip(skipped).take(count).collect::<String>()))
}

pub(super) fn split<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (value, separator_value) = (arguments.value(0)?, arguments.value(1)?);
    if value.is_nullish() || separator_value.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = value.get().and_then(RawBsonRef::as_str);
    let text = text.ok_or_else(|| {
        arguments.wrong_type(Code::SPLIT_TEXT_TYPE, "the first argument", "a string", &value)
    })?;
    let separator = separator_value.get().and_then(RawBsonRef::as_str).ok_or_else(|| {
        arguments.wrong_type(Code::SPLIT_SEPARATOR_TYPE, "the second argument", "a string", &separator_value)
    })?;
    // The standard library would split between all characters; MongoDB rejects it.
    if separator.is_empty() {
        return Err(arguments.wrong_value(
            Code::SPLIT_SEPARATOR_EMPTY,
            "the separator",
            "not empty",
            &separator_value,
        ));
    }
    ArrayBuilder::collect(
        arguments.operator,
        arguments.operation(),
        text.split(separator).map(RawBsonRef::String),
    )
}

pub(super) fn trim<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    trimmed(arguments, |text, letters| text.trim_matches(|letter| letters.has(letter)))
}

pub(super) fn trim_start<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    trimmed(arguments, |text, letters| text.trim_start_matches(|letter| letters.has(letter)))
}

pub(super) fn trim_end<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    trimmed(arguments, |text, letters| text.trim_end_matches(|letter| letters.has(letter)))
}

pub(super) fn replace_one<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    replaced(arguments, 1)
}

pub(super) fn replace_all<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    replaced(arguments, usize::MAX)
}

/// The characters that are trimmed.
enum Letters<'t> {
    Few(&'t str),
    Many(HashSet<char>),
}

impl<'t> Letters<'t> {
    /// Up to how many bytes of characters are gone through for each character of a text: that is faster than hashing
    /// them, and bounded.
    const FEW_BYTES: usize = 64;

    fn of(letters: &'t str) -> Self {
        if letters.len() <= Self::FEW_BYTES {
            Self::Few(letters)
        } else {
            Self::Many(letters.chars().collect())
        }
    }

    fn has(&self, letter: char) -> bool {
        match self {
            Self::Few(letters) => letters.contains(letter),
            Self::Many(letters) => letters.contains(&letter),
        }
    }
}

fn trimmed<'d>(
    arguments: &Arguments<'_, 'd>,
    cut: for<'t> fn(&'t str, &Letters<'_>) -> &'t str,
) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = value.get().and_then(RawBsonRef::as_str);
    let text =
        text.ok_or_else(|| arguments.wrong_type(Code::TRIM_INPUT_TYPE, "input", "a string", &value))?;
    // A null among the arguments makes the result null, and absent characters mean spaces.
    let Some(chars) = arguments.given(1)? else { return Ok(Value::text(cut(text, &Letters::of(SPACES)))) };
    if chars.is_nullish() {
        return Ok(Value::NULL);
    }
    let letters = chars.get().and_then(RawBsonRef::as_str);
    let letters =
        letters.ok_or_else(|| arguments.wrong_type(Code::TRIM_CHARS_TYPE, "chars", "a string", &chars))?;
    Ok(Value::text(cut(text, &Letters::of(letters))))
}

fn replaced<'d>(arguments: &Arguments<'_, 'd>, times: usize) -> Result<Value<'d>, Error> {
    let values = [arguments.value(0)?, arguments.value(1)?, arguments.value(2)?];
    let names = ["input", "find", "replacement"];
    // All types are checked before any null makes the result null: a wrong type is an error beside a null
    // too.
    for ((value, argument), code) in values.iter().zip(names).zip([
        Code::REPLACE_INPUT_TYPE,
        Code::REPLACE_FIND_TYPE,
        Code::REPLACE_REPLACEMENT_TYPE,
    ]) {
        if !value.is_nullish() && value.or_null().as_str().is_none() {
            return Err(arguments.wrong_type(code, argument, "a string or null", value));
        }
    }
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let [text, find, replacement] =
        values.each_ref().map(|value| value.get().and_then(RawBsonRef::as_str).unwrap_or_default());
    // The size is computed first: an empty part to find is found between all characters, and the result may
    // be large.
    let found = text.match_indices(find).take(times).count();
    let grown = found.saturating_mul(replacement.len().saturating_sub(find.len()));
    check_bytes(arguments.operator, text.len().saturating_add(grown))?;
    Ok(Value::text(text.replacen(find, replacement, times)))
}

/// The text that MongoDB makes of a value where an operator needs one. Null is the empty text.
fn coerced(arguments: &Arguments<'_, '_>, value: &Value<'_>) -> Result<String, Error> {
    Ok(match value.or_null() {
        RawBsonRef::Null | RawBsonRef::Undefined => String::new(),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            text.to_owned()
        }
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Double(number) => double_text(number),
        RawBsonRef::Decimal128(number) => number.to_string(),
        RawBsonRef::DateTime(date) => date_text(date.timestamp_millis()),
        RawBsonRef::Timestamp(timestamp) => {
            let millis = i64::from(timestamp.time) * 1_000;
            date_text(DateTime::from_millis(millis).timestamp_millis())
        }
        RawBsonRef::Array(_)
        | RawBsonRef::Document(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_) => {
            return Err(arguments.wrong_type(
                Code::TEXT_CONVERSION_TYPE,
                "an argument",
                "a string, number or date",
                value,
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{binary, check, check_error, decimal, millis};

    #[test]
    fn texts_are_joined() {
        check(bson!({ "$concat": ["a", "$text", ""] }), bson!("aHéllo"));
        check(bson!({ "$concat": [] }), bson!(""));
        check(bson!({ "$concat": ["a", "$missing"] }), Bson::Null);
        check_error(bson!({ "$concat": ["a", 1] }), 16_702);
        let doubled = bson!({ "$concat": ["$$value", "$$value"] });
        let grown = bson!({ "input": { "$range": [0, 30] }, "initialValue": "x", "in": doubled });
        check_error(bson!({ "$reduce": grown }), 10_334);
    }

    #[test]
    fn case_is_that_of_ascii() {
        check(bson!({ "$toLower": "HÉLLO" }), bson!("hÉllo"));
        check(bson!({ "$toUpper": "$text" }), bson!("HéLLO"));
        check(bson!({ "$toUpper": "$missing" }), bson!(""));
        check(bson!({ "$toLower": 1.5 }), bson!("1.5"));
        check(bson!({ "$toLower": (decimal("1.50")) }), bson!("1.50"));
        check(bson!({ "$toLower": (millis(0)) }), bson!("1970-01-01t00:00:00.000z"));
        check(bson!({ "$strcasecmp": ["a", "B"] }), bson!(-1));
        check(bson!({ "$strcasecmp": ["Abc", "aBC"] }), bson!(0));
        check(bson!({ "$strcasecmp": ["b", null] }), bson!(1));
        check_error(bson!({ "$toLower": true }), 16_007);
        check_error(bson!({ "$strcasecmp": [[], "a"] }), 16_007);
    }

    #[test]
    fn lengths_are_bytes_or_characters() {
        check(bson!({ "$strLenBytes": "$text" }), bson!(6));
        check(bson!({ "$strLenCP": "$text" }), bson!(5));
        check(bson!({ "$binarySize": "$text" }), bson!(6));
        check(bson!({ "$binarySize": (binary(&[1, 2, 3])) }), bson!(3));
        check(bson!({ "$binarySize": null }), Bson::Null);
        check_error(bson!({ "$strLenBytes": null }), 34_473);
        check_error(bson!({ "$strLenCP": 1 }), 34_471);
        check_error(bson!({ "$binarySize": 1 }), 51_276);
    }

    #[test]
    fn parts_by_bytes_never_split_a_character() {
        check(bson!({ "$substrBytes": ["$text", 0, 3] }), bson!("Hé"));
        check(bson!({ "$substr": ["$text", 3, -1] }), bson!("llo"));
        check(bson!({ "$substrBytes": ["$text", 9, 3] }), bson!(""));
        check(bson!({ "$substrBytes": [null, 0, 3] }), bson!(""));
        check(bson!({ "$substrBytes": [12_345, 1.9, 2] }), bson!("23"));
        check_error(bson!({ "$substrBytes": ["$text", 2, 3] }), 28_656);
        check_error(bson!({ "$substrBytes": ["$text", 0, 2] }), 28_657);
        check_error(bson!({ "$substrBytes": ["$text", -1, 2] }), 50_752);
        check_error(bson!({ "$substrBytes": ["$text", "x", 2] }), 16_034);
        check_error(bson!({ "$substrBytes": ["$text", 0, null] }), 16_035);
    }

    #[test]
    fn parts_by_characters_count_characters() {
        check(bson!({ "$substrCP": ["$text", 1, 2] }), bson!("él"));
        check(bson!({ "$substrCP": ["$text", 9, 2] }), bson!(""));
        check(bson!({ "$substrCP": ["$missing", 0, 2] }), bson!(""));
        check_error(bson!({ "$substrCP": ["$text", "x", 2] }), 34_450);
        check_error(bson!({ "$substrCP": ["$text", 0.5, 2] }), 34_451);
        check_error(bson!({ "$substrCP": ["$text", 0, "x"] }), 34_452);
        check_error(bson!({ "$substrCP": ["$text", 0, 0.5] }), 34_453);
        check_error(bson!({ "$substrCP": ["$text", 0, -1] }), 34_454);
        check_error(bson!({ "$substrCP": ["$text", -1, 1] }), 34_455);
    }

    #[test]
    fn texts_are_split() {
        check(bson!({ "$split": ["a,b,,c", ","] }), bson!(["a", "b", "", "c"]));
        check(bson!({ "$split": ["", ","] }), bson!([""]));
        check(bson!({ "$split": [null, ","] }), Bson::Null);
        check_error(bson!({ "$split": [1, ","] }), 40_085);
        check_error(bson!({ "$split": ["a", 1] }), 40_086);
        check_error(bson!({ "$split": ["a", ""] }), 40_087);
    }

    #[test]
    fn spaces_or_given_characters_are_trimmed() {
        check(bson!({ "$trim": { "input": " \n a \0\u{a0}" } }), bson!("a"));
        check(bson!({ "$ltrim": { "input": "  a  " } }), bson!("a  "));
        check(bson!({ "$rtrim": { "input": "xxaxx", "chars": "x" } }), bson!("xxa"));
        check(bson!({ "$trim": { "input": "éabé", "chars": "éa" } }), bson!("b"));
        check(bson!({ "$trim": { "input": "$missing" } }), Bson::Null);
        check(bson!({ "$trim": { "input": "a", "chars": null } }), Bson::Null);
        check_error(bson!({ "$trim": "a" }), 50_696);
        check_error(bson!({ "$trim": { "input": "a", "x": 1 } }), 50_694);
        check_error(bson!({ "$trim": {} }), 50_695);
        check_error(bson!({ "$trim": { "input": 1 } }), 50_699);
        check_error(bson!({ "$trim": { "input": "a", "chars": 1 } }), 50_700);
    }

    #[test]
    fn parts_are_replaced() {
        let arguments = |find: &str, replacement: &str| bson!({ "input": "banana", "find": find, "replacement": replacement });
        check(bson!({ "$replaceOne": (arguments("an", "o")) }), bson!("boana"));
        check(bson!({ "$replaceAll": (arguments("an", "o")) }), bson!("booa"));
        check(bson!({ "$replaceAll": (arguments("x", "o")) }), bson!("banana"));
        check(bson!({ "$replaceOne": (arguments("", "o")) }), bson!("obanana"));
        check(bson!({ "$replaceOne": { "input": null, "find": "a", "replacement": "b" } }), Bson::Null);
        check_error(bson!({ "$replaceOne": 1 }), 51_751);
        check_error(bson!({ "$replaceOne": { "x": 1 } }), 51_750);
        check_error(bson!({ "$replaceOne": { "find": "a", "replacement": "a" } }), 51_749);
        check_error(bson!({ "$replaceOne": { "input": "a", "replacement": "a" } }), 51_748);
        check_error(bson!({ "$replaceOne": { "input": "a", "find": "a" } }), 51_747);
        check_error(bson!({ "$replaceOne": { "input": 1, "find": "a", "replacement": "a" } }), 51_746);
        check_error(bson!({ "$replaceOne": { "input": "a", "find": 1, "replacement": "a" } }), 51_745);
        check_error(bson!({ "$replaceOne": { "input": "a", "find": "a", "replacement": 1 } }), 51_744);
    }
}
