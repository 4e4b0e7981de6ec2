//! Loading: documents are stored in batches, and the same batches are written to RocksDB without CairnDB.
//!
//! Batches are unordered, so that after a refused document the others are still stored.

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use cairndb::bson::RawDocumentBuf;
use cairndb::{Collection, ErrorKind};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::outcome::Outcome;
use crate::raw::Raw;
use crate::source::{Item, Source};

/// A batch is stored when it has this many documents or bytes.
const BATCH_DOCUMENTS: usize = 1000;
const BATCH_BYTES: u64 = 8 << 20;

/// The number of documents that were stored and refused, and the time needed.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The number of stored documents.
    pub(crate) stored: u64,
    /// The number of documents that the database refused.
    pub(crate) refused: u64,
    /// The number of lines that are not documents.
    pub(crate) malformed: u64,
    /// The first line that is not stored, and why.
    pub(crate) first_problem: Option<String>,
    /// The size of the stored documents in bytes of BSON, without a generated `_id`.
    pub(crate) bytes: u64,
    /// Time spent in `insert_many`.
    pub(crate) inserting: Duration,
}

/// Stores every document of the source.
pub(crate) fn load(
    collection: &Collection<RawDocumentBuf>,
    raw: &mut Raw,
    source: Source,
) -> Outcome<Loaded> {
    let bar = progress(source.len);
    let mut loading = Loading { collection, raw, batch: Batch::default(), bar, loaded: Loaded::default() };
    for item in source.items {
        match item.map_err(|error| format!("cannot read the input: {error}"))? {
            Item::Document { line, document } => loading.push(line, document)?,
            Item::Malformed { line, excerpt, reason } => {
                loading.loaded.malformed += 1;
                loading.note(line, &format!("{reason}: {excerpt}"));
            }
        }
    }
    loading.store()?;
    loading.bar.finish_and_clear();
    Ok(loading.loaded)
}

#[derive(Default)]
struct Batch {
    documents: Vec<RawDocumentBuf>,
    lines: Vec<u64>,
    bytes: u64,
}

struct Loading<'a> {
    collection: &'a Collection<RawDocumentBuf>,
    raw: &'a mut Raw,
    batch: Batch,
    bar: ProgressBar,
    loaded: Loaded,
}

impl Loading<'_> {
    fn push(&mut self, line: u64, document: RawDocumentBuf) -> Outcome<()> {
        self.batch.bytes += document.as_bytes().len() as u64;
        self.batch.documents.push(document);
        self.batch.lines.push(line);
        if self.batch.documents.len() >= BATCH_DOCUMENTS || self.batch.bytes >= BATCH_BYTES {
            self.store()?;
        }
        Ok(())
    }

    fn store(&mut self) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.documents.is_empty() {
            return Ok(());
        }
        self.raw.write(&batch.documents)?;
        let start = Instant::now();
        let inserted = self.collection.insert_many(&batch.documents).ordered(false).run();
        self.loaded.inserting += start.elapsed();
        self.loaded.bytes += batch.bytes;
        self.bar.inc(batch.documents.len() as u64);
        self.loaded.stored += batch.documents.len() as u64;
        let Err(error) = inserted else {
            return Ok(());
        };
        let ErrorKind::InsertMany(partly) = error.kind() else { return Err(error.into()) };
        for refused in partly.write_errors.iter().flatten() {
            self.loaded.stored -= 1;
            self.loaded.refused += 1;
            let document = batch.documents.get(refused.index);
            self.loaded.bytes -= document.map_or(0, |document| document.as_bytes().len() as u64);
            let line = batch.lines.get(refused.index).copied().unwrap_or_default();
            self.note(line, &refused.message);
        }
        Ok(())
    }

    /// Notes a line that is not stored. It has been counted already.
    fn note(&mut self, line: u64, reason: &str) {
        self.loaded.first_problem.get_or_insert_with(|| format!("line {line}: {reason}"));
    }
}

/// A progress bar. It is hidden unless standard error is a terminal.
fn progress(len: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match len {
        Some(len) => (ProgressBar::new(len), "{bar:40} {human_pos} of {human_len} documents, {rate}"),
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos} documents, {rate}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => {
            bar.with_style(style.with_key("rate", |state: &ProgressState, line: &mut dyn fmt::Write| {
                // A key that cannot be written is left out.
                let _ = write!(line, "{:.0} a second", state.per_sec());
            }))
        }
        Err(_) => bar,
    }
}
