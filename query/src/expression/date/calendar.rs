//! The Gregorian calendar, extended without end in both directions: from milliseconds to days and times, and back.
//!
//! There are no time zones here, and no limits except those of 64 bits: every number of milliseconds has a date.

pub(super) const MILLIS_PER_DAY: i64 = 86_400_000;
pub(super) const MILLIS_PER_HOUR: i64 = 3_600_000;
pub(super) const MILLIS_PER_MINUTE: i64 = 60_000;
pub(super) const MILLIS_PER_SECOND: i64 = 1_000;

/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from March 1 of the year 0 to January 1, 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// From 1.
    pub(super) day: i64,
}

/// A day by its week, as ISO 8601 counts: weeks start on Monday, and the first week of a year is that of January 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsoDay {
    pub(super) year: i64,
    /// From 1.
    pub(super) week: i64,
    /// From 1 for Monday.
    pub(super) weekday: i64,
}

/// A time of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeOfDay {
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

impl Date {
    /// The day of a time in milliseconds since 1970.
    pub(super) fn of_millis(millis: i64) -> Self {
        Self::of_number(millis.div_euclid(MILLIS_PER_DAY))
    }

    /// The day that is `number` days after January 1, 1970.
    pub(super) fn of_number(number: i64) -> Self {
        // Years are counted from March 1, so that a leap day is the last of its year, and the lengths of months
        // follow a pattern of 153 days in five months.
        let days = number + DAYS_BEFORE_1970;
        let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        // The leap days before the day are removed: one in 1,460 days, except one in 36,524, and the last of
        // the era.
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self { year: era * 400 + year_of_era + i64::from(month <= 2), month, day }
    }

    /// The number of days from January 1, 1970 to this day.
    pub(super) fn number(self) -> i64 {
        // January and February belong to the year that began in March before them.
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let shifted = (self.month + 9) % 12;
        let day_of_year = (153 * shifted + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970
    }

    /// Whether the calendar has the day.
    pub(super) fn is_valid(self) -> bool {
        (1..=12).contains(&self.month) && (1..=days_in_month(self.year, self.month)).contains(&self.day)
    }

    /// The same day of the month `months` later, or the last day of that month if it is shorter.
    pub(super) fn plus_months(self, months: i64) -> Self {
        let month = self.month - 1 + months;
        let (year, month) = (self.year + month.div_euclid(12), month.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)) }
    }

    /// From 1.
    pub(super) fn day_of_year(self) -> i64 {
        self.number() - Self { year: self.year, month: 1, day: 1 }.number() + 1
    }

    /// From 1 for Monday to 7 for Sunday.
    pub(super) fn iso_weekday(self) -> i64 {
        // The first of January 1970 was a Thursday.
        (self.number() + 3).rem_euclid(7) + 1
    }

    /// From 1 for Sunday to 7 for Saturday.
    pub(super) fn weekday(self) -> i64 {
        self.iso_weekday() % 7 + 1
    }

    /// The week of the year, from 0; each Sunday starts a new one.
    pub(super) fn week(self) -> i64 {
        (self.day_of_year() - self.weekday() + 7) / 7
    }

    pub(super) fn iso(self) -> IsoDay {
        let weekday = self.iso_weekday();
        // The Thursday of a week gives its year.
        let thursday = Self::of_number(self.number() - weekday + 4);
        IsoDay { year: thursday.year, week: (thursday.day_of_year() - 1) / 7 + 1, weekday }
    }
}

impl IsoDay {
    /// The number of days from January 1, 1970 to this day. Weeks and weekdays may lie outside of the year.
    pub(super) fn number(self) -> i64 {
        // January 4 is always in the first week; the Monday of that week is counted from.
        let fourth = Date { year: self.year, month: 1, day: 4 };
        fourth.number() - fourth.iso_weekday() + (self.week - 1) * 7 + self.weekday
    }
}

impl TimeOfDay {
    pub(super) fn of_millis(millis: i64) -> Self {
        // Euclidean, so that times before 1970 have a time of day that is not negative.
        let rest = millis.rem_euclid(MILLIS_PER_DAY);
        Self {
            hour: rest / MILLIS_PER_HOUR,
            minute: rest / MILLIS_PER_MINUTE % 60,
            second: rest / MILLIS_PER_SECOND % 60,
            millisecond: rest % MILLIS_PER_SECOND,
        }
    }

    pub(super) fn millis(self) -> i64 {
        self.hour * MILLIS_PER_HOUR
            + self.minute * MILLIS_PER_MINUTE
            + self.second * MILLIS_PER_SECOND
            + self.millisecond
    }
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(number: i64, (year, month, day): (i64, i64, i64), (week, weekday): (i64, i64)) {
        let expected = Date { year, month, day };
        assert_eq!(Date::of_number(number), expected);
        assert_eq!(expected.number(), number);
        assert_eq!((expected.iso().week, expected.iso().weekday), (week, weekday));
    }

    #[test]
    fn days_have_a_number() {
        check(0, (1970, 1, 1), (1, 4));
        check(-1, (1969, 12, 31), (1, 3));
        check(11_016, (2000, 2, 29), (9, 2));
        check(16_801, (2016, 1, 1), (53, 5));
        check(-719_528, (0, 1, 1), (52, 6));
        check(-719_529, (-1, 12, 31), (52, 5));
        check(18_262, (2020, 1, 1), (1, 3));
    }

    #[test]
    fn weeks_start_on_sunday() {
        let week = |year, month, day| Date { year, month, day }.week();
        assert_eq!(week(2016, 1, 1), 0);
        assert_eq!(week(2016, 1, 3), 1);
        assert_eq!(week(2017, 1, 1), 1);
        assert_eq!(week(2016, 12, 31), 52);
    }

    #[test]
    fn months_end_where_the_next_is_shorter() {
        let day = Date { year: 2020, month: 10, day: 31 };
        assert_eq!(day.plus_months(1), Date { year: 2020, month: 11, day: 30 });
        assert_eq!(day.plus_months(4), Date { year: 2021, month: 2, day: 28 });
        assert_eq!(day.plus_months(-8), Date { year: 2020, month: 2, day: 29 });
    }

    proptest! {
        #[test]
        fn every_millisecond_has_a_day(millis in any::<i64>()) {
            let (day, clock) = (Date::of_millis(millis), TimeOfDay::of_millis(millis));
            prop_assert!(day.is_valid());
            let back = i128::from(day.number()) * i128::from(MILLIS_PER_DAY) + i128::from(clock.millis());
            prop_assert_eq!(back, i128::from(millis));
            prop_assert_eq!(day.iso().number(), day.number());
        }
    }
}
