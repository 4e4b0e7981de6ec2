//! Options of the verbs that write.

use std::time::Duration;

use base::error::Result;
use bson::{Bson, Document};
use store::options::WriteConcern;

use crate::arguments::{Arguments, FromArgument};
use crate::options::collation::Collation;
use crate::options::declare::options;
use crate::options::indexes::Hint;

options!(
    /// Options of [`insert_one`](crate::Collection::insert_one), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, InsertOneOptions, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = InsertOneOptions::default();
    /// options.write_concern = Some(WriteConcern::journaled());
    /// people.insert_one(doc! { "name": "Edith" }).with_options(options).run()?;
    /// # Ok(())
    /// # }
    /// ```
    InsertOneOptions, insert_one_option, {
        /// With `true`, an auto-increment field keeps the value that the document has, whatever the field's
        /// [`Generated`](crate::Generated) mode, and the validator of the collection checks nothing. Use it to restore documents of a
        /// dump.
        bypass_document_validation: bool = "bypassDocumentValidation",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), and nothing
        /// is stored.
        max_time: Duration,
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern = "writeConcern",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`insert_many`](crate::Collection::insert_many), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, InsertManyOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = InsertManyOptions::default();
    /// options.ordered = Some(false);
    /// // The first is refused; the second is stored.
    /// let documents = [doc! { "_id": 1 }, doc! { "_id": 3 }];
    /// assert!(people.insert_many(documents).with_options(options).run().is_err());
    /// assert_eq!(people.count_documents(doc! {}).run()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    InsertManyOptions, insert_many_option, {
        /// With `true`, an auto-increment field keeps the value that the document has, whatever the field's
        /// [`Generated`](crate::Generated) mode, and the validator of the collection checks nothing. Use it to restore documents of a
        /// dump.
        bypass_document_validation: bool = "bypassDocumentValidation",
        /// With `true`, the default, the call stops at the first rejected document. With `false` it tries all documents.
        ordered: bool = "ordered",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Documents that were stored
        /// by then stay.
        max_time: Duration,
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern = "writeConcern",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`delete_one`](crate::Collection::delete_one) and [`delete_many`](crate::Collection::delete_many), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, DeleteOptions, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = DeleteOptions::default();
    /// options.write_concern = Some(WriteConcern::journaled());
    /// let deleted = people.delete_many(doc! {}).with_options(options).run()?;
    /// assert_eq!(deleted.deleted_count, 2);
    /// # Ok(())
    /// # }
    /// ```
    DeleteOptions, delete_option, {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document,
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Documents that were
        /// removed by then stay removed.
        max_time: Duration,
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern,
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`replace_one`](crate::Collection::replace_one), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, ReplaceOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = ReplaceOptions::default();
    /// options.upsert = Some(true);
    /// let replaced = people.replace_one(doc! { "_id": 3 }, doc! { "name": "Edith" });
    /// assert_eq!(replaced.with_options(options).run()?.upserted_id, Some(3.into()));
    /// # Ok(())
    /// # }
    /// ```
    ReplaceOptions, replace_option, {
        /// With `true`, the document is not checked by the validator of the collection.
        bypass_document_validation: bool,
        /// With `true`, the replacement is inserted when no document matches.
        upsert: bool = "upsert",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document,
        /// The order that decides which of several matching documents is chosen.
        sort: Document = "sort",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
        max_time: Duration,
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern,
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`update_one`](crate::Collection::update_one) and [`update_many`](crate::Collection::update_many), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, UpdateOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = UpdateOptions::default();
    /// options.upsert = Some(true);
    /// let update = people.update_one(doc! { "_id": 3 }, doc! { "$set": { "name": "Edith" } });
    /// assert_eq!(update.with_options(options).run()?.upserted_id, Some(3.into()));
    /// # Ok(())
    /// # }
    /// ```
    UpdateOptions, update_option, {
        /// The filters for array elements: `$[name]` in the update means the elements that the filter on `name` matches.
        array_filters: Vec<Document> = "arrayFilters",
        /// With `true`, the document is not checked by the validator of the collection.
        bypass_document_validation: bool,
        /// With `true`, a document is inserted when none matches. It has the fields that the filter compares by equality, changed by
        /// the update.
        upsert: bool = "upsert",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document,
        /// The order that decides which of several matching documents is chosen. Only `update_one` can have one.
        sort: Document = "sort",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Documents that were changed
        /// by then stay changed.
        max_time: Duration,
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern,
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`find_one_and_update`](crate::Collection::find_one_and_update), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, FindOneAndUpdateOptions, ReturnDocument, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = FindOneAndUpdateOptions::default();
    /// options.return_document = Some(ReturnDocument::After);
    /// let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });
    /// let after = update.with_options(options).run()?;
    /// assert_eq!(after, Some(doc! { "_id": 1, "name": "Augusta" }));
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndUpdateOptions, find_one_and_update_option, {
        /// The filters for array elements: `$[name]` in the update means the elements that the filter on `name` matches.
        array_filters: Vec<Document> = "arrayFilters",
        /// With `true`, the document is not checked by the validator of the collection.
        bypass_document_validation: bool = "bypassDocumentValidation",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is already being
        /// written.
        max_time: Duration,
        /// The fields to return, and fields to compute.
        projection: Document = "fields",
        /// Which state of the document to return. The default is the state before the change.
        return_document: ReturnDocument = "new",
        /// The order that decides which of several matching documents is chosen.
        sort: Document = "sort",
        /// With `true`, a document is inserted when none matches. It has the fields that the filter compares by equality, changed by
        /// the update.
        upsert: bool = "upsert",
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern = "writeConcern",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document = "let",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`find_one_and_replace`](crate::Collection::find_one_and_replace), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, FindOneAndReplaceOptions, ReturnDocument, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = FindOneAndReplaceOptions::default();
    /// options.return_document = Some(ReturnDocument::After);
    /// let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });
    /// let after = replacing.with_options(options).run()?;
    /// assert_eq!(after, Some(doc! { "_id": 1, "name": "Augusta" }));
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndReplaceOptions, find_one_and_replace_option, {
        /// With `true`, the document is not checked by the validator of the collection.
        bypass_document_validation: bool = "bypassDocumentValidation",
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is already being
        /// written.
        max_time: Duration,
        /// The fields to return, and fields to compute.
        projection: Document = "fields",
        /// Which state of the document to return. The default is the state before the change.
        return_document: ReturnDocument = "new",
        /// The order that decides which of several matching documents is chosen.
        sort: Document = "sort",
        /// With `true`, the replacement is inserted when no document matches.
        upsert: bool = "upsert",
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern = "writeConcern",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document = "let",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

options!(
    /// Options of [`find_one_and_delete`](crate::Collection::find_one_and_delete), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, FindOneAndDeleteOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = FindOneAndDeleteOptions::default();
    /// options.sort = Some(doc! { "_id": -1 });
    /// let last = people.find_one_and_delete(doc! {}).with_options(options).run()?;
    /// assert_eq!(last, Some(doc! { "_id": 2, "name": "Grace" }));
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndDeleteOptions, find_one_and_delete_option, {
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is already being
        /// written.
        max_time: Duration,
        /// The fields to return, and fields to compute.
        projection: Document = "fields",
        /// The order that decides which of several matching documents is chosen.
        sort: Document = "sort",
        /// The write concern: it decides when the write is acknowledged. The default is as the client was opened.
        write_concern: WriteConcern = "writeConcern",
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation = "collation",
        /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if no such index exists.
        hint: Hint = "hint",
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document = "let",
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
    }
);

/// The modifications of an update: operators such as `{$set: {..}}`, or a pipeline of stages. A [`Document`] and a
/// `Vec<Document>` convert into it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "_id": 1, "price": 10, "tax": 2 }).run()?;
///
/// let operators = doc! { "$inc": { "price": 5 } };
/// people.update_one(doc! { "_id": 1 }, operators).run()?;
/// let pipeline = vec![doc! { "$set": { "total": { "$add": ["$price", "$tax"] } } }];
/// people.update_one(doc! { "_id": 1 }, pipeline).run()?;
/// assert!(people.find_one(doc! { "total": 17 }).run()?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// Operators.
    Document(Document),
    /// Stages of an aggregation pipeline: each computes a new document from the one before.
    Pipeline(Vec<Document>),
}

