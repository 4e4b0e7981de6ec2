//! Records that are looked up again and again, found by one hash.
//!
//! RocksDB looks for a record in memtables, a filter, an index and a block, each time. Here are copies of those that were
//! asked for more than once lately. A copy is always the newest state of its record: a write removes the records that it
//! changes before RocksDB can show the change, and until the write has ended no reader puts a record of the same shard
//! in. A reader who began before the write is distinguished by the shard's version. So a reader who sees a change anywhere
//! never finds an older copy afterwards.
//!
//! A reader of a snapshot may use a copy too, if the snapshot has the record as it is now. So each copy carries a stamp: a
//! sequence number not below that of the write that it is of. A snapshot whose number is not below the stamp has that
//! write, and as the copy is still here, no later write of the record has begun.
//!
//! A write that only adds records has nothing to do here: the absence of a record is not kept.
//!
//! Leaves are kept in the same way: see [`crate::leaves`].

use std::hash::BuildHasherDefault;

use base::sync::{Mutex, MutexGuard, yield_now};
use crossbeam::utils::CachePadded;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::latch::{OfHash, hash_of};
use crate::leaves::ChangedEntries;
use crate::options::PlantedFault;

/// A power of two, of at most 64. The checker of interleavings gets few: each is a point at which it may switch threads.
const SHARDS: usize = if cfg!(feature = "shuttle") { 2 } else { 64 };
/// The cost of a record beside its bytes: its place in a table and in two queues, and the allocator's part.
const ENTRY_BYTES: u64 = 96;
/// The bytes of a typical record, for the sizes of tables.
const TYPICAL_BYTES: usize = 256;
/// Marks of keys that were asked for, to a typical record that has room. With one to a record, every second key of as many finds its
/// mark overwritten by another.
const MARKS_EACH: usize = 8;
/// The number of times that a reader with an injected fault lets other threads go first.
const PLANTED_YIELDS: u32 = 50;
/// At this number the counts of a shard are halved.
const LATELY: u32 = 1024;
/// In a full shard of whose records few are found, one of as many that are wanted is kept: all others would be driven out before they are asked
/// for again.
const KEPT_OF_TOO_MANY: u32 = 4;

/// A record that is larger than this part of a shard is not kept: it would drive out too many others.
const SHARE_MAX: usize = 8;

/// Copies of records. Without capacity it keeps nothing.
pub(super) struct RecordCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    record_bytes_max: usize,
    fault: PlantedFault,
}

struct Shard {
    records: Cache<u64, Kept, ByBytes, BuildHasherDefault<OfHash>>,
    /// A mark of the key that was looked for last at each place. A record is kept when it is asked for again while its
    /// mark is there, so that a walk through all records drives out none.
    asked: Box<[u16]>,
    /// The number of writes that change records of the shard, and have begun and not ended.
    writes: u32,
    /// The number of writes that have begun.
    version: u64,
    /// A sequence number not below those of all that have ended. Looked up when it is first needed after the last of them.
    changed: Option<u64>,
    hits: u64,
    misses: u64,
    /// How much was found here, and how much was wanted, lately.
    lately: Lately,
}

/// Counts of a shard, halved from time to time.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    found: u32,
    wanted: u32,
}

/// A record's key and bytes, one after the other.
struct Kept {
    /// Not below the sequence number of the write that the bytes are of.
    stamp: u64,
    key_length: usize,
    bytes: Box<[u8]>,
}

/// A record that was read after its place was given.
#[derive(Clone, Copy)]
pub(super) struct ReadRecord<'a> {
    pub(super) key: &'a [u8],
    pub(super) bytes: &'a [u8],
}

/// The result of a lookup.
pub(super) enum LookedUp {
    /// The record, which was put into the caller's buffer.
    Record,
    /// Nothing. The record may be kept once it was read, if there is a place for it.
    Nothing(Option<Place>),
}

/// The place of a record that is to be read and kept.
pub(super) struct Place {
    hash: u64,
    version: u64,
}

