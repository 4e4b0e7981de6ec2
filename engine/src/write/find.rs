//! Finding the documents that a write is about, one after the other.
//!
//! What a walk found may have changed by the time its latch is held. So every attempt checks again under the latch, by
//! its [`Check`]. If the check fails, the document is lost to the write, which goes on with the next one. A write to one
//! document that lost some and found no other searches again: the document that it is to find may match only since
//! the snapshot was taken.

use base::error::{Error, Result};
use bson::RawDocument;
use query::code::Code;
use query::operation::OperationContext;
use query::sort::collect::{Payload, Sorter};
use query::sort::{Sort, SortKey};
use store::keys::CollectionId;

use crate::execute::matches::{Advanced, Matches};
use crate::plan::access::{Asked, Needed};
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::transaction::Staging;
use crate::write::Target;

/// Which documents a write is about, and which of them comes first.
#[derive(Clone, Copy)]
pub(crate) struct DocumentSearch<'a> {
    pub(crate) selector: &'a Selector,
    pub(crate) order: &'a Order,
}

impl<'a> DocumentSearch<'a> {
    /// The write's limits of time and memory.
    pub(crate) fn operation(&self) -> &'a OperationContext {
        self.selector.variables().operation()
    }
}

/// The condition on a document, under its latch, for a write.
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

/// The walk of a write, which leaves the collection's gate when somebody wants to be alone there, and goes on when the write has
/// entered again. It is on a snapshot, so what happens in between does not disturb it.
#[derive(Default)]
pub(crate) struct Walk {
    matches: Option<(CollectionId, Matches)>,
    /// The state of a sort in memory before a pause.
    sorter: Option<Sorter<Leading>>,
    is_paused: bool,
    /// Whether a document was found that another writer had changed or removed.
    has_lost: bool,
}

/// The result of a step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To a document that matches.
    Match,
    End,
    /// To none of them: somebody wants to be alone in the collection, and the write is to [`pause`](Walk::pause).
    Pause,
}

/// The number of keys or documents between two checks of the gate: well below a millisecond.
const LOOKED_AT: u32 = 256;

impl Walk {
    /// The walk over what matched when it was opened. `reads_all` says whether it is followed to its end.
    fn matches(
        &mut self,
        target: Target<'_>,
        search: DocumentSearch<'_>,
        reads_all: bool,
    ) -> Result<&mut Matches> {
        let id = target.collection.id;
        if self.matches.as_ref().is_some_and(|(walked, _)| *walked != id) {
            return Err(Self::is_gone());
        }
        if self.matches.is_none() {
            self.matches = Some((id, open(target, search, reads_all)?));
        }
        Ok(&mut self.matches.as_mut().expect("it was opened above").1)
    }

    /// Steps to the next document that matches.
    pub(super) fn advance(
        &mut self,
        target: Target<'_>,
        search: DocumentSearch<'_>,
        reads_all: bool,
    ) -> Result<Next> {
        loop {
            // A transaction has not entered the gate.
            if target.staging.is_none() && target.collection.is_wanted_alone() && self.matches.is_some() {
                return Ok(Next::Pause);
            }
            match self.matches(target, search, reads_all)?.advance_within(LOOKED_AT)? {
                Advanced::Match => return Ok(Next::Match),
                Advanced::End => return Ok(Next::End),
                Advanced::NotYet => {}
            }
        }
    }

    /// Steps to the next document that matches, and pauses if that is asked for. Returns `false` at the end.
    fn advance_or_pause(
        &mut self,
        target: Target<'_>,
        search: DocumentSearch<'_>,
        reads_all: bool,
    ) -> Result<bool> {
        match self.advance(target, search, reads_all)? {
            Next::Match => Ok(true),
            Next::End => Ok(false),
            Next::Pause => Err(self.pause()),
        }
    }

    /// Pauses the walk. The error that the write returns now is for no caller, and [`resume`](Self::resume) says so.
    #[cold]
    pub(super) fn pause(&mut self) -> Error {
        self.is_paused = true;
        Self::is_gone()
    }

    /// The record key of the current document.
    pub(super) fn record_key(&self) -> &[u8] {
        self.matches.as_ref().map(|(_, matches)| matches.record_key()).unwrap_or_default()
    }

