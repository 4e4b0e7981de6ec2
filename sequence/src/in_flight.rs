//! Writes under way: which values of a sequence may still become visible.
//!
//! A writer registers the place of the next value before it takes one, and leaves when its document is committed or
//! given up. Whoever reads the next place first and the registered ones after it misses nobody: a value taken
//! before that reading was taken after its writer had registered.

use std::cell::Cell;

use crossbeam::utils::CachePadded;
use smallvec::SmallVec;

use crate::block::Place;
use crate::sync::Mutex;

/// A checker of interleavings switches threads at each stripe; more of them only hide the switches that matter.
const STRIPES: usize = if cfg!(shuttle) { 2 } else { 16 };

/// The registered places, spread over stripes so that threads rarely meet.
pub(crate) struct InFlight {
    stripes: [Stripe; STRIPES],
}

type Stripe = CachePadded<Mutex<SmallVec<[Place; 4]>>>;

/// One writer under way. Dropping it leaves.
#[must_use = "the writer is under way for as long as this lives"]
pub struct Pass<'a> {
    in_flight: &'a InFlight,
    stripe: usize,
    place: Place,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self { stripes: std::array::from_fn(|_| CachePadded::new(Mutex::new(SmallVec::new()))) }
    }

    /// Registers a writer whose values will stand at `place` or behind it.
    #[inline]
    pub(crate) fn enter(&self, place: Place) -> Pass<'_> {
        let stripe = own_stripe();
        if let Some(places) = self.stripes.get(stripe) {
            places.lock().push(place);
        }
        Pass { in_flight: self, stripe, place }
    }

    /// The foremost place that a writer registered.
    pub(crate) fn foremost(&self) -> Option<Place> {
        let foremost = |stripe: &Stripe| stripe.lock().iter().copied().min_by_key(|place| place.ordinal);
        self.stripes.iter().filter_map(foremost).min_by_key(|place| place.ordinal)
    }

    /// The hindmost place that a writer registered.
    pub(crate) fn hindmost(&self) -> Option<Place> {
        let hindmost = |stripe: &Stripe| stripe.lock().iter().copied().max_by_key(|place| place.ordinal);
        self.stripes.iter().filter_map(hindmost).max_by_key(|place| place.ordinal)
    }
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(stripe) = self.in_flight.stripes.get(self.stripe) else { return };
        let mut places = stripe.lock();
        if let Some(own) = places.iter().position(|place| *place == self.place) {
            places.swap_remove(own);
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

#[cfg(test)]
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
