//! The quota: how many bytes the folder of a database may have on the disk.
//!
//! A write is charged before it is made with the most that it adds: to the log now, and to a table once its memtable is
//! flushed. What compactions use while they run is kept free for them, and more for deletes, which must be possible when
//! nothing else is. Charging is a subtraction from a credit. When the credit is used up, the folder is measured, and what it
//! has left is the new credit. If that is too little, the write waits as long as work that makes room is running, and is then
//! rejected as on a full disk. The states of a write are drawn in `admission`.
//!
//! ```text
//! | files | memtables, pending writes | credit of puts | deletes | compactions |
//! |<------------------------------ the quota ------------------------------->|
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use base::metrics::report::QuotaMetrics;
use base::sync::{self, AtomicBool, AtomicU64, Mutex};

use crate::families::Database;
use crate::quota::admission::{LastRefusal, Next, is_known};
use crate::quota::charge::Charge;
use crate::quota::gate::Gate;
use crate::quota::room::Room;
use crate::quota::state::{Charged, Deleted, Quota, Refused};

mod admission;
pub(super) mod charge;
pub(super) mod gate;
mod reclaim;
mod room;
pub(super) mod state;
pub(super) mod watch;
mod worker;

pub(super) use self::room::COMPACTION_MEMTABLES;

/// The smallest quota that is accepted, in bytes.
pub const DISK_QUOTA_MIN: u64 = 32 << 20;

/// The pause between two measurements of a write that waits.
const NAP: Duration = Duration::from_millis(5);
/// The part of the quota that one memtable has. Levels, files and compactions have a few times that, so that what is kept
/// free for them is a small part of the quota.
const MEMTABLES: u64 = 384;
/// The number of memtables that are kept free for deletes.
const DELETES: u64 = 16;
/// The quota is mostly used if less than this part of it is free.
const FREE_PART: u64 = 8;
/// The smallest memtable, in bytes.
const MEMTABLE_MIN: u64 = 64 << 10;

/// The limit of a memtable under a quota, in bytes.
pub(super) fn memtable_bytes(quota: u64) -> u64 {
    (quota / MEMTABLES).max(MEMTABLE_MIN)
}

impl Database {
    /// Sets a quota of `limit` bytes, with memtables of `memtable` bytes and a gate that compactions pass.
    pub(super) fn limited_to(self, limit: u64, memtable: u64, gate: Arc<Gate>) -> Result<Self> {
        let quota = Quota::of(limit, memtable, &self, gate)?;
        // A table that is made at once must be no larger than one that a compaction makes.
        Ok(self.with_quota(quota, memtable))
    }

    /// Makes sure that the folder has room for a file of `bytes` bytes that is not RocksDB's own, or for as many bytes
    /// more of one.
    pub fn make_room_for_file(&self, bytes: usize) -> Result<()> {
        match self.quota() {
            Some(quota) => quota.admit(self, Charge::file(bytes)).map(drop),
            None => self.admit_to_disk(|| Ok(Charge::file(bytes).on_disk())),
        }
    }
}

impl Quota {
    /// The quota of `limit` bytes for the folder of a database with memtables of `memtable` bytes.
    fn of(limit: u64, memtable: u64, database: &Database, gate: Arc<Gate>) -> Result<Self> {
        let pending = AtomicU64::new(0);
        let room = Room::measure(database, memtable, &pending)?;
        Ok(Self {
            limit,
            memtable,
            most: limit.max(room.taken() + room.kept() + DELETES * memtable),
            puts: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            measuring: Mutex::new(()),
            gate,
            pending,
            is_full: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            is_pinned: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            refused: Mutex::new(None),
            deleting: Mutex::new(()),
            deleted: Deleted::default(),
        })
    }

