//! The log of changes in memory: its clock, what it is known to have, and the write of a batch with events.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use base::error::{Error, Result};
use base::lock_order::{self, Place};
use base::namespace::Namespace;
use base::sync::{AtomicU64, Mutex, RwLock};
use bson::Timestamp;
use index::key::Direction;
use query::operation::OperationContext;
use store::handles::Storage;
use store::keys::{META_LOG, META_LOG_LOW, META_LOG_MARK, META_LOGGED, split_event_key};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};
use store::{Database, Family, OpenMode};

use crate::changes::kept::{Counting, Kept, LogLimits};
use crate::changes::rounds::Rounds;
use crate::changes::scopes::{Scope, is_logged, names_over};
use crate::options::{ChangeLogging, PlantedFault};

/// How many seconds the mark is ahead of the clock.
const MARK_AHEAD: u64 = 10;

thread_local! {
    /// The position that the next write of the thread has. Only a planted fault gets one as early.
    static TAKEN_EARLY: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The log of changes of a store.
pub(crate) struct ChangeLog {
    pub(crate) rounds: Arc<Rounds>,
    /// Held while the mark is raised.
    raising: Mutex<()>,
    /// How much is kept.
    pub(super) limits: LogLimits,
    pub(super) kept: Mutex<Kept>,
    pub(super) counting: Mutex<Counting>,
    /// The mark with which this life of the store began.
    pub(super) opened_at: u64,
    /// When a stream was last seen open, as a position.
    used_at: AtomicU64,
    /// The latest time that was given.
    reported: AtomicU64,
    /// The position and ordinal of the last event that was forgotten.
    low: RwLock<(u64, u32)>,
    /// Which log it is. `None` until something is logged.
    id: RwLock<Option<LogId>>,
    /// The names under which changes are logged, each with the position from which on all of them are. Zero while that is being
    /// switched on.
    scopes: RwLock<BTreeMap<String, u64>>,
}

/// The id of a log.
pub(crate) type LogId = [u8; 8];

/// The position of the newest event that is stored. 0 if there is none.
fn last_position(snapshot: &Arc<Snapshot>) -> Result<u64> {
    let unlimited = OperationContext::unlimited();
    let scan = Scan::open(snapshot, Family::Changes, (Vec::new(), None), CacheUse::Bypass, &unlimited);
    let mut scan = scan.towards(Direction::Descending);
    Ok(if scan.advance()? { split_event_key(scan.key()).map_or(0, |(position, _)| position) } else { 0 })
}

/// The stored state of the log, without its events.
pub(crate) struct Stored {
    pub(crate) id: Option<LogId>,
    pub(crate) mark: u64,
    /// The position and ordinal of the last event that was forgotten, with all before it.
    pub(crate) low: (u64, u32),
    pub(crate) scopes: BTreeMap<String, u64>,
}

impl ChangeLog {
    /// The log as it is stored. Fails if what is stored of it is damaged.
    pub(crate) fn load(database: &Arc<Database>, limits: LogLimits, mode: OpenMode) -> Result<Self> {
        let snapshot = Snapshot::take(database);
        let Stored { id, mark, low, scopes } = stored(&snapshot, &OperationContext::unlimited())?;
        let first = if database.fault() == PlantedFault::LogMarkIgnored {
            0
        } else if mode.is_read_only() && !scopes.is_empty() {
            // A folder of an older format has nothing that is logged, and no family for it. Another process may go on to write, at
            // positions below the mark, which is ahead of the clock.
            last_position(&snapshot)?.max(scopes.values().copied().max().unwrap_or(0))
        } else {
            mark
        };
        Ok(Self {
            rounds: Arc::new(Rounds::after(first)),
            raising: Mutex::new(()),
            limits,
            kept: Mutex::default(),
            counting: Mutex::default(),
            opened_at: mark,
            used_at: AtomicU64::new(now()),
            reported: AtomicU64::new(0),
            low: RwLock::new(low),
            id: RwLock::new(id),
            scopes: RwLock::new(scopes),
        })
    }

    /// Whether changes of a collection with this name are logged, or will be in a moment.
    pub(crate) fn covers(&self, namespace: &Namespace) -> bool {
        let scopes = self.scopes.read();
        is_logged(namespace) && names_over(namespace).iter().any(|name| scopes.contains_key(name))
    }

    /// Whether that a database is dropped is logged.
    pub(crate) fn covers_database(&self, db: &str) -> bool {
        let any = Namespace { db: db.to_owned(), coll: String::new() };
        let scopes = self.scopes.read();
        is_logged(&any) && (scopes.contains_key(db) || scopes.contains_key(""))
    }

    /// The position from which on all changes of a scope are logged. `None` if they are not.
    pub(crate) fn began(&self, scope: &Scope) -> Option<u64> {
        let scopes = self.scopes.read();
        let names = scope.names();
        names.iter().filter_map(|name| scopes.get(name)).copied().filter(|began| *began > 0).min()
    }

    /// Notes since when changes under a name are logged. Zero: that is being switched on.
    pub(crate) fn set_scope(&self, name: &str, began: u64) {
        self.scopes.write().insert(name.to_owned(), began);
    }

    /// Notes a collection of the catalog while that is read. A library that knows no log has made those that are not logged though they
    /// are in a scope: it is not known what happened to them.
    pub(crate) fn note_collection(&self, namespace: &Namespace, is_logged: bool) {
        if !is_logged && self.covers(namespace) {
            let mut scopes = self.scopes.write();
            for name in names_over(namespace) {
                scopes.entry(name).and_modify(|began| *began = 0);
            }
        }
    }

    /// Whether no stream was open for as long as events are kept. Asked from time to time, also while one is.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_unused_at(now())
    }

    pub(super) fn is_unused_at(&self, now: u64) -> bool {
        if self.rounds.has_streams() {
            self.used_at.store(now, Ordering::Relaxed);
        }
        let seconds = (now >> 32).saturating_sub(self.used_at.load(Ordering::Relaxed) >> 32);
        self.is_used() && self.logging() != ChangeLogging::Always && seconds > self.limits.age.as_secs()
    }

    /// The collections whose changes are logged.
    pub(crate) fn logging(&self) -> ChangeLogging {
        self.limits.logging
    }

    /// Whether changes under a name are logged by that name itself.
    pub(crate) fn has_scope(&self, name: &str) -> bool {
        self.scopes.read().contains_key(name)
    }

    /// Forgets that changes are logged under a name.
    pub(crate) fn forget_scope(&self, name: &str) {
        self.scopes.write().remove(name);
    }

    /// Forgets what is logged, unless a stream is open: one that is opened from now on finds nothing logged. Returns the names.
    pub(crate) fn take_scopes(&self) -> Option<Vec<String>> {
        let mut scopes = self.scopes.write();
        // Under the lock: who opens a stream is counted before it looks for scopes.
        (!self.rounds.has_streams()).then(|| std::mem::take(&mut *scopes).into_keys().collect())
    }

    pub(crate) fn id(&self) -> Option<LogId> {
        *self.id.read()
    }

    pub(crate) fn set_id(&self, id: LogId) {
        *self.id.write() = Some(id);
    }

    /// The position and ordinal of the last event that was forgotten, with all before it. Zeros if none was.
    pub(crate) fn low(&self) -> (u64, u32) {
        *self.low.read()
    }

    /// Notes that events are forgotten, before they are.
    pub(super) fn set_low(&self, low: (u64, u32)) {
        *self.low.write() = low;
    }

    /// Whether anything is logged.
    pub(crate) fn is_used(&self) -> bool {
        !self.scopes.read().is_empty()
    }

    /// Whether no token of this life of the store or an earlier one can have the position.
    pub(crate) fn is_ahead(&self, position: u64) -> bool {
        position > self.last().max(self.opened_at)
    }

    /// The highest position that was given.
    pub(crate) fn last(&self) -> u64 {
        self.rounds.positions.last()
    }

    /// The position up to which everything that was logged can be read.
    pub(crate) fn watermark(&self) -> u64 {
        self.rounds.watermark()
    }

    /// The time up to which everything that was logged can be read.
    pub(crate) fn operation_time(&self) -> Timestamp {
        timestamp(self.rounds.watermark())
    }

    /// The time of this moment: what is logged later, or is being written, is after it. While nothing is logged it is later than every time
    /// before.
    pub(crate) fn time(&self) -> Timestamp {
        // Counters begin at 1, as in MongoDB.
        let position = if self.is_used() { self.watermark() } else { self.rounds.positions.take(now() | 1) };
        // While the log is switched on nothing can be read up to a time that was given before.
        let reported = self.reported.load(Ordering::Relaxed);
        if reported < position {
            self.reported.fetch_max(position, Ordering::Relaxed);
        }
        timestamp(position.max(reported))
    }

    /// Notes that a stream is opened.
    pub(crate) fn note_use(&self) {
        self.used_at.store(now(), Ordering::Relaxed);
    }

    /// The names under which it is not known what was logged.
    pub(crate) fn unknown_scopes(&self) -> Vec<String> {
        let scopes = self.scopes.read();
        scopes.iter().filter(|(_, began)| **began == 0).map(|(name, _)| name.clone()).collect()
    }

    /// Uses a position without an event: what was logged before is below it, and what is logged later above.
    pub(crate) fn take_position(&self, storage: Storage<'_>) -> Result<u64> {
        let position = self.rounds.positions.take(now());
        self.admit(storage, position)?;
        Ok(position)
    }

    /// Writes a batch by `write`, which does not sync it. The events of the batch get a position. The caller holds the latches, or the
    /// gate alone, of what is written.
    pub(crate) fn write<'b>(
        &self,
        storage: Storage<'_>,
        mut batch: Batch<'b>,
        write: impl FnOnce(Batch<'b>) -> Result<()>,
    ) -> Result<()> {
        if !batch.has_events() {
            return write(batch);
        }
        let registered = self.rounds.positions.register();
        let position = match self.taken_early(storage) {
            None => self.take_position(storage)?,
            Some(position) => position,
        };
        self.rounds.note_event(position);
        let mut apart = None;
        if storage.database.fault() == PlantedFault::EventsApart {
            apart = Some(batch.split_events());
        }
        let bytes = batch.events_bytes() as u64;
        batch.place_events(position);
        let mut written = write(batch);
        if let (Some(mut events), Ok(())) = (apart, &written) {
            events.place_events(position);
            written = storage.store.commit(events, CommitLevel::Delayed);
        }
        // One that comes to light at the next opening is counted then.
        if written.is_ok() {
            self.kept.lock().add(position, bytes, self.limits);
        }
        match &written {
            // It may come to light at the next opening: no reader passes it before that is known.
            Err(error) if error.is_commit_unknown() => registered.leave_unknown(),
            Ok(()) | Err(_) => drop(registered),
        }
        self.rounds.settle(storage);
        // A sync that came before the registration ended has made a round without it, and no other one may come.
        let is_durable = storage.store.durable_sequence() >= storage.database.latest_sequence();
        if storage.database.is_in_memory() || is_durable {
            self.rounds.wake();
        }
        written
    }

    /// Gets the position of the next write of the thread. Only a planted fault does so before it has its latches.
    #[cold]
    pub(crate) fn take_early(&self) {
        TAKEN_EARLY.set(Some(self.rounds.positions.take(now())));
    }

    #[inline]
    fn taken_early(&self, storage: Storage<'_>) -> Option<u64> {
        if storage.database.fault() != PlantedFault::PositionsTakenEarly {
            return None;
        }
        TAKEN_EARLY.take().filter(|position| self.admit(storage, *position).is_ok())
    }

    /// Writes a change of what exists, as [`Store::commit_definition`](store::Store::commit_definition) does, with its events.
    pub(crate) fn commit_definition(&self, storage: Storage<'_>, batch: Batch<'_>) -> Result<()> {
        self.write(storage, batch, |batch| storage.store.commit_definition(batch))
    }

    /// Makes sure that no later life of the store gives a position again.
    fn admit(&self, storage: Storage<'_>, position: u64) -> Result<()> {
        let known = &self.rounds.mark;
        if position <= known.load(Ordering::Acquire) {
            return Ok(());
        }
        let _place = lock_order::take(Place::LogMark);
        let _raising = self.raising.lock();
        if position > known.load(Ordering::Acquire) {
            let mark = position.saturating_add(MARK_AHEAD << 32);
            let mut batch = Batch::new(storage.database);
            batch.put(Family::Meta, META_LOG_MARK, &mark.to_be_bytes());
            storage.store.commit(batch, CommitLevel::Journaled)?;
            known.store(mark, Ordering::Release);
        }
        Ok(())
    }

    /// Stages the mark for a close in order: the next life goes on just there.
    pub(crate) fn save(&self, batch: &mut Batch<'_>) {
        if self.rounds.mark.load(Ordering::Acquire) > 0 {
            batch.put(Family::Meta, META_LOG_MARK, &self.last().to_be_bytes());
        }
    }
}

