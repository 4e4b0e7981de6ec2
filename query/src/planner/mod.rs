//! Chooses which keys to read for a filter and a sort, from the indexes of a collection.
//!
//! Documents are clustered by `_id`, so the records are one more index. Of several it takes, in this order: a unique index
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
mod order;
mod plan;
mod rank;
mod request;
mod wildcard;

use std::cmp::Reverse;
use std::sync::LazyLock;

use bson::rawdoc;
use index::interval::Intervals;
use index::key::Direction;
use index::multikey::ArrayComponents;
use index::path::FieldPath;
use index::spec::{IndexSpec, SpecOptions, Uniqueness};

use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::residual::single_field;
use crate::filter::{Alternatives, Filter};
use crate::planner::cover::{Answered, Question, answer};
pub use crate::planner::cover::{EntryAnswer, Needs};
pub use crate::planner::entry_range::EntryRange;
use crate::planner::equality::{Equality, by_equality};
use crate::planner::membership::{Membership, PartialView};
pub use crate::planner::merge::MergeOrder;
use crate::planner::merge::{SCANS_MAX, exploded};
use crate::planner::order::{Keys, SortedField, direction_for};
pub use crate::planner::plan::{Access, EntryScan, Merge, Plan, RecordScan, Union};
use crate::planner::rank::{AtMost, Rank, Reads};
pub use crate::planner::request::{Hint, IndexView, Request};
use crate::sort::Sort;

/// The number of `$or`s of a filter for which a union of scans is considered.
const ALTERNATIVES_MAX: usize = 8;

/// The largest number of branches of an `$or` for which a union of scans is considered.
const BRANCHES_MAX: usize = 1_000;

/// The records as an index: unique, on `_id`, without arrays.
static RECORDS: LazyLock<Option<IndexSpec>> = LazyLock::new(|| {
    let options = SpecOptions { uniqueness: Uniqueness::Unique, ..SpecOptions::default() };
    IndexSpec::parse(&rawdoc! { "_id": 1 }, options).ok()
});

/// A plan with its rank.
#[derive(Clone, Debug)]
struct Ranked {
    plan: Plan,
    rank: Rank,
}

/// What a scan reads: the records, or an index of the request.
#[derive(Clone, Copy, Debug)]
struct ScanTarget<'a> {
    spec: &'a IndexSpec,
    arrays: &'a [ArrayComponents],
    has_details: bool,
    /// The position of the index in the request, or `None` for the records.
    index: Option<usize>,
    /// Which documents it has.
    members: Membership<'a>,
    /// The path of a wildcard index that is read. It is then planned as an index on this path.
    path: Option<&'a FieldPath>,
}

/// A field of a target.
#[derive(Clone, Copy, Debug)]
struct TargetField<'a> {
    path: &'a FieldPath,
    direction: Direction,
}

/// The plans for a request, the best one first. There is always at least one.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::planner::{Access, IndexView, Request, plans};
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1 }, SpecOptions::default())?;
/// let filter = Filter::parse(&rawdoc! { "city": "Oslo" })?;
/// let indexes = [IndexView::new(&spec, &[])];
/// let found = plans(&Request { filter: Some(&filter), indexes: &indexes, ..Request::default() });
/// assert!(matches!(&found[0].access, Access::Entries(scan) if scan.index == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plans(request: &Request<'_>) -> Vec<Plan> {
    if let Some((target, range)) = hinted(request).zip(request.range) {
        return vec![ranged(request, target, range)];
    }
    if let Some(Hint::Records(direction)) = request.hint {
        return vec![records(request, direction).plan];
    }
    if let Some(equality) = by_equality(request) {
        return vec![equal(request, equality)];
    }
    let all = records(request, Direction::Ascending);
    if let Some(one) = one_document(request, &all) {
        return vec![one];
    }
    let paths = wildcard_paths(request);
    let mut ranked: Vec<Ranked> = targets(request, &paths)
        .filter(|target| request.hint.is_none_or(|hint| target.index.map(Hint::Index) == Some(hint)))
        .filter_map(|target| entries(request, target))
        .collect();
    // An index without some of the matches cannot be used even for a hint. Then all records are read
    // instead.
    if request.hint.is_none() || ranked.is_empty() {
        // A hint names one index, so it excludes a union of several.
        let filter = request.filter.filter(|_| request.hint.is_none());
        let alternatives = filter.map(|filter| filter.alternatives(ALTERNATIVES_MAX)).unwrap_or_default();
        let targets: Vec<ScanTarget<'_>> = targets(request, &paths).collect();
        let unions = alternatives.iter().flat_map(|alternatives| unions(request, &targets, alternatives));
        ranked.extend(unions.collect::<Vec<_>>());
        ranked.push(all);
    }
    ranked.sort_by_key(|ranked| Reverse(ranked.rank));
    mark_rivals(request, &mut ranked);
    // If the best plan reads nothing, the others are useless: no document can match.
    let count = if ranked.first().is_some_and(|first| first.rank.documents == AtMost::None) {
        1
    } else {
        ranked.len()
    };
    ranked.into_iter().take(count).map(|ranked| ranked.plan).collect()
}

