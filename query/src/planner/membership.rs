//! Whether an index has an entry of every document that matches, or leaves some of them out.
//!
//! A sparse index has no entry of a document without all of its fields, and a partial index none of a document that
//! does not match its own filter. Such an index may be read only if no match is among those.

use index::collation::Collation;

use crate::filter::entries::EntryBounds;
use crate::filter::planning_budget::PlanningBudget;
use crate::filter::{Alternatives, Filter};

/// Which documents have entries in an index. By default all have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Membership<'a> {
    /// Only documents with a value at one of the fields.
    pub(super) is_sparse: bool,
    /// Only documents that match this filter.
    pub(super) partial: Option<PartialView<'a>>,
}

/// The filter of a partial index.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialView<'a> {
    pub(super) filter: &'a Filter,
    /// Its comparison of strings.
    pub(super) collation: &'a Collation,
}

impl Membership<'_> {
    /// Whether some documents may have no entry.
    pub(super) fn leaves_out(&self) -> bool {
        self.is_sparse || self.partial.is_some()
    }

    /// Whether every document that matches `filter` has an entry within its bounds on the index.
    pub(super) fn has_every_match(
        &self,
        filter: Option<&Filter>,
        bounds: &EntryBounds,
        budget: &PlanningBudget<'_>,
    ) -> bool {
        let is_implied = |partial: PartialView<'_>| match filter {
            Some(filter) => filter.implies_within(partial.filter, partial.collation, budget),
            None => partial.filter.is_empty(),
        };
        self.has_every_value(bounds) && self.partial.is_none_or(is_implied)
    }

    /// For each branch of an `$or`, whether every document that matches by it has an entry within the bounds of the
    /// branch.
    pub(super) fn branches_with_every_match(
        &self,
        alternatives: &Alternatives<'_>,
        bounds: &[EntryBounds],
        budget: &PlanningBudget<'_>,
    ) -> Vec<bool> {
        let imply =
            |partial: PartialView<'_>| alternatives.imply_within(partial.filter, partial.collation, budget);
        let implied = self.partial.map(imply);
        let implied = implied.unwrap_or_else(|| vec![true; bounds.len()]);
        bounds.iter().zip(implied).map(|(bounds, implied)| implied && self.has_every_value(bounds)).collect()
    }

    /// Whether a sparse index has an entry of every match, because each of them has a value at one of the fields.
    fn has_every_value(&self, bounds: &EntryBounds) -> bool {
        !self.is_sparse || bounds.has_value
    }
}
