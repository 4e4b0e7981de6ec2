//! Functions that look at the documents one by one, in their order: numbers of documents, averages that fade, and fillings.

use bson::{Decimal128, RawBson};
use index::order::compare;

use crate::code::Code;
use crate::decimal;
use crate::expression::Expression;
use crate::numeric::Numeric;
use crate::pipeline::accumulator::is_nullish;
use crate::pipeline::count::number;
use crate::pipeline::error::Fault;
use crate::pipeline::window::formula::Point;
use crate::pipeline::window::frame::Row;
use crate::pipeline::window::function::{Function, Ranking};
use crate::pipeline::window::state::{Workspace, value_fault};

/// The memory of such a function for the documents before the current one.
#[derive(Debug)]
pub(super) enum Passing {
    Rank(Numbering),
    /// The average, and whether a decimal was among its values.
    Average(Option<Decimal128>, bool),
    /// The last value that was not null.
    Last(RawBson),
    Line(Box<Line>),
}

/// The numbers of the document before.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    key: Option<Vec<u8>>,
    count: i64,
    rank: i64,
    dense: i64,
}

/// The points on both sides of the documents that are filled.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The sort key of the document before.
    before: Option<RawBson>,
    left: Option<Point>,
    right: Option<Point>,
    /// The number of the first document that was not looked at for `right`.
    scanned: u64,
}

impl Passing {
    /// The state before the first document. Returns `None` for a function of windows.
    pub(super) fn start(function: &Function) -> Option<Self> {
        match function {
            Function::Rank(_) => Some(Self::Rank(Numbering::default())),
            Function::ExpMovingAverage { .. } => Some(Self::Average(None, false)),
            Function::LastFill(_) => Some(Self::Last(RawBson::Null)),
            Function::LinearFill(_) => Some(Self::Line(Box::default())),
            Function::Accumulate(_)
            | Function::Covariance { .. }
            | Function::Derivative { .. }
            | Function::Integral { .. }
            | Function::Shift { .. }
            | Function::MinMaxScaler { .. } => None,
        }
    }

    /// Whether documents after those of `frame` are needed for the value of document `current`.
    pub(super) fn needs_more(
        &mut self,
        function: &Function,
        current: u64,
        work: &mut Workspace<'_>,
    ) -> Result<bool, Fault> {
        // A line alone depends on what comes after the current document.
        match (self, function) {
            (Self::Line(line), Function::LinearFill(input)) => line.needs_more(input, current, work),
            (Self::Rank(_) | Self::Average(..) | Self::Last(_) | Self::Line(_), _) => Ok(false),
        }
    }

    /// The value for a document. Documents come one after the other.
    pub(super) fn value(
        &mut self,
        function: &Function,
        row: &Row,
        work: &mut Workspace<'_>,
    ) -> Result<RawBson, Fault> {
        match (self, function) {
            (Self::Rank(numbering), Function::Rank(ranking)) => Ok(numbering.next(*ranking, &row.key)),
            (Self::Average(average, has_decimal), Function::ExpMovingAverage { input, alpha }) => input
                .with_value(&row.document, work.variables, |value| {
                    let number = value.and_then(Numeric::of);
                    average_of(average, has_decimal, number, *alpha)
                })
                .map_err(Fault::from),
            (Self::Last(last), Function::LastFill(input)) => {
                let value = input.evaluate(&row.document, work.variables)?.unwrap_or(RawBson::Null);
                if !is_nullish(value.as_raw_bson_ref()) {
                    *last = value;
                }
                Ok(last.clone())
            }
            (Self::Line(line), Function::LinearFill(input)) => {
                let value = input.evaluate(&row.document, work.variables)?.unwrap_or(RawBson::Null);
                line.value(row, value)
            }
            (Self::Rank(_) | Self::Average(..) | Self::Last(_) | Self::Line(_), _) => Ok(RawBson::Null),
        }
    }
}

