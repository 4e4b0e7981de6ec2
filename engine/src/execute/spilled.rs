//! The temporary files of the store as sorts and groups ask for them.

use query::operation::{RunSink, RunSource, SpillFailure, TemporaryFile, TemporaryFiles};

use crate::storage::run::{RunReader, RunWriter};
use crate::storage::spill::{SpillFile, SpillFiles};

/// What the files give back, or the engine's own error.
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
