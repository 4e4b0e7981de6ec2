//! Records that are looked up again and again, found by one hash.
//!
//! RocksDB looks for a record in memtables, a filter, an index and a block, each time. Here are copies of those that were
//! asked for more than once lately. A copy is always the newest state of its record: a write takes out the records that it
//! changes before RocksDB can show the change, and until the write has ended no reader puts a record of the same shard
//! in. A reader who began before the write is told apart by the shard's version. So a reader who sees a change anywhere
//! never finds an older copy afterwards. Readers of snapshots do not ask here.
//!
//! A write that only adds records has nothing to do here: the absence of a record is not kept.

use std::hash::{BuildHasherDefault, Hasher};

use base::sync::{Mutex, MutexGuard, yield_now};
use crossbeam::utils::CachePadded;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::latch::hash_of;
use crate::options::PlantedFault;

/// A power of two, of at most 64. The checker of interleavings gets few: each is a point at which it may switch threads.
const SHARDS: usize = if cfg!(feature = "shuttle") { 2 } else { 64 };
/// What a record costs beside its bytes: its place in a table and in two queues, and what the allocator adds.
const ENTRY_BYTES: u64 = 96;
/// The bytes of a typical record, for the sizes of tables.
const TYPICAL_BYTES: usize = 256;
/// How often a reader with a planted fault lets other threads go first.
const PLANTED_YIELDS: u32 = 50;
/// A record that is larger than this part of a shard is not kept: it would drive out too many others.
const SHARE_MAX: usize = 8;

/// Copies of records. Without capacity it keeps nothing.
pub(super) struct RecordCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    record_bytes_max: usize,
    fault: PlantedFault,
}

struct Shard {
    records: Cache<u64, Kept, ByBytes, BuildHasherDefault<Hashed>>,
    /// A mark of the key that was looked for last at each place. A record is kept when it is asked for again while its
    /// mark is there, so that a walk through all records drives out none.
    asked: Box<[u64]>,
    /// How many writes that change records of the shard have begun and not ended.
    writes: u32,
    /// How many have begun.
    version: u64,
    hits: u64,
    misses: u64,
}

/// A record's key and bytes, one after the other.
struct Kept {
    key_length: usize,
    bytes: Box<[u8]>,
}

/// What a look-up found.
pub(super) enum LookedUp {
    Record(Vec<u8>),
    /// Nothing. The record may be kept once it was read, if there is a place for it.
    Nothing(Option<Place>),
}

/// The place of a record that is to be read and kept.
pub(super) struct Place {
    hash: u64,
    version: u64,
}

/// The records that a batch changes.
#[derive(Default)]
pub(super) struct Changes {
    hashes: Vec<u64>,
    /// From a key (included) to another (excluded).
    ranges: Vec<[Box<[u8]>; 2]>,
}

/// A write that changes records, until it is dropped.
#[must_use]
pub(super) struct Changing<'a> {
    cache: &'a RecordCache,
    /// A bit for each shard.
    shards: u64,
}

/// A write that changes one record, until it is dropped.
#[must_use]
pub(super) struct ChangingOne<'a> {
    changing: Changing<'a>,
    hash: u64,
    /// Of the shard, if the record was there.
    version: Option<u64>,
}

