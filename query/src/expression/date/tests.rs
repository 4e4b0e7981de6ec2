//! Tables of cases for the operators of dates.

use bson::{Bson, bson};

use crate::expression::cases::{check, check_error, millis};

/// 2020-02-29T12:34:56.789Z, a Saturday.
const LEAP: i64 = 1_582_979_696_789;

fn leap() -> Bson {
    millis(LEAP)
}

#[test]
fn dates_have_parts() {
    for (operator, part) in [
        ("$year", bson!(2020)),
        ("$month", bson!(2)),
        ("$dayOfMonth", bson!(29)),
        ("$dayOfWeek", bson!(7)),
        ("$dayOfYear", bson!(60)),
        ("$hour", bson!(12)),
        ("$minute", bson!(34)),
        ("$second", bson!(56)),
        ("$millisecond", bson!(789)),
        ("$week", bson!(8)),
        ("$isoWeek", bson!(9)),
        ("$isoWeekYear", bson!(2020_i64)),
        ("$isoDayOfWeek", bson!(6)),
    ] {
        check(bson!({ operator: (leap()) }), part.clone());
        check(bson!({ operator: [(leap())] }), part.clone());
        check(bson!({ operator: { "date": (leap()) } }), part);
        check(bson!({ operator: "$missing" }), Bson::Null);
        check_error(bson!({ operator: "x" }), 16_006);
    }
    check(bson!({ "$year": "$_id" }), bson!(2023));
    check(bson!({ "$year": { "$add": [(leap()), 0] } }), bson!(2020));
}

#[test]
fn zones_move_the_parts() {
    let hour = |zone: Bson| bson!({ "$hour": { "date": (leap()), "timezone": zone } });
    check(hour(bson!("+02:00")), bson!(14));
    check(hour(bson!("-0530")), bson!(7));
    check(hour(bson!("UTC")), bson!(12));
    check(hour(bson!("America/New_York")), bson!(7));
    check(hour(Bson::Null), Bson::Null);
    check_error(hour(bson!("Nowhere")), 40_485);
    check_error(hour(bson!("+2")), 40_485);
    check_error(hour(bson!(2)), 40_533);
    check_error(bson!({ "$hour": { "date": (leap()), "zone": 1 } }), 40_535);
    check_error(bson!({ "$hour": { "timezone": "UTC" } }), 40_539);
    check_error(bson!({ "$hour": [(leap()), 1] }), 40_536);
}

#[test]
fn dates_come_apart() {
    let time = bson!({ "hour": 12, "minute": 34, "second": 56, "millisecond": 789 });
    let with = |mut day: bson::Document| {
        day.extend(time.as_document().unwrap().clone());
        Bson::Document(day)
    };
    check(
        bson!({ "$dateToParts": { "date": (leap()) } }),
        with(bson::doc! { "year": 2020, "month": 2, "day": 29 }),
    );
    let iso = bson!({ "date": (leap()), "iso8601": true });
    check(
        bson!({ "$dateToParts": iso }),
        with(bson::doc! { "isoWeekYear": 2020, "isoWeek": 9, "isoDayOfWeek": 6 }),
    );
    check(bson!({ "$dateToParts": { "date": null } }), Bson::Null);
    check(bson!({ "$dateToParts": { "date": (leap()), "iso8601": null } }), Bson::Null);
    check_error(bson!({ "$dateToParts": 1 }), 40_524);
    check_error(bson!({ "$dateToParts": { "x": 1 } }), 40_520);
    check_error(bson!({ "$dateToParts": {} }), 40_522);
    check_error(bson!({ "$dateToParts": { "date": (leap()), "iso8601": 1 } }), 40_521);
    check_error(bson!({ "$dateToParts": { "date": "x" } }), 16_006);
}

#[test]
fn dates_are_put_together() {
    let from = |parts: Bson| bson!({ "$dateFromParts": parts });
    let parts = bson!({ "year": 2020, "month": 2, "day": 29, "hour": 12, "minute": 34, "second": 56, "millisecond": 789 });
    check(from(parts), leap());
    check(from(bson!({ "isoWeekYear": 2020, "isoWeek": 9, "isoDayOfWeek": 6 })), millis(1_582_934_400_000));
    check(from(bson!({ "year": 2020, "month": 14, "day": 0 })), millis(1_612_051_200_000));
    check(from(bson!({ "year": 2020, "hour": -1, "timezone": "+01:00" })), millis(1_577_829_600_000));
    check(from(bson!({ "year": 2020, "second": 90_061_i64 })), millis(1_577_926_861_000));
    check(from(bson!({ "year": 2020, "month": null })), Bson::Null);
    check_error(from(bson!(1)), 40_519);
    check_error(from(bson!({ "x": 1 })), 40_518);
    check_error(from(bson!({ "month": 1 })), 40_516);
    check_error(from(bson!({ "year": 1, "isoWeek": 1 })), 40_489);
    check_error(from(bson!({ "isoWeekYear": 1, "day": 1 })), 40_525);
    check_error(from(bson!({ "year": 0 })), 40_523);
    check_error(from(bson!({ "isoWeekYear": 10_000 })), 31_095);
    check_error(from(bson!({ "year": 2020, "day": 1.5 })), 40_515);
    check_error(from(bson!({ "year": 2020, "day": 40_000 })), 31_034);
    check_error(from(bson!({ "year": 2020, "second": (i64::MAX) })), 15);
}

