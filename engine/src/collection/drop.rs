//! `drop`.

use base::error::Result;

use crate::collection::handle::{Collection, Handle};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;

impl<T> Collection<T> {
    /// Removes the collection with its documents, indexes and auto-increment fields. It is not an error if the collection does
    /// not exist.
    ///
    /// A reader sees the whole collection or none of it. An open cursor reads to its end, as described at
    /// [`Cursor`](crate::Cursor).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let drafts = client.database("blog").collection::<Document>("drafts");
    /// drafts.insert_one(doc! { "title": "Untitled" }).run()?;
    ///
    /// drafts.drop().run()?;
    /// assert!(client.database("blog").list_collection_names().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop(&self) -> DropCollection<'_> {
        DropCollection { collection: &self.handle }
    }
}

/// The action that [`Collection::drop`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is dropped by run()"]
pub struct DropCollection<'a> {
    collection: &'a Handle,
}

impl DropCollection<'_> {
    /// Drops the collection.
    pub fn run(self) -> Result<()> {
        let watch = self.collection.watch(Verb::Drop);
        watch.end(self.drop_if_exists(), Requested::default)
    }

    fn drop_if_exists(&self) -> Result<()> {
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        // To drop a collection that does not exist is not an error in MongoDB either.
        let operation = self.collection.begin_plain(None);
        shared.define(&database, |storage| shared.catalog.drop_collection(storage, namespace, &operation))?;
        Ok(())
    }
}
