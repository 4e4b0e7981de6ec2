//! Chooses which keys to read for a filter and a sort, from the indexes of a collection.
//!
//! A plan may reach documents that do not match, because the filter is applied to each one afterwards.
//! Documents are clustered by `_id`, so the records are one more index to choose. The planner knows no
//! numbers of documents. Of several usable indexes it takes, in this order:
//!
//! 1. a unique index for which the filter gives one value for every field, so one document at most;
//! 2. the index with the most leading fields that the filter gives values for, by equality or `$in`;
//! 3. an index in the order of the sort;
//! 4. an index whose next field the filter bounds;
//! 5. all records.
//!
//! The invariants: a plan reaches every document that matches. If a plan is sorted, it reaches each document
//! for the first time in the order of the sort.

mod order;

use std::cmp::Reverse;
use std::sync::LazyLock;

use bson::rawdoc;
use index::interval::Intervals;
use index::key::Direction;
use index::multikey::ArrayComponents;
use index::spec::{IndexSpec, SpecOptions, Uniqueness};

use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::{Alternatives, Filter};
use crate::planner::order::{SortedField, direction_for};
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

/// An index that a plan may use. For its use see [`plans`].
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    /// The declaration of the index.
    pub spec: &'a IndexSpec,
    /// For each field, the components of its path at which some document has an array. Missing fields have
    /// none.
    pub arrays: &'a [ArrayComponents],
}

/// What to plan: the filter, the sort, the indexes and the hint.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::planner::{Access, Request, plans};
/// use cairndb_query::sort::Sort;
///
/// let sort = Sort::parse(&rawdoc! { "_id": -1 })?;
/// let best = plans(&Request { filter: None, sort: Some(&sort), indexes: &[], hint: None }).swap_remove(0);
/// assert!(best.is_sorted && matches!(best.access, Access::Records(_)));
/// # Ok::<(), cairndb_query::sort::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which documents are wanted, or `None` for all.
    pub filter: Option<&'a Filter>,
    /// The wanted order, or `None` for any.
    pub sort: Option<&'a Sort>,
    /// The indexes of the collection, without the records.
    pub indexes: &'a [IndexView<'a>],
    /// What the caller requires the plan to use.
    pub hint: Option<Hint>,
}

/// What a caller requires a plan to use.
///
/// ```
/// use cairndb_query::planner::{Access, Hint, Request, plans};
/// use index::key::Direction;
///
/// let hint = Some(Hint::Records(Direction::Descending));
/// let plan = plans(&Request { filter: None, sort: None, indexes: &[], hint }).swap_remove(0);
/// assert!(matches!(plan.access, Access::Records(scan) if scan.direction == Direction::Descending));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The records, in this direction if there is no sort.
    Records(Direction),
    /// The index at this position of [`Request::indexes`].
    Index(usize),
}

/// What a plan reads.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::planner::{Access, Request, plans};
///
/// let filter = Filter::parse(&rawdoc! { "_id": { "$gt": 9, "$lt": 1 } })?;
/// let found = plans(&Request { filter: Some(&filter), sort: None, indexes: &[], hint: None });
/// assert!(matches!(found[0].access, Access::Nothing));
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Access {
    /// Nothing: no document can match.
    Nothing,
    /// The records whose `_id`s are within bounds.
    Records(RecordScan),
    /// The entries of an index within bounds, and the documents that they name.
    Entries(EntryScan),
    /// Several scans, one after the other. More than one may reach the same document.
    Union(Vec<Access>),
}

/// A scan of records.
///
/// ```
/// use bson::{RawBsonRef, rawdoc};
/// use cairndb_query::filter::Filter;
/// use cairndb_query::planner::{Access, Request, plans};
///
/// let filter = Filter::parse(&rawdoc! { "_id": { "$lt": 5 } })?;
/// let plan = plans(&Request { filter: Some(&filter), sort: None, indexes: &[], hint: None }).swap_remove(0);
/// let Access::Records(scan) = plan.access else { panic!("a scan of records") };
/// assert!(scan.ids.contains(RawBsonRef::Int32(4)) && !scan.ids.contains(RawBsonRef::Int32(5)));
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordScan {
    /// The `_id`s of documents that can match.
    pub ids: Intervals,
    /// The direction of the scan.
    pub direction: Direction,
}

