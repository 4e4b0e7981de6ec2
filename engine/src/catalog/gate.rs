//! The gate of a collection: writers pass it together, and a change of the collection alone.
//!
//! Who wants to be alone says so first. Writers that come then wait until it is done, and a write to many documents leaves the gate
//! between two of them. Every wait looks at its operation: a limit of time holds at the gate too.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use base::lock_order::{self, Held, Place};
use base::sync::{
    self, AtomicUsize, Condvar, Mutex, ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard,
};
use query::operation::{Interruption, OperationContext};

/// The pause between two checks whether the writers have left, at first and at most. Most of them need microseconds.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// The pause of a writer between two checks of its operation.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Gate<T> {
    /// The value that guides those that pass the gate.
    lock: ShardedLock<T>,
    /// The number of those that are alone, or want to be.
    wanted: AtomicUsize,
    /// The lock that writers wait with until none is.
    turns: Mutex<()>,
    left: Condvar,
}

/// Passes the gate together with other writers.
#[must_use]
pub(crate) struct Shared<'a, T> {
    held: ShardedLockReadGuard<'a, T>,
    _place: Held,
}

/// Is in the gate alone.
#[must_use]
pub(crate) struct Alone<'a, T> {
    // Dropped before the wish, so that writers who are woken find the gate open.
    held: ShardedLockWriteGuard<'a, T>,
    _place: Held,
    _wish: Wish<'a, T>,
}

/// Keeps new writers out.
struct Wish<'a, T> {
    gate: &'a Gate<T>,
}

impl<T> Gate<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            lock: ShardedLock::new(value),
            wanted: AtomicUsize::new(0),
            turns: Mutex::new(()),
            left: Condvar::default(),
        }
    }

    /// Enters together with others.
    #[inline]
    pub(crate) fn enter(&self, operation: &OperationContext) -> Result<Shared<'_, T>, Interruption> {
        let place = lock_order::take(Place::Collection);
        let held = if self.is_wanted_alone() { None } else { self.try_enter() };
        let held = held.map_or_else(|| self.wait_to_enter(operation), Ok)?;
        Ok(Shared { held, _place: place })
    }

    /// Enters together with others if nothing is to be waited for.
    pub(crate) fn try_to_enter(&self) -> Option<Shared<'_, T>> {
        if self.is_wanted_alone() {
            return None;
        }
        let place = lock_order::take(Place::Collection);
        self.try_enter().map(|held| Shared { held, _place: place })
    }

    #[cold]
    fn wait_to_enter(
        &self,
        operation: &OperationContext,
    ) -> Result<ShardedLockReadGuard<'_, T>, Interruption> {
        loop {
            self.wait_for_turn(operation)?;
            if let Some(held) = self.try_enter() {
                return Ok(held);
            }
        }
    }

    /// Waits until none is alone, or wants to be.
    fn wait_for_turn(&self, operation: &OperationContext) -> Result<(), Interruption> {
        let mut turns = self.turns.lock();
        while self.is_wanted_alone() {
            if operation.is_unlimited() {
                self.left.wait(&mut turns);
            } else {
                operation.look()?;
                self.left.wait_for(&mut turns, LOOK_INTERVAL);
            }
        }
        Ok(())
    }

    /// Enters alone. New writers wait from now on, and those that are in the gate are waited for.
    pub(crate) fn enter_alone(&self, operation: &OperationContext) -> Result<Alone<'_, T>, Interruption> {
        let place = lock_order::take(Place::Collection);
        self.wanted.fetch_add(1, Ordering::AcqRel);
        let wish = Wish { gate: self };
        let mut pause = PAUSE;
        loop {
            // A panic in another thread leaves nothing half done: the value is replaced as a whole.
            let held = match self.lock.try_write() {
                Ok(held) => Some(held),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(held) = held {
                return Ok(Alone { held, _place: place, _wish: wish });
            }
            operation.look()?;
            sync::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Whether somebody is alone in the gate, or wants to be.
    #[inline]
    pub(crate) fn is_wanted_alone(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > 0
    }

    #[inline]
    fn try_enter(&self) -> Option<ShardedLockReadGuard<'_, T>> {
        match self.lock.try_read() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Drop for Wish<'_, T> {
    fn drop(&mut self) {
        self.gate.wanted.fetch_sub(1, Ordering::AcqRel);
        // Under the lock: a writer that has looked is woken only once it waits.
        let _turns = self.gate.turns.lock();
        self.gate.left.notify_all();
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for Alone<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use query::operation::Allowance;

    use super::*;

    fn within(time: Duration) -> OperationContext {
        OperationContext::new(Allowance { time: Some(time), ..Allowance::default() })
    }

    /// A writer waited for what was alone, and what wanted to be alone for writers, whatever their limits of time were.
    #[test]
    fn every_wait_ends_with_its_operation() {
        let (gate, short) = (Gate::new(7), within(Duration::from_millis(5)));
        let unlimited = OperationContext::default();
        let inside = gate.enter(&unlimited).expect("free");
        assert!(gate.enter_alone(&short).is_err());
        // A caller that has given up keeps no writer out.
        assert!(!gate.is_wanted_alone());
        drop((inside, gate.enter(&short).expect("free")));
        let alone = gate.enter_alone(&unlimited).expect("free");
        assert!(gate.enter(&short).is_err() && gate.enter_alone(&short).is_err());
        drop(alone);
        assert_eq!(*gate.enter(&short).expect("free"), 7);
    }

    /// Writers that come one after the other, so that one is always in the gate, do not keep others from being alone.
    #[test]
    fn who_wants_to_be_alone_comes_before_later_writers() {
        let (gate, unlimited) = (Gate::new(0), OperationContext::default());
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| while *gate.enter(&unlimited).expect("entered") < 100 {}))
                .collect();
            for _ in 0..100 {
                *gate.enter_alone(&unlimited).expect("entered") += 1;
            }
            for writer in writers {
                writer.join().expect("no panic");
            }
        });
    }
}
