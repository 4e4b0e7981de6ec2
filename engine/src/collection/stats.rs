//! `stats`: the number of documents of a collection, and about how much room they and its indexes use.

use serde::Serialize;

use base::error::Result;

use crate::collection::handle::{Collection, Handle};

/// The size of a collection, as [`Collection::stats`] reports it. All sizes are in bytes.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Bob" }]).run()?;
/// let stats = people.stats().run()?;
/// assert_eq!((stats.count, stats.average_size), (2, Some(36)));
/// assert_eq!(stats.indexes[0].name, "_id_");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CollectionStats {
    /// The number of documents. It is exact.
    pub count: u64,
    /// The size of all documents. Beyond a thousand documents it is extrapolated from the first thousand.
    pub size: u64,
    /// The average size of a document. `None` if there are no documents.
    pub average_size: Option<u64>,
    /// About how much room the documents use in files: 4096 if there are none, and at least `size`, because recent
    /// writes are not in table files yet.
    pub storage_size: u64,
    /// The bytes of the documents in table files, compressed, without those that are in the log alone.
    pub table_size: u64,
    /// Whether table files have nearly all documents: then `size` divided by `table_size` is how well they are compressed.
    /// It is `false` if writes to other collections are many against this one, too.
    pub is_in_tables: bool,
    /// The sum of the sizes of all indexes.
    pub total_index_size: u64,
    /// The indexes. The one on `_id` comes first.
    pub indexes: Vec<IndexSize>,
}

/// The size of an index, a part of [`CollectionStats`].
///
/// ```
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).build()).run()?;
/// let indexes = people.stats().run()?.indexes;
/// assert!(indexes.iter().any(|index| index.name == "name_1" && index.size >= 4096));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexSize {
    /// The name of the index.
    pub name: String,
    /// About how many bytes its entries use, at least 4096. Those of the index on `_id` are the keys of the documents.
    pub size: u64,
}

impl<T> Collection<T> {
    /// Returns the number of documents, and the sizes of the collection and its indexes.
    ///
    /// The number is exact, from the counter that [`estimated_document_count`](Self::estimated_document_count) reads. Sizes
    /// are estimates, for which at most a thousand documents and a thousand keys of each index are read. The call fails with
    /// code 26 (`NamespaceNotFound`) if the collection does not exist.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }]).run()?;
    /// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).build()).run()?;
    /// let stats = people.stats().run()?;
    /// assert_eq!((stats.count, stats.size), (2, 36 + 38));
    /// for index in &stats.indexes {
    ///     println!("{}: {} bytes", index.name, index.size);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats<'_> {
        Stats { collection: &self.handle }
    }
}

/// The action that [`Collection::stats`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is looked at by run()"]
pub struct Stats<'a> {
    collection: &'a Handle,
}

impl Stats<'_> {
    /// Looks at the collection.
    pub fn run(self) -> Result<CollectionStats> {
        let size = self.collection.size()?;
        let size = size.ok_or_else(|| self.collection.shared().catalog.absent(&self.collection.given))?;
        let indexes: Vec<IndexSize> =
            size.indexes.into_iter().map(|(name, size)| IndexSize { name, size }).collect();
        Ok(CollectionStats {
            count: size.documents,
            size: size.document_bytes,
            average_size: size.document_bytes.checked_div(size.documents),
            storage_size: size.record_bytes,
            table_size: size.table_bytes,
            is_in_tables: size.is_in_tables,
            total_index_size: indexes.iter().map(|index| index.size).sum(),
            indexes,
        })
    }
}
