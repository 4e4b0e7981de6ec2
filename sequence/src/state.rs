//! The state of a sequence, and every step it can make, as pure arithmetic.
//!
//! A step returns the new state; the caller makes it durable first and shows it afterwards. All sums are in
//! 128 bits, so neither end of the 64-bit integers needs care. The invariants that must survive edits: no
//! value outside of
//! `MinValue` and `MaxValue`; and no value that was handed out lies beyond `current_value`, which survives a crash.

use crate::attributes::{Attributes, Contract, Options};
use crate::error::SequenceError;
use crate::run::Run;

/// A sequence at one moment. The words are SequoiaDB's: `CurrentValue`, `Initial`, `CycledCount`, `Version`.
///
/// ```
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::state::State;
///
/// let state = State::new(Attributes::create(&Options::default())?);
/// let acquired = state.acquire(state.sizes())?;
/// assert_eq!((acquired.run.first(), acquired.run.count()), (1, 1000));
/// assert_eq!(acquired.state.current_value(), 1000);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    attributes: Attributes,
    version: i64,
    current_value: i64,
    used: i64,
    initial: bool,
    exhausted: bool,
    cycled_count: i32,
}

/// The part of a state that changes as values are drawn. Each reserve writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The end of the durable reserve; while `initial`, the value to start with.
    pub current_value: i64,
    /// The first value that a crash would lose, up to the end of the reserve. `None` if a crash loses no
    /// value.
    pub open_from: Option<i64>,
    /// Whether no value was drawn yet.
    pub initial: bool,
    /// The number of times that the sequence has started over.
    pub cycled_count: i32,
    /// The number of reserves that were written so far.
    pub reservations: u64,
    /// The number of values that the ledger lists as lost.
    pub lost: u64,
    /// The number of the next ledger entry.
    pub next_gap: u64,
    /// Whether no value was drawn after this mark was written, because the database was closed in order.
    pub clean: bool,
}

/// The progress of a sequence through its values. This is what changes back when values are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    used: i64,
    initial: bool,
    cycled_count: i32,
}

/// The result of acquiring a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The state afterwards.
    pub state: State,
    /// The block's values.
    pub run: Run,
    /// Whether the state must be durable before a value leaves.
    pub durable: bool,
}

/// The number of values that a step draws, and the number that it reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The largest number of values in the block.
    pub acquire: i64,
    /// The number of values by which the reserve grows.
    pub cache: i64,
}

impl Progress {
    /// The progress after `used`, which was drawn after the sequence had started over `cycled_count` times.
    pub(crate) fn at(used: i64, cycled_count: i32) -> Self {
        Self { used, initial: false, cycled_count }
    }
}

impl State {
    /// A new sequence.
    pub fn new(attributes: Attributes) -> Self {
        let start = attributes.start_value();
        Self {
            attributes,
            version: 0,
            current_value: start,
            used: start,
            initial: true,
            exhausted: false,
            cycled_count: 0,
        }
    }

    /// A new sequence, as options declare it.
    ///
    /// # Errors
    /// As [`Attributes::create`] and [`used_up_to`](Self::used_up_to).
    pub fn create(options: &Options) -> Result<Self, SequenceError> {
        let state = Self::new(Attributes::create(options)?);
        match options.used_up_to {
            Some(value) => state.used_up_to(value),
            None => Ok(state),
        }
    }

    /// A stored sequence after its last mark. Values that were reserved count as used.
    ///
    /// ```
    /// use cairndb_sequence::attributes::{Attributes, Options};
    /// use cairndb_sequence::state::State;
    ///
    /// let attributes = Attributes::create(&Options::default())?;
    /// let acquired = State::new(attributes.clone()).acquire(State::new(attributes.clone()).sizes())?;
    /// let restored = State::restore(attributes, 0, &acquired.state.mark());
    /// assert_eq!(restored.used(), Some(1000));
    /// # Ok::<(), cairndb_sequence::error::SequenceError>(())
    /// ```
    pub fn restore(attributes: Attributes, version: i64, mark: &Mark) -> Self {
        let mut state = Self {
            attributes,
            version,
            current_value: mark.current_value,
            used: mark.current_value,
            initial: mark.initial,
            exhausted: false,
            cycled_count: mark.cycled_count,
        };
        // Not stored: it follows from the value and the limits.
        state.exhausted = state.is_used_up();
        state
    }

    /// The attributes that the sequence was declared with.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The number of times that attributes, name or content were reset.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The end of the durable reserve; while [`is_initial`](Self::is_initial), the value to start with.
    pub fn current_value(&self) -> i64 {
        self.current_value
    }

    /// The last value handed to an acquirer. Returns `None` if no value was drawn yet.
    pub fn used(&self) -> Option<i64> {
        (!self.initial).then_some(self.used)
    }

