//! A walk over spans of keys of one family on a snapshot: a scan of each, or a lookup where a span is one key.

use std::sync::Arc;

use bson::RawDocument;
use index::key::Direction;

use crate::document::decode::stored;
use crate::error::Result;
use crate::plan::bounds::{KeySpan, KeySpans};
use crate::storage::Family;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;

/// The walk. It stands before the first key until `advance` is called.
pub(super) struct KeyWalk {
    snapshot: Arc<Snapshot>,
    family: Family,
    direction: Direction,
    pending: KeySpans,
    current: Current,
}

/// What a step of a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A key with its value, by a scan.
    Scanned,
    /// A key with its value, by a lookup.
    LookedUp,
    /// A key that is not there.
    Absent,
    End,
}

enum Current {
    /// Between two spans.
    Nothing,
    /// A span of keys, from the first up to but without the second.
    Scan { scan: Scan, bounds: (Vec<u8>, Vec<u8>) },
    /// A key by itself, and what is left of its span if it was found by a scan that was let go.
    Key { key: Vec<u8>, value: Vec<u8>, rest: Option<(Vec<u8>, Vec<u8>)> },
}

impl KeyWalk {
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        family: Family,
        pending: KeySpans,
        direction: Direction,
    ) -> Self {
        Self { snapshot: Arc::clone(snapshot), family, direction, pending, current: Current::Nothing }
    }

    /// Steps to the next key.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Step> {
        loop {
            let Current::Scan { scan, .. } = &mut self.current else {
                match self.open_next()? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            };
            if scan.advance()? {
                return Ok(Step::Scanned);
            }
            self.current = Current::Nothing;
        }
    }

    /// Opens the next span, or what is left of the one that was rested in. A lookup is a step already.
    fn open_next(&mut self) -> Result<Option<Step>> {
        if let Current::Key { rest, .. } = &mut self.current
            && let Some(bounds) = rest.take()
        {
            self.scan(bounds);
            return Ok(None);
        }
        self.current = Current::Nothing;
        match self.pending.take(self.direction) {
            None => Ok(Some(Step::End)),
            Some(KeySpan::Between(start, end)) => {
                self.scan((start, end));
                Ok(None)
            }
            Some(KeySpan::Key(key)) => {
                let Some(value) = self.snapshot.get(self.family, &key)? else {
                    return Ok(Some(Step::Absent));
                };
                self.current = Current::Key { key, value, rest: None };
                Ok(Some(Step::LookedUp))
            }
        }
    }

    fn scan(&mut self, bounds: (Vec<u8>, Vec<u8>)) {
        let (start, end) = bounds.clone();
        let scan = Scan::open(&self.snapshot, self.family, (start, Some(end)), CacheUse::Fill);
        self.current = Current::Scan { scan: scan.towards(self.direction), bounds };
    }

    /// Keeps the current key and the bounds of what follows, and lets the scan go, for which the store keeps memory.
    pub(super) fn rest(&mut self) {
        let Current::Scan { scan, bounds } = &mut self.current else { return };
        let (start, end) = std::mem::take(bounds);
        let (key, value) = (scan.key().to_vec(), scan.value().to_vec());
        let rest = match self.direction {
            _ if key.is_empty() => (start, end),
            // No key lies between one and the same with a zero byte more.
            Direction::Ascending => ([&key[..], &[0]].concat(), end),
            Direction::Descending => (start, key.clone()),
        };
        self.current = Current::Key { key, value, rest: Some(rest) };
    }

    /// The current key; empty before the first and after the last.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        match &self.current {
            Current::Scan { scan, .. } => scan.key(),
            Current::Key { key, .. } => key,
            Current::Nothing => &[],
        }
    }

    /// The current value; empty before the first and after the last.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        match &self.current {
            Current::Scan { scan, .. } => scan.value(),
            Current::Key { value, .. } => value,
            Current::Nothing => &[],
        }
    }

    /// The current value as a document. The key is asked for only if it is to be named in an error.
    #[inline]
    pub(super) fn document(&self) -> Result<&RawDocument> {
        match RawDocument::from_bytes(self.value()) {
            Ok(document) => Ok(document),
            Err(_) => self.not_a_document(),
        }
    }

    #[cold]
    fn not_a_document(&self) -> Result<&RawDocument> {
        stored(self.key(), self.value())
    }
}
