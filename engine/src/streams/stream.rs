//! A stream without the type of its documents: what it shows of the events that its walk over the log reaches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use base::codes::refused;
use base::error::{NON_RESUMABLE_CHANGE_STREAM_ERROR, Result};
use base::sync::AtomicBool;
use bson::{RawBsonRef, RawDocumentBuf};
use index::validate::DOCUMENT_BYTES_MAX;
use query::code::Code;
use query::operation::OperationContext;
use store::fork::refuse_child;
use store::keys::event_key;
use store::{Database, Family};

use crate::changes::event::Event;
use crate::changes::rounds::Rounds;
use crate::execute::rest::Rest;
use crate::streams::shape::{self, Placed, Shown, Source};
use crate::streams::stages::Stages;
use crate::streams::token::{Place, ResumeToken, TokenDigits, TokenKind};
use crate::streams::walk::{Followed, LogWalk, Reached, Waiting, WalkStep};

/// How many steps of its walk a stream takes without an event to show before its reader may do something else.
const STEPS_MAX: u32 = 1_000;
/// What an idle stream keeps at most of the memory of its events.
const SPARE_BYTES_MAX: usize = 4 << 10;

/// The part of its events that a stream shows.
pub(super) struct Asked {
    pub(super) shown: Shown,
    pub(super) stages: Option<Stages>,
}

/// A stream of the documents of events.
pub(crate) struct RawStream {
    /// Its place is that of the last event that was read, whether it was shown or not.
    walk: LogWalk,
    asked: Asked,
    /// The place before the event that it returned last.
    before: Place,
    /// Whether the event of its place may be one that ends it.
    is_resumed: bool,
    is_behind: bool,
    /// The event, with its position, after which the stream is at its end.
    last: Option<(u64, Vec<u8>)>,
    is_ended: bool,
    is_stopped: Arc<AtomicBool>,
    /// The memory of an event that was read, for the next one.
    spare: Vec<u8>,
}

impl RawStream {
    pub(super) fn open(walk: LogWalk, database: &Arc<Database>, asked: Asked) -> Result<Self> {
        let mut stream = Self {
            before: walk.place,
            walk,
            is_resumed: false,
            is_behind: false,
            asked,
            last: None,
            is_ended: false,
            is_stopped: Arc::default(),
            spare: Vec::new(),
        };
        stream.end_if_resumed_at_end(database)?;
        Ok(stream)
    }