    /// Whether no value was drawn yet.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// Whether no value is left until the sequence starts over. If it is not cycled, it has ended.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The number of times that the sequence has started over.
    pub fn cycled_count(&self) -> i32 {
        self.cycled_count
    }

    /// The number of values left before the sequence ends or starts over.
    pub fn remaining(&self) -> u64 {
        if self.exhausted || self.starts_outside() {
            return 0;
        }
        // The current value of an unused sequence is its first value; otherwise the one after the last used.
        let next = if self.initial { i128::from(self.current_value) } else { self.following() };
        let steps = (i128::from(self.attributes.limit()) - next) / self.increment();
        u64::try_from(steps + 1).unwrap_or(if steps < 0 { 0 } else { u64::MAX })
    }

    /// The part that a reserve writes. The three counters are zero; the owner of the ledger fills them in.
    pub fn mark(&self) -> Mark {
        Mark {
            current_value: self.current_value,
            open_from: self.open_reserve().map(|run| run.first()),
            initial: self.initial,
            cycled_count: self.cycled_count,
            reservations: 0,
            lost: 0,
            next_gap: 0,
            clean: false,
        }
    }

    /// The sizes that the attributes declare. A gapless sequence draws and reserves single values.
    pub fn sizes(&self) -> Sizes {
        match self.attributes.contract() {
            Contract::Fast | Contract::Ordered => {
                Sizes { acquire: self.attributes.acquire_size(), cache: self.attributes.cache_size() }
            }
            Contract::Gapless => Sizes { acquire: 1, cache: 1 },
        }
    }

    /// Reserves the next block, and extends the reserve if it does not cover the block.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`] when no value is left and the sequence is not cycled.
    pub fn acquire(&self, sizes: Sizes) -> Result<Acquired, SequenceError> {
        let mut state = self.clone();
        let fresh = state.begin()?;
        let next = if fresh { i128::from(state.current_value) } else { state.following() };
        // The last block before the limit may be shorter than the acquire size.
        let reachable = state.last_term_within(next, state.attributes.limit());
        let last = state.nearer(next + i128::from(sizes.acquire - 1) * state.increment(), reachable);
        let mut durable = fresh;
        if !state.is_at_or_past(i128::from(state.current_value), last) {
            // The first reserve starts with `current_value` itself, which is one of its values.
            let steps = if fresh { sizes.cache - 1 } else { sizes.cache };
            state.current_value = narrow(state.extended(steps, last));
            durable = true;
        }
        state.used = narrow(last);
        state.exhausted = state.is_used_up();
        // The end is written as well: after a crash the sequence must know that it starts over, or that it
        // ended.
        durable |= state.exhausted;
        let count = state.steps_in(last - next) + 1;
        let run = Run::new(narrow(next), state.attributes.increment(), narrow(count).unsigned_abs());
        Ok(Acquired { state, run, durable })
    }

    /// Applies a change of attributes and `CurrentValue`. Returns `None` if there is nothing to change.
    ///
    /// # Errors
    /// The first rule that the changed attributes would break.
    pub fn altered(&self, options: &Options) -> Result<Option<Self>, SequenceError> {
        let attributes = match self.attributes.altered(options)? {
            None if options.current_value.is_none() => return Ok(None),
            None => self.attributes.clone(),
            Some(attributes) => attributes,
        };
        let mut state = self.clone();
        let start_moved = attributes.start_value() != self.attributes.start_value();
        let turned = attributes.increment().signum() != self.attributes.increment().signum();
        let gapless = attributes.contract() == Contract::Gapless;
        // The count belongs to the attribute, and starts at zero when that is set again.
        if self.attributes.is_cycled() && !attributes.is_cycled() {
            state.cycled_count = 0;
        }
        state.attributes = attributes;
        state.version = self.version.saturating_add(1);
        // An unused sequence starts at its new start; a used one goes on from where it is.
        if state.initial && start_moved {
            state.current_value = state.attributes.start_value();
            state.used = state.current_value;
        }
        // After a change of direction the old reserve lies on the wrong side, and it may lie outside of new
        // limits. No block of it is in use any more, since a change gives up all blocks. A gapless sequence
        // has no reserve.
        if !state.initial && (turned || gapless || !state.attributes.contains(state.current_value)) {
            state.current_value = state.used;
        }
        if let Some(value) = options.current_value {
            state.current_value = value;
            state.used = value;
            state.initial = false;
        }
        state.exhausted = state.is_used_up();
        Ok(Some(state))
    }

