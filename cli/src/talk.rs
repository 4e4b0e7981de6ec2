//! The output of a command besides its data: words and progress on standard error, and the report.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, RawDocumentBuf};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tracing_subscriber::filter::LevelFilter;

use crate::extended_json::{Mode, write_document};
use crate::failure::Failure;
use crate::figures;
use crate::log;
use crate::output::print_line;
use crate::plain::{json_line, plain};

/// Between two lines of plain progress.
const PLAIN_PAUSE: Duration = Duration::from_secs(5);
/// The limit of a report's warnings: those about documents end after a hundred themselves.
const HELD_MAX: usize = 200;

/// The amount and the form of a command's messages.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reporting")]
pub(crate) struct Talk {
    /// Print the report as one line of JSON: on standard output, or on standard error if documents go to
    /// standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell errors only.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Tell which database commands are run.
    #[arg(short, long)]
    verbose: bool,
    /// The form of progress: a bar on a terminal, or one line every five seconds.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: Shown,
    /// The level of the engine's and the driver's log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "off")]
    log_level: LevelFilter,
    /// Warnings that wait for the report.
    #[arg(skip)]
    held: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// A bar on a terminal, otherwise nothing before the end.
    Auto,
    /// One line every five seconds.
    Plain,
}

impl Talk {
    pub(crate) fn start_log(&self) {
        log::start(self.log_level);
    }

    /// A line for people.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet && !self.json {
            write_line(&mut std::io::stderr(), line);
        }
    }

    /// A line that must be seen, of a command whose report may go to standard error: with `--json` the report has it, because
    /// nothing else may be there.
    pub(crate) fn warn(&self, line: &str) {
        if !self.json {
            return warn(line);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() < HELD_MAX {
            held.push(line.to_owned());
        }
    }

    /// A line for people who want details.
    pub(crate) fn detail(&self, line: &str) {
        if self.verbose && !self.json {
            write_line(&mut std::io::stderr(), line);
        }
    }

    /// Shows how many of `total` documents are done.
    pub(crate) fn progress(&self, total: Option<u64>) -> Progress {
        self.progress_of(total, Unit::Documents)
    }

    /// Shows how many of `total` units are done.
    pub(crate) fn progress_of(&self, total: Option<u64>, unit: Unit) -> Progress {
        let started = Instant::now();
        let is_bar =
            self.progress == Shown::Auto && !self.json && !self.quiet && std::io::stderr().is_terminal();
        let bar = is_bar.then(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            let template =
                if total.is_some() { "{msg}{wide_bar} {reached}" } else { "{msg}{spinner} {reached}" };
            // The template is a constant; if it were wrong, the bar would only look different.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.with_key(
                "reached",
                move |state: &ProgressState, out: &mut dyn fmt::Write| {
                    // A line that cannot be drawn is drawn again a moment later.
                    let _ = out.write_str(&unit.reached(state.pos(), total, state.elapsed()));
                },
            ));
            bar
        });
        let plain = (self.progress == Shown::Plain && !self.quiet && !self.json).then_some(started);
        Progress { bar, plain, total, started, unit }
    }

    /// Prints the line of JSON, if it was asked for. One that cannot be written is a failure of the command, unless it has
    /// another.
    pub(crate) fn report(&self, report: &mut Report<'_>, is_output_taken: bool) {
        if !self.json {
            return;
        }
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if !is_output_taken {
            for line in &held {
                warn(line);
            }
        }
        if !held.is_empty() {
            report.found.push(("warnings", held.into_iter().map(Bson::String).collect()));
        }
        let line = report.line();
        if is_output_taken {
            write_line(&mut std::io::stderr(), &line);
            if let Some(failure) = &mut report.failure {
                failure.is_told = true;
            }
        } else if let Err(failure) = print_line(&line) {
            report.failure.get_or_insert(failure);
        }
    }
}

/// Prints a line that must be seen, whatever the options are.
pub(crate) fn warn(line: &str) {
    write_line(&mut std::io::stderr(), &format!("cairn: {line}"));
}

/// Prints a line for people, mostly to standard error. There is no other place to report an error of it, so errors are left alone.
pub(crate) fn write_line(to: &mut dyn Write, line: &str) {
    let _ = writeln!(to, "{}", plain(line));
}

/// The unit of a command's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Documents,
    Entries,
    Bytes,
}

impl Unit {
    /// The progress of a command, with the rate, and with the time left if the total is known.
    fn reached(self, done: u64, total: Option<u64>, elapsed: Duration) -> String {
        let number = match self {
            Self::Documents | Self::Entries => figures::count,
            Self::Bytes => figures::size,
        };
        let mut told = number(done);
        if let Some(total) = total {
            told = format!("{told} of {}", number(total));
        }
        let (noun, rate) = match self {
            Self::Documents => (" documents", figures::rate(done, elapsed)),
            Self::Entries => (" index entries", figures::rate(done, elapsed)),
            Self::Bytes => ("", figures::rate_of_bytes(done, elapsed)),
        };
        let left = total.and_then(|total| left(done, total, elapsed));
        let left = left.map(|left| format!(", {} left", figures::time(left))).unwrap_or_default();
        format!("{told}{noun}, {rate}{left}")
    }
}

