//! Bits of integers: `$bitAnd`, `$bitOr`, `$bitXor` and `$bitNot`.

use crate::code::Code;
use crate::expression::arithmetic::one_number;
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::value::Value;
use crate::numeric::Numeric;

pub(super) fn and<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    combined(arguments, -1, |left, right| left & right)
}

pub(super) fn or<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    combined(arguments, 0, |left, right| left | right)
}

pub(super) fn xor<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    combined(arguments, 0, |left, right| left ^ right)
}

pub(super) fn not<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    match one_number(arguments)? {
        None => Ok(Value::NULL),
        Some(Numeric::Int32(value)) => Ok(Value::int(!value)),
        Some(Numeric::Int64(value)) => Ok(Value::long(!value)),
        // A double is rejected even if it is whole: only the integer types have bits.
        Some(number @ (Numeric::Double(_) | Numeric::Decimal(_))) => {
            Err(arguments.wrong_type(Code::TYPE_MISMATCH, "the argument", "an integer", &number.into_value()))
        }
    }
}

/// Combines integers. The result is an int64 if one of them is. `neutral` is the value that `combine` leaves
/// unchanged.
fn combined<'d>(
    arguments: &Arguments<'_, 'd>,
    neutral: i64,
    combine: fn(i64, i64) -> i64,
) -> Result<Value<'d>, Error> {
    let (mut bits, mut is_wide) = (neutral, false);
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        bits = match Numeric::of(value.or_null()) {
            // The sign is extended, so the low 32 bits of the result are those of the operation in 32 bits.
            Some(Numeric::Int32(operand)) => combine(bits, i64::from(operand)),
            Some(Numeric::Int64(operand)) => {
                is_wide = true;
                combine(bits, operand)
            }
            Some(Numeric::Double(_) | Numeric::Decimal(_)) | None => {
                return Err(arguments.wrong_type(Code::TYPE_MISMATCH, "an argument", "an integer", &value));
            }
        };
    }
    // Of int32 alone the result fits into 32 bits again.
    Ok(if is_wide { Value::long(bits) } else { Value::integer(bits) })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error};

    #[test]
    fn bits_of_integers_are_combined() {
        check(bson!({ "$bitAnd": [12, 10] }), bson!(8));
        check(bson!({ "$bitAnd": [] }), bson!(-1));
        check(bson!({ "$bitOr": [12, 3_i64] }), bson!(15_i64));
        check(bson!({ "$bitXor": [5, 1, 1] }), bson!(5));
        check(bson!({ "$bitXor": [] }), bson!(0));
        check(bson!({ "$bitNot": 0 }), bson!(-1));
        check(bson!({ "$bitNot": 1_i64 }), bson!(-2_i64));
        check(bson!({ "$bitAnd": [-1, -2] }), bson!(-2));
    }

    #[test]
    fn null_gives_null_and_other_types_an_error() {
        check(bson!({ "$bitOr": [1, null] }), Bson::Null);
        check(bson!({ "$bitNot": "$missing" }), Bson::Null);
        check_error(bson!({ "$bitAnd": [1, 2.0] }), 14);
        check_error(bson!({ "$bitXor": ["x"] }), 14);
        check_error(bson!({ "$bitNot": 1.5 }), 14);
        check_error(bson!({ "$bitNot": "x" }), 28_765);
    }
}