    /// Moves forward, so that the next value is the first term strictly beyond `value`.
    ///
    /// # Errors
    /// [`SequenceError::ValueUsed`] when `value` is not beyond every value handed to an acquirer.
    pub fn moved_to(&self, value: i64) -> Result<Self, SequenceError> {
        if self.exhausted || !self.is_beyond(i128::from(value), i128::from(self.used)) {
            let reason = if self.exhausted {
                format!("no value is left up to {}", self.attributes.limit())
            } else {
                format!("values up to {} are handed out", self.used)
            };
            return Err(SequenceError::ValueUsed { value, reason });
        }
        Ok(self.beyond(value))
    }

    /// Moves forward past an explicit value: the next value is the first term strictly beyond it. A value
    /// that the sequence has passed changes nothing.
    #[must_use]
    pub fn beyond(&self, value: i64) -> Self {
        let mut state = self.clone();
        let first_step = if state.initial { i128::from(state.current_value) } else { state.following() };
        // The value is behind, or there is no value to move to.
        if state.exhausted || state.starts_outside() || state.is_beyond(first_step, i128::from(value)) {
            return state;
        }
        let term = state.last_term_within(first_step, value);
        let limit = i128::from(state.attributes.limit());
        // After the last term no value is left. The state then shows the limit itself.
        let last = if state.is_beyond(term + state.increment(), limit) { limit } else { term };
        state.used = narrow(last);
        if state.initial || state.is_beyond(last, i128::from(state.current_value)) {
            state.current_value = state.used;
        }
        state.initial = false;
        state.exhausted = state.is_used_up();
        state
    }

    /// The state as if the first reserve had been made. Moving an unused sequence starts from it.
    #[must_use]
    pub fn pretend_first_reserve(&self) -> Self {
        let mut state = self.clone();
        if !state.initial {
            return state;
        }
        state.initial = false;
        state.used = state.current_value;
        // One step fewer than a reserve, because the current value is the first of its values.
        let first = i128::from(state.current_value);
        state.current_value = narrow(state.extended(state.sizes().cache - 1, first));
        state.exhausted = state.is_used_up();
        state
    }

    /// Starts again with `value`, which will be the next value.
    ///
    /// # Errors
    /// [`SequenceError::OptionRange`] when it lies outside of `MinValue` and `MaxValue`.
    pub fn restarted(&self, value: i64) -> Result<Self, SequenceError> {
        self.attributes.check_within("value", value)?;
        let mut state = self.clone();
        state.current_value = value;
        state.used = value;
        state.initial = true;
        state.exhausted = false;
        Ok(state)
    }

    /// A new sequence of which all values up to `value` count as used.
    ///
    /// # Errors
    /// [`SequenceError::OptionRange`] when it lies outside of `MinValue` and `MaxValue`.
    pub fn used_up_to(&self, value: i64) -> Result<Self, SequenceError> {
        self.attributes.check_within("UsedUpTo", value)?;
        let mut state = self.clone();
        state.current_value = value;
        state.used = value;
        state.initial = false;
        state.exhausted = state.is_used_up();
        Ok(state)
    }

