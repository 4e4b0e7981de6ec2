//! Ratios, measured in alternation.
//!
//! The machine is shared, so one side may meet a slow moment that the other does not. Both sides run in alternating
//! order, many rounds, and the figure is the median of the rounds' ratios.

use std::time::{Duration, Instant};

/// Rounds of a figure.
const ROUNDS: usize = 9;

/// The speed of `ours` against `theirs`: above 1 it is faster. Each closure runs one round and says how long its
/// measured part lasted.
pub fn speed_ratio(ours: impl FnMut() -> Duration, theirs: impl FnMut() -> Duration) -> f64 {
    speed_ratio_of(ROUNDS, ours, theirs)
}

/// The speed of `ours` against `theirs` in as many rounds as asked for, each of which is long.
pub fn speed_ratio_of(
    rounds: usize,
    mut ours: impl FnMut() -> Duration,
    mut theirs: impl FnMut() -> Duration,
) -> f64 {
    let mut ours_first = false;
    median_of(rounds, || {
        let (our_time, their_time) = in_changing_order(&mut ours_first, &mut ours, &mut theirs);
        their_time.as_secs_f64() / our_time.as_secs_f64()
    })
}

/// The speed of `ours` against `theirs` over many short turns: above 1 it is faster. The machine's slow moments are
/// longer than a turn, so both sides meet them. Making a turn is not measured.
pub fn speed_in_turns<T>(
    turns: impl Iterator<Item = T>,
    mut ours: impl FnMut(&T),
    mut theirs: impl FnMut(&T),
) -> f64 {
    let mut ours_first = false;
    let (mut our_time, mut their_time) = (Duration::ZERO, Duration::ZERO);
    for turn in turns {
        let (ours, theirs) =
            in_changing_order(&mut ours_first, || time(|| ours(&turn)), || time(|| theirs(&turn)));
        our_time += ours;
        their_time += theirs;
    }
    their_time.as_secs_f64() / our_time.as_secs_f64()
}

/// The median of what the rounds of a figure give.
pub fn median_of_rounds(round: impl FnMut() -> f64) -> f64 {
    median_of(ROUNDS, round)
}

/// The median of what `rounds` rounds give.
pub fn median_of(rounds: usize, mut round: impl FnMut() -> f64) -> f64 {
    median((0..rounds).map(|_| round()).collect())
}

/// The time that `work` needs.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs both sides, ours first every other time; ours comes first in what it gives.
fn in_changing_order<R>(
    ours_first: &mut bool,
    ours: impl FnOnce() -> R,
    theirs: impl FnOnce() -> R,
) -> (R, R) {
    *ours_first = !*ours_first;
    if *ours_first {
        let ours = ours();
        (ours, theirs())
    } else {
        let theirs = theirs();
        (ours(), theirs)
    }
}

/// Runs `work`, and all threads and processes that it starts, on one core, where the system allows that. For sides
/// of which never more than one thing goes on at a time: all that a second core adds is waking it up, which on a virtual
/// machine needs as long as the work, and never the same.
///
/// # Panics
/// If the system rejects.
pub fn on_one_core<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let allowed = sched_getaffinity(None).expect("a thread has cores");
        let first = (0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).expect("at least one");
        let mut only = CpuSet::new();
        only.set(first);
        sched_setaffinity(None, &only).expect("one of the allowed");
        let done = work();
        sched_setaffinity(None, &allowed).expect("those that were allowed");
        done
    }
    #[cfg(not(target_os = "linux"))]
    work()
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
