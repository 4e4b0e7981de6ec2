//! Rows of CSV and TSV: cells by RFC 4180, and the document that the columns make of them.

use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::columns::Columns;
use crate::refusal::Refusal;

/// Takes rows apart.
pub(crate) struct Rows {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn new(delimiter: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        let mut rows = Self { reader, text: Vec::new(), ends: vec![0; 16] };
        // The reader drops a mark from the beginning of what it reads, which here is the beginning of a cell.
        rows.read(b"-");
        rows
    }

    /// Reads one row. Returns how many cells it has; `None` if it ends within a quoted cell.
    fn read(&mut self, row: &[u8]) -> Option<usize> {
        // Cells are never longer than the row, so that there is always room.
        self.text.resize(row.len() + 1, 0);
        let (mut input, mut written, mut cells) = (row, 0, 0);
        let mut is_ended = false;
        loop {
            let (text, ends) = (self.text.get_mut(written..)?, self.ends.get_mut(cells..)?);
            let (result, read, wrote, found) = self.reader.read_record(input, text, ends);
            input = input.get(read..)?;
            written += wrote;
            cells += found;
            match result {
                ReadRecordResult::Record => return Some(cells),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                // The line feed that the splitter took off; if it ends nothing, a quote is open.
                ReadRecordResult::InputEmpty if !is_ended => {
                    is_ended = true;
                    input = b"\n";
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull | ReadRecordResult::End => {
                    return None;
                }
            }
        }
    }

    /// The text of a cell of the row that was read last.
    fn cell<'a>(&self, text: &'a str, position: usize) -> Option<&'a str> {
        let start = position.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        text.get(start..*self.ends.get(position)?)
    }

    /// Reads a row and calls `with` with its cells.
    pub(crate) fn with_cells<T>(
        &mut self,
        row: &[u8],
        with: impl FnOnce(&Cells<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let Some(count) = self.read(row) else {
            // What the reader is within now is unknown.
            self.reader.reset();
            self.read(b"-");
            return Err(Refusal::not_parsed("a quoted cell has no end"));
        };
        let text = std::str::from_utf8(&self.text).map_err(|error| {
            Refusal::not_parsed(format!(
                "the row is no UTF-8 from byte {} of its cells on",
                error.valid_up_to()
            ))
        })?;
        with(&Cells { rows: self, text, count })
    }
}

/// The cells of one row.
pub(crate) struct Cells<'a> {
    rows: &'a Rows,
    text: &'a str,
    pub(crate) count: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn get(&self, position: usize) -> Option<&'a str> {
        if position < self.count { self.rows.cell(self.text, position) } else { None }
    }
}

/// Rows of a table with known columns.
pub(crate) struct Table {
    rows: Rows,
    columns: Arc<Columns>,
}

impl Table {
    pub(crate) fn new(delimiter: u8, columns: Arc<Columns>) -> Self {
        Self { rows: Rows::new(delimiter), columns }
    }

    /// Appends the document of a row.
    pub(crate) fn parse(&mut self, row: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let columns = &self.columns;
        self.rows.with_cells(row, |cells| {
            if cells.count > columns.len() {
                let (count, expected) = (cells.count, columns.len());
                return Err(Refusal::not_parsed(format!("the row has {count} cells for {expected} columns")));
            }
            columns.write(out, &|column| cells.get(column))
        })
    }
}
