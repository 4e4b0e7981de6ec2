//! Making a collection as it is declared, and changing what it is declared to be. The verbs of a database and the commands
//! `create` and `collMod` share it.

use query::code::Code;

use crate::catalog::change::{self, Created, NewCollection, namespace_not_found};
use crate::catalog::fields::has_fields;
use crate::catalog::validation::{Validation, ValidationChange};
use crate::codes::refused;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::shared::Shared;

/// Makes a collection. It is no error if it is there and was declared alike.
pub(crate) fn create(shared: &Shared, namespace: &Namespace, new: &NewCollection) -> Result<()> {
    let storage = shared.store.enter()?;
    // Before the catalog, so that a read-only store refuses even a call that would change nothing.
    shared.store.admit_write()?;
    // What is declared is created in the commit of the collection: no document gets in before.
    let Created::Existing(existing) = shared.catalog.create(shared.storage(&storage), namespace, new)? else {
        return Ok(());
    };
    // As in MongoDB, creating it again with the same options succeeds, so that programs can do it at every start.
    let definition = existing.definition();
    let validation = Validation::default().changed(namespace, &new.validation)?;
    let present = definition.validation.as_deref().cloned().unwrap_or_default();
    if has_fields(&definition.fields, &new.fields)? && validation.is_same(&present) {
        return Ok(());
    }
    let message = format!("namespace {namespace} already exists, but with different options");
    Err(refused(Code::NAMESPACE_EXISTS, message).in_namespace(namespace))
}

/// Changes how a collection checks its documents. Documents that are stored are not looked at.
pub(crate) fn modify(shared: &Shared, namespace: &Namespace, change: &ValidationChange) -> Result<()> {
    let storage = shared.store.enter()?;
    shared.store.admit_write()?;
    // Again until the change was made to the collection that has the name at that moment.
    loop {
        let state = shared.catalog.find(namespace).ok_or_else(|| namespace_not_found(namespace))?;
        // Nothing is written where nothing is to change.
        if change.is_empty() {
            return Ok(());
        }
        let changed = change::modify_validation(shared.storage(&storage), &state, change);
        // `None`: the collection was dropped since it was found, and may have been created again.
        if changed.map_err(|error| error.in_namespace(namespace))?.is_some() {
            return Ok(());
        }
    }
}
