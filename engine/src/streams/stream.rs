//! A stream without the type of its documents: it reads the log round by round.
//!
//! A round is read on its snapshot, which is given back at its end. What a round has is on stable storage, so no event that was shown
//! is missing later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use base::codes::refused;
use base::error::{Error, NON_RESUMABLE_CHANGE_STREAM_ERROR, Result};
use base::sync::AtomicBool;
use bson::{RawBsonRef, RawDocumentBuf};
use index::validate::DOCUMENT_BYTES_MAX;
use query::code::Code;
use query::operation::{OperationContext, WakeOnCancel};
use store::fork::refuse_child;
use store::keys::{event_key, split_event_key};
use store::scan::{CacheUse, Scan};
use store::{Database, Family};

use crate::changes::event::Event;
use crate::changes::log::LogId;
use crate::changes::rounds::{OpenStream, Round, Rounds, WaitingStream};
use crate::changes::scopes::Scope;
use crate::execute::rest::Rest;
use crate::shared::Engine;
use crate::streams::shape::{self, Placed, Shown, Source};
use crate::streams::stages::Stages;
use crate::streams::token::{Place, ResumeToken, TokenKind, lost};
use crate::tail::{sleep_until, thread_waker};

/// How many events that it does not show a stream passes before its reader may do something else.
const PASSED_MAX: u32 = 10_000;

/// The request for a stream.
pub(super) struct Asked {
    pub(super) scope: Scope,
    pub(super) shown: Shown,
    pub(super) stages: Option<Stages>,
    pub(super) operation: OperationContext,
    /// It begins after this.
    pub(super) place: Place,
    pub(super) id: LogId,
    pub(super) _open: OpenStream,
}

/// A stream of the documents of events.
pub(crate) struct RawStream {
    /// Not what handles share: that would keep the client open.
    engine: Arc<Engine>,
    /// Its place is that of the last event that was read, whether it was shown or not.
    asked: Asked,
    reading: Option<Reading>,
    /// Its place before the event that it returned last.
    before: Place,
    /// Whether the event of its place may be one that ends it.
    is_resumed: bool,
    is_behind: bool,
    /// The event, with its position, after which the stream is at its end.
    last: Option<(u64, Vec<u8>)>,
    is_ended: bool,
    is_stopped: Arc<AtomicBool>,
}

/// A round that is being read.
struct Reading {
    round: Arc<Round>,
    scan: Scan,
}

/// Keeps the waker of a stream until it is dropped.
pub(crate) struct Waiting {
    _rounds: WaitingStream,
    _tokens: Vec<WakeOnCancel>,
}

impl RawStream {
    pub(super) fn open(engine: Arc<Engine>, database: &Arc<Database>, asked: Asked) -> Result<Self> {
        let mut stream = Self {
            engine,
            before: asked.place,
            is_resumed: false,
            is_behind: false,
            asked,
            reading: None,
            last: None,
            is_ended: false,
            is_stopped: Arc::default(),
        };
        stream.end_if_resumed_at_end(database)?;
        Ok(stream)
    }

    /// A stream that is resumed after the event that ended it is at its end.
    fn end_if_resumed_at_end(&mut self, database: &Database) -> Result<()> {
        let Place { position, ordinal, kind } = self.asked.place;
        if kind != TokenKind::Event {
            return Ok(());
        }
        let key = event_key(position, ordinal);
        if let Some(value) = database.get(Family::Changes, &key)? {
            let event = Event::decode(&key, &value)?;
            if self.asked.scope.shows(&event) && self.asked.scope.is_ended_by(event.kind) {
                self.last = Some((position, value.to_vec()));
            }
        }
        Ok(())
    }

    /// The next event, if there is one now. After an error the stream is at its end.
    pub(crate) fn advance(&mut self) -> Result<Option<RawDocumentBuf>> {
        // A forked child must not touch the iterators of its parent's store.
        refuse_child()?;
        if self.is_ended {
            return Ok(None);
        }
        let before = self.asked.place;
        self.is_behind = false;
        let read = self.read();
        match read {
            Ok(Some(_)) => self.before = before,
            Ok(None) => {}
            Err(_) => {
                self.is_ended = true;
                self.reading = None;
            }
        }
        read
    }

    /// Whether the last look for an event has ended before all were looked at.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Gives back the snapshot of its round, and if the current event is to be repeated goes back before that.
    pub(crate) fn rest(&mut self, current: Rest) {
        self.reading = None;
        self.is_resumed |= self.last.take().is_some();
        if current == Rest::Repeat {
            self.asked.place = self.before;
            (self.is_ended, self.is_resumed) = (false, true);
        }
    }

    pub(crate) fn operation(&self) -> &OperationContext {
        &self.asked.operation
    }

    /// The next event. Waits for it until `moment`, or without end.
    pub(super) fn advance_until(&mut self, moment: Option<Instant>) -> Result<Option<RawDocumentBuf>> {
        let mut waiting: Option<Waiting> = None;
        loop {
            if let Some(event) = self.advance()? {
                return Ok(Some(event));
            }
            let is_over = moment.is_some_and(|moment| Instant::now() >= moment);
            if is_over || !self.is_alive() || self.is_stopped.load(Ordering::Acquire) {
                return Ok(None);
            }
            if self.is_behind {
                continue;
            }
            // The first time it looks again: what came before the waker was there has woken nothing.
            if waiting.is_some() {
                sleep_until(moment);
            }
            // Before the look: what comes after it wakes. A waker is called once.
            drop(waiting.take());
            waiting = Some(self.wait(&thread_waker()));
        }
    }

    pub(crate) fn wait(&self, waker: &Waker) -> Waiting {
        let tokens = self.asked.operation.wake_when_cancelled(waker);
        Waiting { _rounds: self.rounds().wait(waker.clone()), _tokens: tokens }
    }

