//! The commit of a transaction, be it that of a session or a call that is one by itself.

use std::sync::Arc;
use std::time::Duration;

use base::error::{Result, UNKNOWN_TRANSACTION_COMMIT_RESULT};

use crate::expiry;
use crate::one_line::OneLine;
use crate::options::WriteConcern;
use crate::outcomes::once::Once;
use crate::shared::{Caller, Shared};
use crate::transaction::Transaction;
use crate::write::staged::commit::{self, Terms};

/// The commit of a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Commit<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: &'a Caller,
    pub(crate) concern: Option<&'a WriteConcern>,
    pub(crate) max_time: Option<Duration>,
    /// The row of its session that is stored with it: key and value.
    pub(crate) row: Option<(&'a [u8], &'a [u8])>,
    pub(crate) once: Option<&'a Once>,
}

impl Commit<'_> {
    /// Commits. If another call with its token came first, the error is for no caller, and [`Once::take_found`] says so.
    pub(crate) fn run(self, transaction: &Arc<Transaction>) -> Result<()> {
        let Self { shared, caller, concern, max_time, row, once } = self;
        let level = shared.commit_level(concern)?;
        let operation = shared.operation(caller, max_time);
        let database = shared.store.enter()?;
        if once.is_some() {
            transaction.open_if_new(&database, &operation)?;
        }
        let terms = Terms {
            storage: shared.storage(&database),
            catalog: &shared.catalog,
            generator: &shared.generator,
            level,
            operation: &operation,
            row,
            once,
        };
        let done = transaction.commit(&operation, |open| commit::commit(open, terms));
        // The stored documents are counted now, and no verb does it.
        shared.recorder.count_notes();
        if done.is_ok()
            && !transaction.made().all().is_empty()
            && let Err(error) = expiry::start_if_needed(shared)
        {
            // No reason to deny the commit; the next open starts the thread.
            tracing::warn!(error = %OneLine(error), "the thread that deletes expired documents could not be started");
        }
        done.map_err(|error| {
            if error.is_commit_unknown() {
                error.with_label(UNKNOWN_TRANSACTION_COMMIT_RESULT)
            } else {
                error
            }
        })
    }
}
