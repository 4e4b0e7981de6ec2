//! What a search gives, row by row: matching documents, sorted, skipped, counted and projected.

use std::sync::{Arc, Mutex, PoisonError};

use bson::{RawDocument, RawDocumentBuf};
use index::key::Direction;
use query::operation::OperationContext;
use query::projection::Projection;
use query::sort::Sort;
use query::sort::collect::{Sorted, Sorter};

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
        let order = Order::Walk(Direction::Ascending);
        Self { selector, order, skip: 0, limit: None, projection: None }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) looks: Looks,
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
    /// What was sorted, and the document stood on.
    Sorted { rest: Sorted<Box<[u8]>>, current: Box<[u8]>, looks: Looks, count: u64 },
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
        let direction = match &order {
            Order::Walk(direction) => *direction,
            Order::Sort(_) => Direction::Ascending,
        };
        let mut matches = Matches::open(view, selector, direction)?;
        let source = match order {
            Order::Walk(_) => Source::Walk(Box::new(matches)),
            Order::Sort(sort) => {
                let kept = limit.map(|limit| limit.saturating_add(skip));
                let rest = sorted(&mut matches, (sort, kept), &operation)?;
                let count = rest.len() as u64;
                Source::Sorted { rest, current: Box::default(), looks: matches.looks(), count }
            }
        };
        Ok(Self { source, skip, remaining: limit, shape, given: 0, report: None, operation })
    }

    /// The same rows, which tell what was done for them when they are dropped.
    pub(crate) fn reporting_to(mut self, report: &Report) -> Self {
        self.report = Some(Arc::clone(report));
        self
    }

    /// What was done until now.
    fn work(&self) -> Work {
        let (looks, sorted) = match &self.source {
            Source::Walk(matches) => (matches.looks(), None),
            Source::Sorted { looks, count, .. } => (*looks, Some(*count)),
        };
        Work { looks, sorted, rows: self.given }
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

impl Source {
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

/// The first `kept` matches in the order of the sort, or all.
fn sorted(
    matches: &mut Matches,
    (sort, kept): (Sort, Option<u64>),
    operation: &OperationContext,
) -> Result<Sorted<Box<[u8]>>> {
    let kept = kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX));
    let mut sorter = Sorter::new(sort, kept, SORT_BYTES_MAX).within(operation);
    while matches.advance()? {
        let document = matches.document()?;
        sorter.push(document, || Box::from(document.as_bytes()))?;
    }
    Ok(sorter.into_sorted_iter())
}
