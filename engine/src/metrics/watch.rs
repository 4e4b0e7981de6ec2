//! Measuring one operation, from the call to its end.

use std::sync::Arc;

use bson::Document;

use base::error::{Error, ErrorKind, Result};
use base::metrics::notes::{self, PlanNote};
use base::namespace::Namespace;

use crate::metrics::recorder::{Ended, Recorder};
use crate::metrics::shape::Requested;
use crate::metrics::spans::OpenSpan;
use crate::metrics::verb::Verb;
use crate::one_line::OneLine;

/// The target of the log's lines on slow operations.
const SLOW: &str = "cairndb::slow";

/// Measures a call of a verb.
#[must_use = "the operation is counted by end()"]
pub(crate) struct Watch<'a> {
    recorder: &'a Arc<Recorder>,
    namespace: &'a Arc<Namespace>,
    verb: Verb,
    start: u64,
    span: Option<OpenSpan>,
}

impl<'a> Watch<'a> {
    /// Begins to measure.
    #[inline]
    pub(crate) fn start(recorder: &'a Arc<Recorder>, namespace: &'a Arc<Namespace>, verb: Verb) -> Self {
        let start = recorder.begin();
        let span = recorder.spans().and_then(|spans| spans.begin(namespace, verb));
        Self { recorder, namespace, verb, start, span }
    }

    /// Counts the call, whose result is returned. `requested` is called if it was slow.
    #[inline]
    pub(crate) fn end<'b, R>(
        self,
        result: Result<R>,
        requested: impl FnOnce() -> Requested<'b>,
    ) -> Result<R> {
        self.count(&result, requested);
        result
    }

    /// Counts the call that had this result.
    #[inline]
    pub(crate) fn count<'b, R>(self, result: &Result<R>, requested: impl FnOnce() -> Requested<'b>) {
        self.note(result.as_ref().err(), result.is_err(), requested);
    }

    /// Counts a call whose result may have a list of rejections, which is a failure as well.
    #[inline]
    pub(crate) fn end_with_refusals<R>(
        self,
        result: Result<R>,
        is_refused: impl FnOnce(&R) -> bool,
    ) -> Result<R> {
        let has_failed = result.as_ref().map_or(true, is_refused);
        self.note(result.as_ref().err(), has_failed, Requested::default);
        result
    }

    #[inline]
    fn note<'b>(self, error: Option<&Error>, has_failed: bool, requested: impl FnOnce() -> Requested<'b>) {
        let Self { recorder, namespace, verb, start, span } = self;
        // In a forked child meters may be locked by a thread that does not exist there.
        let is_forked = error.is_some_and(|error| matches!(error.kind(), ErrorKind::Forked));
        if recorder.is_on() && !is_forked {
            let nanoseconds = recorder.since(start);
            let tally = notes::take_tally();
            // Inserts look for duplicates in the filters of files, and seldom in a block.
            let blocks = if verb == Verb::InsertOne { (0, 0) } else { recorder.take_blocks() };
            let ended = Ended { verb, has_failed, nanoseconds, tally, blocks };
            recorder.count(&ended);
            let is_slow = recorder.is_slow(nanoseconds);
            // The request is read only now: its shape costs more than most calls.
            if is_slow || span.is_some() {
                let requested = requested();
                if is_slow {
                    log(namespace, &ended, &notes::take_plans(), &requested);
                }
                if let Some(span) = span {
                    span.end(error, has_failed, &requested);
                }
            }
            // They are kept only for the log, so most operations leave them here.
            notes::forget_plans();
        }
    }

    /// The call has opened a cursor, which is measured from now on. Returns `None` if nothing is measured.
    pub(crate) fn into_cursor(self, request: CursorRequest) -> Option<Box<CursorWatch>> {
        let Self { recorder, namespace, verb, start, span } = self;
        // The work of the program between calls of the cursor is not time of the store.
        if let Some(span) = span {
            span.end(None, false, &request.borrowed());
        }
        if !recorder.is_on() {
            return None;
        }
        recorder.cursor_opened();
        // The work of opening is noted now: other operations of this thread come before the cursor's end.
        let ended = Ended {
            verb,
            has_failed: false,
            nanoseconds: recorder.since(start),
            tally: notes::take_tally(),
            blocks: recorder.take_blocks(),
        };
        let plans = notes::take_plans();
        // Not the client: a cursor may outlive it.
        let (recorder, namespace) = (Arc::clone(recorder), Arc::clone(namespace));
        Some(Box::new(CursorWatch { recorder, namespace, ended, measured: 0, plans, request }))
    }
}

