//! The locks and atomics of the allocator, which a model checker can put in the place of the real ones.
//!
//! With `--cfg shuttle` every operation is a point at which the checker may switch threads; see
//! `tests/interleavings.rs`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// How often a thread lets others run before it goes to sleep over a lock.
#[cfg(not(shuttle))]
const YIELDS: usize = 64;

/// Waits for a lock that is held for microseconds: for less than it takes to put a thread to sleep and to wake it.
/// Going to sleep at once would make every commit of a busy ordered sequence pay for both.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn lock_brief<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..YIELDS {
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
        std::thread::yield_now();
    }
    mutex.lock()
}

#[cfg(shuttle)]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

/// The checker's lock with the interface of the real one: nobody observes a poisoned lock.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(shuttle)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(shuttle)]
pub(crate) fn lock_brief<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
