//! The record keys that a collection was ever given, and the entry keys of a unique index, as far as that proves others
//! absent without a look-up.
//!
//! Two things prove a key absent. It is above the highest one: ids that ascend always are. Or a Bloom filter does not have it:
//! the filter has all stored keys up to its `top`, which was the highest key when it was begun, and each key up to there
//! that a write has asked for since. Of keys above its `top` it knows nothing, so ids that ascend cost it no memory.
//!
//! A write asks under the latch of its key and is entered here by the same call, before its commit. So of two writes of
//! one key the second never gets the answer that the key is absent, and what fails to commit costs a look-up later and nothing else.
//!
//! A filter is made once writes have asked for keys below the highest one often enough, by reading the stored keys a
//! few at a time: see `steps`. Each look-up pays for a few keys, so what seldom needs a filter is seldom read.

mod bloom;
pub(crate) mod filters;
pub(crate) mod steps;
#[cfg(test)]
mod tests;

use std::fmt;

use base::error::Result;
use base::sync::Mutex;
use store::Database;

use crate::catalog::given_keys::bloom::BloomFilter;
use crate::catalog::given_keys::filters::{
    Absence, Admission, Chunk, Entered, Filters, Layer, Part, Progress,
};

/// The record keys that a collection was given, or the entry keys that a unique index was given.
///
/// Every key is admitted here before it is stored, from when the collection is opened, or the index finished. A key that an
/// update leaves as it is is stored already.
#[derive(Default)]
pub(crate) struct GivenKeys {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The highest key that was ever given. `None` until the last stored key was read. It is raised before a write is
    /// committed and never lowered, so it covers writes that are not committed yet, and stays right if one of them fails.
    highest: Option<Vec<u8>>,
    marks: Marks,
    filters: Filters,
    /// The number of times that everything was forgotten. A step that began before that has nothing to add to.
    generation: u64,
    /// Whether there is a step that is not dropped yet. It stays when everything is forgotten: two steps must never be made at a time.
    is_step_left: bool,
}

/// The number of admissions between two marks. Ids that several threads make, or several processes, ascend but for a
/// few thousand.
const MARK_INTERVAL: u32 = if cfg!(feature = "shuttle") { 1 } else { 8192 };

/// The highest key some time ago. A write of a key that is not above it is late: the key is not one of ids that
/// ascend.
#[derive(Default)]
struct Marks {
    /// At least [`MARK_INTERVAL`] admissions ago.
    old: Vec<u8>,
    /// The highest key at the begin of the interval.
    new: Vec<u8>,
    /// Admissions in the interval.
    count: u32,
}

impl Marks {
    /// Counts an admission. `highest` is the highest key now.
    #[inline]
    fn count(&mut self, highest: &[u8]) {
        self.count += 1;
        if self.count >= MARK_INTERVAL {
            self.count = 0;
            // The place of the oldest one is used again.
            std::mem::swap(&mut self.old, &mut self.new);
            self.new.clear();
            self.new.extend_from_slice(highest);
        }
    }
}

/// The next work for a filter.
struct Growth {
    part: Part,
    generation: u64,
}

impl fmt::Debug for GivenKeys {
    /// Without the keys: there may be millions, and a lock is in front of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenKeys").finish_non_exhaustive()
    }
}

