//! Sets of values of one field: sorted lists of intervals in the order of [`compare`](crate::order::compare).
//!
//! [`Interval::above`] and [`Interval::below`] say what a filter means by `$gt: 5` (numbers only, no NaN).
//! How the sets become key ranges is in `range`. This module knows no rule for arrays: each value counts as a
//! whole.
//!
//! The invariant: the intervals of an [`Intervals`] ascend, are not empty, and neither overlap nor touch.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock, OnceLock};

use bson::raw::{RawArrayBuf, RawDocumentBuf, RawJavaScriptCodeWithScope, cstr};
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawBson, RawBsonRef, RawDocument, Regex, Timestamp};

use crate::order::{self, TypeClass};

/// Whether a bound belongs to its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The bound belongs to the interval.
    Inclusive,
    /// The bound is the first value outside of the interval.
    Exclusive,
}

/// One end of an interval.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The value at the end.
    pub value: RawBson,
    /// Whether the value itself belongs to the interval.
    pub limit: Limit,
}

/// All values from a lower to an upper bound. The lower bound is always below the upper one.
///
/// ```
/// use bson::{RawBson, RawBsonRef};
/// use cairndb_index::interval::{Bound, Interval, Limit};
///
/// let bound = |value, limit| Bound { value: RawBson::Int32(value), limit };
/// let interval = Interval::new(bound(1, Limit::Inclusive), bound(3, Limit::Exclusive)).unwrap();
/// assert!(interval.contains(RawBsonRef::Double(2.5)) && !interval.contains(RawBsonRef::Int32(3)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    lower: Cut,
    upper: Cut,
}

impl Interval {
    /// The values between two bounds. Returns `None` if no value can lie between them.
    pub fn new(lower: Bound, upper: Bound) -> Option<Self> {
        Self::between(
            Cut { value: lower.value, after: lower.limit == Limit::Exclusive },
            Cut { value: upper.value, after: upper.limit == Limit::Inclusive },
        )
    }

    /// One value, with all values that are equal to it: `1` is `1.0`.
    pub fn point(value: RawBson) -> Self {
        Self { lower: Cut::before(value.clone()), upper: Cut::after(value) }
    }

    /// Every value.
    pub fn full() -> Self {
        Self { lower: Cut::before(RawBson::MinKey), upper: Cut::after(RawBson::MaxKey) }
    }

    /// Every value of a class.
    pub fn class(class: TypeClass) -> Self {
        Self { lower: Cut::before(least(class)), upper: end_of(class) }
    }

    /// The values that `$gt` and `$gte` select: larger values of the same class. For `MinKey` that is every other
    /// value.
    ///
    /// No value is larger than NaN. An inclusive null selects null; the filter adds undefined to it.
    pub fn above(value: RawBson, limit: Limit) -> Option<Self> {
        let class = order::type_class(value.as_raw_bson_ref());
        // MongoDB compares within the class of the operand (type bracketing), except that `MinKey` and
        // `MaxKey` compare with every value. NaN is the lowest number: without its own case `$gte: NaN` would
        // include all numbers.
        let upper = if class == TypeClass::MinKey {
            Cut::after(RawBson::MaxKey)
        } else if is_nan(&value) {
            Cut::after(value.clone())
        } else {
            end_of(class)
        };
        Self::between(Cut { value, after: limit == Limit::Exclusive }, upper)
    }

    /// The values that `$lt` and `$lte` select: smaller values of the same class. For `MaxKey` that is every other
    /// value.
    ///
    /// NaN is not smaller than a number. An inclusive null selects null; the filter adds undefined to it.
    pub fn below(value: RawBson, limit: Limit) -> Option<Self> {
        let class = order::type_class(value.as_raw_bson_ref());
        let lower = if class == TypeClass::MaxKey {
            Cut::before(RawBson::MinKey)
        } else if class == TypeClass::Number && !is_nan(&value) {
            // NaN sorts below all numbers, but no filter with `$lt` selects it.
            Cut::before(RawBson::Double(f64::NEG_INFINITY))
        } else {
            Cut::before(least(class))
        };
        Self::between(lower, Cut { value, after: limit == Limit::Inclusive })
    }

    /// The lower bound, and whether it belongs to the interval.
    pub fn lower(&self) -> (RawBsonRef<'_>, Limit) {
        let limit = if self.lower.after { Limit::Exclusive } else { Limit::Inclusive };
        (self.lower.value.as_raw_bson_ref(), limit)
    }

