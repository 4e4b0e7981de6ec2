//! A walk over entries of an index, or over records, from leaf to leaf in memory. Leaves that are wanted and not there are made on the way.

use std::ops::Range;
use std::sync::Arc;

use index::key::Direction;
use index::range::KeyRange;
use store::keys::CollectionId;
use store::leaf::{Entry, Leaf, LeafBuilder};
use store::leaf_switch::LeafSwitch;
use store::leaves::{LeafFound, LeafOwner, LeafPlace, LeafSearch};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::execute::entry_shape::EntryShape;
use crate::execute::rest::Rest;

/// The number of deleted entries in a row that are passed to make a leaf: a search may not need all of it.
const DELETED_MAX: u64 = 64;
/// The most leaves that one walk makes. A longer one reads the rest as it is, and drives out nothing more.
const MADE_MAX: u32 = 1 << 12;
/// The fewest records that make a leaf.
const RECORDS_MIN: usize = 8;
/// No position in a leaf.
const NONE: usize = usize::MAX;

/// A walk over a span of entries. It is before the first one until `advance` is called.
pub(super) struct LeafWalk {
    snapshot: Arc<Snapshot>,
    owner: LeafOwner,
    /// Absent if records are read.
    shape: Option<EntryShape>,
    switch: Arc<LeafSwitch>,
    direction: Direction,
    /// The span, without what was passed in leaves before the current one.
    start: Vec<u8>,
    end: Vec<u8>,
    /// The leaf that has the next entries, or had the last ones.
    leaf: Option<Arc<Leaf>>,
    /// Positions in it.
    left: Range<usize>,
    current: usize,
    /// The walk that the last leaf was made by.
    maker: Option<Maker>,
    made: u32,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafStep {
    Entry,
    End,
    /// No leaf has the rest of the span: it must be read elsewhere.
    Unknown,
}

/// A walk that makes leaves one after the other.
struct Maker {
    scan: Scan,
    shape: Option<EntryShape>,
    /// The key up to which entries were read.
    position: Vec<u8>,
    /// The key at which the scan ends.
    bound: Vec<u8>,
    /// Whether the scan is at an entry that is in no leaf yet.
    is_ahead: bool,
}

/// The reason for which a leaf ends.
enum Stop {
    /// At the bound of the scan.
    Bound,
    /// At the entry that the scan is at.
    Entry,
    /// Somewhere behind the last entry.
    Unknown,
}

impl LeafWalk {
    /// A walk over nothing.
    pub(super) fn new(snapshot: &Arc<Snapshot>, index: &Index, direction: Direction) -> Self {
        let shape = Some(EntryShape::of(&index.spec));
        Self::of(snapshot, index.id.into(), shape, Arc::clone(&index.leaves), direction)
    }

    /// A walk over nothing among the records of a collection.
    pub(super) fn of_records(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        direction: Direction,
    ) -> Self {
        let switch = Arc::clone(snapshot.record_switch(collection));
        Self::of(snapshot, collection.into(), None, switch, direction)
    }

    fn of(
        snapshot: &Arc<Snapshot>,
        owner: LeafOwner,
        shape: Option<EntryShape>,
        switch: Arc<LeafSwitch>,
        direction: Direction,
    ) -> Self {
        Self {
            snapshot: Arc::clone(snapshot),
            owner,
            shape,
            switch,
            direction,
            start: Vec::new(),
            end: Vec::new(),
            leaf: None,
            left: 0..0,
            current: NONE,
            maker: None,
            made: 0,
        }
    }

    /// Begins with another span, from one key (included) to another (excluded), and steps to its first entry. If that is in the same leaf,
    /// nothing is looked up.
    pub(super) fn begin(&mut self, start: &[u8], end: &[u8]) -> LeafStep {
        start.clone_into(&mut self.start);
        end.clone_into(&mut self.end);
        self.enter();
        self.advance()
    }

    /// Begins with the span of all keys that start with `prefix` and is at its only entry, if the leaf has that where the last span ended.
    /// Returns `false` if [`begin`](Self::begin) must look for it.
    #[inline]
    pub(super) fn begin_at_next(&mut self, prefix: &[u8]) -> bool {
        let (Some(leaf), next) = (&self.leaf, self.left.start) else { return false };
        // Those before it and behind it are in the leaf, so there is no other one.
        let [before, this, behind] =
            [next.wrapping_sub(1), next, next.wrapping_add(1)].map(|at| leaf.key(at));
        let is_other = |key: &[u8]| !key.is_empty() && !key.starts_with(prefix);
        if !this.starts_with(prefix) || !is_other(before) || !is_other(behind) {
            return false;
        }
        self.current = next;
        self.left = next + 1..next + 1;
        prefix.clone_into(&mut self.start);
        prefix.clone_into(&mut self.end);
        true
    }

