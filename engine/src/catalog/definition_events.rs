//! The events of what collections, indexes and views are declared to be. Streams show them if they are asked for more events.

use base::error::Result;
use bson::{Document, RawDocumentBuf, doc};
use store::handles::Storage;
use store::keys::CollectionId;
use store::write::Batch;

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::indexes::Index;
use crate::catalog::settings::describe_collation;
use crate::catalog::views::View;
use crate::changes::event::{Event, EventKind, is_storable};

/// The description of what was changed, by MongoDB's name.
const OPERATION_DESCRIPTION: &str = "operationDescription";
/// The declaration before a change.
pub(crate) const STATE_BEFORE_CHANGE: &str = "stateBeforeChange";
/// Within it, that of a collection.
pub(crate) const COLLECTION_OPTIONS: &str = "collectionOptions";
/// Within it, that of an index.
const INDEX_OPTIONS: &str = "indexOptions";

/// The option of a collection whose documents the log has before and after their changes.
const IMAGES: &str = "changeStreamPreAndPostImages";

/// A change of the settings of an index.
#[derive(Clone, Copy)]
pub(super) struct IndexModification<'a> {
    pub(super) before: &'a Index,
    pub(super) after: &'a Index,
}

/// Commits a change of a collection, with its event if the collection is logged. The caller holds the gate alone.
pub(super) fn commit_change(storage: Storage<'_>, definition: &Definition, batch: Batch<'_>) -> Result<()> {
    match &definition.log {
        Some(log) => log.commit_definition(storage, batch),
        None => storage.store.commit_definition(batch),
    }
}

/// The options with which `create` makes the same collection, but for its auto-increment fields.
pub(crate) fn describe_options(definition: &Definition) -> Document {
    let mut options = doc! {};
    describe_collation(&definition.collation, &mut options);
    if definition.keeps_images {
        options.insert(IMAGES, doc! { "enabled": true });
    }
    if let Some(clustered) = &definition.clustered {
        clustered.describe(&mut options);
    }
    if let Some(capped) = definition.capped {
        capped.limits.describe(&mut options);
    }
    // Only what was set: a dump that is restored declares the same, and no more.
    if let Some(validation) = &definition.validation {
        validation.describe(&mut options);
    }
    options
}

/// The index of the `_id`s, as lists have it.
pub(crate) fn id_index() -> Document {
    doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }
}

/// Stages the event of a new collection, and those of its indexes.
pub(super) fn stage_created(
    batch: &mut Batch<'_>,
    collection: &CollectionState,
    definition: &Definition,
) -> Result<()> {
    let mut described = doc! {};
    if definition.clustered.is_none() {
        described.insert("idIndex", id_index());
    }
    described.extend(describe_options(definition));
    let event = Changed { collection, definition, kind: EventKind::Create };
    event.stage(batch, &doc! { OPERATION_DESCRIPTION: described })?;
    let event = Changed { kind: EventKind::CreateIndexes, ..event };
    stage_indexes(batch, event, definition.indexes.iter())
}

/// Stages the events of indexes that are new, or are dropped.
pub(super) fn stage_indexes<'i>(
    batch: &mut Batch<'_>,
    changed: Changed<'_>,
    indexes: impl Iterator<Item = &'i Index>,
) -> Result<()> {
    for index in indexes {
        let mut described = doc! { "v": 2 };
        described.extend(index.describe());
        changed.stage(batch, &doc! { OPERATION_DESCRIPTION: { "indexes": [described] } })?;
    }
    Ok(())
}

/// Stages the event of a change of a collection's options. Where none is changed it says that.
pub(super) fn stage_modified(batch: &mut Batch<'_>, changed: Changed<'_>, after: &Definition) -> Result<()> {
    let [before, after] = [changed.definition, after].map(describe_options);
    let description = differing(&before, &after);
    let state = doc! { COLLECTION_OPTIONS: before };
    changed.stage(batch, &doc! { OPERATION_DESCRIPTION: description, STATE_BEFORE_CHANGE: state })
}

/// Stages the event of a change of an index.
pub(super) fn stage_modified_index(
    batch: &mut Batch<'_>,
    changed: Changed<'_>,
    modification: IndexModification<'_>,
) -> Result<()> {
    let IndexModification { before, after } = modification;
    let [before_settings, settings] = [before, after].map(|index| {
        let mut settings = doc! {};
        index.settings.describe(&mut settings);
        if index.spec.is_unique() {
            settings.insert("unique", true);
        }
        settings
    });
    let mut described = doc! { "name": &after.name };
    described.extend(differing(&before_settings, &settings));
    let state = doc! {
        COLLECTION_OPTIONS: describe_options(changed.definition),
        INDEX_OPTIONS: differing(&settings, &before_settings),
    };
    let description = doc! { "index": described };
    changed.stage(batch, &doc! { OPERATION_DESCRIPTION: description, STATE_BEFORE_CHANGE: state })
}

/// Stages an event of a view. The caller knows that its changes are logged.
pub(super) fn stage_view(batch: &mut Batch<'_>, kind: EventKind, view: &View) -> Result<()> {
    let mut described = doc! {};
    view.definition.describe(&mut described);
    let detail = detail_of(&doc! { OPERATION_DESCRIPTION: described })?;
    let namespace = view.namespace.to_string();
    // No collection has the id: a view has no documents.
    let event = Event::new(kind, CollectionId(0), &namespace);
    batch.add_event(Event { detail: Some(&detail), ..event }.encode());
    Ok(())
}

/// A collection that is changed, as it is before that.
#[derive(Clone, Copy)]
pub(super) struct Changed<'a> {
    pub(super) collection: &'a CollectionState,
    pub(super) definition: &'a Definition,
    pub(super) kind: EventKind,
}

impl Changed<'_> {
    fn stage(self, batch: &mut Batch<'_>, detail: &Document) -> Result<()> {
        let Self { collection, definition, kind } = self;
        if definition.log.is_some() {
            let (namespace, detail) = (collection.namespace.to_string(), detail_of(detail)?);
            let event = Event::new(kind, collection.id, &namespace);
            batch.add_event(Event { detail: Some(&detail), ..event }.encode());
        }
        Ok(())
    }
}

/// The fields of one description that another one lacks or has with other values. Those that are gone are off.
fn differing(before: &Document, after: &Document) -> Document {
    let mut changed = doc! {};
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        changed.insert(name, value.clone());
    }
    for (name, _) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        if name == IMAGES {
            changed.insert(name, doc! { "enabled": false });
        } else {
            changed.insert(name, false);
        }
    }
    changed
}

fn detail_of(detail: &Document) -> Result<RawDocumentBuf> {
    let stored = RawDocumentBuf::try_from(detail)?;
    if is_storable(&stored) {
        return Ok(stored);
    }
    // A validator or a pipeline that is nested as deeply as a document may be: there are further levels around it here.
    Ok(RawDocumentBuf::try_from(&doc! { OPERATION_DESCRIPTION: {} })?)
}
