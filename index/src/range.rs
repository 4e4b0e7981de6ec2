//! Bounds on an index's leading fields as ranges of its keys.
//!
//! Keys sort by the first field, then the second, and so on. So after single values of a field the bounds of
//! the next field narrow the ranges too. After a wider bound they cannot, and the caller filters the keys by
//! the remaining bounds. The planner decides which bounds a filter implies, and whether the arrays of an
//! index allow combining them.
//!
//! Ranges are made one by one on request, because bounds on several fields multiply.
//!
//! The invariant: ranges ascend, are disjoint, and hold every key whose values lie within the bounds.

use bson::RawBsonRef;

use crate::interval::{Interval, Intervals, Limit};
use crate::key::{Direction, FIELD_BYTES_MAX, LongKeys};
use crate::spec::IndexSpec;

/// The limit of ranges to which the values of several fields may multiply before wider ranges are used instead.
/// Bounds on the first field alone are not limited.
pub(crate) const PRODUCT_MAX: usize = 1 << 20;

/// The keys from `start` up to `end`, without `end` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may belong to the range.
    pub start: Vec<u8>,
    /// The first key after the range. `None` if the range goes to the end of the index.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// The range of all keys.
    pub fn full() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: Vec<u8>) -> Self {
        let end = prefix_successor(&prefix);
        Self { start: prefix, end }
    }

    /// Whether a key lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// Whether ranges hold more keys than their bounds ask for.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_index::interval::{Interval, Intervals};
/// use cairndb_index::range::{Exactness, key_ranges};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// // A bound on the second field alone narrows nothing, because keys sort by the first.
/// let spec = IndexSpec::parse(&rawdoc! { "a": 1, "b": 1 }, SpecOptions::default())?;
/// let five = Intervals::from(Interval::point(RawBson::Int32(5)));
/// let ranges = key_ranges(&spec, &[Intervals::all(), five]);
/// assert_eq!(ranges.exactness(), Exactness::Wider);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// They hold exactly the keys whose values lie within the bounds.
    Exact,
    /// They may hold other keys too, which the caller has to filter out.
    Wider,
}

/// The key ranges of bounds: disjoint, in ascending order of keys, each made on request. Empty if no key can
/// lie within the bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRanges {
    /// For each leading field that is bounded by single values: the key bytes of these values.
    points: Vec<Vec<Vec<u8>>>,
    /// The ranges of the field after those, if it is bounded by intervals.
    last: Option<Vec<KeyRange>>,
    len: usize,
    fields_max: usize,
    exactness: Exactness,
}

impl KeyRanges {
    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no range, and so no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the ranges hold more keys than the bounds ask for.
    pub fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// The number of leading fields that have narrowed the ranges.
    pub fn fields_used(&self) -> usize {
        self.points.len() + usize::from(self.last.is_some())
    }

    /// Whether every range fixes each field of the index to one value. In a unique index such a range has at
    /// most one key.
    pub fn are_points(&self) -> bool {
        self.last.is_none() && self.points.len() == self.fields_max
    }

    /// The range at a position, counted from the lowest. Returns `None` if there are fewer ranges.
    pub fn get(&self, position: usize) -> Option<KeyRange> {
        if position >= self.len {
            return None;
        }
        let mut piece = None;
        let mut rest = position;
        if let Some(pieces) = &self.last {
            piece = pieces.get(rest % pieces.len());
            rest /= pieces.len();
        }
        // The position is a number with one digit for each field, the last field's digit being the lowest.
        // Each digit chooses a value of its field, so ascending positions give ascending keys.
        let mut chosen = Vec::with_capacity(self.points.len());
        for values in self.points.iter().rev() {
            chosen.push(values.get(rest % values.len()).map(Vec::as_slice).unwrap_or_default());
            rest /= values.len();
        }
        chosen.reverse();
        let prefix = chosen.concat();
        Some(piece.map_or_else(|| KeyRange::prefix(prefix.clone()), |piece| within(&prefix, piece)))
    }

