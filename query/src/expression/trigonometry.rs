//! Trigonometric and hyperbolic functions, in radians. Those of decimals have 34 digits.

use bson::Decimal128;

use crate::code::Code;
use crate::decimal;
use crate::decimal_functions;
use crate::expression::arithmetic::one_number;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::power::{charge, of_number};
use crate::expression::value::Value;
use crate::numeric::Numeric;

/// The values that a function is defined for, and how an error names them.
struct Domain {
    holds: fn(f64) -> bool,
    text: &'static str,
}

const FINITE: Domain = Domain { holds: f64::is_finite, text: "in (-inf, inf)" };
const UNIT: Domain = Domain { holds: |value| (-1.0..=1.0).contains(&value), text: "in [-1, 1]" };
const FROM_ONE: Domain = Domain { holds: |value| value >= 1.0, text: "in [1, inf]" };

/// 34 digits of pi / 180 and of 180 / pi.
const RADIANS_PER_DEGREE: &str = "0.01745329251994329576923690768488613";
const DEGREES_PER_RADIAN: &str = "57.29577951308232087679815481410517";

pub(super) fn sin<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FINITE, (f64::sin, decimal_functions::sin))
}

pub(super) fn cos<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FINITE, (f64::cos, decimal_functions::cos))
}

pub(super) fn tan<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FINITE, (f64::tan, decimal_functions::tan))
}

pub(super) fn asin<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, (f64::asin, decimal_functions::asin))
}

pub(super) fn acos<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, (f64::acos, decimal_functions::acos))
}

pub(super) fn atan<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    everywhere(arguments, (f64::atan, decimal_functions::atan))
}

pub(super) fn sinh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    everywhere(arguments, (f64::sinh, decimal_functions::sinh))
}

pub(super) fn cosh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    everywhere(arguments, (f64::cosh, decimal_functions::cosh))
}

pub(super) fn tanh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    everywhere(arguments, (f64::tanh, decimal_functions::tanh))
}

pub(super) fn asinh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    everywhere(arguments, (f64::asinh, decimal_functions::asinh))
}

pub(super) fn acosh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FROM_ONE, (f64::acosh, decimal_functions::acosh))
}

pub(super) fn atanh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, (f64::atanh, decimal_functions::atanh))
}

pub(super) fn atan2<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    // Both arguments are evaluated in their order, each with its own number for a wrong type.
    let mut numbers = [Numeric::Int32(0); 2];
    for (at, (slot, code)) in
        numbers.iter_mut().zip([Code::ATAN2_FIRST_TYPE, Code::ATAN2_SECOND_TYPE]).enumerate()
    {
        let value = arguments.value(at)?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        *slot = match Numeric::of(value.or_null()) {
            None => return Err(arguments.wrong_type(code, "an argument", "a number", &value)),
            Some(number) => number,
        };
    }
    let [y, x] = numbers;
    // One decimal makes both decimals, as in arithmetic.
    if numbers.iter().any(|number| matches!(number, Numeric::Decimal(_))) {
        charge(arguments, y.to_decimal())?;
        return Ok(Value::decimal(decimal_functions::atan2(y.to_decimal(), x.to_decimal())));
    }
    Ok(Value::double(y.to_double().atan2(x.to_double())))
}

pub(super) fn degrees_to_radians<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    scaled(arguments, std::f64::consts::PI / 180.0, RADIANS_PER_DEGREE)
}

pub(super) fn radians_to_degrees<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    scaled(arguments, 180.0 / std::f64::consts::PI, DEGREES_PER_RADIAN)
}

fn scaled<'d>(
    arguments: &Arguments<'_, 'd>,
    factor: f64,
    decimal_factor: &'static str,
) -> Result<Value<'d>, Error> {
    Ok(match one_number(arguments)? {
        None => Value::NULL,
        Some(Numeric::Decimal(value)) => {
            // A decimal is multiplied exactly: the constant has the 34 digits that a double does not.
            let factor = decimal_factor.parse::<Decimal128>().unwrap_or_else(|_| decimal::nan());
            Value::decimal(decimal::multiply(value, factor))
        }
        Some(number) => Value::double(number.to_double() * factor),
    })
}

/// A function of doubles, and the same of decimals.
type Functions = (fn(f64) -> f64, fn(Decimal128) -> Decimal128);

fn everywhere<'d>(arguments: &Arguments<'_, 'd>, functions: Functions) -> Result<Value<'d>, Error> {
    of_number(arguments, |value| Ok(functions.0(value)), |value| Ok(functions.1(value)))
}

