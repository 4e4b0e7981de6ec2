//! The documents of a partition that are held: from the first that a window may still need to the last that was read.

use std::collections::VecDeque;

use bson::{RawBson, RawDocumentBuf};

use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::value::content_bytes;

/// A document, and what of it decides about windows.
#[derive(Debug)]
pub(super) struct Row {
    /// Its number in the partition.
    pub(super) number: u64,
    pub(super) document: RawDocumentBuf,
    /// The value that documents are sorted by, if that is one field. Missing is null.
    pub(super) x: RawBson,
    /// The position in the sort.
    pub(super) key: Vec<u8>,
}

/// The rows of a partition, by their numbers from 0.
#[derive(Debug, Default)]
pub(super) struct Frame {
    rows: VecDeque<Row>,
    /// The number of the first row that is held.
    first: u64,
    /// Whether the partition has no more rows than were read.
    pub(super) is_whole: bool,
}

impl Frame {
    /// The number of the row that is read next.
    pub(super) fn end(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    /// A row that is held.
    pub(super) fn row(&self, number: u64) -> Option<&Row> {
        self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn last(&self) -> Option<&Row> {
        self.rows.back()
    }

    pub(super) fn push(&mut self, row: Row, memory: &mut StageMemory) -> Result<(), Fault> {
        memory.grow(row.bytes())?;
        self.rows.push_back(row);
        Ok(())
    }

    /// Drops the rows before a number.
    pub(super) fn release_before(&mut self, number: u64, memory: &mut StageMemory) {
        // A row that was not read yet cannot be dropped: the loop ends with the last one that is held.
        while self.first < number {
            let Some(row) = self.rows.pop_front() else { return };
            memory.shrink(row.bytes());
            self.first += 1;
        }
    }
}

impl Row {
    fn bytes(&self) -> usize {
        let x = content_bytes(self.x.as_raw_bson_ref());
        self.document.as_bytes().len() + x + self.key.len() + size_of::<Self>()
    }
}
