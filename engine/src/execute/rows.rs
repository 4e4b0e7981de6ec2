//! The results of a search, row by row: the matching documents, sorted, skipped, limited and projected.

use std::sync::{Arc, Mutex, PoisonError};

use base::error::Result;
use bson::{RawBson, RawDocument, RawDocumentBuf};
use index::path::FieldPath;
use query::expression::{Metadata, Variables};
use query::operation::OperationContext;
use query::projection::Projection;
use query::sort::Sort;
use query::sort::error::Error as SortError;
use query::sort::spilling::{SortedPayloads, SpillingSorter};

use crate::execute::examined::Examined;
use crate::execute::found_key::with_record_id;
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::execute::rest::Rest;
use crate::plan::access::{Asked, Needed};
use crate::plan::bounds::ID_FIELD;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// The memory that a sort may use, in bytes, if the store does not allow it less.
pub(crate) const SORT_BYTES_MAX: usize = 100 << 20;

/// A parsed search.
#[derive(Clone)]
pub(crate) struct Search {
    pub(crate) selector: Selector,
    pub(crate) order: Order,
    pub(crate) skip: u64,
    /// Absent for no limit.
    pub(crate) limit: Option<u64>,
    pub(crate) projection: Option<Projection>,
    pub(crate) extras: RowExtras,
    /// The parts of matching documents that the caller needs.
    pub(crate) needs: Needed,
    /// Of the matches with one value of this field the first row is enough. There is no skip and no limit then.
    pub(crate) one_of_each: Option<FieldPath>,
}

/// The additions of rows to the projected documents, or their replacements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowExtras {
    /// Rows are the keys by which documents were found. The projection is ignored then.
    pub(crate) keys: bool,
    /// Rows have the `_id` of their document as `$recordId` too.
    pub(crate) record_ids: bool,
    /// The metadata of the documents is known beside the rows.
    pub(crate) metadata: bool,
}

impl RowExtras {
    /// Whether rows are other than the projected documents.
    fn shapes(self) -> bool {
        self.keys || self.record_ids
    }
}

impl Search {
    /// The search for all matches, in the order of the plan, as they are stored.
    pub(crate) fn of(selector: Selector) -> Self {
        let (order, needs) = (Order::default(), Needed::Documents);
        let extras = RowExtras::default();
        Self { selector, order, skip: 0, limit: None, projection: None, extras, needs, one_of_each: None }
    }

    /// The request that the plan depends on.
    pub(crate) fn asked(&self) -> Asked<'_> {
        let Self { selector, order, needs, .. } = self;
        let one_of_each = self.one_of_each.as_ref();
        Asked { selector, order, needs, one_of_each, reads_all: self.limit.is_none() }
    }
}

/// The rows of a search. They are before the first one until `advance` is called.
pub(crate) struct Rows {
    source: RowSource,
    skip: u64,
    remaining: Option<u64>,
    shape: Option<ProjectedRow>,
    /// Whether the metadata of rows can be asked for.
    has_metadata: bool,
    /// The sort that names its values, if metadata can be asked for.
    sort: Option<Sort>,
    given: u64,
    report: Option<WorkReport>,
    operation: OperationContext,
}

/// The work of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) examined: Examined,
    /// The reads of each scan of the plan. Scans that were not opened are absent.
    pub(crate) parts: Vec<Examined>,
    /// The number of sorted documents. Absent if there was no sort.
    pub(crate) sorted: Option<u64>,
    /// The number of times that the sort moved documents to a file.
    pub(crate) spills: u64,
    /// The number of returned rows.
    pub(crate) rows: u64,
}

/// The slot that gets the work of a search when its rows are dropped.
pub(crate) type WorkReport = Arc<Mutex<Work>>;

enum RowSource {
    /// A walk that has ended, and may be followed by another one.
    Nothing,
    /// Boxed, so that sorted rows do not get its size.
    Walk(Box<Matches>),
    /// The sorted documents that are left, and the current one, which comes once more if it `repeats`.
    Sorted { rest: SortedPayloads<Box<[u8]>>, current: Box<[u8]>, repeats: bool, work: Work },
}

