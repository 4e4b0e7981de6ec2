//! Leaves of indexes and of collections in memory: entries or records that follow one another, as the leaves of a B-tree have
//! them.
//!
//! RocksDB's iterator needs a thousand instructions a step, and ten thousand to be opened. A leaf has all entries of an index, or all records
//! of a collection, from one key up to another one, so a search steps from one to the next within it, and sees there that one is absent.
//! Leaves are made by the searches that read them anyway, and are a copy of the newest state: a write removes the leaves that it
//! changes before RocksDB can show the change, and until the write has ended no search puts a leaf of the same index in.
//!
//! A search on a snapshot may use a leaf if the snapshot has the entries as they are now. So each leaf carries a stamp: a sequence number
//! not below those of the writes that it has. `record_cache` keeps records by the same laws, each found by a hash.
//!
//! What follows speaks of indexes and their entries, and is as true of collections and their records.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use base::sync::RwLock;
use crossbeam::utils::CachePadded;
use index::key::Direction;

use crate::format::Family;
use crate::keys::{CollectionId, ID_BYTES, IndexId};
use crate::leaf::Leaf;

/// Indexes share so many trees, by their ids. The checker of interleavings gets one.
const SHARDS: usize = if cfg!(feature = "shuttle") { 1 } else { 16 };
/// The number of leaves that are made before it is asked whether they are found again.
const MADE_AT_FIRST: u32 = 256;
/// One in so many leaves may be lost where leaves are made because there is room for them.
const LOST_OF_MADE: u32 = 4;
/// Of so many leaves that are wanted one is made while few are found.
const MADE_OF_MANY: u32 = 16;
/// Memory counts as full from the limit less this part of it on.
const SLACK: usize = 32;
/// At this number the counts of a shard are halved.
const LATELY: u32 = 1 << 12;
/// The number of leaves that are passed over, because they were used, before one that was used is dropped too.
const SPARED_MAX: usize = 32;
/// A leaf above this part of the capacity is not kept.
const SHARE_MAX: usize = 8;

/// The result of looking for a leaf.
pub enum LeafFound {
    /// The leaf.
    Leaf(Arc<Leaf>),
    /// The entries must be read. Their leaf may be kept, if there is a place for it.
    Absent(Option<LeafPlace>),
}

/// An index whose entries are in leaves, or a collection whose records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafOwner {
    pub(crate) family: Family,
    /// Its id, which is in front of all keys.
    number: u32,
}

/// A search for a leaf of an index.
#[derive(Clone, Copy)]
pub struct LeafSearch<'a> {
    /// The index.
    pub owner: LeafOwner,
    /// The key from which on entries are wanted, or below which, if the search descends.
    pub position: &'a [u8],
    /// The direction of the search.
    pub direction: Direction,
    /// Whether the search may make leaves.
    pub makes: bool,
}

/// The place of a leaf that is to be made.
pub struct LeafPlace {
    pub(crate) owner: LeafOwner,
    version: u64,
    /// The key at which the next leaf in the direction of the search begins, or ends. Absent if the index has none.
    pub bound: Option<Box<[u8]>>,
}

/// The leaves of all indexes of a store, or of all its collections. Without capacity it keeps none.
pub(super) struct Leaves {
    capacity: usize,
    /// What other needs of memory leave of it.
    limit: AtomicUsize,
    /// The bytes of all leaves.
    bytes: AtomicUsize,
    /// The shard from which leaves are dropped next.
    turn: AtomicUsize,
    shards: [CachePadded<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    lately: Lately,
    tree: RwLock<Tree>,
}

#[derive(Default)]
struct Tree {
    /// By their first keys. None overlaps another one.
    leaves: BTreeMap<Box<[u8]>, Arc<Leaf>>,
    /// The key from which on the next leaf to drop is looked for.
    hand: Box<[u8]>,
    /// The number of writes that change entries, and have begun and not ended.
    writes: u32,
    /// The number of those that have begun.
    version: u64,
    /// A sequence number not below those of all that have ended. Looked up when it is first needed after the last of them.
    changed: Option<u64>,
}

/// Counts of leaves that were found and made lately. They decide only which leaves are worth their memory.
#[derive(Default)]
struct Lately {
    found: AtomicU32,
    made: AtomicU32,
    refused: AtomicU32,
    /// Those that writes have removed, or that were not kept.
    lost: AtomicU32,
}

/// The entries that a batch adds or removes.
#[derive(Debug, Default)]
pub(super) struct ChangedEntries {
    /// Their keys, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// From a key (included) to another (excluded).
    ranges: Vec<[Box<[u8]>; 2]>,
}

/// A write that changes entries, until it is dropped.
#[must_use]
pub(super) struct ChangingLeaves<'a> {
    leaves: &'a Leaves,
    /// A bit for each shard.
    shards: u32,
}

