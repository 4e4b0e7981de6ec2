//! Sums, differences, products, quotients and remainders.
//!
//! A result has the widest type of its operands, in the order int32, int64, double, decimal. An int32 that overflows
//! becomes an int64, and an int64 becomes a double. One operand of a sum may be a date; then the sum is a date.

use bson::RawBsonRef;

use crate::code::Code;
use crate::decimal::{self, Rounding};
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::total::Total;
use crate::expression::value::Value;
use crate::numeric::Numeric;
use crate::value::integer;

impl Numeric {
    /// The number as a value of its type.
    pub(super) fn into_value<'d>(self) -> Value<'d> {
        match self {
            Self::Int32(value) => Value::int(value),
            Self::Int64(value) => Value::long(value),
            Self::Double(value) => Value::double(value),
            Self::Decimal(value) => Value::decimal(value),
        }
    }

    /// The result of an operation on integers: an int32 if both operands are one and it fits, otherwise an int64.
    fn whole(self, other: Self, result: i64) -> Self {
        match (self, other, i32::try_from(result)) {
            (Self::Int32(_), Self::Int32(_), Ok(result)) => Self::Int32(result),
            (_, _, _) => Self::Int64(result),
        }
    }

    /// The sum, with the wider type of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        if matches!(self, Self::Decimal(_)) || matches!(other, Self::Decimal(_)) {
            return Self::Decimal(decimal::add(self.to_decimal(), other.to_decimal()));
        }
        // Integers are exact as long as 64 bits hold the result; what does not fit is a double, as in
        // MongoDB.
        match self.to_integer().zip(other.to_integer()).and_then(|(left, right)| left.checked_add(right)) {
            Some(sum) => self.whole(other, sum),
            None => Self::Double(self.to_double() + other.to_double()),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        if matches!(self, Self::Decimal(_)) || matches!(other, Self::Decimal(_)) {
            return Self::Decimal(decimal::subtract(self.to_decimal(), other.to_decimal()));
        }
        match self.to_integer().zip(other.to_integer()).and_then(|(left, right)| left.checked_sub(right)) {
            Some(difference) => self.whole(other, difference),
            None => Self::Double(self.to_double() - other.to_double()),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        if matches!(self, Self::Decimal(_)) || matches!(other, Self::Decimal(_)) {
            return Self::Decimal(decimal::multiply(self.to_decimal(), other.to_decimal()));
        }
        match self.to_integer().zip(other.to_integer()).and_then(|(left, right)| left.checked_mul(right)) {
            Some(product) => self.whole(other, product),
            None => Self::Double(self.to_double() * other.to_double()),
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Int32(value) => value == 0,
            Self::Int64(value) => value == 0,
            Self::Double(value) => value == 0.0,
            Self::Decimal(value) => decimal::is_zero(value),
        }
    }
}

pub(super) fn add<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut sum = Numeric::Int32(0);
    let mut is_narrow = true;
    let mut date: Option<i64> = None;
    // If there is a decimal, the other numbers are summed exactly and added to the decimals at the end: converted one
    // by one, doubles would lose all digits but 15.
    let (mut decimals, mut others) = (None, Total::default());
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            // The first null ends the sum: operands after it are not evaluated, and not checked.
            return Ok(Value::NULL);
        }
        if let Some(found) = value.or_null().as_datetime() {
            if date.is_some() {
                return Err(arguments.fault(Code::ADD_SECOND_DATE, Fault::SecondDate));
            }
            // The numbers before the date are added to it together, those after it one by one.
            date = Some(moved(arguments, found.timestamp_millis(), sum, i64::checked_add)?);
            continue;
        }
        let Some(number) = Numeric::of(value.or_null()) else {
            return Err(arguments.wrong_type(Code::TYPE_MISMATCH, "a summand", "a number or a date", &value));
        };
        is_narrow &= matches!(number, Numeric::Int32(_));
        match number {
            Numeric::Int32(value) => others.add_integer(i64::from(value)),
            Numeric::Int64(value) => others.add_integer(value),
            Numeric::Double(value) => others.add(value),
            Numeric::Decimal(value) => {
                decimals = Some(decimals.map_or(value, |sum| decimal::add(sum, value)));
            }
        }
        match date {
            Some(millis) => date = Some(moved(arguments, millis, number, i64::checked_add)?),
            None => sum = sum.plus(number),
        }
    }
    Ok(match (date, decimals) {
        (Some(date), _) => Value::date(date),
        (None, Some(decimals)) => Value::decimal(decimal::add(decimals, others.decimal())),
        (None, None) => total(sum, is_narrow),
    })
}

