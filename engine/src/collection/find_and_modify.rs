//! `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`: change one document and return it, in one
//! step.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::time::Duration;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::projection::Projection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codes::refused;
use crate::collection::change::{ChangeOptions, ChangeRequest};
use crate::collection::explain::ExplainedWrite;
use crate::collection::find::parse_projection;
use crate::collection::handle::{Collection, Terms};
use crate::document::decode::decode_owned;
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::{
    Collation, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, Hint,
    ReturnDocument, UpdateModifications, WriteConcern,
};
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;
use crate::results::number;
use crate::write::change::Change;
use crate::write::delete;
use crate::write::find::DocumentSearch;
use crate::write::update::{self, Image, Shown};
use crate::write::upsert::Upserted;
use crate::write::{Preview, Target};

impl<T> Collection<T> {
    /// Changes one document that matches the filter and returns it. The state before the change is returned, or with
    /// [`return_document(ReturnDocument::After)`](FindOneAndUpdate::return_document) the state after it.
    ///
    /// No other thread writes the document in between. So if many threads count up a number in it, each gets a number of
    /// its own.
    ///
    /// A recipe: [a counter](crate::guide::recipes#a-counter).
    ///
    /// ```
    /// # use cairndb::{Client, ReturnDocument, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let counters = client.database("shop").collection::<Document>("counters");
    /// let next = || {
    ///     counters
    ///         .find_one_and_update(doc! { "_id": "orders" }, doc! { "$inc": { "last": 1 } })
    ///         .upsert(true)
    ///         .return_document(ReturnDocument::After)
    ///         .run()
    /// };
    /// assert_eq!(next()?, Some(doc! { "_id": "orders", "last": 1 }));
    /// assert_eq!(next()?, Some(doc! { "_id": "orders", "last": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, T> {
        let options = FindOneAndUpdateOptions::default();
        FindOneAndUpdate { collection: self, filter, update: update.into(), options }
    }

    /// Replaces one document that matches the filter and returns it. The state before the replacement is returned, or with
    /// [`return_document(ReturnDocument::After)`](FindOneAndReplace::return_document) the state after it.
    ///
    /// What a replacement keeps and refuses is described at [`replace_one`](Self::replace_one).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// let before = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" }).run()?;
    /// assert_eq!(before, Some(doc! { "_id": 1, "name": "Ada" }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_replace<D: Borrow<T>>(
        &self,
        filter: Document,
        replacement: D,
    ) -> FindOneAndReplace<'_, T, D> {
        let options = FindOneAndReplaceOptions::default();
        FindOneAndReplace { collection: self, filter, replacement, options }
    }

    /// Removes one document that matches the filter and returns it. Of many threads that take documents in this way, no two
    /// get the same one.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let jobs = client.database("app").collection::<Document>("jobs");
    /// jobs.insert_many([doc! { "_id": 1, "task": "print" }, doc! { "_id": 2, "task": "mail" }]).run()?;
    /// let next = jobs.find_one_and_delete(doc! {}).sort(doc! { "_id": 1 }).run()?;
    /// assert_eq!(next, Some(doc! { "_id": 1, "task": "print" }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, T> {
        FindOneAndDelete { collection: self, filter, options: FindOneAndDeleteOptions::default() }
    }
}

/// The action that [`Collection::find_one_and_update`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, ReturnDocument, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "visits": 1 } });
/// let after = update.upsert(true).return_document(ReturnDocument::After).projection(doc! { "_id": 0 });
/// assert_eq!(after.run()?, Some(doc! { "visits": 1 }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the update is done by run()"]
pub struct FindOneAndUpdate<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    update: UpdateModifications,
    options: FindOneAndUpdateOptions,
}

/// The action that [`Collection::find_one_and_replace`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, ReturnDocument, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let replace = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Ada" });
/// let after = replace.upsert(true).return_document(ReturnDocument::After).run()?;
/// assert_eq!(after, Some(doc! { "_id": 1, "name": "Ada" }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the replacement is done by run()"]
pub struct FindOneAndReplace<'a, T, D> {
    collection: &'a Collection<T>,
    filter: Document,
    replacement: D,
    options: FindOneAndReplaceOptions,
}

