//! A foreign table beyond memory, in a temporary file: its documents in the order of their positions, and sorted pairs of an
//! encoded value and the position of a document that has it. So a document is in the file once, however many values it has.
//!
//! A value is looked up in the pairs, and each document of the positions found there in the documents. Both runs are sorted,
//! so values that follow each other, and documents that do, are found in the block that was read last.
//!
//! The invariant: the key of a pair is short. A long value has its beginning and a hash there, and is itself beside them.

use std::cmp::{Ordering, min};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bson::RawDocument;

use crate::operation::{
    OperationContext, Reservation, SortedSink, SortedSource, SpillFailure, TemporaryFile, TemporaryFiles,
};
use crate::pipeline::error::Fault;
use crate::spill::runs::{NewRun, Runs};

/// A longer value is shortened to its first bytes, so many, and a hash. Encoded values end themselves: none is the beginning of
/// another one, and so no key of a pair is.
const BEGINNING_BYTES: usize = 48;
/// The bytes of a position.
const POSITION_BYTES: usize = size_of::<u64>();
/// The memory for writing the file, besides the indexes of its runs.
const WRITING_BYTES: usize = 128 << 10;
/// The part of the stage's memory that each of the two indexes may use.
const INDEX_PART: usize = 8;

/// A file gave back what was not written to it.
#[derive(Debug, thiserror::Error)]
#[error("a temporary file of a join is damaged")]
struct DamagedJoin;

fn damaged() -> Fault {
    Fault::Spill(SpillFailure::new(DamagedJoin))
}

/// Positions of documents, ascending. Most values have one, which needs no memory of its own.
#[derive(Debug)]
pub(super) struct Positions {
    pub(super) first: usize,
    pub(super) more: Vec<usize>,
}

impl Positions {
    fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

/// A table that is being written.
pub(super) struct TableWriter {
    file: Box<dyn TemporaryFile>,
    documents: Box<dyn SortedSink>,
    pairs: Runs,
    hasher: RandomState,
    index_bytes_max: usize,
    operation: OperationContext,
    /// The memory for writing.
    room: Reservation,
}

impl TableWriter {
    /// An empty table of an operation. `memory_bytes_max` is the memory of its stage.
    pub(super) fn create(
        files: &Arc<dyn TemporaryFiles>,
        memory_bytes_max: usize,
        operation: &OperationContext,
    ) -> Result<Self, Fault> {
        let file = files.create().map_err(Fault::Spill)?;
        let index_bytes_max = memory_bytes_max / INDEX_PART;
        Ok(Self {
            documents: file.begin_sorted(index_bytes_max),
            file,
            pairs: Runs::new(Arc::clone(files), operation, None, memory_bytes_max / 2),
            hasher: RandomState::new(),
            index_bytes_max,
            operation: operation.clone(),
            room: Reservation::of(operation),
        })
    }

    /// Adds the document of a position, which is greater than those before.
    pub(super) fn add_document(&mut self, position: usize, document: &RawDocument) -> Result<(), Fault> {
        self.operation.pass(document.as_bytes().len())?;
        self.documents.add(&position_bytes(position), document.as_bytes()).map_err(Fault::Spill)
    }

    /// Adds encoded values with the positions of their documents. [`settle`](Self::settle) follows.
    pub(super) fn add_values(&mut self, values: &HashMap<Box<[u8]>, Positions>) -> Result<(), Fault> {
        let hasher = &self.hasher;
        let mut sorted: Vec<(&[u8], &Positions)> =
            values.iter().map(|(value, positions)| (&**value, positions)).collect();
        sorted.sort_unstable_by(|(left, _), (right, _)| compare_short(left, right, hasher));
        let add_all = |run: &mut NewRun<'_>| {
            // One buffer for all keys, of which each has the value of the one before, or another one.
            let mut key = Vec::new();
            for (value, positions) in sorted {
                let beside = shorten(value, hasher, &mut key);
                let length = key.len();
                for position in positions.iter() {
                    key.truncate(length);
                    key.extend_from_slice(&position_bytes(position));
                    run.add(&key, beside)?;
                }
            }
            Ok(())
        };
        Ok(self.pairs.write_with(add_all)?)
    }

