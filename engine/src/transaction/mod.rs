//! Transactions: what one reads, what it has staged, and how it ends.
//!
//! A transaction reads the state of its first statement, with its own changes over it. What it writes is staged in memory, and
//! each key that it writes is claimed: two transactions that want one key meet when the second claims it, and not when it
//! commits. A plain writer asks for no claims. It leaves notes of its keys under their latches, and the transaction looks at
//! them when it claims and when it commits. See `store::latch`.

pub(crate) mod made;
pub(crate) mod numbers;
pub(crate) mod reads;
pub(crate) mod registry;
pub(crate) mod stage;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use base::namespace::Namespace;
use base::sync::{self, AtomicBool, Mutex};
use query::code::Code;
use query::operation::{Allowance, CancellationToken, OperationContext};
use sequence::allocator::{Sequence, Turn};
use store::latch::{Latches, Owner};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::collection::CollectionState;
use crate::catalog::sequences::SequenceState;
use crate::options::PlantedFault;
use crate::transaction::made::MadeCollections;
use crate::transaction::reads::Reads;
use crate::transaction::registry::{Expires, KeptPlace, StateTime, Transactions};
use crate::transaction::stage::Stage;

/// How long a transaction waits for the turn of a sequence.
const TURN_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long it does so without a look at whether its statement must end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A transaction that was started. Its session and its cursors share it.
pub(crate) struct Transaction {
    latches: Arc<Latches>,
    all: Arc<Transactions>,
    isolation: Isolation,
    /// Looked at by its handles also between statements.
    made: Arc<MadeCollections>,
    /// Ends the statement that runs when the time of the transaction is over.
    token: CancellationToken,
    /// The limits of statements that compute nothing.
    operation: OperationContext,
    phase: Mutex<Phase>,
    /// Whether that is `Open`: cursors ask for each document.
    is_open: AtomicBool,
}

/// What a transaction promises of what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// It is of one moment.
    Snapshot,
    /// And it is still so when the transaction commits, if that writes.
    Serializable,
    /// It is not a transaction, but a session that reads one state as long as it lasts: a new one, or that of a time.
    OneState(Option<StateTime>),
}

enum Phase {
    /// There was no statement yet.
    New,
    Open(Box<Open>),
    Ended(End),
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    Aborted,
    /// Its time was over.
    Expired,
    /// Whether its commit was made is known when the store is opened again.
    Unknown,
}

/// A transaction that writes, and the collection that it writes to.
#[derive(Clone, Copy)]
pub(crate) struct Staging<'a> {
    pub(crate) open: &'a Open,
    pub(crate) state: &'a Arc<CollectionState>,
}

/// A transaction that has begun to read. Dropping it gives back all that it holds, and nothing of it is stored.
pub(crate) struct Open {
    /// What claims keys. Absent if it only reads one state, which no writer has to note anything for.
    pub(crate) owner: Option<Owner>,
    /// Its place among the states that are kept.
    kept: Option<KeptPlace>,
    latches: Arc<Latches>,
    all: Arc<Transactions>,
    /// The state that it reads, without what it has staged.
    start: Arc<Snapshot>,
    pub(crate) made: Arc<MadeCollections>,
    began: Instant,
    stage: Mutex<Stage>,
}

impl Transaction {
    pub(crate) fn new(latches: &Arc<Latches>, all: &Arc<Transactions>, isolation: Isolation) -> Arc<Self> {
        let token = CancellationToken::new();
        let allowance = Allowance { tokens: vec![token.clone()], ..Allowance::default() };
        Arc::new(Self {
            latches: Arc::clone(latches),
            all: Arc::clone(all),
            isolation,
            made: Arc::default(),
            token,
            operation: OperationContext::new(allowance),
            phase: Mutex::new(Phase::New),
            is_open: AtomicBool::new(false),
        })
    }

    /// The collections that it has made.
    pub(crate) fn made(&self) -> &MadeCollections {
        &self.made
    }

    /// What ends its statements.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The operation of a statement that computes nothing and has no limit of its own.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// The error of a statement that failed before it was one. If the time of the transaction is over, that is why.
    pub(crate) fn reason_of(&self, error: Error) -> Error {
        if self.token.is_cancelled() { End::Expired.refusal() } else { error }
    }

    /// Runs a statement. The first one fixes the state that all of them read. An error of the statement aborts the transaction, as
    /// in MongoDB: a part of a statement cannot be undone alone.
    pub(crate) fn statement<R>(
        self: &Arc<Self>,
        database: &Arc<Database>,
        operation: &OperationContext,
        run: impl FnOnce(&Open) -> Result<R>,
    ) -> Result<R> {
        let done = self.run_statement(database, operation, run);
        // Its time was over while the statement ran, which may not have noticed. Others may wait for what it holds.
        if self.token.is_cancelled() {
            self.end_as(End::Expired);
        }
        done
    }