/// The action that [`Collection::find_one_and_delete`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let delete = people.find_one_and_delete(doc! {}).sort(doc! { "_id": -1 });
/// assert_eq!(delete.projection(doc! { "name": 1 }).run()?, Some(doc! { "_id": 2, "name": "Grace" }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the delete is done by run()"]
pub struct FindOneAndDelete<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOneAndDeleteOptions,
}

setters!(FindOneAndUpdate<'a, T>, FindOneAndUpdateOptions, r#"people.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "visits": 1 } })"#, {
    /// The filters for array elements: `$[name]` in the update stands for the elements that the filter on `name`
    /// matches.
    array_filters: Vec<Document> = [
        r#"people.insert_one(doc! { "_id": 3, "scores": [2, 9] }).run()?;"#,
        r#"let raise = doc! { "$set": { "scores.$[low]": 5 } };"#,
        "let updated = people",
        r#"    .find_one_and_update(doc! { "_id": 3 }, raise)"#,
        r#"    .array_filters(vec![doc! { "low": { "$lt": 5 } }])"#,
        "    .return_document(ReturnDocument::After)",
        "    .run()?;",
        r#"assert_eq!(updated, Some(doc! { "_id": 3, "scores": [5, 9] }));"#,
    ],
    /// With `true`, the document is not checked by the validator of the collection.
    bypass_document_validation: bool = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        "assert_eq!(update.bypass_document_validation(true).run()?, Some(ada));",
    ],
    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is
    /// already being written.
    max_time: Duration = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        "assert_eq!(update.max_time(Duration::from_secs(5)).run()?, Some(ada));",
    ],
    /// The fields to return, and fields to compute.
    projection: Document = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        r#"let before = update.projection(doc! { "_id": 0, "name": 1 }).run()?;"#,
        r#"assert_eq!(before, Some(doc! { "name": "Ada" }));"#,
    ],
    /// Which state of the document to return. The default is the state before the change.
    return_document: ReturnDocument = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        "let after = update.return_document(ReturnDocument::After).run()?;",
        r#"assert_eq!(after, Some(doc! { "_id": 1, "name": "Augusta" }));"#,
    ],
    /// The order that decides which of several matching documents is taken.
    sort: Document = [
        r#"let update = people.find_one_and_update(doc! {}, doc! { "$set": { "is_last": true } });"#,
        r#"assert_eq!(update.sort(doc! { "_id": -1 }).run()?, Some(grace));"#,
    ],
    /// With `true`, a document is inserted when none matches. It has the fields that the filter compares by
    /// equality, changed by the update.
    upsert: bool = [
        "let inserted = people",
        r#"    .find_one_and_update(doc! { "_id": 3 }, doc! { "$set": { "name": "Edith" } })"#,
        "    .upsert(true)",
        "    .return_document(ReturnDocument::After)",
        "    .run()?;",
        r#"assert_eq!(inserted, Some(doc! { "_id": 3, "name": "Edith" }));"#,
    ],
    /// When the write is acknowledged. The default is as the client was opened.
    write_concern: WriteConcern = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        "assert_eq!(update.write_concern(WriteConcern::journaled()).run()?, Some(ada));",
    ],
    /// The rules by which strings are compared. By default their bytes are compared.
    collation: Collation = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        "assert_eq!(update.collation(Collation::simple()).run()?, Some(ada));",
    ],
    /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if there is no such
    /// index.
    hint: Hint = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        r#"assert_eq!(update.hint(Hint::Keys(doc! { "_id": 1 })).run()?, Some(ada));"#,
    ],
    /// Variables for expressions, where `$$name` is the value of the variable `name`.
    let_vars: Document = [
        r#"let filter = doc! { "$expr": { "$eq": ["$name", "$$wanted"] } };"#,
        r#"let update = people.find_one_and_update(filter, doc! { "$set": { "found": true } });"#,
        r#"assert_eq!(update.let_vars(doc! { "wanted": "Ada" }).run()?, Some(ada));"#,
    ],
    /// A comment. It is accepted, and neither stored nor logged.
    comment: Bson = [
        r#"let update = people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "name": "Augusta" } });"#,
        r#"assert_eq!(update.comment("nightly report".into()).run()?, Some(ada));"#,
    ],
});

