//! A walk over the events of a scope, round by round.
//!
//! A round is read on its snapshot, which is given back at its end. What a round has is on stable storage, so nothing that was shown
//! is missing later.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use base::error::{Error, Result};
use base::sync::Mutex;
use query::operation::{OperationContext, WakeOnCancel};
use store::fork;
use store::keys::{event_key, split_event_key};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::changes::event::Event;
use crate::changes::log::LogId;
use crate::changes::rounds::{Kept, OpenStream, Round, Rounds, WaitingStream};
use crate::changes::scopes::Scope;
use crate::options::PlantedFault;
use crate::shared::{Engine, Shared};
use crate::streams::token::{Place, ResumeToken, TokenKind, lost};
use crate::tail::{sleep_until, thread_waker};

/// How many events outside of its scope a step of a walk passes: some microseconds.
const PASSED_AT_ONCE: u64 = 64;

/// The log of a scope, which is kept while this is.
pub(crate) struct Logged {
    pub(crate) scope: Scope,
    pub(super) id: LogId,
    /// The position since which its changes are logged.
    pub(crate) began: u64,
    open: OpenStream,
}

/// A walk. It is before the first event until [`step`](Self::step) is called.
pub(crate) struct LogWalk {
    /// Not what handles share: that would keep the client open.
    engine: Arc<Engine>,
    logged: Logged,
    operation: OperationContext,
    /// That of the last event that was read.
    pub(super) place: Place,
    /// The round that is being read, while the caller reads.
    reading: Option<Box<Reading>>,
    /// The same between two reads.
    kept: Arc<KeptReading>,
    /// The watermark of a round whose last event was reached, and which is not read any more.
    ended: Option<u64>,
    /// Rounds of older states are passed over: a later state was read already, by its sequence number.
    floor: u64,
    /// The event that was reached last.
    reached: Place,
    /// The watermark of the round that was begun last.
    watermark: u64,
    /// Whether all events of a round's snapshot are read, and not only those up to its watermark. The others come again with the next
    /// round.
    is_whole: bool,
    /// Whether the reader has said that it reads on without a pause.
    is_in_run: bool,
}

/// A round that is being read. In a box, since it is handed over before and after each read or run.
struct Reading {
    round: Arc<Round>,
    scan: Scan,
    /// Whether the scan is at the event after the one that was reached.
    is_ahead: bool,
}

/// The round that a walk goes on with at the next read. It is given back if that does not come soon, and the walk goes on at its place
/// in a later round.
#[derive(Default)]
struct KeptReading(Mutex<KeptState>);

#[derive(Default)]
struct KeptState {
    reading: Option<Box<Reading>>,
    /// Whether it was looked at since it was read.
    is_old: bool,
    is_ended: bool,
}

/// The place that a step of a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// To an event, of whatever scope.
    Event,
    /// To the end of a round, whose snapshot is given back by the next step.
    RoundEnd,
    /// There is no other round now.
    Nothing,
}

/// Keeps the waker of a walk until it is dropped.
pub(crate) struct Waiting {
    _rounds: WaitingStream,
    _tokens: Vec<WakeOnCancel>,
}

impl Logged {
    /// Switches the log of a scope on, unless it is on. Changes by writes that begin after this has returned are in it.
    pub(crate) fn begin(
        shared: &Shared,
        database: &Arc<Database>,
        scope: Scope,
        operation: &OperationContext,
    ) -> Result<Self> {
        let log = &shared.catalog.log;
        // First: what is logged stays so while a stream is open.
        let open = log.rounds.open_stream();
        shared.log_changes(database, &scope, operation)?;
        match (log.began(&scope), log.id()) {
            (Some(began), Some(id)) => Ok(Self { scope, id, began, open }),
            (None, _) | (_, None) => Err(Error::invalid_argument("the log of changes was not switched on")),
        }
    }
}

impl LogWalk {
    /// A walk over what follows a place.
    pub(super) fn after(
        place: Place,
        engine: Arc<Engine>,
        logged: Logged,
        operation: OperationContext,
    ) -> Self {
        let kept = Arc::<KeptReading>::default();
        logged.open.keeps(Arc::clone(&kept) as Arc<dyn Kept>);
        let (reading, ended) = (None, None);
        let (floor, watermark, is_whole, is_in_run) = (0, 0, false, false);
        let reached = place;
        Self {
            engine,
            logged,
            operation,
            place,
            reading,
            kept,
            ended,
            floor,
            reached,
            watermark,
            is_whole,
            is_in_run,
        }
    }

    /// A walk that reaches everything that differs between the snapshots of two rounds: a snapshot is taken after its watermark, and has
    /// what was written in between with its events. [`go_to`](Self::go_to) sets its beginning.
    pub(crate) fn whole(engine: &Arc<Engine>, logged: Logged, operation: OperationContext) -> Self {
        let mut walk = Self::after(Place::watermark(0), Arc::clone(engine), logged, operation);
        walk.is_whole = true;
        walk
    }

