//! `$densify`: documents for values of a field that are missing between others, at a distance of one step.
//!
//! Documents come sorted by the field, in each partition or all together. A document is generated only right before one
//! that comes after it, or at the end; what is held is the last value of each partition.

use std::collections::HashMap;

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::key::Direction;
use index::order::compare;
use index::validate::validate;

use crate::code::Code;
use crate::expression::date::shift::TimeUnit;
use crate::expression::{ComputedFields, Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::accumulator::is_nullish;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::{object, options};
use crate::pipeline::sort::SortOrder;
use crate::pipeline::stream::{StageInput, Step, Stream, nothing};
use crate::value::{content_bytes, describe, elements, integer};

const STAGE: &str = "$densify";

/// The limit of documents that a `$densify` may generate. This is MongoDB's limit.
const GENERATED_MAX: usize = 500_000;

/// The argument of a `$densify`.
#[derive(Clone, Debug)]
pub(super) struct Densify {
    field: Expression,
    partition: Vec<Expression>,
    /// Sets the fields of the partition, and the field after them.
    fields: ComputedFields,
    step: Stepping,
    range: Range,
}

/// The distance of values.
#[derive(Clone, Debug)]
struct Stepping {
    step: RawBson,
    /// The unit of dates. Absent for numbers.
    unit: Option<TimeUnit>,
}

/// The range in which documents are generated.
#[derive(Clone, Debug)]
enum Range {
    /// From the least to the greatest value of all partitions.
    Full,
    /// From the least to the greatest value of each partition.
    Partition,
    /// From a value to before another.
    Between(RawBson, RawBson),
}

impl Densify {
    /// Parses the argument: the stage itself, and the sort that comes before it.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<(SortOrder, Self), Fault> {
        let names = ["field", "partitionByFields", "range"];
        let [field, partition, range] =
            options(STAGE, names, operand, Code::FAILED_TO_PARSE, Code::IDL_UNKNOWN_FIELD)?;
        let missing = |option| Fault::OptionMissing { stage: STAGE, option, code: Code::IDL_FAILED_TO_PARSE };
        let field = field.ok_or_else(|| missing("field"))?;
        let path = field.as_str().ok_or_else(|| wrong("a path as 'field'", field, Code::TYPE_MISMATCH))?;
        let (step, range) = read_range(range.ok_or_else(|| missing("range"))?)?;
        let mut paths = partition.map(read_partition).transpose()?.unwrap_or_default();
        if matches!(range, Range::Partition) && paths.is_empty() {
            let expected = "'partitionByFields' for the bounds 'partition'";
            return Err(wrong(expected, operand, Code::DENSIFY_PARTITION_FIELDS));
        }
        // A path is read as an expression is: the same in every stage.
        let expression = |path: &&str| {
            let path = format!("${path}");
            Ok::<_, Fault>(Expression::parse(RawBsonRef::String(&path), variables)?)
        };
        let partition = paths.iter().map(expression).collect::<Result<Vec<_>, _>>()?;
        let mut order = rawdoc! {};
        // Over the full range, documents of all partitions come together.
        if !matches!(range, Range::Full) {
            for path in &paths {
                append(&mut order, path)?;
            }
        }
        append(&mut order, path)?;
        paths.push(path);
        let fields = ComputedFields::of_paths(&paths).map_err(|error| match error.code() {
            Code::COMPUTED_FIELD_COLLISION => {
                wrong("a 'field' apart from 'partitionByFields'", field, Code::DENSIFY_OVERWRITE)
            }
            _ => error.into(),
        })?;
        let field = expression(&path)?;
        Ok((SortOrder::of(&order)?, Self { field, partition, fields, step, range }))
    }
}

fn append(order: &mut RawDocumentBuf, path: &str) -> Result<(), Fault> {
    let name = bson::raw::CString::try_from(path);
    let name = name.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
    order.append(&name, 1);
    Ok(())
}

fn read_partition(operand: RawBsonRef<'_>) -> Result<Vec<&str>, Fault> {
    let refuse = |found| wrong("an array of paths as 'partitionByFields'", found, Code::TYPE_MISMATCH);
    let array = operand.as_array().ok_or_else(|| refuse(operand))?;
    elements(array).map(|path| path.as_str().ok_or_else(|| refuse(path))).collect()
}