    /// The upper bound, and whether it belongs to the interval.
    pub fn upper(&self) -> (RawBsonRef<'_>, Limit) {
        let limit = if self.upper.after { Limit::Inclusive } else { Limit::Exclusive };
        (self.upper.value.as_raw_bson_ref(), limit)
    }

    /// Whether all values of the interval are equal.
    pub fn is_point(&self) -> bool {
        !self.lower.after
            && self.upper.after
            && order::compare(self.lower.value.as_raw_bson_ref(), self.upper.value.as_raw_bson_ref()).is_eq()
    }

    /// Whether a value lies in the interval.
    pub fn contains(&self, value: RawBsonRef<'_>) -> bool {
        self.lower.is_below(value) && !self.upper.is_below(value)
    }

    fn between(lower: Cut, upper: Cut) -> Option<Self> {
        if lower.compare(&upper).is_lt() { Some(Self { lower, upper }) } else { None }
    }
}

/// A set of values: intervals in ascending order with gaps between them. Clones share the list.
///
/// ```
/// use bson::{RawBson, RawBsonRef};
/// use cairndb_index::interval::{Interval, Intervals};
///
/// let point = |value| Interval::point(RawBson::Int32(value));
/// let set = Intervals::from_any([point(7), point(3)]);
/// assert!(set.contains(RawBsonRef::Int32(3)) && !set.contains(RawBsonRef::Int32(5)));
/// ```
#[derive(Clone, Debug)]
pub struct Intervals {
    list: Arc<IntervalList>,
}

/// The intervals of a set.
#[derive(Debug, Default)]
struct IntervalList {
    intervals: Vec<Interval>,
    /// Whether all of them are points, once that was asked for: planning asks often, and of lists of many thousands.
    are_points: OnceLock<bool>,
}

/// The sets that nearly every plan has, made once.
static NONE: LazyLock<Intervals> = LazyLock::new(|| Intervals::of_list(Vec::new()));
static ALL: LazyLock<Intervals> = LazyLock::new(|| Intervals::of_list(vec![Interval::full()]));

impl Intervals {
    /// The set without any value.
    pub fn none() -> Self {
        NONE.clone()
    }

    /// The set of all values.
    pub fn all() -> Self {
        ALL.clone()
    }

    /// The values that lie in any of the given intervals, which may overlap and come in any order.
    pub fn from_any(intervals: impl IntoIterator<Item = Interval>) -> Self {
        // By their lower ends, so each interval can only join the last one.
        let mut sorted: Vec<Interval> = intervals.into_iter().collect();
        sorted.sort_by(|left, right| left.lower.compare(&right.lower));
        // In place: a list of many thousands is not held twice.
        sorted.dedup_by(|next, last| {
            // Intervals that only touch are joined too: `is_all` and `contains` rely on gaps.
            let joins = next.lower.compare(&last.upper).is_le();
            if joins && last.upper.compare(&next.upper).is_lt() {
                std::mem::swap(&mut last.upper, &mut next.upper);
            }
            joins
        });
        Self::of_list(sorted)
    }

    /// The values that lie in either set.
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() || self.shares_list(&other) {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self::from_any(self.into_iter().chain(other))
    }

