//! Writes under way: which values of a sequence may still become visible.
//!
//! A writer registers the place of the next value before it takes one, and leaves when its document is committed or
//! given up. Whoever reads the next place first and the registered ones after it misses nobody: a value taken
//! before that reading was taken after its writer had registered.

use std::cell::Cell;

use crossbeam::utils::CachePadded;
use smallvec::SmallVec;

use crate::block::Place;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A checker of interleavings switches threads at each stripe; more of them only hide the switches that matter.
const STRIPES: usize = if cfg!(shuttle) { 2 } else { 16 };
/// Writers of a stripe that need no lock.
const BERTHS: usize = if cfg!(shuttle) { 1 } else { 3 };

/// Of a berth's word: nobody is there.
const FREE: u64 = u64::MAX;
/// Of a berth's word: somebody is about to be there.
const CLAIMED: u64 = u64::MAX - 1;

/// The registered places, spread over stripes so that threads rarely meet.
pub(crate) struct InFlight {
    stripes: [CachePadded<Stripe>; STRIPES],
}

#[derive(Default)]
struct Stripe {
    berths: [Berth; BERTHS],
    /// Places that found no berth.
    crowd: Mutex<SmallVec<[Place; 4]>>,
}

/// Room for one place, which its writer alone changes. The word is written last and read first, and again at the end:
/// whoever reads it twice alike has read the place that belongs to it.
struct Berth {
    /// The place's ordinal, and in the lowest bit whether a value is before it.
    word: AtomicU64,
    before: AtomicU64,
}

/// One writer under way. Dropping it leaves.
#[must_use = "the writer is under way for as long as this lives"]
pub struct Pass<'a> {
    stripe: &'a Stripe,
    stay: Stay,
}

enum Stay {
    Berth(usize),
    Crowd(Place),
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self { stripes: std::array::from_fn(|_| CachePadded::default()) }
    }

    /// Registers a writer whose values will stand at `place` or behind it.
    #[inline]
    pub(crate) fn enter(&self, place: Place) -> Pass<'_> {
        let [first, ..] = &self.stripes;
        let stripe = self.stripes.get(own_stripe()).unwrap_or(first);
        let berth = stripe.berths.iter().position(|berth| berth.claim(place));
        let stay = berth.map_or_else(|| stripe.crowd(place), Stay::Berth);
        Pass { stripe, stay }
    }

    /// The foremost place that a writer registered.
    pub(crate) fn foremost(&self) -> Option<Place> {
        self.stripes.iter().flat_map(|stripe| stripe.places()).min_by_key(|place| place.ordinal)
    }

    /// The hindmost place that a writer registered.
    pub(crate) fn hindmost(&self) -> Option<Place> {
        self.stripes.iter().flat_map(|stripe| stripe.places()).max_by_key(|place| place.ordinal)
    }
}

impl Stripe {
    #[cold]
    fn crowd(&self, place: Place) -> Stay {
        self.crowd.lock().push(place);
        Stay::Crowd(place)
    }

    fn places(&self) -> SmallVec<[Place; 4]> {
        let mut places: SmallVec<[Place; 4]> = self.berths.iter().filter_map(Berth::place).collect();
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
    /// Registers a place here, unless somebody else is here.
    #[inline]
    fn claim(&self, place: Place) -> bool {
        let claimed = self.word.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_err() {
            return false;
        }
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
            Stay::Berth(berth) => self.stripe.berths.get(berth).into_iter().for_each(Berth::leave),
            Stay::Crowd(own) => {
                let mut places = self.stripe.crowd.lock();
                if let Some(own) = places.iter().position(|place| *place == own) {
                    places.swap_remove(own);
                }
            }
        }
    }
}

/// A stripe of the thread's own, as long as there are no more threads than stripes.
fn own_stripe() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn place(ordinal: u64) -> Place {
        Place { ordinal, before: None }
    }

    #[test]
    fn the_ends_of_all_that_are_under_way() {
        let in_flight = InFlight::new();
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
        let in_flight = InFlight::new();
        let first = in_flight.enter(place(3));
        let second = in_flight.enter(place(3));
        drop(first);
        assert_eq!(in_flight.foremost(), Some(place(3)));
        drop(second);
        assert_eq!(in_flight.foremost(), None);
    }

    #[test]
    fn a_writer_may_leave_in_another_thread() {
        let in_flight = InFlight::new();
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
                let in_flight = Arc::new(InFlight::new());
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
