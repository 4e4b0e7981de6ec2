//! `update_one` and `update_many`.

use std::time::Duration;

use bson::{Bson, DateTime, Document};
use query::code::Code;
use query::operation::OperationContext;

use crate::codes::refused;
use crate::collection::explain::Write;
use crate::collection::{Collection, Terms};
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::options::{Collation, Hint, UpdateModifications, UpdateOptions, WriteConcern};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::{Moment, Selector};
use crate::results::UpdateResult;
use crate::write::change::Change;
use crate::write::find::DocumentSearch;
use crate::write::update::{self, Counts, Shown};
use crate::write::upsert::{self, Upserted};
use crate::write::{Preview, Target};

impl<T> Collection<T> {
    /// Changes one document that matches: the first by the sort if one is asked for, else any.
    ///
    /// The document is read and written under a lock: of any number of threads that count up a field by `$inc`, each
    /// counts. With `upsert(true)` a document is inserted when nothing matches: what the filter asks for by equality,
    /// changed by the update. Two threads that upsert the same `_id`, or the same key of a unique index by a filter on
    /// just its fields, end with one document that both changed.
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
    pub fn update_one(&self, query: Document, update: impl Into<UpdateModifications>) -> Update<'_, T> {
        self.update(query, update.into(), Extent::One)
    }

    /// Changes every document that matches when `run` is called, one after the other; none of them twice.
    ///
    /// An error ends it. What was changed until then stays.
    pub fn update_many(&self, query: Document, update: impl Into<UpdateModifications>) -> Update<'_, T> {
        self.update(query, update.into(), Extent::Many)
    }

    fn update(&self, filter: Document, modifications: UpdateModifications, extent: Extent) -> Update<'_, T> {
        let options = UpdateOptions::default();
        Update { collection: self, filter, modifications, extent, options, now: None }
    }

    /// Changes what matches, or inserts a document if nothing does and the caller asks for that; nothing if neither was
    /// done. `look` is the change.
    pub(super) fn write_change<R>(
        &self,
        (filter, change): (&Document, &Change<'_>),
        (manner, operation): (Manner<'_>, &OperationContext),
        look: impl Fn(Target<'_>) -> Result<Option<R>>,
    ) -> Result<Option<Upserted<R>>> {
        let Manner { upsert, hint, concern, preview } = manner;
        let terms = Terms { concern, operation };
        if upsert != Some(true) {
            let changed = self.write_existing(terms, |target| {
                check_hint(hint, target.indexes)?;
                look(target)
            })?;
            return Ok(changed.flatten().map(Upserted::Changed));
        }
        self.check_before_creation(|| {
            check_hint(hint, &[])?;
            upsert::check(filter, change)
        })?;
        let upserted = self.write(terms, |target| {
            check_hint(hint, target.indexes)?;
            let target = Target { preview, ..target };
            upsert::upsert(target, filter, change, || look(target))
        })?;
        Ok(Some(upserted))
    }
}

/// What is asked of the writing of a change, whatever the change.
#[derive(Clone, Copy)]
pub(super) struct Manner<'a> {
    pub(super) upsert: Option<bool>,
    pub(super) hint: Option<&'a Hint>,
    pub(super) concern: Option<&'a WriteConcern>,
    /// What is to be seen of a document before it is inserted.
    pub(super) preview: Option<Preview<'a>>,
}

/// An update that is done by [`run`](Self::run).
#[must_use = "the update is done by run()"]
pub struct Update<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    modifications: UpdateModifications,
    extent: Extent,
    options: UpdateOptions,
    /// The clock of the command that this is a part of.
    now: Option<DateTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    One,
    Many,
}

setters!(Update<'a, T>, UpdateOptions, {
    /// Which elements `$[name]` stands for.
    array_filters: Vec<Document>,
    /// Accepted: there are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Insert a document when nothing matches.
    upsert: bool,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Which of several matching documents comes first.
    sort: Document,
    /// Give up with code 50 after this long; what was changed until then stays.
    max_time: Duration,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T> Update<'_, T> {
    /// As a part of a command that has read the clock.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Changes the documents.
    pub fn run(self) -> Result<UpdateResult> {
        self.change().map_err(Error::into_write)
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let prepared = self.prepare()?;
        let write = Write {
            filter: &self.filter,
            search: prepared.search(),
            manner: self.manner(),
            limit: (self.extent == Extent::One).then_some(1),
        };
        let (explained, foretold) = self.collection.explain_change(write, &prepared.change, depth)?;
        Ok(explained.under("UPDATE", 0, foretold.tell()))
    }

    fn change(self) -> Result<UpdateResult> {
        let prepared = self.prepare()?;
        let (search, change) = (prepared.search(), &prepared.change);
        let look = |target: Target<'_>| look(target, search, change, self.extent);
        Ok(result(self.collection.write_change(
            (&self.filter, change),
            (self.manner(), search.operation()),
            look,
        )?))
    }

    fn prepare(&self) -> Result<Prepared<'static>> {
        let options = &self.options;
        check_collation(options.collation.as_ref())?;
        if self.extent == Extent::Many && options.sort.is_some() {
            return Err(refused(Code::FAILED_TO_PARSE, "an update of many documents cannot have a sort"));
        }
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: self.collection.begin(options.max_time) };
        let selector = Selector::parse_at(&self.filter, options.let_vars.as_ref(), moment)?;
        let array_filters = options.array_filters.as_deref();
        let change = Change::of_update(&self.modifications, array_filters, selector.variables())?;
        let order = Order::of(options.sort.as_ref(), options.hint.as_ref())?;
        Ok(Prepared { selector, change, order })
    }

    fn manner(&self) -> Manner<'_> {
        let UpdateOptions { upsert, hint, write_concern, .. } = &self.options;
        Manner { upsert: *upsert, hint: hint.as_ref(), concern: write_concern.as_ref(), preview: None }
    }
}

/// A change and what it is to, parsed.
pub(super) struct Prepared<'a> {
    pub(super) selector: Selector,
    pub(super) change: Change<'a>,
    pub(super) order: Order,
}

impl Prepared<'_> {
    pub(super) fn search(&self) -> DocumentSearch<'_> {
        DocumentSearch { selector: &self.selector, order: &self.order }
    }
}

/// Changes what matches; nothing if nothing does.
fn look(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    change: &Change<'_>,
    extent: Extent,
) -> Result<Option<Counts>> {
    match extent {
        Extent::One => {
            let matched = update::update_one(target, search, change, Shown::NOTHING)?;
            Ok(matched.map(|matched| matched.counts()))
        }
        Extent::Many => {
            let counts = update::update_many(target, search, change)?;
            Ok(Some(counts).filter(|counts| counts.matched > 0))
        }
    }
}

pub(super) fn result(done: Option<Upserted<Counts>>) -> UpdateResult {
    let (counts, upserted_id) = match done {
        None => (Counts::default(), None),
        Some(Upserted::Changed(counts)) => (counts, None),
        Some(Upserted::Inserted(inserted)) => (Counts::default(), Some(inserted.id)),
    };
    UpdateResult { matched_count: counts.matched, modified_count: counts.modified, upserted_id }
}
