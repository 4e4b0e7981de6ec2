//! Short in-memory locks on keys, striped.
//!
//! A write holds the latches of its record key and of its unique keys from the uniqueness check until its commit has
//! returned. An operation acquires all its latches together, in ascending order of stripes. Every operation uses this
//! order, so no two can wait for each other. Two keys may share a stripe; that costs time, never correctness: what lasts
//! long is done without latches.
//!
//! While transactions are in use, each write leaves a note of its keys in their stripes before it lets the latches go. So a
//! transaction sees what was written since its snapshot without reading it, and claims keys for itself.

mod notes;
mod registry;

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use base::lock_order::{self, Held, Place};
use base::metrics::timing::Timing;
use base::sync::{self, Mutex, MutexGuard};
use crossbeam::utils::CachePadded;
use query::operation::{Interruption, OperationContext};

use self::notes::Notes;
pub use self::notes::{OfHash, Owner};
use self::registry::Registry;
use crate::options::PlantedFault;

/// The number of stripes. A multiple of 64, so that a set of stripes fills whole words. The checker of interleavings gets
/// few: each is a point at which it may switch threads, and some operations acquire all of them.
const STRIPES: usize = if cfg!(feature = "shuttle") { 64 } else { 1024 };
const WORDS: usize = STRIPES / 64;

/// The time that an operation that wants all latches keeps those that it has while it waits for others, at first and
/// at most.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The latches of a store.
pub struct Latches {
    // Each stripe has a cache line of its own: threads on neighboring stripes would slow each other down.
    stripes: Box<[CachePadded<Mutex<Notes>>]>,
    registry: Registry,
    /// The waits of operations for each other.
    pub(super) waits: Timing,
}

/// The stripes that an operation will hold, collected before the first is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatchSet {
    words: [u64; WORDS],
    /// The hashes of the keys, in the order in which they were added. Absent if no transaction was in use when the set was begun.
    hashes: Option<Vec<u64>>,
}

/// Held latches; dropping releases them.
#[must_use]
pub struct Latched<'a> {
    first: Option<MutexGuard<'a, Notes>>,
    others: Vec<MutexGuard<'a, Notes>>,
    keys: Keys,
    /// Present if writes are to be noted. Looked up under the latches, once.
    noting: Option<&'a Registry>,
    _place: Held,
}

/// Hashes of keys.
pub type Hashes = HashSet<u64, BuildHasherDefault<OfHash>>;

/// The hashes of keys that were read and are not written, in the order of their stripes.
pub struct ReadKeys(Vec<u64>);

/// The hashes of the keys that are latched.
enum Keys {
    One(u64),
    Set(Vec<u64>),
    /// Any keys of the stripes.
    Any,
}

impl Keys {
    /// In the order of their stripes, which is that of the guards.
    fn in_order(hashes: Vec<u64>) -> Self {
        Self::Set(in_order(hashes))
    }
}

impl FromIterator<u64> for ReadKeys {
    fn from_iter<I: IntoIterator<Item = u64>>(hashes: I) -> Self {
        Self(in_order(hashes.into_iter().collect()))
    }
}

fn in_order(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.sort_unstable_by_key(|&hash| stripe_of(hash));
    hashes
}

