//! `$facet`: several pipelines over the same documents, whose results are arrays of one document.
//!
//! Documents are handed to all parts in batches. A part works on a batch until it asks for the next, and then pauses:
//! so the documents are read once, and no more than a batch of them is held, whatever the parts hold themselves.

use std::sync::{Arc, Mutex, PoisonError};

use bson::raw::CString;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::expression::Variables;
use crate::pipeline::Pipeline;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::options::object;
use crate::pipeline::run::Running;
use crate::pipeline::stage::Position;
use crate::pipeline::stream::{Step, Stream, nothing};
use crate::raw::Fields;
use crate::value::{content_bytes, describe, elements};

pub(super) const NAME: &str = "$facet";
/// How many bytes of documents a batch holds, and how many documents.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_DOCUMENTS: usize = 1_000;

const OPERAND: i32 = 40_169;
const PART: i32 = 40_170;
const STAGE: i32 = 40_171;
const NAME_DOLLAR: i32 = 16_410;
const NAME_DOT: i32 = 16_412;
const NAME_EMPTY: i32 = 15_998;
const NAME_TWICE: i32 = 16_406;

/// The parts by name.
#[derive(Clone, Debug)]
pub(super) struct Facet {
    parts: Vec<(CString, Pipeline)>,
}

/// The argument, if it has parts.
pub(super) fn operand(operand: RawBsonRef<'_>) -> Result<&RawDocument, Fault> {
    let parts = object(NAME, operand, OPERAND)?;
    if parts.is_empty() {
        let found = "an empty one".to_owned();
        return Err(Fault::Operand { stage: NAME, expected: "an object with a field", found, code: OPERAND });
    }
    Ok(parts)
}

/// Reads the parts.
pub(super) fn parse(operand: &RawDocument, variables: &Variables) -> Result<Facet, Fault> {
    let mut parts: Vec<(CString, Pipeline)> = Vec::new();
    for field in Fields::of(operand) {
        let field = field?;
        let name = part_name(field.name())?;
        if parts.iter().any(|(known, _)| *known == name) {
            return Err(unmade(field.name(), "it stands twice", NAME_TWICE));
        }
        let value = field.value()?;
        let wrong = |expected, found, code| Fault::Operand { stage: NAME, expected, found, code };
        let array = value.as_array();
        let array = array.ok_or_else(|| wrong("arrays of stages", describe(value), PART))?;
        let stage = |stage: RawBsonRef<'_>| {
            let stage =
                stage.as_document().ok_or_else(|| wrong("stages that are objects", describe(stage), STAGE));
            stage.map(RawDocument::to_owned)
        };
        let stages = elements(array).map(stage).collect::<Result<Vec<_>, _>>()?;
        let part = Pipeline::parse_in(Position::Facet, &stages, variables);
        let part = part.map_err(|error| inside(field.name(), error))?;
        parts.push((name, part));
    }
    Ok(Facet { parts })
}

fn part_name(name: &str) -> Result<CString, Fault> {
    match name {
        "" => Err(unmade(name, "a name must not be empty", NAME_EMPTY)),
        name if name.starts_with('$') => {
            Err(unmade(name, "a name must not start with a dollar sign", NAME_DOLLAR))
        }
        name if name.contains('.') => Err(unmade(name, "a name must not hold a dot", NAME_DOT)),
        name => CString::try_from(name).map_err(|error| Fault::InvalidBson { reason: error.to_string() }),
    }
}

fn unmade(field: &str, reason: &'static str, code: i32) -> Fault {
    Fault::Field { stage: NAME, field: crate::value::shorten(field), reason, code }
}

fn inside(field: &str, error: Error) -> Fault {
    Fault::Facet { field: field.to_owned(), error: Box::new(error) }
}

pub(super) struct Faceting {
    parts: Vec<Part>,
    inbox: Arc<Mutex<Batch>>,
    gathered: Vec<RawDocumentBuf>,
    gathered_bytes: usize,
    /// How many bytes the results take.
    results_bytes: usize,
    result: Option<RawDocumentBuf>,
}

struct Part {
    name: CString,
    running: Running<'static, Error>,
    results: RawArrayBuf,
}

/// What the parts are to read next.
#[derive(Clone, Default)]
struct Batch {
    number: u64,
    documents: Arc<Vec<RawDocumentBuf>>,
    is_last: bool,
}

/// The input of one part.
struct Reader {
    inbox: Arc<Mutex<Batch>>,
    batch: Batch,
    /// How many documents of the batch were read.
    read: usize,
}

impl Faceting {
    pub(super) fn new(facet: Facet) -> Self {
        let inbox = Arc::new(Mutex::new(Batch::default()));
        let parts = facet.parts.into_iter().map(|(name, pipeline)| {
            let reader = Reader { inbox: Arc::clone(&inbox), batch: Batch::default(), read: 0 };
            Part { name, running: pipeline.run(reader), results: RawArrayBuf::new() }
        });
        let parts = parts.collect();
        Self { parts, inbox, gathered: Vec::new(), gathered_bytes: 0, results_bytes: 0, result: None }
    }

    /// Hands out what was gathered, and lets every part work until it wants more.
    fn hand_out(&mut self, is_last: bool) -> Result<(), Fault> {
        self.gathered_bytes = 0;
        let documents = Arc::new(std::mem::take(&mut self.gathered));
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        *inbox = Batch { number: inbox.number + 1, documents, is_last };
        drop(inbox);
        for part in &mut self.parts {
            let name = part.name.as_str();
            while part.running.advance().map_err(|error| inside(name, error))? == Step::Document {
                let result = RawBsonRef::Document(part.running.current());
                self.results_bytes += content_bytes(result);
                if self.results_bytes > DOCUMENT_BYTES_MAX {
                    return Err(Fault::TooLarge { stage: NAME, limit: DOCUMENT_BYTES_MAX });
                }
                part.results.push(result);
            }
        }
        Ok(())
    }
}

impl Collector for Faceting {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        self.gathered_bytes += document.as_bytes().len();
        self.gathered.push(document.to_owned());
        if self.gathered.len() >= BATCH_DOCUMENTS || self.gathered_bytes >= BATCH_BYTES {
            self.hand_out(false)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.hand_out(true)?;
        let mut result = RawDocumentBuf::new();
        for Part { name, results, .. } in self.parts.drain(..) {
            result.append(&name, results);
        }
        validate(result.as_bytes()).map_err(|error| Fault::of_result(NAME, &error))?;
        self.result = Some(result);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        Ok(self.result.take())
    }
}

impl Stream<Error> for Reader {
    fn advance(&mut self) -> Result<Step, Error> {
        if self.read >= self.batch.documents.len() {
            let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            if inbox.number == self.batch.number {
                return Ok(if inbox.is_last { Step::End } else { Step::Pause });
            }
            self.batch = inbox.clone();
            self.read = 0;
        }
        if self.batch.documents.is_empty() {
            return Ok(if self.batch.is_last { Step::End } else { Step::Pause });
        }
        self.read += 1;
        Ok(Step::Document)
    }

    fn current(&self) -> &RawDocument {
        match self.read.checked_sub(1).and_then(|read| self.batch.documents.get(read)) {
            Some(document) => document,
            None => nothing(),
        }
    }
}
