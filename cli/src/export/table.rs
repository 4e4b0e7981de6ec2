//! CSV and TSV: a row for each document, by RFC 4180, with a header of dotted paths.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use cairndb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use formats::dates::date_text;

use crate::export::form::Form;
use crate::extended_json::{Mode, double_text, write_value};
use crate::failure::{Exit, Failure};

/// The number of documents, or bytes, that `--fields auto` reads.
const SAMPLE_DOCUMENTS: usize = 1_000;
const SAMPLE_BYTES: usize = 16 << 20;
/// More columns than this are rejected: no reader accepts them, and their names would use up the memory.
const COLUMNS_MAX: usize = 10_000;
/// Deeper documents are not looked into for columns: they are cells of Extended JSON.
const DEPTH_MAX: usize = 100;

/// The word for columns that documents decide.
pub(crate) const AUTO: &str = "auto";
/// With what a spreadsheet begins what it runs.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

pub(crate) struct Table {
    delimiter: u8,
    is_for_spreadsheets: bool,
    columns: Columns,
    /// The first documents, until the columns are known; `None` once they are.
    sample: Option<Vec<RawDocumentBuf>>,
    sample_bytes: usize,
    /// The columns of `auto`, for finding paths that turn up later. `None` for columns that were named.
    found: Option<HashSet<String>>,
    /// The cells of a row, one after the other, and where each is.
    text: Vec<u8>,
    cells: Vec<Range<usize>>,
    /// The number of the row's cells that have a value, each of another path of the document. `None` if one is an
    /// element of an array.
    filled: Option<usize>,
}

/// Paths, and which of them begin with which name: a document is gone through once for all of them.
#[derive(Default)]
struct Columns {
    paths: Vec<String>,
    by_name: HashMap<String, Vec<usize>>,
}

impl Columns {
    fn of(paths: Vec<String>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, path) in paths.iter().enumerate() {
            let name = path.split('.').next().unwrap_or_default();
            by_name.entry(name.to_owned()).or_default().push(at);
        }
        Self { paths, by_name }
    }
}

impl Table {
    pub(crate) fn new(delimiter: u8, fields: &str, is_for_spreadsheets: bool) -> Result<Self, Failure> {
        let is_auto = fields == AUTO;
        let columns: Vec<String> =
            if is_auto { Vec::new() } else { fields.split(',').map(|path| path.trim().to_owned()).collect() };
        if columns.iter().any(|path| path.split('.').any(str::is_empty)) {
            return Err(Failure::usage(format!("--fields has an empty name: {fields}")));
        }
        Ok(Self {
            delimiter,
            is_for_spreadsheets,
            columns: Columns::of(columns),
            sample: is_auto.then(Vec::new),
            sample_bytes: 0,
            found: None,
            text: Vec::new(),
            cells: Vec::new(),
            filled: None,
        })
    }

    fn header(&mut self, out: &mut Vec<u8>) {
        let paths = std::mem::take(&mut self.columns.paths);
        self.begin_row(paths.len());
        for (at, path) in paths.iter().enumerate() {
            let start = self.text.len();
            self.push_text(path);
            self.set_cell(at, start);
        }
        self.columns.paths = paths;
        self.end_row(out);
    }

    fn begin_row(&mut self, count: usize) {
        self.text.clear();
        self.cells.clear();
        self.cells.resize(count, 0..0);
    }

    fn set_cell(&mut self, at: usize, start: usize) {
        if let Some(cell) = self.cells.get_mut(at) {
            *cell = start..self.text.len();
        }
    }

    /// Appends the row, by RFC 4180.
    fn end_row(&self, out: &mut Vec<u8>) {
        for (at, range) in self.cells.iter().enumerate() {
            if at > 0 {
                out.push(self.delimiter);
            }
            let cell = self.text.get(range.clone()).unwrap_or_default();
            // A row of one empty cell would be a blank line, which is none.
            let is_blank_line = cell.is_empty() && self.cells.len() == 1;
            let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\r' | b'\n') && *byte != self.delimiter;
            if cell.iter().all(is_plain) && !is_blank_line {
                out.extend_from_slice(cell);
            } else {
                push_quoted(out, cell);
            }
        }
        out.push(b'\n');
    }

    fn row(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        let columns = std::mem::take(&mut self.columns);
        self.begin_row(columns.paths.len());
        let filled = self.fill(&columns, document);
        self.columns = columns;
        self.filled = filled?;
        self.end_row(out);
        // As many values as cells: nothing is lost, and no path need be looked up.
        let is_whole = self.filled.is_some() && self.filled == plain_leaves(document, 0);
        Ok(if is_whole { None } else { self.lost(document) })
    }

