//! Collections in which `$out` gathers its documents, until one rename puts them in place.
//!
//! Such a collection is stored like any other, under a name that no handle can have. So writers, audits and drops of its
//! database know it, lists leave it out, and what a killed `$out` has gathered is removed when the store is opened next.

use std::sync::Arc;

use base::error::Result;
use base::namespace::Namespace;
use query::operation::OperationContext;
use store::Family;
use store::handles::Storage;
use store::keys::{CollectionId, IndexId, META_NEXT_ID};
use store::leaf_switch::LeafSwitch;
use store::write::Batch;

use crate::catalog::capped::Capped;
use crate::catalog::change::{following_id, stage_order};
use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::indexes::{EntryDetail, Index, IndexUses};
use crate::catalog::multikey::IndexArrays;
use crate::catalog::names::{Catalog, Named};
use crate::catalog::record_keys::RecordKeys;
use crate::catalog::sequences::AutoFields;
use crate::catalog::stage::stage_entry;

impl Catalog {
    /// Creates an empty collection with indexes like those of another one, and with its validator. `namespace` must be a name
    /// that is used for nothing else.
    pub(crate) fn create_aside(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        like: &Definition,
    ) -> Result<Arc<CollectionState>> {
        let mut ids = self.lock_ids();
        self.refuse_case_clash(&namespace.db)?;
        // A copy: the ids are used up only by a commit that succeeds.
        let mut next = *ids;
        let id = CollectionId(next.id);
        next.id = following_id(next.id)?;
        let record_keys = RecordKeys::new(storage.database.fault());
        let mut indexes = Vec::with_capacity(like.indexes.len());
        for index in like.indexes.iter() {
            // The documents that were in the index say nothing about those to come.
            let arrays = Arc::new(IndexArrays::none(index.spec.fields().len()));
            let uses = Arc::new(IndexUses::starting_now());
            let (id, given_keys) = (IndexId(next.id), Arc::default());
            let detail = EntryDetail::Whole;
            // It is of this collection now, however long ago the other one was made.
            let spec = index.spec.clone().with_long_keys(record_keys.long_keys);
            let leaves = Arc::new(LeafSwitch::off());
            indexes.push(Index { id, spec, detail, arrays, uses, given_keys, leaves, ..index.clone() });
            next.id = following_id(next.id)?;
        }
        let mut batch = Batch::new(storage.database);
        // An order of its own: that of the other collection has its documents.
        let order = |Capped { limits, .. }| stage_order(&mut batch, &mut next, limits);
        let capped = like.capped.map(order).transpose()?;
        let definition = like.with_indexes(indexes).with_fields(AutoFields::default()).with_capped(capped);
        // Gathered documents are not logged, only that the collection gets its name.
        let definition = definition.with_record_keys(record_keys).with_log(None);
        stage_entry(&mut batch, id, namespace, &definition)?;
        batch.put(Family::Meta, META_NEXT_ID, &next.id.to_be_bytes());
        storage.store.commit_definition(batch)?;
        *ids = next;
        let collection = Arc::new(CollectionState::new(id, namespace.clone(), definition));
        collection.note_change(storage.database);
        // Known from the beginning, so that the first count need not scan.
        collection.count.set(0);
        self.insert(Named::Collection(Arc::clone(&collection)));
        Ok(collection)
    }

    /// Removes what killed calls of `$out` have gathered.
    pub(crate) fn discard_asides(&self, storage: Storage<'_>) -> Result<()> {
        for collection in self.collections().iter().filter(|state| state.namespace.is_aside()) {
            self.drop_collection(storage, &collection.namespace, &OperationContext::unlimited())?;
        }
        Ok(())
    }
}