impl LatchSet {
    /// Adds the stripe of `key`. Equal keys of different families share a stripe, which only costs time.
    #[inline]
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(hash_of(key));
    }

    /// Adds the stripe of a key whose hash is known.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        self.add_stripe(hash);
        if let Some(hashes) = &mut self.hashes {
            hashes.push(hash);
        }
    }

    /// Adds the stripes of keys that are read and not written: they get no note.
    pub fn add_read(&mut self, keys: &ReadKeys) {
        for &hash in &keys.0 {
            self.add_stripe(hash);
        }
    }

    #[inline]
    fn add_stripe(&mut self, hash: u64) {
        let stripe = stripe_of(hash);
        if let Some(word) = self.words.get_mut(stripe / 64) {
            *word |= 1 << (stripe % 64);
        }
    }

    /// Whether an operation that holds this set holds every latch of `other` too, and notes its keys.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, other)| own & other == *other)
            && match (&self.hashes, &other.hashes) {
                (Some(own), Some(other)) => other.iter().all(|hash| own.contains(hash)),
                // Without hashes all keys of the stripes are noted.
                (own, _) => own.is_none(),
            }
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
    pub(crate) fn new(fault: PlantedFault) -> Self {
        let stripes =
            (0..STRIPES).map(|stripe| CachePadded::new(Mutex::new(Notes::of(stripe, fault)))).collect();
        Self { stripes, registry: Registry::new(fault), waits: Timing::default() }
    }

    /// An empty set.
    #[inline]
    pub fn set(&self) -> LatchSet {
        LatchSet { words: [0; WORDS], hashes: self.registry.is_noting().then(Vec::new) }
    }

    /// Waits for the latch of one key. Fails if the operation must end before.
    #[inline]
    pub fn lock_one(&self, key: &[u8], operation: &OperationContext) -> Result<Latched<'_>, Interruption> {
        self.lock_hash(hash_of(key), operation)
    }

    #[inline]
    fn lock_hash(&self, hash: u64, operation: &OperationContext) -> Result<Latched<'_>, Interruption> {
        let place = lock_order::take(Place::Latches);
        let is_off = self.is_off_early();
        let first = self.stripes.get(stripe_of(hash)).map(|stripe| self.lock_stripe(stripe, operation));
        let first = first.transpose()?;
        let noting = if is_off { None } else { self.noting() };
        Ok(Latched { first, others: Vec::new(), keys: Keys::One(hash), noting, _place: place })
    }

    /// Waits for all latches of the set. Fails if the operation must end before, and holds none then.
    #[inline]
    pub fn lock(&self, set: &LatchSet, operation: &OperationContext) -> Result<Latched<'_>, Interruption> {
        let place = lock_order::take(Place::Latches);
        let is_off = self.is_off_early();
        // `stripes` ascends, and that alone keeps two operations from waiting for each other.
        let stripes = set.stripes().filter_map(|stripe| self.stripes.get(stripe));
        let mut locked = stripes.map(|stripe| self.lock_stripe(stripe, operation));
        // If one is not to be had, those before it are let go.
        let first = locked.next().transpose()?;
        let others = locked.collect::<Result<_, _>>()?;
        let noting = if is_off { None } else { self.noting() };
        // Hashes are of use only where they are noted.
        let keys = match &set.hashes {
            Some(hashes) if noting.is_some() => Keys::in_order(hashes.clone()),
            _ => Keys::Any,
        };
        Ok(Latched { first, others, keys, noting, _place: place })
    }

    /// The registry in which writes are noted, if they are. The caller holds its latches.
    #[inline]
    fn noting(&self) -> Option<&Registry> {
        self.registry.is_noting().then_some(&self.registry)
    }

    /// Whether a planted fault, which asks before it has its latches, finds that nothing is to be noted. The checker of interleavings alone
    /// looks for it.
    #[inline]
    fn is_off_early(&self) -> bool {
        if !cfg!(feature = "shuttle") || self.registry.fault != PlantedFault::NotingAskedEarly {
            return false;
        }
        let is_off = self.noting().is_none();
        // Until the first transaction has seen every latch free.
        let mut turns = 0..10 * STRIPES;
        while is_off && self.registry.oldest().is_none() && turns.next().is_some() {
            sync::yield_now();
        }
        is_off
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
            // If many commits wait for syncs, each of a few milliseconds, one is always running.
            patience = (2 * patience).min(PATIENCE_MAX);
        }
    }

    /// Waits for all latches, for an operation that writes the keys of a set alone: only those are noted. Fails if the operation must
    /// end before.
    pub fn lock_all_for(
        &self,
        set: LatchSet,
        operation: &OperationContext,
    ) -> Result<Latched<'_>, Interruption> {
        let mut patience = PATIENCE;
        let mut latched = loop {
            match self.try_lock_all(patience) {
                Ok(latched) => break latched,
                Err(busy) => drop(self.timed(|| sync::lock_for(operation, busy))?),
            }
            patience = (2 * patience).min(PATIENCE_MAX);
        };
        latched.keys = Keys::in_order(set.hashes.unwrap_or_default());
        Ok(latched)
    }

    /// Acquires all latches within `patience`. Fails with one that is busy for longer.
    fn try_lock_all(&self, patience: Duration) -> Result<Latched<'_>, &Mutex<Notes>> {
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
        Ok(Latched { first: None, others, keys: Keys::Any, noting: self.noting(), _place: place })
    }

    #[inline]
    fn lock_stripe<'a>(
        &self,
        stripe: &'a Mutex<Notes>,
        operation: &OperationContext,
    ) -> Result<MutexGuard<'a, Notes>, Interruption> {
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

