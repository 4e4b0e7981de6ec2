//! Dates as texts: formats are checked and written here. Reading by a format is in `read`.

use crate::code::Code;
use crate::expression::date::calendar::{Date, MILLIS_PER_SECOND, TimeOfDay};
use crate::expression::date::zone::Zone;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::value::shorten;

const ISO: &str = "%Y-%m-%dT%H:%M:%S.%L";

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The letters that may follow a percent sign, when a date is written and when it is read.
pub(super) const WRITTEN: &str = "%bBdGHjLmMSwuUVYzZ";
pub(super) const READ: &str = "%bBdGHjLmMSuVYzZ";

/// Rejects a format with an unknown letter after a percent sign, or with a percent sign at its end.
pub(super) fn check(arguments: &Arguments<'_, '_>, format: &str, allowed: &str) -> Result<(), Error> {
    let refuse =
        |reason, code| Err(arguments.fault(code, Fault::DateFormat { format: shorten(format), reason }));
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.next() {
            None => return refuse("a '%' at the end", Code::DATE_FORMAT_PERCENT_AT_END),
            Some(letter) if !allowed.contains(letter) => {
                return refuse("an unknown letter after a '%'", Code::DATE_FORMAT_UNKNOWN_LETTER);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The format that is used if none is given: only in UTC it ends with `Z`.
pub(super) fn default_format(zone: &Zone) -> String {
    if zone.is_utc() { format!("{ISO}Z") } else { ISO.to_owned() }
}

/// Writes a date by a format that was checked. Returns `None` if the format asks for a year that does not have
/// four digits.
pub(super) fn write(format: &str, millis: i64, zone: &Zone) -> Option<String> {
    // All parts are those that a clock in the zone shows; only the offset depends on the time itself.
    let local = zone.local(millis);
    let (day, clock) = (Date::of_millis(local), TimeOfDay::of_millis(local));
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let piece = match letters.next() {
            Some('Y') => year(day.year)?,
            Some('G') => year(day.iso().year)?,
            Some('m') => two(day.month),
            Some('d') => two(day.day),
            Some('H') => two(clock.hour),
            Some('M') => two(clock.minute),
            Some('S') => two(clock.second),
            Some('L') => format!("{:03}", clock.millisecond),
            Some('j') => format!("{:03}", day.day_of_year()),
            Some('w') => day.weekday().to_string(),
            Some('u') => day.iso_weekday().to_string(),
            Some('U') => two(day.week()),
            Some('V') => two(day.iso().week),
            // MongoDB abbreviates months to three letters, all of which are ASCII.
            Some('b') => month(day.month).get(..3)?.to_owned(),
            Some('B') => month(day.month).to_owned(),
            Some('z') => offset_hours(zone.offset_at(millis)),
            Some('Z') => (zone.offset_at(millis) / 60).to_string(),
            // Only `%%` is left: `check` rejected every other letter.
            Some(other) => other.to_string(),
            None => String::new(),
        };
        text.push_str(&piece);
    }
    Some(text)
}

/// The text of a date in UTC, with all digits of its year, however many they are.
pub(crate) fn format_utc(millis: i64) -> String {
    // A date beyond the year 9999 has no text by a format, but a conversion to text must give one.
    let text = write(&format!("{ISO}Z"), millis, &Zone::Utc);
    text.unwrap_or_else(|| {
        let (day, clock) = (Date::of_millis(millis), TimeOfDay::of_millis(millis));
        let seconds = clock.millis() / MILLIS_PER_SECOND;
        format!(
            "{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            day.year,
            day.month,
            day.day,
            seconds / 3_600,
            clock.minute,
            clock.second,
            clock.millisecond
        )
    })
}

/// Four digits, with zeros in front.
fn year(year: i64) -> Option<String> {
    (0..=9_999).contains(&year).then(|| format!("{year:04}"))
}

fn two(number: i64) -> String {
    format!("{number:02}")
}

fn month(month: i64) -> &'static str {
    let place = usize::try_from(month - 1).unwrap_or(0);
    MONTHS.get(place).copied().unwrap_or_default()
}

/// An offset as `+hhmm`.
fn offset_hours(seconds: i64) -> String {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}
