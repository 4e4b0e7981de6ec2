//! The numbered commands of one session: its transaction, and what its last number was used for.
//!
//! A driver numbers the transactions and the retryable writes of a session, ascending. The session runs one numbered command at
//! a time, which has its turn until it is answered; who waits for it has no place of the pool. Whatever rejects a statement aborts
//! its transaction.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cairndb::bson::{DateTime, Document, doc};
use cairndb::{CancellationToken, ClientSession, Interruption};
use parking_lot::Mutex;
use query::code::Code;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::failure::Failure;
use crate::remote::RemoteClient;

/// The number of a command in its session, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: i64,
    pub(crate) purpose: Purpose,
}

/// The purpose of a command's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The first statement of a transaction.
    Begin,
    /// A later one, or its end.
    GoOn,
    /// A write that may be sent again.
    Write,
}

impl Numbered {
    /// Whether the command is a statement of a transaction, or its end.
    pub(crate) fn is_of_transaction(self) -> bool {
        self.purpose != Purpose::Write
    }
}

/// Counts of all transactions of the server.
#[derive(Default)]
pub(crate) struct TransactionCounters {
    pub(crate) started: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    /// Those that are in progress.
    pub(crate) open: AtomicU64,
    /// Those of them that run a command.
    pub(crate) active: AtomicU64,
}

