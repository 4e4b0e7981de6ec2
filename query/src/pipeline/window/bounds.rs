//! The bounds of windows: numbers of documents, or distances of the value that documents are sorted by.

use std::cmp::Ordering;

use bson::{DateTime, RawBson, RawBsonRef};
use index::key::Direction;
use index::order::compare;

use crate::code::Code;
use crate::decimal;
use crate::expression::date::shift::TimeUnit;
use crate::expression::{Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::error::Fault;
use crate::raw::Fields;
use crate::sort::Sort;
use crate::value::{describe, integer};

const STAGE: &str = "$setWindowFields";

/// The documents around the current one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bounds {
    /// By their numbers, counted from the current document. Absent for the start or the end of the partition.
    Documents(Option<i64>, Option<i64>),
    /// By the value that they are sorted by.
    Range { lower: Bound, upper: Bound, unit: Option<TimeUnit> },
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    /// The start or the end of the partition.
    Unbounded,
    /// The current document itself, not those that are sorted equally.
    Current,
    /// The value of the current document plus this.
    Distance(RawBson),
}

impl Bounds {
    /// All documents of the partition.
    pub(super) const ALL: Self = Self::Documents(None, None);
    /// The documents up to the current one.
    pub(super) const SO_FAR: Self = Self::Documents(None, Some(0));

    /// Whether the window starts where the partition does, so that no document ever leaves it.
    pub(super) fn only_grows(&self) -> bool {
        matches!(self, Self::Documents(None, _) | Self::Range { lower: Bound::Unbounded, .. })
    }

    /// Whether the current document is always in the window.
    pub(super) fn has_current(&self) -> bool {
        match self {
            Self::Documents(lower, upper) => {
                lower.is_none_or(|lower| lower <= 0) && upper.is_none_or(|upper| upper >= 0)
            }
            Self::Range { lower, upper, .. } => {
                let is = |bound: &Bound, wanted: fn(Ordering) -> bool| {
                    let zero = RawBsonRef::Int32(0);
                    bound.number().is_none_or(|number| wanted(compare(number.as_raw_bson_ref(), zero)))
                };
                is(lower, Ordering::is_le) && is(upper, Ordering::is_ge)
            }
        }
    }

    /// Parses the option `window` of an operator.
    pub(super) fn parse(
        operand: RawBsonRef<'_>,
        sort: Option<&Sort>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        let window = operand.as_document().ok_or_else(|| wrong("an object as 'window'", operand))?;
        let (mut documents, mut range, mut unit, mut count) = (None, None, None, 0);
        for field in Fields::of(window) {
            let field = field?;
            count += 1;
            match field.name() {
                "documents" => documents = Some(field.value()?),
                "range" => range = Some(field.value()?),
                "unit" => unit = Some(field.value()?),
                other => return Err(wrong("'documents', 'range' or 'unit' in a 'window'", text(other))),
            }
        }
        // In the order of MongoDB's checks; a window without anything in it is one without bounds.
        match (documents, range) {
            (Some(_), Some(found)) => Err(wrong("either 'documents' or 'range' in a 'window'", found)),
            (None, None) if count == 0 => Ok(Self::ALL),
            (None, None) => Err(wrong("'unit' only with 'range' in a 'window'", operand)),
            (Some(_), None) if count > 1 => Err(wrong("'documents' alone in a 'window'", operand)),
            (Some(documents), None) => Self::parse_documents(documents, sort, variables),
            (None, Some(range)) => Self::parse_range(range, unit, sort, variables),
        }
    }

    fn parse_documents(
        operand: RawBsonRef<'_>,
        sort: Option<&Sort>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        let read = |value| match parse_bound(value, variables)? {
            Bound::Unbounded => Ok(None),
            Bound::Current => Ok(Some(0)),
            Bound::Distance(number) => {
                let number = number.as_raw_bson_ref();
                let whole = integer(number).filter(|&number| i32::try_from(number).is_ok());
                whole.map(Some).ok_or_else(|| wrong("an integer as a bound of 'documents'", number))
            }
        };
        // Beyond 32 bits there are no documents, and sums with their numbers cannot overflow.
        let [lower, upper] = pair(operand)?;
        let (lower, upper) = (read(lower)?, read(upper)?);
        if lower.zip(upper).is_some_and(|(lower, upper)| lower > upper) {
            return Err(refused("a lower bound up to the upper one", operand, Code::WINDOW_BOUNDS_ORDER));
        }
        // Without an order there is no document before another.
        if sort.is_none() && (lower.is_some() || upper.is_some()) {
            return Err(refused("'sortBy' for bounds of documents", operand, Code::WINDOW_DOCUMENTS_SORT_BY));
        }
        Ok(Self::Documents(lower, upper))
    }

