//! `count_documents` and `estimated_document_count`.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, doc};
use query::code::Code;

use crate::catalog::collection::{CollectionState, CounterMark};
use crate::codes::refused;
use crate::collection::Collection;
use crate::error::Result;
use crate::execute::explain::{Depth, Explained};
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Rows, Search};
use crate::options::{Collation, CountOptions, Hint};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::Selector;
use crate::results::number;
use crate::storage::latch::LatchSet;
use crate::storage::{Database, Store};

impl<T> Collection<T> {
    /// Counts the documents that match, by looking at them.
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_, T> {
        CountDocuments { collection: self, filter, options: CountOptions::default() }
    }

    /// The number of documents, from a counter.
    ///
    /// It is exact for writes that have returned. The counter is kept across a clean close; after a crash the first
    /// call counts the documents once, while writes go on.
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_, T> {
        EstimatedDocumentCount { collection: self }
    }
}

/// A `count_documents` that is done by [`run`](Self::run).
#[must_use = "the count is done by run()"]
pub struct CountDocuments<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: CountOptions,
}

/// An `estimated_document_count` that is done by [`run`](Self::run).
#[must_use = "the count is done by run()"]
pub struct EstimatedDocumentCount<'a, T> {
    collection: &'a Collection<T>,
}

setters!(CountDocuments<'a, T>, CountOptions, {
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Count at most this many; it must be positive.
    limit: u64,
    /// Give up with code 50 after this long.
    max_time: Duration,
    /// Skip this many matching documents first.
    skip: u64,
});

impl<T> CountDocuments<'_, T> {
    /// Counts.
    pub fn run(self) -> Result<u64> {
        let search = self.search()?;
        let selector = search.selector.clone();
        let counted = self.collection.search(&selector, |view| {
            check_hint(self.options.hint.as_ref(), view.indexes())?;
            let mut rows = Rows::open(view, search)?;
            let mut count = 0;
            while rows.advance()? {
                count += 1;
            }
            Ok(count)
        })?;
        Ok(counted.unwrap_or(0))
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let hint = self.options.hint.as_ref();
        let explained = self.collection.explain_search((&self.filter, hint), self.search()?, depth)?;
        let counted = explained.rows();
        Ok(explained.under("COUNT", 0, doc! { "nCounted": number(counted) }))
    }

    fn search(&self) -> Result<Search> {
        if self.options.limit == Some(0) {
            return Err(refused(Code::LIMIT_NOT_POSITIVE, "the limit must be positive, got 0"));
        }
        check_collation(self.options.collation.as_ref())?;
        Ok(Search {
            skip: self.options.skip.unwrap_or(0),
            limit: self.options.limit,
            order: Order::of(None, self.options.hint.as_ref())?,
            ..Search::of(Selector::parse(&self.filter, None, self.collection.begin(self.options.max_time))?)
        })
    }
}

impl<T> EstimatedDocumentCount<'_, T> {
    /// Reads the counter.
    pub fn run(self) -> Result<u64> {
        Ok(self.collection.known_count()?.unwrap_or(0))
    }

    /// What `run` does: no document is read.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let stage = match self.collection.read(|_, _| Ok(()))? {
            Some(()) => "RECORD_STORE_FAST_COUNT",
            None => "EOF",
        };
        Ok(Explained::without_reading(&Document::new(), stage, depth))
    }
}

impl<T> Collection<T> {
    /// The number of documents by the counter, if the collection exists. They are counted if it is not known, beside
    /// all writes: what these add or remove meanwhile is in the counter.
    pub(super) fn known_count(&self) -> Result<Option<u64>> {
        let shared = self.shared();
        let database = shared.store.enter()?;
        loop {
            let Some(state) = self.find_state()? else { return Ok(None) };
            if let Some(documents) = state.count.known() {
                return Ok(Some(documents));
            }
            let _counting = state.count.begin_counting();
            if let Some(documents) = state.count.known() {
                return Ok(Some(documents));
            }
            if let Some((view, mark)) = with_counter(&shared.store, &database, &state)? {
                let stored = count_stored(view).map_err(|error| error.in_namespace(&state.namespace))?;
                state.count.settle(stored, mark);
                return Ok(Some(state.count.known().unwrap_or(stored)));
            }
        }
    }
}

/// A view of the collection and its counter, of one moment; `None` if the collection must be looked up again.
fn with_counter(
    store: &Store,
    database: &Arc<Database>,
    state: &CollectionState,
) -> Result<Option<(ReadView, CounterMark)>> {
    // No write is between its commit and its addition to the counter while all latches are held.
    let _latched = store.latches.lock(&LatchSet::all());
    Ok(ReadView::of_found(database, state)?.map(|view| (view, state.count.mark())))
}

/// Counts the documents of a collection by reading them.
fn count_stored(view: ReadView) -> Result<u64> {
    let mut matches = Matches::open(view, Selector::everything()?, &Order::default())?;
    let mut documents = 0;
    while matches.advance()? {
        documents += 1;
    }
    Ok(documents)
}
