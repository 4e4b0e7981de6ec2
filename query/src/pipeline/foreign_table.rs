//! The documents of another collection in memory, by the encoded values of one of their fields: what stages ask that
//! have no index to ask.
//!
//! A document stands under every value that a filter's equality would find it by. What the table holds is charged to
//! its stage.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::key::Direction;
use index::path::{FieldPath, leaves};

use crate::operation::Reservation;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::value::elements;

/// The documents by the values of a field.
#[derive(Debug)]
pub(super) struct ForeignTable {
    /// Shared with what reads them for one document.
    documents: Vec<Arc<RawDocumentBuf>>,
    /// Indexes into `documents`, ascending.
    indexes: HashMap<Box<[u8]>, Vec<usize>>,
    memory: StageMemory,
    /// Which texts are equal.
    collation: Collation,
}

impl ForeignTable {
    /// An empty table, which charges what it holds to `memory`.
    pub(super) fn new(memory: StageMemory, collation: Collation) -> Self {
        Self { documents: Vec::new(), indexes: HashMap::new(), memory, collation }
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
        self.documents.push(Arc::new(document.to_owned()));
        Ok(())
    }

    /// The documents that have one of the values, in the order of the collection and each once. `room` holds what the
    /// answer takes.
    pub(super) fn find(
        &self,
        values: &[RawBson],
        room: &mut Reservation,
    ) -> Result<Vec<Arc<RawDocumentBuf>>, Fault> {
        let mut indexes = Vec::new();
        let mut key = Vec::new();
        for value in values {
            room.operation().step()?;
            key.clear();
            self.collation.encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
            let with_value = self.indexes.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
            room.operation().steps(with_value.len() as u64)?;
            room.grow_by_steps((indexes.len() + with_value.len()) * 2 * size_of::<usize>())?;
            indexes.extend_from_slice(with_value);
        }
        // A document with two of the values was found twice.
        indexes.sort_unstable();
        indexes.dedup();
        let documents = indexes.into_iter().filter_map(|index| self.documents.get(index).map(Arc::clone));
        Ok(documents.collect())
    }

    fn add_value(&mut self, value: Option<RawBsonRef<'_>>, index: usize) -> Result<(), Fault> {
        let mut key = Vec::new();
        // A missing field and undefined match null.
        let value = value.filter(|value| *value != RawBsonRef::Undefined).unwrap_or(RawBsonRef::Null);
        self.collation.encode(value, Direction::Ascending, &mut key);
        if let Some(indexes) = self.indexes.get_mut(key.as_slice()) {
            // An array can have a value twice.
            if indexes.last() != Some(&index) {
                self.memory.grow(2 * size_of::<usize>())?;
                indexes.push(index);
            }
            return Ok(());
        }
        self.memory.grow(key.len() + size_of::<(Box<[u8]>, Vec<usize>)>() + 4 * size_of::<usize>())?;
        self.indexes.insert(key.into_boxed_slice(), vec![index]);
        Ok(())
    }
}
