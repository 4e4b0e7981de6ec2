//! The plans for a search, as the planner ranks them. [`execute::choose`](crate::execute::choose) decides between rivals.
//!
//! The read state must be acquired first and the plan made after it: what an index reports about arrays holds for every
//! snapshot that is older than the report.

use base::error::Result;
use index::multikey::ArrayComponents;
use index::path::FieldPath;
use query::operation::OperationContext;
use query::planner::{self, Access, IndexView, Needs, Request};
use query::projection::Projection;

use crate::catalog::indexes::{EntryDetail, Index};
use crate::options::PlantedFault;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// The request of a search, as far as its plan depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) selector: &'a Selector,
    pub(crate) order: &'a Order,
    pub(crate) needs: &'a Needed,
    /// Of the matches with one value of this field the first one in the order is enough.
    pub(crate) one_of_each: Option<&'a FieldPath>,
    /// Whether the caller reads all that matches, and does not stop after some documents.
    pub(crate) reads_all: bool,
}

/// The parts of matching documents that are needed.
#[derive(Clone, Debug, Default)]
pub(crate) enum Needed {
    /// The documents themselves.
    #[default]
    Documents,
    /// These fields only. Without any the matches are counted.
    Fields(Vec<FieldPath>),
    /// The keys by which they are found.
    Keys,
}

impl Needed {
    /// The needs of a projection's rows.
    pub(crate) fn for_rows(projection: Option<&Projection>) -> Self {
        projection.and_then(Projection::included_fields).map_or(Self::Documents, Self::Fields)
    }

    fn as_planner_needs(&self) -> Needs<'_> {
        match self {
            Self::Documents => Needs::Documents,
            Self::Fields(paths) => Needs::Fields(paths),
            Self::Keys => Needs::Keys,
        }
    }
}

/// The plans for a search, the best first. There is at least one. Planning is a part of the operation of the selector.
///
/// # Errors
/// Why the operation is to end, if it is.
pub(crate) fn plans(
    asked: Asked<'_>,
    indexes: &[Index],
    has_shortened_ids: bool,
    fault: PlantedFault,
) -> Result<Vec<planner::Plan>> {
    // Indexes learn of arrays while documents are written, so this is read once and kept for the whole planning.
    let arrays: Vec<Vec<ArrayComponents>> = indexes.iter().map(|index| index.arrays.announced()).collect();
    let views = indexes.iter().zip(&arrays).map(|(index, arrays)| IndexView {
        spec: &index.spec,
        arrays,
        partial: index
            .settings
            .partial
            .as_ref()
            .filter(|_| fault != PlantedFault::PartialNotProven)
            .map(|partial| &partial.filter),
        has_details: index.detail == EntryDetail::Whole,
        has_shortened_ids,
    });
    let views: Vec<IndexView<'_>> = views.collect();
    let Asked { selector, order, needs, one_of_each, reads_all } = asked;
    let (hint, range) = (order.planner_hint(indexes)?, order.planner_range(indexes)?);
    let (filter, sort, needs) = (selector.filter(), order.sort(), needs.as_planner_needs());
    let range = range.as_ref();
    let collation = Some(selector.variables().collation());
    let request = Request {
        filter,
        sort,
        indexes: &views,
        has_shortened_ids,
        hint,
        range,
        needs,
        one_of_each,
        collation,
        reads_all,
    };
    let operation = selector.variables().operation();
    let mut plans = planner::plans(&request, operation);
    // A plan that was given up is right and may be slow: nothing of it is begun.
    operation.verdict()?;
    if fault == PlantedFault::ArraysCovered {
        cover_arrays(&request, &mut plans);
    }
    Ok(plans)
}

/// Plants a fault: scans answer from entries what they could if no document had an array.
#[cold]
fn cover_arrays(request: &Request<'_>, plans: &mut [planner::Plan]) {
    let views: Vec<IndexView<'_>> =
        request.indexes.iter().map(|view| IndexView { arrays: &[], ..*view }).collect();
    for other in planner::plans(&Request { indexes: &views, ..*request }, &OperationContext::unlimited()) {
        let Access::Entries(covered) = other.access else { continue };
        for plan in plans.iter_mut().filter(|plan| plan.is_sorted == other.is_sorted) {
            if let Access::Entries(scan) = &mut plan.access
                && scan.index == covered.index
            {
                scan.answer.clone_from(&covered.answer);
            }
        }
    }
}
