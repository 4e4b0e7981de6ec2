//! Where a command runs: the store, the caller and the database.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;
use query::operation::{OperationContext, Reservation};

use crate::collection::Collection;
use crate::sequences::Sequence;
use crate::shared::{Caller, Shared};

/// What every command needs besides its own fields.
pub(crate) struct CommandContext<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: Caller,
    pub(crate) db: &'a str,
}

impl CommandContext<'_> {
    /// The context of a command that begins now: one operation, whose limit of time is `max_time`.
    pub(super) fn begin(&self, max_time: Option<Duration>) -> Self {
        let operation = self.shared.operation(&self.caller, max_time);
        // Handles take the operation from the caller, so the verbs share its limits and start no clock of
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

    /// The steps, time and memory that the command may still use.
    pub(super) fn operation(&self) -> OperationContext {
        // `begin` has put the operation into the caller, so no new one starts here.
        self.shared.operation(&self.caller, None)
    }

    pub(super) fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        Collection::new(Arc::clone(self.shared), self.caller.clone(), self.db, name)
    }

    pub(super) fn sequence(&self, name: &str) -> Sequence {
        Sequence::new(Arc::clone(self.shared), self.caller.clone(), self.db, name)
    }
}
