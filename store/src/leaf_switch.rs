//! Whether leaves of an index or of collections are kept in memory.
//!
//! Writers remove leaves only of indexes that are searched. So each index has a number from which on all writes do, and a leaf counts only if
//! it is not older than that. What follows is as true of collections and their records.

use std::sync::atomic::Ordering;

use base::sync::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Mutex};

use crate::latch::Latches;
use crate::options::PlantedFault;

/// No sequence number: no leaf is kept.
pub(crate) const NEVER: u64 = u64::MAX;
/// The number of changes that are noted while no leaf is used.
const PATIENCE: i64 = 1 << 14;
/// The number of searches that get no leaves after they were given up, doubled each time.
const REFUSED: u32 = 32;
const GIVEN_UP_MAX: u32 = 16;
/// The number of leaves that were made in vain, one after the other, before only one in so many that are wanted is made.
const IN_VAIN_MAX: u32 = 8;
const MADE_OF_VAIN: u32 = 16;

/// Whether leaves of an index are kept, or of collections. Each has a line of the processor's cache of its own: writers of other collections
/// look at theirs.
#[derive(Debug)]
#[repr(align(64))]
pub struct LeafSwitch {
    /// Whether writers remove the leaves that they change.
    are_noted: AtomicBool,
    /// The sequence number from which on all writers do. [`NEVER`] until that is known.
    since: AtomicU64,
    /// The number of changes that are still noted while no leaf is used.
    patience: AtomicI64,
    /// The number of leaves that were made in vain lately, and of those that were not made for that reason.
    in_vain: AtomicU32,
    left_out: AtomicU32,
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
            in_vain: AtomicU32::new(0),
            left_out: AtomicU32::new(0),
            turn: Mutex::new(Turn { refused: 1, ..Turn::default() }),
        }
    }

    /// Whether a write, whose latches are held, must note that it adds or removes an entry.
    #[inline]
    pub(crate) fn notes(&self, fault: PlantedFault) -> bool {
        self.are_noted.load(Ordering::Acquire) && self.counts_note(fault)
    }

    fn counts_note(&self, fault: PlantedFault) -> bool {
        if fault == PlantedFault::LeavesNotNoted {
            return false;
        }
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
        true
    }

    /// Begins to keep leaves. Called again until writes from before have ended: none of them is waited for.
    ///
    /// `latches` are those that writers hold, and `latest` gives the sequence number of the newest write.
    pub(crate) fn begin(&self, latches: Option<&Latches>, latest: impl FnOnce() -> u64) {
        let Some(mut turn) = self.turn.try_lock() else { return };
        if self.since() != NEVER {
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
        // Each was free once since writers were informed, so what is written from now on is noted.
        match latches.and_then(|latches| latches.first_busy(turn.busy)) {
            Some(at) => turn.busy = at,
            None => self.since.store(latest(), Ordering::Release),
        }
    }

    /// The sequence number from which on all writers note what they change.
    #[inline]
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Acquire)
    }

    /// A leaf was used.
    #[inline]
    pub(crate) fn used(&self) {
        if self.patience.load(Ordering::Relaxed) < PATIENCE / 2 {
            self.patience.store(PATIENCE, Ordering::Relaxed);
            // What is used for long is not given up for long.
            if let Some(mut turn) = self.turn.try_lock() {
                turn.given_up /= 2;
            }
        }
    }

    /// Whether a leaf may be made. Where those that were made were of no use, few are.
    pub fn may_make(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) < IN_VAIN_MAX
            || self.left_out.fetch_add(1, Ordering::Relaxed).is_multiple_of(MADE_OF_VAIN)
    }

    /// A leaf was made, and then it was of use or not.
    pub fn made(&self, is_of_use: bool) {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let in_vain = if is_of_use { in_vain / 2 } else { (in_vain + 1).min(2 * IN_VAIN_MAX) };
        self.in_vain.store(in_vain, Ordering::Relaxed);
    }
}
