//! Operators of dates: parts, texts, arithmetic and distances, in UTC or in another time zone.
//!
//! Here arguments are read, in the order in which MongoDB checks them; the computations are in the files below.

mod calendar;
mod format;
mod notation;
mod parts;
mod read;
pub(crate) mod shift;
mod zone;

use std::ops::Range;

use bson::RawBsonRef;
use bson::raw::{CStr, cstr};

pub(super) use self::format::format_utc;
pub(super) use self::read::parse_text;
use crate::code::Code;
use crate::expression::date::calendar::{Date, IsoDay, TimeOfDay};
use crate::expression::date::format::{READ, WRITTEN, check, default_format, write};
use crate::expression::date::read::{read, read_with};
use crate::expression::date::shift::{Calendar, TimeUnit, weekday};
use crate::expression::date::zone::{Zone, local_millis, time};
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Evaluate, Node};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::{ObjectBuilder, Value, fields, to_millis};
use crate::value::shorten;

const PART: Signature = Signature {
    names: &["date", "timezone"],
    required: 1,
    not_object: Code::DATE_PART_UNKNOWN_ARGUMENT,
    unknown: Code::DATE_PART_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_PART_DATE_MISSING],
};
const FROM_PARTS: Signature = Signature {
    names: &[
        "year",
        "month",
        "day",
        "isoWeekYear",
        "isoWeek",
        "isoDayOfWeek",
        "hour",
        "minute",
        "second",
        "millisecond",
        "timezone",
    ],
    required: 0,
    not_object: Code::DATE_FROM_PARTS_NOT_OBJECT,
    unknown: Code::DATE_FROM_PARTS_UNKNOWN_ARGUMENT,
    missing: &[],
};
pub(super) const TO_PARTS: Signature = Signature {
    names: &["date", "timezone", "iso8601"],
    required: 1,
    not_object: Code::DATE_TO_PARTS_NOT_OBJECT,
    unknown: Code::DATE_TO_PARTS_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_TO_PARTS_DATE_MISSING],
};
pub(super) const TO_STRING: Signature = Signature {
    names: &["date", "format", "timezone", "onNull"],
    required: 1,
    not_object: Code::DATE_TO_STRING_NOT_OBJECT,
    unknown: Code::DATE_TO_STRING_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_TO_STRING_DATE_MISSING],
};
pub(super) const FROM_STRING: Signature = Signature {
    names: &["dateString", "format", "timezone", "onNull", "onError"],
    required: 1,
    not_object: Code::DATE_FROM_STRING_NOT_OBJECT,
    unknown: Code::DATE_FROM_STRING_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_FROM_STRING_TEXT_MISSING],
};
/// The arguments of `$dateAdd` and `$dateSubtract`.
pub(super) const ADD: Signature = Signature {
    names: &["startDate", "unit", "amount", "timezone"],
    required: 3,
    not_object: Code::DATE_ADD_NOT_OBJECT,
    unknown: Code::DATE_ADD_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_ADD_ARGUMENT_MISSING],
};
pub(super) const DIFF: Signature = Signature {
    names: &["startDate", "endDate", "unit", "timezone", "startOfWeek"],
    required: 3,
    not_object: Code::DATE_DIFF_NOT_OBJECT,
    unknown: Code::DATE_DIFF_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_DIFF_START_MISSING, Code::DATE_DIFF_END_MISSING, Code::DATE_DIFF_UNIT_MISSING],
};
pub(super) const TRUNC: Signature = Signature {
    names: &["date", "unit", "binSize", "timezone", "startOfWeek"],
    required: 2,
    not_object: Code::DATE_TRUNC_NOT_OBJECT,
    unknown: Code::DATE_TRUNC_UNKNOWN_ARGUMENT,
    missing: &[Code::DATE_TRUNC_DATE_MISSING, Code::DATE_TRUNC_UNIT_MISSING],
};

