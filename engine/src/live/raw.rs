//! A live query without the type of its documents.
//!
//! Its first batch is the result of the search in a snapshot that is on stable storage. After that each round of the log of changes
//! names the documents that were written, and they are looked up in the snapshot of the round: so a document that is named twice is
//! the same both times. With a limit or a skip the search is run again in that snapshot.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use base::error::{Error, Result};
use base::namespace::Namespace;
use base::sync::{self, AtomicBool};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use query::code::Code;
use query::operation::{OperationContext, Reservation};
use query::projection::Projection;
use store::fork::refuse_child;
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::collection::CollectionState;
use crate::catalog::entry;
use crate::changes::event::{Event, EventKind};
use crate::changes::rounds::Rounds;
use crate::document::decode::stored;
use crate::execute::found_key::with_record_id;
use crate::execute::read_view::{ReadView, check_default};
use crate::execute::rows::{Rows, Search};
use crate::live::change::{Batch, LiveChange};
use crate::live::rows::ShownRows;
use crate::options::PlantedFault;
use crate::plan::bounds::ID_FIELD;
use crate::shared::Shared;
use crate::streams::{Followed, LogWalk, Logged, Reached, WaitingReader, WalkStep, logged_scope};
use crate::write::prepare::{encoded_id, record_key};

/// Documents are looked up for as many events at once.
const EVENTS_AT_ONCE: usize = 1000;

/// A search that is to be kept up to date. It has no projection of its own.
pub(crate) struct Asked {
    pub(crate) namespace: Namespace,
    pub(crate) search: Search,
    pub(crate) row: Row,
    /// Whether the caller has said by which rules texts are compared.
    pub(crate) is_collation_given: bool,
}

/// The part of each document that is shown.
pub(crate) struct Row {
    /// Absent for whole documents.
    pub(crate) projection: Option<Projection>,
    /// Whether it has the `_id` as `$recordId` too.
    pub(crate) has_record_id: bool,
}

/// A live query.
pub(crate) struct RawLive {
    walk: LogWalk,
    asked: Asked,
    /// The collection, once there is one.
    state: Option<Arc<CollectionState>>,
    shown: ShownRows,
    /// The first batch, until the caller has it.
    first: Option<Batch>,
    /// The changes of the round that is being read.
    told: Option<Told>,
    /// How many events are read before the caller may do something else.
    pub(super) at_once: usize,
    /// Whether the last look has ended before all was looked at.
    is_behind: bool,
    is_ended: bool,
    is_stopped: Arc<AtomicBool>,
    /// The snapshot of the last round.
    #[cfg(test)]
    round: Option<Arc<Snapshot>>,
    /// Whether documents that leave the result are not shown, as a planted fault.
    forgets: bool,
}

/// The changes of a round so far.
struct Told {
    batch: Batch,
    bytes: usize,
    /// Whether the search must be run again.
    is_changed: bool,
}

impl RawLive {
    /// Runs the search, and follows its collection.
    ///
    /// # Errors
    /// As the search, and as a change stream on the collection. With code 146 if the result needs more memory than it may have.
    pub(crate) fn open(shared: &Arc<Shared>, asked: Asked) -> Result<Self> {
        let operation = asked.operation().clone();
        let scope = logged_scope(asked.namespace.clone())?;
        let database = shared.store.enter()?;
        if shared.catalog.find_view(&asked.namespace).is_some() {
            let message = format!("a live query needs a collection, and {} is a view", asked.namespace);
            return Err(Error::invalid_argument(message));
        }
        let logged = Logged::begin(shared, &database, scope, &operation)?;
        let forgets = database.fault() == PlantedFault::LeftForgotten;
        let (shown, engine) = (ShownRows::new(&operation), shared.engine());
        let walk = LogWalk::whole(engine, logged, operation);
        let mut live = Self {
            walk,
            asked,
            state: None,
            shown,
            first: None,
            told: None,
            at_once: EVENTS_AT_ONCE,
            is_behind: false,
            is_ended: false,
            is_stopped: Arc::default(),
            #[cfg(test)]
            round: None,
            forgets,
        };
        let mut told = live.nothing_told();
        live.search_now(&database, &mut told)?;
        live.first = Some(told.batch);
        Ok(live)
    }

    fn nothing_told(&self) -> Told {
        let memory = Reservation::of(self.walk.operation());
        Told { batch: Batch { changes: Vec::new(), memory }, bytes: 0, is_changed: false }
    }

