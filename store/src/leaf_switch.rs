//! Whether leaves of an index are kept in memory, and the searches that find them.
//!
//! Writers remove leaves only of indexes that are searched. So each index has a number from which on all writes do, and a leaf counts only if
//! it is not older than that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex};
use index::key::Direction;

use crate::batch::Batch;
use crate::entry_leaves::{LeafFound, LeafPlace, LeafSearch};
use crate::families::{Database, Family};
use crate::keys::IndexId;
use crate::leaf::Leaf;
use crate::options::PlantedFault;
use crate::snapshot::Snapshot;

/// No sequence number: no leaf is kept.
const NEVER: u64 = u64::MAX;
/// The number of changes that are noted while no leaf is used.
const PATIENCE: i64 = 1 << 14;
/// The number of searches that get no leaves after they were given up, doubled each time.
const REFUSED: u32 = 32;
const GIVEN_UP_MAX: u32 = 16;

/// Whether leaves of an index are kept.
#[derive(Debug)]
pub struct LeafSwitch {
    /// Whether writers remove the leaves that they change.
    are_noted: AtomicBool,
    /// The sequence number from which on all writers do. [`NEVER`] until that is known.
    since: AtomicU64,
    /// The number of changes that are still noted while no leaf is used.
    patience: AtomicI64,
    /// Held by who switches.
    turn: Mutex<Turn>,
}

/// The progress of switching leaves on.
#[derive(Debug, Default)]
struct Turn {
    /// The first latch that has not been seen free since writers were informed.
    busy: usize,
    /// The number of times that leaves were given up.
    given_up: u32,
    /// The number of searches that still get none.
    refused: u32,
}

impl LeafSwitch {
    /// No leaves are kept yet. The second search wants them.
    pub fn off() -> Self {
        Self {
            are_noted: AtomicBool::new(false),
            since: AtomicU64::new(NEVER),
            patience: AtomicI64::new(PATIENCE),
            turn: Mutex::new(Turn { refused: 1, ..Turn::default() }),
        }
    }

    /// Notes that a write, whose latches are held, adds or removes the entry with this key.
    #[inline]
    pub fn note(&self, batch: &mut Batch<'_>, key: &[u8]) {
        if self.are_noted.load(Ordering::Acquire) {
            self.note_in(batch, key);
        }
    }

    fn note_in(&self, batch: &mut Batch<'_>, key: &[u8]) {
        if batch.database().fault() == PlantedFault::LeavesNotNoted {
            return;
        }
        batch.note_entry(key);
        // For nothing, again and again: the index is written and seldom searched.
        if self.patience.fetch_sub(1, Ordering::Relaxed) < 0
            && let Some(mut turn) = self.turn.try_lock()
            && self.are_noted.load(Ordering::Acquire)
        {
            turn.given_up = (turn.given_up + 1).min(GIVEN_UP_MAX);
            turn.refused = REFUSED << turn.given_up;
            // In this order: a reader who sees a write that was not noted finds no leaf.
            self.since.store(NEVER, Ordering::Release);
            self.are_noted.store(false, Ordering::Release);
        }
    }

    /// Begins to keep leaves. Called again until writes from before have ended: none of them is waited for.
    fn begin(&self, database: &Database) {
        let Some(mut turn) = self.turn.try_lock() else { return };
        if self.since() != NEVER || !database.leaves().has_room() {
            return;
        }
        if !self.are_noted.load(Ordering::Acquire) {
            if turn.refused > 0 {
                turn.refused -= 1;
                return;
            }
            turn.busy = 0;
            self.patience.store(PATIENCE, Ordering::Relaxed);
            self.are_noted.store(true, Ordering::Release);
        }
        let is_early = database.fault() == PlantedFault::LeavesUsedEarly;
        match database.live_starts().latches().filter(|_| !is_early) {
            // Each was free once since writers were informed, so what is written from now on is noted.
            Some(latches) => match latches.first_busy(turn.busy) {
                Some(at) => turn.busy = at,
                None => self.since.store(database.latest_sequence(), Ordering::Release),
            },
            None => self.since.store(database.latest_sequence(), Ordering::Release),
        }
    }

    #[inline]
    fn since(&self) -> u64 {
        self.since.load(Ordering::Acquire)
    }

    /// A leaf was used.
    #[inline]
    fn used(&self) {
        if self.patience.load(Ordering::Relaxed) < PATIENCE / 2 {
            self.patience.store(PATIENCE, Ordering::Relaxed);
        }
    }
}

impl Snapshot {
    /// Looks for a leaf with the entries that the snapshot has.
    pub fn find_leaf(&self, search: LeafSearch<'_>, switch: &LeafSwitch) -> LeafFound {
        // After the snapshot was taken: see `LeafSwitch::note_in`.
        let (since, database) = (switch.since(), self.database());
        if since == NEVER {
            switch.begin(database);
            return LeafFound::Absent(None);
        }
        if since > self.sequence() || self.staged(Family::Entries).is_some() {
            return LeafFound::Absent(None);
        }
        let found = database.leaves().find(search, since..=self.sequence());
        if matches!(found, LeafFound::Leaf(_)) {
            switch.used();
        }
        found
    }

    /// Keeps a leaf of all entries that the snapshot has between its keys, unless a write may have changed them since its place was given.
    pub fn keep_leaf(&self, place: &LeafPlace, leaf: Leaf) -> Arc<Leaf> {
        let database = self.database();
        database.leaves().keep(place, leaf, self.sequence(), || database.latest_sequence())
    }
}

impl Database {
    /// The leaf with the newest entries of an index from `position` on, if it is kept.
    pub fn newest_leaf(&self, index: IndexId, position: &[u8], switch: &LeafSwitch) -> Option<Arc<Leaf>> {
        let search = LeafSearch { index, position, direction: Direction::Ascending, makes: false };
        let since = switch.since();
        if since == NEVER {
            return None;
        }
        match self.leaves().find(search, since..=u64::MAX) {
            LeafFound::Leaf(leaf) => {
                switch.used();
                Some(leaf)
            }
            LeafFound::Absent(_) => None,
        }
    }
}
