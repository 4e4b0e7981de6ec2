//! `delete_one` and `delete_many`.

use bson::{Bson, Document};

use crate::collection::Collection;
use crate::collection::find::parse_filter;
use crate::error::Result;
use crate::execute::matches::Matches;
use crate::options::{DeleteOptions, Hint, WriteConcern};
use crate::plan::bounds::check_hint;
use crate::results::DeleteResult;
use crate::storage::snapshot::Snapshot;
use crate::write::delete;

impl<T> Collection<T> {
    /// Removes the first document that matches, in the order of `_id`s.
    pub fn delete_one(&self, filter: Document) -> Delete<'_, T> {
        Delete { collection: self, filter, extent: Extent::One, options: DeleteOptions::default() }
    }

    /// Removes every document that matches when `run` is called, a thousand in one commit.
    pub fn delete_many(&self, filter: Document) -> Delete<'_, T> {
        Delete { collection: self, filter, extent: Extent::Many, options: DeleteOptions::default() }
    }
}

/// A delete that is done by [`run`](Self::run).
#[must_use = "the delete is done by run()"]
pub struct Delete<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    extent: Extent,
    options: DeleteOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    One,
    Many,
}

setters!(Delete<'a, T>, DeleteOptions, {
    /// The index to use, by keys or by name.
    hint: Hint,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T> Delete<'_, T> {
    /// Removes the documents.
    pub fn run(self) -> Result<DeleteResult> {
        let filter = parse_filter(&self.filter)?;
        let deleted = self.collection.write_existing(self.options.write_concern.as_ref(), |target| {
            check_hint(self.options.hint.as_ref(), target.indexes)?;
            let snapshot = Snapshot::take(target.database);
            let mut matches = Matches::open(snapshot, target.collection.id, filter.clone(), None)?;
            match self.extent {
                Extent::One => delete::delete_one(target, &mut matches).map(u64::from),
                Extent::Many => delete::delete_many(target, &mut matches),
            }
        })?;
        Ok(DeleteResult { deleted_count: deleted.unwrap_or(0) })
    }
}
