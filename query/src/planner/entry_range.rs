//! A range of an index's entries, from one key up to another, as bounds on each of its fields.
//!
//! Keys are compared field by field, so the keys from `{a: 1, b: 5}` on are those with `a: 1` and `b` from 5 on, and those
//! with `a` above 1. Such pieces are disjoint, and come in the order of the index. Values of all types are compared, as the
//! index sorts them.

use std::cmp::Ordering;

use bson::RawBson;
use index::interval::{Bound, Interval, Intervals, Limit};
use index::key::Direction;
use index::order::compare;

/// The entries from one key, inclusive, up to another, exclusive. Both have a value for each field of the index.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_query::operation::OperationContext;
/// use cairndb_query::planner::{Access, EntryRange, Hint, IndexView, Request, plans};
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1, "age": 1 }, SpecOptions::default())?;
/// let key = |city: &str, age| Some(vec![RawBson::String(city.to_owned()), RawBson::Int32(age)]);
/// let range = EntryRange { min: key("Oslo", 30), max: key("Oslo", 40) };
/// let (indexes, hint) = ([IndexView::new(&spec, &[])], Some(Hint::Index(0)));
/// let request = Request { indexes: &indexes, hint, range: Some(&range), ..Request::default() };
/// assert!(matches!(&plans(&request, &OperationContext::default())[0].access, Access::Entries(scan) if scan.bounds[0].is_points()));
/// # Ok::<(), index::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EntryRange {
    /// The first key of the range. Absent for a range from the first entry on.
    pub min: Option<Vec<RawBson>>,
    /// The first key after the range. Absent for a range up to the last entry.
    pub max: Option<Vec<RawBson>>,
}

