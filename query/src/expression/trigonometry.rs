//! Trigonometric and hyperbolic functions, in radians. Most refuse decimals, because they compute with doubles.

use bson::Decimal128;

use crate::code::Code;
use crate::decimal;
use crate::expression::arithmetic::one_number;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::power::of_double;
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
    within(arguments, &FINITE, f64::sin)
}

pub(super) fn cos<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FINITE, f64::cos)
}

pub(super) fn tan<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FINITE, f64::tan)
}

pub(super) fn asin<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, f64::asin)
}

pub(super) fn acos<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, f64::acos)
}

pub(super) fn atan<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.atan()))
}

pub(super) fn sinh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.sinh()))
}

pub(super) fn cosh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.cosh()))
}

pub(super) fn tanh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.tanh()))
}

pub(super) fn asinh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| Ok(value.asinh()))
}

pub(super) fn acosh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &FROM_ONE, f64::acosh)
}

pub(super) fn atanh<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    within(arguments, &UNIT, f64::atanh)
}

pub(super) fn atan2<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    // Both arguments are evaluated in their order, each with its own number for a wrong type.
    let mut numbers = [0.0; 2];
    for (at, (slot, code)) in
        numbers.iter_mut().zip([Code::ATAN2_FIRST_TYPE, Code::ATAN2_SECOND_TYPE]).enumerate()
    {
        let value = arguments.value(at)?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        *slot = match Numeric::of(value.or_null()) {
            None => return Err(arguments.wrong_type(code, "an argument", "a number", &value)),
            Some(Numeric::Decimal(_)) => return Err(arguments.unsupported("a decimal")),
            Some(number) => number.to_double(),
        };
    }
    let [y, x] = numbers;
    Ok(Value::double(y.atan2(x)))
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

fn within<'d>(
    arguments: &Arguments<'_, 'd>,
    domain: &Domain,
    function: fn(f64) -> f64,
) -> Result<Value<'d>, Error> {
    of_double(arguments, |value| {
        // NaN is outside of every domain, and gives NaN instead of an error.
        if value.is_nan() || (domain.holds)(value) {
            return Ok(function(value));
        }
        let fault = Fault::WrongValue {
            argument: "the argument",
            expected: domain.text,
            found: format!("{value:?}"),
        };
        Err(arguments.fault(Code::TRIGONOMETRY_OUT_OF_RANGE, fault))
    })
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
        check_error(bson!({ "$cos": (decimal("1")) }), 238);
        check_error(bson!({ "$atan2": ["x", 1] }), 51_044);
        check_error(bson!({ "$atan2": [1, "x"] }), 51_045);
    }
}
