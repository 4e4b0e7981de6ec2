//! One scan: its access within bounds, its rank, and what its entries answer.

use std::cell::OnceCell;
use std::cmp::Reverse;

use index::interval::Intervals;
use index::key::Direction;

use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::planning_budget::PlanningBudget;
use crate::filter::residual::single_field;
use crate::planner::cover::{Answered, Question, answer};
use crate::planner::order::{Keys, SortedField, direction_for};
use crate::planner::plan::{Access, EntryScan, Plan, RecordScan};
use crate::planner::rank::{AtMost, Rank, Reads};
use crate::planner::request::Request;
use crate::planner::target::{ScanTarget, fields_of};
use crate::planner::wildcard;
use crate::sort::Sort;

/// A plan with its rank.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) plan: Plan,
    pub(super) rank: Rank,
}

/// The answers of the entries of a target: found once for all of its scans, because their bounds make no difference
/// to it.
pub(super) struct Answers<'a> {
    request: Request<'a>,
    target: ScanTarget<'a>,
    fields: Vec<IndexedField<'a>>,
    question: Question<'a>,
    found: OnceCell<Answered>,
    budget: &'a PlanningBudget<'a>,
}

impl<'a> Answers<'a> {
    /// The answers to a request whose documents are compared by `sort`.
    pub(super) fn of(
        request: &Request<'a>,
        target: ScanTarget<'a>,
        sort: Option<&'a Sort>,
        budget: &'a PlanningBudget<'a>,
    ) -> Self {
        let question = Question { filter: request.filter, needs: request.needs, sort };
        Self {
            request: *request,
            target,
            fields: fields_of(target),
            question,
            found: OnceCell::new(),
            budget,
        }
    }

    /// Adds to a scan of entries what it answers without their documents.
    pub(super) fn add_to(&self, mut ranked: Ranked) -> Ranked {
        // An entry of a wildcard index has one value of its document, and says nothing of the others.
        if let (Access::Entries(scan), None) = (&mut ranked.plan.access, self.target.path) {
            let Answered { answer, decides } = self.found();
            (scan.answer, scan.decides) = (answer.clone(), *decides);
            // Of documents that have yet to be sorted, any may be the first one.
            let one_of_each = self.request.one_of_each.filter(|_| self.question.sort.is_none());
            // Values that are equal in the keys of the index must be equal to the caller.
            let keys = self.target.spec.collation();
            let is_told = keys.is_simple() || self.request.collation == Some(keys);
            let distinct = one_of_each.filter(|_| is_told).and_then(|path| single_field(path, &self.fields));
            // Shortened keys may be equal where the values are not.
            let distinct = distinct.filter(|at| self.target.arrays_at(*at).has_exact_keys());
            scan.distinct = distinct.map(|at| at + 1);
            if let Some(answer) = scan.answer.as_ref().filter(|answer| answer.covers) {
                // After fields that are not fixed, equal values are not next to each other.
                let is_next = |fields: usize| scan.bounds.iter().take(fields - 1).all(Intervals::is_points);
                let skips = answer.residual.is_none() && scan.distinct.is_some_and(is_next);
                ranked.rank.reads = if skips { Reads::DistinctEntries } else { Reads::Entries };
            }
        }
        ranked
    }

    /// The reads of a scan that does not skip entries with equal values.
    pub(super) fn reads(&self) -> Reads {
        let covers = self.found().answer.as_ref().is_some_and(|answer| answer.covers);
        if covers { Reads::Entries } else { Reads::Documents }
    }

    fn found(&self) -> &Answered {
        self.found.get_or_init(|| answer(self.question, &self.fields, self.target.has_details, self.budget))
    }
}

/// The only scan, or several as `join` puts them together. Without any, no document can match.
pub(super) fn one_or(mut scans: Vec<Access>, join: impl FnOnce(Vec<Access>) -> Access) -> Access {
    match scans.pop() {
        None => Access::Nothing,
        Some(only) if scans.is_empty() => only,
        Some(last) => {
            scans.push(last);
            join(scans)
        }
    }
}

/// The scan of a target within bounds, with its rank.
pub(super) fn scan(request: &Request<'_>, target: ScanTarget<'_>, bounds: EntryBounds) -> Ranked {
    let sorted = request.sort.map(|sort| order_of(sort, target, &bounds.sets));
    let is_sorted = sorted.is_none_or(|direction| direction.is_some());
    let direction = sorted.flatten().unwrap_or(Direction::Ascending);
    let rank = rank_of(target, &bounds, sorted.flatten().is_some());
    // Reading nothing is better than every scan, and no documents are in any order.
    if bounds.is_empty() {
        let rank = Rank { documents: AtMost::None, ..rank };
        return Ranked { plan: Plan { access: Access::Nothing, is_sorted: true, is_rival: false }, rank };
    }
    let mut sets = bounds.sets;
    let access = match target.index {
        None => {
            let ids = sets.pop().unwrap_or_else(Intervals::all);
            Access::Records(RecordScan { ids, direction, is_given: false })
        }
        Some(index) => {
            // Two entries of one document differ only at a field with arrays, and only if its bounds leave
            // two values.
            let varies = |(at, set): (usize, &Intervals)| !target.arrays_at(at).is_empty() && !is_one(set);
            let has_duplicates = sets.iter().enumerate().any(varies);
            let bounds = match target.path {
                Some(path) => wildcard::bounds_at(path, sets),
                None => sets,
            };
            Access::Entries(EntryScan {
                index,
                bounds,
                direction,
                is_given: false,
                has_duplicates,
                answer: None,
                decides: false,
                distinct: None,
            })
        }
    };
    Ranked { plan: Plan { access, is_sorted, is_rival: false }, rank }
}

/// The direction in which a scan within `sets` has the order of a sort. Returns `None` if neither direction
/// has it.
pub(super) fn order_of(sort: &Sort, target: ScanTarget<'_>, sets: &[Intervals]) -> Option<Direction> {
    let fields = target.fields().zip(sets).enumerate();
    let fields: Vec<_> = fields
        .map(|(at, (field, set))| SortedField {
            path: field.path,
            direction: field.direction,
            has_one_value: is_one(set),
            has_exact_keys: target.arrays_at(at).has_exact_keys(),
        })
        .collect();
    direction_for(
        sort,
        &fields,
        Keys {
            is_unique: target.spec.is_unique(),
            collation: target.spec.collation(),
            has_shortened_ids: target.has_shortened_ids,
        },
    )
}

/// Whether all values in a set are equal.
pub(super) fn is_one(set: &Intervals) -> bool {
    set.as_slice().len() == 1 && set.is_points()
}

/// The rank of a scan of a target within bounds.
pub(super) fn rank_of(target: ScanTarget<'_>, bounds: &EntryBounds, is_sorted: bool) -> Rank {
    let whole = Rank {
        is_sorted,
        is_records: target.index.is_none(),
        position: Reverse(target.index.unwrap_or(0)),
        ..Rank::scan(target.spec.fields().len())
    };
    if target.spec.is_unique() && bounds.sets.iter().all(is_one) {
        // All plans for one document are equally good, and one document is in any order.
        return Rank { documents: AtMost::One, equalities: usize::MAX, is_sorted: true, ..whole };
    }
    let equalities = bounds.sets.iter().take_while(|set| set.is_points()).count();
    let next_is_bounded = bounds.sets.get(equalities).is_some_and(|set| !set.is_all());
    // A sparse or partial index leaves out documents, which is as good as a bound if nothing else bounds the scan.
    let is_smaller = target.members.leaves_out() && equalities == 0;
    Rank { equalities, has_range: next_is_bounded || is_smaller, ..whole }
}
