//! Rounding to whole numbers and to a decimal place: `$ceil`, `$floor`, `$round`, `$trunc`.

use bson::RawBsonRef;

use crate::code::Code;
use crate::decimal::{self, Precision, Rounding};
use crate::expression::arithmetic::one_number;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::value::Value;
use crate::numeric::Numeric;
use crate::value::integer;

pub(super) fn ceil<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    whole(arguments, f64::ceil, Rounding::Ceiling)
}

pub(super) fn floor<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    whole(arguments, f64::floor, Rounding::Floor)
}

pub(super) fn round<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    to_place(arguments, Rounding::HalfEven)
}

pub(super) fn truncate<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    to_place(arguments, Rounding::TowardZero)
}

fn whole<'d>(
    arguments: &Arguments<'_, 'd>,
    of_double: fn(f64) -> f64,
    of_decimal: Rounding,
) -> Result<Value<'d>, Error> {
    Ok(match one_number(arguments)? {
        None => Value::NULL,
        Some(number @ (Numeric::Int32(_) | Numeric::Int64(_))) => number.into_value(),
        Some(Numeric::Double(value)) => Value::double(of_double(value)),
        Some(Numeric::Decimal(value)) => Value::decimal(decimal::round(value, 0, of_decimal)),
    })
}

/// Rounds to a number of decimal places, or to a power of ten if that is negative.
///
/// A double is rounded by all of its decimal digits: 2.675 is stored as a number slightly below that, and
/// becomes 2.67.
fn to_place<'d>(arguments: &Arguments<'_, 'd>, rounding: Rounding) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(number) = Numeric::of(value.or_null()) else {
        return Err(arguments.wrong_type(Code::ROUND_TYPE, "the first argument", "a number", &value));
    };
    let Some(place) = place(arguments)? else { return Ok(Value::NULL) };
    Ok(match number {
        // An integer has no fraction to round.
        Numeric::Int32(_) | Numeric::Int64(_) if place >= 0 => number.into_value(),
        Numeric::Int32(whole) => match rounded(arguments, i64::from(whole), place, rounding)? {
            // 2147483647 rounded to tens does not fit an int32, and becomes an int64.
            Numeric::Int64(rounded) => Value::integer(rounded),
            other @ (Numeric::Int32(_) | Numeric::Double(_) | Numeric::Decimal(_)) => other.into_value(),
        },
        Numeric::Int64(whole) => rounded(arguments, whole, place, rounding)?.into_value(),
        // NaN and infinities stay as they are.
        Numeric::Double(double) if !double.is_finite() => number.into_value(),
        Numeric::Double(double) => {
            let exact = decimal::from_double(double, Precision::Full);
            Value::double(decimal::to_double(decimal::round(exact, -place, rounding)))
        }
        Numeric::Decimal(value) => Value::decimal(decimal::round(value, -place, rounding)),
    })
}

fn rounded(
    arguments: &Arguments<'_, '_>,
    whole: i64,
    place: i32,
    rounding: Rounding,
) -> Result<Numeric, Error> {
    // A decimal holds every int64 and every rounded one, so an overflow is found only when it is converted back.
    let rounded = decimal::round(decimal::from_integer(whole), -place, rounding);
    let integer = integer(RawBsonRef::Decimal128(rounded));
    integer
        .map(Numeric::Int64)
        .ok_or_else(|| arguments.fault(Code::ROUND_OVERFLOW, Fault::Overflow { kind: "64-bit integer" }))
}

/// The place to round to: 0 if it was not given. Returns `None` if it is null.
fn place(arguments: &Arguments<'_, '_>) -> Result<Option<i32>, Error> {
    let Some(place) = arguments.given(1)? else { return Ok(Some(0)) };
    if place.is_nullish() {
        return Ok(None);
    }
    // The range is checked apart from the type, because MongoDB has a number for each.
    let found = integer(place.or_null())
        .ok_or_else(|| arguments.wrong_value(Code::ROUND_PLACE_TYPE, "the place", "an integer", &place))?;
    let in_range = i32::try_from(found).ok().filter(|place| (-20..=100).contains(place));
    in_range
        .map(Some)
        .ok_or_else(|| arguments.wrong_value(Code::ROUND_PLACE_VALUE, "the place", "from -20 to 100", &place))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, decimal};

    #[test]
    fn whole_numbers_above_and_below() {
        check(bson!({ "$ceil": 2.1 }), bson!(3.0));
        check(bson!({ "$ceil": -2.9 }), bson!(-2.0));
        check(bson!({ "$floor": -2.1 }), bson!(-3.0));
        check(bson!({ "$floor": 7 }), bson!(7));
        check(bson!({ "$ceil": (decimal("2.1")) }), decimal("3"));
        check(bson!({ "$floor": (decimal("-2.1")) }), decimal("-3"));
        check(bson!({ "$floor": null }), Bson::Null);
        check(bson!({ "$ceil": (f64::NAN) }), bson!(f64::NAN));
        check_error(bson!({ "$ceil": "x" }), 28_765);
    }

    #[test]
    fn halves_are_rounded_to_even() {
        check(bson!({ "$round": 2.5 }), bson!(2.0));
        check(bson!({ "$round": [3.5] }), bson!(4.0));
        check(bson!({ "$round": [-1.5] }), bson!(-2.0));
        check(bson!({ "$round": [19.25, 1] }), bson!(19.2));
        check(bson!({ "$round": [2.675, 2] }), bson!(2.67));
        check(bson!({ "$round": [(decimal("2.665")), 2] }), decimal("2.66"));
        check(bson!({ "$round": [(f64::INFINITY), 2] }), bson!(f64::INFINITY));
        check(bson!({ "$trunc": [-19.25, 1] }), bson!(-19.2));
        check(bson!({ "$trunc": 7.9 }), bson!(7.0));
    }

    #[test]
    fn integers_are_rounded_before_the_point_only() {
        check(bson!({ "$round": [1_234, 2] }), bson!(1_234));
        check(bson!({ "$round": [1_250, -2] }), bson!(1_200));
        check(bson!({ "$round": [2_147_483_647, -1] }), bson!(2_147_483_650_i64));
        check(bson!({ "$trunc": [1_299_i64, -2] }), bson!(1_200_i64));
        check(bson!({ "$round": [5, -2] }), bson!(0));
        check_error(bson!({ "$round": [(i64::MAX), -1] }), 51_080);
    }

    #[test]
    fn places_are_integers_from_minus_20_to_100() {
        check(bson!({ "$round": [1.5, null] }), Bson::Null);
        check(bson!({ "$round": [1.5, 2.0] }), bson!(1.5));
        check_error(bson!({ "$round": [1.5, 0.5] }), 51_082);
        check_error(bson!({ "$round": [1.5, "x"] }), 51_082);
        check_error(bson!({ "$round": [1.5, 101] }), 51_083);
        check_error(bson!({ "$round": [1.5, -21] }), 51_083);
        check_error(bson!({ "$round": ["x"] }), 51_081);
        check_error(bson!({ "$round": [] }), 28_667);
    }
}
