//! The order in which locks are waited for: the one list of it.
//!
//! A thread that holds one of these waits only for later ones, so no two threads can wait for each other. Locks that are not named
//! here are held for moments, and nothing is waited for under them. Under the checker of interleavings every wait is compared with
//! what the thread holds.

/// A lock that a thread holds. The first one is acquired first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The switching on of the log of changes, for one scope at a time.
    Logging,
    /// The gate of a collection, shared or alone. Several by their ids.
    Collection,
    /// The set of collections, views, indexes and sequences, and their next ids.
    Catalog,
    /// The turn of an ordered or gapless sequence. Several by their ids.
    Sequence,
    /// The order of a capped collection.
    Order,
    /// Latches of keys, all of a write together, ascending by their stripes.
    Latches,
    /// The arrays of a collection's indexes, while its entry is written with new ones. Several by the collections' ids.
    Arrays,
    /// The generations of tokens: shared by a commit with a token, alone by the beginning of another one.
    Tokens,
    /// The counter of a collection's documents, while it is set.
    Count,
    /// The mark of the log of changes, while it is raised.
    LogMark,
}

impl Place {
    /// Whether a thread may hold several of them, which have an order of their own.
    #[cfg(any(test, feature = "shuttle"))]
    fn has_several(self) -> bool {
        matches!(self, Self::Collection | Self::Sequence | Self::Arrays)
    }

    /// Whether a thread that holds others may wait for this one.
    #[cfg(any(test, feature = "shuttle"))]
    fn may_follow(self, held: &[Self]) -> bool {
        held.iter().all(|last| *last < self || *last == self && self.has_several())
    }
}

/// A place that a thread has, until it is dropped. Without the checker it is nothing.
#[must_use]
#[derive(Debug)]
pub struct Held {
    #[cfg(feature = "shuttle")]
    place: Place,
}

#[cfg(feature = "shuttle")]
shuttle::thread_local! {
    static HELD: std::cell::RefCell<Vec<Place>> = std::cell::RefCell::new(Vec::new());
}

/// Registers a place, before its lock is waited for.
///
/// # Panics
/// Under the checker, if the thread holds a later place.
#[inline]
pub fn take(place: Place) -> Held {
    #[cfg(feature = "shuttle")]
    HELD.with(|held| {
        let mut held = held.borrow_mut();
        assert!(place.may_follow(&held), "a thread that holds {held:?} waits for {place:?}");
        held.push(place);
    });
    #[cfg(not(feature = "shuttle"))]
    let _ = place;
    Held {
        #[cfg(feature = "shuttle")]
        place,
    }
}

#[cfg(feature = "shuttle")]
impl Drop for Held {
    fn drop(&mut self) {
        HELD.with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|place| *place == self.place);
            at.map(|at| held.remove(at));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Place::{Arrays, Collection, Count, Latches, Order, Sequence};

    #[test]
    fn a_thread_waits_only_for_later_places() {
        assert!(
            Collection.may_follow(&[]) && Count.may_follow(&[Collection, Sequence, Order, Latches, Arrays])
        );
        assert!(!Sequence.may_follow(&[Collection, Latches]) && !Collection.may_follow(&[Order]));
        // Several gates and turns have an order of their own; latches are acquired together.
        assert!(Collection.may_follow(&[Collection]) && Sequence.may_follow(&[Collection, Sequence]));
        assert!(!Latches.may_follow(&[Latches]) && !Count.may_follow(&[Count]));
        assert!(Arrays.may_follow(&[Latches, Arrays]));
    }
}
