//! Positions of a log that many writers append to, and up to where the log has no hole.
//!
//! A writer registers at the highest position that was given, and then gets its own, which is higher. It unregisters when what it
//! appended can be read. The watermark reads the highest position first and the registrations afterwards, and so misses no writer:
//! one whose position is not above the first reading had registered before it got it.

use crossbeam::utils::CachePadded;

use crate::sync::{AtomicU64, Mutex, Ordering, PerThread};

/// The word of a slot without a writer. No position is as high.
const FREE: u64 = u64::MAX;

/// The positions of a log.
pub struct Positions {
    /// The highest that was given.
    last: AtomicU64,
    /// One slot for each thread, which no other thread claims. Padded, so that writers of different threads do not share a cache line.
    slots: PerThread<CachePadded<Slot>>,
    /// The writers whose thread has another one in its slot.
    overflow: Mutex<Vec<u64>>,
    /// Where the lowest writer registered of whose append it is not known whether it was made. Lowered and freed under the lock.
    unknown: AtomicU64,
}

/// The registration of a thread's writer.
struct Slot(AtomicU64);

/// The registration of a writer. Dropping it says that what the writer appended can be read, or never will be.
#[must_use = "the writer is registered for as long as this lives"]
pub struct Appending<'a> {
    positions: &'a Positions,
    /// Absent for a writer in the overflow.
    slot: Option<&'a Slot>,
    floor: u64,
}

impl Positions {
    /// The positions after `last`.
    pub fn after(last: u64) -> Self {
        Self {
            last: AtomicU64::new(last),
            slots: PerThread::default(),
            overflow: Mutex::default(),
            unknown: AtomicU64::new(FREE),
        }
    }

    /// The highest position that was given.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Registers a writer that is about to get a position.
    pub fn register(&self) -> Appending<'_> {
        let floor = self.last();
        let own = &**self.slots.get_or_default();
        // The writer before may have been unregistered by another thread. Acquire pairs with that thread's Release.
        let slot = (own.0.load(Ordering::Acquire) == FREE).then_some(own);
        match slot {
            // Seen by each reader that sees a position which is given after this: giving one releases, and reading `last` acquires.
            Some(slot) => slot.0.store(floor, Ordering::Release),
            None => self.overflow.lock().push(floor),
        }
        Appending { positions: self, slot, floor }
    }

    /// Gives a position: `now`, or the one after the highest if that is not below it.
    pub fn take(&self, now: u64) -> u64 {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = now.max(last.saturating_add(1));
            match self.last.compare_exchange(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(newer) => last = newer,
            }
        }
    }

    /// The highest position up to which everything that was appended can be read.
    pub fn watermark(&self) -> u64 {
        let last = self.last();
        let slots = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire));
        let lowest = slots.min().unwrap_or(FREE);
        // The lock orders it: who unregisters has made readable what it appended.
        let further = self.overflow.lock().iter().copied().min().unwrap_or(FREE);
        last.min(lowest).min(further).min(self.unknown.load(Ordering::Acquire))
    }

    /// Whether the watermark waits for an append of which it is not known whether it was made.
    pub fn has_unknown(&self) -> bool {
        self.unknown.load(Ordering::Acquire) != FREE
    }

    /// Lets the watermark pass the appends of which it was not known whether they were made, if `is_known` says that it is now: each
    /// can be read, or never will be. Asked while no other writer can leave one behind. Returns whether the watermark may rise by it.
    pub fn settle(&self, is_known: impl FnOnce() -> bool) -> bool {
        let _overflow = self.overflow.lock();
        let is_settled = self.has_unknown() && is_known();
        if is_settled {
            self.unknown.store(FREE, Ordering::Release);
        }
        is_settled
    }
}

impl Default for Positions {
    fn default() -> Self {
        Self::after(0)
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self(AtomicU64::new(FREE))
    }
}

