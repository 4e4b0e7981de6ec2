//! `$slice` of a projection: a part of an array, counted from its start or its end.

use std::ops::Range;

use bson::RawBsonRef;
use index::number::Number;

use crate::decimal::{Rounding, to_integer};
use crate::value::elements;

/// Which elements stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    First(usize),
    Last(usize),
    /// `count` elements after `skip` elements. A negative `skip` is a position counted from the end.
    From {
        skip: i32,
        count: usize,
    },
}

impl Slice {
    /// Parses a number, or an array of a position and a number above zero.
    ///
    /// Returns `None` for any other operand, which may be the expression `$slice`.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Option<Self> {
        if let Some(count) = truncated(operand) {
            let limit = usize::try_from(count.unsigned_abs()).ok()?;
            return Some(if count < 0 { Self::Last(limit) } else { Self::First(limit) });
        }
        // MongoDB's expression has the same form with a field path first, so a wrong type is not an error yet.
        let mut parts = elements(operand.as_array()?);
        let (skip, count) = (truncated(parts.next()?)?, truncated(parts.next()?)?);
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        if parts.next().is_some() { None } else { Some(Self::From { skip, count }) }
    }

    /// The positions of the elements that stay, of an array with `len` elements.
    pub(super) fn range(self, len: usize) -> Range<usize> {
        match self {
            Self::First(count) => 0..count.min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
            Self::From { skip, count } => {
                let distance = usize::try_from(skip.unsigned_abs()).unwrap_or(usize::MAX);
                let start = if skip < 0 { len.saturating_sub(distance) } else { distance.min(len) };
                start..start.saturating_add(count).min(len)
            }
        }
    }
}

/// A number truncated to an integer of 32 bits. A number beyond that becomes the nearest one, and NaN becomes
/// zero.
fn truncated(value: RawBsonRef<'_>) -> Option<i32> {
    let number = Number::of(value)?;
    let integer = if let RawBsonRef::Decimal128(decimal) = value {
        // `to_i64` accepts no decimal with a fraction, so it is truncated first.
        to_integer(decimal, Rounding::TowardZero)
    } else {
        value.as_f64().map_or(number, |double| Number::from_f64(double.trunc())).to_i64()
    };
    // Beyond 64 bits (or NaN) there is no integer, and the sign decides which end of the range is the
    // nearest.
    let integer = integer.unwrap_or_else(|| {
        if number > Number::from_i64(0) {
            i64::MAX
        } else if number == Number::from_f64(f64::NAN) {
            0
        } else {
            i64::MIN
        }
    });
    i32::try_from(integer.clamp(i32::MIN.into(), i32::MAX.into())).ok()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawBson, bson};

    use super::*;

    fn parse(operand: &Bson) -> Option<Slice> {
        Slice::parse(RawBson::try_from(operand.clone()).unwrap().as_raw_bson_ref())
    }

    #[track_caller]
    fn check(operand: impl Into<Bson>, kept: Range<usize>) {
        let operand = operand.into();
        assert_eq!(parse(&operand).unwrap().range(5), kept, "{operand}");
    }

    #[test]
    fn numbers_count_from_the_beginning_or_the_end() {
        check(bson!(2), 0..2);
        check(bson!(0), 0..0);
        check(bson!(9), 0..5);
        check(bson!(-2), 3..5);
        check(bson!(-9_i64), 0..5);
        check(bson!(1.9), 0..1);
        check(bson!(-1.9), 4..5);
        check(bson!(f64::NAN), 0..0);
        check(bson!(f64::INFINITY), 0..5);
        check(bson!(i64::MIN), 0..5);
        check(Bson::Decimal128("2.7".parse().unwrap()), 0..2);
        check(Bson::Decimal128("-Infinity".parse().unwrap()), 0..5);
    }

    #[test]
    fn positions_may_lie_outside() {
        check(bson!([1, 2]), 1..3);
        check(bson!([4, 9]), 4..5);
        check(bson!([7, 1]), 5..5);
        check(bson!([-2, 1]), 3..4);
        check(bson!([-9, 2]), 0..2);
        check(bson!([i32::MIN, i32::MAX]), 0..5);
    }

    #[test]
    fn other_forms_are_left_to_expressions() {
        for operand in
            [bson!("$a"), bson!([1]), bson!([1, 2, 3]), bson!([1, 0]), bson!([1, -1]), bson!(["$a", 1])]
        {
            assert_eq!(parse(&operand), None);
        }
    }
}
