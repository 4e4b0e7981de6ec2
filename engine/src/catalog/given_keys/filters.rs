//! The filters of a collection or an index: the one that answers, and the one that is being made, and what writes have paid for it.

use store::filter_space::FilterBytes;

use crate::catalog::given_keys::bloom::{BloomFilter, hash_of_key};

/// The number of keys that a late write pays for while there is no filter. The checker of interleavings has few
/// writes, so there the first one pays for a filter.
const KEYS_PER_WRITE: i64 = if cfg!(feature = "shuttle") { 1000 } else { 8 };
/// The number of keys that a late write pays for while there is a filter, and another one is wanted.
const KEYS_PER_WRITE_WITH_FILTER: i64 = 2;
/// The number of keys that must be paid for before a step reads them.
const STEP_KEYS: i64 = if cfg!(feature = "shuttle") { 1 } else { 4096 };
/// The payment before the next attempt after one that found no memory or could not read. It doubles each time.
const PAUSE_KEYS: i64 = 8 << 20;
const PAUSE_DOUBLINGS_MAX: u32 = 20;
/// Each filter is made for this many keys at least.
const FILTER_KEYS_MIN: u64 = 16 << 10;
/// The first layer is made for this many times as many keys as are stored, a further one for this many times as many as the
/// filter has.
const GROWTH: u64 = 2;
/// A layer is made for this many keys at most, and has about 64 MiB then: it is set to zero in one go.
const LAYER_KEYS_MAX: u64 = 40 << 20;
/// A filter that cannot grow still helps while its last layer has this many times as many keys as it was made for: then about
/// one in twelve of its answers is wrong.
const OVERFULL_MAX: u64 = 2;
/// A filter is renewed when so many keys above its `top` were asked for: this part of the number that it has.
const BEYOND_PART: u64 = 8;
/// A full filter is renewed when it has this many times as many keys as are stored: the others were deleted.
const DELETED_MAX: u64 = 2;
/// The same, where the number of stored keys is not known, of those that it had when it was made.
const GROWN_MAX: u64 = 16;

/// Whether a key can be stored already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The key is neither stored nor in a batch that is not committed yet.
    Proven,
    /// Only a lookup can determine.
    Unproven,
}

/// The result of an absence check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) absence: Absence,
    /// Whether the caller should leave a [`Step`](super::steps::Step) of the filter's making.
    pub(crate) needs_step: bool,
}

/// The next work for a filter.
pub(super) enum Part {
    /// Begin a filter for `keys` keys.
    Begin { keys: u64 },
    /// Add a layer for `keys` keys.
    Extend { keys: u64 },
    /// See the latches from `latch` on free.
    Pass { latch: usize },
    /// Read the stored keys from one (included) to another (excluded).
    Read { bounds: (Vec<u8>, Option<Vec<u8>>) },
}

/// Keys that were read, and are not entered yet.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) hashes: Vec<u64>,
    /// The last of the keys.
    pub(super) last: Vec<u8>,
    /// The charge for reading them.
    pub(super) charge: i64,
    /// Whether no key is left after them.
    pub(super) is_last: bool,
}

/// The result of a chunk.
#[derive(Default)]
pub(super) struct Entered {
    /// Whether there is more to do.
    pub(super) goes_on: bool,
    /// The filter whose place another one has.
    pub(super) replaced: Option<Filter>,
}

#[derive(Default)]
pub(super) struct Filters {
    /// Answers questions.
    ready: Option<Filter>,
    /// Is being filled, to replace `ready`.
    pub(super) growing: Option<Growing>,
    /// The number of keys of late writes that were above the `top` of `ready`.
    beyond: u64,
    /// The number of keys that may be read. Below zero while no filter is to be made.
    credit: i64,
    /// The number of attempts that have failed since a filter was made.
    failures: u32,
}

/// A filter of one or several layers: it grows without the keys that it has.
pub(super) struct Filter {
    /// The highest key that it answers for.
    top: Vec<u8>,
    layers: Vec<Layer>,
    /// The number of its keys when it was made.
    made_of: u64,
    /// Whether there was no memory for a layer.
    cannot_grow: bool,
}

