//! The functions of a field, as they are parsed: accumulators over windows, and operators of windows only.

use bson::{Decimal128, RawBson, RawBsonRef};
use index::order::compare;

use crate::code::Code;
use crate::decimal;
use crate::expression::{Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::accumulator::{Accumulator, Population};
use crate::pipeline::error::Fault;
use crate::pipeline::options::options;
use crate::pipeline::window::bounds::{Bounds, parse_unit};
use crate::registry::Registry;
use crate::sort::Sort;
use crate::value::{describe, integer, shorten};

/// The function of a field.
#[derive(Clone, Debug)]
pub(super) enum Function {
    Accumulate(Accumulator),
    Covariance {
        input: Expression,
        population: Population,
    },
    /// The change of the input for each unit of what documents are sorted by, in milliseconds for dates.
    Derivative {
        input: Expression,
        unit: Option<i64>,
    },
    Integral {
        input: Expression,
        unit: Option<i64>,
    },
    Rank(Ranking),
    /// The value of another document, and what there is without one.
    Shift {
        output: Expression,
        default: RawBson,
    },
    /// The share of the newest value.
    ExpMovingAverage {
        input: Expression,
        alpha: Decimal128,
    },
    LinearFill(Expression),
    /// The last value that is not null.
    LastFill(Expression),
    MinMaxScaler {
        input: Expression,
        range: [RawBson; 2],
    },
}

impl Function {
    /// The expression whose values are the input.
    pub(super) fn input(&self) -> Option<&Expression> {
        match self {
            Self::Accumulate(accumulator) => Some(accumulator.argument()),
            Self::Covariance { input, .. }
            | Self::Derivative { input, .. }
            | Self::Integral { input, .. }
            | Self::Shift { output: input, .. }
            | Self::ExpMovingAverage { input, .. }
            | Self::LinearFill(input)
            | Self::LastFill(input)
            | Self::MinMaxScaler { input, .. } => Some(input),
            Self::Rank(_) => None,
        }
    }

    /// Whether the value depends on the current document, and not on the window alone.
    pub(super) fn looks_at_current(&self) -> bool {
        matches!(self, Self::MinMaxScaler { .. })
    }
}

/// The numbering of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranking {
    /// Equal documents share a number, and the next one is as large as if they had not.
    Rank,
    /// Equal documents share a number, and none is left out.
    Dense,
    Number,
}

/// The names of operators of windows that are not accumulators.
#[derive(Clone, Copy)]
enum Name {
    Covariance(Population),
    Derivative,
    Integral,
    Rank(Ranking),
    Shift,
    ExpMovingAverage,
    LinearFill,
    LastFill,
    MinMaxScaler,
}

const FUNCTIONS: Registry<Name> = Registry::new(&[
    ("$covariancePop", Name::Covariance(Population::Whole)),
    ("$covarianceSamp", Name::Covariance(Population::Sample)),
    ("$denseRank", Name::Rank(Ranking::Dense)),
    ("$derivative", Name::Derivative),
    ("$documentNumber", Name::Rank(Ranking::Number)),
    ("$expMovingAvg", Name::ExpMovingAverage),
    ("$integral", Name::Integral),
    ("$linearFill", Name::LinearFill),
    ("$locf", Name::LastFill),
    ("$minMaxScaler", Name::MinMaxScaler),
    ("$rank", Name::Rank(Ranking::Rank)),
    ("$shift", Name::Shift),
]);

/// An operator with its argument and its window, as they are given.
#[derive(Clone, Copy)]
pub(super) struct Call<'c> {
    pub(super) name: &'c str,
    pub(super) operand: RawBsonRef<'c>,
    pub(super) window: Option<RawBsonRef<'c>>,
    pub(super) sort: Option<&'c Sort>,
    pub(super) variables: &'c Variables,
}