    /// Charges a write. Fails if the folder has no room for it, and nothing makes any.
    pub(super) fn admit(&self, database: &Database, charge: Charge) -> Result<Charged<'_>> {
        let Charge { bytes, is_delete, .. } = charge;
        // Pending before it is paid: a measurement between the two counts it once too often, and never too seldom.
        let charged = Charged::new(&self.pending, bytes);
        if sync::subtract(if is_delete { &self.deletes } else { &self.puts }, bytes) {
            // A larger one was rejected, and there is room for others.
            if !is_delete && self.is_full() {
                self.is_full.store(false, Ordering::Relaxed);
            }
            return Ok(charged);
        }
        drop(charged);
        if is_delete { self.make_room_for_delete(database, bytes) } else { self.make_room(database, bytes) }
    }

    /// Whether a write was rejected, and none was admitted since.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether most of the quota is used, or kept free for compactions and deletes.
    pub(super) fn is_mostly_used(&self, database: &Database) -> bool {
        let room = Room::measure(database, self.memtable, &self.pending);
        let free =
            room.map(|room| self.limit.saturating_sub(room.taken() + room.kept() + self.for_deletes()));
        free.is_ok_and(|free| free < self.limit / FREE_PART)
    }

    /// The measurement for the metrics.
    pub(super) fn measure(&self, database: &Database) -> QuotaMetrics {
        let used = Room::measure(database, self.memtable, &self.pending).map_or(0, |room| room.files);
        let mut metrics = QuotaMetrics::default();
        metrics.limit_bytes = self.limit;
        metrics.used_bytes = used;
        metrics.is_full = self.is_full();
        metrics
    }

    #[cold]
    fn make_room(&self, database: &Database, bytes: u64) -> Result<Charged<'_>> {
        let arrived = Instant::now();
        let mut has_asked = false;
        let mut refused = self.refused.lock();
        // It has waited beside a write that was rejected, and so for as long.
        let has_waited = refused.as_ref().is_some_and(|refused| refused.at > arrived);
        loop {
            // Before the measurement: what ends in between makes it be repeated.
            let is_busy = self.is_busy(database);
            if let Some(charged) = self.pay_pending(&self.puts, bytes) {
                return Ok(charged);
            }
            let reclaimed = self.deleted.reclaimed() + database.spill_space().freed();
            let last = refused.as_ref().map(|refused| LastRefusal {
                bytes: refused.bytes,
                ago: refused.at.elapsed(),
                is_outdated: refused.reclaimed != reclaimed,
            });
            if is_known(bytes, last, is_busy || !self.deleted.is_empty()) {
                self.is_full.store(true, Ordering::Relaxed);
                return Err(self.refusal(bytes, None));
            }
            let measuring = self.measuring.lock();
            let room = Room::measure(database, self.memtable, &self.pending)?;
            let free = self.limit.saturating_sub(room.taken() + room.kept() + self.for_deletes());
            let waited = arrived.elapsed();
            let put = admission::Put { bytes, limit: self.limit, waited, has_waited_beside: has_waited };
            match put.next(free, || is_busy || self.ask_to_reclaim(&mut has_asked)) {
                Next::Credit(credit) => {
                    self.puts.store(credit, Ordering::Release);
                    self.is_full.store(false, Ordering::Relaxed);
                }
                Next::Wait => {
                    drop(measuring);
                    sync::sleep(NAP);
                }
                // Only deletes are forced.
                Next::Force(_) | Next::Refuse => {
                    self.is_full.store(true, Ordering::Relaxed);
                    *refused = Some(Refused { at: Instant::now(), bytes, reclaimed });
                    return Err(self.refusal(bytes, Some(room)));
                }
            }
        }
    }

    #[cold]
    fn make_room_for_delete(&self, database: &Database, bytes: u64) -> Result<Charged<'_>> {
        let arrived = Instant::now();
        let mut has_asked = false;
        let _deleting = self.deleting.lock();
        // So much is admitted at a time when nothing makes room.
        let step = bytes.max(self.memtable / 4);
        loop {
            let is_busy = self.is_busy(database);
            if let Some(charged) = self.pay_pending(&self.deletes, bytes) {
                return Ok(charged);
            }
            let measuring = self.measuring.lock();
            let room = Room::measure(database, self.memtable, &self.pending)?;
            let free = self.most.saturating_sub(room.taken() + room.compactions);
            let (waited, kept) = (arrived.elapsed(), self.for_deletes());
            let delete = admission::Delete { bytes, waited, step, kept };
            let makes_room = || is_busy || self.ask_to_reclaim(&mut has_asked);
            let has_room_for = |step: u64| {
                // They make room, but not as long as a cursor keeps what they deleted. Once it ends, what was replaced goes, and
                // there must be room for the next compaction.
                let is_kept = room::may_be_pinned(database);
                let then = if is_kept { room.compactions.saturating_sub(room.replaced) } else { 0 };
                room.taken() + then + step <= self.most
            };
            match delete.next(free, makes_room, has_room_for) {
                Next::Credit(credit) => self.deletes.store(credit, Ordering::Release),
                Next::Force(credit) => {
                    drop(measuring);
                    self.deletes.store(credit, Ordering::Release);
                }
                Next::Wait => {
                    drop(measuring);
                    sync::sleep(NAP);
                }
                Next::Refuse => return Err(self.refusal(bytes, Some(room))),
            }
        }
    }

    fn pay_pending(&self, credit: &AtomicU64, bytes: u64) -> Option<Charged<'_>> {
        let charged = Charged::new(&self.pending, bytes);
        sync::subtract(credit, bytes).then_some(charged)
    }

    /// Whether something runs that may make room.
    fn is_busy(&self, database: &Database) -> bool {
        self.deleted.is_reclaiming() || room::is_busy(database, self.is_pinned())
    }

    fn is_pinned(&self) -> bool {
        self.is_pinned.load(Ordering::Acquire)
    }

    /// Asks for what was deleted to be compacted away. Returns `false` if that will make no room: nothing was deleted, or a
    /// reader keeps it, as was found when it was asked for before.
    fn ask_to_reclaim(&self, has_asked: &mut bool) -> bool {
        let is_useless = *has_asked && self.is_kept.load(Ordering::Acquire);
        *has_asked = true;
        !is_useless && self.deleted.reclaim()
    }

    /// Looks whether compactions must pause: because a cursor keeps the tables that they replace, and too little room is left for
    /// both. Then no put has credit either.
    fn must_pause(&self, database: &Database) -> Result<bool> {
        let must_pause = room::may_be_pinned(database) && {
            let _measuring = self.measuring.lock();
            // The space that was kept free when it was given may be used now, and is not given back.
            self.puts.store(0, Ordering::Release);
            let room = Room::measure(database, self.memtable, &self.pending)?;
            room.taken() + room.kept() + self.for_deletes() > self.most
        };
        self.is_paused.store(must_pause, Ordering::Release);
        // The input of a compaction is gone when it ends, if no cursor keeps it. That is looked at then.
        self.is_pinned.store(must_pause && !room::is_compacting(database), Ordering::Release);
        Ok(must_pause)
    }

    /// Whether compactions are paused, as was found last.
    pub(super) fn are_compactions_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// The error of a compaction that was asked for while compactions are paused.
    pub(super) fn pause_refusal(&self) -> Error {
        let limit = self.limit;
        let message = format!(
            "the disk quota of {limit} bytes has no room for a compaction beside what open cursors keep"
        );
        Error::new(ErrorKind::NoSpace { message, during_commit: false })
    }

    /// The bytes that are kept free for deletes.
    fn for_deletes(&self) -> u64 {
        DELETES * self.memtable
    }

    fn refusal(&self, bytes: u64, room: Option<Room>) -> Error {
        let limit = self.limit;
        let details = room.map(|room| {
            let (taken, kept) = (room.taken(), room.kept() + self.for_deletes());
            format!(": {taken} bytes are in use, and {kept} kept free for compactions and deletes")
        });
        let message = format!(
            "the disk quota of {limit} bytes has no room for {bytes} bytes more{}",
            details.unwrap_or_default()
        );
        Error::new(ErrorKind::NoSpace { message, during_commit: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const LIMIT: u64 = 64 << 20;

    fn put(bytes: u64) -> Charge {
        Charge::file(usize::try_from(bytes).expect("few"))
    }

    /// For some milliseconds after a rejection every write was rejected with it, however small it was, from every writer.
    #[test]
    fn a_small_write_has_room_where_a_large_one_was_refused() {
        let fixture = Fixture::new();
        let database = &fixture.database;
        let quota = Quota::of(LIMIT, memtable_bytes(LIMIT), database, Arc::default()).expect("a quota");
        for _ in 0..3 {
            // Without credit, so that the rejection is what decides.
            quota.puts.store(0, Ordering::Release);
            assert!(quota.admit(database, put(LIMIT)).is_err() && quota.is_full());
            // As much, and more, is known to have none.
            assert!(quota.admit(database, put(LIMIT)).is_err());
            assert!(quota.admit(database, put(LIMIT + 1)).is_err());
            assert!(quota.admit(database, put(1000)).is_ok());
            assert!(!quota.is_full(), "there is room");
            // From the credit of that measurement, and not by another one.
            assert!(quota.admit(database, put(LIMIT)).is_err() && quota.is_full());
            assert!(quota.admit(database, put(1000)).is_ok() && !quota.is_full());
        }
    }
}
