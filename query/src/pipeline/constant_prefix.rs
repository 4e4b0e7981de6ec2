//! The results of the first stages of a `$lookup`'s pipeline, where no document changes them: read once, and given again for
//! each document after the first.
//!
//! They are read as far as a document asks for them, and the next one goes on from there, so nothing is read earlier than it
//! would be without this. If they use more memory than a stage may have, they are given up: the document that reads them
//! then reads on, and later ones have the stages run again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawDocument, RawDocumentBuf};

use crate::operation::{OperationContext, Reservation};
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::memory::STAGE_BYTES_MAX;
use crate::pipeline::stream::{StageInput, Step, Stream, nothing};

/// The results of the first stages. Only one of its readers is advanced at a time.
pub(super) struct ConstantPrefix<'i, E> {
    shared: Arc<Mutex<Shared<'i, E>>>,
    operation: OperationContext,
    /// The position of the `$lookup`.
    position: usize,
}

struct Shared<'i, E> {
    /// The results that were read, unless they were given up.
    kept: Vec<Arc<RawDocumentBuf>>,
    bytes: usize,
    bytes_max: usize,
    room: Reservation,
    is_given_up: bool,
    /// The source of the results that were not read. Absent after its end.
    rest: Option<StageInput<'i, E>>,
}

/// Reads the results from the first one on.
struct Reader<'i, E> {
    shared: Arc<Mutex<Shared<'i, E>>>,
    /// The number of read results.
    count: usize,
    current: Option<Arc<RawDocumentBuf>>,
    operation: OperationContext,
    position: usize,
}

impl<'i, E: From<Error> + 'i> ConstantPrefix<'i, E> {
    /// The results that `stages` gives, which were not read yet.
    pub(super) fn new(stages: StageInput<'i, E>, operation: &OperationContext, position: usize) -> Self {
        let shared = Shared {
            kept: Vec::new(),
            bytes: 0,
            bytes_max: operation.stage_bytes_max(STAGE_BYTES_MAX),
            room: Reservation::of(operation),
            is_given_up: false,
            rest: Some(stages),
        };
        Self { shared: Arc::new(Mutex::new(shared)), operation: operation.clone(), position }
    }

    /// All results, for one document. Returns `None` if they were given up, and the stages have to be run.
    pub(super) fn read(&self) -> Option<StageInput<'i, E>> {
        if lock(&self.shared).is_given_up {
            return None;
        }
        let (shared, operation) = (Arc::clone(&self.shared), self.operation.clone());
        Some(Box::new(Reader { shared, count: 0, current: None, operation, position: self.position }))
    }

    /// Releases what the storage holds until more results are read.
    pub(super) fn rest(&self) {
        if let Some(rest) = &mut lock(&self.shared).rest {
            rest.rest();
        }
    }
}

impl<E> Shared<'_, E> {
    /// Keeps a result, or gives all up if memory does not suffice.
    fn keep(&mut self, document: &Arc<RawDocumentBuf>) {
        if self.is_given_up {
            return;
        }
        let frame = size_of::<RawDocumentBuf>() + 6 * size_of::<usize>();
        // The list doubles, and each result has its counts besides its bytes.
        self.bytes = self.bytes.saturating_add(document.as_bytes().len() + frame);
        // No error: without these results the join is slower, and no more than that.
        if self.bytes <= self.bytes_max && self.room.try_grow_by_steps(self.bytes) {
            self.kept.push(Arc::clone(document));
        } else {
            self.is_given_up = true;
            self.kept = Vec::new();
            self.room.clear();
        }
    }
}

impl<E: From<Error>> Stream<E> for Reader<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        // A handle of its own, so that the lock does not borrow the reader.
        let shared = Arc::clone(&self.shared);
        let mut shared = lock(&shared);
        let kept = shared.kept.get(self.count).cloned();
        let document = if let Some(kept) = kept {
            // Rows are counted where they are read, and these are read nowhere.
            let passed = self.operation.pass(kept.as_bytes().len());
            passed.map_err(Fault::from).map_err(at::<E>(self.position))?;
            kept
        } else {
            // A reader that was here when the results were given up has read those that were kept.
            let Some(rest) = &mut shared.rest else { return Ok(Step::End) };
            match rest.advance()? {
                Step::Document => {}
                Step::Pause => return Ok(Step::Pause),
                Step::End => {
                    // It lets go of what it holds.
                    shared.rest = None;
                    return Ok(Step::End);
                }
            }
            let document = Arc::new(rest.current().to_owned());
            shared.keep(&document);
            document
        };
        self.count += 1;
        self.current = Some(document);
        Ok(Step::Document)
    }

    fn current(&self) -> &RawDocument {
        self.current.as_ref().map_or(nothing(), |document| document)
    }

    fn rest(&mut self) {
        if let Some(rest) = &mut lock(&self.shared).rest {
            rest.rest();
        }
    }
}

fn lock<'s, 'i, E>(shared: &'s Mutex<Shared<'i, E>>) -> MutexGuard<'s, Shared<'i, E>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
