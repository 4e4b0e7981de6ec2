//! The pace of long readings: how many bytes a second they read, and whether they go on at all.

use std::time::{Duration, Instant};

use base::error::Result;

/// The time that a reading sleeps before it checks again whether it is to end.
const NAP: Duration = Duration::from_millis(20);
/// The longest time that one piece is waited for, so that no time overflows.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of bytes between two checks, if the pace has no limit.
const BYTES_BETWEEN_LOOKS: u64 = 1 << 20;

/// The pace of one reading.
pub struct Pace<'a> {
    bytes_per_second: Option<u64>,
    /// The time at which the bytes that were read so far may have been read.
    due: Instant,
    looked_at: u64,
    read: u64,
    /// Fails if the reading is to end.
    look: &'a dyn Fn() -> Result<()>,
}

impl<'a> Pace<'a> {
    /// A pace of `bytes_per_second`, or none. `look` fails if the reading is to end.
    pub fn new(bytes_per_second: Option<u64>, look: &'a dyn Fn() -> Result<()>) -> Self {
        // A pace of 0 would never end; a byte a second is as slow as is asked for.
        let bytes_per_second = bytes_per_second.map(|bytes| bytes.max(1));
        Self { bytes_per_second, due: Instant::now(), looked_at: 0, read: 0, look }
    }

    /// Notes that `bytes` bytes are read now, and sleeps if that is too fast. Fails if the reading is to end.
    pub fn spend(&mut self, bytes: u64) -> Result<()> {
        self.read += bytes;
        if let Some(bytes_per_second) = self.bytes_per_second {
            // From now on, and not from the beginning: a pause is not made up for by reading faster.
            let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
            let needed = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.due = self.due.max(Instant::now()) + needed.min(SLEEP_MAX);
        }
        if self.read - self.looked_at >= BYTES_BETWEEN_LOOKS {
            self.looked_at = self.read;
            (self.look)()?;
        }
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            // A sleep is never shorter than the timer of the system, so short ones are joined.
            if left < Duration::from_millis(1) {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
            (self.look)()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::error::Error;

    use super::*;

    #[test]
    fn a_pace_is_kept() {
        let began = Instant::now();
        let mut pace = Pace::new(Some(1_000_000), &|| Ok(()));
        for _ in 0..20 {
            pace.spend(10_000).expect("it goes on");
        }
        assert!(began.elapsed() >= Duration::from_millis(190), "{:?}", began.elapsed());
    }

    #[test]
    fn a_reading_that_sleeps_ends_when_it_is_told_to() {
        let began = Instant::now();
        let end = || {
            let is_over = began.elapsed() > Duration::from_millis(50);
            if is_over { Err(Error::invalid_argument("enough")) } else { Ok(()) }
        };
        let mut pace = Pace::new(Some(0), &end);
        assert!(pace.spend(1_000_000).is_err());
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