pub(super) fn subtract<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    // A date minus a date is a number of milliseconds, and a date minus a number is a date. A number minus a date is
    // an error.
    let number = Numeric::of(right.or_null());
    if let Some(date) = left.or_null().as_datetime() {
        let millis = date.timestamp_millis();
        if let Some(other) = right.or_null().as_datetime() {
            let between = millis.checked_sub(other.timestamp_millis());
            return between.map(Value::long).ok_or_else(|| overflow(arguments));
        }
        if let Some(number) = number {
            return moved(arguments, millis, number, i64::checked_sub).map(Value::date);
        }
    }
    // Neither operand is null here, so anything but two numbers is an error.
    match (Numeric::of(left.or_null()), number) {
        (Some(left), Some(right)) => Ok(left.minus(right).into_value()),
        (_, _) => Err(types(arguments, Code::TYPE_MISMATCH, &left, &right)),
    }
}

pub(super) fn multiply<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut product = Numeric::Int32(1);
    let mut is_narrow = true;
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        match Numeric::of(value.or_null()) {
            Some(number) => {
                is_narrow &= matches!(number, Numeric::Int32(_));
                product = product.times(number);
            }
            None => return Err(arguments.wrong_type(Code::TYPE_MISMATCH, "a factor", "a number", &value)),
        }
    }
    Ok(total(product, is_narrow))
}

pub(super) fn divide<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let Some((dividend, divisor)) = two_numbers(arguments, Code::TYPE_MISMATCH, &left, &right)? else {
        return Ok(Value::NULL);
    };
    if divisor.is_zero() {
        return Err(arguments.fault(Code::BAD_VALUE, Fault::DivisorZero));
    }
    if matches!(dividend, Numeric::Decimal(_)) || matches!(divisor, Numeric::Decimal(_)) {
        return Ok(Value::decimal(decimal::divide(dividend.to_decimal(), divisor.to_decimal())));
    }
    // A quotient of integers is a double in MongoDB, even where it is whole.
    Ok(Value::double(dividend.to_double() / divisor.to_double()))
}

pub(super) fn modulo<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let Some((dividend, divisor)) = two_numbers(arguments, Code::MOD_TYPE, &left, &right)? else {
        return Ok(Value::NULL);
    };
    if matches!(dividend, Numeric::Decimal(_)) || matches!(divisor, Numeric::Decimal(_)) {
        if divisor.is_zero() {
            return Err(arguments.fault(Code::MOD_DECIMAL_DIVISOR_ZERO, Fault::DivisorZero));
        }
        return Ok(Value::decimal(decimal::remainder(dividend.to_decimal(), divisor.to_decimal())));
    }
    if divisor.is_zero() {
        return Err(arguments.fault(Code::MOD_DIVISOR_ZERO, Fault::DivisorZero));
    }
    Ok(match dividend.to_integer().zip(divisor.to_integer()) {
        // The one remainder that overflows, of the least integer by -1, is zero; so is the wrapped one.
        Some((left, right)) => dividend.whole(divisor, left.wrapping_rem(right)).into_value(),
        None => Value::double(dividend.to_double() % divisor.to_double()),
    })
}

pub(super) fn abs<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some(number) = one_number(arguments)? else { return Ok(Value::NULL) };
    Ok(match number {
        Numeric::Int32(value) => Value::integer(i64::from(value).abs()),
        Numeric::Int64(value) => match value.checked_abs() {
            // The least int64 has no positive counterpart. That of int32 has one among int64.
            Some(value) => Value::long(value),
            None => {
                return Err(arguments.fault(Code::ABS_OVERFLOW, Fault::Overflow { kind: "64-bit integer" }));
            }
        },
        Numeric::Double(value) => Value::double(value.abs()),
        Numeric::Decimal(value) => Value::decimal(decimal::absolute(value)),
    })
}

/// The argument of an operator with one number. Returns `None` if it is null or missing.
pub(super) fn one_number(arguments: &Arguments<'_, '_>) -> Result<Option<Numeric>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(None);
    }
    match Numeric::of(value.or_null()) {
        Some(number) => Ok(Some(number)),
        None => Err(arguments.wrong_type(Code::ARGUMENT_NOT_NUMBER, "the argument", "a number", &value)),
    }
}

