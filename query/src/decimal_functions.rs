//! Roots, powers, logarithms and trigonometry of decimals, to their 34 digits, by the crate `astro-float-num`.
//!
//! A decimal is read into a binary number that has more than three times its digits, because a difference can cost all that it
//! has: that of a logarithm's argument from 1, or that of an angle from a multiple of pi. The result is computed with 57 digits,
//! and rounded to 34. Whether an argument is allowed is for the callers to say.

use std::cell::RefCell;

use astro_float_num::{BigFloat, Consts, Radix, RoundingMode};
use bson::Decimal128;
use index::number::parse_decimal;

use crate::decimal;

/// Of the number that a decimal is read into.
const READ_BITS: usize = 384;
/// Of a result.
const BITS: usize = 192;
const ROUNDING: RoundingMode = RoundingMode::ToEven;
const WORD_BITS: usize = 64;

thread_local! {
    /// Constants such as pi, as far as they were needed.
    static CONSTANTS: RefCell<Option<Consts>> = const { RefCell::new(None) };
}

/// The cost of a function, in steps of an operation. Angles far from zero are divided by a pi of as many digits as
/// they have.
pub(crate) fn steps(value: Decimal128) -> u64 {
    const STEPS: u64 = 100;
    let words = (bits_of_whole(value) / WORD_BITS) as u64;
    STEPS + words * words
}

/// The number of bits before the point, about.
fn bits_of_whole(value: Decimal128) -> usize {
    let text = value.to_string();
    let (mantissa, exponent) = text.split_once(['E', 'e']).unwrap_or((&text, "0"));
    // A sign counts as a digit, which does no harm.
    let digits = mantissa.split('.').next().unwrap_or_default().len();
    let exponent = exponent.parse::<isize>().unwrap_or(0);
    // A digit has 3.33 bits.
    digits.saturating_add_signed(exponent) * 10 / 3 + 1
}

/// Reads a decimal, exactly where it has so many bits.
fn read(value: Decimal128, bits: usize, constants: &mut Consts) -> BigFloat {
    BigFloat::parse(&value.to_string().to_lowercase(), Radix::Dec, bits, ROUNDING, constants)
}

/// Rounds to 34 digits. Zeros at the end of a fraction say nothing.
fn write(number: &BigFloat, constants: &mut Consts) -> Decimal128 {
    let Ok(text) = number.format(Radix::Dec, ROUNDING, constants) else { return decimal::nan() };
    // It has 57 digits, and reading rounds them once.
    match parse_decimal(&text) {
        Some(value) => decimal::shortest(value),
        // Beyond the range.
        None => decimal::infinity(number.is_negative()),
    }
}

/// Computes with the thread's constants, and rounds.
fn compute(function: impl FnOnce(&mut Consts) -> BigFloat) -> Decimal128 {
    CONSTANTS.with_borrow_mut(|constants| {
        if constants.is_none() {
            *constants = Consts::new().ok();
        }
        // Without memory for a few words there is no answer either.
        let Some(constants) = constants else { return decimal::nan() };
        let number = function(constants);
        write(&number, constants)
    })
}

/// A function of one number.
fn of(value: Decimal128, function: impl FnOnce(&BigFloat, &mut Consts) -> BigFloat) -> Decimal128 {
    compute(|constants| function(&read(value, READ_BITS, constants), constants))
}

/// A function whose value depends on every digit of the part before the point.
fn of_angle(value: Decimal128, function: impl FnOnce(&BigFloat, &mut Consts) -> BigFloat) -> Decimal128 {
    compute(|constants| function(&read(value, READ_BITS + bits_of_whole(value), constants), constants))
}

/// The square root. Of a number below zero it is NaN.
pub(crate) fn sqrt(value: Decimal128) -> Decimal128 {
    of(value, |number, _| number.sqrt(BITS, ROUNDING))
}

/// e to the power of the number.
pub(crate) fn exp(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.exp(BITS, ROUNDING, constants))
}

/// The logarithm to the base e.
pub(crate) fn ln(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.ln(BITS, ROUNDING, constants))
}

/// The logarithm to the base 10.
pub(crate) fn log10(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.log10(BITS, ROUNDING, constants))
}

/// The logarithm of a number to a base that is above 0 and not 1.
pub(crate) fn log(value: Decimal128, base: Decimal128) -> Decimal128 {
    of(value, |number, constants| {
        // Both with all bits: a quotient of two that are rounded would be wrong in its last digits.
        let dividend = number.ln(READ_BITS, ROUNDING, constants);
        let divisor = read(base, READ_BITS, constants).ln(READ_BITS, ROUNDING, constants);
        dividend.div(&divisor, BITS, ROUNDING)
    })
}

/// The power. Of a number below zero it is NaN unless the exponent is whole.
pub(crate) fn pow(base: Decimal128, exponent: Decimal128) -> Decimal128 {
    of(base, |number, constants| {
        // An exponent of 34 digits needs as many from the result.
        let exponent = read(exponent, READ_BITS, constants);
        number.pow(&exponent, BITS, ROUNDING, constants)
    })
}