impl LeafOwner {
    /// The family of its entries, or of its records.
    pub fn family(self) -> Family {
        self.family
    }

    /// The first key that an entry can have.
    pub fn start(self) -> [u8; ID_BYTES] {
        self.number.to_be_bytes()
    }

    /// The first key behind all entries.
    pub fn end(self) -> Vec<u8> {
        IndexId(self.number).end()
    }
}

impl From<IndexId> for LeafOwner {
    fn from(index: IndexId) -> Self {
        Self { family: Family::Entries, number: index.0 }
    }
}

impl From<CollectionId> for LeafOwner {
    fn from(collection: CollectionId) -> Self {
        Self { family: Family::Records, number: collection.0 }
    }
}

impl Leaves {
    /// Leaves of at most `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        let [bytes, turn] = Default::default();
        Self { capacity, limit: AtomicUsize::new(capacity), bytes, turn, shards: Default::default() }
    }

    /// Whether any leaf can be kept.
    pub(super) fn has_room(&self) -> bool {
        self.capacity > 0
    }

    /// Looks for a leaf whose stamp is within `stamps`.
    pub(super) fn find(&self, search: LeafSearch<'_>, stamps: RangeInclusive<u64>) -> LeafFound {
        let Some(shard) = self.shard(search.owner.number) else { return LeafFound::Absent(None) };
        let tree = shard.tree.read();
        let (since, sequence) = stamps.into_inner();
        let at = tree.leaf_at(search.position, search.direction);
        if let Some(leaf) = at.filter(|leaf| leaf.stamp >= since) {
            // An older snapshot does not replace it by a leaf of its own.
            let is_known = leaf.stamp <= sequence;
            return if is_known {
                LeafFound::Leaf(shard.lately.found_again(leaf))
            } else {
                LeafFound::Absent(None)
            };
        }
        let is_newest = tree.writes == 0 && tree.changed.is_none_or(|changed| changed <= sequence);
        if !search.makes || !is_newest || !shard.lately.is_worth_it(self.is_full()) {
            return LeafFound::Absent(None);
        }
        let bound = tree.bound_behind(&search);
        LeafFound::Absent(Some(LeafPlace { owner: search.owner, version: tree.version, bound }))
    }

    /// Keeps a leaf that was read from the snapshot of `sequence` after [`find`](Self::find) had given its place, unless a write may have changed the
    /// index since the snapshot was taken. `latest` gives the sequence number of the newest write.
    pub(super) fn keep(
        &self,
        place: &LeafPlace,
        mut leaf: Leaf,
        sequence: u64,
        latest: impl FnOnce() -> u64,
    ) -> Arc<Leaf> {
        leaf.stamp = sequence;
        let leaf = Arc::new(leaf);
        let Some(shard) = self.shard(place.owner.number) else { return leaf };
        if leaf.weight() > self.capacity / SHARE_MAX || leaf.start >= leaf.end {
            shard.lately.note(&shard.lately.lost);
            return leaf;
        }
        let mut tree = shard.tree.write();
        if tree.writes > 0
            || tree.version != place.version
            || *tree.changed.get_or_insert_with(latest) > sequence
        {
            drop(tree);
            shard.lately.note(&shard.lately.lost);
            return leaf;
        }
        // Others may have made leaves of the same entries meanwhile, and one from before may not be used any more.
        let replaced = tree.remove(&leaf.start, &leaf.end);
        // Before another thread can remove it: the sum never falls below zero.
        self.bytes.fetch_add(leaf.weight(), Ordering::Relaxed);
        tree.leaves.insert(leaf.start.clone(), Arc::clone(&leaf));
        drop(tree);
        self.forget(&replaced);
        self.drop_unused();
        leaf
    }

    /// Notes that no leaf was made for a place.
    pub(super) fn lose(&self, place: &LeafPlace) {
        if let Some(shard) = self.shard(place.owner.number) {
            shard.lately.note(&shard.lately.lost);
        }
    }

    /// Begins a write that changes entries.
    pub(super) fn changing(&self, entries: &ChangedEntries) -> ChangingLeaves<'_> {
        let mut changing = ChangingLeaves { leaves: self, shards: 0 };
        let mut removed = Vec::new();
        let mut keys = entries.keys().peekable();
        while let Some(key) = keys.next() {
            let number = number_of(key);
            let Some(shard) = self.shard(number) else { continue };
            let mut tree = shard.tree.write();
            changing.enter(&mut tree, number);
            let before = removed.len();
            removed.extend(tree.remove_at(key));
            // Locked once for all entries of one index that follow each other.
            while let Some(key) = keys.next_if(|key| number_of(key) == number) {
                removed.extend(tree.remove_at(key));
            }
            for _ in before..removed.len() {
                shard.lately.note(&shard.lately.lost);
            }
        }
        for [start, end] in &entries.ranges {
            // Mostly the whole of one index, whose end is where the next id would begin.
            let (first, last) = (number_of(start), number_of(end));
            for number in (first..=last).take(SHARDS) {
                if let Some(shard) = self.shard(number) {
                    let mut tree = shard.tree.write();
                    changing.enter(&mut tree, number);
                    removed.extend(tree.remove(start, end));
                }
            }
        }
        self.forget(&removed);
        changing
    }

    /// Begins a write that changes one entry.
    pub(super) fn changing_one(&self, key: &[u8]) -> ChangingLeaves<'_> {
        let mut changing = ChangingLeaves { leaves: self, shards: 0 };
        let number = number_of(key);
        if let Some(shard) = self.shard(number) {
            let mut tree = shard.tree.write();
            changing.enter(&mut tree, number);
            let removed = tree.remove_at(key);
            drop(tree);
            if let Some(removed) = removed {
                shard.lately.note(&shard.lately.lost);
                self.forget(&[removed]);
            }
        }
        changing
    }

    /// The bytes of all leaves.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// Sets a limit below the capacity.
    pub(super) fn limit_to(&self, bytes: usize) {
        let limit = bytes.min(self.capacity);
        // It seldom changes, and then the line of the processor's cache stays with all that read it.
        if self.limit.load(Ordering::Relaxed) != limit {
            self.limit.store(limit, Ordering::Relaxed);
        }
        self.drop_unused();
    }

    /// The limit when nothing else needs memory.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether another leaf mostly drives one out.
    fn is_full(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed) >= limit - limit / SLACK
    }

    /// Lets go of leaves that were removed, without a lock.
    fn forget(&self, removed: &[Arc<Leaf>]) {
        if !removed.is_empty() {
            let bytes = removed.iter().map(|leaf| leaf.weight()).sum();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Drops leaves that were not used since the last time, of one index after the other, until the others have room.
    fn drop_unused(&self) {
        let mut passed = 0;
        // The first visit to an index may begin behind all of its leaves, and the second may spare them all.
        while self.bytes.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed) && passed < 3 * SHARDS {
            let turn = self.turn.load(Ordering::Relaxed);
            let dropped = self.shards.get(turn % SHARDS).and_then(|shard| shard.tree.write().drop_next());
            if let Some(dropped) = dropped {
                self.forget(&[dropped]);
            } else {
                self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
                passed += 1;
            }
        }
    }

    #[inline]
    fn shard(&self, number: u32) -> Option<&Shard> {
        self.shards.get(number as usize % SHARDS).filter(|_| self.has_room()).map(|shard| &**shard)
    }
}

