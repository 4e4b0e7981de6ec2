//! Accumulators over a window that moves: values enter at its end and leave at its start.
//!
//! Sums and deviations are kept for parts of the window, so that a value that leaves is never subtracted: nothing of it
//! stays behind, not even of an infinity. An extreme keeps only values that no later one beats. None of these looks at
//! the whole window for a step.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use bson::{RawArrayBuf, RawBson, RawBsonRef};
use index::collation::Collation;
use index::key::Direction;

use crate::expression::accumulate::{Spread, Sum};
use crate::expression::covariance::Covariance;
use crate::pipeline::accumulator::{encoded, is_nullish};
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::pipeline::ranked::End;
use crate::value::{content_bytes, elements};

/// A value that can be computed for two parts and joined.
pub(super) trait Part: Clone + Default {
    /// The part of one value.
    fn of(value: RawBsonRef<'_>) -> Self;

    /// Adds the part after this one.
    fn join(&mut self, later: &Self);
}

impl Part for Sum {
    fn of(value: RawBsonRef<'_>) -> Self {
        let mut sum = Self::default();
        sum.add(value);
        sum
    }

    fn join(&mut self, later: &Self) {
        self.merge(later);
    }
}

impl Part for Spread {
    fn of(value: RawBsonRef<'_>) -> Self {
        let mut spread = Self::default();
        spread.add(value);
        spread
    }

    fn join(&mut self, later: &Self) {
        self.merge(later);
    }
}

impl Part for Covariance {
    fn of(value: RawBsonRef<'_>) -> Self {
        Covariance::of(value)
    }

    fn join(&mut self, later: &Self) {
        self.merge(later);
    }
}

/// A queue of parts that knows the whole of them. A part that enters is joined once, and once more before it leaves.
#[derive(Clone, Debug)]
pub(super) struct Parts<P> {
    /// The older parts, the oldest last. Each is the whole from it to the newest of the older ones.
    older: Vec<P>,
    newer: Vec<P>,
    /// The whole of `newer`.
    newer_whole: P,
}

impl<P: Part> Parts<P> {
    pub(super) fn new() -> Self {
        Self { older: Vec::new(), newer: Vec::new(), newer_whole: P::default() }
    }

    pub(super) fn push(&mut self, part: P) {
        // The part is kept too: when the older ones have left, it is joined from the other end.
        self.newer_whole.join(&part);
        self.newer.push(part);
    }

    /// Adds a part that is never removed, and keeps nothing of its own of it.
    pub(super) fn absorb(&mut self, part: &P) {
        self.newer_whole.join(part);
    }

    /// Removes the oldest part.
    pub(super) fn pop(&mut self) {
        if self.older.is_empty() {
            // Every part comes here once, so this is one step for each on average.
            for part in self.newer.drain(..).rev() {
                let mut whole = part;
                if let Some(later) = self.older.last() {
                    whole.join(later);
                }
                self.older.push(whole);
            }
            self.newer_whole = P::default();
        }
        self.older.pop();
    }

    /// The whole of all parts.
    pub(super) fn whole(&self) -> P {
        // The older parts come first: what is joined keeps its order.
        let mut whole = self.older.last().cloned().unwrap_or_default();
        whole.join(&self.newer_whole);
        whole
    }
}

/// The least or the greatest value of a window.
#[derive(Clone, Debug)]
pub(super) struct Extreme {
    wanted: Ordering,
    /// Whether values leave. Otherwise only the extreme itself is kept.
    moves: bool,
    collation: Collation,
    /// Values that may become the extreme, with their numbers: each beats all after it.
    candidates: VecDeque<(u64, RawBson)>,
}

impl Extreme {
    pub(super) fn new(wanted: Ordering, moves: bool, collation: &Collation) -> Self {
        Self { wanted, moves, collation: collation.clone(), candidates: VecDeque::new() }
    }

    /// Adds a value with its number. Null is not a candidate.
    pub(super) fn push(
        &mut self,
        number: u64,
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        if is_nullish(value) {
            return Ok(());
        }
        // Equal values stay: of these the first is the extreme.
        let is_beaten =
            |(_, last): &(u64, RawBson)| self.collation.compare(value, last.as_raw_bson_ref()) == self.wanted;
        // Each value is removed at most once, so this is one step for each on average.
        while self.candidates.back().is_some_and(is_beaten) {
            release(self.candidates.pop_back().map(|(_, value)| value).as_ref(), memory);
        }
        if !self.moves && !self.candidates.is_empty() {
            return Ok(());
        }
        memory.grow(held_bytes(value))?;
        self.candidates.push_back((number, value.into()));
        Ok(())
    }

