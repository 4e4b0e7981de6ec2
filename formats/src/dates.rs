//! Dates as text: by RFC 3339, and by formats of `strftime`. Formats of other tools are not read; what they mean is told.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

const NANOSECONDS: i128 = 1_000_000;

/// The milliseconds since 1970 of a date by RFC 3339 with a zone. What is finer is cut off.
pub(crate) fn milliseconds(text: &str) -> Option<i64> {
    of_timestamp(text.parse().ok()?)
}

/// The same, for texts alone that are written as RFC 3339 has it, and of which no digit would be lost.
pub(crate) fn exact_milliseconds(text: &str) -> Option<i64> {
    // The parser takes more: a blank for the T, times without seconds, zones without minutes and with names.
    let bytes = text.as_bytes();
    let at = |position: usize| bytes.get(position).copied();
    let has_seconds = at(10) == Some(b'T') && at(13) == Some(b':') && at(16) == Some(b':');
    let zone = bytes.len().checked_sub("+00:00".len()).and_then(|start| bytes.get(start..));
    let has_zone = match zone {
        Some([b'+' | b'-', _, _, b':', _, _] | [.., b'Z']) => true,
        Some(_) | None => false,
    };
    if !has_seconds || !has_zone {
        return None;
    }
    let timestamp: Timestamp = text.parse().ok()?;
    let is_whole = timestamp.as_nanosecond().rem_euclid(NANOSECONDS) == 0;
    of_timestamp(timestamp).filter(|_| is_whole)
}

/// The milliseconds of a date in a format of `strftime`; in UTC, unless the text has a zone. A time that is missing
/// is midnight.
pub(crate) fn formatted(format: &str, text: &str) -> Option<i64> {
    let parsed = strtime::parse(format, text).ok()?;
    if let Ok(timestamp) = parsed.to_timestamp() {
        return of_timestamp(timestamp);
    }
    let time = match parsed.to_time() {
        Ok(time) => time,
        // Whether the format has no time at all is for the caller, who checked it.
        Err(_) => jiff::civil::Time::midnight(),
    };
    let date = parsed.to_date().ok()?;
    of_timestamp(date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn of_timestamp(timestamp: Timestamp) -> Option<i64> {
    i64::try_from(timestamp.as_nanosecond().div_euclid(NANOSECONDS)).ok()
}

/// Refuses a format that no date can be written in.
pub(crate) fn check_format(format: &str) -> Result<(), String> {
    let sample = jiff::civil::date(2024, 2, 29).at(12, 34, 56, 0).to_zoned(TimeZone::UTC);
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

/// What a format of another tool is called here: the longest words first.
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
        let found = words.iter().find_map(|(word, meaning)| Some((rest.strip_prefix(word)?, meaning)));
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
    use super::*;

    #[test]
    fn dates_have_a_zone_and_may_be_finer_than_they_are_kept() {
        assert_eq!(milliseconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(milliseconds("1970-01-01T01:00:00.0019+01:00"), Some(1));
        assert_eq!(milliseconds("1969-12-31T23:59:59.9999Z"), Some(-1));
        assert_eq!(milliseconds("1970-01-01T00:00:00"), None);
        assert_eq!(milliseconds("1970-01-01"), None);
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
