//! The same work on many things, several at once, until one fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::Failure;
use crate::restore::tally::Tally;

/// Does the work for each, `jobs` at once. The tally keeps the first failure, after which no more is begun.
pub(crate) fn each<T: Sync>(
    all: &[T],
    jobs: u16,
    tally: &Tally,
    is_over: &(dyn Fn() -> bool + Sync),
    work: &(dyn Fn(&T) -> Result<(), Failure> + Sync),
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let run = || {
        while !is_over() && !tally.is_failed() {
            let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(failure) = work(one) {
                tally.fail(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(run);
        }
        run();
    });
    tally.result()
}
