//! Unions: a scan for each branch of an `$or`, one after the other, or side by side in the order of the sort.

use std::cmp::Reverse;

use crate::filter::Alternatives;
use crate::filter::entries::EntryBounds;
use crate::filter::planning_budget::PlanningBudget;
use crate::planner::cover::Needs;
use crate::planner::merge::{MergeOrder, SCANS_MAX};
use crate::planner::merge_draft::MergeDraft;
use crate::planner::plan::{Access, Merge, Plan, Union};
use crate::planner::rank::Rank;
use crate::planner::request::Request;
use crate::planner::scan::{Ranked, one_or, scan};
use crate::planner::target::{RECORDS, ScanTarget, fields_of};
use crate::planner::wildcard;

/// The largest number of branches of an `$or` for which a union of scans is considered.
const BRANCHES_MAX: usize = 1_000;

/// The best bounded scan of a branch.
#[derive(Clone)]
struct Branch<'a> {
    reads: BranchReads<'a>,
    rank: Rank,
}

/// The reads of a branch.
#[derive(Clone)]
enum BranchReads<'a> {
    /// Nothing: no document matches by it.
    Nothing,
    One(Access),
    /// Several scans that are merged for this branch.
    Several(MergeDraft<'a>),
}

impl BranchReads<'_> {
    /// The number of scans.
    fn count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(_) => 1,
            Self::Several(draft) => draft.count(),
        }
    }
}

/// Unions of the best bounded scans for each branch of an `$or`: one after the other, and merged in the order of the sort
/// if each has it. None if a branch has no bounded scan, or if to find them would cost too much.
pub(super) fn unions<'a>(
    request: &Request<'a>,
    targets: &[ScanTarget<'a>],
    alternatives: &Alternatives<'a>,
    budget: &PlanningBudget<'a>,
) -> Vec<Ranked> {
    let count = alternatives.count();
    if count > BRANCHES_MAX {
        return Vec::new();
    }
    // Scans one after the other have no common order, so none of them is chosen for its order.
    let unsorted = Request { sort: None, needs: Needs::Documents, ..*request };
    let sorted = Request { needs: Needs::Documents, ..*request };
    let mut best: Vec<Option<Branch<'_>>> = vec![None; count];
    let mut best_sorted: Vec<Option<Branch<'_>>> = vec![None; count];
    let records = RECORDS.as_ref().map(|spec| ScanTarget::records(spec, request.has_shortened_ids));
    for target in records.into_iter().chain(targets.iter().copied()) {
        let Some(bounds) = alternatives.entry_bounds_within(&fields_of(target), budget) else {
            return Vec::new();
        };
        let are_complete = target.members.branches_with_every_match(alternatives, &bounds, budget);
        for (at, (bounds, is_complete)) in bounds.into_iter().zip(are_complete).enumerate() {
            if !is_complete || (target.path.is_some() && !wildcard::has_every_match(&bounds)) {
                continue;
            }
            if request.sort.is_some()
                && let Some(best) = best_sorted.get_mut(at)
            {
                take_better(best, sorted_branch(&sorted, target, &bounds, budget));
            }
            if let Some(best) = best.get_mut(at) {
                take_better(best, Some(branch_of(scan(&unsorted, target, bounds))));
            }
        }
    }
    let one_after_the_other = best.into_iter().collect::<Option<Vec<_>>>().map(|branches| {
        let rank = joined(&branches);
        let scans =
            branches.into_iter().flat_map(|branch| scans_of(branch.reads, &unsorted, budget)).collect();
        let access = one_or(scans, |scans| Access::Union(Union { scans, has_duplicates: true }));
        Ranked { plan: Plan { access, is_sorted: request.sort.is_none(), is_rival: false }, rank }
    });
    let side_by_side = request.sort.zip(best_sorted.into_iter().collect::<Option<Vec<_>>>());
    // Counted before they are made: each branch alone may have as many scans as all may have together.
    let is_few = |branches: &[Branch<'_>]| {
        branches.iter().map(|branch| branch.reads.count()).sum::<usize>() <= SCANS_MAX
    };
    let side_by_side = side_by_side.filter(|(_, branches)| is_few(branches)).map(|(sort, branches)| {
        let rank = Rank { is_sorted: true, ..joined(&branches) };
        let scans = branches.into_iter().flat_map(|branch| scans_of(branch.reads, &sorted, budget)).collect();
        let order = MergeOrder::Sort(sort.clone());
        let access = one_or(scans, |scans| Access::Merge(Merge { scans, order, has_duplicates: true }));
        Ranked { plan: Plan { access, is_sorted: true, is_rival: false }, rank }
    });
    one_after_the_other.into_iter().chain(side_by_side).collect()
}

/// The scans of a target that come in the order of the sort. Returns `None` if they do not.
fn sorted_branch<'a>(
    request: &Request<'a>,
    target: ScanTarget<'a>,
    bounds: &EntryBounds,
    budget: &PlanningBudget<'a>,
) -> Option<Branch<'a>> {
    if let Some(draft) = MergeDraft::of(request, target, bounds, budget) {
        let rank = draft.rank();
        return Some(Branch { reads: BranchReads::Several(draft), rank });
    }
    let ranked = scan(request, target, bounds.clone());
    ranked.plan.is_sorted.then(|| branch_of(ranked))
}

fn branch_of<'a>(ranked: Ranked) -> Branch<'a> {
    let reads = match ranked.plan.access {
        // A branch that reads nothing needs no scan.
        Access::Nothing => BranchReads::Nothing,
        access @ (Access::Records(_) | Access::Entries(_) | Access::Union(_) | Access::Merge(_)) => {
            BranchReads::One(access)
        }
    };
    Branch { reads, rank: ranked.rank }
}

/// Keeps the better one of two bounded scans of a branch. One branch without bounds reads everything, and then a union
/// saves nothing.
fn take_better<'a>(best: &mut Option<Branch<'a>>, branch: Option<Branch<'a>>) {
    let Some(branch) = branch.filter(|branch| branch.rank.is_bounded()) else { return };
    if best.as_ref().is_none_or(|best| branch.rank > best.rank) {
        *best = Some(branch);
    }
}

/// The scans of a branch. What the entries of merged scans answer is found once for all of them.
fn scans_of<'a>(reads: BranchReads<'a>, request: &Request<'a>, budget: &PlanningBudget<'a>) -> Vec<Access> {
    match reads {
        BranchReads::Nothing => Vec::new(),
        BranchReads::One(access) => vec![access],
        BranchReads::Several(draft) => draft.scans(request, &draft.answers(request, budget)),
    }
}

/// The rank of all branches together: that of the worst of them.
fn joined(branches: &[Branch<'_>]) -> Rank {
    let worst = branches.iter().map(|branch| branch.rank).min().unwrap_or(Rank::scan(0));
    // Several branches may reach the same document, so of two equal plans a single scan costs less.
    Rank { is_records: false, fields: Reverse(usize::MAX), ..worst }
}
