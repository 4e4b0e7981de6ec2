//! The lock of a sequence's turns: a flag and a condition variable, so that a turn may end in another thread than it began in.
//!
//! A thread that finds the flag free sets it by one atomic operation, and one that waits lets others run for a while before it sleeps.
//! Those that come and set the flag before one that was woken would keep it waiting for ever, so now and then the flag is
//! handed over: it is never free in between.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU8, Condvar, Mutex, Ordering, lock_brief_by, sleep_until};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// Taken, and others may be waiting.
const AWAITED: u8 = 2;

/// Every how many times the turn is handed over to one that waits.
const HAND_OVER_EVERY: u32 = 16;

/// A lock without a value.
#[derive(Default)]
pub(crate) struct TurnLock {
    state: AtomicU8,
    queue: Mutex<Queue>,
    /// The turn became free, or was handed over.
    given_back: Condvar,
}

/// Those that sleep until the turn is theirs.
#[derive(Default)]
struct Queue {
    waiting: usize,
    /// The number of times that the turn ended while some were waiting.
    ends: u32,
    /// The turn is that of the first who sees this.
    is_handed_over: bool,
}

/// The turn of a caller that gives it back at the end of a scope.
#[must_use]
pub(crate) struct TurnGuard<'a>(&'a TurnLock);

impl TurnLock {
    /// Waits for the turn.
    #[inline]
    pub(crate) fn lock(&self) -> TurnGuard<'_> {
        if !self.take_brief() {
            self.wait(None);
        }
        TurnGuard(self)
    }

    /// Waits for the turn no longer than `patience`.
    #[inline]
    pub(crate) fn try_lock_for(&self, patience: Duration) -> Option<TurnGuard<'_>> {
        let is_taken = self.take_brief() || self.wait(Some(Instant::now() + patience));
        is_taken.then(|| TurnGuard(self))
    }

    /// Takes the turn if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<TurnGuard<'_>> {
        self.take_free().then(|| TurnGuard(self))
    }

    #[inline]
    fn take_brief(&self) -> bool {
        lock_brief_by(|| self.take_free())
    }

    #[inline]
    fn take_free(&self) -> bool {
        // Acquire pairs with the Release of who gave it back.
        self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Sleeps until the turn is the caller's. Returns `false` if it is not by `until`.
    #[cold]
    fn wait(&self, until: Option<Instant>) -> bool {
        let mut queue = self.queue.lock();
        queue.waiting += 1;
        let is_taken = loop {
            // Before the time: a turn that was handed over must not be left without an owner.
            if std::mem::take(&mut queue.is_handed_over) {
                break true;
            }
            // Under the lock: who gives it back sees that some wait, and wakes one after this one sleeps.
            if self.state.swap(AWAITED, Ordering::Acquire) == FREE {
                break true;
            }
            match sleep_until(&self.given_back, queue, until) {
                Ok(awake) => queue = awake,
                Err(awake) => {
                    queue = awake;
                    break false;
                }
            }
        };
        queue.waiting -= 1;
        is_taken
    }

    /// Ends a turn. The thread that got it may be another one.
    #[inline]
    pub(crate) fn give_back(&self) {
        if self.state.compare_exchange(TAKEN, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.give_to_next();
        }
    }

    #[cold]
    fn give_to_next(&self) {
        let mut queue = self.queue.lock();
        queue.ends = queue.ends.wrapping_add(1);
        if queue.waiting > 0 && queue.ends.is_multiple_of(HAND_OVER_EVERY) {
            queue.is_handed_over = true;
        } else {
            self.state.store(FREE, Ordering::Release);
        }
        self.given_back.notify_one();
    }
}

impl TurnGuard<'_> {
    /// Keeps the turn beyond the scope: it ends by [`TurnLock::give_back`].
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for TurnGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering as Plain};

    use super::*;

    /// A lock, how many have its turn, and how many had it.
    #[derive(Default)]
    struct Room {
        lock: TurnLock,
        inside: AtomicU64,
        visits: AtomicU64,
    }

    impl Room {
        /// Gets the turn, if that is possible with the patience, and gives it back.
        fn visit(&self, patience: Option<Duration>, yields: bool) {
            let Some(turn) =
                patience.map_or_else(|| Some(self.lock.lock()), |time| self.lock.try_lock_for(time))
            else {
                return;
            };
            assert_eq!(self.inside.fetch_add(1, Plain::Relaxed), 0);
            if yields {
                std::thread::yield_now();
            }
            self.inside.fetch_sub(1, Plain::Relaxed);
            self.visits.fetch_add(1, Plain::Relaxed);
            drop(turn);
        }
    }

    #[test]
    fn one_at_a_time_has_the_turn() {
        let room = Room::default();
        let visit_often = || {
            for round in 0..2_000_u32 {
                let patience = round.is_multiple_of(3).then_some(Duration::from_micros(50));
                room.visit(patience, round.is_multiple_of(7));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(visit_often);
            }
        });
        assert!(room.visits.load(Plain::Relaxed) >= 4 * 1_333);
        assert!(room.lock.try_lock().is_some(), "the last one has given it back");
    }

    #[test]
    fn a_turn_ends_in_another_thread() {
        let lock = TurnLock::default();
        lock.lock().keep();
        assert!(lock.try_lock().is_none() && lock.try_lock_for(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(lock.lock()));
            // Once it sleeps, so that it must be woken.
            while lock.queue.lock().waiting == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| lock.give_back());
            waiting.join().expect("it gets the turn");
        });
        assert!(lock.try_lock().is_some());
    }

    /// One that waits gets its turn, though others take it again and again.
    #[test]
    fn a_turn_is_handed_over_in_the_end() {
        let (room, is_done) = (Room::default(), std::sync::atomic::AtomicBool::new(false));
        let visit_again = || {
            while !is_done.load(Plain::Relaxed) {
                room.visit(None, false);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(visit_again);
            }
            for _ in 0..50 {
                assert!(room.lock.wait(None));
                room.lock.give_back();
            }
            is_done.store(true, Plain::Relaxed);
        });
    }
}