#[test]
fn dates_are_written() {
    let write = |format: &str| bson!({ "$dateToString": { "date": (leap()), "format": format } });
    check(bson!({ "$dateToString": { "date": (leap()) } }), bson!("2020-02-29T12:34:56.789Z"));
    check(write("%Y-%m-%d %H:%M:%S.%L"), bson!("2020-02-29 12:34:56.789"));
    check(write("%j %w %u %U %V %G %%"), bson!("060 7 6 08 09 2020 %"));
    check(write("%b %B %z %Z"), bson!("Feb February +0000 0"));
    let zoned = bson!({ "date": (leap()), "timezone": "-04:30" });
    check(bson!({ "$dateToString": zoned }), bson!("2020-02-29T08:04:56.789"));
    let offset = bson!({ "date": (leap()), "timezone": "-04:30", "format": "%z %Z" });
    check(bson!({ "$dateToString": offset }), bson!("-0430 -270"));
    check(bson!({ "$dateToString": { "date": null, "onNull": "none" } }), bson!("none"));
    check(bson!({ "$dateToString": { "date": (leap()), "format": null } }), Bson::Null);
    check_error(bson!({ "$dateToString": 1 }), 18_629);
    check_error(bson!({ "$dateToString": { "x": 1 } }), 18_534);
    check_error(bson!({ "$dateToString": {} }), 18_628);
    check_error(bson!({ "$dateToString": { "date": (leap()), "format": 1 } }), 18_533);
    check_error(write("%"), 18_535);
    check_error(write("%q"), 18_536);
    check_error(bson!({ "$dateToString": { "date": (millis(i64::MAX)) } }), 18_537);
    check_error(bson!({ "$dateToString": { "date": 5 } }), 16_006);
}

#[test]
fn dates_are_read() {
    let read = |text: &str| bson!({ "$dateFromString": { "dateString": text } });
    for text in [
        "2020-02-29T12:34:56.789Z",
        "2020-02-29 12:34:56.789",
        "2020-02-29T14:34:56.789+02:00",
        "2020-02-29T07:34:56,7899-0500",
        "20200229T123456.789Z",
        "2020/02/29 12:34:56.789 UTC",
    ] {
        check(read(text), leap());
    }
    check(read("2020-02-29"), millis(1_582_934_400_000));
    check(read("2020-02"), millis(1_580_515_200_000));
    check(read("2020-02-29T12:34"), millis(1_582_979_640_000));
    check(read("2020-02-28T24:00:00Z"), millis(1_582_934_400_000));
    for text in [
        "",
        "2020",
        "2020-02-30",
        "2020-13-01",
        "2020-02-29T25:00",
        "2020-02-29x",
        "tomorrow",
        "2020-02-29T12",
    ] {
        check_error(read(text), 241);
    }
    let zoned =
        |text: &str| bson!({ "$dateFromString": { "dateString": text, "timezone": "Europe/Berlin" } });
    check(zoned("2020-02-29T13:34:56.789"), leap());
    check_error(zoned("2020-02-29T13:34:56.789Z"), 241);
    check(bson!({ "$dateFromString": { "dateString": null, "onNull": 1 } }), bson!(1));
    check(bson!({ "$dateFromString": { "dateString": 5, "onError": 2 } }), bson!(2));
    check(bson!({ "$dateFromString": { "dateString": "x", "onError": 2 } }), bson!(2));
    check_error(bson!({ "$dateFromString": { "dateString": 5 } }), 241);
    check_error(bson!({ "$dateFromString": 1 }), 40_540);
    check_error(bson!({ "$dateFromString": { "x": 1 } }), 40_541);
    check_error(bson!({ "$dateFromString": {} }), 40_542);
    check_error(bson!({ "$dateFromString": { "dateString": "x", "format": 1 } }), 40_684);
}

