//! `$percentile` and `$median` over the documents of a group, and over those of a window.
//!
//! A group asks once, so its numbers may become a digest; a window asks for each document, and its numbers are kept sorted.

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use crate::numeric::Numeric;
use crate::percentile::{Numbers, PercentileRequest, SortedNumbers};
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;

/// The numbers of a group.
#[derive(Clone, Debug)]
pub(super) struct GroupNumbers {
    request: PercentileRequest,
    numbers: Numbers,
    /// The bytes that are counted in the memory of the stage.
    counted: usize,
}

impl GroupNumbers {
    pub(super) fn new(request: &PercentileRequest) -> Self {
        Self { request: request.clone(), numbers: Numbers::new(request.method()), counted: 0 }
    }

    /// Adds a number; any other value counts for nothing.
    pub(super) fn add(&mut self, value: RawBsonRef<'_>, memory: &mut StageMemory) -> Result<(), Fault> {
        let Some(number) = Numeric::of(value) else { return Ok(()) };
        self.numbers.add(number.to_double());
        // A list grows by doubling, and a digest replaces many numbers.
        let bytes = self.numbers.bytes();
        if bytes < self.counted {
            memory.shrink(self.counted - bytes);
        } else if bytes > self.counted {
            memory.grow(bytes - self.counted)?;
        }
        self.counted = bytes;
        Ok(())
    }

    /// Adds the values that the state is made of.
    pub(super) fn save(&self, saved: &mut RawArrayBuf) {
        self.numbers.save(saved);
    }

    /// Restores what was saved in place of no numbers. Returns `None` if the values are none of such a state.
    pub(super) fn restore(
        &mut self,
        saved: &mut dyn Iterator<Item = RawBsonRef<'_>>,
        memory: &mut StageMemory,
    ) -> Result<Option<()>, Fault> {
        let restored = self.numbers.restore(saved);
        self.counted = self.numbers.bytes();
        memory.grow(self.counted)?;
        Ok(restored)
    }

    /// The percentiles of the numbers so far.
    pub(super) fn into_value(self) -> RawBson {
        self.request.result(self.numbers.percentiles(self.request.shares()))
    }
}

/// The numbers of a window.
#[derive(Clone, Debug)]
pub(super) struct WindowNumbers {
    request: PercentileRequest,
    sorted: SortedNumbers,
    /// The number of each document, the oldest first. Absent for one that has no number, or NaN. Empty if no document
    /// leaves.
    entered: std::collections::VecDeque<Option<f64>>,
    moves: bool,
}

/// The memory of a number: its place among the sorted ones, with room to grow.
const NUMBER_BYTES: usize = 2 * size_of::<f64>();

impl WindowNumbers {
    /// The numbers of an empty window. `moves` says whether documents leave it.
    pub(super) fn new(request: &PercentileRequest, moves: bool) -> Self {
        let (sorted, entered) = (SortedNumbers::default(), std::collections::VecDeque::new());
        Self { request: request.clone(), sorted, entered, moves }
    }

    /// Adds what a document has.
    pub(super) fn enter(&mut self, value: RawBsonRef<'_>, memory: &mut StageMemory) -> Result<(), Fault> {
        // A document without a number has its turn to leave as well.
        let number = Numeric::of(value).map(Numeric::to_double).filter(|number| !number.is_nan());
        if let Some(number) = number {
            memory.grow(NUMBER_BYTES)?;
            self.sorted.add(number);
        }
        if self.moves {
            memory.grow(size_of::<Option<f64>>())?;
            self.entered.push_back(number);
        }
        Ok(())
    }

    /// Removes what the oldest document has.
    pub(super) fn leave(&mut self, memory: &mut StageMemory) {
        // Documents leave in the order in which they came.
        let Some(oldest) = self.entered.pop_front() else { return };
        memory.shrink(size_of::<Option<f64>>());
        if let Some(number) = oldest {
            self.sorted.remove(number);
            memory.shrink(NUMBER_BYTES);
        }
    }

    /// The number of steps that the percentiles of the window need.
    pub(super) fn steps(&self) -> u64 {
        (self.request.shares().len() as u64).saturating_mul(self.sorted.steps())
    }

    /// The percentiles of the window.
    pub(super) fn value(&self) -> RawBson {
        // Nothing is sorted here, so that many shares cost little.
        let method = self.request.method();
        let at = |share: &f64| method.at(*share, self.sorted.len(), |position| self.sorted.get(position));
        self.request.result(self.request.shares().iter().map(at).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::operation::OperationContext;
    use crate::percentile::Method;

    /// The limit of numbers of a group, or of a window, that fit into the memory.
    const LIMIT: usize = 100_000;

    fn memory() -> StageMemory {
        StageMemory::new("$group", LIMIT, &OperationContext::default())
    }

    fn median(method: Method) -> PercentileRequest {
        PercentileRequest::new(Arc::from([0.5]), method, true)
    }

    #[test]
    fn the_numbers_of_a_group_are_counted() {
        let mut numbers = GroupNumbers::new(&median(Method::Discrete));
        let mut memory = memory();
        let added =
            (0..100_000).take_while(|number| numbers.add(RawBsonRef::Int32(*number), &mut memory).is_ok());
        let count = added.count();
        assert!((LIMIT / 20..LIMIT / 8).contains(&count), "{count} numbers");
    }

    #[test]
    fn the_digest_of_a_group_takes_no_more_for_more_numbers() {
        let mut numbers = GroupNumbers::new(&median(Method::Approximate));
        // As much as the numbers before a digest and the digest use.
        let mut memory = StageMemory::new("$group", 200_000, &OperationContext::default());
        for number in 0..300_000 {
            numbers.add(RawBsonRef::Int32(number), &mut memory).unwrap();
        }
        let RawBson::Double(median) = numbers.into_value() else { panic!("no number") };
        assert!((median - 150_000.0).abs() < 300.0, "{median}");
    }

    #[test]
    fn the_numbers_of_a_window_are_counted_until_they_leave() {
        let mut numbers = WindowNumbers::new(&median(Method::Discrete), true);
        let mut memory = memory();
        let added =
            (0..100_000).take_while(|number| numbers.enter(RawBsonRef::Int32(*number), &mut memory).is_ok());
        assert!(added.count() < LIMIT / 16);
        // Each that leaves makes room for another one.
        for number in 0..50_000 {
            numbers.leave(&mut memory);
            numbers.leave(&mut memory);
            numbers.enter(RawBsonRef::Int32(number), &mut memory).unwrap();
        }
        assert_eq!(numbers.value(), RawBson::Double(49_999.0));
    }
}
