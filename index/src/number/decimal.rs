//! Conversion of decimal128 to its sign, coefficient and exponent and back, without arithmetic.
//!
//! BSON stores IEEE 754-2008 decimal128 with a binary integer coefficient, little-endian. A finite value
//! whose coefficient has more than 34 digits is not canonical and counts as zero.

use bson::Decimal128;

/// The largest coefficient: 34 nines.
pub const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
/// The smallest exponent of a coefficient.
pub const EXPONENT_MIN: i32 = -6176;
/// The largest exponent of a coefficient.
pub const EXPONENT_MAX: i32 = 6111;

const SIGN_BIT: u32 = 127;
const EXPONENT_MASK: u16 = (1 << 14) - 1;
const COEFFICIENT_BITS: u32 = 113;

/// The parts of a decimal128.
///
/// ```
/// use cairndb_index::number::{Decimal, unpack};
///
/// let price: bson::Decimal128 = "-1.50".parse()?;
/// assert_eq!(unpack(price), Decimal::Finite { negative: true, coefficient: 150, exponent: -2 });
/// # Ok::<(), bson::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// Not a number, of any sign, kind and payload.
    Nan,
    /// Positive or negative infinity.
    Infinity {
        /// Whether it is negative infinity.
        negative: bool,
    },
    /// `coefficient` * 10^`exponent`, negated if `negative`.
    Finite {
        /// Whether the sign bit is set; a zero can be negative too.
        negative: bool,
        /// At most [`COEFFICIENT_MAX`].
        coefficient: u128,
        /// From [`EXPONENT_MIN`] to [`EXPONENT_MAX`].
        exponent: i32,
    },
}

/// The parts of a decimal128. Every bit pattern has a meaning.
pub fn unpack(decimal: Decimal128) -> Decimal {
    let bits = u128::from_le_bytes(decimal.bytes());
    let negative = bits >> SIGN_BIT == 1;
    // Five ones mark a NaN, four ones and a zero an infinity; whatever else the bits hold does not matter
    // then.
    let combination = bits >> (SIGN_BIT - 5) & 0b1_1111;
    if combination == 0b1_1111 {
        return Decimal::Nan;
    }
    if combination == 0b1_1110 {
        return Decimal::Infinity { negative };
    }
    // With both leading bits set the coefficient starts with the binary digits 100, so it has more than 34
    // decimal digits. IEEE 754 counts such a value as zero; only its exponent is read.
    let (exponent_shift, coefficient) = if combination >> 3 == 0b11 {
        (COEFFICIENT_BITS - 2, 0)
    } else {
        (COEFFICIENT_BITS, bits & ((1 << COEFFICIENT_BITS) - 1))
    };
    #[expect(clippy::cast_possible_truncation, reason = "the mask leaves 14 bits")]
    let biased = (bits >> exponent_shift) as u16 & EXPONENT_MASK;
    let exponent = i32::from(biased) + EXPONENT_MIN;
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    Decimal::Finite { negative, coefficient, exponent }
}

/// The finite decimal128 with the given parts. Returns `None` if a part is out of its range.
pub fn pack(negative: bool, coefficient: u128, exponent: i32) -> Option<Decimal128> {
    if coefficient > COEFFICIENT_MAX || exponent > EXPONENT_MAX {
        return None;
    }
    let biased = u128::try_from(exponent.checked_sub(EXPONENT_MIN)?).ok()?;
    let bits = u128::from(negative) << SIGN_BIT | biased << COEFFICIENT_BITS | coefficient;
    Some(Decimal128::from_bytes(bits.to_le_bytes()))
}

/// Removes the trailing zeros of a coefficient other than zero, so that equal values have equal parts.
/// Returns the coefficient, the exponent, and the number of zeros removed.
pub(super) fn strip_zeros(mut coefficient: u128, mut exponent: i32) -> (u128, i32, u8) {
    let mut zeros = 0;
    while coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
        zeros += 1;
    }
    (coefficient, exponent, zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, negative: bool, coefficient: u128, exponent: i32) {
        let decimal: Decimal128 = text.parse().unwrap();
        assert_eq!(unpack(decimal), Decimal::Finite { negative, coefficient, exponent }, "{text}");
        assert_eq!(pack(negative, coefficient, exponent), Some(decimal), "{text}");
    }

    #[test]
    fn finite_values_come_apart_and_together() {
        check("0", false, 0, 0);
        check("-0.00", true, 0, -2);
        check("1.50", false, 150, -2);
        check("-7E+3", true, 7, 3);
        check("9999999999999999999999999999999999E+6111", false, COEFFICIENT_MAX, EXPONENT_MAX);
        check("1E-6176", false, 1, EXPONENT_MIN);
    }

    #[test]
    fn parts_out_of_range_make_no_decimal() {
        assert_eq!(pack(false, COEFFICIENT_MAX + 1, 0), None);
        assert_eq!(pack(false, 1, EXPONENT_MAX + 1), None);
        assert_eq!(pack(false, 1, EXPONENT_MIN - 1), None);
        assert_eq!(pack(false, 1, i32::MIN), None);
        assert_eq!(pack(false, 1, i32::MAX), None);
    }

    #[test]
    fn special_values_are_recognized() {
        assert_eq!(unpack("NaN".parse().unwrap()), Decimal::Nan);
        assert_eq!(unpack("Infinity".parse().unwrap()), Decimal::Infinity { negative: false });
        assert_eq!(unpack("-Infinity".parse().unwrap()), Decimal::Infinity { negative: true });
        assert_eq!(unpack(Decimal128::from_bytes([0xff; 16])), Decimal::Nan);
    }

    #[test]
    fn a_coefficient_beyond_34_digits_is_zero() {
        let large = Decimal128::from_bytes((COEFFICIENT_MAX + 1).to_le_bytes());
        assert_eq!(
            unpack(large),
            Decimal::Finite { negative: false, coefficient: 0, exponent: EXPONENT_MIN }
        );
        let long_form = Decimal128::from_bytes((0b111_u128 << 125 | 7 << 111 | 5).to_le_bytes());
        let exponent = 7 + EXPONENT_MIN;
        assert_eq!(unpack(long_form), Decimal::Finite { negative: true, coefficient: 0, exponent });
    }

    #[test]
    fn trailing_zeros_are_counted() {
        assert_eq!(strip_zeros(1500, -2), (15, 0, 2));
        assert_eq!(strip_zeros(10_u128.pow(33), EXPONENT_MAX), (1, 6144, 33));
    }
}
