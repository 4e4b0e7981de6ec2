//! How the documents that can match are reached. A search asks here, and so does an explanation of it.
//!
//! The read state must be taken first and the plan made after it: what an index tells of arrays holds for every snapshot
//! that is older than the answer.

use index::multikey::ArrayComponents;
use query::planner::{self, IndexView, Request};

use crate::catalog::indexes::Index;
use crate::error::Result;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// The plans for a search, best first; at least one.
pub(crate) fn plans(selector: &Selector, order: &Order, indexes: &[Index]) -> Result<Vec<planner::Plan>> {
    let arrays: Vec<Vec<ArrayComponents>> = indexes.iter().map(|index| index.arrays.announced()).collect();
    let views = indexes.iter().zip(&arrays).map(|(index, arrays)| IndexView { spec: &index.spec, arrays });
    let views: Vec<IndexView<'_>> = views.collect();
    let hint = order.planner_hint(indexes)?;
    Ok(planner::plans(&Request { filter: selector.filter(), sort: order.sort(), indexes: &views, hint }))
}
