//! Chooses which keys to read for a filter and a sort, from the indexes of a collection.
//!
//! Documents are clustered by `_id`, so the records are one more index. Of several it chooses, in this order: a unique index
//! with one value for every field, so one document at most; the one with the most leading fields that have values, by
//! equality or `$in`; one in the order of the sort; one whose next field is bounded; one whose entries answer without the
//! documents; all records. It knows no numbers of documents: where these rules are a guess, it marks the plans as rivals,
//! and the caller counts their keys.
//!
//! The invariants: a plan reaches every document that matches, and may reach others, because the filter is applied to each
//! one afterwards, unless a scan says that its entries decide. If a plan is sorted, it reaches each document for the first time
//! in the order of the sort.
//! A range of keys leaves out the documents without a key in it.

mod cover;
mod entry_range;
mod equality;
mod membership;
mod merge;
mod merge_draft;
mod order;
mod plan;
mod rank;
mod request;
mod scan;
mod target;
#[cfg(test)]
mod tests;
mod union;
mod wildcard;

use std::cmp::Reverse;

use index::interval::Intervals;
use index::key::Direction;
use index::path::FieldPath;

use crate::filter::entries::EntryBounds;
use crate::filter::planning_budget::PlanningBudget;
use crate::operation::OperationContext;
pub use crate::planner::cover::{EntryAnswer, Needs};
pub use crate::planner::entry_range::EntryRange;
use crate::planner::equality::{Equality, by_equality, of_one_path};
pub use crate::planner::merge::MergeOrder;
use crate::planner::merge_draft::MergeDraft;
pub use crate::planner::plan::{Access, EntryScan, Merge, Plan, RecordScan, Union};
use crate::planner::rank::{AtMost, Rank};
pub use crate::planner::request::{Hint, IndexView, Request};
use crate::planner::scan::{Answers, Ranked, one_or, order_of, scan};
use crate::planner::target::{RECORDS, ScanTarget, bounds_of, unbounded};
use crate::planner::union::unions;

/// The number of `$or`s of a filter for which a union of scans is considered.
const ALTERNATIVES_MAX: usize = 8;

/// The plans for a request, the best one first. There is always at least one.
///
/// Planning is a part of `operation`: it needs steps and memory of it, in proportion to the filter. Where the rules would need
/// more, fewer plans are considered, and in the end only the scan of all documents. An operation that is to end rejects the
/// caller's next step.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::operation::OperationContext;
/// use cairndb_query::planner::{Access, IndexView, Request, plans};
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1 }, SpecOptions::default())?;
/// let filter = Filter::parse(&rawdoc! { "city": "Oslo" })?;
/// let indexes = [IndexView::new(&spec, &[])];
/// let request = Request { filter: Some(&filter), indexes: &indexes, ..Request::default() };
/// let found = plans(&request, &OperationContext::default());
/// assert!(matches!(&found[0].access, Access::Entries(scan) if scan.index == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plans(request: &Request<'_>, operation: &OperationContext) -> Vec<Plan> {
    let budget = match request.filter {
        Some(filter) => filter.planning_budget(operation),
        None => PlanningBudget::without_filter(operation),
    };
    plans_within(request, &budget)
}

fn plans_within(request: &Request<'_>, budget: &PlanningBudget<'_>) -> Vec<Plan> {
    if let Some((target, range)) = hinted(request).zip(request.range) {
        return vec![ranged(request, target, range, budget)];
    }
    if let Some(Hint::Records(direction)) = request.hint {
        return vec![records(request, direction, budget).plan];
    }
    if let Some(equality) = by_equality(request) {
        return vec![equal(request, equality)];
    }
    let of_one_path =
        of_one_path(request).and_then(|(at, view)| entries(request, ScanTarget::of(view, at), budget));
    match of_one_path {
        Some(ranked) => vec![ranked.plan],
        None => by_rules(request, budget),
    }
}

