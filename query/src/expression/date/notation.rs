//! Dates as people and protocols write them: `July 4, 2024 3:30 PM`, `Thu, 04 Jul 2024 10:00:00 GMT`, `06/15/2018`, `15.06.2018`,
//! `4-Jul-2024`, `2024-W27-4`, `2024-186`, `@1720088000`.
//!
//! They are some of those that MongoDB understands. A date must be whole; what is relative to today, such as `tomorrow`, is
//! rejected, as it is there, and so is a year of two digits. Of three numbers with slashes the month is the first, and with dots or
//! hyphens the day, if the year is the last.

use crate::expression::date::format::MONTHS;
use crate::expression::date::parts::{DateParts, Scanner, clock};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// The zones that texts of mail name, with their hours ahead of UTC.
const ZONES: [(&str, i64); 8] =
    [("EST", -5), ("EDT", -4), ("CST", -6), ("CDT", -5), ("MST", -7), ("MDT", -6), ("PST", -8), ("PDT", -7)];
/// No notation is so long.
const TEXT_MAX: usize = 100;

/// The parts that a text names. Returns `None` if it is in no notation, or names a part twice.
pub(super) fn parts(text: &str) -> Option<DateParts> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return since_1970(seconds);
    }
    let mut parts = DateParts::default();
    let mut words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        // A number before `pm` is an hour, and elsewhere a day.
        let is_hour = words.peek().is_some_and(|next| half_of_day(&next.to_ascii_lowercase()).is_some());
        if is_hour {
            time(&mut parts, word)?;
            continue;
        }
        let (date, time) = split_at_t(word);
        part(&mut parts, date)?;
        if let Some(time) = time {
            part(&mut parts, time)?;
        }
    }
    Some(parts)
}

/// `@1720088000`: seconds since 1970, of UTC whatever zone is given.
fn since_1970(seconds: &str) -> Option<DateParts> {
    const SECONDS_OF_DAY: i64 = 86_400;
    // Fractions and other forms of numbers are none.
    let seconds: i64 = seconds.parse().ok()?;
    let (days, rest) = (seconds.div_euclid(SECONDS_OF_DAY), seconds.rem_euclid(SECONDS_OF_DAY));
    Some(DateParts {
        day_since_1970: Some(days),
        hour: Some(rest / 3_600),
        minute: Some(rest / 60 % 60),
        second: Some(rest % 60),
        offset: Some(0),
        ..DateParts::default()
    })
}

/// Splits `2024-W27-4T10:00` at the `T` between digits.
fn split_at_t(word: &str) -> (&str, Option<&str>) {
    let is_digit =
        |text: Option<&str>| text.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let between = word.match_indices(['T', 't']).find(|(at, _)| {
        is_digit(at.checked_sub(1).and_then(|before| word.get(before..*at)))
            && is_digit(word.get(at + 1..at + 2))
    });
    match between.and_then(|(at, _)| word.split_at_checked(at)) {
        Some((date, time)) => (date, time.get(1..)),
        None => (word, None),
    }
}

/// Sets a part that is not there yet.
fn set(part: &mut Option<i64>, value: i64) -> Option<()> {
    part.replace(value).is_none().then_some(())
}

/// Adds what a word names.
fn part(parts: &mut DateParts, word: &str) -> Option<()> {
    let lower = word.to_ascii_lowercase();
    // Names first, because `mar` and `sat` could be mistaken for the beginning of something else.
    if let Some(month) = month(&lower) {
        return set(&mut parts.month, month);
    }
    if let Some(weekday) = place(&WEEKDAYS, &lower) {
        return set(&mut parts.named_weekday, weekday);
    }
    // Before the dates with hyphens, which have no sign at their beginning.
    if let Some(minutes) = offset(word) {
        return set(&mut parts.offset, minutes);
    }
    if let Some(is_afternoon) = half_of_day(&lower) {
        return shift(parts, is_afternoon);
    }
    // `3pm`, and no name is left that ends so.
    if word.contains(':') || lower.ends_with('m') {
        return time(parts, &lower);
    }
    if let Some(day) = ["st", "nd", "rd", "th"].iter().find_map(|suffix| lower.strip_suffix(suffix)) {
        return set(&mut parts.day, number(day, 1..=2)?);
    }
    match lower.len() {
        4 if lower.bytes().all(|byte| byte.is_ascii_digit()) => set(&mut parts.year, number(&lower, 4..=4)?),
        1 | 2 => set(&mut parts.day, number(&lower, 1..=2)?),
        _ => joined(parts, &lower),
    }
}

