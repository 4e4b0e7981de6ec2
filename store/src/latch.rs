//! Short in-memory locks on keys, striped.
//!
//! A write holds the latches of its record key and of its unique keys from the uniqueness check until its commit has
//! returned. An operation takes all its latches together, in ascending order of stripes. Every operation uses this
//! order, so no two can wait for each other. Two keys may share a stripe; that costs time, never correctness: what takes
//! long is done without latches.

use std::time::{Duration, Instant};

use base::lock_order::{self, Held, Place};
use base::metrics::timing::Timing;
use base::sync::{self, Mutex, MutexGuard};
use crossbeam::utils::CachePadded;
use query::operation::{Interruption, OperationContext};

/// The number of stripes. A multiple of 64, so that a set of stripes fills whole words. The checker of interleavings gets
/// few: each is a point at which it may switch threads, and some operations take all of them.
const STRIPES: usize = if cfg!(feature = "shuttle") { 64 } else { 1024 };
const WORDS: usize = STRIPES / 64;

/// How long an operation that wants all latches keeps those that it has while it waits for others, at first and at most.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The latches of a store.
pub struct Latches {
    // Each stripe has a cache line of its own: threads on neighboring stripes would slow each other down.
    stripes: Box<[CachePadded<Mutex<()>>]>,
    /// How long operations have waited for each other.
    pub(super) waits: Timing,
}

/// The stripes that an operation will hold, collected before the first is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatchSet {
    words: [u64; WORDS],
}

/// Held latches; dropping releases them.
#[must_use]
pub struct Latched<'a> {
    _first: Option<MutexGuard<'a, ()>>,
    _others: Vec<MutexGuard<'a, ()>>,
    _place: Held,
}

impl LatchSet {
    /// Adds the stripe of `key`. Equal keys of different families share a stripe, which only costs time.
    #[inline]
    pub fn add(&mut self, key: &[u8]) {
        let stripe = stripe_of(key);
        if let Some(word) = self.words.get_mut(stripe / 64) {
            *word |= 1 << (stripe % 64);
        }
    }

    /// Whether an operation that holds this set holds every latch of `other` too.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, other)| own & other == *other)
    }

    /// Whether there is no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The stripes, ascending.
    fn stripes(&self) -> Stripes<'_> {
        let [word, rest @ ..] = &self.words;
        Stripes { word: *word, rest, first: 0 }
    }
}

/// The stripes of a set that are left.
struct Stripes<'s> {
    /// The bits that are left of a word, and the words after it.
    word: u64,
    rest: &'s [u64],
    /// The stripe of that word's lowest bit.
    first: usize,
}

impl Iterator for Stripes<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        // Most words of most sets are empty: a write has a few keys.
        while self.word == 0 {
            let (word, rest) = self.rest.split_first()?;
            (self.word, self.rest) = (*word, rest);
            self.first += 64;
        }
        let lowest = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.first + lowest)
    }
}

impl Latches {
    /// All latches, free.
    pub(crate) fn new() -> Self {
        let stripes = (0..STRIPES).map(|_| CachePadded::new(Mutex::new(()))).collect();
        Self { stripes, waits: Timing::default() }
    }

