//! What a search gives, row by row: matching documents, sorted, skipped, counted and projected.

use std::sync::{Arc, Mutex, PoisonError};

use bson::{RawDocument, RawDocumentBuf};
use query::operation::OperationContext;
use query::projection::Projection;
use query::sort::Sort;
use query::sort::collect::{Sorted, Sorter};
use query::sort::error::Error as SortError;

use crate::error::Result;
use crate::execute::matches::{Looks, Matches};
use crate::execute::read_view::ReadView;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// How much memory a sort may take.
pub(crate) const SORT_BYTES_MAX: usize = 100 << 20;

/// A search, parsed.
pub(crate) struct Search {
    pub(crate) selector: Selector,
    pub(crate) order: Order,
    pub(crate) skip: u64,
    /// Absent for no limit.
    pub(crate) limit: Option<u64>,
    pub(crate) projection: Option<Projection>,
}

impl Search {
    /// Everything that matches, as it is stored.
    pub(crate) fn of(selector: Selector) -> Self {
        Self { selector, order: Order::default(), skip: 0, limit: None, projection: None }
    }
}

/// The rows of a search. They stand before the first until `advance` is called.
pub(crate) struct Rows {
    source: Source,
    skip: u64,
    remaining: Option<u64>,
    shape: Option<Shape>,
    given: u64,
    report: Option<Report>,
    operation: OperationContext,
}

/// What a search did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) looks: Looks,
    /// What each scan of the plan looked at; later ones are absent if they were not begun.
    pub(crate) parts: Vec<Looks>,
    /// How many documents came out of the sort, if there was one.
    pub(crate) sorted: Option<u64>,
    /// How many rows were given.
    pub(crate) rows: u64,
}

/// Where it is told what a search did, once its rows are dropped.
pub(crate) type Report = Arc<Mutex<Work>>;

enum Source {
    /// Boxed: most of its bytes would be empty where rows are sorted.
    Walk(Box<Matches>),
    /// What was sorted, the current document, and what was looked at.
    Sorted { rest: Sorted<Box<[u8]>>, current: Box<[u8]>, work: Work },
}

/// The projection, and what it shows of the document stood on.
struct Shape {
    projection: Projection,
    selector: Selector,
    shown: RawDocumentBuf,
}

impl Rows {
    /// Opens a search on a collection. What must be sorted is sorted here.
    pub(crate) fn open(view: ReadView, search: Search) -> Result<Self> {
        let Search { selector, order, skip, limit, projection } = search;
        let operation = selector.variables().operation().clone();
        let shape = projection.filter(|projection| !projection.is_empty()).map(|projection| Shape {
            projection,
            selector: selector.clone(),
            shown: RawDocumentBuf::new(),
        });
        let kept = limit.map(|limit| limit.saturating_add(skip));
        let source = Source::open(view, selector, &order, kept)?;
        Ok(Self { source, skip, remaining: limit, shape, given: 0, report: None, operation })
    }

    /// The same rows, which tell what was done for them when they are dropped.
    pub(crate) fn reporting_to(mut self, report: &Report) -> Self {
        self.report = Some(Arc::clone(report));
        self
    }

    /// What was done until now.
    fn work(&self) -> Work {
        let work = match &self.source {
            Source::Walk(matches) => Work::of(matches),
            Source::Sorted { work, .. } => work.clone(),
        };
        Work { rows: self.given, ..work }
    }

    /// Steps to the next row; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.remaining == Some(0) {
            return Ok(false);
        }
        while self.skip > 0 {
            if !self.source.advance()? {
                return Ok(false);
            }
            self.skip -= 1;
        }
        if let Some(remaining) = &mut self.remaining {
            *remaining -= 1;
        }
        if !self.source.advance()? {
            return Ok(false);
        }
        self.given += 1;
        if let Some(shape) = &mut self.shape {
            let document = RawDocument::from_bytes(self.source.bytes())?;
            shape.shown = shape.projection.apply(document, shape.selector.variables())?;
        }
        Ok(true)
    }

    /// What the search may use.
    pub(crate) fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Lets go of what the storage holds for the rows, until they go on.
    pub(crate) fn rest(&mut self) {
        if let Source::Walk(matches) = &mut self.source {
            matches.rest();
        }
    }

    /// Whether it is known without looking that no row follows.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.remaining == Some(0) || matches!(&self.source, Source::Sorted { rest, .. } if rest.len() == 0)
    }

    /// The bytes stood on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.shape {
            Some(shape) => shape.shown.as_bytes(),
            None => self.source.bytes(),
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(report) = &self.report {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = self.work();
        }
    }
}

impl Work {
    fn of(matches: &Matches) -> Self {
        Self { looks: matches.looks(), parts: matches.part_looks(), sorted: None, rows: 0 }
    }
}

impl Source {
    /// The matches, in the order that is asked for; the first `kept` of them if they must be sorted.
    fn open(view: ReadView, selector: Selector, order: &Order, kept: Option<u64>) -> Result<Self> {
        let again = order.sort().and_then(|_| view.again());
        let mut matches = Matches::open(view, selector.clone(), order)?;
        let Some(sort) = order.sort().filter(|_| !matches.is_sorted()) else {
            return Ok(Self::Walk(Box::new(matches)));
        };
        match sorted(&mut matches, (sort.clone(), kept), selector.variables().operation())? {
            Some(rest) => {
                let work = Work { sorted: Some(rest.len() as u64), ..Work::of(&matches) };
                Ok(Self::Sorted { rest, current: Box::default(), work })
            }
            None => Self::without_sort(again, selector, order),
        }
    }

    /// The matches by a plan that has the order, where sorting takes too much memory: no index may make a search fail that
    /// would not fail without it.
    #[cold]
    fn without_sort(again: Option<ReadView>, selector: Selector, order: &Order) -> Result<Self> {
        let matches = again.map(|view| Matches::open_sorted(view, selector, order)).transpose()?.flatten();
        let refused = SortError::MemoryExceeded { limit: SORT_BYTES_MAX };
        Ok(Self::Walk(Box::new(matches.ok_or(refused)?)))
    }

    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Walk(matches) => matches.advance(),
            Self::Sorted { rest, current, .. } => match rest.next() {
                Some(next) => {
                    *current = next;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Walk(matches) => matches.bytes(),
            Self::Sorted { current, .. } => current,
        }
    }
}

/// The first `kept` matches in the order of the sort, or all; `None` if they take too much memory.
fn sorted(
    matches: &mut Matches,
    (sort, kept): (Sort, Option<u64>),
    operation: &OperationContext,
) -> Result<Option<Sorted<Box<[u8]>>>> {
    let kept = kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX));
    let mut sorter = Sorter::new(sort, kept, SORT_BYTES_MAX).within(operation);
    while matches.advance()? {
        let document = matches.document()?;
        match sorter.push(document, || Box::from(document.as_bytes())) {
            Err(SortError::MemoryExceeded { .. }) => return Ok(None),
            pushed => pushed?,
        }
    }
    Ok(Some(sorter.into_sorted_iter()))
}
