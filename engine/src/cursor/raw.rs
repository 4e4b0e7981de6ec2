//! The cursor without the type of its documents: all that reads, ends and measures is here, compiled once.

use std::task::Waker;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use base::error::{Error, Result};
use bson::{RawDocument, RawDocumentBuf};
use query::operation::{OperationContext, Reservation};
use store::fork::{is_child, refuse_child};

use crate::cursor::follower::{Follower, WaitingFollower};
use crate::document::decode::EMPTY;
use crate::execute::listed::FoundDocuments;
use crate::execute::piped::Piped;
use crate::execute::rest::Rest;
use crate::execute::rows::Rows;
use crate::metrics::watch::{CursorRequest, CursorWatch, Returned, Watch};
use crate::streams::RawStream;
use crate::tail::{Tail, sleep_until, thread_waker};

/// A walk over the documents of a result, whose bytes it lends.
pub(crate) struct RawCursor {
    /// `None` at the end.
    source: Option<Source>,
    /// The limits of the walk. Its time counts only during calls.
    operation: OperationContext,
    /// Whether `advance` has moved to a document.
    has_current: bool,
    next: Next,
    returned: Returned,
    /// Measures the cursor, and is ended before the operation is.
    watch: Option<Box<CursorWatch>>,
}

/// How long a call waits for a document.
#[derive(Clone, Copy)]
enum WaitLimit {
    Nothing,
    Until(Instant),
    Endless,
}

/// The next work of `advance`.
enum Next {
    /// It reads a document and is timed, because sorts and groups do their work in the first call.
    First,
    /// It reads a document.
    Read,
    /// It returns the same document again, which the source has kept.
    Repeat,
    /// It says why the source is gone.
    Refuse(Error),
}

#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost every find an allocation, and nearly all cursors are of rows"
)]
enum Source {
    Rows(Rows),
    Piped(Piped),
    /// Boxed, so that other cursors do not get its size.
    Follower(Box<Follower>),
    /// Documents that are all in memory, such as a list of indexes.
    List {
        rest: IntoIter<RawDocumentBuf>,
        current: RawDocumentBuf,
        _room: Reservation,
    },
}

impl RawCursor {
    pub(crate) fn new(rows: Rows) -> Self {
        Self::of(rows.operation().clone(), Source::Rows(rows))
    }

    pub(crate) fn piped(piped: Piped) -> Self {
        Self::of(piped.operation().clone(), Source::Piped(piped))
    }

    pub(crate) fn tailing(tail: Tail) -> Self {
        Self::following(Follower::Tail(tail))
    }

    /// A cursor of the events of a change stream.
    pub(crate) fn of_changes(stream: RawStream) -> Self {
        Self::following(Follower::Changes(stream, Vec::new()))
    }

    fn following(follower: Follower) -> Self {
        Self::of(follower.operation().clone(), Source::Follower(Box::new(follower)))
    }

    pub(crate) fn of_list(documents: Vec<RawDocumentBuf>) -> Self {
        let mut found = FoundDocuments::none(&OperationContext::default());
        found.documents = documents;
        Self::of_found(found)
    }

    /// A cursor of documents that were read when it was opened.
    pub(crate) fn of_found(found: FoundDocuments) -> Self {
        let FoundDocuments { documents, operation, room, .. } = found;
        let list = Source::List { rest: documents.into_iter(), current: RawDocumentBuf::new(), _room: room };
        Self::of(operation, list)
    }

    pub(crate) fn empty() -> Self {
        Self::with(OperationContext::default(), None)
    }

    fn of(operation: OperationContext, source: Source) -> Self {
        // The time limit counts only during calls of the cursor.
        operation.pause();
        Self::with(operation, Some(source))
    }

    fn with(operation: OperationContext, source: Option<Source>) -> Self {
        let (has_current, next, returned) = (false, Next::First, Returned::default());
        Self { source, operation, has_current, next, returned, watch: None }
    }

    /// Measures the cursor, which the call of `watch` has opened.
    pub(crate) fn watched(mut self, watch: Watch<'_>, request: CursorRequest) -> Self {
        self.watch = watch.into_cursor(request);
        self
    }

