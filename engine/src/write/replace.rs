//! Replacement of one document: the `_id` stays, entries move by difference, unchanged bytes are not written.

use std::collections::HashSet;

use bson::{RawBsonRef, RawDocument};
use index::order::compare;
use index::validate::ValidDocument;

use crate::document::build;
use crate::document::decode::stored;
use crate::document::validate::{validate, validate_replacement_names, validate_size};
use crate::error::{Error, Refusal, Result, WriteError};
use crate::execute::matches::Matches;
use crate::storage::Family;
use crate::storage::latch::LatchSet;
use crate::storage::write::Batch;
use crate::write::Target;
use crate::write::entries::{Entry, entries_of};
use crate::write::insert::{add_unique_latches, is_unique, taken_entry};
use crate::write::prepare::encoded_id;

/// What became of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// Nothing matched.
    Nothing,
    /// The document was the same already.
    Unchanged,
    /// It is another now.
    Changed,
}

/// Checks a replacement before anything is looked for.
pub(crate) fn validate_replacement(bytes: &[u8]) -> Result<ValidDocument<'_>> {
    let document = validate(bytes).map_err(Error::write)?;
    validate_replacement_names(document.as_raw()).map_err(Error::write)?;
    Ok(document)
}

/// Replaces the first document that matches.
pub(crate) fn replace_one(
    target: Target<'_>,
    matches: &mut Matches,
    replacement: &ValidDocument<'_>,
) -> Result<Replaced> {
    while matches.advance()? {
        let key = matches.record_key().to_vec();
        let mut found = matches.bytes().to_vec();
        loop {
            let bytes = successor(target, stored(&key, &found)?, &key, replacement)?;
            match replace_found(target, matches, (&key, &found), &bytes)? {
                // Others changed it since it was found: what it keeps must be taken from what is there now.
                Attempt::Moved(current) => found = current,
                Attempt::Done(Replaced::Nothing) => break,
                Attempt::Done(outcome) => return Ok(outcome),
            }
        }
    }
    Ok(Replaced::Nothing)
}

/// What became of an attempt to replace a document that was found.
enum Attempt {
    Done(Replaced),
    /// It still matches, and is another than the one that was found.
    Moved(Vec<u8>),
}

/// The replacement with what it keeps of the stored document.
fn successor(
    target: Target<'_>,
    found: &RawDocument,
    key: &[u8],
    replacement: &ValidDocument<'_>,
) -> Result<Vec<u8>> {
    let mut bytes = with_id_of(found, key, replacement)?;
    keep_fields(target, found, &mut bytes)?;
    validate_size(bytes.len()).map_err(Error::write)?;
    Ok(bytes)
}

/// Appends the auto-increment fields of the stored document that the replacement does not name, and of nested ones the
/// outermost parent, ascending by name.
fn keep_fields(target: Target<'_>, found: &RawDocument, bytes: &mut Vec<u8>) -> Result<()> {
    let mut names: Vec<&str> =
        target.fields.iter().filter_map(|field| field.field.segments().next()).collect();
    names.dedup();
    let mut kept = Vec::new();
    for name in names {
        if RawDocument::from_bytes(&*bytes)?.get(name)?.is_none() {
            kept.extend_from_slice(build::element(found, name).unwrap_or_default());
        }
    }
    if !kept.is_empty() {
        build::append_elements(bytes, &kept);
    }
    Ok(())
}

/// The replacement with the `_id` element of the stored document, whose type it keeps.
fn with_id_of(found: &RawDocument, key: &[u8], replacement: &ValidDocument<'_>) -> Result<Vec<u8>> {
    let stored = index::validate::validate(found.as_bytes())
        .map_err(|error| Error::corruption(Family::Records.name(), key, error.to_string()))?;
    let (Some(id), Some(element)) = (stored.id(), stored.id_element()) else {
        return Err(Error::corruption(Family::Records.name(), key, "the record has no _id"));
    };
    let element = found.as_bytes().get(element).unwrap_or_default();
    if let Some(other) = replacement.id()
        && compare(id, other).is_ne()
    {
        return Err(Error::write(immutable_id(other)));
    }
    Ok(build::with_id_element(replacement, element))
}

fn replace_found(
    target: Target<'_>,
    matches: &Matches,
    (key, found): (&[u8], &[u8]),
    bytes: &[u8],
) -> Result<Attempt> {
    let document = stored(key, bytes)?;
    let entries = entries_of(target.indexes, document, encoded_id(key)).map_err(Error::write)?;
    let mut latches = LatchSet::default();
    latches.add(key);
    add_unique_latches(&mut latches, target, &entries);
    let _latched = target.store.latches.lock(&latches);
    let Some(current) = target.database.get(Family::Records, key)? else {
        return Ok(Attempt::Done(Replaced::Nothing));
    };
    let old = stored(key, &current)?;
    if !matches.filter().matches(old) {
        return Ok(Attempt::Done(Replaced::Nothing));
    }
    if old.as_bytes() != found {
        return Ok(Attempt::Moved(current.to_vec()));
    }
    if old.as_bytes() == bytes {
        return Ok(Attempt::Done(Replaced::Unchanged));
    }
    let old_entries = entries_of(target.indexes, old, encoded_id(key)).map_err(Error::write)?;
    let mut batch = Batch::with_capacity(target.database, bytes.len() + 64);
    batch.put(Family::Records, key, bytes);
    stage_difference(target, &mut batch, (&old_entries, &entries), encoded_id(key))?;
    target.store.commit(batch, target.level)?;
    Ok(Attempt::Done(Replaced::Changed))
}

/// Removes entries that only the old document has and adds those that only the new one has.
fn stage_difference(
    target: Target<'_>,
    batch: &mut Batch<'_>,
    (old, new): (&[Entry], &[Entry]),
    encoded_id: &[u8],
) -> Result<()> {
    let old_keys: HashSet<&[u8]> = old.iter().map(|entry| entry.key.as_slice()).collect();
    let new_keys: HashSet<&[u8]> = new.iter().map(|entry| entry.key.as_slice()).collect();
    for entry in new {
        let added = !old_keys.contains(entry.key.as_slice());
        if added && is_unique(target, entry) && target.exists(Family::Entries, &entry.key)? {
            return Err(Error::write(taken_entry(target, entry, encoded_id)));
        }
        // An entry with the same key may have other type bytes, as when 1 becomes 1.0.
        batch.put(Family::Entries, &entry.key, &entry.value);
    }
    for entry in old.iter().filter(|entry| !new_keys.contains(entry.key.as_slice())) {
        batch.delete(Family::Entries, &entry.key);
    }
    Ok(())
}

pub(crate) fn immutable_id(id: RawBsonRef<'_>) -> Refusal {
    let shown = bson::Bson::try_from(id).map(|id| id.to_string()).unwrap_or_default();
    WriteError::boxed(
        66,
        "ImmutableField",
        format!(
            "After applying the update, the (immutable) field '_id' was found to have been altered to _id: {shown}"
        ),
    )
}
