//! The rows that a live query has shown: the `_id` of each document of its result, and a digest of its row.
//!
//! A round may name a document whose row is what it was, and one that was looked at before. Such a document has the same digest, and is
//! not shown again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use base::error::Result;
use bson::raw::cstr;
use bson::{Bson, RawBsonRef, RawDocumentBuf};
use index::element::field;
use query::operation::{OperationContext, Reservation};

use crate::live::change::LiveChange;
use crate::outcomes::digest::{DIGEST_BYTES, Digest};
use crate::plan::bounds::ID_FIELD;

/// About how many bytes of memory a row uses beside its `_id`.
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
    /// As a document, whose bytes are counted: the key of a long `_id` is shortened.
    id: RawDocumentBuf,
    digest: [u8; DIGEST_BYTES],
}

impl Shown {
    /// About how many bytes of memory it uses.
    fn cost(&self, encoded_id: &[u8]) -> usize {
        ROW_COST + encoded_id.len() + self.id.as_bytes().len()
    }
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
    /// With code 146 if the rows need more memory than the operation may have.
    pub(super) fn note(
        &mut self,
        encoded_id: &[u8],
        id: RawBsonRef<'_>,
        row: RawDocumentBuf,
    ) -> Result<Option<LiveChange<RawDocumentBuf>>> {
        let digest = self.digest(&row);
        let mut key = RawDocumentBuf::new();
        key.append(cstr!("_id"), id);
        let change = match self.rows.get_mut(encoded_id) {
            Some(shown) if shown.digest == digest && shown.id == key => return Ok(None),
            Some(shown) => {
                self.bytes -= shown.cost(encoded_id);
                (shown.digest != digest).then_some(LiveChange::Changed(row))
            }
            None => Some(LiveChange::Entered(row)),
        };
        // Also of one that was there: the `_id` of another document may be of another type.
        let shown = Shown { id: key, digest };
        self.bytes += shown.cost(encoded_id);
        self.memory.grow_by_steps(self.bytes)?;
        self.rows.insert(encoded_id.into(), shown);
        Ok(change)
    }

    /// Removes the row of a document.
    ///
    /// # Errors
    /// Fails if the `_id` is not a value.
    pub(super) fn remove(&mut self, encoded_id: &[u8]) -> Result<Option<LiveChange<RawDocumentBuf>>> {
        let Some(row) = self.rows.remove(encoded_id) else { return Ok(None) };
        self.bytes -= row.cost(encoded_id);
        let id = field(&row.id, ID_FIELD).unwrap_or(RawBsonRef::Null);
        Ok(Some(LiveChange::Left(Bson::try_from(id)?)))
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