setters!(FindOneAndReplace<'a, T, D>, FindOneAndReplaceOptions, r#"people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Ada" })"#, {
    /// With `true`, the document is not checked by the validator of the collection.
    bypass_document_validation: bool = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        "assert_eq!(replacing.bypass_document_validation(true).run()?, Some(ada));",
    ],
    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is
    /// already being written.
    max_time: Duration = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        "assert_eq!(replacing.max_time(Duration::from_secs(5)).run()?, Some(ada));",
    ],
    /// The fields to return, and fields to compute.
    projection: Document = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        r#"let before = replacing.projection(doc! { "_id": 0, "name": 1 }).run()?;"#,
        r#"assert_eq!(before, Some(doc! { "name": "Ada" }));"#,
    ],
    /// Which state of the document to return. The default is the state before the change.
    return_document: ReturnDocument = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        "let after = replacing.return_document(ReturnDocument::After).run()?;",
        r#"assert_eq!(after, Some(doc! { "_id": 1, "name": "Augusta" }));"#,
    ],
    /// The order that decides which of several matching documents is taken.
    sort: Document = [
        r#"let replacing = people.find_one_and_replace(doc! {}, doc! { "name": "Edith" });"#,
        r#"assert_eq!(replacing.sort(doc! { "_id": -1 }).run()?, Some(grace));"#,
    ],
    /// With `true`, the replacement is inserted when no document matches.
    upsert: bool = [
        "let inserted = people",
        r#"    .find_one_and_replace(doc! { "_id": 3 }, doc! { "name": "Edith" })"#,
        "    .upsert(true)",
        "    .return_document(ReturnDocument::After)",
        "    .run()?;",
        r#"assert_eq!(inserted, Some(doc! { "_id": 3, "name": "Edith" }));"#,
    ],
    /// When the write is acknowledged. The default is as the client was opened.
    write_concern: WriteConcern = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        "assert_eq!(replacing.write_concern(WriteConcern::journaled()).run()?, Some(ada));",
    ],
    /// The rules by which strings are compared. By default their bytes are compared.
    collation: Collation = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        "assert_eq!(replacing.collation(Collation::simple()).run()?, Some(ada));",
    ],
    /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if there is no such
    /// index.
    hint: Hint = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        r#"assert_eq!(replacing.hint(Hint::Keys(doc! { "_id": 1 })).run()?, Some(ada));"#,
    ],
    /// Variables for expressions, where `$$name` is the value of the variable `name`.
    let_vars: Document = [
        r#"let filter = doc! { "$expr": { "$eq": ["$name", "$$wanted"] } };"#,
        r#"let replacing = people.find_one_and_replace(filter, doc! { "name": "Augusta" });"#,
        r#"assert_eq!(replacing.let_vars(doc! { "wanted": "Ada" }).run()?, Some(ada));"#,
    ],
    /// A comment. It is accepted, and neither stored nor logged.
    comment: Bson = [
        r#"let replacing = people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" });"#,
        r#"assert_eq!(replacing.comment("nightly report".into()).run()?, Some(ada));"#,
    ],
});

setters!(FindOneAndDelete<'a, T>, FindOneAndDeleteOptions, r#"people.find_one_and_delete(doc! { "_id": 1 })"#, {
    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), unless the document is
    /// already being written.
    max_time: Duration = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        "assert_eq!(deleting.max_time(Duration::from_secs(5)).run()?, Some(ada));",
    ],
    /// The fields to return, and fields to compute.
    projection: Document = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        r#"let before = deleting.projection(doc! { "_id": 0, "name": 1 }).run()?;"#,
        r#"assert_eq!(before, Some(doc! { "name": "Ada" }));"#,
    ],
    /// The order that decides which of several matching documents is taken.
    sort: Document = [
        "let deleting = people.find_one_and_delete(doc! {});",
        r#"assert_eq!(deleting.sort(doc! { "_id": -1 }).run()?, Some(grace));"#,
    ],
    /// When the write is acknowledged. The default is as the client was opened.
    write_concern: WriteConcern = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        "assert_eq!(deleting.write_concern(WriteConcern::journaled()).run()?, Some(ada));",
    ],
    /// The rules by which strings are compared. By default their bytes are compared.
    collation: Collation = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        "assert_eq!(deleting.collation(Collation::simple()).run()?, Some(ada));",
    ],
    /// The index to use, by its keys or its name. The call fails with code 2 (`BadValue`) if there is no such
    /// index.
    hint: Hint = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        r#"assert_eq!(deleting.hint(Hint::Keys(doc! { "_id": 1 })).run()?, Some(ada));"#,
    ],
    /// Variables for expressions, where `$$name` is the value of the variable `name`.
    let_vars: Document = [
        r#"let filter = doc! { "$expr": { "$eq": ["$name", "$$wanted"] } };"#,
        "let deleting = people.find_one_and_delete(filter);",
        r#"assert_eq!(deleting.let_vars(doc! { "wanted": "Ada" }).run()?, Some(ada));"#,
    ],
    /// A comment. It is accepted, and neither stored nor logged.
    comment: Bson = [
        r#"let deleting = people.find_one_and_delete(doc! { "_id": 1 });"#,
        r#"assert_eq!(deleting.comment("nightly report".into()).run()?, Some(ada));"#,
    ],
});

