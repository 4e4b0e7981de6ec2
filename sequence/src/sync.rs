//! The locks and atomics of the allocator, which a model checker can put in the place of the real ones.
//!
//! With `--cfg shuttle` every operation is a point at which the checker may switch threads; see
//! `tests/interleavings`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(shuttle))]
pub(crate) use std::cell::RefCell;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Something of each thread's own. A thread that ends leaves it to a later one.
#[cfg(not(shuttle))]
pub(crate) use thread_local::ThreadLocal as PerThread;

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

/// What [`PerThread`] keeps is shared in the checker's eyes, but nobody else comes while it is borrowed.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub(crate) struct RefCell<T>(std::sync::Mutex<T>);

#[cfg(shuttle)]
impl<T> RefCell<T> {
    pub(crate) fn borrow_mut(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.try_lock().expect("the value is of one thread")
    }
}

/// The checker's threads are all one to the system, so what each has of its own is found by the number that the checker
/// gave it. What a thread never asked for is not there: looking at it would only hide the switches that matter.
#[cfg(shuttle)]
pub(crate) struct PerThread<T>([std::sync::OnceLock<T>; THREADS_MAX]);

/// How many threads a scenario has at most.
#[cfg(shuttle)]
const THREADS_MAX: usize = 16;

#[cfg(shuttle)]
impl<T> Default for PerThread<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::sync::OnceLock::new()))
    }
}

#[cfg(shuttle)]
impl<T: Default> PerThread<T> {
    pub(crate) fn get_or_default(&self) -> &T {
        let number = usize::from(shuttle::thread::current().id());
        self.0.get(number).expect("a scenario has no more threads").get_or_init(T::default)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(std::sync::OnceLock::get)
    }
}