    /// A stream that is resumed after the event that ended it is at its end.
    fn end_if_resumed_at_end(&mut self, database: &Database) -> Result<()> {
        let Place { position, ordinal, kind } = self.walk.place;
        if kind != TokenKind::Event {
            return Ok(());
        }
        let key = event_key(position, ordinal);
        if let Some(value) = database.get(Family::Changes, &key)? {
            let event = Event::decode(&key, &value)?;
            if self.walk.scope().shows(&event) && self.walk.scope().is_ended_by(event.kind) {
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
        let before = self.walk.place;
        self.is_behind = false;
        self.walk.begin_read();
        let read = self.read();
        match read {
            Ok(Some(_)) => self.before = before,
            Ok(None) => {}
            Err(_) => {
                self.is_ended = true;
                self.walk.rest();
            }
        }
        self.walk.pause();
        read
    }

    /// Begins a run: the reader asks for one event after the other, without a pause, until it [ends](Self::end_run) the run.
    pub(crate) fn begin_run(&mut self) {
        if !self.is_ended {
            self.walk.begin_run();
        }
    }

    pub(crate) fn end_run(&mut self) {
        self.walk.end_run();
    }

    /// Takes the bytes of an event back that was read, to use their memory again.
    pub(crate) fn reuse(&mut self, event: Vec<u8>) {
        if event.capacity() <= SPARE_BYTES_MAX {
            self.spare = event;
        }
    }

    /// Whether the last look for an event has ended before all were looked at.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Ends the stream before the event that it returned last, which its reader has not got.
    pub(super) fn end_before(&mut self) {
        self.walk.rest();
        self.walk.place = self.before;
        self.last = None;
        self.is_ended = true;
    }

    /// Gives back the snapshot of its round, and if the current event is to be repeated goes back before that.
    pub(crate) fn rest(&mut self, current: Rest) {
        self.walk.rest();
        self.is_resumed |= self.last.take().is_some();
        if current == Rest::Repeat {
            self.walk.place = self.before;
            (self.is_ended, self.is_resumed) = (false, true);
        }
    }

    pub(crate) fn operation(&self) -> &OperationContext {
        self.walk.operation()
    }

    pub(crate) fn wait(&self, waker: &Waker) -> Waiting {
        self.walk.wait(waker)
    }

    pub(super) fn rounds(&self) -> &Arc<Rounds> {
        self.walk.rounds()
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
        self.walk.token()
    }

    fn read(&mut self) -> Result<Option<RawDocumentBuf>> {
        if std::mem::take(&mut self.is_resumed) {
            let engine = Arc::clone(self.walk.engine());
            let database = engine.store.enter()?;
            self.end_if_resumed_at_end(&database)?;
        }
        if let Some((position, value)) = self.last.take() {
            return self.end(position, &value).map(Some);
        }
        for _ in 0..STEPS_MAX {
            match self.walk.step()? {
                WalkStep::Nothing => return Ok(None),
                WalkStep::RoundEnd => continue,
                WalkStep::Event => {}
            }
            if let Some(event) = self.show()? {
                return Ok(Some(event));
            }
        }
        self.is_behind = true;
        Ok(None)
    }

    /// The document that the stream shows for the event that was reached. `None` if it shows none.
    fn show(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(Reached { event, stored, snapshot }) = self.walk.current()? else { return Ok(None) };
        let is_asked_for = !event.is_expanded() || self.asked.shown.is_expanded();
        // The walk passes over documents of other collections.
        let is_shown = event.kind.is_of_document() || self.walk.scope().shows(&event);
        if !is_asked_for || !is_shown {
            return Ok(None);
        }
        let position = self.walk.place.position;
        if self.walk.scope().is_ended_by(event.kind) {
            self.last = Some((position, stored.to_vec()));
        }
        let token = self.walk.place.digits(self.walk.id());
        let placed = Placed { event, token, position };
        let source = Source { catalog: &self.walk.engine().catalog, snapshot };
        let room = std::mem::take(&mut self.spare);
        let document = shape::document(placed, &self.asked.shown, source, room)?;
        let shown = self.through_stages(document, token)?;
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
        self.walk.place.kind = TokenKind::Invalidate;
        let token = self.walk.place.digits(self.walk.id());
        let document = shape::invalidate(Placed { event, token, position })?;
        self.is_ended = true;
        self.walk.rest();
        Ok(document)
    }

    fn through_stages(
        &mut self,
        document: RawDocumentBuf,
        token: TokenDigits,
    ) -> Result<Option<RawDocumentBuf>> {
        let made = match &mut self.asked.stages {
            None => Some(document),
            Some(stages) => stages.apply(document)?,
        };
        let Some(made) = made else { return Ok(None) };
        let id = || index::element::field(&made, "_id").and_then(RawBsonRef::as_document);
        if self.asked.stages.is_some() && !id().is_some_and(|id| token.is(id)) {
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

impl Followed for RawStream {
    type Item = RawDocumentBuf;

    fn advance(&mut self) -> Result<Option<RawDocumentBuf>> {
        Self::advance(self)
    }

    fn is_behind(&self) -> bool {
        self.is_behind
    }

    fn is_over(&self) -> bool {
        // One that is stopped shows what is there.
        !self.is_alive() || self.is_stopped.load(Ordering::Acquire) && !self.is_behind
    }

    fn wait(&self, waker: &Waker) -> Waiting {
        Self::wait(self, waker)
    }
}
