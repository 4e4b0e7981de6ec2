//! Bounds on the entries that an index has of the documents that match a filter.
//!
//! An index has one entry for a document without arrays at the indexed fields, and several for one with
//! arrays. A condition on a field without arrays is true of every entry. A condition on a field with arrays
//! is true of at least one entry, and two such conditions may be true of two different ones: `{a: {$gt: 1,
//! $lt: 9}}` matches `[0, 10]`. They bound the same entry only if one element must meet both (`$elemMatch`),
//! or if the fields share no array. (No index can have a document with separate arrays at two of its fields,
//! so then only one of them has an array.)
//!
//! The invariant: for every matching document at least one entry is within the bounds. If
//! [`EntryBounds::has_value`] is set, that entry has a value that is not missing.

use bson::RawBson;
use index::collation::Collation;
use index::interval::{Interval, Intervals};
use index::multikey::{ArrayComponents, has_position};
use index::path::FieldPath;

use crate::filter::bounds::{Arrays, null_points, subset, superset};
use crate::filter::evaluate::{Node, Test};
use crate::filter::implied::ImpliedTest;
use crate::filter::planning_budget::{PlanningBudget, SetKind};
use crate::filter::weight;
use crate::pattern::Watch;

/// A field of an index, and where documents have arrays on its path.
#[derive(Clone, Copy, Debug)]
pub struct IndexedField<'a> {
    /// The dotted path of its values.
    pub path: &'a FieldPath,
    /// The components of the path at which some document has an array.
    pub arrays: ArrayComponents,
    /// The index's comparison of strings.
    pub collation: &'a Collation,
}

/// Bounds on the fields of an index. Every matching document has at least one entry within them.
#[derive(Clone, Debug)]
pub struct EntryBounds {
    /// For each field of the index, the values that the entry can have.
    pub sets: Vec<Intervals>,
    /// Whether the entry has a value at one or more of the fields. A sparse index has only such entries.
    pub has_value: bool,
}

impl EntryBounds {
    /// Whether no document can match, because no value is left for one of the fields.
    ///
    /// ```
    /// use cairndb_query::filter::Filter;
    /// use cairndb_query::filter::entries::IndexedField;
    /// use index::collation::SIMPLE;
    /// use index::multikey::ArrayComponents;
    /// use index::path::FieldPath;
    ///
    /// let filter = Filter::parse(&bson::rawdoc! { "age": { "$gt": 40, "$lt": 30 } })?;
    /// let age = FieldPath::parse("age")?;
    /// let bounds = |arrays| filter.entry_bounds(&[IndexedField { path: &age, arrays, collation: &SIMPLE }]);
    /// assert!(bounds(ArrayComponents::NONE).is_empty());
    /// // One element of an array may be above 40 and another one below 30.
    /// assert!(!bounds(ArrayComponents::ALL).is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.sets.iter().any(Intervals::is_empty)
    }
}

/// The condition that a part of the filter implies for one entry of a matching document.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    /// The values that the entry can have at the fields that are bounded, by position, ascending and without
    /// duplicates.
    sets: Vec<(usize, Intervals)>,
    /// The fields with arrays that single this entry out among the document's. If it is empty, the bounds are
    /// true of every entry.
    chosen_by: FieldMask,
    /// Whether the entry has a value that is not missing.
    has_value: bool,
}

/// A set of fields of an index, a bit for each position. An index has at most 32 fields.
type FieldMask = u32;

/// The fields of an index as seen from one object: the document, or an array element below `$elemMatch`.
struct View<'a, 'b> {
    /// For each field of the index the rest of its path, or `None` if it does not go through the object.
    fields: Vec<Option<Reached<'a>>>,
    budget: &'b PlanningBudget<'b>,
}

/// The part of a field's path below the object of a view.
#[derive(Clone, Copy)]
struct Reached<'a> {
    rest: &'a str,
    arrays: ArrayComponents,
    collation: &'a Collation,
    /// Whether the whole path may name positions in arrays. For these an index has fewer values than a filter
    /// sees.
    is_positional: bool,
}

impl Constraint {
    /// The bounds on all `count` fields of the index. A field without bounds may have any value.
    pub(super) fn into_bounds(self, count: usize) -> EntryBounds {
        let mut sets = vec![Intervals::all(); count];
        for (at, set) in self.sets {
            if let Some(bounded) = sets.get_mut(at) {
                *bounded = set;
            }
        }
        EntryBounds { sets, has_value: self.has_value }
    }

    /// A constraint that every entry meets.
    fn unrestricted() -> Self {
        Self { sets: Vec::new(), chosen_by: 0, has_value: false }
    }