/// The best plan that reaches one document at most, without a look at other plans: point queries are short, and planning
/// them takes a good part of their time. Returns `None` if there is none.
fn one_document(request: &Request<'_>, all: &Ranked) -> Option<Plan> {
    let filter = request.filter.filter(|_| request.hint.is_none())?;
    let reaches_one = |ranked: &Ranked| ranked.rank.documents == AtMost::One;
    if reaches_one(all) {
        return Some(all.plan.clone());
    }
    let unique = request.indexes.iter().enumerate().filter(|(_, view)| view.spec.is_unique());
    let asked =
        unique.filter(|(_, view)| view.spec.fields().iter().all(|field| filter.asks_for(&field.path)));
    let scans = asked.filter_map(|(position, view)| entries(request, ScanTarget::of(view, position)));
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

/// What the hint of a request names.
fn hinted<'a>(request: &Request<'a>) -> Option<ScanTarget<'a>> {
    match request.hint? {
        Hint::Records(_) => RECORDS.as_ref().map(ScanTarget::records),
        Hint::Index(at) => request.indexes.get(at).map(|view| ScanTarget::of(view, at)),
    }
}

/// The scans of a range of a target, one after the other. The caller wants the documents of these entries, so it makes no
/// difference whether the target has entries of all matches.
fn ranged(request: &Request<'_>, target: ScanTarget<'_>, range: &EntryRange) -> Plan {
    let directions: Vec<Direction> = target.fields().map(|field| field.direction).collect();
    // Where documents have arrays, the filter may be met by an entry outside of the range.
    let filtered = bounds_of(request.filter, target).sets.into_iter().enumerate();
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
    let scan_of = |sets: Vec<Intervals>| {
        let scanned = scan(&unsorted, target, EntryBounds { sets, has_value: false });
        let mut access = answered(request, target, scanned, sort).plan.access;
        match &mut access {
            Access::Records(scan) => scan.direction = direction,
            Access::Entries(scan) => scan.direction = direction,
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
fn mark_rivals(request: &Request<'_>, ranked: &mut [Ranked]) {
    let Some((best, others)) = ranked.split_first_mut() else { return };
    let mut seen = vec![leading_bounds(request, &best.plan.access)];
    for other in others.iter_mut().filter(|other| other.rank.is_rival_of(&best.rank, request.reads_all)) {
        // An index that begins with the same bounded fields and perhaps more has no more keys.
        let bounds = leading_bounds(request, &other.plan.access);
        let has_more_keys =
            bounds.as_ref().is_some_and(|own| seen.iter().flatten().any(|seen| seen.starts_with(own)));
        other.plan.is_rival = !has_more_keys;
        seen.push(bounds);
    }
    best.plan.is_rival = others.iter().any(|other| other.plan.is_rival);
}

/// The bounded fields at the beginning of an index, with their bounds. Returns `None` for a plan whose keys these do not
/// tell: it is no single scan, or its index leaves out documents.
fn leading_bounds<'a>(request: &Request<'a>, access: &'a Access) -> Option<Vec<(&'a str, &'a Intervals)>> {
    let Access::Entries(scan) = access else { return None };
    let view = request.indexes.get(scan.index)?;
    if view.spec.is_sparse() || view.partial.is_some() || view.spec.wildcard().is_some() {
        return None;
    }
    let fields = view.spec.fields().iter().map(|field| field.path.as_str());
    Some(fields.zip(&scan.bounds).take_while(|(_, set)| !set.is_all()).collect())
}

/// The scan of the records that can match. `direction` counts only if there is no sort.
fn records(request: &Request<'_>, direction: Direction) -> Ranked {
    let Some(spec) = RECORDS.as_ref() else {
        // Unreachable: `RECORDS` is a fixed specification that parses. A scan of everything is right in any
        // case.
        let access = Access::Records(RecordScan { ids: Intervals::all(), direction });
        return Ranked {
            plan: Plan { access, is_sorted: request.sort.is_none(), is_rival: false },
            rank: Rank::scan(0),
        };
    };
    let target = ScanTarget::records(spec);
    let bounds = bounds_of(request.filter, target);
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

/// What may be read of all indexes: a wildcard index once for each of the paths that it has.
fn targets<'a>(request: &Request<'a>, paths: &'a [FieldPath]) -> impl Iterator<Item = ScanTarget<'a>> {
    request.indexes.iter().enumerate().flat_map(move |(position, view)| {
        let target = ScanTarget::of(view, position);
        let whole = view.spec.wildcard().is_none().then_some(target);
        let has = move |path: &&FieldPath| view.spec.wildcard().is_some_and(|wildcard| wildcard.has(path));
        whole.into_iter().chain(paths.iter().filter(has).map(move |path| target.at_path(path)))
    })
}

/// The scan of an index. Returns `None` if the index lacks some matches, or is no better than all records.
fn entries(request: &Request<'_>, target: ScanTarget<'_>) -> Option<Ranked> {
    let bounds = bounds_of(request.filter, target);
    let has_path = target.path.is_none() || wildcard::has_every_match(&bounds);
    if !has_path || !target.members.has_every_match(request.filter, &bounds) {
        return None;
    }
    let ranked = if let Some(merged) = merged(request, target, &bounds) {
        merged
    } else {
        let ranked = scan(request, target, bounds);
        // Only what comes in another order is sorted, by fields that its documents must have.
        let sort = request.sort.filter(|_| !ranked.plan.is_sorted);
        answered(request, target, ranked, sort)
    };
    // A hint requires the index even if all its entries are read.
    let is_useful = ranked.rank.is_useful() || request.hint.is_some();
    is_useful.then_some(ranked)
}

/// Adds to a scan of entries what it answers without their documents, which are compared by `sort`.
fn answered(
    request: &Request<'_>,
    target: ScanTarget<'_>,
    mut ranked: Ranked,
    sort: Option<&Sort>,
) -> Ranked {
    let question = Question { filter: request.filter, needs: request.needs, sort };
    // An entry of a wildcard index has one value of its document, and says nothing of the others.
    if let (Access::Entries(scan), None) = (&mut ranked.plan.access, target.path) {
        let fields = fields_of(target);
        let answered = answer(question, &fields, target.has_details);
        Answered { answer: scan.answer, decides: scan.decides } = answered;
        // Of documents that have yet to be sorted, any may be the first one.
        let one_of_each = request.one_of_each.filter(|_| sort.is_none());
        // Values that are equal in the keys of the index must be equal to the caller.
        let keys = target.spec.collation();
        let is_told = keys.is_simple() || request.collation == Some(keys);
        let distinct = one_of_each.filter(|_| is_told).and_then(|path| single_field(path, &fields));
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

/// Scans of an index that are merged in the order of the sort, one for each combination of values of its first fields.
/// Returns `None` if one scan has that order, or if no such scans have it.
fn merged(request: &Request<'_>, target: ScanTarget<'_>, bounds: &EntryBounds) -> Option<Ranked> {
    let sort = request.sort?;
    // One path of a wildcard index has no second field that could be in order.
    target.index.filter(|_| {
        target.path.is_none() && !bounds.is_empty() && order_of(sort, target, &bounds.sets).is_none()
    })?;
    let leading = bounds.sets.iter().take_while(|set| set.is_points()).count();
    // The fewest fields that give the order also give the fewest scans.
    let (skipped, combinations, direction) = (1..=leading).find_map(|fields| {
        let combinations = exploded(&bounds.sets, fields)?;
        // All combinations have as many values, so the order of one is that of all.
        let direction = order_of(sort, target, combinations.first()?)?;
        Some((fields, combinations, direction))
    })?;
    let scan_of = |sets: Vec<Intervals>| {
        let bounds = EntryBounds { sets, has_value: bounds.has_value };
        // The next documents of merged scans may be compared by the sort, so they must have all of its fields.
        answered(request, target, scan(request, target, bounds), Some(sort))
    };
    let parts: Vec<Ranked> = combinations.into_iter().map(scan_of).collect();
    let reads = parts.iter().map(|part| part.rank.reads).min().unwrap_or(Reads::Documents);
    let split = || target.spec.fields().iter().take(skipped);
    // Two scans differ in the fields that were taken apart, so the rest of a key is no order by these.
    let orders_split = sort.fields().any(|(path, _)| split().any(|field| field.path == *path));
    // A scan of a unique index may be in order because it has one document. Then its keys need not have the fields of the
    // sort, nor do they end with the `_id`.
    let order = if orders_split || target.spec.is_unique() {
        MergeOrder::Sort(sort.clone())
    } else {
        MergeOrder::Keys { skipped, direction }
    };
    let has_arrays = (0..target.spec.fields().len()).any(|field| !target.arrays_at(field).is_empty());
    let scans = parts.into_iter().map(|part| part.plan.access).collect();
    let access = Access::Merge(Merge { scans, order, has_duplicates: has_arrays });
    let rank = Rank { reads, ..rank_of(target, bounds, true) };
    Some(Ranked { plan: Plan { access, is_sorted: true, is_rival: false }, rank })
}

/// The best bounded scan of each branch of an `$or`. Of several scans that are merged for one branch all are in `reads`.
#[derive(Clone)]
struct Branch {
    reads: Vec<Access>,
    rank: Rank,
}

/// Unions of the best bounded scans for each branch of an `$or`: one after the other, and merged in the order of the sort
/// if each has it. None if a branch has no bounded scan.
fn unions(request: &Request<'_>, targets: &[ScanTarget<'_>], alternatives: &Alternatives<'_>) -> Vec<Ranked> {
    let count = alternatives.count();
    if count > BRANCHES_MAX {
        return Vec::new();
    }
    // Scans one after the other have no common order, so none of them is chosen for its order.
    let unsorted = Request { sort: None, needs: Needs::Documents, ..*request };
    let sorted = Request { needs: Needs::Documents, ..*request };
    let mut best: Vec<Option<Branch>> = vec![None; count];
    let mut best_sorted: Vec<Option<Branch>> = vec![None; count];
    let records = RECORDS.as_ref().map(ScanTarget::records);
    for target in records.into_iter().chain(targets.iter().copied()) {
        let bounds = alternatives.entry_bounds(&fields_of(target));
        let are_complete = target.members.branches_with_every_match(alternatives, &bounds);
        for (at, (bounds, is_complete)) in bounds.into_iter().zip(are_complete).enumerate() {
            if !is_complete || (target.path.is_some() && !wildcard::has_every_match(&bounds)) {
                continue;
            }
            if request.sort.is_some()
                && let Some(best) = best_sorted.get_mut(at)
            {
                let merged = merged(&sorted, target, &bounds);
                let ranked = merged.unwrap_or_else(|| scan(&sorted, target, bounds.clone()));
                take_better(best, ranked, |plan| plan.is_sorted);
            }
            if let Some(best) = best.get_mut(at) {
                take_better(best, scan(&unsorted, target, bounds), |_| true);
            }
        }
    }
    let one_after_the_other = best.into_iter().collect::<Option<Vec<_>>>().map(|branches| {
        let (scans, rank) = joined(branches);
        let access = one_or(scans, |scans| Access::Union(Union { scans, has_duplicates: true }));
        Ranked { plan: Plan { access, is_sorted: request.sort.is_none(), is_rival: false }, rank }
    });
    let side_by_side = request.sort.zip(best_sorted.into_iter().collect::<Option<Vec<_>>>());
    let side_by_side = side_by_side.and_then(|(sort, branches)| {
        let (scans, rank) = joined(branches);
        let order = MergeOrder::Sort(sort.clone());
        let is_few = scans.len() <= SCANS_MAX;
        let access = one_or(scans, |scans| Access::Merge(Merge { scans, order, has_duplicates: true }));
        let rank = Rank { is_sorted: true, ..rank };
        is_few.then_some(Ranked { plan: Plan { access, is_sorted: true, is_rival: false }, rank })
    });
    one_after_the_other.into_iter().chain(side_by_side).collect()
}

/// Keeps the better one of two bounded scans of a branch. One branch without bounds reads everything, and then a union
/// saves nothing.
fn take_better(best: &mut Option<Branch>, ranked: Ranked, is_allowed: impl Fn(&Plan) -> bool) {
    let is_better = best.as_ref().is_none_or(|best| ranked.rank > best.rank);
    if !ranked.rank.is_bounded() || !is_better || !is_allowed(&ranked.plan) {
        return;
    }
    let reads = match ranked.plan.access {
        // A branch that reads nothing needs no scan.
        Access::Nothing => Vec::new(),
        Access::Merge(merge) => merge.scans,
        access @ (Access::Records(_) | Access::Entries(_) | Access::Union(_)) => vec![access],
    };
    *best = Some(Branch { reads, rank: ranked.rank });
}

/// The scans of all branches, and how good they are together: as good as the worst of them.
fn joined(branches: Vec<Branch>) -> (Vec<Access>, Rank) {
    let worst = branches.iter().map(|branch| branch.rank).min().unwrap_or(Rank::scan(0));
    // Several branches may reach the same document, so of two equal plans a single scan costs less.
    let rank = Rank { is_records: false, fields: Reverse(usize::MAX), ..worst };
    (branches.into_iter().flat_map(|branch| branch.reads).collect(), rank)
}

/// The only scan, or several as `join` puts them together. Without any, no document can match.
fn one_or(mut scans: Vec<Access>, join: impl FnOnce(Vec<Access>) -> Access) -> Access {
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
fn scan(request: &Request<'_>, target: ScanTarget<'_>, bounds: EntryBounds) -> Ranked {
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
        None => Access::Records(RecordScan { ids: sets.pop().unwrap_or_else(Intervals::all), direction }),
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
                has_duplicates,
                answer: None,
                decides: false,
                distinct: None,
            })
        }
    };
    Ranked { plan: Plan { access, is_sorted, is_rival: false }, rank }
}

/// The bounds that a filter gives for a target.
fn bounds_of(filter: Option<&Filter>, target: ScanTarget<'_>) -> EntryBounds {
    match filter {
        Some(filter) => filter.entry_bounds(&fields_of(target)),
        None => EntryBounds { sets: vec![Intervals::all(); target.fields().count()], has_value: false },
    }
}

/// The fields of a target as a filter needs them.
fn fields_of(target: ScanTarget<'_>) -> Vec<IndexedField<'_>> {
    let (fields, collation) = (target.fields().enumerate(), target.spec.collation());
    fields
        .map(|(at, field)| IndexedField { path: field.path, arrays: target.arrays_at(at), collation })
        .collect()
}

/// The direction in which a scan within `sets` has the order of a sort. Returns `None` if neither direction
/// has it.
fn order_of(sort: &Sort, target: ScanTarget<'_>, sets: &[Intervals]) -> Option<Direction> {
    let fields = target.fields().zip(sets).enumerate();
    let fields: Vec<_> = fields
        .map(|(at, (field, set))| SortedField {
            path: field.path,
            direction: field.direction,
            has_one_value: is_one(set),
            has_arrays: !target.arrays_at(at).is_empty(),
        })
        .collect();
    direction_for(
        sort,
        &fields,
        Keys { is_unique: target.spec.is_unique(), collation: target.spec.collation() },
    )
}

/// Whether all values in a set are equal.
fn is_one(set: &Intervals) -> bool {
    set.as_slice().len() == 1 && set.is_points()
}

impl<'a> ScanTarget<'a> {
    fn records(spec: &'a IndexSpec) -> Self {
        Self {
            spec,
            arrays: &[],
            has_details: false,
            index: None,
            members: Membership::default(),
            path: None,
        }
    }

    /// The index at a position of the request.
    fn of(view: &IndexView<'a>, position: usize) -> Self {
        let collation = view.spec.collation();
        let partial = view.partial.map(|filter| PartialView { filter, collation });
        let members = Membership { is_sparse: view.spec.is_sparse(), partial };
        let IndexView { spec, arrays, has_details, .. } = *view;
        Self { spec, arrays, has_details, index: Some(position), members, path: None }
    }

    /// A wildcard index, planned as an index on one of its paths.
    fn at_path(self, path: &'a FieldPath) -> Self {
        Self { arrays: wildcard::arrays_of(self.arrays), path: Some(path), ..self }
    }

    /// The fields that it is planned with.
    fn fields(&self) -> impl Iterator<Item = TargetField<'a>> + use<'a> {
        let path = self.path;
        // Of a wildcard index the first field is the path, which is fixed.
        let fields = self.spec.fields().iter().skip(usize::from(path.is_some()));
        fields.map(move |field| TargetField { path: path.unwrap_or(&field.path), direction: field.direction })
    }

    /// The components with arrays of a field's path.
    fn arrays_at(&self, field: usize) -> ArrayComponents {
        self.arrays.get(field).copied().unwrap_or_default()
    }
}

/// The rank of a scan of a target within bounds.
fn rank_of(target: ScanTarget<'_>, bounds: &EntryBounds, is_sorted: bool) -> Rank {
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