    /// Begins a read: goes on with the round in which the last one has ended, or with that of a run. Returns `false` if that was given
    /// back.
    pub(crate) fn begin_read(&mut self) -> bool {
        if self.is_in_run {
            return true;
        }
        if let Some(reading) = self.kept.take() {
            self.reading = Some(reading);
            return true;
        }
        // A writer that was at work when the round began may have written below what was read above its watermark.
        if self.place.kind == TokenKind::Event && self.place.position > self.watermark && self.is_whole {
            self.place = Place::watermark(self.watermark);
        }
        false
    }

    /// Begins a run of reads without a pause between them: the round stays with the walk until [`end_run`](Self::end_run).
    pub(super) fn begin_run(&mut self) {
        self.begin_read();
        self.is_in_run = true;
    }

    pub(super) fn end_run(&mut self) {
        if std::mem::take(&mut self.is_in_run) {
            self.pause();
        }
    }

    /// Ends a read, unless it is one of a run: the caller may ask for the next event much later, or never, so the snapshot is given back
    /// with the last event of its round.
    pub(super) fn pause(&mut self) {
        if !self.is_in_run {
            self.look_ahead();
            self.end_read();
        }
    }

    /// Ends a read. The caller may read on at once, or never.
    pub(crate) fn end_read(&mut self) {
        if let Some(reading) = self.reading.take() {
            self.kept.keep(reading);
        }
    }

    /// Gives the round back that is being read, as after a while without a read.
    #[cfg(test)]
    pub(crate) fn grow_old(&self) {
        self.kept.grow_old();
        self.kept.grow_old();
    }

    /// Steps to the next event, or to the end of its round. Documents of collections that are not in the scope are passed, but not
    /// so many that the caller would wait.
    pub(crate) fn step(&mut self) -> Result<WalkStep> {
        self.operation.step()?;
        if self
            .reading
            .as_ref()
            .is_some_and(|reading| self.place == Place::watermark(reading.round.watermark))
        {
            self.reading = None;
        }
        if let Some(watermark) = self.ended.take() {
            self.place = Place::watermark(watermark);
            return Ok(WalkStep::RoundEnd);
        }
        if self.reading.is_none() && !self.begin_round()? {
            return Ok(WalkStep::Nothing);
        }
        let Some(reading) = &mut self.reading else { return Ok(WalkStep::Nothing) };
        let mut passed = 0;
        let mut is_at_event = std::mem::take(&mut reading.is_ahead) || reading.scan.advance()?;
        // Here, where nothing but the name in the event is read.
        while is_at_event && passed < PASSED_AT_ONCE && self.logged.scope.is_without(reading.scan.value()) {
            passed += 1;
            is_at_event = reading.scan.advance()?;
        }
        self.operation.steps(passed)?;
        if !is_at_event {
            self.place = Place::watermark(reading.round.watermark);
            return Ok(WalkStep::RoundEnd);
        }
        let (position, ordinal) = split_event_key(reading.scan.key()).ok_or_else(|| {
            let reason = "the key of an event is not a position and an ordinal";
            Error::corruption(Family::Changes.name(), reading.scan.key(), reason)
        })?;
        self.place = Place::event(position, ordinal);
        self.reached = self.place;
        Ok(WalkStep::Event)
    }

    /// The token of the place. At the end of a round that nothing was logged after, it is that of the last event, as MongoDB has it.
    pub(super) fn token(&self) -> ResumeToken {
        let is_same = (self.reached.kind, self.place.kind) == (TokenKind::Event, TokenKind::Watermark)
            && self.reached.position == self.place.position;
        let place = if is_same { self.reached } else { self.place };
        place.token(self.id())
    }

    /// Gives the snapshot of the round back if the event that was reached is its last one. That event cannot be asked for any more.
    fn look_ahead(&mut self) {
        let is_at_event = self.place.kind == TokenKind::Event;
        let Some(reading) = self.reading.as_mut().filter(|reading| is_at_event && !reading.is_ahead) else {
            return;
        };
        match reading.scan.advance() {
            Ok(true) => reading.is_ahead = true,
            Ok(false) => {
                self.ended = Some(reading.round.watermark);
                self.reading = None;
            }
            // The next step begins again behind the event, and meets it there.
            Err(_) => self.reading = None,
        }
    }

