//! Inserts into capped collections, and what other writes to them change in the order of their documents.
//!
//! A document gets the next position, and the oldest ones are removed in the same batch, as many as the limits ask for. Each
//! document of a call comes after the one before it: a key that was removed to make room is free for the next one.

use std::collections::{HashSet, VecDeque};

use base::error::{Error, Result};
use base::metrics::notes;
use base::write_error::{Refusal, WriteError};
use query::code::Code;
use store::Family;
use store::keys::{OrderId, position_of};
use store::latch::{LatchSet, Latched};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::Batch;

use crate::catalog::capped::{CappedLimits, OrderState, OrderTurn};
use crate::catalog::given_keys::filters::Absence;
use crate::document::decode::stored;
use crate::write::auto_increment::holds::SequenceHolds;
use crate::write::commit::Candidate;
use crate::write::entries::{Entry, NewArrays, stored_entries_of};
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};
use crate::write::prepare::{Prepared, encoded_id};
use crate::write::unique::{add_unique_latches, taken_entry, taken_id, unique_entries};
use crate::write::{COMMIT_BYTES_MAX, Target};

/// Waits for the turn of a write at the order of its collection. Returns `None` if the collection is not capped. No latch may
/// be held.
#[inline]
pub(super) fn turn(target: Target<'_>) -> Result<Option<OrderTurn<'_>>> {
    target.collection.order().map(|order| order.turn(target.database, target.operation)).transpose()
}

/// Stores one document.
#[cold]
pub(super) fn commit_one(
    target: Target<'_>,
    turn: OrderTurn<'_>,
    candidate: &Candidate<'_>,
    holds: &mut SequenceHolds<'_>,
) -> Result<()> {
    let mut insertion = Insertion::begin(target, turn)?;
    let mut latched =
        target.store.latches.lock(&latches_of(target, std::slice::from_ref(candidate)), target.operation)?;
    if let Some(refusal) = insertion.take(candidate, &mut latched)? {
        return Err(Error::write(refusal));
    }
    holds.stage(&mut insertion.batch, 1);
    target.expect_new([candidate]);
    insertion.commit(&mut latched)
}

/// Stores candidates, and adds to `outcome` what became of each. Returns how many were stored.
#[cold]
pub(super) fn commit_many<S: InsertedSet>(
    target: Target<'_>,
    turn: OrderTurn<'_>,
    call: Call<'_, '_, '_>,
    outcome: &mut InsertOutcome<S>,
) -> Result<usize> {
    let Call { candidates, order, holds } = call;
    // The turn is held already, and latches come after it: no writer waits for a turn with a latch in its hand.
    let mut insertion = Insertion::begin(target, turn)?;
    let mut latched = target.store.latches.lock(&latches_of(target, candidates), target.operation)?;
    let mut accepted: Vec<&Candidate<'_>> = Vec::with_capacity(candidates.len());
    // Those before this one are committed.
    let mut committed = 0;
    for candidate in candidates {
        match insertion.take(candidate, &mut latched)? {
            None => accepted.push(candidate),
            Some(refusal) => {
                outcome.refused.push(refusal.at(candidate.position));
                if order == InsertOrder::Ordered {
                    break;
                }
            }
        }
        // Documents that push out many others make a batch longer than they are. The marks of a gapless sequence are right for all of them only.
        if insertion.batch.bytes() > 2 * COMMIT_BYTES_MAX && !holds.is_gapless() {
            target.expect_new(accepted.iter().skip(committed).copied());
            insertion.commit(&mut latched)?;
            accepted.iter().skip(committed).for_each(|stored| {
                outcome.inserted.add(stored.position, &stored.prepared);
            });
            committed = accepted.len();
        }
    }
    // Documents that were rejected, or are committed already, leave no batch.
    if accepted.len() > committed {
        holds.stage(&mut insertion.batch, accepted.len());
        target.expect_new(accepted.iter().skip(committed).copied());
        insertion.commit(&mut latched)?;
        accepted.iter().skip(committed).for_each(|stored| {
            outcome.inserted.add(stored.position, &stored.prepared);
        });
    }
    Ok(accepted.len())
}

/// Removes the oldest documents until the others have room.
pub(crate) fn trim(target: Target<'_>) -> Result<()> {
    let Some(turn) = turn(target)? else { return Ok(()) };
    let mut latches = target.store.latches.set();
    // Every commit holds a latch, by which an audit sees it as a whole.
    latches.add(&turn.id().state_key());
    let mut insertion = Insertion::begin(target, turn)?;
    let mut held = target.store.latches.lock(&latches, target.operation)?;
    loop {
        let OrderState { documents, bytes, .. } = insertion.turn.state;
        if documents == 0 || !insertion.limits.are_exceeded(documents, bytes) {
            break;
        }
        target.operation.step()?;
        insertion.remove_oldest()?;
        if insertion.batch.bytes() > COMMIT_BYTES_MAX {
            insertion.commit(&mut held)?;
        }
    }
    if insertion.batch.is_empty() { Ok(()) } else { insertion.commit(&mut held) }
}

/// The documents that a call inserts together.
pub(super) struct Call<'a, 'b, 'h> {
    pub(super) candidates: &'a [Candidate<'b>],
    pub(super) order: InsertOrder,
    pub(super) holds: &'a mut SequenceHolds<'h>,
}