/// The stored state of the log, without its events.
pub(crate) fn stored(snapshot: &Arc<Snapshot>, operation: &OperationContext) -> Result<Stored> {
    let id = number(snapshot, META_LOG)?.map(u64::to_be_bytes);
    let mark = number(snapshot, META_LOG_MARK)?.unwrap_or_default();
    let low = snapshot.get(Family::Meta, META_LOG_LOW)?.map_or(Ok((0, 0)), |low| {
        split_event_key(&low)
            .ok_or_else(|| damaged(META_LOG_LOW, "the value has another length than 12 bytes"))
    })?;
    let bounds = (vec![META_LOGGED], Some(vec![META_LOGGED + 1]));
    let mut scan = Scan::open(snapshot, Family::Meta, bounds, CacheUse::Fill, operation);
    let mut scopes = BTreeMap::new();
    while scan.advance()? {
        let name = scan.key().get(1..).and_then(|name| str::from_utf8(name).ok());
        let began = <[u8; 8]>::try_from(scan.value()).ok().map(u64::from_be_bytes);
        let (name, began) =
            name.zip(began).ok_or_else(|| damaged(scan.key(), "no name has changes logged since then"))?;
        scopes.insert(name.to_owned(), began);
    }
    Ok(Stored { id, mark, low, scopes })
}

fn number(snapshot: &Snapshot, key: &[u8]) -> Result<Option<u64>> {
    let Some(value) = snapshot.get(Family::Meta, key)? else { return Ok(None) };
    let number = <[u8; 8]>::try_from(&*value).ok().map(u64::from_be_bytes);
    number.map(Some).ok_or_else(|| damaged(key, "the value has another length than 8 bytes"))
}

fn damaged(key: &[u8], reason: &str) -> Error {
    Error::corruption(Family::Meta.name(), key, reason)
}

/// The key of a name under which changes are logged.
pub(crate) fn scope_key(name: &str) -> Vec<u8> {
    [&[META_LOGGED][..], name.as_bytes()].concat()
}

/// The position of this second, without a counter.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().min(u64::from(u32::MAX)) << 32
}

/// A position as the time that it is.
pub(crate) fn timestamp(position: u64) -> Timestamp {
    let part = |part: u64| u32::try_from(part & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Timestamp { time: part(position >> 32), increment: part(position) }
}

/// The position that a time is.
pub(crate) fn position(time: Timestamp) -> u64 {
    u64::from(time.time) << 32 | u64::from(time.increment)
}