impl Tree {
    fn leaf_at(&self, position: &[u8], direction: Direction) -> Option<&Arc<Leaf>> {
        let last = match direction {
            Direction::Ascending => Bound::Included(position),
            Direction::Descending => Bound::Excluded(position),
        };
        let (_, leaf) = self.leaves.range::<[u8], _>((Bound::Unbounded, last)).next_back()?;
        let has_it = match direction {
            Direction::Ascending => position < &*leaf.end,
            Direction::Descending => position <= &*leaf.end,
        };
        has_it.then_some(leaf)
    }

    /// The key at which the next leaf of the same index begins behind a position, or ends before it.
    fn bound_behind(&self, search: &LeafSearch<'_>) -> Option<Box<[u8]>> {
        let position = search.position;
        let (leaf, bound) = match search.direction {
            Direction::Ascending => {
                let behind = (Bound::Excluded(position), Bound::Unbounded);
                let (_, leaf) = self.leaves.range::<[u8], _>(behind).next()?;
                (leaf, &leaf.start)
            }
            Direction::Descending => {
                let before = (Bound::Unbounded, Bound::Excluded(position));
                let (_, leaf) = self.leaves.range::<[u8], _>(before).next_back()?;
                // One that is not used any more may have the position.
                (leaf, if &*leaf.end <= position { &leaf.end } else { &leaf.start })
            }
        };
        (number_of(&leaf.start) == search.owner.number).then(|| bound.clone())
    }

