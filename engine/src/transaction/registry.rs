//! All open transactions of a store, and their limits.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::error::{Error, ErrorKind, Result};
use base::sync::{AtomicUsize, Mutex};
use query::code::Code;
use store::latch::{OfHash, Owner};
use store::snapshot::Snapshot;

use crate::changes::kept::LogLimits;
use crate::outcomes::generations::TokenLimits;

/// How many transactions may be open.
const OPEN_MAX: usize = 10_000;
/// How many bytes all of them together may stage.
const STAGED_BYTES_MAX: usize = 256 << 20;

/// The limits of the transactions, the tokens and the log of changes of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long one may last, from its first statement on.
    pub(crate) lifetime: Duration,
    /// How long one may last from the first turn of a sequence on that it keeps: other writers wait.
    pub(crate) turn_lifetime: Duration,
    /// How many bytes one may stage.
    pub(crate) bytes: usize,
    /// How tokens are remembered, of transactions and of single calls.
    pub(crate) tokens: TokenLimits,
    /// How much of the log of changes is kept.
    pub(crate) log: LogLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(60),
            turn_lifetime: Duration::from_secs(10),
            bytes: 64 << 20,
            tokens: TokenLimits::default(),
            log: LogLimits::default(),
        }
    }
}

/// The open transactions of a store.
pub(crate) struct Transactions {
    limits: Limits,
    open: Mutex<Listing>,
    staged_bytes: AtomicUsize,
}

/// What ends when its time is over.
pub(crate) trait Expires: Send + Sync {
    fn expire(&self);
}

#[derive(Default)]
struct Listing {
    by_owner: HashMap<Owner, Listed, BuildHasherDefault<OfHash>>,
    /// What the sessions read that keep one state each, by its time and a number of their own.
    kept: BTreeMap<(StateTime, u64), Kept>,
    last_kept: u64,
    /// The last time that was given to a state.
    last_time: StateTime,
    /// Set when the store is closed: none begins any more, and all that are left are to end.
    is_closed: bool,
}

/// The time of a state that is kept. No two states of a store have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateTime {
    pub(crate) seconds: u32,
    pub(crate) counter: u32,
}

/// A state that a session keeps.
struct Kept {
    session: Weak<dyn Expires>,
    snapshot: Weak<Snapshot>,
}

/// Keeps a state on the list of its store.
pub(super) struct KeptPlace {
    all: Arc<Transactions>,
    place: (StateTime, u64),
}

struct Listed {
    transaction: Weak<dyn Expires>,
    /// When its time is over.
    ends: Instant,
}

impl Listing {
    /// The clock, or a moment after the last time that was given.
    fn next_time(&mut self) -> StateTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        let StateTime { seconds: last, counter } = self.last_time;
        self.last_time = if seconds > last {
            StateTime { seconds, counter: 1 }
        } else {
            StateTime { seconds: last, counter: counter.saturating_add(1) }
        };
        self.last_time
    }
}

impl KeptPlace {
    pub(super) fn time(&self) -> StateTime {
        self.place.0
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        // A forked child waits for no lock of its parent's.
        if !store::fork::is_child() {
            self.all.open.lock().kept.remove(&self.place);
        }
    }
}

