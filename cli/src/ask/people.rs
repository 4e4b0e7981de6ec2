//! Documents as a table for people: a column for each field, as wide as the terminal allows. The first documents say which
//! columns there are and how wide they are; the others keep to that. Where no table shows all of them, they can be indented.

use cairndb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use formats::dates::date_text;
use unicode_width::UnicodeWidthChar;

use crate::export::form::Form;
use crate::extended_json::{Layout, Mode, lay_out_document, part_of, write_value};
use crate::failure::Failure;
use crate::grid::columns;
use crate::look::{Look, Part};
use crate::plain::plain;

/// The number of documents, and of their bytes, that are read before the first line is printed.
const SAMPLE_DOCUMENTS: usize = 200;
const SAMPLE_BYTES: usize = 1 << 20;
/// No cell is wider, in columns of the terminal.
const CELL_MAX: usize = 40;
const GAP: &str = "  ";
/// Ends a row whose document has more than the columns show.
const MORE: &str = " …";

pub(super) struct People {
    /// The columns of the terminal.
    width: usize,
    columns: Vec<Column>,
    /// The first documents, until the columns are known; `None` once they are.
    sample: Option<Vec<RawDocumentBuf>>,
    sample_bytes: usize,
    /// Whether fields are left out because their columns have no room.
    is_cut: bool,
    look: Look,
    /// The layout of documents if a table would not show all of the first ones. Without it there is always a table.
    otherwise: Option<Layout>,
}

struct Column {
    name: String,
    width: usize,
    /// Numbers end below each other.
    is_number: bool,
    /// Whether all of the first documents fit.
    is_whole: bool,
}

/// The cell of a document's field in a row.
struct Cell {
    text: String,
    part: Part,
}

impl People {
    /// A table, which leaves out what it has no room for.
    pub(super) fn new(width: usize, look: Look) -> Self {
        let sample = Some(Vec::new());
        Self { width, columns: Vec::new(), sample, sample_bytes: 0, is_cut: false, look, otherwise: None }
    }

    /// A table where it shows all of the first documents, and else documents that are laid out so.
    pub(super) fn or_indented(width: usize, layout: Layout) -> Self {
        Self { otherwise: Some(layout), ..Self::new(width, layout.look) }
    }

    /// Determines the columns by the sample and writes it.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        for document in &sample {
            for (name, value) in document.iter().flatten() {
                let width = columns(&cell(value)?.text);
                let (is_number, is_whole) = (is_number(value), width <= CELL_MAX);
                let known = self.columns.iter_mut().find(|column| column.name == name.as_str());
                if let Some(column) = known {
                    column.width = column.width.max(width.min(CELL_MAX));
                    column.is_number &= is_number;
                    column.is_whole &= is_whole;
                } else {
                    let name = name.as_str().to_owned();
                    let of_name = columns(&plain(&name));
                    let is_whole = is_whole && of_name <= CELL_MAX;
                    let width = width.max(of_name).min(CELL_MAX);
                    self.columns.push(Column { name, width, is_number, is_whole });
                }
            }
        }
        let is_flat = !sample.iter().any(|document| has_others(document));
        let is_whole = self.columns.iter().all(|column| column.is_whole);
        self.keep_what_fits();
        if is_flat && is_whole && !self.is_cut {
            self.otherwise = None;
        }
        if !sample.is_empty() && self.otherwise.is_none() {
            let name = |column: &Column| Cell { text: plain(&column.name), part: Part::Name };
            let head: Vec<Cell> = self.columns.iter().map(name).collect();
            self.line(out, &head, self.is_cut);
        }
        sample.iter().try_for_each(|document| self.one(out, document))
    }

    fn one(&self, out: &mut Vec<u8>, document: &RawDocument) -> Result<(), Failure> {
        let Some(layout) = self.otherwise else { return self.row(out, document) };
        lay_out_document(out, document, layout)?;
        out.push(b'\n');
        Ok(())
    }

    /// Leaves out the last columns that the terminal has no room for; the first one stays.
    fn keep_what_fits(&mut self) {
        let mut used = 0;
        let fitting = self.columns.iter().take_while(|column| {
            used += column.width + GAP.len();
            used <= self.width + GAP.len()
        });
        let count = fitting.count().max(1);
        self.is_cut = count < self.columns.len();
        self.columns.truncate(count);
    }

    fn row(&self, out: &mut Vec<u8>, document: &RawDocument) -> Result<(), Failure> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let value = document.iter().flatten().find(|(name, _)| name.as_str() == column.name);
            let nothing = Cell { text: String::new(), part: Part::Nothing };
            cells.push(value.map_or(Ok(nothing), |(_, value)| cell(value))?);
        }
        let has_column = |name: &str| self.columns.iter().any(|column| column.name == name);
        let has_more = document.iter().flatten().any(|(name, _)| !has_column(name.as_str()));
        self.line(out, &cells, has_more || self.is_cut);
        Ok(())
    }

    fn line(&self, out: &mut Vec<u8>, cells: &[Cell], has_more: bool) {
        let mut line = Vec::new();
        for (at, (column, Cell { text, part })) in self.columns.iter().zip(cells).enumerate() {
            if at > 0 {
                line.extend_from_slice(GAP.as_bytes());
            }
            let shown = cut(text, column.width);
            let margin = " ".repeat(column.width.saturating_sub(columns(&shown)));
            let (before, after) =
                if column.is_number { (margin.as_str(), "") } else { ("", margin.as_str()) };
            line.extend_from_slice(before.as_bytes());
            if !shown.is_empty() {
                self.look.begin(*part, &mut line);
                line.extend_from_slice(shown.as_bytes());
                self.look.end(*part, &mut line);
            }
            line.extend_from_slice(after.as_bytes());
        }
        if has_more {
            line.extend_from_slice(MORE.as_bytes());
        }
        out.extend_from_slice(line.trim_ascii_end());
        out.push(b'\n');
    }
}