/// The plans that the rules of the module find.
fn by_rules(request: &Request<'_>, budget: &PlanningBudget<'_>) -> Vec<Plan> {
    let all = records(request, Direction::Ascending, budget);
    if let Some(one) = one_document(request, &all, budget) {
        return vec![one];
    }
    let mut ranked = considered(request, all, budget);
    ranked.sort_by_key(|ranked| Reverse(ranked.rank));
    mark_rivals(request, &mut ranked, budget);
    // If the best plan reads nothing, the others are useless: no document can match.
    let count = if ranked.first().is_some_and(|first| first.rank.documents == AtMost::None) {
        1
    } else {
        ranked.len()
    };
    ranked.into_iter().take(count).map(|ranked| ranked.plan).collect()
}

/// All plans that the rules compare. `all` is that of the records.
fn considered(request: &Request<'_>, all: Ranked, budget: &PlanningBudget<'_>) -> Vec<Ranked> {
    let paths = wildcard_paths(request);
    let mut ranked: Vec<Ranked> = targets(request, &paths)
        .filter(|target| request.hint.is_none_or(|hint| target.index.map(Hint::Index) == Some(hint)))
        .filter_map(|target| entries(request, target, budget))
        .collect();
    if ranked.is_empty() && budget.is_over() {
        // Bounds would cost too much, and the hint is followed without them.
        let whole = hinted(request).filter(ScanTarget::has_every_document);
        ranked.extend(whole.map(|target| scan(request, target, unbounded(target))));
    }
    // An index without some of the matches cannot be used even for a hint. Then all records are read
    // instead.
    if request.hint.is_none() || ranked.is_empty() {
        // A hint names one index, so it excludes a union of several.
        let filter = request.filter.filter(|_| request.hint.is_none());
        let alternatives = filter.map(|filter| filter.alternatives(ALTERNATIVES_MAX)).unwrap_or_default();
        let targets: Vec<ScanTarget<'_>> = targets(request, &paths).collect();
        let unions =
            alternatives.iter().flat_map(|alternatives| unions(request, &targets, alternatives, budget));
        ranked.extend(unions.collect::<Vec<_>>());
        ranked.push(all);
    }
    ranked
}

/// The best plan that reaches one document at most, without a look at other plans: point queries are short, and planning
/// them is a good part of their time. Returns `None` if there is none.
fn one_document(request: &Request<'_>, all: &Ranked, budget: &PlanningBudget<'_>) -> Option<Plan> {
    let filter = request.filter.filter(|_| request.hint.is_none())?;
    let reaches_one = |ranked: &Ranked| ranked.rank.documents == AtMost::One;
    if reaches_one(all) {
        return Some(all.plan.clone());
    }
    let unique = request.indexes.iter().enumerate().filter(|(_, view)| view.spec.is_unique());
    let asked = unique
        .filter(|(_, view)| view.spec.fields().iter().all(|field| filter.asks_for(&field.path, budget)));
    let scans = asked.filter_map(|(position, view)| entries(request, ScanTarget::of(view, position), budget));
    scans.filter(reaches_one).max_by_key(|ranked| ranked.rank).map(|ranked| ranked.plan)
}

/// The plan for an equality of one field, of which no other plan need be looked at.
fn equal(request: &Request<'_>, equality: Equality<'_>) -> Plan {
    let Equality { index, view, bounds, decides } = equality;
    let mut plan = scan(request, ScanTarget::of(view, index), bounds).plan;
    if let Access::Entries(scan) = &mut plan.access {
        scan.decides = decides;
    }
    plan
}

/// The target that the hint of a request names.
fn hinted<'a>(request: &Request<'a>) -> Option<ScanTarget<'a>> {
    match request.hint? {
        Hint::Records(_) => RECORDS.as_ref().map(|spec| ScanTarget::records(spec, request.has_shortened_ids)),
        Hint::Index(at) => request.indexes.get(at).map(|view| ScanTarget::of(view, at)),
    }
}