    /// Steps to a key, if it is the next one of the same leaf, and returns its value.
    #[inline]
    pub(super) fn find_next(&mut self, key: &[u8]) -> Option<&[u8]> {
        let (next, leaf) = (self.behind_current(), self.leaf.as_ref()?);
        let entry = leaf.entry(next);
        if entry.key != key {
            return None;
        }
        self.current = next;
        Some(entry.value)
    }

    /// The position behind the current one, or none.
    #[inline]
    fn behind_current(&self) -> usize {
        match self.direction {
            Direction::Ascending => self.current.wrapping_add(1),
            Direction::Descending => self.current.wrapping_sub(1),
        }
    }

    /// Goes to a key. Returns whether it is there, and `None` if no leaf has its place.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<bool> {
        if let Some(leaf) = self.leaf.as_ref().filter(|_| self.has_place(key)) {
            self.current = leaf.position(key, self.behind_current());
            return Some(leaf.key(self.current) == key);
        }
        match self.begin(key, &behind(key)) {
            LeafStep::Entry => Some(true),
            LeafStep::End => Some(false),
            LeafStep::Unknown => None,
        }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// The number of leaves that it has made.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// The same walk as the one after another one, which has made `made` leaves.
    pub(super) fn having_made(self, made: u32) -> Self {
        Self { made, ..self }
    }

    /// Notes whether a leaf that was made was of use.
    pub(super) fn note_use(&self, is_of_use: bool) {
        self.switch.made(is_of_use);
    }

    /// Lets go of what leaves are made by.
    pub(super) fn stop(&mut self) {
        self.maker = None;
    }

