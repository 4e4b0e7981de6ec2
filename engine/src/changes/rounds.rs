//! Rounds: how far streams may read.
//!
//! A round is a watermark and a snapshot that was taken after it. It counts once a sync has succeeded that began after both, so
//! what streams show is on stable storage. Each sync of the store makes a round while streams are open, if something was logged since
//! the last one. The snapshot of a round is given back at the next sync: a stream that was slower asks for another one.

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
    /// No event has a higher position.
    last_event: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The round of the sync that runs.
    pending: Option<Round>,
    newest: Option<Arc<Round>>,
    /// The watermark of the last one.
    shown: u64,
    /// Whether a stream has not read all that was shown, and there is no round any more.
    is_wanted: bool,
    /// The open streams by their numbers, with what each keeps.
    streams: BTreeMap<u64, Option<Arc<dyn Kept>>>,
    /// The last number that a stream, or one that waits, has got.
    last_number: u64,
    wakers: BTreeMap<u64, Waker>,
    is_closed: bool,
}

/// An open stream, until this is dropped.
pub(crate) struct OpenStream {
    rounds: Arc<Rounds>,
    number: u64,
}

/// What a stream keeps of a round between two reads: a snapshot, which holds back everything that is deleted after it.
pub(crate) trait Kept: Send + Sync {
    /// Gives it back if nothing was read since the last call.
    fn grow_old(&self);

    /// Gives it back, and keeps nothing any more: the store is closed.
    fn end(&self);
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
        let (positions, last_event) = (Positions::after(mark), AtomicU64::new(mark));
        Self { positions, mark: AtomicU64::new(mark), last_event, state: Mutex::default() }
    }

    /// Notes the position of events that are about to be written.
    pub(super) fn note_event(&self, position: u64) {
        self.last_event.fetch_max(position, Ordering::AcqRel);
    }

    /// The position up to which everything that was logged can be read.
    pub(super) fn watermark(&self) -> u64 {
        let watermark = self.positions.watermark();
        watermark.min(self.mark.load(Ordering::Acquire))
    }

    /// Lets the watermark pass writes that met a full disk, once that has room again. RocksDB ends such a failure by writing all memtables
    /// to tables and giving up the log in which the write was cut short: what of it cannot be read by then never will be.
    pub(super) fn settle(&self, storage: Storage<'_>) {
        if self.positions.has_unknown() {
            self.positions.settle(|| storage.store.has_space());
        }
    }

    /// Opens a stream: from now on there are rounds.
    pub(crate) fn open_stream(self: &Arc<Self>) -> OpenStream {
        let mut state = self.state.lock();
        let number = state.next_number();
        state.streams.insert(number, None);
        OpenStream { rounds: Arc::clone(self), number }
    }

    /// Takes the snapshots of rounds from streams that have not read for a while. Called from time to time.
    pub(crate) fn give_back_unread(&self) {
        let kept = self.state.lock().kept();
        for kept in kept {
            kept.grow_old();
        }
    }

    /// Whether a stream is open.
    pub(super) fn has_streams(&self) -> bool {
        !self.state.lock().streams.is_empty()
    }

    /// The number of open streams, and the seconds by which they may be behind the log.
    pub(super) fn streams_and_lag(&self) -> (u64, u64) {
        let (streams, shown) = {
            let state = self.state.lock();
            (state.streams.len() as u64, state.shown)
        };
        let newest = self.last_event.load(Ordering::Acquire);
        // Before the first round of this life nothing is behind.
        let is_behind = streams > 0 && shown > 0 && newest > shown;
        (streams, if is_behind { (newest >> 32).saturating_sub(shown >> 32) } else { 0 })
    }

    /// The newest round, or one of this moment if everything is on stable storage. `None` if nothing was logged at a position or above
    /// it that can be read now.
    pub(crate) fn newest(&self, storage: Storage<'_>, from: u64) -> Option<Arc<Round>> {
        if self.last_event.load(Ordering::Acquire) < from {
            return None;
        }
        self.settle(storage);
        let mut state = self.state.lock();
        let known = state.newest.as_ref().map_or(0, |newest| newest.watermark);
        let makes_one = storage.database.fault() != PlantedFault::RoundsOfSyncsAlone;
        if makes_one && let Some(round) = self.round_after(known, &state, storage.database) {
            let round = Arc::new(round);
            if storage.database.is_in_memory() {
                // Not kept: no sync would come to give it back.
                return Some(round).filter(|round| round.watermark >= from);
            }
            let is_durable = round.snapshot.sequence() <= storage.store.durable_sequence();
            if is_durable || storage.database.fault() == PlantedFault::EventsShownEarly {
                state.newest = Some(round);
            } else {
                state.is_wanted = true;
            }
        }
        state.newest.clone().filter(|newest| newest.watermark >= from)
    }

    /// A round of this moment, if it has events that one with a watermark has not.
    fn round_after(
        &self,
        watermark: u64,
        state: &MutexGuard<'_, State>,
        database: &Arc<Database>,
    ) -> Option<Round> {
        if state.is_closed {
            return None;
        }
        // Read before the snapshot is taken: who is below it has written.
        let passes_holes = database.fault() == PlantedFault::HolesPassed;
        let now = if passes_holes { self.positions.last() } else { self.watermark() };
        // A time that was given is a position too, and nothing to be woken for.
        let is_new = watermark < now.min(self.last_event.load(Ordering::Acquire));
        is_new.then(|| Round { watermark: now, snapshot: Snapshot::take(database) })
    }

    /// Whether the snapshot of a round is kept.
    #[cfg(test)]
    pub(super) fn holds_snapshot(&self) -> bool {
        let state = self.state.lock();
        state.newest.is_some() || state.pending.is_some()
    }

    /// Wakes by `waker` after the next round, or when the store is closed, unless what is returned is dropped before. A stream that was
    /// woken and goes on to wait calls this again before it looks.
    pub(crate) fn wait(self: &Arc<Self>, waker: Waker) -> WaitingStream {
        let mut state = self.state.lock();
        // Numbered, because two streams may have the same waker.
        let number = state.next_number();
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
        let kept = state.kept();
        drop(state);
        for kept in kept {
            kept.end();
        }
        self.wake();
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// What the streams keep. Without the lock it is given back: that takes its time.
    fn kept(&self) -> Vec<Arc<dyn Kept>> {
        self.streams.values().flatten().cloned().collect()
    }
}

