//! Where a sequence stands, and every step it can take, as pure arithmetic.
//!
//! A step gives the state after it; whoever stores states makes the new one durable first and shows it afterwards.
//! All sums are in 128 bits, so neither end of the 64-bit integers needs care. The invariants that must survive edits:
//! no value outside of `MinValue` and `MaxValue`; and `current_value`, which is what survives a crash, is never
//! behind a value that was handed out.

use crate::attributes::{Attributes, Contract, Options};
use crate::error::SequenceError;
use crate::run::Run;

/// A sequence at one moment. SequoiaDB's words: `CurrentValue`, `Initial`, `CycledCount`, `Version`.
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

/// The part of a state that changes as values are taken. This is what each reserve writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The end of the durable reserve; while `initial`, the value to start with.
    pub current_value: i64,
    /// The first value that a crash would lose, up to the end of the reserve; nothing if there is none.
    pub open_from: Option<i64>,
    /// No value was taken yet.
    pub initial: bool,
    /// How often the sequence has started over.
    pub cycled_count: i32,
    /// How many reserves were written so far.
    pub reservations: u64,
    /// How many values the ledger lists as lost.
    pub lost: u64,
    /// The number of the next ledger entry.
    pub next_gap: u64,
    /// Nothing was taken after this was written: the database was closed in order.
    pub clean: bool,
}

/// Where a state stands among the values: what changes when values are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    used: i64,
    initial: bool,
    cycled_count: i32,
}

/// What taking a block does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The state after it.
    pub state: State,
    /// The block's values.
    pub run: Run,
    /// Whether the state must be durable before a value leaves.
    pub durable: bool,
}

/// How many values a step takes, and how many it reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The most values of the block.
    pub acquire: i64,
    /// By how many values the reserve grows.
    pub cache: i64,
}

impl Progress {
    /// Behind `used`, which was taken after the sequence had started over so many times.
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

