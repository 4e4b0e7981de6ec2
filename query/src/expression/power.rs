//! Powers, roots and logarithms. Those of decimals have 34 digits.

use bson::{Decimal128, RawBsonRef};

use crate::code::Code;
use crate::decimal;
use crate::decimal_functions;
use crate::expression::arithmetic::{self, one_number};
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Evaluate, Node};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::numeric::Numeric;

/// Parses `$sigmoid`, which represents `1 / (1 + exp(-x))`, and has the errors of the operators in it.
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
    of_number(arguments, |value| Ok(value.exp()), |value| Ok(decimal_functions::exp(value)))
}

pub(super) fn ln<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let positive = Positive { arguments, code: Code::LN_NOT_POSITIVE };
    of_number(
        arguments,
        |value| positive.double(value).map(f64::ln),
        |value| positive.decimal(value).map(decimal_functions::ln),
    )
}

pub(super) fn log10<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let positive = Positive { arguments, code: Code::LOG10_NOT_POSITIVE };
    of_number(
        arguments,
        |value| positive.double(value).map(f64::log10),
        |value| positive.decimal(value).map(decimal_functions::log10),
    )
}

pub(super) fn sqrt<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let negative = |found: String| refuse(arguments, Code::SQRT_NEGATIVE, "the argument", "0 or more", found);
    of_number(
        arguments,
        |value| if value < 0.0 { Err(negative(format!("{value:?}"))) } else { Ok(value.sqrt()) },
        |value| {
            let is_negative =
                decimal::is_negative(value) && !decimal::is_zero(value) && !decimal::is_nan(value);
            if is_negative { Err(negative(value.to_string())) } else { Ok(decimal_functions::sqrt(value)) }
        },
    )
}

pub(super) fn log<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((value, base)) = two(arguments, (Code::LOG_VALUE_TYPE, Code::LOG_BASE_TYPE))? else {
        return Ok(Value::NULL);
    };
    let positive = Positive { arguments, code: Code::LOG_VALUE_NOT_POSITIVE };
    let wrong_base =
        |found: String| Err(refuse(arguments, Code::LOG_BASE_VALUE, "the base", "above 0 and not 1", found));
    if let (Some(value), Some(base)) = (double(value), double(base)) {
        let value = positive.double(value)?;
        #[expect(clippy::float_cmp, reason = "only the base 1 itself has no logarithm")]
        if base <= 0.0 || base == 1.0 {
            return wrong_base(format!("{base:?}"));
        }
        return Ok(Value::double(value.ln() / base.ln()));
    }
    // One decimal makes both decimals, as in arithmetic.
    let (value, base) = (positive.decimal(value.to_decimal())?, base.to_decimal());
    // As a double, a base close to 1 would be 1.
    let is_one = decimal::is_zero(decimal::subtract(base, decimal::from_integer(1)));
    if !decimal::is_nan(base) && (!is_positive(base) || is_one) {
        return wrong_base(base.to_string());
    }
    charge(arguments, value)?;
    Ok(Value::decimal(decimal_functions::log(value, base)))
}

pub(super) fn pow<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((base, exponent)) = two(arguments, (Code::POW_BASE_TYPE, Code::POW_EXPONENT_TYPE))? else {
        return Ok(Value::NULL);
    };
    let divides_by_zero = |found: String| {
        Err(refuse(arguments, Code::POW_ZERO_TO_NEGATIVE, "the exponent of 0", "0 or more", found))
    };
    let (Some(double_base), Some(double_exponent)) = (double(base), double(exponent)) else {
        let (base, exponent) = (base.to_decimal(), exponent.to_decimal());
        let is_above_zero = decimal::is_zero(exponent) || is_positive(exponent) || decimal::is_nan(exponent);
        if decimal::is_zero(base) && !is_above_zero {
            return divides_by_zero(exponent.to_string());
        }
        charge(arguments, base)?;
        return Ok(Value::decimal(decimal_functions::pow(base, exponent)));
    };
    if double_base == 0.0 && double_exponent < 0.0 {
        return divides_by_zero(format!("{double_exponent:?}"));
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

/// Applies the function to the only argument that is for its kind of number.
pub(super) fn of_number<'d>(
    arguments: &Arguments<'_, 'd>,
    of_double: impl FnOnce(f64) -> Result<f64, Error>,
    of_decimal: impl FnOnce(Decimal128) -> Result<Decimal128, Error>,
) -> Result<Value<'d>, Error> {
    match one_number(arguments)? {
        None => Ok(Value::NULL),
        Some(Numeric::Decimal(value)) => {
            charge(arguments, value)?;
            of_decimal(value).map(Value::decimal)
        }
        Some(number) => of_double(number.to_double()).map(Value::double),
    }
}

