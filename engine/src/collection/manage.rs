//! `drop` and `rename` of a whole collection.

use crate::catalog::change::Replace;
use crate::collection::Collection;
use crate::error::Result;
use crate::namespace::Namespace;

impl<T> Collection<T> {
    /// Removes the collection with its documents and indexes. One that does not exist is no error.
    pub fn drop(&self) -> DropCollection<'_, T> {
        DropCollection { collection: self }
    }

    /// Gives the collection another name within its database.
    ///
    /// Fails with code 26 if it does not exist and with 48 if the name is taken. Handles to the old name then
    /// stand for a collection that does not exist.
    pub fn rename(&self, to: impl Into<String>) -> RenameCollection<'_, T> {
        RenameCollection { collection: self, to: to.into(), replace: Replace::Refuse }
    }
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
