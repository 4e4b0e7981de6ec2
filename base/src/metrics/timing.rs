//! Counters and histograms of times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::metrics::report::{Bucket, Times};

/// The number of buckets of a histogram. The last one but one ends at 2^26 microseconds, which is 67 seconds.
const BUCKETS: usize = 28;

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds, beside other threads.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds, where no other thread does. A load and a store cost a fraction of an atomic addition.
    #[inline]
    pub fn add_alone(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Ordering::Relaxed);
    }

    /// The number.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of what sequences have written.
#[derive(Debug, Default)]
pub struct SequenceMeters {
    /// Reserves that were written.
    pub reserves: Counter,
    /// Gaps that were written.
    pub gaps: Counter,
}

/// A histogram of times, while it is counted.
#[derive(Debug, Default)]
pub struct Timing {
    /// By the power of two of microseconds below which a time is.
    buckets: [Counter; BUCKETS],
    nanoseconds: Counter,
}

impl Timing {
    /// Counts a time, beside other threads.
    #[inline]
    pub fn record(&self, nanoseconds: u64) {
        self.bucket(nanoseconds).add(1);
        self.nanoseconds.add(nanoseconds);
    }

    /// Counts the time since `begin`, beside other threads.
    #[inline]
    pub fn record_since(&self, begin: Instant) {
        self.record(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a time, where no other thread does.
    #[inline]
    pub fn record_alone(&self, nanoseconds: u64) {
        self.bucket(nanoseconds).add_alone(1);
        self.nanoseconds.add_alone(nanoseconds);
    }

    #[inline]
    fn bucket(&self, nanoseconds: u64) -> &Counter {
        let [first, ..] = &self.buckets;
        // The last bucket has all that is longer.
        // 0 for less than a microsecond, 1 for less than 2, 2 for less than 4.
        let power = (u64::BITS - (nanoseconds / 1000).leading_zeros()) as usize;
        self.buckets.get(power.min(BUCKETS - 1)).unwrap_or(first)
    }

    /// Adds what was counted to `times`.
    pub fn add_to(&self, times: &mut Times) {
        for (power, counter) in self.buckets.iter().enumerate() {
            let count = counter.get();
            if count == 0 {
                continue;
            }
            // Counted from the buckets, so that both always agree.
            times.count += count;
            // Nothing is above the last bucket.
            let below = (power < BUCKETS - 1).then(|| 1 << power);
            match times.buckets.iter_mut().find(|bucket| bucket.below_micros == below) {
                Some(bucket) => bucket.count += count,
                None => times.buckets.push(Bucket { below_micros: below, count }),
            }
        }
        // `None`, the bucket without an end, comes last.
        times.buckets.sort_by_key(|bucket| bucket.below_micros.unwrap_or(u64::MAX));
        times.total_micros += self.nanoseconds.get() / 1000;
    }

    /// Returns what was counted.
    pub fn times(&self) -> Times {
        let mut times = Times::default();
        self.add_to(&mut times);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_the_bucket_that_they_are_below() {
        let timing = Timing::default();
        for nanoseconds in [0, 999, 1000, 1999, 2000, 3_999_999, u64::MAX / 2] {
            timing.record(nanoseconds);
            timing.record_alone(nanoseconds);
        }
        let times = timing.times();
        let buckets: Vec<_> =
            times.buckets.iter().map(|bucket| (bucket.below_micros, bucket.count)).collect();
        assert_eq!(buckets, [(Some(1), 4), (Some(2), 4), (Some(4), 2), (Some(4096), 2), (None, 2)]);
        assert_eq!(times.count, 14);
    }

    #[test]
    fn the_total_is_in_microseconds_and_keeps_the_parts_of_one() {
        let timing = Timing::default();
        for nanoseconds in [600, 600, 2_000_000] {
            timing.record(nanoseconds);
        }
        assert_eq!((timing.times().count, timing.times().total_micros), (3, 2001));
    }
}