    /// Removes the leaf that has a key, or would have it.
    fn remove_at(&mut self, key: &[u8]) -> Option<Arc<Leaf>> {
        let start = self.leaf_at(key, Direction::Ascending)?.start.clone();
        self.leaves.remove(&start)
    }

    /// Removes all leaves that have a key from `start` (included) to `end` (excluded), or would have it.
    fn remove(&mut self, start: &[u8], end: &[u8]) -> Vec<Arc<Leaf>> {
        let mut removed: Vec<_> = self.remove_at(start).into_iter().collect();
        while let Some((next, _)) =
            self.leaves.range::<[u8], _>((Bound::Included(start), Bound::Unbounded)).next()
            && &**next < end
        {
            let next = next.clone();
            removed.extend(self.leaves.remove(&next));
        }
        removed
    }

    /// Removes the next leaf that was not used since the last time, or one that was, if many were. Behind the last leaf it removes none, and
    /// begins anew after that.
    fn drop_next(&mut self) -> Option<Arc<Leaf>> {
        for spared in 0.. {
            let from = (Bound::Included(&*self.hand), Bound::Unbounded);
            let Some((start, leaf)) = self.leaves.range::<[u8], _>(from).next() else {
                self.hand = Box::default();
                return None;
            };
            let (start, is_used) = (start.clone(), leaf.is_used.swap(false, Ordering::Relaxed));
            self.hand = [&*start, &[0]].concat().into();
            if !is_used || spared >= SPARED_MAX {
                return self.leaves.remove(&start);
            }
        }
        None
    }
}

impl Lately {
    fn found_again(&self, leaf: &Arc<Leaf>) -> Arc<Leaf> {
        self.note(&self.found);
        // Mostly it is, and then the line of the processor's cache stays with all that read it.
        if !leaf.is_used.load(Ordering::Relaxed) {
            leaf.is_used.store(true, Ordering::Relaxed);
        }
        Arc::clone(leaf)
    }