/// Operators that give one part of a date.
const PARTS: &[(&str, Evaluate)] = &[
    ("$dayOfMonth", |arguments| part(arguments, |day, _| day.day)),
    ("$dayOfWeek", |arguments| part(arguments, |day, _| day.weekday())),
    ("$dayOfYear", |arguments| part(arguments, |day, _| day.day_of_year())),
    ("$hour", |arguments| part(arguments, |_, clock| clock.hour)),
    ("$isoDayOfWeek", |arguments| part(arguments, |day, _| day.iso_weekday())),
    ("$isoWeek", |arguments| part(arguments, |day, _| day.iso().week)),
    ("$isoWeekYear", iso_week_year),
    ("$millisecond", |arguments| part(arguments, |_, clock| clock.millisecond)),
    ("$minute", |arguments| part(arguments, |_, clock| clock.minute)),
    ("$month", |arguments| part(arguments, |day, _| day.month)),
    ("$second", |arguments| part(arguments, |_, clock| clock.second)),
    ("$week", |arguments| part(arguments, |day, _| day.week())),
    ("$year", |arguments| part(arguments, |day, _| day.year)),
];

/// Parses an operator of one part: a date, alone or in an array, or `{date, timezone}`.
pub(super) fn parse_part(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let first = operand.as_document().map(|document| fields(document).next());
    // An object whose first name is an operator is an expression for the date, not an object of arguments.
    let is_operator = first.flatten().is_some_and(|(name, _)| name.as_str().starts_with('$'));
    let arguments = if first.is_some() && !is_operator {
        PART.parse(parser, operator, operand)?
    } else {
        let arguments = parser.list(operand)?;
        if arguments.len() != 1 {
            let expected = "exactly 1".to_owned();
            return Err(Error::ArgumentCount {
                operator,
                expected,
                found: arguments.len(),
                code: Code::DATE_PART_ARGUMENT_COUNT,
            });
        }
        arguments.into_iter().map(Some).collect()
    };
    // The table of operators has sent only names of this list here.
    let known = PARTS.iter().find(|(name, _)| *name == operator);
    let (_, evaluate) = known.ok_or_else(|| Error::UnknownOperator { operator: operator.to_owned() })?;
    Ok(Node::Call { operator, evaluate: *evaluate, arguments })
}

fn part<'d>(arguments: &Arguments<'_, 'd>, of: fn(Date, TimeOfDay) -> i64) -> Result<Value<'d>, Error> {
    let Some(local) = local_date(arguments)? else { return Ok(Value::NULL) };
    Ok(Value::integer(of(Date::of_millis(local), TimeOfDay::of_millis(local))))
}

fn iso_week_year<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some(local) = local_date(arguments)? else { return Ok(Value::NULL) };
    Ok(Value::long(Date::of_millis(local).iso().year))
}

/// The first argument as the local time of the zone in the second one. Returns `None` if one of them is null.
fn local_date(arguments: &Arguments<'_, '_>) -> Result<Option<i64>, Error> {
    let date = arguments.value(0)?;
    if date.is_nullish() {
        return Ok(None);
    }
    let millis = time(arguments, &date)?;
    Ok(Zone::read(arguments, 1, Code::DATE_PART_TIME_ZONE_TYPE)?.map(|zone| zone.local(millis)))
}

pub(super) fn timestamp_second<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    timestamp(arguments, Code::TS_SECOND_TYPE, |timestamp| timestamp.time)
}

pub(super) fn timestamp_increment<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    timestamp(arguments, Code::TS_INCREMENT_TYPE, |timestamp| timestamp.increment)
}

fn timestamp<'d>(
    arguments: &Arguments<'_, 'd>,
    code: Code,
    of: fn(bson::Timestamp) -> u32,
) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.or_null().as_timestamp() {
        Some(timestamp) => Ok(Value::long(i64::from(of(timestamp)))),
        None => Err(arguments.wrong_type(code, "the argument", "a timestamp", &value)),
    }
}

