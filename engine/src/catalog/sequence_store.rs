//! The storage of a sequence: its reserves, and the next reserve ahead of need.

use std::sync::{Arc, Weak};

use base::error::{Error, ErrorKind, Result};
use sequence::error::SequenceError;
use sequence::store::{Change, Provider, Store as SequenceStorage};
use store::Database;
use store::handles::Storage;
use store::sync::Errands;
use store::write::{Batch, CommitLevel, Commits};

use crate::catalog::sequences::SequenceState;
use crate::catalog::stage::stage_sequence_change;
use crate::one_line::OneLine;

/// The storage of a sequence.
#[derive(Clone, Copy)]
pub(crate) struct SequenceStore<'a> {
    commits: &'a Commits,
    database: &'a Database,
    state: &'a Arc<SequenceState>,
    /// The background queue for the next reserve ahead of need.
    errands: Option<&'a Errands>,
}

/// Makes the next reserve of a sequence in the background.
struct NextReserve {
    /// Weak: the blocks of the sequence own this provider.
    state: Weak<SequenceState>,
    errands: Errands,
}

impl SequenceState {
    /// The storage of the sequence. What is written there is not synced.
    pub(crate) fn store<'a>(self: &'a Arc<Self>, storage: Storage<'a>) -> SequenceStore<'a> {
        let Storage { store, database } = storage;
        SequenceStore { commits: store.commits(), database, state: self, errands: store.errands() }
    }
}

impl SequenceStorage for SequenceStore<'_> {
    type Error = Error;

    fn reserve(&self, change: &Change<'_>) -> Result<u64> {
        let mut batch = Batch::new(self.database);
        stage_sequence_change(&mut batch, &self.state.identity, change)?;
        self.commits.commit(batch, CommitLevel::RESERVE)?;
        // At least the number of this write, so a sync that covers it covers the reserve.
        Ok(self.database.latest_sequence())
    }

    fn is_durable(&self, receipt: u64) -> bool {
        self.commits.is_reserve_durable(receipt)
    }

    fn make_durable(&self, receipt: u64) -> Result<()> {
        // Mostly another commit has synced it meanwhile.
        if self.is_durable(receipt) { Ok(()) } else { self.commits.sync(self.database) }
    }

    fn provider(&self) -> Option<Arc<dyn Provider>> {
        let errands = self.errands?.clone();
        Some(Arc::new(NextReserve { state: Arc::downgrade(self.state), errands }))
    }
}

impl Provider for NextReserve {
    fn provide(&self) {
        let state = Weak::clone(&self.state);
        self.errands.leave(Box::new(move |commits, database| {
            // The sequence is gone, so no one needs its next reserve.
            let Some(state) = state.upgrade() else { return };
            // Without errands: a reserve that is made ahead does not ask for another one.
            let store = SequenceStore { commits, database, state: &state, errands: None };
            match state.sequence.reserve_ahead(&store) {
                Ok(()) => {}
                // Dropped or renamed since then, or the store closes.
                Err(error) if matches!(error.kind(), ErrorKind::Sequence(SequenceError::Retired)) => {}
                // Not lost: the caller that needs the reserve makes it, and gets the error.
                Err(error) => {
                    let name = &state.identity.name;
                    tracing::warn!(error = %OneLine(error), name = %OneLine(name), "the next reserve of a sequence could not be made");
                }
            }
        }));
    }
}