    /// The ranges in ascending order, each made when the iterator reaches it.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = KeyRange> + '_ {
        (0..self.len).filter_map(|position| self.get(position))
    }
}

/// Turns bounds on the leading fields of an index into key ranges.
///
/// `bounds` holds one set of values for each of the first fields, in the order of the spec; later fields are
/// not bounded. Bounds beyond the last field are ignored, which makes the result wider.
///
/// # Examples
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_index::interval::{Interval, Intervals, Limit};
/// use cairndb_index::range::{Exactness, key_ranges};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1, "age": -1 }, SpecOptions::default())?;
/// let city = Intervals::from(Interval::point(RawBson::String("Oslo".into())));
/// let age = Intervals::from_any(Interval::above(RawBson::Int32(30), Limit::Exclusive));
/// let ranges = key_ranges(&spec, &[city, age]);
/// assert_eq!((ranges.len(), ranges.exactness()), (1, Exactness::Exact));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn key_ranges(spec: &IndexSpec, bounds: &[Intervals]) -> KeyRanges {
    let fields_max = spec.fields().len();
    let mut found =
        KeyRanges { points: Vec::new(), last: None, len: 1, fields_max, exactness: Exactness::Exact };
    if bounds.iter().any(Intervals::is_empty) {
        return KeyRanges { len: 0, ..found };
    }
    let bounded = bounds.iter().rposition(|set| !set.is_all()).map_or(0, |last| last + 1);
    if bounded > fields_max {
        found.exactness = Exactness::Wider;
    }
    // Each field fixed to single values multiplies the ranges and lets the next field narrow them. The first
    // field with a wider bound is the last one that counts, since later fields do not sort the keys any more.
    for (used, (field, set)) in spec.fields().iter().zip(bounds).take(bounded).enumerate() {
        if set.is_all() {
            found.exactness = Exactness::Wider;
            return found;
        }
        let product = found.len.saturating_mul(set.as_slice().len());
        // Two `$in` lists of thousands would multiply to millions of seeks. Then one range from the lowest to
        // the highest value is cheaper, and a filter drops what is too much.
        let fits = used == 0 || product <= PRODUCT_MAX;
        if fits && set.is_points() {
            let points = field_points(set, spec.long_keys(), field.direction);
            found.len = found.len.saturating_mul(points.values.len());
            found.points.push(points.values);
            if points.exactness == Exactness::Wider {
                found.exactness = Exactness::Wider;
            }
            continue;
        }
        let FieldPieces { pieces, exactness } = field_pieces(set, spec.long_keys(), field.direction);
        let pieces = if fits { pieces } else { hull(pieces) };
        if !fits || used + 1 < bounded || exactness == Exactness::Wider {
            found.exactness = Exactness::Wider;
        }
        found.len = found.len.saturating_mul(pieces.len());
        found.last = Some(pieces);
        return found;
    }
    found
}

/// The smallest byte string above every one that starts with `prefix`. Returns `None` if there is no such
/// string.
pub(crate) fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    // A byte of 0xff cannot grow, so it is cut off and the byte before it grows instead.
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut successor = prefix.get(..=kept)?.to_vec();
    if let Some(last) = successor.last_mut() {
        *last += 1;
    }
    Some(successor)
}

/// The key bytes of values, in ascending order of the bytes, and whether other values may have them too.
struct FieldPoints {
    values: Vec<Vec<u8>>,
    exactness: Exactness,
}

fn field_points(set: &Intervals, long_keys: LongKeys, direction: Direction) -> FieldPoints {
    let mut exactness = Exactness::Exact;
    let points = set.as_slice().iter().map(|interval| {
        let mut bytes = Vec::new();
        // Both ends of a point are equal, so either has the key.
        if long_keys.encode(interval.lower().0, direction, &mut bytes) {
            exactness = Exactness::Wider;
        }
        bytes
    });
    let mut values: Vec<Vec<u8>> = points.collect();
    if direction == Direction::Descending {
        values.reverse();
    }
    if exactness == Exactness::Wider {
        // Shortened keys with one beginning come in the order of their digests.
        values.sort_unstable();
        values.dedup();
    }
    FieldPoints { values, exactness }
}