#[test]
fn dates_are_read_by_a_format() {
    let read =
        |text: &str, format: &str| bson!({ "$dateFromString": { "dateString": text, "format": format } });
    check(read("29.2.2020 12h34", "%d.%m.%Y %Hh%M"), millis(1_582_979_640_000));
    check(read("february 29 2020", "%B %d %Y"), millis(1_582_934_400_000));
    check(read("FEB 29 2020", "%b %d %Y"), millis(1_582_934_400_000));
    check(read("2020-W09-6", "%G-W%V-%u"), millis(1_582_934_400_000));
    check(read("2020 060", "%Y %j"), millis(1_582_934_400_000));
    check(read("100% 2020-02-29 +0100", "100%% %Y-%m-%d %z"), millis(1_582_930_800_000));
    check(read("2020-02-29 -60", "%Y-%m-%d %Z"), millis(1_582_938_000_000));
    check(read("2020-02-29 12:34:56.789", "%Y-%m-%d %H:%M:%S.%L"), leap());
    for (text, format) in [
        ("2020", "%Y"),
        ("2020-02-29 ", "%Y-%m-%d"),
        ("20-02-29", "%Y-%m-%d"),
        ("2020-W54-1", "%G-W%V-%u"),
        ("2020 367", "%Y %j"),
    ] {
        check_error(read(text, format), 241);
    }
    check_error(read("2020", "%"), 18_535);
    check_error(read("2020", "%U"), 18_536);
}

#[test]
fn units_are_added() {
    let add = |unit: &str, amount: i64| bson!({ "$dateAdd": { "startDate": (leap()), "unit": unit, "amount": amount } });
    check(add("year", 1), millis(1_614_515_696_789));
    check(add("quarter", -1), millis(1_575_030_896_789));
    check(add("month", 12), millis(1_614_515_696_789));
    check(add("week", 1), millis(LEAP + 604_800_000));
    check(add("day", -1), millis(LEAP - 86_400_000));
    check(add("hour", 2), millis(LEAP + 7_200_000));
    check(add("minute", 2), millis(LEAP + 120_000));
    check(add("second", 2), millis(LEAP + 2_000));
    check(add("millisecond", 2), millis(LEAP + 2));
    let subtract = bson!({ "startDate": (leap()), "unit": "day", "amount": 1 });
    check(bson!({ "$dateSubtract": subtract }), millis(LEAP - 86_400_000));
    // The night of 28 to 29 March 2020 lost an hour in Berlin.
    let night = |unit: &str, amount: i32| bson!({ "$dateAdd": { "startDate": (millis(1_585_396_800_000)), "unit": unit, "amount": amount, "timezone": "Europe/Berlin" } });
    check(night("day", 1), millis(1_585_396_800_000 + 23 * 3_600_000));
    check(night("hour", 24), millis(1_585_396_800_000 + 24 * 3_600_000));
}

#[test]
fn additions_are_checked() {
    let add = |start: Bson, unit: Bson, amount: Bson| bson!({ "$dateAdd": { "startDate": start, "unit": unit, "amount": amount } });
    check(add(Bson::Null, bson!("day"), bson!(1)), Bson::Null);
    check(add(leap(), Bson::Null, bson!(1)), Bson::Null);
    check(add(leap(), bson!("day"), Bson::Null), Bson::Null);
    check_error(bson!({ "$dateAdd": 1 }), 5_166_400);
    check_error(bson!({ "$dateAdd": { "x": 1 } }), 5_166_401);
    check_error(bson!({ "$dateAdd": { "startDate": 1 } }), 5_166_402);
    check_error(add(bson!("x"), bson!("day"), bson!(1)), 5_166_403);
    check_error(add(leap(), bson!("day"), bson!(1.5)), 5_166_405);
    check_error(add(leap(), bson!("day"), bson!(i64::MAX)), 5_166_406);
    check_error(add(leap(), bson!("year"), bson!(i64::MAX)), 5_166_406);
    check_error(add(leap(), bson!("month"), bson!(9_000_000_000_i64)), 5_166_406);
    check_error(add(leap(), bson!("days"), bson!(1)), 9);
    check_error(add(leap(), bson!(1), bson!(1)), 5_166_404);
    let subtract = bson!({ "startDate": (leap()), "unit": "day", "amount": (i64::MIN) });
    check_error(bson!({ "$dateSubtract": subtract }), 6_045_000);
}

