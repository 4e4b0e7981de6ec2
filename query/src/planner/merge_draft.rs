//! Scans of one index that are merged in the order of a sort, planned before they are made: there may be two hundred of
//! them for each branch of an `$or`, most of which no plan uses.

use index::interval::Intervals;
use index::key::Direction;

use crate::filter::entries::EntryBounds;
use crate::filter::planning_budget::PlanningBudget;
use crate::planner::merge::{Combinations, MergeOrder};
use crate::planner::plan::{Access, Merge, Plan};
use crate::planner::rank::Rank;
use crate::planner::request::Request;
use crate::planner::scan::{Answers, Ranked, order_of, rank_of, scan};
use crate::planner::target::ScanTarget;
use crate::sort::Sort;

/// About what a merge holds for each interval of each of its scans: the keys at both ends.
const RANGE_BYTES: usize = 64;

/// A merge of one scan for each combination of values of the first fields of an index.
#[derive(Clone)]
pub(super) struct MergeDraft<'a> {
    target: ScanTarget<'a>,
    sort: &'a Sort,
    bounds: EntryBounds,
    /// The number of fields whose values are combined.
    skipped: usize,
    /// The number of combinations.
    count: usize,
    direction: Direction,
}

impl<'a> MergeDraft<'a> {
    /// The merge of the fewest scans that has the order of the sort. Returns `None` if one scan has that order, or if no such
    /// scans have it.
    pub(super) fn of(
        request: &Request<'a>,
        target: ScanTarget<'a>,
        bounds: &EntryBounds,
        budget: &PlanningBudget<'_>,
    ) -> Option<Self> {
        let sort = request.sort?;
        // One path of a wildcard index has no second field that could be in order.
        target.index.filter(|_| {
            target.path.is_none() && !bounds.is_empty() && order_of(sort, target, &bounds.sets).is_none()
        })?;
        let mut combinations = Combinations::of(&bounds.sets);
        // The fewest fields that give the order also give the fewest scans.
        while combinations.take_field().is_some() {
            // All combinations have as many values, so the order of one is that of all.
            if let Some(direction) = order_of(sort, target, combinations.first()) {
                let (skipped, count) = (combinations.fields(), combinations.count());
                // Each scan has its own copy of the bounds on the other fields, as keys.
                let rest = bounds.sets.iter().skip(skipped).map(|set| set.as_slice().len()).sum::<usize>();
                let is_small = budget.has_bytes(rest.saturating_mul(count).saturating_mul(RANGE_BYTES));
                let draft = Self { target, sort, bounds: bounds.clone(), skipped, count, direction };
                return is_small.then_some(draft);
            }
        }
        None
    }

    /// The answer of the entries of its scans.
    pub(super) fn answers<'b>(&self, request: &Request<'b>, budget: &'b PlanningBudget<'b>) -> Answers<'b>
    where
        'a: 'b,
    {
        // The next documents of merged scans may be compared by the sort, so they must have all of its fields.
        Answers::of(request, self.target, Some(self.sort), budget)
    }

    /// The number of scans.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Its rank, if its scans read documents.
    pub(super) fn rank(&self) -> Rank {
        rank_of(self.target, &self.bounds, true)
    }

    /// The scans of the merge, each with what its entries answer.
    pub(super) fn scans(&self, request: &Request<'a>, answers: &Answers<'_>) -> Vec<Access> {
        let scan_of = |sets: Vec<Intervals>| {
            let bounds = EntryBounds { sets, has_value: self.bounds.has_value };
            answers.add_to(scan(request, self.target, bounds)).plan.access
        };
        Combinations::all(&self.bounds.sets, self.skipped).into_iter().map(scan_of).collect()
    }

    /// The plan of the merge.
    pub(super) fn plan(self, request: &Request<'a>, answers: &Answers<'_>) -> Ranked {
        let scans = self.scans(request, answers);
        let rank = Rank { reads: answers.reads(), ..self.rank() };
        let Self { target, sort, skipped, direction, .. } = self;
        let split = || target.spec.fields().iter().take(skipped);
        // Two scans differ in the fields that were split, so the rest of a key is not an order by these.
        let orders_split = sort.fields().any(|(path, _)| split().any(|field| field.path == *path));
        // A scan of a unique index may be in order because it has one document. Then its keys need not have the fields of the
        // sort, nor do they end with the `_id`.
        let order = if orders_split || target.spec.is_unique() {
            MergeOrder::Sort(sort.clone())
        } else {
            MergeOrder::Keys { skipped, direction }
        };
        // Two values of one shortened key are two scans of the same entries.
        let is_exact = |field: usize| target.arrays_at(field).has_exact_keys();
        let has_duplicates = !(0..target.spec.fields().len()).all(is_exact);
        let access = Access::Merge(Merge { scans, order, has_duplicates });
        Ranked { plan: Plan { access, is_sorted: true, is_rival: false }, rank }
    }
}
