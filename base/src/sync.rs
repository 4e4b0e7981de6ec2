//! The locks and atomics that a store's threads meet at, which a model checker can replace.
//!
//! With the feature `shuttle` every operation on them is a point at which the checker may switch threads, and the checker's
//! threads are all the threads that there are: a store starts none of its own. Calls of RocksDB stay real, and each is
//! one step. See `engine/tests/interleavings`.
//!
//! No other file of this crate, the store and the engine names `parking_lot` or the locks of `crossbeam`: a thread of the checker that slept at a
//! real lock would stop all of them. Counters that decide nothing (of metrics, for example) are plain atomics.

use std::sync::atomic::Ordering;
use std::time::Duration;

use query::operation::{Interruption, OperationContext};

#[cfg(not(feature = "shuttle"))]
pub use crossbeam::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(feature = "shuttle")]
pub use checked_locks::{Mutex, MutexGuard, RwLock};
#[cfg(feature = "shuttle")]
pub use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(feature = "shuttle")]
pub use shuttle::sync::{
    RwLock as ShardedLock, RwLockReadGuard as ShardedLockReadGuard, RwLockWriteGuard as ShardedLockWriteGuard,
};

/// Changes a number in one step, unless `change` returns `None` for it. Returns the number before.
///
/// Not `fetch_update`: newer versions of Rust warn of it, and what replaces it is younger than the oldest one that is supported.
#[inline]
pub fn change(number: &AtomicU64, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let mut known = number.load(Ordering::Acquire);
    loop {
        match number.compare_exchange(known, change(known)?, Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) => return Some(before),
            Err(newer) => known = newer,
        }
    }
}

/// Subtracts from a number in one step, if it is not smaller. Returns whether it was done.
#[inline]
pub fn subtract(number: &AtomicU64, amount: u64) -> bool {
    change(number, |number| number.checked_sub(amount)).is_some()
}

/// Whether a store has threads of its own: the checker knows only those of a scenario.
pub const HAS_BACKGROUND: bool = cfg!(not(feature = "shuttle"));

/// Lets other threads go first, in a loop that waits for one of them.
pub fn yield_now() {
    #[cfg(not(feature = "shuttle"))]
    std::thread::yield_now();
    #[cfg(feature = "shuttle")]
    shuttle::thread::yield_now();
}

/// Waits, in a loop that waits for other threads.
pub fn sleep(duration: Duration) {
    #[cfg(not(feature = "shuttle"))]
    std::thread::sleep(duration);
    #[cfg(feature = "shuttle")]
    {
        // Time means nothing to the checker.
        let _ = duration;
        shuttle::thread::yield_now();
    }
}

/// Locks, unless that needs longer than `patience`.
pub fn try_lock_for<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    #[cfg(not(feature = "shuttle"))]
    return mutex.try_lock_for(patience);
    #[cfg(feature = "shuttle")]
    {
        // One more turn of the others represents the time.
        let held = mutex.try_lock();
        if held.is_none() {
            sleep(patience);
        }
        held
    }
}

/// Looks at locks that are about to be acquired in turn. They may be in no cache of the processor: here their lines are fetched side by
/// side, and later each would be waited for.
pub fn fetch<'m, T: 'm>(mutexes: impl Iterator<Item = &'m Mutex<T>>) {
    #[cfg(not(feature = "shuttle"))]
    std::hint::black_box(mutexes.filter(|mutex| mutex.is_locked()).count());
    #[cfg(feature = "shuttle")]
    let _ = mutexes;
}

/// The interval in which a waiting operation checks whether it must end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Locks, unless the operation must end before the lock is free.
pub fn lock_for<'a, T>(
    operation: &OperationContext,
    mutex: &'a Mutex<T>,
) -> Result<MutexGuard<'a, T>, Interruption> {
    wait_for(operation, || mutex.lock(), |patience| try_lock_for(mutex, patience))
}

/// Waits for what other threads hold, unless the operation must end before: by `wait` however long it lasts, or by `try_for`
/// again and again.
pub fn wait_for<T>(
    operation: &OperationContext,
    wait: impl FnOnce() -> T,
    try_for: impl Fn(Duration) -> Option<T>,
) -> Result<T, Interruption> {
    // Nothing can end it, so it need not wake up to look.
    if operation.is_unlimited() {
        return Ok(wait());
    }
    loop {
        if let Some(held) = try_for(LOOK_INTERVAL) {
            return Ok(held);
        }
        operation.look()?;
    }
}

/// A condition that is waited for by looking again: the checker's locks have none. Waking without a reason is allowed,
/// so callers look at what they wait for in a loop.
#[cfg(feature = "shuttle")]
#[derive(Debug, Default)]
pub struct Condvar;

#[cfg(feature = "shuttle")]
impl Condvar {
    /// Lets the others go first, without the lock.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        MutexGuard::unlocked(guard, shuttle::thread::yield_now);
    }

    /// The same: time means nothing to the checker.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        self.wait(guard);
    }

    /// Nothing: who waits looks again.
    pub fn notify_all(&self) {}
}
