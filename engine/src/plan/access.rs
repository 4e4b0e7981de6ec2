//! The plans for a search. Searches and their explanations both call [`plans`], so they agree.
//!
//! The read state must be taken first and the plan made after it: what an index reports about arrays holds for every
//! snapshot that is older than the report.

use index::multikey::ArrayComponents;
use query::planner::{self, IndexView, Request};

use crate::catalog::indexes::Index;
use crate::error::Result;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// The plans for a search, the best first. There is at least one.
pub(crate) fn plans(selector: &Selector, order: &Order, indexes: &[Index]) -> Result<Vec<planner::Plan>> {
    // Indexes learn of arrays while documents are written, so this is read once and kept for the whole planning.
    let arrays: Vec<Vec<ArrayComponents>> = indexes.iter().map(|index| index.arrays.announced()).collect();
    let views = indexes.iter().zip(&arrays).map(|(index, arrays)| IndexView { spec: &index.spec, arrays });
    let views: Vec<IndexView<'_>> = views.collect();
    let hint = order.planner_hint(indexes)?;
    Ok(planner::plans(&Request { filter: selector.filter(), sort: order.sort(), indexes: &views, hint }))
}
