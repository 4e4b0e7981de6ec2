//! Options of the verbs that read.

use std::time::Duration;

use bson::{Bson, Document};
use store::options::WriteConcern;

use crate::options::collation::Collation;
use crate::options::indexes::Hint;

/// Options of [`find`](crate::Collection::find) and [`find_one`](crate::Collection::find_one), to set with `with_options`.
///
/// ```
/// # use cairndb::{Client, FindOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// let mut options = FindOptions::default();
/// options.limit = Some(1);
/// let found = people.find(doc! {}).with_options(options).run()?;
/// assert_eq!(found.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOptions {
    /// Whether a sort that needs more memory than it may have goes on in temporary files. It does if nothing is said; with
    /// `false` it fails with code 292.
    pub allow_disk_use: Option<bool>,
    /// Accepted and without effect: documents are read one by one, so there are no batches.
    pub batch_size: Option<u32>,
    /// The rules by which strings are compared. By default their bytes are compared.
    pub collation: Option<Collation>,
    /// A comment. It is accepted, and neither stored nor logged.
    pub comment: Option<Bson>,
    /// Whether the cursor goes on after the last document, with those that are inserted later. It does not if nothing is said.
    pub cursor_type: Option<CursorType>,
    /// The index to use, by its keys or its name.
    pub hint: Option<Hint>,
    /// Variables for expressions, where `$$name` is the value of the variable `name`.
    pub let_vars: Option<Document>,
    /// The largest number of documents to return. With 0 there is no limit. Of a negative number the sign is ignored.
    pub limit: Option<i64>,
    /// The first key of the hinted index, in its order, that is not read any more: a value for each field of the index.
    pub max: Option<Document>,
    /// The time that [`next_if_any`](crate::Cursor::next_if_any) of a cursor that awaits documents waits for one. One
    /// second if nothing is said.
    pub max_await_time: Option<Duration>,
    /// The time limit, after which the call fails with code 50 (`MaxTimeMSExpired`). Time between two calls of the
    /// cursor does not count.
    pub max_time: Option<Duration>,
    /// The first key of the hinted index, in its order, that is read: a value for each field of the index.
    pub min: Option<Document>,
    /// The fields to return, and fields to compute.
    pub projection: Option<Document>,
    /// Whether the keys by which documents are found are returned in their place. The projection is ignored then.
    pub return_key: Option<bool>,
    /// Whether each document has its `_id` as the field `$recordId` too: documents are stored by it.
    pub show_record_id: Option<bool>,
    /// The number of matching documents to skip.
    pub skip: Option<u64>,
    /// The order of the documents: field paths with 1 (ascending) or -1 (descending).
    pub sort: Option<Document>,
}

/// Options of [`aggregate`](crate::Collection::aggregate), to set with `with_options`.
///
/// ```
/// # use cairndb::{Client, AggregateOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// let mut options = AggregateOptions::default();
/// options.let_vars = Some(doc! { "wanted": "Ada" });
/// let named = doc! { "$match": { "$expr": { "$eq": ["$name", "$$wanted"] } } };
/// let found = people.aggregate([named]).with_options(options).run()?;
/// assert_eq!(found.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AggregateOptions {
    /// Whether sorts, groups and joins that need more memory than they may have go on in temporary files. They do if nothing is said;
    /// with `false` they fail with code 292.
    pub allow_disk_use: Option<bool>,
    /// Accepted and without effect: documents are read one by one, so there are no batches.
    pub batch_size: Option<u32>,
    /// With `true`, the documents that `$out` and `$merge` write are not checked by the validator of their target.
    pub bypass_document_validation: Option<bool>,
    /// The rules by which strings are compared. By default their bytes are compared.
    pub collation: Option<Collation>,
    /// A comment. It is accepted, and neither stored nor logged.
    pub comment: Option<Bson>,
    /// The index to use, by its keys or its name.
    pub hint: Option<Hint>,
    /// Variables for expressions, where `$$name` is the value of the variable `name`.
    pub let_vars: Option<Document>,
    /// The time limit, after which the call fails with code 50 (`MaxTimeMSExpired`). Time between two calls of the
    /// cursor does not count.
    pub max_time: Option<Duration>,
    /// The write concern of `$merge`: it decides when the writes are acknowledged. The default is as the client was
    /// opened. What `$out` puts in place is always journaled.
    pub write_concern: Option<WriteConcern>,
}

/// Options of [`count_documents`](crate::Collection::count_documents), to set with `with_options`.
///
/// ```
/// # use cairndb::{Client, CountOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// let mut options = CountOptions::default();
/// options.skip = Some(1);
/// assert_eq!(people.count_documents(doc! {}).with_options(options).run()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CountOptions {
    /// The rules by which strings are compared. By default their bytes are compared.
    pub collation: Option<Collation>,
    /// A comment. It is accepted, and neither stored nor logged.
    pub comment: Option<Bson>,
    /// The index to use, by its keys or its name.
    pub hint: Option<Hint>,
    /// The number at which counting stops. It must be positive.
    pub limit: Option<u64>,
    /// The time limit, after which the call fails with code 50 (`MaxTimeMSExpired`).
    pub max_time: Option<Duration>,
    /// The number of matching documents to skip.
    pub skip: Option<u64>,
}

/// Options of [`distinct`](crate::Collection::distinct), to set with `with_options`.
///
/// ```
/// # use cairndb::{Client, DistinctOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// let mut options = DistinctOptions::default();
/// options.max_time = Some(std::time::Duration::from_secs(5));
/// let names = people.distinct("name", doc! {}).with_options(options).run()?;
/// assert_eq!(names.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DistinctOptions {
    /// The rules by which strings are compared. By default their bytes are compared.
    pub collation: Option<Collation>,
    /// A comment. It is accepted, and neither stored nor logged.
    pub comment: Option<Bson>,
    /// The index to use, by its keys or its name.
    pub hint: Option<Hint>,
    /// The time limit, after which the call fails with code 50 (`MaxTimeMSExpired`).
    pub max_time: Option<Duration>,
}

/// The behavior of a cursor after the last document.
///
/// A tailable cursor reads a capped collection in the order in which documents were inserted, and goes on with those that are
/// inserted later. [`Cursor`](crate::Cursor#tailable-cursors) says how it is read, and how it ends.
///
/// ```
/// # use cairndb::{Client, CursorType, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let db = client.database("app");
/// db.create_collection("log").capped(true).size(1 << 20).run()?;
/// let log = db.collection::<Document>("log");
/// log.insert_one(doc! { "_id": 1 }).run()?;
///
/// let mut cursor = log.find(doc! {}).cursor_type(CursorType::Tailable).run()?;
/// assert_eq!(cursor.next().transpose()?, Some(doc! { "_id": 1 }));
/// assert_eq!(cursor.next_if_any()?, None);
/// log.insert_one(doc! { "_id": 2 }).run()?;
/// assert_eq!(cursor.next_if_any()?, Some(doc! { "_id": 2 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorType {
    /// It ends.
    #[default]
    NonTailable,
    /// It stays open. `next_if_any` does not wait for the next document.
    Tailable,
    /// It stays open. `next_if_any` waits for the next document, for a while.
    TailableAwait,
}
