//! `--watch`: what a server does, counted by itself and shown per second.

use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};

use crate::command::raw;
use crate::extended_json::{Mode, write_document};
use crate::failure::Failure;
use crate::figures::count;
use crate::grid::or_nothing;
use crate::output::{Written, print};
use crate::signals::Signals;
use crate::store::Store;

/// The interval of checks for a signal while nothing is done.
const PAUSE: Duration = Duration::from_millis(50);
/// After how many lines the names of the columns come again.
const LINES_A_HEAD: u64 = 20;
/// The width of a column. The longest name has as many letters.
const WIDTH: usize = 12;
/// The counters: the name in a line, and the path in `serverStatus`. MongoDB's own server lacks the last one.
const COUNTERS: [(&str, &[&str]); 15] = [
    ("insert", &["opcounters", "insert"]),
    ("query", &["opcounters", "query"]),
    ("update", &["opcounters", "update"]),
    ("delete", &["opcounters", "delete"]),
    ("getmore", &["opcounters", "getmore"]),
    ("command", &["opcounters", "command"]),
    ("committed", &["transactions", "totalCommitted"]),
    ("aborted", &["transactions", "totalAborted"]),
    ("inserted", &["metrics", "document", "inserted"]),
    ("returned", &["metrics", "document", "returned"]),
    ("updated", &["metrics", "document", "updated"]),
    ("deleted", &["metrics", "document", "deleted"]),
    ("bytesIn", &["network", "bytesIn"]),
    ("bytesOut", &["network", "bytesOut"]),
    ("bytesWritten", &["cairndb", "documents", "bytesWritten"]),
];

/// The counters at one moment.
struct Reading {
    at: Instant,
    counts: [Option<i64>; COUNTERS.len()],
    connections: Option<i64>,
}

/// Prints a line each time `seconds` have passed, until a signal comes or the reader of the lines is gone.
pub(super) fn watch(
    store: &dyn Store,
    seconds: u32,
    signals: &Signals,
    is_json: bool,
    lines: &mut u64,
) -> Result<(), Failure> {
    let pause = Duration::from_secs(seconds.into());
    let mut before = Reading::take(store)?;
    let mut due = before.at + pause;
    loop {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if signals.received().is_some() {
                return Ok(());
            }
            std::thread::sleep(left.min(PAUSE));
        }
        let now = Reading::take(store)?;
        let line = if is_json {
            json(&before, &now)?
        } else {
            let head = if lines.is_multiple_of(LINES_A_HEAD) { head() } else { String::new() };
            head + &text(&before, &now)
        };
        if print(line.as_bytes())? == Written::NotWanted {
            return Ok(());
        }
        *lines += 1;
        // From now on, if the server needed longer than a pause: lines that are late would say the same twice.
        due = (due + pause).max(now.at);
        before = now;
    }
}

impl Reading {
    fn take(store: &dyn Store) -> Result<Self, Failure> {
        let status = store.run("admin", raw(&doc! { "serverStatus": 1 })?)?;
        let counts = COUNTERS.map(|(_, path)| number(&status, path));
        let connections = number(&status, &["connections", "current"]);
        Ok(Self { at: Instant::now(), counts, connections })
    }

    /// The counters' changes since `before`, per second. `None` for what the server does not count.
    fn rates(&self, before: &Self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let pairs = self.counts.into_iter().zip(before.counts);
        COUNTERS.into_iter().zip(pairs).map(move |((name, _), (now, before))| {
            // A server that was started again counts from 0.
            let change = now.zip(before).map(|(now, before)| if now < before { now } else { now - before });
            #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
            let rate = change.map(|change| (change as f64 / seconds * 10.0).round() / 10.0);
            (name, rate)
        })
    }
}

fn number(status: &Document, path: &[&str]) -> Option<i64> {
    let (last, sections) = path.split_last()?;
    let mut section = status;
    for name in sections {
        section = section.get_document(name).ok()?;
    }
    let value = section.get(last)?;
    #[expect(clippy::cast_possible_truncation, reason = "a counter is whole")]
    // MongoDB's own server has doubles where a number became large.
    let large = value.as_f64().map(|number| number as i64);
    value.as_i64().or(value.as_i32().map(i64::from)).or(large)
}

fn head() -> String {
    line(COUNTERS.iter().map(|(name, _)| (*name).to_owned()).chain(["connections".to_owned()]))
}

fn text(before: &Reading, now: &Reading) -> String {
    let rates = now.rates(before).map(|(_, rate)| or_nothing(rate.map(figure)));
    line(rates.chain([or_nothing(now.connections)]))
}

fn figure(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is whole and not negative"
    )]
    let rate = rate.round() as u64;
    count(rate)
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut line = cells.map(|cell| format!("{cell:>WIDTH$}")).collect::<Vec<_>>().join(" ");
    line.push('\n');
    line
}

fn json(before: &Reading, now: &Reading) -> Result<String, Failure> {
    let seconds = (now.at.duration_since(before.at).as_secs_f64() * 1000.0).round() / 1000.0;
    let mut document = doc! { "seconds": seconds };
    for (name, rate) in now.rates(before) {
        if let Some(rate) = rate {
            document.insert(name, rate);
        }
    }
    if let Some(connections) = now.connections {
        document.insert("connections", connections);
    }
    let mut line = Vec::new();
    write_document(&mut line, &raw(&document)?, Mode::Relaxed)?;
    line.push(b'\n');
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_changes_a_second_and_a_new_server_counts_from_nothing() {
        let at = Instant::now();
        let mut before = Reading { at, counts: [Some(100); COUNTERS.len()], connections: Some(1) };
        before.counts[14] = None;
        let mut now = Reading {
            at: at + Duration::from_secs(4),
            counts: [Some(110); COUNTERS.len()],
            connections: None,
        };
        now.counts[1] = Some(7);
        let rates: Vec<_> = now.rates(&before).map(|(_, rate)| rate).collect();
        assert_eq!((rates[0], rates[1], rates[14]), (Some(2.5), Some(1.8), None));
        assert_eq!(text(&before, &now).trim().chars().next_back(), Some('-'));
        let line = json(&before, &now).expect("it is small");
        assert!(line.starts_with("{\"seconds\":4.0,\"insert\":2.5,"), "{line}");
        assert!(!line.contains("bytesWritten"), "{line}");
    }
}
