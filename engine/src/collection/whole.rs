//! What concerns all collections of a database at once, for the handles and for commands.

use crate::collection::size::record_bytes;
use crate::error::Result;
use crate::namespace::{Namespace, validate_database};
use crate::shared::Shared;

/// The names of databases that have a collection, ascending.
pub(crate) fn names(shared: &Shared) -> Result<Vec<String>> {
    let _in_use = shared.store.enter()?;
    Ok(shared.catalog.database_names())
}

/// The names of a database's collections, ascending, without those of the system: what a list names can be read by
/// whoever reads the list, and those cannot.
pub(crate) fn collection_names(shared: &Shared, db: &str) -> Result<Vec<String>> {
    validate_database(db)?;
    let _in_use = shared.store.enter()?;
    let names = shared.catalog.collection_names(db).into_iter();
    Ok(names.filter(|name| Namespace::parse(db, name).is_ok()).collect())
}

/// How many bytes of table files hold the records of a database.
pub(crate) fn stored_bytes(shared: &Shared, db: &str) -> Result<u64> {
    let database = shared.store.enter()?;
    let collections = shared.catalog.collections();
    let of_database = collections.iter().filter(|state| state.namespace.db == db);
    let bytes = of_database.map(|state| record_bytes(&database, state));
    Ok(bytes.sum())
}

/// Drops the collections and then the sequences of a database, one synced step each.
pub(crate) fn drop(shared: &Shared, db: &str) -> Result<()> {
    validate_database(db)?;
    let storage = shared.store.enter()?;
    shared.store.admit_write()?;
    for name in shared.catalog.collection_names(db) {
        let namespace = Namespace::stored(db, &name)?;
        shared.catalog.drop_collection(shared.storage(&storage), &namespace)?;
    }
    for state in shared.catalog.sequences.of_database(db) {
        let name = &state.identity.name;
        if state.identity.owner.is_none() {
            shared.catalog.drop_sequence(shared.storage(&storage), db, name)?;
        }
    }
    Ok(())
}