/// Parses `$dateFromParts`: parts of a calendar date, or of an ISO week date.
pub(super) fn parse_from_parts(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let given = FROM_PARTS.read::<11>(operator, operand)?;
    let has = |place: usize| given.get(place).is_some_and(Option::is_some);
    let fault = |fault, code| Err(Error::Argument { operator, fault, code });
    // Which parts are given is known without evaluation, so wrong combinations are rejected while parsing.
    if !has(0) && !has(3) {
        return fault(Fault::Missing { argument: "year" }, Code::DATE_FROM_PARTS_YEAR_MISSING);
    }
    let exclusive =
        Fault::Exclusive { first: "parts of a calendar date", second: "parts of an ISO week date" };
    if has(0) && (3..6).any(has) {
        return fault(exclusive, Code::DATE_FROM_PARTS_ISO_WITH_CALENDAR);
    }
    if has(3) && (0..3).any(has) {
        return fault(exclusive, Code::DATE_FROM_PARTS_CALENDAR_WITH_ISO);
    }
    let arguments = FROM_PARTS.parse(parser, operator, operand)?;
    Ok(Node::Call { operator, evaluate: from_parts, arguments })
}

fn from_parts<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some(clock) = clock_parts(arguments)? else { return Ok(Value::NULL) };
    let Some(zone) = Zone::read(arguments, 10, Code::TIME_ZONE_TYPE)? else { return Ok(Value::NULL) };
    let first = if arguments.is_given(0) { 0 } else { 3 };
    let year = number(arguments, first, 1_970)?;
    let (month, day) = (small(arguments, first + 1, 1)?, small(arguments, first + 2, 1)?);
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return Ok(Value::NULL) };
    // Only the year has to be in its range. Other parts may be beyond theirs, and carry over.
    if !(1..=9_999).contains(&year) {
        let (argument, code) = if first == 0 {
            ("year", Code::YEAR_OUT_OF_RANGE)
        } else {
            ("isoWeekYear", Code::ISO_WEEK_YEAR_OUT_OF_RANGE)
        };
        let fault = Fault::WrongValue { argument, expected: "from 1 to 9999", found: year.to_string() };
        return Err(arguments.fault(code, fault));
    }
    let number = if first == 0 {
        // From the first of January, because a month of 13 is the January of the next year.
        Date { year, month: 1, day: 1 }.plus_months(month - 1).number() + day - 1
    } else {
        IsoDay { year, week: month, weekday: day }.number()
    };
    let millis = zone.utc(local_millis(number, clock));
    millis.map(Value::date).ok_or_else(|| arguments.fault(Code::OVERFLOW, Fault::Overflow { kind: "date" }))
}

/// The time of day in milliseconds. A part may be larger than on a clock, or negative. Returns `None` if one is null.
fn clock_parts(arguments: &Arguments<'_, '_>) -> Result<Option<i128>, Error> {
    let hour = small(arguments, 6, 0)?;
    let minute = small(arguments, 7, 0)?;
    let second = number(arguments, 8, 0)?;
    let millisecond = number(arguments, 9, 0)?;
    let (Some(hour), Some(minute), Some(second), Some(millisecond)) = (hour, minute, second, millisecond)
    else {
        return Ok(None);
    };
    // In 128 bits: seconds may be any int64.
    let minutes = i128::from(hour) * 60 + i128::from(minute);
    Ok(Some((minutes * 60 + i128::from(second)) * 1_000 + i128::from(millisecond)))
}

/// One part as an integer, or `default` if it was not given. Returns `None` if it is null.
fn number(arguments: &Arguments<'_, '_>, at: usize, default: i64) -> Result<Option<i64>, Error> {
    let Some(value) = arguments.given(at)? else { return Ok(Some(default)) };
    if value.is_nullish() {
        return Ok(None);
    }
    let name = FROM_PARTS.names.get(at).copied().unwrap_or_default();
    arguments.long(Code::DATE_FROM_PARTS_TYPE, name, &value).map(Some)
}

/// One part that MongoDB keeps in 16 bits.
fn small(arguments: &Arguments<'_, '_>, at: usize, default: i64) -> Result<Option<i64>, Error> {
    let found = number(arguments, at, default)?;
    match found {
        Some(part) if i16::try_from(part).is_err() => {
            let argument = FROM_PARTS.names.get(at).copied().unwrap_or_default();
            let fault =
                Fault::WrongValue { argument, expected: "from -32768 to 32767", found: part.to_string() };
            Err(arguments.fault(Code::DATE_PART_OUT_OF_RANGE, fault))
        }
        Some(_) | None => Ok(found),
    }
}