    /// A stored sequence, after its last mark: what was reserved counts as used.
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
        state.exhausted = state.is_used_up();
        state
    }

    /// What the sequence was declared to be.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// How often attributes, name or content were reset.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The end of the durable reserve; while [`is_initial`](Self::is_initial), the value to start with.
    pub fn current_value(&self) -> i64 {
        self.current_value
    }

    /// The last value handed to an acquirer, if there is one.
    pub fn used(&self) -> Option<i64> {
        (!self.initial).then_some(self.used)
    }

    /// Whether no value was taken yet.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// Whether no value is left before the sequence starts over, if it does.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// How often the sequence has started over.
    pub fn cycled_count(&self) -> i32 {
        self.cycled_count
    }

    /// How many values the store has left before the sequence ends or starts over.
    pub fn remaining(&self) -> u64 {
        if self.exhausted || self.starts_outside() {
            return 0;
        }
        let next = if self.initial { i128::from(self.current_value) } else { self.following() };
        let steps = (i128::from(self.attributes.limit()) - next) / self.increment();
        u64::try_from(steps + 1).unwrap_or(if steps < 0 { 0 } else { u64::MAX })
    }

    /// The part that a reserve writes. The three counters belong to whoever keeps the ledger.
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

    /// Sizes as the attributes declare them; a gapless sequence goes value by value.
    pub fn sizes(&self) -> Sizes {
        match self.attributes.contract() {
            Contract::Fast | Contract::Ordered => {
                Sizes { acquire: self.attributes.acquire_size(), cache: self.attributes.cache_size() }
            }
            Contract::Gapless => Sizes { acquire: 1, cache: 1 },
        }
    }

    /// Takes the next block, and extends the reserve where it does not cover the block.
    ///
    /// # Errors
    /// [`SequenceError::Exceeded`] when no value is left and the sequence is not cycled.
    pub fn acquire(&self, sizes: Sizes) -> Result<Acquired, SequenceError> {
        let mut state = self.clone();
        let fresh = state.begin()?;
        let next = if fresh { i128::from(state.current_value) } else { state.following() };
        let reachable = state.last_term_within(next, state.attributes.limit());
        let last = state.nearer(next + i128::from(sizes.acquire - 1) * state.increment(), reachable);
        let mut durable = fresh;
        if !state.is_at_or_past(i128::from(state.current_value), last) {
            let steps = if fresh { sizes.cache - 1 } else { sizes.cache };
            state.current_value = narrow(state.extended(steps, last));
            durable = true;
        }
        state.used = narrow(last);
        state.exhausted = state.is_used_up();
        durable |= state.exhausted;
        let count = state.steps_in(last - next) + 1;
        let run = Run::new(narrow(next), state.attributes.increment(), narrow(count).unsigned_abs());
        Ok(Acquired { state, run, durable })
    }

    /// Applies a change of attributes and `CurrentValue`; `None` if there is nothing to change.
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
        if self.attributes.is_cycled() && !attributes.is_cycled() {
            state.cycled_count = 0;
        }
        state.attributes = attributes;
        state.version = self.version.saturating_add(1);
        if state.initial && start_moved {
            state.current_value = state.attributes.start_value();
            state.used = state.current_value;
        }
        // The old reserve lies behind after a turn, and may lie outside of new limits; nothing of it is in use any more.
        // A gapless sequence has no reserve.
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

    /// Moves on so that the next value is the first term strictly beyond `value`.
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

    /// Moves on behind an explicit value, if it is ahead: the next value is the first term strictly beyond it.
    #[must_use]
    pub fn beyond(&self, value: i64) -> Self {
        let mut state = self.clone();
        let first_step = if state.initial { i128::from(state.current_value) } else { state.following() };
        if state.exhausted || state.starts_outside() || state.is_beyond(first_step, i128::from(value)) {
            return state;
        }
        let term = state.last_term_within(first_step, value);
        let limit = i128::from(state.attributes.limit());
        // Beyond the last term nothing is left: the state then shows the limit itself.
        let last = if state.is_beyond(term + state.increment(), limit) { limit } else { term };
        state.used = narrow(last);
        if state.initial || state.is_beyond(last, i128::from(state.current_value)) {
            state.current_value = state.used;
        }
        state.initial = false;
        state.exhausted = state.is_used_up();
        state
    }

    /// As if the first reserve had been made: what moving an unused sequence starts from.
    #[must_use]
    pub fn pretend_first_reserve(&self) -> Self {
        let mut state = self.clone();
        if !state.initial {
            return state;
        }
        state.initial = false;
        state.used = state.current_value;
        let first = i128::from(state.current_value);
        state.current_value = narrow(state.extended(state.sizes().cache - 1, first));
        state.exhausted = state.is_used_up();
        state
    }

    /// Starts again with `value`, which will be the next one.
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

    /// As new: what truncating a collection does to its sequences.
    #[must_use]
    pub fn truncated(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..Self::new(self.attributes.clone()) }
    }

    /// The same under another name.
    #[must_use]
    pub fn renamed(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// Where it stands now.
    pub fn progress(&self) -> Progress {
        Progress { used: self.used, initial: self.initial, cycled_count: self.cycled_count }
    }

    /// Takes back the last values, which an acquirer held and nobody took: it stands again where it stood before them.
    #[must_use]
    pub fn returned(&self, to: Progress) -> Self {
        let mut state =
            Self { used: to.used, initial: to.initial, cycled_count: to.cycled_count, ..self.clone() };
        if state.initial {
            state.current_value = state.used;
        }
        state.exhausted = state.is_used_up();
        state
    }

    /// Gives up the rest of the reserve, which no acquirer holds: what a clean close does.
    #[must_use]
    pub fn without_reserve(&self) -> Self {
        let mut state = self.clone();
        if !state.initial {
            state.current_value = state.used;
        }
        state
    }

    /// With the next reserve as well, which no block needs yet; nothing if a reserve has one value, or nothing can be
    /// added to it.
    pub(crate) fn reserved_further(&self) -> Option<Self> {
        let cache = self.sizes().cache;
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

    /// What is reserved and held by nobody.
    pub(crate) fn open_reserve(&self) -> Option<Run> {
        self.reserve_from(self.following())
    }

    /// The values up to the one at which a later state stands, which no acquirer held.
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

    /// Whether `value` lies strictly beyond `other` in the sequence's direction.
    pub(crate) fn is_beyond(&self, value: i128, other: i128) -> bool {
        (value - other) * self.increment().signum() > 0
    }

    /// Opens the first reserve, or starts over. Says whether the next value is `current_value` itself.
    fn begin(&mut self) -> Result<bool, SequenceError> {
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

    /// Whether the first value lies outside of limits that were changed after it was set.
    fn starts_outside(&self) -> bool {
        self.initial && !self.attributes.contains(self.current_value)
    }

    /// The end of a reserve that grows by `steps`, and covers `last` in any case.
    fn extended(&self, steps: i64, last: i128) -> i128 {
        let mark = i128::from(self.current_value);
        let reachable = self.last_term_within(mark, self.attributes.limit());
        let grown = self.nearer(mark + i128::from(steps) * self.increment(), reachable);
        if self.is_beyond(last, grown) { last } else { grown }
    }

    /// The last term of the progression through `from` that does not pass `limit`; `from` itself if it is past it.
    fn last_term_within(&self, from: i128, limit: i64) -> i128 {
        let limit = i128::from(limit);
        if self.is_beyond(from, limit) {
            return from;
        }
        from + self.steps_in(limit - from) * self.increment()
    }

    /// How many whole steps a distance has. Most sequences go by one, and the division of 128 bits is slow.
    fn steps_in(&self, distance: i128) -> i128 {
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

/// Back to 64 bits: every state holds values between the ends of a sequence, or where a change left them.
fn narrow(value: i128) -> i64 {
    i64::try_from(value).expect("a value within MinValue and MaxValue fits 64 bits")
}
