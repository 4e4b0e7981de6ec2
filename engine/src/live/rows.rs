//! What a live query has shown: the `_id` of each document of its result, and a digest of its row.
//!
//! A round may name a document whose row is what it was, and one that was looked at before. Such a document has the same digest, and is
//! not shown again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use base::error::Result;
use bson::{Bson, RawBsonRef, RawDocumentBuf};
use query::operation::{OperationContext, Reservation};

use crate::live::change::LiveChange;
use crate::outcomes::digest::{DIGEST_BYTES, Digest};

/// About how many bytes of memory a row takes beside its `_id`.
const ROW_COST: usize = 160;

/// The rows.
pub(super) struct ShownRows {
    /// By the `_id` as it is in the key of the record: two values that are equal are one there.
    rows: HashMap<Box<[u8]>, Shown>,
    /// That of the digests. Drawn for each query, so that no two documents can be made to have one digest.
    key: [u64; 2],
    bytes: usize,
    memory: Reservation,
}

/// A row that was shown.
struct Shown {
    id: Bson,
    digest: [u8; DIGEST_BYTES],
}

impl ShownRows {
    pub(super) fn new(operation: &OperationContext) -> Self {
        let random = RandomState::new();
        let key = [random.hash_one(0_u8), random.hash_one(1_u8)];
        Self { rows: HashMap::new(), key, bytes: 0, memory: Reservation::of(operation) }
    }

    /// Notes the row that a document has now. Returns the change, if it is one.
    ///
    /// # Errors
    /// With code 146 if the rows take more memory than the operation may have.
    pub(super) fn note(
        &mut self,
        encoded_id: &[u8],
        id: RawBsonRef<'_>,
        row: RawDocumentBuf,
    ) -> Result<Option<LiveChange<RawDocumentBuf>>> {
        let digest = self.digest(&row);
        if let Some(shown) = self.rows.get_mut(encoded_id) {
            if shown.digest == digest {
                return Ok(None);
            }
            shown.digest = digest;
            return Ok(Some(LiveChange::Changed(row)));
        }
        self.bytes += cost(encoded_id);
        self.memory.grow_by_steps(self.bytes)?;
        let id = Bson::try_from(id)?;
        self.rows.insert(encoded_id.into(), Shown { id, digest });
        Ok(Some(LiveChange::Entered(row)))
    }

    /// Removes the row of a document.
    pub(super) fn remove(&mut self, encoded_id: &[u8]) -> Option<LiveChange<RawDocumentBuf>> {
        let Entry::Occupied(row) = self.rows.entry(encoded_id.into()) else { return None };
        self.bytes -= cost(encoded_id);
        Some(LiveChange::Left(row.remove().id))
    }

    /// The `_id`s of all rows, as they are in keys.
    pub(super) fn encoded_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.keys().map(|id| &**id)
    }

    fn digest(&self, row: &RawDocumentBuf) -> [u8; DIGEST_BYTES] {
        let mut digest = Digest::with_key(self.key);
        digest.part(row.as_bytes());
        digest.finish()
    }
}

/// About how many bytes of memory a row takes. The `_id` is kept twice.
fn cost(encoded_id: &[u8]) -> usize {
    ROW_COST + 2 * encoded_id.len()
}

#[cfg(test)]
impl ShownRows {
    /// No rows, with the same digests.
    pub(super) fn like(other: &Self, operation: &OperationContext) -> Self {
        Self { key: other.key, ..Self::new(operation) }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let has = |rows: &Self, id: &[u8], digest| rows.rows.get(id).is_some_and(|row| row.digest == digest);
        self.rows.len() == other.rows.len() && self.rows.iter().all(|(id, row)| has(other, id, row.digest))
    }
}
