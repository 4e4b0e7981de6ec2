//! `$facet`: several pipelines over the same documents. The results of each become an array in one document.
//!
//! Documents are handed to all pipelines in batches. A pipeline runs until it has read the batch, and then pauses. So the
//! documents are read once, and only one batch of them is held besides what the pipelines hold themselves.
//!
//! The pipelines have the errors of this crate, so that each can be reported with its field. The reads of other collections have
//! the errors of the caller: [`Aside`] keeps them and ends the pipeline, and the stream fails with what was kept.
//!
//! Not here: parsing the stages and running them. The callers give both to the functions of this file.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::raw::CString;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::FieldPath;
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::code::Code;
use crate::expression::Variables;
use crate::operation::OperationContext;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign::{Documents, FieldIndex, Foreign};
use crate::pipeline::options::object;
use crate::pipeline::stream::{StageInput, Step, Stream, nothing};
use crate::raw::Fields;
use crate::value::{content_bytes, describe, elements};

pub(super) const NAME: &str = "$facet";
/// A batch is handed out when it has this many bytes of documents, or
const BATCH_BYTES: usize = 1 << 20;
/// this many documents.
const BATCH_DOCUMENTS: usize = 1_000;

/// Checks that the argument is an object with at least one field.
pub(super) fn operand(operand: RawBsonRef<'_>) -> Result<&RawDocument, Fault> {
    let pipelines = object(NAME, operand, Code::FACET_OPERAND)?;
    if pipelines.is_empty() {
        let found = "an empty one".to_owned();
        return Err(Fault::Operand {
            stage: NAME,
            expected: "an object with a field",
            found,
            code: Code::FACET_OPERAND,
        });
    }
    Ok(pipelines)
}

/// Parses the argument: for each field its name, and what `parse_stages` makes of its stages.
pub(super) fn parse<S>(
    operand: &RawDocument,
    parse_stages: impl Fn(&[RawDocumentBuf]) -> Result<S, Error>,
) -> Result<Vec<(CString, S)>, Fault> {
    let mut pipelines: Vec<(CString, S)> = Vec::new();
    let mut names = HashSet::new();
    for field in Fields::of(operand) {
        let field = field?;
        let name = field_name(field.name())?;
        if !names.insert(name.clone()) {
            return Err(unmade(field.name(), "it is given twice", Code::FIELD_TWICE));
        }
        // Each field is parsed completely before the next, so the first mistake in the text is the one reported.
        let value = field.value()?;
        let wrong = |expected, found, code| Fault::Operand { stage: NAME, expected, found, code };
        let array = value.as_array();
        let array =
            array.ok_or_else(|| wrong("arrays of stages", describe(value), Code::FACET_PIPELINE_TYPE))?;
        let stage = |stage: RawBsonRef<'_>| {
            let stage = stage
                .as_document()
                .ok_or_else(|| wrong("stages that are objects", describe(stage), Code::FACET_STAGE_TYPE));
            stage.map(RawDocument::to_owned)
        };
        let stages = elements(array).map(stage).collect::<Result<Vec<_>, _>>()?;
        let stages = parse_stages(&stages).map_err(|error| inside(field.name(), error))?;
        pipelines.push((name, stages));
    }
    Ok(pipelines)
}

/// Parses the name of a field, which becomes a field of the result.
fn field_name(name: &str) -> Result<CString, Fault> {
    match name {
        "" => Err(unmade(name, "a name must not be empty", Code::FIELD_NAME_EMPTY)),
        name if name.starts_with('$') => {
            Err(unmade(name, "a name must not start with a dollar sign", Code::FIELD_NAME_DOLLAR))
        }
        name if name.contains('.') => Err(unmade(name, "a name must not hold a dot", Code::FIELD_NAME_DOT)),
        name => CString::try_from(name).map_err(|error| Fault::InvalidBson { reason: error.to_string() }),
    }
}

/// The error for a field that the result cannot have.
fn unmade(field: &str, reason: &'static str, code: Code) -> Fault {
    Fault::Field { stage: NAME, field: crate::value::shorten(field), reason, code }
}

/// The error of the pipeline of a field.
fn inside(field: &str, error: Error) -> Fault {
    Fault::Facet { field: field.to_owned(), error: Box::new(error) }
}

/// The pipelines of a `$facet` at work.
pub(super) struct Faceting {
    outputs: Vec<FacetOutput>,
    inbox: Inbox,
    gathered: Vec<RawDocumentBuf>,
    gathered_bytes: usize,
    /// The size of the results of all pipelines together, in bytes.
    results_bytes: usize,
}

/// One pipeline and its results so far.
struct FacetOutput {
    name: CString,
    running: StageInput<'static, Error>,
    results: RawArrayBuf,
}