    /// The values that lie in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_all() || self.shares_list(other) {
            return other.clone();
        }
        if other.is_all() {
            return self.clone();
        }
        let (mut left, mut right) = (self.as_slice().iter().peekable(), other.as_slice().iter().peekable());
        // Two ranges meet in one, and two lists seldom in more than the shorter one has.
        let mut intervals = Vec::with_capacity(left.len().min(right.len()));
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            let lower = if first.lower.compare(&second.lower).is_lt() { &second.lower } else { &first.lower };
            let is_first_shorter = first.upper.compare(&second.upper).is_lt();
            let upper = if is_first_shorter { &first.upper } else { &second.upper };
            // Compared before they are cloned: most intervals of two lists do not meet.
            if lower.compare(upper).is_lt() {
                intervals.push(Interval { lower: lower.clone(), upper: upper.clone() });
            }
            // The interval that ends first meets nothing that comes later in the other set.
            if is_first_shorter {
                left.next()
            } else {
                right.next()
            };
        }
        Self::of_list(intervals)
    }

    /// The values that lie in all of some sets: every value, if there is no set.
    ///
    /// ```
    /// use bson::{RawBson, RawBsonRef};
    /// use cairndb_index::interval::{Interval, Intervals};
    ///
    /// let points = |values: [i32; 2]| Intervals::from_any(values.map(|value| Interval::point(RawBson::Int32(value))));
    /// let both = Intervals::in_all(vec![points([1, 2]), points([2, 3])]);
    /// assert!(both.contains(RawBsonRef::Int32(2)) && both.as_slice().len() == 1);
    /// ```
    pub fn in_all(mut sets: Vec<Self>) -> Self {
        if let [first, second] = sets.as_slice() {
            return first.intersection(second);
        }
        // Sets are intersected in pairs, then the results in pairs. Each interval is read log2(n) times so.
        // Intersecting one set after the other would read it n times.
        while sets.len() > 1 {
            let pairs = sets.chunks(2).map(|pair| match pair {
                [first, second] => first.intersection(second),
                [only, ..] => only.clone(),
                [] => Self::all(),
            });
            sets = pairs.collect();
        }
        sets.pop().unwrap_or_else(Self::all)
    }

    /// The values that do not lie in the set.
    pub fn complement(&self) -> Self {
        // The gaps before, between and after the intervals. `between` drops a gap that holds no value, as the
        // one before an interval that starts at `MinKey`.
        let mut intervals = Vec::with_capacity(self.as_slice().len() + 1);
        let mut lower = Cut::before(RawBson::MinKey);
        for interval in self.as_slice() {
            intervals.extend(Interval::between(lower, interval.lower.clone()));
            lower = interval.upper.clone();
        }
        intervals.extend(Interval::between(lower, Cut::after(RawBson::MaxKey)));
        Self::of_list(intervals)
    }

    /// Whether the set holds a value.
    pub fn contains(&self, value: RawBsonRef<'_>) -> bool {
        // Intervals are disjoint, so only the last one that starts at or below the value can hold it.
        let intervals = self.as_slice();
        let after = intervals.partition_point(|interval| interval.lower.is_below(value));
        after.checked_sub(1).and_then(|at| intervals.get(at)).is_some_and(|last| last.contains(value))
    }

    /// The intervals in ascending order.
    pub fn as_slice(&self) -> &[Interval] {
        &self.list.intervals
    }

    /// Whether there is no interval, and so no value.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Whether every interval is a point.
    pub fn is_points(&self) -> bool {
        *self.list.are_points.get_or_init(|| self.as_slice().iter().all(Interval::is_point))
    }

    /// Whether both are one list in memory, so that they are the same set without a look at it.
    pub fn shares_list(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.list, &other.list)
    }

    /// Whether the set holds every value.
    pub fn is_all(&self) -> bool {
        // Intervals do not touch, so a set of several has gaps.
        let [only] = self.as_slice() else { return false };
        only.lower.compare(&Cut::before(RawBson::MinKey)).is_le()
            && only.upper.compare(&Cut::after(RawBson::MaxKey)).is_ge()
    }

    fn of_list(intervals: Vec<Interval>) -> Self {
        Self { list: Arc::new(IntervalList { intervals, are_points: OnceLock::new() }) }
    }
}

impl Default for Intervals {
    /// The set without any value.
    fn default() -> Self {
        Self::none()
    }
}

impl PartialEq for Intervals {
    fn eq(&self, other: &Self) -> bool {
        self.shares_list(other) || self.as_slice() == other.as_slice()
    }
}

impl IntoIterator for Intervals {
    type Item = Interval;
    type IntoIter = std::vec::IntoIter<Interval>;

    /// The intervals in ascending order.
    fn into_iter(self) -> Self::IntoIter {
        // A list that others have too is copied.
        Arc::try_unwrap(self.list)
            .map_or_else(|list| list.intervals.clone(), |list| list.intervals)
            .into_iter()
    }
}

impl From<Interval> for Intervals {
    fn from(interval: Interval) -> Self {
        Self::of_list(vec![interval])
    }
}

/// A cut between values: just before or just after one of them. An interval is a pair of cuts.
#[derive(Clone, Debug, PartialEq)]
struct Cut {
    value: RawBson,
    after: bool,
}

impl Cut {
    fn before(value: RawBson) -> Self {
        Self { value, after: false }
    }

    fn after(value: RawBson) -> Self {
        Self { value, after: true }
    }