    /// Counts one more. The counts of several threads at once may lose some, which only makes them less exact.
    #[inline]
    fn note(&self, count: &AtomicU32) -> u32 {
        let now = count.load(Ordering::Relaxed) + 1;
        if now < LATELY {
            count.store(now, Ordering::Relaxed);
        } else {
            for count in [&self.found, &self.made, &self.refused, &self.lost] {
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
        now
    }

    /// Whether to make a leaf that is wanted. Where few are found, because writes remove them or others drive them out, it would only be work; as
    /// long as there is room and few are lost, they may be found later.
    fn is_worth_it(&self, is_full: bool) -> bool {
        let [found, made, lost] =
            [&self.found, &self.made, &self.lost].map(|count| count.load(Ordering::Relaxed));
        let stays = lost < made / LOST_OF_MADE;
        let is_worth_it = made < MADE_AT_FIRST || found >= made / 2 || (stays && !is_full);
        let is_made = is_worth_it || self.note(&self.refused).is_multiple_of(MADE_OF_MANY);
        if is_made {
            self.note(&self.made);
        }
        is_made
    }
}

impl ChangedEntries {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn push_range(&mut self, start: &[u8], end: &[u8]) {
        self.ranges.push([start.into(), end.into()]);
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }
}

impl ChangingLeaves<'_> {
    /// Begins the write in the shard of an index. Once, however many of its entries are changed: it ends once.
    fn enter(&mut self, tree: &mut Tree, number: u32) {
        let bit = 1 << (number as usize % SHARDS);
        if self.shards & bit == 0 {
            tree.writes += 1;
            tree.version += 1;
            self.shards |= bit;
        }
    }
}

impl Drop for ChangingLeaves<'_> {
    fn drop(&mut self) {
        let mut shards = self.shards;
        while shards != 0 {
            if let Some(shard) = self.leaves.shards.get(shards.trailing_zeros() as usize) {
                let mut tree = shard.tree.write();
                tree.writes -= 1;
                tree.changed = None;
            }
            shards &= shards - 1;
        }
    }
}

