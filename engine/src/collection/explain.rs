//! `explain` of the verbs. A read is planned and, at [`Depth::Execution`], executed. A write is planned, and reads what it
//! would write; it never writes.

use bson::{Document, RawDocument, doc};

use base::error::Result;

use crate::collection::change::ChangeOptions;
use crate::collection::handle::{Handle, Terms};
use crate::execute::explain::{Depth, Explained};
use crate::execute::rows::Search;
use crate::options::Hint;
use crate::plan::order::check_hint;
use crate::results::number;
use crate::write::change::Change;
use crate::write::find::DocumentSearch;
use crate::write::{Target, upsert};

/// A write to stored documents that is to be explained.
#[derive(Clone, Copy)]
pub(super) struct ExplainedWrite<'a> {
    pub(super) filter: &'a Document,
    pub(super) search: DocumentSearch<'a>,
    pub(super) options: ChangeOptions<'a>,
    /// The largest number of documents that it would write to.
    pub(super) limit: Option<u64>,
}

/// The predicted effect of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PredictedEffect {
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
}

impl<'a> ExplainedWrite<'a> {
    fn terms(&self) -> Terms<'a> {
        Terms { concern: self.options.concern, operation: self.search.operation() }
    }

    fn search(&self) -> Search {
        let DocumentSearch { selector, order } = self.search;
        let search = Search::of(selector.clone());
        Search { order: order.clone(), limit: self.limit, ..search }
    }

    /// Explains the search for the documents that would be written. `visit` is called with each of them.
    fn explain(
        &self,
        target: Target<'_>,
        depth: Depth,
        visit: impl FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Explained> {
        // The caller holds the gate of a real write, so the indexes are those that the write would see.
        check_hint(self.options.hint, target.indexes)?;
        let search = self.search();
        let view = target.view(&search.selector)?;
        // The limit belongs to the write, so the plan has no stage LIMIT.
        let explained = Explained::of(self.filter, &search, &view)?.without_limit();
        explained.run(view, search, depth, visit)
    }
}

impl Handle {
    /// Explains a read.
    pub(super) fn explain_search(
        &self,
        filter: &Document,
        hint: Option<&Hint>,
        search: Search,
        depth: Depth,
    ) -> Result<Explained> {
        let selector = search.selector.clone();
        // One view for the plan and its run: both see the same indexes and the same documents.
        let explained = self.search(&selector, |view| {
            check_hint(hint, view.indexes())?;
            let explained = Explained::of(filter, &search, &view)?;
            explained.run(view, search, depth, |_| Ok(()))
        })?;
        // MongoDB's plan for a collection that does not exist is the stage EOF.
        Ok(explained.unwrap_or_else(|| Explained::without_reading(filter, "EOF", depth)))
    }

    /// Explains an update or a replacement, and predicts what it would do.
    ///
    /// It fails where the write would fail, with one exception: duplicate keys are found only by a real write.
    pub(super) fn explain_change(
        &self,
        write: ExplainedWrite<'_>,
        change: &Change<'_>,
        depth: Depth,
    ) -> Result<(Explained, PredictedEffect)> {
        let ExplainedWrite { filter, search, options, .. } = write;
        let is_upsert = options.is_upsert();
        if is_upsert {
            // The same checks as in the real write, though here the collection is not created.
            self.check_before_creation(|| {
                check_hint(options.hint, &[])?;
                upsert::check(filter, change)
            })?;
        }
        let mut effect = PredictedEffect::default();
        // Entered as for a real write: a bad write concern, or a store that rejects writes, fails here too.
        let explained = self.write_existing(write.terms(), |target| {
            let explained = write.explain(target, depth, |document| {
                // The computation of the change may be long, and the search alone would not notice.
                search.operation().look()?;
                effect.matched += 1;
                // As in MongoDB, a document that the change leaves as it is counts as matched only.
                effect.modified += u64::from(change.alters(target, search.selector, document)?);
                Ok(())
            })?;
            // Here the real write would insert. The check above is only for a missing collection.
            if is_upsert && effect.matched == 0 {
                upsert::check(filter, change)?;
            }
            Ok(explained)
        })?;
        // A plan that is not run visits no document. Then the numbers mean nothing, and no stage shows them.
        effect.upserted = u64::from(is_upsert && effect.matched == 0);
        Ok((explained.unwrap_or_else(|| Explained::without_reading(filter, "EOF", depth)), effect))
    }

    /// Explains a delete.
    pub(super) fn explain_delete(&self, write: ExplainedWrite<'_>, depth: Depth) -> Result<Explained> {
        let explained =
            self.write_existing(write.terms(), |target| write.explain(target, depth, |_| Ok(())))?;
        Ok(explained.unwrap_or_else(|| Explained::without_reading(write.filter, "EOF", depth)))
    }
}

impl PredictedEffect {
    /// The fields that MongoDB's stage `UPDATE` has.
    pub(super) fn to_document(self) -> Document {
        doc! {
            "nMatched": number(self.matched),
            "nWouldModify": number(self.modified),
            "nWouldUpsert": number(self.upserted),
        }
    }
}
