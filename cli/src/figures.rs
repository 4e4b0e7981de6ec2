//! Figures for people: how counts, sizes, times and rates look in all that the tool prints. The reports of `--json` have plain
//! numbers, and so have values of sequences, which are copied.

use std::time::Duration;

use indicatif::HumanCount;

/// The name of a counted thing, as one and as several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noun(pub(crate) &'static str, pub(crate) &'static str);

pub(crate) const COLLECTIONS: Noun = Noun("collection", "collections");
pub(crate) const DIFFERENCES: Noun = Noun("difference", "differences");
pub(crate) const DOCUMENTS: Noun = Noun("document", "documents");
pub(crate) const ENTRIES: Noun = Noun("index entry", "index entries");
pub(crate) const EVENTS: Noun = Noun("event", "events");
pub(crate) const FIELDS: Noun = Noun("auto-increment field", "auto-increment fields");
pub(crate) const FILES: Noun = Noun("file", "files");
pub(crate) const FINDINGS: Noun = Noun("finding", "findings");
pub(crate) const INDEXES: Noun = Noun("index", "indexes");
pub(crate) const LINES: Noun = Noun("line", "lines");
pub(crate) const OTHERS: Noun = Noun("other thing", "other things");
pub(crate) const PARTS: Noun = Noun("part", "parts");
pub(crate) const RECORDS: Noun = Noun("record", "records");
pub(crate) const REJECTS: Noun = Noun("reject", "rejects");
pub(crate) const SEQUENCES: Noun = Noun("sequence", "sequences");
pub(crate) const VIEWS: Noun = Noun("view", "views");

const BYTES: Noun = Noun("byte", "bytes");
/// Each a thousand times the one before, the first a thousand bytes.
const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A number with separators: `1,234`.
pub(crate) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A number of things: `1 document`, `1,234 documents`.
pub(crate) fn counted(number: u64, noun: Noun) -> String {
    let Noun(one, many) = noun;
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The past tense for a number of things, as `1 record was rejected`.
pub(crate) fn counted_were(number: u64, noun: Noun) -> String {
    format!("{} {}", counted(number, noun), were(number))
}

/// `was` or `were`.
pub(crate) fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// The counts of several kinds, without those that are 0.
pub(crate) fn list(counts: &[(u64, Noun)]) -> String {
    let there = counts.iter().filter(|(number, _)| *number > 0);
    there.map(|&(number, noun)| counted(number, noun)).collect::<Vec<_>>().join(", ")
}

/// A number of bytes: `215 bytes`, `12.3 MB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = 1_u128;
    for name in UNITS {
        unit *= 1000;
        // Rounded to a tenth; what comes to a thousand is one of the next unit.
        let tenths = (u128::from(bytes) * 10 + unit / 2) / unit;
        if bytes >= 1000 && tenths < 10_000 {
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    counted(bytes, BYTES)
}

/// A duration: `12 ms`, `1.2 s`, `2 min 5 s`, `3 h 20 min`.
pub(crate) fn time(elapsed: Duration) -> String {
    let milliseconds = elapsed.as_millis();
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    let tenths = (milliseconds + 50) / 100;
    if tenths < u128::from(MINUTE) * 10 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let seconds = elapsed.as_secs() + u64::from(elapsed.subsec_millis() >= 500);
    if seconds < HOUR {
        return format!("{} min {} s", seconds / MINUTE, seconds % MINUTE);
    }
    format!("{} h {} min", count(seconds / HOUR), seconds % HOUR / MINUTE)
}

/// A rate: `1,234 a second`.
pub(crate) fn rate(done: u64, elapsed: Duration) -> String {
    format!("{} a second", count(a_second(done, elapsed)))
}

/// A rate of bytes: `1.2 MB a second`.
pub(crate) fn rate_of_bytes(done: u64, elapsed: Duration) -> String {
    format!("{} a second", size(a_second(done, elapsed)))
}

/// Whole units a second.
fn a_second(done: u64, elapsed: Duration) -> u64 {
    let rate = u128::from(done) * 1000 / elapsed.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The end of a command's last line: the time, and the number of documents or records a second.
pub(crate) fn in_time(done: u64, elapsed: Duration) -> String {
    format!("in {}, {}", time(elapsed), rate(done, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        let all = [0, 1, 2, 1_234_567].map(|number| counted(number, ENTRIES));
        assert_eq!(all, ["0 index entries", "1 index entry", "2 index entries", "1,234,567 index entries"]);
        assert_eq!(counted_were(1, RECORDS), "1 record was");
        assert_eq!(counted_were(1000, RECORDS), "1,000 records were");
        assert_eq!(list(&[(1, COLLECTIONS), (0, VIEWS), (2, DOCUMENTS)]), "1 collection, 2 documents");
    }

    #[test]
    fn sizes_have_one_decimal_and_never_four_digits() {
        let sizes = [0, 1, 999, 1000, 1049, 1050, 999_949, 999_950, 12_345_678, u64::MAX].map(size);
        assert_eq!(
            sizes,
            [
                "0 bytes",
                "1 byte",
                "999 bytes",
                "1.0 kB",
                "1.0 kB",
                "1.1 kB",
                "999.9 kB",
                "1.0 MB",
                "12.3 MB",
                "18.4 EB"
            ]
        );
    }

    #[test]
    fn times_have_the_unit_that_is_read_at_a_glance() {
        let times = [0, 12, 999, 1000, 1_249, 59_949, 59_950, 125_000, 3_599_499, 3_599_500, 12_000_000]
            .map(|milliseconds| time(Duration::from_millis(milliseconds)));
        assert_eq!(
            times,
            [
                "0 ms",
                "12 ms",
                "999 ms",
                "1.0 s",
                "1.2 s",
                "59.9 s",
                "1 min 0 s",
                "2 min 5 s",
                "59 min 59 s",
                "1 h 0 min",
                "3 h 20 min"
            ]
        );
    }

    #[test]
    fn rates_are_whole() {
        assert_eq!(in_time(24_690, Duration::from_secs(20)), "in 20.0 s, 1,234 a second");
        assert_eq!(rate_of_bytes(24_690, Duration::from_secs(10)), "2.5 kB a second");
        assert_eq!(rate(5, Duration::ZERO), "5,000 a second");
    }
}
