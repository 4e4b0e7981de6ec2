//! A walk over the keys of one family between two bounds, on a snapshot.
//!
//! RocksDB's iterator becomes invalid at its end and on an error alike, so its status is checked whenever it stops.

use std::cmp::Ordering;
use std::sync::Arc;

use base::error::Result;
use index::key::Direction;
use index::range::KeyRange;
use rocksdb::ReadOptions;

use crate::cache_reads;
use crate::families::Family;
use crate::first_live;
use crate::live_starts::SKIPPED_MIN;
use crate::merged::Merged;
use crate::snapshot::{OwnedIterator, Snapshot, Step};
use crate::translate;

/// A walk over keys. Its position is before the first key until `advance` is called.
pub struct Scan {
    iterator: Keys,
    direction: Direction,
    position: Position,
    /// Present if its first live key may be noted.
    range: Option<Range>,
}

/// What a walk goes over.
enum Keys {
    Stored(OwnedIterator),
    /// With a transaction's staged changes over what is stored.
    Merged(Box<Merged>),
}

/// The keys from a first one up to an end.
struct Range {
    family: Family,
    start: Vec<u8>,
    end: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Before,
    At,
    /// At the key that the next `advance` steps to.
    Ahead,
    End,
}

/// How many keys are stepped over before a skip seeks. A seek costs about as much as ten steps.
const SKIPPED_STEPS: usize = 8;

/// Whether a walk fills the block cache. One that reads a whole collection must not push other blocks out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// Blocks are kept in the cache.
    Fill,
    /// Blocks that the scan reads do not enter the cache.
    Bypass,
}

impl CacheUse {
    fn options(self) -> ReadOptions {
        let mut reads = ReadOptions::default();
        reads.fill_cache(self == Self::Fill);
        reads
    }
}

impl Keys {
    /// Moves to another key. Returns `false` if there is no current key afterwards.
    #[inline]
    fn step(&mut self, step: Step<'_>) -> bool {
        match self {
            Self::Stored(stored) => stored.step(step),
            Self::Merged(merged) => merged.step(step),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Self::Stored(stored) => stored.key(),
            Self::Merged(merged) => merged.key(),
        }
    }

    #[inline]
    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Stored(stored) => stored.value(),
            Self::Merged(merged) => merged.value(),
        }
    }

    fn stored(&self) -> &OwnedIterator {
        match self {
            Self::Stored(stored) => stored,
            Self::Merged(merged) => merged.stored(),
        }
    }
}

impl Scan {
    /// Opens a walk over the keys between two bounds: the first key (included), and the end (excluded). With `None`
    /// as the end it goes to the end of the family.
    pub fn open(
        snapshot: &Arc<Snapshot>,
        family: Family,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        cache: CacheUse,
    ) -> Self {
        // What reads a whole collection, to verify it for example, goes by no note.
        if cache == CacheUse::Bypass {
            return Self::with_options(snapshot, family, None, bounds, cache.options());
        }
        let (start, end) = bounds;
        let Some(end) = end else {
            return Self::with_options(snapshot, family, None, (start, None), cache.options());
        };
        let database = snapshot.database();
        let first = database.live_starts().of(database.number(family), &start, || snapshot.sequence());
        // Where nothing of the range is left, it ends before it begins.
        let first = first.map(|first| first.min(end.clone()));
        let bounds = (start.clone(), Some(end.clone()));
        let scan = Self::with_options(snapshot, family, first, bounds, cache.options());
        Self { range: Some(Range { family, start, end }), ..scan }
    }

    /// The bounds that the walk was opened with, both of them, to fill the cache. For who goes on with another walk.
    pub fn take_bounds(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.range.take().map(|range| (range.start, range.end)).unwrap_or_default()
    }

    /// Opens a walk, as [`open`](Self::open) does, that fails when it has passed `deleted` deleted keys in a row. It does not fill the
    /// block cache.
    pub fn open_hurried(
        snapshot: &Arc<Snapshot>,
        family: Family,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        deleted: u64,
    ) -> Self {
        let mut reads = CacheUse::Bypass.options();
        reads.set_max_skippable_internal_keys(deleted);
        Self::with_options(snapshot, family, None, bounds, reads)
    }

    /// Opens a walk between two bounds. If `first` is given, no stored key of them is before it.
    fn with_options(
        snapshot: &Arc<Snapshot>,
        family: Family,
        first: Option<Vec<u8>>,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        mut reads: ReadOptions,
    ) -> Self {
        let staged = snapshot.staged(family).map(|overlay| (Arc::clone(overlay), bounds.clone()));
        let (start, end) = bounds;
        // As bounds of the iterator they let RocksDB skip table files outside of them, and stop without a comparison
        // here.
        reads.set_iterate_lower_bound(first.unwrap_or(start));
        if let Some(end) = end {
            reads.set_iterate_upper_bound(end);
        }
        let stored = OwnedIterator::open(snapshot, family, reads);
        let iterator = match staged {
            None => Keys::Stored(stored),
            Some((overlay, bounds)) => Keys::Merged(Box::new(Merged::new(stored, overlay, family, bounds))),
        };
        Self { iterator, direction: Direction::Ascending, position: Position::Before, range: None }
    }