    /// Ends the measurement. What the cursor reads from must be dropped before.
    fn end_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            if is_child() {
                // Its meters may be locked by a thread that does not exist in a forked child.
                std::mem::forget(watch);
                return;
            }
            watch.end(self.returned, self.between_looks());
        }
    }

    fn between_looks(&self) -> u64 {
        u64::try_from(self.operation.time_between_looks().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Moves to the next document. Returns `false` at the end. After an error the cursor is at its end. A tailable cursor waits
    /// for the next document.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        // A forked child must not touch the iterators of its parent's store.
        refuse_child()?;
        let begin = match self.next {
            Next::Read => None,
            Next::First => self.begin(),
            Next::Repeat | Next::Refuse(_) => return self.advance_without_reading(),
        };
        // After the end and after an error, each call says that there is nothing more.
        let Some(source) = &mut self.source else { return self.end(Ok(false)) };
        self.operation.resume();
        let stepped = source.step(&self.operation);
        self.operation.pause();
        let is_tail = matches!(source, Source::Follower(_));
        if let Some(begin) = begin {
            self.started(begin);
        }
        if is_tail && matches!(stepped, Ok(None)) {
            return self.wait_until(WaitLimit::Endless);
        }
        self.arrive(stepped)
    }

    /// Moves to the next document, and waits at most `time` for it.
    pub(crate) fn advance_within(&mut self, time: Duration) -> Result<bool> {
        refuse_child()?;
        if !matches!((&self.source, &self.next), (Some(Source::Follower(_)), Next::First | Next::Read)) {
            return self.advance();
        }
        // Measured like `advance`: the first call alone.
        let begin = if matches!(self.next, Next::First) { self.begin() } else { None };
        let limit = match time {
            Duration::ZERO => WaitLimit::Nothing,
            // A time that no clock can determine is one without end.
            time => Instant::now().checked_add(time).map_or(WaitLimit::Endless, WaitLimit::Until),
        };
        let moved = self.wait_until(limit);
        if let Some(begin) = begin {
            self.started(begin);
        }
        moved
    }

    /// Moves from document to document without waiting, and lends each to `take`, until that returns `false` or there is none now.
    /// Returns `false` in the second case; in the first the document that was lent last is the current one.
    pub(crate) fn advance_while(&mut self, take: &mut dyn FnMut(&RawDocument) -> bool) -> Result<bool> {
        // Only reads are a run: the first is measured, and others repeat what is kept, or refuse.
        if !matches!(self.next, Next::Read) {
            let has_moved = self.advance_within(Duration::ZERO)?;
            if !has_moved || !take(self.current()) {
                return Ok(has_moved);
            }
        }
        refuse_child()?;
        let Some(source) = &mut self.source else { return self.end(Ok(false)) };
        self.operation.resume();
        source.begin_run();
        let stepped = loop {
            let stepped = source.step(&self.operation);
            let Ok(Some(bytes)) = stepped else { break stepped };
            self.returned.add(bytes);
            if !take(RawDocument::from_bytes(source.bytes()).expect("a step checked the bytes")) {
                break stepped;
            }
        };
        source.end_run();
        self.operation.pause();
        self.has_current = matches!(stepped, Ok(Some(_)));
        match stepped {
            Ok(None) if self.is_tailing() => Ok(false),
            Ok(Some(_)) => Ok(true),
            ended => self.end(ended.map(|_| false)),
        }
    }

    /// Whether the cursor goes on after the last document that there is now.
    pub(crate) fn is_tailing(&self) -> bool {
        matches!(&self.source, Some(Source::Follower(followed)) if !followed.is_exhausted())
    }

    /// The token of a change stream, after which a later one goes on.
    pub(crate) fn resume_token(&self) -> Option<RawDocumentBuf> {
        match &self.source {
            Some(Source::Follower(followed)) => followed.resume_token(),
            Some(Source::Rows(_) | Source::Piped(_) | Source::List { .. }) | None => None,
        }
    }

    /// Whether the last step of a change stream has looked at a part only of what is there: another one goes on.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(&self.source, Some(Source::Follower(followed)) if followed.is_behind())
    }

    /// Wakes by `waker` when a tailable cursor may have another document, or fails, until what is returned is dropped.
    pub(crate) fn wake_when_more(&self, waker: &Waker) -> WaitingCursor {
        match &self.source {
            Some(Source::Follower(followed)) => WaitingCursor { _waiting: Some(followed.wait(waker)) },
            Some(Source::Rows(_) | Source::Piped(_) | Source::List { .. }) | None => {
                WaitingCursor { _waiting: None }
            }
        }
    }

    /// Moves a tailable cursor to its next document, for which it waits as long as `limit` says.
    fn wait_until(&mut self, limit: WaitLimit) -> Result<bool> {
        let mut waiting: Option<(WaitingCursor, Waker)> = None;
        loop {
            // Before the look: what comes after it wakes. A waker is called once.
            if let Some((woken, waker)) = waiting.take() {
                drop(woken);
                waiting = Some((self.wake_when_more(&waker), waker));
            }
            let Some(Source::Follower(followed)) = &mut self.source else { return self.end(Ok(false)) };
            self.operation.resume();
            let stepped = followed.advance();
            self.operation.pause();
            match stepped {
                Ok(false) if !followed.is_exhausted() => {}
                stepped => {
                    let stepped = stepped.map(|found| found.then(|| followed.bytes().len()));
                    return self.arrive(stepped);
                }
            }
            // The round gave its snapshot back, and with it the document.
            self.has_current = false;
            let moment = match limit {
                WaitLimit::Nothing => return Ok(false),
                WaitLimit::Until(moment) if Instant::now() >= moment => return Ok(false),
                WaitLimit::Until(moment) => Some(moment),
                WaitLimit::Endless => None,
            };
            if self.is_behind() {
                continue;
            }
            // The first time it looks again: what came before the waker was there has woken nothing.
            if waiting.is_some() {
                sleep_until(moment);
            } else {
                let waker = thread_waker();
                waiting = Some((self.wake_when_more(&waker), waker));
            }
        }
    }

    /// Ends a call that moved to a document, or found that there are no more.
    #[inline]
    fn arrive(&mut self, stepped: Result<Option<usize>>) -> Result<bool> {
        match stepped {
            Ok(Some(bytes)) => {
                self.has_current = true;
                self.returned.add(bytes);
                Ok(true)
            }
            ended => self.end(ended.map(|_| false)),
        }
    }

    /// Begins the first call. Returns the time, if the cursor is measured.
    #[cold]
    fn begin(&mut self) -> Option<u64> {
        self.next = Next::Read;
        // Later calls are not timed: reading the clock costs a tenth of reading a document.
        self.watch.as_ref().map(|watch| watch.begin())
    }

    /// The first call is over.
    #[cold]
    fn started(&mut self, begin: u64) {
        let measured = self.between_looks();
        if let Some(watch) = &mut self.watch {
            watch.started(begin, measured);
        }
    }

    #[cold]
    fn advance_without_reading(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.next, Next::Read) {
            Next::Refuse(error) => Err(error),
            Next::Repeat | Next::First | Next::Read => {
                // The source has kept the document, which was counted when it was read.
                self.has_current = self.source.is_some();
                Ok(self.has_current)
            }
        }
    }

    /// Ends the cursor, which has no more documents or has failed.
    #[cold]
    fn end(&mut self, ended: Result<bool>) -> Result<bool> {
        self.has_current = false;
        // Frees the snapshot now, even if the cursor is kept. And a caller that ignores an error must not mistake what follows for
        // the whole result.
        self.source = None;
        if let (Err(_), Some(watch)) = (&ended, &mut self.watch) {
            watch.failed();
        }
        self.end_watch();
        ended
    }

    /// Whether the cursor is known to be at its end, without reading.
    pub(crate) fn is_exhausted(&self) -> bool {
        match &self.source {
            None => !matches!(self.next, Next::Refuse(_)),
            Some(Source::Rows(rows)) => rows.is_exhausted(),
            // A stage may still filter out all documents that are left.
            Some(Source::Piped(_)) => false,
            Some(Source::Follower(followed)) => followed.is_exhausted(),
            Some(Source::List { rest, .. }) => rest.len() == 0 && !matches!(self.next, Next::Repeat),
        }
    }

    /// Whether [`current`](Self::current) returns a document of the result.
    #[inline]
    pub(super) fn has_current(&self) -> bool {
        self.has_current
    }

    /// The current document, borrowed from the cursor. It is empty before the first [`advance`](Self::advance) and after the end.
    #[inline]
    pub(crate) fn current(&self) -> &RawDocument {
        let current = self.source.as_ref().filter(|_| self.has_current).map(Source::bytes);
        RawDocument::from_bytes(current.unwrap_or(EMPTY)).expect("advance() checked the bytes")
    }

    /// Frees memory until [`advance`](Self::advance) is called again. No document is current then.
    pub(crate) fn rest(&mut self) {
        self.has_current = false;
        self.release(Rest::Release);
    }

    /// Steps back before the current document, and rests: the next [`advance`](Self::advance) returns it again.
    pub(crate) fn step_back(&mut self) {
        let bytes = self.current().as_bytes().len();
        let current = if std::mem::take(&mut self.has_current) { Rest::Repeat } else { Rest::Release };
        // These are read again, and counted then; the others are kept.
        if current == Rest::Repeat && matches!(self.source, Some(Source::Rows(_) | Source::Follower(_))) {
            self.returned.take_back(bytes);
        }
        self.release(current);
    }

    fn release(&mut self, current: Rest) {
        let kept = match &mut self.source {
            Some(Source::Rows(rows)) => {
                rows.rest(current);
                return;
            }
            Some(Source::Follower(followed)) => {
                followed.rest(current);
                return;
            }
            Some(Source::Piped(piped)) => piped.rest(),
            Some(Source::List { current: document, .. }) => {
                // What is left has little memory, which is counted.
                if current == Rest::Release {
                    *document = RawDocumentBuf::new();
                }
                Ok(())
            }
            None => Ok(()),
        };
        if current == Rest::Repeat {
            self.next = Next::Repeat;
        }
        if let Err(refused) = kept {
            (self.source, self.next) = (None, Next::Refuse(refused));
        }
    }

    /// The time that a cursor waits for a document if its reader does not wait without end.
    pub(super) fn await_time(&self) -> Duration {
        match &self.source {
            Some(Source::Follower(followed)) => followed.await_time(),
            Some(Source::Rows(_) | Source::Piped(_) | Source::List { .. }) | None => Duration::ZERO,
        }
    }
}