/// The records and the entries that a batch changes.
#[derive(Default)]
pub(super) struct Changes {
    hashes: Vec<u64>,
    pub(super) entries: ChangedEntries,
    /// The records of collections of which leaves are kept.
    pub(super) records_in_leaves: ChangedEntries,
    /// From a key (included) to another (excluded).
    ranges: Vec<[Box<[u8]>; 2]>,
}

/// A write that changes records, until it is dropped.
#[must_use]
pub(super) struct Changing<'a> {
    cache: &'a RecordCache,
    /// A bit for each shard.
    shards: u64,
    /// The hashes of those records that were there, each with the version of its shard.
    kept: Vec<(u64, u64)>,
}

/// A write that changes one record, until it is dropped.
#[must_use]
pub(super) struct ChangingOne<'a> {
    changing: Changing<'a>,
    hash: u64,
    /// Of the shard, if the record was there.
    version: Option<u64>,
}

/// Counts and sizes of the cache.
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

    /// Looks for the newest state of a record, and puts it into `record`, which is empty.
    #[inline]
    pub(super) fn look_up(&self, key: &[u8], record: &mut Vec<u8>) -> LookedUp {
        // Every copy is of the newest state.
        self.look_up_at(key, u64::MAX, record)
    }

    /// Looks for a record as the snapshot of `sequence` has it, and puts it into `record`, which is empty.
    #[inline]
    pub(super) fn look_up_at(&self, key: &[u8], sequence: u64, record: &mut Vec<u8>) -> LookedUp {
        let hash = hash_of(key);
        let Some(mut shard) = self.shard(hash) else { return LookedUp::Nothing(None) };
        let found = shard.find(hash, key, sequence, record);
        match found {
            LookedUp::Record => shard.hits += 1,
            LookedUp::Nothing(_) => shard.misses += 1,
        }
        found
    }

    /// Keeps a record that was read after `look_up` had given its place, unless a write may have changed it since. `latest` gives the
    /// sequence number of the newest write.
    pub(super) fn keep(&self, place: &Place, record: ReadRecord<'_>, latest: impl FnOnce() -> u64) {
        // The write that it is of had ended when it was read.
        self.keep_if(place, record, |_| Some(latest()));
    }

    /// Keeps a record that was read from the snapshot of `sequence` after `look_up_at` had given its place, unless a write may have
    /// changed it since the snapshot was taken.
    pub(super) fn keep_of(
        &self,
        place: &Place,
        record: ReadRecord<'_>,
        sequence: u64,
        latest: impl FnOnce() -> u64,
    ) {
        self.keep_if(place, record, |shard| {
            let changed = *shard.changed.get_or_insert_with(latest);
            (changed <= sequence).then_some(sequence)
        });
    }

    /// Keeps a record if no write of its shard is under way or has begun since its place was given, and `stamp` gives it a stamp.
    fn keep_if(&self, place: &Place, record: ReadRecord<'_>, stamp: impl FnOnce(&mut Shard) -> Option<u64>) {
        let ReadRecord { key, bytes } = record;
        if key.len() + bytes.len() > self.record_bytes_max {
            return;
        }
        // Outside of the lock, because it allocates.
        let mut kept = Kept::new(key, bytes);
        if self.fault == PlantedFault::CopiesKeptLate {
            // So that others do something in between.
            (0..PLANTED_YIELDS).for_each(|_| yield_now());
        }
        let Some(mut shard) = self.shard(place.hash) else { return };
        let is_newest = shard.writes == 0 && shard.version == place.version;
        if !is_newest && self.fault != PlantedFault::CopiesKeptLate {
            return;
        }
        let Some(stamp) = stamp(&mut shard) else { return };
        kept.stamp = self.stamp(stamp);
        shard.records.insert(place.hash, kept);
    }

    /// Begins a write of many changes.
    pub(super) fn changing(&self, changes: &Changes) -> Changing<'_> {
        let mut changing = Changing { cache: self, shards: 0, kept: Vec::new() };
        if self.shards.is_empty() {
            return changing;
        }
        // A range may have records of every shard. They are looked through, because the hash says nothing of the order of keys.
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
            changing.enter(&mut shard, hash);
            // A range of the same batch may remove what the batch has put there.
            if shard.records.remove(&hash).is_some() && changes.ranges.is_empty() {
                changing.kept.push((hash, shard.version));
            }
        }
        changing
    }

    /// Begins a write that changes one record.
    #[inline]
    pub(super) fn changing_one(&self, key: &[u8]) -> ChangingOne<'_> {
        let hash = hash_of(key);
        let Some(mut shard) = self.shard(hash) else {
            let changing = Changing { cache: self, shards: 0, kept: Vec::new() };
            return ChangingOne { changing, hash, version: None };
        };
        shard.begin();
        let was_kept = shard.records.remove(&hash).is_some();
        let changing = Changing { cache: self, shards: 1 << position_of(hash), kept: Vec::new() };
        ChangingOne { changing, hash, version: was_kept.then_some(shard.version) }
    }

    /// Counts and sizes of the cache.
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

    /// The stamp of a copy, or one that is too low by a planted fault.
    #[inline]
    fn stamp(&self, stamp: u64) -> u64 {
        if self.fault == PlantedFault::StampsTooLow { 0 } else { stamp }
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
        let records = (capacity / TYPICAL_BYTES).next_power_of_two();
        let asked: Box<[u16]> = vec![0; MARKS_EACH * records].into();
        let options = OptionsBuilder::new()
            .estimated_items_capacity(records)
            .weight_capacity(capacity.saturating_sub(size_of_val(&*asked)) as u64)
            .build()
            .expect("both capacities are given");
        let records =
            Cache::with_options(options, ByBytes, BuildHasherDefault::default(), DefaultLifecycle::default());
        let lately = Lately::default();
        Self { records, asked, writes: 0, version: 0, changed: None, hits: 0, misses: 0, lately }
    }

    /// Puts a record as the snapshot of `sequence` has it into `record`, if it is kept.
    #[inline]
    fn find(&mut self, hash: u64, key: &[u8], sequence: u64, record: &mut Vec<u8>) -> LookedUp {
        let kept = self.records.get(&hash).and_then(|kept| Some((kept.stamp, kept.record_of(key)?)));
        let Some((stamp, found)) = kept else { return self.place_for(hash) };
        // An older snapshot does not replace it by a copy of its own.
        if stamp > sequence {
            return LookedUp::Nothing(None);
        }
        record.extend_from_slice(found);
        self.lately.note_found();
        LookedUp::Record
    }

    /// The place of a record that is not here, if it was asked for before.
    fn place_for(&mut self, hash: u64) -> LookedUp {
        // While a write is under way nothing can be kept, and the mark is made all the same: the next look-up finds it.
        let is_wanted = self.is_asked_again(hash) && self.writes == 0 && self.is_worth_it();
        LookedUp::Nothing(is_wanted.then_some(Place { hash, version: self.version }))
    }

    /// Whether to keep what is wanted. A full shard from which more is driven out than found would only be work.
    fn is_worth_it(&mut self) -> bool {
        let Lately { found, wanted } = self.lately.note_wanted();
        let is_full = self.records.weight() > self.records.capacity() / 8 * 7;
        !is_full || found >= wanted / 2 || wanted % KEPT_OF_TOO_MANY == 0
    }

    /// Whether the key with this hash was looked for before, and no other one at the same place since.
    fn is_asked_again(&mut self, hash: u64) -> bool {
        // Never 0, which is the mark of no key. Of other bits than the place. Two keys have one mark seldom enough.
        let [low, high, ..] = hash.to_le_bytes();
        let mark = u16::from_le_bytes([low, high]) | 1;
        let Some(asked) = self.asked_at(hash) else { return false };
        std::mem::replace(asked, mark) == mark
    }

    fn asked_at(&mut self, hash: u64) -> Option<&mut u16> {
        let place = (hash >> 32) as usize & (self.asked.len() - 1);
        self.asked.get_mut(place)
    }

    fn begin(&mut self) {
        self.writes += 1;
        self.version += 1;
    }

    fn end(&mut self) {
        self.writes -= 1;
        self.changed = None;
    }
}

