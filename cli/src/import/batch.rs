//! Records that wait to be committed together, in the order of the file: those with a document, and between them those
//! that were rejected already.

use std::rc::Rc;

use cairndb::bson::{RawDocument, RawDocumentBuf};
use formats::refusal::{Fault, Refusal};
use formats::split::Record;
use query::code::Code;

use crate::import::feed::Parsed;
use crate::import::write::Target;

/// Fewer than may be sent, because a batch is in memory several times while it is written.
const BYTES_MAX: usize = 4 << 20;

/// A record with what is to be done for it.
pub(super) struct Line {
    parsed: Rc<Parsed>,
    at: usize,
    statement: Result<Option<RawDocumentBuf>, Refusal>,
}

impl Line {
    pub(super) fn new(parsed: &Rc<Parsed>, at: usize, target: &Target) -> Self {
        let statement = parsed.document(at).and_then(|document| {
            target.statement(document).map_err(|reason| Refusal { fault: Fault::WrongType, reason })
        });
        Self { parsed: Rc::clone(parsed), at, statement }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.parsed.record(self.at)
    }

    pub(super) fn text(&self) -> &[u8] {
        self.parsed.text(self.at)
    }

    /// The reason why there is nothing to do, if the record is wrong.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        self.statement.as_ref().err()
    }

    /// The statement that is sent for the record.
    pub(super) fn statement(&self) -> Option<&RawDocument> {
        match &self.statement {
            Ok(Some(statement)) => Some(statement),
            Ok(None) => self.parsed.document(self.at).ok(),
            Err(_) => None,
        }
    }

    /// The document of the record.
    pub(super) fn document(&self) -> Option<&RawDocument> {
        self.parsed.document(self.at).ok()
    }

    fn bytes(&self) -> usize {
        let statement = self.statement().map_or(0, |statement| statement.as_bytes().len());
        statement.max(self.text().len())
    }
}

/// MongoDB's code for a record that was rejected before it was sent.
pub(super) fn code_of(fault: Fault) -> i32 {
    match fault {
        Fault::NotParsed => Code::FAILED_TO_PARSE,
        Fault::WrongType => Code::TYPE_MISMATCH,
        Fault::OverLimit => Code::BSON_OBJECT_TOO_LARGE,
    }
    .number()
}

/// Records that are committed together.
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    /// The number of them that were rejected already.
    pub(super) refused: u64,
    documents: usize,
    documents_max: usize,
    bytes: usize,
}

impl Batch {
    pub(super) fn new(documents_max: usize) -> Self {
        Self { lines: Vec::new(), refused: 0, documents: 0, documents_max, bytes: 0 }
    }

    /// Whether the line has to wait for the next batch.
    pub(super) fn is_full_for(&self, line: &Line) -> bool {
        let is_over = self.bytes + line.bytes() > BYTES_MAX || self.lines.len() >= 10 * self.documents_max;
        self.documents >= self.documents_max || !self.lines.is_empty() && is_over
    }

    pub(super) fn push(&mut self, line: Line) {
        self.bytes += line.bytes();
        if line.refusal().is_some() {
            self.refused += 1;
        } else {
            self.documents += 1;
        }
        self.lines.push(line);
    }

    /// The lines, which leave the batch empty.
    pub(super) fn take(&mut self) -> Vec<Line> {
        let full = std::mem::replace(self, Self::new(self.documents_max));
        full.lines
    }
}
