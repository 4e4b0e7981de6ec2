//! `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`: change one document and return it, in one
//! step.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::time::Duration;

use base::error::{Error, Result};
use bson::{Bson, Document, RawDocumentBuf, doc};
use query::projection::Projection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::change::ChangeOptions;
use crate::collection::exactly_once::Asked;
use crate::collection::explain::ExplainedWrite;
use crate::collection::find::parse_projection;
use crate::collection::handle::{Collection, Handle, Missing, Terms};
use crate::collection::modify::{Modified, ModifyOptions, ModifyRequest, projected, under_projection};
use crate::collection::scope::Scope;
use crate::document::decode::decode_owned;
use crate::execute::explain::{Depth, Explained};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::{
    find_one_and_delete_option, find_one_and_replace_option, find_one_and_update_option,
};
use crate::options::{
    Collation, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, Hint,
    ReturnDocument, UpdateModifications, WriteConcern,
};
use crate::outcomes::token::Token;
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;
use crate::results::number;
use crate::write::change::Change;
use crate::write::delete;
use crate::write::find::DocumentSearch;

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
        FindOneAndUpdate {
            collection: Scope::of(&self.handle),
            filter,
            update: update.into(),
            options,
            row: PhantomData,
        }
    }

    /// Replaces one document that matches the filter and returns it. The state before the replacement is returned, or with
    /// [`return_document(ReturnDocument::After)`](FindOneAndReplace::return_document) the state after it.
    ///
    /// What a replacement keeps and rejects is described at [`replace_one`](Self::replace_one).
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
    ) -> FindOneAndReplace<'_, T>
    where
        T: Serialize,
    {
        // Serialized here, so that what replaces need not know its type. `run` reports the error.
        let replacement = bson::serialize_to_vec(replacement.borrow()).map_err(Error::from);
        let options = FindOneAndReplaceOptions::default();
        FindOneAndReplace {
            collection: Scope::of(&self.handle),
            filter,
            replacement,
            options,
            row: PhantomData,
        }
    }

    /// Removes one document that matches the filter and returns it. Of many threads that remove documents in this way, no two
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
        let options = FindOneAndDeleteOptions::default();
        FindOneAndDelete { collection: Scope::of(&self.handle), filter, options, row: PhantomData }
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
    collection: Scope<'a>,
    filter: Document,
    update: UpdateModifications,
    options: FindOneAndUpdateOptions,
    row: PhantomData<fn() -> T>,
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
pub struct FindOneAndReplace<'a, T> {
    collection: Scope<'a>,
    filter: Document,
    replacement: Result<Vec<u8>>,
    options: FindOneAndReplaceOptions,
    row: PhantomData<fn() -> T>,
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
    collection: Scope<'a>,
    filter: Document,
    options: FindOneAndDeleteOptions,
    row: PhantomData<fn() -> T>,
}

exactly_once!(
    FindOneAndUpdate<'a, T> = r#"people.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "visits": 1 } })"#,
    FindOneAndReplace<'a, T> = r#"people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" })"#,
    FindOneAndDelete<'a, T> = r#"people.find_one_and_delete(doc! { "_id": 1 })"#,
);

in_session!(
    FindOneAndUpdate<'a, T> = r#"people.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "born": 1815 } })"#,
    FindOneAndReplace<'a, T> = r#"people.find_one_and_replace(doc! { "_id": 1 }, doc! { "name": "Augusta" })"#,
    FindOneAndDelete<'a, T> = r#"people.find_one_and_delete(doc! { "_id": 1 })"#,
);

setters!(FindOneAndUpdate<'a, T>, FindOneAndUpdateOptions, find_one_and_update_option);

setters!(FindOneAndReplace<'a, T>, FindOneAndReplaceOptions, find_one_and_replace_option);

setters!(FindOneAndDelete<'a, T>, FindOneAndDeleteOptions, find_one_and_delete_option);

impl<'a, T: DeserializeOwned + 'static> FindOneAndUpdate<'a, T> {
    /// Changes the document. Returns `None` if no document matched, also after an upsert unless the state after the change
    /// was asked for.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.raw().modify()?;
        // Decoded after the store was left, because decoding runs code of the caller. The change is committed
        // by then: a document that is no `T` is an error of the call, and is changed all the same.
        found.document.map(decode_owned).transpose()
    }

    /// The action that returns the bytes. Only to decode them `T` is needed, so the rest is compiled once.
    fn raw(self) -> FindOneAndUpdate<'a, RawDocumentBuf> {
        let Self { collection, filter, update, options, row: _ } = self;
        FindOneAndUpdate { collection, filter, update, options, row: PhantomData }
    }
}