impl TransactionCounters {
    pub(crate) fn begin_statement(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_statement(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session that has sent a numbered command.
pub(crate) struct NumberedSession {
    turn: Arc<AsyncMutex<LastNumber>>,
    /// The transaction in progress, as `currentOp` shows it.
    shown: Mutex<Option<ShownTransaction>>,
    /// Ends the command that has its turn.
    running: Mutex<Option<CancellationToken>>,
    /// Whether the session was ended: it gets no more turns.
    is_ended: AtomicBool,
}

/// The last number of a session, and what became of it.
pub(crate) struct LastNumber {
    number: Option<i64>,
    phase: Phase,
    /// The transaction in the engine, and after a commit what repeats it.
    session: Option<ClientSession>,
    /// The cursors that the transaction has opened.
    cursors: HashSet<i64>,
    counters: Arc<TransactionCounters>,
}

/// The use of a session's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A write that may be sent again.
    Write,
    InProgress,
    Committed,
    /// The commit met an error of the disk.
    Unknown,
    Aborted,
}

/// The turn of a numbered command.
pub(crate) struct Turn {
    pub(crate) last: OwnedMutexGuard<LastNumber>,
    session: Arc<NumberedSession>,
}

/// A transaction in progress, as it is shown.
#[derive(Clone)]
pub(crate) struct ShownTransaction {
    pub(crate) number: i64,
    /// The client that has begun it.
    pub(crate) remote: Arc<RemoteClient>,
    since: (Instant, SystemTime),
    /// The time of its statements.
    active: Duration,
    /// Since when a command of it runs.
    running: Option<Instant>,
}

impl NumberedSession {
    pub(crate) fn new(counters: &Arc<TransactionCounters>) -> Arc<Self> {
        let last = LastNumber {
            number: None,
            phase: Phase::Aborted,
            session: None,
            cursors: HashSet::new(),
            counters: Arc::clone(counters),
        };
        Arc::new(Self {
            turn: Arc::new(AsyncMutex::new(last)),
            shown: Mutex::new(None),
            running: Mutex::new(None),
            is_ended: AtomicBool::new(false),
        })
    }

    /// Waits for the turn of a command that `cancellation` ends. Returns `None` if the session was ended meanwhile.
    pub(crate) async fn turn(self: &Arc<Self>, cancellation: &CancellationToken) -> Option<Turn> {
        let last = Arc::clone(&self.turn).lock_owned().await;
        *self.running.lock() = Some(cancellation.clone());
        let turn = Turn { last, session: Arc::clone(self) };
        // Asked after the token is there: who ends the session sets the flag first, and then looks for a token.
        (!self.is_ended.load(Ordering::SeqCst)).then_some(turn)
    }

    /// Set when the session is ended. A commit that has not begun then is not made.
    pub(crate) fn is_ended(&self) -> &AtomicBool {
        &self.is_ended
    }

    /// Marks the session as ended, before another one may begin in its place.
    pub(crate) fn mark_ended(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
    }

    /// Ends the session: its running command is asked to end, and its transaction is aborted, at once or with that command.
    pub(crate) fn end(&self) {
        self.mark_ended();
        if let Some(token) = &*self.running.lock() {
            token.cancel_because(Interruption::Cancelled);
        }
        // Without the turn a command has it, which aborts what it finds when it gives the turn back.
        if let Ok(mut last) = self.turn.try_lock() {
            last.give_up();
            *self.shown.lock() = None;
        }
    }

    /// Aborts a transaction that the engine has ended because its time was over. Returns its cursors.
    pub(crate) fn end_expired(&self) -> HashSet<i64> {
        // A command that runs learns it from the engine.
        let Ok(mut last) = self.turn.try_lock() else { return HashSet::new() };
        if !last.is_over_in_engine() {
            return HashSet::new();
        }
        *self.shown.lock() = None;
        last.abort()
    }

    /// The transaction in progress that runs no command now.
    pub(crate) fn idle(&self) -> Option<ShownTransaction> {
        self.shown.lock().clone().filter(|shown| shown.running.is_none())
    }
}

impl Turn {
    /// The session whose turn it is.
    pub(crate) fn session(&self) -> Arc<NumberedSession> {
        Arc::clone(&self.session)
    }

    /// Shows the transaction that begins, or goes on with a command.
    pub(crate) fn show(&self, number: i64, remote: &Arc<RemoteClient>) {
        let mut shown = self.session.shown.lock();
        let now = Instant::now();
        let of_number = shown.take().filter(|shown| shown.number == number);
        let mut next = of_number.unwrap_or_else(|| ShownTransaction {
            number,
            remote: Arc::clone(remote),
            since: (now, SystemTime::now()),
            active: Duration::ZERO,
            running: None,
        });
        next.running = Some(now);
        *shown = Some(next);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.session.running.lock() = None;
        if self.session.is_ended.load(Ordering::SeqCst) {
            self.last.give_up();
        }
        let mut shown = self.session.shown.lock();
        if self.last.phase != Phase::InProgress {
            *shown = None;
        } else if let Some(shown) = &mut *shown
            && let Some(since) = shown.running.take()
        {
            shown.active += since.elapsed();
        }
    }
}

impl LastNumber {
    /// Begins a transaction with a number that is higher than the last one. `start` starts it in the engine.
    pub(crate) fn begin(
        &mut self,
        number: i64,
        start: impl FnOnce() -> Result<ClientSession, Failure>,
    ) -> Result<HashSet<i64>, Failure> {
        match self.number {
            Some(last) if last > number => return Err(too_old(number, last)),
            Some(last) if last == number => {
                let message = format!(
                    "Cannot start a transaction with the number {number}, which the session has used already"
                );
                return Err(Failure::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, message));
            }
            Some(_) | None => {}
        }
        let cursors = self.abort();
        self.number = Some(number);
        self.phase = Phase::Aborted;
        // A transaction that cannot be started has used up its number, as one whose first statement fails.
        self.session = Some(start()?);
        self.phase = Phase::InProgress;
        self.counters.started.fetch_add(1, Ordering::Relaxed);
        self.counters.open.fetch_add(1, Ordering::Relaxed);
        Ok(cursors)
    }

    /// Fails if the transaction with this number is not in progress.
    pub(crate) fn check_in_progress(&self, number: i64) -> Result<(), Failure> {
        match self.phase_of(number)? {
            Phase::InProgress => Ok(()),
            Phase::Committed => {
                let message = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
                Err(Failure::new(Code::TRANSACTION_COMMITTED, message))
            }
            Phase::Unknown | Phase::Aborted => Err(has_been_aborted(number)),
            Phase::Write => Err(self.no_match(number)),
        }
    }

    /// Sets the number of a write that may be sent again. Returns the cursors of a transaction that it has ended.
    pub(crate) fn write(&mut self, number: i64) -> Result<HashSet<i64>, Failure> {
        match self.number {
            Some(last) if last > number => return Err(too_old(number, last)),
            Some(last) if last == number && self.phase != Phase::Write => {
                let message = format!(
                    "The number {number} of the session is that of a transaction, and not of a write"
                );
                return Err(Failure::new(Code::INVALID_OPTIONS, message));
            }
            Some(_) | None => {}
        }
        let cursors = self.abort();
        self.number = Some(number);
        self.phase = Phase::Write;
        Ok(cursors)
    }

    /// Whether the session has used no number since the server was started.
    pub(crate) fn is_unknown(&self) -> bool {
        self.number.is_none()
    }

    /// Restores the last number of a session from an earlier run of the server.
    pub(crate) fn recall(&mut self, number: i64, is_commit: bool) {
        self.number = Some(number);
        self.phase = if is_commit { Phase::Committed } else { Phase::Write };
    }

    /// The transaction to commit: in progress, or committed before. `None` for one that was committed before the server was
    /// started.
    pub(crate) fn session_to_commit(&mut self, number: i64) -> Result<Option<&mut ClientSession>, Failure> {
        match self.phase_of(number)? {
            Phase::InProgress | Phase::Committed | Phase::Unknown => Ok(self.session.as_mut()),
            Phase::Aborted => Err(has_been_aborted(number)),
            Phase::Write => Err(self.no_match(number)),
        }
    }

    /// Notes the end of a commit. Returns the cursors of the transaction.
    pub(crate) fn end_commit(&mut self, end: CommitEnd) -> HashSet<i64> {
        let was_open = self.phase == Phase::InProgress;
        self.phase = match end {
            CommitEnd::Committed => Phase::Committed,
            CommitEnd::Unknown => Phase::Unknown,
            CommitEnd::Aborted => Phase::Aborted,
        };
        if was_open {
            self.counters.open.fetch_sub(1, Ordering::Relaxed);
            let counter =
                if end == CommitEnd::Committed { &self.counters.committed } else { &self.counters.aborted };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if end == CommitEnd::Aborted {
            self.session = None;
        }
        std::mem::take(&mut self.cursors)
    }

    /// Gives up the transaction in progress, if there is one. Returns its cursors.
    pub(crate) fn abort(&mut self) -> HashSet<i64> {
        if self.phase == Phase::InProgress {
            self.phase = Phase::Aborted;
            self.counters.open.fetch_sub(1, Ordering::Relaxed);
            self.counters.aborted.fetch_add(1, Ordering::Relaxed);
        }
        // Dropping the session aborts its transaction.
        self.session = None;
        std::mem::take(&mut self.cursors)
    }

    /// Gives up the transaction of a number, if it is in progress. Returns its cursors.
    pub(crate) fn abort_number(&mut self, number: i64) -> HashSet<i64> {
        if self.number == Some(number) { self.abort() } else { HashSet::new() }
    }

    /// Gives up what a session that has ended holds. Its cursors end with it.
    fn give_up(&mut self) {
        drop(self.abort());
    }

    /// The transaction in progress.
    pub(crate) fn session(&mut self) -> Option<&mut ClientSession> {
        self.session.as_mut().filter(|_| self.phase == Phase::InProgress)
    }

    /// Notes that the transaction has opened a cursor.
    pub(crate) fn note_cursor(&mut self, id: i64) {
        self.cursors.insert(id);
    }

    /// The number of cursors that the transaction has opened, and not read to the end.
    pub(crate) fn keep_cursors(&mut self, len_max: usize, is_open: impl Fn(i64) -> bool) {
        // Cursors are closed for others, too; most transactions never come here.
        if self.cursors.len() >= len_max {
            self.cursors.retain(|id| is_open(*id));
        }
    }

    /// Notes that a cursor was read to its end.
    pub(crate) fn forget_cursor(&mut self, id: i64) {
        self.cursors.remove(&id);
    }

    /// Whether the engine has ended the transaction that is in progress here.
    pub(crate) fn is_over_in_engine(&self) -> bool {
        self.phase == Phase::InProgress
            && self.session.as_ref().is_none_or(|session| !session.has_open_transaction())
    }

    fn phase_of(&self, number: i64) -> Result<Phase, Failure> {
        match self.number {
            Some(last) if last == number => Ok(self.phase),
            Some(last) if last > number => Err(too_old(number, last)),
            Some(_) | None => Err(self.no_match(number)),
        }
    }

    fn no_match(&self, number: i64) -> Failure {
        // MongoDB's words, and its number for a session without any.
        let last = self.number.unwrap_or(-1);
        let message = format!(
            "Given transaction number {number} does not match any in-progress transactions. The active transaction number is {last}"
        );
        Failure::new(Code::NO_SUCH_TRANSACTION, message)
    }
}

impl Drop for LastNumber {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The end of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitEnd {
    Committed,
    Unknown,
    Aborted,
}

impl ShownTransaction {
    /// The field `transaction` of an idle session in `currentOp`.
    pub(crate) fn shown(&self) -> Document {
        let open = self.since.0.elapsed();
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        doc! {
            "parameters": { "txnNumber": self.number, "autocommit": false },
            "startWallClockTime": DateTime::from_system_time(self.since.1).try_to_rfc3339_string().unwrap_or_default(),
            "timeOpenMicros": micros(open),
            "timeActiveMicros": micros(self.active),
            "timeInactiveMicros": micros(open.saturating_sub(self.active)),
        }
    }
}

fn too_old(number: i64, last: i64) -> Failure {
    let message = format!(
        "Cannot start transaction {number} because a newer transaction with txnNumber {last} has already started on its session."
    );
    Failure::new(Code::TRANSACTION_TOO_OLD, message)
}

fn has_been_aborted(number: i64) -> Failure {
    let message = format!("Transaction with {{ txnNumber: {number} }} has been aborted.");
    Failure::new(Code::NO_SUCH_TRANSACTION, message)
}
