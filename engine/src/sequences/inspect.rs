//! `snapshot`, `gaps` and `safe_watermark`.

use std::sync::Arc;

use sequence::store::GAPS_KEPT;

use crate::catalog::sequence_entry::decode_gap;
use crate::catalog::sequences::SequenceState;
use crate::error::Result;
use crate::results::{SequenceGap, SequenceSnapshot};
use crate::sequences::handle::Sequence;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

impl Sequence {
    /// Attributes and state at this moment. This, like everything that only looks, may be asked of the sequence behind an
    /// auto-increment field as well, by its internal name.
    pub fn snapshot(&self) -> SnapshotSequence<'_> {
        SnapshotSequence { sequence: self }
    }

    /// Values that nobody will get, and why: the newest thousand entries of the ledger, oldest first. It tells why a
    /// number is missing.
    pub fn gaps(&self) -> ListGaps<'_> {
        ListGaps { sequence: self }
    }

    /// The highest value, in the sequence's order, such that no value up to it can still become visible by an insert
    /// that is under way; absent while even the first can. A value that `next_value` or `fetch` handed out counts
    /// as visible at once.
    pub fn safe_watermark(&self) -> SafeWatermark<'_> {
        SafeWatermark { sequence: self }
    }
}

/// A `snapshot` that is done by [`run`](Self::run).
#[must_use = "the snapshot is taken by run()"]
pub struct SnapshotSequence<'a> {
    sequence: &'a Sequence,
}

/// A `gaps` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListGaps<'a> {
    sequence: &'a Sequence,
}

/// A `safe_watermark` that is done by [`run`](Self::run).
#[must_use = "the watermark is read by run()"]
pub struct SafeWatermark<'a> {
    sequence: &'a Sequence,
}

impl SnapshotSequence<'_> {
    /// Takes the snapshot.
    pub fn run(self) -> Result<SequenceSnapshot> {
        self.sequence.inspect(|state, _| Ok(snapshot_of(state)))
    }
}

impl ListGaps<'_> {
    /// Reads the list.
    pub fn run(self) -> Result<Vec<SequenceGap>> {
        self.sequence.inspect(|state, storage| gaps_of(state, storage.database))
    }
}

impl SafeWatermark<'_> {
    /// Reads the watermark.
    pub fn run(self) -> Result<Option<i64>> {
        self.sequence.inspect(|state, _| Ok(state.sequence.safe_watermark()))
    }
}

pub(crate) fn snapshot_of(state: &SequenceState) -> SequenceSnapshot {
    let snapshot = state.sequence.snapshot();
    let attributes = &snapshot.attributes;
    let shown = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let narrow = |size: i64| i32::try_from(size).unwrap_or(i32::MAX);
    SequenceSnapshot {
        object_id: state.identity.object_id,
        internal: state.identity.owner.is_some(),
        id: shown(state.identity.id.0),
        collection_id: state.identity.owner.map_or(0, |owner| owner.0.into()),
        name: state.identity.name.clone(),
        version: snapshot.version,
        current_value: snapshot.current_value,
        start_value: attributes.start_value(),
        min_value: attributes.min_value(),
        max_value: attributes.max_value(),
        increment: narrow(attributes.increment()),
        cache_size: narrow(attributes.cache_size()),
        acquire_size: narrow(attributes.acquire_size()),
        cycled: attributes.is_cycled(),
        cycled_count: snapshot.cycled_count,
        initial: snapshot.initial,
        contract: attributes.contract().name().to_owned(),
        last_used: snapshot.last_used,
        remaining: shown(snapshot.remaining),
        exhausted: snapshot.remaining == 0,
        reservations: shown(snapshot.reservations),
        lost: shown(snapshot.lost),
    }
}

/// The ledger on disk, and behind it what the next write will list.
pub(crate) fn gaps_of(state: &SequenceState, database: &Arc<Database>) -> Result<Vec<SequenceGap>> {
    let pending = state.sequence.pending_gaps();
    let (first, end) = state.identity.id.gap_bounds();
    let mut scan = Scan::open(&Snapshot::take(database), Family::Meta, (first, Some(end)), CacheUse::Fill);
    let mut gaps = Vec::new();
    while scan.advance()? {
        let (gap, at) = decode_gap(scan.key(), scan.value())?;
        gaps.push(shown(&gap, Some(at)));
    }
    gaps.extend(pending.iter().map(|gap| shown(gap, None)));
    // The write that lists the pending ones removes as many of the oldest.
    Ok(gaps.split_off(gaps.len().saturating_sub(GAPS_KEPT)))
}

fn shown(gap: &sequence::store::Gap, at: Option<bson::DateTime>) -> SequenceGap {
    SequenceGap {
        first: gap.run.first(),
        last: gap.run.last(),
        increment: gap.run.increment(),
        count: gap.run.count(),
        cause: gap.cause.name().to_owned(),
        at,
    }
}
