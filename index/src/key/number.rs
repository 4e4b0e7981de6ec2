//! The bytes of a number after its tag. Positive numbers are written as below, negative ones with
//! every byte complemented. NaN and zero have a tag and no bytes.
//!
//! ```text
//! 5 bytes  the upper 39 bits of the double, without its sign, and a bit: whether more follows
//! 3 bytes  the lower 24 bits of the double
//! 2 bytes  from 2^53 up to 2^63: units beyond the double (15 bits), and a bit: whether digits follow
//! 1 byte   elsewhere: whether digits follow
//! 2 bytes  the decimal exponent of the first digit, biased
//! 4 bytes  nine digits (31 bits), and a bit: whether another group follows
//! ```
//!
//! Each part is written only if the bit before it is set. That bit is the lowest of its bytes, and it is
//! clear exactly if only zeros would follow. So a number that ends sorts below all numbers that continue
//! after the same bytes, and the bytes sort as the parts of a [`Magnitude`] do.

use std::cmp::Reverse;

use super::bytes::Reader;
use super::layout::{
    DECIMAL_EXPONENT_BIAS, DIGIT_GROUP, Direction, TAG_NAN, TAG_NEGATIVE, TAG_POSITIVE, TAG_ZERO,
};
use crate::error::Error;
use crate::number::{DIGITS_ALIGNED, Digits, Magnitude, Number, Parts, is_counted_in_units, split_integer};

const LOW_BITS: u32 = 24;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
const GROUPS: u32 = DIGITS_ALIGNED / 9;

/// Appends a number: its tag and its bytes.
pub(super) fn write_number(number: Number, key: &mut Vec<u8>) {
    let (sign, magnitude) = match number.parts() {
        Parts::Nan => return key.push(TAG_NAN),
        Parts::Zero => return key.push(TAG_ZERO),
        Parts::Positive(magnitude) => (Sign::Positive, magnitude),
        Parts::Negative(Reverse(magnitude)) => (Sign::Negative, magnitude),
    };
    let Magnitude { double, units, digits } = *magnitude;
    write_double_and_rest(sign, double, AfterDouble { units, has_digits: u16::from(digits.is_some()) }, key);
    if let Some(digits) = digits {
        write_digits(sign, digits, key);
    }
}

/// Appends an integer, with the same bytes as [`write_number`], but without splitting a [`Number`].
#[inline]
pub(super) fn write_integer(value: i64, key: &mut Vec<u8>) {
    if value == 0 {
        return key.push(TAG_ZERO);
    }
    let (double, units) = split_integer(value.unsigned_abs());
    let sign = if value < 0 { Sign::Negative } else { Sign::Positive };
    write_double_and_rest(sign, double, AfterDouble { units, has_digits: 0 }, key);
}

/// Appends a double, with the same bytes as [`write_number`], but without splitting a [`Number`].
#[inline]
pub(super) fn write_double(value: f64, key: &mut Vec<u8>) {
    // The bits of positive doubles sort as their values do.
    let magnitude = value.abs().to_bits();
    if magnitude == 0 {
        key.push(TAG_ZERO);
    } else if value.is_nan() {
        key.push(TAG_NAN);
    } else {
        let sign = if value < 0.0 { Sign::Negative } else { Sign::Positive };
        write_double_and_rest(sign, magnitude, AfterDouble { units: 0, has_digits: 0 }, key);
    }
}

/// Which of the two tags with bytes a number has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Negative,
    Positive,
}

/// The part of a number beyond its double.
#[derive(Clone, Copy)]
struct AfterDouble {
    /// Whole units beyond the double.
    units: u16,
    /// 1 if decimal digits follow, else 0: the bit as it is written.
    has_digits: u16,
}

