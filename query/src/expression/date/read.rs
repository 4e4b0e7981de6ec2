//! Dates from texts: ISO 8601 in its common forms, or by a format.
//!
//! MongoDB reads many more forms ("next Friday"). A text that is not in a form of this file is refused.

use crate::expression::date::calendar::{Date, IsoDay, MILLIS_PER_MINUTE, TimeOfDay};
use crate::expression::date::format::MONTHS;
use crate::expression::date::zone::{Zone, local_millis, parse_offset};

/// The parts of a date that a text names.
#[derive(Clone, Copy, Debug, Default)]
struct DateParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: Option<i64>,
    /// Minutes ahead of UTC.
    offset: Option<i64>,
}

const UNREADABLE: &str = "it has no form of ISO 8601";
const OTHERWISE: &str = "it does not have the format";
const INCOMPLETE: &str = "year, month or day is missing";
const IMPOSSIBLE: &str = "there is no such day or time";
const TWO_ZONES: &str = "it has an offset, and a time zone was given";
const BEYOND: &str = "it lies beyond the range of dates";

/// Reads a date of ISO 8601. Without an offset it is in UTC.
pub(crate) fn parse_text(text: &str) -> Result<i64, &'static str> {
    read(text, &Zone::Utc)
}

/// Reads a date of ISO 8601. Without an offset it is in `zone`.
pub(super) fn read(text: &str, zone: &Zone) -> Result<i64, &'static str> {
    iso(text).ok_or(UNREADABLE)?.time(zone)
}

/// Reads a date by a format that was checked.
pub(super) fn read_with(format: &str, text: &str, zone: &Zone) -> Result<i64, &'static str> {
    by_format(format, text).ok_or(OTHERWISE)?.time(zone)
}

impl DateParts {
    fn time(self, zone: &Zone) -> Result<i64, &'static str> {
        // An offset in the text and a time zone beside it could contradict each other, so MongoDB refuses both
        // together.
        if self.offset.is_some() && !zone.is_utc() {
            return Err(TWO_ZONES);
        }
        let number = self.day_number()?;
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
struct Scanner<'t>(&'t str);

impl Scanner<'_> {
    /// Takes the next character if it is one of `letters`.
    fn take(&mut self, letters: &[char]) -> Option<char> {
        let first = self.0.chars().next().filter(|letter| letters.contains(letter))?;
        self.0 = self.0.get(first.len_utf8()..)?;
        Some(first)
    }

    /// Takes a number of `min` to `max` digits.
    fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| count >= min)?;
        self.0 = rest;
        digits.parse().ok()
    }

    /// Takes the digits of a fraction as milliseconds: the first three count, and the others are skipped.
    fn milliseconds(&mut self) -> Option<i64> {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| count > 0)?;
        self.0 = rest;
        format!("{digits:0<3}").get(..3)?.parse().ok()
    }

    /// Takes `Z`, `UTC`, `GMT` or an offset as minutes.
    fn offset(&mut self) -> Option<i64> {
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

/// Reads `2018-03-20T11:30:05.123+02:00`.
///
/// Parts at the end may be absent, down to year and month. The separators may be slashes, or absent, and a space may
/// replace the `T`.
fn iso(text: &str) -> Option<DateParts> {
    let mut rest = Scanner(text);
    let mut parts = DateParts { year: Some(rest.number(4, 4)?), ..DateParts::default() };
    if let Some(separator) = rest.take(&['-', '/']) {
        parts.month = Some(rest.number(1, 2)?);
        // Both separators must be the same.
        parts.day = Some(if rest.take(&[separator]).is_some() { rest.number(1, 2)? } else { 1 });
    } else {
        parts.month = Some(rest.number(2, 2)?);
        parts.day = Some(rest.number(2, 2)?);
    }
    if rest.0.is_empty() {
        return Some(parts);
    }
    if rest.take(&['T', 't', ' ']).is_some() && rest.0.starts_with(|letter: char| letter.is_ascii_digit()) {
        clock(&mut rest, &mut parts)?;
    }
    // Spaces may stand before the offset.
    while rest.take(&[' ']).is_some() {}
    if !rest.0.is_empty() {
        parts.offset = Some(rest.offset()?);
    }
    rest.0.is_empty().then_some(parts)
}

/// Reads `11:30:05.123`, with or without colons. Seconds and fraction may be absent.
fn clock(rest: &mut Scanner<'_>, parts: &mut DateParts) -> Option<()> {
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

fn by_format(format: &str, text: &str) -> Option<DateParts> {
    let mut rest = Scanner(text);
    let mut parts = DateParts::default();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            // Every other character of the format must be in the text as it is.
            rest.take(&[letter])?;
            continue;
        }
        // Fields take at most as many digits as they can have, so that digits can follow each other without
        // separators.
        match letters.next()? {
            'Y' => parts.year = Some(rest.number(4, 4)?),
            'm' => parts.month = Some(rest.number(1, 2)?),
            'd' => parts.day = Some(rest.number(1, 2)?),
            'j' => parts.day_of_year = Some(rest.number(1, 3)?),
            'G' => parts.iso_year = Some(rest.number(4, 4)?),
            'V' => parts.iso_week = Some(rest.number(1, 2)?),
            'u' => parts.iso_weekday = Some(rest.number(1, 1)?),
            'H' => parts.hour = Some(rest.number(1, 2)?),
            'M' => parts.minute = Some(rest.number(1, 2)?),
            'S' => parts.second = Some(rest.number(1, 2)?),
            'L' => parts.millisecond = Some(rest.number(1, 3)?),
            'b' => parts.month = Some(month(&mut rest, |name| name.get(..3))?),
            'B' => parts.month = Some(month(&mut rest, Some)?),
            'z' => parts.offset = Some(rest.offset()?),
            'Z' => parts.offset = Some(offset_minutes(&mut rest)?),
            other => {
                rest.take(&[other])?;
            }
        }
    }
    rest.0.is_empty().then_some(parts)
}

fn month(rest: &mut Scanner<'_>, form: fn(&'static str) -> Option<&'static str>) -> Option<i64> {
    for (place, name) in MONTHS.iter().filter_map(|name| form(name)).enumerate() {
        let Some((start, after)) = rest.0.split_at_checked(name.len()) else { continue };
        if start.eq_ignore_ascii_case(name) {
            rest.0 = after;
            return i64::try_from(place + 1).ok();
        }
    }
    None
}

fn offset_minutes(rest: &mut Scanner<'_>) -> Option<i64> {
    let sign = if rest.take(&['+', '-'])? == '-' { -1 } else { 1 };
    rest.number(1, 4).map(|minutes| sign * minutes)
}