/// `June`, `jun`, `Sept`, `jun.`.
fn month(lower: &str) -> Option<i64> {
    let name = lower.strip_suffix('.').unwrap_or(lower);
    if name == "sept" { Some(9) } else { place(&MONTHS, name) }
}

/// The place of a name that is whole or has its first three letters, from 1.
fn place(names: &[&str], lower: &str) -> Option<i64> {
    let is = |name: &&str| {
        name.eq_ignore_ascii_case(lower)
            || name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(lower))
    };
    i64::try_from(names.iter().position(is)? + 1).ok()
}

/// `Z`, `GMT`, `+02:00`, `UTC+2`, `EST`: minutes ahead of UTC.
fn offset(word: &str) -> Option<i64> {
    if let Some((_, hours)) = ZONES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Some(hours * 60);
    }
    let named =
        ["UTC", "GMT"].iter().find_map(|name| word.strip_prefix(name)).filter(|rest| !rest.is_empty());
    let rest = named.unwrap_or(word);
    if !rest.starts_with(['+', '-', 'U', 'G', 'Z', 'z']) {
        return None;
    }
    // An hour of one digit.
    let padded = match rest.len() {
        2 if rest.starts_with(['+', '-']) => format!("{}0{}", rest.get(..1)?, rest.get(1..)?),
        _ => rest.to_owned(),
    };
    let mut scanner = Scanner(&padded);
    let minutes = scanner.offset()?;
    scanner.0.is_empty().then_some(minutes)
}

/// Whether the hours before it are those after noon.
fn half_of_day(lower: &str) -> Option<bool> {
    match lower {
        "am" | "a.m." => Some(false),
        "pm" | "p.m." => Some(true),
        _ => None,
    }
}

/// Moves an hour from 1 to 12 into its half of the day.
fn shift(parts: &mut DateParts, is_afternoon: bool) -> Option<()> {
    let hour = parts.hour.filter(|hour| (1..=12).contains(hour))?;
    // A second word would move it again. Then there would be no hour from 1 to 12, or the parts say which half it is already.
    if parts.has_half.replace(is_afternoon).is_some() {
        return None;
    }
    parts.hour = Some(hour % 12 + if is_afternoon { 12 } else { 0 });
    Some(())
}

/// `10:30`, `10:30:15.123z`, `3pm`, `3:30pm`.
fn time(parts: &mut DateParts, lower: &str) -> Option<()> {
    if parts.hour.is_some() {
        return None;
    }
    let mut rest = Scanner(lower);
    if lower.contains(':') {
        clock(&mut rest, parts)?;
    } else {
        parts.hour = Some(rest.number(1, 2)?);
    }
    match (rest.0, half_of_day(rest.0)) {
        ("", _) => Some(()),
        (_, Some(is_afternoon)) => shift(parts, is_afternoon),
        (zone, None) => set(&mut parts.offset, offset(&zone.to_ascii_uppercase())?),
    }
}

/// `06/15/2018`, `15.06.2018`, `4-jul-2024`, `2024-w27-4`, `2024w274`, `2024-186`.
fn joined(parts: &mut DateParts, lower: &str) -> Option<()> {
    if let Some((year, week)) = lower.split_once('w') {
        return week_date(parts, year, week);
    }
    let separator = lower.chars().find(|letter| ['/', '-', '.'].contains(letter))?;
    // All separators of a date are the same; another one stays in a piece, which is not a number then.
    let pieces: Vec<&str> = lower.split(separator).collect();
    match *pieces.as_slice() {
        // The day of the year has three digits, so that it is not a month.
        [year, day] if separator != '/' => {
            set(&mut parts.year, number(year, 4..=4)?)?;
            set(&mut parts.day_of_year, number(day, 3..=3)?)
        }
        [first, second, third] => {
            let (year, month_, day) = match (month(first), month(second), separator) {
                // jul-4-2024
                (Some(month), None, '-') => (third, month, second),
                // 2024-jul-4 and 4-jul-2024
                (None, Some(month), '-') if first.len() == 4 => (first, month, third),
                (None, Some(month), '-') => (third, month, first),
                // 06/15/2018
                (None, None, '/') => (third, number(first, 1..=2)?, second),
                // 15-06-2018 and 15.06.2018
                (None, None, _) => (third, number(second, 1..=2)?, first),
                (Some(_), _, _) | (None, Some(_), _) => return None,
            };
            set(&mut parts.year, number(year, 4..=4)?)?;
            set(&mut parts.month, month_)?;
            set(&mut parts.day, number(day, 1..=2)?)
        }
        _ => None,
    }
}

