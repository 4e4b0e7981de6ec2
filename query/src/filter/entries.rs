//! What a filter says of the entries that an index has of a matching document.
//!
//! An index has one entry for a document without arrays at its fields, and several for one with arrays. A condition on a
//! field without arrays holds of every entry. A condition on a field with arrays holds of some entry, and two such
//! conditions may hold of two different ones: `{a: {$gt: 1, $lt: 9}}` matches `[0, 10]`. They bound the same entry only if
//! one element must meet both (`$elemMatch`), or if the fields never vary together, because they share no array:
//! a document with two arrays side by side is in no index on both.
//!
//! The invariant: for every matching document some entry lies within the bounds, with a value at a field if
//! [`EntryBounds::has_value`] says so.

use bson::RawBson;
use index::interval::{Interval, Intervals};
use index::multikey::{ArrayComponents, has_position};
use index::path::FieldPath;

use crate::filter::Arrays;
use crate::filter::bounds::{admitted, meeting, nothing};
use crate::filter::evaluate::{Node, Test};
use crate::pattern::Watch;

/// A field of an index, and what is known of arrays at it.
#[derive(Clone, Copy, Debug)]
pub struct IndexedField<'a> {
    /// Where its values lie.
    pub path: &'a FieldPath,
    /// Which components of the path have led to an array in any document.
    pub arrays: ArrayComponents,
}

/// Bounds that some entry of every matching document lies within.
#[derive(Clone, Debug)]
pub struct EntryBounds {
    /// For each field of the index, the values that the entry can have.
    pub sets: Vec<Intervals>,
    /// Whether the entry has a value at one of the fields that is not missing, so that a sparse index holds it.
    pub has_value: bool,
}

impl EntryBounds {
    /// Whether no document can match.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().any(Intervals::is_empty)
    }
}

/// What is known of one entry of a matching document.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    /// The values that the entry can have at bounded fields, by position; each position once, ascending.
    sets: Vec<(usize, Intervals)>,
    /// The fields of which it is known through a choice among entries; the others' bounds hold of every entry.
    chosen_by: FieldMask,
    /// Whether the entry has a value that is not missing.
    has_value: bool,
}

/// Fields of an index by position; there are at most 32.
type FieldMask = u32;

/// The fields of an index as they are reached from one object: the document, or an element that `$elemMatch` looks at.
struct View<'a> {
    fields: Vec<Option<Reached<'a>>>,
}

/// What is left of a field's path.
#[derive(Clone, Copy)]
struct Reached<'a> {
    rest: &'a str,
    arrays: ArrayComponents,
    /// Whether the whole path may go through positions of arrays, of which an index holds less than a filter sees.
    is_positional: bool,
}

impl Constraint {
    /// The bounds on an entry of `count` fields; those that are not bounded may have any value.
    pub(super) fn into_bounds(self, count: usize) -> EntryBounds {
        let mut sets = vec![Intervals::all(); count];
        for (at, set) in self.sets {
            if let Some(place) = sets.get_mut(at) {
                *place = set;
            }
        }
        EntryBounds { sets, has_value: self.has_value }
    }

    /// Nothing is known.
    fn unknown() -> Self {
        Self { sets: Vec::new(), chosen_by: 0, has_value: false }
    }

    /// No entry is one of a matching document.
    fn impossible(count: usize) -> Self {
        let sets = (0..count).map(|at| (at, Intervals::none())).collect();
        Self { sets, chosen_by: 0, has_value: true }
    }

    /// How useful a constraint is: bounds on earlier fields first, then the narrower ones.
    fn usefulness(&self) -> (usize, usize) {
        self.sets.first().map_or((usize::MAX, usize::MAX), |(at, set)| (*at, width(set)))
    }
}

/// What the conjunction of some nodes says of an entry.
pub(super) fn conjunction<'n>(
    nodes: impl IntoIterator<Item = &'n Node>,
    fields: &[IndexedField<'_>],
) -> Constraint {
    let view = View::of(fields);
    view.all(nodes.into_iter().map(|node| view.known(node)).collect())
}

