//! Making a collection or a view as it is declared, and changing what it is declared to be. The verbs of a database and the
//! commands `create` and `collMod` share it.

use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::Document;
use query::code::Code;
use query::operation::OperationContext;
use store::Database;

use crate::catalog::capped::{CappedLimits, CappedRequest, checked_max, checked_size};
use crate::catalog::change::{self, Created, NewCollection};
use crate::catalog::collection::CollectionState;
use crate::catalog::fields::has_fields;
use crate::catalog::validation::{Validation, ValidationChange};
use crate::catalog::view_change::ViewChange;
use crate::catalog::views::ViewDefinition;
use crate::collection::within;
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::metrics::watch::Watch;
use crate::options::{ClusteredIndex, Collation};
use crate::shared::{Caller, Shared};
use crate::streams::{Watched, scope_of};
use crate::transaction::{Open, names_changed, refused_within};
use crate::write::index_definition::clustered;

/// What `create` makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declaration {
    pub(crate) collection: NewCollection,
    /// Whether it is to be capped, and how.
    pub(crate) capped: CappedRequest,
    /// What a view stands on.
    pub(crate) view_on: Option<String>,
    /// The stages of a view.
    pub(crate) pipeline: Option<Vec<Document>>,
    /// How the collection or the view compares texts by default.
    pub(crate) collation: Option<Collation>,
    /// Whether it is declared to be clustered.
    pub(crate) clustered: Option<ClusteredIndex>,
    /// Whether its changes are to be logged.
    pub(crate) is_logged: Option<bool>,
}

/// What is to become of a collection or a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclarationChange {
    pub(crate) validation: ValidationChange,
    pub(crate) view: ViewChange,
    pub(crate) capped: LimitsChange,
    /// Whether the log of changes is to have documents before and after their changes.
    pub(crate) keeps_images: Option<bool>,
    /// Whether changes are to be logged.
    pub(crate) is_logged: Option<bool>,
}

impl DeclarationChange {
    /// Whether it changes nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty_for_collections() && self.view.is_empty() && self.is_logged.is_none()
    }

    /// Whether it changes nothing of a collection.
    fn is_empty_for_collections(&self) -> bool {
        self.validation.is_empty() && self.capped.is_empty() && self.keeps_images.is_none()
    }
}

/// What is to become of the limits of a capped collection. What is absent stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitsChange {
    pub(crate) size: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl LimitsChange {
    fn is_empty(self) -> bool {
        self.size.is_none() && self.max.is_none()
    }

    /// The limits after the change. Refuses a collection that has none.
    fn apply(self, before: Option<CappedLimits>) -> Result<CappedLimits> {
        let refuse = || refused(Code::INVALID_OPTIONS, "Collection must be capped.");
        // As in MongoDB, even if the limits themselves are wrong.
        let before = before.ok_or_else(refuse)?;
        Ok(CappedLimits {
            size: self.size.map_or(Ok(before.size), |size| checked_size("cappedSize", size))?,
            documents_max: match self.max {
                None => before.documents_max,
                Some(max) => checked_max("cappedMax", Some(max))?,
            },
        })
    }
}

/// Makes a collection or a view. It is not an error if it is there and was declared alike.
pub(crate) fn create(
    shared: &Shared,
    caller: &Caller,
    namespace: Namespace,
    new: &Declaration,
) -> Result<()> {
    let namespace = Arc::new(namespace);
    let watch = Watch::start(&shared.recorder, &namespace, Verb::CreateCollection);
    watch.end(make(shared, caller, &namespace, new), Requested::default)
}

