//! The lists of a client: names of databases, databases with their sizes, and running index builds.

use base::error::Result;

use crate::client::handle::Client;
use crate::collection::by_database;
use crate::progress::IndexBuildProgress;
use crate::results::DatabaseSpecification;

impl Client {
    /// Lists the names of the databases that have a collection or a sequence, ascending.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.database("shop").collection("orders").insert_one(doc! { "item": "lamp" }).run()?;
    /// assert_eq!(client.list_database_names().run()?, ["shop"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_database_names(&self) -> ListDatabaseNames<'_> {
        ListDatabaseNames { client: self }
    }

    /// Lists the databases that have a collection or a sequence, ascending by name, with their sizes.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.database("shop").collection("orders").insert_one(doc! { "item": "lamp" }).run()?;
    /// let databases = client.list_databases().run()?;
    /// assert_eq!(databases[0].name, "shop");
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_databases(&self) -> ListDatabases<'_> {
        ListDatabases { client: self }
    }

    /// Lists the index builds that are running, of all threads, with how far each of them is.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let by_age = IndexModel::builder().keys(doc! { "age": 1 }).build();
    /// let mut names = Vec::new();
    /// people.create_index(by_age).progress(|_| names.extend(client.index_builds())).run()?;
    /// assert_eq!(names[0].index_name, "age_1");
    /// assert!(client.index_builds().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn index_builds(&self) -> Vec<IndexBuildProgress> {
        let collections = self.shared.catalog.collections();
        let builds = collections
            .iter()
            .flat_map(|state| state.builds.list().into_iter().map(|build| build.progress(&state.namespace)));
        builds.collect()
    }
}

/// The action that [`Client::list_database_names`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListDatabaseNames<'a> {
    client: &'a Client,
}

impl ListDatabaseNames<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        by_database::database_names(&self.client.shared)
    }
}

/// The action that [`Client::list_databases`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListDatabases<'a> {
    client: &'a Client,
}

impl ListDatabases<'_> {
    /// Reads names and sizes.
    pub fn run(self) -> Result<Vec<DatabaseSpecification>> {
        let shared = &self.client.shared;
        let specification = |name: String| {
            let size_on_disk = by_database::stored_bytes(shared, &name)?;
            // As in MongoDB, a database without collections does not exist. So none of the list is empty.
            Ok(DatabaseSpecification { name, size_on_disk, empty: false })
        };
        by_database::database_names(shared)?.into_iter().map(specification).collect()
    }
}
