//! The documents of a capped collection as a tailable cursor reads them: those that are there, in their order, and then each
//! that is inserted.
//!
//! A round reads what is new on a snapshot of its own, which is given back at its end. So a reader that waits holds no snapshot
//! and no lock, and neither the store nor the client is kept open for it.

use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use base::codes::refused;
use base::error::Result;
use index::key::Direction;
use query::code::Code;
use query::operation::{OperationContext, WakeOnCancel};

use crate::catalog::capped::WaitingReader;
use crate::catalog::collection::CollectionState;
use crate::execute::matches::Matches;
use crate::execute::natural_walk::state_in;
use crate::execute::read_view::ReadView;
use crate::execute::rest::Rest;
use crate::execute::rows::{Rows, Search};
use crate::options::FindOptions;
use crate::plan::selector::Selector;
use crate::shared::Engine;

/// The rows of a tailable cursor.
pub(crate) struct Tail {
    /// Not what handles share: that would keep the client open.
    engine: Arc<Engine>,
    state: Arc<CollectionState>,
    selector: Selector,
    rows: Rows,
    /// The next position that no round has read.
    next: u64,
    /// Whether a round is not at its end.
    is_reading: bool,
    /// The waiting time of a reader that does not wait without end.
    pub(crate) await_time: Duration,
}

/// The waker of a reader that waits, until it is dropped.
pub(crate) struct Waiting {
    _inserts: WaitingReader,
    _tokens: Vec<WakeOnCancel>,
}

impl Tail {
    /// Opens the rows of a search on a collection. Returns `None` if it has no documents: as in MongoDB such a cursor is at its
    /// end from the beginning.
    pub(crate) fn open(
        engine: &Arc<Engine>,
        state: &Arc<CollectionState>,
        view: ReadView,
        search: Search,
        await_time: Duration,
    ) -> Result<Option<Self>> {
        let (Some(snapshot), Some(order)) = (view.snapshot(), view.order()) else {
            let namespace = &state.namespace;
            let message = format!(
                "error processing query: ns={namespace} tailable cursor requested on non capped collection"
            );
            return Err(refused(Code::BAD_VALUE, message).in_namespace(namespace));
        };
        let stands = state_in(snapshot, order)?;
        // Not the first match: a cursor that finds none yet has something to follow.
        if stands.documents == 0 {
            return Ok(None);
        }
        let selector = search.selector.clone();
        let matches = Matches::open_from(view, selector.clone(), stands.first)?;
        Ok(Some(Self {
            engine: Arc::clone(engine),
            state: Arc::clone(state),
            rows: Rows::of_search(matches, search),
            selector,
            next: stands.next,
            is_reading: true,
            await_time,
        }))
    }

    /// Steps to the next row. Returns `false` if there is none now.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            // A round is read to its end on its own snapshot, so nothing that it has can be lost.
            if self.is_reading && self.rows.advance()? {
                return Ok(true);
            }
            if self.rows.is_exhausted() {
                return Ok(false);
            }
            // Gives the snapshot back.
            self.rows.exchange(None);
            self.is_reading = false;
            if !self.begin_round()? {
                return Ok(false);
            }
        }
    }

    /// Opens a walk over the documents that are new. Returns `false` if there are none.
    fn begin_round(&mut self) -> Result<bool> {
        // A walk looks only while it reads, and there may be nothing to read for hours.
        self.rows.operation().look()?;
        let Self { engine, state, .. } = self;
        // Left before the caller waits: closing waits for all that are inside.
        let database = engine.store.enter()?;
        let ended = || {
            let message = format!(
                "the tailable cursor has ended: the collection {} was dropped or renamed",
                state.namespace
            );
            refused(Code::QUERY_PLAN_KILLED, message).in_namespace(&state.namespace)
        };
        if state.is_retired() {
            return Err(ended());
        }
        let view = ReadView::of_found(&database, state)?.ok_or_else(ended)?;
        let (Some(snapshot), Some(order)) = (view.snapshot(), state.order()) else { return Err(ended()) };
        let stands = state_in(snapshot, order.id)?;
        // After the snapshot: a commit that it has was announced before.
        if order.room_made() > self.next {
            let message = format!(
                "the tailable cursor was overtaken: documents of {} that it had not read were removed; the next was at position {}",
                state.namespace, self.next
            );
            return Err(refused(Code::CAPPED_POSITION_LOST, message).in_namespace(&state.namespace));
        }
        // The common case of a reader that was woken by another waker, or by its time.
        if stands.next <= self.next {
            return Ok(false);
        }
        let matches = Matches::open_from(view, self.selector.clone(), self.next)?;
        self.rows.exchange(Some(matches));
        (self.next, self.is_reading) = (stands.next, true);
        Ok(true)
    }

    /// Wakes by `waker` after the next insert, when the collection or the client ends, and when the operation is cancelled.
    /// What was inserted before need not wake: the caller looks once more.
    pub(crate) fn wait(&self, waker: &Waker) -> Option<Waiting> {
        let order = self.state.order()?;
        let tokens = self.rows.operation().wake_when_cancelled(waker);
        Some(Waiting { _inserts: order.wait(waker.clone()), _tokens: tokens })
    }

    pub(crate) fn operation(&self) -> &OperationContext {
        self.rows.operation()
    }

    pub(crate) fn rest(&mut self, current: Rest) {
        self.rows.rest(current);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.rows.bytes()
    }

    /// Whether the limit of the search was reached.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.rows.is_exhausted()
    }
}

/// Sleeps until the thread is woken, or until a moment. Waking without a reason is allowed.
pub(crate) fn sleep_until(moment: Option<Instant>) {
    match moment {
        None => thread::park(),
        Some(moment) => thread::park_timeout(moment.saturating_duration_since(Instant::now())),
    }
}

/// The waker of this thread.
pub(crate) fn thread_waker() -> Waker {
    Waker::from(Arc::new(WokenThread(thread::current())))
}

struct WokenThread(Thread);

impl std::task::Wake for WokenThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Rejects what a tailable cursor cannot have.
pub(crate) fn check(search: &Search, options: &FindOptions) -> Result<()> {
    let refuse = |message: &str| Err(refused(Code::BAD_VALUE, message));
    // Backwards there is nothing to wait for. A sort by fields would have to see all documents first.
    let is_forward = search.order.natural() != Some(Direction::Descending);
    if search.order.sort().is_some() || (options.sort.is_some() && !is_forward) {
        return refuse("cannot use tailable option with a sort other than {$natural: 1}");
    }
    let is_natural = options.hint.is_none() || (search.order.natural().is_some() && is_forward);
    if !is_natural || search.order.has_range() {
        return refuse(
            "cannot use tailable option with a hint other than {$natural: 1}, or with min and max",
        );
    }
    if search.extras.keys {
        return refuse("cannot use tailable option with returnKey: documents are not found by keys");
    }
    Ok(())
}
