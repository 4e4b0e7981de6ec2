//! The state of the documents in a window, and the value that follows from it.

use std::cmp::Ordering;
use std::collections::VecDeque;

use bson::{RawBson, RawBsonRef, RawDocument};

use index::collation::Collation;

use crate::code::Code;
use crate::expression::Variables;
use crate::expression::accumulate::{Spread, Sum};
use crate::expression::covariance::Covariance;
use crate::numeric::Numeric;
use crate::pipeline::accumulator::{
    Accumulator, GroupState, Kind, Population, array_of, deviation, encoded, is_nullish,
};
use crate::pipeline::count::number;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::pipeline::quantiles::WindowNumbers;
use crate::pipeline::ranked::End;
use crate::pipeline::stream::nothing;
use crate::pipeline::window::formula::{Point, quotient, rescaled};
use crate::pipeline::window::frame::{Frame, Row};
use crate::pipeline::window::function::Function;
use crate::pipeline::window::moving::{Distinct, DistinctElements, Extreme, Ordered, Part, Parts, Values};
use crate::value::{describe, elements};

/// The context of a window besides its documents.
pub(super) struct Workspace<'w> {
    pub(super) variables: &'w Variables,
    /// The documents that were read.
    pub(super) frame: &'w Frame,
    pub(super) memory: &'w mut StageMemory,
}

/// The documents in a window, as far as the function needs to know them.
#[derive(Debug)]
pub(super) enum State {
    /// A window that no document leaves: the accumulator of a group.
    Group(GroupState),
    Sum(Parts<Sum>),
    Average(Parts<Sum>),
    Spread(Parts<Spread>, Population),
    Covariance(Parts<Covariance>, Population),
    Count(u64),
    Extreme(Extreme),
    Values(Values, Pick),
    Distinct(Distinct),
    Ordered(Ordered, End, Option<usize>),
    /// The elements of arrays, and those that differ.
    Elements(Values),
    Union(DistinctElements),
    /// The numbers that percentiles are asked of.
    Percentiles(WindowNumbers),
    /// The value of one document, and what there is without it.
    Shifted(Values, RawBson),
    /// The first and the last points, or all of them if they leave; and the length of the unit.
    Slope(VecDeque<Point>, Option<i64>),
    Area(Area),
    /// The least and the greatest value, and the range that they are moved to.
    Scaler([Extreme; 2], [RawBson; 2]),
}

/// Which values of a window are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    One(End),
    Some(End, usize),
    All,
}

/// The area below the points of a window.
#[derive(Debug)]
pub(super) struct Area {
    /// The length of the unit.
    unit: Option<i64>,
    points: VecDeque<Point>,
    areas: Parts<Sum>,
    /// The number of points that are not numbers.
    nans: usize,
}

impl State {
    /// The state of an empty window. `moves` says whether documents leave it.
    pub(super) fn start(
        function: &Function,
        moves: bool,
        variables: &Variables,
    ) -> Result<Option<Self>, Fault> {
        // Asked for each document, so that the numbers of a group would be sorted again each time.
        if let Function::Accumulate(accumulator) = function
            && let Some(request) = accumulator.percentiles()
        {
            return Ok(Some(Self::Percentiles(WindowNumbers::new(request, moves))));
        }
        Ok(Some(match function {
            Function::Accumulate(accumulator) if moves => Self::moving(accumulator, variables)?,
            Function::Accumulate(accumulator) => Self::Group(accumulator.start(nothing(), variables)?),
            Function::Covariance { population, .. } => Self::Covariance(Parts::new(), *population),
            Function::Derivative { unit, .. } => Self::Slope(VecDeque::new(), *unit),
            Function::Integral { unit, .. } => {
                Self::Area(Area { unit: *unit, points: VecDeque::new(), areas: Parts::new(), nans: 0 })
            }
            Function::Shift { default, .. } => Self::Shifted(Values::default(), default.clone()),
            Function::MinMaxScaler { range, .. } => {
                let extremes = [Ordering::Less, Ordering::Greater]
                    .map(|wanted| Extreme::new(wanted, moves, &Collation::simple()));
                Self::Scaler(extremes, range.clone())
            }
            // These look at the documents one by one, and have no window.
            Function::Rank(_)
            | Function::ExpMovingAverage { .. }
            | Function::LinearFill(_)
            | Function::LastFill(_) => return Ok(None),
        }))
    }