impl<T: DeserializeOwned + 'static> FindOneAndUpdate<'_, T> {
    /// Changes the document. Returns `None` if no document matched, also after an upsert unless the state after the change
    /// was asked for.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify()?;
        // Decoded after the store was left, because decoding runs code of the caller. The change is committed
        // by then: a document that is no `T` is an error of the call, and is changed all the same.
        found.document.map(decode_owned).transpose()
    }
}

impl<T> FindOneAndUpdate<'_, T> {
    /// Changes the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndUpdate);
        // MongoDB's `findAndModify` has no list of write errors: a refusal is the error of the whole call.
        let found = self.find_and_modify().map_err(Error::into_command);
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self) -> Result<Modified> {
        let (selector, change) = self.parse()?;
        let options = ModifyOptions::of_update(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.find_and_change(&request)
    }

    /// Plans the change for `explain`, and at [`Depth::Execution`] reads what it would change. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let (selector, change) = self.parse()?;
        let options = ModifyOptions::of_update(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.explain_find_and_change(&request, depth)
    }

    fn parse(&self) -> Result<(Selector, Change<'static>)> {
        let FindOneAndUpdateOptions { array_filters, let_vars, collation, .. } = &self.options;
        let collation = self.collection.rules(collation.as_ref())?;
        let operation = self.collection.begin(self.options.max_time);
        let selector = Selector::parse(&self.filter, let_vars.as_ref(), operation, collation)?;
        // After the selector, because the stages of a pipeline use its variables and its clock.
        let change = Change::of_update(&self.update, array_filters.as_deref(), selector.variables())?;
        Ok((selector, change))
    }
}

impl<T: Serialize + DeserializeOwned + 'static, D: Borrow<T>> FindOneAndReplace<'_, T, D> {
    /// Replaces the document. Returns `None` if no document matched, also after an upsert unless the state after the
    /// replacement was asked for.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify()?;
        found.document.map(decode_owned).transpose()
    }
}

impl<T: Serialize, D: Borrow<T>> FindOneAndReplace<'_, T, D> {
    /// Replaces the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndReplace);
        // MongoDB's `findAndModify` has no list of write errors: a refusal is the error of the whole call.
        let found = self.find_and_modify().map_err(Error::into_command);
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self) -> Result<Modified> {
        // Before the store is entered: the caller's code in `Serialize` runs while nothing is locked.
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let change = Change::of_replacement(&bytes)?;
        let selector = self.parse_filter()?;
        let options = ModifyOptions::of_replacement(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.find_and_change(&request)
    }

    /// Plans the replacement for `explain`, and at [`Depth::Execution`] reads what it would replace. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        // The replacement is checked here as well: an explanation refuses what the write would refuse.
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let change = Change::of_replacement(&bytes)?;
        let selector = self.parse_filter()?;
        let options = ModifyOptions::of_replacement(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.explain_find_and_change(&request, depth)
    }

    fn parse_filter(&self) -> Result<Selector> {
        let operation = self.collection.begin(self.options.max_time);
        let collation = self.collection.rules(self.options.collation.as_ref())?;
        Selector::parse(&self.filter, self.options.let_vars.as_ref(), operation, collation)
    }
}

impl<T: DeserializeOwned + 'static> FindOneAndDelete<'_, T> {
    /// Removes the document. Returns `None` if no document matched.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify()?;
        // The document is removed by now. One that is no `T` makes the call fail, and does not come back.
        found.document.map(decode_owned).transpose()
    }
}

