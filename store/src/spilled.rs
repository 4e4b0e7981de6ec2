//! The temporary files of the store as sorts, groups and joins ask for them.

use query::operation::{
    RunSink, RunSource, SortedSink, SortedSource, SpillFailure, TemporaryFile, TemporaryFiles,
};

use crate::run::{RunReader, RunWriter};
use crate::sorted_run::{SortedReader, SortedWriter};
use crate::spill::{SpillFile, SpillFiles};

/// The result of the files, or the engine's own error.
type Spilled<T> = Result<T, SpillFailure>;

impl TemporaryFiles for SpillFiles {
    fn create(&self) -> Spilled<Box<dyn TemporaryFile>> {
        Ok(Box::new(self.create().map_err(SpillFailure::new)?))
    }
}

impl TemporaryFile for SpillFile {
    fn begin(&self) -> Box<dyn RunSink> {
        Box::new(RunWriter::new(self.clone()))
    }

    fn begin_sorted(&self, index_bytes_max: usize) -> Box<dyn SortedSink> {
        Box::new(SortedWriter::new(self.clone(), index_bytes_max))
    }
}

impl RunSink for RunWriter<SpillFile> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Spilled<()> {
        self.add(key, value).map_err(SpillFailure::new)
    }

    fn finish(self: Box<Self>) -> Spilled<Box<dyn RunSource>> {
        let run = (*self).finish().map_err(SpillFailure::new)?;
        Ok(Box::new(run))
    }
}

impl RunSource for RunReader<SpillFile> {
    fn advance(&mut self) -> Spilled<bool> {
        self.advance().map_err(SpillFailure::new)
    }

    fn key(&self) -> &[u8] {
        self.key()
    }

    fn value(&self) -> &[u8] {
        self.value()
    }

    fn memory_bytes(&self) -> usize {
        self.block_bytes()
    }
}

impl SortedSink for SortedWriter<SpillFile> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Spilled<()> {
        self.add(key, value).map_err(SpillFailure::new)
    }

    fn index_bytes(&self) -> usize {
        self.index_bytes()
    }

    fn finish(self: Box<Self>) -> Spilled<Box<dyn SortedSource>> {
        let run = (*self).finish().map_err(SpillFailure::new)?;
        Ok(Box::new(run))
    }
}

impl RunSource for SortedReader<SpillFile> {
    fn advance(&mut self) -> Spilled<bool> {
        self.advance().map_err(SpillFailure::new)
    }

    fn key(&self) -> &[u8] {
        self.key()
    }

    fn value(&self) -> &[u8] {
        self.value()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl SortedSource for SortedReader<SpillFile> {
    fn seek(&mut self, key: &[u8]) -> Spilled<()> {
        self.seek(key).map_err(SpillFailure::new)
    }
}