/// The sine of an angle in radians.
pub(crate) fn sin(value: Decimal128) -> Decimal128 {
    of_angle(value, |number, constants| number.sin(BITS, ROUNDING, constants))
}

/// The cosine of an angle in radians.
pub(crate) fn cos(value: Decimal128) -> Decimal128 {
    of_angle(value, |number, constants| number.cos(BITS, ROUNDING, constants))
}

/// The tangent of an angle in radians.
pub(crate) fn tan(value: Decimal128) -> Decimal128 {
    of_angle(value, |number, constants| number.tan(BITS, ROUNDING, constants))
}

/// The angle of a sine, from -pi/2 to pi/2.
pub(crate) fn asin(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.asin(BITS, ROUNDING, constants))
}

/// The angle of a cosine, from 0 to pi.
pub(crate) fn acos(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.acos(BITS, ROUNDING, constants))
}

/// The angle of a tangent, from -pi/2 to pi/2.
pub(crate) fn atan(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.atan(BITS, ROUNDING, constants))
}

/// The hyperbolic sine.
pub(crate) fn sinh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.sinh(BITS, ROUNDING, constants))
}

/// The hyperbolic cosine.
pub(crate) fn cosh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.cosh(BITS, ROUNDING, constants))
}

/// The hyperbolic tangent.
pub(crate) fn tanh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.tanh(BITS, ROUNDING, constants))
}

/// The number whose hyperbolic sine it is.
pub(crate) fn asinh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.asinh(BITS, ROUNDING, constants))
}

/// The number from 0 on whose hyperbolic cosine it is. Below 1 there is none, and so NaN.
pub(crate) fn acosh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.acosh(BITS, ROUNDING, constants))
}

/// The number whose hyperbolic tangent it is. Beyond -1 and 1 there is none, and so NaN.
pub(crate) fn atanh(value: Decimal128) -> Decimal128 {
    of(value, |number, constants| number.atanh(BITS, ROUNDING, constants))
}

