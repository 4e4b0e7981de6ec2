//! Temporary files in memory, which count themselves and can fail.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use cairndb_query::operation::{
    Allowance, OperationContext, RunSink, RunSource, SortedSink, SortedSource, SpillFailure, TemporaryFile,
    TemporaryFiles,
};

type Entry = (Vec<u8>, Vec<u8>);

/// The files of one test.
#[derive(Clone, Default)]
pub(crate) struct Files {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The files and runs that are not dropped.
    open: AtomicUsize,
    /// All that were made.
    made: AtomicUsize,
    /// The number of files that were open at a time, at most.
    files: Mutex<(usize, usize)>,
    /// The call that fails, counted from 1. Without one none does.
    failing: AtomicUsize,
    calls: AtomicUsize,
    /// The memory of reading each file, as it is announced.
    memory_bytes: AtomicUsize,
    /// The length of the longest value that was added.
    value_bytes_max: AtomicUsize,
    /// The length of the longest key that was added to a sorted run.
    sorted_key_bytes_max: AtomicUsize,
    /// The change of a byte of an entry that is read.
    damage: AtomicUsize,
    /// The number of files that were read at a time, at most.
    read: Mutex<(usize, usize)>,
}

#[derive(Debug)]
pub(crate) struct Planted;

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a planted failure")
    }
}

impl std::error::Error for Planted {}

impl Files {
    /// An operation with these files, whose stages may hold `stage_bytes` bytes.
    pub(crate) fn operation(&self, stage_bytes: usize) -> OperationContext {
        self.operation_of(Allowance { stage_bytes: Some(stage_bytes), ..Allowance::default() })
    }

    pub(crate) fn operation_of(&self, allowance: Allowance) -> OperationContext {
        OperationContext::new(Allowance { files: Some(Arc::new(self.clone())), ..allowance })
    }

    pub(crate) fn failing_at(&self, call: usize) -> &Self {
        self.shared.failing.store(call, Relaxed);
        self
    }

    pub(crate) fn reading_takes(&self, bytes: usize) -> &Self {
        self.shared.memory_bytes.store(bytes, Relaxed);
        self
    }

    /// One byte of one of the entries that are read is another one.
    pub(crate) fn damaging(&self, seed: usize) {
        self.shared.damage.store(seed + 1, Relaxed);
    }

    pub(crate) fn value_bytes_max(&self) -> usize {
        self.shared.value_bytes_max.load(Relaxed)
    }

    pub(crate) fn sorted_key_bytes_max(&self) -> usize {
        self.shared.sorted_key_bytes_max.load(Relaxed)
    }

    pub(crate) fn made(&self) -> usize {
        self.shared.made.load(Relaxed)
    }

    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Relaxed)
    }

    pub(crate) fn read_at_once(&self) -> usize {
        self.shared.read.lock().expect("no panic").1
    }

    pub(crate) fn files_at_once(&self) -> usize {
        self.shared.files.lock().expect("no panic").1
    }

    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Relaxed)
    }

    fn call(&self) -> Result<(), SpillFailure> {
        let call = self.shared.calls.fetch_add(1, Relaxed) + 1;
        if call == self.shared.failing.load(Relaxed) { Err(SpillFailure::new(Planted)) } else { Ok(()) }
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("made", &self.made()).finish_non_exhaustive()
    }
}

/// Counts a file or a run as open until it is dropped.
struct Open(Files);

impl Open {
    fn new(files: &Files) -> Self {
        files.shared.open.fetch_add(1, Relaxed);
        files.shared.made.fetch_add(1, Relaxed);
        Self(files.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.shared.open.fetch_sub(1, Relaxed);
    }
}

struct Sink {
    open: Open,
    file: Arc<OneFile>,
    entries: Vec<Entry>,
}

/// A run that is sorted, which its entries show.
struct Sorted(Sink);

/// Entries that are read from anywhere.
struct Sought {
    source: Source,
    entries: Vec<Entry>,
    next: usize,
}

struct Source {
    open: Open,
    #[expect(dead_code, reason = "it is kept open by its runs")]
    file: Arc<OneFile>,
    entries: std::vec::IntoIter<Entry>,
    current: Entry,
    is_started: bool,
}

/// A file lives as long as its runs.
struct File(Arc<OneFile>);

struct OneFile {
    open: Open,
}

impl OneFile {
    fn new(files: &Files) -> Self {
        let mut count = files.shared.files.lock().expect("no panic");
        count.0 += 1;
        count.1 = count.1.max(count.0);
        drop(count);
        Self { open: Open::new(files) }
    }
}

impl Drop for OneFile {
    fn drop(&mut self) {
        self.open.0.shared.files.lock().expect("no panic").0 -= 1;
    }
}

impl TemporaryFiles for Files {
    fn create(&self) -> Result<Box<dyn TemporaryFile>, SpillFailure> {
        self.call()?;
        Ok(Box::new(File(Arc::new(OneFile::new(self)))))
    }
}

impl TemporaryFile for File {
    fn begin(&self) -> Box<dyn RunSink> {
        let open = Open::new(&self.0.open.0);
        Box::new(Sink { open, file: Arc::clone(&self.0), entries: Vec::new() })
    }

