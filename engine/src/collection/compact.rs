//! `compact`, of one collection.

use crate::collection::handle::Collection;
use crate::compaction::Compaction;

impl<T> Collection<T> {
    /// Gives the room of deleted and replaced documents of this collection, and of their index entries, back to the disk.
    ///
    /// RocksDB does it by itself in the course of later writes. Call it after many deletes that few writes follow. Tables are
    /// written again, so it needs time and, meanwhile, room for a few of them; reads and writes go on. What an open cursor
    /// may still return is kept.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let visits = client.database("site").collection::<Document>("visits");
    /// visits.insert_many((0..1000).map(|id| doc! { "_id": id, "page": "home" })).run()?;
    /// visits.delete_many(doc! { "_id": { "$lt": 900 } }).run()?;
    /// assert!(visits.compact().run()?.bytes_freed() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) -> Compaction<'_> {
        let handle = &self.handle;
        Compaction::of_collection(handle.shared(), handle.caller(), handle.valid_namespace().cloned())
    }
}