    /// Ends the walk: the next one begins again.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether the write has left the gate only to enter it again.
    pub(crate) fn resume(&mut self) -> bool {
        std::mem::take(&mut self.is_paused)
    }

    /// Whether documents are still to be walked over.
    pub(crate) fn has_begun(&self) -> bool {
        self.matches.is_some()
    }

    /// The error of a write whose collection was dropped or renamed while it had left the gate.
    #[cold]
    pub(crate) fn is_gone() -> Error {
        let message = "the collection was dropped or renamed while documents of it were written";
        Error::command(Code::QUERY_PLAN_KILLED, message)
    }
}

/// Offers matching documents by their record keys, in order, until an attempt succeeds.
#[inline]
pub(super) fn on_first<R>(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    mut attempt: impl FnMut(&[u8], &Check<'_>) -> Result<Option<R>>,
) -> Result<Option<R>> {
    // A filter that fixes the `_id` needs no walk, and a lost document has no other in its place.
    let long_keys = target.collection.record_keys.long_keys;
    if let Some(key) = search.selector.record_key(target.collection.id, long_keys) {
        search.operation().look()?;
        if let Some(Staging { open, state }) = target.staging {
            // Also if it changes nothing: that it does not is what the transaction has read.
            open.note_read(state, Some(&key))?;
        }
        return attempt(&key, &Check::of(search.selector));
    }
    loop {
        // A sort in memory must see all matches before the first can be offered; a walk in order offers them as it goes.
        let done = match search.order.sort() {
            Some(sort) => on_least(target, search, walk, sort, &mut attempt)?,
            None => on_walk(target, search, walk, &mut attempt)?,
        };
        // Only a lost document is a reason to search again; a search that found no match at all is over.
        let has_lost = walk.has_lost;
        walk.end();
        if done.is_some() || !has_lost {
            return Ok(done);
        }
    }
}

/// Offers every document that matched at the beginning, each of them once.
pub(super) fn on_each(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    mut attempt: impl FnMut(&[u8], &Check<'_>) -> Result<()>,
) -> Result<()> {
    let check = Check::of(search.selector);
    while walk.advance_or_pause(target, search, true)? {
        // A write costs more than a step, and what it computes may have lasted long.
        search.operation().look()?;
        attempt(walk.record_key(), &check)?;
    }
    Ok(())
}

/// Offers the documents that a walk finds, in the order of the walk.
fn on_walk<R>(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    attempt: &mut Attempt<'_, R>,
) -> Result<Option<R>> {
    let check = Check::of(search.selector);
    while walk.advance_or_pause(target, search, false)? {
        search.operation().look()?;
        if target.staging.is_some() {
            // Ended first: what is staged would be copied as long as it reads.
            let key = walk.record_key().to_vec();
            walk.end();
            return attempt(&key, &check);
        }
        if let Some(done) = attempt(walk.record_key(), &check)? {
            return Ok(Some(done));
        }
        walk.has_lost = true;
    }
    Ok(None)
}

/// Offers the document that comes first in the sort, and no other: if it was lost, any other may come first now.
fn on_least<R>(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    sort: &Sort,
    attempt: &mut Attempt<'_, R>,
) -> Result<Option<R>> {
    // One document is kept, so this needs no bound of memory of its own.
    let begin = || Sorter::new(sort.clone(), Some(1), usize::MAX).within(search.operation());
    let mut sorter = walk.sorter.take().unwrap_or_else(begin);
    loop {
        match walk.advance(target, search, false)? {
            Next::Match => {}
            Next::End => break,
            Next::Pause => {
                walk.sorter = Some(sorter);
                return Err(walk.pause());
            }
        }
        let matches = walk.matches(target, search, false)?;
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
    if target.staging.is_some() {
        walk.end();
    }
    let done =
        attempt(&record_key, &Check { selector: search.selector, sorted: key.map(|key| (sort, key)) })?;
    walk.has_lost = done.is_none();
    Ok(done)
}

/// Opens a walk over the documents that match, each of them once, as they are now: what the write changes does not show.
/// `reads_all` says whether it is followed to its end.
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
