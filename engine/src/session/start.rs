//! Starting sessions and transactions.

use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, Result};
use bson::Timestamp;

use crate::options::WriteConcern;
use crate::outcomes::token::Token;
use crate::session::again::Patience;
use crate::session::handle::ClientSession;
use crate::session::once::StartTransactionOnce;
use crate::session::options::{ReadConcern, TransactionOptions};
use crate::shared::{Caller, Shared};
use crate::transaction::registry::StateTime;

/// The action that [`Client::start_session`](crate::Client::start_session) returns. [`run`](Self::run) executes it.
#[must_use = "the session is started by run()"]
pub struct StartSession<'a> {
    shared: &'a Arc<Shared>,
    caller: &'a Caller,
    defaults: TransactionOptions,
    causal_consistency: Option<bool>,
    snapshot: bool,
    snapshot_time: Option<Timestamp>,
}

impl<'a> StartSession<'a> {
    pub(crate) fn of(shared: &'a Arc<Shared>, caller: &'a Caller) -> Self {
        let defaults = TransactionOptions::default();
        Self { shared, caller, defaults, causal_consistency: None, snapshot: false, snapshot_time: None }
    }

    /// Sets the options of transactions that do not set them themselves.
    pub fn default_transaction_options(mut self, options: TransactionOptions) -> Self {
        self.defaults = options;
        self
    }

    /// Accepted and without effect: each call of a client sees what the calls before it have written.
    pub fn causal_consistency(mut self, is_causal: bool) -> Self {
        self.causal_consistency = Some(is_causal);
        self
    }

    /// Whether all reads of the session are of one moment, that of its first `find`, `aggregate` or `distinct`. Such a session writes
    /// nothing and has no transactions. The state is kept as long as the session: what is overwritten meanwhile uses space.
    ///
    /// Fails with code 246 (`SnapshotUnavailable`) if a collection that is to be read, or one of its indexes, was changed since that moment.
    /// With causal consistency the session cannot be started.
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
    /// assert_eq!(people.count_documents(doc! {}).session(&mut session).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(mut self, is_snapshot: bool) -> Self {
        self.snapshot = is_snapshot;
        self
    }

    /// The state that a snapshot session reads: that of another session, by its
    /// [`snapshot_time`](ClientSession::snapshot_time). The first read fails with code 239 (`SnapshotTooOld`) if no session has it any more.
    ///
    /// [`ClientSession::snapshot_time`] has an example.
    pub fn snapshot_time(mut self, time: Timestamp) -> Self {
        self.snapshot_time = Some(time);
        self
    }

    /// Starts the session.
    pub fn run(self) -> Result<ClientSession> {
        let Self { shared, caller, defaults, causal_consistency, snapshot, snapshot_time } = self;
        if snapshot && causal_consistency == Some(true) {
            let message = "a session cannot be both a snapshot session and causally consistent";
            return Err(Error::invalid_argument(message));
        }
        if snapshot_time.is_some() && !snapshot {
            return Err(Error::invalid_argument("a snapshot time is given to a snapshot session alone"));
        }
        // Fails in a closed client, and in a forked child, before a lock is acquired.
        drop(shared.store.enter()?);
        shared.start_upkeep()?;
        let session = ClientSession::new(Arc::clone(shared), caller.clone(), defaults);
        let time = snapshot_time.map(|time| StateTime { seconds: time.time, counter: time.increment });
        Ok(if snapshot { session.of_snapshot(time) } else { session })
    }
}

impl ClientSession {
    /// Starts a transaction. The first statement fixes the state that all of them read.
    ///
    /// Fails if one is in progress.
    pub fn start_transaction(&mut self) -> StartTransaction<'_> {
        StartTransaction { session: self, options: TransactionOptions::default() }
    }
}

/// The action that [`ClientSession::start_transaction`] returns. [`run`](Self::run) or [`and_run`](Self::and_run) executes it.
#[must_use = "the transaction is started by run()"]
pub struct StartTransaction<'a> {
    session: &'a mut ClientSession,
    options: TransactionOptions,
}