    fn parse_range(
        operand: RawBsonRef<'_>,
        unit: Option<RawBsonRef<'_>>,
        sort: Option<&Sort>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        // In MongoDB's order: the bounds are checked before the order that they need.
        let unit = unit.map(parse_unit).transpose()?;
        let [lower, upper] = pair(operand)?;
        let (lower, upper) = (parse_bound(lower, variables)?, parse_bound(upper, variables)?);
        for bound in [&lower, &upper] {
            if let (Bound::Distance(number), Some(_)) = (bound, unit)
                && integer(number.as_raw_bson_ref()).is_none()
            {
                return Err(wrong("an integer as a bound with a unit", number.as_raw_bson_ref()));
            }
        }
        if let Some((low, high)) = lower.number().zip(upper.number())
            && compare(low.as_raw_bson_ref(), high.as_raw_bson_ref()).is_gt()
        {
            return Err(refused("a lower bound up to the upper one", operand, Code::WINDOW_BOUNDS_ORDER));
        }
        // A distance has a meaning for one value only, and a direction.
        let mut fields = sort.into_iter().flat_map(Sort::fields);
        let (Some((_, direction)), None) = (fields.next(), fields.next()) else {
            return Err(refused("'sortBy' with one field for a range", operand, Code::WINDOW_RANGE_SORT_BY));
        };
        if direction == Direction::Descending {
            return Err(refused("an ascending 'sortBy' for a range", operand, Code::WINDOW_RANGE_DESCENDING));
        }
        Ok(Self::Range { lower, upper, unit })
    }
}

impl Bound {
    /// The bound as a distance. Returns `None` without one.
    fn number(&self) -> Option<RawBson> {
        match self {
            Self::Unbounded => None,
            Self::Current => Some(RawBson::Int32(0)),
            Self::Distance(number) => Some(number.clone()),
        }
    }

    /// The value at the bound of a window around `value`. Returns `None` for other bounds.
    pub(super) fn threshold(
        &self,
        value: RawBsonRef<'_>,
        unit: Option<TimeUnit>,
    ) -> Result<Option<RawBson>, Fault> {
        let Self::Distance(distance) = self else { return Ok(None) };
        let distance = distance.as_raw_bson_ref();
        // Months and longer units go by the calendar.
        if let (Some(unit), Some(date)) = (unit, value.as_datetime()) {
            let moved = integer(distance).and_then(|amount| unit.add_in_utc(date.timestamp_millis(), amount));
            let moved = moved
                .ok_or_else(|| refused("a range that dates can hold", distance, Code::DATE_ADD_OVERFLOW))?;
            return Ok(Some(RawBson::DateTime(DateTime::from_millis(moved))));
        }
        let (Some(value), Some(distance)) = (Numeric::of(value), Numeric::of(distance)) else {
            return Ok(None);
        };
        // Integers stay exact without the detour. MongoDB adds everything as decimals: only the comparison is seen.
        let whole = value.to_integer().zip(distance.to_integer());
        if let Some(sum) = whole.and_then(|(value, distance)| value.checked_add(distance)) {
            return Ok(Some(RawBson::Int64(sum)));
        }
        Ok(Some(RawBson::Decimal128(decimal::add(value.to_decimal(), distance.to_decimal()))))
    }
}

/// Whether a value can be in a range: a date with a unit, a number without one.
pub(super) fn is_ranged(value: RawBsonRef<'_>, unit: Option<TimeUnit>) -> bool {
    if unit.is_some() { value.as_datetime().is_some() } else { Numeric::of(value).is_some() }
}

/// Rejects a value that no range can be around.
pub(super) fn check_ranged(value: RawBsonRef<'_>, unit: Option<TimeUnit>) -> Result<(), Fault> {
    if is_ranged(value, unit) {
        return Ok(());
    }
    let (expected, code) = if unit.is_some() {
        ("dates in the field of 'sortBy' for a range with a unit", Code::WINDOW_RANGE_DATE)
    } else if value.as_datetime().is_some() {
        ("a unit for a range of dates", Code::WINDOW_RANGE_DATE_WITHOUT_UNIT)
    } else {
        ("numbers in the field of 'sortBy' for a range", Code::WINDOW_RANGE_NUMBER)
    };
    Err(refused(expected, value, code))
}

/// Parses a unit of time.
pub(super) fn parse_unit(operand: RawBsonRef<'_>) -> Result<TimeUnit, Fault> {
    let name = operand.as_str().ok_or_else(|| wrong("a string as 'unit'", operand))?;
    TimeUnit::of_name(name).ok_or_else(|| wrong("a unit of time as 'unit'", operand))
}

/// The two bounds of an array.
fn pair(operand: RawBsonRef<'_>) -> Result<[RawBsonRef<'_>; 2], Fault> {
    let bounds = operand.as_array().map(|array| crate::value::elements(array).collect::<Vec<_>>());
    match bounds.as_deref() {
        Some([lower, upper]) => Ok([*lower, *upper]),
        Some(_) | None => Err(wrong("an array of two bounds", operand)),
    }
}

fn parse_bound(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Bound, Fault> {
    match operand.as_str() {
        Some("unbounded") => return Ok(Bound::Unbounded),
        Some("current") => return Ok(Bound::Current),
        Some(_) => return Err(wrong("'unbounded', 'current' or a number as a bound", operand)),
        None => {}
    }
    // Any expression that needs no document, such as a difference of two numbers.
    let expression = Expression::parse(operand, variables)?;
    let value = expression.constant().ok_or_else(|| wrong("a constant as a bound", operand))?;
    let value = value.unwrap_or(RawBsonRef::Null);
    match Numeric::of(value) {
        Some(_) => Ok(Bound::Distance(value.into())),
        None => Err(wrong("'unbounded', 'current' or a number as a bound", value)),
    }
}

fn text(name: &str) -> RawBsonRef<'_> {
    RawBsonRef::String(name)
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>) -> Fault {
    refused(expected, found, Code::FAILED_TO_PARSE)
}

pub(super) fn refused(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}
