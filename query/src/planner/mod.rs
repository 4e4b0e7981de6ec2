//! From a filter, a sort and the indexes that are there to the keys worth reading.
//!
//! A plan may lead to documents that do not match, never past one that does: the filter has the last word. Documents are
//! clustered by `_id`, so the records themselves are one more index to choose from. Nothing here knows how many
//! documents there are; of several usable indexes a fixed rule takes one:
//!
//! 1. one in which the filter leaves room for one document at most: a value for every field of a unique index;
//! 2. the one with the most leading fields that the filter gives values for, by equality or `$in`;
//! 3. one that has the order of the sort;
//! 4. one whose next field the filter bounds;
//! 5. all records.
//!
//! The invariants: each document that matches is reached, and where a plan says that it is sorted, the first visits to
//! the documents are in the order of the sort.

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

/// How many `$or`s of a filter are tried as ways to its matches.
const ALTERNATIVES_MAX: usize = 8;

/// How many branches of an `$or` may each have a scan of their own.
pub const BRANCHES_MAX: usize = 1_000;

/// The records as an index: unique, on `_id`, in which no array may lie.
static RECORDS: LazyLock<Option<IndexSpec>> = LazyLock::new(|| {
    let options = SpecOptions { uniqueness: Uniqueness::Unique, ..SpecOptions::default() };
    IndexSpec::parse(&rawdoc! { "_id": 1 }, options).ok()
});

/// An index that a plan may use.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    /// What it was declared on.
    pub spec: &'a IndexSpec,
    /// For each of its fields, the components of the path that have led to an array; missing ones have not.
    pub arrays: &'a [ArrayComponents],
}

/// What a plan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which documents; without one, all.
    pub filter: Option<&'a Filter>,
    /// In which order; without one, in any.
    pub sort: Option<&'a Sort>,
    /// What there is beside the records.
    pub indexes: &'a [IndexView<'a>],
    /// What the caller insists on.
    pub hint: Option<Hint>,
}

/// What a caller insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The records, in this direction if no sort is asked for.
    Records(Direction),
    /// The index at this position of the request's.
    Index(usize),
}

/// What is read.
#[derive(Clone, Debug)]
pub enum Access {
    /// Nothing: no document can match.
    Nothing,
    /// The records whose `_id`s lie within bounds.
    Records(RecordScan),
    /// The entries of an index within bounds, and the documents that they name.
    Entries(EntryScan),
    /// One after the other; a document may be reached by several.
    Union(Vec<Access>),
}

/// A walk over records.
#[derive(Clone, Debug)]
pub struct RecordScan {
    /// The `_id`s of documents that can match.
    pub ids: Intervals,
    /// The way through them.
    pub direction: Direction,
}

/// A walk over the entries of an index.
#[derive(Clone, Debug)]
pub struct EntryScan {
    /// The index's position among those of the request.
    pub index: usize,
    /// For each of its fields the values worth looking at.
    pub bounds: Vec<Intervals>,
    /// The way through the entries.
    pub direction: Direction,
    /// Whether several entries within the bounds may name one document.
    pub has_duplicates: bool,
}

/// A way to the documents.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is read.
    pub access: Access,
    /// Whether documents come in the order of the sort, so that they need not be sorted.
    pub is_sorted: bool,
}

/// How good a plan is, by the rules of the module; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    documents: AtMost,
    /// Leading fields that have values.
    equalities: usize,
    is_sorted: bool,
    /// The field after these is bounded.
    has_range: bool,
    /// No document is fetched through an entry.
    is_records: bool,
    /// An index with fewer fields has shorter keys.
    fields: Reverse<usize>,
    /// At last, the index that was made first.
    position: Reverse<usize>,
}

/// How many documents a scan can reach, as far as its bounds tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AtMost {
    All,
    /// Every field of a unique index has one value.
    One,
    None,
}

/// A plan and how good it is.
#[derive(Clone, Debug)]
struct Ranked {
    plan: Plan,
    rank: Rank,
}