    fn run_statement<R>(
        self: &Arc<Self>,
        database: &Arc<Database>,
        operation: &OperationContext,
        run: impl FnOnce(&Open) -> Result<R>,
    ) -> Result<R> {
        let mut phase = sync::lock_for(operation, &self.phase)?;
        if let Phase::New = &*phase {
            *phase = Phase::Open(Box::new(self.begin(database, operation)?));
            self.is_open.store(true, Ordering::Relaxed);
        }
        let done = match &*phase {
            Phase::Open(open) => run(open),
            Phase::New => Err(Error::invalid_argument("a transaction was not begun")),
            Phase::Ended(end) => return Err(end.refusal()),
        };
        done.map_err(|error| {
            // What only reads goes on.
            if self.reads_one_state() {
                return error;
            }
            let is_over = is_over(&phase);
            self.end(&mut phase, if is_over { End::Expired } else { End::Aborted });
            if is_over { exceeded() } else { error }
        })
    }

    fn begin(self: &Arc<Self>, database: &Arc<Database>, operation: &OperationContext) -> Result<Open> {
        let listed: Weak<Self> = Arc::downgrade(self);
        let (owner, kept, start) = if let Isolation::OneState(time) = self.isolation {
            let (start, place) = self.all.keep_state(time, listed, || Snapshot::take(database))?;
            (None, Some(place), start)
        } else {
            let take = || {
                let snapshot = Snapshot::take(database);
                (snapshot.sequence(), snapshot)
            };
            let (owner, start) = self.latches.begin(operation, take)?;
            (Some(owner), None, start)
        };
        let stage = Mutex::new(match self.isolation {
            Isolation::Serializable => Stage::remembering(),
            Isolation::Snapshot | Isolation::OneState(_) => Stage::default(),
        });
        let (latches, all) = (Arc::clone(&self.latches), Arc::clone(&self.all));
        let (made, began) = (Arc::clone(&self.made), Instant::now());
        // Dropped if it is refused, and then nothing is left of it.
        let open = Open { owner, kept, latches, all, start, made, began, stage };
        if let Some(owner) = owner {
            let listed: Weak<Self> = Arc::downgrade(self);
            self.all.add(owner, began, listed)?;
        }
        Ok(open)
    }

    /// Whether it is not a transaction, but a session that reads one state.
    fn reads_one_state(&self) -> bool {
        matches!(self.isolation, Isolation::OneState(_))
    }

    /// The time of the one state that it reads. `None` if it has read nothing yet.
    pub(crate) fn state_time(&self) -> Option<StateTime> {
        match &*self.phase.lock() {
            Phase::Open(open) => open.kept.as_ref().map(KeptPlace::time),
            Phase::New | Phase::Ended(_) => None,
        }
    }

    /// The error of a call that it cannot have.
    #[cold]
    pub(crate) fn refused(&self, what: &str) -> Error {
        if !self.reads_one_state() {
            return refused_within(what);
        }
        let message = format!(
            "{what} cannot be done in a snapshot session, which reads by find, aggregate and distinct"
        );
        Error::command(Code::INVALID_OPTIONS, message)
    }

    /// Refuses a write that is not a part of a transaction.
    pub(crate) fn admit_write(&self, what: &str) -> Result<()> {
        if self.reads_one_state() { Err(self.refused(what)) } else { Ok(()) }
    }

    /// Begins to read, if there was no statement: a commit with a token is one of something.
    pub(crate) fn open_if_new(
        self: &Arc<Self>,
        database: &Arc<Database>,
        operation: &OperationContext,
    ) -> Result<()> {
        let is_new = matches!(*self.phase.lock(), Phase::New);
        if is_new { self.statement(database, operation, |_| Ok(())) } else { Ok(()) }
    }

    /// Ends the transaction by `commit`. Returns `Ok` without calling it if there was no statement, or if it is committed.
    pub(crate) fn commit(
        &self,
        operation: &OperationContext,
        commit: impl FnOnce(&Open) -> Result<()>,
    ) -> Result<()> {
        let mut phase = sync::lock_for(operation, &self.phase)?;
        let done = match &*phase {
            Phase::New | Phase::Ended(End::Committed) => Ok(()),
            Phase::Ended(end) => return Err(end.refusal()),
            Phase::Open(_) if is_over(&phase) => Err(End::Expired.refusal()),
            Phase::Open(open) => commit(open),
        };
        let end = match &done {
            Ok(()) => End::Committed,
            Err(error) if error.is_commit_unknown() => End::Unknown,
            Err(_) => End::Aborted,
        };
        self.end(&mut phase, end);
        done
    }

