//! The documents of a collection that match, on one read state, in the order of their `_id`s or against it.
//!
//! A filter that fixes the `_id` is one lookup; everything else is a walk over ranges of records on a snapshot.

use std::sync::Arc;

use bson::RawDocument;
use index::key::Direction;
use query::filter::Filter;
use query::operation::OperationContext;

use crate::document::decode::stored;
use crate::error::Result;
use crate::execute::read_view::{ReadState, ReadView};
use crate::plan::access::Access;
use crate::plan::bounds::{RecordRange, RecordRanges};
use crate::plan::selector::{PointKey, Selector};
use crate::storage::Family;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;

/// A walk over matching documents. It stands before the first until `advance` is called.
pub(crate) struct Matches {
    selector: Selector,
    /// The filter asks nothing.
    everything: bool,
    source: Source,
    looks: Looks,
}

/// What a walk has looked at so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Keys that were looked up.
    pub(crate) keys: u64,
    pub(crate) documents: u64,
    /// Documents that matched.
    pub(crate) matched: u64,
}

#[expect(clippy::large_enum_variant, reason = "one is made for each search, and rows box it")]
enum Source {
    /// The record that was looked up.
    Point {
        key: PointKey,
        bytes: Vec<u8>,
        place: Place,
    },
    Ranges(Ranges),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    At,
    End,
}

/// What is left to walk.
struct Ranges {
    snapshot: Arc<Snapshot>,
    direction: Direction,
    pending: RecordRanges,
    current: Current,
}

/// What a walk over ranges stands in.
enum Current {
    /// Between two ranges.
    Nothing,
    /// A range of keys, from the first up to but without the second.
    Scan { scan: Scan, bounds: (Vec<u8>, Vec<u8>) },
    /// A record by itself, and what is left of its range if it was found by a scan that was let go.
    Record { key: Vec<u8>, bytes: Vec<u8>, rest: Option<(Vec<u8>, Vec<u8>)> },
}

impl Matches {
    /// The walk over what was taken of the collection.
    pub(crate) fn open(view: ReadView, selector: Selector, direction: Direction) -> Result<Self> {
        let everything = selector.filter().is_some_and(Filter::is_empty);
        let collection = view.collection();
        let source = match view.into_state() {
            ReadState::Record { key, bytes } => Source::of_record(key, bytes),
            ReadState::Snapshot(snapshot) => {
                Source::of_snapshot(snapshot, Access::of(&selector, collection)?, direction)?
            }
        };
        let keys = match &source {
            Source::Point { place, .. } => u64::from(*place == Place::Before),
            Source::Ranges(_) => 0,
        };
        let looks = Looks { keys, ..Looks::default() };
        Ok(Self { selector, everything, source, looks })
    }

    /// Steps to the next matching document; `false` at the end. Each record is a step of the operation that the
    /// selector's variables belong to.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let stepped = self.step();
        self.looks.matched += u64::from(matches!(stepped, Ok(true)));
        stepped
    }

    /// Lets go of what the storage holds for the walk, until it goes on: memory of the store that would stay for as long
    /// as a reader waits. The current document is kept.
    pub(crate) fn rest(&mut self) {
        if let Source::Ranges(ranges) = &mut self.source {
            ranges.rest();
        }
    }

    /// What was looked at until now.
    pub(crate) fn looks(&self) -> Looks {
        self.looks
    }

    #[inline]
    fn step(&mut self) -> Result<bool> {
        let Self { selector, everything, source, looks } = self;
        let operation = selector.variables().operation();
        let ranges = match source {
            Source::Ranges(ranges) => ranges,
            Source::Point { key, bytes, place } => {
                operation.step()?;
                looks.documents += u64::from(*place == Place::Before);
                let is_match = *place == Place::Before && selector.matches(stored(key, bytes)?)?;
                *place = if is_match { Place::At } else { Place::End };
                return Ok(is_match);
            }
        };
        loop {
            let Current::Scan { scan, .. } = &mut ranges.current else {
                match ranges.open_next(operation)? {
                    Next::End => return Ok(false),
                    Next::Scan => continue,
                    Next::Record => looks.documents += 1,
                }
                if selector.matches(stored(ranges.key(), ranges.bytes())?)? {
                    return Ok(true);
                }
                continue;
            };
            if !scan.advance()? {
                ranges.current = Current::Nothing;
                continue;
            }
            looks.documents += 1;
            let value = scan.value();
            operation.pass(value.len())?;
            if *everything && is_framed(value) {
                return Ok(true);
            }
            if selector.matches(document_at(scan)?)? {
                return Ok(true);
            }
        }
    }

    /// The document stood on.
    #[inline]
    pub(crate) fn document(&self) -> Result<&RawDocument> {
        match &self.source {
            Source::Ranges(Ranges { current: Current::Scan { scan, .. }, .. }) => document_at(scan),
            Source::Ranges(_) | Source::Point { .. } => stored(self.record_key(), self.bytes()),
        }
    }

    /// The record key stood on.
    pub(crate) fn record_key(&self) -> &[u8] {
        match &self.source {
            Source::Point { key, place: Place::At, .. } => key,
            Source::Point { place: Place::Before | Place::End, .. } => &[],
            Source::Ranges(ranges) => ranges.key(),
        }
    }

    /// The stored bytes stood on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Ranges(ranges) => ranges.bytes(),
            Source::Point { bytes, place: Place::At, .. } => bytes,
            Source::Point { place: Place::Before | Place::End, .. } => &[],
        }
    }
}

