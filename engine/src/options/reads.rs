//! Options of the verbs that read.

use std::time::Duration;

use base::codes::refused;
use base::error::{Error, Result};
use bson::{Bson, Document};
use query::code::Code;
use store::options::WriteConcern;

use crate::arguments::{Arguments, FromArgument};
use crate::options::collation::Collation;
use crate::options::declare::options;
use crate::options::indexes::Hint;

options!(
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
    FindOptions, find_option, {
        /// Whether a sort that needs more memory than it may have goes on in temporary files, in the folder of the database. It does
        /// if nothing is said. With `false` it fails with code 292 (`QueryExceededMemoryLimitNoDiskUseAllowed`).
        allow_disk_use: bool = "allowDiskUse",
        /// Accepted and without effect: documents are read one by one, so there are no batches.
        batch_size: u32,
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
        /// Whether the cursor goes on after the last document, with those that are inserted later. Only a capped collection can be
        /// read so, in the order of its documents: all else fails with code 2 (`BadValue`).
        cursor_type: CursorType = "tailable",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document = "let",
        /// The largest number of documents to return. With 0 there is no limit. Of a negative number the sign is ignored.
        limit: i64 = "limit",
        /// The first key that is not read any more: a value for each field of the index that the hint names, in their order. Keys
        /// are compared field by field as the index sorts them, values of all types with each other.
        ///
        /// The call fails without a hint (51173), with fields that are not those of the index (51174) or not those of `min`
        /// (51176), and with a key that does not come after that of `min` (51175).
        max: Document = "max",
        /// The time that [`next_if_any`](crate::Cursor::next_if_any) of a cursor of [`CursorType::TailableAwait`](crate::CursorType)
        /// waits for a document. One second if nothing is said; other cursors do not wait.
        max_await_time: Duration,
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Time between two calls of the
        /// cursor does not count.
        max_time: Duration,
        /// The first key that is read: a value for each field of the index that the hint names. For its rules see `max`.
        min: Document = "min",
        /// The fields to return, and fields to compute.
        projection: Document = "projection",
        /// Whether the keys by which documents are found are returned in their place: the fields of the index that is read, with
        /// the values of the entry. They are empty if all documents are read. The projection is ignored.
        return_key: bool = "returnKey",
        /// Whether each document has its `_id` as the field `$recordId` too: documents are stored by their `_id`, and have no other
        /// number.
        show_record_id: bool = "showRecordId",
        /// The number of matching documents to skip.
        skip: u64 = "skip",
        /// The order of the documents: field paths with 1 (ascending) or -1 (descending). It decides which of several documents
        /// `find_one` finds.
        sort: Document = "sort",
    }
);

options!(
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
    AggregateOptions, aggregate_option, {
        /// Whether sorts, groups and joins that need more memory than they may have go on in temporary files, in the folder of the
        /// database. They do if nothing is said. With `false` they fail with code 292
        /// (`QueryExceededMemoryLimitNoDiskUseAllowed`), as stages that cannot go on in files always do.
        allow_disk_use: bool = "allowDiskUse",
        /// Accepted and without effect: documents are read one by one, so there are no batches.
        batch_size: u32,
        /// With `true`, the documents that `$out` and `$merge` write are not checked by the validator of their target.
        bypass_document_validation: bool = "bypassDocumentValidation",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document = "let",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Time between two calls of the
        /// cursor does not count.
        max_time: Duration,
        /// The write concern of `$merge`: it decides when the writes are acknowledged. The default is as the client was opened. What
        /// `$out` puts in place is always journaled.
        write_concern: WriteConcern = "writeConcern",
    }
);

options!(
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
    CountOptions, count_option, {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// The number at which counting stops. It must be positive.
        limit: u64,
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
        max_time: Duration,
        /// The number of matching documents to skip.
        skip: u64 = "skip",
    }
);

options!(
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
    DistinctOptions, distinct_option, {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
        max_time: Duration,
    }
);

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

impl FromArgument for CursorType {
    /// The field is `tailable`, which others belong to.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let flag = |field| Ok::<_, Error>(arguments.boolean(field)? == Some(true));
        let (is_tailable, awaits) = (flag(field)?, flag("awaitData")?);
        if awaits && !is_tailable {
            let message = "Cannot set 'awaitData' without also setting 'tailable'";
            return Err(refused(Code::FAILED_TO_PARSE, message));
        }
        if is_tailable && flag("singleBatch")? {
            let message = "cannot use tailable option with the 'singleBatch' option";
            return Err(refused(Code::BAD_VALUE, message));
        }
        Ok(is_tailable.then_some(if awaits { Self::TailableAwait } else { Self::Tailable }))
    }
}