fn within<'d>(
    arguments: &Arguments<'_, 'd>,
    domain: &Domain,
    functions: Functions,
) -> Result<Value<'d>, Error> {
    let outside = |found: String| {
        let fault = Fault::WrongValue { argument: "the argument", expected: domain.text, found };
        arguments.fault(Code::TRIGONOMETRY_OUT_OF_RANGE, fault)
    };
    // NaN is outside of every domain, and gives NaN instead of an error.
    let of_double = |value: f64| {
        let is_allowed = value.is_nan() || (domain.holds)(value);
        if is_allowed { Ok(functions.0(value)) } else { Err(outside(format!("{value:?}"))) }
    };
    // The domain is of doubles: a decimal may be outside by less than they can determine, or beyond all of them. Outside the function
    // gives NaN.
    let of_decimal = |value: Decimal128| {
        let result = functions.1(value);
        let is_allowed = decimal::is_nan(value) || !decimal::is_nan(result);
        if is_allowed { Ok(result) } else { Err(outside(value.to_string())) }
    };
    of_number(arguments, of_double, of_decimal)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, decimal};

    #[test]
    fn functions_are_those_of_doubles() {
        check(bson!({ "$sin": 0 }), bson!(0.0));
        check(bson!({ "$cos": 0 }), bson!(1.0));
        check(bson!({ "$tan": 0_i64 }), bson!(0.0));
        check(bson!({ "$asin": 1 }), bson!(std::f64::consts::FRAC_PI_2));
        check(bson!({ "$acos": 1 }), bson!(0.0));
        check(bson!({ "$atan": (f64::INFINITY) }), bson!(std::f64::consts::FRAC_PI_2));
        check(bson!({ "$atan2": [0, -1] }), bson!(std::f64::consts::PI));
        check(bson!({ "$sinh": 0 }), bson!(0.0));
        check(bson!({ "$cosh": 0 }), bson!(1.0));
        check(bson!({ "$tanh": (f64::INFINITY) }), bson!(1.0));
        check(bson!({ "$asinh": 0 }), bson!(0.0));
        check(bson!({ "$acosh": 1 }), bson!(0.0));
        check(bson!({ "$atanh": 1 }), bson!(f64::INFINITY));
        check(bson!({ "$sin": (f64::NAN) }), bson!(f64::NAN));
        check(bson!({ "$sin": null }), Bson::Null);
        check(bson!({ "$atan2": [1, "$missing"] }), Bson::Null);
    }

    #[test]
    fn functions_of_decimals_have_34_digits() {
        check(bson!({ "$sin": (decimal("1")) }), decimal("0.841470984807896506652502321630299"));
        check(bson!({ "$atan2": [(decimal("1")), -1] }), decimal("2.356194490192344928846982537459627"));
        check(bson!({ "$atan2": [1, (decimal("1"))] }), decimal("0.7853981633974483096156608458198757"));
        check(bson!({ "$tanh": (decimal("Infinity")) }), decimal("1"));
        check(bson!({ "$acosh": (decimal("1")) }), decimal("0"));
        check(bson!({ "$sin": (decimal("NaN")) }), decimal("NaN"));
        check(bson!({ "$atanh": (decimal("-1")) }), decimal("-Infinity"));
        // Beyond all doubles.
        let far = bson!({ "$abs": { "$sin": (decimal("9E+6143")) } });
        check(bson!({ "$and": [{ "$gt": [far.clone(), 0] }, { "$lt": [far, 1] }] }), bson!(true));
        check_error(bson!({ "$sin": (decimal("Infinity")) }), 50_989);
        check_error(bson!({ "$atanh": (decimal("1E+400")) }), 50_989);
    }

    #[test]
    fn angles_are_converted() {
        check(bson!({ "$degreesToRadians": 180 }), bson!(std::f64::consts::PI));
        check(bson!({ "$radiansToDegrees": (std::f64::consts::PI) }), bson!(180.0));
        check(
            bson!({ "$degreesToRadians": (decimal("180")) }),
            decimal("3.141592653589793238462643383279503"),
        );
        check_error(bson!({ "$degreesToRadians": "x" }), 28_765);
    }

    #[test]
    fn outside_of_their_domain_functions_have_no_value() {
        check_error(bson!({ "$sin": (f64::INFINITY) }), 50_989);
        check_error(bson!({ "$tan": (f64::NEG_INFINITY) }), 50_989);
        check_error(bson!({ "$acos": 1.1 }), 50_989);
        check_error(bson!({ "$acosh": 0.9 }), 50_989);
        check_error(bson!({ "$atanh": -2 }), 50_989);
        check_error(bson!({ "$cos": "x" }), 28_765);
        check_error(bson!({ "$cos": (decimal("-Infinity")) }), 50_989);
        check_error(bson!({ "$acos": (decimal("1.000000000000000000000000000000001")) }), 50_989);
        check_error(bson!({ "$acosh": (decimal("0.9999999999999999999999999999999999")) }), 50_989);
        check_error(bson!({ "$atan2": ["x", 1] }), 51_044);
        check_error(bson!({ "$atan2": [1, "x"] }), 51_045);
    }
}