impl FromArgument for UpdateModifications {
    /// A document of operators, a replacement, or a pipeline.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        // Known by the type alone: an empty array is a pipeline without stages, not a missing update.
        if let Some(Bson::Array(_)) = arguments.given(field) {
            return Ok(arguments.read(field)?.map(Self::Pipeline));
        }
        Ok(arguments.read(field)?.map(Self::Document))
    }
}

impl From<Document> for UpdateModifications {
    fn from(update: Document) -> Self {
        Self::Document(update)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(stages: Vec<Document>) -> Self {
        Self::Pipeline(stages)
    }
}

/// Which state of the document [`find_one_and_update`](crate::Collection::find_one_and_update) and
/// [`find_one_and_replace`](crate::Collection::find_one_and_replace) return.
///
/// ```
/// # use cairndb::{Client, ReturnDocument, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "_id": 1, "n": 1 }).run()?;
/// let increment = doc! { "$inc": { "n": 1 } };
/// let before = people.find_one_and_update(doc! { "_id": 1 }, increment.clone()).run()?;
/// assert_eq!(before, Some(doc! { "_id": 1, "n": 1 }));
/// let again = people.find_one_and_update(doc! { "_id": 1 }, increment);
/// let after = again.return_document(ReturnDocument::After).run()?;
/// assert_eq!(after, Some(doc! { "_id": 1, "n": 3 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReturnDocument {
    /// The state before the change.
    #[default]
    Before,
    /// The state after the change.
    After,
}

impl FromArgument for ReturnDocument {
    /// The field is `new`, and absent it is `false`.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let is_after = arguments.boolean(field)?.unwrap_or(false);
        Ok(Some(if is_after { Self::After } else { Self::Before }))
    }
}