#[test]
fn boundaries_between_dates_are_counted() {
    let diff = |start: i64, end: i64, unit: &str| bson!({ "$dateDiff": { "startDate": (millis(start)), "endDate": (millis(end)), "unit": unit } });
    let (old_year, new_year) = (1_577_836_799_999, 1_577_836_800_000);
    for unit in ["year", "quarter", "month", "day", "hour", "minute", "second", "millisecond"] {
        check(diff(old_year, new_year, unit), bson!(1_i64));
        check(diff(new_year, old_year, unit), bson!(-1_i64));
    }
    check(diff(old_year, new_year, "week"), bson!(0_i64));
    check(diff(LEAP, LEAP + 86_400_000, "week"), bson!(1_i64));
    let monday = bson!({ "startDate": (leap()), "endDate": (millis(LEAP + 86_400_000)), "unit": "week", "startOfWeek": "Mon" });
    check(bson!({ "$dateDiff": monday }), bson!(0_i64));
    let night = bson!({ "startDate": (millis(1_585_396_800_000)), "endDate": (millis(1_585_483_200_000)), "unit": "hour", "timezone": "Europe/Berlin" });
    check(bson!({ "$dateDiff": night }), bson!(24_i64));
    check_error(diff(i64::MIN, i64::MAX, "millisecond"), 5_166_308);
    check_error(bson!({ "$dateDiff": 1 }), 5_166_301);
    check_error(bson!({ "$dateDiff": { "x": 1 } }), 5_166_302);
    check_error(bson!({ "$dateDiff": { "endDate": 1, "unit": 1 } }), 5_166_303);
    check_error(bson!({ "$dateDiff": { "startDate": 1, "unit": 1 } }), 5_166_304);
    check_error(bson!({ "$dateDiff": { "startDate": 1, "endDate": 1 } }), 5_166_305);
    check_error(bson!({ "$dateDiff": { "startDate": 1, "endDate": (leap()), "unit": "day" } }), 5_166_307);
    let week = |start: Bson| bson!({ "$dateDiff": { "startDate": (leap()), "endDate": (leap()), "unit": "week", "startOfWeek": start } });
    check_error(week(bson!(1)), 5_439_015);
    check_error(week(bson!("x")), 5_439_016);
    check(week(Bson::Null), Bson::Null);
}

#[test]
fn dates_are_rounded_down() {
    let trunc =
        |unit: &str, size: i64| bson!({ "$dateTrunc": { "date": (leap()), "unit": unit, "binSize": size } });
    check(trunc("year", 1), millis(1_577_836_800_000));
    check(trunc("quarter", 1), millis(1_577_836_800_000));
    check(trunc("month", 1), millis(1_580_515_200_000));
    check(trunc("week", 1), millis(1_582_416_000_000));
    check(trunc("day", 1), millis(1_582_934_400_000));
    check(trunc("hour", 1), millis(1_582_977_600_000));
    check(trunc("hour", 5), millis(1_582_966_800_000));
    check(trunc("minute", 1), millis(1_582_979_640_000));
    check(trunc("second", 1), millis(1_582_979_696_000));
    check(trunc("millisecond", 10), millis(1_582_979_696_780));
    // 241 months after January 2000, of which 240 are whole bins.
    check(trunc("month", 5), millis(1_577_836_800_000));
    let zoned = bson!({ "date": (leap()), "unit": "day", "timezone": "America/New_York" });
    check(bson!({ "$dateTrunc": zoned }), millis(1_582_952_400_000));
}

#[test]
fn rounding_is_checked() {
    check(bson!({ "$dateTrunc": { "date": null, "unit": "day" } }), Bson::Null);
    check_error(bson!({ "$dateTrunc": 1 }), 5_439_007);
    check_error(bson!({ "$dateTrunc": { "x": 1 } }), 5_439_008);
    check_error(bson!({ "$dateTrunc": { "unit": 1 } }), 5_439_009);
    check_error(bson!({ "$dateTrunc": { "date": 1 } }), 5_439_010);
    let size = |size: Bson| bson!({ "$dateTrunc": { "date": (leap()), "unit": "day", "binSize": size } });
    check_error(size(bson!(0.5)), 5_439_017);
    check_error(size(bson!(0)), 5_439_018);
    check_error(size(bson!(i64::MAX)), 5_439_006);
    check_error(
        bson!({ "$dateTrunc": { "date": (leap()), "unit": "hour", "binSize": (i64::MAX) } }),
        5_439_001,
    );
}

#[test]
fn timestamps_have_two_parts() {
    let timestamp = Bson::Timestamp(bson::Timestamp { time: 7, increment: 3 });
    check(bson!({ "$tsSecond": (timestamp.clone()) }), bson!(7_i64));
    check(bson!({ "$tsIncrement": timestamp }), bson!(3_i64));
    check(bson!({ "$tsSecond": null }), Bson::Null);
    check_error(bson!({ "$tsSecond": 1 }), 5_687_301);
    check_error(bson!({ "$tsIncrement": 1 }), 5_687_302);
}
