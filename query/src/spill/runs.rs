//! The sorted runs of one sort, or of the keys of a join. When many have been written they are merged to fewer, so that reading all of them needs
//! neither many open files nor much memory, and every entry is written a few times at most.

use std::sync::Arc;

use crate::operation::{OperationContext, RunSink, RunSource, TemporaryFile, TemporaryFiles};
use crate::spill::SpillError;
use crate::spill::merge::Merge;

/// The number of runs of one generation that are merged to one run.
const FAN_IN: usize = 32;

/// Sorted runs, in the order in which their entries came.
pub(crate) struct Runs {
    files: Arc<dyn TemporaryFiles>,
    operation: OperationContext,
    /// The file of each generation that has runs. When they are merged, all their space comes back.
    open: Vec<(u32, Box<dyn TemporaryFile>)>,
    /// The runs with their generations, which descend.
    written: Vec<(u32, Box<dyn RunSource>)>,
    /// The number of first entries that are wanted. Absent for all.
    kept: Option<usize>,
    /// The limit of memory for reading runs.
    memory_bytes_max: usize,
}

/// A run that is being written.
pub(crate) struct NewRun<'r> {
    sink: Box<dyn RunSink>,
    operation: &'r OperationContext,
}

impl NewRun<'_> {
    /// Adds an entry.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), SpillError> {
        // Each entry counts, so that a run of millions can be interrupted. What was written of it is gone then.
        self.operation.pass(key.len() + value.len())?;
        Ok(self.sink.add(key, value)?)
    }
}

impl Runs {
    pub(crate) fn new(
        files: Arc<dyn TemporaryFiles>,
        operation: &OperationContext,
        kept: Option<usize>,
        memory_bytes_max: usize,
    ) -> Self {
        let (operation, open, written) = (operation.clone(), Vec::new(), Vec::new());
        Self { files, operation, open, written, kept, memory_bytes_max }
    }

    /// Writes entries, which are sorted, as the next run. [`settle`](Self::settle) follows.
    pub(crate) fn write<'e>(
        &mut self,
        mut entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Result<(), SpillError> {
        self.write_with(|run| entries.try_for_each(|(key, value)| run.add(key, value)))
    }

    /// Writes the entries that `add_all` adds, which are sorted, as the next run. [`settle`](Self::settle) follows.
    pub(crate) fn write_with(
        &mut self,
        add_all: impl FnOnce(&mut NewRun<'_>) -> Result<(), SpillError>,
    ) -> Result<(), SpillError> {
        self.operation.note_spill();
        let sink = self.begin(0)?;
        let mut run = NewRun { sink, operation: &self.operation };
        add_all(&mut run)?;
        self.written.push((0, run.sink.finish()?));
        Ok(())
    }

    /// Merges runs if there are many. The memory of the entries that were written is free by now.
    pub(crate) fn settle(&mut self) -> Result<(), SpillError> {
        // A merge makes a run of the next generation, which may then have enough runs itself.
        while let Some(first) = self.full_generation() {
            self.merge_from(first)?;
        }
        Ok(())
    }

    /// Merges all runs.
    pub(crate) fn into_merge(mut self) -> Result<Merge, SpillError> {
        // Large entries can make reading all runs at a time use too much. Two are always read.
        while self.written.len() > 2 && self.memory_bytes_from(0) > self.memory_bytes_max {
            // As many of the newest as fit: they are the smallest, and so the cheapest to write again.
            let fits = |&first: &usize| self.memory_bytes_from(first) <= self.memory_bytes_max;
            let first = (1..self.written.len() - 1).find(fits).unwrap_or(self.written.len() - 2);
            self.merge_from(first)?;
        }
        Merge::new(self.written.into_iter().map(|(_, run)| run).collect(), &self.operation)
    }

    /// The position of the first run of the newest generation, if that is to be merged.
    fn full_generation(&self) -> Option<usize> {
        let (generation, _) = self.written.last()?;
        let first = self.written.iter().position(|(of_run, _)| of_run == generation)?;
        let count = self.written.len() - first;
        // Half of the memory, because the runs of older generations are read with the last ones.
        let is_full =
            count >= FAN_IN || count > 1 && self.memory_bytes_from(first) > self.memory_bytes_max / 2;
        is_full.then_some(first)
    }

    /// Merges the runs from the one at `first` on to one run.
    fn merge_from(&mut self, first: usize) -> Result<(), SpillError> {
        // The merged runs are at the end, and so is their result: the runs keep the order of their documents.
        let merged = self.written.split_off(first);
        let generation = merged.iter().map(|(generation, _)| *generation).max().unwrap_or_default();
        let mut merge = Merge::new(merged.into_iter().map(|(_, run)| run).collect(), &self.operation)?;
        let mut run = self.begin(generation + 1)?;
        // Entries after those that are wanted are wanted by no later merge either.
        let mut left = self.kept.unwrap_or(usize::MAX);
        while left > 0 && merge.advance()? {
            run.add(merge.key(), merge.value())?;
            left -= 1;
        }
        self.written.push((generation + 1, run.finish()?));
        // The runs that were merged are gone with this.
        drop(merge);
        self.open.retain(|(of_file, _)| self.written.iter().any(|(of_run, _)| of_run == of_file));
        Ok(())
    }

    /// Begins a run in the file of its generation.
    fn begin(&mut self, generation: u32) -> Result<Box<dyn RunSink>, SpillError> {
        // One file for all of them: a cursor that waits must not hold a descriptor for each run.
        if let Some((_, file)) = self.open.iter().find(|(of_file, _)| *of_file == generation) {
            return Ok(file.begin());
        }
        let file = self.files.create()?;
        let run = file.begin();
        self.open.push((generation, file));
        Ok(run)
    }

    fn memory_bytes_from(&self, first: usize) -> usize {
        let runs = self.written.iter().skip(first);
        runs.map(|(_, run)| run.memory_bytes()).fold(0, usize::saturating_add)
    }
}
