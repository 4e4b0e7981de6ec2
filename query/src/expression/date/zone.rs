//! Time zones: UTC, fixed offsets such as `+02:00`, and names such as `Europe/Berlin`.
//!
//! The rules of named zones are linked into the library; no file of the system is read. A local time that clocks skip
//! gets the offset from before the gap, and one that they show twice means the first.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::code::Code;
use crate::expression::date::calendar::{Date, MILLIS_PER_DAY, MILLIS_PER_SECOND, TimeOfDay};
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::value::Value;
use crate::value::shorten;

/// A time zone.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    Utc,
    /// Seconds ahead of UTC.
    Offset(i64),
    Named(TimeZone),
}

impl Zone {
    /// Reads the argument at position `at`: UTC if it was not given. Returns `None` if it is null. `type_code` is
    /// the number for a value that is not a text.
    pub(super) fn read(
        arguments: &Arguments<'_, '_>,
        at: usize,
        type_code: Code,
    ) -> Result<Option<Self>, Error> {
        let Some(value) = arguments.given(at)? else { return Ok(Some(Self::Utc)) };
        if value.is_nullish() {
            return Ok(None);
        }
        let Some(name) = value.get().and_then(bson::RawBsonRef::as_str) else {
            return Err(arguments.wrong_type(type_code, "timezone", "a string", &value));
        };
        let unknown = || arguments.fault(Code::UNKNOWN_TIME_ZONE, Fault::TimeZone { name: shorten(name) });
        Self::of_name(name).map(Some).ok_or_else(unknown)
    }

    fn of_name(name: &str) -> Option<Self> {
        // The common zone needs no search through the names.
        if name == "UTC" {
            return Some(Self::Utc);
        }
        if name.starts_with(['+', '-']) {
            return parse_offset(name).map(Self::Offset);
        }
        TimeZone::get(name).ok().map(Self::Named)
    }

    pub(super) fn is_utc(&self) -> bool {
        matches!(self, Self::Utc | Self::Offset(0))
    }

    /// The number of seconds that the zone is ahead of UTC at a time.
    pub(super) fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Offset(seconds) => *seconds,
            Self::Named(zone) => i64::from(zone.to_offset(timestamp(millis)).seconds()),
        }
    }

    /// The local time of the zone at a time, as milliseconds since 1970 of that clock.
    pub(super) fn local(&self, millis: i64) -> i64 {
        millis.saturating_add(self.offset_at(millis) * MILLIS_PER_SECOND)
    }

    /// The time at which a clock in the zone shows `local`. Returns `None` if 64 bits do not hold it.
    pub(super) fn utc(&self, local: i128) -> Option<i64> {
        let offset = match self {
            Self::Utc => 0,
            Self::Offset(seconds) => *seconds,
            Self::Named(zone) => {
                // The milliseconds within a second do not change the offset, so whole seconds are compared.
                let near = i64::try_from(local).ok()?;
                match civil(near).and_then(|civil| zone.to_ambiguous_timestamp(civil).compatible().ok()) {
                    Some(time) => {
                        (near - near.rem_euclid(MILLIS_PER_SECOND)) / MILLIS_PER_SECOND - time.as_second()
                    }
                    // Read as if it were UTC: an offset of hours does not matter that far from the rules.
                    None => self.offset_at(near),
                }
            }
        };
        i64::try_from(local - i128::from(offset) * i128::from(MILLIS_PER_SECOND)).ok()
    }
}

/// The offset of UTC as `+hh`, `+hhmm` or `+hh:mm`, in seconds.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    // Checked first, because parsing a number would accept a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':').filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let (hours, minutes) = (hours.parse::<i64>().ok()?, minutes.parse::<i64>().ok()?);
    Some(sign * (hours * 3_600 + minutes * 60))
}

/// The time for the rules of zones, or the nearest one within their years.
fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// The local time for the rules of zones. Returns `None` beyond their years.
fn civil(local: i64) -> Option<DateTime> {
    let (day, clock) = (Date::of_millis(local), TimeOfDay::of_millis(local));
    let small = |part: i64| i8::try_from(part).ok();
    DateTime::new(
        i16::try_from(day.year).ok()?,
        small(day.month)?,
        small(day.day)?,
        small(clock.hour)?,
        small(clock.minute)?,
        small(clock.second)?,
        0,
    )
    .ok()
}

/// A day and a time of day, as milliseconds of a clock. The time may be longer than a day, or negative.
pub(super) fn local_millis(day_number: i64, clock_millis: i128) -> i128 {
    i128::from(day_number) * i128::from(MILLIS_PER_DAY) + clock_millis
}

/// The time of a value in milliseconds. Fails for a value that is not a date.
pub(super) fn time(arguments: &Arguments<'_, '_>, value: &Value<'_>) -> Result<i64, Error> {
    let millis = crate::expression::value::to_millis(value.or_null());
    millis
        .ok_or_else(|| arguments.wrong_type(Code::DATE_TYPE, "date", "a date, timestamp or ObjectId", value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_three_forms() {
        assert_eq!(parse_offset("+02"), Some(7_200));
        assert_eq!(parse_offset("-0430"), Some(-16_200));
        assert_eq!(parse_offset("+05:45"), Some(20_700));
        for text in ["", "+", "+2", "02", "+02:0", "+0:200", "+02:00:00", "+ab", "+-1", "+2::0"] {
            assert_eq!(parse_offset(text), None, "{text}");
        }
    }

    #[test]
    fn clocks_that_jump_take_the_offset_before() {
        let zone = Zone::of_name("Europe/Berlin").unwrap();
        let utc = |year, month, day, hour: i64| {
            let number = Date { year, month, day }.number();
            zone.utc(local_millis(number, i128::from(hour * 3_600_000 + 1_800_000))).unwrap()
        };
        let at = |year, month, day, hour: i64| {
            Date { year, month, day }.number() * 86_400_000 + hour * 3_600_000 + 1_800_000
        };
        assert_eq!(utc(2024, 1, 15, 12), at(2024, 1, 15, 11));
        assert_eq!(utc(2024, 7, 15, 12), at(2024, 7, 15, 10));
        assert_eq!(utc(2024, 3, 31, 2), at(2024, 3, 31, 1));
        assert_eq!(utc(2024, 10, 27, 2), at(2024, 10, 27, 0));
        assert_eq!(zone.local(at(2024, 10, 27, 1)), at(2024, 10, 27, 2));
    }

    #[test]
    fn any_time_has_an_offset() {
        let zone = Zone::of_name("America/New_York").unwrap();
        for millis in [i64::MIN, i64::MAX, 0] {
            let _ = zone.local(millis);
            let _ = zone.utc(i128::from(millis));
        }
        assert!(Zone::of_name("Nowhere/Town").is_none());
    }
}