/// Runs `modify`, once if the action has a token. `asked` makes the call of it.
fn modified<'c>(
    collection: &'c Scope<'_>,
    asked: impl FnOnce(&'c Token) -> Result<Asked<'c>>,
    modify: impl FnOnce(&Handle) -> Result<Modified>,
) -> Result<Modified> {
    let found = match collection.token() {
        None => modify(collection),
        Some(token) => asked(token).and_then(|asked| collection.once(asked, modify)),
    };
    // MongoDB's `findAndModify` has no list of write errors: a rejection is the error of the whole call.
    found.map_err(Error::into_command)
}

impl FindOneAndUpdate<'_, RawDocumentBuf> {
    /// Changes the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndUpdate);
        let found = modified(
            &self.collection,
            |token| self.asked(token),
            |collection| self.find_and_modify(collection),
        );
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self, collection: &Handle) -> Result<Modified> {
        let (selector, change) = self.parse(collection)?;
        let options = ModifyOptions::of_update(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        collection.find_and_change(&request)
    }

    #[cold]
    fn asked<'t>(&'t self, token: &'t Token) -> Result<Asked<'t>> {
        let options = &self.options;
        let verb = Verb::FindOneAndUpdate.name();
        let asked = self.collection.asked(verb, token, options.write_concern.as_ref());
        let asked = asked.change(&self.update)?;
        asked.document(&self.filter)?.options([
            ("arrayFilters", argument(options.array_filters.as_ref())),
            ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
            ("fields", argument(options.projection.as_ref())),
            ("new", options.return_document.map(|shown| Bson::Boolean(shown == ReturnDocument::After))),
            ("sort", argument(options.sort.as_ref())),
            ("upsert", argument(options.upsert.as_ref())),
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
        ])
    }

    /// Plans the change for `explain`, and at [`Depth::Execution`] reads what it would change. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let (selector, change) = self.parse(&self.collection)?;
        let options = ModifyOptions::of_update(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.explain_find_and_change(&request, depth)
    }

    fn parse(&self, collection: &Handle) -> Result<(Selector, Change<'static>)> {
        let FindOneAndUpdateOptions { array_filters, let_vars, collation, .. } = &self.options;
        let collation = collection.rules(collation.as_ref())?;
        let operation = collection.begin(self.options.max_time);
        let selector = Selector::parse(&self.filter, let_vars.as_ref(), operation, collation)?;
        // After the selector, because the stages of a pipeline use its variables and its clock.
        let change = Change::of_update(&self.update, array_filters.as_deref(), selector.variables())?;
        Ok((selector, change))
    }
}

impl<'a, T: DeserializeOwned + 'static> FindOneAndReplace<'a, T> {
    /// Replaces the document. Returns `None` if no document matched, also after an upsert unless the state after the
    /// replacement was asked for.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.raw().modify()?;
        found.document.map(decode_owned).transpose()
    }

    /// The action that returns the bytes. Only to decode them `T` is needed, so the rest is compiled once.
    fn raw(self) -> FindOneAndReplace<'a, RawDocumentBuf> {
        let Self { collection, filter, replacement, options, row: _ } = self;
        FindOneAndReplace { collection, filter, replacement, options, row: PhantomData }
    }
}

