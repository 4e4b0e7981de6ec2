//! Making a collection a capped one in place: its documents stay where they are, and get positions in the order of their
//! `_id`s. Those that have no room, the lowest `_id`s, and all indexes go in the commit that makes it a capped one.
//!
//! Writers wait meanwhile, readers do not. The positions carry an id that is marked as being made until that commit: what a
//! kill cuts short is removed by the next open.

use base::codes::refused;
use base::error::Result;
use query::code::Code;
use query::operation::OperationContext;
use store::Family;
use store::handles::Storage;
use store::keys::OrderId;
use store::write::Batch;

use crate::catalog::capped::{Capped, CappedLimits, discard};
use crate::catalog::change::refuse_builds;
use crate::catalog::collection::CollectionState;
use crate::catalog::names::Catalog;
use crate::catalog::record_removal::RecordRange;
use crate::catalog::stage::stage_entry;
use crate::one_line::OneLine;
use crate::write::order_build::OrderBuild;

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converted {
    Done,
    /// The collection is capped already: its limits are to be changed.
    Capped,
    /// It was dropped or renamed since it was looked up.
    Gone,
}

/// A conversion as it was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Conversion<'a> {
    pub(crate) limits: CappedLimits,
    /// The operation that the wait for the gate is a part of.
    pub(crate) operation: &'a OperationContext,
    /// Says whether to go on.
    pub(crate) look: &'a dyn Fn() -> Result<()>,
}

/// Makes the collection a capped one.
pub(crate) fn convert(
    storage: Storage<'_>,
    catalog: &Catalog,
    state: &CollectionState,
    conversion: Conversion<'_>,
) -> Result<Converted> {
    if state.order().is_some() {
        return Ok(Converted::Capped);
    }
    // Before the gate: the ids have a lock that is acquired before it.
    let order = catalog.begin_order(storage)?;
    let converted = convert_alone(storage, state, order, conversion);
    if !matches!(converted, Ok(Converted::Done)) {
        // The rest stays marked, and the next open removes it.
        if let Err(error) = discard(storage, order) {
            tracing::warn!(error = %OneLine(error), namespace = %OneLine(&state.namespace), "what a conversion had stored stays until the next open");
        }
    }
    converted
}