pub(super) fn to_parts<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let date = arguments.value(0)?;
    let Some(zone) = Zone::read(arguments, 1, Code::TIME_ZONE_TYPE)? else { return Ok(Value::NULL) };
    // The arguments after the date are read before a null date ends it: wrong ones are errors all the same.
    let is_iso = match arguments.given(2)? {
        None => false,
        Some(value) if value.is_nullish() => return Ok(Value::NULL),
        Some(value) => match value.or_null().as_bool() {
            Some(is_iso) => is_iso,
            None => {
                return Err(arguments.wrong_type(Code::DATE_TO_PARTS_ISO_TYPE, "iso8601", "a bool", &value));
            }
        },
    };
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let local = zone.local(time(arguments, &date)?);
    let (day, clock) = (Date::of_millis(local), TimeOfDay::of_millis(local));
    let iso = day.iso();
    // Both forms share the time of day, and differ in the names of the date.
    let names: [(&CStr, i64); 3] = if is_iso {
        [(cstr!("isoWeekYear"), iso.year), (cstr!("isoWeek"), iso.week), (cstr!("isoDayOfWeek"), iso.weekday)]
    } else {
        [(cstr!("year"), day.year), (cstr!("month"), day.month), (cstr!("day"), day.day)]
    };
    let times = [
        (cstr!("hour"), clock.hour),
        (cstr!("minute"), clock.minute),
        (cstr!("second"), clock.second),
        (cstr!("millisecond"), clock.millisecond),
    ];
    let mut object = ObjectBuilder::new(arguments.operator, arguments.operation());
    for (name, part) in names.into_iter().chain(times) {
        object.append(name, &Value::integer(part))?;
    }
    Ok(object.finish())
}

pub(super) fn to_string<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let date = arguments.value(0)?;
    // Format and zone are checked before `onNull` replaces a null date.
    let format = format_text(arguments, Code::DATE_TO_STRING_FORMAT_TYPE, WRITTEN)?;
    let zone = Zone::read(arguments, 2, Code::TIME_ZONE_TYPE)?;
    if date.is_nullish() {
        return Ok(arguments.given(3)?.unwrap_or(Value::NULL));
    }
    let Some(zone) = zone else { return Ok(Value::NULL) };
    let format = match format {
        Format::Null => return Ok(Value::NULL),
        Format::Default => default_format(&zone),
        Format::Given(format) => format,
    };
    let millis = time(arguments, &date)?;
    let beyond = || {
        let found = Date::of_millis(millis).year.to_string();
        let fault = Fault::WrongValue { argument: "the year", expected: "from 0 to 9999", found };
        arguments.fault(Code::DATE_TO_STRING_YEAR, fault)
    };
    write(&format, millis, &zone).map(Value::text).ok_or_else(beyond)
}

pub(super) fn from_string<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let date = arguments.value(0)?;
    let format = format_text(arguments, Code::DATE_FROM_STRING_FORMAT_TYPE, READ)?;
    let zone = Zone::read(arguments, 2, Code::TIME_ZONE_TYPE)?;
    if date.is_nullish() {
        return Ok(arguments.given(3)?.unwrap_or(Value::NULL));
    }
    let millis = match (date.get().and_then(RawBsonRef::as_str), zone, &format) {
        // A value that is not a text counts as a failed conversion, which `onError` catches, even beside a
        // null zone.
        (None, _, _) => Err(arguments.wrong_type(Code::CONVERSION_FAILURE, "dateString", "a string", &date)),
        (_, None, _) | (_, _, Format::Null) => return Ok(Value::NULL),
        (Some(text), Some(zone), Format::Default | Format::Given(_)) => {
            let read = match &format {
                Format::Given(format) => read_with(format, text, &zone),
                Format::Default | Format::Null => read(text, &zone),
            };
            let fault = |reason| Fault::DateText { text: shorten(text), reason };
            read.map_err(|reason| arguments.fault(Code::CONVERSION_FAILURE, fault(reason)))
        }
    };
    match millis {
        Ok(millis) => Ok(Value::date(millis)),
        // `onError` is evaluated only if it is needed.
        Err(_) if arguments.is_given(4) => arguments.value(4),
        Err(error) => Err(error),
    }
}

