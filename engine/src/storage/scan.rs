//! A walk over the keys of one family between two bounds, on a snapshot.
//!
//! RocksDB's iterator reports an error by ceasing to be valid, so its status is looked at whenever it stops.

use std::sync::Arc;

use index::key::Direction;
use rocksdb::{DBRawIterator, ReadOptions};

use crate::error::Result;
use crate::storage::families::Family;
use crate::storage::snapshot::{OwnedIterator, Snapshot};
use crate::storage::translate;

/// A walk. It stands before its first key until `advance` is called.
pub(crate) struct Scan {
    iterator: OwnedIterator,
    direction: Direction,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Before,
    At,
    End,
}

/// What the walk is for: a sequential scan must not push the working set out of the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    Fill,
    Bypass,
}

impl Scan {
    /// Walks from `start` (included) to `end` (excluded; to the end of the family if absent).
    pub(crate) fn open(
        snapshot: &Arc<Snapshot>,
        family: Family,
        (start, end): (Vec<u8>, Option<Vec<u8>>),
        cache: CacheUse,
    ) -> Self {
        let mut reads = ReadOptions::default();
        reads.set_iterate_lower_bound(start);
        if let Some(end) = end {
            reads.set_iterate_upper_bound(end);
        }
        reads.fill_cache(cache == CacheUse::Fill);
        let iterator = OwnedIterator::open(snapshot, family, reads);
        Self { iterator, direction: Direction::Ascending, position: Position::Before }
    }

    /// The same walk in this direction. It must not have begun.
    pub(crate) fn towards(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Steps to the next key; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let is_valid = match (self.position, self.direction) {
            (Position::At, Direction::Ascending) => self.iterator.step(DBRawIterator::next),
            (Position::At, Direction::Descending) => self.iterator.step(DBRawIterator::prev),
            // The bounds are set, so these are the first and the last key between them.
            (Position::Before, Direction::Ascending) => self.iterator.step(DBRawIterator::seek_to_first),
            (Position::Before, Direction::Descending) => self.iterator.step(DBRawIterator::seek_to_last),
            (Position::End, _) => return Ok(false),
        };
        if is_valid {
            self.position = Position::At;
            return Ok(true);
        }
        self.end()
    }

    #[cold]
    fn end(&mut self) -> Result<bool> {
        self.position = Position::End;
        self.iterator.raw().status().map_err(translate::read)?;
        Ok(false)
    }

    /// The key stood on; empty before the first and after the last.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.iterator.raw().key().unwrap_or_default()
    }

    /// The value stood on; empty before the first and after the last.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.iterator.value().unwrap_or_default()
    }
}

/// The last key of the family below `end` that starts with `prefix`.
pub(crate) fn last_key(
    snapshot: &Arc<Snapshot>,
    family: Family,
    prefix: &[u8],
    end: Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    let mut reads = ReadOptions::default();
    reads.set_iterate_upper_bound(end);
    reads.set_iterate_lower_bound(prefix.to_vec());
    let mut iterator = OwnedIterator::open(snapshot, family, reads);
    iterator.step(DBRawIterator::seek_to_last);
    iterator.raw().status().map_err(translate::read)?;
    Ok(iterator.raw().key().map(<[u8]>::to_vec))
}