/// The scans of a range of a target, one after the other. The caller wants the documents of these entries, so it makes no
/// difference whether the target has entries of all matches.
fn ranged(
    request: &Request<'_>,
    target: ScanTarget<'_>,
    range: &EntryRange,
    budget: &PlanningBudget<'_>,
) -> Plan {
    let directions: Vec<Direction> = target.fields().map(|field| field.direction).collect();
    // If documents have arrays, the filter may be met by an entry outside of the range.
    let bounds = bounds_of(request.filter, target, budget).unwrap_or_else(|| unbounded(target));
    let filtered = bounds.sets.into_iter().enumerate();
    let is_whole = |at: usize| target.arrays_at(at).is_empty();
    let filtered = filtered.map(|(at, set)| if is_whole(at) { set } else { Intervals::all() });
    let filtered: Vec<Intervals> = filtered.collect();
    let narrowed = |piece: Vec<Intervals>| {
        piece.iter().zip(&filtered).map(|(set, filtered)| set.intersection(filtered)).collect()
    };
    let mut pieces: Vec<Vec<Intervals>> = range.pieces(&directions).into_iter().map(narrowed).collect();
    pieces.retain(|piece| !piece.iter().any(Intervals::is_empty));
    // The pieces follow each other as in one scan of the index, so they have an order if that scan would have it: one within
    // all of their values.
    let all = pieces
        .iter()
        .cloned()
        .reduce(|all, piece| all.into_iter().zip(piece).map(|(all, set)| all.union(set)).collect());
    let Some(all) = all else {
        return Plan { access: Access::Nothing, is_sorted: true, is_rival: false };
    };
    let sorted = request.sort.map(|sort| order_of(sort, target, &all));
    let is_sorted = sorted.is_none_or(|direction| direction.is_some());
    let direction = sorted.flatten().unwrap_or(Direction::Ascending);
    if direction == Direction::Descending {
        pieces.reverse();
    }
    let unsorted = Request { sort: None, ..*request };
    let sort = request.sort.filter(|_| !is_sorted);
    let answers = Answers::of(request, target, sort, budget);
    let scan_of = |sets: Vec<Intervals>| {
        let scanned = scan(&unsorted, target, EntryBounds { sets, has_value: false });
        let mut access = answers.add_to(scanned).plan.access;
        match &mut access {
            Access::Records(scan) => (scan.direction, scan.is_given) = (direction, true),
            Access::Entries(scan) => (scan.direction, scan.is_given) = (direction, true),
            Access::Nothing | Access::Union(_) | Access::Merge(_) => {}
        }
        access
    };
    let scans = pieces.into_iter().map(scan_of).collect();
    let has_duplicates = (0..directions.len()).any(|at| !is_whole(at));
    let access = one_or(scans, |scans| Access::Union(Union { scans, has_duplicates }));
    Plan { access, is_sorted, is_rival: false }
}

/// Marks the first plan and those that may read less than it does, if there are any.
fn mark_rivals(request: &Request<'_>, ranked: &mut [Ranked], budget: &PlanningBudget<'_>) {
    let Some((best, others)) = ranked.split_first_mut() else { return };
    let mut seen = vec![leading_bounds(request, &best.plan.access)];
    for other in others.iter_mut().filter(|other| other.rank.is_rival_of(&best.rank, request.reads_all)) {
        // An index that begins with the same bounded fields and perhaps more has no more keys.
        let bounds = leading_bounds(request, &other.plan.access);
        let begins_with = |seen: &LeadingBounds<'_>, own: &LeadingBounds<'_>| {
            // Lists that are shared are not compared. One that would cost too much is mistaken for equal.
            let compared = own.iter().zip(seen).filter(|((_, own), (_, seen))| !own.shares_list(seen));
            let steps = compared.map(|((_, own), _)| own.as_slice().len()).sum::<usize>();
            !budget.takes(steps) || seen.starts_with(own)
        };
        let has_more_keys =
            bounds.as_ref().is_some_and(|own| seen.iter().flatten().any(|seen| begins_with(seen, own)));
        other.plan.is_rival = !has_more_keys;
        seen.push(bounds);
    }
    best.plan.is_rival = others.iter().any(|other| other.plan.is_rival);
}

