//! Which databases a store has, and what only CairnDB's stores answer.

use cairndb::bson::{Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::store::Store;

/// MongoDB's databases that belong to a server and not to its user. CairnDB has no such databases.
const SERVERS_OWN: [&str; 2] = ["config", "local"];

/// The names of the databases that are the user's, those with sequences alone too.
pub(crate) fn databases(store: &dyn Store) -> Result<Vec<String>, Failure> {
    let list = store.run("admin", raw(&doc! { "listDatabases": 1, "nameOnly": true })?)?;
    let databases = list.get_array("databases").map(Vec::as_slice).unwrap_or_default();
    let names = databases.iter().filter_map(|one| one.as_document()?.get_str("name").ok());
    // Only MongoDB itself has databases that are none of the user's.
    let is_own = is_cairndb(store)?;
    Ok(names.filter(|name| is_own || !SERVERS_OWN.contains(name)).map(str::to_owned).collect())
}

/// Whether the store is CairnDB's, and not one of MongoDB.
pub(crate) fn is_cairndb(store: &dyn Store) -> Result<bool, Failure> {
    Ok(if_known(store.run("admin", raw(&doc! { "listSequences": 1 })?))?.is_some())
}

/// The reply of a command that MongoDB does not have.
pub(crate) fn if_known(reply: Result<Document, Failure>) -> Result<Option<Document>, Failure> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(failure) if failure.code == Some(Code::COMMAND_NOT_FOUND.number()) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A collection, a view, or something else that has the name of one.
pub(crate) struct Listed {
    pub(crate) name: String,
    /// `collection`, `view`, or another word of MongoDB.
    pub(crate) kind: String,
}

impl Listed {
    /// Whether it has documents of its own.
    pub(crate) fn is_collection(&self) -> bool {
        self.kind == "collection"
    }
}

/// The collections and views of a database that are the user's, or the one that is named, ascending.
pub(crate) fn collections(
    store: &dyn Store,
    database: &str,
    only: Option<&str>,
) -> Result<Vec<Listed>, Failure> {
    let mut command = doc! { "listCollections": 1, "nameOnly": true };
    if let Some(name) = only {
        command.insert("filter", doc! { "name": name });
    }
    let mut listed = store.stream(database, raw(&command)?)?;
    let mut found = Vec::new();
    while listed.advance()? {
        let one = listed.current();
        let name = one.get_str("name").unwrap_or_default();
        if !name.is_empty() && !name.starts_with("system.") {
            let kind = one.get_str("type").unwrap_or("collection");
            found.push(Listed { name: name.to_owned(), kind: kind.to_owned() });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The command that lists one collection, or nothing if it is not there.
pub(crate) fn named(collection: &str) -> Result<RawDocumentBuf, Failure> {
    raw(&doc! { "listCollections": 1, "filter": { "name": collection }, "nameOnly": true })
}

/// Rejects a collection that is not there: its name is mistyped more often than it is meant.
pub(crate) fn check_collection(store: &dyn Store, database: &str, collection: &str) -> Result<(), Failure> {
    if store.stream(database, named(collection)?)?.advance()? {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("there is no collection {database}.{collection}")))
}

/// Rejects a database that is not there.
pub(crate) fn check_database(store: &dyn Store, database: &str) -> Result<(), Failure> {
    if databases(store)?.iter().any(|name| name == database) {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("there is no database {database}")))
}

/// The reply about a collection that others may have dropped since it was listed.
pub(crate) fn if_there(reply: Result<Document, Failure>) -> Result<Option<Document>, Failure> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(failure) if failure.code == Some(Code::NAMESPACE_NOT_FOUND.number()) => Ok(None),
        Err(failure) => Err(failure),
    }
}