impl EntryRange {
    /// The order of `min` and `max` in an index whose fields have these directions. A range whose `min` is not less
    /// has no entry. One without both bounds is never empty, so it is `Less`.
    pub fn order(&self, directions: &[Direction]) -> Ordering {
        let (Some(min), Some(max)) = (&self.min, &self.max) else { return Ordering::Less };
        let fields = directions.iter().zip(min.iter().zip(max));
        let mut orders = fields.map(|(direction, (min, max))| {
            let order = compare(min.as_raw_bson_ref(), max.as_raw_bson_ref());
            if *direction == Direction::Ascending { order } else { order.reverse() }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The range as bounds on the fields of an index with these directions: disjoint pieces in the order of the index.
    pub(super) fn pieces(&self, directions: &[Direction]) -> Vec<Vec<Intervals>> {
        if self.order(directions).is_ge() {
            return Vec::new();
        }
        if self.min.is_none() && self.max.is_none() {
            return vec![vec![Intervals::all(); directions.len()]];
        }
        // Up to here all keys of the range are equal. Without one of the bounds they share nothing.
        let shared = self.min.iter().flatten().zip(self.max.iter().flatten());
        let shared =
            shared.take_while(|(min, max)| compare(min.as_raw_bson_ref(), max.as_raw_bson_ref()).is_eq());
        let shared = shared.count();
        let mut pieces = Vec::new();
        let last = directions.len().saturating_sub(1);
        // The more fields of the lower key a piece has, the nearer it is to that key.
        if let Some(min) = &self.min {
            let first = if self.max.is_some() { shared + 1 } else { 0 };
            for at in (first..=last).rev() {
                let limit = if at == last { Limit::Inclusive } else { Limit::Exclusive };
                let bounds = Ends { from: min.get(at).map(|value| (value, limit)), to: None };
                pieces.extend(piece(min, at, bounds, directions));
            }
        }
        if let (Some(min), Some(max)) = (&self.min, &self.max) {
            // The last field of the lower key belongs to the range. Before it, keys with more fields of it do.
            let limit = if shared == last { Limit::Inclusive } else { Limit::Exclusive };
            let from = min.get(shared).map(|value| (value, limit));
            let to = max.get(shared).map(|value| (value, Limit::Exclusive));
            pieces.extend(piece(min, shared, Ends { from, to }, directions));
        }
        if let Some(max) = &self.max {
            let first = if self.min.is_some() { shared + 1 } else { 0 };
            for at in first..=last {
                let bounds = Ends { from: None, to: max.get(at).map(|value| (value, Limit::Exclusive)) };
                pieces.extend(piece(max, at, bounds, directions));
            }
        }
        pieces
    }
}

/// The ends of the values of one field, in the direction of the field. An absent one is the first or the last value.
#[derive(Clone, Copy)]
struct Ends<'a> {
    from: Option<(&'a RawBson, Limit)>,
    to: Option<(&'a RawBson, Limit)>,
}

impl Ends<'_> {
    /// The values between the ends. Returns `None` if there are none.
    fn values(self, direction: Direction) -> Option<Interval> {
        let end = |end: Option<(&RawBson, Limit)>, otherwise: RawBson| match end {
            Some((value, limit)) => Bound { value: value.clone(), limit },
            None => Bound { value: otherwise, limit: Limit::Inclusive },
        };
        let (lower, upper) = match direction {
            Direction::Ascending => (self.from, self.to),
            Direction::Descending => (self.to, self.from),
        };
        Interval::new(end(lower, RawBson::MinKey), end(upper, RawBson::MaxKey))
    }
}

/// The bounds of the keys that are equal to `key` in the fields before `at`, and within `ends` there. Returns `None` if there
/// are no such keys.
fn piece(key: &[RawBson], at: usize, ends: Ends<'_>, directions: &[Direction]) -> Option<Vec<Intervals>> {
    let within = ends.values(*directions.get(at)?)?;
    let equal = key.iter().take(at).map(|value| Interval::point(value.clone()));
    let mut bounds: Vec<Intervals> = equal.chain([within]).map(Intervals::from).collect();
    bounds.resize(directions.len(), Intervals::all());
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Direction = Direction::Ascending;
    const DOWN: Direction = Direction::Descending;

    /// All keys of small numbers, in the order of an index.
    fn keys(directions: &[Direction]) -> Vec<Vec<i32>> {
        let mut keys = vec![Vec::new()];
        for direction in directions {
            let values: Vec<i32> = match direction {
                Direction::Ascending => (0..5).collect(),
                Direction::Descending => (0..5).rev().collect(),
            };
            keys = keys
                .iter()
                .flat_map(|key: &Vec<i32>| values.iter().map(move |value| [&key[..], &[*value]].concat()))
                .collect();
        }
        keys
    }

    /// Checks the pieces of a range against the keys that lie in it, which are the keys between two positions.
    #[track_caller]
    fn check(directions: &[Direction], min: Option<usize>, max: Option<usize>) {
        let keys = keys(directions);
        let value =
            |at: usize| keys.get(at).map(|key| key.iter().map(|value| RawBson::Int32(*value)).collect());
        let range = EntryRange { min: min.and_then(value), max: max.and_then(value) };
        let pieces = range.pieces(directions);
        assert!(pieces.len() < 2 * directions.len(), "{range:?} has {} pieces", pieces.len());
        let is_in = |key: &[i32], piece: &[Intervals]| {
            let mut fields = key.iter().zip(piece);
            fields.all(|(value, set)| set.contains(RawBson::Int32(*value).as_raw_bson_ref()))
        };
        // Piece by piece: each key once, and in the order of the index.
        let found: Vec<&Vec<i32>> =
            pieces.iter().flat_map(|piece| keys.iter().filter(|key| is_in(key, piece))).collect();
        let expected = keys.get(min.unwrap_or(0)..max.unwrap_or(keys.len())).unwrap_or_default();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{range:?}");
    }

    #[test]
    fn the_pieces_of_a_range_have_its_keys_in_order() {
        for directions in [&[UP][..], &[DOWN], &[UP, UP], &[UP, DOWN], &[DOWN, UP, DOWN]] {
            let count = keys(directions).len();
            for one in 0..count {
                check(directions, Some(one), None);
                check(directions, None, Some(one));
                for other in (0..count).step_by(if count > 25 { 7 } else { 1 }) {
                    check(directions, Some(one), Some(other));
                }
            }
        }
        check(&[UP, DOWN], None, None);
    }

    #[test]
    fn the_ends_of_a_range_have_any_type() {
        let range = EntryRange { min: Some(vec![RawBson::String("x".to_owned())]), max: None };
        let pieces = range.pieces(&[UP]);
        let holds = |value: RawBson| pieces.iter().any(|piece| piece[0].contains(value.as_raw_bson_ref()));
        assert!(
            holds(RawBson::Boolean(true)) && holds(RawBson::MaxKey) && holds(RawBson::String("x".into()))
        );
        assert!(!holds(RawBson::Int32(9)) && !holds(RawBson::Null));
        // Nothing comes after the last value.
        let above = EntryRange { min: Some(vec![RawBson::MaxKey, RawBson::Int32(1)]), max: None };
        assert_eq!(above.pieces(&[UP, UP]).len(), 1);
    }

    #[test]
    fn a_range_without_entries_does_not_ascend() {
        let key = |number| Some(vec![RawBson::Int32(number)]);
        let range = EntryRange { min: key(1), max: key(5) };
        assert_eq!((range.order(&[UP]), range.order(&[DOWN])), (Ordering::Less, Ordering::Greater));
        assert_eq!(EntryRange { min: key(1), max: key(1) }.order(&[UP]), Ordering::Equal);
        assert_eq!(EntryRange { min: key(9), max: None }.order(&[DOWN]), Ordering::Less);
    }
}
