//! Writes under way: which values of a sequence may still become visible.
//!
//! A writer registers the position of the next value before it draws one, and unregisters when its document
//! is committed or given up. The watermark reads the next position first and the registered positions
//! afterwards, and so misses no writer: a value that was drawn before the first reading was drawn after its
//! writer had registered.

use crossbeam::utils::CachePadded;
use smallvec::SmallVec;

use crate::block::SequencePosition;
use crate::sync::{AtomicU64, Mutex, Ordering, PerThread};

/// The word of a slot without a writer.
const FREE: u64 = u64::MAX;
/// The word of a slot whose writer is registering.
const CLAIMED: u64 = u64::MAX - 1;

/// The registered positions.
#[derive(Default)]
pub(crate) struct InFlight {
    /// One slot for each thread, which no other thread claims. Padded, so that writers of different threads
    /// do not share a cache line.
    slots: PerThread<CachePadded<WriterSlot>>,
    /// The positions of writers whose thread has another writer in its slot.
    overflow: Mutex<SmallVec<[SequencePosition; 4]>>,
}

/// The position of one writer. Only the slot's own thread claims it; the thread that drops the pass frees it.
/// The word is written last, and read before and after `before`: a reader that finds it unchanged has read
/// one position whole.
struct WriterSlot {
    /// The position's ordinal, and in the lowest bit whether there is a value before it.
    word: AtomicU64,
    /// The value before the position.
    before: AtomicU64,
}

/// The registration of one writer under way. Dropping it unregisters the writer.
#[must_use = "the writer is registered for as long as this lives"]
pub struct Pass<'a> {
    registration: Registration<'a>,
}

/// The registration of a writer whose commit comes later, perhaps in another thread. It is given back by
/// [`Sequence::release`](crate::allocator::Sequence::release).
#[must_use = "the watermark waits until it is released"]
#[derive(Debug)]
pub struct Kept {
    position: SequencePosition,
}

/// The place in which a writer is registered.
enum Registration<'a> {
    OwnSlot(&'a WriterSlot),
    Overflow(&'a Mutex<SmallVec<[SequencePosition; 4]>>, SequencePosition),
}

impl InFlight {
    /// Registers a writer whose values will be at `position` or after it.
    #[inline]
    pub(crate) fn enter(&self, position: SequencePosition) -> Pass<'_> {
        let own = self.slots.get_or_default();
        let registration =
            if own.claim(position) { Registration::OwnSlot(own) } else { self.register_further(position) };
        Pass { registration }
    }

    /// Registers a writer as [`enter`](Self::enter) does, until it is released.
    pub(crate) fn keep(&self, position: SequencePosition) -> Kept {
        self.overflow.lock().push(position);
        Kept { position }
    }

    /// Unregisters a writer.
    pub(crate) fn release(&self, kept: &Kept) {
        remove(&self.overflow, kept.position);
    }

    /// The lowest position that a writer registered.
    pub(crate) fn lowest(&self) -> Option<SequencePosition> {
        self.positions().into_iter().min_by_key(|position| position.ordinal)
    }

    /// The highest position that a writer registered.
    pub(crate) fn highest(&self) -> Option<SequencePosition> {
        self.positions().into_iter().max_by_key(|position| position.ordinal)
    }

    /// Registers a further writer of a thread. Rare: one thread seldom has two inserts under way in one
    /// sequence.
    #[cold]
    fn register_further(&self, position: SequencePosition) -> Registration<'_> {
        self.overflow.lock().push(position);
        Registration::Overflow(&self.overflow, position)
    }

    fn positions(&self) -> SmallVec<[SequencePosition; 8]> {
        let mut positions: SmallVec<[SequencePosition; 8]> =
            self.slots.iter().filter_map(|slot| slot.position()).collect();
        positions.extend_from_slice(&self.overflow.lock());
        positions
    }
}

impl Default for WriterSlot {
    fn default() -> Self {
        Self { word: AtomicU64::new(FREE), before: AtomicU64::new(0) }
    }
}

impl WriterSlot {
    /// Registers a position here, unless the slot has a writer. No other thread claims the slot, so testing
    /// and claiming need not be one operation.
    #[inline]
    fn claim(&self, position: SequencePosition) -> bool {
        // The writer before may have been freed by another thread. Acquire pairs with that thread's Release,
        // so the stores below come after its registration has ended for every reader.
        if self.word.load(Ordering::Acquire) != FREE {
            return false;
        }
        // A reader that finds the slot claimed passes over it. That is right: this writer has drawn no value
        // yet, so the next position, which the reader read earlier, covers whatever it will draw.
        self.word.store(CLAIMED, Ordering::Relaxed);
        // Release: a reader that sees this value also sees the claim above, so it cannot find the earlier
        // writer's word unchanged. With Relaxed it could join that word with this value.
        self.before.store(position.before.unwrap_or_default().cast_unsigned(), Ordering::Release);
        // Release again: a reader that sees this word sees the value that belongs to it.
        self.word.store(position.ordinal << 1 | u64::from(position.before.is_some()), Ordering::Release);
        true
    }

