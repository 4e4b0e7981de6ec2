//! Rows of CSV and TSV: cells by RFC 4180, and the document that the columns make of them.

use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr;

use crate::columns::Columns;
use crate::refusal::Refusal;

/// Splits rows into cells.
pub(crate) struct Rows {
    reader: Reader,
    delimiter: u8,
    /// The cells of the row that was read last, one after the other. What follows them is of longer rows before.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn new(delimiter: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        let mut rows = Self { reader, delimiter, text: Vec::new(), ends: vec![0; 16] };
        // The reader drops a mark from the beginning of what it reads, which here is the beginning of a cell.
        rows.read(b"-");
        rows
    }

    /// Reads one row. Returns how many cells it has, after which the text ends with the last of them; `None` if the
    /// row ends within a quoted cell.
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
                ReadRecordResult::Record => {
                    self.text.truncate(written);
                    return Some(cells);
                }
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                // The line feed that the splitter removed; if it ends nothing, a quote is open.
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
            // The reader's state is unknown now.
            self.reader.reset();
            self.read(b"-");
            return Err(Refusal::not_parsed("a quoted cell has no end"));
        };
        if let Some(column) = joined_cell(row, self.delimiter) {
            return Err(Refusal::not_parsed(format!(
                "column {column}: there is more after the closing quote"
            )));
        }
        let text = self.utf_8(count)?;
        with(&Cells { rows: self, text, count })
    }

    /// The text of the cells. Rejected if one of them is not UTF-8, though all of them together may be.
    fn utf_8(&self, count: usize) -> Result<&str, Refusal> {
        let whole = std::str::from_utf8(&self.text);
        let ends = self.ends.get(..count).unwrap_or_default();
        if let Ok(text) = whole
            && ends.iter().all(|end| text.is_char_boundary(*end))
        {
            return Ok(text);
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let cells = std::iter::zip(starts, ends).map(|(start, end)| self.text.get(start..*end));
        let found = std::iter::zip(1.., cells).find_map(|(column, cell)| {
            let error = std::str::from_utf8(cell.unwrap_or_default()).err()?;
            Some((column, error.valid_up_to() + 1))
        });
        let (column, byte) = found.unwrap_or((1, 1));
        Err(Refusal::not_parsed(format!("column {column}: the cell is not UTF-8 from its byte {byte} on")))
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
            // A delimiter at the end of every line makes an empty cell, which says nothing.
            let is_ended = cells.count == columns.len() + 1 && cells.get(columns.len()) == Some("");
            if cells.count > columns.len() && !is_ended {
                let (count, expected) = (cells.count, columns.len());
                return Err(Refusal::not_parsed(format!("the row has {count} cells for {expected} columns")));
            }
            columns.write(out, &|column| cells.get(column))
        })
    }
}

/// The first cell of a row, counted from 1, that has more after its closing quote. The reader joins both parts, `"x"y` to `xy`.
fn joined_cell(row: &[u8], delimiter: u8) -> Option<usize> {
    // Most rows have no quote at all.
    memchr(b'"', row)?;
    let mut rest = row;
    for column in 1.. {
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            rest = after_quote(quoted)?;
            match rest.first()? {
                b'\r' | b'\n' => return None,
                next if *next == delimiter => {}
                _ => return Some(column),
            }
        } else {
            // A quote within a cell that does not begin with one is a character as any other.
            rest = rest.get(memchr(delimiter, rest)?..)?;
        }
        rest = rest.get(1..)?;
    }
    None
}

/// Reads after the quote that closes a cell. Two quotes represent one.
fn after_quote(mut quoted: &[u8]) -> Option<&[u8]> {
    loop {
        let rest = quoted.get(memchr(b'"', quoted)? + 1..)?;
        match rest.strip_prefix(b"\"") {
            Some(more) => quoted = more,
            None => return Some(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(row: &str, expected: Option<usize>) {
        assert_eq!(joined_cell(row.as_bytes(), b','), expected, "{row}");
    }

    #[test]
    fn only_a_cell_with_more_after_its_quote_is_joined() {
        check("1,\"x\"y", Some(2));
        check("\"x\" ,2", Some(1));
        check("\"x\"\"y\" z", Some(1));
        check("1,\"a\",\"b\"\"", None);
        check("1,\"a,\"\"b\",\"\",3", None);
        check("a\"b\"c,d\"e", None);
        check("1,\"x\"", None);
        check("1,\"x\"\r", None);
        check("1,\"x\ny\"\r\n", None);
        check("\"open", None);
        check("", None);
    }
}
