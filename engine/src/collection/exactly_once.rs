//! Verbs with tokens: they happen once, however often they are called.
//!
//! A write of one document commits by itself, with the row that it is answered from in the same batch. All others are a transaction, which
//! is tried again when it meets another writer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Bson, Document};
use store::write::Batch;

use crate::collection::answers::Answer;
use crate::collection::handle::Handle;
use crate::options::argument::Argument;
use crate::options::{UpdateModifications, WriteConcern};
use crate::outcomes::digest::Digest;
use crate::outcomes::once::{Call, Once};
use crate::outcomes::token::Token;
use crate::repeated::{Known, ask, overtaken};
use crate::session::again::Patience;
use crate::session::commit::Commit;
use crate::shared::{Caller, Shared};
use crate::transaction::{Isolation, Transaction};

/// A call with a token.
pub(crate) struct Asked<'a> {
    token: &'a Token,
    name: String,
    digest: Digest,
    concern: Option<&'a WriteConcern>,
}

impl<'a> Asked<'a> {
    /// A call by its name, without its arguments.
    pub(crate) fn of(name: String, token: &'a Token, concern: Option<&'a WriteConcern>) -> Self {
        let digest = Digest::of_call(&name);
        Self { token, name, digest, concern }
    }

    /// Adds an argument.
    pub(crate) fn bytes(mut self, argument: &[u8]) -> Self {
        self.digest.part(argument);
        self
    }

    /// Adds a document.
    pub(crate) fn document(mut self, argument: &Document) -> Result<Self> {
        self.digest.document(argument)?;
        Ok(self)
    }

    /// Adds a change.
    pub(crate) fn change(self, change: &UpdateModifications) -> Result<Self> {
        match change {
            UpdateModifications::Document(operators) => self.document(operators),
            UpdateModifications::Pipeline(_) => self.options([("u", Some(change.to_argument()))]),
        }
    }

    /// Adds the options that were given.
    pub(crate) fn options<const N: usize>(self, given: [(&str, Option<Bson>); N]) -> Result<Self> {
        if given.iter().all(|(_, value)| value.is_none()) {
            return Ok(self.bytes(b""));
        }
        let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.document(&given.collect())
    }

    fn call(self) -> (&'a Token, Option<&'a WriteConcern>, Call) {
        let Self { token, name, digest, concern } = self;
        (token, concern, Call { name, digest: digest.finish() })
    }
}

impl Handle {
    /// A call of a verb of the collection with a token, without its arguments.
    pub(super) fn asked<'a>(
        &self,
        verb: &str,
        token: &'a Token,
        concern: Option<&'a WriteConcern>,
    ) -> Asked<'a> {
        let Namespace { db, coll } = &*self.given;
        Asked::of([verb, " ", db, ".", coll].concat(), token, concern)
    }

    /// Runs a write of one document.
    pub(super) fn once<R: Answer>(
        &self,
        asked: Asked<'_>,
        write: impl FnOnce(&Self) -> Result<R>,
    ) -> Result<R> {
        let (token, concern, call) = asked.call();
        let (shared, caller) = (self.shared(), self.caller());
        refuse_statement(caller)?;
        let once = match ask(shared, caller, token, call, concern)? {
            Known::Answered(answer) => return answer.read(R::of_answer),
            Known::New(once) => once,
        };
        let done = write(&self.called_by(Caller { once: Some(Arc::clone(&once)), ..caller.clone() }));
        let has_failed = done.as_ref().map_or(true, R::is_refusal);
        if let Some(answer) = overtaken(shared, &once, has_failed, concern)? {
            return answer.read(R::of_answer);
        }
        let result = done?;
        if !once.is_stored() && !result.is_refusal() {
            // Nothing was changed, and that is the result of the call: no later one may change something.
            once.expect_answer(&result.to_answer()?)?;
            let stored = store_alone(shared, caller, &once, concern);
            if let Some(answer) = overtaken(shared, &once, stored.is_err(), concern)? {
                return answer.read(R::of_answer);
            }
            stored?;
        }
        Ok(result)
    }

    /// Runs a write of many documents as one transaction.
    pub(super) fn whole_once<R: Answer>(
        &self,
        asked: Asked<'_>,
        max_time: Option<Duration>,
        write: impl Fn(&Self) -> Result<R>,
    ) -> Result<R> {
        let whole = Whole { shared: self.shared(), caller: self.caller(), max_time, row: None };
        whole.run(asked, |caller| write(&self.called_by(caller)))
    }
}

