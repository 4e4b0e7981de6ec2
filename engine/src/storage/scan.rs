//! A walk over the keys of one family between two bounds, on a snapshot.
//!
//! RocksDB's iterator reports an error by ceasing to be valid, so its status is looked at whenever it stops.

use std::sync::Arc;

use rocksdb::ReadOptions;

use crate::error::Result;
use crate::storage::families::Family;
use crate::storage::snapshot::{OwnedIterator, Snapshot};
use crate::storage::translate;

/// A forward walk. It stands before its first key until `advance` is called.
pub(crate) struct Scan {
    iterator: OwnedIterator,
    start: Vec<u8>,
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
        if let Some(end) = end {
            reads.set_iterate_upper_bound(end);
        }
        reads.fill_cache(cache == CacheUse::Fill);
        Self { iterator: OwnedIterator::open(snapshot, family, reads), start, position: Position::Before }
    }

    /// Steps to the next key; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match self.position {
            Position::Before => self.iterator.raw_mut().seek(&self.start),
            Position::At => self.iterator.raw_mut().next(),
            Position::End => return Ok(false),
        }
        if self.iterator.raw().valid() {
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
        self.iterator.raw().value().unwrap_or_default()
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
    iterator.raw_mut().seek_to_last();
    iterator.raw().status().map_err(translate::read)?;
    Ok(iterator.raw().key().map(<[u8]>::to_vec))
}
