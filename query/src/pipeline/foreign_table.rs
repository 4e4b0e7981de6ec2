//! The documents of another collection by the encoded values of one of their fields: what stages ask that have no index to
//! ask.
//!
//! A document is under every value that a filter's equality would find it by. The table is in memory, charged to its stage,
//! as long as it fits there, and goes on in a temporary file if the operation has them. What is found, and its order, is the
//! same in both.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::key::Direction;
use index::path::{FieldPath, leaves};

use crate::operation::{OperationContext, Reservation, TemporaryFiles};
use crate::pipeline::error::Fault;
use crate::pipeline::foreign_files::{Positions, StoredTable, TableWriter};
use crate::pipeline::memory::{SPILLED_BYTES_MIN, STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::stream::nothing;
use crate::value::elements;

/// A table that is being filled.
pub(super) struct TableBuilder {
    table: MemoryTable,
    /// The number of added documents.
    count: usize,
    /// The key of the value that is added.
    key: Vec<u8>,
    /// The files in which the table continues if its memory is short. Absent if it may not.
    files: Option<Arc<dyn TemporaryFiles>>,
    /// The part that was moved to a file. Absent if that is nothing.
    moved: Option<TableWriter>,
    operation: OperationContext,
}

/// A table that can be asked. Clones are the same table, and no two of them are asked at the same time.
#[derive(Clone)]
pub(super) enum ForeignTable {
    Memory(Arc<MemoryTable>),
    File(Arc<StoredByValue>),
}

impl fmt::Debug for ForeignTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self {
            Self::Memory(_) => "memory",
            Self::File(_) => "a file",
        };
        f.debug_tuple("ForeignTable").field(&place).finish()
    }
}

/// The documents in memory by the values of a field.
pub(super) struct MemoryTable {
    documents: Vec<RawDocumentBuf>,
    positions: HashMap<Box<[u8]>, Positions>,
    memory: StageMemory,
    /// Which texts are equal.
    collation: Collation,
}

/// The documents in a file by the values of a field.
pub(super) struct StoredByValue {
    stored: Mutex<StoredTable>,
    collation: Collation,
}

/// The bytes that are allocated in advance for a key: that of a number or an `ObjectId` is shorter.
const KEY_BYTES_GUESS: usize = 32;
/// The cost of a value besides its bytes.
const VALUE_BYTES: usize = size_of::<(Box<[u8]>, Positions)>() + 4 * size_of::<usize>();
/// The cost of a value while it is moved to a file, because values are sorted for that.
const MOVED_BYTES: usize = 3 * size_of::<usize>();

impl TableBuilder {
    /// An empty table for a stage of an operation.
    pub(super) fn new(stage: &'static str, operation: &OperationContext, collation: &Collation) -> Self {
        let memory = StageMemory::new(stage, STAGE_BYTES_MAX, operation);
        let files = operation.temporary_files();
        let memory = if files.is_some() { memory.spilling() } else { memory };
        let (documents, positions, collation) = (Vec::new(), HashMap::new(), collation.clone());
        let table = MemoryTable { documents, positions, memory, collation };
        Self { table, count: 0, key: Vec::new(), files, moved: None, operation: operation.clone() }
    }

