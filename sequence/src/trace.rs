//! The fate of one value of a sequence: the reason why a number is missing.
//!
//! A sequence remembers where it stands and which values were lost, not what it was declared to be before. So every answer
//! is about the sequence as it is declared now, and since its last restart.

use crate::attributes::Attributes;
use crate::state::State;
use crate::store::Gap;

/// The place of a value, relative to the position of the sequence.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::store::Volatile;
/// use cairndb_sequence::trace::Reach;
///
/// let tens = Options { increment: Some(10), ..Options::default() };
/// let sequence = Sequence::new(Attributes::create(&tens)?);
/// assert_eq!(sequence.take_one(sequence.shared(), &Volatile::default())?, 1);
/// assert_eq!(sequence.trace(1).reach, Reach::Passed { round: 0 });
/// assert_eq!(sequence.trace(5).reach, Reach::Between);
/// assert_eq!(sequence.trace(11).reach, Reach::NotYet);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The sequence will come to it, or an acquirer still holds it.
    NotYet,
    /// The sequence has passed it.
    Passed {
        /// The number of times that the sequence had started over by then.
        round: i32,
    },
    /// It is not from `MinValue` to `MaxValue`.
    Outside,
    /// It is before the first value of a sequence that does not start over.
    BeforeStart,
    /// It is between two values.
    Between,
}

/// The knowledge of a sequence about a value.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::store::Volatile;
/// use cairndb_sequence::trace::Verdict;
///
/// let sequence = Sequence::new(Attributes::create(&Options::default())?);
/// sequence.take_one(sequence.shared(), &Volatile::default())?;
/// let trace = sequence.trace(1);
/// // The ledger does not list the value, and has dropped nothing.
/// assert_eq!(trace.verdict(false, 0), Verdict::Used);
/// // The ledger lists it.
/// assert_eq!(trace.verdict(true, 0), Verdict::Lost);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The place of the value.
    pub reach: Reach,
    /// Whether no insert is under way that may have the value. An insert that has it and is under way will store a
    /// document with it, or fail.
    pub is_settled: bool,
    /// The gaps that no write has listed yet.
    pub pending: Vec<Gap>,
    /// The number of lost values, those of the pending gaps included.
    pub lost: u64,
}

/// The reason why no document and no caller has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sequence will come to it.
    NotYet,
    /// It is not a value of the sequence.
    Never,
    /// The ledger lists it as lost.
    Lost,
    /// The ledger does not list it, but has dropped older entries, which may have listed it.
    LostUnlisted,
    /// It was handed out.
    Used,
}

impl Verdict {
    /// The name, as tools show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotYet => "not-yet",
            Self::Never => "never",
            Self::Lost => "lost",
            Self::LostUnlisted => "lost-unlisted",
            Self::Used => "used",
        }
    }
}

impl Trace {
    /// The verdict on the value. `is_listed` is whether a gap of the ledger contains it, and `unlisted` how many lost values
    /// are in entries that the ledger has dropped.
    pub fn verdict(&self, is_listed: bool, unlisted: u64) -> Verdict {
        match self.reach {
            // A future value is not lost, though it may be listed: before a restart.
            Reach::NotYet => Verdict::NotYet,
            // Before the reach of the present attributes: the ledger describes those before as well.
            _ if is_listed => Verdict::Lost,
            Reach::Outside | Reach::BeforeStart | Reach::Between => Verdict::Never,
            Reach::Passed { .. } if unlisted > 0 => Verdict::LostUnlisted,
            Reach::Passed { .. } => Verdict::Used,
        }
    }
}