impl Source {
    /// Steps to the next document. Returns how many bytes it has.
    #[inline]
    fn step(&mut self, operation: &OperationContext) -> Result<Option<usize>> {
        match self {
            // With the length, so that the caller does not ask the source a second time.
            Self::Rows(rows) => Ok(rows.advance()?.then(|| rows.bytes().len())),
            Self::Piped(piped) => Ok(piped.advance()?.then(|| piped.bytes().len())),
            Self::Follower(followed) => Ok(followed.advance()?.then(|| followed.bytes().len())),
            Self::List { rest, current, .. } => {
                // Its documents are here, and it ends with its operation all the same.
                operation.look()?;
                Ok(rest.next().map(|next| {
                    *current = next;
                    current.as_bytes().len()
                }))
            }
        }
    }

    /// Begins a run of steps without a pause between them.
    fn begin_run(&mut self) {
        if let Self::Follower(followed) = self {
            followed.begin_run();
        }
    }

    fn end_run(&mut self) {
        if let Self::Follower(followed) = self {
            followed.end_run();
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Piped(piped) => piped.bytes(),
            Self::Follower(followed) => followed.bytes(),
            Self::List { current, .. } => current.as_bytes(),
        }
    }
}

impl Drop for RawCursor {
    fn drop(&mut self) {
        // In this order: what is dropped notes what it has read.
        self.source = None;
        self.end_watch();
    }
}

impl std::fmt::Debug for RawCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("open", &self.source.is_some()).finish_non_exhaustive()
    }
}

/// Keeps the waker of [`Cursor::wake_when_more`](crate::Cursor::wake_when_more) until it is dropped.
#[must_use = "nothing is woken after it was dropped"]
pub struct WaitingCursor {
    _waiting: Option<WaitingFollower>,
}

impl std::fmt::Debug for WaitingCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingCursor").finish_non_exhaustive()
    }
}