/// Stages the removal of a document from the order. Its latch is held.
pub(super) fn stage_removal(
    target: Target<'_>,
    turn: &mut OrderTurn<'_>,
    batch: &mut Batch<'_>,
    key: &[u8],
    document: &[u8],
) -> Result<()> {
    // Looked up: the position of a document is stored nowhere but here, and an update must not have to know it.
    let document_key = turn.id().document_key(encoded_id(key));
    let found = target.database.get(Family::Entries, &document_key)?;
    let position = found.and_then(|value| <[u8; 8]>::try_from(&*value).ok()).map(u64::from_be_bytes);
    let position = position.ok_or_else(|| {
        let reason = "a document of a capped collection has no position";
        Error::corruption(Family::Entries.name(), &document_key, reason)
    })?;
    batch.delete(Family::Entries, &turn.id().position_key(position));
    batch.delete(Family::Entries, &document_key);
    // The first position stays: it is only a bound, and the next insert that needs room moves it on.
    turn.state.documents = turn.state.documents.saturating_sub(1);
    turn.state.bytes = turn.state.bytes.saturating_sub(document.len() as u64);
    Ok(())
}

/// Notes that a document has another length. The next insert makes room, if that is needed.
pub(super) fn resize(state: &mut OrderState, old: &[u8], new: &[u8]) {
    state.bytes = state.bytes.saturating_sub(old.len() as u64).saturating_add(new.len() as u64);
}

fn latches_of(target: Target<'_>, candidates: &[Candidate<'_>]) -> LatchSet {
    let mut latches = target.store.latches.set();
    target.latch_token(&mut latches);
    for candidate in candidates {
        latches.add(&candidate.prepared.record_key);
        add_unique_latches(&mut latches, target, &candidate.drawn.entries);
    }
    latches
}

/// Inserts into a capped collection that are not committed yet.
struct Insertion<'a, 'b> {
    target: Target<'a>,
    turn: OrderTurn<'a>,
    limits: CappedLimits,
    batch: Batch<'a>,
    /// Documents that are only in the batch, with their positions.
    staged: VecDeque<(u64, &'b Candidate<'b>)>,
    /// Record keys and unique keys that the batch adds and does not remove again.
    added: HashSet<Vec<u8>>,
    /// Those that it removes and does not add again.
    removed: HashSet<Vec<u8>>,
    arrays: NewArrays,
    inserted: u64,
    /// The change of the number of documents by the batch.
    change: i64,
}

impl<'a, 'b> Insertion<'a, 'b> {
    fn begin(target: Target<'a>, turn: OrderTurn<'a>) -> Result<Self> {
        let capped = target.definition.capped;
        let limits = capped.ok_or_else(|| Error::invalid_argument("the collection is not capped"))?.limits;
        Ok(Self {
            target,
            turn,
            limits,
            batch: Batch::new(target.database),
            staged: VecDeque::new(),
            added: HashSet::new(),
            removed: HashSet::new(),
            arrays: NewArrays::new(),
            inserted: 0,
            change: 0,
        })
    }