impl OpenStream {
    /// Says what the stream keeps of a round between two reads.
    pub(crate) fn keeps(&self, kept: Arc<dyn Kept>) {
        self.rounds.state.lock().streams.insert(self.number, Some(kept));
    }
}

impl SyncWatcher for RoundMaker {
    fn sync_begins(&self) {
        let mut state = self.rounds.state.lock();
        if !state.streams.is_empty()
            && let Some(database) = self.database.upgrade()
        {
            let shown = if state.is_wanted { 0 } else { state.shown };
            state.pending = self.rounds.round_after(shown, &state, &database);
        }
    }

    fn sync_ended(&self, has_succeeded: bool) {
        let mut state = self.rounds.state.lock();
        let Some(round) = state.pending.take().filter(|_| has_succeeded) else {
            // No snapshot is held while nothing is logged.
            let unused = state.newest.take();
            let is_unread = state.is_wanted || state.shown < self.rounds.last_event.load(Ordering::Acquire);
            drop(state);
            drop(unused);
            // A stream that came too late for this sync, or an event whose writer was at work when it began: if all is on stable storage
            // by now, no other sync may come.
            if has_succeeded && is_unread {
                self.rounds.wake();
            }
            return;
        };
        (state.shown, state.is_wanted) = (state.shown.max(round.watermark), false);
        // A stream may have made a later one meanwhile.
        let unused = if state.newest.as_ref().is_none_or(|newest| newest.watermark < round.watermark) {
            state.newest.replace(Arc::new(round))
        } else {
            None
        };
        drop(state);
        drop(unused);
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
        drop(state.streams.remove(&self.number));
        if state.streams.is_empty() {
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