/// Where a scan's keys stand: in records, or in the index at a position.
#[derive(Clone, Copy, Debug)]
struct Target<'a> {
    spec: &'a IndexSpec,
    arrays: &'a [ArrayComponents],
    index: Option<usize>,
}

/// The plans for a request, best first; at least one.
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
    // A sparse index that lacks documents is not used even where it is asked for: all records are.
    if request.hint.is_none() || ranked.is_empty() {
        let filter = request.filter.filter(|_| request.hint.is_none());
        let alternatives = filter.map(|filter| filter.alternatives(ALTERNATIVES_MAX)).unwrap_or_default();
        let unions = alternatives.iter().filter_map(|alternatives| union(request, alternatives));
        ranked.extend(unions.collect::<Vec<_>>());
        ranked.push(all);
    }
    ranked.sort_by_key(|ranked| Reverse(ranked.rank));
    // Beside a plan that is known to read nothing, none needs to be told.
    let kept = if ranked.first().is_some_and(|first| first.rank.documents == AtMost::None) {
        1
    } else {
        ranked.len()
    };
    ranked.into_iter().take(kept).map(|ranked| ranked.plan).collect()
}

/// The records that can match.
fn records(request: &Request<'_>, direction: Direction) -> Ranked {
    let Some(spec) = RECORDS.as_ref() else {
        // The pattern is fixed, and tested.
        let access = Access::Records(RecordScan { ids: Intervals::all(), direction });
        return Ranked { plan: Plan { access, is_sorted: request.sort.is_none() }, rank: Rank::scan(0) };
    };
    let target = Target { spec, arrays: &[], index: None };
    let bounds = bounds_of(request.filter, target);
    let mut ranked = scan(request, target, bounds);
    if let (Access::Records(scan), None) = (&mut ranked.plan.access, request.sort) {
        scan.direction = direction;
    }
    ranked
}

/// The entries of an index that can name matching documents, if it holds all of those and is of any use.
fn entries(request: &Request<'_>, position: usize) -> Option<Ranked> {
    let view = request.indexes.get(position)?;
    let target = Target { spec: view.spec, arrays: view.arrays, index: Some(position) };
    let bounds = bounds_of(request.filter, target);
    let is_complete = !view.spec.is_sparse() || bounds.has_value;
    let ranked = is_complete.then(|| scan(request, target, bounds))?;
    let is_useful = ranked.rank.is_useful() || request.hint.is_some();
    is_useful.then_some(ranked)
}

/// For every branch of an `$or` the best bounded scan, if each has one.
fn union(request: &Request<'_>, alternatives: &Alternatives<'_>) -> Option<Ranked> {
    if alternatives.count() > BRANCHES_MAX {
        return None;
    }
    let unsorted = Request { sort: None, ..*request };
    let mut best: Vec<Option<Ranked>> = vec![None; alternatives.count()];
    let records = RECORDS.as_ref().map(|spec| Target { spec, arrays: &[], index: None });
    let indexes = request.indexes.iter().enumerate();
    let targets = indexes.map(|(at, view)| Target { spec: view.spec, arrays: view.arrays, index: Some(at) });
    for target in records.into_iter().chain(targets) {
        let bounds = alternatives.entry_bounds(&fields_of(target));
        for (best, bounds) in best.iter_mut().zip(bounds) {
            if target.spec.is_sparse() && !bounds.has_value {
                continue;
            }
            let ranked = scan(&unsorted, target, bounds);
            let is_better = best.as_ref().is_none_or(|best| ranked.rank > best.rank);
            if ranked.rank.is_bounded() && is_better {
                *best = Some(ranked);
            }
        }
    }
    let branches: Vec<Ranked> = best.into_iter().collect::<Option<_>>()?;
    let rank = branches.iter().map(|branch| branch.rank).min()?;
    // Branches that read nothing need no scan; if all do, nothing can match.
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
    // A document may be met by several branches, so of two equal plans the other one does less.
    let rank = Rank { is_records: false, fields: Reverse(usize::MAX), ..rank };
    Some(Ranked { plan: Plan { access, is_sorted: request.sort.is_none() }, rank })
}