/// A format argument.
enum Format {
    Null,
    /// It was not given.
    Default,
    Given(String),
}

/// Reads and checks the format, which is the second argument.
fn format_text(arguments: &Arguments<'_, '_>, code: Code, allowed: &str) -> Result<Format, Error> {
    let Some(format) = arguments.given(1)? else { return Ok(Format::Default) };
    if format.is_nullish() {
        return Ok(Format::Null);
    }
    let text = format.get().and_then(RawBsonRef::as_str);
    let text = text.ok_or_else(|| arguments.wrong_type(code, "format", "a string", &format))?;
    check(arguments, text, allowed)?;
    Ok(Format::Given(text.to_owned()))
}

pub(super) fn add<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    moved(arguments, Some)
}

pub(super) fn subtract<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    moved(arguments, i64::checked_neg)
}

fn moved<'d>(arguments: &Arguments<'_, 'd>, sign: fn(i64) -> Option<i64>) -> Result<Value<'d>, Error> {
    // A null argument decides before any type is checked: arguments are evaluated once to find it, and again
    // to use it.
    if has_nullish(arguments, 0..4)? {
        return Ok(Value::NULL);
    }
    let (date, amount_value) = (arguments.value(0)?, arguments.value(2)?);
    let Some(zone) = Zone::read(arguments, 3, Code::TIME_ZONE_TYPE)? else { return Ok(Value::NULL) };
    let millis = to_millis(date.or_null())
        .ok_or_else(|| arguments.wrong_type(Code::DATE_ADD_START_TYPE, "startDate", "a date", &date))?;
    let unit = unit(arguments, 1, (Code::DATE_ADD_UNIT_TYPE, Code::FAILED_TO_PARSE))?;
    let amount = arguments.long(Code::DATE_ADD_AMOUNT_TYPE, "amount", &amount_value)?;
    // The least int64 cannot be negated, so `$dateSubtract` rejects it.
    let negated = sign(amount).ok_or_else(|| {
        arguments.wrong_value(Code::DATE_SUBTRACT_AMOUNT_TOO_LARGE, "amount", "smaller", &amount_value)
    })?;
    let moved = shift::add(millis, negated, unit, &zone);
    moved
        .map(Value::date)
        .ok_or_else(|| arguments.fault(Code::DATE_ADD_OVERFLOW, Fault::Overflow { kind: "date" }))
}

pub(super) fn difference<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    if has_nullish(arguments, 0..4)? || has_nullish_week(arguments, 2, 4)? {
        return Ok(Value::NULL);
    }
    // Null was ruled out above, so a date that is absent here has the wrong type.
    let date = |at, argument| {
        let value = arguments.value(at)?;
        to_millis(value.or_null())
            .ok_or_else(|| arguments.wrong_type(Code::DATE_DIFF_DATE_TYPE, argument, "a date", &value))
    };
    let (start, end) = (date(0, "startDate")?, date(1, "endDate")?);
    let unit = unit(arguments, 2, UNIT_FAULTS)?;
    let Some(zone) = Zone::read(arguments, 3, Code::TIME_ZONE_TYPE)? else { return Ok(Value::NULL) };
    let units = shift::difference(
        start,
        end,
        unit,
        Calendar { zone: &zone, week_start: week_start(arguments, unit, 4)? },
    );
    units
        .map(Value::long)
        .ok_or_else(|| arguments.fault(Code::DATE_DIFF_OVERFLOW, Fault::Overflow { kind: "64-bit integer" }))
}

