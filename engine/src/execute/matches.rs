//! The documents of a collection that match, on one read state, in the order of their `_id`s or against it.
//!
//! A filter that fixes the `_id` is one lookup; everything else is a walk over ranges of records on a snapshot.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use index::key::Direction;
use query::filter::Filter;

use crate::document::decode::stored;
use crate::error::Result;
use crate::execute::read_view::{ReadState, ReadView};
use crate::execute::time_limit::TimeLimit;
use crate::plan::access::Access;
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
    limit: Option<TimeLimit>,
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
    pending: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    scan: Option<Scan>,
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
        Ok(Self { selector, everything, source, limit: None, looks })
    }

    /// The same walk, which gives up after so much time at work.
    pub(crate) fn within(self, limit: Option<Duration>) -> Self {
        Self { limit: TimeLimit::of(limit), ..self }
    }

    /// Steps to the next matching document; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if let Some(limit) = &mut self.limit {
            limit.resume();
        }
        let stepped = self.step();
        if let Some(limit) = &mut self.limit {
            limit.pause();
        }
        self.looks.matched += u64::from(matches!(stepped, Ok(true)));
        stepped
    }

    /// What was looked at until now.
    pub(crate) fn looks(&self) -> Looks {
        self.looks
    }

    #[inline]
    fn step(&mut self) -> Result<bool> {
        let Self { selector, everything, source, limit, looks } = self;
        let ranges = match source {
            Source::Ranges(ranges) => ranges,
            Source::Point { key, bytes, place } => {
                looks.documents += u64::from(*place == Place::Before);
                let is_match = *place == Place::Before && selector.matches(stored(key, bytes)?)?;
                *place = if is_match { Place::At } else { Place::End };
                return Ok(is_match);
            }
        };
        loop {
            let Some(scan) = &mut ranges.scan else {
                if !ranges.open_next() {
                    return Ok(false);
                }
                continue;
            };
            if !scan.advance()? {
                ranges.scan = None;
                continue;
            }
            looks.documents += 1;
            if let Some(limit) = limit {
                limit.check()?;
            }
            let value = scan.value();
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
            Source::Ranges(Ranges { scan: Some(scan), .. }) => document_at(scan),
            Source::Ranges(_) | Source::Point { .. } => stored(self.record_key(), self.bytes()),
        }
    }

    /// The record key stood on.
    pub(crate) fn record_key(&self) -> &[u8] {
        match &self.source {
            Source::Point { key, place: Place::At, .. } => key,
            Source::Point { place: Place::Before | Place::End, .. } => &[],
            Source::Ranges(ranges) => ranges.scan.as_ref().map(Scan::key).unwrap_or_default(),
        }
    }

    /// The stored bytes stood on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Ranges(ranges) => ranges.scan.as_ref().map(Scan::value).unwrap_or_default(),
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
        let mut ranges = match access {
            Access::Point(key) => {
                let bytes = snapshot.get(Family::Records, &key)?;
                return Ok(Self::of_record(key, bytes));
            }
            Access::Bounded { ranges, .. } => ranges,
            Access::Everything { start, end } => vec![(start, end)],
        };
        if direction == Direction::Descending {
            ranges.reverse();
        }
        Ok(Self::Ranges(Ranges { snapshot, direction, pending: ranges.into_iter(), scan: None }))
    }
}

impl Ranges {
    /// Opens the next range; `false` if there is none.
    fn open_next(&mut self) -> bool {
        let Some((start, end)) = self.pending.next() else { return false };
        let scan = Scan::open(&self.snapshot, Family::Records, (start, Some(end)), CacheUse::Fill);
        self.scan = Some(scan.towards(self.direction));
        true
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