impl<'a> StartTransaction<'a> {
    /// Sets the state that the transaction reads: that of its first statement, at each level that it can have. With
    /// [`ReadConcern::serializable`] the commit looks whether that is still so.
    ///
    /// ```
    /// # use cairndb::{Client, ReadConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().read_concern(ReadConcern::serializable()).run()?;
    /// if people.find_one(doc! { "_id": "Ada" }).session(&mut session).run()?.is_none() {
    ///     people.insert_one(doc! { "_id": "Grace", "alone": true }).session(&mut session).run()?;
    /// }
    /// // Another one came.
    /// people.insert_one(doc! { "_id": "Ada" }).run()?;
    /// assert!(session.commit_transaction().run().is_err_and(|error| error.is_write_conflict()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    /// Sets the write concern: it decides when the commit is acknowledged. The default is as the client was opened.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    /// Sets the time that the commit may wait for others. When it is over, the commit fails with code 50
    /// (`MaxTimeMSExpired`), and nothing is stored.
    pub fn max_commit_time(mut self, time: Duration) -> Self {
        self.options.max_commit_time = Some(time);
        self
    }

    /// Sets all options at once.
    pub fn with_options(mut self, options: impl Into<Option<TransactionOptions>>) -> Self {
        self.options = options.into().unwrap_or_default();
        self
    }

    /// Gives the transaction a token: it is committed once, however often it is run with this token, also after a crash.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut session = client.start_session().run()?;
    /// for _ in 0..2 {
    ///     // The second time the function is not called: the number is that of the first time.
    ///     let number = session.start_transaction().exactly_once("cart 17").and_run(|session| {
    ///         let number = orders.count_documents(doc! {}).session(&mut *session).run()? + 1;
    ///         orders.insert_one(doc! { "number": i64::try_from(number).unwrap_or(0) }).session(&mut *session).run()?;
    ///         Ok(number)
    ///     })?;
    ///     assert_eq!(number, 1);
    /// }
    /// assert_eq!(orders.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn exactly_once(self, token: impl Into<Token>) -> StartTransactionOnce<'a> {
        let Self { session, options } = self;
        StartTransactionOnce::new(session, options, token.into())
    }

    /// Starts the transaction.
    pub fn run(self) -> Result<()> {
        self.session.begin(self.options, None)
    }

    /// Starts a transaction, runs a function in it and commits it. If another writer came first, all of that is tried again, for
    /// two minutes at most. An error of the function aborts the transaction, and is returned.
    ///
    /// The function may be called several times, so it should change nothing but the store.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// accounts.insert_many([doc! { "_id": "Ada", "has": 100 }, doc! { "_id": "Grace", "has": 0 }]).run()?;
    ///
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().and_run(|session| {
    ///     let enough = doc! { "_id": "Ada", "has": { "$gte": 30 } };
    ///     let taken = accounts.update_one(enough, doc! { "$inc": { "has": -30 } }).session(&mut *session).run()?;
    ///     if taken.matched_count == 0 {
    ///         return Err(cairndb::Error::custom("Ada has too little"));
    ///     }
    ///     accounts.update_one(doc! { "_id": "Grace" }, doc! { "$inc": { "has": 30 } }).session(&mut *session).run()?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(accounts.find_one(doc! { "_id": "Ada" }).run()?, Some(doc! { "_id": "Ada", "has": 70 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn and_run<R>(self, mut run: impl FnMut(&mut ClientSession) -> Result<R>) -> Result<R> {
        let Self { session, options } = self;
        let mut patience = Patience::begin();
        loop {
            session.begin(options.clone(), None)?;
            let done = run(session).and_then(|result| {
                // The function may have ended the transaction itself.
                if session.in_transaction() {
                    session.commit(TransactionOptions::default(), None)?;
                }
                Ok(result)
            });
            let error = match done {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            if session.in_transaction() {
                session.abort()?;
            }
            patience.wait(error)?;
        }
    }
}