    /// Waits for the latch of one key. Fails if the operation must end before.
    #[inline]
    pub fn lock_one(&self, key: &[u8], operation: &OperationContext) -> Result<Latched<'_>, Interruption> {
        let place = lock_order::take(Place::Latches);
        let first = self.stripes.get(stripe_of(key)).map(|stripe| self.lock_stripe(stripe, operation));
        Ok(Latched { _first: first.transpose()?, _others: Vec::new(), _place: place })
    }

    /// Waits for all latches of the set. Fails if the operation must end before, and holds none then.
    #[inline]
    pub fn lock(&self, set: &LatchSet, operation: &OperationContext) -> Result<Latched<'_>, Interruption> {
        let place = lock_order::take(Place::Latches);
        // `stripes` ascends, and that alone keeps two operations from waiting for each other.
        let stripes = set.stripes().filter_map(|stripe| self.stripes.get(stripe));
        let mut locked = stripes.map(|stripe| self.lock_stripe(stripe, operation));
        // If one is not to be had, those before it are let go.
        let first = locked.next().transpose()?;
        let others = locked.collect::<Result<_, _>>()?;
        Ok(Latched { _first: first, _others: others, _place: place })
    }

    /// The first latch from this one on that is busy. Each of those before it was free at some moment of the call.
    pub fn first_busy(&self, from: usize) -> Option<usize> {
        // Each is let go at once: the caller wants to know that no write from before is under way, and not to keep others out.
        let mut stripes = self.stripes.iter().enumerate().skip(from);
        stripes.find_map(|(at, stripe)| stripe.try_lock().is_none().then_some(at))
    }

    /// Waits for all latches. While they are held, no write is between its commit and the update of memory that follows.
    ///
    /// A write holds its latch longer if its commit waits for a sync, or for room in memory. Then all others are let go before
    /// it is waited for: what is written elsewhere must not wait with it.
    pub fn lock_all(&self) -> Latched<'_> {
        let mut patience = PATIENCE;
        loop {
            match self.try_lock_all(patience) {
                Ok(latched) => return latched,
                Err(busy) => drop(self.timed(|| busy.lock())),
            }
            // Where many commits wait for syncs, each of a few milliseconds, one is always under way.
            patience = (2 * patience).min(PATIENCE_MAX);
        }
    }

    /// Takes all latches within `patience`. Fails with one that is busy for longer.
    fn try_lock_all(&self, patience: Duration) -> Result<Latched<'_>, &Mutex<()>> {
        let place = lock_order::take(Place::Latches);
        let mut others = Vec::with_capacity(STRIPES);
        let mut until = None;
        for stripe in &self.stripes {
            let free = stripe.try_lock().or_else(|| {
                let until = *until.get_or_insert_with(|| Instant::now() + patience);
                sync::try_lock_for(stripe, until.saturating_duration_since(Instant::now()))
            });
            others.push(free.ok_or(&**stripe)?);
        }
        Ok(Latched { _first: None, _others: others, _place: place })
    }

    #[inline]
    fn lock_stripe<'a>(
        &self,
        stripe: &'a Mutex<()>,
        operation: &OperationContext,
    ) -> Result<MutexGuard<'a, ()>, Interruption> {
        // Nearly always free, and then no clock is read.
        match stripe.try_lock() {
            Some(held) => Ok(held),
            None => self.timed(|| sync::lock_for(operation, stripe)),
        }
    }

    #[cold]
    fn timed<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let waited = wait();
        self.waits.record_since(begin);
        waited
    }
}

#[inline]
fn stripe_of(key: &[u8]) -> usize {
    // The low bits of a product depend on the low bits of its factors alone, so the high ones are taken.
    (product_of(key) >> 32) as usize % STRIPES
}

/// A hash of which every bit depends on all bytes of the key.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    let product = product_of(key);
    product ^ product >> 32
}

