//! Staging: what a change of the catalog puts into its batch. Entries of collections; definitions, marks and
//! gaps of sequences. Nothing here commits.

use std::sync::Arc;

use base::error::Result;
use base::namespace::Namespace;
use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::{DateTime, rawdoc};
use sequence::allocator::Sequence;
use sequence::state::{Mark, State};
use sequence::store::{Change, GAPS_KEPT, Gap};
use store::Family;
use store::keys::{CollectionId, IndexId, META_NEXT_SEQUENCE, SequenceId};
use store::write::Batch;

use crate::catalog::capped::Capped;
use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::entry;
use crate::catalog::names::NextIds;
use crate::catalog::sequence_entry::{self, Identity};
use crate::catalog::sequences::SequenceState;
use crate::changes::event::{Event, EventKind};

/// A sequence that is to be created.
pub(crate) struct NewSequence<'a> {
    pub(crate) db: &'a str,
    pub(crate) name: &'a str,
    /// The collection whose auto-increment field it numbers.
    pub(crate) owner: Option<CollectionId>,
    pub(crate) state: State,
}

/// Stages the removal of a collection with its entries, indexes and sequences. Its documents go by
/// [`CollectionState::remove_records`] with the same batch.
pub(crate) fn stage_collection_removal(
    batch: &mut Batch<'_>,
    collection: &CollectionState,
    definition: &Definition,
) {
    batch.delete(Family::Meta, &collection.id.catalog_key());
    batch.delete(Family::Meta, &collection.id.count_key());
    // The collection's id is never used again, so a write that comes late cannot appear in another
    // collection.
    for index in definition.indexes.iter() {
        batch.delete_ended_entries(&index.id.prefix(), &index.id.end());
    }
    if let Some(Capped { order, .. }) = definition.capped {
        batch.delete_ended_entries(&order.prefix(), &order.end());
    }
    for field in definition.fields.iter() {
        stage_sequence_removal(batch, &field.state.identity);
    }
}

/// Stages the removal of the entries under an id that is marked as being built, and of the mark.
pub(crate) fn stage_build_removal(batch: &mut Batch<'_>, id: IndexId) {
    batch.delete_ended_entries(&id.prefix(), &id.end());
    batch.delete(Family::Meta, &id.building_key());
}

/// Stages the catalog entry of a collection.
pub(crate) fn stage_entry(
    batch: &mut Batch<'_>,
    id: CollectionId,
    namespace: &Namespace,
    definition: &Definition,
) -> Result<()> {
    batch.put(Family::Meta, &id.catalog_key(), &entry::encode(namespace, definition)?);
    Ok(())
}

/// Stages the event of a change of a collection as a whole, if its changes are logged.
pub(crate) fn stage_event(
    batch: &mut Batch<'_>,
    collection: &CollectionState,
    definition: &Definition,
    kind: EventKind,
) {
    if definition.log.is_some() {
        let namespace = collection.namespace.to_string();
        batch.add_event(Event::new(kind, collection.id, &namespace).encode());
    }
}

/// Stages the event of a collection that gets another name, and may replace another one.
pub(crate) fn stage_rename(
    batch: &mut Batch<'_>,
    collection: &CollectionState,
    to: &Namespace,
    replaced: Option<CollectionId>,
) {
    let mut detail = rawdoc! { "to": { "db": to.db.as_str(), "coll": to.coll.as_str() } };
    if let Some(replaced) = replaced {
        detail.append(cstr!("dropTarget"), i64::from(replaced.0));
    }
    let namespace = collection.namespace.to_string();
    let event = Event::new(EventKind::Rename, collection.id, &namespace);
    batch.add_event(Event { detail: Some(&detail), ..event }.encode());
}

/// Stages a change of a sequence.
pub(crate) fn stage_sequence_change(
    batch: &mut Batch<'_>,
    identity: &Identity,
    change: &Change<'_>,
) -> Result<()> {
    // A reserve changes the mark alone, which is short; the definition is written only when it changes.
    if let Some((attributes, version)) = change.definition {
        let definition = sequence_entry::encode_definition(identity, attributes, version)?;
        batch.put(Family::Meta, &identity.id.definition_key(), &definition);
    }
    stage_mark(batch, identity, change.mark, change.gaps);
    Ok(())
}

/// Stages the mark of a sequence and its new gaps. Only the newest gaps are kept in the ledger.
pub(crate) fn stage_mark(batch: &mut Batch<'_>, identity: &Identity, mark: &Mark, gaps: &[Gap]) {
    batch.put(Family::Meta, &identity.id.mark_key(), &sequence_entry::encode_mark(mark));
    // Counted here, where all marks pass, and not where each is committed.
    let meters = &batch.database().sequences;
    meters.reserves.add(1);
    meters.gaps.add(gaps.len() as u64);
    // `next_gap` counts all gaps, also those beyond the kept ones, so the numbers of the newest are its last
    // ones.
    let newest = gaps.get(gaps.len().saturating_sub(GAPS_KEPT)..).unwrap_or_default();
    let first = mark.next_gap.saturating_sub(newest.len() as u64);
    // If all kept gaps are new, the old ones are removed as a range: some numbers may never have been
    // written.
    let replaces_all = newest.len() == GAPS_KEPT;
    if replaces_all {
        batch.delete_range(Family::Meta, &identity.id.gap_key(0), &identity.id.gap_key(first));
    }
    let at = DateTime::now();
    for (number, gap) in (first..).zip(newest) {
        batch.put(Family::Meta, &identity.id.gap_key(number), &sequence_entry::encode_gap(gap, at));
        // One old gap goes for each new one, so the ledger keeps its size without being read.
        if let Some(old) = number.checked_sub(GAPS_KEPT as u64).filter(|_| !replaces_all) {
            batch.delete(Family::Meta, &identity.id.gap_key(old));
        }
    }
}

/// Stages the removal of a sequence with its ledger.
pub(crate) fn stage_sequence_removal(batch: &mut Batch<'_>, identity: &Identity) {
    let (first, end) = identity.id.gap_bounds();
    batch.delete(Family::Meta, &identity.id.definition_key());
    batch.delete(Family::Meta, &identity.id.mark_key());
    batch.delete_range(Family::Meta, &first, &end);
}

/// Stages a new sequence, which gets the next id.
pub(crate) fn stage_new_sequence(
    batch: &mut Batch<'_>,
    ids: &mut NextIds,
    new: NewSequence<'_>,
) -> Result<Arc<SequenceState>> {
    let NewSequence { db, name, owner, state } = new;
    let identity = Identity {
        id: SequenceId(ids.sequence),
        object_id: ObjectId::new(),
        db: db.to_owned(),
        name: name.to_owned(),
        owner,
    };
    ids.sequence += 1;
    let definition = Some((state.attributes(), state.version()));
    stage_sequence_change(batch, &identity, &Change { mark: &state.mark(), definition, gaps: &[] })?;
    batch.put(Family::Meta, META_NEXT_SEQUENCE, &ids.sequence.to_be_bytes());
    Ok(Arc::new(SequenceState { identity, sequence: Arc::new(Sequence::of_state(state)) }))
}