/// A scan of the entries of an index. For its use see [`plans`].
#[derive(Clone, Debug)]
pub struct EntryScan {
    /// The position of the index in [`Request::indexes`].
    pub index: usize,
    /// For each field of the index, the values to read.
    pub bounds: Vec<Intervals>,
    /// The direction of the scan.
    pub direction: Direction,
    /// Whether several entries within the bounds may name the same document.
    pub has_duplicates: bool,
}

/// What to read for a request, and whether it comes in order. For its use see [`plans`].
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the plan reads.
    pub access: Access,
    /// Whether the documents come in the order of the sort, so that no sort is needed.
    pub is_sorted: bool,
}

/// How good a plan is. The order of the fields is the order of the rules in the module's documentation, and
/// greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    documents: AtMost,
    /// The number of leading fields with values.
    equalities: usize,
    is_sorted: bool,
    /// Whether the field after these is bounded.
    has_range: bool,
    /// Whether records are read directly. Entries cost another read for each document.
    is_records: bool,
    /// An index with fewer fields has shorter keys.
    fields: Reverse<usize>,
    /// Decides between equal plans: the index that was made first.
    position: Reverse<usize>,
}

/// How many documents a scan can reach at most, by its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AtMost {
    All,
    /// Every field of a unique index has one value.
    One,
    None,
}

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
    /// The position of the index in the request, or `None` for the records.
    index: Option<usize>,
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
/// let indexes = [IndexView { spec: &spec, arrays: &[] }];
/// let found = plans(&Request { filter: Some(&filter), sort: None, indexes: &indexes, hint: None });
/// assert!(matches!(&found[0].access, Access::Entries(scan) if scan.index == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plans(request: &Request<'_>) -> Vec<Plan> {
    if let Some(Hint::Records(direction)) = request.hint {
        return vec![records(request, direction).plan];
    }
    let all = records(request, Direction::Ascending);
    let mut ranked: Vec<Ranked> = (0..request.indexes.len())
        .filter(|position| request.hint.is_none_or(|hint| hint == Hint::Index(*position)))
        .filter_map(|position| entries(request, position))
        .collect();
    // A sparse index without some of the matches cannot be used even for a hint. Then all records are read
    // instead.
    if request.hint.is_none() || ranked.is_empty() {
        // A hint names one index, so it excludes a union of several.
        let filter = request.filter.filter(|_| request.hint.is_none());
        let alternatives = filter.map(|filter| filter.alternatives(ALTERNATIVES_MAX)).unwrap_or_default();
        let unions = alternatives.iter().filter_map(|alternatives| union(request, alternatives));
        ranked.extend(unions.collect::<Vec<_>>());
        ranked.push(all);
    }
    ranked.sort_by_key(|ranked| Reverse(ranked.rank));
    // If the best plan reads nothing, the others are useless: no document can match.
    let count = if ranked.first().is_some_and(|first| first.rank.documents == AtMost::None) {
        1
    } else {
        ranked.len()
    };
    ranked.into_iter().take(count).map(|ranked| ranked.plan).collect()
}

/// The scan of the records that can match. `direction` counts only if there is no sort.
fn records(request: &Request<'_>, direction: Direction) -> Ranked {
    let Some(spec) = RECORDS.as_ref() else {
        // Unreachable: `RECORDS` is a fixed specification that parses. A scan of everything is right in any
        // case.
        let access = Access::Records(RecordScan { ids: Intervals::all(), direction });
        return Ranked { plan: Plan { access, is_sorted: request.sort.is_none() }, rank: Rank::scan(0) };
    };
    let target = ScanTarget { spec, arrays: &[], index: None };
    let bounds = bounds_of(request.filter, target);
    let mut ranked = scan(request, target, bounds);
    if let (Access::Records(scan), None) = (&mut ranked.plan.access, request.sort) {
        scan.direction = direction;
    }
    ranked
}