    pub(super) fn rounds(&self) -> &Arc<Rounds> {
        &self.engine.catalog.log.rounds
    }

    /// The flag that ends the waiting of the stream.
    pub(super) fn is_stopped(&self) -> &Arc<AtomicBool> {
        &self.is_stopped
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.is_ended
    }

    /// The token after which a later stream goes on.
    pub(crate) fn token(&self) -> ResumeToken {
        self.asked.place.token(self.asked.id)
    }

    fn read(&mut self) -> Result<Option<RawDocumentBuf>> {
        if std::mem::take(&mut self.is_resumed) {
            let engine = Arc::clone(&self.engine);
            let database = engine.store.enter()?;
            self.end_if_resumed_at_end(&database)?;
        }
        if let Some((position, value)) = self.last.take() {
            return self.end(position, &value).map(Some);
        }
        let mut passed = 0;
        loop {
            self.asked.operation.step()?;
            if self.reading.is_none() && !self.begin_round()? {
                return Ok(None);
            }
            let Some(reading) = &mut self.reading else { return Ok(None) };
            if !reading.scan.advance()? {
                self.asked.place = Place::watermark(reading.round.watermark);
                // Gives the snapshot back.
                self.reading = None;
                continue;
            }
            if let Some(event) = self.show()? {
                return Ok(Some(event));
            }
            passed += 1;
            if passed == PASSED_MAX {
                self.is_behind = true;
                return Ok(None);
            }
        }
    }

    /// Opens a walk over the events of a new round. Returns `false` if there is none.
    fn begin_round(&mut self) -> Result<bool> {
        // A walk looks only while it reads, and there may be nothing to read for hours.
        self.asked.operation.look()?;
        let log = &self.engine.catalog.log;
        // Left before the caller waits: closing waits for all that are inside.
        let database = self.engine.store.enter()?;
        let Place { position, ordinal, kind } = self.asked.place;
        let from = match kind {
            TokenKind::Watermark => position.saturating_add(1),
            TokenKind::Event | TokenKind::Invalidate => position,
        };
        let Some(round) = log.rounds.newest(self.engine.storage(&database), from) else { return Ok(false) };
        let start = match ordinal.checked_add(1) {
            Some(next) => event_key(position, next),
            None => event_key(position.saturating_add(1), 0),
        };
        let end = event_key(round.watermark.saturating_add(1), 0);
        let bounds = (start.to_vec(), Some(end.to_vec()));
        let scan =
            Scan::open(&round.snapshot, Family::Changes, bounds, CacheUse::Fill, &self.asked.operation);
        // After the snapshot: what it has lost was noted before.
        if (position, ordinal) < log.low() {
            return Err(lost("changes that it had not read are forgotten"));
        }
        self.reading = Some(Reading { round, scan });
        Ok(true)
    }

    /// The document that the stream shows for the event that was reached. `None` if it shows none.
    fn show(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(Reading { round, scan }) = &self.reading else { return Ok(None) };
        let (position, ordinal) = split_event_key(scan.key()).ok_or_else(|| {
            let reason = "the key of an event is not a position and an ordinal";
            Error::corruption(Family::Changes.name(), scan.key(), reason)
        })?;
        self.asked.place = Place::event(position, ordinal);
        let event = Event::decode(scan.key(), scan.value())?;
        if !self.asked.scope.shows(&event) {
            return Ok(None);
        }
        if self.asked.scope.is_ended_by(event.kind) {
            self.last = Some((position, scan.value().to_vec()));
        }
        let token = self.asked.place.token(self.asked.id);
        let placed = Placed { event, token: &token, position };
        let source = Source { catalog: &self.engine.catalog, snapshot: &round.snapshot };
        let document = shape::document(placed, &self.asked.shown, source)?;
        let shown = self.through_stages(document, &token)?;
        // The end is shown whatever the stages make of the event before it.
        match (shown, self.last.take()) {
            (None, Some((position, value))) => self.end(position, &value).map(Some),
            (shown, last) => {
                self.last = last;
                Ok(shown)
            }
        }
    }

    /// Ends the stream, and shows that.
    fn end(&mut self, position: u64, value: &[u8]) -> Result<RawDocumentBuf> {
        let event = Event::decode(&[], value)?;
        self.asked.place.kind = TokenKind::Invalidate;
        let token = self.asked.place.token(self.asked.id);
        let document = shape::invalidate(Placed { event, token: &token, position });
        self.is_ended = true;
        self.reading = None;
        Ok(document)
    }

    fn through_stages(
        &mut self,
        document: RawDocumentBuf,
        token: &ResumeToken,
    ) -> Result<Option<RawDocumentBuf>> {
        let made = match &mut self.asked.stages {
            None => Some(document),
            Some(stages) => stages.apply(document)?,
        };
        let Some(made) = made else { return Ok(None) };
        let id = index::element::field(&made, "_id").and_then(RawBsonRef::as_document);
        if id.is_none_or(|id| id.as_bytes() != token.to_document().as_bytes()) {
            let message = "the pipeline of a change stream must leave the field _id of its events, the resume token, as it is";
            let error = refused(Code::CHANGE_STREAM_FATAL_ERROR, message);
            return Err(error.with_label(NON_RESUMABLE_CHANGE_STREAM_ERROR));
        }
        if made.as_bytes().len() > DOCUMENT_BYTES_MAX {
            let bytes = made.as_bytes().len();
            let message =
                format!("an event of the change stream has {bytes} bytes, more than {DOCUMENT_BYTES_MAX}");
            return Err(refused(Code::BSON_OBJECT_TOO_LARGE, message));
        }
        Ok(Some(made))
    }
}
