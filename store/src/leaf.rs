//! A leaf of an index or of a collection in memory: the entries or records from one key to another.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use index::key::Direction;

use crate::format::Family;

/// The most entries of a leaf that a search makes.
const ENTRIES_MAX: usize = 64;
/// The bytes after which such a leaf has enough.
const BYTES_MAX: usize = 4 << 10;
/// The bytes after which a leaf of a collection has enough. Positions in it have 16 bits.
const RECORDS_BYTES_MAX: usize = 16 << 10;
const _: () = assert!(RECORDS_BYTES_MAX <= u16::MAX as usize);
/// The bytes of a leaf beside its entries: its two keys, its place in the tree, and the allocator's part.
const LEAF_BYTES: usize = 200;

/// All entries of an index, or all records of a collection, from one key (included) to another (excluded), in ascending order.
#[derive(Debug)]
pub struct Leaf {
    pub(super) start: Box<[u8]>,
    pub(super) end: Box<[u8]>,
    /// Not below the sequence numbers of the writes that the entries are of.
    pub(super) stamp: u64,
    /// The keys and values.
    bytes: Box<[u8]>,
    entries: Box<[Part]>,
    /// Whether it was used since the last search for one to drop.
    pub(super) is_used: AtomicBool,
}

/// The part of the bytes that an entry has: its key, and then its value.
#[derive(Clone, Copy, Debug)]
struct Part {
    key: u16,
    value: u16,
    end: u16,
    edge: u16,
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// A position in its key or its value, found for its readers by the search that made the leaf.
    pub edge: usize,
}

/// A leaf that is being made.
pub struct LeafBuilder {
    bytes_max: usize,
    bytes: Vec<u8>,
    entries: Vec<Part>,
}

impl Leaf {
    /// The first key that it may have.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The first key behind it.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// The key and the value of an entry by its position. Both are empty if there is none.
    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        let part = self.entries.get(at);
        part.and_then(|part| self.bytes.get(part.key.into()..part.value.into())).unwrap_or_default()
    }

    /// An entry by its position. All of it is empty if there is none.
    #[inline]
    pub fn entry(&self, at: usize) -> Entry<'_> {
        let Some(part) = self.entries.get(at) else { return Entry::default() };
        let key = self.bytes.get(part.key.into()..part.value.into()).unwrap_or_default();
        let value = self.bytes.get(part.value.into()..part.end.into()).unwrap_or_default();
        Entry { key, value, edge: part.edge.into() }
    }

    /// See [`key`](Self::key).
    #[inline]
    pub fn value(&self, at: usize) -> &[u8] {
        let part = self.entries.get(at);
        part.and_then(|part| self.bytes.get(part.value.into()..part.end.into())).unwrap_or_default()
    }

    /// The position of the first entry whose key is not below `key`. The search begins at `hint`, which costs two comparisons if that is it.
    #[inline]
    pub fn position(&self, key: &[u8], hint: usize) -> usize {
        let is_below = |at: usize| self.key(at) < key;
        let mut range = 0..self.entries.len();
        if range.contains(&hint) && !is_below(hint) {
            range.end = hint;
            if hint > 0 && is_below(hint - 1) {
                return hint;
            }
        } else if range.contains(&hint) {
            range.start = hint + 1;
            if range.start < range.end && !is_below(hint + 1) {
                return hint + 1;
            }
        }
        while !range.is_empty() {
            let middle = range.start + range.len() / 2;
            range = if is_below(middle) { middle + 1..range.end } else { range.start..middle };
        }
        range.start
    }

    /// The positions of the entries from a key (included) to another (excluded). `hint` is about where the first of them is.
    pub fn within(&self, start: &[u8], end: &[u8], hint: usize) -> Range<usize> {
        let first = if start <= &*self.start { 0 } else { self.position(start, hint) };
        let last = if end >= &*self.end { self.entries.len() } else { self.position(end, first) };
        first..last.max(first)
    }

    /// The position of the first entry from a key on.
    pub fn first_from(&self, key: &[u8]) -> usize {
        self.position(key, 0)
    }

    /// The number of entries.
    #[expect(clippy::len_without_is_empty, reason = "a leaf without entries is as good as any")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes that it uses in a tree.
    pub(super) fn weight(&self) -> usize {
        let keys = 2 * self.start.len() + self.end.len();
        LEAF_BYTES + keys + self.bytes.len() + size_of_val(&*self.entries)
    }
}

