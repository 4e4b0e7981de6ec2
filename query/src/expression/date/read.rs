//! Dates from texts: ISO 8601 in its common forms, other notations, or by a format.
//!
//! A text that is in no form of this file or of `notation` is rejected.

use crate::expression::date::format::MONTHS;
use crate::expression::date::notation;
use crate::expression::date::parts::{DateParts, Scanner, clock};
use crate::expression::date::zone::Zone;

const UNREADABLE: &str = "it is in no notation of a date that is known";
const OTHERWISE: &str = "it does not have the format";

/// Reads a date without a format. Without an offset it is in UTC.
pub(crate) fn parse_text(text: &str) -> Result<i64, &'static str> {
    read(text, &Zone::Utc)
}

/// Reads a date without a format. Without an offset it is in `zone`.
pub(super) fn read(text: &str, zone: &Zone) -> Result<i64, &'static str> {
    iso(text).or_else(|| notation::parts(text)).ok_or(UNREADABLE)?.time(zone)
}

/// Reads a date by a format that was checked.
pub(super) fn read_with(format: &str, text: &str, zone: &Zone) -> Result<i64, &'static str> {
    by_format(format, text).ok_or(OTHERWISE)?.time(zone)
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
    // Spaces may be before the offset.
    while rest.take(&[' ']).is_some() {}
    if !rest.0.is_empty() {
        parts.offset = Some(rest.offset()?);
    }
    rest.0.is_empty().then_some(parts)
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
        // Fields need at most as many digits as they can have, so that digits can follow each other without
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
