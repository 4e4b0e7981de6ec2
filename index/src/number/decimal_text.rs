//! A decimal128 from text, as MongoDB reads it. There is no other reader of decimals in the workspace: that of `bson` reads
//! an empty text and a lone sign, point or exponent as a number.

use bson::Decimal128;

use crate::number::decimal::{COEFFICIENT_MAX, EXPONENT_MAX, EXPONENT_MIN, pack};

/// The most digits that a coefficient has.
const DIGITS_MAX: usize = 34;
const NAN: u128 = 0x7c << 120;
const INFINITY: u128 = 0x78 << 120;
const SIGN: u128 = 1 << 127;

/// A number that was read, and whether it has all digits of its text.
struct Read {
    number: Decimal128,
    is_exact: bool,
}

/// Reads a number: `-1.50`, `2E+3`, `NaN`, `Infinity`. Digits after the 34th are rounded half to even.
///
/// Returns `None` for a text that is not a number, and for a number beyond the range of decimal128.
///
/// ```
/// use cairndb_index::number::parse_decimal;
///
/// assert_eq!(parse_decimal("+.5e3"), Some("5E+2".parse()?));
/// assert_eq!(parse_decimal("1e-9999"), Some("0E-6176".parse()?));
/// assert_eq!(parse_decimal(""), None);
/// # Ok::<(), bson::error::Error>(())
/// ```
pub fn parse_decimal(text: &str) -> Option<Decimal128> {
    read(text).map(|read| read.number)
}

/// Reads a number, and returns `None` as well if a digit other than zero would be lost. So are literals and files read.
///
/// ```
/// use cairndb_index::number::parse_exact_decimal;
///
/// assert_eq!(parse_exact_decimal("1.50"), Some("1.50".parse()?));
/// assert_eq!(parse_exact_decimal("1E-6177"), None);
/// # Ok::<(), bson::error::Error>(())
/// ```
pub fn parse_exact_decimal(text: &str) -> Option<Decimal128> {
    read(text).filter(|read| read.is_exact).map(|read| read.number)
}

fn read(text: &str) -> Option<Read> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let special =
        |bits: u128| Some(Read { number: Decimal128::from_bytes(bits.to_le_bytes()), is_exact: true });
    // The names are read in upper and lower case, and a NaN has no sign.
    if unsigned.eq_ignore_ascii_case("nan") {
        return special(NAN);
    }
    if ["inf", "infinity"].iter().any(|name| unsigned.eq_ignore_ascii_case(name)) {
        return special(if is_negative { INFINITY | SIGN } else { INFINITY });
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    // Leading zeros are not digits of the coefficient.
    let digits = digits.trim_start_matches('0');
    let exponent = exponent.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    finite(is_negative, digits, exponent)
}

/// The number of digits, of which the first is not zero, and an exponent.
fn finite(is_negative: bool, digits: &str, exponent: i64) -> Option<Read> {
    let (least, most) = (i64::from(EXPONENT_MIN), i64::from(EXPONENT_MAX));
    // A zero is never too large or too small: its exponent is clamped.
    if digits.is_empty() {
        let exponent = i32::try_from(exponent.clamp(least, most)).ok()?;
        return pack(is_negative, 0, exponent).map(|number| Read { number, is_exact: true });
    }
    // Digits are dropped for two reasons, and rounded once: a second rounding could mistake the result of the first for
    // an exact half.
    let too_small = usize::try_from(least.saturating_sub(exponent)).unwrap_or(0);
    let dropped = digits.len().saturating_sub(DIGITS_MAX).max(too_small);
    let (kept, cut) = digits.split_at_checked(digits.len().saturating_sub(dropped))?;
    let mut coefficient = if kept.is_empty() { 0 } else { kept.parse::<u128>().ok()? };
    coefficient += u128::from(rounds_up(coefficient, cut, dropped));
    let mut exponent = exponent.saturating_add(i64::try_from(dropped).unwrap_or(i64::MAX));
    // Rounding up 34 nines gives 35 digits, the last of which is zero.
    if coefficient > COEFFICIENT_MAX {
        coefficient /= 10;
        exponent += 1;
    }
    // A coefficient with few digits has room for trailing zeros, each of which makes the exponent smaller by one.
    while exponent > most && coefficient <= COEFFICIENT_MAX / 10 && coefficient > 0 {
        coefficient *= 10;
        exponent -= 1;
    }
    let number = pack(is_negative, coefficient, i32::try_from(exponent).ok()?)?;
    Some(Read { number, is_exact: cut.bytes().all(|byte| byte == b'0') })
}