fn convert_alone(
    storage: Storage<'_>,
    state: &CollectionState,
    order: OrderId,
    conversion: Conversion<'_>,
) -> Result<Converted> {
    let Conversion { limits, operation, look } = conversion;
    let capped = Capped { limits, order };
    // Held to the end: a document that came meanwhile would have no position.
    let mut definition = state.enter_alone(operation)?;
    if state.is_retired() {
        return Ok(Converted::Gone);
    }
    if definition.capped.is_some() {
        return Ok(Converted::Capped);
    }
    // A build would go on with an index that the collection is to lose.
    refuse_builds(state)?;
    let build = OrderBuild { storage, collection: state.id, order: capped.order, operation, look };
    // Documents beyond the limits get no position, and go with the commit.
    let kept = build.kept(capped.limits)?;
    if definition.log.is_some() && kept.first.as_slice() > state.id.prefix().as_slice() {
        let message = format!(
            "{} has more documents than a capped collection of this size may have, and its changes are logged: remove them first",
            state.namespace
        );
        return Err(refused(Code::ILLEGAL_OPERATION, message).in_namespace(&state.namespace));
    }
    let stands = build.run(kept.first.clone())?;
    let mut batch = Batch::new(storage.database);
    let changed = definition.with_indexes(Vec::new()).with_capped(Some(capped)).with_clustered(None);
    stage_entry(&mut batch, state.id, &state.namespace, &changed)?;
    stands.stage(&mut batch, capped.order);
    batch.delete(Family::Meta, &capped.order.building_key());
    for index in definition.indexes.iter() {
        batch.delete_ended_entries(&index.id.prefix(), &index.id.end());
    }
    // A range and not single keys: the lowest `_id`s are one span of records. Builds that began since they were rejected
    // begin again, with the documents that stay. The counter with the commit, so that an audit sees both or neither.
    let remove = || {
        let range = RecordRange::Before(&kept.first);
        state.remove_records(range, batch, |batch| storage.store.commit_definition(batch))
    };
    let commit = || state.count.reset(kept.documents, remove);
    state.withdraw_indexes(storage.database, &mut definition, Vec::new(), commit)?;
    // Last: readers who see the order make a snapshot that has it.
    state.become_capped(storage.database, &mut definition, capped);
    Ok(Converted::Done)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::thread;

    use bson::{Bson, Document, doc};

    use super::*;
    use crate::collection::Collection;
    use crate::database::Database;
    use crate::fixture::Fixture;
    use crate::options::{IndexModel, IndexOptions};
    use crate::shared::Caller;
    use base::error::Error;

    /// The snapshot of a build that is listed has all documents, and it cannot end before the conversion does.
    fn wait_for_a_build(state: &CollectionState) {
        while state.builds.list().is_empty() {
            thread::yield_now();
        }
    }

    /// Begins to build an index while a conversion works that keeps the last 10 of 40 documents. Returns the collection, and
    /// what became of the index.
    #[track_caller]
    fn converted_beside(options: &IndexOptions) -> (Collection<Document>, std::result::Result<(), Error>) {
        let fixture = Fixture::filled(|client| {
            let things = client.database("test").collection("things");
            things.insert_many((0..40).map(|n| doc! { "_id": n, "a": n })).run().expect("stored");
        });
        let state = fixture.collection("things").expect("there");
        let shared = Arc::new(fixture.shared);
        let things = Database::new(Arc::clone(&shared), Caller::default(), "test").collection("things");
        let storage = Storage { store: &shared.store, database: &fixture.database };
        let limits = CappedLimits { size: 1 << 20, documents_max: Some(10) };
        let built = thread::scope(|scope| {
            let build = RefCell::new(None);
            let look = || {
                build.borrow_mut().get_or_insert_with(|| {
                    let model = IndexModel::builder().keys(doc! { "a": 1 }).options(options.clone()).build();
                    let build = scope.spawn(|| things.create_index(model).run().map(|_| ()));
                    wait_for_a_build(&state);
                    build
                });
                Ok(())
            };
            let operation = OperationContext::default();
            let conversion = Conversion { limits, operation: &operation, look: &look };
            let converted = convert(storage, &shared.catalog, &state, conversion).expect("converted");
            assert_eq!(converted, Converted::Done);
            let build = build.take().expect("a conversion looks whether to stop");
            build.join().expect("no panic")
        });
        let database = Database::new(shared, Caller::default(), "test");
        let report = database.run_command(doc! { "validate": "things" }).run().expect("a reply");
        assert_eq!(report.get_bool("valid").ok(), Some(true), "{report}");
        assert_eq!(report.get("nrecords"), Some(&Bson::Int64(10)), "{report}");
        (things, built)
    }

    /// The conversion asked once, at its beginning, whether an index is being built, and announced nothing to one that began
    /// while it gave out positions. So the index had entries of the documents that went.
    #[test]
    fn an_index_that_is_begun_beside_a_conversion_has_the_documents_that_stay() {
        let (things, built) = converted_beside(&IndexOptions::default());
        built.expect("made");
        assert_eq!(things.list_index_names().run().expect("a list"), ["_id_", "a_1"]);
        let found = things.find(doc! { "a": { "$gte": 0 } }).run().expect("a cursor");
        assert_eq!(found.collect::<Result<Vec<_>>>().expect("documents").len(), 10);
    }

    #[test]
    fn an_expiry_that_is_begun_beside_a_conversion_is_refused() {
        let expiry = IndexOptions::builder().expire_after(std::time::Duration::from_secs(9)).build();
        let (things, built) = converted_beside(&expiry);
        assert_eq!(built.map_err(|error| error.code()), Err(Some(67)));
        assert_eq!(things.list_index_names().run().expect("a list"), ["_id_"]);
    }
}
