//! `replace_one`.

use std::borrow::Borrow;
use std::time::Duration;

use bson::{Bson, DateTime, Document};
use serde::Serialize;

use crate::collection::Collection;
use crate::collection::explain::Write;
use crate::collection::update::{Manner, Prepared, result};
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::options::{Collation, Hint, ReplaceOptions, WriteConcern};
use crate::plan::order::{Order, check_collation};
use crate::plan::selector::{Moment, Selector};
use crate::results::UpdateResult;
use crate::write::Target;
use crate::write::change::Change;
use crate::write::update::{self, Shown};

impl<T: Serialize> Collection<T> {
    /// Puts `replacement` in the place of one document that matches: the first by the sort if one is asked for, else any.
    ///
    /// The `_id` stays; a replacement with another one fails with code 66, one with a top-level `$` name with
    /// code 52. With `upsert(true)` the replacement is inserted when nothing matches, under the `_id` that the
    /// filter asks for if it does.
    ///
    /// Auto-increment fields that the replacement does not name are kept, as SequoiaDB keeps them: a nested one if the
    /// replacement does not name its outermost parent. An upsert fills them in as any insert does.
    pub fn replace_one<D: Borrow<T>>(&self, filter: Document, replacement: D) -> ReplaceOne<'_, T, D> {
        let options = ReplaceOptions::default();
        ReplaceOne { collection: self, filter, replacement, options, now: None }
    }
}

/// A `replace_one` that is done by [`run`](Self::run).
#[must_use = "the replacement is done by run()"]
pub struct ReplaceOne<'a, T, D> {
    collection: &'a Collection<T>,
    filter: Document,
    replacement: D,
    options: ReplaceOptions,
    /// The clock of the command that this is a part of.
    now: Option<DateTime>,
}

setters!(ReplaceOne<'a, T, D>, ReplaceOptions, {
    /// Accepted: there are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Insert the replacement when nothing matches.
    upsert: bool,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Which of several matching documents comes first.
    sort: Document,
    /// Give up with code 50 after this long.
    max_time: Duration,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T: Serialize, D: Borrow<T>> ReplaceOne<'_, T, D> {
    /// As a part of a command that has read the clock.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Replaces the document.
    pub fn run(self) -> Result<UpdateResult> {
        self.replace().map_err(Error::into_write)
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let prepared = self.prepare(&bytes)?;
        let search = prepared.search();
        let write = Write { filter: &self.filter, search, manner: self.manner(), limit: Some(1) };
        let (explained, foretold) = self.collection.explain_change(write, &prepared.change, depth)?;
        Ok(explained.under("UPDATE", 0, foretold.tell()))
    }

    fn replace(self) -> Result<UpdateResult> {
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let prepared = self.prepare(&bytes)?;
        let (search, change) = (prepared.search(), &prepared.change);
        let look = |target: Target<'_>| {
            let matched = update::update_one(target, search, change, Shown::NOTHING)?;
            Ok(matched.map(|matched| matched.counts()))
        };
        Ok(result(self.collection.write_change(
            (&self.filter, change),
            (self.manner(), search.operation()),
            look,
        )?))
    }

    fn prepare<'b>(&self, replacement: &'b [u8]) -> Result<Prepared<'b>> {
        let options = &self.options;
        check_collation(options.collation.as_ref())?;
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: self.collection.begin(options.max_time) };
        Ok(Prepared {
            change: Change::of_replacement(replacement)?,
            selector: Selector::parse_at(&self.filter, options.let_vars.as_ref(), moment)?,
            order: Order::of(options.sort.as_ref(), options.hint.as_ref())?,
        })
    }

    fn manner(&self) -> Manner<'_> {
        let ReplaceOptions { upsert, hint, write_concern, .. } = &self.options;
        Manner { upsert: *upsert, hint: hint.as_ref(), concern: write_concern.as_ref(), preview: None }
    }
}
