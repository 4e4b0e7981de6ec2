//! Making a collection a capped one in place: its documents stay where they are, and get positions in the order of their
//! `_id`s. Those that have no room, the lowest `_id`s, and all indexes go in the commit that makes it a capped one.
//!
//! Writers wait meanwhile, readers do not. The positions carry an id that is marked as being made until that commit: what a
//! kill cuts short is removed by the next open.

use base::error::Result;
use store::Family;
use store::handles::Storage;
use store::write::Batch;

use crate::catalog::capped::{Capped, CappedLimits, discard};
use crate::catalog::change::refuse_builds;
use crate::catalog::collection::CollectionState;
use crate::catalog::names::Catalog;
use crate::catalog::stage::stage_entry;
use crate::write::order_build::OrderBuild;

/// What became of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converted {
    Done,
    /// The collection is capped already: its limits are to be changed.
    Capped,
    /// It was dropped or renamed since it was looked up.
    Gone,
}

/// Makes the collection a capped one.
pub(crate) fn convert(
    storage: Storage<'_>,
    catalog: &Catalog,
    state: &CollectionState,
    limits: CappedLimits,
    look: &dyn Fn() -> Result<()>,
) -> Result<Converted> {
    if state.order().is_some() {
        return Ok(Converted::Capped);
    }
    // Before the gate: the ids have a lock that is taken before it.
    let order = catalog.begin_order(storage)?;
    let converted = convert_alone(storage, state, Capped { limits, order }, look);
    if !matches!(converted, Ok(Converted::Done)) {
        // What is left stays marked, and the next open removes it.
        if let Err(error) = discard(storage, order) {
            tracing::warn!(%error, namespace = %state.namespace, "what a conversion had stored stays until the next open");
        }
    }
    converted
}

fn convert_alone(
    storage: Storage<'_>,
    state: &CollectionState,
    capped: Capped,
    look: &dyn Fn() -> Result<()>,
) -> Result<Converted> {
    // Held to the end: a document that came meanwhile would have no position.
    let mut definition = state.enter_alone();
    if state.is_retired() {
        return Ok(Converted::Gone);
    }
    if definition.capped.is_some() {
        return Ok(Converted::Capped);
    }
    // A build would go on with an index that the collection is to lose.
    refuse_builds(state)?;
    let build = OrderBuild { storage, collection: state.id, order: capped.order, look };
    // What has no room gets no position, and goes with the commit.
    let kept = build.kept(capped.limits)?;
    let stands = build.run(kept.first.clone())?;
    let mut batch = Batch::new(storage.database);
    let changed = definition.with_indexes(Vec::new()).with_capped(Some(capped)).with_clustered(None);
    stage_entry(&mut batch, state.id, &state.namespace, &changed)?;
    stands.stage(&mut batch, capped.order);
    batch.delete(Family::Meta, &capped.order.building_key());
    // A range and not single keys: the lowest `_id`s are one span of records.
    let first = state.id.prefix();
    if kept.first.as_slice() > first.as_slice() {
        batch.delete_range(Family::Records, &first, &kept.first);
    }
    for index in definition.indexes.iter() {
        batch.delete_range(Family::Entries, &index.id.prefix(), &index.id.end());
    }
    // The counter with the commit, so that an audit sees both or neither.
    let commit = || state.count.reset(kept.documents, || storage.store.commit_definition(batch));
    state.withdraw_indexes(&mut definition, Vec::new(), commit)?;
    // Last: readers who see the order take a snapshot that has it.
    state.become_capped(&mut definition, capped);
    Ok(Converted::Done)
}