impl Numbering {
    fn next(&mut self, ranking: Ranking, key: &[u8]) -> RawBson {
        // Null and a missing value have the same key, and so the same rank.
        self.count += 1;
        if self.key.as_deref() != Some(key) {
            self.rank = self.count;
            self.dense += 1;
            self.key = Some(key.to_vec());
        }
        number(match ranking {
            Ranking::Rank => self.rank,
            Ranking::Dense => self.dense,
            Ranking::Number => self.count,
        })
    }
}

/// Moves an average towards a number. It is a double until a decimal comes.
fn average_of(
    average: &mut Option<Decimal128>,
    has_decimal: &mut bool,
    number: Option<Numeric>,
    alpha: Decimal128,
) -> RawBson {
    if let Some(number) = number {
        // Computed in decimals throughout, as MongoDB does: only what is shown depends on the types.
        *has_decimal |= matches!(number, Numeric::Decimal(_));
        let number = number.to_decimal();
        let rest = decimal::subtract(decimal::from_integer(1), alpha);
        let next = |before| decimal::add(decimal::multiply(number, alpha), decimal::multiply(before, rest));
        *average = Some(average.map_or(number, next));
    }
    match *average {
        None => RawBson::Null,
        Some(average) if *has_decimal => RawBson::Decimal128(average),
        Some(average) => RawBson::Double(decimal::to_double(average)),
    }
}

impl Line {
    fn needs_more(
        &mut self,
        input: &Expression,
        current: u64,
        work: &mut Workspace<'_>,
    ) -> Result<bool, Fault> {
        let frame = work.frame;
        let Some(row) = frame.row(current).filter(|_| self.left.is_some() && self.right.is_none()) else {
            return Ok(false);
        };
        // Asked for the current document first: most documents need no line.
        let is_filled = |row: &Row| {
            input.with_value(&row.document, work.variables, |value| {
                value.is_some_and(|value| !is_nullish(value))
            })
        };
        if is_filled(row)? {
            return Ok(false);
        }
        // Every document is looked at once, however many are filled between two points.
        self.scanned = self.scanned.max(current + 1);
        while let Some(row) = frame.row(self.scanned) {
            self.scanned += 1;
            if is_filled(row)? && !is_nullish(row.x.as_raw_bson_ref()) {
                let y = input.evaluate(&row.document, work.variables)?.unwrap_or(RawBson::Null);
                self.right = Some(Point { x: row.x.clone(), y });
                return Ok(false);
            }
        }
        Ok(!frame.is_whole)
    }

    fn value(&mut self, row: &Row, value: RawBson) -> Result<RawBson, Fault> {
        const OPERATOR: &str = "$linearFill";
        let (x, y) = (row.x.as_raw_bson_ref(), value.as_raw_bson_ref());
        let wrong = |expected, found, code| Err(value_fault(OPERATOR, expected, found, code));
        if !is_nullish(y) && Numeric::of(y).is_none() {
            return wrong("numbers or null to fill", y, Code::TYPE_MISMATCH);
        }
        // The place on the line is checked even if nothing is filled here: MongoDB rejects such an order as a whole.
        let (is_number, is_date) = (Numeric::of(x).is_some(), x.as_datetime().is_some());
        if !is_number && !is_date {
            return wrong("numbers or dates to sort by", x, Code::TYPE_MISMATCH);
        }
        if let Some(before) = self.before.as_ref().map(RawBson::as_raw_bson_ref) {
            // Between equal values a line has no slope.
            if compare(before, x).is_eq() {
                return wrong("different values to sort by", x, Code::LINEAR_FILL_REPEATED);
            }
            if before.as_datetime().is_some() != is_date {
                return wrong("either numbers or dates to sort by", x, Code::TYPE_MISMATCH);
            }
        }
        // From here on the document is one of those before.
        self.before = Some(row.x.clone());
        if !is_nullish(y) {
            self.left = Some(Point { x: row.x.clone(), y: value.clone() });
            self.right = None;
            return Ok(value);
        }
        // Without a point on one side there is nothing to draw a line to.
        match (&self.left, &self.right) {
            (Some(left), Some(right)) => left.interpolated(right, &row.x),
            (_, _) => Ok(RawBson::Null),
        }
    }
}
