//! Finding the documents that a write is about, one after the other.
//!
//! What a walk found may have changed by the time its latch is held. So every attempt checks again under the latch, by
//! its [`Check`]. If the check fails, the document is lost to the write, which goes on with the next one. A write to one
//! document that lost some and found no other searches again: the document that it is to find may match only since
//! the snapshot was taken.

use base::error::Result;
use bson::RawDocument;
use query::operation::OperationContext;
use query::sort::collect::{Payload, Sorter};
use query::sort::{Sort, SortKey};

use crate::execute::matches::Matches;
use crate::plan::access::{Asked, Needed};
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::write::Target;

/// Which documents a write is about, and which of them comes first.
#[derive(Clone, Copy)]
pub(crate) struct DocumentSearch<'a> {
    pub(crate) selector: &'a Selector,
    pub(crate) order: &'a Order,
}

impl<'a> DocumentSearch<'a> {
    /// What the write may use of time and memory.
    pub(crate) fn operation(&self) -> &'a OperationContext {
        self.selector.variables().operation()
    }
}

/// What must hold of a document, under its latch, for a write to be done.
pub(crate) struct Check<'a> {
    selector: &'a Selector,
    /// The sort that it was chosen by, and its key in it at that time.
    sorted: Option<(&'a Sort, SortKey)>,
}

impl<'a> Check<'a> {
    pub(super) fn of(selector: &'a Selector) -> Self {
        Self { selector, sorted: None }
    }

    /// Whether the document is still one to be written.
    #[inline]
    pub(super) fn holds(&self, document: &RawDocument) -> Result<bool> {
        if !self.selector.matches(document)? {
            return Ok(false);
        }
        match &self.sorted {
            None => Ok(true),
            Some((sort, key)) => Ok(sort.key(document)? == *key),
        }
    }

    pub(super) fn selector(&self) -> &'a Selector {
        self.selector
    }
}

/// Tries to write the document of a record key. Returns `None` if the document was lost.
type Attempt<'a, R> = dyn FnMut(&[u8], &Check<'_>) -> Result<Option<R>> + 'a;

/// Offers matching documents by their record keys, in order, until an attempt succeeds.
#[inline]
pub(super) fn on_first<R>(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    mut attempt: impl FnMut(&[u8], &Check<'_>) -> Result<Option<R>>,
) -> Result<Option<R>> {
    // A filter that fixes the `_id` needs no walk, and a lost document has no other in its place.
    if let Some(key) = search.selector.record_key(target.collection.id) {
        search.operation().look()?;
        return attempt(&key, &Check::of(search.selector));
    }
    loop {
        let mut has_lost = false;
        let mut attempt = |key: &[u8], check: &Check<'_>| {
            let done = attempt(key, check)?;
            // Only a lost document is a reason to search again; a search that found no match at all is over.
            has_lost |= done.is_none();
            Ok(done)
        };
        let matches = open(target, search, false)?;
        // A sort in memory must see all matches before the first can be offered; a walk in order offers them as it goes.
        let done = match search.order.sort() {
            Some(sort) => on_least(matches, search, sort, &mut attempt)?,
            None => on_walk(matches, search, &mut attempt)?,
        };
        if done.is_some() || !has_lost {
            return Ok(done);
        }
    }
}

/// Offers every document that matched at the beginning, each of them once.
pub(super) fn on_each(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    mut attempt: impl FnMut(&[u8], &Check<'_>) -> Result<()>,
) -> Result<()> {
    let mut attempt = |key: &[u8], check: &Check<'_>| attempt(key, check).map(|()| None::<()>);
    on_walk(open(target, search, true)?, search, &mut attempt).map(|_| ())
}

/// Offers the documents that a walk finds, in the order of the walk.
fn on_walk<R>(
    mut matches: Matches,
    search: DocumentSearch<'_>,
    attempt: &mut Attempt<'_, R>,
) -> Result<Option<R>> {
    let check = Check::of(search.selector);
    while matches.advance()? {
        // A write costs more than a step, and what it computes may have taken long.
        search.operation().look()?;
        if let Some(done) = attempt(matches.record_key(), &check)? {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

/// Offers the document that comes first in the sort, and no other: if it was lost, any other may come first now.
fn on_least<R>(
    mut matches: Matches,
    search: DocumentSearch<'_>,
    sort: &Sort,
    attempt: &mut Attempt<'_, R>,
) -> Result<Option<R>> {
    // One document is kept, so this needs no bound of memory of its own.
    let mut sorter = Sorter::new(sort.clone(), Some(1), usize::MAX).within(search.operation());
    while matches.advance()? {
        let document = matches.document()?;
        let candidate =
            || Leading { record_key: matches.record_key().to_vec(), key: sort.key(document).ok() };
        sorter.push(document, candidate)?;
        if matches.is_sorted() {
            // The walk has the order of the sort: no later document comes before this one.
            break;
        }
    }
    let Some(Leading { record_key, key }) = sorter.into_sorted_iter().next() else { return Ok(None) };
    search.operation().look()?;
    attempt(&record_key, &Check { selector: search.selector, sorted: key.map(|key| (sort, key)) })
}

/// Opens a walk over the documents that match, each of them once, as they are now: what the write changes does not show.
/// `reads_all` tells whether it is followed to its end.
pub(super) fn open(target: Target<'_>, search: DocumentSearch<'_>, reads_all: bool) -> Result<Matches> {
    let DocumentSearch { selector, order } = search;
    let asked = Asked { selector, order, needs: &Needed::Documents, one_of_each: None, reads_all };
    Matches::open_for(target.view(selector)?, asked)
}

/// The document that comes first in the sort so far.
struct Leading {
    record_key: Vec<u8>,
    key: Option<SortKey>,
}

impl Payload for Leading {
    fn heap_bytes(&self) -> usize {
        self.record_key.len()
    }
}