    /// The event that was reached, with its stored form and the snapshot of its round. `None` at another place, and at a document of a
    /// collection that is not in the scope, which is not read.
    pub(crate) fn current(&self) -> Result<Option<Reached<'_>>> {
        let Some(Reading { round, scan, .. }) = self.reading.as_deref() else { return Ok(None) };
        if self.place.kind != TokenKind::Event {
            return Ok(None);
        }
        if self.logged.scope.is_without(scan.value()) {
            return Ok(None);
        }
        let event = Event::decode(scan.key(), scan.value())?;
        Ok(Some(Reached { event, stored: scan.value(), snapshot: &round.snapshot }))
    }

    /// The snapshot of the round that is being read, or has just ended.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.reading.as_ref().map(|reading| &reading.round.snapshot)
    }

    /// Opens a walk over the events of a new round. Returns `false` if there is none.
    fn begin_round(&mut self) -> Result<bool> {
        // A walk looks only while it reads, and there may be nothing to read for hours.
        self.operation.look()?;
        let log = &self.engine.catalog.log;
        // Left before the caller waits: closing waits for all that are inside.
        let database = self.engine.store.enter()?;
        let Place { position, ordinal, kind } = self.place;
        let from = match kind {
            TokenKind::Watermark => position.saturating_add(1),
            TokenKind::Event | TokenKind::Invalidate => position,
        };
        let round = log.rounds.newest(self.engine.storage(&database), from);
        // After the round: if the log was switched off and on again before it, what was written in between is not in it.
        let since = self.logged.began.max(position);
        if log.began(&self.logged.scope).is_none_or(|began| began > since) {
            return Err(lost("its changes are not logged any more, or were not for a while"));
        }
        let Some(round) = round else { return Ok(false) };
        // All that it has was seen. The next event brings another one.
        if round.snapshot.sequence() < self.floor {
            return Ok(false);
        }
        let start = match ordinal.checked_add(1) {
            Some(next) => event_key(position, next),
            None => event_key(position.saturating_add(1), 0),
        };
        let end = event_key(round.watermark.saturating_add(1), 0);
        let bounds = (start.to_vec(), Some(end.to_vec()).filter(|_| !self.is_whole));
        let scan = Scan::open(&round.snapshot, Family::Changes, bounds, CacheUse::Fill, &self.operation);
        // After the snapshot: what it has lost was noted before.
        if (position, ordinal) < log.low() {
            return Err(lost("changes that it had not read are forgotten"));
        }
        let round = if database.fault() == PlantedFault::DocumentsLookedUpLate {
            Arc::new(Round { watermark: round.watermark, snapshot: Snapshot::take(&database) })
        } else {
            round
        };
        self.watermark = round.watermark;
        self.reading = Some(Box::new(Reading { round, scan, is_ahead: false }));
        Ok(true)
    }

    /// Goes on after everything up to a position, with rounds that are not older than the state of a sequence number.
    pub(crate) fn go_to(&mut self, position: u64, sequence: u64) {
        self.rest();
        self.place = Place::watermark(position);
        self.floor = sequence;
    }

    /// Gives the snapshot of its round back.
    pub(crate) fn rest(&mut self) {
        (self.reading, self.ended) = (None, None);
        // In a forked child the lock may be held by a thread that does not exist there.
        if !fork::is_child() {
            drop(self.kept.take());
        }
    }

    /// Wakes by `waker` after the next round, when the store is closed, and when the operation is cancelled.
    pub(crate) fn wait(&self, waker: &Waker) -> Waiting {
        let tokens = self.operation.wake_when_cancelled(waker);
        Waiting { _rounds: self.rounds().wait(waker.clone()), _tokens: tokens }
    }

    pub(crate) fn rounds(&self) -> &Arc<Rounds> {
        &self.engine.catalog.log.rounds
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.logged.scope
    }

    pub(super) fn id(&self) -> LogId {
        self.logged.id
    }

    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }
}

impl Drop for LogWalk {
    fn drop(&mut self) {
        // The thread that looks for old ones may have it at hand.
        if !fork::is_child() {
            self.kept.end();
        }
    }
}

impl KeptReading {
    fn take(&self) -> Option<Box<Reading>> {
        self.0.lock().reading.take()
    }

    fn keep(&self, reading: Box<Reading>) {
        let mut state = self.0.lock();
        if !state.is_ended {
            (state.reading, state.is_old) = (Some(reading), false);
        }
    }
}

impl Kept for KeptReading {
    fn grow_old(&self) {
        let mut state = self.0.lock();
        let given_back = if state.is_old { state.reading.take() } else { None };
        state.is_old = true;
        drop(state);
        drop(given_back);
    }

    fn end(&self) {
        let mut state = self.0.lock();
        state.is_ended = true;
        let given_back = state.reading.take();
        drop(state);
        drop(given_back);
    }
}

/// An event that a walk has reached.
pub(crate) struct Reached<'a> {
    pub(crate) event: Event<'a>,
    /// The stored form of the event.
    pub(super) stored: &'a [u8],
    pub(crate) snapshot: &'a Arc<Snapshot>,
}

/// A source that is read until nothing is left, and then waited for.
pub(crate) trait Followed {
    /// The items that are read.
    type Item;

    /// The next item, if there is one now.
    fn advance(&mut self) -> Result<Option<Self::Item>>;

    /// Whether the last look has ended before all was looked at.
    fn is_behind(&self) -> bool;

    /// Whether it is at its end, or waits no more.
    fn is_over(&self) -> bool;

    /// Wakes by `waker` when there may be more, or when it is over.
    fn wait(&self, waker: &Waker) -> Waiting;

    /// The next item. Waits for it until `moment`, or without end.
    fn advance_until(&mut self, moment: Option<Instant>) -> Result<Option<Self::Item>> {
        let mut waiting: Option<Waiting> = None;
        loop {
            if let Some(item) = self.advance()? {
                return Ok(Some(item));
            }
            if self.is_over() || moment.is_some_and(|moment| Instant::now() >= moment) {
                return Ok(None);
            }
            if self.is_behind() {
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
}
