//! A session, and the ends of its transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::error::{Error, ErrorKind, Result, TRANSIENT_TRANSACTION_ERROR};
use bson::{Document, Timestamp, Uuid, doc};
use query::code::Code;
use store::fork;

use crate::options::WriteConcern;
use crate::outcomes::once::Once;
use crate::outcomes::retryable::RetryableWrite;
use crate::outcomes::token::Token;
use crate::session::commit::Commit;
use crate::session::options::TransactionOptions;
use crate::shared::{Caller, Shared};
use crate::tickets::DurabilityTicket;
use crate::transaction::registry::StateTime;
use crate::transaction::{Isolation, Transaction};

/// Calls that belong together, and their transaction.
///
/// It is made by [`Client::start_session`](crate::Client::start_session). A verb becomes a part of it by `.session(&mut session)`. Dropping
/// it aborts its transaction.
///
/// ```
/// use cairndb::{Client, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::open(folder.path().join("db"))?;
/// let accounts = client.database("bank").collection::<Document>("accounts");
/// accounts.insert_many([doc! { "_id": "Ada", "has": 100 }, doc! { "_id": "Grace", "has": 0 }]).run()?;
///
/// let mut session = client.start_session().run()?;
/// session.start_transaction().run()?;
/// accounts.update_one(doc! { "_id": "Ada" }, doc! { "$inc": { "has": -30 } }).session(&mut session).run()?;
/// accounts.update_one(doc! { "_id": "Grace" }, doc! { "$inc": { "has": 30 } }).session(&mut session).run()?;
/// // Others do not see it yet.
/// assert_eq!(accounts.find_one(doc! { "_id": "Ada" }).run()?, Some(doc! { "_id": "Ada", "has": 100 }));
/// session.commit_transaction().run()?;
/// assert_eq!(accounts.find_one(doc! { "_id": "Grace" }).run()?, Some(doc! { "_id": "Grace", "has": 30 }));
/// # Ok(())
/// # }
/// ```
pub struct ClientSession {
    shared: Arc<Shared>,
    caller: Caller,
    id: Document,
    defaults: TransactionOptions,
    /// The state that it reads, if it is a snapshot session.
    snapshot: Option<Arc<Transaction>>,
    state: State,
    /// The token of the transaction that is in progress.
    pub(super) once: Option<Arc<Once>>,
    /// Whether what runs the transaction commits it, and nothing else may.
    pub(super) is_kept: bool,
}

enum State {
    /// No transaction was started yet.
    None,
    InProgress {
        transaction: Arc<Transaction>,
        options: TransactionOptions,
    },
    Committed {
        transaction: Arc<Transaction>,
        options: TransactionOptions,
    },
    Aborted,
}

impl ClientSession {
    pub(super) fn new(shared: Arc<Shared>, caller: Caller, defaults: TransactionOptions) -> Self {
        let id = doc! { "id": Uuid::new() };
        Self { shared, caller, id, defaults, snapshot: None, state: State::None, once: None, is_kept: false }
    }

    /// The session as one that reads one state: a new one, or that of a time.
    pub(super) fn of_snapshot(mut self, time: Option<StateTime>) -> Self {
        let (store, transactions) = (&self.shared.store, &self.shared.transactions);
        let snapshot = Transaction::new(&store.latches, transactions, Isolation::OneState(time));
        self.snapshot = Some(snapshot);
        self
    }