/// The scan of an index. Returns `None` if the index lacks some matches, or is no better than all records.
fn entries(request: &Request<'_>, position: usize) -> Option<Ranked> {
    let view = request.indexes.get(position)?;
    let target = ScanTarget { spec: view.spec, arrays: view.arrays, index: Some(position) };
    let bounds = bounds_of(request.filter, target);
    // A sparse index has no entry for a document that lacks all its fields.
    let is_complete = !view.spec.is_sparse() || bounds.has_value;
    let ranked = is_complete.then(|| scan(request, target, bounds))?;
    // A hint requires the index even if all its entries are read.
    let is_useful = ranked.rank.is_useful() || request.hint.is_some();
    is_useful.then_some(ranked)
}

/// A union of the best bounded scans for each branch of an `$or`. Returns `None` if a branch has no bounded
/// scan.
fn union(request: &Request<'_>, alternatives: &Alternatives<'_>) -> Option<Ranked> {
    if alternatives.count() > BRANCHES_MAX {
        return None;
    }
    // Scans one after the other have no common order, so none of them is chosen for its order.
    let unsorted = Request { sort: None, ..*request };
    let mut best: Vec<Option<Ranked>> = vec![None; alternatives.count()];
    let records = RECORDS.as_ref().map(|spec| ScanTarget { spec, arrays: &[], index: None });
    let indexes = request.indexes.iter().enumerate();
    let targets =
        indexes.map(|(at, view)| ScanTarget { spec: view.spec, arrays: view.arrays, index: Some(at) });
    for target in records.into_iter().chain(targets) {
        let bounds = alternatives.entry_bounds(&fields_of(target));
        for (best, bounds) in best.iter_mut().zip(bounds) {
            if target.spec.is_sparse() && !bounds.has_value {
                continue;
            }
            // One branch without bounds reads everything, and then the union saves nothing.
            let ranked = scan(&unsorted, target, bounds);
            let is_better = best.as_ref().is_none_or(|best| ranked.rank > best.rank);
            if ranked.rank.is_bounded() && is_better {
                *best = Some(ranked);
            }
        }
    }
    let branches: Vec<Ranked> = best.into_iter().collect::<Option<_>>()?;
    // A union is as good as its worst branch.
    let rank = branches.iter().map(|branch| branch.rank).min()?;
    // A branch that reads nothing needs no scan. If none is left, no document can match.
    let accesses = branches.into_iter().map(|branch| branch.plan.access);
    let mut read: Vec<Access> = accesses.filter(|access| !matches!(access, Access::Nothing)).collect();
    let access = match read.pop() {
        None => Access::Nothing,
        Some(only) if read.is_empty() => only,
        Some(last) => {
            read.push(last);
            Access::Union(read)
        }
    };
    // Several branches may reach the same document, so of two equal plans a single scan costs less.
    let rank = Rank { is_records: false, fields: Reverse(usize::MAX), ..rank };
    Some(Ranked { plan: Plan { access, is_sorted: request.sort.is_none() }, rank })
}

/// The scan of a target within bounds, with its rank.
fn scan(request: &Request<'_>, target: ScanTarget<'_>, bounds: EntryBounds) -> Ranked {
    let sorted = request.sort.map(|sort| order_of(sort, target, &bounds.sets));
    let is_sorted = sorted.is_none_or(|direction| direction.is_some());
    let direction = sorted.flatten().unwrap_or(Direction::Ascending);
    let rank = Rank::of(target, &bounds, sorted.flatten().is_some());
    // Reading nothing is better than every scan, and no documents are in any order.
    if bounds.is_empty() {
        let rank = Rank { documents: AtMost::None, ..rank };
        return Ranked { plan: Plan { access: Access::Nothing, is_sorted: true }, rank };
    }
    let mut sets = bounds.sets;
    let access = match target.index {
        None => Access::Records(RecordScan { ids: sets.pop().unwrap_or_else(Intervals::all), direction }),
        Some(index) => {
            // Two entries of one document differ only at a field with arrays, and only if its bounds leave
            // two values.
            let varies = |(at, set): (usize, &Intervals)| !target.arrays_at(at).is_empty() && !is_one(set);
            let has_duplicates = sets.iter().enumerate().any(varies);
            Access::Entries(EntryScan { index, bounds: sets, direction, has_duplicates })
        }
    };
    Ranked { plan: Plan { access, is_sorted }, rank }
}