    /// The changes of the next round, if it has some.
    fn read(&mut self) -> Result<Option<Batch>> {
        let goes_on = self.walk.begin_read();
        self.is_behind = false;
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        // Else the end would always be away from a caller that looks in rarely.
        let at_once = if goes_on || self.told.is_none() { self.at_once } else { usize::MAX };
        let mut told = self.told.take().unwrap_or_else(|| self.nothing_told());
        for _ in 0..at_once {
            match self.walk.step()? {
                WalkStep::Nothing => {
                    self.told = told.is_begun().then_some(told);
                    return Ok(None);
                }
                WalkStep::Event => {
                    if self.follow_event(&mut told)? {
                        self.is_ended = true;
                        let changes = vec![LiveChange::Invalidated];
                        return Ok(Some(Batch { changes, memory: Reservation::default() }));
                    }
                }
                WalkStep::RoundEnd => {
                    if told.is_changed {
                        self.search_again(&mut told)?;
                    }
                    // No snapshot is held while the caller works.
                    #[cfg(test)]
                    self.keep_round();
                    self.walk.rest();
                    if !told.batch.changes.is_empty() {
                        return Ok(Some(told.batch));
                    }
                    self.is_behind = true;
                    return Ok(None);
                }
            }
        }
        // The caller may want to wait no more. If it comes back so late that the round was given back, what is left comes with a later
        // round. Its events name the documents looked up by now that have changed since.
        (self.told, self.is_behind) = (Some(told), true);
        Ok(None)
    }

    /// Looks at what the event that was reached has changed. Returns whether it ends the query.
    fn follow_event(&mut self, told: &mut Told) -> Result<bool> {
        let Some(Reached { event, snapshot, .. }) = self.walk.current()? else { return Ok(false) };
        if !self.walk.scope().shows(&event) {
            return Ok(false);
        }
        match event.kind {
            EventKind::Drop | EventKind::Rename | EventKind::DropDatabase => {
                let is_ended = self.is_ended_by(&event);
                // It comes with the documents that it has.
                if self.state.is_none() && self.gets_name(&event) {
                    self.state = self.state_of(&event)?;
                    told.is_changed |= self.state.is_some();
                }
                return Ok(is_ended);
            }
            EventKind::Create | EventKind::CreateIndexes | EventKind::DropIndexes | EventKind::Modify => {
                return Ok(false);
            }
            EventKind::Insert
            | EventKind::Replace
            | EventKind::Update
            | EventKind::Delete
            | EventKind::Truncate => {}
        }
        let Some(state) = self.state_of(&event)? else { return Ok(false) };
        if self.asked.is_limited() {
            self.state = Some(state);
            told.is_changed = true;
            return Ok(false);
        }
        let snapshot = Arc::clone(snapshot);
        if event.kind == EventKind::Truncate {
            let prefix = state.id.prefix();
            let keys: Vec<_> = self.shown.encoded_ids().map(|id| [&prefix[..], id].concat()).collect();
            for key in keys {
                if snapshot.get(Family::Records, &key)?.is_none() {
                    self.leave(encoded_id(&key), told)?;
                }
            }
            self.state = Some(state);
            return Ok(false);
        }
        let Some(id) = id_of(&event).map(RawBson::from) else { return Ok(false) };
        self.state = Some(state);
        self.look_at(id.as_raw_bson_ref(), &snapshot, told)?;
        Ok(false)
    }

    /// Whether the drop or the rename ends the query: not one of an earlier collection with the name, nor the one by which this
    /// collection has got it, nor any while there is none.
    fn is_ended_by(&self, event: &Event<'_>) -> bool {
        let gets_name = self.gets_name(event);
        self.state.as_ref().is_some_and(|state| (state.id == event.collection) != gets_name)
    }

    /// Whether a collection gets the name of the query by an event.
    fn gets_name(&self, event: &Event<'_>) -> bool {
        event.kind == EventKind::Rename && event.is_renamed_to(&self.asked.namespace)
    }

    /// The collection of an event. `None` if it is gone: an event that is still to come says so.
    fn state_of(&self, event: &Event<'_>) -> Result<Option<Arc<CollectionState>>> {
        if let Some(state) = self.state.as_ref().filter(|state| state.id == event.collection) {
            return Ok(Some(Arc::clone(state)));
        }
        let (engine, name) = (self.walk.engine(), &self.asked.namespace);
        let database = engine.store.enter()?;
        let key = event.collection.catalog_key();
        loop {
            if let Some(found) = engine.catalog.find(name).filter(|found| found.id == event.collection) {
                self.asked.check(&found)?;
                return Ok(Some(found));
            }
            // One that a transaction has made is stored a moment before it has its name in memory.
            let Some(stored) = database.get(Family::Meta, &key)? else { return Ok(None) };
            if entry::decode(event.collection, &stored)?.namespace() != name {
                return Ok(None);
            }
            self.walk.operation().look()?;
            sync::yield_now();
        }
    }

