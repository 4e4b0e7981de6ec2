//! Documents as a table for people: a column for each field, as wide as the terminal allows. The first documents say which
//! columns there are and how wide they are; the others keep to that.

use cairndb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use formats::dates::date_text;
use unicode_width::UnicodeWidthChar;

use crate::export::form::Form;
use crate::extended_json::{Mode, write_value};
use crate::failure::Failure;
use crate::grid::columns;
use crate::plain::plain;

/// How many documents, and bytes of them, are looked at before the first line is printed.
const SAMPLE_DOCUMENTS: usize = 200;
const SAMPLE_BYTES: usize = 1 << 20;
/// No cell is wider, in columns of the terminal.
const CELL_MAX: usize = 40;
const GAP: &str = "  ";

pub(super) struct People {
    /// The columns of the terminal.
    width: usize,
    columns: Vec<Column>,
    /// The first documents, until the columns are known; `None` once they are.
    sample: Option<Vec<RawDocumentBuf>>,
    sample_bytes: usize,
    /// Whether fields are left out because their columns have no room.
    is_cut: bool,
}

struct Column {
    name: String,
    width: usize,
    /// Numbers end below each other.
    is_number: bool,
}

impl People {
    pub(super) fn new(width: usize) -> Self {
        Self { width, columns: Vec::new(), sample: Some(Vec::new()), sample_bytes: 0, is_cut: false }
    }

    /// Takes the columns from the sample and writes it.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        for document in &sample {
            for (name, value) in document.iter().flatten() {
                let text = cell(value)?;
                let is_number = is_number(value);
                let width = columns(&text).min(CELL_MAX);
                let known = self.columns.iter_mut().find(|column| column.name == name.as_str());
                if let Some(column) = known {
                    column.width = column.width.max(width);
                    column.is_number &= is_number;
                } else {
                    let name = name.as_str().to_owned();
                    let width = width.max(columns(&plain(&name)).min(CELL_MAX));
                    self.columns.push(Column { name, width, is_number });
                }
            }
        }
        self.keep_what_fits();
        if !sample.is_empty() {
            let head: Vec<String> = self.columns.iter().map(|column| plain(&column.name)).collect();
            self.line(out, &head);
        }
        sample.iter().try_for_each(|document| self.row(out, document))
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
            cells.push(value.map_or(Ok(String::new()), |(_, value)| cell(value))?);
        }
        self.line(out, &cells);
        Ok(())
    }

    fn line(&self, out: &mut Vec<u8>, cells: &[String]) {
        let mut line = String::new();
        for (at, (column, text)) in self.columns.iter().zip(cells).enumerate() {
            if at > 0 {
                line.push_str(GAP);
            }
            let shown = cut(text, column.width);
            let margin = " ".repeat(column.width.saturating_sub(columns(&shown)));
            let (before, after) =
                if column.is_number { (margin.as_str(), "") } else { ("", margin.as_str()) };
            line.push_str(before);
            line.push_str(&shown);
            line.push_str(after);
        }
        if self.is_cut {
            line.push_str(" …");
        }
        out.extend_from_slice(line.trim_end().as_bytes());
        out.push(b'\n');
    }
}

impl Form for People {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        let Some(sample) = &mut self.sample else { return self.row(out, document).map(|()| None) };
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

/// A value without what only a program needs: texts, ids, dates and decimals as they are, all else in relaxed Extended JSON.
fn cell(value: RawBsonRef<'_>) -> Result<String, Failure> {
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
        let (mut people, mut out) = (People::new(width), Vec::new());
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