/// The angle of the point (x, y), from -pi to pi. As in C, zeros have signs and infinities directions.
pub(crate) fn atan2(y: Decimal128, x: Decimal128) -> Decimal128 {
    if decimal::is_nan(y) || decimal::is_nan(x) {
        return decimal::nan();
    }
    let (is_below, is_left) = (decimal::is_negative(y), decimal::is_negative(x));
    let (is_far_up, is_far_aside) = (!decimal::is_finite(y), !decimal::is_finite(x));
    // The angle of the point with both signs left out, as a quotient of pi if it is one.
    let quarter = |quarters: u8, constants: &mut Consts| {
        let pi = constants.pi(READ_BITS, ROUNDING);
        pi.mul(&BigFloat::from_u8(quarters, READ_BITS), READ_BITS, ROUNDING).div(
            &BigFloat::from_u8(4, READ_BITS),
            READ_BITS,
            ROUNDING,
        )
    };
    compute(|constants| {
        let acute = if is_far_up && is_far_aside {
            // Of two infinities only the directions count.
            quarter(1, constants)
        } else if is_far_up || (decimal::is_zero(x) && !decimal::is_zero(y)) {
            quarter(2, constants)
        } else if is_far_aside || decimal::is_zero(y) {
            // On the axis, or as good as.
            BigFloat::from_u8(0, READ_BITS)
        } else {
            let [y, x] = [y, x].map(|side| read(decimal::absolute(side), READ_BITS, constants));
            y.div(&x, READ_BITS, ROUNDING).atan(READ_BITS, ROUNDING, constants)
        };
        // Mirrored by the signs.
        let angle = if is_left { quarter(4, constants).sub(&acute, READ_BITS, ROUNDING) } else { acute };
        if is_below { angle.neg() } else { angle }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(found: Decimal128, expected: &str) {
        assert_eq!(found.to_string(), expected);
    }

    fn number(text: &str) -> Decimal128 {
        parse_decimal(text).expect("a decimal")
    }

    /// The digits are those of tables, and of a second library with 60 digits.
    #[test]
    fn all_digits_are_right() {
        check(sqrt(number("2")), "1.414213562373095048801688724209698");
        check(exp(number("1")), "2.718281828459045235360287471352662");
        check(ln(number("2")), "0.6931471805599453094172321214581766");
        check(log10(number("2")), "0.301029995663981195213738894724493");
        check(sin(number("1")), "0.841470984807896506652502321630299");
        check(cos(number("1")), "0.5403023058681397174009366074429766");
        check(atan(number("1")), "0.7853981633974483096156608458198757");
        check(acos(number("-1")), "3.141592653589793238462643383279503");
        check(tanh(number("1")), "0.7615941559557648881194582826047936");
        check(asinh(number("1")), "0.8813735870195430252326093249797923");
    }

    #[test]
    fn whole_results_are_whole() {
        check(sqrt(number("25")), "5");
        check(sqrt(number("0.01")), "0.1");
        check(sqrt(number("1E+6144")), "1E+3072");
        check(pow(number("2"), number("10")), "1024");
        check(pow(number("-2"), number("3")), "-8");
        check(log10(number("1000")), "3");
        check(log(number("8"), number("2")), "3");
        check(exp(number("0")), "1");
        check(cosh(number("0")), "1");
    }

    /// 34 digits of the argument are not enough to compute with: of ln only the difference from 1 is left, of sin that from pi.
    #[test]
    fn differences_keep_all_digits() {
        check(ln(number("1.000000000000000000000000000000001")), "9.999999999999999999999999999999995E-34");
        check(sin(number("3.141592653589793238462643383279503")), "-1.158028306006248941790250554076922E-34");
        check(
            acosh(number("1.000000000000000000000000000000001")),
            "4.472135954999579392818347337462552E-17",
        );
    }

    /// Every digit of the angle counts, and it costs as much.
    #[test]
    fn angles_far_from_zero_are_what_they_are() {
        let far = number("1E+6144");
        let squares =
            decimal::add(decimal::multiply(sin(far), sin(far)), decimal::multiply(cos(far), cos(far)));
        let difference = decimal::to_double(decimal::subtract(squares, number("1")));
        assert!(difference.abs() < 1e-32, "{squares}");
        check(sin(number("1E+22")), "-0.8522008497671888017727058937530294");
        assert!(steps(far) > 100_000 && steps(number("2")) < 200 && steps(number("1E-6176")) < 200);
    }

    #[test]
    fn the_ends_of_the_range_are_infinity_and_zero() {
        check(exp(number("20000")), "Infinity");
        check(sinh(number("-20000")), "-Infinity");
        check(exp(number("-20000")), "0");
        check(exp(number("Infinity")), "Infinity");
        check(exp(number("-Infinity")), "0");
        check(ln(number("Infinity")), "Infinity");
        check(atanh(number("1")), "Infinity");
        check(atan(number("-Infinity")), "-1.570796326794896619231321691639751");
        check(sqrt(number("NaN")), "NaN");
        check(pow(number("-8"), number("0.5")), "NaN");
    }

    #[test]
    fn angles_of_points_go_around() {
        let half_pi = "1.570796326794896619231321691639751";
        let pi = "3.141592653589793238462643383279503";
        for (y, x, expected) in [
            ("0", "1", "0".to_owned()),
            ("0", "-1", pi.to_owned()),
            ("-0", "-1", format!("-{pi}")),
            ("1", "0", half_pi.to_owned()),
            ("-1", "-0", format!("-{half_pi}")),
            ("1", "1", "0.7853981633974483096156608458198757".to_owned()),
            ("-1", "-1", "-2.356194490192344928846982537459627".to_owned()),
            ("Infinity", "Infinity", "0.7853981633974483096156608458198757".to_owned()),
            ("Infinity", "5", half_pi.to_owned()),
            ("5", "-Infinity", pi.to_owned()),
            ("5", "Infinity", "0".to_owned()),
            ("NaN", "1", "NaN".to_owned()),
        ] {
            assert_eq!(atan2(number(y), number(x)).to_string(), expected, "atan2({y}, {x})");
        }
    }

    /// A function with a name for messages, and the same of doubles.
    type Pair = (&'static str, fn(Decimal128) -> Decimal128, fn(f64) -> f64);

    const PAIRS: [Pair; 15] = [
        ("sqrt", sqrt, f64::sqrt),
        ("exp", exp, f64::exp),
        ("ln", ln, f64::ln),
        ("log10", log10, f64::log10),
        ("sin", sin, f64::sin),
        ("cos", cos, f64::cos),
        ("tan", tan, f64::tan),
        ("asin", asin, f64::asin),
        ("acos", acos, f64::acos),
        ("atan", atan, f64::atan),
        ("sinh", sinh, f64::sinh),
        ("cosh", cosh, f64::cosh),
        ("tanh", tanh, f64::tanh),
        ("asinh", asinh, f64::asinh),
        ("acosh", acosh, f64::acosh),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Doubles are read exactly, so both compute of the same number.
        #[test]
        fn decimals_and_doubles_agree(mantissa in -1_000_000_i32..1_000_000, scale in -6_i32..4) {
            // A number that both have exactly.
            let double = f64::from(mantissa) * 2_f64.powi(scale);
            let exact = decimal::from_double(double, decimal::Precision::Full);
            for (name, of_decimal, of_double) in PAIRS {
                let (found, expected) = (decimal::to_double(of_decimal(exact)), of_double(double));
                let is_close = (found - expected).abs() <= expected.abs() * 1e-12 + 1e-13;
                prop_assert!(
                    is_close || (found.is_nan() && expected.is_nan()) || expected.is_infinite(),
                    "{name}({double}) is {found}, and of doubles {expected}"
                );
            }
        }

        /// Whatever the bytes are, there is an answer.
        #[test]
        fn any_decimal_has_a_value(bytes: [u8; 16], other: [u8; 16]) {
            let (value, other) = (Decimal128::from_bytes(bytes), Decimal128::from_bytes(other));
            for (_, of_decimal, _) in PAIRS {
                of_decimal(value);
            }
            atanh(value);
            for of_two in [atan2, pow, log] {
                of_two(value, other);
            }
        }
    }
}
