//! The end of an insert: latches, proof of absence, one commit.
//!
//! The order is the contract. A key's latch is held from before its uniqueness check until the commit returned,
//! so two inserts of one key cannot both find it free; documents, entries and the marks of gapless sequences are in
//! one batch, so none of them is ever there without the others.

use std::collections::HashSet;

use base::error::{Error, Result};
use base::write_error::Refusal;
use store::Family;
use store::write::{Batch, RecordBytes};

use crate::catalog::given_keys::filters::Absence;
use crate::write::Target;
use crate::write::auto_increment::holds::SequenceHolds;
use crate::write::entries::{Drawn, Entry, NewArrays};
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};
use crate::write::prepare::Prepared;
use crate::write::unique::{add_unique_latches, is_taken, taken_entry, taken_id, unique_entries};

/// A prepared document with its entries.
pub(super) struct Candidate<'a> {
    /// Its position in the call.
    pub(super) position: usize,
    pub(super) prepared: Prepared<'a>,
    pub(super) drawn: Drawn,
}

impl Target<'_> {
    /// Says that the next commit stores new documents, if the command may be repeated.
    #[inline]
    pub(super) fn expect_new<'c, 'd: 'c>(&self, candidates: impl IntoIterator<Item = &'c Candidate<'d>>) {
        if self.retryable.is_none() && self.once.is_none() {
            return;
        }
        let of = |candidate: &Candidate<'_>| (candidate.position, candidate.prepared.id());
        let mut candidates = candidates.into_iter().peekable();
        // A call with a token that commits by itself stores one document.
        if let (Some(once), Some(candidate)) = (self.once, candidates.peek()) {
            once.expect_new(candidate.prepared.document());
        }
        if let Some(retryable) = self.retryable {
            retryable.expect_new(candidates.map(of));
        }
    }
}

/// Stores one document, with the marks of its gapless sequences.
#[inline]
pub(super) fn commit_one(
    target: Target<'_>,
    candidate: &Candidate<'_>,
    holds: &mut SequenceHolds<'_>,
) -> Result<()> {
    let Candidate { prepared, drawn, .. } = candidate;
    let record_key = &prepared.record_key;
    let has_indexes = !target.indexes.is_empty();
    // A single latch needs no set: a set is a bitmap of all stripes, and its guards are allocated.
    let mut latched = if has_indexes {
        let mut latches = target.store.latches.set();
        latches.add(record_key);
        add_unique_latches(&mut latches, target, &drawn.entries);
        target.latch_token(&mut latches);
        target.store.latches.lock(&latches, target.operation)?
    } else {
        target.latch(record_key)?
    };
    // Under the latches from here on. The `_id` first: a document that collides on several indexes is rejected by that
    // of `_id`.
    refuse_taken_id(target, prepared)?;
    for entry in unique_entries(target, &drawn.entries) {
        if is_taken(target, entry)? {
            return Err(Error::write(taken_entry(target, entry, prepared.as_taker(), None)?));
        }
    }
    target.expect_new([candidate]);
    let committed = if has_indexes || holds.is_gapless() || !drawn.arrays.is_empty() {
        // An estimate of the batch, so that it grows seldom: an entry with its key is about 100 bytes.
        let bytes = prepared.bytes.len() + 128 * (1 + drawn.entries.len());
        let mut batch = Batch::with_capacity(target.database, bytes);
        stage(target, &mut batch, prepared, &drawn.entries);
        holds.stage(&mut batch, 1);
        target.commit(batch, &drawn.arrays, &mut latched)
    } else {
        let record = RecordBytes { key: record_key, document: prepared.bytes };
        target.commit_new_record(record, &mut latched)
    };
    target.count(committed, record_key, 1)
}

