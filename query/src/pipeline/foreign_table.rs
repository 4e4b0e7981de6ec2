//! The documents of another collection in memory, by the encoded values of one of their fields: what stages ask that
//! have no index to ask.
//!
//! A document stands under every value that a filter's equality would find it by. What the table holds is charged to
//! its stage.

use std::collections::HashMap;
use std::ops::ControlFlow;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::key::Direction;
use index::path::{FieldPath, leaves};

use crate::operation::Reservation;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::pipeline::stream::nothing;
use crate::value::elements;

/// The documents by the values of a field.
#[derive(Debug)]
pub(super) struct ForeignTable {
    documents: Vec<RawDocumentBuf>,
    indexes: HashMap<Box<[u8]>, Indexes>,
    /// The key of the value that is added.
    key: Vec<u8>,
    memory: StageMemory,
    /// Which texts are equal.
    collation: Collation,
}

/// Indexes into the documents, ascending. Most values have one, which needs no memory of its own.
#[derive(Debug)]
struct Indexes {
    first: usize,
    more: Vec<usize>,
}

/// The bytes that are allocated in advance for a key: that of a number or an `ObjectId` is shorter.
const KEY_BYTES_GUESS: usize = 32;

impl ForeignTable {
    /// An empty table, which charges what it holds to `memory`.
    pub(super) fn new(memory: StageMemory, collation: Collation) -> Self {
        let (documents, indexes, key) = (Vec::new(), HashMap::new(), Vec::new());
        Self { documents, indexes, key, memory, collation }
    }

    /// Adds a document under all values that a filter would find it by.
    pub(super) fn add(&mut self, document: &RawDocument, path: &FieldPath) -> Result<(), Fault> {
        let index = self.documents.len();
        let mut added = Ok(());
        let _ = leaves(document, path, &mut |leaf| {
            added = self.add_value(leaf.value, index);
            if let (Ok(()), Some(RawBsonRef::Array(array)), true) = (&added, leaf.value, leaf.expand) {
                added = elements(array).try_for_each(|element| self.add_value(Some(element), index));
            }
            if added.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        added?;
        self.memory.grow(document.as_bytes().len() + size_of::<RawDocumentBuf>())?;
        self.documents.push(document.to_owned());
        Ok(())
    }

    /// Puts the indexes of the documents that have one of the values into `found`, in the order of the collection and each once.
    /// `room` holds what they take.
    pub(super) fn find(
        &self,
        values: &[RawBson],
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        found.clear();
        for value in values {
            self.add_found(value.as_raw_bson_ref(), room, found)?;
        }
        if values.len() > 1 {
            // A document with two of the values was found twice.
            found.sort_unstable();
            found.dedup();
        }
        Ok(())
    }

    /// Puts the indexes of the documents that have a value into `found`, in the order of the collection.
    pub(super) fn find_value(
        &self,
        value: RawBsonRef<'_>,
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        found.clear();
        self.add_found(value, room, found)
    }

    /// The document at an index that was found. It is empty for any other.
    pub(super) fn document(&self, index: usize) -> &RawDocument {
        self.documents.get(index).map_or(nothing(), |document| document)
    }

    /// Adds the indexes of the documents that have a value.
    fn add_found(
        &self,
        value: RawBsonRef<'_>,
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        room.operation().step()?;
        let mut key = Vec::with_capacity(KEY_BYTES_GUESS);
        self.collation.encode(value, Direction::Ascending, &mut key);
        let Some(Indexes { first, more }) = self.indexes.get(key.as_slice()) else { return Ok(()) };
        room.operation().steps(1 + more.len() as u64)?;
        room.grow_by_steps((found.len() + 1 + more.len()) * 2 * size_of::<usize>())?;
        found.push(*first);
        found.extend_from_slice(more);
        Ok(())
    }

    fn add_value(&mut self, value: Option<RawBsonRef<'_>>, index: usize) -> Result<(), Fault> {
        self.key.clear();
        // A missing field and undefined match null.
        let value = value.filter(|value| *value != RawBsonRef::Undefined).unwrap_or(RawBsonRef::Null);
        self.collation.encode(value, Direction::Ascending, &mut self.key);
        if let Some(Indexes { first, more }) = self.indexes.get_mut(self.key.as_slice()) {
            // An array can have a value twice.
            if *more.last().unwrap_or(first) != index {
                self.memory.grow(2 * size_of::<usize>())?;
                more.push(index);
            }
            return Ok(());
        }
        self.memory.grow(self.key.len() + size_of::<(Box<[u8]>, Indexes)>() + 4 * size_of::<usize>())?;
        self.indexes.insert(Box::from(self.key.as_slice()), Indexes { first: index, more: Vec::new() });
        Ok(())
    }
}
