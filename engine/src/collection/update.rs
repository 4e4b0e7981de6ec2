//! `update_one` and `update_many`.

use std::borrow::Cow;
use std::time::Duration;

use base::codes::refused;
use base::error::{Error, Result};
use bson::{Bson, DateTime, Document, RawBson};
use query::code::Code;
use query::expression::Variables;

use crate::collection::change::{ChangeOptions, ParsedChange, update_result};
use crate::collection::explain::ExplainedWrite;
use crate::collection::handle::{Collection, Handle};
use crate::collection::scope::Scope;
use crate::execute::explain::{Depth, Explained};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::update_option;
use crate::options::{Collation, Hint, UpdateModifications, UpdateOptions, WriteConcern};
use crate::outcomes::token::Token;
use crate::plan::order::Order;
use crate::plan::selector::{Moment, Selector};
use crate::results::UpdateResult;
use crate::write::change::Change;
use crate::write::modified::{Counts, Shown};
use crate::write::update;

impl<T> Collection<T> {
    /// Changes one document that matches the filter: the first in the sort order, or any if no sort is given.
    ///
    /// The document is read and written under a latch, so the increments (`$inc`) of any number of threads add up.
    ///
    /// With [`upsert(true)`](Update::upsert) a document is inserted when none matches. If two threads upsert the same `_id`
    /// at the same time, one document is inserted, and both change it. The same holds for a unique index, if the filter is
    /// an equality on exactly the index's fields.
    ///
    /// A recipe: [the optimistic loop](crate::guide::recipes#the-optimistic-loop).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let pages = client.database("site").collection::<Document>("pages");
    /// for _ in 0..2 {
    ///     pages.update_one(doc! { "_id": "home" }, doc! { "$inc": { "visits": 1 } }).upsert(true).run()?;
    /// }
    /// assert_eq!(pages.find_one(doc! {}).run()?, Some(doc! { "_id": "home", "visits": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_one(&self, query: Document, update: impl Into<UpdateModifications>) -> Update<'_> {
        self.update(query, update.into(), Extent::One)
    }

    /// Changes every document that matches when `run` is called. Each is changed once, and in a commit of its own.
    ///
    /// If a document cannot be changed the call fails, and documents that were changed before it stay changed.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// let update = people.update_many(doc! {}, doc! { "$set": { "seen": true } }).run()?;
    /// assert_eq!((update.matched_count, update.modified_count), (2, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_many(&self, query: Document, update: impl Into<UpdateModifications>) -> Update<'_> {
        self.update(query, update.into(), Extent::Many)
    }

    fn update(&self, filter: Document, modifications: UpdateModifications, extent: Extent) -> Update<'_> {
        let options = UpdateOptions::default();
        Update {
            collection: Scope::of(&self.handle),
            filter,
            modifications,
            extent,
            options,
            now: None,
            constants: None,
        }
    }
}

/// The action that [`Collection::update_one`] and [`Collection::update_many`] return. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let update = people.update_one(doc! {}, doc! { "$set": { "is_last": true } });
/// let updated = update.sort(doc! { "_id": -1 }).write_concern(WriteConcern::journaled()).run()?;
/// assert_eq!(updated.modified_count, 1);
///
/// // `$[low]` means the elements that the filter on `low` matches, and `$$bonus` the value of the variable.
/// people.insert_one(doc! { "_id": 3, "scores": [2, 9] }).run()?;
/// let raise = doc! { "$set": { "scores.$[low]": 5 } };
/// people.update_one(doc! { "_id": 3 }, raise).array_filters(vec![doc! { "low": { "$lt": 5 } }]).run()?;
/// let reward = vec![doc! { "$set": { "total": { "$add": [{ "$sum": "$scores" }, "$$bonus"] } } }];
/// people.update_one(doc! { "_id": 3 }, reward).let_vars(doc! { "bonus": 1 }).run()?;
/// let found = people.find_one(doc! { "_id": 3 }).run()?;
/// assert_eq!(found, Some(doc! { "_id": 3, "scores": [5, 9], "total": 15 }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the update is done by run()"]
pub struct Update<'a> {
    collection: Scope<'a>,
    filter: Document,
    modifications: UpdateModifications,
    extent: Extent,
    options: UpdateOptions,
    /// The time of the command that this is a part of.
    now: Option<DateTime>,
    /// Values of variables that only the pipeline sees, as a statement of the command has them.
    constants: Option<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    One,
    Many,
}

