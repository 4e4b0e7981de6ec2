//! `delete_one` and `delete_many`.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use crate::collection::explain::Write;
use crate::collection::update::Manner;
use crate::collection::{Collection, Terms};
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::options::{Collation, DeleteOptions, Hint, WriteConcern};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::{Moment, Selector};
use crate::results::{DeleteResult, number};
use crate::write::delete;
use crate::write::find::DocumentSearch;

impl<T> Collection<T> {
    /// Removes one document that matches.
    pub fn delete_one(&self, filter: Document) -> Delete<'_, T> {
        self.delete(filter, Extent::One)
    }

    /// Removes every document that matches when `run` is called, a thousand in one commit.
    pub fn delete_many(&self, filter: Document) -> Delete<'_, T> {
        self.delete(filter, Extent::Many)
    }

    fn delete(&self, filter: Document, extent: Extent) -> Delete<'_, T> {
        Delete { collection: self, filter, extent, options: DeleteOptions::default(), now: None }
    }
}

/// A delete that is done by [`run`](Self::run).
#[must_use = "the delete is done by run()"]
pub struct Delete<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    extent: Extent,
    options: DeleteOptions,
    /// The clock of the command that this is a part of.
    now: Option<DateTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    One,
    Many,
}

setters!(Delete<'a, T>, DeleteOptions, {
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Give up with code 50 after this long; what was removed until then is gone.
    max_time: Duration,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T> Delete<'_, T> {
    /// As a part of a command that has read the clock.
    pub(crate) fn at(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Removes the documents.
    pub fn run(self) -> Result<DeleteResult> {
        self.delete().map_err(Error::into_write)
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let (selector, order) = self.prepare()?;
        let options = &self.options;
        let (hint, concern) = (options.hint.as_ref(), options.write_concern.as_ref());
        let write = Write {
            filter: &self.filter,
            search: DocumentSearch { selector: &selector, order: &order },
            manner: Manner { upsert: None, hint, concern, preview: None },
            limit: (self.extent == Extent::One).then_some(1),
        };
        let explained = self.collection.explain_delete(write, depth)?;
        let done = doc! { "nWouldDelete": number(explained.rows()) };
        Ok(explained.under("DELETE", 0, done))
    }

    fn delete(self) -> Result<DeleteResult> {
        let (selector, order) = self.prepare()?;
        let options = &self.options;
        let search = DocumentSearch { selector: &selector, order: &order };
        let terms = Terms { concern: options.write_concern.as_ref(), operation: search.operation() };
        let deleted = self.collection.write_existing(terms, |target| {
            check_hint(options.hint.as_ref(), target.indexes)?;
            match self.extent {
                Extent::One => Ok(u64::from(delete::delete_one(target, search, |_| Ok(()))?.is_some())),
                Extent::Many => delete::delete_many(target, search),
            }
        })?;
        Ok(DeleteResult { deleted_count: deleted.unwrap_or(0) })
    }

    fn prepare(&self) -> Result<(Selector, Order)> {
        check_collation(self.options.collation.as_ref())?;
        let now = self.now.unwrap_or_else(DateTime::now);
        let moment = Moment { now, operation: self.collection.begin(self.options.max_time) };
        let selector = Selector::parse_at(&self.filter, self.options.let_vars.as_ref(), moment)?;
        Ok((selector, Order::of(None, self.options.hint.as_ref())?))
    }
}