/// The batch that the pipelines are to read next. All of them share it.
#[derive(Clone, Default)]
pub(super) struct Inbox {
    batch: Arc<Mutex<DocumentBatch>>,
}

#[derive(Clone, Default)]
struct DocumentBatch {
    /// Counted from 1, so that a reader can distinguish a new batch from the one that it has read.
    number: u64,
    documents: Arc<Vec<RawDocumentBuf>>,
    is_last: bool,
}

/// The input of one pipeline.
pub(super) struct InboxReader {
    inbox: Inbox,
    batch: DocumentBatch,
    /// The number of documents of the batch that were read.
    read: usize,
}

impl Inbox {
    /// An input that has read nothing yet.
    pub(super) fn reader(&self) -> InboxReader {
        InboxReader { inbox: self.clone(), batch: DocumentBatch::default(), read: 0 }
    }

    /// Replaces the batch. All pipelines have paused or ended, so none still needs the old one.
    fn put(&self, documents: Vec<RawDocumentBuf>, is_last: bool) {
        let mut batch = self.lock();
        *batch = DocumentBatch { number: batch.number + 1, documents: Arc::new(documents), is_last };
    }

    /// A panic of another thread cannot leave a batch half written, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, DocumentBatch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faceting {
    /// Accepts the pipelines by the names of their fields. Each of them reads from `inbox`.
    pub(super) fn new(
        inbox: Inbox,
        pipelines: impl Iterator<Item = (CString, StageInput<'static, Error>)>,
    ) -> Self {
        let output = |(name, running)| FacetOutput { name, running, results: RawArrayBuf::new() };
        let outputs = pipelines.map(output).collect();
        Self { outputs, inbox, gathered: Vec::new(), gathered_bytes: 0, results_bytes: 0 }
    }

    /// Hands out the gathered documents, and runs every pipeline until it needs more.
    fn hand_out(&mut self, is_last: bool) -> Result<(), Fault> {
        self.gathered_bytes = 0;
        self.inbox.put(std::mem::take(&mut self.gathered), is_last);
        for output in &mut self.outputs {
            let name = output.name.as_str();
            // A pipeline that has read the whole batch pauses, which ends this loop until the next batch.
            while output.running.advance().map_err(|error| inside(name, error))? == Step::Document {
                let result = RawBsonRef::Document(output.running.current());
                // All results become one document, so its limit of size is theirs together.
                self.results_bytes += content_bytes(result);
                if self.results_bytes > DOCUMENT_BYTES_MAX {
                    return Err(Fault::TooLarge { stage: NAME, limit: DOCUMENT_BYTES_MAX });
                }
                output.results.push(result);
            }
        }
        Ok(())
    }

    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        // Copied, because the input overwrites its current document. All pipelines share this copy.
        self.gathered_bytes += document.as_bytes().len();
        self.gathered.push(document.to_owned());
        if self.gathered.len() >= BATCH_DOCUMENTS || self.gathered_bytes >= BATCH_BYTES {
            self.hand_out(false)?;
        }
        Ok(())
    }

    /// The result, after the last document.
    fn finish(&mut self) -> Result<RawDocumentBuf, Fault> {
        // The last batch may be empty. It must be handed out all the same: it lets sorts and groups finish.
        self.hand_out(true)?;
        let mut result = RawDocumentBuf::new();
        for FacetOutput { name, results, .. } in self.outputs.drain(..) {
            result.append(&name, results);
        }
        // The arrays add two levels and their own bytes to documents that are valid by themselves.
        validate(result.as_bytes()).map_err(|error| Fault::of_result(NAME, &error))?;
        Ok(result)
    }
}

/// The stream of a `$facet`: one document.
pub(super) struct Faceted<'i, E> {
    /// Absent after its last document.
    input: Option<StageInput<'i, E>>,
    faceting: Faceting,
    aside: Aside<E>,
    position: usize,
    operation: OperationContext,
    current: RawDocumentBuf,
}

impl<'i, E: From<Error>> Faceted<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        faceting: Faceting,
        aside: Aside<E>,
        position: usize,
        operation: OperationContext,
    ) -> Self {
        Self { input: Some(input), faceting, aside, position, operation, current: RawDocumentBuf::new() }
    }

    /// The error of the pipelines, or the one of another collection that ended them.
    fn failed(&self, fault: Fault) -> E {
        self.aside.take().unwrap_or_else(|| at(self.position)(fault))
    }
}