impl Lately {
    #[inline]
    fn note_found(&mut self) {
        self.found += 1;
        self.halve_at_limit();
    }

    /// Counts what is wanted. Returns the counts as they are then.
    fn note_wanted(&mut self) -> Self {
        self.wanted += 1;
        self.halve_at_limit();
        *self
    }

    #[inline]
    fn halve_at_limit(&mut self) {
        if self.found >= LATELY || self.wanted >= LATELY {
            (self.found, self.wanted) = (self.found / 2, self.wanted / 2);
        }
    }
}

impl Kept {
    fn new(key: &[u8], record: &[u8]) -> Self {
        Self { stamp: 0, key_length: key.len(), bytes: [key, record].concat().into() }
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

    /// Notes that an entry is added or removed, of an index of which leaves are kept.
    pub(super) fn note_entry(&mut self, key: &[u8]) {
        self.entries.push(key);
    }

    /// Notes that a record is added, changed or removed, of a collection of which leaves are kept.
    pub(super) fn note_in_leaf(&mut self, key: &[u8]) {
        self.records_in_leaves.push(key);
    }

    /// Notes that all entries of a range are removed.
    pub(super) fn note_entries(&mut self, start: &[u8], end: &[u8]) {
        self.entries.push_range(start, end);
    }

    pub(super) fn note_range(&mut self, start: &[u8], end: &[u8]) {
        self.ranges.push([start.into(), end.into()]);
        self.records_in_leaves.push_range(start, end);
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
                shard.lock().end();
            }
            shards &= shards - 1;
        }
    }
}

