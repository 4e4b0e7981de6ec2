//! Reads the records that entries of an index name.
//!
//! Entries that follow one another often name records that are stored next to each other: ids ascend with time, and so do
//! many fields. To step to the next record costs a tenth of a look-up. So a step is tried, and where records are scattered
//! it is tried ever more seldom.

use std::sync::Arc;

use crate::error::Result;
use crate::storage::Family;
use crate::storage::keys::CollectionId;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;

/// How many records of a search are looked up before a step is tried.
const FIRST_LOOKUPS: u32 = 2;
/// How many are looked up at most between two steps that are tried.
const LOOKUPS_MAX: u32 = 256;
/// How many records a step passes over at most.
const STEPS_MAX: usize = 4;

/// Reads records of a collection one after the other.
pub(super) struct RecordFetch {
    snapshot: Arc<Snapshot>,
    collection: CollectionId,
    /// How many records are looked up until the walk is put at one.
    lookups: u32,
    /// How many are looked up after the next step that does not find its record.
    penalty: u32,
    /// A walk over the records. Boxed: few searches read enough of them.
    walk: Option<Box<Scan>>,
    /// Whether the walk is at the record that was read last.
    is_at: bool,
}

impl RecordFetch {
    pub(super) fn new(snapshot: &Arc<Snapshot>, collection: CollectionId) -> Self {
        let (lookups, penalty) = (FIRST_LOOKUPS, FIRST_LOOKUPS);
        Self { snapshot: Arc::clone(snapshot), collection, lookups, penalty, walk: None, is_at: false }
    }

    /// Replaces the content of `document` by a record. Returns `false` if there is none of that key.
    pub(super) fn read(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Result<bool> {
        if std::mem::take(&mut self.is_at)
            && let Some(walk) = &mut self.walk
        {
            if walk.step_towards(record_key, STEPS_MAX)? {
                walk.value().clone_into(document);
                self.penalty = FIRST_LOOKUPS;
                self.is_at = true;
                return Ok(true);
            }
            self.lookups = self.penalty;
            self.penalty = (2 * self.penalty).min(LOOKUPS_MAX);
        }
        if self.lookups > 0 {
            self.lookups -= 1;
            return self.snapshot.get_into(Family::Records, record_key, document);
        }
        let walk = self.walk.get_or_insert_with(|| {
            let bounds = (self.collection.prefix().to_vec(), Some(self.collection.end()));
            Box::new(Scan::open(&self.snapshot, Family::Records, bounds, CacheUse::Fill))
        });
        self.is_at = walk.seek(record_key)?;
        if self.is_at {
            walk.value().clone_into(document);
        }
        Ok(self.is_at)
    }

    /// Releases what the storage holds until the next record is read.
    pub(super) fn rest(&mut self) {
        self.walk = None;
        self.is_at = false;
    }
}
