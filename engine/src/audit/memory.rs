//! The state of a collection in memory agrees with its entry in the catalog.
//!
//! One collection after the other: its gate is held shared, so that its definition stays the same and no
//! writer waits. A collection that was dropped or renamed since the snapshot has no definition to compare.

use std::sync::Arc;

use base::error::Result;
use query::operation::OperationContext;
use store::{Database, Family};

use crate::audit::Subject;
use crate::audit::findings::Findings;
use crate::catalog::collection::CollectionState;
use crate::catalog::entry::{self, Entry};
use crate::catalog::validation::Validation;

pub(super) fn audit(subject: &Subject, database: &Arc<Database>, findings: &mut Findings) -> Result<()> {
    // Collections that cannot be read or are not stored were found in the snapshot.
    let stored = subject.states.iter().filter(|state| subject.collections.contains_key(&state.id.0));
    for state in stored {
        for problem in problems(state, database, &subject.operation)? {
            findings.add(state.namespace.to_string(), None, &state.id.catalog_key(), problem);
        }
    }
    Ok(())
}

fn problems(
    state: &CollectionState,
    database: &Arc<Database>,
    operation: &OperationContext,
) -> Result<Vec<String>> {
    // A change of the collection may be alone in it for long.
    let Some(definition) = state.enter(operation)? else { return Ok(Vec::new()) };
    // From the database and not from the snapshot: the definition may have changed since, and both are of
    // this moment.
    let Some(value) = database.get(Family::Meta, &state.id.catalog_key())? else {
        return Ok(vec!["the collection has no stored entry".to_owned()]);
    };
    let entry = match entry::decode(state.id, &value) {
        Ok(Entry::Collection(entry)) => entry,
        Ok(Entry::View(_)) => return Ok(vec!["the stored entry is that of a view".to_owned()]),
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let mut problems = Vec::new();
    if state.collation != entry.collation || definition.collation != entry.collation {
        problems.push("the stored collation is not the one in memory".to_owned());
    }
    // With a fault in memory only: the stored form does not distinguish the two.
    let stored_keys = entry.record_keys.clone().with_fault(database.fault());
    if state.record_keys.long_keys != stored_keys.long_keys {
        problems.push("the stored form of long keys is not the one in memory".to_owned());
    }
    if !state.record_keys.announced().covers(entry.record_keys.announced()) {
        problems.push("readers do not know of the shortened keys of records that are stored".to_owned());
    }
    if state.namespace != entry.namespace {
        problems.push(format!("{} is named {} in memory", entry.namespace, state.namespace));
    }
    let stored = || entry.indexes.iter().map(|index| index.id);
    if !stored().eq(definition.indexes.iter().map(|index| index.id)) {
        problems.push("the stored indexes are not those in memory".to_owned());
    }
    // Readers have a list of their own, which a failed change could leave behind.
    if !stored().eq(state.indexes().iter().map(|index| index.id)) {
        problems.push("the stored indexes are not those that readers see".to_owned());
    }
    for (index, stored) in definition.indexes.iter().zip(&entry.indexes) {
        // Arrays are announced to readers before they are stored, so readers may know of more, but not of
        // fewer.
        let announced = index.arrays.announced().into_iter().zip(stored.arrays.announced());
        if !announced.into_iter().all(|(announced, stored)| announced.covers(stored)) {
            problems.push(format!("readers of index {} know of fewer arrays than are stored", index.name));
        }
    }
    let fields = entry.fields.iter().map(|(field, id)| (field, *id));
    if !fields.eq(definition.fields.iter().map(|field| (&field.field, field.state.identity.id))) {
        problems.push("the stored auto-increment fields are not those in memory".to_owned());
    }
    if entry.capped != definition.capped {
        problems.push("the stored limits of the capped collection are not those in memory".to_owned());
    }
    if entry.clustered != definition.clustered {
        problems.push("the stored declaration of a clustered collection is not that in memory".to_owned());
    }
    if !entry.validation.is_same(definition.validation.as_deref().unwrap_or(&Validation::default())) {
        problems.push("the stored validator is not the one in memory".to_owned());
    }
    Ok(problems)
}
