//! Operations on all collections of a database: names, sizes and dropping. The handles `Client` and `Database` and
//! the commands share it.

use base::error::Result;
use base::names::validate_database;
use base::namespace::Namespace;
use query::operation::OperationContext;

use crate::collection::size::record_bytes;
use crate::shared::Shared;

/// Returns the names of all databases that have a collection or a sequence, ascending.
pub(crate) fn database_names(shared: &Shared) -> Result<Vec<String>> {
    // A closed store rejects, though the catalog in memory could still answer.
    let _in_use = shared.store.enter()?;
    let mut names = shared.catalog.database_names();
    names.extend(shared.catalog.sequences.database_names());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns the names of a database's collections, ascending.
///
/// System collections are left out: a caller can open every collection that a list names, and could not open those.
pub(crate) fn collection_names(shared: &Shared, db: &str) -> Result<Vec<String>> {
    // A name that no database can have is an error, and not a database without collections.
    validate_database(db)?;
    let _in_use = shared.store.enter()?;
    let names = shared.catalog.collection_names(db).into_iter();
    Ok(names.filter(|name| Namespace::parse(db, name).is_ok()).collect())
}

/// Returns about how many bytes of table files hold the records of a database.
pub(crate) fn stored_bytes(shared: &Shared, db: &str) -> Result<u64> {
    let database = shared.store.enter()?;
    let collections = shared.catalog.collections();
    let of_database = collections.iter().filter(|state| state.namespace.db == db);
    let bytes = of_database.map(|state| record_bytes(&database, state));
    Ok(bytes.sum())
}

/// Drops the collections and then the sequences of a database. Each is a synced commit of its own. `operation` may end it
/// between two of them.
pub(crate) fn drop_database(shared: &Shared, db: &str, operation: &OperationContext) -> Result<()> {
    validate_database(db)?;
    let storage = shared.store.enter()?;
    shared.store.admit_write()?;
    // Each drop is a commit of its own: after a crash a collection is there as a whole or gone as a whole.
    let names = shared.catalog.collection_names(db);
    let was_there = !names.is_empty();
    for name in names {
        // `stored`, not `parse`: the names include those of system collections.
        let namespace = Namespace::stored(db, &name)?;
        shared.define(&storage, |storage| shared.catalog.drop_collection(storage, &namespace, operation))?;
    }
    // After the collections, which remove the sequences of their fields too.
    for state in shared.catalog.sequences.of_database(db) {
        let name = &state.identity.name;
        // The sequence of an auto-increment field has an owner, and went with its collection.
        if state.identity.owner.is_none() {
            operation.look()?;
            shared.define(&storage, |storage| shared.catalog.drop_sequence(storage, db, name))?;
        }
    }
    if was_there {
        shared.catalog.log_drop_of_database(shared.storage(&storage), db)?;
    }
    // A missing collection may have been dropped by another thread, which has not synced it yet.
    shared.store.sync_written(&storage)
}