/// The id of a key's index or collection, which is in front.
#[inline]
pub(crate) fn number_of(key: &[u8]) -> u32 {
    key.first_chunk::<ID_BYTES>().map_or(0, |id| u32::from_be_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::tests::{key, leaf};

    fn find(leaves: &Leaves, position: u8, direction: Direction, sequence: u64) -> LeafFound {
        let search =
            LeafSearch { owner: IndexId(7).into(), position: &key(position), direction, makes: true };
        leaves.find(search, 5..=sequence)
    }

    fn found(leaves: &Leaves, position: u8, direction: Direction, sequence: u64) -> Option<u8> {
        match find(leaves, position, direction, sequence) {
            LeafFound::Leaf(leaf) => leaf.start().last().copied(),
            LeafFound::Absent(_) => None,
        }
    }

    #[track_caller]
    fn place(leaves: &Leaves, position: u8) -> LeafPlace {
        // Of leaves that are seldom found, few are made.
        for _ in 0..=MADE_OF_MANY {
            if let LeafFound::Absent(Some(place)) = find(leaves, position, Direction::Ascending, 10) {
                return place;
            }
        }
        panic!("no place at {position}")
    }

    #[track_caller]
    fn keep(leaves: &Leaves, start: u8, end: u8) {
        let place = place(leaves, start);
        leaves.keep(&place, leaf(start, end), 10, || 10);
        assert_eq!(found(leaves, start, Direction::Ascending, 10), Some(start));
    }

    fn changed(numbers: &[u8]) -> ChangedEntries {
        let mut changed = ChangedEntries::default();
        for number in numbers {
            changed.push(&key(*number));
        }
        changed
    }

    #[test]
    fn a_leaf_is_found_by_every_key_that_it_would_have() {
        let leaves = Leaves::new(1 << 20);
        keep(&leaves, 10, 20);
        keep(&leaves, 20, 24);
        let (up, down) = (Direction::Ascending, Direction::Descending);
        for (position, ascending, descending) in [
            (9, None, None),
            (10, Some(10), None),
            (11, Some(10), Some(10)),
            (19, Some(10), Some(10)),
            (20, Some(20), Some(10)),
            (23, Some(20), Some(20)),
            (24, None, Some(20)),
            (25, None, None),
        ] {
            assert_eq!(found(&leaves, position, up, 10), ascending, "{position}");
            assert_eq!(found(&leaves, position, down, 10), descending, "{position}");
        }
        // An older snapshot gets none that may be newer, and no search one that is too old.
        assert_eq!(found(&leaves, 10, up, 9), None);
        let search = LeafSearch { owner: IndexId(7).into(), position: &key(10), direction: up, makes: true };
        assert!(matches!(leaves.find(search, 10..=10), LeafFound::Leaf(_)));
        assert!(matches!(
            leaves.find(LeafSearch { makes: false, ..search }, 11..=20),
            LeafFound::Absent(None)
        ));
        // A leaf that is outdated is the next one too, up and down.
        let outdated = |position, direction| {
            let search = LeafSearch { position: &key(position), direction, ..search };
            match leaves.find(search, 11..=20) {
                LeafFound::Absent(Some(place)) => place.bound.and_then(|bound| bound.last().copied()),
                LeafFound::Leaf(_) | LeafFound::Absent(None) => panic!("{position}"),
            }
        };
        assert_eq!(
            [(15, up), (9, up), (22, up)].map(|(at, way)| outdated(at, way)),
            [Some(20), Some(10), None]
        );
        assert_eq!(
            [(15, down), (20, down), (30, down)].map(|(at, way)| outdated(at, way)),
            [Some(10), Some(20), Some(24)]
        );
        assert_eq!((outdated(10, down), outdated(5, down)), (None, None));
        assert_eq!(place(&leaves, 8).bound.as_deref(), Some(&key(10)[..]));
        assert_eq!(place(&leaves, 24).bound, None);
    }

    #[test]
    fn a_write_takes_out_the_leaf_that_it_changes_and_keeps_new_ones_out() {
        let leaves = Leaves::new(1 << 20);
        keep(&leaves, 10, 20);
        keep(&leaves, 20, 24);
        let early = place(&leaves, 30);
        let write = leaves.changing(&changed(&[13, 15, 40]));
        let up = Direction::Ascending;
        assert_eq!((found(&leaves, 10, up, 10), found(&leaves, 20, up, 10)), (None, Some(20)));
        assert!(matches!(find(&leaves, 12, up, 10), LeafFound::Absent(None)), "a write is under way");
        leaves.keep(&early, leaf(30, 34), 10, || 10);
        drop(write);
        leaves.keep(&early, leaf(30, 34), 10, || 10);
        assert_eq!(found(&leaves, 30, up, 10), None, "a write has begun since its place was given");
        // A snapshot from before the write makes none.
        let late = place(&leaves, 30);
        leaves.keep(&late, leaf(30, 34), 10, || 11);
        assert!(matches!(find(&leaves, 30, up, 10), LeafFound::Absent(None)));
        leaves.keep(&late, leaf(30, 34), 11, || 11);
        assert_eq!((found(&leaves, 30, up, 10), found(&leaves, 30, up, 11)), (None, Some(30)));
        let mut range = changed(&[]);
        range.push_range(&key(22), &key(31));
        drop(leaves.changing(&range));
        assert_eq!((found(&leaves, 20, up, 11), found(&leaves, 30, up, 11), leaves.bytes()), (None, None, 0));
    }

    #[test]
    fn a_leaf_replaces_those_that_it_overlaps() {
        let leaves = Leaves::new(1 << 20);
        for (start, end) in [(10, 20), (20, 30), (40, 50)] {
            keep(&leaves, start, end);
        }
        let place = place(&leaves, 35);
        leaves.keep(&place, leaf(15, 45), 10, || 10);
        let up = Direction::Ascending;
        let starts = [10, 15, 29, 44, 45].map(|position| found(&leaves, position, up, 10));
        assert_eq!(starts, [None, Some(15), Some(15), Some(15), None]);
        assert_eq!(leaves.bytes(), leaf(15, 45).weight() as u64);
    }

    #[test]
    fn the_capacity_holds_and_what_is_used_stays() {
        let one = leaf(0, 2).weight();
        let leaves = Leaves::new(10 * one);
        keep(&leaves, 0, 2);
        for start in (2..200).step_by(2) {
            let place = place(&leaves, start);
            leaves.keep(&place, leaf(start, start + 2), 10, || 10);
            assert!(leaves.bytes() <= 10 * one as u64);
            assert_eq!(found(&leaves, 0, Direction::Ascending, 10), Some(0));
        }
        for (start, end) in [(220, 255), (220, 220)] {
            let large_or_empty = place(&leaves, 220);
            leaves.keep(&large_or_empty, leaf(start, end), 10, || 10);
            assert_eq!(found(&leaves, 220, Direction::Ascending, 10), None);
        }
        let none = Leaves::new(0);
        assert!(matches!(find(&none, 1, Direction::Ascending, 9), LeafFound::Absent(None)));
        drop(none.changing(&changed(&[1])));
        assert!(leaves.has_room() && !none.has_room());
    }

    /// How many of so many leaves that are wanted are made.
    fn made(leaves: &Leaves, wanted: usize) -> usize {
        let up = Direction::Ascending;
        (0..wanted).filter(|_| matches!(find(leaves, 100, up, 10), LeafFound::Absent(Some(_)))).count()
    }

    #[test]
    fn few_leaves_are_made_where_most_are_lost() {
        let many = 2 * MADE_AT_FIRST as usize;
        let lose: [fn(&Leaves, LeafPlace); 4] = [
            |leaves, place| {
                leaves.keep(&place, leaf(10, 20), 10, || 10);
                drop(leaves.changing_one(&key(12)));
            },
            |leaves, place| {
                leaves.keep(&place, leaf(10, 20), 10, || 10);
                drop(leaves.changing(&changed(&[12, 13])));
            },
            |leaves, place| {
                drop(leaves.changing_one(&key(12)));
                leaves.keep(&place, leaf(10, 20), 10, || 10);
            },
            |leaves, place| leaves.lose(&place),
        ];
        for lose in lose {
            let leaves = Leaves::new(1 << 20);
            assert_eq!(made(&leaves, many), many);
            (0..many).for_each(|_| lose(&leaves, place(&leaves, 10)));
            assert_eq!(made(&leaves, 160), 10);
            keep(&leaves, 10, 20);
            (0..1_000).for_each(|_| assert_eq!(found(&leaves, 10, Direction::Ascending, 10), Some(10)));
            assert_eq!(made(&leaves, 20), 20);
        }
    }

    #[test]
    fn few_leaves_are_made_where_they_drive_out_others() {
        let one = leaf(0, 2).weight();
        // So much that another leaf does not fit, and no more than the others.
        let leaves = Leaves::new(10 * one + one / 4);
        let many = 2 * MADE_AT_FIRST as usize;
        assert_eq!(made(&leaves, many), many);
        (0..20).step_by(2).for_each(|start| keep(&leaves, start, start + 2));
        assert_eq!(made(&leaves, 160), 10);
        // A write that removes one makes room.
        drop(leaves.changing_one(&key(18)));
        assert_eq!(made(&leaves, 100), 100);
        leaves.limit_to(4 * one);
        assert_eq!(leaves.bytes(), 4 * one as u64);
        assert_eq!(made(&leaves, 160), 10);
        leaves.limit_to(usize::MAX);
        assert_eq!(made(&leaves, 100), 100);
    }

    #[test]
    fn leaves_that_are_not_used_make_room_for_those_of_other_indexes() {
        let one = leaf(0, 2).weight();
        let leaves = Leaves::new(12 * one);
        let find_or_keep = |index: u32, number: u8| {
            let mut made = leaf(number, number + 2);
            made.start = [&index.to_be_bytes()[..], &[number]].concat().into();
            made.end = [&index.to_be_bytes()[..], &[number + 2]].concat().into();
            let (owner, position) = (IndexId(index).into(), made.start.clone());
            let search =
                LeafSearch { owner, position: &position, direction: Direction::Ascending, makes: true };
            match leaves.find(search, 5..=10) {
                LeafFound::Leaf(_) => true,
                LeafFound::Absent(Some(place)) => {
                    leaves.keep(&place, made, 10, || 10);
                    false
                }
                LeafFound::Absent(None) => panic!("no place"),
            }
        };
        let numbers = || (0..8).step_by(2);
        for index in 1..=3 {
            numbers().for_each(|number| assert!(!find_or_keep(index, number)));
        }
        // The hand comes to the first index, which is in use. The second is not.
        for (at, number) in numbers().enumerate() {
            for used in [1, 3] {
                assert!(numbers().all(|number| find_or_keep(used, number)), "{used}");
            }
            assert!(numbers().take(at).all(|number| find_or_keep(4, number)));
            assert!(!find_or_keep(4, number));
        }
        assert!(numbers().all(|number| find_or_keep(4, number)));
        assert!([1, 3].into_iter().all(|used| numbers().all(|number| find_or_keep(used, number))));
    }
}