    /// Makes the cells of a document. Returns how many have a value, and `None` if one is an element of an array.
    fn fill(&mut self, columns: &Columns, document: &RawDocument) -> Result<Option<usize>, Failure> {
        let (mut count, mut is_of_array) = (0, false);
        for (name, value) in document.iter().flatten() {
            let Some(meant) = columns.by_name.get(name.as_str()) else { continue };
            for &at in meant {
                // A name that stands twice counts once, as in every other look at a document.
                let is_new = self.cells.get(at).is_some_and(|cell| cell.end == 0);
                let path = columns.paths.get(at).map_or("", String::as_str);
                let below = path.get(name.as_str().len() + 1..);
                let value = below.map_or(Some(value), |below| value_below(value, below, &mut is_of_array));
                let Some(value) = value.filter(|_| is_new) else { continue };
                let start = self.text.len();
                self.cell(value)?;
                self.set_cell(at, start);
                count += 1;
            }
        }
        Ok((!is_of_array).then_some(count))
    }

    fn push_text(&mut self, text: &str) {
        if self.is_for_spreadsheets && text.starts_with(FORMULA_STARTS) {
            self.text.push(b'\'');
        }
        self.text.extend_from_slice(text.as_bytes());
    }

    fn cell(&mut self, value: RawBsonRef<'_>) -> Result<(), Failure> {
        let out = &mut self.text;
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => self.push_text(text),
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

    /// The part of a document that no column has.
    fn lost(&self, document: &RawDocument) -> Option<String> {
        first_lost(document, &|path, is_dotted| {
            let is_told = |column: &str| {
                path == column || path.strip_prefix(column).is_some_and(|rest| rest.starts_with('.'))
            };
            match &self.found {
                Some(found) => is_dotted || !prefixes(path).any(|prefix| found.contains(prefix)),
                // Of named columns the user knows what is left out, but not that a dot hides a value.
                None => is_dotted && self.columns.paths.iter().any(|column| is_told(column)),
            }
        })
    }

    /// Determines the columns by the sample and writes it.
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
        self.columns = Columns::of(columns);
        if !self.columns.paths.is_empty() {
            self.header(out);
        }
        for document in &sample {
            // Its losses were reported when it came.
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

/// The part of a document that is lost: the first path for which `is_lost` says so, and the reason.
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

/// Calls `visit` with the path of every value that is not a document, or an empty one, and whether a name on the
/// path has a dot in it.
fn leaves(document: &RawDocument, above: &str, depth: usize, visit: &mut dyn FnMut(&str, bool)) {
    for (name, value) in document.iter().flatten() {
        let name = name.as_str();
        let path = if depth == 0 { Cow::Borrowed(name) } else { Cow::Owned(format!("{above}.{name}")) };
        let is_column = |inner: &&RawDocument| inner.is_empty() || depth >= DEPTH_MAX || name.contains('.');
        match value.as_document().filter(|inner| !is_column(inner)) {
            Some(inner) => leaves(inner, &path, depth + 1, visit),
            None => visit(&path, name.contains('.') || name.is_empty()),
        }
    }
}

/// The number of a document's values that are not documents, or empty ones. `None` if a name on the way to one has a
/// dot or is empty.
fn plain_leaves(document: &RawDocument, depth: usize) -> Option<usize> {
    let mut count = 0;
    for (name, value) in document.iter().flatten() {
        if name.as_str().is_empty() || name.as_str().contains('.') {
            return None;
        }
        let inner = value.as_document().filter(|inner| !inner.is_empty() && depth < DEPTH_MAX);
        count += inner.map_or(Some(1), |inner| plain_leaves(inner, depth + 1))?;
    }
    Some(count)
}

/// The path and every path above it.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').filter_map(|(at, _)| path.get(..at)).chain([path])
}

/// The value at a dotted path below another, through documents by name and through arrays by position.
fn value_below<'a>(value: RawBsonRef<'a>, path: &str, is_of_array: &mut bool) -> Option<RawBsonRef<'a>> {
    let mut value = value;
    for name in path.split('.') {
        value = if let Some(array) = value.as_array() {
            *is_of_array = true;
            array.get(name.parse().ok()?).ok()??
        } else {
            value.as_document()?.get(name).ok()??
        };
    }
    Some(value)
}

fn push_quoted(out: &mut Vec<u8>, cell: &[u8]) {
    out.push(b'"');
    for &byte in cell {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
