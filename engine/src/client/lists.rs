//! The lists of a client: names of databases, and databases with their sizes.

use crate::client::handle::Client;
use crate::collection::by_database;
use crate::error::Result;
use crate::results::DatabaseSpecification;

impl Client {
    /// Lists the names of the databases that have a collection, ascending.
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

    /// Lists the databases that have a collection, ascending by name, with their sizes.
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