    fn compare(&self, other: &Self) -> Ordering {
        // At one value, the cut before it is the lower one: `false` sorts below `true`.
        order::compare(self.value.as_raw_bson_ref(), other.value.as_raw_bson_ref())
            .then(self.after.cmp(&other.after))
    }

    fn is_below(&self, value: RawBsonRef<'_>) -> bool {
        match order::compare(self.value.as_raw_bson_ref(), value) {
            Ordering::Less => true,
            Ordering::Equal => !self.after,
            Ordering::Greater => false,
        }
    }
}

fn is_nan(value: &RawBson) -> bool {
    order::compare(value.as_raw_bson_ref(), RawBsonRef::Double(f64::NAN)).is_eq()
}

/// The cut after the last value of a class. Most classes have no largest value and end where the next class
/// starts.
fn end_of(class: TypeClass) -> Cut {
    let next = match class {
        TypeClass::MinKey | TypeClass::Undefined | TypeClass::Null | TypeClass::MaxKey => {
            return Cut::after(least(class));
        }
        TypeClass::Number => TypeClass::String,
        TypeClass::String => TypeClass::Object,
        TypeClass::Object => TypeClass::Array,
        TypeClass::Array => TypeClass::Binary,
        TypeClass::Binary => TypeClass::ObjectId,
        TypeClass::ObjectId => TypeClass::Boolean,
        TypeClass::Boolean => return Cut::after(RawBson::Boolean(true)),
        TypeClass::Date => TypeClass::Timestamp,
        TypeClass::Timestamp => TypeClass::RegularExpression,
        TypeClass::RegularExpression => TypeClass::DbPointer,
        TypeClass::DbPointer => TypeClass::Code,
        TypeClass::Code => TypeClass::CodeWithScope,
        TypeClass::CodeWithScope => TypeClass::MaxKey,
    };
    Cut::before(least(next))
}

/// The smallest value of a class.
fn least(class: TypeClass) -> RawBson {
    match class {
        TypeClass::MinKey => RawBson::MinKey,
        TypeClass::Undefined => RawBson::Undefined,
        TypeClass::Null => RawBson::Null,
        TypeClass::Number => RawBson::Double(f64::NAN),
        TypeClass::String => RawBson::String(String::new()),
        TypeClass::Object => RawBson::Document(RawDocumentBuf::new()),
        TypeClass::Array => RawBson::Array(RawArrayBuf::new()),
        TypeClass::Binary => RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() }),
        TypeClass::ObjectId => RawBson::ObjectId(bson::oid::ObjectId::from_bytes([0; 12])),
        TypeClass::Boolean => RawBson::Boolean(false),
        TypeClass::Date => RawBson::DateTime(DateTime::MIN),
        TypeClass::Timestamp => RawBson::Timestamp(Timestamp { time: 0, increment: 0 }),
        TypeClass::RegularExpression => {
            RawBson::RegularExpression(Regex { pattern: cstr!("").into(), options: cstr!("").into() })
        }
        TypeClass::DbPointer => least_pointer(),
        TypeClass::Code => RawBson::JavaScriptCode(String::new()),
        TypeClass::CodeWithScope => RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope {
            code: String::new(),
            scope: RawDocumentBuf::new(),
        }),
        TypeClass::MaxKey => RawBson::MaxKey,
    }
}

