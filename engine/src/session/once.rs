//! Transactions that are committed once, however often they are run with their token.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use base::error::{Error, ErrorKind, Result};
use base::once_error::ExactlyOnceError;
use bson::{Bson, Document, doc};
use query::code::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::options::WriteConcern;
use crate::outcomes::digest::Digest;
use crate::outcomes::once::{Call, Found, Once};
use crate::outcomes::token::Token;
use crate::repeated::{Known, ask, overtaken};
use crate::session::again::Patience;
use crate::session::handle::ClientSession;
use crate::session::options::TransactionOptions;

/// The name of transactions in rows.
pub(crate) const NAME: &str = "a transaction";
/// The field of what the function of a transaction has returned.
const RESULT: &str = "v";
/// The limit of that in bytes: that of a document.
const RESULT_BYTES_MAX: usize = 16 << 20;

/// The action that [`StartTransaction::exactly_once`](crate::action::StartTransaction::exactly_once) returns. [`run`](Self::run) or
/// [`and_run`](Self::and_run) executes it.
#[must_use = "the transaction is started by run()"]
pub struct StartTransactionOnce<'a> {
    session: &'a mut ClientSession,
    options: TransactionOptions,
    token: Token,
}

impl<'a> StartTransactionOnce<'a> {
    pub(super) fn new(session: &'a mut ClientSession, options: TransactionOptions, token: Token) -> Self {
        Self { session, options, token }
    }

    /// Starts the transaction. Its commit stores that it was made.
    ///
    /// Fails with code 256 (`TransactionCommitted`) if it was committed before, and so does the commit if another one with the token was faster.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().exactly_once("cart 17").run()?;
    /// orders.insert_one(doc! { "_id": 1 }).session(&mut session).run()?;
    /// session.commit_transaction().run()?;
    /// let again = session.start_transaction().exactly_once("cart 17").run();
    /// assert_eq!(again.expect_err("it is committed").code(), Some(256));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<()> {
        let Self { session, options, token } = self;
        session.check_begin()?;
        let concern = options.write_concern.clone();
        match session.ask(&token, concern.as_ref())? {
            Known::Answered(_) => Err(done()),
            Known::New(once) => session.begin(options, Some(once)),
        }
    }

    /// Starts a transaction, runs a function in it and commits it, as [`StartTransaction::and_run`](crate::action::StartTransaction::and_run) does. What the
    /// function returns is stored with the commit. If the token was committed before, that is returned, and the function is not called.
    ///
    /// Fails before the commit, which changes nothing, if the result cannot be made into BSON or has more than 16 MiB. The function may abort
    /// the transaction, and then the token is not spent; it cannot commit it, or start another one.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// accounts.insert_one(doc! { "_id": "Ada", "has": 100 }).run()?;
    /// let pay = || -> cairndb::Result<i32> {
    ///     let mut session = client.start_session().run()?;
    ///     session.start_transaction().exactly_once("payment 4711").and_run(|session| {
    ///         let taken = doc! { "$inc": { "has": -30 } };
    ///         accounts.update_one(doc! { "_id": "Ada" }, taken).session(&mut *session).run()?;
    ///         let left = accounts.find_one(doc! { "_id": "Ada" }).session(&mut *session).run()?;
    ///         left.and_then(|ada| ada.get_i32("has").ok()).ok_or_else(|| cairndb::Error::custom("Ada has no account"))
    ///     })
    /// };
    /// assert_eq!((pay()?, pay()?), (70, 70));
    /// # Ok(())
    /// # }
    /// ```
    pub fn and_run<R: Serialize + DeserializeOwned>(
        self,
        mut run: impl FnMut(&mut ClientSession) -> Result<R>,
    ) -> Result<R> {
        let Self { session, options, token } = self;
        session.check_begin()?;
        let concern = options.write_concern.clone().or_else(|| session.terms().2.write_concern.clone());
        let once = match session.ask(&token, concern.as_ref())? {
            Known::Answered(answer) => return result_of(answer),
            Known::New(once) => once,
        };
        let mut patience = Patience::begin();
        loop {
            session.begin(options.clone(), Some(Arc::clone(&once)))?;
            session.is_kept = true;
            let ran = catch_unwind(AssertUnwindSafe(|| run(session)));
            session.is_kept = false;
            let ran = ran.unwrap_or_else(|panic| resume_unwind(panic));
            let done = ran.and_then(|result| {
                // The function may have aborted the transaction.
                if session.in_transaction() {
                    once.expect_answer(&stored(&result)?)?;
                    session.commit(TransactionOptions::default(), None)?;
                }
                Ok(result)
            });
            if session.in_transaction() {
                session.abort()?;
            }
            if let Some(answer) = overtaken(session.terms().0, &once, done.is_err(), concern.as_ref())? {
                return result_of(answer);
            }
            match done {
                Ok(result) => return Ok(result),
                Err(error) => patience.wait(error)?,
            }
        }
    }
}

impl ClientSession {
    /// Looks up whether a transaction of a token is committed.
    fn ask(&self, token: &Token, concern: Option<&WriteConcern>) -> Result<Known> {
        let (shared, caller, _) = self.terms();
        // The statements of a transaction are not known before, so all of them are one call.
        let call = Call { name: NAME.to_owned(), digest: Digest::of_call(NAME).finish() };
        ask(shared, caller, token, call, concern)
    }

    /// Whether a transaction of a token is committed.
    pub(crate) fn is_committed(&self, token: &Token, concern: Option<&WriteConcern>) -> Result<bool> {
        Ok(matches!(self.ask(token, concern)?, Known::Answered(_)))
    }

    /// Claims a token for the commit of the transaction in progress. If that is committed already, this one is aborted.
    pub(super) fn take_token(&mut self, token: &Token, concern: Option<&WriteConcern>) -> Result<()> {
        if !self.in_transaction() {
            return Ok(());
        }
        match self.ask(token, concern)? {
            Known::Answered(_) => {
                self.abort()?;
                Err(done())
            }
            Known::New(once) => {
                self.once = Some(once);
                Ok(())
            }
        }
    }

    /// The error of a commit: that of its token, if another one with it was faster, or its own.
    pub(super) fn overtaken(
        &self,
        once: Option<&Once>,
        error: Error,
        concern: Option<&WriteConcern>,
    ) -> Error {
        let (shared, ..) = self.terms();
        match once.map(|once| overtaken(shared, once, true, concern)) {
            Some(Ok(Some(_))) => done(),
            Some(Err(error)) => error,
            Some(Ok(None)) | None => error,
        }
    }
}

/// The result of a function, as a row has it.
fn stored<R: Serialize>(result: &R) -> Result<Document> {
    let answer = doc! { RESULT: bson::serialize_to_bson(result)? };
    let bytes = answer.to_vec()?.len();
    if bytes > RESULT_BYTES_MAX {
        let message = format!(
            "the result of a transaction with a token has {bytes} bytes, and {RESULT_BYTES_MAX} are stored at most"
        );
        return Err(Error::command(Code::BSON_OBJECT_TOO_LARGE, message));
    }
    Ok(answer)
}

fn result_of<R: DeserializeOwned>(found: Found) -> Result<R> {
    let result = found.read(|mut answer| Ok(answer.remove(RESULT).unwrap_or(Bson::Null)))?;
    Ok(bson::deserialize_from_bson(result)?)
}

#[cold]
fn done() -> Error {
    Error::new(ErrorKind::ExactlyOnce(ExactlyOnceError::Done))
}