impl ChangingOne<'_> {
    /// Ends the write, which RocksDB has made, and keeps what it wrote if the record was kept before. `latest` gives the sequence
    /// number of the newest write.
    #[inline]
    pub(super) fn end(mut self, record: ReadRecord<'_>, latest: impl FnOnce() -> u64) {
        let cache = self.changing.cache;
        let ReadRecord { key, bytes } = record;
        let Some(version) = self.version.filter(|_| key.len() + bytes.len() <= cache.record_bytes_max) else {
            return;
        };
        let kept = Kept { stamp: cache.stamp(latest()), ..Kept::new(key, bytes) };
        let Some(mut shard) = cache.shard(self.hash) else { return };
        // Here and not in the drop, so that the lock is acquired once.
        self.changing.shards = 0;
        shard.end();
        // No other write of the shard began since: it could be a later one of this record.
        if shard.writes == 0 && shard.version == version {
            shard.records.insert(self.hash, kept);
        }
    }
}

impl Changing<'_> {
    /// Begins the write in the shard of a hash. Once, however many of its records are there: it ends once.
    #[inline]
    fn enter(&mut self, shard: &mut Shard, hash: u64) {
        let bit = 1 << position_of(hash);
        if self.shards & bit == 0 {
            shard.begin();
            self.shards |= bit;
        }
    }

    /// Whether some of the records were kept before.
    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Ends the write, which RocksDB has made, and keeps what it wrote of records that were kept before. `written` are the records that
    /// it wrote, in its order, each absent if it was removed; `latest` is the sequence number of the newest write.
    pub(super) fn end<'r>(
        mut self,
        written: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>,
        latest: u64,
    ) {
        let (cache, mut kept) = (self.cache, std::mem::take(&mut self.kept));
        drop(self);
        kept.sort_unstable();
        let stamp = cache.stamp(latest);
        for (key, bytes) in written {
            let hash = hash_of(key);
            let Ok(place) = kept.binary_search_by_key(&hash, |&(hash, _)| hash) else { continue };
            let bytes = bytes.filter(|bytes| key.len() + bytes.len() <= cache.record_bytes_max);
            let copy = bytes.map(|bytes| Kept { stamp, ..Kept::new(key, bytes) });
            let Some(mut shard) = cache.shard(hash) else { continue };
            // As for a write of one record.
            if shard.writes == 0 && kept.get(place).is_some_and(|&(_, version)| version == shard.version) {
                match copy {
                    Some(copy) => shard.records.insert(hash, copy),
                    None => drop(shard.records.remove(&hash)),
                }
            }
        }
    }
}