impl<T> FindOneAndDelete<'_, T> {
    /// Removes the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndDelete);
        // MongoDB's `findAndModify` has no list of write errors: a refusal is the error of the whole call.
        let found = self.find_and_modify().map_err(Error::into_command);
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self) -> Result<Modified> {
        let options = &self.options;
        let ParsedDelete { selector, order, projection } = self.parse()?;
        let search = DocumentSearch { selector: &selector, order: &order };
        let terms = Terms { concern: options.write_concern.as_ref(), operation: search.operation() };
        // A delete does not create the collection: it would find nothing in a new one.
        let deleted = self.collection.write_existing(terms, |target| {
            // Under the gate, so that the index of the hint is not dropped before the search.
            check_hint(options.hint.as_ref(), target.indexes)?;
            // The projection runs before the commit. If it fails, the document stays.
            delete::delete_one(target, search, |bytes| projected(bytes, projection.as_ref(), &selector))
        })?;
        // Without a collection and without a match the caller gets the same answer: no document.
        let document = deleted.flatten();
        Ok(Modified { is_found: document.is_some(), document, upserted_id: None })
    }

    /// Plans the delete for `explain`, and at [`Depth::Execution`] reads what it would remove. Nothing is removed.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let options = &self.options;
        let ParsedDelete { selector, order, projection } = self.parse()?;
        let search = DocumentSearch { selector: &selector, order: &order };
        let (hint, concern) = (options.hint.as_ref(), options.write_concern.as_ref());
        let options = ChangeOptions { upsert: None, hint, concern, bypass: None, preview: None };
        let write = ExplainedWrite { filter: &self.filter, search, options, limit: Some(1) };
        let explained = self.collection.explain_delete(write, depth)?;
        let rows = explained.rows();
        // The caller gets the removed document, so it is a row of this stage. In `delete_one` it is not.
        let explained = explained.under("DELETE", rows, doc! { "nWouldDelete": number(rows) });
        Ok(under_projection(explained, projection.as_ref()))
    }

    fn parse(&self) -> Result<ParsedDelete> {
        let options = &self.options;
        let collation = self.collection.rules(options.collation.as_ref())?;
        let operation = self.collection.begin(options.max_time);
        let selector = Selector::parse(&self.filter, options.let_vars.as_ref(), operation, collation)?;
        // After the selector: a positional `$` is what the filter matched, and both share one `$$NOW`.
        let projection = parse_projection(options.projection.as_ref(), &selector)?;
        let collation = selector.variables().collation();
        let order = Order::collated(options.sort.as_ref(), options.hint.as_ref(), collation)?;
        Ok(ParsedDelete { selector, order, projection })
    }
}

/// The parsed arguments of a find-and-delete.
struct ParsedDelete {
    selector: Selector,
    order: Order,
    projection: Option<Projection>,
}

/// What a find-and-modify did.
pub(crate) struct Modified {
    /// A document matched.
    pub(crate) is_found: bool,
    /// The state of the document that was asked for, projected.
    pub(crate) document: Option<RawDocumentBuf>,
    /// The `_id` of the document that was inserted.
    pub(crate) upserted_id: Option<Bson>,
}

/// A find-and-modify whose filter and change are parsed.
struct ModifyRequest<'a> {
    filter: &'a Document,
    selector: &'a Selector,
    change: &'a Change<'a>,
    options: ModifyOptions<'a>,
}

/// The options that updates and replacements have in common.
struct ModifyOptions<'a> {
    upsert: Option<bool>,
    projection: Option<&'a Document>,
    image: Image,
    sort: Option<&'a Document>,
    hint: Option<&'a Hint>,
    write_concern: Option<&'a WriteConcern>,
    bypass: Option<bool>,
}

impl<'a> ModifyOptions<'a> {
    fn change_options(&self) -> ChangeOptions<'a> {
        let Self { upsert, hint, write_concern: concern, bypass, .. } = *self;
        ChangeOptions { upsert, hint, concern, bypass, preview: None }
    }

    /// Parses the projection. A positional one cannot be applied to the changed document: the array element that matched
    /// the filter may be gone.
    fn projection(&self, selector: &Selector) -> Result<Option<Projection>> {
        let projection = parse_projection(self.projection, selector)?;
        // As in MongoDB: `$` is an element that matched in the old document, and the new one may not have it.
        if self.image == Image::After && projection.as_ref().is_some_and(Projection::is_positional) {
            return Err(refused(
                Code::BAD_VALUE,
                "cannot use a positional projection and return the new document",
            ));
        }
        Ok(projection)
    }

    fn of_update(options: &'a FindOneAndUpdateOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            write_concern: options.write_concern.as_ref(),
            bypass: options.bypass_document_validation,
        }
    }

    fn of_replacement(options: &'a FindOneAndReplaceOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            write_concern: options.write_concern.as_ref(),
            bypass: options.bypass_document_validation,
        }
    }
}