impl FindOneAndReplace<'_, RawDocumentBuf> {
    /// Replaces the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndReplace);
        let found = modified(
            &self.collection,
            |token| self.asked(token),
            |collection| self.find_and_modify(collection),
        );
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self, collection: &Handle) -> Result<Modified> {
        let change = Change::of_replacement(self.replacement.as_ref().map_err(Clone::clone)?)?;
        let selector = self.parse_filter(collection)?;
        let options = ModifyOptions::of_replacement(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        collection.find_and_change(&request)
    }

    #[cold]
    fn asked<'t>(&'t self, token: &'t Token) -> Result<Asked<'t>> {
        let options = &self.options;
        let replacement = self.replacement.as_ref().map_err(Clone::clone)?;
        let verb = Verb::FindOneAndReplace.name();
        let asked = self.collection.asked(verb, token, options.write_concern.as_ref());
        asked.bytes(replacement).document(&self.filter)?.options([
            ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
            ("fields", argument(options.projection.as_ref())),
            ("new", options.return_document.map(|shown| Bson::Boolean(shown == ReturnDocument::After))),
            ("sort", argument(options.sort.as_ref())),
            ("upsert", argument(options.upsert.as_ref())),
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
        ])
    }

    /// Plans the replacement for `explain`, and at [`Depth::Execution`] reads what it would replace. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        // The replacement is checked here as well: an explanation rejects what the write would reject.
        let change = Change::of_replacement(self.replacement.as_ref().map_err(Clone::clone)?)?;
        let selector = self.parse_filter(&self.collection)?;
        let options = ModifyOptions::of_replacement(&self.options);
        let request = ModifyRequest { filter: &self.filter, selector: &selector, change: &change, options };
        self.collection.explain_find_and_change(&request, depth)
    }

    fn parse_filter(&self, collection: &Handle) -> Result<Selector> {
        let operation = collection.begin(self.options.max_time);
        let collation = collection.rules(self.options.collation.as_ref())?;
        Selector::parse(&self.filter, self.options.let_vars.as_ref(), operation, collation)
    }
}

impl<'a, T: DeserializeOwned + 'static> FindOneAndDelete<'a, T> {
    /// Removes the document. Returns `None` if no document matched.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.raw().modify()?;
        // The document is removed by now. One that is no `T` makes the call fail, and does not come back.
        found.document.map(decode_owned).transpose()
    }

    /// The action that returns the bytes. Only to decode them `T` is needed, so the rest is compiled once.
    fn raw(self) -> FindOneAndDelete<'a, RawDocumentBuf> {
        let Self { collection, filter, options, row: _ } = self;
        FindOneAndDelete { collection, filter, options, row: PhantomData }
    }
}

impl FindOneAndDelete<'_, RawDocumentBuf> {
    /// Removes the document. The result is not decoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let watch = self.collection.watch(Verb::FindOneAndDelete);
        let found = modified(
            &self.collection,
            |token| self.asked(token),
            |collection| self.find_and_modify(collection),
        );
        watch.end(found, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn find_and_modify(&self, collection: &Handle) -> Result<Modified> {
        let options = &self.options;
        let ParsedDelete { selector, order, projection } = self.parse(collection)?;
        let search = DocumentSearch { selector: &selector, order: &order };
        let terms = Terms { concern: options.write_concern.as_ref(), operation: search.operation() };
        // A delete does not create the collection: it would find nothing in a new one.
        let deleted = collection.write_found(Missing::Skip, terms, |target, walk| {
            // Under the gate, so that the index of the hint is not dropped before the search.
            check_hint(options.hint.as_ref(), target.indexes)?;
            // The projection runs before the commit. If it fails, the document stays.
            delete::delete_one(target, search, walk, |bytes| {
                Ok(collection.shown(projected(bytes, projection.as_ref(), &selector)?))
            })
        })?;
        // Without a collection and without a match the caller gets the same answer: no document.
        let document = deleted.flatten();
        Ok(Modified { is_found: document.is_some(), document, upserted_id: None, was_replayed: false })
    }

    #[cold]
    fn asked<'t>(&'t self, token: &'t Token) -> Result<Asked<'t>> {
        let options = &self.options;
        let verb = Verb::FindOneAndDelete.name();
        let asked = self.collection.asked(verb, token, options.write_concern.as_ref());
        asked.document(&self.filter)?.options([
            ("fields", argument(options.projection.as_ref())),
            ("sort", argument(options.sort.as_ref())),
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
        ])
    }

    /// Plans the delete for `explain`, and at [`Depth::Execution`] reads what it would remove. Nothing is removed.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let options = &self.options;
        let ParsedDelete { selector, order, projection } = self.parse(&self.collection)?;
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

    fn parse(&self, collection: &Handle) -> Result<ParsedDelete> {
        let options = &self.options;
        let collation = collection.rules(options.collation.as_ref())?;
        let operation = collection.begin(options.max_time);
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
