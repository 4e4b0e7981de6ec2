//! Writes of a transaction: they are computed as plain ones are, from what the transaction reads, and staged in memory. No latch is
//! held longer than a claim takes.

pub(crate) mod commit;

use base::error::{Error, Result};
use base::write_error::Refusal;
use sequence::attributes::Contract;
use store::Family;

use crate::document::decode::stored;
use crate::transaction::{Staging, refused_within};
use crate::write::commit::Candidate;
use crate::write::difference::{Computed, Wish, compute};
use crate::write::entries::{Entry, NewArrays, stored_entries_of};
use crate::write::modified::Matched;
use crate::write::outcome::{InsertOutcome, InsertedSet};
use crate::write::prepare::encoded_id;
use crate::write::unique::{taken_entry, unique_entries};
use crate::write::{Target, duplicate};

/// Registers the transaction with the sequences that the collection numbers its documents by: their safe watermarks wait for its
/// end. Refuses those whose numbers are in the order of commits: a transaction would make all other writers wait for its own.
pub(super) fn enter_sequences(target: Target<'_>, staging: Staging<'_>) -> Result<()> {
    for field in target.fields.iter() {
        let state = &field.state;
        if state.sequence.contract() != Contract::Fast {
            let what = format!(
                "to number documents of {} by the ordered or gapless field '{}'",
                target.collection.namespace,
                field.field.path()
            );
            return Err(refused_within(&what));
        }
        let slot = state.slot(target.acquirer);
        staging.open.stage().keep_watermark(state, || state.sequence.keep(&slot));
    }
    Ok(())
}

/// Stages a new document.
pub(super) fn insert(target: Target<'_>, staging: Staging<'_>, candidate: &Candidate<'_>) -> Result<()> {
    match refuse_taken(target, staging, candidate)? {
        Some(refusal) => Err(Error::write(refusal)),
        None => stage_new(target, staging, candidate),
    }
}

/// Stages new documents, up to the first that is refused: it ends the transaction. Returns how many.
pub(super) fn insert_all<S: InsertedSet>(
    target: Target<'_>,
    staging: Staging<'_>,
    candidates: &[Candidate<'_>],
    outcome: &mut InsertOutcome<S>,
) -> Result<usize> {
    for (staged, candidate) in candidates.iter().enumerate() {
        target.operation.step()?;
        if let Some(refusal) = refuse_taken(target, staging, candidate)? {
            outcome.refused.push(refusal.at(candidate.position));
            return Ok(staged);
        }
        stage_new(target, staging, candidate)?;
        outcome.inserted.add(candidate.position, &candidate.prepared);
    }
    Ok(candidates.len())
}

fn stage_new(target: Target<'_>, staging: Staging<'_>, candidate: &Candidate<'_>) -> Result<()> {
    let Candidate { prepared, drawn, .. } = candidate;
    staging.open.change(|stage| {
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

/// Claims the keys of a new document. Returns why it is refused, if one of them is taken.
fn refuse_taken(
    target: Target<'_>,
    staging: Staging<'_>,
    candidate: &Candidate<'_>,
) -> Result<Option<Refusal>> {
    let key = &candidate.prepared.record_key;
    staging.open.claim(key, target.operation)?;
    if staging.open.snapshot().get(Family::Records, key)?.is_some() {
        return Ok(Some(duplicate::of_id(&target.collection.namespace, &candidate.prepared.id())));
    }
    let unique = unique_entries(target, &candidate.drawn.entries);
    refuse_taken_entries(target, staging, unique, encoded_id(key))
}

/// Claims keys of unique indexes. Returns why the document is refused, if one of them is taken.
fn refuse_taken_entries<'e>(
    target: Target<'_>,
    staging: Staging<'_>,
    entries: impl Iterator<Item = &'e Entry>,
    encoded_id: &[u8],
) -> Result<Option<Refusal>> {
    for entry in entries {
        staging.open.claim(&entry.key, target.operation)?;
        if staging.open.snapshot().get(Family::Entries, &entry.key)?.is_some() {
            return Ok(Some(taken_entry(target, entry, encoded_id)));
        }
    }
    Ok(None)
}

/// Stages what an update makes of a document. Returns `None` if it does not match.
pub(super) fn update(
    target: Target<'_>,
    staging: Staging<'_>,
    key: &[u8],
    wish: &Wish<'_>,
) -> Result<Option<Matched>> {
    let Some(current) = staging.open.snapshot().get(Family::Records, key)? else { return Ok(None) };
    let (new, shown, difference) = match compute(target, key, wish, &current)? {
        Computed::NotMatched => return Ok(None),
        Computed::Same { shown } => return Ok(Some(Matched { is_modified: false, shown })),
        Computed::Changed { new, shown, difference } => (new, shown, difference.unwrap_or_default()),
    };
    staging.open.claim(key, target.operation)?;
    let unique = difference.added_unique(target);
    if let Some(refusal) = refuse_taken_entries(target, staging, unique, encoded_id(key))? {
        return Err(Error::write(refusal));
    }
    staging.open.change(|stage| {
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
    let Some(current) = staging.open.snapshot().get(Family::Records, key)? else { return Ok(None) };
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
    staging.open.change(|stage| {
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
    for (position, found) in arrays {
        if let Some(index) = target.indexes.get(*position) {
            index.arrays.announce(found);
        }
    }
    staging.open.change(|stage| {
        let noted = &mut stage.touch(staging.state, target.definition).arrays;
        for (position, found) in arrays {
            noted.entry(*position).or_default().push(found.clone());
        }
    })
}
