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
use crate::one_line::OneLine;
use crate::periodic::PeriodicThread;
use crate::shared::{Caller, Engine, Shared};
use crate::write::Target;
use crate::write::expire::{Round, expire_some};

/// The result of a pass.
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
/// The first error, after all other indexes had their turn: a damaged collection keeps no other from being cleared. A call that
/// has to end, and a store that accepts no writes, end the pass. What was deleted stays deleted.
pub(crate) fn pass(engine: &Engine, now: DateTime, operation: &OperationContext) -> Result<Expired> {
    let passed = pass_all(engine, now, operation);
    // No verb does: what was deleted by a pass that failed counts as well.
    engine.recorder.count_notes();
    passed
}

fn pass_all(engine: &Engine, now: DateTime, operation: &OperationContext) -> Result<Expired> {
    let (mut expired, mut first_error) = (Expired::default(), None);
    for state in engine.catalog.collections() {
        let indexes = state.indexes();
        let due = indexes.iter().filter(|index| index.settings.expire_after_seconds.is_some());
        for index in due {
            let of_index = TtlPass { engine, state: &state, index: index.id, now, operation };
            match of_index.run().map_err(|error| error.in_namespace(&state.namespace)) {
                Ok(deleted) => expired.deleted += deleted,
                Err(error) if must_end(engine, operation) => return Err(first_error.unwrap_or(error)),
                Err(error) => {
                    tracing::warn!(error = %OneLine(&error), "the other collections have their turn");
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    first_error.map_or(Ok(expired), Err)
}

/// Whether no index could be passed over any more.
fn must_end(engine: &Engine, operation: &OperationContext) -> bool {
    operation.look().is_err() || engine.store.enter().is_err() || engine.store.admit_write().is_err()
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
        let Some(definition) = state.enter(self.operation)? else { return Ok(Round::default()) };
        // Looked up in every round: the index may have been dropped, or may have another expiry now.
        let Some(index) = definition.indexes.iter().find(|index| index.id == self.index) else {
            return Ok(Round::default());
        };
        let storage = engine.storage(&database);
        let target = Target::within(storage, state, &definition, &engine.generator, (level, self.operation));
        expire_some(target, index, self.now)
    }
}

/// A pass that no caller waits for: its errors are logged.
fn pass_in_background(engine: &Engine, token: &CancellationToken) {
    // A full disk needs its space for what users write, and a store that rejects writes rejects these as well.
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
            tracing::warn!(error = %OneLine(error), "expired documents could not be deleted; the next pass tries again");
        }
    }
}

fn has_ttl_index(engine: &Engine) -> bool {
    let has_ttl_index = |state: &Arc<CollectionState>| {
        state.indexes().iter().any(|index| index.settings.expire_after_seconds.is_some())
    };
    engine.catalog.collections().iter().any(has_ttl_index)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Document, RawBsonRef, doc};

    use super::*;
    use crate::fixture::Fixture;
    use crate::options::{Collation, CollationStrength, IndexModel, IndexOptions};
    use crate::write::prepare::record_key;
    use store::Family;
    use store::write::{Batch, CommitLevel};

    /// One damaged document kept all collections after its own from being cleared, at every pass.
    #[test]
    fn a_damaged_collection_keeps_no_other_from_being_cleared() {
        let names = ["a", "b", "c"];
        let fixture = Fixture::filled(|client| {
            for name in names {
                let things = client.database("test").collection::<Document>(name);
                let options = IndexOptions::builder().expire_after(Duration::from_secs(10)).build();
                let model = IndexModel::builder().keys(doc! { "at": 1 }).options(options).build();
                things.create_index(model).run().expect("made");
                things.insert_one(doc! { "_id": 1, "at": DateTime::from_millis(0) }).run().expect("stored");
            }
        });
        let damaged = fixture.collection("b").expect("there");
        let mut batch = Batch::new(&fixture.database);
        batch.put(Family::Records, &record_key(&damaged, RawBsonRef::Int32(1)), b"damaged");
        fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("committed");
        let operation = OperationContext::default();
        let error = pass(fixture.shared.engine(), DateTime::now(), &operation).expect_err("one is damaged");
        assert!(error.is_corruption(), "{error}");
        for name in names {
            let left = fixture.collection(name).expect("there").count.known();
            assert_eq!(left, Some(u64::from(name == "b")), "{name}");
        }
        // A call that has to end does end.
        let token = CancellationToken::new();
        token.cancel();
        let caller = Caller { cancellation: Some(token), ..Caller::default() };
        let ended = pass(fixture.shared.engine(), DateTime::now(), &fixture.shared.operation(&caller, None));
        assert_eq!(ended.expect_err("it was cancelled").code(), Some(11_601));
    }

    /// The filter of the index was read by the order of bytes, so what only the collation of the index matches stayed for
    /// ever.
    #[test]
    fn a_partial_ttl_index_deletes_what_its_collation_matches() {
        let fixture = Fixture::filled(|client| {
            let things = client.database("test").collection::<Document>("things");
            let options = IndexOptions::builder()
                .expire_after(Duration::from_secs(10))
                .partial_filter_expression(doc! { "kind": "temporary" })
                .collation(Collation::with_locale("en").strength(CollationStrength::Secondary))
                .build();
            let model = IndexModel::builder().keys(doc! { "at": 1 }).options(options).build();
            things.create_index(model).run().expect("made");
            let kinds = ["temporary", "TEMPORARY", "kept"];
            let old = kinds.map(|kind| doc! { "at": DateTime::from_millis(0), "kind": kind });
            things.insert_many(old).run().expect("stored");
        });
        let expired = pass(fixture.shared.engine(), DateTime::now(), &OperationContext::default());
        assert_eq!(expired.expect("a pass"), Expired { deleted: 2 });
        assert_eq!(fixture.collection("things").expect("there").count.known(), Some(1));
    }
}