/// Whether the digits that are cut off are more than half of a unit, or half of one that is then even. `dropped` may be
/// more than the digits, which then have zeros before them.
fn rounds_up(kept: u128, cut: &str, dropped: usize) -> bool {
    let (first, rest) = match cut.as_bytes().split_first() {
        Some((first, rest)) if cut.len() == dropped => (*first, rest),
        Some(_) | None => return false,
    };
    let is_beyond = rest.iter().any(|digit| *digit != b'0');
    first > b'5' || first == b'5' && (is_beyond || !kept.is_multiple_of(2))
}

/// Reads an exponent. One of more than six digits becomes 1,000,000, which no decimal has.
fn parse_exponent(text: &str) -> Option<i64> {
    const BEYOND: i64 = 1_000_000;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // An exponent that no integer holds saturates: the number is zero or too large anyway.
    let magnitude = digits.parse::<i64>().map_or(BEYOND, |exponent| exponent.min(BEYOND));
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(parse_decimal(text).map(|number| number.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn texts_are_read_and_rounded() {
        check("1.50", Some("1.50"));
        check("-0", Some("-0"));
        check("+.5e3", Some("5E+2"));
        check("00012.", Some("12"));
        check("nan", Some("NaN"));
        check("-Infinity", Some("-Infinity"));
        check("iNf", Some("Infinity"));
        check("1e-9999", Some("0E-6176"));
        check("0e9999", Some("0E+6111"));
        check("0.00000000000000000000000000000000000000000000000000000000000000001", Some("1E-65"));
        check("99999999999999999999999999999999995", Some("1.000000000000000000000000000000000E+35"));
        check("1e6144", Some("1.000000000000000000000000000000000E+6144"));
        check(
            &format!("10000000000000000000000000000000005{}1", "0".repeat(40)),
            Some("1.000000000000000000000000000000001E+75"),
        );
    }

    /// Half of the smallest number is rounded to zero, which is even; more than half is not.
    #[test]
    fn numbers_below_the_smallest_are_rounded_once() {
        check("5E-6177", Some("0E-6176"));
        check("5.0000001E-6177", Some("1E-6176"));
        check("15E-6177", Some("2E-6176"));
        check("9E-6178", Some("0E-6176"));
    }

    /// The values that `bson` reads as 0, 1 and other numbers, and the parse errors of the BSON corpus for decimals.
    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            " ",
            "-",
            "+",
            ".",
            "-.",
            "..1",
            "1..2",
            ".e1",
            "E",
            "E1",
            "E01",
            "e+1",
            "-e",
            "1e",
            "1e+",
            "1e-",
            "1x",
            " 1",
            "1 ",
            "0x1",
            "1e9999",
            "1e6145",
            "1.2.3",
            "é",
            "1e1.1",
            "1e1e1",
            "1+1",
            "--1",
            "++1",
            "+-1",
            "-+32.4",
            "NaN1",
            "sNaN",
            "Infi",
            "Infinityx",
            "in",
            "1_000",
            "1,5",
            "1E++1",
            "1E+-1",
            "1E 1",
            "１",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn no_digit_is_lost_where_numbers_are_to_be_exact() {
        let is_exact = |text: &str| parse_exact_decimal(text).is_some();
        assert!(is_exact("1.50") && is_exact("NaN") && is_exact("0e-9999") && is_exact("1E+6144"));
        // Zeros may be dropped.
        assert!(is_exact("10000000000000000000000000000000000000000"));
        assert!(is_exact("10E-6177"));
        for text in ["100000000000000000000000000000000000000000000000000000000001", "1E-6177", "12E-6177"] {
            assert!(!is_exact(text), "{text}");
            assert!(parse_decimal(text).is_some(), "{text}");
        }
    }
}
