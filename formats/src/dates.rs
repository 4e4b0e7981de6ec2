//! Dates as text: by RFC 3339, over the whole range of BSON's dates, and by formats of `strftime`. Formats of other tools are not read; what they mean is reported.

use std::borrow::Cow;

use jiff::civil::{Date, Time, date};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

const EPOCH: Date = date(1970, 1, 1);
/// Milliseconds of a day.
const DAY: i128 = 86_400_000;
const NANOSECONDS_PER_MILLISECOND: i128 = 1_000_000;
/// The calendar repeats after so many years, which have so many days.
const CYCLE_YEARS: i64 = 400;
const CYCLE_DAYS: i128 = 146_097;
/// A cycle of years with four digits.
const PLAIN_YEARS: std::ops::Range<i64> = 2_000..2_400;
/// The digits of a year with a sign: ISO 8601 leaves their number to an agreement, and ECMAScript has six. BSON's dates
/// reach to the year 292,278,994.
const SIGNED_DIGITS: std::ops::RangeInclusive<usize> = 6..=9;

/// A date in UTC as RFC 3339 writes it, and with a sign and at least six digits a year that has not four, as ECMAScript
/// does. Every date of BSON has such a text.
///
/// ```
/// use cairndb_formats::dates::date_text;
///
/// assert_eq!(date_text(1_500), "1970-01-01T00:00:01.5Z");
/// assert_eq!(date_text(-62_167_219_200_001), "-000001-12-31T23:59:59.999Z");
/// ```
pub fn date_text(milliseconds: i64) -> String {
    let (days, within) = (i128::from(milliseconds).div_euclid(DAY), i128::from(milliseconds).rem_euclid(DAY));
    let (cycles, days) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let date = i32::try_from(days).ok().and_then(|days| EPOCH.checked_add(days.days()).ok()).unwrap_or(EPOCH);
    let year = i128::from(date.year()) + cycles * i128::from(CYCLE_YEARS);
    let year = if (0..=9_999).contains(&year) { format!("{year:04}") } else { format!("{year:+07}") };
    let (seconds, fraction) = (within / 1_000, within % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:03}") };
    let (month, day, fraction) = (date.month(), date.day(), fraction.trim_end_matches('0'));
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The milliseconds since 1970 of a date by RFC 3339 with a zone. A year that has not four digits has a sign and at
/// least six: `+012345-01-01T00:00:00Z`. What is finer is cut off.
pub(crate) fn milliseconds(text: &str) -> Option<i64> {
    of_nanoseconds(nanoseconds(text)?)
}

/// The same, for texts alone that are written as RFC 3339 has it, and of which no digit would be lost.
pub(crate) fn exact_milliseconds(text: &str) -> Option<i64> {
    // The parser accepts more: a blank for the T, times without seconds, zones without minutes and with names.
    let bytes = text.as_bytes();
    let after_year = bytes.iter().skip(1).position(|byte| *byte == b'-')? + 1;
    let at = |position: usize| bytes.get(after_year + position).copied();
    let has_seconds = at(6) == Some(b'T') && at(9) == Some(b':') && at(12) == Some(b':');
    let zone = bytes.len().checked_sub("+00:00".len()).and_then(|start| bytes.get(start..));
    let has_zone = match zone {
        Some([b'+' | b'-', _, _, b':', _, _] | [.., b'Z']) => true,
        Some(_) | None => false,
    };
    if !has_seconds || !has_zone {
        return None;
    }
    let nanoseconds = nanoseconds(text)?;
    of_nanoseconds(nanoseconds).filter(|_| nanoseconds.rem_euclid(NANOSECONDS_PER_MILLISECOND) == 0)
}

/// The nanoseconds since 1970 of a date with a zone. Dates are split and counted here, because the timestamps of
/// jiff end a day and two hours before the year 10000.
fn nanoseconds(text: &str) -> Option<i128> {
    let (plain, cycles) = plain_year(text)?;
    let pieces = Pieces::parse(plain.as_bytes()).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let local = of_civil(pieces.date(), pieces.time()?)
        + i128::from(cycles) * CYCLE_DAYS * DAY * NANOSECONDS_PER_MILLISECOND;
    Some(local - of_offset(offset))
}

/// The text with a year of four digits at the same place of the calendar, and how many cycles the year is after it.
fn plain_year(text: &str) -> Option<(Cow<'_, str>, i64)> {
    let is_negative = text.starts_with('-');
    let Some(unsigned) = text.strip_prefix(['+', '-']) else { return Some((text.into(), 0)) };
    let (digits, rest) = unsigned.split_once('-')?;
    let is_year = SIGNED_DIGITS.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let magnitude = digits.parse::<i64>().ok().filter(|_| is_year)?;
    // There is one year 0, and it has a plus.
    if is_negative && magnitude == 0 {
        return None;
    }
    let year = if is_negative { -magnitude } else { magnitude };
    let plain = PLAIN_YEARS.start + (year - PLAIN_YEARS.start).rem_euclid(CYCLE_YEARS);
    Some((format!("{plain}-{rest}").into(), (year - plain) / CYCLE_YEARS))
}

/// The nanoseconds from 1970 to a date and time in UTC.
fn of_civil(date: Date, time: Time) -> i128 {
    let days = i128::from(date.duration_since(EPOCH).as_hours() / 24);
    let time = time.duration_since(Time::midnight()).as_nanos();
    days * DAY * NANOSECONDS_PER_MILLISECOND + time
}

fn of_offset(offset: Offset) -> i128 {
    i128::from(offset.seconds()) * 1_000 * NANOSECONDS_PER_MILLISECOND
}

fn of_nanoseconds(nanoseconds: i128) -> Option<i64> {
    i64::try_from(nanoseconds.div_euclid(NANOSECONDS_PER_MILLISECOND)).ok()
}

/// The milliseconds of a date in a format of `strftime`; in UTC, unless the text has a zone. A time that is missing
/// is midnight.
pub(crate) fn formatted(format: &str, text: &str) -> Option<i64> {
    let parsed = strtime::parse(format, text).ok()?;
    if let Some(timestamp) = parsed.timestamp() {
        return of_nanoseconds(timestamp.as_nanosecond());
    }
    let time = if has_time(&parsed) { parsed.to_time().ok()? } else { Time::midnight() };
    let date = parsed.to_date().ok()?;
    let offset = match (parsed.offset(), parsed.iana_time_zone()) {
        (Some(offset), _) => offset,
        (None, None) => Offset::UTC,
        (None, Some(name)) => {
            let zone = TimeZone::get(name).ok()?;
            match zone.to_ambiguous_timestamp(date.to_datetime(time)).compatible() {
                Ok(time) => zone.to_offset(time),
                // After the last timestamp the zone has the rules that it has then.
                Err(_) => zone.to_offset(if date < EPOCH { Timestamp::MIN } else { Timestamp::MAX }),
            }
        }
    };
    of_nanoseconds(of_civil(date, time) - of_offset(offset))
}

/// Whether the text has any part of a time.
fn has_time(parsed: &BrokenDownTime) -> bool {
    parsed.hour().is_some()
        || parsed.minute().is_some()
        || parsed.second().is_some()
        || parsed.subsec_nanosecond().is_some()
        || parsed.meridiem().is_some()
}

/// Rejects a format that no date can be written in.
pub(crate) fn check_format(format: &str) -> Result<(), String> {
    let sample = date(2024, 2, 29).at(12, 34, 56, 0).to_zoned(TimeZone::UTC);
    let Ok(sample) = sample else { return Ok(()) };
    if !format.contains('%') {
        return Err("a format of strftime has fields such as %Y".to_owned());
    }
    let text = strtime::format(format, &sample).map_err(|error| error.to_string())?;
    match formatted(format, &text) {
        Some(_) => Ok(()),
        None => Err("it has no year, month and day, or fields that cannot be read".to_owned()),
    }
}

/// The formats that mongoimport has besides, by the name of their type.
pub(crate) const FOREIGN: [&str; 3] = ["date_go", "date_ms", "date_oracle"];

/// The names of formats of another tool, and their names here: the longest words first.
const GO: [(&str, &str); 22] = [
    ("January", "%B"),
    ("Monday", "%A"),
    ("-07:00", "%:z"),
    ("Z07:00", "%:z"),
    ("-0700", "%z"),
    ("2006", "%Y"),
    (".000000000", "%.9f"),
    (".000000", "%.6f"),
    (".000", "%.3f"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    ("MST", "%Z"),
    ("002", "%j"),
    ("PM", "%p"),
    ("15", "%H"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("_2", "%e"),
];
const MS: [(&str, &str); 16] = [
    ("dddd", "%A"),
    ("MMMM", "%B"),
    ("yyyy", "%Y"),
    ("ddd", "%a"),
    ("MMM", "%b"),
    (".fff", "%.3f"),
    (".FFF", "%.3f"),
    ("zzz", "%:z"),
    ("yy", "%y"),
    ("MM", "%m"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("hh", "%I"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("tt", "%p"),
];
const ORACLE: [(&str, &str); 17] = [
    ("MONTH", "%B"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("YYYY", "%Y"),
    ("RRRR", "%Y"),
    (".FF3", "%.3f"),
    ("DAY", "%A"),
    ("DDD", "%j"),
    ("MON", "%b"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("DY", "%a"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("AM", "%p"),
];

/// The format of `strftime` that a format of another tool means.
pub(crate) fn translated(kind: &str, format: &str) -> String {
    let words: &[(&str, &str)] = match kind {
        "date_go" => &GO,
        "date_ms" => &MS,
        _ => &ORACLE,
    };
    let mut rest = format;
    let mut out = String::new();
    while let Some(character) = rest.chars().next() {
        // The words of Oracle's formats are the same in any case.
        let after = |word: &str| match rest.get(..word.len()).filter(|_| kind == "date_oracle") {
            Some(start) if start.eq_ignore_ascii_case(word) => rest.get(word.len()..),
            Some(_) | None => rest.strip_prefix(word),
        };
        let found = words.iter().find_map(|(word, meaning)| Some((after(word)?, meaning)));
        if let Some((after, meaning)) = found {
            out.push_str(meaning);
            rest = after;
        } else {
            // All else means itself, but for the sign that begins a field.
            if character == '%' {
                out.push('%');
            }
            out.push(character);
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_have_a_zone_and_may_be_finer_than_they_are_kept() {
        assert_eq!(milliseconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(milliseconds("1970-01-01T01:00:00.0019+01:00"), Some(1));
        assert_eq!(milliseconds("1969-12-31T23:59:59.9999Z"), Some(-1));
        assert_eq!(milliseconds("1970-01-01T00:00:00"), None);
        assert_eq!(milliseconds("1970-01-01"), None);
    }

    /// The timestamps of jiff end at 9999-12-30T22:00:00.999999999Z, and dates went through them: `9999-12-31`, which many
    /// tables have for "never", was rejected, though the tool itself writes it.
    #[test]
    fn dates_reach_to_both_ends_of_bson() {
        let check = |text: &str, expected: i64| {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
            assert_eq!(exact_milliseconds(text), Some(expected), "{text}");
            assert_eq!(date_text(expected), text);
        };
        check("9999-12-31T00:00:00Z", 253_402_214_400_000);
        check("9999-12-31T23:59:59.999Z", 253_402_300_799_999);
        check("0000-01-01T00:00:00Z", -62_167_219_200_000);
        let last = 253_402_300_800_000;
        assert_eq!(milliseconds("9999-12-31T23:59:59.999-00:01"), Some(last + 59_999));
        assert_eq!(exact_milliseconds("9999-12-31T23:59:59.999+00:00"), Some(last - 1));
        assert_eq!(milliseconds("9999-12-31T23:59:59.9999Z"), Some(last - 1));
        check("+010000-01-01T00:00:00Z", last);
        check("-000001-12-31T23:59:59Z", -62_167_219_201_000);
        // The first and the last date of ECMAScript and of BSON.
        assert_eq!(milliseconds("+275760-09-13T00:00:00.000Z"), Some(8_640_000_000_000_000));
        assert_eq!(milliseconds("-271821-04-20T00:00:00.000Z"), Some(-8_640_000_000_000_000));
        check("+292278994-08-17T07:12:55.807Z", i64::MAX);
        check("-292275055-05-16T16:47:04.192Z", i64::MIN);
        assert_eq!(milliseconds("+292278994-08-17T07:12:55.808Z"), None);
        for text in [
            "-000000-01-01T00:00:00Z",
            "+12345-01-01T00:00:00Z",
            "+2024-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_date_has_a_text_that_is_read_again(any in any::<i64>(), near in -10_i64.pow(15)..10_i64.pow(15)) {
            for date in [any, near] {
                prop_assert_eq!(milliseconds(&date_text(date)), Some(date));
                prop_assert_eq!(exact_milliseconds(&date_text(date)), Some(date));
            }
            if let Ok(text) = bson::DateTime::from_millis(near).try_to_rfc3339_string() && !text.starts_with(['+', '-']) {
                let is_in_reach = (-62_167_219_200_000..253_402_300_800_000).contains(&near);
                prop_assert!(!is_in_reach || text == date_text(near));
            }
        }
    }

    #[test]
    fn a_date_is_exact_if_it_is_written_in_full_and_nothing_of_it_is_lost() {
        assert_eq!(exact_milliseconds("1970-01-01T00:00:00.5Z"), Some(500));
        assert_eq!(exact_milliseconds("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(exact_milliseconds("1970-01-01T01:00:00+01:00"), Some(0));
        for text in [
            "1970-01-01T00:00:00.0001Z",
            "1970-01-01T00:00:00",
            "1970-01-01T01:00:00+01",
            "1970-01-01T01:00:00+0100",
            "1970-01-01T01:00:00+00:00[UTC]",
            "1970-01-01 00:00:00Z",
            "1970-01-01T00:00Z",
            "1970-01-01t00:00:00z",
            "1970-01-32T00:00:00Z",
        ] {
            assert_eq!(exact_milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn formats_are_those_of_strftime() {
        let day = milliseconds("2024-02-29T00:00:00Z");
        assert_eq!(formatted("%Y-%m-%d", "2024-02-29"), day);
        assert_eq!(formatted("%d.%m.%Y", "29.02.2024"), day);
        assert_eq!(formatted("%d.%m.%Y", "30.02.2024"), None);
        assert_eq!(formatted("%Y-%m-%d %H:%M", "2024-02-29 12:30"), milliseconds("2024-02-29T12:30:00Z"));
        assert_eq!(
            formatted("%Y-%m-%d %H:%M:%S %z", "2024-02-29 12:30:00 +0100"),
            milliseconds("2024-02-29T11:30:00Z")
        );
        assert_eq!(formatted("%Y-%m-%d", "9999-12-31"), milliseconds("9999-12-31T00:00:00Z"));
        assert_eq!(formatted("%F %T %z", "9999-12-31 23:59:59 -0100"), Some(253_402_304_399_000));
        assert_eq!(formatted("%F %T %Q", "9999-12-31 23:59:59 America/New_York"), Some(253_402_318_799_000));
        assert_eq!(formatted("%s", "86400"), Some(86_400_000));
        // A zone without a time was passed over.
        assert_eq!(formatted("%Y-%m-%d%z", "2024-02-29+0100"), milliseconds("2024-02-28T23:00:00Z"));
        check_format("%d.%m.%y").unwrap();
        check_format("%H:%M").unwrap_err();
        check_format("yyyy").unwrap_err();
        check_format("%Q").unwrap_err();
    }

    #[test]
    fn formats_of_other_tools_are_translated() {
        assert_eq!(translated("date_go", "Mon, 02 Jan 2006 15:04:05 -0700"), "%a, %d %b %Y %H:%M:%S %z");
        assert_eq!(translated("date_ms", "dd/MM/yyyy HH:mm:ss tt"), "%d/%m/%Y %H:%M:%S %p");
        assert_eq!(translated("date_oracle", "DD-MON-YYYY HH24:MI:SS"), "%d-%b-%Y %H:%M:%S");
    }
}
