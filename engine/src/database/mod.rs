//! `Database`: a named set of collections and sequences.

mod commands;
mod sequences;

pub use self::commands::{RunCommand, RunCursorCommand};
pub use self::sequences::{CreateSequence, DropSequence, ListSequences, RenameSequence, SnapshotSequences};

use std::sync::Arc;

use bson::Document;
use query::code::Code;
use query::operation::CancellationToken;
use sequence::auto_increment::FieldOptions;

use crate::auto_increment::AutoIncrement;
use crate::catalog::change::Created;
use crate::catalog::fields::has_fields;
use crate::collection::{Aggregate, Collection, whole};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::shared::{Caller, Shared};

/// A database: a name under which collections stand. It exists as long as it has one.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    caller: Caller,
    name: String,
}

impl Database {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, name: &str) -> Self {
        Self { shared, caller, name: name.to_owned() }
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle to a collection, which need not exist yet. Names are checked by the first verb.
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Arc::clone(&self.shared), self.caller.clone(), &self.name, name)
    }

    /// A handle to the same database, whose operations `token` ends; see
    /// [`Client::with_cancellation`](crate::Client::with_cancellation).
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        Self { caller: self.caller.with_cancellation(token), ..self.clone() }
    }

    /// Makes an empty collection. One that exists is left as it is, if it has just the fields that are asked for; else it is
    /// refused with code 48.
    pub fn create_collection(&self, name: impl Into<String>) -> CreateCollection<'_> {
        CreateCollection { database: self, name: name.into(), fields: Vec::new() }
    }

    /// Runs an aggregation pipeline that needs no collection: one that starts with `$documents`.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let numbers = doc! { "$documents": [{ "n": 1 }, { "n": 2 }, { "n": 3 }] };
    /// let odd = doc! { "$match": { "n": { "$mod": [2, 1] } } };
    /// let found = client.database("app").aggregate([numbers, odd]).run()?;
    /// let found: Vec<Document> = found.collect::<Result<_, _>>()?;
    /// assert_eq!(found, [doc! { "n": 1 }, doc! { "n": 3 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        let context = (&*self.shared, self.caller.clone());
        Aggregate::on_database(context, &self.name, pipeline.into_iter().collect())
    }

    /// The names of the collections, ascending.
    pub fn list_collection_names(&self) -> ListCollectionNames<'_> {
        ListCollectionNames { database: self }
    }

    /// Removes every collection and every sequence of the database.
    pub fn drop(&self) -> DropDatabase<'_> {
        DropDatabase { database: self }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A `create_collection` that is done by [`run`](Self::run).
#[must_use = "the collection is made by run()"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    name: String,
    fields: Vec<FieldOptions>,
}

/// A `list_collection_names` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListCollectionNames<'a> {
    database: &'a Database,
}

/// A `drop` of a database that is done by [`run`](Self::run).
#[must_use = "the database is dropped by run()"]
pub struct DropDatabase<'a> {
    database: &'a Database,
}

impl CreateCollection<'_> {
    /// Makes a field of the collection number itself. May be called for several fields.
    pub fn auto_increment(mut self, field: AutoIncrement) -> Self {
        self.fields.push(field.options);
        self
    }

    /// Makes the collection.
    pub fn run(self) -> Result<()> {
        let shared = &self.database.shared;
        let namespace = Namespace::parse(&self.database.name, &self.name)?;
        let storage = shared.store.enter()?;
        shared.store.admit_write()?;
        match shared.catalog.create(shared.storage(&storage), &namespace, &self.fields)? {
            Created::New(_) => Ok(()),
            Created::Existing(existing) if has_fields(&existing.definition().fields, &self.fields)? => Ok(()),
            Created::Existing(_) => {
                let message = format!("namespace {namespace} already exists, but with different options");
                Err(Error::command(Code::NAMESPACE_EXISTS, message).in_namespace(&namespace))
            }
        }
    }
}

impl ListCollectionNames<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        whole::collection_names(&self.database.shared, &self.database.name)
    }
}

impl DropDatabase<'_> {
    /// Drops the collections and then the sequences, one synced step each.
    pub fn run(self) -> Result<()> {
        whole::drop(&self.database.shared, &self.database.name)
    }
}
