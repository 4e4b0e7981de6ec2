//! Sorting beyond memory: when a sorter's memory is used up, what it keeps becomes a sorted run in a temporary file, and the
//! runs are merged at the end.
//!
//! The order is exactly that of a sort in memory: runs follow each other in the order of their documents, and a merge reads
//! equal keys in the order of their runs. Without temporary files a sort fails at its limit.

use std::cmp::min;

use bson::{RawDocument, RawDocumentBuf};

use index::collation::Collation;

use crate::operation::{OperationContext, SpillFailure};
use crate::sort::Sort;
use crate::sort::collect::{Payload, Sorted, Sorter};
use crate::sort::error::Error;
use crate::sort::key::{FieldsIndex, Order};
use crate::spill::merge::Merge;
use crate::spill::runs::Runs;

/// A rest of fewer bytes stays in memory while the sorted payloads are suspended: one batch or two of a cursor, which
/// are mostly asked for at once.
const RESTING_BYTES_MAX: usize = 4 << 20;

/// A payload that can be moved to a file and back.
pub trait StoredPayload: Payload + Sized {
    /// The payload as bytes.
    fn stored(&self) -> &[u8];

    /// The payload of these bytes. Returns `None` if they are none.
    fn restore(bytes: &[u8]) -> Option<Self>;
}

impl StoredPayload for RawDocumentBuf {
    fn stored(&self) -> &[u8] {
        self.as_bytes()
    }

    fn restore(bytes: &[u8]) -> Option<Self> {
        Self::from_bytes(bytes.to_vec()).ok()
    }
}

impl StoredPayload for Box<[u8]> {
    fn stored(&self) -> &[u8] {
        self
    }

    fn restore(bytes: &[u8]) -> Option<Self> {
        Some(bytes.into())
    }
}

/// Sorts documents, or what it keeps of each one, in memory and beyond.
///
/// ```
/// use bson::{RawDocumentBuf, rawdoc};
/// use cairndb_query::operation::OperationContext;
/// use cairndb_query::sort::Sort;
/// use cairndb_query::sort::spilling::SpillingSorter;
///
/// let sort = Sort::parse(&rawdoc! { "a": 1 })?;
/// let mut sorter = SpillingSorter::new(sort, None, 1 << 20, &OperationContext::default());
/// for document in [rawdoc! { "a": 2 }, rawdoc! { "a": 1 }] {
///     sorter.push(&document, || document.clone())?;
/// }
/// let mut sorted = sorter.sort()?;
/// assert_eq!(sorted.len(), 2);
/// assert_eq!(sorted.next()?, Some(rawdoc! { "a": 1 }));
/// # Ok::<(), cairndb_query::sort::error::Error>(())
/// ```
pub struct SpillingSorter<P> {
    sorter: Sorter<P>,
    limit: Option<usize>,
    /// The target of runs, if the operation may use files.
    runs: Option<Runs>,
    spills: u64,
}

/// The sorted payloads, which are read one by one.
pub struct SortedPayloads<P> {
    source: Source<P>,
    left: u64,
    spills: u64,
    /// The target for what is left in memory. Absent if the operation may not use files, and once that was tried.
    /// Boxed, because few cursors use it.
    runs: Option<Box<Runs>>,
}

enum Source<P> {
    Memory(Sorted<P>),
    /// Boxed, so that a sort in memory does not need its size.
    Files(Box<Merge>),
}

/// A run gave bytes that were not written to it.
#[derive(Debug, thiserror::Error)]
#[error("a temporary file of a sort is damaged")]
struct DamagedRun;

impl<P: StoredPayload> SpillingSorter<P> {
    /// A sorter of an operation that keeps all documents, or the first `limit` of them, in about `memory_bytes_max` bytes of
    /// memory, or less if the operation's stages may hold less.
    pub fn new(
        sort: Sort,
        limit: Option<usize>,
        memory_bytes_max: usize,
        operation: &OperationContext,
    ) -> Self {
        let memory_bytes_max = operation.stage_bytes_max(memory_bytes_max);
        let sorter = Sorter::new(sort, limit, memory_bytes_max).within(operation);
        // Asked once: whether files may be used is known when the operation begins to sort.
        match operation.temporary_files() {
            Some(files) => {
                let runs = Runs::new(files, operation, limit, memory_bytes_max);
                Self { sorter: sorter.spilling(), limit, runs: Some(runs), spills: 0 }
            }
            None => Self { sorter, limit, runs: None, spills: 0 },
        }
    }

    /// A sorter by nothing but what [`push_after`](Self::push_after) is given as prefix.
    pub(crate) fn by_prefix(memory_bytes_max: usize, operation: &OperationContext) -> Self {
        let order = Order::Fields { fields: Vec::new(), index: FieldsIndex::default() };
        let sort = Sort { order, collation: Collation::simple() };
        Self::new(sort, None, memory_bytes_max, operation)
    }

