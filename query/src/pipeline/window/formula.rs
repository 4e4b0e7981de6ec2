//! Arithmetic of values with MongoDB's types, by expressions that are parsed once.

use std::sync::LazyLock;

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc};
use index::order::compare;

use crate::expression::{Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::error::Fault;
use crate::value::{content_bytes, integer};

/// A point: the value that a document is sorted by, and the value of an input.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) x: RawBson,
    pub(super) y: RawBson,
}

/// An expression over the fields of two points, `x1`, `y1`, `x2` and `y2`, and a value `x`.
#[derive(Clone, Copy)]
enum Formula {
    Rise,
    Run,
    Trapezoid,
    Interpolated,
    Rescaled,
}

/// The expressions of all formulas, in the order of [`Formula`].
static EXPRESSIONS: LazyLock<Option<[Expression; 5]>> = LazyLock::new(|| {
    // Parsed once for the process: a formula is evaluated for every document.
    let rise = rawdoc! { "$subtract": ["$y2", "$y1"] };
    let run = rawdoc! { "$subtract": ["$x2", "$x1"] };
    let from_start = rawdoc! { "$subtract": ["$x", "$x1"] };
    let area = rawdoc! { "$multiply": [{ "$add": ["$y2", "$y1"] }, run.clone()] };
    let slope = rawdoc! { "$divide": [rise.clone(), run.clone()] };
    let share = rawdoc! { "$divide": [from_start.clone(), run.clone()] };
    let parse =
        |text: RawDocumentBuf| Expression::parse(RawBsonRef::Document(&text), &Variables::default()).ok();
    Some([
        parse(rise.clone())?,
        parse(run)?,
        parse(rawdoc! { "$divide": [area, 2.0] })?,
        parse(rawdoc! { "$add": ["$y1", { "$multiply": [from_start, slope] }] })?,
        parse(rawdoc! { "$add": [{ "$multiply": [share, rise] }, "$y1"] })?,
    ])
});

impl Formula {
    fn value(self, fields: &RawDocumentBuf) -> Result<RawBson, Fault> {
        // By position: the order of both lists is the same.
        let expression = EXPRESSIONS.as_ref().and_then(|expressions| expressions.get(self as usize));
        // All of them are parsed in a test.
        let Some(expression) = expression else { return Ok(RawBson::Null) };
        Ok(expression.evaluate(fields, &Variables::default())?.unwrap_or(RawBson::Null))
    }

    fn between(self, start: &Point, end: &Point) -> Result<RawBson, Fault> {
        self.value(&rawdoc! { "x1": start.x.clone(), "y1": start.y.clone(), "x2": end.x.clone(), "y2": end.y.clone() })
    }
}

impl Point {
    /// The distance of `end` from this point: in `x` and in `y`.
    pub(super) fn distance_to(&self, end: &Self) -> Result<(RawBson, RawBson), Fault> {
        // In this order: MongoDB reports a fault of `x` first.
        let run = Formula::Run.between(self, end)?;
        Ok((run, Formula::Rise.between(self, end)?))
    }

    /// Whether one of both values is NaN.
    pub(super) fn is_nan(&self) -> bool {
        let is_nan = |value: &RawBson| {
            Numeric::of(value.as_raw_bson_ref()).is_some_and(|number| number.to_double().is_nan())
        };
        is_nan(&self.x) || is_nan(&self.y)
    }

    /// The memory of the point.
    pub(super) fn bytes(&self) -> usize {
        content_bytes(self.x.as_raw_bson_ref()) + content_bytes(self.y.as_raw_bson_ref()) + size_of::<Self>()
    }

    /// The area below the line to `end`.
    pub(super) fn area_to(&self, end: &Self) -> Result<RawBson, Fault> {
        Formula::Trapezoid.between(self, end)
    }

    /// The value at `x` of the line to `end`.
    pub(super) fn interpolated(&self, end: &Self, x: &RawBson) -> Result<RawBson, Fault> {
        let mut fields = rawdoc! { "x1": self.x.clone(), "y1": self.y.clone(), "x2": end.x.clone() };
        fields.append(cstr!("y2"), end.y.clone());
        fields.append(cstr!("x"), x.clone());
        Formula::Interpolated.value(&fields)
    }
}

/// The quotient of two numbers times `factor`, or null if the divisor is zero.
pub(super) fn quotient(dividend: &RawBson, divisor: &RawBson, factor: Option<i64>) -> Result<RawBson, Fault> {
    let is_zero = integer(divisor.as_raw_bson_ref()) == Some(0);
    if is_zero {
        return Ok(RawBson::Null);
    }
    let quotient = rawdoc! { "$divide": [dividend.clone(), divisor.clone()] };
    let text = match factor {
        Some(factor) => rawdoc! { "$multiply": [quotient, factor] },
        None => quotient,
    };
    let expression = Expression::parse(RawBsonRef::Document(&text), &Variables::default())?;
    Ok(expression.evaluate(&RawDocumentBuf::new(), &Variables::default())?.unwrap_or(RawBson::Null))
}

/// A value that lies from `least` to `greatest`, moved into another range.
pub(super) fn rescaled(
    value: &RawBson,
    least: &RawBson,
    greatest: &RawBson,
    range: &[RawBson; 2],
) -> Result<RawBson, Fault> {
    let [low, high] = range;
    // A window of one value has no extent: MongoDB gives the lower end.
    if compare(least.as_raw_bson_ref(), greatest.as_raw_bson_ref()).is_eq() {
        return Ok(low.clone());
    }
    let mut fields = rawdoc! { "x": value.clone(), "x1": least.clone(), "x2": greatest.clone() };
    fields.append(cstr!("y1"), low.clone());
    fields.append(cstr!("y2"), high.clone());
    Formula::Rescaled.value(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_formula_is_an_expression() {
        assert!(EXPRESSIONS.is_some());
    }

    #[test]
    fn formulas_keep_types() {
        let point = |x: i32, y: f64| Point { x: RawBson::Int32(x), y: RawBson::Double(y) };
        let (start, end) = (point(0, 1.0), point(4, 3.0));
        assert_eq!(start.distance_to(&end), Ok((RawBson::Int32(4), RawBson::Double(2.0))));
        assert_eq!(start.area_to(&end), Ok(RawBson::Double(8.0)));
        assert_eq!(start.interpolated(&end, &RawBson::Int32(1)), Ok(RawBson::Double(1.5)));
        assert_eq!(quotient(&RawBson::Int32(1), &RawBson::Int32(0), None), Ok(RawBson::Null));
    }
}
