//! `rename`.

use base::error::Result;
use base::namespace::Namespace;

use crate::catalog::change::{Rename, Replace};
use crate::collection::handle::{Collection, Handle};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;

impl<T> Collection<T> {
    /// Gives the collection another name within its database.
    ///
    /// Fails with code 26 if the collection does not exist, and with code 48 if the name is in use. After that, handles to
    /// the old name are handles to a collection that does not exist. An open cursor reads to its end, as described at
    /// [`Cursor`](crate::Cursor).
    ///
    /// With [`drop_target`](RenameCollection::drop_target) the collection replaces another one in one step: a reader sees
    /// the old documents or the new ones.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let app = client.database("app");
    /// app.collection("users").insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// app.collection::<Document>("users").rename("people").run()?;
    /// assert_eq!(app.list_collection_names().run()?, ["people"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, to: impl Into<String>) -> RenameCollection<'_> {
        RenameCollection { collection: &self.handle, to: to.into(), replace: Replace::Refuse }
    }
}

/// The action that [`Collection::rename`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is renamed by run()"]
pub struct RenameCollection<'a> {
    collection: &'a Handle,
    to: String,
    replace: Replace<'static>,
}

impl RenameCollection<'_> {
    /// With `true`, a collection that has the new name is dropped in the same step.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let prices = shop.collection::<Document>("prices");
    /// prices.insert_one(doc! { "_id": "pen", "price": 2 }).run()?;
    ///
    /// let next = shop.collection::<Document>("prices.next");
    /// next.insert_one(doc! { "_id": "pen", "price": 3 }).run()?;
    /// next.rename("prices").drop_target(true).run()?;
    /// assert_eq!(prices.find_one(doc! { "_id": "pen" }).run()?, Some(doc! { "_id": "pen", "price": 3 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_target(mut self, drop_target: bool) -> Self {
        self.replace = if drop_target { Replace::DropTarget } else { Replace::Refuse };
        self
    }

    /// Renames the collection.
    pub fn run(self) -> Result<()> {
        let watch = self.collection.watch(Verb::Rename);
        watch.end(self.rename(), Requested::default)
    }

    fn rename(&self) -> Result<()> {
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let from = self.collection.valid_namespace()?;
        // Parsed as a caller's name, so that no rename reaches a collection of the system.
        let to = Namespace::parse(&from.db, &self.to)?;
        let operation = self.collection.begin_plain(None);
        let renamed = Rename { from, to: &to, replace: self.replace };
        let rename = |storage| shared.catalog.rename(storage, renamed, &operation);
        shared.define(&database, rename)
    }
}
