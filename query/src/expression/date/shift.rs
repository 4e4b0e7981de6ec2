//! Moving dates by units of time, counting units between them, and rounding down to them.
//!
//! Units from a day upward are those of a clock in the zone: adding a day keeps the time of day, however long the
//! day is. Smaller units are spans of time.

use crate::expression::date::calendar::{
    Clock, Date, MILLIS_PER_DAY, MILLIS_PER_HOUR, MILLIS_PER_MINUTE, MILLIS_PER_SECOND,
};
use crate::expression::date::zone::{Zone, local_millis};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "millisecond" => Self::Millisecond,
            _ => return None,
        })
    }

    /// How long the unit is in terms that its kind is counted in.
    fn size(self) -> Size {
        match self {
            Self::Year => Size::Months(12),
            Self::Quarter => Size::Months(3),
            Self::Month => Size::Months(1),
            Self::Week => Size::Days(7),
            Self::Day => Size::Days(1),
            Self::Hour => Size::Millis(MILLIS_PER_HOUR),
            Self::Minute => Size::Millis(MILLIS_PER_MINUTE),
            Self::Second => Size::Millis(MILLIS_PER_SECOND),
            Self::Millisecond => Size::Millis(1),
        }
    }
}

enum Size {
    Months(i64),
    Days(i64),
    Millis(i64),
}

/// The number of a day of the week, 1 for Monday, by its name or the first three letters of that.
pub(super) fn weekday(name: &str) -> Option<i64> {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let name = name.to_ascii_lowercase();
    let place = NAMES.iter().position(|known| *known == name || known.get(..3) == Some(name.as_str()))?;
    i64::try_from(place + 1).ok()
}

/// The time so many units later; nothing if 64 bits do not hold it.
pub(super) fn add(millis: i64, amount: i64, unit: Unit, zone: &Zone) -> Option<i64> {
    /// More months than there are between any two dates.
    const MONTHS_MAX: i64 = 10_000_000_000;
    let (months, days) = match unit.size() {
        Size::Millis(size) => return amount.checked_mul(size).and_then(|span| millis.checked_add(span)),
        Size::Months(size) => (amount.checked_mul(size)?, 0),
        Size::Days(size) => (0, amount.checked_mul(size)?),
    };
    if months.abs() > MONTHS_MAX {
        return None;
    }
    let local = zone.local(millis);
    let number = Date::of_millis(local).plus_months(months).number().checked_add(days)?;
    zone.utc(local_millis(number, i128::from(Clock::of_millis(local).millis())))
}

/// How many boundaries of units lie between two times.
pub(super) fn difference(start: i64, end: i64, unit: Unit, (zone, week_start): (&Zone, i64)) -> Option<i64> {
    if unit == Unit::Millisecond {
        return end.checked_sub(start);
    }
    let (local_start, local_end) = (zone.local(start), zone.local(end));
    let (first, last) = (Date::of_millis(local_start), Date::of_millis(local_end));
    let months = (last.year - first.year) * 12 + last.month - first.month;
    let days = last.number() - first.number();
    // By how much the clock was put forward meanwhile.
    let shift = zone.offset_at(start) - zone.offset_at(end);
    let spans = |size: i64| {
        local_end.div_euclid(size) - local_start.div_euclid(size) + shift / (size / MILLIS_PER_SECOND)
    };
    Some(match unit {
        Unit::Year => last.year - first.year,
        Unit::Quarter => (last.year - first.year) * 4 + (last.month - 1) / 3 - (first.month - 1) / 3,
        Unit::Month => months,
        Unit::Week => {
            let into_week = |day: Date| (day.iso_weekday() - week_start).rem_euclid(7);
            (days + into_week(first) - into_week(last)) / 7
        }
        Unit::Day => days,
        Unit::Hour => spans(MILLIS_PER_HOUR),
        Unit::Minute => spans(MILLIS_PER_MINUTE),
        Unit::Second | Unit::Millisecond => spans(MILLIS_PER_SECOND),
    })
}

/// The start of the bin of `size` units that a time lies in; bins are counted from the start of the year 2000.
pub(super) fn truncate(millis: i64, size: i64, unit: Unit, (zone, week_start): (&Zone, i64)) -> Option<i64> {
    let origin = Date { year: 2000, month: 1, day: 1 };
    let origin_number = match unit {
        // The first week that starts in the year.
        Unit::Week => origin.number() + (week_start - origin.iso_weekday()).rem_euclid(7),
        Unit::Year
        | Unit::Quarter
        | Unit::Month
        | Unit::Day
        | Unit::Hour
        | Unit::Minute
        | Unit::Second
        | Unit::Millisecond => origin.number(),
    };
    let local = zone.local(millis);
    let number = match unit.size() {
        Size::Millis(unit_size) => {
            let origin = zone.utc(local_millis(origin_number, 0))?;
            let distance = millis.checked_sub(origin)?.rem_euclid(size.checked_mul(unit_size)?);
            return millis.checked_sub(distance);
        }
        Size::Days(unit_size) => {
            let days = local.div_euclid(MILLIS_PER_DAY) - origin_number;
            origin_number + days - days.rem_euclid(size.checked_mul(unit_size)?)
        }
        Size::Months(unit_size) => {
            let day = Date::of_millis(local);
            let months = (day.year - origin.year) * 12 + day.month - origin.month;
            origin.plus_months(months - months.rem_euclid(size.checked_mul(unit_size)?)).number()
        }
    };
    zone.utc(local_millis(number, 0))
}