/// A call that is one transaction.
pub(crate) struct Whole<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: &'a Caller,
    pub(crate) max_time: Option<Duration>,
    /// The row of its session that is stored with it: key and value.
    pub(crate) row: Option<(Vec<u8>, Vec<u8>)>,
}

impl Whole<'_> {
    pub(crate) fn run<R: Answer>(&self, asked: Asked<'_>, write: impl Fn(Caller) -> Result<R>) -> Result<R> {
        let Self { shared, caller, .. } = self;
        let (token, concern, call) = asked.call();
        refuse_statement(caller)?;
        let once = match ask(shared, caller, token, call, concern)? {
            Known::Answered(answer) => return answer.read(R::of_answer),
            Known::New(once) => once,
        };
        // Ends transactions that last too long.
        shared.start_upkeep()?;
        let mut patience = Patience::begin();
        let began = Instant::now();
        loop {
            let transactions = &shared.transactions;
            let transaction = Transaction::new(&shared.store.latches, transactions, Isolation::Snapshot);
            let left = self.max_time.map(|time| time.saturating_sub(began.elapsed()));
            let done = self.attempt(&transaction, (&once, concern, left), &write);
            transaction.abort();
            let has_failed = done.as_ref().map_or(true, R::is_refusal);
            if let Some(answer) = overtaken(shared, &once, has_failed, concern)? {
                return answer.read(R::of_answer);
            }
            match done {
                Ok(result) => return Ok(result),
                Err(error) => patience.wait(error)?,
            }
        }
    }

    fn attempt<R: Answer>(
        &self,
        transaction: &Arc<Transaction>,
        terms: (&Arc<Once>, Option<&WriteConcern>, Option<Duration>),
        write: impl Fn(Caller) -> Result<R>,
    ) -> Result<R> {
        let (once, concern, max_time) = terms;
        let Self { shared, caller, row, .. } = self;
        let caller =
            Caller { once: Some(Arc::clone(once)), retryable: None, ..caller.in_transaction(transaction) };
        let operation = shared.operation(&caller, max_time);
        let caller = caller.within(&operation);
        let result = write(caller.clone())?;
        if result.is_refusal() {
            return Ok(result);
        }
        once.expect_answer(&result.to_answer()?)?;
        let row = row.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice()));
        let commit =
            Commit { shared, caller: &caller, concern, max_time: None, row, once: Some(once.as_ref()) };
        commit.run(transaction)?;
        Ok(result)
    }
}

/// Stores the row of a call that changed nothing.
fn store_alone(
    shared: &Arc<Shared>,
    caller: &Caller,
    once: &Once,
    concern: Option<&WriteConcern>,
) -> Result<()> {
    let level = shared.commit_level(concern)?;
    let operation = shared.plain_operation(caller, None);
    let database = shared.store.enter()?;
    let mut latches = shared.store.latches.set();
    latches.add_hash(once.hash());
    let mut held = shared.store.latches.lock(&latches, &operation)?;
    let write = |batch| shared.store.commit_latched(batch, level, &mut held);
    once.commit(Batch::new(&database), write, &|apart| shared.store.commit(apart, level))
}

/// Rejects a token of a statement. The transaction goes on.
fn refuse_statement(caller: &Caller) -> Result<()> {
    if caller.transaction.is_none() {
        return Ok(());
    }
    let message = "a statement of a transaction cannot have a token: a transaction has one as a whole";
    Err(Error::invalid_argument(message))
}
