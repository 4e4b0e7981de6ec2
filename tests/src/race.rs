//! Threads that start together, threads that share out work, and waiting for the engine's own threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything in the background lasts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the work for each racer on a thread of its own, all from the same moment on; what each gave, in the racers'
/// order.
pub fn race<N: Send, R: Send>(racers: impl IntoIterator<Item = N>, work: impl Fn(N) -> R + Sync) -> Vec<R> {
    let racers: Vec<N> = racers.into_iter().collect();
    let start = Barrier::new(racers.len());
    thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let run = |racer| {
            scope.spawn(move || {
                start.wait();
                work(racer)
            })
        };
        let threads: Vec<_> = racers.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect()
    })
}

/// A flag that is set when this is dropped: also by a panic, whose scope would otherwise wait without end for threads that go on
/// until it is set.
#[must_use]
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The number of threads that share out work: a suite may use the machine, and others run beside it.
const LANES: u64 = 2;

/// Does the pieces of work on two threads, and returns what came of each, in no order.
pub fn on_lanes<R: Send>(pieces: u64, work_on: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let work_on_lane =
        |lane| -> Vec<R> { (0..pieces).filter(|piece| piece % LANES == lane).map(&work_on).collect() };
    thread::scope(|scope| {
        let work_on_lane = &work_on_lane;
        let lanes: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || work_on_lane(lane))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("the lane found no fault")).collect()
    })
}

/// Waits until something that is done in the background has led to this.
#[track_caller]
pub fn wait_until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "the background does nothing");
        pause();
    }
}

/// Lets the processor to other threads for a moment, before something that they do is looked at again. A look after the other
/// would use the time of what is waited for.
pub fn pause() {
    thread::park_timeout(Duration::from_millis(1));
}