impl GivenKeys {
    /// Forgets all keys; the next write reads the highest one again. The caller makes sure that no write runs.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        let generation = state.generation.wrapping_add(1);
        let is_step_left = state.is_step_left;
        let empty = State { generation, is_step_left, ..State::default() };
        let old = std::mem::replace(&mut *state, empty);
        drop(state);
        // Outside of the lock, because filters are large.
        drop(old);
    }

    /// Enters `key`, whose latch the caller holds, and says whether it needs a lookup. `last_stored` reads the last
    /// stored key, on first use.
    pub(crate) fn admit(
        &self,
        key: &[u8],
        last_stored: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Admission> {
        let mut state = self.state.lock();
        let State { highest, marks, filters, is_step_left, .. } = &mut *state;
        // Read under the lock. Otherwise the stored key could replace a bound that another write has raised
        // meanwhile.
        let bound = match highest.as_mut() {
            Some(bound) => bound,
            None => highest.insert(last_stored()?.unwrap_or_default()),
        };
        marks.count(bound);
        if key <= bound.as_slice() {
            let (absence, is_paid) = filters.admit(key, key <= marks.old.as_slice());
            let needs_step = is_paid && !*is_step_left;
            *is_step_left |= needs_step;
            return Ok(Admission { absence, needs_step });
        }
        // No filter needs the key: each answers only for keys up to the one that was the highest when it was begun.
        bound.clear();
        bound.extend_from_slice(key);
        Ok(Admission { absence: Absence::Proven, needs_step: false })
    }

    /// Enters a whole batch of ascending keys, if all are above the highest one: then none of them is stored.
    ///
    /// Returns `false` and changes nothing if a key is not above it, or if it was not read yet.
    pub(crate) fn admit_ascending(&self, first: &[u8], last: &[u8]) -> bool {
        let mut state = self.state.lock();
        let State { highest, marks, .. } = &mut *state;
        let Some(bound) = highest.as_mut().filter(|bound| first > bound.as_slice()) else {
            return false;
        };
        marks.count(bound);
        bound.clear();
        bound.extend_from_slice(last);
        true
    }

    /// The next work for a filter, if about `stored` keys are stored, if that is known. Returns `None` if no other
    /// one is needed, or not enough keys are paid for.
    fn next_part(&self, stored: Option<u64>) -> Option<Growth> {
        let state = self.state.lock();
        // Nothing was given since all was forgotten.
        state.highest.as_ref()?;
        let part = state.filters.next_part(stored)?;
        Some(Growth { part, generation: state.generation })
    }

    /// Begins a filter with a layer for `keys` keys. Returns whether there was memory for it.
    fn begin(&self, database: &Database, keys: u64, generation: u64) -> bool {
        let Some(layer) = Self::layer(database, keys) else {
            self.give_up(generation);
            return false;
        };
        self.change(generation, |state| {
            // From here on no key up to the highest one is given without the filter.
            if let Some(top) = state.highest.clone() {
                state.filters.begin(top, layer);
            }
        });
        true
    }

    /// Adds a layer for `keys` keys to a filter. Returns whether there is more to do.
    fn extend(&self, database: &Database, keys: u64, generation: u64) -> bool {
        if let Some(layer) = Self::layer(database, keys) {
            self.change(generation, |state| state.filters.extend(layer));
            return true;
        }
        let goes_on = self.change(generation, |state| state.filters.go_on_full()) == Some(true);
        if !goes_on {
            self.give_up(generation);
        }
        goes_on
    }

    /// A layer for `keys` keys, or for half of them if memory does not suffice.
    fn layer(database: &Database, keys: u64) -> Option<Layer> {
        // A smaller one is full sooner, and better than none.
        [keys, keys / 2].into_iter().find_map(|keys| {
            let bytes = database.filter_bytes(BloomFilter::bytes_for(keys))?;
            // Without the lock: megabytes are set to zero.
            Some(Layer { bloom: BloomFilter::for_keys(keys), keys: 0, capacity: keys, _bytes: bytes })
        })
    }

    /// Notes that latches were seen free, up to the one that is `busy`. Keys from `first` on are read when there was none.
    fn has_passed(&self, busy: Option<usize>, first: &[u8], generation: u64) {
        self.change(generation, |state| {
            if let Some(growing) = &mut state.filters.growing {
                growing.progress = match busy {
                    Some(latch) => Progress::Passing(latch),
                    None => Progress::Reading(first.to_vec()),
                };
            }
        });
    }

    /// Enters keys that were read. Returns whether there is more to do.
    fn enter_read(&self, chunk: &Chunk, generation: u64) -> bool {
        let entered = self.change(generation, |state| state.filters.enter_read(chunk));
        // A filter that was replaced is dropped here, without the lock.
        entered.is_some_and(|Entered { goes_on, replaced }| {
            drop(replaced);
            goes_on
        })
    }

    /// Makes no filter for a while.
    fn give_up(&self, generation: u64) {
        drop(self.change(generation, |state| state.filters.give_up()));
    }

    /// Allows another step to be left.
    fn step_is_over(&self) {
        self.state.lock().is_step_left = false;
    }

    /// Changes the state, unless all was forgotten since the generation. Filters that leave it are returned, and dropped without the
    /// lock: they are large.
    fn change<T>(&self, generation: u64, change: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut state = self.state.lock();
        if state.generation == generation { Some(change(&mut state)) } else { None }
    }
}