    /// Adds a document under all values that a filter would find it by.
    pub(super) fn add(&mut self, document: &RawDocument, path: &FieldPath) -> Result<(), Fault> {
        let mut added = Ok(());
        let _ = leaves(document, path, &mut |leaf| {
            added = self.add_value(leaf.value);
            if let (Ok(()), Some(RawBsonRef::Array(array)), true) = (&added, leaf.value, leaf.expand) {
                added = elements(array).try_for_each(|element| self.add_value(Some(element)));
            }
            if added.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        added?;
        if let Some(moved) = &mut self.moved {
            // Documents follow those in the file, so the memory is that of values alone.
            moved.add_document(self.count, document)?;
        } else {
            self.table.memory.grow(document.as_bytes().len() + size_of::<RawDocumentBuf>())?;
            self.table.documents.push(document.to_owned());
        }
        self.count += 1;
        self.make_room()
    }

    /// Ends the table, which can then be asked.
    pub(super) fn finish(mut self) -> Result<ForeignTable, Fault> {
        // The rest could stay in memory, but a table in a file is only looked up there.
        if self.moved.is_some() && !self.table.positions.is_empty() {
            self.move_out()?;
        }
        let Self { table, moved, .. } = self;
        let Some(moved) = moved else { return Ok(ForeignTable::Memory(Arc::new(table))) };
        let MemoryTable { memory, collation, .. } = table;
        // Its memory is for reading the file now.
        drop(memory);
        let stored = Mutex::new(moved.finish()?);
        Ok(ForeignTable::File(Arc::new(StoredByValue { stored, collation })))
    }

    fn add_value(&mut self, value: Option<RawBsonRef<'_>>) -> Result<(), Fault> {
        let Self { table: MemoryTable { positions, memory, collation, .. }, key, count, files, .. } = self;
        key.clear();
        // A missing field and undefined match null.
        let value = value.filter(|value| *value != RawBsonRef::Undefined).unwrap_or(RawBsonRef::Null);
        collation.encode(value, Direction::Ascending, key);
        if let Some(Positions { first, more }) = positions.get_mut(key.as_slice()) {
            // An array can have a value twice.
            if more.last().unwrap_or(first) != count {
                memory.grow(2 * size_of::<usize>())?;
                more.push(*count);
            }
        } else {
            let moved_bytes = if files.is_some() { MOVED_BYTES } else { 0 };
            memory.grow(key.len() + VALUE_BYTES + moved_bytes)?;
            positions.insert(Box::from(key.as_slice()), Positions { first: *count, more: Vec::new() });
        }
        // Not only after a document: one can have a million values.
        self.make_room()
    }

    /// Moves the table to a file if its memory is short.
    fn make_room(&mut self) -> Result<(), Fault> {
        let memory = &self.table.memory;
        if !memory.is_short() {
            return Ok(());
        }
        // Memory that others use is short for a long time. Runs of a few values would then be too many.
        let indexes = self.moved.as_ref().map_or(0, TableWriter::index_bytes);
        let is_enough = memory.bytes() > memory.limit() || memory.bytes() >= indexes + SPILLED_BYTES_MIN;
        if is_enough && !self.table.positions.is_empty() { self.move_out() } else { Ok(()) }
    }

    #[cold]
    fn move_out(&mut self) -> Result<(), Fault> {
        let Self { table: MemoryTable { documents, positions, memory, .. }, files, moved, operation, .. } =
            self;
        let moved = match (moved, files) {
            (Some(moved), _) => moved,
            (moved @ None, Some(files)) => {
                let writer = moved.insert(TableWriter::create(files, memory.limit(), operation)?);
                for (position, document) in documents.iter().enumerate() {
                    writer.add_document(position, document)?;
                }
                *documents = Vec::new();
                writer
            }
            // Never: without files a lack of memory is an error at once.
            (None, None) => return Ok(()),
        };
        moved.add_values(positions)?;
        *positions = HashMap::new();
        memory.release(memory.bytes());
        // In this order, so that merges of runs have the memory of the values.
        moved.settle()?;
        memory.grow(moved.index_bytes())
    }
}

impl ForeignTable {
    /// Puts the positions of the documents that have one of the values into `found`, in the order of the collection and each once.
    /// `room` holds their memory.
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

    /// Puts the positions of the documents that have a value into `found`, in the order of the collection.
    pub(super) fn find_value(
        &self,
        value: RawBsonRef<'_>,
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        found.clear();
        self.add_found(value, room, found)
    }

    /// Reads the document at a position that was found into `read`, unless it is in memory.
    pub(super) fn read(&self, position: usize, read: &mut RawDocumentBuf) -> Result<(), Fault> {
        if let Self::File(table) = self {
            // A copy, because the file reads the next document into the same memory.
            *read = table.stored().document(position)?.to_owned();
        }
        Ok(())
    }

    /// The document at a position that was found. `read` is what [`read`](Self::read) has read of it.
    pub(super) fn document<'t>(&'t self, position: usize, read: &'t RawDocumentBuf) -> &'t RawDocument {
        match self {
            Self::Memory(table) => table.documents.get(position).map_or(nothing(), |document| document),
            Self::File(_) => read,
        }
    }

    /// Adds the positions of the documents that have a value.
    fn add_found(
        &self,
        value: RawBsonRef<'_>,
        room: &mut Reservation,
        found: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        room.operation().step()?;
        let mut key = Vec::with_capacity(KEY_BYTES_GUESS);
        self.collation().encode(value, Direction::Ascending, &mut key);
        let table = match self {
            Self::Memory(table) => table,
            Self::File(table) => return table.stored().add_found(&key, room, found),
        };
        let Some(Positions { first, more }) = table.positions.get(key.as_slice()) else { return Ok(()) };
        room.operation().steps(1 + more.len() as u64)?;
        room.grow_by_steps((found.len() + 1 + more.len()) * 2 * size_of::<usize>())?;
        found.push(*first);
        found.extend_from_slice(more);
        Ok(())
    }

    fn collation(&self) -> &Collation {
        match self {
            Self::Memory(table) => &table.collation,
            Self::File(table) => &table.collation,
        }
    }
}

impl StoredByValue {
    fn stored(&self) -> MutexGuard<'_, StoredTable> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