fn make(shared: &Shared, caller: &Caller, namespace: &Namespace, new: &Declaration) -> Result<()> {
    let Declaration { collection: new, capped, view_on, pipeline, collation, clustered: index, is_logged } =
        new;
    let collation = Collation::rules(collation.as_ref())?;
    let clustered = index.as_ref().map(clustered).transpose()?;
    let capped = capped.limits()?;
    if clustered.is_some() && capped.is_some() {
        let message = "a clustered collection cannot be capped: that one is in the order of its inserts";
        return Err(refused(Code::CLUSTERED_CAPPED, message).in_namespace(namespace));
    }
    let new = &NewCollection { capped, collation: collation.clone(), clustered, ..new.clone() };
    let storage = shared.store.enter()?;
    // Before the catalog, so that a read-only store refuses even a call that would change nothing.
    shared.store.admit_write()?;
    if let Some(transaction) = &caller.transaction {
        transaction.admit_write("to create a collection")?;
        if view_on.is_some() || pipeline.is_some() {
            return Err(refused_within(&format!("to make the view {namespace}")));
        }
        if is_logged.is_some() {
            return Err(refused_within("to switch the log of changes on or off"));
        }
        let operation = shared.operation(caller, None);
        return transaction
            .statement(&storage, &operation, |open| make_within(open, shared, &storage, (namespace, new)));
    }
    if let Some(on) = view_on {
        // A view stores nothing, so there is nothing that could be numbered or validated.
        let is_plain = new.capped.is_none() && new.clustered.is_none() && !new.keeps_images;
        let is_plain = is_plain && is_logged.is_none();
        if !new.fields.is_empty() || !new.validation.is_empty() || !is_plain {
            let message = "a view has neither a validator nor auto-increment fields, is not capped or clustered, and has no images of documents";
            return Err(refused(Code::INVALID_OPTIONS, message).in_namespace(namespace));
        }
        let pipeline = pipeline.clone().unwrap_or_default();
        let definition = ViewDefinition { on: on.clone(), pipeline, collation };
        let create = |storage| shared.catalog.create_view(storage, namespace, &definition);
        let created = shared.define(&storage, create);
        return created.map_err(|error| error.in_namespace(namespace));
    }
    if pipeline.is_some() {
        let message = "'pipeline' requires 'viewOn' to also be specified";
        return Err(refused(Code::INVALID_OPTIONS, message).in_namespace(namespace));
    }
    // A write reports that it is a view. Here its name is in use.
    if shared.catalog.find_view(namespace).is_some() {
        return Err(is_taken(namespace));
    }
    // What is declared is created in the commit of the collection: no document gets in before.
    let created = shared.define(&storage, |storage| shared.catalog.create(storage, namespace, new))?;
    match created {
        Created::New(_) => {}
        Created::Existing(existing) => check_alike(&existing, namespace, new)?,
    }
    let operation = shared.operation(caller, None);
    let changing = Changing { namespace, operation: &operation };
    is_logged.map_or(Ok(()), |is_on| switch_log(shared, &storage, changing, is_on))
}

/// Switches the log of a collection's changes on or off. The caller has entered the store: entering it twice would wait for ever beside
/// one who closes it.
fn switch_log(shared: &Shared, database: &Arc<Database>, changing: Changing<'_>, is_on: bool) -> Result<()> {
    let Changing { namespace, operation } = changing;
    let scope = scope_of(Watched::Collection(Ok(namespace.clone())))?;
    shared.switch_log(database, &scope, is_on, operation).map_err(|error| error.in_namespace(namespace))
}

/// Makes a collection for a transaction alone.
fn make_within(
    open: &Open,
    shared: &Shared,
    database: &Arc<Database>,
    declared: (&Namespace, &NewCollection),
) -> Result<()> {
    let (namespace, new) = declared;
    if let Some(existing) = open.made.find(namespace) {
        return check_alike(&existing, namespace, new);
    }
    if let Some(existing) = shared.catalog.find(namespace) {
        open.check(&existing)?;
        return check_alike(&existing, namespace, new);
    }
    if !shared.catalog.names_are_as_of(open.sequence()) {
        return Err(names_changed());
    }
    if shared.catalog.find_view(namespace).is_some() {
        return Err(is_taken(namespace));
    }
    if new.capped.is_some() || !new.fields.is_empty() {
        let what = format!("to make {namespace} a capped collection, or one with auto-increment fields,");
        return Err(refused_within(&what));
    }
    within::make(open, shared, database, declared).map(|_| ())
}