fn read_range(operand: RawBsonRef<'_>) -> Result<(Stepping, Range), Fault> {
    let operand = RawBsonRef::Document(object(STAGE, operand, Code::TYPE_MISMATCH)?);
    let names = ["step", "unit", "bounds"];
    let [step, unit, bounds] = options(STAGE, names, operand, Code::TYPE_MISMATCH, Code::IDL_UNKNOWN_FIELD)?;
    let missing = |option| Fault::OptionMissing { stage: STAGE, option, code: Code::IDL_FAILED_TO_PARSE };
    let step = step.ok_or_else(|| missing("step"))?;
    let bounds = bounds.ok_or_else(|| missing("bounds"))?;
    // NaN is below all numbers.
    let is_positive = Numeric::of(step).is_some() && compare(step, RawBsonRef::Int32(0)).is_gt();
    if !is_positive {
        return Err(wrong("a number above 0 as 'step'", step, Code::DENSIFY_STEP));
    }
    let unit = unit.map(|unit| {
        let name = unit.as_str().ok_or_else(|| wrong("a string as 'unit'", unit, Code::TYPE_MISMATCH))?;
        TimeUnit::of_name(name).ok_or_else(|| wrong("a unit of time", unit, Code::FAILED_TO_PARSE))
    });
    let unit = unit.transpose()?;
    if unit.is_some() && integer(step).is_none() {
        return Err(wrong("a whole 'step' for dates", step, Code::DENSIFY_STEP_NOT_WHOLE));
    }
    // Whether there may be a unit depends on the bounds, so they come last.
    let range = read_bounds(bounds, step, unit)?;
    Ok((Stepping { step: step.into(), unit }, range))
}

fn read_bounds(bounds: RawBsonRef<'_>, step: RawBsonRef<'_>, unit: Option<TimeUnit>) -> Result<Range, Fault> {
    match bounds.as_str() {
        Some("full") => return Ok(Range::Full),
        Some("partition") => return Ok(Range::Partition),
        Some(_) => return Err(wrong("'full' or 'partition' as 'bounds'", bounds, Code::DENSIFY_BOUNDS_NAME)),
        None => {}
    }
    let expected = "'full', 'partition' or an array of two values as 'bounds'";
    let array = bounds.as_array().ok_or_else(|| wrong(expected, bounds, Code::DENSIFY_BOUNDS_TYPE))?;
    let ends: Vec<RawBsonRef<'_>> = elements(array).collect();
    let [lower, upper] = ends.as_slice() else {
        return Err(wrong("two bounds", bounds, Code::DENSIFY_BOUNDS_COUNT));
    };
    if compare(*lower, *upper).is_gt() {
        return Err(wrong("ascending bounds", *upper, Code::DENSIFY_BOUNDS_ORDER));
    }
    // The type of the lower bound decides what the upper one, the step and the unit must be.
    if let Some(number) = Numeric::of(*lower) {
        if unit.is_some() {
            return Err(wrong("no 'unit' for numbers as bounds", *lower, Code::DENSIFY_UNIT_WITH_NUMBERS));
        }
        let end = Numeric::of(*upper);
        let end =
            end.ok_or_else(|| wrong("two numbers as bounds", *upper, Code::DENSIFY_BOUND_NOT_NUMBER))?;
        let is_same = number.kind() == end.kind() && Some(end.kind()) == Numeric::of(step).map(Numeric::kind);
        if !is_same {
            return Err(wrong("bounds and 'step' of one type", *upper, Code::DENSIFY_BOUNDS_MIXED));
        }
    } else if lower.as_datetime().is_some() {
        if upper.as_datetime().is_none() {
            return Err(wrong("two dates as bounds", *upper, Code::DENSIFY_BOUND_NOT_DATE));
        }
        if unit.is_none() {
            return Err(wrong("a 'unit' for dates as bounds", *lower, Code::DENSIFY_UNIT_MISSING));
        }
    } else {
        return Err(wrong("numbers or dates as bounds", *lower, Code::DENSIFY_BOUND_KIND));
    }
    Ok(Range::Between((*lower).into(), (*upper).into()))
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}

impl Stepping {
    /// The value one step after another.
    fn after(&self, value: &RawBson) -> Result<RawBson, Fault> {
        let (from, step) = (value.as_raw_bson_ref(), self.step.as_raw_bson_ref());
        // A step of months goes by the calendar, from the date before: the 31st becomes the 29th, and stays it.
        if let (Some(unit), Some(date)) = (self.unit, from.as_datetime()) {
            let moved = integer(step).and_then(|step| unit.add_in_utc(date.timestamp_millis(), step));
            let expected = "dates that a step does not lead out of their range";
            let moved = moved.ok_or_else(|| wrong(expected, from, Code::DATE_ADD_OVERFLOW))?;
            return Ok(RawBson::DateTime(DateTime::from_millis(moved)));
        }
        let sum = Numeric::of(from).zip(Numeric::of(step)).map(|(from, step)| from.plus(step));
        Ok(sum.map_or(RawBson::Null, Numeric::into_raw))
    }