impl<E: From<Error>> Stream<E> for Faceted<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        loop {
            let Some(input) = &mut self.input else { return Ok(Step::End) };
            match input.advance()? {
                Step::Document => {
                    let document = input.current();
                    // Counted here, as for all stages that read every document in full.
                    let counted = self.operation.pass(document.as_bytes().len());
                    counted.map_err(|reason| at::<E>(self.position)(reason.into()))?;
                    let pushed = self.faceting.push(document);
                    pushed.map_err(|fault| self.failed(fault))?;
                }
                // The documents so far stay with the pipelines.
                Step::Pause => return Ok(Step::Pause),
                Step::End => {
                    // The memory of the input is freed before the pipelines finish.
                    self.input = None;
                    self.current = self.faceting.finish().map_err(|fault| self.failed(fault))?;
                    return Ok(Step::Document);
                }
            }
        }
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn rest(&mut self) {
        if let Some(input) = &mut self.input {
            input.rest();
        }
    }
}

/// The place in which the error of another collection waits for the stream of the `$facet`.
pub(super) struct Aside<E> {
    error: Arc<Mutex<Option<E>>>,
}

impl<E> Aside<E> {
    /// Keeps an error. Returns the one that ends the pipeline in its place.
    fn keep(&self, error: E) -> Error {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Error::Stage { position: 0, fault: Fault::ForeignUnreadable }
    }

    fn take(&self) -> Option<E> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<E> Default for Aside<E> {
    // Not derived, because that would require `E: Default`.
    fn default() -> Self {
        Self { error: Arc::default() }
    }
}

impl<E> Clone for Aside<E> {
    fn clone(&self) -> Self {
        Self { error: Arc::clone(&self.error) }
    }
}

/// The other collections for the pipelines of a `$facet`.
pub(super) struct ForeignAside<E> {
    pub(super) foreign: Arc<dyn Foreign<E> + Send + Sync>,
    pub(super) aside: Aside<E>,
}

/// Documents of another collection, read for a pipeline of a `$facet`.
struct DocumentsAside<E> {
    documents: Documents<E>,
    aside: Aside<E>,
}

/// An index of another collection, read for a pipeline of a `$facet`.
struct IndexAside<E> {
    index: Box<dyn FieldIndex<E> + Send + Sync>,
    aside: Aside<E>,
}

impl<E: Send + 'static> ForeignAside<E> {
    fn documents(&self, documents: Documents<E>) -> Documents<Error> {
        Box::new(DocumentsAside { documents, aside: self.aside.clone() })
    }
}

impl<E: Send + 'static> Foreign<Error> for ForeignAside<E> {
    fn find(
        &self,
        collection: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>, Error> {
        let found = self.foreign.find(collection, filter, variables);
        Ok(found.map_err(|error| self.aside.keep(error))?.map(|documents| self.documents(documents)))
    }

    fn scan(&self, collection: &str, variables: &Variables) -> Result<Documents<Error>, Error> {
        let scanned = self.foreign.scan(collection, variables);
        scanned.map(|documents| self.documents(documents)).map_err(|error| self.aside.keep(error))
    }

    fn field_index(
        &self,
        collection: &str,
        field: &FieldPath,
        variables: &Variables,
    ) -> Result<Option<Box<dyn FieldIndex<Error> + Send + Sync>>, Error> {
        let index = self.foreign.field_index(collection, field, variables);
        let index = index.map_err(|error| self.aside.keep(error))?;
        Ok(index.map(|index| {
            Box::new(IndexAside { index, aside: self.aside.clone() })
                as Box<dyn FieldIndex<Error> + Send + Sync>
        }))
    }
}

impl<E> FieldIndex<Error> for IndexAside<E> {
    fn find(&mut self, value: RawBsonRef<'_>) -> Result<bool, Error> {
        self.index.find(value).map_err(|error| self.aside.keep(error))
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.index.advance().map_err(|error| self.aside.keep(error))
    }

    fn current(&self) -> &RawDocument {
        self.index.current()
    }

    fn rest(&mut self) {
        self.index.rest();
    }
}

impl<E> Stream<Error> for DocumentsAside<E> {
    fn advance(&mut self) -> Result<Step, Error> {
        self.documents.advance().map_err(|error| self.aside.keep(error))
    }

    fn current(&self) -> &RawDocument {
        self.documents.current()
    }

    fn rest(&mut self) {
        self.documents.rest();
    }
}

impl Stream<Error> for InboxReader {
    fn advance(&mut self) -> Result<Step, Error> {
        // The lock is acquired once for a batch and not for each document.
        if self.read >= self.batch.documents.len() {
            let batch = self.inbox.lock();
            if batch.number == self.batch.number {
                return Ok(if batch.is_last { Step::End } else { Step::Pause });
            }
            // Cheap: the documents are shared. The lock is not held while they are read.
            self.batch = batch.clone();
            self.read = 0;
        }
        // Only the last batch can be empty.
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
