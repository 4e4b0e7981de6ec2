//! Powers, roots and logarithms of doubles and integers. Decimals are refused: computed as doubles they would lose
//! more than half of their digits.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::arithmetic::{self, one_number};
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Evaluate, Node};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::numeric::Numeric;

/// Parses `$sigmoid`, which stands for `1 / (1 + exp(-x))`, and has the errors of the operators in it.
pub(super) fn parse_sigmoid(
    parser: Parser<'_>,
    _: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    // Four operators deep, so that no expression becomes deeper than others may be.
    let input = parser.deeper()?.deeper()?.deeper()?.deeper()?.operand(operand)?;
    let constant = |number| Node::Constant(Value::int(number));
    let call = |operator, evaluate: Evaluate, first, second: Option<Node>| {
        let arguments = std::iter::once(first).chain(second).map(Some).collect();
        Node::Call { operator, evaluate, arguments }
    };
    let negative = call("$multiply", arithmetic::multiply, constant(-1), Some(input));
    let power = call("$exp", exp, negative, None);
    let divisor = call("$add", arithmetic::add, constant(1), Some(power));
    Ok(call("$divide", arithmetic::divide, constant(1), Some(divisor)))
}

pub(super) fn exp<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.exp()))
}

pub(super) fn ln<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| positive(arguments, Code::LN_NOT_POSITIVE, value).map(f64::ln))
}

pub(super) fn log10<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| positive(arguments, Code::LOG10_NOT_POSITIVE, value).map(f64::log10))
}

pub(super) fn sqrt<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| {
        if value < 0.0 {
            return Err(refuse(arguments, Code::SQRT_NEGATIVE, "the argument", "0 or more", value));
        }
        Ok(value.sqrt())
    })
}

pub(super) fn log<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((value, base)) = two(arguments, (Code::LOG_VALUE_TYPE, Code::LOG_BASE_TYPE))? else {
        return Ok(Value::NULL);
    };
    let (Some(value), Some(base)) = (double(value), double(base)) else {
        return Err(arguments.unsupported("a decimal"));
    };
    let value = positive(arguments, Code::LOG_VALUE_NOT_POSITIVE, value)?;
    #[expect(clippy::float_cmp, reason = "only the base 1 itself has no logarithm")]
    if base <= 0.0 || base == 1.0 {
        return Err(refuse(arguments, Code::LOG_BASE_VALUE, "the base", "above 0 and not 1", base));
    }
    Ok(Value::double(value.ln() / base.ln()))
}

pub(super) fn pow<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((base, exponent)) = two(arguments, (Code::POW_BASE_TYPE, Code::POW_EXPONENT_TYPE))? else {
        return Ok(Value::NULL);
    };
    let (Some(double_base), Some(double_exponent)) = (double(base), double(exponent)) else {
        return Err(arguments.unsupported("a decimal"));
    };
    // This would be a division by zero.
    if double_base == 0.0 && double_exponent < 0.0 {
        return Err(refuse(
            arguments,
            Code::POW_ZERO_TO_NEGATIVE,
            "the exponent of 0",
            "0 or more",
            double_exponent,
        ));
    }
    // Powers of integers are computed exactly where 64 bits hold them. Of two int32 the result may be an
    // int32.
    let (wide, narrow) = match (base, exponent) {
        (Numeric::Int32(base), Numeric::Int32(exponent)) => {
            (power(i64::from(base), i64::from(exponent)), true)
        }
        (Numeric::Int32(base), Numeric::Int64(exponent)) => (power(i64::from(base), exponent), false),
        (Numeric::Int64(base), Numeric::Int32(exponent)) => (power(base, i64::from(exponent)), false),
        (Numeric::Int64(base), Numeric::Int64(exponent)) => (power(base, exponent), false),
        (Numeric::Double(_) | Numeric::Decimal(_), _) | (_, Numeric::Double(_) | Numeric::Decimal(_)) => {
            (None, false)
        }
    };
    Ok(match wide {
        Some(power) if narrow => Value::integer(power),
        Some(power) => Value::long(power),
        // Fractions, overflows and doubles.
        None => Value::double(double_base.powf(double_exponent)),
    })
}

/// The power as an integer. Returns `None` if it is not an integer of 64 bits.
fn power(base: i64, exponent: i64) -> Option<i64> {
    match (base, u32::try_from(exponent)) {
        (1, _) => Some(1),
        // 1 and -1 have powers for every exponent, negative and large ones included.
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        // Zero is zero for every exponent above 0, also for one of more than 32 bits.
        (0, Err(_)) => Some(0),
        (_, Ok(exponent)) => base.checked_pow(exponent),
        // A negative exponent gives a fraction; one of more than 32 bits overflows for every other base.
        (_, Err(_)) => None,
    }
}

/// Applies a function of doubles to the only argument.
pub(super) fn of_double<'d>(
    arguments: &Arguments<'_, 'd>,
    function: impl FnOnce(f64) -> Result<f64, Error>,
) -> Result<Value<'d>, Error> {
    let Some(number) = one_number(arguments)? else { return Ok(Value::NULL) };
    match double(number) {
        Some(value) => function(value).map(Value::double),
        None => Err(arguments.unsupported("a decimal")),
    }
}