    /// Rejects a value that steps cannot lead to.
    fn check(&self, value: RawBsonRef<'_>) -> Result<(), Fault> {
        let is_date = value.as_datetime().is_some();
        if !is_date && Numeric::of(value).is_none() {
            let expected = "numbers or dates in the field";
            return Err(wrong(expected, value, Code::DENSIFY_FIELD_TYPE));
        }
        match (is_date, self.unit.is_some()) {
            (true, false) => Err(wrong("a 'unit' for dates in the field", value, Code::DENSIFY_UNIT_VALUES)),
            (false, true) => Err(wrong("dates in the field with a 'unit'", value, Code::DENSIFY_UNIT_VALUES)),
            (true, true) | (false, false) => Ok(()),
        }
    }
}

/// The stream of a `$densify`.
pub(super) struct Densifying<'i, E> {
    input: StageInput<'i, E>,
    position: usize,
    gaps: Gaps,
    shown: RawDocumentBuf,
}

/// The partitions so far, and the gap that is being filled.
struct Gaps {
    stage: Densify,
    variables: Variables,
    memory: StageMemory,
    /// Places in `partitions` by the encoded fields.
    places: HashMap<Vec<u8>, usize>,
    partitions: Vec<Partition>,
    /// The least and the greatest value of all.
    ends: Option<(RawBson, RawBson)>,
    gap: Option<Gap>,
    generated: usize,
    /// The partition whose end is looked at next, after the last document.
    closing: Option<usize>,
}

/// One partition.
struct Partition {
    /// Its fields.
    fields: Vec<Option<RawBson>>,
    /// The last value that steps have led to.
    last: Option<RawBson>,
}

/// Values to generate, and the document after them.
struct Gap {
    partition: usize,
    next: RawBson,
    end: RawBson,
    /// Whether the end itself is generated.
    is_inclusive: bool,
    document: Option<(RawBson, RawDocumentBuf)>,
}

impl<'i, E> Densifying<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        position: usize,
        stage: Densify,
        variables: Variables,
    ) -> Self {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, variables.operation());
        let gaps = Gaps {
            stage,
            variables,
            memory,
            places: HashMap::new(),
            partitions: Vec::new(),
            ends: None,
            gap: None,
            generated: 0,
            closing: None,
        };
        Self { input, position, gaps, shown: RawDocumentBuf::new() }
    }
}

