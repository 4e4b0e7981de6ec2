//! The locks and atomics of the allocator, which a model checker can put in the place of the real ones.
//!
//! With `--cfg shuttle` every operation is a point at which the checker may switch threads; see
//! `tests/interleavings.rs`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

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
