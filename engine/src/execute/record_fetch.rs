//! Reads the records that entries of an index name.
//!
//! Entries that follow one another often name records that are stored next to each other: ids ascend with time, and so do
//! many fields. To step to the next record costs a tenth of a look-up. So a step is tried, and where records are scattered
//! it is tried ever more seldom.
//!
//! A record that is in memory is found faster still, if it is asked for so often that the processor has it in a cache of its own. So that
//! is tried too, and ever more seldom where records are not there.

use std::cmp::Ordering;
use std::sync::Arc;

use base::error::Result;
use query::operation::OperationContext;
use store::Family;
use store::keys::CollectionId;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

/// The number of records in a row that must have had ascending keys, or descending ones, before a step is tried. Of
/// scattered records one in sixty is the fifth of a row.
const RUN: u32 = 4;
/// The number of records that are looked up after a step that did not find its record. Each further one in a row
/// makes it [`GROWTH`] times as many.
const LOOKUPS: u32 = 4;
const GROWTH: u32 = 4;
const LOOKUPS_MAX: u32 = 256;
/// The number of steps until it is asked again whether a record is in memory. Each further one in a row that is not doubles it.
const STEPS: u32 = 16;
const STEPS_WITHOUT_LOOK_MAX: u32 = 256;
/// The limit of records that a step passes over.
const STEPS_MAX: usize = 4;

/// Reads records of a collection one after the other.
pub(super) struct RecordFetch {
    snapshot: Arc<Snapshot>,
    neighbours: Neighbours,
    /// The number of steps until it is asked whether a record is in memory, and how many come after that if it is not.
    steps: u32,
    patience: u32,
}

/// A walk over the records, which reads those that are stored next to each other.
struct Neighbours {
    collection: CollectionId,
    operation: OperationContext,
    /// The record key that was read last, and how the keys before it were ordered.
    last: Vec<u8>,
    order: Ordering,
    /// The number of keys in a row that had that order.
    run: u32,
    /// The number of records that are looked up until the walk is put at one.
    lookups: u32,
    /// The number of lookups after the next step that does not find its record.
    penalty: u32,
    walk: Option<Scan>,
    /// Whether the walk is at the record that was read last.
    is_at: bool,
}

impl RecordFetch {
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        operation: &OperationContext,
    ) -> Self {
        let neighbours = Neighbours {
            collection,
            operation: operation.clone(),
            last: Vec::new(),
            order: Ordering::Equal,
            run: 0,
            lookups: 0,
            penalty: LOOKUPS,
            walk: None,
            is_at: false,
        };
        Self { snapshot: Arc::clone(snapshot), neighbours, steps: 0, patience: STEPS }
    }

    /// Replaces the content of `document` by a record. Returns `false` if there is none of that key.
    pub(super) fn read(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Result<bool> {
        let (snapshot, neighbours) = (&self.snapshot, &mut self.neighbours);
        if neighbours.is_at && self.steps > 0 {
            self.steps -= 1;
            return match neighbours.read(snapshot, record_key, document)? {
                Some(is_there) => Ok(is_there),
                None => snapshot.get_into(Family::Records, record_key, document),
            };
        }
        let mut is_in_memory = true;
        let is_there = snapshot.record_by(record_key, document, |document| {
            is_in_memory = false;
            neighbours.read(snapshot, record_key, document)
        })?;
        if is_in_memory {
            // The walk stays behind.
            neighbours.is_at = false;
            self.patience = STEPS;
        } else {
            self.steps = self.patience;
            self.patience = (2 * self.patience).min(STEPS_WITHOUT_LOOK_MAX);
        }
        Ok(is_there)
    }

    /// Releases what the storage holds until the next record is read.
    pub(super) fn rest(&mut self) {
        self.neighbours.walk = None;
        self.neighbours.is_at = false;
    }
}

impl Neighbours {
    /// Replaces the content of `document` by a record, if the walk finds it by a step or is worth putting there. Returns `None` if the record is to be
    /// looked up by itself.
    fn read(
        &mut self,
        snapshot: &Arc<Snapshot>,
        record_key: &[u8],
        document: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        if std::mem::take(&mut self.is_at)
            && let Some(walk) = &mut self.walk
        {
            if walk.step_towards(record_key, STEPS_MAX)? {
                walk.value().clone_into(document);
                self.penalty = LOOKUPS;
                self.is_at = true;
                return Ok(Some(true));
            }
            self.lookups = self.penalty;
            self.penalty = (GROWTH * self.penalty).min(LOOKUPS_MAX);
        }
        self.lookups = self.lookups.saturating_sub(1);
        if !self.is_in_a_row(record_key) || self.lookups > 0 {
            return Ok(None);
        }
        let walk = self.walk.get_or_insert_with(|| {
            let bounds = (self.collection.prefix().to_vec(), Some(self.collection.end()));
            Scan::open(snapshot, Family::Records, bounds, CacheUse::Fill, &self.operation)
        });
        self.is_at = walk.seek(record_key)?;
        if self.is_at {
            walk.value().clone_into(document);
        }
        Ok(Some(self.is_at))
    }

    /// Whether the key goes on as those before it did.
    fn is_in_a_row(&mut self, record_key: &[u8]) -> bool {
        let order = self.last.as_slice().cmp(record_key);
        self.run = if order == self.order { self.run + 1 } else { 1 };
        self.order = order;
        record_key.clone_into(&mut self.last);
        self.run >= RUN
    }
}
