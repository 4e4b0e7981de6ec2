//! The struct `Database`, and its verbs on all collections: list, aggregate, drop.

use std::sync::Arc;

use base::error::Result;
use bson::Document;
use query::operation::CancellationToken;

use crate::collection::{Aggregate, Collection, by_database};
use crate::gridfs::GridFsBucket;
use crate::options::GridFsBucketOptions;
use crate::shared::{Caller, Shared};

/// A database: a named set of collections and sequences. It is listed as long as it has a collection.
///
/// A handle comes from [`Client::database`](crate::Client::database). It is cheap to clone and can be used from many
/// threads.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let shop = client.database("shop");
/// shop.collection::<Document>("orders").insert_one(doc! { "item": "lamp" }).run()?;
/// assert_eq!(shop.list_collection_names().run()?, ["orders"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
    pub(super) name: String,
}

impl Database {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, name: &str) -> Self {
        Self { shared, caller, name: name.to_owned() }
    }

    /// Returns the name of the database.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = cairndb::Client::open(folder.path().join("db"))?;
    /// assert_eq!(client.database("shop").name(), "shop");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle to a collection, which need not exist yet: the first write creates it.
    ///
    /// `T` is the type of its documents. A name that is not allowed is reported by the first verb.
    ///
    /// ```
    /// # use cairndb::Client;
    /// use cairndb::bson::{Document, doc};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// assert_eq!(orders.count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Arc::clone(&self.shared), self.caller.clone(), &self.name, name)
    }

    /// Returns a handle to a bucket of files, which need not exist yet: the first upload creates it. Without options it is the
    /// bucket `fs`.
    ///
    /// A name that is not allowed is reported by the first verb.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// # use cairndb::Client;
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
    /// upload.write_all(b"some notes")?;
    /// upload.close()?;
    ///
    /// let mut notes = String::new();
    /// bucket.open_download_stream_by_name("notes.txt").run()?.read_to_string(&mut notes)?;
    /// assert_eq!(notes, "some notes");
    /// # Ok(())
    /// # }
    /// ```
    pub fn gridfs_bucket(&self, options: impl Into<Option<GridFsBucketOptions>>) -> GridFsBucket {
        let options = options.into().unwrap_or_default();
        GridFsBucket::new(Arc::clone(&self.shared), &self.caller, &self.name, options)
    }

    /// Returns a handle to this database whose operations end when `token` is cancelled. They fail with code 11601
    /// (`Interrupted`).
    ///
    /// [`Client::with_cancellation`](crate::Client::with_cancellation) describes what is ended and what stays.
    ///
    /// ```
    /// # use cairndb::{CancellationToken, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.database("shop").collection("orders").insert_one(doc! { "item": "lamp" }).run()?;
    ///
    /// let token = CancellationToken::new();
    /// let shop = client.database("shop").with_cancellation(&token);
    /// token.cancel();
    /// let refused = shop.collection::<Document>("orders").update_many(doc! {}, doc! { "$set": { "open": true } }).run();
    /// assert_eq!(refused.unwrap_err().code(), Some(11_601));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        Self { caller: self.caller.with_cancellation(token), ..self.clone() }
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
        let pipeline = pipeline.into_iter().collect();
        Aggregate::on_database(&self.shared, self.caller.clone(), &self.name, pipeline)
    }

    /// Lists the names of the collections, ascending. System collections are left out.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("orders").insert_one(doc! { "item": "lamp" }).run()?;
    /// shop.collection("items").insert_one(doc! { "name": "lamp" }).run()?;
    /// assert_eq!(shop.list_collection_names().run()?, ["items", "orders"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_collection_names(&self) -> ListCollectionNames<'_> {
        ListCollectionNames { database: self }
    }

    /// Removes every collection and every sequence of the database.
    ///
    /// It is not one step: each collection is dropped by itself, so a reader meanwhile can see some of them.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("orders").insert_one(doc! { "item": "lamp" }).run()?;
    /// shop.drop().run()?;
    /// assert!(client.list_database_names().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop(&self) -> DropDatabase<'_> {
        DropDatabase { database: self }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The action that [`Database::list_collection_names`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListCollectionNames<'a> {
    database: &'a Database,
}

/// The action that [`Database::drop`] returns. [`run`](Self::run) executes it.
#[must_use = "the database is dropped by run()"]
pub struct DropDatabase<'a> {
    database: &'a Database,
}

impl ListCollectionNames<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        by_database::collection_names(&self.database.shared, &self.database.name)
    }
}

impl DropDatabase<'_> {
    /// Drops the collections and then the sequences. Each is a synced commit of its own.
    pub fn run(self) -> Result<()> {
        let Database { shared, name, .. } = self.database;
        by_database::drop_database(shared, name, &shared.plain_operation(&self.database.caller, None))
    }
}