/// The projection, and the row of the current document.
struct ProjectedRow {
    projection: Option<Projection>,
    extras: RowExtras,
    variables: Variables,
    shown: RawDocumentBuf,
    /// Whether the current document is shown as it is: an index has given just what the projection leaves, or it is a row
    /// that was made before it was sorted.
    is_done: bool,
}

impl Rows {
    /// Opens a search on a collection. What must be sorted is sorted here.
    pub(crate) fn open(view: ReadView, search: Search) -> Result<Self> {
        // A sort must keep the skipped rows as well: they are the first ones.
        let kept = search.limit.map(|limit| limit.saturating_add(search.skip));
        let source = RowSource::open(view, search.asked(), search.extras, kept)?;
        Ok(Self::with(source, search))
    }

    fn with(source: RowSource, search: Search) -> Self {
        let Search { selector, order, skip, limit, projection, extras, .. } = search;
        let sort = order.sort().filter(|_| extras.metadata).cloned();
        let operation = selector.variables().operation().clone();
        // An empty projection shows whole documents, which are then not copied.
        let projection = projection.filter(|projection| !projection.is_empty());
        let is_shaped = projection.is_some() || extras.shapes();
        let variables = selector.variables().clone();
        let shape = is_shaped.then(|| ProjectedRow {
            projection,
            extras,
            variables: if extras.metadata { variables.with_metadata() } else { variables },
            shown: RawDocumentBuf::new(),
            is_done: false,
        });
        let has_metadata = extras.metadata;
        Self { source, skip, remaining: limit, shape, has_metadata, sort, given: 0, report: None, operation }
    }

    /// The rows of a search whose documents a walk finds. The walk may be exchanged for another one.
    pub(crate) fn of_search(matches: Matches, search: Search) -> Self {
        Self::with(RowSource::Walk(Box::new(matches)), search)
    }

    /// Reads the rows that follow from another walk, or from none.
    pub(crate) fn exchange(&mut self, matches: Option<Matches>) {
        self.source = match matches {
            Some(matches) => RowSource::Walk(Box::new(matches)),
            None => RowSource::Nothing,
        };
    }

    /// The documents of a walk as they are, each a row.
    pub(super) fn of(matches: Matches) -> Self {
        let operation = matches.operation().clone();
        let source = RowSource::Walk(Box::new(matches));
        let (shape, has_metadata, sort) = (None, false, None);
        Self {
            source,
            skip: 0,
            remaining: None,
            shape,
            has_metadata,
            sort,
            given: 0,
            report: None,
            operation,
        }
    }

    /// Makes the rows report their work when they are dropped.
    pub(crate) fn reporting_to(mut self, report: &WorkReport) -> Self {
        self.report = Some(Arc::clone(report));
        self
    }

    /// The work so far.
    fn work(&self) -> Work {
        let work = match &self.source {
            RowSource::Nothing => Work::default(),
            RowSource::Walk(matches) => Work::of(matches),
            RowSource::Sorted { work, .. } => work.clone(),
        };
        Work { rows: self.given, ..work }
    }

