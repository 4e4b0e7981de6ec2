//! How much of the log of changes there is: its bytes, in segments of which the oldest ones go.

use std::collections::VecDeque;
use std::time::Duration;

use crate::options::ChangeLogging;

/// Into how many segments the log is divided, by its bytes or by its age.
const SEGMENTS: u64 = 32;

/// How long events are kept, and how many bytes they may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    pub(crate) age: Duration,
    pub(crate) bytes: u64,
    /// The collections whose changes are logged.
    pub(crate) logging: ChangeLogging,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { age: Duration::from_secs(86_400), bytes: 1 << 30, logging: ChangeLogging::default() }
    }
}

/// The bytes of the log, as far as they are known.
#[derive(Default)]
pub(super) struct Kept {
    /// Oldest first.
    pub(super) segments: VecDeque<Segment>,
    pub(super) bytes: u64,
    /// Whether the events of earlier lives of the store are among them.
    pub(super) is_counted: bool,
}

/// The events of earlier lives of the store, as far as they are counted.
#[derive(Default)]
pub(super) struct Counting {
    /// The key from which on they are not.
    pub(super) from: Vec<u8>,
    pub(super) earlier: Kept,
}

/// Events that are next to each other, more or less: the last ones of a segment may come after the first ones of the next.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    first: u64,
    last: u64,
    bytes: u64,
}

impl Segment {
    /// The position of its first event.
    pub(super) fn first(&self) -> u64 {
        self.first
    }
}

impl Kept {
    /// Notes the events of a commit.
    pub(super) fn add(&mut self, position: u64, bytes: u64, limits: LogLimits) {
        self.bytes += bytes;
        let is_full = |segment: &Segment| {
            let seconds = (position >> 32).saturating_sub(segment.first >> 32);
            segment.bytes >= limits.bytes / SEGMENTS || seconds > limits.age.as_secs() / SEGMENTS
        };
        match self.segments.back_mut().filter(|newest| !is_full(newest)) {
            Some(newest) => {
                newest.last = newest.last.max(position);
                newest.bytes += bytes;
            }
            None => self.segments.push_back(Segment { first: position, last: position, bytes }),
        }
    }

    /// Removes the segments that are too old at a position, or too much, as far as no writer is still at work on one: up to `watermark`. Returns the
    /// last position of them.
    pub(super) fn take_old(&mut self, now: u64, watermark: u64, limits: LogLimits) -> Option<u64> {
        let oldest = now.saturating_sub(limits.age.as_secs().min(u64::from(u32::MAX)) << 32);
        let mut through = None;
        while let Some(segment) = self.segments.front()
            && segment.last <= watermark
            && (segment.last < oldest || self.bytes > limits.bytes)
        {
            self.bytes = self.bytes.saturating_sub(segment.bytes);
            through = through.max(Some(segment.last));
            self.segments.pop_front();
        }
        through
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LogLimits =
        LogLimits { age: Duration::from_secs(320), bytes: 3200, logging: ChangeLogging::Watched };

    #[test]
    fn segments_go_by_their_bytes_and_their_age() {
        let mut kept = Kept::default();
        for second in 0..100_u64 {
            kept.add(second << 32, 50, LIMITS);
        }
        // Not what a writer may still be below.
        assert_eq!((kept.bytes, kept.take_old(100 << 32, 0, LIMITS)), (5000, None));
        assert_eq!((kept.bytes, kept.take_old(100 << 32, u64::MAX, LIMITS)), (5000, Some(35 << 32)));
        assert!(kept.bytes <= LIMITS.bytes);
        assert_eq!(kept.take_old(100 << 32, u64::MAX, LIMITS), None);
        // Those of the first fifty seconds are too old then.
        assert_eq!(kept.take_old(370 << 32, u64::MAX, LIMITS), Some(49 << 32));
        assert_eq!(kept.take_old(1000 << 32, u64::MAX, LIMITS), Some(99 << 32));
        assert_eq!((kept.bytes, kept.segments.len()), (0, 0));
    }
}