/// A number as a double, unless it is a decimal.
fn double(number: Numeric) -> Option<f64> {
    if matches!(number, Numeric::Decimal(_)) { None } else { Some(number.to_double()) }
}

fn two(arguments: &Arguments<'_, '_>, codes: (Code, Code)) -> Result<Option<(Numeric, Numeric)>, Error> {
    let (first, second) = (arguments.value(0)?, arguments.value(1)?);
    if first.is_nullish() || second.is_nullish() {
        return Ok(None);
    }
    let number = |code, argument, value: &Value<'_>| {
        Numeric::of(value.or_null()).ok_or_else(|| arguments.wrong_type(code, argument, "a number", value))
    };
    let first = number(codes.0, "the first argument", &first)?;
    Ok(Some((first, number(codes.1, "the second argument", &second)?)))
}

fn positive(arguments: &Arguments<'_, '_>, code: Code, value: f64) -> Result<f64, Error> {
    if value <= 0.0 {
        return Err(refuse(arguments, code, "the argument", "above 0", value));
    }
    Ok(value)
}

fn refuse(
    arguments: &Arguments<'_, '_>,
    code: Code,
    argument: &'static str,
    expected: &'static str,
    found: f64,
) -> Error {
    arguments.fault(code, Fault::WrongValue { argument, expected, found: format!("{found:?}") })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, decimal};

    #[test]
    fn a_sigmoid_is_from_0_to_1() {
        check(bson!({ "$sigmoid": 0 }), bson!(0.5));
        check(bson!({ "$sigmoid": { "$subtract": ["$n", 5] } }), bson!(0.5));
        check(bson!({ "$sigmoid": 1_000.0 }), bson!(1.0));
        check(bson!({ "$sigmoid": -1_000_i64 }), bson!(0.0));
        check(bson!({ "$sigmoid": 1 }), bson!(0.731_058_578_630_004_9));
        check(bson!({ "$sigmoid": (f64::NEG_INFINITY) }), bson!(0.0));
        check(bson!({ "$sigmoid": "$missing" }), Bson::Null);
        check_error(bson!({ "$sigmoid": "x" }), 14);
        check_error(bson!({ "$sigmoid": [1] }), 14);
    }

    #[test]
    fn powers_of_integers_stay_integers_while_they_fit() {
        check(bson!({ "$pow": [2, 10] }), bson!(1_024));
        check(bson!({ "$pow": [2, 31] }), bson!(2_147_483_648_i64));
        check(bson!({ "$pow": [2_i64, 3] }), bson!(8_i64));
        check(bson!({ "$pow": [-2, 63] }), bson!(i64::MIN));
        check(bson!({ "$pow": [2, 63] }), bson!(9_223_372_036_854_775_808.0));
        check(bson!({ "$pow": [2, -1] }), bson!(0.5));
        check(bson!({ "$pow": [-1, -3] }), bson!(-1));
        check(bson!({ "$pow": [0, 0] }), bson!(1));
        check(bson!({ "$pow": [0, (i64::MAX)] }), bson!(0_i64));
        check(bson!({ "$pow": [2.0, 3] }), bson!(8.0));
        check(bson!({ "$pow": [-8, 0.5] }), bson!(f64::NAN));
        check(bson!({ "$pow": ["$missing", 3] }), Bson::Null);
        check_error(bson!({ "$pow": [0, -1] }), 28_764);
        check_error(bson!({ "$pow": ["x", 1] }), 28_762);
        check_error(bson!({ "$pow": [1, "x"] }), 28_763);
    }

    #[test]
    fn roots_and_logarithms_have_their_domains() {
        check(bson!({ "$sqrt": 25 }), bson!(5.0));
        check(bson!({ "$sqrt": (f64::NAN) }), bson!(f64::NAN));
        check(bson!({ "$exp": 0 }), bson!(1.0));
        check(bson!({ "$ln": 1 }), bson!(0.0));
        check(bson!({ "$log10": 1_000 }), bson!(3.0));
        check(bson!({ "$log": [8, 2] }), bson!(3.0));
        check(bson!({ "$log": [8, null] }), Bson::Null);
        check_error(bson!({ "$sqrt": -1 }), 28_714);
        check_error(bson!({ "$ln": 0 }), 28_766);
        check_error(bson!({ "$log10": -1 }), 28_761);
        check_error(bson!({ "$log": [0, 2] }), 28_758);
        check_error(bson!({ "$log": [8, 1] }), 28_759);
        check_error(bson!({ "$log": ["x", 1] }), 28_756);
        check_error(bson!({ "$log": [1, "x"] }), 28_757);
        check_error(bson!({ "$exp": "x" }), 28_765);
    }

    #[test]
    fn decimals_are_refused_by_name() {
        for operator in ["$exp", "$ln", "$log10", "$sqrt"] {
            check_error(bson!({ operator: (decimal("2")) }), 238);
        }
        check_error(bson!({ "$pow": [(decimal("2")), 2] }), 238);
        check_error(bson!({ "$log": [2, (decimal("2"))] }), 238);
    }
}