    /// Steps to the next row; `false` at the end.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        // All documents as they are: apart from the rest, so that it is small enough to be a part of every cursor.
        if self.remaining.is_none() && self.skip == 0 && self.shape.is_none() {
            let is_there = self.source.advance()?;
            self.given += u64::from(is_there);
            return Ok(is_there);
        }
        self.advance_shaped()
    }

    /// Steps to the next row, which is skipped to, counted or projected.
    fn advance_shaped(&mut self) -> Result<bool> {
        // Before anything is read: the row after the last one could be far away.
        if self.remaining == Some(0) {
            return Ok(false);
        }
        while self.skip > 0 {
            if !self.source.advance()? {
                return Ok(false);
            }
            self.skip -= 1;
        }
        if !self.source.advance()? {
            return Ok(false);
        }
        if let Some(remaining) = &mut self.remaining {
            *remaining -= 1;
        }
        // Only rows that are returned are projected, not those that are skipped.
        self.given += 1;
        if let Some(shape) = &mut self.shape {
            shape.is_done = self.source.has_rows(shape.extras);
            if shape.is_done {
                return Ok(true);
            }
            if self.has_metadata {
                shape.variables.set_metadata(self.source.metadata(self.sort.as_ref())?);
            }
            shape.shown = match &self.source {
                RowSource::Walk(matches) if shape.extras.keys => key_row(matches, shape.extras)?,
                source @ (RowSource::Nothing | RowSource::Walk(_) | RowSource::Sorted { .. }) => {
                    shape.apply(RawDocument::from_bytes(source.bytes())?)?
                }
            };
        }
        Ok(true)
    }

    /// The metadata of the current row, which must not have rested. Returns `None` if the search was not asked to know it.
    pub(super) fn metadata(&self) -> Result<Option<Metadata>> {
        if self.has_metadata { self.source.metadata(self.sort.as_ref()) } else { Ok(None) }
    }

    /// The operation that the search belongs to.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Releases what the storage holds for the rows until they are advanced again. To be repeated there must be a current
    /// row.
    pub(crate) fn rest(&mut self, current: Rest) {
        if current == Rest::Repeat {
            self.given -= 1;
            if let Some(remaining) = &mut self.remaining {
                *remaining += 1;
            }
        }
        if let (Some(shape), Rest::Release | Rest::Repeat) = (&mut self.shape, current) {
            shape.shown = RawDocumentBuf::new();
        }
        match &mut self.source {
            RowSource::Nothing => {}
            RowSource::Walk(matches) => matches.rest(current),
            // Sorted rows are copies, which the operation has reserved, or in files. They hold nothing of the storage.
            RowSource::Sorted { rest, repeats, .. } => {
                *repeats |= current == Rest::Repeat;
                rest.rest();
            }
        }
    }

    /// Whether it is known without reading that no row follows. `false` does not mean that one does.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_last = match &self.source {
            RowSource::Sorted { rest, repeats, .. } => rest.is_empty() && !repeats,
            RowSource::Nothing | RowSource::Walk(_) => false,
        };
        self.remaining == Some(0) || is_last
    }

    /// The bytes of the current row.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.shape {
            Some(shape) if !shape.is_done => shape.shown.as_bytes(),
            Some(_) | None => self.source.bytes(),
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // A drop sees the work of searches that ended early, with an error or a limit, as well.
        if let Some(report) = &self.report {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = self.work();
        }
    }
}

impl ProjectedRow {
    /// The row of a document.
    fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let row = match &self.projection {
            Some(projection) => projection.apply(document, &self.variables)?,
            None => document.to_owned(),
        };
        if self.extras.record_ids { with_record_id(row, document) } else { Ok(row) }
    }
}

/// The row of the current match, if rows are keys.
fn key_row(matches: &Matches, extras: RowExtras) -> Result<RawDocumentBuf> {
    let row = matches.found_key()?;
    if extras.record_ids { with_record_id(row, matches.document()?) } else { Ok(row) }
}

impl Work {
    fn of(matches: &Matches) -> Self {
        let (examined, parts) = (matches.examined(), matches.scans_examined());
        Self { examined, parts, ..Self::default() }
    }
}

impl RowSource {
    /// Opens the matches in the requested order. If they must be sorted, only the first `kept` of them.
    fn open(view: ReadView, asked: Asked<'_>, extras: RowExtras, kept: Option<u64>) -> Result<Self> {
        let Asked { selector, order, .. } = asked;
        // The second view is for the case that sorting uses too much memory: it must show the same moment.
        let again = order.sort().and_then(|_| view.again());
        let mut matches = Matches::open_for(view, asked)?;
        let Some(sort) = order.sort().filter(|_| !matches.is_sorted()) else {
            return Ok(Self::Walk(Box::new(matches)));
        };
        match sorted(&mut matches, sort.clone(), extras, kept)? {
            Some(rest) => {
                let work = Work { sorted: Some(rest.len()), spills: rest.spills(), ..Work::of(&matches) };
                Ok(Self::Sorted { rest, current: Box::default(), repeats: false, work })
            }
            None => Self::without_sort(again, selector.clone(), order),
        }
    }