pub(super) struct Layer {
    pub(super) bloom: BloomFilter,
    /// The number of its keys, and the number that it was made for.
    pub(super) keys: u64,
    pub(super) capacity: u64,
    pub(super) _bytes: FilterBytes,
}

pub(super) struct Growing {
    pub(super) filter: Filter,
    pub(super) progress: Progress,
}

/// The progress of making a filter.
pub(super) enum Progress {
    /// All latches below this one were seen free since writes are entered into the filter.
    Passing(usize),
    /// All stored keys before this one are in the filter.
    Reading(Vec<u8>),
}

impl Filters {
    /// Enters a key that is not above the highest one. The write is late if the key is not above what was the highest one
    /// thousands of writes ago either.
    ///
    /// Returns whether the key is absent, and whether enough was paid for a step.
    #[inline]
    pub(super) fn admit(&mut self, key: &[u8], is_late: bool) -> (Absence, bool) {
        let hash = hash_of_key(key);
        // Whatever the other one answers: it is about to replace it, and must have the key then.
        if let Some(Growing { filter, .. }) = &mut self.growing
            && filter.covers(key)
        {
            filter.enter(hash);
        }
        let absence = match &mut self.ready {
            // Entered by the same call: the next write of the key gets the answer that it may be stored.
            Some(ready) if ready.covers(key) => {
                if ready.enter(hash) {
                    Absence::Proven
                } else {
                    Absence::Unproven
                }
            }
            _ => {
                // A key that is hardly below the highest one is one of several threads whose ids ascend: the next filter would not
                // answer for such keys either.
                self.beyond += u64::from(is_late);
                Absence::Unproven
            }
        };
        (absence, is_late && self.is_wanted() && self.pay())
    }

    /// Whether another filter would answer more questions, or is being made.
    #[inline]
    fn is_wanted(&self) -> bool {
        let Some(ready) = &self.ready else { return true };
        self.growing.is_some()
            || ready.is_full()
            || self.beyond >= ready.keys().max(FILTER_KEYS_MIN) / BEYOND_PART
    }

    /// Pays for some keys. Returns whether they are enough for a step.
    #[inline]
    fn pay(&mut self) -> bool {
        // A filter that is renewed is no hurry, and reading competes with the writes.
        let keys = if self.ready.is_some() { KEYS_PER_WRITE_WITH_FILTER } else { KEYS_PER_WRITE };
        self.credit = self.credit.saturating_add(keys);
        self.credit >= STEP_KEYS
    }

    /// The next work, if about `stored` keys are stored, if that is known. Returns `None` if no other filter is
    /// needed, or not enough keys are paid for.
    pub(super) fn next_part(&self, stored: Option<u64>) -> Option<Part> {
        if self.credit <= 0 || !self.is_wanted() {
            return None;
        }
        if let Some(Growing { filter, progress }) = &self.growing {
            return Some(match progress {
                // There are more stored keys than was known.
                _ if filter.needs_layer() => filter.extension(),
                Progress::Passing(latch) => Part::Pass { latch: *latch },
                Progress::Reading(from) => Part::Read { bounds: (from.clone(), Some(after(&filter.top))) },
            });
        }
        // Nothing is read again for a filter that is only full: where many keys are given, that would be often.
        if let Some(ready) = &self.ready
            && ready.is_full()
            && !ready.is_of_deleted(stored)
        {
            return Some(ready.extension());
        }
        // Twice as many as there are, so that it is not full at once.
        let keys = stored.map_or(0, |stored| GROWTH.saturating_mul(stored));
        Some(Part::Begin { keys: keys.clamp(FILTER_KEYS_MIN, LAYER_KEYS_MAX) })
    }

    /// Begins a filter that answers up to `top`.
    pub(super) fn begin(&mut self, top: Vec<u8>, layer: Layer) {
        let filter = Filter { top, layers: vec![layer], made_of: 0, cannot_grow: false };
        self.growing = Some(Growing { filter, progress: Progress::Passing(0) });
    }