/// A scan within bounds.
fn scan(request: &Request<'_>, target: Target<'_>, bounds: EntryBounds) -> Ranked {
    let sorted = request.sort.map(|sort| order_of(sort, target, &bounds.sets));
    let is_sorted = sorted.is_none_or(|direction| direction.is_some());
    let direction = sorted.flatten().unwrap_or(Direction::Ascending);
    let rank = Rank::of(target, &bounds, sorted.flatten().is_some());
    if bounds.is_empty() {
        let rank = Rank { documents: AtMost::None, ..rank };
        return Ranked { plan: Plan { access: Access::Nothing, is_sorted: true }, rank };
    }
    let mut sets = bounds.sets;
    let access = match target.index {
        None => Access::Records(RecordScan { ids: sets.pop().unwrap_or_else(Intervals::all), direction }),
        Some(index) => {
            // Two entries of one document differ in a field with arrays.
            let varies = |(at, set): (usize, &Intervals)| !target.arrays_at(at).is_empty() && !is_one(set);
            let has_duplicates = sets.iter().enumerate().any(varies);
            Access::Entries(EntryScan { index, bounds: sets, direction, has_duplicates })
        }
    };
    Ranked { plan: Plan { access, is_sorted }, rank }
}

fn bounds_of(filter: Option<&Filter>, target: Target<'_>) -> EntryBounds {
    match filter {
        Some(filter) => filter.entry_bounds(&fields_of(target)),
        None => EntryBounds { sets: vec![Intervals::all(); target.spec.fields().len()], has_value: false },
    }
}

fn fields_of(target: Target<'_>) -> Vec<IndexedField<'_>> {
    let fields = target.spec.fields().iter().enumerate();
    fields.map(|(at, field)| IndexedField { path: &field.path, arrays: target.arrays_at(at) }).collect()
}

/// The direction in which a scan within bounds has the order of a sort, if it has it.
fn order_of(sort: &Sort, target: Target<'_>, sets: &[Intervals]) -> Option<Direction> {
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

/// Whether a set holds one value, and those equal to it.
fn is_one(set: &Intervals) -> bool {
    set.as_slice().len() == 1 && set.is_points()
}

impl Target<'_> {
    fn arrays_at(&self, field: usize) -> ArrayComponents {
        self.arrays.get(field).copied().unwrap_or_default()
    }
}

impl Rank {
    /// A walk over everything.
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

    fn of(target: Target<'_>, bounds: &EntryBounds, is_sorted: bool) -> Self {
        let whole = Self {
            is_sorted,
            is_records: target.index.is_none(),
            position: Reverse(target.index.unwrap_or(0)),
            ..Self::scan(target.spec.fields().len())
        };
        if target.spec.is_unique() && bounds.sets.iter().all(is_one) {
            // How one document is told does not matter, and it is in any order.
            return Self { documents: AtMost::One, equalities: usize::MAX, is_sorted: true, ..whole };
        }
        let equalities = bounds.sets.iter().take_while(|set| set.is_points()).count();
        let next_is_bounded = bounds.sets.get(equalities).is_some_and(|set| !set.is_all());
        // A sparse index leaves out documents that cannot match.
        let is_smaller = target.spec.is_sparse() && equalities == 0;
        Self { equalities, has_range: next_is_bounded || is_smaller, ..whole }
    }

    /// Whether a part of the keys is enough.
    fn is_bounded(&self) -> bool {
        self.documents == AtMost::None || self.equalities > 0 || self.has_range
    }

    /// Whether a scan is better than one of all records, or may be.
    fn is_useful(&self) -> bool {
        self.is_bounded() || self.is_sorted
    }
}