    /// Opens the matches by a plan that needs no sort, after sorting has used too much memory. Otherwise an index could make
    /// a search fail: the planner may prefer it, with a sort, to the plan that the search would have without it.
    #[cold]
    fn without_sort(again: Option<ReadView>, selector: Selector, order: &Order) -> Result<Self> {
        let operation = selector.variables().operation().clone();
        let matches = again.map(|view| Matches::open_sorted(view, selector, order)).transpose()?.flatten();
        // The limit of the sort's memory, in the error that it had.
        let limit = operation.stage_bytes_max(SORT_BYTES_MAX);
        let refused = SortError::MemoryExceeded { limit };
        Ok(Self::Walk(Box::new(matches.ok_or(refused)?)))
    }

    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Nothing => Ok(false),
            Self::Walk(matches) => matches.advance(),
            Self::Sorted { repeats, .. } if *repeats => {
                *repeats = false;
                Ok(true)
            }
            Self::Sorted { rest, current, .. } => match rest.next()? {
                Some(next) => {
                    *current = next;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Whether the current document is a row already: an index has given it with just the fields that are needed, or its key
    /// replaced it before it was sorted.
    fn has_rows(&self, extras: RowExtras) -> bool {
        match self {
            Self::Nothing => false,
            Self::Walk(matches) => extras == RowExtras::default() && matches.is_exact(),
            // A sort may have needed more fields than are shown.
            Self::Sorted { .. } => extras.keys,
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::Walk(matches) => matches.bytes(),
            Self::Sorted { current, .. } => apart(current).0,
        }
    }

    /// The metadata of the current row. A sort has kept it only if it was asked to.
    fn metadata(&self, sort: Option<&Sort>) -> Result<Option<Metadata>> {
        let mut metadata = match self {
            Self::Nothing => return Ok(None),
            Self::Walk(matches) => metadata_of(matches)?,
            Self::Sorted { current, .. } => Metadata::restore(RawDocument::from_bytes(apart(current).1)?),
        };
        if let Some(sort) = sort {
            // Of an index the entry has them too, but not always whole.
            metadata.sort_key = sort.values(RawDocument::from_bytes(self.bytes())?)?;
        }
        Ok(Some(metadata))
    }
}

/// A document and what a sort keeps after it.
fn apart(sorted: &[u8]) -> (&[u8], &[u8]) {
    // A document begins with its length, so nothing else has to say where the first one ends.
    let length = sorted.first_chunk().map(|length| i32::from_le_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
    sorted.split_at_checked(length).unwrap_or((sorted, &[]))
}

/// The metadata of the current match.
fn metadata_of(matches: &Matches) -> Result<Metadata> {
    let index_key = matches.found_key()?;
    // Documents are stored by their `_id`, and have no other number.
    let record_id = matches.document()?.get(ID_FIELD)?.map(RawBson::from);
    // The key is empty where all documents are read: then it was found by none.
    let index_key = Some(index_key).filter(|key| !key.is_empty());
    Ok(Metadata { index_key, record_id, ..Metadata::default() })
}

/// A row that is sorted, with what is said about it afterwards.
fn with_metadata(row: &RawDocument, matches: &Matches) -> Result<Box<[u8]>> {
    let kept = metadata_of(matches)?.stored();
    Ok([row.as_bytes(), kept.as_bytes()].concat().into())
}

/// Sorts the matches and keeps the first `kept` of them, or all. Returns `None` if they use too much memory and may not go
/// to temporary files.
fn sorted(
    matches: &mut Matches,
    sort: Sort,
    extras: RowExtras,
    kept: Option<u64>,
) -> Result<Option<SortedPayloads<Box<[u8]>>>> {
    let operation = matches.operation().clone();
    // More rows than memory has addresses are as good as all.
    let kept = kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX));
    let mut sorter = SpillingSorter::new(sort, kept, SORT_BYTES_MAX, &operation);
    while matches.advance()? {
        let document = matches.document()?;
        // Afterwards the key is not known any more.
        let key = extras.keys.then(|| key_row(matches, extras)).transpose()?;
        let row = key.as_deref().unwrap_or(document);
        // Nor is anything else that was known of how it was found.
        let told = extras.metadata.then(|| with_metadata(row, matches)).transpose()?;
        match sorter.push(document, || told.unwrap_or_else(|| Box::from(row.as_bytes()))) {
            // Not an error yet: a plan without a sort may exist.
            Err(SortError::MemoryExceeded { .. }) => return Ok(None),
            pushed => pushed?,
        }
    }
    Ok(Some(sorter.sort()?))
}
