//! Passes over the TTL indexes of a database, which delete the documents that have expired; and the thread that makes one
//! every minute.
//!
//! A pass goes from collection to collection in rounds. Between two rounds it holds nothing: no gate, no snapshot, and the
//! store may be closed. The thread has no handle of its own that would keep the database open.

use std::sync::Arc;

use base::error::Result;
use base::sync;
use bson::DateTime;
use query::operation::{CancellationToken, OperationContext};
use store::keys::IndexId;

use crate::catalog::collection::CollectionState;
use crate::periodic::PeriodicThread;
use crate::shared::{Caller, Engine, Shared};
use crate::write::Target;
use crate::write::expire::{Round, expire_some};

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) deleted: u64,
}

/// Starts the thread that deletes expired documents, if there is a TTL index and the thread does not run yet.
pub(crate) fn start_if_needed(shared: &Shared) -> Result<()> {
    let Some(interval) = shared.ttl_interval else { return Ok(()) };
    if shared.options.mode.is_read_only() || !has_ttl_index(shared) {
        return Ok(());
    }
    let mut thread = shared.expiry.lock();
    if thread.is_none() {
        // Weak, though the thread is stopped before the database is closed: it must not be what closes it.
        let engine = Arc::downgrade(shared.engine());
        *thread = Some(PeriodicThread::start("cairndb-ttl", interval, move |token| {
            if let Some(engine) = engine.upgrade() {
                pass_in_background(&engine, token);
            }
        })?);
    }
    Ok(())
}

/// Deletes the documents of all collections that have expired at the moment `now`.
///
/// # Errors
/// The first error ends the pass. What was deleted until then stays deleted.
pub(crate) fn pass(engine: &Engine, now: DateTime, operation: &OperationContext) -> Result<Expired> {
    let passed = pass_all(engine, now, operation);
    // No verb does: what was deleted by a pass that failed counts as well.
    engine.recorder.count_notes();
    passed
}

fn pass_all(engine: &Engine, now: DateTime, operation: &OperationContext) -> Result<Expired> {
    let mut expired = Expired::default();
    for state in engine.catalog.collections() {
        let indexes = state.indexes();
        let due = indexes.iter().filter(|index| index.settings.expire_after_seconds.is_some());
        for index in due {
            let of_index = TtlPass { engine, state: &state, index: index.id, now, operation };
            let deleted = of_index.run().map_err(|error| error.in_namespace(&state.namespace))?;
            expired.deleted += deleted;
        }
    }
    Ok(expired)
}

/// A pass over one index.
#[derive(Clone, Copy)]
struct TtlPass<'a> {
    engine: &'a Engine,
    state: &'a CollectionState,
    index: IndexId,
    now: DateTime,
    operation: &'a OperationContext,
}

impl TtlPass<'_> {
    fn run(self) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let round = self.round()?;
            deleted += round.deleted;
            if !round.has_more {
                return Ok(deleted);
            }
            // Writers that wait for the processor come first.
            sync::yield_now();
        }
    }

    fn round(self) -> Result<Round> {
        self.operation.look()?;
        let Self { engine, state, .. } = self;
        let level = engine.commit_level(None)?;
        let database = engine.store.enter()?;
        engine.store.admit_write()?;
        // Dropped or renamed meanwhile: the next pass finds the collection under its new name.
        let Some(definition) = state.enter() else { return Ok(Round::default()) };
        // Looked up in every round: the index may have been dropped, or may have another expiry now.
        let Some(index) = definition.indexes.iter().find(|index| index.id == self.index) else {
            return Ok(Round::default());
        };
        let target = Target {
            store: &engine.store,
            database: &database,
            collection: state,
            definition: &definition,
            indexes: &definition.indexes,
            fields: &definition.fields,
            acquirer: None,
            generator: &engine.generator,
            level,
            preview: None,
            checks: None,
            operation: self.operation,
        };
        expire_some(target, index, self.now)
    }
}

/// A pass that no caller waits for: its errors are logged.
fn pass_in_background(engine: &Engine, token: &CancellationToken) {
    // A full disk needs its space for what users write, and a store that refuses writes refuses these as well.
    // A closed store is left to its client.
    let is_ready =
        engine.store.enter().is_ok() && engine.store.admit_write().is_ok() && engine.store.has_space();
    if !is_ready {
        return;
    }
    let caller = Caller { cancellation: Some(token.clone()), ..Caller::default() };
    let operation = engine.operation(&caller, None);
    match pass(engine, DateTime::now(), &operation) {
        Ok(Expired { deleted: 0 }) => {}
        Ok(Expired { deleted }) => tracing::debug!(deleted, "expired documents were deleted"),
        // The database is being closed.
        Err(_) if token.is_cancelled() => {}
        Err(error) => {
            tracing::warn!(%error, "expired documents could not be deleted; the next pass tries again");
        }
    }
}

fn has_ttl_index(engine: &Engine) -> bool {
    let has_ttl_index = |state: &Arc<CollectionState>| {
        state.indexes().iter().any(|index| index.settings.expire_after_seconds.is_some())
    };
    engine.catalog.collections().iter().any(has_ttl_index)
}
