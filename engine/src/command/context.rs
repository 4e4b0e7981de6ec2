//! The context of a command: the store, the caller and the database.

use std::sync::Arc;
use std::time::Duration;

use base::codes::refused;
use base::error::Result;
use bson::{Document, RawDocumentBuf};
use query::code::Code;
use query::operation::{OperationContext, Reservation};

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::collection::Collection;
use crate::collection::one_sync::OneSync;
use crate::command::rules::CommandRules;
use crate::options::WriteConcern;
use crate::outcomes::retryable::Retryable;
use crate::outcomes::token::Token;
use crate::sequences::Sequence;
use crate::shared::{Caller, Shared};

/// The context of every command besides its own fields.
pub(crate) struct CommandContext<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: Caller,
    pub(crate) db: &'a str,
}

impl CommandContext<'_> {
    /// The context of a command that begins now: one operation, whose limit of time is `max_time`.
    pub(super) fn begin(&self, max_time: Option<Duration>) -> Self {
        let operation = self.shared.operation(&self.caller, max_time);
        // Handles get the operation from the caller, so the verbs share its limits and start no clock of
        // their own.
        Self { caller: self.caller.within(&operation), ..*self }
    }

    /// A context with an operation that begins now, in place of the one that runs already.
    pub(super) fn begin_anew(&self, max_time: Option<Duration>) -> Self {
        // With the running operation left in, `begin` would return it and ignore `max_time`.
        let caller = Caller { operation: None, ..self.caller.clone() };
        Self { caller, ..*self }.begin(max_time)
    }

    /// Counts the memory of the decoded request as the operation's.
    pub(super) fn keep(&self, request: Option<Reservation>) {
        if let Some(request) = request {
            self.operation().keep(request);
        }
    }

    /// Runs a command, which a client may have sent before, while no other one of its session runs.
    pub(super) fn once(
        &self,
        name: &str,
        rules: CommandRules,
        arguments: &Arguments<'_>,
        run: impl FnOnce() -> Result<Document>,
    ) -> Result<Document> {
        let Some(retryable) = &self.caller.retryable else { return run() };
        if !rules.is_retryable() {
            let message = format!("the command '{name}' is not a write that may be repeated");
            return Err(refused(Code::INVALID_OPTIONS, message));
        }
        self.shared.start_upkeep()?;
        self.shared.turns.alone(retryable.session(), &self.operation(), || {
            let database = self.shared.store.enter()?;
            let token = arguments.read::<Token>(TOKEN_FIELD)?;
            // A token that is known decides, whatever the number says.
            let found = token.map(|token| self.shared.tokens.look_up(&database, &token)).transpose()?;
            if found.is_none_or(|(row, _)| row.is_none()) {
                retryable.begin(&database, name, rules.repeated)?;
            }
            drop(database);
            run()
        })
    }

    /// The command that the client may have sent before.
    pub(super) fn retryable(&self) -> Option<&Retryable> {
        self.caller.retryable.as_deref()
    }

    /// Waits until what an earlier command has stored is as safe as this one is to be: what it is answered from may not be yet.
    pub(super) fn secure_repeated(&self, concern: Option<&WriteConcern>) -> Result<()> {
        let level = self.shared.commit_level(concern)?;
        let database = self.shared.store.enter()?;
        self.shared.store.reach(&database, level)
    }

    /// The steps, time and memory that the command may still use.
    pub(super) fn operation(&self) -> OperationContext {
        // `begin` has put the operation into the caller, so no new one starts here.
        self.shared.operation(&self.caller, None)
    }

    /// Whether the command is a statement of a transaction.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.caller.transaction.is_some()
    }

    /// Aborts the transaction, if there is one, that the command was a statement of.
    pub(super) fn abort_transaction(&self) {
        if let Some(transaction) = &self.caller.transaction {
            transaction.abort();
        }
    }

    /// The sync that `writes` writes of the command owe together.
    pub(super) fn one_sync(&self, concern: &mut Option<WriteConcern>, writes: usize) -> Result<OneSync> {
        if self.is_in_transaction() {
            return Ok(OneSync::left_to_commit());
        }
        OneSync::of(self.shared, concern, writes)
    }

    pub(super) fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.collection_of(self.db, name)
    }

    /// A collection of another database than the command's.
    pub(super) fn collection_of(&self, db: &str, name: &str) -> Collection<RawDocumentBuf> {
        Collection::new(Arc::clone(self.shared), self.caller.clone(), db, name)
    }

    pub(super) fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(self.shared), self.caller.clone(), self.db, name)
    }
}