    /// Gives up what was staged. What only reads has nothing to give up.
    pub(crate) fn abort(&self) {
        if !self.reads_one_state() {
            self.end_as(End::Aborted);
        }
    }

    fn end_as(&self, end: End) {
        let mut phase = self.phase.lock();
        if !matches!(*phase, Phase::Ended(_)) {
            self.end(&mut phase, end);
        }
    }

    fn end(&self, phase: &mut Phase, end: End) {
        *phase = Phase::Ended(end);
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// Ends the transaction because its time is over. Returns `false` if a statement or the commit runs.
    fn expire_at_rest(&self) -> bool {
        let Some(mut phase) = self.phase.try_lock() else { return false };
        if matches!(&*phase, Phase::Open(_)) {
            self.end(&mut phase, End::Expired);
        }
        true
    }

    /// Whether it reads and writes still.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // What a cursor reads does not depend on it: the state is kept as long as the cursor.
        self.is_open.load(Ordering::Relaxed)
    }
}

impl Expires for Transaction {
    /// Aborts the transaction, because its time is over. A statement that runs is ended.
    fn expire(&self) {
        if !self.expire_at_rest() {
            self.token.cancel();
            // The statement may have ended before it could see that. Else it does at its end.
            self.expire_at_rest();
        }
    }
}

impl Open {
    /// The sequence number of the state that it reads.
    pub(crate) fn sequence(&self) -> u64 {
        self.start.sequence()
    }

    /// What it reads now: the state of its first statement, with what is staged over it.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let stage = self.stage.lock();
        if stage.overlay().is_empty() {
            return Arc::clone(&self.start);
        }
        self.start.under(Arc::clone(stage.overlay()))
    }

    /// The value of a key as it reads it now.
    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(staged) = self.stage.lock().overlay().get(family, key) {
            return Ok(staged.as_deref().map(<[u8]>::to_vec));
        }
        self.start.get(family, key)
    }

    /// Whether it has staged the removal of a key, or a value for it. `None` if it has staged nothing there.
    pub(crate) fn has_staged(&self, family: Family, key: &[u8]) -> Option<bool> {
        self.stage.lock().overlay().get(family, key).map(Option::is_some)
    }

    /// A record of the state that it began with.
    pub(crate) fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.start.get(Family::Records, key)
    }

    /// Fails if a collection is not what it was when the transaction began: it could not read it rightly any more.
    pub(crate) fn check(&self, collection: &CollectionState) -> Result<()> {
        if collection.is_as_of(self.sequence()) || self.start.fault() == PlantedFault::SinceNotCompared {
            return Ok(());
        }
        Err(changed_since(&format!("the collection {}", collection.namespace)))
    }

    /// Claims a key that is to be written. Fails if it was written since the transaction began, or another one has it.
    pub(crate) fn claim(&self, key: &[u8], operation: &OperationContext) -> Result<()> {
        let hash = store::latch::hash_of(key);
        let mut stage = self.stage.lock();
        if stage.has_claimed(hash) {
            return Ok(());
        }
        let Some(owner) = self.owner else { return Err(conflict()) };
        if !self.latches.claim(hash, owner, self.sequence(), operation)? {
            return Err(conflict());
        }
        stage.add_claim(hash);
        Ok(())
    }

    /// The turn of an ordered or gapless sequence, which the transaction keeps from now on to its end. It is waited for in the order in
    /// which all writers wait; else it is acquired if it is free.
    pub(crate) fn turn<'s>(
        &self,
        sequence: &'s Arc<SequenceState>,
        operation: &OperationContext,
    ) -> Result<Turn<'s>> {
        let may_wait = {
            let mut stage = self.stage.lock();
            let numbers = stage.numbers();
            if let Some(turn) = numbers.turn_of(sequence) {
                return Ok(turn);
            }
            numbers.may_wait_for(sequence.identity.id)
        };
        let began = Instant::now();
        let kept = loop {
            let patience = if may_wait { LOOK_INTERVAL } else { Duration::ZERO };
            if let Some(kept) = Sequence::keep_turn(&sequence.sequence, patience) {
                break kept;
            }
            if !may_wait {
                return Err(conflict());
            }
            operation.look()?;
            if began.elapsed() >= TURN_WAIT_MAX {
                return Err(turn_not_free(sequence));
            }
        };
        // Others may wait from now on, so it may last less long.
        if let Some(owner) = self.owner {
            self.all.shorten(owner);
        }
        let mut stage = self.stage.lock();
        stage.numbers().keep_turn(sequence, kept);
        stage.numbers().turn_of(sequence).ok_or_else(conflict)
    }

    /// Whether its time is over.
    fn is_over(&self) -> bool {
        let has_lasted = |since: Option<Instant>, time| since.is_some_and(|since| since.elapsed() >= time);
        self.owner.is_some() && has_lasted(Some(self.began), self.all.lifetime())
            || has_lasted(self.stage.lock().numbers().turn_since(), self.all.turn_lifetime())
    }

    /// Remembers the read of a record by its key, or without one a search, if the transaction is to be serializable.
    pub(crate) fn note_read(&self, collection: &Arc<CollectionState>, key: Option<&[u8]>) -> Result<()> {
        self.note(|reads| match key {
            Some(key) => reads.add_key(collection, store::latch::hash_of(key)),
            None => reads.add_search(collection),
        })
    }

    /// Remembers that nothing has a name.
    pub(crate) fn note_absent(&self, namespace: &Namespace) -> Result<()> {
        self.note(|reads| reads.add_absent(namespace))
    }

    /// Remembers that a view was read.
    pub(crate) fn note_view(&self) -> Result<()> {
        self.note(Reads::add_view)
    }

    fn note(&self, note: impl FnOnce(&mut Reads)) -> Result<()> {
        if self.stage.lock().reads().is_none() {
            return Ok(());
        }
        self.change(|stage| stage.reads_mut().map(note)).map(|_| ())
    }

    /// Changes what is staged. Fails if that becomes more than a transaction, or all of them, may keep.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Stage) -> R) -> Result<R> {
        let mut stage = self.stage.lock();
        let before = stage.bytes();
        let changed = change(&mut stage);
        self.all.resize(before, stage.bytes())?;
        Ok(changed)
    }

    /// Looks at what is staged.
    pub(crate) fn stage(&self) -> sync::MutexGuard<'_, Stage> {
        self.stage.lock()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A forked child touches nothing of its parent's.
        if store::fork::is_child() {
            return;
        }
        let Some(owner) = self.owner else { return };
        let sequence = self.sequence();
        let mut stage = self.stage.lock();
        self.latches.end(owner, sequence, stage.take_claims());
        self.all.remove(owner, stage.bytes());
    }
}