/// The latches of transactions.
impl Latches {
    /// Begins a transaction on the present state, which `take` makes and gives the sequence number of. Until it [ends](Self::end),
    /// writers leave notes of their keys. Fails if the operation must end before the first transaction of all has seen every
    /// latch free.
    pub fn begin<T>(
        &self,
        operation: &OperationContext,
        take: impl Fn() -> (u64, T),
    ) -> Result<(Owner, T), Interruption> {
        loop {
            if let Some(begun) = self.registry.add(&take) {
                return Ok(begun);
            }
            // They may be switched off again before the next round.
            self.registry.switch_on(operation, || {
                if self.registry.fault == PlantedFault::PassLeftOut {
                    return Ok(());
                }
                sync::fetch(self.stripes.iter().map(|stripe| &**stripe));
                self.stripes.iter().try_for_each(|stripe| {
                    self.lock_stripe(stripe, operation)?.clear();
                    Ok(())
                })
            })?;
        }
    }

    /// Ends a transaction on the state of `sequence`, and withdraws the claims that it still has.
    pub fn end(&self, owner: Owner, sequence: u64, claims: impl IntoIterator<Item = u64>) {
        let _place = lock_order::take(Place::Latches);
        let claims = claims.into_iter().filter(|_| self.registry.fault != PlantedFault::ClaimsKept);
        for hash in claims {
            if let Some(stripe) = self.stripes.get(stripe_of(hash)) {
                stripe.lock().release(hash, owner, || self.registry.oldest().unwrap_or(sequence));
            }
        }
        self.registry.remove(sequence);
    }

    /// Claims the key of a hash for a transaction that reads the state of `sequence`. Returns `false` if the key was written since, or
    /// another transaction has it: of two that want a key, one must begin again.
    pub fn claim(
        &self,
        hash: u64,
        owner: Owner,
        sequence: u64,
        operation: &OperationContext,
    ) -> Result<bool, Interruption> {
        let mut latched = self.lock_hash(hash, operation)?;
        Ok(latched.first.as_mut().is_some_and(|notes| notes.claim(hash, owner, sequence)))
    }

    /// Lets writers leave no more notes, if no transaction was open for `time`.
    pub fn stop_noting_after(&self, time: Duration) {
        self.registry.switch_off_after(time);
    }
}