/// Both operands as numbers. Returns `None` if one is null or missing.
fn two_numbers(
    arguments: &Arguments<'_, '_>,
    code: Code,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Result<Option<(Numeric, Numeric)>, Error> {
    match (Numeric::of(left.or_null()), Numeric::of(right.or_null())) {
        (Some(left), Some(right)) => Ok(Some((left, right))),
        // Two numbers are the common case and are looked for first.
        (_, _) if left.is_nullish() || right.is_nullish() => Ok(None),
        (_, _) => Err(types(arguments, code, left, right)),
    }
}

fn types(arguments: &Arguments<'_, '_>, code: Code, left: &Value<'_>, right: &Value<'_>) -> Error {
    arguments.fault(code, Fault::Types { left: left.type_name(), right: right.type_name() })
}

fn overflow(arguments: &Arguments<'_, '_>) -> Error {
    arguments.fault(Code::OVERFLOW, Fault::Overflow { kind: "date" })
}

/// The result of several operands. If all of them are int32 and it fits, it is an int32, even if an intermediate
/// result was an int64.
fn total<'d>(number: Numeric, is_narrow: bool) -> Value<'d> {
    match number {
        Numeric::Int64(value) if is_narrow => Value::integer(value),
        Numeric::Int32(_) | Numeric::Int64(_) | Numeric::Double(_) | Numeric::Decimal(_) => {
            number.into_value()
        }
    }
}

/// Moves a date by a number of milliseconds, which is rounded to an integer.
fn moved(
    arguments: &Arguments<'_, '_>,
    millis: i64,
    by: Numeric,
    step: fn(i64, i64) -> Option<i64>,
) -> Result<i64, Error> {
    let by = match by {
        Numeric::Int32(by) => Some(i64::from(by)),
        Numeric::Int64(by) => Some(by),
        // Beyond 64 bits, and for NaN, there is no integer, and the date overflows.
        Numeric::Double(by) => integer(RawBsonRef::Double(by.round())),
        Numeric::Decimal(by) => decimal::to_integer(by, Rounding::HalfEven),
    };
    by.and_then(|by| step(millis, by)).ok_or_else(|| overflow(arguments))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, decimal, millis};

    #[test]
    fn sums_have_the_widest_type_of_their_summands() {
        check(bson!({ "$add": [1, 2] }), bson!(3));
        check(bson!({ "$add": [] }), bson!(0));
        check(bson!({ "$add": 5 }), bson!(5));
        check(bson!({ "$add": [1, 2_i64] }), bson!(3_i64));
        check(bson!({ "$add": [1, 2.5] }), bson!(3.5));
        check(bson!({ "$add": [1, (decimal("2.50"))] }), decimal("3.50"));
        check(bson!({ "$add": [0.1, (decimal("1"))] }), decimal("1.100000000000000005551115123125783"));
        check(bson!({ "$add": [(decimal("2.5")), 1.0] }), decimal("3.5"));
        let exact = decimal("1234567.891234566923230886459350586");
        check(bson!({ "$add": [1_234_567.891_234_567, (decimal("0"))] }), exact);
        check(bson!({ "$add": [1e100, (decimal("0.5")), 1.0, -1e100] }), decimal("1.5"));
        check(bson!({ "$add": [(i64::MAX), 0.5, (decimal("0"))] }), decimal("9223372036854775807.5"));
        check(bson!({ "$add": [(f64::INFINITY), (decimal("1"))] }), decimal("Infinity"));
        check(bson!({ "$add": [(i32::MAX), 1] }), bson!(2_147_483_648_i64));
        check(bson!({ "$add": [(i32::MAX), 1, -1] }), bson!(i32::MAX));
        check(bson!({ "$add": [(i64::MAX), 1] }), bson!(9_223_372_036_854_775_808.0));
        check(bson!({ "$add": [(f64::INFINITY), (f64::NEG_INFINITY)] }), bson!(f64::NAN));
    }

    #[test]
    fn null_and_missing_make_null_of_a_sum() {
        check(bson!({ "$add": [1, null] }), Bson::Null);
        check(bson!({ "$add": ["$missing", "x"] }), Bson::Null);
        check(bson!({ "$multiply": [1, "$missing"] }), Bson::Null);
        check(bson!({ "$subtract": [null, 1] }), Bson::Null);
        check(bson!({ "$divide": ["x", null] }), Bson::Null);
        check_error(bson!({ "$add": ["x", null] }), 14);
    }

    #[test]
    fn a_sum_may_have_one_date() {
        check(bson!({ "$add": [(millis(1_000)), 5] }), millis(1_005));
        check(bson!({ "$add": [1.5, (millis(1_000)), (decimal("2.5"))] }), millis(1_004));
        check_error(bson!({ "$add": [(millis(0)), (millis(0))] }), 16_612);
        check_error(bson!({ "$add": [(millis(i64::MAX)), 1] }), 15);
        check_error(bson!({ "$add": [(millis(0)), 1e300] }), 15);
    }

    #[test]
    fn differences_of_dates_are_milliseconds() {
        check(bson!({ "$subtract": [5, 3] }), bson!(2));
        check(bson!({ "$subtract": [(i32::MIN), 1] }), bson!(-2_147_483_649_i64));
        check(bson!({ "$subtract": [(i64::MIN), 1] }), bson!(-9_223_372_036_854_775_808.0));
        check(bson!({ "$subtract": [(millis(5_000)), (millis(2_000))] }), bson!(3_000_i64));
        check(bson!({ "$subtract": [(millis(5_000)), 2_000] }), millis(3_000));
        check_error(bson!({ "$subtract": [5, (millis(2_000))] }), 14);
        check_error(bson!({ "$subtract": [(millis(5_000)), "x"] }), 14);
        check_error(bson!({ "$subtract": [(millis(i64::MIN)), 1] }), 15);
        check_error(bson!({ "$subtract": [1] }), 16_020);
    }

    #[test]
    fn products_overflow_into_wider_types() {
        check(bson!({ "$multiply": [3, 4] }), bson!(12));
        check(bson!({ "$multiply": [65_536, 65_536] }), bson!(4_294_967_296_i64));
        check(bson!({ "$multiply": [(i64::MAX), 2] }), bson!(18_446_744_073_709_551_614.0));
        check(bson!({ "$multiply": [(decimal("1.5")), 2] }), decimal("3.0"));
        check_error(bson!({ "$multiply": [true, 1] }), 14);
    }

    #[test]
    fn quotients_are_doubles_or_decimals() {
        check(bson!({ "$divide": [6, 4] }), bson!(1.5));
        check(bson!({ "$divide": [6, 2] }), bson!(3.0));
        check(bson!({ "$divide": [(decimal("1")), 8] }), decimal("0.125"));
        check_error(bson!({ "$divide": [1, 0] }), 2);
        check_error(bson!({ "$divide": [1, (decimal("0"))] }), 2);
        check_error(bson!({ "$divide": ["x", 1] }), 14);
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend() {
        check(bson!({ "$mod": [7, 3] }), bson!(1));
        check(bson!({ "$mod": [-7, 3] }), bson!(-1));
        check(bson!({ "$mod": [7, 3_i64] }), bson!(1_i64));
        check(bson!({ "$mod": [7.5, 2] }), bson!(1.5));
        check(bson!({ "$mod": [(i64::MIN), -1] }), bson!(0_i64));
        check(bson!({ "$mod": [(decimal("7.5")), 2] }), decimal("1.5"));
        check_error(bson!({ "$mod": [7, 0] }), 16_610);
        check_error(bson!({ "$mod": [7, (decimal("0"))] }), 5_733_415);
        check_error(bson!({ "$mod": [7, "x"] }), 16_611);
    }

    #[test]
    fn the_least_integer_has_no_absolute_value() {
        check(bson!({ "$abs": -5 }), bson!(5));
        check(bson!({ "$abs": [-2.5] }), bson!(2.5));
        check(bson!({ "$abs": (i32::MIN) }), bson!(2_147_483_648_i64));
        check(bson!({ "$abs": (decimal("-1.50")) }), decimal("1.50"));
        check(bson!({ "$abs": "$missing" }), Bson::Null);
        check_error(bson!({ "$abs": (i64::MIN) }), 28_680);
        check_error(bson!({ "$abs": "x" }), 28_765);
        check_error(bson!({ "$abs": [1, 2] }), 16_020);
    }
}
