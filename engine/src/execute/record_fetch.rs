//! Reads the records that entries of an index name.
//!
//! Entries that follow one another often name records that are stored next to each other: ids ascend with time, and so do
//! many fields. To step to the next record costs a tenth of a look-up, and to find it in a leaf in memory a tenth of that. So both are
//! tried, and where records are scattered ever more seldom.
//!
//! A record that is in memory by itself is found faster than by a step, if it is asked for so often that the processor has it in a cache of
//! its own. So that is tried too, and ever more seldom where records are not there.

use std::cmp::Ordering;
use std::sync::Arc;

use base::error::Result;
use index::key::Direction;
use query::operation::OperationContext;
use store::Family;
use store::keys::CollectionId;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

use crate::execute::leaf_walk::LeafWalk;

/// The number of records in a row that must have had ascending keys, or descending ones, before a leaf or a step is tried. Of
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
    row: Row,
    leaves: InLeaves,
    neighbours: Neighbours,
    /// The number of steps until it is asked whether a record is in memory, and how many come after that if it is not.
    steps: u32,
    patience: u32,
}

/// The order in which records were asked for.
struct Row {
    /// The record key that was asked for last, and how the keys before it were ordered.
    last: Vec<u8>,
    order: Ordering,
    /// The number of keys in a row that had that order.
    run: u32,
}

/// A walk through leaves of the collection.
struct InLeaves {
    walk: Option<Box<LeafWalk>>,
    /// The number of leaves that were made by the walks before.
    made: u32,
    /// The number of records that were asked for in the current leaf. 0 if there is none.
    asked: u32,
    /// Whether it was made here.
    is_new: bool,
    /// The number of records until a leaf is asked for again, and how many come after that if there is none.
    pause: u32,
    penalty: u32,
}

/// A walk over the records, which reads those that are stored next to each other.
struct Neighbours {
    collection: CollectionId,
    operation: OperationContext,
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
            lookups: 0,
            penalty: LOOKUPS,
            walk: None,
            is_at: false,
        };
        let row = Row { last: Vec::new(), order: Ordering::Equal, run: 0 };
        let leaves = InLeaves { walk: None, made: 0, asked: 0, is_new: false, pause: 0, penalty: LOOKUPS };
        Self { snapshot: Arc::clone(snapshot), row, leaves, neighbours, steps: 0, patience: STEPS }
    }

    /// Replaces the content of `document` by a record. Returns `false` if there is none of that key.
    #[inline]
    pub(super) fn read(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Result<bool> {
        if let Some(is_there) = self.leaves.read_on(record_key, document) {
            return Ok(is_there);
        }
        self.read_apart(record_key, document)
    }

    /// Reads a record that the current leaf does not have.
    fn read_apart(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Result<bool> {
        let is_in_a_row = self.row.goes_on(record_key);
        if is_in_a_row && self.leaves.is_due() {
            let collection = self.neighbours.collection;
            if let Some(is_there) = self.leaves.begin(&self.snapshot, collection, &self.row, document) {
                self.neighbours.is_at = false;
                return Ok(is_there);
            }
        }
        let (snapshot, neighbours) = (&self.snapshot, &mut self.neighbours);
        if neighbours.is_at && self.steps > 0 {
            self.steps -= 1;
            return match neighbours.read(snapshot, record_key, is_in_a_row, document)? {
                Some(is_there) => Ok(is_there),
                None => snapshot.get_into(Family::Records, record_key, document),
            };
        }
        let mut is_in_memory = true;
        let is_there = snapshot.record_by(record_key, document, |document| {
            is_in_memory = false;
            neighbours.read(snapshot, record_key, is_in_a_row, document)
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
        self.leaves.end();
    }
}

impl Row {
    /// Notes the next key. Returns whether it goes on as those before it did.
    fn goes_on(&mut self, record_key: &[u8]) -> bool {
        let order = self.last.as_slice().cmp(record_key);
        self.run = if order == self.order { self.run + 1 } else { 1 };
        self.order = order;
        record_key.clone_into(&mut self.last);
        self.run >= RUN
    }
}

impl InLeaves {
    /// Reads a record that the current leaf has, or the next one if many were asked for in the current one. Returns `None` if it is to
    /// be read elsewhere.
    #[inline]
    fn read_on(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Option<bool> {
        if self.asked == 0 {
            return None;
        }
        if let Some(record) = self.walk.as_mut()?.find_next(record_key) {
            record.clone_into(document);
            self.note_asked();
            return Some(true);
        }
        self.read_further(record_key, document)
    }

    fn read_further(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Option<bool> {
        if self.asked < RUN && !self.walk.as_ref()?.has_place(record_key) {
            self.leave();
            return None;
        }
        self.find(record_key, document)
    }

    /// Whether a leaf is to be asked for.
    fn is_due(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    /// Reads the last record of a row from a leaf, which is made if it is wanted.
    fn begin(
        &mut self,
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        row: &Row,
        document: &mut Vec<u8>,
    ) -> Option<bool> {
        let direction =
            if row.order == Ordering::Greater { Direction::Descending } else { Direction::Ascending };
        if self.walk.as_ref().is_none_or(|walk| walk.direction() != direction) {
            self.end();
            let walk = LeafWalk::of_records(snapshot, collection, direction).having_made(self.made);
            self.walk = Some(Box::new(walk));
        }
        self.find(&row.last, document)
    }

    /// Reads a record from the leaf that has its place.
    fn find(&mut self, record_key: &[u8], document: &mut Vec<u8>) -> Option<bool> {
        let walk = self.walk.as_mut()?;
        let (had_place, made) = (walk.has_place(record_key), walk.made());
        let found = walk.find(record_key);
        if !had_place {
            (self.asked, self.is_new) = (0, walk.made() > made);
        }
        let Some(is_there) = found else {
            self.leave();
            return None;
        };
        document.clear();
        if is_there {
            document.extend_from_slice(walk.value());
        }
        self.note_asked();
        Some(is_there)
    }

    #[inline]
    fn note_asked(&mut self) {
        self.asked = self.asked.saturating_add(1);
        if self.asked == RUN {
            self.note_use(true);
            self.penalty = LOOKUPS;
        }
    }

    /// Goes on elsewhere: there is no leaf, or few records were asked for in it. No leaf is asked for in a while.
    fn leave(&mut self) {
        self.note_use(false);
        self.asked = 0;
        self.pause = self.penalty;
        self.penalty = (GROWTH * self.penalty).min(LOOKUPS_MAX);
        if let Some(walk) = &mut self.walk {
            walk.stop();
        }
    }

    /// Notes whether the current leaf was of use, if it was made here.
    fn note_use(&mut self, is_of_use: bool) {
        if std::mem::take(&mut self.is_new)
            && let Some(walk) = &self.walk
        {
            walk.note_use(is_of_use);
        }
    }

    /// Lets go of all that is in memory for it.
    fn end(&mut self) {
        self.made = self.walk.take().map_or(self.made, |walk| walk.made());
        self.asked = 0;
    }
}

impl Neighbours {
    /// Replaces the content of `document` by a record, if the walk finds it by a step or is worth putting there. Returns `None` if the record is to be
    /// looked up by itself.
    fn read(
        &mut self,
        snapshot: &Arc<Snapshot>,
        record_key: &[u8],
        is_in_a_row: bool,
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
        if !is_in_a_row || self.lookups > 0 {
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
}
