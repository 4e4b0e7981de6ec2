//! CSV and TSV: a row for each document, by RFC 4180, with a header of dotted paths.

use std::collections::{BTreeSet, HashSet};

use cairndb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use formats::dates::date_text;

use crate::export::form::Form;
use crate::extended_json::{Mode, double_text, write_value};
use crate::failure::{Exit, Failure};

/// What `--fields auto` looks at: this many documents, or bytes.
const SAMPLE_DOCUMENTS: usize = 1_000;
const SAMPLE_BYTES: usize = 16 << 20;
/// More columns than this are refused: no reader takes them, and their names would take the memory.
const COLUMNS_MAX: usize = 10_000;
/// Deeper documents are not looked into for columns: they are cells of Extended JSON.
const DEPTH_MAX: usize = 100;

pub(crate) struct Table {
    delimiter: u8,
    is_for_spreadsheets: bool,
    columns: Vec<String>,
    /// The first documents, until the columns are known; `None` once they are.
    sample: Option<Vec<RawDocumentBuf>>,
    sample_bytes: usize,
    /// The columns of `auto`, for finding paths that turn up later. `None` for columns that were named.
    found: Option<HashSet<String>>,
}

impl Table {
    pub(crate) fn new(delimiter: u8, fields: &str, is_for_spreadsheets: bool) -> Result<Self, Failure> {
        let is_auto = fields == "auto";
        let columns: Vec<String> =
            if is_auto { Vec::new() } else { fields.split(',').map(|path| path.trim().to_owned()).collect() };
        if columns.iter().any(|path| path.split('.').any(str::is_empty)) {
            return Err(Failure::usage(format!("--fields has an empty name: {fields}")));
        }
        let sample = is_auto.then(Vec::new);
        Ok(Self { delimiter, is_for_spreadsheets, columns, sample, sample_bytes: 0, found: None })
    }

    fn header(&self, out: &mut Vec<u8>) {
        self.record(out, self.columns.iter().map(String::as_bytes));
    }

    fn record<'a>(&self, out: &mut Vec<u8>, cells: impl Iterator<Item = &'a [u8]>) {
        let mut writer =
            csv::WriterBuilder::new().delimiter(self.delimiter).buffer_capacity(1 << 10).from_writer(out);
        // A vector takes every byte, and a row has as many cells as the header.
        let _ = writer.write_record(cells);
        let _ = writer.flush();
    }

    fn row(&self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        let mut cells: Vec<Vec<u8>> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let mut cell = Vec::new();
            if let Some(value) = value_at(document, column) {
                self.cell(&mut cell, value)?;
            }
            cells.push(cell);
        }
        self.record(out, cells.iter().map(Vec::as_slice));
        Ok(self.lost(document))
    }

    fn cell(&self, out: &mut Vec<u8>, value: RawBsonRef<'_>) -> Result<(), Failure> {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => {
                if self.is_for_spreadsheets && text.starts_with(['=', '+', '-', '@']) {
                    out.push(b'\'');
                }
                out.extend_from_slice(text.as_bytes());
            }
            RawBsonRef::Null => {}
            RawBsonRef::ObjectId(id) => out.extend_from_slice(id.to_hex().as_bytes()),
            RawBsonRef::Decimal128(number) => out.extend_from_slice(number.to_string().as_bytes()),
            RawBsonRef::Double(number) => out.extend_from_slice(double_text(number).as_bytes()),
            RawBsonRef::DateTime(date) => {
                out.extend_from_slice(date_text(date.timestamp_millis()).as_bytes());
            }
            RawBsonRef::Document(_)
            | RawBsonRef::Array(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::JavaScriptCode(_)
            | RawBsonRef::JavaScriptCodeWithScope(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Timestamp(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::Undefined
            | RawBsonRef::DbPointer(_)
            | RawBsonRef::MinKey
            | RawBsonRef::MaxKey => write_value(out, value, Mode::Relaxed)?,
        }
        Ok(())
    }

    /// What of a document no column has.
    fn lost(&self, document: &RawDocument) -> Option<String> {
        first_lost(document, &|path, is_dotted| {
            let is_told = |column: &str| {
                path == column || path.strip_prefix(column).is_some_and(|rest| rest.starts_with('.'))
            };
            match &self.found {
                Some(found) => is_dotted || !prefixes(path).any(|prefix| found.contains(prefix)),
                // Of named columns the user knows what is left out, but not that a dot hides a value.
                None => is_dotted && self.columns.iter().any(|column| is_told(column)),
            }
        })
    }

    /// Takes the columns from the sample and writes it.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        let mut seen = BTreeSet::new();
        let mut columns = Vec::new();
        for document in &sample {
            leaves(document, "", 0, &mut |path, is_dotted| {
                if !is_dotted && columns.len() <= COLUMNS_MAX && seen.insert(path.to_owned()) {
                    columns.push(path.to_owned());
                }
            });
        }
        if columns.len() > COLUMNS_MAX {
            return Err(Failure::new(
                Exit::Failed,
                format!("there are more than {COLUMNS_MAX} columns: name them by --fields"),
            ));
        }
        // A path below another column is in that column's cell.
        columns.retain(|path| !prefixes(path).any(|prefix| prefix != path && seen.contains(prefix)));
        self.found = Some(columns.iter().cloned().collect());
        self.columns = columns;
        if !self.columns.is_empty() {
            self.header(out);
        }
        for document in &sample {
            // What is lost of it was told when it came.
            self.row(out, document)?;
        }
        Ok(())
    }
}