    fn moving(accumulator: &Accumulator, variables: &Variables) -> Result<Self, Fault> {
        let wanted = accumulator.wanted(nothing(), variables)?;
        // Each keeps as little as its way of leaving allows.
        Ok(match accumulator.kind() {
            Kind::Sum => Self::Sum(Parts::new()),
            Kind::Average => Self::Average(Parts::new()),
            Kind::Deviation(population) => Self::Spread(Parts::new(), population),
            Kind::Count => Self::Count(0),
            Kind::Extreme(wanted) => Self::Extreme(Extreme::new(wanted, true, accumulator.collation())),
            Kind::First => Self::Values(Values::default(), Pick::One(End::First)),
            Kind::Last => Self::Values(Values::default(), Pick::One(End::Last)),
            Kind::Some(end) => Self::Values(Values::default(), Pick::Some(end, wanted)),
            Kind::Push => Self::Values(Values::default(), Pick::All),
            Kind::AddToSet => Self::Distinct(Distinct::new(accumulator.collation())),
            Kind::Concatenate => Self::Elements(Values::default()),
            Kind::Union => Self::Union(DistinctElements::new(accumulator.collation())),
            Kind::Extremes(_) => Self::Ordered(Ordered::default(), End::First, Some(wanted)),
            Kind::BestSome(end) => Self::Ordered(Ordered::default(), end, Some(wanted)),
            Kind::Best(end) => Self::Ordered(Ordered::default(), end, None),
            // Parsing has rejected a window that it would have to leave.
            // And the numbers of percentiles have a state of their own.
            Kind::MergeObjects | Kind::Percentile => Self::Group(accumulator.start(nothing(), variables)?),
        })
    }

    /// Adds a document to the window. `moves` says whether it will leave again.
    pub(super) fn enter(
        &mut self,
        function: &Function,
        row: &Row,
        moves: bool,
        work: &mut Workspace<'_>,
    ) -> Result<(), Fault> {
        let number = row.number;
        if let (Self::Group(state), Function::Accumulate(accumulator)) = (&mut *self, function) {
            return accumulator.add(state, &row.document, work.variables, work.memory);
        }
        // Evaluated once for each window: what leaves is not asked again, and may be random.
        let Some(input) = function.input() else { return Ok(()) };
        let variables = work.variables;
        // The value is borrowed from the document as long as it can be: a sum or a count never copies it.
        // What has to outlive the document is copied by the state that keeps it, and counted there.
        input.with_value(&row.document, variables, |value| {
            let or_null = value.unwrap_or(RawBsonRef::Null);
            match self {
                Self::Group(_) => Ok(()),
                Self::Sum(parts) | Self::Average(parts) => push(parts, or_null, moves, work.memory),
                Self::Spread(parts, _) => push(parts, or_null, moves, work.memory),
                Self::Covariance(parts, _) => push(parts, or_null, moves, work.memory),
                Self::Count(count) => {
                    *count += 1;
                    Ok(())
                }
                Self::Extreme(extreme) => extreme.push(number, or_null, work.memory),
                Self::Values(values, _) | Self::Shifted(values, _) => values.push(value, work.memory),
                Self::Distinct(distinct) => distinct.push(value, work.memory),
                Self::Elements(values) => {
                    if let Some(value) = value {
                        array_of("$concatArrays", value)?;
                    }
                    values.push(value, work.memory)
                }
                Self::Union(union) => match value {
                    Some(value) => union.push(elements(array_of("$setUnion", value)?), work.memory),
                    None => union.push(std::iter::empty(), work.memory),
                },
                Self::Percentiles(numbers) => numbers.enter(or_null, work.memory),
                Self::Ordered(ordered, ..) => {
                    let key = ordered_key(function, &row.document, or_null)?;
                    ordered.push(key.as_deref().map(|key| (key, or_null)), work.memory)
                }
                Self::Slope(points, _) => {
                    let point = Point { x: row.x.clone(), y: or_null.into() };
                    add_point(points, point, if moves { usize::MAX } else { 2 }, work.memory)
                }
                Self::Area(area) => area.enter(row, or_null, moves, work.memory),
                Self::Scaler(extremes, _) => {
                    // A value that is not a number has no place between the least and the greatest.
                    if Numeric::of(or_null).is_none() {
                        let code = Code::TYPE_MISMATCH;
                        return Err(value_fault("$minMaxScaler", "numbers as 'input'", or_null, code));
                    }
                    extremes.iter_mut().try_for_each(|extreme| extreme.push(number, or_null, work.memory))
                }
            }
        })?
    }