/// What two constraints on entries of the same document say together.
pub(super) fn both(first: Constraint, second: Constraint, fields: &[IndexedField<'_>]) -> Constraint {
    View::of(fields).all(vec![first, second])
}

impl<'a> View<'a> {
    fn of(fields: &[IndexedField<'a>]) -> Self {
        let reached = |field: &IndexedField<'a>| {
            let is_positional = !field.arrays.is_empty() && has_position(field.path);
            Some(Reached { rest: field.path.as_str(), arrays: field.arrays, is_positional })
        };
        Self { fields: fields.iter().map(reached).collect() }
    }

    /// The fields below `path`, seen from an object there.
    fn below(&self, path: &FieldPath) -> Self {
        let depth = path.components().count();
        let reached = |field: &Option<Reached<'a>>| {
            let field = field.as_ref()?;
            let rest = field.rest.strip_prefix(path.as_str())?.strip_prefix('.')?;
            Some(Reached { rest, arrays: field.arrays.from_component(depth), ..*field })
        };
        View { fields: self.fields.iter().map(reached).collect() }
    }

    fn count(&self) -> usize {
        self.fields.len()
    }

    /// The field at just this path, with its position.
    fn at(&self, path: &FieldPath) -> Option<(usize, Reached<'a>)> {
        let (at, field) = self.fields.iter().enumerate().find_map(|(at, field)| {
            field.filter(|field| field.rest == path.as_str()).map(|field| (at, field))
        })?;
        (!field.is_positional).then_some((at, field))
    }

    /// What is known where `node` matches.
    fn known(&self, node: &Node) -> Constraint {
        match node {
            Node::All(nodes) => self.all(nodes.iter().map(|node| self.known(node)).collect()),
            Node::Any(nodes) => self.any(nodes.iter().map(|node| self.known(node)).collect()),
            Node::Not(node) => self.known_without(node),
            Node::Field(path, test) => self.tested(path, test),
            Node::Expression(_) | Node::Schema(_) => Constraint::unknown(),
        }
    }

    /// What is known where `node` does not match.
    fn known_without(&self, node: &Node) -> Constraint {
        match node {
            Node::All(nodes) => self.any(nodes.iter().map(|node| self.known_without(node)).collect()),
            Node::Any(nodes) => self.all(nodes.iter().map(|node| self.known_without(node)).collect()),
            Node::Not(node) => self.known(node),
            Node::Field(path, test) => self.failed(path, test),
            Node::Expression(_) | Node::Schema(_) => Constraint::unknown(),
        }
    }

    /// Some value at the path meets the test.
    fn tested(&self, path: &FieldPath, test: &Test) -> Constraint {
        let mut known = match test {
            Test::AnyObject(node) => self.in_some_object(path, node),
            Test::Compare(_)
            | Test::In(_)
            | Test::Exists
            | Test::Type(_)
            | Test::Mod(_)
            | Test::Pattern(_)
            | Test::Bits(_)
            | Test::Size(_)
            | Test::AnyElement(_) => Constraint::unknown(),
        };
        let Some((at, field)) = self.at(path) else { return known };
        let arrays = if field.arrays.is_empty() { Arrays::Absent } else { Arrays::Possible };
        known.sets.extend(admitted(test, arrays).map(|set| (at, set)));
        known.has_value |= !test.matches(None, &Watch::default());
        if arrays == Arrays::Possible {
            known.chosen_by |= mask(at);
        }
        known
    }

    /// An element of an array at the path is an object that matches: all that is known of it is known of its entries.
    fn in_some_object(&self, path: &FieldPath, node: &Node) -> Constraint {
        let below = self.below(path);
        if below.fields.iter().all(Option::is_none) {
            return Constraint::unknown();
        }
        let mut known = below.known(node);
        // Which element it is was chosen, so bounds that hold of all its entries do not hold of the document's.
        for (at, field) in below.fields.iter().enumerate() {
            if field.is_some() {
                known.chosen_by |= mask(at);
            }
        }
        known
    }

    /// No value at the path meets the test. This is known of every entry.
    fn failed(&self, path: &FieldPath, test: &Test) -> Constraint {
        let mut known = Constraint::unknown();
        let Some((at, field)) = self.at(path) else { return known };
        if matches!(test, Test::Exists) {
            known.sets.push((at, Interval::point(RawBson::Null).into()));
            return known;
        }
        let left = meeting(test).complement();
        // For arrays an index has null or undefined in places where a filter sees no value that could meet anything.
        let left = if field.arrays.is_empty() { left } else { left.union(Intervals::from_any(nothing())) };
        if !left.is_all() {
            known.sets.push((at, left));
        }
        known
    }

    /// One entry meets some of the constraints: all that hold of every entry, and as many of the others as must hold of
    /// the same one.
    fn all(&self, constraints: Vec<Constraint>) -> Constraint {
        let (mut chosen, mut together): (Vec<_>, Vec<_>) =
            constraints.into_iter().partition(|constraint| constraint.chosen_by != 0);
        chosen.sort_by_key(Constraint::usefulness);
        let mut chosen_by = 0;
        for constraint in chosen {
            if !self.may_differ(chosen_by, constraint.chosen_by) {
                chosen_by |= constraint.chosen_by;
                together.push(constraint);
            }
        }
        let has_value = together.iter().any(|constraint| constraint.has_value);
        let sets = self.by_field(together).into_iter().enumerate();
        let sets = sets.filter(|(_, sets)| !sets.is_empty()).map(|(at, sets)| (at, common(sets))).collect();
        Constraint { sets, chosen_by, has_value }
    }

    /// One of the constraints is met.
    fn any(&self, constraints: Vec<Constraint>) -> Constraint {
        let count = constraints.len();
        if count == 0 {
            return Constraint::impossible(self.count());
        }
        let chosen_by = constraints.iter().fold(0, |mask, constraint| mask | constraint.chosen_by);
        let has_value = constraints.iter().all(|constraint| constraint.has_value);
        let sets = self.by_field(constraints).into_iter().enumerate();
        // Where one constraint leaves a field open, any value may be met.
        let sets = sets.filter(|(_, sets)| sets.len() == count);
        let sets = sets.map(|(at, sets)| (at, Intervals::from_any(sets.into_iter().flatten()))).collect();
        Constraint { sets, chosen_by, has_value }
    }

    /// The sets of all constraints, field by field.
    fn by_field(&self, constraints: Vec<Constraint>) -> Vec<Vec<Intervals>> {
        let mut fields = vec![Vec::new(); self.count()];
        for (at, set) in constraints.into_iter().flat_map(|constraint| constraint.sets) {
            if let Some(sets) = fields.get_mut(at) {
                sets.push(set);
            }
        }
        fields
    }

    /// Whether what holds of an entry through some fields, and what holds through others, may hold of two different
    /// entries: an array lies on the way to a field of both.
    fn may_differ(&self, first: FieldMask, second: FieldMask) -> bool {
        let fields = |mask: FieldMask| {
            let fields = self.fields.iter().enumerate().filter(move |(at, _)| mask & self::mask(*at) != 0);
            fields.filter_map(|(_, field)| *field)
        };
        fields(first).any(|left| fields(second).any(|right| left.shares_array(&right)))
    }
}

impl Reached<'_> {
    fn shares_array(&self, other: &Self) -> bool {
        let common =
            self.rest.split('.').zip(other.rest.split('.')).take_while(|(left, right)| left == right);
        self.arrays.union(other.arrays).has_any_of_first(common.count())
    }
}

fn mask(at: usize) -> FieldMask {
    u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0)
}

/// The values that lie in all sets. Neighbors are intersected first, then what came of them: so each interval is looked
/// at once for each doubling of the number of sets, and not once for each set.
fn common(mut sets: Vec<Intervals>) -> Intervals {
    while sets.len() > 1 {
        let pairs = sets.chunks(2).map(|pair| match pair {
            [first, second] => first.intersection(second),
            [only, ..] => only.clone(),
            [] => Intervals::all(),
        });
        sets = pairs.collect();
    }
    sets.pop().unwrap_or_else(Intervals::all)
}

/// How much a set narrows, in coarse steps: the number of points, or one of a few classes.
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