    /// Looks a document up as the round has it.
    fn look_at(&mut self, id: RawBsonRef<'_>, snapshot: &Snapshot, told: &mut Told) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        let key = record_key(state, id);
        let Some(bytes) = snapshot.get(Family::Records, &key)? else {
            return self.leave(encoded_id(&key), told);
        };
        let document = stored(&key, &bytes)?;
        match self.asked.row_if_match(document)? {
            // The document may have an equal `_id` of another type.
            Some(row) => {
                let id = index::element::field(document, ID_FIELD).unwrap_or(id);
                self.show(&key, id, row, told)
            }
            None => self.leave(encoded_id(&key), told),
        }
    }

    fn show(&mut self, key: &[u8], id: RawBsonRef<'_>, row: RawDocumentBuf, told: &mut Told) -> Result<()> {
        let change = self.shown.note(encoded_id(key), id, row)?;
        change.map_or(Ok(()), |change| told.add(change))
    }

    fn leave(&mut self, encoded_id: &[u8], told: &mut Told) -> Result<()> {
        let change = self.shown.remove(encoded_id)?.filter(|_| !self.forgets);
        change.map_or(Ok(()), |change| told.add(change))
    }

    /// Runs the search again, in the snapshot of the round that has ended.
    fn search_again(&mut self, told: &mut Told) -> Result<()> {
        let engine = Arc::clone(self.walk.engine());
        let database = engine.store.enter()?;
        let (Some(state), Some(snapshot)) = (self.state.clone(), self.walk.snapshot()) else { return Ok(()) };
        let sequence = snapshot.sequence();
        let view = ReadView::of_snapshot(Arc::clone(snapshot), &state);
        // The indexes of now may not be whole in an older snapshot.
        if state.is_as_of(sequence) {
            return self.compare(&state, view, told);
        }
        self.search_now(&database, told)
    }

    /// Runs the search in a snapshot of this moment, once that is on stable storage, and goes on in the log from there.
    fn search_now(&mut self, database: &Arc<Database>, told: &mut Told) -> Result<()> {
        let engine = Arc::clone(self.walk.engine());
        // Before the snapshot, which has everything up to it.
        let watermark = engine.catalog.log.watermark();
        let find = || Ok(engine.catalog.find(&self.asked.namespace).map(Cow::Owned));
        let taken = ReadView::take(database, find)?;
        if let Some(state) = &self.state
            && taken.as_ref().is_none_or(|(found, _)| found.id != state.id)
        {
            // It is gone, and the event that says so is still to come.
            return Ok(());
        }
        engine.store.sync(database)?;
        let sequence =
            taken.as_ref().and_then(|(_, view)| view.snapshot()).map(|snapshot| snapshot.sequence());
        self.walk.go_to(watermark, sequence.unwrap_or(0));
        match taken {
            Some((state, view)) => self.compare(&state, view, told),
            None => Ok(()),
        }
    }

    /// Runs the search, and compares its rows with those that were shown.
    fn compare(&mut self, state: &Arc<CollectionState>, view: ReadView, told: &mut Told) -> Result<()> {
        self.asked.check(state)?;
        self.state = Some(Arc::clone(state));
        let mut rows = Rows::open(view, self.asked.search.clone())?;
        let is_first = self.shown.encoded_ids().next().is_none();
        let mut found = Vec::new();
        // With a limit: else nothing was shown before, and there is no need to know what was found.
        let mut memory = Reservation::of(self.walk.operation());
        while rows.advance()? {
            let document = RawDocument::from_bytes(rows.bytes())?;
            let Some(id) = index::element::field(document, ID_FIELD) else { continue };
            let key = record_key(state, id);
            let row = self.asked.row(document)?;
            self.show(&key, id, row, told)?;
            if !is_first {
                memory.grow_by_steps((found.len() + 1) * (key.len() + size_of::<Vec<u8>>()))?;
                found.push(key);
            }
        }
        if !is_first {
            found.sort_unstable();
            let prefix = state.id.prefix();
            let keys = self.shown.encoded_ids().map(|id| [&prefix[..], id].concat());
            let gone: Vec<_> = keys.filter(|key| found.binary_search(key).is_err()).collect();
            for key in gone {
                self.leave(encoded_id(&key), told)?;
            }
        }
        Ok(())
    }

