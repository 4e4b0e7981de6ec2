//! Changes of views: one is made, gets another definition, or is removed.
//!
//! As for collections, each change is one synced batch and then a change of the map. A reader copies a definition from the map
//! and sees the old one or the new one, whole. No reader has to be warned: a view has nothing in any snapshot.

use std::sync::Arc;

use base::error::{Error, Result};
use base::namespace::Namespace;
use query::code::Code;
use store::Family;
use store::handles::Storage;
use store::keys::{CollectionId, META_NEXT_ID};
use store::write::Batch;

use crate::catalog::change::{following_id, namespace_not_found};
use crate::catalog::definition_events::stage_view;
use crate::catalog::entry;
use crate::catalog::names::{Catalog, Named};
use crate::catalog::views::{View, ViewDefinition, check_graph};
use crate::changes::event::EventKind;

/// What is to become of the definition of a view. What is absent stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewChange {
    pub(crate) on: Option<String>,
    pub(crate) pipeline: Option<Vec<bson::Document>>,
}

impl ViewChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.on.is_none() && self.pipeline.is_none()
    }
}

impl Catalog {
    /// Creates a view. It is not an error if it is there with the same definition.
    pub(crate) fn create_view(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        definition: &ViewDefinition,
    ) -> Result<()> {
        // Before the lock: parsing a long pipeline must not hold up other changes.
        definition.check(&namespace.db)?;
        let mut ids = self.lock_ids();
        match self.occupant(namespace) {
            None => {}
            Some(Named::View(view)) if view.definition == *definition => return Ok(()),
            Some(Named::View(_) | Named::Collection(_)) => {
                let message = format!("namespace {namespace} already exists, but with different options");
                return Err(Error::command(Code::NAMESPACE_EXISTS, message).in_namespace(namespace));
            }
        }
        self.refuse_case_clash(&namespace.db)?;
        // A copy: the id is used up only by a commit that succeeds.
        let mut next = *ids;
        let id = CollectionId(next.id);
        next.id = following_id(next.id)?;
        // Under the lock, so that two views that would close a circle together are made one after the other.
        let view = View::new(id, namespace.clone(), definition.clone());
        self.check_with(&view)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &id.catalog_key(), &entry::encode_view(namespace, definition)?);
        batch.put(Family::Meta, META_NEXT_ID, &next.id.to_be_bytes());
        self.stage_view_event(&mut batch, EventKind::Create, &view)?;
        self.announce(storage.database, || {
            self.log.commit_definition(storage, batch)?;
            *ids = next;
            self.insert(Named::View(Arc::new(view)));
            Ok(())
        })
    }

    /// Gives a view another definition. Fails with code 26 if it does not exist, and with 72 if the name is that of a
    /// collection.
    pub(crate) fn modify_view(
        &self,
        storage: Storage<'_>,
        namespace: &Namespace,
        change: &ViewChange,
    ) -> Result<()> {
        let _changes = self.lock_ids();
        let view = match self.occupant(namespace) {
            None => return Err(namespace_not_found(namespace)),
            Some(Named::View(view)) => view,
            Some(Named::Collection(_)) => {
                let message =
                    format!("'viewOn' and 'pipeline' are for views, and {namespace} is a collection");
                return Err(Error::command(Code::INVALID_OPTIONS, message).in_namespace(namespace));
            }
        };
        let ViewDefinition { on, pipeline, collation } = &view.definition;
        let definition = ViewDefinition {
            on: change.on.as_ref().unwrap_or(on).clone(),
            pipeline: change.pipeline.as_ref().unwrap_or(pipeline).clone(),
            collation: collation.clone(),
        };
        definition.check(&namespace.db)?;
        // The id stays: an entry is written over, so that no crash leaves two of one name.
        let changed = View::new(view.id, namespace.clone(), definition);
        self.check_with(&changed)?;
        let mut batch = Batch::new(storage.database);
        let entry = entry::encode_view(namespace, &changed.definition)?;
        batch.put(Family::Meta, &view.id.catalog_key(), &entry);
        self.stage_view_event(&mut batch, EventKind::Modify, &changed)?;
        self.announce(storage.database, || {
            self.log.commit_definition(storage, batch)?;
            self.insert(Named::View(Arc::new(changed)));
            Ok(())
        })
    }

    /// Removes a view. The caller holds the lock of all changes.
    pub(super) fn end_view(&self, storage: Storage<'_>, view: &View) -> Result<()> {
        // What stands on it stays, and is empty from now on, as in MongoDB.
        let mut batch = Batch::new(storage.database);
        batch.delete(Family::Meta, &view.id.catalog_key());
        self.stage_view_event(&mut batch, EventKind::Drop, view)?;
        self.announce(storage.database, || {
            self.log.commit_definition(storage, batch)?;
            self.remove(&view.namespace);
            Ok(())
        })
    }

    fn stage_view_event(&self, batch: &mut Batch<'_>, kind: EventKind, view: &View) -> Result<()> {
        if self.log.covers(&view.namespace) { stage_view(batch, kind, view) } else { Ok(()) }
    }

    /// Checks the views of a database with a new one among them, or one in the place of an old one.
    fn check_with(&self, new: &View) -> Result<()> {
        let present = self.views_of(&new.namespace.db);
        let others = present.iter().map(AsRef::as_ref).filter(|view: &&View| view.namespace != new.namespace);
        check_graph(&new.namespace.coll, others.chain([new]))
    }
}