/// Stores candidates in one commit, with the marks of their gapless sequences, and adds to `outcome` what became of
/// each. Returns how many were stored.
pub(super) fn commit_many<S: InsertedSet>(
    target: Target<'_>,
    candidates: &[Candidate<'_>],
    order: InsertOrder,
    holds: &mut SequenceHolds<'_>,
    outcome: &mut InsertOutcome<S>,
) -> Result<usize> {
    let mut latches = target.store.latches.set();
    // All latches of the commit are acquired in one step, for they have one global order.
    let mut bytes = 0;
    for candidate in candidates {
        latches.add(&candidate.prepared.record_key);
        add_unique_latches(&mut latches, target, &candidate.drawn.entries);
        bytes += candidate.prepared.bytes.len() + 64 * (1 + candidate.drawn.entries.len());
    }
    let mut held = target.store.latches.lock(&latches, target.operation)?;
    let mut batch = Batch::with_capacity(target.database, bytes);
    let mut staged = StagedKeys::default();
    let absence = prove_all_absent(target, candidates);
    let mut accepted = Vec::with_capacity(candidates.len());
    let mut arrays = NewArrays::new();
    for candidate in candidates {
        match find_taken(target, candidate, absence, &mut staged, &accepted)? {
            None => {
                stage(target, &mut batch, &candidate.prepared, &candidate.drawn.entries);
                // Only of accepted documents: a rejected one leaves no mark in the catalog.
                arrays.extend(candidate.drawn.arrays.iter().cloned());
                staged.add(target, candidate);
                accepted.push(candidate);
            }
            Some(refusal) => {
                outcome.refused.push(refusal.at(candidate.position));
                if order == InsertOrder::Ordered {
                    break;
                }
            }
        }
    }
    // A batch without documents must not write marks either: the sequences stay where they were.
    let Some(first) = accepted.first() else { return Ok(0) };
    holds.stage(&mut batch, accepted.len());
    target.expect_new(accepted.iter().copied());
    let committed = target.commit(batch, &arrays, &mut held);
    // After the commit and under the latches, so that the counter never shows a document that is not there.
    let count = i64::try_from(accepted.len()).unwrap_or(i64::MAX);
    target.count(committed, &first.prepared.record_key, count)?;
    // Also after the commit: if that fails, no document of it is reported as stored.
    for candidate in &accepted {
        outcome.inserted.add(candidate.position, &candidate.prepared);
    }
    Ok(accepted.len())
}

#[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
#[inline(always)]
fn refuse_taken_id(target: Target<'_>, prepared: &Prepared<'_>) -> Result<()> {
    if target.admit_record(&prepared.record_key)? == Absence::Unproven
        && target.exists(Family::Records, &prepared.record_key)?
    {
        return Err(Error::write(taken_id(target, prepared, None)?));
    }
    Ok(())
}

/// The record keys and unique keys that the batch holds already: the same call may have a duplicate.
#[derive(Default)]
struct StagedKeys<'a> {
    /// In the order of their documents.
    keys: Vec<&'a [u8]>,
    /// The number of them that are in `taken`.
    gathered: usize,
    taken: HashSet<&'a [u8]>,
}

impl<'a> StagedKeys<'a> {
    fn add(&mut self, target: Target<'_>, candidate: &'a Candidate<'a>) {
        self.keys.push(&candidate.prepared.record_key);
        self.keys.extend(unique_entries(target, &candidate.drawn.entries).map(|entry| entry.key.as_slice()));
    }

    fn holds(&mut self, key: &[u8]) -> bool {
        // Hashed only now: a call whose keys are all proven absent never comes here.
        self.taken.extend(self.keys.iter().skip(self.gathered));
        self.gathered = self.keys.len();
        self.taken.contains(key)
    }
}

/// Proves the keys of all candidates absent by one look at the highest one, if they ascend beyond it: made ids do.
fn prove_all_absent(target: Target<'_>, candidates: &[Candidate<'_>]) -> Absence {
    // Equal neighbors do not ascend, so a duplicate `_id` within the call is never mistaken for proven absent.
    let ascending = candidates.is_sorted_by(|a, b| a.prepared.record_key < b.prepared.record_key);
    if let (true, [first, .., last]) = (ascending, candidates)
        && target.collection.given_keys.admit_ascending(&first.prepared.record_key, &last.prepared.record_key)
    {
        return Absence::Proven;
    }
    Absence::Unproven
}

/// Looks for a key of the candidate that is in use, in the store or by an earlier document of the call. The record key
/// is not looked for if `absence` is proven.
fn find_taken(
    target: Target<'_>,
    candidate: &Candidate<'_>,
    absence: Absence,
    staged: &mut StagedKeys<'_>,
    accepted: &[&Candidate<'_>],
) -> Result<Option<Refusal>> {
    let key = &candidate.prepared.record_key;
    if absence == Absence::Unproven
        && target.admit_record(key)? == Absence::Unproven
        && (staged.holds(key) || target.exists(Family::Records, key)?)
    {
        let mut others = accepted.iter().map(|other| &other.prepared);
        let other = others.find(|other| other.record_key == *key).map(Prepared::document);
        return taken_id(target, &candidate.prepared, other).map(Some);
    }
    for entry in unique_entries(target, &candidate.drawn.entries) {
        // The staged keys first: they are in memory.
        if target.admit_unique(entry)? == Absence::Unproven
            && (staged.holds(&entry.key) || target.exists(Family::Entries, &entry.key)?)
        {
            let has_key =
                |other: &&&Candidate<'_>| other.drawn.entries.iter().any(|own| own.key == entry.key);
            let other = accepted.iter().find(has_key).map(|other| other.prepared.document());
            return taken_entry(target, entry, candidate.prepared.as_taker(), other).map(Some);
        }
    }
    Ok(None)
}

fn stage(target: Target<'_>, batch: &mut Batch<'_>, prepared: &Prepared<'_>, entries: &[Entry]) {
    target.put_new_record(batch, &prepared.record_key, prepared.bytes);
    for entry in entries {
        target.put_entry(batch, entry);
    }
}