    /// The sequence as if it were new, with a higher version. Truncating a collection does this to its
    /// sequences.
    #[must_use]
    pub fn truncated(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..Self::new(self.attributes.clone()) }
    }

    /// The sequence under another name: only the version changes.
    #[must_use]
    pub fn renamed(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// The progress of the sequence through its values.
    pub fn progress(&self) -> Progress {
        Progress { used: self.used, initial: self.initial, cycled_count: self.cycled_count }
    }

    /// Returns to the sequence the last values, which an acquirer held and no caller drew. `to` is the progress before
    /// them.
    #[must_use]
    pub fn returned(&self, to: Progress) -> Self {
        let mut state =
            Self { used: to.used, initial: to.initial, cycled_count: to.cycled_count, ..self.clone() };
        // The reserve of the values that go back: an unused sequence has none, its current value is the one to
        // start with; and a cycle that was begun with these values alone has not begun. With the reserve of
        // that cycle and the number of the one before, a later mark would place its values in the wrong cycle.
        if state.initial || to.cycled_count != self.cycled_count {
            state.current_value = state.used;
        }
        state.exhausted = state.is_used_up();
        state
    }

    /// Gives up the rest of the reserve, which no acquirer holds. A clean close does this.
    #[must_use]
    pub fn without_reserve(&self) -> Self {
        let mut state = self.clone();
        if !state.initial {
            state.current_value = state.used;
        }
        state
    }

    /// The state with the next reserve added, which no block needs yet. Returns `None` if a reserve has one
    /// value, or if no value can be added.
    pub(crate) fn reserved_further(&self) -> Option<Self> {
        let cache = self.sizes().cache;
        // A reserve of one value would be written once for each value anyway. The first reserve, and the
        // first after starting over, begin at another value than this arithmetic assumes.
        if cache == 1 || self.initial || self.exhausted {
            return None;
        }
        let current_value = narrow(self.extended(cache, self.used.into()));
        let state = Self { current_value, ..self.clone() };
        (current_value != self.current_value).then_some(state)
    }

    /// The values from `first` to the end of the reserve.
    pub(crate) fn reserve_from(&self, first: i128) -> Option<Run> {
        let mark = i128::from(self.current_value);
        if self.initial || self.is_beyond(first, mark) {
            return None;
        }
        let count = self.steps_in(mark - first) + 1;
        Some(Run::new(narrow(first), self.attributes.increment(), count.unsigned_abs().try_into().ok()?))
    }

    /// The reserved values that no acquirer holds.
    pub(crate) fn open_reserve(&self) -> Option<Run> {
        self.reserve_from(self.following())
    }

    /// The values from here up to the last used value of a later state, which no acquirer held.
    pub(crate) fn jumped_to(&self, later: &Self) -> Run {
        let first = if self.initial { i128::from(self.current_value) } else { self.following() };
        let last = i128::from(later.used);
        let none = Run::new(self.used, self.attributes.increment(), 0);
        if self.exhausted || self.starts_outside() || later.initial || self.is_beyond(first, last) {
            return none;
        }
        let count = u64::try_from(self.steps_in(last - first) + 1);
        count.map_or(none, |count| Run::new(narrow(first), self.attributes.increment(), count))
    }

    /// The next value of this round. Returns `None` if no value is left.
    pub(crate) fn next_term(&self) -> Option<i128> {
        if self.exhausted || self.starts_outside() {
            return None;
        }
        Some(if self.initial { i128::from(self.current_value) } else { self.following() })
    }

    /// Whether `value` is strictly beyond `other` in the sequence's direction.
    pub(crate) fn is_beyond(&self, value: i128, other: i128) -> bool {
        (value - other) * self.increment().signum() > 0
    }

    /// Opens the first reserve, or starts over. Returns whether the next value is `current_value` itself.
    fn begin(&mut self) -> Result<bool, SequenceError> {
        // Limits that were changed may leave the first value outside of them. Then the sequence counts as
        // used up.
        let outside = self.starts_outside();
        if self.initial && !outside {
            self.initial = false;
            return Ok(true);
        }
        if !self.exhausted && !outside {
            return Ok(false);
        }
        if !self.attributes.is_cycled() {
            return Err(SequenceError::Exceeded { limit: self.attributes.limit() });
        }
        self.initial = false;
        self.current_value = self.attributes.edge();
        self.used = self.current_value;
        self.cycled_count = self.cycled_count.saturating_add(1);
        Ok(true)
    }

    /// Whether the first value is outside of limits that were changed after it was set.
    fn starts_outside(&self) -> bool {
        self.initial && !self.attributes.contains(self.current_value)
    }

    /// The end of a reserve that grows by `steps`, and by more if that is needed to cover `last`.
    fn extended(&self, steps: i64, last: i128) -> i128 {
        let mark = i128::from(self.current_value);
        let reachable = self.last_term_within(mark, self.attributes.limit());
        let grown = self.nearer(mark + i128::from(steps) * self.increment(), reachable);
        if self.is_beyond(last, grown) { last } else { grown }
    }

    /// The last term from `from` on that is not beyond `limit`. If `from` itself is beyond it, `from`.
    fn last_term_within(&self, from: i128, limit: i64) -> i128 {
        let limit = i128::from(limit);
        if self.is_beyond(from, limit) {
            return from;
        }
        from + self.steps_in(limit - from) * self.increment()
    }

    /// The number of whole steps in a distance.
    fn steps_in(&self, distance: i128) -> i128 {
        // Most sequences step by one, and a division of 128 bits is slow.
        match self.increment() {
            1 => distance,
            -1 => -distance,
            increment => distance / increment,
        }
    }

    fn nearer(&self, a: i128, b: i128) -> i128 {
        if self.is_beyond(a, b) { b } else { a }
    }

    fn is_at_or_past(&self, value: i128, other: i128) -> bool {
        !self.is_beyond(other, value)
    }

    fn is_used_up(&self) -> bool {
        if self.initial {
            return false;
        }
        // Two ways to be used up: the next value is beyond the limit, or new limits have left the last one
        // outside on the other side.
        let limit = i128::from(self.attributes.limit());
        let edge = i128::from(self.attributes.edge());
        self.is_beyond(self.following(), limit) || self.is_beyond(edge, i128::from(self.used))
    }

    fn following(&self) -> i128 {
        i128::from(self.used) + self.increment()
    }

    fn increment(&self) -> i128 {
        i128::from(self.attributes.increment())
    }
}

/// A value in 64 bits. Every value of a state lies between the ends of a sequence, or where a change left it.
fn narrow(value: i128) -> i64 {
    i64::try_from(value).expect("a value within MinValue and MaxValue fits 64 bits")
}
