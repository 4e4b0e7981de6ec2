//! The locks and atomics of the allocator, which a model checker can replace.
//!
//! With the feature `shuttle` every operation is a point at which the checker may switch threads; see
//! `tests/interleavings`.

use std::time::Instant;

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::cell::RefCell;

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// A value for each thread. The value of a thread that ended goes to a later thread.
#[cfg(not(feature = "shuttle"))]
pub(crate) use thread_local::ThreadLocal as PerThread;

/// The number of times that a thread lets other threads run before it sleeps until a lock is free.
#[cfg(not(feature = "shuttle"))]
const YIELDS: usize = 64;

/// Tries to take a lock that is held for microseconds, which is less than the time needed to put a thread to sleep and wake it. With
/// an immediate sleep, every commit of a busy ordered sequence would pay for both. Returns `false` if it is held for longer.
#[cfg(not(feature = "shuttle"))]
#[inline]
pub(crate) fn lock_brief_by(take: impl Fn() -> bool) -> bool {
    // Yielding rather than spinning: with fewer processors than writers, the holder must get to run.
    for _ in 0..YIELDS {
        if take() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Sleeps until the condition is notified, without the lock. Fails with the lock if the time is over by then.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn sleep_until<'a, T>(
    condition: &Condvar,
    mut guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> Result<MutexGuard<'a, T>, MutexGuard<'a, T>> {
    match until {
        None => condition.wait(&mut guard),
        Some(until) if Instant::now() >= until => return Err(guard),
        Some(until) => {
            let _ = condition.wait_until(&mut guard, until);
        }
    }
    Ok(guard)
}

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Condvar, MutexGuard};

/// The checker's lock with the interface of the real one, which knows no poisoning.
#[cfg(feature = "shuttle")]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(feature = "shuttle")]
pub(crate) fn lock_brief_by(take: impl Fn() -> bool) -> bool {
    take()
}

/// Time means nothing to the checker: it waits until the condition is notified.
#[cfg(feature = "shuttle")]
#[expect(clippy::unnecessary_wraps, reason = "the real one may give up")]
pub(crate) fn sleep_until<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    _: Option<Instant>,
) -> Result<MutexGuard<'a, T>, MutexGuard<'a, T>> {
    Ok(condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// A cell for values in [`PerThread`]. The checker requires values that threads can share, but only one
/// thread uses each.
#[cfg(feature = "shuttle")]
#[derive(Debug, Default)]
pub(crate) struct RefCell<T>(std::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> RefCell<T> {
    pub(crate) fn borrow_mut(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.try_lock().expect("only one thread uses the value")
    }
}

/// The checker runs all its threads in one thread of the system, so values are found by the number that the
/// checker gave each. Threads that never asked for a value have none: visiting it would add switches that
/// matter to no test.
#[cfg(feature = "shuttle")]
pub(crate) struct PerThread<T>([std::sync::OnceLock<T>; THREADS_MAX]);

/// The largest number of threads in a scenario.
#[cfg(feature = "shuttle")]
const THREADS_MAX: usize = 16;

#[cfg(feature = "shuttle")]
impl<T> Default for PerThread<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::sync::OnceLock::new()))
    }
}

#[cfg(feature = "shuttle")]
impl<T: Default> PerThread<T> {
    pub(crate) fn get_or_default(&self) -> &T {
        let number = usize::from(shuttle::thread::current().id());
        self.0.get(number).expect("a scenario has no more threads").get_or_init(T::default)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(std::sync::OnceLock::get)
    }
}