impl Source {
    fn of_record(key: PointKey, bytes: Option<Vec<u8>>) -> Self {
        let place = if bytes.is_some() { Place::Before } else { Place::End };
        Self::Point { key, bytes: bytes.unwrap_or_default(), place }
    }

    fn of_snapshot(snapshot: Arc<Snapshot>, access: Access, direction: Direction) -> Result<Self> {
        let pending = match access {
            Access::Point(key) => {
                let bytes = snapshot.get(Family::Records, &key)?;
                return Ok(Self::of_record(key, bytes));
            }
            Access::Bounded { ranges, .. } | Access::Everything(ranges) => ranges,
        };
        Ok(Self::Ranges(Ranges { snapshot, direction, pending, current: Current::Nothing }))
    }
}

/// What the next range turned out to be.
enum Next {
    /// A scan, which stands before its first key.
    Scan,
    /// A record, which is the current one now.
    Record,
    /// There is none.
    End,
}

impl Ranges {
    /// Opens the next range, or what is left of the one that was rested in.
    fn open_next(&mut self, operation: &OperationContext) -> Result<Next> {
        if let Current::Record { rest, .. } = &mut self.current
            && let Some(bounds) = rest.take()
        {
            self.scan(bounds);
            return Ok(Next::Scan);
        }
        self.current = Current::Nothing;
        while let Some(range) = self.pending.take(self.direction) {
            operation.step()?;
            let key = match range {
                RecordRange::Key(key) => key,
                RecordRange::Between(start, end) => {
                    self.scan((start, end));
                    return Ok(Next::Scan);
                }
            };
            if let Some(bytes) = self.snapshot.get(Family::Records, &key)? {
                operation.pass(bytes.len())?;
                self.current = Current::Record { key, bytes, rest: None };
                return Ok(Next::Record);
            }
        }
        Ok(Next::End)
    }

    fn scan(&mut self, bounds: (Vec<u8>, Vec<u8>)) {
        let (start, end) = bounds.clone();
        let scan = Scan::open(&self.snapshot, Family::Records, (start, Some(end)), CacheUse::Fill);
        self.current = Current::Scan { scan: scan.towards(self.direction), bounds };
    }

    /// Keeps the current record, and the bounds of what follows, in the place of a scan.
    fn rest(&mut self) {
        let Current::Scan { scan, bounds } = &mut self.current else { return };
        let (start, end) = std::mem::take(bounds);
        let (key, bytes) = (scan.key().to_vec(), scan.value().to_vec());
        let rest = match self.direction {
            _ if key.is_empty() => (start, end),
            // No key lies between one and the same with a zero byte more.
            Direction::Ascending => ([&key[..], &[0]].concat(), end),
            Direction::Descending => (start, key.clone()),
        };
        self.current = Current::Record { key, bytes, rest: Some(rest) };
    }

    fn key(&self) -> &[u8] {
        match &self.current {
            Current::Scan { scan, .. } => scan.key(),
            Current::Record { key, .. } => key,
            Current::Nothing => &[],
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.current {
            Current::Scan { scan, .. } => scan.value(),
            Current::Record { bytes, .. } => bytes,
            Current::Nothing => &[],
        }
    }
}

/// The document that a scan stands on. The key is asked for only if it is to be named in an error.
#[inline]
fn document_at(scan: &Scan) -> Result<&RawDocument> {
    match RawDocument::from_bytes(scan.value()) {
        Ok(document) => Ok(document),
        Err(_) => not_a_document(scan),
    }
}

#[cold]
fn not_a_document(scan: &Scan) -> Result<&RawDocument> {
    stored(scan.key(), scan.value())
}

/// What `RawDocument::from_bytes` checks, in line: length and closing NUL.
#[inline]
fn is_framed(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    bytes.len() >= 5
        && length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len())
        && bytes.last() == Some(&0)
}