impl Latched<'_> {
    /// To be called when RocksDB's write has returned, whether it succeeded or not, and before it is synced. `sequence` gives the
    /// sequence number of the newest write.
    #[inline]
    pub(crate) fn written(&mut self, sequence: impl FnOnce() -> u64) {
        if let Some(registry) = self.noting {
            self.note(registry, sequence());
        }
    }

    #[cold]
    fn note(&mut self, registry: &Registry, stamp: u64) {
        let oldest = || registry.oldest().unwrap_or(stamp);
        if registry.fault == PlantedFault::NotesLeftLate {
            for guard in self.first.iter_mut().chain(&mut self.others) {
                MutexGuard::unlocked(guard, sync::yield_now);
            }
        }
        if matches!(self.keys, Keys::Any) {
            for notes in self.first.iter_mut().chain(&mut self.others) {
                notes.any_written(stamp);
            }
        }
        self.visit(|notes, hash| notes.written(hash, stamp, oldest));
    }

    /// Whether a key that is latched may have been written after `sequence`.
    pub fn is_written_since(&mut self, sequence: u64) -> bool {
        // Without the keys nothing is known.
        let mut is_written = matches!(self.keys, Keys::Any);
        self.visit(|notes, hash| is_written |= notes.is_written_since(hash, sequence));
        is_written
    }

    /// Whether one of the keys of a list, whose stripes are latched, may have been written after `sequence`.
    pub fn are_written_since(&mut self, keys: &ReadKeys, sequence: u64) -> bool {
        let mut is_written = false;
        let guards = self.first.iter_mut().chain(&mut self.others);
        visit(guards, &keys.0, |notes, hash| is_written |= notes.is_written_since(hash, sequence));
        is_written
    }

    /// Withdraws a transaction's claims to the keys that are latched.
    pub fn release(&mut self, owner: Owner) {
        let noting = self.noting;
        let oldest = || noting.and_then(Registry::oldest).unwrap_or_default();
        self.visit(|notes, hash| notes.release(hash, owner, oldest));
    }

    /// Visits the keys that are known, each with the notes of its stripe.
    fn visit(&mut self, see: impl FnMut(&mut Notes, u64)) {
        let hashes = match &self.keys {
            Keys::One(hash) => std::slice::from_ref(hash),
            Keys::Set(hashes) => hashes.as_slice(),
            Keys::Any => &[],
        };
        visit(self.first.iter_mut().chain(&mut self.others), hashes, see);
    }

    /// Whether writes are noted.
    #[inline]
    pub fn is_noting(&self) -> bool {
        self.noting.is_some()
    }
}

/// Visits keys, which are in the order of their stripes, each with the notes of its stripe.
fn visit<'g, 'a: 'g>(
    guards: impl Iterator<Item = &'g mut MutexGuard<'a, Notes>>,
    hashes: &[u64],
    mut see: impl FnMut(&mut Notes, u64),
) {
    let mut guards = guards.peekable();
    for &hash in hashes {
        // The guards are in that order too.
        while guards.next_if(|notes| notes.stripe < stripe_of(hash)).is_some() {}
        if let Some(notes) = guards.peek_mut() {
            see(notes, hash);
        }
    }
}

