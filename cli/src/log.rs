//! The log of the engine, the server and the driver, on standard error.
//!
//! Logging never hurts what is logged: a line that cannot be written, because the disk is full or the pipe's other end was
//! closed, is lost and counted, and an event is one line whatever a client has called its collections.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::{fmt, io};

use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatFields, debug_fn};

use crate::plain::plain;

/// The number of this process's lines that could not be written.
static LOST: LazyLock<Arc<AtomicU64>> = LazyLock::new(Arc::default);

/// Logs what is at least as important as the level.
pub(crate) fn start(level: LevelFilter) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Lines { to: io::stderr(), lost: &LOST })
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields())
        // Its own words about a writer that fails go to the same place, where they end the thread by a panic.
        .log_internal_errors(false)
        .init();
}

/// The number of lines that could not be written, also those to come.
pub(crate) fn lost() -> Arc<AtomicU64> {
    Arc::clone(&LOST)
}

/// The fields of an event on one line: a name or an error may have what ends a line, or is a command to a terminal.
fn fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(|to, field, value: &dyn fmt::Debug| {
        let value = plain(&format!("{value:?}"));
        if field.name() == "message" { write!(to, "{value}") } else { write!(to, "{}={value}", field.name()) }
    })
    .delimited(" ")
}

/// Accepts every line, and counts those that it cannot write.
struct Lines<'a, W> {
    to: W,
    lost: &'a AtomicU64,
}

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // An event is given as a whole, so what is counted are lines.
        if self.to.write_all(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.to.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// A log that is kept, or that accepts nothing.
    #[derive(Clone, Default)]
    struct Kept {
        lines: Arc<Mutex<Vec<u8>>>,
        is_full: bool,
        lost: Arc<AtomicU64>,
    }

    impl Write for &Kept {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Lines<'a, &'a Kept>;

        fn make_writer(&'a self) -> Self::Writer {
            Lines { to: self, lost: &self.lost }
        }
    }

    fn logged(kept: &Kept, log: impl FnOnce()) -> String {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(kept.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .fmt_fields(fields())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(kept.lines.lock().expect("no panic").clone()).expect("text")
    }

    /// A collection with a line feed in its name made lines of its own, in which anything could stand.
    #[test]
    fn an_event_is_one_line_whatever_its_fields_say() {
        let name = "a\n2026-11-25T00:00:00Z  INFO logged in user=\"root\"\u{1b}[2J";
        let lines = logged(&Kept::default(), || {
            tracing::warn!(namespace = %name, kind = name, count = 3, "slow: {name}");
        });
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(!lines.contains('\u{1b}'), "{lines}");
        assert!(lines.contains("slow: a\\n2026") && lines.contains("namespace=a\\n2026"), "{lines}");
        assert!(lines.ends_with("count=3\n"), "{lines}");
    }

    /// The subscriber reported a writer that failed on the same standard error, which is a panic.
    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_hurts_nobody() {
        let kept = Kept { is_full: true, ..Kept::default() };
        let lines = logged(&kept, || (0..3).for_each(|number| tracing::warn!(number, "lost")));
        assert_eq!((lines.as_str(), kept.lost.load(Ordering::Relaxed)), ("", 3));
    }
}