impl LeafBuilder {
    /// An empty leaf of an index or of a collection.
    pub fn of(family: Family) -> Self {
        let bytes_max = if family == Family::Records { RECORDS_BYTES_MAX } else { BYTES_MAX };
        Self { bytes_max, bytes: Vec::new(), entries: Vec::new() }
    }

    /// Adds the next entry in the direction of the search. Returns `false` if the leaf has enough.
    #[must_use]
    pub fn push(&mut self, entry: Entry<'_>) -> bool {
        let Entry { key, value, edge } = entry;
        let has_room = self.bytes.len() + key.len() + value.len() <= self.bytes_max;
        let has_room = has_room && self.entries.len() < ENTRIES_MAX;
        if has_room {
            let at = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
            let start = at(self.bytes.len());
            self.bytes.extend_from_slice(key);
            let middle = at(self.bytes.len());
            self.bytes.extend_from_slice(value);
            self.entries.push(Part { key: start, value: middle, end: at(self.bytes.len()), edge: at(edge) });
        }
        has_room
    }

    /// The number of entries.
    #[expect(clippy::len_without_is_empty, reason = "no caller needs it")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The key of the entry that was added last.
    pub fn last(&self) -> &[u8] {
        let part = self.entries.last();
        part.and_then(|part| self.bytes.get(part.key.into()..part.value.into())).unwrap_or_default()
    }

    /// The leaf of all entries from one key to another, which were added in a direction.
    pub fn finish(mut self, bounds: (Vec<u8>, Vec<u8>), direction: Direction) -> Leaf {
        if direction == Direction::Descending {
            self.entries.reverse();
        }
        let (start, end) = bounds;
        Leaf {
            start: start.into(),
            end: end.into(),
            stamp: 0,
            bytes: self.bytes.into(),
            entries: self.entries.into(),
            is_used: AtomicBool::new(false),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Keys of one index.
    pub(crate) fn key(number: u8) -> Vec<u8> {
        vec![0, 0, 0, 7, number]
    }

    /// A leaf of the even numbers from one number up to another.
    pub(crate) fn leaf(start: u8, end: u8) -> Leaf {
        let mut entries = LeafBuilder::of(Family::Entries);
        for number in (start..end).filter(|number| number % 2 == 0) {
            assert!(entries.push(Entry { key: &key(number), value: &[number], edge: number.into() }));
        }
        entries.finish((key(start), key(end)), Direction::Ascending)
    }

    #[test]
    fn positions_in_a_leaf() {
        let leaf = leaf(10, 40);
        for hint in 0..=leaf.len() {
            for number in 10..=40 {
                let expected = (0..leaf.len()).find(|at| leaf.key(*at) >= &key(number)[..]);
                assert_eq!(
                    leaf.position(&key(number), hint),
                    expected.unwrap_or(leaf.len()),
                    "{number}, {hint}"
                );
            }
        }
        assert_eq!((leaf.within(&key(5), &key(50), 3), leaf.within(&key(13), &key(13), 0)), (0..15, 2..2));
        assert_eq!(
            (leaf.within(&key(13), &key(17), 1), leaf.key(2), leaf.value(2)),
            (2..4, &key(14)[..], &[14][..])
        );
        assert_eq!((leaf.key(15), leaf.value(15)), (&[][..], &[][..]));
        assert_eq!(leaf.entry(2), Entry { key: &key(14), value: &[14], edge: 14 });
        assert_eq!(leaf.entry(15), Entry::default());
    }

    #[test]
    fn a_leaf_of_entries_that_came_in_descending_order_ascends() {
        let mut entries = LeafBuilder::of(Family::Entries);
        assert!(entries.len() == 0 && entries.last().is_empty());
        for number in [9, 7, 3] {
            assert!(entries.push(Entry { key: &key(number), ..Entry::default() }));
        }
        assert_eq!(entries.last(), key(3));
        let leaf = entries.finish((key(1), key(9)), Direction::Descending);
        assert_eq!([0, 1, 2].map(|at| leaf.key(at).last().copied()), [Some(3), Some(7), Some(9)]);
        let mut entries = LeafBuilder::of(Family::Entries);
        let too_long = Entry { key: &[1; BYTES_MAX], value: &[1], edge: 0 };
        assert!(!entries.push(too_long) && entries.len() == 0);
        let mut is_pushed = |number: u8| entries.push(Entry { key: &key(number), ..Entry::default() });
        assert_eq!((0..100).take_while(|number| is_pushed(*number)).count(), ENTRIES_MAX);
    }
}