/// What the cache did and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCacheSizes {
    pub(super) bytes: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl RecordCache {
    /// A cache of at most `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        let of_shard = capacity / SHARDS;
        let shards = if of_shard == 0 { 0 } else { SHARDS };
        let shards = (0..shards).map(|_| CachePadded::new(Mutex::new(Shard::new(of_shard)))).collect();
        Self { shards, record_bytes_max: of_shard / SHARE_MAX, fault: PlantedFault::None }
    }

    /// Plants a fault.
    pub(super) fn plant(&mut self, fault: PlantedFault) {
        self.fault = fault;
    }

    /// Looks for the newest state of a record.
    #[inline]
    pub(super) fn look_up(&self, key: &[u8]) -> LookedUp {
        let hash = hash_of(key);
        let Some(mut shard) = self.shard(hash) else { return LookedUp::Nothing(None) };
        let found = shard.records.get(&hash).and_then(|kept| kept.record_of(key)).map(<[u8]>::to_vec);
        if let Some(record) = found {
            shard.hits += 1;
            return LookedUp::Record(record);
        }
        // While a write is under way nothing can be kept, and the mark is made all the same: the next look-up finds it.
        shard.misses += 1;
        let is_wanted = shard.is_asked_again(hash) && shard.writes == 0;
        LookedUp::Nothing(is_wanted.then_some(Place { hash, version: shard.version }))
    }

    /// Keeps a record that was read after `look_up` had given its place, unless a write may have changed it since.
    pub(super) fn keep(&self, place: &Place, key: &[u8], record: &[u8]) {
        if key.len() + record.len() > self.record_bytes_max {
            return;
        }
        // Outside of the lock, because it allocates.
        let kept = Kept::new(key, record);
        if self.fault == PlantedFault::CopiesKeptLate {
            // So that others do something in between.
            (0..PLANTED_YIELDS).for_each(|_| yield_now());
        }
        let Some(mut shard) = self.shard(place.hash) else { return };
        let is_newest = shard.writes == 0 && shard.version == place.version;
        if is_newest || self.fault == PlantedFault::CopiesKeptLate {
            shard.records.insert(place.hash, kept);
        }
    }

    /// Begins a write of many changes.
    pub(super) fn changing(&self, changes: &Changes) -> Changing<'_> {
        let mut changing = Changing { cache: self, shards: 0 };
        if self.shards.is_empty() {
            return changing;
        }
        // A range may have records of every shard. They are looked through, because the hash tells nothing of the order of keys.
        if !changes.ranges.is_empty() {
            for (position, shard) in self.shards.iter().enumerate() {
                let mut shard = shard.lock();
                shard.begin();
                shard.records.retain(|_, kept| !changes.has_range_of(kept.key()));
                changing.shards |= 1 << position;
            }
        }
        for &hash in &changes.hashes {
            let Some(mut shard) = self.shard(hash) else { continue };
            let bit = 1 << position_of(hash);
            // Once for the write, however many of its records are in the shard: it ends once.
            if changing.shards & bit == 0 {
                shard.begin();
                changing.shards |= bit;
            }
            shard.records.remove(&hash);
        }
        changing
    }

    /// Begins a write that changes one record.
    #[inline]
    pub(super) fn changing_one(&self, key: &[u8]) -> ChangingOne<'_> {
        let hash = hash_of(key);
        let Some(mut shard) = self.shard(hash) else {
            return ChangingOne { changing: Changing { cache: self, shards: 0 }, hash, version: None };
        };
        shard.begin();
        let was_kept = shard.records.remove(&hash).is_some();
        let changing = Changing { cache: self, shards: 1 << position_of(hash) };
        ChangingOne { changing, hash, version: was_kept.then_some(shard.version) }
    }

    /// What the cache did and has.
    pub(super) fn sizes(&self) -> RecordCacheSizes {
        let mut sizes = RecordCacheSizes::default();
        for shard in &self.shards {
            let shard = shard.lock();
            sizes.bytes += shard.records.weight();
            sizes.hits += shard.hits;
            sizes.misses += shard.misses;
        }
        sizes
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        self.shards.get(position_of(hash)).map(|shard| shard.lock())
    }
}

/// From the bits at the top: the table of a shard goes by those at the bottom.
#[inline]
fn position_of(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

impl Shard {
    fn new(capacity: usize) -> Self {
        let places = (capacity / TYPICAL_BYTES).next_power_of_two();
        let options = OptionsBuilder::new()
            .estimated_items_capacity(places)
            .weight_capacity(capacity as u64)
            .build()
            .expect("both capacities are given");
        let records =
            Cache::with_options(options, ByBytes, BuildHasherDefault::default(), DefaultLifecycle::default());
        Self { records, asked: vec![0; places].into(), writes: 0, version: 0, hits: 0, misses: 0 }
    }

    /// Whether the key with this hash was looked for before, and no other one at the same place since.
    fn is_asked_again(&mut self, hash: u64) -> bool {
        let place = (hash >> 32) as usize & (self.asked.len() - 1);
        // Never 0, which is the mark of no key.
        let mark = hash | 1;
        let Some(asked) = self.asked.get_mut(place) else { return false };
        std::mem::replace(asked, mark) == mark
    }

    fn begin(&mut self) {
        self.writes += 1;
        self.version += 1;
    }
}

impl Kept {
    fn new(key: &[u8], record: &[u8]) -> Self {
        Self { key_length: key.len(), bytes: [key, record].concat().into() }
    }

    fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_length).unwrap_or_default()
    }

    /// The record, if it is the one with this key and not another one with the same hash.
    fn record_of(&self, key: &[u8]) -> Option<&[u8]> {
        let (own, record) = self.bytes.split_at_checked(self.key_length)?;
        (own == key).then_some(record)
    }
}

impl Changes {
    #[inline]
    pub(super) fn note(&mut self, key: &[u8]) {
        self.hashes.push(hash_of(key));
    }

    pub(super) fn note_range(&mut self, start: &[u8], end: &[u8]) {
        self.ranges.push([start.into(), end.into()]);
    }

