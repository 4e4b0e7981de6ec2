//! `$inc` and `$mul`: arithmetic over the four number types.
//!
//! The result has the wider type of the two operands: int32, int64, double, decimal128, in this order. A 32-bit result
//! that overflows becomes a 64-bit one. A 64-bit result that overflows is rejected, not rounded.

use crate::decimal;
use crate::numeric::Numeric;

/// The operation on a field's value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Multiply,
}

impl Arithmetic {
    /// The name of the operator, for errors.
    pub(super) fn operator(self) -> &'static str {
        match self {
            Self::Add => "$inc",
            Self::Multiply => "$mul",
        }
    }

    /// The result. Returns `None` if a 64-bit integer overflows.
    pub(super) fn apply(self, left: Numeric, right: Numeric) -> Option<Numeric> {
        // The arms go from the widest type to the narrowest, so each knows that no wider one is involved.
        match (left, right) {
            (Numeric::Decimal(_), _) | (_, Numeric::Decimal(_)) => {
                let (left, right) = (left.to_decimal(), right.to_decimal());
                Some(Numeric::Decimal(match self {
                    Self::Add => decimal::add(left, right),
                    Self::Multiply => decimal::multiply(left, right),
                }))
            }
            (Numeric::Double(_), _) | (_, Numeric::Double(_)) => {
                let (left, right) = (left.to_double(), right.to_double());
                Some(Numeric::Double(match self {
                    Self::Add => left + right,
                    Self::Multiply => left * right,
                }))
            }
            (Numeric::Int32(left), Numeric::Int32(right)) => {
                // In 64 bits neither the sum nor the product of two 32-bit integers overflows.
                let (left, right) = (i64::from(left), i64::from(right));
                let result = self.integers(left, right)?;
                Some(i32::try_from(result).map_or(Numeric::Int64(result), Numeric::Int32))
            }
            (Numeric::Int32(left), Numeric::Int64(right)) | (Numeric::Int64(right), Numeric::Int32(left)) => {
                self.integers(i64::from(left), right).map(Numeric::Int64)
            }
            (Numeric::Int64(left), Numeric::Int64(right)) => self.integers(left, right).map(Numeric::Int64),
        }
    }

    /// The value that a missing field gets: MongoDB reads its value as 0.
    pub(super) fn start(self, operand: Numeric) -> Numeric {
        match self {
            Self::Add => operand,
            // The result is zero in the operand's type. A product with zero never overflows.
            Self::Multiply => self.apply(operand, Numeric::Int32(0)).unwrap_or(Numeric::Int32(0)),
        }
    }

    fn integers(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Multiply => left.checked_mul(right),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawBson, bson};

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    fn shown(number: Numeric) -> String {
        match number {
            Numeric::Int32(value) => format!("int {value}"),
            Numeric::Int64(value) => format!("long {value}"),
            Numeric::Double(value) => format!("double {value:?}"),
            Numeric::Decimal(value) => format!("decimal {value}"),
        }
    }

    #[track_caller]
    fn check(operation: Arithmetic, left: impl Into<Bson>, right: impl Into<Bson>, expected: &str) {
        let numeric = |value: Bson| {
            let raw: RawBson = value.try_into().unwrap();
            Numeric::of(raw.as_raw_bson_ref()).unwrap()
        };
        let result = operation.apply(numeric(left.into()), numeric(right.into()));
        assert_eq!(result.map_or("overflow".to_owned(), shown), expected);
    }

    #[test]
    fn the_wider_type_wins() {
        check(Arithmetic::Add, 1, 2, "int 3");
        check(Arithmetic::Add, 1, 2_i64, "long 3");
        check(Arithmetic::Add, 1_i64, 2, "long 3");
        check(Arithmetic::Add, 1, 2.5, "double 3.5");
        check(Arithmetic::Add, 2.5, 1_i64, "double 3.5");
        check(Arithmetic::Add, 1, decimal("2.50"), "decimal 3.50");
        check(Arithmetic::Add, 0.5, decimal("2"), "decimal 2.500000000000000");
        check(Arithmetic::Multiply, 3, 4_i64, "long 12");
        check(Arithmetic::Multiply, 3, 0.5, "double 1.5");
        check(Arithmetic::Multiply, decimal("1.5"), 2_i64, "decimal 3.0");
    }

    #[test]
    fn integers_widen_and_do_not_wrap() {
        check(Arithmetic::Add, i32::MAX, 1, "long 2147483648");
        check(Arithmetic::Add, i32::MIN, -1, "long -2147483649");
        check(Arithmetic::Multiply, i32::MAX, i32::MAX, "long 4611686014132420609");
        check(Arithmetic::Add, i64::MAX, 1, "overflow");
        check(Arithmetic::Add, -1, i64::MIN, "overflow");
        check(Arithmetic::Multiply, i64::MIN, -1, "overflow");
        check(Arithmetic::Add, i64::MAX, 1.0, "double 9.223372036854776e18");
    }

    #[test]
    fn special_doubles_stay_doubles() {
        check(Arithmetic::Add, f64::NAN, 1, "double NaN");
        check(Arithmetic::Multiply, bson!(f64::INFINITY), 0, "double NaN");
        check(Arithmetic::Add, f64::MAX, f64::MAX, "double inf");
    }

    #[track_caller]
    fn check_start(operation: Arithmetic, operand: Numeric, expected: &str) {
        assert_eq!(shown(operation.start(operand)), expected);
    }

    #[test]
    fn a_missing_field_starts_at_zero() {
        check_start(Arithmetic::Add, Numeric::Int32(5), "int 5");
        check_start(Arithmetic::Multiply, Numeric::Int32(5), "int 0");
        check_start(Arithmetic::Multiply, Numeric::Int64(i64::MIN), "long 0");
        check_start(Arithmetic::Multiply, Numeric::Double(2.5), "double 0.0");
        check_start(Arithmetic::Multiply, Numeric::Decimal("2.5".parse().unwrap()), "decimal 0.0");
    }
}
