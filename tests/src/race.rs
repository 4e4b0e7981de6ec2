//! Threads that start together.

use std::sync::Barrier;
use std::thread;

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
