//! `replace_one`.

use std::borrow::Borrow;
use std::time::Duration;

use bson::{Bson, DateTime, Document};
use serde::Serialize;

use base::error::{Error, Result};

use crate::collection::change::{ChangeOptions, ParsedChange, update_result};
use crate::collection::explain::ExplainedWrite;
use crate::collection::handle::{Collection, Handle};
use crate::collection::scope::Scope;
use crate::execute::explain::{Depth, Explained};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::replace_option;
use crate::options::{Collation, Hint, ReplaceOptions, WriteConcern};
use crate::outcomes::token::Token;
use crate::plan::order::Order;
use crate::plan::selector::{Moment, Selector};
use crate::results::UpdateResult;
use crate::write::change::Change;
use crate::write::modified::Shown;
use crate::write::update;

impl<T: Serialize> Collection<T> {
    /// Replaces one document that matches the filter: the first in the sort order, or any if no sort is given.
    ///
    /// The `_id` stays. A replacement with another `_id` fails with code 66 (`ImmutableField`), and one with a top-level
    /// name that starts with `$` fails with code 52. With [`upsert(true)`](ReplaceOne::upsert) the replacement is inserted
    /// when no document matches, with the `_id` of the filter if it has one.
    ///
    /// As in SequoiaDB, an auto-increment field keeps its value if the replacement does not have the field, and a nested
    /// one if the replacement does not have its outermost parent. An upsert generates the values.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// people.replace_one(doc! { "name": "Ada" }, doc! { "name": "Augusta" }).run()?;
    /// assert_eq!(people.find_one(doc! {}).run()?, Some(doc! { "_id": 1, "name": "Augusta" }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_one<D: Borrow<T>>(&self, filter: Document, replacement: D) -> ReplaceOne<'_> {
        // Serialized here, so that what replaces need not know its type. `run` reports the error.
        let replacement = bson::serialize_to_vec(replacement.borrow()).map_err(Error::from);
        let options = ReplaceOptions::default();
        ReplaceOne { collection: Scope::of(&self.handle), filter, replacement, options, now: None }
    }
}

/// The action that [`Collection::replace_one`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let replace = people.replace_one(doc! { "_id": 1 }, doc! { "name": "Ada" });
/// let replaced = replace.upsert(true).write_concern(WriteConcern::journaled()).run()?;
/// assert_eq!(replaced.upserted_id, Some(1.into()));
/// # Ok(())
/// # }
/// ```
#[must_use = "the replacement is done by run()"]
pub struct ReplaceOne<'a> {
    collection: Scope<'a>,
    filter: Document,
    replacement: Result<Vec<u8>>,
    options: ReplaceOptions,
    /// The time of the command that this is a part of.
    now: Option<DateTime>,
}

exactly_once!(ReplaceOne<'a> = r#"people.replace_one(doc! { "_id": 1 }, doc! { "name": "Augusta" })"#);

in_session!(ReplaceOne<'a> = r#"people.replace_one(doc! { "_id": 1 }, doc! { "name": "Augusta" })"#);

setters!(ReplaceOne<'a>, ReplaceOptions, replace_option);

impl ReplaceOne<'_> {
    /// Sets the time that `$$NOW` means: all statements of a command have the same.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Replaces the document.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// let replaced = people.replace_one(doc! { "_id": 1 }, doc! { "name": "Ada" }).run()?;
    /// // It matched, and is the same as before.
    /// assert_eq!((replaced.matched_count, replaced.modified_count), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<UpdateResult> {
        let watch = self.collection.watch(Verb::ReplaceOne);
        // A driver reports a rejected replacement as a write error. Parsing rejects it as a command would.
        let replaced = match self.collection.token() {
            None => self.replace(&self.collection),
            Some(token) => self.replace_once(token),
        };
        let replaced = replaced.map_err(Error::into_write);
        watch.end(replaced, || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    /// Plans the replacement for `explain`, and at [`Depth::Execution`] reads what it would replace. Nothing is written.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        // The replacement is checked here as well: an explanation rejects what the write would reject.
        let parsed = self.parse(&self.collection)?;
        let write = ExplainedWrite {
            filter: &self.filter,
            search: parsed.search(),
            options: self.change_options(),
            limit: Some(1),
        };
        let (explained, effect) = self.collection.explain_change(write, &parsed.change, depth)?;
        // MongoDB has no stage of its own for a replacement.
        Ok(explained.under("UPDATE", 0, effect.to_document()))
    }

    #[cold]
    fn replace_once(&self, token: &Token) -> Result<UpdateResult> {
        let options = &self.options;
        let replacement = self.replacement.as_ref().map_err(Clone::clone)?;
        let asked = self.collection.asked("replace_one", token, options.write_concern.as_ref());
        let asked = asked.bytes(replacement).document(&self.filter)?.options([
            ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
            ("upsert", argument(options.upsert.as_ref())),
            ("collation", argument(options.collation.as_ref())),
            ("hint", argument(options.hint.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
            ("sort", argument(options.sort.as_ref())),
        ])?;
        self.collection.once(asked, |collection| self.replace(collection))
    }

    fn replace(&self, collection: &Handle) -> Result<UpdateResult> {
        let parsed = self.parse(collection)?;
        let (search, change) = (parsed.search(), &parsed.change);
        let request = parsed.request(&self.filter, self.change_options());
        let done = collection.write_change(request, |target, walk| {
            // Only the counts are returned, so the document is not copied to be shown.
            let matched = update::update_one(target, search, walk, change, Shown::NOTHING)?;
            Ok(matched.map(|matched| matched.counts()))
        })?;
        Ok(update_result(done))
    }

    fn parse(&self, collection: &Handle) -> Result<ParsedChange<'_>> {
        let replacement = self.replacement.as_ref().map_err(Clone::clone)?;
        let options = &self.options;
        let collation = collection.rules(options.collation.as_ref())?;
        // A statement of a bulk write or a command is given the time of the whole call.
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: collection.begin(options.max_time), collation };
        let order = Order::collated(options.sort.as_ref(), options.hint.as_ref(), &moment.collation)?;
        Ok(ParsedChange {
            // Unlike an update, a replacement has no expressions that need the selector's variables.
            change: Change::of_replacement(replacement)?,
            selector: Selector::parse_at(&self.filter, options.let_vars.as_ref(), moment)?,
            order,
        })
    }

    fn change_options(&self) -> ChangeOptions<'_> {
        let ReplaceOptions { upsert, hint, write_concern, bypass_document_validation, .. } = &self.options;
        let (hint, concern) = (hint.as_ref(), write_concern.as_ref());
        ChangeOptions { upsert: *upsert, hint, concern, bypass: *bypass_document_validation, preview: None }
    }
}