    /// Makes few runs of many. The memory of the values that were added is free by now.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        // Only now: before, there may have been no memory left for it.
        self.room.grow_to(WRITING_BYTES)?;
        Ok(self.pairs.settle()?)
    }

    /// The bytes of memory of what finds the documents.
    pub(super) fn index_bytes(&self) -> usize {
        self.documents.index_bytes()
    }

    /// Ends the table, which can then be asked.
    pub(super) fn finish(self) -> Result<StoredTable, Fault> {
        let Self { file, documents, pairs, hasher, index_bytes_max, operation, room } = self;
        // Before the pairs are written, so that neither run has blocks between those of the other.
        let documents = documents.finish().map_err(Fault::Spill)?;
        let mut merge = pairs.into_merge()?;
        let mut sink = file.begin_sorted(index_bytes_max);
        let mut last = Vec::new();
        while merge.advance()? {
            // A document that was moved out in the middle of its values can have one twice.
            if merge.key() != last.as_slice() {
                sink.add(merge.key(), merge.value()).map_err(Fault::Spill)?;
                last.clear();
                last.extend_from_slice(merge.key());
            }
        }
        let pairs = sink.finish().map_err(Fault::Spill)?;
        // The memory for writing is for reading now.
        drop((merge, room));
        let room = operation.reserve(documents.memory_bytes().saturating_add(pairs.memory_bytes()))?;
        Ok(StoredTable { documents, pairs, hasher, key: Vec::new(), _room: room })
    }
}

/// A table in a file.
pub(super) struct StoredTable {
    documents: Box<dyn SortedSource>,
    pairs: Box<dyn SortedSource>,
    hasher: RandomState,
    /// The short key of the value that is looked up.
    key: Vec<u8>,
    /// The memory for reading.
    _room: Reservation,
}

impl StoredTable {
    /// Adds the positions of the documents that have an encoded value, ascending. `room` holds their memory.
    pub(super) fn add_found(
        &mut self,
        value: &[u8],
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        let Self { pairs, hasher, key, .. } = self;
        let beside = shorten(value, hasher, key);
        pairs.seek(key).map_err(Fault::Spill)?;
        while pairs.advance().map_err(Fault::Spill)? {
            room.operation().step()?;
            let Some(position) = pairs.key().strip_prefix(key.as_slice()) else { break };
            // Another value may begin with these bytes, or be a long one with the same hash.
            if position.len() != POSITION_BYTES || pairs.value() != beside {
                continue;
            }
            room.grow_by_steps((found.len() + 1) * 2 * size_of::<usize>())?;
            found.push(position_of(position).ok_or_else(damaged)?);
        }
        Ok(())
    }

    /// The document at a position that was found.
    pub(super) fn document(&mut self, position: usize) -> Result<&RawDocument, Fault> {
        let wanted = position_bytes(position);
        // Every position that was found has a document, so another key is damage.
        self.documents.seek(&wanted).map_err(Fault::Spill)?;
        if !self.documents.advance().map_err(Fault::Spill)? || self.documents.key() != wanted {
            return Err(damaged());
        }
        RawDocument::from_bytes(self.documents.value()).map_err(|_| damaged())
    }
}

fn position_bytes(position: usize) -> [u8; POSITION_BYTES] {
    (position as u64).to_be_bytes()
}

fn position_of(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_be_bytes(bytes.try_into().ok()?)).ok()
}

/// Puts the beginning of the keys of a value's pairs into `key`, and returns what is beside them.
fn shorten<'v>(value: &'v [u8], hasher: &RandomState, key: &mut Vec<u8>) -> &'v [u8] {
    key.clear();
    if value.len() <= BEGINNING_BYTES {
        key.extend_from_slice(value);
        return &[];
    }
    key.extend_from_slice(beginning(value));
    // The hasher has a random key, so no caller can choose values with the same 128 bits.
    for half in [0_u8, 1] {
        key.extend_from_slice(&hasher.hash_one((half, value)).to_be_bytes());
    }
    value
}

/// Compares values by the keys of their pairs.
fn compare_short(left: &[u8], right: &[u8], hasher: &RandomState) -> Ordering {
    // Most differ at their beginnings, where their keys are the same bytes.
    let length = min(beginning(left).len(), beginning(right).len());
    match left.get(..length).cmp(&right.get(..length)) {
        Ordering::Equal => {
            let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
            shorten(left, hasher, &mut left_key);
            shorten(right, hasher, &mut right_key);
            left_key.cmp(&right_key)
        }
        unequal @ (Ordering::Less | Ordering::Greater) => unequal,
    }
}

fn beginning(value: &[u8]) -> &[u8] {
    value.get(..BEGINNING_BYTES).unwrap_or(value)
}
