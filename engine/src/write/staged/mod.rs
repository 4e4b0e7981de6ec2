//! Writes of a transaction: they are computed as plain ones are, from what the transaction reads, and staged in memory. No latch is
//! held longer than a claim needs.

pub(crate) mod commit;

use base::error::{Error, Result};
use base::write_error::Refusal;
use bson::RawDocument;
use store::Family;

use crate::catalog::given_keys::filters::Absence;
use crate::document::decode::stored;
use crate::options::PlantedFault;
use crate::transaction::Staging;
use crate::write::Target;
use crate::write::commit::Candidate;
use crate::write::difference::{Computed, Wish, compute};
use crate::write::entries::{Entry, NewArrays, split, stored_entries_of};
use crate::write::logged::DocumentChange;
use crate::write::modified::Matched;
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};
use crate::write::prepare::{Taker, encoded_id};
use crate::write::unique::{taken_entry, taken_id, unique_entries};

/// Stages a new document.
pub(super) fn insert(target: Target<'_>, staging: Staging<'_>, candidate: &Candidate<'_>) -> Result<()> {
    match refuse_taken(target, staging, candidate)? {
        Some(refusal) => Err(Error::write(refusal)),
        None => stage_new(target, staging, candidate),
    }
}

/// Stages new documents, up to the first that is rejected: it ends the transaction. A call with a token is a transaction by itself, and
/// an unordered one goes on with the next document. Returns how many were staged.
pub(super) fn insert_all<S: InsertedSet>(
    target: Target<'_>,
    staging: Staging<'_>,
    call: (&[Candidate<'_>], InsertOrder),
    outcome: &mut InsertOutcome<S>,
) -> Result<usize> {
    let (candidates, order) = call;
    let goes_on = target.once.is_some() && order == InsertOrder::Unordered;
    let mut staged = 0;
    for candidate in candidates {
        target.operation.step()?;
        if let Some(refusal) = refuse_taken(target, staging, candidate)? {
            outcome.refused.push(refusal.at(candidate.position));
            if goes_on {
                continue;
            }
            break;
        }
        stage_new(target, staging, candidate)?;
        outcome.inserted.add(candidate.position, &candidate.prepared);
        staged += 1;
    }
    Ok(staged)
}

fn stage_new(target: Target<'_>, staging: Staging<'_>, candidate: &Candidate<'_>) -> Result<()> {
    let Candidate { prepared, drawn, .. } = candidate;
    let event = target.logged().map(|logged| logged.inserted(prepared.bytes));
    staging.open.change(|stage| {
        stage.add_event(event);
        stage.put(Family::Records, &prepared.record_key, prepared.bytes);
        for entry in &drawn.entries {
            stage.put(Family::Entries, &entry.key, &entry.value);
        }
        let touched = stage.touch(staging.state, target.definition);
        touched.documents += 1;
        touched.inserted += 1;
    })?;
    note_arrays(target, staging, &drawn.arrays)
}

/// Claims the keys of a new document. Returns why it is rejected, if one of them is in use.
fn refuse_taken(
    target: Target<'_>,
    staging: Staging<'_>,
    candidate: &Candidate<'_>,
) -> Result<Option<Refusal>> {
    let prepared = &candidate.prepared;
    let key = &prepared.record_key;
    staging.open.claim(key, target.operation)?;
    let is_absent = || Ok(target.admit_record(key)? == Absence::Proven);
    if let Some(other) = taken(staging, key, is_absent)? {
        return taken_id(target, prepared, RawDocument::from_bytes(&other).ok()).map(Some);
    }
    let unique = unique_entries(target, &candidate.drawn.entries);
    refuse_taken_entries(target, staging, unique, prepared.as_taker())
}

/// Claims keys of unique indexes. Returns why the document is rejected, if one of them is in use.
fn refuse_taken_entries<'e>(
    target: Target<'_>,
    staging: Staging<'_>,
    entries: impl Iterator<Item = &'e Entry>,
    taker: Taker<'_>,
) -> Result<Option<Refusal>> {
    for entry in entries {
        if target.database.fault() != PlantedFault::UniqueNotClaimed {
            staging.open.claim(&entry.key, target.operation)?;
        }
        // Looked up in any case: a delete leaves a note of its record and none of its keys, so that one which is absent now may have been
        // there when the transaction began.
        if let Some(value) = staging.open.get(Family::Entries, &entry.key)? {
            let other = holder(target, staging, entry, &value)?;
            let other = other.as_deref().and_then(|bytes| RawDocument::from_bytes(bytes).ok());
            return taken_entry(target, entry, taker, other).map(Some);
        }
    }
    Ok(None)
}

/// The record with a key that is to be given. The key is claimed: if `is_absent` proves it absent now, it was not there either when the
/// transaction began, because a removal since would have left a note.
fn taken(
    staging: Staging<'_>,
    key: &[u8],
    is_absent: impl FnOnce() -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    if staging.open.has_staged(Family::Records, key).is_none() && is_absent()? {
        return Ok(None);
    }
    staging.open.get(Family::Records, key)
}

/// The document that has the key of a unique entry, as the transaction reads it.
fn holder(target: Target<'_>, staging: Staging<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Vec<u8>>> {
    let index = target.indexes.get(entry.index);
    let Some(parts) = index.and_then(|index| split(index, &entry.key, value)) else { return Ok(None) };
    let record_key = [&target.collection.id.prefix()[..], parts.id].concat();
    staging.open.get(Family::Records, &record_key)
}

/// Stages what an update makes of a document. Returns `None` if it does not match.
pub(super) fn update(
    target: Target<'_>,
    staging: Staging<'_>,
    key: &[u8],
    wish: &Wish<'_>,
) -> Result<Option<Matched>> {
    let Some(current) = staging.open.get(Family::Records, key)? else { return Ok(None) };
    let (new, shown, difference) = match compute(target, key, wish, &current)? {
        Computed::NotMatched => return Ok(None),
        Computed::Same { shown } => return Ok(Some(Matched { is_modified: false, shown })),
        Computed::Changed { new, shown, difference } => (new, shown, difference.unwrap_or_default()),
    };
    staging.open.claim(key, target.operation)?;
    let unique = difference.added_unique(target);
    let taker = Taker { encoded_id: encoded_id(key), document: stored(key, &new)? };
    if let Some(refusal) = refuse_taken_entries(target, staging, unique, taker)? {
        return Err(Error::write(refusal));
    }
    let is_replacement = wish.change.is_replacement();
    let change = DocumentChange { old: &current, new: &new, is_replacement };
    let event = target.logged().map(|logged| logged.changed(change));
    staging.open.change(|stage| {
        stage.add_event(event);
        stage.put(Family::Records, key, &new);
        for entry in &difference.written {
            stage.put(Family::Entries, &entry.key, &entry.value);
        }
        for removed in &difference.removed {
            stage.delete(Family::Entries, removed);
        }
        stage.touch(staging.state, target.definition).updated += 1;
    })?;
    note_arrays(target, staging, &difference.arrays)?;
    Ok(Some(Matched { is_modified: true, shown }))
}

/// Stages the removal of a document. Returns `None` if it does not match, and else what `judge` made of it.
pub(super) fn delete<R>(
    target: Target<'_>,
    staging: Staging<'_>,
    key: &[u8],
    judge: impl Fn(&[u8]) -> Result<Option<R>>,
) -> Result<Option<R>> {
    let Some(current) = staging.open.get(Family::Records, key)? else { return Ok(None) };
    let Some(shown) = judge(&current)? else { return Ok(None) };
    staging.open.claim(key, target.operation)?;
    for index in target.indexes.iter().enumerate() {
        let drawn =
            stored_entries_of([index], stored(key, &current)?, encoded_id(key)).map_err(Error::write)?;
        staging.open.change(|stage| {
            for entry in &drawn.entries {
                stage.delete(Family::Entries, &entry.key);
            }
        })?;
    }
    let event = target.logged().map(|logged| logged.deleted(&current));
    staging.open.change(|stage| {
        stage.add_event(event);
        stage.delete(Family::Records, key);
        let touched = stage.touch(staging.state, target.definition);
        touched.documents -= 1;
        touched.deleted += 1;
    })?;
    Ok(Some(shown))
}

/// Announces arrays that the catalog does not know of: the plans of the transaction must. The catalog gets them with the commit.
fn note_arrays(target: Target<'_>, staging: Staging<'_>, arrays: &NewArrays) -> Result<()> {
    if arrays.is_empty() {
        return Ok(());
    }
    let is_announced = target.database.fault() != PlantedFault::ArraysAnnouncedLate;
    for (position, found) in arrays.iter().filter(|_| is_announced) {
        if let Some(marks) = target.definition.marks_of(*position) {
            marks.announce(found);
        }
    }
    staging.open.change(|stage| {
        let noted = &mut stage.touch(staging.state, target.definition).arrays;
        for (position, found) in arrays {
            let noted = noted.entry(*position).or_default();
            if !noted.contains(found) {
                noted.push(found.clone());
            }
        }
    })
}