/// The bounded fields at the beginning of an index, with their bounds.
type LeadingBounds<'a> = Vec<(&'a str, &'a Intervals)>;

/// The bounded fields at the beginning of the index that a plan reads. Returns `None` for a plan whose keys these do not
/// determine: it is not a single scan, or its index leaves out documents.
fn leading_bounds<'a>(request: &Request<'a>, access: &'a Access) -> Option<LeadingBounds<'a>> {
    let Access::Entries(scan) = access else { return None };
    let view = request.indexes.get(scan.index)?;
    if view.spec.is_sparse() || view.partial.is_some() || view.spec.wildcard().is_some() {
        return None;
    }
    let fields = view.spec.fields().iter().map(|field| field.path.as_str());
    Some(fields.zip(&scan.bounds).take_while(|(_, set)| !set.is_all()).collect())
}

/// The scan of the records that can match. `direction` counts only without a sort.
fn records(request: &Request<'_>, direction: Direction, budget: &PlanningBudget<'_>) -> Ranked {
    let target = RECORDS.as_ref().map(|spec| ScanTarget::records(spec, request.has_shortened_ids));
    let bounded = target.and_then(|target| Some((target, bounds_of(request.filter, target, budget)?)));
    let Some((target, bounds)) = bounded else {
        // Bounds would cost too much. (`RECORDS` is a fixed specification that parses.)
        let access = Access::Records(RecordScan { ids: Intervals::all(), direction, is_given: false });
        return Ranked {
            plan: Plan { access, is_sorted: request.sort.is_none(), is_rival: false },
            rank: Rank::scan(0),
        };
    };
    let mut ranked = scan(request, target, bounds);
    if let (Access::Records(scan), None) = (&mut ranked.plan.access, request.sort) {
        scan.direction = direction;
    }
    ranked
}

/// The paths that wildcard indexes may be read at. Without such an index there is no need to look for them.
fn wildcard_paths(request: &Request<'_>) -> Vec<FieldPath> {
    let has_wildcard = request.indexes.iter().any(|view| view.spec.wildcard().is_some());
    if has_wildcard { wildcard::paths(request.filter) } else { Vec::new() }
}

/// The scans that are possible over all indexes: a wildcard index once for each of the paths that it has.
fn targets<'a>(request: &Request<'a>, paths: &'a [FieldPath]) -> impl Iterator<Item = ScanTarget<'a>> {
    request.indexes.iter().enumerate().flat_map(move |(position, view)| {
        let target = ScanTarget::of(view, position);
        let whole = view.spec.wildcard().is_none().then_some(target);
        let has = move |path: &&FieldPath| view.spec.wildcard().is_some_and(|wildcard| wildcard.has(path));
        whole.into_iter().chain(paths.iter().filter(has).map(move |path| target.at_path(path)))
    })
}

/// The scan of an index. Returns `None` if the index lacks some matches, is no better than all records, or to plan it would cost
/// too much.
fn entries(request: &Request<'_>, target: ScanTarget<'_>, budget: &PlanningBudget<'_>) -> Option<Ranked> {
    let bounds = bounds_of(request.filter, target, budget)?;
    let has_path = target.path.is_none() || wildcard::has_every_match(&bounds);
    if !has_path || !target.members.has_every_match(request.filter, &bounds, budget) {
        return None;
    }
    let ranked = if let Some(draft) = MergeDraft::of(request, target, &bounds, budget) {
        let answers = draft.answers(request, budget);
        draft.plan(request, &answers)
    } else {
        let ranked = scan(request, target, bounds);
        // Only what comes in another order is sorted, by fields that its documents must have.
        let sort = request.sort.filter(|_| !ranked.plan.is_sorted);
        Answers::of(request, target, sort, budget).add_to(ranked)
    };
    // A hint requires the index even if all its entries are read.
    let is_useful = ranked.rank.is_useful() || request.hint.is_some();
    is_useful.then_some(ranked)
}