impl Transactions {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, open: Mutex::default(), staged_bytes: AtomicUsize::new(0) }
    }

    pub(super) fn lifetime(&self) -> Duration {
        self.limits.lifetime
    }

    pub(super) fn turn_lifetime(&self) -> Duration {
        self.limits.turn_lifetime
    }

    /// Lists a transaction that has begun.
    pub(super) fn add(&self, owner: Owner, began: Instant, transaction: Weak<dyn Expires>) -> Result<()> {
        let mut open = self.open.lock();
        if open.is_closed {
            return Err(Error::new(ErrorKind::Closed));
        }
        if open.by_owner.len() >= OPEN_MAX {
            let message = format!("{OPEN_MAX} transactions are open already");
            return Err(Error::new(ErrorKind::Transaction { message }));
        }
        open.by_owner.insert(owner, Listed { transaction, ends: began + self.limits.lifetime });
        Ok(())
    }

    /// Keeps a state for a session that reads nothing else: a new one, which `take` makes, or the one of a time. Fails with code 239
    /// if no session keeps that.
    pub(super) fn keep_state(
        self: &Arc<Self>,
        time: Option<StateTime>,
        session: Weak<dyn Expires>,
        take: impl FnOnce() -> Arc<Snapshot>,
    ) -> Result<(Arc<Snapshot>, KeptPlace)> {
        let mut open = self.open.lock();
        if open.is_closed {
            return Err(Error::new(ErrorKind::Closed));
        }
        let (time, snapshot) = match time {
            None => (open.next_time(), take()),
            Some(time) => {
                let mut of_time = open.kept.range((time, 0)..=(time, u64::MAX));
                let found = of_time.find_map(|(_, kept)| kept.snapshot.upgrade());
                (time, found.ok_or_else(|| not_kept(time))?)
            }
        };
        open.last_kept += 1;
        let place = (time, open.last_kept);
        open.kept.insert(place, Kept { session, snapshot: Arc::downgrade(&snapshot) });
        Ok((snapshot, KeptPlace { all: Arc::clone(self), place }))
    }

    /// Lets a transaction last only as long as one that keeps a turn.
    pub(super) fn shorten(&self, owner: Owner) {
        if let Some(listed) = self.open.lock().by_owner.get_mut(&owner) {
            listed.ends = listed.ends.min(Instant::now() + self.limits.turn_lifetime);
        }
    }

    /// Removes a transaction that has staged `bytes` bytes.
    pub(super) fn remove(&self, owner: Owner, bytes: usize) {
        self.open.lock().by_owner.remove(&owner);
        self.staged_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Accounts for a transaction that has staged `after` bytes where it was `before`.
    pub(super) fn resize(&self, before: usize, after: usize) -> Result<()> {
        let all = if after >= before {
            let more = after - before;
            self.staged_bytes.fetch_add(more, Ordering::Relaxed) + more
        } else {
            self.staged_bytes.fetch_sub(before - after, Ordering::Relaxed)
        };
        if after > self.limits.bytes {
            let message =
                format!("a transaction may stage {} bytes, and this one has {after}", self.limits.bytes);
            return Err(Error::command(Code::TRANSACTION_TOO_LARGE, message));
        }
        if all > STAGED_BYTES_MAX {
            let message = format!("all transactions together may stage {STAGED_BYTES_MAX} bytes");
            return Err(Error::command(Code::EXCEEDED_MEMORY_LIMIT, message));
        }
        Ok(())
    }

    /// Ends those whose time is over.
    pub(crate) fn expire(&self) {
        // Not under the lock: what ends removes itself from the list.
        let over: Vec<Arc<dyn Expires>> = {
            let (now, open) = (Instant::now(), self.open.lock());
            let over = open.by_owner.values().filter(|listed| open.is_closed || listed.ends <= now);
            let over = over.filter_map(|listed| listed.transaction.upgrade());
            // The state of a session is kept as long as the session is.
            let kept = open.kept.values().filter(|_| open.is_closed);
            over.chain(kept.filter_map(|kept| kept.session.upgrade())).collect()
        };
        for transaction in over {
            transaction.expire();
        }
    }

    /// Ends all of them, because the store is being closed. One whose statement runs ends with it, and none begins any more.
    pub(crate) fn close(&self) {
        self.open.lock().is_closed = true;
        self.expire();
    }
}

#[cold]
fn not_kept(time: StateTime) -> Error {
    let StateTime { seconds, counter } = time;
    let message = format!("no session keeps the state of the time ({seconds}, {counter})");
    Error::command(Code::SNAPSHOT_TOO_OLD, message)
}