    /// Removes the oldest document, whose number is `number`, from the window.
    pub(super) fn leave(&mut self, number: u64, memory: &mut StageMemory) {
        match self {
            Self::Group(_) => {}
            Self::Sum(parts) | Self::Average(parts) => pop(parts, memory),
            Self::Spread(parts, _) => pop(parts, memory),
            Self::Covariance(parts, _) => pop(parts, memory),
            Self::Count(count) => *count = count.saturating_sub(1),
            Self::Extreme(extreme) => extreme.pop(number, memory),
            Self::Values(values, _) | Self::Shifted(values, _) | Self::Elements(values) => values.pop(memory),
            Self::Distinct(distinct) => distinct.pop(memory),
            Self::Union(union) => union.pop(memory),
            Self::Percentiles(numbers) => numbers.leave(memory),
            Self::Ordered(ordered, ..) => ordered.pop(memory),
            Self::Slope(points, _) => {
                drop_point(points, memory);
            }
            Self::Area(area) => area.leave(memory),
            Self::Scaler(extremes, _) => extremes.iter_mut().for_each(|extreme| extreme.pop(number, memory)),
        }
    }

    /// The value for the current document.
    pub(super) fn value(
        &self,
        function: &Function,
        current: &RawDocument,
        variables: &Variables,
    ) -> Result<RawBson, Fault> {
        Ok(match self {
            Self::Group(state) => state.value(),
            Self::Sum(parts) => narrow(parts.whole().total()),
            Self::Average(parts) => parts.whole().mean(),
            Self::Spread(parts, population) => deviation(&parts.whole(), *population),
            Self::Covariance(parts, Population::Whole) => parts.whole().population(),
            Self::Covariance(parts, Population::Sample) => parts.whole().sample(),
            Self::Count(count) => number(i64::try_from(*count).unwrap_or(i64::MAX)),
            Self::Extreme(extreme) => extreme.value().cloned().unwrap_or(RawBson::Null),
            // No document there, or one without a value.
            Self::Shifted(values, default) => values.only().unwrap_or(default).clone(),
            Self::Values(values, Pick::One(end)) => values.end(*end),
            Self::Values(values, Pick::Some(end, count)) => RawBson::Array(values.some(*end, *count)),
            Self::Values(values, Pick::All) => RawBson::Array(values.all()),
            Self::Distinct(distinct) => RawBson::Array(distinct.all()),
            Self::Elements(values) => RawBson::Array(values.all_elements()),
            Self::Union(union) => RawBson::Array(union.all()),
            Self::Percentiles(numbers) => {
                // For each document again, however many percentiles are asked for.
                variables.operation().steps(numbers.steps())?;
                numbers.value()
            }
            Self::Ordered(ordered, end, Some(count)) => RawBson::Array(ordered.some(*end, *count)),
            Self::Ordered(ordered, end, None) => ordered.end(*end),
            Self::Slope(points, unit) => slope(points, *unit)?,
            Self::Area(area) => area.value()?,
            Self::Scaler([least, greatest], range) => {
                // The window has the current document, so both are there.
                let extremes = least.value().zip(greatest.value());
                let (Some(input), Some((least, greatest))) = (function.input(), extremes) else {
                    return Ok(RawBson::Null);
                };
                let value = input.evaluate(current, variables)?.unwrap_or(RawBson::Null);
                rescaled(&value, least, greatest, range)?
            }
        })
    }
}

/// The key by which a value is ordered. Returns `None` for a value that does not count.
fn ordered_key(
    function: &Function,
    document: &RawDocument,
    value: RawBsonRef<'_>,
) -> Result<Option<Vec<u8>>, Fault> {
    let Function::Accumulate(accumulator) = function else { return Ok(None) };
    if let Some(sort) = accumulator.sort() {
        return Ok(Some(sort.key(document)?.as_bytes().to_vec()));
    }
    let Kind::Extremes(direction) = accumulator.kind() else { return Ok(None) };
    Ok((!is_nullish(value)).then(|| encoded(value, direction, accumulator.collation())))
}

fn push<P: Part>(
    parts: &mut Parts<P>,
    value: RawBsonRef<'_>,
    moves: bool,
    memory: &mut StageMemory,
) -> Result<(), Fault> {
    // A value that never leaves needs no place of its own.
    let part = P::of(value);
    if moves {
        memory.grow(size_of::<P>())?;
        parts.push(part);
    } else {
        parts.absorb(&part);
    }
    Ok(())
}

fn pop<P: Part>(parts: &mut Parts<P>, memory: &mut StageMemory) {
    memory.shrink(size_of::<P>());
    parts.pop();
}

/// The sum of a window that moves has the narrowest type of integers, whatever was added: MongoDB's rule.
fn narrow(sum: RawBson) -> RawBson {
    if let RawBson::Int64(sum) = sum { number(sum) } else { sum }
}

/// Adds a point at the end of at most `kept` points: of more, the last is replaced.
fn add_point(
    points: &mut VecDeque<Point>,
    point: Point,
    kept: usize,
    memory: &mut StageMemory,
) -> Result<(), Fault> {
    if points.len() >= kept
        && let Some(last) = points.pop_back()
    {
        memory.shrink(last.bytes());
    }
    memory.grow(point.bytes())?;
    points.push_back(point);
    Ok(())
}

