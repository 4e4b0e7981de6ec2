//! The results of single writes and of a `bulk_write`, as MongoDB's Rust driver has them: errors of calls that were done in
//! part contain them.

use std::collections::HashMap;

use bson::Bson;
use serde::Serialize;

use crate::generated::GeneratedValues;

/// The result of [`insert_one`](struct.Collection.html#method.insert_one).
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let number = AutoIncrement::builder().field("number").build();
/// people.create_auto_increment(number).run()?;
/// let inserted = people.insert_one(doc! { "_id": "ada" }).run()?;
/// assert_eq!(inserted.inserted_id, "ada".into());
/// assert_eq!(inserted.last_generate_id, Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id` of the document: its own, or the `ObjectId` that was generated for it.
    pub inserted_id: Bson,
    /// The values that were generated for auto-increment fields.
    pub generated: GeneratedValues,
    /// The generated value of the first field by name. `None` if no value was generated.
    pub last_generate_id: Option<i64>,
    /// Whether the call had happened before, by its token: then this is the result of the first time.
    pub was_replayed: bool,
}

#[doc(hidden)]
impl InsertOneResult {
    #[inline]
    pub fn new(inserted_id: Bson, generated: GeneratedValues, last_generate_id: Option<i64>) -> Self {
        Self { inserted_id, generated, last_generate_id, was_replayed: false }
    }

    /// The result as that of a call that had happened before.
    #[must_use]
    pub fn replayed(self) -> Self {
        Self { was_replayed: true, ..self }
    }
}

/// The result of [`insert_many`](struct.Collection.html#method.insert_many).
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let inserted = people.insert_many([doc! { "_id": "ada" }, doc! { "_id": "grace" }]).run()?;
/// assert_eq!(inserted.inserted_ids[&1], "grace".into());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id`s of the documents, by position in the call.
    pub inserted_ids: HashMap<usize, Bson>,
    /// The values that were generated for auto-increment fields, by position in the call. Documents without generated
    /// values are left out.
    pub generated: HashMap<usize, GeneratedValues>,
    /// Of the first document with generated values, the value of the first field by name. `None` if there is no such
    /// document.
    pub last_generate_id: Option<i64>,
    /// Whether the call had happened before, by its token: then this is the result of the first time.
    pub was_replayed: bool,
}

#[doc(hidden)]
impl InsertManyResult {
    pub fn new(
        inserted_ids: HashMap<usize, Bson>,
        generated: HashMap<usize, GeneratedValues>,
        last_generate_id: Option<i64>,
    ) -> Self {
        Self { inserted_ids, generated, last_generate_id, was_replayed: false }
    }

    /// The result as that of a call that had happened before.
    #[must_use]
    pub fn replayed(self) -> Self {
        Self { was_replayed: true, ..self }
    }
}

/// The result of [`delete_one`](struct.Collection.html#method.delete_one) and [`delete_many`](struct.Collection.html#method.delete_many).
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// assert_eq!(people.delete_one(doc! { "name": "Ada" }).run()?.deleted_count, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeleteResult {
    /// The number of removed documents.
    pub deleted_count: u64,
    /// Whether the call had happened before, by its token: then this is the result of the first time.
    pub was_replayed: bool,
}

#[doc(hidden)]
impl DeleteResult {
    #[inline]
    pub fn new(deleted_count: u64) -> Self {
        Self { deleted_count, was_replayed: false }
    }

    /// The result as that of a call that had happened before.
    #[must_use]
    pub fn replayed(self) -> Self {
        Self { was_replayed: true, ..self }
    }
}

/// The result of an update or a replacement.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
/// let update = people.update_one(doc! { "_id": 1 }, doc! { "$set": { "name": "Ada" } }).run()?;
/// // The document matched, and has that name already.
/// assert_eq!((update.matched_count, update.modified_count), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UpdateResult {
    /// The number of documents that matched the filter.
    pub matched_count: u64,
    /// The number of documents that were changed. A document that already is as the update makes it does not count.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted. `None` if none was inserted.
    pub upserted_id: Option<Bson>,
    /// Whether the call had happened before, by its token: then this is the result of the first time.
    pub was_replayed: bool,
}

#[doc(hidden)]
impl UpdateResult {
    #[inline]
    pub fn new(matched_count: u64, modified_count: u64, upserted_id: Option<Bson>) -> Self {
        Self { matched_count, modified_count, upserted_id, was_replayed: false }
    }

    /// The result as that of a call that had happened before.
    #[must_use]
    pub fn replayed(self) -> Self {
        Self { was_replayed: true, ..self }
    }
}

/// The result of [`bulk_write`](struct.Client.html#method.bulk_write): sums over all writes.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 2 })?];
/// assert_eq!(people.bulk_write(writes).run()?.inserted_count, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SummaryBulkWriteResult {
    /// The number of documents that inserts stored.
    pub inserted_count: i64,
    /// The number of documents that upserts stored.
    pub upserted_count: i64,
    /// The number of documents that updates and replacements matched.
    pub matched_count: i64,
    /// The number of documents that updates and replacements changed.
    pub modified_count: i64,
    /// The number of removed documents.
    pub deleted_count: i64,
    /// Whether the call had happened before, by its token: then this is the result of the first time.
    pub was_replayed: bool,
}

/// The result of [`bulk_write`](struct.Client.html#method.bulk_write) with
/// [`verbose_results`](action/struct.BulkWrite.html#method.verbose_results): the result of each write.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 2 })?];
/// let result = people.bulk_write(writes).verbose_results().run()?;
/// assert_eq!(result.insert_results[&0].inserted_id, 1.into());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VerboseBulkWriteResult {
    /// The sums over all writes.
    pub summary: SummaryBulkWriteResult,
    /// The results of inserts, by position in the call.
    pub insert_results: HashMap<usize, InsertOneResult>,
    /// The results of updates and replacements, by position in the call.
    pub update_results: HashMap<usize, UpdateResult>,
    /// The results of deletes, by position in the call.
    pub delete_results: HashMap<usize, DeleteResult>,
}

/// The partial result of a [`bulk_write`](struct.Client.html#method.bulk_write) of which some writes were rejected,
/// as its error has it.
///
/// ```
/// # use cairndb::{Client, ErrorKind, PartialBulkWriteResult, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "_id": 2 }).run()?;
/// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 2 })?];
/// let error = people.bulk_write(writes).run().expect_err("2 is taken");
/// let ErrorKind::BulkWrite(refused) = error.kind() else { panic!("{error:?}") };
/// let Some(PartialBulkWriteResult::Summary(done)) = &refused.partial_result else { panic!("{refused:?}") };
/// assert_eq!(done.inserted_count, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum PartialBulkWriteResult {
    /// The sums over all writes.
    Summary(SummaryBulkWriteResult),
    /// The result of each write.
    Verbose(VerboseBulkWriteResult),
}