    /// Removes the value with a number, if it is still a candidate.
    pub(super) fn pop(&mut self, number: u64, memory: &mut StageMemory) {
        if self.candidates.front().is_some_and(|(first, _)| *first == number) {
            release(self.candidates.pop_front().map(|(_, value)| value).as_ref(), memory);
        }
    }

    /// The extreme. Returns `None` without values.
    pub(super) fn value(&self) -> Option<&RawBson> {
        self.candidates.front().map(|(_, value)| value)
    }
}

/// All values of a window in their order. A missing one is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    values: VecDeque<Option<RawBson>>,
}

impl Values {
    pub(super) fn push(
        &mut self,
        value: Option<RawBsonRef<'_>>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // A missing value has its place in the queue: documents leave by their number.
        memory.grow(value.map_or(size_of::<RawBson>(), held_bytes))?;
        self.values.push_back(value.map(RawBson::from));
        Ok(())
    }

    pub(super) fn pop(&mut self, memory: &mut StageMemory) {
        match self.values.pop_front() {
            Some(Some(value)) => release(Some(&value), memory),
            Some(None) => memory.shrink(size_of::<RawBson>()),
            None => {}
        }
    }

    /// The value at one end, or null.
    pub(super) fn end(&self, end: End) -> RawBson {
        let value = match end {
            End::First => self.values.front(),
            End::Last => self.values.back(),
        };
        value.cloned().flatten().unwrap_or(RawBson::Null)
    }

    /// The value of the only document. Returns `None` if there is no document, or it has no value.
    pub(super) fn only(&self) -> Option<&RawBson> {
        self.values.front().and_then(Option::as_ref)
    }

    /// At most `count` values at one end. A missing one is null.
    pub(super) fn some(&self, end: End, count: usize) -> RawArrayBuf {
        let skipped = match end {
            End::First => 0,
            End::Last => self.values.len().saturating_sub(count),
        };
        let values = self.values.iter().skip(skipped).take(count);
        array(values.map(|value| value.as_ref().map_or(RawBsonRef::Null, RawBson::as_raw_bson_ref)))
    }

    /// The elements of all values that are arrays.
    pub(super) fn all_elements(&self) -> RawArrayBuf {
        let arrays = self.values.iter().flatten().filter_map(|value| value.as_raw_bson_ref().as_array());
        array(arrays.flat_map(elements))
    }

    /// All values that are not missing.
    pub(super) fn all(&self) -> RawArrayBuf {
        array(self.values.iter().flatten().map(RawBson::as_raw_bson_ref))
    }
}

/// The different values of a window, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Distinct {
    collation: Collation,
    keys: VecDeque<Option<Box<[u8]>>>,
    /// The values by key, with how often they occur.
    values: BTreeMap<Box<[u8]>, (usize, RawBson)>,
}

impl Distinct {
    pub(super) fn new(collation: &Collation) -> Self {
        Self { collation: collation.clone(), ..Self::default() }
    }

    pub(super) fn push(
        &mut self,
        value: Option<RawBsonRef<'_>>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        let Some(value) = value else {
            self.keys.push_back(None);
            return memory.grow(size_of::<Option<Box<[u8]>>>());
        };
        // Values that compare as equal have one key, and the first of them is shown.
        let key = encoded(value, Direction::Ascending, &self.collation).into_boxed_slice();
        memory.grow(key.len() + size_of::<Option<Box<[u8]>>>())?;
        if let Some((count, _)) = self.values.get_mut(&key) {
            *count += 1;
        } else {
            memory.grow(key.len() + held_bytes(value))?;
            self.values.insert(key.clone(), (1, value.into()));
        }
        self.keys.push_back(Some(key));
        Ok(())
    }

    pub(super) fn pop(&mut self, memory: &mut StageMemory) {
        memory.shrink(size_of::<Option<Box<[u8]>>>());
        let Some(Some(key)) = self.keys.pop_front() else { return };
        memory.shrink(key.len());
        let Some((count, _)) = self.values.get_mut(&key) else { return };
        // The value stays while another document has it.
        *count -= 1;
        if *count == 0
            && let Some((_, value)) = self.values.remove(&key)
        {
            memory.shrink(key.len());
            release(Some(&value), memory);
        }
    }

    pub(super) fn all(&self) -> RawArrayBuf {
        array(self.values.values().map(|(_, value)| value.as_raw_bson_ref()))
    }
}