/// A function of a decimal needs as much time as hundreds of steps.
pub(super) fn charge(arguments: &Arguments<'_, '_>, value: Decimal128) -> Result<(), Error> {
    Ok(arguments.operation().steps(decimal_functions::steps(value))?)
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

/// That an argument is above 0, and the code of those that are not. NaN passes.
struct Positive<'a, 'e, 'd> {
    arguments: &'a Arguments<'e, 'd>,
    code: Code,
}

impl Positive<'_, '_, '_> {
    fn double(&self, value: f64) -> Result<f64, Error> {
        if value <= 0.0 { Err(self.refuse(format!("{value:?}"))) } else { Ok(value) }
    }

    fn decimal(&self, value: Decimal128) -> Result<Decimal128, Error> {
        let is_allowed = decimal::is_nan(value) || is_positive(value);
        if is_allowed { Ok(value) } else { Err(self.refuse(value.to_string())) }
    }

    fn refuse(&self, found: String) -> Error {
        refuse(self.arguments, self.code, "the argument", "above 0", found)
    }
}

/// Whether a decimal that is not NaN is above 0.
fn is_positive(value: Decimal128) -> bool {
    !decimal::is_zero(value) && !decimal::is_negative(value)
}

fn refuse(
    arguments: &Arguments<'_, '_>,
    code: Code,
    argument: &'static str,
    expected: &'static str,
    found: String,
) -> Error {
    arguments.fault(code, Fault::WrongValue { argument, expected, found })
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
    fn powers_and_logarithms_of_decimals_have_34_digits() {
        check(bson!({ "$sqrt": (decimal("2")) }), decimal("1.414213562373095048801688724209698"));
        check(bson!({ "$exp": (decimal("1")) }), decimal("2.718281828459045235360287471352662"));
        check(bson!({ "$ln": (decimal("1E-6176")) }), decimal("-14220.76553433122614449511522413063"));
        check(bson!({ "$log10": (decimal("1E-6176")) }), decimal("-6176"));
        check(bson!({ "$log": [(decimal("8")), 2] }), decimal("3"));
        check(bson!({ "$log": [8, (decimal("2"))] }), decimal("3"));
        check(bson!({ "$pow": [(decimal("2")), 10] }), decimal("1024"));
        check(bson!({ "$pow": [2, (decimal("-1"))] }), decimal("0.5"));
        check(bson!({ "$pow": [(decimal("0")), 0] }), decimal("1"));
        check(bson!({ "$sigmoid": (decimal("0")) }), decimal("0.5"));
        check(bson!({ "$sqrt": (decimal("-0")) }), decimal("0"));
        check(bson!({ "$ln": (decimal("NaN")) }), decimal("NaN"));
        check_error(bson!({ "$sqrt": (decimal("-1E-6176")) }), 28_714);
        check_error(bson!({ "$ln": (decimal("0")) }), 28_766);
        check_error(bson!({ "$log10": (decimal("-1")) }), 28_761);
        check_error(bson!({ "$log": [(decimal("0")), 2] }), 28_758);
        check_error(bson!({ "$log": [8, (decimal("1.0"))] }), 28_759);
        check_error(bson!({ "$pow": [(decimal("0")), -1] }), 28_764);
        check_error(bson!({ "$pow": [0, (decimal("-1E-6176"))] }), 28_764);
    }
}