/// The ranges of one field's own key bytes that a set of values occupies, in ascending order of the bytes, and whether they hold
/// the keys of other values too.
pub(crate) struct FieldPieces {
    pub(crate) pieces: Vec<KeyRange>,
    pub(crate) exactness: Exactness,
}

pub(crate) fn field_pieces(set: &Intervals, long_keys: LongKeys, direction: Direction) -> FieldPieces {
    let mut exactness = Exactness::Exact;
    let pieces = set.as_slice().iter().map(|interval| {
        let (piece, own) = field_piece(interval, long_keys, direction);
        if own == Exactness::Wider {
            exactness = own;
        }
        piece
    });
    let mut pieces: Vec<KeyRange> = pieces.collect();
    if direction == Direction::Descending {
        pieces.reverse();
    }
    if exactness == Exactness::Wider {
        // Two of them may have grown up to the same beginning, and share its keys.
        pieces.dedup_by(|next, last| {
            let joins = last.end.as_ref().is_none_or(|end| next.start <= *end);
            if joins && last.end.is_some() {
                last.end = next.end.take();
            }
            joins
        });
    }
    FieldPieces { pieces, exactness }
}

fn field_piece(interval: &Interval, long_keys: LongKeys, direction: Direction) -> (KeyRange, Exactness) {
    let (first, last) = match direction {
        Direction::Ascending => (interval.lower(), interval.upper()),
        Direction::Descending => (interval.upper(), interval.lower()),
    };
    // No field's bytes are a prefix of another's, so all keys that start with them belong to that value.
    let (first, last) = (End::of(first, long_keys, direction), End::of(last, long_keys, direction));
    let exactness = if first.is_beginning || last.is_beginning { Exactness::Wider } else { Exactness::Exact };
    let start = match first.limit {
        Limit::Exclusive => prefix_successor(&first.bytes).unwrap_or(first.bytes),
        Limit::Inclusive => first.bytes,
    };
    let end = match last.limit {
        Limit::Inclusive => prefix_successor(&last.bytes),
        Limit::Exclusive => Some(last.bytes),
    };
    (KeyRange { start, end }, exactness)
}

/// The key bytes at an end of an interval.
struct End {
    bytes: Vec<u8>,
    limit: Limit,
    /// Whether they are only the beginning of the bytes, which values on both sides of the end may share.
    is_beginning: bool,
}

