//! Moving dates by units of time, counting units between dates, and truncating dates to units.
//!
//! A day and longer units follow the calendar of the time zone: adding a day keeps the time of day, however long the
//! day is. Shorter units are fixed spans of time.

use crate::expression::date::calendar::{
    Date, MILLIS_PER_DAY, MILLIS_PER_HOUR, MILLIS_PER_MINUTE, MILLIS_PER_SECOND, TimeOfDay,
};
use crate::expression::date::zone::{Zone, local_millis};

/// A unit of time that operators name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
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

impl TimeUnit {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
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

    /// The length of the unit in milliseconds. Returns `None` if it depends on the calendar: months and longer units.
    pub(crate) fn millis(self) -> Option<i64> {
        match self.size() {
            UnitLength::Months(_) => None,
            UnitLength::Days(days) => Some(days * MILLIS_PER_DAY),
            UnitLength::Millis(millis) => Some(millis),
        }
    }

    /// The time `amount` units after `millis`, in UTC. Returns `None` if 64 bits do not hold it.
    pub(crate) fn add_in_utc(self, millis: i64, amount: i64) -> Option<i64> {
        add(millis, amount, self, &Zone::Utc)
    }

    /// The length of the unit, in the measure that units of its kind are counted in.
    fn size(self) -> UnitLength {
        match self {
            Self::Year => UnitLength::Months(12),
            Self::Quarter => UnitLength::Months(3),
            Self::Month => UnitLength::Months(1),
            Self::Week => UnitLength::Days(7),
            Self::Day => UnitLength::Days(1),
            Self::Hour => UnitLength::Millis(MILLIS_PER_HOUR),
            Self::Minute => UnitLength::Millis(MILLIS_PER_MINUTE),
            Self::Second => UnitLength::Millis(MILLIS_PER_SECOND),
            Self::Millisecond => UnitLength::Millis(1),
        }
    }
}

/// The length of a unit of time.
enum UnitLength {
    Months(i64),
    Days(i64),
    Millis(i64),
}

/// The number of a day of the week, from 1 for Monday, by its name or the first three letters of it.
pub(super) fn weekday(name: &str) -> Option<i64> {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let name = name.to_ascii_lowercase();
    let place = NAMES.iter().position(|known| *known == name || known.get(..3) == Some(name.as_str()))?;
    i64::try_from(place + 1).ok()
}

/// The time `amount` units later. Returns `None` if 64 bits do not hold it.
pub(super) fn add(millis: i64, amount: i64, unit: TimeUnit, zone: &Zone) -> Option<i64> {
    /// More months than lie between any two dates.
    const MONTHS_MAX: i64 = 10_000_000_000;
    let (months, days) = match unit.size() {
        UnitLength::Millis(size) => {
            return amount.checked_mul(size).and_then(|span| millis.checked_add(span));
        }
        UnitLength::Months(size) => (amount.checked_mul(size)?, 0),
        UnitLength::Days(size) => (0, amount.checked_mul(size)?),
    };
    // A bound before the calendar multiplies: more months are beyond 64 bits of milliseconds anyway.
    if months.abs() > MONTHS_MAX {
        return None;
    }
    let local = zone.local(millis);
    let number = Date::of_millis(local).plus_months(months).number().checked_add(days)?;
    zone.utc(local_millis(number, i128::from(TimeOfDay::of_millis(local).millis())))
}

/// The parameters of units of dates besides the dates: the time zone, and the day on which weeks start, from 1 for
/// Monday.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar<'z> {
    pub(super) zone: &'z Zone,
    pub(super) week_start: i64,
}

/// The number of boundaries of units between two times.
pub(super) fn difference(start: i64, end: i64, unit: TimeUnit, calendar: Calendar<'_>) -> Option<i64> {
    let Calendar { zone, week_start } = calendar;
    // Milliseconds need no calendar, and their number may not fit 64 bits.
    if unit == TimeUnit::Millisecond {
        return end.checked_sub(start);
    }
    let (local_start, local_end) = (zone.local(start), zone.local(end));
    let (first, last) = (Date::of_millis(local_start), Date::of_millis(local_end));
    let months = (last.year - first.year) * 12 + last.month - first.month;
    let days = last.number() - first.number();
    // By how many seconds clocks were put back between both times; negative if they were put forward. Units shorter
    // than a day count real time, from which local times differ by that.
    let shift = zone.offset_at(start) - zone.offset_at(end);
    let spans = |size: i64| {
        local_end.div_euclid(size) - local_start.div_euclid(size) + shift / (size / MILLIS_PER_SECOND)
    };
    Some(match unit {
        TimeUnit::Year => last.year - first.year,
        TimeUnit::Quarter => (last.year - first.year) * 4 + (last.month - 1) / 3 - (first.month - 1) / 3,
        TimeUnit::Month => months,
        TimeUnit::Week => {
            // Both days are moved to the start of their weeks, so the distance is a whole number of weeks.
            let into_week = |day: Date| (day.iso_weekday() - week_start).rem_euclid(7);
            (days + into_week(first) - into_week(last)) / 7
        }
        TimeUnit::Day => days,
        TimeUnit::Hour => spans(MILLIS_PER_HOUR),
        TimeUnit::Minute => spans(MILLIS_PER_MINUTE),
        TimeUnit::Second | TimeUnit::Millisecond => spans(MILLIS_PER_SECOND),
    })
}

/// The start of the bin of `size` units that a time lies in. Bins are counted from the start of the year 2000, as in
/// MongoDB.
pub(super) fn truncate(millis: i64, size: i64, unit: TimeUnit, calendar: Calendar<'_>) -> Option<i64> {
    let Calendar { zone, week_start } = calendar;
    let origin = Date { year: 2000, month: 1, day: 1 };
    let origin_number = match unit {
        // The first week that starts in the year.
        TimeUnit::Week => origin.number() + (week_start - origin.iso_weekday()).rem_euclid(7),
        TimeUnit::Year
        | TimeUnit::Quarter
        | TimeUnit::Month
        | TimeUnit::Day
        | TimeUnit::Hour
        | TimeUnit::Minute
        | TimeUnit::Second
        | TimeUnit::Millisecond => origin.number(),
    };
    let local = zone.local(millis);
    let number = match unit.size() {
        UnitLength::Millis(unit_size) => {
            // Bins of fixed spans start at local midnight of the origin and do not follow changes of the
            // clock.
            let origin = zone.utc(local_millis(origin_number, 0))?;
            let distance = millis.checked_sub(origin)?.rem_euclid(size.checked_mul(unit_size)?);
            return millis.checked_sub(distance);
        }
        UnitLength::Days(unit_size) => {
            // Bins of days and months are counted in local days, and their start is converted to a time at
            // the end.
            let days = local.div_euclid(MILLIS_PER_DAY) - origin_number;
            origin_number + days - days.rem_euclid(size.checked_mul(unit_size)?)
        }
        UnitLength::Months(unit_size) => {
            let day = Date::of_millis(local);
            let months = (day.year - origin.year) * 12 + day.month - origin.month;
            origin.plus_months(months - months.rem_euclid(size.checked_mul(unit_size)?)).number()
        }
    };
    zone.utc(local_millis(number, 0))
}
