//! The common part of updates, replacements and find-and-modifies: a parsed change, its options, and the write with
//! its upsert.

use base::error::Result;
use bson::Document;
use index::collation::Collation;
use query::operation::OperationContext;

use crate::collection::handle::{Handle, Missing, Terms};
use crate::options::{Hint, WriteConcern};
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;
use crate::results::UpdateResult;
use crate::write::change::Change;
use crate::write::find::{DocumentSearch, Walk};
use crate::write::modified::Counts;
use crate::write::upsert::{self, UpsertFilter, Upserted};
use crate::write::{Preview, Target};

/// The options that all changes have.
#[derive(Clone, Copy)]
pub(super) struct ChangeOptions<'a> {
    pub(super) upsert: Option<bool>,
    pub(super) hint: Option<&'a Hint>,
    pub(super) concern: Option<&'a WriteConcern>,
    /// Whether no document is checked by the collection's validator.
    pub(super) bypass: Option<bool>,
    /// Sees the document of an upsert before it is inserted.
    pub(super) preview: Option<Preview<'a>>,
}

impl ChangeOptions<'_> {
    /// Whether the change inserts a document when none matches.
    pub(super) fn is_upsert(&self) -> bool {
        self.upsert == Some(true)
    }
}

/// A change and the documents that it is for.
#[derive(Clone, Copy)]
pub(super) struct ChangeRequest<'a> {
    pub(super) filter: &'a Document,
    pub(super) change: &'a Change<'a>,
    pub(super) options: ChangeOptions<'a>,
    pub(super) operation: &'a OperationContext,
    /// The filter's comparison of strings.
    pub(super) collation: &'a Collation,
}

/// The parsed arguments of an update or a replacement.
pub(super) struct ParsedChange<'a> {
    pub(super) selector: Selector,
    pub(super) change: Change<'a>,
    pub(super) order: Order,
}

impl ParsedChange<'_> {
    pub(super) fn search(&self) -> DocumentSearch<'_> {
        DocumentSearch { selector: &self.selector, order: &self.order }
    }

    /// The change, as it is requested with this filter and these options.
    pub(super) fn request<'a>(
        &'a self,
        filter: &'a Document,
        options: ChangeOptions<'a>,
    ) -> ChangeRequest<'a> {
        let collation = self.selector.variables().collation();
        let operation = self.search().operation();
        ChangeRequest { filter, change: &self.change, options, operation, collation }
    }
}

impl Handle {
    /// Changes what matches by calling `change_matches`. If it returns `None` and the caller asked for an upsert, a
    /// document is inserted. Returns `None` if nothing was changed or inserted.
    pub(super) fn write_change<R>(
        &self,
        request: ChangeRequest<'_>,
        mut change_matches: impl FnMut(Target<'_>, &mut Walk) -> Result<Option<R>>,
    ) -> Result<Option<Upserted<R>>> {
        let ChangeRequest { filter, change, options, operation, collation } = request;
        let terms = Terms { concern: options.concern, operation };
        if !options.is_upsert() {
            // A change without an upsert does not create the collection.
            let changed = self.write_found(Missing::Skip, terms, |target, walk| {
                // Under the gate, so that the index of the hint is not dropped before the search.
                check_hint(options.hint, target.indexes)?;
                let changed = change_matches(target.unchecked(options.bypass), walk)?;
                if changed.is_none() {
                    target.secure_what_it_saw()?;
                }
                Ok(changed)
            })?;
            // A collection that does not exist is like one in which nothing matches.
            return Ok(changed.flatten().map(Upserted::Changed));
        }
        self.check_before_creation(|| {
            // A collection that is about to be created has no index but the one on `_id`.
            check_hint(options.hint, &[])?;
            upsert::check(filter, change)
        })?;
        // The end of the search and the insert run under one gate: no index appears between them.
        self.write_found(Missing::Create, terms, |target, walk| {
            check_hint(options.hint, target.indexes)?;
            // Only the insert has a use for the preview. A changed document is shown by the update itself.
            let target = Target { preview: options.preview, ..target.unchecked(options.bypass) };
            upsert::upsert(target, UpsertFilter { filter, collation }, change, || {
                change_matches(target, walk)
            })
        })
    }
}

/// The result of an update or a replacement.
pub(super) fn update_result(done: Option<Upserted<Counts>>) -> UpdateResult {
    let (counts, upserted_id) = match done {
        None => (Counts::default(), None),
        Some(Upserted::Changed(counts)) => (counts, None),
        // As in MongoDB, an upserted document counts as neither matched nor modified.
        Some(Upserted::Inserted(inserted)) => (Counts::default(), Some(inserted.id)),
    };
    UpdateResult::new(counts.matched, counts.modified, upserted_id)
}
