//! The positions of sequences, also of those of auto-increment fields.

use std::collections::HashMap;

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::Failure;
use crate::listing::{Listed, if_known, if_there};
use crate::store::Store;

/// A sequence at one moment.
pub(crate) struct Position {
    pub(crate) database: String,
    /// Its collection and field. `None` if it is not a field's.
    pub(crate) field: Option<(String, String)>,
    /// Attributes and state, with SequoiaDB's names.
    pub(crate) snapshot: Document,
}

impl Position {
    pub(crate) fn name(&self) -> &str {
        self.snapshot.get_str("Name").unwrap_or_default()
    }

    pub(crate) fn contract(&self) -> &str {
        self.snapshot.get_str("Contract").unwrap_or_default()
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.snapshot.get_i64(name).or_else(|_| self.snapshot.get_i32(name).map(i64::from)).ok()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.snapshot.get_bool(name).unwrap_or(false)
    }

    /// The value after the last one that was handed out to anyone. `None` if all are used.
    pub(crate) fn next(&self) -> Option<i64> {
        let increment = self.number("Increment")?;
        if self.flag("Exhausted") {
            // It goes around to the other end of its range, wherever it started.
            let first = if increment > 0 { "MinValue" } else { "MaxValue" };
            return self.number(first).filter(|_| self.flag("Cycled"));
        }
        // A restart says where it begins, in place of its attribute.
        let first = if self.flag("Initial") { "CurrentValue" } else { "StartValue" };
        // Not `LastUsed` alone, which is that of one of those who have blocks.
        match self.number("UsedUpTo").or(self.number("LastUsed")) {
            Some(last) => last.checked_add(increment),
            None => self.number(first),
        }
    }

    /// The owner, for people.
    pub(crate) fn owner(&self) -> String {
        match &self.field {
            Some((collection, field)) => format!("{}.{collection}, field {field}", self.database),
            None => format!("{}.{}", self.database, self.name()),
        }
    }

    /// The fields that say whose it is.
    pub(crate) fn identity(&self) -> Document {
        let mut document = doc! { "database": self.database.as_str(), "name": self.name() };
        if let Some((collection, field)) = &self.field {
            document.insert("collection", collection.as_str());
            document.insert("field", field.as_str());
        }
        document
    }
}

/// The sequences of a database, those of the fields of `collections` with the field, ascending by name.
pub(crate) fn positions(
    store: &dyn Store,
    database: &str,
    collections: &[Listed],
) -> Result<Vec<Position>, Failure> {
    let all = raw(&doc! { "sequenceSnapshot": {} })?;
    let Some(mut reply) = if_known(store.run(database, all))? else { return Ok(Vec::new()) };
    let Some(Bson::Array(snapshots)) = reply.remove("snapshots") else { return Ok(Vec::new()) };
    let snapshots: Vec<Document> = snapshots
        .into_iter()
        .filter_map(|snapshot| if let Bson::Document(snapshot) = snapshot { Some(snapshot) } else { None })
        .collect();
    let is_field = |snapshot: &Document| snapshot.get_bool("Internal").unwrap_or(false);
    // Most databases have none, and each collection is a question.
    let mut fields =
        if snapshots.iter().any(is_field) { fields(store, database, collections)? } else { HashMap::new() };
    let position = |snapshot: Document| Position {
        database: database.to_owned(),
        field: fields.remove(snapshot.get_str("Name").unwrap_or_default()),
        snapshot,
    };
    Ok(snapshots.into_iter().map(position).collect())
}

/// The auto-increment fields, each with its collection, by the name of the sequence.
fn fields(
    store: &dyn Store,
    database: &str,
    collections: &[Listed],
) -> Result<HashMap<String, (String, String)>, Failure> {
    let mut found = HashMap::new();
    for collection in collections.iter().filter(|listed| listed.is_collection()) {
        let command = raw(&doc! { "listAutoIncrements": collection.name.as_str() })?;
        let Some(reply) = if_there(store.run(database, command))? else { continue };
        let fields = reply.get_array("autoIncrements").map(Vec::as_slice).unwrap_or_default();
        for field in fields.iter().filter_map(Bson::as_document) {
            if let (Ok(sequence), Ok(path)) = (field.get_str("SequenceName"), field.get_str("Field")) {
                found.insert(sequence.to_owned(), (collection.name.clone(), path.to_owned()));
            }
        }
    }
    Ok(found)
}