/// Appends the tag, the double, and the units with the bit that says whether digits follow.
#[inline]
fn write_double_and_rest(sign: Sign, double: u64, after: AfterDouble, key: &mut Vec<u8>) {
    let AfterDouble { units, has_digits } = after;
    let low = double & LOW_MASK;
    let goes_on = low != 0 || units != 0 || has_digits != 0;
    let head = (double >> LOW_BITS) << 1 | u64::from(goes_on);
    if !goes_on {
        // Nearly all integers in practice end here: tag and head are one write of six bytes.
        let whole = match sign {
            Sign::Positive => u64::from(TAG_POSITIVE) << 40 | head,
            Sign::Negative => u64::from(TAG_NEGATIVE) << 40 | head ^ u64::MAX >> 24,
        };
        let [_, _, bytes @ ..] = whole.to_be_bytes();
        return key.extend_from_slice(&bytes);
    }
    // A double from 2^53 to 2^63 has integers between itself and the next one; elsewhere one bit is enough.
    let counted = is_counted_in_units(double);
    let last = if counted { units << 1 | has_digits } else { has_digits << 8 };
    let whole = u128::from(head) << 80 | u128::from(low) << 56 | u128::from(last) << 40;
    let whole = match sign {
        Sign::Positive => u128::from(TAG_POSITIVE) << 120 | whole,
        Sign::Negative => u128::from(TAG_NEGATIVE) << 120 | whole ^ u128::MAX >> 8,
    };
    // An array of known size is copied by a few instructions, a slice by a call.
    let bytes = whole.to_be_bytes();
    if counted {
        key.extend_from_slice(first::<11>(&bytes));
    } else {
        key.extend_from_slice(first::<10>(&bytes));
    }
}

#[inline]
fn first<const N: usize>(bytes: &[u8; 16]) -> &[u8; N] {
    bytes.first_chunk().expect("no more than sixteen are asked for")
}