impl Form for Table {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.sample.is_none() {
            self.header(out);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        let Some(sample) = &mut self.sample else { return self.row(out, document) };
        sample.push(document.to_owned());
        self.sample_bytes += document.as_bytes().len();
        if sample.len() < SAMPLE_DOCUMENTS && self.sample_bytes < SAMPLE_BYTES {
            // Only a name with a dot can be lost within the sample, and that is known at once.
            return Ok(first_lost(document, &|_, is_dotted| is_dotted));
        }
        self.settle(out)?;
        Ok(self.lost(document))
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.settle(out)
    }
}

/// What of a document is lost: the first path for which `is_lost` says so, and why.
fn first_lost(document: &RawDocument, is_lost: &dyn Fn(&str, bool) -> bool) -> Option<String> {
    let mut reason = None;
    leaves(document, "", 0, &mut |path, is_dotted| {
        if reason.is_none() && is_lost(path, is_dotted) {
            let what = if is_dotted { "a name has a dot in it" } else { "no column has it" };
            reason = Some(format!("{path:?}: {what}"));
        }
    });
    reason
}

/// Calls `visit` with the path of every value that is no document, or an empty one, and whether a name on the
/// path has a dot in it.
fn leaves(document: &RawDocument, above: &str, depth: usize, visit: &mut dyn FnMut(&str, bool)) {
    for (name, value) in document.iter().flatten() {
        let name = name.as_str();
        let path = if depth == 0 { name.to_owned() } else { format!("{above}.{name}") };
        let is_column = |inner: &&RawDocument| inner.is_empty() || depth >= DEPTH_MAX || name.contains('.');
        match value.as_document().filter(|inner| !is_column(inner)) {
            Some(inner) => leaves(inner, &path, depth + 1, visit),
            None => visit(&path, name.contains('.') || name.is_empty()),
        }
    }
}

/// The path and every path above it.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').filter_map(|(at, _)| path.get(..at)).chain([path])
}

/// The value at a dotted path, through documents by name and through arrays by position.
fn value_at<'a>(document: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    let mut names = path.split('.');
    let mut value = document.get(names.next()?).ok()??;
    for name in names {
        value = if let Some(array) = value.as_array() {
            array.get(name.parse().ok()?).ok()??
        } else {
            value.as_document()?.get(name).ok()??
        };
    }
    Some(value)
}