#[inline]
fn stripe_of(hash: u64) -> usize {
    // The low bits of a product depend on the low bits of its factors alone, so the high ones are used. A hash has them as they were.
    (hash >> 32) as usize % STRIPES
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

    /// The notes of a writer for the keys that it has latched, by `write` of sequence number 100.
    fn noted(latches: &Latches, keys: &[&[u8]], write: impl FnOnce(&mut Latched<'_>)) -> Vec<bool> {
        let operation = OperationContext::default();
        let mut set = latches.set();
        for key in keys {
            set.add(key);
        }
        let mut held = latches.lock(&set, &operation).expect("free");
        write(&mut held);
        drop(held);
        let is_written = |key: &&[u8]| {
            let mut held = latches.lock_one(key, &operation).expect("free");
            assert!(!held.is_written_since(100));
            held.is_written_since(99)
        };
        keys.iter().map(is_written).collect()
    }

    fn switch_on(latches: &Latches) {
        latches.registry.switch_on(&OperationContext::default(), || Ok(())).expect("nothing waits");
    }

    const KEYS: [&[u8]; 3] = [b"one", b"two", b"three"];

    #[test]
    fn writers_note_their_keys_while_transactions_are_in_use() {
        let latches = Latches::new(PlantedFault::None);
        let write = |latched: &mut Latched<'_>| latched.written(|| 100);
        assert_eq!(noted(&latches, &KEYS, write), [false; 3]);
        // Begun before the first transaction, and locked after it: all keys of its stripes count as written.
        let mut early = latches.set();
        early.add(b"early");
        switch_on(&latches);
        let mut held = latches.lock(&early, &OperationContext::default()).expect("free");
        held.written(|| 50);
        drop(held);
        assert!(latches.lock_one(b"early", &OperationContext::default()).expect("free").is_written_since(49));
        assert_eq!(noted(&latches, &KEYS, write), [true; 3]);
        assert!(
            !latches.lock_one(b"another", &OperationContext::default()).expect("free").is_written_since(50)
        );
        latches.stop_noting_after(Duration::ZERO);
        assert_eq!(noted(&latches, &[b"later"], |latched| latched.written(|| 100)), [false]);
    }

    #[test]
    fn of_two_transactions_the_first_to_claim_a_key_has_it() {
        let latches = Latches::new(PlantedFault::None);
        switch_on(&latches);
        let operation = OperationContext::default();
        let begin = || latches.registry.add(|| (100, ())).expect("switched on").0;
        let (one, two) = (begin(), begin());
        let claim = |key: &[u8], owner| {
            latches.claim(hash_of(key), owner, 100, &operation).expect("nothing is waited for")
        };
        assert!(claim(b"key", one) && claim(b"key", one) && !claim(b"key", two) && claim(b"other", two));
        latches.end(one, 100, [hash_of(b"key")]);
        assert!(claim(b"key", two));
        latches.lock_one(b"third", &operation).expect("free").written(|| 101);
        assert!(!claim(b"third", two));
        // One that is open keeps notes switched on.
        latches.stop_noting_after(Duration::ZERO);
        assert!(latches.registry.is_noting());
        latches.end(two, 100, [&b"key"[..], b"other"].map(hash_of));
        latches.stop_noting_after(Duration::ZERO);
        assert!(!latches.registry.is_noting());
    }

    #[test]
    fn planted_claims_that_are_kept_are_found() {
        for (fault, is_free) in [(PlantedFault::None, true), (PlantedFault::ClaimsKept, false)] {
            let latches = Latches::new(fault);
            switch_on(&latches);
            let (operation, hash) = (OperationContext::default(), hash_of(b"key"));
            let begin = || latches.registry.add(|| (100, ())).expect("switched on").0;
            let (aborted, other) = (begin(), begin());
            assert!(latches.claim(hash, aborted, 100, &operation).expect("nothing is waited for"));
            latches.end(aborted, 100, [hash]);
            assert_eq!(latches.claim(hash, other, 100, &operation).expect("nothing is waited for"), is_free);
        }
    }

    /// An operation that has the latches of a set must note the keys that it is to write, and not only those of the same stripes.
    #[test]
    fn a_set_covers_another_only_with_its_keys() {
        let latches = Latches::new(PlantedFault::None);
        switch_on(&latches);
        let set = |keys: &[&[u8]]| {
            let mut set = latches.set();
            for key in keys {
                set.add(key);
            }
            set
        };
        let own = set(&[b"a"]);
        let mut numbers = (0_u32..).map(u32::to_be_bytes);
        let (hash, stripe) = (hash_of(b"a"), stripe_of(hash_of(b"a")));
        let twin = numbers.find(|key| stripe_of(hash_of(key)) == stripe && hash_of(key) != hash);
        let twin = twin.expect("there are few stripes");
        assert!(own.covers(&set(&[b"a"])) && !own.covers(&set(&[b"a", &twin])));
    }

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
        let latches = Latches::new(PlantedFault::None);
        let all = latches.lock_all();
        assert!(latches.stripes.iter().all(|stripe| stripe.try_lock().is_none()));
        drop(all);
        assert!(latches.stripes.iter().all(|stripe| stripe.try_lock().is_some()));
    }

    /// An operation that wants all latches waits for one that is held, and keeps none meanwhile.
    #[test]
    fn waiting_for_all_keeps_no_other_latch() {
        let latches = Latches::new(PlantedFault::None);
        let last = latches.stripes.last().expect("there are many").lock();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(latches.lock_all()));
            // Until it has acquired the first ones, and let them go again.
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
        drop(Latches::new(PlantedFault::None).lock(&set, &OperationContext::default()));
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
        let latches = Latches::new(PlantedFault::None);
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
        let latches = Latches::new(PlantedFault::None);
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
        let (latches, counter) = (Latches::new(PlantedFault::None), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| count_under_latch(&latches, &counter));
            }
        });
        assert_eq!(counter.into_inner(), 4000);
    }
}