    /// Stages a document, and the removal of those that it leaves no room for. Returns why it is rejected, if it is.
    fn take(&mut self, candidate: &'b Candidate<'b>, latched: &mut Latched<'_>) -> Result<Option<Refusal>> {
        let Candidate { prepared, drawn, .. } = candidate;
        if let Some(refusal) = self.refuse(candidate)? {
            return Ok(Some(refusal));
        }
        let bytes = prepared.bytes.len() as u64;
        loop {
            let OrderState { documents, bytes: stored, .. } = self.turn.state;
            // As if the document were there: it must not be among those that go.
            if documents == 0 || !self.limits.are_exceeded(documents + 1, stored.saturating_add(bytes)) {
                break;
            }
            self.target.operation.step()?;
            self.remove_oldest()?;
            // Much has to go at once: the limits were lowered, or a large document pushes out many small ones.
            if self.staged.is_empty() && self.inserted == 0 && self.batch.bytes() > COMMIT_BYTES_MAX {
                self.commit(latched)?;
            }
        }
        let id = encoded_id(&prepared.record_key);
        // From here on nothing can be rejected.
        let (order, position) = (self.turn.id(), self.turn.state.next);
        self.target.put_free_record(&mut self.batch, &prepared.record_key, prepared.bytes);
        for entry in &drawn.entries {
            self.target.put_entry(&mut self.batch, entry);
        }
        self.batch.put(Family::Entries, &order.position_key(position), id);
        self.batch.put(Family::Entries, &order.document_key(id), &position.to_be_bytes());
        // Later documents of the call see the keys as they will be after the commit.
        for key in self.keys_of(prepared, &drawn.entries) {
            self.removed.remove(&key);
            self.added.insert(key);
        }
        self.staged.push_back((position, candidate));
        self.arrays.extend(drawn.arrays.iter().cloned());
        let state = &mut self.turn.state;
        (state.next, state.documents) = (position + 1, state.documents + 1);
        state.bytes = state.bytes.saturating_add(bytes);
        (self.inserted, self.change) = (self.inserted + 1, self.change + 1);
        Ok(None)
    }