impl End {
    /// Why a statement or a commit is refused after this end.
    fn refusal(self) -> Error {
        let (code, message) = match self {
            Self::Unknown => {
                let message = "a commit of the transaction failed before".to_owned();
                let error = Error::new(ErrorKind::CommitUnknown { message });
                return error.with_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
            }
            Self::Committed => (Code::TRANSACTION_COMMITTED, "the transaction has been committed"),
            Self::Aborted => (Code::NO_SUCH_TRANSACTION, "the transaction has been aborted"),
            Self::Expired => {
                (Code::NO_SUCH_TRANSACTION, "the transaction has been aborted, because its time was over")
            }
        };
        let error = Error::command(code, message);
        if self == Self::Committed { error } else { error.with_label(TRANSIENT_TRANSACTION_ERROR) }
    }
}

/// Whether the time of a transaction is over.
fn is_over(phase: &Phase) -> bool {
    matches!(phase, Phase::Open(open) if open.is_over())
}

/// The error of a transaction that met a write of another one, or a plain one.
#[cold]
pub(crate) fn conflict() -> Error {
    let message = "the transaction conflicts with another write: it may be tried again from its beginning";
    Error::command(Code::WRITE_CONFLICT, message).with_label(TRANSIENT_TRANSACTION_ERROR)
}

/// The error of a name that is another one, or none, since the transaction began.
#[cold]
pub(crate) fn names_changed() -> Error {
    changed_since("a collection or a view")
}

/// The error of what is not as it was when the transaction began.
#[cold]
pub(crate) fn changed_since(what: &str) -> Error {
    let message =
        format!("{what} was changed since the transaction began: it may be tried again from its beginning");
    Error::command(Code::SNAPSHOT_UNAVAILABLE, message).with_label(TRANSIENT_TRANSACTION_ERROR)
}

#[cold]
fn turn_not_free(sequence: &SequenceState) -> Error {
    let message = format!(
        "the turn of the sequence '{}' was not free for {} seconds",
        sequence.identity.name,
        TURN_WAIT_MAX.as_secs()
    );
    Error::command(Code::LOCK_TIMEOUT, message).with_label(TRANSIENT_TRANSACTION_ERROR)
}

#[cold]
fn exceeded() -> Error {
    let message = "the transaction has lasted longer than transactions may";
    Error::command(Code::TRANSACTION_EXCEEDED_LIFETIME, message).with_label(TRANSIENT_TRANSACTION_ERROR)
}

/// Refuses a call that no transaction can have.
#[cold]
pub(crate) fn refused_within(what: &str) -> Error {
    let message = format!("{what} cannot be done within a transaction");
    Error::command(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message)
}