    /// The time of the state that a snapshot session reads. `None` before its first read.
    ///
    /// Another session that is started with this [`snapshot_time`](crate::action::StartSession::snapshot_time) reads the same state, as long as a
    /// session has it.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut session = client.start_session().snapshot(true).run()?;
    /// assert_eq!(people.count_documents(doc! {}).session(&mut session).run()?, 1);
    /// people.insert_one(doc! { "_id": 2 }).run()?;
    /// let time = session.snapshot_time().expect("it has read");
    /// let mut other = client.start_session().snapshot(true).snapshot_time(time).run()?;
    /// assert_eq!(people.count_documents(doc! {}).session(&mut other).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        let StateTime { seconds, counter } = self.snapshot.as_ref()?.state_time()?;
        Some(Timestamp { time: seconds, increment: counter })
    }

    /// The id of the session: a document with a UUID.
    pub fn id(&self) -> &Document {
        &self.id
    }

    /// Whether a transaction was started that is not committed or aborted yet.
    pub fn in_transaction(&self) -> bool {
        matches!(self.state, State::InProgress { .. })
    }

    /// Returns a ticket for all that the session has written until now, and with it all earlier writes of others. What an open transaction
    /// has staged is not written yet.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.insert_one(doc! { "name": "Ada" }).session(&mut session).run()?;
    /// session.commit_transaction().run()?;
    /// session.durability_ticket()?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability_ticket(&self) -> Result<DurabilityTicket> {
        DurabilityTicket::of_now(&self.shared)
    }

    /// Stores what the transaction has written, all of it or nothing.
    ///
    /// Fails with code 112 (`WriteConflict`) and the label [`TRANSIENT_TRANSACTION_ERROR`](crate::TRANSIENT_TRANSACTION_ERROR) if a
    /// document of it was written by another since it began. Again after a success it returns `Ok`.
    pub fn commit_transaction(&mut self) -> CommitTransaction<'_> {
        CommitTransaction { session: self, concern: None, time: None, numbered: None, token: None }
    }

    /// Gives up what the transaction has written.
    pub fn abort_transaction(&mut self) -> AbortTransaction<'_> {
        AbortTransaction { session: self }
    }

    /// The transaction that a statement on a handle of a client is a part of.
    pub(crate) fn statement_of(&self, shared: &Arc<Shared>) -> Result<Option<Arc<Transaction>>> {
        if !Arc::ptr_eq(&self.shared, shared) {
            return Err(Error::invalid_argument("the session is of another client than the collection"));
        }
        if self.snapshot.is_some() {
            return Ok(self.snapshot.clone());
        }
        match &self.state {
            State::InProgress { transaction, .. } => Ok(Some(Arc::clone(transaction))),
            State::None | State::Committed { .. } | State::Aborted => Ok(None),
        }
    }

    /// Whether a cursor was opened by this session's transaction.
    pub(super) fn has(&self, transaction: &Arc<Transaction>) -> bool {
        if let Some(snapshot) = &self.snapshot {
            return Arc::ptr_eq(snapshot, transaction);
        }
        match &self.state {
            State::InProgress { transaction: own, .. } => Arc::ptr_eq(own, transaction),
            State::None | State::Committed { .. } | State::Aborted => false,
        }
    }

    /// Starts a transaction, with a token if it has one.
    pub(super) fn begin(&mut self, options: TransactionOptions, once: Option<Arc<Once>>) -> Result<()> {
        self.check_begin()?;
        let options = options.or(&self.defaults);
        options.check()?;
        self.shared.commit_level(options.write_concern.as_ref())?;
        let (store, transactions) = (&self.shared.store, &self.shared.transactions);
        let transaction = Transaction::new(&store.latches, transactions, options.isolation());
        self.state = State::InProgress { transaction, options };
        self.once = once;
        self.is_kept = false;
        Ok(())
    }

    /// Does not start a transaction in a session that cannot have one now.
    pub(super) fn check_begin(&self) -> Result<()> {
        if self.snapshot.is_some() {
            return Err(refused("Transactions are not supported in snapshot sessions"));
        }
        if self.in_transaction() {
            return Err(refused("transaction already in progress"));
        }
        if self.is_kept {
            // Its effect would not be known by the token.
            return Err(refused("the function of a transaction with a token cannot start another one"));
        }
        Ok(())
    }

    /// The state that calls of the session share, their caller, and the options of its transactions.
    pub(super) fn terms(&self) -> (&Arc<Shared>, &Caller, &TransactionOptions) {
        (&self.shared, &self.caller, &self.defaults)
    }

    /// Whether the transaction has begun to read and was not ended since, by its time for example.
    #[doc(hidden)]
    pub fn has_open_transaction(&self) -> bool {
        matches!(&self.state, State::InProgress { transaction, .. } if transaction.is_open())
    }

    pub(super) fn commit(&mut self, asked: TransactionOptions, numbered: Option<Numbered<'_>>) -> Result<()> {
        fork::refuse_child()?;
        if self.is_kept {
            return Err(refused(
                "the function of a transaction with a token cannot commit it: that is done after it",
            ));
        }
        let (transaction, options) = match &self.state {
            State::None => return Err(refused("no transaction started")),
            State::Aborted => {
                return Err(refused("Cannot call commitTransaction after calling abortTransaction"));
            }
            State::InProgress { transaction, options } | State::Committed { transaction, options } => {
                (Arc::clone(transaction), asked.or(options))
            }
        };
        let was_committed = matches!(self.state, State::Committed { .. });
        // What is committed is not written again.
        let numbered = numbered.filter(|_| !was_committed);
        let once = self.once.take();
        let done = self.commit_as(&transaction, &options, (numbered, once.as_deref()));
        if done.is_err() {
            // A store that is closed was not even asked. Nothing is to be held for a transaction that is over for its session.
            transaction.abort();
        }
        self.state = State::Committed { transaction, options: options.clone() };
        done?;
        if was_committed {
            // Maybe by a commit that was to be less safe.
            let level = self.shared.commit_level(options.write_concern.as_ref())?;
            let database = self.shared.store.enter()?;
            self.shared.store.reach(&database, level)?;
        }
        Ok(())
    }

    fn commit_as(
        &self,
        transaction: &Arc<Transaction>,
        options: &TransactionOptions,
        kept: (Option<Numbered<'_>>, Option<&Once>),
    ) -> Result<()> {
        let (numbered, once) = kept;
        let row = numbered.map(|numbered| numbered.write.commit_row());
        let commit = Commit {
            shared: &self.shared,
            caller: &self.caller,
            concern: options.write_concern.as_ref(),
            max_time: options.max_commit_time,
            row: row.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice())),
            once,
        };
        let Some(Numbered { write, is_ended }) = numbered else { return commit.run(transaction) };
        // Another command of the session would be answered from the rows that were there before.
        let operation = self.shared.operation(&self.caller, options.max_commit_time);
        self.shared.turns.alone(write.session(), &operation, || {
            if is_ended.is_some_and(|is_ended| is_ended.load(Ordering::SeqCst)) {
                return Err(session_ended());
            }
            write.admit(&*self.shared.store.enter()?)?;
            commit.run(transaction)
        })
    }

    pub(super) fn abort(&mut self) -> Result<()> {
        fork::refuse_child()?;
        match &self.state {
            State::None => return Err(refused("no transaction started")),
            State::Committed { .. } => {
                return Err(refused("Cannot call abortTransaction after calling commitTransaction"));
            }
            State::Aborted => return Err(refused("cannot call abortTransaction twice")),
            State::InProgress { transaction, .. } => transaction.abort(),
        }
        self.state = State::Aborted;
        Ok(())
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        // A forked child waits for no lock of its parent's.
        if let State::InProgress { transaction, .. } = &self.state
            && !fork::is_child()
        {
            transaction.abort();
        }
    }
}

