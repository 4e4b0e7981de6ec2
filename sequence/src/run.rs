//! A run of values: `count` terms of a progression, as they are handed out and listed as lost.

/// `count` values from `first` on, each `increment` beyond the one before. All of them fit 64 bits.
///
/// ```
/// use cairndb_sequence::run::Run;
///
/// let run = Run::new(10, -5, 3);
/// assert_eq!(run.values().collect::<Vec<_>>(), [10, 5, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    first: i64,
    increment: i64,
    count: u64,
}

impl Run {
    /// `count` values from `first` on.
    ///
    /// # Panics
    /// If the last value does not fit 64 bits: no sequence makes such a run.
    pub fn new(first: i64, increment: i64, count: u64) -> Self {
        let last = i128::from(first) + i128::from(increment) * i128::from(count.saturating_sub(1));
        assert!(i64::try_from(last).is_ok(), "a run of values leaves the 64-bit integers");
        Self { first, increment, count }
    }

    /// `count` values from `first` on, for numbers from outside. Returns `None` if a value does not fit 64 bits, or if
    /// `increment` is 0.
    pub fn checked(first: i64, increment: i64, count: u64) -> Option<Self> {
        // A count from damaged bytes can leave even 128 bits.
        let last = i128::from(first)
            .checked_add(i128::from(increment).checked_mul(i128::from(count.saturating_sub(1)))?)?;
        (increment != 0 && i64::try_from(last).is_ok()).then_some(Self { first, increment, count })
    }

    /// The first value.
    pub fn first(&self) -> i64 {
        self.first
    }

    /// Distance from one value to the next.
    pub fn increment(&self) -> i64 {
        self.increment
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the run has no value.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The last value. For an empty run, the value it would start with.
    pub fn last(&self) -> i64 {
        self.at(self.count.saturating_sub(1))
    }

    /// The value at a position below [`count`](Self::count), counted from 0.
    #[inline]
    pub fn at(&self, position: u64) -> i64 {
        // The product alone may leave 64 bits where the sum does not; wrapping arithmetic gives the right
        // sum.
        self.first.wrapping_add(self.increment.wrapping_mul(position.cast_signed()))
    }

    /// All values in order.
    pub fn values(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |position| self.at(position))
    }

    /// Whether `value` is one of the values.
    pub fn contains(&self, value: i64) -> bool {
        let distance = i128::from(value) - i128::from(self.first);
        self.reaches(value) && distance % i128::from(self.increment) == 0
    }

    /// Whether `value` lies from the first value to the last.
    pub(crate) fn reaches(&self, value: i64) -> bool {
        let (low, high) =
            if self.increment > 0 { (self.first, self.last()) } else { (self.last(), self.first) };
        !self.is_empty() && (low..=high).contains(&value)
    }

    /// The run without its last value, if that is `value`.
    pub(crate) fn but_last(self, value: i64) -> Self {
        if self.last() == value { self.slice(0, self.count.saturating_sub(1)) } else { self }
    }

    /// This run and `next` as one run. Returns `None` unless `next` continues where this run ends.
    #[must_use]
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let following = i128::from(self.last()) + i128::from(self.increment);
        let count = self.count.checked_add(next.count)?;
        (self.increment == next.increment && following == i128::from(next.first))
            .then_some(Self { count, ..*self })
    }

    /// The values from one position on, below another.
    pub(crate) fn slice(&self, from: u64, to: u64) -> Self {
        let from = from.min(self.count);
        Self {
            first: self.at(from),
            increment: self.increment,
            count: to.min(self.count).saturating_sub(from),
        }
    }

    /// The number of values that are not beyond `value`, in the run's direction.
    pub(crate) fn count_to(&self, value: i64) -> u64 {
        let distance = i128::from(value) - i128::from(self.first);
        let increment = i128::from(self.increment);
        // The value lies before the run, where the division would round towards its first value.
        if distance.signum() == -increment.signum() {
            return 0;
        }
        u64::try_from(distance / increment + 1).unwrap_or(u64::MAX).min(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_step_by_the_increment_at_both_ends_of_64_bits() {
        let check = |run: Run, expected: &[i64]| assert_eq!(run.values().collect::<Vec<_>>(), expected);
        check(Run::new(1, 7, 3), &[1, 8, 15]);
        check(Run::new(i64::MAX - 1, 1, 2), &[i64::MAX - 1, i64::MAX]);
        check(Run::new(i64::MIN + 5, -5, 2), &[i64::MIN + 5, i64::MIN]);
        check(Run::new(i64::MIN, 2_147_483_647, 2), &[i64::MIN, i64::MIN + 2_147_483_647]);
        check(Run::new(9, 1, 0), &[]);
    }

    #[test]
    fn counts_terms_up_to_a_value_between_them() {
        let run = Run::new(1, 10, 4);
        for (value, expected) in [(0, 0), (1, 1), (10, 1), (11, 2), (31, 4), (1000, 4), (i64::MIN, 0)] {
            assert_eq!(run.count_to(value), expected, "{value}");
        }
        let down = Run::new(-1, -10, 4);
        for (value, expected) in [(0, 0), (-1, 1), (-10, 1), (-11, 2), (i64::MIN, 4), (i64::MAX, 0)] {
            assert_eq!(down.count_to(value), expected, "{value}");
        }
    }

    #[test]
    fn a_slice_is_part_of_the_run() {
        let run = Run::new(1, 10, 4);
        assert_eq!(run.slice(1, 3).values().collect::<Vec<_>>(), [11, 21]);
        assert!(run.slice(4, 9).is_empty() && run.slice(3, 2).is_empty());
        assert_eq!(run.last(), 31);
    }

    #[test]
    fn numbers_from_outside_are_checked() {
        assert_eq!(Run::checked(1, 2, 3), Some(Run::new(1, 2, 3)));
        assert_eq!((Run::checked(i64::MAX, 1, 2), Run::checked(1, 0, 2)), (None, None));
        let run = Run::new(100, 10, 5);
        assert_eq!((run.at(0), run.at(2), run.last()), (100, 120, 140));
        assert!(run.contains(110) && !run.contains(111) && !run.contains(150) && !run.contains(90));
    }
}