fn drop_point(points: &mut VecDeque<Point>, memory: &mut StageMemory) -> Option<Point> {
    let point = points.pop_front()?;
    memory.shrink(point.bytes());
    Some(point)
}

/// The change from the first point to the last, for each unit of `x`.
fn slope(points: &VecDeque<Point>, unit: Option<i64>) -> Result<RawBson, Fault> {
    const OPERATOR: &str = "$derivative";
    let Some((first, last)) = points.front().zip(points.back()) else { return Ok(RawBson::Null) };
    // Only the ends are looked at, as in MongoDB: others may be of any type.
    for point in [first, last] {
        let x = point.x.as_raw_bson_ref();
        let is_date = x.as_datetime().is_some();
        match unit {
            Some(_) if is_date => {}
            Some(_) => {
                return Err(value_fault(
                    OPERATOR,
                    "dates to sort by with a 'unit'",
                    x,
                    Code::DERIVATIVE_DATE,
                ));
            }
            None if is_date => {
                let expected = "a 'unit' to sort by dates";
                return Err(value_fault(OPERATOR, expected, x, Code::DERIVATIVE_DATE_WITHOUT_UNIT));
            }
            None if Numeric::of(x).is_some() => {}
            None => return Err(value_fault(OPERATOR, "numbers to sort by", x, Code::DERIVATIVE_NUMBER)),
        }
    }
    let (run, rise) = first.distance_to(last)?;
    if is_nullish(rise.as_raw_bson_ref()) {
        let found = RawBsonRef::Null;
        return Err(value_fault(OPERATOR, "an 'input' that is not null", found, Code::DERIVATIVE_INPUT));
    }
    quotient(&rise, &run, unit)
}

impl Area {
    fn enter(
        &mut self,
        row: &Row,
        y: RawBsonRef<'_>,
        moves: bool,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        let point = Point { x: row.x.clone(), y: y.into() };
        check_point(&point, self.unit.is_some())?;
        // Counted, so that an area is a number again when the last of them has left.
        self.nans += usize::from(point.is_nan());
        // The first point has no area yet: an area lies between two.
        if let Some(last) = self.points.back() {
            // A part that is not a number has no area of its own: the whole is not a number anyway.
            let area =
                if last.is_nan() || point.is_nan() { RawBson::Int32(0) } else { last.area_to(&point)? };
            push(&mut self.areas, area.as_raw_bson_ref(), moves, memory)?;
        }
        add_point(&mut self.points, point, if moves { usize::MAX } else { 1 }, memory)
    }

    fn leave(&mut self, memory: &mut StageMemory) {
        let left = drop_point(&mut self.points, memory);
        self.nans -= usize::from(left.is_some_and(|point| point.is_nan()));
        // There is one area less than points.
        if !self.points.is_empty() {
            pop(&mut self.areas, memory);
        }
    }

    fn value(&self) -> Result<RawBson, Fault> {
        if self.points.is_empty() {
            return Ok(RawBson::Null);
        }
        if self.nans > 0 {
            return Ok(RawBson::Double(f64::NAN));
        }
        let area = narrow(self.areas.whole().total());
        match self.unit {
            Some(unit) => quotient(&area, &RawBson::Int64(unit), None),
            None => Ok(area),
        }
    }
}

/// Rejects a point that no area can be computed of.
fn check_point(point: &Point, has_unit: bool) -> Result<(), Fault> {
    const OPERATOR: &str = "$integral";
    let (x, y) = (point.x.as_raw_bson_ref(), point.y.as_raw_bson_ref());
    let is_date = x.as_datetime().is_some();
    if Numeric::of(y).is_none() {
        return Err(value_fault(OPERATOR, "numbers as 'input'", y, Code::INTEGRAL_VALUE));
    }
    if !is_date && Numeric::of(x).is_none() {
        return Err(value_fault(OPERATOR, "numbers or dates to sort by", x, Code::INTEGRAL_VALUE));
    }
    // Numbers have no unit, and dates have no length without one.
    match (has_unit, is_date) {
        (true, false) => Err(value_fault(OPERATOR, "dates to sort by with a 'unit'", x, Code::INTEGRAL_DATE)),
        (false, true) => Err(value_fault(OPERATOR, "a 'unit' to sort by dates", x, Code::INTEGRAL_NUMBER)),
        (true, true) | (false, false) => Ok(()),
    }
}

pub(super) fn value_fault(
    operator: &'static str,
    expected: &'static str,
    found: RawBsonRef<'_>,
    code: Code,
) -> Fault {
    Fault::Value { operator, expected, found: describe(found), code }
}