/// The work that is done so far, of a total.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// The time of the last plain line.
    plain: Option<Instant>,
    total: Option<u64>,
    started: Instant,
    unit: Unit,
}

impl Progress {
    pub(crate) fn set(&mut self, done: u64) {
        self.set_in("", done);
    }

    /// Sets the work that is done so far, and its place: a collection, or nothing.
    fn set_in(&mut self, place: &str, done: u64) {
        let before = if place.is_empty() { String::new() } else { format!("{}: ", plain(place)) };
        if let Some(bar) = &self.bar {
            bar.set_message(before.clone());
            bar.set_position(done);
        }
        if self.plain.is_some_and(|last| last.elapsed() >= PLAIN_PAUSE) {
            self.plain = Some(Instant::now());
            let reached = self.unit.reached(done, self.total, self.started.elapsed());
            write_line(&mut std::io::stderr(), &format!("{before}{reached}"));
        }
    }

    /// Removes the bar; the command's last line follows.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of phases that follow each other.
pub(crate) struct Phases<'a, P> {
    talk: &'a Talk,
    current: Option<(P, Progress)>,
}

/// The progress of a phase. A `total` of 0 is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached<'a> {
    /// The collection that is worked on, if the phase goes through them, or nothing.
    pub(crate) place: &'a str,
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) unit: Unit,
}

impl<'a, P: PartialEq> Phases<'a, P> {
    pub(crate) fn of(talk: &'a Talk) -> Self {
        Self { talk, current: None }
    }

    /// Shows how far a phase is. The one before has ended.
    pub(crate) fn show(&mut self, phase: P, reached: Reached<'_>) {
        if self.current.as_ref().is_none_or(|(current, _)| *current != phase) {
            self.finish();
            let total = Some(reached.total).filter(|total| *total > 0);
            self.current = Some((phase, self.talk.progress_of(total, reached.unit)));
        }
        if let Some((_, progress)) = &mut self.current {
            progress.set_in(reached.place, reached.done);
        }
    }

    /// Removes the bar; the command's last line follows.
    pub(crate) fn finish(&mut self) {
        if let Some((_, progress)) = self.current.take() {
            progress.finish();
        }
    }
}

/// The time that the rest needs at the rate until now, in whole seconds, rounded up. Returns `None` if there is no
/// rate yet.
fn left(done: u64, total: u64, elapsed: Duration) -> Option<Duration> {
    let rest = u128::from(total.saturating_sub(done));
    let milliseconds = (elapsed.as_millis() * rest).checked_div(u128::from(done))?;
    Some(Duration::from_secs(u64::try_from(milliseconds.div_ceil(1000)).unwrap_or(u64::MAX)))
}

/// The report of a command, which `--json` prints.
pub(crate) struct Report<'a> {
    pub(crate) command: &'a str,
    pub(crate) elapsed: Duration,
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// Texts: names of files that were made, and the like.
    pub(crate) names: Vec<(&'static str, String)>,
    /// The findings: lists, or documents.
    pub(crate) found: Vec<(&'static str, Bson)>,
    pub(crate) failure: Option<Failure>,
}

impl Report<'_> {
    /// The report as one line of JSON.
    pub(crate) fn line(&self) -> String {
        let mut document = Document::new();
        document.insert("command", self.command);
        document.insert("ok", self.failure.is_none());
        document.insert("elapsedMs", i64::try_from(self.elapsed.as_millis()).unwrap_or(i64::MAX));
        for &(name, count) in &self.counts {
            document.insert(name, i64::try_from(count).unwrap_or(i64::MAX));
        }
        for (name, file) in &self.names {
            document.insert(*name, file.as_str());
        }
        for (name, found) in &self.found {
            document.insert(*name, found.clone());
        }
        if self.failure.as_ref().is_some_and(|failure| failure.exit.is_by_signal()) {
            document.insert("interrupted", true);
        }
        if let Some(failure) = &self.failure {
            let mut error = Document::new();
            error.insert("kind", failure.exit.kind());
            error.insert("message", failure.message.as_str());
            if let Some(code) = failure.code {
                error.insert("code", code);
            }
            if let Some(line) = failure.line {
                error.insert("line", i64::try_from(line).unwrap_or(i64::MAX));
            }
            document.insert("error", error);
        }
        let mut line = Vec::new();
        // A report has texts, numbers and no deep nesting, so that it is always written.
        if let Ok(raw) = RawDocumentBuf::try_from(&document) {
            let _ = write_document(&mut line, &raw, Mode::Relaxed);
        }
        json_line(&String::from_utf8_lossy(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        let seconds = Duration::from_secs(10);
        assert_eq!(left(0, 100, seconds), None);
        assert_eq!(left(25, 100, seconds), Some(Duration::from_secs(30)));
        assert_eq!(left(99, 100, seconds), Some(Duration::from_secs(1)));
        // An estimate may be too small.
        assert_eq!(left(120, 100, seconds), Some(Duration::ZERO));
        let told = Unit::Documents.reached(2500, Some(10_000), seconds);
        assert_eq!(told, "2,500 of 10,000 documents, 250 a second, 30.0 s left");
        assert_eq!(Unit::Bytes.reached(25_000, None, seconds), "25.0 kB, 2.5 kB a second");
    }
}
