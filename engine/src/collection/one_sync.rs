//! One sync for all writes of a call. Each of them would otherwise wait for a sync of its own, which needs longer than the
//! write.

use base::error::Result;
use store::write::CommitLevel;

use crate::options::WriteConcern;
use crate::shared::Shared;

/// The sync that a call owes after its writes.
#[must_use = "a journaled call is acknowledged after its sync"]
pub(crate) struct OneSync {
    is_owed: bool,
}

impl OneSync {
    /// Removes the sync from the concern of each write, if several of them would each wait for one.
    pub(crate) fn of(shared: &Shared, concern: &mut Option<WriteConcern>, writes: usize) -> Result<Self> {
        let is_owed = writes > 1 && shared.commit_level(concern.as_ref())? == CommitLevel::Journaled;
        if is_owed {
            concern.get_or_insert_default().journal = Some(false);
        }
        Ok(Self { is_owed })
    }

    /// None: the writes are statements of a transaction, and its commit syncs them.
    pub(crate) fn left_to_commit() -> Self {
        Self { is_owed: false }
    }

    /// Returns once all that the writes wrote is on stable storage, and what they saw: one that found nothing left to do is
    /// true because of a write that may not be synced yet.
    pub(crate) fn end(self, shared: &Shared) -> Result<()> {
        if !self.is_owed {
            return Ok(());
        }
        let database = shared.store.enter()?;
        shared.store.sync_written(&database)
    }
}