/// Measures a cursor: the call that opened it, and its own calls. It is counted when it is dropped, after the cursor's source.
///
/// The first call is timed, because sorts and groups do their work in it. To read the clock in each of the others would slow down
/// those who read many documents. So of them only the time between the looks of the operation at its limits is known, which
/// those that work for long have.
pub(crate) struct CursorWatch {
    recorder: Arc<Recorder>,
    namespace: Arc<Namespace>,
    ended: Ended,
    /// The time between looks that is counted already, in nanoseconds.
    measured: u64,
    plans: Vec<PlanNote>,
    request: CursorRequest,
}

/// The documents that a cursor has returned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returned {
    documents: u64,
    bytes: u64,
}

impl Returned {
    /// Adds a document of `bytes` bytes.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.documents += 1;
        self.bytes += bytes as u64;
    }

    /// Takes one back that is returned again later.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.documents = self.documents.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

/// The request of a cursor.
#[derive(Debug, Default)]
pub(crate) struct CursorRequest {
    pub(crate) filter: Option<Document>,
    pub(crate) sort: Option<Document>,
    pub(crate) pipeline: Option<Vec<Document>>,
}

impl CursorRequest {
    fn borrowed(&self) -> Requested<'_> {
        let Self { filter, sort, pipeline } = self;
        Requested { filter: filter.as_ref(), sort: sort.as_ref(), pipeline: pipeline.as_deref() }
    }
}

impl CursorWatch {
    /// Begins the first call. Returns the time.
    pub(crate) fn begin(&self) -> u64 {
        // Perhaps by another thread than the one that opened the cursor.
        self.recorder.begin()
    }

    /// The first call is over. `measured` is the time between looks of the operation, in nanoseconds.
    pub(crate) fn started(&mut self, begin: u64, measured: u64) {
        self.ended.nanoseconds += self.recorder.since(begin);
        // The looks of the first call are in its own time already.
        self.measured = measured;
    }

    pub(crate) fn failed(&mut self) {
        self.ended.has_failed = true;
    }

    /// Counts the cursor, which has `returned` documents. What it read is dropped by now, and `measured` is the time between looks of its operation, in
    /// nanoseconds.
    pub(crate) fn end(mut self: Box<Self>, returned: Returned, measured: u64) {
        let Self { recorder, namespace, ended, measured: counted, plans, request } = &mut *self;
        recorder.cursor_ended();
        // As a lookup's, so that one place adds them up.
        notes::returned(returned.documents, returned.bytes);
        // The first call was timed as a whole, its looks included.
        ended.nanoseconds += measured.saturating_sub(*counted);
        ended.tally += notes::take_tally();
        let (hits, misses) = recorder.take_blocks();
        ended.blocks = (ended.blocks.0 + hits, ended.blocks.1 + misses);
        recorder.count(ended);
        if recorder.is_slow(ended.nanoseconds) {
            plans.append(&mut notes::take_plans());
            log(namespace, ended, plans, &request.borrowed());
        }
        notes::forget_plans();
    }
}

/// Logs a slow operation.
#[cold]
fn log(namespace: &Namespace, ended: &Ended, plans: &[PlanNote], requested: &Requested<'_>) {
    let Ended { verb, has_failed, nanoseconds, tally, blocks: _ } = ended;
    // Branches of a union may read the same index.
    let mut summaries: Vec<_> = plans.iter().map(PlanNote::summary).collect();
    summaries.dedup();
    tracing::warn!(
        target: SLOW,
        verb = verb.name(),
        namespace = %OneLine(namespace),
        millis = nanoseconds / 1_000_000,
        failed = has_failed,
        plan = summaries.join(", "),
        keys_examined = tally.keys_examined,
        documents_examined = tally.documents_examined,
        documents_returned = tally.documents_returned,
        shape = requested.shape(),
        "slow operation"
    );
}
