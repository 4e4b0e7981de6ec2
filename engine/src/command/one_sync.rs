//! One sync for all statements of a command. Each of them would otherwise wait for a sync of its own, which takes longer than
//! the write.

use crate::command::context::CommandContext;
use crate::error::Result;
use crate::options::WriteConcern;
use crate::storage::write::CommitLevel;

/// The sync that a command owes after its statements.
#[must_use = "a journaled command is acknowledged after its sync"]
pub(super) struct OneSync {
    is_owed: bool,
}

impl OneSync {
    /// Takes the sync out of the concern of each statement, if several of them would each wait for one.
    pub(super) fn of(
        context: &CommandContext<'_>,
        concern: &mut Option<WriteConcern>,
        statements: usize,
    ) -> Result<Self> {
        let is_owed =
            statements > 1 && context.shared.commit_level(concern.as_ref())? == CommitLevel::Journaled;
        if is_owed {
            *concern = Some(WriteConcern { journal: Some(false), ..concern.take().unwrap_or_default() });
        }
        Ok(Self { is_owed })
    }

    /// Returns once all that the statements wrote is on stable storage, and what they saw: a statement that found nothing left
    /// to do is true because of a write that may not be synced yet.
    pub(super) fn end(self, context: &CommandContext<'_>) -> Result<()> {
        if !self.is_owed {
            return Ok(());
        }
        let database = context.shared.store.enter()?;
        context.shared.store.sync_written(&database)
    }
}