/// A hash like FNV-1a, but over 8 bytes at a time, after which the high bits depend on all bytes.
#[inline]
fn product_of(key: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, rest) = key.as_chunks::<8>();
    // The length is hashed too, because zeros at the front of the tail do not change it.
    let mut hash = key.len() as u64;
    for chunk in chunks {
        hash = (hash ^ u64::from_le_bytes(*chunk)).wrapping_mul(PRIME).rotate_left(29);
    }
    let tail = rest.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte));
    (hash ^ tail).wrapping_mul(PRIME)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use query::operation::Allowance;

    use super::*;

    #[test]
    fn stripes_of_a_set_ascend_and_are_distinct() {
        let mut set = LatchSet::default();
        for number in 0..5000_u32 {
            set.add(&number.to_be_bytes());
        }
        let stripes: Vec<usize> = set.stripes().collect();
        assert!(stripes.is_sorted_by(|a, b| a < b));
        assert!(stripes.len() > STRIPES * 9 / 10, "5000 keys use only {} stripes", stripes.len());
    }

    #[test]
    fn all_latches_exclude_every_key() {
        let latches = Latches::new();
        let all = latches.lock_all();
        assert!(latches.stripes.iter().all(|stripe| stripe.try_lock().is_none()));
        drop(all);
        assert!(latches.stripes.iter().all(|stripe| stripe.try_lock().is_some()));
    }

    /// What wants all latches waits for one that is held, and keeps none meanwhile.
    #[test]
    fn waiting_for_all_keeps_no_other_latch() {
        let latches = Latches::new();
        let last = latches.stripes.last().expect("there are many").lock();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(latches.lock_all()));
            // Until it has taken the first ones, and let them go again.
            let first = latches.stripes.first().expect("there are many");
            while first.try_lock().is_some() {
                std::thread::yield_now();
            }
            drop(first.lock());
            assert!(!waiting.is_finished());
            drop(last);
        });
    }

    #[test]
    fn one_key_twice_is_one_latch() {
        let mut set = LatchSet::default();
        set.add(b"same");
        set.add(b"same");
        assert_eq!(set.stripes().count(), 1);
        drop(Latches::new().lock(&set, &OperationContext::default()));
    }

    #[test]
    fn a_set_covers_its_parts_and_nothing_else() {
        let of = |keys: &[&[u8]]| {
            let mut set = LatchSet::default();
            for key in keys {
                set.add(key);
            }
            set
        };
        let (one, two) = (of(&[b"a"]), of(&[b"a", b"b"]));
        assert!(two.covers(&one) && two.covers(&two) && two.covers(&of(&[])));
        assert!(!one.covers(&two) && !of(&[]).covers(&one));
    }

    #[track_caller]
    fn lock_often(latches: &Latches, keys: &[[u8; 4]]) {
        for _ in 0..2000 {
            let mut set = LatchSet::default();
            for key in keys {
                set.add(key);
            }
            drop(latches.lock(&set, &OperationContext::default()));
        }
    }

    #[test]
    fn opposite_orders_of_keys_never_deadlock() {
        let latches = Latches::new();
        let keys: Vec<[u8; 4]> = (0..64_u32).map(u32::to_be_bytes).collect();
        let reversed: Vec<[u8; 4]> = keys.iter().rev().copied().collect();
        std::thread::scope(|scope| {
            scope.spawn(|| lock_often(&latches, &keys));
            scope.spawn(|| lock_often(&latches, &reversed));
        });
    }

    /// A write waited for the latch of one that waited for room or for a sync, whatever its own limit of time was.
    #[test]
    fn an_operation_whose_time_is_over_waits_no_longer() {
        let latches = Latches::new();
        let _held = latches.lock_one(b"key", &OperationContext::default());
        let time = Some(Duration::from_millis(1));
        let operation = OperationContext::new(Allowance { time, ..Allowance::default() });
        assert!(latches.lock_one(b"key", &operation).is_err());
        let mut set = LatchSet::default();
        for key in [&b"key"[..], b"a", b"b", b"c"] {
            set.add(key);
        }
        assert!(latches.lock(&set, &operation).is_err());
        // None of the set is held any more.
        let free = latches.stripes.iter().filter(|stripe| stripe.try_lock().is_some()).count();
        assert_eq!(free, STRIPES - 1);
    }

    fn count_under_latch(latches: &Latches, counter: &AtomicU32) {
        for _ in 0..1000 {
            let _held = latches.lock_one(b"key", &OperationContext::default());
            let seen = counter.load(Ordering::Relaxed);
            counter.store(seen + 1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_latched_key_keeps_others_out() {
        let (latches, counter) = (Latches::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| count_under_latch(&latches, &counter));
            }
        });
        assert_eq!(counter.into_inner(), 4000);
    }
}
