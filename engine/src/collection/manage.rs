//! `drop`, `rename` and `truncate` of a whole collection.

use crate::catalog::change::Replace;
use crate::catalog::sequence_change::truncate;
use crate::collection::Collection;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::results::TruncateResult;

impl<T> Collection<T> {
    /// Removes the collection with its documents and indexes. One that does not exist is no error.
    ///
    /// A reader sees the collection as it was or none. A cursor that is open goes on to its end, as described at
    /// [`Cursor`](crate::Cursor).
    pub fn drop(&self) -> DropCollection<'_, T> {
        DropCollection { collection: self }
    }

    /// Gives the collection another name within its database.
    ///
    /// Fails with code 26 if it does not exist and with 48 if the name is taken. Handles to the old name then
    /// stand for a collection that does not exist. A cursor that is open goes on to its end, as described at
    /// [`Cursor`](crate::Cursor).
    ///
    /// With [`drop_target`](RenameCollection::drop_target) a collection is replaced in one step: a reader sees the old
    /// documents or the new ones, never none.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("prices").insert_one(doc! { "_id": "pen", "price": 2 }).run()?;
    ///
    /// let next = shop.collection::<Document>("prices.next");
    /// next.insert_one(doc! { "_id": "pen", "price": 3 }).run()?;
    /// next.rename("prices").drop_target(true).run()?;
    /// let price = shop.collection::<Document>("prices").find_one(doc! { "_id": "pen" }).run()?;
    /// assert_eq!(price, Some(doc! { "_id": "pen", "price": 3 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, to: impl Into<String>) -> RenameCollection<'_, T> {
        RenameCollection { collection: self, to: to.into(), replace: Replace::Refuse }
    }
}

impl<T> Collection<T> {
    /// Removes all documents at once; indexes stay. Sequences of auto-increment fields start again, unless a field was
    /// made with `on_truncate(Continue)`. `delete_many` with an empty filter removes all documents and leaves sequences
    /// alone.
    ///
    /// Fails with code 26 if the collection does not exist.
    pub fn truncate(&self) -> TruncateCollection<'_, T> {
        TruncateCollection { collection: self }
    }
}

/// A `truncate` that is done by [`run`](Self::run).
#[must_use = "the collection is truncated by run()"]
pub struct TruncateCollection<'a, T> {
    collection: &'a Collection<T>,
}

/// A `drop` that is done by [`run`](Self::run).
#[must_use = "the collection is dropped by run()"]
pub struct DropCollection<'a, T> {
    collection: &'a Collection<T>,
}

/// A `rename` that is done by [`run`](Self::run).
#[must_use = "the collection is renamed by run()"]
pub struct RenameCollection<'a, T> {
    collection: &'a Collection<T>,
    to: String,
    replace: Replace,
}

impl<T> DropCollection<'_, T> {
    /// Drops the collection.
    pub fn run(self) -> Result<()> {
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        shared.catalog.drop_collection(shared.storage(&database), namespace).map(|_existed| ())
    }
}

impl<T> TruncateCollection<'_, T> {
    /// Truncates the collection.
    pub fn run(self) -> Result<TruncateResult> {
        loop {
            // Documents are counted before writers are kept out, which must not last as long as a count.
            self.collection.known_count()?;
            let truncated = self.collection.change_existing(|state, storage| truncate(storage, state))?;
            if let Some(deleted_count) = truncated {
                return Ok(TruncateResult { deleted_count });
            }
        }
    }
}

impl<T> RenameCollection<'_, T> {
    /// Drops a collection that has the new name, in the same step.
    pub fn drop_target(mut self, drop_target: bool) -> Self {
        self.replace = if drop_target { Replace::DropTarget } else { Replace::Refuse };
        self
    }

    /// Renames the collection.
    pub fn run(self) -> Result<()> {
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let from = self.collection.valid_namespace()?;
        let to = Namespace::parse(&from.db, &self.to)?;
        shared.catalog.rename(shared.storage(&database), from, &to, self.replace)
    }
}
