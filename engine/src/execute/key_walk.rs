//! A walk over spans of keys of one family on a snapshot: a scan of each span, or a lookup if a span is one key.
//!
//! Entries of an index are not scanned if leaves in memory have them, or are wanted there.

use std::sync::Arc;

use base::error::Result;
use bson::RawDocument;
use index::key::Direction;
use query::operation::OperationContext;
use store::Family;
use store::leaf::Entry;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::document::decode::stored;
use crate::execute::leaf_walk::{LeafStep, LeafWalk};
use crate::execute::rest::Rest;
use crate::plan::bounds::{KeySpan, KeySpans};

/// A walk over keys. It is before the first one until `advance` is called.
pub(super) struct KeyWalk {
    snapshot: Arc<Snapshot>,
    family: Family,
    direction: Direction,
    operation: OperationContext,
    pending: KeySpans,
    current: Current,
    /// Present if entries are read, of which leaves may be in memory.
    leaves: Option<Box<LeafWalk>>,
}

/// The result of a step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyStep {
    /// A scan found a key with its value.
    Scanned,
    /// A lookup found a key with its value.
    LookedUp,
    /// A lookup found no such key.
    Absent,
    End,
}

/// The position of a walk.
enum Current {
    /// Between two spans.
    Nothing,
    /// In a span of keys.
    Scan(Scan),
    /// At a copy of a key and its value. If they were found by a scan that has been released, `rest` is what is left of its
    /// span.
    Key { key: Vec<u8>, value: Vec<u8>, rest: Option<(Vec<u8>, Vec<u8>)> },
    /// In a span of which leaves have the next entries.
    Leaves,
}