    /// Sets the direction of the walk. `advance` must not have been called.
    pub fn towards(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Steps to the next key. Returns `false` at the end.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        let is_valid = match (self.position, self.direction) {
            (Position::At, Direction::Ascending) => self.iterator.step(Step::Next),
            (Position::At, Direction::Descending) => self.iterator.step(Step::Prev),
            // The bounds are set, so these are the first and the last key between them.
            (Position::Ahead, _) => self.iterator.value().is_some(),
            (Position::Before, Direction::Ascending) => self.first()?,
            (Position::Before, Direction::Descending) => self.iterator.step(Step::Last),
            (Position::End, _) => return Ok(false),
        };
        if is_valid {
            self.position = Position::At;
            return Ok(true);
        }
        self.end()
    }

    /// Goes to the first key. Where many deleted ones were before it, it is noted for later scans.
    #[inline]
    fn first(&mut self) -> Result<bool> {
        let Some(Range { family, start, end }) = &self.range else {
            return Ok(self.iterator.step(Step::First));
        };
        let before = cache_reads::skipped();
        let is_valid = self.iterator.step(Step::First);
        // The counters are RocksDB's, and a program may reset them.
        let skipped = cache_reads::skipped().saturating_sub(before);
        if skipped >= SKIPPED_MIN && self.iterator.stored().raw().status().is_ok() {
            // An empty range is one whose first live key is its end: so is a queue with nothing in it.
            let found = self.iterator.stored().raw().key().unwrap_or(end);
            let database = self.iterator.stored().snapshot().database();
            first_live::note(database, *family, start, found)?;
        }
        Ok(is_valid)
    }

    /// Makes the next `advance` step to the first key that does not start with `prefix`. The current key starts with it.
    #[inline]
    pub fn skip_prefix(&mut self, prefix: &[u8]) {
        if self.position != Position::At {
            return;
        }
        self.position = Position::Ahead;
        // Most prefixes have few keys, and then a step is cheaper than a seek.
        for _ in 0..SKIPPED_STEPS {
            // Stepping an iterator without a current key is not allowed.
            if !self.step() || !self.key().starts_with(prefix) {
                return;
            }
        }
        match self.direction {
            Direction::Ascending => match KeyRange::prefix(prefix.to_vec()).end {
                Some(end) => drop(self.iterator.step(Step::Seek(&end))),
                // No key is after the last prefix.
                None => while self.key().starts_with(prefix) && self.step() {},
            },
            Direction::Descending => {
                self.iterator.step(Step::SeekForPrev(prefix));
                // The prefix itself may be a key.
                if self.key() == prefix {
                    self.step();
                }
            }
        }
    }

    /// Steps forward to the first key that is not before `key`, unless the current one is. Returns whether it is `key` itself.
    /// The walk must be ascending.
    #[inline]
    pub fn advance_to(&mut self, key: &[u8]) -> Result<bool> {
        let mut steps = 0;
        while self.position != Position::End && (self.position == Position::Before || self.key() < key) {
            // Most keys that are asked for one after the other are close, and then a step is cheaper than a seek.
            let is_valid = if self.position == Position::At && steps < SKIPPED_STEPS {
                steps += 1;
                self.iterator.step(Step::Next)
            } else {
                self.iterator.step(Step::Seek(key))
            };
            if !is_valid {
                return self.end();
            }
            self.position = Position::At;
        }
        Ok(self.position == Position::At && self.key() == key)
    }

    /// Goes to the first key that is not before `key`, from wherever the walk is. Returns whether it is `key` itself.
    #[inline]
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if !self.iterator.step(Step::Seek(key)) {
            return self.end();
        }
        self.position = Position::At;
        Ok(self.key() == key)
    }

    /// Goes from the current key to `key`, forward or back, in at most `steps` steps. Returns whether it is there. If not, the
    /// walk is somewhere between, and a [`Self::seek`] must follow.
    pub fn step_towards(&mut self, key: &[u8], steps: usize) -> Result<bool> {
        // Stepping an iterator without a current key is not allowed.
        if self.position != Position::At {
            return Ok(false);
        }
        let way = self.key().cmp(key);
        for _ in 0..steps {
            let is_valid = match way {
                Ordering::Less => self.iterator.step(Step::Next),
                Ordering::Greater => self.iterator.step(Step::Prev),
                Ordering::Equal => return Ok(true),
            };
            if !is_valid {
                return self.end();
            }
            let left = self.key().cmp(key);
            if left != way {
                return Ok(left == Ordering::Equal);
            }
        }
        Ok(false)
    }

    /// Whether the current key is the next one: a skip has gone there already.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.position == Position::Ahead
    }

    /// Moves the iterator by one key. Returns `false` if it has no current key afterwards.
    fn step(&mut self) -> bool {
        match self.direction {
            Direction::Ascending => self.iterator.step(Step::Next),
            Direction::Descending => self.iterator.step(Step::Prev),
        }
    }

    /// Ends the walk. Fails if it stopped because of an error.
    #[cold]
    fn end(&mut self) -> Result<bool> {
        self.position = Position::End;
        self.iterator.stored().raw().status().map_err(translate::read)?;
        Ok(false)
    }

    /// The current key. Empty before the first and after the last.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.iterator.key()
    }

    /// The current value. Empty before the first and after the last.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.iterator.value().unwrap_or_default()
    }
}

/// The highest key of the family from `prefix` (included) to `end` (excluded).
pub fn last_key(
    snapshot: &Arc<Snapshot>,
    family: Family,
    prefix: &[u8],
    end: Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    let bounds = (prefix.to_vec(), Some(end));
    let mut scan = Scan::with_options(snapshot, family, None, bounds, ReadOptions::default());
    scan.direction = Direction::Descending;
    Ok(scan.advance()?.then(|| scan.key().to_vec()))
}