    fn refuse(&self, candidate: &Candidate<'_>) -> Result<Option<Refusal>> {
        let Candidate { prepared, drawn, .. } = candidate;
        let (target, key) = (self.target, &prepared.record_key);
        // Before anything is removed: no room that could be made would be enough.
        if prepared.bytes.len() as u64 > self.limits.size {
            let (bytes, size) = (prepared.bytes.len(), self.limits.size);
            let message = format!(
                "object to insert exceeds cappedMaxSize: it has {bytes} bytes, and the collection {} at most {size}",
                target.collection.namespace
            );
            return Ok(Some(WriteError::boxed(Code::BAD_VALUE, message)));
        }
        // Keys that were staged were admitted too, so nothing is proven of a second document with the same `_id`.
        if target.admit_record(key)? == Absence::Unproven && self.is_taken(Family::Records, key)? {
            let mut others = self.staged.iter().map(|(_, other)| &other.prepared);
            let other = others.find(|other| other.record_key == *key).map(Prepared::document);
            return taken_id(target, prepared, other).map(Some);
        }
        for entry in unique_entries(target, &drawn.entries) {
            if target.admit_unique(entry)? == Absence::Unproven
                && self.is_taken(Family::Entries, &entry.key)?
            {
                let mut others = self.staged.iter().map(|(_, other)| other);
                let other = others.find(|other| other.drawn.entries.iter().any(|own| own.key == entry.key));
                let other = other.map(|other| other.prepared.document());
                return taken_entry(target, entry, prepared.as_taker(), other).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether a document has the key, once what is staged is committed.
    fn is_taken(&self, family: Family, key: &[u8]) -> Result<bool> {
        if self.added.contains(key) {
            return Ok(true);
        }
        Ok(!self.removed.contains(key) && self.target.exists(family, key)?)
    }

    /// The record key of a document, and its unique keys.
    fn keys_of(&self, prepared: &Prepared<'_>, entries: &[Entry]) -> Vec<Vec<u8>> {
        let unique = unique_entries(self.target, entries).map(|entry| entry.key.clone());
        std::iter::once(prepared.record_key.to_vec()).chain(unique).collect()
    }

    /// Stages the removal of the document with the lowest position. There must be one.
    fn remove_oldest(&mut self) -> Result<()> {
        let order = self.turn.id();
        let first = self.turn.state.first;
        // The call itself may have more documents than there is room for.
        if self.staged.front().is_some_and(|(position, _)| *position == first)
            && let Some((_, Candidate { prepared, drawn, .. })) = self.staged.pop_front()
        {
            self.stage_removed(&drawn.entries);
            self.stage_oldest(&prepared.record_key, prepared.bytes);
            return Ok(());
        }
        // A look-up and no scan: before the first position lie the deletions of all earlier ones.
        let Some(id) = self.target.database.get(Family::Entries, &order.position_key(first))? else {
            // Documents were removed by hand here.
            self.turn.state.first = self.next_position(order, first)?;
            return Ok(());
        };
        let key = [&self.target.collection.id.prefix()[..], &id].concat();
        let Some(document) = self.target.database.get(Family::Records, &key)? else {
            let reason = "the position of a capped collection names a document that does not exist";
            return Err(Error::corruption(Family::Entries.name(), &order.position_key(first), reason));
        };
        // Computed from the document, as its insert computed them, and index by index: those of all indexes together may use
        // much memory.
        for index in self.target.indexes.iter().enumerate() {
            let drawn = stored_entries_of([index], stored(&key, &document)?, &id).map_err(Error::write)?;
            self.stage_removed(&drawn.entries);
        }
        self.stage_oldest(&key, &document);
        Ok(())
    }

    /// Stages the removal of entries of the document at the first position.
    fn stage_removed(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.target.delete_entry(&mut self.batch, &entry.key);
        }
        for entry in unique_entries(self.target, entries) {
            self.note_removed(&entry.key);
        }
    }

    /// Stages the removal of the document at the first position, without its entries.
    fn stage_oldest(&mut self, key: &[u8], document: &[u8]) {
        let (order, position) = (self.turn.id(), self.turn.state.first);
        self.target.delete_record(&mut self.batch, key, document);
        self.batch.delete(Family::Entries, &order.position_key(position));
        self.batch.delete(Family::Entries, &order.document_key(encoded_id(key)));
        self.note_removed(key);
        let state = &mut self.turn.state;
        state.first = position + 1;
        state.documents = state.documents.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(document.len() as u64);
        self.turn.make_room_below(position + 1);
        self.change -= 1;
    }

    /// Notes that a key is not in use any more.
    fn note_removed(&mut self, key: &[u8]) {
        self.added.remove(key);
        self.removed.insert(key.to_vec());
    }

    /// The lowest position above `position` that a document has.
    fn next_position(&self, order: OrderId, position: u64) -> Result<u64> {
        let (start, end) = order.positions_from(position);
        // Only where documents were removed by hand, and then one scan passes all of them.
        let snapshot = Snapshot::take(self.target.database);
        let (bounds, operation) = ((start, Some(end)), self.target.operation);
        let mut scan = Scan::open(&snapshot, Family::Entries, bounds, CacheUse::Fill, operation);
        if scan.advance()? {
            let malformed =
                || Error::corruption(Family::Entries.name(), scan.key(), "the key is not that of a position");
            return position_of(scan.key()).ok_or_else(malformed);
        }
        // Those of the call come after all that are stored.
        let staged = self.staged.front().map(|(position, _)| *position);
        staged.ok_or_else(|| {
            let reason = "the order of a capped collection has fewer documents than its state says";
            Error::corruption(Family::Entries.name(), &order.state_key(), reason)
        })
    }

    /// Commits what is staged.
    fn commit(&mut self, latched: &mut Latched<'_>) -> Result<()> {
        let (target, change) = (self.target, std::mem::take(&mut self.change));
        let inserted = std::mem::take(&mut self.inserted);
        let batch = std::mem::replace(&mut self.batch, Batch::new(target.database));
        let arrays = std::mem::take(&mut self.arrays);
        // By the state it is seen whether a commit with an unknown outcome was made.
        let state = self.turn.state;
        let committed = self.turn.commit(batch, |batch| target.commit(batch, &arrays, latched));
        // The staged documents are stored now, and are looked up like everything else.
        self.staged.clear();
        self.added.clear();
        self.removed.clear();
        let is_made = match &committed {
            Ok(()) => true,
            Err(error) => {
                let stored = || target.database.get(Family::Entries, &self.turn.id().state_key());
                error.is_commit_unknown()
                    && stored().is_ok_and(|value| value.is_some_and(|value| *value == state.encode()))
            }
        };
        if is_made {
            // Documents that made room are not counted as deleted: no caller asked for it.
            target.collection.count.add(change);
            notes::inserted(inserted);
        }
        committed
    }
}