/// The share of the capacity that a record uses.
#[derive(Clone)]
struct ByBytes;

impl Weighter<u64, Kept> for ByBytes {
    fn weight(&self, _hash: &u64, kept: &Kept) -> u64 {
        kept.bytes.len() as u64 + ENTRY_BYTES
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
        found_at(cache, key, u64::MAX)
    }

    fn found_at(cache: &RecordCache, key: &[u8], sequence: u64) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        match cache.look_up_at(key, sequence, &mut record) {
            LookedUp::Record => Some(record),
            LookedUp::Nothing(_) => None,
        }
    }

    fn place_of(cache: &RecordCache, key: &[u8]) -> Option<Place> {
        place_at(cache, key, u64::MAX)
    }

    fn place_at(cache: &RecordCache, key: &[u8], sequence: u64) -> Option<Place> {
        match cache.look_up_at(key, sequence, &mut Vec::new()) {
            LookedUp::Nothing(place) => place,
            LookedUp::Record => None,
        }
    }

    /// Keeps a record that was read when the newest write had the number 10.
    fn keep(cache: &RecordCache, place: &Place, key: &[u8], bytes: &[u8]) {
        cache.keep(place, ReadRecord { key, bytes }, || 10);
    }

    /// Ends a write of a record, which has the number 10.
    fn end(write: ChangingOne<'_>, bytes: &[u8]) {
        write.end(ReadRecord { key: KEY, bytes }, || 10);
    }

    /// The place of a record that is asked for again.
    #[track_caller]
    fn place(cache: &RecordCache, key: &[u8]) -> Place {
        assert_eq!(found(cache, key), None);
        place_of(cache, key).expect("a place")
    }

    #[track_caller]
    fn kept(cache: &RecordCache, key: &[u8], record: &[u8]) {
        keep(cache, &place(cache, key), key, record);
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
        assert!(place_of(&cache, KEY).is_none());
        assert!(place_of(&cache, KEY).is_some());
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
        keep(&cache, &before, KEY, b"old");
        assert_eq!(found(&cache, KEY), None);
        assert!(place_of(&cache, KEY).is_none(), "a write is under way");
        drop(write);
        keep(&cache, &before, KEY, b"old");
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
        end(cache.changing_one(KEY), b"first");
        assert_eq!(found(&cache, KEY), None, "it was not there before");
        kept(&cache, KEY, b"first");
        let write = cache.changing_one(KEY);
        assert_eq!(found(&cache, KEY), None);
        end(write, b"second");
        assert_eq!(found(&cache, KEY).as_deref(), Some(&b"second"[..]));
        // One that fails.
        drop(cache.changing_one(KEY));
        assert_eq!(found(&cache, KEY), None);
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn a_snapshot_gets_no_copy_that_is_newer() {
        let cache = cache();
        kept(&cache, KEY, b"record");
        assert_eq!(found_at(&cache, KEY, 9), None);
        assert!(place_at(&cache, KEY, 9).is_none() && place_at(&cache, KEY, 9).is_none());
        assert_eq!(found_at(&cache, KEY, 10).as_deref(), Some(&b"record"[..]));
    }

    #[test]
    fn what_a_snapshot_has_is_kept_if_no_write_came_after_it() {
        let cache = cache();
        let read = ReadRecord { key: KEY, bytes: b"record" };
        let write_and_read = |latest: u64| {
            drop(cache.changing_one(KEY));
            assert!(place_at(&cache, KEY, 20).is_none() || found(&cache, KEY).is_none());
            let place = place_at(&cache, KEY, 20).expect("asked for again");
            cache.keep_of(&place, read, 20, || latest);
        };
        write_and_read(21);
        assert_eq!(found(&cache, KEY), None);
        // The number is looked up once after a write.
        let place = place_at(&cache, KEY, 21).expect("a place");
        cache.keep_of(&place, read, 21, || panic!("it is known"));
        assert_eq!(found_at(&cache, KEY, 20), None);
        assert_eq!(found_at(&cache, KEY, 21).as_deref(), Some(&b"record"[..]));
        write_and_read(20);
        assert_eq!(found_at(&cache, KEY, 20).as_deref(), Some(&b"record"[..]));
    }

    #[test]
    fn records_of_a_batch_that_were_kept_are_kept_as_it_has_written_them() {
        let cache = cache();
        let keys: Vec<_> = (0..5_u32).map(u32::to_be_bytes).collect();
        for key in &keys[..3] {
            kept(&cache, key, b"old");
        }
        let all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let write = cache.changing(&changes(&all));
        assert!(write.has_kept());
        let new = |key: usize, bytes: &'static [u8]| (all[key], Some(bytes));
        let written = [new(0, b"a"), new(1, b"b"), new(2, b"c"), new(3, b"d"), new(0, b"e"), (all[1], None)];
        write.end(written.into_iter(), 30);
        let found: Vec<_> = all.iter().map(|key| found_at(&cache, key, 30)).collect();
        assert_eq!(found, [Some(b"e".to_vec()), None, Some(b"c".to_vec()), None, None]);
        assert!(all.iter().all(|key| found_at(&cache, key, 29).is_none()));
        // Beside another write of the same record none is kept.
        let (one, other) = (cache.changing(&changes(&all)), cache.changing_one(all[2]));
        one.end([new(2, b"f")].into_iter(), 31);
        drop(other);
        assert_eq!(found_at(&cache, all[2], 31), None);
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn of_writes_at_once_none_is_kept() {
        let cache = cache();
        kept(&cache, KEY, b"first");
        let one = cache.changing_one(KEY);
        let other = cache.changing(&changes(&[KEY]));
        end(one, b"second");
        assert_eq!(found(&cache, KEY), None);
        drop(other);
        kept(&cache, KEY, b"third");
        let one = cache.changing_one(KEY);
        drop(cache.changing(&changes(&[KEY])));
        end(one, b"fourth");
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
                    keep(&cache, place, &key, &record);
                }
            }
        }
        let sizes = cache.sizes();
        assert!(sizes.bytes <= capacity as u64 && sizes.bytes > capacity as u64 / 2, "{sizes:?}");
        let stayed = often.iter().filter(|key| found(&cache, *key).is_some()).count();
        assert!(stayed > 900, "{stayed}");
    }

    #[test]
    fn counts_of_a_shard_stay_small() {
        let cache = cache();
        kept(&cache, KEY, b"record");
        for _ in 0..5 * LATELY {
            assert!(found(&cache, KEY).is_some());
        }
        assert!(cache.shards.iter().all(|shard| shard.lock().lately.found < LATELY));
    }

    #[test]
    fn a_record_that_is_too_large_is_not_kept() {
        let cache = cache();
        let longest = cache.record_bytes_max - KEY.len();
        keep(&cache, &place(&cache, KEY), KEY, &vec![7; longest + 1]);
        assert_eq!(found(&cache, KEY), None);
        kept(&cache, KEY, &vec![7; longest]);
        let write = cache.changing_one(KEY);
        end(write, &vec![7; longest + 1]);
        assert_eq!(found(&cache, KEY), None);
        assert!(cache.shards.iter().all(|shard| shard.lock().writes == 0));
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let cache = RecordCache::new(SHARDS - 1);
        assert!((0..3).all(|_| place_of(&cache, KEY).is_none()));
        drop(cache.changing(&changes(&[KEY])));
        end(cache.changing_one(KEY), b"record");
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
            let mut record = Vec::new();
            let place = match cache.look_up(KEY, &mut record) {
                LookedUp::Record => return u64::from_be_bytes(record.try_into().expect("eight bytes")),
                LookedUp::Nothing(place) => place,
            };
            let now = stored.load(Ordering::SeqCst);
            if let Some(place) = place {
                keep(&cache, &place, KEY, &now.to_be_bytes());
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
                        _ => end(change, &number.to_be_bytes()),
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