pub(super) fn truncate<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    if has_nullish(arguments, 0..4)? || has_nullish_week(arguments, 1, 4)? {
        return Ok(Value::NULL);
    }
    let date = arguments.value(0)?;
    let millis = to_millis(date.or_null())
        .ok_or_else(|| arguments.wrong_type(Code::DATE_TRUNC_DATE_TYPE, "date", "a date", &date))?;
    let unit = unit(arguments, 1, UNIT_FAULTS)?;
    let size = match arguments.given(2)? {
        None => 1,
        Some(value) => match arguments.long(Code::DATE_TRUNC_BIN_SIZE_TYPE, "binSize", &value)? {
            size @ 1.. => size,
            ..=0 => {
                return Err(arguments.wrong_value(
                    Code::DATE_TRUNC_BIN_SIZE_NOT_POSITIVE,
                    "binSize",
                    "above 0",
                    &value,
                ));
            }
        },
    };
    let Some(zone) = Zone::read(arguments, 3, Code::TIME_ZONE_TYPE)? else { return Ok(Value::NULL) };
    // The limit that MongoDB has for units that are not a fixed number of milliseconds, weeks and days among
    // them.
    let is_long_unit =
        matches!(unit, TimeUnit::Year | TimeUnit::Quarter | TimeUnit::Month | TimeUnit::Week | TimeUnit::Day);
    if is_long_unit && size > 100_000_000_000 {
        let fault = Fault::WrongValue { argument: "binSize", expected: "smaller", found: size.to_string() };
        return Err(arguments.fault(Code::DATE_TRUNC_BIN_SIZE_TOO_LARGE, fault));
    }
    let start = shift::truncate(
        millis,
        size,
        unit,
        Calendar { zone: &zone, week_start: week_start(arguments, unit, 4)? },
    );
    start
        .map(Value::date)
        .ok_or_else(|| arguments.fault(Code::DATE_TRUNC_OVERFLOW, Fault::Overflow { kind: "date" }))
}

/// Numbers for a unit that is not a text, and for one that is unknown.
const UNIT_FAULTS: (Code, Code) = (Code::DATE_UNIT_TYPE, Code::DATE_UNIT_VALUE);

/// Whether one of the arguments was given and is null or missing. Then the result is null, whatever the others are.
fn has_nullish(arguments: &Arguments<'_, '_>, mut positions: Range<usize>) -> Result<bool, Error> {
    positions.try_fold(false, |found, at| {
        Ok(found || arguments.given(at)?.is_some_and(|value| value.is_nullish()))
    })
}

/// Whether the day that weeks start on was given and is null. It counts only if the unit is a week.
fn has_nullish_week(arguments: &Arguments<'_, '_>, unit_at: usize, at: usize) -> Result<bool, Error> {
    let is_week = arguments.value(unit_at)?.get().and_then(RawBsonRef::as_str) == Some("week");
    Ok(is_week && has_nullish(arguments, at..at + 1)?)
}

/// The day that weeks start on: Sunday if it was not given.
fn week_start(arguments: &Arguments<'_, '_>, unit: TimeUnit, at: usize) -> Result<i64, Error> {
    const SUNDAY: i64 = 7;
    let given = if unit == TimeUnit::Week { arguments.given(at)? } else { None };
    let Some(value) = given else { return Ok(SUNDAY) };
    let name = value.get().and_then(RawBsonRef::as_str);
    let name = name.ok_or_else(|| {
        arguments.wrong_type(Code::DATE_TRUNC_START_OF_WEEK_TYPE, "startOfWeek", "a string", &value)
    })?;
    weekday(name).ok_or_else(|| {
        arguments.wrong_value(
            Code::DATE_TRUNC_START_OF_WEEK_VALUE,
            "startOfWeek",
            "a day of the week",
            &value,
        )
    })
}

/// The argument at position `at` as a unit of time. The first of `codes` is for a value that is not a text, the second
/// for a text that names no unit.
fn unit(arguments: &Arguments<'_, '_>, at: usize, codes: (Code, Code)) -> Result<TimeUnit, Error> {
    let (type_code, value_code) = codes;
    let value = arguments.value(at)?;
    let name = value.get().and_then(RawBsonRef::as_str);
    let name = name.ok_or_else(|| arguments.wrong_type(type_code, "unit", "a string", &value))?;
    TimeUnit::of_name(name).ok_or_else(|| arguments.wrong_value(value_code, "unit", "a unit of time", &value))
}

#[cfg(test)]
mod tests;
