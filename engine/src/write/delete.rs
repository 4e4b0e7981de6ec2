//! Deletes: find, latch, look again, remove the record with its entries.
//!
//! What a scan found may have changed by the time its latch is held, so the document is read again under the
//! latch and must still match.

use crate::document::decode::stored;
use crate::error::{Error, Result};
use crate::execute::matches::Matches;
use crate::storage::Family;
use crate::storage::latch::LatchSet;
use crate::storage::write::Batch;
use crate::write::Target;
use crate::write::entries::entries_of;
use crate::write::prepare::encoded_id;

/// Documents that one commit of a `delete_many` removes.
const COMMIT_DOCUMENTS_MAX: usize = 1000;

/// Removes the first document that matches; says whether there was one.
pub(crate) fn delete_one(target: Target<'_>, matches: &mut Matches) -> Result<bool> {
    while matches.advance()? {
        let found = [matches.record_key().to_vec()];
        if delete_found(target, matches, &found)? == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes every document that matches; says how many.
pub(crate) fn delete_many(target: Target<'_>, matches: &mut Matches) -> Result<u64> {
    let mut deleted = 0;
    let mut found = Vec::new();
    loop {
        let more = matches.advance()?;
        if more {
            found.push(matches.record_key().to_vec());
        }
        if !more || found.len() == COMMIT_DOCUMENTS_MAX {
            deleted += delete_found(target, matches, &found)?;
            found.clear();
        }
        if !more {
            return Ok(deleted);
        }
    }
}

fn delete_found(target: Target<'_>, matches: &Matches, found: &[Vec<u8>]) -> Result<u64> {
    let mut latches = LatchSet::default();
    for key in found {
        latches.add(key);
    }
    let _latched = target.store.latches.lock(&latches);
    let mut batch = Batch::new(target.database);
    let mut deleted = 0;
    for key in found {
        let Some(current) = target.database.get(Family::Records, key)? else { continue };
        let document = stored(key, &current)?;
        if !matches.filter().matches(document) {
            continue;
        }
        batch.delete(Family::Records, key);
        for entry in entries_of(target.indexes, document, encoded_id(key)).map_err(Error::write)? {
            batch.delete(Family::Entries, &entry.key);
        }
        deleted += 1;
    }
    if deleted > 0 {
        target.store.commit(batch, target.level)?;
        target.collection.count.add(-deleted);
    }
    Ok(deleted.unsigned_abs())
}