fn write_digits(sign: Sign, digits: Digits, key: &mut Vec<u8>) {
    let start = key.len();
    let exponent = u16::try_from(digits.exponent + DECIMAL_EXPONENT_BIAS);
    let exponent = exponent.expect("a decimal's first digit is at an exponent of -6176 to 6144");
    key.extend_from_slice(&exponent.to_be_bytes());
    // The digits are aligned to the first one, so trailing groups of zeros can be left out.
    let mut rest = digits.aligned;
    for following in (0..GROUPS).rev() {
        let unit = u128::from(DIGIT_GROUP).pow(following);
        let group = u32::try_from(rest / unit).expect("no more digits than groups hold");
        rest %= unit;
        key.extend_from_slice(&(group << 1 | u32::from(rest != 0)).to_be_bytes());
        if rest == 0 {
            break;
        }
    }
    // Among negative numbers the one with more digits is smaller, which the complement gives.
    if sign == Sign::Negative {
        key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// The length of the key of a number whose double ends with zeros: its tag, and five bytes.
pub(super) const SHORT_BYTES: usize = 6;

/// The number at the front of a field's bytes, if its key is [`SHORT_BYTES`] long. Nearly all integers in practice have such a
/// key, and are read here in a few instructions. Returns `None` for all other bytes.
#[inline]
pub(super) fn read_short(key: &[u8], direction: Direction) -> Option<f64> {
    const HEAD_BITS: u32 = 40;
    const HEAD: u64 = (1 << HEAD_BITS) - 1;
    let [tag, b0, b1, b2, b3, b4]: [u8; SHORT_BYTES] = *key.first_chunk()?;
    let stored = u64::from_be_bytes([0, 0, tag, b0, b1, b2, b3, b4]);
    let whole = match direction {
        Direction::Ascending => stored,
        Direction::Descending => stored ^ u64::MAX >> 16,
    };
    let (sign, head) = match whole >> HEAD_BITS {
        tag if tag == u64::from(TAG_POSITIVE) => (0, whole & HEAD),
        tag if tag == u64::from(TAG_NEGATIVE) => (1 << 63, whole & HEAD ^ HEAD),
        _ => return None,
    };
    let magnitude = (head >> 1) << LOW_BITS;
    // Zero has a tag of its own, and the bits above those of infinity are not numbers.
    let is_number = (1..=f64::INFINITY.to_bits()).contains(&magnitude);
    (head & 1 == 0 && is_number).then_some(f64::from_bits(sign | magnitude))
}

/// Reads the number after `tag`. Bytes that [`write_number`] never writes are an error.
pub(super) fn read_number(tag: u8, reader: &mut Reader<'_>) -> Result<Number, Error> {
    let parts = match tag {
        TAG_NAN => Parts::Nan,
        TAG_ZERO => Parts::Zero,
        TAG_POSITIVE => Parts::Positive(read_magnitude(tag, reader)?),
        TAG_NEGATIVE => Parts::Negative(Reverse(read_magnitude(tag, reader)?)),
        value => return Err(Error::KeyMalformed { expected: "a number", value }),
    };
    Ok(Number::from_parts(parts))
}

/// Moves past the bytes of a magnitude.
pub(super) fn skip_magnitude(tag: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
    read_parts(tag, reader).map(drop)
}

fn read_magnitude(tag: u8, reader: &mut Reader<'_>) -> Result<Magnitude, Error> {
    let magnitude = read_parts(tag, reader)?;
    // Every value has one form. Any other bytes would decode to a value whose own key differs.
    if magnitude.is_canonical() { Ok(magnitude) } else { Err(malformed("a number in its one form", tag)) }
}

fn read_parts(tag: u8, reader: &mut Reader<'_>) -> Result<Magnitude, Error> {
    let complement = tag == TAG_NEGATIVE;
    let [b0, b1, b2, b3, b4] = read(complement, reader)?;
    let head = u64::from_be_bytes([0, 0, 0, b0, b1, b2, b3, b4]);
    let upper = (head >> 1) << LOW_BITS;
    if head & 1 == 0 {
        return Ok(Magnitude { double: upper, units: 0, digits: None });
    }
    let [b0, b1, b2] = read(complement, reader)?;
    let double = upper | u64::from(u32::from_be_bytes([0, b0, b1, b2]));
    let (units, has_digits) = if is_counted_in_units(double) {
        let last = u16::from_be_bytes(read(complement, reader)?);
        (last >> 1, last & 1 == 1)
    } else {
        match read(complement, reader)? {
            [0] => (0, false),
            [1] => (0, true),
            [value] => return Err(malformed("0 or 1 after a double", value)),
        }
    };
    // The bit said that more follows, but only zeros did.
    if double == upper && units == 0 && !has_digits {
        return Err(malformed("more of a number", tag));
    }
    let digits = if has_digits { Some(read_digits(complement, reader)?) } else { None };
    Ok(Magnitude { double, units, digits })
}

fn read_digits(complement: bool, reader: &mut Reader<'_>) -> Result<Digits, Error> {
    let exponent = i32::from(u16::from_be_bytes(read(complement, reader)?)) - DECIMAL_EXPONENT_BIAS;
    let mut aligned = 0;
    let mut unit = u128::from(DIGIT_GROUP).pow(GROUPS);
    loop {
        let bytes = read(complement, reader)?;
        let group = u32::from_be_bytes(bytes);
        let [first, ..] = bytes;
        // The first digit is not zero, the last group is not all zeros, and there are at most four groups.
        let is_first = aligned == 0;
        let is_last = group & 1 == 0;
        let value = group >> 1;
        let smallest = if is_first { DIGIT_GROUP / 10 } else { u32::from(is_last) };
        if value < smallest || value >= DIGIT_GROUP || unit == 1 {
            return Err(malformed("a group of nine digits", first));
        }
        unit /= u128::from(DIGIT_GROUP);
        aligned += u128::from(value) * unit;
        if is_last {
            return Ok(Digits { exponent, aligned });
        }
    }
}

fn read<const N: usize>(complement: bool, reader: &mut Reader<'_>) -> Result<[u8; N], Error> {
    let bytes = reader.array()?;
    Ok(if complement { bytes.map(|byte| !byte) } else { bytes })
}

fn malformed(expected: &'static str, value: u8) -> Error {
    Error::KeyMalformed { expected, value }
}