    /// Adds a document. `payload` is called only if the document is kept.
    ///
    /// # Errors
    /// If the document cannot be sorted, if the operation is to end, or if there is neither memory nor a file for it.
    #[inline]
    pub fn push(&mut self, document: &RawDocument, payload: impl FnOnce() -> P) -> Result<(), Error> {
        self.push_after(&[], document, payload)
    }

    /// Adds a document that is sorted by `prefix` before anything else: bytes that sort as the values of an expression.
    #[inline]
    pub(crate) fn push_after(
        &mut self,
        prefix: &[u8],
        document: &RawDocument,
        payload: impl FnOnce() -> P,
    ) -> Result<(), Error> {
        // The document is kept when its memory is found to be too much, so nothing is pushed twice.
        match self.sorter.push_after(prefix, document, payload) {
            Err(exceeded @ Error::MemoryExceeded { .. }) => self.spill(exceeded),
            pushed => pushed,
        }
    }

    /// Moves what is kept to a file, if there may be one: other parts of the operation need the memory.
    pub(crate) fn make_room(&mut self) -> Result<(), Error> {
        match &mut self.runs {
            Some(runs) if !self.sorter.is_empty() => {
                self.spills += 1;
                write(&mut self.sorter, runs)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The payloads that were kept, in order.
    ///
    /// # Errors
    /// If the operation is to end, or a file cannot be written or read.
    pub fn sort(mut self) -> Result<SortedPayloads<P>, Error> {
        let limit = self.limit.map_or(u64::MAX, |limit| limit as u64);
        // A limit leaves out documents in several runs, and all together give what it asks for.
        let left = min(self.sorter.pushed(), limit);
        match self.runs.take() {
            Some(mut runs) if self.spills > 0 => {
                // The rest could stay in memory, but a merge reads only runs.
                if !self.sorter.is_empty() {
                    self.spills += 1;
                    write(&mut self.sorter, &mut runs)?;
                }
                // Its memory is for reading the runs now.
                drop(self.sorter);
                let source = Source::Files(Box::new(runs.into_merge()?));
                Ok(SortedPayloads { source, left, spills: self.spills, runs: None })
            }
            runs => {
                let source = Source::Memory(self.sorter.into_sorted_iter());
                Ok(SortedPayloads { source, left, spills: 0, runs: runs.map(Box::new) })
            }
        }
    }

    /// Moves what is kept to a file. `exceeded` is the error if there is none.
    #[cold]
    fn spill(&mut self, exceeded: Error) -> Result<(), Error> {
        let Some(runs) = &mut self.runs else { return Err(exceeded) };
        self.spills += 1;
        write(&mut self.sorter, runs)
    }
}

/// Writes what a sorter keeps as a run.
fn write<P: StoredPayload>(sorter: &mut Sorter<P>, runs: &mut Runs) -> Result<(), Error> {
    let entries = sorter.take_sorted();
    runs.write(entries.iter().map(|entry| (entry.key.as_slice(), entry.payload.stored())))?;
    // In this order, so that the merges of `settle` have the memory of the entries.
    drop(entries);
    sorter.forget();
    Ok(runs.settle()?)
}

impl<P: StoredPayload> SortedPayloads<P> {
    /// The next payload. Returns `None` at the end.
    ///
    /// # Errors
    /// If the operation is to end, or a file cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would have the error in its items, and go on after it"
    )]
    pub fn next(&mut self) -> Result<Option<P>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let next = match &mut self.source {
            Source::Memory(sorted) => sorted.next(),
            Source::Files(merge) => {
                if merge.advance()? {
                    let restored = P::restore(merge.value());
                    Some(restored.ok_or_else(|| Error::Spill(SpillFailure::new(DamagedRun)))?)
                } else {
                    None
                }
            }
        };
        self.left -= 1;
        Ok(next)
    }

    /// Moves what is left in memory to a file, if there may be one and it is much: the next payload may be asked for much later,
    /// or never. What cannot be moved stays in memory.
    pub fn rest(&mut self) {
        let Source::Memory(sorted) = &self.source else { return };
        let left = sorted.left();
        if self.runs.is_none() || left.iter().map(Payload::heap_bytes).sum::<usize>() <= RESTING_BYTES_MAX {
            return;
        }
        let Some(mut runs) = self.runs.take() else { return };
        // They are in order, so one run without keys is all that there is to read.
        let moved = runs.write(left.iter().map(|payload| (&[][..], payload.stored())));
        if let Ok(merge) = moved.and_then(|()| runs.into_merge()) {
            self.spills += 1;
            self.source = Source::Files(Box::new(merge));
        }
    }

    /// The number of payloads that are left.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Whether no payload is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The number of times that documents were moved to a file.
    pub fn spills(&self) -> u64 {
        self.spills
    }
}