/// Fails if a collection was declared in another way.
fn check_alike(existing: &CollectionState, namespace: &Namespace, new: &NewCollection) -> Result<()> {
    // As in MongoDB, creating it again with the same options succeeds, so that programs can do it at every start.
    let definition = existing.definition();
    let validation = Validation::default().changed(namespace, &new.validation, &new.collation)?;
    let present = definition.validation.as_deref().cloned().unwrap_or_default();
    // Rounded sizes are compared: what was asked for may be another number.
    let limits = definition.capped.map(|capped| capped.limits);
    let is_alike = limits == new.capped
        && new.collation == definition.collation
        && new.clustered == definition.clustered
        && new.keeps_images == definition.keeps_images;
    if is_alike && has_fields(&definition.fields, &new.fields)? && validation.is_same(&present) {
        return Ok(());
    }
    Err(is_taken(namespace))
}

fn is_taken(namespace: &Namespace) -> Error {
    let message = format!("namespace {namespace} already exists, but with different options");
    refused(Code::NAMESPACE_EXISTS, message).in_namespace(namespace)
}

/// What is changed, and the operation that the change is a part of: it may have to wait for writes.
#[derive(Clone, Copy)]
pub(crate) struct Changing<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) operation: &'a OperationContext,
}

/// Leaves an event that a collection was modified by a change that changes nothing, if it is logged.
pub(crate) fn note_modification(shared: &Shared, changing: Changing<'_>) -> Result<()> {
    let Changing { namespace, operation } = changing;
    let storage = shared.store.enter()?;
    while let Some(state) = shared.catalog.find(namespace) {
        let note = |storage| change::note_modification(storage, &state, operation);
        if shared.define(&storage, note)?.is_some() {
            break;
        }
    }
    Ok(())
}

/// Changes how a collection checks its documents, or what a view shows. Documents that are stored are not looked at.
pub(crate) fn modify(shared: &Shared, changing: Changing<'_>, change: &DeclarationChange) -> Result<()> {
    let Changing { namespace, operation } = changing;
    let (is_empty, DeclarationChange { validation: change, view, capped, keeps_images, is_logged }) =
        (change.is_empty_for_collections(), change);
    let storage = shared.store.enter()?;
    shared.store.admit_write()?;
    // Asked once: if the name passes to another kind meanwhile, the change itself says so.
    let is_view = shared.catalog.find_view(namespace).is_some();
    if (is_view || !view.is_empty()) && is_logged.is_some() {
        let message = "a view has no changes that could be logged";
        return Err(refused(Code::INVALID_OPTIONS, message).in_namespace(namespace));
    }
    if let Some(is_on) = is_logged {
        shared.catalog.find(namespace).ok_or_else(|| shared.catalog.absent(namespace))?;
        switch_log(shared, &storage, changing, *is_on)?;
    }
    if !view.is_empty() {
        if !is_empty {
            let message =
                "a view has no validator and no limits, and a collection neither 'viewOn' nor 'pipeline'";
            return Err(refused(Code::INVALID_OPTIONS, message).in_namespace(namespace));
        }
        let modified =
            shared.define(&storage, |storage| shared.catalog.modify_view(storage, namespace, view));
        return modified.map_err(|error| error.in_namespace(namespace));
    }
    // As in MongoDB, nothing is what every view can be changed by.
    if is_view && is_empty {
        return Ok(());
    }
    // Again until the change was made to the collection that has the name at that moment.
    loop {
        let state = shared.catalog.find(namespace).ok_or_else(|| shared.catalog.absent(namespace))?;
        // Nothing is written where nothing is to change.
        if is_empty {
            return Ok(());
        }
        let modify = |storage| {
            // First, because it may be refused: then nothing else is changed.
            if !capped.is_empty()
                && change::modify_limits(storage, &state, operation, |before| capped.apply(before))?.is_none()
            {
                return Ok(None);
            }
            if let Some(keeps_images) = keeps_images
                && change::modify_images(storage, &state, operation, *keeps_images)?.is_none()
            {
                return Ok(None);
            }
            if change.is_empty() {
                return Ok(Some(()));
            }
            change::modify_validation(storage, &state, operation, change)
        };
        let changed = shared.define(&storage, modify);
        // `None`: the collection was dropped since it was found, and may have been created again.
        if changed.map_err(|error| error.in_namespace(namespace))?.is_some() {
            return Ok(());
        }
    }
}