/// A year and what follows the `w`: `27`, `27-4`, `274`.
fn week_date(parts: &mut DateParts, year: &str, week: &str) -> Option<()> {
    let year = year.strip_suffix('-').unwrap_or(year);
    // Always two digits, and the weekday is Monday unless it is named.
    let (week, weekday) = week.split_at_checked(2)?;
    set(&mut parts.iso_year, number(year, 4..=4)?)?;
    set(&mut parts.iso_week, number(week, 2..=2)?)?;
    match weekday.strip_prefix('-').unwrap_or(weekday) {
        "" if weekday.is_empty() => Some(()),
        day => set(&mut parts.iso_weekday, number(day, 1..=1)?),
    }
}

/// A number of so many digits, and nothing else.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use crate::expression::date::read::parse_text;

    /// July 4, 2024 at midnight of UTC.
    const FOURTH: i64 = 1_720_051_200_000;
    const HOUR: i64 = 3_600_000;

    #[track_caller]
    fn check(text: &str, expected: i64) {
        assert_eq!(parse_text(text), Ok(expected), "{text}");
    }

    #[test]
    fn days_are_read_in_many_notations() {
        for text in [
            "July 4, 2024",
            "july 4 2024",
            "4 July 2024",
            "4th July 2024",
            "Jul. 4, 2024",
            "2024 Jul 4",
            "Thu, 04 Jul 2024",
            "Thursday 4 July 2024",
            "4-Jul-2024",
            "Jul-04-2024",
            "2024-Jul-04",
            "07/04/2024",
            "7/4/2024",
            "04.07.2024",
            "04-07-2024",
            "2024-W27-4",
            "2024W274",
            "2024-186",
            "2024.186",
            "@1720051200",
            "  4 July 2024  ",
        ] {
            check(text, FOURTH);
        }
        check("2024-W27", FOURTH - 3 * 24 * HOUR);
        check("2024w27", FOURTH - 3 * 24 * HOUR);
        check("@-1", -1_000);
        check("@0", 0);
        check("Sept 1 2024", 1_725_148_800_000);
    }

    #[test]
    fn times_and_zones_follow_or_stand_between() {
        check("July 4, 2024 3pm", FOURTH + 15 * HOUR);
        check("July 4, 2024 3:30 PM", FOURTH + 15 * HOUR + HOUR / 2);
        check("July 4, 2024 12am", FOURTH);
        check("July 4, 2024 12 p.m.", FOURTH + 12 * HOUR);
        check("Thu, 04 Jul 2024 10:00:00 GMT", FOURTH + 10 * HOUR);
        check("Thu, 04 Jul 2024 10:00:00 +0200", FOURTH + 8 * HOUR);
        check("Thu, 04 Jul 2024 10:00:00 EST", FOURTH + 15 * HOUR);
        check("Thu Jul  4 10:00:00 2024", FOURTH + 10 * HOUR);
        check("7/4/2024 10:30:15.123", FOURTH + 10 * HOUR + 1_815_123);
        check("2024-W27-4T10:00", FOURTH + 10 * HOUR);
        check("2024-186T10:00Z", FOURTH + 10 * HOUR);
        check("4 July 2024 10:00:00.5+02:00", FOURTH + 8 * HOUR + 500);
        check("4 July 2024 10:00 UTC+2", FOURTH + 8 * HOUR);
    }

    #[test]
    fn what_is_no_whole_date_is_refused() {
        for text in [
            "",
            " ",
            "tomorrow",
            "July 2024",
            "July 4",
            "4 July 24",
            "7/4/24",
            "13/13/2024",
            "Fri, 04 Jul 2024",
            "4 4 July 2024",
            "4 July 2024 2025",
            "4 July 2024 13pm",
            "4 July 2024 0am",
            "4 July 2024 3pm pm",
            "4 July 2024 3 pm pm",
            "4 July 2024 10:00 11:00",
            "4 July 2024 25:00",
            "4 July 2024 at 3pm",
            "31 June 2024",
            "2024-W54-1",
            "2024-367",
            "2024-W",
            "@",
            "@1e5",
            "@99999999999999999999",
            "4-Jul/2024",
            "Jul-Jul-2024",
            "ü",
            "4 July 2024 ü",
            "T",
            "1T1",
            "4 July 2024 GMT GMT",
        ] {
            assert!(parse_text(text).is_err(), "{text:?} is {:?}", parse_text(text));
        }
        assert!(parse_text(&"4 July 2024".repeat(20)).is_err());
    }
}