impl Appending<'_> {
    /// Ends the writer without knowing whether its append was made: no reader passes it until that is [settled](Positions::settle).
    pub fn leave_unknown(self) {
        let _overflow = self.positions.overflow.lock();
        self.positions.unknown.fetch_min(self.floor, Ordering::Release);
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            // Release: a reader that finds the slot free also sees what was appended.
            slot.0.store(FREE, Ordering::Release);
            return;
        }
        // Two writers may be registered at one position. Which of the two goes makes no difference.
        let mut overflow = self.positions.overflow.lock();
        if let Some(own) = overflow.iter().position(|floor| *floor == self.floor) {
            overflow.swap_remove(own);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn positions_ascend_whatever_the_clock_does() {
        let positions = Positions::after(7);
        assert_eq!([0, 20, 3, 20].map(|now| positions.take(now)), [8, 20, 21, 22]);
        assert_eq!((positions.last(), positions.watermark()), (22, 22));
    }

    #[test]
    fn the_watermark_passes_no_writer() {
        let positions = Positions::after(10);
        let first = positions.register();
        let second = positions.register();
        assert_eq!((positions.take(0), positions.take(0)), (11, 12));
        assert_eq!(positions.watermark(), 10);
        drop(first);
        assert_eq!(positions.watermark(), 10);
        drop(second);
        assert_eq!(positions.watermark(), 12);
    }

    #[test]
    fn an_append_that_is_not_known_holds_the_watermark_until_it_is() {
        let positions = Positions::after(10);
        assert!(!positions.settle(|| true), "there is nothing to settle");
        let [first, second] = [positions.register(), positions.register()];
        positions.take(0);
        let third = positions.register();
        positions.take(0);
        // The second writer of the thread is in the overflow, and the third registered higher.
        third.leave_unknown();
        second.leave_unknown();
        drop(first);
        for _ in 0..3 {
            drop(positions.register());
            positions.take(0);
        }
        assert_eq!((positions.watermark(), positions.last()), (10, 15));
        assert!(positions.has_unknown() && !positions.settle(|| false));
        assert_eq!(positions.watermark(), 10);
        assert!(positions.settle(|| true) && !positions.has_unknown());
        assert_eq!(positions.watermark(), 15);
        positions.register().leave_unknown();
        assert_eq!((positions.take(0), positions.watermark()), (16, 15));
    }

    #[test]
    fn a_writer_may_end_in_another_thread() {
        let positions = Positions::after(0);
        let writers: Vec<_> = (0..40).map(|_| positions.register()).collect();
        std::thread::scope(|scope| {
            for writer in writers {
                scope.spawn(move || drop(writer));
            }
        });
        positions.take(5);
        assert_eq!(positions.watermark(), 5);
    }
}

/// Interleavings that only a scheduler finds; `make interleavings` runs them.
#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use std::sync::Arc;

    use shuttle::thread::spawn;

    use super::*;

    /// A log: what was appended can be read once it is in the list.
    #[derive(Default)]
    struct Log {
        positions: Positions,
        appended: shuttle::sync::Mutex<Vec<u64>>,
    }

    impl Log {
        fn append(&self, now: u64) {
            let registered = self.positions.register();
            let position = self.positions.take(now);
            self.appended.lock().expect("not poisoned").push(position);
            drop(registered);
        }

        fn read(&self, through: u64) -> Vec<u64> {
            let mut read = self.appended.lock().expect("not poisoned").clone();
            read.retain(|position| *position <= through);
            read.sort_unstable();
            read
        }
    }

    /// One append comes to light after its writer has ended without knowing of it.
    #[test]
    fn no_reader_passes_what_is_not_known() {
        shuttle::check_random(
            || {
                let log = Arc::new(Log::default());
                let is_known = Arc::new(AtomicU64::new(0));
                let (other, known) = (Arc::clone(&log), Arc::clone(&is_known));
                let unknown = spawn(move || {
                    let registered = other.positions.register();
                    let position = other.positions.take(0);
                    registered.leave_unknown();
                    other.appended.lock().expect("not poisoned").push(position);
                    known.store(1, Ordering::Release);
                });
                let other = Arc::clone(&log);
                let writer = spawn(move || (0..2).for_each(|round| other.append(round)));
                let mut seen = Vec::new();
                for _ in 0..4 {
                    log.positions.settle(|| is_known.load(Ordering::Acquire) == 1);
                    let watermark = log.positions.watermark();
                    seen.push((watermark, log.read(watermark)));
                }
                unknown.join().expect("a writer ends");
                writer.join().expect("a writer ends");
                for (watermark, read) in seen {
                    assert_eq!(read, log.read(watermark), "up to {watermark}");
                }
                log.positions.settle(|| true);
                assert_eq!(log.positions.watermark(), log.positions.last());
            },
            20_000,
        );
    }

    #[test]
    fn no_reader_passes_a_hole() {
        shuttle::check_random(
            || {
                let log = Arc::new(Log::default());
                let writers = [3, 1].map(|now| {
                    let log = Arc::clone(&log);
                    spawn(move || (0..2).for_each(|round| log.append(now + round)))
                });
                let mut seen = Vec::new();
                for _ in 0..3 {
                    let watermark = log.positions.watermark();
                    seen.push((watermark, log.read(watermark)));
                }
                for writer in writers {
                    writer.join().expect("a writer ends");
                }
                for (watermark, read) in seen {
                    assert_eq!(read, log.read(watermark), "up to {watermark}");
                }
                assert_eq!(log.positions.watermark(), log.positions.last());
            },
            20_000,
        );
    }
}