impl<E: From<Error>> Stream<E> for Densifying<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let at = at::<E>(self.position);
        loop {
            if let Some(document) = self.gaps.next().map_err(&at)? {
                self.shown = document;
                return Ok(Step::Document);
            }
            if self.gaps.closing.is_some() {
                if self.gaps.close().map_err(&at)? {
                    continue;
                }
                return Ok(Step::End);
            }
            match self.input.advance()? {
                Step::Document => {
                    let document = self.input.current();
                    if self.gaps.push(document).map_err(&at)? {
                        self.shown = document.to_owned();
                        return Ok(Step::Document);
                    }
                }
                Step::Pause => return Ok(Step::Pause),
                Step::End => self.gaps.closing = Some(0),
            }
        }
    }

    fn current(&self) -> &RawDocument {
        &self.shown
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

impl Gaps {
    /// The next document of the current gap. Returns `None` without a gap.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        let Some(gap) = &mut self.gap else { return Ok(None) };
        let order = compare(gap.next.as_raw_bson_ref(), gap.end.as_raw_bson_ref());
        let is_before = order.is_lt() || (order.is_eq() && gap.is_inclusive);
        let Some(partition) = self.partitions.get_mut(gap.partition) else { return Ok(None) };
        // The gap is full: now comes the document that ended it.
        if !is_before {
            let Some(Gap { next, document, .. }) = self.gap.take() else { return Ok(None) };
            let Some((value, document)) = document else { return Ok(None) };
            // A document that steps lead to is where the next one starts.
            if compare(value.as_raw_bson_ref(), next.as_raw_bson_ref()).is_eq() {
                partition.last = Some(value);
            }
            return Ok(Some(document));
        }
        // Counted for the whole stage: a step that changes nothing ends here too.
        self.generated += 1;
        if self.generated > GENERATED_MAX {
            return Err(Fault::TooManyGenerated { stage: STAGE, limit: GENERATED_MAX });
        }
        let after = self.stage.step.after(&gap.next)?;
        let value = std::mem::replace(&mut gap.next, after);
        let fields = partition.fields.iter().map(|field| field.as_ref().map(RawBson::as_raw_bson_ref));
        let values: Vec<_> = fields.chain([Some(value.as_raw_bson_ref())]).collect();
        let made = self.stage.fields.set_to(nothing(), &values, self.variables.operation())?;
        validate(made.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
        self.variables.operation().pass(made.as_bytes().len())?;
        partition.last = Some(value);
        Ok(Some(made))
    }

    /// Accepts a document. Returns `true` if it comes next, and `false` if a gap comes before it.
    fn push(&mut self, document: &RawDocument) -> Result<bool, Fault> {
        self.variables.operation().pass(document.as_bytes().len())?;
        let value = self.stage.field.evaluate(document, &self.variables)?.unwrap_or(RawBson::Null);
        if is_nullish(value.as_raw_bson_ref()) {
            return Ok(true);
        }
        self.stage.step.check(value.as_raw_bson_ref())?;
        // The documents are sorted, so the first value is the least and the current one the greatest so far.
        let place = self.partition(document)?;
        let first = self.ends.as_ref().map_or(&value, |(first, _)| first).clone();
        self.ends = Some((first.clone(), value.clone()));
        let Some(partition) = self.partitions.get_mut(place) else { return Ok(true) };
        let order = |one: &RawBson, other: &RawBson| compare(one.as_raw_bson_ref(), other.as_raw_bson_ref());
        let start = match (&partition.last, &self.stage.range) {
            (_, Range::Between(lower, _)) if order(&value, lower).is_lt() => return Ok(true),
            (Some(last), _) => self.stage.step.after(last)?,
            (None, Range::Between(lower, _)) => lower.clone(),
            (None, Range::Full) => first,
            (None, Range::Partition) => value.clone(),
        };
        // Documents beyond the upper bound are passed on, and nothing is generated up to them.
        let end = match &self.stage.range {
            Range::Between(_, upper) if order(upper, &value).is_lt() => upper.clone(),
            Range::Between(..) | Range::Full | Range::Partition => value.clone(),
        };
        // Something is generated only if a step from the start is below the document.
        if order(&start, &end).is_lt() {
            let document = Some((value, document.to_owned()));
            self.gap = Some(Gap { partition: place, next: start, end, is_inclusive: false, document });
            return Ok(false);
        }
        if order(&start, &value).is_eq() {
            partition.last = Some(value);
        }
        Ok(true)
    }

    /// The place of a document's partition.
    fn partition(&mut self, document: &RawDocument) -> Result<usize, Fault> {
        let mut fields = Vec::with_capacity(self.stage.partition.len());
        let (mut key, mut bytes) = (Vec::new(), 0);
        for field in &self.stage.partition {
            let field = field.evaluate(document, &self.variables)?;
            // A missing field is another partition than null: generated documents do not have it.
            let value = field.as_ref().map_or(RawBsonRef::Undefined, RawBson::as_raw_bson_ref);
            self.variables.collation().encode(value, Direction::Ascending, &mut key);
            bytes += content_bytes(value);
            fields.push(field);
        }
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        self.memory.grow(key.len() + bytes + 2 * size_of::<Partition>())?;
        self.places.insert(key, self.partitions.len());
        self.partitions.push(Partition { fields, last: None });
        Ok(self.partitions.len() - 1)
    }

    /// Opens the gap at the end of the next partition. Returns `false` after the last one.
    fn close(&mut self) -> Result<bool, Fault> {
        let Some(place) = self.closing else { return Ok(false) };
        if place == 0 && self.partitions.is_empty() && self.stage.partition.is_empty() {
            // Without documents there is one partition still, if the range is given.
            self.partitions.push(Partition { fields: Vec::new(), last: None });
        }
        let Some(partition) = self.partitions.get(place) else { return Ok(false) };
        self.variables.operation().step()?;
        // Moved on at once: an error or the end of this gap must not open it again.
        self.closing = Some(place + 1);
        let after_last = partition.last.as_ref().map(|last| self.stage.step.after(last)).transpose();
        // Bounds that are given end before the upper one; the greatest value of all is a value itself.
        let (next, end, is_inclusive) = match (&self.stage.range, &self.ends) {
            (Range::Between(lower, upper), _) => {
                (after_last?.unwrap_or_else(|| lower.clone()), upper.clone(), false)
            }
            (Range::Full, Some((first, last))) => {
                (after_last?.unwrap_or_else(|| first.clone()), last.clone(), true)
            }
            (Range::Full, None) | (Range::Partition, _) => return Ok(true),
        };
        self.gap = Some(Gap { partition: place, next, end, is_inclusive, document: None });
        Ok(true)
    }
}