/// A pointer to the empty namespace and the zero id. `bson` can read such a value but not build it.
fn least_pointer() -> RawBson {
    let bytes = b"\x18\0\0\0\x0c\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let pointer = RawDocument::from_bytes(bytes).ok().and_then(|document| document.get("").ok().flatten());
    // The bytes are constant and well-formed, so the pointer is always read. Code is the class that follows.
    pointer.map_or(RawBson::JavaScriptCode(String::new()), RawBson::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proptest_support::{any_value, db_pointer};
    use bson::Bson;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn raw(value: impl Into<Bson>) -> RawBson {
        RawBson::try_from(value.into()).unwrap()
    }

    fn bound(value: RawBson, limit: Limit) -> Bound {
        Bound { value, limit }
    }

    /// Which of some values lie within, as text.
    #[track_caller]
    fn check(set: impl Into<Intervals>, inside: &[Bson], outside: &[Bson]) {
        let set = set.into();
        for (values, expected) in [(inside, true), (outside, false)] {
            for value in values {
                assert_eq!(set.contains(raw(value.clone()).as_raw_bson_ref()), expected, "{value}");
            }
        }
    }

    fn check_sorted(set: &Intervals) {
        for pair in set.as_slice().windows(2) {
            assert!(pair[0].upper.compare(&pair[1].lower).is_lt(), "{pair:?}");
        }
        for interval in set.as_slice() {
            assert!(interval.lower.compare(&interval.upper).is_lt(), "{interval:?}");
        }
    }

    fn nan() -> Bson {
        f64::NAN.into()
    }

    fn infinity() -> Bson {
        f64::INFINITY.into()
    }

    #[test]
    fn comparisons_stay_in_their_class() {
        let above = Interval::above(raw(5), Limit::Exclusive).unwrap();
        check(
            above,
            &[6.into(), 5.5.into(), infinity()],
            &[5.into(), 5.0.into(), nan(), "".into(), Bson::Null],
        );
        let below = Interval::below(raw(5), Limit::Inclusive).unwrap();
        check(below, &[5.into(), 5_i64.into(), f64::NEG_INFINITY.into()], &[5.5.into(), nan(), Bson::Null]);
        let above = Interval::above(raw("b"), Limit::Inclusive).unwrap();
        check(above, &["b".into(), Bson::Symbol("c".into())], &["a".into(), bson::doc! {}.into(), 9.into()]);
        let below = Interval::below(raw(true), Limit::Exclusive).unwrap();
        check(below, &[false.into()], &[true.into(), bson::oid::ObjectId::from_bytes([255; 12]).into()]);
    }

    #[test]
    fn nan_compares_with_nan_alone() {
        assert!(Interval::above(raw(nan()), Limit::Exclusive).is_none());
        assert!(Interval::below(raw(nan()), Limit::Exclusive).is_none());
        for same in
            [Interval::above(raw(nan()), Limit::Inclusive), Interval::below(raw(nan()), Limit::Inclusive)]
        {
            check(same.unwrap(), &[nan()], &[f64::NEG_INFINITY.into(), 0.into(), Bson::Null]);
        }
    }

    #[test]
    fn null_is_neither_above_nor_below_itself() {
        assert!(Interval::below(raw(Bson::Null), Limit::Exclusive).is_none());
        assert!(Interval::above(raw(Bson::Null), Limit::Exclusive).is_none());
        let same = Interval::above(raw(Bson::Null), Limit::Inclusive).unwrap();
        check(same, &[Bson::Null], &[Bson::Undefined, nan()]);
    }

    #[test]
    fn the_outermost_keys_compare_with_everything() {
        let all = [Bson::Undefined, 1.into(), "x".into(), true.into()];
        check(Interval::above(raw(Bson::MinKey), Limit::Exclusive).unwrap(), &all, &[Bson::MinKey]);
        check(Interval::above(raw(Bson::MinKey), Limit::Exclusive).unwrap(), &[Bson::MaxKey], &[]);
        check(Interval::below(raw(Bson::MaxKey), Limit::Exclusive).unwrap(), &all, &[Bson::MaxKey]);
        check(Interval::below(raw(Bson::MaxKey), Limit::Exclusive).unwrap(), &[Bson::MinKey], &[]);
        assert!(Interval::below(raw(Bson::MinKey), Limit::Exclusive).is_none());
        assert!(Interval::above(raw(Bson::MaxKey), Limit::Exclusive).is_none());
    }

    #[test]
    fn the_least_pointer_is_a_pointer() {
        let expected = raw(db_pointer("", [0; 12]));
        assert_eq!(least(TypeClass::DbPointer), expected);
    }

    #[test]
    fn empty_and_reversed_bounds_give_no_interval() {
        let new = |low, low_limit, high, high_limit| {
            Interval::new(bound(raw(low), low_limit), bound(raw(high), high_limit))
        };
        assert!(new(2, Limit::Inclusive, 1, Limit::Inclusive).is_none());
        assert!(new(1, Limit::Exclusive, 1, Limit::Inclusive).is_none());
        assert!(new(1, Limit::Inclusive, 1, Limit::Exclusive).is_none());
        assert!(new(1, Limit::Inclusive, 1, Limit::Inclusive).unwrap().is_point());
        assert!(!new(1, Limit::Inclusive, 2, Limit::Inclusive).unwrap().is_point());
    }

    #[test]
    fn neighbors_are_merged() {
        let half =
            |low, high| Interval::new(bound(raw(low), Limit::Inclusive), bound(raw(high), Limit::Exclusive));
        let merged = Intervals::from_any([half(3, 5), half(1, 3)].into_iter().flatten());
        assert_eq!(merged.as_slice().len(), 1);
        let apart = Intervals::from_any([half(4, 5), half(1, 3)].into_iter().flatten());
        assert_eq!(apart.as_slice().len(), 2);
        check(apart, &[1.into(), 4.into()], &[3.into(), 5.into()]);
    }

    #[test]
    fn all_and_none_are_complements() {
        assert!(Intervals::all().is_all() && Intervals::all().complement().is_empty());
        assert!(Intervals::none().is_empty() && Intervals::none().complement().is_all());
        check(
            Intervals::from(Interval::point(raw(1))).complement(),
            &[2.into(), "1".into()],
            &[1.into(), 1.0.into()],
        );
    }

    fn any_bound() -> impl Strategy<Value = Bound> {
        let values = prop_oneof![3 => (0..6).prop_map(Bson::Int32), 1 => any_value()];
        (values, select(vec![Limit::Inclusive, Limit::Exclusive]))
            .prop_map(|(value, limit)| bound(raw(value), limit))
    }

    fn any_list() -> impl Strategy<Value = Vec<Interval>> {
        vec((any_bound(), any_bound()).prop_map(|(lower, upper)| Interval::new(lower, upper)), 0..5)
            .prop_map(|intervals| intervals.into_iter().flatten().collect())
    }

    proptest! {
        #[test]
        fn a_class_holds_its_values_and_no_others(value in any_value(), other in any_value()) {
            let (value, other) = (raw(value), raw(other));
            let class = order::type_class(value.as_raw_bson_ref());
            let interval = Interval::class(class);
            prop_assert!(interval.contains(value.as_raw_bson_ref()));
            let is_same = order::type_class(other.as_raw_bson_ref()) == class;
            prop_assert_eq!(interval.contains(other.as_raw_bson_ref()), is_same);
        }

        #[test]
        fn above_and_below_are_the_comparisons(operand in any_value(), value in any_value()) {
            let (operand, value) = (raw(operand), raw(value));
            let (left, right) = (value.as_raw_bson_ref(), operand.as_raw_bson_ref());
            let class = order::type_class(right);
            let outermost = matches!(class, TypeClass::MinKey | TypeClass::MaxKey);
            let is_bracketed = outermost || order::type_class(left) == class;
            let is_ordered = is_bracketed && is_nan(&value) == is_nan(&operand);
            let order = order::compare(left, right);
            for (limit, is_equal_in) in [(Limit::Inclusive, true), (Limit::Exclusive, false)] {
                let inside = |interval: Option<Interval>| interval.is_some_and(|interval| interval.contains(left));
                let (is_above, is_below) =
                    if outermost { (order.is_gt(), order.is_lt()) } else { (is_ordered && order.is_gt(), is_ordered && order.is_lt()) };
                prop_assert_eq!(inside(Interval::above(operand.clone(), limit)), is_above || is_equal_in && order.is_eq());
                prop_assert_eq!(inside(Interval::below(operand.clone(), limit)), is_below || is_equal_in && order.is_eq());
            }
        }

        #[test]
        fn sets_behave_as_sets(
            left in any_list(),
            right in any_list(),
            probes in vec(prop_oneof![(0..6).prop_map(Bson::Int32), any_value()], 1..6),
        ) {
            let (first, second) = (Intervals::from_any(left.clone()), Intervals::from_any(right));
            let (union, both) = (first.clone().union(second.clone()), first.intersection(&second));
            let outside = first.complement();
            [&first, &second, &union, &both, &outside].into_iter().for_each(check_sorted);
            let ends = left.iter().flat_map(|interval| [&interval.lower.value, &interval.upper.value]).cloned();
            for value in probes.into_iter().map(raw).chain(ends) {
                let value = value.as_raw_bson_ref();
                let (in_first, in_second) = (first.contains(value), second.contains(value));
                prop_assert_eq!(in_first, left.iter().any(|interval| interval.contains(value)));
                prop_assert_eq!(union.contains(value), in_first || in_second);
                prop_assert_eq!(both.contains(value), in_first && in_second);
                prop_assert_eq!(outside.contains(value), !in_first);
            }
        }
    }
}
