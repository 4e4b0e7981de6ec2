//! A walk over the entries of an index within bounds, and the records that they name.
//!
//! Bounds on fields that cannot narrow the range of keys are tested on the entry's key, before its record is read.

use std::sync::Arc;

use index::key::{self, Direction};
use index::key_bounds::KeyBounds;
use index::range::Exactness;
use query::planner::EntryScan;

use crate::catalog::indexes::Index;
use crate::error::{Error, Result};
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::plan::bounds::KeySpans;
use crate::storage::Family;
use crate::storage::keys::{CollectionId, ID_BYTES};
use crate::storage::snapshot::Snapshot;

/// A walk over entries. It is before the first one until `advance` is called.
pub(super) struct EntryWalk {
    snapshot: Arc<Snapshot>,
    walk: KeyWalk,
    /// The bounds that each key is tested with. Absent if every key is within them, and the key need not be decoded to find
    /// the record either, because the value of a unique entry names it.
    bounds: Option<KeyBounds>,
    is_unique: bool,
    record_key: Vec<u8>,
    document: Vec<u8>,
}

/// What a step of a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryStep {
    /// An entry within the bounds; the record key is that of its document.
    Within,
    /// An entry with a field that is not within the bounds.
    Outside,
    /// A key was looked up, and there is no such entry.
    Absent,
    End,
}

impl EntryWalk {
    /// Opens a walk over an index of a collection. The snapshot must have the entries of the index.
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        index: &Index,
        scan: &EntryScan,
    ) -> Self {
        let (spans, exactness) = KeySpans::of_entries(index, &scan.bounds);
        // Even if all keys are within the bounds, those of a plain index are decoded: the `_id` is after the fields.
        let bounds = match exactness {
            Exactness::Exact if index.spec.is_unique() => None,
            Exactness::Exact => Some(KeyBounds::unbounded(&index.spec)),
            Exactness::Wider => Some(KeyBounds::of(&index.spec, &scan.bounds)),
        };
        Self {
            snapshot: Arc::clone(snapshot),
            walk: KeyWalk::new(snapshot, Family::Entries, spans, scan.direction),
            bounds,
            is_unique: index.spec.is_unique(),
            record_key: collection.prefix().to_vec(),
            document: Vec::new(),
        }
    }

    /// Steps to the next entry.
    pub(super) fn advance(&mut self) -> Result<EntryStep> {
        match self.walk.advance()? {
            KeyStep::End => return Ok(EntryStep::End),
            KeyStep::Absent => return Ok(EntryStep::Absent),
            KeyStep::Scanned | KeyStep::LookedUp => {}
        }
        let (key, value) = (self.walk.key(), self.walk.value());
        let malformed =
            || Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index");
        // An entry without these bytes is damage, and not the caller's mistake.
        let fields = key.get(ID_BYTES..).ok_or_else(malformed)?;
        let (length, is_within) = match &self.bounds {
            Some(bounds) => bounds.check(fields).ok_or_else(malformed)?,
            None => (fields.len(), true),
        };
        if !is_within {
            return Ok(EntryStep::Outside);
        }
        // A unique entry has the `_id` at the start of its value, a plain one at the end of its key.
        let id = if self.is_unique {
            let length = key::skip(value, Direction::Ascending).map_err(|_| malformed())?;
            value.get(..length)
        } else {
            fields.get(length..)
        };
        // The prefix of the collection stays; only the `_id` differs from entry to entry.
        self.record_key.truncate(ID_BYTES);
        self.record_key.extend_from_slice(id.ok_or_else(malformed)?);
        Ok(EntryStep::Within)
    }

    /// Reads the document of the current entry.
    pub(super) fn fetch(&mut self) -> Result<()> {
        if self.snapshot.get_into(Family::Records, &self.record_key, &mut self.document)? {
            return Ok(());
        }
        // Both are from one snapshot and were written in one batch, so this is no race.
        let problem = "the entry's document does not exist";
        Err(Error::corruption(Family::Entries.name(), self.walk.key(), problem))
    }

    /// The record key that the current entry names.
    pub(super) fn record_key(&self) -> &[u8] {
        &self.record_key
    }

    /// The bytes of the document that was read last.
    pub(super) fn document(&self) -> &[u8] {
        &self.document
    }

    /// Releases what the storage holds for the walk until it is advanced again.
    pub(super) fn rest(&mut self) {
        self.walk.rest();
    }
}