    pub(super) fn rounds(&self) -> &Arc<Rounds> {
        self.walk.rounds()
    }

    /// The flag that ends the waiting of the query.
    pub(super) fn is_stopped(&self) -> &Arc<AtomicBool> {
        &self.is_stopped
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.is_ended
    }

    /// Ends the query: the caller has not got what a batch has changed.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.told = None;
        self.walk.rest();
    }

    /// Gives the round back that is being read, as after a while without a read.
    #[cfg(test)]
    pub(super) fn grow_old(&self) {
        self.walk.grow_old();
    }

    #[cfg(test)]
    fn keep_round(&mut self) {
        self.round = self.walk.snapshot().cloned();
    }

    /// Whether what was shown is the result of the search in the round that was read last.
    #[cfg(test)]
    pub(super) fn is_result_of_round(&mut self) -> Result<bool> {
        let Some(state) = self.state.clone() else { return Ok(self.shown.encoded_ids().next().is_none()) };
        let Some(snapshot) = &self.round else { return Ok(true) };
        let view = ReadView::of_snapshot(Arc::clone(snapshot), &state);
        let mut rows = Rows::open(view, self.asked.search.clone())?;
        let mut found = ShownRows::like(&self.shown, self.walk.operation());
        while rows.advance()? {
            let document = RawDocument::from_bytes(rows.bytes())?;
            let Some(id) = index::element::field(document, ID_FIELD) else { continue };
            let key = record_key(&state, id);
            found.note(encoded_id(&key), id, self.asked.row(document)?)?;
        }
        Ok(found.is_same(&self.shown))
    }
}

impl Followed for RawLive {
    type Item = Batch;

    fn advance(&mut self) -> Result<Option<Batch>> {
        // A forked child must not touch the iterators of its parent's store.
        refuse_child()?;
        if self.is_ended {
            return Ok(None);
        }
        // Time between two batches does not count.
        self.walk.operation().resume();
        let read = self.read();
        self.walk.end_read();
        self.walk.operation().pause();
        if read.is_err() || self.is_ended {
            self.end();
        }
        read
    }

    fn is_behind(&self) -> bool {
        self.is_behind
    }

    fn is_over(&self) -> bool {
        // One that is stopped shows the round that it reads.
        self.is_ended || self.is_stopped.load(Ordering::Acquire) && !(self.is_behind && self.told.is_some())
    }

    fn wait(&self, waker: &Waker) -> WaitingReader {
        self.walk.wait(waker)
    }
}

impl Told {
    fn is_begun(&self) -> bool {
        self.is_changed || !self.batch.changes.is_empty()
    }

    fn add(&mut self, change: LiveChange<RawDocumentBuf>) -> Result<()> {
        self.bytes += size_of::<LiveChange<RawDocumentBuf>>();
        if let LiveChange::Entered(row) | LiveChange::Changed(row) = &change {
            self.bytes += row.as_bytes().len();
        }
        self.batch.memory.grow_by_steps(self.bytes)?;
        self.batch.changes.push(change);
        Ok(())
    }
}

impl Asked {
    fn operation(&self) -> &OperationContext {
        self.search.selector.variables().operation()
    }

    /// Whether other documents than those that were written can enter or leave the result.
    fn is_limited(&self) -> bool {
        self.search.limit.is_some() || self.search.skip > 0
    }

    /// Refuses to compare texts by other rules than those of the collection, unless the caller wants it so.
    fn check(&self, found: &CollectionState) -> Result<()> {
        let collation = self.search.selector.variables().collation();
        check_default(collation, found)?;
        if self.is_collation_given || *collation == found.collation {
            return Ok(());
        }
        let message = format!(
            "the collection {} was made with a collation after the live query began",
            found.namespace
        );
        Err(Error::command(Code::QUERY_PLAN_KILLED, message))
    }

    /// The row of a document. `None` if it does not match.
    fn row_if_match(&self, document: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        let matches = self.search.selector.matches(document)?;
        matches.then(|| self.row(document)).transpose()
    }

    fn row(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let row = match &self.row.projection {
            Some(projection) => projection.apply(document, self.search.selector.variables())?,
            None => document.to_owned(),
        };
        if self.row.has_record_id { with_record_id(row, document) } else { Ok(row) }
    }
}

/// The `_id` of the document of an event.
fn id_of<'a>(event: &Event<'a>) -> Option<RawBsonRef<'a>> {
    event.key.or(event.full).and_then(|document| index::element::field(document, ID_FIELD))
}
