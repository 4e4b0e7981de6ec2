//! `delete_one` and `delete_many`.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use base::error::{Error, Result};

use crate::collection::change::ChangeOptions;
use crate::collection::explain::ExplainedWrite;
use crate::collection::handle::{Collection, Handle, Missing, Terms};
use crate::collection::scope::Scope;
use crate::execute::explain::{Depth, Explained};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::delete_option;
use crate::options::{Collation, DeleteOptions, Hint, WriteConcern};
use crate::outcomes::token::Token;
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::{Moment, Selector};
use crate::results::{DeleteResult, number};
use crate::write::delete;
use crate::write::find::DocumentSearch;

impl<T> Collection<T> {
    /// Removes one document that matches the filter.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// assert_eq!(people.delete_one(doc! { "name": "Ada" }).run()?.deleted_count, 1);
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_one(&self, filter: Document) -> Delete<'_> {
        self.delete(filter, Extent::One)
    }

    /// Removes every document that matches when `run` is called.
    ///
    /// The documents are removed in commits of up to a thousand. If the call fails, those of earlier commits are gone. To
    /// remove all documents at once use [`truncate`](Self::truncate).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// assert_eq!(people.delete_many(doc! { "_id": { "$gt": 0 } }).run()?.deleted_count, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_many(&self, filter: Document) -> Delete<'_> {
        self.delete(filter, Extent::Many)
    }

    fn delete(&self, filter: Document, extent: Extent) -> Delete<'_> {
        Delete {
            collection: Scope::of(&self.handle),
            filter,
            extent,
            options: DeleteOptions::default(),
            now: None,
        }
    }
}

/// The action that [`Collection::delete_one`] and [`Collection::delete_many`] return. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, Hint, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let delete = people.delete_many(doc! { "_id": { "$lt": 2 } });
/// let deleted = delete.hint(Hint::Keys(doc! { "_id": 1 })).max_time(Duration::from_secs(5)).run()?;
/// assert_eq!(deleted.deleted_count, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "the delete is done by run()"]
pub struct Delete<'a> {
    collection: Scope<'a>,
    filter: Document,
    extent: Extent,
    options: DeleteOptions,
    /// The time of the command that this is a part of.
    now: Option<DateTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    One,
    Many,
}

exactly_once!(Delete<'a> = r#"people.delete_one(doc! { "_id": 1 })"#);

in_session!(Delete<'a> = r#"people.delete_one(doc! { "_id": 1 })"#);

setters!(Delete<'a>, DeleteOptions, delete_option);

impl Delete<'_> {
    /// Sets the time that `$$NOW` means: all statements of a command have the same.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Removes the documents.
    pub fn run(self) -> Result<DeleteResult> {
        let watch = self.collection.watch(self.verb());
        let deleted = match self.collection.token() {
            None => self.delete(&self.collection),
            Some(token) => self.delete_once(token),
        };
        // A driver reports a rejected delete as a write error. Parsing rejects it as a command would.
        watch.end(deleted.map_err(Error::into_write), || Requested::search(&self.filter, None))
    }

    /// Plans the delete for `explain`, and at [`Depth::Execution`] reads what it would remove. Nothing is removed.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let (selector, order) = self.parse(&self.collection)?;
        let options = &self.options;
        let (hint, concern) = (options.hint.as_ref(), options.write_concern.as_ref());
        let write = ExplainedWrite {
            filter: &self.filter,
            search: DocumentSearch { selector: &selector, order: &order },
            options: ChangeOptions { upsert: None, hint, concern, bypass: None, preview: None },
            limit: (self.extent == Extent::One).then_some(1),
        };
        let explained = self.collection.explain_delete(write, depth)?;
        // A delete returns no documents, so its stage has 0 rows.
        let done = doc! { "nWouldDelete": number(explained.rows()) };
        Ok(explained.under("DELETE", 0, done))
    }

    fn verb(&self) -> Verb {
        match self.extent {
            Extent::One => Verb::DeleteOne,
            Extent::Many => Verb::DeleteMany,
        }
    }

    #[cold]
    fn delete_once(&self, token: &Token) -> Result<DeleteResult> {
        let (verb, options) = (self.verb().name(), &self.options);
        let asked = self.collection.asked(verb, token, options.write_concern.as_ref());
        let asked = asked.document(&self.filter)?.options([
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
        ])?;
        match self.extent {
            Extent::One => self.collection.once(asked, |collection| self.delete(collection)),
            Extent::Many => {
                self.collection.whole_once(asked, options.max_time, |collection| self.delete(collection))
            }
        }
    }

    fn delete(&self, collection: &Handle) -> Result<DeleteResult> {
        let (selector, order) = self.parse(collection)?;
        let options = &self.options;
        let search = DocumentSearch { selector: &selector, order: &order };
        let terms = Terms { concern: options.write_concern.as_ref(), operation: search.operation() };
        // A delete does not create the collection: it would find nothing in a new one.
        let mut deleted = 0;
        collection.write_found(Missing::Skip, terms, |target, walk| {
            // Under the gate, so that the index of the hint is not dropped before the search.
            check_hint(options.hint.as_ref(), target.indexes)?;
            match self.extent {
                // Only the count is returned, so the document is not copied to be shown.
                Extent::One => {
                    deleted = u64::from(delete::delete_one(target, search, walk, |_| Ok(()))?.is_some());
                    Ok(())
                }
                // Many commits, each of a group of documents: an error leaves the groups before it removed.
                Extent::Many => delete::delete_many(target, search, walk, &mut deleted),
            }
        })?;
        // A collection that does not exist has nothing to remove.
        Ok(DeleteResult::new(deleted))
    }

    fn parse(&self, collection: &Handle) -> Result<(Selector, Order)> {
        let collation = collection.rules(self.options.collation.as_ref())?;
        // A statement of a bulk write or a command is given the time of the whole call.
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: collection.begin(self.options.max_time), collation };
        let selector = Selector::parse_at(&self.filter, self.options.let_vars.as_ref(), moment)?;
        // MongoDB's deletes have no sort. A hint is an order too: `$natural` has a direction.
        Ok((selector, Order::of(None, self.options.hint.as_ref())?))
    }
}
