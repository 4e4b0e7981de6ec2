//! The parts of a date that a text names, and the time that they represent.

use crate::expression::date::calendar::{Date, IsoDay, MILLIS_PER_MINUTE, TimeOfDay};
use crate::expression::date::zone::{Zone, local_millis, parse_offset};

/// The parts of a date that a text names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DateParts {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    pub(super) day_of_year: Option<i64>,
    pub(super) iso_year: Option<i64>,
    pub(super) iso_week: Option<i64>,
    pub(super) iso_weekday: Option<i64>,
    pub(super) hour: Option<i64>,
    pub(super) minute: Option<i64>,
    pub(super) second: Option<i64>,
    pub(super) millisecond: Option<i64>,
    /// The weekday that is named, from Monday (1) to Sunday (7). The day must be one.
    pub(super) named_weekday: Option<i64>,
    /// The day counted from January 1, 1970, in place of all above.
    pub(super) day_since_1970: Option<i64>,
    /// Whether the hour was said to be after noon or before.
    pub(super) has_half: Option<bool>,
    /// Minutes ahead of UTC.
    pub(super) offset: Option<i64>,
}

const INCOMPLETE: &str = "year, month or day is missing";
const IMPOSSIBLE: &str = "there is no such day or time";
const TWO_ZONES: &str = "it has an offset, and a time zone was given";
const BEYOND: &str = "it lies beyond the range of dates";
const OTHER_WEEKDAY: &str = "the day is not the weekday that is named";

impl DateParts {
    /// The time in milliseconds since 1970. Without an offset it is in `zone`.
    pub(super) fn time(self, zone: &Zone) -> Result<i64, &'static str> {
        // An offset in the text and a time zone beside it could contradict each other, so MongoDB rejects both
        // together.
        if self.offset.is_some() && !zone.is_utc() {
            return Err(TWO_ZONES);
        }
        let number = self.day_number()?;
        // MongoDB would go on to the next such day. No date is guessed here.
        if self.named_weekday.is_some_and(|named| Date::of_number(number).iso_weekday() != named) {
            return Err(OTHER_WEEKDAY);
        }
        let or_zero = |part: Option<i64>| part.unwrap_or(0);
        let clock = TimeOfDay {
            hour: or_zero(self.hour),
            minute: or_zero(self.minute),
            second: or_zero(self.second),
            millisecond: or_zero(self.millisecond),
        };
        // 24:00 is the end of a day: midnight of the next.
        let is_end = clock.hour == 24 && clock.minute == 0 && clock.second == 0;
        if (clock.hour > 23 && !is_end) || clock.minute > 59 || clock.second > 59 {
            return Err(IMPOSSIBLE);
        }
        let offset = i128::from(or_zero(self.offset)) * i128::from(MILLIS_PER_MINUTE);
        zone.utc(local_millis(number, i128::from(clock.millis())) - offset).ok_or(BEYOND)
    }

    fn day_number(self) -> Result<i64, &'static str> {
        if let Some(day) = self.day_since_1970 {
            return Ok(day);
        }
        // Three forms of a date: by ISO week, by day of the year, and by month. Formats can mix them; the first that
        // is complete counts.
        if let (Some(year), Some(week)) = (self.iso_year, self.iso_week) {
            let day = IsoDay { year, week, weekday: self.iso_weekday.unwrap_or(1) };
            let number = day.number();
            // A week that the year does not have, the 53rd in most years, is found by converting the day back.
            return if Date::of_number(number).iso() == day { Ok(number) } else { Err(IMPOSSIBLE) };
        }
        let year = self.year.ok_or(INCOMPLETE)?;
        if let Some(day_of_year) = self.day_of_year {
            let number = Date { year, month: 1, day: 1 }.number() + day_of_year - 1;
            return if Date::of_number(number).year == year { Ok(number) } else { Err(IMPOSSIBLE) };
        }
        let day = Date { year, month: self.month.ok_or(INCOMPLETE)?, day: self.day.ok_or(INCOMPLETE)? };
        if day.is_valid() { Ok(day.number()) } else { Err(IMPOSSIBLE) }
    }
}

/// The part of a text that is not read yet.
pub(super) struct Scanner<'t>(pub(super) &'t str);

impl Scanner<'_> {
    /// Reads the next character if it is one of `letters`.
    pub(super) fn take(&mut self, letters: &[char]) -> Option<char> {
        let first = self.0.chars().next().filter(|letter| letters.contains(letter))?;
        self.0 = self.0.get(first.len_utf8()..)?;
        Some(first)
    }

    /// Reads a number of `min` to `max` digits.
    pub(super) fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| count >= min)?;
        self.0 = rest;
        digits.parse().ok()
    }

    /// Reads the digits of a fraction as milliseconds: the first three count, and the others are skipped.
    pub(super) fn milliseconds(&mut self) -> Option<i64> {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| count > 0)?;
        self.0 = rest;
        format!("{digits:0<3}").get(..3)?.parse().ok()
    }

    /// Reads `Z`, `UTC`, `GMT` or an offset as minutes.
    pub(super) fn offset(&mut self) -> Option<i64> {
        for name in ["UTC", "GMT", "Z", "z"] {
            if let Some(rest) = self.0.strip_prefix(name) {
                self.0 = rest;
                return Some(0);
            }
        }
        // An offset ends at the first character that is neither a digit nor a colon, its sign aside.
        let end =
            self.0.char_indices().skip(1).find(|(_, letter)| !letter.is_ascii_digit() && *letter != ':');
        let (text, rest) = self.0.split_at_checked(end.map_or(self.0.len(), |(at, _)| at))?;
        self.0 = rest;
        parse_offset(text).map(|seconds| seconds / 60)
    }
}

/// Reads `11:30:05.123`, with or without colons. Seconds and fraction may be absent.
pub(super) fn clock(rest: &mut Scanner<'_>, parts: &mut DateParts) -> Option<()> {
    parts.hour = Some(rest.number(1, 2)?);
    let has_colons = rest.take(&[':']).is_some();
    parts.minute = Some(rest.number(2, 2)?);
    // Without colons the next two digits are the seconds.
    let has_seconds = if has_colons {
        rest.take(&[':']).is_some()
    } else {
        rest.0.starts_with(|l: char| l.is_ascii_digit())
    };
    if has_seconds {
        parts.second = Some(rest.number(2, 2)?);
        if rest.take(&['.', ',']).is_some() {
            parts.millisecond = Some(rest.milliseconds()?);
        }
    }
    Some(())
}