    fn begin_sorted(&self, _index_bytes_max: usize) -> Box<dyn SortedSink> {
        let open = Open::new(&self.0.open.0);
        Box::new(Sorted(Sink { open, file: Arc::clone(&self.0), entries: Vec::new() }))
    }
}

impl RunSink for Sink {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), SpillFailure> {
        self.open.0.call()?;
        self.open.0.shared.value_bytes_max.fetch_max(value.len(), Relaxed);
        self.entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn RunSource>, SpillFailure> {
        self.open.0.call()?;
        let Self { open, file, entries } = *self;
        let current = Entry::default();
        Ok(Box::new(Source { open, file, entries: entries.into_iter(), current, is_started: false }))
    }
}

impl SortedSink for Sorted {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), SpillFailure> {
        let last = self.0.entries.last();
        let is_damaged = self.0.open.0.shared.damage.load(Relaxed) > 0;
        let ascends = last.is_none_or(|(last, _)| last.as_slice() < key);
        assert!(ascends || is_damaged, "{last:?} comes before {key:?}");
        self.0.open.0.shared.sorted_key_bytes_max.fetch_max(key.len(), Relaxed);
        self.0.add(key, value)
    }

    fn index_bytes(&self) -> usize {
        self.0.entries.len()
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn SortedSource>, SpillFailure> {
        self.0.open.0.call()?;
        let Sink { open, file, entries } = self.0;
        let (current, none) = (Entry::default(), Vec::new().into_iter());
        let source = Source { open, file, entries: none, current, is_started: false };
        Ok(Box::new(Sought { source, entries, next: 0 }))
    }
}

impl RunSource for Sought {
    fn advance(&mut self) -> Result<bool, SpillFailure> {
        let next: Vec<_> = self.entries.get(self.next).cloned().into_iter().collect();
        self.next += next.len();
        self.source.entries = next.into_iter();
        self.source.advance()
    }

    fn key(&self) -> &[u8] {
        self.source.key()
    }

    fn value(&self) -> &[u8] {
        self.source.value()
    }

    fn memory_bytes(&self) -> usize {
        self.source.memory_bytes()
    }
}

impl SortedSource for Sought {
    fn seek(&mut self, key: &[u8]) -> Result<(), SpillFailure> {
        self.source.open.0.call()?;
        self.next = self.entries.partition_point(|(before, _)| before.as_slice() < key);
        Ok(())
    }
}

impl RunSource for Source {
    fn advance(&mut self) -> Result<bool, SpillFailure> {
        self.open.0.call()?;
        if !self.is_started {
            self.is_started = true;
            let mut read = self.open.0.shared.read.lock().expect("no panic");
            read.0 += 1;
            read.1 = read.1.max(read.0);
        }
        let next = self.entries.next();
        let has_more = next.is_some();
        self.current = next.unwrap_or_default();
        self.damage();
        Ok(has_more)
    }

    fn key(&self) -> &[u8] {
        &self.current.0
    }

    fn value(&self) -> &[u8] {
        &self.current.1
    }

    fn memory_bytes(&self) -> usize {
        self.open.0.shared.memory_bytes.load(Relaxed)
    }
}

impl Source {
    fn damage(&mut self) {
        let seed = self.open.0.shared.damage.load(Relaxed);
        if seed == 0 || !self.open.0.shared.calls.load(Relaxed).is_multiple_of(1 + seed % 40) {
            return;
        }
        let (key, value) = &mut self.current;
        let part = if seed.is_multiple_of(5) { key } else { value };
        let at = (seed * 31) % part.len().max(1);
        if let Some(byte) = part.get_mut(at) {
            *byte ^= 1 << (seed % 8);
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.is_started {
            self.open.0.shared.read.lock().expect("no panic").0 -= 1;
        }
    }
}
