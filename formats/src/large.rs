//! Numbers of JSON that no 64 bits hold. The JSON parser makes doubles of them, rounded, so their texts are found before it
//! reads the record.
//!
//! Most records have none: only one with a run of digits as long as these have is looked at byte by byte.

use std::collections::VecDeque;

use memchr::memchr2;

/// The digits of the first integer that 64 bits with a sign do not hold.
const DIGITS_MIN: usize = 19;
/// The double next to it. Numbers from it on are those that are found here, whatever their form.
const LEAST: f64 = 9_223_372_036_854_775_808.0;

/// The treatment of an integer that 64 bits do not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LargeIntegers {
    /// The record is rejected, unless a double has all its digits.
    #[default]
    Refuse,
    /// A decimal128; the record is rejected if that has not all its digits either.
    Decimal,
    /// The double that is nearest.
    Double,
}

/// The numbers of a record whose doubles are as large as such integers, in their order.
pub(crate) type LargeNumbers = VecDeque<LargeNumber>;

/// A number whose double is as large as an integer that 64 bits do not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LargeNumber {
    /// The text of such an integer.
    Integer(String),
    /// A number with a point or an exponent, which is a double.
    Double,
}

/// Whether a double may be one of an integer that 64 bits do not hold.
pub(crate) fn is_large(number: f64) -> bool {
    number.abs() >= LEAST
}

/// Finds the large numbers of a record. The record need not be JSON: what is not will be rejected.
pub(crate) fn large_numbers(record: &[u8]) -> LargeNumbers {
    let mut found = LargeNumbers::new();
    if !has_long_digits(record) {
        return found;
    }
    let mut rest = record;
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'"' => after_text(after),
            b'-' | b'0'..=b'9' => {
                let end = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                found.extend(large(number));
                after
            }
            _ => after,
        };
    }
    found
}

fn is_part(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

/// A number, if it is large.
fn large(number: &[u8]) -> Option<LargeNumber> {
    let text = std::str::from_utf8(number).ok()?;
    let is_integer = !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    // An integer that 64 bits hold is read as one, and the option does not matter.
    let is_large = text.parse::<i64>().is_err() && text.parse::<f64>().is_ok_and(is_large);
    is_large.then(|| if is_integer { LargeNumber::Integer(text.to_owned()) } else { LargeNumber::Double })
}

/// Whether there are digits enough in a row. Every such row has one at a multiple of its length.
fn has_long_digits(record: &[u8]) -> bool {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    (DIGITS_MIN - 1..record.len()).step_by(DIGITS_MIN).any(|at| {
        let (before, after) = record.split_at(at);
        let before = before.iter().rev().take(DIGITS_MIN - 1).take_while(is_digit).count();
        let after = after.iter().take(DIGITS_MIN).take_while(is_digit).count();
        after > 0 && before + after >= DIGITS_MIN
    })
}

/// Reads after a string of which the first quote was read.
fn after_text(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', text) {
        let is_end = text.get(at) == Some(&b'"');
        text = text.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: &str, expected: &[Option<&str>]) {
        let found = large_numbers(record.as_bytes());
        let texts = found.iter().map(|number| match number {
            LargeNumber::Integer(text) => Some(text.as_str()),
            LargeNumber::Double => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), expected, "{record}");
    }

    #[test]
    fn integers_beyond_64_bits_are_found_in_their_order() {
        let large = "9223372036854775808";
        check(
            r#"{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808}"#,
            &[Some(large)],
        );
        check(r#"{"a":9223372036854775808}"#, &[Some(large)]);
        check(
            r#"{"a":[1e30,9223372036854775808,{"b":-9223372036854775809}]}"#,
            &[None, Some(large), Some("-9223372036854775809")],
        );
        check(r#"{"a":"9223372036854775808","b":9223372036854775808.5,"9223372036854775808":1}"#, &[None]);
        check(r#"{"a\"":"\\","b":9223372036854775808}"#, &[Some(large)]);
        check(r#"{"a":1e30}"#, &[]);
        for before in 0..40 {
            check(&format!("{}{large}", " ".repeat(before)), &[Some(large)]);
        }
        check("\"9223372036854775808", &[]);
    }
}