    fn has_range_of(&self, key: &[u8]) -> bool {
        self.ranges.iter().any(|[start, end]| (&**start..&**end).contains(&key))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut shards = self.shards;
        while shards != 0 {
            if let Some(shard) = self.cache.shards.get(shards.trailing_zeros() as usize) {
                shard.lock().writes -= 1;
            }
            shards &= shards - 1;
        }
    }
}

impl ChangingOne<'_> {
    /// Ends the write, which RocksDB has made, and keeps what it wrote if the record was kept before.
    #[inline]
    pub(super) fn end(mut self, key: &[u8], record: &[u8]) {
        let cache = self.changing.cache;
        let Some(version) = self.version.filter(|_| key.len() + record.len() <= cache.record_bytes_max)
        else {
            return;
        };
        let kept = Kept::new(key, record);
        let Some(mut shard) = cache.shard(self.hash) else { return };
        // Here and not in the drop, so that the lock is taken once.
        self.changing.shards = 0;
        shard.writes -= 1;
        // No other write of the shard began since: it could be a later one of this record.
        if shard.writes == 0 && shard.version == version {
            shard.records.insert(self.hash, kept);
        }
    }
}

/// What a record takes of the capacity.
#[derive(Clone)]
struct ByBytes;

impl Weighter<u64, Kept> for ByBytes {
    fn weight(&self, _hash: &u64, kept: &Kept) -> u64 {
        kept.bytes.len() as u64 + ENTRY_BYTES
    }
}

