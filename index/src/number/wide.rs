//! Natural numbers of any size, with the operations that compare a decimal with a binary fraction.
//!
//! Used only for decimals that no cheaper test decides. The callers bound the size: a decimal in the
//! range of doubles needs fewer than 1,000 bits here.

use std::cmp::Ordering;

/// A natural number: 64-bit limbs, the least significant first, without leading zero limbs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wide {
    limbs: Vec<u64>,
}

/// The value of a finite double: `mantissa` * 2^`power`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BinaryFloat {
    pub(super) mantissa: u64,
    pub(super) power: i32,
}

/// Compares `coefficient` * 10^`exponent` with a double, exactly.
pub(super) fn compare_decimal_with_binary(coefficient: u128, exponent: i32, double: BinaryFloat) -> Ordering {
    // 10^x is 5^x * 2^x. A negative power of five moves to the other side, so no division is needed. The
    // powers of two of both sides become one shift of the side that has more of them.
    let mut decimal = Wide::new(coefficient);
    let mut binary = Wide::new(u128::from(double.mantissa));
    let fives = exponent.unsigned_abs();
    let with_fives = if exponent >= 0 { &mut decimal } else { &mut binary };
    with_fives.multiply_by_power_of_five(fives);
    let shift = exponent - double.power;
    let with_twos = if shift >= 0 { &mut decimal } else { &mut binary };
    with_twos.shift_left(shift.unsigned_abs());
    decimal.compare(&binary)
}

/// The exponent of the largest power of five in 64 bits.
const FIVES_STEP: u32 = 27;

impl Wide {
    fn new(value: u128) -> Self {
        let mut wide = Self { limbs: Vec::with_capacity(20) };
        wide.limbs.push(low_limb(value));
        wide.limbs.push(low_limb(value >> 64));
        wide.trim();
        wide
    }

    fn multiply_by_power_of_five(&mut self, mut exponent: u32) {
        while exponent > 0 {
            let step = exponent.min(FIVES_STEP);
            self.multiply(5_u64.pow(step));
            exponent -= step;
        }
    }

    fn multiply(&mut self, factor: u64) {
        let mut carry = 0_u128;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = low_limb(product);
            carry = product >> 64;
        }
        if carry > 0 {
            self.limbs.push(low_limb(carry));
        }
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply(1 << (bits % 64));
        let whole_limbs = (bits / 64) as usize;
        self.limbs.splice(0..0, std::iter::repeat_n(0, whole_limbs));
        self.trim();
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        // Without leading zero limbs, the number with more limbs is the larger one.
        let by_size = self.limbs.len().cmp(&other.limbs.len());
        by_size.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the higher half is the next limb")]
fn low_limb(value: u128) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(decimal: (u128, i32), binary: (u64, i32), expected: Ordering) {
        let double = BinaryFloat { mantissa: binary.0, power: binary.1 };
        assert_eq!(compare_decimal_with_binary(decimal.0, decimal.1, double), expected);
    }

    #[test]
    fn small_values_compare() {
        check((1, 0), (1, 0), Ordering::Equal);
        check((5, -1), (1, -1), Ordering::Equal);
        check((1, 1), (5, 1), Ordering::Equal);
        check((1, -1), (1, -3), Ordering::Less);
        check((1, -1), (1, -4), Ordering::Greater);
        check((0, 5), (0, -9), Ordering::Equal);
    }

    #[test]
    fn values_beyond_one_limb_compare() {
        check((u128::MAX, 0), (1, 128), Ordering::Less);
        check((1 << 127, 0), (1, 127), Ordering::Equal);
        check((1, 308), (1, 1023), Ordering::Greater);
        check((1, 308), (1, 1024), Ordering::Less);
        check((5, -324), (1, -1074), Ordering::Greater);
        check((4, -324), (1, -1074), Ordering::Less);
    }

    #[test]
    fn a_double_equals_its_full_decimal_expansion() {
        // 2^-60 has 42 significant digits; 2^-40 has 28 and fits a decimal128 coefficient.
        check((5_u128.pow(40), -40), (1, -40), Ordering::Equal);
        check((5_u128.pow(40) + 1, -40), (1, -40), Ordering::Greater);
        check((5_u128.pow(40) - 1, -40), (1, -40), Ordering::Less);
    }
}