impl<T> Collection<T> {
    fn find_and_change(&self, request: &ModifyRequest<'_>) -> Result<Modified> {
        let ModifyRequest { filter, selector, change, options } = request;
        let projection = options.projection(selector)?;
        let order = Order::collated(options.sort, options.hint, selector.variables().collation())?;
        let search = DocumentSearch { selector, order: &order };
        // The projection runs before the commit: if it fails, nothing is written.
        let show = |bytes: &[u8]| projected(bytes, projection.as_ref(), selector);
        let shown = Shown { image: options.image, show: &show };
        // An upserted document is returned as it will be stored, with its generated values. Only the insert knows these.
        let upserted = RefCell::new(None);
        let preview = |bytes: &[u8]| {
            *upserted.borrow_mut() = Some(show(bytes)?);
            Ok(())
        };
        // Before an upsert there is no document to show, so only `After` needs the bytes of the insert.
        let preview = (options.image == Image::After).then_some(&preview as Preview<'_>);
        let request = ChangeRequest {
            filter,
            change,
            options: ChangeOptions { preview, ..options.change_options() },
            operation: search.operation(),
            collation: selector.variables().collation(),
        };
        let done = self
            .write_change(request, |target: Target<'_>| update::update_one(target, search, change, shown))?;
        // MongoDB's `updatedExisting` is false for an upsert, even if it returns a document.
        let is_found = matches!(done, Some(Upserted::Changed(_)));
        let (document, upserted_id) = match done {
            None => (None, None),
            Some(Upserted::Changed(matched)) => (matched.shown, None),
            // With `Before` the cell is empty, which is right: there was no document.
            Some(Upserted::Inserted(inserted)) => (upserted.take(), Some(inserted.id)),
        };
        Ok(Modified { is_found, document, upserted_id })
    }

    fn explain_find_and_change(&self, request: &ModifyRequest<'_>, depth: Depth) -> Result<Explained> {
        let ModifyRequest { filter, selector, change, options } = request;
        let projection = options.projection(selector)?;
        let order = Order::collated(options.sort, options.hint, selector.variables().collation())?;
        let search = DocumentSearch { selector, order: &order };
        // One document at most is changed, so the search may end at its first match.
        let write = ExplainedWrite { filter, search, options: options.change_options(), limit: Some(1) };
        let (explained, effect) = self.explain_change(write, change, depth)?;
        // The rows are the documents that the caller would get: an upsert returns one only after the change.
        let inserted = if options.image == Image::After { effect.upserted } else { 0 };
        let explained = explained.under("UPDATE", effect.matched + inserted, effect.to_document());
        Ok(under_projection(explained, projection.as_ref()))
    }
}

/// Adds the stage of the projection, if there is one.
fn under_projection(explained: Explained, projection: Option<&Projection>) -> Explained {
    // An empty projection returns whole documents, so it is no stage of the plan.
    if projection.is_none_or(Projection::is_empty) {
        return explained;
    }
    let rows = explained.rows();
    explained.under("PROJECTION_DEFAULT", rows, doc! {})
}

fn image(return_document: Option<ReturnDocument>) -> Image {
    match return_document {
        // The default of MongoDB's option `new` is false.
        None | Some(ReturnDocument::Before) => Image::Before,
        Some(ReturnDocument::After) => Image::After,
    }
}

/// The document that the caller gets.
fn projected(bytes: &[u8], projection: Option<&Projection>, selector: &Selector) -> Result<RawDocumentBuf> {
    match projection {
        Some(projection) => Ok(projection.apply(RawDocument::from_bytes(bytes)?, selector.variables())?),
        // A copy: the bytes are the storage's, and are lent only until the write ends.
        None => Ok(RawDocumentBuf::from_bytes(bytes.to_vec())?),
    }
}