exactly_once!(Update<'a> = r#"people.update_one(doc! { "_id": 1 }, doc! { "$inc": { "visits": 1 } })"#);

in_session!(Update<'a> = r#"people.update_one(doc! { "_id": 1 }, doc! { "$set": { "born": 1815 } })"#);

setters!(Update<'a>, UpdateOptions, update_option);

impl Update<'_> {
    /// Sets the time that `$$NOW` and `$currentDate` mean: all statements of a command have the same.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the values of variables for the pipeline: `c` of a statement. They are values and no expressions, and a variable of
    /// `let` with the same name is hidden.
    pub(crate) fn constants(mut self, constants: Option<Document>) -> Self {
        self.constants = constants;
        self
    }

    /// Changes the documents.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let update = people.update_one(doc! { "_id": 1 }, doc! { "$set": { "name": "Ada" } }).run()?;
    /// assert_eq!((update.matched_count, update.upserted_id), (0, None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<UpdateResult> {
        let watch = self.collection.watch(self.verb());
        // A driver reports a rejected update as a write error. Parsing rejects it as a command would.
        let changed = match self.collection.token() {
            None => self.change(&self.collection),
            Some(token) => self.change_once(token),
        };
        let changed = changed.map_err(Error::into_write);
        watch.end(changed, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    fn verb(&self) -> Verb {
        match self.extent {
            Extent::One => Verb::UpdateOne,
            Extent::Many => Verb::UpdateMany,
        }
    }

    /// Plans the update for `explain`, and at [`Depth::Execution`] reads what it would change. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let parsed = self.parse(&self.collection)?;
        let write = ExplainedWrite {
            filter: &self.filter,
            search: parsed.search(),
            options: self.change_options(),
            limit: (self.extent == Extent::One).then_some(1),
        };
        let (explained, effect) = self.collection.explain_change(write, &parsed.change, depth)?;
        // An update returns no documents, so its stage has 0 rows.
        Ok(explained.under("UPDATE", 0, effect.to_document()))
    }

    #[cold]
    fn change_once(&self, token: &Token) -> Result<UpdateResult> {
        let (verb, options) = (self.verb().name(), &self.options);
        let asked = self.collection.asked(verb, token, options.write_concern.as_ref());
        let asked = asked.change(&self.modifications)?;
        let asked = asked.document(&self.filter)?.options([
            ("arrayFilters", argument(options.array_filters.as_ref())),
            ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
            ("upsert", argument(options.upsert.as_ref())),
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
            ("sort", argument(options.sort.as_ref())),
            ("c", argument(self.constants.as_ref())),
        ])?;
        match self.extent {
            Extent::One => self.collection.once(asked, |collection| self.change(collection)),
            Extent::Many => {
                self.collection.whole_once(asked, options.max_time, |collection| self.change(collection))
            }
        }
    }

    fn change(&self, collection: &Handle) -> Result<UpdateResult> {
        // Parsed before the store is entered: a malformed update is rejected whatever is stored.
        let parsed = self.parse(collection)?;
        let (search, change) = (parsed.search(), &parsed.change);
        let request = parsed.request(&self.filter, self.change_options());
        let mut counts = Counts::default();
        let done = collection.write_change(request, |target, walk| match self.extent {
            Extent::One => {
                // Only the counts are returned, so the document is not copied to be shown.
                let matched = update::update_one(target, search, walk, change, Shown::NOTHING)?;
                Ok(matched.map(|matched| matched.counts()))
            }
            Extent::Many => {
                // Each document is a commit of its own: an error leaves those before it changed, as in MongoDB.
                update::update_many(target, search, walk, change, &mut counts)?;
                // `None` makes an upsert insert.
                Ok(Some(counts).filter(|counts| counts.matched > 0))
            }
        })?;
        Ok(update_result(done))
    }

    fn parse(&self, collection: &Handle) -> Result<ParsedChange<'static>> {
        let options = &self.options;
        let collation = collection.rules(options.collation.as_ref())?;
        // As in MongoDB: the order in which many documents are changed is not the caller's choice.
        if self.extent == Extent::Many && options.sort.is_some() {
            return Err(refused(Code::FAILED_TO_PARSE, "an update of many documents cannot have a sort"));
        }
        // A statement of a bulk write or a command is given the time of the whole call.
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: collection.begin(options.max_time), collation };
        let selector = Selector::parse_at(&self.filter, options.let_vars.as_ref(), moment)?;
        let array_filters = options.array_filters.as_deref();
        // The selector comes first, because the update's expressions use its variables.
        let variables = with_constants(selector.variables(), self.constants.as_ref())?;
        let change = Change::of_update(&self.modifications, array_filters, &variables)?;
        let order =
            Order::collated(options.sort.as_ref(), options.hint.as_ref(), selector.variables().collation())?;
        Ok(ParsedChange { selector, change, order })
    }

    fn change_options(&self) -> ChangeOptions<'_> {
        let UpdateOptions { upsert, hint, write_concern, bypass_document_validation, .. } = &self.options;
        let (hint, concern) = (hint.as_ref(), write_concern.as_ref());
        ChangeOptions { upsert: *upsert, hint, concern, bypass: *bypass_document_validation, preview: None }
    }
}

/// The variables of a call with those of a statement.
fn with_constants<'v>(variables: &'v Variables, constants: Option<&Document>) -> Result<Cow<'v, Variables>> {
    let Some(constants) = constants else { return Ok(Cow::Borrowed(variables)) };
    let mut variables = variables.clone();
    for (name, value) in constants {
        variables = variables.with(name, Some(RawBson::try_from(value.clone())?))?;
    }
    Ok(Cow::Owned(variables))
}
