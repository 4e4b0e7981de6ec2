//! The verbs that only read a sequence: `snapshot`, `gaps` and `safe_watermark`.

use std::sync::Arc;

use base::error::Result;
use query::operation::OperationContext;
use sequence::store::GAPS_KEPT;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::sequence_entry::decode_gap;
use crate::catalog::sequences::SequenceState;
use crate::results::{SequenceGap, SequenceSnapshot};
use crate::sequences::handle::Sequence;

impl Sequence {
    /// The attributes and the state at this moment. Like the other verbs that only read, it also works for
    /// the sequence of an auto-increment field, by its internal name.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").start_value(100).run()?;
    /// let snapshot = db.sequence("tickets").snapshot().run()?;
    /// assert_eq!(snapshot.start_value, 100);
    /// assert!(snapshot.initial, "no value was handed out yet");
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> SnapshotSequence<'_> {
        SnapshotSequence { sequence: self }
    }

    /// The values that no caller will ever get, with the reason: the newest thousand entries of the ledger,
    /// oldest first. They explain why a number is missing.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// tickets.next_value().run()?;
    /// // The rest of the block is given up, and the values in between are skipped.
    /// tickets.set_current_value(5000).run()?;
    /// let gaps = tickets.gaps().run()?;
    /// assert_eq!((gaps[0].first, gaps[0].cause.as_str()), (2, "explicitValue"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn gaps(&self) -> ListGaps<'_> {
        ListGaps { sequence: self }
    }

    /// The highest value, in the sequence's order, up to which every value is either visible or will never
    /// be. Running inserts may still make higher values visible. It is `None` as long as not even the first
    /// value is safe. A value that `next_value` or `fetch` has returned counts as visible at once.
    ///
    /// A reader that has read all documents up to the watermark will not miss one later.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// let first = tickets.next_value().run()?;
    /// assert!(tickets.safe_watermark().run()?.is_some_and(|safe| safe >= first));
    /// # Ok(())
    /// # }
    /// ```
    pub fn safe_watermark(&self) -> SafeWatermark<'_> {
        SafeWatermark { sequence: self }
    }
}

/// The options of [`Sequence::snapshot`], which is done by [`run`](Self::run).
#[must_use = "the snapshot is taken by run()"]
pub struct SnapshotSequence<'a> {
    sequence: &'a Sequence,
}

/// The options of [`Sequence::gaps`], which is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListGaps<'a> {
    sequence: &'a Sequence,
}

/// The options of [`Sequence::safe_watermark`], which is done by [`run`](Self::run).
#[must_use = "the watermark is read by run()"]
pub struct SafeWatermark<'a> {
    sequence: &'a Sequence,
}

impl SnapshotSequence<'_> {
    /// Makes the snapshot.
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

/// The public form of a sequence's attributes and state.
pub(crate) fn snapshot_of(state: &SequenceState) -> SequenceSnapshot {
    let snapshot = state.sequence.snapshot();
    let attributes = &snapshot.attributes;
    // SequoiaDB's snapshot has signed integers, and 32 bits for these attributes, which its rules keep within
    // that range.
    let shown = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let narrow = |size: i64| i32::try_from(size).unwrap_or(i32::MAX);
    SequenceSnapshot {
        object_id: state.identity.object_id,
        internal: state.identity.owner.is_some(),
        id: shown(state.identity.id.0),
        // 0 means no collection: collections have ids from 1 on.
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
        used_up_to: snapshot.used_up_to,
        remaining: shown(snapshot.remaining),
        exhausted: snapshot.remaining == 0,
        reservations: shown(snapshot.reservations),
        lost: shown(snapshot.lost),
    }
}

/// The gaps of the ledger on disk, and after them those that the next write will add.
pub(crate) fn gaps_of(state: &SequenceState, database: &Arc<Database>) -> Result<Vec<SequenceGap>> {
    // Before the snapshot: a gap that is written in between is listed twice rather than not at all.
    let pending = state.sequence.pending_gaps();
    let (first, end) = state.identity.id.gap_bounds();
    let (snapshot, bounds) = (Snapshot::take(database), (first, Some(end)));
    // A sequence keeps few gaps, and is read without an operation.
    let operation = OperationContext::unlimited();
    let mut scan = Scan::open(&snapshot, Family::Meta, bounds, CacheUse::Fill, &operation);
    let mut gaps = Vec::new();
    while scan.advance()? {
        let (gap, at) = decode_gap(scan.key(), scan.value())?;
        gaps.push(shown(&gap, Some(at)));
    }
    gaps.extend(pending.iter().map(|gap| shown(gap, None)));
    // The write that adds the pending gaps removes as many of the oldest ones.
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
