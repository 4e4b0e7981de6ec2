//! Writes under way: which values of a sequence may still become visible.
//!
//! A writer registers the place of the next value before it takes one, and leaves when its document is committed or
//! given up. Whoever reads the next place first and the registered ones after it misses nobody: a value taken
//! before that reading was taken after its writer had registered.

use crossbeam::utils::CachePadded;
use smallvec::SmallVec;

use crate::block::Place;
use crate::sync::{AtomicU64, Mutex, Ordering, PerThread};

/// Of a berth's word: nobody is there.
const FREE: u64 = u64::MAX;
/// Of a berth's word: somebody is about to be there.
const CLAIMED: u64 = u64::MAX - 1;

/// The registered places.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Of each thread its own, which no other thread claims.
    berths: PerThread<CachePadded<Berth>>,
    /// Of writers whose thread has another one under way.
    crowd: Mutex<SmallVec<[Place; 4]>>,
}

/// Room for one place. Only its thread claims it; whoever has the pass leaves it. The word is written last and read first,
/// and again at the end: whoever reads it twice alike has read the place that belongs to it.
struct Berth {
    /// The place's ordinal, and in the lowest bit whether a value is before it.
    word: AtomicU64,
    before: AtomicU64,
}

/// One writer under way. Dropping it leaves.
#[must_use = "the writer is under way for as long as this lives"]
pub struct Pass<'a> {
    stay: Stay<'a>,
}

enum Stay<'a> {
    Berth(&'a Berth),
    Crowd(&'a Mutex<SmallVec<[Place; 4]>>, Place),
}

impl InFlight {
    /// Registers a writer whose values will stand at `place` or behind it.
    #[inline]
    pub(crate) fn enter(&self, place: Place) -> Pass<'_> {
        let own = self.berths.get_or_default();
        let stay = if own.claim(place) { Stay::Berth(own) } else { self.crowd(place) };
        Pass { stay }
    }

    /// The foremost place that a writer registered.
    pub(crate) fn foremost(&self) -> Option<Place> {
        self.places().into_iter().min_by_key(|place| place.ordinal)
    }

    /// The hindmost place that a writer registered.
    pub(crate) fn hindmost(&self) -> Option<Place> {
        self.places().into_iter().max_by_key(|place| place.ordinal)
    }

    #[cold]
    fn crowd(&self, place: Place) -> Stay<'_> {
        self.crowd.lock().push(place);
        Stay::Crowd(&self.crowd, place)
    }

    fn places(&self) -> SmallVec<[Place; 8]> {
        let mut places: SmallVec<[Place; 8]> = self.berths.iter().filter_map(|berth| berth.place()).collect();
        places.extend_from_slice(&self.crowd.lock());
        places
    }
}

impl Default for Berth {
    fn default() -> Self {
        Self { word: AtomicU64::new(FREE), before: AtomicU64::new(0) }
    }
}

impl Berth {
    /// Registers a place here, unless a writer of this thread is here. Nobody else claims the berth meanwhile, so looking
    /// and claiming need not be one operation.
    #[inline]
    fn claim(&self, place: Place) -> bool {
        if self.word.load(Ordering::Acquire) != FREE {
            return false;
        }
        self.word.store(CLAIMED, Ordering::Relaxed);
        // Whoever sees this value sees the claim too, and does not take it for the last writer's.
        self.before.store(place.before.unwrap_or_default().cast_unsigned(), Ordering::Release);
        self.word.store(place.ordinal << 1 | u64::from(place.before.is_some()), Ordering::Release);
        true
    }

    #[inline]
    fn leave(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    fn place(&self) -> Option<Place> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word >= CLAIMED {
                return None;
            }
            let before = self.before.load(Ordering::Acquire).cast_signed();
            if self.word.load(Ordering::Acquire) == word {
                return Some(Place { ordinal: word >> 1, before: (word & 1 == 1).then_some(before) });
            }
        }
    }
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.stay {
            Stay::Berth(berth) => berth.leave(),
            Stay::Crowd(crowd, own) => {
                let mut places = crowd.lock();
                if let Some(own) = places.iter().position(|place| *place == own) {
                    places.swap_remove(own);
                }
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn place(ordinal: u64) -> Place {
        Place { ordinal, before: None }
    }

    #[test]
    fn the_ends_of_all_that_are_under_way() {
        let in_flight = InFlight::default();
        assert_eq!((in_flight.foremost(), in_flight.hindmost()), (None, None));
        let passes = [4, 2, 9].map(|ordinal| in_flight.enter(place(ordinal)));
        assert_eq!((in_flight.foremost(), in_flight.hindmost()), (Some(place(2)), Some(place(9))));
        let [_four, two, nine] = passes;
        drop(two);
        drop(nine);
        assert_eq!((in_flight.foremost(), in_flight.hindmost()), (Some(place(4)), Some(place(4))));
    }

    #[test]
    fn one_of_two_at_the_same_place_stays() {
        let in_flight = InFlight::default();
        let first = in_flight.enter(place(3));
        let second = in_flight.enter(place(3));
        drop(first);
        assert_eq!(in_flight.foremost(), Some(place(3)));
        drop(second);
        assert_eq!(in_flight.foremost(), None);
    }

    #[test]
    fn a_writer_may_leave_in_another_thread() {
        let in_flight = InFlight::default();
        let passes: Vec<Pass<'_>> = (0..40).map(|ordinal| in_flight.enter(place(ordinal))).collect();
        std::thread::scope(|scope| {
            for pass in passes {
                scope.spawn(move || drop(pass));
            }
        });
        assert_eq!(in_flight.foremost(), None);
    }
}

/// What only a scheduler finds; `make interleavings` runs it.
#[cfg(all(test, shuttle))]
mod interleavings {
    use std::sync::Arc;

    use shuttle::thread::spawn;

    use super::*;

    /// Registers and leaves again, always with a value before the place that tells the place.
    fn come_and_go(in_flight: &InFlight, first: u64) {
        for ordinal in first..first + 3 {
            drop(in_flight.enter(Place { ordinal, before: Some(7 * ordinal.cast_signed()) }));
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
                    for place in in_flight.foremost().into_iter().chain(in_flight.hindmost()) {
                        assert_eq!(place.before, Some(7 * place.ordinal.cast_signed()));
                    }
                }
                for writer in writers {
                    writer.join().expect("a writer ends");
                }
                assert_eq!(in_flight.foremost(), None);
            },
            20_000,
        );
    }
}
