//! Rounds: how far streams may read.
//!
//! A round is a watermark and a snapshot that was taken after it. It counts once a sync has succeeded that began after both, so
//! what streams show is on stable storage. Each sync of the store makes a round while streams are open.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;

use base::sync::{AtomicU64, Mutex, MutexGuard};
use sequence::position::Positions;
use store::Database;
use store::SyncWatcher;
use store::fork;
use store::handles::Storage;
use store::snapshot::Snapshot;

use crate::options::PlantedFault;

/// A state that streams may show.
pub(crate) struct Round {
    /// Everything that was logged up to this position is in the snapshot.
    pub(crate) watermark: u64,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// The rounds of a store, and the streams that wait for the next one.
pub(crate) struct Rounds {
    pub(super) positions: Positions,
    /// On stable storage. No position is shown that is above it: a later life of the store begins there.
    pub(super) mark: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The round of the sync that runs.
    pending: Option<Round>,
    newest: Option<Arc<Round>>,
    /// How many streams are open.
    streams: usize,
    last_waiting: u64,
    wakers: BTreeMap<u64, Waker>,
    is_closed: bool,
}

/// An open stream, until this is dropped.
pub(crate) struct OpenStream {
    rounds: Arc<Rounds>,
}

/// A stream that waits, until this is dropped.
pub(crate) struct WaitingStream {
    rounds: Arc<Rounds>,
    number: u64,
}

/// Makes the rounds of a store.
pub(crate) struct RoundMaker {
    pub(crate) rounds: Arc<Rounds>,
    /// Not kept open by this: the store has the maker.
    pub(crate) database: Weak<Database>,
}

impl Rounds {
    /// The rounds of a store whose earlier lives have given positions up to a mark.
    pub(super) fn after(mark: u64) -> Self {
        let (positions, mark) = (Positions::after(mark), AtomicU64::new(mark));
        Self { positions, mark, state: Mutex::default() }
    }

    /// The position up to which everything that was logged can be read.
    pub(super) fn watermark(&self) -> u64 {
        let watermark = self.positions.watermark();
        watermark.min(self.mark.load(Ordering::Acquire))
    }

    /// Opens a stream: from now on there are rounds.
    pub(crate) fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.state.lock().streams += 1;
        OpenStream { rounds: Arc::clone(self) }
    }

    /// The newest round, or one of this moment if everything is on stable storage.
    pub(crate) fn newest(&self, storage: Storage<'_>) -> Option<Arc<Round>> {
        let mut state = self.state.lock();
        if let Some(round) = self.round_of_now(&state, storage.database) {
            let is_durable = round.snapshot.sequence() <= storage.store.durable_sequence();
            let is_shown_early = storage.database.fault() == PlantedFault::EventsShownEarly;
            if is_durable || storage.database.is_in_memory() || is_shown_early {
                state.newest = Some(Arc::new(round));
            }
        }
        state.newest.clone()
    }

    /// A round of this moment, unless that would show nothing new.
    fn round_of_now(&self, state: &MutexGuard<'_, State>, database: &Arc<Database>) -> Option<Round> {
        if state.is_closed {
            return None;
        }
        // Read before the snapshot is taken: who is below it has written.
        let watermark = match database.fault() {
            PlantedFault::HolesPassed => self.positions.last(),
            _ => self.watermark(),
        };
        let is_new = state.newest.as_ref().is_none_or(|newest| newest.watermark < watermark);
        is_new.then(|| Round { watermark, snapshot: Snapshot::take(database) })
    }

    /// Wakes by `waker` after the next round, or when the store is closed, unless what is returned is dropped before. A stream that was
    /// woken and goes on to wait calls this again before it looks.
    pub(crate) fn wait(self: &Arc<Self>, waker: Waker) -> WaitingStream {
        let mut state = self.state.lock();
        // Numbered, because two streams may have the same waker.
        state.last_waiting += 1;
        let number = state.last_waiting;
        state.wakers.insert(number, waker);
        WaitingStream { rounds: Arc::clone(self), number }
    }

    /// Wakes the streams that wait.
    pub(crate) fn wake(&self) {
        // Without the lock: a waker may run code of another crate.
        let wakers = std::mem::take(&mut self.state.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Ends the rounds: the store is closed, and no snapshot may keep it open.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        drop((state.pending.take(), state.newest.take()));
        drop(state);
        self.wake();
    }
}

impl SyncWatcher for RoundMaker {
    fn sync_begins(&self) {
        let mut state = self.rounds.state.lock();
        if state.streams > 0
            && let Some(database) = self.database.upgrade()
        {
            state.pending = self.rounds.round_of_now(&state, &database);
        }
    }

    fn sync_ended(&self, has_succeeded: bool) {
        let mut state = self.rounds.state.lock();
        let Some(round) = state.pending.take().filter(|_| has_succeeded) else { return };
        // A stream may have made a later one meanwhile.
        if state.newest.as_ref().is_none_or(|newest| newest.watermark < round.watermark) {
            state.newest = Some(Arc::new(round));
        }
        drop(state);
        self.rounds.wake();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that does not exist there.
        if fork::is_child() {
            return;
        }
        let mut state = self.rounds.state.lock();
        state.streams -= 1;
        if state.streams == 0 {
            // No snapshot is held for nothing.
            let unused = (state.pending.take(), state.newest.take());
            drop(state);
            drop(unused);
        }
    }
}

impl Drop for WaitingStream {
    fn drop(&mut self) {
        if !fork::is_child() {
            self.rounds.state.lock().wakers.remove(&self.number);
        }
    }
}