impl End {
    fn of(end: (RawBsonRef<'_>, Limit), long_keys: LongKeys, direction: Direction) -> Self {
        let (mut bytes, limit) = (Vec::new(), end.1);
        let is_beginning = long_keys.encode(end.0, direction, &mut bytes);
        if is_beginning {
            // Which of the values with this beginning belong to the interval their digests do not say: all may.
            bytes.truncate(FIELD_BYTES_MAX);
            return Self { bytes, limit: Limit::Inclusive, is_beginning };
        }
        Self { bytes, limit, is_beginning }
    }
}

/// The one range from the start of the first range to the end of the last.
fn hull(pieces: Vec<KeyRange>) -> Vec<KeyRange> {
    let end = pieces.last().and_then(|last| last.end.clone());
    pieces.into_iter().take(1).map(|first| KeyRange { start: first.start, end: end.clone() }).collect()
}

/// A range of a field's bytes, with the bytes of earlier fields before it.
fn within(prefix: &[u8], piece: &KeyRange) -> KeyRange {
    let start = [prefix, piece.start.as_slice()].concat();
    let end = match &piece.end {
        Some(end) => Some([prefix, end.as_slice()].concat()),
        None => prefix_successor(prefix),
    };
    KeyRange { start, end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Bound;
    use crate::proptest_support::{any_value, long_value};
    use crate::spec::SpecOptions;
    use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn spec(keys: &Document) -> IndexSpec {
        IndexSpec::parse(&RawDocumentBuf::try_from(keys).unwrap(), SpecOptions::default()).unwrap()
    }

    fn raw(value: impl Into<Bson>) -> RawBson {
        RawBson::try_from(value.into()).unwrap()
    }

    fn key(spec: &IndexSpec, values: &[Bson]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (value, field) in values.iter().zip(spec.fields()) {
            spec.long_keys().encode(raw(value.clone()).as_raw_bson_ref(), field.direction, &mut bytes);
        }
        bytes
    }

    fn points(values: impl IntoIterator<Item = i32>) -> Intervals {
        Intervals::from_any(values.into_iter().map(|value| Interval::point(raw(value))))
    }

    fn above(value: i32) -> Intervals {
        Intervals::from_any(Interval::above(raw(value), Limit::Exclusive))
    }

    #[track_caller]
    fn check(keys: &Document, bounds: &[Intervals], count: usize, exactness: Exactness, fields_used: usize) {
        let found = key_ranges(&spec(keys), bounds);
        assert_eq!((found.len(), found.exactness(), found.fields_used()), (count, exactness, fields_used));
        assert_eq!(found.iter().count(), count);
    }

    #[test]
    fn no_bounds_give_the_whole_index() {
        let found = key_ranges(&spec(&doc! { "a": 1 }), &[]);
        assert_eq!((found.get(0), found.exactness()), (Some(KeyRange::full()), Exactness::Exact));
        check(&doc! { "a": 1, "b": 1 }, &[Intervals::all(), Intervals::all()], 1, Exactness::Exact, 0);
    }

    #[test]
    fn an_empty_set_gives_no_range() {
        check(&doc! { "a": 1, "b": 1 }, &[points([1]), Intervals::none()], 0, Exactness::Exact, 0);
    }

    #[test]
    fn points_multiply_and_a_range_ends_the_use_of_fields() {
        let keys = doc! { "a": 1, "b": -1, "c": 1 };
        check(&keys, &[points([1, 2]), points([3, 4, 5])], 6, Exactness::Exact, 2);
        check(&keys, &[points([1, 2]), above(3)], 2, Exactness::Exact, 2);
        check(&keys, &[above(3), points([1, 2])], 1, Exactness::Wider, 1);
        check(&keys, &[points([1]), Intervals::all(), points([1])], 1, Exactness::Wider, 1);
        check(&keys, &[points([1]), Intervals::all()], 1, Exactness::Exact, 1);
        check(&keys, &[points([1]), points([2]), above(3)], 1, Exactness::Exact, 3);
    }

    /// 4,097 values of one field were widened to one range over all between them.
    #[test]
    fn many_values_of_the_first_field_stay_ranges_of_their_own() {
        let many = |count| points(0..count);
        check(&doc! { "a": 1 }, &[many(5_000)], 5_000, Exactness::Exact, 1);
        check(&doc! { "a": 1, "b": -1 }, &[many(64), many(65)], 4_160, Exactness::Exact, 2);
    }

    #[test]
    fn a_product_beyond_the_limit_widens_the_later_field() {
        let many = |count| points(0..count);
        let keys = doc! { "a": 1, "b": -1 };
        check(&keys, &[many(1_024), many(1_024)], PRODUCT_MAX, Exactness::Exact, 2);
        let wider = key_ranges(&spec(&keys), &[many(1_024), many(1_025)]);
        assert_eq!((wider.len(), wider.exactness(), wider.fields_used()), (1_024, Exactness::Wider, 2));
    }

    #[test]
    fn ranges_of_values_for_every_field_are_points() {
        let keys = doc! { "a": 1, "b": -1 };
        assert!(key_ranges(&spec(&keys), &[points([1]), points([2, 3])]).are_points());
        assert!(!key_ranges(&spec(&keys), &[points([1])]).are_points());
        assert!(!key_ranges(&spec(&keys), &[points([1]), above(2)]).are_points());
    }

    #[test]
    fn bounds_beyond_the_last_field_are_ignored() {
        check(&doc! { "a": 1 }, &[points([1]), points([2])], 1, Exactness::Wider, 1);
    }

    #[test]
    fn successors_drop_trailing_ones() {
        assert_eq!(prefix_successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_successor(b"\xff\xff"), None);
        assert_eq!(prefix_successor(b""), None);
    }

    fn small_value() -> impl Strategy<Value = Bson> {
        prop_oneof![
            4 => (0..5).prop_map(Bson::Int32),
            2 => long_value(),
            1 => Just(Bson::Null),
            1 => any_value(),
        ]
    }

    fn small_set() -> impl Strategy<Value = Intervals> {
        let limits = || select(vec![Limit::Inclusive, Limit::Exclusive]);
        let bounds =
            || (small_value(), limits()).prop_map(|(value, limit)| Bound { value: raw(value), limit });
        let point = small_value().prop_map(|value| Some(Interval::point(raw(value))));
        let wide = (bounds(), bounds()).prop_map(|(lower, upper)| Interval::new(lower, upper));
        prop_oneof![
            1 => Just(Intervals::all()),
            4 => vec(point, 0..4).prop_map(|list| Intervals::from_any(list.into_iter().flatten())),
            4 => vec(wide, 0..3).prop_map(|list| Intervals::from_any(list.into_iter().flatten())),
        ]
    }

    proptest! {
        #[test]
        fn a_key_lies_in_a_range_iff_its_values_lie_within_the_bounds(
            directions in vec(select(vec![1, -1]), 1..4),
            sets in vec(small_set(), 0..4),
            rows in vec(vec(small_value(), 3), 1..8),
            long_keys in select(vec![LongKeys::Whole, LongKeys::Shortened, LongKeys::Colliding]),
        ) {
            let names = ["a", "b", "c"].into_iter().map(String::from);
            let spec = spec(&names.zip(directions).map(|(name, direction)| (name, Bson::Int32(direction))).collect());
            let spec = spec.with_long_keys(long_keys);
            let found = key_ranges(&spec, &sets);
            let ranges: Vec<KeyRange> = found.iter().collect();
            prop_assert_eq!(ranges.len(), found.len());
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end.as_ref().is_some_and(|end| *end <= pair[1].start));
            }
            // The bounds' own values are the interesting ones.
            let ends = sets.iter().flat_map(Intervals::as_slice).flat_map(|interval| [interval.lower().0, interval.upper().0]);
            let ends: Vec<Bson> = ends.map(|value| Bson::try_from(value).unwrap()).collect();
            let on_ends = ends.iter().map(|end| vec![end.clone(); 3]);
            for row in rows.iter().cloned().chain(on_ends) {
                let bytes = key(&spec, &row);
                let lies_within = |set: &Intervals, value: &Bson| set.contains(raw(value.clone()).as_raw_bson_ref());
                let is_wanted = sets.iter().zip(&row).take(spec.fields().len()).all(|(set, value)| lies_within(set, value));
                let is_found = ranges.iter().filter(|range| range.contains(&bytes)).count();
                let has_surplus_bounds = sets.iter().any(Intervals::is_empty);
                prop_assert!(is_found <= 1);
                prop_assert!(is_found == 1 || !is_wanted || has_surplus_bounds);
                if found.exactness() == Exactness::Exact && !has_surplus_bounds {
                    prop_assert_eq!(is_found == 1, is_wanted);
                }
            }
        }
    }

    #[test]
    fn a_prefix_is_a_range_of_keys() {
        let range = KeyRange::prefix(b"ab".to_vec());
        assert!(range.contains(b"ab") && range.contains(b"ab\xff") && !range.contains(b"ac"));
        assert!(!range.contains(b"a"));
    }
}