    /// Adds a layer to the filter that is full.
    pub(super) fn extend(&mut self, layer: Layer) {
        // The one that is being made comes first: it is the larger one, and is about to answer.
        let growing = self.growing.as_mut().map(|growing| &mut growing.filter);
        let is_ready = growing.is_none();
        if let Some(filter) = growing.or(self.ready.as_mut()) {
            filter.layers.push(layer);
        }
        if is_ready {
            (self.credit, self.failures) = (0, 0);
        }
    }

    /// Enters keys that were read.
    pub(super) fn enter_read(&mut self, chunk: &Chunk) -> Entered {
        self.credit = self.credit.saturating_sub(chunk.charge);
        // Removed meanwhile, for lack of memory.
        let Some(Growing { filter, progress }) = &mut self.growing else { return Entered::default() };
        for &hash in &chunk.hashes {
            filter.enter(hash);
        }
        if !chunk.is_last {
            *progress = Progress::Reading(after(&chunk.last));
            // A full one is extended before more is read.
            return Entered { goes_on: self.credit > 0 && !filter.needs_layer(), replaced: None };
        }
        let mut made = self.growing.take().map(|growing| growing.filter);
        if let Some(made) = &mut made {
            made.made_of = made.keys();
        }
        // An overpayment is not kept: the next filter is paid for when it is wanted.
        (self.beyond, self.credit, self.failures) = (0, 0, 0);
        Entered { goes_on: false, replaced: std::mem::replace(&mut self.ready, made) }
    }

    /// Makes no filter for a while, after there was no memory for one or its keys could not be read. Returns those that are of no
    /// use any more.
    pub(super) fn give_up(&mut self) -> (Option<Growing>, Option<Filter>) {
        self.credit = -(PAUSE_KEYS << self.failures.min(PAUSE_DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        // An old filter answers worse and worse, and is in the way of a new one.
        (self.growing.take(), self.ready.take_if(|ready| ready.is_overfull()))
    }

    /// Goes on without memory for another layer, if the filter that is being made can do without. Returns whether it can.
    pub(super) fn go_on_full(&mut self) -> bool {
        let Some(Growing { filter, .. }) = &mut self.growing else { return false };
        filter.cannot_grow = true;
        !filter.is_overfull()
    }
}

/// The lowest key after this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Filter {
    #[inline]
    fn covers(&self, key: &[u8]) -> bool {
        key <= self.top.as_slice()
    }

    /// Enters a hash. Returns `true` if it is new.
    #[inline]
    fn enter(&mut self, hash: u64) -> bool {
        let Some((last, older)) = self.layers.split_last_mut() else { return false };
        // All are asked, whatever the first one says: so the waits for memory are one.
        let is_known = older.iter().fold(false, |is_known, layer| is_known | layer.bloom.may_have(hash));
        let is_new = !is_known && last.bloom.insert(hash);
        last.keys += u64::from(is_new);
        is_new
    }

    fn keys(&self) -> u64 {
        self.layers.iter().map(|layer| layer.keys).sum()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.layers.last().is_some_and(|last| last.keys >= last.capacity)
    }

    fn is_overfull(&self) -> bool {
        self.layers.last().is_some_and(|last| last.keys > OVERFULL_MAX * last.capacity)
    }

    fn needs_layer(&self) -> bool {
        self.is_full() && (!self.cannot_grow || self.is_overfull())
    }

    /// Whether most of its keys were deleted, as far as the number of stored ones shows.
    fn is_of_deleted(&self, stored: Option<u64>) -> bool {
        let most = match stored {
            Some(stored) => DELETED_MAX.saturating_mul(stored.max(FILTER_KEYS_MIN)),
            None => GROWN_MAX.saturating_mul(self.made_of.max(FILTER_KEYS_MIN)),
        };
        self.keys() > most
    }

    fn extension(&self) -> Part {
        Part::Extend { keys: GROWTH.saturating_mul(self.keys()).min(LAYER_KEYS_MAX) }
    }
}
