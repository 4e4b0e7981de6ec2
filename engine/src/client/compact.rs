//! `compact`, of all collections.

use crate::client::handle::Client;
use crate::compaction::Compaction;

impl Client {
    /// Gives the room of what was deleted, replaced and dropped back to the disk, in all collections.
    ///
    /// [`Collection::compact`](crate::Collection::compact) does it for one of them, and says when it is worth while.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let visits = client.database("site").collection::<Document>("visits");
    /// visits.insert_many((0..1000).map(|id| doc! { "_id": id, "page": "home" })).run()?;
    /// visits.drop().run()?;
    /// assert!(client.compact().run()?.bytes_freed() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) -> Compaction<'_> {
        Compaction::of_everything(&self.shared, &self.caller)
    }
}
