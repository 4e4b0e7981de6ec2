//! Temporary files of an operation: what the caller of this crate gives it, so that sorts, groups and joins can go on beyond
//! their memory.
//!
//! This crate decides when something is moved to a file, and what. The caller makes the files, bounds them, and answers for
//! their bytes: a source gives back exactly what was added, or an error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Makes temporary files. All operations of a store may share one.
pub trait TemporaryFiles: fmt::Debug + Send + Sync {
    /// Makes a file for any number of runs of entries.
    fn create(&self) -> Result<Box<dyn TemporaryFile>, SpillFailure>;
}

/// A temporary file. It is gone, with all its bytes, once it and its runs are dropped.
pub trait TemporaryFile: Send + Sync {
    /// Begins a run of entries. Several may be written by turns.
    fn begin(&self) -> Box<dyn RunSink>;

    /// Begins a run in which keys are looked up. What finds them may need about `index_bytes_max` bytes of memory, however many
    /// entries there are.
    fn begin_sorted(&self, index_bytes_max: usize) -> Box<dyn SortedSink>;
}

/// A run of entries that is being written.
pub trait RunSink: Send + Sync {
    /// Adds an entry.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), SpillFailure>;

    /// Ends the run, which is then read from its beginning.
    fn finish(self: Box<Self>) -> Result<Box<dyn RunSource>, SpillFailure>;
}

/// A run of entries that is read once, in the order in which they were added.
pub trait RunSource: Send + Sync {
    /// Steps to the next entry. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool, SpillFailure>;

    /// The key of the current entry.
    fn key(&self) -> &[u8];

    /// The value of the current entry.
    fn value(&self) -> &[u8];

    /// The most bytes of memory that reading it uses.
    fn memory_bytes(&self) -> usize;
}

/// A run of entries that is being written, each with a greater key than the one before.
pub trait SortedSink: Send + Sync {
    /// Adds an entry.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), SpillFailure>;

    /// The bytes of memory of what finds the keys that were added.
    fn index_bytes(&self) -> usize;

    /// Ends the run, which is then read from anywhere.
    fn finish(self: Box<Self>) -> Result<Box<dyn SortedSource>, SpillFailure>;
}

/// A run of entries that is read from anywhere, as often as it is asked for.
pub trait SortedSource: RunSource {
    /// Goes before the first entry whose key is `key` or greater. Which entry is current until the next step is not said.
    fn seek(&mut self, key: &[u8]) -> Result<(), SpillFailure>;
}

/// The error of a temporary file that could not be created, written or read. It holds the error of the caller who
/// made the file.
#[derive(Clone)]
pub struct SpillFailure {
    cause: Arc<dyn Error + Send + Sync>,
}

impl SpillFailure {
    /// A failure with its cause.
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Arc::new(cause) }
    }

    /// The error of the caller who made the file.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Debug for SpillFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl fmt::Display for SpillFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)
    }
}

impl Error for SpillFailure {}

/// Two failures are equal if they are the same one: errors of callers need not be comparable.
impl PartialEq for SpillFailure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cause, &other.cause)
    }
}

impl Eq for SpillFailure {}