impl std::fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSession").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The action that [`ClientSession::commit_transaction`] returns. [`run`](Self::run) executes it.
#[must_use = "the commit is done by run()"]
pub struct CommitTransaction<'a> {
    session: &'a mut ClientSession,
    concern: Option<WriteConcern>,
    time: Option<Duration>,
    numbered: Option<Numbered<'a>>,
    token: Option<Token>,
}

/// The number of a commit in the session of a client.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'a> {
    write: RetryableWrite,
    /// Set when the session is ended, from where on its commands are answered as if nothing of it ran.
    is_ended: Option<&'a AtomicBool>,
}

impl<'a> CommitTransaction<'a> {
    /// Sets the write concern of the commit, in place of the one that the transaction was started with. A commit that
    /// is repeated with a concern that asks for more waits for that.
    ///
    /// ```
    /// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.delete_one(doc! { "_id": 1 }).session(&mut session).run()?;
    /// session.commit_transaction().run()?;
    /// // Now it is on stable storage.
    /// session.commit_transaction().write_concern(WriteConcern::journaled()).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.concern = Some(concern);
        self
    }

    /// Sets the time that the commit may wait for others, in place of the one that the transaction was started with.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.delete_one(doc! { "_id": 1 }).session(&mut session).run()?;
    /// session.commit_transaction().max_time(Duration::from_secs(5)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Stores with the commit that it was made, for who asks again after a crash. See
    /// [`Client::newest_retryable_write`](crate::Client::newest_retryable_write).
    ///
    /// ```
    /// # use cairndb::{Client, RetryableWrite, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.insert_one(doc! { "_id": 0 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// orders.insert_one(doc! { "_id": 1 }).session(&mut session).run()?;
    /// let write = RetryableWrite::new([1; 16], [0; 16], 5);
    /// session.commit_transaction().retryable(write).run()?;
    /// assert!(client.newest_retryable_write(&write)?.is_some_and(|newest| newest.is_commit));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn retryable(mut self, write: RetryableWrite) -> Self {
        self.numbered = Some(Numbered { write, is_ended: None });
        self
    }

    /// As [`retryable`](Self::retryable), but does not commit if the client's session was ended before, which sets `is_ended`. So
    /// a caller that asks for the newest write of the session after that does not miss this one.
    ///
    /// ```
    /// # use std::sync::atomic::AtomicBool;
    /// # use cairndb::{Client, RetryableWrite, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// orders.insert_one(doc! { "_id": 1 }).session(&mut session).run()?;
    /// let (write, is_ended) = (RetryableWrite::new([1; 16], [0; 16], 5), AtomicBool::new(true));
    /// let refused = session.commit_transaction().retryable_unless(write, &is_ended).run();
    /// assert_eq!(refused.expect_err("the session was ended").code(), Some(251));
    /// assert_eq!(orders.count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn retryable_unless(mut self, write: RetryableWrite, is_ended: &'a AtomicBool) -> Self {
        self.numbered = Some(Numbered { write, is_ended: Some(is_ended) });
        self
    }

    /// Gives the commit a token, as [`StartTransaction::exactly_once`](crate::action::StartTransaction::exactly_once) does: how a server
    /// does it, which learns the token with the commit.
    ///
    /// Fails with code 256 (`TransactionCommitted`) if a transaction of that token is committed already. Then this one is aborted.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut session = client.start_session().run()?;
    /// let mut commit = |id| {
    ///     session.start_transaction().run()?;
    ///     orders.insert_one(doc! { "_id": id }).session(&mut session).run()?;
    ///     session.commit_transaction().exactly_once("cart 17").run()
    /// };
    /// commit(1)?;
    /// assert_eq!(commit(2).expect_err("it was done").code(), Some(256));
    /// assert_eq!(orders.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn exactly_once(mut self, token: impl Into<Token>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Commits.
    pub fn run(self) -> Result<()> {
        let Self { session, concern, time, numbered, token } = self;
        if let Some(token) = token {
            session.take_token(&token, concern.as_ref())?;
        }
        let asked = TransactionOptions {
            write_concern: concern.clone(),
            max_commit_time: time,
            ..TransactionOptions::default()
        };
        let once = session.once.clone();
        session
            .commit(asked, numbered)
            .map_err(|error| session.overtaken(once.as_deref(), error, concern.as_ref()))
    }
}

/// The action that [`ClientSession::abort_transaction`] returns. [`run`](Self::run) executes it.
#[must_use = "the abort is done by run()"]
pub struct AbortTransaction<'a> {
    session: &'a mut ClientSession,
}

impl AbortTransaction<'_> {
    /// Aborts.
    pub fn run(self) -> Result<()> {
        self.session.abort()
    }
}

#[cold]
fn session_ended() -> Error {
    let message = "the transaction has been aborted, because its session was ended";
    Error::command(Code::NO_SUCH_TRANSACTION, message).with_label(TRANSIENT_TRANSACTION_ERROR)
}

/// The error of a session that cannot do what it is asked to, in the words of MongoDB's driver.
fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Transaction { message: message.to_owned() })
}