impl KeyWalk {
    /// Opens a walk over the spans in `pending`, from the first or from the last on, as a part of an operation.
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        family: Family,
        pending: KeySpans,
        direction: Direction,
        operation: &OperationContext,
    ) -> Self {
        let (snapshot, operation) = (Arc::clone(snapshot), operation.clone());
        Self { snapshot, family, direction, operation, pending, current: Current::Nothing, leaves: None }
    }

    /// The same walk over entries of an index, of which leaves may be in memory.
    pub(super) fn by_leaves(self, index: &Index) -> Self {
        Self { leaves: Some(Box::new(LeafWalk::new(&self.snapshot, index, self.direction))), ..self }
    }

    /// Steps to the next key.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub(super) fn advance(&mut self) -> Result<KeyStep> {
        let is_scanned = match (&mut self.current, &mut self.leaves) {
            (Current::Leaves, Some(leaves)) => leaves.advance_within(),
            (Current::Scan(scan), _) => scan.advance()?,
            (Current::Leaves | Current::Nothing | Current::Key { .. }, _) => false,
        };
        if is_scanned { Ok(KeyStep::Scanned) } else { self.go_on() }
    }

    /// Steps to the next entry if it is in the same leaf, and returns it. Otherwise nothing is changed.
    #[inline]
    pub(super) fn next_in_leaf(&mut self) -> Option<Entry<'_>> {
        match (&self.current, &mut self.leaves) {
            (Current::Leaves, Some(leaves)) => leaves.next_within(),
            (Current::Leaves | Current::Nothing | Current::Scan(_) | Current::Key { .. }, _) => None,
        }
    }

    /// Goes on behind a scan or a leaf that has ended, or a key.
    fn go_on(&mut self) -> Result<KeyStep> {
        match (&self.current, &mut self.leaves) {
            (Current::Leaves, Some(leaves)) => match leaves.go_on() {
                LeafStep::Entry => return Ok(KeyStep::Scanned),
                LeafStep::End => self.current = Current::Nothing,
                LeafStep::Unknown => self.scan_rest(),
            },
            (Current::Scan(_), _) => self.current = Current::Nothing,
            (Current::Leaves | Current::Nothing | Current::Key { .. }, _) => {}
        }
        loop {
            let Current::Scan(scan) = &mut self.current else {
                match self.open_next()? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            };
            if scan.advance()? {
                return Ok(KeyStep::Scanned);
            }
            self.current = Current::Nothing;
        }
    }

    /// Opens the next span, or what is left of the one whose scan was released. A lookup is a step in itself, which is
    /// returned, and so is an entry of a leaf; a scan is not.
    fn open_next(&mut self) -> Result<Option<KeyStep>> {
        if let Current::Key { rest, .. } = &mut self.current
            && let Some(bounds) = rest.take()
        {
            self.scan(bounds);
            return Ok(None);
        }
        self.current = Current::Nothing;
        let Some(span) = self.pending.take(self.direction) else { return Ok(Some(KeyStep::End)) };
        let Some(leaves) = &mut self.leaves else { return self.open_stored(span) };
        let (step, is_key) = match &span {
            KeySpan::Between(start, end) => (leaves.begin(start, end), false),
            KeySpan::Key(key) => (leaves.begin(key, &[key, &[0][..]].concat()), true),
        };
        match step {
            LeafStep::Entry => {
                self.current = Current::Leaves;
                Ok(Some(if is_key { KeyStep::LookedUp } else { KeyStep::Scanned }))
            }
            LeafStep::End => Ok(is_key.then_some(KeyStep::Absent)),
            LeafStep::Unknown if is_key => self.open_stored(span),
            LeafStep::Unknown => {
                self.scan_rest();
                Ok(None)
            }
        }
    }

    /// Opens a span of which no leaf has anything.
    fn open_stored(&mut self, span: KeySpan) -> Result<Option<KeyStep>> {
        match span {
            KeySpan::Between(start, end) => {
                self.scan((start, end));
                Ok(None)
            }
            KeySpan::Key(key) => {
                // A lookup is cheaper than a scan of one key: it asks the Bloom filters first.
                let Some(value) = self.snapshot.get(self.family, &key)? else {
                    return Ok(Some(KeyStep::Absent));
                };
                self.current = Current::Key { key, value, rest: None };
                Ok(Some(KeyStep::LookedUp))
            }
        }
    }

    /// Scans what the leaves have left of a span.
    fn scan_rest(&mut self) {
        if let Some((start, end)) = self.leaves.as_ref().map(|leaves| leaves.bounds()) {
            self.scan((start.to_vec(), end.to_vec()));
        }
    }

    /// Opens a scan of a span.
    fn scan(&mut self, bounds: (Vec<u8>, Vec<u8>)) {
        let (start, end) = bounds;
        let bounds = (start, Some(end));
        let scan = Scan::open(&self.snapshot, self.family, bounds, CacheUse::Fill, &self.operation);
        self.current = Current::Scan(scan.towards(self.direction));
    }

    /// Makes the next step go on after all keys that start with the first `bytes` bytes of the current key.
    pub(super) fn skip_prefix(&mut self, bytes: usize) -> Result<()> {
        match &mut self.current {
            Current::Scan(scan) => {
                let prefix = scan.key().get(..bytes).unwrap_or_default().to_vec();
                scan.skip_prefix(&prefix)
            }
            Current::Leaves => {
                if let Some(leaves) = &mut self.leaves {
                    leaves.skip_prefix(bytes);
                }
                Ok(())
            }
            // A key by itself is alone in its span.
            Current::Nothing | Current::Key { .. } => Ok(()),
        }
    }

    /// Releases the scan, for which the store keeps memory. The bounds of what follows are kept.
    pub(super) fn rest(&mut self, current: Rest) {
        self.release();
        if let (Current::Leaves, Some(leaves)) = (&self.current, &mut self.leaves) {
            return leaves.rest(current);
        }
        let Current::Key { key, value, rest } = &mut self.current else { return };
        if current == Rest::Keep {
            return;
        }
        *value = Vec::new();
        let key = std::mem::take(key);
        if current == Rest::Release || key.is_empty() {
            return;
        }
        let after = [&key[..], &[0]].concat();
        *rest = Some(match (rest.take(), self.direction) {
            (Some((_, end)), Direction::Ascending) => (key, end),
            (Some((start, _)), Direction::Descending) => (start, after),
            // It was looked up, and what follows it is not in this span.
            (None, _) => (key, after),
        });
    }

    /// Replaces the scan by a copy of its key and value, and the bounds of what follows.
    fn release(&mut self) {
        // A key by itself holds nothing of the store.
        let Current::Scan(scan) = &mut self.current else { return };
        // After a skip the current key is the next one already.
        if scan.is_ahead() {
            return;
        }
        let (start, end) = scan.take_bounds();
        let (key, value) = (scan.key().to_vec(), scan.value().to_vec());
        let rest = match self.direction {
            // The scan has not been advanced yet.
            _ if key.is_empty() => (start, end),
            // The lowest key after `key` is the same with a zero byte more.
            Direction::Ascending => ([&key[..], &[0]].concat(), end),
            Direction::Descending => (start, key.clone()),
        };
        self.current = Current::Key { key, value, rest: Some(rest) };
    }

    /// The current key. It is empty before the first key and after the last.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        match &self.current {
            Current::Scan(scan) => scan.key(),
            Current::Key { key, .. } => key,
            Current::Leaves => self.leaves.as_ref().map_or(&[], |leaves| leaves.key()),
            Current::Nothing => &[],
        }
    }

    /// The current value. It is empty before the first key and after the last.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        match &self.current {
            Current::Scan(scan) => scan.value(),
            Current::Key { value, .. } => value,
            Current::Leaves => self.leaves.as_ref().map_or(&[], |leaves| leaves.value()),
            Current::Nothing => &[],
        }
    }

    /// The current value as a document.
    #[inline]
    pub(super) fn document(&self) -> Result<&RawDocument> {
        match RawDocument::from_bytes(self.value()) {
            Ok(document) => Ok(document),
            // Out of line: only the error needs the key, which would otherwise be computed for every document.
            Err(_) => self.not_a_document(),
        }
    }

    /// The error for a value that is not a document.
    #[cold]
    fn not_a_document(&self) -> Result<&RawDocument> {
        stored(self.key(), self.value())
    }
}