impl Call<'_> {
    /// Parses the operator.
    pub(super) fn parse(self) -> Result<(Function, Bounds), Fault> {
        // A name that is not an operator of windows alone may be an accumulator.
        let Some((operator, name)) = FUNCTIONS.entry(self.name) else { return self.parse_accumulator() };
        match name {
            Name::Covariance(population) => {
                let input = self.expression(self.operand)?;
                Ok((Function::Covariance { input, population: *population }, self.bounds()?))
            }
            Name::Derivative => {
                let (input, unit) = self.parse_with_unit(operator)?;
                // All documents would be a surprising default for a slope: MongoDB asks for a window.
                let window = self.window.is_some();
                let bounds = self.bounds()?;
                let missing =
                    Fault::OptionMissing { stage: operator, option: "window", code: Code::FAILED_TO_PARSE };
                if window { Ok((Function::Derivative { input, unit }, bounds)) } else { Err(missing) }
            }
            Name::Integral => {
                let (input, unit) = self.parse_with_unit(operator)?;
                Ok((Function::Integral { input, unit }, self.bounds()?))
            }
            Name::Rank(ranking) => self.parse_rank(operator, *ranking),
            Name::Shift => self.parse_shift(operator),
            Name::ExpMovingAverage => self.parse_average(operator),
            Name::LinearFill => {
                self.no_window(operator, Code::FAILED_TO_PARSE)?;
                let input = self.expression(self.operand)?;
                self.one_field(operator, Code::LINEAR_FILL_SORT_BY)?;
                Ok((Function::LinearFill(input), Bounds::SO_FAR))
            }
            Name::LastFill => {
                self.no_window(operator, Code::FAILED_TO_PARSE)?;
                Ok((Function::LastFill(self.expression(self.operand)?), Bounds::SO_FAR))
            }
            Name::MinMaxScaler => self.parse_scaler(operator),
        }
    }

    fn parse_accumulator(self) -> Result<(Function, Bounds), Fault> {
        let accumulator = Accumulator::parse_in_window(self.name, self.operand, self.variables);
        let accumulator = match accumulator {
            Err(Fault::UnknownAccumulator { operator }) => {
                return Err(Fault::UnknownWindowOperator { operator });
            }
            other => other?,
        };
        // Looked at after the operator: an unknown name is the more useful error.
        let bounds = self.bounds()?;
        // Merged objects cannot be split again.
        if accumulator.merges_objects() && !bounds.only_grows() {
            let expected = "a window that starts where the partition does";
            let found = self.window.unwrap_or(RawBsonRef::Null);
            return Err(wrong(accumulator.operator(), expected, found, Code::WINDOW_NOT_REMOVABLE));
        }
        Ok((Function::Accumulate(accumulator), bounds))
    }

    fn bounds(self) -> Result<Bounds, Fault> {
        self.window.map_or(Ok(Bounds::ALL), |window| Bounds::parse(window, self.sort, self.variables))
    }

    fn expression(self, operand: RawBsonRef<'_>) -> Result<Expression, Fault> {
        Ok(Expression::parse(operand, self.variables)?)
    }

    /// The value of an expression that depends on nothing.
    fn constant(self, operator: &'static str, operand: RawBsonRef<'_>) -> Result<RawBson, Fault> {
        let expression = self.expression(operand)?;
        let constant = expression.constant().map(|value| value.map_or(RawBson::Null, RawBson::from));
        constant.ok_or_else(|| failed(operator, "a constant", operand))
    }

    fn no_window(self, operator: &'static str, code: Code) -> Result<(), Fault> {
        match self.window {
            Some(window) => Err(wrong(operator, "no 'window'", window, code)),
            None => Ok(()),
        }
    }

    /// Rejects an order by no field, or by several.
    fn one_field(self, operator: &'static str, code: Code) -> Result<(), Fault> {
        if self.sort.is_some_and(|sort| sort.fields().len() == 1) {
            return Ok(());
        }
        Err(Fault::Operand {
            stage: operator,
            expected: "'sortBy' with one field",
            found: self.sort_fields(),
            code,
        })
    }

    fn sort_fields(self) -> String {
        match self.sort {
            Some(sort) => format!("{} fields", sort.fields().len()),
            None => "nothing".to_owned(),
        }
    }

    fn parse_with_unit(self, operator: &'static str) -> Result<(Expression, Option<i64>), Fault> {
        self.one_field(operator, Code::FAILED_TO_PARSE)?;
        let code = Code::FAILED_TO_PARSE;
        let [input, unit] = options(operator, ["input", "unit"], self.operand, code, code)?;
        // A month has no length of its own, so no slope can be given for each month.
        let unit = unit.map(|unit| {
            let millis = parse_unit(unit)?.millis();
            millis.ok_or_else(|| wrong(operator, "a unit up to 'week'", unit, Code::WINDOW_UNIT_TOO_LONG))
        });
        let unit = unit.transpose()?;
        Ok((self.expression(given(operator, "input", input)?)?, unit))
    }

    fn parse_rank(self, operator: &'static str, ranking: Ranking) -> Result<(Function, Bounds), Fault> {
        self.no_window(operator, Code::RANK_ARGUMENTS)?;
        // The argument is checked before the order, as in MongoDB.
        if self.operand.as_document().is_none_or(|operand| !operand.is_empty()) {
            return Err(wrong(operator, "an empty object", self.operand, Code::RANK_OPERAND));
        }
        self.one_field(operator, Code::RANK_SORT_BY)?;
        Ok((Function::Rank(ranking), Bounds::SO_FAR))
    }

    fn parse_shift(self, operator: &'static str) -> Result<(Function, Bounds), Fault> {
        let code = Code::FAILED_TO_PARSE;
        self.no_window(operator, code)?;
        let [output, by, default] = options(operator, ["output", "by", "default"], self.operand, code, code)?;
        let output = self.expression(given(operator, "output", output)?)?;
        let by = given(operator, "by", by)?;
        // As a bound of documents: within 32 bits.
        let distance = integer(by).filter(|&by| i32::try_from(by).is_ok());
        let distance = distance.ok_or_else(|| failed(operator, "an integer as 'by'", by))?;
        let default = default.map_or(Ok(RawBson::Null), |default| self.constant(operator, default))?;
        if self.sort.is_none() {
            return Err(Fault::OptionMissing { stage: operator, option: "sortBy", code });
        }
        Ok((Function::Shift { output, default }, Bounds::Documents(Some(distance), Some(distance))))
    }

    fn parse_average(self, operator: &'static str) -> Result<(Function, Bounds), Fault> {
        let code = Code::FAILED_TO_PARSE;
        self.no_window(operator, code)?;
        let [input, count, alpha] = options(operator, ["input", "N", "alpha"], self.operand, code, code)?;
        // N is a number of documents after which the share of a value has faded: 2 / (N + 1).
        let input = given(operator, "input", input)?;
        let alpha = match (count, alpha) {
            (Some(count), None) => {
                let whole = integer(count).filter(|&count| count > 0);
                let whole = whole.ok_or_else(|| failed(operator, "an integer above 0 as 'N'", count))?;
                let divisor = decimal::add(decimal::from_integer(whole), decimal::from_integer(1));
                decimal::divide(decimal::from_integer(2), divisor)
            }
            (None, Some(alpha)) => {
                // Converted as MongoDB does: a double by its first 15 digits.
                let number = Numeric::of(alpha).filter(|alpha| (0.0..1.0).contains(&alpha.to_double()));
                let number = number.map(Numeric::to_decimal).filter(|&alpha| !decimal::is_zero(alpha));
                number.ok_or_else(|| failed(operator, "a number between 0 and 1 as 'alpha'", alpha))?
            }
            (Some(_), Some(both)) => return Err(failed(operator, "either 'N' or 'alpha'", both)),
            (None, None) => return Err(failed(operator, "either 'N' or 'alpha'", self.operand)),
        };
        if self.sort.is_none() {
            return Err(Fault::OptionMissing { stage: operator, option: "sortBy", code });
        }
        Ok((Function::ExpMovingAverage { input: self.expression(input)?, alpha }, Bounds::SO_FAR))
    }

    fn parse_scaler(self, operator: &'static str) -> Result<(Function, Bounds), Fault> {
        let code = Code::FAILED_TO_PARSE;
        let [input, min, max] = options(operator, ["input", "min", "max"], self.operand, code, code)?;
        let input = self.expression(given(operator, "input", input)?)?;
        let number = |operand| {
            let constant = self.constant(operator, operand)?;
            let is_number = Numeric::of(constant.as_raw_bson_ref()).is_some();
            if is_number {
                Ok(constant)
            } else {
                Err(failed(operator, "numbers as 'min' and 'max'", operand))
            }
        };
        // One end alone would mean nothing.
        let range = match (min, max) {
            (None, None) => [RawBson::Int32(0), RawBson::Int32(1)],
            (Some(min), Some(max)) => [number(min)?, number(max)?],
            (Some(one), None) | (None, Some(one)) => {
                return Err(failed(operator, "both 'min' and 'max', or neither", one));
            }
        };
        let [low, high] = &range;
        if compare(low.as_raw_bson_ref(), high.as_raw_bson_ref()).is_ge() {
            return Err(failed(operator, "a 'max' above 'min'", high.as_raw_bson_ref()));
        }
        let bounds = self.bounds()?;
        // The value that is scaled must be one of those that it is compared with.
        if !bounds.has_current() {
            let found = self.window.unwrap_or(RawBsonRef::Null);
            return Err(failed(operator, "a window with the current document", found));
        }
        Ok((Function::MinMaxScaler { input, range }, bounds))
    }
}

fn given<'b>(
    operator: &'static str,
    option: &'static str,
    value: Option<RawBsonRef<'b>>,
) -> Result<RawBsonRef<'b>, Fault> {
    value.ok_or(Fault::OptionMissing { stage: operator, option, code: Code::FAILED_TO_PARSE })
}

fn failed(operator: &'static str, expected: &'static str, found: RawBsonRef<'_>) -> Fault {
    wrong(operator, expected, found, Code::FAILED_TO_PARSE)
}

fn wrong(operator: &'static str, expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: operator, expected, found: describe(found), code }
}

/// The error for an output that has no operator.
pub(super) fn missing_operator(field: &str) -> Fault {
    let reason = "it needs an operator of windows";
    Fault::Field { stage: "$setWindowFields", field: shorten(field), reason, code: Code::FAILED_TO_PARSE }
}