/// The different elements of the arrays of a window, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct DistinctElements {
    distinct: Distinct,
    /// The number of elements of each document, the oldest first.
    counts: VecDeque<usize>,
}

impl DistinctElements {
    pub(super) fn new(collation: &Collation) -> Self {
        Self { distinct: Distinct::new(collation), ..Self::default() }
    }

    /// Adds the elements of a document.
    pub(super) fn push<'v>(
        &mut self,
        elements: impl Iterator<Item = RawBsonRef<'v>>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // Their number is remembered, because documents leave, and not elements.
        let mut count = 0;
        for element in elements {
            self.distinct.push(Some(element), memory)?;
            count += 1;
        }
        memory.grow(size_of::<usize>())?;
        self.counts.push_back(count);
        Ok(())
    }

    /// Removes the elements of the oldest document.
    pub(super) fn pop(&mut self, memory: &mut StageMemory) {
        let Some(count) = self.counts.pop_front() else { return };
        memory.shrink(size_of::<usize>());
        (0..count).for_each(|_| self.distinct.pop(memory));
    }

    pub(super) fn all(&self) -> RawArrayBuf {
        self.distinct.all()
    }
}

/// The values of a window by sort keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    /// The key of each value, the oldest first. Absent for a value that does not count.
    keys: VecDeque<Option<Box<[u8]>>>,
    /// The number of the oldest value.
    first: u64,
    values: BTreeMap<(Box<[u8]>, u64), RawBson>,
}

impl Ordered {
    /// Adds a value with its key, or one that does not count.
    pub(super) fn push(
        &mut self,
        value: Option<(&[u8], RawBsonRef<'_>)>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        let slot = size_of::<Option<Box<[u8]>>>();
        let Some((key, value)) = value else {
            self.keys.push_back(None);
            return memory.grow(slot);
        };
        // The key is held twice: in the queue and in the map.
        memory.grow(slot + 2 * key.len() + held_bytes(value))?;
        // Of equal keys the earlier document comes first.
        let number = self.first + self.keys.len() as u64;
        self.keys.push_back(Some(key.into()));
        self.values.insert((key.into(), number), value.into());
        Ok(())
    }

    pub(super) fn pop(&mut self, memory: &mut StageMemory) {
        let Some(key) = self.keys.pop_front() else { return };
        memory.shrink(size_of::<Option<Box<[u8]>>>());
        if let Some(key) = key {
            memory.shrink(2 * key.len());
            release(self.values.remove(&(key, self.first)).as_ref(), memory);
        }
        self.first += 1;
    }

    /// At most `count` values at one end of the order.
    pub(super) fn some(&self, end: End, count: usize) -> RawArrayBuf {
        let skipped = match end {
            End::First => 0,
            End::Last => self.values.len().saturating_sub(count),
        };
        // From the nearer end, so that a large window costs no more than what is wanted of it.
        let wanted = self.values.len().min(count);
        if skipped == 0 {
            return array(self.values.values().take(wanted).map(RawBson::as_raw_bson_ref));
        }
        let mut last: Vec<_> = self.values.values().rev().take(wanted).collect();
        last.reverse();
        array(last.into_iter().map(RawBson::as_raw_bson_ref))
    }

    /// The value at one end of the order, or null.
    pub(super) fn end(&self, end: End) -> RawBson {
        let value = match end {
            End::First => self.values.values().next(),
            End::Last => self.values.values().next_back(),
        };
        value.cloned().unwrap_or(RawBson::Null)
    }
}

fn array<'v>(values: impl Iterator<Item = RawBsonRef<'v>>) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    values.for_each(|value| array.push(value));
    array
}

/// The memory of a value that is held.
fn held_bytes(value: RawBsonRef<'_>) -> usize {
    content_bytes(value) + size_of::<(u64, RawBson)>()
}

fn release(value: Option<&RawBson>, memory: &mut StageMemory) {
    if let Some(value) = value {
        memory.shrink(held_bytes(value.as_raw_bson_ref()));
    }
}
