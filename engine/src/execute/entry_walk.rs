//! A walk over the entries of an index within bounds, and the records that they name.
//!
//! What is asked of fields after those that bound the walk is told from an entry's key, before a record is read for it.

use std::sync::Arc;

use index::key::{self, Direction};
use index::key_bounds::KeyBounds;
use index::range::Exactness;
use query::planner::EntryScan;

use crate::catalog::indexes::Index;
use crate::error::{Error, Result};
use crate::execute::key_walk::{KeyWalk, Step};
use crate::plan::bounds::KeySpans;
use crate::storage::Family;
use crate::storage::keys::{CollectionId, ID_BYTES};
use crate::storage::snapshot::Snapshot;

/// The walk. It stands before the first entry until `advance` is called.
pub(super) struct EntryWalk {
    snapshot: Arc<Snapshot>,
    walk: KeyWalk,
    /// Absent where the fields need not be looked at: the value of a unique entry names the document.
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
    /// An entry with a field that lies elsewhere.
    Outside,
    /// No entry where one could have been.
    Absent,
    End,
}

impl EntryWalk {
    /// The walk over an index of a collection, on a snapshot that has the entries of both.
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        index: &Index,
        scan: &EntryScan,
    ) -> Self {
        let (spans, exactness) = KeySpans::of_entries(index, &scan.bounds);
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
            Step::End => return Ok(EntryStep::End),
            Step::Absent => return Ok(EntryStep::Absent),
            Step::Scanned | Step::LookedUp => {}
        }
        let (key, value) = (self.walk.key(), self.walk.value());
        let malformed =
            || Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index");
        let fields = key.get(ID_BYTES..).ok_or_else(malformed)?;
        let (length, is_within) = match &self.bounds {
            Some(bounds) => bounds.check(fields).ok_or_else(malformed)?,
            None => (fields.len(), true),
        };
        if !is_within {
            return Ok(EntryStep::Outside);
        }
        let id = if self.is_unique {
            let length = key::skip(value, Direction::Ascending).map_err(|_| malformed())?;
            value.get(..length)
        } else {
            fields.get(length..)
        };
        self.record_key.truncate(ID_BYTES);
        self.record_key.extend_from_slice(id.ok_or_else(malformed)?);
        Ok(EntryStep::Within)
    }

    /// Reads the document of the current entry.
    pub(super) fn fetch(&mut self) -> Result<()> {
        if self.snapshot.get_into(Family::Records, &self.record_key, &mut self.document)? {
            return Ok(());
        }
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

    /// Lets go of what the storage holds for the walk, until it goes on.
    pub(super) fn rest(&mut self) {
        self.walk.rest();
    }
}