/// The bounds that a filter gives for a target.
fn bounds_of(filter: Option<&Filter>, target: ScanTarget<'_>) -> EntryBounds {
    match filter {
        Some(filter) => filter.entry_bounds(&fields_of(target)),
        None => EntryBounds { sets: vec![Intervals::all(); target.spec.fields().len()], has_value: false },
    }
}

/// The fields of a target as a filter needs them.
fn fields_of(target: ScanTarget<'_>) -> Vec<IndexedField<'_>> {
    let fields = target.spec.fields().iter().enumerate();
    fields.map(|(at, field)| IndexedField { path: &field.path, arrays: target.arrays_at(at) }).collect()
}

/// The direction in which a scan within `sets` has the order of a sort. Returns `None` if neither direction
/// has it.
fn order_of(sort: &Sort, target: ScanTarget<'_>, sets: &[Intervals]) -> Option<Direction> {
    let fields = target.spec.fields().iter().zip(sets).enumerate();
    let fields: Vec<_> = fields
        .map(|(at, (field, set))| SortedField {
            path: &field.path,
            direction: field.direction,
            has_one_value: is_one(set),
            has_arrays: !target.arrays_at(at).is_empty(),
        })
        .collect();
    direction_for(sort, &fields, target.spec.is_unique())
}

/// Whether all values in a set are equal.
fn is_one(set: &Intervals) -> bool {
    set.as_slice().len() == 1 && set.is_points()
}

impl ScanTarget<'_> {
    /// The components with arrays of a field's path.
    fn arrays_at(&self, field: usize) -> ArrayComponents {
        self.arrays.get(field).copied().unwrap_or_default()
    }
}

impl Rank {
    /// The rank of a scan of all records.
    fn scan(fields: usize) -> Self {
        Self {
            documents: AtMost::All,
            equalities: 0,
            is_sorted: false,
            has_range: false,
            is_records: true,
            fields: Reverse(fields),
            position: Reverse(0),
        }
    }

    /// The rank of a scan within bounds.
    fn of(target: ScanTarget<'_>, bounds: &EntryBounds, is_sorted: bool) -> Self {
        let whole = Self {
            is_sorted,
            is_records: target.index.is_none(),
            position: Reverse(target.index.unwrap_or(0)),
            ..Self::scan(target.spec.fields().len())
        };
        if target.spec.is_unique() && bounds.sets.iter().all(is_one) {
            // All plans for one document are equally good, and one document is in any order.
            return Self { documents: AtMost::One, equalities: usize::MAX, is_sorted: true, ..whole };
        }
        let equalities = bounds.sets.iter().take_while(|set| set.is_points()).count();
        let next_is_bounded = bounds.sets.get(equalities).is_some_and(|set| !set.is_all());
        // A sparse index leaves out documents, which is as good as a bound if nothing else bounds the scan.
        let is_smaller = target.spec.is_sparse() && equalities == 0;
        Self { equalities, has_range: next_is_bounded || is_smaller, ..whole }
    }

    /// Whether the scan reads only a part of the keys.
    fn is_bounded(&self) -> bool {
        self.documents == AtMost::None || self.equalities > 0 || self.has_range
    }

    /// Whether the scan may be better than a scan of all records.
    fn is_useful(&self) -> bool {
        self.is_bounded() || self.is_sorted
    }
}
