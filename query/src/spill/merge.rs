//! Merging sorted runs. Of equal keys the one of the earlier run comes first, so a merge is as stable as the sorts before it.

use crate::operation::{OperationContext, Reservation, RunSource};
use crate::spill::SpillError;

/// The entries of several runs in the order of their keys.
pub(crate) struct Merge {
    runs: Vec<Box<dyn RunSource>>,
    /// Positions of the runs that have a current entry, as a heap with the lowest at the root.
    heap: Vec<usize>,
    is_started: bool,
    room: Reservation,
}

impl Merge {
    /// A merge before its first entry. The memory for reading the runs is reserved until it is dropped.
    pub(crate) fn new(
        runs: Vec<Box<dyn RunSource>>,
        operation: &OperationContext,
    ) -> Result<Self, SpillError> {
        // Before the first block is read: a merge that has no room must not begin.
        let bytes = runs.iter().map(|run| run.memory_bytes()).fold(0, usize::saturating_add);
        let room = operation.reserve(bytes)?;
        Ok(Self { runs, heap: Vec::new(), is_started: false, room })
    }

    /// Steps to the next entry. Returns `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, SpillError> {
        if !self.is_started {
            self.start()?;
        } else if let Some(lowest) = self.heap.first().and_then(|&lowest| self.runs.get_mut(lowest)) {
            // Only now: the current entry was borrowed from the run until here.
            if !lowest.advance()? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        if self.heap.is_empty() {
            return Ok(false);
        }
        // Each entry counts, so that a merge of millions can be interrupted.
        self.room.operation().pass(self.key().len() + self.value().len())?;
        Ok(true)
    }

    /// The key of the current entry.
    pub(crate) fn key(&self) -> &[u8] {
        self.lowest().map_or(&[], |run| run.key())
    }

    /// The value of the current entry.
    pub(crate) fn value(&self) -> &[u8] {
        self.lowest().map_or(&[], |run| run.value())
    }

    fn lowest(&self) -> Option<&dyn RunSource> {
        self.heap.first().and_then(|&lowest| self.runs.get(lowest)).map(|run| &**run)
    }

    fn start(&mut self) -> Result<(), SpillError> {
        self.is_started = true;
        // A run of which nothing is left is not part of it.
        for (position, run) in self.runs.iter_mut().enumerate() {
            if run.advance()? {
                self.heap.push(position);
            }
        }
        (0..self.heap.len() / 2).rev().for_each(|root| self.sift_down(root));
        Ok(())
    }

    /// Restores the order of the heap, in which only the position at `root` may stand too high.
    fn sift_down(&mut self, mut root: usize) {
        let Self { runs, heap, .. } = self;
        // The position decides between equal keys, so no two fronts are equal.
        let front = |heap: &[usize], at: usize| {
            let position = heap.get(at).copied();
            position.and_then(|position| Some((runs.get(position)?.key(), position)))
        };
        loop {
            let (left, right) = (2 * root + 1, 2 * root + 2);
            let is_right_lower = right < heap.len() && front(heap, right) < front(heap, left);
            let lower = if is_right_lower { right } else { left };
            if lower >= heap.len() || front(heap, root) <= front(heap, lower) {
                return;
            }
            heap.swap(root, lower);
            root = lower;
        }
    }
}