impl State {
    /// The place of a value that no acquirer holds.
    pub(crate) fn reach(&self, value: i64) -> Reach {
        let attributes = self.attributes();
        if !attributes.contains(value) {
            return Reach::Outside;
        }
        let round = self.cycled_count();
        let wide = i128::from(value);
        let next = self.next_term();
        let is_ahead = next.is_some_and(|next| !self.is_beyond(next, wide));
        let start_of_first = i128::from(attributes.start_value());
        // In a round after the first one the values are those from the edge on.
        let is_of_later_rounds =
            attributes.is_cycled() && is_term(attributes, attributes.edge().into(), wide);
        let was_in_first =
            round > 0 && !self.is_beyond(start_of_first, wide) && is_term(attributes, start_of_first, wide);
        if is_ahead {
            let comes = next.is_some_and(|next| is_term(attributes, next, wide)) || is_of_later_rounds;
            return match (is_of_later_rounds && round > 1, was_in_first) {
                // It came in the round before, and this one has not come to it again.
                (true, _) => Reach::Passed { round: round - 1 },
                (false, true) => Reach::Passed { round: 0 },
                (false, false) if comes => Reach::NotYet,
                (false, false) => Reach::Between,
            };
        }
        let began = if round > 0 { i128::from(attributes.edge()) } else { start_of_first };
        // A sequence that was restarted before its start value says so as long as it has not passed that value again.
        let last = self.used().map(i128::from);
        let is_after_start =
            !self.is_beyond(began, wide) || last.is_some_and(|last| self.is_beyond(began, last));
        let is_term_of_round = is_term(attributes, began, wide)
            || last.is_some_and(|last| is_term(attributes, last, wide))
            || next.is_some_and(|next| is_term(attributes, next, wide));
        match (is_after_start, is_term_of_round) {
            (true, true) => Reach::Passed { round },
            // Its steps from the start value need not be those from the edge.
            _ if was_in_first => Reach::Passed { round: 0 },
            // The next round starts at the edge, which is before the start value.
            _ if is_of_later_rounds => Reach::NotYet,
            (false, true) => Reach::BeforeStart,
            (_, false) => Reach::Between,
        }
    }
}

/// Whether two values are whole steps from each other.
fn is_term(attributes: &Attributes, from: i128, value: i128) -> bool {
    (value - from) % i128::from(attributes.increment()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Options;
    use crate::state::Sizes;

    fn new(options: &Options) -> State {
        State::new(Attributes::create(options).unwrap())
    }

    /// The state after `count` values were drawn one by one.
    fn taken(options: &Options, count: usize) -> State {
        (0..count).fold(new(options), |state, _| state.acquire(Sizes { acquire: 1, cache: 1 }).unwrap().state)
    }

    #[track_caller]
    fn check(state: &State, expected: &[(i64, Reach)]) {
        for &(value, reach) in expected {
            assert_eq!(state.reach(value), reach, "{value}");
        }
    }

    #[test]
    fn values_are_passed_or_to_come_or_none_of_the_sequence() {
        let tens = Options { start_value: Some(11), increment: Some(10), ..Options::default() };
        let (first, second) = (Reach::Passed { round: 0 }, Reach::NotYet);
        check(
            &new(&tens),
            &[(11, second), (12, Reach::Between), (1, Reach::BeforeStart), (0, Reach::Outside)],
        );
        check(
            &taken(&tens, 2),
            &[
                (1, Reach::BeforeStart),
                (11, first),
                (20, Reach::Between),
                (21, first),
                (22, Reach::Between),
                (31, second),
            ],
        );
        let down = Options { increment: Some(-3), ..Options::default() };
        check(
            &taken(&down, 2),
            &[(-1, first), (-4, first), (-7, second), (-5, Reach::Between), (0, Reach::Outside)],
        );
    }

    #[test]
    fn a_sequence_that_goes_around_names_the_round() {
        let size = Some(1);
        let around = Options {
            start_value: Some(3),
            max_value: Some(5),
            cycled: Some(true),
            cache_size: size,
            acquire_size: size,
            ..Options::default()
        };
        let passed = |round| Reach::Passed { round };
        check(&taken(&around, 2), &[(1, Reach::NotYet), (3, passed(0)), (5, Reach::NotYet)]);
        // 3, 4, 5, 1: the values before the start come for the first time.
        check(&taken(&around, 4), &[(1, passed(1)), (2, Reach::NotYet), (3, passed(0)), (5, passed(0))]);
        check(&taken(&around, 9), &[(1, passed(2)), (2, passed(1)), (5, passed(1))]);
    }

    #[test]
    fn the_end_of_a_sequence_is_no_value_of_it() {
        let tens = Options { increment: Some(10), max_value: Some(35), ..Options::default() };
        let tens = Options { cache_size: Some(1), acquire_size: Some(1), ..tens };
        // No value is left beyond it, and the state then is at the limit.
        let state = taken(&tens, 1).beyond(33);
        check(
            &state,
            &[(31, Reach::Passed { round: 0 }), (33, Reach::Between), (11, Reach::Passed { round: 0 })],
        );
    }

    #[test]
    fn a_verdict_has_a_name() {
        assert_eq!(Verdict::LostUnlisted.name(), "lost-unlisted");
    }
}
