//! The documents of a collection that match a filter, on one snapshot, in the order of their `_id`s.

use std::sync::Arc;
use std::time::{Duration, Instant};

use query::filter::Filter;

use crate::document::decode::stored;
use crate::error::{Error, Result};
use crate::plan::bounds::RecordRanges;
use crate::storage::Family;
use crate::storage::keys::CollectionId;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;

/// Records looked at between two looks at the clock.
const RECORDS_PER_CLOCK: u32 = 128;

/// A walk over matching documents. It stands before the first until `advance` is called.
pub(crate) struct Matches {
    snapshot: Arc<Snapshot>,
    filter: Filter,
    /// The filter asks nothing.
    everything: bool,
    pending: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    scan: Option<Scan>,
    deadline: Option<Deadline>,
}

struct Deadline {
    at: Instant,
    countdown: u32,
}

impl Matches {
    pub(crate) fn open(
        snapshot: Arc<Snapshot>,
        collection: CollectionId,
        filter: Filter,
        max_time: Option<Duration>,
    ) -> Result<Self> {
        let pending = RecordRanges::of(&filter, collection)?.ranges.into_iter();
        let deadline = max_time
            .filter(|limit| !limit.is_zero())
            .and_then(|limit| Instant::now().checked_add(limit))
            .map(|at| Deadline { at, countdown: RECORDS_PER_CLOCK });
        let everything = filter.is_empty();
        Ok(Self { snapshot, filter, everything, pending, scan: None, deadline })
    }

    /// Steps to the next matching document; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            let Some(scan) = &mut self.scan else {
                let Some((start, end)) = self.pending.next() else { return Ok(false) };
                let bounds = (start, Some(end));
                self.scan = Some(Scan::open(&self.snapshot, Family::Records, bounds, CacheUse::Fill));
                continue;
            };
            if !scan.advance()? {
                self.scan = None;
                continue;
            }
            if let Some(deadline) = &mut self.deadline {
                deadline.check()?;
            }
            if self.everything && is_framed(scan.value()) {
                return Ok(true);
            }
            if self.filter.matches(stored(scan.key(), scan.value())?) {
                return Ok(true);
            }
        }
    }

    /// The record key stood on.
    pub(crate) fn record_key(&self) -> &[u8] {
        self.scan.as_ref().map(Scan::key).unwrap_or_default()
    }

    /// The stored bytes stood on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.scan.as_ref().map(Scan::value).unwrap_or_default()
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }
}

impl Deadline {
    fn check(&mut self) -> Result<()> {
        self.countdown -= 1;
        if self.countdown > 0 {
            return Ok(());
        }
        self.countdown = RECORDS_PER_CLOCK;
        if Instant::now() < self.at {
            return Ok(());
        }
        Err(Error::command(50, "MaxTimeMSExpired", "operation exceeded time limit"))
    }
}

/// What `RawDocument::from_bytes` checks, in line: length and closing NUL.
#[inline]
fn is_framed(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    bytes.len() >= 5
        && length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len())
        && bytes.last() == Some(&0)
}