impl Form for People {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        let Some(sample) = &mut self.sample else { return self.one(out, document).map(|()| None) };
        sample.push(document.to_owned());
        self.sample_bytes += document.as_bytes().len();
        if sample.len() >= SAMPLE_DOCUMENTS || self.sample_bytes >= SAMPLE_BYTES {
            self.settle(out)?;
        }
        Ok(None)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.settle(out)
    }
}

/// A text of at most `width` columns, with a mark where something is left out.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let fitting = text.chars().take_while(|character| {
        used += character.width().unwrap_or_default();
        used < width
    });
    fitting.chain(['…']).collect()
}

fn is_number(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)
    )
}

/// Whether a document has others in it, or arrays, which a cell shows badly.
fn has_others(document: &RawDocument) -> bool {
    document
        .iter()
        .flatten()
        .any(|(_, value)| matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_)))
}

/// A value without what only a program needs: texts, ids, dates and decimals as they are, all else in relaxed Extended JSON.
fn cell(value: RawBsonRef<'_>) -> Result<Cell, Failure> {
    let text = cell_text(value)?;
    Ok(Cell { text, part: part_of(value, Mode::Relaxed).unwrap_or(Part::Typed) })
}

fn cell_text(value: RawBsonRef<'_>) -> Result<String, Failure> {
    if let RawBsonRef::String(text) | RawBsonRef::Symbol(text) = value {
        return Ok(plain(text));
    }
    if let RawBsonRef::ObjectId(id) = value {
        return Ok(id.to_hex());
    }
    if let RawBsonRef::Decimal128(number) = value {
        return Ok(number.to_string());
    }
    if let RawBsonRef::DateTime(date) = value {
        return Ok(date_text(date.timestamp_millis()));
    }
    let mut out = Vec::new();
    write_value(&mut out, value, Mode::Relaxed)?;
    Ok(plain(&String::from_utf8_lossy(&out)))
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{Document, doc};

    use super::*;

    #[track_caller]
    fn check(width: usize, documents: &[Document], expected: &str) {
        let (mut people, mut out) = (People::new(width, Look::default()), Vec::new());
        for document in documents {
            people.write(&mut out, &RawDocumentBuf::try_from(document).unwrap()).unwrap();
        }
        people.end(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn columns_come_from_all_documents() {
        check(80, &[], "");
        check(
            80,
            &[doc! { "_id": 1, "name": "Ada\n" }, doc! { "_id": 20, "tags": ["a"], "name": 5 }],
            "_id  name   tags\n  1  Ada\\n\n 20  5      [\"a\"]\n",
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        check(
            80,
            &[doc! { "名前": "注文🎉", "n": 1 }, doc! { "名前": "ada", "n": 20 }],
            "名前     n\n注文🎉   1\nada     20\n",
        );
        // A character of two columns that would reach beyond the end is left out as a whole.
        check(80, &[doc! { "long": "注".repeat(30) }], &format!("long\n{}…\n", "注".repeat(19)));
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        check(12, &[doc! { "_id": 1, "long": "x".repeat(50), "more": 1 }], "_id …\n  1 …\n");
        let long = "x".repeat(50);
        check(80, &[doc! { "long": &long }], &format!("long\n{}…\n", "x".repeat(39)));
    }
}
