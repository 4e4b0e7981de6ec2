//! The checks of an operation's limits: about how long it has worked, at the cost of no clock besides those of the
//! checks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The times at which the context checked its limits.
#[derive(Default)]
pub(super) struct Looks {
    /// The time of the last look since work was resumed, in nanoseconds of `process_nanos`. It is 0 before the first one.
    last: AtomicU64,
    /// The time between looks, in nanoseconds.
    between: AtomicU64,
}

impl Looks {
    /// Notes that the context looks at its limits.
    pub(super) fn note(&self) {
        // Relaxed, as an operation works in one thread at a time.
        let now = process_nanos();
        let last = self.last.load(Ordering::Relaxed);
        if last > 0 {
            let between = self.between.load(Ordering::Relaxed).saturating_add(now.saturating_sub(last));
            self.between.store(between, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
    }

    /// Time from here on does not count as work.
    #[inline]
    pub(super) fn pause(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// The time between two looks without a pause between them.
    pub(super) fn between(&self) -> Duration {
        Duration::from_nanos(self.between.load(Ordering::Relaxed))
    }
}

/// The nanoseconds since this was asked first in the process, and one more, so that they are never 0.
fn process_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanos(START.get_or_init(Instant::now).elapsed()).saturating_add(1)
}

/// A time in nanoseconds, as far as they can be counted.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
