//! Ratios, taken in turns.
//!
//! The machine is shared, so one side may meet a slow moment that the other does not. Both sides run in alternating
//! order, many rounds, and the figure is the median of the rounds' ratios.

use std::time::{Duration, Instant};

/// Rounds of a figure.
const ROUNDS: usize = 9;

/// How fast `ours` is against `theirs`: above 1 it is faster. Each closure runs one round and says how long its
/// measured part took.
pub fn speed_ratio(mut ours: impl FnMut() -> Duration, mut theirs: impl FnMut() -> Duration) -> f64 {
    let ratios = (0..ROUNDS).map(|round| {
        let (our_time, their_time) = if round % 2 == 0 {
            let our_time = ours();
            (our_time, theirs())
        } else {
            let their_time = theirs();
            (ours(), their_time)
        };
        their_time.as_secs_f64() / our_time.as_secs_f64()
    });
    median(ratios.collect())
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