    /// Whether the current leaf has the place of a key.
    pub(super) fn has_place(&self, key: &[u8]) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| leaf.start() <= key && key < leaf.end())
    }

    /// Goes to the first entry of the span that is left, if the leaf has it.
    fn enter(&mut self) {
        self.current = NONE;
        let leaf = self.leaf.take().filter(|leaf| match self.direction {
            Direction::Ascending => leaf.start() <= &*self.start && &*self.start < leaf.end(),
            Direction::Descending => leaf.start() < &*self.end && &*self.end <= leaf.end(),
        });
        let hint = self.left.start;
        self.left = leaf.as_ref().map_or(0..0, |leaf| leaf.within(&self.start, &self.end, hint));
        self.leaf = leaf;
    }

    /// Steps to the next entry.
    #[inline]
    pub(super) fn advance(&mut self) -> LeafStep {
        if self.advance_within() { LeafStep::Entry } else { self.go_on() }
    }

    /// Steps to the next entry of the same leaf. Returns `false` if it has no more.
    #[inline]
    pub(super) fn advance_within(&mut self) -> bool {
        let next = self.next_position();
        self.current = next.unwrap_or(NONE);
        next.is_some()
    }

    /// Takes the position of the next entry from those that the leaf has left.
    #[inline]
    fn next_position(&mut self) -> Option<usize> {
        match self.direction {
            Direction::Ascending => self.left.next(),
            Direction::Descending => self.left.next_back(),
        }
    }

    /// Steps to the next entry of the same leaf, and returns it. If the leaf has no more, the current entry stays.
    #[inline]
    pub(super) fn next_within(&mut self) -> Option<Entry<'_>> {
        self.current = self.next_position()?;
        self.leaf.as_ref().map(|leaf| leaf.entry(self.current))
    }

    /// Goes on behind the current leaf.
    pub(super) fn go_on(&mut self) -> LeafStep {
        loop {
            if let Some(leaf) = &self.leaf {
                let is_last = match self.direction {
                    Direction::Ascending => leaf.end() >= &*self.end,
                    Direction::Descending => leaf.start() <= &*self.start,
                };
                match self.direction {
                    _ if is_last => self.start.clone_from(&self.end),
                    Direction::Ascending => leaf.end().clone_into(&mut self.start),
                    Direction::Descending => leaf.start().clone_into(&mut self.end),
                }
            }
            // The last leaf stays: the next span may be in it.
            if self.start >= self.end {
                self.maker = None;
                return LeafStep::End;
            }
            let (owner, direction) = (self.owner, self.direction);
            // Records are asked for one by one, and whether they follow each other is seen only afterwards.
            let makes = self.made < MADE_MAX && (self.shape.is_some() || self.switch.may_make());
            let search = LeafSearch { owner, position: self.position(), direction, makes };
            let found = self.snapshot.find_leaf(search, &self.switch);
            self.leaf = match found {
                LeafFound::Leaf(leaf) => Some(leaf),
                LeafFound::Absent(Some(place)) => self.make(&place),
                LeafFound::Absent(None) => None,
            };
            let Some(leaf) = &self.leaf else {
                self.maker = None;
                return LeafStep::Unknown;
            };
            self.left = leaf.within(&self.start, &self.end, 0);
            if self.advance_within() {
                return LeafStep::Entry;
            }
        }
    }

    /// The key from which the next leaf is looked for.
    fn position(&self) -> &[u8] {
        match self.direction {
            Direction::Ascending => &self.start,
            Direction::Descending => &self.end,
        }
    }

    /// Makes the next leaf. Returns `None` if there can be none.
    fn make(&mut self, place: &LeafPlace) -> Option<Arc<Leaf>> {
        self.made += 1;
        let maker = self.maker.take().filter(|maker| maker.position == self.position());
        let mut maker = maker.unwrap_or_else(|| self.maker(place));
        let mut entries = LeafBuilder::of(self.owner.family());
        let stop = maker.read(&mut entries);
        let position = std::mem::take(&mut maker.position);
        let edge = match (&stop, self.direction) {
            (Stop::Bound, _) => maker.bound.clone(),
            // So large that a leaf would save nothing.
            _ if entries.len() < self.entries_min() => {
                self.snapshot.lose_leaf(place);
                return None;
            }
            (Stop::Entry, Direction::Ascending) => maker.scan.key().to_vec(),
            (Stop::Entry, Direction::Descending) => behind(maker.scan.key()),
            (Stop::Unknown, Direction::Ascending) => behind(entries.last()),
            (Stop::Unknown, Direction::Descending) => entries.last().to_vec(),
        };
        if matches!(stop, Stop::Entry) {
            maker.position.clone_from(&edge);
            self.maker = Some(maker);
        }
        let bounds = match self.direction {
            Direction::Ascending => (position, edge),
            Direction::Descending => (edge, position),
        };
        Some(self.snapshot.keep_leaf(place, entries.finish(bounds, self.direction)))
    }

    /// The fewest entries of a leaf that ends at a further one.
    fn entries_min(&self) -> usize {
        if self.shape.is_some() { 1 } else { RECORDS_MIN }
    }

    /// A walk that makes leaves from here on.
    fn maker(&self, place: &LeafPlace) -> Maker {
        let position = self.position().to_vec();
        let bound = match (&place.bound, self.direction) {
            (Some(bound), _) => bound.to_vec(),
            (None, Direction::Ascending) => self.owner.end(),
            (None, Direction::Descending) => self.owner.start().to_vec(),
        };
        let bounds = match self.direction {
            Direction::Ascending => (position.clone(), Some(bound.clone())),
            Direction::Descending => (bound.clone(), Some(position.clone())),
        };
        let family = self.owner.family();
        let scan = Scan::open_hurried(&self.snapshot, family, bounds, CacheUse::Fill, DELETED_MAX);
        let shape = self.shape;
        Maker { scan: scan.towards(self.direction), shape, position, bound, is_ahead: false }
    }

    /// Makes the next step go on after all keys that start with the first `bytes` bytes of the current key.
    pub(super) fn skip_prefix(&mut self, bytes: usize) {
        let Some(prefix) = self.key().get(..bytes).map(<[u8]>::to_vec) else { return };
        match (self.direction, KeyRange::prefix(prefix)) {
            (Direction::Ascending, KeyRange { end: Some(end), .. }) => self.start = end,
            (Direction::Ascending, KeyRange { end: None, .. }) => self.start.clone_from(&self.end),
            (Direction::Descending, KeyRange { start, .. }) => self.end = start,
        }
        self.enter();
    }

    /// Releases what is in memory for the walk, or only what the store keeps for it if the current entry is needed further.
    pub(super) fn rest(&mut self, current: Rest) {
        self.maker = None;
        if current == Rest::Keep {
            return;
        }
        if self.current != NONE {
            let key = self.key().to_vec();
            match (self.direction, current == Rest::Repeat) {
                (Direction::Ascending, true) => self.start = key,
                (Direction::Ascending, false) => self.start = behind(&key),
                (Direction::Descending, true) => self.end = behind(&key),
                (Direction::Descending, false) => self.end = key,
            }
        }
        self.leaf = None;
        self.enter();
    }

    /// The rest of the span.
    pub(super) fn bounds(&self) -> (&[u8], &[u8]) {
        (&self.start, &self.end)
    }

    /// The current key. It is empty before the first entry and after the last.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.leaf.as_ref().map_or(&[], |leaf| leaf.key(self.current))
    }

    /// The current value. It is empty before the first entry and after the last.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.leaf.as_ref().map_or(&[], |leaf| leaf.value(self.current))
    }
}

impl Maker {
    /// Reads the entries of a leaf.
    fn read(&mut self, entries: &mut LeafBuilder) -> Stop {
        loop {
            if !self.is_ahead {
                match self.scan.advance() {
                    Ok(true) => {}
                    Ok(false) => return Stop::Bound,
                    // Whatever stops it here stops the search as well, or only lasts longer.
                    Err(_) => return Stop::Unknown,
                }
            }
            let (key, value) = (self.scan.key(), self.scan.value());
            let edge = self.shape.map_or(0, |shape| shape.edge(key, value));
            self.is_ahead = !entries.push(Entry { key, value, edge });
            if self.is_ahead {
                return Stop::Entry;
            }
        }
    }
}

/// The lowest key above a key.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