    /// A constraint that no entry meets.
    fn impossible(count: usize) -> Self {
        let sets = (0..count).map(|at| (at, Intervals::none())).collect();
        Self { sets, chosen_by: 0, has_value: true }
    }

    /// The sort key of a constraint, the most useful first: by the earliest bounded field, then by its width.
    fn usefulness(&self) -> (usize, usize) {
        // Entries are sorted by the first field first, so only a bound on the leading fields makes a scan
        // shorter.
        self.sets.first().map_or((usize::MAX, usize::MAX), |(at, set)| (*at, width(set)))
    }
}

/// The constraint on one entry of the documents that match all of the nodes.
pub(super) fn conjunction<'n>(
    nodes: impl IntoIterator<Item = &'n Node>,
    fields: &[IndexedField<'_>],
    budget: &PlanningBudget<'n>,
) -> Constraint {
    let view = View::of(fields, budget);
    view.all(nodes.into_iter().map(|node| view.matching(node)).collect())
}

/// The constraint that joins two constraints on entries of the same document.
pub(super) fn both(
    first: Constraint,
    second: Constraint,
    fields: &[IndexedField<'_>],
    budget: &PlanningBudget<'_>,
) -> Constraint {
    View::of(fields, budget).all(vec![first, second])
}

impl<'a, 'b> View<'a, 'b> {
    /// The fields as seen from the document.
    fn of(fields: &[IndexedField<'a>], budget: &'b PlanningBudget<'b>) -> Self {
        let reached = |field: &IndexedField<'a>| {
            // Without arrays a numeric component can only be a field's name.
            let is_positional = !field.arrays.is_empty() && has_position(field.path);
            let IndexedField { path, arrays, collation } = *field;
            Some(Reached { rest: path.as_str(), arrays, collation, is_positional })
        };
        Self { fields: fields.iter().map(reached).collect(), budget }
    }

    /// The fields below `path`, as seen from an object there.
    fn below(&self, path: &FieldPath) -> Self {
        let depth = path.components().count();
        let reached = |field: &Option<Reached<'a>>| {
            let field = field.as_ref()?;
            let rest = field.rest.strip_prefix(path.as_str())?.strip_prefix('.')?;
            Some(Reached { rest, arrays: field.arrays.from_component(depth), ..*field })
        };
        View { fields: self.fields.iter().map(reached).collect(), budget: self.budget }
    }

    fn count(&self) -> usize {
        self.fields.len()
    }

    /// The field with exactly this path, and its position. Returns `None` if there is none, or if no bound on
    /// it would be safe.
    fn at(&self, path: &FieldPath) -> Option<(usize, Reached<'a>)> {
        let (at, field) = self.fields.iter().enumerate().find_map(|(at, field)| {
            field.filter(|field| field.rest == path.as_str()).map(|field| (at, field))
        })?;
        (!field.is_positional).then_some((at, field))
    }

    /// The constraint on an entry of the objects that match `node`.
    fn matching(&self, node: &'b Node) -> Constraint {
        // Each part is looked for among the fields. Without bounds by it the entries may be any.
        if !self.budget.takes(self.count()) {
            return Constraint::unrestricted();
        }
        match node {
            Node::All(nodes) => self.all(nodes.iter().map(|node| self.matching(node)).collect()),
            Node::Any(nodes) => self.any(nodes.iter().map(|node| self.matching(node)).collect()),
            Node::Not(node) => self.not_matching(node),
            Node::Field(path, test) => self.met(path, test),
            Node::Implied(test) => self.implied(test),
            // Neither is translated into values of single fields.
            Node::Expression(_) | Node::Schema(_) => Constraint::unrestricted(),
        }
    }

    /// The constraint on an entry of the objects that do not match `node`.
    fn not_matching(&self, node: &'b Node) -> Constraint {
        if !self.budget.takes(self.count()) {
            return Constraint::unrestricted();
        }
        match node {
            // De Morgan's laws: "not all" is "any does not", and the other way round.
            Node::All(nodes) => self.any(nodes.iter().map(|node| self.not_matching(node)).collect()),
            Node::Any(nodes) => self.all(nodes.iter().map(|node| self.not_matching(node)).collect()),
            Node::Not(node) => self.matching(node),
            Node::Field(path, test) => self.not_met(path, test),
            // The expression beside it is negated too, and one that is false says nothing.
            Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => Constraint::unrestricted(),
        }
    }

    /// The constraint on the entries of the documents for which an expression is true. It is true of every entry, so no field
    /// is in `chosen_by`: no match has an array on the path, and all of its entries have its one value there.
    fn implied(&self, test: &'b ImpliedTest) -> Constraint {
        let mut constraint = Constraint::unrestricted();
        let Some((at, field)) = self.at(test.path()) else { return constraint };
        // An expression compares an array as a whole. Its entries are its elements, or what the path finds in them, which
        // may be any values.
        if !field.arrays.is_empty() && test.is_met_by_arrays() {
            return constraint;
        }
        let make = || test.superset(field.collation);
        let set = if weight::is_light_list(test.operands()) {
            make()
        } else {
            let weigh = || weight::of_list(test.operands());
            self.budget.shared(test, SetKind::Met, field.collation, || {
                self.budget.makes(weigh()).then(make).flatten()
            })
        };
        if let Some(set) = set {
            constraint.sets.push((at, set));
            constraint.has_value = !test.is_met_by_missing();
        }
        constraint
    }

    /// The constraint on an entry of the objects in which some value at the path meets the test.
    fn met(&self, path: &FieldPath, test: &'b Test) -> Constraint {
        // Of all tests only this one is about fields below its own.
        let mut constraint = if let Test::AnyObject(node) = test {
            self.in_some_object(path, node)
        } else {
            Constraint::unrestricted()
        };
        let Some((at, field)) = self.at(path) else { return constraint };
        let arrays = if field.arrays.is_empty() { Arrays::Absent } else { Arrays::Possible };
        let kind = if arrays == Arrays::Absent { SetKind::Met } else { SetKind::MetInArrays };
        constraint.sets.extend(self.set_of(test, kind, field.collation).map(|set| (at, set)));
        // A test that a missing field does not meet is met by a value.
        constraint.has_value |= !test.matches(None, &Watch::default());
        if arrays == Arrays::Possible {
            constraint.chosen_by |= mask(at);
        }
        constraint
    }

    /// The constraint on an entry of the objects in which an element of the array at the path matches `node`.
    fn in_some_object(&self, path: &FieldPath, node: &'b Node) -> Constraint {
        let below = self.below(path);
        if below.fields.iter().all(Option::is_none) {
            return Constraint::unrestricted();
        }
        let mut constraint = below.matching(node);
        // Bounds that are true of all entries of this element are not true of the entries of the other
        // elements.
        for (at, field) in below.fields.iter().enumerate() {
            if field.is_some() {
                constraint.chosen_by |= mask(at);
            }
        }
        constraint
    }

    /// The constraint on an entry of the objects in which no value at the path meets the test. It is true of
    /// every entry, so no field is in `chosen_by`.
    fn not_met(&self, path: &FieldPath, test: &'b Test) -> Constraint {
        let mut constraint = Constraint::unrestricted();
        let Some((at, field)) = self.at(path) else { return constraint };
        // `$exists: false`: an index stores a missing field as null.
        if matches!(test, Test::Exists) {
            constraint.sets.push((at, Interval::point(RawBson::Null).into()));
            return constraint;
        }
        let Some(left) = self.set_of(test, SetKind::NotMet, field.collation) else { return constraint };
        // For arrays an index has null or undefined where a filter sees neither (undefined for an empty
        // array). So these two stay in the set, even if null meets the test.
        let left =
            if field.arrays.is_empty() { left } else { left.union(Intervals::from_any(null_points())) };
        if !left.is_all() {
            constraint.sets.push((at, left));
        }
        constraint
    }

    /// The constraint on an entry of the objects that meet all `constraints`.
    ///
    /// It joins those that are true of every entry, and as many of the others as must be true of the same
    /// entry.
    fn all(&self, mut constraints: Vec<Constraint>) -> Constraint {
        if constraints.len() == 1 {
            return constraints.pop().unwrap_or_else(Constraint::unrestricted);
        }
        let mut chosen_by = 0;
        if constraints.iter().any(|constraint| constraint.chosen_by != 0) {
            // The most useful one is chosen first, because it may keep the others from being chosen. Those that are true of every entry
            // keep none from it.
            constraints
                .sort_by_key(|constraint| (constraint.chosen_by != 0).then(|| constraint.usefulness()));
            constraints.retain(|constraint| {
                let is_of_the_same = !self.may_differ(chosen_by, constraint.chosen_by);
                if is_of_the_same {
                    chosen_by |= constraint.chosen_by;
                }
                is_of_the_same
            });
        }
        let has_value = constraints.iter().any(|constraint| constraint.has_value);
        let mut bounded: Vec<(usize, Intervals)> =
            constraints.into_iter().flat_map(|constraint| constraint.sets).collect();
        bounded.sort_by_key(|(at, _)| *at);
        let of_one_field = bounded.chunk_by(|(at, _), (next, _)| at == next);
        let sets = of_one_field.filter_map(|field| {
            let (at, _) = field.first()?;
            Some((*at, self.common(field.iter().map(|(_, set)| set.clone()).collect())))
        });
        Constraint { sets: sets.collect(), chosen_by, has_value }
    }

    /// The constraint on an entry of the objects that meet at least one of `constraints`.
    fn any(&self, constraints: Vec<Constraint>) -> Constraint {
        let count = constraints.len();
        // `$alwaysFalse`, or `$all` without members: no object matches.
        if count == 0 {
            return Constraint::impossible(self.count());
        }
        let chosen_by = constraints.iter().fold(0, |mask, constraint| mask | constraint.chosen_by);
        let has_value = constraints.iter().all(|constraint| constraint.has_value);
        let sets = self.by_field(constraints).into_iter().enumerate();
        // If one constraint leaves a field open, the field may have any value.
        let sets = sets.filter(|(_, sets)| sets.len() == count);
        let sets = sets.map(|(at, sets)| (at, self.in_any(sets)));
        Constraint { sets: sets.collect(), chosen_by, has_value }
    }

    /// A set of the values of a test, in keys with a collation. Returns `None` if the test does not bound them, or the set
    /// would cost too much. Indexes of the same field share the set of a long list.
    fn set_of(&self, test: &'b Test, kind: SetKind, keys: &Collation) -> Option<Intervals> {
        let make = || match kind {
            SetKind::Met => superset(test, Arrays::Absent, keys),
            SetKind::MetInArrays => superset(test, Arrays::Possible, keys),
            SetKind::NotMet => Some(subset(test, keys).complement()),
        };
        if weight::is_light(test) {
            return make();
        }
        let weigh = || weight::of_test(test);
        self.budget.shared(test, kind, keys, || self.budget.makes(weigh()).then(make).flatten())
    }

    /// The values that are in all sets.
    fn common(&self, sets: Vec<Intervals>) -> Intervals {
        // A set by itself is shared. Of several the result has no more intervals than all of them.
        if sets.len() == 1 || self.budget.makes(intervals(&sets)) {
            Intervals::in_all(sets)
        } else {
            Intervals::all()
        }
    }

    /// The values that are in some of the sets.
    fn in_any(&self, sets: Vec<Intervals>) -> Intervals {
        if let Some(shared) = shared(&sets) {
            return shared.clone();
        }
        if self.budget.makes(intervals(&sets)) {
            Intervals::from_any(sets.into_iter().flatten())
        } else {
            Intervals::all()
        }
    }

    /// The sets of all constraints, in a list for each field.
    fn by_field(&self, constraints: Vec<Constraint>) -> Vec<Vec<Intervals>> {
        let mut fields = vec![Vec::new(); self.count()];
        for (at, set) in constraints.into_iter().flat_map(|constraint| constraint.sets) {
            if let Some(sets) = fields.get_mut(at) {
                sets.push(set);
            }
        }
        fields
    }

    /// Whether a constraint through the fields of `first` and one through those of `second` may be true of
    /// two different entries. They may if the paths of both go through the same array.
    fn may_differ(&self, first: FieldMask, second: FieldMask) -> bool {
        let fields = |mask: FieldMask| {
            let fields = self.fields.iter().enumerate().filter(move |(at, _)| mask & self::mask(*at) != 0);
            fields.filter_map(|(_, field)| *field)
        };
        fields(first).any(|left| fields(second).any(|right| left.shares_array(&right)))
    }
}

impl Reached<'_> {
    /// Whether a component that both paths start with leads to an array.
    fn shares_array(&self, other: &Self) -> bool {
        let common =
            self.rest.split('.').zip(other.rest.split('.')).take_while(|(left, right)| left == right);
        self.arrays.union(other.arrays).has_any_of_first(common.count())
    }
}

/// The set of the one field at a position.
fn mask(at: usize) -> FieldMask {
    u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0)
}

/// The number of intervals in all sets.
fn intervals(sets: &[Intervals]) -> usize {
    sets.iter().map(|set| set.as_slice().len()).fold(0, usize::saturating_add)
}

/// The set that all of some sets are.
fn shared(sets: &[Intervals]) -> Option<&Intervals> {
    let (first, others) = sets.split_first()?;
    others.iter().all(|set| set.shares_list(first)).then_some(first)
}

/// The width of a set, for comparison: the number of points, or more than that for ranges.
fn width(set: &Intervals) -> usize {
    if set.is_empty() {
        0
    } else if set.is_points() {
        set.as_slice().len()
    } else if set.is_all() {
        usize::MAX
    } else {
        usize::MAX - 1
    }
}