/// Takes a key for its hash, which it is.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys are numbers of 64 bits, which come by the other method.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"a key";

    fn cache() -> RecordCache {
        RecordCache::new(8 << 20)
    }

    fn found(cache: &RecordCache, key: &[u8]) -> Option<Vec<u8>> {
        match cache.look_up(key) {
            LookedUp::Record(record) => Some(record),
            LookedUp::Nothing(_) => None,
        }
    }

    fn place_of(cache: &RecordCache, key: &[u8]) -> Option<Place> {
        match cache.look_up(key) {
            LookedUp::Nothing(place) => place,
            LookedUp::Record(_) => None,
        }
    }

    /// The place of a record that is asked for again.
    #[track_caller]
    fn place(cache: &RecordCache, key: &[u8]) -> Place {
        found(cache, key);
        match cache.look_up(key) {
            LookedUp::Nothing(Some(place)) => place,
            LookedUp::Nothing(None) => panic!("no place"),
            LookedUp::Record(record) => panic!("{record:?} is there"),
        }
    }

    #[track_caller]
    fn kept(cache: &RecordCache, key: &[u8], record: &[u8]) {
        cache.keep(&place(cache, key), key, record);
        assert_eq!(found(cache, key).as_deref(), Some(record));
    }

    fn changes(keys: &[&[u8]]) -> Changes {
        let mut changes = Changes::default();
        for key in keys {
            changes.note(key);
        }
        changes
    }

    #[test]
    fn what_is_asked_for_once_is_not_kept() {
        let cache = cache();
        assert!(matches!(cache.look_up(KEY), LookedUp::Nothing(None)));
        assert!(matches!(cache.look_up(KEY), LookedUp::Nothing(Some(_))));
        assert_eq!(cache.sizes(), RecordCacheSizes { bytes: 0, hits: 0, misses: 2 });
        kept(&cache, KEY, b"a record");
        let bytes = (KEY.len() + b"a record".len()) as u64 + ENTRY_BYTES;
        assert_eq!(cache.sizes(), RecordCacheSizes { bytes, hits: 1, misses: 4 });
    }

    #[test]
    fn what_was_read_before_a_write_is_not_kept_after_it() {
        let cache = cache();
        let before = place(&cache, KEY);
        let write = cache.changing(&changes(&[KEY]));
        cache.keep(&before, KEY, b"old");
        assert_eq!(found(&cache, KEY), None);
        assert!(matches!(cache.look_up(KEY), LookedUp::Nothing(None)), "a write is under way");
        drop(write);
        cache.keep(&before, KEY, b"old");
        assert_eq!(found(&cache, KEY), None);
        kept(&cache, KEY, b"new");
    }

    #[test]
    fn a_write_takes_out_what_it_changes_and_nothing_else() {
        let cache = cache();
        let keys: Vec<_> = (0..100_u32).map(u32::to_be_bytes).collect();
        for key in &keys {
            kept(&cache, key, key);
        }
        drop(cache.changing(&changes(&[&keys[3], &keys[7], &keys[7]])));
        let mut changes = Changes::default();
        changes.note_range(&keys[90], &keys[95]);
        changes.note_range(&keys[97], &keys[98]);
        drop(cache.changing(&changes));
        for (number, key) in keys.iter().enumerate() {
            let is_there = !matches!(number, 3 | 7 | 90..=94 | 97);
            assert_eq!(found(&cache, key), is_there.then(|| key.to_vec()), "{number}");
        }
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn a_record_that_was_kept_is_kept_as_it_was_changed() {
        let cache = cache();
        cache.changing_one(KEY).end(KEY, b"first");
        assert_eq!(found(&cache, KEY), None, "it was not there before");
        kept(&cache, KEY, b"first");
        let write = cache.changing_one(KEY);
        assert_eq!(found(&cache, KEY), None);
        write.end(KEY, b"second");
        assert_eq!(found(&cache, KEY).as_deref(), Some(&b"second"[..]));
        // One that fails.
        drop(cache.changing_one(KEY));
        assert_eq!(found(&cache, KEY), None);
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn of_writes_at_once_none_is_kept() {
        let cache = cache();
        kept(&cache, KEY, b"first");
        let one = cache.changing_one(KEY);
        let other = cache.changing(&changes(&[KEY]));
        one.end(KEY, b"second");
        assert_eq!(found(&cache, KEY), None);
        drop(other);
        kept(&cache, KEY, b"third");
        let one = cache.changing_one(KEY);
        drop(cache.changing(&changes(&[KEY])));
        one.end(KEY, b"fourth");
        assert_eq!(found(&cache, KEY), None);
    }

    #[test]
    fn the_capacity_holds_and_what_is_asked_for_often_stays() {
        let capacity = 8 << 20;
        let cache = RecordCache::new(capacity);
        let record = [7; 1000];
        let often: Vec<_> = (0..1000_u32).map(u32::to_be_bytes).collect();
        for number in 0..50_000_u32 {
            for key in [often[number as usize % often.len()], (number + 1000).to_be_bytes()] {
                // Twice, so that all are kept.
                for place in [place_of(&cache, &key), place_of(&cache, &key)].iter().flatten() {
                    cache.keep(place, &key, &record);
                }
            }
        }
        let sizes = cache.sizes();
        assert!(sizes.bytes <= capacity as u64 && sizes.bytes > capacity as u64 / 2, "{sizes:?}");
        let stayed = often.iter().filter(|key| found(&cache, *key).is_some()).count();
        assert!(stayed > 900, "{stayed}");
    }

    #[test]
    fn a_record_that_is_too_large_is_not_kept() {
        let cache = cache();
        let longest = cache.record_bytes_max - KEY.len();
        cache.keep(&place(&cache, KEY), KEY, &vec![7; longest + 1]);
        assert_eq!(found(&cache, KEY), None);
        kept(&cache, KEY, &vec![7; longest]);
        let write = cache.changing_one(KEY);
        write.end(KEY, &vec![7; longest + 1]);
        assert_eq!(found(&cache, KEY), None);
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let cache = RecordCache::new(SHARDS - 1);
        assert!((0..3).all(|_| matches!(cache.look_up(KEY), LookedUp::Nothing(None))));
        drop(cache.changing(&changes(&[KEY])));
        cache.changing_one(KEY).end(KEY, b"record");
        assert_eq!(cache.sizes(), RecordCacheSizes::default());
    }

    #[test]
    fn another_record_with_the_same_hash_is_not_taken_for_it() {
        let kept = Kept::new(KEY, b"record");
        assert_eq!(kept.record_of(KEY), Some(&b"record"[..]));
        assert_eq!(kept.record_of(b"a kex"), None);
        assert_eq!(kept.record_of(b"a keyr"), None);
        assert_eq!(kept.record_of(b""), None);
    }

    /// Threads read a record that others change: what a thread has seen, it never sees older again.
    #[test]
    #[cfg(not(feature = "shuttle"))]
    fn no_reader_goes_back() {
        use std::sync::atomic::{AtomicU64, Ordering};

        let (cache, stored) = (cache(), AtomicU64::new(0));
        let read = || {
            let place = match cache.look_up(KEY) {
                LookedUp::Record(record) => {
                    return u64::from_be_bytes(record.try_into().expect("eight bytes"));
                }
                LookedUp::Nothing(place) => place,
            };
            let now = stored.load(Ordering::SeqCst);
            if let Some(place) = place {
                cache.keep(&place, KEY, &now.to_be_bytes());
            }
            now
        };
        let follow = || {
            let mut last = 0;
            while last < 100_000 {
                let shown = stored.load(Ordering::SeqCst);
                let seen = read();
                assert!(seen >= shown && seen >= last, "{last}, {shown} and then {seen}");
                last = seen;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=100_000_u64 {
                    let change = cache.changing_one(KEY);
                    stored.store(number, Ordering::SeqCst);
                    match number % 3 {
                        0 => drop(change),
                        _ => change.end(KEY, &number.to_be_bytes()),
                    }
                    assert_eq!(read(), number);
                }
            });
            for _ in 0..2 {
                scope.spawn(follow);
            }
        });
    }
}