    #[inline]
    fn leave(&self) {
        // Release: a reader that finds the slot free also sees the commit before it. Otherwise the watermark
        // could pass a value whose document the reader cannot see yet.
        self.word.store(FREE, Ordering::Release);
    }

    fn position(&self) -> Option<SequencePosition> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word >= CLAIMED {
                return None;
            }
            // Acquire keeps the second load of the word after this one, and pairs with the Release in
            // `claim`.
            let before = self.before.load(Ordering::Acquire).cast_signed();
            // Unchanged: both halves are of one registration. A position always has the same value before it,
            // so the same word written twice does no harm. Changed: its writer has left, and the slot is read
            // again.
            if self.word.load(Ordering::Acquire) == word {
                return Some(SequencePosition {
                    ordinal: word >> 1,
                    before: (word & 1 == 1).then_some(before),
                });
            }
        }
    }
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.registration {
            Registration::OwnSlot(slot) => slot.leave(),
            Registration::Overflow(overflow, own) => {
                remove(overflow, own);
            }
        }
    }
}

fn remove(overflow: &Mutex<SmallVec<[SequencePosition; 4]>>, own: SequencePosition) {
    // Two writers may have equal positions. Which of the two entries goes makes no difference.
    let mut positions = overflow.lock();
    if let Some(own) = positions.iter().position(|position| *position == own) {
        positions.swap_remove(own);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn position(ordinal: u64) -> SequencePosition {
        SequencePosition { ordinal, before: None }
    }

    #[test]
    fn the_ends_of_all_that_are_under_way() {
        let in_flight = InFlight::default();
        assert_eq!((in_flight.lowest(), in_flight.highest()), (None, None));
        let passes = [4, 2, 9].map(|ordinal| in_flight.enter(position(ordinal)));
        assert_eq!((in_flight.lowest(), in_flight.highest()), (Some(position(2)), Some(position(9))));
        let [_four, two, nine] = passes;
        drop(two);
        drop(nine);
        assert_eq!((in_flight.lowest(), in_flight.highest()), (Some(position(4)), Some(position(4))));
    }

    #[test]
    fn one_of_two_at_the_same_place_stays() {
        let in_flight = InFlight::default();
        let first = in_flight.enter(position(3));
        let second = in_flight.enter(position(3));
        drop(first);
        assert_eq!(in_flight.lowest(), Some(position(3)));
        drop(second);
        assert_eq!(in_flight.lowest(), None);
    }

    #[test]
    fn a_writer_may_leave_in_another_thread() {
        let in_flight = InFlight::default();
        let passes: Vec<Pass<'_>> = (0..40).map(|ordinal| in_flight.enter(position(ordinal))).collect();
        std::thread::scope(|scope| {
            for pass in passes {
                scope.spawn(move || drop(pass));
            }
        });
        assert_eq!(in_flight.lowest(), None);
    }
}

/// Interleavings that only a scheduler finds; `make interleavings` runs them.
#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use std::sync::Arc;

    use shuttle::thread::spawn;

    use super::*;

    /// Registers and leaves again, always with a value before the position that gives the position.
    fn come_and_go(in_flight: &InFlight, first: u64) {
        for ordinal in first..first + 3 {
            drop(in_flight.enter(SequencePosition { ordinal, before: Some(7 * ordinal.cast_signed()) }));
        }
    }

    #[test]
    fn a_place_is_read_whole_while_writers_come_and_go() {
        shuttle::check_random(
            || {
                let in_flight = Arc::new(InFlight::default());
                let writers = [100, 200].map(|first| {
                    let in_flight = Arc::clone(&in_flight);
                    spawn(move || come_and_go(&in_flight, first))
                });
                for _ in 0..3 {
                    for position in in_flight.lowest().into_iter().chain(in_flight.highest()) {
                        assert_eq!(position.before, Some(7 * position.ordinal.cast_signed()));
                    }
                }
                for writer in writers {
                    writer.join().expect("a writer ends");
                }
                assert_eq!(in_flight.lowest(), None);
            },
            20_000,
        );
    }
}
